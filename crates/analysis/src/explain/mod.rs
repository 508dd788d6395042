//! Why a run came to what it came to: what limits it, on what evidence, and what would change if that were otherwise.
//!
//! `judge` gives the verdict by the rules in `rules`. Beside it stand the parts' times (`phase`), stalls (`stall`),
//! bursts of other programs (`bursts`), moments from which on a device is slower (`step`), what requests take that find
//! their device idle (`alone`), whether devices share a limit (`sharing`), the formulas
//! for rounds (`formulas`) and the longest requests (`worst`).
//!
//! Bounds come from the utilization law (P. J. Denning and J. P. Buzen, "The operational analysis of queueing network
//! models", 1978): a part that is busy for a share U of the time while X requests a second pass allows X / U at most,
//! and twice as fast 2 X / U, until the next part limits. That a device has requests all the time does not bound it:
//! one that does several at once may do more if it gets more. So only parts of modelled machines have rungs on the
//! ladder; for a live machine the survey finds it by measuring.

mod alone;
mod bursts;
mod findings;
mod formulas;
mod judge;
mod limit;
mod phase;
mod rules;
mod sharing;
pub(crate) mod stall;
mod step;
mod way;
mod worst;

use serde::Serialize;
use units::{Duration, Frequency, Rate, Ratio};

pub use alone::{Alone, AloneWatch};
pub use bursts::{BurstWatch, Bursts};
pub use findings::{Cures, Findings, Shared};
pub use formulas::Formulas;
pub use limit::{Excluded, Limit, LimitKind, Next};
pub use phase::{Make, PartTime, PartTimes, PhaseTime, parts};
pub use sharing::Together;
pub use stall::{StallWatch, Stalls};
pub use step::{Step, steps};
pub use worst::{Worst, Worsts};

use crate::advice::Advice;
use crate::json::number;
use crate::occupancy::Occupancy;
use crate::rounds::Rounds;
use crate::summary::{ErrorCount, Figures, Summary};
use crate::surroundings::Surroundings;
use findings::idle;

/// So many rungs are enough to see what comes next.
const RUNGS: usize = 8;

/// The whole explanation. The names of fields in JSON are the contract of `arraylab explain --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// What limits.
    pub limit: Limit,
    /// What does not, and what shows that.
    pub excluded: Vec<Excluded>,
    /// The next limit, if it can be told.
    pub next: Option<Next>,
    /// What limits next, the tightest bound first; only parts whose busy time is known have one.
    pub ladder: Vec<Rung>,
    /// What a change would bring, at least and at most.
    pub what_if: Vec<Change>,
    /// The rounds, where several devices were loaded.
    pub rounds: Option<Rounds>,
    /// What the formulas for disks on one bus give, where a modelled machine has such and was loaded as they ask.
    pub formulas: Option<Formulas>,
    /// Why there is nothing on rounds.
    pub no_rounds: Option<String>,
    /// Where the time of requests went, device by device.
    pub devices: Vec<DeviceTime>,
    /// Where it went in the parts of a modelled machine.
    pub parts: Vec<PartTime>,
    /// Where it went on the way of live requests through the kernel, device by device, where that was traced.
    pub timeline: Vec<PartTime>,
    /// Where the time of a request goes: in the parts of a modelled machine, and of live devices before and after
    /// submission.
    pub phases: Vec<Phase>,
    /// Pauses of devices that had requests.
    pub stalls: Vec<Stalls>,
    /// Bursts of other programs, and what they cost.
    pub bursts: Vec<Bursts>,
    /// Moments at which a device became slower or faster.
    pub steps: Vec<Step>,
    /// How the rates of devices vary together.
    pub together: Option<Together>,
    /// What else the machine did; `None` for models and traces.
    pub surroundings: Option<Surroundings>,
    /// What several devices stand on, the nearest to them first.
    pub shared: Vec<Shared>,
    /// The share of its processor that the busiest thread of the generator used.
    pub generator_busy: Option<f64>,
    /// The requests that took longest.
    pub worst: Vec<Worst>,
    /// What about the run should not be trusted.
    pub advice: Vec<Advice>,
    /// What else a reader must know.
    pub remarks: Vec<String>,
}

/// What one part allows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rung {
    /// The part.
    pub part: String,
    /// The share of the time in which it is busy.
    #[serde(with = "number")]
    pub utilization: Ratio,
    /// What passes when it is busy all the time.
    #[serde(with = "number", rename = "bandwidth_bytes_per_s")]
    pub bandwidth: Rate,
    /// Likewise.
    #[serde(with = "number")]
    pub iops: Frequency,
}

/// What a change would bring.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The change.
    pub change: String,
    /// How many times as much passes then; where only bounds are known, the upper one.
    #[serde(with = "number")]
    pub ratio: Ratio,
    /// At least.
    #[serde(with = "number")]
    pub low: Ratio,
    /// At most.
    #[serde(with = "number")]
    pub high: Ratio,
    /// Where the numbers come from.
    pub source: &'static str,
}

/// A part of the time of requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Phase {
    /// The part, or the device.
    pub part: String,
    /// The phase.
    pub phase: String,
    /// How long, on average.
    #[serde(with = "number", rename = "mean_ns")]
    pub mean: Duration,
    /// Its share in the time of all requests.
    #[serde(with = "number")]
    pub share: Ratio,
}

/// Where the time of a device's requests went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceTime {
    /// The device.
    pub device: String,
    /// Done without error.
    pub requests: u64,
    /// Those that failed, which count in no rate and no time.
    pub errors: u64,
    /// They by errno, the most frequent first.
    pub errors_by_errno: Vec<ErrorCount>,
    /// The share of the time with at least one request at the device.
    #[serde(with = "number")]
    pub busy: Ratio,
    /// Requests at the device, averaged over time.
    pub mean_depth: f64,
    /// From intention to submission, on average ("slat").
    #[serde(with = "number", rename = "wait_mean_ns")]
    pub wait: Duration,
    /// From submission to completion, on average ("clat").
    #[serde(with = "number", rename = "service_mean_ns")]
    pub service: Duration,
    /// By how much Little's law fails; see [`Occupancy::imbalance`].
    #[serde(with = "number")]
    pub imbalance: Ratio,
}

/// Puts together what is known.
pub fn explain(mut findings: Findings) -> Explanation {
    if let Ok(rounds) = &mut findings.rounds {
        unless_asked_together(rounds, findings.occupancies, findings.summary);
    }
    if findings.rounds.as_ref().is_ok_and(|rounds| rounds.found) && !findings.cures.in_use.is_empty() {
        let used = findings.cures.in_use.join(" and ");
        findings.remarks.push(format!("against rounds, {used} are in use already, and do not end them here"));
    }
    findings.remarks.extend(step::remark(&findings));
    let total = &findings.summary.total.figures;
    let ladder = ladder(&findings.parts, total);
    let verdict = judge::judge(&findings);
    let untold = |said: &String| !verdict.limit.evidence.contains(said);
    findings.remarks.extend(findings.bursts.iter().map(Bursts::said).filter(untold));
    let what_if = changes(&findings, &verdict.limit, &ladder);
    let devices: Vec<DeviceTime> =
        findings.occupancies.iter().filter_map(|occupancy| device(occupancy, findings.summary)).collect();
    let formulas = match (&findings.rounds, findings.predicted) {
        (Ok(rounds), Some(predicted)) => Some(Formulas::beside(predicted, rounds, total.bandwidth)),
        _ => None,
    };
    let (rounds, no_rounds) = match findings.rounds {
        Ok(rounds) => (Some(rounds), None),
        Err(why) => (None, Some(why)),
    };
    Explanation {
        phases: phases(if findings.parts.is_empty() { &findings.timeline } else { &findings.parts }, &devices),
        limit: verdict.limit,
        excluded: verdict.excluded,
        next: verdict.next,
        stalls: findings.stalls,
        bursts: findings.bursts,
        steps: findings.steps,
        together: findings.together,
        surroundings: findings.surroundings.cloned(),
        ladder,
        what_if,
        rounds,
        formulas,
        no_rounds,
        devices,
        parts: findings.parts,
        timeline: findings.timeline,
        shared: findings.shared,
        generator_busy: findings.generator_busy.map(Ratio::get),
        worst: findings.worst,
        advice: findings.advice,
        remarks: findings.remarks,
    }
}

/// Takes the verdict on rounds back where it is the load that asks all devices together; see
/// [`Rounds::unless_asked_together`].
pub fn unless_asked_together(rounds: &mut Rounds, occupancies: &[Occupancy], summary: &Summary) {
    let in_rounds = |one: &&Occupancy| rounds.devices.iter().any(|device| device.device == one.device);
    let gap = without_requests(occupancies.iter().filter(in_rounds), summary);
    rounds.unless_asked_together(gap);
}

/// For how long nothing is asked of a device between two requests, on average: what is left of the time between two
/// when a request has taken its own, from intention to completion.
fn without_requests<'a>(occupancies: impl Iterator<Item = &'a Occupancy>, summary: &Summary) -> Duration {
    let gap = |occupancy: &Occupancy| {
        let device = device(occupancy, summary)?;
        let taken = (device.wait + device.service).as_seconds();
        Some((1.0 / occupancy.arrivals.get() - taken).max(0.0))
    };
    let gaps: Vec<f64> = occupancies.filter_map(gap).collect();
    Duration::from_seconds(gaps.iter().sum::<f64>() / gaps.len().max(1) as f64)
}

fn device(occupancy: &Occupancy, summary: &Summary) -> Option<DeviceTime> {
    let figures = &summary.devices.iter().find(|group| group.name == occupancy.device)?.figures;
    Some(DeviceTime {
        device: occupancy.device.clone(),
        requests: figures.requests,
        errors: figures.errors,
        errors_by_errno: figures.errors_by_errno.clone(),
        busy: occupancy.busy,
        mean_depth: occupancy.mean_depth,
        wait: figures.wait.map_or(Duration::ZERO, |wait| wait.mean),
        service: figures.service.map_or(Duration::ZERO, |service| service.mean),
        imbalance: occupancy.imbalance,
    })
}

/// Parts by how little they allow.
fn ladder(parts: &[PartTime], total: &Figures) -> Vec<Rung> {
    let rung = |part: &PartTime| {
        let busy = part.busy.get();
        Rung {
            part: part.part.clone(),
            utilization: part.busy,
            bandwidth: Rate::bytes_per_second(total.bandwidth.get() / busy),
            iops: Frequency::per_second(total.iops.get() / busy),
        }
    };
    parts.iter().filter(|part| part.busy.get() > 1e-6).take(RUNGS).map(rung).collect()
}

/// Where the time goes, the longest first.
fn phases(parts: &[PartTime], devices: &[DeviceTime]) -> Vec<Phase> {
    let of_part = |part: &PartTime| {
        let phase = |phase: &PhaseTime| Phase {
            part: part.part.clone(),
            phase: phase.phase.clone(),
            mean: phase.mean,
            share: phase.share,
        };
        part.phases.iter().map(phase).collect::<Vec<_>>()
    };
    let all: f64 =
        devices.iter().map(|one| (one.wait + one.service).as_seconds() * one.requests as f64).sum::<f64>().max(1e-12);
    let of_device = |device: &DeviceTime| {
        [("before submission", device.wait), ("at the device", device.service)].map(|(phase, mean)| Phase {
            part: device.device.clone(),
            phase: phase.to_owned(),
            mean,
            share: Ratio::new(mean.as_seconds() * device.requests as f64 / all),
        })
    };
    let mut phases: Vec<Phase> = match parts {
        [] => devices.iter().flat_map(of_device).collect(),
        parts => parts.iter().flat_map(of_part).collect(),
    };
    phases.sort_by(|a, b| b.share.get().total_cmp(&a.share.get()));
    phases
}

/// What would be gained at most, for limits of which that is known.
fn changes(findings: &Findings, limit: &Limit, ladder: &[Rung]) -> Vec<Change> {
    let mut changes = Vec::new();
    let at_most = |change: String, high: f64, source: &'static str| Change {
        change,
        ratio: Ratio::new(high),
        low: Ratio::ONE,
        high: Ratio::new(high),
        source,
    };
    if let Ok(rounds) = &findings.rounds
        && rounds.found
        && let Some(idle) = idle(findings, rounds).filter(|idle| idle.get() < 1.0)
        && !findings.cures.untried.is_empty()
    {
        let cures = findings.cures.untried.join(", or ");
        let change = format!("devices position while others transfer: {cures}");
        changes.push(at_most(change, 1.0 / (1.0 - idle.get()), "utilization law"));
    }
    if let [first, rest @ ..] = ladder {
        let next = rest.first().map_or(0.0, |next| next.utilization.get());
        let bound = 1.0 / (first.utilization.get() / 2.0).max(next);
        changes.push(at_most(format!("{} twice as fast", first.part), bound.clamp(1.0, 2.0), "utilization law"));
    }
    let without = |share: Option<Ratio>| 1.0 / (1.0 - share.map_or(0.0, Ratio::get)).max(0.01);
    match limit.kind {
        LimitKind::Depth => {
            changes.push(at_most("twice as many requests under way".to_owned(), 2.0, "Little's law at equal latency"));
        }
        LimitKind::Neighbour => {
            let in_bursts = findings.bursts.iter().any(|bursts| Some(bursts.cost) == limit.utilization);
            let source = if in_bursts { "what is done between bursts" } else { "their share of the device's bytes" };
            let change = "without the I/O of other programs".to_owned();
            changes.push(at_most(change, without(limit.utilization), source));
        }
        LimitKind::Stall => {
            let change = "without the stalls".to_owned();
            changes.push(at_most(change, without(limit.utilization), "their share of the time"));
        }
        _ => {}
    }
    changes
}
