//! Evidence from the kernel: where the requests of the busiest device were on their way through it.
//!
//! It proves no limit, and no rule asks for it: a device that has a request all the time may have room for more.

use std::collections::BTreeMap;

use units::{Duration, Ratio};

use super::PhaseTime;
use super::findings::Findings;
use super::rules::device::busiest;

/// A phase with less of the time than this is not worth a word.
const LITTLE: f64 = 0.05;
/// Of several parts below, the slowest is named if its mean time is this many times that of the others (assumed).
const SLOWER: f64 = 1.5;

/// A phase of the way, in one part or in several.
struct Stage<'a> {
    phase: &'a str,
    mean: Duration,
    share: f64,
    /// Where, if not in the device itself.
    at: String,
}

impl Stage<'_> {
    fn of<'a>(times: &[&'a PhaseTime], at: String) -> Stage<'a> {
        let share = times.iter().map(|time| time.share.get()).sum();
        Stage { phase: &times[0].phase, mean: mean(times), share, at }
    }
}

/// The phases that matter, the longest first; nothing where the kernel was not traced. What the only device of a run
/// stands on is a part of its way; several such parts, the members of an array, are told together.
pub(super) fn way(findings: &Findings) -> Option<String> {
    let device = busiest(findings)?;
    let part = findings.timeline.iter().find(|part| part.part == device.device)?;
    let mut stages: Vec<Stage> = part.phases.iter().map(|phase| Stage::of(&[phase], String::new())).collect();
    let mut below: BTreeMap<&str, Vec<(&str, &PhaseTime)>> = BTreeMap::new();
    for other in findings.timeline.iter().filter(|other| other.part != part.part && findings.occupancies.len() == 1) {
        for phase in &other.phases {
            below.entry(&phase.phase).or_default().push((&other.part, phase));
        }
    }
    stages.extend(below.values().map(|parts| {
        let times: Vec<&PhaseTime> = parts.iter().map(|(_, time)| *time).collect();
        Stage::of(&times, whose(parts))
    }));
    let all = stages.iter().map(|stage| stage.share).sum::<f64>().max(1e-12);
    stages.retain(|stage| stage.share / all >= LITTLE);
    stages.sort_by(|a, b| b.share.total_cmp(&a.share));
    let told = |Stage { phase, mean, share, at }: &Stage| format!("{mean} {phase}{at} ({})", Ratio::new(share / all));
    let told: Vec<String> = stages.iter().map(told).collect();
    Some(format!("in the kernel, requests of {} spend {}", part.part, told.join(", ")))
}

/// The mean of all requests that were in any of these.
fn mean(times: &[&PhaseTime]) -> Duration {
    let count: u64 = times.iter().map(|time| time.count).sum();
    let sum: f64 = times.iter().map(|time| time.mean.as_seconds() * time.count as f64).sum();
    Duration::from_seconds(sum / count.max(1) as f64)
}

/// In which parts below a phase was, and which of them is slower than the others.
fn whose(parts: &[(&str, &PhaseTime)]) -> String {
    let slowest = parts.iter().max_by_key(|(_, time)| time.mean);
    let (part, time) = slowest.expect("a phase is of a part");
    let others: Vec<&PhaseTime> = parts.iter().filter(|(other, _)| other != part).map(|(_, time)| *time).collect();
    match (others.len(), mean(&others)) {
        (0, _) => format!(" of {part}"),
        (more, others) if time.mean.as_seconds() >= SLOWER * others.as_seconds() => {
            format!(" of {} parts below, {} in {part} and {others} in the others", more + 1, time.mean)
        }
        (more, _) => format!(" of {} parts below", more + 1),
    }
}
