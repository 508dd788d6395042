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
use crate::lost::Lost;
use crate::map::Mapping;
use crate::options::{self, FileOptions};
use crate::slot::Slots;
use crate::sync;
use crate::target::{Mode, OpenError, Store, Target};
use crate::threads::Threads;
use crate::turn::Turns;

/// A real file or block device under a live runtime.
pub struct FileDevice {
    shape: Shape,
    file: Arc<File>,
    /// For zeroing and discarding: the file that holds a block device exclusively, if there is one. Through any other
    /// the kernel refuses to do that to a device that somebody holds (EBUSY), be it ourselves.
    ranges: Arc<File>,
    /// A block device behind the page cache: the kernel forgets the cached range, dirty or not, before it asks the
    /// device to zero or discard it, and if the device then cannot, what had been written is lost.
    flushes_before_ranges: bool,
    /// What the page cache could not store. Without one, requests go past it.
    lost: Option<Rc<Lost>>,
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
        FileDevice::on(live, Target::open(path, options)?, options)
    }

    /// Opens what the permit is for, for reading and writing. Several devices may share a permit; each keeps others
    /// away as it does.
    pub fn open_writable(live: &Live, permit: &WritePermit, options: &FileOptions) -> Result<FileDevice, OpenError> {
        FileDevice::on(live, Target::permitted(permit, options)?, options)
    }

    /// Makes a new file of `size` bytes, for reading and writing. What has not been written reads as zeroes, and
    /// without any I/O: fill a file before its reads are timed.
    pub fn create(live: &Live, path: &Path, size: Bytes, options: &FileOptions) -> Result<FileDevice, OpenError> {
        FileDevice::on(live, Target::create(path, options, size)?, options)
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
        let lost: Option<Rc<Lost>> = (target.mode == Mode::Buffered).then(Rc::default);
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
                let of_file = lost.as_ref().filter(|_| target.store == Store::File);
                let commit = of_file.map(|lost| Box::new(commit(&file, lost)));
                Hands::IoUring { file, ranges: register(&ranges)?, copies, commit }
            }
            Engine::Sync => Hands::Sync(Turns::default()),
            Engine::Mapped => {
                let (file, size) = (&target.file, target.shape.size);
                let mapped = match (target.mode, target.exclusive.is_some()) {
                    (Mode::Direct, _) => Err("direct I/O goes past the page cache; open it buffered".into()),
                    (_, true) => Mapping::writable(file, size).map_err(|error| error.to_string()),
                    (_, false) => Mapping::new(file, size).map_err(|error| error.to_string()),
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
        let advice = match options.advice {
            options::Advice::None => None,
            options::Advice::Random => Some(Advice::Random),
            options::Advice::Sequential => Some(Advice::Sequential),
        };
        if let Some(advice) = advice.filter(|_| target.mode == Mode::Buffered) {
            // A hint, too.
            let _ = rustix::fs::fadvise(&target.file, 0, None, advice);
            match &hands {
                Hands::Mapped(mapping, _) if advice == Advice::Random => mapping.without_readahead(),
                Hands::Mapped(mapping, _) => mapping.with_readahead(),
                _ => {}
            }
        }
        Ok(FileDevice {
            shape: target.shape,
            file: Arc::new(target.file),
            ranges: Arc::new(ranges),
            flushes_before_ranges,
            lost,
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

    /// Empties a file, and gives it its length back as one hole. Later writes allocate blocks as in a new file. Its
    /// contents are lost.
    ///
    /// # Panics
    /// If the file was opened for reading only.
    pub fn make_anew(&self) -> std::io::Result<()> {
        assert!(self.writable, "a file that is only read is not made anew");
        self.file.set_len(0)?;
        self.file.set_len(self.shape.size.get())
    }

    /// Drops what the page cache holds of this file, after writing back what is dirty: later reads are the device's.
    pub fn drop_cache(&self) -> std::io::Result<()> {
        if let Hands::Mapped(mapping, _) = &self.hands {
            mapping.let_go();
        }
        if let (Some(lost), Err(error)) = (&self.lost, rustix::fs::fdatasync(&self.file)) {
            // It was said to this sync, and will be to no other.
            lost.keep(&Err(DeviceError::from_errno(error.raw_os_error(), Bytes::ZERO, self.shape.size)));
            return Err(error.into());
        }
        drop_cache(&self.file)
    }

    /// Drops what the page cache holds of this file and what is clean: a hint, without waiting for what is dirty.
    pub fn forget_cache(&self) {
        if let Hands::Mapped(mapping, _) = &self.hands {
            mapping.let_go();
        }
        let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed);
    }

    /// Carries out a durable write, or a flush, through the page cache.
    async fn make_durable(&self, lost: &Lost, request: Request) -> Reply {
        if let Err(error) = lost.verdict() {
            return request.refuse(error, self.runtime.now());
        }
        let mut reply = match (&self.hands, request.operation) {
            // What is shared is a sync of data; another is made for itself.
            (Hands::IoUring { commit: Some(commit), .. }, _) if !request.metadata && request.writeback.is_none() => {
                self.share_sync(commit, request).await
            }
            (_, Operation::Flush) => {
                let reply = self.by_hands(request).await;
                lost.keep(&reply.result);
                reply
            }
            _ => self.write_durably(lost, request).await,
        };
        // Another sync may have been told meanwhile what this one was not.
        reply.result = reply.result.and_then(|()| lost.verdict());
        reply
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
        let mut reply = self.submit(request).await;
        if reply.result.is_ok() {
            (reply.result, reply.stamps.completed) = commit.settle(range).await;
        }
        reply
    }

    /// Carries out a durable write by one system call.
    async fn write_durably(&self, lost: &Lost, request: Request) -> Reply {
        let Payload::From(data) = &request.payload else { panic!("a write has something to write") };
        let plain = Request { id: request.id, ..Request::write(request.offset, data.clone()) };
        let reply = self.by_hands(request).await;
        if reply.result.is_err() && self.submit(plain).await.result.is_ok() {
            lost.keep(&reply.result);
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
            Hands::Sync(turns) | Hands::Mapped(_, turns) => self.in_turn(turns, request).await,
        }
    }

    /// Hands a request over, one of many.
    async fn by_hands(&self, request: Request) -> Reply {
        match &self.hands {
            Hands::IoUring { file, .. } => file.carry_out(request).await,
            Hands::Threads(threads) => threads.carry_out(&self.file, request).await,
            Hands::Sync(turns) => self.in_turn(turns, request).await,
            Hands::Mapped(mapping, turns) => {
                let serve = |slots: &mut Slots, batch: &[u32]| mapping.serve(&self.file, slots, batch, &self.runtime);
                turns.carry_out(request, &self.runtime, serve).await
            }
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

/// The syncs of a file, by its ring. Their errors are kept here, where those of a sync are seen for which nobody waits
/// any more.
fn commit(file: &Rc<RingFile>, lost: &Rc<Lost>) -> Commit {
    let (file, lost) = (Rc::clone(file), Rc::clone(lost));
    Commit::new(move |range| {
        let (file, lost) = (Rc::clone(&file), Rc::clone(&lost));
        async move {
            let sync = Request { offset: range.start, length: range.end - range.start, ..Request::flush() };
            let reply = file.carry_out(sync).await;
            lost.keep(&reply.result);
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
        if let Some(lost) = &self.lost
            && is_durable(&request)
        {
            return Box::pin(self.make_durable(lost, request)).await;
        }
        match &self.hands {
            Hands::IoUring { copies: Some(turns), .. } if request.operation == Operation::Write => {
                self.in_turn(turns, request).await
            }
            Hands::IoUring { copies: Some(_), file, .. } if request.operation == Operation::Read => {
                let submitted = self.runtime.now();
                match sync::read_cached(&self.file, &mut request) {
                    true => request.answer(Ok(()), Stamps { submitted, completed: self.runtime.now() }),
                    false => file.carry_out(request).await,
                }
            }
            Hands::Sync(turns) if turns.may_go_on(&self.runtime) => {
                turns.carry_out_now(request, |request| sync::serve_one(&self.file, request, &self.runtime))
            }
            Hands::Mapped(mapping, turns) if turns.may_go_on(&self.runtime) => {
                turns.carry_out_now(request, |request| mapping.serve_one(&self.file, request, &self.runtime))
            }
            _ => self.by_hands(request).await,
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
