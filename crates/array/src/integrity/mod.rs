//! Checksums of what members hold: what a disk gives wrongly, without an error, is as good as unreadable, and is healed
//! alike.
//!
//! A member of an array made with them keeps a CRC-32C of each of its blocks behind its data ([`area`] has the format).
//! Every block that is read is held against its sum. One that does not fit (bit rot, a lost, misdirected or torn write,
//! a stale read) is read again, and if it still does not fit, the read fails as if the medium could not give it: so all
//! that is known about unreadable sectors applies at every level: they are computed from the others, written again,
//! counted; a rebuild goes around them, a scrub names their member. All of it is one layer beneath the member's reads
//! and writes, as dm-integrity is beneath md; above it nothing knows of checksums.
//!
//! # The order of data and sums
//! Data and their sum lie apart, so a power cut may keep one without the other. A sum that does not fit would then call
//! sound data corrupt, and healing them from parity that was being written would invent some. dm-integrity's journal
//! writes everything twice against that; its bitmap mode, which this follows, marks regions instead:
//!
//! 1. before the first write into a region, the header says durably that its sums may not fit;
//! 2. data are written; sums change in memory only, and are held against what is read as long as the array is open;
//! 3. a while after the last write ([`Array::tend`]), or at the stop, data are flushed, then the sums written, then the
//!    mark is taken away.
//!
//! After a cut the sums of marked regions are forgotten; a block whose sum is not known is taken as it is, and gets one
//! when it is read or written. So a small write costs no further I/O but in a cold region (one write of 4 KiB to each
//! member), and what goes wrong on the medium in a region that is being written *and* is not read before the power
//! goes, is not found. A header that is torn leaves the one before, in the other slot, which is enough: nothing was
//! written yet that it does not cover.
//!
//! # md
//! The area is behind the data that the superblock speaks of, and no feature bit says that it is there: md opens such
//! an array, and knows nothing of the sums. If it changed anything, it wrote the superblock, whose CRC the header
//! keeps: when it is not the one it was (or the one that was to come, after a cut between the two), all sums are
//! forgotten, counted as `renewed`, and begin anew.
//!
//! Rejected: a sum for each 4 KiB, a tenth of the room; a write of less would have to read the rest, and fail where
//! that is corrupt. Stored sums of sums (a tree, as in ZFS), which find a disk that lost data and sum together; a
//! mirror or parity finds that in a scrub.

pub(crate) mod area;
pub(crate) mod grow;
pub(crate) mod kept;
mod member;
mod region;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use device::{Buffer, Data, Device, DeviceError, Request};
use runtime::{Grant, Resource, Runtime, Signal};
use units::Bytes;

use crate::array::Array;
use crate::md::{MemberRole, Superblock, Uuid};
use crate::member::{Member, MemberState, Patient};
use area::{Header, Layout, PAGE, SUMS};

/// Memory for sums of a member, unless said otherwise: those of 8 GiB of data.
const MEMORY: Bytes = Bytes::mib(64);

/// The newest header on a member and its slot, if it has one, or why that is not known.
pub(crate) type FoundHeader = Result<Option<(Header, u64)>, DeviceError>;

/// The checksums of a member.
pub(crate) struct Checksums {
    layout: Layout,
    /// As it is to be written next.
    header: RefCell<Header>,
    /// The marks that the member has.
    durable: RefCell<Header>,
    /// The slot of the next header.
    slot: Cell<u64>,
    /// The sum of the superblock that the member has.
    superblock: Cell<u32>,
    /// The header does not say all that it should, and nothing depends on it.
    untold: Cell<bool>,
    pages: RefCell<BTreeMap<u64, Page>>,
    memory: Cell<Bytes>,
    /// Where the search for a page to give up goes on.
    hand: Cell<u64>,
    /// Blocks that are being written.
    writing: Spans,
    /// Blocks that are looked at again, without writes meanwhile.
    held: Spans,
    /// Blocks that did not fit and were not written since.
    wrong: RefCell<BTreeSet<u64>>,
    /// Regions that were marked when the array was opened: what was under way there is not known. `None` stands for
    /// all.
    suspect: RefCell<Option<BTreeSet<u64>>>,
    /// Regions written since the last look.
    touched: RefCell<BTreeSet<u64>>,
    /// One write of headers at a time.
    turn: Resource,
    /// One transfer of pages at a time.
    transfer: Resource,
    /// One closing of regions at a time: what was written while one of them flushes must not be taken for flushed by
    /// the other.
    closing: Resource,
    /// The device is no member's any more: no sum of it is asked for or written.
    retired: Cell<bool>,
}

/// Sums in memory.
struct Page {
    sums: Vec<u32>,
    /// The member has others.
    changed: bool,
}

/// Ranges in use.
#[derive(Default)]
struct Spans {
    ranges: RefCell<Vec<Range<u64>>>,
    fewer: Signal,
}

/// A range in use, until it is dropped.
struct Span<'a>(&'a Spans, Range<u64>);

impl Spans {
    fn touch(&self, range: &Range<u64>) -> bool {
        self.ranges.borrow().iter().any(|other| other.start < range.end && range.start < other.end)
    }
    fn add(&self, range: Range<u64>) -> Span<'_> {
        self.ranges.borrow_mut().push(range.clone());
        Span(self, range)
    }
    async fn leave(&self, range: &Range<u64>) {
        self.fewer.wait_until(|| !self.touch(range)).await;
    }
}

impl Drop for Span<'_> {
    fn drop(&mut self) {
        let mut ranges = self.0.ranges.borrow_mut();
        let at = ranges.iter().position(|range| *range == self.1).expect("a range in use is known");
        ranges.swap_remove(at);
        drop(ranges);
        self.0.fewer.notify();
    }
}

impl Checksums {
    fn new(runtime: &Runtime, layout: Layout, header: Header, slot: u64) -> Checksums {
        Checksums {
            layout,
            durable: RefCell::new(header.clone()),
            slot: Cell::new(slot),
            superblock: Cell::new(header.superblocks[1]),
            header: RefCell::new(header),
            untold: Cell::new(false),
            pages: RefCell::default(),
            memory: Cell::new(MEMORY),
            hand: Cell::new(0),
            writing: Spans::default(),
            held: Spans::default(),
            wrong: RefCell::default(),
            suspect: RefCell::new(None),
            touched: RefCell::default(),
            turn: Resource::new(runtime, 1),
            transfer: Resource::new(runtime, 1),
            closing: Resource::new(runtime, 1),
            retired: Cell::new(false),
        }
    }

    /// Waits for who transfers sums or headers, and keeps others from it.
    pub async fn hold(&self) -> (Grant, Grant) {
        let turn = self.turn.acquire(0).await;
        (turn, self.transfer.acquire(0).await)
    }

    /// Another device has the member's place.
    pub fn retire(&self) {
        self.retired.set(true);
    }

    /// Takes over from the device that had the place before what has to outlive it: where parity may not fit.
    pub fn inherit(&self, before: &Checksums, resync_due: bool) {
        self.memory.set(before.memory.get());
        let suspect = if resync_due { before.suspects_in(&self.layout) } else { Some(BTreeSet::new()) };
        let marked = suspect.clone().unwrap_or_else(|| (0..self.regions()).collect());
        // The mark is what says so after the next cut.
        marked.iter().for_each(|region| self.header.borrow_mut().mark(*region, true));
        self.untold.set(self.untold.get() || !marked.is_empty());
        *self.suspect.borrow_mut() = suspect;
    }

    /// The regions of another layout that hold something of those that were marked when the array was opened.
    fn suspects_in(&self, layout: &Layout) -> Option<BTreeSet<u64>> {
        let there = |region: &u64| {
            let blocks = self.layout.region_blocks(*region);
            let (start, end) = (self.layout.block * blocks.start, self.layout.block * blocks.end);
            let regions = layout.regions_of(&layout.blocks_of(start, end - start));
            // What one layout has of data behind the other's end, nobody uses.
            regions.start..regions.end.min(layout.blocks.div_ceil(layout.region))
        };
        self.suspect.borrow().as_ref().map(|all| all.iter().flat_map(there).collect())
    }

    /// Changes a sum in memory.
    fn set(&self, block: u64, sum: u32) {
        let mut pages = self.pages.borrow_mut();
        let page = pages.get_mut(&(block / SUMS)).expect("the pages of blocks that are written are in memory");
        page.sums[(block % SUMS) as usize] = sum;
        page.changed = true;
    }

    fn regions(&self) -> u64 {
        self.layout.blocks.div_ceil(self.layout.region)
    }
}

/// What a member's checksums have to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChecksumReport {
    /// Bytes of a block.
    pub block: Bytes,
    /// Blocks that were found not to fit, since the array was made.
    pub found: u64,
    /// Times that all sums were forgotten, as the array had been used without them.
    pub renewed: u64,
    /// Regions whose sums may not fit until the array is stopped or opened again.
    pub open_regions: u64,
}

/// What the checksums of a member with this superblock tell; `None` if it has none.
pub async fn checksums_of<D: Device>(
    device: &D,
    superblock: &Superblock,
) -> Result<Option<ChecksumReport>, DeviceError> {
    let layout = Layout::of(superblock, device.shape().logical_block);
    let Some((header, _)) = newest_header(device, &layout, superblock).await? else { return Ok(None) };
    Ok(Some(ChecksumReport {
        block: header.block,
        found: header.found,
        renewed: header.renewed,
        open_regions: header.marked(layout.blocks.div_ceil(layout.region)).count() as u64,
    }))
}

/// Gives the members of a new array (see [`format`](crate::format)) an area for checksums. There must be room for it
/// behind the data ([`checksum_room`](crate::checksum_room)): who makes the superblocks tells
/// [`create`](crate::md::create) of so much less.
pub async fn add_checksums<D: Device>(devices: &[D], superblocks: &[Superblock]) -> Result<(), DeviceError> {
    for (device, superblock) in devices.iter().zip(superblocks) {
        if matches!(superblock.role(), MemberRole::Active(_)) {
            let layout = Layout::of(superblock, device.shape().logical_block);
            let sum = area::superblock_sum(superblock);
            clear_area(device, &layout, &Header::new(&layout, superblock.array, superblock.member, sum)).await?;
        }
    }
    Ok(())
}

fn data(bytes: &[u8]) -> Data {
    let mut buffer = Buffer::zeroed(Bytes::new(bytes.len() as u64));
    buffer.bytes_mut().expect("it is real").copy_from_slice(bytes);
    buffer.freeze()
}

/// Makes an area in which no sum is known: first no header is valid, then no page says anything, then there is a
/// header.
async fn clear_area<D: Device>(device: &D, layout: &Layout, header: &Header) -> Result<(), DeviceError> {
    const STEP: Bytes = Bytes::mib(1);
    let size = device.shape().size;
    if layout.end() > size {
        let offset = layout.header_at(0);
        return Err(DeviceError::OutOfRange { offset, length: layout.end() - offset, size });
    }
    let zeroes = Buffer::zeroed(STEP).freeze();
    let mut at = layout.header_at(0);
    while at < layout.end() {
        let length = STEP.min(layout.end() - at);
        device.submit(Request::write(at, zeroes.slice(Bytes::ZERO, length)).with_fua()).await.result?;
        at += length;
    }
    device.submit(Request::write(layout.header_at(0), data(&header.to_bytes())).with_fua()).await.result
}

/// The newest sound header and its slot. One that cannot be read is as good as damaged.
async fn newest_header<D: Device>(
    device: &D,
    layout: &Layout,
    superblock: &Superblock,
) -> Result<Option<(Header, u64)>, DeviceError> {
    let mut newest: Option<(Header, u64)> = None;
    if layout.end() > device.shape().size {
        return Ok(None);
    }
    for slot in 0..2 {
        let reply = device.submit(Request::read(layout.header_at(slot), Buffer::zeroed(PAGE))).await;
        match reply.result {
            Ok(()) => {}
            Err(DeviceError::Medium { .. }) => continue,
            Err(error) => return Err(error),
        }
        let buffer = reply.buffer.expect("a read gives its buffer back");
        let header = Header::parse(buffer.bytes().expect("it is real")).filter(|it| it.fits(layout, superblock));
        if let Some(header) = header
            && newest.as_ref().is_none_or(|(newest, _)| newest.generation < header.generation)
        {
            newest = Some((header, slot));
        }
    }
    Ok(newest)
}

/// Has the checksums of a device know the superblock that it is to get, if they know the one that it has.
pub(crate) async fn retell<D: Device>(device: &D, said: &Superblock, now: &Superblock) -> Result<(), DeviceError> {
    let layout = Layout::of(said, device.shape().logical_block);
    let (before, after) = (area::superblock_sum(said), area::superblock_sum(now));
    let Some((mut header, slot)) = newest_header(device, &layout, said).await? else { return Ok(()) };
    if !header.superblocks.contains(&before) {
        return Ok(());
    }
    header.generation += 1;
    header.superblocks = [after, before];
    device.submit(Request::write(layout.header_at(1 - slot), data(&header.to_bytes())).with_fua()).await.result
}

impl<D: Device> Member<D> {
    /// Opens its checksums with the newest header there is, if that knows the superblock, which was read with this sum.
    /// Otherwise there is an area in which none is known, if there is room for one.
    async fn open_checksums(
        &self,
        superblock: &Superblock,
        sum: u32,
        layout: Layout,
        header: Option<(Header, u64)>,
    ) -> Result<(), DeviceError> {
        let Some(device) = self.device() else { return Ok(()) };
        let checksums = match header {
            Some((header, slot)) if header.superblocks.contains(&sum) => {
                Some(self.known_checksums(layout, (header, slot), sum).await?)
            }
            _ if layout.end() > device.shape().size => None,
            old => {
                let mut header = Header::new(&layout, superblock.array, superblock.member, sum);
                if let Some((old, _)) = old {
                    (header.generation, header.found, header.renewed) =
                        (old.generation + 1, old.found, old.renewed + 1);
                }
                clear_area(&Patient { member: self, device }, &layout, &header).await?;
                Some(Checksums::new(self.runtime(), layout, header, 1))
            }
        };
        self.set_checksums(checksums.map(Rc::new));
        Ok(())
    }

    /// The checksums of an area whose newest header, in this slot, knows the superblock, which was read with this sum:
    /// without those of the regions that are marked there.
    async fn known_checksums(
        &self,
        layout: Layout,
        (header, slot): (Header, u64),
        sum: u32,
    ) -> Result<Checksums, DeviceError> {
        let checksums = Checksums::new(self.runtime(), layout, header, 1 - slot);
        checksums.superblock.set(sum);
        self.forget_marked(&checksums).await?;
        Ok(checksums)
    }

    /// As [`open_checksums`](Member::open_checksums), of a device that is to replace a member which has some; with its
    /// superblock as it was read.
    pub(crate) async fn recall_checksums(&self, superblock: &Superblock) -> Result<(), DeviceError> {
        let Some(device) = self.device() else { return Ok(()) };
        let layout = Layout::of(superblock, device.shape().logical_block);
        let header = self.newest_header(&layout, superblock).await?;
        self.open_checksums(superblock, area::superblock_sum(superblock), layout, header).await
    }

    /// Gives a device of which nothing is current an area behind its data, in which no sum is known. Nothing was being
    /// written on it when the array was last left.
    pub(crate) async fn make_checksums(
        &self,
        array: Uuid,
        identity: Uuid,
        used: Bytes,
    ) -> Result<Option<Rc<Checksums>>, DeviceError> {
        let Some(device) = self.device() else { return Ok(None) };
        let layout = Layout::new(self.data_offset(), used, device.shape().logical_block);
        let header = Header::new(&layout, array, identity, 0);
        clear_area(&Patient { member: self, device }, &layout, &header).await?;
        let checksums = Rc::new(Checksums::new(self.runtime(), layout, header, 1));
        *checksums.suspect.borrow_mut() = Some(BTreeSet::new());
        self.set_checksums(Some(Rc::clone(&checksums)));
        Ok(Some(checksums))
    }
}

/// Where the checksums of a device end whose data lie there.
pub(crate) fn area_end(device: &impl Device, data_offset: Bytes, used: Bytes) -> Bytes {
    Layout::new(data_offset, used, device.shape().logical_block).end()
}

impl<D: Device> Array<D> {
    /// Whether members keep checksums.
    pub fn has_checksums(&self) -> bool {
        self.members.iter().any(|member| member.checksums().is_some())
    }

    /// Whether nothing was being written in a range of the members when the array was last left: parity fits there,
    /// stopped or not.
    pub(crate) fn was_quiet(&self, range: &Range<Bytes>) -> bool {
        self.members.iter().all(|member| {
            let Some(checksums) = member.checksums() else { return false };
            let regions =
                checksums.layout.regions_of(&checksums.layout.blocks_of(range.start, range.end - range.start));
            checksums.suspect.borrow().as_ref().is_some_and(|all| !all.iter().any(|region| regions.contains(region)))
        })
    }

    /// How much memory each member's checksums may take; 64 MiB unless said otherwise, the sums of 8 GiB of data.
    /// Others are read when they are needed.
    pub fn set_checksum_memory(&self, memory: Bytes) {
        for checksums in self.members.iter().filter_map(|member| member.checksums()) {
            checksums.memory.set(memory);
        }
    }

    /// Looks for the checksums of the members with these superblocks. Nothing is written.
    pub(crate) async fn find_checksums(&self, superblocks: &[Option<Superblock>]) -> Vec<Option<FoundHeader>> {
        let mut found = Vec::new();
        for (number, superblock) in superblocks.iter().enumerate() {
            found.push(match (superblock, self.members[number].device()) {
                (Some(superblock), Some(device)) => {
                    let layout = Layout::of(superblock, device.shape().logical_block);
                    Some(self.members[number].newest_header(&layout, superblock).await)
                }
                _ => None,
            });
        }
        found
    }

    /// Opens the checksums of the members with these superblocks, which were read with these sums, by what was
    /// [found](Array::find_checksums). If any has some, all get them that have the room.
    pub(crate) async fn open_checksums(
        &self,
        superblocks: &[Option<Superblock>],
        sums: &[Option<u32>],
        found: Vec<Option<FoundHeader>>,
    ) {
        if !found.iter().any(|header| matches!(header, Some(Ok(Some(_))))) {
            return;
        }
        for (number, header) in found.into_iter().enumerate() {
            let (Some(header), Some(superblock), Some(device)) =
                (header, &superblocks[number], self.members[number].device())
            else {
                continue;
            };
            let layout = Layout::of(superblock, device.shape().logical_block);
            let sum = sums[number].expect("who has a superblock has its sum");
            let opened = match header {
                Ok(header) => self.members[number].open_checksums(superblock, sum, layout, header).await,
                Err(error) => Err(error),
            };
            // What cannot take its checksums cannot be relied on for anything else.
            if let Err(error) = opened {
                self.could_not_store(number, &error);
            }
        }
    }

    /// Gives a device that takes a member's place an area of its own, if the others have one.
    pub(crate) async fn new_checksums(
        &self,
        member: usize,
        data_offset: Bytes,
        identity: Uuid,
    ) -> Result<(), DeviceError> {
        let this = &self.members[member];
        // Nothing was being written on a member that was not there when the array was last left; of one that was, what
        // is known stays. Each write that was cut off is known to those of its stripe's members that are left, or did
        // not reach them.
        let before = this.checksums();
        before.iter().for_each(|before| before.retire());
        this.set_checksums(None);
        let Some(array) = self.identity().filter(|_| self.has_checksums()) else { return Ok(()) };
        assert!(this.data_offset() == data_offset, "the device is in its place");
        let checksums = this.make_checksums(array, identity, self.geometry.used_of(member)).await?;
        if let (Some(before), Some(now)) = (before, checksums) {
            *now.suspect.borrow_mut() = before.suspects_in(&now.layout);
        }
        Ok(())
    }

    /// Writes the sums of regions that have not been written since the last call, or of `all`, and takes their marks
    /// away.
    pub(crate) async fn close_regions(&self, all: bool) -> Result<(), DeviceError> {
        let (mut due, mut of_twins) = (Vec::new(), Vec::new());
        for (number, member) in self.members.iter().enumerate() {
            if member.state() == MemberState::Failed {
                continue;
            }
            due.extend(member.begin_closing(all, self.is_resync_due()).await.map(|closing| (number, closing)));
        }
        for twin in self.members.iter().filter_map(Member::twin).filter(|twin| !twin.is_lost()) {
            let closing = twin.own().begin_closing(all, self.is_resync_due()).await;
            of_twins.extend(closing.map(|closing| (twin, closing)));
        }
        if due.is_empty() && of_twins.is_empty() {
            return Ok(());
        }
        self.flush_members(0).await?;
        for (member, closing) in due {
            match self.members[member].finish_closing(closing).await {
                // Its regions stay marked, and are closed another time.
                Ok(()) | Err(DeviceError::NoSpace) => {}
                Err(error) => self.could_not_store(member, &error),
            }
        }
        for (twin, closing) in of_twins {
            // One whose flush failed has lost what its sums would speak of, and is dropped.
            if !twin.is_lost()
                && let Err(error) = twin.own().finish_closing(closing).await
            {
                twin.lose(&error);
            }
        }
        self.settle().await
    }
}
