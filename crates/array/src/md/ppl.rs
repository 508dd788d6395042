//! The partial parity log: level 5 without a write hole.
//!
//! Before data and parity of a stripe are written, the member that will hold its parity stores the XOR of the chunks
//! that this write does *not* touch, their partial parity. After a crash in between, parity is recomputed as that XOR
//! the data chunks that were being written, as they now are: old or new, they then match, and a chunk that lies on a
//! missing member and was not being written can still be computed. A full stripe needs no partial parity, only the
//! entry.
//!
//! A log write is a header of 4 KiB and the partial parities behind it; several follow one another in the log's space
//! and wrap. The valid header with the highest generation is the last.

use units::Bytes;

use super::{Uuid, crc32c, put, u32_at, u64_at};

/// The size of a header.
const SIZE: usize = 4096;
/// In what md fills with ones.
const OLDEST: usize = 504;
const FIRST_ENTRY: usize = 536;
const ENTRY: usize = 24;
const MOST_ENTRIES: usize = 148;

/// One write to one stripe, or to several in a row with their parity on one member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PplEntry {
    /// Address in the array of the first data written.
    pub data_at: Bytes,
    /// How long its partial parity in the log is; zero for full stripes.
    pub parity_length: Bytes,
    /// How much data is written.
    pub data_length: Bytes,
    /// The member that holds the parity.
    pub parity_member: u32,
    /// Of the partial parity, by [`PplHeader::checksum`].
    pub checksum: u32,
}

/// A header of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PplHeader {
    /// Which array it belongs to: a checksum of its identity.
    pub signature: u32,
    /// Rises with every log write of this member.
    pub generation: u64,
    /// The oldest generation whose writes may not be over, in arraylab's own log. md has all ones there.
    pub oldest: Option<u64>,
    /// The writes.
    pub entries: Vec<PplEntry>,
}

/// Why bytes are not a header. At the end of the log that is as it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum PplError {
    /// Cut off.
    #[error("a PPL header needs 4096 bytes, {0} are there")]
    Short(usize),
    /// Damaged, torn, or never written.
    #[error("the PPL header's checksum is {stored:#010x}, its contents give {computed:#010x}")]
    Checksum { stored: u32, computed: u32 },
    /// Another array's.
    #[error("the PPL header carries signature {found:#010x}, the array's is {wanted:#010x}")]
    Signature { found: u32, wanted: u32 },
    /// More than fit.
    #[error("the PPL header says it has {0} entries, at most 148 fit")]
    Entries(u32),
    /// Each log write counts one on, and must be able to.
    #[error("the PPL header says it is number {0}, which cannot be")]
    Generation(u64),
    /// A field that cannot be.
    #[error("entry {entry} of the PPL header says {field} {value}, which cannot be")]
    Field { entry: usize, field: &'static str, value: u64 },
}

impl PplHeader {
    /// An empty header of an array.
    pub fn new(array: Uuid, generation: u64) -> PplHeader {
        PplHeader { signature: PplHeader::signature(array), generation, oldest: None, entries: Vec::new() }
    }

    /// The signature of an array.
    pub fn signature(array: Uuid) -> u32 {
        PplHeader::checksum(&array.0)
    }

    /// The checksum of headers and of partial parities.
    pub fn checksum(bytes: &[u8]) -> u32 {
        !crc32c(!0, bytes)
    }

    /// Reads a header of the array. Any bytes will do.
    pub fn parse(bytes: &[u8], array: Uuid) -> Result<PplHeader, PplError> {
        let Some(bytes) = bytes.get(..SIZE) else { return Err(PplError::Short(bytes.len())) };
        let mut zeroed = bytes.to_vec();
        put(&mut zeroed, 532, &[0; 4]);
        let (stored, computed) = (u32_at(bytes, 532), PplHeader::checksum(&zeroed));
        if stored != computed {
            return Err(PplError::Checksum { stored, computed });
        }
        let (found, wanted) = (u32_at(bytes, 512), PplHeader::signature(array));
        if found != wanted {
            return Err(PplError::Signature { found, wanted });
        }
        let count = u32_at(bytes, 528);
        if count as usize > MOST_ENTRIES {
            return Err(PplError::Entries(count));
        }
        let generation = u64_at(bytes, 520);
        if generation > u64::MAX / 2 {
            return Err(PplError::Generation(generation));
        }
        let entry = |index: usize| {
            let bytes = &bytes[FIRST_ENTRY + index * ENTRY..][..ENTRY];
            let bad = |field, value| PplError::Field { entry: index, field, value };
            let sector = u64_at(bytes, 0);
            if sector >= 1 << 54 {
                return Err(bad("data sector", sector));
            }
            let length = |at, field| {
                let length = u32_at(bytes, at);
                if length.is_multiple_of(512) {
                    return Ok(Bytes::new(length.into()));
                }
                Err(bad(field, length.into()))
            };
            Ok(PplEntry {
                data_at: Bytes::SECTOR * sector,
                parity_length: length(8, "bytes of parity:")?,
                data_length: length(12, "bytes of data:")?,
                parity_member: u32_at(bytes, 16),
                checksum: u32_at(bytes, 20),
            })
        };
        let entries = (0..count as usize).map(entry).collect::<Result<_, _>>()?;
        let oldest = Some(u64_at(bytes, OLDEST)).filter(|oldest| *oldest != u64::MAX);
        Ok(PplHeader { signature: found, generation, oldest, entries })
    }

    /// Its 4 KiB. Panics with more than 148 entries: the writer starts another header.
    pub fn to_bytes(&self) -> Vec<u8> {
        assert!(self.entries.len() <= MOST_ENTRIES, "{} entries of at most {MOST_ENTRIES}", self.entries.len());
        let mut bytes = vec![0; SIZE];
        bytes[..512].fill(0xff);
        put(&mut bytes, OLDEST, &self.oldest.unwrap_or(u64::MAX).to_le_bytes());
        put(&mut bytes, 512, &self.signature.to_le_bytes());
        put(&mut bytes, 520, &self.generation.to_le_bytes());
        put(&mut bytes, 528, &(self.entries.len() as u32).to_le_bytes());
        for (entry, bytes) in self.entries.iter().zip(bytes[FIRST_ENTRY..].chunks_exact_mut(ENTRY)) {
            put(bytes, 0, &(entry.data_at / Bytes::SECTOR).to_le_bytes());
            put(bytes, 8, &(entry.parity_length.get() as u32).to_le_bytes());
            put(bytes, 12, &(entry.data_length.get() as u32).to_le_bytes());
            put(bytes, 16, &entry.parity_member.to_le_bytes());
            put(bytes, 20, &entry.checksum.to_le_bytes());
        }
        let sum = PplHeader::checksum(&bytes);
        put(&mut bytes, 532, &sum.to_le_bytes());
        bytes
    }

    /// How much of the log this write takes: the header and the partial parities behind it.
    pub fn extent(&self) -> Bytes {
        Bytes::new(SIZE as u64) + self.entries.iter().map(|entry| entry.parity_length).sum()
    }
}
