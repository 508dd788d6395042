//! Writes.
//!
//! # Data first
//! A write starts on the medium when all of its data are in the buffer, or when that is full. If its first sector
//! passes before, it waits for the next revolution. The response times of dec_rz26 and hp_c3323a show this request by
//! request: sequential writes whose sector came round later than the transfer took were on time, those whose sector
//! came sooner lost a revolution. (The real drives are a little quicker: dec_rz26 is content with 20 blocks, hp_c3323a
//! with all but about five. No parameter says so.) Where the bus is faster than the medium this would not be necessary;
//! where it is slower the heads would overtake the data.
//!
//! A part that says how many blocks are enough (`write.first`) starts with those; wren-iv does, whose report has the
//! arm's way and the transfer at the same time.
//!
//! Drives with an "extra write disconnect" (hp_c2247a) start earlier: with 10 blocks, or all if there are fewer, and
//! with 15 from 45 blocks on (DiskSim 4.0's disk cache has these numbers). Their heads may then overtake the data,
//! which costs a revolution.
//!
//! # Write-back
//! The request is complete when it is in the buffer. A later write that goes on behind it follows at once. Any other
//! waits until the number of segments that hold unwritten data is below the permitted one, because "before any such
//! request is serviced, all dirty data must be flushed" (CMU-PDL-08-101, "Fast write level").

use units::{Duration, Instant};

use super::ahead::Background;
use super::scan::Scan;
use super::steps::Work;
use super::{Command, Drive, Outcome, Request, Service};
use crate::disk::geometry::Extent;
use crate::disk::mechanism::{Access, Run};
use crate::disk::parameters::WriteBack;

/// How the data of a write come in.
struct Feed {
    /// When the first block begins to cross the bus.
    starts: Instant,
    /// Blocks that must be in the buffer before the medium is written.
    least: u64,
}

/// How a write goes.
struct Plan {
    /// When the arm sets out.
    start: Instant,
    /// When the arm is free.
    free: Instant,
    feed: Feed,
    /// It goes on behind the last one.
    sequential: bool,
    /// With an extra disconnect.
    extra: bool,
}

/// What became of the writing to the medium.
struct Written {
    first: Run,
    last: Run,
    ends: Instant,
}

impl Drive {
    pub(super) fn write(&mut self, command: Command) -> Service {
        let request = command.request;
        let back = self.writes_back(&request);
        let plan = self.plan(&command, self.free_for_another(command.taken));
        let Plan { free, extra, .. } = plan;
        let (overhead, data) = (self.write_overhead(back) + self.stopping(), plan.feed.starts);
        self.stop(command.taken);
        self.place_write(&request, plan.sequential);
        let from = self.arm;
        let written = self.write_medium(&plan, &request);
        self.arm = written.last.arm;

        let o = &self.parameters.overhead;
        let in_buffer = data + self.parameters.bus.write_block * request.blocks;
        let completes = if back {
            self.background = Background::Writing { until: written.ends };
            in_buffer + o.write_completion
        } else if self.parameters.buffer.never_disconnect {
            written.ends.max(in_buffer) + o.write_completion
        } else {
            let (disconnect, reselect) = if extra {
                (o.extra_second_disconnect, o.other_reselect)
            } else {
                (o.write_disconnect, o.first_reselect)
            };
            written.ends.max(in_buffer + disconnect) + reselect + o.write_completion
        };
        let processing = if extra { o.extra_command } else { overhead };
        Service {
            completes,
            outcome: if back { Outcome::Buffered } else { Outcome::Through },
            command: processing,
            waiting: free.saturating_since(command.taken + processing),
            cylinders: from.cylinder.abs_diff(written.first.arm.cylinder),
            seek: written.first.positioning,
            rotation: written.first.rotation,
            transfer: if back { in_buffer.since(data) } else { written.ends.since(written.first.begins) },
            arm_free: if back { completes } else { written.ends },
        }
    }

    /// How a write goes, if the drive turns to it now and the arm is free at `free`.
    fn plan(&self, command: &Command, free: Instant) -> Plan {
        let request = &command.request;
        let back = self.writes_back(request);
        let overhead = self.write_overhead(back) + self.stopping();
        let previous = *self.segments.get(self.segments.latest());
        let sequential = previous.written && previous.end == request.block;
        let o = &self.parameters.overhead;
        let extra = self.parameters.write.extra_disconnect
            && !self.parameters.buffer.never_disconnect
            && previous.written
            && !sequential;
        let (start, mut data) = if extra {
            let disconnected = command.processed(o.extra_command) + o.extra_disconnect;
            (command.processed(o.extra_command) + o.extra_seek, disconnected + o.extra_between + o.first_reselect)
        } else {
            (command.processed(overhead), command.processed(overhead))
        };
        if self.must_flush(back, sequential) {
            data = data.max(free + o.first_reselect);
        }
        data = data.max(self.bus_free) + o.data_preparation;
        let feed = Feed { starts: data, least: self.blocks_first(request.blocks) };
        Plan { start: start.max(free), free, feed, sequential, extra }
    }

    /// When the first sector of a write that waits could be written: it must have come round under the head, and the
    /// data must be there. `extent` is that of its first block.
    pub(super) fn could_write(&self, command: &Command, free: Instant, extent: &Extent) -> Instant {
        let plan = self.plan(command, free);
        self.run_with_data(&plan, &command.request, extent).begins
    }

    /// Turns to a write whose data come in steps.
    pub(super) fn open_write(&mut self, now: Instant, request: &Request) -> (Duration, Work) {
        let back = self.writes_back(request);
        let thinking = self.write_overhead(back) + self.stopping();
        let previous = *self.segments.get(self.segments.latest());
        let sequential = previous.written && previous.end == request.block;
        let must_flush = self.must_flush(back, sequential);
        let free = self.stop(now);
        self.place_write(request, sequential);
        let extent = self.mechanism().geometry.extent(request.block);
        let scan = Scan::new(self.run_to_write(free.max(now + thinking), request.block, &extent, !sequential));
        (thinking, Work::Write { scan, room: if must_flush { free } else { now } })
    }

    /// Whether a write is complete when it is in the buffer.
    pub(super) fn writes_back(&self, request: &Request) -> bool {
        self.parameters.write.back != WriteBack::Never && !request.through
    }

    /// Whether a write waits until what is being written is on the medium.
    fn must_flush(&self, back: bool, sequential: bool) -> bool {
        let unwritten = matches!(self.background, Background::Writing { .. });
        let joins = sequential && self.parameters.write.combine;
        back && unwritten && !joins && self.parameters.buffer.write_segments == 1
    }

    /// Blocks of a write that the buffer holds: a request that is larger than a segment takes several.
    pub(super) fn write_capacity(&self, blocks: u64) -> u64 {
        let buffer = &self.parameters.buffer;
        let segments = if blocks > buffer.segment_blocks { u64::from(buffer.segments) } else { 1 };
        buffer.segment_blocks * segments
    }

    pub(super) fn write_overhead(&self, back: bool) -> Duration {
        let overhead = &self.parameters.overhead;
        match (back, self.last) {
            (true, Access::Read) => overhead.write_hit_after_read,
            (true, Access::Write) => overhead.write_hit_after_write,
            (false, Access::Read) => overhead.write_miss_after_read,
            (false, Access::Write) => overhead.write_miss_after_write,
        }
    }

    /// Puts the blocks into a segment: the one that is set apart, the one that they go on behind, or the oldest.
    pub(super) fn place_write(&mut self, request: &Request, sequential: bool) {
        let latest = self.segments.latest();
        let segment = match self.write_segment {
            Some(segment) => segment,
            None if sequential && self.parameters.write.combine => latest,
            None => self.segments.oldest(|_| true).expect("a buffer has a segment"),
        };
        self.segments.invalidate(request.block, request.after(), segment);
        self.segments.restart(segment, request.block, true);
        self.segments.extend(segment, request.after());
        self.segments.touch(segment);
    }

    /// Blocks that must be in the buffer before the medium is written.
    pub(super) fn blocks_first(&self, blocks: u64) -> u64 {
        if let Some(first) = self.parameters.write.first {
            return first.min(blocks).min(self.write_capacity(blocks));
        }
        if self.parameters.write.extra_disconnect {
            return if blocks < 45 { blocks.min(10) } else { 15 };
        }
        blocks.min(self.write_capacity(blocks))
    }

    /// The run of a write's first blocks, wherever its data are.
    fn run_to_write(&self, start: Instant, block: u64, extent: &Extent, fresh: bool) -> Run {
        let run = self.mechanism().run_on(*extent, self.arm(), start, block, Access::Write);
        let least_seek = self.parameters.write.least_seek;
        if !fresh || run.positioning >= least_seek {
            return run;
        }
        let settled = start + (least_seek - run.positioning);
        self.mechanism().run_on(*extent, self.arm(), settled, block, Access::Write)
    }

    /// The first run of a write, once enough of its data have come.
    fn run_with_data(&self, plan: &Plan, request: &Request, extent: &Extent) -> Run {
        let run = self.run_to_write(plan.start, request.block, extent, !plan.sequential);
        let enough = plan.feed.starts + self.parameters.bus.write_block * plan.feed.least;
        if plan.feed.least < request.blocks || !self.parameters.write.zero_latency {
            return self.paced(run, enough, Duration::ZERO);
        }
        // With all data in the buffer, any block that comes round may be the first.
        let there = run.on_track().max(enough);
        let start = Instant::from_nanos(there.as_nanos() - run.positioning.as_nanos());
        self.mechanism().run_zero_latency(self.arm(), start, request.block, request.after(), Access::Write)
    }

    /// Writes a request to the medium as its data come in.
    fn write_medium(&self, plan: &Plan, request: &Request) -> Written {
        let mechanism = self.mechanism();
        let block_time = self.parameters.bus.write_block;
        let arrived = |count: u64| plan.feed.starts + block_time * count;
        let mut run = self.run_with_data(plan, request, &mechanism.geometry.extent(request.block));
        let first = run;
        loop {
            run = self.paced(run, arrived(run.first + 1 - request.block), block_time);
            run.blocks = run.blocks.min(request.after() - run.first);
            if run.after() >= request.after() {
                return Written { first, last: run, ends: run.ends() };
            }
            run = mechanism.next(&run, Access::Write).expect("a request lies within the drive");
        }
    }
}
