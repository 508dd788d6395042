//! Limits that control groups set on single devices: `blkio.throttle` (version 1) and `io.max` (version 2).
//!
//! A throttled device looks like a slow one: it delivers exactly so much, however many paths are driven. So a survey
//! must know, to name the throttle and not the disk. What is read is the group of this process and all above it;
//! requests are counted where the process is, also those that a loop device passes on to the device below.

use std::fmt;
use std::path::Path;

use serde::Serialize;
use units::{Duration, Frequency, Rate};

use crate::block::DeviceNumber;
use crate::kernel::{Kernel, text};
use crate::limit::groups;
use crate::topology::Target;

/// One limit on one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Throttle {
    /// The device.
    pub device: DeviceNumber,
    /// What is limited, and to what.
    #[serde(flatten)]
    pub limit: Limit,
    /// The control group that sets it, below `/sys/fs/cgroup`.
    pub group: String,
}

/// `reads of 7:0 are limited to 2000 /s by control group blkio/bench`.
impl fmt::Display for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (what, to) = match self.limit {
            Limit::ReadRate(rate) => ("reads", rate.to_string()),
            Limit::ReadFrequency(frequency) => ("reads", frequency.to_string()),
            Limit::WriteRate(rate) => ("writes", rate.to_string()),
            Limit::WriteFrequency(frequency) => ("writes", frequency.to_string()),
        };
        write!(f, "{what} of {} are limited to {to} by control group {}", self.device, self.group)
    }
}

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Reading.
    ReadRate(Rate),
    /// Reading, in requests.
    ReadFrequency(Frequency),
    /// Writing.
    WriteRate(Rate),
    /// Writing, in requests.
    WriteFrequency(Frequency),
}

/// Makes a limit of a number of bytes or requests per second.
type Per = fn(f64) -> Limit;

/// The files of version 1 and the keys of version 2 that say the same.
const KINDS: [(&str, &str, Per); 4] = [
    ("blkio.throttle.read_bps_device", "rbps", |n| Limit::ReadRate(Rate::bytes_per_second(n))),
    ("blkio.throttle.read_iops_device", "riops", |n| Limit::ReadFrequency(Frequency::per_second(n))),
    ("blkio.throttle.write_bps_device", "wbps", |n| Limit::WriteRate(Rate::bytes_per_second(n))),
    ("blkio.throttle.write_iops_device", "wiops", |n| Limit::WriteFrequency(Frequency::per_second(n))),
];

/// All throttles that hold for this process.
pub fn throttles(kernel: &Kernel) -> Vec<Throttle> {
    let mut found = Vec::new();
    let mut note = |device: Option<DeviceNumber>, value: &str, limit: Per, group: &Path| {
        // "max" is no number, and no limit.
        if let (Some(device), Ok(value)) = (device, value.parse::<u64>()) {
            found.push(Throttle { device, limit: limit(value as f64), group: group.display().to_string() });
        }
    };
    for group in groups(kernel) {
        let directory = kernel.sys("fs/cgroup").join(&group);
        for (file, _, limit) in KINDS {
            for line in text(directory.join(file)).unwrap_or_default().lines() {
                if let Some((device, value)) = line.split_once(' ') {
                    note(device.parse().ok(), value, limit, &group);
                }
            }
        }
        for line in text(directory.join("io.max")).unwrap_or_default().lines() {
            let mut words = line.split(' ');
            let device = words.next().and_then(|device| device.parse().ok());
            for (key, value) in words.filter_map(|word| word.split_once('=')) {
                if let Some((_, _, limit)) = KINDS.iter().find(|(_, name, _)| *name == key) {
                    note(device, value, *limit, &group);
                }
            }
        }
    }
    found
}

/// For how long control groups have withheld processors from this process (`cpu.max`, `cpu.cfs_quota_us`), by the group
/// that did so most.
pub fn withheld(kernel: &Kernel) -> Duration {
    let of = |group: std::path::PathBuf| {
        let table = text(kernel.sys("fs/cgroup").join(group).join("cpu.stat"))?;
        let value = |key: &str| table.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok());
        // Version 2 counts microseconds, version 1 nanoseconds.
        value("throttled_usec ").map(Duration::micros).or(value("throttled_time ").map(Duration::nanos))
    };
    groups(kernel).into_iter().filter_map(of).max().unwrap_or(Duration::ZERO)
}

impl Throttle {
    /// True if it holds for what is read from or written to `target`: it is set on a device that the target stands on.
    pub fn holds_for(&self, target: &Target) -> bool {
        target.layers().iter().any(|layer| layer.block.as_ref().is_some_and(|block| block.number == self.device))
    }
}
