//! What distinguishes one file system layer from another.

use filesystem::ffs::{Geometry, Parameters};
use units::{Bytes, Duration, Ratio};

use crate::endpoint::Tracks;
use crate::part::{PartError, Problem, Reader};

/// Which file system it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// The fast file system of 4.2BSD.
    Fast,
    /// A log-structured one.
    Log,
}

/// Of a file system in an operating system. Steps are in instructions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LayerParameters {
    pub format: Format,
    /// Of a log.
    pub segment: Bytes,
    /// What a log sends to the driver in one piece, at most.
    pub longest_transfer: Bytes,
    pub block: Bytes,
    pub fragment: Bytes,
    /// Milliseconds.
    pub rotational_delay: u64,
    pub contiguous: u64,
    /// Blocks of a file in a group; of the fragment's size if it is not said.
    pub group_blocks: Option<u64>,
    pub group_cylinders: u64,
    /// Percent.
    pub reserve: u64,
    pub bytes_per_inode: u64,
    /// Memory of the buffer cache.
    pub cache: Bytes,
    /// Buffers.
    pub buffers: usize,
    /// One block is read ahead of a sequential reader.
    pub read_ahead: bool,
    /// How often all that waits to be written is written.
    pub update: Duration,
    /// For how long a program has the processor while others wait for it.
    pub slice: Duration,
    /// The file that requests go to.
    pub file: Bytes,
    pub steps: Steps,
    /// The time to clear a new block, as a share of the time to copy it. A copy reads and writes; this only writes.
    pub clear: f64,
}

/// What the layer does, in instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Steps {
    /// Into the kernel, to the file, out again, and the program's loop.
    pub call: u64,
    /// For each block of a request: its address, and its buffer looked up and released.
    pub block: u64,
    /// To give a buffer to another block: its memory is put together from pages of others.
    pub buffer: u64,
    /// For each block of the file system's own that is looked at or changed.
    pub own: u64,
    /// To allocate, besides the blocks that are touched.
    pub allocate: u64,
    /// A write that fills only a part of a block.
    pub partial: u64,
    /// To open a file, its name included.
    pub open: u64,
    /// To go on after a wait.
    pub wake: u64,
}

impl LayerParameters {
    pub fn read(reader: &Reader) -> Result<LayerParameters, PartError> {
        let steps = reader.table("instructions")?;
        let whole_milliseconds = |time: Duration| -> Result<u64, PartError> {
            match time.as_nanos() % 1_000_000 {
                0 => Ok(time.as_nanos() / 1_000_000),
                _ => {
                    let accepted = "whole milliseconds, as tunefs takes them".into();
                    Err(reader.fault("rotational-delay", Problem::OutOfRange { accepted }))
                }
            }
        };
        let file: Bytes = reader.get("file")?;
        let block: Bytes = reader.get("block")?;
        if block.is_zero() || file.is_zero() || !file.is_multiple_of(block) {
            let accepted = format!("whole blocks of {block:#}, at least one");
            return Err(reader.fault("file", Problem::OutOfRange { accepted }));
        }
        let update: Duration = reader.get("update")?;
        if update.is_zero() {
            return Err(reader.fault("update", Problem::OutOfRange { accepted: "a time above zero".into() }));
        }
        let cache: Bytes = reader.get("cache")?;
        if cache < block * 8 {
            let accepted = format!("at least eight blocks, {:#}", block * 8);
            return Err(reader.fault("cache", Problem::OutOfRange { accepted }));
        }
        let longest_transfer: Bytes = reader.get("longest-transfer")?;
        if longest_transfer.is_zero() || !longest_transfer.is_multiple_of(Bytes::SECTOR) {
            let accepted = format!("whole sectors of {:#}, at least one", Bytes::SECTOR);
            return Err(reader.fault("longest-transfer", Problem::OutOfRange { accepted }));
        }
        let segment: Bytes = reader.get("segment")?;
        if segment < block {
            let accepted = format!("at least a block, {block:#}");
            return Err(reader.fault("segment", Problem::OutOfRange { accepted }));
        }
        let parameters = LayerParameters {
            format: reader.choose("format", &[("ffs", Format::Fast), ("lfs", Format::Log)])?,
            segment,
            longest_transfer,
            block,
            fragment: reader.get("fragment")?,
            rotational_delay: whole_milliseconds(reader.get("rotational-delay")?)?,
            contiguous: u64::from(reader.count("contiguous", 1024)?),
            group_blocks: reader.find("group-blocks")?,
            group_cylinders: u64::from(reader.count("group-cylinders", 32)?),
            reserve: reader.find("reserve-percent")?.unwrap_or(10),
            bytes_per_inode: reader.get::<Bytes>("bytes-per-inode")?.get(),
            cache,
            buffers: reader.count("buffers", 1 << 20)? as usize,
            read_ahead: reader.get("read-ahead")?,
            update,
            slice: reader.get("slice")?,
            file,
            steps: Steps {
                call: steps.get("call")?,
                block: steps.get("block")?,
                buffer: steps.get("buffer")?,
                own: steps.get("own")?,
                allocate: steps.get("allocate")?,
                partial: steps.get("partial")?,
                open: steps.get("open")?,
                wake: steps.get("wake")?,
            },
            clear: reader.get::<Ratio>("clear")?.get(),
        };
        steps.done()?;
        // What newfs refuses on a disk of any size is refused with the part.
        let checked = parameters.of(Tracks { sectors: 32, heads: 16, cylinders: 1024, turns: 60 }).check();
        checked.map_err(|error| reader.fault("block", Problem::Contradiction(error.to_string())))?;
        Ok(parameters)
    }

    /// Those of a file system on a drive.
    pub fn of(&self, tracks: Tracks) -> Parameters {
        let Tracks { sectors, heads, cylinders, turns } = tracks;
        let geometry = Geometry { sectors, tracks: heads, cylinders, turns };
        let new = Parameters::newfs(geometry, self.block, self.fragment);
        Parameters {
            rotational_delay: self.rotational_delay,
            contiguous: self.contiguous,
            group_blocks: self.group_blocks.unwrap_or(new.group_blocks),
            group_cylinders: self.group_cylinders,
            reserve: self.reserve,
            bytes_per_inode: self.bytes_per_inode,
            ..new
        }
    }
}

/// Tracks for a device that has none to show: those of a disk of its size, of which the file system takes the first
/// gibibyte at most.
pub(super) fn assumed(size: Bytes) -> Tracks {
    let (sectors, heads) = (32, 16);
    let cylinders = size.min(Bytes::gib(1)) / Bytes::SECTOR / (sectors * heads);
    Tracks { sectors, heads, cylinders: cylinders.max(1), turns: 60 }
}
