//! Any bytes of a server, in virtual time: an export that serves or fails, or an error with a sentence; never a panic,
//! never a request without an end.
//!
//! The first byte says how far the server has come before: not at all, to the options, or to an export; and which
//! request is made of it.

#![no_main]

use std::rc::Rc;

use device::{Buffer, Device, Request};
use libfuzzer_sys::fuzz_target;
use nbd::{Client, Pipe, Wire};
use runtime::Runtime;
use units::Bytes;
use uring::Parcel;

const HELLO: &[u8] = b"NBDMAGICIHAVEOPT\0\x03";
/// The end of `NBD_OPT_GO` for an export of 1 MiB that takes everything, behind what it says of the export.
const EXPORT: &[u8] = b"\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\0\0\0\x03\0\0\0\x0c\0\0\0\0\0\0\0\0\0\x10\0\0\0\x6d";
const AGREED: &[u8] = b"\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\0\0\0\x01\0\0\0\0";

fuzz_target!(|input: &[u8]| {
    let Some((stage, rest)) = input.split_first() else { return };
    let before: &[&[u8]] = match stage % 4 {
        0 => &[],
        1 => &[HELLO],
        2 => &[HELLO, EXPORT],
        _ => &[HELLO, EXPORT, AGREED],
    };
    let bytes = [&before.concat()[..], rest].concat();
    let runtime = Runtime::simulated();
    let (ours, theirs) = Pipe::pair();
    let theirs = Rc::new(theirs);
    let (sender, listener) = (Rc::clone(&theirs), Rc::clone(&theirs));
    runtime.spawn_detached(async move {
        // The client may end first.
        let _ = sender.send(vec![Parcel::head(bytes)]).await;
        sender.stop_sending();
    });
    // Whatever it asks is taken, so that it need not wait.
    runtime.spawn_detached(async move {
        while listener.receive(Buffer::zeroed(Bytes::kib(4))).await.1.is_ok_and(|count| count > 0) {}
    });
    runtime.block_on(async {
        let Ok(client) = Client::over(&runtime, ours, "foreign", "", None).await else { return };
        let shape = client.shape().clone();
        let length = (shape.logical_block * 2).min(shape.size);
        if length.is_zero() || length > Bytes::mib(64) {
            return;
        }
        let request = match stage / 4 % 4 {
            0 => Request::read(Bytes::ZERO, Buffer::zeroed(length)),
            1 => Request::write(shape.size - length, Buffer::zeroed(length).freeze()).with_fua(),
            2 => Request::flush(),
            _ => Request::write_zeroes(Bytes::ZERO, shape.size),
        };
        let _ = client.submit(request).await;
        let _ = client.submit(Request::read(Bytes::ZERO, Buffer::zeroed(length))).await;
    });
});
