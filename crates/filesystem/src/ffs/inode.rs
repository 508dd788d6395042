//! An inode: the addresses of a file's blocks, through up to three levels of indirect blocks.

use std::collections::BTreeMap;

/// Addresses in the inode itself (NDADDR).
pub const DIRECT: u64 = 12;
/// No block.
pub const NONE: u64 = 0;

/// A file or a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inode {
    /// Whether it is a directory.
    pub directory: bool,
    /// Bytes.
    pub size: u64,
    /// Names of it; of a directory also its own and those of the directories in it.
    pub links: u64,
    /// Addresses of the first blocks, in fragments.
    pub direct: [u64; DIRECT as usize],
    /// Addresses of the indirect blocks, of one to three levels.
    pub indirect: [u64; 3],
    /// What the indirect blocks say, by their addresses.
    pub maps: BTreeMap<u64, Vec<u64>>,
}

/// The way to a block through the inode: an indirect block of `levels` levels, and the place in each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// How many indirect blocks there are on the way.
    pub levels: usize,
    /// The places in them, the first `levels` of these.
    pub places: [usize; 3],
}

impl Inode {
    /// An empty one.
    pub fn new(directory: bool) -> Inode {
        Inode { directory, size: 0, links: 0, direct: [NONE; 12], indirect: [NONE; 3], maps: BTreeMap::new() }
    }

    /// The way to a block, where an indirect block has so many addresses. Nothing if no file can be so long.
    pub fn way(block: u64, addresses: u64) -> Option<Way> {
        let mut within = block.checked_sub(DIRECT).unwrap_or(block);
        if block < DIRECT {
            return Some(Way { levels: 0, places: [block as usize, 0, 0] });
        }
        for levels in 1..=3_usize {
            let reach = addresses.pow(levels as u32);
            if within < reach {
                let mut places = [0; 3];
                for (level, place) in places[..levels].iter_mut().enumerate() {
                    let each = addresses.pow((levels - 1 - level) as u32);
                    *place = (within / each % addresses) as usize;
                }
                return Some(Way { levels, places });
            }
            within -= reach;
        }
        None
    }

    /// The address of a block and those of the indirect blocks on the way to it, as far as there are any.
    pub fn address(&self, way: Way) -> (u64, Vec<u64>) {
        if way.levels == 0 {
            return (self.direct[way.places[0]], Vec::new());
        }
        let (mut at, mut passed) = (self.indirect[way.levels - 1], Vec::new());
        for place in &way.places[..way.levels] {
            if at == NONE {
                return (NONE, passed);
            }
            passed.push(at);
            at = self.maps[&at][*place];
        }
        (at, passed)
    }
}
