//! The limits that a process runs under: control groups of both versions, and its own.
//!
//! A container with `cpu.max` or a throttled device measures the throttle and not the disk. A limit holds for all
//! groups below it, so those from the process's own group up to the root are looked at, as far as they can be seen from
//! here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};
use units::Bytes;

use crate::kernel::{Kernel, text};

/// The files that set limits, and what they hold when they set none.
const FILES: [(&str, &str); 16] = [
    ("cpu.max", "max 100000"),
    ("cpu.weight", "100"),
    ("cpuset.cpus", ""),
    ("io.max", ""),
    ("io.latency", ""),
    ("memory.high", "max"),
    ("memory.max", "max"),
    // Version 1.
    ("blkio.throttle.read_bps_device", ""),
    ("blkio.throttle.read_iops_device", ""),
    ("blkio.throttle.write_bps_device", ""),
    ("blkio.throttle.write_iops_device", ""),
    ("blkio.bfq.weight", "100"),
    ("cpu.cfs_quota_us", "-1"),
    ("cpu.shares", "1024"),
    // What "no limit" looks like for pages of 4 KiB: the largest multiple of a page.
    ("memory.limit_in_bytes", "9223372036854771712"),
    ("memory.soft_limit_in_bytes", "9223372036854771712"),
];

/// The control groups of this process, each before those above it, as paths below `/sys/fs/cgroup`.
pub(crate) fn groups(kernel: &Kernel) -> Vec<PathBuf> {
    let mut groups = Vec::new();
    for line in text(kernel.proc("self/cgroup")).unwrap_or_default().lines() {
        // hierarchy:controllers:path
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let hierarchy = match controllers {
            // Version 2, which is mounted one level lower where version 1 is in use.
            "" if kernel.sys("fs/cgroup/unified").is_dir() => Path::new("unified"),
            // The controllers of version 1 name their directory; "name=systemd" has none and limits nothing.
            controllers => Path::new(controllers),
        };
        groups.extend(Path::new(path.trim_start_matches('/')).ancestors().map(|group| hierarchy.join(group)));
    }
    groups
}

/// All limits that are in force, by the path of the file below `/sys/fs/cgroup` or the name of the limit.
pub(crate) fn limits(kernel: &Kernel) -> BTreeMap<String, String> {
    let mut limits = BTreeMap::new();
    for group in groups(kernel) {
        for (file, unlimited) in FILES {
            let place = group.join(file);
            if let Some(value) = text(kernel.sys("fs/cgroup").join(&place)).filter(|value| value != unlimited) {
                limits.insert(place.display().to_string(), value.lines().collect::<Vec<_>>().join("; "));
            }
        }
    }
    let own = |resource, shown: fn(u64) -> String| getrlimit(resource).current.map_or("unlimited".to_owned(), shown);
    limits.insert("RLIMIT_MEMLOCK".into(), own(Resource::Memlock, |bytes| Bytes::new(bytes).to_string()));
    limits.insert("RLIMIT_NOFILE".into(), own(Resource::Nofile, |files| format!("{files} files")));
    limits.insert("RLIMIT_RTPRIO".into(), own(Resource::Rtprio, |priority| format!("priority {priority}")));
    limits
}
