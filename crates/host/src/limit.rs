//! The limits that a process runs under: control groups of both versions, and its own.
//!
//! A container with `cpu.max` or a throttled device measures the throttle and not the disk. A limit holds for all groups below
//! it, so those from the process's own group up to the root are looked at, as far as they can be seen from here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};
use units::Bytes;

use crate::kernel::{Kernel, text};

/// Files of version 2, and what they hold when they limit nothing.
const VERSION_2: [(&str, &str); 7] = [
    ("cpu.max", "max 100000"),
    ("cpu.weight", "100"),
    ("cpuset.cpus", ""),
    ("io.max", ""),
    ("io.latency", ""),
    ("memory.high", "max"),
    ("memory.max", "max"),
];

/// Files of version 1 by controller, and what they hold when they limit nothing.
const VERSION_1: [(&str, &str, &str); 9] = [
    ("blkio", "blkio.throttle.read_bps_device", ""),
    ("blkio", "blkio.throttle.read_iops_device", ""),
    ("blkio", "blkio.throttle.write_bps_device", ""),
    ("blkio", "blkio.throttle.write_iops_device", ""),
    ("blkio", "blkio.bfq.weight", "100"),
    ("cpu", "cpu.cfs_quota_us", "-1"),
    ("cpu", "cpu.shares", "1024"),
    // What "no limit" looks like for pages of 4 KiB: the largest multiple of a page.
    ("memory", "memory.limit_in_bytes", "9223372036854771712"),
    ("memory", "memory.soft_limit_in_bytes", "9223372036854771712"),
];

/// All limits that are in force, by the path of the file below `/sys/fs/cgroup` or the name of the limit.
pub(crate) fn limits(kernel: &Kernel) -> BTreeMap<String, String> {
    let mut limits = BTreeMap::new();
    let groups = text(kernel.proc("self/cgroup")).unwrap_or_default();
    // hierarchy:controllers:path
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(hierarchy), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        if hierarchy == "0" && controllers.is_empty() {
            // Beside version 1, version 2 is mounted one level lower.
            let beside = kernel.sys("fs/cgroup/unified").is_dir();
            let root = if beside { PathBuf::from("unified") } else { PathBuf::new() };
            for (file, unlimited) in VERSION_2 {
                collect(kernel, &root, path, file, unlimited, &mut limits);
            }
        } else {
            for (controller, file, unlimited) in VERSION_1 {
                if controllers.split(',').any(|name| name == controller) {
                    collect(kernel, Path::new(controllers), path, file, unlimited, &mut limits);
                }
            }
        }
    }
    let own = |resource, shown: fn(u64) -> String| getrlimit(resource).current.map_or("unlimited".to_owned(), shown);
    limits.insert("RLIMIT_MEMLOCK".into(), own(Resource::Memlock, |bytes| Bytes::new(bytes).to_string()));
    limits.insert("RLIMIT_NOFILE".into(), own(Resource::Nofile, |files| format!("{files} files")));
    limits.insert("RLIMIT_RTPRIO".into(), own(Resource::Rtprio, |priority| format!("priority {priority}")));
    limits
}

/// Reads `file` in the group `path` and in all above it.
fn collect(
    kernel: &Kernel,
    root: &Path,
    path: &str,
    file: &str,
    unlimited: &str,
    limits: &mut BTreeMap<String, String>,
) {
    let group = Path::new(path.trim_start_matches('/'));
    for group in group.ancestors() {
        let place = root.join(group).join(file);
        if let Some(value) = text(kernel.sys("fs/cgroup").join(&place)).filter(|value| value != unlimited) {
            limits.insert(place.display().to_string(), value.lines().collect::<Vec<_>>().join("; "));
        }
    }
}
