//! What is done to an array that exists.

use std::ops::Range;

use array::creation::is_same;
use array::geometry::Level;
use array::md::{Superblock, Uuid};
use array::{Array, GrowError, MemberState};
use device::{AnyDevice, Device, DeviceError};
use serde::{Deserialize, Serialize};
use units::Bytes;
use uring::{Live, LiveOptions};

use crate::alias::told_from_members;
use crate::given::given;
use crate::members::{Permits, data_offset, names, open, open_without, superblock, superblock_in, to_read, to_write};
use crate::{Course, Place, RaidError, exact};

/// How a command left the array.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Done {
    /// Redundancy fits, and the members say so.
    pub clean: bool,
    /// Members that are missing or not rebuilt, by number.
    pub not_whole: Vec<usize>,
    /// How many more losses the array survives, whichever member it is.
    pub survives: usize,
    /// Members whose loss it does not survive, where it survives that of others.
    #[serde(default)]
    pub needed: Vec<usize>,
    /// Devices that wait to take the place of a member that fails.
    pub spares: Vec<String>,
    /// The member that was to be replaced, and stays: its replacement was called off.
    #[serde(default)]
    pub called_off: Option<usize>,
}

impl Done {
    /// Makes redundancy fit if that is due, and stops the array.
    pub(crate) fn stopped(live: &Live, array: &Array<AnyDevice>) -> Result<Done, RaidError> {
        let fits = live.runtime().block_on(async { array.resync().await.map(drop) });
        fits.map_err(|error| RaidError::of(array, error))?;
        Done::left(live, array)
    }

    /// Stops the array as it is.
    pub(crate) fn left(live: &Live, array: &Array<AnyDevice>) -> Result<Done, RaidError> {
        live.runtime().block_on(array.stop()).map_err(|error| RaidError::of(array, error))?;
        Ok(Done::of(array))
    }

    /// How an array is.
    pub(crate) fn of(array: &Array<AnyDevice>) -> Done {
        let not_whole = not_whole(array);
        let survives = array.losses_left().unwrap_or(0);
        let (needed, spares) = (needed(array), array.spares());
        Done { clean: !array.is_dirty(), not_whole, survives, needed, spares, called_off: None }
    }

    /// Whether its redundancy was to be made to fit at last, and that was ended.
    fn was_ended(&self, course: &Course) -> bool {
        !self.clean && course.is_interrupted()
    }

    /// What it means for losses to come.
    pub fn outlook(&self) -> String {
        outlook(self.survives, &self.needed)
    }
}

/// Members that are missing or not rebuilt.
pub(crate) fn not_whole(array: &Array<AnyDevice>) -> Vec<usize> {
    let all = 0..array.geometry().members();
    all.filter(|member| array.state(*member) != MemberState::Active).collect()
}

/// Members whose loss an array does not survive, where it survives that of others.
pub(crate) fn needed(array: &Array<AnyDevice>) -> Vec<usize> {
    let active = (0..array.geometry().members()).filter(|member| array.state(*member) == MemberState::Active);
    let (needed, others): (Vec<usize>, Vec<usize>) = active.partition(|member| array.needs_any_of(&[*member]));
    if others.is_empty() { Vec::new() } else { needed }
}

/// What to expect of an array that has lost more than its level survives.
pub(crate) const BROKEN: &str = "that is more than the level survives";

/// How many members more an array survives the loss of, and which of them it needs.
pub fn outlook(survives: usize, needed: &[usize]) -> String {
    match (survives, needed) {
        (0, []) => "the array survives no further loss".into(),
        (0, needed) => format!("the array survives the loss of 1 more, but not of {}", numbered(needed, " or ")),
        (more, _) => format!("the array survives the loss of {more} more"),
    }
}

/// `member 1`, `members 1, 3, 5`, with what stands before the last.
pub fn numbered(members: &[usize], last: &str) -> String {
    let numbers: Vec<String> = members.iter().map(usize::to_string).collect();
    match numbers.split_last() {
        Some((end, before)) if !before.is_empty() => format!("members {}{last}{end}", before.join(", ")),
        _ => format!("member {}", numbers.join("")),
    }
}

/// What a rebuild has done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Rebuild {
    /// How the array was left.
    #[serde(flatten)]
    pub done: Done,
    /// The member that was rebuilt, by number.
    pub member: usize,
    /// Ranges of the array that could not be computed: first byte and the one behind the last.
    #[serde(rename = "lost_bytes")]
    pub lost: Vec<(u64, u64)>,
    /// It was ended early; the same command goes on.
    pub interrupted: bool,
}

/// The member at a place, by whatever name.
pub(crate) fn member_of(array: &Array<AnyDevice>, place: &Place) -> Result<usize, RaidError> {
    let names = names(array);
    let is_it = |name: &String| name.parse::<Place>().is_ok_and(|other| other.absolute() == place.absolute());
    let is_in_use = |member: usize| array.state(member) != MemberState::Failed;
    let at_place = (0..names.len()).filter(|member| names[*member].as_ref().is_some_and(is_it));
    if let Some(member) = at_place.clone().find(|member| is_in_use(*member)) {
        return Ok(member);
    }
    let place = place.clone();
    let members = (0..names.len()).filter(|member| is_in_use(*member));
    let members: Vec<String> = members.filter_map(|member| names[member].clone()).collect();
    Err(match at_place.count() {
        0 => RaidError::NoMember { place, members },
        _ => RaidError::FailedAlready { place },
    })
}

/// Calls off the replacement of a member by the device at this place, if that is what it is for; says whose it was.
pub(crate) async fn call_off(array: &Array<AnyDevice>, place: &Place) -> Result<Option<usize>, RaidError> {
    let is_it = |name: &str| name.parse::<Place>().is_ok_and(|other| other.is_same(place));
    let Some((member, _)) = array.replacing().filter(|(_, device)| is_it(device)) else { return Ok(None) };
    match array.call_off_replacement(member).await {
        Ok(true) => Ok(Some(member)),
        Ok(false) => Err(RaidError::Replaced { place: place.clone(), member }),
        Err(error) => Err(RaidError::of(array, error)),
    }
}

/// Takes a member out of use: the others say that it has failed. Of a device that is to replace a member, that is
/// called off, and the member stays.
pub fn fail(members: &[Place], permits: &Permits, place: &Place, course: &Course) -> Result<Done, RaidError> {
    let live = Live::start(&LiveOptions::default());
    let array = open(&live, members, permits, course)?;
    if let called_off @ Some(_) = live.runtime().block_on(call_off(&array, place))? {
        return Ok(Done { called_off, ..Done::stopped(&live, &array)? });
    }
    let member = spared(&array, place).map_err(|error| match error {
        // The array was opened without what had failed, and does not know it.
        RaidError::NoMember { place, .. } if is_left_out(members, &place) => RaidError::FailedAlready { place },
        error => error,
    })?;
    // Without the member parity could no longer be made to fit, and an array with parity that does not fit is not
    // opened without a member. Where it cannot be made to fit, as a member does not do what it is asked, that one is
    // taken out all the same.
    let fits = live.runtime().block_on(array.resync());
    if fits != Ok(true) && course.is_interrupted() {
        Done::left(&live, &array)?;
        return Err(RaidError::NotTakenOut { place: place.clone() });
    }
    if array.state(member) != MemberState::Failed {
        array.fail(spared(&array, place)?);
    }
    Done::stopped(&live, &array)
}

fn is_left_out(members: &[Place], place: &Place) -> bool {
    given(members, None).is_ok_and(|given| given.left_out.iter().any(|one| one.path.is_same(place)))
}

/// The member at a place, if the array can do without it.
pub(crate) fn spared(array: &Array<AnyDevice>, place: &Place) -> Result<usize, RaidError> {
    let member = member_of(array, place)?;
    if array.needs_any_of(&[member]) {
        let (all, level) = (array.geometry().members(), array.geometry().level());
        let missing = (0..all).filter(|other| *other != member && array.state(*other) != MemberState::Active).count();
        let (level, endurance) = (level.to_string(), level.endurance(all));
        return Err(RaidError::NotSpared { place: place.clone(), level, endurance, missing });
    }
    Ok(member)
}

/// Rebuilds what is missing, or goes on with a rebuild that was ended: onto a new device, one that was a member before,
/// or a spare.
pub fn rebuild(
    members: &[Place],
    permits: &Permits,
    onto: Option<&Place>,
    force: bool,
    course: &Course,
) -> Result<Rebuild, RaidError> {
    let live = Live::start(&LiveOptions::default());
    let runtime = live.runtime();
    let mut array = open_without(&live, members, permits, force, course)?;
    let all = 0..array.geometry().members();
    let started = all.clone().find(|member| matches!(array.state(*member), MemberState::Rebuilding(_)));
    let (member, lost) = match started {
        Some(member) if onto.is_some() => return Err(RaidError::Rebuilding { member }),
        Some(member) => (member, runtime.block_on(array.resume_rebuild(member))),
        None => {
            let missing = all.clone().find(|member| array.state(*member) == MemberState::Failed);
            let member = missing.ok_or(RaidError::Complete)?;
            let filled = match onto {
                Some(onto) => {
                    let (device, data_offset) = runtime.block_on(fits(&live, &mut array, permits, onto))?;
                    Some(runtime.block_on(array.rebuild(member, device, data_offset, identity()?)))
                }
                None => runtime.block_on(fill_from_within(&array, member)),
            };
            (member, filled.ok_or(RaidError::NoReplacement { member })?)
        }
    };
    let rebuilt = conclude(&live, &array, member, lost)?;
    let interrupted = rebuilt.interrupted || rebuilt.done.was_ended(course);
    Ok(Rebuild { interrupted, ..rebuilt })
}

/// Fills a member's place with what the array has: the former member, by the bitmap, or else a spare.
pub(crate) async fn fill_from_within(
    array: &Array<AnyDevice>,
    member: usize,
) -> Option<Result<Vec<Range<Bytes>>, DeviceError>> {
    match array.bring_back(member).await {
        Some(filled) => Some(filled),
        None => array.rebuild_on_spare(member).await,
    }
}

pub(crate) fn identity() -> Result<Uuid, RaidError> {
    Ok(Uuid(host::identity::random().map_err(RaidError::Identity)?))
}

/// Whether a member is not whole, or still being replaced. What is done to others is their own affair.
pub(crate) fn is_unfinished(array: &Array<AnyDevice>, member: usize) -> bool {
    array.state(member) != MemberState::Active || array.replacing().is_some_and(|(other, _)| other == member)
}

/// How a rebuild or a replacement left the array; the ranges that it lost, or why it could not go on.
fn conclude(
    live: &Live,
    array: &Array<AnyDevice>,
    member: usize,
    lost: Result<Vec<Range<Bytes>>, DeviceError>,
) -> Result<Rebuild, RaidError> {
    let lost = lost.map_err(|error| match RaidError::of(array, error.clone()) {
        rival @ RaidError::Rival { .. } => rival,
        _ => RaidError::NotFilled { member, error },
    })?;
    let interrupted = is_unfinished(array, member);
    let done = if interrupted { Done::left(live, array)? } else { Done::stopped(live, array)? };
    let ends = |range: Range<Bytes>| (range.start.get(), range.end.get());
    Ok(Rebuild { done, member, lost: lost.into_iter().map(ends).collect(), interrupted })
}

/// Replaces a member that still serves, or goes on with that: it is copied while it stays in use.
pub fn replace(
    members: &[Place],
    permits: &Permits,
    old: Option<&Place>,
    onto: Option<&Place>,
    course: &Course,
) -> Result<Rebuild, RaidError> {
    let live = Live::start(&LiveOptions::default());
    let runtime = live.runtime();
    let mut array = open(&live, members, permits, course)?;
    // What is copied must be right first.
    runtime.block_on(array.resync()).map_err(RaidError::failed)?;
    let (member, lost) = match (array.replacing(), old, onto) {
        (Some((member, device)), _, Some(_)) => return Err(RaidError::Replacing { member, device }),
        (Some((member, _)), ..) => (member, runtime.block_on(array.resume_replace(member))),
        (None, Some(old), Some(onto)) => {
            let member = replaceable(&array, old)?;
            let (device, data_offset) = runtime.block_on(fits(&live, &mut array, permits, onto))?;
            (member, runtime.block_on(array.replace(member, device, data_offset, identity()?)))
        }
        (None, ..) => return Err(RaidError::NotReplacing),
    };
    conclude(&live, &array, member, lost)
}

/// The member at a place, if it can be replaced while it serves.
pub(crate) fn replaceable(array: &Array<AnyDevice>, old: &Place) -> Result<usize, RaidError> {
    let member = member_of(array, old)?;
    let level = array.geometry().level();
    if level.losses_survived(array.geometry().members()) == 0 {
        return Err(RaidError::NoRedundancy { level: level.to_string() });
    }
    match array.state(member) {
        MemberState::Active => Ok(member),
        _ => Err(RaidError::NotWhole { place: old.clone() }),
    }
}

/// What became of a device that was added.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Added {
    /// How the array was left.
    #[serde(flatten)]
    pub done: Done,
    /// The member that it fills; a spare fills none.
    pub member: Option<usize>,
    /// It was this member before, and what was written meanwhile was copied.
    pub returned: bool,
    /// Ranges of the array that could not be computed: first byte and the one behind the last.
    #[serde(rename = "lost_bytes")]
    pub lost: Vec<(u64, u64)>,
    /// It was ended early.
    pub interrupted: bool,
}

/// Whether a place is, or was, part of the array that these are members of.
pub fn belongs(members: &[Place], place: &Place) -> bool {
    let live = Live::start(&LiveOptions::default());
    let read = |place: &Place| superblock_in(&live, place);
    let members: Vec<Superblock> = members.iter().filter_map(read).collect();
    // Of several creations it is the latest that is opened.
    let latest = members.iter().max_by_key(|it| (it.created.seconds(), it.created.0));
    read(place).is_some_and(|own| latest.is_some_and(|latest| is_same(&own, latest)))
}

/// Adds a device: a former member comes back, anything else is a spare, and fills the place of a member that is
/// missing. One that went on without the array is taken only if what it carries may be lost.
pub fn add(
    members: &[Place],
    permits: &Permits,
    new: &Place,
    destroy_data: bool,
    course: &Course,
) -> Result<Added, RaidError> {
    let live = Live::start(&LiveOptions::default());
    let runtime = live.runtime();
    given(members, Some(new))?.is_enough()?;
    let mut array = open_without(&live, members, permits, false, course)?;
    let former = runtime.block_on(former(&live, &array, new, destroy_data))?;
    let returned = former.is_some();
    let (member, lost) = match former {
        Some((member, superblock)) => {
            let device = runtime.block_on(to_write(&live, new, permits))?;
            array.widen(device.shape().logical_block);
            (Some(member), runtime.block_on(array.readd(device, &superblock)))
        }
        None => {
            takes_spares(array.geometry().level(), array.geometry().members())?;
            let flags = if destroy_data { 0 } else { kept_flags(&array, superblock_in(&live, new)) };
            let (device, _) = runtime.block_on(fits(&live, &mut array, permits, new))?;
            runtime.block_on(array.add_flagged_spare(device, identity()?, flags)).map_err(RaidError::failed)?;
            let missing = (0..array.geometry().members()).find(|m| array.state(*m) == MemberState::Failed);
            let filled = missing.and_then(|member| runtime.block_on(array.rebuild_on_spare(member)));
            (missing, filled.unwrap_or(Ok(Vec::new())))
        }
    };
    let Rebuild { done, lost, interrupted, .. } = conclude(&live, &array, member.unwrap_or(0), lost)?;
    let interrupted = (interrupted && member.is_some()) || done.was_ended(course);
    Ok(Added { done, member, returned, lost, interrupted })
}

/// What a device that says this was asked for good, if it was part of this array: write-mostly, failfast. It is filled
/// anew, and stays what it was.
pub(crate) fn kept_flags(array: &Array<AnyDevice>, said: Option<Superblock>) -> u8 {
    said.filter(|it| Some(it.array) == array.identity()).map_or(0, |it| it.member_flags)
}

/// Refuses spares where no member can be filled.
pub(crate) fn takes_spares(level: Level, members: usize) -> Result<(), RaidError> {
    match level.losses_survived(members) {
        0 => Err(RaidError::NoSpares { level: level.to_string() }),
        _ => Ok(()),
    }
}

/// Which member a place was, if it can come back as that. One that went on without the array comes back as nothing, and
/// is refused unless what it carries may be lost.
pub(crate) async fn former(
    live: &Live,
    array: &Array<AnyDevice>,
    place: &Place,
    destroy_data: bool,
) -> Result<Option<(usize, Superblock)>, RaidError> {
    let Ok(device) = to_read(live, place).await else { return Ok(None) };
    let Ok(superblock) = superblock(place, &device).await else { return Ok(None) };
    let without = array.went_on_without(&superblock);
    if !without.is_empty() && !destroy_data {
        let names = names(array);
        let names: Vec<String> = without.into_iter().filter_map(|member| names[member].clone()).collect();
        let (others, its, theirs) = (names.join(" and "), superblock.events, array.events());
        return Err(RaidError::WentOn { place: place.clone(), others, its, theirs });
    }
    Ok(array.may_return(&superblock).map(|member| (member, superblock)))
}

/// What became of an array that was to grow.
#[derive(Debug, Clone, Serialize)]
pub struct Grown {
    /// How the array was left.
    #[serde(flatten)]
    pub done: Done,
    /// What it stores now.
    #[serde(rename = "size_bytes", with = "exact")]
    pub size: Bytes,
}

/// Has an array use all of its members' room. If that was ended before redundancy fitted, it is made to fit first.
pub fn grow(members: &[Place], permits: &Permits, course: &Course) -> Result<Grown, RaidError> {
    let live = Live::start(&LiveOptions::default());
    let runtime = live.runtime();
    let array = open(&live, members, permits, course)?;
    let went_on = array.needs_resync();
    if went_on || array.is_dirty() {
        let done = Done::stopped(&live, &array)?;
        if !done.clean {
            return Ok(Grown { done, size: array.geometry().size() });
        }
    }
    match runtime.block_on(array.grow()) {
        // What was ended had told the members already that they are used to their ends.
        Err(GrowError::NoRoom { .. }) if went_on => {}
        grown => drop(grown?),
    }
    let array = open(&live, members, permits, course)?;
    Ok(Grown { done: Done::stopped(&live, &array)?, size: array.geometry().size() })
}

/// Opens the device that is to take a member's place, if it is large enough, and says where its data are to begin:
/// where they begin on the others.
async fn fits(
    live: &Live,
    array: &mut Array<AnyDevice>,
    permits: &Permits,
    place: &Place,
) -> Result<(AnyDevice, Bytes), RaidError> {
    let device = to_write(live, place, permits).await?;
    told_from_members(array, place, &device).await?;
    array.widen(device.shape().logical_block);
    let data_offset = data_offset(array, place, &device)?;
    Ok((device, data_offset))
}

/// Makes an array clean that was not stopped. By force that is one, too, whose journal is gone: from then on it has
/// none.
pub fn stop(members: &[Place], permits: &Permits, force: bool, course: &Course) -> Result<Done, RaidError> {
    let live = Live::start(&LiveOptions::default());
    let array = open_without(&live, members, permits, force, course)?;
    Done::stopped(&live, &array)
}
