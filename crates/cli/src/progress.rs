//! Progress on a terminal; nothing where there is none.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use indicatif::{ProgressBar, ProgressStyle};
use lab::{Progress, Tick};

/// A bar on standard error that goes away when it is dropped.
pub struct Bar(ProgressBar);

impl Bar {
    /// A bar over `steps`; of time or of measurements.
    pub fn new(steps: u64) -> Bar {
        let bar = ProgressBar::new(steps);
        bar.set_style(ProgressStyle::with_template("{bar:30} {msg}").expect("a template of known keys"));
        Bar(bar)
    }

    /// Shows how far it is.
    pub fn show(&self, step: u64, message: String) {
        self.0.set_position(step);
        self.0.set_message(message);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Shows a run: time, rate, errors.
pub struct RunBar {
    bar: Bar,
}

impl RunBar {
    /// A bar for one run.
    pub fn new() -> RunBar {
        RunBar { bar: Bar::new(1000) }
    }
}

impl Progress for RunBar {
    fn tick(&self, tick: &Tick) {
        let share = tick.whole.map_or(0.0, |whole| (tick.elapsed.as_seconds() / whole.as_seconds()).min(1.0));
        let errors = if tick.errors > 0 { format!(", {} errors", tick.errors) } else { String::new() };
        let rate = tick.bytes.per(tick.elapsed);
        let message = format!("{} requests, {rate}{errors}", tick.requests);
        self.bar.show((share * 1000.0) as u64, message);
    }
}

/// As [`interrupt`], for what goes on where it was ended.
pub fn interrupt_upkeep() -> Arc<AtomicBool> {
    on_signals(Vec::new(), "ending; the members say how far it is (Ctrl-C again: end at once)\n")
}

/// The same for what a server does, which goes on.
pub fn interrupt_watching() -> Arc<AtomicBool> {
    on_signals(Vec::new(), "ending the watch; the server goes on (Ctrl-C again: end at once)\n")
}

/// As [`interrupt`], for what keeps nothing.
pub fn interrupt_storm() -> Arc<AtomicBool> {
    on_signals(
        Vec::new(),
        "ending; what was found until now is printed, and nothing is kept (Ctrl-C again: end at once)\n",
    )
}

/// The same for a scrub, of which no member says how far it is.
pub fn interrupt_scrub() -> Arc<AtomicBool> {
    on_signals(Vec::new(), "ending; where it goes on is said then (Ctrl-C again: end at once)\n")
}

/// A flag that Ctrl-C sets, and so do the signals of a closed terminal and of `kill`. The second ends the program at
/// once, but for the files that it made itself: they are removed.
pub fn interrupt(made: Vec<PathBuf>) -> Arc<AtomicBool> {
    on_signals(made, "ending the run; what was recorded is kept (Ctrl-C again: end at once)\n")
}

/// The same for a rank that leaves it to rank 0 to speak.
pub fn interrupt_quietly() -> Arc<AtomicBool> {
    on_signals(Vec::new(), "")
}

fn on_signals(made: Vec<PathBuf>, words: &'static str) -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    // Without a handler Ctrl-C ends the program as ever; nothing else is lost.
    let _ = ctrlc::set_handler(move || {
        if set.swap(true, Relaxed) {
            for path in &made {
                // It may not be there yet, or no more.
                let _ = std::fs::remove_file(path);
            }
            std::process::exit(130);
        }
        let _ = std::io::stderr().write_all(words.as_bytes());
    });
    flag
}
