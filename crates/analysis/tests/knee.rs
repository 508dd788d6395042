//! Knees of curves whose truth is known: how often one is missed, and how often one is said that is not there.
//!
//! Bounds are those of the binomial distribution: at an error probability of 1 %, 100 trials have more than 5 errors
//! once in 1000.

use analysis::knee::{Growth, Knee, KneeVerdict, knee};
use rand_distr::{Distribution, Normal, Uniform};
use runtime::Random;
use units::Rate;

/// What a device does alone.
const ALONE: f64 = 100e6;
const TRIALS: u64 = 100;
/// Of curves of many devices, which take longer.
const LONG: u64 = 20;

fn trials(devices: usize) -> u64 {
    if devices > 16 { LONG } else { TRIALS }
}

/// 97 of 100.
fn nearly_all(devices: usize) -> usize {
    (trials(devices) * 97 / 100) as usize
}

const REPEATS: usize = 5;

/// Devices of these rates, of which the first n together do `together(sum alone, n)`, measured with this scatter.
fn measure(rates: &[f64], together: impl Fn(f64, usize) -> f64, noise: f64, random: &mut Random) -> Growth {
    let normal = Normal::new(0.0, noise).unwrap();
    let mut point = |truth: f64| -> Vec<Rate> {
        (0..REPEATS).map(|_| Rate::bytes_per_second(truth * normal.sample(random).exp())).collect()
    };
    let alone = rates.iter().map(|rate| point(*rate)).collect();
    let sum = |n: usize| rates[..n].iter().sum::<f64>();
    let together = (1..=rates.len()).map(|n| (n, point(together(sum(n), n)))).collect();
    Growth { alone, together }
}

/// How many of the trials are right.
fn right(
    devices: usize,
    together: impl Fn(f64, usize) -> f64 + Copy,
    noise: f64,
    is_right: impl Fn(&Knee) -> bool,
) -> usize {
    let trial = |seed: &u64| {
        let growth = measure(&vec![ALONE; devices], together, noise, &mut Random::new(*seed));
        is_right(&knee(&growth).unwrap())
    };
    (0..trials(devices)).filter(trial).count()
}

fn limit(devices: f64) -> impl Fn(f64, usize) -> f64 + Copy {
    move |alone, _| alone.min(devices * ALONE)
}

fn is_knee(knee: &Knee) -> bool {
    matches!(knee.verdict, KneeVerdict::Knee { .. })
}

/// The bar: 19 of 20 within 5 percent, in number of devices and in rate.
#[test]
fn a_planted_knee_is_found_within_5_percent() {
    for (devices, at, noise) in [
        (8, 2.5, 0.02),
        (8, 4.0, 0.02),
        (8, 4.3, 0.03),
        (8, 6.6, 0.02),
        (8, 7.2, 0.01),
        (4, 2.5, 0.01),
        (31, 27.0, 0.01),
    ] {
        let found = right(devices, limit(at), noise, |knee| match knee.verdict {
            KneeVerdict::Knee { devices, rate, .. } => {
                (devices.value / at - 1.0).abs() < 0.05 && (rate.value / (at * ALONE) - 1.0).abs() < 0.05
            }
            _ => false,
        });
        assert!(found >= nearly_all(devices), "{found} for a knee at {at} of {devices}, noise {noise}");
    }
}

#[test]
fn independent_devices_have_no_knee() {
    for (devices, noise) in [(3, 0.02), (8, 0.01), (8, 0.04), (16, 0.03)] {
        let wrong = right(devices, |alone, _| 0.98 * alone, noise, is_knee);
        assert!(wrong <= 5, "{wrong} of {TRIALS} for {devices} devices, noise {noise}");
        let said = right(devices, |alone, _| 0.98 * alone, noise, |knee| knee.verdict == KneeVerdict::None);
        assert!(said >= 95, "{said} of {TRIALS} for {devices} devices, noise {noise}");
    }
}

/// Six fast devices and then two slow ones bend the curve over the number of devices, not over what they do alone.
#[test]
fn slow_devices_at_the_end_are_no_knee() {
    let rates = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.2, 0.2].map(|rate| rate * ALONE);
    let wrong = (0..TRIALS).filter(|seed| {
        let growth = measure(&rates, |alone, _| alone, 0.02, &mut Random::new(*seed));
        is_knee(&knee(&growth).unwrap())
    });
    let wrong = wrong.count();
    assert!(wrong <= 5, "{wrong} of {TRIALS}");
}

/// The study's own curve: 31 arrays do 16.4 MB/s each of 18.1 alone.
#[test]
fn a_loss_with_each_device_is_a_loss_and_no_knee() {
    for (devices, loss) in [(31, 0.0035), (8, 0.05)] {
        let shape = move |alone: f64, n: usize| alone / (1.0 + loss * (n as f64 - 1.0));
        let found = right(devices, shape, 0.01, |knee| match knee.verdict {
            KneeVerdict::Loss { share } => (share / loss - 1.0).abs() < 0.2,
            _ => false,
        });
        assert!(found >= nearly_all(devices), "{found} for a loss of {loss}");
    }
}

/// The study's 4-way interleaved memory: 393 MB/s at 27 arrays, 310 at 31.
#[test]
fn what_falls_behind_its_knee_takes_from_the_others() {
    let shape = |alone: f64, _| if alone <= 27.0 * ALONE { alone } else { 27.0 * ALONE - 1.4 * (alone - 27.0 * ALONE) };
    let found = right(31, shape, 0.01, |knee| match knee.verdict {
        KneeVerdict::Knee { devices, further, .. } => (devices.value / 27.0 - 1.0).abs() < 0.05 && further < -1.0,
        _ => false,
    });
    assert!(found >= nearly_all(31), "{found} of {LONG}");
}

#[test]
fn what_rises_less_behind_its_knee_says_by_how_much() {
    let shape = |alone: f64, _| alone.min(3.0 * ALONE) + 0.4 * (alone - 3.0 * ALONE).max(0.0);
    let found = right(8, shape, 0.01, |knee| match knee.verdict {
        KneeVerdict::Knee { devices, further, .. } => {
            (devices.value / 3.0 - 1.0).abs() < 0.1 && (further - 0.4).abs() < 0.1
        }
        _ => false,
    });
    assert!(found >= 95, "{found} of {TRIALS}");
}

#[test]
fn the_intervals_hold_the_truth_as_often_as_they_say() {
    let held = |of: fn(&Knee) -> Option<(f64, f64, f64)>| {
        right(8, limit(4.4), 0.02, move |knee| of(knee).is_some_and(|(low, high, truth)| low <= truth && truth <= high))
    };
    let number = held(|knee| match knee.verdict {
        KneeVerdict::Knee { devices, .. } => Some((devices.low, devices.high, 4.4)),
        _ => None,
    });
    let rate = held(|knee| match knee.verdict {
        KneeVerdict::Knee { rate, .. } => Some((rate.low, rate.high, 4.4 * ALONE)),
        _ => None,
    });
    // Twice as many as there were.
    let beyond = held(|knee| {
        let rate = knee.beyond.last()?;
        Some((rate.rate.low, rate.rate.high, 4.4 * ALONE))
    });
    for (what, held) in [("number", number), ("rate", rate), ("beyond", beyond)] {
        assert!(held >= 90, "{what}: {held} of {TRIALS}");
    }
    // And where nothing limits.
    let held = right(
        8,
        |alone, _| alone,
        0.02,
        |knee| {
            let rate = knee.beyond.last().unwrap().rate;
            rate.low <= 16.0 * ALONE && 16.0 * ALONE <= rate.high
        },
    );
    // Known to be too narrow (LIMITS.md): 86. It must not become worse.
    assert!(held >= 85, "{held} of {TRIALS}");
}

#[test]
fn a_disturbed_repeat_in_twenty_neither_makes_a_knee_nor_hides_one() {
    let (mut random, dice) = (Random::new(7), Uniform::new(0.0, 1.0).unwrap());
    let mut count = |together: &dyn Fn(f64, usize) -> f64| {
        let mut found = 0;
        for _ in 0..TRIALS {
            let mut growth = measure(&[ALONE; 8], together, 0.02, &mut random);
            for rate in growth.alone.iter_mut().chain(growth.together.iter_mut().map(|point| &mut point.1)).flatten() {
                if dice.sample(&mut random) < 0.05 {
                    *rate = *rate * 0.6;
                }
            }
            found += usize::from(is_knee(&knee(&growth).unwrap()));
        }
        found
    };
    let (wrong, found) = (count(&|alone, _| alone), count(&|alone, _| alone.min(4.3 * ALONE)));
    assert!(wrong <= 5, "{wrong} of {TRIALS}");
    assert!(found >= 95, "{found} of {TRIALS}");
}

/// A machine that slows by a fifth during the measurements. In ascending order that bends the curve; shuffled it is
/// scatter.
#[test]
fn a_drift_makes_no_knee_where_the_order_is_shuffled() {
    let drifted = |seed: u64, shuffled: bool| {
        let mut random = Random::new(seed);
        let normal = Normal::new(0.0, 0.01).unwrap();
        let dice = Uniform::new(0.0, 1.0).unwrap();
        let mut growth = Growth { alone: vec![Vec::new(); 8], together: (1..=8).map(|n| (n, Vec::new())).collect() };
        let whole = 16 * REPEATS;
        // In ascending order the repeats of a point follow each other, as programs do it that know no better.
        let mut order: Vec<usize> = (0..whole).map(|place| place / REPEATS).collect();
        if shuffled {
            for repeat in 0..REPEATS {
                let mut points: Vec<(f64, usize)> = (0..16).map(|point| (dice.sample(&mut random), point)).collect();
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                points.iter().enumerate().for_each(|(place, (_, point))| order[16 * repeat + place] = *point);
            }
        }
        for (place, point) in order.into_iter().enumerate() {
            let slowed = 1.0 - 0.2 * ((place as f64 / whole as f64 - 0.7) / 0.3).max(0.0);
            let devices = if point < 8 { 1 } else { point - 7 };
            let rate = Rate::bytes_per_second(ALONE * devices as f64 * slowed * f64::exp(normal.sample(&mut random)));
            if point < 8 { growth.alone[point].push(rate) } else { growth.together[point - 8].1.push(rate) }
        }
        is_knee(&knee(&growth).unwrap())
    };
    let count = |shuffled| (0..TRIALS).filter(|seed| drifted(*seed, shuffled)).count();
    let (shuffled, ascending) = (count(true), count(false));
    assert!(shuffled <= 5, "{shuffled} of {TRIALS}");
    assert!(ascending >= 95, "the drift would matter: {ascending} of {TRIALS}");
}

#[test]
fn what_scatters_too_much_is_called_unclear_and_says_how_often_to_repeat() {
    let unclear = right(
        8,
        |alone, _| alone,
        0.3,
        |knee| match knee.verdict {
            KneeVerdict::Unclear { repeats } => repeats > REPEATS as u32,
            _ => false,
        },
    );
    assert!(unclear >= 95, "{unclear} of {TRIALS}");
    // A knee that costs most of the rate is seen all the same.
    let found = right(8, limit(2.0), 0.1, is_knee);
    assert!(found >= 97, "{found} of {TRIALS}");
}

#[test]
fn too_little_says_nothing() {
    let mut growth = measure(&[ALONE; 2], |alone, _| alone, 0.01, &mut Random::new(1));
    assert_eq!(knee(&growth), None, "two points");
    growth = measure(&[ALONE; 8], |alone, _| alone, 0.01, &mut Random::new(1));
    for repeats in growth.alone.iter_mut().chain(growth.together.iter_mut().map(|point| &mut point.1)) {
        repeats.truncate(1);
    }
    assert_eq!(knee(&growth), None, "nothing was repeated");
}

#[test]
fn the_same_rates_give_the_same_knee_which_json_keeps() {
    let growth = measure(&[ALONE; 8], |alone, _| alone.min(4.3 * ALONE), 0.01, &mut Random::new(3));
    let first = knee(&growth).unwrap();
    assert_eq!(knee(&growth).unwrap(), first);
    let json = serde_json::to_value(&first).unwrap();
    assert_eq!(json["verdict"], "knee");
    assert_eq!(serde_json::from_value::<Knee>(json).unwrap(), first);
}
