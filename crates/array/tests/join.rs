//! What joins an array while it serves: spares, members that were away, room that has grown.

use crate::common;

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;

use array::geometry::{Copies, Level, Rotation};
use array::md::{Consistency, FAIL_FAST, Features, SUPERBLOCK_AT, Uuid, WRITE_MOSTLY};
use array::{Array, GrowError, MemberState, OpenOptions, Repair, format};
use common::rig::*;
use common::superblocks;
use device::filter::{Effect, Rule};
use device::{Buffer, Device, DeviceError, MemoryDevice, Operation, Reply, Request, Shape};
use futures_util::future::{Either, select};
use runtime::Runtime;
use units::{Bytes, Duration, Instant, Rate};

/// A disk that dies: it takes no writes to its data, and takes its time to say so of all but the first block.
struct Dying {
    runtime: Runtime,
    memory: MemoryDevice,
    refuses_from: Cell<Option<Bytes>>,
}

impl Device for Dying {
    fn shape(&self) -> &Shape {
        self.memory.shape()
    }
    async fn submit(&self, request: Request) -> Reply {
        let from = self.refuses_from.get().filter(|from| request.offset >= *from);
        let (Some(from), Operation::Write) = (from, request.operation) else {
            return self.memory.submit(request).await;
        };
        if request.offset > from {
            self.runtime.sleep(Duration::millis(50)).await;
        }
        request.refuse(DeviceError::Kernel { errno: 5 }, self.runtime.now())
    }
}

/// What a dying disk was still sent comes back as errors when another has its place.
#[test]
fn late_errors_of_a_device_are_not_held_against_its_successor() {
    // Small writes of the second are carried out by themselves.
    for case in [LEVELS[0], (Level::Raid5(Rotation::LeftSymmetric), 4, Consistency::Bitmap)] {
        let runtime = Runtime::simulated();
        let superblocks = superblocks(case, CHUNK, SIZE, 1);
        let disk = || {
            let memory = MemoryDevice::new(&runtime, Shape::new("disk", SIZE));
            Rc::new(Dying { runtime: runtime.clone(), memory, refuses_from: Cell::new(None) })
        };
        let disks: Vec<Rc<Dying>> = superblocks.iter().map(|_| disk()).collect();
        runtime.block_on(format(&disks, &superblocks)).unwrap();
        let array = Array::open(&runtime, "array", disks.clone(), OpenOptions::default());
        let array = runtime.block_on(array).unwrap();
        let offset = superblocks[1].data_offset;
        let on_it = |number: &u64| {
            let copies = 0..array.geometry().copies();
            copies.into_iter().any(|copy| array.geometry().copy(BLOCK * *number, copy).member == 1)
        };
        let (first, further) = ((0..).find(on_it).unwrap(), (32..).find(on_it).unwrap());
        disks[1].refuses_from.set(Some(offset));
        runtime.block_on(async {
            let late = array.submit(Request::write(BLOCK * further, block(2)));
            let replaced = async {
                array.submit(Request::write(BLOCK * first, block(1))).await.result.unwrap();
                assert_eq!(array.state(1), MemberState::Failed);
                array.rebuild(1, disk(), offset, Uuid([9; 16])).await
            };
            let (late, replaced) = futures_util::join!(late, replaced);
            assert_eq!((late.result, replaced), (Ok(()), Ok(vec![])), "{case:?}");
            assert!(runtime.now().since(Instant::START) >= Duration::millis(50));
        });
        assert_eq!(array.state(1), MemberState::Active, "{case:?}: {:?}", array.failure(1));
    }
}

#[test]
fn a_spare_takes_the_place_of_a_member_that_fails() {
    for case in LEVELS {
        let runtime = Runtime::simulated();
        let mut disks = disks(&runtime, case);
        let array = open(&runtime, &disks);
        for number in [7, 8] {
            disks.push(disk(&runtime, SIZE));
            let spare = Rc::clone(disks.last().unwrap());
            runtime.block_on(array.add_spare(spare, Uuid([number; 16]))).unwrap();
        }
        let small = disk(&runtime, SIZE / 2);
        let refused = runtime.block_on(array.add_spare(small, Uuid([6; 16])));
        assert!(matches!(refused, Err(DeviceError::OutOfRange { .. })), "{refused:?}");
        runtime.block_on(array.stop()).unwrap();
        drop(array);
        let array = open(&runtime, &disks);
        assert_eq!(array.spares().len(), 2, "{case:?}");
        let (model, ending) = (model(&array), Rc::new(Cell::new(false)));
        let writer = load(&runtime, &array, &model, &ending);
        for member in [0, 1] {
            runtime.block_on(runtime.sleep(Duration::millis(20)));
            array.fail(member);
            let filled = runtime.block_on(array.rebuild_on_spare(member)).expect("there is a spare");
            assert_eq!(filled.unwrap(), [], "{case:?}");
        }
        assert!(runtime.block_on(array.rebuild_on_spare(0)).is_none());
        ending.set(true);
        runtime.block_on(writer);
        assert_holds(&runtime, &array, &model);
        fits(&runtime, &array);
        runtime.block_on(array.stop()).unwrap();
        drop(array);
        let roles: Vec<_> = disks.iter().map(|disk| superblock(&runtime, disk).number).collect();
        let distinct: std::collections::BTreeSet<_> = roles.iter().collect();
        assert_eq!(distinct.len(), disks.len(), "every device has a number of its own: {roles:?}");
        let array = open(&runtime, &disks);
        assert!((0..case.1).all(|member| array.state(member) == MemberState::Active), "{case:?}");
        assert_holds(&runtime, &array, &model);
    }
}

/// A byte of a member, changed behind the array's back.
fn flip(runtime: &Runtime, disk: &Disk, at: Bytes) {
    let reply = runtime.block_on(disk.submit(Request::read(at, Buffer::zeroed(Bytes::SECTOR))));
    let mut buffer = reply.buffer.unwrap();
    buffer.bytes_mut().unwrap()[0] ^= 1;
    runtime.block_on(disk.submit(Request::write(at, buffer.freeze()))).result.unwrap();
}

/// What md keeps for good of a device (`--write-mostly`, `--failfast`), whichever way it comes back.
#[test]
fn a_member_that_comes_back_is_as_write_mostly_as_before() {
    for case in [
        LEVELS[0],
        (Level::Raid1, 2, Consistency::Resync),
        (Level::Raid5(Rotation::LeftSymmetric), 4, Consistency::Ppl),
    ] {
        let runtime = Runtime::simulated();
        let disks = disks(&runtime, case);
        runtime.block_on(open(&runtime, &disks).stop()).unwrap();
        let flags = WRITE_MOSTLY | FAIL_FAST;
        edit(&runtime, &disks[1], |superblock| superblock.member_flags = flags);
        let array = open(&runtime, &disks);
        array.fail(1);
        runtime.block_on(array.stop()).unwrap();
        drop(array);
        let array = open(&runtime, &[&disks[..1], &disks[2..]].concat());
        let said = superblock(&runtime, &disks[1]);
        let device = Rc::clone(&disks[1]);
        let filled = match array.may_return(&said) {
            Some(_) => runtime.block_on(array.readd(device, &said)),
            None => {
                runtime.block_on(array.add_flagged_spare(device, Uuid([7; 16]), said.member_flags)).unwrap();
                runtime.block_on(array.rebuild_on_spare(1)).expect("there is a spare")
            }
        };
        assert_eq!(filled.unwrap(), [], "{case:?}");
        runtime.block_on(array.stop()).unwrap();
        drop(array);
        let said: Vec<u8> = disks.iter().map(|disk| superblock(&runtime, disk).member_flags).collect();
        assert_eq!((said[0], said[1]), (0, flags), "{case:?}");
    }
}

#[test]
fn a_member_that_was_away_gets_what_was_written_meanwhile_and_no_more() {
    for case in LEVELS.into_iter().filter(|(.., consistency)| *consistency == Consistency::Bitmap) {
        let runtime = Runtime::simulated();
        let disks = disks(&runtime, case);
        let array = open(&runtime, &disks);
        let model = model(&array);
        let write = |array: &Array<Disk>, number: u64, value: u64| {
            runtime.block_on(array.submit(Request::write(BLOCK * number, block(value)))).result.unwrap();
            model.borrow_mut()[number as usize] = value;
        };
        let blocks = model.borrow().len() as u64;
        (0..blocks).for_each(|number| write(&array, number, 1));
        runtime.block_on(array.stop()).unwrap();
        drop(array);
        let others = [&disks[..1], &disks[2..]].concat();
        let array = open(&runtime, &others);
        (0..5).for_each(|number| write(&array, number, 2));
        runtime.block_on(array.stop()).unwrap();
        drop(array);
        let array = open(&runtime, &disks);
        assert_eq!(array.state(1), MemberState::Failed, "it is stale");
        assert_eq!(array.returning().iter().map(|(member, _)| *member).collect::<Vec<_>>(), [1], "{case:?}");
        // Far from what was written, so it is not looked at. A whole rebuild would mend it.
        flip(&runtime, &disks[1], data_offset(&array) + array.geometry().used() - Bytes::kib(8));
        (5..9).for_each(|number| write(&array, number, 3));
        // What it need not look at does not count: of 2400 KiB that would be 24 s.
        array.limit(Some(Rate::bytes_per_second(102_400.0)));
        let before = runtime.now();
        assert_eq!(runtime.block_on(array.bring_back(1)).expect("it may return").unwrap(), []);
        let took = runtime.now().since(before);
        assert!(took > Duration::millis(100) && took < Duration::seconds(4), "{case:?}: {took}");
        assert_eq!(array.state(1), MemberState::Active);
        assert_eq!(runtime.block_on(array.scrub(Repair::No)).unwrap().mismatches, 1, "{case:?}");
        flip(&runtime, &disks[1], data_offset(&array) + array.geometry().used() - Bytes::kib(8));
        fits(&runtime, &array);
        assert_holds(&runtime, &array, &model);
        array.fail(0);
        assert_holds(&runtime, &array, &model);
    }
}

#[test]
fn a_member_whose_number_another_device_has_does_not_come_back() {
    let runtime = Runtime::simulated();
    let disks = disks(&runtime, LEVELS[0]);
    let array = open(&runtime, &disks);
    array.fail(1);
    write_all(&runtime, &array, &model(&array), 1);
    let mut former = superblock(&runtime, &disks[1]);
    assert_eq!(array.may_return(&former), Some(1));
    let spare = disk(&runtime, SIZE);
    runtime.block_on(array.add_spare(Rc::clone(&spare), Uuid([9; 16]))).unwrap();
    former.number = superblock(&runtime, &spare).number;
    assert_eq!(array.may_return(&former), None);
    former.number = superblock(&runtime, &disks[0]).number;
    assert_eq!(array.may_return(&former), None);
}

#[test]
fn a_half_that_went_on_alone_does_not_come_back_by_the_bitmap() {
    for (level, members) in [(Level::Raid1, 2), (LEVELS[3].0, 4), (Level::Raid10(Copies::near(2)), 4)] {
        for written in [true, false] {
            let runtime = Runtime::simulated();
            let disks = disks(&runtime, (level, members, Consistency::Bitmap));
            let array = open(&runtime, &disks);
            write_all(&runtime, &array, &model(&array), 1);
            runtime.block_on(array.stop()).unwrap();
            drop(array);
            let half = |which: usize| disks.iter().skip(which).step_by(2).cloned().collect::<Vec<Disk>>();
            let alone = open(&runtime, &half(1));
            runtime.block_on(alone.submit(Request::write(BLOCK * 4, block(77)))).result.unwrap();
            runtime.block_on(alone.stop()).unwrap();
            let array = open(&runtime, &half(0));
            let write = || runtime.block_on(array.submit(Request::write(BLOCK * 9, block(78)))).result.unwrap();
            if written {
                write();
            }
            // The other half has writes that are marked only on itself, whether this one was used or not.
            for disk in half(1) {
                let other = superblock(&runtime, &disk);
                assert_eq!(array.may_return(&other), None, "{level} {written}");
                assert_eq!(array.went_on_without(&other), (0..members).step_by(2).collect::<Vec<_>>(), "{level}");
                let offset = data_offset(&array);
                let filled = array.rebuild(usize::from(other.number as u16), disk, offset, other.member);
                assert_eq!(runtime.block_on(filled).unwrap(), []);
            }
            write();
            fits(&runtime, &array);
        }
    }
}

#[test]
fn a_member_that_missed_what_is_marked_no_more_does_not_come_back() {
    let runtime = Runtime::simulated();
    let case = (Level::Raid1, 3, Consistency::Bitmap);
    let mut disks = disks(&runtime, case);
    let away = disks.remove(2);
    let array = open(&runtime, &disks);
    runtime.block_on(array.submit(Request::write(Bytes::ZERO, block(1)))).result.unwrap();
    let offset = data_offset(&array);
    runtime.block_on(array.rebuild(2, disk(&runtime, SIZE), offset, Uuid([9; 16]))).unwrap();
    // Complete again, so the bits are cleared; then the new one goes.
    runtime.block_on(array.stop()).unwrap();
    array.fail(2);
    runtime.block_on(array.submit(Request::flush())).result.unwrap();
    assert_eq!(array.may_return(&superblock(&runtime, &away)), None);
    drop(array);
    disks.push(away);
    let array = open(&runtime, &disks);
    assert_eq!(array.state(2), MemberState::Failed);
    assert_eq!(array.returning(), []);
    assert!(runtime.block_on(array.bring_back(2)).is_none());
}

/// A power cut left the record of another's failure on the member that was lost with it, under the number of events
/// that the others gave their own record of its absence. When it comes back, the next cut meets the record of that,
/// which it misses: it is one behind, and stale.
#[test]
fn a_member_that_comes_back_is_not_current_before_it_says_that_it_is_not() {
    for told in 0..2 {
        let runtime = Runtime::simulated();
        let disks = disks(&runtime, (Level::Raid1, 3, Consistency::Bitmap));
        let array = open(&runtime, &disks);
        write_all(&runtime, &array, &model(&array), 1);
        runtime.block_on(array.stop()).unwrap();
        drop(array);
        edit(&runtime, &disks[2], |superblock| {
            superblock.events += 1;
            superblock.roles[1] = 0xfffe;
        });
        let array = open(&runtime, &disks[..2]);
        runtime.block_on(array.submit(Request::write(Bytes::ZERO, block(777)))).result.unwrap();
        let away = superblock(&runtime, &disks[2]);
        assert_eq!(array.may_return(&away), Some(2));
        let superblocks = SUPERBLOCK_AT..SUPERBLOCK_AT + BLOCK;
        let never = Effect::Stall(Duration::seconds(1));
        disks[2].add(Rule::new(never).on(Operation::Write).within(superblocks).after(told));
        runtime.block_on(async {
            let returns = pin!(array.readd(Rc::clone(&disks[2]), &away));
            let cut = pin!(runtime.sleep(Duration::millis(20)));
            assert!(matches!(select(returns, cut).await, Either::Right(_)));
        });
        drop(array);
        disks[2].clear_rules();
        let array = open(&runtime, &disks);
        assert_ne!(array.state(2), MemberState::Active, "after {told} records on it");
        (0..2).for_each(|member| assert_eq!(array.state(member), MemberState::Active));
    }
}

/// It was not there when the array was opened, and until something is written the others call it a member. A power cut
/// while it comes back, or is filled as something new, finds it as it was, or called missing: it is never believed with
/// a log that was made anew.
#[test]
fn a_member_that_was_merely_missing_is_called_so_before_anything_of_it_is_changed() {
    let case = LEVELS[4];
    for as_new in [false, true] {
        let mut cut_after = Duration::ZERO;
        loop {
            let runtime = Runtime::simulated();
            let disks = disks(&runtime, case);
            let array = open(&runtime, &disks);
            let model = model(&array);
            array.fail(2);
            for number in 0..9 {
                runtime.block_on(array.submit(Request::write(BLOCK * number, block(77 + number)))).result.unwrap();
                model.borrow_mut()[number as usize] = 77 + number;
            }
            runtime.block_on(array.stop()).unwrap();
            drop(array);
            let array = open(&runtime, &[&disks[..1], &disks[3..]].concat());
            let (superblock, device) = (superblock(&runtime, &disks[1]), Rc::clone(&disks[1]));
            let done = runtime.block_on(async {
                let offset = data_offset(&array);
                let filled = async {
                    match as_new {
                        true => array.rebuild(1, device, offset, superblock.member).await,
                        false => array.readd(device, &superblock).await,
                    }
                };
                let (filled, cut) = (pin!(filled), pin!(runtime.sleep(cut_after)));
                matches!(select(filled, cut).await, Either::Left(_))
            });
            drop(array);
            let opened = Array::open(&runtime, "array", disks.clone(), OpenOptions::default());
            let array = runtime.block_on(opened).unwrap_or_else(|error| panic!("cut after {cut_after}: {error}"));
            assert_holds(&runtime, &array, &model);
            if done {
                break;
            }
            cut_after += Duration::micros(30);
        }
        assert!(cut_after > Duration::micros(300), "{cut_after}: it was cut several times on its way");
    }
}

/// It goes on in the member's superblock until the member is whole, and the next device that is filled would say it,
/// too: md would copy to it what the bitmap marks, and nothing else.
#[test]
fn that_md_filled_a_member_by_the_bitmap_is_said_of_none_that_is_filled_here() {
    let runtime = Runtime::simulated();
    let mut disks = disks(&runtime, LEVELS[3]);
    let array = open(&runtime, &disks);
    let model = model(&array);
    write_all(&runtime, &array, &model, 1);
    runtime.block_on(array.stop()).unwrap();
    drop(array);
    let by_bitmap = Features::RECOVERY.with(Features::BY_BITMAP);
    edit(&runtime, &disks[0], |superblock| superblock.features = superblock.features.with(by_bitmap));
    let array = open(&runtime, &disks);
    assert_eq!(array.state(0), MemberState::Rebuilding(Bytes::ZERO));
    array.fail(1);
    disks[1] = disk(&runtime, SIZE);
    array.watch(|progress| progress.done < progress.of / 2);
    let offset = data_offset(&array);
    assert_eq!(runtime.block_on(array.rebuild(1, Rc::clone(&disks[1]), offset, Uuid([9; 16]))).unwrap(), []);
    for disk in &disks {
        let features = superblock(&runtime, disk).features;
        assert!(!features.has(Features::BY_BITMAP), "{features:?}");
    }
    assert_holds(&runtime, &array, &model);
}

/// The same bytes on larger disks. What was behind the end before is anything.
fn larger(runtime: &Runtime, small: &[Disk]) -> Vec<Disk> {
    let larger = |(from, seed): (&Disk, u64)| {
        let to = disk(runtime, SIZE * 2);
        let all = runtime.block_on(from.submit(Request::read(Bytes::ZERO, Buffer::zeroed(SIZE)))).buffer;
        runtime.block_on(to.submit(Request::write(Bytes::ZERO, all.unwrap().freeze()))).result.unwrap();
        for at in SIZE / BLOCK..SIZE * 2 / BLOCK {
            let noise = block(at * 31 + seed);
            runtime.block_on(to.submit(Request::write(BLOCK * at, noise))).result.unwrap();
        }
        to
    };
    small.iter().zip(0..).map(larger).collect()
}

#[test]
fn a_growth_that_a_power_cut_meets_has_happened_or_not() {
    for case in LEVELS {
        for told in 0..=case.1 {
            let runtime = Runtime::simulated();
            let small = disks(&runtime, case);
            let array = open(&runtime, &small);
            let (model, before) = (model(&array), array.geometry().size());
            write_all(&runtime, &array, &model, 1);
            runtime.block_on(array.stop()).unwrap();
            drop(array);
            let large = larger(&runtime, &small);
            let array = Rc::into_inner(open(&runtime, &large)).unwrap();
            let superblocks = SUPERBLOCK_AT..SUPERBLOCK_AT + Bytes::kib(4);
            let mute = Rule::new(Effect::Hang).on(Operation::Write).within(superblocks);
            large[told..].iter().for_each(|disk| disk.add(mute.clone()));
            let cut = Box::pin(runtime.sleep(Duration::seconds(1)));
            runtime.block_on(select(Box::pin(array.grow()), cut));
            large.iter().for_each(|disk| {
                disk.clear_rules();
                disk.resume();
            });
            let array = open(&runtime, &large);
            assert_eq!(array.geometry().size() > before, told == case.1, "{case:?}, {told} were told");
            assert_holds(&runtime, &array, &model);
            assert!(runtime.block_on(array.resync()).unwrap());
            fits(&runtime, &array);
            write_all(&runtime, &array, &model, 1 << 32);
            runtime.block_on(array.stop()).unwrap();
            drop(array);
            // They say the same now, whatever they were told.
            let sizes: std::collections::BTreeSet<Bytes> =
                large.iter().map(|disk| superblock(&runtime, disk).size).collect();
            assert_eq!(sizes.len(), 1, "{case:?}, {told} were told: {sizes:?}");
            let array = Rc::into_inner(open(&runtime, &large)).unwrap();
            let again = runtime.block_on(array.grow());
            assert_eq!(again.is_ok(), told < case.1, "{case:?}, {told} were told: {again:?}");
            let array = open(&runtime, &large);
            assert_holds(&runtime, &array, &model);
            assert!(runtime.block_on(array.resync()).unwrap());
            fits(&runtime, &array);
        }
    }
}

#[test]
fn a_spare_that_an_array_has_outgrown_is_passed_over() {
    let runtime = Runtime::simulated();
    let small = disks(&runtime, LEVELS[0]);
    let array = open(&runtime, &small);
    let model = model(&array);
    write_all(&runtime, &array, &model, 1);
    runtime.block_on(array.stop()).unwrap();
    drop(array);
    let mut large = larger(&runtime, &small);
    let array = open(&runtime, &large);
    large.push(disk(&runtime, SIZE * 2));
    large.push(disk(&runtime, SIZE));
    for (number, spare) in (7..).zip(&large[2..]) {
        runtime.block_on(array.add_spare(Rc::clone(spare), Uuid([number; 16]))).unwrap();
    }
    runtime.block_on(array.stop()).unwrap();
    runtime.block_on(Rc::into_inner(array).unwrap().grow()).unwrap();
    let array = open(&runtime, &large);
    runtime.block_on(array.resync()).unwrap();
    array.fail(0);
    assert_eq!(runtime.block_on(array.rebuild_on_spare(0)).expect("one has room").unwrap(), []);
    array.fail(1);
    assert!(runtime.block_on(array.rebuild_on_spare(1)).is_none(), "the other has none");
    assert_eq!(array.spares().len(), 1);
    assert_holds(&runtime, &array, &model);
}

#[test]
fn room_that_members_have_is_used_when_the_array_grows() {
    for case in LEVELS {
        let runtime = Runtime::simulated();
        let small = disks(&runtime, case);
        let array = open(&runtime, &small);
        let model = model(&array);
        write_all(&runtime, &array, &model, 0);
        runtime.block_on(array.stop()).unwrap();
        let before = array.geometry().size();
        let array = Rc::into_inner(array).unwrap();
        assert!(matches!(runtime.block_on(array.grow()), Err(GrowError::NoRoom { .. })), "{case:?}");
        let large = larger(&runtime, &small);
        let array = Rc::into_inner(open(&runtime, &large)).unwrap();
        runtime.block_on(array.grow()).unwrap();
        let array = open(&runtime, &large);
        assert!(array.geometry().size() > before + before / 2, "{case:?}");
        assert!(array.is_dirty() && array.needs_resync());
        assert_holds(&runtime, &array, &model);
        assert!(runtime.block_on(array.resync()).unwrap());
        fits(&runtime, &array);
        runtime.block_on(array.stop()).unwrap();
        assert!(!array.is_dirty(), "{case:?}");
        assert_holds(&runtime, &array, &model);
    }
    let runtime = Runtime::simulated();
    let array = open(&runtime, &disks(&runtime, (Level::Raid10(Copies::far(2)), 3, Consistency::Bitmap)));
    let refused = runtime.block_on(Rc::into_inner(array).unwrap().grow());
    assert!(matches!(refused, Err(GrowError::Level(_))), "{refused:?}");
}

/// Who asked for it is gone before the others have it; who asks next is not answered before they do.
#[test]
fn a_record_that_is_dropped_is_finished_before_anything_is_answered() {
    for case in LEVELS {
        let runtime = Runtime::simulated();
        let disks = disks(&runtime, case);
        let array = open(&runtime, &disks);
        runtime.block_on(array.submit(Request::write(Bytes::ZERO, block(1)))).result.unwrap();
        let never = Rule::new(Effect::Stall(Duration::seconds(1))).on(Operation::Write);
        let superblocks = SUPERBLOCK_AT..SUPERBLOCK_AT + BLOCK;
        disks.iter().for_each(|disk| disk.add(never.clone().within(superblocks.clone())));
        array.fail(0);
        runtime.block_on(async {
            let flush = pin!(array.submit(Request::flush()));
            let dropped = pin!(runtime.sleep(Duration::millis(5)));
            assert!(matches!(select(flush, dropped).await, Either::Right(_)));
        });
        disks.iter().for_each(|disk| disk.clear_rules());
        runtime.block_on(array.submit(Request::flush())).result.unwrap();
        for disk in &disks[1..] {
            assert_eq!(superblock(&runtime, disk).roles[0], 0xfffe, "{case:?}");
        }
    }
}
