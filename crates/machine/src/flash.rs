//! A flash drive: dies behind channels, a write buffer, and the price of tidying up.
//!
//! # What is modelled
//! - A *die* does one thing at a time. Reading a page takes `read`, programming a unit (a page on each plane)
//!   `program`; pages are spread over the dies by their number, and written units go to the dies in turn.
//! - Pages that were read cross their *channel* one after another, and then the *link* to the host; data that are
//!   written cross the link the other way. The controller starts one command every `command-interval`.
//! - A write is complete when its data are in the *write buffer*, which survives a power cut. The buffer empties a unit
//!   at a time; when it is full, writes wait for the dies.
//! - A read does not wait for a program to end: the program is *suspended*, and ends later by what the read took.
//! - *Garbage collection* is a mean field: it is not a task that comes and goes, but each unit that is programmed takes
//!   the time of the units that have to be moved for it, and its share of an erase (`amplification.rs`). This is what a
//!   drive does in the long run when it has been written over; the peaks of a single collection are not there. Data
//!   that are written in sequence are overwritten in sequence and leave whole blocks behind, so nothing is moved for
//!   them.
//!
//! # What is left out
//! Which page lies where (a mapping of 250 million entries would say little more than the number of the page does);
//! reads that find their data in the write buffer; the transfer of written units over the channels as seen by reads (it
//! is a part of the die's time); retries, refresh, thermal throttling, and caches in single-level cells.
//!
//! Every time is computed when the request arrives, and no request waits in a queue whose order somebody has to choose:
//! a flash drive has so many dies that the order matters little.

mod amplification;
mod parameters;

use std::collections::VecDeque;

use units::{Bytes, Duration, Instant};

pub use amplification::write_amplification;
pub use parameters::FlashParameters;

use crate::disk::mechanism::Access;

/// A flash drive.
#[derive(Debug, Clone)]
pub struct Flash {
    parameters: FlashParameters,
    /// Copies of each unit of random writes, itself counted.
    amplification: f64,
    dies: Vec<Die>,
    channels: Vec<Instant>,
    /// When the controller takes the next command, and when the two directions of the link are free.
    controller: Instant,
    link_out: Instant,
    link_in: Instant,
    /// Bytes in the write buffer that no unit has taken yet, and those of them that were written at random.
    filling: Bytes,
    filling_random: Bytes,
    /// When units that are being programmed leave the buffer, oldest first.
    leaving: VecDeque<Instant>,
    /// The die that is programmed next.
    turn: usize,
    /// Where the last sequential streams ended.
    ends: [Bytes; STREAMS],
    oldest_end: usize,
    /// Its data cross no link of its own: whoever owns it moves them.
    behind_a_way: bool,
    /// What all dies together have worked.
    worked: Duration,
}

/// Sequential streams that are told apart.
const STREAMS: usize = 8;

/// What a die does.
#[derive(Debug, Clone, Copy, Default)]
struct Die {
    reading_until: Instant,
    programming_until: Instant,
}

impl Flash {
    /// A drive that rests, full as its parameters say.
    pub fn new(parameters: FlashParameters) -> Flash {
        let amplification = write_amplification(parameters.physical, parameters.mapped());
        Flash {
            amplification,
            dies: vec![Die::default(); parameters.dies() as usize],
            channels: vec![Instant::START; parameters.channels as usize],
            controller: Instant::START,
            link_out: Instant::START,
            link_in: Instant::START,
            filling: Bytes::ZERO,
            filling_random: Bytes::ZERO,
            leaving: VecDeque::new(),
            turn: 0,
            ends: [Bytes::ZERO; STREAMS],
            oldest_end: 0,
            behind_a_way: false,
            worked: Duration::ZERO,
            parameters,
        }
    }

    /// As [`Flash::new`], for whoever moves the data himself: they take no time on a link of the drive's own.
    pub fn behind_a_way(parameters: FlashParameters) -> Flash {
        Flash { behind_a_way: true, ..Flash::new(parameters) }
    }

    /// For how long its dies have worked, on average.
    pub fn dies_busy(&self) -> Duration {
        self.worked / self.dies.len() as u64
    }

    /// Its parameters.
    pub fn parameters(&self) -> &FlashParameters {
        &self.parameters
    }

    /// Copies of each unit of random writes, itself counted.
    pub fn amplification(&self) -> f64 {
        self.amplification
    }

    /// When a request that arrives at `now` is complete. Instants must not go backwards, and the range must lie within
    /// the drive.
    pub fn serve(&mut self, now: Instant, access: Access, offset: Bytes, length: Bytes) -> Instant {
        let taken = self.take(now, offset, length);
        match access {
            Access::Read => self.read(taken + self.parameters.read_overhead, offset, length),
            Access::Write => self.write(taken + self.parameters.write_overhead, offset, length),
        }
    }

    /// When the controller takes a command.
    fn take(&mut self, now: Instant, offset: Bytes, length: Bytes) -> Instant {
        assert!(length > Bytes::ZERO && offset + length <= self.parameters.capacity, "a request lies within the drive");
        let taken = self.controller.max(now);
        self.controller = taken + self.parameters.command_interval;
        taken
    }

    /// When all that is in the write buffer is on flash.
    pub fn flush(&self, now: Instant) -> Instant {
        // What is in the buffer survives a power cut, so there is nothing to wait for but the commands before.
        self.link_in.max(now)
    }

    fn read(&mut self, start: Instant, offset: Bytes, length: Bytes) -> Instant {
        let mut completes = start;
        self.pages(start, offset, length, |flash, ready, part| {
            flash.link_out = flash.link_out.max(ready) + flash.link_time(part);
            completes = completes.max(flash.link_out);
        });
        completes
    }

    /// Reads into the drive's buffer: when the first page of it is there, and when all of it.
    pub fn fetch(&mut self, now: Instant, offset: Bytes, length: Bytes) -> (Instant, Instant) {
        let start = self.take(now, offset, length) + self.parameters.read_overhead;
        let (mut first, mut last) = (Instant::NEVER, start);
        self.pages(start, offset, length, |_, ready, _| (first, last) = (first.min(ready), last.max(ready)));
        (first, last)
    }

    /// Each page of a range: when it has crossed its channel, and how much of it is wanted.
    fn pages(
        &mut self,
        start: Instant,
        offset: Bytes,
        length: Bytes,
        mut each: impl FnMut(&mut Flash, Instant, Bytes),
    ) {
        let page = self.parameters.page;
        let end = offset + length;
        let mut at = offset;
        while at < end {
            let number = at / page;
            let part = end.min(page * (number + 1)) - at;
            let index = (number % self.dies.len() as u64) as usize;
            let ready = self.dies[index].read(start, &self.parameters);
            self.worked += self.parameters.read;
            let channel = &mut self.channels[index % self.parameters.channels as usize];
            *channel = (*channel).max(ready) + self.parameters.channel.time_for(part);
            let ready = *channel;
            each(self, ready, part);
            at += part;
        }
    }

    fn link_time(&self, part: Bytes) -> Duration {
        if self.behind_a_way { Duration::ZERO } else { self.parameters.link.time_for(part) }
    }

    fn write(&mut self, start: Instant, offset: Bytes, length: Bytes) -> Instant {
        let random = !self.continues(offset, length);
        let unit = self.parameters.unit();
        let mut left = length;
        let mut arrived = start;
        while left > Bytes::ZERO {
            let part = left.min(unit - self.filling);
            arrived = self.room(arrived.max(self.link_in)) + self.link_time(part);
            self.link_in = arrived;
            self.filling += part;
            if random {
                self.filling_random += part;
            }
            if self.filling == unit {
                self.program(arrived);
            }
            left = left - part;
        }
        arrived
    }

    /// Whether a write goes on where one of the last ones ended, and where it ends itself.
    fn continues(&mut self, offset: Bytes, length: Bytes) -> bool {
        match self.ends.iter().position(|end| *end == offset && offset > Bytes::ZERO) {
            Some(stream) => {
                self.ends[stream] = offset + length;
                true
            }
            None => {
                self.ends[self.oldest_end] = offset + length;
                self.oldest_end = (self.oldest_end + 1) % STREAMS;
                false
            }
        }
    }

    /// When the buffer has room for another unit, from `at` on.
    fn room(&mut self, at: Instant) -> Instant {
        while self.leaving.front().is_some_and(|leaves| *leaves <= at) {
            self.leaving.pop_front();
        }
        let units = self.parameters.write_buffer / self.parameters.unit();
        if (self.leaving.len() as u64) < units {
            return at;
        }
        self.leaving.pop_front().map_or(at, |leaves| leaves.max(at))
    }

    /// Gives the unit that has filled to the next die.
    fn program(&mut self, at: Instant) {
        let random = self.filling_random.get() as f64 / self.filling.get() as f64;
        let copies = 1.0 + random * (self.amplification - 1.0);
        let die = &mut self.dies[self.turn];
        let start = die.programming_until.max(die.reading_until).max(at);
        let programming = self.parameters.programming(copies);
        die.programming_until = start + programming;
        self.worked += programming;
        self.leaving.push_back(die.programming_until);
        self.turn = (self.turn + 1) % self.dies.len();
        (self.filling, self.filling_random) = (Bytes::ZERO, Bytes::ZERO);
    }
}

impl Die {
    /// When a page has been read that is asked for at `at`.
    fn read(&mut self, at: Instant, parameters: &FlashParameters) -> Instant {
        let mut start = self.reading_until.max(at);
        if self.programming_until > start {
            start += parameters.suspend;
            self.programming_until += parameters.suspend + parameters.read;
        }
        self.reading_until = start + parameters.read;
        self.reading_until
    }
}
