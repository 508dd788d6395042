//! Packet ways against theory: efficiencies, fair shares, wide ports, queues, closed networks; and the systems of today
//! against sums by hand.

use std::cell::Cell;
use std::rc::Rc;

use crate::loops::{Asked, bytes, machine, near, rates};
use device::{Buffer, Device, Request};
use machine::entry::{Way, entries};
use machine::kit::Kit;
use machine::packet::pcie::LinkParameters;
use machine::part::Part;
use machine::standalone::Standalone;
use machine::system::Machine;
use machine::trace::Trace;
use rand::RngExt;
use runtime::{Random, Runtime};
use units::{Bytes, Duration, Instant};

const SYSTEM: &str = "kind = \"system\"\nname = \"x\"\nstatus = \"made up\"\nsource = \"made up\"\n";
const HOST: &str = r#"
[[node]]
name = "memory"
part = "ddr4-8-channels"
[[node]]
name = "processors"
part = "epyc-32-core"
on = "memory"
[[node]]
name = "linux"
part = "linux-6-direct"
on = "processors"
[[node]]
name = "root"
part = "pcie-4-root"
on = "memory"
"#;

/// A machine of one's own on the host above: `name part on count` each.
fn built(nodes: &[(&str, &str, &str, u32)], changes: &[(&str, &str)]) -> (Runtime, Rc<Machine>) {
    let mut text = format!("{SYSTEM}{HOST}");
    for (name, part, on, count) in nodes {
        text += &format!("[[node]]\nname = \"{name}\"\npart = \"{part}\"\non = \"{on}\"\n");
        if *count > 0 {
            text += &format!("count = {count}\n");
        }
    }
    let mut kit = Kit::load("nvme-24").unwrap();
    kit.system = Part::parse("x.toml", &text).unwrap();
    for (key, value) in changes {
        kit.set(key, value).unwrap_or_else(|error| panic!("{error}"));
    }
    let runtime = Runtime::simulated();
    let machine = kit.build(&runtime, 1, &Trace::default()).unwrap_or_else(|error| panic!("{error}"));
    (runtime, Rc::new(machine))
}

#[test]
fn a_links_efficiency_is_its_payload_over_payload_and_header() {
    let with = |payload: u64| LinkParameters {
        generation: 3,
        lanes: 8.0,
        payload: Bytes::new(payload),
        read_request: Bytes::new(512),
        acknowledged_together: 1,
        credits: None,
        latency: Duration::nanos(500),
    };
    // 8 GT/s, 128 of 130 bits, eight lanes.
    near(with(64).raw(), 7.876_923e9, 1e-4, "the raw rate");
    for (payload, up, down) in [(64, 64.0 / 88.0, 64.0 / 84.0), (4096, 4096.0 / 4120.0, 4096.0 / 4116.0)] {
        let (cost_up, cost_down) = with(payload).costs();
        near(1.0 / cost_up, 7.876_923e9 * up, 1e-3, "up");
        near(1.0 / cost_down, 7.876_923e9 * down, 1e-3, "down");
    }
    // 2 KiB under way on a microsecond there and back are 2 GB/s, whatever the lanes do.
    let bounded = LinkParameters { credits: Some(Bytes::kib(2)), ..with(256) };
    near(1.0 / bounded.costs().0, 2.048e9, 1e-3, "bounded by credits");
    // And a drive gets that much over such a link.
    for (payload, efficiency) in [("64 B", 64.0 / 88.0), ("4 KiB", 4096.0 / 4120.0)] {
        let nodes = [("switch", "pcie-4-switch", "root", 0), ("drive", "flash-nvme-3.84tb", "switch", 0)];
        let slow = [("switch.lanes", "1"), ("switch.generation", "1"), ("switch.payload", payload)];
        let (runtime, machine) = built(&nodes, &slow);
        let rate = bytes(&rates(&runtime, &machine, &["drive"], Asked::reads(8, 128, true, 200)));
        near(rate, 250e6 * efficiency, 1.0, payload);
    }
}

#[test]
fn drives_behind_switches_get_max_min_fair_shares() {
    // Ten drives behind one switch and two behind the other, and a root complex for 24 GB/s: each of the two would take
    // 6.8 GB/s. Fair are 2 GB/s each; but the switch of the ten gives only 15.75e9 * 256 / 280 in all, so each of the
    // two may have half of the rest.
    let nodes = [
        ("switch", "pcie-4-switch", "root", 2),
        ("many-0", "flash-nvme-3.84tb", "switch-0", 10),
        ("few-0", "flash-nvme-3.84tb", "switch-1", 2),
    ];
    let (runtime, machine) = built(&nodes, &[("pcie-4-root.fabric", "24 GB/s"), ("pcie-4-switch.lanes", "8")]);
    let names: Vec<String> = machine.drives().iter().map(|drive| drive.name.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let found = rates(&runtime, &machine, &names, Asked::reads(8, 128, true, 20));
    let uplink = 8.0 * 16e9 * 128.0 / 130.0 / 8.0 * 256.0 / 280.0;
    near(bytes(&found), 24e9, 2.0, "the root complex is full");
    let fair: f64 = 24e9 / 12.0;
    assert!(10.0 * fair > uplink, "the ten cannot have their fair share");
    near(bytes(&found[..10]), uplink, 2.0, "the ten");
    for (drive, wanted) in
        [(0, uplink / 10.0), (9, uplink / 10.0), (10, (24e9 - uplink) / 2.0), (11, (24e9 - uplink) / 2.0)]
    {
        near(found[drive].1, wanted, 3.0, names[drive]);
    }
}

#[test]
fn a_wide_port_gives_each_drive_a_lane_and_all_of_them_the_sum() {
    // Drives that are faster than a lane: reads out of their buffers.
    let lane = 1.2e9 * 1024.0 / 1060.0;
    for (drives, lanes) in [(1, 1.0), (2, 2.0), (4, 4.0), (8, 4.0)] {
        let nodes =
            [("hba", "sas3-hba", "root", 0), ("box", "sas3-expander", "hba", 0), ("disk", "mg10-20tb", "box", drives)];
        let fast = [("mg10-20tb.bus.read-block", "1 ns"), ("mg10-20tb.bus.write-block", "1 ns")];
        let (runtime, machine) = built(&nodes, &fast);
        let names: Vec<String> = (0..drives).map(|disk| format!("disk-{disk}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        // Writes go into the buffers.
        let asked = Asked { write: true, ..Asked::reads(4, 256, true, 100) };
        let found = rates(&runtime, &machine, &names, asked);
        near(bytes(&found), lanes * lane, 2.0, &format!("{drives} drives on four lanes"));
    }
}

#[test]
fn a_queue_at_the_end_of_a_way_is_the_queue_of_the_drive_alone() {
    let alone = |depth: u32| {
        let runtime = Runtime::simulated();
        let drive = Rc::new(Standalone::open(&runtime, "mg10-20tb", 1).unwrap());
        let done = Rc::new(Cell::new(0u64));
        let (from, to) = (Instant::START + Duration::seconds(10), Instant::START + Duration::seconds(20));
        for number in 0..depth {
            let (runtime, drive, done) = (runtime.clone(), Rc::clone(&drive), Rc::clone(&done));
            let mut random = Random::named(5, &format!("disk {number}"));
            runtime.clone().spawn_detached(async move {
                let slots = drive.shape().size / Bytes::kib(4) / 2;
                while runtime.now() < to {
                    let offset = Bytes::kib(4) * random.random_range(0..slots);
                    drive.submit(Request::read(offset, Buffer::phantom(Bytes::kib(4)))).await;
                    done.set(done.get() + u64::from((from..to).contains(&runtime.now())));
                }
            });
        }
        runtime.block_on(runtime.sleep(Duration::seconds(20)));
        done.get() as f64 / 10.0
    };
    for depth in [1, 8, 32] {
        let nodes = [("hba", "sas3-hba", "root", 0), ("disk", "mg10-20tb", "hba", 0)];
        let (runtime, machine) = built(&nodes, &[]);
        let found = rates(&runtime, &machine, &["disk"], Asked::reads(depth, 4, false, 20_000));
        near(found[0].0, alone(depth), 3.0, &format!("depth {depth}"));
    }
}

/// Throughput of `customers` that think for `think` and then share a server for `service`: exact mean value analysis
/// (Reiser and Lavenberg 1980).
fn mean_value_analysis(customers: u32, think: f64, service: f64) -> f64 {
    let (mut there, mut rate) = (0.0, 0.0);
    for n in 1..=customers {
        let response = service * (1.0 + there);
        rate = f64::from(n) / (think + response);
        there = rate * response;
    }
    rate
}

#[test]
fn a_closed_network_of_24_drives_is_that_of_mean_value_analysis() {
    // One lane of the first generation for all: a shared link that serves whoever is there in equal parts, behind
    // drives that think.
    let slow = [("pcie-4-switch.lanes", "1"), ("pcie-4-switch.generation", "1"), ("pcie-4-root.ports", "1")];
    let nodes = [("switch", "pcie-4-switch", "root", 0), ("drive", "flash-nvme-3.84tb", "switch", 24)];
    let more = [&slow[..], &[("pcie-4-switch.ports", "24")]].concat();
    let names: Vec<String> = (0..24).map(|drive| format!("drive-{drive}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let service = 64.0 * 1024.0 / (250e6 * 256.0 / 280.0);
    for think in [24.0 * service, 12.0 * service] {
        let asked = Asked { think: Some(Duration::from_seconds(think)), ..Asked::reads(1, 64, false, 20_000) };
        let (runtime, machine) = built(&nodes, &more);
        let found: f64 = rates(&runtime, &machine, &names, asked).iter().map(|(requests, _)| requests).sum();
        // Besides its thinking, a request waits for the drive: what one takes alone, less its transfer.
        let alone = {
            let (runtime, machine) = built(&nodes, &more);
            let found = rates(&runtime, &machine, &["drive-0"], Asked::reads(1, 64, false, 1_000))[0].0;
            1.0 / found - service
        };
        assert!((50e-6..200e-6).contains(&alone), "a read of flash: {alone}");
        near(found, mean_value_analysis(24, think + alone, service), 3.0, &format!("thinking {think}"));
    }
}

#[test]
fn nvme_24_is_limited_by_the_uplinks_of_its_switches() {
    let (runtime, machine) = machine("nvme-24", &[]);
    let names: Vec<String> = machine.drives().iter().map(|drive| drive.name.to_string()).collect();
    assert_eq!(names.len(), 24);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let found = rates(&runtime, &machine, &names, Asked::reads(8, 128, true, 20));
    let uplink = 16.0 * 16e9 * 128.0 / 130.0 / 8.0 * 256.0 / 280.0;
    near(bytes(&found), 2.0 * uplink, 2.0, "two uplinks");
    let load = machine.load();
    assert!(load.time("switch-0", "up").as_seconds() / load.at.as_seconds() > 0.95, "{load:?}");
}

#[test]
fn sas_60_is_limited_by_the_wide_port_of_its_expander() {
    let (runtime, machine) = machine("sas-60", &[]);
    let names: Vec<String> = machine.drives().iter().map(|drive| drive.name.to_string()).collect();
    assert_eq!(names.len(), 60);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let found = rates(&runtime, &machine, &names, Asked::reads(4, 512, true, 1_000));
    near(bytes(&found), 4.0 * 1.2e9 * 1024.0 / 1060.0, 2.0, "four lanes");
}

/// Requests a second through the operating system, so many under way on each of some drives.
fn through_the_system(runtime: &Runtime, machine: &Rc<Machine>, drives: &[&str], depth: u32) -> f64 {
    let devices = entries(machine, drives, Way::Raw).unwrap();
    let (done, to) = (Rc::new(Cell::new(0u64)), Instant::START + Duration::millis(20));
    for (index, device) in devices.into_iter().map(Rc::new).enumerate() {
        for number in 0..depth {
            let (runtime, device, done) = (runtime.clone(), Rc::clone(&device), Rc::clone(&done));
            let mut random = Random::named(9, &format!("{index} {number}"));
            runtime.clone().spawn_detached(async move {
                while runtime.now() < to {
                    let offset = Bytes::kib(4) * random.random_range(0..1_000_000);
                    device.submit(Request::read(offset, Buffer::phantom(Bytes::kib(4)))).await;
                    done.set(done.get() + 1);
                }
            });
        }
    }
    runtime.block_on(runtime.sleep(Duration::millis(20)));
    done.get() as f64 / 0.02
}

#[test]
fn cores_bound_the_requests_and_steered_interrupts_bound_them_sooner() {
    let nodes = [("switch", "pcie-4-switch", "root", 0), ("drive", "flash-nvme-3.84tb", "switch", 8)];
    let names: Vec<String> = (0..8).map(|drive| format!("drive-{drive}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let rate = |changes: &[(&str, &str)]| {
        let (runtime, machine) = built(&nodes, changes);
        through_the_system(&runtime, &machine, &names, 32)
    };
    let steps = ["start-call", "generic-driver", "adapter-driver", "after-interrupt", "finish", "between-calls"];
    let kit = Kit::load("nvme-24").unwrap();
    let step = |name: &str| {
        kit.parts["linux-6-direct"].value(&format!("instructions.{name}")).unwrap().parse::<f64>().unwrap()
    };
    // A page is mapped and unmapped three times.
    let instructions = steps.iter().map(|name| step(name)).sum::<f64>() + 3.0 * step("map-page");
    let handler = step("start-interrupt");
    // A process that goes on after another one pays for the switch; with more processes than cores that is each, once a
    // request.
    let switch = 1.5e-6;
    let bound = 4.0 / ((instructions + handler) / 2.8e9 + switch);
    near(rate(&[("epyc-32-core.cores", "4")]), bound, 5.0, "four cores");
    // One core for all interrupts of eight drives, with little else to do.
    let steered = [("epyc-32-core.interrupt-cores", "1"), ("linux-6-direct.instructions.start-interrupt", "10000")];
    near(rate(&steered), 2.8e9 / 10_000.0, 5.0, "one core for interrupts");
}

#[test]
fn what_is_plugged_in_wrongly_is_refused() {
    let refused = |nodes: &[(&str, &str, &str, u32)], changes: &[(&str, &str)]| {
        let mut text = format!("{SYSTEM}{HOST}");
        for (name, part, on, count) in nodes {
            text += &format!("[[node]]\nname = \"{name}\"\npart = \"{part}\"\non = \"{on}\"\ncount = {count}\n");
        }
        let mut kit = Kit::load("nvme-24").unwrap();
        kit.system = Part::parse("x.toml", &text).unwrap();
        let set = changes.iter().try_for_each(|(key, value)| kit.set(key, value));
        let built = set.and_then(|()| kit.build(&Runtime::simulated(), 1, &Trace::default()).map(|_| ()));
        built.err().map_or_else(|| "accepted".to_owned(), |error| error.to_string())
    };
    let switch = ("switch", "pcie-4-switch", "root", 1);
    type Case<'a> = (&'a [(&'a str, &'a str, &'a str, u32)], &'a [(&'a str, &'a str)], &'a str);
    let cases: [Case; 9] = [
        (
            &[switch, ("d", "flash-nvme-3.84tb", "switch-0", 21)],
            &[],
            "there is no place for d-20: 'switch-0' has 20 places (port)",
        ),
        (
            &[("d", "mg10-20tb", "root", 1)],
            &[],
            "a part of kind 'disk' stands on one of kind 'scsi-string' or 'scsi-adapter' or 'sas-hba' or 'sas-expander' or",
        ),
        (&[("d", "flash-nvme-3.84tb", "memory", 1)], &[], "stands on one of kind 'pcie-root' or 'pcie-switch'"),
        (&[switch], &[("pcie-4-switch.generation", "6")], "1 to 5; generation 6 has no packets of this kind"),
        (&[switch], &[("pcie-4-switch.lanes", "0")], "1 lane at least"),
        (&[switch], &[("pcie-4-switch.payload", "32 B")], "64 B to 4 KiB"),
        (&[switch], &[("pcie-4-switch.credits", "0 B")], "a size above zero"),
        (&[switch], &[("pcie-4-root.fabric", "0 B/s")], "a rate above zero"),
        (&[switch], &[("epyc-32-core.interrupt-cores", "32")], "0 to 31"),
    ];
    for (nodes, changes, said) in cases {
        let message = refused(nodes, changes);
        assert!(message.contains(said) && message.contains(".toml:"), "{changes:?}: {message}");
    }
    // A way of more links than one transfer can cross.
    let name = |n: u8| format!("s{}", char::from(b'a' + n));
    let on = |n: u8| if n == 0 { "root".to_owned() } else { format!("{}-0", name(n - 1)) };
    let far: Vec<(String, String)> = (0..8).map(|n| (name(n), on(n))).collect();
    let far: Vec<(&str, &str, &str, u32)> =
        far.iter().map(|(name, on)| (name.as_str(), "pcie-4-switch", on.as_str(), 1)).collect();
    let message = refused(&far, &[]);
    assert!(message.contains("more links away from memory than a way may have (7)"), "{message}");
}
