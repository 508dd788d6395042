//! The devices that were given for an array: which of them it is opened without, and why.
//!
//! An array opens without what is damaged or stale, as if it had not been given. That is right for the array, and wrong for whoever gave
//! the device and hears nothing of it: so they are told beforehand. The rules are those by which the array opens ([`array::standing`]).

use array::md::{Features, MemberRole, Superblock, Uuid};
use array::standing::{Standing, newest};
use device::{Device, DeviceError};
use serde::Serialize;
use units::Bytes;
use uring::{Live, LiveOptions};

use super::halves::Halves;
use super::members::{superblock, superblock_in, to_read};
use super::{Place, RaidError};

/// A device that an array is opened without.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The device.
    pub path: Place,
    /// What is wrong with it, as the rest of a sentence.
    pub why: String,
}

/// Which of these devices their array will be opened without. An array that could not be opened at all for one of them is refused by its name.
pub fn left_out(places: &[Place]) -> Result<Vec<LeftOut>, RaidError> {
    let live = Live::start(&LiveOptions::default());
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    for path in places {
        // What cannot be opened for reading is refused when it is opened for writing, with the same words.
        let Ok(device) = live.runtime().block_on(to_read(&live, path)) else { continue };
        match live.runtime().block_on(superblock(path, &device)) {
            Ok(superblock) => found.push((path.clone(), superblock, device.shape().size)),
            // Too small for a superblock: the array is refused with it.
            Err(
                RaidError::NoRoomForSuperblock { .. } | RaidError::Device { error: DeviceError::Misaligned { .. }, .. },
            ) => {}
            Err(error) => left_out.push(LeftOut { path: path.clone(), why: reason(&error) }),
        }
    }
    of_one_array(found.iter().map(|(path, superblock, _)| (path, superblock.array)))?;
    let superblocks: Vec<&Superblock> = found.iter().map(|(_, superblock, _)| superblock).collect();
    if let Some(halves) = Halves::among(found.iter().map(|(path, superblock, _)| (path, superblock))) {
        return Err(RaidError::Halves(halves.to_string()));
    }
    let Some(newest) = newest(&superblocks) else { return Ok(left_out) };
    let is_there = |place: u16| {
        let has = |it: &&Superblock| match Standing::of(it, newest) {
            Standing::Member(member) | Standing::Replacing(member) => member == usize::from(place),
            _ => false,
        };
        superblocks.iter().any(has)
    };
    for (path, it, size) in &found {
        if Standing::of(it, newest) == Standing::Stale {
            let why = match it.role() {
                MemberRole::Journal => "it is a journal that failed, or is stale: what it holds counts no more",
                MemberRole::Active(place) if !is_there(place) => {
                    "it is stale: the array went on without it, and `arraylab array add` brings it back"
                }
                _ => "it is stale, and no member's place is left for it: `arraylab array add` makes it a spare",
            };
            let why = why.to_owned();
            left_out.push(LeftOut { path: path.clone(), why });
        } else if let Some(needed) = shortfall(it, *size) {
            let (place, data_offset) = (path.clone(), it.data_offset);
            return Err(RaidError::MemberTooSmall { place, size: *size, data_offset, needed });
        }
    }
    Ok(left_out)
}

/// Whether a device is a member, or the journal, of the array that these are of, as current as they are, and not about to be filled: what is on it is in use, and
/// would be filled anew. (With a bitmap it would come back as it is.)
pub fn is_in_use(members: &[Place], device: &Place) -> bool {
    let live = Live::start(&LiveOptions::default());
    let Some(own) = superblock_in(&live, device) else { return false };
    // What it says itself of who is in use is no argument: it may have gone on alone.
    let others = members.iter().filter_map(|place| superblock_in(&live, place)).filter(|it| it.array == own.array);
    let others: Vec<Superblock> = others.collect();
    let filled = !own.features.has(Features::RECOVERY);
    let as_it_is = own.features.has(Features::BITMAP) && !own.features.has(Features::BAD_BLOCKS);
    let standing = newest(&others.iter().collect::<Vec<_>>()).map(|newest| Standing::of(&own, newest));
    filled && !as_it_is && matches!(standing, Some(Standing::Member(_) | Standing::Journal))
}

/// Why a device has nothing to say, without its name.
pub(super) fn reason(error: &RaidError) -> String {
    match error {
        RaidError::Superblock { error, .. } => error.to_string(),
        RaidError::NoRoomForSuperblock { size, .. } => {
            format!("it holds {size:#}, which is too small for a member of an array")
        }
        RaidError::Device { error, .. } => format!("it cannot be read: {error}"),
        error => error.to_string(),
    }
}

/// Refuses devices of several arrays. The array is the one that most of them belong to; of equally many, that of the first.
pub(super) fn of_one_array<'p>(of: impl Iterator<Item = (&'p Place, Uuid)> + Clone) -> Result<(), RaidError> {
    let count = |array: Uuid| of.clone().filter(|(_, other)| *other == array).count();
    // Of equals `max_by_key` gives the last.
    let all: Vec<(&Place, Uuid)> = of.clone().collect();
    let Some((like, wanted)) = all.iter().rev().max_by_key(|(_, array)| count(*array)) else { return Ok(()) };
    match all.iter().find(|(_, array)| array != wanted) {
        Some((place, found)) => {
            Err(RaidError::Foreign { place: (*place).clone(), found: *found, like: (*like).clone(), wanted: *wanted })
        }
        None => Ok(()),
    }
}

/// What the data of a member need behind their beginning, if the device has less than that.
pub(super) fn shortfall(it: &Superblock, size: Bytes) -> Option<Bytes> {
    let needed = if it.size.is_zero() { it.data_size } else { it.size };
    let is_member = matches!(it.role(), MemberRole::Active(_));
    (is_member && size < it.data_offset + needed).then_some(needed)
}
