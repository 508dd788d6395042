//! The write cost: how much the disk moves for each byte of new data.
//!
//! # Theory
//! To make room for new data, `N` segments are read and what is live in them is written again. If the share `u` of them
//! is live, `N (1 - u)` of space is gained, and new data takes it. So
//!
//! ```text
//!                read + copied + new     N + N u + N (1 - u)       2
//!   write cost = -------------------  =  -------------------  =  -----
//!                        new                  N (1 - u)          1 - u
//! ```
//!
//! A segment in which nothing is live need not be read: then the cost is 1. (M. Rosenblum and J. K. Ousterhout, "The
//! Design and Implementation of a Log-Structured File System", 1991.) If the share `e` of the segments is empty and `u`
//! is the mean of all, the read term is `N (1 - e)`, and
//!
//! ```text
//!   write cost = (2 - e) / (1 - u)
//! ```
//!
//! The formula holds for any mixture of utilizations, `u` being their mean, since it only adds up bytes. It knows no
//! summaries, inodes, tables and checkpoints, which a log also writes: it moves more than the formula says.

use units::{Bytes, Ratio};

use super::Purpose;

/// The write cost when segments are cleaned at a mean utilization; 1 if nothing is live.
///
/// # Panics
/// If all is live: then nothing is gained.
pub fn write_cost(utilization: Ratio) -> f64 {
    if utilization == Ratio::ZERO { 1.0 } else { write_cost_with_empty(utilization, Ratio::ZERO) }
}

/// The write cost when segments are reclaimed at a mean utilization, and some of them are empty and not read.
///
/// # Panics
/// If all is live: then nothing is gained.
pub fn write_cost_with_empty(utilization: Ratio, empty: Ratio) -> f64 {
    assert!(utilization < Ratio::ONE, "cleaning gains something");
    (2.0 - empty.get()) / (1.0 - utilization.get())
}

/// The blocks that a log has moved to and from the disk, by purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Data of files, written for the first time.
    pub new: Bytes,
    /// What else flushes wrote: summaries, directories, indirect blocks, inodes.
    pub metadata: Bytes,
    /// Segments that cleaning read, all of each.
    pub cleaning_read: Bytes,
    /// What cleaning wrote.
    pub cleaning_written: Bytes,
    /// What was live of the segments that cleaning read.
    pub cleaning_live: Bytes,
    /// What checkpoints wrote: tables in the log, and checkpoint regions.
    pub checkpoints: Bytes,
    /// Segments that cleaning read.
    pub cleaned: u64,
    /// Segments that became clean without cleaning, as nothing was live in them.
    pub empty: u64,
}

impl Cost {
    /// All that was moved for a byte of new data.
    pub fn write_cost(&self) -> f64 {
        let moved = self.new + self.metadata + self.cleaning_read + self.cleaning_written + self.checkpoints;
        moved.get() as f64 / self.new.get() as f64
    }

    /// The mean utilization of the segments that were reclaimed, empty ones among them.
    pub fn utilization(&self) -> Ratio {
        let segments = self.cleaned + self.empty;
        if segments == 0 || self.cleaned == 0 {
            return Ratio::ZERO;
        }
        let read = self.cleaning_live.get() as f64 / self.cleaning_read.get() as f64;
        Ratio::new(read * self.cleaned as f64 / segments as f64)
    }

    /// The share of empty ones among the segments that were reclaimed.
    pub fn empty(&self) -> Ratio {
        match self.cleaned + self.empty {
            0 => Ratio::ZERO,
            segments => Ratio::new(self.empty as f64 / segments as f64),
        }
    }

    /// The write cost that the formula gives for what was reclaimed; 1 if nothing was cleaned.
    pub fn formula(&self) -> f64 {
        if self.cleaned == 0 { 1.0 } else { write_cost_with_empty(self.utilization(), self.empty()) }
    }

    /// What was moved since an earlier time.
    pub fn since(&self, earlier: &Cost) -> Cost {
        Cost {
            new: self.new - earlier.new,
            metadata: self.metadata - earlier.metadata,
            cleaning_read: self.cleaning_read - earlier.cleaning_read,
            cleaning_written: self.cleaning_written - earlier.cleaning_written,
            cleaning_live: self.cleaning_live - earlier.cleaning_live,
            checkpoints: self.checkpoints - earlier.checkpoints,
            cleaned: self.cleaned - earlier.cleaned,
            empty: self.empty - earlier.empty,
        }
    }

    /// Blocks were written, and some of them are data of files.
    pub(super) fn count(&mut self, purpose: Purpose, block: u64, blocks: u64, data: u64) {
        match purpose {
            Purpose::Data => {
                self.new += Bytes::new(data * block);
                self.metadata += Bytes::new((blocks - data) * block);
            }
            Purpose::Cleaning => self.cleaning_written += Bytes::new(blocks * block),
            Purpose::Checkpoint | Purpose::Region => self.checkpoints += Bytes::new(blocks * block),
            Purpose::Recovery => unreachable!("recovery only reads"),
        }
    }

    /// A segment was read for cleaning.
    pub(super) fn cleaned(&mut self, bytes: u64, live: u64) {
        self.cleaned += 1;
        self.cleaning_read += Bytes::new(bytes);
        self.cleaning_live += Bytes::new(live);
    }
}
