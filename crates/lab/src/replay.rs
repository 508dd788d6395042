//! A trace as an experiment: which device of it goes where, at what speed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use machine::disk::mechanism::Access;
use machine::disk::trace::{TraceError, parse};
use record::{Asked, Asking, ImportError, Operation, RunFolder, TableError, TraceFormat, TraceText, Wanted, asked};
use units::{Bytes, Duration, Frequency, Ratio};
use workload::{Arrivals, Ask, Due, Flushes, Limits, Load, Mix, OnError, Pattern, Region, Script, Sizes, Stream};

use crate::experiment::{Experiment, StreamPlan, Through};
use crate::jobs::target_size;
use crate::target::Target;

/// How a trace is replayed.
#[derive(Debug, Clone, PartialEq)]
pub struct How {
    /// How much faster than it was recorded; nothing for as fast as possible.
    pub speed: Option<f64>,
    /// At most so many requests of a device are under way.
    pub outstanding: u32,
    /// Requests are rounded outward to whole blocks of this.
    pub block: Bytes,
    /// What lies beyond the end of a device goes round to its beginning.
    pub wrap: bool,
    /// Errors are counted, and the replay goes on.
    pub go_on: bool,
}

/// A trace, ready to be replayed.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What it comes to.
    pub experiment: Experiment,
    /// Devices of the trace, by name, and how many requests each has.
    pub devices: Vec<(String, u64)>,
    /// How long it takes at its own speed.
    pub length: Duration,
    /// Requests that were made larger, to whole blocks.
    pub rounded: u64,
    /// Requests that were moved, as they lay beyond the end.
    pub wrapped: u64,
    /// What a reader of the results should know of the trace.
    pub remarks: Vec<String>,
}

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum ReplayError {
    #[error(transparent)]
    Import(#[from] ImportError),
    #[error(transparent)]
    DiskSim(#[from] TraceError),
    #[error(transparent)]
    Folder(#[from] record::FolderError),
    #[error(transparent)]
    Table(#[from] TableError),
    #[error(transparent)]
    Raw(#[from] record::RawError),
    #[error("{}: {source}; name a trace, a run folder or a records.parquet", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}: this is no text; give what `blkparse` prints of a binary trace", .0.display())]
    NotText(PathBuf),
    #[error("the trace has {} devices ({}), and {targets} are given; give one for all, or one for each in this order", names.len(), names.join(", "))]
    Devices { names: Vec<String>, targets: usize },
    #[error(
        "{} requests of the trace lie beyond the end of {target}, the first at {offset:#} of {size:#}; take a larger device, or --wrap",
        count
    )]
    BeyondEnd { count: u64, target: Target, offset: Bytes, size: Bytes },
    #[error("the size of {target} is not known before it is opened; replay without --wrap")]
    UnknownSize { target: Target },
    #[error("{}: {source}", target)]
    Unreadable { target: Target, source: std::io::Error },
    #[error("the trace has a request of {length:#}, which {target} of {size:#} does not hold; take a larger device")]
    TooLarge { target: Target, length: Bytes, size: Bytes },
}

/// Reads traces: texts of a known format, DiskSim's traces of validation, run folders and their records.
pub fn read(paths: &[PathBuf], format: Option<TraceFormat>) -> Result<Asked, ReplayError> {
    let mut texts = Vec::new();
    let mut whole = Asking::default();
    for path in paths {
        if path.is_dir() || path.extension().is_some_and(|extension| extension == "parquet") {
            records(path, &mut whole)?;
            continue;
        }
        let bytes = std::fs::read(path).map_err(|source| ReplayError::Read { path: path.clone(), source })?;
        let text = String::from_utf8(bytes).map_err(|_| ReplayError::NotText(path.clone()))?;
        texts.push((path.display().to_string(), text));
    }
    let mut plain = Vec::new();
    for (name, text) in &texts {
        match format {
            None if is_validation(text) => validation(name, text, &mut whole)?,
            _ => plain.push(TraceText { name, text }),
        }
    }
    if !plain.is_empty() {
        whole.append(asked(&plain, format)?)?;
    }
    Ok(whole.finish()?)
}

/// What a run of ours asked for.
fn records(path: &Path, whole: &mut Asking) -> Result<(), ReplayError> {
    let take =
        |rows: &[record::Row], names: &[String], whole: &mut Asking| Ok::<(), ReplayError>(whole.rows(rows, names)?);
    if path.is_dir() {
        let (folder, _) = RunFolder::open(path)?;
        let (mut records, meta) = folder.records()?;
        return records.visit(|rows| take(rows, &meta.labels.devices, whole));
    }
    let (mut reader, meta) = record::RowReader::open(path)?;
    reader.visit(|rows| take(rows, &meta.labels.devices, whole))
}

/// Six columns, of which the first is a letter.
fn is_validation(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
    first.is_some_and(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        words.len() == 6 && ["R", "W", "r", "w"].contains(&words[0]) && words[2].parse::<u64>().is_ok()
    })
}

/// A trace of DiskSim's validation: one request after the other, each so long after the completion of the last.
fn validation(name: &str, text: &str, whole: &mut Asking) -> Result<(), ReplayError> {
    let mut at = Duration::ZERO;
    for measured in parse(name, text, u64::MAX)? {
        let operation = match measured.access {
            Access::Read => Operation::Read,
            _ => Operation::Write,
        };
        let (offset, length) = (measured.block.saturating_mul(512), measured.blocks.saturating_mul(512));
        let line = measured.line as usize;
        whole.push(name, at, operation, offset, length).map_err(|what| ImportError::Line {
            file: name.to_owned(),
            line,
            what,
        })?;
        let next = at.as_nanos().saturating_add((measured.response + measured.think).as_nanos());
        at = Duration::nanos(next);
    }
    Ok(())
}

/// The experiment that replays a trace on targets.
pub fn plan(name: &str, trace: &Asked, on: &[Target], how: &How) -> Result<Plan, ReplayError> {
    let counts =
        |index: usize| trace.requests.iter().filter(|wanted| usize::from(wanted.device) == index).count() as u64;
    let devices: Vec<(String, u64)> =
        trace.devices.iter().enumerate().map(|(index, name)| (name.clone(), counts(index))).collect();
    if on.len() != 1 && on.len() != devices.len() {
        return Err(ReplayError::Devices { names: trace.devices.clone(), targets: on.len() });
    }
    let length = trace.requests.last().map_or(Duration::ZERO, |wanted| wanted.at);
    let mut experiment = Experiment::empty(name.to_owned());
    experiment.run.on_error = if how.go_on { OnError::Continue } else { OnError::Stop };
    let remarks = trace.remarks.clone();
    let mut plan = Plan { experiment, devices, length, rounded: 0, wrapped: 0, remarks };
    for (index, target) in on.iter().enumerate() {
        let mine = trace.requests.iter().filter(|wanted| on.len() == 1 || usize::from(wanted.device) == index);
        let mine: Vec<Wanted> = mine.copied().collect();
        plan.add(index, target, &mine, how)?;
    }
    Ok(plan)
}

impl Plan {
    fn add(&mut self, index: usize, target: &Target, mine: &[Wanted], how: &How) -> Result<(), ReplayError> {
        let size = target_size(target).map_err(|source| ReplayError::Unreadable { target: target.clone(), source })?;
        let size = size.map(|size| size.round_down(how.block));
        let (mut dues, mut beyond) = (Vec::with_capacity(mine.len()), None);
        for wanted in mine {
            let mut ask = Ask { operation: wanted.operation, offset: wanted.offset, length: wanted.length };
            if wanted.operation != Operation::Flush {
                ask.offset = wanted.offset.round_down(how.block);
                ask.length = (wanted.offset + wanted.length - ask.offset).round_up(how.block);
                self.rounded += u64::from(ask.length != wanted.length);
                if let Some(size) = size.filter(|size| ask.offset + ask.length > *size) {
                    if ask.length > size {
                        return Err(ReplayError::TooLarge { target: target.clone(), length: ask.length, size });
                    }
                    let (_, count) = beyond.get_or_insert((ask.offset, 0u64));
                    *count += 1;
                    // The remainder may be too near the end; then it goes as far back as it must.
                    ask.offset = Bytes::new(ask.offset.get() % size.get()).min(size - ask.length);
                }
            }
            let at = how.speed.map_or(Duration::ZERO, |speed| wanted.at.scale(1.0 / speed));
            dues.push(Due { at, ask });
        }
        match (beyond, size, how.wrap) {
            (Some((offset, count)), Some(size), false) => {
                return Err(ReplayError::BeyondEnd { count, target: target.clone(), offset, size });
            }
            (_, None, true) => return Err(ReplayError::UnknownSize { target: target.clone() }),
            (beyond, _, _) => self.wrapped += beyond.map_or(0, |(_, count)| count),
        }
        let script = Script {
            timed: how.speed.is_some(),
            outstanding: how.outstanding,
            // Under the virtual clock nobody is woken late, and nobody who stays awake lets time pass.
            awake: if target.is_simulated() { Duration::ZERO } else { AWAKE },
            dues,
        };
        self.experiment.streams.push(described(&script, index));
        let plan = self.experiment.streams.last_mut().expect("it was pushed");
        plan.script = Some(Arc::new(script));
        Ok(())
    }
}

/// So long before a request is due its lane stays awake: more than the 50 us of slack that the kernel gives a timer,
/// and what a wake-up takes.
const AWAKE: Duration = Duration::micros(120);

/// What a script asks, in the words of a stream: for its checks, its memory, and whoever reads of it.
fn described(script: &Script, index: usize) -> StreamPlan {
    let mut sizes: BTreeMap<Bytes, u32> = BTreeMap::new();
    let (mut reads, mut end) = (0u64, Bytes::ZERO);
    for Due { ask, .. } in &script.dues {
        // What moves nothing needs no memory, however long.
        if matches!(ask.operation, Operation::Read | Operation::Write) {
            let count = sizes.entry(ask.length).or_default();
            *count = count.saturating_add(1);
        }
        reads += u64::from(ask.operation == Operation::Read);
        end = end.max(ask.offset + ask.length);
    }
    let count = script.dues.len().max(1) as f64;
    let mix = Mix { reads: Ratio::new(reads as f64 / count) };
    let seconds = script.dues.last().map_or(0.0, |due| due.at.as_seconds()).max(1e-9);
    let sizes = Sizes::weighted(sizes).unwrap_or_else(|| Sizes::fixed(Bytes::SECTOR));
    let name = format!("trace-{index}");
    let mut stream = Stream::closed(name, mix, Pattern::Random, Bytes::SECTOR, 1);
    stream.sizes = sizes;
    stream.region = Region { start: Bytes::ZERO, length: Some(end.max(stream.largest())) };
    let arrivals = Arrivals::Constant(Frequency::per_second(count / seconds));
    stream.load = Load::Open { arrivals, outstanding: script.outstanding };
    stream.limits = Limits { requests: Some(script.dues.len() as u64), stop: true, ..Limits::NONE };
    StreamPlan {
        stream,
        on: Some(vec![index]),
        rate_limit: None,
        rates: [None; 2],
        through: Through::Device,
        script: None,
        flushes: Flushes::NONE,
    }
}
