//! The knee: how many devices a host takes before a further one brings less, and how sure that is.
//!
//! The M.A.X. study (T. Ruwart and M. O'Keefe, "A 500 MegaByte/Second Disk Array", 1994) adds disk arrays one at a
//! time and reads the limit off the curve. Here that is a test. Let a(i) be the rate of device i alone, E(n) = a(1) +
//! ... + a(n), and y(n) the rate of the first n together. Operational analysis (P. Denning and J. Buzen, 1978) gives
//! y two asymptotes: E(n), and the capacity L of whatever is shared. Between the two lies the knee, at the number of
//! devices k with E(k) = L. It need not be whole: 4.3 devices fill what four do not and five exceed.
//!
//! # The models
//! All are fitted by least squares of relative errors, as noise is relative (`fit.rs`):
//!
//! ```text
//! line        y = c E                              nothing is shared
//! contention  y = E / (a + b (n - 1)), b >= 0      each further device costs all others the same
//! flat knee   y = c min(E, Ek)                     a shared part of capacity c Ek
//! bent knee   y = c min(E, Ek) + t max(0, E - Ek)  behind the knee a further device brings t / c of its own rate
//! ```
//!
//! Contention is N. Gunther's ("Guerrilla Capacity Planning", 2007), and where t is below zero, devices take from the
//! others.
//!
//! A curve that bends evenly has a loss per device and no knee, as the study's own: 31 arrays did 16.4 MB/s each of
//! 18.1. So the question is whether a knee fits better than the better of the first two. The bent knee stands for the
//! flat one where it fits better by `BENT`.
//!
//! # The test
//! T is the sum of squares that the knee saves. The place of the knee does not exist where there is none, so T has
//! none of the textbook's distributions (R. Davies, 1977; B. Hansen, 1999). Its distribution is made: curves of the
//! better model without a knee, disturbed as the repeats were, are fitted in the same way, and p is the share of them
//! with as large a T. The disturbances are drawn from the repeats' own deviations from their means (a bootstrap of
//! residuals, B. Efron, 1979): a repeat that something else disturbed is drawn as often as it was measured. The rates
//! of the devices alone are disturbed in the same way. Intervals are those of curves of the fitted knee, disturbed in
//! the same way. The draws have a fixed seed.
//!
//! A knee is said if p is at most [`ALPHA`] and the last point lies at least [`MATTERS`] below the line before the
//! knee. Points are medians of their repeats. Repeats must be shuffled together by whoever measures: what drifts with
//! time is then scatter of every point, and no bend.
//!
//! Rejected: an F test of the segmented regression, as its levels do not hold where the place of the knee is searched
//! for; isotonic regression, which has no knee; the second difference (kneedle), which has no error probability.
//! [`crate::bend`] names the shape of a curve by thresholds and a whole number of devices; it is the survey's, where
//! what is shared is the question.

mod fit;
mod scatter;

use serde::{Deserialize, Serialize};
use units::{Rate, Ratio};

use crate::bend::median;
use crate::json::number;
use fit::{Fit, Points};
use scatter::Scatter;

/// What was measured on the way up.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Growth {
    /// Each device alone, in the order in which they are added: its repeats, of which there is at least one, and none
    /// is zero.
    pub alone: Vec<Vec<Rate>>,
    /// So many of them together, in ascending order: the repeats of their total, likewise.
    pub together: Vec<(usize, Vec<Rate>)>,
}

/// What the curve says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// The finding.
    #[serde(flatten)]
    pub verdict: KneeVerdict,
    /// How often scatter alone would bend a curve without a knee as much.
    pub p: f64,
    /// Standard deviation of a single measurement, as a share of it.
    #[serde(with = "number")]
    pub noise: Ratio,
    /// The last point as a share of what its devices do alone, and between which shares that lies with 95 %
    /// confidence.
    pub efficiency: Value,
    /// What more devices would give, each as fast alone as the mean of those here, if nothing else limits before.
    pub beyond: Vec<Beyond>,
}

/// The finding.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum KneeVerdict {
    /// There is one.
    Knee {
        /// At so many devices.
        devices: Value,
        /// At this rate, in bytes a second.
        #[serde(rename = "bandwidth_bytes_per_s")]
        rate: Value,
        /// What a further device brings of its own rate; zero if that is as good as nothing, below zero if it takes
        /// from the others.
        further: f64,
        /// 1 - p.
        #[serde(with = "number")]
        confidence: Ratio,
    },
    /// None: what the devices do adds up.
    None,
    /// None, but each further device costs the others this share of the rate of one.
    Loss {
        /// Of the rate of one.
        share: f64,
    },
    /// The measurements scatter too much to tell.
    Unclear {
        /// How often each point should be measured, if the scatter stays as it is.
        repeats: u32,
    },
}

/// A number, and between which it lies with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // the words of statistics
pub struct Value {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

/// What more devices would give.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Beyond {
    /// So many.
    pub devices: usize,
    /// In bytes a second.
    #[serde(rename = "bandwidth_bytes_per_s")]
    pub rate: Value,
}

/// A knee is said if scatter alone bends a curve as much no more often: of twenty sizes and methods in a result, one
/// in five results may be wrong once.
pub const ALPHA: f64 = 0.01;

/// A knee, or a loss, matters if the last point lies so far below what the first ones promise. It is also the
/// resolution that is promised.
pub const MATTERS: f64 = 0.05;

/// The squares, in variances of a median, that a parameter must save to be taken: chi squared with one degree of
/// freedom exceeds it once in 600.
const BENT: f64 = 10.0;

/// Nothing is said of a knee where the last point is known no better than this, from its low to its high.
const WELL_KNOWN: f64 = 0.2;

/// Curves that are made for a distribution.
const DRAWS: usize = 500;

/// Looks for a knee. Nothing of fewer than three points, which cannot tell a knee from a loss, or where no point was
/// repeated.
///
/// # Panics
/// If a point has no repeats, a rate is zero, or a point is of more devices than were measured alone.
pub fn knee(growth: &Growth) -> Option<Knee> {
    let numbers = |repeats: &Vec<Rate>| -> Vec<f64> { repeats.iter().map(|rate| rate.get()).collect() };
    let alone: Vec<Vec<f64>> = growth.alone.iter().map(numbers).collect();
    let (counts, together): (Vec<usize>, Vec<Vec<f64>>) =
        growth.together.iter().map(|(devices, repeats)| (*devices, numbers(repeats))).unzip();
    let mut rates = alone.iter().chain(&together).flatten();
    assert!(rates.all(|rate| *rate > 0.0), "a curve is of rates above zero");
    assert!(counts.iter().all(|count| (1..=alone.len()).contains(count)), "each device of a curve was measured alone");
    if counts.len() < 3 {
        return None;
    }
    let mut scatter = Scatter::of(alone.iter().chain(&together))?;
    let repeats = together.iter().map(Vec::len).min().expect("there are points");
    let variance = scatter.variance_of_median(repeats);
    let medians = |points: &[Vec<f64>]| -> Vec<f64> { points.iter().map(|repeats| median(repeats)).collect() };
    let (one, measured) = (medians(&alone), medians(&together));
    let points = Points::new(&one, &counts, measured.clone());

    let plain = Fit::without_knee(&points, variance);
    let bent = Fit::knee(&points, variance);
    let saved = plain.squares - bent.squares;
    // Curves of a fit, measured again.
    let mut again = |fit: &Fit| -> Vec<Points> {
        let truth: Vec<f64> = points.at.iter().map(|at| fit.rate(*at)).collect();
        let draw = |_| {
            let one: Vec<f64> = one.iter().zip(&alone).map(|(rate, of)| rate * scatter.median(of.len())).collect();
            let rates = truth.iter().zip(&together).map(|(rate, of)| rate * scatter.median(of.len()));
            let rates = rates.collect();
            Points::new(&one, &counts, rates)
        };
        (0..DRAWS).map(draw).collect()
    };
    let plains = again(&plain);
    let saved_by = |points: &Points| Fit::without_knee(points, variance).squares - Fit::knee(points, variance).squares;
    let as_large = plains.iter().filter(|plain| saved_by(plain) >= saved);
    let p = (as_large.count() + 1) as f64 / (DRAWS + 1) as f64;
    let is_knee = p <= ALPHA && bent.lost(&points) >= MATTERS;

    let (fit, others) = if is_knee { (bent, again(&bent)) } else { (plain, plains) };
    let last = points.at.len() - 1;
    let efficiency = points.rates[last] / points.at[last].1;
    let kept = |points: &Points| points.rates[last] / points.at[last].1;
    // Of curves of the fit: as far as it lies beside the measurement, so does its interval.
    let beside = efficiency / (fit.rate(points.at[last]) / points.at[last].1);
    let efficiency = Value::of(efficiency, others.iter().map(|other| kept(other) * beside).collect());
    let refit = |other: &Points| if is_knee { Fit::knee(other, variance) } else { Fit::contention(other) };
    let refitted: Vec<Fit> = others.iter().map(refit).collect();
    let verdict = if is_knee {
        let at = points.knee_of(&fit);
        let devices = others.iter().zip(&refitted).map(|(other, fit)| other.knee_of(fit)).collect();
        let rate = refitted.iter().map(Fit::rate_at_knee).collect();
        KneeVerdict::Knee {
            devices: Value::of(at, devices),
            rate: Value::of(fit.rate_at_knee(), rate),
            further: fit.further(),
            confidence: Ratio::new(1.0 - p),
        }
    } else if efficiency.high - efficiency.low > WELL_KNOWN {
        KneeVerdict::Unclear { repeats: scatter.repeats_needed(repeats, WELL_KNOWN / 2.0) }
    } else if fit.loss() * (counts[last] - 1) as f64 >= MATTERS {
        KneeVerdict::Loss { share: fit.loss() }
    } else {
        KneeVerdict::None
    };
    let mean = one[..counts[last]].iter().sum::<f64>() / counts[last] as f64;
    let beyond = further(counts[last]).into_iter().map(|devices| {
        let at = (devices, points.at[last].1 + mean * (devices - counts[last]) as f64);
        // Each by what its own devices did alone.
        let rates = others.iter().zip(&refitted).map(|(other, fit)| {
            let alone = at.1 * other.at[last].1 / points.at[last].1;
            fit.rate((devices, alone))
        });
        Beyond { devices, rate: Value::of(fit.rate(at), rates.collect()) }
    });
    let beyond = beyond.collect();
    Some(Knee { verdict, p, noise: Ratio::new(scatter.deviation()), efficiency, beyond })
}

/// The numbers of devices that are looked forward to: one more, half as many again, twice as many.
fn further(devices: usize) -> Vec<usize> {
    let mut further = vec![devices + 1, devices + devices.div_ceil(2), 2 * devices];
    further.dedup();
    further
}

impl Value {
    fn of(value: f64, mut draws: Vec<f64>) -> Value {
        let (low, high) = crate::bend::interval(&mut draws);
        Value { value, low: low.min(value), high: high.max(value) }
    }
}
