//! Whoever does something for an array may be dropped at any await, or fail there, and the array goes on: nobody may
//! then count on what nobody was told.

use crate::common;

use std::rc::Rc;

use array::geometry::{Level, Rotation};
use array::md::{Consistency, SUPERBLOCK_AT, Stamp, Uuid};
use array::{Array, MemberState};
use common::rig::*;
use device::filter::{Effect, Rule};
use device::{Buffer, Device, DeviceError, Operation, Request};
use futures_util::future::join_all;
use runtime::Runtime;
use units::{Bytes, Duration};

/// Levels with a log, and the member that has the parity of the first row.
const LOGGED: [((Level, usize, Consistency), usize); 2] =
    [((Level::Raid5(Rotation::LeftSymmetric), 4, Consistency::Ppl), 3), ((Level::Raid4, 3, Consistency::Ppl), 2)];

/// An array whose first blocks were written.
fn written(runtime: &Runtime, disks: &[Disk]) -> Rc<Array<Disk>> {
    let array = open(runtime, disks);
    for number in 0..48 {
        runtime.block_on(array.submit(Request::write(BLOCK * number, block(number + 1)))).result.unwrap();
    }
    array
}

/// The power goes while a block is written, before its parity is. Parity fits after the start, or is going to be made
/// to.
fn assert_mended(runtime: &Runtime, array: Rc<Array<Disk>>, disks: &[Disk], parity: usize, when: &str) {
    let slow = Rule::new(Effect::Stall(Duration::seconds(5))).on(Operation::Write);
    let parity = array.device(parity).unwrap();
    parity.add(slow.within(data_offset(&array)..SIZE));
    let write = array.submit(Request::write(Bytes::ZERO, block(77_777)));
    assert!(!drop_after(runtime, Duration::millis(2), write), "{when}: it is under way");
    drop(array);
    disks.iter().for_each(|disk| disk.clear_rules());
    let array = open(runtime, disks);
    if !array.needs_resync() {
        fits(runtime, &array);
    }
}

#[test]
fn a_write_is_not_logged_on_a_device_that_nobody_calls_the_member_yet() {
    let mut taken = 0;
    for (case, parity) in LOGGED {
        let replace = |after: Option<Duration>| {
            let runtime = Runtime::simulated();
            let mut disks = disks(&runtime, case);
            let array = written(&runtime, &disks);
            let (new, before) = (disk(&runtime, SIZE), runtime.now());
            let replace = array.replace(parity, Rc::clone(&new), data_offset(&array), Uuid([9; 16]));
            drop_after(&runtime, after.unwrap_or(Duration::seconds(1000)), replace);
            let took = runtime.now().since(before);
            let is_new = Rc::ptr_eq(&*array.device(parity).unwrap(), &new);
            disks.push(new);
            if after.is_some() {
                assert_mended(&runtime, array, &disks, parity, &format!("{case:?} {after:?}, new {is_new}"));
            }
            (took, is_new)
        };
        let (took, _) = replace(None);
        // Towards its end.
        for step in 0..13 {
            taken += u64::from(replace(Some(took.saturating_sub(Duration::micros(5 * step)))).1);
        }
    }
    assert!((4..22).contains(&taken), "{taken} had the place by then");
}

#[test]
fn the_log_goes_on_where_it_was_if_what_replaces_a_member_does_not_take_its_own() {
    for (case, parity) in LOGGED {
        let mut refused = 0;
        for after in 0..6 {
            let runtime = Runtime::simulated();
            let disks = disks(&runtime, case);
            let array = written(&runtime, &disks);
            let (new, offset) = (disk(&runtime, SIZE), data_offset(&array));
            // All before its data but the superblock.
            let (at, size) =
                superblock(&runtime, &disks[0]).ppl_at().unwrap_or((Bytes::kib(8), offset - Bytes::kib(8)));
            let fails = Rule::new(Effect::Fail(DeviceError::Gone)).on(Operation::Write);
            new.add(fails.within(at..at + size).after(after));
            if runtime.block_on(array.replace(parity, new, offset, Uuid([9; 16]))).is_err() {
                refused += 1;
                assert!(array.is_complete(), "{case:?}: the old one stays");
                assert_mended(&runtime, array, &disks, parity, &format!("{case:?}, failed after {after}"));
            }
        }
        assert!(refused > 2, "{case:?}: {refused}");
    }
}

#[test]
fn the_log_has_no_gap_where_a_write_was_dropped() {
    for (case, parity) in LOGGED {
        for step in 0..20 {
            let runtime = Runtime::simulated();
            let disks = disks(&runtime, case);
            let array = written(&runtime, &disks);
            drop_after(&runtime, Duration::micros(5 * step), array.submit(Request::write(BLOCK, block(5))));
            assert_mended(&runtime, array, &disks, parity, &format!("{case:?}, dropped at step {step}"));
        }
    }
}

#[test]
fn a_rebuild_that_is_dropped_before_anybody_was_told_does_not_count() {
    for case in LEVELS {
        let (mut placed, mut failed) = (0, 0);
        for step in 0..16u64 {
            let runtime = Runtime::simulated();
            let mut disks = disks(&runtime, case);
            let array = written(&runtime, &disks);
            array.fail(1);
            runtime.block_on(array.submit(Request::flush())).result.unwrap();
            let new = disk(&runtime, SIZE);
            let rebuild = array.rebuild(1, Rc::clone(&new), data_offset(&array), Uuid([9; 16]));
            drop_after(&runtime, Duration::micros(10 * step), rebuild);
            let whole = array.state(1) != MemberState::Failed && {
                runtime.block_on(array.resume_rebuild(1)).unwrap();
                true
            };
            (placed, failed) = (placed + u64::from(whole), failed + u64::from(!whole));
            assert_eq!(array.is_complete(), whole, "{case:?}, step {step}");
            runtime.block_on(array.stop()).unwrap();
            drop(array);
            disks[1] = new;
            assert_eq!(open(&runtime, &disks).is_complete(), whole, "{case:?}, step {step}: after the next start");
        }
        assert!(placed > 0 && failed > 0, "{case:?}: {placed} {failed}");
    }
}

/// It has filled the member, and waits for another record to say so.
#[test]
fn a_rebuild_that_is_dropped_at_its_end_can_be_resumed() {
    let runtime = Runtime::simulated();
    let disks = disks(&runtime, LEVELS[0]);
    let array = written(&runtime, &disks);
    array.fail(1);
    runtime.block_on(array.submit(Request::flush())).result.unwrap();
    let new = disk(&runtime, SIZE);
    let mut rebuild = Box::pin(array.rebuild(1, Rc::clone(&new), data_offset(&array), Uuid([9; 16])));
    assert!(!drop_after(&runtime, Duration::micros(230), rebuild.as_mut()));
    let spare = disk(&runtime, SIZE);
    let own = SUPERBLOCK_AT..SUPERBLOCK_AT + BLOCK;
    spare.add(Rule::new(Effect::Stall(Duration::seconds(1))).on(Operation::Write).within(own));
    let adding = {
        let array = Rc::clone(&array);
        runtime.spawn(async move { array.add_spare(spare, Uuid([8; 16])).await })
    };
    assert!(!drop_after(&runtime, Duration::millis(500), rebuild.as_mut()), "it waits for the spare");
    drop(rebuild);
    assert!(!array.is_complete(), "the members do not say so");
    runtime.block_on(adding).unwrap();
    runtime.block_on(array.resume_rebuild(1)).unwrap();
    assert!(array.is_complete());
    array.fail(0);
    runtime.block_on(array.submit(Request::write(Bytes::ZERO, block(4)))).result.unwrap();
    runtime.block_on(array.stop()).unwrap();
    drop(array);
    let array = open(&runtime, &[Rc::clone(&disks[0]), new]);
    assert_eq!((array.state(0), array.state(1)), (MemberState::Failed, MemberState::Active));
    let read = runtime.block_on(array.submit(Request::read(Bytes::ZERO, Buffer::zeroed(BLOCK))));
    assert!(read.result.is_ok() && read.buffer.unwrap().bytes() == block(4).bytes());
}

/// What it missed since is not believed after the next start.
#[test]
fn that_a_replacement_is_lost_is_told_even_if_whoever_found_out_is_dropped() {
    for case in [LEVELS[0], LEVELS[2]] {
        for step in 0..12u64 {
            let runtime = Runtime::simulated();
            let mut disks = disks(&runtime, case);
            let array = open(&runtime, &disks);
            let blocks = model(&array);
            let (new, offset) = (disk(&runtime, SIZE), data_offset(&array));
            array.watch(|progress| progress.done < progress.of / 2);
            runtime.block_on(array.replace(1, Rc::clone(&new), offset, Uuid([9; 16]))).unwrap();
            assert!(array.replacing().is_some());
            let fails = Rule::new(Effect::Fail(DeviceError::Kernel { errno: 5 })).on(Operation::Write);
            new.add(fails.within(offset..SIZE));
            let write = |number: u64, value| array.submit(Request::write(BLOCK * number, block(value)));
            drop_after(&runtime, Duration::micros(7 * step), join_all((0..40).map(|number| write(number, 7))));
            new.clear_rules();
            for number in 0..40 {
                let value = 1 << 40 | number;
                runtime.block_on(write(number, value)).result.unwrap();
                blocks.borrow_mut()[number as usize] = value;
            }
            runtime.block_on(array.stop()).unwrap();
            drop(array);
            disks.push(new);
            let array = open(&runtime, &disks);
            runtime.block_on(array.resume_replace(1)).unwrap();
            assert_holds(&runtime, &array, &blocks);
            fits(&runtime, &array);
        }
    }
}

#[test]
fn a_replacement_that_is_dropped_early_and_resumed_is_the_member_after_a_restart() {
    for case in [LEVELS[0], LEVELS[1]] {
        for step in 0..24u64 {
            let runtime = Runtime::simulated();
            let mut disks = disks(&runtime, case);
            let array = open(&runtime, &disks);
            array.look_out(Stamp(7));
            runtime.block_on(array.submit(Request::write(Bytes::ZERO, block(1)))).result.unwrap();
            let new = disk(&runtime, SIZE);
            let replace = array.replace(1, Rc::clone(&new), data_offset(&array), Uuid([9; 16]));
            drop_after(&runtime, Duration::micros(9 * step), replace);
            runtime.block_on(array.resume_replace(1)).unwrap();
            runtime.block_on(array.stop()).unwrap();
            drop(array);
            disks.push(new);
            assert!(open(&runtime, &disks).is_complete(), "{case:?}, step {step}");
        }
    }
}
