//! The formulas for disks on one bus beside what a run came to.
//!
//! What a round was is taken from all deltas: there are D in one, so it is D times their mean. That holds whether or
//! not they are rounds.

use serde::Serialize;
use units::{Duration, Rate};

use crate::json::number;
use crate::rounds::model::Prediction;
use crate::rounds::{Deltas, Rounds};

/// What the formulas of [`crate::rounds::model`] give, and what was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Formulas {
    /// By the constants of the machine.
    pub predicted: Prediction,
    /// The mean large delta; `None` if there was none. Formula 3.
    #[serde(rename = "large_ns", serialize_with = "nanoseconds")]
    pub large: Option<Duration>,
    /// The mean small delta.
    #[serde(rename = "small_ns", serialize_with = "nanoseconds")]
    pub small: Option<Duration>,
    /// As many deltas as there are devices.
    #[serde(with = "number", rename = "round_ns")]
    pub round: Duration,
    /// What passed.
    #[serde(with = "number", rename = "bandwidth_bytes_per_s")]
    pub bandwidth: Rate,
}

fn nanoseconds<S: serde::Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(Duration::as_nanos).serialize(serializer)
}

impl Formulas {
    /// Beside what the deltas and the throughput were.
    pub(super) fn beside(predicted: Prediction, rounds: &Rounds, bandwidth: Rate) -> Formulas {
        let all = |deltas: &Deltas| deltas.mean.map_or(0.0, Duration::as_seconds) * deltas.count as f64;
        let count = rounds.large.count + rounds.small.count;
        assert!(count > 0, "rounds are looked for where there are deltas");
        let mean = (all(&rounds.large) + all(&rounds.small)) / count as f64;
        Formulas {
            predicted,
            large: rounds.large.mean,
            small: rounds.small.mean,
            round: Duration::from_seconds(mean * f64::from(predicted.disks)),
            bandwidth,
        }
    }
}
