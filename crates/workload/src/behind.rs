//! Reading behind writing: what was written is read again when more has been written since.
//!
//! The load of a recorder that checks its tape, of a log that is shipped, of xdd's `-readafterwrite`; with
//! verification, fio's `verify_backlog`. A write is read only after it has completed, and after `lag` later ones have:
//! in between it may leave the caches that the lag exceeds. Of a stream that ends by bytes half of them are written,
//! and what is unread then is read to the end.

use std::collections::VecDeque;

use device::Operation;
use units::Bytes;

use crate::Ask;

/// Writes that have completed and wait to be read.
#[derive(Debug)]
pub(crate) struct Behind {
    lag: usize,
    /// How much is still to be written; without end if absent.
    left: Option<Bytes>,
    written: VecDeque<Ask>,
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// This read.
    Read(Ask),
    /// A write.
    Write,
    /// Nothing, or nothing before a write has completed.
    Wait,
}

impl Behind {
    /// Reads follow this many writes behind; `left` is to be written.
    pub fn new(lag: u32, left: Option<Bytes>) -> Behind {
        Behind { lag: lag as usize, left, written: VecDeque::new() }
    }

    /// A write will be made.
    pub fn asked(&mut self, length: Bytes) {
        self.left = self.left.map(|left| left.saturating_sub(length));
    }

    /// A write has completed.
    pub fn completed(&mut self, ask: &Ask) {
        if ask.operation == Operation::Write {
            self.written.push_back(*ask);
        }
    }

    /// A read, if enough was written since.
    pub fn next(&mut self) -> Turn {
        let all_written = self.left.is_some_and(Bytes::is_zero);
        let due = all_written || self.written.len() > self.lag;
        match if due { self.written.pop_front() } else { None } {
            Some(ask) => Turn::Read(Ask { operation: Operation::Read, ..ask }),
            None if all_written => Turn::Wait,
            None => Turn::Write,
        }
    }
}
