//! What a server has done, and is doing, for whoever asks while it serves.

use std::cell::Cell;

use units::Duration;

use crate::command::Command;

/// Kinds of requests, by their names; a [`Tally`] of each stands at the same place.
pub const OPERATIONS: [&str; 6] = ["read", "write", "flush", "trim", "write_zeroes", "block_status"];

/// Upper bounds of times, for a histogram: three a decade from 100 us, in nanoseconds.
pub const BOUNDS: [Duration; 12] = [
    Duration::micros(100),
    Duration::micros(300),
    Duration::millis(1),
    Duration::millis(3),
    Duration::millis(10),
    Duration::millis(30),
    Duration::millis(100),
    Duration::millis(300),
    Duration::seconds(1),
    Duration::seconds(3),
    Duration::seconds(10),
    Duration::seconds(30),
];

/// What was done by requests of one kind.
#[derive(Debug, Default)]
pub struct Tally {
    /// Requests carried out, or failed.
    pub requests: Cell<u64>,
    /// Bytes of those that did not fail.
    pub bytes: Cell<u64>,
    /// Requests that failed.
    pub errors: Cell<u64>,
    /// From the request, with its payload, to its reply, of all of them together.
    pub time: Cell<Duration>,
    /// Requests that took no longer than the bound at this place, and longer than the one before; the last one: longer
    /// than all.
    pub within: [Cell<u64>; BOUNDS.len() + 1],
}

/// What a server has done.
#[derive(Debug, Default)]
pub struct Totals {
    /// Connections accepted.
    pub connections: Cell<u64>,
    /// Connections that are there.
    pub present: Cell<u64>,
    /// Clients that were sent away.
    pub refused: Cell<u64>,
    /// Requests answered.
    pub requests: Cell<u64>,
    /// Requests that are being carried out.
    pub under_way: Cell<u64>,
    /// Bytes that were read.
    pub read: Cell<u64>,
    /// Bytes that were written.
    pub written: Cell<u64>,
    /// Requests answered with an error.
    pub errors: Cell<u64>,
    /// Memory that all connections hold for requests and replies, in bytes, when it was last looked at.
    pub held: Cell<u64>,
    /// By kind, as in [`OPERATIONS`].
    pub by_operation: [Tally; OPERATIONS.len()],
}

/// A connection that is there until this is dropped.
pub(crate) struct Present<'t>(&'t Totals);

pub(crate) fn add(total: &Cell<u64>, more: u64) {
    total.set(total.get() + more);
}

impl Totals {
    pub(crate) fn comes(&self) -> Present<'_> {
        add(&self.present, 1);
        Present(self)
    }

    /// A request is refused without having been carried out.
    pub(crate) fn refuses(&self) {
        add(&self.requests, 1);
        add(&self.errors, 1);
    }

    pub(crate) fn begins(&self) {
        add(&self.under_way, 1);
    }

    pub(crate) fn ends(&self, command: &Command, failed: bool, took: Duration) {
        self.under_way.set(self.under_way.get() - 1);
        add(&self.requests, 1);
        let (place, length) = match command {
            Command::Read { length, .. } => (0, length.get()),
            Command::Write { length, .. } => (1, length.get()),
            Command::Flush | Command::Disconnect => (2, 0),
            Command::Trim { length, .. } => (3, length.get()),
            Command::WriteZeroes { length, .. } => (4, length.get()),
            Command::BlockStatus { length, .. } => (5, length.get()),
        };
        let tally = &self.by_operation[place];
        add(&tally.requests, 1);
        tally.time.set(tally.time.get() + took);
        let bucket = BOUNDS.iter().position(|bound| took <= *bound).unwrap_or(BOUNDS.len());
        add(&tally.within[bucket], 1);
        if failed {
            add(&self.errors, 1);
            return add(&tally.errors, 1);
        }
        add(&tally.bytes, length);
        match place {
            0 => add(&self.read, length),
            1 => add(&self.written, length),
            _ => {}
        }
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.0.present.set(self.0.present.get() - 1);
    }
}
