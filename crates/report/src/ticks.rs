//! Where numbers are written beside an axis.

/// The least distance of ticks that is 1, 2 or 5 times a power of ten and not less, but for what a floating number is
/// off by.
pub(crate) fn step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|factor| factor * power).find(|step| *step >= least * 0.999).unwrap_or(10.0 * power)
}

#[test]
fn ticks_are_round() {
    let steps = [0.03, 1.0, 1.1, 2.2, 7.0, 2e8].map(step);
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
    assert!(steps.into_iter().zip([0.05, 1.0, 2.0, 5.0, 10.0, 2e8]).all(|(a, b)| near(a, b)), "{steps:?}");
}
