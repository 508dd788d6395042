//! A run over time: what was done in each interval, per device, as differences and not as running totals.
//!
//! A request belongs to the interval in which it completed, all of it, as iostat and fio count it; so a large request
//! on a slow device makes a spike where it ends. Flushes move nothing and are not counted, but for their errors.
//! Requests of all phases are counted: the start-up is what one looks for here.

use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Frequency, Instant, Rate};

use crate::json::{number, seconds};
use record::{Operation, Row};

/// What one device did in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interval {
    /// Completed without error.
    pub requests: u64,
    /// Moved by them.
    pub bytes: Bytes,
    /// Completed with an error.
    pub errors: u64,
    /// Sum of their response times, in nanoseconds.
    response_nanos: u128,
    /// The longest response.
    pub response_max: Duration,
}

/// One line of the series, as it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// When the interval began.
    #[serde(with = "seconds", rename = "at_s")]
    pub at: Duration,
    /// Index of the device.
    pub device: u16,
    /// Completed without error.
    pub requests: u64,
    /// In the interval.
    #[serde(with = "number", rename = "bandwidth_bytes_per_s")]
    pub bandwidth: Rate,
    /// In the interval.
    #[serde(with = "number")]
    pub iops: Frequency,
    /// Completed with an error.
    pub errors: u64,
    /// Mean response time; zero if nothing completed.
    #[serde(with = "number", rename = "latency_mean_ns")]
    pub latency_mean: Duration,
    /// The longest response time.
    #[serde(with = "number", rename = "latency_max_ns")]
    pub latency_max: Duration,
}

/// Takes rows in any order and amount.
#[derive(Debug, Clone)]
pub struct Series {
    interval: Duration,
    devices: usize,
    /// By interval, then by device.
    cells: Vec<Interval>,
}

impl Interval {
    /// Mean response time; `None` if nothing completed.
    pub fn response_mean(&self) -> Option<Duration> {
        (self.requests > 0).then(|| Duration::nanos((self.response_nanos / u128::from(self.requests)) as u64))
    }

    /// Counts a row.
    pub(crate) fn add(&mut self, row: &Row) {
        if row.errno != 0 {
            self.errors += 1;
            return;
        }
        if row.operation == Operation::Flush {
            return;
        }
        self.requests += 1;
        self.bytes += Bytes::new(u64::from(row.length));
        self.response_nanos += u128::from(row.response().as_nanos());
        self.response_max = self.response_max.max(row.response());
    }

    /// Adds what another has counted.
    pub fn merge(&mut self, other: &Interval) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.response_nanos += other.response_nanos;
        self.response_max = self.response_max.max(other.response_max);
    }
}

impl Series {
    /// The most intervals that are kept: a day by the second. A longer run has its intervals joined two by two.
    pub const MOST_INTERVALS: usize = 100_000;

    /// An empty series. Intervals begin at multiples of their length. Panics if that is zero.
    pub fn new(interval: Duration, devices: usize) -> Series {
        assert!(!interval.is_zero() && devices > 0, "a series of {devices} devices by {interval}");
        Series { interval, devices, cells: Vec::new() }
    }

    /// How long an interval is; longer than asked for, if that would have made too many.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// How many intervals there are, from the clock's start to the last completion.
    pub fn len(&self) -> usize {
        self.cells.len() / self.devices
    }

    /// True before the first row.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Counts rows. Panics on a device that the series was not made for.
    pub fn add(&mut self, rows: &[Row]) {
        for row in rows {
            assert!(usize::from(row.device) < self.devices, "device {} is one of {}", row.device, self.devices);
            let index = self.index(row.completed);
            let place = index * self.devices + usize::from(row.device);
            if place >= self.cells.len() {
                self.cells.resize((index + 1) * self.devices, Interval::default());
            }
            self.cells[place].add(row);
        }
    }

    /// What a device did in an interval.
    pub fn get(&self, interval: usize, device: u16) -> Interval {
        self.cells[interval * self.devices + usize::from(device)]
    }

    /// What all devices did in an interval.
    pub fn total(&self, interval: usize) -> Interval {
        let mut total = Interval::default();
        for cell in &self.cells[interval * self.devices..(interval + 1) * self.devices] {
            total.merge(cell);
        }
        total
    }

    /// Line by line, for tables and files.
    pub fn points(&self) -> impl Iterator<Item = Point> {
        self.cells.iter().enumerate().map(|(place, cell)| Point {
            at: self.interval * (place / self.devices) as u64,
            device: (place % self.devices) as u16,
            requests: cell.requests,
            bandwidth: cell.bytes.per(self.interval),
            iops: Frequency::per_second(cell.requests as f64 / self.interval.as_seconds()),
            errors: cell.errors,
            latency_mean: cell.response_mean().unwrap_or_default(),
            latency_max: cell.response_max,
        })
    }

    /// The interval of an instant, after joining intervals until there are few enough.
    fn index(&mut self, at: Instant) -> usize {
        loop {
            let index = at.as_nanos() / self.interval.as_nanos();
            if index < Self::MOST_INTERVALS as u64 {
                return index as usize;
            }
            self.interval = self.interval * 2;
            let devices = self.devices;
            let intervals = self.len();
            let mut joined = vec![Interval::default(); intervals.div_ceil(2) * devices];
            for (place, cell) in self.cells.iter().enumerate() {
                joined[place / devices / 2 * devices + place % devices].merge(cell);
            }
            self.cells = joined;
        }
    }
}
