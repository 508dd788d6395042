//! The array of this project as the RAID driver of a modelled machine.

use std::rc::Rc;

use device::{Buffer, Data, Device, Request};
use machine::entry::{Entry, Way, entries};
use machine::kit::Kit;
use machine::memory::Memory;
use machine::system::Machine;
use machine::trace::Trace;
use record::Spans;
use runtime::Runtime;
use units::{Bytes, Duration};

struct Desk {
    runtime: Runtime,
    machine: Rc<Machine>,
    array: Entry,
}

/// RAID-I with changes, and the way to its array.
fn desk(changes: &[(&str, &str)]) -> Desk {
    let mut kit = Kit::load("raid-i").unwrap();
    for (key, value) in changes {
        kit.set(key, value).unwrap();
    }
    let (runtime, trace) = (Runtime::simulated(), Trace::new(Spans::on(Bytes::mib(64))));
    let machine = Rc::new(kit.build(&runtime, 7, &trace).unwrap());
    let members = machine.array.as_ref().unwrap().members.clone();
    let array = entries(&machine, &members, Way::Array).unwrap().remove(0);
    Desk { runtime, machine, array }
}

impl Desk {
    fn ask(&self, request: Request) -> Duration {
        let reply = self.runtime.block_on(self.array.submit(request));
        assert_eq!(reply.result, Ok(()));
        reply.stamps.service()
    }
    fn read(&self, offset: u64, length: u64) -> Duration {
        self.ask(Request::read(Bytes::kib(offset), Buffer::phantom(Bytes::kib(length))))
    }
    fn write(&self, offset: u64, length: u64) -> Duration {
        self.ask(Request::write(Bytes::kib(offset), Data::phantom(Bytes::kib(length))))
    }
    /// Commands that disks were given for what `what` does.
    fn commands(&self, what: impl FnOnce(&Desk)) -> u64 {
        let before = self.machine.load().passages.commands;
        what(self);
        self.machine.load().passages.commands - before
    }
    fn busy(&self) -> Vec<bool> {
        let load = self.machine.load();
        (0..4).map(|disk| !load.time(&format!("disk-0.{disk}"), "").is_zero()).collect()
    }
}

#[test]
fn a_small_write_is_a_read_and_a_write_of_data_and_parity_and_a_full_stripe_reads_nothing() {
    assert_eq!(desk(&[]).commands(|desk| _ = desk.read(0, 4)), 1);
    let small = desk(&[]);
    assert_eq!(small.commands(|desk| _ = desk.write(0, 4)), 4);
    // Left-symmetric, the first row: data on disk 0, parity on disk 3, the others free for other requests.
    assert_eq!(small.busy(), [true, false, false, true]);
    // Three stripe units are the data of a row; two of three are written with a read of the third.
    assert_eq!(desk(&[]).commands(|desk| _ = desk.write(0, 96)), 4);
    assert_eq!(desk(&[]).commands(|desk| _ = desk.write(0, 64)), 4);
}

#[test]
fn parity_takes_time_of_the_host_as_a_copy_of_its_sources_does() {
    let parity = |request: u64, changes: &[(&str, &str)]| {
        let desk = desk(changes);
        desk.write(0, request);
        let log = desk.machine.trace.take().unwrap();
        log.spans().iter().filter(|span| log.phase(span.phase) == "parity").map(record::Span::time).sum::<Duration>()
    };
    let rate = Kit::load("raid-i").unwrap().build(&Runtime::simulated(), 1, &Trace::default()).unwrap();
    let memory = rate.part::<Memory>("memory").unwrap();
    let rates = [memory.parameters.copy_uncached, memory.parameters.copy_cached].map(|rate| rate.get());
    // Old and new data of a small write; all data of a full stripe.
    for (request, sources) in [(4, 8.0), (32, 64.0), (96, 96.0)] {
        let took = parity(request, &[]).as_seconds();
        let [slowest, fastest] = rates.map(|rate| sources * 1024.0 / rate);
        assert!(took >= fastest * 0.999 && took <= slowest * 1.2, "{request} KB: {took} not {fastest} to {slowest}");
    }
    assert_eq!(parity(4, &[("system.array.level", "0"), ("system.array.layout", "original")]), Duration::ZERO);
}

#[test]
fn what_keeps_an_array_consistent_costs_what_it_costs() {
    let commands = |consistency: &str, journal: bool| {
        let mut kit = Kit::load("raid-i").unwrap();
        kit.set("system.array.consistency", consistency).unwrap();
        if journal {
            let text =
                std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../systems/raid-i.toml")).unwrap();
            let text = text.replace(
                "consistency = { value = \"none\"",
                "journal = \"disk-2.0\"\nconsistency = { value = \"journal\"",
            );
            kit.system = machine::part::Part::parse("raid-i.toml", &text).unwrap();
        }
        let (runtime, trace) = (Runtime::simulated(), Trace::default());
        let machine = Rc::new(kit.build(&runtime, 7, &trace).unwrap());
        let members = machine.array.as_ref().unwrap().members.clone();
        let array = entries(&machine, &members, Way::Array).unwrap().remove(0);
        let desk = Desk { runtime, machine, array };
        // The first write says that the array is dirty; what one costs is seen in the second, of another row.
        desk.write(0, 4);
        desk.commands(|desk| _ = desk.write(96 * 4096, 4))
    };
    assert_eq!(commands("resync", false), 4);
    // The region's bit, on all members.
    assert_eq!(commands("bitmap", false), 8);
    // The log's entry on the member with the parity.
    assert_eq!(commands("ppl", false), 5);
    // The journal's entry.
    assert_eq!(commands("journal", true), 5);
}

#[test]
fn an_array_that_cannot_be_is_refused_with_its_place() {
    let refused = |key: &str, value: &str| {
        let mut kit = Kit::load("raid-i").unwrap();
        kit.set(key, value).unwrap();
        let error = kit.build(&Runtime::simulated(), 1, &Trace::default()).err().expect("it is refused");
        assert!(error.place.line > 0, "{error}");
        error.to_string()
    };
    for (key, value, said) in [
        ("system.array.level", "7", "there is no level `7`"),
        ("system.array.layout", "diagonal", "level 5 has no layout `diagonal`"),
        ("system.array.stripe-unit", "1000 B", "whole 512-byte blocks"),
        ("system.array.members", "[\"disk-0.0\", \"disk-0.1\", \"disk-0.1\"]", "'disk-0.1' has two roles"),
        ("system.array.members", "[\"disk-0.0\"]", "members"),
        ("system.array.members", "[\"tape-*\"]", "no drive's name begins with 'tape-'"),
        ("system.array.members", "4", "a list"),
        ("system.array.consistency", "hope", "none, resync, bitmap, ppl, journal"),
        ("system.array.consistency", "journal", "a journal has its disk"),
    ] {
        let message = refused(key, value);
        assert!(message.contains(said), "{key} = {value}: {message}");
    }
    // A machine with fewer disks has lost its array, and is a machine all the same.
    let mut kit = Kit::load("raid-i").unwrap();
    kit.set("system.node.6.count", "1").unwrap();
    let machine = Rc::new(kit.build(&Runtime::simulated(), 1, &Trace::default()).unwrap());
    let members = machine.array.as_ref().unwrap().members.clone();
    assert!(entries(&machine, &members[..1], Way::Raw).is_ok());
    let error = entries(&machine, &members, Way::Array).err().expect("it is refused").to_string();
    assert!(error.contains("has 'disk-0.1' as a member"), "{error}");
}
