//! Written data that wait in the buffer for the arm.
//!
//! A drive that may hold several written segments (`write-segments` above one, `back = "always"`) takes writes as long
//! as one is free, and gives the arm to reads. When it has been idle since the last completion, it *destages*: of the
//! segments that wait it writes the one whose first sector can be reached soonest, then the next, until a request needs
//! the arm; the one that is being written is finished first. Writes that go on behind one that waits are put to it, and
//! a write to blocks that wait replaces them.
//!
//! A write that finds no segment free waits for the one that is being written, whose segment it gets. The arm then does
//! what can be written soonest, and counts the newcomer in: it can set out for it while its data come. So a drive with
//! a queue chooses among all that it has, in the buffer or not. (Rejected: the arm goes to what is in the buffer at
//! once. Then two to eight segments make a drive with sixteen requests under way slower than none, as its choice is
//! among so few.)
//!
//! With one segment, as in all the measured drives, there is nothing to choose, and `write.rs` writes at once.

use units::{Duration, Instant};

use super::ahead::Background;
use super::steps::Work;
use super::{Command, Drive, Outcome, Request, Service};
use crate::disk::geometry::Extent;
use crate::disk::mechanism::{Access, Run};
use crate::disk::parameters::WriteBack;

/// Blocks that wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dirty {
    block: u64,
    after: u64,
    /// Where the first one is.
    extent: Extent,
    /// When they are all in the buffer.
    ready: Instant,
}

impl Drive {
    /// Whether a write only has to find a free segment.
    pub(super) fn destages(&self, request: &Request) -> bool {
        let (buffer, write) = (&self.parameters.buffer, &self.parameters.write);
        buffer.write_segments > 1
            && write.back == WriteBack::Always
            && !request.through
            && request.blocks <= buffer.segment_blocks
    }

    /// Whether a write finds one.
    pub(super) fn has_room(&self) -> bool {
        let writing = usize::from(matches!(self.background, Background::Writing { .. }));
        self.dirty.len() + writing < self.parameters.buffer.write_segments as usize
    }

    /// Takes a write into the buffer.
    pub(super) fn write_to_buffer(&mut self, command: Command) -> Service {
        let request = command.request;
        let processed = command.processed(self.write_overhead(true));
        let room = self.make_room(&request, command.taken, processed).max(processed);
        let data = self.data_from(room);
        let in_buffer = data + self.parameters.bus.write_block * request.blocks;
        self.place_write(&request, false);
        self.wait_for_arm(&request, in_buffer);
        let completes = in_buffer + self.parameters.overhead.write_completion;
        Service {
            completes,
            outcome: Outcome::Buffered,
            command: processed.since(command.taken),
            waiting: room.since(processed),
            cylinders: 0,
            seek: Duration::ZERO,
            rotation: Duration::ZERO,
            transfer: in_buffer.since(data),
            arm_free: completes,
        }
    }

    /// Turns to a write whose data come in steps.
    pub(super) fn open_keep(&mut self, now: Instant, request: &Request) -> (Duration, Work) {
        let thinking = self.write_overhead(true);
        let room = self.make_room(request, now, now + thinking);
        self.place_write(request, false);
        (thinking, Work::Keep { room, ready: room })
    }

    /// When the data of a write begin to come, if there is room for them from `room` on.
    fn data_from(&self, room: Instant) -> Instant {
        room.max(self.bus_free) + self.parameters.overhead.data_preparation
    }

    /// When the first sector of a write that finds no segment could be written, if the arm is free at `free`.
    pub(super) fn could_destage(
        &self,
        processed: Instant,
        request: &Request,
        free: Instant,
        extent: Extent,
    ) -> Instant {
        let data = self.data_from(free.max(processed));
        let ready = data + self.parameters.bus.write_block * request.blocks;
        self.run_to(&Dirty { block: request.block, after: request.after(), extent, ready }, free).begins
    }

    /// When there is a segment for a write whose command is `processed`.
    fn make_room(&mut self, request: &Request, now: Instant, processed: Instant) -> Instant {
        let mut room = now;
        while self.merged(request).is_none() && !self.has_room() {
            let free = self.stop(now);
            room = room.max(free);
            if self.has_room() {
                let extent = self.mechanism().geometry.extent(request.block);
                let newcomer = self.could_destage(processed, request, free, extent);
                if self.dirty.iter().all(|dirty| newcomer < self.run_to(dirty, free).begins) {
                    self.held = Some(free);
                    break;
                }
            }
            self.destage(free);
        }
        room
    }

    /// A write whose data are all in the buffer waits for the arm.
    pub(super) fn wait_for_arm(&mut self, request: &Request, ready: Instant) {
        match self.merged(request) {
            Some(index) => {
                let dirty = &mut self.dirty[index];
                dirty.after = dirty.after.max(request.after());
                dirty.ready = ready;
            }
            None => {
                let extent = self.mechanism().geometry.extent(request.block);
                self.dirty.push(Dirty { block: request.block, after: request.after(), extent, ready });
            }
        }
        // The arm may have set out for this one; for any other it sets out now.
        if let Some(since) = self.held.take() {
            self.destage_from(|dirty| if dirty.block == request.block { since } else { ready });
        }
    }

    /// The waiting blocks that a write is put to.
    fn merged(&self, request: &Request) -> Option<usize> {
        let most = self.parameters.buffer.segment_blocks;
        self.dirty.iter().position(|dirty| {
            dirty.block <= request.block && request.block <= dirty.after && request.after() - dirty.block <= most
        })
    }

    /// What an idle drive has destaged up to `now`.
    pub(super) fn destage_until(&mut self, now: Instant) {
        let idle = self.bus_free.max(self.looked);
        self.looked = self.looked.max(now);
        if self.dirty.is_empty() || now <= idle || self.held.is_some() {
            return;
        }
        self.advance(idle);
        if !matches!(self.background, Background::Writing { .. }) {
            let free = self.stop(idle);
            if free >= now {
                self.looked = free;
                return;
            }
            self.destage(free);
        }
        while let Background::Writing { until } = self.background
            && until < now
            && !self.dirty.is_empty()
        {
            self.destage(until);
        }
    }

    /// Writes all that waits, whatever comes: when it is done.
    pub(super) fn destage_all(&mut self, now: Instant) -> Instant {
        let mut done = self.free_for_another(now);
        while !self.dirty.is_empty() {
            self.destage_next(now);
            done = self.free_for_another(now);
        }
        done
    }

    /// Waits for what is being written and begins the next; when the segment of the former is free.
    fn destage_next(&mut self, now: Instant) -> Instant {
        let free = self.stop(now);
        self.destage(free);
        free
    }

    /// Writes the blocks that can be reached soonest from `at` on.
    fn destage(&mut self, at: Instant) {
        self.destage_from(|_| at);
    }

    /// The same, if the arm can set out for each of them at an instant of its own.
    fn destage_from(&mut self, at: impl Fn(&Dirty) -> Instant) {
        let begins = |dirty: &Dirty| self.run_to(dirty, at(dirty)).begins;
        let candidates = self.dirty.iter().enumerate().map(|(index, dirty)| (begins(dirty), dirty.block, index));
        let (_, _, index) = candidates.min().expect("something waits");
        let dirty = self.dirty.swap_remove(index);
        let mechanism = self.mechanism();
        let mut run = self.run_to(&dirty, at(&dirty));
        while run.after() < dirty.after {
            run = mechanism.next(&run, Access::Write).expect("a request lies within the drive");
        }
        let until = run.passed(dirty.after - run.first);
        self.arm = run.arm;
        self.background = Background::Writing { until };
    }

    /// The run of the first blocks that wait, if the arm sets out at `at`: they are written when they are in the
    /// buffer, so their first sector may have to come round once more.
    fn run_to(&self, dirty: &Dirty, at: Instant) -> Run {
        let run = self.mechanism().run_on(dirty.extent, self.arm(), at, dirty.block, Access::Write);
        self.paced(run, dirty.ready, Duration::ZERO)
    }
}
