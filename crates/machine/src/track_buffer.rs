//! A track buffer: what a controller keeps of the track that a drive's heads are on.
//!
//! # Theory
//! As soon as the heads stand on a track, every sector that passes is taken into the buffer, whoever asked for which of
//! them, until one turn has passed or the arm leaves:
//!
//! ```text
//!   a sector is there from   since + wait(since, its angle) + one sector   on
//! ```
//!
//! A read finds what is there and gets it as fast as the bus takes it; the rest it gets as it passes. So a reader that
//! asks for the next block a little too late does not lose a turn. A write goes to the medium as without a buffer, and
//! what the buffer has of that track is forgotten. There is a buffer for each drive, of one track.
//!
//! # Source
//! Kridle and McKusick 1983 ask whether much buffering in a controller matters (Section 1). None of their controllers
//! keeps a track, so this one is assumed, as the best case: each drive has a buffer of its own, and fills it beside
//! what the controller moves for another drive.
//!
//! # Rejected
//! To go on with the next track of the cylinder: that is a read-ahead, which the drives of `crate::disk` have.

use std::cell::Cell;

use units::Instant;

/// The buffer of one drive.
#[derive(Debug)]
pub(crate) struct TrackBuffer {
    /// Of a track.
    sectors: u64,
    filling: Cell<Option<Filling>>,
}

/// A track whose sectors are taken as they pass.
#[derive(Debug, Clone, Copy)]
struct Filling {
    track: u64,
    /// From when the heads are on it.
    since: Instant,
    /// When the arm left, if it has.
    until: Option<Instant>,
}

impl TrackBuffer {
    /// Of a drive with so many sectors on a track.
    pub fn new(sectors: u64) -> TrackBuffer {
        TrackBuffer { sectors, filling: Cell::default() }
    }

    /// The heads are on the track of a block from `since` on, for a read: it is taken in, if it is not already.
    pub fn fill(&self, block: u64, since: Instant) {
        let track = block / self.sectors;
        if self.filling.get().is_none_or(|filling| filling.track != track || filling.until.is_some()) {
            self.filling.set(Some(Filling { track, since, until: None }));
        }
    }

    /// The arm or another head turns to the track of a block at an instant: of any other, nothing more is taken in.
    pub fn turn_to(&self, block: u64, at: Instant) {
        if let Some(filling) = self.filling.get().filter(|filling| filling.track != block / self.sectors) {
            self.filling.set(Some(Filling { until: Some(filling.until.map_or(at, |until| until.min(at))), ..filling }));
        }
    }

    /// The blocks up to `end` are written: what was taken of their tracks is no longer true.
    pub fn forget(&self, block: u64, end: u64) {
        let tracks = block / self.sectors..=(end - 1) / self.sectors;
        if self.filling.get().is_some_and(|filling| tracks.contains(&filling.track)) {
            self.filling.set(None);
        }
    }

    /// Whether a block is there at an instant. `passed` gives the instant at which a block has passed, if the heads are
    /// on its track from a given instant on.
    pub fn has(&self, block: u64, at: Instant, passed: impl Fn(Instant, u64) -> Instant) -> bool {
        let filling = self.filling.get().filter(|filling| filling.track == block / self.sectors);
        filling.is_some_and(|filling| {
            let there = passed(filling.since, block);
            there <= at && filling.until.is_none_or(|until| there <= until)
        })
    }
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::*;

    /// Eight sectors of a millisecond each, of which number 0 begins to pass at the start.
    fn passed(since: Instant, block: u64) -> Instant {
        let (turn, at) = (8, since.as_nanos() / 1_000_000);
        let ahead = (block % turn + turn - at % turn) % turn;
        Instant::from_nanos((at + ahead + 1) * 1_000_000)
    }

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::millis(millis)
    }

    #[test]
    fn what_has_passed_since_the_heads_came_is_there_until_a_turn_has() {
        let buffer = TrackBuffer::new(8);
        let there = |from: u64, now| (from..from + 8).filter(|block| buffer.has(*block, at(now), passed)).count();
        assert_eq!(there(0, 100), 0, "nothing was taken in");
        buffer.fill(11, at(3));
        assert_eq!([3, 4, 7, 11, 50].map(|now| there(8, now)), [0, 1, 4, 8, 8]);
        assert!(buffer.has(11, at(4), passed) && !buffer.has(10, at(10), passed) && buffer.has(10, at(11), passed));
        assert_eq!(there(0, 50), 0, "of the track before it has nothing");
        // Who asks for more of the track changes nothing.
        buffer.fill(9, at(6));
        assert_eq!(there(8, 7), 4);
    }

    #[test]
    fn an_arm_that_leaves_ends_it_and_a_write_undoes_it() {
        let buffer = TrackBuffer::new(8);
        let there = |from: u64| (from..from + 8).filter(|block| buffer.has(*block, at(100), passed)).count();
        buffer.fill(8, at(0));
        buffer.turn_to(15, at(2));
        assert_eq!(there(8), 8, "it is the same track");
        buffer.turn_to(16, at(5));
        buffer.turn_to(24, at(7));
        assert_eq!(there(8), 5, "five had passed");
        buffer.forget(0, 8);
        assert_eq!(there(8), 5, "another track was written");
        buffer.forget(7, 9);
        assert_eq!(there(8), 0);
    }
}
