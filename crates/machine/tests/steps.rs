//! A command in steps is the request that is served at once, wherever the bus is free and of constant rate.

use crate::common;
use machine::disk::drive::{Drive, Request};
use machine::disk::mechanism::Access;
use machine::disk::parameters::{Overhead, Parameters, Requested, Until, WriteBack};
use rand::RngExt;
use runtime::Random;
use units::{Duration, Instant, Ratio};

/// The example drive without the overheads that stand for the phases of a bus.
fn drive() -> Parameters {
    let mut parameters = common::example();
    let o = parameters.overhead;
    parameters.overhead = Overhead {
        stop_read_ahead: Duration::micros(70),
        read_completion: Duration::ZERO,
        write_completion: Duration::ZERO,
        data_preparation: Duration::ZERO,
        first_reselect: Duration::ZERO,
        other_reselect: Duration::ZERO,
        read_disconnect_after_read: Duration::ZERO,
        read_disconnect_after_write: Duration::ZERO,
        write_disconnect: Duration::ZERO,
        ..o
    };
    let (buffer, ahead, write) = (&mut parameters.buffer, &mut parameters.read_ahead, &mut parameters.write);
    (buffer.segments, buffer.segment_blocks, buffer.piece) = (3, 256, 1);
    (buffer.caching, buffer.partial_hit_at_once, buffer.never_disconnect) = (true, true, false);
    // Alone, blocks that a drive with zero latency had read before cost no bus time behind the others.
    ahead.zero_latency = false;
    // What is kept is not read over, so that the read-ahead has no need of room that the bus has yet to make.
    (ahead.requested, ahead.most) = (Requested::Kept, 0);
    (write.extra_disconnect, write.zero_latency) = (false, false);
    parameters
}

/// Carries a request out over a bus that is free, block by block: when it is complete.
fn step_by_step(drive: &mut Drive, now: Instant, request: Request) -> Instant {
    let bus = drive.parameters().bus;
    let mut at = now + drive.open(now, request);
    let block_time = if request.access == Access::Read { bus.read_block } else { bus.write_block };
    let first = match request.access {
        Access::Read if drive.transferable(at) == 0 => drive.parameters().buffer.fill_mark(request.blocks),
        _ => 1,
    };
    at = drive.transferable_at(at, first).max(at);
    for _ in 0..request.blocks {
        if drive.transferable(at) == 0 {
            at = drive.transferable_at(at, 1);
        }
        at += block_time;
        drive.transferred(at, 1);
    }
    at = drive.completes_at(at);
    drive.close(at);
    at
}

/// Both ways through the same requests, to nearby and distant blocks, in haste and at leisure.
fn hold_together(parameters: &Parameters, seed: u64, writes: bool, tolerance: Duration) {
    let mut random = Random::new(seed);
    let (mut whole, mut steps) = (Drive::new(parameters.clone()), Drive::new(parameters.clone()));
    let last = parameters.mechanism.geometry.blocks();
    let (mut now, mut block) = (Instant::START, 0);
    for nth in 0..200 {
        let blocks = random.random_range(1..=64);
        block = match random.random_range(0..4) {
            0 => random.random_range(0..last),
            // Behind the one before, or a little further on.
            1 => block + random.random_range(0..40),
            _ => block,
        };
        block = block.min(last - blocks);
        let access = if writes && random.random_range(0..3) == 0 { Access::Write } else { Access::Read };
        let request = Request::new(access, block, blocks);
        let served = whole.serve(now, request);
        let stepped = step_by_step(&mut steps, now, request);
        let off = served.completes.saturating_since(stepped) + stepped.saturating_since(served.completes);
        assert!(off <= tolerance, "seed {seed}, {nth}: {request:?} at {now:?}: {served:?}, in steps {stepped:?}");
        block += blocks;
        now = served.completes.max(stepped) + Duration::micros([10, 700, 9_000, 60_000][random.random_range(0..4)]);
    }
}

#[test]
fn reads_are_the_same_to_the_nanosecond() {
    for seed in 0..60 {
        let mut parameters = drive();
        parameters.read_ahead.until =
            [Until::Nothing, Until::Track, Until::Cylinder, Until::Segment, Until::CylinderAtFirst][seed as usize % 5];
        parameters.read_ahead.recalibrates = seed % 2 == 0;
        parameters.read_ahead.on_hit = seed % 3 == 0;
        parameters.read_ahead.any_free_blocks = seed % 7 == 0;
        parameters.read_ahead.least = [0, 20][seed as usize % 2];
        parameters.buffer.read_fill = Ratio::percent([0.0, 5.0][seed as usize / 4 % 2]);
        parameters.bus.read_block = Duration::micros([20, 120, 300][seed as usize % 3]);
        hold_together(&parameters, seed, false, Duration::ZERO);
    }
}

#[test]
fn writes_are_the_same_but_for_the_rounding_of_revolutions() {
    for seed in 0..60 {
        let mut parameters = drive();
        parameters.write.back = [WriteBack::Never, WriteBack::Appending, WriteBack::Always][seed as usize % 3];
        parameters.write.first = [None, Some(1), Some(12)][seed as usize / 3 % 3];
        parameters.write.zero_latency = seed % 4 == 0;
        parameters.buffer.write_segments = 1 + (seed as u32 / 9) % 2;
        // A bus that is slower than the medium costs a revolution with each block, and the rounding of so many tips a
        // sector now and then.
        parameters.bus.write_block = Duration::micros([20, 120][seed as usize / 2 % 2]);
        hold_together(&parameters, seed, true, Duration::nanos(20));
    }
}
