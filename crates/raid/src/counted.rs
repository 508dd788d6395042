//! A member's device whose requests are counted, for whoever wants metrics of it. Without that, members are not
//! wrapped.

use std::cell::Cell;
use std::rc::Rc;

use device::{Device, Extent, Operation, Reply, Request, Shape};
use units::Bytes;

/// Kinds of requests, by their names; a [`MemberTally`] counts each at the same place.
pub(crate) const KINDS: [&str; 4] = ["read", "write", "flush", "discard"];

/// What was sent to a device.
#[derive(Debug, Default)]
pub(crate) struct MemberTally {
    pub requests: [Cell<u64>; KINDS.len()],
    pub bytes: [Cell<u64>; KINDS.len()],
    pub errors: [Cell<u64>; KINDS.len()],
}

/// Counts what it passes on.
pub(crate) struct Metered<D> {
    inner: D,
    tally: Rc<MemberTally>,
}

fn add(count: &Cell<u64>, more: u64) {
    count.set(count.get() + more);
}

impl<D: Device> Metered<D> {
    pub fn new(inner: D, tally: &Rc<MemberTally>) -> Metered<D> {
        Metered { inner, tally: Rc::clone(tally) }
    }
}

impl<D: Device> Device for Metered<D> {
    fn shape(&self) -> &Shape {
        self.inner.shape()
    }

    async fn submit(&self, request: Request) -> Reply {
        let kind = match request.operation {
            Operation::Read => 0,
            Operation::Write | Operation::WriteZeroes => 1,
            Operation::Flush => 2,
            Operation::Discard => 3,
        };
        let length = request.length.get();
        let reply = self.inner.submit(request).await;
        add(&self.tally.requests[kind], 1);
        match reply.result {
            Ok(()) => add(&self.tally.bytes[kind], length),
            Err(_) => add(&self.tally.errors[kind], 1),
        }
        reply
    }

    fn extent(&self, offset: Bytes, length: Bytes) -> Extent {
        self.inner.extent(offset, length)
    }
}
