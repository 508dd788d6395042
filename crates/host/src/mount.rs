//! What is mounted where, from `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
//!
//! The file system that holds a path is found as the kernel's path walk finds it: from the root mount, at each step
//! into the mount that covers the next part of the path. The longest matching mount point is not always the answer, as
//! a mount on a directory hides the mounts that were below it before. The device number of `stat` is not the answer
//! either: btrfs and overlayfs invent theirs.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use units::Bytes;

use crate::block::{DeviceNumber, directory};
use crate::kernel::{Kernel, link_name, names, text, unescape};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mount {
    #[serde(skip)]
    id: u64,
    #[serde(skip)]
    parent: u64,
    /// The type of the file system, such as `ext4`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The mount point.
    pub at: PathBuf,
    /// What was mounted, as the kernel names it: usually a device node.
    pub source: String,
    /// The options of the mount and of the file system.
    pub options: String,
    /// The device it lies on, or an invented number (major 0) where it lies on none or on several.
    pub device: DeviceNumber,
}

/// All mounts that this process sees.
#[derive(Debug, Clone, Default)]
pub struct Mounts(Vec<Mount>);

impl Mounts {
    /// Reads the mounts of this process.
    pub fn read(kernel: &Kernel) -> io::Result<Mounts> {
        // Mount points are bytes, and one that is not UTF-8 must not hide all the others.
        let bytes = std::fs::read(kernel.proc("self/mountinfo"))?;
        Ok(Mounts::parse(&String::from_utf8_lossy(&bytes)))
    }

    fn parse(mountinfo: &str) -> Mounts {
        Mounts(mountinfo.lines().filter_map(Mount::parse).collect())
    }

    /// All of them, in the order in which the kernel lists them.
    pub fn iter(&self) -> impl Iterator<Item = &Mount> {
        self.0.iter()
    }

    /// The mount that holds `path`, which must be absolute and free of symbolic links.
    pub fn holding(&self, path: &Path) -> Option<&Mount> {
        let is_root = |mount: &&Mount| !self.0.iter().any(|other| other.id == mount.parent && other.id != mount.id);
        let mut here = self.0.iter().filter(is_root).find(|mount| mount.at == Path::new("/"))?;
        let mut steps = 0;
        loop {
            let covers = |mount: &&Mount| mount.parent == here.id && mount.id != here.id && path.starts_with(&mount.at);
            // Of the mounts below this one, the walk meets the one nearest to the root first.
            let next = self.0.iter().filter(covers).min_by_key(|mount| mount.at.components().count());
            let Some(next) = next else { return Some(here) };
            here = next;
            steps += 1;
            assert!(steps <= self.0.len(), "mounts form a tree, so a walk passes each of them once");
        }
    }
}

impl Mount {
    /// One line: id, parent, device, root, mount point, options, optional fields, `-`, type, source, options of the
    /// file system.
    fn parse(line: &str) -> Option<Mount> {
        let mut fields = line.split(' ');
        let id = fields.next()?.parse().ok()?;
        let parent = fields.next()?.parse().ok()?;
        let device = fields.next()?.parse().ok()?;
        let _root = fields.next()?;
        let at = PathBuf::from(unescape(fields.next()?));
        let of_mount = fields.next()?;
        fields.by_ref().find(|field| *field == "-")?;
        let kind = fields.next()?.to_owned();
        let source = unescape(fields.next()?);
        let of_file_system = unescape(fields.next().unwrap_or(""));
        // Most options of the file system are there twice ("rw"); what it adds stands after those of the mount.
        let added = of_file_system.split(',').filter(|o| !o.is_empty() && !of_mount.split(',').any(|m| m == *o));
        let options = of_mount.split(',').chain(added).collect::<Vec<_>>().join(",");
        Some(Mount { id, parent, kind, at, source, options, device })
    }

    /// The value of an option such as `upperdir`.
    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        self.options.split(',').find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }
}

/// The names of the block devices that a file system lies on; none for memory, networks, and where the kernel does not
/// tell (zfs).
pub(crate) fn devices_of(kernel: &Kernel, mount: &Mount) -> Vec<String> {
    if mount.device.major != 0 {
        let link = kernel.sys(format!("dev/block/{}", mount.device));
        return link_name(link).into_iter().collect();
    }
    let Some(source) = device_named(kernel, &mount.source) else { return Vec::new() };
    // btrfs invents a device number and names one of its devices; all of them are listed by file system.
    for file_system in names(kernel.sys("fs/btrfs")) {
        let devices = names(kernel.sys("fs/btrfs").join(file_system).join("devices"));
        if devices.contains(&source) {
            return devices;
        }
    }
    vec![source]
}

/// The kernel's name of the device that a mount or a swap area calls `source`, such as `/dev/sda1` or
/// `/dev/mapper/vg-home`.
pub(crate) fn device_named(kernel: &Kernel, source: &str) -> Option<String> {
    let name = source.strip_prefix("/dev/")?;
    if let Some(mapped) = name.strip_prefix("mapper/") {
        let is_it =
            |device: &String| text(kernel.sys("class/block").join(device).join("dm/name")).as_deref() == Some(mapped);
        return names(kernel.sys("class/block")).into_iter().find(is_it);
    }
    // sysfs writes the slash in a name such as cciss/c0d0 as an exclamation mark.
    let name = name.replace('/', "!");
    directory(kernel, &name).is_some().then_some(name)
}

/// How much a user without privileges may still write to the file system that holds `path`.
pub fn free_space(path: &Path) -> io::Result<Bytes> {
    let system = rustix::fs::statvfs(path)?;
    Ok(Bytes::new(system.f_bavail.saturating_mul(system.f_frsize)))
}

/// How much the file system that holds `path` has room for in all.
pub fn whole_space(path: &Path) -> io::Result<Bytes> {
    let system = rustix::fs::statvfs(path)?;
    Ok(Bytes::new(system.f_blocks.saturating_mul(system.f_frsize)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard,resuid=65534
30 27 8:1 / /data rw shared:1 - xfs /dev/sda1 rw,noquota
31 30 8:17 / /data/deep rw shared:2 - xfs /dev/sdb1 rw
32 30 0:50 / /data rw - tmpfs tmpfs rw,size=1k
33 27 8:33 /sub /mnt/a\\040disk rw - ext4 /dev/sdc1 rw
";

    fn holder(path: &str) -> String {
        Mounts::parse(MOUNTS).holding(Path::new(path)).map(|mount| mount.source.clone()).unwrap_or_default()
    }

    #[test]
    fn a_path_is_held_by_the_mount_that_the_kernel_walks_into() {
        assert_eq!(holder("/etc/passwd"), "/dev/vda");
        assert_eq!(holder("/database"), "/dev/vda", "/data is no prefix of /database");
        assert_eq!(holder("/mnt/a disk/file"), "/dev/sdc1");
        assert_eq!(holder("/proc/self"), "proc");
    }

    #[test]
    fn a_mount_on_a_directory_hides_what_was_mounted_below_it() {
        // /data/deep is the longest match, but the tmpfs on top of /data covers it.
        assert_eq!(holder("/data/deep/file"), "tmpfs");
    }

    #[test]
    fn options_of_mount_and_file_system_stand_once() {
        let mounts = Mounts::parse(MOUNTS);
        let root = mounts.holding(Path::new("/")).expect("a root mount");
        assert_eq!(root.options, "rw,relatime,discard,resuid=65534");
        assert_eq!(root.option("resuid"), Some("65534"));
        assert_eq!(root.option("discard"), None);
    }

    #[test]
    fn no_mounts_hold_no_path() {
        assert_eq!(Mounts::default().holding(Path::new("/x")), None);
        assert_eq!(Mounts::parse("a line that is none\n").iter().count(), 0);
    }
}
