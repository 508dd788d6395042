//! Recovery: an array is opened from what the power cut left, and made whole. The power may go again at any point of
//! it.

use std::collections::BTreeSet;
use std::pin::pin;
use std::rc::Rc;

use array::geometry::Level;
use array::md::{Consistency, SUPERBLOCK_AT, SUPERBLOCK_SIZE, Stamp, Superblock};
use array::{Array, MemberState, OpenError, OpenOptions, Repair};
use device::filter::{Effect, Rule};
use device::{Buffer, Device, Operation, Request};
use futures_util::future::{Either, select};
use rand::seq::SliceRandom;
use units::{Bytes, Duration};

use crate::bug::data_of;
use crate::disk::{Disk, Lie};
use crate::oracle::sectors_of;
use crate::world::World;

/// Opens the array and makes it as whole as it can be made, through as many power cuts as chance wills.
pub fn recover(world: &mut World) -> Result<Array<Rc<Disk>>, String> {
    for _ in 0..3 {
        if !world.happens(0.2) {
            break;
        }
        let lasts = Duration::micros(world.choose(3000));
        let ended = {
            let (work, cut) = (pin!(recovery(world)), pin!(world.runtime.sleep(lasts)));
            match world.runtime.block_on(select(work, cut)) {
                Either::Left((result, _)) => Some(result),
                Either::Right(_) => None,
            }
        };
        if let Some(result) = ended {
            return result;
        }
        world.outcome.borrow_mut().recovery_cuts += 1;
        world.cut();
    }
    world.finish(recovery(world))
}

async fn recovery(world: &World) -> Result<Array<Rc<Disk>>, String> {
    let (array, forced) = open(world).await?;
    world.adopt(&array);
    let states: Vec<MemberState> = (0..world.members()).map(|member| array.state(member)).collect();
    let how = if forced { "by force, " } else { "" };
    world.tell(format_args!("opened {how}{}: {states:?}", if array.is_dirty() { "dirty" } else { "clean" }));
    for member in 0..world.members() {
        match array.state(member) {
            MemberState::Active => {}
            MemberState::Rebuilding(_) if forced || world.happens(0.7) => {
                whole(array.resume_rebuild(member).await)?;
            }
            MemberState::Failed if forced || world.happens(0.3) => fill(world, &array, member).await?,
            _ => {}
        }
    }
    if let Some((member, _)) = array.replacing().filter(|_| world.happens(0.7)) {
        world.tell(format_args!("the replacement of member {member} goes on"));
        whole(array.resume_replace(member).await)?;
        world.adopt(&array);
        world.outcome.borrow_mut().replaced += 1;
    }
    world.lingers.set(!forced && world.is_to_linger(&array));
    if world.lingers.get() {
        world.tell("it serves before it is in sync");
        world.outcome.borrow_mut().lingered += 1;
        world.oracle.borrow_mut().go_on();
        return Ok(array);
    }
    world.tell("the resync begins");
    let fits = array.resync().await.map_err(|error| format!("the resync failed: {error}"))?;
    let complete = array.is_complete();
    if complete || world.level.parities() == 0 {
        if !fits {
            return Err("redundancy does not fit after the resync".into());
        }
        let has_bad = || (0..world.members()).any(|member| array.has_bad(member));
        if complete && has_bad() {
            world.tell("what had no room is made good");
            array.scrub(Repair::WhatIsWrong).await.map_err(|error| format!("the scrub failed: {error}"))?;
            if has_bad() {
                return Err("a scrub leaves something bad".into());
            }
        }
        let scrubbed = array.scrub(Repair::No).await.map_err(|error| format!("the scrub failed: {error}"))?;
        if scrubbed.mismatches > 0 {
            return Err(format!("{} sectors do not fit after the resync", scrubbed.mismatches));
        }
    }
    look(world, &array).await?;
    Ok(array)
}

/// Opens the array; by force where a power cut met it without a member.
pub async fn open(world: &World) -> Result<(Array<Rc<Disk>>, bool), String> {
    let opened = admit(world).await?;
    world.miss();
    world.measure(&opened.0)?;
    Ok(opened)
}

async fn admit(world: &World) -> Result<(Array<Rc<Disk>>, bool), String> {
    let disks = world.disks.borrow().clone();
    Disk::lead_astray(&disks, &world.geometry(), world.data_offset);
    let there = disks.into_iter().enumerate().filter(|(member, _)| !world.gone.borrow().contains(member));
    let mut devices: Vec<Rc<Disk>> = there.map(|(_, disk)| disk).collect();
    devices.extend(world.waiting.borrow().iter().cloned());
    if world.happens(0.5) {
        devices.extend(world.shelf.borrow().iter().cloned());
    }
    devices.shuffle(&mut *world.random.borrow_mut());
    let open = async |devices: &[Rc<Disk>], force_dirty_degraded| {
        let options = OpenOptions { force_dirty_degraded };
        let array = Array::open(&world.runtime, "array", devices.to_vec(), options).await?;
        // There is no other server, so none may be seen: it would be sent nothing more.
        if world.seed % 4 == 1 {
            array.look_out(Stamp(world.seed));
        }
        Ok(array)
    };
    let mut opened = open(&devices, false).await;
    // A disk that has failed, or lost its place, said last that a member had failed, which has come back since, and
    // says the same of that disk. Without those who saw both this looks like two halves that went on alone, and must be
    // refused; here it is known whom to believe. The same holds of one that was lost with the power, which met the
    // record of another's failure, if all that it counts on were replaced meanwhile, or are gone. After an outage no
    // member is whole, so those are not believed first that have no place any more.
    let stale = |first: usize, second: usize, devices: &[Rc<Disk>]| {
        let not_whole = [first, second].into_iter().filter(|device| !world.was_whole(&devices[*device]));
        not_whole.min_by_key(|device| world.place_of(&devices[*device]).is_some())
    };
    while (world.returned.get() || world.missed.get())
        && let Err(OpenError::SplitBrain { first, second }) = &opened
        && let Some(stale) = stale(*first, *second, &devices)
    {
        world.outcome.borrow_mut().refused += 1;
        devices.remove(stale);
        opened = open(&devices, false).await;
    }
    match opened {
        Ok(array) => {
            let not_whole = |member: &usize| array.state(*member) != MemberState::Active;
            let missing: Vec<usize> = (0..world.members()).filter(not_whole).collect();
            if world.consistency == Consistency::Ppl && !missing.is_empty() {
                world.oracle.borrow_mut().logged(&world.geometry(), &missing);
            }
            Ok((array, false))
        }
        // A log does not cover what the array has just grown by.
        Err(OpenError::DirtyDegraded { missing })
            if !world.is_closed() || world.grown.get() || world.growing.borrow().is_some() =>
        {
            world.outcome.borrow_mut().refused += 1;
            // From here on what the missing members held in torn stripes is not promised; everything else is.
            world.oracle.borrow_mut().forced(&world.geometry(), &missing);
            let by_force = open(&devices, true).await;
            by_force.map(|array| (array, true)).map_err(|error| format!("it does not open by force: {error}"))
        }
        // A journal that failed does not know what happened since. All that it held must be on the members by then, but
        // for writes that were under way.
        Err(OpenError::JournalMissing) if world.journal_failed.get() => {
            let by_force = open(&devices, true).await;
            let array = by_force.map_err(|error| format!("it does not open without its journal: {error}"))?;
            world.without_journal.set(true);
            let not_whole = |member: &usize| array.state(*member) != MemberState::Active;
            let missing: Vec<usize> = (0..world.members()).filter(not_whole).collect();
            world.oracle.borrow_mut().forced(&world.geometry(), &missing);
            Ok((array, true))
        }
        Err(error) => Err(format!("it does not open: {error}")),
    }
}

/// Fills a failed member's place: it comes back, or another disk takes it.
async fn fill(world: &World, array: &Array<Rc<Disk>>, member: usize) -> Result<(), String> {
    let returned = world.may_return() && world.happens(0.6) && bring_back(world, array, member).await?;
    if returned { Ok(()) } else { rebuild(world, array, member).await }
}

/// Puts another disk in a failed member's place: a new one, or the stale one that it had.
pub async fn rebuild(world: &World, array: &Array<Rc<Disk>>, member: usize) -> Result<(), String> {
    let old = Rc::clone(&world.disks.borrow()[member]);
    world.put_away(member, old);
    let fresh = newcomer(world, array);
    world.tell(format_args!("member {member} is rebuilt on {}", fresh.shape().name));
    world.disks.borrow_mut()[member] = Rc::clone(&fresh);
    world.outcome.borrow_mut().rebuilds += 1;
    world.rebuilding.borrow_mut().push(member);
    world.not_whole.borrow_mut().push(member);
    whole(array.rebuild(member, fresh, world.data_offset, world.identity()).await)?;
    world.rebuilding.borrow_mut().retain(|other| *other != member);
    world.not_whole.borrow_mut().retain(|other| *other != member);
    Ok(())
}

/// A disk that is to take a member's place: a new one, or one that had a place before, with all that it still holds.
fn newcomer(world: &World, array: &Array<Rc<Disk>>) -> Rc<Disk> {
    let fits = |disk: &Rc<Disk>| {
        disk.shape().size >= world.room()
            && disk.shape().logical_block <= array.shape().logical_block
            && !world.coming_back.borrow().contains(&disk.shape().name)
    };
    let former = world.shelf.borrow().iter().position(fits);
    match former.filter(|_| !world.cheats() && world.happens(0.4)) {
        Some(former) => {
            let disk = world.shelf.borrow_mut().remove(former);
            array.let_go_of_stale(|name| name == disk.shape().name);
            disk.recover();
            // It is elsewhere now, where there is room.
            disk.set_share(None);
            disk
        }
        None => world.new_disk(),
    }
}

/// A member that was away comes back and gets what it missed; says whether it can.
pub async fn bring_back(world: &World, array: &Array<Rc<Disk>>, member: usize) -> Result<bool, String> {
    world.returned.set(true);
    // What it learnt by reading before it left it may have forgotten.
    world.summed.set(false);
    world.rebuilding.borrow_mut().push(member);
    let given = array.returning().into_iter().find(|(returning, _)| *returning == member);
    let returned = match given {
        Some((_, name)) => {
            world.coming_back.borrow_mut().push(name);
            array.bring_back(member).await
        }
        // It left a moment ago.
        None => {
            let disk = Rc::clone(&world.disks.borrow()[member]);
            let read = disk.submit(Request::read(SUPERBLOCK_AT, Buffer::zeroed(SUPERBLOCK_SIZE))).await;
            let bytes = read.result.ok().and(read.buffer);
            let superblock = bytes.and_then(|it| Superblock::parse(it.bytes().expect("it is real")).ok());
            // An array that was opened without its disks of larger blocks takes none of them while it serves.
            let fits = disk.shape().logical_block <= array.shape().logical_block;
            // It may be on its way to another place, which it had before it was to fill this one.
            let fits = fits && !world.coming_back.borrow().contains(&disk.shape().name);
            match superblock.filter(|superblock| fits && array.may_return(superblock) == Some(member)) {
                Some(superblock) => Some(array.readd(disk, &superblock).await),
                None => None,
            }
        }
    };
    let Some(returned) = returned else {
        world.rebuilding.borrow_mut().retain(|other| *other != member);
        return Ok(false);
    };
    world.adopt(array);
    world.tell(format_args!("member {member} has come back: {returned:?}"));
    whole(returned)?;
    world.rebuilding.borrow_mut().retain(|other| *other != member);
    world.outcome.borrow_mut().returns += 1;
    world.outcome.borrow_mut().kept_rot += u64::from(world.disks.borrow()[member].damaged() > 0);
    Ok(true)
}

/// A spare takes a failed member's place; says whether there was one.
pub async fn rebuild_on_spare(world: &World, array: &Array<Rc<Disk>>, member: usize) -> Result<bool, String> {
    world.rebuilding.borrow_mut().push(member);
    let Some(rebuilt) = array.rebuild_on_spare(member).await else {
        world.rebuilding.borrow_mut().retain(|other| *other != member);
        return Ok(false);
    };
    world.adopt(array);
    whole(rebuilt)?;
    world.rebuilding.borrow_mut().retain(|other| *other != member);
    world.outcome.borrow_mut().spares_used += 1;
    Ok(true)
}

/// A disk joins the array as a spare.
pub async fn add_spare(world: &World, array: &Array<Rc<Disk>>) -> Result<(), String> {
    let spare = world.new_disk();
    world.waiting.borrow_mut().push(Rc::clone(&spare));
    array.add_spare(spare, world.identity()).await.map_err(|error| format!("a spare is not taken: {error}"))
}

/// Another disk takes the place of a member that serves.
pub async fn replace(
    world: &World,
    array: &Array<Rc<Disk>>,
    member: usize,
    fails: bool,
    lie: Option<Lie>,
) -> Result<(), String> {
    let twin = newcomer(world, array);
    world.waiting.borrow_mut().push(Rc::clone(&twin));
    if fails {
        // With one of its first writes: a copy, or what a client writes to both. Level 1 is copied at once, other
        // levels chunk by chunk.
        let first = if world.level == Level::Raid1 { 2 } else { world.geometry().rows() };
        let rule = Rule::new(Effect::Vanish).on(Operation::Write).within(world.data_area());
        twin.suffer(rule.after(world.choose(first)));
    }
    if let Some(lie) = lie {
        world.outcome.borrow_mut().faults += 1;
        world.outcome.borrow_mut().silent += 1;
        twin.lie(lie, world.data_area());
    }
    world.outcome.borrow_mut().replacements += 1;
    let replaced = array.replace(member, Rc::clone(&twin), world.data_offset, world.identity()).await;
    world.adopt(array);
    match replaced {
        // The one to come, or the one that serves, was lost meanwhile; the array goes on without it.
        Err(_) if twin.suffered() > 0 || array.state(member) != MemberState::Active => {
            world.waiting.borrow_mut().retain(|disk| !Rc::ptr_eq(disk, &twin));
            world.outcome.borrow_mut().twins_lost += u64::from(twin.suffered() > 0);
            Ok(())
        }
        replaced => {
            // It came so far: were it to fail as the member, that would be one loss more than the level survives. One
            // that was gone before stays so, and the array should not have believed it.
            if twin.suffered() == 0 {
                twin.recover();
            }
            world.outcome.borrow_mut().replaced += 1;
            whole(replaced)
        }
    }
}

/// A rebuild within what the level survives leaves nothing out.
fn whole(rebuilt: Result<Vec<std::ops::Range<Bytes>>, device::DeviceError>) -> Result<(), String> {
    match rebuilt {
        Ok(lost) if lost.is_empty() => Ok(()),
        Ok(lost) => Err(format!("a rebuild lost {lost:?}")),
        Err(error) => Err(format!("a rebuild failed: {error}")),
    }
}

/// Reads everything, holds it against the oracle, and makes what was found durable, or the next cut could choose
/// differently.
pub async fn look(world: &World, array: &Array<Rc<Disk>>) -> Result<(), String> {
    world.tell("everything is read");
    let reply = array.submit(Request::read(Bytes::ZERO, Buffer::zeroed(world.geometry().size()))).await;
    reply.result.map_err(|error| format!("reading everything failed: {error}"))?;
    let buffer = reply.buffer.expect("a read gives its buffer back");
    let bytes = buffer.bytes().expect("it is real");
    let free = world.oracle.borrow().admits(bytes)?;
    // Whole blocks are written, with what else is in them.
    let block = world.block / Bytes::SECTOR;
    let blocks: BTreeSet<u64> = free.into_iter().map(|sector| sector / block).collect();
    let mut written = Vec::new();
    for first in blocks.into_iter().map(|number| number * block) {
        let value = world.oracle.borrow_mut().fresh();
        world.oracle.borrow_mut().may_write(first..first + block, value);
        let request = Request::write(Bytes::SECTOR * first, data_of(&sectors_of(value, block)));
        array.submit(request).await.result.map_err(|error| format!("writing sector {first} failed: {error}"))?;
        written.extend((first..first + block).map(|sector| (sector, value)));
    }
    array.submit(Request::flush()).await.result.map_err(|error| format!("a flush failed: {error}"))?;
    // Only now is it what it is: a cut before could have chosen differently.
    world.oracle.borrow_mut().settle(bytes, written.into_iter());
    Ok(())
}
