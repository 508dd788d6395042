//! Checksums of members: what a disk gives wrongly without an error is found when it is read, and healed.

use std::rc::Rc;

use array::geometry::{Copies, DoubleRotation, Geometry, Level, Rotation};
use array::md::{self, Consistency, NewArray, NewMember, SUPERBLOCK_AT, Stamp, Superblock, Uuid};
use array::{Array, MemberState, OpenOptions, Repair, add_checksums, checksum_room, checksums_of, format};
use device::filter::{Damage, Effect, Faulty, Medium, Rule};
use device::{Buffer, Data, Device, DeviceError, MemoryDevice, Operation, Request, Shape};
use runtime::Runtime;
use units::Bytes;

const CHUNK: Bytes = Bytes::kib(8);
/// Of sums three pages.
const ROOM: Bytes = Bytes::kib(1200);

type Disk = Rc<Faulty<Medium<MemoryDevice>>>;

struct Bed {
    runtime: Runtime,
    disks: Vec<Disk>,
    geometry: Geometry,
    superblocks: Vec<Superblock>,
}

fn disk(runtime: &Runtime, name: usize, size: Bytes) -> Disk {
    let memory = MemoryDevice::new(runtime, Shape::new(format!("disk {name}"), size));
    Rc::new(Faulty::new(runtime, Medium::new(runtime, memory), 1))
}

impl Bed {
    fn new(level: Level, members: usize) -> Bed {
        let runtime = Runtime::simulated();
        let data = Bytes::mib(1) + ROOM;
        let size = data + checksum_room(data);
        let new = NewArray {
            level,
            chunk: CHUNK,
            name: "integrity".into(),
            array: Uuid([7; 16]),
            now: Stamp(0),
            consistency: Consistency::Resync,
            clean: true,
        };
        let sized: Vec<NewMember> =
            (0..members).map(|member| NewMember { size: data, member: Uuid([member as u8 + 1; 16]) }).collect();
        let (superblocks, geometry) = md::create(&new, &sized).unwrap();
        let disks: Vec<Disk> = (0..members).map(|member| disk(&runtime, member, size)).collect();
        runtime.block_on(async {
            add_checksums(&disks, &superblocks).await.unwrap();
            format(&disks, &superblocks).await.unwrap();
        });
        Bed { runtime, disks, geometry, superblocks }
    }

    fn open(&self) -> Array<Disk> {
        let opened = Array::open(&self.runtime, "array", self.disks.clone(), OpenOptions::default());
        let array = self.runtime.block_on(opened).unwrap();
        assert!(array.has_checksums());
        array
    }

    /// An array with something in it.
    fn filled(&self) -> Array<Disk> {
        let array = self.open();
        let request = Request::write(Bytes::ZERO, self.contents());
        self.runtime.block_on(array.submit(request)).result.unwrap();
        array
    }

    fn contents(&self) -> Data {
        let mut buffer = Buffer::zeroed(self.geometry.size());
        for (index, byte) in buffer.bytes_mut().unwrap().iter_mut().enumerate() {
            *byte = (index.wrapping_mul(0x9e37_79b9) >> 13) as u8;
        }
        buffer.freeze()
    }

    fn reads_well(&self, array: &Array<Disk>) {
        let reply =
            self.runtime.block_on(array.submit(Request::read(Bytes::ZERO, Buffer::zeroed(self.geometry.size()))));
        reply.result.unwrap();
        assert!(reply.buffer.unwrap().bytes() == self.contents().bytes(), "something else is read than was written");
    }

    /// Turns a bit over in a sector of a member's data.
    fn rot(&self, member: usize, sector: u64) {
        let at = self.superblocks[member].data_offset + Bytes::SECTOR * sector;
        self.disks[member].inner().damage(at..at + Bytes::SECTOR, Damage::Flipped(77));
    }
    fn rotten(&self) -> usize {
        self.disks.iter().map(|disk| disk.inner().damaged().len()).sum()
    }
    fn stop(&self, array: Array<Disk>) {
        self.runtime.block_on(array.stop()).unwrap();
    }
    fn found(&self, member: usize) -> u64 {
        let report = checksums_of(&self.disks[member], &self.superblocks[member]);
        self.runtime.block_on(report).unwrap().unwrap().found
    }
}

fn redundant() -> Vec<(Level, usize)> {
    vec![
        (Level::Raid1, 2),
        (Level::Raid4, 4),
        (Level::Raid5(Rotation::LeftSymmetric), 4),
        (Level::Raid6(DoubleRotation::default()), 5),
        (Level::Raid10(Copies::near(2)), 4),
        (Level::Raid10(Copies::far(2)), 3),
    ]
}

#[test]
fn bit_rot_is_found_by_reading_healed_and_counted_at_every_level() {
    for (level, members) in redundant() {
        let bed = Bed::new(level, members);
        let array = bed.filled();
        bed.rot(1, 5);
        bed.rot(0, 40);
        // Where several copies are read from is chosen by load, so reading alone need not meet the rotten ones.
        bed.reads_well(&array);
        let scrubbed = bed.runtime.block_on(array.scrub(Repair::No)).unwrap();
        assert_eq!((scrubbed.mismatches, scrubbed.unreadable, bed.rotten()), (0, 0, 0), "{level}");
        assert_eq!((array.counts(0).corrupt, array.counts(1).corrupt), (1, 1), "{level}");
        bed.reads_well(&array);
        bed.stop(array);
        assert_eq!((bed.found(0), bed.found(1)), (1, 1), "{level}");
    }
}

#[test]
fn a_scrub_names_the_member_that_is_wrong_at_levels_1_4_5_and_10_too() {
    for (level, members) in redundant() {
        let bed = Bed::new(level, members);
        let array = bed.filled();
        bed.stop(array);
        // After a restart it is what lies on the members that is believed.
        let array = bed.open();
        bed.rot(1, 3);
        bed.rot(1, 20);
        let scrubbed = bed.runtime.block_on(array.scrub(Repair::No)).unwrap();
        let mut expected = vec![0; members];
        expected[1] = 2;
        assert_eq!((scrubbed.corrupt, scrubbed.mismatches, bed.rotten()), (expected, 0, 0), "{level}");
        bed.reads_well(&array);
    }
}

#[test]
fn a_write_that_the_disk_lost_is_found() {
    for (level, members) in redundant() {
        let bed = Bed::new(level, members);
        let array = bed.filled();
        let data = bed.superblocks[0].data_offset..Bytes::new(u64::MAX);
        let mut buffer = Buffer::zeroed(Bytes::kib(4));
        buffer.bytes_mut().unwrap().fill(0x5a);
        let block = buffer.freeze();
        for member in 0..members {
            bed.disks[member].add(Rule::new(Effect::Lose).on(Operation::Write).within(data.clone()).times(1));
            let request = Request::write(Bytes::ZERO, block.clone());
            bed.runtime.block_on(array.submit(request)).result.unwrap();
            bed.disks[member].clear_rules();
            let reply = bed.runtime.block_on(array.submit(Request::read(Bytes::ZERO, Buffer::zeroed(Bytes::kib(4)))));
            reply.result.unwrap();
            assert!(reply.buffer.unwrap().bytes() == block.bytes(), "{level}, member {member}: the old bytes are read");
            let scrubbed = bed.runtime.block_on(array.scrub(Repair::No)).unwrap();
            assert_eq!((scrubbed.mismatches, scrubbed.unreadable), (0, 0), "{level}, member {member}");
            let request = Request::write(Bytes::ZERO, bed.contents().slice(Bytes::ZERO, Bytes::kib(4)));
            bed.runtime.block_on(array.submit(request)).result.unwrap();
        }
        bed.reads_well(&array);
    }
}

#[test]
fn a_write_that_landed_elsewhere_is_found_in_both_places() {
    for (level, members) in redundant() {
        let bed = Bed::new(level, members);
        let array = bed.filled();
        let data = bed.superblocks[0].data_offset..bed.superblocks[0].data_offset + Bytes::kib(64);
        let astray = Rule::new(Effect::Misdirect(Bytes::kib(16))).on(Operation::Write).within(data).times(1);
        bed.disks[1].add(astray);
        let request = Request::write(Bytes::ZERO, bed.contents().slice(Bytes::ZERO, Bytes::kib(24)));
        bed.runtime.block_on(array.submit(request)).result.unwrap();
        assert_eq!(bed.disks[1].suffered(), 1, "{level}: nothing went astray");
        bed.reads_well(&array);
        let scrubbed = bed.runtime.block_on(array.scrub(Repair::No)).unwrap();
        assert_eq!((scrubbed.mismatches, scrubbed.unreadable), (0, 0), "{level}");
        bed.reads_well(&array);
        // The same bytes were written, so where they were not is no different; where they landed is.
        assert!(array.counts(1).corrupt > 0, "{level}");
    }
}

#[test]
fn what_is_rotten_on_two_members_of_a_level_5_is_an_error_not_a_wrong_byte() {
    let bed = Bed::new(Level::Raid5(Rotation::LeftSymmetric), 4);
    let array = bed.filled();
    bed.rot(0, 0);
    bed.rot(1, 0);
    let first = bed.geometry.place(Bytes::ZERO).member;
    let mut errors = 0;
    for chunk in 0..3u64 {
        let at = CHUNK * chunk;
        let reply = bed.runtime.block_on(array.submit(Request::read(at, Buffer::zeroed(Bytes::SECTOR))));
        match reply.result {
            Ok(()) => {
                let expected = bed.contents().slice(at, Bytes::SECTOR);
                assert!(reply.buffer.unwrap().bytes() == expected.bytes(), "chunk {chunk} is wrong");
            }
            Err(DeviceError::Medium { .. }) => errors += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(errors, if first < 2 { 2 } else { 1 });
    let states: Vec<MemberState> = (0..4).map(|member| array.state(member)).collect();
    assert!(states.iter().all(|state| *state == MemberState::Active), "{states:?}");
}

#[test]
fn a_level_without_redundancy_says_that_bytes_are_wrong() {
    let bed = Bed::new(Level::Raid0(Default::default()), 2);
    let array = bed.filled();
    bed.rot(0, 0);
    let reply = bed.runtime.block_on(array.submit(Request::read(Bytes::ZERO, Buffer::zeroed(Bytes::SECTOR))));
    assert!(matches!(reply.result, Err(DeviceError::Medium { .. })), "{:?}", reply.result);
}

#[test]
fn little_memory_for_sums_is_enough() {
    let bed = Bed::new(Level::Raid5(Rotation::LeftSymmetric), 4);
    let array = bed.open();
    array.set_checksum_memory(Bytes::kib(4));
    let request = Request::write(Bytes::ZERO, bed.contents());
    bed.runtime.block_on(array.submit(request)).result.unwrap();
    bed.rot(2, 100);
    bed.rot(2, 2200);
    bed.reads_well(&array);
    bed.stop(array);
    let array = bed.open();
    array.set_checksum_memory(Bytes::kib(4));
    bed.rot(2, 300);
    bed.rot(2, 1111);
    bed.rot(2, 2300);
    let scrubbed = bed.runtime.block_on(array.scrub(Repair::No)).unwrap();
    // Of the first two, what lies in parity was not read before.
    let (on_it, everywhere) = (scrubbed.corrupt[2], scrubbed.corrupt.iter().sum::<u64>());
    assert!((3..=5).contains(&on_it) && on_it == everywhere, "{scrubbed:?}");
    assert_eq!((scrubbed.mismatches, bed.rotten()), (0, 0));
}

#[test]
fn a_member_that_is_rebuilt_keeps_sums_too() {
    let bed = Bed::new(Level::Raid5(Rotation::LeftSymmetric), 4);
    let array = bed.filled();
    array.fail(2);
    let fresh = disk(&bed.runtime, 9, bed.disks[2].shape().size);
    let offset = bed.superblocks[2].data_offset;
    let lost = bed.runtime.block_on(array.rebuild(2, Rc::clone(&fresh), offset, Uuid([99; 16]))).unwrap();
    assert_eq!(lost, []);
    let at = offset + Bytes::kib(12);
    fresh.inner().damage(at..at + Bytes::SECTOR, Damage::Flipped(1));
    let scrubbed = bed.runtime.block_on(array.scrub(Repair::No)).unwrap();
    assert_eq!((scrubbed.corrupt, scrubbed.mismatches), (vec![0, 0, 1, 0], 0));
    // One without the room for them is refused.
    array.fail(2);
    let small = disk(&bed.runtime, 10, offset + ROOM);
    let refused = bed.runtime.block_on(array.rebuild(2, small, offset, Uuid([98; 16])));
    assert!(matches!(refused, Err(DeviceError::OutOfRange { .. })), "{refused:?}");
}

#[test]
fn sums_that_somebody_left_behind_are_forgotten() {
    let bed = Bed::new(Level::Raid1, 2);
    let array = bed.filled();
    bed.stop(array);
    // Another program writes data and superblocks, and knows nothing of sums.
    for (disk, superblock) in bed.disks.iter().zip(&bed.superblocks) {
        let reply = bed.runtime.block_on(disk.submit(Request::read(SUPERBLOCK_AT, Buffer::zeroed(Bytes::kib(4)))));
        let mut changed = Superblock::parse(reply.buffer.unwrap().bytes().unwrap()).unwrap();
        (changed.events, changed.updated) = (changed.events + 2, Stamp(5));
        let mut buffer = Buffer::zeroed(Bytes::kib(4));
        buffer.bytes_mut().unwrap().copy_from_slice(&changed.to_bytes());
        bed.runtime.block_on(disk.submit(Request::write(SUPERBLOCK_AT, buffer.freeze()))).result.unwrap();
        let mut buffer = Buffer::zeroed(Bytes::SECTOR);
        buffer.bytes_mut().unwrap().fill(3);
        bed.runtime.block_on(disk.submit(Request::write(superblock.data_offset, buffer.freeze()))).result.unwrap();
    }
    let array = bed.open();
    let reply = bed.runtime.block_on(array.submit(Request::read(Bytes::ZERO, Buffer::zeroed(Bytes::SECTOR))));
    reply.result.unwrap();
    assert_eq!(reply.buffer.unwrap().bytes().unwrap(), [3; 512]);
    assert_eq!(array.counts(0).corrupt + array.counts(1).corrupt, 0);
    bed.stop(array);
    for (disk, superblock) in bed.disks.iter().zip(&bed.superblocks) {
        let report = bed.runtime.block_on(checksums_of(disk, superblock)).unwrap().unwrap();
        assert_eq!((report.renewed, report.open_regions), (1, 0));
    }
}

#[test]
fn damaged_sums_do_no_harm() {
    let bed = Bed::new(Level::Raid5(Rotation::LeftSymmetric), 3);
    let array = bed.filled();
    bed.stop(array);
    // The newer header, the older one, and a page.
    for member in 0..3 {
        let superblock = &bed.superblocks[member];
        let area = superblock.data_offset + superblock.data_size;
        let at = area + Bytes::kib(4) * member as u64;
        bed.disks[member].inner().damage(at..at + Bytes::SECTOR, Damage::Flipped(500));
    }
    let array = bed.open();
    bed.reads_well(&array);
    assert_eq!((0..3).map(|member| array.counts(member).corrupt).sum::<u64>(), 0);
    // Read once, all of it is known again.
    bed.rot(1, 9);
    bed.reads_well(&array);
    let scrubbed = bed.runtime.block_on(array.scrub(Repair::No)).unwrap();
    assert_eq!((scrubbed.mismatches, array.counts(1).corrupt), (0, 1));
}

#[test]
fn a_small_write_into_a_warm_region_costs_no_further_request() {
    let with = Bed::new(Level::Raid5(Rotation::LeftSymmetric), 4);
    let array = with.filled();
    let count = |array: &Array<Disk>| {
        let seen = Rule::new(Effect::Stall(units::Duration::ZERO));
        with.disks.iter().for_each(|disk| disk.add(seen.clone()));
        let before: u64 = with.disks.iter().map(|disk| disk.suffered()).sum();
        let block = with.contents().slice(Bytes::ZERO, Bytes::kib(4));
        with.runtime.block_on(array.submit(Request::write(Bytes::kib(4), block))).result.unwrap();
        let after: u64 = with.disks.iter().map(|disk| disk.suffered()).sum();
        with.disks.iter().for_each(|disk| disk.clear_rules());
        after - before
    };
    // Two reads, two writes.
    assert_eq!(count(&array), 4);
    with.stop(array);
    let array = with.open();
    // After a start also: dirty on all members with a header each, and of the two that are read and written a page of
    // sums and a mark.
    assert_eq!(count(&array), 4 + 2 * 4 + 2 + 2);
}

#[test]
fn after_a_power_cut_rot_is_healed_where_nothing_was_being_written() {
    let bed = Bed::new(Level::Raid5(Rotation::LeftSymmetric), 4);
    let array = bed.filled();
    bed.stop(array);
    let array = bed.open();
    // The second region of 64 KiB is quiet, the first is not.
    let request = Request::write(Bytes::ZERO, bed.contents().slice(Bytes::ZERO, Bytes::kib(4)));
    bed.runtime.block_on(array.submit(request)).result.unwrap();
    drop(array);
    bed.rot(1, 200);
    let array = bed.open();
    assert!(array.is_dirty());
    assert!(bed.runtime.block_on(array.resync()).unwrap(), "redundancy does not fit after the resync");
    assert_eq!((bed.rotten(), array.counts(1).corrupt), (0, 1));
    bed.reads_well(&array);
}

#[test]
fn marks_of_what_was_under_way_stay_until_the_resync_has_passed() {
    let bed = Bed::new(Level::Raid5(Rotation::LeftSymmetric), 4);
    drop(bed.filled());
    // Without a member, and so without a resync; but it is tended.
    let options = OpenOptions { force_dirty_degraded: true };
    let opened = Array::open(&bed.runtime, "array", bed.disks[1..].to_vec(), options);
    let array = bed.runtime.block_on(opened).unwrap();
    assert!(array.needs_resync());
    let tended = Box::pin(array.tend());
    let while_idle = Box::pin(bed.runtime.sleep(units::Duration::seconds(12)));
    bed.runtime.block_on(futures_util::future::select(tended, while_idle));
    let marks = bed.runtime.block_on(checksums_of(&bed.disks[1], &bed.superblocks[1])).unwrap().unwrap();
    assert!(marks.open_regions > 0, "{marks:?}");
}
