//! Arm, heads and platters together: from here to that sector, and then on along the blocks.
//!
//! # Theory
//! To reach a track takes the seek, or the head switch where that is longer (they go on at the same time); a write then
//! waits for the heads to settle better, by a time that drive files also give as negative where a read settles longer.
//! Then the sector must come round. From there consecutive blocks pass at one sector time each, until the track, or a
//! slip or a remapped block, ends the *run*; the next run begins with the next repositioning. A scan over any number of
//! blocks is thus a chain of straight lines in the plane of time and blocks, and nothing has to be computed sector by
//! sector: when block `n` is in the buffer, and how far a read-ahead has come at some instant, are one division each.
//!
//! A drive with *zero latency* takes blocks in the order in which they pass. If its head comes down within the blocks
//! that it wants, it begins with those that are left of them on the track and has the others, a revolution later, all
//! the sooner.

use units::{Bytes, Duration, Instant, Rate};

use super::geometry::{Extent, Geometry, Location, Zone};
use super::rotation::Spindle;
use super::seek::SeekCurve;

/// The parts that move.
#[derive(Debug, Clone)]
pub struct Mechanism {
    /// Where blocks are.
    pub geometry: Geometry,
    /// The arm.
    pub seek: SeekCurve,
    /// The motor.
    pub spindle: Spindle,
    /// To change to another head of the same cylinder.
    pub head_switch: Duration,
    /// What a write takes to settle beyond a read, after a seek or head switch; nanoseconds, may be negative.
    pub write_settle_ns: i64,
}

/// Where the arm and the selected head are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arm {
    /// Counted from the outermost.
    pub cylinder: u32,
    /// The selected head.
    pub head: u32,
}

impl Arm {
    /// On the track of a location.
    pub const fn on(location: Location) -> Arm {
        Arm { cylinder: location.cylinder, head: location.head }
    }
}

/// Whether the heads read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// From the medium.
    Read,
    /// To the medium.
    Write,
}

/// Consecutive blocks that pass the head without a break.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// The first block.
    pub first: u64,
    /// How many pass from `begins` on.
    pub blocks: u64,
    /// How many behind those had passed before: only with zero latency.
    pub passed_before: u64,
    /// When the first sector begins to pass.
    pub begins: Instant,
    /// Sector time in nanoseconds times 2^20.
    pub step: u64,
    /// The track.
    pub arm: Arm,
    /// How long the arm took to get there (zero on the track where it was).
    pub positioning: Duration,
    /// How long the first sector took to come round after that.
    pub rotation: Duration,
}

impl Run {
    /// When the first `count` blocks have passed, rounded up to a nanosecond.
    pub fn passed(&self, count: u64) -> Instant {
        self.begins + Duration::nanos((count.min(self.blocks) * self.step).div_ceil(1 << 20))
    }
    /// When the last block has passed.
    pub fn ends(&self) -> Instant {
        self.passed(self.blocks)
    }
    /// One past the last block.
    pub const fn after(&self) -> u64 {
        self.first + self.blocks + self.passed_before
    }
    /// When the head was on the track.
    pub fn on_track(&self) -> Instant {
        Instant::from_nanos(self.begins.as_nanos() - self.rotation.as_nanos())
    }
    /// How many blocks have passed at an instant.
    pub fn count_at(&self, at: Instant) -> u64 {
        let since = at.saturating_since(self.begins).as_nanos();
        // A long idle time would overflow the scaled product; the run is over by far then.
        let count = if since >= 1 << 43 { self.blocks } else { (since << 20) / self.step };
        if count >= self.blocks { self.blocks + self.passed_before } else { count }
    }
    /// When the sector that is passing at an instant ends; the instant itself outside the run.
    pub fn sector_end(&self, at: Instant) -> Instant {
        if at <= self.begins || at >= self.ends() {
            return at;
        }
        let count = self.count_at(at);
        if self.passed(count) == at { at } else { self.passed(count + 1) }
    }
    /// The same run, later by so many revolutions.
    #[must_use]
    pub fn later(self, by: Duration) -> Run {
        Run { begins: self.begins + by, rotation: self.rotation + by, ..self }
    }
    /// How many whole sectors passed between the arrival on the track and the first one.
    pub fn waited(&self) -> u64 {
        (self.rotation.as_nanos() << 20) / self.step
    }
}

impl Mechanism {
    /// What passes the heads on the outermost tracks, skews and spares aside.
    pub fn outer_rate(&self) -> Rate {
        let sectors = self.geometry.zones().iter().map(Zone::sectors).max().unwrap_or(0);
        let track = Bytes::SECTOR * u64::from(sectors);
        Rate::bytes_per_second(track.get() as f64 / self.spindle.period().as_seconds())
    }

    /// How long the arm takes from one track to another. Nothing if it is there.
    pub fn positioning(&self, from: Arm, to: Arm, access: Access) -> Duration {
        if from == to {
            return Duration::ZERO;
        }
        let seek = self.seek.time(from.cylinder.abs_diff(to.cylinder));
        let moved = if from.head == to.head { seek } else { seek.max(self.head_switch) };
        match access {
            Access::Read => moved,
            Access::Write if moved.is_zero() => moved,
            Access::Write => Duration::nanos(moved.as_nanos().saturating_add_signed(self.write_settle_ns)),
        }
    }

    /// The run that starts with `block`, for an arm that is free to move from `at` on. Panics if the drive has no such
    /// block.
    pub fn run(&self, from: Arm, at: Instant, block: u64, access: Access) -> Run {
        self.run_on(self.geometry.extent(block), from, at, block, access)
    }

    /// The same, for an extent that is already known.
    pub fn run_on(&self, extent: Extent, from: Arm, at: Instant, block: u64, access: Access) -> Run {
        let arm = Arm::on(extent.location);
        let (positioning, rotation) = self.reach(&extent, from, at, access);
        let begins = at + positioning + rotation;
        let step = self.spindle.sweep(extent.width);
        Run { first: block, blocks: extent.blocks, passed_before: 0, begins, step, arm, positioning, rotation }
    }

    /// How long the arm takes to an extent's track, and its first sector to come round after that.
    pub fn reach(&self, extent: &Extent, from: Arm, at: Instant, access: Access) -> (Duration, Duration) {
        let positioning = self.positioning(from, Arm::on(extent.location), access);
        (positioning, self.spindle.wait(at + positioning, extent.angle))
    }

    /// The run that starts with `block` and covers the blocks before `after` that are on its track, in the order in
    /// which they pass.
    pub fn run_zero_latency(&self, from: Arm, at: Instant, block: u64, after: u64, access: Access) -> Run {
        let run = self.run(from, at, block, access);
        let wanted = run.blocks.min(after - block);
        // Where the head comes down: so many sectors after the first one passed.
        let gone = self.spindle.period().saturating_sub(run.rotation).as_nanos() << 20;
        let missed = gone.div_ceil(run.step);
        if missed == 0 || missed >= wanted {
            return run;
        }
        Run { blocks: missed, passed_before: wanted - missed, ..run }
    }

    /// The run that follows one; `None` at the end of the drive.
    pub fn next(&self, run: &Run, access: Access) -> Option<Run> {
        (run.after() < self.geometry.blocks()).then(|| self.run(run.arm, run.ends(), run.after(), access))
    }
}
