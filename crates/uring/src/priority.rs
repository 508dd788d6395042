//! I/O priorities of single requests (ioprio_set(2)).
//!
//! A ring is told with each request. A system call is made with the priority of its thread; so whoever makes it gives
//! its thread the priority of the request first, and only if that is another than the last one's: a load of one
//! priority asks the kernel once. What the thread had before is not asked for, as nobody else sets it.

use std::cell::Cell;

use device::{DeviceError, Request};
use units::Bytes;

/// `IOPRIO_WHO_PROCESS`; the process 0 is the calling thread.
const THREAD: libc::c_int = 1;

thread_local! {
    static CURRENT: Cell<u16> = const { Cell::new(0) };
}

/// Gives the thread the priority of a request that it is about to carry out.
pub(crate) fn adopt(request: &Request) -> Result<(), DeviceError> {
    if CURRENT.get() == request.priority {
        return Ok(());
    }
    // SAFETY: the call takes three numbers, and changes nothing but a number that the kernel keeps of this thread.
    #[allow(unsafe_code)]
    let set = unsafe { libc::syscall(libc::SYS_ioprio_set, THREAD, 0, libc::c_int::from(request.priority)) };
    if set != 0 {
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
        return Err(DeviceError::from_errno(errno, Bytes::ZERO, Bytes::ZERO));
    }
    CURRENT.set(request.priority);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernels() -> u16 {
        // SAFETY: the call takes two numbers and gives one.
        #[allow(unsafe_code)]
        let got = unsafe { libc::syscall(libc::SYS_ioprio_get, THREAD, 0) };
        u16::try_from(got).expect("a thread has a priority")
    }

    #[test]
    fn a_thread_has_the_priority_of_the_request_that_it_carries_out() {
        // Best effort, level 6; idle.
        for priority in [2 << 13 | 6, 3 << 13] {
            assert_eq!(adopt(&Request::flush().with_priority(priority)), Ok(()));
            assert_eq!(kernels(), priority);
        }
        // There is no class 4.
        let refused = adopt(&Request::flush().with_priority(4 << 13));
        assert_eq!(refused, Err(DeviceError::Kernel { errno: libc::EINVAL }));
        assert_eq!(kernels(), 3 << 13);
        assert_eq!(adopt(&Request::flush()), Ok(()));
        assert_ne!(kernels(), 3 << 13);
    }
}
