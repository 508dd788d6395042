//! The devices that were given for an array: which of them it is opened without, and why, and which of its members were
//! not given.
//!
//! An array opens without what is damaged or stale, as if it had not been given. That is right for the array, and wrong
//! for whoever gave the device and hears nothing of it: so they are told beforehand. The rules are those by which the
//! array opens ([`array::standing`]).
//!
//! Nor does it mind a member that was not given, if it can do without. Where something may have been under way, the
//! others record at once that this one is missing, as anything may be read or computed in its place from then on. So
//! whoever has merely forgotten to name it is refused before, unless the command is for an array that lacks members.
//! (To take the record back when the command fails was rejected: what was replayed from the logs meanwhile, the member
//! has missed.)

use array::areas;
use array::creation::{self, Belonging, Disagreement, has_enough, is_same};
use array::md::{Features, MemberRole, Resync, Superblock, SuperblockError, Uuid};
use array::standing::{Standing, newest};
use device::{Device, DeviceError};
use serde::Serialize;
use units::Bytes;
use uring::{Live, LiveOptions};

use crate::halves::Halves;
use crate::members::{superblock, superblock_in, to_read, when};
use crate::upkeep::numbered;
use crate::{Place, RaidError};

/// A device that an array is opened without.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The device.
    pub path: Place,
    /// What is wrong with it, as the rest of a sentence.
    pub why: String,
}

/// What is to be known of the devices given for an array before it is opened.
pub struct Given {
    /// Those that it is opened without.
    pub left_out: Vec<LeftOut>,
    /// Members that nobody has named, by number, though the others count on them. A device that says nothing may be one
    /// of them.
    pub not_named: Vec<usize>,
    /// The first thing that its members record is that these are missing, and this is why.
    recorded: Option<&'static str>,
}

impl Given {
    /// An error if something would be recorded of members that nobody has named.
    pub fn is_enough(&self) -> Result<(), RaidError> {
        match self.recorded.filter(|_| !self.not_named.is_empty()) {
            Some(why) => Err(RaidError::NotNamed {
                members: numbered(&self.not_named, ", "),
                were: if self.not_named.len() == 1 { "was" } else { "were" },
                why,
            }),
            None => Ok(()),
        }
    }

    /// Of members that were not named, that the array is opened without them.
    pub fn without(&self) -> Option<String> {
        let are = match self.not_named.len() {
            0 => return None,
            1 => "is not among the devices named, and the array is opened without it",
            _ => "are not among the devices named, and the array is opened without them",
        };
        Some(format!("{} {are}", numbered(&self.not_named, ", ")))
    }
}

/// Looks at the devices given for an array, and `beside` them at what is to become part of it, and need not be named
/// twice. An array that could not be opened at all for one of them is refused by its name.
pub fn given(places: &[Place], beside: Option<&Place>) -> Result<Given, RaidError> {
    let live = Live::start(&LiveOptions::default());
    let (mut found, mut left_out, mut silent) = (Vec::new(), Vec::new(), 0);
    for path in places {
        // What cannot be opened for reading is refused when it is opened for writing, with the same words.
        let Ok(device) = live.runtime().block_on(to_read(&live, path)) else {
            silent += 1;
            continue;
        };
        match live.runtime().block_on(superblock(path, &device)) {
            Ok(superblock) => {
                let shape = device.shape();
                found.push((path.clone(), superblock, shape.size, shape.logical_block));
            }
            // Too small for a superblock: the array is refused with it.
            Err(
                RaidError::NoRoomForSuperblock { .. } | RaidError::Device { error: DeviceError::Misaligned { .. }, .. },
            ) => {}
            // Nor is a path written that does not say that it is a member's. What an export says its server knows.
            Err(RaidError::Superblock { place, error: error @ SuperblockError::NoMagic { .. } })
                if path.path().is_some() =>
            {
                return Err(RaidError::Blank { place, error });
            }
            Err(error @ RaidError::Superblock { error: SuperblockError::OtherVersion { .. }, .. })
                if path.path().is_some() =>
            {
                return Err(error);
            }
            Err(error) => left_out.push(LeftOut { path: path.clone(), why: reason(&error) }),
        }
    }
    silent += left_out.len();
    of_one_array(found.iter().map(|(path, superblock, ..)| (path, superblock.array)))?;
    let Belonging { foreign, .. } = of_one_creation(found.iter().map(|(path, superblock, ..)| (path, superblock)))?;
    let is_foreign = |index: &usize| foreign.contains(index);
    for index in &foreign {
        let (path, it, ..) = &found[*index];
        left_out.push(LeftOut { path: path.clone(), why: why_foreign(it) });
    }
    let found: Vec<_> =
        found.into_iter().enumerate().filter(|(index, _)| !is_foreign(index)).map(|(_, it)| it).collect();
    let superblocks: Vec<&Superblock> = found.iter().map(|(_, superblock, ..)| superblock).collect();
    if let Some(halves) = Halves::among(found.iter().map(|(path, superblock, ..)| (path, superblock))) {
        return Err(RaidError::Halves(halves.to_string()));
    }
    let Some(newest) = newest(&superblocks) else {
        return Ok(Given { left_out, not_named: Vec::new(), recorded: None });
    };
    for (path, it, size, block) in &found {
        if Standing::of(it, newest) == Standing::Stale {
            let why = match it.role() {
                MemberRole::Journal => "it is a journal that failed, or is stale: what it holds counts no more",
                MemberRole::Active(place) if !is_filled(place, &superblocks, newest) => {
                    "it is stale: the array went on without it, and `arraylab array add` brings it back"
                }
                _ => "it is stale, and no member's place is left for it: `arraylab array add` makes it a spare",
            };
            let why = why.to_owned();
            left_out.push(LeftOut { path: path.clone(), why });
        } else if let Some(needed) = shortfall(it, *size) {
            let (place, data_offset) = (path.clone(), it.data_offset);
            return Err(RaidError::MemberTooSmall { place, size: *size, data_offset, needed });
        } else {
            areas::check(it, *size, *block).map_err(|error| RaidError::Misplaced { place: path.clone(), error })?;
        }
    }
    let beside = beside.and_then(|place| superblock_in(&live, place)).filter(|it| is_same(it, newest));
    let mut not_named = not_named(&superblocks, beside.as_ref(), newest);
    if not_named.len() <= silent {
        not_named.clear();
    }
    Ok(Given { left_out, recorded: records(&superblocks, newest), not_named })
}

/// Whether a device has the place, or is to have it.
fn is_filled(place: u16, superblocks: &[&Superblock], newest: &Superblock) -> bool {
    let has = |it: &&Superblock| match Standing::of(it, newest) {
        Standing::Member(member) | Standing::Replacing(member) => member == usize::from(place),
        _ => false,
    };
    superblocks.iter().any(has)
}

/// The places in which the newest superblock counts on a device that is not among these. Who is to replace another is
/// none that it counts on.
fn not_named(superblocks: &[&Superblock], beside: Option<&Superblock>, newest: &Superblock) -> Vec<usize> {
    let named = |number: usize| {
        let is_it = |it: &&Superblock| it.number as usize == number && !it.features.has(Features::REPLACEMENT);
        superblocks.iter().copied().chain(beside).any(|it| is_it(&it))
    };
    let with_role = |place: u32| {
        let role = MemberRole::Active(place as u16).number();
        newest.roles.iter().enumerate().filter(move |(_, other)| **other == role).map(|(number, _)| number)
    };
    let counted_on = |place: &u32| with_role(*place).next().is_some() && !with_role(*place).any(named);
    (0..newest.members).filter(counted_on).map(|place| place as usize).collect()
}

/// Why an array records at once who is missing when it is opened, if it does, and can be opened.
fn records(superblocks: &[&Superblock], newest: &Superblock) -> Option<&'static str> {
    if !has_enough(superblocks) {
        return None;
    }
    let is_member = |it: &&&Superblock| matches!(Standing::of(it, newest), Standing::Member(_));
    let mut members = superblocks.iter().filter(is_member);
    match newest.features.has(Features::JOURNAL) {
        true => Some("has a journal, which may hold writes"),
        false => members.any(|it| it.resync != Resync::Clean).then_some("was not stopped"),
    }
}

/// Whether a device is a member, or the journal, of the array that these are of, as current as they are, and not about
/// to be filled: what is on it is in use, and would be filled anew. (With a bitmap it would come back as it is.)
pub fn is_in_use(members: &[Place], device: &Place) -> bool {
    let live = Live::start(&LiveOptions::default());
    let Some(own) = superblock_in(&live, device) else { return false };
    // What it says itself of who is in use is no argument: it may have gone on alone.
    let others = members.iter().filter_map(|place| superblock_in(&live, place)).filter(|it| is_same(it, &own));
    let others: Vec<Superblock> = others.collect();
    let filled = !own.features.has(Features::RECOVERY);
    let as_it_is = own.features.has(Features::BITMAP) && !own.features.has(Features::BAD_BLOCKS);
    let standing = newest(&others.iter().collect::<Vec<_>>()).map(|newest| Standing::of(&own, newest));
    filled && !as_it_is && matches!(standing, Some(Standing::Member(_) | Standing::Journal))
}

/// Why a device has nothing to say, without its name.
pub(crate) fn reason(error: &RaidError) -> String {
    match error {
        RaidError::Superblock { error, .. } => error.to_string(),
        RaidError::NoRoomForSuperblock { size, .. } => {
            format!("it holds {size:#}, which is too small for a member of an array")
        }
        RaidError::Device { error, .. } => format!("it cannot be read: {error}"),
        RaidError::Unknown(unknown) => unknown.error.clone(),
        RaidError::Path(uring::OpenError::NotFound { .. }) => "there is no such file or device".into(),
        error => error.to_string(),
    }
}

/// Refuses devices of several arrays. The array is the one that most of them belong to; of equally many, that of the
/// first.
pub(crate) fn of_one_array<'p>(of: impl Iterator<Item = (&'p Place, Uuid)> + Clone) -> Result<(), RaidError> {
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

/// Sorts devices of one array by their creations; refuses those of which the user has to choose, by name.
pub(crate) fn of_one_creation<'p>(
    of: impl Iterator<Item = (&'p Place, &'p Superblock)>,
) -> Result<Belonging, RaidError> {
    let (places, superblocks): (Vec<&Place>, Vec<&Superblock>) = of.unzip();
    let named = |said: Disagreement| RaidError::Disagree(said.text(|index| places[index].to_string(), when));
    creation::sort(&superblocks).map_err(named)
}

/// What devices that say that they are of one array disagree about, if they do.
pub fn disagreement(places: &[Place]) -> Option<String> {
    let live = Live::start(&LiveOptions::default());
    let read = |place: &Place| Some((place.clone(), superblock_in(&live, place)?));
    let found: Vec<(Place, Superblock)> = places.iter().filter_map(read).collect();
    let first = found.first()?.1.array;
    if found.iter().any(|(_, it)| it.array != first) {
        return None;
    }
    match of_one_creation(found.iter().map(|(place, it)| (place, it))) {
        Err(error) => Some(error.to_string()),
        Ok(Belonging { foreign, .. }) => {
            let one = |index: &usize| format!("{}: {}", found[*index].0, why_foreign(&found[*index].1));
            (!foreign.is_empty()).then(|| foreign.iter().map(one).collect::<Vec<_>>().join("; "))
        }
    }
}

/// Why a device of an earlier creation is not used.
pub(crate) fn why_foreign(it: &Superblock) -> String {
    format!(
        "it is foreign: it belongs to an earlier creation of the array, of {}, and is neither read nor written; \
         `arraylab array add --destroy-data` makes a spare of it, and what it holds is lost",
        when(it.created)
    )
}

/// What the data of a member need behind their beginning, if the device has less than that.
pub(crate) fn shortfall(it: &Superblock, size: Bytes) -> Option<Bytes> {
    let needed = if it.size.is_zero() { it.data_size } else { it.size };
    let is_member = matches!(it.role(), MemberRole::Active(_));
    (is_member && size < it.data_offset + needed).then_some(needed)
}
