//! Does a device carry data? Reads the places where file systems, partition tables, arrays and volume managers say so.
//!
//! This is what stands between a benchmark and somebody's data, so it errs on one side: a magic number alone counts,
//! without the checksum behind it, as a damaged superblock is still a superblock of somebody's. What has no magic
//! number (a raw database, plain dm-crypt, random bytes) cannot be recognised, and [`crate::guard`] asks for consent
//! before any writing.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use serde::Serialize;
use units::Bytes;

pub use crate::magic::{Content, MAGICS, Magic, Place};

/// Something that was recognised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Signature {
    /// The name of the format.
    pub name: &'static str,
    /// What it is.
    pub content: Content,
    /// Where it was recognised.
    pub at: Bytes,
}

/// `an XFS file system (at 0 B)`, without the article.
impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let what = match self.content {
            Content::FileSystem => " file system",
            Content::PartitionTable if !self.name.ends_with("label") && !self.name.ends_with("map") => {
                " partition table"
            }
            Content::Raid => " array member",
            Content::Volume => " volume",
            Content::Encryption => " encrypted volume",
            Content::Swap | Content::Image | Content::PartitionTable => "",
        };
        write!(f, "{}{what} (at {:#})", self.name, self.at)
    }
}

/// What is recognised on a device or in a file of `size`, each format once, by the first place where it shows.
///
/// `read_at` fills its buffer from the address, which is aligned to 64 KiB and whose end is never past `size`. It is
/// called for about twenty places; one that fails ends the search, as an unread device is not a device without data.
pub fn recognise(size: Bytes, read_at: impl FnMut(Bytes, &mut [u8]) -> io::Result<()>) -> io::Result<Vec<Signature>> {
    let mut pages = Pages { size, read_at, pages: BTreeMap::new() };
    let mut found: Vec<Signature> = Vec::new();
    let mut note = |name: &'static str, content: Content, at: Bytes| {
        if !found.iter().any(|signature| signature.name == name) {
            found.push(Signature { name, content, at });
        }
    };
    for magic in MAGICS {
        let Some(at) = magic.place.on(size) else { continue };
        if pages.get(at, magic.bytes.len())?.is_some_and(|bytes| bytes == magic.bytes) {
            note(magic.name, magic.content, at);
        }
    }
    if let Some(at) = zfs(&mut pages)? {
        note("ZFS", Content::Volume, at);
    }
    if let Some(sector) = pages.get(Bytes::ZERO, 512)?
        && let Some((name, content)) = boot_sector(&sector)
        // A disk with GPT has an MBR that only says so; NTFS and exFAT have a boot sector of the same form as FAT.
        && !found.iter().any(|other| matches!(other.name, "GPT" | "NTFS" | "exFAT" | "BitLocker"))
    {
        found.push(Signature { name, content, at: Bytes::ZERO });
    }
    Ok(found)
}

/// The 128 slots for uberblocks in each of four labels, two at the start, two at the end (OpenZFS, "ZFS On-Disk
/// Specification", chapter 1). One magic number is enough: it is eight bytes long.
fn zfs<R: FnMut(Bytes, &mut [u8]) -> io::Result<()>>(pages: &mut Pages<R>) -> io::Result<Option<Bytes>> {
    const LABEL: Bytes = Bytes::kib(256);
    const MAGIC: u64 = 0x00ba_b10c;
    let end = pages.size.round_down(LABEL);
    // The smallest device that a pool accepts.
    if end < Bytes::mib(64) {
        return Ok(None);
    }
    for label in [Bytes::ZERO, LABEL, end - LABEL * 2, end - LABEL] {
        for slot in 0..128 {
            let at = label + Bytes::kib(128 + slot);
            let Some(bytes) = pages.get(at, 8)? else { continue };
            if bytes == MAGIC.to_le_bytes() || bytes == MAGIC.to_be_bytes() {
                return Ok(Some(at));
            }
        }
    }
    Ok(None)
}

/// What the first sector is, if it ends as a boot sector does.
fn boot_sector(sector: &[u8]) -> Option<(&'static str, Content)> {
    assert_eq!(sector.len(), 512, "a boot sector is one sector");
    if sector[510..] != [0x55, 0xaa] {
        return None;
    }
    if is_fat(sector) {
        return Some(("FAT", Content::FileSystem));
    }
    // A partition entry: a flag that is 0x00 or 0x80, a type, and a length; there are four from byte 446.
    let entries = sector[446..510].chunks_exact(16);
    let is_partition = |entry: &[u8]| entry[0] & 0x7f == 0 && entry[4] != 0 && entry[12..16] != [0; 4];
    if entries.clone().any(is_partition) {
        return Some(("MBR", Content::PartitionTable));
    }
    Some(("boot sector or empty MBR", Content::Image))
}

/// The parameter block of FAT (Microsoft, "FAT: General Overview of On-Disk Format", 1.03): its type string is for
/// information only, so the block itself is looked at, as drivers do.
fn is_fat(sector: &[u8]) -> bool {
    let word = |at: usize| u16::from_le_bytes([sector[at], sector[at + 1]]);
    let jumps = sector[0] == 0xe9 || (sector[0] == 0xeb && sector[2] == 0x90);
    let bytes_per_sector = matches!(word(11), 512 | 1024 | 2048 | 4096);
    let sectors_per_cluster = sector[13].is_power_of_two();
    let reserved_sectors = word(14) > 0;
    let copies = (1..=2).contains(&sector[16]);
    let media = sector[21] == 0xf0 || sector[21] >= 0xf8;
    jumps && bytes_per_sector && sectors_per_cluster && reserved_sectors && copies && media
}

/// What was read, in pages, as many formats look at the same ones.
struct Pages<R> {
    size: Bytes,
    read_at: R,
    pages: BTreeMap<Bytes, Vec<u8>>,
}

impl<R: FnMut(Bytes, &mut [u8]) -> io::Result<()>> Pages<R> {
    const PAGE: Bytes = Bytes::kib(64);

    /// `length` bytes at `at`; none if the device ends before.
    fn get(&mut self, at: Bytes, length: usize) -> io::Result<Option<Vec<u8>>> {
        let end = at + Bytes::new(length as u64);
        if end > self.size {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(length);
        let mut here = at;
        while here < end {
            let page = self.page(here.round_down(Self::PAGE))?;
            let from = (here % Self::PAGE).as_usize();
            let until = page.len().min(from + (end - here).as_usize());
            bytes.extend_from_slice(&page[from..until]);
            here += Bytes::new((until - from) as u64);
        }
        assert_eq!(bytes.len(), length, "what lies inside the device is read whole");
        Ok(Some(bytes))
    }

    fn page(&mut self, start: Bytes) -> io::Result<&[u8]> {
        use std::collections::btree_map::Entry;
        let length = Self::PAGE.min(self.size.saturating_sub(start));
        match self.pages.entry(start) {
            Entry::Occupied(page) => Ok(page.into_mut()),
            Entry::Vacant(place) => {
                let mut page = vec![0; length.as_usize()];
                (self.read_at)(start, &mut page)?;
                Ok(place.insert(page))
            }
        }
    }
}
