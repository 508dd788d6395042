//! A rate limit: the device behind a link, its own or a shared one.

use units::Rate;

use super::link::{Arbitration, Link};
use crate::{Device, Operation, Reply, Request, Shape, Stamps};
use runtime::Runtime;

/// A device whose bytes cross a [`Link`]: after the device has read them, before it writes them.
///
/// The link is free while the device works, so that several devices behind one link overlap everything but their
/// transfers.
pub struct Limited<D> {
    inner: D,
    link: Link,
    port: u32,
}

impl<D: Device> Limited<D> {
    /// Attaches `inner` to a port of its own on `link`.
    pub fn new(inner: D, link: &Link) -> Limited<D> {
        Limited { inner, link: link.clone(), port: link.add_port() }
    }

    /// Limits `inner` alone to `rate`.
    pub fn to(runtime: &Runtime, inner: D, rate: Rate) -> Limited<D> {
        Limited::new(inner, &Link::new(runtime, rate, Arbitration::FirstCome))
    }

    /// The device behind.
    pub fn inner(&self) -> &D {
        &self.inner
    }
}

impl<D: Device> Device for Limited<D> {
    fn shape(&self) -> &Shape {
        self.inner.shape()
    }

    async fn submit(&self, request: Request) -> Reply {
        let (runtime, operation, length) = (self.link.runtime(), request.operation, request.length);
        let submitted = runtime.now();
        if let Err(error) = self.shape().check(&request) {
            return request.refuse(error, submitted);
        }
        self.link.command(self.port).await;
        if operation == Operation::Write {
            self.link.transfer(self.port, length).await;
        }
        let mut reply = self.inner.submit(request).await;
        if operation == Operation::Read && reply.result.is_ok() {
            self.link.transfer(self.port, length).await;
        }
        reply.stamps = Stamps { submitted, completed: runtime.now() };
        reply
    }
}
