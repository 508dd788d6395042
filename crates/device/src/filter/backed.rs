//! Bytes for a device that has only time.
//!
//! A modelled disk says how long a request takes, and stores nothing. Behind this filter it stores what another device
//! does: a request goes to both, to the first as a length without memory, and is replied to when both are done. Reads
//! and writes of lengths without memory go to the first alone, so that a simulation of timing pays nothing for the
//! bytes that others need.
//!
//! Models know reads, writes and flushes. Zeroes that are to be written cost what writing them costs, in pieces as a
//! host's kernel makes them; a range that may be forgotten costs nothing. Holes of the store are not told: a client
//! that skips them would skip their time.

use futures_util::future::join;
use units::Bytes;

use crate::{Buffer, Data, Device, DeviceError, Operation, Payload, Reply, Request, Shape, Stamps};

/// What Linux writes zeroes in at most, where a disk does not know how to.
const ZEROES: Bytes = Bytes::mib(1);

/// Timing from one device, contents from another.
pub struct Backed<T, S> {
    timing: T,
    store: S,
}

impl<T: Device, S: Device> Backed<T, S> {
    /// # Panics
    /// If the store is smaller, or has larger blocks: it could not hold what the other is asked for.
    pub fn new(timing: T, store: S) -> Backed<T, S> {
        let (wanted, given) = (timing.shape(), store.shape());
        assert!(given.size >= wanted.size, "{} does not fit into {}", wanted.size, given.size);
        assert!(wanted.logical_block.is_multiple_of(given.logical_block), "the store has larger blocks");
        Backed { timing, store }
    }

    /// What holds the bytes.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Has the timing device do what is asked; nothing if it takes no time.
    async fn time(&self, outline: Outline) -> Option<(Result<(), DeviceError>, Stamps)> {
        let Outline { operation, offset, length, .. } = outline;
        let most = if operation == Operation::WriteZeroes { ZEROES } else { length };
        let (mut at, end) = (offset, offset + length);
        let mut done: Option<(Result<(), DeviceError>, Stamps)> = None;
        loop {
            let piece = most.min(end - at);
            let Some(request) = outline.request(at, piece) else { return done };
            let Reply { result, stamps, .. } = self.timing.submit(request).await;
            let submitted = done.map_or(stamps.submitted, |(_, stamps)| stamps.submitted);
            at += piece;
            let over = at == end || result.is_err();
            done = Some((result, Stamps { submitted, ..stamps }));
            if over {
                return done;
            }
        }
    }
}

/// A request without its memory.
#[derive(Clone, Copy)]
struct Outline {
    operation: Operation,
    offset: Bytes,
    length: Bytes,
    fua: bool,
    id: u64,
}

impl Outline {
    fn of(request: &Request) -> Outline {
        let Request { operation, offset, length, fua, id, .. } = *request;
        Outline { operation, offset, length, fua, id }
    }

    /// A piece of it, as a model is asked.
    fn request(self, at: Bytes, length: Bytes) -> Option<Request> {
        let mut request = match self.operation {
            Operation::Read => Request::read(at, Buffer::phantom(length)),
            Operation::Write | Operation::WriteZeroes => Request::write(at, Data::phantom(length)),
            Operation::Flush => Request::flush(),
            Operation::Discard => return None,
        };
        request.fua = self.fua;
        Some(request.with_id(self.id))
    }
}

impl<T: Device, S: Device> Device for Backed<T, S> {
    fn shape(&self) -> &Shape {
        self.timing.shape()
    }

    async fn submit(&self, request: Request) -> Reply {
        let phantom = match &request.payload {
            Payload::Into(buffer) => buffer.bytes().is_none(),
            Payload::From(data) => data.bytes().is_none(),
            Payload::None => false,
        };
        // The model refuses what does not fit it, whatever it carries.
        if phantom || self.shape().check(&request).is_err() {
            return self.timing.submit(request).await;
        }
        let outline = Outline::of(&request);
        match join(self.time(outline), self.store.submit(request)).await {
            (None, stored) => stored,
            (Some((result, Stamps { submitted, completed })), stored) => Reply {
                result: result.and(stored.result),
                stamps: Stamps { submitted, completed: completed.max(stored.stamps.completed) },
                buffer: stored.buffer,
            },
        }
    }
}
