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
//! *Reading* is as in the fast file system: an address, a buffer, one block read ahead. Blocks that were written one
//! after the other lie one behind the other, without a rotational delay between them, so that a reader that takes longer
//! for a block than the head takes to reach the next one waits for a turn of the disk each time, unless the drive reads
//! on into a buffer of its own. Dirty blocks are read from memory.
//!
//! Cleaning is what the crate `filesystem` says: segments are read, and what lives is written again. It comes with the
//! flush that needs it, before or after its data, in the order in which the log gives them.
//!
//! # Rejected
//! Dirty blocks in the buffer cache alone: what evicts them would write them one by one. They have memory beside it, two
//! segments at most, as Sprite's cache was larger than its segments by far; the cache keeps what it has room for.
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
    log: RefCell<Log>,
    path: String,
    file: Cell<Option<u64>>,
    unit: Rc<Unit>,
    number: usize,
    block: Bytes,
    segment: Bytes,
    transfer: Bytes,
    /// Flushes go to the disk one after the other.
    turn: RefCell<Option<Resource>>,
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
    ) -> Result<Rc<Logged>, MountError> {
        let (block, segment) = (parameters.block, parameters.segment);
        let new = Parameters::new(unit.size().min(MOST).round_down(block));
        // The shares of the segments that are kept clean go by their number, and so does the rest.
        let scaled = |segments: u64| (segments * new.segment.get() / segment.get()).max(6);
        let (clean_below, clean_until) = (scaled(new.clean_below), scaled(new.clean_until).max(7));
        let made = Log::new(Parameters { block, segment, clean_below, clean_until, ..new });
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
            turn: RefCell::default(),
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
            let sent = self.flush(&of.runtime)?;
            caller.ledger.until(of.runtime.now(), caller.part, "driver");
            // What was sent before is on the disk then.
            caller.wait(&self.written, || self.under_way.get() <= sent).await;
        }
        Ok(())
    }

    /// Sends what is dirty to the log, and waits for none of it: how much that is.
    fn flush(self: &Rc<Logged>, runtime: &Runtime) -> Result<Bytes, LogError> {
        let transfers = self.log.borrow_mut().flush()?;
        Ok(self.send(runtime, transfers))
    }

    /// The same, with a checkpoint. A disk that is full stays as it is, and the next write says so.
    pub fn checkpoint(self: &Rc<Logged>, runtime: &Runtime) {
        if let Ok(transfers) = { self.log.borrow_mut().checkpoint() } {
            self.send(runtime, transfers);
        }
    }

    fn send(self: &Rc<Logged>, runtime: &Runtime, transfers: Vec<Transfer>) -> Bytes {
        let bytes: Bytes = transfers.iter().map(|transfer| self.block * transfer.blocks).sum();
        self.under_way.set(self.under_way.get() + bytes);
        let turn = self.turn.borrow_mut().get_or_insert_with(|| Resource::new(runtime, 1)).acquire(0);
        let log = Rc::clone(self);
        runtime.spawn_detached(async move {
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
