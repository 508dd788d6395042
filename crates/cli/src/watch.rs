//! A run that is watched: lines each second, a file in its folder, and what Prometheus asks for ([`Metrics`]).

use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;

use lab::{Progress, Status, Tick};

use crate::args;
use crate::fail::Failure;
use crate::metrics::Metrics;
use crate::progress::RunBar;

/// Refuses to show meanwhile what is over before anybody can look.
pub fn check(seen: &args::Seen, virtual_time: bool) -> Result<(), Failure> {
    match virtual_time && (seen.watch || seen.metrics.is_some()) {
        true => Err(Failure::input(anyhow::anyhow!(
            "--watch and --metrics are of real devices; what is modelled or simulated runs in virtual time: leave them out"
        ))),
        false => Ok(()),
    }
}

/// What has been seen.
#[derive(Default)]
struct Seen {
    last: Option<Tick>,
    shown: usize,
    /// What is being done.
    title: String,
}

/// Shows a run, and keeps its state where others can read it.
pub struct Watch {
    loud: bool,
    bar: Option<RunBar>,
    names: Vec<String>,
    /// The document of the run so far, made anew each second.
    file: PathBuf,
    metrics: Option<Metrics>,
    seen: Mutex<Seen>,
}

impl Watch {
    /// `loud` prints lines on standard error; otherwise there is a bar.
    pub fn new(loud: bool, names: Vec<String>, file: PathBuf, metrics: Option<Metrics>) -> Watch {
        let mut watch = Watch::beside(loud, names, file, metrics);
        watch.bar = (!loud).then(RunBar::new);
        watch
    }

    /// Without a bar: there is one already.
    pub fn beside(loud: bool, names: Vec<String>, file: PathBuf, metrics: Option<Metrics>) -> Watch {
        Watch { loud, bar: None, names, file, metrics, seen: Mutex::default() }
    }

    /// Says what is being done, above the lines of the next second.
    pub fn title(&self, title: String) {
        self.seen.lock().expect("no panic under this lock").title = title;
    }

    fn print(&self, text: &str, before: usize) {
        let mut error = std::io::stderr().lock();
        // On a terminal the lines of the last second are written over. If it is gone, there is nobody to tell.
        let over = std::io::IsTerminal::is_terminal(&error) && before > 0;
        let up = if over { format!("\x1b[{before}A\x1b[J") } else { String::new() };
        let _ = writeln!(error, "{up}{text}");
    }
}

impl Progress for Watch {
    fn tick(&self, tick: &Tick) {
        if let Some(bar) = &self.bar {
            bar.tick(tick);
        }
        let mut seen = self.seen.lock().expect("no panic under this lock");
        let last = seen.last.as_ref().map_or(units::Duration::ZERO, |last| last.elapsed);
        if tick.devices.is_empty() || tick.elapsed.saturating_sub(last) < units::Duration::seconds(1) {
            return;
        }
        let whole = Status::between(None, tick);
        // A folder that takes nothing more will be said to be so at the end of the run.
        let part = self.file.with_extension("part");
        let _ = std::fs::write(&part, format!("{:#}\n", whole.document(&self.names)))
            .and_then(|()| std::fs::rename(&part, &self.file));
        if let Some(metrics) = &self.metrics {
            metrics.set(whole.metrics(&self.names));
        }
        if self.loud {
            let lines = Status::between(seen.last.as_ref(), tick).lines(&self.names);
            let text = if seen.title.is_empty() { lines } else { format!("{}\n{lines}", seen.title) };
            self.print(&text, seen.shown);
            seen.shown = text.lines().count();
        }
        seen.last = Some(tick.clone());
    }

    fn warn(&self, warning: &str) {
        eprintln!("warning: {warning}");
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The summary says more.
        let _ = std::fs::remove_file(&self.file);
    }
}
