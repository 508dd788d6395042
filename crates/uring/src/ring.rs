//! The ring: where a live runtime submits, waits and collects, in one system call.
//!
//! Tasks never enter the kernel. A request goes into a slot and its number into the backlog; when no task can go on,
//! the runtime parks here, and one `io_uring_enter` submits the whole backlog, waits for a completion or the next
//! timer, and the completions found afterwards wake their tasks. While tasks are ready the ring looks at the completion
//! queue, which is memory, and enters the kernel only if there is something to submit or the kernel says that it has
//! work to finish on our behalf.
//!
//! Receives wait with it: while tasks are ready and nothing else is submitted, they stay here for [`PATIENCE`] turns. A
//! server that has received one request and awaits the next one has that request to carry out first; its client is
//! answered before the kernel is told what is awaited (see `socket` for what that is worth).
//!
//! Where one receive is all there is to wait for, but for new connections, and its peer said the last thing within
//! [`STAY`], the ring looks for its next message (see `look`), and then waits in a receive of its own. Another thread
//! or a connection that comes meanwhile waits for that call, which ends with what the peer says, or after that time;
//! then the ring waits for all of them as ever, until the peer is prompt again.
//!
//! # Stamps
//! The clock is read once for each batch, not for each request: *submitted* is the moment at which the batch that holds
//! the request was about to be handed over, *completed* the moment at which its completion was first seen in the queue,
//! taken or not. Everything first seen by one look was visible then and at an unknown time before. At depth 32 a
//! reading costs a request less than a nanosecond instead of two times 22.
//!
//! # Portions
//! Who works off a queue with one thread tends to let the completions out all at once: the kernel thread of a loop
//! device, the host behind a virtio disk, a controller that holds interrupts back. A ring that takes them all, lets
//! every task go on and submits what comes of it in one batch falls into step with it: each of the two works while the
//! other has nothing to do. So once there is a file ([`Ring::in_portions`]) completions are taken in portions, and what
//! these lead to is submitted before the next are taken. The first portion after a wait is small, an eighth of what is
//! under way, so that the other side has work again soon. Each further one is twice as large, as the other side has the
//! more to do meanwhile, and each portion costs a system call: small ones throughout were tried, and cost more. Who
//! asks for a few completions to be awaited before each wait ends ([`RingOptions::gather`]) gets cheaper requests,
//! which are seen later. `benchsuite engines` shows both ways beside fio on a loop device; on a virtio disk, job files
//! of depth 32 and 16, which fell behind fio's when all completions were taken at once, keep up with it (`benchsuite
//! jobs`, the runs kept before and after).
//!
//! # Queues that are full
//! The backlog is ours and has no limit, so nobody ever sees a full submission queue. When more complete than the
//! completion queue holds, the kernel keeps the rest (`IORING_FEAT_NODROP`, required) and hands it over when it is
//! entered next; it says so in a flag that is looked at each turn.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use device::{Buffer, Reply, Request};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};
use runtime::{LiveClock, Park, Unpark};
use rustix::net::RecvFlags;
use units::{Bytes, Duration, Instant};

use crate::bell::Bell;
use crate::call::{Call, Calls};
use crate::flight::RingFile;
use crate::look::{LOOK, Looks};
use crate::region::{Regions, TABLE};
use crate::setup::{RingError, RingOptions, build};
use crate::slot::{Next, Slots};
use crate::table::Table;

/// An io_uring; clones name the same one. It belongs to the thread that made it.
///
/// One clone is given to [`Runtime::live`](runtime::Runtime::live) as its park, others are held by the files opened on
/// it.
#[derive(Clone)]
pub struct Ring {
    shared: Rc<Shared>,
}

struct Shared {
    state: RefCell<State>,
    bell: Arc<Bell>,
}

struct State {
    uring: IoUring,
    slots: Slots,
    calls: Calls,
    /// What waits for a place in the submission queue.
    backlog: VecDeque<Work>,
    /// Receives that no batch has taken along yet.
    receives: Vec<u32>,
    /// Turns that went by without them.
    passed_by: u32,
    /// The only peer that was waited for said something within [`STAY`].
    prompt: bool,
    looks: Looks,
    /// Entries of `in_kernel` that wait for a connection.
    accepts: usize,
    /// Completions to wait for.
    gather: u32,
    /// Completions are taken in portions.
    in_portions: bool,
    /// Completions to take next.
    portion: usize,
    /// Completions that were seen and have not been taken: how many, and when they were first seen.
    seen: VecDeque<(usize, Instant)>,
    /// Entries handed over whose completion has not been seen, the bell's not counted.
    in_kernel: usize,
    files: Table,
    regions: Regions,
    bell: Arc<Bell>,
    /// Where the kernel puts what it reads from the bell while `bell_armed`.
    bell_word: Box<u64>,
    bell_armed: bool,
}

/// Something for the kernel.
#[derive(Debug, Clone, Copy)]
enum Work {
    /// The request in a slot.
    Request(u32),
    /// A call on a socket.
    Call(u32),
    /// The wish that it let go of a call.
    Cancel(u32),
}

/// The number by which the bell's completion is known; no slot has it.
const BELL: u64 = u64::MAX;
/// The number of a wish to cancel, whose outcome shows in the call itself.
const CANCEL: u64 = u64::MAX - 1;
/// Added to the number of a call, to tell it from that of a slot.
const CALL: u64 = 1 << 32;
/// What part of the requests under way is taken first after a wait: one in so many.
const FIRST_PORTION: usize = 8;
/// How much larger each portion is than the one before, until there is a wait.
const GROWTH: usize = 2;
/// Turns that may go by without the receives while tasks are ready: from a request's arrival to its answer
/// a server makes two (a read) or three (a write), and may make one more.
const PATIENCE: u32 = 4;
/// How long a call may wait for a lone prompt peer, and another thread or a new connection for that call.
pub(crate) const STAY: std::time::Duration = std::time::Duration::from_millis(4);
/// Registered files for each ring, unless the process may open fewer.
const FILES: u32 = 1024;

impl Ring {
    /// Sets a ring up.
    pub fn new(options: &RingOptions) -> Result<Ring, RingError> {
        Ring::around(build(options)?, options.gather)
    }

    fn around(uring: IoUring, gather: u32) -> Result<Ring, RingError> {
        for (there, what) in [
            (uring.params().is_feature_nodrop(), "IORING_FEAT_NODROP"),
            (uring.params().is_feature_ext_arg(), "IORING_FEAT_EXT_ARG"),
        ] {
            if !there {
                return Err(RingError::TooOld(what));
            }
        }
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let files = limit.map_or(FILES, |limit| FILES.min(limit.try_into().unwrap_or(FILES)));
        let system = |call| move |source| RingError::System { call, source };
        uring
            .submitter()
            .register_files(&vec![-1; files as usize])
            .map_err(system("registering the table of files"))?;
        // Refused by Linux before 5.19: then registering a region is refused too, and says so.
        let _ = uring.submitter().register_buffers_sparse(TABLE);
        let bell = Arc::new(Bell::new().map_err(system("making an eventfd"))?);
        let state = State {
            uring,
            slots: Slots::default(),
            calls: Calls::default(),
            backlog: VecDeque::new(),
            receives: Vec::new(),
            passed_by: 0,
            prompt: false,
            looks: Looks::default(),
            accepts: 0,
            gather,
            in_portions: false,
            portion: usize::MAX,
            seen: VecDeque::new(),
            in_kernel: 0,
            files: Table::new(files),
            regions: Regions::default(),
            bell: Arc::clone(&bell),
            bell_word: Box::new(0),
            bell_armed: false,
        };
        Ok(Ring { shared: Rc::new(Shared { state: RefCell::new(state), bell }) })
    }

    /// Makes a file known to the kernel, so that requests need not look it up. The ring keeps it open.
    pub(crate) fn register(&self, file: BorrowedFd) -> Result<RingFile, RingError> {
        let mut state = self.shared.state.borrow_mut();
        let index = state.files.free().ok_or(RingError::TooManyFiles(state.files.size()))?;
        state
            .uring
            .submitter()
            .register_files_update(index, &[file.as_raw_fd()])
            .map_err(|source| RingError::System { call: "registering a file", source })?;
        state.files.open(index);
        Ok(RingFile::new(self.clone(), index))
    }

    /// From now on completions are taken in portions, and what a portion leads to is submitted before the next.
    pub(crate) fn in_portions(&self) {
        self.shared.state.borrow_mut().in_portions = true;
    }

    /// `count` buffers of `size` bytes in memory that is registered with the kernel and locked: requests that use them,
    /// or parts of them, cost less. The memory is the ring's and is kept until the ring is dropped, so make the buffers
    /// once and reuse them.
    ///
    /// The buffers always come; if registering is refused, the second part says why, and they cost what any others
    /// cost.
    pub fn buffers(&self, count: usize, size: Bytes) -> (Vec<Buffer>, Result<(), RingError>) {
        let mut state = self.shared.state.borrow_mut();
        let State { uring, regions, .. } = &mut *state;
        let (mut buffers, mut verdict) = (Vec::with_capacity(count), Ok(()));
        while buffers.len() < count {
            let part = (count - buffers.len()).min(Regions::capacity(size).max(1));
            let (some, registered) = regions.add(part, size, |index, memory| {
                // SAFETY: the memory is one page-aligned allocation of which `Regions` keeps a part for as long as the
                // ring's state lives, so it is valid until the ring is gone.
                #[allow(unsafe_code)]
                let result = unsafe { uring.submitter().register_buffers_update(index, &[memory], None) };
                result.map_err(|source| match source.raw_os_error() {
                    Some(libc::ENOMEM) => RingError::MemoryLimit,
                    _ => RingError::System { call: "registering buffers", source },
                })
            });
            buffers.extend(some);
            verdict = verdict.and(registered);
        }
        (buffers, verdict)
    }

    /// Puts a request into the backlog of the next batch; returns its slot.
    pub(crate) fn start(&self, request: Request, file: u32) -> u32 {
        let mut state = self.shared.state.borrow_mut();
        let slot = state.slots.insert(request, file);
        state.files.enter(file);
        state.backlog.push_back(Work::Request(slot));
        slot
    }

    /// Whether the kernel has nothing to do for a file, nor will have of what was asked for.
    pub(crate) fn is_idle(&self, file: u32) -> bool {
        self.shared.state.borrow().files.is_unused(file)
    }

    /// The reply in a slot, once; until it is there, `waker` is the one to be woken for it.
    pub(crate) fn poll(&self, slot: u32, waker: &Waker) -> Poll<Reply> {
        self.shared.state.borrow_mut().slots.poll(slot, waker)
    }

    /// Leaves a slot whose reply nobody will take to the ring.
    pub(crate) fn abandon(&self, slot: u32) {
        self.shared.state.borrow_mut().slots.abandon(slot);
    }

    /// Puts a call into the backlog of the next batch; returns its place.
    pub(crate) fn start_call(&self, call: Call, file: u32) -> u32 {
        let mut state = self.shared.state.borrow_mut();
        let receives = matches!(call, Call::Receive(..));
        let place = state.calls.insert(call, file);
        state.files.enter(file);
        match receives {
            true => state.receives.push(place),
            false => state.backlog.push_back(Work::Call(place)),
        }
        place
    }

    /// The outcome of a call, once; until it is there, `waker` is the one to be woken for it.
    pub(crate) fn poll_call(&self, place: u32, waker: &Waker) -> Poll<(Call, i32)> {
        self.shared.state.borrow_mut().calls.poll(place, waker)
    }

    /// Ends a call whose outcome nobody will take.
    pub(crate) fn abandon_call(&self, place: u32) {
        let mut state = self.shared.state.borrow_mut();
        if state.calls.abandon(place) {
            state.backlog.push_back(Work::Cancel(place));
        }
    }

    /// Closes a registered file. Requests on their way to it go on.
    pub(crate) fn close(&self, file: u32) {
        let mut state = self.shared.state.borrow_mut();
        let unused = state.files.close(file);
        state.forget(unused.into_iter().collect());
    }
}

impl Park for Ring {
    fn park(&mut self, limit: Option<Duration>, clock: LiveClock) {
        self.shared.state.borrow_mut().turn(limit, clock);
        self.shared.bell.hear();
    }

    fn is_quiet(&self) -> bool {
        let state = self.shared.state.borrow();
        state.in_kernel == 0 && state.backlog.is_empty() && state.receives.is_empty() && !self.shared.bell.has_rung()
    }

    fn unparker(&self) -> Arc<dyn Unpark> {
        Arc::clone(&self.shared.bell) as Arc<dyn Unpark>
    }
}

impl State {
    /// Submits what there is, waits if that is wanted and nothing has completed yet, and collects.
    fn turn(&mut self, limit: Option<Duration>, clock: LiveClock) {
        let Some(place) = self.lone_receive(limit) else { return self.exchange(limit, clock) };
        self.prompt = self.prompt && self.receive_here(place, clock);
        if !self.prompt {
            let before = clock.now();
            self.exchange(limit, clock);
            self.prompt = clock.now().since(before).as_nanos() < STAY.as_nanos() as u64;
        }
    }

    /// The receive that is all there is to wait for, but for new connections, unless a timer is due soon.
    fn lone_receive(&mut self, limit: Option<Duration>) -> Option<u32> {
        let [place] = self.receives[..] else { return None };
        let long = limit.is_none_or(|limit| limit.as_nanos() > STAY.as_nanos() as u64);
        let alone = self.in_kernel == self.accepts && self.backlog.is_empty() && !self.calls.is_abandoned(place);
        if !(long && alone && self.uring.completion().is_empty() && !self.bell.has_rung()) {
            return None;
        }
        let queue = self.uring.submission();
        (queue.is_empty() && !queue.taskrun() && !queue.cq_overflow()).then_some(place)
    }

    /// Waits for a lone receive by system calls of its own; false if nothing came.
    fn receive_here(&mut self, place: u32, clock: LiveClock) -> bool {
        let found = self.looks.is_due() && self.look(place, clock);
        if !found && !self.calls.receive_here(place, RecvFlags::empty()) {
            return false;
        }
        self.receives.clear();
        self.passed_by = 0;
        let unused = self.files.leave(self.calls.file(place));
        self.forget(unused.into_iter().collect());
        true
    }

    /// Receives again and again without waiting, for as long as that is worth it; false if nothing came.
    fn look(&mut self, place: u32, clock: LiveClock) -> bool {
        let began = clock.now();
        let found = loop {
            if self.calls.receive_here(place, RecvFlags::DONTWAIT) {
                break true;
            }
            if clock.now().since(began) >= LOOK {
                break false;
            }
            std::thread::yield_now();
        };
        self.looks.ended(found);
        found
    }

    /// By one system call: submits what there is, waits if that is wanted and nothing has completed yet, and collects.
    fn exchange(&mut self, limit: Option<Duration>, clock: LiveClock) {
        let may_wait = limit != Some(Duration::ZERO);
        if may_wait && !self.bell_armed {
            self.arm_bell();
        }
        self.take_receives_along(may_wait);
        let mut collected = 0;
        loop {
            let submitted = self.fill(clock);
            let last = self.backlog.is_empty();
            if last && may_wait && self.bell_armed && collected == 0 && self.uring.completion().is_empty() {
                let sleep = self.bell.fall_asleep();
                self.enter(sleep, limit);
                self.bell.wake_up();
                if self.in_portions {
                    self.portion = (self.in_kernel / FIRST_PORTION).max(1);
                }
            } else {
                self.enter(false, limit);
            }
            let completed = self.collect(clock);
            collected += completed;
            if last {
                return;
            }
            if submitted + completed == 0 {
                // The polling thread has not caught up; or the kernel is short of memory, and others may run meanwhile.
                if self.uring.params().is_setup_sqpoll() {
                    let _ = self.uring.submitter().squeue_wait();
                }
                return;
            }
        }
    }

    /// Puts the receives behind what is submitted anyway or waited for, and at the latest after [`PATIENCE`] turns.
    fn take_receives_along(&mut self, may_wait: bool) {
        if !may_wait && self.backlog.is_empty() && self.passed_by < PATIENCE {
            self.passed_by += u32::from(!self.receives.is_empty());
            return;
        }
        self.passed_by = 0;
        self.backlog.extend(self.receives.drain(..).map(Work::Call));
    }

    /// Moves requests from the backlog into the submission queue; returns how many.
    fn fill(&mut self, clock: LiveClock) -> usize {
        if self.backlog.is_empty() {
            return 0;
        }
        let now = clock.now();
        let mut unused = Vec::new();
        let mut queue = self.uring.submission();
        let mut moved = 0;
        while !queue.is_full() {
            let entry = match self.backlog.pop_front() {
                None => break,
                Some(Work::Request(index)) if self.slots.is_abandoned(index) => {
                    let file = self.slots.release(index);
                    unused.extend(self.files.leave(file));
                    continue;
                }
                Some(Work::Call(index)) if self.calls.is_abandoned(index) => {
                    let file = self.calls.release(index);
                    unused.extend(self.files.leave(file));
                    continue;
                }
                Some(Work::Request(index)) => self.slots.entry(index, &self.regions, now),
                Some(Work::Call(index)) => {
                    self.accepts += usize::from(self.calls.is_accept(index));
                    self.calls.entry(index).user_data(CALL | u64::from(index))
                }
                Some(Work::Cancel(index)) => cancellation(index),
            };
            // SAFETY: the entry points into memory owned by its slot or call, which keeps it in place until the
            // completion is collected; the ring's drop waits for that. The file's place in the table is not reused
            // while it has users.
            #[allow(unsafe_code)]
            unsafe { queue.push(&entry) }.expect("the queue is not full");
            moved += 1;
        }
        drop(queue);
        self.in_kernel += moved;
        self.forget(unused);
        moved
    }

    fn arm_bell(&mut self) {
        let word = std::ptr::from_mut(&mut *self.bell_word).cast::<u8>();
        let entry = opcode::Read::new(Fd(self.bell.fd()), word, 8).build().user_data(BELL);
        // SAFETY: the word is boxed and the descriptor open for as long as this state lives, and its drop waits for the
        // completion.
        #[allow(unsafe_code)]
        let pushed = unsafe { self.uring.submission().push(&entry) };
        // If the queue is full there is something to submit, and this turn will not sleep without the next try.
        self.bell_armed = pushed.is_ok();
    }

    /// Enters the kernel if there is a reason to.
    fn enter(&mut self, wait: bool, limit: Option<Duration>) {
        let queue = self.uring.submission();
        if !wait && queue.is_empty() && !queue.taskrun() && !queue.cq_overflow() {
            return;
        }
        drop(queue);
        let submitter = self.uring.submitter();
        let limit = limit.map(|limit| Timespec::from(std::time::Duration::from_nanos(limit.as_nanos())));
        let mut arguments = SubmitArgs::new();
        if let Some(limit) = &limit {
            arguments = arguments.timespec(limit);
        }
        // The bell is not counted: with nothing else under way, it alone ends the wait.
        let wanted = self.in_kernel.clamp(1, self.gather.max(1) as usize);
        let result = match wait {
            true => submitter.submit_with_args(wanted, &arguments),
            false => submitter.submit(),
        };
        if let Err(error) = result {
            match error.raw_os_error() {
                // Time is up; a signal came; completions must be collected first; the kernel is short of memory.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => {}
                _ => panic!("io_uring_enter: {error}"),
            }
        }
    }

    /// Takes a portion of the completions, or all; returns how many.
    fn collect(&mut self, clock: LiveClock) -> usize {
        let mut queue = self.uring.completion();
        if queue.is_empty() {
            return 0;
        }
        let waiting: usize = self.seen.iter().map(|(count, _)| count).sum();
        if queue.len() > waiting {
            self.seen.push_back((queue.len() - waiting, clock.now()));
        }
        let (mut count, mut unused) = (0, Vec::new());
        for completion in (&mut queue).take(self.portion) {
            count += 1;
            let (left, seen) = self.seen.front_mut().expect("what is taken was seen");
            let seen = *seen;
            *left -= 1;
            if *left == 0 {
                self.seen.pop_front();
            }
            if completion.user_data() == BELL {
                self.bell_armed = false;
                continue;
            }
            let index = completion.user_data() as u32;
            self.in_kernel -= 1;
            if completion.user_data() == CANCEL {
                continue;
            }
            if completion.user_data() & CALL != 0 {
                self.accepts -= usize::from(self.calls.is_accept(index));
                self.calls.complete(index, completion.result());
                unused.extend(self.files.leave(self.calls.file(index)));
                if self.calls.is_abandoned(index) {
                    self.calls.release(index);
                }
                continue;
            }
            match self.slots.complete(index, completion.result(), seen) {
                Next::AnotherRound => self.backlog.push_back(Work::Request(index)),
                Next::Finished => {
                    unused.extend(self.files.leave(self.slots.file(index)));
                    if self.slots.is_abandoned(index) {
                        self.slots.release(index);
                    }
                }
            }
        }
        drop(queue);
        self.portion = self.portion.saturating_mul(GROWTH);
        self.forget(unused);
        count
    }

    /// Takes files out of the kernel's table, which closes those that nobody else has open.
    fn forget(&self, files: Vec<u32>) {
        for index in files {
            let result = self.uring.submitter().register_files_update(index, &[-1]);
            assert!(matches!(result, Ok(1)), "a registered file can be forgotten: {result:?}");
        }
    }
}

/// The entry that asks the kernel to let go of a call. If the call has ended meanwhile and its number is another's,
/// that one stands behind this entry in the queue, and the kernel does not know it yet.
fn cancellation(index: u32) -> io_uring::squeue::Entry {
    opcode::AsyncCancel::new(CALL | u64::from(index)).build().user_data(CANCEL)
}

impl Drop for State {
    /// Waits for the kernel to let go of all memory: freed earlier, it would be written to by transfers still under
    /// way.
    fn drop(&mut self) {
        if self.bell_armed {
            self.bell.strike();
        }
        // What waits for a peer would be waited for without end.
        for work in std::mem::take(&mut self.backlog) {
            if let Work::Cancel(index) = work {
                let entry = cancellation(index);
                // SAFETY: the entry points nowhere.
                #[allow(unsafe_code)]
                while unsafe { self.uring.submission().push(&entry) }.is_err() {
                    self.enter(false, None);
                }
                self.in_kernel += 1;
            }
        }
        while self.bell_armed || self.in_kernel > 0 {
            self.enter(true, None);
            for completion in self.uring.completion() {
                match completion.user_data() {
                    BELL => self.bell_armed = false,
                    _ => self.in_kernel -= 1,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use futures_util::future::{join, join_all};
    use runtime::Runtime;

    use super::*;

    /// Reads of a pipe complete when it is filled, all at once, here four times as many as the completion queue holds.
    /// Without deferred work the kernel posts them while the task is busy.
    #[test]
    fn completions_that_overflow_are_not_lost() {
        let Ok(uring) = IoUring::builder().setup_cqsize(128).build(64) else {
            return println!("skipped: no io_uring here");
        };
        let ring = Ring::around(uring, 1).unwrap_or_else(|error| panic!("{error}"));
        let (reader, mut writer) = std::io::pipe().unwrap();
        let pipe = ring.register(reader.as_fd()).unwrap_or_else(|error| panic!("{error}"));
        let runtime = Runtime::live(ring.clone());
        let overflowed = runtime.block_on(async {
            let reads = (0..500).map(|_| pipe.carry_out(Request::read(Bytes::ZERO, Buffer::zeroed(Bytes::new(1)))));
            let busy = async {
                runtime.yield_now().await;
                writer.write_all(&[7; 500]).unwrap();
                ring.shared.state.borrow_mut().uring.submission().cq_overflow()
            };
            let (replies, overflowed) = join(join_all(reads), busy).await;
            for reply in replies {
                reply.result.unwrap();
                assert_eq!(reply.buffer.unwrap().bytes().unwrap(), [7]);
            }
            overflowed
        });
        assert!(overflowed, "the test has made the queue overflow");
    }
}
