//! The order in which a drive serves what waits for it.

use crate::common;
use machine::disk::controller::Controller;
use machine::disk::diskspecs::import_files;
use machine::disk::drive::{Drive, Request};
use machine::disk::mechanism::Access;
use machine::disk::parameters::{Parameters, Policy, Preseek, WriteBack};
use rand::RngExt;
use runtime::Random;
use units::{Duration, Instant};

/// A drive whose buffer and overheads stay out of the way.
fn drive(policy: Policy) -> Parameters {
    let mut parameters = common::example();
    parameters.queue.policy = policy;
    parameters.buffer.caching = false;
    parameters.write.preseek = Preseek::AfterCompletion;
    parameters
}

/// The first block of a cylinder of the example drive.
fn on(parameters: &Parameters, cylinder: u32) -> u64 {
    let geometry = &parameters.mechanism.geometry;
    (0..geometry.blocks()).find(|block| geometry.locate(*block).cylinder == cylinder).unwrap()
}

/// The order in which requests on these cylinders, all issued at once behind one on the first, are served.
fn order(parameters: &Parameters, cylinders: &[u32]) -> Vec<u32> {
    let mut controller = Controller::new(parameters.clone());
    let mut served = Vec::new();
    for cylinder in cylinders {
        let request = Request::new(Access::Read, on(parameters, *cylinder), 1);
        controller.submit(Instant::START, u64::from(*cylinder), request);
        if served.is_empty() {
            served.push(controller.turn(Instant::START).tag as u32);
        }
    }
    while let Some(at) = controller.next_turn() {
        served.push(controller.turn(at).tag as u32);
    }
    served
}

#[test]
fn each_policy_has_its_order() {
    let waiting = [100, 190, 90, 120, 10];
    let of = |policy| order(&drive(policy), &waiting);
    assert_eq!(of(Policy::Fcfs), waiting);
    assert_eq!(of(Policy::Sstf), [100, 90, 120, 190, 10]);
    assert_eq!(of(Policy::Scan), [100, 120, 190, 90, 10]);
    assert_eq!(of(Policy::CLook), [100, 120, 190, 10, 90]);
}

#[test]
fn the_shortest_positioning_time_is_that_of_the_next_sector_to_come_round() {
    let parameters = drive(Policy::Sptf);
    let geometry = parameters.mechanism.geometry.clone();
    let mut controller = Controller::new(parameters);
    // All on one track: what comes first is decided by rotation alone.
    let blocks: Vec<u64> = (0..60).map(|step| step * 17 % 60).collect();
    assert!(blocks.iter().all(|block| geometry.locate(*block).cylinder == 0 && geometry.locate(*block).head == 0));
    for block in &blocks {
        controller.submit(Instant::START, *block, Request::new(Access::Read, *block, 1));
    }
    let mut turns = 0;
    while let Some(at) = controller.next_turn() {
        let turn = controller.turn(at);
        let least = turn.service.rotation;
        assert!(least <= Duration::micros(8334), "one revolution of 7200 rpm");
        turns += 1;
    }
    assert_eq!(turns, 60);
    // Sixty requests of one revolution each would take half a second.
    let finished = controller.drive().clone().flush(controller.next_turn().unwrap_or(Instant::START));
    assert!(finished < Instant::from_nanos(500_000_000));
}

/// Requests per second of a closed loop of 16 random requests of 4 KiB.
fn throughput(parameters: Parameters, access: Access) -> f64 {
    let blocks = parameters.mechanism.geometry.blocks();
    let mut controller = Controller::new(parameters);
    let mut last = Instant::START;
    let mut random = Random::new(4);
    let mut any = || Request::new(access, random.random_range(0..blocks - 8), 8);
    for tag in 0..16 {
        controller.submit(Instant::START, tag, any());
    }
    for _ in 0..5000 {
        let turn = controller.turn(controller.next_turn().unwrap());
        last = turn.service.completes;
        controller.submit(last, turn.tag, any());
    }
    5000.0 / last.since(Instant::START).as_seconds()
}

#[test]
fn policies_that_know_more_serve_more() {
    let [fcfs, sstf, sptf] =
        [Policy::Fcfs, Policy::Sstf, Policy::Sptf].map(|policy| throughput(drive(policy), Access::Read));
    println!("requests a second: fcfs {fcfs:.1}, sstf {sstf:.1}, sptf {sptf:.1}");
    assert!(sstf > 1.1 * fcfs && sptf > 1.1 * sstf, "fcfs {fcfs}, sstf {sstf}, sptf {sptf}");
}

/// The drive takes the write that it can begin soonest. A write needs its data, which come after the write before it is
/// on the medium. A sector that passes earlier costs a revolution, 8.3 ms here.
#[test]
fn the_next_write_is_one_whose_data_come_in_time() {
    for back in [WriteBack::Never, WriteBack::Always] {
        let mut parameters = drive(Policy::Sptf);
        (parameters.write.back, parameters.buffer.write_segments) = (back, 1);
        // Far too long for the sectors that come round first.
        parameters.bus.write_block = Duration::micros(300);
        let waits = Duration::micros(300) * 8;
        let read = throughput(parameters.clone(), Access::Read);
        let write = throughput(parameters, Access::Write);
        println!("{back:?}: {read:.1} reads and {write:.1} writes a second");
        // Each of them waits for its data, and for what comes round next of 16: no whole turn.
        let least = 1.0 / (1.0 / read + waits.as_seconds() + 1.5e-3);
        assert!(write > least, "{back:?}: {write} writes a second, {least} without lost turns");
    }
}

/// Writes a second of 16 under way, with 1 to 32 segments for what the drive has said to be written.
fn with_segments(parameters: &Parameters) -> [f64; 6] {
    [1, 2, 4, 8, 16, 32].map(|segments| {
        let mut parameters = parameters.clone();
        (parameters.queue.policy, parameters.queue.depth) = (Policy::Sptf, 16);
        parameters.write.back = WriteBack::Always;
        (parameters.buffer.write_segments, parameters.buffer.segments) = (segments, segments + 2);
        throughput(parameters, Access::Write)
    })
}

/// A drive chooses among what waits in its buffer and in its queue: more segments are more choice, never less.
#[test]
fn more_segments_for_writes_are_never_slower() {
    let mut drives = vec![("example".to_owned(), common::example())];
    if let Some(folder) = common::drives() {
        drives.extend(common::DRIVES.map(|(name, file)| {
            let part = import_files(&folder.join("parameters").join(file), None, None).unwrap().part;
            (name.to_owned(), Parameters::read(&part).unwrap())
        }));
    }
    for (name, parameters) in drives {
        let rates = with_segments(&parameters);
        println!("{name}: {rates:.1?} writes a second");
        assert!(rates.windows(2).all(|pair| pair[1] > 0.99 * pair[0]), "{name}: {rates:?}");
        assert!(rates[5] > 1.1 * rates[0], "{name}: {rates:?}");
    }
}

#[test]
fn an_age_limit_ends_starvation() {
    let wait = |age_limit| {
        let mut parameters = drive(Policy::Sstf);
        parameters.queue.age_limit = age_limit;
        let (near, far) = (on(&parameters, 3), on(&parameters, 219));
        let mut controller = Controller::new(parameters);
        controller.submit(Instant::START, 0, Request::new(Access::Read, near, 1));
        controller.submit(Instant::START, 1, Request::new(Access::Read, far, 1));
        let mut longest = Duration::ZERO;
        for tag in 2..200 {
            let now = controller.next_turn().unwrap();
            // There is always another one near.
            controller.submit(now, tag, Request::new(Access::Read, near, 1));
            let turn = controller.turn(now);
            longest = longest.max(turn.queued);
            if turn.tag == 1 {
                return Some(longest);
            }
        }
        None
    };
    assert_eq!(wait(None), None, "without a limit the far request starves");
    let waited = wait(Some(Duration::millis(100))).expect("with one it does not");
    assert!(waited > Duration::millis(100) && waited < Duration::millis(150), "{waited}");
}

#[test]
fn a_drive_looks_only_at_the_requests_that_it_has_taken() {
    let mut parameters = drive(Policy::Sstf);
    parameters.queue.depth = 2;
    // With two in the drive at a time, 99 is seen only when one of the two before it is done.
    assert_eq!(order(&parameters, &[100, 10, 200, 99]), [100, 10, 99, 200]);
    parameters.queue.depth = 8;
    assert_eq!(order(&parameters, &[100, 10, 200, 99]), [100, 99, 10, 200]);
}

#[test]
fn one_request_at_a_time_is_the_drive_itself() {
    let parameters = common::example();
    let blocks = parameters.mechanism.geometry.blocks();
    let (mut drive, mut controller) = (Drive::new(parameters.clone()), Controller::new(parameters));
    let mut now = Instant::START;
    for n in 0..2000u64 {
        let access = if n % 3 == 0 { Access::Write } else { Access::Read };
        let request = Request::new(access, n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (blocks - 40), 1 + n % 40);
        let served = drive.serve(now, request);
        controller.submit(now, n, request);
        assert_eq!(controller.next_turn(), Some(now));
        assert_eq!(controller.turn(now).service, served);
        now = served.completes + Duration::micros(n % 7 * 1000);
    }
}

#[test]
fn the_arm_leaves_when_the_drive_lets_it_and_the_bus_keeps_its_order() {
    for preseek in [Preseek::AfterCompletion, Preseek::DuringCompletion, Preseek::BeforeCompletion] {
        let mut parameters = drive(Policy::Fcfs);
        parameters.write.preseek = preseek;
        let completion = parameters.overhead.read_completion;
        let mut controller = Controller::new(parameters);
        for tag in 0..50 {
            controller.submit(Instant::START, tag, Request::new(Access::Read, tag * 7919 % 50_000, 64));
        }
        let mut last = Instant::START;
        while let Some(at) = controller.next_turn() {
            let service = controller.turn(at).service;
            assert!(service.completes > last, "first come, first served");
            last = service.completes;
            let free = controller.next_turn().unwrap_or(last);
            match preseek {
                Preseek::AfterCompletion => assert_eq!(free, last),
                Preseek::DuringCompletion => assert!(free == last || free + completion == last),
                Preseek::BeforeCompletion => assert!(free == last || free == service.arm_free && free < last),
            }
        }
    }
}

#[test]
fn specimens_of_a_drive_differ_in_speed_by_no_more_than_their_error() {
    let parameters = common::example();
    let nominal = parameters.mechanism.spindle.period().as_nanos() as f64;
    let periods: Vec<f64> = (0..100)
        .map(|seed| {
            let mut random = Random::new(seed);
            parameters.clone().drawn(&mut random).mechanism.spindle.period().as_nanos() as f64 / nominal
        })
        .collect();
    assert!(periods.iter().all(|period| (period - 1.0).abs() <= 0.00101), "an error of 0.1 %");
    assert!(periods.iter().any(|period| *period > 1.0005) && periods.iter().any(|period| *period < 0.9995));
}
