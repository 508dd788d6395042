//! Files of 4.2BSD on modelled VAXen against sums by hand: turns that are kept and lost, one transfer at a time, what
//! allocation and contention cost, and what is refused.

use std::rc::Rc;

use device::{Buffer, Data, Device, Request};
use machine::entry::{Entry, Way, entries};
use machine::filesystem::State;
use machine::kit::Kit;
use machine::load::{Load, Reading};
use machine::system::Machine;
use machine::trace::Trace;
use runtime::Runtime;
use units::Bytes;

use crate::loops::machine;

/// A turn of an Eagle, and a sector of it, in seconds.
const TURN: f64 = 60.0 / 3961.0;
const SECTOR: f64 = TURN / 48.0;
/// Eight mebibytes.
const FILE: f64 = 8.0 * 1024.0 * 1024.0;
/// A processor that takes no time.
const FAST: [(&str, &str); 3] =
    [("host.instructions", "100000 MIPS"), ("host.context-switch", "0 s"), ("memory.copy-uncached", "10 GB/s")];

/// Runs a program on each of these drives at once: `calls` of `bytes` from the start of its file. Gives how long all
/// took, and what the machine did.
fn program(
    runtime: &Runtime,
    machine: &Rc<Machine>,
    drives: &[&str],
    write: bool,
    state: State,
    bytes: u64,
) -> (f64, Load) {
    let files: Vec<Rc<Entry>> = entries(machine, drives, Way::Files).unwrap().into_iter().map(Rc::new).collect();
    let begun = runtime.now();
    let tasks: Vec<_> = files
        .iter()
        .map(|file| {
            file.set_file(state).unwrap();
            let file = Rc::clone(file);
            runtime.spawn(async move {
                for call in 0..FILE as u64 / bytes {
                    let (at, length) = (Bytes::new(call * bytes), Bytes::new(bytes));
                    let request = match write {
                        true => Request::write(at, Data::phantom(length)),
                        false => Request::read(at, Buffer::phantom(length)),
                    };
                    file.submit(request).await.result.unwrap();
                }
            })
        })
        .collect();
    runtime.block_on(async {
        for task in tasks {
            task.await;
        }
    });
    (runtime.now().since(begun).as_seconds(), machine.load())
}

fn on(system: &str, changes: &[(&str, &str)], drives: &[&str], write: bool, state: State, bytes: u64) -> (f64, Load) {
    let (runtime, machine) = machine(system, changes);
    program(&runtime, &machine, drives, write, state, bytes)
}

/// Seconds for each block of 8 KiB that a program on one Eagle reads.
fn read(changes: &[(&str, &str)]) -> f64 {
    let (took, _) = on("vax-780-sc780", changes, &["hp-0"], false, State::Laid, 8192);
    took / (FILE / 8192.0)
}

fn count(load: &Load, node: &str, what: &str) -> u64 {
    match load.reading(node, what) {
        Some(Reading::Count(count)) => count,
        other => panic!("{node} {what}: {other:?}"),
    }
}

#[test]
fn a_reader_in_time_gets_a_block_and_its_gap_after_each_other() {
    // 16 sectors and as many of gap; of 30 blocks of a cylinder the next cylinder costs one more turn.
    let period = 32.0 * SECTOR;
    let found = read(&FAST);
    assert!((period..period + TURN / 25.0).contains(&found), "{found} s for a block, at best {period}");
}

#[test]
fn a_search_lead_that_is_too_short_costs_a_turn_on_every_block() {
    // From the interrupt to the order 0.7 ms, and two sectors are 0.63 ms.
    let slow = [
        ("hp-driver.search-lead", "2"),
        ("hp-driver.search-window", "0"),
        ("hp-driver.instructions.search-interrupt", "1400"),
        ("host.instructions", "2 MIPS"),
        ("memory.copy-uncached", "10 GB/s"),
    ];
    let period = 32.0 * SECTOR;
    let found = read(&slow);
    assert!((found - (period + TURN)).abs() < 0.05 * TURN, "{found} s for a block, {} expected", period + TURN);
    let enough = [slow[1], slow[2], slow[3], slow[4], ("hp-driver.search-lead", "7")];
    assert!(read(&enough) < period + 0.2 * TURN, "seven sectors are 2.2 ms");
}

#[test]
fn the_fault_of_the_driver_leaves_out_searches_near_the_end_of_a_track() {
    let searches = |window: &str| {
        let changes = [FAST[0], FAST[1], FAST[2], ("hp-driver.search-window", window)];
        let (_, load) = on("vax-780-sc780", &changes, &["hp-0"], true, State::Laid, 8192);
        count(&load, "driver", "searches")
    };
    // Blocks end at the sectors 0, 16 and 32, and none of them within the last eight; a late one may.
    let (without, all) = (searches("0"), searches("48"));
    assert!(without >= 990, "every block is searched for: {without}");
    assert!(all < 100, "no search but on another cylinder: {all}");
}

#[test]
fn a_driver_that_looks_at_the_wanted_sector_leaves_out_searches_for_what_comes_in_time() {
    let searches = |test: &'static str, least: &'static str, most: &'static str| {
        let skip = [("hp-driver.skip", test), ("hp-driver.skip-least", least), ("hp-driver.skip-most", most)];
        let changes = [FAST[0], FAST[1], FAST[2], skip[0], skip[1], skip[2]];
        let (_, load) = on("vax-780-sc780", &changes, &["hp-0"], true, State::Laid, 8192);
        count(&load, "driver", "searches")
    };
    // The next block is the gap of 16 sectors ahead when one has passed.
    let (too_far, within) = (searches("in-time", "3", "8"), searches("in-time", "3", "20"));
    assert!(too_far >= 990, "16 sectors are more than eight: {too_far}");
    assert!(within < 100, "no search but on another cylinder: {within}");
    assert!(searches("in-time", "17", "20") >= 990, "it would be too late");
    assert!(searches("reversed", "3", "20") >= 990 && searches("reversed", "3", "8") < 100, "the other way round");
}

#[test]
fn a_massbus_moves_data_of_one_drive_at_a_time() {
    let changes = [FAST[0], FAST[1], FAST[2]];
    let (one, _) = on("vax-780-sc780", &changes, &["hp-0"], false, State::Laid, 8192);
    let (two, load) = on("vax-780-sc780", &changes, &["hp-0", "hp-1"], false, State::Laid, 8192);
    assert!(two > one * 1.2, "they are in each other's way: {two} s beside {one}");
    let moved = load.time("hp-0", "data").as_seconds() + load.time("hp-1", "data").as_seconds();
    assert!(moved <= load.time("adapter", "").as_seconds(), "both drives' data pass the one controller");
}

#[test]
fn a_uda50_moves_data_of_two_drives_at_once() {
    let (one, _) = on("vax-780-uda50", &FAST, &["ra-0"], false, State::Laid, 8192);
    let (two, _) = on("vax-780-uda50", &FAST, &["ra-0", "ra-1"], false, State::Laid, 8192);
    assert!(two < one * 1.5, "two files in {two} s, one in {one}");
}

#[test]
fn an_overrun_sector_comes_again_a_turn_later() {
    let late = [FAST[0], FAST[1], FAST[2], ("sc780.arbitration-lead", "3 us")];
    let (took, load) = on("vax-780-sc780", &late, &["hp-0"], false, State::Laid, 8192);
    let (without, _) = on("vax-780-sc780", &FAST, &["hp-0"], false, State::Laid, 8192);
    // exp(-3) of 16,384 sectors and more: 816, some of which pass again.
    let overruns = count(&load, "adapter", "overruns");
    assert!((700..1000).contains(&overruns), "{overruns}");
    let each = (took - without) / overruns as f64;
    assert!((each - TURN).abs() < 0.15 * TURN, "an overrun costs {each} s, a turn is {TURN}");
}

#[test]
fn a_new_file_costs_more_than_to_write_over_an_old_one() {
    let held = |state, bytes| {
        let (took, load) = on("vax-750-sc750", &[], &["hp-0"], true, state, bytes);
        (took, load.time("fs", "programs").as_seconds(), count(&load, "fs", "blocks written"))
    };
    let ((_, over, writes), (took, new, more)) = (held(State::Laid, 8192), held(State::Absent, 8192));
    assert!(new > over * 1.2, "allocation costs the processor: {new} s beside {over}");
    assert!(took >= new, "the processor is held for no longer than the program runs");
    assert!(writes >= 900 && more > writes, "maps, inodes and names are written, too: {more} beside {writes}");
    let (_, halves, _) = held(State::Absent, 4096);
    assert!(halves > new, "two calls for a block cost more than one: {halves} beside {new}");
}

#[test]
fn dma_slows_the_processor_down_as_much_as_it_shares_memory() {
    let held = |share| {
        // Hardly anything but instructions, while blocks are written: copies share memory in any case.
        let changes =
            [("host.memory-share", share), ("host.instructions", "0.5 MIPS"), ("memory.copy-uncached", "10 GB/s")];
        let (_, load) = on("vax-780-sc780", &changes, &["hp-0"], true, State::Laid, 8192);
        load.time("fs", "programs").as_seconds()
    };
    let (none, all) = (held("0 %"), held("100 %"));
    assert!(all > none * 1.03, "{all} s beside {none}");
}

#[test]
fn nothing_of_a_file_that_is_laid_out_is_in_the_cache() {
    let (_, load) = on("vax-780-sc780", &[], &["hp-0"], false, State::Laid, 8192);
    let reads = count(&load, "fs", "blocks read");
    assert!((1024..1040).contains(&reads), "each block once, and the indirect block: {reads}");
}

#[test]
fn a_file_system_stands_on_any_machine() {
    let folder = std::env::temp_dir().join(format!("arraylab-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../systems/nvme-24.toml")).unwrap();
    let layers = "[[node]]\nname = \"driver\"\npart = \"uda-driver\"\non = \"linux\"\n\n[[node]]\nname = \"fs\"\npart = \"4.2bsd-files\"\non = \"linux\"\n";
    let path = folder.join("mine.toml");
    std::fs::write(&path, format!("{text}\n{layers}")).unwrap();
    let kit = Kit::load(path.to_str().unwrap()).unwrap();
    let runtime = Runtime::simulated();
    let built = kit.build(&runtime, 1, &Trace::default());
    let machine = Rc::new(built.unwrap_or_else(|error| panic!("{error}")));
    std::fs::remove_dir_all(&folder).unwrap();
    let drive = machine.drives()[0].name.to_string();
    let (took, _) = program(&runtime, &machine, &[&drive], false, State::Laid, 8192);
    assert!(took < FILE / 100e6, "a flash drive reads 8 MiB in {took} s");
}

/// The processor's time is told once more by the file system, and is no second part that could limit.
#[test]
fn a_file_system_is_no_part_that_works() {
    let (_, load) = on("vax-780-sc780", &[], &["hp-0"], true, State::Absent, 8192);
    let worked: Vec<&str> = load.at_work().into_iter().map(|(node, _)| node).collect();
    assert!(worked.contains(&"host") && !worked.contains(&"fs"), "{worked:?}");
    assert!(load.utilizations().iter().any(|(label, used)| label == "fs programs" && used.get() > 0.9));
}

#[test]
fn calls_to_one_file_take_turns() {
    let (runtime, machine) = machine("vax-780-sc780", &[]);
    let file = Rc::new(entries(&machine, &["hp-0"], Way::Files).unwrap().remove(0));
    file.set_file(State::Absent).unwrap();
    let calls = (0..8).map(|call| {
        let file = Rc::clone(&file);
        runtime.spawn(async move {
            let request = Request::write(Bytes::kib(call), Data::phantom(Bytes::kib(1)));
            file.submit(request).await.result.expect("one of them makes the file, and the others find it");
        })
    });
    let calls: Vec<_> = calls.collect();
    runtime.block_on(async {
        for call in calls {
            call.await;
        }
    });
}

#[test]
fn what_makes_no_file_system_is_refused() {
    let refused = |key: &str, value: &str| {
        let mut kit = Kit::load("vax-780-sc780").unwrap();
        kit.set(key, value).unwrap();
        let runtime = Runtime::simulated();
        let built = kit.build(&runtime, 1, &Trace::default());
        match built {
            Err(error) => error.to_string(),
            Ok(machine) => match entries(&Rc::new(machine), &["hp-0"], Way::Files) {
                Err(error) => error.to_string(),
                Ok(_) => panic!("{key} = {value} is accepted"),
            },
        }
    };
    let holds = |said: String, word: &str| assert!(said.contains(word), "{said}");
    holds(refused("fs.block", "2 KiB"), "blocks are 4 KiB, 8 KiB");
    holds(refused("fs.fragment", "512 B"), "an eighth to all of a block");
    holds(refused("fs.rotational-delay", "2.5 ms"), "whole milliseconds");
    holds(refused("fs.cache", "16 KiB"), "at least eight blocks");
    holds(refused("fs.file", "12 KiB"), "whole blocks");
    holds(refused("fs.file", "512 MiB"), "make the file smaller");
    holds(refused("driver.queue", "elevator"), "cylinders");
    holds(refused("fs.format", "ext4"), "ffs, lfs");
    holds(refused("fs.longest-transfer", "100 B"), "whole sectors");
    holds(refused("eagle.speed", "1 rpm"), "60 to 60000 rpm");
    holds(refused("eagle.seek.full", "1 ms"), "single <= average <= full");
}

/// Writes of whole blocks in an order of its own, on one Eagle: how long each of them takes.
fn writes(changes: &[(&str, &str)], order: impl Fn(u64) -> u64, calls: u64) -> (f64, Load) {
    let (runtime, machine) = machine("vax-780-sc780", changes);
    let file = Rc::new(entries(&machine, &["hp-0"], Way::Files).unwrap().remove(0));
    let begun = runtime.now();
    runtime.block_on(async {
        for call in 0..calls {
            let at = Bytes::kib(8) * order(call);
            file.submit(Request::write(at, Data::phantom(Bytes::kib(8)))).await.result.unwrap();
        }
    });
    (runtime.now().since(begun).as_seconds() / calls as f64, machine.load())
}

/// A file of 1024 blocks.
const SCATTERED: fn(u64) -> u64 = |call| call * 611 % 1024;
/// A log, and a bus on which no sector is overrun, of which long transfers have many.
const LOG: [(&str, &str); 5] = [FAST[0], FAST[1], FAST[2], ("fs.format", "lfs"), ("sc780.arbitration-delay", "0 s")];

#[test]
fn a_log_writes_scattered_blocks_as_fast_as_blocks_in_order() {
    let ((scattered, _), (in_order, load)) = (writes(&LOG, SCATTERED, 1024), writes(&LOG, |call| call, 1024));
    assert!((scattered / in_order - 1.0).abs() < 0.02, "{scattered} s for a block, in order {in_order}");
    // 64 blocks at a time, with a summary and what leads to them: pieces of 126 sectors, of each of which the beginning
    // comes round once more, or twice where a cylinder or a segment begins.
    let (least, most) = (16.0 * SECTOR, (126.0 * SECTOR + 2.0 * TURN) * 16.0 / 126.0);
    assert!(
        (least..most).contains(&in_order),
        "{in_order} s for a block, {least} without any wait, {most} with two turns"
    );
    assert!(count(&load, "fs", "blocks read") == 0, "nothing is looked up before it is written");
    let (scattered, _) = writes(&FAST, SCATTERED, 1024);
    assert!(scattered > 1.5 * in_order, "a search for each block, and often a seek: {scattered} s");
}

/// Without a rotational delay the next block has begun to pass when it is asked for. The fast file system leaves the
/// reader time for that.
#[test]
fn a_log_read_block_by_block_loses_a_turn_on_each() {
    let slow = [("host.instructions", "1 MIPS"), LOG[3]];
    let period = 16.0 * SECTOR;
    let found = read(&slow);
    assert!((found - (period + TURN)).abs() < 0.1 * TURN, "{found} s for a block, {} expected", period + TURN);
    assert!(read(&slow[..1]) < found);
}

/// With a buffer the reader that is too late for each block waits for the first of a track only: about a turn for the
/// three blocks of a track, and its own time for each.
#[test]
fn a_track_buffer_saves_the_turns_of_a_reader_that_is_too_late() {
    let slow = [("host.instructions", "1 MIPS"), LOG[3]];
    let buffered = [slow[0], slow[1], ("adapter.track-buffer", "true")];
    let (took, load) = on("vax-780-sc780", &buffered, &["hp-0"], false, State::Laid, 8192);
    let (found, without) = (took / (FILE / 8192.0), read(&slow));
    let own = load.time("host", "").as_seconds() / (FILE / 8192.0);
    println!("{without} s for a block without, {found} s with; {own} s of processor time");
    assert!(found >= TURN / 3.0 && found < TURN / 3.0 + own + 4.0 * SECTOR, "{found} s for a block, {own} s of it own");
    assert!(found < 0.7 * without, "{found} s, {without} s without");
    // Two of three blocks are there, and the rest of the third that the heads came down in.
    let sectors = (FILE / 512.0) as u64;
    let hits = count(&load, "adapter", "sectors from the buffer");
    assert!((sectors / 2..sectors).contains(&hits), "{hits} of {sectors} sectors");
}

/// Writes go to the medium, and what is written is not found in the buffer as it was before.
#[test]
fn a_track_buffer_is_none_for_writes() {
    let buffer = [LOG[3], ("adapter.track-buffer", "true")];
    let ffs = |changes: &[(&str, &str)]| on("vax-780-sc780", changes, &["hp-0"], true, State::Laid, 8192);
    let ((with, load), (without, _)) = (ffs(&buffer[1..]), ffs(&[]));
    assert!((with / without - 1.0).abs() < 0.01, "{with} s and {without} s");
    let hits = count(&load, "adapter", "sectors from the buffer");
    assert!(hits < 32, "only the inode and its like are read: {hits} sectors of {}", FILE / 512.0);
    // Sectors that came too late for the bus are in the buffer, and are not overrun.
    let late = [("sc780.arbitration-lead", "2 us"), ("sc780.arbitration-delay", "1 us"), buffer[1]];
    let (_, plain) = on("vax-780-sc780", &late[..2], &["hp-0"], false, State::Laid, 8192);
    let (_, buffered) = on("vax-780-sc780", &late, &["hp-0"], false, State::Laid, 8192);
    let [plain, buffered] = [plain, buffered].map(|load| count(&load, "adapter", "overruns"));
    assert!(plain > 100 && buffered * 10 < plain, "{plain} without; {buffered} with, of the inode's writes alone");
}

#[test]
fn what_waits_for_the_log_is_read_from_memory() {
    let (runtime, machine) = machine("vax-780-sc780", &LOG);
    let file = Rc::new(entries(&machine, &["hp-0"], Way::Files).unwrap().remove(0));
    file.set_file(State::Absent).unwrap();
    runtime.block_on(async {
        for block in 0..32 {
            let at = Bytes::kib(8) * block;
            file.submit(Request::write(at, Data::phantom(Bytes::kib(8)))).await.result.unwrap();
        }
        for block in 0..32 {
            file.submit(Request::read(Bytes::kib(8) * block, Buffer::phantom(Bytes::kib(8)))).await.result.unwrap();
        }
    });
    let load = machine.load();
    assert_eq!((count(&load, "fs", "blocks read"), count(&load, "fs", "cache hits")), (0, 32));
    assert_eq!(load.time("hp-0", "data").as_seconds(), 0.0, "256 KiB are half a segment");
}

/// A file that takes three quarters of its disk, written over and over: what lives is copied, at the disk's expense.
#[test]
fn a_log_that_is_full_of_a_file_pays_for_its_cleaning() {
    let small = [LOG[0], LOG[1], LOG[2], LOG[3], LOG[4], ("eagle.cylinders", "40")];
    let (first, _) = writes(&small, SCATTERED, 512);
    let (later, load) = writes(&small, SCATTERED, 4096);
    assert!(later > 1.2 * first, "{later} s for a block, {first} before cleaning");
    assert!(load.time("hp-0", "data").as_seconds() > 0.0);
}
