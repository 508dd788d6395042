//! Carrying requests out on a device.

use device::{AnyDevice, Buffer, Device, DeviceError, Extent, Pool, Request};
use units::Bytes;
use uring::Parcel;

use crate::command::Command;
use crate::reply::{Heading, Problem};

/// A device that cannot zero a range is written zeroes, in pieces of this size.
const ZEROES: Bytes = Bytes::mib(1);
/// A status names no more extents: the client asks again for the rest.
const EXTENTS: usize = 1024;

/// Carries a command out; `payload` is what a write writes. Returns the reply, which is to be sent, and whether it is one of failure.
pub async fn carry_out(
    device: &AnyDevice,
    pool: &Pool,
    heading: Heading,
    command: Command,
    payload: Option<Buffer>,
) -> (Parcel, bool) {
    let (result, offset, length) = match command {
        Command::Read { offset, length } => {
            let reply = device.submit(Request::read(offset, pool.take(length))).await;
            match reply.result {
                Ok(()) => return (heading.contents(offset, reply.buffer.expect("a read's buffer comes back")), false),
                Err(error) => (Err(error), offset, length),
            }
        }
        Command::Write { offset, length, fua } => {
            let data = payload.expect("a write has a payload").freeze();
            let request = Request { fua, ..Request::write(offset, data.clone()) };
            let result = device.submit(request).await.result;
            // Who keeps what was written, such as a cache, keeps the memory.
            if let Some(buffer) = data.reclaim() {
                pool.give(buffer);
            }
            (result, offset, length)
        }
        Command::Flush => (device.submit(Request::flush()).await.result, Bytes::ZERO, Bytes::ZERO),
        Command::Trim { offset, length, fua } => {
            let discarded = device.submit(Request::discard(offset, length)).await.result;
            // Forgetting is a wish.
            let discarded = if discarded == Err(DeviceError::Unsupported) { Ok(()) } else { discarded };
            (durable(device, discarded, fua).await, offset, length)
        }
        Command::WriteZeroes { offset, length, fua } => {
            let mut result = device.submit(Request::write_zeroes(offset, length)).await.result;
            if result == Err(DeviceError::Unsupported) {
                result = write_zeroes(device, offset, length).await;
            }
            (durable(device, result, fua).await, offset, length)
        }
        Command::BlockStatus { offset, length, one } => {
            return (heading.status(&extents(device, offset, length, if one { 1 } else { EXTENTS })), false);
        }
        Command::Disconnect => panic!("a disconnect is not carried out"),
    };
    match result {
        Ok(()) => (heading.done(), false),
        Err(error) => {
            let mut problem = Problem::of(&error, offset, length);
            // The protocol knows errors with a place for some requests only.
            if matches!(command, Command::WriteZeroes { .. } | Command::Flush) {
                problem.at = None;
            }
            (heading.failed(&problem), true)
        }
    }
}

/// Makes what was done durable, if that is wanted. Devices know durable writes, but no durable discards.
async fn durable(device: &AnyDevice, done: Result<(), DeviceError>, fua: bool) -> Result<(), DeviceError> {
    done?;
    if fua { device.submit(Request::flush()).await.result } else { Ok(()) }
}

async fn write_zeroes(device: &AnyDevice, offset: Bytes, length: Bytes) -> Result<(), DeviceError> {
    let zeroes = Buffer::zeroed(ZEROES.min(length)).freeze();
    let mut done = Bytes::ZERO;
    while done < length {
        let piece = zeroes.len().min(length - done);
        device.submit(Request::write(offset + done, zeroes.slice(Bytes::ZERO, piece))).await.result?;
        done += piece;
    }
    Ok(())
}

/// The extents of a range from its beginning on, neighbours of a kind joined; at most so many.
fn extents(device: &AnyDevice, offset: Bytes, length: Bytes, most: usize) -> Vec<Extent> {
    let mut extents: Vec<Extent> = Vec::new();
    let mut done = Bytes::ZERO;
    while done < length {
        let next = device.extent(offset + done, length - done);
        assert!(!next.length.is_zero() && next.length <= length - done, "an extent is a part of what was asked for");
        let full = extents.len() == most;
        match extents.last_mut() {
            Some(last) if (last.hole, last.zero) == (next.hole, next.zero) => last.length += next.length,
            _ if full => break,
            _ => extents.push(next),
        }
        done += next.length;
    }
    extents
}
