//! One storm: rounds of service, each with its troubles, each ended by a power cut or a stop.
//!
//! Never more is taken from the array at once than its level survives, so every request must be answered well, and
//! everything that was promised must be there: an error is as much a broken promise as a wrong byte. In an
//! [outage](crate::outage) more is taken, and comes back. One exception is the array's own, and stated: where a power
//! cut meets a level with parity that lacks a member, what that member held in stripes that were being written is not
//! known (the write hole); the array must refuse to open, and if it is forced, all *other* sectors are still promised.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;

use array::{Array, MemberState, Repair};
use device::filter::{Damage, Effect, Rule};
use device::{DeviceError, Operation};
use futures_util::future::{Either, select, try_join_all, try_join3};
use rand::RngExt;
use runtime::Random;
use serde::Serialize;
use units::{Bytes, Duration, Rate};

use crate::bug::Bug;
use crate::client::{CLIENTS, client, watcher};
use crate::disk::{Disk, Lie};
use crate::growth::grow;
use crate::levels::Choice;
use crate::outage::Outage;
use crate::recovery::{add_spare, bring_back, rebuild, rebuild_on_spare, recover, replace};
use crate::returned::Return;
use crate::shortage::Shortage;
use crate::story::Story;
use crate::world::World;

/// What happened in a storm, or in many.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Requests of clients that were answered.
    pub operations: u64,
    /// Power cuts, those inside recovery among them.
    pub power_cuts: u64,
    /// Power cuts inside recovery.
    pub recovery_cuts: u64,
    /// Kills of the server alone.
    pub kills: u64,
    /// Rounds in which a mirror was served before it was in sync.
    pub lingered: u64,
    /// Orderly stops.
    pub stops: u64,
    /// Faults of members: failed, vanished, hung, refused a write or a flush, lost sectors, and the silent ones.
    pub faults: u64,
    /// Rounds in which level 10 lacked as many members as there are copies, or more, and survived by which they were.
    pub mirrors_short: u64,
    /// Of the faults, silent: bits that rotted, writes that were lost, misdirected or torn and called done, superblocks
    /// that were spoilt.
    pub silent: u64,
    /// Members that were rebuilt, or began to be.
    pub rebuilds: u64,
    /// Members that were away and came back, which got only what they had missed.
    pub returns: u64,
    /// Of these, those that kept something that had rotted while they were away, as it was not what they had missed.
    pub kept_rot: u64,
    /// Growths of the members' size that were acknowledged.
    pub growths: u64,
    /// Growths that a power cut met.
    pub growths_cut: u64,
    /// Replacements of members that served which were begun.
    pub replacements: u64,
    /// Of members that served, those in whose place another disk came.
    pub replaced: u64,
    /// Disks that failed while they were being filled to replace a member.
    pub twins_lost: u64,
    /// Members in whose place a spare came.
    pub spares_used: u64,
    /// Journals that failed under writes.
    pub lost_journals: u64,
    /// Arrays of which all disks, or some, have blocks of 4 KiB.
    pub large_blocks: u64,
    /// Outages: more members were gone at once than the level survives, and came back.
    pub outages: u64,
    /// Members that were away and came back as something else, which was found out.
    pub exchanged: u64,
    /// Members that were away and came back as they were, perhaps without what they had not made durable.
    pub recognised: u64,
    /// Rounds in which disks had no room.
    pub shortages: u64,
    /// Writes of clients that were refused for want of room.
    pub lacked: u64,
    /// Times the array refused to open, rightly: after a power cut without a member.
    pub refused: u64,
}

impl Outcome {
    /// Both together.
    pub fn and(self, other: Outcome) -> Outcome {
        Outcome {
            operations: self.operations + other.operations,
            power_cuts: self.power_cuts + other.power_cuts,
            recovery_cuts: self.recovery_cuts + other.recovery_cuts,
            kills: self.kills + other.kills,
            lingered: self.lingered + other.lingered,
            stops: self.stops + other.stops,
            faults: self.faults + other.faults,
            mirrors_short: self.mirrors_short + other.mirrors_short,
            silent: self.silent + other.silent,
            rebuilds: self.rebuilds + other.rebuilds,
            returns: self.returns + other.returns,
            kept_rot: self.kept_rot + other.kept_rot,
            growths: self.growths + other.growths,
            growths_cut: self.growths_cut + other.growths_cut,
            replacements: self.replacements + other.replacements,
            replaced: self.replaced + other.replaced,
            twins_lost: self.twins_lost + other.twins_lost,
            spares_used: self.spares_used + other.spares_used,
            lost_journals: self.lost_journals + other.lost_journals,
            large_blocks: self.large_blocks + other.large_blocks,
            outages: self.outages + other.outages,
            exchanged: self.exchanged + other.exchanged,
            recognised: self.recognised + other.recognised,
            shortages: self.shortages + other.shortages,
            lacked: self.lacked + other.lacked,
            refused: self.refused + other.refused,
        }
    }
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed}, {array}: {what}")]
pub struct Broken {
    /// The storm.
    pub seed: u64,
    /// Level and members.
    pub array: String,
    /// What was found.
    pub what: String,
    /// What had happened until then, with the times since the power came.
    pub story: Vec<String>,
}

/// What befalls a member, or is done to it.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    /// An operator takes it out.
    Fail(usize),
    /// It is gone in the middle of everything.
    Vanish(usize),
    /// It does not answer, is taken out, and answers after all.
    Hang(usize),
    /// It refuses this operation once.
    Refuse(usize, Operation),
    /// Sectors of it cannot be read.
    Latent(usize),
    /// Bits of it turn over.
    Rot(usize),
    /// It lies about a write.
    Lie(usize, Lie),
    /// Another disk takes a failed member's place.
    Rebuild(usize),
    /// A member that was away comes back.
    Return(usize),
    /// It is gone, and comes back after this time.
    Away(usize, Duration),
    /// Another disk takes the place of a member that serves; it may fail on the way, or lie about something that is
    /// copied.
    Replace { member: usize, fails: bool, lie: Option<Lie> },
    /// A disk is added that waits for a member to fail.
    Spare,
    /// The journal is gone in the middle of everything.
    LoseJournal,
    /// Everything is compared.
    Scrub,
}

impl Trouble {
    /// The member that it takes something from.
    fn member(&self) -> Option<usize> {
        match self {
            Trouble::Fail(member)
            | Trouble::Vanish(member)
            | Trouble::Hang(member)
            | Trouble::Refuse(member, _)
            | Trouble::Latent(member)
            | Trouble::Rot(member)
            | Trouble::Lie(member, _)
            | Trouble::Away(member, _)
            | Trouble::Replace { member, .. } => Some(*member),
            Trouble::Rebuild(_) | Trouble::Return(_) | Trouble::Spare | Trouble::LoseJournal | Trouble::Scrub => None,
        }
    }

    /// Whether a member that serves cannot tell some of what it holds from then on.
    fn hides_data(&self) -> bool {
        matches!(self, Trouble::Latent(_) | Trouble::Rot(_) | Trouble::Lie(..) | Trouble::Replace { lie: Some(_), .. })
    }
}

/// Runs the storm of a seed.
pub fn storm(seed: u64, choice: Choice, bug: Option<Bug>) -> Result<Outcome, Broken> {
    run(World::new(seed, choice, bug, Story::new(false)))
}

/// Runs the same storm, and tells of superblocks, too.
pub fn replay(seed: u64, choice: Choice, bug: Option<Bug>) -> Result<Outcome, Broken> {
    run(World::new(seed, choice, bug, Story::new(true)))
}

fn run(mut world: World) -> Result<Outcome, Broken> {
    let seed = world.seed;
    let sums = if world.checksums { ", checksums" } else { "" };
    let (members, blocks) = (world.members(), world.blocks());
    let array = format!("{} on {members} members{blocks}, {:?}{sums}", world.level, world.consistency);
    world.outcome.borrow_mut().large_blocks += u64::from(world.block > Bytes::SECTOR);
    let broken = |world: &World, what| Broken { seed, array: array.clone(), what, story: world.story.take() };
    // Drawn from numbers of their own, so that other storms stay what they were.
    let mut kills = Random::named(seed, "kills");
    for round in 0..4 {
        world.may_linger.set(round < 3);
        let array = recover(&mut world).map_err(|what| broken(&world, what))?;
        if round < 3 {
            rage(&world, &array).map_err(|what| broken(&world, what))?;
            let lost = also_lost(&world, &array);
            let is_whole = |member: &usize| array.state(*member) == MemberState::Active;
            let whole: Vec<usize> = (0..world.members()).filter(is_whole).collect();
            world.oracle.borrow_mut().are_whole(&whole);
            drop(array);
            let stopped = world.stopped.get();
            if kills.random_bool(0.4) {
                world.kill()
            } else {
                world.cut()
            }
            world.lose(lost);
            if stopped && world.happens(0.5) {
                grow(&mut world).map_err(|what| broken(&world, what))?;
            }
        }
    }
    let outcome = *world.outcome.borrow();
    Ok(outcome)
}

/// Four clients and the troubles of a round; then the array is stopped, or not.
fn rage(world: &World, array: &Array<Rc<Disk>>) -> Result<(), String> {
    let over = Cell::new(false);
    // By whole blocks.
    let block = world.block / Bytes::SECTOR;
    let sectors = world.oracle.borrow().sectors();
    // In some rounds of large arrays clients are near each other, so that the rest stays as it is.
    let near = world.is_large() && world.happens(0.7);
    let part = if near { sectors / 6 } else { sectors };
    let first = if near { world.choose(sectors - part) / block * block } else { 0 };
    let quarter = part / CLIENTS as u64 / block * block;
    let round = world.choose(u64::MAX);
    // Some rounds are slow, so that the array finds the time to say that it is clean.
    let pauses = world.happens(0.2);
    let clients = (0..CLIENTS as u64).map(|number| {
        let random = Random::named(round, &format!("client {number}"));
        let own = first + number * quarter..first + (number + 1) * quarter;
        client(world, array, random, number as usize, own, pauses, &over)
    });
    let watchers = (0..2).map(|number| {
        let random = Random::named(round, &format!("watcher {number}"));
        watcher(world, array, random, first..first + part, pauses, &over)
    });
    // The mark of a write is taken away after ten seconds.
    let longest = match (pauses, world.is_large()) {
        (false, _) => 3000,
        (true, false) => 10_000_000,
        (true, true) => 20_000_000,
    };
    let lasts = Duration::micros(world.choose(longest));
    let mut troubles = troubles(world, array);
    let outage = Outage::of(world, round, lasts);
    if outage.is_some() {
        troubles.clear();
    }
    let struck = |troubles: &[Trouble]| {
        let mut struck = world.impaired(array);
        struck.extend(troubles.iter().filter_map(Trouble::member));
        struck
    };
    let short = || Shortage::of(world, array, round, lasts, &struck(&troubles));
    let shortage = if outage.is_none() { short() } else { None };
    let is_alone = shortage.as_ref().is_some_and(|shortage| shortage.is_alone(world));
    if is_alone {
        troubles.retain(|trouble| trouble.member().is_none() && !matches!(trouble, Trouble::LoseJournal));
    }
    let hidden = troubles.iter().any(Trouble::hides_data);
    let ends_with_stop = shortage.as_ref().is_some_and(|shortage| shortage.ends_with_stop(world, hidden));
    let mut struck = struck(&troubles);
    struck.extend(shortage.as_ref().and_then(Shortage::member));
    let away = if outage.is_none() && !is_alone { Return::of(world, round, lasts, &struck) } else { None };
    let troubles = troubles.into_iter().map(|trouble| {
        let when = lasts.scale(world.choose(1000) as f64 / 1000.0);
        strike(world, array, trouble, when)
    });
    let outage = async {
        match outage {
            Some(outage) => outage.strike(world, array).await,
            None => Ok(()),
        }
    };
    let disks = async {
        if let Some(shortage) = shortage {
            shortage.strike(world, array).await?;
        }
        Ok(())
    };
    let away = async {
        match away {
            Some(away) => away.strike(world, array).await,
            None => Ok(()),
        }
    };
    let outage = async { try_join3(outage, disks, away).await.map(drop) };
    let resync = resync_late(world, array, Random::named(round, "late resync"), lasts);
    // The first promise that is broken ends everything.
    let work = async {
        let befalls = try_join3(try_join_all(troubles), outage, resync);
        let served = try_join3(try_join_all(clients), try_join_all(watchers), befalls);
        let (work, tending) = (pin!(served), pin!(array.tend()));
        match select(work, tending).await {
            Either::Left((worked, _)) => worked.map(drop),
            Either::Right(_) => unreachable!("an array tends itself for ever"),
        }
    };
    if !ends_with_stop && world.happens(if world.is_large() { 0.3 } else { 0.7 }) {
        let cut = async {
            world.runtime.sleep(lasts).await;
            Ok(())
        };
        let broken = async {
            work.await?;
            std::future::pending().await
        };
        let first = async { select(pin!(broken), pin!(cut)).await.factor_first().0 };
        return world.finish(first);
    }
    let end = async {
        world.runtime.sleep(lasts).await;
        over.set(true);
        Ok(())
    };
    let stopped = async {
        let (worked, ended) = futures_util::join!(work, end);
        worked.and(ended)?;
        world.tell("the array is stopped");
        match array.stop().await {
            Ok(()) if world.is_out(array) => Err("a broken array says that it is left as it should be".into()),
            Err(_) if world.is_out(array) => Ok(false),
            Err(DeviceError::NoSpace) if world.short.get() => Ok(false),
            stopped => stopped.map(|()| true).map_err(|error| format!("the array does not stop: {error}")),
        }
    };
    if !world.finish(stopped)? {
        return Ok(());
    }
    world.outcome.borrow_mut().stops += 1;
    world.oracle.borrow_mut().stopped();
    // Where it is not in sync yet it knows no sums that count.
    if array.needs_resync() || (world.lingers.get() && world.cheats()) {
        return Ok(());
    }
    world.stopped.set(true);
    // A member that failed until then, or while the array stopped, did not get the sums that were learnt by reading.
    let in_use = |member: &usize| array.state(*member) == MemberState::Active;
    (0..world.members()).filter(in_use).for_each(|member| world.disks.borrow()[member].set_known());
    let complete = array.is_complete();
    world.summed.set(world.summed.get() && complete);
    world.grown.set(world.grown.get() && array.needs_resync());
    Ok(())
}

/// An array that is served before it is in sync is resynced meanwhile, slowly, in two of three rounds.
async fn resync_late(
    world: &World,
    array: &Array<Rc<Disk>>,
    mut random: Random,
    lasts: Duration,
) -> Result<(), String> {
    if !world.lingers.get() || !random.random_bool(0.66) {
        return Ok(());
    }
    world.runtime.sleep(lasts.scale(random.random_range(0.0..1.0))).await;
    world.tell("the resync begins, slowly");
    array.limit(Some(Rate::bytes_per_second(random.random_range(1e6..4e7))));
    let resynced = array.resync().await;
    array.limit(None);
    match resynced {
        Err(error) if !world.is_out(array) => Err(format!("the resync failed: {error}")),
        _ => Ok(()),
    }
}

/// Members that are lost with the power, where that is to be survived: one, or at some levels two.
pub fn also_lost(world: &World, array: &Array<Rc<Disk>>) -> Vec<usize> {
    let not_whole = |member: &usize| array.state(*member) != MemberState::Active;
    *world.not_whole.borrow_mut() = (0..world.members()).filter(not_whole).collect();
    let mut impaired = world.impaired(array);
    let mut lost = Vec::new();
    // What is marked as bad has to be healed first.
    if world.level.parities() > 0 && !array.bad_ranges().is_empty() {
        return lost;
    }
    let spared = |impaired: &[usize], member: &usize| world.spares(impaired, *member);
    // Who loses one loses another as often as not.
    while (0..world.members()).any(|member| spared(&impaired, &member))
        && world.happens(if lost.is_empty() { 0.15 } else { 0.5 })
    {
        let member = world.choose(world.members() as u64) as usize;
        if !spared(&impaired, &member) {
            break;
        }
        world.tell(format_args!("member {member} is lost with the power"));
        world.outcome.borrow_mut().faults += 1;
        impaired.push(member);
        lost.push(member);
    }
    lost
}

/// What happens in this round: never more than the level survives.
fn troubles(world: &World, array: &Array<Rc<Disk>>) -> Vec<Trouble> {
    let impaired = world.impaired(array);
    let mut troubles = Vec::new();
    let failed: Vec<usize> =
        (0..world.members()).filter(|member| array.state(*member) == MemberState::Failed).collect();
    if let Some(member) = failed.first().filter(|_| world.happens(0.5)) {
        // By the bitmap, if there is one.
        let returns = world.may_return() && world.happens(0.5);
        troubles.push(if returns { Trouble::Return(*member) } else { Trouble::Rebuild(*member) });
    }
    let lingers = world.lingers.get();
    let rebuilt = array.is_complete();
    world.summed.set(rebuilt && !lingers);
    let mut struck = impaired.clone();
    let mut spared: Vec<usize> = (0..world.members()).filter(|member| world.spares(&struck, *member)).collect();
    let mut strike_one = |spared: &mut Vec<usize>| {
        let member = spared.swap_remove(world.choose(spared.len() as u64) as usize);
        struck.push(member);
        spared.retain(|member| world.spares(&struck, *member));
        member
    };
    // With all sums on it, which it keeps for what it did not miss.
    if !spared.is_empty() && world.is_large() && world.may_return() && world.sums_stored.get() && world.happens(0.8) {
        let member = strike_one(&mut spared);
        // Soon, or when the mark of a write has been taken away.
        let longest = if world.happens(0.7) { 2000 } else { 15_000_000 };
        troubles.push(Trouble::Away(member, Duration::micros(world.choose(longest))));
    }
    while !spared.is_empty() && world.happens(0.4) {
        let member = strike_one(&mut spared);
        // Who keeps checksums is told lies, too. All of them are known once everything has been read, which a scrub
        // does.
        let scrubbed = (rebuilt || world.level.parities() == 0) && !lingers;
        troubles.push(match world.choose(if world.checksums && scrubbed { 12 } else { 7 }) {
            7 | 8 => Trouble::Rot(member),
            9 => Trouble::Lie(member, Lie::Lost),
            10 => Trouble::Lie(member, world.misdirected()),
            11 => Trouble::Lie(member, Lie::Torn),
            0 => Trouble::Fail(member),
            1 => Trouble::Vanish(member),
            2 => Trouble::Hang(member),
            3 => Trouble::Refuse(member, Operation::Write),
            4 => Trouble::Refuse(member, Operation::Flush),
            _ => Trouble::Latent(member),
        });
    }
    if struck.len() > world.level.losses_survived(world.members()).max(impaired.len()) {
        world.outcome.borrow_mut().mirrors_short += 1;
    }
    let gone: Vec<usize> = troubles
        .iter()
        .filter_map(|trouble| match trouble {
            Trouble::Fail(member) | Trouble::Vanish(member) | Trouble::Hang(member) => Some(*member),
            _ => None,
        })
        .collect();
    for member in gone {
        // Perhaps before it has left; then nothing happens.
        if world.may_return() && world.happens(0.5) {
            troubles.push(Trouble::Return(member));
        }
    }
    // Drawn from the members, not from the sound ones: a member may fail while it is replaced.
    let replaceable = (0..world.members()).filter(|member| array.state(*member) == MemberState::Active);
    let replaceable: Vec<usize> = replaceable.filter(|member| !impaired.contains(member)).collect();
    let survives = world.level.losses_survived(world.members()) > 0 && !world.cheats();
    if survives && array.replacing().is_none() && !replaceable.is_empty() && world.happens(0.15) {
        let member = replaceable[world.choose(replaceable.len() as u64) as usize];
        let fails = world.happens(0.2);
        // What it lies about it lacks, once it is the member.
        let spares_it = match struck.contains(&member) {
            true => !spared.is_empty(),
            false => world.spares(&struck, member),
        };
        let lies = world.checksums && !lingers && spares_it && !fails && world.happens(0.3);
        let lie = lies.then(|| [Lie::Lost, world.misdirected(), Lie::Torn][world.choose(3) as usize]);
        troubles.push(Trouble::Replace { member, fails, lie });
    }
    if survives && array.spares().len() < 2 && world.happens(0.1) {
        troubles.push(Trouble::Spare);
    }
    if world.has_journal() && !array.has_lost_journal() && !world.cheats() && world.happens(0.1) {
        troubles.push(Trouble::LoseJournal);
    }
    if world.happens(0.1) {
        troubles.push(Trouble::Scrub);
    }
    troubles
}

async fn strike(world: &World, array: &Array<Rc<Disk>>, trouble: Trouble, when: Duration) -> Result<(), String> {
    world.runtime.sleep(when).await;
    world.tell(format_args!("{trouble:?}"));
    let disk = |member: usize| Rc::clone(&world.disks.borrow()[member]);
    let fault = || world.outcome.borrow_mut().faults += 1;
    match trouble {
        Trouble::Rebuild(member) => {
            let on_spare = !array.spares().is_empty() && world.happens(0.8);
            let rebuilt = match on_spare {
                true => rebuild_on_spare(world, array, member).await.map(drop),
                false => rebuild(world, array, member).await,
            };
            return match rebuilt {
                // The disk that came in may have been struck in its turn, or a record of it have found no room.
                Err(_) if array.state(member) == MemberState::Failed || world.was_short.get() => Ok(()),
                rebuilt => rebuilt,
            };
        }
        Trouble::Return(member) => return come_back(world, array, member).await,
        Trouble::Away(member, lasts) => {
            fault();
            disk(member).suffer(Rule::new(Effect::Vanish));
            array.fail(member);
            world.runtime.sleep(lasts).await;
            return come_back(world, array, member).await;
        }
        Trouble::Replace { member, fails, lie } => {
            // It may have failed, or be on its way out, since this was thought of.
            if array.state(member) == MemberState::Active && array.replacing().is_none() {
                let replaced = replace(world, array, member, fails, lie).await;
                return if world.was_short.get() { Ok(()) } else { replaced };
            }
        }
        Trouble::Spare => {
            let added = add_spare(world, array).await;
            return if world.was_short.get() { Ok(()) } else { added };
        }
        Trouble::LoseJournal => {
            fault();
            world.outcome.borrow_mut().lost_journals += 1;
            world.journal_failed.set(true);
            disk(world.members()).suffer(Rule::new(Effect::Vanish));
        }
        Trouble::Scrub => {
            // A scrub of parity ends where a member fails.
            let Ok(found) = array.scrub(Repair::WhatIsWrong).await else { return Ok(()) };
            if found.mismatches > 0 && !world.lingers.get() {
                return Err(format!("a scrub found {} sectors that do not fit", found.mismatches));
            }
        }
        Trouble::Fail(member) => {
            fault();
            array.fail(member);
        }
        Trouble::Vanish(member) => {
            fault();
            disk(member).suffer(Rule::new(Effect::Vanish));
        }
        Trouble::Hang(member) => {
            fault();
            disk(member).suffer(Rule::new(Effect::Hang));
            world.runtime.sleep(Duration::micros(300)).await;
            array.fail(member);
            world.runtime.sleep(Duration::micros(300)).await;
            disk(member).recover();
        }
        Trouble::Refuse(member, operation) => {
            fault();
            let error = DeviceError::Medium { offset: Bytes::ZERO, length: Bytes::SECTOR };
            disk(member).suffer(Rule::new(Effect::Fail(error)).on(operation).times(1));
        }
        Trouble::Latent(member) => {
            fault();
            for _ in 0..=world.choose(4) {
                let from = world.some_block();
                disk(member).damage(from..from + world.block * (1 + world.choose(3)), Damage::Unreadable);
            }
        }
        Trouble::Rot(member) => {
            fault();
            rot(world, member);
        }
        Trouble::Lie(member, lie) => {
            fault();
            world.outcome.borrow_mut().silent += 1;
            disk(member).lie(lie, world.data_area());
        }
    }
    Ok(())
}

/// A member that was away comes back, if its place is still empty; perhaps it rotted meanwhile.
async fn come_back(world: &World, array: &Array<Rc<Disk>>, member: usize) -> Result<(), String> {
    if array.state(member) != MemberState::Failed {
        return Ok(());
    }
    let disk = Rc::clone(&world.disks.borrow()[member]);
    disk.recover();
    if world.sums_stored.get() && world.happens(if world.is_large() { 0.8 } else { 0.5 }) {
        rot(world, member);
    }
    match bring_back(world, array, member).await {
        // It may have been struck anew, or have no room for what it missed.
        Err(_) if array.state(member) == MemberState::Failed || world.was_short.get() => Ok(()),
        returned => returned.map(drop),
    }
}

/// Bits of a member's data turn over.
fn rot(world: &World, member: usize) {
    world.outcome.borrow_mut().silent += 1;
    for _ in 0..=world.choose(4) {
        let from = world.some_block();
        let bit = Damage::Flipped(world.choose(4096) as u16);
        world.disks.borrow()[member].damage(from..from + world.block * (1 + world.choose(3)), bit);
    }
}
