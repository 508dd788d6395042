//! A block device as the trace points name it.
//!
//! A request to a partition is queued under the partition's number and issued under the disk's; its sectors count from
//! the beginning of the disk both times (`submit_bio_noacct`, `blk_partition_remap` in `block/blk-core.c`).

use std::path::{Path, PathBuf};

use units::Bytes;

use super::event::DeviceCode;
use crate::block::DeviceNumber;
use crate::kernel::{Kernel, names, number, text};
use crate::topology::backing_file;

/// Which numbers and which sectors the requests to a block device have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracedDisk {
    /// The device itself.
    pub device: DeviceNumber,
    /// The disk that it is on; the device itself if it is no partition.
    pub disk: DeviceNumber,
    /// The sector of the disk at which it begins.
    pub first: u64,
}

impl TracedDisk {
    /// The block device at a path, or the one on which the file there lies; `None` if the kernel names none, as it does
    /// for file systems that are on no disk or on several.
    pub fn find(kernel: &Kernel, path: &Path) -> Option<TracedDisk> {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};
        let metadata = std::fs::metadata(path).ok()?;
        let kind = metadata.file_type();
        let number = match (kind.is_block_device(), kind.is_file()) {
            (true, _) => metadata.rdev(),
            (_, true) => metadata.dev(),
            _ => return None,
        };
        let number = DeviceNumber::from_raw(number);
        kernel.sys(format!("dev/block/{number}")).exists().then(|| TracedDisk::of(kernel, number))
    }

    /// The block device of a number.
    pub fn of(kernel: &Kernel, device: DeviceNumber) -> TracedDisk {
        let directory = kernel.sys(format!("dev/block/{device}"));
        let is_partition = text(directory.join("partition")).is_some();
        let disk = is_partition.then(|| text(directory.join("../dev"))?.parse().ok()).flatten();
        let first = if is_partition { number(directory.join("start")).unwrap_or(0) } else { 0 };
        TracedDisk { device, disk: disk.unwrap_or(device), first }
    }

    /// The file or block device to which a loop device passes its requests on, and the byte there at which it begins.
    pub fn backing(&self, kernel: &Kernel) -> Option<(PathBuf, Bytes)> {
        let directory = kernel.sys(format!("dev/block/{}", self.disk));
        let offset = number(directory.join("loop/offset")).map_or(Bytes::ZERO, Bytes::new);
        Some((backing_file(&directory)?, offset))
    }

    /// The disks and partitions to which its disk passes requests on, and those to which these do: the members of an
    /// array, what a volume of device mapper lies on. Each once.
    pub fn members(&self, kernel: &Kernel) -> Vec<TracedDisk> {
        let mut found: Vec<TracedDisk> = Vec::new();
        let mut above = vec![self.disk];
        while let Some(disk) = above.pop() {
            let slaves = kernel.sys(format!("dev/block/{disk}/slaves"));
            let number = |name: String| text(slaves.join(name).join("dev"))?.parse().ok();
            for device in names(&slaves).into_iter().filter_map(number) {
                if found.iter().all(|known| known.device != device) {
                    let one = TracedDisk::of(kernel, device);
                    found.push(one);
                    above.push(one.disk);
                }
            }
        }
        found
    }

    /// Its name in `/dev`.
    pub fn name(&self, kernel: &Kernel) -> String {
        let directory = std::fs::canonicalize(kernel.sys(format!("dev/block/{}", self.device)));
        let name = directory.ok().and_then(|directory| Some(directory.file_name()?.to_string_lossy().into_owned()));
        name.unwrap_or_else(|| self.device.to_string())
    }

    /// The numbers under which its requests are recorded.
    pub fn codes(&self) -> impl Iterator<Item = DeviceCode> {
        let disk = (self.disk != self.device).then_some(self.disk);
        [Some(self.device), disk].into_iter().flatten().map(DeviceCode::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_has_two_numbers_and_begins_behind_others() {
        let root = tempfile::tempdir().unwrap();
        let disk = root.path().join("sys/devices/sda");
        std::fs::create_dir_all(disk.join("sda2")).unwrap();
        std::fs::create_dir_all(root.path().join("sys/dev/block")).unwrap();
        for (file, text) in [("dev", "8:0"), ("sda2/dev", "8:2"), ("sda2/partition", "2"), ("sda2/start", "4096")] {
            std::fs::write(disk.join(file), text).unwrap();
        }
        for (number, to) in [("8:0", "sda"), ("8:2", "sda/sda2")] {
            let link = root.path().join("sys/dev/block").join(number);
            std::os::unix::fs::symlink(format!("../../devices/{to}"), link).unwrap();
        }
        let kernel = Kernel::recorded(root.path());
        let [whole, part] = [0, 2].map(|minor| DeviceNumber { major: 8, minor });
        let found = TracedDisk::of(&kernel, part);
        assert_eq!(found, TracedDisk { device: part, disk: whole, first: 4096 });
        assert_eq!(found.codes().map(|code| code.0).collect::<Vec<_>>(), [8 << 20 | 2, 8 << 20]);
        assert_eq!(TracedDisk::of(&kernel, whole), TracedDisk { device: whole, disk: whole, first: 0 });
        assert_eq!((found.name(&kernel), found.backing(&kernel)), ("sda2".to_owned(), None));
        std::fs::create_dir_all(disk.join("loop")).unwrap();
        std::fs::write(disk.join("loop/backing_file"), "/images/a\n").unwrap();
        std::fs::write(disk.join("loop/offset"), "1048576\n").unwrap();
        assert_eq!(found.backing(&kernel), Some(("/images/a".into(), Bytes::mib(1))), "of a partition, its disk's");
        // An array of the disk's partition and of another array of the same.
        for (name, number) in [("md0", "9:0"), ("md1", "9:1")] {
            let array = root.path().join("sys/devices").join(name);
            std::fs::create_dir_all(array.join("slaves")).unwrap();
            std::fs::write(array.join("dev"), number).unwrap();
            std::os::unix::fs::symlink("../../sda/sda2", array.join("slaves/sda2")).unwrap();
            let link = root.path().join("sys/dev/block").join(number);
            std::os::unix::fs::symlink(format!("../../devices/{name}"), link).unwrap();
        }
        std::os::unix::fs::symlink("../../md1", root.path().join("sys/devices/md0/slaves/md1")).unwrap();
        let [array, lower] = [0, 1].map(|minor| TracedDisk::of(&kernel, DeviceNumber { major: 9, minor }));
        assert_eq!(array.members(&kernel), [lower, found]);
        assert_eq!(found.members(&kernel), []);
        assert_eq!(TracedDisk::find(&kernel, root.path()), None, "a directory");
        let file = disk.join("dev");
        assert_eq!(TracedDisk::find(&kernel, &file), None, "a file on what this kernel calls no disk");
    }
}
