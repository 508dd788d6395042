//! Bringing back members that dropped out one after the other, so that more are stale than the level survives the loss
//! of.
//!
//! A cable, a controller or a power supply that fails by and by takes members one at a time. The array goes on without
//! the first, records that, and breaks with the next that it cannot do without. All data are still there; only what was
//! written after a member had left is not on it. md's way out is `mdadm --assemble --force` (`force_array` in
//! Assemble.c), and this is the same:
//!
//! 1. among the stale members that were whole, the freshest by events is taken back, again and again until there are
//!    enough; those that left with it, under the same number of events, come along;
//! 2. they are given the newest number of events, and the newest table of roles counts them as members again;
//! 3. an array with parity that is degraded then is called clean (`force-array`): nobody could make its parity fit, and
//!    only what says so keeps it shut.
//!
//! What was written between the moment when a member left and the end is lost or mixed where it lies on that member, or
//! is computed with it; only the user can say whether that is acceptable. Here redundancy that is left, of copies or of
//! parity that is whole again, is called dirty, so that a resync makes it fit; md leaves it as the freshest member has
//! it, and copies may then differ for ever. A bitmap is behind the new number of events on those that come back, so
//! that all of it counts as marked.
//!
//! Never taken back: a member that was being rebuilt, or was to replace another (what lies behind its mark never was
//! there); a spare; a device of another creation, or of before the array grew; one whose number or place somebody else
//! has now; one whose areas are [misplaced](crate::areas). A device that went on without the others is a half of a
//! split brain, which is refused before.

use device::{Device, DeviceError, Request};
use units::Bytes;

use crate::areas;
use crate::format::written;
use crate::geometry::Geometry;
use crate::integrity::retell;
use crate::md::{Features, MemberRole, Numbers, Resync, SUPERBLOCK_AT, Superblock};
use crate::standing::{Standing, newest};

/// A device with what its superblock says, its size and its block.
#[derive(Debug, Clone, Copy)]
pub struct Given<'s> {
    /// What it says.
    pub superblock: &'s Superblock,
    /// How large it is.
    pub size: Bytes,
    /// Its block.
    pub block: Bytes,
}

/// What would be done to devices, by their place among those that were given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Stale members that are taken back, freshest first, and the places that they have.
    pub believed: Vec<(usize, usize)>,
    /// Stale members that stay out.
    pub left: Vec<usize>,
    /// What each device of the array is to say; of those that stay out, nothing.
    pub superblocks: Vec<Option<Superblock>>,
    /// It is called clean though parity may not fit where something was being written.
    pub calls_clean: bool,
}

/// Why nothing is forced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum NotForced {
    /// It opens as it is.
    #[error("the array has enough members, and opens without force")]
    Needless,
    /// Nothing to take back.
    #[error(
        "members are missing, and those that are stale would not be enough: what was being rebuilt, or is a spare, holds no more than a part of what it should"
    )]
    TooFew,
}

/// What has to be done to open the array of one creation whose devices these are.
pub fn plan(devices: &[Given]) -> Result<Plan, NotForced> {
    let superblocks: Vec<&Superblock> = devices.iter().map(|device| device.superblock).collect();
    let newest = newest(&superblocks).ok_or(NotForced::TooFew)?.clone();
    let mut current: Vec<usize> = Vec::new();
    let mut stale: Vec<usize> = Vec::new();
    for (index, it) in superblocks.iter().enumerate() {
        match Standing::of(it, &newest) {
            Standing::Stale => stale.push(index),
            _ => current.push(index),
        }
    }
    let level = Numbers { level: newest.level, layout: newest.layout }.level();
    let has_parity = level.is_ok_and(|it| it.parities() > 0);
    // What a log knows of the writes under way it mends without force.
    let logged =
        newest.features.has(Features::JOURNAL) || newest.ppl_at().is_some() || newest.sealed_own_ppl().is_some();
    let is_dirty = current.iter().any(|index| superblocks[*index].resync != Resync::Clean);
    let places = || current.iter().filter_map(|index| Some((*index, place(superblocks[*index], &newest)?)));
    let taken: Vec<usize> = places().map(|(_, place)| place).collect();
    let is_whole = |index: usize| !superblocks[index].features.has(Features::RECOVERY);
    let mut filled: Vec<usize> = places().filter(|(index, _)| is_whole(*index)).map(|(_, place)| place).collect();
    let whole = |filled: &[usize]| (0..newest.members as usize).all(|place| filled.contains(&place));
    if survives(&newest, &superblocks, &filled) && (whole(&filled) || logged || !has_parity || !is_dirty) {
        return Err(NotForced::Needless);
    }
    let mut roles = newest.roles.clone();
    let may_come_back = |index: usize, filled: &[usize]| {
        let (it, device) = (superblocks[index], devices[index]);
        let MemberRole::Active(place) = it.role() else { return None };
        let place = usize::from(place);
        let unfinished = it.features.has(Features::RECOVERY) || it.features.has(Features::REPLACEMENT);
        let has_number = |other: &usize| superblocks[*other].number == it.number;
        let of_today = it.size == newest.size && place < newest.members as usize;
        let known = (it.number as usize) < newest.roles.len() && !current.iter().any(has_number);
        let placed = areas::check(it, device.size, device.block).is_ok();
        (!unfinished && of_today && known && placed && !filled.contains(&place) && !taken.contains(&place))
            .then_some(place)
    };
    let mut believed: Vec<(usize, usize)> = Vec::new();
    let mut left = stale;
    let mut last = None;
    loop {
        let done = survives(&newest, &superblocks, &filled);
        // Those that left with the last one come along: they lack no more than it does.
        let candidates = left.iter().filter_map(|index| Some((*index, may_come_back(*index, &filled)?)));
        let candidates = candidates.filter(|(index, _)| !done || Some(superblocks[*index].events) == last);
        let Some((index, place)) = candidates.max_by_key(|(index, _)| (superblocks[*index].events, usize::MAX - index))
        else {
            match done {
                true => break,
                false => return Err(NotForced::TooFew),
            }
        };
        last = Some(superblocks[index].events);
        believed.push((index, place));
        filled.push(place);
        left.retain(|other| *other != index);
    }
    for (index, place) in &believed {
        let own = MemberRole::Active(*place as u16).number();
        // Who had the place last is gone.
        roles.iter_mut().filter(|role| **role == own).for_each(|role| *role = MemberRole::Faulty.number());
        roles[superblocks[*index].number as usize] = own;
    }
    let calls_clean = has_parity && !whole(&filled);
    let resync = if calls_clean { Resync::Clean } else { Resync::From(Bytes::ZERO) };
    let told = |index: usize| {
        let counts = current.contains(&index) || believed.iter().any(|(other, _)| *other == index);
        counts.then(|| {
            let it = superblocks[index];
            Superblock { roles: roles.clone(), events: newest.events, resync, ..it.clone() }
        })
    };
    Ok(Plan { superblocks: (0..devices.len()).map(told).collect(), believed, left, calls_clean })
}

/// The place that a device has, or takes if the member that it is to replace is gone.
fn place(it: &Superblock, newest: &Superblock) -> Option<usize> {
    match Standing::of(it, newest) {
        Standing::Member(place) | Standing::Replacing(place) => Some(place),
        _ => None,
    }
}

/// Whether members in these places are enough, all being of one size.
fn survives(newest: &Superblock, superblocks: &[&Superblock], filled: &[usize]) -> bool {
    let used = |it: &Superblock| if it.size.is_zero() { it.data_size } else { it.size };
    let of = |place: usize| {
        let own = superblocks.iter().find(|it| it.role() == MemberRole::Active(place as u16));
        used(own.copied().unwrap_or(newest))
    };
    let sizes: Vec<Bytes> = (0..newest.members as usize).map(of).collect();
    let level = Numbers { level: newest.level, layout: newest.layout }.level();
    let geometry = level.ok().and_then(|level| Geometry::new(level, newest.chunk, &sizes).ok());
    geometry.is_some_and(|geometry| geometry.survives(|place| !filled.contains(&place)))
}

/// Has a device say this from now on, durably, with its checksums, if it keeps any that know what it `said` before.
pub async fn tell<D: Device>(device: &D, said: &Superblock, now: &Superblock) -> Result<(), DeviceError> {
    retell(device, said, now).await?;
    let bytes = written(now, device.shape().logical_block).freeze();
    device.submit(Request::write(SUPERBLOCK_AT, bytes).with_fua()).await.result
}
