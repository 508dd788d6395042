//! The difference of two clocks, by Cristian's rule.
//!
//! A question leaves at `s` and its answer is here at `r`, both on our clock; the other clock showed `c` in between.
//! Whatever the delays of the two ways, the answer was given between `s` and `r`, so the other clock is ahead of ours
//! by something between `c - r` and `c - s`: by
//!
//! ```text
//! c - (s + r) / 2   with an error of at most (r - s) / 2
//! ```
//!
//! F. Cristian, "Probabilistic clock synchronization", Distributed Computing 3 (1989). Of several trips the shortest
//! says most. The bound takes nothing for granted but that clocks go forward: a busy processor or a slow network makes
//! it wide, never wrong. Halving the bound by the smallest delay that the network can have, as the paper goes on to do,
//! was left out: nobody knows that delay here.

use units::Duration;

/// A question and its answer; nanoseconds, each on the clock of who noted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trip {
    /// When it was asked, on our clock.
    pub sent: i64,
    /// What the other clock showed.
    pub answered: i64,
    /// When the answer was here, on our clock.
    pub received: i64,
}

/// By how much the other clock is ahead of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference {
    /// In nanoseconds; negative if it is behind.
    pub ahead: i64,
    /// At most so far from the truth.
    pub error: Duration,
}

impl Difference {
    /// By the shortest of the trips; `None` without any.
    pub fn of(trips: &[Trip]) -> Option<Difference> {
        let Trip { sent, answered, received } = *trips.iter().min_by_key(|trip| trip.received - trip.sent)?;
        assert!(sent <= received, "an answer comes after its question");
        let round = received - sent;
        // Half a nanosecond is lost in the mean of two whole ones, and counted as error.
        Some(Difference {
            ahead: answered - (sent + round / 2),
            error: Duration::nanos(round.unsigned_abs().div_ceil(2)),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the delays, the truth lies within the error.
        #[test]
        fn the_truth_lies_within_the_error(
            ahead in -1_000_000_000_000i64..1_000_000_000_000,
            delays in prop::collection::vec((0i64..50_000_000, 0i64..50_000_000, 0i64..1_000_000_000), 1..20),
        ) {
            let trips: Vec<Trip> = delays
                .iter()
                .map(|(there, back, sent)| {
                    Trip { sent: *sent, answered: sent + there + ahead, received: sent + there + back }
                })
                .collect();
            let found = Difference::of(&trips).unwrap();
            prop_assert!((found.ahead - ahead).unsigned_abs() <= found.error.as_nanos(), "{found:?}");
            let shortest = delays.iter().map(|(there, back, _)| there + back).min().unwrap();
            prop_assert!(found.error.as_nanos() <= shortest.unsigned_abs().div_ceil(2));
        }
    }
}
