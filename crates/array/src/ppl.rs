//! The partial parity log in the path of a write: level 5 without a write hole.
//!
//! A write of a band is preceded by a log write on the member that holds the band's parity: the XOR of the chunks that it leaves
//! alone, durable before data and parity are on their way. [`PplHeader`] has the format, and why that is enough.
//!
//! md replays the newest header of a member only, so a header must cover all that is not yet durable in stripes whose parity is there.
//! Hence one *unit* at a time on each member: whoever finds the log free takes along all writes that wait for it, as one log
//! write, and the next unit begins when the data and parity of all of them are durable. They are written with FUA for that: md
//! writes them plainly and flushes both members afterwards, two more requests for a small write.
//!
//! | | member writes for a random 4 KiB write | of these flushes |
//! |---|---|---|
//! | md | log, data, parity, 2 flushes: 5.0 | 2 |
//! | here | log, data, parity: 3.0; with more of them at once the log write is shared; 2.0 when the newest header covers it already | 0 |
//!
//! (`cargo test -p array --test cost` counts them.) A write that repeats the newest entry, such as a block that is overwritten again and
//! again, needs no log write: what the entry says of the other chunks still holds, or a newer entry would say so.
//!
//! What the log cannot do: of a write that touches several chunks of a row, a member that is lost *in the same cut* may hold neither the
//! old nor the new bytes in its part of it. (If the member was lost before, the chunks are written one after the other, each
//! under an entry of its own, and nothing is lost.) A journal has no such gap.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;

use device::{Buffer, Data, Device, DeviceError, Request};
use futures_util::future::{Either, select};
use runtime::{Grant, Resource, Runtime, Signal};
use units::Bytes;

use crate::array::Array;
use crate::md::{PplEntry, PplHeader, Superblock, Uuid};
use crate::stripe::Band;

const HEADER: Bytes = Bytes::kib(4);

/// The logs of an array, by member.
pub(crate) struct Ppl {
    array: Uuid,
    logs: Vec<Log>,
    /// Parity fits everywhere but where the logs say; before that (a new array) logging would promise too much.
    trusted: Cell<bool>,
    /// Writes under way that began before.
    unlogged: Cell<u32>,
    done: Signal,
}

/// The log of one member.
struct Log {
    /// Where it lies on the device.
    start: Cell<Bytes>,
    size: Bytes,
    /// Where the next unit goes.
    next: Cell<Bytes>,
    generation: Cell<u64>,
    /// The entries of the newest header.
    newest: RefCell<Vec<PplEntry>>,
    /// Who writes a unit; held until all of it is durable.
    turn: Resource,
    waiting: RefCell<Vec<Rc<Pending>>>,
    logged: Signal,
}

/// A write that waits for its entry to be durable.
struct Pending {
    entry: PplEntry,
    partial: Data,
    unit: RefCell<Option<Rc<Grant>>>,
}

/// The leave to write what was logged; to be kept until data and parity are durable.
pub(crate) enum Ticket<'a> {
    Logged { _unit: Rc<Grant> },
    Unlogged(&'a Ppl),
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if let Ticket::Unlogged(ppl) = self {
            ppl.unlogged.set(ppl.unlogged.get() - 1);
            ppl.done.notify();
        }
    }
}

/// Who gives up waiting leaves the line.
struct InLine<'a> {
    log: &'a Log,
    pending: Rc<Pending>,
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.log.waiting.borrow_mut().retain(|other| !Rc::ptr_eq(other, &self.pending));
    }
}

impl Ppl {
    /// The logs of members with these superblocks; `None` if these do not speak of any.
    pub fn of(runtime: &Runtime, superblocks: &[Option<Superblock>]) -> Option<Ppl> {
        let (sibling, (start, size)) = superblocks.iter().flatten().find_map(|s| Some((s, s.ppl_at()?)))?;
        let log = |superblock: &Option<Superblock>| Log {
            start: Cell::new(superblock.as_ref().and_then(Superblock::ppl_at).map_or(start, |(start, _)| start)),
            size,
            next: Cell::new(Bytes::ZERO),
            generation: Cell::new(0),
            newest: RefCell::default(),
            turn: Resource::new(runtime, 1),
            waiting: RefCell::default(),
            logged: Signal::default(),
        };
        Some(Ppl {
            array: sibling.array,
            logs: superblocks.iter().map(log).collect(),
            trusted: Cell::new(false),
            unlogged: Cell::new(0),
            done: Signal::default(),
        })
    }

    /// The longest range of a chunk that one entry can cover.
    pub fn longest(&self) -> Bytes {
        self.logs[0].size - HEADER
    }
}

impl Log {
    /// As many of the writes that wait as fit into one header and the room, in the order of their arrival.
    fn take(&self, first: &Rc<Pending>) -> Vec<Rc<Pending>> {
        /// As many entries as a header holds.
        const MOST: usize = 148;
        let mut taken = vec![Rc::clone(first)];
        let mut extent = HEADER + first.entry.parity_length;
        for other in self.waiting.borrow().iter().filter(|other| !Rc::ptr_eq(other, first)) {
            let with = extent + other.entry.parity_length;
            if with <= self.size && taken.len() < MOST {
                extent = with;
                taken.push(Rc::clone(other));
            }
        }
        taken
    }
}

/// What a member's log says.
struct Found {
    header: PplHeader,
    /// The partial parity of each entry; `None` where its checksum does not fit: it was torn, and the write had not begun.
    partials: Vec<Option<Vec<u8>>>,
}

/// Follows the headers from the start, each behind the one before, as md does. `Err` says whether there is a header anywhere else: the
/// first was then torn when the log began anew, and nothing was under way.
fn newest(bytes: &[u8], array: Uuid) -> Result<Found, bool> {
    let (mut at, mut last) = (0, None::<(usize, PplHeader)>);
    while let Some(rest) = bytes.get(at..) {
        let Ok(header) = PplHeader::parse(rest, array) else { break };
        if last.as_ref().is_some_and(|(_, last)| last.generation > header.generation) {
            break;
        }
        let extent = header.extent().as_usize();
        last = Some((at, header));
        at += extent;
    }
    let Some((at, header)) = last else {
        return Err(bytes.chunks(HEADER.as_usize()).any(|block| PplHeader::parse(block, array).is_ok()));
    };
    let mut behind = at + HEADER.as_usize();
    let partial = |entry: &PplEntry| {
        let bytes = bytes.get(behind..behind + entry.parity_length.as_usize());
        behind += entry.parity_length.as_usize();
        bytes.filter(|bytes| PplHeader::checksum(bytes) == entry.checksum).map(<[u8]>::to_vec)
    };
    let partials = header.entries.iter().map(partial).collect();
    Ok(Found { header, partials })
}

fn data(bytes: &[u8]) -> Data {
    let mut buffer = Buffer::zeroed(Bytes::new(bytes.len() as u64));
    buffer.bytes_mut().expect("it is real").copy_from_slice(bytes);
    buffer.freeze()
}

impl<D: Device> Array<D> {
    /// Makes the entry of a band durable that is about to be written with this parity. `None`: the band has no parity to protect.
    pub(crate) async fn log_partial_parity(
        &self,
        band: &Band,
        parities: &[(usize, Data)],
        id: u64,
    ) -> Result<Option<Ticket<'_>>, DeviceError> {
        let Some(ppl) = &self.ppl else { return Ok(None) };
        let Some((member, parity)) = parities.first() else {
            // Nothing is logged for a parity that has failed, so after a cut its member must not come back as if it were current.
            self.settle().await?;
            return Ok(None);
        };
        if !ppl.trusted.get() {
            ppl.unlogged.set(ppl.unlogged.get() + 1);
            return Ok(Some(Ticket::Unlogged(ppl)));
        }
        let chunk = self.geometry.chunk();
        let length = band.range.end - band.range.start;
        let written = band.written.clone();
        // The XOR of what is not written: the new parity without the new data.
        let whole = written.len() == band.stripe.data();
        let mut partial = Buffer::zeroed(if whole { Bytes::ZERO } else { length });
        if !partial.is_empty() {
            self.pay(1 + written.len(), 1, length, id).await;
        }
        if let (Some(to), Some(parity), false) = (partial.bytes_mut(), parity.bytes(), whole) {
            let mut sources = vec![parity];
            sources.extend(written.clone().filter_map(|index| band.bytes(index)));
            self.kernel.sum(&sources, to);
        }
        let partial = partial.freeze();
        let row = band.range.start / chunk;
        let entry = PplEntry {
            data_at: self.geometry.stripe_size() * row + chunk * written.start as u64 + band.range.start % chunk,
            parity_length: partial.len(),
            data_length: length * written.len() as u64,
            parity_member: *member as u32,
            checksum: PplHeader::checksum(partial.bytes().expect("it is real")),
        };
        match self.log_entry(ppl, *member, entry, partial, id).await {
            Ok(unit) => Ok(Some(Ticket::Logged { _unit: unit })),
            Err(error) => {
                self.unbroken()?;
                // Without its log the member's parity cannot be kept. The others must say so before the data make it stale.
                self.could_not_store(*member, &error);
                self.settle().await?;
                Ok(None)
            }
        }
    }

    async fn log_entry(
        &self,
        ppl: &Ppl,
        member: usize,
        entry: PplEntry,
        partial: Data,
        id: u64,
    ) -> Result<Rc<Grant>, DeviceError> {
        let log = &ppl.logs[member];
        let pending = Rc::new(Pending { entry, partial, unit: RefCell::new(None) });
        log.waiting.borrow_mut().push(Rc::clone(&pending));
        let line = InLine { log, pending };
        let logged = || line.pending.unit.borrow().is_some();
        let turn = {
            let included = pin!(log.logged.wait_until(logged));
            match select(included, pin!(log.turn.acquire(0))).await {
                Either::Left(_) => None,
                Either::Right((turn, _)) => Some(turn),
            }
        };
        if let Some(unit) = line.pending.unit.borrow().clone() {
            return Ok(unit);
        }
        let turn = turn.expect("who was not taken along has the turn");
        // Whoever had it before may have left a stripe torn, which the newest entries mend.
        self.unbroken()?;
        if log.newest.borrow().contains(&line.pending.entry) {
            return Ok(Rc::new(turn));
        }
        let taken = log.take(&line.pending);
        self.write_unit(log, ppl.array, member, &taken, id).await?;
        let unit = Rc::new(turn);
        for taken in &taken {
            *taken.unit.borrow_mut() = Some(Rc::clone(&unit));
        }
        log.waiting.borrow_mut().retain(|other| other.unit.borrow().is_none());
        log.logged.notify();
        Ok(unit)
    }

    /// Writes a header and the partial parities of its entries behind the last ones.
    async fn write_unit(
        &self,
        log: &Log,
        array: Uuid,
        member: usize,
        taken: &[Rc<Pending>],
        id: u64,
    ) -> Result<(), DeviceError> {
        let mut header = PplHeader::new(array, log.generation.get() + 1);
        header.entries = taken.iter().map(|pending| pending.entry.clone()).collect();
        let extent = header.extent();
        let at = if log.next.get() + extent <= log.size { log.next.get() } else { Bytes::ZERO };
        let mut bytes = header.to_bytes();
        for pending in taken {
            bytes.extend_from_slice(pending.partial.bytes().expect("it is real"));
        }
        // From now on nobody may rely on the old header, whether or not the new one is written.
        log.newest.borrow_mut().clear();
        log.generation.set(header.generation);
        log.next.set(at + extent);
        let mut request = Request::write(log.start.get() + at, data(&bytes)).with_id(id);
        request.fua = true;
        self.members[member].send(request).await.result?;
        *log.newest.borrow_mut() = header.entries;
        Ok(())
    }

    /// Gives a device that takes a member's place a log of its own. What it may hold of another time, when it was a member before, goes:
    /// generations are counted anew, and old headers would be followed as if they were newer.
    pub(crate) async fn new_log(&self, member: usize, valid: bool) -> Result<(), DeviceError> {
        self.reset_log(member, false).await?;
        if valid { self.reset_log(member, true).await } else { Ok(()) }
    }

    /// Starts the log of a member anew: nothing is under way. Where the old log cannot be trusted, not even that is said.
    async fn reset_log(&self, member: usize, valid: bool) -> Result<(), DeviceError> {
        let Some(ppl) = &self.ppl else { return Ok(()) };
        let log = &ppl.logs[member];
        log.newest.borrow_mut().clear();
        if !valid {
            let nothing = Buffer::zeroed(log.size).freeze();
            return self.members[member].send(Request::write(log.start.get(), nothing).with_fua()).await.result;
        }
        log.generation.set(log.generation.get() + 1);
        log.next.set(HEADER);
        let header = PplHeader::new(ppl.array, log.generation.get()).to_bytes();
        self.members[member].send(Request::write(log.start.get(), data(&header)).with_fua()).await.result
    }

    /// Lets writes be logged, after parity was made to fit, or refuses it.
    pub(crate) async fn trust_logs(&self, trusted: bool) -> Result<(), DeviceError> {
        let Some(ppl) = &self.ppl else { return Ok(()) };
        ppl.trusted.set(trusted);
        if trusted {
            // A cut during a write that was not logged must still be followed by a resync.
            ppl.done.wait_until(|| ppl.unlogged.get() == 0).await;
        }
        for (member, log) in ppl.logs.iter().enumerate() {
            let _turn = log.turn.acquire(0).await;
            self.unbroken()?;
            if self.members[member].state() == crate::MemberState::Failed {
                continue;
            }
            if let Err(error) = self.reset_log(member, trusted).await {
                self.could_not_store(member, &error);
            }
        }
        self.settle().await
    }

    /// After the start: brings parity in line with what the logs say was under way. Says whether parity can be trusted everywhere;
    /// without that the array needs a resync.
    pub(crate) async fn replay_logs(&self, ppl: &Ppl, dirty: bool) -> Result<bool, DeviceError> {
        let mut trusted = true;
        let mut found = Vec::new();
        for (member, log) in ppl.logs.iter().enumerate() {
            if self.members[member].device().is_none() {
                continue;
            }
            let reply = self.members[member].send(Request::read(log.start.get(), Buffer::zeroed(log.size))).await;
            reply.result?;
            let buffer = reply.buffer.expect("a read gives its buffer back");
            let bytes = buffer.bytes().expect("it is real");
            match newest(bytes, ppl.array) {
                Ok(newest) => {
                    log.generation.set(newest.header.generation);
                    found.push((member, newest));
                }
                Err(elsewhere) => {
                    let blocks = bytes.chunks(HEADER.as_usize());
                    let generations =
                        blocks.filter_map(|block| Some(PplHeader::parse(block, ppl.array).ok()?.generation));
                    log.generation.set(generations.max().unwrap_or(0));
                    trusted &= elsewhere;
                }
            }
        }
        if !trusted || !dirty {
            return Ok(trusted);
        }
        self.tell_missing().await?;
        for (member, Found { header, partials }) in &found {
            for (entry, partial) in header.entries.iter().zip(partials) {
                trusted &= self.replay_entry(*member, entry, partial.as_deref()).await?;
            }
        }
        self.flush_members(0).await?;
        Ok(trusted)
    }

    /// Computes the parity of what an entry covers from the data as they are. Says whether it could be done, or need not.
    async fn replay_entry(&self, member: usize, entry: &PplEntry, partial: Option<&[u8]>) -> Result<bool, DeviceError> {
        let (chunk, row_size) = (self.geometry.chunk(), self.geometry.stripe_size());
        let all = (row_size / chunk) as usize;
        let first = entry.data_at;
        let row = first / row_size;
        // md's rules: how many chunks are written, how much of each, and where the last ends.
        let (chunks, strip, end) = match entry.parity_length {
            length if length >= chunk => (all, chunk, first + entry.data_length),
            Bytes::ZERO => {
                let strip = entry.data_length / Bytes::SECTOR / all as u64;
                let strip = Bytes::SECTOR * strip;
                (all, strip, first + chunk * (all as u64 - 1) + strip)
            }
            length => {
                let chunks = ((entry.data_length / length) as usize).max(1);
                (chunks, length, first + chunk * (chunks as u64 - 1) + length)
            }
        };
        let inside = first < end && end <= (row_size * (row + 1)).min(self.geometry.size()) && chunks <= all;
        if !inside || self.geometry.stripe(row).p() != member || entry.parity_member != member as u32 {
            return Ok(false);
        }
        let stripe = self.geometry.stripe(row);
        let page = Bytes::kib(4);
        let aligned = |block: Bytes| [first, end, strip].iter().all(|at| at.is_multiple_of(block));
        let block = if aligned(page) { page } else { self.block() };
        // It was logged on disks with smaller blocks, of which these are copies.
        if !aligned(block) {
            return Ok(false);
        }
        let mut fits = true;
        let mut at = Bytes::ZERO;
        while at < strip {
            let written: Vec<usize> = (0..chunks as u64)
                .map(|number| first + at + chunk * number)
                .filter(|address| *address < end)
                .map(|address| (address % row_size / chunk) as usize)
                .collect();
            let offset = chunk * row + (first + at) % chunk;
            let range = offset..offset + block;
            let there = |index: &usize| self.members[stripe.data_member(*index)].is_current(&range);
            let everyone: Vec<usize> = (0..all).collect();
            let (readable, partial) = if everyone.iter().all(there) {
                (everyone, None)
            } else {
                let partial = partial.map(|bytes| bytes.get(at.as_usize()..(at + block).as_usize()));
                (written.clone(), Some(partial.flatten().or((written.len() == all).then_some(&[][..]))))
            };
            at += block;
            // A chunk that was being written is lost, or its entry was torn and nothing was being written.
            if written.is_empty() || !readable.iter().all(there) || partial == Some(None) {
                continue;
            }
            if !self.members[member].takes_writes(&range) {
                continue;
            }
            let members: Vec<usize> = readable.iter().map(|index| stripe.data_member(*index)).collect();
            match self.read_band(&range, &members, false, 0).await {
                Ok(blocks) => {
                    let mut sources: Vec<&[u8]> = blocks.iter().map(|b| b.bytes().expect("it is real")).collect();
                    sources.extend(partial.flatten().filter(|bytes| !bytes.is_empty()));
                    let mut parity = Buffer::zeroed(block);
                    self.kernel.sum(&sources, parity.bytes_mut().expect("it is real"));
                    self.members[member].write(range.start, parity.freeze(), false, 0).await?;
                }
                Err(_) => fits = false,
            }
        }
        Ok(fits)
    }
}
