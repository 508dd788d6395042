//! What lies on a device as bytes, and in a file: how disks of memory go to a virtual machine and back.

use std::path::Path;

use device::{Buffer, Data, Device, Request};
use runtime::Runtime;
use units::Bytes;

pub fn data(bytes: &[u8]) -> Data {
    let mut buffer = Buffer::zeroed(Bytes::new(bytes.len() as u64));
    buffer.bytes_mut().unwrap().copy_from_slice(bytes);
    buffer.freeze()
}

pub fn read(runtime: &Runtime, device: &impl Device, offset: Bytes, length: Bytes) -> Vec<u8> {
    let reply = runtime.block_on(device.submit(Request::read(offset, Buffer::zeroed(length))));
    reply.result.unwrap();
    reply.buffer.unwrap().bytes().unwrap().to_vec()
}

/// All that a device holds.
pub fn contents(runtime: &Runtime, device: &impl Device) -> Vec<u8> {
    read(runtime, device, Bytes::ZERO, device.shape().size)
}

/// Fills a device from a file of its size or less.
pub fn load(runtime: &Runtime, device: &impl Device, path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    runtime.block_on(device.submit(Request::write(Bytes::ZERO, data(&bytes)))).result.unwrap();
}

pub fn store(runtime: &Runtime, device: &impl Device, path: &Path) {
    std::fs::write(path, contents(runtime, device)).unwrap();
}
