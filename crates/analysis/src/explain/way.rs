//! Evidence from the kernel: where the requests of the busiest device were on their way through it.
//!
//! It proves no limit, and no rule asks for it: a device that has a request all the time may have room for more.

use units::Ratio;

use super::PhaseTime;
use super::findings::Findings;
use super::rules::device::busiest;

/// A phase with less of the time than this is not worth a word.
const LITTLE: f64 = 0.05;

/// The phases that matter, the longest first; nothing where the kernel was not traced.
pub(super) fn way(findings: &Findings) -> Option<String> {
    let device = busiest(findings)?;
    let part = findings.timeline.iter().find(|part| part.part == device.device)?;
    let all: f64 = part.phases.iter().map(|phase| phase.share.get()).sum();
    let share = |phase: &PhaseTime| phase.share.get() / all.max(1e-12);
    let mut phases: Vec<&PhaseTime> = part.phases.iter().filter(|phase| share(phase) >= LITTLE).collect();
    phases.sort_by(|a, b| share(b).total_cmp(&share(a)));
    let told: Vec<String> =
        phases.iter().map(|phase| format!("{} {} ({})", phase.mean, phase.phase, Ratio::new(share(phase)))).collect();
    Some(format!("in the kernel, requests of {} spend {}", part.part, told.join(", ")))
}
