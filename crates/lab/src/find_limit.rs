//! The highest rate of arrivals at which response times keep within a bound.
//!
//! A device has no throughput by itself, only one for a response time that somebody accepts. The search offers the
//! arrivals of an experiment's open loops at one multiple of their rates after the other: it doubles or halves until
//! the bound is kept at one rate and broken at another, and then tries their geometric mean, until the two are within
//! two percent. Response times are counted from the intended arrivals, so a rate that the devices do not keep up with
//! breaks any bound. Arrivals that were never served, and requests that failed, break it, too. A percentile of so few
//! requests that none lies beyond it says nothing: there the search ends.
//!
//! The search takes the bound to be kept below some rate and broken above; by chance a run near that rate may tell
//! either way. Every run is shown, so that this can be seen; longer runs and more passes make it rarer. Closed loops of
//! the experiment go on unchanged as its background.

use serde_json::{Value, json};
use units::{Duration, Frequency};
use workload::Load;

use crate::experiment::Experiment;
use crate::runner::Outcome;

mod bound;
mod search;

pub use bound::Bound;
use search::Search;

/// An experiment, run at one rate after the other.
#[derive(Debug, Clone)]
pub struct Hunt {
    experiment: Experiment,
    bound: Bound,
    search: Search,
    /// What the experiment offers by itself, known from its first run.
    offered: Frequency,
    /// At a lower rate too few requests would be counted.
    counted_out: bool,
}

/// Why no limit can be found.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum HuntError {
    #[error(
        "--find-limit varies the rates of open loops, and '{experiment}' has none; give a stream `arrivals`, such as {{ poisson = \"1000/s\" }}"
    )]
    Closed { experiment: String },
    #[error("at {offered} fewer than {fewest} requests were counted, too few to judge {bound}; lengthen run.measure")]
    TooFew { offered: Frequency, fewest: u64, bound: Bound },
}

/// What a run came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tried {
    /// What its open loops offered.
    pub offered: Frequency,
    /// Whether the bound was kept, and the worst figure; `None` if too little was counted.
    pub judged: Option<(bool, Duration)>,
}

impl Tried {
    /// In a word.
    pub fn verdict(&self) -> &'static str {
        match self.judged {
            Some((true, _)) => "kept",
            Some((false, _)) => "broken",
            None => "-",
        }
    }
}

impl Hunt {
    /// For an experiment with open loops.
    pub fn new(experiment: &Experiment, bound: Bound) -> Result<Hunt, HuntError> {
        if experiment.offered(1).is_none() {
            return Err(HuntError::Closed { experiment: experiment.name.clone() });
        }
        let (search, offered) = (Search::default(), Frequency::default());
        Ok(Hunt { experiment: experiment.clone(), bound, search, offered, counted_out: false })
    }

    /// What to run next; `None` if the limit is known.
    pub fn next(&self) -> Option<Experiment> {
        if self.counted_out { None } else { Some(self.experiment.faster(self.search.next()?)) }
    }

    /// Takes note of what came of the run of [`next`](Hunt::next). One that was cut short is judged, and says nothing
    /// about the limit.
    pub fn take(&mut self, outcome: &Outcome) -> (Tried, Result<(), HuntError>) {
        let factor = self.search.next().expect("a run was asked for");
        let offered = outcome.offered.expect("an experiment with open loops offers something");
        self.offered = Frequency::per_second(offered.get() / factor);
        let tried = Tried { offered: self.at(factor), judged: self.bound.judge(&self.experiment, outcome) };
        let told = match tried.judged {
            _ if outcome.conclusion.interrupted => Ok(()),
            Some((kept, _)) => {
                self.search.tell(factor, kept);
                Ok(())
            }
            None if self.search.broken.is_some() => {
                self.counted_out = true;
                Ok(())
            }
            None => Err(HuntError::TooFew { offered: tried.offered, fewest: self.bound.fewest(), bound: self.bound }),
        };
        (tried, told)
    }

    fn at(&self, factor: f64) -> Frequency {
        Frequency::per_second(self.offered.get() * factor)
    }

    /// What it looks for.
    pub fn bound(&self) -> Bound {
        self.bound
    }

    /// True if there is a rate at which the bound is kept.
    pub fn any(&self) -> bool {
        self.search.kept.is_some()
    }

    /// The answer, in a sentence.
    pub fn text(&self) -> String {
        let Hunt { bound, search, .. } = self;
        match (search.kept, search.broken) {
            (Some(kept), Some(broken)) if search.next().is_none() => {
                format!("limit: {bound} was kept at {} offered, and broken at {}", self.at(kept), self.at(broken))
            }
            (Some(kept), None) if search.next().is_none() => {
                format!("limit: none found; {bound} was kept at every rate up to {}", self.at(kept))
            }
            (None, Some(broken)) if search.next().is_none() || self.counted_out => {
                let lower =
                    if self.counted_out { "; of a lower one too few requests are counted in run.measure" } else { "" };
                format!("limit: none; {bound} was broken at every rate down to {}{lower}", self.at(broken))
            }
            _ => format!("limit: the search for {bound} was ended early"),
        }
    }

    /// The answer, for scripts.
    pub fn document(&self) -> Value {
        json!({
            "bound": self.bound.to_string(),
            "kept_at_per_s": self.search.kept.map(|factor| self.at(factor).get()),
            "broken_at_per_s": self.search.broken.map(|factor| self.at(factor).get()),
            "complete": self.search.next().is_none() || self.counted_out,
        })
    }
}

impl Experiment {
    /// What all open loops offer together on so many devices; `None` if there are none. A device that a stream's `on`
    /// names twice, as several ranks load it, is offered it twice.
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
