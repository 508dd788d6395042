//! Without redundancy: members one after the other (linear), or chunks in turn (level 0).
//!
//! Level 0 uses unequal members wholly: a first zone over all of them as far as the smallest reaches, then one over
//! those that are larger, and so on. Which member of a later zone a chunk goes to was changed by accident in Linux
//! 3.14: the *original* rule counts chunks from the start of the array, the *alternate* one from the start of the zone.
//! They differ in nothing else, and not at all for equal members; md refuses an array of several zones that does not
//! say which (feature bit 12).

use units::Bytes;

use super::{Place, Role};

/// How level 0 counts chunks in zones after the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Zones {
    /// From the start of the array: Linux before 3.14, and what mdadm makes today.
    #[default]
    Original,
    /// From the start of the zone: Linux 3.14 to 5.4.
    Alternate,
}

/// A run of the array over one set of members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Zone {
    /// Its first byte in the array.
    start: Bytes,
    /// How much of each of its members it covers.
    depth: Bytes,
    /// Where it begins on them.
    on_member: Bytes,
    members: Vec<usize>,
}

impl Zone {
    /// How far it reaches on a member, if it covers it.
    pub(super) fn used_of(&self, member: usize) -> Option<Bytes> {
        self.members.contains(&member).then(|| self.on_member + self.depth)
    }

    /// Whether chunks take turns in it.
    pub(super) fn has_several(&self) -> bool {
        self.members.len() > 1
    }

    pub(super) fn end(&self) -> Bytes {
        self.start + self.depth * self.members.len() as u64
    }
}

/// A zone per member.
pub(super) fn one_after_the_other(sizes: &[Bytes]) -> Vec<Zone> {
    let mut start = Bytes::ZERO;
    let zone = |(member, size): (usize, &Bytes)| {
        let zone = Zone { start, depth: *size, on_member: Bytes::ZERO, members: vec![member] };
        start = zone.end();
        zone
    };
    sizes.iter().enumerate().map(zone).collect()
}

/// A zone for each different size.
pub(super) fn striped(sizes: &[Bytes]) -> Vec<Zone> {
    let mut ends: Vec<Bytes> = sizes.to_vec();
    ends.sort_unstable();
    ends.dedup();
    let (mut start, mut on_member) = (Bytes::ZERO, Bytes::ZERO);
    let zone = |end: Bytes| {
        let members = (0..sizes.len()).filter(|member| sizes[*member] >= end).collect();
        let zone = Zone { start, depth: end - on_member, on_member, members };
        (start, on_member) = (zone.end(), end);
        zone
    };
    ends.into_iter().map(zone).collect()
}

fn zone_of(zones: &[Zone], address: Bytes) -> &Zone {
    &zones[zones.partition_point(|zone| zone.end() <= address)]
}

pub(super) fn in_line(zones: &[Zone], address: Bytes) -> Place {
    let zone = zone_of(zones, address);
    Place { member: zone.members[0], offset: address - zone.start, run: zone.end() - address }
}

pub(super) fn behind_line(zones: &[Zone], member: usize, offset: Bytes) -> Role {
    let zone = &zones[member];
    if offset < zone.depth { Role::Data(zone.start + offset) } else { Role::Unused }
}

pub(super) fn in_zone(zones: &[Zone], rule: Zones, chunk: Bytes, address: Bytes) -> Place {
    let zone = zone_of(zones, address);
    let (within, members) = (address % chunk, zone.members.len() as u64);
    let number = (address - zone.start) / chunk;
    Place {
        member: zone.members[((number + first_turn(zone, rule, chunk)) % members) as usize],
        offset: zone.on_member + chunk * (number / members) + within,
        run: chunk - within,
    }
}

pub(super) fn behind_zone(zones: &[Zone], rule: Zones, chunk: Bytes, member: usize, offset: Bytes) -> Role {
    let covers = |zone: &&Zone| zone.on_member <= offset && offset < zone.on_member + zone.depth;
    let Some(zone) = zones.iter().find(covers) else { return Role::Unused };
    let Some(index) = zone.members.iter().position(|other| *other == member) else { return Role::Unused };
    let members = zone.members.len() as u64;
    let row = (offset - zone.on_member) / chunk;
    let turn = (index as u64 + members - first_turn(zone, rule, chunk)) % members;
    Role::Data(zone.start + chunk * (row * members + turn) + offset % chunk)
}

/// The index, within the zone's members, of the one that holds its first chunk.
fn first_turn(zone: &Zone, rule: Zones, chunk: Bytes) -> u64 {
    match rule {
        Zones::Original => (zone.start / chunk) % zone.members.len() as u64,
        Zones::Alternate => 0,
    }
}
