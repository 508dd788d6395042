//! Computing what is lost of a stripe from what is left of it, and mending it where that is possible.

use std::ops::Range;

use device::{Buffer, Device, DeviceError, Pool};
use parity::{Parities, recover};
use units::Bytes;

use crate::array::Array;
use crate::geometry::{Place, Stripe};

/// What all members hold in a range, by member. Its memory goes back to the pool.
pub(crate) struct Recovered<'a> {
    pool: &'a Pool,
    all: Vec<Buffer>,
}

impl Recovered<'_> {
    /// What this member holds.
    pub fn of(&self, member: usize) -> &Buffer {
        &self.all[member]
    }
    /// The same, to keep.
    pub fn take(mut self, member: usize) -> Buffer {
        self.all.swap_remove(member)
    }
}

impl Drop for Recovered<'_> {
    fn drop(&mut self) {
        self.all.drain(..).for_each(|buffer| self.pool.give(buffer));
    }
}

impl<D: Device> Array<D> {
    /// What all members hold, or should hold, in a range of a stripe, by member; those in `missing` are computed. An
    /// error names a further member that is missing, or one of them if there are too many.
    pub(crate) async fn recover(
        &self,
        stripe: &Stripe,
        range: &Range<Bytes>,
        missing: Vec<usize>,
        phantom: bool,
        id: u64,
    ) -> Result<Recovered<'_>, usize> {
        let kinds = if stripe.q().is_some() { Parities::PAndQ } else { Parities::P };
        if missing.len() > kinds.count() {
            return Err(missing[0]);
        }
        let there: Vec<usize> = stripe.members().filter(|member| !missing.contains(member)).collect();
        let read = self.read_band(range, &there, phantom, id).await?;
        self.pay(there.len(), missing.len(), range.end - range.start, id).await;
        let mut all: Vec<Option<Buffer>> = stripe.members().map(|_| None).collect();
        for (member, buffer) in there.into_iter().zip(read) {
            all[member] = Some(buffer);
        }
        let mut all: Vec<Buffer> = all
            .into_iter()
            .map(|buffer| buffer.unwrap_or_else(|| Self::scratch(range.end - range.start, phantom)))
            .collect();
        if !phantom {
            let length = (range.end - range.start).as_usize();
            // Data by power, then P and Q: the order of `parity::recover`. DDF has zeroes between.
            let slot = |member: usize| match member {
                member if member == stripe.p() => stripe.powers(),
                member if Some(member) == stripe.q() => stripe.powers() + 1,
                member => stripe.power_of(stripe.data_index(member)),
            };
            let mut gaps: Vec<Vec<u8>> = Vec::new();
            gaps.resize_with(stripe.powers() - stripe.data(), || vec![0; length]);
            let mut gaps = gaps.iter_mut();
            let mut blocks: Vec<Option<&mut [u8]>> = Vec::new();
            blocks.resize_with(stripe.powers() + kinds.count(), || None);
            for (member, buffer) in all.iter_mut().enumerate() {
                blocks[slot(member)] = buffer.bytes_mut();
            }
            let mut blocks: Vec<&mut [u8]> = blocks
                .into_iter()
                .map(|block| {
                    block.unwrap_or_else(|| gaps.next().expect("as many gaps as powers without data").as_mut_slice())
                })
                .collect();
            let lost: Vec<usize> = missing.iter().map(|member| slot(*member)).collect();
            recover(self.kernel, &mut blocks, kinds, &lost);
        }
        Ok(Recovered { pool: &self.pool, all })
    }

    /// Reads a range within one row by computing what cannot be read, and mends it. The caller holds the row's lock.
    pub(crate) async fn reconstruct(
        &self,
        range: Range<Bytes>,
        into: Buffer,
        id: u64,
    ) -> (Buffer, Result<(), DeviceError>) {
        let place = self.geometry.place(range.start);
        let length = range.end - range.start;
        let on_members = place.offset..place.offset + length;
        let stripe = self.geometry.stripe(self.unit(range.start).0);
        let phantom = into.bytes().is_none();
        let mut missing = self.missing(&stripe, &on_members);
        let known = missing.len();
        loop {
            match self.recover(&stripe, &on_members, missing.clone(), phantom, id).await {
                Ok(all) => {
                    let mut into = into;
                    if let (Some(to), Some(from)) = (into.bytes_mut(), all.of(place.member).bytes()) {
                        to.copy_from_slice(from);
                    }
                    self.mend_computed(&all, &missing, &on_members, id).await;
                    missing[known..].iter().for_each(|member| self.corrected(*member, on_members.clone()));
                    return (into, Ok(()));
                }
                Err(member) if missing.contains(&member) => {
                    return self.read_direct(range, place, into, id).await;
                }
                Err(member) => missing.push(member),
            }
        }
    }

    /// Writes what was computed of a range to those of the members that it is missing on and that take it.
    pub(crate) async fn mend_computed(&self, all: &Recovered<'_>, missing: &[usize], range: &Range<Bytes>, id: u64) {
        for &member in missing.iter().filter(|member| self.members[**member].takes_writes(range)) {
            let place = Place { member, offset: range.start, run: range.end - range.start };
            self.mend(vec![place], Self::copy_of(all.of(member)), id).await;
        }
    }

    /// The last resort, when too much of a row is lost to compute anything: the member itself, if it has not failed.
    async fn read_direct(
        &self,
        range: Range<Bytes>,
        place: Place,
        into: Buffer,
        id: u64,
    ) -> (Buffer, Result<(), DeviceError>) {
        let (offset, length) = (range.start, range.end - range.start);
        if !self.members[place.member].is_current(&(place.offset..place.offset + length)) {
            let medium = DeviceError::Medium { offset, length };
            return (into, Err(if self.is_broken() { DeviceError::Gone } else { medium }));
        }
        let (into, result) = self.members[place.member].read(place.offset, into, id).await;
        (into, result.map_err(|_| DeviceError::Medium { offset, length }))
    }

    fn copy_of(buffer: &Buffer) -> Buffer {
        let mut copy = Self::scratch(buffer.len(), buffer.bytes().is_none());
        if let (Some(to), Some(from)) = (copy.bytes_mut(), buffer.bytes()) {
            to.copy_from_slice(from);
        }
        copy
    }
}
