//! What the device tests share.
#![allow(dead_code)] // each test program uses its part

use device::{Buffer, Device, DeviceError, MemoryDevice, Request, Shape};
use runtime::Runtime;
use units::Bytes;

/// A memory device of `size`.
pub fn memory(runtime: &Runtime, size: Bytes) -> MemoryDevice {
    MemoryDevice::new(runtime, Shape::new("memory", size))
}

/// A write of `sectors` sectors full of `fill`.
pub fn filled(sector: u64, sectors: u64, fill: u8) -> Request {
    let mut buffer = Buffer::zeroed(Bytes::SECTOR * sectors);
    buffer.bytes_mut().unwrap().fill(fill);
    Request::write(Bytes::SECTOR * sector, buffer.freeze())
}

/// Reads and waits.
pub fn try_read(runtime: &Runtime, device: &impl Device, sector: u64, sectors: u64) -> Result<Vec<u8>, DeviceError> {
    let request = Request::read(Bytes::SECTOR * sector, Buffer::zeroed(Bytes::SECTOR * sectors));
    let reply = runtime.block_on(device.submit(request));
    reply.result.map(|()| reply.buffer.expect("a read gives its buffer back").bytes().unwrap().to_vec())
}

/// The first byte of each sector.
pub fn fills(runtime: &Runtime, device: &impl Device, sector: u64, sectors: u64) -> Vec<u8> {
    try_read(runtime, device, sector, sectors).unwrap().chunks(512).map(|sector| sector[0]).collect()
}

/// Submits and waits.
pub fn done(runtime: &Runtime, device: &impl Device, request: Request) -> Result<(), DeviceError> {
    runtime.block_on(device.submit(request)).result
}
