//! What an expression can ask of an experiment: names, dimensions, and what stands in their parentheses.

use super::deltas::{Bounds, Pattern, Statistic};
use super::formulas::Term;
use super::unit::Dimension;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    Bandwidth,
    Rate,
    Requests,
    /// Of all passes together.
    Elapsed,
    Latency(Moment),
    /// Of a node, or of something in it: what share of the time it was at work.
    Used,
    /// The same time, for each command.
    Busy,
    /// Mean time of a request in the spans of a part, or of one of its phases; of all parts, if none is named.
    Time,
    /// Mean time of a request in the spans of all other parts.
    TimeExcept,
    /// How often something happened, on all nodes together.
    Count,
    /// What a command did on its string, in the mean.
    Command(Deed),
    /// A value of the study's system.
    Value,
    /// How many passes there were.
    Passes,
    /// Of the times between completions.
    Delta(Statistic),
    /// Of rounds.
    Rounds(Pattern),
    /// What the formulas for rounds say.
    Formula(Term),
}

/// What a command does on its string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub(crate) enum Deed {
    Tenures,
    Disconnects,
    Saves,
    FirstBurst,
    TargetPauses,
    InitiatorPauses,
}

/// Of a distribution of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub(crate) enum Moment {
    Mean,
    Min,
    P50,
    P90,
    P99,
    P999,
    Max,
}

/// Measures by name.
pub(crate) const MEASURES: [(&str, Measure); 39] = [
    ("bandwidth", Measure::Bandwidth),
    ("rate", Measure::Rate),
    ("requests", Measure::Requests),
    ("elapsed", Measure::Elapsed),
    ("latency", Measure::Latency(Moment::Mean)),
    ("latency.min", Measure::Latency(Moment::Min)),
    ("latency.p50", Measure::Latency(Moment::P50)),
    ("latency.p90", Measure::Latency(Moment::P90)),
    ("latency.p99", Measure::Latency(Moment::P99)),
    ("latency.p999", Measure::Latency(Moment::P999)),
    ("latency.max", Measure::Latency(Moment::Max)),
    ("used", Measure::Used),
    ("busy", Measure::Busy),
    ("time", Measure::Time),
    ("time-except", Measure::TimeExcept),
    ("count", Measure::Count),
    ("command.tenures", Measure::Command(Deed::Tenures)),
    ("command.disconnects", Measure::Command(Deed::Disconnects)),
    ("command.saves", Measure::Command(Deed::Saves)),
    ("command.first-burst", Measure::Command(Deed::FirstBurst)),
    ("command.target-pauses", Measure::Command(Deed::TargetPauses)),
    ("command.initiator-pauses", Measure::Command(Deed::InitiatorPauses)),
    ("value", Measure::Value),
    ("passes", Measure::Passes),
    ("delta.mean", Measure::Delta(Statistic::Mean)),
    ("delta.median", Measure::Delta(Statistic::Median)),
    ("delta.deviation", Measure::Delta(Statistic::Deviation)),
    ("delta.count", Measure::Delta(Statistic::Count)),
    ("delta.per-round", Measure::Delta(Statistic::PerRound)),
    ("in-rounds", Measure::Rounds(Pattern::Found)),
    ("rounds.good", Measure::Rounds(Pattern::Good)),
    ("rounds.possible", Measure::Rounds(Pattern::Possible)),
    ("rounds.share", Measure::Rounds(Pattern::Share)),
    ("rounds.first", Measure::Rounds(Pattern::First)),
    ("rounds.order-repeats", Measure::Rounds(Pattern::OrderRepeats)),
    ("formula.positioning", Measure::Formula(Term::Positioning)),
    ("formula.transfer", Measure::Formula(Term::Transfer)),
    ("formula.large", Measure::Formula(Term::Large)),
    ("formula.round", Measure::Formula(Term::Round)),
];

impl Measure {
    /// Of what it is. A value has that of what its part says (`Quantity::dimension`).
    pub fn dimension(self) -> Dimension {
        match self {
            Measure::Bandwidth => Dimension::RATE,
            Measure::Rate => Dimension::FREQUENCY,
            Measure::Command(Deed::FirstBurst) => Dimension::AMOUNT,
            Measure::Latency(_) | Measure::Busy | Measure::Time | Measure::TimeExcept => Dimension::TIME,
            Measure::Elapsed | Measure::Command(Deed::TargetPauses | Deed::InitiatorPauses) => Dimension::TIME,
            Measure::Delta(Statistic::Mean | Statistic::Median | Statistic::Deviation) | Measure::Formula(_) => {
                Dimension::TIME
            }
            Measure::Requests | Measure::Used | Measure::Count | Measure::Command(_) | Measure::Value => {
                Dimension::PLAIN
            }
            Measure::Passes | Measure::Delta(_) | Measure::Rounds(_) => Dimension::PLAIN,
        }
    }

    /// Whether it is known only where the time of each step of a request is kept.
    pub fn wants_spans(self) -> bool {
        matches!(self, Measure::Time | Measure::TimeExcept)
    }

    /// Whether it holds or does not, and is no number.
    pub fn is_truth(self) -> bool {
        self == Measure::Rounds(Pattern::Found)
    }

    /// Which times between completions are meant, by what stands in its parentheses; all of them for other measures.
    pub fn bounds(self, names: &[String]) -> Result<Bounds, String> {
        match self {
            Measure::Delta(_) => Bounds::read(names),
            Measure::Rounds(Pattern::Good | Pattern::Share) => Bounds::threshold(names),
            _ => Ok(Bounds::default()),
        }
    }

    /// How many names stand in its parentheses: at least, at most, and what they are.
    pub fn names(self) -> (usize, usize, &'static str) {
        match self {
            Measure::Used => (1, 2, "a node, as in used(disk-0), and what in it, as in used(string-0, command)"),
            Measure::Busy => (1, 2, "a node, as in busy(disk-0), and what in it, as in busy(string-0, command)"),
            Measure::Time => {
                (0, 2, "a part, and one of its phases, as in time(processor, copy); nothing for all parts")
            }
            Measure::TimeExcept => (1, 8, "the parts whose time does not count, as in time-except(os, processor)"),
            Measure::Count => (1, 1, "what is counted, as in count(dispatches)"),
            Measure::Command(_) | Measure::Elapsed | Measure::Passes | Measure::Formula(_) => {
                (0, 0, "nothing: it is of all")
            }
            Measure::Rounds(Pattern::Found | Pattern::Possible | Pattern::OrderRepeats) => {
                (0, 0, "nothing: it is of all")
            }
            Measure::Rounds(Pattern::First) => (1, 1, "a device, as in rounds.first(disk-0.0)"),
            Measure::Rounds(Pattern::Good | Pattern::Share) => {
                (0, 1, "what a large delta is above, as in rounds.good(above 25 ms); nothing to have it found")
            }
            Measure::Delta(_) => (0, 2, "which deltas count, as in delta.mean(above 20 ms, up to 25 ms)"),
            Measure::Value => (1, 1, "a value of a part of the study's system, as in value(scsi-1.byte-time)"),
            _ => (0, 1, "a stream of the experiment, an operation or a device; nothing for all of them"),
        }
    }
}
