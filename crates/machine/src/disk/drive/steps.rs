//! A command in steps, for a bus that others share.
//!
//! [`Drive::serve`] knows its bus: nobody else wants it, and its rate is constant, so a request is one computation from
//! beginning to end. On a string nobody knows beforehand when the bus is to be had, and how fast the other side takes
//! or brings data. There a command is *opened*; whoever has the bus asks how many blocks can move, says how many have
//! moved, asks when it is worth coming back, and *closes* the command in the end. Meanwhile the medium goes on by
//! itself. Everything but the bus is the drive's as it is alone: segments, read-ahead, arm, the rules of writes. On a
//! bus that is free and of constant rate both ways come to the same instants (`tests/steps.rs`).
//!
//! # Reads
//! What the medium does for a read is a read-ahead (`ahead.rs`) that begins with the first block that is missing. It
//! stops where it would overwrite what the bus has not yet taken. Then its place is lost: when there is room again, the
//! sector has to come round.
//!
//! # Writes
//! The medium writes what has come over the bus (`scan.rs`), from the moment when enough has (`write.rs`, "data
//! first").
//!
//! # What is left out
//! Overheads that stand for the phases of a bus (data preparation, reselection, disconnection, completion) are not
//! counted here: a string has the phases themselves. A drive is given one command at a time, whatever its queue would
//! take.

use units::{Duration, Instant};

use super::ahead::{Ahead, Background};
use super::scan::Scan;
use super::{Drive, Request};
use crate::disk::mechanism::{Access, Run};
use crate::disk::parameters::Requested;

/// A command that has been opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Open {
    pub request: Request,
    /// Blocks that have moved over the bus.
    pub moved: u64,
    pub work: Work,
}

/// What the command wants of the rest of the drive.
#[derive(Debug, Clone, Copy)]
pub(super) enum Work {
    /// Blocks out of a segment; `reads` if the mechanism works for it.
    Read { segment: usize, reads: bool },
    /// Blocks onto the medium, taken in from `room` on.
    Write { scan: Scan, room: Instant },
    /// Blocks into a segment that will wait for the arm (`destage.rs`), taken in from `room` on; the last of them came
    /// at `ready`.
    Keep { room: Instant, ready: Instant },
}

impl Open {
    /// Blocks that have not yet moved.
    pub const fn left(&self) -> u64 {
        self.request.blocks - self.moved
    }
    /// The block that moves next.
    pub const fn next(&self) -> u64 {
        self.request.block + self.moved
    }
}

impl Drive {
    /// Turns to a command that has come at `now`: how long the controller thinks about it. Instants must not go
    /// backwards.
    ///
    /// Panics if blocks do not exist, or if a command is open.
    pub fn open(&mut self, now: Instant, request: Request) -> Duration {
        assert!(self.open.is_none(), "a drive is given one command at a time");
        self.check(&request);
        // As alone: until it turns to the command, the drive goes on with what it does.
        let received = self.parameters.overhead.request;
        let taken = now + received;
        self.catch_up(taken);
        self.follow(&request);
        let (_, miss) = self.read_overheads();
        let (thinking, work) = match request.access {
            Access::Read => self.open_read(taken, &request),
            Access::Write if self.destages(&request) => self.open_keep(taken, &request),
            Access::Write => self.open_write(taken, &request),
        };
        self.last = request.access;
        self.open = Some(Open { request, moved: 0, work });
        self.read_for_open(taken, miss);
        received + thinking
    }

    /// How many blocks of the open command can move over the bus at `now`.
    pub fn transferable(&mut self, now: Instant) -> u64 {
        self.advance(now);
        let mut open = self.opened();
        let there = match &mut open.work {
            Work::Read { segment, .. } => self.segments.get(*segment).end.saturating_sub(open.next()),
            Work::Write { room, .. } | Work::Keep { room, .. } if *room > now => 0,
            Work::Keep { .. } => self.write_capacity(open.request.blocks),
            Work::Write { scan, .. } => {
                let held = open.request.block + open.moved - scan.written(now, &self.parameters.mechanism);
                self.write_capacity(open.request.blocks) - held
            }
        };
        self.open = Some(open);
        there.min(open.left())
    }

    /// Whether sectors pass under the head and into the buffer at `now`: not while the arm moves or the first of them
    /// has yet to come round.
    pub fn fills(&mut self, now: Instant) -> bool {
        self.advance(now);
        matches!(&self.background, Background::Reading(ahead) if ahead.run.begins <= now)
    }

    /// So many blocks of the open command have moved over the bus up to `now`.
    pub fn transferred(&mut self, now: Instant, blocks: u64) {
        let mut open = self.opened();
        assert!(blocks <= open.left(), "no more moves than was asked for");
        open.moved += blocks;
        match &mut open.work {
            Work::Read { segment, .. } => {
                let segment = *segment;
                self.open = Some(open);
                self.advance(now);
                self.let_go(segment, open.next());
                self.read_for_open(now, Duration::ZERO);
                return;
            }
            Work::Write { scan, .. } => {
                let enough = self.blocks_first(open.request.blocks);
                let all = self.parameters.write.zero_latency && enough == open.request.blocks;
                scan.come(now, open.request.block + open.moved, enough, all, &self.parameters.mechanism);
            }
            Work::Keep { ready, .. } => *ready = now,
        }
        self.open = Some(open);
    }

    /// From when on `blocks` more of the open command can move, if nothing moves before. They must fit into the buffer.
    pub fn transferable_at(&mut self, now: Instant, blocks: u64) -> Instant {
        self.advance(now);
        let open = self.opened();
        assert!(blocks <= open.left(), "no more is waited for than was asked for");
        let at = match &open.work {
            Work::Read { segment, .. } => {
                let wanted = open.next() + blocks;
                if self.segments.get(*segment).end < wanted {
                    let Background::Reading(ahead) = &self.background else {
                        panic!("what is waited for is being read")
                    };
                    assert!(ahead.segment == *segment && wanted <= ahead.limit, "and into its segment");
                    self.reaches(ahead.run, wanted)
                } else {
                    now
                }
            }
            Work::Keep { room, .. } => *room,
            Work::Write { scan, room } => {
                let written = (open.next() + blocks).saturating_sub(self.write_capacity(open.request.blocks));
                scan.when(written, self.mechanism()).max(*room)
            }
        };
        at.max(now)
    }

    /// When the open command has done what its completion waits for: a read whose data have moved at once, a write when
    /// they are in the buffer or on the medium, as the drive has it. All data must have moved.
    pub fn completes_at(&mut self, now: Instant) -> Instant {
        let open = self.opened();
        assert!(open.left() == 0, "a command completes when its data have moved");
        match &open.work {
            Work::Write { scan, .. } if !self.writes_back(&open.request) => {
                scan.when(open.request.after(), self.mechanism()).max(now)
            }
            Work::Read { .. } | Work::Write { .. } | Work::Keep { .. } => now,
        }
    }

    /// Ends the open command, whose completion has come at `now`.
    pub fn close(&mut self, now: Instant) {
        assert!(self.completes_at(now) <= now, "a command is closed when it is complete");
        let open = self.open.take().expect("and it was open");
        match open.work {
            Work::Read { .. } => (),
            Work::Keep { ready, .. } => self.wait_for_arm(&open.request, ready),
            Work::Write { scan, .. } => {
                let (until, arm) = scan.ends(open.request.after(), self.mechanism());
                self.arm = arm;
                self.background = if until > now { Background::Writing { until } } else { Background::Nothing };
            }
        }
        self.bus_free = now;
    }

    /// What the mechanism does for the open command: the run that it is in, or on its way to.
    pub fn run(&self) -> Option<&Run> {
        match (&self.open.as_ref()?.work, &self.background) {
            (Work::Read { reads: true, .. }, Background::Reading(ahead)) => Some(&ahead.run),
            (Work::Write { scan, .. }, _) => Some(scan.run()),
            _ => None,
        }
    }

    fn opened(&self) -> Open {
        self.open.expect("a command is open")
    }

    fn open_read(&mut self, now: Instant, request: &Request) -> (Duration, Work) {
        let (hit, miss) = self.read_overheads();
        let Some(segment) = self.find(request).or_else(|| self.being_read(request)) else {
            let thinking = miss + self.stopping();
            let free = self.stop(now).max(now + thinking);
            let free = self.set_out(free, request.block);
            let segment = self.segment_for_read();
            self.segments.restart(segment, request.block, false);
            self.segments.touch(segment);
            let run = self.first_run(free, request);
            let whole = self.kept_track(segment, &run, request);
            // How far it may go on, `read_for_open` says.
            let ahead = Ahead { segment, run, limit: request.block + 1, least: request.after(), whole };
            self.background = Background::Reading(ahead);
            return (thinking, Work::Read { segment, reads: true });
        };
        let stayed = self.segments.latest() == segment;
        self.segments.touch(segment);
        self.let_go(segment, request.block);
        let found = self.segments.get(segment);
        let (full, written) = (found.end >= request.after(), found.written);
        let reads = match &mut self.background {
            Background::Reading(ahead) if ahead.segment == segment => {
                // Who waits for blocks that are missing does not wait for those in front.
                ahead.whole = ahead.whole.filter(|_| full);
                true
            }
            Background::Writing { .. } => !full,
            _ if full && written => {
                self.stop(now);
                false
            }
            _ => !full || stayed || self.parameters.read_ahead.on_hit,
        };
        (hit, Work::Read { segment, reads })
    }

    /// The track that is kept whole, if the segment has room for it beside what the bus has not yet taken.
    fn kept_track(&mut self, segment: usize, run: &Run, request: &Request) -> Option<(Instant, u64, u64)> {
        if !self.parameters.read_ahead.any_free_blocks {
            return None;
        }
        let (passed, first, after) = self.keep_free_blocks(segment, run, run)?;
        let fits = run.after() >= request.after() && after - request.block <= self.segments.size();
        fits.then(|| (passed.max(run.passed(request.after() - run.first)), first, after))
    }

    /// In drives that do not keep what the host has got: forgets a segment's blocks before `next`.
    fn let_go(&mut self, segment: usize, next: u64) {
        let held = *self.segments.get(segment);
        if self.parameters.read_ahead.requested == Requested::Dropped && held.start < next {
            self.segments.begin(segment, next.min(held.end));
        }
    }

    /// Lets the medium read as far as the open read, what may be read ahead of it, and the room in its segment allow.
    fn read_for_open(&mut self, now: Instant, processing: Duration) {
        let open = self.opened();
        let Work::Read { segment, reads: true } = open.work else { return };
        let ahead = self.read_limit(&open.request, segment);
        // When all is taken, what follows may overwrite it.
        let room = if open.left() == 0 { u64::MAX } else { open.next() + self.segments.size() };
        let (limit, end) = (ahead.min(room), self.segments.get(segment).end);
        // What is read before another command is read after a request that needed the medium.
        let missing = end < open.request.after();
        let least = if missing { (open.request.after() + self.parameters.read_ahead.least).min(ahead) } else { end };
        match &mut self.background {
            Background::Reading(ahead) if ahead.segment == segment && end < ahead.limit => {
                ahead.limit = limit.max(ahead.limit.min(room));
                ahead.least = ahead.least.max(least);
            }
            _ if end < limit => {
                let free = self.stop(now).max(now + processing);
                let free = if missing { self.set_out(free, end) } else { free };
                let run = self.mechanism().run(self.arm, free, end, Access::Read);
                if missing || self.may_read_on(self.arm, run.arm) {
                    self.background = Background::Reading(Ahead { segment, run, limit, least, whole: None });
                }
            }
            _ => (),
        }
    }
}
