//! Why a run came to what it came to: what limits it, on what evidence, and what would change if that were otherwise.
//!
//! The limit is looked for where it can be shown, the surest evidence first:
//!
//! 1. the generator, if its busiest thread had no processor time left: then nothing is known of the devices;
//! 2. what the devices share, if they convoy on it (see [`rounds`](crate::rounds)): it is idle for a part of each round although there is work for it;
//! 3. of a modelled machine, whose requests leave spans, the part that is busy most of the time;
//! 4. the device that has requests most of the time;
//! 5. the generator once more, if a closed loop left the devices idle although it never had a reason to: then its requests were in it, waiting for a processor or its calls;
//! 6. nothing of all this: the load, which leaves the devices idle half of the time or more.
//!
//! Bounds come from the utilization law (P. J. Denning and J. P. Buzen, "The operational analysis of queueing network models", 1978): a part that is
//! busy for a share U of the time while X requests a second pass allows X / U at most, and twice as fast 2 X / U, until the next part limits.
//! That a device has requests all the time does not bound it: one that does several at once may do more if it gets more. So only parts of modelled machines have rungs on
//! the ladder; for a live machine the survey finds it by measuring.

mod formulas;
mod phase;
mod worst;

use serde::{Serialize, Serializer};
use units::{Duration, Frequency, Rate, Ratio};

pub use formulas::Formulas;
pub use phase::{PartTime, PhaseTime, parts};
pub use worst::{Worst, Worsts};

use crate::advice::{Advice, AdviceKind};
use crate::json::number;
use crate::occupancy::Occupancy;
use crate::rounds::Rounds;
use crate::rounds::model::Prediction;
use crate::summary::{ErrorCount, Figures, Summary};

/// A thread that uses so much of its processor has none left for more requests.
const SATURATED: f64 = 0.9;

/// Who is idle half of the time limits nothing.
const IDLE: f64 = 0.5;

/// So many rungs are enough to see what comes next.
const RUNGS: usize = 8;

/// The whole explanation. The names of fields in JSON are the contract of `arraylab explain --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// What limits.
    pub limit: Limit,
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

/// What limits a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limit {
    /// A part, a device, the generator or the load.
    pub part: String,
    /// How busy it is; `null` if that is not known.
    #[serde(serialize_with = "if_known")]
    pub utilization: Option<Ratio>,
    /// How that is known.
    pub evidence: String,
}

fn if_known<S: Serializer>(utilization: &Option<Ratio>, serializer: S) -> Result<S::Ok, S::Error> {
    utilization.map(Ratio::get).serialize(serializer)
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
    /// How many times as much passes then, at most.
    #[serde(with = "number")]
    pub bandwidth_ratio: Ratio,
    /// At least.
    #[serde(with = "number")]
    pub low: Ratio,
    /// At most.
    #[serde(with = "number")]
    pub high: Ratio,
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

/// A part that several devices stand on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shared {
    /// Its name, with those of the parts behind it that the same devices share.
    pub part: String,
    /// The devices.
    pub devices: Vec<String>,
}

/// What is known of a run.
pub struct Findings<'a> {
    /// What it came to.
    pub summary: &'a Summary,
    /// How occupied its devices were.
    pub occupancies: &'a [Occupancy],
    /// Rounds, or why none were looked for.
    pub rounds: Result<Rounds, String>,
    /// What formulas give for the machine, if they know it.
    pub predicted: Option<Prediction>,
    /// Parts of a modelled machine.
    pub parts: Vec<PartTime>,
    /// What devices share.
    pub shared: Vec<Shared>,
    /// See [`Explanation::generator_busy`].
    pub generator_busy: Option<Ratio>,
    /// The requests that took longest.
    pub worst: Vec<Worst>,
    /// What may end rounds, if there are any.
    pub cures: Cures,
    /// Advice on the measurement.
    pub advice: Vec<Advice>,
    /// What else is to be said.
    pub remarks: Vec<String>,
}

/// What may end rounds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cures {
    /// What has not been tried yet.
    pub untried: Vec<String>,
    /// What is in use already.
    pub in_use: Vec<String>,
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
    let total = &findings.summary.total.figures;
    let ladder = ladder(&findings.parts, total);
    let limit = limit(&findings);
    let what_if = changes(&findings, &ladder);
    let devices = findings.occupancies.iter().filter_map(|occupancy| device(occupancy, findings.summary)).collect();
    let formulas = match (&findings.rounds, findings.predicted) {
        (Ok(rounds), Some(predicted)) => Some(Formulas::beside(predicted, rounds, total.bandwidth)),
        _ => None,
    };
    let (rounds, no_rounds) = match findings.rounds {
        Ok(rounds) => (Some(rounds), None),
        Err(why) => (None, Some(why)),
    };
    Explanation {
        limit,
        ladder,
        what_if,
        rounds,
        formulas,
        no_rounds,
        devices,
        parts: findings.parts,
        shared: findings.shared,
        generator_busy: findings.generator_busy.map(Ratio::get),
        worst: findings.worst,
        advice: findings.advice,
        remarks: findings.remarks,
    }
}

/// Takes the verdict on rounds back where it is the load that asks all devices together; see [`Rounds::unless_asked_together`].
pub fn unless_asked_together(rounds: &mut Rounds, occupancies: &[Occupancy], summary: &Summary) {
    let in_rounds = |one: &&Occupancy| rounds.devices.iter().any(|device| device.device == one.device);
    let gap = without_requests(occupancies.iter().filter(in_rounds), summary);
    rounds.unless_asked_together(gap);
}

/// For how long nothing is asked of a device between two requests, on average: what is left of the time between two when a request has taken its own, from intention to completion.
fn without_requests<'a>(occupancies: impl Iterator<Item = &'a Occupancy>, summary: &Summary) -> Duration {
    let gap = |occupancy: &Occupancy| {
        let device = device(occupancy, summary)?;
        let taken = (device.wait + device.service).as_seconds();
        Some((1.0 / occupancy.arrivals.get() - taken).max(0.0))
    };
    let gaps: Vec<f64> = occupancies.filter_map(gap).collect();
    Duration::from_seconds(gaps.iter().sum::<f64>() / gaps.len().max(1) as f64)
}

/// The share of a round in which what the devices share has nothing to do. Where its work is known, as in a modelled machine, that says it; else the deltas, if they can.
fn idle(findings: &Findings, rounds: &Rounds) -> Option<Ratio> {
    let of_device = |part: &&PartTime| findings.occupancies.iter().any(|device| device.device == part.part);
    if let Some(busiest) = findings.parts.iter().find(|part| !of_device(part)) {
        return Some(Ratio::new((1.0 - busiest.busy.get()).max(0.0)));
    }
    let (idle, length) = rounds.idle().zip(rounds.length()).filter(|_| !rounds.in_bursts())?;
    Some(Ratio::new((idle.as_seconds() / length.as_seconds().max(1e-12)).clamp(0.0, 1.0)))
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

fn limit(findings: &Findings) -> Limit {
    if let Some(busy) = findings.generator_busy.filter(|busy| busy.get() >= SATURATED) {
        let evidence = format!(
            "its busiest thread used {busy} of its processor: the rate is the generator's, and says little of the devices"
        );
        return Limit { part: "the generator".to_owned(), utilization: Some(busy), evidence };
    }
    if let Some(rounds) = findings.rounds.as_ref().ok().filter(|rounds| rounds.found) {
        let everyone = |shared: &&Shared| rounds.devices.iter().all(|one| shared.devices.contains(&one.device));
        let part =
            findings.shared.iter().find(everyone).map_or("what the devices share".to_owned(), |s| s.part.clone());
        let utilization = idle(findings, rounds).map(|idle| Ratio::new(1.0 - idle.get()));
        return Limit { part, utilization, evidence: rounds.evidence.clone() };
    }
    if let Some(part) = findings.parts.first().filter(|part| part.busy.get() >= IDLE) {
        let next =
            findings.parts.get(1).map_or(String::new(), |next| format!("; next is {} with {}", next.part, next.busy));
        let evidence = format!("it works {} of the time, more than any other part{next}", part.busy);
        return Limit { part: part.part.clone(), utilization: Some(part.busy), evidence };
    }
    let busiest = findings.occupancies.iter().max_by(|a, b| a.busy.get().total_cmp(&b.busy.get()));
    match busiest {
        Some(device) if device.busy.get() >= IDLE => {
            let others =
                findings.occupancies.iter().filter(|other| other.busy.get() >= 0.95 * device.busy.get()).count();
            let part = match others {
                1 => device.device.clone(),
                all if all == findings.occupancies.len() => "the devices, all alike".to_owned(),
                some => format!("{} and {} more devices", device.device, some - 1),
            };
            let evidence = format!(
                "requests are at {} for {} of the time, {:.1} of them on average, {} each",
                device.device, device.busy, device.mean_depth, device.service
            );
            Limit { part, utilization: Some(device.busy), evidence }
        }
        Some(device) if let Some(lacking) = in_the_generator(findings) => {
            let evidence = format!(
                "the busiest device, {}, has requests for {} of the time only, though they were asked for all the time: {lacking}",
                device.device, device.busy
            );
            Limit { part: "the generator".to_owned(), utilization: findings.generator_busy, evidence }
        }
        Some(device) => {
            let evidence = format!(
                "the busiest device, {}, has requests for {} of the time only: the devices would do more if more were asked",
                device.device, device.busy
            );
            Limit { part: "the load".to_owned(), utilization: Some(device.busy), evidence }
        }
        None => {
            let figures = &findings.summary.total.figures;
            let evidence = match figures.requests + figures.errors {
                0 => "no request was counted".to_owned(),
                1 => "one request was counted, and no time passed in it: there are no shares of time, and no rates"
                    .to_owned(),
                counted => format!(
                    "all {counted} requests that were counted begin and end at one instant: there are no shares of time, and no rates"
                ),
            };
            Limit { part: "nothing that can be told".to_owned(), utilization: None, evidence }
        }
    }
}

/// Where the requests were if a closed loop kept too few at the devices, as the advice on the measurement has found.
fn in_the_generator(findings: &Findings) -> Option<String> {
    findings.advice.iter().find(|advice| advice.kind == AdviceKind::QueueNotFull)?;
    let used = findings.generator_busy.map_or(String::new(), |busy| format!(", which used {busy} of its processor"));
    Some(format!("the rest of it they were in the generator{used}"))
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

fn changes(findings: &Findings, ladder: &[Rung]) -> Vec<Change> {
    let mut changes = Vec::new();
    let at_most = |change: String, high: f64| Change {
        change,
        bandwidth_ratio: Ratio::new(high),
        low: Ratio::ONE,
        high: Ratio::new(high),
    };
    if let Ok(rounds) = &findings.rounds
        && rounds.found
        && let Some(idle) = idle(findings, rounds).filter(|idle| idle.get() < 1.0)
        && !findings.cures.untried.is_empty()
    {
        let cures = findings.cures.untried.join(", or ");
        changes.push(at_most(format!("devices position while others transfer: {cures}"), 1.0 / (1.0 - idle.get())));
    }
    if let [first, rest @ ..] = ladder {
        let next = rest.first().map_or(0.0, |next| next.utilization.get());
        let bound = 1.0 / (first.utilization.get() / 2.0).max(next);
        changes.push(at_most(format!("{} twice as fast", first.part), bound.clamp(1.0, 2.0)));
    }
    changes
}
