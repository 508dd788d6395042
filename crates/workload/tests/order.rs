//! Pipelined and lock-step streams: what is asked when, of devices that note it.

use std::cell::RefCell;

use device::filter::{Delay, Event, Latency, Recorder};
use device::{Data, Device, MemoryDevice, Operation, Shape, Stamps};
use futures_util::future::join_all;
use record::{Phase, Row};
use runtime::{Resource, Runtime};
use units::{Bytes, Duration, Instant};
use workload::{Context, Control, Drive, Limits, LockStep, Mix, Pattern, Phantoms, Stream, Tally};

/// Where a request was, how long, and when.
type Seen = (Bytes, Bytes, Stamps);

/// Loads each device with the stream; rows in order of completion, and the sectors that were announced.
fn load(runtime: &Runtime, devices: &[impl Device], stream: &Stream) -> (Vec<Row>, u64) {
    let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, devices.len() as u32);
    let rows = RefCell::new(Vec::new());
    let observer = RefCell::new(|row: &Row| rows.borrow_mut().push(*row));
    let tally = Tally::default();
    let turns = stream.turns.map(|turns| Resource::new(runtime, turns));
    let step = stream.lock_step.then(|| LockStep::new(devices.len() as u32 * stream.lanes()));
    let data = Data::phantom(stream.sizes.largest() + Bytes::mib(1));
    let drives: Vec<_> = (0..)
        .zip(devices)
        .map(|(device_index, device)| {
            let context = Context::new(runtime, device, &control, &observer, &tally, &Phantoms, &data);
            let drive = Drive::new(Context { device_index, ..context }, stream, 7 + u64::from(device_index));
            Drive { turns: turns.as_ref(), lock_step: step.as_ref(), ..drive }
        })
        .collect();
    let failures = runtime.block_on(join_all(drives.iter().map(Drive::run)));
    assert!(failures.iter().all(Option::is_none), "{failures:?}");
    (rows.into_inner(), tally.announced.get())
}

fn device(runtime: &Runtime, millis: u64) -> Delay<MemoryDevice> {
    let memory = MemoryDevice::new(runtime, Shape::new("memory", Bytes::mib(64)));
    Delay::new(runtime, memory, Latency::Fixed(Duration::millis(millis)), 1)
}

fn reads(depth: u32, requests: u64) -> Stream {
    let mut stream = Stream::closed("reads", Mix::READS, Pattern::Random, Bytes::kib(64), depth);
    stream.limits = Limits { requests: Some(requests), ..Limits::NONE };
    stream
}

#[test]
fn a_pipelined_stream_reads_the_sector_before_each_block_while_the_one_before_it_is_under_way() {
    let runtime = Runtime::simulated();
    let seen: RefCell<Vec<Seen>> = RefCell::default();
    let note =
        |event: &Event| seen.borrow_mut().extend(event.ended.map(|(stamps, _)| (event.offset, event.length, stamps)));
    let device = Recorder::new(&runtime, device(&runtime, 5), note);
    // No block twice, so that each sector belongs to one.
    let stream = Stream { pipeline: true, pattern: Pattern::RandomOnce, ..reads(1, 50) };
    let (rows, announced) = load(&runtime, std::slice::from_ref(&device), &stream);
    let seen = seen.borrow();
    let (sectors, blocks): (Vec<&Seen>, Vec<&Seen>) = seen.iter().partition(|(_, length, _)| *length == Bytes::SECTOR);
    assert_eq!((blocks.len(), rows.len()), (50, 50), "sectors have no rows");
    assert!(announced >= 48 && sectors.len() as u64 == announced, "{announced} of {}", sectors.len());
    for pair in blocks.windows(2).filter(|pair| !pair[1].0.is_zero()) {
        let (&(_, _, now), &(offset, _, next)) = (pair[0], pair[1]);
        let sector = sectors.iter().find(|(at, ..)| *at + Bytes::SECTOR == offset);
        let (_, _, sector) = sector.expect("every block but the first is announced");
        assert!(sector.submitted >= now.submitted && sector.submitted < now.completed);
        assert!(next.submitted >= sector.completed, "a block is asked for once its sector has come");
    }
}

#[test]
fn pipelining_changes_neither_what_is_asked_nor_in_which_order() {
    let offsets = |pipeline| {
        let runtime = Runtime::simulated();
        let (rows, _) = load(&runtime, &[device(&runtime, 5)], &Stream { pipeline, ..reads(1, 80) });
        rows.iter().map(|row| row.offset).collect::<Vec<Bytes>>()
    };
    assert_eq!(offsets(true), offsets(false));
}

#[test]
fn writes_are_not_announced() {
    let runtime = Runtime::simulated();
    let stream = Stream { pipeline: true, mix: Mix { reads: units::Ratio::percent(50.0) }, ..reads(1, 100) };
    let (rows, announced) = load(&runtime, &[device(&runtime, 1)], &stream);
    let reads = rows.iter().filter(|row| row.operation == Operation::Read).count() as u64;
    assert!(reads > 20 && reads < 80, "{reads} reads");
    // All reads but one that came first or lies at the start; and the one that is never asked.
    assert!(announced <= reads + 1 && announced + 2 >= reads, "{announced} of {reads}");
}

#[test]
fn in_lock_step_nobody_is_ahead_of_the_slowest() {
    for depth in [1, 2] {
        let runtime = Runtime::simulated();
        let devices = [device(&runtime, 1), device(&runtime, 7), device(&runtime, 3)];
        let (rows, _) = load(&runtime, &devices, &Stream { lock_step: true, ..reads(depth, 40) });
        let mut submitted: Vec<u64> = rows.iter().map(|row| row.submitted.as_nanos() / 1_000_000).collect();
        submitted.sort_unstable();
        let each = 3 * depth as usize;
        for (round, requests) in submitted.chunks(each).enumerate() {
            assert!(requests.iter().all(|at| *at == 7 * round as u64), "round {round}: {requests:?}");
        }
        // Waiting for the others is not the device's time.
        assert!(rows.iter().all(|row| row.wait().is_zero() && row.service() <= Duration::millis(7)));
    }
}

#[test]
fn without_lock_step_the_fast_are_ahead() {
    let runtime = Runtime::simulated();
    let devices = [device(&runtime, 1), device(&runtime, 7)];
    let mut stream = reads(1, 40);
    stream.limits = Limits { time: Some(Duration::millis(70)), ..Limits::NONE };
    let (rows, _) = load(&runtime, &devices, &stream);
    assert_eq!([0, 1].map(|device| rows.iter().filter(|row| row.device == device).count()), [70, 10]);
}

/// The most requests that were under way at one time.
fn most_under_way(rows: &[Row]) -> usize {
    let under_way = |at: Instant| rows.iter().filter(|row| row.submitted <= at && at < row.completed).count();
    rows.iter().map(|row| under_way(row.submitted)).max().expect("there are rows")
}

#[test]
fn turns_bound_what_is_under_way_over_all_devices() {
    for turns in [1, 2, 5] {
        let runtime = Runtime::simulated();
        let devices = [5, 2, 9].map(|millis| device(&runtime, millis));
        let stream = Stream { turns: Some(turns), ..reads(2, 40) };
        let (rows, _) = load(&runtime, &devices, &stream);
        assert_eq!(most_under_way(&rows), turns as usize, "six lanes want to");
        for index in 0..3 {
            let counted = rows.iter().filter(|row| row.device == index && row.phase == Phase::Measure).count();
            assert_eq!(counted, 40, "device {index} with {turns} turns");
        }
    }
}

#[test]
fn one_turn_goes_round_from_device_to_device_however_fast_they_are() {
    let runtime = Runtime::simulated();
    let devices = [5, 2, 9].map(|millis| device(&runtime, millis));
    let stream = Stream { turns: Some(1), ..reads(1, 20) };
    let (rows, _) = load(&runtime, &devices, &stream);
    let order: Vec<u16> = rows.iter().map(|row| row.device).collect();
    assert!(order.len() >= 60 && order.iter().zip([0, 1, 2].iter().cycle()).all(|(a, b)| a == b), "{order:?}");
    // Sixteen milliseconds for three: nothing is done meanwhile.
    let (first, last) = (rows[0].submitted, rows[59].completed);
    assert_eq!(last.since(first), Duration::millis(16 * 20));
}

#[test]
fn processes_that_are_started_apart_begin_apart() {
    let runtime = Runtime::simulated();
    let devices = [5, 5, 5].map(|millis| device(&runtime, millis));
    let stream = Stream { delay: Duration::millis(7), apart: Duration::millis(30), ..reads(1, 20) };
    let (rows, _) = load(&runtime, &devices, &stream);
    for (index, begins) in [(0, 7), (1, 37), (2, 67)] {
        let first = rows.iter().find(|row| row.device == index).expect("each device is loaded");
        assert_eq!(first.submitted, Instant::START + Duration::millis(begins), "device {index}");
    }
}
