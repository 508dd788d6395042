//! A file or block device as a [`Device`].

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use device::{Device, DeviceError, Extent, Operation, Payload, Reply, Request, Shape, Stamps};
use futures_util::future::FutureExt;
use host::guard::WritePermit;
use runtime::Runtime;
use rustix::fs::{Advice, SeekFrom};
use units::Bytes;

use crate::commit::Commit;
use crate::engine::{Choice, Engine, IN_MEMORY, choose};
use crate::flight::RingFile;
use crate::live::Live;
use crate::map::Mapping;
use crate::slot::Slots;
use crate::sync;
use crate::target::{Mode, OpenError, Store, Target};
use crate::threads::Threads;
use crate::turn::Turns;

/// How a file is opened.
#[derive(Debug, Clone)]
pub struct FileOptions {
    /// Past the page cache or through it.
    pub mode: Mode,
    /// The engine; the cheapest for the target if not given.
    pub engine: Option<Engine>,
    /// Whether the kernel may read ahead when it sees sequential reads. Without effect on direct I/O.
    pub readahead: bool,
    /// Whether what the page cache holds of the file is dropped first, after writing back what is dirty; the engine is then chosen for a
    /// file that must be waited for.
    pub cold: bool,
    /// Whether the task's own thread copies from and into the page cache, where the engine is a ring.
    ///
    /// A read is tried without waiting; if a page is missing, the ring waits for it. A task whose reads are all there waits for none of them, so that it has to let
    /// others go on by itself. Most file systems cannot promise not to wait for a page that is written, and the ring then hands each write to a kernel worker;
    /// the copy itself is the cheaper by far. While the kernel holds writers back (too much is dirty), the whole thread waits. Durable writes go
    /// through the ring all the same.
    pub copies: bool,
}

impl FileOptions {
    /// Past the page cache.
    pub fn direct() -> FileOptions {
        FileOptions { mode: Mode::Direct, engine: None, readahead: true, cold: false, copies: false }
    }
    /// Through the page cache.
    pub fn buffered() -> FileOptions {
        FileOptions { mode: Mode::Buffered, ..FileOptions::direct() }
    }
    /// By this engine and no other.
    pub fn by(self, engine: Engine) -> FileOptions {
        FileOptions { engine: Some(engine), ..self }
    }
    /// With copies from and into the page cache made by the task's own thread.
    pub fn copying(self) -> FileOptions {
        FileOptions { copies: true, ..self }
    }
    /// Without reading ahead.
    pub fn without_readahead(self) -> FileOptions {
        FileOptions { readahead: false, ..self }
    }
}

/// A real file or block device under a live runtime.
pub struct FileDevice {
    shape: Shape,
    file: Arc<File>,
    /// For zeroing and discarding: the file that holds a block device exclusively, if there is one. Through any other the kernel refuses
    /// to do that to a device that somebody holds (EBUSY), be it ourselves.
    ranges: Arc<File>,
    /// A block device behind the page cache: the kernel forgets the cached range, dirty or not, before it asks the device to zero or
    /// discard it, and if the device then cannot, what had been written is lost.
    flushes_before_ranges: bool,
    writable: bool,
    choice: Choice,
    hands: Hands,
    runtime: Runtime,
}

/// What carries requests out.
enum Hands {
    IoUring { file: Rc<RingFile>, ranges: RingFile, copies: Option<Turns>, commit: Option<Box<Commit>> },
    Sync(Turns),
    Mapped(Mapping, Turns),
    Threads(Threads),
}

impl FileDevice {
    /// Opens an existing file or block device that will not be written to.
    pub fn open_read_only(live: &Live, path: &Path, options: &FileOptions) -> Result<FileDevice, OpenError> {
        FileDevice::on(live, Target::open(path, options.mode)?, options)
    }

    /// Opens what the permit is for, for reading and writing. Several devices may share a permit; each keeps others away as it does.
    pub fn open_writable(live: &Live, permit: &WritePermit, options: &FileOptions) -> Result<FileDevice, OpenError> {
        FileDevice::on(live, Target::permitted(permit, options.mode)?, options)
    }

    /// Makes a new file of `size` bytes, for reading and writing. What has not been written reads as zeroes, and without any I/O: fill a
    /// file before its reads are timed.
    pub fn create(live: &Live, path: &Path, size: Bytes, options: &FileOptions) -> Result<FileDevice, OpenError> {
        FileDevice::on(live, Target::create(path, options.mode, size)?, options)
    }

    fn on(live: &Live, target: Target, options: &FileOptions) -> Result<FileDevice, OpenError> {
        if options.cold {
            drop_cache(&target.file).map_err(|source| OpenError::System {
                path: target.path.clone(),
                call: "fadvise",
                source,
            })?;
        }
        let choice = match options.engine {
            Some(engine) => Choice { engine, reason: "it was asked for".into() },
            None => choose(&target, live.ring().map(drop)),
        };
        let refused = |reason: String| OpenError::Engine { path: target.path.clone(), engine: choice.engine, reason };
        let flushes_before_ranges = target.mode == Mode::Buffered && target.store.is_device();
        let ranges = target.exclusive.as_ref().unwrap_or(&target.file).try_clone();
        let ranges = ranges.map_err(|source| OpenError::System { path: target.path.clone(), call: "dup", source })?;
        let hands = match choice.engine {
            Engine::IoUring => {
                let ring = live.ring().map_err(|error| refused(error.to_string()))?;
                let register = |file: &File| {
                    let registered = ring.register(file.as_fd());
                    registered.map_err(|source| OpenError::Ring { path: target.path.clone(), source })
                };
                ring.in_portions();
                let copies = (options.copies && target.mode == Mode::Buffered).then(Turns::default);
                let file = Rc::new(register(&target.file)?);
                let shares_syncs = target.mode == Mode::Buffered && target.store == Store::File;
                let commit = shares_syncs.then(|| Box::new(commit(&file)));
                Hands::IoUring { file, ranges: register(&ranges)?, copies, commit }
            }
            Engine::Sync => Hands::Sync(Turns::default()),
            Engine::Mapped => {
                let mapped = match (target.mode, target.store) {
                    (Mode::Direct, _) => Err("direct I/O goes past the page cache; open it buffered".into()),
                    (_, store) if store.is_device() => Err("it is for files, and this is a device".into()),
                    _ if target.exclusive.is_some() => Err("it only reads; open it read-only".into()),
                    _ => Mapping::new(&target.file, target.shape.size).map_err(|error| error.to_string()),
                };
                let mapping: Mapping = mapped.map_err(refused)?;
                if mapping.resident() >= IN_MEMORY {
                    mapping.populate();
                }
                Hands::Mapped(mapping, Turns::default())
            }
            Engine::Threads => Hands::Threads(live.threads().map_err(|error| refused(error.to_string()))?),
        };
        if !options.readahead {
            // A hint: a file system that does not take it reads ahead, and that is all.
            let _ = rustix::fs::fadvise(&target.file, 0, None, Advice::Random);
            if let Hands::Mapped(mapping, _) = &hands {
                mapping.without_readahead();
            }
        }
        Ok(FileDevice {
            shape: target.shape,
            file: Arc::new(target.file),
            ranges: Arc::new(ranges),
            flushes_before_ranges,
            writable: target.exclusive.is_some(),
            choice,
            hands,
            runtime: live.runtime().clone(),
        })
    }

    /// The engine that carries requests out, and why it was chosen.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// Whether no request is under way, those included that nobody waits for any more: they may still be carried out.
    pub fn is_idle(&self) -> bool {
        match &self.hands {
            Hands::IoUring { file, ranges, .. } => file.is_idle() && ranges.is_idle(),
            // A worker holds the file until it is done.
            Hands::Threads(_) => Arc::strong_count(&self.file) == 1 && Arc::strong_count(&self.ranges) == 1,
            // These are carried out while they are asked for.
            Hands::Sync(_) | Hands::Mapped(..) => true,
        }
    }

    /// Drops what the page cache holds of this file, after writing back what is dirty: later reads are the device's.
    pub fn drop_cache(&self) -> std::io::Result<()> {
        if let Hands::Mapped(mapping, _) = &self.hands {
            mapping.let_go();
        }
        drop_cache(&self.file)
    }

    /// Carries out a durable write, or a flush, with a sync that it shares.
    async fn share_sync(&self, commit: &Commit, mut request: Request) -> Reply {
        if request.operation == Operation::Flush {
            let submitted = self.runtime.now();
            let (result, completed) = commit.settle(Bytes::ZERO..Bytes::new(u64::MAX)).await;
            return request.answer(result, Stamps { submitted, completed });
        }
        let range = request.offset..request.offset + request.length;
        request.fua = false;
        let mut reply = Box::pin(self.submit(request)).await;
        if reply.result.is_ok() {
            (reply.result, reply.stamps.completed) = commit.settle(range).await;
        }
        reply
    }

    /// Zeroes or discards a range.
    async fn on_range(&self, request: Request) -> Reply {
        if self.flushes_before_ranges {
            let flushed = Box::pin(self.submit(Request::flush())).await;
            if let Err(error) = flushed.result {
                return request.answer(Err(error), flushed.stamps);
            }
        }
        match &self.hands {
            Hands::IoUring { ranges, .. } => ranges.carry_out(request).await,
            Hands::Threads(threads) => threads.carry_out(&self.ranges, request).await,
            Hands::Sync(turns) => self.in_turn(turns, request).await,
            Hands::Mapped(..) => unreachable!("what is mapped is not written"),
        }
    }

    /// Carries a request out by system calls of this thread.
    async fn in_turn(&self, turns: &Turns, request: Request) -> Reply {
        let file = |operation| match operation {
            Operation::Discard | Operation::WriteZeroes => &*self.ranges,
            Operation::Read | Operation::Write | Operation::Flush => &*self.file,
        };
        turns.carry_out(request, &self.runtime, |slots, batch| sync::serve(file, slots, batch, &self.runtime)).await
    }

    /// Refuses what cannot be sent to the kernel.
    fn check(&self, request: &Request) -> Result<(), DeviceError> {
        self.shape.check(request)?;
        let writes = !matches!(request.operation, Operation::Read | Operation::Flush);
        if writes && !self.writable {
            return Err(DeviceError::ReadOnly);
        }
        let moved = match &request.payload {
            Payload::None => None,
            Payload::Into(buffer) => Some(buffer.bytes().map(<[u8]>::len)),
            Payload::From(data) => Some(data.bytes().map(<[u8]>::len)),
        };
        if let Some(moved) = moved {
            // Our bugs: the kernel would move as much as the memory holds, and a phantom holds none.
            assert_eq!(
                moved,
                Some(request.length.as_usize()),
                "a real device moves real memory of the request's length"
            );
        }
        Ok(())
    }
}

/// Whether something is durable once it is replied to.
fn is_durable(request: &Request) -> bool {
    request.operation == Operation::Flush || request.operation == Operation::Write && request.fua
}

/// The syncs of a file, by its ring.
fn commit(file: &Rc<RingFile>) -> Commit {
    let file = Rc::clone(file);
    Commit::new(move |range| {
        let file = Rc::clone(&file);
        async move {
            let sync = Request { offset: range.start, length: range.end - range.start, ..Request::flush() };
            let reply = file.carry_out(sync).await;
            (reply.result, reply.stamps.completed)
        }
        .boxed_local()
    })
}

/// Forgets what the page cache holds of a file, after writing back what is dirty.
pub fn drop_cache(file: &File) -> std::io::Result<()> {
    rustix::fs::fdatasync(file)?;
    Ok(rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?)
}

impl Device for FileDevice {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    async fn submit(&self, mut request: Request) -> Reply {
        let verdict = self.check(&request);
        if verdict.is_err() || (request.length.is_zero() && request.operation != Operation::Flush) {
            let now = self.runtime.now();
            return request.answer(verdict, Stamps { submitted: now, completed: now });
        }
        if matches!(request.operation, Operation::Discard | Operation::WriteZeroes) {
            return Box::pin(self.on_range(request)).await;
        }
        match &self.hands {
            Hands::IoUring { commit: Some(commit), .. } if is_durable(&request) => {
                self.share_sync(commit, request).await
            }
            Hands::IoUring { copies: Some(turns), .. } if request.operation == Operation::Write && !request.fua => {
                self.in_turn(turns, request).await
            }
            Hands::IoUring { copies: Some(_), file, .. } if request.operation == Operation::Read => {
                let submitted = self.runtime.now();
                match sync::read_cached(&self.file, &mut request) {
                    true => request.answer(Ok(()), Stamps { submitted, completed: self.runtime.now() }),
                    false => file.carry_out(request).await,
                }
            }
            Hands::IoUring { file, .. } => file.carry_out(request).await,
            Hands::Threads(threads) => threads.carry_out(&self.file, request).await,
            Hands::Sync(turns) if turns.may_go_on(&self.runtime) => {
                turns.carry_out_now(request, |request| sync::serve_one(&self.file, request, &self.runtime))
            }
            Hands::Sync(turns) => self.in_turn(turns, request).await,
            Hands::Mapped(mapping, turns) if turns.may_go_on(&self.runtime) => {
                turns.carry_out_now(request, |request| mapping.serve_one(&self.file, request, &self.runtime))
            }
            Hands::Mapped(mapping, turns) => {
                let serve = |slots: &mut Slots, batch: &[u32]| mapping.serve(&self.file, slots, batch, &self.runtime);
                turns.carry_out(request, &self.runtime, serve).await
            }
        }
    }

    /// By asking the file system, which may have to read its own tables for it. Block devices know no holes.
    fn extent(&self, offset: Bytes, length: Bytes) -> Extent {
        let next = |what: fn(u64) -> SeekFrom| match rustix::fs::seek(&self.file, what(offset.get())) {
            Ok(at) => Some(Bytes::new(at).saturating_sub(offset).min(length)),
            // No data until the end of the file.
            Err(rustix::io::Errno::NXIO) => Some(length),
            Err(_) => None,
        };
        match next(SeekFrom::Data) {
            Some(hole) if !hole.is_zero() => Extent::hole(hole),
            // A hole that begins here was made meanwhile.
            Some(_) => Extent::data(next(SeekFrom::Hole).filter(|data| !data.is_zero()).unwrap_or(length)),
            None => Extent::data(length),
        }
    }
}
