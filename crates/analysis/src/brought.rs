//! What a faster part would bring, as it was measured: two runs in turns, of which the second stands for a machine with
//! that part faster.

use serde::Serialize;
use units::Ratio;

use crate::compare::Metric;
use crate::json::number;

/// What a faster part would bring.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Brought {
    /// The part.
    pub part: String,
    /// So many times as fast as it is.
    #[serde(with = "number")]
    pub times: Ratio,
    /// Rate, mean and 99th percentile: as they are, and as they would be.
    pub metrics: Vec<Metric>,
    /// The rate of the run that was held up by nothing, but had the same bounds on how many requests a device has at
    /// once, as a share of that of the run as it was.
    #[serde(with = "number")]
    pub control: Ratio,
    /// The part gained more than its own speed can give. So it shares something with the others that could not be held
    /// up, and had more of it while they asked for less. Then nothing is known of it.
    pub shares: bool,
    /// How many requests other devices were given at once, where that was bounded.
    pub at_once: Vec<(String, u32)>,
}

impl Brought {
    /// The rate that it would bring; `None` if no request was done.
    pub fn rate(&self) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == "iops")
    }
}
