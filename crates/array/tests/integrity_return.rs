//! Members that keep checksums leave and come back: they get what they missed, keep the sums of the rest, and no sum is
//! believed that may be of something else.

use crate::common;

use std::pin::pin;
use std::rc::Rc;

use array::geometry::{Copies, DoubleRotation, Level, Rotation};
use array::md::{Consistency, Features, SUPERBLOCK_AT, Stamp};
use array::{Array, MemberState};
use common::bed::{BLOCK, Bed, Disk, assert_holds, fill, write};
use device::{Buffer, Device, Request};
use futures_util::future::{join, select};
use units::{Bytes, Duration};

const CASES: [(Level, usize, Consistency); 4] = [
    (Level::Raid1, 2, Consistency::Bitmap),
    (Level::Raid5(Rotation::LeftSymmetric), 4, Consistency::Bitmap),
    (Level::Raid6(DoubleRotation::Together(Rotation::LeftSymmetric)), 4, Consistency::Bitmap),
    (Level::Raid10(Copies::near(2)), 3, Consistency::Bitmap),
];

/// Sectors of a member: one where the first blocks of the array are, which are written while it is away, and one far
/// from there.
const WRITTEN: u64 = 3;
const FAR: u64 = 1500;

/// The first blocks of the array get other values.
fn write_some(bed: &Bed, array: &Array<Disk>, values: &mut [u64], from: u64) {
    for number in 0..5 {
        write(bed, array, number, from + number);
        values[number as usize] = from + number;
    }
}

/// Has member 1 come back: it was given at the start, or is now.
fn come_back(bed: &Bed, array: &Array<Disk>) {
    let lost = match array.returning().is_empty() {
        false => bed.runtime.block_on(array.bring_back(1)).expect("it was given"),
        true => {
            let superblock = bed.superblock(&bed.disks[1]);
            assert_eq!(array.may_return(&superblock), Some(1), "{:?}", bed.case);
            bed.runtime.block_on(array.readd(Rc::clone(&bed.disks[1]), &superblock))
        }
    };
    assert_eq!(lost.unwrap(), [], "{:?}", bed.case);
    assert_eq!(array.state(1), MemberState::Active, "{:?}", bed.case);
}

/// Blocks of member 1 that did not fit since the array was opened, once all of it was read.
fn found(bed: &Bed, array: &Array<Disk>) -> u64 {
    bed.scrubbed(array);
    assert!((0..bed.case.1).all(|member| member == 1 || array.counts(member).corrupt == 0), "{:?}", bed.case);
    array.counts(1).corrupt
}

/// An array that was stopped while all was there, and what it holds.
fn stopped(case: (Level, usize, Consistency)) -> (Bed, Vec<u64>) {
    let bed = Bed::new(case);
    let array = bed.open();
    let values = fill(&bed, &array, 1 << 20);
    bed.stop(array);
    (bed, values)
}

/// The same, after it was used without member 1.
fn used_without_one(case: (Level, usize, Consistency)) -> (Bed, Vec<u64>) {
    let (mut bed, mut values) = stopped(case);
    let away = bed.disks.remove(1);
    let array = bed.open();
    write_some(&bed, &array, &mut values, 1 << 30);
    bed.stop(array);
    bed.disks.insert(1, away);
    (bed, values)
}

#[test]
fn a_member_that_missed_a_start_gets_what_it_missed_and_what_rotted_meanwhile_is_found() {
    for case in CASES {
        let (bed, mut values) = used_without_one(case);
        [WRITTEN, FAR].iter().for_each(|sector| bed.rot(&bed.disks[1], *sector));
        let array = bed.open();
        assert_eq!(array.state(1), MemberState::Failed, "{case:?}");
        write_some(&bed, &array, &mut values, 1 << 31);
        come_back(&bed, &array);
        // Not looked at, let alone written.
        assert_eq!((bed.rotten(&bed.disks[1]), array.counts(1).corrupt), (1, 0), "{case:?}");
        assert_holds(&bed, &array, &values);
        assert_eq!(found(&bed, &array), 1, "{case:?}");
        assert_eq!(bed.rotten(&bed.disks[1]), 0, "{case:?}");
        bed.stop(array);
        assert_eq!(bed.renewed_and_open(&bed.disks[1]), (0, 0), "{case:?}");
        // All sums are on it: of what it got, and of what it kept.
        let array = bed.open();
        [WRITTEN, FAR].iter().for_each(|sector| bed.rot(&bed.disks[1], *sector));
        assert_eq!(found(&bed, &array), 2, "{case:?}");
        array.fail(0);
        assert_holds(&bed, &array, &values);
    }
}

#[test]
fn a_member_that_failed_in_service_comes_back_with_the_sums_it_had() {
    for case in CASES {
        let (bed, mut values) = stopped(case);
        let array = bed.open();
        for round in 0..3 {
            write_some(&bed, &array, &mut values, (10 + round) << 30);
            array.fail(1);
            write_some(&bed, &array, &mut values, (20 + round) << 30);
            [WRITTEN, FAR].iter().for_each(|sector| bed.rot(&bed.disks[1], *sector));
            come_back(&bed, &array);
            assert_eq!(bed.rotten(&bed.disks[1]), 1, "{case:?}");
            assert_holds(&bed, &array, &values);
            assert_eq!(found(&bed, &array), round + 1, "{case:?}");
            // What was healed has its sum stored.
            bed.runtime.block_on(select(pin!(array.tend()), pin!(bed.runtime.sleep(Duration::seconds(11)))));
        }
        array.fail(0);
        assert_holds(&bed, &array, &values);
    }
}

#[test]
fn what_has_lost_its_sum_is_filled_though_the_bitmap_calls_it_current() {
    for case in [CASES[0], CASES[1]] {
        let mut filled = [false; 2];
        for step in 0..24 {
            let (bed, mut values) = stopped(case);
            let array = bed.open();
            let far = values.len() as u64 / 2;
            write(&bed, &array, far, 4711);
            values[far as usize] = 4711;
            let place = array.geometry().place(BLOCK * far);
            assert!(place.member == 1 || case.0 == Level::Raid1);
            // Ten seconds after the write its bit is cleared, then its sum is stored and the mark taken away. The
            // member leaves meanwhile.
            let leaves = Duration::seconds(10) + Duration::micros(25) * step;
            bed.runtime.block_on(select(pin!(array.tend()), pin!(bed.runtime.sleep(leaves))));
            array.fail(1);
            bed.rot(&bed.disks[1], place.offset / Bytes::SECTOR);
            let marked = array.marked_regions().unwrap().0;
            write_some(&bed, &array, &mut values, 1 << 30);
            come_back(&bed, &array);
            if marked == 0 {
                filled[usize::from(bed.rotten(&bed.disks[1]) == 0)] = true;
            }
            assert_holds(&bed, &array, &values);
            assert!(found(&bed, &array) <= 1, "{case:?}, {leaves}");
            assert_eq!(bed.rotten(&bed.disks[1]), 0, "{case:?}, {leaves}");
        }
        assert_eq!(filled, [true; 2], "{case:?}: both the mark and the sum were met");
    }
}

#[test]
fn a_member_that_something_used_without_its_sums_is_filled_whole() {
    for case in CASES {
        let (bed, values) = used_without_one(case);
        // As md leaves it: another superblock, and data that the sums are not of.
        let mut superblock = bed.superblock(&bed.disks[1]);
        superblock.updated = Stamp(77);
        let mut buffer = Buffer::zeroed(BLOCK);
        buffer.bytes_mut().unwrap().copy_from_slice(&superblock.to_bytes());
        bed.runtime.block_on(bed.disks[1].submit(Request::write(SUPERBLOCK_AT, buffer.freeze()))).result.unwrap();
        bed.rot(&bed.disks[1], FAR);
        let array = bed.open();
        come_back(&bed, &array);
        assert_eq!(bed.rotten(&bed.disks[1]), 0, "{case:?}");
        assert_eq!(found(&bed, &array), 0, "{case:?}");
        assert_holds(&bed, &array, &values);
    }
}

#[test]
fn a_return_that_the_power_cut_meets_goes_on_and_believes_no_stale_sum() {
    for case in CASES {
        let mut states = [0; 3];
        for after in (0..16).map(|step| Duration::micros(30) * step * step) {
            let (bed, values) = used_without_one(case);
            bed.rot(&bed.disks[1], FAR);
            let array = bed.open();
            let returning = async { array.bring_back(1).await };
            bed.runtime.block_on(select(pin!(returning), pin!(bed.runtime.sleep(after))));
            drop(array);
            let array = bed.open();
            match array.state(1) {
                MemberState::Failed => {
                    states[0] += 1;
                    come_back(&bed, &array);
                }
                MemberState::Rebuilding(_) => {
                    states[1] += 1;
                    assert_holds(&bed, &array, &values);
                    assert_eq!(array.returning(), [], "{case:?}");
                    assert_eq!(bed.runtime.block_on(array.resume_rebuild(1)).unwrap(), [], "{case:?}");
                }
                MemberState::Active => states[2] += 1,
            }
            assert!(bed.runtime.block_on(array.resync()).unwrap(), "{case:?}, {after}");
            assert!(found(&bed, &array) <= 1, "{case:?}, {after}");
            assert_eq!(bed.rotten(&bed.disks[1]), 0, "{case:?}, {after}");
            assert_holds(&bed, &array, &values);
            array.fail(0);
            assert_holds(&bed, &array, &values);
        }
        assert!(states.iter().all(|count| *count > 0), "{case:?}: {states:?}");
    }
}

#[test]
fn a_second_member_is_lost_during_a_return_and_comes_back_too() {
    let case = CASES[2];
    for after in (0..12).map(|step| Duration::micros(150) * step) {
        let (mut bed, mut values) = used_without_one(case);
        let array = bed.open();
        let lose = async {
            bed.runtime.sleep(after).await;
            array.fail(0);
        };
        let (returned, ()) = bed.runtime.block_on(join(array.bring_back(1), lose));
        assert_eq!(returned.expect("it was given").unwrap(), [], "{after}");
        write_some(&bed, &array, &mut values, 1 << 31);
        assert_holds(&bed, &array, &values);
        let superblock = bed.superblock(&bed.disks[0]);
        bed.rot(&bed.disks[0], FAR);
        assert_eq!(bed.runtime.block_on(array.readd(Rc::clone(&bed.disks[0]), &superblock)).unwrap(), []);
        assert_eq!(bed.scrubbed(&array), [1, 0, 0, 0], "{after}");
        assert_holds(&bed, &array, &values);
        bed.stop(array);
        bed.disks.swap(0, 3);
        let array = bed.open();
        assert_eq!(bed.scrubbed(&array), [0; 4], "{after}");
    }
}

#[test]
fn a_member_with_bad_blocks_does_not_come_back_by_the_bitmap() {
    let (bed, _) = used_without_one(CASES[1]);
    let array = bed.open();
    let mut superblock = bed.superblock(&bed.disks[1]);
    assert_eq!(array.may_return(&superblock), Some(1));
    superblock.features = superblock.features.with(Features::BAD_BLOCKS);
    assert_eq!(array.may_return(&superblock), None);
}
