//! Requests that members fail, or do not answer.

use array::geometry::Role;
use array::md::{Consistency, SUPERBLOCK_AT};
use array::{MemberState, Repair};
use device::filter::{Damage, Effect, Rule};
use device::{DeviceError, Operation};
use units::{Bytes, Duration};

use super::stage::{FIVE, Stage, must, redundant};
use crate::recovery::look;

fn medium() -> Effect {
    Effect::Fail(DeviceError::Medium { offset: Bytes::ZERO, length: Bytes::SECTOR })
}

pub fn read() -> Result<(), String> {
    for (level, members) in redundant() {
        let stage = Stage::new(level, members, Consistency::Resync, false)?;
        let sound = |stage: &Stage| (0..members).all(|member| stage.disk(member).damaged() == 0);
        for member in 0..members {
            stage.disk(member).damage(stage.at(3).start..stage.at(9).end, Damage::Unreadable);
            stage.reads_well()?;
            // What no read met, a scrub does.
            let found = stage.scrub(Repair::No)?;
            must(found.mismatches + found.unreadable == 0 && sound(&stage), || format!("{level}: {found:?}"))?;
            must(stage.state(member) == MemberState::Active, || format!("{level}: member {member} is out"))?;
            must(stage.array().counts(member).rewritten > 0, || format!("{level}: nothing was written again"))?;
        }
    }
    // Two in one row, and one in a degraded row: an error for that range, and for no other.
    let stage = Stage::new(FIVE, 4, Consistency::Resync, false)?;
    stage.disk(0).damage(stage.at(0), Damage::Unreadable);
    stage.disk(1).damage(stage.at(0), Damage::Unreadable);
    let sectors = stage.world.oracle.borrow().sectors();
    let mut failed = 0;
    for sector in 0..sectors {
        match stage.read(sector, 1) {
            Ok(bytes) => stage.world.oracle.borrow().is_newest(sector, &bytes)?,
            Err(_) => failed += 1,
        }
    }
    let data = (0..2).filter(|member| matches!(stage.world.geometry().role(*member, Bytes::ZERO), Role::Data(_)));
    let data = data.count();
    must(failed == data, || format!("{failed} sectors fail, {data} are lost"))?;
    must((0..4).all(|member| stage.state(member) == MemberState::Active), || "a member is out".into())
}

pub fn write() -> Result<(), String> {
    for (level, members) in redundant() {
        let consistency = if level == FIVE { Consistency::Ppl } else { Consistency::Resync };
        let mut stage = Stage::new(level, members, consistency, false)?;
        stage.disk(1).suffer(
            Rule::new(medium())
                .on(Operation::Write)
                .within(stage.at(0).start..stage.at(0).start + Bytes::kib(16))
                .times(1),
        );
        let sectors = stage.world.oracle.borrow().sectors();
        stage.write(0, sectors).map_err(|error| format!("{level}: a write that can be stored failed: {error}"))?;
        must(stage.state(1) == MemberState::Failed, || format!("{level}: a member that did not take a write serves"))?;
        stage.reads_well()?;
        // It was told before the acknowledgement: another start finds it out of use, whatever else the power took.
        stage.cut();
        if level.parities() == 0 || consistency == Consistency::Ppl {
            stage.reopen().map_err(|error| format!("{level}: {error}"))?;
            must(stage.state(1) == MemberState::Failed, || format!("{level}: it is believed after a restart"))?;
            stage.recovers()?;
        }
    }
    Ok(())
}

pub fn metadata() -> Result<(), String> {
    for (level, members) in redundant() {
        let mut stage = Stage::new(level, members, Consistency::Resync, false)?;
        stage.stop()?;
        stage.reopen().map_err(|error| error.to_string())?;
        let superblock = SUPERBLOCK_AT..SUPERBLOCK_AT + Bytes::SECTOR;
        stage.disk(0).suffer(Rule::new(medium()).on(Operation::Write).within(superblock).times(1));
        stage.write(2, 3).map_err(|error| format!("{level}: {error}"))?;
        must(stage.state(0) == MemberState::Failed, || format!("{level}: its superblock is old, and it serves"))?;
        stage.reads_well()?;
        // At level 6 one more may go; elsewhere begin anew.
        let stage = if level.losses_survived(members) > 1 {
            stage
        } else {
            Stage::new(level, members, Consistency::Resync, false)?
        };
        stage.disk(1).suffer(Rule::new(medium()).on(Operation::Flush).times(1));
        stage.write(0, 1).map_err(|error| format!("{level}: {error}"))?;
        stage.flush()?;
        must(stage.state(1) == MemberState::Failed, || format!("{level}: a failed flush was called done"))?;
        stage.reads_well()?;
    }
    // A journal that is found gone in a rebuild, or at the stop, takes nothing with it: the members have all that it
    // held.
    for rebuilt in [false, true] {
        let mut stage = Stage::new(FIVE, 4, Consistency::Journal, false)?;
        let journal = stage.disk(4);
        if rebuilt {
            stage.array().fail(0);
            stage.write(3, 5).map_err(|error| format!("a write without a member failed: {error}"))?;
        }
        journal.suffer(Rule::new(Effect::Vanish));
        if rebuilt {
            let lost = stage.rebuild(0, stage.world.new_disk());
            must(lost == Ok(Vec::new()), || format!("rebuilt without a journal: {lost:?}"))?;
        }
        stage.stop()?;
        let members = stage.world.disks.borrow()[..4].to_vec();
        let array = stage.open(members, true).map_err(|error| error.to_string())?;
        must((0..4).all(|member| array.state(member) == MemberState::Active), || "a member is out".into())?;
        let found = stage.wait(array.scrub(Repair::No)).map_err(|error| error.to_string())?;
        must(found.mismatches == 0, || format!("stopped without a journal: {found:?}"))?;
        stage.wait(look(&stage.world, &array))?;
    }
    Ok(())
}

pub fn latent_in_rebuild() -> Result<(), String> {
    let stage = Stage::new(FIVE, 4, Consistency::Resync, false)?;
    let data = |sector: u64| match stage.world.geometry().role(2, Bytes::SECTOR * sector) {
        Role::Data(address) => Some((sector, address)),
        _ => None,
    };
    let (sector, address) = (0..40).find_map(data).ok_or("member 2 holds no data")?;
    stage.array().fail(2);
    stage.disk(0).damage(stage.at(sector), Damage::Unreadable);
    let lost = stage.rebuild(2, stage.world.new_disk()).map_err(|error| error.to_string())?;
    must(lost == [address..address + Bytes::SECTOR], || format!("lost {lost:?}, not the sector at {address}"))?;
    must(stage.array().bad_ranges() == lost, || "the ranges are not marked".into())?;
    let at = address / Bytes::SECTOR;
    must(stage.read(at, 1).is_err(), || "what is lost reads as something".into())?;
    // Two of its row are gone, so neither alone can be given parity: the row is written as one.
    let row = stage.world.geometry().stripe_size();
    stage.write(row * (address / row) / Bytes::SECTOR, row / Bytes::SECTOR).map_err(|error| error.to_string())?;
    must(stage.array().bad_ranges().is_empty(), || "what was written is still called lost".into())?;
    stage.reads_well()
}

pub fn hung() -> Result<(), String> {
    for (level, members) in redundant() {
        let stage = Stage::new(level, members, Consistency::Resync, false)?;
        stage.array().set_time_limit(Duration::millis(1));
        stage.disk(0).suffer(Rule::new(Effect::Hang).on(Operation::Write));
        stage.write(0, 40).map_err(|error| format!("{level}: {error}"))?;
        must(stage.state(0) == MemberState::Failed, || format!("{level}: it is still waited for"))?;
        stage.write(0, 40).map_err(|error| format!("{level}: {error}"))?;
        stage.disk(0).recover();
        stage.wait(stage.world.runtime.sleep(Duration::millis(10)));
        stage.reads_well()?;
    }
    Ok(())
}
