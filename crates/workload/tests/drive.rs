//! The loops, under both clocks, on devices whose behaviour is known.

mod common;

use common::Server;
use device::{Buffer, Device, DeviceError, MemoryDevice, Request, Shape};
use record::{Phase, Row};
use runtime::Runtime;
use units::{Bytes, Duration, Frequency, Instant, Ratio};
use workload::{Arrivals, Control, Discards, Limits, Load, Mix, OnError, Pattern, Stream, Tally};

fn load(runtime: &Runtime, device: &impl Device, stream: &Stream, control: &Control, on_error: OnError) -> Vec<Row> {
    load_with(runtime, device, stream, control, on_error, &Tally::default())
}

fn load_with(
    runtime: &Runtime,
    device: &impl Device,
    stream: &Stream,
    control: &Control,
    on_error: OnError,
    tally: &Tally,
) -> Vec<Row> {
    common::load((runtime, device), stream, control, 42, (on_error, tally))
}

fn reads(depth: u32) -> Stream {
    Stream::closed("reads", Mix::READS, Pattern::Random, Bytes::kib(4), depth)
}

#[test]
fn a_closed_loop_keeps_its_depth_and_follows_completions() {
    let runtime = Runtime::simulated();
    let device = Server::new(&runtime, 4, Duration::millis(1));
    let mut stream = reads(4);
    stream.limits.time = Some(Duration::millis(100));
    let control = Control::new(Instant::START, Duration::millis(10), Duration::millis(5), 1);
    let rows = load(&runtime, &device, &stream, &control, OnError::Stop);
    let counted: Vec<_> = rows.iter().filter(|row| row.phase == Phase::Measure).collect();
    assert_eq!(counted.len(), 400, "4 servers of 1 ms for 100 ms");
    assert_eq!(rows.len(), 460, "and the load is on in start-up and cool-down");
    assert!(counted.iter().all(|row| row.response() == Duration::millis(1) && row.wait() == Duration::ZERO));
    assert!(rows.iter().all(|row| (row.stream, row.device, row.pass) == (0, 5, 1) && row.depth <= 4));
    assert_eq!(control.counted_until(), Some(Instant::START + Duration::millis(110)));
}

/// Four wait where the device could serve four at once: its rate is that of one, and the wait of the others counts.
#[test]
fn one_at_a_time_waits_in_turn_and_the_wait_is_response() {
    let runtime = Runtime::simulated();
    let device = Server::new(&runtime, 4, Duration::millis(1));
    let mut stream = reads(4);
    stream.one_at_a_time = true;
    stream.limits.time = Some(Duration::millis(100));
    let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, 1);
    let rows = load(&runtime, &device, &stream, &control, OnError::Stop);
    let later: Vec<&Row> = rows.iter().filter(|row| row.completed > Instant::START + Duration::millis(4)).collect();
    assert!(rows.len() >= 100 && rows.len() <= 104, "one each millisecond, and who waits is served: {}", rows.len());
    let alike = |row: &&Row| (row.wait(), row.service()) == (Duration::millis(3), Duration::millis(1));
    assert!(later.iter().all(alike), "{later:?}");
}

/// A full queue of eight is let down to two before it is filled again: the device is given six at a time.
#[test]
fn a_full_queue_waits_until_it_is_low() {
    let runtime = Runtime::simulated();
    let device = Server::new(&runtime, 1, Duration::millis(1));
    let mut stream = reads(8);
    stream.rules.low = Some(2);
    stream.limits.time = Some(Duration::millis(60));
    let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, 1);
    let rows = load(&runtime, &device, &stream, &control, OnError::Stop);
    let mut made: Vec<u64> = rows.iter().map(|row| row.intended.as_nanos() / 1_000_000).collect();
    made.dedup();
    assert_eq!(made[..4], [0, 6, 12, 18], "all at once, then whenever six are done");
}

#[test]
fn think_time_lowers_the_load() {
    let runtime = Runtime::simulated();
    let device = Server::new(&runtime, 1, Duration::millis(1));
    let mut stream = reads(1);
    stream.load = Load::Closed { depth: 1, think: Duration::millis(3) };
    stream.limits.time = Some(Duration::millis(400));
    let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, 1);
    let rows = load(&runtime, &device, &stream, &control, OnError::Stop);
    assert_eq!(rows.len(), 100);
    assert!(rows.iter().all(|row| row.response() == Duration::millis(1)), "thinking is not responding");
}

#[test]
fn limits_by_requests_and_bytes_are_exact() {
    for limits in
        [Limits { requests: Some(1000), ..Limits::NONE }, Limits { bytes: Some(Bytes::kib(4000)), ..Limits::NONE }]
    {
        let runtime = Runtime::simulated();
        let device = Server::new(&runtime, 3, Duration::micros(100));
        let mut stream = reads(7);
        stream.limits = limits;
        let control = Control::new(Instant::START, Duration::millis(1), Duration::millis(1), 1);
        let rows = load(&runtime, &device, &stream, &control, OnError::Stop);
        assert_eq!(rows.iter().filter(|row| row.phase == Phase::Measure).count(), 1000);
        assert!(rows.iter().any(|row| row.phase == Phase::CoolDown));
    }
}

/// Offered 3000/s, served 2000/s: after 5 s the backlog is a third of the time. A tool that counts from submission sees
/// `outstanding` / 2000.
#[test]
fn an_open_loop_counts_from_the_arrival() {
    let runtime = Runtime::simulated();
    let device = Server::new(&runtime, 1, Duration::micros(500));
    let mut stream = reads(1);
    let arrivals = Arrivals::Poisson(Frequency::per_second(3000.0));
    stream.load = Load::Open { arrivals, outstanding: 32 };
    stream.limits.time = Some(Duration::seconds(5));
    let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, 1);
    let rows = load(&runtime, &device, &stream, &control, OnError::Stop);
    let offered = rows.iter().filter(|row| row.phase == Phase::Measure).count();
    assert!((14_500..15_500).contains(&offered), "{offered} arrivals in 5 s");
    let worst = rows.iter().map(Row::response).max().unwrap();
    assert!(worst > Duration::millis(2400) && worst < Duration::millis(2700), "worst response {worst}");
    let at_device = rows.iter().map(Row::service).max().unwrap();
    assert!(at_device <= Duration::millis(16), "the device itself never held one longer than 32 places: {at_device}");
}

/// Offered ten times what it can do, the device is given as long again as was measured; the rest is counted, not
/// awaited.
#[test]
fn a_hopeless_backlog_is_given_up_and_counted() {
    let runtime = Runtime::simulated();
    let device = Server::new(&runtime, 1, Duration::millis(1));
    let mut stream = reads(1);
    stream.load = Load::Open { arrivals: Arrivals::Constant(Frequency::per_second(10_000.0)), outstanding: 8 };
    stream.limits.time = Some(Duration::seconds(1));
    let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, 1);
    let tally = Tally::default();
    let rows = load_with(&runtime, &device, &stream, &control, OnError::Stop, &tally);
    assert_eq!(rows.len() as u64 + tally.unserved.get(), 10_000, "every arrival is accounted for");
    assert!((1990..=2010).contains(&rows.len()), "{} served in two seconds", rows.len());
}

#[test]
fn an_open_loop_below_capacity_keeps_its_rate() {
    let runtime = Runtime::simulated();
    let device = Server::new(&runtime, 8, Duration::millis(1));
    let mut stream = reads(1);
    stream.load = Load::Open { arrivals: Arrivals::Constant(Frequency::per_second(1000.0)), outstanding: 64 };
    stream.limits.time = Some(Duration::seconds(2));
    let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, 1);
    let rows = load(&runtime, &device, &stream, &control, OnError::Stop);
    assert_eq!(rows.len(), 2000);
    assert!(rows.iter().all(|row| row.wait() == Duration::ZERO && row.response() == Duration::millis(1)));
}

#[test]
fn a_rare_arrival_does_not_hold_the_end_of_the_pass() {
    let runtime = Runtime::simulated();
    let device = Server::new(&runtime, 1, Duration::millis(1));
    let mut stream = reads(1);
    stream.load = Load::Open { arrivals: Arrivals::Constant(Frequency::per_second(0.01)), outstanding: 4 };
    stream.limits.time = Some(Duration::seconds(1));
    let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, 1);
    let rows = load(&runtime, &device, &stream, &control, OnError::Stop);
    assert_eq!(rows.len(), 1);
    assert!(runtime.now() < Instant::START + Duration::millis(1200), "ended at {:?}", runtime.now());
}

#[test]
fn errors_stop_the_run_or_are_counted() {
    let error = DeviceError::Medium { offset: Bytes::ZERO, length: Bytes::kib(4) };
    // With three lanes, two more are under way when the first error, or the end, is seen.
    for (on_error, expected) in [(OnError::Stop, 13), (OnError::Continue, 102)] {
        let runtime = Runtime::simulated();
        let mut device = Server::new(&runtime, 1, Duration::millis(1));
        device.fails_after = Some((10, error.clone()));
        let mut stream = reads(3);
        stream.limits.time = Some(Duration::millis(100));
        let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, 1);
        let rows = load(&runtime, &device, &stream, &control, on_error);
        let (good, bad): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.errno == 0);
        assert_eq!(good.len(), 10);
        assert!(bad.iter().all(|row| row.errno == 5));
        assert_eq!(rows.len(), expected);
        assert_eq!(control.was_interrupted(), on_error == OnError::Stop);
    }
}

#[test]
fn a_lost_device_ends_its_streams() {
    let runtime = Runtime::simulated();
    let mut device = Server::new(&runtime, 2, Duration::millis(1));
    device.fails_after = Some((50, DeviceError::Gone));
    let mut stream = reads(4);
    stream.limits.time = Some(Duration::seconds(3600));
    let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, 1);
    let rows = load(&runtime, &device, &stream, &control, OnError::Continue);
    assert_eq!(rows.iter().filter(|row| row.errno != 0).count(), 4, "each lane learns it once");
    assert!(runtime.now() < Instant::START + Duration::seconds(1));
}

/// One suite, two arms: what was written by the stream is on the device, whatever the clock.
#[test]
fn the_same_stream_runs_under_both_clocks() {
    let run = |runtime: Runtime| {
        let device = MemoryDevice::new(&runtime, Shape::new("memory", Bytes::mib(4)));
        let mut stream =
            Stream::closed("mix", Mix { reads: Ratio::percent(30.0) }, Pattern::RandomOnce, Bytes::kib(4), 8);
        stream.limits.requests = Some(1024);
        let begin = runtime.now() + Duration::millis(1);
        let control = Control::new(begin, Duration::ZERO, Duration::ZERO, 1);
        let rows = load(&runtime, &device, &stream, &control, OnError::Stop);
        let asked: Vec<_> = rows.iter().map(|row| (row.operation, row.offset)).take(1024).collect();
        let written = asked.iter().filter(|(operation, _)| *operation == device::Operation::Write).count();
        let mut stored = 0;
        for (operation, offset) in &asked {
            let reply = runtime.block_on(device.submit(Request::read(*offset, Buffer::zeroed(Bytes::kib(4)))));
            let empty = reply.buffer.unwrap().bytes().unwrap().iter().all(|byte| *byte == 0);
            assert_eq!(empty, *operation == device::Operation::Read, "{operation:?} at {offset}");
            stored += usize::from(!empty);
        }
        assert_eq!(stored, written);
        asked
    };
    let (simulated, live) = (run(Runtime::simulated()), run(Runtime::live_timers()));
    let sorted = |mut asked: Vec<(device::Operation, Bytes)>| {
        asked.sort_by_key(|(_, offset)| *offset);
        asked
    };
    assert_eq!(sorted(simulated), sorted(live));
}

#[test]
fn writes_come_in_several_sizes_from_one_memory() {
    let runtime = Runtime::simulated();
    let device = MemoryDevice::new(&runtime, Shape::new("memory", Bytes::mib(4)));
    let mut stream = Stream::closed("mix", Mix { reads: Ratio::percent(50.0) }, Pattern::Random, Bytes::kib(4), 5);
    stream.sizes = workload::Sizes::weighted([(Bytes::new(512), 1), (Bytes::kib(4), 1), (Bytes::kib(64), 1)]).unwrap();
    stream.align = Bytes::SECTOR;
    stream.limits.requests = Some(3000);
    let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, 1);
    let rows = load(&runtime, &device, &stream, &control, OnError::Stop);
    assert!(rows.iter().all(|row| row.errno == 0));
}

/// Two jobs of one run, as fio has them: the short one is over while the long one goes on, and one begins later.
#[test]
fn a_stream_that_stops_at_its_limits_leaves_the_rest_alone_and_a_delay_comes_before_the_first_request() {
    let runtime = Runtime::simulated();
    let device = Server::new(&runtime, 4, Duration::millis(1));
    let mut stream = reads(2);
    stream.limits = Limits { requests: Some(10), stop: true, ..Limits::NONE };
    stream.delay = Duration::millis(50);
    // The other stream of this pass never ends, as far as this one can see.
    let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, 2);
    let rows = load(&runtime, &device, &stream, &control, OnError::Stop);
    assert_eq!(rows.len(), 10, "nothing is asked after the last that counts");
    assert!(rows.iter().all(|row| row.phase == Phase::Measure && row.intended >= Instant::START + stream.delay));
    assert!(control.end().is_none(), "the pass goes on");

    stream.limits = Limits { time: Some(Duration::millis(20)), stop: true, ..Limits::NONE };
    let control = Control::new(runtime.now(), Duration::ZERO, Duration::ZERO, 2);
    let rows = load(&runtime, &device, &stream, &control, OnError::Stop);
    // Two at a time, a millisecond each.
    assert_eq!(rows.len(), 40);
}

/// Whatever the depth, a block is written after its discard has completed.
#[test]
fn each_write_follows_the_discard_of_its_block() {
    let runtime = Runtime::simulated();
    let device = Server::new(&runtime, 3, Duration::micros(70));
    let mut stream = Stream::closed("w", Mix::WRITES, Pattern::Random, Bytes::kib(4), 8);
    stream.discards = Discards::BeforeWrites;
    let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, 1);
    stream.limits = Limits { requests: Some(400), stop: true, ..Limits::NONE };
    let rows = load(&runtime, &device, &stream, &control, OnError::Stop);
    let of = |operation| rows.iter().filter(move |row| row.operation == operation);
    let (discards, writes) = (of(record::Operation::Discard).count(), of(record::Operation::Write).count());
    assert_eq!((discards, writes), (400, 400), "the limit is of blocks, and each that was discarded is written");
    assert!(rows.iter().all(|row| row.phase == Phase::Measure));
    let mut open: Vec<&Row> = of(record::Operation::Discard).collect();
    for write in of(record::Operation::Write) {
        let before = |row: &&Row| row.offset == write.offset && row.completed <= write.submitted;
        let place = open.iter().position(before).expect("a discard of the block has completed");
        open.remove(place);
    }
}

#[test]
fn a_writeback_is_of_what_was_written_since_the_last_flush() {
    use device::{Operation, Writeback};
    use workload::Flushes;
    let runtime = Runtime::simulated();
    let asked = std::cell::RefCell::new(Vec::new());
    let device = device::filter::Recorder::new(&runtime, Server::new(&runtime, 1, Duration::millis(1)), |event| {
        if event.operation == Operation::Flush && event.ended.is_none() {
            asked.borrow_mut().push((event.offset, event.length));
        }
    });
    let mut stream = Stream::closed("s", Mix::WRITES, Pattern::Sequential { from: Bytes::ZERO }, Bytes::kib(4), 1);
    stream.limits = Limits { requests: Some(9), stop: true, ..Limits::NONE };
    let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, 1);
    let rows = std::cell::RefCell::new(Vec::new());
    let observer = std::cell::RefCell::new(|row: &Row| rows.borrow_mut().push(*row));
    let data = stream.data(&workload::Heap, &mut runtime::Random::new(1));
    let tally = Tally::default();
    let context = common::context(&runtime, &device, &control, &observer, &tally, &data);
    let steps = Writeback { write: true, ..Writeback::default() };
    let flushes = Flushes { full: 3, range: (2, steps), ..Flushes::NONE };
    runtime.block_on(workload::Drive { flushes, ..workload::Drive::new(context, &stream, 1) }.run());
    // After two writes, three (all of it), four and six (all of it), and eight.
    let kib = |(from, length)| (Bytes::kib(from), Bytes::kib(length));
    assert_eq!(asked.take(), [kib((0, 8)), kib((0, 0)), kib((12, 4)), kib((0, 0)), kib((24, 8))]);
    let flushes = rows.take().into_iter().filter(|row| row.operation == record::Operation::Flush);
    assert!(flushes.clone().count() == 5 && flushes.map(|row| row.length).all(|length| length == 0));
}

/// A range of no length means "to the end" to the kernel; fio 3.33 makes no call.
#[test]
fn a_writeback_of_nothing_is_not_asked_for() {
    use device::{Operation, Writeback};
    use workload::Flushes;
    let runtime = Runtime::simulated();
    let lengths = std::cell::RefCell::new(Vec::new());
    let device = device::filter::Recorder::new(&runtime, Server::new(&runtime, 1, Duration::millis(1)), |event| {
        if event.operation == Operation::Flush && event.ended.is_none() {
            lengths.borrow_mut().push(event.length);
        }
    });
    let mix = Mix { reads: units::Ratio::new(0.5) };
    let mut stream = Stream::closed("s", mix, Pattern::Sequential { from: Bytes::ZERO }, Bytes::kib(4), 1);
    stream.limits = Limits { requests: Some(200), stop: true, ..Limits::NONE };
    let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, 1);
    let rows = std::cell::RefCell::new(Vec::new());
    let observer = std::cell::RefCell::new(|row: &Row| rows.borrow_mut().push(*row));
    let data = stream.data(&workload::Heap, &mut runtime::Random::new(1));
    let tally = Tally::default();
    let context = common::context(&runtime, &device, &control, &observer, &tally, &data);
    let steps = Writeback { write: true, ..Writeback::default() };
    let flushes = Flushes { range: (1, steps), after_reads: true, after_last: true, ..Flushes::NONE };
    runtime.block_on(workload::Drive { flushes, ..workload::Drive::new(context, &stream, 1) }.run());
    let writes = rows.take().iter().filter(|row| row.operation == record::Operation::Write).count();
    // One after each write, and none after a read.
    assert!((50..150).contains(&writes), "{writes}");
    assert_eq!(lengths.take(), vec![Bytes::kib(4); writes]);
}

#[test]
fn flushes_are_rows_of_their_own_between_the_requests_of_a_lane() {
    use record::Operation::{Flush, Read, Write};
    use workload::Flushes;
    let made = |mix: Mix, flushes: Flushes| -> Vec<Row> {
        let runtime = Runtime::simulated();
        let device = Server::new(&runtime, 1, Duration::millis(1));
        let mut stream = Stream::closed("s", mix, Pattern::Sequential { from: Bytes::ZERO }, Bytes::kib(4), 1);
        stream.limits = Limits { requests: Some(6), stop: true, ..Limits::NONE };
        let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, 1);
        let rows = std::cell::RefCell::new(Vec::new());
        let observer = std::cell::RefCell::new(|row: &Row| rows.borrow_mut().push(*row));
        let data = stream.data(&workload::Heap, &mut runtime::Random::new(1));
        let tally = Tally::default();
        let context = common::context(&runtime, &device, &control, &observer, &tally, &data);
        runtime.block_on(workload::Drive { flushes, ..workload::Drive::new(context, &stream, 1) }.run());
        rows.take()
    };
    let kinds = |rows: &[Row]| rows.iter().map(|row| row.operation).collect::<Vec<_>>();
    let every_second = Flushes { data: 2, ..Flushes::NONE };
    let rows = made(Mix::WRITES, every_second);
    assert_eq!(kinds(&rows), [Write, Write, Flush, Write, Write, Flush, Write, Write]);
    assert!(rows.iter().all(|row| row.response() == Duration::millis(1) && row.phase == Phase::Measure), "{rows:?}");
    assert_eq!(rows[3].intended, Instant::START + Duration::millis(3), "the write behind a flush waits for it");
    let last = made(Mix::WRITES, Flushes { after_last: true, ..every_second });
    assert_eq!((last.len(), last[8].operation), (9, Flush));
    assert_eq!(kinds(&made(Mix::READS, every_second)), [Read; 6]);
    // fio's way with mixed jobs: what is due after a write is due after each read up to the next write.
    let mixed =
        kinds(&made(Mix { reads: Ratio::percent(50.0) }, Flushes { full: 1, after_reads: true, ..Flushes::NONE }));
    let first = mixed.iter().position(|kind| *kind == Write).unwrap();
    assert!(mixed[..first].iter().all(|kind| *kind == Read));
    assert!(mixed[first..mixed.len() - 1].chunks(2).all(|pair| pair[1] == Flush), "{mixed:?}");
}
