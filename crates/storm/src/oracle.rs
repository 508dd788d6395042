//! The oracle: which values a sector may have.
//!
//! A value is a number that fills the whole sector, so that a torn sector shows. Every write has a new one. Per sector
//! the values are kept that may be read, oldest first. A flush, or FUA, that was answered rules out what is older than
//! the newest write that it covers. A power cut leaves any one of those that remain. A kill of the server leaves what
//! was answered, or read, or anything newer.
//!
//! # A value once read stays
//! Nothing older than what was answered, or read, before a read was sent may be read. A read beside a write that is
//! under way may give either value, but once it gave the new one the old one is gone. What a crash left is one value
//! from the first read on, whatever that was: no later crash, and no loss of members, brings another one back. (Written
//! values may go back with the power until they are flushed, as those of any disk.)
//!
//! # A write that was refused
//! Where room is short a write is refused, and each sector has what it had or what it was to have. A read beside it may
//! have given either; one that is sent afterwards decides, until the power goes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use array::geometry::Geometry;
use units::Bytes;

/// What may be where.
pub struct Oracle {
    allowed: Vec<Values>,
    next: u64,
    /// Sectors that may hold anything: the array was opened by force, and they were computed from parity that may not
    /// fit; or it has grown by them.
    free: BTreeSet<usize>,
    /// Writes that were not answered, by their numbers, and the members that have been known not to be whole since they
    /// were sent.
    under_way: BTreeMap<usize, (Range<u64>, Vec<usize>)>,
}

/// The values of a sector. Each has a number that stays when older ones are ruled out.
struct Values {
    /// Oldest first.
    values: Vec<u64>,
    /// The number of the oldest.
    first: u64,
    /// The number of the oldest that a power cut may leave. Those before it are kept until the next crash: a read that
    /// was sent before may give them yet.
    durable: u64,
    /// Those from the first to before the second of these numbers may have been there when the last crash came: one of
    /// them is there now, and nobody has read which. A kill leaves fewer than a power cut that follows it.
    lowest: u64,
    left: u64,
    /// The number of the newest that was answered, or read, since the last crash.
    known: u64,
    /// How many writes were refused; the numbers of those of which nobody has read whether they are there, and of those
    /// that are not.
    refusals: u32,
    undecided: Vec<u64>,
    absent: Vec<u64>,
    /// Those that are under way and may yet be refused: that one was read says nothing about what will be.
    tentative: Vec<u64>,
}

/// What was known of a sector at some time: the number of the newest value, and how many writes had been refused.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    newest: u64,
    refusals: u32,
}

impl Values {
    fn of(value: u64) -> Values {
        Values {
            values: vec![value],
            first: 0,
            durable: 0,
            lowest: 0,
            left: 1,
            known: 0,
            refusals: 0,
            undecided: Vec::new(),
            absent: Vec::new(),
            tentative: Vec::new(),
        }
    }

    fn newest(&self) -> u64 {
        *self.values.last().expect("a sector has a value")
    }

    fn end(&self) -> u64 {
        self.first + self.values.len() as u64
    }

    /// The number of a value, the newest of several.
    fn number(&self, value: u64) -> Option<u64> {
        self.values.iter().rposition(|other| *other == value).map(|index| self.first + index as u64)
    }

    /// What is older than this number is ruled out, if it is one of those written since the last crash. Of what a crash
    /// left nobody knows which is older.
    fn rule_out(&mut self, before: u64) {
        let only_one = self.lowest + 1 == self.left;
        if before >= self.left || (only_one && before == self.lowest) {
            self.durable = self.durable.max(before);
        }
    }

    /// Those that may be there if nobody reads or writes before it is looked.
    fn allowed(&self) -> &[u64] {
        &self.values[(self.durable.max(self.lowest) - self.first) as usize..]
    }

    /// The power is cut, or else the server alone is killed: one of them is there.
    fn crash(&mut self, killed: bool) {
        self.values.drain(..(self.durable - self.first) as usize);
        self.first = self.durable;
        self.lowest = match killed {
            true if self.known >= self.left => self.known.max(self.first),
            true => self.lowest.max(self.first),
            false => self.first,
        };
        (self.left, self.known) = (self.end(), self.lowest);
        self.undecided.clear();
        self.absent.clear();
        self.tentative.clear();
    }

    /// Takes note of a value that was read by a request which was sent when `known` was known. False if it may not be
    /// there.
    fn read(&mut self, value: u64, known: Known) -> bool {
        let beside_refused = known.refusals != self.refusals;
        let from = match known.newest {
            _ if beside_refused => self.first,
            newest if newest < self.left => self.lowest,
            newest => newest,
        };
        let is_it = |number: &u64| self.values[(number - self.first) as usize] == value;
        let may_be = |number: &u64| is_it(number) && (beside_refused || !self.absent.contains(number));
        let mut later = (from..self.end()).filter(may_be);
        let Some(number) = later.next() else { return false };
        let only_one = later.next().is_none();
        if beside_refused || self.tentative.contains(&number) {
            return true;
        }
        if only_one {
            // It is what the refused write left, or newer: what that was to put there and is not this is not there.
            self.absent.extend(self.undecided.drain(..).filter(|refused| *refused > number));
        }
        if number < self.left && self.values[(self.left - self.first) as usize..].contains(&value) {
            // Zeroes have one value however often they are written. These may be what the crash left, or a write since,
            // which the next crash may undo.
        } else if number < self.left {
            self.values.splice(..(self.left - self.first) as usize, [value]);
            self.first = self.left - 1;
            (self.durable, self.lowest) = (self.durable.max(self.first), self.first);
            self.known = self.known.max(self.first);
        } else {
            self.known = self.known.max(number);
        }
        true
    }
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
        let allowed = (0..sectors).map(|_| Values::of(0)).collect();
        Oracle { allowed, next: 1, free: BTreeSet::new(), under_way: BTreeMap::new() }
    }

    /// The array has this many sectors now; the new ones may hold anything, be it a mixture.
    pub fn grow(&mut self, sectors: u64) {
        self.free.extend(self.allowed.len()..sectors as usize);
        self.allowed.resize_with(sectors as usize, || Values::of(0));
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
        for sector in &mut self.allowed[sectors.start as usize..sectors.end as usize] {
            sector.values.push(value);
        }
    }

    /// A write is answered: nothing older may be read while the power stays.
    pub fn answered(&mut self, sectors: Range<u64>, value: u64) {
        for sector in &mut self.allowed[sectors.start as usize..sectors.end as usize] {
            // A later one may be durable by now.
            sector.known = sector.known.max(sector.number(value).unwrap_or(sector.first));
        }
    }

    /// What is known of sectors: a read that is sent now, or a flush, is held against it when it is answered.
    pub fn known(&self, sectors: Range<u64>) -> Vec<Known> {
        let known = |sector: &Values| Known { newest: sector.known, refusals: sector.refusals };
        self.allowed[sectors.start as usize..sectors.end as usize].iter().map(known).collect()
    }

    /// What is being written there may be refused until it [has been answered](Oracle::decided).
    pub fn may_be_refused(&mut self, sectors: Range<u64>, value: u64) {
        for values in &mut self.allowed[sectors.start as usize..sectors.end as usize] {
            values.tentative.extend(values.number(value));
        }
    }

    /// All that a client wrote to these sectors has been answered.
    pub fn decided(&mut self, sectors: Range<u64>) {
        self.allowed[sectors.start as usize..sectors.end as usize].iter_mut().for_each(|it| it.tentative.clear());
    }

    /// Of what a client wrote at once to these sectors something was refused. So much was known before; each of the
    /// writes has a range, a value, and was answered or refused.
    pub fn refused(&mut self, sectors: Range<u64>, known: &[Known], writes: &[(Range<u64>, u64, bool)]) {
        for (sector, known) in sectors.zip(known) {
            let here = writes.iter().filter(|(range, ..)| range.contains(&sector));
            let values = &mut self.allowed[sector as usize];
            let (answered, refused): (Vec<_>, Vec<_>) = here.partition(|(.., answered)| *answered);
            if refused.is_empty() {
                continue;
            }
            let number = |(_, value, _): &&(Range<u64>, u64, bool)| values.number(*value);
            let newest = answered.iter().filter_map(number).max();
            let undecided: Vec<u64> = refused.iter().filter_map(number).collect();
            values.undecided.extend(undecided);
            values.known = newest.unwrap_or(known.newest).max(known.newest);
            values.refusals += 1;
        }
    }

    /// A flush is answered that was sent when so much was known.
    pub fn flushed(&mut self, sectors: Range<u64>, known: &[Known]) {
        let touched = &mut self.allowed[sectors.start as usize..sectors.end as usize];
        touched.iter_mut().zip(known).for_each(|(sector, known)| sector.rule_out(known.newest));
    }

    /// A read is answered that was sent when so much was known. What it read stays.
    pub fn read(&mut self, first: u64, known: &[Known], bytes: &[u8]) -> Result<(), String> {
        for ((sector, known), bytes) in (first..).zip(known).zip(bytes.chunks(512)) {
            if self.free.contains(&(sector as usize)) {
                continue;
            }
            let (values, found) = (&mut self.allowed[sector as usize], value_of(bytes));
            if !found.is_some_and(|value| values.read(value, *known)) {
                let newer: Vec<u64> = (values.first.max(known.newest)..values.end())
                    .map(|number| values.values[(number - values.first) as usize])
                    .collect();
                return Err(format!("sector {sector} reads {}: it went back, as it had {newer:?}", said(found)));
            }
        }
        Ok(())
    }

    /// The power is cut, or else the server alone is killed.
    pub fn crash(&mut self, killed: bool) {
        self.allowed.iter_mut().for_each(|sector| sector.crash(killed));
    }

    /// The array serves on without anybody having looked what is there. What was under way before is over.
    pub fn go_on(&mut self) {
        self.under_way.clear();
    }

    /// Whether some sectors may hold anything.
    pub fn has_free(&self) -> bool {
        !self.free.is_empty()
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

    /// The array was stopped: all that was answered is durable to the last byte. Of writes that were refused nobody
    /// knows.
    pub fn stopped(&mut self) {
        let refused: BTreeSet<u64> = self.under_way.values().flat_map(|(write, _)| write.clone()).collect();
        for (sector, values) in (0..).zip(&mut self.allowed) {
            if !refused.contains(&sector) {
                values.rule_out(values.known);
            }
        }
    }

    /// The newest value of each sector.
    pub fn newest(&self, sectors: Range<u64>) -> Vec<u64> {
        self.allowed[sectors.start as usize..sectors.end as usize].iter().map(Values::newest).collect()
    }

    /// Values older than these are ruled out: what a sector had when a flush was sent that has been answered now.
    pub fn must_hold(&mut self, sectors: Range<u64>, newest: &[u64]) {
        let touched = &mut self.allowed[sectors.start as usize..sectors.end as usize];
        for (values, newest) in touched.iter_mut().zip(newest) {
            values.rule_out(values.number(*newest).unwrap_or(0));
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

    /// The whole array as it is read after a power cut: each sector has one of its values. Gives those that may have
    /// anything.
    pub fn admits(&self, bytes: &[u8]) -> Result<Vec<u64>, String> {
        self.allows(&bytes.chunks(512).map(value_of).collect::<Vec<_>>())?;
        Ok(self.free.iter().map(|sector| *sector as u64).collect())
    }

    /// As [`admits`](Oracle::admits), of the number of each sector, if it is one.
    pub fn allows(&self, found: &[Option<u64>]) -> Result<(), String> {
        for (sector, found) in found.iter().enumerate().filter(|(sector, _)| !self.free.contains(sector)) {
            let values = self.allowed[sector].allowed();
            if found.is_none_or(|value| !values.contains(&value)) {
                return Err(format!("sector {sector} holds {}, allowed are {values:?}", said(*found)));
            }
        }
        Ok(())
    }

    /// What was admitted has been made durable, and those that could have anything were written, with what shares a
    /// block with them: from now on it is that and nothing else.
    pub fn settle(&mut self, bytes: &[u8], written: impl Iterator<Item = (u64, u64)>) {
        for (sector, bytes) in bytes.chunks(512).enumerate().filter(|(sector, _)| !self.free.contains(sector)) {
            self.allowed[sector] = Values::of(value_of(bytes).expect("a mixture is not admitted"));
        }
        self.under_way.clear();
        for (sector, value) in written {
            self.free.remove(&(sector as usize));
            self.allowed[sector as usize] = Values::of(value);
        }
        assert!(self.free.is_empty(), "what could have anything was written: {:?}", self.free);
    }

    /// The array is opened without `missing` by its partial parity log. Of a write that was under way, touches several
    /// chunks of a row and may have been sent to a whole member, the log does not know that member's part (see
    /// `array`'s `ppl`).
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

    /// The array is opened by force without `missing`: where a stripe was being written, what they held may be computed
    /// as anything.
    pub fn forced(&mut self, geometry: &Geometry, missing: &[usize]) {
        let sector = |sector: usize| geometry.place(Bytes::SECTOR * sector as u64);
        let row = |at: usize| Bytes::SECTOR * at as u64 / geometry.stripe_size();
        let open = |at: &usize| self.allowed[*at].allowed().len() > 1 || self.free.contains(at);
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
