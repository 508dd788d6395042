//! The facts on which a verdict rests.

use serde::Serialize;
use units::Ratio;

use super::alone::Alone;
use super::bursts::Bursts;
use super::phase::PartTime;
use super::sharing::Together;
use super::stall::Stalls;
use super::step::Step;
use super::worst::Worst;
use crate::advice::{Advice, Load};
use crate::occupancy::Occupancy;
use crate::rounds::Rounds;
use crate::rounds::model::Prediction;
use crate::summary::Summary;
use crate::surroundings::Surroundings;

/// A thread that uses so much of its processor has none left for more requests.
pub(super) const SATURATED: f64 = 0.9;

/// Who is idle half of the time limits nothing.
pub(super) const IDLE: f64 = 0.5;

/// Processors that are so busy, while some program waits for one half of the time ([`IDLE`]), have little left: work
/// comes in bursts that are larger than they are. `benchsuite verdicts` plants it (`processors`, `one-processor`).
const CROWDED: f64 = 0.75;

/// Whether the processors of the run have nothing left.
pub(super) fn full(around: &Surroundings) -> bool {
    let waits = around.pressure.is_some_and(|pressure| pressure.processors.get() >= IDLE);
    around.busy().is_some_and(|busy| busy >= SATURATED || waits && busy >= CROWDED)
}

/// From this share on foreign I/O, withheld processors and programs beside the run matter.
pub(super) const MUCH: f64 = 0.2;

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
    /// The way of live requests through the kernel. Devices are no parts: one that has requests all the time may do
    /// more.
    pub timeline: Vec<PartTime>,
    /// What the streams asked for, in the order of the summary's; empty if that is not known.
    pub loads: &'a [Load],
    /// What else the machine did.
    pub surroundings: Option<&'a Surroundings>,
    /// See [`super::Explanation::stalls`].
    pub stalls: Vec<Stalls>,
    /// See [`super::Explanation::bursts`].
    pub bursts: Vec<Bursts>,
    /// See [`super::Explanation::steps`].
    pub steps: Vec<Step>,
    /// See [`super::Explanation::together`].
    pub together: Option<Together>,
    /// Requests that found their device idle.
    pub alone: Vec<Alone>,
    /// What devices share.
    pub shared: Vec<Shared>,
    /// See [`super::Explanation::generator_busy`].
    pub generator_busy: Option<Ratio>,
    /// The requests that took longest.
    pub worst: Vec<Worst>,
    /// Changes that may end rounds.
    pub cures: Cures,
    /// Advice on the measurement.
    pub advice: Vec<Advice>,
    /// What else is to be said.
    pub remarks: Vec<String>,
}

/// A part that several devices stand on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shared {
    /// Its name, with those of the parts behind it that the same devices share.
    pub part: String,
    /// The devices.
    pub devices: Vec<String>,
}

/// Changes that may end rounds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cures {
    /// What has not been tried yet.
    pub untried: Vec<String>,
    /// What is in use already.
    pub in_use: Vec<String>,
}

/// The share of a round in which what the devices share has nothing to do. Where its work is known, as in a modelled
/// machine, that says it; else the deltas, if they can.
pub(super) fn idle(findings: &Findings, rounds: &Rounds) -> Option<Ratio> {
    let of_device = |part: &&PartTime| findings.occupancies.iter().any(|device| device.device == part.part);
    if let Some(busiest) = findings.parts.iter().find(|part| !of_device(part)) {
        return Some(Ratio::new((1.0 - busiest.busy.get()).max(0.0)));
    }
    let (idle, length) = rounds.idle().zip(rounds.length()).filter(|_| !rounds.in_bursts())?;
    Some(Ratio::new((idle.as_seconds() / length.as_seconds().max(1e-12)).clamp(0.0, 1.0)))
}
