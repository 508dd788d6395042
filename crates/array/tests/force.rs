//! Members that dropped out one after the other are taken back as `mdadm --assemble --force` does it; what may not be
//! taken back stays out.

use crate::common;

use array::force::{Given, NotForced, Plan, plan, tell};
use array::geometry::{Copies, DoubleRotation, Level, Rotation};
use array::md::{Consistency, Features, MemberRole, Resync, Superblock};
use array::{Array, MemberState, OpenError, OpenOptions};
use common::rig::{BLOCK, Disk, SIZE, block, disks, edit, open, superblock, write_all};
use device::{Buffer, Device, Request};
use runtime::Runtime;
use units::Bytes;

const SIX: Level = Level::Raid6(DoubleRotation::Together(Rotation::LeftSymmetric));
const FIVE: Level = Level::Raid5(Rotation::LeftSymmetric);

fn planned(superblocks: &[Superblock]) -> Result<Plan, NotForced> {
    let given: Vec<Given> =
        superblocks.iter().map(|superblock| Given { superblock, size: SIZE, block: Bytes::SECTOR }).collect();
    plan(&given)
}

/// Members of which some left one after the other, each when the others had seen so many events.
fn left(case: (Level, usize, Consistency), gone: &[(usize, u64)]) -> Vec<Superblock> {
    let mut all = common::superblocks(case, Bytes::kib(4), SIZE, 1);
    for (number, it) in all.iter_mut().enumerate() {
        it.events = gone.iter().find(|(who, _)| *who == number).map_or(30, |(_, events)| *events);
        it.resync = Resync::From(Bytes::ZERO);
        let seen = it.events;
        for (other, events) in gone {
            if *other != number && *events < seen {
                it.roles[*other] = MemberRole::Faulty.number();
            }
        }
    }
    all
}

#[test]
fn the_freshest_of_the_stale_come_back_until_there_are_enough() {
    let resync = Consistency::Bitmap;
    for (case, gone, believed) in [
        ((FIVE, 4, resync), vec![(1, 10), (3, 20)], vec![(3, 3)]),
        ((FIVE, 4, resync), vec![(0, 20), (2, 10)], vec![(0, 0)]),
        ((SIX, 5, resync), vec![(0, 8), (1, 12), (2, 16)], vec![(2, 2)]),
        ((SIX, 6, resync), vec![(0, 8), (1, 12), (2, 16), (3, 18)], vec![(3, 3), (2, 2)]),
        ((Level::Raid10(Copies::near(2)), 4, resync), vec![(0, 8), (1, 12)], vec![(1, 1)]),
        // Those that left with it come along.
        ((SIX, 6, resync), vec![(0, 8), (1, 16), (2, 16), (3, 16)], vec![(1, 1), (2, 2), (3, 3)]),
        ((FIVE, 4, Consistency::Ppl), vec![(1, 10), (3, 20)], vec![(3, 3)]),
    ] {
        let all = left(case, &gone);
        let plan = planned(&all).unwrap_or_else(|error| panic!("{case:?}: {error}"));
        assert_eq!(plan.believed, believed, "{case:?}");
        let parity = case.0.parities() > 0;
        let whole = believed.len() == gone.len();
        assert_eq!(plan.calls_clean, parity && !whole);
        for (number, it) in plan.superblocks.iter().enumerate() {
            let out = gone.iter().any(|(who, _)| *who == number) && !believed.contains(&(number, number));
            assert_eq!(it.is_none(), out, "{case:?}: only who stays out is not told");
            let Some(it) = it else { continue };
            assert_eq!((it.events, it.resync == Resync::Clean), (30, plan.calls_clean), "{case:?}");
            for (who, _) in &gone {
                let counts = believed.contains(&(*who, *who));
                let role = if counts { MemberRole::Active(*who as u16) } else { MemberRole::Faulty };
                assert_eq!(it.roles[*who], role.number(), "{case:?}");
            }
        }
    }
}

#[test]
fn who_was_being_rebuilt_or_is_a_spare_or_of_before_a_growth_is_never_taken_back() {
    type Change = fn(&mut Superblock);
    let changes: [Change; 5] = [
        |it| (it.features, it.recovery) = (it.features.with(Features::RECOVERY), 64),
        |it| it.features = it.features.with(Features::REPLACEMENT),
        |it| it.roles[3] = MemberRole::Spare.number(),
        |it| it.size = it.size - Bytes::kib(64),
        |it| it.bitmap_offset = 4096,
    ];
    for change in changes {
        let mut all = left((FIVE, 4, Consistency::Bitmap), &[(1, 10), (3, 20)]);
        change(&mut all[3]);
        // The one that left before it is taken in its place, if it may be; here it is older, and whole.
        assert_eq!(planned(&all).map(|plan| plan.believed), Ok(vec![(1, 1)]));
        all[1].features = all[1].features.with(Features::RECOVERY);
        assert_eq!(planned(&all), Err(NotForced::TooFew));
    }
}

#[test]
fn what_opens_is_not_forced_but_a_dirty_degraded_one_without_a_log_is_called_clean() {
    let mut all = left((FIVE, 4, Consistency::Bitmap), &[(1, 10)]);
    assert_eq!(planned(&all).map(|plan| (plan.believed, plan.calls_clean)), Ok((Vec::new(), true)));
    all.iter_mut().for_each(|it| it.resync = Resync::Clean);
    assert_eq!(planned(&all), Err(NotForced::Needless));
    let logged = left((FIVE, 4, Consistency::Ppl), &[(1, 10)]);
    assert_eq!(planned(&logged), Err(NotForced::Needless));
    let mirror = left((Level::Raid1, 2, Consistency::Bitmap), &[(1, 10)]);
    assert_eq!(planned(&mirror), Err(NotForced::Needless));
}

fn force(runtime: &Runtime, disks: &[Disk]) -> Plan {
    let said: Vec<Superblock> = disks.iter().map(|disk| superblock(runtime, disk)).collect();
    let plan = planned(&said).unwrap_or_else(|error| panic!("{error}"));
    // Those that come back first: until the others agree, nothing has changed.
    for (index, now) in plan.superblocks.iter().enumerate().rev() {
        if let Some(now) = now {
            runtime.block_on(tell(&disks[index], &said[index], now)).unwrap();
        }
    }
    plan
}

/// Fails members one after the other under writes, as a cable would, and gives what the array stored when it broke.
fn break_it(runtime: &Runtime, disks: &[Disk], gone: &[usize]) -> common::rig::Model {
    let array = open(runtime, disks);
    let model = common::rig::model(&array);
    write_all(runtime, &array, &model, 1);
    for (round, member) in gone.iter().enumerate() {
        array.fail(*member);
        // What is written meanwhile is written twice, the same: nothing is lost but what a member missed.
        let at = round as u64 * 3;
        let value = model.borrow()[at as usize];
        let _ = runtime.block_on(array.submit(Request::write(BLOCK * at, block(value))));
        let _ = runtime.block_on(array.submit(Request::flush()));
    }
    assert!(array.is_broken());
    drop(array);
    // Where this array records nothing any more, md says who is gone, and goes on counting.
    let number = superblock(runtime, &disks[*gone.last().unwrap()]).number as usize;
    for (member, disk) in disks.iter().enumerate().filter(|(member, _)| !gone.contains(member)) {
        assert_ne!(member, number);
        edit(runtime, disk, |it| {
            it.roles[number] = MemberRole::Faulty.number();
            it.events += 4;
        });
    }
    model
}

#[test]
fn an_array_that_lost_members_one_by_one_is_opened_with_its_data() {
    for (case, gone) in [
        ((FIVE, 4, Consistency::Bitmap), vec![1, 3]),
        ((FIVE, 4, Consistency::Ppl), vec![2, 0]),
        ((Level::Raid4, 4, Consistency::Ppl), vec![3, 0]),
        ((SIX, 5, Consistency::Ppl), vec![0, 4, 2]),
        ((SIX, 5, Consistency::Bitmap), vec![3, 1, 2]),
        ((Level::Raid10(Copies::near(2)), 4, Consistency::Bitmap), vec![2, 3]),
    ] {
        let runtime = Runtime::simulated();
        let disks = disks(&runtime, case);
        let model = break_it(&runtime, &disks, &gone);
        let opened = Array::open(&runtime, "array", disks.clone(), OpenOptions::default());
        assert!(matches!(runtime.block_on(opened), Err(OpenError::TooFew { .. })), "{case:?}");
        let plan = force(&runtime, &disks);
        let last = *gone.last().unwrap();
        assert_eq!(plan.believed, [(last, last)], "{case:?}");
        let array = open(&runtime, &disks);
        assert!(!array.is_broken() && array.state(last) == MemberState::Active);
        common::rig::assert_holds(&runtime, &array, &model);
        runtime.block_on(array.resync()).unwrap();
        write_all(&runtime, &array, &model, 5000);
        for member in &gone[..gone.len() - 1] {
            // Whoever stays out comes back by the bitmap or is filled anew.
            if array.state(*member) == MemberState::Failed && runtime.block_on(array.bring_back(*member)).is_none() {
                let disk = common::rig::disk(&runtime, SIZE);
                let layout = array.member_layout().unwrap();
                let rebuilt =
                    array.rebuild(*member, disk, layout.data_offset, array::md::Uuid([*member as u8 + 70; 16]));
                assert_eq!(runtime.block_on(rebuilt), Ok(Vec::new()), "{case:?}");
            }
        }
        common::rig::assert_holds(&runtime, &array, &model);
        common::rig::fits(&runtime, &array);
        runtime.block_on(array.stop()).unwrap();
    }
}

#[test]
fn copies_that_may_differ_after_force_are_made_equal() {
    let runtime = Runtime::simulated();
    let case = (Level::Raid10(Copies::near(2)), 4, Consistency::Bitmap);
    let disks = disks(&runtime, case);
    let array = open(&runtime, &disks);
    let model = common::rig::model(&array);
    write_all(&runtime, &array, &model, 1);
    runtime.block_on(array.stop()).unwrap();
    drop(array);
    // Both of a pair left at once, in the middle of a write that reached one of them; the others recorded that.
    let data_offset = superblock(&runtime, &disks[2]).data_offset;
    runtime.block_on(disks[2].submit(Request::write(data_offset, block(777)))).result.unwrap();
    for other in [0, 1] {
        edit(&runtime, &disks[other], |it| {
            it.events += 5;
            (it.roles[2], it.roles[3]) = (MemberRole::Faulty.number(), MemberRole::Faulty.number());
        });
    }
    assert_eq!(force(&runtime, &disks).believed, [(2, 2), (3, 3)]);
    let array = open(&runtime, &disks);
    assert!(array.needs_resync() && array.is_complete());
    runtime.block_on(array.resync()).unwrap();
    common::rig::fits(&runtime, &array);
    let read = |disk: &Disk| {
        let reply = runtime.block_on(disk.submit(Request::read(data_offset, Buffer::zeroed(BLOCK))));
        reply.buffer.unwrap().bytes().unwrap().to_vec()
    };
    assert!(read(&disks[2]) == read(&disks[3]), "the copies are equal");
}
