//! What can be changed of an array that exists: its name, what is done about the write hole and resyncs, what is asked
//! of single members.
//!
//! The order is that of a power cut that may come at any write. First the areas that the new way needs (a bitmap, a
//! log) are written on all members, where nothing lies yet that the old way needs: until then the superblocks speak of
//! the old ones, which are as they were. Then one record ([`state`](crate::state)) changes the superblocks, one event
//! on. If the cut meets that record, the newest superblock decides for all that are one event behind ([`adopt`]), as
//! the areas are on every member: the array has changed. Before it, nothing has.
//!
//! An array that is not clean, or lacks members, is refused a new way: its bitmap or log says what is to be made fit,
//! or what is to be copied to who comes back. Rejected: to move the bad-block log, or the data, where there is no room
//! between the superblock and the data; mdadm does neither.

use std::ops::Range;

use device::{Buffer, Device, DeviceError, Request};
use units::Bytes;

use crate::array::Array;
use crate::geometry::Level;
use crate::intent::Intent;
use crate::md::{
    Bitmap, Consistency, FAIL_FAST, Features, PplHeader, SUPERBLOCK_AT, SUPERBLOCK_SIZE, Superblock, WRITE_MOSTLY,
};
use crate::member::MemberState;
use crate::ppl::Ppl;

/// What is to change; the rest stays.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The name, at most 32 bytes.
    pub name: Option<String>,
    /// What is done about the write hole and resyncs. A journal cannot be added.
    pub consistency: Option<Consistency>,
    /// What one bit of the bitmap covers.
    pub region: Option<Bytes>,
    /// Flags of single members: which member, [`WRITE_MOSTLY`] or [`FAIL_FAST`], set or not.
    pub flags: Vec<(usize, u8, bool)>,
}

/// Why an array stays as it is.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum SetError {
    /// A member did not do what it was asked.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// md has no room for the name.
    #[error("the name \"{name}\" takes {length} bytes, and md has room for 32; give a shorter one")]
    Name { name: String, length: usize },
    /// It has to be made to fit first.
    #[error(
        "the array is not clean: a write may have been in flight when it was last used. Run `arraylab array stop` with its members first"
    )]
    NotClean,
    /// It has to be whole first.
    #[error(
        "members {missing:?} are missing or not rebuilt, and what they lack is known by the bitmap or log that would go. Rebuild them first (`arraylab array rebuild`)"
    )]
    NotWhole { missing: Vec<usize> },
    /// Nor while a member is being replaced.
    #[error(
        "member {member} is being replaced; finish that first (`arraylab array replace` with all members, old and new)"
    )]
    Replacing { member: usize },
    /// The journal is what is done.
    #[error(
        "the array has a journal. Remove that first: `arraylab array stop --force` with the other members, without the journal; then give this command again"
    )]
    Journal,
    /// A journal is made with the array.
    #[error(
        "a journal cannot be added to an array that exists; `arraylab array create --journal` makes one with a new array"
    )]
    NoJournal,
    /// A level without that.
    #[error("{what} {needs}, and {level} has none")]
    Level { what: &'static str, needs: &'static str, level: &'static str },
    /// A flag that would have no effect.
    #[error("{flag} chooses between copies of a block: levels 1 and 10 have copies, {level} has none")]
    NoCopies { flag: &'static str, level: &'static str },
    /// Not a size of a region.
    #[error("a bitmap chunk is a power of two from 4 KiB to 2 GiB, not {region:#}; {usual:#} is usual for this array")]
    Region { region: Bytes, usual: Bytes },
    /// There is no bitmap.
    #[error("the array has no bitmap whose chunk could be set; add --consistency bitmap")]
    NoBitmap,
    /// No room between superblock and data.
    #[error(
        "{what} needs {needed:#} between superblock and data on every member, and the largest gap there is {free:#}; {next}"
    )]
    NoRoom { what: &'static str, needed: Bytes, free: Bytes, next: &'static str },
}

/// The least and the most that a partial parity log takes.
const LOG: (Bytes, Bytes) = (Bytes::kib(128), Bytes::mib(1));
const PAGE: Bytes = Bytes::kib(4);

/// Where the structures of a new way lie, on every member.
#[derive(Debug, Clone, Default)]
struct Places {
    /// A new bitmap; a bitmap that stays is none.
    bitmap: Option<(Range<Bytes>, Bitmap)>,
    /// A new log of md's kind.
    log: Option<Range<Bytes>>,
    /// A new one of arraylab's own.
    own_log: Option<Range<Bytes>>,
}

/// The superblock of a member that a power cut left one event behind the newest: what is the same on all members is as
/// the newest has it.
pub(crate) fn adopt(it: Superblock, newest: &Superblock) -> Superblock {
    let kinds = [Features::BITMAP, Features::PPL, Features::PPLS].into_iter().fold(Features::default(), Features::with);
    let reshaping = it.features.with(newest.features).has(Features::RESHAPE);
    if it.events >= newest.events || reshaping {
        return it;
    }
    let own = Features(newest.features.0 & kinds.0);
    let adopted = Superblock {
        name: newest.name,
        features: it.features.without(kinds).with(own),
        // Where both have a log, each has its own place of it.
        bitmap_offset: if it.ppl_at().is_some() && newest.ppl_at().is_some() {
            it.bitmap_offset
        } else {
            newest.bitmap_offset
        },
        reshape: newest.reshape,
        ..it.clone()
    };
    let ends = adopted.ppl_at().or(adopted.own_ppl_at()).map(|(at, size)| at + size);
    let before_data = |end: Bytes| end <= it.data_offset;
    let fits = ends.is_none_or(before_data) && adopted.bitmap_at().is_none_or(|at| before_data(at + PAGE));
    if fits { adopted } else { it }
}

/// The largest and the first sufficient gap that `taken` leaves up to `end`, in whole pages.
fn gap(taken: &[Range<Bytes>], from: Bytes, end: Bytes, wanted: Bytes) -> (Bytes, Option<Range<Bytes>>) {
    let mut taken = taken.to_vec();
    taken.sort_by_key(|range| range.start);
    taken.push(end..end);
    let (mut at, mut largest, mut found) = (from, Bytes::ZERO, None);
    for range in taken {
        let free = range.start.min(end).saturating_sub(at).round_down(PAGE);
        largest = largest.max(free);
        if found.is_none() && free >= wanted {
            found = Some(at..at + free);
        }
        at = at.max(range.end.round_up(PAGE));
    }
    (largest, found)
}

impl<D: Device> Array<D> {
    /// Changes an array that was stopped, as far as its members are concerned; from then on it has to be opened again.
    /// The level's redundancy fits, and goes on to.
    pub async fn set(mut self, settings: &Settings) -> Result<(), SetError> {
        let name = settings.name.as_deref().map(padded).transpose()?;
        self.check_flags(&settings.flags)?;
        if self.is_dirty() || self.is_resync_due() {
            return Err(SetError::NotClean);
        }
        let places = match self.new_way(settings)? {
            Some(way) => Some((way, self.places(way, settings.region)?)),
            None => None,
        };
        if let Some((way, places)) = &places {
            self.write_areas(places).await?;
            self.forget_old(*way, places);
        }
        let state = self.state.as_ref().expect("an array of members has superblocks");
        let _one = state.turn().await;
        let change = |superblock: &mut Superblock| {
            superblock.name = name.unwrap_or(superblock.name);
            if let Some((way, places)) = &places {
                places.note(*way, superblock);
            }
        };
        {
            let mut superblocks = state.superblocks.borrow_mut();
            for (member, flag, set) in &settings.flags {
                if let Some(superblock) = &mut superblocks[*member] {
                    superblock.member_flags = superblock.member_flags & !flag | if *set { *flag } else { 0 };
                }
            }
        }
        self.record(change).await?;
        Ok(())
    }

    fn check_flags(&self, flags: &[(usize, u8, bool)]) -> Result<(), SetError> {
        let level = self.geometry.level();
        let has_copies = matches!(level, Level::Raid1 | Level::Raid10(_));
        match flags.iter().find(|(_, _, set)| *set && !has_copies) {
            Some((_, flag, _)) => {
                assert!([WRITE_MOSTLY, FAIL_FAST].contains(flag), "there are two flags");
                let flag = if *flag == WRITE_MOSTLY { "write-mostly" } else { "failfast" };
                Err(SetError::NoCopies { flag, level: level.name() })
            }
            None => Ok(()),
        }
    }

    /// What is done about the write hole and resyncs.
    pub fn consistency(&self) -> Consistency {
        match (&self.journal, &self.ppl, &self.intent) {
            (Some(_), ..) => Consistency::Journal,
            (None, Some(_), _) => Consistency::Ppl,
            (None, None, Some(_)) => Consistency::Bitmap,
            (None, None, None) => Consistency::Resync,
        }
    }

    /// The way to change to, if it is another one, or its bitmap is to be another one; and whether it can be.
    fn new_way(&self, settings: &Settings) -> Result<Option<Consistency>, SetError> {
        let (level, now) = (self.geometry.level(), self.consistency());
        let way = settings.consistency.unwrap_or(now);
        let has_bitmap = way == Consistency::Bitmap || (way == Consistency::Ppl && !matches!(level, Level::Raid5(_)));
        let region = self.intent.as_ref().map(Intent::region);
        if settings.region.is_some() && !has_bitmap {
            return Err(SetError::NoBitmap);
        }
        if way == now && (settings.region.is_none() || settings.region == region) {
            return Ok(None);
        }
        if way == Consistency::Journal {
            return Err(SetError::NoJournal);
        }
        if now == Consistency::Journal {
            return Err(SetError::Journal);
        }
        if way == Consistency::Ppl && level.parities() == 0 {
            let (what, needs) = ("a partial parity log", "protects parity");
            return Err(SetError::Level { what, needs, level: level.name() });
        }
        if has_bitmap && level.losses_survived(self.members.len()) == 0 {
            let (what, needs) = ("a bitmap", "marks where redundancy may not match");
            return Err(SetError::Level { what, needs, level: level.name() });
        }
        if let Some((member, _)) = self.replacing() {
            return Err(SetError::Replacing { member });
        }
        let missing: Vec<usize> =
            (0..self.members.len()).filter(|member| self.members[*member].state() != MemberState::Active).collect();
        if !missing.is_empty() {
            return Err(SetError::NotWhole { missing });
        }
        Ok(Some(way))
    }

    /// Where the new structures find room on every member, apart from all that lies there now.
    fn places(&self, way: Consistency, region: Option<Bytes>) -> Result<Places, SetError> {
        let state = self.state.as_ref().expect("an array of members has superblocks");
        let superblocks = state.superblocks.borrow();
        let spares = self.spares.borrow();
        let all = || superblocks.iter().flatten().chain(spares.iter().map(|spare| &spare.superblock));
        let mut taken: Vec<Range<Bytes>> = Vec::new();
        for it in all() {
            let bad_blocks = Bytes::SECTOR * u64::from(it.bad_block_sectors);
            taken.extend(it.bad_blocks_at().map(|at| at..at + bad_blocks));
            taken.extend(it.ppl_at().or(it.own_ppl_at()).map(|(at, size)| at..at + size));
        }
        taken.extend(self.intent.as_ref().map(|intent| intent.at()..intent.end()));
        let (from, end) =
            (SUPERBLOCK_AT + SUPERBLOCK_SIZE, all().map(|it| it.data_offset).min().expect("there are members"));
        let mut places = Places::default();
        let (level, sibling) = (self.geometry.level(), all().next().expect("there are members"));
        let own_log = way == Consistency::Ppl && !matches!(level, Level::Raid5(_));
        let keeps = self.intent.as_ref().is_some_and(|intent| region.is_none_or(|region| region == intent.region()));
        if (way == Consistency::Bitmap || own_log) && !keeps {
            let bitmap = self.new_bitmap(sibling, region)?;
            let needed = Bytes::new(bitmap.to_bytes().len() as u64).round_up(PAGE);
            let (free, found) = gap(&taken, from, end, needed);
            let next = "take a larger --bitmap-chunk";
            let at = found.ok_or(SetError::NoRoom { what: "the bitmap", needed, free, next })?.start;
            taken.push(at..at + needed);
            let mut bitmap = bitmap;
            bitmap.reserved_sectors = (needed / Bytes::SECTOR) as u32;
            places.bitmap = Some((at..at + needed, bitmap));
        }
        let has_log = self.ppl.is_some();
        if way == Consistency::Ppl && !has_log {
            // arraylab's own is looked for behind the bitmap only.
            let bitmap_end = places.bitmap.as_ref().map(|(range, _)| range.end);
            let behind = bitmap_end.or(self.intent.as_ref().map(Intent::end)).filter(|_| own_log).unwrap_or(from);
            let next = "keep the bitmap, or create the array anew, with more room before its data";
            let (needed, most) = LOG;
            // md counts the sectors up to its log in 15 bits.
            let end = if own_log { end } else { end.min(SUPERBLOCK_AT + Bytes::SECTOR * i16::MAX as u64) };
            let (free, found) = gap(&taken, behind, end, most);
            let found = match found {
                Some(found) => found,
                None => gap(&taken, behind, end, free.max(needed)).1.ok_or(SetError::NoRoom {
                    what: "the partial parity log",
                    needed,
                    free,
                    next,
                })?,
            };
            let log = found.start..found.end.min(found.start + most);
            *(if own_log { &mut places.own_log } else { &mut places.log }) = Some(log);
        }
        Ok(places)
    }

    /// A bitmap in which nothing is marked. Who was a member before it does not come back by it: what that one lacks it
    /// does not know.
    fn new_bitmap(&self, sibling: &Superblock, region: Option<Bytes>) -> Result<Bitmap, SetError> {
        let covers = match self.geometry.level() {
            Level::Raid10(_) => self.geometry.size(),
            _ => self.geometry.used(),
        };
        let usual = Bitmap::region_for(covers);
        let region = region.unwrap_or(usual);
        if !region.get().is_power_of_two() || region < PAGE || region > Bytes::gib(2) {
            return Err(SetError::Region { region, usual });
        }
        let events = sibling.events + 1;
        let mut bitmap = Bitmap::full(sibling.array, events, covers, region);
        bitmap.events_cleared = events;
        (0..bitmap.regions()).for_each(|region| _ = bitmap.set(region, false));
        Ok(bitmap)
    }

    /// Writes the new structures to all members, durably. They count from the record on.
    async fn write_areas(&self, places: &Places) -> Result<(), DeviceError> {
        let array = self.identity().expect("an array of members has a name");
        for member in &self.members {
            for log in places.log.iter().chain(&places.own_log) {
                let mut buffer = Buffer::zeroed(log.end - log.start);
                let header = PplHeader::new(array, 1).to_bytes();
                buffer.bytes_mut().expect("it is real")[..header.len()].copy_from_slice(&header);
                member.send(Request::write(log.start, buffer.freeze()).with_fua()).await.result?;
            }
            if let Some((range, bitmap)) = &places.bitmap {
                let (mut buffer, bytes) = (Buffer::zeroed(range.end - range.start), bitmap.to_bytes());
                buffer.bytes_mut().expect("it is real")[..bytes.len()].copy_from_slice(&bytes);
                member.send(Request::write(range.start, buffer.freeze()).with_fua()).await.result?;
            }
        }
        Ok(())
    }

    /// The record is not to keep up what goes with it.
    fn forget_old(&mut self, way: Consistency, places: &Places) {
        let own_log = !matches!(self.geometry.level(), Level::Raid5(_));
        if places.bitmap.is_some() || !(way == Consistency::Bitmap || (way == Consistency::Ppl && own_log)) {
            self.intent = None;
        }
        if way != Consistency::Ppl {
            self.ppl = None;
        }
        if let Some(log) = &places.own_log {
            let superblocks = self.state.as_ref().expect("it was looked at").superblocks.borrow();
            let noted: Vec<Option<Superblock>> = superblocks
                .iter()
                .cloned()
                .map(|it| {
                    it.map(|mut it| {
                        it.seal(Some((log.start, log.end - log.start)));
                        it
                    })
                })
                .collect();
            self.ppl = Ppl::own(&self.runtime, &noted, Bytes::ZERO);
        }
    }
}

impl Places {
    /// Says in a superblock what the array does from now on.
    fn note(&self, way: Consistency, superblock: &mut Superblock) {
        let sectors = |at: Bytes| ((at - SUPERBLOCK_AT) / Bytes::SECTOR) as i32;
        let logs = Features::PPL.with(Features::PPLS);
        if let Some((range, _)) = &self.bitmap {
            superblock.features = superblock.features.without(logs).with(Features::BITMAP);
            superblock.bitmap_offset = sectors(range.start);
        }
        if let Some(log) = &self.log {
            superblock.features = superblock.features.without(Features::BITMAP).with(Features::PPLS);
            superblock.bitmap_offset = sectors(log.start) | (sectors(SUPERBLOCK_AT + (log.end - log.start)) << 16);
        }
        match way {
            Consistency::Resync => {
                superblock.features = superblock.features.without(logs).without(Features::BITMAP);
                superblock.bitmap_offset = 0;
                superblock.forget_own_ppl();
            }
            Consistency::Bitmap => superblock.forget_own_ppl(),
            Consistency::Ppl | Consistency::Journal => {}
        }
    }
}

fn padded(name: &str) -> Result<[u8; 32], SetError> {
    let mut bytes = [0; 32];
    match bytes.get_mut(..name.len()) {
        Some(there) => there.copy_from_slice(name.as_bytes()),
        None => return Err(SetError::Name { name: name.to_owned(), length: name.len() }),
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_found_between_what_is_taken_and_before_the_data() {
        let kib = |from: u64, to: u64| Bytes::kib(from)..Bytes::kib(to);
        let find = |taken: &[Range<Bytes>], wanted: u64| gap(taken, Bytes::kib(8), Bytes::kib(64), Bytes::kib(wanted));
        assert_eq!(find(&[], 4), (Bytes::kib(56), Some(kib(8, 64))));
        assert_eq!(find(&[kib(12, 16), kib(8, 12)], 4), (Bytes::kib(48), Some(kib(16, 64))));
        assert_eq!(find(&[kib(12, 16), kib(40, 44)], 20), (Bytes::kib(24), Some(kib(16, 40))));
        assert_eq!(find(&[kib(12, 16), kib(40, 200)], 32), (Bytes::kib(24), None));
        // Areas that overlap, and one that does not end on a page.
        assert_eq!(find(&[kib(8, 30), kib(10, 12)], 4), (Bytes::kib(32), Some(kib(32, 64))));
    }
}
