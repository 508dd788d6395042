//! Timing, and lines of results.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// Seconds that a piece of work took.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Passed.
    pub wall: f64,
    /// Of the processors, all threads of this process.
    pub cpu: f64,
}

/// The best of `rounds` costs of `work`, wall and processor time each by itself.
pub fn best(rounds: u32, mut work: impl FnMut()) -> Cost {
    let mut best = Cost { wall: f64::INFINITY, cpu: f64::INFINITY };
    for _ in 0..rounds {
        let (start, cpu) = (Instant::now(), cpu_seconds());
        work();
        best.wall = best.wall.min(start.elapsed().as_secs_f64());
        best.cpu = best.cpu.min(cpu_seconds() - cpu);
    }
    best
}

/// Processor time of this process so far.
pub fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Whether this build is one of the tests: of its speed nothing follows.
pub const IS_FOR_TESTS: bool = cfg!(debug_assertions);

/// How much is done: all of it, or in a build for tests as little as shows that the bench runs to its end.
pub const fn amount(all: u32, least: u32) -> u32 {
    if IS_FOR_TESTS { least } else { all }
}

/// Prints one result; says whether the bar, if there is one, was met.
pub fn line(what: &str, value: f64, unit: &str, bar: Option<f64>) -> bool {
    let met = bar.is_none_or(|bar| value <= bar);
    let verdict =
        bar.map_or(String::new(), |bar| format!("   bar {bar} {unit}: {}", if met { "met" } else { "MISSED" }));
    println!("  {what:<58} {value:>9.2} {unit}{verdict}");
    met
}

/// The processor time of this thread: for work that waits for nothing, so that what other programs take is not counted.
pub fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
