//! The requests that took longest, which a percentile hides.

use record::{Phase, Row};
use serde::Serialize;
use units::{Bytes, Duration, Instant};

use crate::json::number;

/// So many are kept.
const KEPT: usize = 5;

/// A request that took long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Worst {
    /// When it was due, since the clock's start.
    #[serde(with = "number", rename = "at_ns")]
    pub at: Duration,
    /// The device.
    pub device: String,
    /// What was done.
    pub operation: &'static str,
    /// Where.
    #[serde(with = "number", rename = "offset_bytes")]
    pub offset: Bytes,
    /// How much.
    #[serde(with = "number", rename = "length_bytes")]
    pub length: Bytes,
    /// Before the device had it.
    #[serde(with = "number", rename = "wait_ns")]
    pub wait: Duration,
    /// At the device.
    #[serde(with = "number", rename = "service_ns")]
    pub service: Duration,
}

/// Takes rows in any order and amount; keeps the counted ones that took longest.
#[derive(Debug, Clone, Default)]
pub struct Worsts {
    rows: Vec<Row>,
}

impl Worsts {
    /// Looks at rows.
    pub fn add(&mut self, rows: &[Row]) {
        for row in rows.iter().filter(|row| row.phase == Phase::Measure) {
            let place = self.rows.partition_point(|other| other.response() >= row.response());
            if place < KEPT {
                self.rows.insert(place, *row);
                self.rows.truncate(KEPT);
            }
        }
    }

    /// The longest first, with the names of their devices.
    pub fn finish(&self, names: &[String]) -> Vec<Worst> {
        let worst = |row: &Row| Worst {
            at: row.intended.since(Instant::START),
            device: names[usize::from(row.device)].clone(),
            operation: row.operation.name(),
            offset: row.offset,
            length: Bytes::new(row.length.into()),
            wait: row.wait(),
            service: row.service(),
        };
        self.rows.iter().map(worst).collect()
    }
}
