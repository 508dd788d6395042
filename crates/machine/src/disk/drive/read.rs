//! Reads.
//!
//! # Bus and medium
//! With block `k` of `n` in the buffer at `m(k)` and the bus free for this request from `s` on at `b` per block, the
//! last block is over the bus at the latest of `s + n b` and `m(k) + (n - k) b` for every `k`. Within a run `m` is a
//! straight line, so its first and its last block decide.
//!
//! # When the bus is asked for
//! A miss releases the bus after the command and asks for it again when the fill mark is reached: min(mark, what is
//! left of the request), as the SCSI buffer full ratio has it. A hit keeps the bus and transfers at once.

use units::{Duration, Instant};

use super::ahead::{Ahead, Background};
use super::{Command, Drive, Outcome, Request, Service};
use crate::disk::mechanism::{Access, Run};
use crate::disk::parameters::Requested;

impl Drive {
    pub(super) fn read(&mut self, command: Command) -> Service {
        let request = command.request;
        match self.find(&request).or_else(|| self.being_read(&request)) {
            Some(segment) if self.segments.get(segment).end >= request.after() => self.full_hit(command, segment),
            Some(segment) => self.partial_hit(command, segment),
            None => self.miss(command),
        }
    }

    /// The segment that holds a read's first block.
    pub(super) fn find(&self, request: &Request) -> Option<usize> {
        let buffer = &self.parameters.buffer;
        if !buffer.caching {
            return None;
        }
        self.segments.find(request.block, |segment| buffer.read_hits_on_written || !segment.written)
    }

    /// The segment into which the first block is being read at this moment, for drives that take this for a hit.
    pub(super) fn being_read(&self, request: &Request) -> Option<usize> {
        match &self.background {
            Background::Reading(ahead) if self.parameters.buffer.hit_on_block_being_read => {
                (self.segments.get(ahead.segment).end == request.block).then_some(ahead.segment)
            }
            _ => None,
        }
    }

    fn full_hit(&mut self, command: Command, segment: usize) -> Service {
        let request = command.request;
        let (hit, miss) = self.read_overheads();
        // The arm has not left since the read-ahead paused.
        let stayed = self.segments.latest() == segment;
        self.segments.touch(segment);
        let limit = self.read_limit(&request, segment);
        match &mut self.background {
            Background::Reading(ahead) if ahead.segment == segment => ahead.limit = limit.max(ahead.limit),
            Background::Writing { .. } => (),
            _ if self.segments.get(segment).written => {
                self.stop(command.taken);
            }
            _ if !stayed && !self.parameters.read_ahead.on_hit => (),
            _ => self.resume(segment, limit, command.taken, command.processed(miss)),
        }
        let start = command.processed(hit).max(self.bus_free) + self.parameters.overhead.data_preparation;
        let sent = start + self.parameters.bus.read_block * request.blocks;
        self.drop_requested(&request, segment);
        Service {
            completes: sent + self.parameters.overhead.read_completion,
            outcome: Outcome::Hit,
            command: start.since(command.taken),
            waiting: Duration::ZERO,
            cylinders: 0,
            seek: Duration::ZERO,
            rotation: Duration::ZERO,
            transfer: sent.since(start),
            arm_free: start,
        }
    }

    /// Goes on with a read-ahead for which a hit has made room.
    fn resume(&mut self, segment: usize, limit: u64, now: Instant, processed: Instant) {
        let free = self.stop(now).max(processed);
        let from = self.segments.get(segment).end;
        if from < limit {
            let run = self.mechanism().run(self.arm, free, from, Access::Read);
            if self.may_read_on(self.arm, run.arm) {
                self.background = Background::Reading(Ahead { segment, run, limit, least: from, whole: None });
            }
        }
    }

    fn partial_hit(&mut self, command: Command, segment: usize) -> Service {
        let request = command.request;
        let (hit, miss) = self.read_overheads();
        self.segments.touch(segment);
        let missing = self.segments.get(segment).end;
        let run = match self.background {
            Background::Reading(ahead) if ahead.segment == segment && ahead.limit > missing => ahead.run,
            _ => {
                let free = self.stop(command.taken).max(command.processed(miss));
                let free = self.set_out(free, missing);
                self.mechanism().run(self.arm, free, missing, Access::Read)
            }
        };
        let overhead = &self.parameters.overhead;
        let mut start = command.processed(hit).max(self.bus_free);
        if !self.parameters.buffer.partial_hit_at_once {
            let mark = self.parameters.buffer.fill_mark(request.after() - missing);
            start = start.max(self.reaches(run, missing + mark)) + overhead.first_reselect;
        }
        start += overhead.data_preparation;
        let (sent, last) = self.fill(segment, run, &request, start, missing);
        self.read_on(segment, last, &request, None);
        self.drop_requested(&request, segment);
        Service {
            outcome: Outcome::PartialHit,
            ..self.served_from_medium(command, start.since(command.taken), &run, &last, sent)
        }
    }

    fn miss(&mut self, command: Command) -> Service {
        let request = command.request;
        let (_, miss) = self.read_overheads();
        let miss = miss + self.stopping();
        let processed = command.processed(miss);
        let free = self.stop(command.taken).max(processed);
        let free = self.set_out(free, request.block);
        let from = self.arm;
        let segment = self.segment_for_read();
        self.segments.restart(segment, request.block, false);
        self.segments.touch(segment);

        let run = self.first_run(free, &request);
        let start = self.reconnected(command, processed, run);
        let (sent, last) = self.fill(segment, run, &request, start, request.block);
        let whole =
            self.parameters.read_ahead.any_free_blocks.then(|| self.keep_free_blocks(segment, &run, &last)).flatten();
        self.read_on(segment, last, &request, whole);
        self.drop_requested(&request, segment);
        Service {
            outcome: Outcome::Miss,
            cylinders: from.cylinder.abs_diff(run.arm.cylinder),
            ..self.served_from_medium(command, miss, &run, &last, sent)
        }
    }

    /// The first run of a miss.
    pub(super) fn first_run(&self, free: Instant, request: &Request) -> Run {
        if self.parameters.read_ahead.zero_latency {
            self.mechanism().run_zero_latency(self.arm, free, request.block, request.after(), Access::Read)
        } else {
            self.mechanism().run(self.arm, free, request.block, Access::Read)
        }
    }

    /// When a miss has the bus again and its first data are ready for it.
    fn reconnected(&self, command: Command, processed: Instant, run: Run) -> Instant {
        let overhead = &self.parameters.overhead;
        if self.parameters.buffer.never_disconnect {
            return processed.max(self.bus_free) + overhead.data_preparation;
        }
        let disconnected = processed
            + match self.last {
                Access::Read => overhead.read_disconnect_after_read,
                Access::Write => overhead.read_disconnect_after_write,
            };
        let request = &command.request;
        let mark = self.parameters.buffer.fill_mark(request.blocks);
        let filled = self.reaches(run, request.block + mark);
        filled.max(disconnected).max(self.bus_free) + overhead.first_reselect + overhead.data_preparation
    }

    /// When a scan has passed all blocks before `after`.
    pub(super) fn reaches(&self, mut run: Run, after: u64) -> Instant {
        while run.after() < after {
            run = self.next_run(&run);
        }
        run.passed(after - run.first)
    }

    /// Reads the rest of a request into its segment while the bus takes it out from `start` on: when the last block is
    /// over the bus, and the run that held it.
    fn fill(
        &mut self,
        segment: usize,
        mut run: Run,
        request: &Request,
        start: Instant,
        missing: u64,
    ) -> (Instant, Run) {
        let block_time = self.parameters.bus.read_block;
        let after = request.after();
        let size = self.segments.size();
        let mut sent = start + block_time * request.blocks;
        let mut from = missing.max(run.first);
        loop {
            if request.blocks > size {
                // A block needs the room of the one that is a segment before it, which leaves over the bus.
                let left = block_time * (after + size - 1 - run.first);
                let room = Instant::from_nanos(sent.as_nanos().saturating_sub(left.as_nanos()));
                run = self.paced(run, room, block_time);
            }
            let until = run.after().min(after);
            for block in [from, until - 1] {
                let in_buffer = run.passed(block - run.first + 1);
                sent = sent.max(in_buffer + block_time * (after - block));
            }
            if until == after {
                break;
            }
            run = self.next_run(&run);
            from = run.first;
        }
        // A piece starts on its way when all of it is there. Its time on the bus grows by less than its time at the
        // head, or by more: either way one of the last two, or the first, decides.
        let last = self.parameters.buffer.last_piece(request.blocks);
        sent = sent.max(run.passed(after - run.first) + block_time * last);
        if request.blocks > last && after - last > run.first {
            let both = last + self.parameters.buffer.piece.min(request.blocks - last);
            sent = sent.max(run.passed(after - last - run.first) + block_time * both);
        }
        self.segments.extend(segment, after);
        (sent, run)
    }

    /// The run that follows one within a request.
    pub(super) fn next_run(&self, run: &Run) -> Run {
        self.mechanism().next(run, Access::Read).expect("a request lies within the drive")
    }

    /// In drives that keep what passes: the blocks of the first track that passed before the request, at once; and the
    /// whole of the last track when it has passed once.
    pub(super) fn keep_free_blocks(&mut self, segment: usize, first: &Run, last: &Run) -> Option<(Instant, u64, u64)> {
        let (start, _) = self.mechanism().geometry.track_of(first.first);
        let kept = first.first - first.waited().min(first.first - start);
        self.segments.begin(segment, kept);
        let (start, after) = self.mechanism().geometry.track_of(last.first);
        let passed = last.on_track() + self.mechanism().spindle.period();
        (last.first == first.first).then_some((passed, start, after))
    }

    /// After a request: reads on, starting in the run that held its end.
    fn read_on(&mut self, segment: usize, run: Run, request: &Request, whole: Option<(Instant, u64, u64)>) {
        self.arm = run.arm;
        let limit = self.read_limit(request, segment);
        let end = self.segments.get(segment).end;
        let least = (end + self.parameters.read_ahead.least).min(limit);
        let next = if end >= limit {
            None
        } else if end < run.after() {
            Some(run)
        } else if end < least {
            Some(self.next_run(&run))
        } else {
            self.next_ahead(&run)
        };
        self.background = match (next, whole) {
            (Some(run), whole) => Background::Reading(Ahead { segment, run, limit, least, whole }),
            (None, Some(_)) => Background::Reading(Ahead { segment, run, limit: end, least: end, whole }),
            (None, None) => Background::Nothing,
        };
    }

    /// In drives that do not keep what the host has got.
    fn drop_requested(&mut self, request: &Request, segment: usize) {
        if self.parameters.read_ahead.requested == Requested::Dropped {
            let end = self.segments.get(segment).end;
            self.segments.begin(segment, request.after().min(end));
        }
    }

    pub(super) fn segment_for_read(&self) -> usize {
        let write_segment = self.write_segment;
        self.segments.oldest(|index| Some(index) != write_segment).expect("a buffer has a segment for reads")
    }

    /// Of a hit, of a miss.
    pub(super) fn read_overheads(&self) -> (Duration, Duration) {
        let overhead = &self.parameters.overhead;
        match self.last {
            Access::Read => (overhead.read_hit_after_read, overhead.read_miss_after_read),
            Access::Write => (overhead.read_hit_after_write, overhead.read_miss_after_write),
        }
    }

    fn served_from_medium(
        &self,
        command: Command,
        processing: Duration,
        first: &Run,
        last: &Run,
        sent: Instant,
    ) -> Service {
        let moved = Instant::from_nanos(first.on_track().as_nanos() - first.positioning.as_nanos());
        Service {
            completes: sent + self.parameters.overhead.read_completion,
            outcome: Outcome::Miss,
            command: processing,
            waiting: moved.saturating_since(command.taken + processing),
            cylinders: 0,
            seek: first.positioning,
            rotation: first.rotation,
            transfer: sent.saturating_since(first.begins),
            arm_free: last.passed(command.request.after() - last.first),
        }
    }
}
