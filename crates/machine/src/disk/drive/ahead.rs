//! What the mechanism does when no request needs it: reading on, and writing what the buffer has promised.
//!
//! Where a read-ahead ends is the drive's rule (`Until`). What a read costs that goes on behind that end is a seek and
//! the sector's coming round; a drive may also recalibrate, that is, take its arm to cylinder 0 first. No drive file
//! says so of any drive: it is inferred from the outliers of the rounds study at 128 KB (`parts/wren-7.toml`), and off
//! unless a part switches it on.

use units::{Duration, Instant};

use super::{Drive, Request};
use crate::disk::mechanism::{Access, Arm, Run};
use crate::disk::parameters::{Requested, Until};

/// The business of the mechanism between requests.
#[derive(Debug, Clone, Copy)]
pub(super) enum Background {
    /// It rests.
    Nothing,
    /// It reads on.
    Reading(Ahead),
    /// It writes a segment to the medium and will be done at this instant.
    Writing { until: Instant },
}

/// A read-ahead.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ahead {
    pub segment: usize,
    /// The run that is passing.
    pub run: Run,
    /// One past the last block that it may read.
    pub limit: u64,
    /// One past the last block that it reads before any other request.
    pub least: u64,
    /// The track that is kept whole: when it has passed once, and its blocks.
    pub whole: Option<(Instant, u64, u64)>,
}

impl Drive {
    /// Brings the background up to `now`.
    pub(super) fn catch_up(&mut self, now: Instant) {
        self.destage_until(now);
        self.advance(now);
    }

    /// The same, with nothing begun anew.
    pub(super) fn advance(&mut self, now: Instant) {
        match self.background {
            Background::Nothing => (),
            Background::Writing { until } if until <= now => self.background = Background::Nothing,
            Background::Writing { .. } => (),
            Background::Reading(mut ahead) => {
                let going = self.read_until(&mut ahead, now);
                self.keep_whole_track(&mut ahead, now);
                self.background =
                    if going || ahead.whole.is_some() { Background::Reading(ahead) } else { Background::Nothing };
            }
        }
    }

    /// Follows a read-ahead up to `now`; false when it has reached its end.
    fn read_until(&mut self, ahead: &mut Ahead, now: Instant) -> bool {
        loop {
            let run = &ahead.run;
            let after = run.after().min(ahead.limit);
            if now < run.passed(after.saturating_sub(run.first)) {
                self.segments.extend(ahead.segment, (run.first + run.count_at(now)).min(after));
                return true;
            }
            self.segments.extend(ahead.segment, after);
            self.arm = run.arm;
            if after == ahead.limit {
                return false;
            }
            let next = if run.after() < ahead.least { Some(self.next_run(run)) } else { self.next_ahead(run) };
            match next {
                Some(next) => ahead.run = next,
                None => return false,
            }
        }
    }

    /// Once the track has passed whole, its first blocks are in the buffer too.
    fn keep_whole_track(&mut self, ahead: &mut Ahead, now: Instant) {
        if let Some((passed, first, after)) = ahead.whole
            && passed <= now
        {
            ahead.whole = None;
            self.segments.extend(ahead.segment, after);
            if self.segments.get(ahead.segment).start > first {
                self.segments.begin(ahead.segment, first);
            }
        }
    }

    /// The next run of a read-ahead, unless it may not leave the track or cylinder.
    pub(super) fn next_ahead(&self, run: &Run) -> Option<Run> {
        let next = self.mechanism().next(run, Access::Read)?;
        self.may_read_on(run.arm, next.arm).then_some(next)
    }

    /// Whether a read-ahead may move the arm.
    pub(super) fn may_read_on(&self, from: Arm, to: Arm) -> bool {
        match self.parameters.read_ahead.until {
            Until::Nothing => false,
            Until::Cylinder => from.cylinder == to.cylinder,
            Until::CylinderAtFirst => self.streams || from.cylinder == to.cylinder,
            Until::Track | Until::Segment | Until::NextTrack => true,
        }
    }

    /// When the arm would be free for another request that comes at `now`.
    pub(in crate::disk) fn free_for_another(&self, now: Instant) -> Instant {
        match &self.background {
            Background::Nothing => now,
            Background::Writing { until } => (*until).max(now),
            Background::Reading(ahead) => self.leave(ahead, now).0,
        }
    }

    /// What the controller takes to end a read-ahead before it thinks about a command that has no use for it.
    pub(super) fn stopping(&self) -> Duration {
        match self.background {
            Background::Reading(_) => self.parameters.overhead.stop_read_ahead,
            Background::Nothing | Background::Writing { .. } => Duration::ZERO,
        }
    }

    /// Stops the background for another request: when the arm is free.
    pub(super) fn stop(&mut self, now: Instant) -> Instant {
        let free = self.free_for_another(now);
        if let Background::Reading(ahead) = std::mem::replace(&mut self.background, Background::Nothing) {
            let (_, run) = self.leave(&ahead, now);
            self.arm = run.arm;
            self.segments.extend(ahead.segment, (run.first + run.count_at(free)).min(ahead.limit));
        }
        free
    }

    /// From when on the arm can set out for the first missing block of a read, and from where: a drive that
    /// recalibrates sends it to cylinder 0 before, if the read goes on beyond the cylinder where the read-ahead
    /// stopped.
    pub(super) fn set_out(&mut self, free: Instant, missing: u64) -> Instant {
        let beyond = || self.arm.cylinder != self.mechanism().geometry.locate(missing).cylinder;
        if !(self.parameters.read_ahead.recalibrates && self.streams && beyond()) {
            return free;
        }
        let home = Arm { cylinder: 0, head: 0 };
        let there = free + self.mechanism().positioning(self.arm, home, Access::Read);
        self.arm = home;
        there
    }

    /// When a read-ahead that should stop at `now` lets the arm go, and on which run.
    fn leave(&self, ahead: &Ahead, now: Instant) -> (Instant, Run) {
        let mut run = ahead.run;
        if self.segments.get(ahead.segment).end < ahead.least {
            while run.after() < ahead.least {
                run = self.next_run(&run);
            }
            let read = run.passed(ahead.least - run.first);
            if read > now {
                return (read, run);
            }
        }
        // A seek goes to its end; a sector only if the drive wants it.
        let there = run.on_track();
        if now < there {
            return (there, run);
        }
        let over = self.parameters.read_ahead.stops_in_sector || run.first >= ahead.limit;
        (if over { now } else { run.sector_end(now) }, run)
    }

    /// One past the last block that the read-ahead after a request may read into its segment.
    pub(super) fn read_limit(&self, request: &Request, segment: usize) -> u64 {
        let rules = &self.parameters.read_ahead;
        let geometry = &self.mechanism().geometry;
        let after = request.after();
        if rules.until == Until::Nothing || after >= geometry.blocks() {
            return after;
        }
        if rules.until == Until::NextTrack {
            let (first, end) = geometry.track_of(after);
            if self.segments.get(segment).start >= first || end >= geometry.blocks() {
                return end;
            }
            // The segment shows that the track before was read, too: a sequential stream.
            return geometry.track_of(end).1;
        }
        if rules.until == Until::Track {
            let (first, end) = geometry.track_of(after - 1);
            let to = if self.segments.get(segment).start >= first || end >= geometry.blocks() {
                end
            } else {
                geometry.track_of(end).1
            };
            return to.min(after + rules.most);
        }
        let most = if rules.most == 0 { self.segments.size() } else { rules.most };
        let room = match rules.requested {
            Requested::Kept => self.segments.size().saturating_sub(request.blocks),
            Requested::Overwritten | Requested::Dropped => u64::MAX,
        };
        (after + most.min(room)).min(geometry.blocks())
    }
}
