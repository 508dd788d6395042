//! What is done to an array that exists.

use std::ops::Range;

use array::md::Uuid;
use array::{Array, MemberState, Repair, Scrubbed};
use device::{AnyDevice, Device};
use serde::{Deserialize, Serialize};
use units::Bytes;
use uring::{Live, LiveOptions};

use super::members::{Permits, names, open, superblock, to_read, to_write};
use super::{Course, Place, RaidError};

/// How a command left the array.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Done {
    /// Redundancy fits, and the members say so.
    pub clean: bool,
    /// Members that are missing or not rebuilt, by number.
    pub not_whole: Vec<usize>,
}

impl Done {
    /// Makes redundancy fit if that is due, and stops the array.
    pub(super) fn stopped(live: &Live, array: &Array<AnyDevice>) -> Result<Done, RaidError> {
        live.runtime().block_on(async { array.resync().await.map(drop) }).map_err(RaidError::Failed)?;
        Done::left(live, array)
    }

    /// Stops the array as it is.
    pub(super) fn left(live: &Live, array: &Array<AnyDevice>) -> Result<Done, RaidError> {
        live.runtime().block_on(array.stop()).map_err(RaidError::Failed)?;
        let members = 0..array.geometry().members();
        let not_whole = members.filter(|member| array.state(*member) != MemberState::Active).collect();
        Ok(Done { clean: !array.is_dirty(), not_whole })
    }
}

/// What a scrub found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Scrub {
    /// Blocks of 512 bytes (or of the members' blocks, if larger) whose redundancy did not fit.
    pub mismatches: u64,
    /// Of these, located and mended, by member.
    pub mended: Vec<u64>,
    /// Of these, made to fit by believing the data.
    pub believed: u64,
    /// Units that could not be read.
    pub unreadable: u64,
    /// Sectors that could not be read and were written anew, by member.
    pub rewritten: Vec<u64>,
    /// Blocks that did not fit their checksums, by member.
    pub corrupt: Vec<u64>,
    /// It was ended early.
    pub interrupted: bool,
}

impl Scrub {
    /// What was found in an array.
    pub(super) fn of(array: &Array<AnyDevice>, found: Scrubbed) -> Scrub {
        let rewritten = (0..array.geometry().members()).map(|member| array.counts(member).rewritten).collect();
        let interrupted = found.upto < array.geometry().size();
        let Scrubbed { mismatches, mended, believed, corrupt, unreadable, .. } = found;
        Scrub { mismatches, mended, believed, unreadable, rewritten, corrupt, interrupted }
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
    pub lost: Vec<(u64, u64)>,
    /// It was ended early; the same command goes on.
    pub interrupted: bool,
}

/// The member at a place, by whatever name.
fn member_of(array: &Array<AnyDevice>, place: &Place) -> Result<usize, RaidError> {
    let names = names(array);
    let is_it = |name: &String| name.parse::<Place>().is_ok_and(|other| other.absolute() == place.absolute());
    let is_in_use = |member: usize| array.state(member) != MemberState::Failed;
    let found = (0..names.len()).find(|member| names[*member].as_ref().is_some_and(is_it) && is_in_use(*member));
    let members = || names.iter().flatten().cloned().collect();
    found.ok_or_else(|| RaidError::NoMember { place: place.clone(), members: members() })
}

/// Takes a member out of use: the others say that it has failed.
pub fn fail(members: &[Place], permits: &Permits, place: &Place, course: &Course) -> Result<Done, RaidError> {
    let live = Live::start(&LiveOptions::default());
    let array = live.runtime().block_on(open(&live, members, permits, false, course))?;
    spare(&array, place)?;
    Done::stopped(&live, &array)
}

/// Fails a member, if the array can do without it.
pub(super) fn spare(array: &Array<AnyDevice>, place: &Place) -> Result<usize, RaidError> {
    let member = member_of(array, place)?;
    let all = array.geometry().members();
    let missing = (0..all).filter(|other| *other != member && array.state(*other) != MemberState::Active).count();
    let (level, survives) = (array.geometry().level(), array.geometry().level().losses_survived(all));
    if missing >= survives {
        return Err(RaidError::NotSpared { place: place.clone(), level: level.to_string(), survives, missing });
    }
    array.fail(member);
    Ok(member)
}

/// Rebuilds what is missing, or goes on with a rebuild that was ended: onto a new device, or in place of a member that is replaced.
pub fn rebuild(
    members: &[Place],
    permits: &Permits,
    onto: Option<&Place>,
    replace: Option<&Place>,
    force: bool,
    course: &Course,
) -> Result<Rebuild, RaidError> {
    let live = Live::start(&LiveOptions::default());
    let runtime = live.runtime();
    let array = runtime.block_on(open(&live, members, permits, force, course))?;
    let all = 0..array.geometry().members();
    let started = all.clone().find(|member| matches!(array.state(*member), MemberState::Rebuilding(_)));
    let (member, lost) = if let (Some(member), None) = (started, replace) {
        (member, runtime.block_on(array.resume_rebuild(member)))
    } else {
        let member = match replace {
            Some(place) => {
                // Looked at before the member is given up.
                runtime.block_on(fits(&live, members, permits, onto))?;
                spare(&array, place)?
            }
            None => {
                all.clone().find(|member| array.state(*member) == MemberState::Failed).ok_or(RaidError::Complete)?
            }
        };
        let onto = onto.ok_or(RaidError::NoReplacement { member })?;
        let (device, data_offset) =
            runtime.block_on(fits(&live, members, permits, Some(onto)))?.expect("a device was named");
        let identity = Uuid(host::identity::random().map_err(RaidError::Identity)?);
        (member, runtime.block_on(array.rebuild(member, device, data_offset, identity)))
    };
    let lost = lost.map_err(RaidError::Failed)?;
    let interrupted = array.state(member) != MemberState::Active;
    let done = if interrupted { Done::left(&live, &array)? } else { Done::stopped(&live, &array)? };
    let ends = |range: Range<Bytes>| (range.start.get(), range.end.get());
    Ok(Rebuild { done, member, lost: lost.into_iter().map(ends).collect(), interrupted })
}

/// Opens the device that is to take a member's place, if it is large enough, and says where its data are to begin: where they begin on
/// the others.
async fn fits(
    live: &Live,
    members: &[Place],
    permits: &Permits,
    onto: Option<&Place>,
) -> Result<Option<(AnyDevice, Bytes)>, RaidError> {
    let Some(place) = onto else { return Ok(None) };
    let first = &members[0];
    let sibling = superblock(first, &to_read(live, first).await?).await?;
    let device = to_write(live, place, permits).await?;
    let (size, needed) = (device.shape().size, sibling.data_offset + sibling.size);
    if size < needed {
        return Err(RaidError::TooSmall { place: place.clone(), size, needed });
    }
    Ok(Some((device, sibling.data_offset)))
}

/// Compares everything with its redundancy.
pub fn scrub(members: &[Place], permits: &Permits, repair: bool, course: &Course) -> Result<Scrub, RaidError> {
    let live = Live::start(&LiveOptions::default());
    let runtime = live.runtime();
    let array = live.runtime().block_on(open(&live, members, permits, false, course))?;
    // After a power cut only the data can be believed, and nothing is wrong with the members.
    runtime.block_on(async { array.resync().await.map(drop) }).map_err(RaidError::Failed)?;
    let how = Repair::usual(repair, array.geometry().level());
    let found = runtime.block_on(array.scrub(how)).map_err(RaidError::Failed)?;
    let scrubbed = Scrub::of(&array, found);
    Done::left(&live, &array)?;
    Ok(scrubbed)
}

/// Makes an array clean that was not stopped.
pub fn stop(members: &[Place], permits: &Permits, course: &Course) -> Result<Done, RaidError> {
    let live = Live::start(&LiveOptions::default());
    let array = live.runtime().block_on(open(&live, members, permits, false, course))?;
    Done::stopped(&live, &array)
}
