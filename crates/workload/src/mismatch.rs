//! What verification found: mismatches, named.
//!
//! | name | what is there | what does that |
//! |---|---|---|
//! | corrupt | the bytes that were written, but for some bits | decay of the medium, a bad cable, bad memory |
//! | stale | an older write, or zeroes as before the first; all of what the write stored in this request is missing | a lost write, a cache that was cut off |
//! | torn | part of what one write stored, and not the rest | a power cut, a short write |
//! | misplaced | a sector whole and sound that belongs elsewhere | a misdirected write or read, swapped blocks |
//! | unexpected | a later write than any that was made | two runs at once, a ledger of another time |
//! | foreign | nothing that this program wrote | another program wrote there |

use units::Bytes;

use crate::stamp::{Fault, Stamp, Version};

/// The kind of a mismatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Some bits differ.
    Corrupt,
    /// An older write is there.
    Stale,
    /// Of one write a part is there.
    Torn,
    /// Another place's data.
    Misplaced,
    /// A later write than is known.
    Unexpected,
    /// Nothing of ours.
    Foreign,
}

/// Sectors that follow each other and are not what was written, all in one way.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Mismatch {
    /// In which way.
    pub kind: Kind,
    /// Index of the device.
    pub device: u16,
    /// Index of the stream that read them; `u16::MAX` for a reading of everything.
    pub stream: u16,
    /// The pass in which they were read.
    pub pass: u16,
    /// Byte address of the first.
    pub offset: Bytes,
    /// How long they are together.
    pub length: Bytes,
    /// What was to be in the first; nothing if only the sectors themselves were asked.
    pub expected: Option<Stamp>,
    /// What the first says it is, if it is whole.
    pub found: Option<Stamp>,
    /// The first bit that differs, by its number in the first sector, where that is known.
    pub first_bit: Option<u32>,
    /// How many bits differ in the first sector, where that is known.
    pub bits: Option<u32>,
}

/// What was found on a device.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Findings {
    /// Bytes that were held against what was written.
    pub checked: Bytes,
    /// Bytes that were read and of which nothing was known.
    pub unknown: Bytes,
    /// Of what was checked, bytes of later writes than the ledger of a killed run has.
    #[serde(default)]
    pub later: Bytes,
    /// Mismatches: the number of them all.
    pub count: u64,
    /// The first of them, at most [`Findings::KEPT`].
    pub mismatches: Vec<Mismatch>,
}

impl Findings {
    /// So many are kept in full; a device that is all wrong would fill the memory.
    pub const KEPT: usize = 1000;

    /// What one read has shown.
    pub(crate) fn add(&mut self, place: Place) {
        for mismatch in place.named() {
            self.count += 1;
            if self.mismatches.len() < Findings::KEPT {
                self.mismatches.push(mismatch);
            }
        }
    }
}

/// The sectors of one read.
pub(crate) struct Place {
    device: u16,
    stream: u16,
    pass: u16,
    /// Versions of which a sound sector was seen, each once in a row.
    good: Vec<Version>,
    bad: Vec<Mismatch>,
}

impl Place {
    pub fn new(device: u16, stream: u16, pass: u16) -> Place {
        Place { device, stream, pass, good: Vec::new(), bad: Vec::new() }
    }

    pub fn good(&mut self, version: Version) {
        if self.good.last() != Some(&version) {
            self.good.push(version);
        }
    }

    pub fn bad(&mut self, offset: Bytes, expected: Option<Stamp>, fault: Fault) {
        let (kind, found, first_bit, bits) = match fault {
            Fault::Corrupt { first, bits } => (Kind::Corrupt, None, first, Some(bits).filter(|bits| *bits > 0)),
            Fault::Stale(found) => (Kind::Stale, found, None, None),
            Fault::Misplaced(found) => (Kind::Misplaced, Some(found), None, None),
            Fault::Unexpected(found) => (Kind::Unexpected, Some(found), None, None),
            Fault::Torn => (Kind::Torn, None, None, None),
            Fault::Foreign => (Kind::Foreign, None, None, None),
        };
        if let Some(last) = self.bad.last_mut()
            && last.continues(kind, offset, expected, found)
        {
            last.length += Bytes::SECTOR;
            return;
        }
        let (device, stream, pass, length) = (self.device, self.stream, self.pass, Bytes::SECTOR);
        self.bad.push(Mismatch { kind, device, stream, pass, offset, length, expected, found, first_bit, bits });
    }

    /// What is old beside new of the same write is torn.
    fn named(self) -> impl Iterator<Item = Mismatch> {
        let Place { good, bad, .. } = self;
        bad.into_iter().map(move |mut mismatch| {
            let partly = mismatch.expected.is_some_and(|expected| good.contains(&expected.version));
            if mismatch.kind == Kind::Stale && partly {
                mismatch.kind = Kind::Torn;
            }
            mismatch
        })
    }
}

impl Mismatch {
    /// Whether the sector at `offset` is more of the same.
    fn continues(&self, kind: Kind, offset: Bytes, expected: Option<Stamp>, found: Option<Stamp>) -> bool {
        let version = |stamp: Option<Stamp>| stamp.map(|stamp| (stamp.run, stamp.device, stamp.version));
        let distance =
            |stamp: Option<Stamp>, from: Bytes| stamp.map(|stamp| stamp.offset.get().wrapping_sub(from.get()));
        kind == self.kind
            && kind != Kind::Corrupt
            && offset == self.offset + self.length
            && version(expected) == version(self.expected)
            && version(found) == version(self.found)
            && distance(found, offset) == distance(self.found, self.offset)
    }
}

/// What is wrong, where, what was expected and what was found; the device goes before it.
impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let (kind, offset) = (format!("{:?}", self.kind).to_lowercase(), self.offset.get());
        write!(f, "{kind}: {:#} at {offset}", self.length)?;
        match self.expected {
            Some(expected) => write!(f, ": expected {}", expected.version)?,
            None => write!(f, ": expected a sector of this place")?,
        }
        match (self.kind, self.found, self.first_bit) {
            (Kind::Corrupt, _, Some(bit)) => {
                let (bits, byte) = (self.bits.unwrap_or(1), offset + u64::from(bit / 8));
                let more =
                    if bits > 1 { format!("{bits} bits differ, the first is") } else { "one bit differs,".to_owned() };
                write!(f, ", found it damaged: {more} bit {} of byte {byte}", bit % 8)
            }
            (Kind::Corrupt, ..) => write!(f, ", found one whose head is damaged"),
            (_, Some(found), _) => match self.expected {
                Some(expected) if expected.run != found.run => {
                    write!(
                        f,
                        ", found {} of another run (of offset {} of its device {})",
                        found.version,
                        found.offset.get(),
                        found.device
                    )
                }
                Some(expected) if expected.device != found.device => {
                    write!(f, ", found {} of offset {} of device {}", found.version, found.offset.get(), found.device)
                }
                _ if found.offset != self.offset => {
                    write!(f, ", found {} of offset {}", found.version, found.offset.get())
                }
                _ => write!(f, ", found {}", found.version),
            },
            (Kind::Stale, ..) => write!(f, ", found zeroes"),
            (Kind::Torn, ..) => write!(f, ", found a part of it, and other bytes"),
            _ => write!(f, ", found bytes that this program did not write"),
        }
    }
}
