//! What arraylab notes in a superblock, where md keeps nothing: that the array has a partial parity log of its own.
//!
//! md has such logs at level 5 only; an array of another level whose features speak of one it refuses. So the log of
//! levels 3, 4 and 6 has no feature bit, and md opens the array as one with a bitmap. Two fields that md does not use
//! then say what must be known of the log:
//!
//! | bytes | md: | here |
//! |---|---|---|
//! | 104 to 111 | position of a reshape; left alone while there is none | `arlabPPL`: there is a log |
//! | 116 to 119 | layout to be reshaped to; left alone | sectors from the superblock to the log |
//! | 120 to 123 | chunk to be reshaped to; left alone | sectors of the log |
//! | 152 to 159 | sectors rebuilt; zero wherever it writes the superblock of a whole member | `arlabPPL`: who wrote this kept the log |
//!
//! (Linux, `super_1_sync`: a reshape's fields are written while there is one, `recovery_offset` always;
//! `super_1_validate` reads each only with its feature bit.) The last one is a seal: md breaks it with the first thing
//! that it records, and that is before its first write. A log behind a broken seal is of another time, and begins anew.
//! A reshape by md overwrites the note itself, and moves the data: then there is no log any more.
//!
//! Rejected: a block of its own for the note, which a cut could leave different from the superblock; the number of
//! events as the seal, which md also counts back (`md_update_sb`); the time of the update, which is in seconds.

use units::Bytes;

use super::{Features, MemberRole, SUPERBLOCK_AT, SUPERBLOCK_SIZE, Superblock};

/// No log is longer: md's own field for its sectors has 16 bits.
const MOST_LOG: Bytes = Bytes::mib(32);
const NOTE: [u8; 8] = *b"arlabPPL";
const SEAL: u64 = u64::from_le_bytes(NOTE);
/// In the bytes from 100 on.
const POSITION: std::ops::Range<usize> = 4..12;
const OFFSET: std::ops::Range<usize> = 16..20;
const SECTORS: std::ops::Range<usize> = 20..24;

impl Superblock {
    /// Notes where the array's own partial parity log lies: how far behind the superblock, and how large it is.
    fn note_own_ppl(&mut self, offset: Bytes, size: Bytes) {
        let sectors = |size: Bytes| ((size / Bytes::SECTOR) as u32).to_le_bytes();
        self.reshape[POSITION].copy_from_slice(&NOTE);
        self.reshape[OFFSET].copy_from_slice(&sectors(offset));
        self.reshape[SECTORS].copy_from_slice(&sectors(size));
    }

    /// The array has no log of its own any more.
    pub(crate) fn forget_own_ppl(&mut self) {
        if self.reshape[POSITION] == NOTE {
            for range in [POSITION, OFFSET, SECTORS] {
                self.reshape[range].fill(0);
            }
        }
    }

    /// Where the array's own partial parity log lies on the member, before the data, and how large it is, if there is
    /// one.
    pub fn own_ppl_at(&self) -> Option<(Bytes, Bytes)> {
        let (offset, size) = self.noted_own_ppl();
        let at = SUPERBLOCK_AT + offset;
        let page = Bytes::kib(4);
        let there = self.reshape[POSITION] == NOTE && at.is_multiple_of(page) && size >= page * 2;
        let fits = at >= SUPERBLOCK_AT + SUPERBLOCK_SIZE && at + size <= self.data_offset && size <= MOST_LOG;
        (there && fits && !self.has_log_of_md()).then_some((at, size))
    }

    /// How far behind the superblock the own log lies, and how large it is, as the note says: in a superblock without
    /// one that is anything.
    pub(crate) fn noted_own_ppl(&self) -> (Bytes, Bytes) {
        let sectors = |range: std::ops::Range<usize>| {
            let bytes = self.reshape[range].try_into().expect("four bytes");
            Bytes::SECTOR * u64::from(u32::from_le_bytes(bytes))
        };
        (sectors(OFFSET), sectors(SECTORS))
    }

    /// Whether it is the word of somebody who kept the own log: then the log must be where the note says. (Of one that
    /// md overwrote since the note may be stale.)
    pub(crate) fn claims_own_ppl(&self) -> bool {
        let noted = self.reshape[POSITION] == NOTE && !self.features.has(Features::RECOVERY);
        noted && self.is_sealed() && !self.has_log_of_md()
    }

    /// The own log, if whoever wrote this kept it.
    pub(crate) fn sealed_own_ppl(&self) -> Option<(Bytes, Bytes)> {
        self.own_ppl_at().filter(|_| self.claims_own_ppl())
    }

    /// Whether md closes the write hole itself.
    fn has_log_of_md(&self) -> bool {
        self.features.has(Features::JOURNAL) || self.ppl_at().is_some()
    }

    /// Seals the superblock of a member whose array keeps its own log there, and breaks the seal of another. While a
    /// member is filled the field says how far: it has no seal, and needs none.
    pub(crate) fn seal(&mut self, kept: Option<(Bytes, Bytes)>) {
        if let Some((at, size)) = kept {
            self.note_own_ppl(at - SUPERBLOCK_AT, size);
        }
        match (self.features.has(Features::RECOVERY), kept) {
            (false, Some(_)) => self.recovery = SEAL,
            (false, None) if self.is_sealed() => self.recovery = 0,
            _ => {}
        }
    }

    /// Whether whoever wrote it kept the array's own log.
    fn is_sealed(&self) -> bool {
        self.recovery == SEAL
    }
}

/// Whether these superblocks, as they were read, say that whoever used the array last kept its own log. Of a record
/// that a power cut met the newest counts: nothing was written before it was on all members.
pub(crate) fn are_sealed(superblocks: &[&Superblock]) -> bool {
    let is_whole = |superblock: &&&Superblock| {
        let busy = superblock.features.has(Features::RECOVERY) || superblock.features.has(Features::REPLACEMENT);
        !busy && matches!(superblock.role(), MemberRole::Active(_))
    };
    let whole = || superblocks.iter().filter(is_whole);
    let newest = whole().map(|superblock| superblock.events).max();
    newest.is_some_and(|newest| whole().filter(|it| it.events == newest).all(|it| it.is_sealed()))
}
