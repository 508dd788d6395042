//! Members that give something else than was written, and say nothing.

use array::geometry::{DoubleRotation, Level};
use array::md::Consistency;
use array::{MemberState, Repair};
use device::filter::Damage;

use super::stage::{FIVE, Stage, must, redundant};
use crate::disk::Lie;
use crate::recovery::look;

/// Every member lies about one write in turn.
fn told(lie: Lie) -> Result<(), String> {
    for (level, members) in redundant() {
        let stage = Stage::new(level, members, Consistency::Resync, true)?;
        for member in 0..members {
            stage.disk(member).lie(lie, stage.world.data_area());
            let sectors = stage.world.oracle.borrow().sectors();
            stage.write(0, sectors).map_err(|error| error.to_string())?;
            must(stage.disk(member).damaged() > 0, || format!("{level}: member {member} told the truth"))?;
            stage.reads_well().map_err(|what| format!("{level}, {lie:?} at member {member}: {what}"))?;
            let found = stage.scrub(Repair::No)?;
            must(found.mismatches + found.unreadable == 0, || format!("{level}, {lie:?}: {found:?}"))?;
            // What landed elsewhere may be what was to be written there.
            must(stage.disk(member).damaged() == 0 || matches!(lie, Lie::Misdirected(_)), || {
                format!("{level}, {lie:?} at member {member} stays")
            })?;
            must(stage.array().counts(member).corrupt > 0, || format!("{level}: member {member} is not named"))?;
        }
    }
    Ok(())
}

pub fn torn() -> Result<(), String> {
    told(Lie::Torn)
}

pub fn lies() -> Result<(), String> {
    told(Lie::Lost)?;
    told(Lie::Misdirected(8))?;
    // Without checksums, two wrong blocks of a row cannot be told from others: counted, and left.
    let stage = Stage::new(Level::Raid6(DoubleRotation::default()), 5, Consistency::Resync, false)?;
    stage.disk(0).damage(stage.at(0), Damage::Flipped(9));
    stage.disk(1).damage(stage.at(0), Damage::Flipped(700));
    let found = stage.scrub(Repair::WhatIsWrong)?;
    must(found.mismatches == 1 && found.mended.iter().sum::<u64>() == 0, || format!("{found:?}"))
}

pub fn rot() -> Result<(), String> {
    for (level, members) in redundant() {
        let mut stage = Stage::new(level, members, Consistency::Resync, true)?;
        stage.stop()?;
        stage.reopen().map_err(|error| error.to_string())?;
        for member in 0..members {
            stage.disk(member).damage(stage.at(3).start..stage.at(12).end, Damage::Flipped(1234));
            stage.reads_well()?;
            let found = stage.scrub(Repair::No)?;
            must(found.mismatches + found.unreadable == 0, || format!("{level}: {found:?}"))?;
            must(stage.disk(member).damaged() == 0, || format!("{level}: member {member} is not healed"))?;
            must(stage.array().counts(member).corrupt == 10, || {
                format!("{level}: {:?}", stage.array().counts(member))
            })?;
        }
    }
    // After an orderly stop a member is missing, and the journal; of another, sectors rot. Where no member says that it
    // was being written, parity fits, so they are computed and mended beside the member that comes in, and the resync
    // comes to its end.
    let mut stage = Stage::new(Level::Raid6(DoubleRotation::default()), 5, Consistency::Journal, true)?;
    stage.array().fail(0);
    stage.write(0, 30).map_err(|error| error.to_string())?;
    stage.flush()?;
    stage.stop()?;
    stage.disk(1).damage(stage.at(3).start..stage.at(40).end, Damage::Flipped(1234));
    let there = stage.world.disks.borrow()[1..5].to_vec();
    let array = stage.open(there, true).map_err(|error| error.to_string())?;
    let fresh = stage.world.new_disk();
    let lost = stage.wait(array.rebuild(0, fresh, stage.world.data_offset, stage.world.identity()));
    must(lost == Ok(Vec::new()), || format!("a rebuild beside rot: {lost:?}"))?;
    let fits = stage.wait(array.resync()).map_err(|error| error.to_string())?;
    must(fits && stage.disk(1).damaged() == 0, || format!("rot stays, and redundancy fits: {fits}"))?;
    stage.wait(look(&stage.world, &array))?;
    // Without checksums: level 6 locates it wherever it is, level 5 counts it and changes nothing.
    let stage = Stage::new(Level::Raid6(DoubleRotation::default()), 5, Consistency::Resync, false)?;
    for member in 0..5 {
        stage.disk(member).damage(stage.at(3), Damage::Flipped(1234));
        let found = stage.scrub(Repair::WhatIsWrong)?;
        must(found.mended[member] == 1 && found.mismatches == 1, || format!("member {member}: {found:?}"))?;
        stage.reads_well()?;
    }
    let stage = Stage::new(FIVE, 4, Consistency::Resync, false)?;
    stage.disk(1).damage(stage.at(3), Damage::Flipped(1234));
    let found = stage.scrub(Repair::WhatIsWrong)?;
    must((found.mismatches, found.believed, stage.disk(1).damaged()) == (1, 0, 1), || format!("{found:?}"))
}

pub fn metadata() -> Result<(), String> {
    for (level, members) in redundant() {
        for member in 0..members {
            let mut stage = Stage::new(level, members, Consistency::Bitmap, false)?;
            stage.stop()?;
            stage.world.spoil_superblock(member);
            stage.reopen().map_err(|error| format!("{level}: {error}"))?;
            must(stage.state(member) == MemberState::Failed, || format!("{level}: a damaged superblock is believed"))?;
            stage.reads_well()?;
        }
        let mut stage = Stage::new(level, members, Consistency::Bitmap, false)?;
        stage.write(0, 30).map_err(|error| error.to_string())?;
        stage.cut();
        for bit in [0u16, 40, 70, 130, 200, 300, 420, 2048] {
            let at = array::md::SUPERBLOCK_AT + units::Bytes::kib(4);
            stage.disk(0).damage(at..at + units::Bytes::SECTOR, Damage::Flipped(bit));
            stage.reopen().map_err(|error| format!("{level}: {error}"))?;
            stage.recovers().map_err(|what| format!("{level}, bit {bit} of the bitmap: {what}"))?;
            stage.write(0, 30).map_err(|error| error.to_string())?;
            stage.cut();
        }
    }
    Ok(())
}
