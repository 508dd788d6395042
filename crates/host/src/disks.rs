//! What block devices did between two moments: the counters of the block layer (`Documentation/admin-guide/iostats.rst`
//! of the kernel).
//!
//! They are of the whole machine: what others had the device do meanwhile is in them. Of a file the device below its
//! file system is meant, and of a partition its disk; of an array or a volume it and its members, as fio has them. A
//! file system that has no device (tmpfs, overlayfs, network) has no counters.

use std::collections::BTreeSet;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use units::{Bytes, Duration};

use crate::block::DeviceNumber;
use crate::kernel::{Kernel, names, text};

/// The counters of some devices at one moment.
#[derive(Debug, Clone)]
pub struct Disks {
    at: std::time::Instant,
    /// Directories in sysfs, and what `stat` says there.
    counters: Vec<(PathBuf, [u64; COUNTERS])>,
}

/// Kernels of before 4.18 have as many; those that were added later are of discards and flushes.
const COUNTERS: usize = 11;

/// What a device did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskUse {
    /// Its name in `/dev`.
    pub name: String,
    /// Reads and writes that were done.
    pub requests: [u64; 2],
    /// Reads and writes that were joined to a neighbour.
    pub merges: [u64; 2],
    /// What reads and writes moved.
    pub bytes: [Bytes; 2],
    /// Time that reads and writes took, all added up.
    pub times: [Duration; 2],
    /// Time, weighted by the requests under way.
    pub in_queue: Duration,
    /// Time with a request under way.
    pub busy: Duration,
    /// Between the two moments.
    pub elapsed: Duration,
}

impl Disks {
    /// The devices below files and block devices, each once. What cannot be looked at has none.
    pub fn below<'p>(kernel: &Kernel, paths: impl IntoIterator<Item = &'p Path>) -> Disks {
        let number = |path: &Path| {
            let metadata = std::fs::metadata(path).ok()?;
            let device = metadata.file_type().is_block_device();
            Some(DeviceNumber::from_raw(if device { metadata.rdev() } else { metadata.dev() }))
        };
        // Thousands of jobs may have files on one file system.
        let numbers: BTreeSet<DeviceNumber> = paths.into_iter().filter_map(number).collect();
        let mut directories: Vec<PathBuf> = Vec::new();
        for number in numbers {
            let Ok(device) = std::fs::canonicalize(kernel.sys(format!("dev/block/{number}"))) else { continue };
            let is_part = device.join("partition").exists();
            let mut found = vec![if is_part { device.parent().unwrap_or(&device).to_owned() } else { device }];
            while let Some(disk) = found.pop() {
                if directories.contains(&disk) {
                    continue;
                }
                let member = |name: String| {
                    let member = std::fs::canonicalize(disk.join("slaves").join(name)).ok()?;
                    let is_part = member.join("partition").exists();
                    Some(if is_part { member.parent()?.to_owned() } else { member })
                };
                found.extend(names(disk.join("slaves")).into_iter().filter_map(member));
                directories.push(disk);
            }
        }
        let counters = directories.into_iter().filter_map(|disk| Some((disk.clone(), read(&disk)?))).collect();
        Disks { at: std::time::Instant::now(), counters }
    }

    /// The counters of the same devices now. One that is gone is left out.
    pub fn again(&self) -> Disks {
        let counters = self.counters.iter().filter_map(|(disk, _)| Some((disk.clone(), read(disk)?))).collect();
        Disks { at: std::time::Instant::now(), counters }
    }

    /// What they did since then.
    pub fn since_then(&self) -> Vec<DiskUse> {
        self.until(&self.again())
    }

    /// What they did between this moment and a later one of the same devices.
    pub fn until(&self, later: &Disks) -> Vec<DiskUse> {
        let elapsed = Duration::nanos(later.at.duration_since(self.at).as_nanos() as u64);
        let done = |(disk, before): &(PathBuf, [u64; COUNTERS])| {
            let (_, now) = later.counters.iter().find(|(other, _)| other == disk)?;
            let count = |index: usize| now[index].saturating_sub(before[index]);
            let millis = |index: usize| Duration::millis(count(index));
            Some(DiskUse {
                name: disk.file_name()?.to_string_lossy().into_owned(),
                requests: [count(0), count(4)],
                merges: [count(1), count(5)],
                // Sectors of 512 bytes, whatever the device has.
                bytes: [count(2), count(6)].map(|sectors| Bytes::new(sectors.saturating_mul(512))),
                times: [millis(3), millis(7)],
                busy: millis(9),
                in_queue: millis(10),
                elapsed,
            })
        };
        self.counters.iter().filter_map(done).collect()
    }
}

/// Reads, merged, sectors, ms; the same of writes; under way; ms with any; ms times requests.
fn read(disk: &Path) -> Option<[u64; COUNTERS]> {
    let text = text(disk.join("stat"))?;
    let numbers: Vec<u64> = text.split_whitespace().map_while(|word| word.parse().ok()).collect();
    numbers.get(..COUNTERS)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_counts_as_its_disk_and_an_array_with_its_members() {
        let root = tempfile::tempdir().unwrap();
        let kernel = Kernel::recorded(root.path());
        let sys = |path: &str| root.path().join("sys").join(path);
        let put = |path: &str, text: &str| {
            std::fs::create_dir_all(sys(path).parent().unwrap()).unwrap();
            std::fs::write(sys(path), text).unwrap();
        };
        let stat = |reads: u64| format!("  {reads} 1 8 20 5 2 40 30 0 25 50 0 0 0 0\n");
        put("devices/sda/stat", &stat(100));
        put("devices/sda/sda1/partition", "1\n");
        put("devices/sda/sda1/stat", &stat(7));
        put("devices/md0/stat", &stat(10));
        std::fs::create_dir_all(sys("devices/md0/slaves")).unwrap();
        std::os::unix::fs::symlink(sys("devices/sda/sda1"), sys("devices/md0/slaves/sda1")).unwrap();
        let here = std::fs::metadata(root.path()).unwrap().dev();
        std::fs::create_dir_all(sys("dev/block")).unwrap();
        let link = sys(&format!("dev/block/{}", DeviceNumber::from_raw(here)));
        std::os::unix::fs::symlink(sys("devices/md0"), link).unwrap();
        let disks = Disks::below(&kernel, [root.path(), root.path(), Path::new("/not/there")]);
        put("devices/sda/stat", &stat(103));
        put("devices/md0/stat", &stat(11));
        let done = disks.since_then();
        let seen: Vec<_> = done.iter().map(|disk| (disk.name.as_str(), disk.requests)).collect();
        assert_eq!(seen, [("md0", [1, 0]), ("sda", [3, 0])]);
    }
}
