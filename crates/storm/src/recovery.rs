//! Recovery: an array is opened from what the power cut left, and made whole. The power may go again at any point of it.

use std::pin::pin;
use std::rc::Rc;

use array::md::Consistency;
use array::{Array, MemberState, OpenError, OpenOptions, Repair};
use device::{Buffer, Device, Request};
use futures_util::future::{Either, select};
use rand::seq::SliceRandom;
use units::{Bytes, Duration};

use crate::bug::data_of;
use crate::disk::Disk;
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
    world.runtime.block_on(recovery(world))
}

async fn recovery(world: &World) -> Result<Array<Rc<Disk>>, String> {
    let (array, forced) = open(world).await?;
    let states: Vec<MemberState> = (0..world.members()).map(|member| array.state(member)).collect();
    let how = if forced { "by force, " } else { "" };
    world.tell(format_args!("opened {how}{}: {states:?}", if array.is_dirty() { "dirty" } else { "clean" }));
    for member in 0..world.members() {
        match array.state(member) {
            MemberState::Active => {}
            MemberState::Rebuilding(_) if forced || world.happens(0.7) => {
                whole(array.resume_rebuild(member).await)?;
            }
            MemberState::Failed if forced || world.happens(0.3) => rebuild(world, &array, member).await?,
            _ => {}
        }
    }
    world.tell("the resync begins");
    let fits = array.resync().await.map_err(|error| format!("the resync failed: {error}"))?;
    let complete = (0..world.members()).all(|member| array.state(member) == MemberState::Active);
    if complete || world.level.parities() == 0 {
        if !fits {
            return Err("redundancy does not fit after the resync".into());
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
async fn open(world: &World) -> Result<(Array<Rc<Disk>>, bool), String> {
    let disks = world.disks.borrow().clone();
    Disk::lead_astray(&disks, &world.geometry, world.data_offset);
    let there = disks.into_iter().enumerate().filter(|(member, _)| !world.gone.borrow().contains(member));
    let mut devices: Vec<Rc<Disk>> = there.map(|(_, disk)| disk).collect();
    if world.happens(0.5) {
        devices.extend(world.shelf.borrow().iter().cloned());
    }
    devices.shuffle(&mut *world.random.borrow_mut());
    let open = |options| Array::open(&world.runtime, "array", devices.clone(), options);
    match open(OpenOptions::default()).await {
        Ok(array) => {
            let not_whole = |member: &usize| array.state(*member) != MemberState::Active;
            let missing: Vec<usize> = (0..world.members()).filter(not_whole).collect();
            if world.consistency == Consistency::Ppl && !missing.is_empty() {
                world.oracle.borrow_mut().logged(&world.geometry, &missing);
            }
            Ok((array, false))
        }
        Err(OpenError::DirtyDegraded { missing }) if !world.is_closed() => {
            world.outcome.borrow_mut().refused += 1;
            // From here on what the missing members held in torn stripes is not promised; everything else is.
            world.oracle.borrow_mut().forced(&world.geometry, &missing);
            let by_force = open(OpenOptions { force_dirty_degraded: true }).await;
            by_force.map(|array| (array, true)).map_err(|error| format!("it does not open by force: {error}"))
        }
        Err(error) => Err(format!("it does not open: {error}")),
    }
}

/// Puts another disk in a failed member's place: a new one, or the stale one that it had.
pub async fn rebuild(world: &World, array: &Array<Rc<Disk>>, member: usize) -> Result<(), String> {
    world.tell(format_args!("member {member} is rebuilt"));
    let fresh = world.new_disk();
    let old = std::mem::replace(&mut world.disks.borrow_mut()[member], Rc::clone(&fresh));
    // One that was away may hold a record that nobody else has, and say on its return that it went on alone.
    if !world.gone.borrow().contains(&member) && !old.is_spoilt() {
        world.shelf.borrow_mut().push(old);
    }
    world.gone.borrow_mut().retain(|gone| *gone != member);
    world.outcome.borrow_mut().rebuilds += 1;
    world.rebuilding.borrow_mut().push(member);
    whole(array.rebuild(member, fresh, world.data_offset, world.identity()).await)?;
    world.rebuilding.borrow_mut().retain(|other| *other != member);
    Ok(())
}

/// A rebuild within what the level survives leaves nothing out.
fn whole(rebuilt: Result<Vec<std::ops::Range<Bytes>>, device::DeviceError>) -> Result<(), String> {
    match rebuilt {
        Ok(lost) if lost.is_empty() => Ok(()),
        Ok(lost) => Err(format!("a rebuild lost {lost:?}")),
        Err(error) => Err(format!("a rebuild failed: {error}")),
    }
}

/// Reads everything, holds it against the oracle, and makes what was found durable, or the next cut could choose differently.
pub async fn look(world: &World, array: &Array<Rc<Disk>>) -> Result<(), String> {
    world.tell("everything is read");
    let reply = array.submit(Request::read(Bytes::ZERO, Buffer::zeroed(world.geometry.size()))).await;
    reply.result.map_err(|error| format!("reading everything failed: {error}"))?;
    let buffer = reply.buffer.expect("a read gives its buffer back");
    let bytes = buffer.bytes().expect("it is real");
    let free = world.oracle.borrow().admits(bytes)?;
    let mut values = Vec::new();
    for sector in &free {
        let value = world.oracle.borrow_mut().fresh();
        world.oracle.borrow_mut().may_write(*sector..*sector + 1, value);
        let request = Request::write(Bytes::SECTOR * *sector, data_of(&sectors_of(value, 1)));
        array.submit(request).await.result.map_err(|error| format!("writing sector {sector} failed: {error}"))?;
        values.push(value);
    }
    array.submit(Request::flush()).await.result.map_err(|error| format!("a flush failed: {error}"))?;
    // Only now is it what it is: a cut before could have chosen differently.
    world.oracle.borrow_mut().settle(bytes, free.into_iter().zip(values));
    Ok(())
}
