//! Members that keep checksums are replaced while they serve, and the array grows: sums go where the data go, and
//! nothing is believed that was not held against them.

use crate::common;

use std::cell::Cell;
use std::rc::Rc;

use array::checksum_area;
use array::geometry::Level;
use array::md::{Consistency, SUPERBLOCK_AT, Superblock, Uuid};
use array::{Array, GrowError, MemberState};
use common::bed::{BLOCK, Bed, CHUNK, Disk, LEVELS, assert_holds, block, disk, fill, write};
use device::filter::{Damage, Effect, Rule};
use device::{Buffer, Device, DeviceError, Operation, Request};
use units::{Bytes, Duration};

#[test]
fn rot_is_not_copied_to_the_disk_that_replaces_a_member() {
    for case in LEVELS {
        let mut bed = Bed::new(case);
        let array = bed.open();
        let values = fill(&bed, &array, 1 << 20);
        [3, 40, 41, 900].iter().for_each(|sector| bed.rot(&bed.disks[1], *sector));
        let (new, old) = (bed.spare(), Rc::clone(&bed.disks[1]));
        let copied = bed.runtime.block_on(array.replace(1, Rc::clone(&new), bed.data_offset, Uuid([9; 16])));
        assert_eq!(copied.unwrap(), [], "{case:?}");
        assert_eq!(array.counts(1).corrupt, 4, "{case:?}");
        bed.disks[1] = Rc::clone(&new);
        // From here on it is the new disk's own sums that count.
        bed.rot(&new, 17);
        bed.rot(&new, 2000);
        let mut wrong = vec![0; case.1];
        wrong[1] = 2;
        assert_eq!(bed.scrubbed(&array), wrong, "{case:?}");
        assert_eq!((bed.rotten(&new), bed.rotten(&old)), (0, 4), "{case:?}");
        assert_holds(&bed, &array, &values);
        bed.stop(array);
        assert_eq!(bed.renewed_and_open(&new), (0, 0), "{case:?}");
        // After a restart, too, and without the others' help.
        let array = bed.open();
        bed.rot(&new, 18);
        assert_eq!(bed.scrubbed(&array).iter().sum::<u64>(), 1, "{case:?}");
        array.fail(0);
        assert_holds(&bed, &array, &values);
    }
}

/// Writes and reads all over the array until it is told to end; what was read must be what was acknowledged.
fn load(
    bed: &Bed,
    array: &Rc<Array<Disk>>,
    values: &Rc<std::cell::RefCell<Vec<u64>>>,
    ending: &Rc<Cell<bool>>,
) -> Vec<runtime::JoinHandle<()>> {
    let one = |client: u64| {
        let (array, values, ending) = (Rc::clone(array), Rc::clone(values), Rc::clone(ending));
        let (own, case) = (bed.runtime.clone(), bed.case);
        bed.runtime.spawn(async move {
            let blocks = values.borrow().len() as u64;
            for round in 1u64.. {
                // Each has blocks of its own.
                let number = (round * 7919 % blocks) / 3 * 3 + client;
                if number < blocks && client < 2 {
                    array.submit(Request::write(BLOCK * number, block(round))).await.result.unwrap();
                    values.borrow_mut()[number as usize] = round;
                } else if number < blocks {
                    let reply = array.submit(Request::read(BLOCK * number, Buffer::zeroed(BLOCK))).await;
                    reply.result.unwrap();
                    let wanted = block(values.borrow()[number as usize]);
                    assert!(reply.buffer.unwrap().bytes() == wanted.bytes(), "{case:?}: block {number} is wrong");
                }
                own.sleep(Duration::micros(if client < 2 { 90 } else { 15 })).await;
                if ending.get() {
                    return;
                }
            }
        })
    };
    (0..3).map(one).collect()
}

#[test]
fn a_member_is_replaced_under_load_and_its_sums_with_it() {
    for case in LEVELS {
        for memory in [Bytes::mib(64), Bytes::kib(4)] {
            let mut bed = Bed::new(case);
            let array = bed.open();
            array.set_checksum_memory(memory);
            let values = Rc::new(std::cell::RefCell::new(fill(&bed, &array, 1 << 20)));
            let ending = Rc::new(Cell::new(false));
            let clients = load(&bed, &array, &values, &ending);
            let tending = bed.runtime.spawn({
                let array = Rc::clone(&array);
                async move { array.tend().await }
            });
            [5, 1111].iter().for_each(|sector| bed.rot(&bed.disks[0], *sector));
            let new = bed.spare();
            let copied = bed.runtime.block_on(array.replace(0, Rc::clone(&new), bed.data_offset, Uuid([9; 16])));
            assert_eq!(copied.unwrap(), [], "{case:?}");
            bed.disks[0] = Rc::clone(&new);
            bed.runtime.block_on(bed.runtime.sleep(Duration::millis(20)));
            ending.set(true);
            clients.into_iter().for_each(|client| bed.runtime.block_on(client));
            drop(tending);
            assert!((0..case.1).all(|member| array.state(member) == MemberState::Active), "{case:?}");
            // Healed where it was met, and found nowhere since.
            assert!(array.counts(0).corrupt <= 2, "{case:?}: {:?}", array.counts(0));
            assert_eq!(bed.scrubbed(&array).iter().sum::<u64>(), 0, "{case:?}");
            assert_holds(&bed, &array, &values.borrow());
            bed.rot(&new, 77);
            assert_eq!(bed.scrubbed(&array).iter().sum::<u64>(), 1, "{case:?}");
            bed.runtime.block_on(array.stop()).unwrap();
            assert_eq!(bed.renewed_and_open(&new), (0, 0), "{case:?}");
        }
    }
}

#[test]
fn what_was_copied_before_an_interruption_has_its_sums_after_it() {
    for case in LEVELS {
        for without_old in [false, true] {
            let mut bed = Bed::new(case);
            let array = bed.open();
            let values = fill(&bed, &array, 1 << 20);
            bed.stop(array);
            let array = bed.open();
            let new = bed.spare();
            array.watch(|progress| progress.done < progress.of / 2);
            let copied = bed.runtime.block_on(array.replace(1, Rc::clone(&new), bed.data_offset, Uuid([9; 16])));
            assert_eq!(copied.unwrap(), [], "{case:?}");
            assert_eq!(array.replacing().map(|(member, _)| member), Some(1), "{case:?}");
            // The power goes: there is no stop. What the mark covers is on the disk with its sums.
            drop(array);
            assert_eq!(bed.renewed_and_open(&new), (0, 0), "{case:?}");
            let old = std::mem::replace(&mut bed.disks[1], Rc::clone(&new));
            bed.rot(&new, 8);
            if without_old {
                let array = bed.open();
                assert!(matches!(array.state(1), MemberState::Rebuilding(upto) if !upto.is_zero()), "{case:?}");
                assert_holds(&bed, &array, &values);
                assert_eq!(bed.runtime.block_on(array.resume_rebuild(1)).unwrap(), []);
                bed.scrubbed(&array);
                assert_eq!(found(&array), 1, "{case:?}");
                assert_holds(&bed, &array, &values);
            } else {
                bed.disks.push(old);
                let array = bed.open();
                assert_eq!(array.replacing().map(|(member, _)| member), Some(1), "{case:?}");
                assert_eq!(bed.runtime.block_on(array.resume_replace(1)).unwrap(), []);
                assert!(Rc::ptr_eq(&*array.device(1).unwrap(), &new));
                assert_eq!(bed.scrubbed(&array).iter().sum::<u64>(), 1, "{case:?}");
                assert_eq!(bed.rotten(&new), 0, "{case:?}");
                assert_holds(&bed, &array, &values);
            }
        }
    }
}

/// A spare calls all of itself data, and checksums lie behind a member's data: where the power cut met the record that
/// made a member of it, its superblock says the former.
#[test]
fn a_spare_that_a_power_cut_made_a_member_keeps_checksums_where_a_member_has_them() {
    for case in LEVELS {
        let mut bed = Bed::with_room(case, Bytes::mib(1));
        let array = bed.open();
        let values = fill(&bed, &array, 1 << 20);
        let spare = bed.spare();
        bed.runtime.block_on(array.add_spare(Rc::clone(&spare), Uuid([9; 16]))).unwrap();
        let as_spare = bed.superblock(&spare);
        array.fail(1);
        assert_eq!(bed.runtime.block_on(array.rebuild_on_spare(1)).unwrap().unwrap(), [], "{case:?}");
        bed.stop(array);
        // The record that said so never reached it.
        let other = bed.superblock(&bed.disks[0]);
        let cut = Superblock { events: other.events - 1, resync: other.resync, ..as_spare };
        let mut bytes = Buffer::zeroed(BLOCK);
        bytes.bytes_mut().unwrap().copy_from_slice(&cut.to_bytes());
        bed.runtime.block_on(spare.submit(Request::write(SUPERBLOCK_AT, bytes.freeze()))).result.unwrap();
        bed.disks[1] = Rc::clone(&spare);
        let array = bed.open();
        assert_eq!(array.state(1), MemberState::Rebuilding(Bytes::ZERO), "{case:?}");
        assert_eq!(bed.runtime.block_on(array.resume_rebuild(1)).unwrap(), [], "{case:?}");
        bed.rot(&spare, 17);
        assert_eq!(bed.scrubbed(&array)[1], 1, "{case:?}");
        assert_holds(&bed, &array, &values);
    }
}

#[test]
fn a_disk_without_room_for_sums_replaces_no_member() {
    let bed = Bed::new(LEVELS[2]);
    let array = bed.open();
    let small = disk(&bed.runtime, bed.data_offset + array.geometry().used());
    let refused = bed.runtime.block_on(array.replace(1, small, bed.data_offset, Uuid([9; 16])));
    assert!(matches!(refused, Err(DeviceError::OutOfRange { .. })), "{refused:?}");
    assert_eq!(array.replacing(), None);
}

/// Blocks that did not fit since the array was opened: by a read, a resync, a scrub.
fn found(array: &Array<Disk>) -> u64 {
    (0..array.geometry().members()).map(|member| array.counts(member).corrupt).sum()
}

fn grown(bed: &Bed) -> Result<Bytes, GrowError> {
    let array = Rc::into_inner(bed.open()).unwrap();
    bed.runtime.block_on(array.grow())
}

#[test]
fn an_array_grows_and_its_members_sums_move_with_the_end_of_the_data() {
    for case in LEVELS {
        let bed = Bed::with_room(case, Bytes::mib(1));
        let array = bed.open();
        let (values, before) = (fill(&bed, &array, 1 << 20), array.geometry().used());
        bed.stop(array);
        // What is left behind the sums is anything.
        for disk in &bed.disks {
            let area = checksum_area(&bed.superblock(disk), Bytes::SECTOR);
            let mut buffer = Buffer::zeroed(disk.shape().size - area.end);
            buffer.bytes_mut().unwrap().fill(0xa5);
            bed.runtime.block_on(disk.submit(Request::write(area.end, buffer.freeze()))).result.unwrap();
        }
        let used = grown(&bed).unwrap_or_else(|error| panic!("{case:?}: {error}"));
        assert!(used > before + Bytes::kib(900), "{case:?}: {used}");
        let array = bed.open();
        // The old sums are known, and hold what is read against them.
        bed.rot(&bed.disks[1], 6);
        bed.rot(&bed.disks[0], 1500);
        assert!(bed.runtime.block_on(array.resync()).unwrap(), "{case:?}");
        bed.scrubbed(&array);
        assert_eq!(found(&array), 2, "{case:?}");
        assert_holds(&bed, &array, &values);
        // So are those of what it has grown by, now that all of it was read.
        let values = fill(&bed, &array, 1 << 30);
        bed.stop(array);
        bed.disks.iter().for_each(|disk| assert_eq!(bed.renewed_and_open(disk), (0, 0), "{case:?}"));
        let array = bed.open();
        let last = used / Bytes::SECTOR - 1;
        bed.rot(&bed.disks[1], last - 40);
        assert_eq!(bed.scrubbed(&array).iter().sum::<u64>(), 1, "{case:?}");
        assert_holds(&bed, &array, &values);
        bed.stop(array);
        assert!(matches!(grown(&bed), Err(GrowError::NoRoom { .. })), "{case:?}");
    }
}

#[test]
fn a_growth_that_is_too_small_for_the_sums_to_move_is_refused_and_one_with_rot_at_its_edge() {
    let bed = Bed::with_room(LEVELS[2], Bytes::ZERO);
    let array = bed.open();
    let values = fill(&bed, &array, 5);
    bed.stop(array);
    let error = grown(&bed).unwrap_err();
    // Two headers and three pages, of which the chunk is 16 KiB, and there was a page left over.
    assert!(matches!(error, GrowError::SumsInTheWay { member: 0, more } if more <= CHUNK), "{error}");
    let array = bed.open();
    assert_holds(&bed, &array, &values);
    bed.stop(array);
    let bed = Bed::with_room(LEVELS[2], Bytes::mib(1));
    let array = bed.open();
    let (values, used) = (fill(&bed, &array, 5), array.geometry().used());
    bed.stop(array);
    bed.rot(&bed.disks[2], used / Bytes::SECTOR - 1);
    assert!(!used.is_multiple_of(Bytes::kib(64)));
    let refused = grown(&bed);
    assert!(matches!(refused, Err(GrowError::Unsound { member: 2 })), "{refused:?}");
    let array = bed.open();
    assert_holds(&bed, &array, &values);
}

#[test]
fn a_growth_that_the_power_cut_meets_has_happened_or_not_and_sums_are_there() {
    for case in LEVELS {
        let mut happened = [false; 2];
        for after in (0..30).map(|step| Duration::micros(40) * step * step) {
            let bed = Bed::with_room(case, Bytes::kib(256));
            let array = bed.open();
            let (values, before) = (fill(&bed, &array, 1 << 20), array.geometry().used());
            bed.stop(array);
            {
                let array = Rc::into_inner(bed.open()).unwrap();
                let (growing, cut) = (std::pin::pin!(array.grow()), std::pin::pin!(bed.runtime.sleep(after)));
                _ = bed.runtime.block_on(futures_util::future::select(growing, cut));
            }
            let array = bed.open();
            happened[usize::from(array.geometry().used() > before)] = true;
            bed.rot(&bed.disks[1], 6);
            bed.runtime.block_on(array.resync()).unwrap();
            bed.scrubbed(&array);
            assert_eq!(found(&array), 1, "{case:?}, after {after}");
            assert_holds(&bed, &array, &values);
        }
        assert_eq!(happened, [true; 2], "{case:?}");
    }
}

#[test]
fn what_an_array_has_grown_by_is_not_computed_from_parity_that_does_not_fit_yet() {
    // Four blocks of data, so that a small write changes parity by the difference.
    let bed = Bed::with_room((Level::Raid4, 5, Consistency::Resync), Bytes::mib(1));
    for disk in &bed.disks {
        let area = checksum_area(&bed.superblock(disk), Bytes::SECTOR);
        let mut buffer = Buffer::zeroed(disk.shape().size - area.end);
        buffer.bytes_mut().unwrap().fill(0xa5);
        bed.runtime.block_on(disk.submit(Request::write(area.end, buffer.freeze()))).result.unwrap();
    }
    grown(&bed).unwrap();
    let array = bed.open();
    let last = array.geometry().size() - BLOCK;
    write(&bed, &array, last / BLOCK, 4711);
    let place = array.geometry().place(last);
    let at = bed.data_offset + place.offset;
    bed.disks[place.member].inner().damage(at..at + Bytes::SECTOR, Damage::Unreadable);
    assert!(!bed.runtime.block_on(array.resync()).unwrap(), "what was written there was invented");
    assert_eq!(bed.rotten(&bed.disks[place.member]), 1);
}

#[test]
fn what_fails_as_it_takes_the_place_of_a_member_leaves_it_there() {
    for case in [LEVELS[0], LEVELS[3]] {
        let bed = Bed::new(case);
        let array = bed.open();
        let new = bed.spare();
        let (on, offset, first) = (Rc::clone(&new), bed.data_offset, Cell::new(true));
        array.watch(move |_| {
            if first.replace(false) {
                let fails = Rule::new(Effect::Fail(DeviceError::Kernel { errno: 5 })).on(Operation::Write);
                on.add(fails.within(Bytes::kib(8)..offset));
            }
            true
        });
        let replaced = bed.runtime.block_on(array.replace(0, new, bed.data_offset, Uuid([9; 16])));
        assert_eq!(replaced, Err(DeviceError::Kernel { errno: 5 }), "{case:?}");
        assert!(array.is_complete(), "{case:?}");
        bed.runtime.block_on(array.submit(Request::write(Bytes::ZERO, block(3)))).result.unwrap();
    }
}
