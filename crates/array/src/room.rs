//! Members that have no room: sparse files on a file system that is full, volumes of a pool that is used up, exports
//! that say so (`ENOSPC`, `EDQUOT`).
//!
//! **The rule: the array has as much room as the member that has least, and no member fails for want of it.** A write
//! that some member refuses so has failed with [`DeviceError::NoSpace`]; reads go on, and so do writes that need no new
//! room. (md fails such a member, and where all of them lie on one file system that is the end of the array.) What
//! fails all the same is a device that has no room to *become* a member, or to replace one, and a member whose *flush*
//! finds that there is no room: what it had acknowledged is lost there.
//!
//! A write that some members took and others refused is taken back, under the lock of its row, so that redundancy fits
//! as before. Writing back needs no room: only what was just stored is written again.
//!
//! - *Copies*: where they differ, those that have the new block get what one that refused it still has.
//! - *Parity* that was stored beside data that were not: `P + new + old` of the data, which are read where they were
//!   refused.
//! - *Data* that were stored beside parity that was not cannot be taken back, as nobody knows what lay there. So while
//!   room is short, and always where a member of the row is missing, parity is written first, and data only once it is
//!   stored. On the write that finds out first, in a row that is whole, parity that was refused is marked bad, as a
//!   rebuild marks what it could not compute (`bad`): nothing is computed from it, every block of data is what its
//!   member holds, and whoever writes it again, or scrubs the array, makes it good.
//!
//! What a member took of a write that it refused, and what it held there before, is written once more, so that it
//! acknowledges it: one that returns without what it never acknowledged is believed, and what was read would go back.
//!
//! A member that cannot tell what it holds, as it is bad there or its medium cannot give it, is one that is missing
//! there, block by block: parity says what it should hold. A device that is to replace a member gets what the member
//! holds once all that is done, as it may have had room where the member had none.
//!
//! A mark that finds no room either, as any other record (superblocks, bitmaps, logs), is begun and not done: no write
//! is answered but with this error until it is on the members.
//!
//! Rejected: asking for room before a write, which no device can promise; failing the one member that refused, as its
//! neighbours on the same file system are next; and keeping the write until there is room, as a volume's pool may do
//! (`queue_if_no_space`), which hangs whoever could have been told.

use std::cell::Cell;
use std::ops::Range;

use device::{Buffer, Data, Device, DeviceError};
use units::Bytes;

use crate::array::Array;
use crate::bad::joined;
use crate::copies::Written;
use crate::few::Few;
use crate::geometry::Place;
use crate::stripe::Band;

/// Whether members have lacked room of late.
#[derive(Default)]
pub(crate) struct Room {
    short: Cell<bool>,
    /// Since it was looked at last.
    again: Cell<bool>,
}

impl Room {
    /// Whether writes have to reckon with it.
    pub fn is_short(&self) -> bool {
        self.short.get()
    }
    /// A member had none.
    pub fn lacked(&self) {
        self.short.set(true);
        self.again.set(true);
    }
    /// Looks again, after some seconds: without another refusal since the last look all is as usual.
    pub fn look(&self) {
        self.short.set(self.again.replace(false));
    }
}

/// Who had no room for a band, and whether its data were sent at all.
pub(crate) struct Refused<'a> {
    pub by: &'a [usize],
    pub data_were_sent: bool,
    /// What its parities were, if that was [read](Array::parities_before).
    pub parities_before: &'a [(usize, Data)],
}

/// Parities that fit what the members of a band hold.
struct Fitting {
    parities: Vec<(usize, Vec<u8>)>,
    /// Members that did not get the new data, and cannot be read: parities of the new data stand for what they hold.
    unreadable: Vec<usize>,
}

/// What became of writing back.
#[derive(Default)]
struct Restored {
    /// What found no room.
    lacking: Vec<Range<Bytes>>,
}

fn frozen(bytes: &[u8]) -> Data {
    let mut buffer = Buffer::zeroed(Bytes::new(bytes.len() as u64));
    buffer.bytes_mut().expect("it is real").copy_from_slice(bytes);
    buffer.freeze()
}

impl<D: Device> Array<D> {
    /// Whether parity of a band has to be stored before its data are sent, of which these members could not give
    /// theirs. (Models have no bytes, and no devices that are full.) A power cut takes a member that is being filled
    /// back to the mark that was last recorded: it is missing in this sense.
    pub(crate) fn stores_parity_first(&self, band: &Band, unreadable: &[usize]) -> bool {
        let lacks = |member: usize| !self.members[member].is_whole() || !self.members[member].is_current(&band.range);
        let missing = || !unreadable.is_empty() || !self.all_plain() && band.stripe.members().any(lacks);
        !band.is_phantom() && (self.room.is_short() || missing())
    }

    /// What the parities of a band are before it is written, where it must be known to take them back: there are
    /// several, they tell what a missing member holds, and one could be stored and another not.
    pub(crate) async fn parities_before(&self, band: &Band, parities: &[(usize, Data)], id: u64) -> Vec<(usize, Data)> {
        let is_missing = |index: usize| !self.members[band.stripe.data_member(index)].is_current(&band.range);
        let mut before = Vec::new();
        if parities.len() > 1 && band.written.clone().any(is_missing) {
            for (member, _) in parities.iter().filter(|(member, _)| self.members[*member].is_current(&band.range)) {
                before.extend(self.held(*member, &band.range, id).await.map(|parity| (*member, parity.freeze())));
            }
        }
        before
    }

    /// Makes the redundancy of a band fit what its members hold, after some of them had no room for it. The caller
    /// holds the row's lock.
    pub(crate) async fn take_back(
        &self,
        band: &Band,
        parities: &[(usize, Data)],
        refused: Refused<'_>,
        fua: bool,
        id: u64,
    ) {
        self.room.lacked();
        let is_bad = |block: &Range<Bytes>| band.stripe.members().any(|member| self.members[member].is_bad(block));
        let pieces = match is_bad(&band.range) {
            true => self.blocks(band.range.clone()),
            false => vec![band.range.clone()],
        };
        for piece in pieces {
            if self.take_back_piece(band, &piece, parities, &refused, fua, id).await.is_some() {
                continue;
            }
            for block in self.blocks(piece) {
                let taken_back = self.take_back_piece(band, &block, parities, &refused, fua, id).await;
                assert!(taken_back.is_some(), "of one block it is known who can tell it");
            }
        }
        for member in band.stripe.members() {
            self.copy_to_its_twin(member, band.range.clone()).await;
        }
    }

    /// As [`take_back`](Array::take_back), of a piece in which each member is current or is not. `None`, and nothing is
    /// done, if it is of several blocks and some member cannot tell what it holds.
    async fn take_back_piece(
        &self,
        band: &Band,
        piece: &Range<Bytes>,
        parities: &[(usize, Data)],
        refused: &Refused<'_>,
        fua: bool,
        id: u64,
    ) -> Option<()> {
        let (skip, length) = (piece.start - band.range.start, piece.end - piece.start);
        let part = |all: &[(usize, Data)]| -> Vec<(usize, Data)> {
            all.iter().map(|(member, data)| (*member, data.slice(skip, length))).collect()
        };
        let (band, parities) = (band.part(piece.clone(), band.written.clone()), part(parities));
        let before = part(refused.parities_before);
        if !refused.data_were_sent && before.len() == parities.len() {
            for (member, parity) in &before {
                let (parity, again) = (parity.bytes().expect("it was read"), refused.by.contains(member));
                self.restore_or_give_up(*member, piece, parity, again, (fua, id)).await;
            }
            return Some(());
        }
        let mut there = Vec::new();
        for (member, _) in parities.iter() {
            there.push(self.held(*member, piece, id).await);
        }
        let Fitting { parities: fitting, unreadable } =
            self.parities_that_fit(&band, &parities, refused, (fua, id)).await;
        if !unreadable.is_empty() && length > self.block() {
            return None;
        }
        let slice = |block: &Range<Bytes>| (block.start - piece.start).as_usize()..(block.end - piece.start).as_usize();
        // Of data that were not sent nothing has changed where no parity has: what a missing member held is told by the
        // old one.
        let has_changed = |block: &Range<Bytes>| {
            let took = |(there, (_, new)): (&Option<Buffer>, &(usize, Data))| {
                let there = there.as_ref().and_then(Buffer::bytes).map(|there| &there[slice(block)]);
                there.is_none() || there == new.bytes().map(|new| &new[slice(block)])
            };
            there.iter().zip(&parities).any(took)
        };
        if !unreadable.is_empty() {
            let took_it = |member: usize| {
                let told = !unreadable.contains(&member) && self.members[member].is_current(piece);
                refused.data_were_sent && told && !refused.by.contains(&member)
            };
            let any_took_it = band.written.clone().any(|index| took_it(band.stripe.data_member(index)));
            if !any_took_it && !has_changed(piece) {
                return Some(());
            }
            // What it should hold is what the parities say: the new bytes.
            unreadable.iter().for_each(|member| self.give_up_range(*member, piece.clone()));
        }
        if refused.data_were_sent {
            for (member, parity) in &fitting {
                self.restore_or_give_up(*member, piece, parity, refused.by.contains(member), (fua, id)).await;
            }
            return Some(());
        }
        for block in self.blocks(piece.clone()).into_iter().filter(has_changed) {
            let (mut lacking, mut any_fits) = (Vec::new(), false);
            for (member, parity) in &fitting {
                let again = refused.by.contains(member);
                let restored = self.restore(*member, &block, &parity[slice(&block)], again, (fua, id)).await;
                any_fits |= restored.lacking.is_empty();
                lacking.extend(restored.lacking.into_iter().map(|run| (*member, run)));
            }
            // Where none could be, none was: a parity that did not change by the write looks as if it had been stored.
            if any_fits {
                lacking.into_iter().for_each(|(member, run)| self.give_up_range(member, run));
            }
        }
        Some(())
    }

    /// The parities of a band of what its members hold now, where they did not get the new data, and members that
    /// should be able to tell and cannot.
    async fn parities_that_fit(
        &self,
        band: &Band,
        parities: &[(usize, Data)],
        refused: &Refused<'_>,
        (fua, id): (bool, u64),
    ) -> Fitting {
        let bytes = |(member, parity): &(usize, Data)| (*member, parity.bytes().expect("no model is full").to_vec());
        let mut fitting = Fitting { parities: parities.iter().map(bytes).collect(), unreadable: Vec::new() };
        for index in band.written.clone() {
            let member = band.stripe.data_member(index);
            let was_sent = refused.data_were_sent && !refused.by.contains(&member);
            // What a missing member should hold is what the parities say: the new bytes. So it is where it could not be
            // rebuilt.
            if was_sent || !self.members[member].is_current(&band.range) {
                continue;
            }
            let Some(there) = self.held(member, &band.range, id).await else {
                fitting.unreadable.push(member);
                continue;
            };
            let (new, there) = (band.bytes(index).expect("no model is full"), there.bytes().expect("it was read"));
            if refused.data_were_sent {
                self.restore(member, &band.range, there, true, (fua, id)).await;
            }
            for (of, parity) in &mut fitting.parities {
                self.add_to_parity(&band.stripe, *of, index, new, parity);
                self.add_to_parity(&band.stripe, *of, index, there, parity);
            }
        }
        fitting
    }

    /// Copies what a member holds to the device that is to replace it: that may have had room for what the member
    /// refused.
    async fn copy_to_its_twin(&self, member: usize, range: Range<Bytes>) {
        if let Some(twin) = self.members[member].twin().filter(|twin| twin.takes_writes(&range)) {
            self.copy_to_twin(member, &twin, range).await;
        }
    }

    /// [Restores](Array::restore) a range, but for what there is no room for.
    async fn restore_or_give_up(
        &self,
        member: usize,
        range: &Range<Bytes>,
        bytes: &[u8],
        again: bool,
        how: (bool, u64),
    ) {
        for run in self.restore(member, range, bytes, again, how).await.lacking {
            self.give_up_range(member, run);
        }
    }

    /// What a member holds, if it can be read.
    async fn held(&self, member: usize, range: &Range<Bytes>, id: u64) -> Option<Buffer> {
        let into = Buffer::zeroed(range.end - range.start);
        let (there, result) = self.members[member].read(range.start, into, id).await;
        result.inspect_err(|error| self.judge(member, error)).ok().map(|()| there)
    }

    /// Makes a member hold these bytes: writes the blocks that differ from what is there, and the others `again` if it
    /// has not acknowledged them. One of these for which there is no room was never written, and holds zeroes.
    async fn restore(
        &self,
        member: usize,
        range: &Range<Bytes>,
        bytes: &[u8],
        again: bool,
        (fua, id): (bool, u64),
    ) -> Restored {
        let this = &self.members[member];
        let mut restored = Restored::default();
        if !this.takes_writes(range) {
            return restored;
        }
        let there = self.held(member, range, id).await;
        let there = there.as_ref().and_then(Buffer::bytes);
        let slice = |block: &Range<Bytes>| (block.start - range.start).as_usize()..(block.end - range.start).as_usize();
        let differs = |block: &Range<Bytes>| there.is_none_or(|there| there[slice(block)] != bytes[slice(block)]);
        let (different, same): (Vec<_>, Vec<_>) = self.blocks(range.clone()).into_iter().partition(differs);
        for run in joined(different) {
            match this.write(run.start, frozen(&bytes[slice(&run)]), fua, id).await {
                Ok(()) => {}
                Err(DeviceError::NoSpace) => restored.lacking.push(run),
                Err(error) => self.could_not_store(member, &error),
            }
        }
        for block in same.into_iter().filter(|_| again) {
            match this.write(block.start, frozen(&bytes[slice(&block)]), fua, id).await {
                Ok(()) | Err(DeviceError::NoSpace) => {}
                Err(error) => self.could_not_store(member, &error),
            }
        }
        restored
    }

    /// What a member holds there is not what it should, and there is no room to make it so: it is not read until it is
    /// written.
    pub(crate) fn give_up_range(&self, member: usize, range: Range<Bytes>) {
        self.room.lacked();
        if self.members[member].takes_writes(&range) {
            self.members[member].mark_bad(range);
        }
    }

    /// Makes copies alike after some members had no room for theirs, if any can say what was there. The caller holds
    /// the unit's lock.
    pub(crate) async fn take_back_copies(&self, written: &[Written], data: &Data, fua: bool, id: u64) {
        self.room.lacked();
        let range_of = |place: &Place, piece: &Range<Bytes>| place.offset + piece.start..place.offset + piece.end;
        let whole = Bytes::ZERO..data.len();
        let is_bad = |(place, _): &Written| self.members[place.member].is_bad(&range_of(place, &whole));
        let blocks = || self.blocks(whole.clone());
        let pieces = if written.iter().any(is_bad) { blocks() } else { vec![whole.clone()] };
        for piece in pieces {
            if self.take_back_copies_of(written, &piece, data, fua, id).await.is_some() {
                continue;
            }
            for block in self.blocks(piece) {
                let taken_back = self.take_back_copies_of(written, &block, data, fua, id).await;
                assert!(taken_back.is_some(), "of one block it is known who can tell it");
            }
        }
        for (place, _) in written {
            self.copy_to_its_twin(place.member, range_of(place, &whole)).await;
        }
    }

    /// As [`take_back_copies`](Array::take_back_copies), of a piece of the data in which each copy is current or is
    /// not. `None`, and nothing is done, if it is of several blocks and some copy cannot be read.
    async fn take_back_copies_of(
        &self,
        written: &[Written],
        piece: &Range<Bytes>,
        data: &Data,
        fua: bool,
        id: u64,
    ) -> Option<()> {
        let data = data.slice(piece.start, piece.end - piece.start);
        let range_of = |place: &Place| place.offset + piece.start..place.offset + piece.end;
        let (mut refused, mut stored): (Few<(Place, Buffer)>, Few<Place>) = (Few::new(), Few::new());
        for (place, result) in written {
            let range = range_of(place);
            match result {
                Ok(()) => stored.push(*place),
                Err(DeviceError::NoSpace) if self.members[place.member].is_current(&range) => {
                    match self.held(place.member, &range, id).await {
                        Some(there) => refused.push((*place, there)),
                        None if data.len() > self.block() => return None,
                        None => self.give_up_range(place.member, range),
                    }
                }
                // One that was bad there before is bad still.
                Err(_) => {}
            }
        }
        let (Some((_, first)), Some(new)) = (refused.first(), data.bytes()) else { return Some(()) };
        let mut right = first.bytes().expect("it was read").to_vec();
        let block = self.block().as_usize();
        for (number, right) in right.chunks_mut(block).enumerate() {
            let slice = number * block..(number + 1) * block;
            let there = refused.iter().map(|(_, there)| &there.bytes().expect("it was read")[slice.clone()]);
            // What any of them still has; a block that all of them took is the new one.
            if let Some(old) = there.into_iter().find(|there| **there != new[slice.clone()]) {
                right.copy_from_slice(old);
            }
        }
        let all = refused.iter().map(|(place, _)| (place, true)).chain(stored.iter().map(|place| (place, false)));
        for (place, again) in all {
            self.restore_or_give_up(place.member, &range_of(place), &right, again, (fua, id)).await;
        }
        Some(())
    }
}
