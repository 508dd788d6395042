//! A server and its clients, in memory and on sockets.
#![allow(dead_code)] // each test uses some of it

pub mod raw;

use std::rc::Rc;

use device::{AnyDevice, Device, MemoryDevice, Shape};
use nbd::{Client, Export, Exports, House, Limits, Pipe, converse};
use runtime::Runtime;
use units::Bytes;
use uring::{Live, LiveOptions};

/// A device in memory.
pub fn memory(runtime: &Runtime, size: Bytes) -> MemoryDevice {
    MemoryDevice::new(runtime, Shape::new("memory", size))
}

/// A server of the exports, in the clear.
pub fn house(runtime: &Runtime, exports: Vec<Export>) -> Rc<House> {
    house_of(runtime, Exports::new(exports).unwrap())
}

/// A server of such exports, in the clear.
pub fn house_of(runtime: &Runtime, exports: Exports) -> Rc<House> {
    Rc::new(House::new(runtime, exports, None, Limits::default()))
}

/// A device as the only export.
pub fn export(device: impl Device + 'static) -> Vec<Export> {
    vec![Export::new("", AnyDevice::new(device), false).unwrap()]
}

/// The client's end of a pipe to a server of the house.
pub fn visit(house: &Rc<House>) -> Pipe {
    let (ours, theirs) = Pipe::pair();
    let serving = converse(Rc::clone(house), Rc::new(theirs));
    house.runtime.spawn_detached(async move {
        let _ = serving.await;
    });
    ours
}

/// A device behind the protocol, in virtual time.
pub fn behind(runtime: &Runtime, device: impl Device + 'static) -> Client<Pipe> {
    let house = house(runtime, export(device));
    let pipe = visit(&house);
    runtime.block_on(Client::over(runtime, pipe, "served", "", None)).unwrap_or_else(|error| panic!("{error}"))
}

/// A live runtime with a ring, if this machine has one.
pub fn live() -> Option<Live> {
    let live = Live::start(&LiveOptions::default());
    if let Err(error) = live.ring() {
        println!("skipped: {error}");
        return None;
    }
    Some(live)
}
