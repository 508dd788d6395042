//! Verdicts on rounds, on the real clock: how often devices that share nothing are taken for a convoy, and how often a
//! convoy is seen.
//!
//! The devices are built from filters: memory that takes 1.95 to 3.45 ms to find a block, the study's positioning and
//! media time twenty times as fast, and a link of 66 MiB/s: one for all of them, whose sender of commands gives way to
//! data, or one for each. Two, four and seven of them by turns have one random read of 64 KiB each under way until each
//! has completed sixty. Every run has its own seed.
//!
//! Of no false alarms in n runs, the true share of them is below 3 / n with 95 percent confidence (the rule of three).
//! What a busy machine does to the timers is part of what is measured: it holds all devices back together, which is the
//! worst that can be taken for a convoy.

use std::cell::RefCell;

use analysis::rounds::{Finish, Rounds, rounds};
use device::filter::{Arbitration, Delay, Latency, Limited, Link};
use device::{Data, Device, MemoryDevice, Shape};
use futures_util::future::join_all;
use record::{Phase, Row};
use runtime::Runtime;
use units::{Bytes, Duration, Rate};
use workload::{Context, Control, Drive, Limits, Mix, Pattern, Phantoms, Stream, Tally};

use crate::runs::Table;

/// Runs on devices with links of their own.
const APART: u64 = 300;
/// Runs on devices behind one link.
const SHARED: u64 = 100;
/// False alarms must be fewer than one in so many runs.
const ALARM_BAR: u64 = 100;
/// Of the runs behind one link, so many percent must be found. Nobody has asked for a number: one miss in ten would
/// make a tool be run twice.
const FOUND_BAR: u64 = 90;
/// Reads of each device that count.
const READS: u64 = 60;
/// Load is on before and after for so long.
const AROUND: Duration = Duration::millis(50);
/// How many devices there are, by turns.
const DEVICES: [u16; 3] = [2, 4, 7];

pub fn run() -> bool {
    let mut table = Table::new("rounds", &["links", "devices", "runs", "found", "share_of_io_in_rounds"]);
    let alarms = verdicts(&mut table, "of their own", APART, false);
    let found = verdicts(&mut table, "one for all", SHARED, true);
    table.keep();
    let (quiet, seen) = (alarms * ALARM_BAR < APART, found * 100 >= SHARED * FOUND_BAR);
    let verdict = |met| if met { "met" } else { "MISSED" };
    println!("  {alarms} false alarms in {APART} runs; bar fewer than 1 in {ALARM_BAR}: {}", verdict(quiet));
    println!("  {found} of {SHARED} convoys found; bar {FOUND_BAR} %: {}", verdict(seen));
    quiet && seen
}

/// How many runs were found to go in rounds.
fn verdicts(table: &mut Table, links: &str, runs: u64, shared: bool) -> u64 {
    let mut all = 0;
    for (place, devices) in (0..).zip(DEVICES) {
        let verdicts: Vec<Rounds> =
            (0..runs).filter(|seed| seed % 3 == place).map(|seed| once(devices, shared, seed)).collect();
        let found = verdicts.iter().filter(|rounds| rounds.found).count() as u64;
        let share = verdicts.iter().map(|rounds| rounds.share.get()).sum::<f64>() / verdicts.len() as f64;
        println!(
            "  links {links}, {devices} devices: {found} of {} found, {:.1} % of I/O in rounds",
            verdicts.len(),
            share * 100.0
        );
        let cells = [
            links.to_owned(),
            devices.to_string(),
            verdicts.len().to_string(),
            found.to_string(),
            format!("{share:.3}"),
        ];
        table.row(&cells);
        all += found;
    }
    all
}

/// One run.
fn once(devices: u16, shared: bool, seed: u64) -> Rounds {
    let runtime = Runtime::live_timers();
    let rate = Rate::bytes_per_second(66.0 * 1024.0 * 1024.0);
    let link = Link::with_command(&runtime, rate, Arbitration::DataFirst, Duration::micros(25));
    let devices: Vec<_> = (0..devices)
        .map(|index| {
            let memory = MemoryDevice::new(&runtime, Shape::new(format!("disk{index}"), Bytes::gib(1)));
            let latency = Latency::Uniform(Duration::micros(1950), Duration::micros(3450));
            let disk = Delay::new(&runtime, memory, latency, seed);
            if shared { Limited::new(disk, &link) } else { Limited::to(&runtime, disk, rate) }
        })
        .collect();
    let mut stream = Stream::closed("readers", Mix::READS, Pattern::Random, Bytes::kib(64), 1);
    stream.limits = Limits { requests: Some(READS), ..Limits::NONE };
    let finishes = load(&runtime, &devices, &stream, seed);
    let names: Vec<String> = devices.iter().map(|device| device.shape().name.clone()).collect();
    rounds(&finishes, &names, None).expect("sixty completions of each of several devices")
}

/// The counted completions, in their order.
fn load(runtime: &Runtime, devices: &[impl Device], stream: &Stream, seed: u64) -> Vec<Finish> {
    let control = Control::new(runtime.now(), AROUND, AROUND, devices.len() as u32);
    let finishes = RefCell::new(Vec::new());
    let observer = RefCell::new(|row: &Row| {
        if row.phase == Phase::Measure {
            finishes.borrow_mut().push(Finish { at: row.completed, device: row.device, pass: 0 });
        }
    });
    let tallies: Vec<Tally> = devices.iter().map(|_| Tally::default()).collect();
    let data = Data::phantom(Bytes::ZERO);
    let drive = |(index, device)| {
        let tally = &tallies[usize::from(index)];
        let context = Context::new(runtime, device, &control, &observer, tally, &Phantoms, &data);
        Drive::new(Context { device_index: index, ..context }, stream, seed * 100 + u64::from(index))
    };
    let drives: Vec<_> = (0..).zip(devices).map(drive).collect();
    runtime.block_on(join_all(drives.iter().map(Drive::run)));
    finishes.into_inner()
}
