//! What several test programs need: machines of the library under closed loops, without an operating system.
#![allow(dead_code)] // each test program uses its part

use std::cell::Cell;
use std::rc::Rc;

use machine::kit::Kit;
use machine::lines::Lines;
use machine::os::command;
use machine::system::Machine;
use machine::trace::Trace;
use rand::RngExt;
use record::Spans;
use runtime::{Random, Runtime};
use units::{Bytes, Duration, Instant};

pub fn machine(system: &str, changes: &[(&str, &str)]) -> (Runtime, Rc<Machine>) {
    let mut kit = Kit::load(system).unwrap();
    for (key, value) in changes {
        kit.set(key, value).unwrap_or_else(|error| panic!("{error}"));
    }
    let runtime = Runtime::simulated();
    let machine =
        kit.build(&runtime, 1, &Trace::new(Spans::on(Bytes::mib(64)))).unwrap_or_else(|error| panic!("{error}"));
    (runtime, Rc::new(machine))
}

/// What a closed loop on some drives asks for.
#[derive(Clone, Copy)]
pub struct Asked {
    pub depth: u32,
    pub size: Bytes,
    pub sequential: bool,
    pub write: bool,
    /// The mean time between requests. With it, times and sizes are exponential.
    pub think: Option<Duration>,
    pub time: Duration,
}

impl Asked {
    pub const fn reads(depth: u32, kib: u64, sequential: bool, millis: u64) -> Asked {
        let (size, time) = (Bytes::kib(kib), Duration::millis(millis));
        Asked { depth, size, sequential, write: false, think: None, time }
    }
}

/// Requests and bytes a second of each drive in the second half of the time, without an operating system.
pub fn rates(runtime: &Runtime, machine: &Rc<Machine>, drives: &[&str], asked: Asked) -> Vec<(f64, f64)> {
    let done: Vec<Rc<Cell<(u64, u64)>>> = drives.iter().map(|_| Rc::default()).collect();
    let (from, to) = (Instant::START + asked.time / 2, Instant::START + asked.time);
    for (index, name) in drives.iter().enumerate() {
        let next = Rc::new(Cell::new(Bytes::ZERO));
        for number in 0..asked.depth {
            let endpoint = Rc::clone(&machine.drive(name).unwrap().endpoint);
            let (runtime, trace, next) = (runtime.clone(), machine.trace.clone(), Rc::clone(&next));
            let done = Rc::clone(&done[index]);
            let mut random = Random::named(5, &format!("{name} {number}"));
            runtime.clone().spawn_detached(async move {
                let slots = endpoint.size() / asked.size / 2;
                while runtime.now() < to {
                    let mut size = asked.size;
                    if let Some(think) = asked.think {
                        let exponential = |random: &mut Random| -(1.0 - random.random::<f64>()).ln();
                        runtime.sleep(think.scale(exponential(&mut random))).await;
                        let blocks = size.get() as f64 / 512.0 * exponential(&mut random);
                        size = Bytes::new(512 * (blocks.ceil() as u64).max(1));
                    }
                    let offset = match asked.sequential {
                        true => next.replace(next.get() + asked.size),
                        false => asked.size * random.random_range(0..slots),
                    };
                    let mut ledger = trace.open(runtime.now());
                    endpoint.execute(command(asked.write, offset, size), Lines::Flushed, &mut ledger).await;
                    ledger.close(runtime.now());
                    if (from..to).contains(&runtime.now()) {
                        let (requests, bytes) = done.get();
                        done.set((requests + 1, bytes + size.get()));
                    }
                }
            });
        }
    }
    runtime.block_on(runtime.sleep(asked.time));
    let seconds = to.since(from).as_seconds();
    let rate = |done: &Rc<Cell<(u64, u64)>>| (done.get().0 as f64 / seconds, done.get().1 as f64 / seconds);
    let rates = done.iter().map(rate).collect();
    runtime.clear();
    rates
}

pub fn bytes(rates: &[(f64, f64)]) -> f64 {
    rates.iter().map(|(_, bytes)| bytes).sum()
}

pub fn near(found: f64, wanted: f64, percent: f64, what: &str) {
    let off = (found / wanted - 1.0).abs() * 100.0;
    assert!(off <= percent, "{what}: {found:.4e} and not {wanted:.4e}: {off:.2} % off");
}
