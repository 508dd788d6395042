//! Memory as the page cache finds it: how much of it the machine has, how much a control group leaves to this program,
//! and how much of the cache had to give way.
//!
//! A file that fits into memory is read from its device once. Where others hold the memory, or a control group allows
//! less, pages are dropped that are wanted again, and each read of one is a read of the device. The kernel counts the
//! file pages that it took back (`pgsteal_file` of `/proc/vmstat`), for whichever reason and group; and a group counts
//! how often it reached its limit (`memory.failcnt` of version 1, `max` and `high` of `memory.events` of version 2).
//! Refaults (`workingset_refault_file`) were rejected: Linux 6.18 counted 275 where 65,000 pages were read anew.

use std::path::{Path, PathBuf};

use units::Bytes;

use crate::kernel::{Kernel, text};
use crate::limit::groups;

/// The size of a page, which the kernel's counters are in.
fn page() -> u64 {
    rustix::param::page_size() as u64
}

/// The kernel's counts since the machine started; those of a control group since the group was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    /// Pages of files that were taken back, whosever they were.
    pub reclaimed: Bytes,
    /// How often the control groups of this process reached their limits of memory.
    pub reached: u64,
}

/// The least that the control groups of this process allow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowance {
    /// So much.
    pub most: Bytes,
    /// The group that says so, below `/sys/fs/cgroup`.
    pub group: PathBuf,
}

impl Counted {
    /// Reads it; `None` where the kernel does not tell.
    pub fn read(kernel: &Kernel) -> Option<Counted> {
        let reclaimed = value(&text(kernel.proc("vmstat"))?, "pgsteal_file")?;
        let reached = groups(kernel).iter().map(|group| reached(kernel, group)).max().unwrap_or(0);
        Some(Counted { reclaimed: Bytes::new(reclaimed.saturating_mul(page())), reached })
    }

    /// What was added since an earlier moment.
    pub fn since(&self, earlier: &Counted) -> Counted {
        Counted {
            reclaimed: self.reclaimed.saturating_sub(earlier.reclaimed),
            reached: self.reached.saturating_sub(earlier.reached),
        }
    }
}

/// The memory of the machine; `None` where the kernel does not tell.
pub fn installed(kernel: &Kernel) -> Option<Bytes> {
    let table = text(kernel.proc("meminfo"))?;
    let line = table.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(Bytes::kib(line.trim().strip_suffix("kB")?.trim().parse().ok()?))
}

/// The least limit of memory of this process's control groups; `None` if none of them has one.
pub fn allowance(kernel: &Kernel) -> Option<Allowance> {
    let of = |group: &PathBuf| {
        let limits = ["memory.limit_in_bytes", "memory.high", "memory.max"].into_iter();
        let limits = limits.filter_map(|file| text(place(kernel, group).join(file))?.parse::<u64>().ok());
        // Version 1 says "no limit" with the largest multiple of a page.
        let most = limits.min().filter(|most| *most < i64::MAX as u64 - page())?;
        Some(Allowance { most: Bytes::new(most), group: group.clone() })
    };
    groups(kernel).iter().filter_map(of).min_by_key(|allowance| allowance.most)
}

fn reached(kernel: &Kernel, group: &Path) -> u64 {
    let place = place(kernel, group);
    if let Some(count) = text(place.join("memory.failcnt")).and_then(|count| count.parse().ok()) {
        return count;
    }
    let events = text(place.join("memory.events")).unwrap_or_default();
    ["high", "max"].iter().filter_map(|key| value(&events, key)).sum()
}

fn place(kernel: &Kernel, group: &Path) -> PathBuf {
    kernel.sys("fs/cgroup").join(group)
}

/// The value of the line `key value`.
fn value(table: &str, key: &str) -> Option<u64> {
    table.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(files: &[(&str, &str)]) -> (tempfile::TempDir, Kernel) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let kernel = Kernel::recorded(root.path());
        (root, kernel)
    }

    #[test]
    fn the_least_limit_of_version_1_holds_and_none_is_none() {
        let unlimited = "9223372036854771712\n";
        let (_root, kernel) = recorded(&[
            ("proc/self/cgroup", "4:memory:/a/b\n2:cpu:/\n"),
            ("proc/vmstat", "pgsteal_files 9\npgsteal_file 3\n"),
            ("proc/meminfo", "MemTotal:       2048 kB\nMemFree: 1 kB\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", unlimited),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1048576\n"),
            ("sys/fs/cgroup/memory/a/memory.failcnt", "7\n"),
            ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", unlimited),
            ("sys/fs/cgroup/memory/a/b/memory.failcnt", "2\n"),
        ]);
        let allowed = allowance(&kernel).unwrap();
        assert_eq!((allowed.most, allowed.group.as_path()), (Bytes::mib(1), Path::new("memory/a")));
        let counted = Counted::read(&kernel).unwrap();
        assert_eq!(counted, Counted { reclaimed: Bytes::new(3 * page()), reached: 7 });
        assert_eq!(counted.since(&Counted { reclaimed: Bytes::ZERO, reached: 5 }).reached, 2);
        assert_eq!(installed(&kernel), Some(Bytes::mib(2)));
    }

    #[test]
    fn version_2_says_max_and_counts_events() {
        let (_root, kernel) = recorded(&[
            ("proc/self/cgroup", "0::/user/run\n"),
            ("proc/vmstat", "pgsteal_file 0\n"),
            ("sys/fs/cgroup/user/run/memory.max", "max\n"),
            ("sys/fs/cgroup/user/run/memory.high", "4096\n"),
            ("sys/fs/cgroup/user/run/memory.events", "low 0\nhigh 5\nmax 1\noom 0\n"),
        ]);
        assert_eq!(allowance(&kernel).unwrap().most, Bytes::new(4096));
        assert_eq!(Counted::read(&kernel).unwrap().reached, 6);
    }

    #[test]
    fn what_the_kernel_does_not_tell_is_none() {
        let (_root, kernel) = recorded(&[]);
        assert_eq!((Counted::read(&kernel), installed(&kernel), allowance(&kernel)), (None, None, None));
    }
}
