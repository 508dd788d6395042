//! How far a model is from the drive.
//!
//! The demerit of Ruemmler and Wilkes (IEEE Computer, March 1994) is the root mean square horizontal distance between
//! the two distribution curves of response times. Here, exactly: both samples sorted; at p = (k + 0.5) / 10000 for k =
//! 0 ... 9999 each sample's quantile by linear interpolation at rank p (n - 1); the root of the mean of the squared
//! differences.

use units::Duration;

/// The distance of two distributions, and of two series request by request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// Requests.
    pub requests: usize,
    /// Mean of the measured times.
    pub measured_mean: Duration,
    /// Mean of the modelled times.
    pub modelled_mean: Duration,
    /// The demerit.
    pub demerit: Duration,
    /// Root mean square of modelled minus measured, request by request.
    pub rms_error: Duration,
    /// Pearson's correlation of measured and modelled, request by request; not a number if one of them is constant.
    pub correlation: f64,
}

impl Score {
    /// Compares two series of equal length. `None` if they are empty.
    pub fn of(measured: &[Duration], modelled: &[Duration]) -> Option<Score> {
        assert_eq!(measured.len(), modelled.len(), "each request has one measured and one modelled time");
        if measured.is_empty() {
            return None;
        }
        let (a, b) = (millis(measured), millis(modelled));
        let n = a.len() as f64;
        let (mean_a, mean_b) = (a.iter().sum::<f64>() / n, b.iter().sum::<f64>() / n);
        let (mut squares, mut aa, mut bb, mut ab) = (0.0, 0.0, 0.0, 0.0);
        for (x, y) in a.iter().zip(&b) {
            squares += (y - x) * (y - x);
            aa += (x - mean_a) * (x - mean_a);
            bb += (y - mean_b) * (y - mean_b);
            ab += (x - mean_a) * (y - mean_b);
        }
        Some(Score {
            requests: a.len(),
            measured_mean: from_millis(mean_a),
            modelled_mean: from_millis(mean_b),
            demerit: from_millis(demerit(a, b)),
            rms_error: from_millis((squares / n).sqrt()),
            correlation: ab / (aa * bb).sqrt(),
        })
    }

    /// Modelled mean against measured mean, as a signed share of the latter.
    pub fn mean_error(&self) -> f64 {
        self.modelled_mean.as_seconds() / self.measured_mean.as_seconds() - 1.0
    }
}

fn millis(times: &[Duration]) -> Vec<f64> {
    times.iter().map(|time| time.as_millis()).collect()
}

fn from_millis(ms: f64) -> Duration {
    Duration::from_seconds(ms / 1e3)
}

/// Quantiles compared.
const QUANTILES: u32 = 10_000;

fn demerit(mut a: Vec<f64>, mut b: Vec<f64>) -> f64 {
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    let squares: f64 = (0..QUANTILES)
        .map(|k| {
            let p = (f64::from(k) + 0.5) / f64::from(QUANTILES);
            (quantile(&a, p) - quantile(&b, p)).powi(2)
        })
        .sum();
    (squares / f64::from(QUANTILES)).sqrt()
}

/// The quantile `p` of a sorted sample, by linear interpolation at rank p (n - 1).
pub fn quantile(sorted: &[f64], p: f64) -> f64 {
    let rank = p * (sorted.len() - 1) as f64;
    let (below, part) = (rank.floor() as usize, rank.fract());
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * part
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(times: &[u64]) -> Vec<Duration> {
        times.iter().map(|time| Duration::millis(*time)).collect()
    }

    #[test]
    fn a_shifted_distribution_is_off_by_the_shift() {
        let score = Score::of(&ms(&[1, 2, 3, 4]), &ms(&[3, 4, 5, 6])).unwrap();
        assert_eq!((score.demerit, score.rms_error), (Duration::millis(2), Duration::millis(2)));
        assert!((score.correlation - 1.0).abs() < 1e-12 && (score.mean_error() - 0.8).abs() < 1e-9);
    }

    #[test]
    fn the_demerit_does_not_see_the_order() {
        let score = Score::of(&ms(&[1, 2, 3, 4]), &ms(&[4, 3, 2, 1])).unwrap();
        assert_eq!(score.demerit, Duration::ZERO);
        assert!(score.rms_error > Duration::millis(2) && score.correlation < -0.99);
    }

    #[test]
    fn quantiles_interpolate() {
        assert_eq!(quantile(&[0.0, 10.0], 0.25), 2.5);
        assert_eq!(quantile(&[7.0], 0.9), 7.0);
    }
}
