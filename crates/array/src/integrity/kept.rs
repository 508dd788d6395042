//! Return: a member that was away keeps its sums.
//!
//! What the bitmap does not mark is on the device as it was when it left, and is not written again. So its sums must be
//! those of what was there, or sound data would be called corrupt, and rot that came meanwhile sound. Three things make
//! it so, wherever it was cut off:
//!
//! 1. On the device alone, at every instant, a sum fits what was written, or its region is marked there. This is the
//!    order of data and sums ([`integrity`](crate::integrity)), which asks for nothing but that the device keeps what
//!    it was asked to make durable. What was still under way when it was lost is waited for: transfers of sums here,
//!    data by the locks of their units.
//! 2. The header knows the superblock, as at a start. If not, something used the device without its sums, and nothing
//!    on it is believed: it is filled whole, and its sums begin anew. So is one that has less data than the array uses
//!    by now.
//! 3. What was written while it was away is marked in the bitmap. It is filled before it is read, and each block's sum
//!    is set with it: a sum of what the device held before is never asked for there.
//!
//! Sums of regions that are marked on the device are forgotten, as at a start. Here what lies there is not taken as it
//! is, though the bitmap may say that it is current: the others have it, with sums, so it is filled, too.
//!
//! A cut on the way back finds a member that is being rebuilt: its superblock says so before the first block is filled,
//! and from then on the device does not come back by the bitmap. Before the mark everything is current, with the sums
//! that it has there; behind it nothing is read, and all of it is filled when the rebuild goes on. A cut before that
//! superblock finds it away as it was: no sum was written but those that were forgotten, whose marks stay until what
//! lies there is filled.
//!
//! A block whose sum was never learnt, as nothing has read or written it since the area began, is taken as it is, as in
//! an array that was never left: there is nothing to hold it against.
//!
//! Rejected: reading what is kept and holding it against its sums on the way, which a scrub does when it is wanted; the
//! time of a return is what the bitmap is for.

use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use device::{Device, DeviceError};
use units::Bytes;

use super::area::{Layout, superblock_sum};
use crate::array::Array;
use crate::md::Superblock;

/// What a member that comes back keeps.
pub(crate) struct Kept {
    /// Of the device, in its superblock: behind them are the sums.
    pub data_size: Bytes,
    layout: Layout,
    /// Regions whose sums were forgotten.
    forgotten: BTreeSet<u64>,
}

impl Kept {
    /// Whether a range has lost sums.
    pub fn lacks(&self, range: &Range<Bytes>) -> bool {
        let blocks = self.layout.blocks_of(range.start, range.end - range.start);
        self.layout.regions_of(&blocks).any(|region| self.forgotten.contains(&region))
    }
}

impl<D: Device> Array<D> {
    /// Finds the sums of a device that has its place again, with its superblock as it was read. `None` if they do not
    /// count, or it has none.
    pub(crate) async fn keep_checksums(
        &self,
        member: usize,
        superblock: &Superblock,
    ) -> Result<Option<Kept>, DeviceError> {
        if !self.has_checksums() || superblock.data_size < self.geometry.used_of(member) {
            return Ok(None);
        }
        let this = &self.members[member];
        let (before, Some(device)) = (this.checksums(), this.device()) else { return Ok(None) };
        // From here on nothing more is sent for who was there before, which may be the same device; and what was sent
        // has arrived.
        before.iter().for_each(|before| before.retire());
        let _quiet = match &before {
            Some(before) => Some(before.hold().await),
            None => None,
        };
        let layout = Layout::of(superblock, device.shape().logical_block);
        let (header, sum) = (this.newest_header(&layout, superblock).await?, superblock_sum(superblock));
        let Some((header, slot)) = header.filter(|(header, _)| header.superblocks.contains(&sum)) else {
            return Ok(None);
        };
        let checksums = this.known_checksums(layout, (header, slot), sum).await?;
        // What was under way when the array was last left is known to those that were there; of what it left itself
        // everything is filled.
        let suspect = before.as_ref().map_or_else(|| Some(BTreeSet::new()), |before| before.suspects_in(&layout));
        let forgotten = checksums.suspect.replace(suspect).expect("what was forgotten is known");
        before.iter().for_each(|before| checksums.memory.set(before.memory.get()));
        this.set_checksums(Some(Rc::new(checksums)));
        Ok(Some(Kept { data_size: superblock.data_size, layout, forgotten }))
    }
}
