//! Results that are kept: `benchsuite/runs/BENCH-DATE-MACHINE.tsv`, one line per result, so that a later run can be
//! held against them.
//!
//! The machine is its kind (processor, its family and model, and how many of them), not its name. Processors that call
//! themselves alike differ by three: "AMD EPYC" of family 25 and of 26.

use std::fmt::Write;
use std::path::Path;

use crate::measure::IS_FOR_TESTS;

/// The results of one run of one bench.
pub struct Table {
    bench: &'static str,
    text: String,
}

impl Table {
    /// An empty table under these headings.
    pub fn new(bench: &'static str, headings: &[&str]) -> Table {
        Table { bench, text: headings.join("\t") + "\n" }
    }

    /// One result.
    pub fn row(&mut self, cells: &[String]) {
        writeln!(self.text, "{}", cells.join("\t")).expect("a string takes all that is written");
    }

    /// Writes the table if `BENCHSUITE_KEEP` is set: not every try is worth keeping.
    pub fn keep(&self) {
        if IS_FOR_TESTS {
            println!("  (not kept: a build for tests measures nothing)");
            return;
        }
        if std::env::var_os("BENCHSUITE_KEEP").is_none() {
            println!("  (to keep these results, set BENCHSUITE_KEEP)");
            return;
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("runs");
        let date = chrono::DateTime::<chrono::Utc>::from(std::time::SystemTime::now()).format("%Y-%m-%d");
        let file = folder.join(format!("{}-{date}-{}.tsv", self.bench, machine()));
        let kept = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&file, &self.text));
        match kept {
            Ok(()) => println!("  kept as benchsuite/runs/{}", file.file_name().unwrap_or_default().display()),
            Err(error) => println!("  not kept: {error}"),
        }
    }
}

/// The processor's name, family and model and how many of them this process may use, in letters fit for a file name.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let first = |key: &str| {
        info.lines()
            .find_map(|line| line.split_once(':').filter(|(name, _)| name.trim() == key).map(|(_, is)| is.trim()))
    };
    let parts: Vec<&str> = ["model name", "cpu family", "model"].into_iter().filter_map(first).collect();
    let name = if parts.is_empty() { "cpu".to_owned() } else { parts.join("-") };
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    format!("{name}-x{cpus}")
}
