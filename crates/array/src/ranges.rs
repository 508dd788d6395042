//! Ranges that are zeroed or discarded, and those that are holes.
//!
//! Where there is no parity the members do it themselves: nothing is moved, on files holes are made, and disks unmap.
//! What lies side by side on a member is one request, so that zeroing 64 MiB of level 0 over four members is four. It
//! takes an array that is whole and keeps no checksums; otherwise zeroes are written like other data, and nothing is
//! forgotten.
//!
//! With parity every row would be zeroed by itself, under its log: a command of a chunk for each member and row, of
//! which there are millions where a file system is made. So zeroes are written there, too, and a discard forgets
//! nothing, as with md unless it is told that its disks discard safely (`raid456.devices_handle_discard_safely`). It
//! would have to zero whatever it discards, or parity would not fit.
//!
//! What a discarded range reads as is nobody's promise, here as elsewhere: as before, as zeroes, and where the members'
//! discards give no zeroes, perhaps differently each time. A scrub then counts blocks that differ, as md's does, and
//! whoever writes the range makes them alike again.

use std::collections::BTreeMap;
use std::ops::Range;

use device::{Buffer, Device, DeviceError, Extent, Request};
use units::Bytes;

use crate::array::Array;
use crate::bad::joined;
use crate::count::UnderWay;
use crate::few::{Few, side_by_side};
use crate::rarely::rarely;

/// Of how much the members are asked at once: what they then have to write themselves is done within the time that a
/// request is given.
const STEP: Bytes = Bytes::mib(64);
/// What is written at once where they cannot do it, so that memory for zeroes stays small.
const WRITTEN: Bytes = Bytes::mib(1);
/// Fewer zeroes than this are written: holes of that size break up a file, and cost its next writers more than they
/// save.
const FEW: Bytes = Bytes::kib(64);

impl<D: Device> Array<D> {
    pub(crate) async fn write_zeroes(&self, zeroes: Request) -> Result<(), Box<DeviceError>> {
        let (start, end) = (zeroes.offset, zeroes.offset + zeroes.length);
        let mut result = Ok(());
        for step in Self::pieces(start..end, |at| (at + STEP).round_down(STEP)) {
            let zero = |range: &Range<Bytes>| Request {
                punch: zeroes.punch,
                ..Request::write_zeroes(range.start, range.end - range.start).with_id(zeroes.id)
            };
            let done = match step.end - step.start {
                few if few < FEW => None,
                _ => self.by_members(&step, zero).await?,
            };
            // What some of them did not do is done again in the way that knows what to make of a member's errors.
            if done.is_none_or(|results| results.iter().any(|(_, result)| result.is_err())) {
                for piece in Self::pieces(step, |at| at + WRITTEN) {
                    let mut data = Buffer::zeroed(piece.end - piece.start).freeze();
                    result = result.and(self.write(piece.start, &mut data, zeroes.fua, zeroes.id).await);
                }
            } else if zeroes.fua {
                // There are no durable zeroes.
                self.flush(zeroes.id).await?;
            }
        }
        result
    }

    /// Forgets what can be forgotten.
    pub(crate) async fn discard(&self, range: Range<Bytes>, id: u64) -> Result<(), Box<DeviceError>> {
        for step in Self::pieces(range, |at| (at + STEP).round_down(STEP)) {
            let discard = |range: &Range<Bytes>| Request::discard(range.start, range.end - range.start).with_id(id);
            let Some(done) = self.by_members(&step, discard).await? else { return Ok(()) };
            // Forgetting is a wish; but who is gone is found out by whatever it is asked.
            for (member, result) in done {
                if let Err(error) = result
                    && error != DeviceError::Unsupported
                {
                    self.judge(member, &error);
                }
            }
            self.unbroken()?;
        }
        Ok(())
    }

    /// Sends what `request` makes of a range of a member's data area to whoever holds a part of this range of the
    /// array, and gives what each made of it. `None` if they are not to do it themselves: then nothing was sent.
    async fn by_members(
        &self,
        range: &Range<Bytes>,
        request: impl Fn(&Range<Bytes>) -> Request,
    ) -> Result<Option<Few<(usize, Result<(), DeviceError>)>>, Box<DeviceError>> {
        if !self.is_plain() {
            return Ok(None);
        }
        // What a write has to do before and after; there it is written out, as it must cost little.
        self.unbroken()?;
        self.writes_begun.set(self.writes_begun.get() + 1);
        let _under_way = UnderWay::new(&self.writes_under_way);
        if let Some(state) = &self.state
            && !self.may_write(state)
        {
            rarely(|| self.tell(state)).await?;
        }
        let marked = match &self.intent {
            Some(intent) => Some(self.mark(intent, range.clone()).await?),
            None => None,
        };
        let done = {
            let _pass = self.gate.pass().await;
            // In the order of addresses, so that two who want the same ones do not wait for each other.
            let mut locks = Vec::new();
            if self.geometry.copies() > 1 {
                let last = self.unit(range.end - Bytes::new(1)).0;
                for unit in self.unit(range.start).0..=last {
                    locks.push(self.locks.lock(unit).await);
                }
            }
            if self.is_plain() {
                let send = |(member, run): (usize, Range<Bytes>)| {
                    let place = &self.members[member];
                    let at = place.data_offset() + run.start;
                    let request = request(&(at..at + (run.end - run.start)));
                    async move { (member, place.send(request).await.result) }
                };
                Some(side_by_side(self.runs(range).into_iter().map(send)).await)
            } else {
                None
            }
        };
        drop(marked);
        if let Some(results) = &done {
            self.give_up_late(results)?;
        }
        if !self.may_answer() {
            rarely(|| self.settle()).await?;
        }
        Ok(done)
    }

    /// What a member did not do in time it may do yet, over whatever is written there from now on. So it is used no
    /// more, and where the array cannot do without it nothing is done in its place.
    fn give_up_late(&self, results: &[(usize, Result<(), DeviceError>)]) -> Result<(), Box<DeviceError>> {
        for (member, result) in results {
            let Err(late @ DeviceError::TimedOut(_)) = result else { continue };
            if self.geometry.level().losses_survived(self.members.len()) == 0 {
                return Err(late.clone().into());
            }
            self.could_not_store(*member, late);
        }
        Ok(self.unbroken()?)
    }

    /// Whether nobody but the members has to know what is zeroed.
    fn is_plain(&self) -> bool {
        self.geometry.level().parities() == 0 && self.all_plain() && !self.is_charged()
    }

    /// Where a range lies at levels without parity: members, and what they hold of it in one piece.
    fn runs(&self, range: &Range<Bytes>) -> Vec<(usize, Range<Bytes>)> {
        let mut held: BTreeMap<usize, Vec<Range<Bytes>>> = BTreeMap::new();
        let mut at = range.start;
        while at < range.end {
            // Copies begin and end together.
            let length = self.geometry.copy(at, 0).run.min(range.end - at);
            for place in (0..self.geometry.copies()).map(|copy| self.geometry.copy(at, copy)) {
                assert!(place.run >= length, "a copy is as long as the first");
                held.entry(place.member).or_default().push(place.offset..place.offset + length);
            }
            at += length;
        }
        let of_member = |(member, ranges)| joined(ranges).into_iter().map(move |range| (member, range));
        held.into_iter().flat_map(of_member).collect()
    }

    /// What the member that is read first knows of what it holds of a range, as far as that lies there in one piece. A
    /// hole there is read as zeroes, whatever the others hold; of a member that is not current, or is to be read last,
    /// or of which more is kept than data, or where copies may differ, nothing is known.
    pub(crate) fn extent_of(&self, offset: Bytes, length: Bytes) -> Extent {
        let place = self.geometry.place(offset);
        let length = length.min(place.run);
        let member = &self.members[place.member];
        let differs = self.may_differ(&(offset..offset + length));
        match member.plain().filter(|_| !member.is_last() && !differs) {
            Some(device) => device.extent(member.data_offset() + place.offset, length),
            None => Extent::data(length),
        }
    }
}
