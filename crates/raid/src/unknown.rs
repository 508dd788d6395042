//! A device that is no member of version 1.2: what it is instead, and what to do with it.
//!
//! Whoever looks at a disk wants to know what it holds. What is recognised is what the guard recognises before it
//! writes ([`host::signature`]), and, on a disk with a partition table, a member in one of its partitions. Of several
//! formats the first in this order decides what to do: members of other arrays (firmware and md 0.90 and 1.0 keep their
//! marks at the end, so that what a mirror stores shows at the beginning, too), partition tables, encryption, volumes,
//! file systems.

use std::io;

use array::md::{SUPERBLOCK_AT, SUPERBLOCK_SIZE, Superblock, SuperblockError};
use device::{AnyDevice, Buffer, Device, Request};
use host::partition::{Partition, partitions};
use host::signature::{Content, Signature, recognise};
use serde::Serialize;
use units::Bytes;
use uring::Live;

use crate::Place;

/// A device without a superblock that is understood here.
#[derive(Debug, Clone, Serialize)]
pub struct Unknown {
    /// Where it was read.
    pub path: Place,
    /// What was recognised on it, by name: `Linux md 0.90`, `DDF RAID`, `LUKS`.
    pub formats: Vec<String>,
    /// What is wrong with it as a member.
    pub error: String,
    /// What to do next.
    pub next: String,
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}: {}\n  next: {}", self.path, self.error, self.next)
    }
}

/// Looks at a device that has no superblock of version 1.2.
pub(crate) fn look(live: &Live, place: &Place, device: &AnyDevice) -> io::Result<Unknown> {
    let (size, block) = (device.shape().size, device.shape().logical_block);
    let read = |at: Bytes, into: &mut [u8]| {
        let end = at + Bytes::new(into.len() as u64);
        let from = at.round_down(block);
        let whole = Buffer::zeroed(end.round_up(block).min(size) - from);
        let reply = live.runtime().block_on(device.submit(Request::read(from, whole)));
        reply.result.map_err(io::Error::other)?;
        let found = reply.buffer.expect("a read's buffer comes back");
        let start = (at - from).as_usize();
        into.copy_from_slice(&found.bytes().expect("it is real")[start..start + into.len()]);
        Ok(())
    };
    let mut found = recognise(size, read)?;
    found.sort_by_key(order);
    let inside = match found.iter().any(|it| it.content == Content::PartitionTable) {
        true => members_in(size, read)?,
        false => Vec::new(),
    };
    let (error, next) = match found.first() {
        Some(first) if first.content == Content::PartitionTable && !inside.is_empty() => in_partitions(place, &inside),
        Some(first) => described(place, first, &found),
        None => nothing(place, is_blank(size, read)?),
    };
    let formats = found.iter().map(|it| it.name.to_owned()).collect();
    Ok(Unknown { path: place.clone(), formats, error, next })
}

/// Whose word counts first.
fn order(it: &Signature) -> u8 {
    match it.content {
        Content::Raid => 0,
        Content::PartitionTable => 1,
        Content::Encryption => 2,
        Content::Volume => 3,
        Content::FileSystem | Content::Swap => 4,
        Content::Image => 5,
    }
}

/// The partitions that are members of version 1.2.
fn members_in(
    size: Bytes,
    mut read: impl FnMut(Bytes, &mut [u8]) -> io::Result<()>,
) -> io::Result<Vec<(Partition, Option<Superblock>)>> {
    let mut members = Vec::new();
    for partition in partitions(size, &mut read)? {
        let mut bytes = vec![0; SUPERBLOCK_SIZE.as_usize()];
        if partition.size < SUPERBLOCK_AT + SUPERBLOCK_SIZE {
            continue;
        }
        read(partition.start + SUPERBLOCK_AT, &mut bytes)?;
        match Superblock::parse(&bytes) {
            Ok(superblock) => members.push((partition, Some(superblock))),
            Err(SuperblockError::NoMagic { .. } | SuperblockError::Version { .. }) => {}
            // A member, if a damaged one.
            Err(_) => members.push((partition, None)),
        }
    }
    Ok(members)
}

/// What the kernel calls a partition of a disk.
fn partition_of(disk: &str, number: u32) -> String {
    let between = if disk.ends_with(|last: char| last.is_ascii_digit()) { "p" } else { "" };
    format!("{disk}{between}{number}")
}

fn in_partitions(place: &Place, inside: &[(Partition, Option<Superblock>)]) -> (String, String) {
    let numbers: Vec<String> = inside.iter().map(|(it, _)| it.number.to_string()).collect();
    let (partition, is, a_member) = match inside.len() {
        1 => ("partition", "is", "a member"),
        _ => ("partitions", "are", "members"),
    };
    let error = format!(
        "this is a whole disk with a partition table; its {partition} {} {is} {a_member} of a Linux md array",
        numbers.join(", ")
    );
    let is_device = place.path().is_some_and(|path| path.starts_with("/dev"));
    let named = |disk: &str| {
        let all = inside.iter().map(|(it, _)| host::shell::word(&partition_of(disk, it.number)));
        all.collect::<Vec<_>>().join(" ")
    };
    let next = match (is_device, place.path()) {
        (true, Some(path)) => format!("arraylab array examine {}", named(&path.to_string_lossy())),
        (_, Some(_)) => {
            let disk = format!("losetup --find --show --partscan {}", place.word());
            format!("{disk}; then, if that prints /dev/loop0: arraylab array examine {}", named("/dev/loop0"))
        }
        (_, None) => format!(
            "offer the partition itself as an export (nbdkit --filter=partition), and examine that; `nbdinfo {}` shows what there is",
            place.word()
        ),
    };
    (error, next)
}

/// What a recognised format is, and the command that goes on with it.
fn described(place: &Place, first: &Signature, all: &[Signature]) -> (String, String) {
    let what = match first.name {
        "Linux md 0.90" | "Linux md 1.0" | "Linux md 1.1" => {
            let version = first.name.trim_start_matches("Linux md ");
            format!(
                "its md superblock is of version {version}, and only 1.2 is understood here (it lies at {:#})",
                first.at
            )
        }
        "DDF RAID" => format!("it is a member of a DDF array (SNIA's format of firmware RAID; at {:#})", first.at),
        "Intel Matrix RAID" => format!("it is a member of an Intel Matrix RAID array (IMSM, VROC; at {:#})", first.at),
        _ => format!("it is no member of an array of version 1.2; it carries {first}"),
    };
    let others: Vec<String> = all.iter().skip(1).map(ToString::to_string).collect();
    let error = if others.is_empty() { what } else { format!("{what}; also {}", others.join(", ")) };
    let Some(path) = place.path() else {
        return (
            error,
            format!("`nbdinfo --content {}` looks at the export; use it with the tools of its format", place.word()),
        );
    };
    let word = host::shell::word(&path.to_string_lossy());
    let next = match first.name {
        "Linux md 0.90" | "Linux md 1.0" | "Linux md 1.1" => format!(
            "mdadm --examine {word}; mdadm --assemble --scan assembles the array. No tool converts it to 1.2: copy its contents to a new array"
        ),
        "DDF RAID" => format!("mdadm --examine {word}; mdadm --assemble --scan assembles the array"),
        "Intel Matrix RAID" => format!(
            "mdadm --examine {word}; mdadm --assemble --scan assembles the array (IMSM_NO_PLATFORM=1 before it, on a machine without Intel's firmware)"
        ),
        "Linux md 1.2" => format!("mdadm --examine {word}"),
        "DRBD" => format!("drbdmeta 0 v09 {word} internal dump-md"),
        "LVM2" => format!("pvs {word}"),
        "LUKS" => format!("cryptsetup luksDump {word}"),
        "BitLocker" => format!("cryptsetup bitlkDump {word}"),
        "ZFS" => format!("zdb -l {word}; zpool import lists its pool"),
        "btrfs" => format!("btrfs filesystem show {word}"),
        "bcache or bcachefs" => format!("bcache-super-show {word}"),
        "bcachefs" => format!("bcachefs show-super {word}"),
        _ => match first.content {
            Content::PartitionTable => {
                format!(
                    "fdisk --list {word} lists its partitions, none of which is a member of version 1.2; examine them"
                )
            }
            Content::FileSystem => format!("blkid --probe {word} describes it; mount it to see what it holds"),
            _ => format!("blkid --probe {word} describes it"),
        },
    };
    (error, next)
}

fn nothing(place: &Place, blank: bool) -> (String, String) {
    let error = match blank {
        true => "it has no md superblock, and begins and ends with zeroes: it is empty, or was wiped",
        false => "it has no md superblock, and nothing else is recognised on it",
    };
    let next = format!(
        "if it was a member, omit it: `arraylab array status` with the others says how the array is. `arraylab array add --destroy-data --device {} MEMBER...` makes it a member",
        place.word()
    );
    (error.to_owned(), next)
}

/// Whether the first and the last MiB are zeroes.
fn is_blank(size: Bytes, mut read: impl FnMut(Bytes, &mut [u8]) -> io::Result<()>) -> io::Result<bool> {
    let length = Bytes::mib(1).min(size.round_down(Bytes::SECTOR));
    let mut bytes = vec![0; length.as_usize()];
    for at in [Bytes::ZERO, (size - length).round_down(Bytes::SECTOR)] {
        read(at, &mut bytes)?;
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}
