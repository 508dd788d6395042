//! Requests under way: what the kernel may still touch stays here until it says that it is done.
//!
//! A slot owns the request, and with it the memory, from the first poll of its future to the completion. A future that
//! is dropped leaves its slot behind; the slot frees itself when the kernel has let go. A request may take several
//! rounds (a short transfer, a larger one than the kernel takes at once, an interrupted call) and is one request all
//! the same.

use std::task::{Poll, Waker};

use device::{DeviceError, Operation, Payload, Reply, Request, Stamps, Writeback};
use io_uring::types::Fixed;
use io_uring::{opcode, squeue};
use units::{Bytes, Instant};

use crate::region::Regions;

/// The kernel moves at most 2 GiB less a page in one call; more is continued.
const MOST_AT_ONCE: usize = 1 << 30;

/// The requests of one ring, in reused places.
#[derive(Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    /// Absent when the slot is free.
    request: Option<Request>,
    state: State,
    /// Nobody waits for the reply.
    abandoned: bool,
    /// How many bytes have been moved in earlier rounds.
    moved: usize,
    /// Which way of carrying it out is being tried; see [`zeroing_mode`].
    attempt: u8,
    /// Index of the registered file.
    file: u32,
    waker: Option<Waker>,
    stamps: Stamps,
    result: Result<(), DeviceError>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In the ring's backlog.
    Queued,
    /// Between submission and completion.
    InKernel,
    Done,
}

/// What to do after a completion.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The request is complete.
    Finished,
    /// It goes into the backlog for another round.
    AnotherRound,
}

/// `fallocate` modes that make a range read as zeroes. The first keeps the room; a block device unmaps or writes zeroes
/// itself for it. The second frees it; a block device that cannot unmap refuses. What one of them refuses the other may
/// know: tmpfs knows only the second.
const ZEROING: [i32; 2] =
    [libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE];

/// The mode for discarding: deterministic, as it also zeroes, and never falls back to writing.
const DISCARDING: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;

/// How to zero a range at the `attempt`th try; `None` when there is no further way.
pub(crate) fn zeroing_mode(request: &Request, attempt: u8) -> Option<i32> {
    let modes = if request.punch { [ZEROING[1], ZEROING[0]] } else { ZEROING };
    modes.get(usize::from(attempt)).copied()
}

/// The steps of a writeback, for the kernel.
pub(crate) fn writeback_flags(steps: Writeback) -> u32 {
    let flag = |wanted, flag: libc::c_uint| if wanted { flag } else { 0 };
    flag(steps.wait_before, libc::SYNC_FILE_RANGE_WAIT_BEFORE)
        | flag(steps.write, libc::SYNC_FILE_RANGE_WRITE)
        | flag(steps.wait_after, libc::SYNC_FILE_RANGE_WAIT_AFTER)
}

/// How to discard a range.
pub(crate) fn discarding_mode() -> i32 {
    DISCARDING
}

impl Slots {
    /// Takes a request in; it is queued.
    pub fn insert(&mut self, request: Request, file: u32) -> u32 {
        let slot = Slot {
            request: Some(request),
            state: State::Queued,
            abandoned: false,
            moved: 0,
            attempt: 0,
            file,
            waker: None,
            stamps: Stamps { submitted: Instant::NEVER, completed: Instant::NEVER },
            result: Ok(()),
        };
        match self.free.pop() {
            Some(index) => {
                assert!(self.slots[index as usize].request.is_none(), "a free slot is empty");
                self.slots[index as usize] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        }
    }

    /// The reply, if it is there; otherwise `waker` will be woken for it.
    pub fn poll(&mut self, index: u32, waker: &Waker) -> Poll<Reply> {
        let slot = &mut self.slots[index as usize];
        if slot.state != State::Done {
            match &mut slot.waker {
                Some(old) => old.clone_from(waker),
                None => slot.waker = Some(waker.clone()),
            }
            return Poll::Pending;
        }
        Poll::Ready(self.take(index))
    }

    /// True if the reply is there.
    pub fn is_done(&self, index: u32) -> bool {
        self.slots[index as usize].state == State::Done
    }

    /// The reply of a request that is done. The slot is free afterwards.
    pub fn take(&mut self, index: u32) -> Reply {
        let slot = &mut self.slots[index as usize];
        assert_eq!(slot.state, State::Done, "a reply is taken when it is there");
        let request = slot.request.take().expect("a slot holds its request until the reply is taken");
        let result = std::mem::replace(&mut slot.result, Ok(()));
        self.free.push(index);
        request.answer(result, slot.stamps)
    }

    /// Where a request begins that is not done.
    pub fn offset(&self, index: u32) -> Bytes {
        self.slots[index as usize].request.as_ref().expect("a slot holds its request until the reply is taken").offset
    }

    /// Carries a queued request out here and now instead of in the kernel. Its reply is there once it is
    /// [`stamp`](Slots::stamp)ed.
    pub fn serve(&mut self, index: u32, carry_out: impl FnOnce(&mut Request) -> Result<(), DeviceError>) {
        let slot = &mut self.slots[index as usize];
        assert_eq!(slot.state, State::Queued, "a request is served once");
        slot.result = carry_out(slot.request.as_mut().expect("a queued slot holds its request"));
    }

    /// Ends a request that was served.
    pub fn stamp(&mut self, index: u32, stamps: Stamps) {
        let slot = &mut self.slots[index as usize];
        slot.stamps = stamps;
        slot.state = State::Done;
        if slot.abandoned {
            self.release(index);
        } else if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }

    /// The future is gone. Returns the request's memory if the kernel does not hold it.
    pub fn abandon(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.abandoned = true;
        slot.waker = None;
        if slot.state == State::Done {
            self.release(index);
        }
    }

    /// Frees a slot and drops what it holds; returns the file it was for.
    pub fn release(&mut self, index: u32) -> u32 {
        let slot = &mut self.slots[index as usize];
        assert_ne!(slot.state, State::InKernel, "memory is not taken away from under the kernel");
        slot.request = None;
        self.free.push(index);
        slot.file
    }

    /// True if nobody wants this request any more.
    pub fn is_abandoned(&self, index: u32) -> bool {
        self.slots[index as usize].abandoned
    }

    /// The file of a request.
    pub fn file(&self, index: u32) -> u32 {
        self.slots[index as usize].file
    }

    /// The submission entry for the next round of a queued request, which is in the kernel's hands from now on.
    ///
    /// The entry points into memory that the slot owns and neither touches nor frees before
    /// [`complete`](Slots::complete).
    pub fn entry(&mut self, index: u32, regions: &Regions, now: Instant) -> squeue::Entry {
        let slot = &mut self.slots[index as usize];
        assert_eq!(slot.state, State::Queued, "a request is submitted once for each round");
        slot.state = State::InKernel;
        if slot.stamps.submitted == Instant::NEVER {
            slot.stamps.submitted = now;
        }
        let request = slot.request.as_mut().expect("a queued slot holds its request");
        let (file, offset) = (Fixed(slot.file), request.offset.get() + slot.moved as u64);
        let entry = match (request.operation, &mut request.payload) {
            (Operation::Read, Payload::Into(buffer)) => {
                let memory = &mut buffer.bytes_mut().expect("a real device moves real memory")[slot.moved..];
                let (start, length) = (memory.as_mut_ptr(), memory.len().min(MOST_AT_ONCE));
                match regions.of(start, length) {
                    Some(region) => opcode::ReadFixed::new(file, start, length as u32, region)
                        .offset(offset)
                        .ioprio(request.priority)
                        .build(),
                    None => {
                        opcode::Read::new(file, start, length as u32).offset(offset).ioprio(request.priority).build()
                    }
                }
            }
            (Operation::Write, Payload::From(data)) => {
                let memory = &data.bytes().expect("a real device moves real memory")[slot.moved..];
                let (start, length) = (memory.as_ptr(), memory.len().min(MOST_AT_ONCE));
                let flags = if request.fua { libc::RWF_DSYNC } else { 0 };
                match regions.of(start, length) {
                    Some(region) => opcode::WriteFixed::new(file, start, length as u32, region)
                        .offset(offset)
                        .rw_flags(flags)
                        .ioprio(request.priority)
                        .build(),
                    None => opcode::Write::new(file, start, length as u32)
                        .offset(offset)
                        .rw_flags(flags)
                        .ioprio(request.priority)
                        .build(),
                }
            }
            (Operation::Flush, Payload::None) => {
                // Of the whole file without a length: what a length cannot say is no range.
                let (offset, length) = (request.offset.get(), u32::try_from(request.length.get()));
                let (offset, length) = length.map_or((0, 0), |length| (offset, length));
                if let Some(steps) = request.writeback {
                    let flags = writeback_flags(steps);
                    let entry = opcode::SyncFileRange::new(file, length).offset(offset).flags(flags).build();
                    return entry.user_data(u64::from(index));
                }
                let flags = match request.metadata {
                    true => io_uring::types::FsyncFlags::empty(),
                    false => io_uring::types::FsyncFlags::DATASYNC,
                };
                opcode::Fsync::new(file).offset(offset).len(length).flags(flags).build()
            }
            (Operation::Discard, Payload::None) => {
                opcode::Fallocate::new(file, request.length.get()).offset(offset).mode(discarding_mode()).build()
            }
            (Operation::WriteZeroes, Payload::None) => {
                let mode = zeroing_mode(request, slot.attempt).expect("an attempt is made only if there is a way");
                opcode::Fallocate::new(file, request.length.get()).offset(offset).mode(mode).build()
            }
            (operation, payload) => panic!("a {operation:?} with payload {payload:?}"),
        };
        entry.user_data(u64::from(index))
    }

    /// Takes note of a completion with the kernel's `result` (bytes moved, or a negative errno).
    pub fn complete(&mut self, index: u32, result: i32, now: Instant) -> Next {
        let slot = &mut self.slots[index as usize];
        assert_eq!(slot.state, State::InKernel, "a completion belongs to a request under way");
        let request = slot.request.as_ref().expect("a slot holds its request until the reply is taken");
        let verdict = verdict(request, &mut slot.moved, &mut slot.attempt, result);
        match verdict {
            None if !slot.abandoned => {
                slot.state = State::Queued;
                return Next::AnotherRound;
            }
            None => {}
            Some(result) => slot.result = result,
        }
        slot.state = State::Done;
        slot.stamps.completed = now;
        if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
        Next::Finished
    }
}

/// The outcome of a request after one round that gave `result`; `None` if another round is needed.
pub(crate) fn verdict(
    request: &Request,
    moved: &mut usize,
    attempt: &mut u8,
    result: i32,
) -> Option<Result<(), DeviceError>> {
    let transfer = matches!(request.operation, Operation::Read | Operation::Write);
    match -result {
        libc::EINTR | libc::EAGAIN => None,
        errno @ libc::EOPNOTSUPP if request.operation == Operation::WriteZeroes => {
            *attempt += 1;
            match zeroing_mode(request, *attempt) {
                Some(_) => None,
                None => Some(Err(DeviceError::from_errno(errno, request.offset, request.length))),
            }
        }
        errno if errno > 0 => Some(Err(DeviceError::from_errno(errno, request.offset, request.length))),
        _ if !transfer => Some(Ok(())),
        _ => {
            *moved += result as usize;
            let there = Bytes::new(*moved as u64);
            if there == request.length {
                return Some(Ok(()));
            }
            assert!(there < request.length, "the kernel moves no more than it was asked to");
            match (result, request.operation) {
                // The file has become shorter than it was when it was opened.
                (0, Operation::Read) => Some(Err(DeviceError::OutOfRange {
                    offset: request.offset,
                    length: request.length,
                    size: request.offset + there,
                })),
                (0, _) => Some(Err(DeviceError::NoSpace)),
                _ => None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_of_a_writeback_are_those_of_the_kernel() {
        let flags =
            |[wait_before, write, wait_after]: [bool; 3]| writeback_flags(Writeback { wait_before, write, wait_after });
        // sync_file_range(2): WAIT_BEFORE 1, WRITE 2, WAIT_AFTER 4.
        assert_eq!(flags([true, false, false]), 1);
        assert_eq!(flags([false, true, false]), 2);
        assert_eq!(flags([false, true, true]), 6);
    }
}
