//! Members that have no room: the write fails and nothing else does, whoever refuses it and whatever the others took of
//! it.

use std::rc::Rc;

use array::geometry::{Copies, DoubleRotation, Geometry, Level, Rotation};
use array::md::{self, Consistency, NewArray, NewMember, SUPERBLOCK_AT, Stamp, Uuid};
use array::{Array, MemberState, OpenOptions, Repair, add_checksums, checksum_room, format};
use device::filter::{Effect, Faulty, Rule, Store, Thin};
use device::{Buffer, Data, Device, DeviceError, MemoryDevice, Operation, Request, Shape};
use futures_util::future::join_all;
use rand::RngExt;
use runtime::{Random, Runtime};
use units::{Bytes, Duration, Rate};

type Disk = Rc<Faulty<Thin<MemoryDevice>>>;
const CHUNK: Bytes = Bytes::kib(16);
const SECTOR: usize = 512;

const FIVE: Level = Level::Raid5(Rotation::LeftSymmetric);
const SIX: Level = Level::Raid6(DoubleRotation::Together(Rotation::LeftSymmetric));
const CASES: [(Level, usize, Consistency, bool); 13] = [
    (Level::Raid1, 2, Consistency::Resync, false),
    (Level::Raid1, 3, Consistency::Bitmap, true),
    (Level::Raid10(Copies::near(2)), 4, Consistency::Bitmap, false),
    (Level::Raid10(Copies::near(2)), 3, Consistency::Resync, true),
    (FIVE, 3, Consistency::Resync, false),
    (FIVE, 4, Consistency::Resync, true),
    (FIVE, 4, Consistency::Bitmap, false),
    (FIVE, 4, Consistency::Ppl, false),
    (FIVE, 4, Consistency::Journal, false),
    (Level::Raid4, 4, Consistency::Journal, true),
    (SIX, 5, Consistency::Resync, false),
    (SIX, 5, Consistency::Ppl, true),
    (SIX, 4, Consistency::Bitmap, false),
];

struct Bed {
    runtime: Runtime,
    /// One for all, or one for each.
    stores: Vec<Rc<Store>>,
    disks: Vec<Disk>,
    geometry: Geometry,
    data_at: Bytes,
}

impl Bed {
    fn new((level, members, consistency, checksums): (Level, usize, Consistency, bool), common: bool) -> Bed {
        let runtime = Runtime::simulated();
        let data = Bytes::mib(if consistency == Consistency::Ppl { 2 } else { 1 }) + CHUNK * 12;
        let chunk = CHUNK;
        let (name, array, now) = ("room".into(), Uuid([7; 16]), Stamp(0));
        let new = NewArray { level, chunk, name, array, now, consistency, clean: true };
        let all = members + usize::from(consistency == Consistency::Journal);
        let sized: Vec<NewMember> = (0..all)
            .map(|member| NewMember {
                size: if member < members { data } else { Bytes::mib(4) },
                member: Uuid([member as u8 + 1; 16]),
            })
            .collect();
        let (superblocks, geometry) = md::create(&new, &sized).unwrap();
        let one = Store::new();
        let stores: Vec<Rc<Store>> = (0..all).map(|_| if common { Rc::clone(&one) } else { Store::new() }).collect();
        let disk = |member: usize| {
            let memory =
                MemoryDevice::new(&runtime, Shape::new(format!("disk {member}"), Bytes::mib(4) + checksum_room(data)));
            Rc::new(Faulty::new(&runtime, Thin::new(&runtime, memory, &stores[member]), 1))
        };
        let disks: Vec<Disk> = (0..all).map(disk).collect();
        runtime.block_on(async {
            if checksums {
                add_checksums(&disks[..members], &superblocks[..members]).await.unwrap();
            }
            format(&disks, &superblocks).await.unwrap();
            // A half of the log has its room.
            if let Some(journal) = disks.get(members) {
                let at = superblocks[members].data_offset;
                let zeroes = Buffer::zeroed(Bytes::mib(1)).freeze();
                journal.submit(Request::write(at, zeroes)).await.result.unwrap();
                format(&disks[members..], &superblocks[members..]).await.unwrap();
            }
        });
        let data_at = superblocks[0].data_offset;
        Bed { runtime, stores, disks, geometry, data_at }
    }

    /// Opens the array; without some members a copy of it, with room, as it would say so on the others.
    fn open(&self, without: &[usize]) -> Array<Disk> {
        let there = self.disks.iter().enumerate().filter(|(member, _)| !without.contains(member));
        let there = there.map(|(_, disk)| if without.is_empty() { Rc::clone(disk) } else { self.copy(disk) }).collect();
        self.runtime.block_on(Array::open(&self.runtime, "array", there, OpenOptions::default())).unwrap()
    }

    /// A disk as it is now, with room.
    fn copy(&self, disk: &Disk) -> Disk {
        let memory = disk.inner().inner().snapshot(&self.runtime);
        Rc::new(Faulty::new(&self.runtime, Thin::new(&self.runtime, memory, &Store::new()), 1))
    }

    /// A copy of the array as it is now without a member, although it was not stopped.
    async fn copy_without(&self, member: usize) -> Array<Disk> {
        let there = self.disks.iter().enumerate().filter(|(number, _)| *number != member);
        let there = there.map(|(_, disk)| self.copy(disk)).collect();
        let options = OpenOptions { force_dirty_degraded: true };
        Array::open(&self.runtime, "copy", there, options).await.unwrap()
    }
}

/// What each sector may hold: one value, or, after a write that was refused and before it was read, two.
struct Oracle {
    may_hold: Vec<Vec<u64>>,
    next: u64,
}

fn data(value: u64, length: Bytes) -> Data {
    let mut buffer = Buffer::zeroed(length);
    buffer.bytes_mut().unwrap().chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&value.to_le_bytes()));
    buffer.freeze()
}

impl Oracle {
    fn of(array: &Array<Disk>) -> Oracle {
        Oracle { may_hold: vec![vec![0]; array.shape().size.as_usize() / SECTOR], next: 1 }
    }

    fn sectors(at: Bytes, length: Bytes) -> std::ops::Range<usize> {
        at.as_usize() / SECTOR..(at + length).as_usize() / SECTOR
    }

    /// Writes some ranges that do not overlap, at once; says whether any was refused.
    async fn write(&mut self, array: &Array<Disk>, random: &mut Random) -> bool {
        let quarter = array.shape().size.get() / SECTOR as u64 / 4;
        let mut writes = Vec::new();
        for part in 0..4 {
            let whole_rows = random.random_bool(0.3);
            let length = if whole_rows { quarter } else { random.random_range(1..quarter.min(150)) };
            let from = part * quarter + random.random_range(0..=quarter - length);
            let (at, length) = (Bytes::SECTOR * from, Bytes::SECTOR * length);
            self.next += 1;
            let fua = random.random_bool(0.2);
            writes.push((self.next, at, length, fua));
        }
        let send = |&(value, at, length, fua): &(u64, Bytes, Bytes, bool)| async move {
            array.submit(Request { fua, ..Request::write(at, data(value, length)) }).await.result
        };
        let results = join_all(writes.iter().map(send)).await;
        let mut refused = false;
        for ((value, at, length, _), result) in writes.into_iter().zip(results) {
            for values in &mut self.may_hold[Self::sectors(at, length)] {
                match &result {
                    Ok(()) => *values = vec![value],
                    Err(DeviceError::NoSpace) => values.push(value),
                    Err(error) => panic!("a write without room: {error}"),
                }
            }
            refused |= result.is_err();
        }
        refused
    }

    /// Reads everything; from now on that is what it holds. How many sectors cannot be read.
    async fn read(&mut self, array: &Array<Disk>, what: &str) -> usize {
        let mut unreadable = 0;
        let mut read = Vec::new();
        let size = array.shape().size;
        for at in (0..size / CHUNK).map(|chunk| CHUNK * chunk) {
            let length = CHUNK.min(size - at);
            let reply = array.submit(Request::read(at, Buffer::zeroed(length))).await;
            if reply.result.is_ok() {
                read.extend(reply.buffer.unwrap().bytes().unwrap().chunks(SECTOR).map(|bytes| Some(bytes.to_vec())));
                continue;
            }
            for at in (0..length / Bytes::SECTOR).map(|sector| at + Bytes::SECTOR * sector) {
                let reply = array.submit(Request::read(at, Buffer::zeroed(Bytes::SECTOR))).await;
                if let Err(error) = &reply.result {
                    assert!(matches!(error, DeviceError::Medium { .. }), "{what}: {error}");
                    unreadable += 1;
                }
                read.push(reply.result.ok().map(|()| reply.buffer.unwrap().bytes().unwrap().to_vec()));
            }
        }
        assert_eq!(read.len(), self.may_hold.len(), "the array is of whole chunks");
        for (sector, (values, bytes)) in self.may_hold.iter_mut().zip(read).enumerate() {
            let Some(bytes) = bytes else { continue };
            let value = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            assert!(bytes.chunks_exact(8).all(|word| word == value.to_le_bytes()), "{what}: sector {sector} is torn");
            assert!(values.contains(&value), "{what}: sector {sector} holds {value}, and may hold {values:?}");
            *values = vec![value];
        }
        unreadable
    }
}

fn all_active(array: &Array<Disk>, case: &str) {
    for member in 0..array.geometry().members() {
        assert_eq!(array.state(member), MemberState::Active, "{case}: member {member}: {:?}", array.failure(member));
    }
}

/// Fills it until it refuses, goes on so, gives it room, and looks at what is there with and without each member.
fn fill(case: (Level, usize, Consistency, bool), seed: u64, common: bool) -> u64 {
    let said = format!("{case:?}, seed {seed}");
    let bed = Bed::new(case, common);
    let mut random = Random::named(seed, "room");
    let array = bed.open(&[]);
    let mut oracle = Oracle::of(&array);
    let victim = random.random_range(0..bed.stores.len());
    let blocks = if common { 40 * bed.disks.len() as u64 } else { 40 };
    bed.stores[victim].leave(Bytes::kib(4) * random.random_range(0..blocks));
    let mut refusals = 0;
    for round in 0..12 {
        refusals += u64::from(bed.runtime.block_on(oracle.write(&array, &mut random)));
        all_active(&array, &said);
        assert_eq!(bed.runtime.block_on(oracle.read(&array, &said)), 0, "{said}, round {round}: it cannot be read");
        if random.random_bool(0.3) {
            bed.runtime.block_on(array.submit(Request::flush())).result.unwrap();
        }
    }
    // As it is, without room, it is stopped, and read without each member.
    bed.runtime.block_on(array.stop()).unwrap();
    drop(array);
    let mut lost = 0;
    for member in 0..bed.geometry.members() {
        let array = bed.open(&[member]);
        lost += bed.runtime.block_on(oracle.read(&array, &format!("{said}, without member {member}")));
    }
    if bed.geometry.level().parities() == 0 {
        assert_eq!(lost, 0, "{said}: copies are all there");
    }
    // With room all is as it ever was, without a restart in between.
    let array = bed.open(&[]);
    bed.stores.iter().for_each(|store| store.refill());
    assert!(!bed.runtime.block_on(oracle.write(&array, &mut random)), "{said}: there is room");
    all_active(&array, &said);
    let scrubbed = bed.runtime.block_on(array.scrub(Repair::WhatIsWrong)).unwrap();
    assert_eq!((scrubbed.mismatches, scrubbed.unreadable), (0, 0), "{said}: {scrubbed:?}");
    bed.runtime.block_on(array.stop()).unwrap();
    drop(array);
    for member in 0..bed.geometry.members() {
        let array = bed.open(&[member]);
        let lost = bed.runtime.block_on(oracle.read(&array, &format!("{said}, mended, without {member}")));
        assert_eq!(lost, 0, "{said}: without member {member} after a scrub");
    }
    refusals
}

#[test]
fn where_all_members_lie_on_one_store_that_fills_writes_fail_and_nothing_else_does() {
    for case in CASES {
        let refusals: u64 = (0..6).map(|seed| fill(case, seed, true)).sum();
        assert!(refusals > 0, "{case:?}: it never ran out of room");
    }
}

#[test]
fn where_one_member_fills_before_the_others_it_stays_a_member() {
    for case in CASES {
        let refusals: u64 = (0..6).map(|seed| fill(case, seed, false)).sum();
        assert!(refusals > 0, "{case:?}: it never ran out of room");
    }
}

#[test]
fn a_degraded_array_that_fills_loses_nothing_that_was_acknowledged() {
    for case @ (_, members, _, _) in CASES {
        let mut refusals = 0;
        for seed in 0..6 {
            let said = format!("{case:?}, seed {seed}");
            let bed = Bed::new(case, true);
            let mut random = Random::named(seed, "degraded");
            let array = bed.open(&[]);
            let mut oracle = Oracle::of(&array);
            bed.runtime.block_on(oracle.write(&array, &mut random));
            let lost = random.random_range(0..members);
            array.fail(lost);
            bed.stores[0].leave(Bytes::kib(4) * random.random_range(0..12 * members as u64));
            for _ in 0..12 {
                refusals += u64::from(bed.runtime.block_on(oracle.write(&array, &mut random)));
                assert_eq!(bed.runtime.block_on(oracle.read(&array, &said)), 0, "{said}: it cannot be read");
            }
            let failed = (0..members).filter(|member| array.state(*member) == MemberState::Failed);
            assert_eq!(failed.collect::<Vec<_>>(), [lost], "{said}");
            bed.runtime.block_on(array.stop()).unwrap();
            drop(array);
            let array = bed.open(&[lost]);
            assert_eq!(bed.runtime.block_on(oracle.read(&array, &said)), 0, "{said}: after a restart");
        }
        assert!(refusals > 0, "{case:?}: it never ran out of room");
    }
}

#[test]
fn a_superblock_or_bitmap_that_finds_no_room_fails_writes_until_there_is_some() {
    for consistency in [Consistency::Resync, Consistency::Bitmap] {
        for (from, to) in [(SUPERBLOCK_AT, Bytes::kib(8)), (Bytes::kib(8), Bytes::mib(1))] {
            let bed = Bed::new((FIVE, 3, consistency, false), true);
            let array = bed.open(&[]);
            let full = || Rule::new(Effect::Fail(DeviceError::NoSpace)).on(Operation::Write).within(from..to);
            bed.disks.iter().for_each(|disk| disk.add(full()));
            let write = |value| bed.runtime.block_on(array.submit(Request::write(CHUNK, data(value, CHUNK)))).result;
            let read = || {
                let reply = bed.runtime.block_on(array.submit(Request::read(CHUNK, Buffer::zeroed(CHUNK))));
                reply.result.unwrap();
                reply.buffer.unwrap().bytes().unwrap()[0]
            };
            // Without a bitmap nothing is written behind the superblock.
            let reaches = from == SUPERBLOCK_AT || consistency == Consistency::Bitmap;
            for value in [1, 2] {
                assert_eq!(write(value), if reaches { Err(DeviceError::NoSpace) } else { Ok(()) });
            }
            assert_eq!(read(), if reaches { 0 } else { 2 });
            all_active(&array, "without room");
            bed.disks.iter().for_each(|disk| disk.clear_rules());
            assert_eq!((write(3), read()), (Ok(()), 3));
            bed.runtime.block_on(array.stop()).unwrap();
        }
    }
}

#[test]
fn a_flush_that_finds_no_room_on_all_members_leaves_those_that_are_needed() {
    for (level, members, _, _) in CASES {
        let bed = Bed::new((level, members, Consistency::Resync, false), true);
        let array = bed.open(&[]);
        let write = array.submit(Request::write(Bytes::ZERO, data(5, CHUNK)));
        assert_eq!(bed.runtime.block_on(write).result, Ok(()));
        let full = || Rule::new(Effect::Fail(DeviceError::NoSpace)).on(Operation::Flush);
        bed.disks.iter().for_each(|disk| disk.add(full()));
        assert_eq!(bed.runtime.block_on(array.submit(Request::flush())).result, Err(DeviceError::NoSpace));
        assert!(!array.is_broken());
        bed.runtime.block_on(async {
            let reply = array.submit(Request::read(Bytes::ZERO, Buffer::zeroed(CHUNK))).await;
            assert_eq!(reply.result, Ok(()));
            assert_eq!(reply.buffer.unwrap().bytes(), data(5, CHUNK).bytes());
            // It does not call itself clean either.
            let (tending, time) =
                (std::pin::pin!(array.tend()), std::pin::pin!(bed.runtime.sleep(Duration::seconds(12))));
            futures_util::future::select(tending, time).await;
            assert!(array.is_dirty());
        });
    }
}

const WRONG: u64 = 0xbad;

impl Bed {
    fn data_offset(&self, member: usize) -> Bytes {
        let read = Request::read(SUPERBLOCK_AT, Buffer::zeroed(md::SUPERBLOCK_SIZE));
        let buffer = self.runtime.block_on(self.disks[member].submit(read)).buffer.unwrap();
        md::Superblock::parse(buffer.bytes().unwrap()).unwrap().data_offset
    }

    /// Puts something else on a member's medium, where its data have this offset.
    fn spoil(&self, member: usize, at: Bytes) {
        let write = Request::write(self.data_offset(member) + at, data(WRONG, Bytes::SECTOR));
        self.runtime.block_on(self.disks[member].inner().inner().submit(write)).result.unwrap();
    }

    /// A member cannot read a sector of its data.
    fn cannot_read(&self, member: usize, at: Bytes) {
        let start = self.data_offset(member) + at;
        let error = DeviceError::Medium { offset: start, length: Bytes::SECTOR };
        let rule = Rule::new(Effect::Fail(error)).on(Operation::Read).within(start..start + Bytes::SECTOR);
        self.disks[member].add(rule);
    }

    /// A member has no room, could once not read a sector of its data, and not write it again; what is there now is
    /// wrong.
    fn make_bad(&self, array: &Array<Disk>, member: usize, at: Bytes, address: Bytes) {
        self.stores[member].leave(Bytes::ZERO);
        self.cannot_read(member, at);
        // Of copies any may be read.
        let read = || array.submit(Request::read(address, Buffer::zeroed(Bytes::SECTOR)));
        let replies = self.runtime.block_on(join_all((0..6).map(|_| read())));
        assert!(replies.iter().all(|reply| reply.result.is_ok()) && array.has_bad(member));
        self.disks[member].clear_rules();
        self.spoil(member, at);
    }

    fn write(&self, array: &Array<Disk>, at: Bytes, value: u64, length: Bytes) -> Result<(), DeviceError> {
        self.runtime.block_on(array.submit(Request::write(at, data(value, length)))).result
    }

    /// What each sector of a range holds; `None`: it cannot be read.
    fn values(&self, array: &Array<Disk>, range: std::ops::Range<Bytes>) -> Vec<Option<u64>> {
        let value = |sector: u64| {
            let read = Request::read(Bytes::SECTOR * sector, Buffer::zeroed(Bytes::SECTOR));
            let reply = self.runtime.block_on(array.submit(read));
            reply.result.ok()?;
            Some(u64::from_le_bytes(reply.buffer.unwrap().bytes().unwrap()[..8].try_into().unwrap()))
        };
        (range.start / Bytes::SECTOR..range.end / Bytes::SECTOR).map(value).collect()
    }
}

#[test]
fn copies_are_alike_where_a_member_that_refused_is_bad_in_a_part_of_the_range() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid1, 3), (Level::Raid10(Copies::near(2)), 4)] {
        let bed = Bed::new((level, members, Consistency::Resync, false), false);
        let array = bed.open(&[]);
        bed.make_bad(&array, 0, Bytes::kib(2), Bytes::kib(2));
        assert_eq!(bed.write(&array, Bytes::ZERO, 7, Bytes::kib(8)), Err(DeviceError::NoSpace));
        let scrubbed = bed.runtime.block_on(array.scrub(Repair::No)).unwrap();
        assert_eq!(scrubbed.mismatches, 0, "{level:?}");
        all_active(&array, "a bad copy without room");
        // The bad sector is what the others have, all else what it was, whoever is read.
        for without in [None, Some(0)] {
            without.into_iter().for_each(|member| array.fail(member));
            let values = bed.values(&array, Bytes::ZERO..Bytes::kib(8));
            let right = |(sector, value): (usize, &Option<u64>)| *value == Some(if sector == 4 { 7 } else { 0 });
            assert!(values.iter().enumerate().all(right), "{level:?} without {without:?}: {values:?}");
        }
    }
}

#[test]
fn parity_says_what_a_member_that_refused_holds_where_it_is_bad_and_fits_the_rest_of_the_range() {
    for (level, members, lost) in [(FIVE, 3, 2), (FIVE, 4, 2), (SIX, 4, 0), (SIX, 5, 0)] {
        let bed = Bed::new((level, members, Consistency::Resync, false), false);
        let array = bed.open(&[]);
        let stripe = bed.geometry.stripe(0);
        let member = stripe.data_member(0);
        bed.make_bad(&array, member, Bytes::kib(2), Bytes::kib(2));
        assert_eq!(bed.write(&array, Bytes::ZERO, 7, Bytes::kib(8)), Err(DeviceError::NoSpace));
        let is_right = |sector: usize, value: &Option<u64>| *value == Some(0) || sector == 4 && *value == Some(7);
        let values = bed.values(&array, Bytes::ZERO..Bytes::kib(8));
        assert!(values.iter().enumerate().all(|(sector, value)| is_right(sector, value)), "{level:?}: {values:?}");
        all_active(&array, "a bad member without room");
        // The rest of the row is as redundant as before.
        array.fail(stripe.data_member(1));
        let values = bed.values(&array, Bytes::ZERO..CHUNK * 2);
        let unreadable = values.iter().filter(|value| value.is_none()).count();
        let wrong = values.iter().enumerate().filter(|(sector, value)| value.is_some() && !is_right(*sector, value));
        assert_eq!((unreadable, wrong.count()), (lost, 0), "{level:?} on {members} members: {values:?}");
    }
}

#[test]
fn parity_says_what_a_member_that_refused_holds_where_its_medium_cannot_tell() {
    for (level, members) in [(FIVE, 3), (FIVE, 4), (SIX, 4)] {
        let bed = Bed::new((level, members, Consistency::Resync, false), false);
        let array = bed.open(&[]);
        let member = bed.geometry.stripe(0).data_member(0);
        bed.stores[member].leave(Bytes::ZERO);
        bed.cannot_read(member, Bytes::kib(2));
        assert_eq!(bed.write(&array, Bytes::ZERO, 7, Bytes::kib(8)), Err(DeviceError::NoSpace));
        let values = bed.values(&array, Bytes::ZERO..bed.geometry.size());
        let is_right = |(sector, value): (usize, &Option<u64>)| *value == Some(0) || sector == 4 && *value == Some(7);
        assert!(values.iter().enumerate().all(is_right), "{level:?} on {members} members: {values:?}");
    }
}

/// An array whose first row has a parity that found no room, and its member.
fn with_bad_parity() -> (Bed, Array<Disk>, usize) {
    let bed = Bed::new((FIVE, 3, Consistency::Resync, false), false);
    let array = bed.open(&[]);
    let parity = bed.geometry.stripe(0).p();
    bed.stores[parity].leave(Bytes::ZERO);
    assert_eq!(bed.write(&array, Bytes::ZERO, 7, Bytes::kib(4)), Err(DeviceError::NoSpace));
    bed.runtime.block_on(array.submit(Request::flush())).result.unwrap();
    bed.stores[parity].refill();
    assert!(array.has_bad(parity));
    (bed, array, parity)
}

#[test]
fn what_was_bad_and_is_written_counts_as_bad_until_a_power_cut_would_not_bring_that_back() {
    let (bed, array, parity) = with_bad_parity();
    bed.disks[parity].add(Rule::new(Effect::Hang).on(Operation::Flush));
    bed.runtime.block_on(async {
        let write = async { array.submit(Request::write(Bytes::ZERO, data(8, Bytes::kib(4)))).await.result };
        let look = async {
            bed.runtime.sleep(Duration::millis(1)).await;
            // The power would be cut now, and the member's log says what it said.
            let again = bed.copy_without(bed.geometry.stripe(0).data_member(0)).await;
            let read = again.submit(Request::read(Bytes::ZERO, Buffer::zeroed(Bytes::SECTOR))).await.result;
            assert!(matches!(read, Err(DeviceError::Medium { .. })), "{read:?}");
            assert!(array.has_bad(parity), "it is as good as lost");
            bed.disks[parity].clear_rules();
            bed.disks[parity].resume();
        };
        assert_eq!(futures_util::join!(write, look).0, Ok(()));
        assert!(!array.has_bad(parity));
        let again = bed.copy_without(bed.geometry.stripe(0).data_member(0)).await;
        let read = again.submit(Request::read(Bytes::ZERO, Buffer::zeroed(Bytes::SECTOR))).await;
        assert_eq!(read.buffer.unwrap().bytes(), data(8, Bytes::SECTOR).bytes());
    });
}

#[test]
fn what_becomes_bad_while_something_is_recorded_is_bad_after_a_restart() {
    let bed = Bed::new((FIVE, 3, Consistency::Bitmap, false), false);
    let array = bed.open(&[]);
    let parity = bed.geometry.stripe(0).p();
    assert_eq!(bed.write(&array, Bytes::ZERO, 6, Bytes::kib(4)), Ok(()));
    bed.stores[parity].leave(Bytes::ZERO);
    // The record waits for a bitmap, and has said by then what it is to say.
    let late = Rule::new(Effect::Stall(Duration::millis(10)));
    bed.disks[0].add(late.on(Operation::Write).within(Bytes::kib(8)..Bytes::kib(12)));
    let memory = MemoryDevice::new(&bed.runtime, Shape::new("spare", Bytes::mib(4)));
    let spare = Rc::new(Faulty::new(&bed.runtime, Thin::new(&bed.runtime, memory, &Store::new()), 1));
    bed.runtime.block_on(async {
        let began = bed.runtime.now();
        let refused = async {
            bed.runtime.sleep(Duration::millis(1)).await;
            let written = array.submit(Request::write(Bytes::kib(8), data(7, Bytes::kib(4)))).await.result;
            assert_eq!((written, array.has_bad(parity)), (Err(DeviceError::NoSpace), true));
            assert!(bed.runtime.now().since(began) < Duration::millis(5), "the record is still under way");
        };
        let added = futures_util::join!(array.add_spare(spare, Uuid([99; 16])), refused).0;
        all_active(&array, "a record that takes its time");
        assert_eq!(added, Ok(()));
        array.submit(Request::flush()).await.result.unwrap();
    });
    drop(array);
    assert!(bed.open(&[]).has_bad(parity), "what is there would be believed");
}

#[test]
fn what_a_scrub_has_made_good_is_good_after_a_power_cut() {
    let (bed, array, parity) = with_bad_parity();
    bed.runtime.block_on(array.scrub(Repair::WhatIsWrong)).unwrap();
    drop(array);
    assert!(!bed.open(&[]).has_bad(parity));
}

/// Else a member that loses power alone, and returns without it, is believed: it lacks nothing that it acknowledged.
#[test]
fn what_members_took_of_a_write_that_they_refused_they_acknowledge_later() {
    for (level, members) in [(Level::Raid1, 2), (FIVE, 3)] {
        let bed = Bed::new((level, members, Consistency::Resync, false), false);
        let array = bed.open(&[]);
        let place =
            if level == Level::Raid1 { bed.geometry.copy(Bytes::ZERO, 0) } else { bed.geometry.in_row(Bytes::ZERO).2 };
        // There is room for the first block alone.
        assert_eq!(bed.write(&array, Bytes::ZERO, 6, Bytes::kib(4)), Ok(()));
        bed.stores.iter().for_each(|store| store.leave(Bytes::ZERO));
        let at = bed.data_at + place.offset;
        let writes = Rule::new(Effect::Stall(Duration::ZERO)).on(Operation::Write).within(at..at + Bytes::SECTOR);
        bed.disks[place.member].add(writes);
        assert_eq!(bed.write(&array, Bytes::ZERO, 7, Bytes::kib(8)), Err(DeviceError::NoSpace));
        let read = bed.runtime.block_on(array.submit(Request::read(Bytes::ZERO, Buffer::zeroed(Bytes::kib(4)))));
        assert_eq!(read.buffer.unwrap().bytes(), data(7, Bytes::kib(4)).bytes(), "it was taken");
        assert_eq!(bed.disks[place.member].suffered(), 2, "{level:?}: refused, and acknowledged");
        all_active(&array, "a refused write");
    }
}

#[test]
fn a_device_that_replaces_a_member_without_room_holds_what_that_member_held() {
    let bed = Bed::new((Level::Raid10(Copies::near(2)), 4, Consistency::Resync, false), false);
    let array = bed.open(&[]);
    let memory = MemoryDevice::new(&bed.runtime, Shape::new("new", Bytes::mib(4)));
    let new = Rc::new(Faulty::new(&bed.runtime, Thin::new(&bed.runtime, memory, &Store::new()), 1));
    array.limit(Some(Rate::bytes_per_second(1e6)));
    bed.stores[1].leave(Bytes::ZERO);
    let data_offset = bed.data_offset(1);
    bed.runtime.block_on(async {
        let replaced = array.replace(1, new, data_offset, Uuid([99; 16]));
        let written = async {
            bed.runtime.sleep(Duration::millis(100)).await;
            let written = array.submit(Request::write(Bytes::ZERO, data(7, CHUNK))).await.result;
            assert_eq!((written, array.replacing().is_some()), (Err(DeviceError::NoSpace), true));
        };
        let (replaced, ()) = futures_util::join!(replaced, written);
        assert_eq!(replaced, Ok(vec![]));
        let scrubbed = array.scrub(Repair::No).await.unwrap();
        assert_eq!((scrubbed.mismatches, scrubbed.unreadable), (0, 0));
    });
    assert!(bed.values(&array, Bytes::ZERO..CHUNK).iter().all(|value| *value == Some(0)));
}

#[test]
fn a_refused_write_forgets_no_checksum_of_what_it_did_not_change() {
    for (level, members) in [(Level::Raid1, 2), (FIVE, 3)] {
        let bed = Bed::new((level, members, Consistency::Resync, true), false);
        let array = bed.open(&[]);
        let member = if level == FIVE { bed.geometry.stripe(0).data_member(0) } else { 1 };
        assert_eq!(bed.write(&array, Bytes::kib(8), 5, Bytes::kib(4)), Ok(()));
        // Nobody has read it since; the block before it is without room.
        bed.spoil(member, Bytes::kib(8));
        bed.stores[member].leave(Bytes::ZERO);
        assert_eq!(bed.write(&array, Bytes::kib(4), 7, Bytes::kib(8)), Err(DeviceError::NoSpace));
        let values = bed.values(&array, Bytes::kib(8)..Bytes::kib(12));
        assert!(values.iter().all(|value| matches!(value, Some(5 | 7))), "{level:?}: {values:?}");
    }
}
