//! Which superblocks belong to one creation of an array, and what to do with the others.
//!
//! `mdadm --create --uuid` makes an array anew under an old UUID, and a disk that was away then still carries the
//! superblock of before. Its data are laid out for an array that exists no more, and its number of events counts
//! something else: events say who is fresh only within one creation. So devices are grouped by the creation time first,
//! and events are compared within a group. md does the same (`compare_super1` in mdadm's super1.c compares UUID,
//! creation time, level, layout, size, chunk and number of members, and refuses to assemble what differs).
//!
//! | the given devices are of | then |
//! |---|---|
//! | one creation | they are the array |
//! | several, of which only the latest has enough members to open | the array is that one; the others are foreign: not used, not written |
//! | several, otherwise | refused: the user names the devices of one of them |
//!
//! An older creation that would open, beside a few devices of a later one, is refused as well: the later one may be a
//! slip, or the array that counts. Within a creation level, layout, chunk and number of members are the same on every
//! device, and so is the size used of each, but for two cases: a device that was away while the array grew, which is
//! stale, and a growth whose record a power cut met, which is one event ahead on some of the members.

use std::collections::BTreeMap;
use std::fmt;

use units::Bytes;

use crate::geometry::Level;
use crate::md::{Features, Numbers, Resync, Stamp, Superblock};
use crate::open::geometry_of;
use crate::standing::{Standing, newest};

/// Devices, by their place among those that were given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Belonging {
    /// Those of the array.
    pub own: Vec<usize>,
    /// Those of an earlier creation of it.
    pub foreign: Vec<usize>,
}

/// What a device says of itself where creations differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Its place among the devices that were given.
    pub device: usize,
    /// How many changes of the array it has seen.
    pub events: u64,
    /// When it was last written.
    pub updated: Stamp,
}

/// The devices of one creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Creation {
    /// When that was.
    pub created: Stamp,
    /// Whether they are enough to open the array.
    pub opens: bool,
    /// The devices.
    pub devices: Vec<Said>,
}

/// Why devices are not one array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disagreement {
    /// They were made members at different times, and it is not for us to say which creation counts. Earliest first.
    Created(Vec<Creation>),
    /// They say different things of one array: the field, and for each value who has it.
    Field {
        /// What they disagree about.
        field: &'static str,
        /// Its values, for people.
        values: Vec<(String, Vec<usize>)>,
    },
}

/// Sorts the superblocks of devices of one array UUID.
pub fn sort(superblocks: &[&Superblock]) -> Result<Belonging, Disagreement> {
    let mut groups: BTreeMap<(u64, u64), Vec<usize>> = BTreeMap::new();
    for (index, it) in superblocks.iter().enumerate() {
        groups.entry((it.created.seconds(), it.created.0)).or_default().push(index);
    }
    let of = |group: &[usize]| -> Vec<&Superblock> { group.iter().map(|index| superblocks[*index]).collect() };
    let opens: Vec<bool> = groups.values().map(|group| has_enough(&of(group))).collect();
    let clear = match opens.split_last() {
        Some((latest, others)) => others.is_empty() || (*latest && !others.contains(&true)),
        None => return Ok(Belonging::default()),
    };
    if !clear {
        let said = |index: &usize| {
            let it = superblocks[*index];
            Said { device: *index, events: it.events, updated: it.updated }
        };
        let creation = |(group, opens): (&Vec<usize>, bool)| Creation {
            created: superblocks[group[0]].created,
            opens,
            devices: group.iter().map(said).collect(),
        };
        return Err(Disagreement::Created(groups.values().zip(opens).map(creation).collect()));
    }
    let (_, own) = groups.pop_last().expect("there is a device");
    agree(superblocks, &own)?;
    let mut foreign: Vec<usize> = groups.into_values().flatten().collect();
    foreign.sort_unstable();
    Ok(Belonging { own, foreign })
}

/// Whether a device says that it is of the same array as another, of the same creation and laid out alike. How far it
/// has grown is not asked.
pub fn is_same(it: &Superblock, other: &Superblock) -> bool {
    it.array == other.array && it.created == other.created && shape(it) == shape(other)
}

fn shape(it: &Superblock) -> (i32, i32, Bytes, u32) {
    (it.level, it.layout, it.chunk, it.members)
}

/// Whether these superblocks of one creation are of enough members to open the array.
pub fn has_enough(superblocks: &[&Superblock]) -> bool {
    let Some(newest) = newest(superblocks) else { return false };
    let mut members: Vec<Option<&Superblock>> = vec![None; newest.members as usize];
    let mut replacing = Vec::new();
    for it in superblocks {
        match Standing::of(it, newest) {
            Standing::Member(place) => members[place] = Some(it),
            // It takes the place of a member that is gone.
            Standing::Replacing(place) => replacing.push((place, *it)),
            Standing::Journal | Standing::Spare | Standing::Stale => {}
        }
    }
    replacing.into_iter().for_each(|(place, it)| _ = members[place].get_or_insert(it));
    let used = |it: &Superblock| if it.size.is_zero() { it.data_size } else { it.size };
    let sizes: Vec<Bytes> = members.iter().map(|member| used(member.unwrap_or(newest))).collect();
    geometry_of(newest, &sizes).is_ok_and(|geometry| geometry.survives(|place| members[place].is_none()))
}

/// Refuses devices of one creation that disagree about what was created.
fn agree(superblocks: &[&Superblock], own: &[usize]) -> Result<(), Disagreement> {
    type Value = fn(&Superblock) -> String;
    // A chunk has no meaning without chunks, nor a layout at level 1: what is there nobody reads.
    let fields: [(&'static str, Value); 4] = [
        ("level", level),
        ("number of members", |it| it.members.to_string()),
        ("layout", |it| it.layout.to_string()),
        ("chunk", |it| format!("{:#}", it.chunk)),
    ];
    for (field, value) in fields {
        let values = by_value(own.iter().map(|index| (*index, value(superblocks[*index]))));
        if values.len() > 1 {
            return Err(Disagreement::Field { field, values });
        }
    }
    let all: Vec<&Superblock> = own.iter().map(|index| superblocks[*index]).collect();
    let Some(newest) = newest(&all) else { return Ok(()) };
    let of = |index: usize| superblocks[index];
    // One that was away while the array grew is stale, or a spare that was not told.
    let counts = |index: &&usize| {
        of(**index).events + 1 >= newest.events && Standing::of(of(**index), newest) != Standing::Stale
    };
    let sized: Vec<usize> = own.iter().filter(counts).copied().collect();
    let (Some(least), Some(most)) =
        (sized.iter().map(|index| of(*index).size).min(), sized.iter().map(|index| of(*index).size).max())
    else {
        return Ok(());
    };
    let is_half_met = sized.iter().all(|index| match of(*index).size {
        size if size == most => of(*index).events == newest.events,
        size => size == least && of(*index).events + 1 == newest.events,
    });
    // What opened the array then may have begun to say the old size again, under the same number of events. A record of
    // growth says from where the new rows are not in sync, which is the size before.
    let says_growth = |index: &usize| of(*index).size == least || of(*index).resync == Resync::From(least);
    if least != most && !is_half_met && !sized.iter().all(says_growth) {
        let values = by_value(sized.iter().map(|index| (*index, format!("{:#}", of(*index).size))));
        return Err(Disagreement::Field { field: "size used of each member", values });
    }
    // A bitmap has one place on all members. (One event behind it may be where it was before the settings changed.)
    let is_newest = |index: &&usize| of(**index).events == newest.events;
    let marked = sized.iter().filter(is_newest).filter(|index| of(**index).features.has(Features::BITMAP));
    let values = by_value(marked.map(|index| (*index, format!("{} sectors", of(*index).bitmap_offset))));
    if values.len() > 1 {
        return Err(Disagreement::Field { field: "bitmap_offset", values });
    }
    Ok(())
}

fn level(it: &Superblock) -> String {
    match (Numbers { level: it.level, layout: it.layout }).level() {
        Ok(Level::Linear) => "linear".to_owned(),
        _ => it.level.to_string(),
    }
}

/// Who has which value, in the order in which they were met.
fn by_value(said: impl Iterator<Item = (usize, String)>) -> Vec<(String, Vec<usize>)> {
    let mut values: Vec<(String, Vec<usize>)> = Vec::new();
    for (index, value) in said {
        match values.iter_mut().find(|(other, _)| *other == value) {
            Some((_, who)) => who.push(index),
            None => values.push((value, vec![index])),
        }
    }
    values
}

impl Disagreement {
    /// The same of devices that have other places among those that were `given`.
    pub(crate) fn of_given(self, given: &[usize]) -> Disagreement {
        match self {
            Disagreement::Created(mut creations) => {
                let said = creations.iter_mut().flat_map(|creation| &mut creation.devices);
                said.for_each(|said| said.device = given[said.device]);
                Disagreement::Created(creations)
            }
            Disagreement::Field { field, mut values } => {
                let devices = values.iter_mut().flat_map(|(_, devices)| devices);
                devices.for_each(|device| *device = given[*device]);
                Disagreement::Field { field, values }
            }
        }
    }

    /// In words: what devices are called, and when something was, says the caller.
    pub fn text(&self, name: impl Fn(usize) -> String, when: impl Fn(Stamp) -> String) -> String {
        let list = |devices: &[usize]| devices.iter().map(|it| name(*it)).collect::<Vec<_>>().join(", ");
        match self {
            Disagreement::Created(creations) => {
                let of = |creation: &Creation| {
                    let said = |it: &Said| {
                        format!("{} ({} events, last written {})", name(it.device), it.events, when(it.updated))
                    };
                    let devices: Vec<String> = creation.devices.iter().map(said).collect();
                    let enough = if creation.opens { "enough to open it" } else { "too few to open it" };
                    format!("created {}: {}: {enough}", when(creation.created), devices.join(", "))
                };
                format!(
                    "these devices disagree about the array's creation time, and events tell nothing across two creations. {}. Give only the devices of one \
                     creation; `arraylab array examine` shows what each of them says",
                    creations.iter().map(of).collect::<Vec<_>>().join("; ")
                )
            }
            Disagreement::Field { field, values } => {
                let of = |(value, devices): &(String, Vec<usize>)| format!("{value} on {}", list(devices));
                format!(
                    "these devices disagree about the array's {field}: {}. Omit those that are wrong; `arraylab array examine` shows what each of them says",
                    values.iter().map(of).collect::<Vec<_>>().join("; ")
                )
            }
        }
    }
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let when = |stamp: Stamp| format!("{} s after 1970 began", stamp.seconds());
        f.write_str(&self.text(|index| format!("device {index}"), when))
    }
}
