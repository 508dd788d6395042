//! A device without room of its own: blocks take some of a common store when they are written first, as sparse files do
//! of their file system and thin volumes of their pool.
//!
//! A write is carried out up to the first block for which there is no room, and then refused with
//! [`DeviceError::NoSpace`], as the kernel does it with files. What has room once keeps it: overwriting needs none.
//! Discards give none back, which is the worst that a store may do.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use runtime::Runtime;
use units::Bytes;

use crate::{Device, DeviceError, Extent, Operation, Payload, Reply, Request, Shape};

/// The unit in which room is given.
const BLOCK: Bytes = Bytes::kib(4);

/// Where thin devices take their room.
#[derive(Default)]
pub struct Store {
    /// `None`: there is enough.
    left: Cell<Option<u64>>,
    refused: Cell<u64>,
}

impl Store {
    /// A store that has enough.
    pub fn new() -> Rc<Store> {
        Rc::default()
    }

    /// From now on there is room for no more than this.
    pub fn leave(&self, room: Bytes) {
        self.left.set(Some(room / BLOCK));
    }

    /// There is enough again.
    pub fn refill(&self) {
        self.left.set(None);
    }

    /// How often it had no room.
    pub fn refused(&self) -> u64 {
        self.refused.get()
    }

    fn take(&self) -> bool {
        let left = self.left.get();
        if left == Some(0) {
            self.refused.set(self.refused.get() + 1);
            return false;
        }
        self.left.set(left.map(|left| left - 1));
        true
    }
}

/// What a device has of a store, block by block.
pub struct Share {
    store: Rc<Store>,
    held: RefCell<BTreeSet<u64>>,
}

impl Share {
    /// Nothing of a store yet.
    pub fn of(store: &Rc<Store>) -> Share {
        Share { store: Rc::clone(store), held: RefCell::default() }
    }

    /// Where it takes its room.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Whether there is room for some of a range already.
    pub fn holds_some(&self, range: Range<Bytes>) -> bool {
        let blocks = range.start / BLOCK..range.end.get().div_ceil(BLOCK.get());
        self.held.borrow().range(blocks).next().is_some()
    }

    /// How much of a range there is room for, from its start on.
    fn take(&self, offset: Bytes, length: Bytes) -> Bytes {
        let mut held = self.held.borrow_mut();
        for block in offset / BLOCK..(offset + length).get().div_ceil(BLOCK.get()) {
            if !held.contains(&block) {
                if !self.store.take() {
                    return (BLOCK * block).saturating_sub(offset);
                }
                held.insert(block);
            }
        }
        length
    }

    /// Has a device carry out a request as far as there is room for it.
    pub async fn submit(&self, runtime: &Runtime, device: &impl Device, request: Request) -> Reply {
        let submitted = runtime.now();
        if !matches!(request.operation, Operation::Write | Operation::WriteZeroes)
            || device.shape().check(&request).is_err()
        {
            return device.submit(request).await;
        }
        let room = self.take(request.offset, request.length);
        if room == request.length {
            return device.submit(request).await;
        }
        if let (Payload::From(data), false) = (&request.payload, room.is_zero()) {
            let part = Request { fua: request.fua, ..Request::write(request.offset, data.slice(Bytes::ZERO, room)) };
            let reply = device.submit(part).await;
            if let Err(error) = reply.result {
                return request.refuse(error, submitted);
            }
        }
        request.refuse(DeviceError::NoSpace, submitted)
    }
}

/// A device that takes its room of a store.
pub struct Thin<D> {
    runtime: Runtime,
    inner: D,
    share: Share,
}

impl<D: Device> Thin<D> {
    /// Puts a device on a store, of which it has nothing yet.
    pub fn new(runtime: &Runtime, inner: D, store: &Rc<Store>) -> Thin<D> {
        Thin { runtime: runtime.clone(), inner, share: Share::of(store) }
    }

    /// The device behind.
    pub fn inner(&self) -> &D {
        &self.inner
    }
}

impl<D: Device> Device for Thin<D> {
    fn shape(&self) -> &Shape {
        self.inner.shape()
    }

    async fn submit(&self, request: Request) -> Reply {
        self.share.submit(&self.runtime, &self.inner, request).await
    }

    fn extent(&self, offset: Bytes, length: Bytes) -> Extent {
        self.inner.extent(offset, length)
    }
}
