//! What the machine did while requests were counted, besides carrying them out: who used its processors and its
//! devices, and who withheld them.
//!
//! A rate that others limit says nothing of the device. So the kernel's accounts are read when counting starts and when
//! it ends, in each pass, and what lies between is added up. Shares are of counted time. What the kernel does not tell
//! (another user's programs, pressure, a file system without a device) is absent, and no verdict rests on it.

use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Frequency, Ratio};

use crate::json::{number, seconds};

/// What was going on around a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Surroundings {
    /// The time that was looked at: counted time, over all passes.
    #[serde(with = "seconds", rename = "seconds")]
    pub time: Duration,
    /// The processors that the run was allowed to use.
    pub processors: Vec<Processor>,
    /// The share of all processors of the machine that this process and the kernel's threads used.
    #[serde(with = "number")]
    pub own: Ratio,
    /// Other programs that used much, who used most first.
    pub neighbours: Vec<Neighbour>,
    /// For how long tasks of the machine waited; `None` where the kernel does not count it.
    pub pressure: Option<Pressure>,
    /// The share of the time in which a control group withheld processors.
    #[serde(with = "number")]
    pub withheld: Ratio,
    /// Rates to which control groups hold devices of the run.
    pub throttles: Vec<Throttle>,
    /// The block devices below the run's devices, each with those that stand on it first of all.
    pub disks: Vec<Disk>,
    /// Devices of which the medium does not store all that was read, and the share that it does not.
    pub holes: Vec<Hole>,
    /// The devices whose requests went through the page cache.
    pub cached: Vec<String>,
    /// The memory that the page cache had; `None` where the kernel does not tell.
    pub memory: Option<Memory>,
    /// Interrupts of devices, the most frequent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<Interrupt>,
    /// The frequency of the run's processors; `None` where the kernel does not tell.
    pub clocks: Option<Clocks>,
    /// The same by the second, or by longer intervals where the run was long. They have no intervals themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Interval>,
}

/// The surroundings for a part of the counted time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// When it began, by the clock of the records.
    #[serde(with = "seconds", rename = "from_s")]
    pub from: Duration,
    /// When it ended.
    #[serde(with = "seconds", rename = "until_s")]
    pub until: Duration,
    /// What was seen.
    #[serde(flatten)]
    pub around: Surroundings,
}

/// Interrupts of one device, or of one of its queues.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interrupt {
    /// The name that the driver gave it.
    pub name: String,
    /// So many came.
    pub count: u64,
    /// The processor that had the most of them.
    pub processor: u32,
    /// Its share of them.
    #[serde(with = "number")]
    pub share: Ratio,
}

/// How fast the processors ran.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Clocks {
    /// The mean frequency.
    #[serde(with = "number", rename = "mean_hz")]
    pub mean: Frequency,
    /// The highest that one of them can have.
    #[serde(with = "number", rename = "most_hz")]
    pub most: Frequency,
    /// How often heat slowed one of them.
    pub slowed: u64,
}

/// Memory, as the page cache found it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Memory {
    /// Of the machine.
    #[serde(with = "number", rename = "installed_bytes")]
    pub installed: Bytes,
    /// What a control group allows this program.
    pub limit: Option<MemoryLimit>,
    /// What the files of the run that go through the page cache hold.
    #[serde(with = "number", rename = "wanted_bytes")]
    pub wanted: Bytes,
    /// Pages of files, of whichever program, that the kernel took back.
    #[serde(with = "number", rename = "reclaimed_bytes")]
    pub reclaimed: Bytes,
    /// How often the control group's limit was reached.
    pub reached: u64,
}

/// A limit of memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryLimit {
    /// So much is allowed.
    #[serde(with = "number", rename = "bytes")]
    pub most: Bytes,
    /// The control group that says so, below `/sys/fs/cgroup`.
    pub group: String,
}

/// What one processor did. The shares are disjoint.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // the names are those of proc_stat(5)
pub struct Processor {
    pub number: u32,
    #[serde(with = "number")]
    pub user: Ratio,
    #[serde(with = "number")]
    pub system: Ratio,
    #[serde(with = "number")]
    pub irq: Ratio,
    #[serde(with = "number")]
    pub softirq: Ratio,
    #[serde(with = "number")]
    pub iowait: Ratio,
    #[serde(with = "number")]
    pub steal: Ratio,
}

/// Another program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Neighbour {
    /// Its name.
    pub name: String,
    /// Its number.
    pub id: u32,
    /// Its processor time as a share of one processor.
    #[serde(with = "number")]
    pub processor: Ratio,
    /// Had from storage, on whichever device.
    #[serde(with = "number", rename = "read_bytes")]
    pub read: Bytes,
    /// Given to storage.
    #[serde(with = "number", rename = "written_bytes")]
    pub written: Bytes,
}

/// The share of the time in which some task of the machine waited.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// For a processor.
    #[serde(with = "number")]
    pub processors: Ratio,
    /// For I/O.
    #[serde(with = "number")]
    pub io: Ratio,
    /// For memory.
    #[serde(with = "number")]
    pub memory: Ratio,
}

/// A rate that a control group allows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Throttle {
    /// The devices of the run that it holds for.
    pub devices: Vec<String>,
    /// What is counted, and in which direction.
    pub what: Throttled,
    /// So many a second.
    pub most: f64,
    /// The limit in words, with the control group.
    pub said: String,
}

/// What a control group counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Throttled {
    BytesRead,
    BytesWritten,
    Reads,
    Writes,
}

/// What a block device did, whoever asked for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// Its name in `/dev`.
    pub name: String,
    /// The devices of the run that stand on it with nothing between: itself, its partitions, files of its file system.
    /// None of a member of an array or a volume.
    pub devices: Vec<String>,
    /// True if it is a device of the run itself: nothing but its users sends it requests. A file system has requests of
    /// its own.
    pub is_raw: bool,
    /// Reads and writes that it did.
    pub requests: [u64; 2],
    /// What they moved.
    #[serde(rename = "moved_bytes")]
    pub moved: [u64; 2],
    /// Reads and writes that the block layer joined to a neighbour.
    #[serde(default)]
    pub merges: [u64; 2],
    /// Requests under way, averaged over time.
    #[serde(default)]
    pub in_flight: f64,
    /// The share of the time with a request under way.
    #[serde(with = "number")]
    pub busy: Ratio,
}

/// A device that answers some reads from memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hole {
    /// The device.
    pub device: String,
    /// The share of it that its medium does not store.
    #[serde(with = "number")]
    pub share: Ratio,
}

impl Processor {
    /// The share of the time in which it ran something, or the hypervisor ran something else on it.
    pub fn busy(&self) -> f64 {
        [self.user, self.system, self.irq, self.softirq, self.steal].iter().map(|share| share.get()).sum()
    }
    /// The share in interrupts and in what they defer.
    pub fn interrupts(&self) -> f64 {
        self.irq.get() + self.softirq.get()
    }
}

impl Surroundings {
    /// The mean share in which the processors of the run were busy; `None` if they were not looked at.
    pub fn busy(&self) -> Option<f64> {
        let sum: f64 = self.processors.iter().map(Processor::busy).sum();
        (!self.processors.is_empty()).then(|| (sum / self.processors.len() as f64).min(1.0))
    }

    /// The processor time of other programs as a share of one processor.
    pub fn of_neighbours(&self) -> f64 {
        self.neighbours.iter().map(|one| one.processor.get()).sum()
    }

    /// The block device on which a device of the run stands.
    pub fn disk(&self, device: &str) -> Option<&Disk> {
        self.disks.iter().find(|disk| disk.devices.iter().any(|one| one == device))
    }
}
