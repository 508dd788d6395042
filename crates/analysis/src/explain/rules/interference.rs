//! What comes between: pauses, and the I/O of other programs.

use units::Ratio;

use super::super::findings::{Findings, MUCH, SATURATED};
use super::super::limit::Said::{self, Not, Unknown};
use super::super::limit::{LimitKind, limit};
use super::device::FULL;
use crate::surroundings::{Disk, Neighbour, Surroundings};

pub fn stall(findings: &Findings) -> Said {
    let Some(worst) = findings.stalls.iter().max_by(|a, b| a.share.get().total_cmp(&b.share.get())) else {
        return Not(LimitKind::Stall, "no device paused while it had requests".to_owned());
    };
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
    let looked = around.disks.iter().filter_map(|disk| Some((disk, foreign(findings, around, disk)?)));
    let Some((disk, (share, names))) = looked.max_by(|a, b| a.1.0.total_cmp(&b.1.0)) else { return Unknown };
    if share < MUCH {
        let because = format!("{} of what {} moved was asked for by others", Ratio::new(share), disk.name);
        return Not(LimitKind::Neighbour, because);
    }
    let by = if names.is_empty() { "programs that cannot be seen".to_owned() } else { names.join("; ") };
    let evidence = format!("{} of what {} moved meanwhile was asked for by others: {by}", Ratio::new(share), disk.name);
    let part = format!("other programs on {}", disk.name);
    limit(LimitKind::Neighbour, part, Some(Ratio::new(share)), vec![evidence], 0.9)
}

/// The share of a block device's bytes that others had, if their programs are known or nobody else could have asked for
/// them.
fn foreign(findings: &Findings, around: &Surroundings, disk: &Disk) -> Option<(f64, Vec<String>)> {
    if disk.devices.iter().any(|device| around.cached.contains(device)) {
        return None;
    }
    let ours = |name: &String| findings.summary.devices.iter().find(|group| group.name == *name);
    let own: u64 = disk.devices.iter().filter_map(ours).map(|group| group.figures.bytes.get()).sum();
    let moved: u64 = disk.moved.iter().sum();
    let others = moved.saturating_sub(own);
    let share = others as f64 / (moved as f64).max(1.0);
    let has_io = |one: &&Neighbour| (one.read + one.written).get() * 10 >= others.max(1);
    let mut named: Vec<_> = around.neighbours.iter().filter(has_io).collect();
    named.sort_by_key(|one| std::cmp::Reverse((one.read + one.written).get()));
    let known: u64 = named.iter().map(|one| (one.read + one.written).get()).sum();
    let names = named
        .iter()
        .take(4)
        .map(|one| format!("{} ({}), which read {} and wrote {}", one.name, one.id, one.read, one.written));
    (disk.is_raw || known * 2 >= others).then(|| (share, names.collect()))
}
