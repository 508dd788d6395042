//! What comes between: pauses, and the I/O of other programs.

use units::Ratio;

use super::super::bursts::{Bursts, foreign};
use super::super::findings::{Findings, MUCH, SATURATED};
use super::super::limit::Said::{self, Not, Unknown};
use super::super::limit::{LimitKind, limit};
use super::device::FULL;
use crate::surroundings::{Disk, Neighbour, Surroundings};

/// Bursts that cost less are remarks (assumed).
const MATTERS: f64 = 0.05;

pub fn stall(findings: &Findings) -> Said {
    let Some(worst) = findings.stalls.iter().max_by(|a, b| a.share.get().total_cmp(&b.share.get())) else {
        return Not(LimitKind::Stall, "no device paused while it had requests".to_owned());
    };
    if let Some(bursts) = findings.bursts.iter().find(|bursts| bursts.explain(&worst.device, &worst.begins)) {
        let because = format!("its pauses lie in bursts of other programs on {}", bursts.part);
        return Not(LimitKind::Stall, because);
    }
    // A generator that waits for a processor completes nothing either.
    if findings.surroundings.and_then(Surroundings::busy).is_some_and(|busy| busy >= SATURATED) {
        let because = format!(
            "{} completed nothing for {} on average {} times, but no processor was free meanwhile to see a completion",
            worst.device, worst.mean, worst.count
        );
        return Not(LimitKind::Stall, because);
    }
    // Of a model it is known which part worked. Behind a full part completions come in bursts.
    if let Some(part) = findings.parts.first().filter(|part| part.busy.get() >= FULL) {
        let because = format!(
            "{} completed nothing for {} on average {} times, while {} worked {} of the time",
            worst.device, worst.mean, worst.count, part.part, part.busy
        );
        return Not(LimitKind::Stall, because);
    }
    let together = findings.stalls.len();
    let who = match together {
        1 => worst.device.clone(),
        all if all == findings.occupancies.len() => "all devices".to_owned(),
        some => format!("{} and {} more devices", worst.device, some - 1),
    };
    let every = worst.period.map_or(String::new(), |period| format!(", one every {period}"));
    let evidence = format!(
        "pauses of {}: it completed nothing {} times for {} on average, {} at most, although it had requests (otherwise one completes every {}): {} of the time; the first began at {}{every}",
        worst.device, worst.count, worst.mean, worst.longest, worst.usual, worst.share, worst.first
    );
    let share = if worst.share.get() >= 0.05 { 0.9 } else { 0.7 };
    limit(LimitKind::Stall, who, Some(worst.share), vec![evidence], share)
}

pub fn neighbour(findings: &Findings) -> Said {
    let Some(around) = findings.surroundings else { return Unknown };
    let looked = around.disks.iter().filter_map(|disk| Some((disk, had_by_others(findings, around, disk)?)));
    let most = looked.max_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let bursts = in_bursts(findings, LimitKind::Neighbour);
    if let Some((disk, (share, names))) = most.as_ref().filter(|(_, (share, _))| *share >= MUCH) {
        let by = if names.is_empty() { "programs that cannot be seen".to_owned() } else { names.join("; ") };
        let share = Ratio::new(*share);
        let mut evidence = vec![format!("{share} of what {} moved meanwhile was asked for by others: {by}", disk.name)];
        evidence.extend(bursts.filter(|bursts| bursts.part == disk.name).map(Bursts::said));
        return limit(LimitKind::Neighbour, format!("other programs on {}", disk.name), Some(share), evidence, 0.9);
    }
    if let Some(bursts) = bursts {
        let part = format!("other programs on {}, at times", bursts.part);
        return limit(LimitKind::Neighbour, part, Some(bursts.cost), vec![bursts.said()], 0.8);
    }
    let Some((disk, (share, _))) = most else { return Unknown };
    Not(LimitKind::Neighbour, format!("{} of what {} moved was asked for by others", Ratio::new(share), disk.name))
}

/// Bursts that cost enough to be what limits.
pub(super) fn in_bursts<'f>(findings: &'f Findings, kind: LimitKind) -> Option<&'f Bursts> {
    findings.bursts.iter().find(|bursts| bursts.kind == kind && bursts.cost.get() >= MATTERS)
}

/// The share of a block device's bytes that others had over the whole run, and what each of them did.
fn had_by_others(findings: &Findings, around: &Surroundings, disk: &Disk) -> Option<(f64, Vec<String>)> {
    if disk.devices.is_empty() || disk.devices.iter().any(|device| around.cached.contains(device)) {
        return None;
    }
    let ours = |name: &String| findings.summary.devices.iter().find(|group| group.name == *name);
    let own = disk.devices.iter().filter_map(ours).map(|group| group.figures.bytes.get()).sum();
    let (share, programs) = foreign(around, disk, own)?;
    let named =
        |one: &Neighbour| format!("{} ({}), which read {} and wrote {}", one.name, one.id, one.read, one.written);
    Some((share, programs.into_iter().map(named).collect()))
}
