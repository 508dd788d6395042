//! Where the bytes of a path lie, so that two paths to the same bytes are found before anything is written.
//!
//! Two members of an array on one store are one member: the superblock of the second overwrites that of the first, and
//! the redundancy protects from nothing. A path is followed down to ranges of stores, each by an identity that does not
//! depend on its name:
//!
//! | the path is | its bytes lie on |
//! |---|---|
//! | a file, by whatever link or bind mount | the file: number of its file system, number of its inode |
//! | a loop device | itself, and the range of its backing file |
//! | a partition | itself, and the range of its disk |
//! | a path of a multipath device, and the device itself | itself, and the world-wide name of the unit |
//! | any other device | itself, by its number |
//!
//! Two paths share a store if two of their ranges overlap. Two partitions of one disk do not, nor do two loop devices
//! over different parts of a file.
//!
//! Limits: which part of a disk another device-mapper volume maps, sysfs does not say (the kernel holds those disks
//! exclusively, so they are refused as in use). A file that is mounted twice by a network file system has two numbers.
//! Both are left to whoever compares the bytes.

use std::fmt;
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use units::Bytes;

use crate::block::{DeviceNumber, directory, serial};
use crate::kernel::{Kernel, link_name, names, number, text};
use crate::topology::backing_file;

/// Something that stores bytes, by an identity that does not depend on its name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Store {
    /// A file: its file system and inode.
    File(u64, u64),
    /// A file whose name leads nowhere any more: the backing file of a loop device that was removed, or is in another
    /// mount namespace.
    Gone(PathBuf),
    /// A block device.
    Device(DeviceNumber),
    /// A unit that several devices lead to, by its world-wide name and serial number.
    Unit(String, Option<String>),
}

/// A range of a store on which bytes of a path lie.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Extent {
    store: Store,
    range: Range<u64>,
    /// What people call the store.
    name: String,
}

/// Where the bytes of a path lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extents(Vec<Extent>);

/// A store on which bytes of two paths lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    name: String,
    from: Bytes,
    to: Bytes,
}

/// `bytes 0 B to 1 MiB of /srv/disk`.
impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "bytes {} to {} of {}", self.from.get(), self.to.get(), self.name)
    }
}

/// Stacks this deep are taken for a loop device that lies, in the end, on itself.
const DEEPEST: usize = 16;

impl Extents {
    /// Where the bytes of what is at `path` lie; nowhere, if there is neither a file nor a block device.
    pub fn of(kernel: &Kernel, path: &Path) -> Extents {
        let mut found = Vec::new();
        if let Ok(about) = std::fs::metadata(path) {
            if about.file_type().is_block_device() {
                let number = DeviceNumber::from_raw(about.rdev());
                match link_name(kernel.sys(format!("dev/block/{number}"))) {
                    Some(name) => device(kernel, &name, None, 0, &mut found),
                    // Without sysfs it is still told from others by its number.
                    None => found.push(Extent { store: Store::Device(number), range: 0..u64::MAX, name: shown(path) }),
                }
            } else if about.is_file() {
                found.push(file(path, 0..u64::MAX));
            }
        }
        Extents(found)
    }

    /// The same of a block device by its name, such as `sda1`.
    pub fn of_device(kernel: &Kernel, name: &str) -> Extents {
        let mut found = Vec::new();
        device(kernel, name, None, 0, &mut found);
        Extents(found)
    }

    /// A store on which bytes of both lie, the lowest that is known.
    pub fn shared_with(&self, other: &Extents) -> Option<Shared> {
        let pairs = self.0.iter().rev().flat_map(|one| other.0.iter().rev().map(move |two| (one, two)));
        pairs.into_iter().find_map(|(one, two)| {
            let (from, to) = (one.range.start.max(two.range.start), one.range.end.min(two.range.end));
            let (from, to) = (from < to && one.store == two.store).then_some((from, to))?;
            Some(Shared { name: one.name.clone(), from: Bytes::new(from), to: Bytes::new(to) })
        })
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// A range of the file at a path.
fn file(path: &Path, range: Range<u64>) -> Extent {
    let about = std::fs::metadata(path);
    let (store, end) = match &about {
        Ok(about) => (Store::File(about.dev(), about.ino()), range.end.min(about.len().max(1))),
        Err(_) => (Store::Gone(path.to_owned()), range.end),
    };
    Extent { store, range: range.start..end, name: shown(path) }
}

/// Where a block device lies, or a `part` of it.
fn device(kernel: &Kernel, name: &str, part: Option<Range<u64>>, depth: usize, found: &mut Vec<Extent>) {
    let Some(place) = directory(kernel, name).filter(|_| depth < DEEPEST) else { return };
    let Some(own) = text(place.join("dev")).and_then(|text| text.parse::<DeviceNumber>().ok()) else { return };
    let sectors = number::<u64>(place.join("size")).unwrap_or(u64::MAX / 512);
    let range = part.unwrap_or(0..sectors.saturating_mul(512));
    found.push(Extent { store: Store::Device(own), range: range.clone(), name: format!("/dev/{name}") });
    let within = |start: u64| start.saturating_add(range.start)..start.saturating_add(range.end);
    if number::<u32>(place.join("partition")).is_some() {
        let start = number::<u64>(place.join("start")).unwrap_or(0).saturating_mul(512);
        let disk = place.parent().and_then(Path::file_name);
        if let Some(disk) = disk {
            device(kernel, &disk.to_string_lossy(), Some(within(start)), depth + 1, found);
        }
    } else if place.join("loop").is_dir() {
        let start = number::<u64>(place.join("loop/offset")).unwrap_or(0);
        if let Some(backing) = backing_file(&place) {
            // A loop device may lie on another device, too.
            let behind = link_name_of(kernel, &backing);
            match behind {
                Some(name) => device(kernel, &name, Some(within(start)), depth + 1, found),
                None => found.push(file(&backing, within(start))),
            }
        }
    } else if text(place.join("dm/uuid")).is_some_and(|uuid| uuid.starts_with("mpath-")) {
        // All paths lead to one unit, at the same addresses.
        for path in names(place.join("slaves")) {
            device(kernel, &path, Some(range.clone()), depth + 1, found);
        }
    } else if let Some(unit) = unit(&place, name, range) {
        found.push(unit);
    }
}

/// The name in sysfs of the block device at a path, if it is one.
fn link_name_of(kernel: &Kernel, path: &Path) -> Option<String> {
    let about = std::fs::metadata(path).ok().filter(|about| about.file_type().is_block_device())?;
    link_name(kernel.sys(format!("dev/block/{}", DeviceNumber::from_raw(about.rdev()))))
}

/// The unit that a disk is a path to, by the name that no other has. Names that begin otherwise are made of models and
/// serial numbers, and not of one unit alone. Drives that were sold with one name for all (the kernel knows some as
/// `NVME_QUIRK_BOGUS_NID`) differ in their serial numbers.
fn unit(place: &Path, name: &str, range: Range<u64>) -> Option<Extent> {
    let wide = text(place.join("wwid")).or_else(|| text(place.join("device/wwid")))?;
    let unique = ["naa.", "eui.", "uuid.", "nvme."].iter().any(|start| wide.starts_with(start));
    let serial = serial(place);
    unique.then(|| Extent { name: format!("{wide} (/dev/{name})"), store: Store::Unit(wide, serial), range })
}
