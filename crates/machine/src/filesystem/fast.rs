//! Files of the fast file system, through the buffer cache.
//!
//! A block has its place before it is written. A full block is written at once and nobody waits; a part of one waits in
//! its buffer for the rest. Where the allocator looks, and what it changes of its maps, is the crate `filesystem`'s
//! answer to each operation, and goes through the same cache.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use filesystem::ffs::{Extent, Ffs, FfsError, InodeNumber, ROOT};
use filesystem::{How, Touch};
use units::Bytes;

use super::cache::{Buffer, Key, Place};
use super::parameters::{LayerParameters, assumed};
use super::{Caller, FILE, MountError, Mounted, State};
use crate::endpoint::Endpoint;

/// A fast file system on a drive.
pub(super) struct Fast {
    ffs: RefCell<Ffs>,
    directory: InodeNumber,
    file: Cell<Option<InodeNumber>>,
}

impl Fast {
    /// An empty one with the directory of the file.
    pub fn new(parameters: &LayerParameters, drive: &str, endpoint: &Rc<dyn Endpoint>) -> Result<Fast, MountError> {
        let tracks = endpoint.tracks().unwrap_or_else(|| assumed(endpoint.size()));
        let new = Ffs::new(parameters.of(tracks));
        let mut ffs = new.map_err(|source| MountError::Newfs { drive: drive.to_owned(), source })?;
        let (directory, _) = ffs.make_directory(ROOT, "foo").map_err(|source| {
            let source = source.into();
            MountError::File { drive: drive.to_owned(), file: parameters.file, source }
        })?;
        Ok(Fast { ffs: RefCell::new(ffs), directory, file: Cell::new(None) })
    }

    /// Removes the file, and lays it out if it is to be there.
    pub fn set(&self, state: State, size: Bytes, block: Bytes) -> Result<(), FfsError> {
        let ffs = &mut *self.ffs.borrow_mut();
        if self.file.take().is_some() {
            ffs.remove(self.directory, FILE)?;
        }
        if state == State::Laid {
            let (file, _) = ffs.create(self.directory, FILE)?;
            for number in 0..size / block {
                ffs.place(file, number, block.get())?;
            }
            self.file.set(Some(file));
        }
        Ok(())
    }

    fn file(&self) -> InodeNumber {
        self.file.get().expect("a file is opened before it is read or written")
    }

    /// Makes the file, if it is not there.
    pub async fn open(&self, of: &Mounted, caller: &mut Caller<'_>) -> Result<(), FfsError> {
        if self.file.get().is_some() {
            return Ok(());
        }
        caller.step(of.layer.parameters.steps.open, "open").await;
        let (file, touches) = self.ffs.borrow_mut().create(self.directory, FILE)?;
        self.file.set(Some(file));
        self.touch(of, &touches, caller).await;
        Ok(())
    }

    /// Reads of a block, and begins to read the next one if it is to.
    pub async fn read(&self, of: &Mounted, (number, ahead): (u64, bool), bytes: Bytes, caller: &mut Caller<'_>) {
        let LayerParameters { steps, block, .. } = of.layer.parameters;
        let file = self.file();
        let found = |number| self.ffs.borrow().map(file, number);
        let (extent, touches) = found(number).expect("a run that makes a file does not read it");
        self.touch(of, &touches, caller).await;
        caller.step(steps.block, "block").await;
        let more = (number + 1) * block.get() < self.ffs.borrow().size(file);
        // Across the end of the indirect block at hand nothing is read ahead.
        let next = found(number + 1).filter(|(_, next)| ahead && more && same(&touches, next));
        let next = next.map(|(extent, _)| place(of, extent));
        let buffer = of.layer.cache.read(&place(of, extent), next.as_ref(), caller).await;
        of.copy(bytes, caller).await;
        // A block that was read to its end is not expected to be read again.
        of.layer.cache.release(&buffer, bytes == block);
    }

    /// Writes into a block, from one byte of it to another.
    pub async fn write(
        &self,
        of: &Mounted,
        number: u64,
        (from, to): (Bytes, Bytes),
        caller: &mut Caller<'_>,
    ) -> Result<(), FfsError> {
        let LayerParameters { steps, block, clear, fragment, .. } = of.layer.parameters;
        let placed = self.ffs.borrow_mut().place(self.file(), number, to.get())?;
        self.touch(of, &placed.touches, caller).await;
        caller.step(steps.block, "block").await;
        let place = place(of, placed.extent);
        if placed.allocated {
            caller.step(steps.allocate, "allocate").await;
            let os = &of.layer.os;
            // What a fragment had before it grew stays.
            let new = place.bytes - from.round_up(fragment).min(place.bytes);
            let clears = Bytes::new((new.get() as f64 * clear) as u64);
            os.pass_through(Some(caller.process), clears, caller.ledger, "clear").await;
        }
        let cache = &of.layer.cache;
        let whole = from.is_zero() && to == block;
        let buffer = match whole || placed.allocated {
            true => cache.get(&place, caller).await,
            false => cache.read(&place, None, caller).await,
        };
        if !whole {
            caller.step(steps.partial, "partial").await;
        }
        of.copy(to - from, caller).await;
        if to == block {
            cache.start(&buffer, &place, true, true).await;
            caller.ledger.until(of.runtime.now(), caller.part, "driver");
        } else {
            cache.delay(&buffer);
        }
        Ok(())
    }

    /// The kernel's own blocks that a step needs.
    async fn touch(&self, of: &Mounted, touches: &[Touch], caller: &mut Caller<'_>) {
        let cache = &of.layer.cache;
        for touch in touches {
            let place = place(of, Extent { fragment: touch.fragment, fragments: touch.fragments });
            caller.step(of.layer.parameters.steps.own, "own blocks").await;
            match touch.how {
                How::Read => {
                    let buffer = cache.read(&place, None, caller).await;
                    cache.release(&buffer, false);
                }
                How::Delayed => {
                    let buffer = mine(of, &place, caller).await;
                    cache.delay(&buffer);
                }
                How::Started => {
                    let buffer = mine(of, &place, caller).await;
                    cache.start(&buffer, &place, true, true).await;
                    caller.ledger.until(of.runtime.now(), caller.part, "driver");
                }
                How::Synchronous => {
                    let buffer = mine(of, &place, caller).await;
                    cache.write_through(&buffer, &place, caller).await;
                }
            }
        }
    }
}

/// The buffer of a block that is all the caller's.
async fn mine(of: &Mounted, place: &Place, caller: &mut Caller<'_>) -> Rc<Buffer> {
    let buffer = of.layer.cache.get(place, caller).await;
    buffer.fill();
    buffer
}

fn place(of: &Mounted, extent: Extent) -> Place {
    let fragment = of.layer.parameters.fragment;
    Place {
        unit: Rc::clone(&of.unit),
        key: Key { mount: of.number, fragment: extent.fragment },
        offset: fragment * extent.fragment,
        bytes: fragment * extent.fragments,
    }
}

/// Whether two blocks are listed in the same indirect block, or both in the inode.
fn same(here: &[Touch], next: &[Touch]) -> bool {
    here.last().map(|touch| touch.fragment) == next.last().map(|touch| touch.fragment)
}
