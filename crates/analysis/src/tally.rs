//! Counting: from rows to sums and histograms.
//!
//! One tally per pass, stream, device and operation; everything else is a sum of tallies. A row costs three histogram
//! entries. Only rows of [`Phase::Measure`] are counted.
//!
//! # Which time a rate is divided by
//! Each stream on each device (a *pair*) has its own counted time: it ends when the pair has reached its limit, while others may
//! still count. When load is on before and after, it lasts from the first counted intention to the first one that is counted no more:
//! n requests and the n gaps between their intentions. Requests that reach out over its end make up for those that reach in over its
//! start. When load is not on at both ends, it lasts from the first intention to the last completion, as xdd and the RAID-I study do: dividing by less
//! would count requests whose time lies outside. The time of several pairs is the hull of theirs.

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
    }

    fn add(&mut self, row: &Row) {
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
    /// By stream and device.
    pairs: Vec<Pair>,
}

/// The counted time of a stream on a device in a pass.
#[derive(Debug, Clone)]
struct Pair {
    /// Whether load was on before.
    started_up: bool,
    first_counted: Instant,
    last_completed: Instant,
    /// The first intention that was counted no more.
    first_uncounted: Instant,
}

impl Pair {
    const NOTHING: Pair = Pair {
        started_up: false,
        first_counted: Instant::NEVER,
        last_completed: Instant::START,
        first_uncounted: Instant::NEVER,
    };

    /// From when until when it counted.
    fn window(&self) -> (Instant, Instant) {
        let loaded_on_both_sides = self.started_up && self.first_uncounted != Instant::NEVER;
        (self.first_counted, if loaded_on_both_sides { self.first_uncounted } else { self.last_completed })
    }
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

    /// Counts rows. Panics on a stream or device without a label: rows and labels are then not of the same run.
    pub fn add(&mut self, rows: &[Row]) {
        for row in rows {
            let place = self.place(row.stream, row.device, row.operation);
            let pass = self.pass(row.pass);
            let pair = &mut pass.pairs[place / Operation::ALL.len()];
            match row.phase {
                Phase::Measure => {
                    pair.first_counted = pair.first_counted.min(row.intended);
                    pair.last_completed = pair.last_completed.max(row.completed);
                    pass.tallies[place].get_or_insert_default().add(row);
                }
                Phase::StartUp => {
                    pair.started_up = true;
                    self.uncounted[0] += 1;
                }
                Phase::CoolDown => {
                    pair.first_uncounted = pair.first_uncounted.min(row.intended);
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
            let mut window = (Instant::NEVER, Instant::START);
            for (place, tally) in pass.tallies.iter().enumerate() {
                let Some(tally) = tally.as_deref().filter(|_| wanted(self.key(number, place))) else { continue };
                sum.get_or_insert_default().0.merge(tally);
                window = hull(window, pass.pairs[place / Operation::ALL.len()].window());
            }
            if let Some((_, time)) = &mut sum {
                *time += window.1.saturating_since(window.0);
            }
        }
        sum
    }

    /// The counted time of a device in each pass, from when until when; `None` for a pass in which it did nothing that counts.
    pub fn windows(&self, device: u16) -> Vec<Option<(Instant, Instant)>> {
        let devices = self.labels.devices.len();
        let of_pass = |pass: &Pass| {
            let pairs = pass.pairs.iter().skip(usize::from(device)).step_by(devices);
            pairs.filter(|pair| pair.first_counted != Instant::NEVER).map(Pair::window).reduce(hull)
        };
        self.passes.iter().map(of_pass).collect()
    }

    fn pass(&mut self, number: u16) -> &mut Pass {
        let number = usize::from(number);
        if number >= self.passes.len() {
            let pairs = self.labels.streams.len() * self.labels.devices.len();
            let pass = Pass { tallies: vec![None; pairs * Operation::ALL.len()], pairs: vec![Pair::NOTHING; pairs] };
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

/// The shortest time that holds both.
fn hull(a: (Instant, Instant), b: (Instant, Instant)) -> (Instant, Instant) {
    (a.0.min(b.0), a.1.max(b.1))
}
