//! Rounds on devices that truly convoy, and on devices that do not: built from filters, under the virtual clock.

use std::cell::RefCell;

use analysis::rounds::{Finish, Rounds, rounds};
use device::filter::{Arbitration, Delay, Latency, Limited, Link};
use device::{Device, MemoryDevice, Shape};
use futures_util::future::join_all;
use record::{Phase, Row};
use runtime::Runtime;
use units::{Bytes, Duration, Rate};
use workload::{Control, Drive, Limits, Mix, OnError, Pattern, Phantoms, Stream, Tally};

/// Reads of 64 KiB at depth 1 on each device, so many counted on each.
fn load(runtime: &Runtime, devices: &[impl Device], requests: u64, seed: u64) -> Rounds {
    let mut stream = Stream::closed("readers", Mix::READS, Pattern::Random, Bytes::kib(64), 1);
    stream.limits = Limits { requests: Some(requests), ..Limits::NONE };
    let control = Control::new(runtime.now(), Duration::millis(200), Duration::millis(200), devices.len() as u32);
    let finishes = RefCell::new(Vec::new());
    let observer = RefCell::new(|row: &Row| {
        if row.phase == Phase::Measure {
            finishes.borrow_mut().push(Finish { at: row.completed, device: row.device, pass: 0 });
        }
    });
    let tallies: Vec<Tally> = devices.iter().map(|_| Tally::default()).collect();
    let data = device::Data::phantom(Bytes::ZERO);
    let drives = (0..).zip(devices).map(|(index, device)| Drive {
        runtime,
        device,
        stream: &stream,
        control: &control,
        observer: &observer,
        tally: &tallies[usize::from(index)],
        on_error: OnError::Stop,
        stream_index: 0,
        device_index: index,
        pass: 0,
        seed: seed * 100 + u64::from(index),
        memory: &Phantoms,
        data: &data,
    });
    let drives: Vec<_> = drives.collect();
    runtime.block_on(join_all(drives.iter().map(Drive::run)));
    let names: Vec<String> = devices.iter().map(|device| device.shape().name.clone()).collect();
    rounds(&finishes.borrow(), &names, None).unwrap()
}

/// Disks that position for 5 to 35 ms, as the study's do, and then take 34 ms to read 64 KiB into their buffer, at 1.86 MiB/s.
fn disk(runtime: &Runtime, index: u16, seed: u64) -> Delay<MemoryDevice> {
    let memory = MemoryDevice::new(runtime, Shape::new(format!("disk{index}"), Bytes::gib(1)));
    Delay::new(runtime, memory, Latency::Uniform(Duration::millis(39), Duration::millis(69)), seed)
}

/// Disks on one bus of 3.3 MiB/s, on which a command takes a moment.
fn on_one_bus(devices: u16, arbitration: Arbitration, seed: u64) -> Rounds {
    let runtime = Runtime::simulated();
    let rate = Rate::bytes_per_second(3.3 * 1024.0 * 1024.0);
    let link = Link::with_command(&runtime, rate, arbitration, Duration::micros(500));
    let disks: Vec<_> = (0..devices).map(|index| Limited::new(disk(&runtime, index, seed), &link)).collect();
    load(&runtime, &disks, 1000, seed)
}

#[test]
fn disks_behind_one_bus_that_prefers_data_convoy() {
    for (devices, seed) in [(2, 1), (4, 2), (7, 3)] {
        let rounds = on_one_bus(devices, Arbitration::DataFirst, seed);
        assert!(rounds.found, "{devices} disks: {rounds:?}");
        println!("{}", rounds.evidence);
        assert!(rounds.share.get() > 0.8, "{devices} disks: {}", rounds.evidence);
        // A small delta is a transfer of 64 KiB at 3.3 MiB/s.
        let small = rounds.small.mean.unwrap().as_millis();
        assert!(devices == 2 || (small - 18.9).abs() < 1.5, "{devices} disks: {small} ms");
        assert!((rounds.fairness.get() - 1.0).abs() < 0.001, "{devices} disks: {}", rounds.fairness);
    }
}

#[test]
fn the_same_disks_do_not_convoy_when_commands_go_first() {
    let rounds = on_one_bus(7, Arbitration::CommandFirst, 3);
    assert!(!rounds.found, "{}", rounds.evidence);
}

/// The bar is one in a hundred.
#[test]
fn disks_with_links_of_their_own_are_hardly_ever_taken_for_a_convoy() {
    let runs = 300;
    let mut alarms = 0;
    for seed in 0..runs {
        let runtime = Runtime::simulated();
        let rate = Rate::bytes_per_second(3.3 * 1024.0 * 1024.0);
        let devices = [2, 4, 7][seed as usize % 3];
        let disks: Vec<_> =
            (0..devices).map(|index| Limited::to(&runtime, disk(&runtime, index, seed), rate)).collect();
        alarms += u64::from(load(&runtime, &disks, 60, seed).found);
    }
    println!("{alarms} false alarms in {runs} runs");
    assert!(alarms * 100 < runs, "{alarms} of {runs}");
}
