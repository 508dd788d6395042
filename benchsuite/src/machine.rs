//! A whole modelled machine, loaded as devices are: RAID-I with 14 disks on four strings, one process each, 4 KB random
//! reads through the operating system.
//!
//! What is counted is a request's whole way: generator, system call, drivers, adapter, bus phases, seek, interrupt,
//! flush and copy, its row, and its spans where they are on.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use machine::entry::{Way, entries};
use machine::kit::Kit;
use machine::trace::Trace;
use record::{Row, Spans};
use runtime::{Random, Runtime, Signal};
use units::{Bytes, Duration, Instant};
use workload::{Context, Control, Drive, Limits, Mix, Pattern, Phantoms, Stream, Tally};

use crate::measure::{amount, best, line};

const ROUNDS: u32 = amount(5, 1);
const DISKS: usize = 14;
const REQUESTS: u64 = amount(4_000, 100) as u64;

pub fn run() -> bool {
    let (mut requests, mut spans) = (0, 0);
    let off = best(ROUNDS, || (requests, _) = load(Spans::off()));
    line("14 disks through Sprite, spans off", off.cpu * 1e6 / requests as f64, "us a request", None);
    let on = best(ROUNDS, || (requests, spans) = load(Spans::on(Bytes::gib(1))));
    println!("  {:.1} spans a request", spans as f64 / requests as f64);
    // 100,000 requests in a second of a processor.
    line("14 disks through Sprite, spans on", on.cpu * 1e6 / requests as f64, "us a request", Some(10.0))
}

/// How many requests were made, and how many spans they left.
fn load(spans: Spans) -> (u64, usize) {
    let runtime = Runtime::simulated();
    let kit = Kit::load("raid-i").expect("the system comes with the program");
    let machine = Rc::new(kit.build(&runtime, 1, &Trace::new(spans)).expect("it is good"));
    let name = |disk| format!("disk-{}.{}", [0, 2, 4, 6][disk % 4], disk / 4);
    let spots: Vec<String> = (0..DISKS).map(name).collect();
    let devices = entries(&machine, &spots, Way::Raw).expect("the way through the disks needs no array");
    let stream = Stream::closed("random", Mix::READS, Pattern::Random, Bytes::kib(4), 1);
    let stream = Stream { limits: Limits { requests: Some(REQUESTS), ..Limits::NONE }, ..stream };
    let made = Cell::new(0);
    let observer = RefCell::new(|_: &Row| made.set(made.get() + 1));
    let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, DISKS as u32);
    let (tally, data) = (Tally::default(), stream.data(&Phantoms, &mut Random::new(1)));
    let (left, through) = (Cell::new(DISKS), Signal::default());
    let drives = (0..).zip(&devices).map(|(index, device)| {
        let context = Context::new(&runtime, device, &control, &observer, &tally, &Phantoms, &data);
        let drive = Drive::new(Context { device_index: index, ..context }, &stream, u64::from(index));
        let (left, through) = (&left, &through);
        async move {
            assert_eq!(drive.run().await, None);
            left.set(left.get() - 1);
            through.notify();
        }
    });
    runtime.block_on_with(drives, through.wait_until(|| left.get() == 0));
    (made.get(), machine.trace.take().map_or(0, |log| log.spans().len()))
}
