//! Steady state: when repeating a measurement brings nothing new.
//!
//! The rule of SNIA's Solid State Storage Performance Test Specification (PTS 2.0.2, section 2.1.24), over a window of
//! the last rounds: their *range* (largest less smallest) is at most 20 % of their average, and the *slope excursion*
//! (the rise or fall of the straight line of least squares from the first to the last of them) at most 10 % of it. The
//! window there has five rounds, and at most 25 are run. The range alone would pass a drive that slows down slowly; the
//! slope alone one that swings.

use units::Ratio;

/// What is required of a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SteadyRule {
    /// Rounds in it; at least two.
    pub window: u16,
    /// The range at most, as a share of the average.
    pub range: Ratio,
    /// The slope excursion at most, as a share of the average.
    pub slope: Ratio,
}

impl SteadyRule {
    /// SNIA's.
    pub fn snia() -> SteadyRule {
        SteadyRule { window: 5, range: Ratio::percent(20.0), slope: Ratio::percent(10.0) }
    }
}

/// The last rounds, and whether they are steady.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct SteadyWindow {
    /// Index of its first round.
    pub first: usize,
    /// The average.
    pub mean: f64,
    /// Largest less smallest, as a share of the average.
    pub range: f64,
    /// How far the fitted line rises or falls over the window, as a share of the average; negative if it falls.
    pub slope: f64,
    /// Both are within the rule.
    pub steady: bool,
}

/// Judges the last rounds; `None` before there are enough of them, or if nothing was done in them.
pub fn steady(rounds: &[f64], rule: &SteadyRule) -> Option<SteadyWindow> {
    let n = usize::from(rule.window);
    assert!(n >= 2, "a window of {n} rounds has no slope");
    let first = rounds.len().checked_sub(n)?;
    let values = &rounds[first..];
    let mean = values.iter().sum::<f64>() / n as f64;
    if mean <= 0.0 {
        return None;
    }
    let largest = values.iter().copied().fold(f64::MIN, f64::max);
    let smallest = values.iter().copied().fold(f64::MAX, f64::min);
    let range = (largest - smallest) / mean;
    let middle = (n - 1) as f64 / 2.0;
    let (products, squares) = values.iter().enumerate().fold((0.0, 0.0), |(products, squares), (index, value)| {
        let x = index as f64 - middle;
        (products + x * (value - mean), squares + x * x)
    });
    let slope = products / squares * (n - 1) as f64 / mean;
    let steady = range <= rule.range.get() && slope.abs() <= rule.slope.get();
    Some(SteadyWindow { first, mean, range, slope, steady })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(rounds: &[f64]) -> SteadyWindow {
        steady(rounds, &SteadyRule::snia()).unwrap()
    }

    #[test]
    fn four_rounds_are_no_window() {
        assert_eq!(steady(&[1.0; 4], &SteadyRule::snia()), None);
        assert_eq!(steady(&[0.0; 5], &SteadyRule::snia()), None);
    }

    /// A straight line of 9 % over the window passes, one of 11 % does not; by hand, 100 +- 5.5.
    #[test]
    fn the_slope_is_that_of_the_line() {
        let line = |rise: f64| [-2.0, -1.0, 0.0, 1.0, 2.0].map(|x| 100.0 + x * rise / 4.0);
        let [gentle, steep] = [judged(&line(9.0)), judged(&line(-11.0))];
        assert!((gentle.slope - 0.09).abs() < 1e-12 && (gentle.range - 0.09).abs() < 1e-12 && gentle.steady);
        assert!((steep.slope + 0.11).abs() < 1e-12 && !steep.steady);
    }

    #[test]
    fn swings_have_no_slope_and_are_refused_by_their_range() {
        let swinging = judged(&[100.0, 111.0, 100.0, 89.0, 100.0]);
        assert!(!swinging.steady && swinging.range > 0.2, "{swinging:?}");
        assert!(judged(&[100.0, 109.0, 100.0, 91.0, 100.0]).range < 0.2);
    }

    /// What was before the window does not count.
    #[test]
    fn a_drive_that_settles_is_steady_at_last() {
        let rounds = [900.0, 700.0, 500.0, 300.0, 210.0, 205.0, 200.0, 202.0, 201.0];
        assert!((5..9).all(|n| !judged(&rounds[..n]).steady));
        let settled = judged(&rounds);
        assert!(settled.steady && settled.first == 4, "{settled:?}");
    }
}
