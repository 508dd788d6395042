//! Where requests of a modelled machine, or of a traced kernel, spent their time: part by part, phase by phase, as the
//! SCSI analyzer of RAID-I's Tables 5 to 11 prints it.

use std::collections::BTreeMap;

use record::SpanLog;
use serde::Serialize;
use units::{Duration, Instant, Ratio};

use crate::json::number;

/// A part of the machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartTime {
    /// Its name.
    pub part: String,
    /// What it is, where the machine's description says: a kind of part, and which one of the kind. Parts of one make
    /// are alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub make: Option<Make>,
    /// The share of the time in which it worked, as the machine has counted; where nobody has, in which it worked for
    /// at least one request. A phase whose name speaks of waiting, of a queue or of other members is no work.
    #[serde(with = "number")]
    pub busy: Ratio,
    /// Its phases, the longest first.
    pub phases: Vec<PhaseTime>,
}

/// What a part of a modelled machine is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Make {
    /// The kind of part.
    pub kind: String,
    /// Which one of the kind.
    pub part: String,
}

impl PartTime {
    /// A part that was at work for this share of the time, and of which no phases are known.
    pub fn at_work(part: String, busy: Ratio) -> PartTime {
        PartTime { part, make: None, busy, phases: Vec::new() }
    }
}

/// A phase of a part's work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseTime {
    /// Its name.
    pub phase: String,
    /// How often.
    pub count: u64,
    /// How long, on average.
    #[serde(with = "number", rename = "mean_ns")]
    pub mean: Duration,
    /// Its share in the time of all requests.
    #[serde(with = "number")]
    pub share: Ratio,
}

/// True if a part in this phase waits for something else.
fn waits(phase: &str) -> bool {
    ["wait", "queue", "other-members"].iter().any(|word| phase.contains(word))
}

/// The table of a log of spans: parts that work most first.
pub fn parts(log: &SpanLog) -> Vec<PartTime> {
    let mut phases: BTreeMap<(&str, &str), (u64, u128)> = BTreeMap::new();
    let mut work: BTreeMap<&str, Vec<(Instant, Instant)>> = BTreeMap::new();
    let (mut begin, mut end, mut all) = (Instant::NEVER, Instant::START, 0u128);
    for span in log.spans() {
        let (part, phase) = (log.part(span.part), log.phase(span.phase));
        let (count, time) = phases.entry((part, phase)).or_default();
        *count += 1;
        *time += u128::from(span.time().as_nanos());
        all += u128::from(span.time().as_nanos());
        (begin, end) = (begin.min(span.start), end.max(span.end));
        let spans = work.entry(part).or_default();
        if !waits(phase) {
            spans.push((span.start, span.end));
        }
    }
    let whole = end.saturating_since(begin).as_seconds().max(1e-12);
    let part = |(part, spans): (&str, Vec<(Instant, Instant)>)| {
        let mut table: Vec<PhaseTime> = phases
            .range((part, "")..)
            .take_while(|((of, _), _)| *of == part)
            .map(|((_, phase), (count, time))| PhaseTime {
                phase: (*phase).to_owned(),
                count: *count,
                mean: Duration::nanos((time / u128::from(*count)) as u64),
                share: Ratio::new(*time as f64 / (all as f64).max(1.0)),
            })
            .collect();
        table.sort_by(|a, b| b.share.get().total_cmp(&a.share.get()));
        let busy = Ratio::new((union(spans).as_seconds() / whole).min(1.0));
        PartTime { part: part.to_owned(), make: None, busy, phases: table }
    };
    let mut parts: Vec<PartTime> = work.into_iter().map(part).collect();
    parts.sort_by(|a, b| b.busy.get().total_cmp(&a.busy.get()));
    parts
}

/// How long at least one of the intervals lasts.
fn union(mut intervals: Vec<(Instant, Instant)>) -> Duration {
    intervals.sort_unstable();
    let mut reached = Instant::START;
    let mut sum = Duration::ZERO;
    for (start, end) in intervals {
        sum += end.saturating_since(start.max(reached));
        reached = reached.max(end);
    }
    sum
}
