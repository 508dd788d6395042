//! Reading: straight from one member where it can be, computed from the others where it must be.
//!
//! What the medium of a member cannot give is taken from elsewhere and written back there, so that the drive remaps the
//! sector; a member that fails in another way, or cannot take what is written back, is used no more, nor is one that
//! fails so too often (see `unreadable`).

use std::ops::Range;

use device::{Buffer, Device, DeviceError};
use futures_util::future::join_all;
use units::Bytes;

use crate::array::Array;
use crate::geometry::Place;
use crate::rarely::rarely;

impl<D: Device> Array<D> {
    pub(crate) async fn read(&self, start: Bytes, into: Buffer, id: u64) -> (Buffer, Result<(), DeviceError>) {
        if start + into.len() <= start + self.geometry.place(start).run {
            return self.read_run(start..start + into.len(), into, id).await;
        }
        let runs = Self::pieces(start..start + into.len(), |at| at + self.geometry.place(at).run);
        let mut rest = into;
        let parts: Vec<(Range<Bytes>, Buffer)> = runs
            .into_iter()
            .map(|run| {
                let part = rest.split_to(run.end - run.start);
                (run, part)
            })
            .collect();
        let done = join_all(parts.into_iter().map(|(run, part)| self.read_run(run, part, id))).await;
        let mut done = done.into_iter();
        let Some((mut whole, mut result)) = done.next() else { return (rest, Ok(())) };
        for (part, other) in done {
            whole.join(part);
            result = result.and(other);
        }
        (whole, result)
    }

    /// Reads a range that lies on one member, or on one set of copies.
    async fn read_run(&self, run: Range<Bytes>, into: Buffer, id: u64) -> (Buffer, Result<(), DeviceError>) {
        let length = run.end - run.start;
        if self.may_differ(&run) {
            return rarely(|| self.read_unsynced(run, into, id)).await;
        }
        let copies = (0..self.geometry.copies()).map(|copy| self.geometry.copy(run.start, copy));
        let current =
            copies.filter(|place| self.members[place.member].is_current(&(place.offset..place.offset + length)));
        let mut into = into;
        // The member with the fewest reads under way; the first of several.
        let rank = |place: &Place| (self.members[place.member].is_last(), self.members[place.member].reading());
        let Some(place) = current.min_by_key(rank) else {
            return rarely(|| self.read_again(run, into, None, id)).await;
        };
        let result;
        (into, result) = self.members[place.member].read(place.offset, into, id).await;
        match result {
            Ok(()) => (into, Ok(())),
            Err(error) => {
                self.judge(place.member, &error);
                if self.geometry.level().losses_survived(self.members.len()) == 0 {
                    return (into, Err(error));
                }
                rarely(|| self.read_again(run, into, Some(place.member), id)).await
            }
        }
    }

    /// Reads a range by all means there are, after `suspect` failed to give it, unit by unit under their locks, and
    /// mends what could not be read.
    async fn read_again(
        &self,
        run: Range<Bytes>,
        into: Buffer,
        suspect: Option<usize>,
        id: u64,
    ) -> (Buffer, Result<(), DeviceError>) {
        let units = Self::pieces(run, |at| self.unit(at).1);
        let (mut rest, mut parts, mut result) = (into, Vec::new(), Ok(()));
        for unit in units {
            let part = rest.split_to(unit.end - unit.start);
            let _lock = self.locks.lock(self.unit(unit.start).0).await;
            let (mut part, outcome) = self.compute(unit.clone(), part, suspect, id).await;
            if outcome.is_ok() || unit.end - unit.start <= self.block() {
                result = result.and(outcome);
                parts.push(part);
                continue;
            }
            // Too much of the unit is lost at once. Block by block it may be different blocks that are lost on
            // different members.
            for block in self.blocks(unit) {
                let one = part.split_to(block.end - block.start);
                let (one, outcome) = self.compute(block, one, suspect, id).await;
                result = result.and(outcome);
                parts.push(one);
            }
        }
        let mut parts = parts.into_iter();
        let mut whole = parts.next().expect("a run is not empty");
        parts.for_each(|part| whole.join(part));
        (whole, result)
    }

    /// Reads a range of one chunk from wherever it can be had. The caller holds the lock.
    pub(crate) async fn read_locked(&self, range: Range<Bytes>, id: u64) -> Result<Buffer, DeviceError> {
        let place = self.geometry.place(range.start);
        let length = range.end - range.start;
        let member = &self.members[place.member];
        if member.is_current(&(place.offset..place.offset + length)) {
            let (buffer, result) = member.read(place.offset, Buffer::zeroed(length), id).await;
            match result {
                Ok(()) => return Ok(buffer),
                Err(error) => self.judge(place.member, &error),
            }
        }
        let (buffer, result) = self.reconstruct(range, Buffer::zeroed(length), id).await;
        result.map(|()| buffer)
    }

    /// The smallest amount that a member can give.
    pub(crate) fn block(&self) -> Bytes {
        self.shape().logical_block
    }

    /// A range, block by block.
    pub(crate) fn blocks(&self, range: Range<Bytes>) -> Vec<Range<Bytes>> {
        let block = self.block();
        Self::pieces(range, |at| at.round_down(block) + block)
    }

    /// Reads a range of one unit from wherever it can be had. The caller holds the lock.
    async fn compute(
        &self,
        range: Range<Bytes>,
        into: Buffer,
        suspect: Option<usize>,
        id: u64,
    ) -> (Buffer, Result<(), DeviceError>) {
        if self.geometry.level().parities() > 0 {
            self.reconstruct(range, into, id).await
        } else {
            self.read_other_copy(range, into, suspect, id).await
        }
    }

    /// Tries one copy after the other, and writes what one gives to those whose medium could not. The one that failed
    /// before comes first, as only what fails here is mended. The caller holds the lock.
    pub(crate) async fn read_other_copy(
        &self,
        range: Range<Bytes>,
        into: Buffer,
        suspect: Option<usize>,
        id: u64,
    ) -> (Buffer, Result<(), DeviceError>) {
        let length = range.end - range.start;
        let (mut into, mut unreadable, mut failed) = (into, Vec::new(), Vec::new());
        let mut places: Vec<Place> =
            (0..self.geometry.copies()).map(|copy| self.geometry.copy(range.start, copy)).collect();
        places.sort_by_key(|place| (Some(place.member) != suspect, self.members[place.member].is_last()));
        for place in places {
            let member = &self.members[place.member];
            if !member.is_current(&(place.offset..place.offset + length)) {
                // A range that is marked bad is mended like one that cannot be read.
                if member.takes_writes(&(place.offset..place.offset + length)) {
                    unreadable.push(place);
                }
                continue;
            }
            let result;
            (into, result) = member.read(place.offset, into, id).await;
            match result {
                Ok(()) => {
                    into = self.mend(unreadable, into, id).await;
                    failed
                        .into_iter()
                        .for_each(|place: Place| self.corrected(place.member, place.offset..place.offset + length));
                    return (into, Ok(()));
                }
                Err(DeviceError::Medium { .. }) => {
                    unreadable.push(place);
                    failed.push(place);
                }
                Err(error) => self.judge(place.member, &error),
            }
        }
        // Nobody is there who could have had it; or a medium could not give it.
        let medium = DeviceError::Medium { offset: range.start, length };
        (into, Err(if unreadable.is_empty() { DeviceError::Gone } else { medium }))
    }

    /// Writes what was read elsewhere to places that could not give it. Gives the bytes back in memory of the caller's.
    pub(crate) async fn mend(&self, places: Vec<Place>, bytes: Buffer, id: u64) -> Buffer {
        if places.is_empty() || self.rival().is_some() {
            return bytes;
        }
        // A copy, as the writes share it with devices that may hold on to it; this is the rare path.
        let mut copy = Self::scratch(bytes.len(), bytes.bytes().is_none());
        if let (Some(to), Some(from)) = (copy.bytes_mut(), bytes.bytes()) {
            to.copy_from_slice(from);
        }
        let copy = copy.freeze();
        for place in places {
            match self.members[place.member].rewrite(place.offset, copy.clone(), false, id).await {
                Ok(()) => {}
                Err(DeviceError::NoSpace) => {
                    self.give_up_range(place.member, place.offset..place.offset + copy.len());
                }
                Err(error) => self.could_not_store(place.member, &error),
            }
        }
        bytes
    }
}
