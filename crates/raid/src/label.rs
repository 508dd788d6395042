//! How a member on another machine is recognised when it is connected again: by its superblock.
//!
//! What must be there is what was read at first, or written last ([`evidence`](device::evidence)); here is only said,
//! for people, what differs when it is not. The order is that of how far apart two devices are: no superblock, another
//! array, the same name made anew, another member, another time.

use std::ops::Range;

use array::md::{SUPERBLOCK_AT, SUPERBLOCK_SIZE, Superblock};
use device::evidence::Label;
use units::Bytes;

use crate::members::when;

/// The superblock of a member of an array.
pub(crate) struct MemberLabel;

impl Label for MemberLabel {
    fn range(&self) -> Range<Bytes> {
        SUPERBLOCK_AT..SUPERBLOCK_AT + SUPERBLOCK_SIZE
    }

    fn difference(&self, known: &[u8], found: &[u8]) -> String {
        match (Superblock::parse(known), Superblock::parse(found)) {
            (Err(_), Ok(found)) => format!("it has become a member of array {}", found.array),
            (Err(_), Err(_)) => "what lies where members have their superblock is not what was there".into(),
            (Ok(_), Err(error)) => format!("its superblock is not there ({error})"),
            (Ok(known), Ok(found)) => between(&known, &found),
        }
    }
}

/// What differs between what a device must say and what it says.
fn between(known: &Superblock, found: &Superblock) -> String {
    if known.array != found.array {
        return format!("it belongs to array {}, not {}", found.array, known.array);
    }
    if known.created != found.created {
        return format!("its array was created at {}, not {}", when(found.created), when(known.created));
    }
    if known.member != found.member || known.number != found.number {
        let (is, was) = (format!("{} (number {})", found.member, found.number), known.member);
        return format!("it is device {is} of the array, not {was} (number {})", known.number);
    }
    if found.events < known.events {
        return format!("it is an older copy: its events are {}, not {}", found.events, known.events);
    }
    if found.events > known.events {
        return format!("another program wrote its superblock: its events are {}, not {}", found.events, known.events);
    }
    "its superblock is not the one that was written last".into()
}

#[cfg(test)]
mod tests {
    use array::geometry::Level;
    use array::md::{Consistency, NewArray, NewMember, Stamp, Uuid, create};

    use super::*;

    #[test]
    fn what_differs_is_named_from_the_array_down_to_the_events() {
        let new = NewArray {
            level: Level::Raid1,
            chunk: Bytes::ZERO,
            name: "it".into(),
            array: Uuid([1; 16]),
            now: Stamp(1),
            consistency: Consistency::Resync,
            clean: true,
        };
        let members = [2, 3].map(|member| NewMember { size: Bytes::mib(64), member: Uuid([member; 16]) });
        let (superblocks, _) = create(&new, &members).unwrap();
        let one = superblocks[0].clone();
        let said = |found: Superblock| MemberLabel.difference(&one.to_bytes(), &found.to_bytes());
        let starts = |found: Superblock, with: &str| assert!(said(found.clone()).starts_with(with), "{}", said(found));
        starts(Superblock { array: Uuid([7; 16]), ..one.clone() }, "it belongs to array 07070707");
        starts(Superblock { created: Stamp(99), ..one.clone() }, "its array was created at 1970-01-01T00:01:39Z, not");
        starts(superblocks[1].clone(), "it is device 03030303");
        starts(Superblock { events: one.events + 4, ..one.clone() }, "another program wrote its superblock");
        let newer = Superblock { events: 9, ..one.clone() };
        let older = Superblock { events: 4, ..one.clone() };
        let said = MemberLabel.difference(&newer.to_bytes(), &older.to_bytes());
        assert_eq!(said, "it is an older copy: its events are 4, not 9");
        let said = MemberLabel.difference(&one.to_bytes(), &[0; 4096]);
        assert!(said.starts_with("its superblock is not there ("), "{said}");
    }
}
