//! What is changed of an array that exists, and a power cut at every write of it.

use crate::common;

use std::cell::Cell;
use std::rc::Rc;

use array::geometry::{Copies, DoubleRotation, Level, Rotation};
use array::md::{Consistency, FAIL_FAST, Resync, Uuid, WRITE_MOSTLY};
use array::{Array, MemberState, OpenOptions, Repair, SetError, Settings};
use common::rig::*;
use device::{Buffer, Device, DeviceError, Operation, Reply, Request, Shape};
use runtime::Runtime;
use units::Bytes;

/// A disk of a machine that loses its power after so many writes.
struct Cut {
    disk: Disk,
    left: Rc<Cell<Option<u64>>>,
    runtime: Runtime,
}

impl Device for Cut {
    fn shape(&self) -> &Shape {
        self.disk.shape()
    }
    async fn submit(&self, request: Request) -> Reply {
        match (self.left.get(), request.operation) {
            (Some(0), _) => return request.refuse(DeviceError::Gone, self.runtime.now()),
            (Some(left), Operation::Write) => self.left.set(Some(left - 1)),
            _ => {}
        }
        self.disk.submit(request).await
    }
}

const FIVE: Level = Level::Raid5(Rotation::LeftSymmetric);
const SIX: Level = Level::Raid6(DoubleRotation::Together(Rotation::LeftSymmetric));

/// Every level and the ways that it can change between.
fn ways() -> Vec<((Level, usize, Consistency), Consistency)> {
    use Consistency::{Bitmap, Ppl, Resync};
    let with_log = [(FIVE, 4), (Level::Raid4, 3), (SIX, 5)];
    let copies = [(Level::Raid1, 2), (Level::Raid10(Copies::near(2)), 3)];
    let mut all = Vec::new();
    for (levels, kinds) in [(&with_log[..], &[Resync, Bitmap, Ppl][..]), (&copies[..], &[Resync, Bitmap])] {
        for (level, members) in levels {
            for (from, to) in kinds.iter().flat_map(|from| kinds.iter().map(move |to| (from, to))) {
                if from != to {
                    all.push(((*level, *members, *from), *to));
                }
            }
        }
    }
    all
}

/// Every write at first, and fewer of the many of which a copy is made.
fn cuts() -> impl Iterator<Item = u64> {
    std::iter::successors(Some(0), |writes| Some(writes + 1 + writes / 2))
}

fn to(consistency: Consistency) -> Settings {
    Settings { consistency: Some(consistency), ..Settings::default() }
}

fn set(runtime: &Runtime, disks: &[Disk], settings: &Settings) -> Result<(), SetError> {
    let array = Rc::into_inner(open(runtime, disks)).expect("nobody else has it");
    runtime.block_on(array.set(settings))
}

/// Disks of an array that holds something, and what.
fn filled(runtime: &Runtime, case: (Level, usize, Consistency)) -> (Vec<Disk>, Model) {
    let disks = disks(runtime, case);
    let array = open(runtime, &disks);
    let model = model(&array);
    let blocks = model.borrow().len();
    for number in (0..blocks).step_by(7) {
        model.borrow_mut()[number] = number as u64 + 1;
        runtime.block_on(array.submit(Request::write(BLOCK * number as u64, block(number as u64 + 1)))).result.unwrap();
    }
    runtime.block_on(array.stop()).unwrap();
    (disks, model)
}

fn holds(runtime: &Runtime, disks: &[Disk], model: &Model) -> Rc<Array<Disk>> {
    let array = open(runtime, disks);
    assert!(!array.needs_resync());
    assert_holds(runtime, &array, model);
    fits(runtime, &array);
    array
}

#[test]
fn every_way_against_the_write_hole_can_become_every_other() {
    for (case, new) in ways() {
        let runtime = Runtime::simulated();
        let (disks, model) = filled(&runtime, case);
        set(&runtime, &disks, &to(new)).unwrap_or_else(|error| panic!("{case:?} to {new:?}: {error}"));
        let array = holds(&runtime, &disks, &model);
        assert_eq!(array.consistency(), new, "{case:?}");
        // It does what it says: a write, and a stop without one.
        runtime.block_on(array.submit(Request::write(BLOCK * 3, block(77)))).result.unwrap();
        model.borrow_mut()[3] = 77;
        drop(array);
        let array = open(&runtime, &disks);
        assert_eq!((array.consistency(), array.needs_resync()), (new, new != Consistency::Ppl), "{case:?}");
        assert!(runtime.block_on(array.resync()).unwrap());
        runtime.block_on(array.stop()).unwrap();
        drop(array);
        // And back.
        set(&runtime, &disks, &to(case.2)).unwrap_or_else(|error| panic!("{new:?} to {case:?}: {error}"));
        assert_eq!(holds(&runtime, &disks, &model).consistency(), case.2, "{case:?}");
    }
}

#[test]
fn a_change_that_a_power_cut_meets_has_happened_or_not() {
    for (case, new) in ways() {
        let mut met = [0, 0];
        for writes in 0.. {
            let runtime = Runtime::simulated();
            let (disks, model) = filled(&runtime, case);
            let left = Rc::new(Cell::new(None));
            let cut = |disk: &Disk| Cut { disk: Rc::clone(disk), left: Rc::clone(&left), runtime: runtime.clone() };
            let opened = Array::open(&runtime, "array", disks.iter().map(cut).collect(), OpenOptions::default());
            let array = runtime.block_on(opened).unwrap();
            left.set(Some(writes));
            let settings = Settings { name: Some("renamed".into()), ..to(new) };
            let done = runtime.block_on(array.set(&settings)).is_ok();
            let array = open(&runtime, &disks);
            assert!(!array.needs_resync());
            assert_holds(&runtime, &array, &model);
            let now = array.consistency();
            assert!(now == case.2 || now == new, "{case:?} to {new:?}, after {writes} writes: {now:?}");
            assert!((0..case.1).all(|member| array.state(member) == MemberState::Active), "{case:?}, {writes}");
            met[usize::from(now == new)] += 1;
            // What is done next makes all members say the same.
            runtime.block_on(array.submit(Request::write(BLOCK * 3, block(77)))).result.unwrap();
            model.borrow_mut()[3] = 77;
            runtime.block_on(array.stop()).unwrap();
            drop(array);
            let said: Vec<_> = disks.iter().map(|disk| superblock(&runtime, disk)).collect();
            let alike = |it: &array::md::Superblock| (it.features, it.name, it.bitmap_offset, it.reshape, it.events);
            assert!(said.iter().all(|it| alike(it) == alike(&said[0])), "{case:?} to {new:?}, {writes}");
            set(&runtime, &disks, &settings).unwrap_or_else(|error| panic!("{case:?} again, {writes}: {error}"));
            assert_eq!(open(&runtime, &disks).consistency(), new, "{case:?}, {writes}");
            if done {
                holds(&runtime, &disks, &model);
                break;
            }
        }
        assert!(met[0] > 0 && met[1] > 1, "{case:?} to {new:?}: {met:?}");
    }
}

#[test]
fn a_failure_and_a_return_that_a_power_cut_meets_lose_nothing() {
    for (case, flags) in [(LEVELS[0], WRITE_MOSTLY), (LEVELS[1], 0), (LEVELS[5], FAIL_FAST)] {
        for writes in cuts() {
            let runtime = Runtime::simulated();
            let (disks, model) = filled(&runtime, case);
            edit(&runtime, &disks[1], |superblock| superblock.member_flags = flags);
            let left = Rc::new(Cell::new(None));
            let cut = |disk: &Disk| Cut { disk: Rc::clone(disk), left: Rc::clone(&left), runtime: runtime.clone() };
            let devices = |of: &[Disk]| of.iter().map(cut).collect::<Vec<_>>();
            let opened =
                |of: &[Disk]| runtime.block_on(Array::open(&runtime, "array", devices(of), OpenOptions::default()));
            let array = opened(&disks).unwrap();
            // As the commands do it: taken out, stopped; added to the others, filled, stopped.
            left.set(Some(writes));
            let failed = async {
                array.fail(1);
                array.stop().await
            };
            let mut done = runtime.block_on(failed).is_ok();
            drop(array);
            let others = [&disks[..1], &disks[2..]].concat();
            if let Ok(array) = opened(&others) {
                let said = superblock(&runtime, &disks[1]);
                let added = async {
                    match array.may_return(&said) {
                        Some(_) => array.readd(cut(&disks[1]), &said).await.map(drop)?,
                        None => {
                            array.add_flagged_spare(cut(&disks[1]), Uuid([7; 16]), said.member_flags).await?;
                            array.rebuild_on_spare(1).await.unwrap_or(Ok(Vec::new())).map(drop)?;
                        }
                    }
                    array.stop().await
                };
                done &= runtime.block_on(added).is_ok();
            } else {
                done = false;
            }
            let array = open(&runtime, &disks);
            assert_holds(&runtime, &array, &model);
            // What each state says of how to go on.
            let filled = match array.state(1) {
                MemberState::Active => Ok(Vec::new()),
                MemberState::Rebuilding(_) => runtime.block_on(array.resume_rebuild(1)),
                MemberState::Failed => match runtime.block_on(array.bring_back(1)) {
                    Some(filled) => filled,
                    None => {
                        let flags = superblock(&runtime, &disks[1]).member_flags;
                        let spare = array.add_flagged_spare(Rc::clone(&disks[1]), Uuid([8; 16]), flags);
                        runtime.block_on(spare).unwrap();
                        runtime.block_on(array.rebuild_on_spare(1)).expect("there is a spare")
                    }
                },
            };
            assert_eq!(filled.unwrap(), [], "{case:?}, {writes}");
            runtime.block_on(array.resync()).unwrap();
            assert_eq!(runtime.block_on(array.scrub(Repair::No)).unwrap().mismatches, 0, "{case:?}, {writes}");
            runtime.block_on(array.stop()).unwrap();
            drop(array);
            let said = superblock(&runtime, &disks[1]);
            assert_eq!(said.member_flags, flags, "{case:?}, {writes}");
            if done {
                assert_eq!(said.resync, Resync::Clean);
                break;
            }
        }
    }
}

#[test]
fn names_and_flags_are_set_and_taken_away() {
    let runtime = Runtime::simulated();
    let (disks, model) = filled(&runtime, (Level::Raid1, 2, Consistency::Bitmap));
    let flags = vec![(1, WRITE_MOSTLY, true), (1, FAIL_FAST, true), (0, FAIL_FAST, true)];
    let settings = Settings { name: Some("home".into()), flags, ..Settings::default() };
    set(&runtime, &disks, &settings).unwrap();
    let said = || disks.iter().map(|disk| superblock(&runtime, disk)).collect::<Vec<_>>();
    assert!(said().iter().all(|it| it.name.starts_with(b"home\\0") || it.name.starts_with(b"home")));
    assert_eq!(said().iter().map(|it| it.member_flags).collect::<Vec<_>>(), [FAIL_FAST, FAIL_FAST | WRITE_MOSTLY]);
    holds(&runtime, &disks, &model);
    let settings = Settings { flags: vec![(1, WRITE_MOSTLY, false), (0, FAIL_FAST, false)], ..Settings::default() };
    set(&runtime, &disks, &settings).unwrap();
    assert_eq!(said().iter().map(|it| it.member_flags).collect::<Vec<_>>(), [0, FAIL_FAST]);
    assert!(said().iter().all(|it| it.name.starts_with(b"home")));
    holds(&runtime, &disks, &model);
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let refused =
        |case: (Level, usize, Consistency), settings: &Settings, why: &str, prepare: &dyn Fn(&Runtime, &[Disk])| {
            let runtime = Runtime::simulated();
            let (disks, _) = filled(&runtime, case);
            prepare(&runtime, &disks);
            let before: Vec<_> = disks.iter().map(|disk| superblock(&runtime, disk)).collect();
            let error = set(&runtime, &disks, settings).expect_err("it cannot be").to_string();
            assert!(error.contains(why), "{error}");
            let after: Vec<_> = disks.iter().map(|disk| superblock(&runtime, disk)).collect();
            assert_eq!(before, after, "{error}");
        };
    let nothing = |_: &Runtime, _: &[Disk]| ();
    let bitmap = (Level::Raid1, 2, Consistency::Bitmap);
    let ppl = (FIVE, 4, Consistency::Ppl);
    let name = |length: usize| Settings { name: Some("n".repeat(length)), ..Settings::default() };
    refused(bitmap, &name(33), "takes 33 bytes, and md has room for 32", &nothing);
    refused(bitmap, &to(Consistency::Ppl), "level 1", &nothing);
    refused(bitmap, &to(Consistency::Journal), "a journal cannot be added", &nothing);
    let chunk = |region: Bytes| Settings { region: Some(region), ..Settings::default() };
    refused(bitmap, &chunk(Bytes::kib(12)), "a power of two from 4 KiB to 2 GiB, not 12 KiB", &nothing);
    refused(ppl, &chunk(Bytes::mib(1)), "add --consistency bitmap", &nothing);
    let mostly = Settings { flags: vec![(0, WRITE_MOSTLY, true)], ..Settings::default() };
    refused(ppl, &mostly, "levels 1 and 10 have copies", &nothing);
    let dirty = |runtime: &Runtime, disks: &[Disk]| {
        runtime.block_on(open(runtime, disks).submit(Request::write(Bytes::ZERO, block(1)))).result.unwrap();
    };
    refused(bitmap, &name(4), "arraylab array stop", &dirty);
    let degraded = |runtime: &Runtime, disks: &[Disk]| {
        let array = open(runtime, disks);
        array.fail(1);
        runtime.block_on(array.stop()).unwrap();
    };
    refused(bitmap, &to(Consistency::Resync), "arraylab array rebuild", &degraded);
    // No gap of that size before the data: the least log takes 128 KiB.
    let small = |runtime: &Runtime, disks: &[Disk]| {
        disks.iter().for_each(|disk| edit(runtime, disk, |it| it.bad_block_sectors = 1920));
    };
    refused((FIVE, 4, Consistency::Bitmap), &to(Consistency::Ppl), "needs 128 KiB between superblock and data", &small);
}

/// The bitmap of a large region beside the former one, which stays until the record.
#[test]
fn the_chunk_of_a_bitmap_changes_and_former_members_do_not_come_back_by_it() {
    let runtime = Runtime::simulated();
    let (disks, model) = filled(&runtime, (Level::Raid1, 3, Consistency::Bitmap));
    let array = open(&runtime, &disks);
    array.fail(2);
    runtime.block_on(array.submit(Request::write(BLOCK, block(5)))).result.unwrap();
    model.borrow_mut()[1] = 5;
    runtime.block_on(array.stop()).unwrap();
    drop(array);
    let former = superblock(&runtime, &disks[2]);
    let spare = disk(&runtime, SIZE);
    let mut now = vec![Rc::clone(&disks[0]), Rc::clone(&disks[1])];
    let array = open(&runtime, &now);
    assert_eq!(array.may_return(&former), Some(2));
    let at = data_offset(&array);
    runtime.block_on(array.rebuild(2, Rc::clone(&spare), at, Uuid([9; 16]))).unwrap();
    runtime.block_on(array.stop()).unwrap();
    drop(array);
    now.push(spare);
    let chunk = Settings { region: Some(Bytes::mib(1)), ..Settings::default() };
    set(&runtime, &now, &chunk).unwrap();
    let array = holds(&runtime, &now, &model);
    array.fail(2);
    runtime.block_on(array.stop()).unwrap();
    drop(array);
    let array = open(&runtime, &now[..2]);
    assert_eq!(array.may_return(&former), None);
    let read = runtime.block_on(array.submit(Request::read(BLOCK, Buffer::zeroed(BLOCK))));
    assert_eq!(read.buffer.unwrap().bytes(), block(5).bytes());
}
