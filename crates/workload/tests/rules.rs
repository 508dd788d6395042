//! Rules that end a stream before its limits, in virtual time.

mod common;

use std::cell::RefCell;

use common::Server;
use device::filter::{Effect, Faulty, Rule};
use device::{DeviceError, Operation, PaceUnit};
use record::Row;
use runtime::{Random, Runtime};
use units::{Bytes, Duration, Frequency, Instant};
use workload::{
    Context, Control, Drive, Figure, Heap, Least, Limit, Mix, OnError, Pattern, RateLimit, Rules, Settling, Stream,
    Tally,
};

/// Closed loops of one request of a millisecond, as many as there are rules, for ten seconds.
fn streams(rules: impl IntoIterator<Item = Rules>) -> Vec<Stream> {
    let stream = |rules| {
        let mut stream = Stream::closed("reads", Mix::READS, Pattern::Random, Bytes::kib(4), 1);
        stream.limits.time = Some(Duration::seconds(10));
        stream.limits.stop = true;
        stream.rules = rules;
        stream
    };
    rules.into_iter().map(stream).collect()
}

fn control(streams: &[Stream]) -> Control {
    let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, streams.len() as u32);
    control.ruled(streams.iter().map(|stream| &stream.rules))
}

/// By stream: how many requests it made, when the last had completed, and what ended it.
fn run(
    runtime: &Runtime,
    device: &impl device::Device,
    streams: &[Stream],
    control: &Control,
) -> Vec<(usize, Duration, Option<DeviceError>)> {
    let rows = RefCell::new(Vec::<Row>::new());
    let observer = RefCell::new(|row: &Row| rows.borrow_mut().push(*row));
    let tallies: Vec<Tally> = streams.iter().map(|_| Tally::default()).collect();
    let data = streams[0].data(&Heap, &mut Random::new(1));
    let drives = (0u16..).zip(streams.iter().zip(&tallies)).map(|(index, (stream, tally))| {
        let context = Context::new(runtime, device, control, &observer, tally, &Heap, &data);
        let on_error = stream.rules.on_error.unwrap_or([OnError::Stop; 2]);
        let Rules { ignored, ends_full, .. } = &stream.rules;
        let context = Context { stream_index: index, on_error, ignored, ends_full: *ends_full, ..context };
        async move { Drive::new(context, stream, 1).run().await }
    });
    let failures = runtime.block_on(futures_util::future::join_all(drives));
    let rows = rows.into_inner();
    let of = |index: usize| rows.iter().filter(move |row| usize::from(row.stream) == index);
    let last = |index| of(index).map(|row| row.completed).max().unwrap_or(Instant::START).since(Instant::START);
    (0..).zip(failures).map(|(index, failure)| (of(index).count(), last(index), failure)).collect()
}

#[test]
fn a_steady_stream_ends_and_its_neighbour_goes_on() {
    let runtime = Runtime::simulated();
    let device = Server::new(&runtime, 4, Duration::millis(1));
    let second = Duration::seconds(1);
    let steady = |with| Settling {
        with,
        figure: Figure::Requests,
        slope: false,
        limit: Limit::Percent(5.0),
        window: second * 3,
        interval: second,
        ramp: second,
    };
    let ruled = Rules { steady: Some(steady(1)), ..Rules::default() };
    let streams = streams([ruled.clone(), ruled, Rules::default()]);
    let ends = run(&runtime, &device, &streams, &control(&streams));
    // A second without looking, three values, and what was under way then.
    let most = second * 4 + Duration::millis(1);
    assert!(ends[..2].iter().all(|end| (second * 4..=most).contains(&end.1)), "{ends:?}");
    assert_eq!(ends[2].1, second * 10);
}

#[test]
fn a_pace_below_the_least_and_a_late_request_end_a_stream_as_errors() {
    let runtime = Runtime::simulated();
    let device = Server::new(&runtime, 4, Duration::millis(1));
    let least = |requests| Rules {
        least: Some(Least { every: Duration::seconds(1), bytes: [0; 2], requests: [requests, 0] }),
        ..Rules::default()
    };
    let late = |micros| Rules { longest: Some(Duration::micros(micros)), ..Rules::default() };
    let streams = streams([least(50), least(200), late(1000), late(999)]);
    let slow = RateLimit { requests: Some(Frequency::per_second(100.0)), bytes: None, burst: Duration::ZERO };
    let control = control(&streams).throttled(None, [Some(slow), Some(slow), None, None]);
    let ends = run(&runtime, &device, &streams, &control);
    assert_eq!((ends[0].0, ends[0].2.as_ref()), (1000, None));
    let (got, unit) = (100, PaceUnit::Requests);
    assert_eq!(ends[1].2, Some(DeviceError::Slow { got, least: 200, unit }));
    assert!(ends[1].1 > Duration::seconds(3) && ends[1].1 < Duration::millis(3100), "{:?}", ends[1]);
    assert_eq!(ends[2].2, None);
    let (took, most) = (Duration::millis(1), Duration::micros(999));
    assert_eq!((ends[3].0, ends[3].2.as_ref()), (1, Some(&DeviceError::Late { took, most })));
}

#[test]
fn an_error_ends_the_stream_that_had_it_or_none_by_its_direction() {
    for (on_error, wanted) in
        [([OnError::Leave, OnError::Continue], 100), ([OnError::Continue, OnError::Leave], 10_001)]
    {
        let runtime = Runtime::simulated();
        let device = Faulty::new(&runtime, Server::new(&runtime, 4, Duration::millis(1)), 1);
        let rule = |on_error| Rules { on_error: Some(on_error), ..Rules::default() };
        device.add(Rule::new(Effect::Fail(DeviceError::NoSpace)).on(Operation::Read).after(99).times(1));
        let streams = streams([rule(on_error)]);
        let ends = run(&runtime, &device, &streams, &control(&streams));
        assert_eq!((ends[0].0, ends[0].2.as_ref()), (wanted, Some(&DeviceError::NoSpace)));
    }
}

#[test]
fn errors_that_are_ignored_are_counted_and_others_end_the_stream() {
    // ENOSPC and EIO; the read of a hundred that fails does so for want of space.
    for (ignored, wanted) in [(vec![28], 10_001), (vec![5], 100)] {
        let runtime = Runtime::simulated();
        let device = Faulty::new(&runtime, Server::new(&runtime, 4, Duration::millis(1)), 1);
        device.add(Rule::new(Effect::Fail(DeviceError::NoSpace)).on(Operation::Read).after(99).times(1));
        let on_error = Some([OnError::Leave; 2]);
        let streams = streams([Rules { on_error, ignored: [ignored, vec![]], ..Rules::default() }]);
        let ends = run(&runtime, &device, &streams, &control(&streams));
        assert_eq!((ends[0].0, ends[0].2.as_ref()), (wanted, Some(&DeviceError::NoSpace)));
    }
}

#[test]
fn a_stream_that_fills_its_device_ends_without_an_error_when_it_is_full() {
    for (error, failed) in [(DeviceError::NoSpace, false), (DeviceError::ReadOnly, true)] {
        let runtime = Runtime::simulated();
        let device = Faulty::new(&runtime, Server::new(&runtime, 4, Duration::millis(1)), 1);
        device.add(Rule::new(Effect::Fail(error.clone())).on(Operation::Write).after(99));
        let rules = Rules { on_error: Some([OnError::Leave; 2]), ends_full: true, ..Rules::default() };
        let mut streams = streams([rules, Rules::default()]);
        streams[0].mix = Mix::WRITES;
        let ends = run(&runtime, &device, &streams, &control(&streams));
        assert_eq!((ends[0].0, ends[0].2.clone()), (100, failed.then_some(error)));
        assert_eq!(ends[1].0, 10_000, "its neighbour goes on");
    }
}

#[test]
fn the_end_of_one_is_that_of_its_group() {
    let runtime = Runtime::simulated();
    let device = Server::new(&runtime, 4, Duration::millis(1));
    let group = |group, ends_group| Rules { group, ends_group, ..Rules::default() };
    let mut streams = streams([group(0, true), group(0, false), group(1, false)]);
    streams[0].limits.time = Some(Duration::seconds(2));
    let ends = run(&runtime, &device, &streams, &control(&streams));
    assert_eq!([0, 1, 2].map(|index| ends[index].1), [2, 2, 10].map(Duration::seconds));
}
