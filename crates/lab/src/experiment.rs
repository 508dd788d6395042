//! The experiment: one TOML file, one question.
//!
//! ```toml
//! name = "mixed load"                      # otherwise the file's name
//! seed = 7                                 # same seed, same requests; 1 if absent
//!
//! [run]
//! passes = 3                               # each anew from the barrier on
//! start-up = "1 s"                         # load is on, nothing counts
//! measure = "10 s"                         # or limits in the streams
//! cool-down = "500 ms"                     # load stays on while the last counted requests complete
//! on-error = "stop"                        # or "continue": count and go on
//! devices = 2                              # only the first two of those given
//!
//! [io]
//! mode = "direct"                          # or "buffered": through the page cache
//! engine = "auto"                          # or "io-uring", "threads", "sync"
//!
//! [[stream]]                               # runs on every device, or on those named in `on`
//! name = "readers"
//! on = [0, 1]
//! operation = "read"                       # "write", or { reads = "70 %" }
//! pattern = "random"                       # "random-once", "sequential", { strided = "1 MiB" }
//! size = "4 KiB"                           # or [{ size = "4 KiB", weight = 3 }, { size = "64 KiB", weight = 1 }]
//! align = "4 KiB"                          # the size (the smallest of several) if absent
//! region = { start = "0 B", length = "1 GiB" }
//! from = "0 B"                             # where in the region a sequential stream begins
//! depth = 8                                # closed loop: requests under way on each device
//! think = "0 s"
//! limit = { requests = 10000, bytes = "1 GiB", time = "5 s" }
//! fill = "random"                          # what writes store; or "zero"
//!
//! [[stream]]
//! name = "arrivals"
//! operation = "read"
//! pattern = "random"
//! size = "4 KiB"
//! arrivals = { poisson = "3000/s" }        # open loop; or { constant = "3000/s" }
//! outstanding = 256                        # more than these wait, and their wait counts
//!
//! [sweep]                                  # all combinations, one table
//! "stream.readers.depth" = [1, 2, 4, 8]
//! "run.devices" = [1, 2]
//! ```
//!
//! Reading is in two steps. `document` applies `--set` and one point of the sweep to the parsed TOML, in which every value knows
//! its place in the text; `file` makes an [`Experiment`] of the result, or an error that points at the value, wherever it came from.

use serde::Deserialize;
use toml::Spanned;
use units::Duration;
use workload::{OnError, Stream};

use crate::file::File;
use crate::source::{Source, SourceError};

/// One point of an experiment: everything decided, nothing yet opened.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// What it is called in results.
    pub name: String,
    /// Decides every random choice.
    pub seed: u64,
    /// How long, how often.
    pub run: Run,
    /// How devices are opened.
    pub io: Io,
    /// The load. Never empty.
    pub streams: Vec<StreamPlan>,
}

/// How a run proceeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// How often the whole is repeated, each time from a common start.
    pub passes: u16,
    /// Load is on, nothing counts.
    pub start_up: Duration,
    /// Counted time; streams may end theirs earlier by limits of their own.
    pub measure: Option<Duration>,
    /// Load stays on after the last stream has measured.
    pub cool_down: Duration,
    /// What a failed request does.
    pub on_error: OnError,
    /// Use only this many of the devices given.
    pub devices: Option<usize>,
}

/// How devices are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Io {
    /// Past the page cache or through it.
    pub mode: Mode,
    /// How requests reach the kernel.
    pub engine: Engine,
}

impl Default for Io {
    fn default() -> Io {
        Io { mode: Mode::Direct, engine: Engine::Auto }
    }
}

/// Past the page cache or through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// `O_DIRECT`: what is measured is the device.
    Direct,
    /// Through the page cache: what is measured is the operating system, too.
    Buffered,
}

/// How requests reach the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// The one that costs least on the target; the result says which and why.
    Auto,
    /// One ring a thread.
    IoUring,
    /// Worker threads that call `pread` and `pwrite`.
    Threads,
    /// `pread` and `pwrite` in the generator's own thread.
    Sync,
}

/// A stream and the devices it runs on.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamPlan {
    /// What it asks, on each device.
    pub stream: Stream,
    /// Indices of its devices; `None` for all.
    pub on: Option<Vec<usize>>,
}

impl StreamPlan {
    /// True if the stream runs on device `index`.
    pub fn runs_on(&self, index: usize) -> bool {
        self.on.as_ref().is_none_or(|on| on.contains(&index))
    }
}

impl Experiment {
    /// An experiment that measures for some time and stops at errors; the caller changes what differs.
    pub fn new(name: impl Into<String>, measure: Duration, streams: Vec<Stream>) -> Experiment {
        let run = Run {
            passes: 1,
            start_up: Duration::ZERO,
            measure: Some(measure),
            cool_down: Duration::ZERO,
            on_error: OnError::Stop,
            devices: None,
        };
        let streams = streams.into_iter().map(|stream| StreamPlan { stream, on: None }).collect();
        Experiment { name: name.into(), seed: 1, run, io: Io::default(), streams }
    }

    /// True if anything is written.
    pub fn writes(&self) -> bool {
        self.streams.iter().any(|plan| plan.stream.mix.has_writes())
    }

    /// Reads one point from a document to which `--set` and the sweep have been applied.
    pub(crate) fn read(source: &Source, table: Spanned<toml::de::DeTable<'_>>) -> Result<Experiment, SourceError> {
        let file = File::deserialize(toml::de::Deserializer::from(table)).map_err(|error| source.toml_error(&error))?;
        file.check(source)
    }
}
