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
//! Kridle and McKusick 1983 ask what a controller that buffers a track would bring; none was measured. Each drive has a
//! buffer of its own and fills it beside what the controller moves for another: assumed, as the best case.
//!
//! # Rejected
//! To go on with the next track of the cylinder: that is a read-ahead, which the drives of `crate::disk` have.

use std::cell::Cell;

use units::Instant;

use crate::unbuffered::Medium;

/// The buffer of one drive.
#[derive(Debug, Default)]
pub(crate) struct TrackBuffer {
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
    /// The heads are on a track from `since` on, for a read: it is taken in, if it is not already.
    pub fn fill(&self, track: u64, since: Instant) {
        if self.filling.get().is_none_or(|filling| filling.track != track || filling.until.is_some()) {
            self.filling.set(Some(Filling { track, since, until: None }));
        }
    }

    /// The arm or another head turns to a track at an instant: of any other, nothing more is taken in.
    pub fn turn_to(&self, track: u64, at: Instant) {
        if let Some(filling) = self.filling.get().filter(|filling| filling.track != track) {
            self.filling.set(Some(Filling { until: Some(filling.until.map_or(at, |until| until.min(at))), ..filling }));
        }
    }

    /// A track is written: what was taken of it is no longer true.
    pub fn forget(&self, track: u64) {
        if self.filling.get().is_some_and(|filling| filling.track == track) {
            self.filling.set(None);
        }
    }

    /// How many of so many sectors, from a block on, are there at an instant, before one that is not.
    pub fn there(&self, medium: &Medium, block: u64, most: u64, at: Instant) -> u64 {
        let is_there = |block: &u64| {
            self.filling.get().filter(|filling| filling.track == medium.track_of(*block)).is_some_and(|filling| {
                let there = medium.passed(filling.since, *block);
                there <= at && filling.until.is_none_or(|until| there <= until)
            })
        };
        (block..block + most).take_while(is_there).count() as u64
    }

    /// How many of so many sectors, from a block on, are not there at an instant, before one that is.
    pub fn missing(&self, medium: &Medium, block: u64, most: u64, at: Instant) -> u64 {
        (block..block + most).take_while(|block| self.there(medium, *block, 1, at) == 0).count() as u64
    }
}
