//! Evidence from the kernel: where the requests of the busiest device were on their way through it.
//!
//! It proves no limit, and no rule asks for it: a device that has a request all the time may have room for more.

use units::Ratio;

use super::PhaseTime;
use super::findings::Findings;
use super::rules::device::busiest;

/// A phase with less of the time than this is not worth a word.
const LITTLE: f64 = 0.05;

/// The phases that matter, the longest first; nothing where the kernel was not traced. What the only device of a run
/// stands on is a part of its way.
pub(super) fn way(findings: &Findings) -> Option<String> {
    let device = busiest(findings)?;
    let part = findings.timeline.iter().find(|part| part.part == device.device)?;
    let below = findings.timeline.iter().filter(|other| other.part != part.part && findings.occupancies.len() == 1);
    let phases = part.phases.iter().map(|phase| (None, phase));
    let mut phases: Vec<(Option<&str>, &PhaseTime)> =
        phases.chain(below.flat_map(|other| other.phases.iter().map(|phase| (Some(&*other.part), phase)))).collect();
    let all: f64 = phases.iter().map(|(_, phase)| phase.share.get()).sum();
    let share = |phase: &PhaseTime| phase.share.get() / all.max(1e-12);
    phases.retain(|(_, phase)| share(phase) >= LITTLE);
    phases.sort_by(|a, b| share(b.1).total_cmp(&share(a.1)));
    let told = |(below, phase): &(Option<&str>, &PhaseTime)| {
        let at = below.map_or(String::new(), |below| format!(" of {below}"));
        format!("{} {}{at} ({})", phase.mean, phase.phase, Ratio::new(share(phase)))
    };
    let told: Vec<String> = phases.iter().map(told).collect();
    Some(format!("in the kernel, requests of {} spend {}", part.part, told.join(", ")))
}
