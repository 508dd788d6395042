//! An array's life: restarts in the middle of upkeep, failures during it, requests that meet.

use array::geometry::Level;
use array::md::Consistency;
use array::{MemberState, Repair};
use device::filter::{Effect, Rule};
use device::{Buffer, Device, Request};
use futures_util::future::{join, join_all};
use units::Bytes;

use super::stage::{FIVE, Stage, must, redundant};
use crate::bug::data_of;
use crate::oracle::sectors_of;

pub fn restart() -> Result<(), String> {
    for (level, members) in redundant() {
        let mut stage = Stage::new(level, members, Consistency::Resync, false)?;
        let sectors = stage.world.oracle.borrow().sectors();
        stage.write(0, sectors).map_err(|error| error.to_string())?;
        stage.cut();
        for _ in 0..4 {
            stage.reopen().map_err(|error| format!("{level}: {error}"))?;
            stage.array().watch(|_| false);
            stage.wait(stage.array().resync()).map_err(|error| format!("{level}: {error}"))?;
            stage.cut();
        }
        stage.reopen().map_err(|error| format!("{level}: {error}"))?;
        stage.recovers().map_err(|what| format!("{level}, a resync in pieces: {what}"))?;
        let found = stage.scrub(Repair::No)?;
        must(found.mismatches == 0, || format!("{level}: {found:?}"))?;
        stage.array().fail(1);
        stage.write(0, 7).map_err(|error| error.to_string())?;
        stage.array().watch(|_| false);
        stage.rebuild(1, stage.world.new_disk()).map_err(|error| format!("{level}: {error}"))?;
        // A small mirror is one unit, and whole at once.
        let pieces = if level == Level::Raid1 { 0 } else { 3 };
        let unfinished = matches!(stage.state(1), MemberState::Rebuilding(_));
        must(unfinished || pieces == 0, || format!("{level}: {:?}", stage.state(1)))?;
        for _ in 0..pieces {
            stage.stop()?;
            stage.reopen().map_err(|error| format!("{level}: {error}"))?;
            must(matches!(stage.state(1), MemberState::Rebuilding(_)), || format!("{level}: {:?}", stage.state(1)))?;
            stage.reads_well()?;
            stage.array().watch(|_| false);
            stage.wait(stage.array().resume_rebuild(1)).map_err(|error| format!("{level}: {error}"))?;
        }
        stage.array().watch(|_| true);
        stage.wait(stage.array().resume_rebuild(1)).map_err(|error| format!("{level}: {error}"))?;
        must(stage.state(1) == MemberState::Active, || format!("{level}: {:?}", stage.state(1)))?;
        stage.reads_well()?;
        let found = stage.scrub(Repair::No)?;
        must(found.mismatches == 0, || format!("{level}: {found:?}"))?;
    }
    Ok(())
}

pub fn rebuild() -> Result<(), String> {
    for (level, members) in redundant() {
        let stage = Stage::new(level, members, Consistency::Resync, false)?;
        let array = stage.array();
        array.fail(1);
        // A replacement that fails on the way.
        let bad = stage.world.new_disk();
        bad.suffer(Rule::new(Effect::Vanish).after(2));
        let failed = stage.rebuild(1, bad);
        must(failed.is_err() && stage.state(1) == MemberState::Failed, || format!("{level}: {failed:?}"))?;
        stage.reads_well()?;
        // Another, while every sector is written one after the other, and one member more fails where that is survived.
        let fresh = stage.world.new_disk();
        stage.world.disks.borrow_mut()[1] = std::rc::Rc::clone(&fresh);
        let sectors = stage.world.oracle.borrow().sectors();
        let writes = async {
            for sector in 0..sectors {
                let value = stage.world.oracle.borrow_mut().fresh();
                stage.world.oracle.borrow_mut().may_write(sector..sector + 1, value);
                let request = Request::write(Bytes::SECTOR * sector, data_of(&sectors_of(value, 1)));
                array.submit(request).await.result.map_err(|error| format!("{level}, sector {sector}: {error}"))?;
                if sector == 20 && level.losses_survived(members) > 1 {
                    array.fail(0);
                }
            }
            Ok::<(), String>(())
        };
        let rebuilt = array.rebuild(1, fresh, stage.world.data_offset, stage.world.identity());
        let (written, rebuilt) = stage.wait(join(writes, rebuilt));
        written?;
        let lost = rebuilt.map_err(|error| format!("{level}: {error}"))?;
        must(lost.is_empty(), || format!("{level}: lost {lost:?}"))?;
        stage.reads_well()?;
        // What was rebuilt is right: the others may go.
        let last = members - 1;
        array.fail(last);
        stage.reads_well().map_err(|what| format!("{level}, without member {last}: {what}"))?;
    }
    Ok(())
}

pub fn degraded_cut() -> Result<(), String> {
    for lost in 0..4 {
        let mut stage = Stage::new(FIVE, 4, Consistency::Ppl, false)?;
        stage.array().fail(lost);
        let sectors = stage.world.oracle.borrow().sectors();
        stage.write(0, sectors).map_err(|error| error.to_string())?;
        stage.flush()?;
        stage.write(3, 1).map_err(|error| error.to_string())?;
        stage.cut();
        stage.reopen().map_err(|error| format!("without member {lost}: {error}"))?;
        must(stage.state(lost) == MemberState::Failed, || format!("member {lost} is believed"))?;
        stage.recovers()?;
        stage.rebuild(lost, stage.disk(lost)).map_err(|error| error.to_string())?;
        stage.reads_well()?;
        let found = stage.scrub(Repair::No)?;
        must(found.mismatches == 0, || format!("{found:?}"))?;
    }
    Ok(())
}

pub fn overlapping() -> Result<(), String> {
    for (level, members) in redundant() {
        let stage = Stage::new(level, members, Consistency::Resync, false)?;
        let array = stage.array();
        let sectors = stage.world.oracle.borrow().sectors();
        let mut requests = Vec::new();
        for number in 0..32u64 {
            let (first, count) = (number * 5 % (sectors - 24), 8 + number % 16);
            let value = if number % 8 == 7 { 0 } else { stage.world.oracle.borrow_mut().fresh() };
            stage.world.oracle.borrow_mut().may_write(first..first + count, value);
            let at = Bytes::SECTOR * first;
            let mut request = match value {
                0 => Request::write_zeroes(at, Bytes::SECTOR * count),
                _ => Request::write(at, data_of(&sectors_of(value, count))),
            };
            request.fua = number % 5 == 0;
            requests.push(request);
            requests.push(Request::flush());
        }
        let reads = (0..16u64).map(|number| Request::read(Bytes::SECTOR * number, Buffer::zeroed(Bytes::kib(2))));
        let replies = stage.wait(join_all(requests.into_iter().chain(reads).map(|request| array.submit(request))));
        for reply in replies {
            reply.result.map_err(|error| format!("{level}: {error}"))?;
        }
        let bytes = stage.read(0, sectors).map_err(|error| error.to_string())?;
        // A sector has one of the values that were written to it, whole.
        stage.world.oracle.borrow().admits(&bytes)?;
        let found = stage.scrub(Repair::No)?;
        must(found.mismatches == 0, || format!("{level}: {found:?}"))?;
        stage.wait(array.submit(Request::discard(Bytes::ZERO, Bytes::kib(8)))).result.map_err(|e| e.to_string())?;
        let found = stage.scrub(Repair::No)?;
        must(found.mismatches == 0, || format!("{level}, after a discard: {found:?}"))?;
    }
    Ok(())
}
