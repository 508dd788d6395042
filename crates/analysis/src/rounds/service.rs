//! In which order devices are served, and how fairly.
//!
//! On a bus with priorities one expects the device of the highest to be served most often and first. In rounds each is
//! served once, in the order in which they find their data; then the mean place of each is (D + 1) / 2, and rounds
//! repeat the order of the one before once in D! times. An order that repeats more often is made by something:
//! priorities, a turn that goes round, a queue.

use serde::Serialize;
use units::Ratio;

use crate::json::number;

/// A device's part in what was served.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Service {
    /// The device.
    pub device: String,
    /// How many of its requests completed.
    pub completions: u64,
    /// Their share in all.
    #[serde(with = "number")]
    pub share: Ratio,
    /// Its place in good rounds, 1 for the first, on average; nothing without good rounds.
    pub mean_place: Option<f64>,
    /// The share of good rounds in which it finishes first.
    #[serde(with = "number")]
    pub first: Ratio,
}

/// Counts by device.
pub(super) struct Tables {
    completions: Vec<u64>,
    /// Sums of places in good rounds.
    places: Vec<u64>,
    firsts: Vec<u64>,
    rounds: u64,
    /// The order of the last good round of this pass; empty before the first.
    last: Vec<u16>,
    /// Good rounds that had one before them, and those of the same order.
    followed: u64,
    repeated: u64,
}

impl Tables {
    pub fn new(indices: usize, active: usize) -> Tables {
        let zeroes = || vec![0; indices];
        Tables {
            completions: zeroes(),
            places: zeroes(),
            firsts: zeroes(),
            rounds: 0,
            last: Vec::with_capacity(active),
            followed: 0,
            repeated: 0,
        }
    }

    pub fn begin_pass(&mut self) {
        self.last.clear();
    }

    pub fn count(&mut self, device: u16) {
        self.completions[usize::from(device)] += 1;
    }

    /// A good round, in which these devices finished in this order.
    pub fn round(&mut self, order: &[u16]) {
        self.rounds += 1;
        self.firsts[usize::from(order[0])] += 1;
        for (place, device) in (1..).zip(order) {
            self.places[usize::from(*device)] += place;
        }
        if !self.last.is_empty() {
            self.followed += 1;
            self.repeated += u64::from(self.last == order);
        }
        self.last.clear();
        self.last.extend_from_slice(order);
    }

    pub fn order_repeats(&self) -> Ratio {
        Ratio::new(self.repeated as f64 / self.followed.max(1) as f64)
    }

    /// Of `all` completions, those of devices that are not counted among them.
    pub fn finish(&self, names: &[String], active: &[u16], all: u64) -> Vec<Service> {
        let share = |count: u64, of: u64| Ratio::new(count as f64 / of.max(1) as f64);
        let service = |device: &u16| {
            let device = usize::from(*device);
            Service {
                device: names[device].clone(),
                completions: self.completions[device],
                share: share(self.completions[device], all),
                mean_place: (self.rounds > 0).then(|| self.places[device] as f64 / self.rounds as f64),
                first: share(self.firsts[device], self.rounds),
            }
        };
        active.iter().map(service).collect()
    }
}

/// Jain's index: (sum x)^2 / (n sum x^2).
pub(super) fn fairness(counts: &[u64]) -> Ratio {
    let sum: f64 = counts.iter().map(|count| *count as f64).sum();
    let squares: f64 = counts.iter().map(|count| (*count as f64).powi(2)).sum();
    Ratio::new(sum * sum / (counts.len() as f64 * squares).max(1e-12))
}
