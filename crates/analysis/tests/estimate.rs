//! Confidence intervals against the printed table and against chance.

use analysis::{Estimate, student_t};
use rand_distr::{Distribution, Normal};
use runtime::Random;
use units::{Frequency, Ratio};

#[test]
fn t_is_that_of_the_tables() {
    // NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2, upper 0.975.
    for (degrees, t) in [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (29, 2.045), (100, 1.984)] {
        assert!((student_t(Ratio::percent(95.0), degrees) - t).abs() < 0.0006, "{degrees} degrees");
    }
    assert!((student_t(Ratio::percent(99.0), 2) - 9.925).abs() < 0.0006);
}

#[test]
fn the_interval_holds_the_value_in_95_of_100_cases() {
    let mut random = Random::new(1908);
    let normal = Normal::new(1000.0, 50.0).unwrap();
    for passes in [2, 3, 10] {
        let trials = 20_000;
        let held = (0..trials)
            .filter(|_| {
                let passes = (0..passes).map(|_| Frequency::per_second(normal.sample(&mut random)));
                let estimate = Estimate::of(passes).unwrap();
                (estimate.mean.get() - 1000.0).abs() <= estimate.half_width.get()
            })
            .count();
        let share = held as f64 / f64::from(trials);
        // Three standard deviations of a share of 0.95 in 20,000 trials are 0.0046.
        assert!((share - 0.95).abs() < 0.0046, "{share} with {passes} passes");
    }
}

#[test]
fn one_pass_has_no_interval() {
    assert_eq!(Estimate::of([Frequency::per_second(1.0)]), None);
    let equal = Estimate::of([Frequency::per_second(7.0); 4]).unwrap();
    assert_eq!((equal.half_width.get(), equal.relative_spread().unwrap()), (0.0, Ratio::ZERO));
}
