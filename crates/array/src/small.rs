//! The small write: within one chunk of a row that has one parity, with both their members sound and no log to keep.
//!
//! It is the write that a busy array sees most, a read-modify-write like others (see `stripe`), written out by itself: two reads, one sum,
//! two writes, and no lists of members, ways and parities between them. What that saves is not work but room: the general way's code and
//! state are more than a processor's first caches hold, and are fetched anew for every write (`benchsuite array` has the figures).
//! Whatever is not as it should be is left to the general way.

use std::pin::pin;

use device::{Buffer, Data, Device, DeviceError, Request};
use futures_util::future::join;
use units::Bytes;

use crate::array::Array;
use crate::geometry::{Place, Stripe};
use crate::member::Member;

impl<D: Device> Array<D> {
    /// Writes so, if it can be done; if not, nothing was changed. The caller holds the row's lock.
    pub(crate) async fn write_small(
        &self,
        stripe: &Stripe,
        place: Place,
        data: &Data,
        fua: bool,
        id: u64,
    ) -> Option<Result<(), DeviceError>> {
        // Of two data chunks one can be read alone, instead of the one that is written and the parity.
        let fits = data.len() <= place.run && stripe.data() > 2 && stripe.q().is_none();
        let unlogged = self.ppl.is_none() && self.journal.is_none();
        let (own, parity) = (&self.members[place.member], &self.members[stripe.p()]);
        let range = place.offset..place.offset + data.len();
        let sound = |member: &Member<D>| member.is_current(&range) && member.checksums().is_none();
        if !(fits && unlogged && sound(own) && sound(parity)) {
            return None;
        }
        let new = data.bytes()?;
        let (old, mut sum) = {
            let old = pin!(self.read_whole(place.member, place.offset, data.len(), id));
            let sum = pin!(self.read_whole(stripe.p(), place.offset, data.len(), id));
            let (old, sum) = join(old, sum).await;
            (old?, sum?)
        };
        self.pay(2, 1, data.len(), id).await;
        self.kernel.add(&[old.bytes()?, new], sum.bytes_mut()?);
        self.pool.give(old);
        let sum = sum.freeze();
        let (stored, summed) = {
            let own = pin!(own.write(place.offset, data.clone(), fua, id));
            let parity = pin!(parity.write(place.offset, sum.clone(), fua, id));
            join(own, parity).await
        };
        self.pool.take_back(sum);
        if let (Ok(()), Ok(())) = (&stored, &summed) {
            return Some(Ok(()));
        }
        for (member, written) in [(place.member, stored), (stripe.p(), summed)] {
            if let Err(error) = written {
                self.could_not_store(member, &error);
            }
        }
        Some(self.is_left_enough(stripe, &range))
    }

    /// What a member holds; `None` if it does not give it. What its medium cannot give, the general way asks for again.
    async fn read_whole(&self, member: usize, offset: Bytes, length: Bytes, id: u64) -> Option<Buffer> {
        let this = &self.members[member];
        let request = Request::read(this.data_offset() + offset, self.pool.take(length)).with_id(id);
        let reply = this.send(request).await;
        reply.result.inspect_err(|error| self.judge(member, error)).ok().and(reply.buffer)
    }
}
