//! Growth: between two services the array is to use all the room that its disks have, and the power may go at any write
//! of that.
//!
//! What lay behind the end before is anything, and different on each disk. So what the array grew by may read as
//! anything too, until it is written; but once it was made to fit, or read and written, it is promised like all else.
//! Whether a growth has happened that was not acknowledged is for the array to say, at its next start, once and for
//! all.

use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;

use array::geometry::{Geometry, Level};
use array::md::{Consistency, SUPERBLOCK_AT, SUPERBLOCK_SIZE, Superblock};
use array::{Array, GrowError, checksum_area, checksum_room};
use device::{Buffer, Device, DeviceError, Request};
use futures_util::future::{Either, select};
use units::{Bytes, Duration};

use crate::disk::Disk;
use crate::recovery::open;
use crate::storm::also_lost;
use crate::world::{Growing, World};

/// Has a stopped array grow. One that cannot must say so, and be as before.
pub fn grow(world: &mut World) -> Result<(), String> {
    let (array, _) = world.finish(open(world))?;
    world.adopt(&array);
    // What is bad is healed first: with it, a power cut leaves more than is made to fit.
    if (0..world.members()).any(|member| array.has_bad(member)) {
        world.cut();
        return Ok(());
    }
    let becomes = becomes(world, &array);
    let lost = also_lost(world, &array);
    world.tell(format_args!("it is to grow from {}", world.geometry().size()));
    let Some(geometry) = becomes else {
        let answer = world.runtime.block_on(array.grow());
        // It was opened, which writes what a journal still held, and not stopped: what is wrong on a medium there has
        // no sum any more.
        world.cut();
        return match answer {
            Err(GrowError::Failed(error)) => Err(format!("a growth that cannot be failed with {error}")),
            Err(_) => Ok(()),
            Ok(_) => Err("an array grew that cannot".into()),
        };
    };
    for member in 0..world.members() {
        let disk = Rc::clone(&world.disks.borrow()[member]);
        let behind = match world.checksums {
            true => areas(world).map_err(|error| format!("a superblock cannot be read: {error}"))?[member].end,
            false => world.data_area().end,
        };
        let room = behind..disk.shape().size;
        let number = world.choose(1 << 32);
        disk.scribble(room, number << 20);
    }
    let used = geometry.used();
    *world.growing.borrow_mut() = Some(Growing { geometry, acknowledged: false });
    // A record on each member, and before it the bitmaps, one after the other.
    let lasts = if world.happens(0.7) { Duration::micros(world.choose(500)) } else { Duration::seconds(60) };
    let grown = {
        let (work, cut) = (pin!(array.grow()), pin!(world.runtime.sleep(lasts)));
        match world.runtime.block_on(select(work, cut)) {
            Either::Left((grown, _)) => Some(grown),
            Either::Right(_) => None,
        }
    };
    match grown {
        Some(Ok(now)) if now == used => {
            world.outcome.borrow_mut().growths += 1;
            world.growing.borrow_mut().as_mut().expect("it was set above").acknowledged = true;
        }
        // What is wrong without saying so, where the old data end, has to be healed before its sums begin anew.
        Some(Err(GrowError::Unsound { member })) if world.disks.borrow()[member].damaged() > 0 => {
            *world.growing.borrow_mut() = None;
        }
        Some(other) => return Err(format!("it should have grown to {used} of each member: {other:?}")),
        None => world.outcome.borrow_mut().growths_cut += 1,
    }
    world.cut();
    world.lose(lost);
    Ok(())
}

/// What an array grows to, if it can.
fn becomes(world: &World, array: &Array<Rc<Disk>>) -> Option<Geometry> {
    let moves = matches!(world.level, Level::Raid10(copies) if copies.far > 1);
    let journal = world.consistency == Consistency::Journal && !world.without_journal.get();
    if moves || journal {
        return None;
    }
    let whole = array.is_complete();
    if !whole || array.is_dirty() || array.needs_resync() || array.replacing().is_some() {
        return None;
    }
    let unit = array.geometry().chunk().max(array.shape().logical_block);
    let disks = world.disks.borrow();
    let areas = if world.checksums { areas(world).ok()? } else { Vec::new() };
    let room = |(member, disk): (usize, &Rc<Disk>)| {
        let behind = disk.shape().size - world.data_offset;
        let Some(area) = areas.get(member) else { return behind.round_down(unit) };
        // Sums for all that there would be are a little more than those of the data.
        let data = behind - checksum_room(behind).min(behind);
        data.round_down(unit).max((area.start - world.data_offset).round_down(unit))
    };
    let rooms: Vec<Bytes> = disks[..world.members()].iter().enumerate().map(room).collect();
    let room = rooms.iter().copied().min().expect("an array has members");
    let grown = Geometry::new(world.level, array.geometry().chunk(), &vec![room; world.members()]).ok()?;
    // Who has no sums for so much yet needs another place for them, behind the old one.
    let in_the_way = areas.iter().zip(&rooms).any(|(area, room)| {
        let moves = area.start < world.data_offset + grown.used();
        moves && world.data_offset + *room < area.end
    });
    (grown.used() > world.geometry().used() && !in_the_way).then_some(grown)
}

/// Where the checksums of each member lie, by what the member says itself.
fn areas(world: &World) -> Result<Vec<Range<Bytes>>, DeviceError> {
    let of = |disk: &Rc<Disk>| {
        let read = disk.submit(Request::read(SUPERBLOCK_AT, Buffer::zeroed(SUPERBLOCK_SIZE)));
        let reply = world.runtime.block_on(read);
        reply.result?;
        let buffer = reply.buffer.expect("a read gives its buffer back");
        let superblock = Superblock::parse(buffer.bytes().expect("it is real"));
        let superblock = superblock.expect("the array that was opened has it");
        Ok(checksum_area(&superblock, disk.shape().logical_block))
    };
    world.disks.borrow()[..world.members()].iter().map(of).collect()
}
