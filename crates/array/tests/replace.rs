//! What replaces a member while it serves: all of it copied, or computed, and no redundancy lost meanwhile.

use crate::common;

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;

use array::geometry::Level;
use array::md::{Consistency, Features, SUPERBLOCK_AT, Stamp, Uuid};
use array::{Array, MemberState, OpenError, OpenOptions};
use common::rig::*;
use device::filter::{Effect, Rule};
use device::{Buffer, Device, DeviceError, Operation, Request};
use futures_util::future::{Either, select};
use runtime::Runtime;
use units::{Bytes, Duration};

#[test]
fn a_member_is_replaced_under_load_without_losing_redundancy() {
    for case in LEVELS {
        let runtime = Runtime::simulated();
        let mut disks = disks(&runtime, case);
        let array = open(&runtime, &disks);
        let (model, ending) = (model(&array), Rc::new(Cell::new(false)));
        let writer = load(&runtime, &array, &model, &ending);
        // What the old one cannot give is computed; a write elsewhere may have mended it before.
        let lost = data_offset(&array) + Bytes::kib(80)..data_offset(&array) + Bytes::kib(96);
        let medium = DeviceError::Medium { offset: lost.start, length: lost.end - lost.start };
        disks[1].add(Rule::new(Effect::Fail(medium)).on(Operation::Read).within(lost));
        let new = disk(&runtime, SIZE);
        let offset = data_offset(&array);
        let copied = runtime.block_on(array.replace(1, Rc::clone(&new), offset, Uuid([9; 16])));
        assert_eq!(copied.unwrap(), [], "{case:?}");
        ending.set(true);
        runtime.block_on(writer);
        assert!((0..case.1).all(|member| array.state(member) == MemberState::Active), "{case:?}");
        let old = std::mem::replace(&mut disks[1], new);
        assert_holds(&runtime, &array, &model);
        fits(&runtime, &array);
        runtime.block_on(array.stop()).unwrap();
        drop(array);
        // The old one is a member no more, even if it is named.
        disks.push(old);
        let array = open(&runtime, &disks);
        assert!(Rc::ptr_eq(&*array.device(1).unwrap(), &disks[1]), "{case:?}");
        assert_holds(&runtime, &array, &model);
        array.fail(0);
        assert_holds(&runtime, &array, &model);
    }
}

#[test]
fn a_replacement_that_was_ended_goes_on_where_it_was() {
    for case in LEVELS {
        // The mark as it was recorded; somewhere in a unit, as md's are; and behind the end, where nothing can be
        // believed of it.
        for (without_old, further) in [(false, 0), (true, 0), (false, 3), (true, 3), (true, 1 << 40)] {
            let runtime = Runtime::simulated();
            let mut disks = disks(&runtime, case);
            let array = open(&runtime, &disks);
            let (model, ending) = (model(&array), Rc::new(Cell::new(false)));
            let writer = load(&runtime, &array, &model, &ending);
            let new = disk(&runtime, SIZE);
            array.watch(|progress| progress.done < progress.of / 2);
            let offset = data_offset(&array);
            runtime.block_on(array.replace(1, Rc::clone(&new), offset, Uuid([9; 16]))).unwrap();
            ending.set(true);
            runtime.block_on(writer);
            assert_eq!(array.replacing().map(|(member, _)| member), Some(1), "{case:?}");
            runtime.block_on(array.stop()).unwrap();
            drop(array);
            edit(&runtime, &new, |superblock| superblock.recovery += further);
            let old = std::mem::replace(&mut disks[1], new);
            if without_old {
                // It is the member now, as far as it is filled.
                let array = open(&runtime, &disks);
                let MemberState::Rebuilding(upto) = array.state(1) else { panic!("{case:?}") };
                assert_eq!(upto.is_zero(), further > 3, "{case:?}: {upto}");
                assert_holds(&runtime, &array, &model);
                write_all(&runtime, &array, &model, 1 << 32);
                assert_eq!(runtime.block_on(array.resume_rebuild(1)).unwrap(), []);
                fits(&runtime, &array);
                assert_holds(&runtime, &array, &model);
            } else {
                disks.push(old);
                let array = open(&runtime, &disks);
                assert_eq!(array.replacing().map(|(member, _)| member), Some(1));
                assert_eq!(array.state(1), MemberState::Active);
                write_all(&runtime, &array, &model, 1 << 32);
                assert_eq!(runtime.block_on(array.resume_replace(1)).unwrap(), []);
                assert_eq!(array.replacing(), None);
                fits(&runtime, &array);
                assert_holds(&runtime, &array, &model);
            }
        }
    }
}

/// Two members cannot read one row, so that a block can neither be copied nor computed. That is in no log before the
/// new one is the member.
#[test]
fn what_a_replacement_could_not_copy_stays_lost_when_it_was_ended() {
    let case = LEVELS[1];
    let runtime = Runtime::simulated();
    let mut disks = disks(&runtime, case);
    let array = open(&runtime, &disks);
    let model = model(&array);
    write_all(&runtime, &array, &model, 1);
    let offset = data_offset(&array);
    // In a row whose parity is on neither, so that it is data on both.
    let row = (4..8).find(|row| ![0, 1].contains(&array.geometry().stripe(*row).p())).unwrap();
    let lost = offset + CHUNK * row..offset + CHUNK * (row + 1);
    let medium = DeviceError::Medium { offset: lost.start, length: CHUNK };
    for disk in &disks[..2] {
        disk.add(Rule::new(Effect::Fail(medium.clone())).on(Operation::Read).within(lost.clone()));
    }
    let new = disk(&runtime, SIZE);
    array.watch(|progress| progress.done < progress.of / 2);
    let copied = runtime.block_on(array.replace(1, Rc::clone(&new), offset, Uuid([9; 16]))).unwrap();
    let block = copied[0].start..copied[copied.len() - 1].end;
    assert_eq!(block.end - block.start, CHUNK, "{copied:?}");
    runtime.block_on(array.stop()).unwrap();
    drop(array);
    disks.push(new);
    let array = open(&runtime, &disks);
    assert_eq!(runtime.block_on(array.resume_replace(1)).unwrap(), copied, "it is found anew");
    assert_eq!((array.replacing(), array.state(1)), (None, MemberState::Active));
    let read = || {
        let request = Request::read(block.start, Buffer::zeroed(block.end - block.start));
        runtime.block_on(array.submit(request)).result
    };
    assert!(matches!(read(), Err(DeviceError::Medium { .. })), "{:?}", read());
    runtime.block_on(array.stop()).unwrap();
    drop(array);
    // The new member's log has it, too.
    let array = open(&runtime, &[disks[0].clone(), disks[4].clone(), disks[2].clone(), disks[3].clone()]);
    let request = Request::read(block.start, Buffer::zeroed(block.end - block.start));
    assert!(matches!(runtime.block_on(array.submit(request)).result, Err(DeviceError::Medium { .. })));
}

#[test]
fn a_member_that_was_gone_while_its_replacement_served_is_stale_when_it_comes_back() {
    for case in LEVELS {
        // Both together, or the old one alone.
        for both in [true, false] {
            let runtime = Runtime::simulated();
            let mut disks = disks(&runtime, case);
            let array = open(&runtime, &disks);
            let model = model(&array);
            write_all(&runtime, &array, &model, 1);
            let new = disk(&runtime, SIZE);
            array.watch(|progress| progress.done < progress.of / 2);
            let offset = data_offset(&array);
            runtime.block_on(array.replace(1, Rc::clone(&new), offset, Uuid([9; 16]))).unwrap();
            runtime.block_on(array.stop()).unwrap();
            drop(array);
            // Some of it is written without the old one, and then the power goes.
            let old = std::mem::replace(&mut disks[1], Rc::clone(&new));
            let array = open(&runtime, &disks);
            for number in [0, 5, 9] {
                runtime.block_on(array.submit(Request::write(BLOCK * number, block(1 << 40 | number)))).result.unwrap();
                model.borrow_mut()[number as usize] = 1 << 40 | number;
            }
            drop(array);
            if both {
                disks.push(old)
            } else {
                disks[1] = old
            };
            // With a write hole an array is not opened that was not stopped and has none that is whole in a place, nor
            // with one there that is stale.
            if case.0.parities() > 0 && case.2 != Consistency::Ppl {
                let opened = Array::open(&runtime, "array", disks.clone(), OpenOptions::default());
                assert!(matches!(runtime.block_on(opened), Err(OpenError::DirtyDegraded { .. })), "{case:?}");
                continue;
            }
            let array = open(&runtime, &disks);
            assert_eq!(array.state(1) == MemberState::Failed, !both, "{case:?}");
            assert_holds(&runtime, &array, &model);
        }
    }
}

#[test]
fn a_replacement_that_fails_costs_nothing() {
    for case in LEVELS {
        let runtime = Runtime::simulated();
        let mut disks = disks(&runtime, case);
        let array = open(&runtime, &disks);
        let (model, ending) = (model(&array), Rc::new(Cell::new(false)));
        let writer = load(&runtime, &array, &model, &ending);
        let new = disk(&runtime, SIZE);
        let offset = data_offset(&array);
        let broken = offset + array.geometry().used() / 2..SIZE;
        new.add(Rule::new(Effect::Fail(DeviceError::Kernel { errno: 5 })).on(Operation::Write).within(broken));
        let copied = runtime.block_on(array.replace(1, Rc::clone(&new), offset, Uuid([9; 16])));
        assert_eq!(copied, Err(DeviceError::Kernel { errno: 5 }), "{case:?}");
        ending.set(true);
        runtime.block_on(writer);
        assert_eq!(array.replacing(), None);
        assert_holds(&runtime, &array, &model);
        fits(&runtime, &array);
        drop(array);
        // Opened again with it, as after a power cut: it is nobody's twin.
        disks.push(new);
        let array = open(&runtime, &disks);
        assert_eq!(array.replacing(), None, "{case:?}");
        assert_eq!(array.state(1), MemberState::Active);
        assert_holds(&runtime, &array, &model);
    }
}

#[test]
fn reads_are_spread_over_copies_after_a_replacement_that_failed() {
    let runtime = Runtime::simulated();
    let disks = disks(&runtime, LEVELS[0]);
    let array = open(&runtime, &disks);
    write_all(&runtime, &array, &model(&array), 1);
    let new = disk(&runtime, SIZE);
    let offset = data_offset(&array);
    let broken = offset + array.geometry().used() / 2..SIZE;
    new.add(Rule::new(Effect::Vanish).on(Operation::Write).within(broken));
    assert_eq!(runtime.block_on(array.replace(1, new, offset, Uuid([9; 16]))), Err(DeviceError::Gone));
    disks.iter().for_each(|disk| disk.add(Rule::new(Effect::Stall(Duration::micros(1))).on(Operation::Read)));
    let reads = (0..8).map(|number| array.submit(Request::read(BLOCK * number, Buffer::zeroed(BLOCK))));
    runtime.block_on(futures_util::future::join_all(reads)).iter().for_each(|reply| assert_eq!(reply.result, Ok(())));
    assert_eq!(disks.iter().map(|disk| disk.suffered()).collect::<Vec<_>>(), [4, 4]);
}

/// A copy is under way in several units at a time, and keeps those locked that are done before an earlier one; a
/// discard locks all its units.
#[test]
fn a_discard_and_a_replacement_do_not_wait_for_each_other() {
    let runtime = Runtime::simulated();
    let disks = disks(&runtime, (Level::Raid1, 2, Consistency::Bitmap));
    let array = open(&runtime, &disks);
    let data = data_offset(&array);
    runtime.block_on(array.submit(Request::write(BLOCK * 20, block(1)))).result.unwrap();
    // A write holds the first unit for a while. The discard waits for it, and so does the copy of that unit, but not
    // the copy of the next.
    let slow = Rule::new(Effect::Stall(Duration::millis(5))).on(Operation::Write).within(data..data + BLOCK);
    disks[0].add(slow);
    runtime.block_on(async {
        let at = async |micros, request| {
            runtime.sleep(Duration::micros(micros)).await;
            array.submit(request).await.result.unwrap();
        };
        let replaced = async {
            runtime.sleep(Duration::micros(500)).await;
            array.replace(1, disk(&runtime, SIZE), data, Uuid([9; 16])).await.unwrap();
        };
        let write = at(0, Request::write(Bytes::ZERO, block(2)));
        let discard = at(100, Request::discard(BLOCK, Bytes::kib(192)));
        futures_util::join!(write, discard, replaced)
    });
    assert!(array.is_complete() && array.replacing().is_none());
    fits(&runtime, &array);
}

/// The power cut met the record that put it in its place, with another member's loss; and the next one came before
/// anything was recorded anew. It keeps the log.
#[test]
fn what_has_just_taken_a_place_keeps_the_log_over_a_second_cut() {
    let runtime = Runtime::simulated();
    let mut disks = disks(&runtime, (Level::Raid4, 3, Consistency::Ppl));
    let array = open(&runtime, &disks);
    runtime.block_on(array.submit(Request::write(Bytes::ZERO, block(1)))).result.unwrap();
    let new = disk(&runtime, SIZE);
    runtime.block_on(array.replace(0, Rc::clone(&new), data_offset(&array), Uuid([9; 16]))).unwrap();
    runtime.block_on(array.submit(Request::write(BLOCK, block(2)))).result.unwrap();
    drop(array);
    edit(&runtime, &new, |superblock| {
        superblock.features = superblock.features.with(Features::REPLACEMENT);
        (superblock.events, superblock.recovery, superblock.roles[0]) = (superblock.events - 1, 0, 0);
    });
    disks[0] = new;
    disks.pop();
    let superblocks = SUPERBLOCK_AT..SUPERBLOCK_AT + BLOCK;
    let never = Rule::new(Effect::Stall(Duration::seconds(1))).on(Operation::Write).within(superblocks).after(1);
    disks.iter().for_each(|disk| disk.add(never.clone()));
    runtime.block_on(async {
        let opens = Array::open(&runtime, "array", disks.to_vec(), OpenOptions::default());
        let cut = runtime.sleep(Duration::millis(50));
        let (opens, cut) = (pin!(opens), pin!(cut));
        assert!(matches!(select(opens, cut).await, Either::Right(_)));
    });
    disks.iter().for_each(|disk| disk.clear_rules());
    let array = open(&runtime, &disks);
    let read = runtime.block_on(array.submit(Request::read(BLOCK, Buffer::zeroed(BLOCK))));
    assert!(read.buffer.unwrap().bytes() == block(2).bytes());
}

#[test]
fn a_new_disk_that_does_not_answer_holds_nobody_up() {
    for case in LEVELS {
        let runtime = Runtime::simulated();
        let disks = disks(&runtime, case);
        let array = open(&runtime, &disks);
        array.set_time_limit(Duration::seconds(2));
        let new = disk(&runtime, SIZE);
        new.add(Rule::new(Effect::Hang));
        let replacing = {
            let (array, offset) = (Rc::clone(&array), data_offset(&array));
            runtime.spawn(async move { array.replace(1, new, offset, Uuid([9; 16])).await })
        };
        runtime.block_on(runtime.sleep(Duration::millis(1)));
        // The first one, before which the members must say that the array is dirty.
        let before = runtime.now();
        runtime.block_on(array.submit(Request::write(Bytes::ZERO, block(1)))).result.unwrap();
        let took = runtime.now().since(before);
        assert!(took < Duration::millis(10), "{case:?}: a write took {took}");
        let late = Err(DeviceError::TimedOut(Duration::seconds(2)));
        assert_eq!(runtime.block_on(replacing), late, "{case:?}");
        assert_eq!(array.replacing(), None, "{case:?}");
    }
}

/// As at the end of a server, which drops what it does besides, and then says that the array is stopped.
#[test]
fn a_replacement_that_is_dropped_at_any_instant_leaves_one_of_the_two_as_the_member() {
    let mut replaced = [0, 0];
    for case in [LEVELS[0], LEVELS[1], LEVELS[4]] {
        let end = Cell::new(Duration::ZERO);
        for step in 0..16u64 {
            let runtime = Runtime::simulated();
            let mut disks = disks(&runtime, case);
            let array = open(&runtime, &disks);
            let model = model(&array);
            let blocks = model.borrow().len();
            for number in (0..blocks).step_by(7) {
                let value = 1 + number as u64;
                runtime.block_on(array.submit(Request::write(BLOCK * number as u64, block(value)))).result.unwrap();
                model.borrow_mut()[number] = value;
            }
            let new = disk(&runtime, SIZE);
            let offset = data_offset(&array);
            let before = runtime.now();
            let replace = Box::pin(array.replace(1, Rc::clone(&new), offset, Uuid([9; 16])));
            match step {
                0 => _ = runtime.block_on(replace).unwrap(),
                // At the end it takes the place.
                step => {
                    let cut = runtime.sleep(end.get().saturating_sub(Duration::micros(15 * (step - 1))));
                    drop(runtime.block_on(select(replace, pin!(cut))));
                }
            }
            end.set(end.get().max(runtime.now().since(before)));
            runtime.block_on(array.stop()).unwrap();
            drop(array);
            disks.push(Rc::clone(&new));
            let array = open(&runtime, &disks);
            let is_new = Rc::ptr_eq(&*array.device(1).unwrap(), &new);
            assert!(array.is_complete() && !array.needs_resync(), "{case:?}, step {step}");
            replaced[usize::from(is_new)] += 1;
            assert_holds(&runtime, &array, &model);
            fits(&runtime, &array);
        }
    }
    assert!(replaced.iter().all(|count| *count > 5), "{replaced:?}");
}

/// What was asked of it while it had the place comes late, and is not held against the member.
#[test]
fn a_replacement_that_hangs_as_it_takes_the_place_costs_nothing() {
    let runtime = Runtime::simulated();
    let disks = disks(&runtime, LEVELS[0]);
    let array = open(&runtime, &disks);
    array.set_time_limit(Duration::seconds(2));
    let blocks = model(&array);
    write_all(&runtime, &array, &blocks, 1);
    let new = disk(&runtime, SIZE);
    // The bitmap is written when it is made ready, and when it takes the place.
    let bitmap = Rule::new(Effect::Hang).on(Operation::Write).within(Bytes::kib(8)..Bytes::kib(12));
    new.add(bitmap.after(1));
    new.add(Rule::new(Effect::Hang).on(Operation::Read));
    let ending = Rc::new(Cell::new(false));
    let reader = |number: u64| {
        let (array, own, ending) = (Rc::clone(&array), runtime.clone(), Rc::clone(&ending));
        runtime.spawn(async move {
            while !ending.get() {
                let read = array.submit(Request::read(BLOCK * number, Buffer::zeroed(BLOCK)));
                read.await.result.unwrap();
                own.sleep(Duration::micros(300)).await;
            }
        })
    };
    let readers: Vec<_> = (0..4).map(reader).collect();
    let replaced = runtime.block_on(array.replace(1, new, data_offset(&array), Uuid([9; 16])));
    assert_eq!(replaced, Err(DeviceError::TimedOut(Duration::seconds(2))));
    let at_once = array.state(1);
    runtime.block_on(runtime.sleep(Duration::seconds(4)));
    ending.set(true);
    readers.into_iter().for_each(|reader| runtime.block_on(reader));
    assert_eq!((at_once, array.state(1)), (MemberState::Active, MemberState::Active));
}

/// Another server is looked for while it takes the place: of the device that has lost it a superblock is being read
/// then.
#[test]
fn a_device_that_has_lost_its_place_is_no_rival() {
    for step in (0..110u64).step_by(2).chain(81..99) {
        let runtime = Runtime::simulated();
        let disks = disks(&runtime, LEVELS[0]);
        let array = open(&runtime, &disks);
        array.look_out(Stamp(7));
        let write =
            |array: Rc<Array<Disk>>| async move { array.submit(Request::write(Bytes::ZERO, block(1))).await.result };
        runtime.block_on(write(Rc::clone(&array))).unwrap();
        let (own, slow) =
            (SUPERBLOCK_AT..SUPERBLOCK_AT + BLOCK, |millis| Rule::new(Effect::Stall(Duration::millis(millis))));
        disks[0].add(slow(50).on(Operation::Write).within(own.clone()));
        disks[1].add(slow(20).on(Operation::Read).within(own));
        let tending = {
            let (array, own) = (Rc::clone(&array), runtime.clone());
            runtime.spawn(async move {
                own.sleep(Duration::millis(10 * step)).await;
                array.tend().await
            })
        };
        let ending = Rc::new(Cell::new(false));
        let writer = {
            let (array, own, ending) = (Rc::clone(&array), runtime.clone(), Rc::clone(&ending));
            runtime.spawn(async move {
                while !ending.get() {
                    write(Rc::clone(&array)).await.unwrap();
                    own.sleep(Duration::millis(1)).await;
                }
            })
        };
        runtime.block_on(runtime.sleep(Duration::millis(900)));
        let new = disk(&runtime, SIZE);
        new.add(slow(30).on(Operation::Write).within(Bytes::kib(8)..Bytes::kib(12)).after(1));
        runtime.block_on(array.replace(1, new, data_offset(&array), Uuid([9; 16]))).unwrap();
        runtime.block_on(runtime.sleep(Duration::millis(300)));
        ending.set(true);
        runtime.block_on(writer);
        drop(tending);
        assert_eq!(array.rival(), None, "step {step}");
    }
}

#[test]
fn a_replacement_that_does_not_take_its_first_record_is_called_active_by_nobody() {
    for case in LEVELS {
        let runtime = Runtime::simulated();
        let disks = disks(&runtime, case);
        let array = open(&runtime, &disks);
        let new = disk(&runtime, SIZE);
        let own = SUPERBLOCK_AT..SUPERBLOCK_AT + BLOCK;
        let error = DeviceError::Kernel { errno: 5 };
        new.add(Rule::new(Effect::Fail(error.clone())).on(Operation::Write).within(own).after(1));
        let replaced = runtime.block_on(array.replace(1, new, data_offset(&array), Uuid([9; 16])));
        assert_eq!(replaced, Err(error), "{case:?}");
        let roles = superblock(&runtime, &disks[0]).roles;
        assert_eq!(roles.iter().filter(|role| **role == 1).count(), 1, "{case:?}: {:?}", &roles[..8]);
    }
}
