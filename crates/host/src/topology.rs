//! What a path stands on.
//!
//! A benchmark of "a file" is a benchmark of everything below it: the file system, the volume, the array, the disks,
//! the adapter. A [`Target`] is that stack, from the path down to the disks, each disk with its way to the host. A
//! stack is mostly a chain; it branches where a layer lies on several devices (md, dm, btrfs).
//!
//! Everything comes from sysfs and `/proc/self/mountinfo`, nothing from running `lsblk` or `mdadm`: no program that may
//! be missing, no output format that may change, and no need for root.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::Serialize;
use units::Bytes;

use crate::block::{Block, DeviceNumber, directory};
use crate::hardware::{Hop, chain};
use crate::kernel::{Kernel, flag, names, number, text};
use crate::mount::{Mount, Mounts, devices_of};

/// A path, and the stack below it.
#[derive(Debug, Clone, Serialize)]
pub struct Target {
    /// The path as it was given.
    #[serde(serialize_with = "displayed")]
    pub path: PathBuf,
    /// What it names, on top of what that stands on.
    pub top: Layer,
}

/// A path as it is shown: names that are not UTF-8 are no JSON.
fn displayed<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// One storey of a stack.
#[derive(Debug, Clone, Serialize)]
pub struct Layer {
    /// A short name: of a device, a path, or the type and place of a file system.
    pub name: String,
    /// What it is.
    #[serde(flatten)]
    pub what: What,
    /// Its attributes, if it is a block device.
    pub block: Option<Block>,
    /// What it stands on; nothing below a disk, and nothing that is known below memory and networks.
    pub below: Vec<Layer>,
}

/// What a layer is.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum What {
    /// A regular file.
    File {
        /// Its path, without symbolic links.
        #[serde(serialize_with = "displayed")]
        path: PathBuf,
        /// Its size; not known for the backing file of a loop device.
        size: Option<Bytes>,
    },
    /// A directory, for files that do not exist yet.
    Directory {
        /// Its path, without symbolic links.
        #[serde(serialize_with = "displayed")]
        path: PathBuf,
    },
    /// A mounted file system.
    FileSystem(Mount),
    /// A partition of the disk below.
    Partition {
        /// Its number in the partition table.
        number: u32,
        /// Where it begins on the disk.
        start: Bytes,
    },
    /// A file, or a part of it, as a device.
    Loop {
        /// Where it begins in the file.
        offset: Bytes,
        /// It reads and writes around the page cache of the file.
        direct: bool,
    },
    /// A Linux md array.
    Raid {
        /// Such as `raid5`.
        level: String,
        /// How many devices it is made for.
        devices: u32,
        /// How much goes to one device before the next; none for a mirror.
        chunk: Option<Bytes>,
        /// How many of the devices are missing.
        missing: u32,
    },
    /// A device-mapper volume.
    Mapped {
        /// Its name in `/dev/mapper`. In JSON it is `volume`: `name` is the layer's, beside which it stands.
        #[serde(rename = "volume")]
        name: String,
        /// Who made it, such as `LVM`, `CRYPT`, `mpath`.
        maker: Option<String>,
    },
    /// A device with nothing below it but hardware (or memory).
    Disk {
        /// The way to the host, the nearest to the host first.
        hardware: Vec<Hop>,
    },
}

/// Why it cannot be said what a path stands on.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// There is nothing at the path.
    #[error("{path}: there is no such file or device; name a block device, a regular file or a directory")]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// The path cannot be reached.
    #[error("{path}: {source}; name a block device, a regular file or a directory that this user can reach")]
    Unreachable {
        /// The path.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is something at the path that does not store data.
    #[error("{path} is {what}; name a block device, a regular file or a directory")]
    NotStorage {
        /// The path.
        path: PathBuf,
        /// What it is, with its article.
        what: &'static str,
    },
    /// The device is not in sysfs.
    #[error("{path} is block device {number}, which sysfs does not list: it is gone, or /sys is not mounted here")]
    Unlisted {
        /// The path.
        path: PathBuf,
        /// Its number.
        number: DeviceNumber,
    },
    /// The mounts cannot be read.
    #[error("the mounts cannot be read from /proc/self/mountinfo: {source}; is /proc mounted?")]
    Mounts {
        /// What the kernel said.
        source: io::Error,
    },
}

/// What `stat` says is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// A block device.
    Device(DeviceNumber),
    /// A regular file of this size.
    File(Bytes),
    /// A directory.
    Directory,
}

/// Stacks this deep are taken for a loop device that lies, in the end, on itself.
const DEEPEST: usize = 32;

impl Target {
    /// Finds out what `path` stands on.
    pub fn find(kernel: &Kernel, path: &Path) -> Result<Target, TopologyError> {
        let unreachable = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => TopologyError::Missing { path: path.to_owned() },
            _ => TopologyError::Unreachable { path: path.to_owned(), source },
        };
        let real = std::fs::canonicalize(path).map_err(unreachable)?;
        let node = Node::of(path, &std::fs::metadata(&real).map_err(unreachable)?)?;
        Target::describe(kernel, path, &real, node)
    }

    /// The same without looking at the path itself: for the recorded trees of another machine. `real` is `path` without
    /// symbolic links.
    pub fn describe(kernel: &Kernel, path: &Path, real: &Path, node: Node) -> Result<Target, TopologyError> {
        let mounts = Mounts::read(kernel).map_err(|source| TopologyError::Mounts { source })?;
        let explorer = Explorer { kernel, mounts: &mounts };
        let top = match node {
            Node::Device(number) => {
                let listed = std::fs::canonicalize(kernel.sys(format!("dev/block/{number}"))).ok();
                let layer = listed.and_then(|device| explorer.device(&device, 0));
                layer.ok_or_else(|| TopologyError::Unlisted { path: path.to_owned(), number })?
            }
            Node::File(size) => explorer.file(What::File { path: real.to_owned(), size: Some(size) }, real, 0),
            Node::Directory => explorer.file(What::Directory { path: real.to_owned() }, real, 0),
        };
        Ok(Target { path: path.to_owned(), top })
    }

    /// The disks at the bottom of the stack, each once.
    pub fn disks(&self) -> Vec<&Layer> {
        self.top.disks()
    }

    /// All layers, from the path down; one on which several others stand is there for each of them.
    pub fn layers(&self) -> Vec<&Layer> {
        let mut layers = vec![&self.top];
        let mut next = 0;
        while let Some(layer) = layers.get(next).copied() {
            layers.extend(&layer.below);
            next += 1;
        }
        layers
    }

    /// The size of the device or file; none for a directory.
    pub fn size(&self) -> Option<Bytes> {
        match &self.top.what {
            What::File { size, .. } => *size,
            _ => self.top.block.as_ref().map(|block| block.size),
        }
    }

    /// The file system it lies on, if it is a file or a directory.
    pub fn file_system(&self) -> Option<&Mount> {
        self.top.below.iter().find_map(|layer| match &layer.what {
            What::FileSystem(mount) => Some(mount),
            _ => None,
        })
    }

    /// The attributes of the device itself, or of the first block device below a file.
    pub fn block(&self) -> Option<&Block> {
        self.top.first_block()
    }
}

impl Node {
    /// What `metadata` describes, if that can hold data. `path` is for the message.
    pub fn of(path: &Path, metadata: &Metadata) -> Result<Node, TopologyError> {
        let kind = metadata.file_type();
        let what = match () {
            () if kind.is_file() => return Ok(Node::File(Bytes::new(metadata.len()))),
            () if kind.is_dir() => return Ok(Node::Directory),
            () if kind.is_block_device() => return Ok(Node::Device(DeviceNumber::from_raw(metadata.rdev()))),
            () if kind.is_char_device() => "a character device",
            () if kind.is_fifo() => "a pipe",
            () if kind.is_socket() => "a socket",
            () => "neither a file nor a device",
        };
        Err(TopologyError::NotStorage { path: path.to_owned(), what })
    }
}

impl Layer {
    fn disks(&self) -> Vec<&Layer> {
        if self.below.is_empty() && self.block.is_some() {
            return vec![self];
        }
        let mut disks: Vec<&Layer> = Vec::new();
        for disk in self.below.iter().flat_map(Layer::disks) {
            if !disks.iter().any(|seen| seen.name == disk.name) {
                disks.push(disk);
            }
        }
        disks
    }

    fn first_block(&self) -> Option<&Block> {
        self.block.as_ref().or_else(|| self.below.iter().find_map(Layer::first_block))
    }
}

struct Explorer<'a> {
    kernel: &'a Kernel,
    mounts: &'a Mounts,
}

impl Explorer<'_> {
    /// A file or directory, and the file system below it.
    fn file(&self, what: What, path: &Path, depth: usize) -> Layer {
        let mount = self.mounts.holding(path).filter(|_| depth < DEEPEST);
        let below = mount.map(|mount| self.file_system(mount, depth + 1)).into_iter().collect();
        Layer { name: path.display().to_string(), what, block: None, below }
    }

    fn file_system(&self, mount: &Mount, depth: usize) -> Layer {
        let below = if mount.kind == "overlay" {
            self.overlay(mount, depth)
        } else {
            let devices = devices_of(self.kernel, mount);
            devices.iter().filter_map(|name| self.device(&directory(self.kernel, name)?, depth + 1)).collect()
        };
        let name = format!("{} on {}", mount.kind, mount.at.display());
        Layer { name, what: What::FileSystem(mount.clone()), block: None, below }
    }

    /// What is written to an overlay goes to its upper directory, if that can be seen from here (in a container it
    /// cannot).
    fn overlay(&self, mount: &Mount, depth: usize) -> Vec<Layer> {
        let upper = mount.option("upperdir").map(Path::new);
        let holding = upper.and_then(|upper| self.mounts.holding(upper));
        match holding {
            Some(below) if below.device != mount.device && depth < DEEPEST => vec![self.file_system(below, depth + 1)],
            _ => Vec::new(),
        }
    }

    /// The block device with the directory `device`, and what it stands on.
    fn device(&self, device: &Path, depth: usize) -> Option<Layer> {
        if depth >= DEEPEST {
            return None;
        }
        let name = device.file_name()?.to_string_lossy().into_owned();
        let partition = number::<u32>(device.join("partition"));
        let disk = if partition.is_some() { device.parent()? } else { device };
        let hardware = chain(self.kernel, disk);
        let block = Some(Block::read(device, disk, &hardware)?);
        let slaves = || -> Vec<Layer> {
            let slaves = names(device.join("slaves"));
            slaves.iter().filter_map(|slave| self.device(&directory(self.kernel, slave)?, depth + 1)).collect()
        };
        let (what, below) = if let Some(number) = partition {
            let start = Bytes::SECTOR * self::number::<u32>(device.join("start")).map_or(0, u64::from);
            (What::Partition { number, start }, self.device(disk, depth + 1).into_iter().collect())
        } else if device.join("loop").is_dir() {
            self.loop_device(device, depth)
        } else if let Some(level) = text(device.join("md/level")) {
            let what = What::Raid {
                level,
                devices: number(device.join("md/raid_disks")).unwrap_or(0),
                chunk: number(device.join("md/chunk_size")).map(Bytes::new).filter(|chunk| !chunk.is_zero()),
                missing: number(device.join("md/degraded")).unwrap_or(0),
            };
            (what, slaves())
        } else if let Some(name) = text(device.join("dm/name")) {
            // "LVM-" and a long number, "CRYPT-LUKS2-...": who made it stands before the first hyphen.
            let maker = text(device.join("dm/uuid")).and_then(|uuid| Some(uuid.split_once('-')?.0.to_owned()));
            (What::Mapped { name, maker }, slaves())
        } else {
            // Any other driver that lies on devices (bcache, drbd) says so in the same place.
            (What::Disk { hardware }, slaves())
        };
        Some(Layer { name, what, block, below })
    }

    fn loop_device(&self, device: &Path, depth: usize) -> (What, Vec<Layer>) {
        let offset = number(device.join("loop/offset")).map_or(Bytes::ZERO, Bytes::new);
        let what = What::Loop { offset, direct: flag(device.join("loop/dio")) };
        let Some(file) = backing_file(device) else { return (what, Vec::new()) };
        let below = self.file(What::File { path: file.clone(), size: None }, &file, depth + 1);
        (what, vec![below])
    }
}

/// The file behind the loop device with the directory `device`, as far as its name is known.
pub(crate) fn backing_file(device: &Path) -> Option<PathBuf> {
    let file = text(device.join("loop/backing_file"))?;
    // The kernel marks a file that was removed while in use.
    Some(PathBuf::from(file.strip_suffix(" (deleted)").unwrap_or(&file)))
}
