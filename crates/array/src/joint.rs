//! The joint write: the bands of a row at once, with at most one read and one write of each member.
//!
//! A write that starts or ends within a chunk has several bands (see `stripe`). Band by band, a member that is in two
//! of them is asked twice, and the bands wait for each other: 8 KiB and a fragment behind them on 4+1 are nine requests
//! in four rounds, ten if all writes reconstruct. Here ranges that adjoin on a member are one request: six in two
//! rounds. Linux' md comes to the same: it asks page by page, and the block layer merges the pages.
//!
//! | way | reads |
//! |---|---|
//! | parity of all data | of each data chunk, what the write leaves alone of the bands' range |
//! | parity changed | of each written chunk, what is written; the parities over the whole range |
//!
//! The one with fewer reads is taken, as in a single band. It needs sound members, enough room, and no log to keep;
//! any other row is left to the general way, before anything was written.
//!
//! Rejected: bands with a gap between them, as of the end of a chunk and the beginning of the next. They adjoin on no
//! member.

use std::ops::Range;

use device::{Buffer, Data, Device, DeviceError};
use units::Bytes;

use crate::array::Array;
use crate::few::{Few, side_by_side};
use crate::geometry::Stripe;
use crate::rarely::rarely;
use crate::room::Refused;
use crate::stripe::{Band, Parities};

/// The range that bands follow each other in, if they do.
fn range_of(bands: &[Band]) -> Option<Range<Bytes>> {
    let adjoin = bands.array_windows().all(|[one, next]: &[Band; 2]| one.range.end == next.range.start);
    let (first, last) = (bands.first()?, bands.last()?);
    (bands.len() > 1 && adjoin).then_some(first.range.start..last.range.end)
}

/// What becomes of a data chunk in the range of all bands.
struct Share {
    written: Option<Range<Bytes>>,
    /// What is left alone of it. A write within one chunk is one band, so this is in one piece.
    left: Option<Range<Bytes>>,
}

impl Share {
    fn of(index: usize, bands: &[Band], range: &Range<Bytes>) -> Share {
        let mut of_it = bands.iter().filter(|band| band.written.contains(&index)).map(|band| &band.range);
        let Some(first) = of_it.next() else { return Share { written: None, left: Some(range.clone()) } };
        let written = first.start..of_it.last().unwrap_or(first).end;
        let left = match (written.start > range.start, written.end < range.end) {
            (false, false) => None,
            (true, false) => Some(range.start..written.start),
            (false, true) => Some(written.end..range.end),
            (true, true) => unreachable!("what lies within one chunk is one band"),
        };
        Share { written: Some(written), left }
    }
}

/// The bytes of a range in what was read from `start` on.
fn part<'b>(bytes: &'b [u8], start: Bytes, range: &Range<Bytes>) -> &'b [u8] {
    &bytes[(range.start - start).as_usize()..(range.end - start).as_usize()]
}

impl<D: Device> Array<D> {
    /// Writes all bands of one write so, if it can be done; if not, says so, and nothing was changed. The caller holds
    /// the row's lock.
    pub(crate) async fn write_jointly(&self, bands: &[Band], fua: bool, id: u64) -> Result<bool, DeviceError> {
        let plain = || self.all_plain() && !self.room.is_short() && self.ppl.is_none() && self.journal.is_none();
        let Some(range) = range_of(bands).filter(|_| plain()) else { return Ok(false) };
        let stripe = bands[0].stripe;
        let shares: Vec<Share> = (0..stripe.data()).map(|index| Share::of(index, bands, &range)).collect();
        let written = || shares.iter().filter_map(|share| share.written.as_ref());
        let left = shares.iter().filter(|share| share.left.is_some()).count();
        let all = self.reconstructs.get() || left < written().count() + stripe.parity_members().count();
        let parities = match all {
            true => self.joint_parities(bands, &range, &shares).read_what_is_left(id).await,
            false => self.joint_parities(bands, &range, &shares).read_what_changes(id).await,
        };
        // Somebody may have failed meanwhile, and it is for the general way to say who.
        let Some(parities) = parities.filter(|_| plain()) else { return Ok(false) };
        let new = shares.iter().enumerate().filter_map(|(index, share)| {
            let written = share.written.as_ref()?;
            let first = bands.iter().find(|band| band.written.contains(&index)).expect("it is written in one");
            Some((stripe.data_member(index), written.start, first.new_data_from(index, written.end - written.start)))
        });
        let of_parity = parities.iter().map(|(member, parity)| (*member, range.start, parity.clone()));
        let writes: Few<(usize, Bytes, Data)> = new.chain(of_parity).collect();
        let store = |(member, at, data): (usize, Bytes, Data)| self.store(member, at, data, fua, id);
        let refused: Few<usize> = side_by_side(writes.into_iter().map(store)).await.into_iter().flatten().collect();
        if !refused.is_empty() {
            rarely(|| self.take_bands_back(bands, &range, &parities, &refused, (fua, id))).await;
            return Err(DeviceError::NoSpace);
        }
        parities.into_iter().for_each(|(_, parity)| self.pool.take_back(parity));
        self.is_left_enough(&stripe, &range).map(|()| true)
    }

    /// Takes back the bands in which those who had no room were to store something.
    async fn take_bands_back(
        &self,
        bands: &[Band],
        range: &Range<Bytes>,
        parities: &[(usize, Data)],
        refused: &[usize],
        (fua, id): (bool, u64),
    ) {
        for band in bands {
            let stores = |member: &usize| {
                let of_data = band.written.clone().any(|index| band.stripe.data_member(index) == *member);
                of_data || band.stripe.parity_members().any(|parity| parity == *member)
            };
            let by: Few<usize> = refused.iter().copied().filter(stores).collect();
            if by.is_empty() {
                continue;
            }
            let length = band.range.end - band.range.start;
            let slice =
                |(member, parity): &(usize, Data)| (*member, parity.slice(band.range.start - range.start, length));
            let parities: Vec<(usize, Data)> = parities.iter().map(slice).collect();
            let of = Refused { by: &by, data_were_sent: true, parities_before: &[] };
            self.take_back(band, &parities, of, fua, id).await;
        }
    }

    fn joint_parities<'a>(&'a self, bands: &'a [Band], range: &'a Range<Bytes>, shares: &'a [Share]) -> Joint<'a, D> {
        Joint { array: self, stripe: bands[0].stripe, bands, range, shares }
    }
}

/// The way to new parities of all bands.
struct Joint<'a, D> {
    array: &'a Array<D>,
    stripe: Stripe,
    bands: &'a [Band],
    range: &'a Range<Bytes>,
    shares: &'a [Share],
}

impl<D: Device> Joint<'_, D> {
    fn length(&self) -> Bytes {
        self.range.end - self.range.start
    }

    /// Reads these ranges of members at once; `None` if one of them cannot.
    async fn read(&self, ranges: Few<(usize, Range<Bytes>)>, id: u64) -> Option<Few<Buffer>> {
        let (array, phantom) = (self.array, self.bands[0].is_phantom());
        let read = |(member, range): (usize, Range<Bytes>)| async move {
            let into = array.used_memory(range.end - range.start, phantom);
            let (buffer, result) = array.members[member].read(range.start, into, id).await;
            // What its medium cannot give, the general way asks for again.
            result.is_ok().then_some(buffer)
        };
        side_by_side(ranges.into_iter().map(read)).await.into_iter().collect()
    }

    /// Parities of all data: new where they are written, read where they are left alone.
    async fn read_what_is_left(&self, id: u64) -> Option<Parities> {
        let (array, stripe) = (self.array, &self.stripe);
        let left = |index: usize| Some((index, self.shares[index].left.clone()?));
        let ranges: Few<(usize, Range<Bytes>)> = (0..stripe.data()).filter_map(left).collect();
        let reads = ranges.iter().map(|(index, range)| (stripe.data_member(*index), range.clone())).collect();
        let old = self.read(reads, id).await?;
        let mut parities: Few<Buffer> =
            stripe.parity_members().map(|_| array.used_memory(self.length(), self.bands[0].is_phantom())).collect();
        for band in self.bands {
            array.pay(stripe.data(), parities.len(), band.range.end - band.range.start, id).await;
            if band.is_phantom() {
                continue;
            }
            let block = |index: usize| match band.written.contains(&index) {
                true => band.bytes(index),
                false => {
                    let place = ranges.iter().position(|(other, _)| *other == index).expect("it is left alone here");
                    old[place].bytes().map(|bytes| part(bytes, ranges[place].1.start, &band.range))
                }
            };
            let blocks: Vec<Option<&[u8]>> = (0..stripe.data()).map(block).collect();
            let blocks = array.in_order_of_powers(stripe, &blocks);
            let [p, q] = self.parts(&mut parities, band);
            match (p, q) {
                (Some(p), Some(q)) => array.kernel.both_parities(&blocks, p, q),
                (Some(p), None) => array.kernel.sum(&blocks, p),
                (None, _) => unreachable!("every stripe here has P, and its memory is real"),
            }
        }
        old.into_iter().for_each(|buffer| array.pool.give(buffer));
        Some(self.named(parities))
    }

    /// The old parities, changed by what was and what is to be where something is written.
    async fn read_what_changes(&self, id: u64) -> Option<Parities> {
        let (array, stripe) = (self.array, &self.stripe);
        let written = |index: usize| Some((index, self.shares[index].written.clone()?));
        let ranges: Few<(usize, Range<Bytes>)> = (0..stripe.data()).filter_map(written).collect();
        let of_data = ranges.iter().map(|(index, range)| (stripe.data_member(*index), range.clone()));
        let reads = of_data.chain(stripe.parity_members().map(|member| (member, self.range.clone()))).collect();
        let mut old = self.read(reads, id).await?;
        let mut parities: Few<Buffer> = old.drain(ranges.len()..).collect();
        for band in self.bands {
            array.pay(2 * band.written.len(), parities.len(), band.range.end - band.range.start, id).await;
            for index in band.written.clone() {
                let place = ranges.iter().position(|(other, _)| *other == index).expect("it is written");
                let was = old[place].bytes().map(|bytes| part(bytes, ranges[place].1.start, &band.range));
                let (Some(was), Some(new)) = (was, band.bytes(index)) else { continue };
                let [p, q] = self.parts(&mut parities, band);
                match (p, q) {
                    (Some(p), Some(q)) => array.kernel.update(stripe.power_of(index), was, new, p, q),
                    (Some(p), None) => array.kernel.add(&[was, new], p),
                    (None, _) => unreachable!("every stripe here has P, and its memory is real"),
                }
            }
        }
        old.into_iter().for_each(|buffer| array.pool.give(buffer));
        Some(self.named(parities))
    }

    /// The bytes of P, and of Q where there is one, that are a band's.
    fn parts<'p>(&self, parities: &'p mut [Buffer], band: &Band) -> [Option<&'p mut [u8]>; 2] {
        let from = (band.range.start - self.range.start).as_usize();
        let to = (band.range.end - self.range.start).as_usize();
        let mut parts = parities.iter_mut().map(|parity| parity.bytes_mut().map(|bytes| &mut bytes[from..to]));
        [parts.next().flatten(), parts.next().flatten()]
    }

    fn named(&self, parities: Few<Buffer>) -> Parities {
        self.stripe.parity_members().zip(parities).map(|(member, parity)| (member, parity.freeze())).collect()
    }
}
