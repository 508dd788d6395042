//! How times are distributed.
//!
//! A histogram with bins whose width grows with the value (HdrHistogram, Gil Tene): three significant digits at any
//! scale, so a percentile is at most 0.1 percent above the exact one. Count, mean, minimum and maximum are kept beside
//! it and are exact. Histograms add up without loss, so one is kept per pass, stream, device and operation, and every
//! total is a sum.

use units::{Duration, Ratio};

/// fio's default list of percentiles, in percent.
pub const FIO_PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

/// Times, counted by their size.
#[derive(Debug, Clone)]
pub struct Histogram {
    bins: hdrhistogram::Histogram<u64>,
    /// Nanoseconds; 128 bits, as 10^9 requests of an hour leave 64.
    sum: u128,
    min: Duration,
    max: Duration,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl Histogram {
    /// An empty one. It grows with the values that it is given: 16 KiB for a microsecond, 90 KiB for a millisecond, 280
    /// KiB for an hour.
    pub fn new() -> Histogram {
        let mut bins = hdrhistogram::Histogram::new_with_bounds(1, 2, 3).expect("valid bounds and digits");
        bins.auto(true);
        Histogram { bins, sum: 0, min: Duration::MAX, max: Duration::ZERO }
    }

    /// Counts one time.
    pub fn record(&mut self, time: Duration) {
        self.bins.record(time.as_nanos()).expect("the histogram grows");
        self.sum += u128::from(time.as_nanos());
        self.min = self.min.min(time);
        self.max = self.max.max(time);
    }

    /// Adds the times of another.
    pub fn merge(&mut self, other: &Histogram) {
        self.bins.add(&other.bins).expect("the histogram grows");
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.bins.len()
    }

    /// True before the first.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Their exact sum, in nanoseconds.
    pub fn sum_nanos(&self) -> u128 {
        self.sum
    }

    /// Their mean to the nearest nanosecond; `None` without times.
    pub fn mean(&self) -> Option<Duration> {
        let count = u128::from(self.count());
        (count > 0).then(|| Duration::nanos(((self.sum + count / 2) / count) as u64))
    }

    /// The smallest; `None` without times.
    pub fn min(&self) -> Option<Duration> {
        (!self.is_empty()).then_some(self.min)
    }

    /// The largest; `None` without times.
    pub fn max(&self) -> Option<Duration> {
        (!self.is_empty()).then_some(self.max)
    }

    /// The time that the share `quantile` (at most the whole) does not exceed, at most 0.1 percent too high; `None`
    /// without times.
    pub fn quantile(&self, quantile: Ratio) -> Option<Duration> {
        assert!(quantile <= Ratio::ONE, "a quantile of {quantile} is more than all");
        (!self.is_empty()).then(|| {
            let bin = Duration::nanos(self.bins.value_at_quantile(quantile.get()));
            bin.clamp(self.min, self.max)
        })
    }

    /// The bins that are not empty: the largest time that falls into each, and the count.
    pub fn bins(&self) -> impl Iterator<Item = (Duration, u64)> {
        self.bins.iter_recorded().map(|bin| (Duration::nanos(bin.value_iterated_to()), bin.count_at_value()))
    }
}
