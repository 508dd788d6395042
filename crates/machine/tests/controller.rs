//! A RAID controller against sums by hand: its memory, its link, its engine, its cache; and what it refuses.

use std::rc::Rc;

use crate::loops::{Asked, bytes, machine, near, rates};
use machine::kit::Kit;
use machine::lines::Lines;
use machine::load::Reading;
use machine::os::command;
use machine::system::Machine;
use machine::trace::Trace;
use runtime::Runtime;
use units::{Bytes, Duration};

/// The rate of its one drive, in bytes and in requests a second.
fn rate(changes: &[(&str, &str)], asked: Asked) -> (f64, f64) {
    let (runtime, machine) = machine("raid6-12", changes);
    let rates = rates(&runtime, &machine, &["raid"], asked);
    (bytes(&rates), rates[0].0)
}

/// Sequential reads: of 12 drives that need not be fast, as the parts in question are made slow.
const READS: Asked = Asked::reads(8, 2560, true, 2000);

#[test]
fn the_host_sees_one_drive_of_the_size_of_ten() {
    let (_, machine) = machine("raid6-12", &[]);
    let names: Vec<&str> = machine.drives().iter().map(|drive| &*drive.name).collect();
    assert_eq!(names, ["raid"]);
    let one = 39_063_650_304 * 512;
    let chunks = one / (256 << 10);
    assert_eq!(machine.drives()[0].size(), Bytes::kib(256) * chunks * 10);
}

#[test]
fn memory_passes_each_byte_twice_and_the_link_once() {
    let (memory, _) = rate(&[("raid-sas3.buffer", "1 GB/s")], READS);
    near(memory, 0.5e9, 2.0, "a read goes into the memory and out of it");
    let (link, _) = rate(&[("raid-sas3.link.lanes", "1")], READS);
    near(link, 8e9 * 128.0 / 130.0 / 8.0 * 256.0 / 280.0, 2.0, "one lane of generation 3");
}

#[test]
fn twelve_drives_read_in_sequence_as_at_most_ten() {
    let (all, _) = rate(&[], READS);
    let (_, machine) = machine("raid6-12", &[]);
    let outer = machine::capacity::capacities(&machine)[machine.node("disk-0").unwrap()].own.unwrap().get();
    // Parity lies between the data of a drive: it passes under the heads, and nobody asks for it.
    let share = all / (10.0 * outer);
    assert!((0.9..=1.0).contains(&share), "{all} of the 10 times {outer} that pass under the heads");
}

#[test]
fn the_engine_reads_all_data_for_each_parity() {
    let writes = Asked { write: true, ..READS };
    for (level, parities) in [("5", 1.0), ("6", 2.0)] {
        let changes = [
            ("raid-sas3.array.level", level),
            ("raid-sas3.parity", "100 MB/s"),
            ("raid-sas3.cache.write-back", "false"),
        ];
        let size = Bytes::kib(256) * if level == "5" { 11 } else { 10 };
        let (found, _) = rate(&changes, Asked { size, ..writes });
        near(found, 100e6 / parities, 2.0, "whole stripes");
    }
}

#[test]
fn small_writes_to_level_6_wait_for_a_read_and_a_turn_unless_a_cache_takes_them() {
    let random = Asked { write: true, time: Duration::seconds(8), ..Asked::reads(1, 4, false, 0) };
    let plain = [("mg10-20tb.write.back", "none"), ("raid-sas3.cache.write-back", "false")];
    let (_, reads) = rate(&plain, Asked { write: false, ..random });
    let (_, through) = rate(&plain, random);
    // Three drives are read at once, then the same blocks are written: a turn later at the earliest, 7200 times a
    // minute.
    let shortest = 1.0 / reads + 60.0 / 7200.0;
    assert!(1.0 / through >= shortest, "{through} writes and {reads} reads a second");
    let (_, drives) = rate(&plain[1..], random);
    assert!(drives > 1.2 * through, "{drives} writes a second with the caches of the drives, {through} without");
    let (_, back) = rate(&[], Asked { time: Duration::millis(20), ..random });
    assert!(back > 50.0 * reads, "{back} writes and {reads} reads a second");
}

#[test]
fn a_full_cache_keeps_its_drives_at_work_and_writes_more_than_none() {
    let random = Asked { write: true, time: Duration::seconds(8), ..Asked::reads(32, 4, false, 0) };
    let (_, through) = rate(&[("raid-sas3.cache.write-back", "false")], random);
    let (runtime, machine) = machine("raid6-12", &[("raid-sas3.cache.size", "16 MiB")]);
    let back = rates(&runtime, &machine, &["raid"], random)[0].0;
    assert!(back > through, "{back} from the cache and {through} without");
    let used = machine.load();
    let disks: Vec<f64> =
        used.at_work().iter().filter(|(node, _)| node.starts_with("disk-")).map(|(_, work)| work.get()).collect();
    let mean = disks.iter().sum::<f64>() / disks.len() as f64;
    assert!(disks.len() == 12 && mean > 0.9, "the drives limit, and work {mean} of the time");
}

fn read(runtime: &Runtime, machine: &Rc<Machine>, offset: Bytes) -> Duration {
    let endpoint = Rc::clone(&machine.drives()[0].endpoint);
    let begun = runtime.now();
    let mut ledger = machine.trace.open(begun);
    runtime.block_on(endpoint.execute(command(false, offset, Bytes::kib(64)), Lines::Flushed, &mut ledger));
    ledger.close(runtime.now());
    runtime.now().since(begun)
}

#[test]
fn what_was_read_stays_and_counts_as_a_hit() {
    let (runtime, machine) = machine("raid6-12", &[("raid-sas3.cache.size", "1 MiB")]);
    let first = read(&runtime, &machine, Bytes::mib(100));
    let second = read(&runtime, &machine, Bytes::mib(100));
    assert!(first > Duration::millis(1) && second < Duration::micros(50), "{first}, then {second}");
    (1..=16).for_each(|other| _ = read(&runtime, &machine, Bytes::mib(100 + other)));
    assert!(read(&runtime, &machine, Bytes::mib(100)) > Duration::micros(100), "16 others came since");
    let load = machine.load();
    let hits = load.gauges.iter().find(|gauge| gauge.what == "read hits").unwrap();
    assert_eq!(hits.reading, Reading::Count(1));
    let disks: Vec<_> = load.gauges.iter().filter(|gauge| gauge.node.starts_with("disk-")).collect();
    assert!(disks.len() >= 12, "its drives are seen in the machine's load");
    drop((load, machine));
    runtime.clear();
}

#[test]
fn what_cannot_be_a_controller_is_refused_with_its_reason() {
    let refused = |key: &str, value: &str| {
        let mut kit = Kit::load("raid6-12").unwrap();
        kit.set(key, value).unwrap();
        let built = kit.build(&Runtime::simulated(), 1, &Trace::default());
        built.err().unwrap_or_else(|| panic!("{key} = {value}")).to_string()
    };
    for (key, value, said) in [
        ("system.node.5.count", "3", "raid with the drives behind it: "),
        ("system.node.5.count", "17", "there is no place for disk-16: 'raid' has 16 places (port)"),
        ("system.node.5.on", "root", "a part of kind 'disk' stands on one of kind 'scsi-string' or"),
        ("raid-sas3.cache.line", "700 B", "whole 512-byte blocks"),
        ("raid-sas3.cache.dirty-most", "120 %", "at least a line of it with write-back, at most 100 %"),
        ("raid-sas3.cache.size", "0 B", "at least a line of it with write-back"),
        ("raid-sas3.cache.destages", "0", "1 to 65536"),
        ("raid-sas3.parity", "0 B/s", "a rate above zero"),
        ("raid-sas3.array.level", "7", "7"),
        ("raid-sas3.array.failed", "3", "level 6 of 12 drives survives the loss of 2, and 3 have failed"),
        ("raid-sas3.array.rebuild-rate", "1 MB/s", "give failed = 1, too"),
        ("raid-sas3.array.scrub-rate", "fast", "scrub-rate"),
        ("raid-sas3.array.stripe-unit", "1000 B", "whole 512-byte blocks"),
        ("system.node.4.on", "memory", "stands on one of kind 'pcie-root' or 'pcie-switch'"),
    ] {
        let text = refused(key, value);
        assert!(text.contains(said), "{key} = {value}: {text}");
    }
}

/// The array computes what failed drives held from all others. A new drive is filled at its rate.
#[test]
fn a_drive_that_has_failed_costs_reads_and_a_new_one_is_filled_at_its_rate() {
    let reads = Asked { time: Duration::seconds(4), ..Asked::reads(8, 64, false, 0) };
    let (_, whole) = rate(&[], reads);
    let (_, degraded) = rate(&[("raid-sas3.array.failed", "2")], reads);
    // Of twelve requests two need ten drives each. In all that is 30 accesses in place of twelve, by ten drives:
    // between no loss, if drives were idle, and 12 / 30 * 10 / 12.
    assert!(degraded < 0.9 * whole && degraded > whole / 3.0, "{degraded} of {whole} reads a second");
    let (runtime, machine) =
        machine("raid6-12", &[("raid-sas3.array.failed", "1"), ("raid-sas3.array.rebuild-rate", "40 MB/s")]);
    let filled = || {
        let load = machine.load();
        let gauge = load.gauges.iter().find(|gauge| gauge.what == machine::raid::upkeep::REBUILT).unwrap();
        let Reading::Count(kib) = gauge.reading else { panic!("it counts") };
        kib as f64 * 1024.0
    };
    runtime.block_on(runtime.sleep(Duration::seconds(2)));
    let before = filled();
    runtime.block_on(runtime.sleep(Duration::seconds(4)));
    near((filled() - before) / 4.0, 40e6, 5.0, "its own rate, as nobody disturbs it");
    runtime.clear();
}

/// A scrub reads all drives, and its parity is the engine's.
#[test]
fn a_controller_scrubs_at_its_rate_or_at_that_of_its_engine() {
    let scrubbed = |changes: &[(&str, &str)]| {
        let (runtime, machine) = machine("raid6-12", changes);
        runtime.block_on(runtime.sleep(Duration::seconds(4)));
        let load = machine.load();
        let gauge = load.gauges.iter().find(|gauge| gauge.what == machine::raid::upkeep::SCRUBBED).unwrap();
        let Reading::Count(kib) = gauge.reading else { panic!("it counts") };
        runtime.clear();
        kib as f64 * 1024.0 / 4.0
    };
    near(scrubbed(&[("raid-sas3.array.scrub-rate", "50 MB/s")]), 50e6, 5.0, "its rate");
    let engine = [("raid-sas3.array.scrub-rate", "1 GB/s"), ("raid-sas3.parity", "50 MB/s")];
    // The engine reads all data for each of two parities, and the drives are read in between.
    let found = scrubbed(&engine);
    assert!(found < 25e6 && found > 15e6, "{found} B/s behind an engine that would do 25 MB/s alone");
}
