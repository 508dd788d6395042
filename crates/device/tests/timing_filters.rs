//! Filters that take time: delays, limits and shared links, under both clocks.

mod common;

use std::cell::RefCell;
use std::rc::Rc;

use common::{filled, memory};
use device::filter::{Arbitration, Delay, Event, Latency, Limited, Link, Pace, Recorder, Slow};
use device::{Buffer, Device, Request};
use futures_util::future::join_all;
use runtime::Runtime;
use units::{Bytes, Duration, Instant, Rate, Ratio};

fn read(length: Bytes) -> Request {
    Request::read(Bytes::ZERO, Buffer::phantom(length))
}

/// 64 KiB take 16 ms.
fn slow() -> Rate {
    Rate::bytes_per_second(4.0 * 1024.0 * 1024.0)
}

#[test]
fn a_fixed_delay_is_added_to_each_request_and_delays_no_other() {
    let runtime = Runtime::simulated();
    let device = Delay::new(&runtime, memory(&runtime, Bytes::mib(1)), Latency::Fixed(Duration::millis(3)), 1);
    let replies = runtime.block_on(join_all((0..5).map(|_| device.submit(read(Bytes::kib(4))))));
    assert!(replies.iter().all(|reply| reply.stamps.service() == Duration::millis(3)));
    assert_eq!(runtime.now(), Instant::START + Duration::millis(3));
}

#[test]
fn a_uniform_delay_stays_within_its_bounds_and_repeats_with_its_seed() {
    let times = |seed| {
        let runtime = Runtime::simulated();
        let latency = Latency::Uniform(Duration::micros(100), Duration::micros(200));
        let device = Delay::new(&runtime, memory(&runtime, Bytes::mib(1)), latency, seed);
        let replies = runtime.block_on(join_all((0..2000).map(|_| device.submit(Request::flush()))));
        replies.iter().map(|reply| reply.stamps.service().as_nanos()).collect::<Vec<u64>>()
    };
    let first = times(1);
    assert!(first.iter().all(|time| (100_000..=200_000).contains(time)));
    // The mean of 2000 draws is within 4 of its standard errors (100 us / sqrt(12 * 2000) = 645 ns) of the middle.
    let mean = first.iter().sum::<u64>() as f64 / 2000.0;
    assert!((mean - 150_000.0).abs() < 4.0 * 645.0, "mean {mean} ns");
    assert_eq!(first, times(1));
    assert_ne!(first, times(2));
}

#[test]
fn an_exponential_delay_has_its_mean() {
    let runtime = Runtime::simulated();
    let latency = Latency::Exponential(Duration::millis(1));
    let device = Delay::new(&runtime, memory(&runtime, Bytes::mib(1)), latency, 7);
    let replies = runtime.block_on(join_all((0..4000).map(|_| device.submit(Request::flush()))));
    let mean = replies.iter().map(|reply| reply.stamps.service().as_seconds()).sum::<f64>() / 4000.0;
    assert!((mean - 1e-3).abs() < 4.0 * 1e-3 / 4000f64.sqrt(), "mean {mean} s");
}

#[test]
fn a_limit_gives_its_rate_and_saves_nothing_up() {
    let runtime = Runtime::simulated();
    let device = Limited::to(&runtime, memory(&runtime, Bytes::mib(1)), slow());
    runtime.block_on(async {
        runtime.sleep(Duration::seconds(10)).await;
        let replies = join_all((0..4).map(|_| device.submit(read(Bytes::kib(64))))).await;
        let service: Vec<Duration> = replies.iter().map(|reply| reply.stamps.service()).collect();
        let expected = [16_000_000, 31_250_000, 46_875_000, 62_500_000].map(Duration::nanos);
        assert!(service.iter().zip(expected).all(|(a, b)| a.saturating_sub(b) < Duration::millis(1)), "{service:?}");
        assert_eq!(service[3], Duration::nanos(62_500_000), "four times 64 KiB at 4 MiB/s");
    });
}

#[test]
fn commands_and_flushes_do_not_wait_for_bytes_unless_the_link_says_so() {
    let runtime = Runtime::simulated();
    let plain = Limited::to(&runtime, memory(&runtime, Bytes::mib(1)), slow());
    assert!(runtime.block_on(plain.submit(Request::flush())).stamps.service().is_zero());
    let link = Link::with_command(&runtime, slow(), Arbitration::FirstCome, Duration::micros(500));
    let bus = Limited::new(memory(&runtime, Bytes::mib(1)), &link);
    assert_eq!(runtime.block_on(bus.submit(Request::flush())).stamps.service(), Duration::micros(500));
    assert_eq!(link.busy(), Duration::micros(500));
}

/// The order in which the ports of a link are served when port 0 asks three times, then ports 1 and 2 ask twice each.
fn order_of_service(arbitration: Arbitration) -> Vec<usize> {
    let runtime = Runtime::simulated();
    let link = Link::new(&runtime, slow(), arbitration);
    let devices: Vec<_> = (0..3).map(|_| Limited::new(memory(&runtime, Bytes::mib(1)), &link)).collect();
    let order = Rc::new(RefCell::new(Vec::new()));
    let asks = [0, 0, 0, 1, 1, 2, 2].map(|port| {
        let (device, order) = (&devices[port], Rc::clone(&order));
        async move {
            device.submit(filled(0, 8, 1)).await.result.unwrap();
            order.borrow_mut().push(port);
        }
    });
    runtime.block_on(join_all(asks));
    drop(devices);
    Rc::try_unwrap(order).unwrap().into_inner()
}

#[test]
fn first_come_serves_in_order_of_asking() {
    assert_eq!(order_of_service(Arbitration::FirstCome), [0, 0, 0, 1, 1, 2, 2]);
}

#[test]
fn round_robin_lets_the_ports_take_turns() {
    assert_eq!(order_of_service(Arbitration::RoundRobin), [0, 1, 2, 0, 1, 2, 0]);
}

/// Runs seven equal disks, one reader each, behind one bus that they could saturate; gives the share of time it is
/// busy.
fn bus_use(arbitration: Arbitration) -> f64 {
    let runtime = Runtime::simulated();
    // 16 KiB hold the bus for 4.7 ms, seven of them for 33 ms; a disk needs 14 to 18 ms.
    let link = Link::with_command(&runtime, Rate::bytes_per_second(3.5e6), arbitration, Duration::micros(100));
    let readers = (0..7).map(|disk| {
        let latency = Latency::Uniform(Duration::millis(14), Duration::millis(18));
        let device = Limited::new(Delay::new(&runtime, memory(&runtime, Bytes::mib(1)), latency, disk), &link);
        runtime.spawn(async move {
            for _ in 0..300 {
                device.submit(read(Bytes::kib(16))).await.result.unwrap();
            }
        })
    });
    let readers: Vec<_> = readers.collect();
    runtime.block_on(join_all(readers));
    link.busy().as_seconds() / runtime.now().since(Instant::START).as_seconds()
}

#[test]
fn commands_that_wait_for_data_idle_the_bus_once_a_round() {
    let smooth = bus_use(Arbitration::CommandFirst);
    assert!(smooth > 0.97, "commands first: {smooth:.3}");
    // A round is 33 ms of transfers, then about 16 ms in which all disks seek and the bus idles: two thirds.
    // In order of asking a command waits behind the data of all other disks, so that is no cure.
    for convoy in [Arbitration::DataFirst, Arbitration::FirstCome].map(bus_use) {
        assert!((0.6..0.75).contains(&convoy), "{convoy:.3}");
    }
}

#[test]
fn a_request_that_gives_up_leaves_the_link_to_the_next() {
    let runtime = Runtime::simulated();
    let device = Limited::to(&runtime, memory(&runtime, Bytes::mib(1)), slow());
    runtime.block_on(async {
        let first = device.submit(read(Bytes::kib(64)));
        let second = Box::pin(device.submit(read(Bytes::kib(64))));
        let third = device.submit(read(Bytes::kib(64)));
        let give_up = async {
            let sleep = runtime.sleep(Duration::millis(2));
            futures_util::future::select(second, Box::pin(sleep)).await;
        };
        let (_, (), third) = futures_util::join!(first, give_up, third);
        assert_eq!(third.stamps.service(), Duration::nanos(31_250_000), "two transfers, not three");
    });
}

#[test]
fn a_shared_link_holds_its_rate_in_real_time() {
    let runtime = Runtime::live_timers();
    let link = Link::new(&runtime, Rate::bytes_per_second(64e6), Arbitration::FirstCome);
    let devices: Vec<_> = (0..2).map(|_| Limited::new(memory(&runtime, Bytes::mib(1)), &link)).collect();
    let started = runtime.now();
    // 2 x 20 transfers of 64 KiB at 64 MB/s: 41 ms. Late wake-ups must not add up, so little more is allowed.
    runtime.block_on(join_all(devices.iter().flat_map(|d| (0..20).map(|_| d.submit(read(Bytes::kib(64)))))));
    let taken = runtime.now().since(started);
    assert!(taken >= Duration::millis(40), "{taken}");
    assert_eq!(link.busy(), Duration::micros(1024) * 40);
}

#[test]
fn a_recorder_sees_each_request_start_and_end() {
    let runtime = Runtime::simulated();
    let seen: RefCell<Vec<Event>> = RefCell::default();
    let slow = Delay::new(&runtime, memory(&runtime, Bytes::mib(1)), Latency::Fixed(Duration::millis(1)), 0);
    let device = Recorder::new(&runtime, slow, |event: &Event| seen.borrow_mut().push(*event));
    let out_of_range = Request::read(Bytes::mib(1), Buffer::phantom(Bytes::SECTOR));
    runtime.block_on(async {
        device.submit(filled(3, 1, 9).with_fua().with_id(77)).await.result.unwrap();
        device.submit(out_of_range).await.result.unwrap_err();
    });
    let seen = seen.borrow();
    assert_eq!((seen.len(), seen[0].ended), (4, None));
    let (stamps, errno) = seen[1].ended.unwrap();
    assert_eq!((seen[1].id, seen[1].fua, seen[1].offset), (77, true, Bytes::new(1536)));
    assert_eq!((stamps.service(), errno), (Duration::millis(1), 0));
    assert_eq!(seen[3].ended.unwrap().1, 22);
}

/// How long a closed loop of `depth` takes for 40 requests of 4 KiB, 1 ms each and one at a time, at this pace.
fn slowed(depth: usize, pace: Pace) -> Duration {
    let runtime = Runtime::simulated();
    let rate = Rate::bytes_per_second(4.0 * 1024.0 * 1000.0);
    let device = Rc::new(Slow::new(&runtime, Limited::to(&runtime, memory(&runtime, Bytes::mib(1)), rate), pace));
    let lanes: Vec<_> = (0..depth)
        .map(|_| {
            let device = Rc::clone(&device);
            runtime.spawn(async move {
                for _ in 0..40 / depth {
                    device.submit(read(Bytes::kib(4))).await.result.unwrap();
                }
            })
        })
        .collect();
    runtime.block_on(join_all(lanes));
    runtime.now().since(Instant::START)
}

#[test]
fn a_device_in_slow_motion_passes_less_also_where_requests_queue() {
    let pace = |percent: f64, at_once| Pace { by: Ratio::percent(percent), beyond: Duration::ZERO, at_once };
    assert_eq!(slowed(1, pace(0.0, None)), Duration::millis(40));
    assert_eq!(slowed(1, pace(100.0, None)), Duration::millis(80));
    assert_eq!(slowed(8, pace(0.0, Some(1))), Duration::millis(40), "a bound alone costs nothing");
    assert_eq!(slowed(8, pace(50.0, Some(1))), Duration::millis(60));
    // Without the bound the queue hides what is held, all but the last round.
    assert!(slowed(8, pace(50.0, None)) < Duration::millis(46));
    // What is the asker's is no part of the share.
    let beyond = Pace { beyond: Duration::micros(400), ..pace(100.0, None) };
    assert_eq!(slowed(1, beyond), Duration::millis(64));
}
