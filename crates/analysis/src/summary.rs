//! The summary: what a run came to, per stream, per device, per operation, in all.
//!
//! The names of fields in JSON are the contract of `arraylab run --json`: more may be added, none may change. Latency
//! means response time, from the *intended* start: in an open loop a device that stalls makes the requests behind it
//! late, and this is what their senders feel. Requests that failed are counted as errors and nowhere else.

use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Frequency, Rate, Ratio};

use crate::estimate::Estimate;
use crate::json::{number, seconds};
use crate::tally::{Part, Summarizer, Tally};
use record::{Histogram, Operation};

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// By stream, in the order of the labels. A stream without counted requests has a group of zeroes.
    pub streams: Vec<Group>,
    /// By device, in the order of the labels.
    pub devices: Vec<Group>,
    /// By host, if the run was of several ranks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<Group>,
    /// By operation, those that occurred.
    pub operations: Vec<Group>,
    /// Everything counted.
    pub total: Group,
    /// Requests that were made to load the devices before and after the measure phase, and not counted.
    pub uncounted: Uncounted,
}

/// Requests outside of the measure phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Uncounted {
    /// Before it.
    pub start_up: u64,
    /// After it.
    pub cool_down: u64,
}

/// Requests that have something in common, over all passes and pass by pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// What they have in common: a stream, a device, an operation, or "total".
    pub name: String,
    /// Over all passes.
    #[serde(flatten)]
    pub figures: Figures,
    /// Pass by pass, in order; a pass without requests of this group has zeroes.
    pub passes: Vec<Figures>,
    /// How the passes differ; `None` if there were not at least two.
    pub spread: Option<Spread>,
}

/// Counts, rates and times of requests.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Done without error.
    pub requests: u64,
    /// Moved by them.
    #[serde(with = "number")]
    pub bytes: Bytes,
    /// The time that rates are divided by; over several passes, the sum of theirs.
    #[serde(with = "seconds", rename = "seconds")]
    pub time: Duration,
    /// Bytes in that time.
    #[serde(with = "number", rename = "bandwidth_bytes_per_s")]
    pub bandwidth: Rate,
    /// Requests in that time.
    #[serde(with = "number")]
    pub iops: Frequency,
    /// Requests that failed.
    pub errors: u64,
    /// The same by errno, the most frequent first.
    pub errors_by_errno: Vec<ErrorCount>,
    /// Response time, from intention to completion; `None` if no request was done.
    #[serde(rename = "latency_ns")]
    pub latency: Option<Latency>,
    /// Its first part, up to submission.
    #[serde(rename = "wait_ns")]
    pub wait: Option<Latency>,
    /// Its second part, at the device.
    #[serde(rename = "service_ns")]
    pub service: Option<Latency>,
}

/// How often a request failed in one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// The kernel's number for it.
    pub errno: u16,
    /// How often.
    pub count: u64,
}

/// How a time is distributed. Mean, minimum and maximum are exact, percentiles at most 0.1 percent too high.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // the names say it
pub struct Latency {
    #[serde(with = "number")]
    pub min: Duration,
    #[serde(with = "number")]
    pub mean: Duration,
    #[serde(with = "number")]
    pub p50: Duration,
    #[serde(with = "number")]
    pub p90: Duration,
    #[serde(with = "number")]
    pub p99: Duration,
    #[serde(with = "number")]
    pub p999: Duration,
    #[serde(with = "number")]
    pub max: Duration,
}

/// How passes differ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Of the passes' bandwidths.
    #[serde(rename = "bandwidth_bytes_per_s")]
    pub bandwidth: Estimate<Rate>,
    /// Of the passes' rates of requests.
    pub iops: Estimate<Frequency>,
    /// Of the passes' mean response times; `None` if fewer than two passes have requests.
    #[serde(rename = "latency_mean_ns")]
    pub latency_mean: Option<Estimate<Duration>>,
    /// Of the passes' 99th percentiles.
    #[serde(rename = "latency_p99_ns")]
    pub latency_p99: Option<Estimate<Duration>>,
}

impl Summarizer {
    /// What the rows came to.
    pub fn summary(&self) -> Summary {
        let labels = self.labels();
        let streams = (0..).zip(&labels.streams).map(|(i, name)| self.group(name, Part::Stream(i))).collect();
        let devices = (0..).zip(&labels.devices).map(|(i, name)| self.group(name, Part::Devices(&[i]))).collect();
        let operations = Operation::ALL
            .into_iter()
            .map(|operation| (operation, Part::Operation(operation)))
            .filter(|(_, part)| self.sum(*part, 0, usize::MAX).is_some())
            .map(|(operation, part)| self.group(operation.name(), part))
            .collect();
        let (start_up, cool_down) = self.uncounted();
        let total = self.group("total", Part::All);
        Summary { streams, devices, hosts: Vec::new(), operations, total, uncounted: Uncounted { start_up, cool_down } }
    }

    /// What each of the hosts came to, given by name and devices.
    pub fn by_host(&self, hosts: &[(String, Vec<u16>)]) -> Vec<Group> {
        hosts.iter().map(|(name, devices)| self.group(name, Part::Devices(devices))).collect()
    }

    fn group(&self, name: &str, part: Part<'_>) -> Group {
        let figures = |first, count| self.sum(part, first, count).map_or_else(Figures::default, Figures::of);
        let passes: Vec<Figures> = (0..usize::from(self.passes())).map(|pass| figures(pass, 1)).collect();
        // The one pass is all.
        let whole = if let [only] = &passes[..] { only.clone() } else { figures(0, usize::MAX) };
        Group { name: name.to_owned(), figures: whole, spread: Spread::of(&passes), passes }
    }
}

impl Figures {
    fn of((tally, time): (Tally, Duration)) -> Figures {
        let requests = tally.requests();
        let mut errors_by_errno: Vec<ErrorCount> =
            tally.errors.iter().map(|(errno, count)| ErrorCount { errno: *errno, count: *count }).collect();
        errors_by_errno.sort_by_key(|error| std::cmp::Reverse(error.count));
        let iops = if time.is_zero() { 0.0 } else { requests as f64 / time.as_seconds() };
        Figures {
            requests,
            bytes: tally.bytes,
            time,
            bandwidth: tally.bytes.per(time),
            iops: Frequency::per_second(iops),
            errors: tally.errors.values().sum(),
            errors_by_errno,
            latency: Latency::of(&tally.response),
            wait: Latency::of(&tally.wait),
            service: Latency::of(&tally.service),
        }
    }
}

impl Latency {
    /// `None` if the histogram is empty.
    pub fn of(times: &Histogram) -> Option<Latency> {
        let percentile = |percent| times.quantile(Ratio::percent(percent));
        Some(Latency {
            min: times.min()?,
            mean: times.mean()?,
            p50: percentile(50.0)?,
            p90: percentile(90.0)?,
            p99: percentile(99.0)?,
            p999: percentile(99.9)?,
            max: times.max()?,
        })
    }
}

impl Spread {
    fn of(passes: &[Figures]) -> Option<Spread> {
        let latencies = || passes.iter().filter_map(|pass| pass.latency);
        Some(Spread {
            bandwidth: Estimate::of(passes.iter().map(|pass| pass.bandwidth))?,
            iops: Estimate::of(passes.iter().map(|pass| pass.iops))?,
            latency_mean: Estimate::of(latencies().map(|latency| latency.mean)),
            latency_p99: Estimate::of(latencies().map(|latency| latency.p99)),
        })
    }
}
