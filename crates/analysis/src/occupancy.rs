//! How occupied a device was, and whether the records agree with themselves.
//!
//! *Little's law* (J. D. C. Little, 1961): in any steady system, the mean number of requests present is the rate at
//! which they arrive times the mean time they stay, L = lambda W, whatever the distributions. Here L is measured one
//! way (the time that requests are present *within* the counted time, whenever they were issued, divided by that time)
//! and lambda W another (requests *issued* in the counted time and how long they stayed, also beyond it). Both take
//! requests of all phases: what counts here is the time, not the request. The two differ by what hangs over the edges.
//! Where that is much, the run was too short or not steady, and its means are of nothing in particular.
//!
//! The *busy* share is the time with at least one request present. It is what iostat calls %util. For a device that
//! does several things at once it is no measure of saturation: an SSD that is busy all the time at depth 1 may do
//! twenty times as much at depth 32.

use serde::{Deserialize, Serialize};
use units::{Duration, Frequency, Instant, Ratio};

use crate::json::number;
use crate::tally::Summarizer;
use record::{Labels, Row};

/// How occupied a device was during its counted time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Occupancy {
    /// The device.
    pub device: String,
    /// Share of the time with at least one request at the device.
    #[serde(with = "number")]
    pub busy: Ratio,
    /// L: requests at the device, averaged over time.
    pub mean_depth: f64,
    /// lambda: requests given to the device per second.
    #[serde(with = "number")]
    pub arrivals: Frequency,
    /// W: mean time at the device.
    #[serde(with = "number", rename = "service_ns")]
    pub service: Duration,
    /// The difference of L and lambda W as a share of the larger one.
    #[serde(with = "number")]
    pub imbalance: Ratio,
}

/// Takes the rows of a run a second time, in order of completion, once their counted times are known.
#[derive(Debug, Clone)]
pub struct Occupancies {
    labels: Labels,
    /// By device, then by pass.
    watches: Vec<Vec<Option<Watch>>>,
}

/// One device in one pass.
#[derive(Debug, Clone)]
struct Watch {
    window: (Instant, Instant),
    /// Nanoseconds that requests were present within the window.
    present: u128,
    /// Requests given to the device within the window, and the nanoseconds that they stayed.
    issued: u64,
    stayed: u128,
    busy: BusyTime,
}

impl Occupancies {
    /// For the counted times that a summarizer has found.
    pub fn new(summarizer: &Summarizer) -> Occupancies {
        let labels = summarizer.labels().clone();
        let watch = |window| Watch { window, present: 0, issued: 0, stayed: 0, busy: BusyTime::default() };
        let watches = (0..labels.devices.len() as u16)
            .map(|device| summarizer.windows(device).into_iter().map(|window| window.map(watch)).collect())
            .collect();
        Occupancies { labels, watches }
    }

    /// Counts rows, which must come in order of completion (those of one device and pass). Failed requests occupy a
    /// device, too.
    pub fn add(&mut self, rows: &[Row]) {
        for row in rows {
            let watch = self.watches[usize::from(row.device)].get_mut(usize::from(row.pass));
            if let Some(Some(watch)) = watch {
                watch.add(row);
            }
        }
    }

    /// How occupied each device was, over all passes. Devices that did nothing that counts are left out.
    pub fn finish(self) -> Vec<Occupancy> {
        let Occupancies { labels, watches } = self;
        let occupancy = |(device, watches): (String, Vec<Option<Watch>>)| {
            let watches: Vec<Watch> = watches.into_iter().flatten().collect();
            let sum = |of: fn(&Watch) -> u128| watches.iter().map(of).sum::<u128>() as f64;
            let time = sum(|watch| u128::from(watch.length()));
            let issued = sum(|watch| u128::from(watch.issued));
            if time == 0.0 || issued == 0.0 {
                return None;
            }
            let mean_depth = sum(|watch| watch.present) / time;
            let expected = sum(|watch| watch.stayed) / time;
            let larger = mean_depth.max(expected);
            Some(Occupancy {
                device,
                busy: Ratio::new(sum(|watch| u128::from(watch.busy.total())) / time),
                mean_depth,
                arrivals: Frequency::per_second(issued / time * 1e9),
                service: Duration::nanos((sum(|watch| watch.stayed) / issued).round() as u64),
                imbalance: if larger == 0.0 { Ratio::ZERO } else { Ratio::new((mean_depth - expected).abs() / larger) },
            })
        };
        labels.devices.into_iter().zip(watches).filter_map(occupancy).collect()
    }
}

impl Watch {
    fn add(&mut self, row: &Row) {
        let (begin, end) = self.window;
        if begin <= row.submitted && row.submitted < end {
            self.issued += 1;
            self.stayed += u128::from(row.service().as_nanos());
        }
        let (from, to) = (row.submitted.max(begin), row.completed.min(end));
        if from < to {
            self.present += u128::from(to.since(from).as_nanos());
            self.busy.add(from.as_nanos(), to.as_nanos());
        }
    }

    fn length(&self) -> u64 {
        self.window.1.saturating_since(self.window.0).as_nanos()
    }
}

/// The length of the union of intervals that come in the order of their ends.
///
/// Kept as disjoint busy periods, the latest last. A new interval reaches furthest, so it can only swallow periods from
/// the end: each is pushed once and popped once.
#[derive(Debug, Clone, Default)]
struct BusyTime {
    periods: Vec<(u64, u64)>,
    /// Of periods that were too old to be kept.
    settled: u64,
}

impl BusyTime {
    /// Beyond so many periods (16 MiB), the older half is settled: only a request that outlasts half a million idle
    /// gaps would be counted twice.
    const MOST: usize = 1 << 20;

    fn add(&mut self, from: u64, to: u64) {
        let mut merged = (from, to);
        while let Some(last) = self.periods.last()
            && last.1 >= merged.0
        {
            merged = (merged.0.min(last.0), merged.1.max(last.1));
            self.periods.pop();
        }
        if self.periods.len() == Self::MOST {
            self.settled += self.periods.drain(..Self::MOST / 2).map(|(from, to)| to - from).sum::<u64>();
        }
        self.periods.push(merged);
    }

    fn total(&self) -> u64 {
        self.settled + self.periods.iter().map(|(from, to)| to - from).sum::<u64>()
    }
}
