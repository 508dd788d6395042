//! What a path leads to: a file or a block device, its size, and what direct I/O demands of requests to it.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use device::Shape;
use host::guard::WritePermit;
use rustix::fs::{AtFlags, FileType, StatxFlags};
use units::Bytes;

use crate::options::FileOptions;

/// Whether the page cache lies between the requests and the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Past the page cache (`O_DIRECT`): what the device does.
    Direct,
    /// Through the page cache: what a program without special care gets.
    Buffered,
}

/// Where the bytes are in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    /// A file on a file system that keeps it on a device.
    File,
    /// A file that lives in the page cache only (tmpfs, ramfs).
    MemoryFile,
    /// A block device that takes requests and answers later.
    Device,
    /// A block device that is memory (zram, brd): it copies while it is asked.
    MemoryDevice,
}

impl Store {
    /// True of block devices.
    pub fn is_device(self) -> bool {
        matches!(self, Store::Device | Store::MemoryDevice)
    }
}

/// An open file or block device.
pub(crate) struct Target {
    pub file: File,
    pub path: PathBuf,
    pub shape: Shape,
    pub mode: Mode,
    pub store: Store,
    /// The permit's own descriptor, which holds the device exclusively for as long as it is open; without it, nothing
    /// is written.
    pub exclusive: Option<File>,
}

/// Why a path could not be opened as a device.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum OpenError {
    /// Nothing there.
    #[error("{path}: there is no such file; give the path of an existing file or block device")]
    NotFound { path: PathBuf },
    /// Not allowed.
    #[error("{path}: no permission; run as root, or as a member of the group that owns it (for disks usually `disk`)")]
    Permission { path: PathBuf },
    /// A directory.
    #[error("{path}: this is a directory; name a file in it, or the block device that it is on")]
    Directory { path: PathBuf },
    /// A terminal, a pipe, a socket.
    #[error("{path}: this is a {kind}; name a file or a block device")]
    NotStorage { path: PathBuf, kind: &'static str },
    /// Too small to read a block.
    #[error(
        "{path}: it holds {size:#}, less than one block of {block:#}; name a larger file, or a device with a medium in it"
    )]
    Empty { path: PathBuf, size: Bytes, block: Bytes },
    /// No direct I/O.
    #[error(
        "{path}: its file system has no direct I/O; go through the page cache (io.mode = \"buffered\"), or name a file elsewhere"
    )]
    NoDirect { path: PathBuf },
    /// A new file could not be made.
    #[error(transparent)]
    Refused { source: host::Refusal },
    /// The engine that was asked for does not go with the target.
    #[error("{path}: the engine {engine} cannot be used: {reason}")]
    Engine { path: PathBuf, engine: crate::Engine, reason: String },
    /// The ring does not take the file.
    #[error("{path}: {source}")]
    Ring { path: PathBuf, source: crate::RingError },
    /// Anything else.
    #[error("{path}: {call} failed: {source}")]
    System { path: PathBuf, call: &'static str, source: std::io::Error },
}

impl Target {
    /// Opens an existing file or block device for reading.
    pub fn open(path: &Path, options: &FileOptions) -> Result<Target, OpenError> {
        // Looked at first: opening a pipe would wait for its other end.
        let kind = std::fs::metadata(path).map_err(|error| explain(path, "stat", error))?.file_type();
        let path_buf = path.to_path_buf();
        if kind.is_dir() {
            return Err(OpenError::Directory { path: path_buf });
        }
        let other =
            [(kind.is_char_device(), "character device"), (kind.is_fifo(), "pipe"), (kind.is_socket(), "socket")];
        if let Some((_, kind)) = other.into_iter().find(|(is, _)| *is) {
            return Err(OpenError::NotStorage { path: path_buf, kind });
        }
        let file = quietly(options.mode, |open| open.read(true).open(path));
        Target::examine(path, options, file, None)
    }

    /// Opens what the permit is for, for reading and writing.
    pub fn permitted(permit: &WritePermit, options: &FileOptions) -> Result<Target, OpenError> {
        let file = quietly(options.mode, |open| permit.reopen(open.read(true).write(true)));
        let exclusive = permit.file().try_clone().map_err(|error| explain(permit.path(), "dup", error))?;
        Target::examine(permit.path(), options, file, Some(exclusive))
    }

    /// Makes a new file of `size` bytes, whose blocks are reserved but have not been written.
    pub fn create(path: &Path, options: &FileOptions, size: Bytes) -> Result<Target, OpenError> {
        let permit = host::guard::create_sized(path, size).map_err(|source| OpenError::Refused { source })?;
        let target = Target::permitted(&permit, options);
        if target.is_err() {
            // The file is ours and of no use. The error that is returned says more than one of removing it would.
            let _ = std::fs::remove_file(path);
        }
        target
    }

    fn examine(
        path: &Path,
        options: &FileOptions,
        file: std::io::Result<File>,
        exclusive: Option<File>,
    ) -> Result<Target, OpenError> {
        let mode = options.mode;
        let file = file.map_err(|error| match (error.raw_os_error(), mode) {
            (Some(libc::EINVAL), Mode::Direct) => OpenError::NoDirect { path: path.to_path_buf() },
            _ => explain(path, "open", error),
        })?;
        let (mut shape, store) = shape(path, &file, mode)?;
        // Requests of any byte are for those who ask: the page cache of a file takes them.
        if options.any_bytes && mode == Mode::Buffered && !store.is_device() {
            let metadata = file.metadata().map_err(|error| explain(path, "stat", error))?;
            (shape.size, shape.logical_block) = (Bytes::new(metadata.len()), Bytes::new(1));
        }
        if let (Some(most), false) = (options.grows, store.is_device()) {
            shape.size = shape.size.max(most.round_down(shape.logical_block));
        }
        if shape.size < shape.logical_block {
            return Err(OpenError::Empty { path: path.to_path_buf(), size: shape.size, block: shape.logical_block });
        }
        Ok(Target { file, path: path.to_path_buf(), shape, mode, store, exclusive })
    }
}

/// Opens without having each read noted as the file's last access, which costs a read some 40 ns and the device a write
/// now and then. That is for the owner and root; for others as it is.
fn quietly(mode: Mode, open: impl Fn(&mut OpenOptions) -> std::io::Result<File>) -> std::io::Result<File> {
    let flags = match mode {
        Mode::Direct => libc::O_DIRECT,
        Mode::Buffered => 0,
    };
    match open(OpenOptions::new().custom_flags(flags | libc::O_NOATIME)) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => open(OpenOptions::new().custom_flags(flags)),
        opened => opened,
    }
}

/// Size, block sizes and kind of an open file.
fn shape(path: &Path, mut file: &File, mode: Mode) -> Result<(Shape, Store), OpenError> {
    let asked = StatxFlags::BASIC_STATS | StatxFlags::DIOALIGN;
    let stat = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, asked);
    let stat = stat.map_err(|error| explain(path, "statx", error.into()))?;
    // The end of a block device is where seeking to the end leads; its `stat` says 0.
    let size = file.seek(SeekFrom::End(0)).map_err(|error| explain(path, "lseek", error))?;
    let (logical, physical, store);
    if FileType::from_raw_mode(stat.stx_mode.into()) == FileType::BlockDevice {
        let ask = |call, answer: rustix::io::Result<u32>| answer.map_err(|error| explain(path, call, error.into()));
        logical = ask("BLKSSZGET", rustix::fs::ioctl_blksszget(file))?;
        physical = ask("BLKPBSZGET", rustix::fs::ioctl_blkpbszget(file))?;
        let link = format!("/sys/dev/block/{}:{}", stat.stx_rdev_major, stat.stx_rdev_minor);
        let name = std::fs::read_link(link).ok();
        let name = name.as_deref().and_then(|name| name.file_name()?.to_str()).unwrap_or_default();
        store = match name {
            _ if name.starts_with("zram") || name.starts_with("ram") => Store::MemoryDevice,
            _ => Store::Device,
        };
    } else {
        let direct = stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0 && stat.stx_dio_offset_align > 0;
        logical = match mode {
            Mode::Buffered => Bytes::SECTOR.get() as u32,
            Mode::Direct if direct => stat.stx_dio_offset_align,
            // Linux before 6.1 does not say; a block of the file system satisfies every device below it.
            Mode::Direct => stat.stx_blksize,
        };
        physical = stat.stx_blksize.max(logical);
        const TMPFS: u32 = 0x0102_1994;
        const RAMFS: u32 = 0x8584_58f6;
        let system = rustix::fs::fstatfs(file).map_err(|error| explain(path, "fstatfs", error.into()))?;
        store = if [TMPFS, RAMFS].contains(&(system.f_type as u32)) { Store::MemoryFile } else { Store::File };
    }
    let logical_block = Bytes::new(logical.into());
    let size = Bytes::new(size).round_down(logical_block);
    let name = path.display().to_string();
    Ok((Shape { name, size, logical_block, physical_block: Bytes::new(physical.into()) }, store))
}

/// The world's error on a path, in words that say what to do.
fn explain(path: &Path, call: &'static str, error: std::io::Error) -> OpenError {
    let path = path.to_path_buf();
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) => OpenError::NotFound { path },
        Some(libc::EACCES | libc::EPERM) => OpenError::Permission { path },
        Some(libc::EISDIR) => OpenError::Directory { path },
        _ => OpenError::System { path, call, source: error },
    }
}
