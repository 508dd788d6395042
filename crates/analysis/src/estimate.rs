//! How sure a mean is.
//!
//! Passes of one experiment are taken as independent samples of one value. Their mean m lies, with the chosen
//! confidence, within t s / sqrt(n) of the value, where s is the samples' standard deviation and t the quantile of
//! Student's distribution with n - 1 degrees of freedom (Student, "The probable error of a mean", 1908). With three
//! passes t is 4.3: an honest interval of few passes is wide. The normal distribution's 1.96 in its place, as many
//! tools print it, would be right in only 81 percent of cases.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};
use units::Ratio;

use crate::json::{Quantity, number};

/// Mean, extremes and confidence interval of repeated measurements.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(bound = "Q: Quantity")]
pub struct Estimate<Q> {
    /// How many measurements.
    pub samples: u32,
    /// Their mean.
    #[serde(with = "number")]
    pub mean: Q,
    /// The lowest.
    #[serde(with = "number")]
    pub low: Q,
    /// The highest.
    #[serde(with = "number")]
    pub high: Q,
    /// The value lies within this of the mean, with 95 % confidence.
    #[serde(with = "number", rename = "confidence_95")]
    pub half_width: Q,
}

impl<Q: Quantity> Estimate<Q> {
    /// From at least two measurements; `None` from fewer, as one measurement says nothing about its spread.
    pub fn of(samples: impl IntoIterator<Item = Q>) -> Option<Estimate<Q>> {
        let samples: Vec<f64> = samples.into_iter().map(Q::to_f64).collect();
        let half_width = half_width(&samples)?;
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        Some(Estimate {
            samples: samples.len() as u32,
            mean: Q::from_f64(mean),
            low: Q::from_f64(samples.iter().copied().fold(f64::INFINITY, f64::min)),
            high: Q::from_f64(samples.iter().copied().fold(0.0, f64::max)),
            half_width: Q::from_f64(half_width),
        })
    }

    /// Half the confidence interval as a share of the mean; nothing for a mean of zero.
    pub fn relative_half_width(&self) -> Option<Ratio> {
        let mean = self.mean.to_f64();
        (mean > 0.0).then(|| Ratio::new(self.half_width.to_f64() / mean))
    }

    /// From the lowest to the highest as a share of the mean; nothing for a mean of zero.
    pub fn relative_spread(&self) -> Option<Ratio> {
        let mean = self.mean.to_f64();
        (mean > 0.0).then(|| Ratio::new((self.high.to_f64() - self.low.to_f64()) / mean))
    }
}

/// The mean of what the samples are drawn from lies within this of their mean, with 95 % confidence; nothing from fewer
/// than two.
pub fn half_width(samples: &[f64]) -> Option<f64> {
    let n = samples.len() as f64;
    if samples.len() < 2 {
        return None;
    }
    let mean = samples.iter().sum::<f64>() / n;
    let variance = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    Some(student_t(Ratio::percent(95.0), samples.len() as u32 - 1) * (variance / n).sqrt())
}

/// The factor t: a variable of Student's distribution with `degrees` of freedom lies within +-t with this `confidence`.
/// Panics unless there is a degree of freedom and the confidence is below one.
pub fn student_t(confidence: Ratio, degrees: u32) -> f64 {
    assert!(degrees > 0 && confidence < Ratio::ONE, "t for {degrees} degrees of freedom at {confidence}");
    let student = StudentsT::new(0.0, 1.0, f64::from(degrees)).expect("a positive number of degrees of freedom");
    student.inverse_cdf(0.5 + confidence.get() / 2.0)
}
