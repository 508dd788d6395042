//! How much single measurements scatter, and what their medians may therefore be.
//!
//! Scatter is relative (a disk of twice the rate varies twice as much in MB/s), so everything is done on logarithms.
//! Its standard deviation is the median of the absolute differences between repeats of the same point, over all points,
//! divided by 0.954 (the median absolute difference of two draws from a normal distribution with deviation 1: sqrt(2)
//! times 0.6745). One disturbed repeat in a few leaves it alone, where a mean of squares would be carried away.

use rand_distr::{Distribution, Normal};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use units::Ratio;

use super::{Shape, sums};
use crate::estimate::student_t;

/// The median absolute difference of two draws from a normal distribution, as a share of its deviation.
const PAIR: f64 = 0.9539;

/// The deviation of the median of so many draws from a normal distribution, as a multiple of that of their mean (H. L.
/// Harter, "Order Statistics", 1961): the median of one or two is their mean; of many, the factor is sqrt(pi / 2).
fn median_factor(draws: usize) -> f64 {
    match draws {
        1 | 2 => 1.0,
        3 => 1.160,
        4 => 1.092,
        5 => 1.198,
        6 => 1.135,
        _ => 1.2533,
    }
}

/// The scatter of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Noise {
    /// Standard deviation of the logarithm of one measurement.
    deviation: f64,
    /// How many differences it was estimated from that do not follow from others.
    degrees: u32,
}

impl Noise {
    /// From points with their repeats.
    pub fn of<'a>(points: impl Iterator<Item = &'a Vec<f64>>) -> Noise {
        let (mut differences, mut degrees) = (Vec::new(), 0);
        for repeats in points {
            assert!(!repeats.is_empty(), "a point of a curve was measured at least once");
            degrees += repeats.len() as u32 - 1;
            for (place, one) in repeats.iter().enumerate() {
                differences.extend(repeats[..place].iter().map(|other| (one / other).ln().abs()));
            }
        }
        let deviation = if differences.is_empty() { f64::INFINITY } else { median(&differences) / PAIR };
        Noise { deviation, degrees }
    }

    /// True if nothing was repeated.
    pub fn is_unknown(&self) -> bool {
        self.degrees == 0
    }

    /// The scatter of one measurement as a share of it; zero if unknown.
    pub fn of_one(&self) -> f64 {
        if self.is_unknown() { 0.0 } else { self.deviation.exp_m1() }
    }

    /// How often to measure for a median that is known to this share, at 95 %; at least three times.
    pub fn repeats_needed(&self, share: f64) -> u32 {
        if self.is_unknown() {
            3
        } else {
            (1.96 * median_factor(usize::MAX) * self.deviation / share).powi(2).ceil().clamp(3.0, 1e6) as u32
        }
    }

    /// Shapes and last efficiencies of curves that the same devices might have given as well.
    pub fn disturb(&self, alone: &[Vec<f64>], together: &[Vec<f64>], times: u32) -> Vec<(Shape, f64)> {
        if self.is_unknown() {
            return Vec::new();
        }
        // The deviation is itself an estimate; Student's distribution is wider for it.
        let inflation = student_t(Ratio::percent(95.0), self.degrees) / 1.96;
        let of_median = |repeats: &Vec<f64>| {
            let factor = median_factor(repeats.len()) * inflation;
            let deviation = self.deviation * factor / (repeats.len() as f64).sqrt();
            (median(repeats), Normal::new(0.0, deviation).expect("a finite deviation"))
        };
        let alone: Vec<(f64, Normal<f64>)> = alone[..together.len()].iter().map(of_median).collect();
        let together: Vec<(f64, Normal<f64>)> = together.iter().map(of_median).collect();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1979);
        let mut draw = |points: &[(f64, Normal<f64>)]| -> Vec<f64> {
            points.iter().map(|(median, normal)| median * normal.sample(&mut random).exp()).collect()
        };
        (0..times)
            .map(|_| {
                let (expected, measured) = (sums(&draw(&alone)), draw(&together));
                let last = measured.len() - 1;
                (Shape::of(&measured, &expected), measured[last] / expected[last])
            })
            .collect()
    }
}

/// The middle value, or the mean of the two middle ones.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) { (sorted[middle - 1] + sorted[middle]) / 2.0 } else { sorted[middle] }
}

/// Where the middle 95 % of the values lie; zero to infinity without values.
pub fn interval(values: &mut [f64]) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return (0.0, f64::INFINITY) };
    let at = |share: f64| values[(share * last as f64).round() as usize];
    (at(0.025), at(0.975))
}
