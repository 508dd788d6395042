//! The highest rate of arrivals at which response times keep within a bound.
//!
//! A device has no throughput by itself, only one for a response time that somebody accepts. The search offers the arrivals of an experiment's
//! open loops at one multiple of their rates after the other: it doubles or halves until the bound is kept at one rate and broken at another, and
//! then tries their geometric mean, until the two are within two percent. Response times are counted from the intended arrivals, so a
//! rate that the devices do not keep up with breaks any bound. Arrivals that were never served, and requests that failed, break it, too. A percentile of
//! so few requests that none lies beyond it says nothing: there the search ends.
//!
//! The search takes the bound to be kept below some rate and broken above; by chance a run near that rate may tell either way. Every run
//! is shown, so that this can be seen; longer runs and more passes make it rarer. Closed loops of the experiment go on unchanged as its background.

use std::fmt;
use std::str::FromStr;

use analysis::Latency;
use units::{Duration, Frequency};
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

/// The figures of a distribution that can be bounded, and of how many requests at least: as many as leave one beyond the percentile, and never fewer
/// than ten, which is a choice.
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

    /// Whether a run kept it, and the worst figure of its open loops; `None` if too little was counted, and all of it was served.
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

impl Experiment {
    /// What all open loops offer together on so many devices; `None` if there are none. A device that a stream's `on` names twice, as several ranks
    /// load it, is offered it twice.
    pub fn offered(&self, devices: usize) -> Option<Frequency> {
        let rates = self.streams.iter().filter_map(|plan| match plan.stream.load {
            Load::Open { arrivals, .. } => {
                Some(arrivals.rate().get() * plan.on.as_ref().map_or(devices, Vec::len) as f64)
            }
            Load::Closed { .. } => None,
        });
        rates.reduce(|a, b| a + b).map(Frequency::per_second)
    }

    /// The same with the rates of all open loops multiplied.
    pub fn faster(&self, factor: f64) -> Experiment {
        let mut experiment = self.clone();
        for plan in &mut experiment.streams {
            if let Load::Open { arrivals, .. } = &mut plan.stream.load {
                *arrivals = arrivals.faster(factor);
            }
        }
        experiment
    }
}

/// Where a search is: multiples of the experiment's rates.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Search {
    /// The highest at which the bound was kept.
    pub kept: Option<f64>,
    /// The lowest at which it was broken.
    pub broken: Option<f64>,
}

impl Search {
    /// The two rates are told apart no further.
    const CLOSE: f64 = 1.02;
    /// No search goes further from the rate that it began with.
    const FURTHEST: f64 = 1e6;

    /// What to try next; `None` if the search is over.
    pub fn next(&self) -> Option<f64> {
        match (self.kept, self.broken) {
            (None, None) => Some(1.0),
            (Some(kept), None) => Some(kept * 2.0).filter(|next| *next <= Self::FURTHEST),
            (None, Some(broken)) => Some(broken / 2.0).filter(|next| *next >= 1.0 / Self::FURTHEST),
            (Some(kept), Some(broken)) => (broken / kept > Self::CLOSE).then(|| (kept * broken).sqrt()),
        }
    }

    /// Takes note of what came of it.
    pub fn tell(&mut self, factor: f64, kept: bool) {
        let side = if kept { &mut self.kept } else { &mut self.broken };
        *side = Some(factor);
        assert!(
            self.kept.is_none_or(|kept| self.broken.is_none_or(|broken| kept < broken)),
            "a search tries rates between the two that it knows"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_closes_in_on_the_limit_from_either_side() {
        for limit in [0.003, 0.9, 1.0, 77.0] {
            let (mut search, mut tries) = (Search::default(), 0);
            while let Some(factor) = search.next() {
                search.tell(factor, factor <= limit);
                tries += 1;
            }
            let (kept, broken) = (search.kept.unwrap(), search.broken.unwrap());
            assert!(kept <= limit && limit < broken && broken <= kept * 1.02, "{limit}: {kept} to {broken}");
            assert!(tries <= 18, "{tries} tries");
        }
        let mut search = Search::default();
        while let Some(factor) = search.next() {
            search.tell(factor, true);
        }
        assert_eq!(search.broken, None, "what never breaks ends, too");
    }

    #[test]
    fn bounds_are_read_as_they_are_written() {
        let bound: Bound = "p99.9<=250us".parse().unwrap();
        assert_eq!(bound.to_string(), "p99.9 <= 250 us");
        for wrong in ["p98 <= 5 ms", "p99 < 5 ms", "p99 <= 5", "p99 <= 0 s"] {
            assert!(wrong.parse::<Bound>().unwrap_err().contains("p99 <= 5 ms"), "{wrong}");
        }
    }
}
