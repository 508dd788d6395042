//! The engine of mapped files: what is in the page cache is copied from there, without a system call.
//!
//! For files that are in memory, opened through the page cache, and not written: a request is then one copy. The depth
//! of the load is used for what depth is good for in memory. What is submitted in one turn of the runtime is copied
//! together in the next (see `turn`), after the pages of all of it have been prefetched: their addresses are resolved,
//! and their first lines fetched, all at once. That takes a quarter off a copy, but only if nothing stands between the
//! prefetches: one in front of each request's other work holds that work up instead. And as in a ring, the clock is
//! read once for the batch, before it and after: read after every copy it would wait for the copy's last line, and
//! nothing could overlap with that.
//!
//! What is not in memory after all is fetched by a page fault, one at a time; `engine` chooses this engine only for
//! files that it finds there.

use std::ffi::c_void;
use std::fs::File;

use device::{DeviceError, Operation, Payload, Request, Stamps};
use runtime::Runtime;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use units::Bytes;

use crate::fault::{self, PAGE};
use crate::priority;
use crate::slot::Slots;

/// So many pages are prefetched at a time: the processor keeps their first lines and their addresses until they are
/// copied.
const PREFETCHED: usize = 32;

/// A file mapped for reading, from its beginning.
pub(crate) struct Mapping {
    start: *mut c_void,
    length: usize,
}

impl Mapping {
    /// Maps the first `length` bytes of a file.
    pub fn new(file: &File, length: Bytes) -> std::io::Result<Mapping> {
        fault::install();
        let length = length.as_usize();
        // SAFETY: a new mapping, at an address of the kernel's choice, takes nothing away.
        #[allow(unsafe_code)]
        let start = unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, 0) }?;
        Ok(Mapping { start, length })
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
        // SAFETY: no reference into the mapping exists, and as it is shared and unwritten, no advice changes what it
        // holds. A hint that is not taken costs time only.
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

    /// A read or a flush; there is nothing to flush in what is only read.
    fn carry_out(&self, file: &File, request: &mut Request) -> Result<(), DeviceError> {
        let Payload::Into(_) = &request.payload else {
            assert_eq!(request.operation, Operation::Flush, "what is mapped is only read");
            return Ok(());
        };
        priority::adopt(request)?;
        let Payload::Into(buffer) = &mut request.payload else { unreachable!("it was one above") };
        let into = buffer.bytes_mut().expect("a real device moves real memory");
        let (start, end) = (request.offset.as_usize(), request.offset.as_usize() + into.len());
        assert!(end <= self.length, "requests are checked against the file's size, which is mapped");
        let from = self.start.cast::<u8>().wrapping_byte_add(start);
        // SAFETY: the range lies in the mapping, which lives as long as `self`, and `new` has installed the handler.
        #[allow(unsafe_code)]
        let whole = unsafe { fault::copy(from, into) };
        if whole {
            return Ok(());
        }
        self.mend(file, start / PAGE * PAGE, end);
        let (offset, length) = (request.offset, request.length);
        match file.metadata().map(|metadata| Bytes::new(metadata.len())) {
            Ok(size) if size < offset + length => Err(DeviceError::OutOfRange { offset, length, size }),
            _ => Err(DeviceError::Medium { offset, length }),
        }
    }

    /// Maps a range again in which a fault has left pages of zeroes.
    fn mend(&self, file: &File, start: usize, end: usize) {
        let at = self.start.wrapping_byte_add(start);
        // SAFETY: the range lies in this mapping, into which there are no references, and the same part of the same
        // file takes its place.
        #[allow(unsafe_code)]
        let mended =
            unsafe { mmap(at, end - start, ProtFlags::READ, MapFlags::SHARED | MapFlags::FIXED, file, start as u64) };
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
