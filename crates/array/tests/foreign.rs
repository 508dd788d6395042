//! Members that anybody may have written: an array that is opened from them serves, or says why not; it never panics.
//!
//! Each case takes sound members of some array and changes words of their metadata, with the checksums of superblocks
//! made good, as a program with a fault or a stranger would. What opens is then used in every way.
//!
//! `ARRAYLAB_FOREIGN=A..B` goes through other cases than those of each test run.

use crate::common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;

use array::geometry::{Copies, DoubleRotation, Level, Rotation};
use array::md::{Consistency, SUPERBLOCK_AT};
use array::{Array, MemberState, OpenOptions, Repair, format};
use device::{Buffer, Data, Device, MemoryDevice, Request, Shape};
use futures_util::future::{Either, select};
use rand::RngExt;
use runtime::{Random, Runtime};
use units::{Bytes, Duration};

const CHUNK: Bytes = Bytes::kib(4);
const SIZE: Bytes = Bytes::kib(3 * 1024 + 64);

type Disk = Rc<MemoryDevice>;

/// Words that make trouble, beside those that chance makes.
const WORDS: [u64; 12] = [0, 1, 2, 3, 4, 8, 127, 0x7fff_ffff, 0xffff_fffe, 0xffff_ffff, (1 << 54) - 1, u64::MAX];

fn pick<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.random_range(0..of.len())]
}

fn kind(random: &mut Random) -> (Level, usize, Consistency) {
    let five = Level::Raid5(Rotation::LeftSymmetric);
    let consistency = pick(random, &[Consistency::Resync, Consistency::Bitmap]);
    match random.random_range(0..9) {
        0 => (Level::Raid1, 2, consistency),
        1 => (Level::Raid4, 3, pick(random, &[consistency, Consistency::Ppl])),
        2 => (five, 3, Consistency::Ppl),
        3 => (five, 4, consistency),
        4 => {
            let consistency = pick(random, &[consistency, Consistency::Ppl]);
            (Level::Raid6(DoubleRotation::Together(Rotation::LeftSymmetric)), 4, consistency)
        }
        5 => (Level::Raid10(Copies::near(2)), 4, consistency),
        6 => (Level::Raid10(Copies::far(2)), 3, consistency),
        7 => (Level::Linear, 2, Consistency::Resync),
        _ => (five, 3, Consistency::Journal),
    }
}

fn read(runtime: &Runtime, disk: &Disk, at: Bytes, length: Bytes) -> Vec<u8> {
    let reply = runtime.block_on(disk.submit(Request::read(at, Buffer::zeroed(length))));
    reply.buffer.expect("a read gives its buffer back").bytes().expect("it is real").to_vec()
}

fn data(bytes: &[u8]) -> Data {
    let mut buffer = Buffer::zeroed(Bytes::new(bytes.len() as u64));
    buffer.bytes_mut().expect("it is real").copy_from_slice(bytes);
    buffer.freeze()
}

fn put(runtime: &Runtime, disk: &Disk, at: Bytes, bytes: &[u8]) {
    runtime.block_on(disk.submit(Request::write(at, data(bytes)))).result.expect("memory does not fail");
}

/// Changes a few words of a superblock, and makes its checksum good.
fn change(random: &mut Random, bytes: &mut [u8]) {
    for _ in 0..1 + random.random_range(0..3) {
        let width = pick(random, &[1, 2, 4, 8]);
        // Behind the magic number and the version: fields mostly, roles now and then.
        let end = if random.random_range(0..4) == 0 { 300 } else { 220 };
        let at = 8 + random.random_range(0..end) / width * width;
        let before = bytes[at..at + width].iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        let word = match random.random_range(0..3) {
            0 => pick(random, &WORDS),
            1 => before ^ 1 << random.random_range(0..8 * width as u64),
            _ => random.random_range(0..1 << 20),
        };
        bytes[at..at + width].copy_from_slice(&word.to_le_bytes()[..width]);
    }
    let roles = u32::from_le_bytes(bytes[220..224].try_into().expect("four bytes")) as usize;
    let length = 256 + 2 * roles.min(1920);
    bytes[216..220].fill(0);
    let words = bytes[..length].chunks(4);
    let sum: u64 = words.map(|word| word.iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))).sum();
    bytes[216..220].copy_from_slice(&(sum as u32).wrapping_add((sum >> 32) as u32).to_le_bytes());
}

/// Sound members that have been written, as a power cut or a stop left them; the journal, if there is one, is the last.
fn members(
    runtime: &Runtime,
    random: &mut Random,
    (level, members, consistency): (Level, usize, Consistency),
) -> Vec<Disk> {
    let superblocks = common::superblocks((level, members, consistency), CHUNK, SIZE, 1);
    let disk = || Rc::new(MemoryDevice::new(runtime, Shape::new("disk", SIZE)));
    let disks: Vec<Disk> = superblocks.iter().map(|_| disk()).collect();
    runtime.block_on(format(&disks, &superblocks)).expect("memory does not fail");
    let array =
        runtime.block_on(Array::open(runtime, "array", disks.clone(), OpenOptions::default())).expect("it is sound");
    let wrote = array.submit(Request::write(Bytes::ZERO, data(&[7; 40 * 512])));
    runtime.block_on(wrote).result.expect("memory does not fail");
    if random.random_range(0..2) == 0 {
        runtime.block_on(array.stop()).expect("memory does not fail");
    }
    disks
}

/// Does with an array whatever its users do. It may refuse all of it.
async fn use_it(runtime: &Runtime, array: &Array<Disk>, spare: Disk) {
    let size = array.geometry().size();
    for at in [Bytes::ZERO, size.round_down(Bytes::SECTOR) / 2, size] {
        let at = at.round_down(array.shape().logical_block);
        let length = (size - at).min(Bytes::kib(24)).round_down(array.shape().logical_block);
        let _ = array.submit(Request::read(at, Buffer::zeroed(length))).await;
        let _ = array.submit(Request::write(at, data(&vec![3; length.as_usize()]))).await;
    }
    let _ = array.submit(Request::flush()).await;
    let _ = array.scrub(Repair::WhatIsWrong).await;
    let _ = array.resync().await;
    for (member, _) in array.returning() {
        let _ = array.bring_back(member).await;
    }
    let failed = (0..array.geometry().members()).find(|member| array.state(*member) == MemberState::Failed);
    if let (Some(member), Some(layout)) = (failed, array.member_layout()) {
        let room = layout.data_offset + layout.used <= SIZE;
        if room {
            let _ = array.rebuild(member, spare, layout.data_offset, array::md::Uuid([9; 16])).await;
        }
    }
    // As long as whoever serves it lets it.
    let for_ten_seconds = runtime.sleep(Duration::seconds(10));
    let ended = matches!(select(pin!(array.tend()), pin!(for_ten_seconds)).await, Either::Left(_));
    assert!(!ended, "it is tended for ever");
    let _ = array.stop().await;
}

/// One case; says how far it came.
fn case(seed: u64) -> &'static str {
    let (runtime, mut random) = (Runtime::simulated(), Random::named(seed, "foreign"));
    let random = &mut random;
    let kind = kind(random);
    let disks = members(&runtime, random, kind);
    let everywhere = random.random_range(0..3) == 0;
    let seed = random.random_range(0..u64::MAX);
    let only = random.random_range(0..disks.len());
    for (number, disk) in disks.iter().enumerate() {
        if !everywhere && number != only {
            continue;
        }
        let mut bytes = read(&runtime, disk, SUPERBLOCK_AT, Bytes::kib(4));
        // The same change on all of them, or each its own.
        let mut own = if everywhere { Random::named(seed, "same") } else { Random::named(seed ^ number as u64, "own") };
        change(&mut own, &mut bytes);
        put(&runtime, disk, SUPERBLOCK_AT, &bytes);
        // What lies around it: bitmap, logs, bad blocks.
        for _ in 0..random.random_range(0..3) {
            let at = Bytes::SECTOR * (16 + random.random_range(0..2030));
            let mut bytes = read(&runtime, disk, at, Bytes::SECTOR);
            let place = random.random_range(0..512);
            bytes[place] ^= 1 << random.random_range(0..8);
            put(&runtime, disk, at, &bytes);
        }
    }
    let options = OpenOptions { force_dirty_degraded: random.random_range(0..2) == 0 };
    match runtime.block_on(Array::open(&runtime, "array", disks.clone(), options)) {
        Err(error) => {
            assert!(!error.to_string().is_empty());
            "refused"
        }
        Ok(array) => {
            let spare = Rc::new(MemoryDevice::new(&runtime, Shape::new("spare", SIZE)));
            runtime.block_on(use_it(&runtime, &array, spare));
            // And what it has written is read again, or refused.
            drop(array);
            let _ = runtime.block_on(Array::open(&runtime, "array", disks, options));
            "opened"
        }
    }
}

#[test]
fn an_array_of_foreign_members_serves_or_says_why_not() {
    let range = std::env::var("ARRAYLAB_FOREIGN").unwrap_or_else(|_| "0..800".to_owned());
    let (from, to) = range.split_once("..").expect("ARRAYLAB_FOREIGN is a range of seeds, such as 0..800");
    let seeds = from.parse::<u64>().expect("a number")..to.parse().expect("a number");
    let (mut opened, mut broken) = (0, Vec::new());
    for seed in seeds.clone() {
        match catch_unwind(AssertUnwindSafe(|| case(seed))) {
            Ok(how) => opened += u64::from(how == "opened"),
            Err(_) => broken.push(seed),
        }
    }
    println!("{opened} of {} opened", seeds.end - seeds.start);
    let first = &broken[..broken.len().min(20)];
    assert!(broken.is_empty(), "{} seeds panic, such as {first:?}", broken.len());
    let some = (seeds.end - seeds.start) / 10;
    assert!(opened > some && seeds.end - seeds.start - opened > some, "cases are of both kinds");
}
