//! The verdict: which of several kinds of limit a run has, and why it is none of the others.
//!
//! Rules are asked in order, and the first that finds its kind decides; the others say what excludes theirs, or nothing where they cannot know. The order is
//! by what would make the rules behind it wrong: of a file of holes no rate means anything; a throttle or stalls look like a slow device; arrivals that
//! ask for no more leave everything idle; and *busy* is the weakest evidence of all. A device that has requests all the time may do twenty times as much
//! if it gets more at once, so `device` needs evidence that requests queue there:
//!
//! - R(1), the mean time of requests that found the device idle (the first of each pass, and of open loops many). By Little's law a closed loop of depth d
//!   passes X = d / R(d) a second. Where R(d) is about R(1) nothing queues and X grows with d: `depth`. Where R(d) is several R(1) they queue: `device`, or
//!   what it shares. Between the two the records cannot tell, and the verdict says which measurement would.
//! - Of a modelled machine the busy time of each part is known, and of a part that does one thing at a time it *is* utilization.
//!
//! What limits next is what the next rule that fires says, or else whoever is busiest besides.

use serde::{Serialize, Serializer};
use units::Ratio;

use super::{Findings, IDLE, SATURATED, Shared, idle};
use crate::advice::{AdviceKind, Load};
use crate::json::number;
use crate::occupancy::Occupancy;
use crate::surroundings::{Disk, Surroundings, Throttled};

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
    /// What was read is stored nowhere.
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

/// What limits once the limit is gone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Next {
    /// Its kind.
    pub kind: LimitKind,
    /// The part.
    pub part: String,
}

/// The verdict.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    pub limit: Limit,
    pub excluded: Vec<Excluded>,
    pub next: Option<Next>,
}

/// What a rule says.
enum Said {
    /// This limits.
    Limits(Limit),
    /// This does not, because.
    Not(LimitKind, String),
    /// There are no data to tell.
    Unknown,
}
use Said::{Limits, Not, Unknown};

type Rule = fn(&Findings) -> Said;

/// In this order; the last always fires.
const RULES: [Rule; 16] = [
    nothing, holes, throttle, stall, load, cache, processors, generator, neighbour, convoy, part, flushes, outlier,
    shared, depth, device,
];

/// A control group's limit counts as reached from here on: it is kept on average over slices of 100 ms.
const REACHED: f64 = 0.85;
/// From this share on foreign I/O, withheld processors and programs beside the run matter.
const MUCH: f64 = 0.2;
/// A device that takes so many times as long as the median of three or more with the same load is what is slow.
const OUTLIER: f64 = 3.0;
/// R(d) / R(1): up to here nothing queues, and from there on requests do.
const NO_QUEUE: f64 = 1.3;
const QUEUE: f64 = 2.0;

fn if_known<S: Serializer>(utilization: &Option<Ratio>, serializer: S) -> Result<S::Ok, S::Error> {
    utilization.map(Ratio::get).serialize(serializer)
}

fn percent(share: f64) -> Ratio {
    Ratio::new(share)
}

/// Asks all rules.
pub(super) fn judge(findings: &Findings) -> Verdict {
    let (mut limits, mut excluded) = (Vec::new(), Vec::new());
    for rule in RULES {
        match rule(findings) {
            Limits(limit) => limits.push(limit),
            Not(kind, because) => excluded.push(Excluded { kind, because }),
            Unknown => {}
        }
    }
    let limit = limits.remove(0);
    excluded.retain(|excluded| excluded.kind != limit.kind);
    let next = next(findings, &limit, &limits);
    Verdict { limit, excluded, next }
}

fn next(findings: &Findings, limit: &Limit, behind: &[Limit]) -> Option<Next> {
    let is_other = |kind: LimitKind, part: &str| kind != limit.kind && part != limit.part;
    // Of a model the busy time of parts says what is next.
    let of_parts = findings.parts.iter().filter(|part| part.part != limit.part).take(1);
    let of_parts = of_parts.map(|part| Next { kind: kind_of(findings, &part.part), part: part.part.clone() });
    let of_rules = behind.iter().filter(|next| next.kind != LimitKind::None && is_other(next.kind, &next.part));
    let of_rules = of_rules.map(|next| Next { kind: next.kind, part: next.part.clone() });
    let busiest = busiest(findings).filter(|device| is_other(LimitKind::Device, &device.device));
    let of_devices = busiest.map(|device| Next { kind: LimitKind::Device, part: device.device.clone() });
    of_parts.chain(of_rules).chain(of_devices).next()
}

fn limit(
    kind: LimitKind,
    part: impl Into<String>,
    used: Option<Ratio>,
    evidence: Vec<String>,
    confidence: f64,
) -> Said {
    Limits(Limit { kind, part: part.into(), utilization: used, evidence, confidence: Ratio::new(confidence) })
}

/// Nobody can say anything of a run without time.
fn nothing(findings: &Findings) -> Said {
    if !findings.occupancies.is_empty() {
        return Unknown;
    }
    let figures = &findings.summary.total.figures;
    let evidence = match figures.requests + figures.errors {
        0 => "no request was counted".to_owned(),
        1 => "one request was counted, and no time passed in it: there are no shares of time, and no rates".to_owned(),
        counted => format!(
            "all {counted} requests that were counted begin and end at one instant: there are no shares of time, and no rates"
        ),
    };
    limit(LimitKind::None, "nothing that can be told", None, vec![evidence], 0.0)
}

fn holes(findings: &Findings) -> Said {
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

fn throttle(findings: &Findings) -> Said {
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
            let evidence = vec![throttle.said.clone(), format!("{} of that was reached", percent(share))];
            return limit(
                LimitKind::Throttle,
                throttle.devices.join(", "),
                Some(percent(share.min(1.0))),
                evidence,
                0.95,
            );
        }
        below = Some(format!("{}, of which {} was reached", throttle.said, percent(share)));
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

fn stall(findings: &Findings) -> Said {
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

/// Whether the streams asked for more than they got.
fn load(findings: &Findings) -> Said {
    if findings.loads.is_empty() {
        return Unknown;
    }
    let total = &findings.summary.total.figures;
    let late = findings.advice.iter().any(|advice| advice.kind == AdviceKind::OfferedLoadNotReached);
    let mut asked = Vec::new();
    for (stream, load) in findings.summary.streams.iter().zip(findings.loads) {
        let figures = &stream.figures;
        match load {
            Load::Open { offered } if !late => {
                asked.push(format!("stream '{}' offered {offered}, and {} were done", stream.name, figures.iops));
            }
            Load::Held => asked.push(format!("stream '{}' keeps to a rate", stream.name)),
            Load::Closed { think, .. } if !think.is_zero() => {
                let response = figures.latency.map_or(0.0, |latency| latency.mean.as_seconds());
                if think.as_seconds() < response {
                    return Not(LimitKind::Load, format!("stream '{}' waits longer than it thinks", stream.name));
                }
                asked.push(format!(
                    "stream '{}' thinks for {think} after each request, which takes {}",
                    stream.name,
                    figures.latency.map_or(units::Duration::ZERO, |latency| latency.mean)
                ));
            }
            Load::Closed { .. } => {
                return Not(LimitKind::Load, format!("stream '{}' asks again as soon as it is answered", stream.name));
            }
            Load::Open { offered } => {
                let because =
                    format!("stream '{}' offered {offered}, and only {} were done", stream.name, figures.iops);
                return Not(LimitKind::Load, because);
            }
        }
    }
    let used = busiest(findings);
    if let Some(device) = used {
        asked.push(format!("the busiest device, {}, has requests for {} of the time", device.device, device.busy));
    }
    debug_assert!(total.requests + total.errors > 0, "the rule `nothing` comes before");
    limit(LimitKind::Load, "the load", used.map(|device| device.busy), asked, 0.95)
}

fn cache(findings: &Findings) -> Said {
    let Some(around) = findings.surroundings else { return Unknown };
    if around.cached.is_empty() {
        return Not(LimitKind::Cache, "requests went past the page cache".to_owned());
    }
    let (mut asked, mut moved, mut known) = (0u64, 0u64, false);
    for device in &around.cached {
        let group = findings.summary.devices.iter().find(|group| group.name == *device);
        asked += group.map_or(0, |group| group.figures.bytes.get());
    }
    for disk in around.disks.iter().filter(|disk| disk.devices.iter().any(|one| around.cached.contains(one))) {
        (moved, known) = (moved + disk.moved.iter().sum::<u64>(), true);
    }
    let short = around.pressure.map_or(0.0, |pressure| pressure.memory.get());
    if short >= MUCH {
        let evidence =
            format!("programs waited for memory for {} of the time: the page cache has to give way", percent(short));
        return limit(LimitKind::Cache, "memory, which is short", Some(percent(short)), vec![evidence], 0.8);
    }
    if !known || asked == 0 {
        return Unknown;
    }
    let share = moved as f64 / asked as f64;
    if share < 0.5 {
        let evidence = format!(
            "of {} that the run asked for, {} reached the device ({}): the page cache served the rest",
            units::Bytes::new(asked),
            units::Bytes::new(moved),
            percent(share)
        );
        return limit(LimitKind::Cache, "the page cache", Some(percent(1.0 - share)), vec![evidence], 0.95);
    }
    Not(LimitKind::Cache, format!("{} of what was asked for reached the device", percent(share.min(1.0))))
}

fn processors(findings: &Findings) -> Said {
    let Some(around) = findings.surroundings else { return Unknown };
    let Some(busy) = around.busy() else { return Unknown };
    let few = around.processors.len();
    let used = Some(percent(busy));
    let others = around.of_neighbours();
    let names = || {
        let much = around.neighbours.iter().filter(|one| one.processor.get() >= 0.05).take(4);
        let each: Vec<String> =
            much.map(|one| format!("{} ({}, {} of one)", one.name, one.id, one.processor)).collect();
        each.join(", ")
    };
    if busy >= SATURATED && others >= MUCH * few as f64 {
        let waited = around.pressure.map_or(String::new(), |pressure| {
            format!("; some program waited for a processor for {} of the time", pressure.processors)
        });
        let evidence = format!("other programs use the processors: {}{waited}", names());
        return limit(LimitKind::Processors, "the processors, which other programs use", used, vec![evidence], 0.95);
    }
    if few == 1 && busy >= SATURATED {
        let evidence = "the run may use one processor only, and that was busy all the time".to_owned();
        return limit(LimitKind::Processors, "the one processor that the run may use", used, vec![evidence], 0.95);
    }
    let interrupted = around.processors.iter().max_by(|a, b| a.interrupts().total_cmp(&b.interrupts()));
    if let Some(one) = interrupted.filter(|one| one.interrupts() >= 0.5 && one.busy() >= SATURATED) {
        let evidence = format!(
            "processor {} is busy for {} of the time, for {} of it with interrupts and what they defer: it completes the requests of all",
            one.number,
            percent(one.busy()),
            percent(one.interrupts())
        );
        let part = format!("processor {}, with interrupts", one.number);
        return limit(LimitKind::Processors, part, Some(percent(one.busy().min(1.0))), vec![evidence], 0.9);
    }
    if busy >= SATURATED {
        let evidence = format!(
            "the {few} processors were busy for {} of the time, {} of it with this program and the kernel's threads",
            percent(busy),
            around.own
        );
        return limit(LimitKind::Processors, "the processors", used, vec![evidence], 0.9);
    }
    let who = if names().is_empty() { String::new() } else { format!(", other programs among them: {}", names()) };
    Not(LimitKind::Processors, format!("they were busy for {} of the time{who}", percent(busy)))
}

fn generator(findings: &Findings) -> Said {
    if let Some(busy) = findings.generator_busy.filter(|busy| busy.get() >= SATURATED) {
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

/// The share of a block device's bytes that others had, if their programs are known or nobody else could have asked for them.
fn foreign(findings: &Findings, around: &Surroundings, disk: &Disk) -> Option<(f64, Vec<String>)> {
    if disk.devices.iter().any(|device| around.cached.contains(device)) {
        return None;
    }
    let ours = |name: &String| findings.summary.devices.iter().find(|group| group.name == *name);
    let own: u64 = disk.devices.iter().filter_map(ours).map(|group| group.figures.bytes.get()).sum();
    let moved: u64 = disk.moved.iter().sum();
    let others = moved.saturating_sub(own);
    let share = others as f64 / (moved as f64).max(1.0);
    let has_io = |one: &&crate::surroundings::Neighbour| (one.read + one.written).get() * 10 >= others.max(1);
    let mut named: Vec<_> = around.neighbours.iter().filter(has_io).collect();
    named.sort_by_key(|one| std::cmp::Reverse((one.read + one.written).get()));
    let known: u64 = named.iter().map(|one| (one.read + one.written).get()).sum();
    let names = named
        .iter()
        .take(4)
        .map(|one| format!("{} ({}), which read {} and wrote {}", one.name, one.id, one.read, one.written));
    (disk.is_raw || known * 2 >= others).then(|| (share, names.collect()))
}

fn neighbour(findings: &Findings) -> Said {
    let Some(around) = findings.surroundings else { return Unknown };
    let looked = around.disks.iter().filter_map(|disk| Some((disk, foreign(findings, around, disk)?)));
    let Some((disk, (share, names))) = looked.max_by(|a, b| a.1.0.total_cmp(&b.1.0)) else { return Unknown };
    if share < MUCH {
        let because = format!("{} of what {} moved was asked for by others", percent(share), disk.name);
        return Not(LimitKind::Neighbour, because);
    }
    let by = if names.is_empty() { "programs that cannot be seen".to_owned() } else { names.join("; ") };
    let evidence = format!("{} of what {} moved meanwhile was asked for by others: {by}", percent(share), disk.name);
    let part = format!("other programs on {}", disk.name);
    limit(LimitKind::Neighbour, part, Some(percent(share)), vec![evidence], 0.9)
}

/// Rounds: devices that convoy on what they share.
fn convoy(findings: &Findings) -> Said {
    let Ok(rounds) = &findings.rounds else { return Unknown };
    if !rounds.found {
        return Unknown;
    }
    let everyone = |shared: &&Shared| rounds.devices.iter().all(|one| shared.devices.contains(&one.device));
    let part = findings.shared.iter().find(everyone).map_or("what the devices share".to_owned(), |s| s.part.clone());
    let used = idle(findings, rounds).map(|idle| Ratio::new(1.0 - idle.get()));
    limit(LimitKind::Shared, part, used, vec![rounds.evidence.clone()], 0.9)
}

/// The kind of a part of a modelled machine.
fn kind_of(findings: &Findings, part: &str) -> LimitKind {
    if findings.occupancies.iter().any(|device| device.device == part) {
        LimitKind::Device
    } else if part.starts_with("cpu") || part == "os" {
        LimitKind::Processors
    } else if findings.occupancies.len() > 1 {
        LimitKind::Shared
    } else {
        LimitKind::Device
    }
}

/// The part of a modelled machine that works most of the time.
fn part(findings: &Findings) -> Said {
    let Some(part) = findings.parts.first().filter(|part| part.busy.get() >= IDLE) else { return Unknown };
    let next =
        findings.parts.get(1).map_or(String::new(), |next| format!("; next is {} with {}", next.part, next.busy));
    let evidence = format!("it works {} of the time, more than any other part{next}", part.busy);
    limit(kind_of(findings, &part.part), part.part.clone(), Some(part.busy), vec![evidence], 0.9)
}

/// Requests that wait for what was written to be durable.
fn flushes(findings: &Findings) -> Said {
    let time = |name: &str| {
        let group = findings.summary.operations.iter().find(|group| group.name == name);
        let service = |group: &crate::summary::Group| {
            Some((group.figures.requests, group.figures.service?.mean.as_seconds() * group.figures.requests as f64))
        };
        group.and_then(service).unwrap_or((0, 0.0))
    };
    let ((count, flushes), all) = (time("flush"), ["read", "write", "discard", "flush"].map(|name| time(name).1));
    let share = flushes / all.iter().sum::<f64>().max(1e-12);
    if count == 0 || share < IDLE || busiest(findings).is_none_or(|device| device.busy.get() < IDLE) {
        return Unknown;
    }
    let evidence = format!("{} of the time of requests is that of {count} flushes (fsync, fdatasync)", percent(share));
    let who = busiest(findings).map_or("the device".to_owned(), |device| device.device.clone());
    limit(LimitKind::Device, format!("{who}: its flushes"), Some(percent(share)), vec![evidence], 0.9)
}

/// One device that is much slower than others with the same load.
fn outlier(findings: &Findings) -> Said {
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
fn shared(findings: &Findings) -> Said {
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

/// How many requests closed loops keep under way in all; `None` if others ask, too, or nothing is known.
fn closed(findings: &Findings) -> Option<u32> {
    let depth = |load: &Load| match load {
        Load::Closed { depth, think } if think.is_zero() => Some(*depth),
        _ => None,
    };
    findings.loads.iter().map(depth).sum::<Option<u32>>().filter(|sum| *sum > 0)
}

/// R(d) / R(1) over all devices, and how many requests found one idle.
fn queueing(findings: &Findings) -> Option<(f64, u64)> {
    let (mut alone, mut count, mut all, mut done) = (0.0, 0, 0.0, 0.0);
    for one in &findings.alone {
        let Some(device) = findings.occupancies.iter().find(|device| device.device == one.device) else { continue };
        (alone, count) = (alone + one.mean.as_seconds() * one.requests as f64, count + one.requests);
        (all, done) = (all + device.service.as_seconds() * device.arrivals.get(), done + device.arrivals.get());
    }
    (count > 0 && alone > 0.0 && done > 0.0).then(|| (all / done / (alone / count as f64), count))
}

const SWEEP: &str = "a run at twice the depth tells (--set stream.NAME.depth=...)";

fn depth(findings: &Findings) -> Said {
    let (Some(depth), Some(device)) = (closed(findings), busiest(findings)) else { return Unknown };
    let each = f64::from(depth) / findings.occupancies.len() as f64;
    let parts_decide = !findings.parts.is_empty();
    if device.busy.get() < IDLE || parts_decide {
        return Unknown;
    }
    let part = "the depth: how many requests are under way";
    if each <= 1.0 {
        let evidence = format!(
            "at most one request is under way on each device, and takes {}: the next is asked for only when it is done, so that the rate is one by that time",
            device.service
        );
        return limit(LimitKind::Depth, part, Some(device.busy), vec![evidence, SWEEP.to_owned()], 0.9);
    }
    let Some((ratio, count)) = queueing(findings) else { return Unknown };
    // The first request of a live pass may have found more asleep than its device; a model has no such thing.
    let enough = findings.surroundings.is_none() || count >= 3;
    if ratio <= NO_QUEUE && enough {
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

/// Whoever has requests most of the time, when all else is excluded.
fn device(findings: &Findings) -> Said {
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
    let queue = queueing(findings).filter(|(ratio, _)| *ratio >= QUEUE);
    let confidence = match queue {
        Some((ratio, count)) => {
            evidence.push(format!("they take {ratio:.1} times as long as the {count} that found their device idle"));
            0.8
        }
        None => {
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

fn busiest<'f>(findings: &'f Findings) -> Option<&'f Occupancy> {
    findings.occupancies.iter().max_by(|a, b| a.busy.get().total_cmp(&b.busy.get()))
}
