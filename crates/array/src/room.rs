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
    pub parities_before: &'a [(usize, Buffer)],
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
    /// Whether parity of a band has to be stored before its data are sent. (Models have no bytes, and no devices that
    /// are full.)
    pub(crate) fn stores_parity_first(&self, band: &Band) -> bool {
        let missing = || !self.all_plain() && !self.missing(&band.stripe, &band.range).is_empty();
        !band.is_phantom() && (self.room.is_short() || missing())
    }

    /// What the parities of a band are before it is written, where it must be known to take them back: there are
    /// several, they tell what a missing member holds, and one could be stored and another not.
    pub(crate) async fn parities_before(
        &self,
        band: &Band,
        parities: &[(usize, Data)],
        id: u64,
    ) -> Vec<(usize, Buffer)> {
        let is_missing = |index: usize| !self.members[band.stripe.data_member(index)].takes_writes(&band.range);
        let mut before = Vec::new();
        if parities.len() > 1 && band.written.clone().any(is_missing) {
            for (member, _) in parities.iter().filter(|(member, _)| self.members[*member].is_current(&band.range)) {
                before.extend(self.held(*member, &band.range, id).await.map(|parity| (*member, parity)));
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
        if !refused.data_were_sent && refused.parities_before.len() == parities.len() {
            for (member, parity) in refused.parities_before {
                let bytes = parity.bytes().expect("it was read");
                for run in self.restore(*member, &band.range, bytes, fua, id).await.lacking {
                    self.give_up_range(*member, run);
                }
            }
            return;
        }
        let Some(fitting) = self.parities_that_fit(band, parities, &refused, id).await else {
            parities.iter().for_each(|(member, _)| self.give_up_range(*member, band.range.clone()));
            return;
        };
        let mut there = Vec::new();
        for (member, _) in parities.iter().filter(|_| !refused.data_were_sent) {
            there.push(self.held(*member, &band.range, id).await);
        }
        let slice = |block: &Range<Bytes>| {
            (block.start - band.range.start).as_usize()..(block.end - band.range.start).as_usize()
        };
        // Of data that were not sent nothing has changed where no parity has: what a missing member held is told by the
        // old one.
        let has_changed = |block: &Range<Bytes>| {
            let took = |(there, (_, new)): (&Option<Buffer>, &(usize, Data))| {
                let there = there.as_ref().and_then(Buffer::bytes).map(|there| &there[slice(block)]);
                there.is_none() || there == new.bytes().map(|new| &new[slice(block)])
            };
            there.iter().zip(parities).any(took)
        };
        if refused.data_were_sent {
            for (member, parity) in &fitting {
                for run in self.restore(*member, &band.range, parity, fua, id).await.lacking {
                    self.give_up_range(*member, run);
                }
            }
            return;
        }
        for block in self.blocks(band.range.clone()).into_iter().filter(has_changed) {
            let (mut lacking, mut any_fits) = (Vec::new(), false);
            for (member, parity) in &fitting {
                let restored = self.restore(*member, &block, &parity[slice(&block)], fua, id).await;
                any_fits |= restored.lacking.is_empty();
                lacking.extend(restored.lacking.into_iter().map(|run| (*member, run)));
            }
            // Where none could be, none was: a parity that did not change by the write looks as if it had been stored.
            if any_fits {
                lacking.into_iter().for_each(|(member, run)| self.give_up_range(member, run));
            }
        }
    }

    /// The parities of a band of what its members hold now, where they did not get the new data. `None` if they cannot
    /// tell.
    async fn parities_that_fit(
        &self,
        band: &Band,
        parities: &[(usize, Data)],
        refused: &Refused<'_>,
        id: u64,
    ) -> Option<Vec<(usize, Vec<u8>)>> {
        let bytes = |(member, parity): &(usize, Data)| Some((*member, parity.bytes()?.to_vec()));
        let mut fitting = parities.iter().map(bytes).collect::<Option<Vec<(usize, Vec<u8>)>>>()?;
        for index in band.written.clone() {
            let member = band.stripe.data_member(index);
            let was_sent = refused.data_were_sent && !refused.by.contains(&member);
            // What a missing member should hold is what the parities say: the new bytes.
            if was_sent || !self.members[member].takes_writes(&band.range) {
                continue;
            }
            let there = self.held(member, &band.range, id).await?;
            for (of, parity) in &mut fitting {
                self.add_to_parity(&band.stripe, *of, index, band.bytes(index)?, parity);
                self.add_to_parity(&band.stripe, *of, index, there.bytes()?, parity);
            }
        }
        Some(fitting)
    }

    /// What a member holds, if it can be read.
    async fn held(&self, member: usize, range: &Range<Bytes>, id: u64) -> Option<Buffer> {
        let into = Buffer::zeroed(range.end - range.start);
        let (there, result) = self.members[member].read(range.start, into, id).await;
        result.inspect_err(|error| self.judge(member, error)).ok().map(|()| there)
    }

    /// Makes a member hold these bytes: writes the blocks that differ from what is there.
    async fn restore(&self, member: usize, range: &Range<Bytes>, bytes: &[u8], fua: bool, id: u64) -> Restored {
        let this = &self.members[member];
        let mut restored = Restored::default();
        if !this.takes_writes(range) {
            return restored;
        }
        let there = self.held(member, range, id).await;
        let there = there.as_ref().and_then(Buffer::bytes);
        let slice = |block: &Range<Bytes>| (block.start - range.start).as_usize()..(block.end - range.start).as_usize();
        let differs = |block: &Range<Bytes>| there.is_none_or(|there| there[slice(block)] != bytes[slice(block)]);
        let different: Vec<Range<Bytes>> = self.blocks(range.clone()).into_iter().filter(differs).collect();
        for run in joined(different) {
            match this.write(run.start, frozen(&bytes[slice(&run)]), fua, id).await {
                Ok(()) => {}
                Err(DeviceError::NoSpace) => restored.lacking.push(run),
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
    pub(crate) async fn take_back_copies(
        &self,
        written: &[(Place, Result<(), DeviceError>)],
        data: &Data,
        fua: bool,
        id: u64,
    ) {
        self.room.lacked();
        let range_of = |place: &Place| place.offset..place.offset + data.len();
        let (mut refused, mut stored): (Few<(Place, Buffer)>, Few<Place>) = (Few::new(), Few::new());
        for (place, result) in written {
            match result {
                Ok(()) => stored.push(*place),
                Err(DeviceError::NoSpace) if self.members[place.member].is_current(&range_of(place)) => {
                    let into = Buffer::zeroed(data.len());
                    match self.members[place.member].read(place.offset, into, id).await {
                        (there, Ok(())) => refused.push((*place, there)),
                        (_, Err(error)) => {
                            self.judge(place.member, &error);
                            self.give_up_range(place.member, range_of(place));
                        }
                    }
                }
                // One that was bad there before is bad still.
                Err(_) => {}
            }
        }
        let (Some((_, first)), Some(new)) = (refused.first(), data.bytes()) else { return };
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
        for place in refused.iter().map(|(place, _)| place).chain(&stored) {
            for run in self.restore(place.member, &range_of(place), &right, fua, id).await.lacking {
                self.give_up_range(place.member, run);
            }
        }
    }
}
