//! Set-ups held against each other by runs that were made for it: interleaved repeats, so that what drifts drifts for
//! all.
//!
//! A machine is not the same an hour later, and passes of one run know nothing of that: of 16 pairs of identical runs
//! made one after the other, passes called five different. So the runs of the set-ups are made in turns, in an order
//! that is reversed each time (AB, BA, AB), and what is compared is within one turn. With a_i and b_i of turn i, the
//! differences d_i = ln b_i - ln a_i have the mean ln(b / a), and it lies within
//!
//! ```text
//! d +- t s / sqrt(n)     t of n - 1 degrees of freedom (Student, 1908)
//! ```
//!
//! as long as turns are independent of each other. A drift that is linear in time adds to the differences with
//! alternating sign, so it widens the interval and moves nothing. Several figures are compared at once, so t is taken
//! at 1 - 0.05 / figures (C. E. Bonferroni, 1936): that *any* of them differs is said wrongly in at most 5 of 100
//! comparisons of what is the same.
//!
//! Rejected: runs of the one, then runs of the other (a drift is taken for an effect); the passes of one run each (the
//! same, and worse).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use units::Ratio;

use crate::estimate::student_t;
use crate::json::number;
use crate::moments::Moments;
use crate::summary::Figures;

/// The share of comparisons of identical set-ups in which a figure is said to differ, at most.
const ALARMS: f64 = 0.05;

/// How a figure is read off a run; nothing if the run lacks it.
type Of = fn(&Figures) -> Option<f64>;

/// What is compared, by name.
const FIGURES: [(&str, Of); 3] = [
    ("iops", |figures| Some(figures.iops.get())),
    ("latency_mean_ns", |figures| Some(figures.latency?.mean.as_nanos() as f64)),
    ("latency_p99_ns", |figures| Some(figures.latency?.p99.as_nanos() as f64)),
];

/// The figures of one run that are compared, by name.
pub fn figures(run: &Figures) -> impl Iterator<Item = (&'static str, f64)> {
    FIGURES.into_iter().filter_map(|(name, of)| Some((name, of(run)?)))
}

/// A figure of two set-ups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// `iops`, `latency_mean_ns` or `latency_p99_ns`.
    pub name: Cow<'static, str>,
    /// Of the first set-up: the geometric mean of its runs.
    pub a: f64,
    /// Of the second.
    pub b: f64,
    /// Of the second, as a share of the first.
    #[serde(with = "number")]
    pub effect: Ratio,
    /// It lies between this
    #[serde(with = "number")]
    pub low: Ratio,
    /// and that.
    #[serde(with = "number")]
    pub high: Ratio,
    /// What follows.
    pub verdict: Effect,
}

/// Whether the second set-up has more of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// It has.
    More,
    /// It has less.
    Less,
    /// The interval holds 1: neither is shown.
    NoDifference,
}

impl Metric {
    /// The largest difference that the runs do not exclude, as a share.
    pub fn most(&self) -> Ratio {
        Ratio::new((self.high.get() - 1.0).max(1.0 / self.low.get().max(1e-9) - 1.0).max(0.0))
    }
}

/// Compares two set-ups by the totals of their runs, in turns: `a[i]` and `b[i]` were made one after the other. Figures
/// that a run lacks are left out. Panics unless there are as many of both, and two at least.
pub fn turns(a: &[Figures], b: &[Figures]) -> Vec<Metric> {
    assert!(a.len() == b.len() && a.len() >= 2, "{} and {} turns", a.len(), b.len());
    let logs = |of: Of, runs: &[Figures]| {
        let log = |figures| of(figures).filter(|value| *value > 0.0).map(f64::ln);
        runs.iter().map(log).collect::<Option<Vec<f64>>>()
    };
    let known: Vec<_> = FIGURES.into_iter().filter_map(|(name, of)| Some((name, logs(of, a)?, logs(of, b)?))).collect();
    let confidence = Ratio::new(1.0 - ALARMS / known.len().max(1) as f64);
    known.into_iter().map(|(name, a, b)| metric(name, &a, &b, confidence)).collect()
}

/// From logarithms.
fn metric(name: &'static str, a: &[f64], b: &[f64], confidence: Ratio) -> Metric {
    let (mut first, mut second, mut apart) = (Moments::default(), Moments::default(), Moments::default());
    for (a, b) in a.iter().zip(b) {
        first.add(*a);
        second.add(*b);
        apart.add(b - a);
    }
    let turns = a.len() as u32;
    let half = student_t(confidence, turns - 1) * apart.deviation() / f64::from(turns).sqrt();
    let ratio = |log: f64| Ratio::new(log.exp());
    let (low, high) = (ratio(apart.mean() - half), ratio(apart.mean() + half));
    let verdict = match () {
        () if low > Ratio::ONE => Effect::More,
        () if high < Ratio::ONE => Effect::Less,
        () => Effect::NoDifference,
    };
    Metric {
        name: name.into(),
        a: first.mean().exp(),
        b: second.mean().exp(),
        effect: ratio(apart.mean()),
        low,
        high,
        verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Frequency;

    /// Runs with these rates; they have no latencies.
    fn runs(rates: &[f64]) -> Vec<Figures> {
        let run = |rate: &f64| Figures { iops: Frequency::per_second(*rate), ..Figures::default() };
        rates.iter().map(run).collect()
    }

    /// Differences of logarithms 1, 2 and 3: their mean is 2 and s = 1; t(2) at 95 percent is 4.302653.
    #[test]
    fn the_interval_is_students_of_paired_differences() {
        let [a, b] = [[1.0f64, 5.0, 2.0], [2.0, 7.0, 5.0]].map(|logs| runs(&logs.map(f64::exp)));
        let [rate] = &turns(&a, &b)[..] else { panic!("one figure is known") };
        let half = 4.302_653 / 3f64.sqrt();
        assert!(
            (rate.low.get().ln() - (2.0 - half)).abs() < 1e-4 && (rate.high.get().ln() - (2.0 + half)).abs() < 1e-4
        );
        assert_eq!(rate.verdict, Effect::NoDifference);
        assert!((rate.most().get() - ((2.0 + half).exp() - 1.0)).abs() < 1e-2 * rate.most().get());
    }

    #[test]
    fn a_drift_of_both_is_no_effect_and_hides_none() {
        // Each run is 3 percent slower than the one before, whichever it is of.
        let in_turns = |b_is: f64| {
            let (mut now, mut a, mut b) = (1000.0, Vec::new(), Vec::new());
            for turn in 0..10 {
                for second in [turn % 2 == 1, turn % 2 == 0] {
                    now *= 0.97;
                    if second { b.push(now * b_is) } else { a.push(now) }
                }
            }
            turns(&runs(&a), &runs(&b)).remove(0)
        };
        assert_eq!(in_turns(1.0).verdict, Effect::NoDifference);
        let more = in_turns(1.05);
        assert_eq!(more.verdict, Effect::More);
        assert!((more.effect.get() - 1.05).abs() < 1e-9, "{more:?}");
        assert_eq!(in_turns(0.95).verdict, Effect::Less);
    }

    /// Identical set-ups whose runs scatter by 3 percent: with three figures, at most 5 percent of comparisons say that
    /// any differs.
    #[test]
    fn what_is_the_same_is_seldom_called_different() {
        use rand_distr::{Distribution, StandardNormal};
        use rand_xoshiro::rand_core::SeedableRng;
        let mut random = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(7);
        let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
        let mut alarms = 0;
        for _ in 0..2000 {
            let confidence = Ratio::new(1.0 - ALARMS / 3.0);
            let mut sample = || (0..5).map(|_| 0.03 * normal()).collect::<Vec<f64>>();
            let any = (0..3).any(|_| metric("x", &sample(), &sample(), confidence).verdict != Effect::NoDifference);
            alarms += usize::from(any);
        }
        // 100 are expected; five deviations of that count are 49.
        assert!((30..=149).contains(&alarms), "{alarms} of 2000");
    }
}
