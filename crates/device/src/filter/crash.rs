//! A volatile write cache, and the power cut that empties it.
//!
//! A drive answers a write when the bytes are in its cache and stores them when it likes, in any order; only a flush,
//! or FUA on the write itself, says otherwise. So after a power cut each sector holds what it held at the last flush,
//! or any write since: every subset of the unflushed sectors may have been kept, torn within one write too. The unit
//! that is kept or lost whole is the device's logical block (512 bytes or 4 KiB), as the drive's error correction
//! covers it as one.
//!
//! The device behind is the medium: what is there survives. A cut is therefore just [`WriteCache::cut`], with the
//! caller choosing what is kept: by seed, or one subset after the other on a [`snapshot`](WriteCache::snapshot) each.

use std::cell::{Cell, RefCell};

use runtime::{Resource, Runtime};
use units::Bytes;

use crate::{Buffer, Data, Device, DeviceError, MemoryDevice, Operation, Payload, Reply, Request, Shape, Stamps};

/// A write, or what a later one left of it, that a power cut may undo.
#[derive(Debug, Clone)]
pub struct Unflushed {
    /// Counts the writes to this device; parts of one write carry the same number.
    pub write: u64,
    /// Byte address.
    pub offset: Bytes,
    /// What was written.
    pub data: Data,
}

/// A device that answers writes from a cache which loses its contents in a power cut.
///
/// Unflushed writes are kept one by one, and a read looks through them all: a caller that never flushes gets slower.
pub struct WriteCache<D> {
    inner: D,
    runtime: Runtime,
    /// The unflushed writes, oldest first.
    unflushed: RefCell<Vec<Unflushed>>,
    writes: Cell<u64>,
    /// Held while bytes move to the medium, so that older ones never land on newer.
    store: Resource,
}

impl<D: Device> WriteCache<D> {
    /// An empty cache in front of `inner`.
    pub fn new(runtime: &Runtime, inner: D) -> WriteCache<D> {
        let store = Resource::new(runtime, 1);
        WriteCache { inner, runtime: runtime.clone(), unflushed: RefCell::default(), writes: Cell::new(0), store }
    }

    /// The medium.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// What a power cut now may undo, oldest first.
    pub fn unflushed(&self) -> Vec<Unflushed> {
        self.unflushed.borrow().clone()
    }

    /// Cuts the power: of each unflushed write, oldest first, the blocks are stored for which `keep` says so (it is
    /// told the write and the number of the block within it); all else is forgotten.
    ///
    /// Requests under way are the caller's to drop (`Runtime::clear`), as the machine that made them has lost its power
    /// too.
    pub async fn cut(&self, mut keep: impl FnMut(&Unflushed, u64) -> bool) -> Result<(), DeviceError> {
        let block = self.shape().logical_block;
        let unflushed = self.unflushed.take();
        for write in unflushed {
            for number in 0..write.data.len() / block {
                if keep(&write, number) {
                    let part = write.data.slice(block * number, block);
                    self.inner.submit(Request::write(write.offset + block * number, part)).await.result?;
                }
            }
        }
        Ok(())
    }

    /// Takes a write into the cache; gives its number.
    fn remember(&self, request: &Request) -> u64 {
        let data = match &request.payload {
            Payload::From(data) => data.clone(),
            // Write zeroes, or discard: a discarded range may read as anything, and zeroes are something.
            Payload::None | Payload::Into(_) => Buffer::zeroed(request.length).freeze(),
        };
        let write = self.writes.replace(self.writes.get() + 1);
        self.unflushed.borrow_mut().push(Unflushed { write, offset: request.offset, data });
        write
    }

    /// Forgets what writes before number `before` put into the range: newer bytes are on the medium.
    fn supersede(&self, offset: Bytes, length: Bytes, before: u64) {
        let end = offset + length;
        let parts = |old: Unflushed| {
            let old_end = old.offset + old.data.len();
            let part = |from: Bytes, to: Bytes| {
                (from < to).then(|| Unflushed {
                    write: old.write,
                    offset: from,
                    data: old.data.slice(from - old.offset, to - from),
                })
            };
            match old.write < before && old.offset < end && offset < old_end {
                true => [part(old.offset, offset.max(old.offset)), part(end.min(old_end), old_end)],
                false => [Some(old), None],
            }
        };
        let mut unflushed = self.unflushed.borrow_mut();
        let kept = unflushed.drain(..).flat_map(parts).flatten().collect();
        *unflushed = kept;
    }

    /// A write straight to the medium. Until it is done, a power cut may leave any part of it there, as of any other.
    async fn write_through(&self, request: Request) -> Reply {
        let (offset, length) = (request.offset, request.length);
        let write = self.remember(&request);
        let _alone = self.store.acquire(0).await;
        let reply = self.inner.submit(request).await;
        self.unflushed.borrow_mut().retain(|other| other.write != write);
        if reply.result.is_ok() {
            self.supersede(offset, length, write);
        }
        reply
    }

    async fn flush(&self, request: Request) -> Reply {
        let _alone = self.store.acquire(0).await;
        let before = self.writes.get();
        for write in self.unflushed() {
            let reply = self.inner.submit(Request::write(write.offset, write.data)).await;
            if let Err(error) = reply.result {
                return request.refuse(error, self.runtime.now());
            }
        }
        let reply = self.inner.submit(request).await;
        if reply.result.is_ok() {
            self.unflushed.borrow_mut().retain(|write| write.write >= before);
        }
        reply
    }

    async fn read(&self, request: Request) -> Reply {
        let offset = request.offset;
        // Taken before the medium is read: what is flushed meanwhile is in one of the two.
        let cached = self.unflushed();
        let mut reply = self.inner.submit(request).await;
        let Some(into) = reply.buffer.as_mut().and_then(|buffer| buffer.bytes_mut()) else { return reply };
        let end = offset + Bytes::new(into.len() as u64);
        for write in &cached {
            let from = write.offset.max(offset);
            let to = (write.offset + write.data.len()).min(end);
            if let Some(bytes) = write.data.bytes().filter(|_| from < to) {
                let source = &bytes[(from - write.offset).as_usize()..(to - write.offset).as_usize()];
                into[(from - offset).as_usize()..(to - offset).as_usize()].copy_from_slice(source);
            }
        }
        reply
    }
}

impl WriteCache<MemoryDevice> {
    /// A second cache and medium in the same state, under a runtime of its own.
    pub fn snapshot(&self, runtime: &Runtime) -> WriteCache<MemoryDevice> {
        let copy = WriteCache::new(runtime, self.inner.snapshot(runtime));
        *copy.unflushed.borrow_mut() = self.unflushed();
        copy.writes.set(self.writes.get());
        copy
    }
}

impl<D: Device> Device for WriteCache<D> {
    fn shape(&self) -> &Shape {
        self.inner.shape()
    }

    async fn submit(&self, request: Request) -> Reply {
        let submitted = self.runtime.now();
        if let Err(error) = self.shape().check(&request) {
            return request.refuse(error, submitted);
        }
        let mut reply = match request.operation {
            Operation::Read => self.read(request).await,
            Operation::Flush => self.flush(request).await,
            _ if request.fua => self.write_through(request).await,
            Operation::Write | Operation::WriteZeroes | Operation::Discard => {
                self.remember(&request);
                self.runtime.yield_now().await;
                request.answer(Ok(()), Stamps { submitted, completed: submitted })
            }
        };
        reply.stamps = Stamps { submitted, completed: self.runtime.now() };
        reply
    }
}
