//! Timing, and lines of results.

use std::time::Instant;

/// The best of `rounds` times of `work`, in seconds.
pub fn best(rounds: u32, mut work: impl FnMut()) -> f64 {
    (0..rounds)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}

/// Prints one result; says whether the bar, if there is one, was met.
pub fn line(what: &str, value: f64, unit: &str, bar: Option<f64>) -> bool {
    let met = bar.is_none_or(|bar| value <= bar);
    let verdict =
        bar.map_or(String::new(), |bar| format!("   bar {bar} {unit}: {}", if met { "met" } else { "MISSED" }));
    println!("  {what:<58} {value:>9.2} {unit}{verdict}");
    met
}
