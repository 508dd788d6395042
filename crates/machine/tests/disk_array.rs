//! Disk arrays behind I/O boards against sums by hand: channel, board, bus and memory; an array alone; diskless ones;
//! synchronized spindles; what is refused.

use std::rc::Rc;

use crate::loops::{Asked, bytes, machine, near, rates};
use device::{Buffer, Data, Device, Request};
use machine::entry::{Way, entries};
use machine::kit::Kit;
use machine::lines::Lines;
use machine::os::command;
use machine::system::Machine;
use machine::trace::Trace;
use runtime::Runtime;
use units::{Bytes, Duration};

/// Long enough for counts to resolve a thousandth.
const READS: Asked = Asked::reads(1, 256, true, 20_000);
/// Arrays that think no time at all, so that only what data cross takes any.
const AT_ONCE: [(&str, &str); 2] = [("rf6710-diskless.command", "0 s"), ("rf6710-diskless.command-most", "0 s")];

fn rate_of(arrays: &[&str], changes: &[(&str, &str)], asked: Asked) -> f64 {
    let changes: Vec<(&str, &str)> = AT_ONCE.iter().chain(changes).copied().collect();
    let (runtime, machine) = machine("max", &changes);
    bytes(&rates(&runtime, &machine, arrays, asked))
}

/// The 24 arrays without drives but one, in the order of boards and channels.
fn diskless(boards: &[u32]) -> Vec<String> {
    let of = |board: u32| (0..if board == 0 { 7 } else { 8 }).map(move |channel| format!("array-{board}.{channel}"));
    boards.iter().copied().flat_map(of).collect()
}

fn names(owned: &[String]) -> Vec<&str> {
    owned.iter().map(String::as_str).collect()
}

#[test]
fn a_channel_passes_a_byte_in_fifty_nanoseconds() {
    // Arbitration, selection, release, and back: 4 + 2 + 1 + 4 + 2 + 1 us for 256 KiB in 13.1072 ms.
    let found = rate_of(&["array-0.0"], &[("rf6710-diskless.data-path", "1 GB/s")], READS);
    near(found, 262_144.0 / (13_107.2e-6 + 14e-6), 0.15, "20 MB/s and 14 us a command");
}

#[test]
fn a_board_passes_what_it_says_and_all_eight_channels_below() {
    let arrays = diskless(&[1]);
    let unhindered = [("powerpath-2.wait", "0 s"), ("rf6710-diskless.data-path", "10 MB/s")];
    near(rate_of(&names(&arrays), &unhindered, READS), 80e6, 0.5, "eight times 10 MB/s");
    let narrow = [unhindered[0], unhindered[1], ("io4-1.rate", "60 MB/s")];
    near(rate_of(&names(&arrays), &narrow, READS), 60e6, 0.5, "a board of 60 MB/s");
    let elsewhere = [unhindered[0], unhindered[1], ("io4-2.rate", "60 MB/s")];
    near(rate_of(&names(&arrays), &elsewhere, READS), 80e6, 0.5, "another board");
}

#[test]
fn memory_is_full_at_four_ways_and_gives_less_the_more_is_asked() {
    let arrays = diskless(&[0, 1, 2]);
    let wide = [
        ("powerpath-2.wait", "0 s"),
        ("rf6710-diskless.data-path", "20 MB/s"),
        ("challenge-memory.interleave", "4"),
        ("challenge-memory.way", "80 MB/s"),
    ];
    let with = |loss: &'static str, count: usize| {
        let changes: Vec<_> = wide.iter().copied().chain([("challenge-memory.saturation-loss", loss)]).collect();
        rate_of(&names(&arrays[..count]), &changes, READS)
    };
    near(with("0.5", 15), 15.0 * 20e6, 0.5, "300 MB/s are less than 320");
    near(with("0", 23), 320e6, 0.5, "a full memory without a loss");
    // 23 want 460 MB/s, 1.4375 of it.
    near(with("0.5", 23), 320e6 / (1.0 + 0.5 * 0.4375), 0.5, "with a loss of a half of what is asked beyond");
    near(with("1", 23), 320e6 / 1.4375, 0.5, "with a loss of one");
}

#[test]
fn transfers_wait_for_each_other_on_the_bus() {
    let arrays = diskless(&[0]);
    let slow = [("powerpath-2.wait", "128 ns"), ("rf6710-diskless.data-path", "20 MB/s")];
    // Each of seven waits a nanosecond a byte for six others.
    near(rate_of(&names(&arrays), &slow, READS), 7.0 / 56e-9, 0.5, "50 ns a byte and six more");
    near(rate_of(&names(&arrays[..1]), &slow, READS), 1.0 / 50e-9, 0.3, "alone");
}

fn once(runtime: &Runtime, machine: &Rc<Machine>, array: &str, write: bool, offset: Bytes, size: Bytes) -> Duration {
    let endpoint = Rc::clone(&machine.drive(array).unwrap().endpoint);
    let begun = runtime.now();
    let mut ledger = machine.trace.open(begun);
    runtime.block_on(endpoint.execute(command(write, offset, size), Lines::Flushed, &mut ledger));
    ledger.close(runtime.now());
    runtime.now().since(begun)
}

/// Seeks of 64 KiB take less than a microsecond.
fn close(found: Duration, wanted: Duration) -> bool {
    found.saturating_sub(wanted) < Duration::micros(1) && wanted.saturating_sub(found) < Duration::micros(1)
}

/// An array that thinks 5 ms and sends a byte in 50 ns.
const EXACT: [(&str, &str); 6] = [
    ("rf6710-diskless.command", "5 ms"),
    ("rf6710-diskless.command-most", "5 ms"),
    ("rf6710-diskless.data-path", "20 MB/s"),
    ("rf6710.command", "5 ms"),
    ("rf6710.command-most", "5 ms"),
    ("rf6710.data-path", "20 MB/s"),
];

#[test]
fn an_array_takes_its_command_and_its_transfer() {
    let (runtime, machine) = machine("max", &EXACT);
    for kib in [32, 512, 4096] {
        let next = Bytes::kib(kib);
        once(&runtime, &machine, "array-0.0", false, Bytes::ZERO, next);
        let found = once(&runtime, &machine, "array-0.0", false, next, next).as_seconds();
        let wanted = 5e-3 + 14e-6 + next.get() as f64 * 50e-9;
        assert!((found - wanted).abs() < 1e-6, "{next}: {found} and not {wanted}");
    }
}

#[test]
fn diskless_arrays_seek_in_proportion_and_wait_half_a_turn_unless_in_sequence() {
    let (runtime, machine) = machine("max", &EXACT);
    let (size, all) = (Bytes::kib(64), machine.drive("array-0.0").unwrap().size());
    for write in [false, true] {
        once(&runtime, &machine, "array-0.0", write, Bytes::ZERO, size);
        let sequence = once(&runtime, &machine, "array-0.0", write, size, size);
        let far = (all / 2).round_down(Bytes::SECTOR);
        let half = once(&runtime, &machine, "array-0.0", write, size * 2 + far, size);
        let near = once(&runtime, &machine, "array-0.0", write, size * 4 + far, size);
        let wanted = Duration::micros(4100) + Duration::micros(17_000 / 2);
        assert!(close(half, sequence + wanted), "{half} after {sequence}");
        assert!(close(near, sequence + Duration::micros(4100)), "{near}");
    }
}

#[test]
fn synchronized_spindles_turn_as_one() {
    let random = Asked { time: Duration::seconds(20), ..Asked::reads(1, 32, false, 0) };
    let waits = |synchronized: &'static str| {
        let changes = [("rf6710.synchronized", synchronized), ("st12400n.rotation.speed-error", "0.5 %")];
        let (runtime, machine) = machine("max", &[&EXACT[..], &changes].concat());
        1.0 / rates(&runtime, &machine, &["array-3.0"], random)[0].0
    };
    let (alike, apart) = (waits("true"), waits("false"));
    // All nine wait half a turn of 11.09 ms on average, or the last of eight that stand anywhere 8/9 of one.
    let turn = 60.0 / 5411.0;
    near(apart - alike, turn * (8.0 / 9.0 - 0.5), 20.0, "seconds a request");
}

#[test]
fn a_real_array_reads_in_sequence_at_the_pace_of_its_data_path() {
    let (runtime, machine) = machine("max", &EXACT);
    let asked = Asked { time: Duration::seconds(60), ..Asked::reads(1, 2048, true, 0) };
    let real = bytes(&rates(&runtime, &machine, &["array-3.0"], asked));
    // The first piece has to come before the string is taken: 32 KiB from each drive.
    let first = 262_144.0 / 8.0 / 10e6;
    let (least, most) = (5e-3 + 0.104_86 + first, 5e-3 + 0.104_86 + first + 2e-3);
    let time = 2_097_152.0 / real;
    assert!((least..most).contains(&time), "{time} s a request, not {least} to {most}");
}

#[test]
fn an_array_of_nine_stores_what_eight_do_and_diskless_ones_as_much() {
    let (_, machine) = machine("max", &[]);
    assert_eq!(machine.drives().len(), 31);
    let sizes: Vec<Bytes> = machine.drives().iter().map(|drive| drive.size()).collect();
    let drive = Bytes::new(4_091_308 * 512).round_down(Bytes::kib(4));
    assert!(sizes.iter().all(|size| *size == drive * 8), "{sizes:?}");
}

fn refused(key: &str, value: &str) -> String {
    let mut kit = Kit::load("max").unwrap();
    let built = kit.set(key, value).and_then(|()| kit.build(&Runtime::simulated(), 1, &Trace::default()));
    built.err().unwrap_or_else(|| panic!("{key} = {value}")).to_string()
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    for (key, value, said) in [
        ("rf6710.command-most", "1 ms", "at least 7 ms, the shortest"),
        ("rf6710.buffer", "1000 B", "whole 512-byte blocks"),
        ("rf6710.array.level", "7", "7"),
        ("rf6710.drives", "8", "there is no place for drive-3.0.8: 'array-3.0' has 8 places (port)"),
        ("rf6710-diskless.diskless.capacity", "0 B", "whole 512-byte blocks"),
        ("io4.channels", "7", "0 to 6: 'io4-0' has 7 places (channel)"),
        ("scsi-2-fast-wide.devices", "9", "2 to 8"),
        ("challenge-memory.interleave", "0", "1 to 64"),
        ("challenge-memory.saturation-loss", "20", "0 (a full bus stays full) to 10"),
        ("irix-5.2.buffer-offset", "4 KiB", "less than a page"),
        ("irix-lv.holds-back", "fate", "splitting"),
        ("irix-lv.at-once", "0", "1 to 1024"),
        ("system.array.stripe-unit", "1000 B", "whole 512-byte blocks"),
    ] {
        let text = refused(key, value);
        assert!(text.contains(said), "{key} = {value}: {text}");
    }
}

#[test]
fn a_request_on_more_pages_than_there_are_registers_is_refused_with_the_remedy() {
    let checked = |offset: &'static str, size: Bytes, way: Way, drives: &[&str]| {
        let (_, machine) = machine("max", &[("irix-5.2.buffer-offset", offset)]);
        let entry = entries(&machine, drives, way).unwrap().remove(0);
        entry.check(size).map_err(|error| error.to_string())
    };
    let one = ["array-0.0"];
    assert_eq!(checked("0 B", Bytes::mib(4), Way::Raw, &one), Ok(()));
    assert_eq!(checked("512 B", Bytes::mib(4) - Bytes::kib(4), Way::Raw, &one), Ok(()));
    let said = checked("512 B", Bytes::mib(4), Way::Raw, &one).unwrap_err();
    assert_eq!(
        said,
        "a request of 4 MiB whose buffer begins 512 B into a page lies on 1025 pages, and irix maps at most 1024 for a \
         request; align the buffer to a page (--set irix.buffer-offset=0B), or ask for at most 4193792 B"
    );
    // A volume maps each piece by itself.
    assert_eq!(checked("512 B", Bytes::mib(30), Way::Array, &["array-0.0", "array-0.1"]), Ok(()));
}

#[test]
fn a_volume_of_disks_that_differ_is_refused_with_the_remedy() {
    let (_, machine) = machine("max", &[("array-0.1.diskless.capacity", "16 GB")]);
    let refused = entries(&machine, &["array-0.0", "array-0.1"], Way::Array).err().unwrap().to_string();
    assert!(refused.contains("'array-0.1' 15625000 KiB"), "{refused}");
    assert!(refused.contains("leave one of them out, or give their parts one capacity"), "{refused}");
}

/// Bytes a second of a volume of so many arrays, each request a stripe.
fn volume(arrays: usize, write: bool, changes: &[(&str, &str)]) -> f64 {
    let (runtime, machine) = machine("max", changes);
    let names: Vec<String> = machine.drives().iter().take(arrays).map(|drive| drive.name.to_string()).collect();
    let entry = entries(&machine, &names, Way::Array).unwrap().remove(0);
    let stripe = entry.stripe().unwrap();
    let requests = 20_u64;
    let took = runtime.block_on(async {
        let mut begun = runtime.now();
        for number in 0..=requests {
            let offset = stripe * number;
            let request = match write {
                true => Request::write(offset, Data::phantom(stripe)),
                false => Request::read(offset, Buffer::phantom(stripe)),
            };
            entry.submit(request.with_id(number + 1)).await.result.unwrap();
            if number == 0 {
                begun = runtime.now();
            }
        }
        runtime.now().since(begun)
    });
    let rate = (stripe * requests).get() as f64 / took.as_seconds();
    drop((entry, machine));
    runtime.clear();
    rate
}

#[test]
fn a_volume_is_held_back_by_what_goes_on_one_piece_at_a_time() {
    let four = ("challenge-memory.interleave", "4");
    let way = |mechanism| ("irix-lv.holds-back", mechanism);
    let split = volume(30, false, &[four]);
    near(split, 236.9e6, 2.0, "what it was fitted to");
    near(volume(26, false, &[]), 223.9e6, 5.0, "max/fig-13/peak, which it was not");
    near(volume(30, false, &[]), split, 3.0, "8-way memory is of no use to what starts one after the other");
    assert!(volume(30, false, &[four, ("system.array.stripe-unit", "256 KiB")]) < split, "max/lv/claim/step");
    near(volume(30, true, &[four]), split, 3.0, "max/lv/claim/op: writes and reads alike");
    let free = volume(30, false, &[way("nothing")]);
    near(volume(30, false, &[way("order")]), free, 2.0, "the last piece is waited for anyway");
    assert!(free > 1.7 * split, "{free} with nothing that holds it back");
    assert!(volume(30, false, &[way("copy")]) <= 50e6, "one copy at 50 MB/s");
    // By hand: 30 pieces of 2.75 ms and 50 ms for the last one's data are 132.5 ms; two at a time, 91. Arrays that send
    // at the same time delay each other on the bus, so it is a little more.
    near(volume(30, false, &[("irix-lv.at-once", "2")]), split * 132.5 / 91.25, 12.0, "two split at a time");
    near(volume(30, false, &[("irix-lv.at-once", "30")]), free, 6.0, "all side by side");
    let (alone, full) = (volume(30, false, &[way("interrupts")]), volume(30, false, &[way("interrupts"), four]));
    assert!(full < 0.95 * alone, "{full} with a memory that all 30 ask at once, {alone} with twice as much");
}
