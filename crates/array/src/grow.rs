//! Growing: members that have become larger, or were replaced by larger ones, are used to their ends.
//!
//! The rows that exist stay where they are; rows are added behind them. So this is for levels whose layout does not
//! depend on the members' size: not level 10 with far copies, whose second copies would have to move. The new rows'
//! redundancy is made to fit by a resync that begins where the old ones end, so a grown array is dirty until that has
//! passed, and usable meanwhile. Checksums, which lie behind the data, move first ([`integrity`](crate::integrity)).

use device::{Buffer, Device, DeviceError, Request};
use units::Bytes;

use crate::areas::{self, Misplaced, Uses};
use crate::array::Array;
use crate::geometry::{Geometry, Level};
use crate::md::{Bitmap, Resync, Superblock};

/// A bitmap of the grown array takes one.
const PAGE: Bytes = Bytes::kib(4);

/// Why an array does not grow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum GrowError {
    /// No room.
    #[error(
        "the smallest member has room for {used:#} of data, which the array uses; replace members by larger ones, all of them"
    )]
    NoRoom { used: Bytes },
    /// The layout would change.
    #[error("{0} does not grow by its members' size: what it stores would have to move")]
    Level(String),
    /// Not whole, or not clean.
    #[error("the array is not whole and clean; rebuild its members and stop it first")]
    NotWhole,
    /// The journal says how large members are.
    #[error(
        "an array with a journal does not grow, neither here nor in md; make a larger array, and copy to it what this one stores"
    )]
    Journal,
    /// More than a bitmap covers.
    #[error(
        "the array would have more than the 60 TiB that a bitmap of one page covers; make a larger array without one, and copy to it what this one stores"
    )]
    Bitmap,
    /// Checksums lie behind the data, and must have another place before data take it.
    #[error(
        "the checksums of member {member} have to move behind the data that it is to have, and would meet themselves there; \
         make the members larger by at least {more:#} more"
    )]
    SumsInTheWay { member: usize, more: Bytes },
    /// Something lies where the data are to be.
    #[error("member {member} cannot be used further: {error}")]
    InTheWay { member: usize, error: Misplaced },
    /// What is about to lose its checksums does not fit them.
    #[error(
        "member {member} holds something that does not fit its checksums, or cannot be read; let a scrub heal it, then grow"
    )]
    Unsound { member: usize },
    /// Nothing is kept of it.
    #[error("the array keeps no state on its members")]
    NoState,
    /// The members failed.
    #[error("the members could not be told: {0}")]
    Failed(#[from] DeviceError),
}

impl<D: Device> Array<D> {
    /// Has the members say that all of their room is used, and gives how much that is of each. The array must then be
    /// opened anew, and a [resync](Array::resync) makes the new rows fit.
    pub async fn grow(mut self) -> Result<Bytes, GrowError> {
        let level = self.geometry.level();
        let moves = match level {
            Level::Raid10(copies) => copies.far > 1,
            Level::Linear | Level::Raid0(_) => true,
            _ => false,
        };
        if moves {
            return Err(GrowError::Level(level.to_string()));
        }
        if self.journal.is_some() {
            return Err(GrowError::Journal);
        }
        // Its pages are written here as a whole.
        let intent = self.intent.take();
        let state = self.state.as_ref().ok_or(GrowError::NoState)?;
        if !self.is_complete() || self.is_dirty() || self.is_resync_due() || self.replacing().is_some() {
            return Err(GrowError::NotWhole);
        }
        let unit = self.geometry.chunk().max(self.block());
        let before = self.geometry.used();
        let superblocks = state.superblocks.borrow().clone();
        let superblocks: Vec<Superblock> = superblocks.into_iter().flatten().collect();
        assert_eq!(superblocks.len(), self.members.len(), "a member that is active has a superblock");
        let room = |(member, superblock): (usize, &Superblock)| self.room_of(member, superblock, unit);
        let rooms: Vec<Bytes> = superblocks.iter().enumerate().map(room).collect();
        let used = rooms.iter().copied().min().unwrap_or(Bytes::ZERO);
        let grown = Geometry::new(level, self.geometry.chunk(), &vec![used; self.members.len()]);
        if used <= before || grown.as_ref().is_ok_and(|grown| grown.used() <= before) {
            return Err(GrowError::NoRoom { used: before });
        }
        let used = grown.map_err(|_| GrowError::NoRoom { used: before })?.used();
        let covers = |superblock: &Superblock| Bitmap::covered(&Superblock { size: used, ..superblock.clone() });
        if intent.is_some() && superblocks.iter().any(|superblock| !Bitmap::fits_one_page(covers(superblock))) {
            return Err(GrowError::Bitmap);
        }
        let become_of = |(member, (superblock, room)): (usize, (Superblock, Bytes))| {
            // Checksums stay where they are if those of all that will be used are there.
            let stays = self.members[member].checksums().is_some() && superblock.data_size >= used;
            let data_size = if stays { superblock.data_size } else { room };
            Superblock { size: used, data_size, ..superblock }
        };
        self.flush_members(0).await?;
        let grown: Vec<Superblock> = superblocks.into_iter().zip(rooms).enumerate().map(become_of).collect();
        for (member, it) in grown.iter().enumerate() {
            let Some(device) = self.device(member) else { continue };
            let uses =
                Uses { bitmap: intent.as_ref().map(|intent| intent.at()..intent.at() + PAGE), ..self.uses(member) };
            areas::check_in(it, device.shape().size, device.shape().logical_block, &uses)
                .map_err(|error| GrowError::InTheWay { member, error })?;
        }
        if self.has_checksums() {
            self.grow_checksums(&grown, used).await?;
        }
        if !self.is_complete() {
            return Err(GrowError::NotWhole);
        }
        let _one = state.turn().await;
        for (superblock, grown) in state.superblocks.borrow_mut().iter_mut().zip(grown) {
            let Some(superblock) = superblock else { continue };
            superblock.size = grown.size;
            superblock.data_size = grown.data_size;
            superblock.resync = Resync::From(before);
        }
        // The bitmap of the new size goes first: until the superblocks follow, it is one that fits nothing, and all
        // counts as marked.
        if let Some(intent) = &intent {
            let sibling = state.sibling().ok_or(DeviceError::Gone)?;
            let mut bitmap = Bitmap::of_new(&sibling);
            bitmap.events = sibling.events + 1;
            bitmap.events_cleared = intent.events_cleared();
            let bytes = bitmap.to_bytes();
            let mut buffer = Buffer::zeroed(Bytes::new(bytes.len() as u64).round_up(Bytes::kib(4)));
            buffer.bytes_mut().expect("it is real")[..bytes.len()].copy_from_slice(&bytes);
            let (data, at) = (buffer.freeze(), intent.at());
            for member in &self.members {
                member.send(Request::write(at, data.clone()).with_fua()).await.result?;
            }
        }
        self.record(|_| {}).await?;
        Ok(used)
    }
}
