//! Devices that went on without each other (a split brain), in words.
//!
//! Each half was used while the other was not there: a cable, a machine that was cut off, a start with too few of the
//! members. Each calls the other failed, and holds writes that the other lacks. Which to believe only their user knows,
//! so nothing is opened, and nothing is called clean or stale.

use std::fmt;

use array::md::{MemberRole, Superblock};
use array::standing::split_brain;

use crate::Place;
use crate::members::when;
use crate::upkeep::numbered;

/// What the halves say of each other.
pub(crate) struct Halves {
    /// Who believe the same, with what they say.
    halves: [(Vec<Place>, String); 2],
}

impl Halves {
    /// The two halves among the devices of one array, if they are.
    pub fn among<'p>(found: impl Iterator<Item = (&'p Place, &'p Superblock)>) -> Option<Halves> {
        let (places, superblocks): (Vec<&Place>, Vec<&Superblock>) = found.unzip();
        let (first, second) = split_brain(&superblocks)?;
        // The time is of no use where nobody recorded it, and both say when the array was made.
        let dated = superblocks[first].updated.seconds() != superblocks[second].updated.seconds();
        let is_of =
            |it: &Superblock, half: &Superblock| it.number == half.number || !(says(half, it) || says(it, half));
        let half = |of: usize, not: Option<usize>| {
            let with = |at: &usize| {
                is_of(superblocks[*at], superblocks[of])
                    && not.is_none_or(|not| !is_of(superblocks[*at], superblocks[not]))
            };
            let with: Vec<Place> = (0..places.len()).filter(with).map(|at| places[at].clone()).collect();
            (with, said(superblocks[of], dated))
        };
        Some(Halves { halves: [half(first, None), half(second, Some(first))] })
    }

    /// What a device says that is of one of the halves; `None` of others.
    pub fn said_by(&self, place: &Place) -> Option<&str> {
        let (_, said) = self.halves.iter().find(|(places, _)| places.contains(place))?;
        Some(said)
    }
}

/// Whether a device calls another failed, in so many words.
fn says(it: &Superblock, other: &Superblock) -> bool {
    it.roles.get(other.number as usize) == Some(&MemberRole::Faulty.number())
}

/// Who is failed by a device, and since when it says so.
fn said(it: &Superblock, dated: bool) -> String {
    let there = |member: u32| it.roles.contains(&MemberRole::Active(member as u16).number());
    let failed: Vec<usize> = (0..it.members).filter(|member| !there(*member)).map(|member| member as usize).collect();
    let at = if dated { format!(", the last of them at {}", when(it.updated)) } else { String::new() };
    format!("{} failed, after {} changes of the array{at}", numbered(&failed, " and "), it.events)
}

impl fmt::Display for Halves {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let list = |places: &[Place]| places.iter().map(Place::to_string).collect::<Vec<_>>().join(" and ");
        let words = |places: &[Place]| places.iter().map(Place::word).collect::<Vec<_>>().join(" ");
        let [(one, says), (other, against)] = &self.halves;
        let (first, second, device) = (list(one), list(other), words(&other[..1]));
        write!(
            f,
            "two halves went on without each other, and each may hold writes that the other lacks: {first} {} that {says}; {second} {} that {against}. \
             Give only the half to believe. To go on with {first} and lose what {second} {}: `arraylab array add --destroy-data --device {device} \
             --device {device} {}`{}; the other way round for the other",
            if one.len() == 1 { "says" } else { "say" },
            if other.len() == 1 { "says" } else { "say" },
            if other.len() == 1 { "holds" } else { "hold" },
            words(one),
            if other.len() == 1 { "" } else { ", and so on with each" },
        )
    }
}
