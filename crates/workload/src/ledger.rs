//! What was written where: the ledger against which reads are held.
//!
//! A device whose streams verify has one. It keeps the [`Version`] of every *unit*, the largest size that divides all
//! sizes and addresses of those streams: 8 bytes for each that was written, in pages, so that a large device costs what
//! is used of it.
//!
//! Two writes of one unit that are under way together leave either version behind, and no ledger could say which. So a
//! verifying stream waits with a write until none is under way where it goes; the wait counts as the request's, and
//! only happens where a load overwrites what it has not finished writing. Reads do not wait: one that overlaps a write
//! may find the old or the new.
//!
//! A run that is killed leaves no ledger but what it had noted of its completed writes by then
//! ([`Ledger::take_noted`]), and went on writing after that. So in the ledger of such a run ([`Written::cut`]) a
//! version is the oldest that will do: an older one is a lost write, and a later one of the same run and place was
//! under way, or had just completed, when the run was killed. Whatever was damaged, misplaced or lost before is still
//! found.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;

use runtime::Signal;
use units::Bytes;

use crate::mismatch::{Findings, Place};
use crate::stamp::{Filling, Leeway, Stamp, Version, compare, judge};

/// Units in a page.
const PAGE: u64 = 4096;

/// What is known of the contents of one device.
pub struct Ledger {
    run: u64,
    device: u16,
    unit: Bytes,
    /// Nothing is written here: reads are held against what the sectors say of themselves.
    blind: bool,
    /// See [`Written::cut`].
    cut: bool,
    /// What stands behind the heads of sectors.
    filling: Filling,
    /// Blocks are this and nothing else, from the first byte of each request on.
    whole: Option<Vec<u8>>,
    state: RefCell<State>,
    freed: Signal,
}

#[derive(Default)]
struct State {
    pages: HashMap<u64, Box<[Version]>>,
    /// Number of the last write that was begun.
    sequence: u64,
    /// Units that are being written, and by which write.
    under_way: Vec<(Range<u64>, Version)>,
    /// Writes that have ended since they were last taken, if anybody takes them.
    noted: Option<Vec<Extent>>,
    findings: Findings,
}

/// First unit, number of units, and the version that all of them have; the default of a version where nobody knows.
pub type Extent = (u64, u64, Version);

/// What was written to a device, as it is kept for later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// See [`Stamp::run`].
    pub run: u64,
    /// See [`Stamp::device`].
    pub device: u16,
    /// The size of a unit.
    pub unit: Bytes,
    /// In order, and apart; of a run that was killed in the order in which the writes ended, the later over the
    /// earlier.
    pub extents: Vec<Extent>,
    /// The run was killed: what it wrote after the last of these is not known.
    pub cut: bool,
}

/// A read under way: what it may race with.
pub(crate) struct Reading {
    /// Writes after this one have begun since.
    begun: u64,
    /// Those that were under way already.
    racing: Vec<Range<u64>>,
}

/// A write under way.
pub(crate) struct Writing {
    units: Range<u64>,
    version: Version,
}

impl Ledger {
    /// The empty ledger of a device that a run of this identity writes, in multiples of `unit`.
    pub fn new(run: u64, device: u16, unit: Bytes) -> Ledger {
        assert!(!unit.is_zero() && unit.is_multiple_of(Bytes::SECTOR), "a unit of {unit:#}");
        let (state, freed) = (RefCell::default(), Signal::default());
        Ledger { run, device, unit, blind: false, cut: false, filling: Filling::Woven, whole: None, state, freed }
    }

    /// The same, which notes each write that ends for [`Ledger::take_noted`].
    pub fn noting(self) -> Ledger {
        self.state.borrow_mut().noted = Some(Vec::new());
        self
    }

    /// The same of sectors that hold a pattern behind their heads.
    pub fn filled(self, filling: Filling) -> Ledger {
        Ledger { filling, ..self }
    }

    /// The same of blocks that hold a pattern and no head: each request begins with its first byte.
    ///
    /// # Panics
    /// If the pattern has no bytes.
    pub fn patterned(self, pattern: Vec<u8>) -> Ledger {
        assert!(!pattern.is_empty(), "a pattern has bytes");
        Ledger { whole: Some(pattern), ..self }
    }

    /// True if sectors say what they are, and nothing but that, so that a later run can verify them by what is kept.
    pub fn is_plain(&self) -> bool {
        self.whole.is_none() && self.filling == Filling::Woven
    }

    /// True if nothing was found that is not what was written.
    pub fn is_sound(&self) -> bool {
        self.state.borrow().findings.count == 0
    }

    /// A ledger of a device that is not written, whose sectors are to be whole and in their places.
    pub fn blind(device: u16, unit: Bytes) -> Ledger {
        Ledger { blind: true, ..Ledger::new(0, device, unit) }
    }

    /// The ledger of what was written before.
    pub fn of(written: &Written) -> Ledger {
        let ledger = Ledger { cut: written.cut, ..Ledger::new(written.run, written.device, written.unit) };
        let mut state = ledger.state.borrow_mut();
        for (first, units, version) in &written.extents {
            state.sequence = state.sequence.max(version.sequence());
            state.set(*first..first + units, *version);
        }
        drop(state);
        ledger
    }

    /// What was written, and has completed.
    pub fn written(&self) -> Written {
        let state = self.state.borrow();
        let mut numbers: Vec<u64> = state.pages.keys().copied().collect();
        numbers.sort_unstable();
        let mut extents: Vec<Extent> = Vec::new();
        for number in numbers {
            for (unit, version) in (number * PAGE..).zip(&state.pages[&number]) {
                let sure = *version != Version::default() && !state.is_under_way(&(unit..unit + 1));
                match extents.last_mut() {
                    Some((first, units, same)) if sure && *first + *units == unit && same == version => *units += 1,
                    _ if sure => extents.push((unit, 1, *version)),
                    _ => {}
                }
            }
        }
        Written { run: self.run, device: self.device, unit: self.unit, extents, cut: self.cut }
    }

    /// Writes that have ended since the last call, in the order in which they did; none from a ledger that is not
    /// [`Ledger::noting`].
    pub fn take_noted(&self) -> Vec<Extent> {
        match &mut self.state.borrow_mut().noted {
            // As many will have ended when the next are taken: a vector that grows stops the load for a moment.
            Some(noted) => std::mem::replace(noted, Vec::with_capacity(noted.len())),
            None => Vec::new(),
        }
    }

    /// Whether something is written, and what is to be found is known.
    pub fn is_blind(&self) -> bool {
        self.blind
    }

    /// Tells the run from all others.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Index of the device.
    pub fn device(&self) -> u16 {
        self.device
    }

    /// The size of a unit.
    pub fn unit(&self) -> Bytes {
        self.unit
    }

    /// What was found so far.
    pub fn findings(&self) -> Findings {
        self.state.borrow().findings.clone()
    }

    fn units(&self, offset: Bytes, length: Bytes) -> Range<u64> {
        offset / self.unit..(offset + length).round_up(self.unit) / self.unit
    }

    /// Waits until nothing is being written there, and begins a write.
    pub(crate) async fn begin_write(&self, pass: u16, offset: Bytes, length: Bytes) -> Writing {
        assert!(!self.blind, "nothing is written here");
        // A unit that is written in part would be said to be written whole.
        assert!(
            offset.is_multiple_of(self.unit) && length.is_multiple_of(self.unit),
            "{length:#} at {offset:#} are no units"
        );
        let units = self.units(offset, length);
        self.freed.wait_until(|| !self.state.borrow().is_under_way(&units)).await;
        let state = &mut *self.state.borrow_mut();
        state.sequence += 1;
        let version = Version::new(pass, state.sequence);
        state.under_way.push((units.clone(), version));
        state.set(units.clone(), version);
        Writing { units, version }
    }

    /// Stamps the bytes of a write.
    pub(crate) fn fill(&self, writing: &Writing, offset: Bytes, bytes: &mut [u8]) {
        if let Some(pattern) = &self.whole {
            return bytes.chunks_mut(pattern.len()).for_each(|to| to.copy_from_slice(&pattern[..to.len()]));
        }
        let (run, device, version) = (self.run, self.device, writing.version);
        for (index, sector) in (0..).zip(bytes.chunks_exact_mut(Bytes::SECTOR.as_usize())) {
            Stamp { run, device, offset: offset + Bytes::SECTOR * index, version }.fill(&self.filling, sector);
        }
    }

    /// The write has come to its end. After one that failed nobody knows what is there.
    pub(crate) fn end_write(&self, writing: Writing, stored: bool) {
        let state = &mut *self.state.borrow_mut();
        state.under_way.retain(|(_, version)| *version != writing.version);
        if !stored {
            state.set(writing.units.clone(), Version::default());
        }
        if let Some(noted) = &mut state.noted {
            let Range { start, end } = writing.units;
            noted.push((start, end - start, if stored { writing.version } else { Version::default() }));
        }
        self.freed.notify();
    }

    /// A read of that range begins.
    pub(crate) fn begin_read(&self, offset: Bytes, length: Bytes) -> Reading {
        let state = self.state.borrow();
        let units = self.units(offset, length);
        let overlapping = state.under_way.iter().filter(|(other, _)| overlap(other, &units));
        Reading { begun: state.sequence, racing: overlapping.map(|(units, _)| units.clone()).collect() }
    }

    /// Holds what a read has brought against what was written.
    pub(crate) fn end_read(&self, reading: &Reading, (stream, pass): (u16, u16), offset: Bytes, bytes: &[u8]) {
        let state = &mut *self.state.borrow_mut();
        let mut place = Place::new(self.device, stream, pass);
        for (index, sector) in (0..).zip(bytes.chunks_exact(Bytes::SECTOR.as_usize())) {
            let at = offset + Bytes::SECTOR * index;
            let unit = at / self.unit;
            let version = state.version(unit);
            if version == Version::default() && !self.blind {
                state.findings.unknown += Bytes::SECTOR;
                continue;
            }
            let (run, device) = (self.run, self.device);
            let expected = (!self.blind).then_some(Stamp { run, device, offset: at, version });
            let racing = version.sequence() > reading.begun || reading.racing.iter().any(|units| units.contains(&unit));
            state.findings.checked += Bytes::SECTOR;
            let leeway = Leeway { racing, cut: self.cut };
            let judged = match &self.whole {
                Some(_) if racing => Ok(None),
                Some(pattern) => compare(sector, pattern, index * Bytes::SECTOR.get()),
                None => judge(sector, at, expected, leeway, &self.filling),
            };
            match judged {
                Ok(found) => {
                    if self.cut && found.is_some_and(|found| found > version) {
                        state.findings.later += Bytes::SECTOR;
                    }
                    place.good(version);
                }
                Err(fault) => place.bad(at, expected.filter(|_| self.whole.is_none()), fault),
            }
        }
        state.findings.add(place);
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

impl State {
    fn version(&self, unit: u64) -> Version {
        self.pages.get(&(unit / PAGE)).map_or(Version::default(), |page| page[(unit % PAGE) as usize])
    }

    fn set(&mut self, units: Range<u64>, version: Version) {
        let mut at = units.start;
        while at < units.end {
            let end = units.end.min((at / PAGE + 1) * PAGE);
            let page = self.pages.entry(at / PAGE).or_insert_with(|| vec![Version::default(); PAGE as usize].into());
            page[(at % PAGE) as usize..][..(end - at) as usize].fill(version);
            at = end;
        }
    }

    fn is_under_way(&self, units: &Range<u64>) -> bool {
        self.under_way.iter().any(|(other, _)| overlap(other, units))
    }
}
