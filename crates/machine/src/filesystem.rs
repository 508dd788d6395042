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
mod fast;
mod log;
mod parameters;

use std::cell::Cell;
use std::rc::Rc;

use filesystem::ffs::FfsError;
use filesystem::lfs::LogError;
use record::PartName;
use runtime::{Grant, Resource, Runtime, Signal};
use units::Bytes;

use self::cache::Cache;
use self::fast::Fast;
use self::log::Logged;
use self::parameters::{Format, LayerParameters};
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

/// What lies where on the disk, and how it gets there.
enum Disk {
    Fast(Box<Fast>),
    Log(Rc<Logged>),
}

/// A file system on a drive, mounted.
pub struct Mounted {
    runtime: Runtime,
    layer: Rc<Layer>,
    unit: Rc<Unit>,
    number: usize,
    disk: Disk,
    /// Of the file's inode.
    lock: Resource,
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
    #[error("the log-structured file system on {drive}: {source}")]
    NewLog { drive: String, source: filesystem::lfs::ParametersError },
    #[error("the file of {file} on {drive}: {source}; make the file smaller (file), or the drive larger")]
    File { drive: String, file: Bytes, source: FileError },
}

/// Why a call failed, or a file cannot be made.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // each is what its file system says
pub enum FileError {
    #[error(transparent)]
    Fast(#[from] FfsError),
    #[error(transparent)]
    Log(#[from] LogError),
}

impl FileError {
    /// Whether the file system had no room.
    pub fn is_no_space(&self) -> bool {
        match self {
            FileError::Fast(error) => matches!(error, FfsError::NoSpace | FfsError::NoInodes),
            FileError::Log(error) => matches!(error, LogError::Full { .. } | LogError::NoInodes { .. }),
        }
    }
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
            let size = layer.parameters.file;
            let unit = Unit::new(&driver, endpoint);
            let disk = match layer.parameters.format {
                Format::Fast => Disk::Fast(Box::new(Fast::new(&layer.parameters, drive, endpoint)?)),
                Format::Log => Disk::Log(Logged::new(&layer.parameters, drive, (number, &unit), &machine.runtime)?),
            };
            let mounted = Mounted {
                runtime: machine.runtime.clone(),
                layer: Rc::clone(&layer),
                unit,
                number,
                disk,
                lock: Resource::new(&machine.runtime, 1),
                size,
                last: Cell::new(None),
            };
            let refused = |source| MountError::File { drive: drive.clone(), file: size, source };
            mounted.set(State::Laid).map_err(refused)?;
            all.push(Rc::new(mounted));
        }
        let (runtime, update) = (machine.runtime.clone(), layer.parameters.update);
        let logs: Vec<Rc<Logged>> = all.iter().filter_map(|mounted| mounted.log()).collect();
        machine.runtime.spawn_detached(async move {
            loop {
                runtime.sleep(update).await;
                layer.cache.flush().await;
                logs.iter().for_each(Logged::checkpoint);
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

    fn log(&self) -> Option<Rc<Logged>> {
        match &self.disk {
            Disk::Log(log) => Some(Rc::clone(log)),
            Disk::Fast(_) => None,
        }
    }

    /// Whether the file is there when a run begins. Nothing of it is in the cache then.
    pub fn set(&self, state: State) -> Result<(), FileError> {
        match &self.disk {
            Disk::Fast(fast) => fast.set(state, self.size, self.layer.parameters.block)?,
            Disk::Log(log) => log.set(state, self.size, self.layer.parameters.block)?,
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
    ) -> Result<(), FileError> {
        let (steps, part) = (self.layer.parameters.steps, self.layer.part);
        let os = &self.layer.os;
        os.resume(process, ledger, "call").await;
        let mut caller =
            Caller { os, process, ledger, part, wake: steps.wake, buffer: steps.buffer, runtime: &self.runtime };
        caller.step(steps.call, "call").await;
        let _lock = caller.lock(&self.lock).await;
        self.open(&mut caller).await?;
        let block = self.layer.parameters.block;
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            let number = at / block;
            let upto = end.min(block * (number + 1));
            if write {
                self.write(number, (at - block * number, upto - block * number), &mut caller).await?;
            } else {
                self.read(number, upto - at, &mut caller).await;
            }
            at = upto;
        }
        os.leave(process, self.layer.parameters.slice);
        Ok(())
    }

    /// Makes the file, if it is not there.
    async fn open(&self, caller: &mut Caller<'_>) -> Result<(), FileError> {
        match &self.disk {
            Disk::Fast(fast) => Ok(fast.open(self, caller).await?),
            Disk::Log(log) => Ok(log.open(self, caller).await?),
        }
    }

    async fn read(&self, number: u64, bytes: Bytes, caller: &mut Caller<'_>) {
        let sequential = number.checked_sub(1) == self.last.replace(Some(number)) && number > 0;
        let ahead = sequential && self.layer.parameters.read_ahead;
        match &self.disk {
            Disk::Fast(fast) => fast.read(self, (number, ahead), bytes, caller).await,
            Disk::Log(log) => log.read(self, (number, ahead), bytes, caller).await,
        }
    }

    async fn write(&self, number: u64, range: (Bytes, Bytes), caller: &mut Caller<'_>) -> Result<(), FileError> {
        match &self.disk {
            Disk::Fast(fast) => Ok(fast.write(self, number, range, caller).await?),
            Disk::Log(log) => Ok(log.write(self, number, range, caller).await?),
        }
    }

    async fn copy(&self, bytes: Bytes, caller: &mut Caller<'_>) {
        self.layer.os.pass_through(Some(caller.process), bytes, caller.ledger, "copy").await;
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

const _: () = assert!(BLOCK.get() == Bytes::SECTOR.get(), "a drive's block is a sector");
