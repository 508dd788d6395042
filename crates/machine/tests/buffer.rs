//! What the buffer does between requests.

use crate::common;
use machine::disk::drive::{Drive, Outcome, Request};
use machine::disk::mechanism::Access;
use machine::disk::parameters::{Parameters, Until};
use units::{Duration, Instant};

const NEAR: u64 = 1000;
const FAR: u64 = 50_000;

/// Reads near and far, each with time to read ahead, and then near again out of the buffer: where the arm is a while
/// later.
fn arm_after_a_hit(on_hit: bool) -> u32 {
    let mut parameters = common::example();
    parameters.read_ahead.on_hit = on_hit;
    let mut drive = Drive::new(parameters);
    let pause = Duration::millis(200);
    let mut now = Instant::START;
    for (block, outcome) in [(NEAR, Outcome::Miss), (FAR, Outcome::Miss), (NEAR + 8, Outcome::Hit)] {
        let service = drive.serve(now, Request::new(Access::Read, block, 8));
        assert_eq!(service.outcome, outcome, "{block}");
        now = service.completes + pause;
    }
    drive.arm().cylinder
}

#[test]
fn a_hit_calls_the_arm_back_only_if_the_drive_says_so() {
    let geometry = common::example().mechanism.geometry;
    let on = |block: u64| geometry.locate(block).cylinder;
    assert!(on(FAR) > on(NEAR) + 50);
    assert_eq!((arm_after_a_hit(true), arm_after_a_hit(false)), (on(NEAR), on(FAR)));
}

/// Reads a stream in pieces of 8 blocks, each with time to read ahead: only the first is not in the buffer.
fn stream(parameters: Parameters, from: u64, pieces: u64) {
    let mut drive = Drive::new(parameters);
    let mut now = Instant::START;
    for nth in 0..pieces {
        let service = drive.serve(now, Request::new(Access::Read, from + nth * 8, 8));
        let wanted = if nth == 0 { Outcome::Miss } else { Outcome::Hit };
        assert_eq!(service.outcome, wanted, "{nth}: {service:?}");
        now = service.completes + Duration::millis(20);
    }
}

#[test]
fn a_read_ahead_that_paused_goes_on_when_a_hit_makes_room() {
    for on_hit in [false, true] {
        let mut parameters = common::example();
        parameters.read_ahead.on_hit = on_hit;
        // Far more blocks than the read-ahead or the segment holds at once.
        stream(parameters, NEAR, 100);
    }
}

/// Reads 8 blocks that end `before` blocks ahead of a cylinder's end, far in, and after a while the 8 behind them: what
/// the second read takes.
fn going_on(until: Until, recalibrates: bool, before: u64) -> (Outcome, Duration) {
    let mut parameters = common::example();
    let ahead = &mut parameters.read_ahead;
    (ahead.until, ahead.recalibrates, ahead.least) = (until, recalibrates, 0);
    let geometry = &parameters.mechanism.geometry;
    let cylinder = geometry.locate(FAR).cylinder;
    let end =
        (FAR..).find(|block| geometry.locate(*block).cylinder > cylinder).expect("it is not the last one") - before;
    let mut drive = Drive::new(parameters);
    let first = drive.serve(Instant::START, Request::new(Access::Read, end - 8, 8));
    let now = first.completes + Duration::millis(200);
    let second = drive.serve(now, Request::new(Access::Read, end, 8));
    (second.outcome, second.completes.since(now))
}

#[test]
fn a_read_beyond_the_end_of_the_read_ahead_may_cost_the_arm_its_way_to_the_first_cylinder_and_back() {
    let first = Until::CylinderAtFirst;
    assert_eq!(going_on(Until::Segment, true, 4).0, Outcome::Hit);
    assert_eq!(going_on(first, true, 8).0, Outcome::Hit);
    for (before, outcome) in [(0, Outcome::Miss), (4, Outcome::PartialHit)] {
        let (plain, home) = (going_on(first, false, before), going_on(first, true, before));
        assert_eq!((plain.0, home.0), (outcome, outcome));
        let seeks = common::example().mechanism;
        let there = seeks.seek.time(seeks.geometry.locate(FAR).cylinder);
        let turn = seeks.spindle.period();
        // There and back, less a seek by one cylinder, and whatever part of a turn then remains.
        let late = home.1.saturating_sub(plain.1);
        assert!(late + turn > there * 2 && late < there * 2 + turn, "{late} for two seeks of {there}");
    }
}

#[test]
fn a_stream_is_read_ahead_over_the_end_of_a_cylinder() {
    let mut parameters = common::example();
    (parameters.read_ahead.until, parameters.read_ahead.least) = (Until::CylinderAtFirst, 0);
    let geometry = &parameters.mechanism.geometry;
    assert!(geometry.locate(FAR).cylinder < geometry.locate(FAR + 1600).cylinder, "it goes over one");
    stream(parameters, FAR, 200);
}
