//! Disks without room: files on a file system that is full, one for each member or one for all of them.
//!
//! While room is short a disk refuses a write to blocks that were never written, from the first such block on, with
//! [`DeviceError::NoSpace`](device::DeviceError::NoSpace); writing again needs no room ([`Share`]). The array then
//! promises (`array`'s `room`): no member fails for it, reads go on, the refused write leaves each sector as it was or
//! as it was to become, and redundancy fits afterwards. Once there is room again all writes are taken. After a power
//! cut there is room.
//!
//! # What it may cost Parity that was refused is marked bad: the row is without redundancy there until it is written.
//! So at levels with parity the members that are short count as struck, and where all are, nothing else befalls members
//! in the same round; one that lacks something from then on (`Array::has_bad`) is impaired, until a scrub finds room
//! for it.
//!
//! A member may also be unable to read what it cannot write again. The array then knows these sectors as bad, and what
//! it takes back has to do without them.

use std::rc::Rc;

use array::Array;
use array::md::Consistency;
use device::filter::{Damage, Share, Store};
use device::{Buffer, Device, Request};
use rand::RngExt;
use runtime::Random;
use units::{Bytes, Duration};

use crate::disk::Disk;
use crate::world::World;

/// The unit in which room is given.
const BLOCK: Bytes = Bytes::kib(4);

/// Room that is short in a round.
#[derive(Debug)]
pub struct Shortage {
    /// Whose; `None`: of all.
    member: Option<usize>,
    begins: Duration,
    /// How much is left, for each store.
    left: Vec<Bytes>,
    /// There is room again after this.
    lasts: Option<Duration>,
    /// How many sectors of the one member cannot be read then, of what it never wrote: they cannot be written either.
    unreadable: u64,
}

impl Shortage {
    /// The one of a round that lasts so long, if there is one. Drawn from numbers of its own, so that other storms stay
    /// what they were. `struck` are members that the round impairs.
    pub fn of(
        world: &World,
        array: &Array<Rc<Disk>>,
        round: u64,
        lasts: Duration,
        struck: &[usize],
    ) -> Option<Shortage> {
        let mut random = Random::named(round, "shortage");
        // A mirror that is not in sync is resynced meanwhile, which needs room. (LIMITS.md says what a partial parity
        // log does not cover.)
        let may_be = world.is_thin() && !world.lingers.get() && world.consistency != Consistency::Ppl;
        if !may_be || !random.random_bool(0.8) {
            return None;
        }
        let spared: Vec<usize> = (0..world.members()).filter(|member| world.spares(struck, *member)).collect();
        let one = !world.is_of_one_store() && !spared.is_empty() && random.random_bool(0.6);
        let member = one.then(|| spared[random.random_range(0..spared.len())]);
        let damaged = world.disks.borrow().iter().any(|disk| disk.damaged() > 0);
        if member.is_none() && world.level.parities() > 0 && damaged {
            return None;
        }
        let most = if random.random_bool(0.5) { 3 } else { 16 };
        let left = (0..world.disks.borrow().len()).map(|_| BLOCK * random.random_range(0..most));
        let (left, sooner) = (left.collect(), random.random_range(0.0..1.0_f64));
        let may_be = member.is_some() && (world.level.parities() == 0 || array.is_complete());
        let unreadable = if may_be && random.random_bool(0.6) { random.random_range(1..6) } else { 0 };
        // The array is to be stopped then, which takes room.
        let ends = random.random_bool(0.6) || unreadable > 0;
        world.short.set(true);
        world.was_short.set(true);
        Some(Shortage {
            member,
            left,
            begins: lasts.scale(sooner * sooner * sooner),
            lasts: ends.then(|| lasts.scale(random.random_range(0.0..1.0))),
            unreadable,
        })
    }

    /// Whether nothing else may befall members in the round.
    pub fn is_alone(&self, world: &World) -> bool {
        world.level.parities() > 0 && (self.member.is_none() || self.unreadable > 0)
    }

    /// Whether the power may not be cut before the array is stopped: what cannot be read of a row that is being written
    /// is the write hole. So it is if another member has `hidden` data: the array keeps these as bad where there is no
    /// room to take a write back, and a cut before the row's mark is taken away leaves them without parity to believe.
    pub fn ends_with_stop(&self, world: &World, hidden: bool) -> bool {
        world.level.parities() > 0 && (self.unreadable > 0 || hidden)
    }

    /// The member that is struck by it, if it is one.
    pub fn member(&self) -> Option<usize> {
        self.member
    }

    /// Takes the room away, and perhaps gives it back.
    pub async fn strike(self, world: &World, array: &Array<Rc<Disk>>) -> Result<(), String> {
        world.runtime.sleep(self.begins).await;
        world.tell(format_args!("{self:?}"));
        world.outcome.borrow_mut().shortages += 1;
        let disks = world.disks.borrow().clone();
        for (number, disk) in disks.iter().enumerate() {
            let share = disk.share().filter(|_| self.member.is_none_or(|member| member == number));
            share.iter().for_each(|share| share.store().leave(self.left[number]));
        }
        if let (Some(member), true) = (self.member, self.unreadable > 0) {
            let disk = &disks[member];
            disk.share().iter().for_each(|share| share.store().leave(Bytes::ZERO));
            for _ in 0..self.unreadable {
                let from = world.some_block();
                let range = from..from + world.block;
                if disk.share().is_some_and(|share| !share.holds_some(range.clone())) {
                    disk.damage(range, Damage::Unreadable);
                }
            }
            let reply = array.submit(Request::read(Bytes::ZERO, Buffer::zeroed(world.geometry().size()))).await;
            reply.result.map_err(|error| format!("reading everything without room failed: {error}"))?;
        }
        let Some(lasts) = self.lasts else { return Ok(()) };
        world.runtime.sleep(lasts).await;
        world.tell("there is room again");
        world.refill();
        Ok(())
    }
}

/// What the first disks of a storm have of one store, or of one each.
pub fn shares(disks: usize, common: bool) -> Vec<Rc<Share>> {
    let one = Store::new();
    (0..disks).map(|_| Rc::new(Share::of(&if common { Rc::clone(&one) } else { Store::new() }))).collect()
}
