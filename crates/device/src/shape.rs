//! What a device looks like from outside.

use units::Bytes;

use crate::{DeviceError, Request};

/// Size and block sizes of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// What it is called in results: a path, or a part's name.
    pub name: String,
    /// How much it stores.
    pub size: Bytes,
    /// Requests must start and end on a multiple of this.
    pub logical_block: Bytes,
    /// Writes of whole multiples of this need no read before them inside the device.
    pub physical_block: Bytes,
}

impl Shape {
    /// A device of 512-byte blocks.
    pub fn new(name: impl Into<String>, size: Bytes) -> Shape {
        Shape { name: name.into(), size, logical_block: Bytes::SECTOR, physical_block: Bytes::SECTOR }
    }

    /// Refuses a request that does not fit this device. Every device calls it before it does anything else.
    pub fn check(&self, request: &Request) -> Result<(), DeviceError> {
        if !request.offset.is_multiple_of(self.logical_block) || !request.length.is_multiple_of(self.logical_block) {
            return Err(DeviceError::Misaligned {
                offset: request.offset,
                length: request.length,
                block: self.logical_block,
            });
        }
        match request.offset.checked_add(request.length) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(DeviceError::OutOfRange { offset: request.offset, length: request.length, size: self.size }),
        }
    }
}
