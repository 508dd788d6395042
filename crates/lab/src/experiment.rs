//! The experiment: one TOML file, one question.
//!
//! ```toml
#![doc = include_str!("experiment.toml")]
//! ```
//!
//! Reading is in two steps. `document` applies `--set` and one point of the sweep to the parsed TOML, in which every value knows
//! its place in the text; `file` makes an [`Experiment`] of the result, or an error that points at the value, wherever it came from.

use std::num::NonZero;
use std::sync::Arc;

use host::precaution::Precautions;
use serde::Deserialize;
use toml::Spanned;
use units::{Duration, Instant};
use uring::{Engine, Mode};
use workload::{Control, Flushes, OnError, RateLimit, Script, Stream};

use crate::described::Described;
use crate::file::File;
use crate::slow::Slow;
use crate::source::{Source, SourceError};
use crate::steady::{Precondition, Steady};
use crate::system::System;
use crate::target::Target;

/// The whole language by example, a file that can be read: what the help of the command line shows.
pub const LANGUAGE: &str = include_str!("experiment.toml");

/// One point of an experiment: everything decided, nothing yet opened.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// What it is called in results.
    pub name: String,
    /// Decides every random choice.
    pub seed: u64,
    /// How long, how often.
    pub run: Run,
    /// What is written before the first pass.
    pub precondition: Option<Precondition>,
    /// The modelled machine that it runs on; nothing if it runs on what it is given.
    pub system: Option<System>,
    /// The devices that it describes itself; none if it runs on what it is given.
    pub devices: Vec<Described>,
    /// How devices are opened.
    pub io: Io,
    /// The care that the load generator takes of itself.
    pub care: Precautions,
    /// Published rows that results are compared with: the beginnings of their ids.
    pub published: Vec<String>,
    /// Parts that are held up on purpose.
    pub slow: Vec<Slow>,
    /// The load. Never empty.
    pub streams: Vec<StreamPlan>,
}

/// How a run proceeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// How often the whole is repeated, each time from a common start; with `steady`, at most.
    pub passes: u16,
    /// Passes are repeated until the last of them agree.
    pub steady: Option<Steady>,
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
    /// What all streams together ask for at most.
    pub rate_limit: Option<RateLimit>,
    /// Have the kernel tell which way each request takes through its block layer.
    pub trace: bool,
}

impl Run {
    /// How long all passes take together, if only time ends them.
    pub fn whole(&self) -> Option<Duration> {
        self.measure.map(|measure| (self.start_up + measure + self.cool_down) * u64::from(self.passes))
    }
}

/// How devices are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Io {
    /// Past the page cache or through it.
    pub mode: Mode,
    /// How requests reach the kernel: `auto`, which is none of them, or an engine's name. Of `auto` the result says
    /// which and why.
    #[serde(with = "engine")]
    pub engine: Option<Engine>,
    /// What happens to the page cache before each pass. Without effect on direct I/O.
    pub cache: Cache,
    /// How many completions a ring waits for at a time; see [`uring::RingOptions`].
    pub gather: NonZero<u32>,
    /// Lets a kernel thread look for requests in the ring, and sleep after this time without any.
    pub kernel_poll: Option<Duration>,
}

impl Default for Io {
    fn default() -> Io {
        Io { mode: Mode::Direct, engine: None, cache: Cache::Drop, gather: NonZero::<u32>::MIN, kernel_poll: None }
    }
}

/// What happens to the page cache of a buffered file before each pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    /// What it holds of the file is dropped, after what is dirty was written back: reads are the device's at first.
    Drop,
    /// What is clean is dropped, as fio's `invalidate` does it: what was just written may be read from memory.
    DropClean,
    /// It stays as it is.
    Keep,
}

impl Cache {
    /// Its name in files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Cache::Drop => "drop",
            Cache::DropClean => "drop-clean",
            Cache::Keep => "keep",
        }
    }
}

/// An engine by its name, or `auto`.
mod engine {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use uring::Engine;

    pub fn serialize<S: Serializer>(engine: &Option<Engine>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::engine_name(*engine))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Engine>, D::Error> {
        match &*String::deserialize(deserializer)? {
            "auto" => Ok(None),
            name => name.parse().map(Some).map_err(|error| D::Error::custom(format_args!("{error}, or auto"))),
        }
    }
}

/// How an experiment names an engine.
pub(crate) fn engine_name(engine: Option<Engine>) -> String {
    engine.map_or("auto".into(), |engine| engine.to_string())
}

/// What the requests of a stream go through on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Through {
    /// The device itself, or whatever the machine's way in is.
    Device,
    /// A file that is there, and the page cache.
    File,
    /// A file that is not there when a pass begins: its first write makes it.
    NewFile,
}

/// A stream and the devices it runs on.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamPlan {
    /// What it asks, on each device.
    pub stream: Stream,
    /// Indices of its devices; `None` for all.
    pub on: Option<Vec<usize>>,
    /// The requests of a trace, which are then made in place of those that the stream would draw.
    pub script: Option<Arc<Script>>,
    /// What its requests go through.
    pub through: Through,
    /// What it asks for at most, on all of its devices together.
    pub rate_limit: Option<RateLimit>,
    /// What its reads ask for at most, and what its writes: each keeps its own rate, and neither waits for the other.
    pub rates: [Option<RateLimit>; 2],
    /// Flushes between its requests, on devices that say nothing of flushes.
    pub flushes: Flushes,
}

impl StreamPlan {
    /// Whether its first write makes the file.
    pub fn makes_its_file(&self) -> bool {
        self.through == Through::NewFile
    }

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
            steady: None,
            start_up: Duration::ZERO,
            measure: Some(measure),
            cool_down: Duration::ZERO,
            on_error: OnError::Stop,
            devices: None,
            rate_limit: None,
            trace: false,
        };
        let plan = |stream| StreamPlan {
            stream,
            on: None,
            rate_limit: None,
            rates: [None; 2],
            through: Through::Device,
            script: None,
            flushes: Flushes::NONE,
        };
        let streams = streams.into_iter().map(plan).collect();
        Experiment {
            name: name.into(),
            seed: 1,
            run,
            precondition: None,
            system: None,
            devices: Vec::new(),
            io: Io::default(),
            care: Precautions::default(),
            published: Vec::new(),
            slow: Vec::new(),
            streams,
        }
    }

    /// The devices of its own that it runs on: those it describes, or the ways into its modelled machine.
    pub fn own_targets(&self) -> Option<Vec<Target>> {
        let described = || self.devices.iter().map(|device| Target::Described(Box::new(device.clone()))).collect();
        match &self.system {
            Some(system) => Some(system.targets()),
            None => (!self.devices.is_empty()).then(described),
        }
    }

    /// Whether all requests come when they are due, whatever has completed.
    pub fn is_open(&self) -> bool {
        self.streams.iter().all(|plan| matches!(plan.stream.load, workload::Load::Open { .. }))
    }

    /// One without any load, which the caller adds.
    pub(crate) fn empty(name: String) -> Experiment {
        let mut experiment = Experiment::new(name, Duration::ZERO, Vec::new());
        experiment.run.measure = None;
        experiment
    }

    /// By device, of so many: the streams that run on it.
    pub(crate) fn by_device(&self, devices: usize) -> Vec<Vec<usize>> {
        let mut streams = vec![Vec::new(); devices];
        for (stream, plan) in self.streams.iter().enumerate() {
            match &plan.on {
                Some(on) => on.iter().filter(|on| **on < devices).for_each(|on| streams[*on].push(stream)),
                None => streams.iter_mut().for_each(|here| here.push(stream)),
            }
        }
        streams
    }

    /// The flushes between the requests of a stream on a device.
    pub(crate) fn flushes(&self, stream: usize, device: usize) -> Flushes {
        match self.devices.get(device).map(|described| described.flushes) {
            None | Some(Flushes::NONE) => self.streams[stream].flushes,
            Some(flushes) => flushes,
        }
    }

    /// A pass's control, with the rates to keep to; `seats` are streams, counted once for each device.
    pub(crate) fn control(&self, begin: Instant, seats: u32) -> Control {
        let control = Control::new(begin, self.run.start_up, self.run.cool_down, seats);
        let control = control.throttled(self.run.rate_limit, self.streams.iter().map(|plan| plan.rate_limit));
        let control = control.throttled_apart(self.streams.iter().map(|plan| (plan.stream.delay, plan.rates)));
        control.ruled(self.streams.iter().map(|plan| &plan.stream.rules))
    }

    /// True if anything is written.
    pub fn writes(&self) -> bool {
        self.precondition.is_some() || self.streams.iter().any(|plan| plan.stream.mix.has_writes())
    }

    /// Reads one point from a document to which `--set` and the sweep have been applied.
    pub(crate) fn read(source: &Source, table: Spanned<toml::de::DeTable<'_>>) -> Result<Experiment, SourceError> {
        let file = File::deserialize(toml::de::Deserializer::from(table)).map_err(|error| source.toml_error(&error))?;
        file.check(source)
    }
}
