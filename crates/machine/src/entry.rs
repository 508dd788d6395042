//! The ways into a modelled machine: each is a [`Device`], so that whatever drives a real disk drives a modelled one.
//!
//! What is asked of the device walks the whole modelled path, and the reply comes when it would have come on the machine. Bytes are
//! not stored: requests carry phantom payloads, and one with memory is refused ([`DeviceError::Unsupported`]).
//!
//! # Processes
//! On the raw way, and on the way through the array, a request is a system call, and a system call is made by a process: it takes
//! the processor, keeps it until its request is at the board, and works a little between two calls. A device does not know who calls.
//! It keeps the processes of its callers in a stack: who calls first gets a new one, who calls when one has just returned gets that one.
//! A closed loop of depth n is then n processes, each of which calls again from where it returned, with the processor still its own; an
//! open loop has as many processes as requests were ever under way. A process whose caller does not come back at the instant of its
//! return waits for the next one, and the processor is free.
//!
//! What a process does between two calls comes before the request is submitted ([`device::Stamps::submitted`]): it is the caller's
//! time, not the request's.

use std::cell::RefCell;
use std::rc::Rc;

use device::{Device, DeviceError, Operation, Payload, Reply, Request, Shape, Stamps};
use units::Bytes;

use crate::adapter::Unit;
use crate::os::{Process, command};
use crate::raid5::Raid5;
use crate::scsi::target::BLOCK;
use crate::system::Machine;

/// How requests enter a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// Through the call that neither copies nor flushes.
    NoCopy,
    /// As raw reads and writes of a process.
    Raw,
    /// As reads and writes of a process to a level 5 array of disks, in stripe units of this.
    Array(Bytes),
}

/// The place of a disk: its string, and where on it; both count from 0 in the order of the system's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Spot {
    /// The string.
    pub string: usize,
    /// The disk on it.
    pub disk: usize,
}

impl std::fmt::Display for Spot {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}.{}", self.string, self.disk)
    }
}

/// A way into a machine, to one disk or to an array of them.
pub struct Entry {
    machine: Rc<Machine>,
    shape: Shape,
    door: Door,
}

enum Door {
    NoCopy(Rc<Unit>),
    Raw(Rc<Unit>, Processes),
    Array(Rc<Raid5>, Processes),
}

/// Processes between two calls, the one that returned last on top.
#[derive(Default)]
struct Processes {
    idle: RefCell<Vec<Rc<Process>>>,
}

/// The entries of a machine to disks of it: one for each disk, or one for all of them as an array. Their order is that of `spots`.
///
/// # Panics
/// If there is no such disk, or if there are too few for an array ([`Raid5::FEWEST`]): the caller has looked.
pub fn entries(machine: &Rc<Machine>, spots: &[Spot], way: Way) -> Vec<Entry> {
    let unit = |spot: &Spot| Rc::clone(&machine.strings[spot.string].units[spot.disk].unit);
    let entry = |name: String, size: Bytes, door: Door| Entry {
        machine: Rc::clone(machine),
        shape: Shape::new(name, size),
        door,
    };
    let size = |spot: &Spot| machine.strings[spot.string].units[spot.disk].size();
    let disk = |spot: &Spot, door| entry(format!("disk-{spot}"), size(spot), door);
    match way {
        Way::NoCopy => spots.iter().map(|spot| disk(spot, Door::NoCopy(unit(spot)))).collect(),
        Way::Raw => spots.iter().map(|spot| disk(spot, Door::Raw(unit(spot), Processes::default()))).collect(),
        Way::Array(stripe) => {
            let raid =
                Raid5::new(&machine.runtime, &machine.trace, &machine.os, spots.iter().map(unit).collect(), stripe);
            let member = spots.iter().map(size).min().expect("an array has members");
            let size = raid.size(member);
            vec![entry("array".to_owned(), size, Door::Array(raid, Processes::default()))]
        }
    }
}

impl Device for Entry {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    async fn submit(&self, request: Request) -> Reply {
        let now = self.machine.runtime.now();
        if let Err(error) = self.shape.check(&request) {
            return request.refuse(error, now);
        }
        let write = match (request.operation, &request.payload) {
            (Operation::Read, Payload::Into(buffer)) if buffer.bytes().is_none() => false,
            (Operation::Write, Payload::From(data)) if data.bytes().is_none() => true,
            // Writes are on the medium when they are replied to.
            (Operation::Flush, _) => return request.answer(Ok(()), Stamps { submitted: now, completed: now }),
            _ => return request.refuse(DeviceError::Unsupported, now),
        };
        if request.length.is_zero() {
            return request.answer(Ok(()), Stamps { submitted: now, completed: now });
        }
        let (offset, length) = (request.offset, request.length);
        let stamps = match &self.door {
            Door::NoCopy(unit) => self.no_copy(unit, write, offset, length).await,
            Door::Raw(unit, processes) => {
                let process = processes.take();
                let stamps = self.raw(unit, &process, write, offset, length).await;
                processes.give_back(process, &self.machine);
                stamps
            }
            Door::Array(raid, processes) => {
                let process = processes.take();
                let stamps = self.array(raid, &process, write, offset, length).await;
                processes.give_back(process, &self.machine);
                stamps
            }
        };
        request.answer(Ok(()), stamps)
    }
}

impl Entry {
    async fn no_copy(&self, unit: &Unit, write: bool, offset: Bytes, length: Bytes) -> Stamps {
        let Machine { runtime, trace, os, .. } = &*self.machine;
        let submitted = runtime.now();
        let mut ledger = trace.open(submitted);
        let passage = os.no_copy(unit, command(write, offset, length), &mut ledger).await;
        let completed = runtime.now();
        ledger.close(completed);
        self.machine.passed(&passage);
        Stamps { submitted, completed }
    }

    async fn raw(&self, unit: &Unit, process: &Process, write: bool, offset: Bytes, length: Bytes) -> Stamps {
        let Machine { runtime, trace, os, .. } = &*self.machine;
        self.between(process).await;
        let submitted = runtime.now();
        let mut ledger = trace.open(submitted);
        let passage = os.raw(process, unit, command(write, offset, length), &mut ledger).await;
        let completed = runtime.now();
        ledger.close(completed);
        self.machine.passed(&passage);
        Stamps { submitted, completed }
    }

    async fn array(&self, raid: &Rc<Raid5>, process: &Process, write: bool, offset: Bytes, length: Bytes) -> Stamps {
        let Machine { runtime, trace, .. } = &*self.machine;
        self.between(process).await;
        let submitted = runtime.now();
        let mut ledger = trace.open(submitted);
        if write {
            raid.write(process, offset, length, &mut ledger).await;
        } else {
            raid.read(process, offset, length, &mut ledger).await;
        }
        let completed = runtime.now();
        ledger.close(completed);
        Stamps { submitted, completed }
    }

    /// What a process does between its last call and this one.
    async fn between(&self, process: &Process) {
        if process.calls() > 0 {
            let Machine { runtime, trace, os, .. } = &*self.machine;
            let mut ledger = trace.aside(runtime.now());
            os.between(process, &mut ledger).await;
            ledger.close(runtime.now());
        }
    }
}

impl Processes {
    fn take(&self) -> Rc<Process> {
        let process = self.idle.borrow_mut().pop().unwrap_or_default();
        process.call();
        process
    }

    /// A process has returned from its call. Unless its caller makes it call again before anything else happens, it waits.
    fn give_back(&self, process: Rc<Process>, machine: &Rc<Machine>) {
        let call = process.returned();
        self.idle.borrow_mut().push(Rc::clone(&process));
        let os = Rc::clone(&machine.os);
        // The caller goes on in the poll that this is part of; the task comes after it.
        machine.runtime.spawn_detached(async move {
            if process.waits_since(call) {
                os.block(&process);
            }
        });
    }
}

const _: () =
    assert!(BLOCK.get() == Bytes::SECTOR.get(), "shapes of 512-byte blocks are shapes of the machine's blocks");
