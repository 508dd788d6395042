//! Carrying requests out on a device.
//!
//! What fits the device's blocks is handed on as it is. What does not is completed (`around`), alone on its export if
//! it writes.

use device::{AnyDevice, Buffer, Device, DeviceError, Extent, Pool, Request};
use units::Bytes;
use uring::Parcel;

use crate::around::Around;
use crate::command::Command;
use crate::export::Export;
use crate::reply::{Heading, Problem};

/// A device that cannot zero a range is written zeroes, in pieces of this size.
const ZEROES: Bytes = Bytes::mib(1);
/// A status names no more extents: the client asks again for the rest.
const EXTENTS: usize = 1024;
/// Nor is a device asked more often for one, however few extents come of it: of an array each answer ends with a chunk,
/// and nobody else is served meanwhile.
const QUESTIONS: usize = 1024;

/// Carries a command out; `payload` is what a write writes. Returns the reply, which is to be sent, and whether it is
/// one of failure.
pub async fn carry_out(
    export: &Export,
    block: Bytes,
    pool: &Pool,
    heading: Heading,
    command: Command,
    payload: Option<Buffer>,
) -> (Parcel, bool) {
    let device = export.device();
    let fits = command.fits(block);
    let around = Around { device, block, pool };
    // What a request that fits does not need is boxed: the task of each would be larger for it.
    let (result, offset, length) = match command {
        Command::Read { offset, length } => {
            let read = if fits {
                let reply = device.submit(Request::read(offset, pool.take(length))).await;
                reply.result.map(|()| reply.buffer.expect("a read's buffer comes back"))
            } else {
                Box::pin(around.read(offset, length)).await
            };
            match read {
                Ok(contents) => return (heading.contents(offset, contents), false),
                Err(error) => (Err(error), offset, length),
            }
        }
        Command::Write { offset, length, fua } => {
            let data = payload.expect("a write has a payload").freeze();
            let result = if fits {
                let _pass = export.gate().pass().await;
                let request = Request { fua, ..Request::write(offset, data.clone()) };
                device.submit(request).await.result
            } else {
                let alone = async {
                    let _closed = export.gate().close().await;
                    around.write(offset, &data, fua).await
                };
                Box::pin(alone).await
            };
            // Who keeps what was written, such as a cache, keeps the memory.
            if let Some(buffer) = data.reclaim() {
                pool.give(buffer);
            }
            (result, offset, length)
        }
        Command::Flush => (device.submit(Request::flush()).await.result, Bytes::ZERO, Bytes::ZERO),
        Command::Trim { offset, length, fua } => {
            let _pass = export.gate().pass().await;
            let discarded = match around.inside(offset, length) {
                Some((from, to)) => device.submit(Request::discard(from, to - from)).await.result,
                None => Ok(()),
            };
            // Forgetting is a wish.
            let discarded = if discarded == Err(DeviceError::Unsupported) { Ok(()) } else { discarded };
            (durable(device, discarded, fua).await, offset, length)
        }
        Command::WriteZeroes { offset, length, fua, punch } => {
            let result = if fits {
                let _pass = export.gate().pass().await;
                zero(device, offset, length, punch).await
            } else {
                let alone = async {
                    let _closed = export.gate().close().await;
                    around.write_zeroes(offset, length, punch).await
                };
                Box::pin(alone).await
            };
            (durable(device, result, fua).await, offset, length)
        }
        Command::BlockStatus { offset, length, one } => {
            return (heading.status(&extents(device, block, offset, length, if one { 1 } else { EXTENTS })), false);
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

/// Zeroes whole blocks, by writing if the device knows no better.
pub async fn zero(device: &AnyDevice, offset: Bytes, length: Bytes, punch: bool) -> Result<(), DeviceError> {
    let zeroed = device.submit(Request { punch, ..Request::write_zeroes(offset, length) }).await.result;
    if zeroed != Err(DeviceError::Unsupported) {
        return zeroed;
    }
    let zeroes = Buffer::zeroed(ZEROES.min(length)).freeze();
    let mut done = Bytes::ZERO;
    while done < length {
        let piece = zeroes.len().min(length - done);
        device.submit(Request::write(offset + done, zeroes.slice(Bytes::ZERO, piece))).await.result?;
        done += piece;
    }
    Ok(())
}

/// The extents of a range from its beginning on, neighbours of a kind joined; at most so many, and as far as
/// [`QUESTIONS`] lead. The device is asked of whole blocks.
fn extents(device: &AnyDevice, block: Bytes, offset: Bytes, length: Bytes, most: usize) -> Vec<Extent> {
    let mut extents: Vec<Extent> = Vec::new();
    let mut done = Bytes::ZERO;
    let end = (offset + length).round_up(block);
    for _ in 0..QUESTIONS {
        if done == length {
            break;
        }
        let at = offset + done;
        let from = at.round_down(block);
        let mut next = device.extent(from, end - from);
        assert!(!next.length.is_zero() && next.length <= end - from, "an extent is a part of what was asked for");
        if next.length <= at - from {
            // It ends within the block, before what is asked for; that there are data is always true enough.
            next = Extent::data(block);
        }
        next.length = (next.length - (at - from)).min(length - done);
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
