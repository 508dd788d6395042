//! Means of repeats and how far they can be trusted.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{Question, Sample};

/// Mean and standard error of repeats, or of a sum of such.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spread {
    pub mean: f64,
    variance_of_mean: f64,
    repeats: usize,
}

impl Spread {
    pub fn of(samples: &[Sample], question: Question) -> Spread {
        let n = samples.len() as f64;
        assert!(n >= 2.0, "a survey repeats its measurements");
        let average = mean(samples.iter().map(|sample| sample.answer(question)));
        let squares: f64 = samples.iter().map(|sample| (sample.answer(question) - average).powi(2)).sum();
        Spread { mean: average, variance_of_mean: squares / (n - 1.0) / n, repeats: samples.len() }
    }

    pub fn plus(self, other: Spread) -> Spread {
        Spread {
            mean: self.mean + other.mean,
            variance_of_mean: self.variance_of_mean + other.variance_of_mean,
            repeats: self.repeats.min(other.repeats),
        }
    }

    /// The probability that this is below `share` of `whole`.
    pub fn below(self, whole: Spread, share: f64) -> f64 {
        let difference = share * whole.mean - self.mean;
        // Two clocks never agree to more than a part in a thousand: repeats that are alike to the last digit prove no
        // more than that.
        let floor = (1e-3 * whole.mean).powi(2);
        let error = (self.variance_of_mean + share * share * whole.variance_of_mean + floor).sqrt();
        if error == 0.0 {
            return 0.0;
        }
        let degrees = self.repeats.min(whole.repeats) as f64 - 1.0;
        let student = StudentsT::new(0.0, 1.0, degrees).expect("a survey repeats its measurements");
        student.cdf(difference / error)
    }

    /// Standard error as a share of the mean.
    pub fn relative(self) -> f64 {
        if self.mean == 0.0 { 0.0 } else { self.variance_of_mean.sqrt() / self.mean }
    }

    /// A mean with a standard error of a tenth or more says nothing about where it lies.
    pub fn doubt_of_mean(self) -> f64 {
        (self.relative() / 0.1).min(1.0)
    }
}

/// Zero if there is nothing to take the mean of.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0u32), |(sum, n), value| (sum + value, n + 1));
    if n == 0 { 0.0 } else { sum / f64::from(n) }
}
