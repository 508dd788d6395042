//! The bend: where more devices stop bringing more, and how sure that is.
//!
//! Devices are activated one after the other. If nothing is shared, the rate of n of them is the sum of what they do
//! alone; a shared part of capacity C turns the curve into min(sum, C). So a measured curve has one of few [`Shape`]s,
//! and the level at which it is flat is the capacity of whatever is shared: RAID-I's Table 32 in the large, "four files
//! on one virtual disk" in the small.
//!
//! # How the shape is found
//! Each point is the median of its repeats: on a machine in use, one repeat in a few is disturbed, and always
//! downwards. The shape of the medians is read off by `shape`, with thresholds that are stated there.
//!
//! # How sure it is
//! `noise` estimates the scatter of a single measurement from the differences between repeats, over all points
//! together, since three repeats of one point say almost nothing. Then the medians are disturbed by as much as they may
//! be wrong, a thousand times over (a parametric bootstrap, B. Efron, 1979), and the shape is read off each time. The
//! share that comes to the same shape is the confidence; the levels that come out give its interval. If the shapes
//! disagree, the verdict is that the measurement is too noisy to tell, and by how much: a wrong sentence with a number
//! in it is worse than none. The disturbances have a fixed seed: the same rates give the same verdict.
//!
//! Rejected: a t-test per point (which of eight tests is to count?); piecewise regression with information criteria
//! (its choice among shapes changes with the number of points, and three repeats are too few for its asymptotics).

mod noise;
mod shape;

use std::fmt::Display;

use serde::{Deserialize, Serialize};
use units::Ratio;

use crate::json::{Quantity, number};
use noise::Noise;
pub(crate) use noise::{interval, median};
use shape::Shape;

/// What was measured on the way up; `Q` is [`units::Rate`] or [`units::Frequency`].
#[derive(Debug, Clone, PartialEq)]
pub struct Curve<Q> {
    /// Each device alone, in the order of activation: its repeats. At least one device, at least one repeat, no rate of
    /// zero.
    pub alone: Vec<Vec<Q>>,
    /// At index i, the first i + 1 devices together: the repeats of their total. As many points as devices, or fewer.
    /// Point 0 may repeat `alone[0]`.
    pub together: Vec<Vec<Q>>,
    /// At index i, the share of its processor that the busiest thread of the generator used; empty if unknown.
    pub generator: Vec<Ratio>,
}

/// What the curve says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "Q: Quantity")]
pub struct Bend<Q> {
    /// The finding.
    pub verdict: Verdict<Q>,
    /// Share of the disturbed curves that agree.
    #[serde(with = "number")]
    pub confidence: Ratio,
    /// Standard deviation of a single measurement, as a share of it.
    #[serde(with = "number")]
    pub noise: Ratio,
    /// How many devices were active at the last point.
    pub devices: usize,
    /// The sum of what they do alone.
    #[serde(with = "number")]
    pub expected: Q,
    /// What they did together.
    #[serde(with = "number")]
    pub measured: Q,
    /// Measured as a share of expected lies between these, with 95 % confidence; `None` if nothing was repeated.
    pub efficiency: Option<(f64, f64)>,
    /// The mean of what one does alone.
    #[serde(with = "number")]
    pub alone: Q,
}

/// The finding.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", bound = "Q: Quantity")]
pub enum Verdict<Q> {
    /// Together they do what they do alone: nothing shared limits them yet.
    ScalesLinearly,
    /// They do more together than alone: the two were not measured under the same conditions.
    ExceedsTheSum,
    /// Something shared carries no more than this level.
    Limited {
        /// What it carries, and within which bounds that lies with 95 % confidence.
        #[serde(with = "number")]
        level: Q,
        /// Lower bound.
        #[serde(with = "number")]
        low: Q,
        /// Upper bound.
        #[serde(with = "number")]
        high: Q,
        /// So many devices reach it, within 5 %.
        reached_by: usize,
    },
    /// More devices do less than fewer: they disturb each other.
    Falls {
        /// The highest rate.
        #[serde(with = "number")]
        peak: Q,
        /// With so many devices.
        at: usize,
    },
    /// Each further device brings something, but less than it does alone; no level is reached.
    Slows {
        /// The share of its own rate that a further device brings.
        #[serde(with = "number")]
        share: Ratio,
        /// From so many devices on.
        from: usize,
    },
    /// The curve bends where the generator has no processor time left: it says nothing about the devices.
    GeneratorBound {
        /// Share of its processor that the generator used there.
        #[serde(with = "number")]
        busy: Ratio,
        /// From so many devices on.
        from: usize,
    },
    /// The shapes that the scatter allows differ too much.
    TooNoisy {
        /// How often each point should be repeated to tell, if the scatter stays as it is.
        repeats: u32,
    },
}

/// Beyond this share of its processor, the generator is what bends a curve.
const SATURATED: f64 = 0.9;

/// A verdict is given if so many of the disturbed curves agree with it.
const SURE: f64 = 0.95;

/// If the last point's efficiency is known as well as this, disagreement about the shape is about words, and the most
/// frequent one is taken.
const WELL_KNOWN: f64 = 0.05;

/// A curve is linear if it looks so and its efficiency is surely at least this: a loss that hides in the noise is
/// smaller than a fifth.
const SURELY_LINEAR: f64 = 0.8;

const DISTURBANCES: u32 = 1000;

/// Reads a curve. `None` if it has fewer than two points, which cannot bend.
///
/// # Panics
/// If there are more points than devices, a point without repeats, or a rate of zero.
pub fn bend<Q: Quantity>(curve: &Curve<Q>) -> Option<Bend<Q>> {
    let numbers = |points: &[Vec<Q>]| -> Vec<Vec<f64>> {
        points.iter().map(|repeats| repeats.iter().map(|rate| rate.to_f64()).collect()).collect()
    };
    let (alone, together) = (numbers(&curve.alone), numbers(&curve.together));
    assert!(together.len() <= alone.len(), "each device of a curve was measured alone");
    let mut rates = alone.iter().chain(&together).flatten();
    assert!(rates.all(|rate| *rate > 0.0), "a curve is of rates above zero");
    if together.len() < 2 {
        return None;
    }
    let alone_medians: Vec<f64> = alone.iter().map(|repeats| noise::median(repeats)).collect();
    let measured: Vec<f64> = together.iter().map(|repeats| noise::median(repeats)).collect();
    let expected = sums(&alone_medians[..measured.len()]);
    let shape = Shape::of(&measured, &expected);

    let noise = Noise::of(alone.iter().chain(&together));
    let survey = noise.disturb(&alone, &together, DISTURBANCES);
    let share = |same: &dyn Fn(&Shape) -> bool| {
        survey.iter().filter(|(shape, _)| same(shape)).count() as f64 / f64::from(DISTURBANCES)
    };
    // A curve that falls is also one that something limits: where the fall is not sure, the limit may be.
    let (mut shape, mut confidence) = (shape, share(&|other| other.same_kind(&shape)));
    if let Some(level) = shape.level()
        && confidence < SURE
    {
        shape = Shape::Flat { level };
        confidence = share(&|other| other.level().is_some());
    }
    let mut efficiencies: Vec<f64> = survey.iter().map(|(_, efficiency)| *efficiency).collect();
    let (low, high) = noise::interval(&mut efficiencies);
    let well_known = high - low <= 2.0 * WELL_KNOWN;
    if matches!(shape, Shape::Linear) {
        let enough = efficiencies.iter().filter(|efficiency| **efficiency >= SURELY_LINEAR).count();
        let exceeds = efficiencies.iter().filter(|efficiency| **efficiency > 1.0 / SURELY_LINEAR).count();
        confidence = (enough - exceeds) as f64 / f64::from(DISTURBANCES);
    }

    let verdict = if noise.is_unknown() || (confidence < SURE && !well_known) {
        Verdict::TooNoisy { repeats: noise.repeats_needed(WELL_KNOWN) }
    } else {
        verdict(&shape, &survey, &expected, &curve.generator)
    };
    Some(Bend {
        verdict,
        confidence: Ratio::new(confidence),
        noise: Ratio::new(noise.of_one()),
        devices: measured.len(),
        expected: Q::from_f64(expected[expected.len() - 1]),
        measured: Q::from_f64(measured[measured.len() - 1]),
        efficiency: (!noise.is_unknown()).then_some((low, high)),
        alone: Q::from_f64(alone_medians.iter().sum::<f64>() / alone_medians.len() as f64),
    })
}

/// The finding for a shape that is sure.
fn verdict<Q: Quantity>(shape: &Shape, survey: &[(Shape, f64)], expected: &[f64], generator: &[Ratio]) -> Verdict<Q> {
    let reached_by =
        |level: f64| (1 + expected.iter().take_while(|sum| **sum < 0.95 * level).count()).min(expected.len());
    let bent_from = match shape {
        Shape::Linear | Shape::Exceeds => None,
        Shape::Flat { level } => Some(reached_by(*level)),
        Shape::Falling { at, .. } => Some(*at),
        Shape::Slowing { from, .. } => Some(*from),
    };
    if let Some(from) = bent_from
        && let Some(busy) = generator.get(expected.len() - 1).filter(|busy| busy.get() >= SATURATED)
    {
        return Verdict::GeneratorBound { busy: *busy, from };
    }
    match shape {
        Shape::Linear => Verdict::ScalesLinearly,
        Shape::Exceeds => Verdict::ExceedsTheSum,
        Shape::Falling { peak, at, .. } => Verdict::Falls { peak: Q::from_f64(*peak), at: *at },
        Shape::Slowing { share, from } => Verdict::Slows { share: Ratio::new(share.max(0.0)), from: *from },
        Shape::Flat { level } => {
            let mut levels: Vec<f64> = survey.iter().filter_map(|(shape, _)| shape.level()).collect();
            let (low, high) = noise::interval(&mut levels);
            Verdict::Limited {
                level: Q::from_f64(*level),
                low: Q::from_f64(low.min(*level)),
                high: Q::from_f64(high.max(*level)),
                reached_by: reached_by(*level),
            }
        }
    }
}

/// At index i, the sum of the first i + 1.
fn sums(rates: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    rates
        .iter()
        .map(|rate| {
            sum += rate;
            sum
        })
        .collect()
}

impl<Q: Quantity + Display> Bend<Q> {
    /// The evidence, in one sentence with its numbers; the caller knows what the shared part is called.
    pub fn evidence(&self) -> String {
        let Bend { devices, expected, measured, alone, noise, .. } = self;
        let efficiency = Ratio::new(measured.to_f64() / expected.to_f64());
        let times = measured.to_f64() / alone.to_f64();
        let together = format!(
            "{devices} together do {measured}, {times:.2} x one, {efficiency} of the {expected} that they do alone"
        );
        match &self.verdict {
            Verdict::ScalesLinearly => {
                let least = Ratio::new(self.efficiency.map_or(0.0, |(low, _)| low));
                format!("{together} (surely {least}): nothing that they share limits them yet")
            }
            Verdict::ExceedsTheSum => format!(
                "{together}: alone and together were not measured under the same conditions (a cache, other load?)"
            ),
            Verdict::Limited { level, low, high, reached_by } => {
                format!("{together}; more than {reached_by} bring nothing: the limit is {level} ({low} to {high})")
            }
            Verdict::Falls { peak, at } => format!("{together}, but {at} did {peak}: more disturb each other"),
            Verdict::Slows { share, from } => {
                format!(
                    "{together}; from {from} on, each brings {share} of what it does alone, and no level is reached"
                )
            }
            Verdict::GeneratorBound { busy, from } => {
                format!(
                    "{together}, but from {from} on the generator was short of its processor (busy {busy}): this limit is its own"
                )
            }
            Verdict::TooNoisy { repeats } => {
                format!(
                    "{together}, but single measurements scatter by {noise}: too much to tell. Repeat each {repeats} times, or find what else uses the devices"
                )
            }
        }
    }
}
