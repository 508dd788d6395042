//! The clock that time stamps come from.
//!
//! Reading CLOCK_MONOTONIC costs 20-50 ns where the kernel lets programs read the processor's counter (clock source
//! `tsc`, `kvm-clock` and the like), and a system call and a slow device register, about a microsecond, where it does
//! not (`hpet`, `acpi_pm`). A time stamp cannot be better than the step of its clock, and a run that stamps each
//! request pays the reading each time: so both are measured.

use std::time::Instant;

use serde::Serialize;
use units::Duration;

use crate::kernel::{Kernel, text};

/// The clock of time stamps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Clock {
    /// What the kernel derives it from.
    pub source: Option<String>,
    /// What the kernel says its resolution is.
    pub resolution: Duration,
    /// The smallest step that was seen.
    pub step: Duration,
    /// What one reading costs: the mean of the quickest of some rounds.
    pub reading: Duration,
}

impl Clock {
    /// Looks at the clock, for less than a millisecond (a slow one: some milliseconds).
    pub fn measure(kernel: &Kernel) -> Clock {
        const READINGS: u32 = 500;
        let mut step = Duration::MAX;
        let mut round = Duration::MAX;
        for _ in 0..8 {
            let start = Instant::now();
            let mut last = start;
            for _ in 0..READINGS {
                let now = Instant::now();
                let passed = nanos(now - last);
                if !passed.is_zero() {
                    step = step.min(passed);
                }
                last = now;
            }
            // The quickest round is the one in which nothing else ran.
            round = round.min(nanos(last - start));
        }
        let resolution = rustix::time::clock_getres(rustix::time::ClockId::Monotonic);
        Clock {
            source: text(kernel.sys("devices/system/clocksource/clocksource0/current_clocksource")),
            resolution: Duration::nanos(
                resolution.tv_nsec.cast_unsigned() + resolution.tv_sec.cast_unsigned() * 1_000_000_000,
            ),
            // A clock that did not move in all rounds has a step longer than they took.
            step: if step == Duration::MAX { round } else { step },
            reading: round / u64::from(READINGS),
        }
    }
}

/// The time of `CLOCK_MONOTONIC` in nanoseconds: the clock of [`Instant`], as a number that can be compared with the
/// kernel's.
pub fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// When an [`Instant`] was, by [`monotonic`], to some tens of nanoseconds: each try reads the clock before and after the
/// instant's age, and the tightest counts. A single try may be off by a microsecond, as the first reading is slow.
pub fn monotonic_at(instant: Instant) -> u64 {
    let once = |_| {
        let before = monotonic();
        let age = instant.elapsed().as_nanos() as u64;
        let after = monotonic();
        (after - before, (before + (after - before) / 2).saturating_sub(age))
    };
    (0..32).map(once).min().map_or(0, |(_, at)| at)
}

fn nanos(time: std::time::Duration) -> Duration {
    Duration::nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
