//! The synchronous engine: the task's own thread makes the system call.
//!
//! Where the data is in memory anyway (a cached file, zram), handing the request to the kernel's queue and back costs more than
//! carrying it out. One request is carried out at a time, whatever the depth of the load: for a device that must wait for
//! something, this is the wrong engine, and `engine` does not choose it.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::AsFd;

use device::{DeviceError, Operation, Payload, Reply, Request, Stamps};
use runtime::LiveClock;
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, ReadWriteFlags};

use crate::slot::{discarding_mode, verdict, zeroing_mode};

/// Carries a request out on the calling thread, which waits for it.
pub(crate) fn carry_out(file: &File, mut request: Request, clock: LiveClock) -> Reply {
    let submitted = clock.now();
    let result = rounds(file, &mut request);
    request.answer(result, Stamps { submitted, completed: clock.now() })
}

/// One system call after the other, until the request is done or has failed.
fn rounds(file: &File, request: &mut Request) -> Result<(), DeviceError> {
    let (mut moved, mut attempt) = (0, 0);
    loop {
        let result = match round(file, request, moved, attempt) {
            Ok(count) => count as i32,
            Err(errno) => -errno.raw_os_error(),
        };
        if let Some(verdict) = verdict(request, &mut moved, &mut attempt, result) {
            return verdict;
        }
    }
}

fn round(file: &File, request: &mut Request, moved: usize, attempt: u8) -> Result<usize, Errno> {
    let (file, offset) = (file.as_fd(), request.offset.get() + moved as u64);
    match (request.operation, &mut request.payload) {
        (Operation::Read, Payload::Into(buffer)) => {
            let memory = &mut buffer.bytes_mut().expect("a real device moves real memory")[moved..];
            rustix::io::preadv2(file, &mut [IoSliceMut::new(memory)], offset, ReadWriteFlags::empty())
        }
        (Operation::Write, Payload::From(data)) => {
            let memory = &data.bytes().expect("a real device moves real memory")[moved..];
            let flags = if request.fua { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
            rustix::io::pwritev2(file, &[IoSlice::new(memory)], offset, flags)
        }
        (Operation::Flush, Payload::None) => rustix::fs::fdatasync(file).map(|()| 0),
        (Operation::Discard, Payload::None) => allocate(file, discarding_mode(), request),
        (Operation::WriteZeroes, Payload::None) => {
            allocate(file, zeroing_mode(attempt).expect("an attempt is made only if there is a way"), request)
        }
        (operation, payload) => panic!("a {operation:?} with payload {payload:?}"),
    }
}

fn allocate(file: std::os::fd::BorrowedFd, mode: i32, request: &Request) -> Result<usize, Errno> {
    let mode = FallocateFlags::from_bits_retain(mode as u32);
    rustix::fs::fallocate(file, mode, request.offset.get(), request.length.get()).map(|()| 0)
}
