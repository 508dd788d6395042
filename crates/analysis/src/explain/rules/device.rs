//! The devices, what they share, and how many requests they have.

use units::{Duration, Ratio};

use super::super::findings::{Findings, IDLE, MUCH, Shared, idle};
use super::super::limit::Said::{self, Not, Unknown};
use super::super::limit::{LimitKind, limit};
use super::super::phase::{Make, PartTime, PhaseTime};
use crate::advice::Load;
use crate::occupancy::Occupancy;
use crate::summary::Group;

/// A device that takes so many times as long as the median of three or more with the same load is what is slow.
const OUTLIER: f64 = 3.0;

/// R(d) / R(1): up to here nothing queues, and from there on requests do.
const NO_QUEUE: f64 = 1.3;

const QUEUE: f64 = 2.0;

/// By so much the first request of a live pass may exceed R(1): a processor sleeps, and wakes within 290 us from the
/// deepest state of the server processors in Linux's tables (`spr_cstates` in `drivers/idle/intel_idle.c`).
const ASLEEP: Duration = Duration::micros(290);

const SWEEP: &str = "a run at twice the depth tells (--set stream.NAME.depth=...)";

/// A part that works for this share of the time is full. Equal devices take turns behind a full part, too. That is no
/// convoy: the rounds of a convoy leave what the devices share idle in each round. The value is assumed: it lies
/// between a part that hardly rests and the string of a convoy.
pub const FULL: f64 = 0.95;

/// A part limits together with the busiest one if it works for this share of that one's time: a faster one would bring
/// 3 percent at most. The value is assumed.
const BALANCED: f64 = 0.97;

/// Rounds: devices that convoy on what they share.
pub fn convoy(findings: &Findings) -> Said {
    let Ok(rounds) = &findings.rounds else { return Unknown };
    let is_device = |part: &&PartTime| findings.occupancies.iter().any(|device| device.device == part.part);
    let full = findings.parts.iter().find(|part| !is_device(part)).is_some_and(|part| part.busy.get() >= FULL);
    if !rounds.found || full {
        return Unknown;
    }
    let everyone = |shared: &&Shared| rounds.devices.iter().all(|one| shared.devices.contains(&one.device));
    let part = findings.shared.iter().find(everyone).map_or("what the devices share".to_owned(), |s| s.part.clone());
    let used = idle(findings, rounds).map(|idle| Ratio::new(1.0 - idle.get()));
    limit(LimitKind::Shared, part, used, vec![rounds.evidence.clone()], 0.9)
}

/// The part of a modelled machine that works most of the time.
pub fn part(findings: &Findings) -> Said {
    let Some(part) = findings.parts.first().filter(|part| part.busy.get() >= IDLE) else { return Unknown };
    let several = balanced(findings);
    if let [.., least] = several[..] {
        let gain = Ratio::new(part.busy.get() / least.busy.get() - 1.0);
        let evidence = format!(
            "they work {} to {} of the time: to make one of them faster brings {gain} at most",
            least.busy, part.busy
        );
        let part = format!("no single part, but together {}", makes(findings, &several).join(", and "));
        return limit(LimitKind::None, part, Some(least.busy), vec![evidence], 0.9);
    }
    let alike = busiest_parts(findings);
    let next = findings.parts.iter().find(|other| alike.iter().all(|one| one.part != other.part));
    let next = next.map_or(String::new(), |next| format!("; next is {} with {}", next.part, next.busy));
    let kind = kind_of(findings, &part.part);
    let works = match alike.len() {
        1 => format!("it works {} of the time, more than any other part{next}", part.busy),
        _ => {
            let least = alike.iter().map(|one| one.busy.get()).fold(1.0, f64::min);
            format!("they work {} to {} of the time, more than any other part{next}", Ratio::new(least), part.busy)
        }
    };
    let system = (kind == LimitKind::Processors).then(|| work_of_system(findings)).flatten();
    let evidence = [works].into_iter().chain(system).collect();
    limit(kind, together(findings, &alike), Some(part.busy), evidence, 0.9)
}

/// What processors are busy with: what takes most of the time in which the operating system works for requests.
fn work_of_system(findings: &Findings) -> Option<String> {
    let is_system = |part: &&PartTime| part.make.as_ref().is_some_and(|make| make.kind == "operating-system");
    let phases = |part: &'_ PartTime| part.phases.iter().filter(|one| one.is_work()).map(PhaseTime::time).sum::<f64>();
    let system = findings.parts.iter().filter(is_system).max_by(|a, b| phases(a).total_cmp(&phases(b)))?;
    let longest = system.phases.iter().filter(|one| one.is_work()).max_by(|a, b| a.time().total_cmp(&b.time()))?;
    let share = Ratio::new(longest.time() / phases(system));
    Some(format!("of the time in which {} works for requests, '{}' takes {share}", system.part, longest.phase))
}

/// The part that works most of the time, and others of its make that work about as much.
pub fn busiest_parts<'f>(findings: &'f Findings) -> Vec<&'f PartTime> {
    let Some(part) = findings.parts.first() else { return Vec::new() };
    let as_busy = |other: &&PartTime| other.make == part.make && other.busy.get() >= ALIKE * part.busy.get();
    match part.make {
        Some(_) => findings.parts.iter().filter(as_busy).collect(),
        None => vec![part],
    }
}

/// The parts that limit together, the busiest first. None if the busiest rests, or if only parts of its make are as
/// busy.
pub fn balanced<'f>(findings: &'f Findings) -> Vec<&'f PartTime> {
    let alike = busiest_parts(findings);
    let most = alike.first().map_or(0.0, |part| part.busy.get());
    let several: Vec<&PartTime> =
        findings.parts.iter().filter(|part| part.busy.get() >= BALANCED * most.max(IDLE)).collect();
    let is_other = |part: &&PartTime| alike.iter().all(|one| one.part != part.part);
    if several.iter().any(is_other) { several } else { Vec::new() }
}

/// The names of parts, those of one make together.
fn makes(findings: &Findings, parts: &[&PartTime]) -> Vec<String> {
    let mut rest = parts.to_vec();
    let mut names = Vec::new();
    while let Some(first) = rest.first().copied() {
        let is_alike =
            |other: &&&PartTime| other.part == first.part || (first.make.is_some() && other.make == first.make);
        let alike: Vec<&PartTime> = rest.iter().filter(is_alike).copied().collect();
        names.push(together(findings, &alike));
        rest.retain(|part| alike.iter().all(|one| one.part != part.part));
    }
    names
}

/// The name of several parts together.
pub fn together(findings: &Findings, alike: &[&PartTime]) -> String {
    match alike {
        [] => String::new(),
        [one] => one.part.clone(),
        [first, second] => format!("{} and {}", first.part, second.part),
        [first, ..] => {
            let all = findings.parts.iter().filter(|other| other.make == first.make).count();
            let how_many = if all == alike.len() { format!("all {all}") } else { format!("{} of {all}", alike.len()) };
            format!("{how_many} of {}, such as {}", made(first), first.part)
        }
    }
}

/// Parts of one make are alike if they work for this share of what the busiest of them does. Assumed. In a short run
/// chance makes a larger difference between equal drives; then only some of them are named.
const ALIKE: f64 = 0.9;

/// The name of the part file that a part is described by.
fn made(part: &PartTime) -> &str {
    part.make.as_ref().map_or("them", |make| &make.part)
}

/// The kind of a part of a modelled machine.
pub fn kind_of(findings: &Findings, part: &str) -> LimitKind {
    let make = findings.parts.iter().find(|one| one.part == part).and_then(|one| one.make.as_ref());
    let of_host = |make: &Make| ["processor", "operating-system"].contains(&make.kind.as_str());
    if findings.occupancies.iter().any(|device| device.device == part) {
        LimitKind::Device
    } else if make.is_some_and(of_host) {
        LimitKind::Processors
    } else if findings.occupancies.len() > 1 {
        LimitKind::Shared
    } else {
        LimitKind::Device
    }
}

/// Requests that wait for what was written to be durable.
pub fn flushes(findings: &Findings) -> Said {
    let Some((count, share)) = flushing(findings) else { return Unknown };
    if share < IDLE || busiest(findings).is_none_or(|device| device.busy.get() < IDLE) {
        return Unknown;
    }
    let who = busiest(findings).map_or("the device".to_owned(), |device| device.device.clone());
    let evidence = of_flushes_said(count, share);
    limit(LimitKind::Device, format!("{who}: its flushes"), Some(Ratio::new(share)), vec![evidence], 0.9)
}

/// How many flushes there were, and their share of the time of all requests; nothing without any.
fn flushing(findings: &Findings) -> Option<(u64, f64)> {
    let time = |name: &str| {
        let group = findings.summary.operations.iter().find(|group| group.name == name);
        let service = |group: &Group| {
            Some((group.figures.requests, group.figures.service?.mean.as_seconds() * group.figures.requests as f64))
        };
        group.and_then(service).unwrap_or((0, 0.0))
    };
    let ((count, flushes), all) = (time("flush"), ["read", "write", "discard", "flush"].map(|name| time(name).1));
    (count > 0).then(|| (count, flushes / all.iter().sum::<f64>().max(1e-12)))
}

fn of_flushes_said(count: u64, share: f64) -> String {
    format!("{} of the time of requests is that of {count} flushes (fsync, fdatasync)", Ratio::new(share))
}

/// One device that is much slower than others with the same load.
pub fn outlier(findings: &Findings) -> Said {
    if findings.occupancies.len() < 3 {
        return Unknown;
    }
    let mut times: Vec<f64> = findings.occupancies.iter().map(|device| device.service.as_seconds()).collect();
    times.sort_by(f64::total_cmp);
    let median = times[(times.len() - 1) / 2];
    let depths = findings.occupancies.iter().map(|device| device.mean_depth);
    let (least, most) =
        depths.fold((f64::INFINITY, 0.0f64), |(least, most), depth| (least.min(depth), most.max(depth)));
    let slow: Vec<&Occupancy> =
        findings.occupancies.iter().filter(|one| one.service.as_seconds() >= OUTLIER * median).collect();
    let ([slow], true) = (&slow[..], least >= 0.5 * most) else { return Unknown };
    let evidence = format!(
        "its requests take {}, {:.1} times as long as those of the other {} devices under the same load",
        slow.service,
        slow.service.as_seconds() / median.max(1e-12),
        findings.occupancies.len() - 1
    );
    limit(LimitKind::Device, slow.device.clone(), Some(slow.busy), vec![evidence], 0.9)
}

/// What one device gains, others lose.
pub fn shared(findings: &Findings) -> Said {
    let Some(together) = findings.together else { return Unknown };
    let scatter = (2.0 / together.intervals as f64).sqrt();
    let ratio = together.ratio.get();
    if ratio >= (1.0 - 3.0 * scatter).min(0.5) {
        return Unknown;
    }
    let all = |shared: &&Shared| shared.devices.len() == findings.occupancies.len();
    let part = findings.shared.iter().find(all).map_or("what the devices share".to_owned(), |s| s.part.clone());
    let evidence = format!(
        "what one device gains, others lose: in {} intervals the variance of their sum is {} of the sum of their variances",
        together.intervals, together.ratio
    );
    limit(LimitKind::Shared, part, None, vec![evidence], 0.8)
}

pub fn depth(findings: &Findings) -> Said {
    let (Some(depth), Some(device)) = (closed(findings), busiest(findings)) else { return Unknown };
    let each = f64::from(depth) / findings.occupancies.len() as f64;
    // Of a model the work of its parts decides, if any of them works most of the time.
    let parts_decide = findings.parts.first().is_some_and(|part| part.busy.get() >= IDLE);
    if device.busy.get() < IDLE || parts_decide {
        return Unknown;
    }
    let part = "the depth: how many requests are under way";
    if each <= 1.0 {
        let evidence = format!(
            "at most one request is under way on each device, and takes {}; the next one is submitted when it completes",
            device.service
        );
        // Where they take most of it, they are the verdict.
        let of_flushes = flushing(findings).filter(|(_, share)| *share >= MUCH);
        let of_flushes = of_flushes.map(|(count, share)| of_flushes_said(count, share));
        let evidence = [evidence].into_iter().chain(of_flushes).chain([SWEEP.to_owned()]).collect();
        return limit(LimitKind::Depth, part, Some(device.busy), evidence, 0.9);
    }
    let Some(Queueing { ratio, most, count }) = queueing(findings) else { return Unknown };
    let enough = findings.surroundings.is_none() || count >= 3;
    if most <= NO_QUEUE && enough {
        let evidence = format!(
            "requests take {ratio:.1} times as long as the {count} that found their device idle: they do not queue there, and more of them would be done at once"
        );
        return limit(LimitKind::Depth, part, Some(device.busy), vec![evidence, SWEEP.to_owned()], 0.7);
    }
    if ratio >= QUEUE {
        let because =
            format!("requests take {ratio:.1} times as long as the {count} that found their device idle: they queue");
        return Not(LimitKind::Depth, because);
    }
    Unknown
}

/// How many requests closed loops keep under way in all; `None` if others ask, too, or nothing is known.
fn closed(findings: &Findings) -> Option<u32> {
    let depth = |load: &Load| match load {
        Load::Closed { depth, think } if think.is_zero() => Some(*depth),
        _ => None,
    };
    findings.loads.iter().map(depth).sum::<Option<u32>>().filter(|sum| *sum > 0)
}

/// How much longer requests take than those that found their device idle.
struct Queueing {
    /// R(d) / R(1) over all devices.
    ratio: f64,
    /// The same, if those that found one idle found a processor asleep, too; infinite if that may be all they took. A
    /// model has no such thing.
    most: f64,
    /// How many found one idle.
    count: u64,
}

fn queueing(findings: &Findings) -> Option<Queueing> {
    let (mut alone, mut count, mut all, mut done) = (0.0, 0, 0.0, 0.0);
    for one in &findings.alone {
        let Some(device) = findings.occupancies.iter().find(|device| device.device == one.device) else { continue };
        (alone, count) = (alone + one.mean.as_seconds() * one.requests as f64, count + one.requests);
        (all, done) = (all + device.service.as_seconds() * device.arrivals.get(), done + device.arrivals.get());
    }
    if count == 0 || alone <= 0.0 || done <= 0.0 {
        return None;
    }
    let (each, alone) = (all / done, alone / count as f64);
    let asleep = if findings.surroundings.is_some() { ASLEEP.as_seconds() } else { 0.0 };
    let most = if alone > asleep { each / (alone - asleep) } else { f64::INFINITY };
    Some(Queueing { ratio: each / alone, most, count })
}

/// Whoever has requests most of the time, when all else is excluded.
pub fn device(findings: &Findings) -> Said {
    let Some(device) = busiest(findings) else { return Unknown };
    if device.busy.get() < IDLE {
        let evidence = format!(
            "the busiest device, {}, has requests for {} of the time only: the devices would do more if more were asked",
            device.device, device.busy
        );
        return limit(LimitKind::Load, "the load", Some(device.busy), vec![evidence], 0.8);
    }
    let mut evidence = vec![format!(
        "requests are at {} for {} of the time, {:.1} of them on average, {} each",
        device.device, device.busy, device.mean_depth, device.service
    )];
    evidence.extend(split(findings, &device.device));
    let confidence = match queueing(findings) {
        Some(Queueing { ratio, count, .. }) if ratio >= QUEUE => {
            evidence.push(format!("they take {ratio:.1} times as long as the {count} that found their device idle"));
            0.8
        }
        _ => {
            evidence.push(format!("whether it would do more if more were under way, the records do not say: {SWEEP}"));
            0.5
        }
    };
    let others = findings.occupancies.iter().filter(|other| other.busy.get() >= 0.95 * device.busy.get()).count();
    let (kind, part) = match others {
        1 => (LimitKind::Device, device.device.clone()),
        all if all == findings.occupancies.len() => (LimitKind::None, "the devices, all alike".to_owned()),
        some => (LimitKind::Device, format!("{} and {} more devices", device.device, some - 1)),
    };
    limit(kind, part, Some(device.busy), evidence, confidence)
}

/// Whether the block layer makes several requests of one.
fn split(findings: &Findings, device: &str) -> Option<String> {
    let disk = findings.surroundings?.disk(device).filter(|disk| disk.is_raw && disk.devices.len() == 1)?;
    let own = findings.summary.devices.iter().find(|group| group.name == device)?.figures.requests;
    let each = disk.requests.iter().sum::<u64>() as f64 / own.max(1) as f64;
    (each >= 1.5).then(|| format!("the block layer splits requests: it makes {each:.1} of each (max_sectors_kb)"))
}

pub fn busiest<'f>(findings: &'f Findings) -> Option<&'f Occupancy> {
    findings.occupancies.iter().max_by(|a, b| a.busy.get().total_cmp(&b.busy.get()))
}
