//! Stalls: single requests that took much longer than the others on their device.
//!
//! The M.A.X. study's tool stamps each operation because "an aggregate rate hides single stalled operations". With
//! one request under way a stall is a request, so its name can be told, where [`crate::explain`] finds gaps between
//! completions. The same thresholds hold. While a device stalls it moves nothing, so a stall of t beyond the usual u
//! costs (t - u) times what the device does alone; that, over the time of the measurement, is compared with the loss
//! of its point.

use record::Row;
use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Rate};

use super::{Direction, Kind, Method, Point, Sample};
use crate::explain::stall::{LEAST, MEANS, MEDIANS};
use crate::json::number;

/// A request that took much longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stalled {
    /// Its device, by its place in the order of activation.
    pub device: usize,
    /// Which of the device's requests it was, from 0 on.
    pub number: u64,
    /// Where.
    pub offset: Bytes,
    /// How long it took.
    pub took: Duration,
    /// What the others take on average.
    pub usual: Duration,
    /// How long the measurement was, for this device.
    pub of: Duration,
}

/// The stalls of a device at a point, over all repeats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // as of a kind
pub struct StallSum {
    pub method: Method,
    pub direction: Direction,
    #[serde(with = "number", rename = "request_bytes")]
    pub request: Bytes,
    /// How many devices were loaded.
    pub devices: usize,
    /// The one that stalled.
    pub device: String,
    /// How many requests did, over all repeats.
    pub count: usize,
    /// The longest.
    #[serde(with = "number", rename = "longest_ns")]
    pub longest: Duration,
    /// Which request that was of its device in its repeat, from 0 on...
    pub number: u64,
    /// ...and where.
    #[serde(with = "number", rename = "offset_bytes")]
    pub offset: Bytes,
    /// What the others take on average.
    #[serde(with = "number", rename = "usual_ns")]
    pub usual: Duration,
    /// What the stalls cost, on average over the repeats.
    #[serde(with = "number", rename = "lost_bytes_per_s")]
    pub lost: Rate,
    /// Of the loss of the point, on average over the repeats; nothing where there is no loss.
    pub share_of_loss: Option<f64>,
}

/// The requests of a measurement that stalled. Rows are in order of completion, with one request under way on each
/// device; devices are counted from 0.
pub fn stalls(rows: &[Row]) -> Vec<Stalled> {
    let devices = rows.iter().map(|row| usize::from(row.device) + 1).max().unwrap_or(0);
    let mut stalls = Vec::new();
    for device in 0..devices {
        let rows: Vec<&Row> = rows.iter().filter(|row| usize::from(row.device) == device).collect();
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { continue };
        let mut times: Vec<Duration> = rows.iter().map(|row| row.service()).collect();
        times.sort_unstable();
        let least = LEAST.max(times[times.len() / 2] * MEDIANS);
        let others: Vec<f64> = times.iter().filter(|time| **time < least).map(|time| time.as_seconds()).collect();
        let usual = others.iter().sum::<f64>() / others.len().max(1) as f64;
        let of = last.completed.saturating_since(first.submitted);
        for (number, row) in rows.iter().enumerate() {
            let took = row.service();
            if took >= least && took.as_seconds() >= MEANS * usual {
                let usual = Duration::from_seconds(usual);
                stalls.push(Stalled { device, number: number as u64, offset: row.offset, took, usual, of });
            }
        }
    }
    stalls
}

/// Those of a point, by device.
pub(super) fn sums(
    kind: Kind,
    point: &Point,
    samples: &[Sample],
    (alone, names): (&[f64], &[String]),
) -> Vec<StallSum> {
    let mean = samples.iter().map(|sample| kind.rate(sample).get()).sum::<f64>() / samples.len() as f64;
    let loss = point.expected.map(|expected| expected - mean).filter(|loss| *loss > 0.0);
    let of = |device: usize| {
        let stalls = || samples.iter().flat_map(|sample| &sample.stalls).filter(|stall| stall.device == device);
        let longest = stalls().max_by_key(|stall| stall.took)?;
        let own = alone.get(device).copied().unwrap_or(0.0);
        let cost = |stall: &Stalled| (stall.took.as_seconds() - stall.usual.as_seconds()) / stall.of.as_seconds();
        let lost = own * stalls().map(cost).sum::<f64>() / samples.len() as f64;
        Some(StallSum {
            method: kind.method,
            direction: kind.direction,
            request: kind.request,
            devices: point.devices,
            device: names[device].clone(),
            count: stalls().count(),
            longest: longest.took,
            number: longest.number,
            offset: longest.offset,
            usual: longest.usual,
            lost: Rate::bytes_per_second(lost.max(0.0)),
            share_of_loss: loss.map(|loss| (lost / loss).min(1.0)),
        })
    };
    (0..point.devices).filter_map(of).collect()
}
