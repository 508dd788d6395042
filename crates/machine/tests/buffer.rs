//! What the buffer does between requests.

use machine::disk::drive::{Drive, Outcome, Request};
use machine::disk::mechanism::Access;
use units::{Duration, Instant};

mod common;

const NEAR: u64 = 1000;
const FAR: u64 = 50_000;

/// Reads near and far, each with time to read ahead, and then near again out of the buffer: where the arm is a while later.
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

#[test]
fn a_read_ahead_that_paused_goes_on_when_a_hit_makes_room() {
    for on_hit in [false, true] {
        let mut parameters = common::example();
        parameters.read_ahead.on_hit = on_hit;
        let mut drive = Drive::new(parameters);
        let mut now = Instant::START;
        // Far more blocks than the read-ahead or the segment holds at once: all but the first are hits.
        for nth in 0..100 {
            let service = drive.serve(now, Request::new(Access::Read, NEAR + nth * 8, 8));
            assert_eq!(service.outcome == Outcome::Miss, nth == 0, "{nth}: {service:?}");
            now = service.completes + Duration::millis(20);
        }
    }
}
