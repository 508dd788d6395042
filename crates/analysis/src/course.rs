//! A run at a glance: what was done in each of some hundred intervals, and how long requests took.
//!
//! Passes stand one after the other, without what lay between them: each pass of a modelled machine has a clock of its
//! own, and on a real one nobody counts what happened between two passes. All phases are there, as the start-up is what
//! one looks for; which part of a pass was counted is said beside it. How response times are distributed is kept by
//! operation, of counted requests only.

use std::collections::BTreeMap;
use std::ops::Range;

use record::{Histogram, Operation, Phase, Row};
use units::{Duration, Instant};

use crate::series::Series;

/// About so many intervals: as many as a picture tells apart.
const INTERVALS: u64 = 160;

/// When the passes of a run were.
#[derive(Debug, Clone, Default)]
pub struct Extents {
    passes: BTreeMap<u16, Extent>,
}

#[derive(Debug, Clone, Copy)]
struct Extent {
    begins: Instant,
    ends: Instant,
    /// When the first counted request was due, and the last one.
    counted: Option<(Instant, Instant)>,
}

/// A pass on the time axis of a course.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
    /// All of it.
    pub whole: Range<Duration>,
    /// The part in which requests that count were due; empty if none was.
    pub counted: Range<Duration>,
}

/// What was done over time.
#[derive(Debug, Clone)]
pub struct Course {
    /// The passes, in order.
    pub passes: Vec<Pass>,
    /// What each device did in each interval.
    pub series: Series,
    /// Response times of what was counted, by operation, in the order of their names.
    pub responses: Vec<(Operation, Histogram)>,
    /// What must be added to a pass's time stamps.
    shifts: BTreeMap<u16, (Instant, Duration)>,
}

impl Extents {
    /// Sees rows, in any order and amount.
    pub fn add(&mut self, rows: &[Row]) {
        for row in rows {
            let new = Extent { begins: row.intended, ends: row.completed, counted: None };
            let extent = self.passes.entry(row.pass).or_insert(new);
            extent.begins = extent.begins.min(row.intended);
            extent.ends = extent.ends.max(row.completed);
            if row.phase == Phase::Measure {
                let (first, last) = extent.counted.unwrap_or((row.intended, row.intended));
                extent.counted = Some((first.min(row.intended), last.max(row.intended)));
            }
        }
    }

    /// An empty course for the same rows.
    pub fn course(self, devices: usize) -> Course {
        let (mut end, mut passes, mut shifts) = (Duration::ZERO, Vec::new(), BTreeMap::new());
        for (number, extent) in self.passes {
            let at = |instant: Instant| end + instant.since(extent.begins);
            let counted = extent.counted.map_or(end..end, |(first, last)| at(first)..at(last));
            let whole = end..at(extent.ends);
            shifts.insert(number, (extent.begins, end));
            end = whole.end;
            passes.push(Pass { whole, counted });
        }
        let series = Series::new((end / INTERVALS).round_up(), devices.max(1));
        Course { passes, series, responses: Vec::new(), shifts }
    }
}

impl Course {
    /// Counts rows. Panics on one of a pass that the extents have not seen.
    pub fn add(&mut self, rows: &[Row]) {
        for row in rows {
            let (begins, place) = self.shifts[&row.pass];
            let shifted = |instant: Instant| Instant::START + place + instant.since(begins);
            let moved = Row {
                intended: shifted(row.intended),
                submitted: shifted(row.submitted),
                completed: shifted(row.completed),
                ..*row
            };
            self.series.add(&[moved]);
            if row.phase == Phase::Measure && row.errno == 0 {
                let place = self.responses.binary_search_by_key(&row.operation.name(), |(known, _)| known.name());
                let place = place.unwrap_or_else(|place| {
                    self.responses.insert(place, (row.operation, Histogram::new()));
                    place
                });
                self.responses[place].1.record(row.response());
            }
        }
    }

    /// The time by the clock of the records at a place of the axis.
    pub fn clock(&self, at: Duration) -> Duration {
        let within = self.shifts.values().take_while(|(_, place)| *place <= at).last();
        within.map_or(at, |(begins, place)| begins.since(Instant::START) + (at - *place))
    }

    /// From the begin of the first pass to the end of the last.
    pub fn length(&self) -> Duration {
        self.passes.last().map_or(Duration::ZERO, |pass| pass.whole.end)
    }
}
