//! Superblocks with right checksums whose offsets point anywhere: the array is refused before anything is written, or
//! every byte that is written lies in an area of its own, and what was stored is as it was.
//!
//! Each seed makes a sound array, fills it, and changes one to three of the fields that place something, on one member
//! or on all. What is written is seen by the device; which areas there are is computed here from the raw bytes, not by
//! the code that is tested.
//!
//! `ARRAYLAB_AREAS=A..B` goes through other seeds.

use crate::common;

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use array::geometry::{Copies, DoubleRotation, Level, Rotation};
use array::md::{Consistency, SUPERBLOCK_AT, Superblock};
use array::{Array, MemberState, OpenError, OpenOptions, add_checksums, checksum_area, format};
use common::image::{data, read};
use device::{Buffer, Device, MemoryDevice, Operation, Reply, Request, Shape};
use rand::RngExt;
use runtime::{Random, Runtime};
use units::Bytes;

const CHUNK: Bytes = Bytes::kib(4);
/// 2 MiB at most before the data, 256 KiB of data, and room behind them.
const SIZE: Bytes = Bytes::kib(2048 + 256 + 64);
const USED: Bytes = Bytes::kib(2048 + 256);

/// Memory that sees what is written to it, and may put what belongs into one place into another.
struct Watched {
    memory: MemoryDevice,
    writes: RefCell<Vec<Range<u64>>>,
    /// A planted fault: writes that begin here go there.
    bent: Cell<Option<(Bytes, Bytes)>>,
}

impl Device for Watched {
    fn shape(&self) -> &Shape {
        self.memory.shape()
    }
    async fn submit(&self, mut request: Request) -> Reply {
        if !matches!(request.operation, Operation::Read | Operation::Flush) {
            if let Some((_, there)) = self.bent.get().filter(|(here, _)| *here == request.offset) {
                request.offset = there;
            }
            let (from, length) = (request.offset.get(), request.length.get());
            self.writes.borrow_mut().push(from..from + length);
        }
        self.memory.submit(request).await
    }
}

type Disk = Rc<Watched>;

fn pick<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.random_range(0..of.len())]
}

fn kind(random: &mut Random) -> (Level, usize, Consistency) {
    let six = Level::Raid6(DoubleRotation::Together(Rotation::LeftSymmetric));
    pick(
        random,
        &[
            (Level::Raid1, 2, Consistency::Bitmap),
            (Level::Raid1, 3, Consistency::Resync),
            (Level::Raid4, 3, Consistency::Ppl),
            (Level::Raid5(Rotation::LeftSymmetric), 3, Consistency::Ppl),
            (Level::Raid5(Rotation::LeftSymmetric), 4, Consistency::Bitmap),
            (Level::Raid5(Rotation::LeftSymmetric), 3, Consistency::Journal),
            (six, 4, Consistency::Ppl),
            (six, 4, Consistency::Bitmap),
            (Level::Raid10(Copies::near(2)), 4, Consistency::Bitmap),
            (Level::Linear, 2, Consistency::Resync),
        ],
    )
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}
fn u16_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()))
}

/// Makes the checksum of a superblock good.
fn sign(bytes: &mut [u8]) {
    let length = 256 + 2 * (u32_at(bytes, 220) as usize).min(1920);
    bytes[216..220].fill(0);
    let sum: u64 = bytes[..length].chunks(4).map(|it| it.iter().rev().fold(0, |sum, b| sum << 8 | u64::from(*b))).sum();
    bytes[216..220].copy_from_slice(&(sum as u32).wrapping_add((sum >> 32) as u32).to_le_bytes());
}

/// A number of sectors that makes trouble: near the beginnings and ends of what there is, within it, and beyond all.
fn sectors(random: &mut Random) -> u64 {
    let (size, used) = (SIZE.get() / 512, USED.get() / 512);
    let near = pick(random, &[0, 8, 16, 24, 256, 2048, 4096, used, size, 1 << 31, 1 << 53]);
    match random.random_range(0..4) {
        0 => random.random_range(0..size + 100),
        1 => u64::wrapping_sub(0, random.random_range(0..100)),
        _ => near + random.random_range(0..20) - near.min(10),
    }
}

/// Changes a field that places something.
fn change(random: &mut Random, bytes: &mut [u8]) {
    let (at, width) = pick(
        random,
        &[
            (96, 4),
            (96, 4),
            (98, 2),
            (128, 8),
            (128, 8),
            (136, 8),
            (80, 8),
            (188, 4),
            (188, 4),
            (186, 2),
            (185, 1),
            (116, 4),
            (120, 4),
        ],
    );
    let value = match at {
        // The bad-block log counts only if it is used.
        188 | 186 | 185 if random.random_range(0..2) == 0 => {
            bytes[8] |= 8;
            sectors(random)
        }
        _ => sectors(random),
    };
    bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
}

/// The areas of a device, from the bytes of its superblock; what was added to it lies behind the data.
fn areas(bytes: &[u8], sums: bool) -> Vec<Range<u64>> {
    let behind = |sectors: i64| 4096 + sectors * 512;
    let features = u32_at(bytes, 8);
    let (role, number) = (256 + 2 * u32_at(bytes, 160) as usize, u32_at(bytes, 96));
    let data =
        u64_at(bytes, 128).wrapping_mul(512)..u64_at(bytes, 128).wrapping_add(u64_at(bytes, 136)).wrapping_mul(512);
    let mut areas = vec![4096..8192, data];
    if u16_at(bytes, role) == 0xfffd {
        return areas;
    }
    let mut add = |from: i64, length: u64| {
        if from > 0 && length > 0 {
            areas.push(from as u64..from as u64 + length);
        }
    };
    if features & 1 != 0 {
        add(behind(i64::from(number as i32)), 4096);
    }
    if features & 0xc00 != 0 {
        add(behind(i64::from(number as i16)), u64::from(number >> 16) * 512);
    }
    if &bytes[104..112] == b"arlabPPL" && features & 0xe00 == 0 {
        add(behind(i64::from(u32_at(bytes, 116))), u64::from(u32_at(bytes, 120)) * 512);
    }
    let bad = i64::from(u32_at(bytes, 188) as i32);
    if bad > 0 {
        add(behind(bad), u16_at(bytes, 186) * 512);
    }
    if sums && let Ok(superblock) = Superblock::parse(bytes) {
        let area = checksum_area(&superblock, Bytes::SECTOR);
        add(area.start.get() as i64, (area.end - area.start).get());
    }
    areas
}

struct World {
    runtime: Runtime,
    disks: Vec<Disk>,
    sums: bool,
    /// What the array stores.
    stored: Vec<u8>,
}

impl World {
    fn new(random: &mut Random) -> World {
        let runtime = Runtime::simulated();
        let kind = kind(random);
        let superblocks = common::superblocks(kind, CHUNK, USED, 1);
        let sums = random.random_range(0..4) == 0;
        let disk = |_| {
            let memory = MemoryDevice::new(&runtime, Shape::new("disk", SIZE));
            Rc::new(Watched { memory, writes: RefCell::default(), bent: Cell::default() })
        };
        let disks: Vec<Disk> = superblocks.iter().map(disk).collect();
        runtime.block_on(async {
            if sums {
                add_checksums(&disks, &superblocks).await.unwrap();
            }
            format(&disks, &superblocks).await.unwrap();
        });
        let mut world = World { runtime, disks, sums, stored: Vec::new() };
        let array = world.open().unwrap();
        world.stored = common::noise(7, array.geometry().size().round_down(CHUNK).as_usize());
        world.runtime.block_on(array.submit(Request::write(Bytes::ZERO, data(&world.stored)))).result.unwrap();
        if random.random_range(0..3) > 0 {
            world.runtime.block_on(array.stop()).unwrap();
        }
        world
    }

    fn open(&self) -> Result<Array<Disk>, OpenError> {
        let options = OpenOptions { force_dirty_degraded: true };
        self.runtime.block_on(Array::open(&self.runtime, "array", self.disks.clone(), options))
    }

    fn superblock(&self, disk: &Disk) -> Vec<u8> {
        read(&self.runtime, &disk.memory, SUPERBLOCK_AT, Bytes::kib(4))
    }

    fn put(&self, disk: &Disk, bytes: &[u8]) {
        self.runtime.block_on(disk.memory.submit(Request::write(SUPERBLOCK_AT, data(bytes)))).result.unwrap();
    }

    /// What the array gives, which may refuse to.
    fn given(&self, array: &Array<Disk>) -> Option<Vec<u8>> {
        let length = Bytes::new(self.stored.len() as u64);
        if array.geometry().size() < length {
            return None;
        }
        let reply = self.runtime.block_on(array.submit(Request::read(Bytes::ZERO, Buffer::zeroed(length))));
        reply.result.ok().map(|()| reply.buffer.unwrap().bytes().unwrap().to_vec())
    }
}

/// Writes what is there already, fails a member, has a new one take its place, and stops the array.
fn use_it(world: &World, array: &Array<Disk>, given: &[u8], spare: &Disk) {
    let runtime = &world.runtime;
    for at in [0, given.len() / 2 / 4096 * 4096, given.len() - 4096] {
        let write = Request::write(Bytes::new(at as u64), data(&given[at..at + 4096]));
        let _ = runtime.block_on(array.submit(write));
    }
    let _ = runtime.block_on(array.submit(Request::flush()));
    let _ = runtime.block_on(array.resync());
    if array.geometry().level() != Level::Linear && array.is_complete() {
        array.fail(0);
        let again = Request::write(Bytes::ZERO, data(&given[..4096]));
        let _ = runtime.block_on(array.submit(again));
        if let Some(layout) = array.member_layout().filter(|_| array.state(0) == MemberState::Failed) {
            let _ = runtime.block_on(array.rebuild(0, Rc::clone(spare), layout.data_offset, array::md::Uuid([9; 16])));
        }
    }
    let _ = runtime.block_on(array.stop());
}

/// Every byte that was written lies within one area of the device, and no other.
fn each_in_its_own(disk: &Disk, areas: &[Range<u64>], what: &str) {
    for write in disk.writes.borrow().iter() {
        let met = areas.iter().filter(|area| area.start < write.end && write.start < area.end);
        let whole = met.clone().all(|area| area.start <= write.start && write.end <= area.end);
        assert!(met.count() == 1 && whole, "{what}: {write:?} was written, the areas are {areas:?}");
    }
}

fn case(seed: u64) -> &'static str {
    let random = &mut Random::named(seed, "areas");
    let world = World::new(random);
    let everywhere = random.random_range(0..2) == 0;
    let only = random.random_range(0..world.disks.len());
    let changes = 1 + random.random_range(0..3);
    let same = random.random_range(0..u64::MAX);
    // Data that are sought elsewhere on one member, within it, are no fault that anybody could see, and make parity not
    // fit.
    let mut moved = false;
    for (number, disk) in world.disks.iter().enumerate().filter(|(number, _)| everywhere || *number == only) {
        let mut bytes = world.superblock(disk);
        let data_offset = u64_at(&bytes, 128);
        let mut own = Random::named(if everywhere { same } else { same ^ number as u64 }, "change");
        (0..changes).for_each(|_| change(&mut own, &mut bytes));
        moved |= u64_at(&bytes, 128) != data_offset;
        sign(&mut bytes);
        world.put(disk, &bytes);
    }
    let before: Vec<Vec<Range<u64>>> =
        world.disks.iter().map(|disk| areas(&world.superblock(disk), world.sums)).collect();
    world.disks.iter().for_each(|disk| disk.writes.borrow_mut().clear());
    let opened = world.open();
    if let Err(OpenError::Misplaced { .. } | OpenError::Disagree(_)) = &opened {
        let written = world.disks.iter().map(|disk| disk.writes.borrow().len()).sum::<usize>();
        assert_eq!(written, 0, "what is refused for its offsets is not written");
    }
    let spare = Rc::new(Watched {
        memory: MemoryDevice::new(&world.runtime, Shape::new("spare", SIZE)),
        writes: RefCell::default(),
        bent: Cell::default(),
    });
    let how = match opened {
        Err(error) => {
            assert!(!error.to_string().is_empty());
            "refused"
        }
        Ok(array) => {
            if let Some(given) = world.given(&array) {
                use_it(&world, &array, &given, &spare);
                let after = world.given(&array);
                assert!(moved || after.is_none_or(|after| after == given), "what it stored is as it was");
            }
            "opened"
        }
    };
    for (disk, areas) in world.disks.iter().zip(&before) {
        each_in_its_own(disk, areas, "a member");
    }
    if !spare.writes.borrow().is_empty() {
        each_in_its_own(&spare, &areas(&world.superblock(&spare), world.sums), "the new member");
    }
    how
}

#[test]
fn offsets_in_a_superblock_are_refused_or_each_write_lies_in_an_area_of_its_own() {
    let range = std::env::var("ARRAYLAB_AREAS").unwrap_or_else(|_| "0..250".to_owned());
    let (from, to) = range.split_once("..").expect("ARRAYLAB_AREAS is a range of seeds, such as 0..250");
    let seeds = from.parse::<u64>().expect("a number")..to.parse().expect("a number");
    let (mut opened, mut broken) = (0, Vec::new());
    for seed in seeds.clone() {
        match catch_unwind(AssertUnwindSafe(|| case(seed))) {
            Ok(how) => opened += u64::from(how == "opened"),
            Err(_) => broken.push(seed),
        }
    }
    println!("{opened} of {} opened", seeds.end - seeds.start);
    assert!(broken.is_empty(), "{} seeds, such as {:?}", broken.len(), &broken[..broken.len().min(20)]);
    let some = (seeds.end - seeds.start) / 10;
    assert!(opened > some && seeds.end - seeds.start - opened > some, "cases are of both kinds");
}

/// A planted fault: the array is told a sound offset, and what it writes there goes where a damaged one pointed, as if
/// that had been believed.
#[test]
fn a_bitmap_that_goes_where_a_damaged_offset_points_is_seen() {
    let runtime = Runtime::simulated();
    let kind = (Level::Raid5(Rotation::LeftSymmetric), 3, Consistency::Bitmap);
    let superblocks = common::superblocks(kind, CHUNK, USED, 1);
    for there in [superblocks[0].data_offset, superblocks[0].data_offset - Bytes::kib(8), SUPERBLOCK_AT] {
        let disk = |_| {
            let memory = MemoryDevice::new(&runtime, Shape::new("disk", SIZE));
            Rc::new(Watched { memory, writes: RefCell::default(), bent: Cell::default() })
        };
        let disks: Vec<Disk> = superblocks.iter().map(disk).collect();
        runtime.block_on(format(&disks, &superblocks)).unwrap();
        let raw = read(&runtime, &disks[0].memory, SUPERBLOCK_AT, Bytes::kib(4));
        let areas = areas(&raw, false);
        let bitmap = superblocks[0].bitmap_at().unwrap();
        disks.iter().for_each(|disk| disk.bent.set(Some((bitmap, there))));
        disks.iter().for_each(|disk| disk.writes.borrow_mut().clear());
        let options = OpenOptions::default();
        let array = runtime.block_on(Array::open(&runtime, "array", disks.clone(), options)).unwrap();
        let stored = common::noise(3, array.geometry().size().as_usize());
        let _ = runtime.block_on(array.submit(Request::write(Bytes::ZERO, data(&stored))));
        runtime.block_on(array.stop()).unwrap();
        let outside = catch_unwind(AssertUnwindSafe(|| each_in_its_own(&disks[0], &areas, "a member"))).is_err();
        let length = Bytes::new(stored.len() as u64);
        let reply = runtime.block_on(array.submit(Request::read(Bytes::ZERO, Buffer::zeroed(length))));
        let spoilt = reply.buffer.unwrap().bytes().unwrap() != &stored[..];
        let unreadable = Superblock::parse(&read(&runtime, &disks[0].memory, SUPERBLOCK_AT, Bytes::kib(4))).is_err();
        assert!(outside || spoilt || unreadable, "a bitmap at {there} goes unseen");
    }
}
