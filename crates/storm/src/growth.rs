//! Growth: between two services the array is to use all the room that its disks have, and the power may go at any write of that.
//!
//! What lay behind the end before is anything, and different on each disk. So what the array grew by may read as anything too, until it
//! is written; but once it was made to fit, or read and written, it is promised like all else. Whether a growth has happened that was not
//! acknowledged is for the array to say, at its next start, once and for all.

use std::pin::pin;
use std::rc::Rc;

use array::geometry::{Geometry, Level};
use array::md::Consistency;
use array::{Array, GrowError, MemberState};
use device::Device;
use futures_util::future::{Either, select};
use units::{Bytes, Duration};

use crate::disk::Disk;
use crate::recovery::open;
use crate::storm::also_lost;
use crate::world::{Growing, World};

/// Has a stopped array grow. One that cannot must say so, and be as before.
pub fn grow(world: &mut World) -> Result<(), String> {
    let (array, _) = world.runtime.block_on(open(world))?;
    world.adopt(&array);
    let becomes = becomes(world, &array);
    let lost = also_lost(world, &array);
    world.tell(format_args!("it is to grow from {}", world.geometry().size()));
    let Some(geometry) = becomes else {
        let answer = world.runtime.block_on(array.grow());
        // It was opened, which writes what a journal still held, and not stopped: what is wrong on a medium there has no sum any more.
        world.cut();
        return match answer {
            Err(GrowError::Failed(error)) => Err(format!("a growth that cannot be failed with {error}")),
            Err(_) => Ok(()),
            Ok(_) => Err("an array grew that cannot".into()),
        };
    };
    for member in 0..world.members() {
        let disk = Rc::clone(&world.disks.borrow()[member]);
        let room = world.data_area().end..disk.shape().size;
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
    if moves || journal || world.checksums {
        return None;
    }
    let whole = (0..world.members()).all(|member| array.state(member) == MemberState::Active);
    if !whole || array.is_dirty() || array.needs_resync() || array.replacing().is_some() {
        return None;
    }
    let unit = array.geometry().chunk().max(Bytes::SECTOR);
    let disks = world.disks.borrow();
    let room = |disk: &Rc<Disk>| (disk.shape().size - world.data_offset).round_down(unit);
    let room = disks[..world.members()].iter().map(room).min().expect("an array has members");
    let grown = Geometry::new(world.level, array.geometry().chunk(), &vec![room; world.members()]).ok()?;
    (grown.used() > world.geometry().used()).then_some(grown)
}
