//! Devices that cannot be part of rounds, as they complete too little.
//!
//! A good round takes one completion of each of D devices. So there are no more good rounds than the device with the
//! fewest completions has, n, and of N completions at most n D in good rounds. Rounds are the pattern of service from
//! half of all requests on ([`PATTERN`]): with a device that has less than half of the mean, n < N / (2 D), no pattern
//! can be found, whatever the others do. A few stray requests to one more device (a log, a heartbeat, the system's own
//! disk in a trace) would hide any convoy of the others.
//!
//! So such devices are left out, the smallest first, until each that is left has half of the mean of those that are
//! left; and the algorithm runs on the completions of these, exactly as published. Nothing is left out where fewer than
//! two devices would be left. A device that stays could have been in half of all rounds, and its not being there is
//! then something that the run says.
//!
//! Which devices are looked at is decided by their counts, never by their times: it cannot be drawn to a choice that
//! makes rounds, and chance (`chance.rs`) moves the same devices. A stray request's time on what is shared becomes part
//! of the delta in which it fell.

use serde::Serialize;
use units::Ratio;

use super::{Finish, PATTERN};
use crate::json::number;

/// A device that was left out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stray {
    /// The device.
    pub device: String,
    /// How many of its requests completed.
    pub completions: u64,
    /// Their share in all.
    #[serde(with = "number")]
    pub share: Ratio,
}

/// What devices have completed, by index.
pub(super) struct Counts(Vec<u64>);

impl Counts {
    pub fn of(passes: &[&[Finish]], indices: usize) -> Counts {
        let mut counts = vec![0; indices];
        passes.iter().copied().flatten().for_each(|finish| counts[usize::from(finish.device)] += 1);
        Counts(counts)
    }

    pub fn get(&self, device: u16) -> u64 {
        self.0[usize::from(device)]
    }

    /// Those of the active devices that can be part of rounds, in their order.
    pub fn regular(&self, active: &[u16]) -> Vec<u16> {
        let mut kept = active.to_vec();
        kept.sort_by_key(|device| std::cmp::Reverse(self.get(*device)));
        let mut sum: u64 = kept.iter().map(|device| self.get(*device)).sum();
        while let Some(last) = kept.last().map(|device| self.get(*device))
            && (last as f64) < PATTERN * sum as f64 / kept.len() as f64
        {
            sum -= last;
            kept.pop();
        }
        if kept.len() < 2 {
            return active.to_vec();
        }
        kept.sort_unstable();
        kept
    }

    /// The most that could be in rounds of all these devices.
    pub fn bound(&self, active: &[u16]) -> Ratio {
        let all: u64 = active.iter().map(|device| self.get(*device)).sum();
        let least = active.iter().map(|device| self.get(*device)).min().unwrap_or(0);
        Ratio::new((least * active.len() as u64) as f64 / all.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regular(counts: &[u64]) -> Vec<u16> {
        let active: Vec<u16> = (0..counts.len() as u16).collect();
        Counts(counts.to_vec()).regular(&active)
    }

    #[test]
    fn devices_below_half_of_the_mean_of_those_left_are_strays() {
        assert_eq!(regular(&[3, 1000, 1000, 1000]), [1, 2, 3]);
        // Half of the mean exactly could be in rounds with half of all requests.
        assert_eq!(regular(&[1000, 1000, 400]), [0, 1, 2]);
        assert_eq!(regular(&[1000, 1000, 399]), [0, 1]);
        // A larger stray shows when the smaller one is out of the mean.
        assert_eq!(regular(&[1000, 1000, 1000, 420, 3]), [0, 1, 2]);
    }

    #[test]
    fn nothing_is_left_out_where_fewer_than_two_devices_would_be_left() {
        assert_eq!(regular(&[1000, 3]), [0, 1]);
        assert_eq!(regular(&[1000, 3, 3]), [0, 1, 2]);
    }
}
