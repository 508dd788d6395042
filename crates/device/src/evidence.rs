//! The proof that a device which was away and comes back is the one that went, and still holds what it promised to
//! keep.
//!
//! A name and a size prove nothing: the server of an export can be restarted on an empty disk, on an older snapshot, or
//! on another disk. Two kinds of evidence are kept while the device is there, and compared when it is back, before
//! anything else is sent ([`difference`]; `nbd`'s `Steady` asks for it):
//!
//! - **Its label**: a range in which the owner keeps what the device is ([`Label`]; of a member of an array the
//!   superblock). Each sector must hold what was last written there, or what a write that was not acknowledged wanted
//!   to put there.
//! - **Witnesses**: checksums of the newest [`MOST`] sectors that were made durable here and not written since. A
//!   snapshot that was taken before the last flush lacks what that flush made durable, so it is found by the newest of
//!   them. What was acknowledged after the last flush needs no witness: it is kept, and written again.
//!
//! They are kept by sector, as a write may leave some of an older one there, which has to be found missing all the
//! same.
//!
//! A write counts only if the order of writes is known: no other one of the same range was under way beside the one
//! that counts. What was read is no evidence, as nobody promised to keep it. Of a write that is not answered each
//! sector is as it was or as it was to become, and either is what was kept. So it is of a write that was refused for
//! want of room, unless a read shows that the sector is as it was.
//!
//! It costs a CRC of at most 1 MiB for a flush, and on a new connection a read of at most as much.
//!
//! Rejected: comparing everything with the other members of the array, which is a scrub and takes as long; and reading
//! a sample of what the owner keeps checksums of, which finds an older copy only if the sample hits what has changed
//! since.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use futures_util::future::join_all;
use units::Bytes;

use crate::{Buffer, Data, Device, DeviceError, Request, Shape};

/// How many sectors are compared.
pub const MOST: usize = 2048;
/// They are read in runs that are no longer, so many at once.
const RUN: Bytes = Bytes::kib(64);
const AT_ONCE: usize = 32;
/// Writes that nobody waits for any more and that may yet be carried out: with more of them no order is known.
const MOST_ABANDONED: usize = 4096;
/// A sector after so many refused writes is not known.
const MOST_REFUSED: usize = 8;
/// A sector of the label that may hold more than this is not known: none was made durable for so long.
const MOST_VERSIONS: usize = 64;

/// How the owner of a device recognises it.
pub trait Label {
    /// Where the device says what it is: whole sectors within it.
    fn range(&self) -> Range<Bytes>;
    /// What differs between what must be there and what is, for people: a clause that follows "it came back, but".
    fn difference(&self, known: &[u8], found: &[u8]) -> String;
}

/// A sector of the label.
#[derive(Default)]
struct Sector {
    /// What it may hold, with the numbers of the writes that would have put it there. The first is what was known
    /// before them.
    may_hold: Vec<(u64, Vec<u8>)>,
    /// It was discarded, or written without the bytes being known: it may hold anything.
    unknown: bool,
}

/// The label and what its sectors may hold.
struct Known {
    label: Box<dyn Label>,
    sectors: Vec<Sector>,
}

/// What a durable sector may hold: the sums, and how many sectors became durable before.
struct Witness {
    sums: Vec<u32>,
    before: u64,
}

/// What a sector that was acknowledged may hold: which write wrote it, and the sums of later ones that were refused.
struct Volatile {
    by: u64,
    or: Vec<u32>,
}

/// A write that was sent and not answered.
struct Flying {
    number: u64,
    range: Range<Bytes>,
    /// What was known of its sectors before.
    volatile: Vec<(u64, Volatile)>,
    durable: Vec<(u64, Witness)>,
    /// What it puts there, if anything was known and this is; no data are zeroes.
    puts: Option<Option<Data>>,
    /// Another write of the same block was under way beside it.
    contended: bool,
    /// Nobody waits for it any more; it may be carried out all the same.
    abandoned: bool,
}

/// What is known of a device.
#[derive(Default)]
pub struct Evidence {
    known: Option<Known>,
    flying: Vec<Flying>,
    next: u64,
    /// Sectors that were acknowledged and may be lost.
    volatile: BTreeMap<u64, Volatile>,
    /// Those that are durable.
    durable: BTreeMap<u64, Witness>,
    /// The same ones in the order in which they became so.
    order: BTreeMap<u64, u64>,
    testified: u64,
    /// How many writes were refused, so that some sectors may hold one of several things.
    refusals: u64,
}

/// What a write puts there.
#[derive(Clone, Copy)]
pub enum Put<'a> {
    /// These bytes.
    Bytes(&'a Data),
    /// Zeroes.
    Zeroes,
    /// Nobody knows.
    Anything,
}

impl Flying {
    /// The sum of what it puts into a sector; nothing if that is not known.
    fn sum(&self, sector: u64) -> Option<u32> {
        if !sectors(&self.range, false).contains(&sector) {
            return None;
        }
        let Some(data) = self.puts.as_ref()? else {
            return Some(crc32c::crc32c(&[0; Bytes::SECTOR.as_usize()]));
        };
        let at = (Bytes::SECTOR * sector - self.range.start).as_usize();
        Some(crc32c::crc32c(&data.bytes()?[at..at + Bytes::SECTOR.as_usize()]))
    }

    /// Witnesses that hold what they held or what it puts there.
    fn witnesses(&self) -> impl Iterator<Item = (u64, &Witness)> {
        let known = |sector: &u64| sectors(&self.range, false).contains(sector) && self.puts.is_some();
        let all = self.durable.iter().filter(|_| !self.contended);
        all.filter(move |(sector, _)| known(sector)).map(|(sector, witness)| (*sector, witness))
    }
}

impl Evidence {
    /// From now on the device is known by a label, which holds these bytes.
    pub fn recognise(&mut self, label: Box<dyn Label>, holds: &[u8]) {
        let sector = |bytes: &[u8]| Sector { may_hold: vec![(0, bytes.to_vec())], unknown: false };
        self.known = Some(Known { label, sectors: holds.chunks(Bytes::SECTOR.as_usize()).map(sector).collect() });
    }

    /// Where the label lies, if there is one.
    pub fn label(&self) -> Option<Range<Bytes>> {
        self.known.as_ref().map(|known| known.label.range())
    }

    /// A write is about to be sent: what is known of its range is no more. Gives its number.
    pub fn sent(&mut self, range: Range<Bytes>, put: Put<'_>) -> u64 {
        self.next += 1;
        let number = self.next;
        let touched = sectors(&range, true);
        let (volatile, durable) = (forget(&mut self.volatile, &touched), forget(&mut self.durable, &touched));
        for (_, witness) in &durable {
            self.order.remove(&witness.before);
        }
        let mut contended = self.flying.len() >= MOST_ABANDONED;
        for other in self.flying.iter_mut().filter(|other| meet(&other.range, &range)) {
            other.contended = true;
            contended = true;
        }
        if let Some(known) = &mut self.known {
            known.may_become(number, &range, put);
        }
        if self.flying.len() < MOST_ABANDONED {
            let puts = match put {
                Put::Bytes(data) if !(volatile.is_empty() && durable.is_empty()) => Some(Some(data.clone())),
                Put::Zeroes => Some(None),
                _ => None,
            };
            self.flying.push(Flying { number, range, volatile, durable, puts, contended, abandoned: false });
        }
        number
    }

    /// A write was answered. One that failed may have been carried out in part.
    pub fn answered(&mut self, number: u64, result: &Result<(), DeviceError>, is_durable: bool, data: Option<&Data>) {
        let Some(index) = self.flying.iter().position(|flying| flying.number == number) else { return };
        let flying = self.flying.swap_remove(index);
        if *result == Err(DeviceError::NoSpace) && !flying.contended {
            return self.may_have_been_done(flying);
        }
        let (done, Flying { range, contended, .. }) = (result.is_ok(), flying);
        if let (true, Some(known)) = (done && is_durable, &mut self.known) {
            let flying: Vec<u64> = self.flying.iter().map(|flying| flying.number).collect();
            known.became(number, &range, |other| flying.contains(&other));
        }
        let (true, false, Some(data)) = (done, contended, data) else { return };
        let whole = sectors(&range, false);
        if is_durable {
            self.testify(whole.clone(), whole.start, data);
        } else {
            self.volatile.extend(newest(&whole).map(|sector| (sector, Volatile { by: number, or: Vec::new() })));
        }
    }

    /// A write that is over may have been carried out: its sectors hold what they held, or what it was to put there.
    fn may_have_been_done(&mut self, mut flying: Flying) {
        self.refusals += 1;
        let (volatile, durable) = (std::mem::take(&mut flying.volatile), std::mem::take(&mut flying.durable));
        for (sector, mut known) in volatile {
            if let Some(sum) = flying.sum(sector).filter(|_| known.or.len() < MOST_REFUSED) {
                known.or.push(sum);
                self.volatile.insert(sector, known);
            }
        }
        for (sector, mut witness) in durable {
            if let Some(sum) = flying.sum(sector).filter(|_| witness.sums.len() <= MOST_REFUSED) {
                witness.sums.push(sum);
                self.order.insert(witness.before, sector);
                self.durable.insert(sector, witness);
            }
        }
        self.keep_newest();
    }

    /// How many writes were refused by now.
    pub fn refusals(&self) -> u64 {
        self.refusals
    }

    /// A read was answered that was sent after so many refusals. What it shows to be as it was before them is in doubt
    /// no more.
    pub fn read(&mut self, refusals: u64, offset: Bytes, bytes: &[u8]) {
        if self.refusals == 0 || refusals != self.refusals {
            return;
        }
        let whole = sectors(&(offset..offset + Bytes::new(bytes.len() as u64)), false);
        let sum = |sector: u64| {
            let at = (Bytes::SECTOR * sector - offset).as_usize();
            crc32c::crc32c(&bytes[at..at + Bytes::SECTOR.as_usize()])
        };
        for (sector, witness) in self.durable.range_mut(whole.clone()).filter(|(_, witness)| witness.sums.len() > 1) {
            if witness.sums[0] == sum(*sector) {
                witness.sums.truncate(1);
            }
        }
        for (sector, known) in self.volatile.range_mut(whole).filter(|(_, known)| !known.or.is_empty()) {
            if !known.or.contains(&sum(*sector)) {
                known.or.clear();
            }
        }
    }

    /// What this write put there is durable now.
    pub fn settled(&mut self, number: u64, offset: Bytes, data: Option<&Data>) {
        let Some(data) = data else { return };
        let whole = sectors(&(offset..offset + data.len()), false);
        let own = |(sector, known): (&u64, &Volatile)| (known.by == number).then_some(*sector);
        let left: Vec<u64> = self.volatile.range(whole.clone()).filter_map(own).collect();
        for sector in left {
            let known = self.volatile.remove(&sector).expect("it was found there");
            self.testify(sector..sector + 1, whole.start, data);
            if let Some(witness) = self.durable.get_mut(&sector) {
                witness.sums.extend(known.or);
            }
        }
    }

    /// These sectors hold what is in the data, which begin with sector `first`.
    fn testify(&mut self, these: Range<u64>, first: u64, data: &Data) {
        let Some(bytes) = data.bytes() else { return };
        for sector in newest(&these) {
            let at = Bytes::SECTOR.as_usize() * (sector - first) as usize;
            let sums = vec![crc32c::crc32c(&bytes[at..at + Bytes::SECTOR.as_usize()])];
            if let Some(former) = self.durable.insert(sector, Witness { sums, before: self.testified }) {
                self.order.remove(&former.before);
            }
            self.order.insert(self.testified, sector);
            self.testified += 1;
        }
        self.keep_newest();
    }

    fn keep_newest(&mut self) {
        while self.order.len() > MOST {
            let (_, oldest) = self.order.pop_first().expect("there are more than none");
            self.durable.remove(&oldest);
        }
    }

    /// Ranges to be compared.
    pub fn witnesses(&self) -> Vec<Range<Bytes>> {
        let flying = self.flying.iter().flat_map(Flying::witnesses).map(|(sector, _)| sector);
        let all: BTreeSet<u64> = self.durable.keys().copied().chain(flying).collect();
        let mut runs: Vec<Range<Bytes>> = Vec::new();
        for sector in all {
            let (start, end) = (Bytes::SECTOR * sector, Bytes::SECTOR * (sector + 1));
            match runs.last_mut() {
                Some(last) if last.end == start && end - last.start <= RUN => last.end = end,
                _ => runs.push(start..end),
            }
        }
        runs
    }

    /// Whether a range holds what was made durable there.
    pub fn confirms(&self, range: &Range<Bytes>, found: &[u8]) -> bool {
        let whole = sectors(range, false);
        let sum = |sector: u64| {
            let at = (Bytes::SECTOR * sector - range.start).as_usize();
            crc32c::crc32c(&found[at..at + Bytes::SECTOR.as_usize()])
        };
        let flying = self.flying.iter().flat_map(|flying| flying.witnesses().map(move |one| (one, Some(flying))));
        let all = self.durable.range(whole.clone()).map(|(sector, witness)| ((*sector, witness), None)).chain(flying);
        all.filter(|((sector, _), _)| whole.contains(sector)).all(|((sector, witness), flying)| {
            let sum = sum(sector);
            witness.sums.contains(&sum) || flying.is_some_and(|flying| flying.sum(sector) == Some(sum))
        })
    }

    /// What differs on the label, if something does.
    pub fn difference(&self, found: &[u8]) -> Option<String> {
        let known = self.known.as_ref()?;
        let mut sectors = known.sectors.iter().zip(found.chunks(Bytes::SECTOR.as_usize()));
        let fits = |(sector, found): (&Sector, &[u8])| {
            sector.unknown || sector.may_hold.iter().any(|(_, bytes)| bytes.as_slice() == found)
        };
        if sectors.all(fits) {
            return None;
        }
        let newest: Vec<u8> = known.sectors.iter().flat_map(|sector| sector.may_hold[0].1.iter().copied()).collect();
        Some(known.label.difference(&newest, found))
    }

    /// Nobody waits for a write any more.
    pub fn abandoned(&mut self, number: u64) {
        self.flying.iter_mut().filter(|flying| flying.number == number).for_each(|flying| flying.abandoned = true);
    }

    /// The connection has ended, and with it what nobody waited for any more.
    pub fn reconnected(&mut self) {
        let (over, flying) = std::mem::take(&mut self.flying).into_iter().partition(|flying| flying.abandoned);
        self.flying = flying;
        let over: Vec<Flying> = over;
        for flying in over.into_iter().filter(|flying| !flying.contended) {
            self.may_have_been_done(flying);
        }
    }
}

impl Known {
    /// The sectors of the label that a range covers, each with where its bytes are in what is written to the range.
    fn covered(&mut self, range: &Range<Bytes>) -> impl Iterator<Item = (usize, &mut Sector)> {
        let (start, from) = (self.label.range().start, range.clone());
        let sectors = self.sectors.iter_mut().enumerate();
        sectors.filter_map(move |(index, sector)| {
            let at = start + Bytes::SECTOR * index as u64;
            (from.start <= at && at + Bytes::SECTOR <= from.end).then(|| ((at - from.start).as_usize(), sector))
        })
    }

    fn may_become(&mut self, number: u64, range: &Range<Bytes>, put: Put<'_>) {
        for (at, sector) in self.covered(range) {
            match put {
                Put::Bytes(data) => match data.bytes() {
                    Some(bytes) => sector.may_hold.push((number, bytes[at..at + Bytes::SECTOR.as_usize()].to_vec())),
                    None => sector.unknown = true,
                },
                Put::Zeroes => sector.may_hold.push((number, vec![0; Bytes::SECTOR.as_usize()])),
                Put::Anything => sector.unknown = true,
            }
            if sector.may_hold.len() > MOST_VERSIONS {
                sector.unknown = true;
                sector.may_hold.truncate(1);
            }
        }
    }

    /// A durable write was carried out: its bytes are there, or those of one that is still `flying`.
    fn became(&mut self, number: u64, range: &Range<Bytes>, flying: impl Fn(u64) -> bool) {
        for (_, sector) in self.covered(range) {
            let is_known = sector.may_hold.iter().any(|(other, _)| *other == number);
            if is_known {
                sector.may_hold.retain(|(other, _)| *other == number || flying(*other));
                sector.may_hold.sort_by_key(|(other, _)| *other != number);
                sector.unknown = false;
            }
        }
    }
}

/// What differs between a device that is there now and the one that went away, of which this is known and which had
/// this shape. Nothing is written to it. An error if it does not answer.
pub async fn difference(
    evidence: &RefCell<Evidence>,
    before: &Shape,
    device: &impl Device,
) -> Result<Option<String>, DeviceError> {
    let now = device.shape();
    if now.size != before.size {
        return Ok(Some(format!("its size is {:#}, and was {:#}", now.size, before.size)));
    }
    if now.logical_block != before.logical_block {
        let (now, before) = (now.logical_block, before.logical_block);
        return Ok(Some(format!("it takes requests in blocks of {now:#}, and took them in blocks of {before:#}")));
    }
    let read = async |range: Range<Bytes>| {
        let reply = device.submit(Request::read(range.start, Buffer::zeroed(range.end - range.start))).await;
        reply.result.map(|()| reply.buffer.expect("a read gives its buffer back"))
    };
    let label = evidence.borrow().label();
    if let Some(label) = label {
        let found = read(label).await?;
        let difference = evidence.borrow().difference(found.bytes().expect("it is real"));
        if difference.is_some() {
            return Ok(difference);
        }
    }
    let witnesses = evidence.borrow().witnesses();
    for some in witnesses.chunks(AT_ONCE) {
        // Whole blocks, whatever a device of smaller ones had before.
        let block = now.logical_block;
        let around = |range: &Range<Bytes>| range.start.round_down(block)..range.end.round_up(block).min(now.size);
        let found = join_all(some.iter().map(around).map(&read)).await;
        for (range, found) in some.iter().zip(found) {
            let found = match found {
                Ok(found) => found,
                // A sector that cannot be read says nothing about whose it is.
                Err(DeviceError::Medium { .. }) => continue,
                Err(error) => return Err(error),
            };
            let at = (range.start % block).as_usize();
            let found = &found.bytes().expect("it is real")[at..at + (range.end - range.start).as_usize()];
            if !evidence.borrow().confirms(range, found) {
                return Ok(Some(format!(
                    "what was written durably at {} is not there: it is an older copy, or was written by another",
                    range.start
                )));
            }
        }
    }
    Ok(None)
}

fn meet(one: &Range<Bytes>, other: &Range<Bytes>) -> bool {
    one.start < other.end && other.start < one.end
}

/// The sectors that a range touches, or those that it covers.
fn sectors(range: &Range<Bytes>, touched: bool) -> Range<u64> {
    let (start, end, sector) = (range.start.get(), range.end.get(), Bytes::SECTOR.get());
    match touched {
        true => start / sector..end.div_ceil(sector),
        false => start.div_ceil(sector)..(end / sector).max(start.div_ceil(sector)),
    }
}

/// As many of them as are compared.
fn newest(sectors: &Range<u64>) -> Range<u64> {
    sectors.start..sectors.end.min(sectors.start + MOST as u64)
}

/// Takes some sectors out.
fn forget<T>(known: &mut BTreeMap<u64, T>, sectors: &Range<u64>) -> Vec<(u64, T)> {
    let met: Vec<u64> = known.range(sectors.clone()).map(|(sector, _)| *sector).collect();
    met.into_iter().filter_map(|sector| Some((sector, known.remove(&sector)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: Bytes = Bytes::kib(4);

    fn block(value: u8) -> Data {
        let mut buffer = Buffer::zeroed(BLOCK);
        buffer.bytes_mut().unwrap().fill(value);
        buffer.freeze()
    }

    fn write(evidence: &mut Evidence, at: Bytes, value: u8, is_durable: bool) -> u64 {
        let data = block(value);
        let number = evidence.sent(at..at + BLOCK, Put::Bytes(&data));
        evidence.answered(number, &Ok(()), is_durable, Some(&data));
        number
    }

    #[test]
    fn only_what_is_durable_and_was_not_written_since_is_a_witness() {
        let mut evidence = Evidence::default();
        let at = Bytes::kib(8);
        let number = write(&mut evidence, at, 1, false);
        assert_eq!(evidence.witnesses(), [], "it may be lost");
        evidence.settled(number, at, Some(&block(1)));
        assert_eq!(evidence.witnesses(), [at..at + BLOCK]);
        assert!(evidence.confirms(&(at..at + BLOCK), block(1).bytes().unwrap()));
        assert!(!evidence.confirms(&(at..at + BLOCK), block(2).bytes().unwrap()));
        let part = Bytes::kib(10)..Bytes::kib(14);
        evidence.sent(part, Put::Anything);
        assert_eq!(evidence.witnesses(), [at..Bytes::kib(10)], "the rest of it is being written");
    }

    #[test]
    fn what_is_being_written_holds_what_it_held_or_what_is_written() {
        let mut evidence = Evidence::default();
        write(&mut evidence, Bytes::ZERO, 1, true);
        let number = evidence.sent(Bytes::ZERO..BLOCK, Put::Bytes(&block(2)));
        assert_eq!(evidence.witnesses(), [Bytes::ZERO..BLOCK]);
        let confirms =
            |evidence: &Evidence, value| evidence.confirms(&(Bytes::ZERO..BLOCK), block(value).bytes().unwrap());
        assert_eq!([1, 2, 0].map(|value| confirms(&evidence, value)), [true, true, false]);
        // Nobody waits for it any more, and the connection has ended.
        evidence.abandoned(number);
        evidence.reconnected();
        assert_eq!([1, 2, 0].map(|value| confirms(&evidence, value)), [true, true, false]);
        let number = evidence.sent(Bytes::ZERO..BLOCK, Put::Zeroes);
        assert_eq!([1, 2, 0, 3].map(|value| confirms(&evidence, value)), [true, true, true, false]);
        evidence.answered(number, &Ok(()), true, None);
        assert_eq!(evidence.witnesses(), [], "of zeroes there are none");
    }

    #[test]
    fn what_a_later_write_left_of_a_durable_one_is_a_witness_when_or_before_it_is_durable() {
        for flushed_before in [true, false] {
            let mut evidence = Evidence::default();
            let first = write(&mut evidence, Bytes::ZERO, 1, false);
            if flushed_before {
                evidence.settled(first, Bytes::ZERO, Some(&block(1)));
            }
            write(&mut evidence, Bytes::kib(1), 2, false);
            if !flushed_before {
                evidence.settled(first, Bytes::ZERO, Some(&block(1)));
            }
            assert_eq!(evidence.witnesses(), [Bytes::ZERO..Bytes::kib(1)]);
            assert!(evidence.confirms(&(Bytes::ZERO..Bytes::kib(1)), &block(1).bytes().unwrap()[..1024]));
            assert!(!evidence.confirms(&(Bytes::ZERO..Bytes::kib(1)), &block(2).bytes().unwrap()[..1024]));
        }
    }

    #[test]
    fn what_a_refused_write_left_is_a_witness_and_so_is_what_it_was_to_put_there() {
        for flushed_before in [true, false] {
            let mut evidence = Evidence::default();
            let first = write(&mut evidence, Bytes::ZERO, 1, flushed_before);
            let data = block(2);
            let refused = evidence.sent(Bytes::ZERO..BLOCK, Put::Bytes(&data));
            evidence.answered(refused, &Err(DeviceError::NoSpace), true, Some(&data));
            if !flushed_before {
                assert_eq!(evidence.witnesses(), [], "it may be lost");
                evidence.settled(first, Bytes::ZERO, Some(&block(1)));
            }
            assert_eq!(evidence.witnesses(), [Bytes::ZERO..BLOCK]);
            let half = [&block(1).bytes().unwrap()[..2048], &block(2).bytes().unwrap()[2048..]].concat();
            for (found, expected) in [(&half[..], true), (block(3).bytes().unwrap(), false)] {
                assert_eq!(evidence.confirms(&(Bytes::ZERO..BLOCK), found), expected);
            }
            // It was not carried out.
            evidence.read(evidence.refusals() - 1, Bytes::kib(1), &block(1).bytes().unwrap()[1024..2048]);
            assert!(evidence.confirms(&(Bytes::ZERO..BLOCK), block(2).bytes().unwrap()), "it was sent before");
            evidence.read(evidence.refusals(), Bytes::kib(1), &block(1).bytes().unwrap()[1024..2048]);
            assert!(!evidence.confirms(&(Bytes::ZERO..BLOCK), block(2).bytes().unwrap()));
            assert!(evidence.confirms(&(Bytes::ZERO..BLOCK), &half));
            // Of a write that failed for another reason nothing is known.
            let failed = evidence.sent(Bytes::ZERO..BLOCK, Put::Bytes(&data));
            evidence.answered(failed, &Err(DeviceError::Unsupported), true, Some(&data));
            assert_eq!(evidence.witnesses(), []);
        }
    }

    #[test]
    fn of_two_writes_side_by_side_neither_is_a_witness() {
        let mut evidence = Evidence::default();
        let (one, other) = (block(1), block(2));
        let first = evidence.sent(Bytes::ZERO..BLOCK, Put::Bytes(&one));
        let second = evidence.sent(Bytes::ZERO..BLOCK, Put::Bytes(&other));
        evidence.answered(second, &Ok(()), true, Some(&other));
        evidence.answered(first, &Ok(()), true, Some(&one));
        assert_eq!(evidence.witnesses(), []);
        write(&mut evidence, Bytes::ZERO, 3, true);
        assert_eq!(evidence.witnesses().len(), 1, "a later one is alone");
    }

    #[test]
    fn no_more_sectors_are_compared_than_said_and_they_are_the_newest() {
        let mut evidence = Evidence::default();
        let blocks = 2 * MOST as u64 * Bytes::SECTOR.get() / BLOCK.get();
        for number in 0..blocks {
            write(&mut evidence, BLOCK * number, 1, true);
        }
        let witnesses = evidence.witnesses();
        let all: Bytes = witnesses.iter().fold(Bytes::ZERO, |sum, range| sum + (range.end - range.start));
        assert_eq!(all, Bytes::SECTOR * MOST as u64);
        assert_eq!(witnesses[0].start, BLOCK * (blocks / 2));
        assert!(witnesses.iter().all(|range| range.end - range.start <= RUN));
    }
}
