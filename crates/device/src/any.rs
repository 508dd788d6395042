//! A device whose type is forgotten, so that devices of different kinds stand in one list: the exports of a server, the
//! members of an array.
//!
//! It costs an allocation and an indirect call for each request, about 30 ns, so loads and filters stay generic.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use units::Bytes;

use crate::{Device, Extent, Reply, Request, Shape};

/// Any device; clones name the same one.
#[derive(Clone)]
pub struct AnyDevice(Rc<dyn Forgotten>);

trait Forgotten {
    fn shape(&self) -> &Shape;
    fn submit(&self, request: Request) -> Pin<Box<dyn Future<Output = Reply> + '_>>;
    fn extent(&self, offset: Bytes, length: Bytes) -> Extent;
}

impl<D: Device> Forgotten for D {
    fn shape(&self) -> &Shape {
        Device::shape(self)
    }
    fn submit(&self, request: Request) -> Pin<Box<dyn Future<Output = Reply> + '_>> {
        Box::pin(Device::submit(self, request))
    }
    fn extent(&self, offset: Bytes, length: Bytes) -> Extent {
        Device::extent(self, offset, length)
    }
}

impl AnyDevice {
    /// Forgets the type of a device.
    pub fn new(device: impl Device + 'static) -> AnyDevice {
        AnyDevice(Rc::new(device))
    }
}

impl Device for AnyDevice {
    fn shape(&self) -> &Shape {
        self.0.shape()
    }
    async fn submit(&self, request: Request) -> Reply {
        self.0.submit(request).await
    }
    fn extent(&self, offset: Bytes, length: Bytes) -> Extent {
        self.0.extent(offset, length)
    }
}
