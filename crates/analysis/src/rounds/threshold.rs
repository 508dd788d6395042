//! Where small deltas end and large ones begin, if nobody says.
//!
//! The threshold that splits the deltas into the two classes whose means lie furthest apart, as N. Otsu finds the grey
//! level that separates an object from its ground ("A threshold selection method from gray-level histograms", 1979): it
//! maximizes w0 w1 (m0 - m1)^2, w being the classes' shares. It looks at the lengths of deltas only and never at their
//! devices, so that it cannot be drawn to a value that makes rounds.
//!
//! Lengths are compared as ln(1 + delta / mean). On the lengths themselves one stall of seconds outweighs thousands of
//! positionings; on plain logarithms, completions that were seen together, a microsecond apart, do. Below a tenth of
//! the mean all deltas are about equal here, and above it ten times as long counts for 2.3.

use units::Duration;

/// Steps in each doubling: a threshold is within 3 percent.
const STEPS: u32 = 32;
const BUCKETS: usize = ((64 - STEPS.ilog2() + 1) * STEPS) as usize;

/// The histogram of deltas.
pub(super) struct Threshold {
    counts: Vec<u64>,
    sum: u128,
    deltas: u64,
}

impl Threshold {
    /// Counts all deltas.
    pub fn of(deltas: impl Iterator<Item = Duration>) -> Threshold {
        let mut threshold = Threshold { counts: vec![0; BUCKETS], sum: 0, deltas: 0 };
        for delta in deltas {
            threshold.counts[bucket(delta.as_nanos())] += 1;
            threshold.sum += u128::from(delta.as_nanos());
            threshold.deltas += 1;
        }
        threshold
    }

    /// The length above which a delta is large: the middle of the gap between the classes. With one class only, its
    /// greatest length, above which there is none.
    pub fn split(&self) -> Duration {
        let mean = (self.sum as f64 / self.deltas.max(1) as f64).max(1.0);
        let filled: Vec<usize> = (0..BUCKETS).filter(|bucket| self.counts[*bucket] > 0).collect();
        let weight = |bucket: usize| (floor(bucket) as f64 / mean).ln_1p();
        let total: f64 = filled.iter().map(|bucket| self.counts[*bucket] as f64 * weight(*bucket)).sum();
        let (mut below, mut sum) = (0.0, 0.0);
        let mut best = (0.0, filled.last().map_or(0, |last| ceiling(*last)));
        for pair in filled.windows(2) {
            below += self.counts[pair[0]] as f64;
            sum += self.counts[pair[0]] as f64 * weight(pair[0]);
            let above = self.deltas as f64 - below;
            let apart = sum / below - (total - sum) / above;
            let between = below * above * apart * apart;
            if between > best.0 {
                best = (between, ceiling(pair[0]).midpoint(floor(pair[1])));
            }
        }
        Duration::nanos(best.1)
    }
}

/// Lengths below `STEPS` ns have a bucket each, then each doubling has so many.
fn bucket(nanos: u64) -> usize {
    let shift = (63 - (nanos | u64::from(STEPS)).leading_zeros()) - STEPS.ilog2();
    (shift * STEPS) as usize + (nanos >> shift) as usize
}

/// The least length of a bucket.
fn floor(bucket: usize) -> u64 {
    let steps = STEPS as usize;
    let shift = (bucket / steps).saturating_sub(1);
    ((bucket - shift * steps) as u64) << shift
}

/// The greatest length of a bucket.
fn ceiling(bucket: usize) -> u64 {
    if bucket + 1 >= BUCKETS { u64::MAX } else { floor(bucket + 1) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_all_lengths_without_gaps() {
        for nanos in (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1, (1 << bit) + 1]).chain([u64::MAX]) {
            let bucket = bucket(nanos);
            assert!((floor(bucket)..=ceiling(bucket)).contains(&nanos), "{nanos} in bucket {bucket}");
        }
        assert_eq!(ceiling(bucket(u64::MAX)), u64::MAX);
        (1..BUCKETS).for_each(|bucket| assert_eq!(floor(bucket), ceiling(bucket - 1) + 1));
    }

    #[test]
    fn the_gap_is_found_in_spite_of_stalls_and_of_completions_seen_together() {
        let clean = [70u64, 19, 19, 18].repeat(500);
        let spoiled = [&clean[..], &[0; 100], &[10_000; 2]].concat();
        for deltas in [clean, spoiled] {
            let split = Threshold::of(deltas.into_iter().map(Duration::millis)).split();
            assert!((20..70).contains(&(split.as_nanos() / 1_000_000)), "{split}");
        }
    }
}
