//! What a survey came to, as people read it and as scripts do.
//!
//! The names of fields in JSON are the contract of `arraylab survey --json`: more may be added, none may change.

use serde::{Deserialize, Serialize};
use units::{Bytes, Frequency, Rate, Ratio};

use super::spread::mean;
use super::{Access, Kind, Point, Processors, Question, Sample, Tier};
use crate::json::number;

/// What a survey came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Survey {
    /// Size of the sequential requests.
    #[serde(with = "number", rename = "request_bytes")]
    pub request: Bytes,
    /// Devices first, the whole last.
    pub levels: Vec<Level>,
    /// One for each thing that limits, or does not; the most important first.
    pub verdicts: Vec<Verdict>,
    /// From what limits first to what would limit last.
    pub ladder: Vec<Rung>,
}

/// A part and what it delivers with all its devices active.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// Its tier.
    pub level: Tier,
    /// Its name.
    pub name: String,
    /// What it hangs on, towards the host.
    pub on: Vec<String>,
    /// How many devices are below.
    pub devices: usize,
    /// The sum of the parts below; nothing for a device.
    pub expected: Option<Expected>,
    /// Direct, asynchronous.
    pub raw: Measured,
    /// Through the operating system, with as many requests under way.
    pub os: Measured,
    /// Through the operating system, by one process per device; `null` where that was not measured.
    pub process: Option<Measured>,
    /// What was written instead of read, if anything was.
    pub written: Option<Box<(Measured, Measured)>>,
    /// What more and more devices delivered, raw.
    pub curve: Vec<CurvePoint>,
}

/// A point of a curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// How many devices were active.
    pub devices: usize,
    /// Mean of the repeats.
    #[serde(with = "number", rename = "bandwidth_bytes_per_s")]
    pub bandwidth: Rate,
    /// Mean of the repeats.
    #[serde(with = "number", rename = "iops")]
    pub requests: Frequency,
}

/// The sum of the parts, raw.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// Bytes per second.
    #[serde(with = "number", rename = "bandwidth_bytes_per_s")]
    pub bandwidth: Rate,
    /// Requests per second.
    #[serde(with = "number", rename = "iops")]
    pub requests: Frequency,
}

/// What was measured, over all repeats.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Mean.
    #[serde(with = "number", rename = "bandwidth_bytes_per_s")]
    pub bandwidth: Rate,
    /// Lowest bandwidth.
    #[serde(with = "number")]
    pub low: Rate,
    /// Highest bandwidth.
    #[serde(with = "number")]
    pub high: Rate,
    /// Mean.
    #[serde(with = "number", rename = "iops")]
    pub requests: Frequency,
    /// Lowest.
    #[serde(with = "number")]
    pub iops_low: Frequency,
    /// Highest.
    #[serde(with = "number")]
    pub iops_high: Frequency,
    /// Processors during the sequential measurements.
    pub processors: Option<Processors>,
    /// Processors during the random ones.
    pub processors_random: Option<Processors>,
}

/// What one finding means.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The tier it is about.
    pub level: Tier,
    /// The part it is about.
    pub part: String,
    /// Bandwidth or requests.
    pub question: Question,
    /// What kind of finding it is.
    pub kind: VerdictKind,
    /// What limits; empty where nothing does.
    pub limit: String,
    /// One sentence with the numbers.
    pub evidence: String,
    /// The probability that it is so, as far as the repeats tell.
    #[serde(with = "number")]
    pub confidence: Ratio,
}

/// What kind of finding a verdict is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictKind {
    /// The devices share a part, and it is the limit.
    Shared,
    /// A limit that is known from elsewhere.
    Known,
    /// The only device there is, and nothing else that is known of had reached its end.
    Device,
    /// The load generator could do no more.
    Generator,
    /// The processors could do no more.
    Processors,
    /// The operating system delivers less than the devices at the same queue depth.
    OperatingSystem,
    /// One request at a time delivers less than several.
    Depth,
    /// The measurements fit more than one limit; the evidence says what would decide.
    Undecided,
    /// Nothing limits here: the parts add up.
    Scales,
    /// The repeats differ too much to say.
    Noise,
}

/// One rung of the ladder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    /// What it is the limit of.
    pub part: String,
    /// What it delivers.
    #[serde(with = "number", rename = "bandwidth_bytes_per_s")]
    pub bandwidth: Rate,
    /// What it delivers.
    #[serde(with = "number", rename = "iops")]
    pub requests: Frequency,
}

impl Processors {
    /// Not idle, as a share of all processors.
    pub fn busy(self) -> f64 {
        self.user.get() + self.system.get() + self.softirq.get()
    }

    /// Taken by other programs, as a share of all processors.
    pub fn others(self) -> f64 {
        (self.busy() - self.own.get()).max(0.0)
    }

    fn mean(of: &[Processors]) -> Option<Processors> {
        let average = |part: fn(&Processors) -> Ratio| Ratio::new(mean(of.iter().map(|one| part(one).get())));
        (!of.is_empty()).then(|| Processors {
            user: average(|one| one.user),
            system: average(|one| one.system),
            iowait: average(|one| one.iowait),
            softirq: average(|one| one.softirq),
            own: average(|one| one.own),
        })
    }
}

impl Measured {
    /// `None` if this kind was not measured.
    pub(super) fn of(point: &Point, access: Access, writes: bool) -> Option<Measured> {
        let samples = |question| point.samples.get(&Kind { access, question, writes });
        let (sequential, random) = (samples(Question::Bandwidth)?, samples(Question::Requests)?);
        // Of a survey that was cut short there may be one measurement, which has no spread.
        let bandwidth = range(sequential.iter().map(|sample| sample.bandwidth.get()))?;
        let requests = range(random.iter().map(|sample| sample.requests.get()))?;
        let processors = |samples: &[Sample]| {
            Processors::mean(&samples.iter().filter_map(|sample| sample.processors).collect::<Vec<_>>())
        };
        Some(Measured {
            bandwidth: Rate::bytes_per_second(bandwidth.0),
            low: Rate::bytes_per_second(bandwidth.1),
            high: Rate::bytes_per_second(bandwidth.2),
            requests: Frequency::per_second(requests.0),
            iops_low: Frequency::per_second(requests.1),
            iops_high: Frequency::per_second(requests.2),
            processors: processors(sequential),
            processors_random: processors(random),
        })
    }
}

/// Mean, lowest and highest; nothing of nothing.
fn range(values: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64, f64)> {
    let low = values.clone().reduce(f64::min)?;
    let high = values.clone().reduce(f64::max)?;
    Some((mean(values), low, high))
}
