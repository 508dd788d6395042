//! Any bytes of a client, in virtual time: an answer of the protocol or the end of the connection; never a panic, never
//! a server that hangs.
//!
//! The first byte says how far the client has come before: not at all, to the options, or to the requests, with
//! structured replies or without.

#![no_main]

use std::rc::Rc;

use device::{AnyDevice, Buffer, MemoryDevice, Shape};
use libfuzzer_sys::fuzz_target;
use nbd::{Export, Exports, House, Limits, Pipe, Wire, converse};
use runtime::Runtime;
use units::Bytes;
use uring::Parcel;

const HELLO: &[u8] = b"\0\0\0\x03";
const STRUCTURED: &[u8] = b"IHAVEOPT\0\0\0\x08\0\0\0\0";
const CONTEXT: &[u8] = b"IHAVEOPT\0\0\0\x0a\0\0\0\x1b\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation";
const GO: &[u8] = b"IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0";

fuzz_target!(|input: &[u8]| {
    let Some((stage, rest)) = input.split_first() else { return };
    let before: &[&[u8]] = match stage % 4 {
        0 => &[],
        1 => &[HELLO],
        2 => &[HELLO, GO],
        _ => &[HELLO, STRUCTURED, CONTEXT, GO],
    };
    let bytes = [&before.concat()[..], rest].concat();
    let runtime = Runtime::simulated();
    let device = AnyDevice::new(MemoryDevice::new(&runtime, Shape::new("memory", Bytes::mib(1))));
    let export = Export::new("", device, stage & 4 != 0).expect("an empty name is one");
    let exports = Exports::new(vec![export]).expect("one export");
    let house = Rc::new(House::new(&runtime, exports, None, Limits::default()));
    let (ours, theirs) = Pipe::pair();
    let ours = Rc::new(ours);
    let serving = runtime.spawn(converse(house, Rc::new(theirs)));
    let sender = Rc::clone(&ours);
    runtime.spawn_detached(async move {
        // The server may end first.
        let _ = sender.send(vec![Parcel::head(bytes)]).await;
        sender.stop_sending();
    });
    runtime.block_on(async {
        // Whatever it answers is taken, so that it need not wait.
        while ours.receive(Buffer::zeroed(Bytes::kib(4))).await.1.is_ok_and(|count| count > 0) {}
        let _ = serving.await;
    });
});
