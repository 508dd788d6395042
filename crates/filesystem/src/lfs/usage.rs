//! The segment usage table: how many bytes of each segment are live, and how old they are.
//!
//! # Theory
//! A block is live while something points to it. Of a block of inodes each inode counts for itself. Summaries are never
//! live. A segment's age is that of its youngest data: the time at which the user last wrote any of it, kept when
//! cleaning copies it. Indirect blocks and inodes do not count, as they are written whenever data is.
//!
//! A segment without live bytes becomes clean with the next checkpoint, and not before: until then a crash goes back
//! to a checkpoint that may point into it.

use std::collections::BTreeSet;

use super::parameters::{Layout, Policy};

/// A segment's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Segment {
    /// Bytes that something points to.
    pub live: u64,
    /// When the user wrote its youngest data.
    pub youngest: u64,
    /// Whether the log may continue in it.
    pub clean: bool,
}

/// The table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Usage {
    pub segments: Vec<Segment>,
    /// Those that are clean.
    pub clean: BTreeSet<u64>,
    /// Where the table's blocks lie.
    pub places: Vec<Option<u64>>,
}

impl Usage {
    /// All segments are clean.
    pub fn new(layout: &Layout) -> Usage {
        Usage {
            segments: vec![Segment { clean: true, ..Segment::default() }; layout.segments as usize],
            clean: (0..layout.segments).collect(),
            places: vec![None; layout.usages as usize],
        }
    }

    /// The log takes a clean segment.
    pub fn take(&mut self) -> Option<u64> {
        let segment = self.clean.pop_first()?;
        self.mark_taken(segment);
        Some(segment)
    }

    /// The log has taken this segment.
    pub fn mark_taken(&mut self, segment: u64) {
        self.clean.remove(&segment);
        self.segments[segment as usize].clean = false;
    }

    /// Something points to what lies there, and did not.
    pub fn add(&mut self, layout: &Layout, address: u64, bytes: u64, modified: u64) {
        let segment = &mut self.segments[layout.segment_of(address) as usize];
        assert!(!segment.clean, "what is live lies in no clean segment");
        segment.live += bytes;
        segment.youngest = segment.youngest.max(modified);
    }

    /// Nothing points any longer to what lies there.
    pub fn sub(&mut self, layout: &Layout, address: u64, bytes: u64) {
        let segment = &mut self.segments[layout.segment_of(address) as usize];
        assert!(segment.live >= bytes, "what dies in a segment was live in it");
        segment.live -= bytes;
    }

    /// Segments without live bytes that are not clean yet, and in which the log is not.
    pub fn empty(&self, log: [u64; 2]) -> impl Iterator<Item = u64> {
        let segments = (0..).zip(&self.segments);
        let empty =
            segments.filter(move |(number, segment)| !segment.clean && segment.live == 0 && !log.contains(number));
        empty.map(|(number, _)| number)
    }

    /// Makes segments without live bytes clean.
    pub fn reclaim(&mut self, segments: &[u64]) {
        for number in segments {
            let segment = &mut self.segments[*number as usize];
            assert_eq!(segment.live, 0, "a segment without live bytes becomes clean");
            *segment = Segment { clean: true, ..Segment::default() };
            self.clean.insert(*number);
        }
    }

    /// Segments worth cleaning in the order in which they are to be cleaned, without those in `except`.
    pub fn order(&self, layout: &Layout, policy: Policy, now: u64, except: impl Fn(u64) -> bool) -> Vec<u64> {
        let bytes = (layout.segment * layout.block) as f64;
        let score = |segment: &Segment| {
            let utilization = segment.live as f64 / bytes;
            match policy {
                Policy::Greedy => 1.0 - utilization,
                Policy::CostBenefit => (1.0 - utilization) * (now - segment.youngest + 1) as f64 / (1.0 + utilization),
            }
        };
        // All but the summary is live: nothing would be gained.
        let most = (layout.segment - 1) * layout.block;
        let worth =
            |number: u64, segment: &Segment| !segment.clean && (1..most).contains(&segment.live) && !except(number);
        let candidates = (0..).zip(&self.segments).filter(|(number, segment)| worth(*number, segment));
        let mut scored: Vec<(f64, u64)> = candidates.map(|(number, segment)| (score(segment), number)).collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        scored.into_iter().map(|(_, number)| number).collect()
    }
}
