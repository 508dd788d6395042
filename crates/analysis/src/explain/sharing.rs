//! Whether devices share a limit, told by their rates alone: what one gains, another loses.
//!
//! Over equal intervals, rates of devices that have nothing in common vary independently, and the variance of their sum
//! is the sum of their variances. Where a part that they share lets only so much pass, the sum is nearly constant and
//! the ratio of the two is small, near 0. What disturbs all alike (a processor that is taken away, a pause of the host)
//! makes it larger than 1, and hides a shared limit. So a small ratio is evidence, and a large one is none.
//!
//! With k intervals the ratio of two variances of independent rates scatters about 1 by some sqrt(2 / k). Rejected:
//! correlation of pairs, which of D devices is only -1 / (D - 1) where they share all.

use serde::Serialize;
use units::Ratio;

use crate::course::Course;
use crate::json::number;

/// Fewer intervals scatter the ratio too much.
const LEAST: usize = 30;
/// An interval in which a device completes fewer requests counts them more than its rate.
const REQUESTS: f64 = 10.0;

/// How the rates of all devices vary together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Together {
    /// The variance of the sum, divided by the sum of variances.
    #[serde(with = "number")]
    pub ratio: Ratio,
    /// In so many intervals.
    pub intervals: usize,
}

impl Together {
    /// Of the counted time of a run; `None` if it has too few intervals or requests, or only one device.
    pub fn of(course: &Course, devices: usize) -> Option<Together> {
        let length = course.series.interval();
        let counted = |index: usize| {
            let (begin, end) = (length * index as u64, length * (index as u64 + 1));
            course.passes.iter().any(|pass| pass.counted.start <= begin && end <= pass.counted.end)
        };
        let intervals: Vec<usize> = (0..course.series.len()).filter(|index| counted(*index)).collect();
        let rates = |device: u16| {
            let rate = move |index: &usize| course.series.get(*index, device).requests as f64;
            intervals.iter().map(rate).collect::<Vec<f64>>()
        };
        let each: Vec<Vec<f64>> = (0..devices as u16).map(rates).collect();
        let enough = |rates: &Vec<f64>| rates.iter().sum::<f64>() >= REQUESTS * rates.len() as f64;
        if intervals.len() < LEAST || devices < 2 || !each.iter().all(enough) {
            return None;
        }
        let sum: Vec<f64> = (0..intervals.len()).map(|index| each.iter().map(|rates| rates[index]).sum()).collect();
        let of_each: f64 = each.iter().map(|rates| variance(rates)).sum();
        (of_each > 0.0).then(|| Together { ratio: Ratio::new(variance(&sum) / of_each), intervals: intervals.len() })
    }
}

/// About a straight line through the values, so that a drift of all is no common variation.
fn variance(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let (mean, middle) = (values.iter().sum::<f64>() / n, (n - 1.0) / 2.0);
    let at = |index: usize| index as f64 - middle;
    let along: f64 = (0..values.len()).map(|index| at(index) * at(index)).sum();
    let slope = values.iter().enumerate().map(|(index, value)| at(index) * value).sum::<f64>() / along;
    values.iter().enumerate().map(|(index, value)| (value - mean - slope * at(index)).powi(2)).sum::<f64>() / (n - 2.0)
}
