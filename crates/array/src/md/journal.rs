//! The journal: data and parity are in a log on a device of their own before they go to the members.
//!
//! The log is a ring of 4 KiB blocks. A meta block lists payloads, whose blocks follow it; the next meta block stands
//! behind those. Scanning starts at the tail that the superblock names and ends at the first block whose magic,
//! position, sequence or checksum is not the expected one: what was torn by a crash is as if it had not been written.

use units::Bytes;

use super::{Uuid, crc32c, put, u16_at, u32_at, u64_at};

const MAGIC: u32 = 0x6433_c509;
const SIZE: usize = 4096;
const FIRST_PAYLOAD: usize = 32;
/// A payload's head; the checksums of its blocks follow.
const PAYLOAD: usize = 16;

/// A meta block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalBlock {
    /// Counts the meta blocks.
    pub sequence: u64,
    /// Where it stands, from the start of the journal's data area.
    pub position: Bytes,
    /// What follows.
    pub payloads: Vec<JournalPayload>,
}

/// Something in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalPayload {
    /// Blocks of data follow.
    Data {
        /// Where in the array they belong.
        at: Bytes,
        /// One for each 4 KiB.
        checksums: Vec<u32>,
    },
    /// Blocks of parity follow: P, or P and Q.
    Parity {
        /// Where on the members they belong.
        at: Bytes,
        /// One for each 4 KiB.
        checksums: Vec<u32>,
    },
    /// What the log holds of these stripes has reached the members.
    Flush {
        /// Their first sectors on the members.
        stripes: Vec<u64>,
    },
}

/// Why bytes are not the expected meta block. At the end of the log that is as it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum JournalError {
    /// Cut off.
    #[error("a journal block needs 4096 bytes, {0} are there")]
    Short(usize),
    /// Nothing there.
    #[error("there is no journal block (magic {found:#010x}, not 0x6433c509)")]
    NoMagic { found: u32 },
    /// Other format.
    #[error("the journal has version {0}, only 1 is understood")]
    Version(u8),
    /// Damaged, torn, or another array's.
    #[error("the journal block's checksum is {stored:#010x}, its contents give {computed:#010x}")]
    Checksum { stored: u32, computed: u32 },
    /// A field that cannot be.
    #[error("the journal block says {field} {value}, which cannot be")]
    Field { field: &'static str, value: u64 },
}

impl JournalBlock {
    /// The checksum of meta blocks and of the blocks behind them.
    pub fn checksum(array: Uuid, bytes: &[u8]) -> u32 {
        crc32c(crc32c(!0, &array.0), bytes)
    }

    /// Reads a meta block of the array. Any bytes will do.
    pub fn parse(bytes: &[u8], array: Uuid) -> Result<JournalBlock, JournalError> {
        let Some(bytes) = bytes.get(..SIZE) else { return Err(JournalError::Short(bytes.len())) };
        let magic = u32_at(bytes, 0);
        if magic != MAGIC {
            return Err(JournalError::NoMagic { found: magic });
        }
        if bytes[8] != 1 {
            return Err(JournalError::Version(bytes[8]));
        }
        let mut zeroed = bytes.to_vec();
        put(&mut zeroed, 4, &[0; 4]);
        let (stored, computed) = (u32_at(bytes, 4), JournalBlock::checksum(array, &zeroed));
        if stored != computed {
            return Err(JournalError::Checksum { stored, computed });
        }
        let sectors = |field, value: u64| {
            if value < 1 << 54 {
                return Ok(Bytes::SECTOR * value);
            }
            Err(JournalError::Field { field, value })
        };
        // Whole pages, like all that is logged.
        let page = |field, value: u64| match value.is_multiple_of(8) {
            true => sectors(field, value),
            false => Err(JournalError::Field { field, value }),
        };
        let sequence = u64_at(bytes, 16);
        if sequence > u64::MAX / 2 {
            return Err(JournalError::Field { field: "a sequence of", value: sequence });
        }
        let end = u32_at(bytes, 12) as usize;
        if !(FIRST_PAYLOAD..=SIZE).contains(&end) {
            return Err(JournalError::Field { field: "a length of", value: end as u64 });
        }
        let mut payloads = Vec::new();
        let mut rest = &bytes[FIRST_PAYLOAD..end];
        while !rest.is_empty() {
            let cut_off = JournalError::Field { field: "a last payload in bytes of", value: rest.len() as u64 };
            if rest.len() < PAYLOAD {
                return Err(cut_off);
            }
            let (kind, size, location) = (u16_at(rest, 0), u32_at(rest, 4), u64_at(rest, 8));
            // A flush counts bytes of stripe numbers, which begin where the others have their location.
            let (head, count, item) = match kind {
                0 | 1 => (PAYLOAD, size as usize / 8, 4),
                2 => (8, size as usize / 8, 8),
                _ => return Err(JournalError::Field { field: "a payload of type", value: kind.into() }),
            };
            let Some(items) = rest.get(head..head.saturating_add(count.saturating_mul(item))) else {
                return Err(cut_off);
            };
            let checksums = || items.chunks_exact(4).map(|item| u32_at(item, 0)).collect();
            let unit_fits = size.is_multiple_of(8) && (kind != 1 || matches!(count, 1 | 2));
            if !unit_fits {
                return Err(JournalError::Field { field: "a payload of sectors:", value: size.into() });
            }
            payloads.push(match kind {
                0 => JournalPayload::Data { at: page("data at sector", location)?, checksums: checksums() },
                1 => JournalPayload::Parity { at: page("parity at sector", location)?, checksums: checksums() },
                _ => JournalPayload::Flush { stripes: items.chunks_exact(8).map(|item| u64_at(item, 0)).collect() },
            });
            rest = &rest[head + items.len()..];
        }
        Ok(JournalBlock { sequence, position: sectors("a position of sector", u64_at(bytes, 24))?, payloads })
    }

    /// Its 4 KiB, or `None` if the payloads do not fit into one: the writer then starts another.
    pub fn to_bytes(&self, array: Uuid) -> Option<Vec<u8>> {
        let mut bytes = vec![0; FIRST_PAYLOAD];
        for payload in &self.payloads {
            let (kind, sectors, location) = match payload {
                JournalPayload::Data { at, checksums } => (0u16, checksums.len() * 8, Some(*at)),
                JournalPayload::Parity { at, checksums } => (1, checksums.len() * 8, Some(*at)),
                JournalPayload::Flush { stripes } => (2, stripes.len() * 8, None),
            };
            bytes.extend(kind.to_le_bytes());
            bytes.extend([0; 2]);
            bytes.extend((sectors as u32).to_le_bytes());
            bytes.extend(location.into_iter().flat_map(|at| (at / Bytes::SECTOR).to_le_bytes()));
            match payload {
                JournalPayload::Data { checksums, .. } | JournalPayload::Parity { checksums, .. } => {
                    bytes.extend(checksums.iter().flat_map(|sum| sum.to_le_bytes()));
                }
                JournalPayload::Flush { stripes } => bytes.extend(stripes.iter().flat_map(|s| s.to_le_bytes())),
            }
        }
        let end = bytes.len();
        if end > SIZE {
            return None;
        }
        bytes.resize(SIZE, 0);
        put(&mut bytes, 0, &MAGIC.to_le_bytes());
        bytes[8] = 1;
        put(&mut bytes, 12, &(end as u32).to_le_bytes());
        put(&mut bytes, 16, &self.sequence.to_le_bytes());
        put(&mut bytes, 24, &(self.position / Bytes::SECTOR).to_le_bytes());
        let sum = JournalBlock::checksum(array, &bytes);
        put(&mut bytes, 4, &sum.to_le_bytes());
        Some(bytes)
    }
}
