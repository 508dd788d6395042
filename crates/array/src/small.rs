//! The small write: within one chunk of a row that has one parity, with both their members sound and no log to keep.
//!
//! It is the write that a busy array sees most, a read-modify-write like others (see `stripe`), written out by itself:
//! two reads, one sum, two writes, and no lists of members, ways and parities between them. What that saves is not work
//! but room: the general way's code and state are more than a processor's first caches hold, and are fetched anew for
//! every write (`benchsuite array` has the figures). Whatever is not as it should be is left to the general way.

use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;

use device::{Data, Device, DeviceError, Request};
use units::Bytes;
use units::Duration;

use crate::array::Array;
use crate::few::Few;
use crate::geometry::Stripe;
use crate::rarely::rarely;
use crate::room::Refused;
use crate::stripe::Band;
use crate::timeout::{Outcome, both_within};

impl<D: Device> Array<D> {
    /// Writes so, if it can be done, and takes the data; if not, says so, and nothing was changed. What comes back is
    /// small, data borrowed and error boxed, as it is moved once for each future that it passes.
    pub(crate) async fn write_small(
        &self,
        at: Bytes,
        data: &mut Data,
        fua: bool,
        id: u64,
    ) -> Result<bool, Box<DeviceError>> {
        let length = data.len();
        // Of two data chunks one can be read alone, instead of the one that is written and the parity.
        let one_of_many = self.geometry.level().parities() == 1 && self.geometry.members() > 3;
        let changes = !self.reconstructs.get();
        let unlogged = self.ppl.is_none() && self.journal.is_none() && !self.is_charged();
        // Where a member is missing, or room is short, parity goes first.
        let unordered = self.all_plain() && !self.room.is_short();
        if !(one_of_many && changes && unlogged && unordered && data.bytes().is_some()) {
            return Ok(false);
        }
        let (row, own, stripe, range) = {
            let (row, stripe, place) = self.geometry.in_row(at);
            if length > place.run {
                return Ok(false);
            }
            (row, place.member, stripe, place.offset..place.offset + length)
        };
        let parity = stripe.p();
        // Who must wait may go together with others.
        let Some(_lock) = self.locks.try_lock(row) else { return Ok(false) };
        let limit = self.members[own].limit();
        let mut timer = self.time_outs.take(&self.runtime, limit);

        let (old, mut sum) = {
            let (Some(data_on), Some(parity_on)) = self.plain(own, parity) else { return Ok(false) };
            let read = |member: usize| {
                Request::read(self.members[member].data_offset() + range.start, self.pool.take(length)).with_id(id)
            };
            let (old, sum) = (pin!(data_on.submit(read(own))), pin!(parity_on.submit(read(parity))));
            let (mut of_data, mut of_parity) = (None, None);
            both_within(&self.runtime, limit, &mut timer, old, sum, (&mut of_data, &mut of_parity)).await;
            match (of_data, of_parity) {
                (Some((Ok(()), Some(old))), Some((Ok(()), Some(sum)))) => (old, sum),
                (old, sum) => {
                    for (member, device, outcome) in [(own, &data_on, old), (parity, &parity_on, sum)] {
                        // What its medium cannot give, the general way asks for again.
                        let outcome = outcome.map_or(Err(DeviceError::TimedOut(limit)), |(result, _)| result);
                        if self.members[member].is_on(device) {
                            outcome.unwrap_or_else(|error| self.judge(member, &error));
                        }
                    }
                    return Ok(false);
                }
            }
        };
        match (old.bytes(), data.bytes(), sum.bytes_mut()) {
            (Some(old), Some(new), Some(sum)) => self.kernel.add(&[old, new], sum),
            _ => return Ok(false),
        }
        self.pool.give(old);

        let sum = sum.freeze();
        let (mut stored, mut summed) = (None, None);
        // One of them may have failed meanwhile.
        let (Some(data_on), Some(parity_on)) = self.plain(own, parity) else { return Ok(false) };
        {
            let write = |member: usize, data: Data| {
                let mut request = Request::write(self.members[member].data_offset() + range.start, data).with_id(id);
                request.fua = fua;
                request
            };
            let one = pin!(data_on.submit(write(own, data.clone())));
            let other = pin!(parity_on.submit(write(parity, sum.clone())));
            both_within(&self.runtime, limit, &mut timer, one, other, (&mut stored, &mut summed)).await;
        }
        self.time_outs.give(timer);
        if let (Some((Ok(()), _)), Some((Ok(()), _))) = (&stored, &summed) {
            self.pool.take_back(sum);
            return Ok(true);
        }
        let own = Half { member: own, device: data_on, outcome: stored, sent: data.clone() };
        let parity = Half { member: parity, device: parity_on, outcome: summed, sent: sum };
        rarely(|| self.after_small(stripe, range, own, parity, limit, (fua, id))).await.map(|()| true).map_err(Box::new)
    }

    /// Judges members of which one at least did not store what it was sent, and takes back what was refused for want of
    /// room. Good if what is left is enough. A device that has lost its place meanwhile is not judged: another has that
    /// place, and is still to be rebuilt there.
    async fn after_small(
        &self,
        stripe: Stripe,
        range: Range<Bytes>,
        own: Half<D>,
        parity: Half<D>,
        limit: Duration,
        (fua, id): (bool, u64),
    ) -> Result<(), DeviceError> {
        let mut refused: Few<usize> = Few::new();
        for Half { member, device, outcome, .. } in [&own, &parity] {
            if !self.members[*member].is_on(device) {
                continue;
            }
            match outcome.as_ref().map(|(result, _)| result) {
                Some(Ok(())) => {}
                Some(Err(DeviceError::NoSpace)) => refused.push(*member),
                Some(Err(error)) => self.could_not_store(*member, error),
                None => self.could_not_store(*member, &DeviceError::TimedOut(limit)),
            }
        }
        if !refused.is_empty() {
            let band = Band::of_chunk(stripe, range, stripe.data_index(own.member), own.sent);
            let of = Refused { by: &refused, data_were_sent: true, parities_before: &[] };
            self.take_back(&band, &[(parity.member, parity.sent)], of, fua, id).await;
            return Err(DeviceError::NoSpace);
        }
        self.is_left_enough(&stripe, &range)
    }

    /// The devices of two members, if nothing but these has to know of a write.
    fn plain(&self, own: usize, parity: usize) -> (Option<Rc<D>>, Option<Rc<D>>) {
        (self.members[own].plain(), self.members[parity].plain())
    }
}

/// What became of one of the two writes.
struct Half<D> {
    member: usize,
    device: Rc<D>,
    outcome: Option<Outcome>,
    sent: Data,
}
