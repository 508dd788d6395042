//! The bend of curves whose truth is known, under noise: the right verdict where it is clear, none where it is not.

use analysis::{Bend, Curve, Verdict, bend};
use rand_distr::{Distribution, Normal, Uniform};
use runtime::Random;
use units::{Rate, Ratio};

/// What a device does alone.
const ALONE: f64 = 100e6;

/// A curve of the truth `rate(devices)` in multiples of one device, measured with this scatter.
fn measure(rate: impl Fn(f64) -> f64, devices: usize, repeats: usize, noise: f64, random: &mut Random) -> Curve<Rate> {
    let normal = Normal::new(0.0, noise).unwrap();
    let mut point = |truth: f64| -> Vec<Rate> {
        (0..repeats).map(|_| Rate::bytes_per_second(ALONE * truth * normal.sample(random).exp())).collect()
    };
    let alone = (0..devices).map(|_| point(1.0)).collect();
    let together = (1..=devices).map(|n| point(rate(n as f64))).collect();
    Curve { alone, together, generator: vec![] }
}

const TRIALS: u64 = 500;

/// How many of 500 seeded measurements of this truth have a right verdict.
fn right(
    rate: impl Fn(f64) -> f64 + Copy,
    devices: usize,
    noise: f64,
    is_right: impl Fn(&Bend<Rate>) -> bool,
) -> usize {
    (0..TRIALS)
        .filter(|seed| {
            let curve = measure(rate, devices, 3, noise, &mut Random::new(*seed));
            is_right(&bend(&curve).unwrap())
        })
        .count()
}

/// More than 99 of 100.
const NEARLY_ALL: usize = 495;

fn limit(level: f64) -> impl Fn(f64) -> f64 + Copy {
    move |n| n.min(level)
}

#[test]
fn a_shared_limit_is_found_with_its_level() {
    for (level, devices, noise) in
        [(3.4, 8, 0.03), (1.0, 4, 0.03), (1.03, 2, 0.02), (2.0, 4, 0.02), (5.5, 16, 0.05), (2.3, 14, 0.1)]
    {
        let found = right(limit(level), devices, noise, |bend| match bend.verdict {
            Verdict::Limited { level: found, low, high, reached_by } => {
                let truth = ALONE * level;
                let knee = (0.95 * level).ceil() as usize;
                (found.get() / truth - 1.0).abs() < 3.0 * noise
                    && low <= found
                    && found <= high
                    && reached_by.abs_diff(knee) <= 1
            }
            _ => false,
        });
        assert!(found > NEARLY_ALL, "{found} of 500 for a limit of {level} among {devices}, noise {noise}");
    }
}

#[test]
fn the_interval_of_the_level_holds_it() {
    let held = right(limit(3.0), 8, 0.03, |bend| match bend.verdict {
        Verdict::Limited { low, high, .. } => low.get() <= 3.0 * ALONE && 3.0 * ALONE <= high.get(),
        _ => false,
    });
    // It is made for 95 percent and may be a little careful, but not by much.
    assert!(held > 470, "{held} of 500");
}

#[test]
fn independent_devices_scale() {
    for (devices, noise) in [(2, 0.03), (4, 0.04), (8, 0.04), (16, 0.05)] {
        // A loss of two percent to starting and stopping is none.
        let found = right(|n| n * 0.98, devices, noise, |bend| matches!(bend.verdict, Verdict::ScalesLinearly));
        assert!(found > NEARLY_ALL, "{found} of 500 for {devices} devices, noise {noise}");
    }
}

#[test]
fn devices_that_disturb_each_other_are_told_from_a_limit() {
    // As convoys do: a peak, then less and less.
    let found = right(
        |n| if n <= 3.0 { n } else { 3.0 - 0.2 * (n - 3.0) },
        8,
        0.02,
        |bend| matches!(bend.verdict, Verdict::Falls { at, .. } if (2..=5).contains(&at)),
    );
    assert!(found > NEARLY_ALL, "{found} of 500");
}

#[test]
fn a_curve_that_slows_without_a_level_is_not_called_a_limit() {
    // Amdahl: a tenth of each request is served one after the other; and a constant loss from the second device on.
    let amdahl = right(|n| n / (1.0 + 0.1 * (n - 1.0)), 8, 0.02, |bend| matches!(bend.verdict, Verdict::Slows { .. }));
    assert!(amdahl > NEARLY_ALL, "{amdahl} of 500");
    let loss = right(
        |n| 1.0 + 0.6 * (n - 1.0),
        8,
        0.02,
        |bend| matches!(bend.verdict, Verdict::Slows { share, .. } if (share.get() - 0.6).abs() < 0.12),
    );
    assert!(loss > NEARLY_ALL, "{loss} of 500");
}

#[test]
fn more_than_the_sum_is_called_what_it_is() {
    let found =
        right(|n| if n > 1.0 { 1.5 * n } else { 1.0 }, 4, 0.03, |bend| matches!(bend.verdict, Verdict::ExceedsTheSum));
    assert!(found > NEARLY_ALL, "{found} of 500");
}

#[test]
fn a_generator_without_time_is_the_limit() {
    let mut curve = measure(limit(3.0), 8, 3, 0.02, &mut Random::new(1));
    curve.generator = (1..=8).map(|n| Ratio::new((f64::from(n) * 0.33).min(0.99))).collect();
    assert!(matches!(bend(&curve).unwrap().verdict, Verdict::GeneratorBound { from: 3..=4, .. }));
    // The same without a bend is no verdict on the generator.
    let mut curve = measure(|n| n, 8, 3, 0.02, &mut Random::new(1));
    curve.generator = vec![Ratio::new(0.99); 8];
    assert_eq!(bend(&curve).unwrap().verdict, Verdict::ScalesLinearly);
}

#[test]
fn too_much_noise_is_said_and_a_wrong_verdict_is_not() {
    // A curve that is 92 % or 85 % of the sum looks like either under such noise.
    for (truth, noise) in [(0.92, 0.3), (0.85, 0.3), (1.0, 0.5)] {
        let noisy = right(|n| n * truth, 8, noise, |bend| matches!(bend.verdict, Verdict::TooNoisy { .. }));
        assert!(noisy > 450, "{noisy} of 500 for {truth}, noise {noise}");
        let wrong = right(
            |n| n * truth,
            8,
            noise,
            |bend| {
                matches!(bend.verdict, Verdict::Limited { .. } | Verdict::Falls { .. } | Verdict::GeneratorBound { .. })
            },
        );
        assert!(wrong < 5, "{wrong} of 500 for {truth}, noise {noise}");
    }
    // What noise cannot hide is still told: eight devices behind a part that carries one.
    let clear = right(limit(1.0), 8, 0.15, |bend| matches!(bend.verdict, Verdict::Limited { .. }));
    assert!(clear > NEARLY_ALL, "{clear} of 500");
}

#[test]
fn a_disturbed_repeat_in_twenty_changes_nothing() {
    let (mut random, dice) = (Random::new(7), Uniform::new(0.0, 1.0).unwrap());
    let mut found = 0;
    for _ in 0..TRIALS {
        let mut curve = measure(limit(4.0), 8, 5, 0.02, &mut random);
        for rate in curve.alone.iter_mut().chain(&mut curve.together).flatten() {
            if dice.sample(&mut random) < 1.0 / 20.0 {
                *rate = *rate * 0.6;
            }
        }
        found += matches!(bend(&curve).unwrap().verdict, Verdict::Limited { level, .. } if (level.get() / ALONE - 4.0).abs() < 0.3)
            as usize;
    }
    assert!(found > 485, "{found} of 500");
}

#[test]
fn without_repeats_nothing_is_said() {
    let curve = measure(limit(2.0), 4, 1, 0.0, &mut Random::new(1));
    let bend = bend(&curve).unwrap();
    assert!(matches!(bend.verdict, Verdict::TooNoisy { repeats: 3 }));
}

#[test]
fn one_point_cannot_bend() {
    let curve = measure(limit(2.0), 1, 3, 0.0, &mut Random::new(1));
    assert_eq!(bend(&curve), None);
}

#[test]
fn the_same_rates_give_the_same_verdict_and_a_sentence() {
    let curve = measure(limit(1.0), 4, 3, 0.01, &mut Random::new(3));
    let first = bend(&curve).unwrap();
    assert_eq!(bend(&curve).unwrap(), first);
    let text = first.evidence();
    assert!(text.starts_with("4 together do ") && text.contains(" x one, 25 % of the "), "{text}");
    assert!(text.contains("; more than 1 bring nothing: the limit is "), "{text}");
    let json = serde_json::to_value(&first).unwrap();
    assert_eq!(json["verdict"]["kind"], "limited");
    assert!(json["verdict"]["level"].is_f64() && json["confidence"].as_f64().unwrap() > 0.95);
    assert_eq!(serde_json::from_value::<Bend<Rate>>(json).unwrap().verdict, first.verdict);
}
