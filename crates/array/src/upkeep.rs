//! Upkeep: rebuilding a member, and checking that redundancy holds (scrubbing).
//!
//! Both walk the units of the array in order, each under its lock, so that the array serves meanwhile. A rebuild's mark
//! moves with it: what lies before it is current on the new member, what lies behind is computed as if the member were
//! gone.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use device::{Buffer, Device, DeviceError};
use parity::{Verdict, locate};
use units::Bytes;

use crate::array::Array;
use crate::few::side_by_side;
use crate::geometry::{Level, Place, Role};
use crate::integrity::kept::Kept;
use crate::md::{Superblock, Uuid, is_write_mostly};
use crate::member::{Member, MemberState};
use crate::misfit::{Misfit, note};
use crate::pace::Walk;

/// What to do with a stripe whose parity does not fit its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// Count it.
    No,
    /// Level 6: mend the block that is wrong, if it can be told. Elsewhere, and where it cannot be told: count it.
    WhatIsWrong,
    /// Believe the data (at levels 1 and 10 the first copy), and compute the rest from them. After a power cut this is
    /// the only right way: a stripe that was being written may look as if one block were wrong, and mending that would
    /// invent data.
    BelieveData,
}

impl Repair {
    /// What is usual where a scrub is to repair: level 6 tells which block is wrong; elsewhere the data are believed,
    /// as md does.
    pub fn usual(repair: bool, level: Level) -> Repair {
        match (repair, level.parities()) {
            (false, _) => Repair::No,
            (true, 2) => Repair::WhatIsWrong,
            (true, _) => Repair::BelieveData,
        }
    }
}

/// A device that takes the place of a member.
pub(crate) struct Newcomer<D> {
    pub device: Rc<D>,
    /// Where its data begin.
    pub data_offset: Bytes,
    /// Of the device, in its superblock.
    pub identity: Uuid,
    /// The number that it has in the array already, as a spare or a member that was away.
    pub number: Option<usize>,
    /// What was asked of the device for good, as its superblock keeps it: write-mostly, failfast.
    pub flags: u8,
    /// Its superblock as it was read, if it was the member that it is to be, and keeps what the bitmap does not mark.
    pub returns: Option<Superblock>,
}

impl<D> Newcomer<D> {
    /// One that the array knows, as its superblock says.
    pub fn known(device: Rc<D>, superblock: &Superblock) -> Newcomer<D> {
        let (data_offset, identity) = (superblock.data_offset, superblock.member);
        let (number, flags) = (Some(superblock.number as usize), superblock.member_flags);
        Newcomer { device, data_offset, identity, number, flags, returns: None }
    }
}

/// A number that is promised to a newcomer until it is dropped.
pub(crate) struct Promise<'a> {
    promised: &'a RefCell<Vec<usize>>,
    number: usize,
}

impl<'a> Promise<'a> {
    pub fn new(promised: &'a RefCell<Vec<usize>>, number: usize) -> Promise<'a> {
        promised.borrow_mut().push(number);
        Promise { promised, number }
    }
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        self.promised.borrow_mut().retain(|promised| *promised != self.number);
    }
}

/// Who has a member's place, before the members say so. If whoever put it there gives up, it has failed: filled, it
/// would count, and nobody would know.
struct Untold<'a, D: Device>(Option<&'a Member<D>>);

impl<D: Device> Untold<'_, D> {
    fn told(mut self) {
        self.0 = None;
    }
}

impl<D: Device> Drop for Untold<'_, D> {
    fn drop(&mut self) {
        if let Some(member) = self.0 {
            member.set_state(MemberState::Failed);
        }
    }
}

/// What a scrub found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scrubbed {
    /// Blocks of the array (of 512 bytes, or of the members' blocks if these are larger) whose redundancy did not fit.
    pub mismatches: u64,
    /// Of these, those of which it can be told on which member the block is wrong: how many on each.
    pub located: Vec<u64>,
    /// Where the first ones are, in order of addresses.
    pub misfits: Vec<Misfit>,
    /// Located and mended: how many on each member.
    pub mended: Vec<u64>,
    /// Mended by believing the data.
    pub believed: u64,
    /// Blocks that did not fit their checksums, by member: computed from the others and written again, unless they are
    /// unreadable.
    pub corrupt: Vec<u64>,
    /// Units that could not be read whole, nor mended.
    pub unreadable: u64,
    /// Where in the array these are, in order of addresses.
    pub unread: Vec<Range<Bytes>>,
    /// Units of which one copy is left, which was compared with nothing.
    pub single: u64,
    /// Where in the array it ended: at the end, or where whoever [watches](Array::watch) ended it.
    pub upto: Bytes,
}

impl<D: Device> Array<D> {
    /// Puts `device`, whose data begin at `data_offset`, in the place of a failed member and fills it. Gives the ranges
    /// of the array that could not be computed; they are marked and read as errors until they are written.
    pub async fn rebuild(
        &self,
        member: usize,
        device: D,
        data_offset: Bytes,
        identity: Uuid,
    ) -> Result<Vec<Range<Bytes>>, DeviceError> {
        let device = Rc::new(device);
        let new = Newcomer { device, data_offset, identity, number: None, flags: 0, returns: None };
        self.fill(member, new).await
    }

    /// As [`Array::rebuild`], of a device that may have a number in the array already.
    pub(crate) async fn fill(&self, member: usize, new: Newcomer<D>) -> Result<Vec<Range<Bytes>>, DeviceError> {
        self.put_in_place(member, new).await?;
        self.resume_rebuild(member).await
    }

    /// Puts a device in the place of a failed member; nothing of it counts as current. Gives the sums that it keeps, if
    /// it returns with some.
    pub(crate) async fn put_in_place(&self, member: usize, new: Newcomer<D>) -> Result<Option<Kept>, DeviceError> {
        let _promise = new.number.map(|number| Promise::new(&self.promised, number));
        self.give_place(member, new).await
    }

    async fn give_place(&self, member: usize, new: Newcomer<D>) -> Result<Option<Kept>, DeviceError> {
        let Newcomer { device, data_offset, identity, number, flags, returns } = new;
        self.check_member_room(member, &device, data_offset)?;
        if self.geometry.level().losses_survived(self.members.len()) == 0 {
            return Err(DeviceError::Unsupported);
        }
        // The old member's failure is recorded first, or its superblock would stand beside the new one's. So is that it
        // is missing, if it merely was when the array was opened: it may be this very device, and while it is called
        // current its log must be what it was.
        self.settle().await?;
        self.disown_missing().await?;
        self.members[member].replace(device, data_offset);
        self.members[member].set_last(is_write_mostly(flags));
        let newcomer = Untold(Some(&self.members[member]));
        let placed = async {
            let kept = match &returns {
                Some(superblock) => self.keep_checksums(member, superblock).await?,
                None => None,
            };
            if kept.is_none() {
                self.new_checksums(member, data_offset, identity).await?;
            }
            self.copy_bitmap(member).await?;
            self.new_log(member, !self.is_resync_due()).await?;
            let data_size = kept.as_ref().map_or(self.geometry.used_of(member), |kept| kept.data_size);
            let data = data_offset..data_offset + data_size;
            self.record_replacement(member, data, identity, (number, flags), returns.as_ref()).await?;
            Ok(kept)
        };
        let placed = placed.await.inspect_err(|error| self.lose(member, error))?;
        newcomer.told();
        Ok(placed)
    }

    /// Goes on with a rebuild where its mark is. Nothing happens to a member that is not being rebuilt. If whoever
    /// [watches](Array::watch) ends it, the member stays [`MemberState::Rebuilding`].
    pub async fn resume_rebuild(&self, member: usize) -> Result<Vec<Range<Bytes>>, DeviceError> {
        self.fill_where(member, |_, _| true).await
    }

    /// As [`Array::resume_rebuild`], of the ranges of the member that are `wanted`: all others are current on it. It is
    /// asked of each while nobody writes there.
    pub(crate) async fn fill_where(
        &self,
        member: usize,
        wanted: impl Fn(Bytes, Bytes) -> bool,
    ) -> Result<Vec<Range<Bytes>>, DeviceError> {
        let this = &self.members[member];
        let MemberState::Rebuilding(from) = this.state() else { return Ok(Vec::new()) };
        self.claim().await?;
        let mut lost = Vec::new();
        let lose = |error: &DeviceError| self.lose(member, error);
        let fill = async |unit: Range<Bytes>, walk: &Walk| {
            if !wanted(unit.start, unit.end) {
                // As it was when it left.
                walk.spare(unit.end - unit.start);
                return Ok(Vec::new());
            }
            let Some(bytes) = self.contents_of(member, unit.clone()).await else {
                return self.rebuild_blocks(member, unit).await.inspect_err(lose);
            };
            let bytes = bytes.freeze();
            this.write(unit.start, bytes.clone(), false, 0).await.inspect_err(lose)?;
            self.pool.take_back(bytes);
            Ok(Vec::new())
        };
        let pass = |upto: Bytes, without: Vec<Range<Bytes>>| {
            lost.extend(without);
            match this.state() {
                MemberState::Rebuilding(_) => this.set_state(MemberState::Rebuilding(upto)),
                _ => return Err(this.cause().unwrap_or(DeviceError::Gone)),
            }
            Ok(())
        };
        let record = async |upto: Bytes| {
            self.flush_rebuilt(member).await.inspect_err(lose)?;
            self.record_mark(member, upto).await
        };
        if self.along_member(member, from, fill, pass, record).await? {
            self.flush_rebuilt(member).await.inspect_err(lose)?;
            self.record_rebuilt(member).await?;
        }
        Ok(lost)
    }

    /// Fills what can be computed of a range, block by block, and marks the rest. Gives what of the array that is.
    async fn rebuild_blocks(&self, member: usize, range: Range<Bytes>) -> Result<Vec<Range<Bytes>>, DeviceError> {
        let mut lost: Vec<Range<Bytes>> = Vec::new();
        for block in self.blocks(range) {
            if let Some(bytes) = self.contents_of(member, block.clone()).await {
                self.members[member].write(block.start, bytes.freeze(), false, 0).await?;
                continue;
            }
            if let Role::Data(address) = self.geometry.role(member, block.start) {
                let end = address + (block.end - block.start);
                match lost.last_mut() {
                    Some(last) if last.end == address => last.end = end,
                    _ => lost.push(address..end),
                }
            }
            self.members[member].mark_bad(block);
        }
        Ok(lost)
    }

    /// Makes a rebuilt range durable, and what it was computed from: a power cut must not leave the one without the
    /// other.
    ///
    /// The journal is emptied: where the member was not yet rebuilt, entries hold zeroes in place of its parity, and
    /// replaying them onto a member that is by then would spoil it.
    async fn flush_rebuilt(&self, member: usize) -> Result<(), DeviceError> {
        self.flush_members(0).await?;
        self.close_journal().await?;
        let this = &self.members[member];
        if this.state() == MemberState::Failed { Err(this.cause().unwrap_or(DeviceError::Gone)) } else { Ok(()) }
    }

    /// What a member should hold in a range of one unit, from the others; `None` if they cannot tell. The caller holds
    /// the lock.
    pub(crate) async fn contents_of(&self, member: usize, range: Range<Bytes>) -> Option<Buffer> {
        let length = range.end - range.start;
        let role = self.geometry.role(member, range.start);
        if self.geometry.level().parities() > 0 {
            let row = range.start / self.geometry.chunk();
            let stripe = self.geometry.stripe(row);
            let mut missing: Vec<usize> = stripe.members().filter(|m| !self.members[*m].is_current(&range)).collect();
            loop {
                match self.recover(&stripe, &range, missing.clone(), false, 0).await {
                    Ok(all) => return Some(all.take(member)),
                    Err(another) if missing.contains(&another) => return None,
                    Err(another) => missing.push(another),
                }
            }
        }
        let Role::Data(address) = role else { return Some(Buffer::zeroed(length)) };
        let mut places: Vec<Place> =
            (0..self.geometry.copies()).map(|copy| self.geometry.copy(address, copy)).collect();
        places.sort_by_key(|place| self.members[place.member].is_last());
        for place in places {
            let there = place.offset..place.offset + length;
            if place.member == member || !self.members[place.member].is_current(&there) {
                continue;
            }
            let (buffer, result) = self.members[place.member].read(place.offset, Buffer::zeroed(length), 0).await;
            match result {
                Ok(()) => return Some(buffer),
                Err(error) => self.judge(place.member, &error),
            }
        }
        None
    }

    /// Whether there is enough of the array to compare: copies with one another, but parity only with all data.
    pub(crate) fn can_be_scrubbed(&self) -> bool {
        self.is_complete() || self.geometry.level().parities() == 0
    }

    /// Reads everything and compares data with their redundancy: what there is of copies; with parity only in a
    /// complete array, so that it ends with an error where a member fails. Sectors that cannot be read are mended on
    /// the way, whatever `repair` says.
    pub async fn scrub(&self, repair: Repair) -> Result<Scrubbed, DeviceError> {
        self.scrub_range(repair, Bytes::ZERO..self.geometry.size()).await
    }

    /// As [`Array::scrub`], from the row or chunk on that holds an address of the array: where another one ended, or
    /// anywhere else.
    pub async fn scrub_from(&self, repair: Repair, from: Bytes) -> Result<Scrubbed, DeviceError> {
        let unit = self.unit_size();
        self.scrub_range(repair, unit * (from / unit)..self.geometry.size()).await
    }

    /// As [`Array::scrub`], of the rows or chunks that begin in a range of the array: a scrub can go on where it ended.
    pub async fn scrub_range(&self, repair: Repair, range: Range<Bytes>) -> Result<Scrubbed, DeviceError> {
        self.claim().await?;
        // The unit that holds the byte before the range belongs to the part before.
        let start = match range.start {
            Bytes::ZERO => Bytes::ZERO,
            start => self.unit(start - Bytes::new(1)).1,
        };
        self.scrub_where(start..range.end.min(self.geometry.size()), repair, |_| true).await
    }

    /// As [`Array::scrub`], from an address on that a unit begins at to the end of a range, of units whose range of the
    /// array is `wanted`.
    pub(crate) async fn scrub_where(
        &self,
        range: Range<Bytes>,
        repair: Repair,
        wanted: impl Fn(Range<Bytes>) -> bool,
    ) -> Result<Scrubbed, DeviceError> {
        let none = vec![0; self.members.len()];
        let mut found = Scrubbed { located: none.clone(), mended: none, upto: range.start, ..Scrubbed::default() };
        let corrupt = || self.members.iter().map(|member| member.counts().corrupt);
        let before: Vec<u64> = corrupt().collect();
        let walk = self.walk(range.start, range.end.max(range.start));
        let syncs = repair == Repair::BelieveData && self.geometry.copies() > 1;
        while found.upto < range.end {
            let (unit, end) = self.unit(found.upto);
            if !wanted(found.upto..end) {
                walk.spare(end - found.upto);
                found.upto = end;
                continue;
            }
            {
                let _lock = self.locks.lock(unit).await;
                // What a failed member holds is stale: comparing with it, let alone believing it, would spread that.
                if !self.can_be_scrubbed() {
                    return Err(DeviceError::Gone);
                }
                let mut blocks = self.redundant_blocks(found.upto..end).await;
                if blocks.is_none() && self.mend_unit(found.upto..end).await {
                    blocks = self.redundant_blocks(found.upto..end).await;
                }
                match blocks {
                    Some(blocks) => {
                        let parities = self.geometry.level().parities();
                        self.pay(blocks.len() - parities, parities, blocks[0].1.len(), 0).await;
                        found.single += u64::from(self.geometry.copies() > 1 && blocks.len() == 1);
                        self.scrub_unit(unit, found.upto..end, blocks, repair, &mut found).await;
                        if syncs && self.is_resync_due() {
                            self.synced.pass(found.upto..end);
                        }
                    }
                    None => {
                        found.unreadable += 1;
                        match found.unread.last_mut() {
                            Some(last) if last.end == found.upto => last.end = end,
                            _ => found.unread.push(found.upto..end),
                        }
                    }
                }
            }
            found.upto = end;
            self.secure_passed().await?;
            if !self.advance(&walk, end).await {
                break;
            }
        }
        found.corrupt = corrupt().zip(before).map(|(now, before)| now - before).collect();
        // What was mended is bad no more, and what could not be is: the members say so before anybody is told.
        self.settle().await?;
        Ok(found)
    }

    /// Computes what cannot be read of a unit, or could not be rebuilt, and writes it again, block by block; says
    /// whether there was something to mend. While parity is not known to fit, data are not computed from it: after a
    /// power cut that would invent some. (Members with checksums know where nothing was being written.)
    async fn mend_unit(&self, range: Range<Bytes>) -> bool {
        let mut mended = false;
        for place in self.places_of(range) {
            for block in self.blocks(place.offset..place.offset + place.run) {
                let holds_data = matches!(self.geometry.role(place.member, block.start), Role::Data(_));
                let parities = self.geometry.level().parities();
                if holds_data && parities > 0 && self.is_resync_due() && !self.was_quiet(&block) {
                    continue;
                }
                let (this, length) = (&self.members[place.member], block.end - block.start);
                let lost = this.is_bad(&block) || {
                    let (_, result) = this.read(block.start, Buffer::zeroed(length), 0).await;
                    matches!(result, Err(DeviceError::Medium { .. }))
                };
                if !lost {
                    continue;
                }
                if let Some(bytes) = self.contents_of(place.member, block.clone()).await {
                    let place = Place { offset: block.start, run: length, ..place };
                    self.mend(vec![place], bytes, 0).await;
                    mended = true;
                }
            }
        }
        mended
    }

    /// Where the parts of a unit lie that belong together: a stripe by member, or the copies on members that have come
    /// so far.
    pub(crate) fn places_of(&self, range: Range<Bytes>) -> Vec<Place> {
        let length = range.end - range.start;
        if self.geometry.level().parities() > 0 {
            let (offset, run) = (self.geometry.chunk() * self.unit(range.start).0, self.geometry.chunk());
            (0..self.members.len()).map(|member| Place { member, offset, run }).collect()
        } else {
            let copy = |copy| Place { run: length, ..self.geometry.copy(range.start, copy) };
            let there = |place: &Place| self.members[place.member].takes_writes(&(place.offset..place.offset + length));
            let mut places: Vec<Place> = (0..self.geometry.copies()).map(copy).filter(there).collect();
            // The first is the one to believe.
            places.sort_by_key(|place| self.members[place.member].is_last());
            places
        }
    }

    /// All blocks that belong together in a unit, with their places. `None` if one cannot be read, or could not be
    /// rebuilt: what lies there is no part of the array, and must not be compared with the rest, let alone believed.
    async fn redundant_blocks(&self, range: Range<Bytes>) -> Option<Vec<(Place, Buffer)>> {
        let places = self.places_of(range);
        let is_bad = |place: &Place| self.members[place.member].is_bad(&(place.offset..place.offset + place.run));
        if places.is_empty() || places.iter().any(is_bad) {
            return None;
        }
        let read = |place: Place| {
            let into = self.used_memory(place.run, false);
            async move { (place, self.members[place.member].read(place.offset, into, 0).await) }
        };
        let block = |(place, (buffer, result)): (Place, (Buffer, Result<(), DeviceError>))| {
            result.inspect_err(|error| self.judge(place.member, error)).ok().map(|()| (place, buffer))
        };
        let read: Vec<Option<(Place, Buffer)>> =
            side_by_side(places.into_iter().map(read)).await.into_iter().map(block).collect();
        read.into_iter().collect()
    }

    /// Judges a unit block by block: errors of two members are both found if they lie in different blocks.
    async fn scrub_unit(
        &self,
        row: u64,
        range: Range<Bytes>,
        blocks: Vec<(Place, Buffer)>,
        repair: Repair,
        found: &mut Scrubbed,
    ) {
        let block = self.block();
        let length = block.as_usize();
        for number in 0..blocks[0].1.len() / block {
            let at = block * number;
            let slice = |index: usize| &blocks[index].1.bytes().expect("it was read")[at.as_usize()..][..length];
            // What each block should be, where it is not: index of the block, bytes, and whether it is known to be
            // wrong.
            let mut fixes: Vec<(usize, Vec<u8>, bool)> = Vec::new();
            if self.geometry.level().parities() == 0 {
                let wrong = (1..blocks.len()).filter(|index| slice(*index) != slice(0));
                fixes.extend(wrong.map(|index| (index, slice(0).to_vec(), false)));
            } else {
                let stripe = self.geometry.stripe(row);
                let data: Vec<Option<&[u8]>> =
                    (0..stripe.data()).map(|index| Some(slice(stripe.data_member(index)))).collect();
                let data = self.in_order_of_powers(&stripe, &data);
                let (mut p, mut q) = (vec![0; length], vec![0; length]);
                self.kernel.both_parities(&data, &mut p, &mut q);
                let believe = repair == Repair::BelieveData;
                match stripe.q() {
                    Some(of_q) if believe => {
                        let wrong =
                            [(stripe.p(), p), (of_q, q)].into_iter().filter(|(member, right)| right != slice(*member));
                        fixes.extend(wrong.map(|(member, right)| (member, right, false)));
                    }
                    None if p != slice(stripe.p()) => fixes.push((stripe.p(), p, false)),
                    None => {}
                    Some(of_q) => match locate(self.kernel, &data, slice(stripe.p()), slice(of_q)) {
                        Verdict::Consistent => {}
                        Verdict::Wrong(block) if block == data.len() => fixes.push((stripe.p(), p, true)),
                        Verdict::Wrong(block) if block == data.len() + 1 => fixes.push((of_q, q, true)),
                        Verdict::Wrong(power) => {
                            match (0..stripe.data()).find(|index| stripe.power_of(*index) == power) {
                                // The difference of P is the error itself.
                                Some(index) => {
                                    let member = stripe.data_member(index);
                                    let mut right = slice(member).to_vec();
                                    self.kernel.add(&[&p, slice(stripe.p())], &mut right);
                                    fixes.push((member, right, true));
                                }
                                None => fixes.extend([(stripe.p(), p, false), (of_q, q, false)]),
                            }
                        }
                        Verdict::Unlocatable => fixes.extend([(stripe.p(), p, false), (of_q, q, false)]),
                    },
                }
            }
            if !fixes.is_empty() {
                found.mismatches += 1;
                let member = fixes.iter().find(|(.., known)| *known).map(|(index, ..)| blocks[*index].0.member);
                member.into_iter().for_each(|member| found.located[member] += 1);
                let of_array = |address: Bytes| address..address + block;
                let concerned = match member.map(|member| self.geometry.role(member, blocks[0].0.offset + at)) {
                    Some(Role::Data(address)) => of_array(address),
                    None if self.geometry.level().parities() == 0 => of_array(range.start + at),
                    _ => range.clone(),
                };
                note(&mut found.misfits, concerned, member);
            }
            for (index, bytes, known) in fixes {
                if repair == Repair::No || (repair == Repair::WhatIsWrong && !known) {
                    continue;
                }
                let place = blocks[index].0;
                let mut buffer = Buffer::zeroed(block);
                buffer.bytes_mut().expect("it is real").copy_from_slice(&bytes);
                let place = Place { offset: place.offset + at, run: block, ..place };
                self.mend(vec![place], buffer, 0).await;
                if known {
                    found.mended[place.member] += 1;
                } else {
                    found.believed += 1;
                }
            }
        }
        blocks.into_iter().for_each(|(_, buffer)| self.pool.give(buffer));
    }
}
