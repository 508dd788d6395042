//! How times are distributed.
//!
//! A histogram with bins whose width grows with the value (HdrHistogram, Gil Tene): three significant digits at any
//! scale, so a percentile is at most 0.1 percent above the exact one. Count, mean, minimum and maximum are kept beside
//! it and are exact. Histograms add up without loss, so one is kept per pass, stream, device and operation, and every
//! total is a sum.
//!
//! Most of these histograms hold few times, and bins for milliseconds take 90 KiB, nearly all of them empty. So the
//! first times are kept as they are, and quantiles are those that the bins would give.

use units::{Duration, Ratio};

/// fio's default list of percentiles, in percent.
pub const FIO_PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

/// So many times are kept as they are: 8 KiB of them.
const FEW: usize = 1024;
/// So many bits of a time are kept, and the rest is the width of its bin: 2,048 bins of one nanosecond, then 1,024 to
/// each doubling, as the library has them for three digits.
const DIGITS: u32 = 11;

/// Times, counted by their size.
#[derive(Debug, Clone)]
pub struct Histogram {
    times: Times,
    /// Nanoseconds; 128 bits, as 10^9 requests of an hour leave 64.
    sum: u128,
    min: Duration,
    max: Duration,
}

/// The times in nanoseconds, in no order, or how many are in each bin.
#[derive(Debug, Clone)]
enum Times {
    Few(Vec<u64>),
    Many(Box<hdrhistogram::Histogram<u64>>),
}

impl Times {
    fn record(&mut self, time: u64) {
        match self {
            Times::Few(few) if few.len() < FEW => few.push(time),
            Times::Few(_) => self.as_bins().record(time).expect("the histogram grows"),
            Times::Many(bins) => bins.record(time).expect("the histogram grows"),
        }
    }

    /// From here on as bins.
    fn as_bins(&mut self) -> &mut hdrhistogram::Histogram<u64> {
        if let Times::Few(few) = self {
            let mut bins = hdrhistogram::Histogram::new_with_bounds(1, 2, 3).expect("valid bounds and digits");
            bins.auto(true);
            few.iter().for_each(|time| bins.record(*time).expect("the histogram grows"));
            *self = Times::Many(Box::new(bins));
        }
        match self {
            Times::Many(bins) => bins,
            Times::Few(_) => unreachable!("it was made bins"),
        }
    }

    fn merge(&mut self, other: &Times) {
        match (&mut *self, other) {
            (Times::Few(own), Times::Few(few)) if own.len() + few.len() <= FEW => own.extend(few),
            (_, Times::Few(few)) => few.iter().for_each(|time| self.record(*time)),
            (_, Times::Many(bins)) => self.as_bins().add(&**bins).expect("the histogram grows"),
        }
    }
}

/// The largest time of the bin that a time falls into.
fn end_of_bin(time: u64) -> u64 {
    let width = (u64::BITS - time.leading_zeros()).saturating_sub(DIGITS);
    time | ((1 << width) - 1)
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl Histogram {
    /// An empty one. It grows with the values that it is given: 8 bytes each for the first 1,024; then 16 KiB for a
    /// microsecond, 90 KiB for a millisecond, 280 KiB for an hour.
    pub fn new() -> Histogram {
        Histogram { times: Times::Few(Vec::new()), sum: 0, min: Duration::MAX, max: Duration::ZERO }
    }

    /// Counts one time.
    pub fn record(&mut self, time: Duration) {
        self.times.record(time.as_nanos());
        self.sum += u128::from(time.as_nanos());
        self.min = self.min.min(time);
        self.max = self.max.max(time);
    }

    /// Adds the times of another.
    pub fn merge(&mut self, other: &Histogram) {
        self.times.merge(&other.times);
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many times were counted.
    pub fn count(&self) -> u64 {
        match &self.times {
            Times::Few(few) => few.len() as u64,
            Times::Many(bins) => bins.len(),
        }
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
            let bin = match &self.times {
                Times::Few(few) => {
                    let rank = (quantile.get() * few.len() as f64).ceil() as usize;
                    end_of_bin(*few.clone().select_nth_unstable(rank.max(1) - 1).1)
                }
                Times::Many(bins) => bins.value_at_quantile(quantile.get()),
            };
            // The quantile of nothing is in the first bin, and so at its beginning.
            let bin = if quantile == Ratio::ZERO { Duration::ZERO } else { Duration::nanos(bin) };
            bin.clamp(self.min, self.max)
        })
    }

    /// The bins that are not empty: the largest time that falls into each, and the count.
    pub fn bins(&self) -> impl Iterator<Item = (Duration, u64)> {
        let (few, many) = match &self.times {
            Times::Few(few) => (few.clone(), None),
            Times::Many(bins) => (Vec::new(), Some(bins.iter_recorded())),
        };
        let mut ends: Vec<u64> = few.into_iter().map(end_of_bin).collect();
        ends.sort_unstable();
        let few: Vec<(u64, u64)> = ends.chunk_by(|a, b| a == b).map(|bin| (bin[0], bin.len() as u64)).collect();
        let many = many.into_iter().flatten().map(|bin| (bin.value_iterated_to(), bin.count_at_value()));
        few.into_iter().chain(many).map(|(end, count)| (Duration::nanos(end), count))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same times, in bins from the first one on.
    fn in_bins(times: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        histogram.times.as_bins();
        times.iter().for_each(|time| histogram.record(Duration::nanos(*time)));
        histogram
    }

    fn of(times: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        times.iter().for_each(|time| histogram.record(Duration::nanos(*time)));
        histogram
    }

    fn assert_same(a: &Histogram, b: &Histogram) {
        assert_eq!(a.bins().collect::<Vec<_>>(), b.bins().collect::<Vec<_>>());
        assert_eq!((a.count(), a.mean(), a.min(), a.max()), (b.count(), b.mean(), b.min(), b.max()));
        for percent in [0.0, 0.1, 1.0, 33.3, 50.0, 90.0, 99.0, 99.9, 100.0] {
            let quantile = Ratio::percent(percent);
            assert_eq!(a.quantile(quantile), b.quantile(quantile), "{percent} percent");
        }
    }

    /// Times of all sizes, up to an hour.
    fn times() -> impl Strategy<Value = Vec<u64>> {
        let time = (0u32..42).prop_flat_map(|bits| 0..=1u64 << bits);
        proptest::collection::vec(time, 0..40)
    }

    proptest! {
        #[test]
        fn few_times_are_told_as_bins_tell_them(times in times(), more in times()) {
            assert_same(&of(&times), &in_bins(&times));
            for (into, from) in [(of(&times), of(&more)), (of(&times), in_bins(&more)), (in_bins(&times), of(&more))] {
                let mut sum = into;
                sum.merge(&from);
                assert_same(&sum, &in_bins(&[&times[..], &more].concat()));
            }
        }
    }

    #[test]
    fn many_times_become_bins_one_by_one_or_at_once() {
        let times: Vec<u64> = (0..3 * FEW as u64).map(|time| time * time * 977).collect();
        let whole = of(&times);
        assert!(matches!(whole.times, Times::Many(_)));
        assert_same(&whole, &in_bins(&times));
        // Three that are few come to many.
        let mut sum = Histogram::new();
        times.chunks(FEW).for_each(|part| sum.merge(&of(part)));
        assert_same(&sum, &whole);
        assert!(matches!(of(&times[..FEW]).times, Times::Few(_)));
    }
}
