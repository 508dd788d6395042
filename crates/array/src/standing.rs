//! Where each device stands in its array: which superblock decides, and who is current by it.
//!
//! The newest superblock decides, as it does in md (`analyze_sbs`): a device that is one event behind was cut off in
//! the middle of a record and lacks nothing that was acknowledged; one that is further behind, or is called failed, was
//! gone while others went on.
//!
//! md takes any of those with the most events. Here the power cut may leave a record on the one member that was lost
//! with the power, and the others then make one of the same number without it: of equally many events, those count that
//! none of them calls failed, and of these first one that itself calls another failed, which knows more. Members count
//! before all others, which a record reaches before them. Two that call each other failed each went on without the
//! other, and are refused, where md takes the one that it meets first.

use crate::md::{Features, MemberRole, Superblock};

/// What a device is to its array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The member in this place.
    Member(usize),
    /// What is to replace the member in this place.
    Replacing(usize),
    /// Its journal.
    Journal,
    /// A spare: it has nothing that could be stale.
    Spare,
    /// It was a member, or the journal, and the array went on without it.
    Stale,
}

impl Standing {
    /// Where the device with the superblock `it` stands, if the `newest` decides.
    pub fn of(it: &Superblock, newest: &Superblock) -> Standing {
        let fresh = it.events + 1 >= newest.events;
        match called(newest, it) {
            // A former member may have the number of a spare.
            MemberRole::Spare if it.role() == MemberRole::Spare => Standing::Spare,
            MemberRole::Journal if fresh && newest.features.has(Features::JOURNAL) => Standing::Journal,
            MemberRole::Active(place) if fresh && u32::from(place) < newest.members => {
                match it.features.has(Features::REPLACEMENT) {
                    true => Standing::Replacing(usize::from(place)),
                    false => Standing::Member(usize::from(place)),
                }
            }
            _ => Standing::Stale,
        }
    }
}

/// The superblock that decides. There is none of no devices.
pub fn newest<'s>(superblocks: &[&'s Superblock]) -> Option<&'s Superblock> {
    let alike = |it: &Superblock, other: &Superblock| other.events == it.events;
    let outlived = |it: &Superblock| superblocks.iter().any(|other| alike(it, other) && calls_failed(other, it));
    let outlives = |it: &Superblock| superblocks.iter().any(|other| alike(it, other) && calls_failed(it, other));
    let serves =
        |it: &Superblock| matches!(it.role(), MemberRole::Active(_)) && !it.features.has(Features::REPLACEMENT);
    superblocks.iter().copied().max_by_key(|it| (it.events, !outlived(it), outlives(it), serves(it)))
}

/// Two devices, by their place among these, that call each other failed although both went on: whom to believe is not
/// for us to say.
pub fn split_brain(superblocks: &[&Superblock]) -> Option<(usize, usize)> {
    // A number is given anew when nobody has it any more. What is said of it from then on is not said of the one that
    // had it before.
    let is_former = |it: &Superblock| {
        let is_later = |other: &&Superblock| other.member != it.member && other.events > it.events;
        superblocks.iter().any(|other| other.number == it.number && is_later(other))
    };
    let is_stale = |it: &Superblock| {
        is_former(it) || superblocks.iter().any(|other| calls_failed(other, it) && counts_on(it, other))
    };
    for (first, a) in superblocks.iter().enumerate() {
        for (second, b) in superblocks.iter().enumerate().skip(first + 1) {
            if calls_failed(a, b) && calls_failed(b, a) && !is_stale(a) && !is_stale(b) {
                return Some((first, second));
            }
        }
    }
    None
}

/// Which of the members in use, by their place among `current`, a device went on without, so that it may hold writes
/// that none of them knows of: those that it calls failed itself, if it counts on no other of them; all, if it has seen
/// more changes than they have (they are an older copy). One that counts on one of them was never used without that
/// one, and what was written with it is on the others or marked.
///
/// md asks only whether a device has missed no clearing of its bitmap (`super_1_validate`), and takes such a one back
/// as it is.
pub fn went_on_without(it: &Superblock, current: &[&Superblock]) -> Vec<usize> {
    if !matches!(it.role(), MemberRole::Active(_)) {
        return Vec::new();
    }
    // A record that the power cut met may be on this device alone; it changed nothing that was acknowledged.
    if current.iter().all(|other| it.events > other.events.saturating_add(1)) {
        return (0..current.len()).collect();
    }
    if current.iter().any(|other| counts_on(it, other)) {
        return Vec::new();
    }
    // Of a number behind its table, one given since, it says nothing.
    let says_failed = |other: &Superblock| it.roles.get(other.number as usize) == Some(&MemberRole::Faulty.number());
    (0..current.len()).filter(|index| says_failed(current[*index])).collect()
}

/// What `by` calls the device of `it`. Of a number that it does not have it knows only that no member has it.
fn called(by: &Superblock, it: &Superblock) -> MemberRole {
    by.roles.get(it.number as usize).map_or(MemberRole::Faulty, |role| MemberRole::from_number(*role))
}

fn calls_failed(by: &Superblock, it: &Superblock) -> bool {
    called(by, it) == MemberRole::Faulty
}

/// Who is called failed by a member that it counts on itself did not go on without that one: whatever it recorded last
/// alone was never acknowledged, and it is merely stale. Of a device that took a place since, or of a spare, it knows
/// nothing, and could do without the one that is to replace it, unless it knows nobody else in that place.
fn counts_on(it: &Superblock, other: &Superblock) -> bool {
    let role = called(it, other);
    let other_member = matches!(role, MemberRole::Active(_)) && role != it.role();
    let alone = it.roles.iter().filter(|number| **number == role.number()).count() == 1;
    other_member && role == other.role() && (alone || !other.features.has(Features::REPLACEMENT))
}
