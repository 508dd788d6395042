//! A file system as a layer of an operating system: files on a drive, through the buffer cache and the driver.
//!
//! # A call's way
//! ```text
//!   process -> call -> address of the block (indirect blocks) -> buffer cache -> driver -> drive
//!   process <- copy <-                              interrupt <------------------'
//! ```
//! *Reading*, a block that follows the last one has the next one read ahead; both are asked for before the process
//! waits for the first. *Writing*, a block gets its place first (crate `filesystem`: the allocator), with what the
//! kernel reads and writes of its maps; then it is copied into its buffer. A full block is written at once and nobody
//! waits; a part of one waits in its buffer for the rest. What waits is written every half minute.
//!
//! One call at a time is in a file: the kernel locks its inode from the beginning of a read or write to its end.
//!
//! Every step costs the processor instructions, and copies move over memory; DMA slows both down
//! ([`crate::cpu::CpuParameters::memory_share`]).
//!
//! Each drive has one file system, and on it the file `foo/tst2` of the study's script. Requests go to that file,
//! offset by offset. It is there when a run begins ([`State::Laid`]), and nothing of it is in the cache; or the first
//! write makes it ([`State::Absent`]).
//!
//! # Sources
//! sys_inode.c (rwip), ufs_bmap.c and ufs_bio.c of 4.2BSD (6.1, July 1983).

mod cache;
mod parameters;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use filesystem::ffs::{Extent, Ffs, FfsError, InodeNumber, ROOT};
use filesystem::{How, Touch};
use record::PartName;
use runtime::{Grant, Resource, Runtime, Signal};
use units::Bytes;

use self::cache::{Buffer, Cache, Key, Place};
use self::parameters::{LayerParameters, assumed};
use crate::component::{Component, Kind};
use crate::cpu::Level;
use crate::driver::{self, Driver, Unit};
use crate::endpoint::Endpoint;
use crate::load::{Gauges, Reading};
use crate::os::{Os, Process};
use crate::scsi::target::BLOCK;
use crate::system::Machine;
use crate::trace::Ledger;

/// A file system, on the operating system that it is a layer of.
pub const KIND: Kind = Kind {
    name: "file-system",
    on: &["operating-system"],
    fast: &[],
    build: |site| {
        let parameters = site.parameters(LayerParameters::read)?;
        let cache = Rc::new(Cache::new(site.runtime, parameters.buffers, parameters.cache));
        Ok(Rc::new(Layer { os: site.on(), part: site.trace.part(site.name), cache, parameters }))
    },
};

/// A file system in its node, before it knows drives.
pub struct Layer {
    parameters: LayerParameters,
    os: Rc<Os>,
    part: PartName,
    cache: Rc<Cache>,
}

impl Component for Layer {
    fn gauges(&self, gauges: &mut Gauges) {
        // The processor's time, told once more: as a part of its own it would be blamed for what limits.
        gauges.put("programs", Reading::Present(self.os.cpu.held()));
        gauges.put("blocks read", Reading::Count(self.cache.reads.get()));
        gauges.put("blocks written", Reading::Count(self.cache.writes.get()));
        gauges.put("cache hits", Reading::Count(self.cache.hits.get()));
    }
    fn needs(&self) -> Option<&'static str> {
        Some("disk-driver")
    }
}

/// Whether the file is there when a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// With all of its blocks.
    Laid,
    /// Not at all.
    Absent,
}

/// A file system on a drive, mounted.
pub struct Mounted {
    runtime: Runtime,
    layer: Rc<Layer>,
    unit: Rc<Unit>,
    number: usize,
    ffs: RefCell<Ffs>,
    directory: InodeNumber,
    /// Of the file's inode.
    lock: Resource,
    file: Cell<Option<InodeNumber>>,
    size: Bytes,
    /// The last block that was read.
    last: Cell<Option<u64>>,
}

/// Why there is no file system.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum MountError {
    #[error(
        "the system has neither a file server nor a file system; add a node of kind 'file-system' on its operating system, or take another way"
    )]
    Nothing,
    #[error("the system has {count} nodes of kind '{kind}'; files go through one of each: remove the others")]
    Several { count: usize, kind: &'static str },
    #[error("the file system on {drive}: {source}")]
    Newfs { drive: String, source: filesystem::ffs::ParametersError },
    #[error("the file of {file} on {drive}: {source}; make the file smaller (file), or the drive larger")]
    File { drive: String, file: Bytes, source: FfsError },
}

/// Who calls, for what waits.
pub(super) struct Caller<'c> {
    os: &'c Rc<Os>,
    process: &'c Rc<Process>,
    ledger: &'c mut Ledger,
    part: PartName,
    wake: u64,
    buffer: u64,
    runtime: &'c Runtime,
}

impl Caller<'_> {
    /// Waits, and leaves the processor to others.
    pub async fn wait(&mut self, changed: &Signal, mut condition: impl FnMut() -> bool) {
        if condition() {
            return;
        }
        self.os.block(self.process);
        changed.wait_until(condition).await;
        self.ledger.until(self.runtime.now(), self.part, "wait");
        self.os.wake(self.process, self.ledger).await;
        self.step(self.wake, "wake").await;
    }

    /// Locks an inode, and leaves the processor to others until it is free.
    async fn lock(&mut self, inode: &Resource) -> Grant {
        if let Some(lock) = inode.try_acquire() {
            return lock;
        }
        self.os.block(self.process);
        let lock = inode.acquire(0).await;
        self.ledger.until(self.runtime.now(), self.part, "inode");
        self.os.wake(self.process, self.ledger).await;
        self.step(self.wake, "wake").await;
        lock
    }

    pub async fn step(&mut self, instructions: u64, phase: &'static str) {
        self.os.cpu.execute(instructions, Level::Process).await;
        self.ledger.until(self.runtime.now(), self.part, phase);
    }
}

impl Mounted {
    /// A file system on each of these drives, made and mounted, with its file laid out.
    pub fn mount(machine: &Machine, drives: &[(String, Rc<dyn Endpoint>)]) -> Result<Vec<Rc<Mounted>>, MountError> {
        let (layer, driver): (Rc<Layer>, Rc<Driver>) = (only(machine, &KIND)?, only(machine, &driver::KIND)?);
        let mut all = Vec::new();
        for (number, (drive, endpoint)) in drives.iter().enumerate() {
            let tracks = endpoint.tracks().unwrap_or_else(|| assumed(endpoint.size()));
            let new = Ffs::new(layer.parameters.of(tracks));
            let mut ffs = new.map_err(|source| MountError::Newfs { drive: drive.clone(), source })?;
            let size = layer.parameters.file;
            let refused = |source| MountError::File { drive: drive.clone(), file: size, source };
            let (directory, _) = ffs.make_directory(ROOT, "foo").map_err(refused)?;
            let mounted = Mounted {
                runtime: machine.runtime.clone(),
                layer: Rc::clone(&layer),
                unit: Unit::new(&driver, endpoint),
                number,
                ffs: RefCell::new(ffs),
                directory,
                lock: Resource::new(&machine.runtime, 1),
                file: Cell::new(None),
                size,
                last: Cell::new(None),
            };
            mounted.set(State::Laid).map_err(refused)?;
            all.push(Rc::new(mounted));
        }
        let (runtime, update) = (machine.runtime.clone(), layer.parameters.update);
        machine.runtime.spawn_detached(async move {
            loop {
                runtime.sleep(update).await;
                layer.cache.flush().await;
            }
        });
        Ok(all)
    }

    /// The operating system that it is a layer of.
    pub fn os(&self) -> &Rc<Os> {
        &self.layer.os
    }

    /// How large the file is, or becomes.
    pub fn size(&self) -> Bytes {
        self.size
    }

    /// Whether the file is there when a run begins. Nothing of it is in the cache then.
    pub fn set(&self, state: State) -> Result<(), FfsError> {
        let ffs = &mut *self.ffs.borrow_mut();
        if self.file.take().is_some() {
            ffs.remove(self.directory, FILE)?;
        }
        if state == State::Laid {
            let (file, _) = ffs.create(self.directory, FILE)?;
            let block = self.layer.parameters.block;
            for number in 0..self.size / block {
                ffs.place(file, number, block.get())?;
            }
            self.file.set(Some(file));
        }
        self.layer.cache.forget(self.number);
        self.last.set(None);
        Ok(())
    }

    /// Reads or writes of a process, from the call to its return.
    pub async fn call(
        &self,
        process: &Rc<Process>,
        write: bool,
        offset: Bytes,
        bytes: Bytes,
        ledger: &mut Ledger,
    ) -> Result<(), FfsError> {
        let (steps, part) = (self.layer.parameters.steps, self.layer.part);
        let os = &self.layer.os;
        os.resume(process, ledger, "call").await;
        let mut caller =
            Caller { os, process, ledger, part, wake: steps.wake, buffer: steps.buffer, runtime: &self.runtime };
        caller.step(steps.call, "call").await;
        let _lock = caller.lock(&self.lock).await;
        let file = match self.file.get() {
            Some(file) => file,
            None => self.create(&mut caller).await?,
        };
        let block = self.layer.parameters.block;
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            let number = at / block;
            let upto = end.min(block * (number + 1));
            if write {
                self.write(file, number, (at - block * number, upto - block * number), &mut caller).await?;
            } else {
                self.read(file, number, upto - at, &mut caller).await;
            }
            at = upto;
        }
        os.leave(process, self.layer.parameters.slice);
        Ok(())
    }

    /// Makes the file.
    async fn create(&self, caller: &mut Caller<'_>) -> Result<InodeNumber, FfsError> {
        caller.step(self.layer.parameters.steps.open, "open").await;
        let (file, touches) = self.ffs.borrow_mut().create(self.directory, FILE)?;
        self.file.set(Some(file));
        self.touch(&touches, caller).await;
        Ok(file)
    }

    async fn read(&self, file: InodeNumber, number: u64, bytes: Bytes, caller: &mut Caller<'_>) {
        let LayerParameters { steps, read_ahead, .. } = self.layer.parameters;
        let found = |number| self.ffs.borrow().map(file, number);
        let (extent, touches) = found(number).expect("a run that makes a file does not read it");
        self.touch(&touches, caller).await;
        caller.step(steps.block, "block").await;
        let sequential = number.checked_sub(1) == self.last.replace(Some(number)) && number > 0;
        let more = (number + 1) * self.layer.parameters.block.get() < self.ffs.borrow().size(file);
        // Across the end of the indirect block at hand nothing is read ahead.
        let ahead = found(number + 1).filter(|(_, next)| sequential && read_ahead && more && same(&touches, next));
        let ahead = ahead.map(|(extent, _)| self.place(extent));
        let buffer = self.layer.cache.read(&self.place(extent), ahead.as_ref(), caller).await;
        self.copy(bytes, caller).await;
        // A block that was read to its end is not expected to be read again.
        self.layer.cache.release(&buffer, bytes == self.layer.parameters.block);
    }

    async fn write(
        &self,
        file: InodeNumber,
        number: u64,
        (from, to): (Bytes, Bytes),
        caller: &mut Caller<'_>,
    ) -> Result<(), FfsError> {
        let LayerParameters { steps, block, clear, .. } = self.layer.parameters;
        let placed = self.ffs.borrow_mut().place(file, number, to.get())?;
        self.touch(&placed.touches, caller).await;
        caller.step(steps.block, "block").await;
        let place = self.place(placed.extent);
        if placed.allocated {
            caller.step(steps.allocate, "allocate").await;
            let os = &self.layer.os;
            // What a fragment had before it grew stays.
            let new = place.bytes - from.round_up(self.layer.parameters.fragment).min(place.bytes);
            let clears = Bytes::new((new.get() as f64 * clear) as u64);
            os.pass_through(Some(caller.process), clears, caller.ledger, "clear").await;
        }
        let cache = &self.layer.cache;
        let whole = from.is_zero() && to == block;
        let buffer = match whole || placed.allocated {
            true => cache.get(&place, caller).await,
            false => cache.read(&place, None, caller).await,
        };
        if !whole {
            caller.step(steps.partial, "partial").await;
        }
        self.copy(to - from, caller).await;
        if to == block {
            cache.start(&buffer, &place, true, true).await;
            caller.ledger.until(self.runtime.now(), caller.part, "driver");
        } else {
            cache.delay(&buffer);
        }
        Ok(())
    }

    /// The kernel's own blocks that a step needs.
    async fn touch(&self, touches: &[Touch], caller: &mut Caller<'_>) {
        let cache = &self.layer.cache;
        for touch in touches {
            let place = self.place(Extent { fragment: touch.fragment, fragments: touch.fragments });
            caller.step(self.layer.parameters.steps.own, "own blocks").await;
            match touch.how {
                How::Read => {
                    let buffer = cache.read(&place, None, caller).await;
                    cache.release(&buffer, false);
                }
                How::Delayed => {
                    let buffer = self.mine(&place, caller).await;
                    cache.delay(&buffer);
                }
                How::Started => {
                    let buffer = self.mine(&place, caller).await;
                    cache.start(&buffer, &place, true, true).await;
                    caller.ledger.until(self.runtime.now(), caller.part, "driver");
                }
                How::Synchronous => {
                    let buffer = self.mine(&place, caller).await;
                    cache.write_through(&buffer, &place, caller).await;
                }
            }
        }
    }

    async fn mine(&self, place: &Place, caller: &mut Caller<'_>) -> Rc<Buffer> {
        let buffer = self.layer.cache.get(place, caller).await;
        buffer.fill();
        buffer
    }

    async fn copy(&self, bytes: Bytes, caller: &mut Caller<'_>) {
        self.layer.os.pass_through(Some(caller.process), bytes, caller.ledger, "copy").await;
    }

    fn place(&self, extent: Extent) -> Place {
        let fragment = self.layer.parameters.fragment;
        Place {
            unit: Rc::clone(&self.unit),
            key: Key { mount: self.number, fragment: extent.fragment },
            offset: fragment * extent.fragment,
            bytes: fragment * extent.fragments,
        }
    }
}

/// The only part of a kind that files need.
fn only<P: Component>(machine: &Machine, kind: &Kind) -> Result<Rc<P>, MountError> {
    let mut parts = machine.parts();
    let first = parts.next().ok_or(MountError::Nothing)?;
    match parts.count() {
        0 => Ok(first),
        others => Err(MountError::Several { count: others + 1, kind: kind.name }),
    }
}

/// The study's file.
const FILE: &str = "tst2";

/// Whether two blocks are listed in the same indirect block, or both in the inode.
fn same(here: &[Touch], next: &[Touch]) -> bool {
    here.last().map(|touch| touch.fragment) == next.last().map(|touch| touch.fragment)
}

const _: () = assert!(BLOCK.get() == Bytes::SECTOR.get(), "a drive's block is a sector");
