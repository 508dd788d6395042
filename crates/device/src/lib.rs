//! The one interface over storage: real, modelled, faulty.
//!
//! A [`Device`] takes a [`Request`] and, some time later, gives a [`Reply`]. Everything that stores blocks is one: a
//! file under io_uring, a modelled disk behind three buses, a RAID over other devices, a filter that delays or fails.
//! Workloads and the RAID code are generic over it and so run unchanged under either clock.
//!
//! One method, not one per operation: a filter then has one place to delay, count, record or fail, and cannot forget
//! one. Buffers are owned by the request while it is under way, as io_uring demands: a caller that drops the future
//! early takes no memory away from under the kernel. A [`Buffer`] may be without memory, a length only: then the same
//! code runs in simulations that care for time and not for contents.

pub mod again;
mod any;
mod buffer;
#[cfg(feature = "conformance")]
pub mod conformance;
mod diskless;
pub mod evidence;
mod extent;
pub mod filter;
mod memory;
mod null;
mod pool;
mod request;
mod shape;

pub use any::AnyDevice;
pub use buffer::{Buffer, Data};
pub use diskless::Diskless;
pub use extent::Extent;
pub use memory::MemoryDevice;
pub use null::NullDevice;
pub use pool::Pool;
pub use request::{DeviceError, Operation, PaceUnit, Payload, Reply, Request, Stamps, Writeback};
pub use shape::Shape;

use units::Bytes;

/// Something that stores blocks.
///
/// # Contract
/// - Requests may overlap in time and complete in any order; the device orders nothing that the caller did not order by
///   awaiting.
/// - Offset and length must be multiples of [`Shape::logical_block`] and lie within [`Shape::size`]; otherwise the
///   reply is [`DeviceError::OutOfRange`] or [`DeviceError::Misaligned`] and nothing has happened.
/// - A write that has been replied to is visible to later reads; it is durable only after a later flush was replied to,
///   or if it was sent with [`Request::fua`].
/// - Dropping the future abandons the reply, not the operation, which may still take effect.
pub trait Device {
    /// Size and block sizes. Constant while the device is open.
    fn shape(&self) -> &Shape;

    /// Carries out one request.
    fn submit(&self, request: Request) -> impl Future<Output = Reply>;

    /// What is known, without asking the medium, of the range from `offset` on: one extent, no longer than `length`.
    ///
    /// It holds for the instant at which it is asked. Who knows nothing says that there are data, which is always true
    /// enough: they are then read. The range must lie within the device and must not be empty.
    fn extent(&self, offset: Bytes, length: Bytes) -> Extent {
        let _ = offset;
        Extent::data(length)
    }
}

/// A reference to a device is one: several streams may drive the same.
impl<D: Device + ?Sized> Device for &D {
    fn shape(&self) -> &Shape {
        (**self).shape()
    }
    fn submit(&self, request: Request) -> impl Future<Output = Reply> {
        (**self).submit(request)
    }
    fn extent(&self, offset: Bytes, length: Bytes) -> Extent {
        (**self).extent(offset, length)
    }
}

impl<D: Device + ?Sized> Device for std::rc::Rc<D> {
    fn shape(&self) -> &Shape {
        (**self).shape()
    }
    fn submit(&self, request: Request) -> impl Future<Output = Reply> {
        (**self).submit(request)
    }
    fn extent(&self, offset: Bytes, length: Bytes) -> Extent {
        (**self).extent(offset, length)
    }
}
