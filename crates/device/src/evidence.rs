//! The proof that a device which was away and comes back is the one that went, and still holds what it promised to
//! keep.
//!
//! A name and a size prove nothing: the server of an export can be restarted on an empty disk, on an older snapshot, or
//! on another disk. Two kinds of evidence are kept while the device is there, and compared when it is back, before
//! anything else is sent (`nbd`'s `Steady` does so):
//!
//! - **Its label**: a range in which the owner keeps what the device is ([`Label`]; of a member of an array the
//!   superblock). Each sector must hold what was last written there, or what a write that was not acknowledged wanted
//!   to put there.
//! - **Witnesses**: checksums of the newest [`MOST`] blocks that were made durable here and not written since. A
//!   snapshot that was taken before the last flush lacks what that flush made durable, so it is found by the newest of
//!   them. What was acknowledged after the last flush needs no witness: it is kept, and written again.
//!
//! A block counts only if the order of its writes is known: no other write of it was under way beside the one that
//! counts. What was read is no evidence, as nobody promised to keep it.
//!
//! It costs a few hundred nanoseconds for a write, a CRC of at most 256 blocks for a flush, and on a new connection a
//! read of at most 1 MiB.
//!
//! Rejected: comparing everything with the other members of the array, which is a scrub and takes as long; and reading
//! a sample of what the owner keeps checksums of, which finds an older copy only if the sample hits what has changed
//! since.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use units::Bytes;

use crate::Data;

/// How many blocks are compared.
pub const MOST: usize = 256;
/// How much of a write counts.
const BLOCK: Bytes = Bytes::kib(4);
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

/// A block whose contents are known.
struct Witness {
    end: Bytes,
    sum: u32,
}

/// What is known of a device.
#[derive(Default)]
pub struct Evidence {
    known: Option<Known>,
    flying: Vec<Flying>,
    next: u64,
    /// Blocks that were acknowledged and may be lost: where they end, and which write wrote them.
    volatile: BTreeMap<Bytes, (Bytes, u64)>,
    durable: BTreeMap<Bytes, Witness>,
    /// Where the durable ones begin, the newest last. One that was written since is not there any more.
    order: VecDeque<Bytes>,
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
        forget(&mut self.volatile, &range, |(end, _)| *end);
        forget(&mut self.durable, &range, |witness| witness.end);
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
        let end = range.end.min(range.start + BLOCK);
        if is_durable {
            self.testify(range.start, end, data);
        } else {
            self.volatile.insert(range.start, (end, number));
        }
    }

    /// What this write put there is durable now.
    pub fn settled(&mut self, number: u64, offset: Bytes, data: Option<&Data>) {
        if let Some((end, newest)) = self.volatile.get(&offset).copied()
            && newest == number
        {
            self.volatile.remove(&offset);
            data.iter().for_each(|data| self.testify(offset, end, data));
        }
    }

    fn testify(&mut self, start: Bytes, end: Bytes, data: &Data) {
        let Some(bytes) = data.bytes() else { return };
        let sum = crc32c::crc32c(&bytes[..(end - start).as_usize()]);
        self.durable.insert(start, Witness { end, sum });
        self.order.push_back(start);
        while self.order.len() > MOST {
            let oldest = self.order.pop_front().expect("there are more than none");
            if !self.order.contains(&oldest) {
                self.durable.remove(&oldest);
            }
        }
    }

    /// Ranges to be compared.
    pub fn witnesses(&self) -> Vec<Range<Bytes>> {
        self.durable.iter().map(|(start, witness)| *start..witness.end).collect()
    }

    /// Whether a range holds what was made durable there.
    pub fn confirms(&self, range: &Range<Bytes>, found: &[u8]) -> bool {
        self.durable.get(&range.start).is_none_or(|witness| witness.sum == crc32c::crc32c(found))
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

fn meet(one: &Range<Bytes>, other: &Range<Bytes>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Takes out what begins or ends within a range. No block is longer than [`BLOCK`].
fn forget<T>(blocks: &mut BTreeMap<Bytes, T>, range: &Range<Bytes>, end: impl Fn(&T) -> Bytes) {
    if blocks.is_empty() {
        return;
    }
    let near = blocks.range(range.start.saturating_sub(BLOCK)..range.end);
    let met: Vec<Bytes> = near.filter(|(_, block)| end(block) > range.start).map(|(start, _)| *start).collect();
    met.iter().for_each(|start| _ = blocks.remove(start));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;

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
        assert_eq!(evidence.witnesses(), [], "part of it is being written");
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
    fn no_more_blocks_are_compared_than_said_and_they_are_the_newest() {
        let mut evidence = Evidence::default();
        for number in 0..2 * MOST as u64 {
            write(&mut evidence, BLOCK * number, 1, true);
        }
        let witnesses = evidence.witnesses();
        assert_eq!(witnesses.len(), MOST);
        assert_eq!(witnesses[0].start, BLOCK * MOST as u64);
    }
}
