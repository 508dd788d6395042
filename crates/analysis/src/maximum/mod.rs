//! How much a host takes: what more and more of its devices deliver, by three methods of access.
//!
//! The methods are those of the M.A.X. study (T. Ruwart and M. O'Keefe, "A 500 MegaByte/Second Disk Array", 1994),
//! each in sequence and with one request under way on each device: *independent*, a task a device; *logical volume*,
//! where a request of the application is split into one step for each device and is complete when all are;
//! *simultaneous*, the first half of the devices reading while the second half writes.
//!
//! # Interference
//! The study compares 15 readers and 15 writers with 30 readers and ascribes the difference to slower writes. Here
//! both are measured: without interference half of n devices reading and half writing do (R(n) + W(n)) / 2, where
//! R(n) and W(n) are what all of them do in one direction. The interference is the share by which the measured rate is
//! lower. A limit that all devices share lowers R(n) and W(n) as well, so it is no part of the interference. The
//! interval is that of the difference of two means of logarithms, by Student's t.
//!
//! How it is measured is the laboratory's business.

mod stall;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use units::{Bytes, Rate, Ratio};

use crate::bend::median;
use crate::estimate::student_t;
use crate::json::number;
use crate::knee::{Growth, Knee, Value, knee};

pub use stall::{StallSum, Stalled, stalls};

/// How devices are accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// A task a device, with one request under way.
    Independent,
    /// One application; each of its requests is split into one step a device, and complete when all are.
    Volume,
    /// Half of the devices read while the other half writes.
    Simultaneous,
}

/// What is asked of the devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// They are read.
    Read,
    /// They are written.
    Write,
    /// Half of them each.
    Both,
}

/// A kind of measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// How.
    pub method: Method,
    /// What.
    pub direction: Direction,
    /// Of one request to one device: of a volume, its step.
    pub request: Bytes,
}

/// Which devices are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Loaded {
    /// This one, by its place in the order of activation.
    Alone(usize),
    /// So many, from the first.
    First(usize),
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample {
    /// What all devices together were read.
    pub read: Rate,
    /// And written.
    pub written: Rate,
    /// Requests that counted on the device that did the fewest.
    pub fewest: u64,
    /// The busiest thread of the load generator.
    pub generator: Ratio,
    /// Of all processors, not idle.
    pub processors: Option<Ratio>,
    /// Requests that took much longer than the others on their device.
    pub stalls: Vec<Stalled>,
}

/// All that was measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Findings {
    /// Names of the devices, in the order of activation.
    pub devices: Vec<String>,
    /// Every repeat.
    pub samples: HashMap<(Kind, Loaded), Vec<Sample>>,
}

/// What it came to. The names of fields in JSON are the contract of `arraylab max --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Maximum {
    /// Names of the devices, in the order of activation.
    pub devices: Vec<String>,
    /// One for each method, direction and size of requests.
    pub curves: Vec<Curve>,
    /// What reading and writing at once costs.
    pub interference: Vec<Interference>,
    /// Requests that took much longer than others on their device, by point and device; what cost the most first.
    pub stalls: Vec<StallSum>,
}

/// What more and more devices delivered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// How.
    pub method: Method,
    /// What.
    pub direction: Direction,
    /// Of one request to one device.
    #[serde(with = "number", rename = "request_bytes")]
    pub request: Bytes,
    /// From the fewest devices on.
    pub points: Vec<Point>,
    /// What the curve says; nothing where there are too few points or no repeats, or half of the devices read and
    /// half write.
    pub knee: Option<Knee>,
}

/// A point of a curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// How many devices.
    pub devices: usize,
    /// Median of the repeats.
    #[serde(with = "number", rename = "bandwidth_bytes_per_s")]
    pub bandwidth: Rate,
    /// Lowest.
    #[serde(with = "number")]
    pub low: Rate,
    /// Highest.
    #[serde(with = "number")]
    pub high: Rate,
    /// The sum of what they do alone; nothing if that was not measured.
    #[serde(rename = "expected_bytes_per_s")]
    pub expected: Option<f64>,
    /// What is missing from that, as a share; below zero if it is more.
    pub loss: Option<f64>,
    /// Requests that counted, in the repeat and on the device that did the fewest.
    pub fewest: u64,
    /// The busiest thread of the load generator, on average.
    #[serde(with = "number")]
    pub generator: Ratio,
    /// Of all processors, not idle, on average.
    pub processors: Option<f64>,
}

/// What reading and writing at once costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interference {
    /// Of one request to one device.
    #[serde(with = "number", rename = "request_bytes")]
    pub request: Bytes,
    /// Half of them read, half write.
    pub devices: usize,
    /// What the readers did.
    #[serde(with = "number", rename = "read_bytes_per_s")]
    pub read: Rate,
    /// What the writers did.
    #[serde(with = "number", rename = "written_bytes_per_s")]
    pub written: Rate,
    /// Half of what all do reading, and half of what all do writing.
    #[serde(with = "number", rename = "expected_bytes_per_s")]
    pub expected: Rate,
    /// What is missing from that, as a share; below zero if it is more.
    pub lost: Value,
    /// What all do reading, of which the study takes its share.
    #[serde(with = "number", rename = "all_reading_bytes_per_s")]
    pub all_reading: Rate,
}

impl Kind {
    /// What one sample of this kind moved in all.
    fn rate(self, sample: &Sample) -> Rate {
        match self.direction {
            Direction::Read => sample.read,
            Direction::Write => sample.written,
            Direction::Both => Rate::bytes_per_second(sample.read.get() + sample.written.get()),
        }
    }
}

impl Maximum {
    /// What the findings come to. Points at which nothing moved are left out.
    pub fn of(findings: &Findings) -> Maximum {
        let mut kinds: Vec<Kind> = findings.samples.keys().map(|(kind, _)| *kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let curves: Vec<Curve> = kinds.iter().map(|kind| findings.curve(*kind)).collect();
        let curves: Vec<Curve> = curves.into_iter().filter(|curve| !curve.points.is_empty()).collect();
        Maximum {
            devices: findings.devices.clone(),
            interference: kinds.iter().flat_map(|kind| findings.interference(*kind)).collect(),
            stalls: findings.stalls(&curves),
            curves,
        }
    }
}

impl Findings {
    /// What the repeats moved; nothing if something was not measured, or did not move.
    fn rates(&self, kind: Kind, loaded: Loaded) -> Option<Vec<Rate>> {
        let samples = self.samples.get(&(kind, loaded))?;
        let rates: Vec<Rate> = samples.iter().map(|sample| kind.rate(sample)).collect();
        (!rates.is_empty() && rates.iter().all(|rate| !rate.is_zero())).then_some(rates)
    }

    /// What devices do alone by this kind of access: as independent ones.
    fn alone(&self, kind: Kind) -> Vec<Vec<Rate>> {
        let kind = Kind { method: Method::Independent, ..kind };
        (0..self.devices.len()).map_while(|device| self.rates(kind, Loaded::Alone(device))).collect()
    }

    fn curve(&self, kind: Kind) -> Curve {
        let alone = self.alone(kind);
        let counts = 1..=self.devices.len();
        let together: Vec<(usize, Vec<Rate>)> =
            counts.filter_map(|count| Some((count, self.rates(kind, Loaded::First(count))?))).collect();
        let points = together.iter().map(|(devices, rates)| self.point(kind, *devices, rates, &alone)).collect();
        let whole = together.iter().all(|(devices, _)| *devices <= alone.len());
        let knee = if whole { knee(&Growth { alone, together }) } else { None };
        Curve { method: kind.method, direction: kind.direction, request: kind.request, points, knee }
    }

    fn point(&self, kind: Kind, devices: usize, rates: &[Rate], alone: &[Vec<Rate>]) -> Point {
        let numbers: Vec<f64> = rates.iter().map(|rate| rate.get()).collect();
        let bandwidth = median(&numbers);
        let expected =
            (devices <= alone.len()).then(|| alone[..devices].iter().map(|rates| middle(rates)).sum::<f64>());
        let samples = &self.samples[&(kind, Loaded::First(devices))];
        let mean = |of: &dyn Fn(&Sample) -> Option<Ratio>| {
            let values: Option<Vec<f64>> = samples.iter().map(|sample| Some(of(sample)?.get())).collect();
            values.map(|values| values.iter().sum::<f64>() / values.len() as f64)
        };
        Point {
            devices,
            bandwidth: Rate::bytes_per_second(bandwidth),
            low: Rate::bytes_per_second(numbers.iter().copied().fold(f64::INFINITY, f64::min)),
            high: Rate::bytes_per_second(numbers.iter().copied().fold(0.0, f64::max)),
            expected,
            loss: expected.map(|expected| 1.0 - bandwidth / expected),
            fewest: samples.iter().map(|sample| sample.fewest).min().unwrap_or(0),
            generator: Ratio::new(mean(&|sample| Some(sample.generator)).unwrap_or(0.0)),
            processors: mean(&|sample| sample.processors),
        }
    }

    fn interference(&self, kind: Kind) -> Vec<Interference> {
        if kind.direction != Direction::Both {
            return Vec::new();
        }
        let one_way = |direction, loaded| self.rates(Kind { method: Method::Independent, direction, ..kind }, loaded);
        let of = |devices| {
            let loaded = Loaded::First(devices);
            let both = self.rates(kind, loaded)?;
            let (reading, writing) = (one_way(Direction::Read, loaded)?, one_way(Direction::Write, loaded)?);
            let samples = &self.samples[&(kind, loaded)];
            let part = |part: fn(&Sample) -> Rate| middle(&samples.iter().map(part).collect::<Vec<_>>());
            let expected = (middle(&reading) + middle(&writing)) / 2.0;
            Some(Interference {
                request: kind.request,
                devices,
                read: Rate::bytes_per_second(part(|sample| sample.read)),
                written: Rate::bytes_per_second(part(|sample| sample.written)),
                expected: Rate::bytes_per_second(expected),
                lost: missing(&both, &reading, &writing),
                all_reading: Rate::bytes_per_second(middle(&reading)),
            })
        };
        (2..=self.devices.len()).filter_map(of).collect()
    }

    fn stalls(&self, curves: &[Curve]) -> Vec<StallSum> {
        let of = |curve: &Curve| -> Vec<StallSum> {
            let kind = Kind { method: curve.method, direction: curve.direction, request: curve.request };
            let alone: Vec<f64> = self.alone(kind).iter().map(|rates| middle(rates)).collect();
            let point = |point: &Point| {
                let samples = &self.samples[&(kind, Loaded::First(point.devices))];
                stall::sums(kind, point, samples, (&alone, &self.devices))
            };
            curve.points.iter().flat_map(point).collect()
        };
        let mut all: Vec<StallSum> = curves.iter().flat_map(of).collect();
        all.sort_by(|a, b| b.lost.get().total_cmp(&a.lost.get()));
        all
    }
}

fn middle(rates: &[Rate]) -> f64 {
    median(&rates.iter().map(|rate| rate.get()).collect::<Vec<_>>())
}

/// 1 - both / ((reading + writing) / 2), by means of logarithms.
fn missing(both: &[Rate], reading: &[Rate], writing: &[Rate]) -> Value {
    let moments = |rates: &[Rate]| {
        let logs: Vec<f64> = rates.iter().map(|rate| rate.get().ln()).collect();
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        (mean, squares / (n - 1.0).max(1.0) / n)
    };
    let (both_mean, both_variance) = moments(both);
    let ((read_mean, read_variance), (write_mean, write_variance)) = (moments(reading), moments(writing));
    let (read, write) = (read_mean.exp(), write_mean.exp());
    let expected = (read + write) / 2.0;
    // Of a sum, the variances of its parts count by their shares.
    let (read_share, write_share) = (read / (read + write), write / (read + write));
    let variance = both_variance + read_share.powi(2) * read_variance + write_share.powi(2) * write_variance;
    let log = both_mean - expected.ln();
    let repeats = both.len().min(reading.len()).min(writing.len()) as u32;
    let half = if repeats > 1 { student_t(Ratio::percent(95.0), repeats - 1) * variance.sqrt() } else { f64::INFINITY };
    Value { value: 1.0 - log.exp(), low: 1.0 - (log + half).exp().min(1e3), high: 1.0 - (log - half).exp() }
}
