//! The verdict: which of several kinds of limit a run has, and why it is none of the others.
//!
//! Rules are asked in order, and the first that finds its kind decides; the others say what excludes theirs, or nothing
//! where they cannot know. The order is by what would make the rules behind it wrong: of a file of holes no rate means
//! anything; a throttle or stalls look like a slow device; arrivals that ask for no more leave everything idle; and
//! *busy* is the weakest evidence of all. A device that has requests all the time may do twenty times as much if it
//! gets more at once, so `device` needs evidence that requests queue there:
//!
//! - R(1), the mean time of requests that found the device idle (the first of each pass, and of open loops many). By
//!   Little's law a closed loop of depth d passes X = d / R(d) a second. Where R(d) is about R(1) nothing queues and X
//!   grows with d: `depth`. Where R(d) is several R(1) they queue: `device`, or what it shares. Between the two the
//!   records cannot tell, and the verdict says which measurement would. Nor can they where R(1) is short: the first
//!   request of a pass may have found a processor asleep.
//! - Of a modelled machine the busy time of each part is known, and of a part that does one thing at a time it *is*
//!   utilization.
//!
//! The next limit is that of the next rule that finds its kind. If none does, it is the busiest device.

use super::findings::Findings;
use super::limit::{Excluded, Limit, LimitKind, Next, Said};
use super::rules::device::{self, balanced, busiest, busiest_parts, kind_of, together};
use super::rules::{interference, load, machine};
use super::way::way;

/// The verdict.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    pub limit: Limit,
    pub excluded: Vec<Excluded>,
    pub next: Option<Next>,
}

type Rule = fn(&Findings) -> Said;

/// In this order; the last always fires.
const RULES: [Rule; 16] = [
    load::nothing,
    machine::holes,
    machine::throttle,
    interference::stall,
    load::load,
    machine::cache,
    machine::processors,
    machine::generator,
    interference::neighbour,
    device::convoy,
    device::part,
    device::flushes,
    device::outlier,
    device::shared,
    device::depth,
    device::device,
];

/// Asks all rules.
pub(super) fn judge(findings: &Findings) -> Verdict {
    let (mut limits, mut excluded) = (Vec::new(), Vec::new());
    for rule in RULES {
        match rule(findings) {
            Said::Limits(limit) => limits.push(limit),
            Said::Not(kind, because) => excluded.push(Excluded { kind, because }),
            Said::Unknown => {}
        }
    }
    let mut limit = limits.remove(0);
    if !matches!(limit.kind, LimitKind::Holes | LimitKind::Cache) {
        limit.evidence.extend(way(findings));
    }
    excluded.retain(|excluded| excluded.kind != limit.kind);
    let next = next(findings, &limit, &limits);
    Verdict { limit, excluded, next }
}

fn next(findings: &Findings, limit: &Limit, behind: &[Limit]) -> Option<Next> {
    let is_other = |kind: LimitKind, part: &str| kind != limit.kind && part != limit.part;
    // Of a model the busy time of parts says what is next.
    let (limiting, several) = (busiest_parts(findings), balanced(findings));
    let in_limit = |part: &str| match limit.kind {
        LimitKind::None if !several.is_empty() => several.iter().any(|one| one.part == part),
        _ if together(findings, &limiting) == limit.part => limiting.iter().any(|one| one.part == part),
        _ => part == limit.part,
    };
    let of_parts = findings.parts.iter().filter(|part| !in_limit(&part.part)).take(1);
    let of_parts = of_parts.map(|part| Next { kind: kind_of(findings, &part.part), part: part.part.clone() });
    let of_rules = behind.iter().filter(|next| next.kind != LimitKind::None && is_other(next.kind, &next.part));
    let of_rules = of_rules.map(|next| Next { kind: next.kind, part: next.part.clone() });
    let busiest = busiest(findings).filter(|device| is_other(LimitKind::Device, &device.device));
    let of_devices = busiest.map(|device| Next { kind: LimitKind::Device, part: device.device.clone() });
    of_parts.chain(of_rules).chain(of_devices).next()
}
