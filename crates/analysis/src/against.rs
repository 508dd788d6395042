//! Two runs held against each other: how much faster the later one was, and how sure that is.
//!
//! Passes of a run are taken as independent samples. Rates and times compare by their ratio, so the samples are taken
//! as logarithms, whose difference is the logarithm of the ratio of (geometric) means. It lies, with 95 percent
//! confidence, within
//!
//! ```text
//! d +- t sqrt(a + b)     a = s1^2 / n1, b = s2^2 / n2
//! degrees of freedom     (a + b)^2 / (a^2 / (n1 - 1) + b^2 / (n2 - 1))
//! ```
//!
//! where the standard deviations s1 and s2 need not be alike (B. L. Welch, "The generalization of Student's problem
//! when several different population variances are involved", Biometrika 34, 1947). Degrees are rounded down, which
//! makes the interval wider. A ratio whose interval holds 1 is no difference that was shown. With one pass there is a
//! ratio, and nothing is known of its worth.

use serde::Serialize;
use units::Ratio;

use crate::estimate::student_t;
use crate::json::Quantity;
use crate::moments::Moments;
use crate::summary::{Figures, Group, Summary};

/// One figure of both runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// Of the later run, as a share of that of the earlier one.
    #[serde(serialize_with = "bare")]
    pub ratio: Ratio,
    /// It lies between these, with 95 percent confidence; nothing unless both runs have two passes.
    #[serde(serialize_with = "bares")]
    pub interval: Option<[Ratio; 2]>,
}

/// What the requests of a group came to in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// "total", or that of a stream or device that both runs have.
    pub name: String,
    /// The earlier run.
    pub before: Figures,
    /// The later run.
    pub after: Figures,
    /// Of requests a second; nothing if one of them had none.
    pub iops: Option<Change>,
    /// Of bytes a second.
    pub bandwidth: Option<Change>,
    /// Of the mean response time.
    pub latency_mean: Option<Change>,
    /// Of the 99th percentile of response times.
    pub latency_p99: Option<Change>,
}

/// Holds the later run against the earlier one: all of it, and the streams and devices that both have by name, if there
/// are several.
pub fn against(before: &Summary, after: &Summary) -> Vec<Compared> {
    let mut compared = vec![groups(&before.total, &after.total)];
    for (before, after) in [(&before.streams, &after.streams), (&before.devices, &after.devices)] {
        let pairs = after.iter().filter_map(|after| Some((before.iter().find(|one| one.name == after.name)?, after)));
        let pairs: Vec<_> = pairs.filter(|_| after.len() > 1).collect();
        compared.extend(pairs.into_iter().map(|(before, after)| groups(before, after)));
    }
    compared
}

fn groups(before: &Group, after: &Group) -> Compared {
    let change = |of: &dyn Fn(&Figures) -> Option<f64>| {
        let passes = |group: &Group| group.passes.iter().filter_map(of).collect::<Vec<f64>>();
        Change::of([of(&before.figures)?, of(&after.figures)?], [&passes(before), &passes(after)])
    };
    Compared {
        name: after.name.clone(),
        before: before.figures.clone(),
        after: after.figures.clone(),
        iops: change(&|figures| Some(figures.iops.to_f64())),
        bandwidth: change(&|figures| Some(figures.bandwidth.to_f64())),
        latency_mean: change(&|figures| Some(figures.latency?.mean.to_f64())),
        latency_p99: change(&|figures| Some(figures.latency?.p99.to_f64())),
    }
}

impl Change {
    /// From the figures of both runs, and those of their passes; nothing of what is zero.
    fn of([before, after]: [f64; 2], [earlier, later]: [&[f64]; 2]) -> Option<Change> {
        if before <= 0.0 || after <= 0.0 {
            return None;
        }
        Some(Change { ratio: Ratio::new(after / before), interval: interval(earlier, later) })
    }

    /// Whether the runs differ in this, as far as is known.
    pub fn is_shown(&self) -> bool {
        self.interval.is_some_and(|[low, high]| low > Ratio::ONE || high < Ratio::ONE)
    }
}

/// Welch's interval of the ratio of two means.
fn interval(before: &[f64], after: &[f64]) -> Option<[Ratio; 2]> {
    let usable = |samples: &[f64]| samples.len() >= 2 && samples.iter().all(|sample| *sample > 0.0);
    if !usable(before) || !usable(after) {
        return None;
    }
    // The mean of the logarithms, the square of its standard error, and the degrees of freedom.
    let moments = |samples: &[f64]| {
        let mut logs = Moments::default();
        samples.iter().for_each(|sample| logs.add(sample.ln()));
        (logs.mean(), logs.deviation().powi(2) / samples.len() as f64, (samples.len() - 1) as f64)
    };
    let ((m1, a, f1), (m2, b, f2)) = (moments(before), moments(after));
    let degrees = (a + b).powi(2) / (a * a / f1 + b * b / f2);
    // Without any spread there are none to be computed: all that is known is that many passes were alike.
    let degrees = if degrees.is_finite() { degrees } else { f1 + f2 };
    let half = student_t(Ratio::percent(95.0), (degrees as u32).max(1)) * (a + b).sqrt();
    Some([m2 - m1 - half, m2 - m1 + half].map(|log| Ratio::new(log.exp())))
}

fn bare<S: serde::Serializer>(ratio: &Ratio, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(ratio.get())
}

fn bares<S: serde::Serializer>(interval: &Option<[Ratio; 2]>, serializer: S) -> Result<S::Ok, S::Error> {
    interval.map(|both| both.map(Ratio::get)).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Welch's t for logarithms 1, 2, 3 and 4, 6, 8: d = 4, a = 1/3, b = 4/3, degrees 50/17, t(2) = 4.302653.
    #[test]
    fn the_interval_is_welchs() {
        let [before, after] = [[1.0f64, 2.0, 3.0], [4.0, 6.0, 8.0]].map(|logs| logs.map(f64::exp));
        let [low, high] = interval(&before, &after).unwrap();
        let half = 4.302_653 * (5.0f64 / 3.0).sqrt();
        assert!((low.get().ln() - (4.0 - half)).abs() < 1e-4 && (high.get().ln() - (4.0 + half)).abs() < 1e-4);
    }

    #[test]
    fn a_difference_is_shown_where_the_passes_bear_it_out() {
        let change = |after: [f64; 3]| {
            let before = [100.0, 101.0, 99.0];
            let mean = |samples: [f64; 3]| samples.iter().sum::<f64>() / 3.0;
            Change::of([mean(before), mean(after)], [&before, &after]).unwrap()
        };
        let faster = change([120.0, 121.0, 119.0]);
        assert!(faster.is_shown() && (faster.ratio.get() - 1.2).abs() < 1e-9);
        assert!(!change([90.0, 130.0, 140.0]).is_shown(), "as much faster, and nobody knows");
        assert!(!change([100.0, 101.0, 99.0]).is_shown());
        let alone = Change::of([100.0, 150.0], [&[100.0], &[150.0]]).unwrap();
        assert_eq!((alone.interval, alone.is_shown()), (None, false));
        assert_eq!(Change::of([0.0, 150.0], [&[], &[]]), None);
    }
}
