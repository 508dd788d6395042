//! A whole drive: mechanism, buffer and controller.

use units::{Duration, Instant};

use super::cache::Segments;
use super::mechanism::{Access, Arm, Mechanism, Run};
use super::parameters::{Parameters, Requested, Until, WriteBack};

/// What the host asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Read or write.
    pub access: Access,
    /// The first block.
    pub block: u64,
    /// How many; at least one.
    pub blocks: u64,
}

impl Request {
    /// One past the last block.
    pub const fn after(&self) -> u64 {
        self.block + self.blocks
    }
}

/// What became of a request in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A read whose blocks were all in the buffer.
    Hit,
    /// A read whose first blocks were in the buffer.
    PartialHit,
    /// A read from the medium.
    Miss,
    /// A write that was complete when it was in the buffer.
    Buffered,
    /// A write that was complete when it was on the medium.
    Through,
}

/// What the model thinks happened to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// When the host has the completion.
    pub completes: Instant,
    /// In the buffer.
    pub outcome: Outcome,
    /// Command processing.
    pub command: Duration,
    /// Waiting for the arm to stop what it did.
    pub stopping: Duration,
    /// Cylinders crossed.
    pub cylinders: u32,
    /// The first positioning.
    pub seek: Duration,
    /// The first sector coming round.
    pub rotation: Duration,
    /// From the first sector to the last, all track switches included.
    pub transfer: Duration,
}

/// What the mechanism does when no request needs it.
#[derive(Debug, Clone, Copy)]
enum Background {
    Nothing,
    /// Reading on into a segment, up to a block.
    ReadAhead {
        segment: usize,
        run: Run,
        limit: u64,
    },
    /// Writing a segment's blocks; known to end at this instant.
    Destage {
        ends: Instant,
    },
}

/// A drive on a bus of its own.
#[derive(Debug, Clone)]
pub struct Drive {
    parameters: Parameters,
    segments: Segments,
    /// The segment that only writes use, if one is set apart.
    write_segment: Option<usize>,
    arm: Arm,
    background: Background,
    /// The request before.
    last: Access,
}

impl Drive {
    /// A drive at rest on cylinder 0 with an empty buffer.
    pub fn new(parameters: Parameters) -> Drive {
        let buffer = &parameters.buffer;
        let segments = Segments::new(buffer.segments, buffer.segment_blocks);
        let write_segment = (buffer.separate_write_segment && buffer.segments > 1).then_some(0);
        let arm = Arm { cylinder: 0, head: 0 };
        Drive { parameters, segments, write_segment, arm, background: Background::Nothing, last: Access::Read }
    }

    /// Its parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Serves a request that arrives at `now`, with no other under way. Panics if blocks do not exist.
    pub fn serve(&mut self, now: Instant, request: Request) -> Service {
        assert!(request.blocks > 0, "a request for no blocks");
        assert!(request.after() <= self.parameters.mechanism.geometry.blocks(), "a request beyond the drive");
        let now = now + self.parameters.overhead.request;
        self.catch_up(now);
        let service = match request.access {
            Access::Read => self.read(now, request),
            Access::Write => self.write(now, request),
        };
        self.last = request.access;
        service
    }

    fn mechanism(&self) -> &Mechanism {
        &self.parameters.mechanism
    }

    /// Brings the background up to `now`.
    fn catch_up(&mut self, now: Instant) {
        match self.background {
            Background::Nothing => (),
            Background::ReadAhead { segment, mut run, limit } => {
                loop {
                    let after = run.after().min(limit);
                    if now < run.passed(after - run.first) {
                        self.segments.extend(segment, run.first + run.count_at(now).min(after - run.first));
                        self.background = Background::ReadAhead { segment, run, limit };
                        return;
                    }
                    self.segments.extend(segment, after);
                    self.arm = run.arm;
                    if after == limit {
                        break;
                    }
                    match self.next_ahead(&run) {
                        Some(next) => run = next,
                        None => break,
                    }
                }
                self.background = Background::Nothing;
            }
            Background::Destage { ends } => {
                if ends <= now {
                    self.background = Background::Nothing;
                }
            }
        }
    }

    /// The next run of a read-ahead, unless it may not leave the track or cylinder.
    fn next_ahead(&self, run: &Run) -> Option<Run> {
        let next = self.mechanism().next(run, Access::Read)?;
        match self.parameters.read_ahead.until {
            Until::Track if next.arm != run.arm => None,
            Until::Cylinder if next.arm.cylinder != run.arm.cylinder => None,
            _ => Some(next),
        }
    }

    /// Stops the background for another request: when the arm is free.
    fn stop(&mut self, now: Instant) -> Instant {
        let stopped = std::mem::replace(&mut self.background, Background::Nothing);
        match stopped {
            Background::Nothing => now,
            Background::ReadAhead { segment, run, limit } => {
                self.arm = run.arm;
                // A seek goes to its end; a sector only if the drive wants it.
                let there = Instant::from_nanos(run.begins.as_nanos() - run.rotation.as_nanos());
                if now < there {
                    return there;
                }
                if self.parameters.read_ahead.stops_in_sector || now < run.begins {
                    return now;
                }
                let free = run.sector_end(now);
                self.segments.extend(segment, (run.first + run.count_at(free)).min(limit));
                free
            }
            Background::Destage { ends } => ends.max(now),
        }
    }

    fn read(&mut self, now: Instant, request: Request) -> Service {
        let p = &self.parameters;
        let (hit, miss) = match self.last {
            Access::Read => (p.overhead.read_hit_after_read, p.overhead.read_miss_after_read),
            Access::Write => (p.overhead.read_hit_after_write, p.overhead.read_miss_after_write),
        };
        let found = if p.buffer.caching {
            let on_written = p.buffer.read_hits_on_written;
            self.segments.find(request.block, |_, segment| on_written || !segment.written)
        } else {
            None
        };
        match found {
            Some(segment) if self.segments.get(segment).end >= request.after() => {
                self.full_hit(now, request, segment, hit, miss)
            }
            Some(segment) => self.partial_hit(now, request, segment, hit, miss),
            None => self.miss(now, request, miss),
        }
    }

    fn full_hit(&mut self, now: Instant, request: Request, segment: usize, hit: Duration, miss: Duration) -> Service {
        self.segments.touch(segment);
        let overhead = hit + self.parameters.overhead.data_preparation;
        let limit = self.read_limit(&request, segment);
        match &mut self.background {
            Background::ReadAhead { segment: active, limit: old, .. } if *active == segment => *old = limit.max(*old),
            Background::Destage { .. } => (),
            _ if self.parameters.read_ahead.on_hit && !self.segments.get(segment).written => {
                let free = self.stop(now).max(now + miss);
                let from = self.segments.get(segment).end;
                if from < limit {
                    let run = self.mechanism().run(self.arm, free, from, Access::Read);
                    self.background = Background::ReadAhead { segment, run, limit };
                }
            }
            _ => {
                self.stop(now);
            }
        }
        let sent = now + overhead + self.parameters.bus.read_block * request.blocks;
        Service {
            completes: sent + self.parameters.overhead.read_completion,
            outcome: Outcome::Hit,
            command: overhead,
            stopping: Duration::ZERO,
            cylinders: 0,
            seek: Duration::ZERO,
            rotation: Duration::ZERO,
            transfer: sent.since(now + overhead),
        }
    }

    fn partial_hit(
        &mut self,
        now: Instant,
        request: Request,
        segment: usize,
        hit: Duration,
        miss: Duration,
    ) -> Service {
        self.segments.touch(segment);
        let first_missing = self.segments.get(segment).end;
        let limit = self.read_limit(&request, segment);
        let run = match self.background {
            Background::ReadAhead { segment: active, run, .. } if active == segment => run,
            _ => {
                let free = self.stop(now).max(now + miss);
                self.mechanism().run(self.arm, free, first_missing, Access::Read)
            }
        };
        let start = now + hit + self.parameters.overhead.data_preparation;
        let seek = run;
        let (sent, run) = self.fill(segment, run, request, start, first_missing);
        self.read_on(segment, run, limit);
        self.done_read(now, Outcome::PartialHit, hit, now, &seek, sent)
    }

    fn miss(&mut self, now: Instant, request: Request, miss: Duration) -> Service {
        let free = self.stop(now);
        let start = free.max(now + miss);
        let write_segment = self.write_segment;
        let segment =
            self.segments.oldest(|index| Some(index) != write_segment).expect("a buffer has a segment for reads");
        self.segments.restart(segment, request.block, false);
        self.segments.touch(segment);
        let run = self.mechanism().run(self.arm, start, request.block, Access::Read);
        let first = run;
        let from = self.arm.cylinder;
        let overhead = &self.parameters.overhead;
        let disconnected = now
            + miss
            + match self.last {
                Access::Read => overhead.read_disconnect_after_read,
                Access::Write => overhead.read_disconnect_after_write,
            };
        // The drive asks for the bus when enough is in the buffer.
        let wanted = self.mark(request.blocks, self.parameters.buffer.read_fill.get()).min(request.blocks);
        let filled = self.reaches(run, request.block + wanted);
        let prepared = filled.max(disconnected) + overhead.first_reselect + overhead.data_preparation;
        let prepared =
            if self.parameters.buffer.never_disconnect { now + miss + overhead.data_preparation } else { prepared };
        let (sent, run) = self.fill(segment, run, request, prepared, request.block);
        let limit = self.read_limit(&request, segment);
        self.read_on(segment, run, limit);
        let mut service = self.done_read(now, Outcome::Miss, miss, free, &first, sent);
        service.cylinders = from.abs_diff(first.arm.cylinder);
        service
    }

    fn done_read(
        &self,
        now: Instant,
        outcome: Outcome,
        command: Duration,
        free: Instant,
        first: &Run,
        sent: Instant,
    ) -> Service {
        let completes = sent + self.parameters.overhead.read_completion;
        Service {
            completes,
            outcome,
            command,
            stopping: free.saturating_since(now + command),
            cylinders: 0,
            seek: first.positioning,
            rotation: first.rotation,
            transfer: sent.saturating_since(first.begins),
        }
    }

    /// Blocks that must be there for a share of a request (or of the segment).
    fn mark(&self, blocks: u64, share: f64) -> u64 {
        let size = self.parameters.buffer.segment_blocks;
        if self.parameters.buffer.marks_by_request {
            ((blocks.min(size) as f64 * share) as u64).max(1)
        } else {
            (size as f64 * share).ceil() as u64
        }
    }

    /// When a scan has passed all blocks before `after`.
    fn reaches(&self, mut run: Run, after: u64) -> Instant {
        while run.after() < after {
            run = self.mechanism().next(&run, Access::Read).expect("the request lies within the drive");
        }
        run.passed(after - run.first)
    }

    /// Reads the rest of a request into its segment while the bus takes it out from `start` on: when the last block is over the bus,
    /// and the run that held it.
    fn fill(&mut self, segment: usize, mut run: Run, request: Request, start: Instant, missing: u64) -> (Instant, Run) {
        let block_time = self.parameters.bus.read_block;
        let after = request.after();
        // Block k is over the bus at the latest of: the bus free from the start on, and each block in the buffer plus those behind it.
        let mut sent = start + block_time * request.blocks;
        let mut from = missing.max(run.first);
        loop {
            let until = run.after().min(after);
            // A run is a straight line: the latest of its first and last block decides.
            for block in [from, until - 1] {
                let in_buffer = run.passed(block - run.first + 1);
                sent = sent.max(in_buffer + block_time * (after - block));
            }
            if until == after {
                break;
            }
            run = self.mechanism().next(&run, Access::Read).expect("the request lies within the drive");
            from = run.first;
        }
        self.segments.extend(segment, after);
        (sent, run)
    }

    /// After a request: reads on up to `limit`, starting in the run that held its end.
    fn read_on(&mut self, segment: usize, run: Run, limit: u64) {
        self.arm = run.arm;
        self.background = Background::Nothing;
        let end = self.segments.get(segment).end;
        if end >= limit {
            return;
        }
        if end < run.after() {
            self.background = Background::ReadAhead { segment, run, limit };
        } else if let Some(next) = self.next_ahead(&run) {
            self.background = Background::ReadAhead { segment, run: next, limit };
        }
    }

    /// One past the last block that the read-ahead after a request may read.
    fn read_limit(&self, request: &Request, segment: usize) -> u64 {
        let rules = &self.parameters.read_ahead;
        let geometry = &self.mechanism().geometry;
        let after = request.after();
        if rules.until == Until::Nothing || after >= geometry.blocks() {
            return after.min(geometry.blocks());
        }
        if rules.until == Until::NextTrack {
            let (first, end) = geometry.track_of(after);
            if self.segments.get(segment).start >= first || end >= geometry.blocks() {
                return end;
            }
            return geometry.track_of(end).1;
        }
        let most = match (rules.most, rules.requested) {
            (0, Requested::Kept) => (request.block + self.segments.size()).max(after),
            (0, _) => after + self.segments.size(),
            (most, _) => after + most,
        };
        most.min(geometry.blocks())
    }

    fn write(&mut self, now: Instant, request: Request) -> Service {
        let p = &self.parameters;
        let back = p.write.back != WriteBack::Never;
        let overhead = match (back, self.last) {
            (true, Access::Read) => p.overhead.write_hit_after_read,
            (true, Access::Write) => p.overhead.write_hit_after_write,
            (false, Access::Read) => p.overhead.write_miss_after_read,
            (false, Access::Write) => p.overhead.write_miss_after_write,
        };
        let previous = self.segments.latest();
        let free = self.stop(now);
        let segment = match self.write_segment {
            Some(segment) => segment,
            None => self.segments.oldest(|_| true).expect("a buffer has a segment"),
        };
        let sequential = self.segments.get(previous).written && self.segments.get(previous).end == request.block;
        let extra = self.parameters.write.extra_disconnect
            && !self.parameters.buffer.never_disconnect
            && self.segments.get(previous).written
            && !sequential;
        self.segments.invalidate(request.block, request.after(), segment);
        self.segments.restart(segment, request.block, true);
        self.segments.extend(segment, request.after());
        self.segments.touch(segment);

        let o = &self.parameters.overhead;
        let block_time = self.parameters.bus.write_block;
        let (start, data) = if extra {
            let disconnected = now + o.extra_command + o.extra_disconnect;
            (
                now + o.extra_command + o.extra_seek,
                disconnected + o.extra_between + o.first_reselect + o.data_preparation,
            )
        } else {
            (now + overhead, now + overhead + o.data_preparation)
        };
        let start = start.max(free);
        let least = if self.parameters.write.extra_disconnect {
            if request.blocks < 45 { request.blocks.min(10) } else { 15 }
        } else {
            1
        };
        let from = self.arm;
        let (first, ends, arm) = self.write_media(start, request, data, least, !sequential);
        self.arm = arm;
        let in_buffer = data + block_time * request.blocks;
        let completes = if back {
            self.background = Background::Destage { ends };
            in_buffer + o.write_completion
        } else if self.parameters.buffer.never_disconnect {
            ends.max(in_buffer) + o.write_completion
        } else {
            let disconnect = if extra { o.extra_second_disconnect } else { o.write_disconnect };
            let reselect = if extra { o.other_reselect } else { o.first_reselect };
            ends.max(in_buffer + disconnect) + reselect + o.write_completion
        };
        Service {
            completes,
            outcome: if back { Outcome::Buffered } else { Outcome::Through },
            command: overhead,
            stopping: free.saturating_since(now + overhead),
            cylinders: from.cylinder.abs_diff(first.arm.cylinder),
            seek: first.positioning,
            rotation: first.rotation,
            transfer: ends.saturating_since(first.begins),
        }
    }

    /// Writes a request to the medium while its data come in over the bus from `data` on: the first run, when it ends, and where
    /// the arm is then. A sector whose data are not there when it passes is written a revolution later.
    fn write_media(
        &self,
        start: Instant,
        request: Request,
        data: Instant,
        least: u64,
        fresh: bool,
    ) -> (Run, Instant, Arm) {
        let mechanism = self.mechanism();
        let block_time = self.parameters.bus.write_block;
        let mut run = mechanism.run(self.arm, start, request.block, Access::Write);
        let least_seek = self.parameters.write.least_seek;
        if fresh && run.positioning < least_seek {
            let settled = start + (least_seek - run.positioning);
            run = mechanism.run(self.arm, settled, request.block, Access::Write);
        }
        let period = mechanism.spindle.period();
        let mut first = None;
        loop {
            let offset = run.first - request.block;
            let needed = if first.is_none() { least.max(1) } else { offset + 1 };
            let there = data + block_time * needed.min(request.blocks);
            if there > run.begins {
                let turns = there.since(run.begins).as_nanos().div_ceil(period.as_nanos());
                run.begins += period * turns;
                run.rotation += period * turns;
            }
            first.get_or_insert(run);
            let mut blocks = run.blocks.min(request.after() - run.first);
            let (step, bus) = (run.step, block_time.as_nanos() << 20);
            if bus > step {
                // The heads catch up with the bus after this many blocks.
                let lead = run.begins.since(data + block_time * (offset + 1).min(request.blocks)).as_nanos() << 20;
                blocks = blocks.min(lead / (bus - step) + 1);
            }
            run.blocks = blocks;
            if run.after() >= request.after() {
                return (first.expect("there is a first run"), run.ends(), run.arm);
            }
            run = mechanism.next(&run, Access::Write).expect("the request lies within the drive");
        }
    }
}
