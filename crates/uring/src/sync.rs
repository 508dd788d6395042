//! The synchronous engine: the task's own thread makes the system call.
//!
//! Where the data is in memory anyway (a cached file, zram), handing the request to the kernel's queue and back costs
//! more than carrying it out. One request is carried out at a time, whatever the depth of the load: for a device that
//! must wait for something, this is the wrong engine, and `engine` does not choose it.
//!
//! Reads that need not wait may be made here although a ring waits for the others ([`read_cached`]): over a socket at
//! depth 1 32,200 for 30,400 reads of 4 KiB a second at 14.5 for 15.3 us of processor time (two builds in twelve turns,
//! the load of `benchsuite serve`). At depth 32, where a ring takes many at once, no difference was seen.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};

use device::{DeviceError, Operation, Payload, Request, Stamps};
use runtime::Runtime;
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, ReadWriteFlags};

use crate::priority;
use crate::slot::{Slots, discarding_mode, verdict, writeback_flags, zeroing_mode};

/// Carries out a batch of requests on the runtime's thread, which waits for each: one is submitted when the one before
/// has completed. `file` gives the file for an operation.
pub(crate) fn serve<'a>(file: impl Fn(Operation) -> &'a File, slots: &mut Slots, batch: &[u32], runtime: &Runtime) {
    let mut submitted = runtime.now();
    for slot in batch {
        slots.serve(*slot, |request| rounds(file(request.operation), request));
        let completed = runtime.now();
        slots.stamp(*slot, Stamps { submitted, completed });
        submitted = completed;
    }
}

/// Carries out one request; says when it was submitted and completed.
pub(crate) fn serve_one(file: &File, request: &mut Request, runtime: &Runtime) -> (Result<(), DeviceError>, Stamps) {
    let submitted = runtime.now();
    let result = rounds(file, request);
    (result, Stamps { submitted, completed: runtime.now() })
}

/// One system call after the other, until the request is done or has failed.
pub(crate) fn rounds(file: &File, request: &mut Request) -> Result<(), DeviceError> {
    priority::adopt(request)?;
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

/// Reads what lies in the page cache; false if not all of it does, and then it is to be read by who can wait.
pub(crate) fn read_cached(file: &File, request: &mut Request) -> bool {
    let Payload::Into(buffer) = &mut request.payload else { panic!("a read has a place to read into") };
    let memory = buffer.bytes_mut().expect("a real device moves real memory");
    let read = rustix::io::preadv2(file, &mut [IoSliceMut::new(memory)], request.offset.get(), ReadWriteFlags::NOWAIT);
    // Errors, too, are for who carries requests out to their end.
    read == Ok(memory.len())
}

fn round(file: &File, request: &mut Request, moved: usize, attempt: u8) -> Result<usize, Errno> {
    let (file, offset) = (file.as_fd(), request.offset.get() + moved as u64);
    match (request.operation, &mut request.payload) {
        (Operation::Read, Payload::Into(buffer)) => {
            let memory = &mut buffer.bytes_mut().expect("a real device moves real memory")[moved..];
            rustix::io::pread(file, memory, offset)
        }
        (Operation::Write, Payload::From(data)) => {
            let memory = &data.bytes().expect("a real device moves real memory")[moved..];
            // The plain call is some 80 ns cheaper than the one that takes flags, and a list of buffers.
            match request.fua {
                false => rustix::io::pwrite(file, memory, offset),
                true => rustix::io::pwritev2(file, &[IoSlice::new(memory)], offset, ReadWriteFlags::DSYNC),
            }
        }
        (Operation::Flush, Payload::None) if request.writeback.is_some() => {
            write_back(file, request.writeback.map_or(0, writeback_flags), request)
        }
        (Operation::Flush, Payload::None) if request.metadata => rustix::fs::fsync(file).map(|()| 0),
        (Operation::Flush, Payload::None) => rustix::fs::fdatasync(file).map(|()| 0),
        (Operation::Discard, Payload::None) => allocate(file, discarding_mode(), request),
        (Operation::WriteZeroes, Payload::None) => {
            allocate(file, zeroing_mode(request, attempt).expect("an attempt is made only if there is a way"), request)
        }
        (operation, payload) => panic!("a {operation:?} with payload {payload:?}"),
    }
}

/// `rustix` has no such call.
fn write_back(file: std::os::fd::BorrowedFd, flags: u32, request: &Request) -> Result<usize, Errno> {
    let (Ok(offset), Ok(length)) = (request.offset.get().try_into(), request.length.get().try_into()) else {
        return Err(Errno::INVAL);
    };
    // SAFETY: the descriptor is open as long as it is borrowed, and no memory is passed.
    #[allow(unsafe_code)]
    match unsafe { libc::sync_file_range(file.as_raw_fd(), offset, length, flags) } {
        0 => Ok(0),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

fn allocate(file: std::os::fd::BorrowedFd, mode: i32, request: &Request) -> Result<usize, Errno> {
    let mode = FallocateFlags::from_bits_retain(mode as u32);
    rustix::fs::fallocate(file, mode, request.offset.get(), request.length.get()).map(|()| 0)
}
