//! The engine of mapped files: what is in the page cache is copied from there, without a system call.
//!
//! For files that are in memory, opened through the page cache: a request is then one copy. The depth
//! of the load is used for what depth is good for in memory. What is submitted in one turn of the runtime is copied
//! together in the next (see `turn`), after the pages of all of it have been prefetched: their addresses are resolved,
//! and their first lines fetched, all at once. That takes a quarter off a copy, but only if nothing stands between the
//! prefetches: one in front of each request's other work holds that work up instead. And as in a ring, the clock is
//! read once for the batch, before it and after: read after every copy it would wait for the copy's last line, and
//! nothing could overlap with that.
//!
//! What is not in memory after all is fetched by a page fault, one at a time; `engine` chooses this engine only for
//! files that it finds there. It is never chosen for what is written: a write of a page that is not mapped is a fault,
//! too, and takes the file system ten times as long as a system call that brings the whole page (fio 3.33 on ext4: 32
//! and 3 us). Whoever asks for it is to have it. What was written through the mapping is in the page cache, where a
//! sync of the file finds it.

use std::ffi::c_void;
use std::fs::File;

use device::{DeviceError, Operation, Payload, Request, Stamps};
use runtime::Runtime;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use units::Bytes;

use crate::fault::{self, PAGE};
use crate::priority;
use crate::slot::Slots;
use crate::sync;

/// So many pages are prefetched at a time: the processor keeps their first lines and their addresses until they are
/// copied.
const PREFETCHED: usize = 32;

/// A file or a block device, mapped from its beginning.
pub(crate) struct Mapping {
    start: *mut c_void,
    length: usize,
    access: ProtFlags,
}

impl Mapping {
    /// Maps the first `length` bytes of a file for reading.
    pub fn new(file: &File, length: Bytes) -> std::io::Result<Mapping> {
        Mapping::with(file, length, ProtFlags::READ)
    }

    /// Maps the first `length` bytes of a file for reading and writing.
    pub fn writable(file: &File, length: Bytes) -> std::io::Result<Mapping> {
        Mapping::with(file, length, ProtFlags::READ | ProtFlags::WRITE)
    }

    fn with(file: &File, length: Bytes, access: ProtFlags) -> std::io::Result<Mapping> {
        fault::install();
        let length = length.as_usize();
        // SAFETY: a new mapping, at an address of the kernel's choice, takes nothing away.
        #[allow(unsafe_code)]
        let start = unsafe { mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, file, 0) }?;
        Ok(Mapping { start, length, access })
    }

    /// The share of the file's pages that are in the page cache, found in samples spread over it.
    pub fn resident(&self) -> f64 {
        const SAMPLES: usize = 1024;
        const SAMPLE: usize = 64;
        let pages = self.length.div_ceil(PAGE);
        let step = (pages / SAMPLES).max(SAMPLE);
        let (mut seen, mut there) = (0, 0);
        for first in (0..pages).step_by(step) {
            let mut found = [0u8; SAMPLE];
            let count = SAMPLE.min(pages - first);
            let start = self.start.wrapping_byte_add(first * PAGE);
            // SAFETY: the pages lie in the mapping, and the array has a byte for each.
            #[allow(unsafe_code)]
            let result = unsafe { libc::mincore(start, count * PAGE, found.as_mut_ptr()) };
            seen += count;
            if result == 0 {
                there += found[..count].iter().filter(|page| **page & 1 == 1).count();
            }
        }
        there as f64 / seen as f64
    }

    /// Resolves all pages, so that no request meets a fault, if the file is of a size that a run may read as a whole.
    pub fn populate(&self) {
        const LARGEST: usize = 4 << 30;
        if self.length <= LARGEST {
            self.advise(Advice::LinuxPopulateRead);
        }
    }

    /// Says that reads are random, so that a fault fetches one page and no more.
    pub fn without_readahead(&self) {
        self.advise(Advice::Random);
    }

    /// Says that reads go on in order, so that a fault fetches much of what follows.
    pub fn with_readahead(&self) {
        self.advise(Advice::Sequential);
    }

    /// Lets go of all pages, so that the page cache may drop them. They come back when they are read.
    pub fn let_go(&self) {
        self.advise(Advice::LinuxDontNeed);
    }

    fn advise(&self, advice: Advice) {
        // SAFETY: no reference into the mapping exists, and as it is shared, what was written to it is the file's, and
        // none of the advices that are given here changes that. A hint that is not taken costs time only.
        #[allow(unsafe_code)]
        let _ = unsafe { madvise(self.start, self.length, advice) };
    }

    /// Carries out a batch of requests.
    pub fn serve(&self, file: &File, slots: &mut Slots, batch: &[u32], runtime: &Runtime) {
        for part in batch.chunks(PREFETCHED) {
            let submitted = runtime.now();
            part.iter().for_each(|slot| self.prefetch(slots.offset(*slot)));
            part.iter().for_each(|slot| slots.serve(*slot, |request| self.carry_out(file, request)));
            let stamps = Stamps { submitted, completed: runtime.now() };
            part.iter().for_each(|slot| slots.stamp(*slot, stamps));
        }
    }

    /// Carries out one request; says when it was submitted and completed.
    pub fn serve_one(
        &self,
        file: &File,
        request: &mut Request,
        runtime: &Runtime,
    ) -> (Result<(), DeviceError>, Stamps) {
        let submitted = runtime.now();
        let result = self.carry_out(file, request);
        (result, Stamps { submitted, completed: runtime.now() })
    }

    /// Begins to fetch what lies at an offset.
    fn prefetch(&self, offset: Bytes) {
        let address = self.start.cast::<i8>().wrapping_byte_add(offset.as_usize());
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch reads nothing as far as the program can tell, and faults nowhere.
            #[allow(unsafe_code)]
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(address);
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = address;
    }

    /// A read, a write or a flush. What could not be copied in full is mapped anew.
    fn carry_out(&self, file: &File, request: &mut Request) -> Result<(), DeviceError> {
        priority::adopt(request)?;
        let (start, end) = (request.offset.as_usize(), (request.offset + request.length).as_usize());
        assert!(end <= self.length, "requests are checked against the file's size, which is mapped");
        let at = self.start.cast::<u8>().wrapping_byte_add(start);
        let whole = match (request.operation, &mut request.payload) {
            (Operation::Read, Payload::Into(buffer)) => {
                let into = buffer.bytes_mut().expect("a real device moves real memory");
                assert_eq!(into.len(), end - start, "a read has as much memory as it asks for");
                // SAFETY: the range lies in the mapping, which lives as long as `self`, and `with` has installed the
                // handler.
                #[allow(unsafe_code)]
                unsafe {
                    fault::copy(at, into)
                }
            }
            (Operation::Write, Payload::From(data)) => {
                assert!(self.access.contains(ProtFlags::WRITE), "what is mapped for reading is not written");
                let from = &data.bytes().expect("a real device moves real memory")[..end - start];
                // SAFETY: as above; the mapping may be written, and no reference into it exists.
                #[allow(unsafe_code)]
                unsafe {
                    fault::store(from, at)
                }
            }
            (Operation::Flush, _) => return sync::rounds(file, request),
            (operation, payload) => panic!("a {operation:?} with payload {payload:?}"),
        };
        if !whole {
            self.mend(file, start / PAGE * PAGE, end);
            let (offset, length) = (request.offset, request.length);
            return match file.metadata().map(|metadata| Bytes::new(metadata.len())) {
                // A block device has no length of its own in its metadata.
                Ok(size) if !size.is_zero() && size < offset + length => {
                    Err(DeviceError::OutOfRange { offset, length, size })
                }
                _ => Err(DeviceError::Medium { offset, length }),
            };
        }
        match request.fua {
            true => sync::rounds(file, &mut Request::flush()),
            false => Ok(()),
        }
    }

    /// Maps a range again in which a fault has left pages of zeroes.
    fn mend(&self, file: &File, start: usize, end: usize) {
        let at = self.start.wrapping_byte_add(start);
        // SAFETY: the range lies in this mapping, into which there are no references, and the same part of the same
        // file takes its place.
        #[allow(unsafe_code)]
        let mended =
            unsafe { mmap(at, end - start, self.access, MapFlags::SHARED | MapFlags::FIXED, file, start as u64) };
        assert!(mended.is_ok(), "what was mapped once can be mapped again: {mended:?}");
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers into it.
        #[allow(unsafe_code)]
        let unmapped = unsafe { munmap(self.start, self.length) };
        assert!(unmapped.is_ok(), "a mapping can be taken back: {unmapped:?}");
    }
}
