//! Reading behind writing: what was written is read again when more has been written since.
//!
//! The load of a recorder that checks its tape, of a log that is shipped, of xdd's `-readafterwrite`; with
//! verification, fio's `verify` and `verify_backlog`. A write is read only after it has completed, and after `lag`
//! later ones have: in between it may leave the caches that the lag exceeds.
//!
//! A stream that ends by bytes or requests draws half of them, and what it has not read again then it reads to the end.
//! Where it only writes, the other half is these reads. A mixed stream draws reads, too, which are read once, so that
//! it ends before its limits. With a *lap* the stream goes on only when all that it wrote in the lap has been read, as
//! fio does where it begins a file again.
//!
//! Of several writes in one place the last is read, once, if they come before their turn: the others are no longer
//! there.

use std::collections::{HashMap, VecDeque};

use device::Operation;
use units::Bytes;

use crate::{Ask, Limits};

/// How a stream reads behind its writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadBehind {
    /// A write is read when this many more have completed.
    pub lag: u32,
    /// After drawing so much, all that was written is read before more is drawn.
    pub lap: Option<Bytes>,
}

/// Writes that have completed and wait to be read.
#[derive(Debug)]
pub(crate) struct Behind {
    how: ReadBehind,
    /// How many bytes are still to be drawn; without end if absent.
    left: Option<Bytes>,
    /// How many requests are still to be drawn; without end if absent.
    requests: Option<u64>,
    /// What has been drawn of the present lap.
    drawn: Bytes,
    /// Requests that were given out and have not ended.
    under_way: u64,
    written: VecDeque<(u64, Ask)>,
    /// By place, the number of its last write that waits to be read.
    last: HashMap<Bytes, u64>,
    number: u64,
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// This read.
    Read(Ask),
    /// One that is drawn.
    Draw,
    /// Nothing before a request has ended.
    Wait,
    /// Nothing more.
    End,
}

impl Behind {
    /// Half of what the limits allow is drawn.
    pub fn new(how: ReadBehind, limits: &Limits) -> Behind {
        let (left, requests) = (limits.bytes.map(|bytes| bytes / 2), limits.requests.map(|requests| requests / 2));
        Behind {
            how,
            left,
            requests,
            drawn: Bytes::ZERO,
            under_way: 0,
            written: VecDeque::new(),
            last: HashMap::new(),
            number: 0,
        }
    }

    /// A request was drawn, and will be made.
    pub fn drawn(&mut self, length: Bytes) {
        self.left = self.left.map(|left| left.saturating_sub(length));
        self.requests = self.requests.map(|requests| requests.saturating_sub(1));
        self.drawn += length;
        self.under_way += 1;
    }

    /// A request has ended; it `succeeded` or not.
    pub fn ended(&mut self, ask: &Ask, succeeded: bool) {
        assert!(self.under_way > 0, "what ends was under way");
        self.under_way -= 1;
        if ask.operation == Operation::Write && succeeded {
            self.number += 1;
            self.last.insert(ask.offset, self.number);
            self.written.push_back((self.number, *ask));
        }
    }

    /// What comes next. A read that is given out is under way.
    pub fn next(&mut self) -> Turn {
        let all_drawn = self.left.is_some_and(Bytes::is_zero) || self.requests == Some(0);
        let lap_drawn = all_drawn || self.how.lap.is_some_and(|lap| self.drawn >= lap);
        while lap_drawn || self.written.len() > self.how.lag as usize {
            let Some((number, ask)) = self.written.pop_front() else { break };
            if self.last.get(&ask.offset) == Some(&number) {
                self.last.remove(&ask.offset);
                self.under_way += 1;
                return Turn::Read(Ask { operation: Operation::Read, ..ask });
            }
        }
        match (lap_drawn, self.under_way, all_drawn) {
            (false, ..) => Turn::Draw,
            (true, 1.., _) => Turn::Wait,
            (true, 0, true) => Turn::End,
            (true, 0, false) => {
                self.drawn = Bytes::ZERO;
                Turn::Draw
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: Bytes = Bytes::kib(4);

    fn write(block: u64) -> Ask {
        Ask { operation: Operation::Write, offset: BLOCK * block, length: BLOCK }
    }

    /// The blocks that are read when these are written one by one, in order, and what came last.
    fn reads(behind: &mut Behind, blocks: &[u64]) -> (Vec<u64>, Turn) {
        let (mut blocks, mut reads) = (blocks.iter(), Vec::new());
        loop {
            match behind.next() {
                Turn::Read(read) => {
                    reads.push(read.offset / BLOCK);
                    behind.ended(&read, true);
                }
                Turn::Draw => match blocks.next() {
                    Some(block) => {
                        behind.drawn(BLOCK);
                        behind.ended(&write(*block), true);
                    }
                    None => return (reads, Turn::Draw),
                },
                last => return (reads, last),
            }
        }
    }

    #[test]
    fn a_lap_is_read_before_the_next_one_is_drawn() {
        let how = ReadBehind { lag: u32::MAX, lap: Some(BLOCK * 3) };
        let mut endless = Behind::new(how, &Limits::NONE);
        assert_eq!(reads(&mut endless, &[5, 6, 7, 1, 2]), (vec![5, 6, 7], Turn::Draw));
        assert_eq!(reads(&mut endless, &[3]).0, [1, 2, 3]);
        let mut two = Behind::new(how, &Limits { bytes: Some(BLOCK * 12), ..Limits::NONE });
        assert_eq!(reads(&mut two, &[0, 1, 2, 0, 1, 2]), (vec![0, 1, 2, 0, 1, 2], Turn::End));
    }

    #[test]
    fn what_is_written_over_is_read_once_and_half_of_the_requests_are_drawn() {
        let limits = Limits { requests: Some(8), ..Limits::NONE };
        let mut behind = Behind::new(ReadBehind { lag: 9, lap: None }, &limits);
        assert_eq!(reads(&mut behind, &[1, 2, 1, 3]), (vec![2, 1, 3], Turn::End));
    }

    #[test]
    fn nothing_is_read_that_is_under_way_or_failed() {
        let limits = Limits { requests: Some(4), ..Limits::NONE };
        let mut behind = Behind::new(ReadBehind { lag: 0, lap: None }, &limits);
        behind.drawn(BLOCK);
        behind.drawn(BLOCK);
        assert_eq!(behind.next(), Turn::Wait);
        behind.ended(&write(1), false);
        assert_eq!(behind.next(), Turn::Wait);
        behind.ended(&write(2), true);
        assert!(matches!(behind.next(), Turn::Read(read) if read.offset == BLOCK * 2));
        assert_eq!(behind.next(), Turn::Wait, "the read is under way");
    }
}
