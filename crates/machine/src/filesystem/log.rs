//! Files of a log-structured file system, through the buffer cache.
//!
//! # A write's way
//! ```text
//!   call -> copy into a buffer -> ... a segment's worth is dirty -> log: data, indirect blocks, inode in one piece
//!                                                                     '-> driver, in transfers of the longest size
//! ```
//! No block has a place before it is written, so no map is looked up or changed, and nothing is written twice for one
//! that is changed twice. When as much as a segment holds is dirty, it goes to the log, together with what leads to it.
//! The program goes on meanwhile, until another segment is full before the last one is on the disk: then it waits. What
//! is dirty goes to the log every half minute, too, with a checkpoint.
//!
//! *Reading* is as in the fast file system: an address, a buffer, one block read ahead. What was written in order lies
//! on the disk without a rotational delay. A reader asks for the next block when its first sector has passed, and waits
//! for a turn of the disk, unless the drive reads on into a buffer of its own. Dirty blocks are read from memory.
//!
//! Cleaning is what the crate `filesystem` says: segments are read, and what lives is written again. It comes with the
//! flush that needs it, before or after its data, in the order in which the log gives them.
//!
//! # Rejected
//! Dirty blocks in the buffer cache alone: who needs a buffer would write them one by one. They have memory beside the
//! cache, two segments at most, as Sprite's cache was larger than its segments by far.
//!
//! # Source
//! M. Rosenblum and J. K. Ousterhout, "The Design and Implementation of a Log-Structured File System", 1991, Sections 3
//! and 4. What it reports of its speed was not looked at.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use filesystem::lfs::{Log, LogError, Parameters, Transfer};
use runtime::{Resource, Runtime, Signal};
use units::Bytes;

use super::cache::{Key, Place};
use super::parameters::LayerParameters;
use super::{Caller, FILE, MountError, Mounted, State};
use crate::driver::Unit;

/// Blocks that lead to others have keys of their own in the cache, as files' blocks go by their number.
const OWN: u64 = 1 << 48;

/// The most of a drive that a log takes: its state is kept block by block.
const MOST: Bytes = Bytes::gib(1);

/// A log-structured file system on a drive.
pub(super) struct Logged {
    runtime: Runtime,
    log: RefCell<Log>,
    path: String,
    file: Cell<Option<u64>>,
    unit: Rc<Unit>,
    number: usize,
    block: Bytes,
    segment: Bytes,
    transfer: Bytes,
    /// Flushes go to the disk one after the other.
    turn: Resource,
    /// Of the log, on its way to the disk.
    under_way: Cell<Bytes>,
    written: Signal,
}

impl Logged {
    /// An empty one with the directory of the file.
    pub fn new(
        parameters: &LayerParameters,
        drive: &str,
        (number, unit): (usize, &Rc<Unit>),
        runtime: &Runtime,
    ) -> Result<Rc<Logged>, MountError> {
        let (block, segment) = (parameters.block, parameters.segment);
        let made = Log::new(Parameters::of(unit.size().min(MOST).round_down(block), block, segment));
        let mut log = made.map_err(|source| MountError::NewLog { drive: drive.to_owned(), source })?;
        log.create_directory("foo").map_err(|source| {
            let source = source.into();
            MountError::File { drive: drive.to_owned(), file: parameters.file, source }
        })?;
        Ok(Rc::new(Logged {
            log: RefCell::new(log),
            path: format!("foo/{FILE}"),
            file: Cell::new(None),
            unit: Rc::clone(unit),
            number,
            block,
            segment,
            transfer: parameters.longest_transfer,
            runtime: runtime.clone(),
            turn: Resource::new(runtime, 1),
            under_way: Cell::default(),
            written: Signal::default(),
        }))
    }

    /// Removes the file, and lays it out if it is to be there. What that moves is no part of a run.
    pub fn set(&self, state: State, size: Bytes, block: Bytes) -> Result<(), LogError> {
        let log = &mut *self.log.borrow_mut();
        if self.file.take().is_some() {
            log.remove(&self.path)?;
        }
        if state == State::Laid {
            let file = log.create(&self.path)?;
            for number in 0..size / block {
                log.write(file, number)?;
                if log.pending() >= self.segment {
                    log.flush()?;
                }
            }
            self.file.set(Some(file));
        }
        log.checkpoint()?;
        Ok(())
    }

    fn file(&self) -> u64 {
        self.file.get().expect("a file is opened before it is read or written")
    }

    /// Makes the file, if it is not there: in memory, like all that is new.
    pub async fn open(&self, of: &Mounted, caller: &mut Caller<'_>) -> Result<(), LogError> {
        if self.file.get().is_none() {
            caller.step(of.layer.parameters.steps.open, "open").await;
            self.file.set(Some(self.log.borrow_mut().create(&self.path)?));
        }
        Ok(())
    }

    /// Reads of a block, and begins to read the next one if it is to.
    pub async fn read(&self, of: &Mounted, (number, ahead): (u64, bool), bytes: Bytes, caller: &mut Caller<'_>) {
        let LayerParameters { steps, block, .. } = of.layer.parameters;
        let (file, cache) = (self.file(), &of.layer.cache);
        let leads = self.log.borrow().indirect(file, number);
        for address in &leads {
            caller.step(steps.own, "own blocks").await;
            let place = self.place(OWN + address, *address);
            let buffer = cache.read(&place, None, caller).await;
            cache.release(&buffer, false);
        }
        caller.step(steps.block, "block").await;
        let found = |number| {
            let log = self.log.borrow();
            if log.is_dirty(file, number) { None } else { log.address(file, number) }
        };
        match found(number) {
            Some(address) => {
                let same = self.log.borrow().indirect(file, number + 1) == leads;
                let next = found(number + 1).filter(|_| ahead && same);
                let next = next.map(|address| self.place(number + 1, address));
                let buffer = cache.read(&self.place(number, address), next.as_ref(), caller).await;
                of.copy(bytes, caller).await;
                cache.release(&buffer, bytes == block);
            }
            None => {
                cache.hits.set(cache.hits.get() + 1);
                of.copy(bytes, caller).await;
            }
        }
    }

    /// Writes into a block, from one byte of it to another.
    pub async fn write(
        self: &Rc<Logged>,
        of: &Mounted,
        number: u64,
        (from, to): (Bytes, Bytes),
        caller: &mut Caller<'_>,
    ) -> Result<(), LogError> {
        let LayerParameters { steps, block, .. } = of.layer.parameters;
        let (file, cache) = (self.file(), &of.layer.cache);
        caller.step(steps.block, "block").await;
        let stored = self.log.borrow().address(file, number).filter(|_| !self.log.borrow().is_dirty(file, number));
        self.log.borrow_mut().write(file, number)?;
        // What is written stays in the cache, too, for who reads it. Its home is known when it has been to the log.
        let place = self.place(number, stored.unwrap_or_default());
        let whole = from.is_zero() && to == block;
        let buffer = match stored {
            // The rest of the block goes to the log with what is written.
            Some(_) if !whole => cache.read(&place, None, caller).await,
            _ => cache.get(&place, caller).await,
        };
        if !whole {
            caller.step(steps.partial, "partial").await;
        }
        of.copy(to - from, caller).await;
        buffer.fill();
        cache.release(&buffer, to == block);
        if self.log.borrow().pending() >= self.segment {
            let sent = self.flush()?;
            caller.ledger.until(of.runtime.now(), caller.part, "driver");
            // What was sent before is on the disk then.
            caller.wait(&self.written, || self.under_way.get() <= sent).await;
        }
        Ok(())
    }

    /// Sends what is dirty to the log, and waits for none of it: how much that is.
    fn flush(self: &Rc<Logged>) -> Result<Bytes, LogError> {
        let transfers = self.log.borrow_mut().flush()?;
        Ok(self.send(transfers))
    }

    /// The same, with a checkpoint. A disk that is full stays as it is, and the next write says so.
    pub fn checkpoint(self: &Rc<Logged>) {
        if let Ok(transfers) = { self.log.borrow_mut().checkpoint() } {
            self.send(transfers);
        }
    }

    fn send(self: &Rc<Logged>, transfers: Vec<Transfer>) -> Bytes {
        let bytes: Bytes = transfers.iter().map(|transfer| self.block * transfer.blocks).sum();
        self.under_way.set(self.under_way.get() + bytes);
        let (turn, log) = (self.turn.acquire(0), Rc::clone(self));
        self.runtime.spawn_detached(async move {
            let _turn = turn.await;
            for transfer in transfers {
                log.carry_out(transfer).await;
                log.under_way.set(log.under_way.get() - log.block * transfer.blocks);
                log.written.notify();
            }
        });
        bytes
    }

    /// All pieces of a transfer are at the driver together; the next one waits for the last of them.
    async fn carry_out(&self, transfer: Transfer) {
        let (mut at, end) = (self.block * transfer.first, self.block * (transfer.first + transfer.blocks));
        let mut pieces = Vec::new();
        while at < end {
            let length = (end - at).min(self.transfer);
            pieces.push(self.unit.strategy(transfer.write, at, length).await);
            at += length;
        }
        for piece in pieces {
            self.unit.finished(&piece).await;
        }
    }

    fn place(&self, key: u64, address: u64) -> Place {
        Place {
            unit: Rc::clone(&self.unit),
            key: Key { mount: self.number, fragment: key },
            offset: self.block * address,
            bytes: self.block,
        }
    }
}
