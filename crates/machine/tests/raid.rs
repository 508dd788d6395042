//! The array of this project as the RAID driver of a modelled machine.

use std::rc::Rc;

use device::{Buffer, Data, Device, Request};
use machine::entry::{Entry, Way, entries};
use machine::kit::Kit;
use machine::load::Reading;
use machine::memory::Memory;
use machine::raid::upkeep::{REBUILT, SCRUBBED};
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

/// What a gauge counts.
fn count(desk: &Desk, what: &str) -> f64 {
    let load = desk.machine.load();
    let gauge = load.gauges.iter().find(|gauge| gauge.what == what).unwrap_or_else(|| panic!("no {what}"));
    let Reading::Count(count) = gauge.reading else { panic!("{what} counts") };
    count as f64
}

#[test]
fn what_a_failed_disk_held_is_computed_from_all_others() {
    let degraded = desk(&[("system.array.failed", "1")]);
    // Left-symmetric: the fourth disk has the parity of the first row, and data of the second.
    assert_eq!(degraded.commands(|desk| _ = desk.read(0, 4)), 1);
    assert_eq!(degraded.commands(|desk| _ = desk.read(96, 4)), 3);
    // Its parity is not written, and of a full stripe nothing else is needed.
    assert_eq!(degraded.commands(|desk| _ = desk.write(0, 96)), 3);
    assert_eq!(degraded.busy(), [true, true, true, false]);
}

/// Whatever the array keeps on its members: its new disk is filled, and its data are compared, as fast as is said.
#[test]
fn a_new_disk_is_filled_and_an_array_is_scrubbed_at_their_rates() {
    for consistency in ["none", "bitmap", "ppl"] {
        let changes =
            |more: &[(&'static str, &'static str)]| [&[("system.array.consistency", consistency)], more].concat();
        let per_second = |desk: &Desk, what: &str| {
            desk.runtime.block_on(desk.runtime.sleep(Duration::seconds(4)));
            let before = count(desk, what);
            desk.runtime.block_on(desk.runtime.sleep(Duration::seconds(20)));
            (count(desk, what) - before) / 20.0
        };
        let rebuilt = desk(&changes(&[("system.array.failed", "1"), ("system.array.rebuild-rate", "128 KiB/s")]));
        let rate = per_second(&rebuilt, REBUILT);
        assert!((rate - 128.0).abs() <= 2.0 * 32.0 / 20.0, "{consistency}: {rate} KiB a second of the new disk");
        assert_eq!(rebuilt.busy(), [true; 4], "{consistency}: three are read, and the new one is written");
        let scrubbed = desk(&changes(&[("system.array.scrub-rate", "384 KiB/s")]));
        let rate = per_second(&scrubbed, SCRUBBED);
        assert!((rate - 384.0).abs() <= 2.0 * 96.0 / 20.0, "{consistency}: {rate} KiB of data a second");
        assert_eq!(scrubbed.busy(), [true; 4], "{consistency}: data and parity are read");
    }
    let idle = desk(&[]).machine.load();
    assert!(!idle.gauges.iter().any(|gauge| [REBUILT, SCRUBBED].contains(&gauge.what)), "nothing is to be done");
}

/// Users pay for a scrub: with the time of the disks, and with that of the processor that computes parity.
#[test]
fn a_scrub_takes_disks_and_processor_from_those_who_read() {
    let mean = |changes: &[(&str, &str)]| {
        let desk = desk(changes);
        let all: Duration = (0..40).map(|number| desk.read(number * 7919 % 200_000 * 4, 4)).sum();
        (all / 40, desk.machine.load().time("processor", "") / 40)
    };
    let (alone, working) = mean(&[]);
    let (beside, busy) = mean(&[("system.array.scrub-rate", "1 MB/s")]);
    assert!(beside > alone.scale(1.3), "{beside} beside a scrub, {alone} alone");
    assert!(busy > working.scale(1.3), "{busy} of the processor for each request, {working} without the scrub");
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
        ("system.array.failed", "2", "level 5 of 4 drives survives the loss of 1, and 2 have failed"),
        ("system.array.rebuild-rate", "1 MB/s", "give failed = 1, too"),
    ] {
        let message = refused(key, value);
        assert!(message.contains(said), "{key} = {value}: {message}");
    }
    let mut kit = Kit::load("raid-i").unwrap();
    kit.set("system.array.scrub-rate", "1 MB/s").unwrap();
    for (key, value, said) in [
        ("system.array.failed", "1", "an array that lacks a drive cannot be compared with its redundancy"),
        ("system.array.level", "0", "has no redundancy to compare its data with"),
    ] {
        let mut kit = kit.clone();
        kit.set(key, value).unwrap();
        kit.set("system.array.layout", if value == "0" { "original" } else { "left-symmetric" }).unwrap();
        let message = kit.build(&Runtime::simulated(), 1, &Trace::default()).err().expect("it is refused").to_string();
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
