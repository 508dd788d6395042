//! Copies from and to a mapping, which may fail.
//!
//! A load from mapped memory, or a store to it, has no way to return an error: if the file has become shorter, or its
//! disk cannot deliver a page, the kernel sends SIGBUS, whose default is to end the process. Here, while a copy is
//! under way, the handler puts a page of zeroes where the fault was and takes a note; the copy runs to its end, and
//! the note makes it an error. This is what systemd does for its journal files (`src/basic/sigbus.c`). A fault
//! anywhere else is left to whoever handled the signal before.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence};

thread_local! {
    /// The addresses of the mapping that the copy on this thread touches, first and beyond the last. Without a
    /// destructor, so that a signal handler may look.
    static COPYING: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    /// A fault was met since the copy began.
    static MET: Cell<bool> = const { Cell::new(false) };
}

/// What was done with the signal before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// What the handler replaces at once. Larger pages of the mapping are split by it.
pub(crate) const PAGE: usize = 4096;

/// Takes the signal over; once for the process.
pub(crate) fn install() {
    BEFORE.get_or_init(|| {
        // SAFETY: the structures are plain numbers, for which zero is valid; the handler has the signature that
        // SA_SIGINFO demands, and does only what may be done in a signal handler (see there).
        #[allow(unsafe_code)]
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let mut before: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            let result = libc::sigaction(libc::SIGBUS, &action, &mut before);
            assert_eq!(result, 0, "SIGBUS can be handled");
            before
        }
    });
}

extern "C" fn on_fault(_signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `info`, whose address is set for this signal. `COPYING` and `MET` are plain
    // cells of this thread without lazy initialization. mmap and sigaction are system calls without state in this
    // process. The page replaced lies in a mapping that the interrupted copy touches, and belongs to it alone.
    #[allow(unsafe_code)]
    unsafe {
        let address = (*info).si_addr().addr();
        let (first, beyond) = COPYING.get();
        // Above zero: raised by an access, not sent by a process.
        if (*info).si_code > 0 && (first..beyond).contains(&address) {
            let page = std::ptr::without_provenance_mut(address / PAGE * PAGE);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            if libc::mmap(page, PAGE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) != libc::MAP_FAILED {
                MET.set(true);
                return;
            }
        }
        // Not ours. The faulting instruction is executed again and meets the one before us; by default, that ends the
        // process.
        if let Some(before) = BEFORE.get() {
            libc::sigaction(libc::SIGBUS, before, std::ptr::null_mut());
        }
    }
}

/// Copies from a mapping; false if part of it could not be read, which then reads as zeroes from anonymous pages in its
/// place.
///
/// # Safety
/// `from` must be readable for the length of `into`, or be a mapping of a file for which [`install`] was called.
#[allow(unsafe_code)]
pub(crate) unsafe fn copy(from: *const u8, into: &mut [u8]) -> bool {
    // SAFETY: as the caller promises; the mapping and the slice are different memory. Others may change the file
    // meanwhile: then the bytes are any mixture, as they are after a `read`.
    watched(from.addr()..from.addr() + into.len(), || unsafe {
        std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len());
    })
}

/// Copies to a mapping; false if part of it could not be stored, which went to anonymous pages in its place.
///
/// # Safety
/// `to` must be writable for the length of `from`, or be a mapping of a file that may be written, for which [`install`]
/// was called. No reference to that memory exists.
#[allow(unsafe_code)]
pub(crate) unsafe fn store(from: &[u8], to: *mut u8) -> bool {
    // SAFETY: as the caller promises; the slice and the mapping are different memory.
    watched(to.addr()..to.addr() + from.len(), || unsafe {
        std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len());
    })
}

/// Copies while the handler watches these addresses; false if it met a fault.
fn watched(addresses: std::ops::Range<usize>, copy: impl FnOnce()) -> bool {
    COPYING.set((addresses.start, addresses.end));
    compiler_fence(Ordering::SeqCst);
    copy();
    compiler_fence(Ordering::SeqCst);
    COPYING.set((0, 0));
    !MET.replace(false)
}
