//! Unsynced reads: reads of copies that may differ, as the array was not stopped.
//!
//! A crash may leave a write on some copies and not on others. Each value is right, as nobody was told that the write
//! is done. But a value that was read once must stay until somebody writes: an application that saw the new one acts on
//! it. md reads the first copy that is in sync until the resync has passed (`read_balance`), so the value goes back
//! when that member fails. Here the first read of a range makes its copies equal before it is answered, under the lock
//! of the unit. It believes the copy that a resync believes: the first that can be read and is not write-mostly. From
//! then on the value does not depend on which copy is read, which member fails, is replaced, or is missing at the next
//! start.
//!
//! - Compared is only what may differ: in an array that was not stopped, where the bitmap has a mark, and where neither
//!   a resync nor a read made it equal.
//! - Copies that differ are written with FUA, and what the members hold is flushed once before the first such read: a
//!   kill of the server alone leaves it in their caches. So a value that was read survives a power cut, and with it the
//!   loss of as many members as the level survives.
//! - A member that failed may hold the other value. The members say that it has failed before the read is answered, as
//!   with a write.
//! - Which ranges are equal is kept in memory. Forgetting one is safe and costs a comparison, so their number is
//!   bounded.
//! - While another server uses the members nothing is written. Then reads take the first copy, and so they do where
//!   members refuse writes.
//!
//! The cost is a read of each copy, once for each range that is read before the resync has passed it. An array that is
//! in sync asks one flag.
//!
//! Rejected: md's rule alone (see above). Comparing whole units: a random read of 4 KiB would read a chunk of each
//! copy.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;

use device::{Buffer, Device, DeviceError};
use futures_util::future::join_all;
use units::Bytes;

use crate::array::Array;
use crate::copies::Written;
use crate::few::{Few, side_by_side};
use crate::geometry::Place;
use crate::member::MemberState;

/// So many ranges are remembered, in about 3 MiB.
const REMEMBERED: usize = 1 << 16;
/// A resync makes durable what it has passed after so many units, as a rebuild does.
const FLUSH_EVERY: usize = 256;

/// Which ranges of an array that needs a resync are in sync by now.
#[derive(Default)]
pub(crate) struct Synced {
    /// Those that are so durably: their ends by their starts. They neither touch nor overlap.
    durable: RefCell<BTreeMap<Bytes, Bytes>>,
    /// Those that a resync has passed since the last flush, each with its number.
    passed: RefCell<Vec<(u64, Range<Bytes>)>>,
    passes: Cell<u64>,
    /// The members were flushed since the array was opened.
    flushed: Cell<bool>,
}

impl Synced {
    /// Whether all of a range is.
    fn holds(&self, range: &Range<Bytes>) -> bool {
        let durable = self.durable.borrow();
        durable.range(..=range.start).next_back().is_some_and(|(_, end)| range.end <= *end)
    }

    /// A range is in sync, durably.
    pub fn add(&self, range: Range<Bytes>) {
        if range.is_empty() {
            return;
        }
        let mut durable = self.durable.borrow_mut();
        let (mut start, mut end) = (range.start, range.end);
        if let Some((before, its_end)) = durable.range(..=start).next_back().filter(|(_, its_end)| **its_end >= start) {
            (start, end) = (*before, end.max(*its_end));
        }
        while let Some((next, its_end)) = durable.range(start..=end).next().map(|(next, end)| (*next, *end)) {
            durable.remove(&next);
            end = end.max(its_end);
        }
        if durable.len() >= REMEMBERED {
            durable.clear();
        }
        durable.insert(start, end);
    }

    /// A resync has made a range equal.
    pub fn pass(&self, range: Range<Bytes>) {
        let number = self.passes.get() + 1;
        self.passes.set(number);
        self.passed.borrow_mut().push((number, range));
    }

    /// Whether something that a range holds may be in the members' caches alone.
    fn is_volatile(&self, range: &Range<Bytes>) -> bool {
        let touches = |(_, other): &(u64, Range<Bytes>)| other.start < range.end && range.start < other.end;
        !self.flushed.get() || self.passed.borrow().iter().any(touches)
    }

    /// What was passed up to this number has been flushed.
    fn flushed(&self, upto: u64) {
        self.flushed.set(true);
        let (durable, rest) = self.passed.take().into_iter().partition(|(number, _)| *number <= upto);
        self.passed.replace(rest);
        let durable: Vec<(u64, Range<Bytes>)> = durable;
        durable.into_iter().for_each(|(_, range)| self.add(range));
    }
}

impl<D: Device> Array<D> {
    /// Whether the copies of a range of the array may differ.
    #[inline]
    pub(crate) fn may_differ(&self, range: &Range<Bytes>) -> bool {
        self.is_resync_due() && self.geometry.copies() > 1 && self.is_unsynced(range)
    }

    #[inline(never)]
    fn is_unsynced(&self, range: &Range<Bytes>) -> bool {
        let marked = |range| self.intent.as_ref().is_none_or(|intent| intent.is_marked(&self.in_bitmap(range)));
        !self.synced.holds(range) && marked(range.clone())
    }

    /// Makes durable what a resync made equal, if that is much.
    pub(crate) async fn secure_passed(&self) -> Result<(), DeviceError> {
        if self.synced.passed.borrow().len() < FLUSH_EVERY { Ok(()) } else { self.flush_passed(0).await }
    }

    async fn flush_passed(&self, id: u64) -> Result<(), DeviceError> {
        let upto = self.synced.passes.get();
        self.flush_members(id).await?;
        self.synced.flushed(upto);
        Ok(())
    }

    /// Reads a range that lies on one set of copies, which may differ, and makes them equal.
    pub(crate) async fn read_unsynced(
        &self,
        run: Range<Bytes>,
        into: Buffer,
        id: u64,
    ) -> (Buffer, Result<(), DeviceError>) {
        let mut rest = into;
        let units = Self::pieces(run.clone(), |at| self.unit(at).1);
        let parts: Vec<(Range<Bytes>, Buffer)> = units
            .into_iter()
            .map(|unit| {
                let part = rest.split_to(unit.end - unit.start);
                (unit, part)
            })
            .collect();
        let read = |(unit, part): (Range<Bytes>, Buffer)| async move {
            let _lock = self.locks.lock(self.unit(unit.start).0).await;
            self.read_equal(unit, part, id).await
        };
        let mut done = join_all(parts.into_iter().map(read)).await.into_iter();
        let (mut whole, mut result) = done.next().expect("a run is not empty");
        for (part, other) in done {
            whole.join(part);
            result = result.and(other);
        }
        let mut holders = (0..self.geometry.copies()).map(|copy| self.geometry.copy(run.start, copy).member);
        // What one that has failed holds may be another value, and it may be the first at the next start.
        if result.is_ok()
            && self.rival().is_none()
            && !self.may_answer()
            && holders.any(|member| self.members[member].state() == MemberState::Failed)
        {
            result = self.settle().await;
        }
        (whole, result)
    }

    /// Reads a range of one unit. The caller holds the lock.
    async fn read_equal(&self, range: Range<Bytes>, into: Buffer, id: u64) -> (Buffer, Result<(), DeviceError>) {
        // Another read may have made them equal meanwhile, and a resync may have ended. Of modelled members nothing
        // differs.
        if !self.may_differ(&range) || self.rival().is_some() || into.bytes().is_none() {
            return self.read_other_copy(range, into, None, id).await;
        }
        if self.synced.is_volatile(&range)
            && let Err(error) = self.flush_passed(id).await
        {
            return (into, Err(error));
        }
        let (mut into, mut result) = self.make_equal(range.clone(), into, id).await;
        if result.is_err() && range.end - range.start > self.block() {
            // Block by block it may be different blocks that are lost on different copies.
            result = Ok(());
            let mut parts: Vec<Buffer> = Vec::new();
            for block in self.blocks(range) {
                let one = into.split_to(block.end - block.start);
                let (one, outcome) = self.make_equal(block, one, id).await;
                result = result.and(outcome);
                parts.push(one);
            }
            let mut parts = parts.into_iter();
            into = parts.next().expect("a range is not empty");
            parts.for_each(|part| into.join(part));
        }
        (into, result)
    }

    /// Reads all copies of a range of one unit, and writes what the first of them says to those that say something else
    /// or cannot be read. The caller holds the lock.
    async fn make_equal(&self, range: Range<Bytes>, mut into: Buffer, id: u64) -> (Buffer, Result<(), DeviceError>) {
        let length = range.end - range.start;
        let read = |place: Place| async move {
            let member = &self.members[place.member];
            let there = place.offset..place.offset + length;
            match member.is_bad(&there) {
                // It is written like one that cannot be read, but is no new fault.
                true => (place, None, false),
                false => match member.read(place.offset, self.pool.take(length), id).await {
                    (buffer, Ok(())) => (place, Some(buffer), false),
                    (buffer, Err(error)) => {
                        self.pool.give(buffer);
                        self.judge(place.member, &error);
                        (place, None, matches!(error, DeviceError::Medium { .. }))
                    }
                },
            }
        };
        let places = self.places_of(range.clone());
        let copies: Few<(Place, Option<Buffer>, bool)> = side_by_side(places.into_iter().map(read)).await;
        let of = |buffer: &Option<Buffer>| buffer.as_ref().and_then(Buffer::bytes).map(<[u8]>::to_vec);
        let Some(value) = copies.iter().find_map(|(_, buffer, _)| of(buffer)) else {
            // Nobody is there who could have had it; or a medium could not give it.
            let medium = DeviceError::Medium { offset: range.start, length };
            return (into, Err(if copies.is_empty() || self.is_gone_at(&range) { DeviceError::Gone } else { medium }));
        };
        into.bytes_mut().expect("modelled members are read elsewhere").copy_from_slice(&value);
        let differs = |buffer: &Option<Buffer>| buffer.as_ref().and_then(Buffer::bytes) != Some(value.as_slice());
        let wrong: Vec<(Place, bool)> = copies
            .iter()
            .filter(|(_, buffer, _)| differs(buffer))
            .map(|(place, _, unread)| (*place, *unread))
            .collect();
        copies.into_iter().filter_map(|(_, buffer, _)| buffer).for_each(|buffer| self.pool.give(buffer));
        if wrong.is_empty() {
            self.synced.add(range);
            return (into, Ok(()));
        }
        // Another server must be able to see that this one writes. If there is one, it is left alone.
        match self.claim().await {
            Ok(()) => {}
            Err(_) if self.rival().is_some() => return (into, Ok(())),
            // Where a record finds no room the first copy is believed until one does.
            Err(DeviceError::NoSpace) => return (into, Ok(())),
            Err(error) => return (into, Err(error)),
        }
        let mut data = self.pool.take(length);
        data.bytes_mut().expect("it is real").copy_from_slice(&value);
        let data = data.freeze();
        let (mut written, mut refused): (Vec<Written>, bool) = (Vec::new(), false);
        for (place, unread) in wrong {
            let result = self.members[place.member].rewrite(place.offset, data.clone(), true, id).await;
            match &result {
                Ok(()) if unread => self.corrected(place.member, place.offset..place.offset + length),
                // What takes no writes at all stays as it is, and the first copy is believed again.
                Err(DeviceError::ReadOnly | DeviceError::NoSpace) => refused = true,
                Ok(()) | Err(DeviceError::Medium { .. }) => {}
                Err(error) => self.could_not_store(place.member, error),
            }
            written.push((place, result));
        }
        self.pool.take_back(data);
        if let Err(error) = self.lose_unwritten(range.start, length, &written) {
            return (into, Err(error));
        }
        if !refused {
            self.synced.add(range);
        }
        (into, Ok(()))
    }

    /// Whether no member is left that could hold a range of one unit.
    fn is_gone_at(&self, range: &Range<Bytes>) -> bool {
        self.places_of(range.clone()).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kib(range: Range<u64>) -> Range<Bytes> {
        Bytes::kib(range.start)..Bytes::kib(range.end)
    }

    #[test]
    fn ranges_that_touch_or_overlap_become_one() {
        let synced = Synced::default();
        for range in [10..20, 30..40, 20..25, 50..60, 24..31, 70..70] {
            synced.add(kib(range));
        }
        assert_eq!(synced.durable.borrow().len(), 2);
        assert!([10..40, 12..39, 50..60].into_iter().all(|range| synced.holds(&kib(range))));
        assert!(![9..11, 39..41, 40..50, 55..61, 0..1].into_iter().any(|range| synced.holds(&kib(range))));
        synced.add(kib(0..100));
        assert!(synced.durable.borrow().len() == 1 && synced.holds(&kib(0..100)));
    }

    #[test]
    fn what_was_passed_counts_from_the_flush_on_that_covers_it() {
        let synced = Synced::default();
        assert!(synced.is_volatile(&kib(0..4)), "what was found may be in caches");
        synced.flushed(0);
        synced.pass(kib(0..64));
        let upto = synced.passes.get();
        synced.pass(kib(64..128));
        assert!(synced.is_volatile(&kib(60..64)) && !synced.holds(&kib(0..64)));
        synced.flushed(upto);
        assert!(synced.holds(&kib(0..64)) && !synced.is_volatile(&kib(0..64)));
        assert!(!synced.holds(&kib(64..128)) && synced.is_volatile(&kib(100..104)));
    }

    #[test]
    fn too_many_ranges_are_forgotten() {
        let synced = Synced::default();
        let number = 2 * REMEMBERED as u64 + 3;
        (0..number).for_each(|at| synced.add(kib(2 * at..2 * at + 1)));
        assert!(synced.durable.borrow().len() <= REMEMBERED);
        assert!(synced.holds(&kib(2 * number - 2..2 * number - 1)));
    }
}
