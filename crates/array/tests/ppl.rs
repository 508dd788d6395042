//! The partial parity log: what it may say, and of whom.

use crate::common;

use std::pin::pin;
use std::rc::Rc;

use array::geometry::{DoubleRotation, Level, Rotation};
use array::md::{Consistency, Features, Resync, SUPERBLOCK_AT, Superblock, Uuid};
use array::{Array, MemberState, OpenOptions, Repair, format};
use common::{rig, superblocks};
use device::filter::{Delay, Effect, Faulty, Latency, Rule};
use device::{Buffer, Data, Device, MemoryDevice, Operation, Request, Shape};
use futures_util::future::{Either, join_all, select};
use rand::RngExt;
use runtime::{Random, Runtime};
use units::{Bytes, Duration};

type Disk = Rc<MemoryDevice>;
const CHUNK: Bytes = Bytes::kib(4);
const SIZE: Bytes = Bytes::mib(3);
const FIVE: Level = Level::Raid5(Rotation::LeftSymmetric);
const SIX: Level = Level::Raid6(DoubleRotation::Together(Rotation::LeftSymmetric));

fn disks(runtime: &Runtime, case: (Level, usize, Consistency)) -> Vec<Disk> {
    let superblocks = superblocks(case, CHUNK, SIZE, 1);
    let disk = |_| Rc::new(MemoryDevice::new(runtime, Shape::new("disk", SIZE)));
    let disks: Vec<Disk> = superblocks.iter().map(disk).collect();
    runtime.block_on(format(&disks, &superblocks)).unwrap();
    disks
}

fn open(runtime: &Runtime, disks: &[Disk]) -> Result<Array<Disk>, String> {
    let opened = runtime.block_on(Array::open(runtime, "array", disks.to_vec(), OpenOptions::default()));
    opened.map_err(|error| error.to_string())
}

fn filled(fill: u8) -> Data {
    let mut buffer = Buffer::zeroed(CHUNK);
    buffer.bytes_mut().unwrap().fill(fill);
    buffer.freeze()
}

/// Writes a data chunk of a row.
fn write(runtime: &Runtime, array: &Array<Disk>, row: u64, index: u64, fill: u8) {
    let at = array.geometry().stripe_size() * row + CHUNK * index;
    runtime.block_on(array.submit(Request::write(at, filled(fill)))).result.unwrap();
}

fn chunk(runtime: &Runtime, array: &Array<Disk>, row: u64, index: u64) -> u8 {
    let at = array.geometry().stripe_size() * row + CHUNK * index;
    let reply = runtime.block_on(array.submit(Request::read(at, Buffer::zeroed(CHUNK))));
    reply.result.unwrap();
    let buffer = reply.buffer.unwrap();
    let bytes = buffer.bytes().unwrap();
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a mixture in row {row}, chunk {index}");
    bytes[0]
}

#[test]
fn a_device_that_comes_back_brings_no_old_log_with_it() {
    let runtime = Runtime::simulated();
    let disks = disks(&runtime, (FIVE, 4, Consistency::Ppl));
    // Rows whose parity is on member 1.
    let rows = || (2..80).step_by(4);
    let array = open(&runtime, &disks).unwrap();
    rows().for_each(|row| write(&runtime, &array, row, 0, 1));
    runtime.block_on(array.stop()).unwrap();
    // It is away while other chunks of these rows change.
    let others = [disks[0].clone(), disks[2].clone(), disks[3].clone()];
    let array = open(&runtime, &others).unwrap();
    rows().for_each(|row| write(&runtime, &array, row, 1, 2));
    runtime.block_on(array.stop()).unwrap();
    // It is filled again, and its log begins with one entry, behind which the old ones would go on.
    let array = open(&runtime, &others).unwrap();
    let data_offset = superblocks((FIVE, 4, Consistency::Ppl), CHUNK, SIZE, 1)[0].data_offset;
    runtime.block_on(array.rebuild(1, disks[1].clone(), data_offset, Uuid([9; 16]))).unwrap();
    write(&runtime, &array, 2, 0, 3);
    drop(array);
    // Member 3 has the chunks that changed, and is lost with the power.
    let array = open(&runtime, &disks[..3]).unwrap();
    assert!(rows().all(|row| chunk(&runtime, &array, row, 1) == 2), "computed by an entry of before");
}

fn superblock(runtime: &Runtime, disk: &Disk) -> Superblock {
    let reply = runtime.block_on(disk.submit(Request::read(SUPERBLOCK_AT, Buffer::zeroed(CHUNK))));
    Superblock::parse(reply.buffer.unwrap().bytes().unwrap()).unwrap()
}

/// As md leaves members that it has written to: it counts on, and knows of no log.
fn used_by_md(runtime: &Runtime, disks: &[Disk], resync: Resync) {
    for disk in disks {
        let mut superblock = superblock(runtime, disk);
        assert!(!superblock.features.has(Features::PPL) && !superblock.features.has(Features::PPLS));
        superblock.events += 1;
        superblock.recovery = 0;
        superblock.resync = resync;
        let mut bytes = Buffer::zeroed(CHUNK);
        bytes.bytes_mut().unwrap().copy_from_slice(&superblock.to_bytes());
        runtime.block_on(disk.submit(Request::write(SUPERBLOCK_AT, bytes.freeze()))).result.unwrap();
    }
}

#[test]
fn an_array_with_two_parities_opens_after_a_cut_without_any_two_members() {
    let runtime = Runtime::simulated();
    for first in 0..5 {
        for second in 0..first {
            let disks = disks(&runtime, (SIX, 5, Consistency::Ppl));
            let array = open(&runtime, &disks).unwrap();
            for row in 0..20 {
                (0..3).for_each(|index| write(&runtime, &array, row, index, 1 + row as u8 * 3 + index as u8));
            }
            drop(array);
            let left: Vec<Disk> =
                (0..5).filter(|it| ![first, second].contains(it)).map(|it| disks[it].clone()).collect();
            let array = open(&runtime, &left).unwrap();
            let holds = |row, index| chunk(&runtime, &array, row, index) == 1 + row as u8 * 3 + index as u8;
            assert!((0..20).all(|row| (0..3).all(|index| holds(row, index))), "without {second} and {first}");
        }
    }
}

#[test]
fn a_log_that_somebody_wrote_past_is_of_another_time() {
    for (level, members) in [(SIX, 5), (Level::Raid4, 4)] {
        let runtime = Runtime::simulated();
        let disks = disks(&runtime, (level, members, Consistency::Ppl));
        let array = open(&runtime, &disks).unwrap();
        write(&runtime, &array, 0, 0, 1);
        runtime.block_on(array.stop()).unwrap();
        drop(array);
        used_by_md(&runtime, &disks, Resync::From(Bytes::ZERO));
        let refused = open(&runtime, &disks[1..]).map(|_| ()).unwrap_err();
        assert!(refused.contains("was not stopped"), "{level}: {refused}");
        // All of them are there: parity is made to fit, and then the log counts again.
        let array = open(&runtime, &disks).unwrap();
        assert!(array.needs_resync() && runtime.block_on(array.resync()).unwrap());
        write(&runtime, &array, 1, 1, 7);
        drop(array);
        let array = open(&runtime, &disks[1..]).unwrap();
        assert_eq!((chunk(&runtime, &array, 0, 0), chunk(&runtime, &array, 1, 1)), (1, 7), "{level}");
    }
}

#[test]
fn an_array_that_somebody_stopped_goes_on_with_a_log_of_its_own() {
    let runtime = Runtime::simulated();
    let disks = disks(&runtime, (SIX, 5, Consistency::Ppl));
    let array = open(&runtime, &disks).unwrap();
    (0..9).for_each(|row| write(&runtime, &array, row, 0, 1));
    runtime.block_on(array.stop()).unwrap();
    drop(array);
    used_by_md(&runtime, &disks, Resync::Clean);
    let array = open(&runtime, &disks).unwrap();
    assert!(!array.needs_resync());
    write(&runtime, &array, 3, 1, 2);
    drop(array);
    let array = open(&runtime, &disks[..3]).unwrap();
    assert!((0..9).all(|row| chunk(&runtime, &array, row, 0) == 1) && chunk(&runtime, &array, 3, 1) == 2);
}

/// A read, the logs of both parities side by side, and data and parities: three requests one after the other, and one
/// more for those that found the log busy with others'. Each alone in the logs of two members, they would take nine.
#[test]
fn writes_to_many_rows_wait_for_their_members_and_not_for_each_other() {
    const LATENCY: Duration = Duration::micros(100);
    let runtime = Runtime::simulated();
    let superblocks = superblocks((SIX, 8, Consistency::Ppl), CHUNK, SIZE, 1);
    let disk = |_| {
        let memory = MemoryDevice::new(&runtime, Shape::new("disk", SIZE));
        Rc::new(Delay::new(&runtime, memory, Latency::Fixed(LATENCY), 1))
    };
    let disks: Vec<_> = superblocks.iter().map(disk).collect();
    runtime.block_on(format(&disks, &superblocks)).unwrap();
    let array = runtime.block_on(Array::open(&runtime, "array", disks, OpenOptions::default())).unwrap();
    let row = array.geometry().stripe_size();
    let write = |row_number: u64| array.submit(Request::write(row * row_number, filled(1)));
    // Marks of the bitmap, and the word that the array is dirty.
    runtime.block_on(join_all((0..200).map(write)));
    let (begin, rounds) = (runtime.now(), 20);
    for round in 0..rounds {
        let writes = (0..32).map(|number| write((round * 37 + number * 5) % 200));
        assert!(runtime.block_on(join_all(writes)).into_iter().all(|reply| reply.result.is_ok()));
    }
    let took = runtime.now().since(begin).as_millis() / (rounds as f64 * LATENCY.as_millis());
    assert!(took < 4.1, "32 writes take {took} requests one after the other");
}

/// More members go than the level survives, one after the other, under writes for which the logs are short, and come
/// back. What was torn by then is in the newest header of each, whatever was still sent to those that were left.
#[test]
fn a_broken_array_forgets_nothing_that_is_torn() {
    const SECTORS: u32 = 48;
    let mut complete = 0;
    // The last two forgot something once.
    for seed in (0..100).chain([2077, 3276]) {
        let runtime = Runtime::simulated();
        let mut superblocks = superblocks((SIX, 4, Consistency::Ppl), CHUNK, SIZE, 1);
        // Where the size of the log is noted (`md/note.rs`).
        superblocks.iter_mut().for_each(|it| it.reshape[20..24].copy_from_slice(&SECTORS.to_le_bytes()));
        let disk = |number: usize| {
            let memory = MemoryDevice::new(&runtime, Shape::new("disk", SIZE));
            let latency = Latency::Uniform(Duration::micros(5), Duration::micros(100));
            let delay = Delay::new(&runtime, memory, latency, seed * 4 + number as u64);
            Rc::new(Faulty::new(&runtime, delay, 1))
        };
        let disks: Vec<_> = (0..4).map(disk).collect();
        runtime.block_on(format(&disks, &superblocks)).unwrap();
        let open = || runtime.block_on(Array::open(&runtime, "array", disks.clone(), OpenOptions::default())).unwrap();
        let array = open();
        let mut random = Random::named(seed, "outage");
        let sectors = array.geometry().stripe_size() * 5 / Bytes::SECTOR;
        let clients = (0..16).map(|number| {
            let mut random = Random::named(seed, &format!("client {number}"));
            let array = &array;
            async move {
                loop {
                    let from = random.random_range(0..sectors);
                    let count = random.random_range(1..=(sectors - from).min(10));
                    let data = filled(random.random()).slice(Bytes::ZERO, (Bytes::SECTOR * count).min(CHUNK));
                    if array.submit(Request::write(Bytes::SECTOR * from, data)).await.result.is_err() {
                        return;
                    }
                }
            }
        });
        let begins = 1000 + random.random_range(0..1000);
        let leave = disks.iter().map(|disk| {
            let (after, runtime) = (Duration::micros(begins + random.random_range(0..150)), &runtime);
            async move {
                runtime.sleep(after).await;
                disk.add(Rule::new(Effect::Vanish));
            }
        });
        let leave: Vec<_> = leave.collect();
        runtime.block_on(async { futures_util::join!(join_all(clients), join_all(leave)) });
        drop(array);
        for disk in &disks {
            disk.clear_rules();
            disk.resume();
        }
        let array = open();
        // That one had failed may have been recorded before there were too many.
        if !array.is_complete() {
            continue;
        }
        complete += 1;
        assert!(runtime.block_on(array.resync()).unwrap(), "seed {seed}");
        let scrubbed = runtime.block_on(array.scrub(Repair::No)).unwrap();
        assert_eq!(scrubbed.mismatches, 0, "seed {seed}: {:?}", scrubbed.misfits);
    }
    assert!(complete > 20, "{complete} came back whole");
}

/// A chunk on a member that is missing was being written: its new bytes are in P, and not yet in Q.
#[test]
fn q_follows_p_where_the_chunk_that_was_written_is_missing() {
    let runtime = Runtime::simulated();
    let disks = disks(&runtime, (SIX, 5, Consistency::Ppl));
    let array = open(&runtime, &disks).unwrap();
    (0..3).for_each(|index| write(&runtime, &array, 0, index, 1 + index as u8));
    runtime.block_on(array.stop()).unwrap();
    let geometry = array.geometry().clone();
    drop(array);
    let (data_offset, stripe) = (superblock(&runtime, &disks[0]).data_offset, geometry.stripe(0));
    let (p, q) = (stripe.p(), stripe.q().unwrap());
    let lost = stripe.data_member(0);
    let left: Vec<Disk> = (0..5).filter(|it| *it != lost).map(|it| disks[it].clone()).collect();
    let array = open(&runtime, &left).unwrap();
    let read = |member: usize| {
        let request = Request::read(data_offset, Buffer::zeroed(CHUNK));
        runtime.block_on(disks[member].submit(request)).buffer.unwrap().freeze()
    };
    let before = read(q);
    write(&runtime, &array, 0, 0, 9);
    assert!(read(q).bytes() != before.bytes());
    drop(array);
    // The power went before Q was on the medium.
    runtime.block_on(disks[q].submit(Request::write(data_offset, before))).result.unwrap();
    let array = open(&runtime, &left).unwrap();
    assert_eq!(chunk(&runtime, &array, 0, 0), 9);
    // With P it is computed as before, and with Q alone, too.
    array.fail(p);
    assert_eq!([0, 1, 2].map(|index| chunk(&runtime, &array, 0, index)), [9, 2, 3]);
    drop(array);
    let array = open(&runtime, &left).unwrap();
    runtime.block_on(array.rebuild(lost, disks[lost].clone(), data_offset, Uuid([7; 16]))).unwrap();
    assert_eq!(array.state(lost), MemberState::Active);
    assert_eq!(runtime.block_on(array.scrub(Repair::No)).unwrap().mismatches, 0);
}

/// The power cut takes a member that is being filled back to the mark that was last recorded, here to the beginning:
/// what it held by then is computed.
#[test]
fn a_write_beside_a_rebuild_is_old_or_new_in_each_chunk_after_a_cut() {
    let mut torn = 0;
    for (level, members) in [(FIVE, 4), (Level::Raid3, 4), (SIX, 5)] {
        for seed in 0..60 {
            let runtime = Runtime::simulated();
            let superblocks = superblocks((level, members, Consistency::Ppl), CHUNK, SIZE, 1);
            let disk = |number: usize| {
                let memory = MemoryDevice::new(&runtime, Shape::new("disk", SIZE));
                let latency = Latency::Uniform(Duration::micros(5), Duration::micros(100));
                Rc::new(Delay::new(&runtime, memory, latency, seed * 8 + number as u64))
            };
            let mut disks: Vec<_> = (0..members).map(disk).collect();
            runtime.block_on(format(&disks, &superblocks)).unwrap();
            let open = |disks: &[_]| {
                let opened = Array::open(&runtime, "array", disks.to_vec(), OpenOptions::default());
                runtime.block_on(opened).unwrap_or_else(|error| panic!("{level}, seed {seed}: {error}"))
            };
            let array = open(&disks);
            let row = array.geometry().stripe_size();
            // No sum of some of them is another one.
            let row_of = |first: u8| -> Vec<u8> {
                let chunks = (0..row / CHUNK).map(|index| filled(first << index));
                chunks.flat_map(|chunk| chunk.bytes().unwrap().to_vec()).collect()
            };
            let (old, new) = (row_of(0x01), row_of(0x10));
            let write = |bytes: &[u8]| {
                let mut buffer = Buffer::zeroed(row);
                buffer.bytes_mut().unwrap().copy_from_slice(bytes);
                array.submit(Request::write(Bytes::ZERO, buffer.freeze()))
            };
            runtime.block_on(write(&old)).result.unwrap();
            let member = array.geometry().stripe(0).data_member(1);
            array.fail(member);
            disks[member] = disk(members);
            let offset = superblocks[0].data_offset;
            let mut answered = false;
            runtime.block_on(async {
                let rebuild = pin!(array.rebuild(member, disks[member].clone(), offset, Uuid([7; 16])));
                let client = async {
                    while !matches!(array.state(member), MemberState::Rebuilding(upto) if upto >= CHUNK) {
                        runtime.sleep(Duration::micros(10)).await;
                    }
                    // Some of the log, data and parity are on their way for as long.
                    let cut = pin!(runtime.sleep(Duration::micros(seed * 15)));
                    answered = matches!(select(pin!(write(&new)), cut).await, Either::Left(_));
                };
                assert!(matches!(select(rebuild, pin!(client)).await, Either::Right(_)), "it is still being filled");
            });
            drop(array);
            let array = open(&disks);
            assert_eq!(array.state(member), MemberState::Rebuilding(Bytes::ZERO), "no mark was recorded");
            let reply = runtime.block_on(array.submit(Request::read(Bytes::ZERO, Buffer::zeroed(row))));
            reply.result.unwrap();
            let buffer = reply.buffer.unwrap();
            let found = buffer.bytes().unwrap();
            let is = |other: &[u8]| found.iter().zip(other).filter(|(found, other)| found == other).count();
            assert_eq!(is(&old) + is(&new), found.len(), "{level}, seed {seed}: neither old nor new");
            assert!(!answered || found == new, "{level}, seed {seed}: an answered write is lost");
            torn += u64::from(found != old && found != new);
        }
    }
    assert!(torn > 5, "{torn} cuts met the write half-way");
}

/// A resync ends while a row that it has passed is written, in no log, and other writes come. Their log entries would
/// say that all else fits.
#[test]
fn no_header_says_that_parity_fits_while_writes_are_under_way_that_are_in_no_log() {
    for (level, members) in [(FIVE, 4), (Level::Raid4, 3), (SIX, 5)] {
        let runtime = Runtime::simulated();
        let disks = rig::disks(&runtime, (level, members, Consistency::Ppl));
        // A resync that was ended: what lies behind the mark may not fit, and bitmaps are of another time.
        for disk in &disks {
            rig::edit(&runtime, disk, |it| (it.resync, it.events) = (Resync::From(CHUNK * 2), it.events + 4));
        }
        let array = rig::open(&runtime, &disks);
        assert!(array.needs_resync());
        let (stripe, data_offset) = (array.geometry().stripe(3), rig::data_offset(&array));
        let torn = data_offset + CHUNK * 3..data_offset + CHUNK * 4;
        let at = |row: u64| array.geometry().stripe_size() * row;
        let submit = |at: Bytes, fill: u8| {
            let array = Rc::clone(&array);
            runtime.spawn(async move { array.submit(Request::write(at, filled(fill))).await.result })
        };
        let of_array = Rc::clone(&array);
        let resync = runtime.spawn(async move { of_array.resync().await });
        let wait = |micros| runtime.block_on(runtime.sleep(Duration::micros(micros)));
        wait(2_000);
        // Its parity is written, and its data are on their way.
        let slow = &disks[stripe.data_member(0)];
        slow.add(Rule::new(Effect::Stall(Duration::seconds(10))).on(Operation::Write).within(torn));
        let first = submit(at(3), 5);
        wait(1_000_000);
        assert_eq!((resync.take(), first.take()), (None, None), "{level}");
        // With parity on every member: one log that is no log would tell.
        let later: Vec<_> = (40..40 + members as u64).map(|row| submit(at(row), 7)).collect();
        wait(1_000_000);

        // As a power cut would leave it, and the member of another chunk of that row is gone.
        let left: Vec<Disk> = (0..members)
            .filter(|member| *member != stripe.data_member(1))
            .map(|member| Rc::new(disks[member].inner().inner().snapshot(&runtime)))
            .collect();
        match open(&runtime, &left) {
            Ok(array) => assert_eq!(chunk(&runtime, &array, 3, 1), 0, "{level}: computed from what does not fit"),
            Err(refused) => assert!(refused.contains("was not stopped"), "{level}: {refused}"),
        }

        wait(10_000_000);
        assert!([first].iter().chain(&later).all(|write| write.take() == Some(Ok(()))), "{level}");
        assert_eq!(resync.take(), Some(Ok(true)), "{level}");
        rig::fits(&runtime, &array);
    }
}
