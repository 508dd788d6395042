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
//! that counts. What was read is no evidence, as nobody promised to keep it.
//!
//! It costs a CRC of at most 1 MiB for a flush, and on a new connection a read of at most as much.
//!
//! Rejected: comparing everything with the other members of the array, which is a scrub and takes as long; and reading
//! a sample of what the owner keeps checksums of, which finds an older copy only if the sample hits what has changed
//! since.

use std::cell::RefCell;
use std::collections::BTreeMap;
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

/// A write that was sent and not answered.
struct Flying {
    number: u64,
    range: Range<Bytes>,
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
    /// Sectors that were acknowledged and may be lost: which write wrote them.
    volatile: BTreeMap<u64, u64>,
    /// Of those that are durable the sum, and how many became durable before.
    durable: BTreeMap<u64, (u32, u64)>,
    /// The same ones in that order.
    order: BTreeMap<u64, u64>,
    testified: u64,
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
        forget(&mut self.volatile, &touched);
        for (_, before) in forget(&mut self.durable, &touched) {
            self.order.remove(&before);
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
            self.flying.push(Flying { number, range, contended, abandoned: false });
        }
        number
    }

    /// A write was answered. One that failed may have been carried out in part.
    pub fn answered(&mut self, number: u64, done: bool, is_durable: bool, data: Option<&Data>) {
        let Some(index) = self.flying.iter().position(|flying| flying.number == number) else { return };
        let Flying { range, contended, .. } = self.flying.swap_remove(index);
        if let (true, Some(known)) = (done && is_durable, &mut self.known) {
            let flying: Vec<u64> = self.flying.iter().map(|flying| flying.number).collect();
            known.became(number, &range, |other| flying.contains(&other));
        }
        let (true, false, Some(data)) = (done, contended, data) else { return };
        let whole = sectors(&range, false);
        if is_durable {
            self.testify(whole.clone(), whole.start, data);
        } else {
            self.volatile.extend(newest(&whole).map(|sector| (sector, number)));
        }
    }

    /// What this write put there is durable now.
    pub fn settled(&mut self, number: u64, offset: Bytes, data: Option<&Data>) {
        let Some(data) = data else { return };
        let whole = sectors(&(offset..offset + data.len()), false);
        let own = |(sector, by): (&u64, &u64)| (*by == number).then_some(*sector);
        let left: Vec<u64> = self.volatile.range(whole.clone()).filter_map(own).collect();
        for sector in left {
            self.volatile.remove(&sector);
            self.testify(sector..sector + 1, whole.start, data);
        }
    }

    /// These sectors hold what is in the data, which begin with sector `first`.
    fn testify(&mut self, these: Range<u64>, first: u64, data: &Data) {
        let Some(bytes) = data.bytes() else { return };
        for sector in newest(&these) {
            let at = Bytes::SECTOR.as_usize() * (sector - first) as usize;
            let sum = crc32c::crc32c(&bytes[at..at + Bytes::SECTOR.as_usize()]);
            if let Some((_, before)) = self.durable.insert(sector, (sum, self.testified)) {
                self.order.remove(&before);
            }
            self.order.insert(self.testified, sector);
            self.testified += 1;
        }
        while self.order.len() > MOST {
            let (_, oldest) = self.order.pop_first().expect("there are more than none");
            self.durable.remove(&oldest);
        }
    }

    /// Ranges to be compared.
    pub fn witnesses(&self) -> Vec<Range<Bytes>> {
        let mut runs: Vec<Range<Bytes>> = Vec::new();
        for sector in self.durable.keys() {
            let (start, end) = (Bytes::SECTOR * *sector, Bytes::SECTOR * (*sector + 1));
            match runs.last_mut() {
                Some(last) if last.end == start && end - last.start <= RUN => last.end = end,
                _ => runs.push(start..end),
            }
        }
        runs
    }

    /// Whether a range holds what was made durable there.
    pub fn confirms(&self, range: &Range<Bytes>, found: &[u8]) -> bool {
        let sums = self.durable.range(sectors(range, false));
        sums.into_iter().all(|(sector, (sum, _))| {
            let at = (Bytes::SECTOR * *sector - range.start).as_usize();
            *sum == crc32c::crc32c(&found[at..at + Bytes::SECTOR.as_usize()])
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
        self.flying.retain(|flying| !flying.abandoned);
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
fn forget<T>(known: &mut BTreeMap<u64, T>, sectors: &Range<u64>) -> Vec<T> {
    let met: Vec<u64> = known.range(sectors.clone()).map(|(sector, _)| *sector).collect();
    met.iter().filter_map(|sector| known.remove(sector)).collect()
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
        evidence.answered(number, true, is_durable, Some(&data));
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
    fn of_two_writes_side_by_side_neither_is_a_witness() {
        let mut evidence = Evidence::default();
        let (one, other) = (block(1), block(2));
        let first = evidence.sent(Bytes::ZERO..BLOCK, Put::Bytes(&one));
        let second = evidence.sent(Bytes::ZERO..BLOCK, Put::Bytes(&other));
        evidence.answered(second, true, true, Some(&other));
        evidence.answered(first, true, true, Some(&one));
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
