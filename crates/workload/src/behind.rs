//! Reading behind writing: what was written is read again when more has been written since.
//!
//! The load of a recorder that checks its tape, of a log that is shipped, of xdd's `-readafterwrite`; with verification, fio's `verify_backlog`. A
//! write is read only after it has completed, and after `lag` later ones have: in between it may leave the caches that the lag exceeds.

use std::collections::VecDeque;

use device::Operation;

use crate::Ask;

/// Writes that have completed and wait to be read.
#[derive(Debug)]
pub(crate) struct Behind {
    lag: usize,
    written: VecDeque<Ask>,
}

impl Behind {
    /// Reads follow this many writes behind.
    pub fn new(lag: u32) -> Behind {
        Behind { lag: lag as usize, written: VecDeque::new() }
    }

    /// A write has completed.
    pub fn completed(&mut self, ask: &Ask) {
        if ask.operation == Operation::Write {
            self.written.push_back(*ask);
        }
    }

    /// The read that is next, if enough was written since.
    pub fn next(&mut self) -> Option<Ask> {
        let due = self.written.len() > self.lag;
        let ask = if due { self.written.pop_front() } else { None };
        ask.map(|ask| Ask { operation: Operation::Read, ..ask })
    }
}
