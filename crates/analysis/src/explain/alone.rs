//! What a request takes that finds its device idle: R(1), beside which R(d) tells whether requests queue; see
//! [`judge`](super::judge).
//!
//! In a closed loop this is the first request of each pass; in an open loop there are many. The first request of a pass
//! may find more asleep than its device: a processor, a first allocation. So the mean of each pass is taken, and of
//! these the least. A pass without such a request has no mean.

use std::collections::BTreeMap;

use record::{Operation, Row};
use units::Duration;

/// Requests that found a device idle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alone {
    /// The device.
    pub device: String,
    /// How many, in all passes.
    pub requests: u64,
    /// Their mean time at the device, in the pass in which it was least.
    pub mean: Duration,
}

/// Takes rows in any order.
#[derive(Debug, Default)]
pub struct AloneWatch {
    /// By device and pass: how many, and their time in nanoseconds.
    found: BTreeMap<(u16, u16), (u64, u64)>,
    /// A row counts those under way of its own stream only.
    streams: BTreeMap<u16, u16>,
    mixed: bool,
}

impl AloneWatch {
    /// Sees rows.
    pub fn add(&mut self, rows: &[Row]) {
        for row in rows {
            self.mixed |= *self.streams.entry(row.device).or_insert(row.stream) != row.stream;
            let moves = matches!(row.operation, Operation::Read | Operation::Write);
            if row.depth == 1 && row.errno == 0 && moves {
                let (count, time) = self.found.entry((row.device, row.pass)).or_default();
                (*count, *time) = (*count + 1, *time + row.service().as_nanos());
            }
        }
    }

    /// What was found, by the names of devices. Nothing if a device has several streams, whose rows do not count each
    /// other.
    pub fn finish(&self, names: &[String]) -> Vec<Alone> {
        let mut alone: Vec<Alone> = Vec::new();
        for ((device, _), (count, time)) in self.found.iter().filter(|_| !self.mixed) {
            let mean = Duration::nanos(time / count);
            let name = &names[usize::from(*device)];
            match alone.iter_mut().find(|known| known.device == *name) {
                Some(known) => (known.requests, known.mean) = (known.requests + count, known.mean.min(mean)),
                None => alone.push(Alone { device: name.clone(), requests: *count, mean }),
            }
        }
        alone
    }
}
