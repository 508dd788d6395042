//! Which devices are members, and which are not.

use std::rc::Rc;

use array::geometry::{Copies, DoubleRotation, Level};
use array::md::{Consistency, Features, SuperblockError, Uuid};
use array::{MemberState, OpenError, Repair};
use units::Bytes;

use super::stage::{FIVE, Stage, must, redundant};
use crate::recovery::bring_back;
use device::Device;

fn said<T>(result: Result<T, OpenError>) -> String {
    result.err().map_or("it opens".to_owned(), |error| error.to_string())
}

pub fn stale() -> Result<(), String> {
    for (level, members) in redundant() {
        let mut stage = Stage::new(level, members, Consistency::Resync, false)?;
        let sectors = stage.world.oracle.borrow().sectors();
        stage.array().fail(1);
        stage.write(0, sectors).map_err(|error| error.to_string())?;
        stage.stop()?;
        // It is there again, with what it held before.
        stage.reopen().map_err(|error| format!("{level}: {error}"))?;
        must(stage.state(1) == MemberState::Failed, || format!("{level}: a stale member is believed"))?;
        stage.reads_well()?;
        let lost = stage.rebuild(1, stage.disk(1)).map_err(|error| format!("{level}: {error}"))?;
        must(lost.is_empty(), || format!("{level}: lost {lost:?}"))?;
        stage.reads_well()?;
    }
    Ok(())
}

pub fn split_brain() -> Result<(), String> {
    // Two halves alone; one of them with a disk that took the other's place, or with one that waits.
    for company in ["", "a disk that was rebuilt", "a spare"] {
        let mut stage = Stage::new(Level::Raid1, 2, Consistency::Resync, false)?;
        stage.stop()?;
        let third = stage.world.new_disk();
        for half in 0..2 {
            let alone = stage.open(vec![stage.disk(half)], false).map_err(|error| error.to_string())?;
            let identity = stage.world.identity();
            let joined = match (half, company) {
                (0, "a disk that was rebuilt") => {
                    let rebuilt = alone.rebuild(1, Rc::clone(&third), stage.world.data_offset, identity);
                    stage.wait(rebuilt).map(drop)
                }
                (0, "a spare") => stage.wait(alone.add_spare(Rc::clone(&third), identity)),
                _ => Ok(()),
            };
            joined.map_err(|error| format!("{company} does not join: {error}"))?;
            let write = device::Request::write(Bytes::ZERO, crate::bug::data_of(&[half as u8 + 1; 512]));
            stage.wait(alone.submit(write)).result.map_err(|error| error.to_string())?;
            stage.wait(alone.stop()).map_err(|error| error.to_string())?;
        }
        let mut disks = vec![stage.disk(0), stage.disk(1)];
        disks.extend((!company.is_empty()).then_some(third));
        match stage.open(disks, false) {
            Err(OpenError::SplitBrain { .. }) => {}
            other => return Err(format!("two halves that went on alone, with them {company:?}: {}", said(other))),
        }
    }
    half_returns()
}

/// A half that went on alone is not given back by the bitmap of the other, which marks nothing of what was written to
/// it.
fn half_returns() -> Result<(), String> {
    let six = Level::Raid6(DoubleRotation::default());
    for (level, members) in [(Level::Raid1, 2), (six, 4), (Level::Raid10(Copies::near(2)), 4)] {
        let mut stage = Stage::new(level, members, Consistency::Bitmap, false)?;
        stage.stop()?;
        let half = |which: usize| (which..members).step_by(2);
        for which in [1, 0] {
            let others = half(1 - which).collect();
            *stage.world.gone.borrow_mut() = others;
            stage.reopen().map_err(|error| format!("{level}, a half: {error}"))?;
            stage.write(which as u64, 1).map_err(|error| error.to_string())?;
            if which == 1 {
                stage.stop()?;
            }
        }
        for member in half(1) {
            let back = stage.wait(bring_back(&stage.world, stage.array(), member))?;
            must(!back, || format!("{level}: member {member} comes back with what was written without the others"))?;
            let lost = stage.rebuild(member, stage.disk(member)).map_err(|error| format!("{level}: {error}"))?;
            must(lost.is_empty(), || format!("{level}: lost {lost:?}"))?;
        }
        must(stage.scrub(Repair::No)?.mismatches == 0, || format!("{level}: the halves differ after a whole rebuild"))?;
    }
    Ok(())
}

pub fn too_many() -> Result<(), String> {
    for (level, members) in redundant() {
        let mut stage = Stage::new(level, members, Consistency::Resync, false)?;
        // At level 10 the first two are copies of each other.
        let lost = level.losses_survived(members) + 1;
        (0..lost).for_each(|member| stage.array().fail(member));
        let sectors = stage.world.oracle.borrow().sectors();
        must(stage.write(0, sectors).is_err(), || format!("{level}: a write is accepted without {lost} members"))?;
        for sector in 0..sectors {
            // What it could not store may be there in part, so only what was never touched would tell; nothing is made
            // up.
            if let Ok(bytes) = stage.read(sector, 1) {
                must(crate::oracle::value_of(&bytes).is_some(), || format!("{level}: sector {sector} is a mixture"))?;
            }
        }
        stage.cut();
        stage.world.gone.borrow_mut().extend(0..lost);
        match stage.reopen() {
            Err(OpenError::TooFew { .. } | OpenError::None(_)) => {}
            other => return Err(format!("{level} without {lost} members: {}", said(other))),
        }
    }
    Ok(())
}

pub fn strangers() -> Result<(), String> {
    for (level, members) in redundant() {
        let mut stage = Stage::new(level, members, Consistency::Resync, false)?;
        stage.stop()?;
        stage.world.disks.borrow_mut().reverse();
        stage.reopen().map_err(|error| format!("{level}, reversed: {error}"))?;
        stage.reads_well()?;
        stage.stop()?;
        let mut disks = stage.world.disks.borrow().clone();
        let copy = disks[0].after_cut(&stage.world.runtime, Some(|| true), |_, _| false, false, None, 1);
        disks.push(copy);
        match stage.open(disks.clone(), false) {
            Err(OpenError::Twice { .. }) => {}
            other => return Err(format!("{level}, a member twice: {}", said(other))),
        }
        disks.pop();
        stage.edit(&disks[1], |superblock| superblock.array = Uuid([3; 16]));
        match stage.open(disks, false) {
            Err(OpenError::Mixed { .. }) => {}
            other => return Err(format!("{level}, a member of another array: {}", said(other))),
        }
    }
    Ok(())
}

pub fn unknown_feature() -> Result<(), String> {
    for (level, members) in redundant() {
        let mut stage = Stage::new(level, members, Consistency::Resync, false)?;
        stage.stop()?;
        for member in 0..members {
            stage.edit(&stage.disk(member), |superblock| {
                superblock.features = superblock.features.with(Features(1 << 20))
            });
        }
        match stage.reopen() {
            Err(OpenError::None(SuperblockError::Features(name))) if name.contains("20") => {}
            other => return Err(format!("{level}: {}", said(other))),
        }
    }
    Ok(())
}

pub fn wrong_size() -> Result<(), String> {
    for (level, members) in [(FIVE, 4), (Level::Raid1, 2)] {
        let mut stage = Stage::new(level, members, Consistency::Resync, false)?;
        stage.stop()?;
        for member in 0..members {
            stage.edit(&stage.disk(member), |superblock| superblock.size += Bytes::mib(1));
        }
        match stage.reopen() {
            Err(OpenError::Misplaced { device: 0, error }) if error.field == "size" => {}
            other => return Err(format!("{level}, members cut off: {}", said(other))),
        }
    }
    Ok(())
}
