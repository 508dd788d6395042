//! What a thread took from the machine: processor time, switches, page faults (`getrusage(2)` of the calling thread).
//!
//! To the microsecond, where `/proc` rounds to ticks of 10 ms; that is the reason for a call that only `nix` offers.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use units::Duration;

/// What a thread took, from its start or between two moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadUse {
    /// Processor time in user mode.
    pub user: Duration,
    /// Processor time in the kernel on its behalf.
    pub system: Duration,
    /// Context switches, of its own accord and not.
    pub switches: u64,
    /// Page faults for which something was read.
    pub major_faults: u64,
    /// Other page faults.
    pub minor_faults: u64,
}

impl ThreadUse {
    /// Of the calling thread until now. Nothing where the kernel does not say.
    pub fn now() -> ThreadUse {
        let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) else { return ThreadUse::default() };
        let time = |time: TimeVal| {
            let micros = time.tv_sec() as u64 * 1_000_000 + time.tv_usec() as u64;
            Duration::micros(micros)
        };
        ThreadUse {
            user: time(usage.user_time()),
            system: time(usage.system_time()),
            switches: (usage.voluntary_context_switches() + usage.involuntary_context_switches()) as u64,
            major_faults: usage.major_page_faults() as u64,
            minor_faults: usage.minor_page_faults() as u64,
        }
    }

    /// What was taken since an earlier moment.
    pub fn since(&self, earlier: &ThreadUse) -> ThreadUse {
        ThreadUse {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            switches: self.switches.saturating_sub(earlier.switches),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
            minor_faults: self.minor_faults.saturating_sub(earlier.minor_faults),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_sleeps_switches_and_one_that_touches_memory_faults() {
        let before = ThreadUse::now();
        (0..5).for_each(|_| std::thread::sleep(std::time::Duration::from_millis(1)));
        let pages = std::hint::black_box(vec![1u8; 8 << 20]);
        let took = ThreadUse::now().since(&before);
        assert!(took.switches >= 5 && took.minor_faults > 0, "{took:?}, {}", pages.len());
    }
}
