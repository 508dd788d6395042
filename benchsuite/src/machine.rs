//! Whole modelled machines, loaded as devices are, by random reads of 4 KB: RAID-I with 14 disks on four strings, one
//! process each, through the operating system; and 60 disks behind a SAS expander, 32 requests at each.
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
const REQUESTS: u64 = amount(4_000, 100) as u64;

/// Which machine, which of its disks, and how they are asked.
struct Load {
    system: &'static str,
    disks: usize,
    name: fn(usize) -> String,
    way: Way,
    depth: u32,
}

const RAID_I: Load = Load {
    system: "raid-i",
    disks: 14,
    name: |disk| format!("disk-{}.{}", [0, 2, 4, 6][disk % 4], disk / 4),
    way: Way::Raw,
    depth: 1,
};

const SAS_60: Load =
    Load { system: "sas-60", disks: 60, name: |disk| format!("disk-{disk}"), way: Way::NoCopy, depth: 32 };

pub fn run() -> bool {
    let (mut requests, mut spans) = (0, 0);
    let many = best(ROUNDS, || (requests, _) = load(&SAS_60, Spans::off()));
    // 300,000 requests in a second of a processor.
    let fast = line(
        "60 disks behind an expander, depth 32, spans off",
        many.cpu * 1e6 / requests as f64,
        "us a request",
        Some(3.33),
    );
    let off = best(ROUNDS, || (requests, _) = load(&RAID_I, Spans::off()));
    line("14 disks through Sprite, spans off", off.cpu * 1e6 / requests as f64, "us a request", None);
    let on = best(ROUNDS, || (requests, spans) = load(&RAID_I, Spans::on(Bytes::gib(1))));
    println!("  {:.1} spans a request", spans as f64 / requests as f64);
    // 100,000 requests in a second of a processor.
    fast & line("14 disks through Sprite, spans on", on.cpu * 1e6 / requests as f64, "us a request", Some(10.0))
}

/// How many requests were made, and how many spans they left.
fn load(load: &Load, spans: Spans) -> (u64, usize) {
    let runtime = Runtime::simulated();
    let kit = Kit::load(load.system).expect("the system comes with the program");
    let machine = Rc::new(kit.build(&runtime, 1, &Trace::new(spans)).expect("it is good"));
    let spots: Vec<String> = (0..load.disks).map(load.name).collect();
    let devices = entries(&machine, &spots, load.way).expect("the way through the disks needs no array");
    let stream = Stream::closed("random", Mix::READS, Pattern::Random, Bytes::kib(4), load.depth);
    let stream = Stream { limits: Limits { requests: Some(REQUESTS), ..Limits::NONE }, ..stream };
    let made = Cell::new(0);
    let observer = RefCell::new(|_: &Row| made.set(made.get() + 1));
    let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, load.disks as u32);
    let (tally, data) = (Tally::default(), stream.data(&Phantoms, &mut Random::new(1)));
    let (left, through) = (Cell::new(load.disks), Signal::default());
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
