//! Counting: from rows to sums and histograms.
//!
//! One tally per pass, stream, device and operation; everything else is a sum of tallies. A row costs three histogram
//! entries. Only rows of [`Phase::Measure`] are counted.
//!
//! # Which time a bandwidth is divided by
//! When load is on before and after the measure phase, the phase itself: requests that reach out over its end make up for those
//! that reach in over its start. When it is not, the requests' own extent, from the first intended to the last completed: dividing
//! by the phase would then count requests whose time lies outside. This is what xdd and the RAID-I study do.

use std::collections::BTreeMap;

use record::{Histogram, Labels, Operation, Phase, Row};
use units::{Bytes, Duration, Instant};

/// What a tally is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The pass, counted from 0.
    pub pass: u16,
    /// Index of the stream.
    pub stream: u16,
    /// Index of the device.
    pub device: u16,
    /// What was done.
    pub operation: Operation,
}

/// Requests counted together.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Moved by requests without error.
    pub bytes: Bytes,
    /// How many requests failed, by errno.
    pub errors: BTreeMap<u16, u64>,
    /// From intention to completion, of requests without error.
    pub response: Histogram,
    /// From intention to submission.
    pub wait: Histogram,
    /// From submission to completion.
    pub service: Histogram,
    /// From the first intended to the last completed request, failed ones included.
    extent: Option<(Instant, Instant)>,
}

impl Tally {
    /// How many requests were done without error.
    pub fn requests(&self) -> u64 {
        self.response.count()
    }

    /// Adds what another has counted.
    pub fn merge(&mut self, other: &Tally) {
        self.bytes += other.bytes;
        for (errno, count) in &other.errors {
            *self.errors.entry(*errno).or_default() += count;
        }
        self.response.merge(&other.response);
        self.wait.merge(&other.wait);
        self.service.merge(&other.service);
        self.extent = match (self.extent, other.extent) {
            (Some((first, last)), Some((a, b))) => Some((first.min(a), last.max(b))),
            (extent, None) | (None, extent) => extent,
        };
    }

    fn add(&mut self, row: &Row) {
        let (first, last) = self.extent.unwrap_or((row.intended, row.completed));
        self.extent = Some((first.min(row.intended), last.max(row.completed)));
        if row.errno != 0 {
            *self.errors.entry(row.errno).or_default() += 1;
            return;
        }
        self.bytes += Bytes::new(u64::from(row.length));
        self.response.record(row.response());
        self.wait.record(row.wait());
        self.service.record(row.service());
    }
}

/// Takes rows in any order and amount.
#[derive(Debug, Clone)]
pub struct Summarizer {
    labels: Labels,
    passes: Vec<Pass>,
    /// Requests that are not counted: start-up, cool-down.
    uncounted: [u64; 2],
}

/// One pass.
#[derive(Debug, Clone)]
struct Pass {
    /// By stream, device and operation; see [`Summarizer::place`].
    tallies: Vec<Option<Box<Tally>>>,
    /// When the measure phase began and ended, if the caller knows.
    window: Option<(Instant, Instant)>,
    /// Whether load was on before the measure phase.
    started_up: bool,
    first_measured: Instant,
    first_cooling: Instant,
}

impl Summarizer {
    /// For rows of the streams and devices so named.
    pub fn new(labels: &Labels) -> Summarizer {
        Summarizer { labels: labels.clone(), passes: Vec::new(), uncounted: [0; 2] }
    }

    /// Names of streams and devices.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// States when the measure phase of a pass began and ended. Otherwise the rows decide, as the module's theory says.
    pub fn window(&mut self, pass: u16, begin: Instant, end: Instant) {
        self.pass(pass).window = Some((begin, end));
    }

    /// Counts rows. Panics on a stream or device without a label: rows and labels are then not of the same run.
    pub fn add(&mut self, rows: &[Row]) {
        for row in rows {
            let place = self.place(row.stream, row.device, row.operation);
            let pass = self.pass(row.pass);
            match row.phase {
                Phase::Measure => {
                    pass.first_measured = pass.first_measured.min(row.intended);
                    pass.tallies[place].get_or_insert_default().add(row);
                }
                Phase::StartUp => {
                    pass.started_up = true;
                    self.uncounted[0] += 1;
                }
                Phase::CoolDown => {
                    pass.first_cooling = pass.first_cooling.min(row.intended);
                    self.uncounted[1] += 1;
                }
            }
        }
    }

    /// How many rows of start-up and of cool-down were seen and not counted.
    pub fn uncounted(&self) -> (u64, u64) {
        (self.uncounted[0], self.uncounted[1])
    }

    /// How many passes were seen.
    pub fn passes(&self) -> u16 {
        self.passes.len() as u16
    }

    /// The sum of the tallies that `wanted` picks, and the time that they took: of each pass, its own; `None` if it picks nothing.
    pub fn sum(&self, wanted: impl Fn(Key) -> bool) -> Option<(Tally, Duration)> {
        let mut sum: Option<(Tally, Duration)> = None;
        for (number, pass) in (0..).zip(&self.passes) {
            let mut of_pass: Option<Tally> = None;
            for (place, tally) in pass.tallies.iter().enumerate() {
                let Some(tally) = tally.as_deref().filter(|_| wanted(self.key(number, place))) else { continue };
                of_pass.get_or_insert_default().merge(tally);
            }
            let Some(tally) = of_pass else { continue };
            let time = pass.time(&tally);
            match &mut sum {
                None => sum = Some((tally, time)),
                Some((all, total)) => {
                    all.merge(&tally);
                    *total += time;
                }
            }
        }
        sum
    }

    fn pass(&mut self, number: u16) -> &mut Pass {
        let number = usize::from(number);
        if number >= self.passes.len() {
            let places = self.labels.streams.len() * self.labels.devices.len() * Operation::ALL.len();
            let pass = Pass {
                tallies: vec![None; places],
                window: None,
                started_up: false,
                first_measured: Instant::NEVER,
                first_cooling: Instant::NEVER,
            };
            self.passes.resize(number + 1, pass);
        }
        &mut self.passes[number]
    }

    fn place(&self, stream: u16, device: u16, operation: Operation) -> usize {
        let (stream, device) = (usize::from(stream), usize::from(device));
        assert!(stream < self.labels.streams.len(), "stream {stream} has a label");
        assert!(device < self.labels.devices.len(), "device {device} has a label");
        (stream * self.labels.devices.len() + device) * Operation::ALL.len() + operation as usize
    }

    fn key(&self, pass: u16, place: usize) -> Key {
        let operation = Operation::ALL[place % Operation::ALL.len()];
        let pair = place / Operation::ALL.len();
        let devices = self.labels.devices.len();
        Key { pass, stream: (pair / devices) as u16, device: (pair % devices) as u16, operation }
    }
}

impl Pass {
    /// The time in which these requests of this pass were done.
    fn time(&self, tally: &Tally) -> Duration {
        let loaded_on_both_sides = self.started_up && self.first_cooling != Instant::NEVER;
        let (begin, end) = match self.window {
            Some(window) => window,
            None if loaded_on_both_sides => (self.first_measured, self.first_cooling),
            None => tally.extent.expect("a tally has at least one row"),
        };
        end.saturating_since(begin)
    }
}
