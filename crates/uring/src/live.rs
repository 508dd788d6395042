//! A live runtime with the means of doing I/O under it.

use std::cell::OnceCell;
use std::num::NonZero;
use std::rc::Rc;

use device::Buffer;
use runtime::{LiveClock, Runtime};
use units::Bytes;

use crate::ring::Ring;
use crate::setup::{RingError, RingOptions};
use crate::threads::Threads;

/// How a live runtime is started.
#[derive(Debug, Clone, Default)]
pub struct LiveOptions {
    /// When [`Instant::START`](units::Instant::START) is; now, if not given. Runtimes on several threads that share it
    /// share one time scale.
    pub start: Option<std::time::Instant>,
    /// How the ring is set up.
    pub ring: RingOptions,
    /// Does without a ring, as if it were forbidden.
    pub without_ring: bool,
}

/// A live runtime, its ring if it may have one, and its worker threads if it needs them. Clones name the same one.
#[derive(Clone)]
pub struct Live {
    shared: Rc<Shared>,
}

struct Shared {
    runtime: Runtime,
    clock: LiveClock,
    ring: Result<Ring, RingError>,
    threads: OnceCell<Threads>,
}

impl Live {
    /// Starts one on this thread. Where there is no io_uring it does without; [`Live::ring`] then says why.
    ///
    /// Timers of this thread fire as soon as they can from now on: by itself the kernel lets them be late by 50 us, so
    /// that several may share an interrupt (prctl(2), `PR_SET_TIMERSLACK`).
    pub fn start(options: &LiveOptions) -> Live {
        // Refused by old kernels for threads of other rules only, whose timers are exact by themselves.
        let _ = rustix::thread::set_current_timer_slack(NonZero::new(1));
        let start = options.start.unwrap_or_else(std::time::Instant::now);
        let ring = if options.without_ring { Err(RingError::NotWanted) } else { Ring::new(&options.ring) };
        let runtime = match &ring {
            Ok(ring) => Runtime::live_since(start, ring.clone()),
            Err(_) => Runtime::live_since(start, runtime::ThreadPark::default()),
        };
        let clock = LiveClock::since(start);
        Live { shared: Rc::new(Shared { runtime, clock, ring, threads: OnceCell::new() }) }
    }

    /// The runtime.
    pub fn runtime(&self) -> &Runtime {
        &self.shared.runtime
    }

    /// The ring, or why there is none.
    pub fn ring(&self) -> Result<&Ring, &RingError> {
        self.shared.ring.as_ref()
    }

    /// Buffers for requests, registered with the ring if there is one; see [`Ring::buffers`].
    pub fn buffers(&self, count: usize, size: Bytes) -> (Vec<Buffer>, Result<(), RingError>) {
        match &self.shared.ring {
            Ok(ring) => ring.buffers(count, size),
            Err(_) => ((0..count).map(|_| Buffer::zeroed(size)).collect(), Ok(())),
        }
    }

    /// The worker threads, started when first asked for.
    pub(crate) fn threads(&self) -> std::io::Result<Threads> {
        if let Some(threads) = self.shared.threads.get() {
            return Ok(threads.clone());
        }
        let threads = Threads::start(self.shared.clock)?;
        Ok(self.shared.threads.get_or_init(|| threads).clone())
    }
}
