//! Who an array is, and where a new member must have its parts to take a place in it.

use device::Device;
use units::Bytes;

use crate::array::Array;
use crate::md::Uuid;

/// Where the parts of a member lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberLayout {
    /// Where data begin on the members.
    pub data_offset: Bytes,
    /// How much of each the array uses behind that, room for checksums included, if it keeps any.
    pub used: Bytes,
}

impl<D: Device> Array<D> {
    /// Its identity, if its members keep one.
    pub fn identity(&self) -> Option<Uuid> {
        self.state.as_ref()?.sibling().map(|superblock| superblock.array)
    }

    /// Its name, if its members keep one.
    pub fn name(&self) -> Option<String> {
        let name = self.state.as_ref()?.sibling()?.name;
        Some(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
    }

    /// Where a new member must have its parts; `None` if no member is left that could say so.
    pub fn member_layout(&self) -> Option<MemberLayout> {
        let sibling = self.state.as_ref()?.sibling()?;
        let used = self.geometry.used();
        let checksums = if self.has_checksums() { crate::checksum_room(used) } else { Bytes::ZERO };
        Some(MemberLayout { data_offset: sibling.data_offset, used: used + checksums })
    }
}
