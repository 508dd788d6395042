//! A part of a device, as a device of its own.
//!
//! Byte `x` of the slice is byte `start + x` of the device behind. That is all of the theory; what matters is what does
//! not pass:
//!
//! - A request is held against the slice's own end first. One that runs over it is refused, and the neighbour's bytes
//!   are not touched.
//! - An error that has a place is told in the slice's addresses, as its user knows no others.
//! - Extents are asked of the device behind and end with the slice; discards and zeroes pass, as long as they lie
//!   within.
//! - A flush has no range and is of the whole device. It makes durable what others wrote beside the slice, too, and
//!   never less than was asked.
//!
//! Slices of one device may overlap; who gives them to users that each believe to be alone decides whether they may.
//!
//! Blocks are those of the device behind. A slice that does not begin on a multiple of the physical block has none of
//! its own in the sense of [`Shape::physical_block`]: whatever the size of a write, its ends fall into blocks of which
//! the rest has to be read. Partition tables had that trouble when disks went from sectors of 512 bytes to 4 KiB. It is
//! not refused, as it costs time and no data; who offers slices says so.

use std::ops::Range;

use runtime::Runtime;
use units::Bytes;

use crate::{Device, DeviceError, Extent, Operation, Reply, Request, Shape};

/// A range of a device.
pub struct Slice<D> {
    runtime: Runtime,
    inner: D,
    start: Bytes,
    shape: Shape,
}

/// Why a range is no device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum SliceError {
    #[error("from {start:#} to {end:#} there is nothing; the end must lie behind the beginning")]
    Empty { start: Bytes, end: Bytes },
    #[error("{start:#} to {end:#} reach beyond the end of {device} at {size:#}")]
    Beyond { device: String, start: Bytes, end: Bytes, size: Bytes },
    #[error("{start:#} to {end:#} do not begin and end on a block of {device}; give multiples of {block:#}")]
    Misaligned { device: String, start: Bytes, end: Bytes, block: Bytes },
}

impl<D: Device> Slice<D> {
    /// The bytes of `range`. It must not be empty, lie within the device and begin and end on one of its logical
    /// blocks.
    pub fn new(runtime: &Runtime, inner: D, range: Range<Bytes>) -> Result<Slice<D>, SliceError> {
        let Range { start, end } = range;
        let Shape { name: device, size, logical_block: block, .. } = inner.shape().clone();
        if start >= end {
            return Err(SliceError::Empty { start, end });
        }
        if end > size {
            return Err(SliceError::Beyond { device, start, end, size });
        }
        if !start.is_multiple_of(block) || !end.is_multiple_of(block) {
            return Err(SliceError::Misaligned { device, start, end, block });
        }
        let name = format!("{device}, {start:#} to {end:#}");
        let shape = Shape { name, size: end - start, ..inner.shape().clone() };
        Ok(Slice { runtime: runtime.clone(), inner, start, shape })
    }

    /// What the device behind says of a request at `offset`, in the slice's addresses.
    fn translated(&self, error: DeviceError, offset: Bytes, length: Bytes) -> DeviceError {
        let here = self.start + offset;
        match error {
            DeviceError::Medium { offset: at, length: damaged } if (here..here + length).contains(&at) => {
                DeviceError::Medium { offset: at - self.start, length: damaged }
            }
            // A place that is not within what was asked for is one of a device further behind, and means nothing here.
            DeviceError::Medium { .. } => DeviceError::Medium { offset, length },
            error => error,
        }
    }
}

impl<D: Device> Device for Slice<D> {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    async fn submit(&self, mut request: Request) -> Reply {
        if let Err(error) = self.shape.check(&request) {
            return request.refuse(error, self.runtime.now());
        }
        let (offset, length) = (request.offset, request.length);
        // A flush has no range, mostly: its zeroes stay.
        if request.operation != Operation::Flush || request.writeback.is_some() {
            request.offset += self.start;
        }
        let mut reply = self.inner.submit(request).await;
        reply.result = reply.result.map_err(|error| self.translated(error, offset, length));
        reply
    }

    fn extent(&self, offset: Bytes, length: Bytes) -> Extent {
        assert!(offset + length <= self.shape.size, "an extent is asked for within the device");
        self.inner.extent(self.start + offset, length)
    }
}
