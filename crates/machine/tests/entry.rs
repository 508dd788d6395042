//! The ways into a machine as devices, driven by the streams that drive real disks.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use device::{Buffer, Device, DeviceError, Request};
use futures_util::future::join_all;
use machine::cpu::Cpu;
use machine::entry::{Way, entries};
use machine::kit::Kit;
use machine::system::Machine;
use machine::trace::Trace;
use record::{Row, SpanLog, Spans};
use runtime::{Random, Runtime};
use units::{Bytes, Duration, Instant};
use workload::{Context, Control, Drive, Limits, Load, Mix, Pattern, Phantoms, Stream, Tally};

/// What came of a stream on some disks.
struct Done {
    rows: Vec<Row>,
    machine: Rc<Machine>,
    spans: Option<SpanLog>,
}

fn drive(spots: &[(usize, usize)], way: Way, stream: &Stream, spans: Spans) -> Done {
    let runtime = Runtime::simulated();
    let trace = Trace::new(spans);
    let machine = Rc::new(Kit::load("raid-i").unwrap().build(&runtime, 7, &trace).unwrap());
    let disks: Vec<String> = spots.iter().map(|(string, disk)| format!("disk-{string}.{disk}")).collect();
    let devices = entries(&machine, &disks, way).unwrap();
    let rows = RefCell::new(Vec::new());
    let observer = RefCell::new(|row: &Row| rows.borrow_mut().push(*row));
    let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, devices.len() as u32);
    let (tally, data) = (Tally::default(), stream.data(&Phantoms, &mut Random::new(1)));
    runtime.block_on(join_all((0..).zip(&devices).map(|(index, device)| {
        let context = Context::new(&runtime, device, &control, &observer, &tally, &Phantoms, &data);
        let drive = Drive::new(Context { device_index: index, ..context }, stream, 3 + u64::from(index));
        async move { assert_eq!(drive.run().await, None) }
    })));
    Done { rows: rows.into_inner(), spans: machine.trace.take(), machine }
}

fn random(mix: Mix, kib: u64, depth: u32, requests: u64) -> Stream {
    let stream = Stream::closed("s", mix, Pattern::Random, Bytes::kib(kib), depth);
    Stream { limits: Limits { requests: Some(requests), ..Limits::NONE }, ..stream }
}

fn all_spans() -> Spans {
    Spans::on(Bytes::mib(64))
}

const ARRAY: Way = Way::Array;

#[test]
fn spans_of_each_request_tile_exactly_the_time_that_its_row_says() {
    for way in [Way::NoCopy, Way::Raw, ARRAY] {
        for mix in [Mix::READS, Mix::WRITES] {
            let done = drive(&[(0, 0), (0, 1), (2, 0)], way, &random(mix, 48, 2, 40), all_spans());
            let log = done.spans.unwrap();
            let mut extents: BTreeMap<u64, (Instant, Instant)> = BTreeMap::new();
            for span in log.spans().iter().filter(|span| span.request > 0) {
                let extent = extents.entry(span.request).or_insert((span.start, span.end));
                *extent = (extent.0.min(span.start), extent.1.max(span.end));
            }
            log.check(extents.iter().map(|(request, (start, end))| (*request, *start, *end))).unwrap();
            let mut extents: Vec<(Instant, Instant)> = extents.into_values().collect();
            extents.sort();
            for row in &done.rows {
                let found = extents.binary_search(&(row.submitted, row.completed));
                assert!(found.is_ok(), "{way:?}: no request of the spans is {row:?}");
            }
            let members = if way == ARRAY { 1 } else { 0 };
            assert!(extents.len() > done.rows.len() * members);
        }
    }
}

#[test]
fn spans_change_nothing_and_off_keep_nothing() {
    for way in [Way::NoCopy, Way::Raw, ARRAY] {
        let stream = random(Mix::READS, 4, 3, 60);
        let with = drive(&[(0, 0), (0, 1), (1, 0)], way, &stream, all_spans());
        let without = drive(&[(0, 0), (0, 1), (1, 0)], way, &stream, Spans::off());
        assert_eq!(with.rows, without.rows);
        assert!(without.spans.is_none() && !with.spans.unwrap().spans().is_empty());
    }
}

#[test]
fn a_closed_loop_of_depth_n_is_n_processes_that_keep_the_processor_until_they_block() {
    let one = drive(&[(0, 0)], Way::Raw, &random(Mix::READS, 4, 1, 100), Spans::off());
    let load = one.machine.load();
    // A dispatch for the first call, and one after each interrupt: from its return to its next call a process stays on
    // the processor.
    assert_eq!((load.count("dispatches"), load.count("switches")), (one.rows.len() as u64 + 1, 0));
    // With several, some take over from another that was running.
    let spots: Vec<_> = (0..14).map(|disk| (disk % 7, disk / 7)).collect();
    let many = drive(&spots, Way::Raw, &random(Mix::READS, 4, 2, 60), Spans::off());
    let load = many.machine.load();
    assert!(load.count("switches") > 100, "{load:?}");
}

#[test]
fn between_two_calls_is_time_of_the_caller_and_not_of_the_request() {
    let done = drive(&[(0, 0)], Way::Raw, &random(Mix::READS, 4, 1, 20), all_spans());
    let machine = &done.machine;
    let instructions = machine.drives()[0].os.parameters.between_calls as f64;
    let between = instructions / machine.part::<Cpu>("processor").unwrap().parameters.instructions.get();
    assert_eq!(done.rows[0].wait(), Duration::ZERO);
    for row in &done.rows[1..] {
        assert!((row.wait().as_seconds() - between).abs() < 1e-6, "{row:?}");
    }
    let log = done.spans.unwrap();
    let aside: Duration = log.spans().iter().filter(|span| span.request == 0).map(record::Span::time).sum();
    assert_eq!(aside, done.rows.iter().map(Row::wait).sum());
}

#[test]
fn a_process_whose_caller_thinks_leaves_the_processor_to_others() {
    let mut stream = random(Mix::READS, 4, 2, 50);
    stream.load = Load::Closed { depth: 2, think: Duration::millis(200) };
    let done = drive(&[(0, 0), (2, 0)], Way::Raw, &stream, Spans::off());
    // Nobody waits for a processor that a thinking process holds: four requests in somewhat more than each 200 ms.
    assert!(done.rows.iter().all(|row| row.service() < Duration::millis(150)), "{:?}", done.rows);
    // It has to be dispatched again: once for the call, once after the interrupt.
    assert_eq!(done.machine.load().count("dispatches"), 2 * done.rows.len() as u64);
}

#[test]
fn what_a_machine_cannot_do_is_refused_and_nothing_happens() {
    let runtime = Runtime::simulated();
    let machine = Rc::new(Kit::load("raid-i").unwrap().build(&runtime, 7, &Trace::default()).unwrap());
    let disk = entries(&machine, &["disk-0.0"], Way::Raw).unwrap().remove(0);
    let end = disk.shape().size;
    let ask = |request| runtime.block_on(disk.submit(request)).result;
    let block = || Buffer::phantom(Bytes::kib(4));
    assert_eq!(
        ask(Request::read(end - Bytes::SECTOR, block())),
        Err(DeviceError::OutOfRange { offset: end - Bytes::SECTOR, length: Bytes::kib(4), size: end })
    );
    assert!(matches!(ask(Request::read(Bytes::new(100), block())), Err(DeviceError::Misaligned { .. })));
    assert_eq!(ask(Request::read(Bytes::ZERO, Buffer::zeroed(Bytes::kib(4)))), Err(DeviceError::Unsupported));
    assert_eq!(ask(Request::discard(Bytes::ZERO, Bytes::kib(4))), Err(DeviceError::Unsupported));
    assert_eq!(runtime.now(), Instant::START);
    assert_eq!(ask(Request::flush()), Ok(()));
    assert_eq!(ask(Request::read(end - Bytes::kib(4), block())), Ok(()));
    assert!(runtime.now() > Instant::START);
}

#[test]
fn the_same_seed_gives_the_same_rows_and_spans() {
    let run = || {
        let done = drive(&[(0, 0), (0, 1), (2, 0)], Way::Raw, &random(Mix::READS, 4, 2, 100), all_spans());
        (done.rows, done.spans.unwrap().spans().to_vec(), done.machine.load())
    };
    assert_eq!(run(), run());
}

#[test]
fn a_starving_adapter_still_gets_through() {
    // Four adapters want more than the backplane has; the last in the order of priorities must not wait for ever.
    let spots: Vec<_> = (0..16).map(|disk| (disk % 4 * 2, disk / 4)).collect();
    let mut stream = random(Mix::READS, 32, 1, 0);
    (stream.pattern, stream.limits) =
        (Pattern::Sequential { from: Bytes::ZERO }, Limits { time: Some(Duration::seconds(4)), ..Limits::NONE });
    let done = drive(&spots, Way::NoCopy, &stream, Spans::off());
    let counts = (0..16).map(|disk| done.rows.iter().filter(|row| row.device == disk).count());
    assert!(counts.clone().all(|count| count > 10), "{:?}", counts.collect::<Vec<_>>());
    assert!(done.machine.load().count("time-outs") > 0);
}
