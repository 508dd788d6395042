//! Stripes: writing data with their parity, and computing what is lost.
//!
//! A write within a row is cut where the set of chunks it covers changes: at the in-chunk addresses at which it starts and ends, so
//! into at most three *bands*. In each band some data chunks are written from end to end of the band and the others not at all,
//! and the new parity can be had in three ways, with `w` of `n` data chunks written and `m` parities:
//!
//! | way | reads | possible when |
//! |---|---|---|
//! | full, or reconstruct-write: parity of all data | the n - w others | the others can be read |
//! | read-modify-write: old parity changed by old and new data | w + m | what is written, and the parities, can be read |
//! | recover: all that is left, lost data computed, then as the first | what is left | always, up to m losses |
//!
//! The first possible one with the fewest reads is taken, and of two with equally many the read-modify-write: it keeps the members busy that are
//! written anyway, and leaves the others to other requests. A read that fails turns to the last. Then data and parity are written side by
//! side, after what closes the write hole: the entry of the partial parity log (`ppl`). All of it happens under the row's lock.

use std::ops::Range;

use device::{Buffer, Data, Device, DeviceError};
use futures_util::future::join_all;
use units::Bytes;

use crate::array::Array;
use crate::geometry::Stripe;

/// A band of a row: what is written of it, and where it lies on every member.
pub(crate) struct Band {
    pub stripe: Stripe,
    /// Addresses on the members.
    pub range: Range<Bytes>,
    /// For each data chunk of the row, its new bytes, if it is written.
    pub new: Vec<Option<Data>>,
}

impl Band {
    /// The part of it that lies in a range of the members and in some of the chunks.
    fn part(&self, range: Range<Bytes>, chunks: impl Fn(usize) -> bool) -> Band {
        let (from, length) = (range.start - self.range.start, range.end - range.start);
        let new = |(index, new): (usize, &Option<Data>)| {
            new.as_ref().filter(|_| chunks(index)).map(|new| new.slice(from, length))
        };
        let new = self.new.iter().enumerate().map(new).collect();
        Band { stripe: self.stripe, range, new }
    }
}

/// The way to new parity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    FromAllData,
    FromChange,
    Recover,
}

impl<D: Device> Array<D> {
    /// Writes data that lie within one row.
    pub(crate) async fn write_row(&self, at: Bytes, data: Data, fua: bool, id: u64) -> Result<(), DeviceError> {
        let chunk = self.geometry.chunk();
        let row = self.unit(at).0;
        let _lock = self.locks.lock(row).await;
        let stripe = self.geometry.stripe(row);
        let (at, data) = if self.journal.is_some() { self.whole_pages(at, data, id).await? } else { (at, data) };
        let from = at % self.geometry.stripe_size();
        let end = from + data.len();
        // Where the write starts and ends within a chunk; the end of a chunk counts as its end, not as the next one's start.
        let mut cuts = vec![Bytes::ZERO, from % chunk, end - (end - Bytes::new(1)).round_down(chunk), chunk];
        cuts.sort_unstable();
        cuts.dedup();
        for cut in cuts.windows(2) {
            let new = |index: usize| {
                let start = chunk * index as u64 + cut[0];
                let covered = from <= start && start + (cut[1] - cut[0]) <= end;
                covered.then(|| data.slice(start - from, cut[1] - cut[0]))
            };
            let new: Vec<Option<Data>> = (0..stripe.data()).map(new).collect();
            if new.iter().any(Option::is_some) {
                let range = chunk * row + cut[0]..chunk * row + cut[1];
                let band = Band { stripe, range: range.clone(), new };
                let whole = self.write_steps(&band, fua, id).await;
                let journaled = self.journal.is_some();
                if !matches!(whole, Err(DeviceError::Medium { .. }))
                    || range.end - range.start <= self.block()
                    || journaled
                {
                    whole?;
                    continue;
                }
                // Block by block it may be different blocks that cannot be read on different members.
                for block in self.blocks(range) {
                    self.write_steps(&band.part(block, |_| true), fua, id).await?;
                }
            }
        }
        Ok(())
    }

    /// Writes a band in as many steps as the partial parity log needs: a range that an entry can hold, and where a member that is
    /// missing would be written, the others before it, run by run, and it last. What is there and what is computed then never change
    /// at the same time, and the missing chunk reads as old or as new at any instant.
    async fn write_steps(&self, band: &Band, fua: bool, id: u64) -> Result<(), DeviceError> {
        let longest = match (&self.ppl, &self.journal) {
            (Some(ppl), _) => ppl.longest(),
            (None, Some(journal)) => journal.longest(self.members.len()),
            (None, None) => return self.write_band(band, fua, id).await,
        };
        let pieces = Self::pieces(band.range.clone(), |at| at + longest);
        for range in pieces {
            let missing = |index: usize| !self.members[band.stripe.data_member(index)].takes_writes(&range);
            let written: Vec<usize> = (0..band.new.len()).filter(|index| band.new[*index].is_some()).collect();
            let parity = self.members[band.stripe.p()].takes_writes(&range);
            if self.ppl.is_none() || written.len() == 1 || !parity || !written.iter().any(|index| missing(*index)) {
                self.write_band(&band.part(range, |_| true), fua, id).await?;
                continue;
            }
            let runs = written.chunk_by(|a, b| !missing(*a) && !missing(*b));
            let (lost, there): (Vec<&[usize]>, Vec<&[usize]>) = runs.partition(|run| missing(run[0]));
            for run in there.into_iter().chain(lost) {
                self.write_band(&band.part(range.clone(), |index| run.contains(&index)), fua, id).await?;
            }
        }
        Ok(())
    }

    async fn write_band(&self, band: &Band, fua: bool, id: u64) -> Result<(), DeviceError> {
        let Some(parities) = self.new_parities(band, id).await else {
            // Another part of the stripe cannot be had, and parity depends on it.
            return Err(DeviceError::Medium { offset: band.range.start, length: band.range.end - band.range.start });
        };
        let ticket = match &self.ppl {
            Some(_) => self.log_partial_parity(band, &parities, id).await?,
            None => None,
        };
        let _unit = match &self.journal {
            Some(journal) => Some(self.log_band(journal, band, &parities, id).await?),
            None => None,
        };
        // The next log write takes this one's entry away, so it must be durable by then.
        let fua = fua || ticket.is_some();
        let data = (0..band.stripe.data())
            .filter_map(|index| Some((band.stripe.data_member(index), band.new[index].clone()?)));
        let writes: Vec<(usize, Data)> = data.chain(parities).collect();
        let write = |(member, data): (usize, Data)| async move {
            if !self.members[member].takes_writes(&band.range) {
                return;
            }
            if let Err(error) = self.members[member].write(band.range.start, data, fua, id).await {
                // What was not written is stale: whatever the reason, it may not be read again.
                self.judge(member, &DeviceError::Kernel { errno: error.errno() });
            }
        };
        join_all(writes.into_iter().map(write)).await;
        if ticket.is_some() {
            // Whoever did not take its part must be known as failed before the entry that could mend this is taken away.
            self.settle().await?;
        }
        drop(ticket);
        // Whoever could not store its part has failed by now; is what is left enough to compute it?
        if self.missing(&band.stripe, &band.range).len() > self.geometry.level().parities() {
            return Err(DeviceError::Gone);
        }
        Ok(())
    }

    /// Members that do not hold what belongs into a range of a stripe.
    pub(crate) fn missing(&self, stripe: &Stripe, range: &Range<Bytes>) -> Vec<usize> {
        stripe.members().filter(|member| !self.members[*member].is_current(range)).collect()
    }

    /// The parities of a band after its write, with the members that hold them. `None` if too much is lost.
    async fn new_parities(&self, band: &Band, id: u64) -> Option<Vec<(usize, Data)>> {
        let mut missing = self.missing(&band.stripe, &band.range);
        let mut ways = self.ways(band, &missing);
        loop {
            let way = ways.next()?;
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
                Ok(parities) => return Some(parities),
                Err(failed) if missing.contains(&failed) => return None,
                // One read that failed rules out every way that needs it; what is left is recovery.
                Err(failed) => {
                    missing.push(failed);
                    ways = vec![Way::Recover].into_iter();
                }
            }
        }
    }

    /// The possible ways, the one with the fewest reads first.
    fn ways(&self, band: &Band, missing: &[usize]) -> std::vec::IntoIter<Way> {
        let stripe = &band.stripe;
        let written = band.new.iter().filter(|new| new.is_some()).count();
        let lost = |member: usize| missing.contains(&member);
        let others_lost = (0..stripe.data()).any(|index| band.new[index].is_none() && lost(stripe.data_member(index)));
        let written_lost = (0..stripe.data()).any(|index| band.new[index].is_some() && lost(stripe.data_member(index)));
        let parities: Vec<usize> = stripe.parity_members().filter(|member| !lost(*member)).collect();
        let mut ways = Vec::new();
        if parities.is_empty() || !others_lost {
            ways.push((stripe.data() - written, Way::FromAllData));
        }
        // A parity that is to be written but cannot be read (a range that was never rebuilt) cannot be changed either.
        if !written_lost && self.wanted(band).0.iter().all(|member| !lost(*member)) {
            ways.push((written + parities.len(), Way::FromChange));
        }
        ways.push((usize::MAX, Way::Recover));
        ways.sort_by_key(|(reads, way)| (*reads, *way == Way::FromAllData));
        ways.into_iter().map(|(_, way)| way).collect::<Vec<_>>().into_iter()
    }

    /// Reads the band on these members at once. On an error the member is named, and judged.
    pub(crate) async fn read_band(
        &self,
        band: &Range<Bytes>,
        members: &[usize],
        phantom: bool,
        id: u64,
    ) -> Result<Vec<Buffer>, usize> {
        let read = |member: usize| {
            let into = Self::scratch(band.end - band.start, phantom);
            async move {
                let (buffer, result) = self.members[member].read(band.start, into, id).await;
                result.map(|()| buffer).map_err(|error| {
                    self.judge(member, &error);
                    member
                })
            }
        };
        join_all(members.iter().map(|member| read(*member))).await.into_iter().collect()
    }

    /// Parity members that can be written, and whether the caller brought memory.
    fn wanted(&self, band: &Band) -> (Vec<usize>, bool) {
        let takes = |member: &usize| self.members[*member].takes_writes(&band.range);
        let phantom = band.new.iter().flatten().any(|new| new.bytes().is_none());
        (band.stripe.parity_members().filter(takes).collect(), phantom)
    }

    async fn parities_from_all_data(&self, band: &Band, id: u64) -> Result<Vec<(usize, Data)>, usize> {
        let (wanted, phantom) = self.wanted(band);
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let others: Vec<usize> = (0..band.stripe.data()).filter(|index| band.new[*index].is_none()).collect();
        let holders: Vec<usize> = others.iter().map(|index| band.stripe.data_member(*index)).collect();
        let old = self.read_band(&band.range, &holders, phantom, id).await?;
        self.pay(band.stripe.data(), wanted.len(), band.range.end - band.range.start, id).await;
        let blocks = (0..band.stripe.data()).map(|index| match &band.new[index] {
            Some(new) => new.bytes(),
            None => old[others.iter().position(|other| *other == index).expect("it was read")].bytes(),
        });
        Ok(self.parities_of(band, &blocks.collect::<Vec<_>>(), &wanted))
    }

    /// P and Q of all data of a band, as far as they are wanted.
    fn parities_of(&self, band: &Band, data: &[Option<&[u8]>], wanted: &[usize]) -> Vec<(usize, Data)> {
        let length = band.range.end - band.range.start;
        let phantom = data.iter().any(Option::is_none);
        let (mut p, mut q) = (Self::scratch(length, phantom), None);
        if let Some(p) = p.bytes_mut() {
            let blocks = self.in_order_of_powers(&band.stripe, data);
            if band.stripe.q().is_some_and(|q| wanted.contains(&q)) {
                let mut of_q = Self::scratch(length, false);
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
        static ZEROES: [u8; 1 << 20] = [0; 1 << 20];
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

    async fn parities_from_change(&self, band: &Band, id: u64) -> Result<Vec<(usize, Data)>, usize> {
        let (wanted, phantom) = self.wanted(band);
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let written: Vec<usize> = (0..band.stripe.data()).filter(|index| band.new[*index].is_some()).collect();
        let holders: Vec<usize> =
            written.iter().map(|index| band.stripe.data_member(*index)).chain(wanted.iter().copied()).collect();
        let mut old = self.read_band(&band.range, &holders, phantom, id).await?;
        self.pay(2 * written.len(), wanted.len(), band.range.end - band.range.start, id).await;
        let mut parities = old.split_off(written.len());
        let length = (band.range.end - band.range.start).as_usize();
        let mut unused = Vec::new();
        for (index, old) in written.into_iter().zip(&old) {
            let (Some(old), Some(new)) = (old.bytes(), band.new[index].as_ref().and_then(Data::bytes)) else {
                continue;
            };
            let mut bytes = parities.iter_mut().map(|parity| parity.bytes_mut().expect("it is real"));
            match (wanted.first() == Some(&band.stripe.p()), band.stripe.q().is_some_and(|q| wanted.contains(&q))) {
                (true, false) => self.kernel.add(&[old, new], bytes.next().expect("P is first")),
                (p_too, _) => {
                    unused.resize(length, 0);
                    let p = if p_too { bytes.next().expect("P is first") } else { &mut unused[..] };
                    let q = bytes.next().expect("Q is last");
                    self.kernel.update(band.stripe.power_of(index), old, new, p, q);
                }
            }
        }
        Ok(wanted.into_iter().zip(parities).map(|(member, parity)| (member, parity.freeze())).collect())
    }

    async fn parities_by_recovery(
        &self,
        band: &Band,
        missing: Vec<usize>,
        id: u64,
    ) -> Result<Vec<(usize, Data)>, usize> {
        let (wanted, phantom) = self.wanted(band);
        let old = self.recover(&band.stripe, &band.range, missing, phantom, id).await?;
        self.pay(band.stripe.data(), wanted.len(), band.range.end - band.range.start, id).await;
        let blocks = (0..band.stripe.data()).map(|index| match &band.new[index] {
            Some(new) => new.bytes(),
            None => old[band.stripe.data_member(index)].bytes(),
        });
        Ok(self.parities_of(band, &blocks.collect::<Vec<_>>(), &wanted))
    }
}
