//! Whether rounds may have come about by chance.
//!
//! Devices that know nothing of each other are in good rounds now and then, and two devices of one speed quite often.
//! How often depends on the spread of their service times, which no formula knows. So the run itself is asked: each
//! device's completions are moved in time, all of them by the same random amount, up to a third of the run; what is
//! left is the time in which all devices have completions. That keeps everything that a device does by itself (its
//! rate, its rhythm, its stalls) and takes away only what ties it to the others. If the devices do not wait for each
//! other, the run as it was is one more draw among the moved ones, and the share of those in which rounds stand out as
//! plainly ([`Counter::plainness`]) is the probability of a false alarm, whatever the distributions ("time-shift
//! surrogates", a relative of those of J. Theiler et al., "Testing for nonlinearity in time series", 1992).
//!
//! Rejected: shuffling the devices' names among the completions. It takes the rhythm of each device away, too, and
//! finds rounds on two independent disks of one speed in most runs, because their completions tend to alternate. Moving
//! around the end of the run to its start keeps all completions, but the seam of each device spoils rounds that the run
//! as it was had.
//!
//! Devices of exactly equal and constant service time that start together finish together for ever, in rounds of length
//! zero that nobody waits in. Moved, they are in rounds as well, so that no convoy is found.

use rand_distr::{Distribution, Uniform};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use units::{Duration, Instant, Ratio};

use super::counter::Counter;
use super::{Finish, Threshold};

/// How often the devices are moved. A run that beats all of them is a false alarm once in 200 times.
pub(super) const SHUFFLES: usize = 199;

/// After so many that are as good, the answer is no, and the share is known well enough (J. Besag and P. Clifford,
/// "Sequential Monte Carlo p-values", 1991).
const ENOUGH: usize = 10;

/// Of longer runs, so many completions are looked at: 2500 rounds of 8 devices settle the question.
const MOST: usize = 20_000;

/// The same run gives the same answer.
const SEED: u64 = 0x1999_0526;

/// Sums of equal deltas differ in their last digits.
const ROUNDING: f64 = 1e-9;

/// The share of runs with the devices moved against each other in which rounds stand out as plainly, the run itself
/// among them.
pub(super) fn chance(passes: &[&[Finish]], active: &[u16], indices: usize, threshold: Option<Duration>) -> Ratio {
    let each = (MOST / passes.len().max(1)).max(3 * active.len());
    let sample: Vec<&[Finish]> = passes.iter().map(|pass| &pass[..pass.len().min(each)]).collect();
    let count = |passes: &[Vec<Finish>]| {
        let deltas = passes.iter().flat_map(|pass| pass.windows(2)).map(|pair| pair[1].at.since(pair[0].at));
        let limit = threshold.unwrap_or_else(|| Threshold::of(deltas).split());
        Counter::of(passes.iter().map(Vec::as_slice), indices, active.len(), limit)
    };
    let mut moved: Vec<Vec<Finish>> = sample.iter().map(|pass| pass.to_vec()).collect();
    let observed = count(&moved).plainness();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut as_plain = 0;
    for made in 1..=SHUFFLES {
        for (pass, moved) in sample.iter().zip(&mut moved) {
            shift(pass, moved, indices, &mut random);
        }
        // A shorter run loses a larger share of its rounds at its ends: it is given one more per pass.
        let mut counter = count(&moved);
        counter.good += sample.len() as u64;
        as_plain += usize::from(counter.plainness() >= observed - ROUNDING);
        if as_plain == ENOUGH {
            return Ratio::new(as_plain as f64 / made as f64);
        }
    }
    Ratio::new((as_plain + 1) as f64 / (SHUFFLES + 1) as f64)
}

/// Moves each device's completions of a pass by a random amount of its own, and keeps the time that all of them cover.
fn shift(pass: &[Finish], moved: &mut Vec<Finish>, indices: usize, random: &mut Xoshiro256PlusPlus) {
    moved.clear();
    let [first, .., last] = pass else { return };
    let span = last.at.since(first.at).as_nanos();
    let draw = Uniform::new_inclusive(0, span / 3).expect("a third is not below zero");
    let shifts: Vec<u64> = (0..indices).map(|_| draw.sample(random)).collect();
    let covered =
        *shifts.iter().max().expect("there are devices")..=span + *shifts.iter().min().expect("there are devices");
    moved.extend(pass.iter().filter_map(|finish| {
        let at = finish.at.since(first.at).as_nanos() + shifts[usize::from(finish.device)];
        covered.contains(&at).then_some(Finish { at: Instant::from_nanos(at), ..*finish })
    }));
    moved.sort_unstable_by_key(|finish| (finish.at, finish.device));
}
