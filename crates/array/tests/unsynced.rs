//! A value that was read once stays until somebody writes: of mirrors that were not stopped and whose copies differ,
//! and beside writes that are under way.

use crate::common;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use array::geometry::{Copies, Level};
use array::md::{Consistency, Uuid};
use array::{Array, MemberState, OpenOptions, Repair, add_checksums, checksum_room, format};
use common::rig::{BLOCK, CHUNK, Disk, SIZE, block, edit};
use common::superblocks;
use device::filter::{Delay, Effect, Faulty, Latency, Rule};
use device::{Buffer, Device, DeviceError, Extent, MemoryDevice, Operation, Request, Shape};
use futures_util::future::{join, join_all};
use runtime::Runtime;
use units::{Bytes, Duration};

type Case = (Level, usize, Consistency);

const OLD: u64 = 1;
const NEW: u64 = 2;
/// The block whose copies differ.
const AT: Bytes = Bytes::kib(4 * 37);

fn mirrors() -> impl Iterator<Item = (Case, bool)> {
    let levels = [
        (Level::Raid1, 2),
        (Level::Raid1, 3),
        (Level::Raid10(Copies::near(2)), 3),
        (Level::Raid10(Copies::far(2)), 3),
        (Level::Raid10(Copies::offset(2)), 4),
        (Level::Raid10(Copies::near(3)), 4),
    ];
    let ways = [Consistency::Resync, Consistency::Bitmap];
    let all = levels.into_iter().flat_map(move |(level, members)| ways.map(|way| (level, members, way)));
    all.flat_map(|case| [(case, false), (case, true)])
}

/// An array that was not stopped. Of one block one copy has a newer value than the others.
struct Torn {
    runtime: Runtime,
    disks: Vec<Disk>,
    /// Members with a copy of the block, in the order in which they are believed.
    holders: Vec<usize>,
    places: Vec<(usize, Bytes)>,
}

fn value(buffer: &Buffer) -> u64 {
    let bytes = buffer.bytes().unwrap();
    assert!(bytes.chunks(8).all(|word| word == &bytes[..8]), "a mixture");
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

fn disk(runtime: &Runtime, number: u64) -> Disk {
    let memory = MemoryDevice::new(runtime, Shape::new(format!("disk {number}"), SIZE));
    let latency = Latency::Uniform(Duration::micros(1), Duration::micros(200));
    Rc::new(Faulty::new(runtime, Delay::new(runtime, memory, latency, number), number))
}

async fn read_of(array: &Array<Disk>, at: Bytes) -> u64 {
    let reply = array.submit(Request::read(at, Buffer::zeroed(BLOCK))).await;
    reply.result.unwrap();
    value(&reply.buffer.unwrap())
}

impl Torn {
    /// Of the copies, this one is newer.
    fn new(case: Case, sums: bool, newer: usize) -> Torn {
        let runtime = Runtime::simulated();
        let room = if sums { checksum_room(SIZE) } else { Bytes::ZERO };
        let superblocks = superblocks(case, CHUNK, SIZE - room, 1);
        let disks: Vec<Disk> = (0..case.1 as u64).map(|number| disk(&runtime, number)).collect();
        if sums {
            runtime.block_on(add_checksums(&disks, &superblocks)).unwrap();
        }
        runtime.block_on(format(&disks, &superblocks)).unwrap();
        let mut torn = Torn { runtime, disks, holders: Vec::new(), places: Vec::new() };
        let array = torn.open();
        let geometry = array.geometry();
        for copy in 0..geometry.copies() {
            let place = geometry.copy(AT, copy);
            torn.holders.push(place.member);
            torn.places.push((place.member, superblocks[place.member].data_offset + place.offset));
        }
        for at in [AT - BLOCK, AT, AT + BLOCK] {
            torn.runtime.block_on(array.submit(Request::write(at, block(OLD)))).result.unwrap();
        }
        drop(array);
        let (member, at) = torn.places[newer];
        torn.runtime.block_on(torn.disks[member].submit(Request::write(at, block(NEW)))).result.unwrap();
        torn
    }

    fn open(&self) -> Array<Disk> {
        self.open_with(self.disks.clone())
    }

    fn open_with(&self, disks: Vec<Disk>) -> Array<Disk> {
        let opened = self.runtime.block_on(Array::open(&self.runtime, "array", disks, OpenOptions::default()));
        opened.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Reads the block again and again while others are read, so that each copy is the least busy one at some time.
    fn read(&self, array: &Array<Disk>) -> u64 {
        let values = self.runtime.block_on(async {
            let mut values = Vec::new();
            for round in 0..12u64 {
                let noise = (0..round % 5).map(|number| read_of(array, AT + CHUNK * (3 * number + round)));
                values.push(join(read_of(array, AT), join_all(noise)).await.0);
            }
            values
        });
        assert!(values.iter().all(|other| *other == values[0]), "{values:?}");
        values[0]
    }

    /// What each copy holds.
    fn copies(&self) -> Vec<u64> {
        let of = |(member, at): &(usize, Bytes)| {
            let read = self.disks[*member].submit(Request::read(*at, Buffer::zeroed(BLOCK)));
            value(&self.runtime.block_on(read).buffer.unwrap())
        };
        self.places.iter().map(of).collect()
    }
}

/// Every mirror, with every copy the newer one.
fn every(test: impl Fn(Torn, String)) {
    for (case, sums) in mirrors() {
        let copies = match case.0 {
            Level::Raid10(copies) => copies.count() as usize,
            _ => case.1,
        };
        for newer in 0..copies {
            test(Torn::new(case, sums, newer), format!("{case:?}, checksums {sums}, copy {newer} is newer"));
        }
    }
}

#[test]
fn a_value_stays_however_often_the_server_is_killed_and_however_its_devices_are_given() {
    every(|torn, case| {
        let array = torn.open();
        assert!(array.needs_resync(), "{case}");
        let first = torn.read(&array);
        drop(array);
        for turn in 0..torn.disks.len() {
            let mut disks = torn.disks.clone();
            disks.rotate_left(turn);
            assert_eq!(torn.read(&torn.open_with(disks)), first, "{case}");
        }
        let array = torn.open();
        assert!(torn.runtime.block_on(array.resync()).unwrap(), "{case}");
        assert_eq!(torn.read(&array), first, "{case}");
    });
}

#[test]
fn a_value_stays_when_the_members_that_it_was_read_from_are_missing_or_fail_and_when_they_come_back() {
    for turn in 0..2 {
        every(|torn, case| loses(&torn, torn.holders[turn], &case));
    }
}

fn loses(torn: &Torn, lost: usize, case: &str) {
    let array = torn.open();
    let first = torn.read(&array);
    array.fail(lost);
    assert_eq!(torn.read(&array), first, "{case}: {lost} fails");
    drop(array);
    let mut others = torn.disks.clone();
    others.remove(lost);
    let array = torn.open_with(others);
    assert_eq!(torn.read(&array), first, "{case}: {lost} is missing");
    drop(array);
    let array = torn.open();
    assert_eq!(torn.read(&array), first, "{case}: {lost} is back");
    assert_eq!(array.state(lost), MemberState::Failed, "{case}: the others went on without it");
    let new = disk(&torn.runtime, 90 + lost as u64);
    let at = array.member_layout().unwrap().data_offset;
    torn.runtime.block_on(array.rebuild(lost, new, at, Uuid([0x90 + lost as u8; 16]))).unwrap();
    torn.holders.iter().filter(|other| **other != lost).for_each(|other| array.fail(*other));
    assert_eq!(torn.read(&array), first, "{case}: {lost} was rebuilt, and is alone");
}

#[test]
fn what_failed_before_the_first_read_is_not_believed_after_the_next_start() {
    every(|torn, case| {
        let lost = torn.holders[0];
        let array = torn.open();
        array.fail(lost);
        let first = torn.read(&array);
        drop(array);
        // It is there again, and would be the first to be believed.
        let array = torn.open();
        assert_eq!(torn.read(&array), first, "{case}");
        assert_eq!(array.state(lost), MemberState::Failed, "{case}");
    });
}

#[test]
fn the_first_read_makes_copies_equal_and_a_block_beside_it_is_as_it_was() {
    every(|torn, case| {
        let array = torn.open();
        let beside =
            torn.runtime.block_on(async { (read_of(&array, AT - BLOCK).await, read_of(&array, AT + BLOCK).await) });
        assert_eq!(beside, (OLD, OLD), "{case}");
        let mut before = torn.copies();
        before.sort_unstable();
        assert_eq!((before[0], before[before.len() - 1]), (OLD, NEW), "{case}: nobody has read it");
        let first = torn.read(&array);
        assert!(torn.copies().iter().all(|copy| *copy == first), "{case}");
    });
}

#[test]
fn a_value_that_came_from_another_copy_as_the_first_could_not_be_read_stays() {
    every(|torn, case| {
        let (first, at) = torn.places[0];
        let error = DeviceError::Medium { offset: at, length: Bytes::SECTOR };
        let rule = Rule::new(Effect::Fail(error)).on(Operation::Read).within(at..at + BLOCK);
        torn.disks[first].suffer_once(rule);
        let array = torn.open();
        let read = torn.read(&array);
        drop(array);
        assert!(torn.copies().iter().all(|copy| *copy == read), "{case}");
        assert_eq!(torn.read(&torn.open()), read, "{case}");
    });
}

#[test]
fn scrubs_that_repair_and_resyncs_believe_what_reads_believe() {
    every(|torn, case| {
        let array = torn.open();
        let holder = torn.holders[0];
        let found = torn.runtime.block_on(array.scrub(Repair::BelieveData)).unwrap();
        assert_eq!(found.mismatches, 8, "{case}");
        let copies = torn.copies();
        drop(array);
        let array = torn.open();
        assert_eq!(torn.read(&array), copies[0], "{case}: as member {holder} has it");
    });
}

#[test]
fn a_write_mostly_member_is_believed_last_by_reads_and_resyncs() {
    for resyncs in [false, true] {
        let torn = Torn::new((Level::Raid1, 3, Consistency::Bitmap), false, 0);
        edit_flags(&torn, 0);
        let array = torn.open();
        if resyncs {
            torn.runtime.block_on(array.resync()).unwrap();
        }
        assert_eq!(torn.read(&array), OLD, "what member 0 alone has is not believed");
        assert_eq!(torn.copies(), [OLD; 3]);
    }
}

/// Has a member be write-mostly.
fn edit_flags(torn: &Torn, member: usize) {
    const WRITE_MOSTLY: u8 = 1;
    edit(&torn.runtime, &torn.disks[member], |superblock| superblock.member_flags |= WRITE_MOSTLY);
}

#[test]
fn members_that_take_no_writes_are_read_by_the_first_copy_and_none_is_lost() {
    every(|torn, case| {
        // Checksums are written to where an array is opened that was not stopped.
        if case.contains("checksums true") {
            return;
        }
        let refuse = || Rule::new(Effect::Fail(DeviceError::ReadOnly)).on(Operation::Write);
        torn.disks.iter().for_each(|disk| disk.add(refuse()));
        let first = torn.copies()[0];
        for turn in 0..torn.disks.len() {
            let mut disks = torn.disks.clone();
            disks.rotate_left(turn);
            let array = torn.open_with(disks);
            assert_eq!(torn.read(&array), first, "{case}");
            assert!(array.is_complete(), "{case}");
        }
    });
}

#[test]
fn an_array_that_is_served_before_it_is_in_sync_takes_writes_there() {
    every(|torn, case| {
        let array = torn.open();
        let half = Bytes::SECTOR * 4;
        let mut data = Buffer::zeroed(half);
        data.bytes_mut().unwrap().fill(7);
        torn.runtime.block_on(array.submit(Request::write(AT, data.freeze()))).result.unwrap();
        let read = || {
            let reply = torn.runtime.block_on(array.submit(Request::read(AT, Buffer::zeroed(BLOCK))));
            reply.buffer.unwrap().bytes().unwrap().to_vec()
        };
        let first = read();
        assert!(first[..half.as_usize()].iter().all(|byte| *byte == 7), "{case}");
        for member in &torn.holders[1..] {
            array.fail(*member);
            assert_eq!(read(), first, "{case}");
        }
    });
}

#[test]
fn beside_writes_nothing_older_is_read_than_was_read_before_and_what_was_read_is_on_all_copies() {
    for level in [(Level::Raid1, 3), (Level::Raid10(Copies::near(2)), 4), (Level::Raid10(Copies::far(2)), 3)] {
        let torn = Torn::new((level.0, level.1, Consistency::Bitmap), false, 0);
        let array = torn.open();
        torn.runtime.block_on(array.resync()).unwrap();
        let (newest, over, early) = (Cell::new(0), Cell::new(false), Cell::new(0));
        let on_copies = RefCell::new(Vec::new());
        torn.runtime.block_on(async {
            let writer = async {
                for number in 10..200 {
                    array.submit(Request::write(AT, block(number))).await.result.unwrap();
                }
                over.set(true);
            };
            let reader = || async {
                while !over.get() {
                    let before = newest.get();
                    let now = read_of(&array, AT).await;
                    assert!(now >= before, "{level:?}: {now} after {before}");
                    early.set(early.get() + u64::from(now > before));
                    newest.set(newest.get().max(now));
                    let (member, at) = torn.places[(now % torn.places.len() as u64) as usize];
                    let copy = torn.disks[member].submit(Request::read(at, Buffer::zeroed(BLOCK))).await;
                    on_copies.borrow_mut().push((now, value(&copy.buffer.unwrap())));
                }
            };
            join(writer, join_all((0..4).map(|_| reader()))).await;
        });
        assert!(early.get() > 20, "{level:?}: readers meet writes, {}", early.get());
        assert!(on_copies.borrow().iter().all(|(read, copy)| copy >= read), "{level:?}");
    }
}

/// One fault, and then none.
trait Once {
    fn suffer_once(&self, rule: Rule);
}

impl Once for Disk {
    fn suffer_once(&self, rule: Rule) {
        self.add(rule.times(1));
    }
}

#[test]
fn what_is_known_of_holes_is_not_told_where_copies_may_differ() {
    let runtime = Runtime::simulated();
    let superblocks = superblocks((Level::Raid1, 2, Consistency::Resync), CHUNK, SIZE, 1);
    let disk = |number| Rc::new(MemoryDevice::new(&runtime, Shape::new(format!("disk {number}"), SIZE)));
    let disks: Vec<Rc<MemoryDevice>> = (0..2).map(disk).collect();
    runtime.block_on(format(&disks, &superblocks)).unwrap();
    let open = || runtime.block_on(Array::open(&runtime, "array", disks.clone(), OpenOptions::default())).unwrap();
    let array = open();
    runtime.block_on(array.submit(Request::write(Bytes::ZERO, block(OLD)))).result.unwrap();
    let known = array.extent(Bytes::mib(1), BLOCK);
    assert_ne!(known, Extent::data(BLOCK), "memory knows where nothing was written");
    drop(array);
    let array = open();
    assert_eq!(array.extent(Bytes::mib(1), BLOCK), Extent::data(BLOCK));
    runtime.block_on(array.resync()).unwrap();
    assert_eq!(array.extent(Bytes::mib(1), BLOCK), known);
}
