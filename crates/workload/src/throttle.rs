//! Rates that a load keeps to, however fast the devices are: token buckets.
//!
//! A bucket is kept as one instant, that at which it would be full again (the "virtual scheduling" form of the leaky
//! bucket, ITU-T I.371, known as GCRA): a request of cost `c` may be made when the instant is at most `burst` ahead of
//! now, and moves it on by `c`. Nothing runs in the background, nothing is rounded to ticks, and several threads can
//! share a bucket by one compare-and-swap. A request is given its time when it asks, so requests that wait do not
//! overtake each other, and a timer that is late is made up for as long as others wait.
//!
//! In a closed loop the time that a request is held back is the load's own doing and no part of its response time. In
//! an open loop the arrival has been, and the wait counts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use units::{Bytes, Duration, Frequency, Instant, Rate};

/// What a stream or a run may ask for at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit {
    /// Requests; above zero.
    pub requests: Option<Frequency>,
    /// Bytes; above zero.
    pub bytes: Option<Rate>,
    /// What was not asked for in so much time may be made up for at once; with zero, requests are evenly spaced.
    pub burst: Duration,
}

/// A rate limit at work.
#[derive(Debug)]
pub struct Throttle {
    limit: RateLimit,
    requests: Bucket,
    bytes: Bucket,
}

/// When it would be full again, in nanoseconds since the clock's start.
#[derive(Debug)]
struct Bucket(AtomicU64);

impl Throttle {
    /// Of a load that begins at `begin`, before which nothing was saved up.
    pub fn new(limit: RateLimit, begin: Instant) -> Throttle {
        let empty = || Bucket(AtomicU64::new((begin + limit.burst).as_nanos()));
        Throttle { limit, requests: empty(), bytes: empty() }
    }

    /// When the next request may be made at the earliest.
    pub fn due(&self) -> Instant {
        let burst = self.limit.burst.as_nanos();
        let due = |bucket: &Bucket| Instant::from_nanos(bucket.0.load(Relaxed).saturating_sub(burst));
        let by_count = self.limit.requests.map(|_| due(&self.requests));
        by_count.max(self.limit.bytes.map(|_| due(&self.bytes))).unwrap_or(Instant::START)
    }

    /// When a request of `length` that is ready `now` may be made; it is counted as made.
    pub fn admit(&self, now: Instant, length: Bytes) -> Instant {
        let RateLimit { requests, bytes, burst } = self.limit;
        let by_count = requests.map(|rate| self.requests.take(now, Duration::from_seconds(1.0 / rate.get()), burst));
        let by_bytes = bytes.map(|rate| self.bytes.take(now, rate.time_for(length), burst));
        now.max(by_count.unwrap_or(now)).max(by_bytes.unwrap_or(now))
    }
}

impl Bucket {
    fn take(&self, now: Instant, cost: Duration, burst: Duration) -> Instant {
        let mut full = self.0.load(Relaxed);
        loop {
            // What is older than now is a full bucket.
            let begin = full.max(now.as_nanos());
            let then = begin.saturating_add(cost.as_nanos());
            match self.0.compare_exchange_weak(full, then, Relaxed, Relaxed) {
                Ok(_) => return now.max(Instant::from_nanos(begin.saturating_sub(burst.as_nanos()))),
                Err(other) => full = other,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::millis(millis)
    }

    #[test]
    fn requests_are_spaced_and_what_was_saved_is_made_up_for() {
        let rate = RateLimit { requests: Some(Frequency::per_second(100.0)), bytes: None, burst: Duration::ZERO };
        let even = Throttle::new(rate, at(0));
        let given = [0, 0, 0, 25, 200].map(|now| even.admit(at(now), Bytes::kib(4)));
        assert_eq!(given, [at(0), at(10), at(20), at(30), at(200)]);
        let limit = RateLimit { burst: Duration::millis(20), ..rate };
        let saving = Throttle::new(limit, at(0));
        let given = [at(100); 5].map(|now| saving.admit(now, Bytes::kib(4)));
        assert_eq!(given, [at(100), at(100), at(100), at(110), at(120)]);
        // At the beginning there is nothing to be made up for.
        let fresh = Throttle::new(limit, at(100));
        assert_eq!([at(100); 3].map(|now| fresh.admit(now, Bytes::kib(4))), [at(100), at(110), at(120)]);
    }

    #[test]
    fn bytes_count_by_their_number_and_the_slower_of_two_limits_rules() {
        let limit = RateLimit {
            requests: Some(Frequency::per_second(1000.0)),
            bytes: Some(Rate::bytes_per_second(1e6)),
            burst: Duration::ZERO,
        };
        let throttle = Throttle::new(limit, at(0));
        assert_eq!(throttle.admit(at(0), Bytes::new(5000)), at(0));
        assert_eq!(throttle.admit(at(0), Bytes::new(100)), at(5));
    }
}
