//! What fio counts of a job: moments and percentiles of three times, by direction; samples of the rate; how deep the
//! queue was; its flushes.
//!
//! fio's three times are ours under other names: `slat`, from wanting to ask to having asked ([`Row::wait`]); `clat`,
//! at the device ([`Row::service`]); `lat`, both ([`Row::response`]).

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
    /// In all.
    pub lat: Moments,
    /// The three times by size, in this order, those of which percentiles are wanted and there are any: each takes 16
    /// KiB and more, and there may be thousands of jobs.
    pub times: [Option<Box<Histogram>>; 3],
    /// By I/O priority, where it is wanted: the time at the device, or in all where percentiles of that are wanted.
    pub priorities: BTreeMap<u16, (Moments, Option<Box<Histogram>>)>,
    samples: BTreeMap<u64, (u64, u64)>,
    /// When its first request was made, and its last one done.
    span: Option<(Instant, Instant)>,
    /// How long requests of this direction were the ones to be done next.
    turn: Duration,
}

/// What fio counts of one job, or of a group of them.
#[derive(Debug, Clone)]
pub struct JobTally {
    /// Reads, writes and discards.
    pub sides: [Side; 3],
    /// Flushes between requests. The one after the last request is none of them, as in fio, which only counts its time.
    pub flushes: Moments,
    /// The same, by size.
    pub flush_times: Option<Box<Histogram>>,
    /// Requests by the depth at which they were made: 1, 2, 4, 8, 16, 32, 64 and more.
    pub depths: [u64; 7],
    /// Requests by their latency, bin by bin of [`LATENCIES`].
    pub latencies: [u64; LATENCY_BINS],
    /// The first error.
    pub error: u16,
    counting: Counting,
    /// The latest flush, which may prove to be the last.
    flushed: Option<Duration>,
    began: Instant,
    ended: Instant,
}

/// To which of fio's times the parts of a response time go. Their sum is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Booking {
    /// The wait is `slat`, the service `clat`.
    #[default]
    AsStamped,
    /// Submission carries requests out one by one (`libaio` through the page cache): the service is `slat`. What has
    /// been done is taken in turn, so that the wait for the others is `clat`.
    AtSubmission,
    /// Requests are carried out one by one behind the program's back (`posixaio`): all is `clat`.
    AtCompletion,
}

impl Booking {
    /// `slat`, `clat` and `lat` of a request.
    pub fn times(self, row: &Row) -> [Duration; 3] {
        let [slat, clat] = match self {
            Booking::AsStamped => [row.wait(), row.service()],
            Booking::AtSubmission => [row.service(), row.wait()],
            Booking::AtCompletion => [Duration::ZERO, row.response()],
        };
        [slat, clat, row.response()]
    }
}

/// What is to be counted of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counting {
    /// Of which of the three times, in the order of [`Side::times`], there are to be percentiles.
    pub percentiles: [bool; 3],
    /// Whether the job ends with a flush that is not counted.
    pub ends_with_flush: bool,
    /// Whether requests are told apart by their I/O priority.
    pub by_priority: bool,
    /// To which times the parts of a response go.
    pub booking: Booking,
    /// How long each direction lasts.
    pub lasting: Lasting,
}

/// How long one direction of a job lasts, by which its rate is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lasting {
    /// As long as the job.
    #[default]
    Together,
    /// From its first request to its last: of a mixed job that verifies the writes end before.
    Apart,
    /// As long as it is what the job does: of a job that writes a lap and then reads it, each lap anew.
    InTurn,
}

impl Default for Counting {
    /// fio's: percentiles of the time at the device.
    fn default() -> Counting {
        Counting {
            percentiles: [false, true, false],
            ends_with_flush: false,
            by_priority: false,
            booking: Booking::AsStamped,
            lasting: Lasting::Together,
        }
    }
}

impl Default for JobTally {
    fn default() -> JobTally {
        JobTally::new(Counting::default())
    }
}

/// Counts a time, in a histogram that is made when it is needed.
fn record(times: &mut Option<Box<Histogram>>, time: Duration) {
    times.get_or_insert_default().record(time);
}

fn merge(times: &mut Option<Box<Histogram>>, other: &Option<Box<Histogram>>) {
    if let Some(other) = other {
        times.get_or_insert_default().merge(other);
    }
}

impl Side {
    /// Adds what another has counted.
    pub fn merge(&mut self, other: &Side) {
        self.bytes += other.bytes;
        self.requests += other.requests;
        self.slat.merge(&other.slat);
        self.clat.merge(&other.clat);
        self.lat.merge(&other.lat);
        self.times.iter_mut().zip(&other.times).for_each(|(times, more)| merge(times, more));
        for (priority, (moments, times)) in &other.priorities {
            let own = self.priorities.entry(*priority).or_default();
            own.0.merge(moments);
            merge(&mut own.1, times);
        }
        for (index, (bytes, requests)) in &other.samples {
            let sample = self.samples.entry(*index).or_default();
            *sample = (sample.0 + bytes, sample.1 + requests);
        }
        self.turn = self.turn.max(other.turn);
        self.span = match (self.span, other.span) {
            (Some((began, ended)), Some((from, to))) => Some((began.min(from), ended.max(to))),
            (own, other) => own.or(other),
        };
    }
}

impl JobTally {
    /// Nothing yet, of a job of which this is to be counted.
    pub fn new(counting: Counting) -> JobTally {
        JobTally {
            sides: Default::default(),
            flushes: Moments::default(),
            flush_times: None,
            counting,
            flushed: None,
            depths: [0; 7],
            latencies: [0; LATENCY_BINS],
            error: 0,
            began: Instant::NEVER,
            ended: Instant::START,
        }
    }

    /// Counts a request, if it is one that counts.
    pub fn add(&mut self, row: &Row) {
        if row.phase != Phase::Measure {
            return;
        }
        let before = if self.began == Instant::NEVER { row.submitted } else { self.ended };
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
            Operation::Flush => return self.flushed(row.response()),
        };
        let depth = u32::from(row.depth.max(1)).ilog2().min(6) as usize;
        self.depths[depth] += 1;
        self.latencies[bin(row.response())] += 1;
        let [slat, clat, lat] = self.counting.booking.times(row);
        let side = &mut self.sides[side];
        side.span = Some(side.span.map_or((row.submitted, row.completed), |(began, ended)| {
            (began.min(row.submitted), ended.max(row.completed))
        }));
        side.turn += row.completed.saturating_since(before);
        side.bytes += Bytes::new(row.length.into());
        side.requests += 1;
        side.slat.add(nanos(slat));
        side.clat.add(nanos(clat));
        side.lat.add(nanos(lat));
        for (index, time) in [slat, clat, lat].into_iter().enumerate() {
            if self.counting.percentiles[index] {
                record(&mut side.times[index], time);
            }
        }
        if self.counting.by_priority {
            let [_, of_clat, of_lat] = self.counting.percentiles;
            let time = if of_lat { lat } else { clat };
            let own = side.priorities.entry(row.priority).or_default();
            own.0.add(nanos(time));
            if of_clat || of_lat {
                record(&mut own.1, time);
            }
        }
        let sample = side.samples.entry(row.completed.as_nanos() / SAMPLE.as_nanos()).or_default();
        *sample = (sample.0 + u64::from(row.length), sample.1 + 1);
    }

    /// Adds what another job of the group came to.
    pub fn merge(&mut self, other: &JobTally) {
        for (side, more) in self.sides.iter_mut().zip(&other.sides) {
            side.merge(more);
        }
        self.flushes.merge(&other.flushes);
        merge(&mut self.flush_times, &other.flush_times);
        self.depths.iter_mut().zip(other.depths).for_each(|(count, more)| *count += more);
        self.latencies.iter_mut().zip(other.latencies).for_each(|(count, more)| *count += more);
        self.error = if self.error == 0 { other.error } else { self.error };
        (self.began, self.ended) = (self.began.min(other.began), self.ended.max(other.ended));
    }

    /// Counts a flush, unless it may be the last of a job that ends with one.
    fn flushed(&mut self, took: Duration) {
        let counted = match self.counting.ends_with_flush {
            true => self.flushed.replace(took),
            false => Some(took),
        };
        if let Some(time) = counted {
            self.flushes.add(time.as_nanos() as f64);
            record(&mut self.flush_times, time);
        }
    }

    /// All directions as one.
    pub fn mixed(&self) -> Side {
        let mut whole = Side::default();
        self.sides.iter().for_each(|side| whole.merge(side));
        whole
    }

    /// From its first request to its last completion, or until it was over.
    pub fn runtime(&self) -> Duration {
        self.ended.saturating_since(self.began)
    }

    /// How long one direction took, or all of them as one.
    pub fn runtime_of(&self, side: &Side) -> Duration {
        match (self.counting.lasting, side.span) {
            (Lasting::Together, _) | (_, None) => self.runtime(),
            (Lasting::Apart, Some((began, ended))) => ended.saturating_since(began),
            (Lasting::InTurn, Some(_)) => side.turn,
        }
    }

    /// The job was over then, and not before. One that made no request did not last.
    pub fn lasts_until(&mut self, over: Instant) {
        if self.began < Instant::NEVER && over < Instant::NEVER {
            self.ended = self.ended.max(over);
        }
    }

    /// Rates of bytes and of requests in each whole sample of a direction; of a shorter run, the one that there is.
    pub fn rates(&self, side: &Side) -> (Moments, Moments) {
        let (mut bytes, mut requests) = (Moments::default(), Moments::default());
        let samples = &side.samples;
        let (began, ended) = match (self.counting.lasting, side.span) {
            (Lasting::Together, _) | (_, None) => (self.began, self.ended),
            (_, Some(span)) => span,
        };
        let (first, last) = (began.as_nanos() / SAMPLE.as_nanos(), ended.as_nanos() / SAMPLE.as_nanos());
        // The first and the last are whole only by chance.
        let whole = if last > first + 2 { first + 1..last } else { 0..0 };
        for index in whole.clone() {
            let (moved, done) = samples.get(&index).copied().unwrap_or_default();
            bytes.add(moved as f64 / SAMPLE.as_seconds());
            requests.add(done as f64 / SAMPLE.as_seconds());
        }
        let seconds = self.runtime_of(side).as_seconds();
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
    fn the_flush_that_ends_a_job_is_not_among_its_flushes() {
        let times = [3_000, 5_000, 900_000].map(|service| row(Operation::Flush, 0, service, 1_000_000));
        let counted = |ends_with_flush| {
            let mut tally = JobTally::new(Counting { ends_with_flush, ..Counting::default() });
            times.iter().for_each(|row| tally.add(row));
            (tally.flushes.count, tally.flushes.max(), tally.runtime())
        };
        // Its time is part of the job's in either case.
        assert_eq!(counted(true), (2, 5_000.0, Duration::micros(900)));
        assert_eq!(counted(false), (3, 900_000.0, Duration::micros(900)));
    }

    #[test]
    fn the_parts_of_a_response_go_where_the_engine_spends_them() {
        let row = row(Operation::Read, 30_000, 2_000, 0);
        let micros = |booking: Booking| booking.times(&row).map(|time| time.as_nanos() / 1000);
        assert_eq!(micros(Booking::AsStamped), [30, 2, 32]);
        assert_eq!(micros(Booking::AtSubmission), [2, 30, 32]);
        assert_eq!(micros(Booking::AtCompletion), [0, 32, 32]);
    }

    /// Writes until 3 ms, reads from 5 ms on, and an end at 9 ms that a rate made it wait for.
    #[test]
    fn directions_last_together_or_apart() {
        let count = |lasting| {
            let mut tally = JobTally::new(Counting { lasting, ..Counting::default() });
            tally.add(&row(Operation::Write, 0, 3_000_000, 0));
            tally.add(&row(Operation::Read, 0, 1_000_000, 5_000_000));
            tally.lasts_until(Instant::from_nanos(9_000_000));
            [&tally.sides[0], &tally.sides[1]].map(|side| tally.runtime_of(side).as_nanos() / 1_000_000)
        };
        assert_eq!(count(Lasting::Together), [9, 9]);
        assert_eq!(count(Lasting::Apart), [1, 3]);
        // It was the reads' turn from the end of the writes on.
        assert_eq!(count(Lasting::InTurn), [3, 3]);
        let mut none = JobTally::default();
        none.lasts_until(Instant::from_nanos(9_000_000));
        assert_eq!(none.runtime(), Duration::ZERO, "without a request it did not last");
    }

    #[test]
    fn percentiles_are_kept_of_the_times_that_they_are_wanted_of() {
        let mut tally = JobTally::new(Counting { percentiles: [false, false, true], ..Counting::default() });
        (1..=100).for_each(|n| tally.add(&row(Operation::Read, 500, n * 1000, 0)));
        let [slat, clat, lat] = &tally.sides[0].times;
        assert!(slat.is_none() && clat.is_none());
        let median = lat.as_ref().unwrap().quantile(units::Ratio::percent(50.0)).unwrap();
        assert!((50_500..50_600).contains(&median.as_nanos()), "{median}");
        assert_eq!((tally.sides[0].clat.count, tally.mixed().requests), (100, 100), "moments are of all three");
    }

    #[test]
    fn requests_are_told_apart_by_their_priority_where_that_is_wanted() {
        let count = |by_priority| {
            let mut jobs = [0, 1].map(|_| JobTally::new(Counting { by_priority, ..Counting::default() }));
            for n in 0..10u64 {
                let mut row = row(Operation::Read, 500, 1000 * (n + 1), 0);
                row.priority = if n < 3 { 1 << 13 } else { 3 << 13 };
                jobs[n as usize % 2].add(&row);
            }
            let [mut first, second] = jobs;
            first.merge(&second);
            let counted = |(priority, (moments, times)): (&u16, &(Moments, Option<Box<Histogram>>))| {
                (*priority, moments.count, moments.mean(), times.is_some())
            };
            first.sides[0].priorities.iter().map(counted).collect::<Vec<_>>()
        };
        assert_eq!(count(true), [(1 << 13, 3, 2000.0, true), (3 << 13, 7, 7000.0, true)]);
        assert_eq!(count(false), []);
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
        assert_eq!(whole.rates(one), first.rates(other));
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
        let (bytes, requests) = tally.rates(&tally.sides[0]);
        assert_eq!((requests.count, requests.mean(), requests.deviation()), (4, 100.0, 0.0));
        assert_eq!(bytes.mean(), 409_600.0);
    }

    #[test]
    fn every_time_has_a_bin() {
        assert_eq!((bin(Duration::ZERO), bin(Duration::nanos(1001)), bin(Duration::MAX)), (0, 10, 31));
        assert_eq!(LATENCIES.iter().map(|(_, bounds, _)| bounds.len()).sum::<usize>() + 1, LATENCY_BINS);
    }
}
