//! The array against an array of bytes: every level, healthy, degraded, damaged, rebuilt, under concurrent writes.

use crate::common;

use array::geometry::{Copies, DoubleRotation, Geometry, Level, Role, Rotation, Zones};
use array::md::Uuid;
use array::{Array, MemberState, Repair};
use common::image::data;
use device::filter::{Damage, Effect, Faulty, Medium, Rule};
use device::{Buffer, Device, DeviceError, MemoryDevice, Operation, Request, Shape};
use futures_util::future::join_all;
use proptest::prelude::*;
use rand::RngExt;
use runtime::{Random, Runtime};
use units::Bytes;

/// A member whose medium and whose requests can be made to fail. Data begin a little way in.
type Disk = Faulty<Medium<MemoryDevice>>;
const DATA_AT: Bytes = Bytes::kib(4);
const CHUNK: Bytes = Bytes::kib(4);
const ROWS: u64 = 7;

fn disk(runtime: &Runtime) -> Disk {
    let memory = MemoryDevice::new(runtime, Shape::new("disk", DATA_AT + CHUNK * ROWS));
    Faulty::new(runtime, Medium::new(runtime, memory), 1)
}

fn assemble(runtime: &Runtime, level: Level, members: usize) -> Array<Disk> {
    let geometry = Geometry::new(level, CHUNK, &vec![CHUNK * ROWS; members]).unwrap();
    let members = (0..members).map(|_| (disk(runtime), DATA_AT)).collect();
    Array::assemble(runtime, "array", geometry, members).unwrap()
}

fn redundant_levels() -> Vec<(Level, usize)> {
    let six = DoubleRotation::Together(Rotation::LeftSymmetric);
    vec![
        (Level::Raid1, 2),
        (Level::Raid1, 3),
        (Level::Raid3, 4),
        (Level::Raid4, 3),
        (Level::Raid5(Rotation::LeftSymmetric), 2),
        (Level::Raid5(Rotation::LeftSymmetric), 4),
        (Level::Raid5(Rotation::RightAsymmetric), 5),
        (Level::Raid5(Rotation::ParityFirst), 3),
        (Level::Raid6(six), 4),
        (Level::Raid6(DoubleRotation::Together(Rotation::RightAsymmetric)), 6),
        (Level::Raid6(DoubleRotation::DdfNContinue), 5),
        (Level::Raid6(DoubleRotation::LastQ(Rotation::LeftSymmetric)), 5),
        (Level::Raid10(Copies::near(2)), 4),
        (Level::Raid10(Copies::near(2)), 5),
        (Level::Raid10(Copies::far(3)), 4),
        (Level::Raid10(Copies::offset(2)), 3),
    ]
}

fn write(runtime: &Runtime, array: &Array<Disk>, sector: u64, bytes: &[u8]) -> Result<(), DeviceError> {
    runtime.block_on(array.submit(Request::write(Bytes::SECTOR * sector, data(bytes)))).result
}

fn read(runtime: &Runtime, array: &Array<Disk>, sector: u64, sectors: u64) -> Result<Vec<u8>, DeviceError> {
    let into = Buffer::zeroed(Bytes::SECTOR * sectors);
    let reply = runtime.block_on(array.submit(Request::read(Bytes::SECTOR * sector, into)));
    reply.result.map(|()| reply.buffer.unwrap().bytes().unwrap().to_vec())
}

/// Bytes for a write, different for every sector and every write.
fn fresh(random: &mut Random, sectors: u64) -> Vec<u8> {
    (0..sectors * 512).map(|_| random.random()).collect()
}

fn check(runtime: &Runtime, array: &Array<Disk>, model: &[u8], what: &str) {
    let whole = read(runtime, array, 0, model.len() as u64 / 512).unwrap_or_else(|error| panic!("{what}: {error}"));
    let wrong = whole.chunks(512).zip(model.chunks(512)).position(|(a, b)| a != b);
    assert_eq!(wrong, None, "{what}: first wrong sector");
}

/// Random writes of every size; the model keeps what they wrote.
fn scribble(runtime: &Runtime, array: &Array<Disk>, model: &mut [u8], random: &mut Random, writes: u32) {
    let sectors = model.len() as u64 / 512;
    for _ in 0..writes {
        let from = random.random_range(0..sectors);
        let count = random.random_range(1..=(sectors - from).min(100));
        let bytes = fresh(random, count);
        write(runtime, array, from, &bytes).unwrap();
        model[(from * 512) as usize..][..bytes.len()].copy_from_slice(&bytes);
    }
}

fn with_contents(runtime: &Runtime, level: Level, members: usize, seed: u64) -> (Array<Disk>, Vec<u8>, Random) {
    let array = assemble(runtime, level, members);
    let mut random = Random::new(seed);
    let mut model = fresh(&mut random, array.shape().size / Bytes::SECTOR);
    write(runtime, &array, 0, &model).unwrap();
    scribble(runtime, &array, &mut model, &mut random, 40);
    (array, model, random)
}

fn scrubbed(runtime: &Runtime, array: &Array<Disk>, repair: Repair) -> array::Scrubbed {
    runtime.block_on(array.scrub(repair)).unwrap()
}

#[test]
fn what_is_written_is_read_and_redundancy_fits() {
    let runtime = Runtime::simulated();
    let plain = [(Level::Linear, 3), (Level::Raid0(Zones::Original), 3), (Level::Raid0(Zones::Original), 1)];
    for (level, members) in redundant_levels().into_iter().chain(plain) {
        let (array, model, _) = with_contents(&runtime, level, members, 3);
        check(&runtime, &array, &model, &format!("{level:?}"));
        assert_eq!(scrubbed(&runtime, &array, Repair::No).mismatches, 0, "{level:?} on {members}");
    }
}

/// Every loss that the level survives: contents stay, also through writes while degraded, and a rebuild makes it whole.
#[test]
fn losses_are_survived_and_rebuilt() {
    let runtime = Runtime::simulated();
    for (level, members) in redundant_levels() {
        let most = level.losses_survived(members).min(2);
        for first in 0..members {
            for second in first..members {
                let lost: Vec<usize> = if first == second { vec![first] } else { vec![first, second] };
                if lost.len() > most {
                    continue;
                }
                let what = format!("{level:?} on {members}, lost {lost:?}");
                let (array, mut model, mut random) = with_contents(&runtime, level, members, 5);
                lost.iter().for_each(|member| array.fail(*member));
                check(&runtime, &array, &model, &what);
                scribble(&runtime, &array, &mut model, &mut random, 30);
                check(&runtime, &array, &model, &what);
                for member in &lost {
                    let bad =
                        runtime.block_on(array.rebuild(*member, disk(&runtime), DATA_AT, Uuid::default())).unwrap();
                    assert!(bad.is_empty() && array.state(*member) == MemberState::Active, "{what}");
                }
                check(&runtime, &array, &model, &what);
                assert_eq!(scrubbed(&runtime, &array, Repair::No).mismatches, 0, "{what}");
            }
        }
    }
}

#[test]
fn one_loss_too_many_stops_writes_and_reads_what_is_left() {
    let runtime = Runtime::simulated();
    let (array, model, _) = with_contents(&runtime, Level::Raid5(Rotation::LeftSymmetric), 4, 5);
    array.fail(0);
    array.fail(2);
    assert_eq!(write(&runtime, &array, 0, &[0; 512]), Err(DeviceError::Gone));
    let mut readable = 0;
    for sector in 0..model.len() as u64 / 512 {
        if let Ok(bytes) = read(&runtime, &array, sector, 1) {
            assert_eq!(bytes, model[(sector * 512) as usize..][..512]);
            readable += 1;
        }
    }
    let there = |sector: &u64| [1, 3].contains(&array.geometry().place(Bytes::SECTOR * *sector).member);
    assert_eq!(readable, (0..model.len() as u64 / 512).filter(there).count());
}

#[test]
fn latent_sectors_are_computed_and_written_again() {
    let runtime = Runtime::simulated();
    let mut all = 0;
    for (level, members) in redundant_levels() {
        let (array, model, _) = with_contents(&runtime, level, members, 7);
        // One sector of each member, in different rows and at different places of them.
        for member in 0..members {
            let at = DATA_AT + CHUNK * ((2 * member as u64 + 1) % ROWS) + Bytes::SECTOR * member as u64;
            array.device(member).unwrap().inner().damage(at..at + Bytes::SECTOR, Damage::Unreadable);
        }
        check(&runtime, &array, &model, &format!("{level:?}"));
        check(&runtime, &array, &model, &format!("{level:?}, again"));
        let left: usize = (0..members).map(|member| array.device(member).unwrap().inner().damaged().len()).sum();
        let mended: u64 = (0..members).map(|member| array.counts(member).rewritten).sum();
        let errors: u64 = (0..members).map(|member| array.counts(member).medium_errors).sum();
        // What lay in copies or parities that were not read is still there; everything that was read is mended.
        assert!(errors >= mended, "{level:?}: {mended} of {errors}");
        all += mended;
        assert_eq!(left as u64, members as u64 - mended, "{level:?}");
        assert!((0..members).all(|member| array.state(member) == MemberState::Active), "nobody fails for a bad sector");
    }
    assert!(all >= 16, "{all} mended in 16 arrays");
}

#[test]
fn a_write_beside_a_latent_sector_keeps_it_recoverable() {
    let runtime = Runtime::simulated();
    for (level, members) in redundant_levels().into_iter().filter(|(level, _)| level.parities() > 0) {
        let (array, mut model, mut random) = with_contents(&runtime, level, members, 9);
        for member in 0..members {
            let at = DATA_AT + CHUNK * member as u64;
            array.device(member).unwrap().inner().damage(at..at + CHUNK, Damage::Unreadable);
        }
        scribble(&runtime, &array, &mut model, &mut random, 40);
        check(&runtime, &array, &model, &format!("{level:?}"));
    }
}

#[test]
fn a_write_mends_what_it_could_not_read_of_the_part_that_it_leaves_alone() {
    let runtime = Runtime::simulated();
    let more_than_a_chunk = |(level, members): &(Level, usize)| *members > 1 + level.parities();
    let of_parity = redundant_levels().into_iter().filter(|(level, _)| level.parities() > 0);
    for (level, members) in of_parity.filter(more_than_a_chunk) {
        let (array, mut model, mut random) = with_contents(&runtime, level, members, 13);
        // All of a row but its last chunk: parity is computed from all data.
        let left = array.geometry().stripe_size() - CHUNK;
        let place = array.geometry().place(left);
        let at = DATA_AT + place.offset + Bytes::SECTOR;
        array.device(place.member).unwrap().inner().damage(at..at + Bytes::SECTOR, Damage::Unreadable);
        let bytes = fresh(&mut random, left / Bytes::SECTOR);
        write(&runtime, &array, 0, &bytes).unwrap();
        model[..bytes.len()].copy_from_slice(&bytes);
        assert_eq!(array.device(place.member).unwrap().inner().damaged().len(), 0, "{level}");
        let counts = array.counts(place.member);
        assert_eq!((counts.medium_errors, counts.rewritten), (1, 1), "{level}");
        check(&runtime, &array, &model, &format!("{level}"));
        assert_eq!(scrubbed(&runtime, &array, Repair::No).mismatches, 0, "{level}");
    }
}

#[test]
fn a_member_that_fails_a_write_is_used_no_more() {
    let runtime = Runtime::simulated();
    for (level, members) in redundant_levels() {
        let (array, mut model, mut random) = with_contents(&runtime, level, members, 11);
        array.device(0).unwrap().add(Rule::new(Effect::Fail(DeviceError::Kernel { errno: 5 })).on(Operation::Write));
        scribble(&runtime, &array, &mut model, &mut random, 30);
        assert_eq!(array.state(0), MemberState::Failed, "{level:?}");
        array.device(0).unwrap().clear_rules();
        check(&runtime, &array, &model, &format!("{level:?}"));
    }
}

/// What a medium refuses.
fn refusal() -> Rule {
    let medium = DeviceError::Medium { offset: DATA_AT, length: Bytes::SECTOR };
    Rule::new(Effect::Fail(medium)).on(Operation::Write).times(1)
}

#[test]
fn the_last_whole_mirror_stays_where_its_medium_refuses_a_write() {
    let mirrors = [(Level::Raid1, 2), (Level::Raid1, 3), (Level::Raid10(Copies::near(2)), 4)];
    for (level, members) in mirrors {
        let runtime = Runtime::simulated();
        let (array, mut model, _) = with_contents(&runtime, level, members, 5);
        // All copies at once, then the one that is left, then it has recovered.
        let copies = array.geometry().copies();
        (0..copies).for_each(|member| array.device(member).unwrap().add(refusal()));
        for _ in 0..2 {
            let refused = write(&runtime, &array, 0, &[1; 512]);
            assert!(matches!(refused, Err(DeviceError::Medium { .. })), "{level}: {refused:?}");
            let left = (0..copies).filter(|member| array.state(*member) == MemberState::Active);
            assert_eq!(left.collect::<Vec<_>>(), [copies - 1], "{level}");
            assert!(!array.is_broken(), "{level}");
            array.device(copies - 1).unwrap().add(refusal());
        }
        array.device(copies - 1).unwrap().clear_rules();
        check(&runtime, &array, &model, "a write that failed");
        write(&runtime, &array, 0, &[2; 512]).unwrap();
        model[..512].fill(2);
        check(&runtime, &array, &model, "a write afterwards");
    }
}

#[test]
fn what_only_a_member_that_is_being_rebuilt_took_is_read_from_it() {
    let runtime = Runtime::simulated();
    let (array, mut model, _) = with_contents(&runtime, Level::Raid10(Copies::near(2)), 2, 6);
    array.fail(1);
    array.watch(|progress| progress.done < progress.of / 2);
    runtime.block_on(array.rebuild(1, disk(&runtime), DATA_AT, Uuid([9; 16]))).unwrap();
    assert!(matches!(array.state(1), MemberState::Rebuilding(_)));
    array.device(0).unwrap().add(refusal());
    assert!(write(&runtime, &array, 0, &[3; 512]).is_err());
    assert_eq!(array.state(0), MemberState::Active);
    model[..512].fill(3);
    check(&runtime, &array, &model, "while it is rebuilt");
    array.watch(|_| true);
    assert_eq!(runtime.block_on(array.resume_rebuild(1)).unwrap(), []);
    check(&runtime, &array, &model, "rebuilt");
    assert_eq!(scrubbed(&runtime, &array, Repair::No).mismatches, 0);
}

#[test]
fn what_nobody_is_left_to_give_is_not_blamed_on_a_medium() {
    for (level, members) in redundant_levels() {
        let runtime = Runtime::simulated();
        let (array, ..) = with_contents(&runtime, level, members, 7);
        (0..members).for_each(|member| array.fail(member));
        assert_eq!(read(&runtime, &array, 0, 1), Err(DeviceError::Gone), "{level}");
    }
}

#[test]
fn a_member_that_vanishes_while_reading_is_used_no_more() {
    let runtime = Runtime::simulated();
    for (level, members) in redundant_levels() {
        let (array, model, _) = with_contents(&runtime, level, members, 13);
        let first = array.geometry().place(Bytes::ZERO).member;
        array.device(first).unwrap().add(Rule::new(Effect::Vanish));
        check(&runtime, &array, &model, &format!("{level:?}"));
        assert_eq!(array.state(first), MemberState::Failed, "{level:?}");
    }
}

#[test]
fn a_rebuild_goes_on_past_what_is_lost_and_says_what() {
    let runtime = Runtime::simulated();
    let (array, model, mut random) = with_contents(&runtime, Level::Raid5(Rotation::LeftSymmetric), 4, 15);
    array.fail(1);
    // A sector of row 1 on another member: that sector of the new member cannot be computed, and only that.
    let at = DATA_AT + CHUNK + Bytes::SECTOR * 2;
    array.device(3).unwrap().inner().damage(at..at + Bytes::SECTOR, Damage::Unreadable);
    let bad = runtime.block_on(array.rebuild(1, disk(&runtime), DATA_AT, Uuid::default())).unwrap();
    assert_eq!((bad.len(), bad[0].end - bad[0].start), (1, Bytes::SECTOR));
    let unreadable: Vec<Bytes> = (0..model.len() as u64 / 512)
        .map(|sector| Bytes::SECTOR * sector)
        .filter(|at| match read(&runtime, &array, *at / Bytes::SECTOR, 1) {
            Ok(bytes) => {
                assert_eq!(bytes, model[at.as_usize()..][..512], "at {at}");
                false
            }
            Err(_) => true,
        })
        .collect();
    // The sector itself; and the one on the other member, which that one would be needed for, if it holds data.
    assert!(unreadable.contains(&bad[0].start) && unreadable.len() <= 2, "{unreadable:?}");
    assert!(read(&runtime, &array, bad[0].start / Bytes::SECTOR, 1).is_err(), "never what happens to be there");
    // A row that is written whole is whole.
    let row = array.geometry().stripe_size();
    let bytes = fresh(&mut random, array.geometry().stripe_size() / Bytes::SECTOR);
    write(&runtime, &array, row / Bytes::SECTOR, &bytes).unwrap();
    assert_eq!(read(&runtime, &array, row / Bytes::SECTOR, bytes.len() as u64 / 512), Ok(bytes));
}

#[test]
fn writes_during_a_rebuild_are_not_lost() {
    let runtime = Runtime::simulated();
    for (level, members) in redundant_levels() {
        let (array, mut model, mut random) = with_contents(&runtime, level, members, 17);
        array.fail(members - 1);
        let sectors = model.len() as u64 / 512;
        let writes: Vec<(u64, Vec<u8>)> = (0..200)
            .map(|_| {
                let from = random.random_range(0..sectors - 8);
                (from, fresh(&mut random, 8))
            })
            .collect();
        let writer = async {
            for (from, bytes) in &writes {
                array.submit(Request::write(Bytes::SECTOR * *from, data(bytes))).await.result.unwrap();
            }
        };
        let rebuild = array.rebuild(members - 1, disk(&runtime), DATA_AT, Uuid::default());
        let ((), bad) = runtime.block_on(async { futures_util::join!(writer, rebuild) });
        assert!(bad.unwrap().is_empty());
        for (from, bytes) in &writes {
            model[(from * 512) as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        check(&runtime, &array, &model, &format!("{level:?}"));
        assert_eq!(scrubbed(&runtime, &array, Repair::No).mismatches, 0, "{level:?}");
    }
}

#[test]
fn overlapping_writes_leave_one_of_them_and_fitting_redundancy() {
    let runtime = Runtime::simulated();
    for (level, members) in redundant_levels() {
        let (array, _, _) = with_contents(&runtime, level, members, 19);
        let sectors = array.shape().size / Bytes::SECTOR;
        // Thirty writes at once, each full of its own number.
        let writes = (0..30u8).map(|number| {
            let from = u64::from(number) % 10;
            let length = sectors.min(40) - from;
            array.submit(Request::write(Bytes::SECTOR * from, data(&vec![number; length as usize * 512])))
        });
        assert!(runtime.block_on(join_all(writes)).into_iter().all(|reply| reply.result.is_ok()));
        assert_eq!(scrubbed(&runtime, &array, Repair::No).mismatches, 0, "{level:?} on {members}");
        let after = read(&runtime, &array, 0, sectors.min(40)).unwrap();
        for (sector, bytes) in after.chunks(512).enumerate() {
            let writer = bytes[0];
            assert!(bytes.iter().all(|byte| *byte == writer) && usize::from(writer) % 10 <= sector, "{level:?}");
        }
    }
}

#[test]
fn a_scrub_of_level_6_mends_the_member_that_is_wrong() {
    let runtime = Runtime::simulated();
    for (level, members) in redundant_levels().into_iter().filter(|(level, _)| level.parities() == 2) {
        let (array, model, _) = with_contents(&runtime, level, members, 21);
        // A bit in each member, in different sectors of one row: all are found, although they are more than two.
        for member in 0..members {
            let at = DATA_AT + Bytes::SECTOR * member as u64;
            array.device(member).unwrap().inner().damage(at..at + Bytes::SECTOR, Damage::Flipped(100));
        }
        let found = scrubbed(&runtime, &array, Repair::No);
        assert_eq!((&found.located, found.mended), (&vec![1; members], vec![0; members]), "{level:?}");
        let mut named: Vec<usize> = found.misfits.iter().filter_map(|misfit| misfit.member).collect();
        named.sort_unstable();
        named.dedup();
        assert_eq!(named, (0..members).collect::<Vec<_>>(), "{level:?}");
        for misfit in &found.misfits {
            let (member, range) = (misfit.member.expect("all are located"), misfit.range.clone());
            match array.geometry().role(member, Bytes::SECTOR * member as u64) {
                Role::Data(address) => assert_eq!(range, address..address + Bytes::SECTOR, "{level:?}"),
                _ => assert_eq!(range, Bytes::ZERO..array.geometry().stripe_size(), "{level:?}"),
            }
        }
        let found = scrubbed(&runtime, &array, Repair::WhatIsWrong);
        assert_eq!((found.mismatches, found.mended), (members as u64, vec![1; members]), "{level:?}");
        check(&runtime, &array, &model, &format!("{level:?}"));
        assert_eq!(scrubbed(&runtime, &array, Repair::No).mismatches, 0);
    }
}

#[test]
fn a_scrub_does_not_guess() {
    let runtime = Runtime::simulated();
    // Level 5 cannot tell what is wrong; level 6 cannot when two are, in the same sector.
    let six = Level::Raid6(DoubleRotation::default());
    for (level, wrong) in [(Level::Raid5(Rotation::LeftSymmetric), vec![1]), (six, vec![1, 2])] {
        let (array, _, _) = with_contents(&runtime, level, 5, 23);
        for (bit, member) in wrong.iter().enumerate() {
            array
                .device(*member)
                .unwrap()
                .inner()
                .damage(DATA_AT..DATA_AT + Bytes::SECTOR, Damage::Flipped(bit as u16 * 999));
        }
        let before = read(&runtime, &array, 0, 8).unwrap();
        let found = scrubbed(&runtime, &array, Repair::WhatIsWrong);
        assert_eq!((found.mismatches, found.believed), (1, 0));
        assert_eq!((found.located, found.misfits.len(), found.misfits[0].member), (vec![0; 5], 1, None));
        assert_eq!(scrubbed(&runtime, &array, Repair::BelieveData).mismatches, 1);
        assert_eq!(scrubbed(&runtime, &array, Repair::No).mismatches, 0);
        assert_eq!(read(&runtime, &array, 0, 8).unwrap(), before, "data are believed, not changed");
    }
}

#[test]
fn zeroes_are_written_and_discards_forget_nothing_that_parity_needs() {
    let runtime = Runtime::simulated();
    for (level, members) in redundant_levels() {
        let (array, mut model, _) = with_contents(&runtime, level, members, 25);
        let zero = Request::write_zeroes(Bytes::SECTOR * 3, Bytes::SECTOR * 20);
        runtime.block_on(array.submit(zero)).result.unwrap();
        model[3 * 512..23 * 512].fill(0);
        runtime.block_on(array.submit(Request::discard(Bytes::SECTOR * 40, Bytes::SECTOR * 2))).result.unwrap();
        assert_eq!(scrubbed(&runtime, &array, Repair::No).mismatches, 0, "{level:?}");
        assert_eq!(read(&runtime, &array, 0, 40).unwrap(), model[..40 * 512], "{level:?}");
    }
}

#[test]
fn a_flush_reaches_the_members_and_a_member_that_fails_it_is_used_no_more() {
    let runtime = Runtime::simulated();
    let (array, model, _) = with_contents(&runtime, Level::Raid5(Rotation::LeftSymmetric), 4, 27);
    array.device(2).unwrap().add(Rule::new(Effect::Fail(DeviceError::Kernel { errno: 5 })).on(Operation::Flush));
    assert_eq!(runtime.block_on(array.submit(Request::flush())).result, Ok(()));
    assert_eq!(array.state(2), MemberState::Failed);
    check(&runtime, &array, &model, "degraded");
    let (array, ..) = with_contents(&runtime, Level::Raid0(Zones::Original), 3, 27);
    array.device(2).unwrap().add(Rule::new(Effect::Fail(DeviceError::Kernel { errno: 5 })).on(Operation::Flush));
    assert!(runtime.block_on(array.submit(Request::flush())).result.is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    /// Long random lives: writes, losses, rebuilds, latent sectors and scrubs, in any order the level survives.
    #[test]
    fn a_life_of_an_array(which in 0..16usize, seed: u64, steps in prop::collection::vec((0..10u8, any::<u64>()), 1..40)) {
        let runtime = Runtime::simulated();
        let (level, members) = redundant_levels()[which];
        let (array, mut model, mut random) = with_contents(&runtime, level, members, seed);
        for (verb, number) in steps {
            let member = (number % members as u64) as usize;
            let failed: Vec<usize> = (0..members).filter(|m| array.state(*m) == MemberState::Failed).collect();
            let damaged = (0..members).any(|member| !array.device(member).unwrap().inner().damaged().is_empty());
            match verb {
                0 if failed.len() < level.losses_survived(members) && !damaged => array.fail(member),
                1 => for member in failed {
                    prop_assert!(runtime.block_on(array.rebuild(member, disk(&runtime), DATA_AT, Uuid::default())).unwrap().is_empty());
                },
                2 if failed.is_empty() && !damaged => {
                    let at = DATA_AT + Bytes::SECTOR * (number / 64 % (ROWS * 8));
                    array.device(member).unwrap().inner().damage(at..at + Bytes::SECTOR, Damage::Unreadable);
                }
                3 if failed.is_empty() && !damaged => {
                    prop_assert_eq!(scrubbed(&runtime, &array, Repair::No).mismatches, 0);
                }
                4 => {
                    let sectors = model.len() as u64 / 512;
                    let from = number % sectors;
                    let count = (number / sectors % 60 + 1).min(sectors - from);
                    let bytes = read(&runtime, &array, from, count).unwrap();
                    prop_assert_eq!(&bytes[..], &model[(from * 512) as usize..][..bytes.len()]);
                }
                _ => scribble(&runtime, &array, &mut model, &mut random, 3),
            }
        }
        check(&runtime, &array, &model, &format!("{level:?} on {members}"));
    }
}
