//! How repeats scatter, drawn again.
//!
//! The deviations of the logarithms of repeats from the mean of their point, times sqrt(r / (r - 1)) as the mean of r
//! takes part of them, are one heap; a repeat of any point may deviate by any of them. A deviation of [`CLOCKS`] is
//! added: repeats that are alike to the last digit prove no more.

use rand_distr::{Distribution, Normal, Uniform};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::bend::median;

/// Two clocks never agree to more than a part in a thousand.
const CLOCKS: f64 = 1e-3;

/// Draws that tell how a median scatters.
const DRAWS: usize = 1000;

/// A heap of deviations.
pub struct Scatter {
    deviations: Vec<f64>,
    random: Xoshiro256PlusPlus,
}

impl Scatter {
    /// Of points with their repeats; nothing if none has two.
    pub fn of<'a>(points: impl Iterator<Item = &'a Vec<f64>>) -> Option<Scatter> {
        let mut deviations = Vec::new();
        for repeats in points.filter(|repeats| repeats.len() > 1) {
            let n = repeats.len() as f64;
            let mean = repeats.iter().map(|rate| rate.ln()).sum::<f64>() / n;
            deviations.extend(repeats.iter().map(|rate| (rate.ln() - mean) * (n / (n - 1.0)).sqrt()));
        }
        (!deviations.is_empty()).then(|| Scatter { deviations, random: Xoshiro256PlusPlus::seed_from_u64(1994) })
    }

    /// By which factor the median of so many repeats misses what it is of.
    pub fn median(&mut self, repeats: usize) -> f64 {
        let (which, clocks) = (
            Uniform::new(0, self.deviations.len()).expect("a heap is not empty"),
            Normal::new(0.0, CLOCKS).expect("a finite deviation"),
        );
        let drawn: Vec<f64> = (0..repeats)
            .map(|_| self.deviations[which.sample(&mut self.random)] + clocks.sample(&mut self.random))
            .collect();
        median(&drawn).exp()
    }

    /// Of the logarithm of the median of so many repeats.
    pub fn variance_of_median(&mut self, repeats: usize) -> f64 {
        (0..DRAWS).map(|_| self.median(repeats).ln().powi(2)).sum::<f64>() / DRAWS as f64
    }

    /// How often to measure for a median that is known to this share with 95 % confidence, given that of so many
    /// repeats.
    pub fn repeats_needed(&mut self, repeats: usize, share: f64) -> u32 {
        let needed = repeats as f64 * self.variance_of_median(repeats) * (1.96 / share).powi(2);
        needed.ceil().clamp(repeats as f64 + 1.0, 1e6) as u32
    }

    /// Standard deviation of one measurement.
    pub fn deviation(&self) -> f64 {
        (self.deviations.iter().map(|one| one * one).sum::<f64>() / self.deviations.len() as f64).sqrt()
    }
}
