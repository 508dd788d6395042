//! Setting a ring up: its options, the flags, and the reasons for which there is none.
//!
//! `SINGLE_ISSUER` and `DEFER_TASKRUN` (Linux 6.1): completions are worked off inside our own enter and never interrupt
//! a task; then `COOP_TASKRUN` (5.19); then none. Each is tried in turn. Links are not used: the order of requests is
//! the caller's. `IOPOLL` was left out: no device of the machines at hand has poll queues, and what cannot be tested is
//! not offered.

use io_uring::IoUring;
use units::Duration;

/// How a ring is set up.
#[derive(Debug, Clone)]
pub struct RingOptions {
    /// Places in the submission queue: the largest batch that one system call submits. A power of two up to 32768.
    pub entries: u32,
    /// Lets a kernel thread poll the submission queue, and sleep after this time without work. Submitting then costs no
    /// system call, but the thread takes a processor for itself; on machines with few it is slower.
    pub kernel_poll: Option<Duration>,
    /// Lets a wait go on until so many requests have completed, or all that are under way if they are fewer: fewer
    /// system calls and switches for each, against stamps that are late by as long as the first waits for the last, and
    /// a queue that runs emptier.
    pub gather: u32,
}

impl Default for RingOptions {
    fn default() -> RingOptions {
        RingOptions { entries: 256, kernel_poll: None, gather: 1 }
    }
}

/// Why there is no ring, or why it does not take something.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// It was not asked for.
    #[error("it was asked to do without io_uring")]
    NotWanted,
    /// The kernel has none.
    #[error("this kernel has no io_uring; Linux 5.11 or later is needed")]
    Missing,
    /// Somebody has forbidden it.
    #[error("io_uring is forbidden here, by the sysctl kernel.io_uring_disabled or by the container's seccomp filter")]
    Forbidden,
    /// The kernel's is too old.
    #[error("io_uring of this kernel lacks {0}; Linux 5.11 or later is needed")]
    TooOld(&'static str),
    /// The table of registered files is full.
    #[error("a ring holds at most {0} files; close some, or raise the limit of open files (ulimit -n)")]
    TooManyFiles(u32),
    /// Locked memory is limited.
    #[error(
        "the buffers are not registered: the limit of locked memory is too low; raise it (ulimit -l) or run as root"
    )]
    MemoryLimit,
    /// A call failed otherwise.
    #[error("{call} failed")]
    System {
        /// What was attempted.
        call: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// Completions that fit before the kernel has to keep some: 64 KiB of memory.
const COMPLETIONS: u32 = 4096;

/// Sets the kernel's part up with the best flags that it takes.
pub(crate) fn build(options: &RingOptions) -> Result<IoUring, RingError> {
    let plain = || {
        let mut builder = IoUring::builder();
        builder.dontfork().setup_cqsize(COMPLETIONS.max(2 * options.entries));
        builder
    };
    let ways = match options.kernel_poll {
        Some(idle) => {
            let mut polled = plain();
            polled.setup_sqpoll((idle.as_nanos() / 1_000_000).clamp(1, u64::from(u32::MAX)) as u32);
            vec![polled]
        }
        None => {
            let (mut deferred, mut cooperative) = (plain(), plain());
            deferred.setup_submit_all().setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
            cooperative.setup_submit_all().setup_coop_taskrun().setup_taskrun_flag();
            vec![deferred, cooperative, plain()]
        }
    };
    let mut refusal = std::io::Error::from_raw_os_error(libc::EINVAL);
    for way in ways {
        match way.build(options.entries) {
            Ok(uring) => return Ok(uring),
            Err(error) => refusal = error,
        }
        // An older kernel does not know a flag: try with fewer.
        if refusal.raw_os_error() != Some(libc::EINVAL) {
            break;
        }
    }
    Err(match refusal.raw_os_error() {
        Some(libc::ENOSYS) => RingError::Missing,
        Some(libc::EPERM | libc::EACCES) => RingError::Forbidden,
        Some(libc::ENOMEM) => RingError::MemoryLimit,
        _ => RingError::System { call: "io_uring_setup", source: refusal },
    })
}
