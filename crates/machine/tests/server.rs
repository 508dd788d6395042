//! A network file server: each station alone against the theory of queues, a request alone against a sum by hand, what
//! reaches the disks, and what is refused.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use crate::loops::{machine, near};
use device::{Buffer, Data, Device, Request};
use machine::entry::{Entry, Way, entries};
use machine::kit::Kit;
use machine::lines::Lines;
use machine::load::Reading;
use machine::network::{Direction, Network, NetworkAdapter};
use machine::os::command;
use machine::server::Files;
use machine::system::Machine;
use machine::trace::Trace;
use rand::RngExt;
use runtime::{Random, Runtime};
use units::{Bytes, Frequency, Instant};
use workload::{Arrivals, Clockwork};

/// Adapters and buses that take no time worth the name.
const BARE: [(&str, &str); 6] = [
    ("ps2-scsi-2.command", "0 s"),
    ("ps2-scsi-2.completion", "0 s"),
    ("ps2-scsi-2.bus", "100 GB/s"),
    ("ps2-scsi-2.link.rate", "100 GB/s"),
    ("micro-channel-40.rate", "100 GB/s"),
    ("ps2-95-memory.bus", "100 GB/s"),
];

/// Mean response times, in seconds, of `number` requests that come at a mean rate; those of the first tenth do not
/// count. Gives the half width of their 99.9 percent interval, too, from the means of 20 batches.
fn response(runtime: &Runtime, rate: f64, number: usize, serve: impl AsyncFn(usize) + 'static) -> (f64, f64) {
    let mut clockwork = Clockwork::new(Arrivals::Poisson(Frequency::per_second(rate)), Instant::START, Random::new(7));
    let (serve, times) = (Rc::new(serve), Rc::new(RefCell::new(vec![0.0; number])));
    let arrivals: Vec<Instant> = (0..number).map(|_| clockwork.next_arrival()).collect();
    let last = *arrivals.last().unwrap();
    runtime.block_on(async {
        let mut all = Vec::new();
        for (index, arrival) in arrivals.into_iter().enumerate() {
            runtime.sleep_until(arrival).await;
            let (serve, times, clock) = (Rc::clone(&serve), Rc::clone(&times), runtime.clone());
            all.push(runtime.spawn(async move {
                serve(index).await;
                times.borrow_mut()[index] = clock.now().since(arrival).as_seconds();
            }));
        }
        for one in all {
            one.await;
        }
    });
    assert!(runtime.now() > last);
    let times = &times.borrow()[number / 10..];
    let means: Vec<f64> =
        times.chunks(times.len() / 20).take(20).map(|it| it.iter().sum::<f64>() / it.len() as f64).collect();
    let mean = means.iter().sum::<f64>() / 20.0;
    let variance = means.iter().map(|batch| (batch - mean).powi(2)).sum::<f64>() / 19.0;
    (mean, 3.88 * (variance / 20.0).sqrt())
}

/// Pollaczek and Khinchine: `E(S) + rate E(S^2) / (2 (1 - rate E(S)))`.
fn m_g_1(rate: f64, mean: f64, second: f64) -> f64 {
    mean + rate * second / (2.0 * (1.0 - rate * mean))
}

#[test]
fn the_disk_alone_is_an_m_g_1_queue_of_exponential_seeks_and_uniform_latencies() {
    for (write, media) in [(false, 5e6), (true, 3.5e6)] {
        let (runtime, machine) = machine("scb-locate", &BARE);
        let disk = Rc::clone(&machine.drive("disk-0").unwrap().endpoint);
        let transfer = 8192.0 / media;
        let (mean, variance) = (8e-3 + 5e-3 + transfer, 64e-6 + 100e-6 / 12.0);
        let rate = 0.5 / mean;
        let trace = machine.trace.clone();
        let clock = runtime.clone();
        let (found, half) = response(&runtime, rate, 60_000, async move |_| {
            let mut ledger = trace.open(clock.now());
            disk.execute(command(write, Bytes::ZERO, Bytes::kib(8)), Lines::Cached, &mut ledger).await;
            ledger.close(clock.now());
        });
        let theory = m_g_1(rate, mean, variance + mean * mean);
        assert!((found - theory).abs() < half + 2e-5, "{found} +- {half}, not {theory}");
        assert!(half < 0.1 * theory, "{half} tells something");
        let busy = machine.load().utilization("disk-0").get();
        assert!((busy - 0.5).abs() < 0.01, "{busy}");
    }
}

#[test]
fn the_ring_alone_is_an_m_g_1_queue_of_frames() {
    let (runtime, machine) = machine("scb-locate", &[]);
    let ring: Rc<Network> = machine.parts().next().unwrap();
    // Half a round of 101 stations, 100 bytes around the data, 2 MB/s.
    let by_hand = |bytes: f64| 101.0 * 0.5e-6 / 2.0 + (bytes + 100.0) / 2e6;
    let sizes = [(128, 0.5), (1024, 0.2), (8192, 0.3)];
    for (bytes, _) in sizes {
        assert!((ring.time(Bytes::new(bytes)).as_seconds() - by_hand(bytes as f64)).abs() < 2e-9);
    }
    let moment =
        |power: i32| -> f64 { sizes.iter().map(|(bytes, share)| share * by_hand(*bytes as f64).powi(power)).sum() };
    let rate = 0.7 / moment(1);
    let (trace, clock, shared) = (machine.trace.clone(), runtime.clone(), Rc::clone(&ring));
    let random = RefCell::new(Random::new(3));
    let (found, half) = response(&runtime, rate, 100_000, async move |_| {
        let point: f64 = random.borrow_mut().random();
        let bytes = if point < 0.5 {
            128
        } else if point < 0.7 {
            1024
        } else {
            8192
        };
        let mut ledger = trace.open(clock.now());
        shared.send(Bytes::new(bytes), Direction::In, &mut ledger).await;
        ledger.close(clock.now());
    });
    let theory = m_g_1(rate, moment(1), moment(2));
    assert!((found - theory).abs() < half, "{found} +- {half}, not {theory}");
    assert!(half < 0.15 * theory, "{half} tells something");
    let packets: Vec<u64> = ring.packets(Bytes::kib(17)).map(Bytes::get).collect();
    assert_eq!(packets, [8192, 8192, 1024]);
}

/// Packets of one size at a port of one direction wait as in an M/D/1 queue, whatever the other direction carries; with
/// two ports they go two at a time.
#[test]
fn an_ethernet_alone_is_a_queue_for_each_direction() {
    let (runtime, machine) = machine("nfs-10g", &[("ethernet-2x10g.ports", "1")]);
    let wire: Rc<Network> = machine.parts().next().unwrap();
    // 46 frames of at most 1448 bytes of data, with 90 bytes more each; 10 us until it is there.
    let (time, latency) = ((65_536.0 + 46.0 * 90.0) / 1.25e9, 10e-6);
    assert!((wire.time(Bytes::kib(64)).as_seconds() - time).abs() < 2e-9);
    assert!((wire.time(Bytes::new(1)).as_seconds() - 91.0 / 1.25e9).abs() < 2e-9);
    let send = async |network: &Network, trace: &Trace, clock: &Runtime, direction| {
        let mut ledger = trace.open(clock.now());
        network.send(Bytes::kib(64), direction, &mut ledger).await;
        ledger.close(clock.now());
    };
    let (trace, clock, shared) = (machine.trace.clone(), runtime.clone(), Rc::clone(&wire));
    let rate = 0.7 / time;
    let (found, half) = response(&runtime, rate, 100_000, async move |index| {
        let other = (Rc::clone(&shared), trace.clone(), clock.clone());
        if index % 2 == 0 {
            clock.spawn_detached(async move { send(&other.0, &other.1, &other.2, Direction::In).await });
        }
        send(&shared, &trace, &clock, Direction::Out).await;
    });
    let theory = m_g_1(rate, time, time * time) + latency;
    assert!((found - theory).abs() < half, "{found} +- {half}, not {theory}");
    assert!(half < 0.15 * theory, "{half} tells something");
    assert!(machine.load().reading("network", "in").is_some() && machine.load().reading("network", "out").is_some());

    let (runtime, machine) = crate::loops::machine("nfs-10g", &[]);
    let wire: Rc<Network> = machine.parts().next().unwrap();
    let begun = runtime.now();
    runtime.block_on(async {
        let one = |_| {
            let of = (Rc::clone(&wire), machine.trace.clone(), runtime.clone());
            runtime.spawn(async move { send(&of.0, &of.1, &of.2, Direction::Out).await })
        };
        for one in (0..4).map(one).collect::<Vec<_>>() {
            one.await;
        }
    });
    let took = runtime.now().since(begun).as_seconds();
    assert!((took - (2.0 * time + latency)).abs() < 1e-8, "{took}: four packets by two ports");
}

#[test]
fn tenures_share_the_channel_alike_and_cost_their_arbitration() {
    let (runtime, machine) =
        machine("scb-locate", &[("ps2-token-ring.link.rate", "400 MB/s"), ("ps2-95-memory.bus", "1 GB/s")]);
    let lan: Rc<NetworkAdapter> = machine.parts().next().unwrap();
    let moves = async |number: usize| {
        let before = runtime.now();
        let one = async || {
            let mut ledger = machine.trace.open(runtime.now());
            lan.transfer(Bytes::mib(1), true, Lines::Cached, &mut ledger).await;
            ledger.close(runtime.now());
        };
        match number {
            1 => one().await,
            _ => _ = futures_util::join!(one(), one()),
        }
        runtime.now().since(before).as_seconds()
    };
    let alone = f64::from(1 << 20) * 1.1 / 40e6;
    runtime.block_on(async {
        near(moves(1).await, alone, 0.01, "a tenth for arbitration");
        near(moves(2).await, 2.0 * alone, 0.01, "two share it");
    });
    near(machine.load().time("channel", "").as_seconds(), 3.0 * alone, 0.01, "and it is busy for all of that");
}

/// The way of clients into a machine.
fn files(machine: &Rc<Machine>) -> Entry {
    let disks: Vec<&str> = machine.drives().iter().map(|drive| &*drive.name).collect();
    entries(machine, &disks, Way::Files).unwrap().pop().unwrap()
}

/// How long requests take one after the other, in seconds.
fn alone(runtime: &Runtime, machine: &Rc<Machine>, requests: &[(bool, u64, u64)]) -> Vec<f64> {
    let files = files(machine);
    let mut times = Vec::new();
    for (write, at, kib) in requests {
        let (at, bytes) = (Bytes::kib(*at), Bytes::kib(*kib));
        let request = match write {
            true => Request::write(at, Data::phantom(bytes)),
            false => Request::read(at, Buffer::phantom(bytes)),
        };
        let reply = runtime.block_on(files.submit(request));
        reply.result.unwrap();
        times.push(reply.stamps.completed.since(reply.stamps.submitted).as_seconds());
    }
    times
}

/// A frame; what the adapter's processor and the channel take for it.
fn frame(bytes: f64) -> f64 {
    101.0 * 0.5e-6 / 2.0 + (bytes + 100.0) / 2e6 + 0.4e-3 + bytes * 1.1 / 40e6
}

/// Disks without seeks and turns.
const STILL: [(&str, &str); 2] = [("ps2-disk-540mb.seek", "0 s"), ("ps2-disk-540mb.speed", "60000000 rpm")];

#[test]
fn a_read_alone_takes_the_sum_of_its_steps() {
    let steps = |thousands: f64| thousands * 1e3 / 20e6;
    // The request, the interrupt, server code and file system; the copy; the frame, and registers for it.
    let hit = frame(128.0) + steps(1.0 + 6.0 + 6.0) + 8192.0 / 16e6 + steps(6.0) + 3.0 * 0.3e-6 + frame(8192.0);
    let (runtime, machine) = machine("scb-locate", &[("server.cache.hit-ratio", "100 %")]);
    near(alone(&runtime, &machine, &[(false, 0, 8)])[0], hit, 0.1, "a hit");
    // The driver, the adapter's processor twice, the disk, its bus and the channel, the interrupt.
    let disk = 8192.0 / 5e6 + 1e-3 + steps(2.5 + 1.5 + 1.0 + 1.5) + 3.0 * 0.3e-6;
    let changes = [("server.cache.hit-ratio", "0 %"), STILL[0], STILL[1]];
    let (runtime, miss) = crate::loops::machine("scb-locate", &changes);
    near(alone(&runtime, &miss, &[(false, 0, 8)])[0], hit + disk, 1.0, "a miss");
    // Peer to peer: no copy, no second leg over the channel, no driver.
    let (runtime, peer) = crate::loops::machine("scb-move", &STILL);
    let elements = frame(128.0) + 64.0 * 1.1 / 40e6 - 128.0 * 1.1 / 40e6 + steps(1.0 + 6.0 + 6.0 + 0.5);
    let data = 8192.0 / 5e6 + 1e-3 + frame(8192.0) - 8192.0 * 1.1 / 40e6;
    near(alone(&runtime, &peer, &[(false, 0, 8)])[0], elements + data, 1.0, "peer to peer");
    // Of two pieces the second comes from the disk while the first is on the ring.
    let two = alone(&runtime, &peer, &[(false, 0, 16)])[0];
    let serial = elements + steps(0.5) + 2.0 * data;
    assert!(two < serial - 1e-3, "{two} of {serial}");
    let (legs, one) =
        (miss.load().time("channel", "").as_seconds(), peer.load().time("channel", "").as_seconds() / 3.0);
    assert!((1.9..2.1).contains(&(legs / one)), "two legs over the channel against one: {legs}, {one}");
}

/// On PCI Express what goes past memory crosses the card's own link, too: its data alone, not a page of memory.
#[test]
fn what_goes_from_drive_to_card_crosses_both_links() {
    let (runtime, machine) = machine("nfs-10g-peer", &[]);
    alone(&runtime, &machine, &[(false, 0, 64), (false, 640, 64), (true, 1280, 64)]);
    let load = machine.load();
    let [up, down] = ["link up", "link down"].map(|link| load.time("card", link).as_seconds());
    // Eight lanes of 985 MB/s less the headers of 256 bytes; requests for data and elements add a little.
    near(up, 65_536.0 / 7.1e9, 15.0, "one packet to the drives");
    near(down, 2.0 * 65_536.0 / 7.1e9, 15.0, "two from them");
    assert!(load.time("memory", "").as_seconds() < 1e-8, "nothing but elements passes memory");
}

#[test]
fn what_the_disks_are_asked_is_what_cache_and_buffer_leave() {
    let (runtime, machine) = machine("scb-locate", &STILL);
    let requests: Vec<(bool, u64, u64)> = (0..4000_u64).map(|index| (index % 4 == 3, index % 512 * 8, 8)).collect();
    alone(&runtime, &machine, &requests);
    let load = machine.load();
    let count = |what: &str| load.count(what) as f64;
    assert_eq!((count("reads"), count("writes")), (3000.0, 1000.0));
    // Three standard deviations of the shares that are drawn.
    assert!((count("cache hits") / 3000.0 - 0.6).abs() < 0.027, "{}", count("cache hits"));
    assert!((count("merged writes") / 1000.0 - 0.1).abs() < 0.029, "{}", count("merged writes"));
    assert_eq!(count("commands"), 4000.0 - count("cache hits") - count("merged writes"));
}

#[test]
fn a_raid_write_reads_the_rest_of_its_row_unless_the_adapter_has_it() {
    let (read, write) = (8192.0 / 5e6, 8192.0 / 3.5e6);
    for (hits, reads) in [("0 %", 3.0), ("100 %", 0.0)] {
        let changes = [("ps2-raid.cache.parity-hits", hits), ("server.write-buffer.merged", "0 %"), STILL[0], STILL[1]];
        let (runtime, machine) = machine("scb-raid5", &changes);
        alone(&runtime, &machine, &[(true, 64, 8)]);
        let load = machine.load();
        let busy: f64 = (0..5).map(|disk| load.time(&format!("disk-{disk}"), "").as_seconds()).sum();
        near(busy, reads * read + 2.0 * write, 0.5, "others' data, then data and parity");
    }
    let (_, machine) = machine("scb-raid5", &[]);
    assert_eq!(machine.drives()[0].endpoint.depth(), 61);
}

#[test]
fn without_a_given_ratio_the_file_cache_keeps_what_was_used_last() {
    let folder = std::env::temp_dir().join(format!("arraylab-server-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let server = text("parts/os2-server-locate.toml");
    let line = server.lines().find(|line| line.starts_with("hit-ratio")).unwrap();
    std::fs::write(folder.join("lru.toml"), server.replace(line, "")).unwrap();
    let system = folder.join("system.toml");
    std::fs::write(&system, text("systems/scb-locate.toml").replace("os2-server-locate", "lru.toml")).unwrap();
    let runtime = Runtime::simulated();
    let machine = Rc::new(Kit::load(system.to_str().unwrap()).unwrap().build(&runtime, 1, &Trace::default()).unwrap());
    std::fs::remove_dir_all(&folder).unwrap();
    // 512 blocks fit. A read of 1 KiB loads its block.
    let reads: Vec<_> =
        [0, 1, 8].into_iter().chain((2..514).map(|block| block * 8)).chain([0]).map(|at| (false, at, 1)).collect();
    alone(&runtime, &machine, &reads);
    assert_eq!(machine.load().reading("server", "cache hits"), Some(Reading::Count(1)), "the second KiB of block 0");
}

#[test]
fn what_cannot_be_a_file_server_is_refused_with_its_place() {
    let refused = |system: &str, change: (&str, &str)| {
        let mut kit = Kit::load(system).unwrap();
        kit.set(change.0, change.1).unwrap();
        kit.build(&Runtime::simulated(), 1, &Trace::default()).err().expect(change.0).to_string()
    };
    for (system, change, said) in [
        (
            "scb-locate",
            ("token-ring-16.packet", "0 B"),
            "whole 512-byte blocks, at least one: the most data of a packet",
        ),
        ("nfs-10g", ("ethernet-2x10g.frame", "0 B"), "at least one byte: the data of a frame"),
        ("nfs-10g", ("nfsd.sending", "0"), "1 to 65536"),
        ("scb-locate", ("server.cache.hit-ratio", "130 %"), "a share from 0 % to 100 %"),
        ("scb-raid5", ("ps2-raid.cache.read-hits", "130 %"), "a share from 0 % to 100 %"),
        ("scb-move", ("os2-server-move.pipe.element", "8 KiB"), "at most the pipe's 4 KiB"),
        ("scb-raid5", ("system.node.6.count", "2"), "of 2 drives has no row"),
        ("scb-locate", ("lan-clients.message", "16 KiB"), "do not fit a packet of 8 KiB"),
        ("scb-locate", ("ps2-95-memory.cache", "0 B"), "a size above zero"),
        ("scb-locate", ("micro-channel-40.tenure", "0 s"), "a time above zero"),
    ] {
        let message = refused(system, change);
        assert!(message.contains(said) && message.contains(".toml:"), "{change:?}: {message}");
    }
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../systems/scb-locate.toml")).unwrap();
    let server = "[[node]]\nname = \"server\"\npart = \"os2-server-locate\"\non = \"os\"\n";
    assert!(text.contains(server));
    let file = std::env::temp_dir().join(format!("arraylab-clients-{}.toml", std::process::id()));
    std::fs::write(&file, text.replace(server, "")).unwrap();
    let kit = Kit::load(file.to_str().unwrap()).unwrap();
    std::fs::remove_file(&file).unwrap();
    let message = kit.build(&Runtime::simulated(), 1, &Trace::default()).err().unwrap().to_string();
    assert!(
        message.contains("'clients' needs a node of kind 'file-server'") && message.contains(".toml:"),
        "{message}"
    );
    let (_, machine) = machine("raid-i", &[]);
    let error = Files::assemble(&machine, &[]).err().unwrap().to_string();
    assert!(error.contains("add a node of kind 'file-server'"), "{error}");
}

#[test]
fn the_largest_request_is_what_cache_or_pipes_hold() {
    for (system, most) in [("scb-locate", Bytes::mib(4)), ("scb-raid5", Bytes::mib(4)), ("scb-move", Bytes::kib(512))] {
        let (_, machine) = machine(system, &[]);
        assert_eq!(files(&machine).largest().unwrap().0, most, "{system}");
    }
}
