//! Reading all that was written, and holding it against the ledger.

use std::cell::RefCell;

use device::{Device, DeviceError, Request};
use units::Bytes;

use crate::lanes;
use crate::{Ledger, Memory};

/// Requests of a sweep: large enough for any device to stream.
const LARGEST: Bytes = Bytes::mib(1);

/// The stream that a mismatch of a sweep is booked to.
const NO_STREAM: u16 = u16::MAX;

/// Reads all that `ledger` knows of from the device, in order, with `depth` requests under way, and adds to its
/// findings. Ends early when `stop` says so. Returns the first error; what could not be read was not checked.
pub async fn sweep<D: Device>(
    device: &D,
    ledger: &Ledger,
    memory: &dyn Memory,
    (depth, pass): (u32, u16),
    stop: impl Fn() -> bool,
) -> Option<DeviceError> {
    let ranges = RefCell::new(ranges(ledger).into_iter());
    let failure = RefCell::new(None);
    let lane = || async {
        let mut memory_of_lane = Some(memory.take(LARGEST));
        while !stop() {
            let Some((offset, length)) = ranges.borrow_mut().next() else { break };
            let mut whole = memory_of_lane.take().expect("a lane has its memory when it reads");
            let asked = whole.split_to(length);
            let reading = ledger.begin_read(offset, length);
            let reply = device.submit(Request::read(offset, asked)).await;
            let mut read = reply.buffer.expect("a read gives its memory back");
            match reply.result {
                Ok(()) => {
                    if let Some(bytes) = read.bytes() {
                        ledger.end_read(&reading, (NO_STREAM, pass), offset, bytes);
                    }
                }
                Err(error) => {
                    let gone = error == DeviceError::Gone;
                    failure.borrow_mut().get_or_insert(error);
                    if gone {
                        break;
                    }
                }
            }
            read.join(whole);
            memory_of_lane = Some(read);
        }
        memory_of_lane.into_iter().for_each(|buffer| memory.give_back(buffer));
    };
    lanes::all((0..depth).map(|_| lane())).await;
    failure.into_inner()
}

/// What is known, in pieces of at most [`LARGEST`]; no write is cut where it need not be.
fn ranges(ledger: &Ledger) -> Vec<(Bytes, Bytes)> {
    let written = ledger.written();
    let mut ranges: Vec<(Bytes, Bytes)> = Vec::new();
    for (first, units, _) in &written.extents {
        let (mut at, end) = (written.unit * *first, written.unit * (first + units));
        while at < end {
            match ranges.last_mut() {
                Some((start, length)) if *start + *length == at && *length + (end - at) <= LARGEST => {
                    *length += end - at;
                    at = end;
                }
                _ => {
                    let length = (end - at).min(LARGEST);
                    ranges.push((at, length));
                    at += length;
                }
            }
        }
    }
    ranges
}
