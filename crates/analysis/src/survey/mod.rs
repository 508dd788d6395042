//! The survey: where does this storage stop?
//!
//! The method is that of the RAID-I report (sections 4.4 and 4.5, Table 32) and of the M.A.X. study: measure each disk
//! alone; then, for every part that several disks share, add them one at a time, round-robin over what is below it;
//! compare what they deliver together with the sum of what each delivers alone. Where the sum is not reached, the part
//! they share is the limit, if it is neither the generator nor the processors. Each point is measured for bandwidth
//! (sequential) and for request rate (small requests at random), in three ways: raw (direct, several requests under
//! way), through the operating system (the page cache, with as many requests under way), and as the RAID-I report did
//! it (the page cache, one process per disk that waits for each request). The first two differ in the page cache alone,
//! the last two in queue depth alone, so each difference has one cause.
//!
//! Here is what was found ([`Findings`]) and what it means ([`Survey`]); how it is measured is the laboratory's
//! business, and so is whether on this machine or on a modelled one.

mod result;
mod spread;
mod text;
mod verdict;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use units::{Bytes, Frequency, Rate, Ratio};

use crate::json::number;

pub use result::{CurvePoint, Expected, Level, Measured, Rung, Survey, Verdict, VerdictKind};

/// What shares what: a part of the machine and the parts below it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// How far from the devices it is.
    pub tier: Tier,
    /// Its name, short enough for a table.
    pub name: String,
    /// What it hangs on, towards the host, where there is nothing to choose between.
    pub on: Vec<String>,
    /// The parts below; none for a device.
    pub below: Vec<Part>,
    /// Numbers of the devices below, in the order in which a survey adds them: so that two share a part as late as
    /// possible.
    pub order: Vec<usize>,
    /// What is known to bound it without measuring: a link's signalling rate, a throttle that somebody has set.
    pub limits: Vec<KnownLimit>,
    /// It is of a modelled machine, where no device is a file.
    #[serde(skip)]
    pub modelled: bool,
}

/// The tiers of a machine, from the device up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // the words of the field
pub enum Tier {
    Disk,
    Store,
    Link,
    Adapter,
    Backplane,
    Host,
}

/// A bound that is known from elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KnownLimit {
    /// What sets it, as it can stand in a sentence: "a cgroup throttle (blkio.throttle.read_iops_device)".
    pub what: String,
    /// Bytes per second, if it bounds those.
    pub bandwidth: Option<Rate>,
    /// Requests per second, if it bounds those.
    pub requests: Option<Frequency>,
    /// It counts what is larger than this as several requests: the block layer splits them.
    pub piece: Option<Bytes>,
}

impl KnownLimit {
    /// So many requests it counts for one of this size.
    pub fn pieces(&self, request: Bytes) -> u64 {
        self.piece.filter(|piece| !piece.is_zero()).map_or(1, |piece| request.get().div_ceil(piece.get()).max(1))
    }
}

/// How requests reach the devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Direct, several requests under way on each device.
    Raw,
    /// Through the page cache, with as many requests under way.
    Os,
    /// Through the page cache, one process per device that waits for each request: the pairing of RAID-I's Table 32.
    Process,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// Large sequential requests: bytes per second.
    Bandwidth,
    /// Small requests at random: requests per second.
    Requests,
}

/// What was measured, how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Kind {
    /// Raw or through the operating system.
    pub access: Access,
    /// Bandwidth or requests.
    pub question: Question,
    /// Written, or read.
    pub writes: bool,
}

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Bytes per second.
    pub bandwidth: Rate,
    /// Requests per second.
    pub requests: Frequency,
    /// Processors, as shares of all of them; absent where there are none to account for.
    pub processors: Option<Processors>,
    /// The busiest thread of the load generator, as a share of the time: near 100 % it may be the limit itself.
    pub generator: Ratio,
}

/// Where processor time went, as shares of all processors.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Processors {
    /// In programs.
    #[serde(with = "number")]
    pub user: Ratio,
    /// In the kernel.
    #[serde(with = "number")]
    pub system: Ratio,
    /// Idle with I/O under way.
    #[serde(with = "number")]
    pub iowait: Ratio,
    /// In interrupts and in the work they defer.
    #[serde(with = "number")]
    pub softirq: Ratio,
    /// All of it that this process and the kernel's threads took. The rest is other programs'.
    #[serde(with = "number")]
    pub own: Ratio,
}

/// All that was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Findings {
    /// Size of the sequential requests.
    pub request: Bytes,
    /// What its choice stood on: sizes, and what the first device gave.
    pub tried: Vec<(Bytes, Sample)>,
    /// One per part, those below first.
    pub curves: Vec<Curve>,
}

/// What a part delivered with more and more of its devices.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Where the part is in the tree: indices from the root.
    pub path: Vec<usize>,
    /// By number of devices, from the fewest. A device alone has one point.
    pub points: Vec<Point>,
}

/// A part with some of its devices active.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Which ones.
    pub devices: Vec<usize>,
    /// Every repeat of every kind of measurement.
    pub samples: HashMap<Kind, Vec<Sample>>,
}

impl Part {
    /// A device.
    pub fn device(index: usize, name: impl Into<String>) -> Part {
        let (on, below, limits) = (Vec::new(), Vec::new(), Vec::new());
        Part { tier: Tier::Disk, name: name.into(), on, below, order: vec![index], limits, modelled: false }
    }

    /// Every part with its path of indices, those below first, the root last.
    pub fn all(&self) -> Vec<(Vec<usize>, &Part)> {
        fn walk<'a>(part: &'a Part, path: &mut Vec<usize>, all: &mut Vec<(Vec<usize>, &'a Part)>) {
            for (index, below) in part.below.iter().enumerate() {
                path.push(index);
                walk(below, path, all);
                path.pop();
            }
            all.push((path.clone(), part));
        }
        let mut all = Vec::new();
        walk(self, &mut Vec::new(), &mut all);
        all
    }
}

impl Tier {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Disk => "disk",
            Tier::Store => "store",
            Tier::Link => "link",
            Tier::Adapter => "adapter",
            Tier::Backplane => "backplane",
            Tier::Host => "host",
        }
    }
}

impl Sample {
    /// The number that answers the question, in bytes or requests per second.
    pub fn answer(&self, question: Question) -> f64 {
        match question {
            Question::Bandwidth => self.bandwidth.get(),
            Question::Requests => self.requests.get(),
        }
    }
}
