//! What a device does while the run goes on: counters that its load thread keeps and any other may read.
//!
//! A device belongs to one thread, so each counter has one writer and needs no locked instruction: a load, an addition,
//! a store. Readers see each counter as it was a moment ago, and not all as of the same moment; for a display that is
//! enough. Response times go into buckets of an eighth of a power of two: percentiles are at most 12.5 percent too
//! high. The record, from which the summary is made, is exact.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use record::{Operation, Row};
use units::{Bytes, Duration, Ratio};

/// Buckets of eight to a power of two, up to 2^64 ns.
const BUCKETS: usize = 496;

/// The counters of one device.
#[derive(Debug)]
pub(crate) struct Pulse {
    requests: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    response_nanos: AtomicU64,
    buckets: Box<[AtomicU64]>,
    under_way: AtomicU64,
    /// Of the thread that loads the device: the share of the last moment that it spent on a processor, in thousandths.
    busy: AtomicU64,
}

/// What a device had done at one moment, or between two.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Beat {
    /// Completed without error, in all phases.
    pub requests: u64,
    /// Moved by them.
    pub bytes: Bytes,
    /// Completed with an error.
    pub errors: u64,
    /// Sum of the response times.
    pub responses: Duration,
    /// Requests under way.
    pub under_way: u64,
    /// As many may be.
    pub lanes: u64,
    buckets: Vec<u64>,
}

fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
}

fn bucket(nanos: u64) -> usize {
    if nanos < 8 {
        return nanos as usize;
    }
    let power = nanos.ilog2() as usize;
    (power - 2) * 8 + ((nanos >> (power - 3)) & 7) as usize
}

/// The longest time that falls into a bucket.
fn upper(bucket: usize) -> Duration {
    if bucket < 8 {
        return Duration::nanos(bucket as u64);
    }
    let (power, eighth) = (bucket / 8 + 2, (bucket % 8) as u128);
    Duration::nanos((((9 + eighth) << (power - 3)) - 1).min(u128::from(u64::MAX)) as u64)
}

impl Default for Pulse {
    fn default() -> Pulse {
        let zero = AtomicU64::default;
        Pulse {
            requests: zero(),
            bytes: zero(),
            errors: zero(),
            response_nanos: zero(),
            buckets: (0..BUCKETS).map(|_| zero()).collect(),
            under_way: zero(),
            busy: zero(),
        }
    }
}

impl Pulse {
    /// Counts a request. To be called by the device's own thread only.
    pub fn add(&self, row: &Row) {
        if row.errno != 0 {
            return bump(&self.errors, 1);
        }
        if row.operation == Operation::Flush {
            return;
        }
        let response = row.response().as_nanos();
        bump(&self.requests, 1);
        bump(&self.bytes, u64::from(row.length));
        bump(&self.response_nanos, response);
        bump(&self.buckets[bucket(response)], 1);
    }

    /// What is under way, and how busy the thread is. To be called by the device's own thread only.
    pub fn state(&self, under_way: u64, busy: Ratio) {
        self.under_way.store(under_way, Relaxed);
        self.busy.store((busy.get() * 1000.0) as u64, Relaxed);
    }

    /// How busy the thread was.
    pub fn busy(&self) -> Ratio {
        Ratio::new(self.busy.load(Relaxed) as f64 / 1000.0)
    }

    /// What was done so far.
    pub fn beat(&self, lanes: u64) -> Beat {
        Beat {
            requests: self.requests.load(Relaxed),
            bytes: Bytes::new(self.bytes.load(Relaxed)),
            errors: self.errors.load(Relaxed),
            responses: Duration::nanos(self.response_nanos.load(Relaxed)),
            under_way: self.under_way.load(Relaxed),
            lanes,
            buckets: self.buckets.iter().map(|count| count.load(Relaxed)).collect(),
        }
    }
}

impl Beat {
    /// What was done in both; what is under way is the later one's.
    pub fn plus(&self, later: &Beat) -> Beat {
        let (most, fewer) = if self.buckets.len() < later.buckets.len() { (later, self) } else { (self, later) };
        let rest = fewer.buckets.iter().copied().chain(std::iter::repeat(0));
        Beat {
            requests: self.requests + later.requests,
            bytes: self.bytes + later.bytes,
            errors: self.errors + later.errors,
            responses: self.responses + later.responses,
            under_way: later.under_way,
            lanes: later.lanes,
            buckets: most.buckets.iter().zip(rest).map(|(a, b)| a + b).collect(),
        }
    }

    /// The same when nothing is under way any longer.
    pub fn at_rest(&self) -> Beat {
        Beat { under_way: 0, lanes: 0, ..self.clone() }
    }

    /// What was done since an earlier moment. What is under way stays that of the later one.
    pub fn since(&self, earlier: &Beat) -> Beat {
        let before = earlier.buckets.iter().copied().chain(std::iter::repeat(0));
        Beat {
            requests: self.requests.saturating_sub(earlier.requests),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            errors: self.errors.saturating_sub(earlier.errors),
            responses: self.responses.saturating_sub(earlier.responses),
            under_way: self.under_way,
            lanes: self.lanes,
            buckets: self.buckets.iter().zip(before).map(|(now, then)| now.saturating_sub(then)).collect(),
        }
    }

    /// Mean response time; `None` if nothing was done.
    pub fn mean(&self) -> Option<Duration> {
        self.responses.as_nanos().checked_div(self.requests).map(Duration::nanos)
    }

    /// The response time that a share of the requests did not exceed, at most 12.5 percent too high; `None` if nothing
    /// was done.
    pub fn quantile(&self, share: Ratio) -> Option<Duration> {
        let count: u64 = self.buckets.iter().sum();
        let wanted = (count as f64 * share.get()).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = self.buckets.iter().position(|in_bucket| {
            seen += in_bucket;
            seen >= wanted
        });
        found.filter(|_| count > 0).map(upper)
    }
}

#[cfg(test)]
mod tests {
    use record::Phase;
    use units::Instant;

    use super::*;

    #[test]
    fn every_time_has_its_bucket_and_no_bucket_is_wider_than_an_eighth() {
        let mut last = 0;
        for nanos in (0..5000).chain((13..64).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1])) {
            let here = bucket(nanos);
            assert!(here >= last && here < BUCKETS, "{nanos} is in bucket {here}, after {last}");
            let top = upper(here).as_nanos();
            assert!(nanos <= top && top as f64 <= nanos as f64 * 1.125 + 1.0, "{nanos} in a bucket up to {top}");
            last = here;
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_beat_is_what_was_done_between_two_moments() {
        let pulse = Pulse::default();
        let mut row = Row::new(Operation::Read, Phase::Measure);
        row.length = 4096;
        let mut make = |micros| {
            row.completed = Instant::START + Duration::micros(micros);
            pulse.add(&row);
        };
        (1..=100).for_each(|_| make(1000));
        let before = pulse.beat(8);
        (1..=99).for_each(&mut make);
        make(5000);
        let beat = pulse.beat(8).since(&before);
        assert_eq!((beat.requests, beat.bytes), (100, Bytes::kib(400)));
        assert_eq!(beat.mean(), Some(Duration::nanos(99_500)));
        let median = beat.quantile(Ratio::percent(50.0)).unwrap();
        assert!(median >= Duration::micros(50) && median <= Duration::micros(57), "{median}");
        assert!(beat.quantile(Ratio::ONE).unwrap() >= Duration::millis(5));
        assert_eq!(before.since(&before).quantile(Ratio::ONE), None);
        let whole = before.plus(&beat);
        assert_eq!((whole.requests, whole.quantile(Ratio::ONE)), (200, pulse.beat(8).quantile(Ratio::ONE)));
        assert_eq!(Beat::default().plus(&beat), beat);
    }
}
