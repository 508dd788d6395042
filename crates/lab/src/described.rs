//! Devices that an experiment describes itself, in place of `--on`.
//!
//! A job of fio has files of its own, several of them used as one, opened in its own way, flushed after so many writes.
//! `[[device]]` says all of that, so that what a job file comes to can be written down, changed and run like any other
//! experiment; and each job has its own descriptors of a file that many share, as processes have.

use std::path::{Path, PathBuf};

use device::Writeback;
use serde::Deserialize;
use toml::{Spanned, Table, Value};
use units::Bytes;
use uring::{Advice, Engine, Mode};
use workload::Flushes;

use crate::experiment::{Cache, Io, engine_name};
use crate::source::{Source, SourceError};
use crate::target::Target;

/// A device as an experiment describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Described {
    /// Its files or block devices. Empty for one that does nothing.
    pub files: Vec<PathBuf>,
    /// The addresses of a device that does nothing, and has no files.
    pub null: Option<Bytes>,
    /// So much goes to one of several files before the next has its turn; one after the other if absent.
    pub chunk: Option<Bytes>,
    /// How large files are made that are not there.
    pub make: Option<Bytes>,
    /// Its files have no room reserved, and grow as they are written, up to this.
    pub grows: Option<Bytes>,
    /// Files that are made are filled, even if they are only written: fio's `overwrite`.
    pub filled: bool,
    /// After so many bytes that are asked for, the page cache is emptied of it: each lap of a job of fio reads from the
    /// device.
    pub refresh: Option<Bytes>,
    /// What the kernel is told of how it is read through the page cache.
    pub advice: Advice,
    /// How it is opened.
    pub io: Io,
    /// Every write is durable when it is answered.
    pub durable: bool,
    /// Flushes between the requests of each stream.
    pub flushes: Flushes,
    /// A flush after the last request of a pass, which counts for its time.
    pub flush_at_end: bool,
}

impl Described {
    /// Files, opened like this.
    pub fn files(files: Vec<PathBuf>, io: Io) -> Described {
        Described {
            files,
            null: None,
            chunk: None,
            make: None,
            grows: None,
            filled: false,
            refresh: None,
            advice: Advice::None,
            io,
            durable: false,
            flushes: Flushes::NONE,
            flush_at_end: false,
        }
    }

    /// As results call it.
    pub fn name(&self) -> String {
        match (&self.files[..], self.null) {
            ([], size) => Target::Null { size: size.unwrap_or(Bytes::ZERO) }.to_string(),
            (files, _) => files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(":"),
        }
    }

    /// As the experiment writes it.
    pub(crate) fn written(&self, common: &Io) -> Table {
        let mut table = Table::new();
        let text = |size: Bytes| Value::String(format!("{size:#}"));
        let mut put = |key: &str, value: Option<Value>| value.map(|value| table.insert(key.to_owned(), value));
        let files = self.files.iter().map(|file| Value::String(file.display().to_string())).collect();
        put("files", (!self.files.is_empty()).then_some(Value::Array(files)));
        put("null", self.null.map(text));
        put("chunk", self.chunk.map(text));
        put("make", self.make.map(text));
        put("filled", self.filled.then_some(Value::Boolean(true)));
        put("refresh", self.refresh.map(text));
        let advice = match self.advice {
            Advice::None => None,
            Advice::Random => Some("random"),
            Advice::Sequential => Some("sequential"),
        };
        put("advice", advice.map(Into::into));
        let mode = match self.io.mode {
            Mode::Direct => "direct",
            Mode::Buffered => "buffered",
        };
        put("mode", (self.io.mode != common.mode).then(|| mode.into()));
        put("engine", (self.io.engine != common.engine).then(|| engine_name(self.io.engine).into()));
        let cache = self.io.cache.name();
        put("cache", (self.io.cache != common.cache).then(|| cache.into()));
        put("durable", self.durable.then_some(Value::Boolean(true)));
        let (full, data) = (self.flushes.full, self.flushes.data);
        put("flush-every", (data > 0).then(|| i64::from(data).into()));
        put("fsync-every", (full > 0).then(|| i64::from(full).into()));
        let (every, steps) = self.flushes.range;
        put("writeback-every", (every > 0).then(|| i64::from(every).into()));
        let steps = [(steps.wait_before, "wait-before"), (steps.write, "write"), (steps.wait_after, "wait-after")];
        let steps = steps.iter().filter(|(wanted, _)| *wanted).map(|(_, name)| Value::from(*name)).collect();
        put("writeback", (every > 0).then_some(Value::Array(steps)));
        put("flush-after-reads", self.flushes.after_reads.then_some(Value::Boolean(true)));
        put("flush-after-last", (full + data + every > 0 && !self.flushes.after_last).then_some(Value::Boolean(false)));
        put("flush-alone", self.flushes.alone.then_some(Value::Boolean(true)));
        put("flush-at-end", self.flush_at_end.then_some(Value::Boolean(true)));
        table
    }
}

/// A step of a writeback.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Step {
    WaitBefore,
    Write,
    WaitAfter,
}

/// `[[device]]` as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct FileDescribed {
    #[serde(default)]
    files: Vec<PathBuf>,
    null: Option<Spanned<Bytes>>,
    chunk: Option<Spanned<Bytes>>,
    make: Option<Spanned<Bytes>>,
    #[serde(default)]
    filled: bool,
    refresh: Option<Spanned<Bytes>>,
    #[serde(default)]
    advice: Advice,
    mode: Option<Mode>,
    #[serde(default, with = "maybe_engine")]
    engine: Option<Option<Engine>>,
    cache: Option<Cache>,
    #[serde(default)]
    durable: bool,
    #[serde(default)]
    flush_every: u32,
    #[serde(default)]
    fsync_every: u32,
    #[serde(default)]
    writeback_every: u32,
    writeback: Option<Vec<Step>>,
    #[serde(default)]
    flush_after_reads: bool,
    flush_after_last: Option<bool>,
    #[serde(default)]
    flush_alone: bool,
    #[serde(default)]
    flush_at_end: bool,
}

impl FileDescribed {
    /// The device, opened as `io` says where it says nothing.
    pub fn check(given: Spanned<FileDescribed>, source: &Source, io: Io) -> Result<Described, SourceError> {
        let place = given.span();
        let given = given.into_inner();
        let above_zero = |what: &str, size: &Option<Spanned<Bytes>>| match size {
            Some(size) if size.get_ref().is_zero() => {
                Err(source.error(size.span(), format!("`{what}` must be above zero")))
            }
            size => Ok(size.as_ref().map(|size| *size.get_ref())),
        };
        let (null, chunk, make) =
            (above_zero("null", &given.null)?, above_zero("chunk", &given.chunk)?, above_zero("make", &given.make)?);
        let refresh = above_zero("refresh", &given.refresh)?;
        if given.files.is_empty() == null.is_none() {
            let help = "files = [\"data.bin\"], or null = \"1 GiB\" for a device that does nothing";
            return Err(source.error(place, "a device has either files or none").help(help));
        }
        let io = Io {
            mode: given.mode.unwrap_or(io.mode),
            engine: given.engine.unwrap_or(io.engine),
            cache: given.cache.unwrap_or(io.cache),
            ..io
        };
        let (durable, flush_at_end) = (given.durable, given.flush_at_end);
        if given.writeback.as_ref().is_some_and(|steps| steps.is_empty() || given.writeback_every == 0) {
            let help = "writeback-every = 8, and writeback = [\"wait-before\", \"write\"]";
            return Err(source.error(place, "`writeback` has steps, and `writeback-every` beside it").help(help));
        }
        let steps = given.writeback.unwrap_or(vec![Step::Write]);
        let writeback = Writeback {
            wait_before: steps.contains(&Step::WaitBefore),
            write: steps.contains(&Step::Write),
            wait_after: steps.contains(&Step::WaitAfter),
        };
        let flushes = match (given.fsync_every, given.flush_every, given.writeback_every) {
            (0, 0, 0) => Flushes::NONE,
            (full, data, every) => Flushes {
                full,
                data,
                range: (every, if every > 0 { writeback } else { Writeback::default() }),
                after_reads: given.flush_after_reads,
                after_last: given.flush_after_last.unwrap_or(true),
                alone: given.flush_alone,
            },
        };
        let (filled, advice) = (given.filled, given.advice);
        Ok(Described {
            files: given.files,
            null,
            chunk,
            make,
            grows: None,
            filled,
            refresh,
            advice,
            io,
            durable,
            flushes,
            flush_at_end,
        })
    }
}

/// An engine's name, or `auto`, or nothing at all.
mod maybe_engine {
    use serde::{Deserialize, Deserializer, de::Error};
    use uring::Engine;

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<Engine>>, D::Error> {
        match &*String::deserialize(deserializer)? {
            "auto" => Ok(Some(None)),
            name => name
                .parse()
                .map(|engine| Some(Some(engine)))
                .map_err(|error| D::Error::custom(format_args!("{error}, or auto"))),
        }
    }
}

/// Paths that are written: those of devices on which a stream writes.
pub fn written_paths(experiment: &crate::Experiment) -> Vec<&Path> {
    let writes =
        |index: usize| experiment.streams.iter().any(|plan| plan.stream.mix.has_writes() && plan.runs_on(index));
    let devices = experiment.devices.iter().enumerate().filter(|(index, _)| writes(*index));
    let mut paths: Vec<&Path> = devices.flat_map(|(_, device)| device.files.iter().map(PathBuf::as_path)).collect();
    paths.sort();
    paths.dedup();
    paths
}
