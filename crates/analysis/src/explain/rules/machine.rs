//! What the machine lets pass, whatever the devices would do: control groups, the page cache, processors, and the
//! generator itself.

use units::{Bytes, Ratio};

use super::super::bursts::Bursts;
use super::super::findings::{Findings, IDLE, MUCH, SATURATED, full};
use super::super::limit::Said::{self, Not, Unknown};
use super::super::limit::{LimitKind, limit};
use super::device::busiest;
use super::interference::in_bursts;
use crate::advice::AdviceKind;
use crate::surroundings::{Interrupt, Memory, Surroundings, Throttled};

/// A control group's limit counts as reached from here on: it is kept on average over slices of 100 ms.
const REACHED: f64 = 0.85;

pub fn holes(findings: &Findings) -> Said {
    let Some(around) = findings.surroundings else { return Unknown };
    let worst = around.holes.iter().max_by(|a, b| a.share.get().total_cmp(&b.share.get()));
    match worst {
        Some(hole) if hole.share.get() >= 0.5 => {
            let evidence = vec![crate::advice::hollow(&hole.device, hole.share)];
            limit(LimitKind::Holes, hole.device.clone(), None, evidence, 0.95)
        }
        Some(hole) => Not(LimitKind::Holes, format!("the medium stores all but {} of {}", hole.share, hole.device)),
        None => Unknown,
    }
}

pub fn throttle(findings: &Findings) -> Said {
    let Some(around) = findings.surroundings else { return Unknown };
    if around.withheld.get() >= 0.05 {
        let evidence = format!(
            "a control group withheld the processors from this program for {} of the time (cpu.max, or cpu.cfs_quota_us)",
            around.withheld
        );
        return limit(LimitKind::Throttle, "the control group of this program", None, vec![evidence], 0.95);
    }
    let mut below = None;
    for throttle in &around.throttles {
        let done = done(findings, around, &throttle.devices, throttle.what);
        let share = done / throttle.most.max(1e-9);
        if share >= REACHED {
            let evidence = vec![throttle.said.clone(), format!("{} of that was reached", Ratio::new(share))];
            return limit(
                LimitKind::Throttle,
                throttle.devices.join(", "),
                Some(Ratio::new(share.min(1.0))),
                evidence,
                0.95,
            );
        }
        below = Some(format!("{}, of which {} was reached", throttle.said, Ratio::new(share)));
    }
    Not(LimitKind::Throttle, below.unwrap_or_else(|| "no control group limits these devices or processors".to_owned()))
}

/// What some devices did, in the unit of a throttle.
fn done(findings: &Findings, around: &Surroundings, devices: &[String], what: Throttled) -> f64 {
    let index = usize::from(matches!(what, Throttled::BytesWritten | Throttled::Writes));
    let bytes = matches!(what, Throttled::BytesRead | Throttled::BytesWritten);
    // A throttle counts what reaches the block layer: of that its own counters say most.
    let of_disks: u64 = around
        .disks
        .iter()
        .filter(|disk| disk.devices.iter().any(|device| devices.contains(device)))
        .map(|disk| if bytes { disk.moved[index] } else { disk.requests[index] })
        .sum();
    let time = around.time.as_seconds().max(1e-9);
    if of_disks > 0 {
        return of_disks as f64 / time;
    }
    let of = findings.summary.devices.iter().filter(|group| devices.contains(&group.name));
    of.map(|group| if bytes { group.figures.bandwidth.get() } else { group.figures.iops.get() }).sum()
}

pub fn cache(findings: &Findings) -> Said {
    let Some(around) = findings.surroundings else { return Unknown };
    if around.cached.is_empty() {
        return Not(LimitKind::Cache, "requests went past the page cache".to_owned());
    }
    let (mut asked, mut moved, mut read, mut known) = (0u64, 0u64, 0u64, false);
    for device in &around.cached {
        let group = findings.summary.devices.iter().find(|group| group.name == *device);
        asked += group.map_or(0, |group| group.figures.bytes.get());
    }
    for disk in around.disks.iter().filter(|disk| disk.devices.iter().any(|one| around.cached.contains(one))) {
        (moved, read, known) = (moved + disk.moved.iter().sum::<u64>(), read + disk.moved[0], true);
    }
    let short = around.pressure.map_or(0.0, |pressure| pressure.memory.get());
    if short >= MUCH {
        let evidence =
            format!("programs waited for memory for {} of the time: the page cache has to give way", Ratio::new(short));
        return limit(LimitKind::Cache, "memory, which is short", Some(Ratio::new(short)), vec![evidence], 0.8);
    }
    if !known || asked == 0 {
        return Unknown;
    }
    let share = moved as f64 / asked as f64;
    let missed = read as f64 / asked as f64;
    if missed >= MUCH
        && let Some(memory) = around.memory.as_ref().filter(|memory| gave_way(memory, read))
    {
        let used = Some(Ratio::new(missed.min(1.0)));
        return limit(LimitKind::Cache, "memory, which is short", used, vec![short_of(memory, asked, read)], 0.9);
    }
    if share < 0.5 {
        let evidence = format!(
            "of {} that the run asked for, {} reached the device ({}): the page cache served the rest",
            Bytes::new(asked),
            Bytes::new(moved),
            Ratio::new(share)
        );
        return limit(LimitKind::Cache, "the page cache", Some(Ratio::new(1.0 - share)), vec![evidence], 0.95);
    }
    Not(LimitKind::Cache, format!("{} of what was asked for reached the device", Ratio::new(share.min(1.0))))
}

/// Whether data that fit into the machine's memory were read from the device because the page cache had to drop them:
/// for each byte that came, about one was taken back. Data larger than the memory come from the device whatever is
/// done, and what is read for the first time drops nothing. Half of that is asked for, as the
/// kernel takes pages back in batches (assumed; `benchsuite verdicts` plants it as `memory`).
fn gave_way(memory: &Memory, read: u64) -> bool {
    memory.wanted.get() > 0 && memory.wanted < memory.installed && memory.reclaimed.get() * 2 >= read
}

fn short_of(memory: &Memory, asked: u64, read: u64) -> String {
    let why = match &memory.limit {
        Some(limit) if limit.most < memory.wanted => format!(
            "control group {} allows this program {}, a limit that was reached {} times",
            limit.group, limit.most, memory.reached
        ),
        _ => "other programs hold the memory".to_owned(),
    };
    format!(
        "of {} that the run asked for, {} came from the device, and {} of the page cache gave way meanwhile: the data \
         ({}) would fit into the machine's memory ({}), but {why}",
        Bytes::new(asked),
        Bytes::new(read),
        memory.reclaimed,
        memory.wanted,
        memory.installed
    )
}

pub fn processors(findings: &Findings) -> Said {
    let Some(around) = findings.surroundings else { return Unknown };
    let Some(busy) = around.busy() else { return Unknown };
    let few = around.processors.len();
    let used = Some(Ratio::new(busy));
    let others = around.of_neighbours();
    let names = || {
        let much = around.neighbours.iter().filter(|one| one.processor.get() >= 0.05).take(4);
        let each: Vec<String> =
            much.map(|one| format!("{} ({}, {} of one)", one.name, one.id, one.processor)).collect();
        each.join(", ")
    };
    let waited = around.pressure.map_or(String::new(), |pressure| {
        format!("; some program waited for a processor for {} of the time", pressure.processors)
    });
    let full = full(around);
    let bursts = in_bursts(findings, LimitKind::Processors);
    if full && others >= MUCH * few as f64 {
        let mut evidence = vec![format!("other programs use the processors: {}{waited}", names())];
        evidence.extend(bursts.map(Bursts::said));
        return limit(LimitKind::Processors, "the processors, which other programs use", used, evidence, 0.95);
    }
    if few == 1 && full {
        let evidence =
            format!("the run may use one processor only, and that was busy for {} of the time", Ratio::new(busy));
        return limit(LimitKind::Processors, "the one processor that the run may use", used, vec![evidence], 0.95);
    }
    let interrupted = around.processors.iter().max_by(|a, b| a.interrupts().total_cmp(&b.interrupts()));
    if let Some(one) = interrupted.filter(|one| one.interrupts() >= 0.5 && one.busy() >= SATURATED) {
        let here = around.interrupts.iter().filter(|other| other.processor == one.number).take(2);
        let of = |other: &Interrupt| format!("{} ({:.0}/s)", other.name, other.count as f64 / around.time.as_seconds());
        let of: Vec<String> = here.map(of).collect();
        let most =
            if of.is_empty() { String::new() } else { format!("; most interrupts there are of {}", of.join(" and ")) };
        let evidence = format!(
            "processor {} is busy for {} of the time, for {} of it with interrupts and what they defer: it completes the requests of all{most}",
            one.number,
            Ratio::new(one.busy()),
            Ratio::new(one.interrupts())
        );
        let part = format!("processor {}, with interrupts", one.number);
        return limit(LimitKind::Processors, part, Some(Ratio::new(one.busy().min(1.0))), vec![evidence], 0.9);
    }
    if full {
        let evidence = format!(
            "the {few} processors were busy for {} of the time, {} of it with this program and the kernel's threads{waited}",
            Ratio::new(busy),
            around.own
        );
        let confidence = if busy >= SATURATED { 0.9 } else { 0.7 };
        let evidence = [evidence].into_iter().chain(bursts.map(Bursts::said)).collect();
        return limit(LimitKind::Processors, "the processors", used, evidence, confidence);
    }
    if let Some(bursts) = bursts {
        let part = "the processors, which other programs use at times";
        return limit(LimitKind::Processors, part, used, vec![bursts.said()], 0.8);
    }
    let who = if names().is_empty() { String::new() } else { format!(", other programs among them: {}", names()) };
    Not(LimitKind::Processors, format!("they were busy for {} of the time{who}", Ratio::new(busy)))
}

pub fn generator(findings: &Findings) -> Said {
    if let Some(busy) = findings.generator_busy.filter(|busy| busy.get() >= SATURATED) {
        if findings.surroundings.is_some_and(|around| !around.cached.is_empty()) {
            let evidence = format!(
                "the busiest thread used {busy} of its processor, which includes the file system's work and the copies: the rate says little of the devices"
            );
            return limit(LimitKind::Generator, "the thread that makes the calls", Some(busy), vec![evidence], 0.95);
        }
        let evidence = format!(
            "its busiest thread used {busy} of its processor: the rate is the generator's, and says little of the devices"
        );
        return limit(LimitKind::Generator, "the generator", Some(busy), vec![evidence], 0.95);
    }
    let busiest = busiest(findings);
    if let Some(device) = busiest.filter(|device| device.busy.get() < IDLE)
        && findings.advice.iter().any(|advice| advice.kind == AdviceKind::QueueNotFull)
    {
        let used =
            findings.generator_busy.map_or(String::new(), |busy| format!(", which used {busy} of its processor"));
        let evidence = format!(
            "the busiest device, {}, has requests for {} of the time only, though they were asked for all the time: the rest of it they were in the generator{used}",
            device.device, device.busy
        );
        return limit(LimitKind::Generator, "the generator", findings.generator_busy, vec![evidence], 0.8);
    }
    match findings.generator_busy {
        Some(busy) => Not(LimitKind::Generator, format!("its busiest thread used {busy} of its processor")),
        None => Unknown,
    }
}
