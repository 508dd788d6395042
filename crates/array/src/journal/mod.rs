//! The journal in the path of a write: levels 4, 5 and 6 without a write hole, for a device more.
//!
//! Data and parity of a write are durable in the log before they go to the members ([`JournalBlock`] has the format),
//! so that after a cut all of it is written again, whatever the members had taken of it, and whoever is missing: unlike
//! under the partial parity log, also the parts of the write itself. What is acknowledged is durable: a flush of the
//! array has nothing to do.
//!
//! Whoever finds the log free takes along all writes that wait for it, in one log write with FUA. The next may begin
//! while the members are still being written; what keeps the order within a row is the row's lock. When the log is
//! full, its tail is moved: writes under way are waited for, the members are flushed, an empty block with the next
//! number is written, and the journal's superblock points to it.
//!
//! | | member and journal writes for a random 4 KiB write | of these flushes |
//! |---|---|---|
//! | md, write-through | log, data, parity, a flush of the journal: 4.0 | 1.05 |
//! | here | log, data, parity: 3.0; with more of them at once the log write is shared | 0 |
//!
//! The log's unit is a page of 4 KiB, so a write that covers a page in part reads the rest first. A journal that fails
//! stops writes: the members have all that was acknowledged, but the next write could not be closed.
//!
//! md's write-back mode (data in the log without parity) is not offered. What it left is written the usual way at the
//! start, under the log like everything else, and stays in the log until that is done: wherever the log begins anew
//! meanwhile, it begins with what is left of that.

mod replay;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;

use device::{Buffer, Data, Device, DeviceError, Reply, Request};
use futures_util::future::{Either, select};
use runtime::{Resource, Runtime, Signal};
use units::{Bytes, Duration};

use crate::array::Array;
use crate::md::{JournalBlock, JournalPayload, SUPERBLOCK_AT, Superblock, Uuid};
use crate::stripe::Band;
use crate::timeout::{TIME_LIMIT, within};

/// The unit of the log.
pub(crate) const PAGE: Bytes = Bytes::kib(4);

/// The journal of an array.
pub(crate) struct Journal<D> {
    runtime: Runtime,
    limit: Cell<Duration>,
    device: Rc<D>,
    pub superblock: RefCell<Superblock>,
    pub array: Uuid,
    start: Bytes,
    pub size: Bytes,
    /// Where the next block goes, from the start; its number; and how much lies between the tail and here.
    pub head: Cell<Bytes>,
    pub sequence: Cell<u64>,
    used: Cell<Bytes>,
    /// What was sent to the log last was given up: nobody knows whether it is there, and what comes behind it is not
    /// found.
    torn: Cell<bool>,
    /// One write of the superblock at a time.
    store: Resource,
    /// Pages that the log holds without parity, by their addresses in the array: they are not on the members yet.
    pub rest: RefCell<BTreeMap<Bytes, Data>>,
    failed: Cell<bool>,
    /// The members say, or are about to, that it has failed.
    pub left: Cell<bool>,
    turn: Resource,
    waiting: RefCell<Vec<Rc<Pending>>>,
    logged: Signal,
    under_way: Rc<UnderWay>,
}

/// Units whose data are on their way to the members.
#[derive(Default)]
struct UnderWay {
    units: Cell<u32>,
    fewer: Signal,
}

/// What was logged with one write; to be kept until the members have it.
pub(crate) struct Unit(Rc<UnderWay>);

impl Drop for Unit {
    fn drop(&mut self) {
        self.0.units.set(self.0.units.get() - 1);
        self.0.fewer.notify();
    }
}

/// A page of every member that is written, at one address: they must be replayed together.
struct Column {
    payloads: Vec<JournalPayload>,
    pages: Vec<Data>,
}

struct Pending {
    columns: Vec<Column>,
    unit: RefCell<Option<Rc<Unit>>>,
}

/// Who gives up waiting leaves the line.
struct InLine<'a>(&'a RefCell<Vec<Rc<Pending>>>, Rc<Pending>);

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.0.borrow_mut().retain(|other| !Rc::ptr_eq(other, &self.1));
    }
}

impl Column {
    /// What it takes of a meta block.
    fn head(&self) -> usize {
        let checksums = |payload: &JournalPayload| match payload {
            JournalPayload::Data { checksums, .. } | JournalPayload::Parity { checksums, .. } => checksums.len(),
            JournalPayload::Flush { .. } => 0,
        };
        self.payloads.iter().map(|payload| 16 + 4 * checksums(payload)).sum()
    }
}

fn data(bytes: &[u8]) -> Data {
    let mut buffer = Buffer::zeroed(Bytes::new(bytes.len() as u64));
    buffer.bytes_mut().expect("it is real").copy_from_slice(bytes);
    buffer.freeze()
}

fn zeroes() -> Data {
    Buffer::zeroed(PAGE).freeze()
}

impl<D: Device> Journal<D> {
    pub fn new(runtime: &Runtime, device: D, superblock: Superblock) -> Journal<D> {
        Journal {
            runtime: runtime.clone(),
            limit: Cell::new(TIME_LIMIT),
            device: Rc::new(device),
            array: superblock.array,
            start: superblock.data_offset,
            size: superblock.data_size.round_down(PAGE),
            superblock: RefCell::new(superblock),
            head: Cell::new(Bytes::ZERO),
            sequence: Cell::new(0),
            used: Cell::new(Bytes::ZERO),
            torn: Cell::new(false),
            store: Resource::new(runtime, 1),
            rest: RefCell::default(),
            failed: Cell::new(false),
            left: Cell::new(false),
            turn: Resource::new(runtime, 1),
            waiting: RefCell::default(),
            logged: Signal::default(),
            under_way: Rc::default(),
        }
    }

    pub fn set_limit(&self, limit: Duration) {
        self.limit.set(limit);
    }

    async fn send(&self, request: Request) -> Reply {
        within(&self.runtime, self.limit.get(), &*self.device, request).await
    }

    pub fn has_failed(&self) -> bool {
        self.failed.get()
    }

    /// The longest range of the members that one log write can surely hold, with this many chunks.
    pub fn longest(&self, chunks: usize) -> Bytes {
        let columns = self.size / Self::least(chunks);
        assert!(columns > 0, "a journal that has a shortfall is not opened");
        PAGE * columns
    }

    /// What a log takes in which a page of each of so many chunks, and what says so, fills no more than a quarter.
    fn least(chunks: usize) -> Bytes {
        PAGE * 4 * (chunks as u64 + 1)
    }

    /// What the log must hold, for a page of each of so many chunks to be surely written at once, and how much it holds
    /// if that is less.
    pub fn shortfall(&self, chunks: usize) -> Option<(Bytes, Bytes)> {
        let needed = Self::least(chunks);
        (self.size < needed).then_some((needed, self.size))
    }

    /// Writes blocks at the head; around the end if need be.
    async fn append(&self, bytes: &[u8], id: u64) -> Result<(), DeviceError> {
        let head = self.head.get();
        let length = Bytes::new(bytes.len() as u64);
        // Whoever is dropped from here on leaves what may be there or not. It is not written again.
        self.torn.set(true);
        self.head.set(self.after(head, length));
        self.used.set(self.used.get() + length);
        let first = (self.size - head).as_usize().min(bytes.len());
        let before = (head, self.used.get() - length);
        for (at, part) in [(head, &bytes[..first]), (Bytes::ZERO, &bytes[first..])] {
            if !part.is_empty() {
                let request = Request::write(self.start + at, data(part)).with_fua().with_id(id);
                let sent = self.send(request).await.result;
                if sent == Err(DeviceError::NoSpace) {
                    // It takes no room in the log either; what is there of it is left behind when the log begins anew.
                    self.head.set(before.0);
                    self.used.set(before.1);
                }
                sent?;
            }
        }
        self.torn.set(false);
        Ok(())
    }

    /// The log begins anew before anything else goes to it.
    pub fn begin_anew_next(&self) {
        self.torn.set(true);
    }

    pub fn after(&self, at: Bytes, length: Bytes) -> Bytes {
        let end = at + length;
        if end < self.size { end } else { end - self.size }
    }

    pub async fn read(&self, at: Bytes) -> Result<Buffer, DeviceError> {
        let reply = self.send(Request::read(self.start + at, Buffer::zeroed(PAGE))).await;
        reply.result.map(|()| reply.buffer.expect("a read gives its buffer back"))
    }

    /// The blocks of a unit: meta blocks, each with the pages of its columns behind it.
    fn blocks<'a>(&self, columns: impl Iterator<Item = &'a Column>) -> Vec<u8> {
        /// What a meta block holds behind its own head.
        const ROOM: usize = 4096 - 32;
        let mut bytes: Vec<u8> = Vec::new();
        let mut columns = columns.peekable();
        while columns.peek().is_some() {
            let (mut payloads, mut pages, mut room) = (Vec::new(), Vec::new(), ROOM);
            while let Some(column) = columns.next_if(|column| column.head() <= room) {
                room -= column.head();
                payloads.extend(column.payloads.iter().cloned());
                pages.extend(&column.pages);
            }
            let position = self.after(self.head.get(), Bytes::new(bytes.len() as u64));
            let block = JournalBlock { sequence: self.sequence.get(), position, payloads };
            bytes.extend(block.to_bytes(self.array).expect("the payloads were counted"));
            for page in pages {
                bytes.extend_from_slice(page.bytes().expect("it is real"));
            }
            self.sequence.set(self.sequence.get() + 1);
        }
        bytes
    }

    /// What the log takes to begin anew: an empty block, or what is to stay in it, with a meta block for each page at
    /// the most.
    pub fn beginning(&self) -> Bytes {
        PAGE * (self.rest.borrow().len() as u64 * 2).max(1)
    }

    /// Whether the log, of which so much is in use, can begin anew, and do so again with a write of a page of each of
    /// so many chunks in between.
    pub fn has_room_to_begin(&self, used: Bytes, chunks: usize) -> bool {
        let (beginning, write) = (self.beginning(), PAGE * (chunks as u64 + 1));
        used + beginning <= self.size && beginning * 2 + write <= self.size
    }

    /// Lets the log begin at its head, with what is to stay in it, or an empty block, and the superblock say so. If
    /// that fails, so has the journal.
    pub async fn begin_anew(&self) -> Result<(), DeviceError> {
        let tail = self.head.get();
        let kept: Vec<Column> = self.rest.borrow().iter().map(|(at, page)| self.alone(*at, page)).collect();
        let blocks = if kept.is_empty() { self.empty_block() } else { self.blocks(kept.iter()) };
        let length = Bytes::new(blocks.len() as u64);
        // Others that were to begin it anew were given up.
        if self.used.get() + length > self.size {
            self.failed.set(true);
            return Err(DeviceError::NoSpace);
        }
        match self.append(&blocks, 0).await {
            Err(DeviceError::NoSpace) if kept.is_empty() => return self.begin_where_it_did().await,
            appended => appended.inspect_err(|error| self.fail(error))?,
        }
        // Until the superblock says so the log begins where it did: nothing of it is free yet.
        self.torn.set(true);
        self.superblock.borrow_mut().recovery = tail / Bytes::SECTOR;
        self.write_superblock().await?;
        self.used.set(length);
        self.torn.set(false);
        Ok(())
    }

    /// As [`begin_anew`](Journal::begin_anew) with nothing in it, where there is no room at the head: over the block
    /// that it begins with, which has some.
    async fn begin_where_it_did(&self) -> Result<(), DeviceError> {
        let tail = Bytes::SECTOR * self.superblock.borrow().recovery;
        self.head.set(tail.min(self.size - PAGE));
        self.used.set(Bytes::ZERO);
        let block = self.empty_block();
        self.append(&block, 0).await.inspect_err(|error| self.fail(error))
    }

    /// A page without parity.
    fn alone(&self, at: Bytes, page: &Data) -> Column {
        let checksums = vec![JournalBlock::checksum(self.array, page.bytes().expect("it is real"))];
        Column { payloads: vec![JournalPayload::Data { at, checksums }], pages: vec![page.clone()] }
    }

    fn empty_block(&self) -> Vec<u8> {
        let empty = JournalBlock { sequence: self.sequence.get(), position: self.head.get(), payloads: Vec::new() };
        self.sequence.set(self.sequence.get() + 1);
        empty.to_bytes(self.array).expect("it is empty")
    }

    /// Takes over what the members' superblocks say, and writes its own.
    pub async fn follow(&self, member: &Superblock) -> Result<(), DeviceError> {
        {
            let mut own = self.superblock.borrow_mut();
            *own = Superblock {
                number: own.number,
                member: own.member,
                recovery: own.recovery,
                data_offset: own.data_offset,
                data_size: own.data_size,
                corrected_reads: own.corrected_reads,
                member_flags: own.member_flags,
                features: own.features,
                ..member.clone()
            };
        }
        self.write_superblock().await
    }

    async fn write_superblock(&self) -> Result<(), DeviceError> {
        let _one = self.store.acquire(0).await;
        let bytes = crate::format::written(&self.superblock.borrow(), self.device.shape().logical_block).freeze();
        let result = self.send(Request::write(SUPERBLOCK_AT, bytes).with_fua()).await.result;
        result.inspect_err(|error| self.fail(error))
    }

    /// It takes no more, unless there was only no room.
    fn fail(&self, error: &DeviceError) {
        if *error != DeviceError::NoSpace {
            self.failed.set(true);
        }
    }
}

impl<D: Device> Array<D> {
    /// Makes a band and its parities durable in the journal.
    pub(crate) async fn log_band(
        &self,
        journal: &Journal<D>,
        band: &Band,
        parities: &[(usize, Data)],
        id: u64,
    ) -> Result<Rc<Unit>, DeviceError> {
        let chunk = self.geometry.chunk();
        let row = band.range.start / chunk;
        assert!(
            band.range.start.is_multiple_of(PAGE) && band.range.end.is_multiple_of(PAGE),
            "a band is widened to whole pages before it is logged"
        );
        if parities.len() < band.stripe.parity_members().count() {
            // What is logged in its place is not its contents: its member must be known as failed before it could be
            // replayed.
            self.settle().await?;
        }
        let column = |at: Bytes| {
            let from = at - band.range.start;
            let (mut payloads, mut pages) = (Vec::new(), Vec::new());
            let mut keep = |page: Option<Data>| {
                let page = page.filter(|page| page.bytes().is_some()).unwrap_or_else(zeroes);
                let sum = JournalBlock::checksum(journal.array, page.bytes().expect("it is real"));
                pages.push(page);
                sum
            };
            for index in band.written.clone() {
                let address = self.geometry.stripe_size() * row + chunk * index as u64 + (at - chunk * row);
                let checksums = vec![keep(Some(band.new_data(index).slice(from, PAGE)))];
                payloads.push(JournalPayload::Data { at: address, checksums });
            }
            // A parity whose member is missing is logged as zeroes: it goes nowhere, but the entry is complete.
            let of = |member: usize| parities.iter().find(|(holder, _)| *holder == member);
            let checksums =
                band.stripe.parity_members().map(|member| keep(of(member).map(|(_, p)| p.slice(from, PAGE)))).collect();
            payloads.push(JournalPayload::Parity { at, checksums });
            Column { payloads, pages }
        };
        let ends = Self::pieces(band.range.clone(), |at| at + PAGE);
        let columns = ends.into_iter().map(|page| column(page.start)).collect();
        let pending = Rc::new(Pending { columns, unit: RefCell::new(None) });
        journal.waiting.borrow_mut().push(Rc::clone(&pending));
        let line = InLine(&journal.waiting, pending);
        let turn = {
            let included = pin!(journal.logged.wait_until(|| line.1.unit.borrow().is_some()));
            match select(included, pin!(journal.turn.acquire(0))).await {
                Either::Left(_) => None,
                Either::Right((turn, _)) => Some(turn),
            }
        };
        if let Some(unit) = line.1.unit.borrow().clone() {
            return Ok(unit);
        }
        let _turn = turn.expect("who was not taken along has the turn");
        let logged = self.write_log(journal, &line.1, id).await;
        if logged == Err(DeviceError::NoSpace) && !journal.has_failed() {
            self.room.lacked();
            return Err(DeviceError::NoSpace);
        }
        if logged.is_err() {
            // It is not the journal that has failed then, and what it holds is needed.
            self.unbroken()?;
            journal.failed.set(true);
            // What was acknowledged was durable in the journal only.
            self.flush_members(id).await?;
            return Err(DeviceError::ReadOnly);
        }
        journal.logged.notify();
        let unit = line.1.unit.borrow().clone();
        Ok(unit.expect("it was logged"))
    }

    /// Logs a write and those that wait, as far as there is room. The caller has the turn.
    async fn write_log(&self, journal: &Journal<D>, first: &Rc<Pending>, id: u64) -> Result<(), DeviceError> {
        if journal.failed.get() {
            return Err(DeviceError::ReadOnly);
        }
        self.unbroken()?;
        // A meta block for each column is more than enough.
        let length = |pending: &Pending| -> Bytes {
            pending.columns.iter().map(|column| PAGE * (column.pages.len() as u64 + 1)).sum()
        };
        let mut total = length(first);
        let mut taken = vec![Rc::clone(first)];
        for other in journal.waiting.borrow().iter().filter(|other| !Rc::ptr_eq(other, first)) {
            if total + length(other) <= Bytes::new(journal.size.get() / 2) {
                total += length(other);
                taken.push(Rc::clone(other));
            }
        }
        if journal.torn.get() || journal.used.get() + total + journal.beginning() > journal.size {
            self.empty_journal(journal).await?;
            journal.begin_anew().await?;
        }
        let blocks = journal.blocks(taken.iter().flat_map(|pending| &pending.columns));
        journal.append(&blocks, id).await?;
        let under_way = &journal.under_way;
        under_way.units.set(under_way.units.get() + 1);
        let unit = Rc::new(Unit(Rc::clone(under_way)));
        for taken in &taken {
            *taken.unit.borrow_mut() = Some(Rc::clone(&unit));
        }
        journal.waiting.borrow_mut().retain(|other| other.unit.borrow().is_none());
        Ok(())
    }

    /// Brings all that is logged to the members, durably. The caller has the turn, and lets the [log begin
    /// anew](Journal::begin_anew).
    async fn empty_journal(&self, journal: &Journal<D>) -> Result<(), DeviceError> {
        let under_way = &journal.under_way;
        under_way.fewer.wait_until(|| under_way.units.get() == 0).await;
        self.flush_members(0).await?;
        self.settle().await
    }

    /// What the journal's device is called, if there is one that takes writes.
    pub fn journal_device(&self) -> Option<String> {
        let journal = self.journal.as_ref().filter(|journal| !journal.has_failed())?;
        Some(journal.device.shape().name.clone())
    }

    /// At the end of service, or of a step of a rebuild: a journal with nothing in it. One that fails now is no error:
    /// the members have all that it held, and only the writes to come need it.
    pub(crate) async fn close_journal(&self) -> Result<(), DeviceError> {
        let Some(journal) = self.journal.as_ref().filter(|journal| !journal.has_failed()) else { return Ok(()) };
        let _turn = journal.turn.acquire(0).await;
        self.empty_journal(journal).await?;
        // It has failed if this fails, which the next write finds.
        _ = journal.begin_anew().await;
        Ok(())
    }

    /// Widens a write within a row to whole pages, with what lies there. The caller holds the row's lock.
    pub(crate) async fn whole_pages(&self, at: Bytes, data: Data, id: u64) -> Result<(Bytes, Data), DeviceError> {
        let (start, end) = (at.round_down(PAGE), (at + data.len()).round_up(PAGE));
        if start == at && end == at + data.len() {
            return Ok((at, data));
        }
        let mut whole = Buffer::zeroed(end - start);
        let mut edges = vec![start];
        if end - start > PAGE {
            edges.push(end - PAGE);
        }
        for edge in edges {
            let page = self.read_locked(edge..edge + PAGE, id).await?;
            let from = (edge - start).as_usize();
            whole.bytes_mut().expect("it is real")[from..from + PAGE.as_usize()]
                .copy_from_slice(page.bytes().expect("it is real"));
        }
        let Some(new) = data.bytes() else { return Ok((start, Data::phantom(end - start))) };
        let from = (at - start).as_usize();
        whole.bytes_mut().expect("it is real")[from..from + new.len()].copy_from_slice(new);
        Ok((start, whole.freeze()))
    }
}
