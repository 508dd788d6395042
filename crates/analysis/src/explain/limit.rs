//! What a verdict says: the kind of limit, the part, the evidence, and how sure it is.

use serde::{Serialize, Serializer};
use units::Ratio;

use crate::json::number;

/// What limits a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limit {
    /// Which kind of limit it is.
    pub kind: LimitKind,
    /// A part, a device, the generator or the load.
    pub part: String,
    /// How busy it is; `null` if that is not known.
    #[serde(serialize_with = "if_known")]
    pub utilization: Option<Ratio>,
    /// How that is known, the weightiest first.
    pub evidence: Vec<String>,
    /// How sure it is: 1 is certain, and at one half or less the evidence says what would decide.
    #[serde(with = "number")]
    pub confidence: Ratio,
}

/// The kinds of limits. The names in JSON stay stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitKind {
    /// The arrivals ask for no more.
    Load,
    /// Too little is under way.
    Depth,
    /// A device.
    Device,
    /// What several devices stand on.
    Shared,
    /// The processors: used up by the run, by other programs, or few because few are allowed.
    Processors,
    /// The generator: a thread of it that has no processor time left, or waits in calls.
    Generator,
    /// A control group.
    Throttle,
    /// Requests were served by memory.
    Cache,
    /// The medium does not store what was read.
    Holes,
    /// I/O of other programs.
    Neighbour,
    /// Pauses, in which nothing is done although there is work.
    Stall,
    /// Nothing, or all devices alike.
    None,
}

/// A kind that does not limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Excluded {
    /// The kind.
    pub kind: LimitKind,
    /// What shows that.
    pub because: String,
}

/// The next limit: what would limit if the present limit did not.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Next {
    /// Its kind.
    pub kind: LimitKind,
    /// The part.
    pub part: String,
}

/// What a rule says.
pub(super) enum Said {
    /// This limits.
    Limits(Limit),
    /// This does not, because.
    Not(LimitKind, String),
    /// There are no data to tell.
    Unknown,
}

fn if_known<S: Serializer>(utilization: &Option<Ratio>, serializer: S) -> Result<S::Ok, S::Error> {
    utilization.map(Ratio::get).serialize(serializer)
}

/// A limit, with how sure it is.
pub(super) fn limit(
    kind: LimitKind,
    part: impl Into<String>,
    used: Option<Ratio>,
    evidence: Vec<String>,
    confidence: f64,
) -> Said {
    Said::Limits(Limit { kind, part: part.into(), utilization: used, evidence, confidence: Ratio::new(confidence) })
}
