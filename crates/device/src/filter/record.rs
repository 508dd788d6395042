//! An observer: sees each request start and end, and changes nothing.

use runtime::Runtime;
use units::Bytes;

use crate::{Device, Operation, Reply, Request, Shape, Stamps};

/// Something that happened at the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// What was asked.
    pub operation: Operation,
    /// Byte address.
    pub offset: Bytes,
    /// How many bytes.
    pub length: Bytes,
    /// Whether durability was asked for.
    pub fua: bool,
    /// The request's number.
    pub id: u64,
    /// `None` when the request arrives. When it is answered: its stamps, and 0 or the errno of its failure.
    pub ended: Option<(Stamps, i32)>,
}

/// Calls `observe` for each request, when it arrives and when it is answered.
pub struct Recorder<D, F> {
    inner: D,
    runtime: Runtime,
    observe: F,
}

impl<D: Device, F: Fn(&Event)> Recorder<D, F> {
    /// Observes `inner`.
    pub fn new(runtime: &Runtime, inner: D, observe: F) -> Recorder<D, F> {
        Recorder { inner, runtime: runtime.clone(), observe }
    }

    /// The device behind.
    pub fn inner(&self) -> &D {
        &self.inner
    }
}

impl<D: Device, F: Fn(&Event)> Device for Recorder<D, F> {
    fn shape(&self) -> &Shape {
        self.inner.shape()
    }

    async fn submit(&self, request: Request) -> Reply {
        let Request { operation, offset, length, fua, id, .. } = request;
        let mut event = Event { operation, offset, length, fua, id, ended: None };
        let submitted = self.runtime.now();
        (self.observe)(&event);
        let reply = self.inner.submit(request).await;
        let stamps = Stamps { submitted, completed: self.runtime.now() };
        event.ended = Some((stamps, reply.result.as_ref().map_or_else(|error| error.errno(), |()| 0)));
        (self.observe)(&event);
        reply
    }
}
