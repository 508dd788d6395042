//! The parameters of newfs and tunefs: the disk's geometry and the file system's sizes.

use units::Bytes;

/// The unit of disk addresses.
pub(super) const SECTOR: u64 = 512;
/// What an inode takes.
pub(super) const INODE: u64 = 128;
/// Inodes that the map of a group has room for (MAXIPG).
pub(super) const INODES_MOST: u64 = 2048;
/// Cylinders that a group may have (MAXCPG).
pub(super) const CYLINDERS_MOST: u64 = 32;

/// A disk as the file system believes it to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Sectors of 512 bytes on a track.
    pub sectors: u64,
    /// Tracks of a cylinder.
    pub tracks: u64,
    /// Cylinders.
    pub cylinders: u64,
    /// Whole turns a second: the entry of disktab divided by 60, rounded down.
    pub turns: u64,
}

/// What distinguishes one fast file system from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// The disk.
    pub geometry: Geometry,
    /// A block.
    pub block: Bytes,
    /// A fragment of a block.
    pub fragment: Bytes,
    /// Milliseconds of rotation between two consecutive blocks of a file.
    pub rotational_delay: u64,
    /// Blocks of a file that are laid out without a gap.
    pub contiguous: u64,
    /// Blocks that a file takes from one cylinder group before it goes on to another (maxbpg).
    pub group_blocks: u64,
    /// Cylinders of a group.
    pub group_cylinders: u64,
    /// Percent of the space that only the superuser gets.
    pub reserve: u64,
    /// Bytes of space for which there is an inode.
    pub bytes_per_inode: u64,
}

/// Parameters that make no file system.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum ParametersError {
    #[error("a block of {block:#}; blocks are 4 KiB, 8 KiB, or another power of two between")]
    Block { block: Bytes },
    #[error(
        "a fragment of {fragment:#} of a block of {block:#}; a fragment is a power of two of at least 512 B, and an eighth to all of a block"
    )]
    Fragment { fragment: Bytes, block: Bytes },
    #[error("{what} is {value}; accepted is {least} to {most}")]
    Range { what: &'static str, value: u64, least: u64, most: u64 },
    #[error(
        "cylinders of {sectors} sectors align with blocks only every {cycle} cylinders, and a group has at most 32; take larger fragments or other blocks"
    )]
    Cycle { sectors: u64, cycle: u64 },
    #[error(
        "the disk has room for {there} fragments, and the tables of a group alone take {tables}; take a larger disk"
    )]
    Small { there: u64, tables: u64 },
}

impl Parameters {
    /// Those of newfs in 4.2BSD of July 1983 on a disk: maxbpg is a quarter of the fragment's bytes (mkfs.c 2.14).
    pub fn newfs(geometry: Geometry, block: Bytes, fragment: Bytes) -> Parameters {
        Parameters {
            geometry,
            block,
            fragment,
            rotational_delay: 4,
            contiguous: 1,
            group_blocks: fragment.get() / 4,
            group_cylinders: 16,
            reserve: 10,
            bytes_per_inode: 2048,
        }
    }

    /// Refuses what the file system does not allow.
    pub fn check(&self) -> Result<(), ParametersError> {
        let Parameters { block, fragment, geometry, .. } = *self;
        if !block.get().is_power_of_two() || !(4096..=8192).contains(&block.get()) {
            return Err(ParametersError::Block { block });
        }
        let fits = fragment.get().is_power_of_two() && fragment.get() >= SECTOR;
        if !fits || fragment > block || block.get() / fragment.get() > 8 {
            return Err(ParametersError::Fragment { fragment, block });
        }
        let range = |what, value, least, most| match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(ParametersError::Range { what, value, least, most }),
        };
        range("sectors of a track", geometry.sectors, 1, 2048)?;
        range("tracks of a cylinder", geometry.tracks, 1, 1024)?;
        range("cylinders", geometry.cylinders, 1, 1 << 20)?;
        range("turns a second", geometry.turns, 1, 1000)?;
        range("the rotational delay in milliseconds", self.rotational_delay, 0, 100)?;
        range("contiguous blocks", self.contiguous, 1, 1024)?;
        range("blocks of a file in a group", self.group_blocks, 1, 1 << 20)?;
        range("cylinders of a group", self.group_cylinders, 1, CYLINDERS_MOST)?;
        range("percent of reserve", self.reserve, 0, 99)?;
        range("bytes for each inode", self.bytes_per_inode, 512, 1 << 20)
    }

    /// Fragments of a block.
    pub(super) fn per_block(&self) -> u64 {
        self.block.get() / self.fragment.get()
    }
}
