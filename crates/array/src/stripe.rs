//! Stripes: writing data with their parity, and computing what is lost.
//!
//! A write within a row is cut where the set of chunks it covers changes: at the in-chunk addresses at which it starts
//! and ends, so into at most three *bands*. Where all members are sound and no log is kept, all bands are written at
//! once (`joint`); otherwise one after the other. In each band some data chunks are written from end to end of the band
//! and the others not at all. The new parity can be had in three ways, with `w` of `n` data chunks written and `m`
//! parities:
//!
//! | way | reads | possible when |
//! |---|---|---|
//! | full, or reconstruct-write: parity of all data | the n - w others | the others can be read |
//! | read-modify-write: old parity changed by old and new data | w + m | what is written, and the parities, can be read |
//! | recover: all that is left, lost data computed, then as the first | what is left | always, up to m losses |
//!
//! The first possible one with the fewest reads is taken (or always the first: [`Array::reconstruct_writes`]), and of
//! two with equally many the read-modify-write: it keeps the members busy that are written anyway, and leaves the
//! others to other requests. A read that fails turns to the last, and what was computed of chunks that are left alone
//! is written to them again, as by a read, before anything of the stripe changes. Then data and parity are written side
//! by side, after what closes the write hole: the entries of the partial parity logs (`ppl`). All of it happens under
//! the row's lock.

use std::ops::Range;

use device::{Buffer, Data, Device, DeviceError};
use units::Bytes;

use crate::array::Array;
use crate::few::{Few, side_by_side};
use crate::geometry::{LARGEST_DDF_CHUNK, Stripe};
use crate::rarely::rarely;
use crate::room::Refused;

/// A band of a row: a run of chunks that are written in the same range of addresses, and their new bytes.
pub(crate) struct Band {
    pub stripe: Stripe,
    /// Addresses on the members.
    pub range: Range<Bytes>,
    /// The data chunks that are written from end to end of the range; the others are not touched.
    pub written: Range<usize>,
    /// The bytes of the write, or of more of it: those of the first chunk begin at `skip`, those of the next a chunk
    /// further.
    data: Data,
    skip: Bytes,
    chunk: Bytes,
}

impl Band {
    /// A band of single blocks, one for each chunk that is written.
    pub fn of_pages(stripe: Stripe, range: Range<Bytes>, written: Range<usize>, pages: &[Data]) -> Band {
        let chunk = range.end - range.start;
        assert_eq!(pages.len(), written.len(), "a block for each chunk");
        let mut data = Buffer::zeroed(chunk * pages.len() as u64);
        for (to, page) in data.bytes_mut().expect("it is real").chunks_exact_mut(chunk.as_usize()).zip(pages) {
            to.copy_from_slice(page.bytes().expect("it is real"));
        }
        Band { stripe, range, written, data: data.freeze(), skip: Bytes::ZERO, chunk }
    }

    /// A band of one chunk, of which these are the new bytes.
    pub fn of_chunk(stripe: Stripe, range: Range<Bytes>, index: usize, data: Data) -> Band {
        let chunk = range.end - range.start;
        assert_eq!(data.len(), chunk, "the bytes of the chunk in the range");
        Band { stripe, range, written: index..index + 1, data, skip: Bytes::ZERO, chunk }
    }

    fn length(&self) -> Bytes {
        self.range.end - self.range.start
    }

    /// Whether the caller brought no memory.
    pub fn is_phantom(&self) -> bool {
        self.data.bytes().is_none()
    }

    /// Where the new bytes of a chunk that is written begin.
    fn at(&self, index: usize) -> Bytes {
        assert!(self.written.contains(&index), "chunk {index} is not written");
        self.skip + self.chunk * (index - self.written.start) as u64
    }

    /// The new bytes of a chunk that is written.
    pub fn new_data(&self, index: usize) -> Data {
        self.data.slice(self.at(index), self.length())
    }

    /// The new bytes of a chunk from the band's start on, of which more may lie behind the band.
    pub fn new_data_from(&self, index: usize, length: Bytes) -> Data {
        self.data.slice(self.at(index), length)
    }

    /// The same to look at; `None` if the caller brought no memory.
    pub fn bytes(&self, index: usize) -> Option<&[u8]> {
        let at = self.at(index).as_usize();
        Some(&self.data.bytes()?[at..at + self.length().as_usize()])
    }

    /// The part of it that lies in a range of the members and in some of its chunks.
    pub fn part(&self, range: Range<Bytes>, written: Range<usize>) -> Band {
        let skip = self.at(written.start) + (range.start - self.range.start);
        Band { range, written, skip, data: self.data.clone(), ..*self }
    }
}

/// New parities, with the members that hold them: P, and Q where there is one.
pub(crate) type Parities = Few<(usize, Data)>;

/// The way to new parity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    FromAllData,
    FromChange,
    Recover,
}

impl<D: Device> Array<D> {
    /// Writes data that lie within one row, of which the caller has the lock.
    pub(crate) async fn write_locked(
        &self,
        row: u64,
        at: Bytes,
        data: Data,
        fua: bool,
        id: u64,
    ) -> Result<(), DeviceError> {
        let chunk = self.geometry.chunk();
        let stripe = self.geometry.stripe(row);
        let (at, data) = if self.journal.is_some() { self.whole_pages(at, data, id).await? } else { (at, data) };
        let from = at % self.geometry.stripe_size();
        let end = from + data.len();
        // Where the write starts and ends within a chunk; the end of a chunk counts as its end, not as the next one's
        // start.
        let mut cuts = [Bytes::ZERO, from % chunk, end - (end - Bytes::new(1)).round_down(chunk), chunk];
        cuts.sort_unstable();
        let band = |&[low, high]: &[Bytes; 2]| {
            // Chunks that are written between the two.
            let first = from.saturating_sub(low).get().div_ceil(chunk.get());
            let behind = if high <= end { (end - high) / chunk + 1 } else { 0 };
            if low == high || first >= behind {
                return None;
            }
            let range = chunk * row + low..chunk * row + high;
            let written = first as usize..behind as usize;
            let (skip, data) = (chunk * first + low - from, data.clone());
            Some(Band { stripe, range, written, data, skip, chunk })
        };
        let bands: Few<Band> = cuts.array_windows::<2>().filter_map(band).collect();
        if bands.len() > 1 && rarely(|| self.write_jointly(&bands, fua, id)).await? {
            return Ok(());
        }
        for band in bands {
            let done = match (&self.ppl, &self.journal) {
                (None, None) => self.write_band(&band, fua, id).await,
                _ => self.write_steps(&band, fua, id).await,
            };
            match done {
                // Block by block it may be different blocks that cannot be read on different members.
                Err(DeviceError::Medium { .. }) if band.length() > self.block() && self.journal.is_none() => {
                    for block in self.blocks(band.range.clone()) {
                        self.write_steps(&band.part(block, band.written.clone()), fua, id).await?;
                    }
                }
                done => done?,
            }
        }
        Ok(())
    }

    /// Writes a band in as many steps as the partial parity log needs: a range that an entry can hold, and where a
    /// member that is missing would be written, the others before it, run by run, and it last. What is there and what
    /// is computed then never change at the same time, and the missing chunk reads as old or as new at any instant. A
    /// member that is being filled is missing in this sense: a power cut takes it back to the mark that was last
    /// recorded.
    pub(crate) async fn write_steps(&self, band: &Band, fua: bool, id: u64) -> Result<(), DeviceError> {
        let longest = match (&self.ppl, &self.journal) {
            (Some(ppl), _) => ppl.longest(),
            (None, Some(journal)) => journal.longest(self.members.len()),
            (None, None) => return self.write_band(band, fua, id).await,
        };
        for range in Self::pieces(band.range.clone(), |at| at + longest) {
            let missing = |index: usize| !self.members[band.stripe.data_member(index)].is_whole();
            let written = band.written.clone();
            let parity = band.stripe.parity_members().any(|member| self.members[member].takes_writes(&range));
            if self.ppl.is_none() || written.len() == 1 || !parity || !written.clone().any(missing) {
                self.write_band(&band.part(range, written), fua, id).await?;
                continue;
            }
            let written: Vec<usize> = written.collect();
            let runs = written.chunk_by(|a, b| !missing(*a) && !missing(*b));
            let (lost, there): (Vec<&[usize]>, Vec<&[usize]>) = runs.partition(|run| missing(run[0]));
            for run in there.into_iter().chain(lost) {
                let run = run[0]..run[0] + run.len();
                self.write_band(&band.part(range.clone(), run), fua, id).await?;
            }
        }
        Ok(())
    }

    async fn write_band(&self, band: &Band, fua: bool, id: u64) -> Result<(), DeviceError> {
        let Some((parities, unreadable)) = self.new_parities(band, id).await else {
            // Another part of the stripe cannot be had, and parity depends on it.
            return Err(DeviceError::Medium { offset: band.range.start, length: band.length() });
        };
        let ticket = match &self.ppl {
            Some(_) => self.log_partial_parity(band, &parities, id).await?,
            None => None,
        };
        let unit = match &self.journal {
            Some(journal) => Some(self.log_band(journal, band, &parities, id).await?),
            None => None,
        };
        // The next log write takes this one's entry away, so it must be durable by then.
        let fua = fua || ticket.is_some();
        let data = band.written.clone().map(|index| (band.stripe.data_member(index), band.new_data(index)));
        let write = |(member, data): (usize, Data)| async move {
            match self.members[member].takes_writes(&band.range) {
                true => self.store(member, band.range.start, data, fua, id).await,
                false => None,
            }
        };
        let mut refused: Few<usize> = Few::new();
        let parity_first = self.stores_parity_first(band, &unreadable);
        let mut parities_before = Vec::new();
        if parity_first {
            parities_before = rarely(|| self.parities_before(band, &parities, id)).await;
            refused.extend(side_by_side(parities.iter().cloned().map(write)).await.into_iter().flatten());
        }
        let data_were_sent = refused.is_empty();
        if data_were_sent {
            let parities = parities.iter().filter(|_| !parity_first).cloned();
            let writes: Few<(usize, Data)> = data.chain(parities).collect();
            refused.extend(side_by_side(writes.into_iter().map(write)).await.into_iter().flatten());
        }
        if !refused.is_empty() {
            let of = Refused { by: &refused, data_were_sent, parities_before: &parities_before };
            rarely(|| self.take_back(band, &parities, of, fua, id)).await;
        }
        parities.into_iter().for_each(|(_, parity)| self.pool.take_back(parity));
        unreadable.into_iter().for_each(|member| self.corrected(member, band.range.clone()));
        if ticket.is_some() {
            // Whoever did not take its part must be known as failed before the entry that could mend this is taken
            // away.
            self.settle().await?;
        }
        drop(ticket);
        if refused.is_empty() {
            return self.is_left_enough(&band.stripe, &band.range);
        }
        drop(unit);
        if let Some(journal) = &self.journal {
            // What it holds of this write was taken back, and must not be replayed before what comes next in this row.
            journal.begin_anew_next();
            rarely(|| self.close_journal()).await?;
        }
        Err(DeviceError::NoSpace)
    }

    /// Writes to a member, and judges it if it fails. Names it if it has no room.
    pub(crate) async fn store(&self, member: usize, at: Bytes, data: Data, fua: bool, id: u64) -> Option<usize> {
        match self.members[member].write(at, data, fua, id).await {
            Ok(()) => None,
            Err(DeviceError::NoSpace) => Some(member),
            Err(error) => {
                self.could_not_store(member, &error);
                None
            }
        }
    }

    /// Whoever could not store its part has failed by now; is what is left enough to compute it?
    pub(crate) fn is_left_enough(&self, stripe: &Stripe, range: &Range<Bytes>) -> Result<(), DeviceError> {
        let missing = stripe.members().filter(|member| !self.members[*member].is_current(range)).count();
        if missing > self.geometry.level().parities() { Err(DeviceError::Gone) } else { Ok(()) }
    }

    /// Members that do not hold what belongs into a range of a stripe.
    pub(crate) fn missing(&self, stripe: &Stripe, range: &Range<Bytes>) -> Vec<usize> {
        stripe.members().filter(|member| !self.members[*member].is_current(range)).collect()
    }

    /// The parities of a band after its write, and members that could not give what was needed for it. `None` if too
    /// much is lost.
    async fn new_parities(&self, band: &Band, id: u64) -> Option<(Parities, Vec<usize>)> {
        let mut missing = self.missing(&band.stripe, &band.range);
        let mut way = self.way(band, &missing);
        let mut unreadable = Vec::new();
        loop {
            let outcome = match way {
                Way::FromAllData => self.parities_from_all_data(band, id).await,
                Way::FromChange => self.parities_from_change(band, id).await,
                Way::Recover => {
                    // Members that have failed since are among the missing now.
                    let now = self.missing(&band.stripe, &band.range);
                    missing.extend(now);
                    missing.sort_unstable();
                    missing.dedup();
                    self.parities_by_recovery(band, missing.clone(), id).await
                }
            };
            match outcome {
                Ok(parities) => return Some((parities, unreadable)),
                Err(failed) if missing.contains(&failed) => return None,
                // One read that failed rules out every way that needs it; what is left is recovery.
                Err(failed) => {
                    missing.push(failed);
                    unreadable.push(failed);
                }
            }
            way = Way::Recover;
        }
    }

    /// The possible way with the fewest reads, unless all writes reconstruct; of two with equally many the
    /// read-modify-write.
    fn way(&self, band: &Band, missing: &[usize]) -> Way {
        let stripe = &band.stripe;
        let lost = |member: usize| missing.contains(&member);
        let lost_data = |index: usize| lost(stripe.data_member(index));
        let parities = stripe.parity_members().filter(|member| !lost(*member)).count();
        let others_lost = (0..band.written.start).chain(band.written.end..stripe.data()).any(lost_data);
        let from_all_data = (parities == 0 || !others_lost).then_some(stripe.data() - band.written.len());
        // A parity that is to be written but cannot be read (a range that was never rebuilt) cannot be changed either.
        let readable = !band.written.clone().any(lost_data) && !self.wanted(band).any(lost);
        let from_change = readable.then_some(band.written.len() + parities);
        match (from_all_data, from_change) {
            (None, None) => Way::Recover,
            (Some(all), Some(change)) if all < change || self.reconstructs.get() => Way::FromAllData,
            (Some(_), None) => Way::FromAllData,
            (_, Some(_)) => Way::FromChange,
        }
    }

    /// Reads the band on these members at once. On an error the member is named, and judged.
    pub(crate) async fn read_band(
        &self,
        band: &Range<Bytes>,
        members: &[usize],
        phantom: bool,
        id: u64,
    ) -> Result<Few<Buffer>, usize> {
        let read = |member: &usize| {
            let (member, into) = (*member, self.used_memory(band.end - band.start, phantom));
            async move {
                let (buffer, result) = self.members[member].read(band.start, into, id).await;
                result.map(|()| buffer).map_err(|error| {
                    self.judge(member, &error);
                    member
                })
            }
        };
        side_by_side(members.iter().map(read)).await.into_iter().collect()
    }

    /// Parity members that can be written.
    fn wanted(&self, band: &Band) -> impl Iterator<Item = usize> {
        band.stripe.parity_members().filter(|member| self.members[*member].takes_writes(&band.range))
    }

    async fn parities_from_all_data(&self, band: &Band, id: u64) -> Result<Parities, usize> {
        let wanted: Few<usize> = self.wanted(band).collect();
        if wanted.is_empty() {
            return Ok(Few::new());
        }
        let others = (0..band.written.start).chain(band.written.end..band.stripe.data());
        let holders: Few<usize> = others.map(|index| band.stripe.data_member(index)).collect();
        let old = self.read_band(&band.range, &holders, band.is_phantom(), id).await?;
        self.pay(band.stripe.data(), wanted.len(), band.length(), id).await;
        let (before, behind) = old.split_at(band.written.start);
        let old_bytes = |buffer| Buffer::bytes(buffer);
        let blocks = before.iter().map(old_bytes);
        let blocks = blocks.chain(band.written.clone().map(|index| band.bytes(index)));
        let blocks: Vec<Option<&[u8]>> = blocks.chain(behind.iter().map(old_bytes)).collect();
        let parities = self.parities_of(band, &blocks, &wanted);
        old.into_iter().for_each(|buffer| self.pool.give(buffer));
        Ok(parities)
    }

    /// P and Q of all data of a band, as far as they are wanted.
    fn parities_of(&self, band: &Band, data: &[Option<&[u8]>], wanted: &[usize]) -> Parities {
        let (length, phantom) = (band.length(), band.is_phantom());
        let (mut p, mut q) = (self.used_memory(length, phantom), None);
        if let Some(p) = p.bytes_mut() {
            let blocks = self.in_order_of_powers(&band.stripe, data);
            if band.stripe.q().is_some_and(|q| wanted.contains(&q)) {
                let mut of_q = self.used_memory(length, false);
                self.kernel.both_parities(&blocks, p, of_q.bytes_mut().expect("it is real"));
                q = Some(of_q);
            } else {
                self.kernel.sum(&blocks, p);
            }
        }
        let q = q.unwrap_or_else(|| Self::scratch(length, true));
        let of = |member: usize, parity: Buffer| wanted.contains(&member).then(|| (member, parity.freeze()));
        let of_q = band.stripe.q().and_then(|member| of(member, q));
        of(band.stripe.p(), p).into_iter().chain(of_q).collect()
    }

    /// The data blocks as Q counts them, zeroes where nothing lies.
    pub(crate) fn in_order_of_powers<'a>(&self, stripe: &Stripe, data: &[Option<&'a [u8]>]) -> Vec<&'a [u8]> {
        static ZEROES: [u8; LARGEST_DDF_CHUNK.as_usize()] = [0; LARGEST_DDF_CHUNK.as_usize()];
        let length = data[0].map_or(0, <[u8]>::len);
        assert!(length <= ZEROES.len() || stripe.powers() == stripe.data(), "chunks of DDF layouts are up to 1 MiB");
        let mut blocks: Vec<&[u8]> = vec![&[]; stripe.powers()];
        for (index, block) in data.iter().enumerate() {
            blocks[stripe.power_of(index)] = block.expect("memory is real everywhere or nowhere");
        }
        if stripe.powers() > stripe.data() {
            blocks.iter_mut().filter(|block| block.is_empty()).for_each(|block| *block = &ZEROES[..length]);
        }
        blocks
    }

    async fn parities_from_change(&self, band: &Band, id: u64) -> Result<Parities, usize> {
        let wanted: Few<usize> = self.wanted(band).collect();
        if wanted.is_empty() {
            return Ok(Few::new());
        }
        let written = band.written.clone().map(|index| band.stripe.data_member(index));
        let holders: Few<usize> = written.chain(wanted.iter().copied()).collect();
        let mut old = self.read_band(&band.range, &holders, band.is_phantom(), id).await?;
        self.pay(2 * band.written.len(), wanted.len(), band.length(), id).await;
        let (old_data, parities) = old.split_at_mut(band.written.len());
        let of_p = wanted[0] == band.stripe.p();
        let of_q = band.stripe.q().is_some_and(|q| wanted.contains(&q));
        let mut unused = Vec::new();
        for (index, old) in band.written.clone().zip(&*old_data) {
            let (Some(old), Some(new)) = (old.bytes(), band.bytes(index)) else { continue };
            let mut parities = parities.iter_mut().map(|parity| parity.bytes_mut().expect("it is real"));
            if !of_q {
                self.kernel.add(&[old, new], parities.next().expect("P is first"));
                continue;
            }
            unused.resize(if of_p { 0 } else { old.len() }, 0);
            let p = if of_p { parities.next().expect("P is first") } else { &mut unused[..] };
            let q = parities.next().expect("Q is last");
            self.kernel.update(band.stripe.power_of(index), old, new, p, q);
        }
        let mut old = old.into_iter();
        old.by_ref().take(band.written.len()).for_each(|buffer| self.pool.give(buffer));
        Ok(wanted.into_iter().zip(old).map(|(member, parity)| (member, parity.freeze())).collect())
    }

    async fn parities_by_recovery(&self, band: &Band, missing: Vec<usize>, id: u64) -> Result<Parities, usize> {
        let wanted: Few<usize> = self.wanted(band).collect();
        let is_written = |member: &usize| {
            wanted.contains(member) || band.written.clone().any(|index| band.stripe.data_member(index) == *member)
        };
        let is_left_alone = |member: &usize| self.members[*member].takes_writes(&band.range) && !is_written(member);
        let left_alone: Vec<usize> = missing.iter().copied().filter(is_left_alone).collect();
        let old = self.recover(&band.stripe, &band.range, missing, band.is_phantom(), id).await?;
        if !left_alone.is_empty() {
            rarely(|| self.mend_computed(&old, &left_alone, &band.range, id)).await;
        }
        self.pay(band.stripe.data(), wanted.len(), band.length(), id).await;
        let block = |index: usize| match band.written.contains(&index) {
            true => band.bytes(index),
            false => old.of(band.stripe.data_member(index)).bytes(),
        };
        let blocks: Vec<Option<&[u8]>> = (0..band.stripe.data()).map(block).collect();
        Ok(self.parities_of(band, &blocks, &wanted))
    }
}
