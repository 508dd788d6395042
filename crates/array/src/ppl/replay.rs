//! After a start: parity is brought in line with what the partial parity logs say was under way.
//!
//! What is computed of a block depends on which of the row's data are there. `D` are the data, `W` those that were
//! being written, `U` the others, and partial parities `PP = sum of U`, `PQ = sum of g^i U_i` are what the logs hold:
//!
//! | missing of the data | parity becomes |
//! |---|---|
//! | none | that of all data as they are: what an entry says is not even needed |
//! | some of `U` | `PP` (or `PQ`), and what `W` hold now: the missing ones are computed as they were |
//! | one of `W`, both parities are there | `Q` follows `P`: what `P` says of the missing one, less `PP`, is what it holds now |
//! | others of `W` | what it is: that alone says what the missing ones hold, old or new |
//!
//! Of the newest header's entries in md's log, and in the own one of all that may not have been over, the newest counts
//! that covers a block of the parity: whatever those before it say of the other chunks has changed since, or is the
//! same.
//!
//! The third case is needed with two parities only. A chunk on a missing member is written by itself, so `P` has its
//! old or its new bytes; but `Q` may have the others, and two values of one block are worse than either: a member more
//! is lost, and what was read before is read no more.

use std::collections::BTreeMap;
use std::ops::Range;

use device::{Buffer, Data, Device, DeviceError, Request};
use units::Bytes;

use super::{HEADER, Ppl};
use crate::array::Array;
use crate::geometry::Stripe;
use crate::md::{PplEntry, PplHeader, Uuid};
use crate::member::MemberState;

/// An entry of a member's log.
struct Logged {
    member: usize,
    entry: PplEntry,
    /// `None` where its checksum does not fit: it was torn, and the write had not begun.
    partial: Option<Vec<u8>>,
}

/// What a member's log says.
struct Found {
    generation: u64,
    entries: Vec<Logged>,
    /// Where the headers lie that count, with what is behind them, by generation; in an own log.
    places: Vec<(u64, Range<Bytes>)>,
}

/// The rows' blocks that an entry speaks of.
struct Covered {
    row: u64,
    stripe: Stripe,
    /// Address in the array of the first data written.
    first: Bytes,
    /// Where the last data written end.
    end: Bytes,
    /// How many chunks are written, from the first one's on.
    chunks: usize,
    /// How much of each is looked at.
    strip: Bytes,
    /// What is computed at a time.
    block: Bytes,
}

/// Follows the headers from the start, each behind the one before, as md does; the last one counts. `Err` says whether
/// there is a header anywhere else: the first was then torn when the log began anew, and nothing was under way.
fn newest(bytes: &[u8], array: Uuid, member: usize) -> Result<Found, bool> {
    let (mut at, mut last) = (0, None::<(usize, PplHeader)>);
    while let Some(rest) = bytes.get(at..) {
        let Ok(header) = PplHeader::parse(rest, array) else { break };
        if last.as_ref().is_some_and(|(_, last)| last.generation > header.generation) {
            break;
        }
        let extent = header.extent().as_usize();
        last = Some((at, header));
        at += extent;
    }
    let Some((at, header)) = last else {
        return Err(bytes.chunks(HEADER.as_usize()).any(|block| PplHeader::parse(block, array).is_ok()));
    };
    let mut behind = at + HEADER.as_usize();
    let logged = |entry: PplEntry| {
        let bytes = bytes.get(behind..behind + entry.parity_length.as_usize());
        behind += entry.parity_length.as_usize();
        let partial = bytes.filter(|bytes| PplHeader::checksum(bytes) == entry.checksum).map(<[u8]>::to_vec);
        Logged { member, entry, partial }
    };
    let entries = header.entries.into_iter().map(logged).collect();
    Ok(Found { generation: header.generation, entries, places: Vec::new() })
}

/// All that the newest header of an own log names, newest first. `Err(false)` if there is none, or something of it is
/// not there.
fn under_way(bytes: &[u8], array: Uuid, member: usize) -> Result<Found, bool> {
    let mut headers = BTreeMap::new();
    for (number, block) in bytes.chunks(HEADER.as_usize()).enumerate() {
        if let Ok(header) = PplHeader::parse(block, array) {
            headers.insert(header.generation, (number * HEADER.as_usize(), header));
        }
    }
    let (generation, (_, last)) = headers.last_key_value().ok_or(false)?;
    let (generation, oldest) = (*generation, last.oldest.unwrap_or(*generation));
    let (mut entries, mut places) = (Vec::new(), Vec::new());
    for wanted in (oldest..=generation).rev() {
        let (at, header) = headers.remove(&wanted).ok_or(false)?;
        let place = Bytes::new(at as u64);
        places.push((wanted, place..place + header.extent().round_up(HEADER)));
        let mut behind = at + HEADER.as_usize();
        for entry in header.entries {
            let end = behind + entry.parity_length.as_usize();
            let partial = bytes.get(behind..end).filter(|bytes| PplHeader::checksum(bytes) == entry.checksum);
            entries.push(Logged { member, partial: partial.map(<[u8]>::to_vec), entry });
            behind = end;
        }
    }
    Ok(Found { generation, entries, places })
}

impl<D: Device> Array<D> {
    /// Brings parity in line with what the logs say was under way, if whoever used the array last `kept` them. Says
    /// whether parity can be trusted everywhere; without that the array needs a resync.
    pub(crate) async fn replay_logs(&self, ppl: &Ppl, dirty: bool, kept: bool) -> Result<bool, DeviceError> {
        if !kept {
            // Before anything says that they are kept again: they are of another time.
            for member in 0..self.members.len() {
                if self.members[member].device().is_some()
                    && let Err(error) = self.new_log(member, !dirty).await
                {
                    self.could_not_store(member, &error);
                }
            }
            return Ok(!dirty);
        }
        let mut trusted = true;
        let mut logged = Vec::new();
        for (member, log) in ppl.logs.iter().enumerate() {
            if self.members[member].device().is_none() {
                continue;
            }
            // Nothing of it is current, so no entry is of any use; and the power cut may have met the beginning of its
            // log.
            if self.members[member].state() == MemberState::Rebuilding(Bytes::ZERO) {
                if let Err(error) = self.new_log(member, true).await {
                    self.could_not_store(member, &error);
                }
                continue;
            }
            let reply = self.members[member].send(Request::read(log.start.get(), Buffer::zeroed(log.size))).await;
            reply.result?;
            let buffer = reply.buffer.expect("a read gives its buffer back");
            let bytes = buffer.bytes().expect("it is real");
            let found = if ppl.is_own() { under_way } else { newest };
            match found(bytes, ppl.array, member) {
                Ok(found) => {
                    log.generation.set(found.generation);
                    trusted &= log.ring.as_ref().is_none_or(|ring| ring.restart(found.places));
                    logged.extend(found.entries);
                }
                Err(elsewhere) => {
                    let blocks = bytes.chunks(HEADER.as_usize());
                    let generations =
                        blocks.filter_map(|block| Some(PplHeader::parse(block, ppl.array).ok()?.generation));
                    log.generation.set(generations.max().unwrap_or(0));
                    trusted &= elsewhere;
                }
            }
        }
        if !trusted || !dirty {
            return Ok(trusted);
        }
        self.tell_missing().await?;
        // The newest entry that covers a block of a member's parity, and how far into the chunks that is.
        let mut newest: BTreeMap<(usize, Bytes), (usize, Bytes)> = BTreeMap::new();
        let covered: Vec<Option<Covered>> = logged.iter().map(|it| self.covered(it, ppl.is_own())).collect();
        for (number, covered) in covered.iter().enumerate() {
            let Some(covered) = covered else {
                trusted = false;
                continue;
            };
            let mut at = Bytes::ZERO;
            while at < covered.strip {
                let place = (logged[number].member, self.on_members(covered, at));
                newest.entry(place).or_insert((number, at));
                at += covered.block;
            }
        }
        for ((_, offset), (number, at)) in &newest {
            let covered = covered[*number].as_ref().expect("what is not understood covers nothing");
            // The entry of the same write in P's log.
            let partner = newest.get(&(covered.stripe.p(), *offset)).map(|(number, _)| &logged[*number]);
            let write = |it: &Logged| (it.entry.data_at, it.entry.data_length, it.entry.parity_length);
            let partner = partner.filter(|partner| write(partner) == write(&logged[*number]));
            trusted &= self.replay_logged(covered, *at, &logged[*number], partner).await?;
        }
        self.flush_members(0).await?;
        Ok(trusted)
    }

    /// Where the blocks lie on the members that are so far into the chunks.
    fn on_members(&self, covered: &Covered, at: Bytes) -> Bytes {
        let chunk = self.geometry.chunk();
        chunk * covered.row + (covered.first + at) % chunk
    }

    /// What an entry covers, by md's rules: how many chunks are written, how much of each, and where the last ends.
    /// `None` if it cannot be.
    ///
    /// In the own log entries may cover each other in parts, so it is looked at in the array's blocks.
    fn covered(&self, logged: &Logged, own: bool) -> Option<Covered> {
        let (chunk, row_size) = (self.geometry.chunk(), self.geometry.stripe_size());
        let all = (row_size / chunk) as usize;
        let entry = &logged.entry;
        let first = entry.data_at;
        let row = first / row_size;
        let (chunks, strip, end) = match entry.parity_length {
            length if length >= chunk => (all, chunk, first + entry.data_length),
            Bytes::ZERO => {
                let strip = entry.data_length / Bytes::SECTOR / all as u64;
                let strip = Bytes::SECTOR * strip;
                (all, strip, first + chunk * (all as u64 - 1) + strip)
            }
            length => {
                let chunks = ((entry.data_length / length) as usize).max(1);
                (chunks, length, first + chunk * (chunks as u64 - 1) + length)
            }
        };
        let inside = first < end && end <= (row_size * (row + 1)).min(self.geometry.size()) && chunks <= all;
        let of_member = |stripe: &Stripe| {
            entry.parity_member == logged.member as u32 && stripe.parity_members().any(|it| it == logged.member)
        };
        let stripe = inside.then(|| self.geometry.stripe(row)).filter(of_member)?;
        let page = Bytes::kib(4);
        let aligned = |block: Bytes| [first, end, strip].iter().all(|at| at.is_multiple_of(block));
        let block = if aligned(page) && !own { page } else { self.block() };
        // Else it was logged on disks with smaller blocks, of which these are copies.
        aligned(block).then_some(Covered { row, stripe, first, end, chunks, strip, block })
    }

    /// Computes the parity of a block that an entry covers, so far into each of the chunks, from the data as they are.
    /// Says whether it could be done, or need not.
    async fn replay_logged(
        &self,
        covered: &Covered,
        at: Bytes,
        logged: &Logged,
        partner: Option<&Logged>,
    ) -> Result<bool, DeviceError> {
        let (chunk, row_size) = (self.geometry.chunk(), self.geometry.stripe_size());
        let Covered { stripe, first, end, block, .. } = covered;
        let offset = self.on_members(covered, at);
        let range = offset..offset + *block;
        let written = (0..covered.chunks as u64).map(|number| *first + at + chunk * number);
        let written: Vec<usize> =
            written.filter(|address| *address < *end).map(|address| (address % row_size / chunk) as usize).collect();
        let there = |member: usize| self.members[member].is_current(&range);
        let missing: Vec<usize> = (0..stripe.data()).filter(|index| !there(stripe.data_member(*index))).collect();
        // Of a whole row it is nothing.
        let part_of = |logged: &'_ Logged| -> Option<Vec<u8>> {
            let bytes = logged.partial.as_ref()?;
            match bytes.is_empty() {
                true => Some(Vec::new()),
                false => bytes.get(at.as_usize()..(at + *block).as_usize()).map(<[u8]>::to_vec),
            }
        };
        let member = logged.member;
        if written.is_empty() || !self.members[member].takes_writes(&range) {
            return Ok(true);
        }
        let lost: Vec<usize> = missing.iter().copied().filter(|index| written.contains(index)).collect();
        let (sources, partial) = match (missing.is_empty(), lost.as_slice()) {
            (true, _) => ((0..stripe.data()).collect(), Vec::new()),
            (false, []) => match part_of(logged) {
                Some(partial) => (written, partial),
                None if written.len() == stripe.data() => (written, Vec::new()),
                // It was torn, and nothing was being written.
                None => return Ok(true),
            },
            (false, [lost]) if Some(member) == stripe.q() && there(stripe.p()) => {
                let (Some(of_p), Some(of_q)) = (partner.and_then(part_of), part_of(logged)) else { return Ok(true) };
                return self.follow_p(stripe, &range, (&written, *lost), (of_p, of_q)).await;
            }
            (false, _) => return Ok(true),
        };
        let members: Vec<usize> = sources.iter().map(|index| stripe.data_member(*index)).collect();
        let Ok(blocks) = self.read_band(&range, &members, false, 0).await else { return Ok(false) };
        let blocks = sources.into_iter().zip(blocks);
        let parity = self.sum_of(stripe, member, *block, &partial, blocks);
        self.members[member].write(range.start, parity, false, 0).await?;
        Ok(true)
    }

    /// Brings Q in line with P where a chunk that was being written is lost: P says what it holds. Says whether it
    /// could be done.
    async fn follow_p(
        &self,
        stripe: &Stripe,
        range: &Range<Bytes>,
        (written, lost): (&[usize], usize),
        (of_p, of_q): (Vec<u8>, Vec<u8>),
    ) -> Result<bool, DeviceError> {
        let (p, q) = (stripe.p(), stripe.q().expect("there are two parities"));
        let left: Vec<usize> = written.iter().copied().filter(|index| *index != lost).collect();
        let members: Vec<usize> = std::iter::once(p).chain(left.iter().map(|it| stripe.data_member(*it))).collect();
        let Ok(mut blocks) = self.read_band(range, &members, false, 0).await else { return Ok(false) };
        let mut held = blocks.remove(0);
        {
            let held = held.bytes_mut().expect("it is real");
            let others = blocks.iter().map(|block| block.bytes().expect("it is real"));
            let others: Vec<&[u8]> = others.chain((!of_p.is_empty()).then_some(&of_p[..])).collect();
            if !others.is_empty() {
                self.kernel.add(&others, held);
            }
        }
        let blocks = left.into_iter().zip(blocks).chain([(lost, held)]);
        let parity = self.sum_of(stripe, q, range.end - range.start, &of_q, blocks);
        self.members[q].write(range.start, parity, false, 0).await?;
        Ok(true)
    }

    /// The parity that a member holds: a partial one, if it is not empty, and what data chunks contribute to it.
    fn sum_of(
        &self,
        stripe: &Stripe,
        member: usize,
        length: Bytes,
        partial: &[u8],
        chunks: impl Iterator<Item = (usize, Buffer)>,
    ) -> Data {
        let mut parity = Buffer::zeroed(length);
        let to = parity.bytes_mut().expect("it is real");
        if !partial.is_empty() {
            to.copy_from_slice(partial);
        }
        for (index, chunk) in chunks {
            self.add_to_parity(stripe, member, index, chunk.bytes().expect("it is real"), to);
        }
        parity.freeze()
    }
}
