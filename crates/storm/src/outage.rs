//! Outages: so many members are gone at once that the array breaks, as where a cable, a controller or a server fails
//! that they have in common; and all of them come back.
//!
//! Nothing more can be promised while they are gone, and every error is right. But what was promised before must be
//! there again when they are: a broken array may not touch what tells how it was left, its members' superblocks, logs
//! and bitmaps.

use std::rc::Rc;

use array::Array;
use device::filter::{Effect, Rule};
use rand::RngExt;
use rand::seq::SliceRandom;
use runtime::Random;
use units::Duration;

use crate::disk::Disk;
use crate::world::World;

/// One member of several that go: when, and whether its requests fail or are stuck until it has been given up, and are
/// carried out after all.
#[derive(Debug, Clone, Copy)]
struct Going {
    member: usize,
    after: Duration,
    hangs: bool,
}

/// Members that are gone from some time of a round on.
#[derive(Debug)]
pub struct Outage {
    begins: Duration,
    going: Vec<Going>,
}

impl Outage {
    /// The outage of a round that lasts so long, if there is one. Drawn from numbers of its own, so that other storms
    /// stay what they were. There is none where sectors are damaged: between two members' going, what the first one
    /// held could not be computed.
    pub fn of(world: &World, round: u64, lasts: Duration) -> Option<Outage> {
        let mut random = Random::named(round, "outage");
        let damaged = world.disks.borrow().iter().any(|disk| disk.damaged() > 0);
        if world.cheats() || damaged || !random.random_bool(0.1) {
            return None;
        }
        let mut members: Vec<usize> = (0..world.members()).collect();
        members.shuffle(&mut random);
        let geometry = world.geometry();
        let mut victims: Vec<usize> = Vec::new();
        for member in members {
            if !geometry.survives(|other| victims.contains(&other)) && random.random_bool(0.5) {
                break;
            }
            victims.push(member);
        }
        let spread = random.random_range(1..400);
        let going = victims.into_iter().map(|member| Going {
            member,
            after: Duration::micros(random.random_range(0..spread)),
            hangs: random.random_bool(0.3),
        });
        let going = going.collect();
        Some(Outage { begins: lasts.scale(random.random_range(0.0..1.0)), going })
    }

    /// Takes the members away.
    pub async fn strike(self, world: &World, array: &Array<Rc<Disk>>) -> Result<(), String> {
        world.runtime.sleep(self.begins).await;
        world.tell(format_args!("{self:?}"));
        world.outcome.borrow_mut().outages += 1;
        world.outage.set(true);
        let gone = self.going.iter().map(|going| async move {
            world.runtime.sleep(going.after).await;
            let disk = Rc::clone(&world.disks.borrow()[going.member]);
            if !going.hangs {
                disk.suffer(Rule::new(Effect::Vanish));
                world.runtime.sleep(Duration::micros(600)).await;
                // Had nothing been asked of it.
                array.fail(going.member);
                return;
            }
            disk.suffer(Rule::new(Effect::Hang));
            world.runtime.sleep(Duration::micros(300)).await;
            array.fail(going.member);
            world.runtime.sleep(Duration::micros(300)).await;
            disk.recover();
        });
        futures_util::future::join_all(gone).await;
        if array.is_broken() { Ok(()) } else { Err("the array serves on without members that it needs".into()) }
    }
}
