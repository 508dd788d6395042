//! The oracle: which values a sector may have.
//!
//! A value is a number that fills the whole sector, so that a torn sector shows. Every write has a new one. Per sector the values are
//! kept that may be read, oldest first: a flush, or FUA, that was answered rules out what is older than the newest write that it
//! covers; a power cut leaves any one of those that remain, and the next read decides which.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use array::geometry::Geometry;
use units::Bytes;

/// What may be where.
pub struct Oracle {
    allowed: Vec<Vec<u64>>,
    next: u64,
    /// Sectors that may hold anything: the array was opened by force, and they were computed from parity that may not fit; or it has grown
    /// by them.
    free: BTreeSet<usize>,
    /// Writes that were not answered, by their numbers, and the members that have been known not to be whole since they were sent.
    under_way: BTreeMap<usize, (Range<u64>, Vec<usize>)>,
}

/// A sector's bytes `count` times, all one number.
pub fn sectors_of(value: u64, count: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(64 * count as usize)
}

/// The number of a sector; `None` if it is a mixture.
pub fn value_of(sector: &[u8]) -> Option<u64> {
    let first = &sector[..8];
    let whole = sector.chunks(8).all(|word| word == first);
    whole.then(|| u64::from_le_bytes(first.try_into().expect("eight bytes")))
}

impl Oracle {
    /// An array of so many sectors of zeroes.
    pub fn new(sectors: u64) -> Oracle {
        Oracle { allowed: vec![vec![0]; sectors as usize], next: 1, free: BTreeSet::new(), under_way: BTreeMap::new() }
    }

    /// The array has this many sectors now; the new ones may hold anything, be it a mixture.
    pub fn grow(&mut self, sectors: u64) {
        self.free.extend(self.allowed.len()..sectors as usize);
        self.allowed.resize(sectors as usize, vec![0]);
    }

    /// How many sectors there are.
    pub fn sectors(&self) -> u64 {
        self.allowed.len() as u64
    }

    /// A value that was never written.
    pub fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// A write is sent: from now on its value may be there.
    pub fn may_write(&mut self, sectors: Range<u64>, value: u64) {
        for values in &mut self.allowed[sectors.start as usize..sectors.end as usize] {
            values.push(value);
        }
    }

    /// A client sends a write of these sectors, under a number, while these members are known not to be whole.
    pub fn begin(&mut self, number: usize, sectors: Range<u64>, lost: Vec<usize>) {
        self.under_way.insert(number, (sectors, lost));
    }

    /// These members are whole: what is under way may have been sent to them as to all others.
    pub fn are_whole(&mut self, members: &[usize]) {
        self.under_way.values_mut().for_each(|(_, lost)| lost.retain(|member| !members.contains(member)));
    }

    /// The write of this number is answered.
    pub fn end(&mut self, number: usize) {
        self.under_way.remove(&number);
    }

    /// The array was stopped: all that was answered is durable to the last byte. Of writes that were refused nobody knows.
    pub fn stopped(&mut self) {
        let refused: BTreeSet<u64> = self.under_way.values().flat_map(|(write, _)| write.clone()).collect();
        for (sector, values) in (0..).zip(&mut self.allowed) {
            if !refused.contains(&sector) {
                values.drain(..values.len() - 1);
            }
        }
    }

    /// The newest value of each sector.
    pub fn newest(&self, sectors: Range<u64>) -> Vec<u64> {
        let of = |values: &Vec<u64>| *values.last().expect("a sector has a value");
        self.allowed[sectors.start as usize..sectors.end as usize].iter().map(of).collect()
    }

    /// Values older than these are ruled out: what a sector had when a flush was sent that has been answered now.
    pub fn must_hold(&mut self, sectors: Range<u64>, newest: &[u64]) {
        let touched = &mut self.allowed[sectors.start as usize..sectors.end as usize];
        for (values, newest) in touched.iter_mut().zip(newest) {
            let from = values.iter().rposition(|value| value == newest).unwrap_or(0);
            values.drain(..from);
        }
    }

    /// Bytes read while nothing was lost: each sector has its newest value.
    pub fn is_newest(&self, first: u64, bytes: &[u8]) -> Result<(), String> {
        for (sector, bytes) in (first..).zip(bytes.chunks(512)) {
            let newest = self.newest(sector..sector + 1)[0];
            let found = value_of(bytes);
            if found != Some(newest) {
                return Err(format!("sector {sector} reads {}, written was {newest}", said(found)));
            }
        }
        Ok(())
    }

    /// The whole array as it is read after a power cut: each sector has one of its values. Gives those that may have anything.
    pub fn admits(&self, bytes: &[u8]) -> Result<Vec<u64>, String> {
        self.allows(&bytes.chunks(512).map(value_of).collect::<Vec<_>>())?;
        Ok(self.free.iter().map(|sector| *sector as u64).collect())
    }

    /// As [`admits`](Oracle::admits), of the number of each sector, if it is one.
    pub fn allows(&self, found: &[Option<u64>]) -> Result<(), String> {
        for (sector, found) in found.iter().enumerate().filter(|(sector, _)| !self.free.contains(sector)) {
            let values = &self.allowed[sector];
            if found.is_none_or(|value| !values.contains(&value)) {
                return Err(format!("sector {sector} holds {}, allowed are {values:?}", said(*found)));
            }
        }
        Ok(())
    }

    /// What was admitted has been made durable, and those that could have anything were written, with what shares a block with them: from now on it is
    /// that and nothing else.
    pub fn settle(&mut self, bytes: &[u8], written: impl Iterator<Item = (u64, u64)>) {
        for (sector, bytes) in bytes.chunks(512).enumerate().filter(|(sector, _)| !self.free.contains(sector)) {
            self.allowed[sector] = vec![value_of(bytes).expect("a mixture is not admitted")];
        }
        self.under_way.clear();
        for (sector, value) in written {
            self.free.remove(&(sector as usize));
            self.allowed[sector as usize] = vec![value];
        }
        assert!(self.free.is_empty(), "what could have anything was written: {:?}", self.free);
    }

    /// The array is opened without `missing` by its partial parity log. Of a write that was under way, touches several chunks of a row and
    /// may have been sent to a whole member, the log does not know that member's part (see `array`'s `ppl`).
    pub fn logged(&mut self, geometry: &Geometry, missing: &[usize]) {
        let member = |sector: u64| geometry.place(Bytes::SECTOR * sector).member;
        let row = |sector: u64| Bytes::SECTOR * sector / geometry.stripe_size();
        for (write, lost) in self.under_way.values() {
            let unknown = |sector: &u64| {
                let of = member(*sector);
                let several = || write.clone().any(|other| row(other) == row(*sector) && member(other) != of);
                missing.contains(&of) && !lost.contains(&of) && several()
            };
            self.free.extend(write.clone().filter(unknown).map(|sector| sector as usize));
        }
    }

    /// The array is opened by force without `missing`: where a stripe was being written, what they held may be computed as anything.
    pub fn forced(&mut self, geometry: &Geometry, missing: &[usize]) {
        let sector = |sector: usize| geometry.place(Bytes::SECTOR * sector as u64);
        let row = |at: usize| Bytes::SECTOR * at as u64 / geometry.stripe_size();
        let open = |at: &usize| self.allowed[*at].len() > 1 || self.free.contains(at);
        let torn: BTreeSet<u64> = (0..self.allowed.len()).filter(open).map(row).collect();
        let lost =
            (0..self.allowed.len()).filter(|at| torn.contains(&row(*at)) && missing.contains(&sector(*at).member));
        let lost: Vec<usize> = lost.collect();
        self.free.extend(lost);
    }
}

fn said(value: Option<u64>) -> String {
    value.map_or("a mixture".to_owned(), |value| value.to_string())
}
