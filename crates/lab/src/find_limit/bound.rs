//! What response times are held to, and when enough of them were counted to be judged.

use std::fmt;
use std::str::FromStr;

use analysis::Latency;
use units::Duration;
use workload::Load;

use crate::experiment::{Experiment, StreamPlan};
use crate::runner::Outcome;

/// What response times must keep to, such as `p99 <= 5 ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    figure: usize,
    /// At most this.
    pub most: Duration,
}

/// Takes a figure from a distribution.
type Figure = fn(&Latency) -> Duration;

/// The figures of a distribution that can be bounded, and of how many requests at least: as many as leave one beyond
/// the percentile, and never fewer than ten, which is a choice.
const FIGURES: [(&str, u64, Figure); 6] = [
    ("mean", 10, |times| times.mean),
    ("p50", 10, |times| times.p50),
    ("p90", 10, |times| times.p90),
    ("p99", 100, |times| times.p99),
    ("p99.9", 1000, |times| times.p999),
    ("max", 10, |times| times.max),
];

impl FromStr for Bound {
    type Err = String;
    fn from_str(text: &str) -> Result<Bound, String> {
        let wanted = || {
            format!("'{text}' is not of the form \"p99 <= 5 ms\"; bounded can be mean, p50, p90, p99, p99.9 and max")
        };
        let (name, most) = text.split_once("<=").ok_or_else(wanted)?;
        let figure = FIGURES.iter().position(|(known, ..)| *known == name.trim()).ok_or_else(wanted)?;
        let most: Duration = most.trim().parse().map_err(|error| format!("{}: {error}", wanted()))?;
        if most.is_zero() {
            return Err(wanted());
        }
        Ok(Bound { figure, most })
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} <= {}", FIGURES[self.figure].0, self.most)
    }
}

impl Bound {
    /// How many requests of each open loop must have been counted, if the bound is to be judged.
    pub fn fewest(&self) -> u64 {
        FIGURES[self.figure].1
    }

    /// Whether a run kept it, and the worst figure of its open loops; `None` if too little was counted, and all of it
    /// was served.
    pub fn judge(&self, experiment: &Experiment, outcome: &Outcome) -> Option<(bool, Duration)> {
        let groups = || experiment.streams.iter().zip(&outcome.summary.streams).filter(|(plan, _)| is_open(plan));
        let worst =
            groups().filter_map(|(_, group)| group.figures.latency.as_ref()).map(FIGURES[self.figure].2).max()?;
        let conclusion = &outcome.conclusion;
        let served = conclusion.unserved + conclusion.abandoned + outcome.summary.total.figures.errors == 0;
        if served && groups().any(|(_, group)| group.figures.requests < self.fewest()) {
            return None;
        }
        Some((served && worst <= self.most, worst))
    }
}

fn is_open(plan: &StreamPlan) -> bool {
    matches!(plan.stream.load, Load::Open { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read_as_they_are_written() {
        let bound: Bound = "p99.9<=250us".parse().unwrap();
        assert_eq!(bound.to_string(), "p99.9 <= 250 us");
        for wrong in ["p98 <= 5 ms", "p99 < 5 ms", "p99 <= 5", "p99 <= 0 s"] {
            assert!(wrong.parse::<Bound>().unwrap_err().contains("p99 <= 5 ms"), "{wrong}");
        }
    }
}
