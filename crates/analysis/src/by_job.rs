//! What fio counts of a job: moments and percentiles of three times, by direction; samples of the rate; how deep the queue was.
//!
//! fio's three times are ours under other names: `slat`, from wanting to ask to having asked ([`Row::wait`]); `clat`, at the device ([`Row::service`]);
//! `lat`, both ([`Row::response`]).

use std::collections::BTreeMap;

use record::{Histogram, Operation, Phase, Row};
use units::{Bytes, Duration, Instant};

use crate::Moments;

/// How long a sample of the rate is: fio's default.
pub const SAMPLE: Duration = Duration::millis(500);

/// The upper bounds of fio's table of latencies, each with its unit; what lies beyond the last has a bin of its own.
pub const LATENCIES: [(&str, &[u64], u64); 3] = [
    ("latency_ns", &[2, 4, 10, 20, 50, 100, 250, 500, 750, 1000], 1),
    ("latency_us", &[2, 4, 10, 20, 50, 100, 250, 500, 750, 1000], 1_000),
    ("latency_ms", &[2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000], 1_000_000),
];

/// Bins of the table of latencies.
pub const LATENCY_BINS: usize = 32;

/// Requests of one direction.
#[derive(Debug, Clone, Default)]
pub struct Side {
    /// Moved by those that were done.
    pub bytes: Bytes,
    /// Done.
    pub requests: u64,
    /// Before the device had them.
    pub slat: Moments,
    /// At the device.
    pub clat: Moments,
    /// The same, by size.
    pub times: Histogram,
    /// In all.
    pub lat: Moments,
    samples: BTreeMap<u64, (u64, u64)>,
}

/// What fio counts of one job, or of a group of them.
#[derive(Debug, Clone)]
pub struct JobTally {
    /// Reads, writes and discards.
    pub sides: [Side; 3],
    /// Flushes.
    pub flushes: Moments,
    /// Requests by the depth at which they were made: 1, 2, 4, 8, 16, 32, 64 and more.
    pub depths: [u64; 7],
    /// Requests by their latency, bin by bin of [`LATENCIES`].
    pub latencies: [u64; LATENCY_BINS],
    /// The first error.
    pub error: u16,
    began: Instant,
    ended: Instant,
}

impl Default for JobTally {
    fn default() -> JobTally {
        JobTally {
            sides: Default::default(),
            flushes: Moments::default(),
            depths: [0; 7],
            latencies: [0; LATENCY_BINS],
            error: 0,
            began: Instant::NEVER,
            ended: Instant::START,
        }
    }
}

impl JobTally {
    /// Counts a request, if it is one that counts.
    pub fn add(&mut self, row: &Row) {
        if row.phase != Phase::Measure {
            return;
        }
        self.began = self.began.min(row.submitted);
        self.ended = self.ended.max(row.completed);
        if row.errno != 0 {
            self.error = if self.error == 0 { row.errno } else { self.error };
            return;
        }
        let nanos = |time: Duration| time.as_nanos() as f64;
        let side = match row.operation {
            Operation::Read => 0,
            Operation::Write | Operation::WriteZeroes => 1,
            Operation::Discard => 2,
            Operation::Flush => return self.flushes.add(nanos(row.response())),
        };
        let depth = u32::from(row.depth.max(1)).ilog2().min(6) as usize;
        self.depths[depth] += 1;
        self.latencies[bin(row.response())] += 1;
        let side = &mut self.sides[side];
        side.bytes += Bytes::new(row.length.into());
        side.requests += 1;
        side.slat.add(nanos(row.wait()));
        side.clat.add(nanos(row.service()));
        side.lat.add(nanos(row.response()));
        side.times.record(row.service());
        let sample = side.samples.entry(row.completed.as_nanos() / SAMPLE.as_nanos()).or_default();
        *sample = (sample.0 + u64::from(row.length), sample.1 + 1);
    }

    /// Adds what another job of the group came to.
    pub fn merge(&mut self, other: &JobTally) {
        for (side, more) in self.sides.iter_mut().zip(&other.sides) {
            side.bytes += more.bytes;
            side.requests += more.requests;
            side.slat.merge(&more.slat);
            side.clat.merge(&more.clat);
            side.lat.merge(&more.lat);
            side.times.merge(&more.times);
            for (index, (bytes, requests)) in &more.samples {
                let sample = side.samples.entry(*index).or_default();
                *sample = (sample.0 + bytes, sample.1 + requests);
            }
        }
        self.flushes.merge(&other.flushes);
        self.depths.iter_mut().zip(other.depths).for_each(|(count, more)| *count += more);
        self.latencies.iter_mut().zip(other.latencies).for_each(|(count, more)| *count += more);
        self.error = if self.error == 0 { other.error } else { self.error };
        (self.began, self.ended) = (self.began.min(other.began), self.ended.max(other.ended));
    }

    /// From its first request to its last completion.
    pub fn runtime(&self) -> Duration {
        self.ended.saturating_since(self.began)
    }

    /// Rates of bytes and of requests in each whole sample of a direction; of a shorter run, the one that there is.
    pub fn rates(&self, side: usize) -> (Moments, Moments) {
        let (mut bytes, mut requests) = (Moments::default(), Moments::default());
        let samples = &self.sides[side].samples;
        let (first, last) = (self.began.as_nanos() / SAMPLE.as_nanos(), self.ended.as_nanos() / SAMPLE.as_nanos());
        // The first and the last are whole only by chance.
        let whole = if last > first + 2 { first + 1..last } else { 0..0 };
        for index in whole.clone() {
            let (moved, done) = samples.get(&index).copied().unwrap_or_default();
            bytes.add(moved as f64 / SAMPLE.as_seconds());
            requests.add(done as f64 / SAMPLE.as_seconds());
        }
        let (side, seconds) = (&self.sides[side], self.runtime().as_seconds());
        if whole.is_empty() && side.requests > 0 && seconds > 0.0 {
            bytes.add(side.bytes.get() as f64 / seconds);
            requests.add(side.requests as f64 / seconds);
        }
        (bytes, requests)
    }
}

/// The bin of [`LATENCIES`] into which a time falls.
fn bin(time: Duration) -> usize {
    let mut bin = 0;
    for (_, bounds, unit) in LATENCIES {
        for bound in bounds {
            if time.as_nanos() <= bound * unit {
                return bin;
            }
            bin += 1;
        }
    }
    bin
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(operation: Operation, wait: u64, service: u64, at: u64) -> Row {
        let mut row = Row::new(operation, Phase::Measure);
        row.intended = Instant::from_nanos(at);
        row.submitted = row.intended + Duration::nanos(wait);
        row.completed = row.submitted + Duration::nanos(service);
        (row.length, row.depth) = (4096, 3);
        row
    }

    #[test]
    fn times_are_those_of_fio() {
        let mut tally = JobTally::default();
        for (wait, service) in [(1000, 9_000), (3000, 11_000)] {
            tally.add(&row(Operation::Read, wait, service, 5_000_000));
        }
        tally.add(&row(Operation::Flush, 0, 7_000, 5_000_000));
        let read = &tally.sides[0];
        assert_eq!((read.requests, read.bytes, tally.sides[1].requests), (2, Bytes::kib(8), 0));
        assert_eq!((read.slat.mean(), read.clat.mean(), read.lat.mean()), (2000.0, 10_000.0, 12_000.0));
        assert!((read.clat.deviation() - 1414.2).abs() < 0.1, "{}", read.clat.deviation());
        assert_eq!((read.clat.min(), read.clat.max(), tally.flushes.count), (9_000.0, 11_000.0, 1));
        // Of depth 3, as fio's table has it: below 4.
        assert_eq!(tally.depths, [0, 2, 0, 0, 0, 0, 0]);
        // 10 us and 14 us.
        assert_eq!((tally.latencies[12], tally.latencies[13]), (1, 1));
        assert_eq!(tally.runtime(), Duration::nanos(14_000), "from the flush on, which was first");
    }

    #[test]
    fn jobs_of_a_group_add_up() {
        let (mut whole, mut parts) = (JobTally::default(), [JobTally::default(), JobTally::default()]);
        for n in 0..100 {
            let row = row(Operation::Write, n * 7 % 13, 1000 + n * n, n * 1_000_000);
            whole.add(&row);
            parts[n as usize % 2].add(&row);
        }
        let [mut first, second] = parts;
        first.merge(&second);
        let (one, other) = (&whole.sides[1], &first.sides[1]);
        assert_eq!((one.requests, one.bytes, whole.runtime()), (other.requests, other.bytes, first.runtime()));
        assert_eq!((whole.depths, whole.latencies), (first.depths, first.latencies));
        assert!((one.clat.mean() - other.clat.mean()).abs() < 1e-6);
        assert!((one.clat.deviation() - other.clat.deviation()).abs() < 1e-6);
        assert_eq!(whole.rates(1), first.rates(1));
    }

    #[test]
    fn what_failed_or_does_not_count_is_no_request() {
        let mut tally = JobTally::default();
        let mut failed = row(Operation::Write, 0, 1, 0);
        failed.errno = 5;
        tally.add(&failed);
        let mut early = row(Operation::Write, 0, 1, 0);
        early.phase = Phase::StartUp;
        tally.add(&early);
        assert_eq!((tally.error, tally.sides[1].requests), (5, 0));
    }

    #[test]
    fn rates_are_of_whole_samples() {
        let mut tally = JobTally::default();
        // A request each 10 ms for 3 s: 100/s, whatever the ends of the samples.
        (0..300).for_each(|n| tally.add(&row(Operation::Read, 0, 1000, n * 10_000_000 + 123)));
        let (bytes, requests) = tally.rates(0);
        assert_eq!((requests.count, requests.mean(), requests.deviation()), (4, 100.0, 0.0));
        assert_eq!(bytes.mean(), 409_600.0);
    }

    #[test]
    fn every_time_has_a_bin() {
        assert_eq!((bin(Duration::ZERO), bin(Duration::nanos(1001)), bin(Duration::MAX)), (0, 10, 31));
        assert_eq!(LATENCIES.iter().map(|(_, bounds, _)| bounds.len()).sum::<usize>() + 1, LATENCY_BINS);
    }
}
