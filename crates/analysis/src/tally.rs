//! Counting: from rows to sums and histograms.
//!
//! One tally per pass, stream, device and operation that occurs; everything else is a sum of tallies. A row costs three
//! histogram entries. Only rows of [`Phase::Measure`] are counted. What does not occur takes no place: of four thousand
//! jobs, each has a device of its own, and sixteen million pairs would be empty.
//!
//! A flush moves nothing and is no request of the load: it is counted under its operation alone, and elsewhere only its
//! errors are. Its time is part of the time that rates are divided by, as whoever waits for it asks for nothing else
//! meanwhile.
//!
//! # Which time a rate is divided by
//! Each stream on each device (a *pair*) has its own counted time: it ends when the pair has reached its limit, while
//! others may still count. When load is on before and after, it lasts from the first counted intention to the first one
//! that is counted no more: n requests and the n gaps between their intentions. Requests that reach out over its end
//! make up for those that reach in over its start. When load is not on at both ends, it lasts from the first intention
//! to the last completion, as xdd and the RAID-I study do: dividing by less would count requests whose time lies
//! outside. The time of several pairs is the hull of theirs.

use std::collections::BTreeMap;

use record::{Histogram, Labels, Operation, Phase, Row};
use units::{Bytes, Duration, Instant};

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
        self.merge_errors(other);
        self.response.merge(&other.response);
        self.wait.merge(&other.wait);
        self.service.merge(&other.service);
    }

    /// Adds the errors that another has counted.
    fn merge_errors(&mut self, other: &Tally) {
        for (errno, count) in &other.errors {
            *self.errors.entry(*errno).or_default() += count;
        }
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
    cells: Vec<Cell>,
    /// By stream.
    spans: Vec<Span>,
    /// By device: its cells.
    of_device: Vec<Vec<u32>>,
}

/// A stream on a device in a pass.
#[derive(Debug, Clone)]
struct Cell {
    stream: u16,
    device: u16,
    pair: Pair,
    /// By operation.
    tallies: [Option<Box<Tally>>; Operation::ALL.len()],
}

/// The cells of a stream: one for each device from the first that it uses to the last, or [`Span::NONE`].
#[derive(Debug, Clone, Default)]
struct Span {
    first: u16,
    cells: Vec<u32>,
}

/// What is to be summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// Everything.
    All,
    /// What a stream did.
    Stream(u16),
    /// What some devices did.
    Devices(&'a [u16]),
    /// What was done of one kind.
    Operation(Operation),
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
            let uncounted = &mut self.uncounted;
            let labels = &self.labels;
            assert!(usize::from(row.stream) < labels.streams.len(), "stream {} has a label", row.stream);
            assert!(usize::from(row.device) < labels.devices.len(), "device {} has a label", row.device);
            let pass = usize::from(row.pass);
            if pass >= self.passes.len() {
                let empty = Pass {
                    cells: Vec::new(),
                    spans: vec![Span::default(); labels.streams.len()],
                    of_device: vec![Vec::new(); labels.devices.len()],
                };
                self.passes.resize(pass + 1, empty);
            }
            let cell = self.passes[pass].cell(row.stream, row.device);
            let pair = &mut cell.pair;
            match row.phase {
                Phase::Measure => {
                    pair.first_counted = pair.first_counted.min(row.intended);
                    pair.last_completed = pair.last_completed.max(row.completed);
                    cell.tallies[row.operation as usize].get_or_insert_default().add(row);
                }
                Phase::StartUp => {
                    pair.started_up = true;
                    uncounted[0] += u64::from(row.operation != Operation::Flush);
                }
                Phase::CoolDown => {
                    pair.first_uncounted = pair.first_uncounted.min(row.intended);
                    uncounted[1] += u64::from(row.operation != Operation::Flush);
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

    /// The sum of a part's tallies over the passes from `first` on, `count` of them, and the time that they took: of
    /// each pass, its own; `None` if there are none.
    pub fn sum(&self, part: Part<'_>, first: usize, count: usize) -> Option<(Tally, Duration)> {
        let mut sum: Option<(Tally, Duration)> = None;
        for pass in self.passes.iter().skip(first).take(count) {
            let mut window = (Instant::NEVER, Instant::START);
            let mut take = |cell: &Cell| {
                for (operation, tally) in Operation::ALL.into_iter().zip(&cell.tallies) {
                    let Some(tally) = tally.as_deref() else { continue };
                    match (part, operation) {
                        (Part::Operation(wanted), _) if wanted != operation => continue,
                        (Part::Operation(_), _) => sum.get_or_insert_default().0.merge(tally),
                        (_, Operation::Flush) => sum.get_or_insert_default().0.merge_errors(tally),
                        _ => sum.get_or_insert_default().0.merge(tally),
                    }
                    window = hull(window, cell.pair.window());
                }
            };
            match part {
                Part::All | Part::Operation(_) => pass.cells.iter().for_each(&mut take),
                Part::Stream(stream) => {
                    let cells = pass.spans[usize::from(stream)].cells.iter().filter(|cell| **cell != Span::NONE);
                    cells.for_each(|cell| take(&pass.cells[*cell as usize]));
                }
                Part::Devices(devices) => {
                    let cells = devices.iter().flat_map(|device| &pass.of_device[usize::from(*device)]);
                    cells.for_each(|cell| take(&pass.cells[*cell as usize]));
                }
            }
            if let Some((_, time)) = &mut sum {
                *time += window.1.saturating_since(window.0);
            }
        }
        sum
    }

    /// The counted time of a device in each pass, from when until when; `None` for a pass in which it did nothing that
    /// counts.
    pub fn windows(&self, device: u16) -> Vec<Option<(Instant, Instant)>> {
        let of_pass = |pass: &Pass| {
            let pairs = pass.of_device[usize::from(device)].iter().map(|cell| &pass.cells[*cell as usize].pair);
            pairs.filter(|pair| pair.first_counted != Instant::NEVER).map(Pair::window).reduce(hull)
        };
        self.passes.iter().map(of_pass).collect()
    }
}

impl Span {
    /// Where there is no cell.
    const NONE: u32 = u32::MAX;

    /// The place of a device's cell, which is made if need be.
    fn place(&mut self, device: u16) -> &mut u32 {
        if self.cells.is_empty() {
            self.first = device;
        }
        if device < self.first {
            self.cells.splice(0..0, (device..self.first).map(|_| Span::NONE));
            self.first = device;
        }
        let place = usize::from(device - self.first);
        if place >= self.cells.len() {
            self.cells.resize(place + 1, Span::NONE);
        }
        &mut self.cells[place]
    }
}

impl Pass {
    fn cell(&mut self, stream: u16, device: u16) -> &mut Cell {
        let place = self.spans[usize::from(stream)].place(device);
        if *place == Span::NONE {
            *place = self.cells.len() as u32;
            self.of_device[usize::from(device)].push(*place);
            self.cells.push(Cell { stream, device, pair: Pair::NOTHING, tallies: Default::default() });
        }
        let cell = &mut self.cells[*place as usize];
        assert_eq!((cell.stream, cell.device), (stream, device), "a cell is of one stream on one device");
        cell
    }
}

/// The shortest time that holds both.
fn hull(a: (Instant, Instant), b: (Instant, Instant)) -> (Instant, Instant) {
    (a.0.min(b.0), a.1.max(b.1))
}
