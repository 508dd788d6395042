//! The suite that every device passes, on devices behind the protocol: server and client of this crate, in memory and
//! on sockets.

mod common;

use std::rc::Rc;

use common::{behind, export, house, live, memory};
use device::{Device, MemoryDevice, Shape, conformance};
use nbd::{Client, converse};
use runtime::Runtime;
use units::Bytes;
use uring::{Engine, FileDevice, FileOptions, Socket};

#[test]
fn memory_in_virtual_time() {
    let runtime = Runtime::simulated();
    let client = behind(&runtime, memory(&runtime, Bytes::mib(16)));
    conformance::check(&runtime, &client);
}

#[test]
fn large_blocks() {
    let runtime = Runtime::simulated();
    let shape =
        Shape { logical_block: Bytes::kib(4), physical_block: Bytes::kib(64), ..Shape::new("4Kn", Bytes::mib(16)) };
    let client = behind(&runtime, MemoryDevice::new(&runtime, shape));
    // The server takes any request, and devices here are made of sectors.
    let blocks = (client.shape().logical_block, client.shape().physical_block);
    assert_eq!(blocks, (Bytes::SECTOR, Bytes::kib(64)));
    conformance::check(&runtime, &client);
}

/// A server that serves what it gets from another one.
#[test]
fn two_servers_in_a_row() {
    let runtime = Runtime::simulated();
    let first = behind(&runtime, memory(&runtime, Bytes::mib(8)));
    let second = behind(&runtime, first);
    conformance::check(&runtime, &second);
}

#[test]
fn files_on_sockets() {
    let Some(live) = live() else { return };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for engine in [Engine::IoUring, Engine::Sync, Engine::Threads] {
        let path = folder.path().join(engine.to_string());
        let file = FileDevice::create(&live, &path, Bytes::mib(16), &FileOptions::buffered().by(engine)).unwrap();
        let house = house(live.runtime(), export(file));
        let (ours, theirs) = Socket::pair(&live).unwrap();
        let serving = converse(Rc::clone(&house), Rc::new(theirs));
        let served = live.runtime().spawn(serving);
        let client = live.runtime().block_on(Client::over(live.runtime(), ours, "served", "", None)).unwrap();
        conformance::check(live.runtime(), &client);
        drop(client);
        live.runtime().block_on(served).expect("the client has left as the protocol wants it");
        assert!(house.totals.requests.get() > 2000 && house.totals.errors.get() == 0, "{:?}", house.totals);
    }
}
