//! Running one point of an experiment, whatever the clock.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use analysis::Advice;
use analysis::surroundings::Surroundings;
use analysis::survey::Processors;
use analysis::{Series, Summarizer, Summary};
use host::Kernel;
use host::environment::Memory;
use host::guard::WritePermit;
use record::{
    Clock, Keeping, Labels, Meta, RecordError, Recorder, Recording, Row, RunFolder, SpanLog, Spill, WhenBehind,
};
use units::{Bytes, Duration, Frequency, Instant, Ratio};
use uring::Choice;
use workload::{Searched, StreamError};

use crate::experiment::{Experiment, StreamPlan, Through};
use crate::hosts::Together;
use crate::modelled::Modelled;
use crate::pass::Failure;
use crate::pulse::Beat;
use crate::slow::Slow;
use crate::steady::Rounds;
use crate::target::{self, Target};
use crate::timeline::{Timeline, timeline};
use crate::verification::Verified;
use crate::{advice, live, modelled, simulated, surroundings};

/// What a run needs besides its experiment and its targets.
pub struct Ways<'a> {
    /// Paths that may be written, with the permit to do so. Others are opened for reading only.
    pub permits: &'a HashMap<PathBuf, WritePermit>,
    /// Memory granted for the record of requests.
    pub record_memory: Bytes,
    /// The folder of the run: where records go that do not fit into that memory, and what is to survive a kill. Without
    /// it rows beyond the memory are lost and counted.
    pub folder: Option<&'a RunFolder>,
    /// Set from outside to end the run early; what was recorded is kept.
    pub interrupted: &'a AtomicBool,
    /// Shown how far the run is, about ten times a second.
    pub progress: &'a dyn Progress,
    /// The other ranks, if this is one of several.
    pub party: Option<&'a dyn Party>,
}

/// The other ranks of a run on several hosts, as the threads of one rank see them.
pub trait Party: Sync {
    /// Waits until every rank is at the beginning of this pass, and gives the common instant at which it begins; `None`
    /// if the run is over.
    fn start(&self, pass: u16) -> Option<std::time::Instant>;
    /// Tells the others that the run ends here, before its time. May be told several times.
    fn end_early(&self);
    /// Whether some rank said so, or is lost.
    fn ended_early(&self) -> bool;
}

/// Shows how far a run is.
pub trait Progress: Sync {
    /// Called now and then.
    fn tick(&self, tick: &Tick);
    /// Called before the first request with what a reader must know while the run goes on.
    fn warn(&self, _warning: &str) {}
}

/// How far a run is.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// Time since the run began.
    pub elapsed: Duration,
    /// How long all passes take together, if only time ends them.
    pub whole: Option<Duration>,
    /// Completed requests.
    pub requests: u64,
    /// Bytes moved; of a copy, those that are written.
    pub bytes: Bytes,
    /// Failed requests.
    pub errors: u64,
    /// What each device has done.
    pub devices: Vec<Beat>,
    /// The share of the last moment that the busiest load thread spent on a processor.
    pub generator: Ratio,
}

impl Tick {
    /// Of what each device has done.
    pub fn of(elapsed: Duration, whole: Option<Duration>, devices: Vec<Beat>, generator: Ratio) -> Tick {
        Tick {
            elapsed,
            whole,
            requests: devices.iter().map(|beat| beat.requests + beat.errors).sum(),
            bytes: devices.iter().map(|beat| beat.bytes).sum(),
            errors: devices.iter().map(|beat| beat.errors).sum(),
            devices,
            generator,
        }
    }
}

/// Shows nothing.
pub struct Silent;

impl Progress for Silent {
    fn tick(&self, _: &Tick) {}
}

/// Why a run did not start.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum RunError {
    #[error(transparent)]
    Rank(#[from] crate::hosts::Trouble),
    #[error("there is nothing to run on; name devices with --on PATH,PATH,..., or a modelled machine in [system]")]
    NoTargets,
    #[error(
        "the experiment runs on the modelled machine '{system}', and devices were given, too; leave out --on, or [system]"
    )]
    SystemAndTargets { system: String },
    #[error(
        "the experiment describes its own devices ([[device]]), and others were given, too; leave out --on, or them"
    )]
    DevicesAndTargets,
    #[error("{first} exists in virtual time and {second} in real time; run them apart")]
    MixedWorlds { first: Target, second: Target },
    #[error(
        "stream '{stream}' runs on device {device}, but only {given} are given (they count from 0); give more, or change `on`"
    )]
    NoSuchDevice { stream: String, device: usize, given: usize },
    #[error(
        "stream '{stream}' goes through files, and {target} is none; name a directory with --on, in which one is made (`arraylab run`), or say `files` in [[device]]"
    )]
    NoFile { stream: String, target: Target },
    #[error("run.devices is {wanted}, but only {given} are given; give more with --on, or lower run.devices")]
    TooFewDevices { wanted: usize, given: usize },
    #[error("no stream runs on {target}; leave it out, or change `on`")]
    Idle { target: Target },
    #[error(
        "the requests that may be under way need {needed} of memory, and {available} can be had; lower `depth`, `outstanding` or `size`"
    )]
    TooMuchMemory { needed: Bytes, available: Bytes },
    #[error(
        "{target} cannot be made anew for a pass, as file = \"absent\" asks: {source}; name a directory that can be written"
    )]
    NotAnew { target: Target, source: std::io::Error },
    #[error("{target} begins anew with each run, so nothing can be written before it; leave out [precondition]")]
    BeginsAnew { target: Target },
    #[error("preconditioning of {target} failed: {error}")]
    Precondition { target: Target, error: device::DeviceError },
    #[error(
        "in virtual time no request goes through the kernel, so there is nothing to trace; leave out --trace (run.trace): a modelled machine keeps spans of its own (system.spans)"
    )]
    NothingToTrace,
    #[error(
        "[[slow]] names device {device}, but only {given} are given (they count from 0); give more, or change `device`"
    )]
    NothingSlow { device: usize, given: usize },
    #[error(
        "the parts of a modelled machine are made slower by their values (--set NODE.VALUE=...), not by [[slow]]; leave it out"
    )]
    SlowModel,
    #[error("in virtual time the generator takes no time, and is not held up; leave out [[slow]] with `generator`")]
    SlowGenerator,
    #[error(
        "{target} stores no bytes, so there is nothing to verify; leave out `verify`, or take a file, a device or memory:SIZE"
    )]
    NothingStored { target: Target },
    #[error("{} is named twice; two streams on one device go into one experiment", target)]
    NamedTwice { target: Target },
    #[error(
        "no thread could be started for the load: {0}; lower the load of the machine or raise its limit (ulimit -u)"
    )]
    Thread(std::io::Error),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error(transparent)]
    Library(#[from] machine::library::LibraryError),
    #[error(transparent)]
    Part(#[from] machine::part::PartError),
    #[error(transparent)]
    Entry(#[from] machine::entry::EntryError),
    #[error(transparent)]
    Open(#[from] uring::OpenError),
    #[error(transparent)]
    Client(#[from] nbd::ClientError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("the records cannot be read back: {0}")]
    Records(#[from] record::RawError),
}

/// What the passes of a run came to, besides its records.
#[derive(Debug, Default)]
pub struct Conclusion {
    /// By device: the engine that carried requests out and why, where there was a choice.
    pub engines: Vec<Option<Choice>>,
    /// By device: how much it stores.
    pub sizes: Vec<Bytes>,
    /// By stream that searched for a depth: what that came to.
    pub searched: Vec<(usize, Searched)>,
    /// When each stream was over on each of its devices, by stream: it reached its limits, or was ended.
    pub over: Vec<(usize, Instant)>,
    /// Files that were read although their medium does not store all of them, with the share that it does not.
    pub hollow: Vec<(String, Ratio)>,
    /// First errors, by stream and device.
    pub failures: Vec<Failure>,
    /// Requests that never completed.
    pub abandoned: u64,
    /// Arrivals of open loops that were due but never issued.
    pub unserved: u64,
    /// Sectors that pipelined streams read to announce their requests. They have no rows.
    pub announced: u64,
    /// Processors while counting, and the busiest thread of the generator; nothing for simulated runs.
    pub processors: Option<(Processors, Ratio)>,
    /// What else the machine did while requests counted; nothing for simulated runs.
    pub surroundings: Option<Surroundings>,
    /// Processor time while counting, of this process and of all kernel threads.
    pub processor_time: (Duration, Duration),
    /// How the passes became steady, if that was asked for. What is counted is of the window.
    pub rounds: Option<Rounds>,
    /// The devices on which something was read that was not written there.
    pub mismatched: Vec<usize>,
    /// What verification came to, on each device of which a stream verifies.
    pub verified: Vec<Verified>,
    /// That of this process, in user mode and in the kernel.
    pub own_time: [Duration; 2],
    /// By load thread: the devices that it loaded, and what it took for that from the machine.
    pub used: Vec<(Vec<usize>, report::Used)>,
    /// What the block devices below the targets did, whoever asked them.
    pub disks: Vec<report::DiskUse>,
    /// The run was ended early.
    pub interrupted: bool,
    /// When each pass began; nothing for simulated runs.
    pub begins: Vec<Instant>,
    /// By how much a load thread came late to the beginning of a pass at most.
    pub late: Duration,
    /// What ranks on several hosts did together.
    pub hosts: Option<Together>,
    /// The care that was asked for and what became of it; what else the kernel refused that only costs precision or
    /// speed, and what would help.
    pub remarks: Vec<String>,
    /// What a modelled machine did; nothing for other devices.
    pub modelled: Option<Modelled>,
    /// The way of requests through the kernel, where it was traced.
    pub timeline: Option<Timeline>,
    /// The events of the kernel, until the rows are there to join them to.
    pub(crate) traced: Option<live::Traced>,
}

impl Conclusion {
    /// The spans of requests, wherever they come from.
    pub fn spans(&self) -> Option<&SpanLog> {
        let modelled = self.modelled.as_ref().and_then(|modelled| modelled.spans.as_ref());
        modelled.or(self.timeline.as_ref().map(|timeline| &timeline.spans))
    }
}

/// A run that has been made.
#[derive(Debug)]
pub struct Outcome {
    /// Labels of the records.
    pub meta: Meta,
    /// Every request.
    pub recording: Recording,
    /// What it came to.
    pub summary: Summary,
    /// What was done in each second, by device.
    pub series: Series,
    /// What all open loops offered together, those of all ranks.
    pub offered: Option<Frequency>,
    /// What else there is to say.
    pub conclusion: Conclusion,
    /// What about it should not be trusted, and which option to change.
    pub advice: Vec<Advice>,
}

/// What was recorded of a run, before anything is made of it.
#[derive(Debug)]
pub(crate) struct Made {
    pub meta: Meta,
    pub recording: Recording,
    pub conclusion: Conclusion,
}

/// Runs one point of an experiment.
pub fn run(name: &str, experiment: &Experiment, targets: &[Target], ways: &Ways) -> Result<Outcome, RunError> {
    conclude(experiment, make(name, experiment, targets, ways)?)
}

/// Makes the run and keeps its records.
pub(crate) fn make(name: &str, experiment: &Experiment, targets: &[Target], ways: &Ways) -> Result<Made, RunError> {
    let own = experiment.own_targets();
    let targets = match (&own, &experiment.system) {
        (Some(own), _) if targets.is_empty() || targets == own => own,
        (Some(_), Some(system)) => return Err(RunError::SystemAndTargets { system: system.name.clone() }),
        (Some(_), None) => return Err(RunError::DevicesAndTargets),
        (None, _) => targets,
    };
    enough_devices(experiment, targets)?;
    let targets = &targets[..experiment.run.devices.map_or(targets.len(), |most| most.min(targets.len()))];
    let simulated = world(targets)?;
    fit(experiment, targets)?;
    if !simulated {
        memory(experiment, targets.len())?;
    } else if experiment.run.trace {
        return Err(RunError::NothingToTrace);
    }
    held_up(experiment, targets, simulated)?;
    let before = precondition(name, experiment, targets, ways)?;
    let hollow = hollow(experiment, targets);
    for (name, share) in &hollow {
        ways.progress.warn(&analysis::hollow(name, *share));
    }
    let labels = Labels {
        streams: experiment.streams.iter().map(|plan| plan.stream.name.clone()).collect(),
        devices: target::names(targets),
    };
    let clock = if simulated { Clock::Simulated } else { Clock::Live };
    let meta = Meta { run: name.to_owned(), clock, origin: (!simulated).then(SystemTime::now), labels: labels.clone() };
    let rows = expected_rows(experiment, targets.len());
    let spill = match ways.folder.map(RunFolder::raw_path) {
        None => Spill::Never,
        // A rank that vanishes takes little with it, and so does a long run that is killed.
        Some(path) if !simulated && (ways.party.is_some() || is_long(experiment, rows)) => Spill::AsYouGo(path),
        Some(path) => Spill::WhenFull(path),
    };
    let keeping = Keeping {
        // Memory whose rows go to disk as they come serves again and again.
        expected_rows: if matches!(spill, Spill::AsYouGo(_)) { 0 } else { rows },
        memory: ways.record_memory,
        spill,
        when_behind: if simulated { WhenBehind::Wait } else { WhenBehind::Lose },
    };
    let threads = if simulated { 1 } else { live::threads(targets.len(), experiment) };
    let (recorder, mut logs) = Recorder::start(&keeping, &meta, threads)?;
    let mut one_log = || logs.pop().expect("one log was asked for");
    let conclusion = match &experiment.system {
        Some(system) => modelled::run(experiment, system, ways, one_log()),
        None if simulated => simulated::run(experiment, targets, ways, one_log()),
        None => live::run(experiment, targets, ways, logs),
    }?;
    let mut conclusion: Conclusion = conclusion;
    conclusion.remarks.splice(0..0, before);
    let said = experiment.slow.iter().map(|slow| format!("held up on purpose: {}", slow.said(&labels.devices)));
    conclusion.remarks.extend(said);
    if let Some(around) = &mut conclusion.surroundings {
        surroundings::complete(around, experiment, targets, &hollow);
    }
    conclusion.hollow = hollow;
    let mut recording = recorder.finish();
    for (stream, searched) in &conclusion.searched {
        if let Some(from) = searched.from {
            recording.count_from(*stream as u16, from);
        }
        let name = &experiment.streams[*stream].stream.name;
        conclusion.remarks.push(searched_for(name, searched));
    }
    if let Some(traced) = conclusion.traced.take() {
        let timeline = timeline(traced, &recording, &meta.labels.devices)?;
        conclusion.remarks.extend(timeline.remarks());
        conclusion.timeline = Some(timeline);
    }
    Ok(Made { meta, recording, conclusion })
}

/// What a search for a depth came to, in words.
fn searched_for(name: &str, Searched { depth, from }: &Searched) -> String {
    match from {
        Some(_) => {
            format!("[{name}] searched for the deepest queue within its latency and found {depth}, which counts")
        }
        None => format!("[{name}] was at a depth of {depth} when its search for a latency ended, and found none"),
    }
}

/// Refuses an experiment that wants more devices than it has itself or than are given: on fewer it would be another
/// one.
pub fn enough_devices(experiment: &Experiment, given: &[Target]) -> Result<(), RunError> {
    let given = experiment.own_targets().map_or(given.len(), |own| own.len());
    match experiment.run.devices {
        Some(wanted) if wanted > given && given > 0 => Err(RunError::TooFewDevices { wanted, given }),
        _ => Ok(()),
    }
}

/// Whether what is to be held up is there, and can be.
fn held_up(experiment: &Experiment, targets: &[Target], simulated: bool) -> Result<(), RunError> {
    for slow in &experiment.slow {
        match slow {
            _ if experiment.system.is_some() => return Err(RunError::SlowModel),
            Slow::Device { device, .. } if *device >= targets.len() => {
                return Err(RunError::NothingSlow { device: *device, given: targets.len() });
            }
            Slow::Generator(_) if simulated => return Err(RunError::SlowGenerator),
            Slow::Device { .. } | Slow::Generator(_) => {}
        }
    }
    Ok(())
}

/// What the records of a run say.
pub(crate) fn conclude(experiment: &Experiment, made: Made) -> Result<Outcome, RunError> {
    let Made { meta, recording, conclusion } = made;
    let labels = &meta.labels;
    let mut summarizer = Summarizer::new(labels);
    let first = conclusion.rounds.as_ref().map_or(0, Rounds::first_pass);
    let mut series = Series::new(Duration::seconds(1), labels.devices.len());
    recording.visit(|rows| {
        summarizer.add(&since(rows, first));
        series.add(rows);
        Ok::<(), record::RawError>(())
    })?;
    let mut summary = summarizer.summary();
    summary.hosts = conclusion.hosts.as_ref().map_or(Vec::new(), |hosts| summarizer.by_host(&hosts.hosts()));
    let advice = advice::on(experiment, &conclusion.sizes, &summarizer, &summary, &recording, &conclusion)?;
    let offered = experiment.offered(labels.devices.len());
    Ok(Outcome { meta, summary, series, offered, recording, conclusion, advice })
}

/// Those of the passes from `first` on, which count as passes from 0 on. Passes do not overlap, and rows come in order
/// of time.
pub(crate) fn since(rows: &[Row], first: u16) -> Cow<'_, [Row]> {
    if first == 0 {
        return Cow::Borrowed(rows);
    }
    let later = &rows[rows.partition_point(|row| row.pass < first)..];
    Cow::Owned(later.iter().map(|row| Row { pass: row.pass - first, ..*row }).collect())
}

/// Writes what is to be written before the first pass, and says what was done.
fn precondition(
    name: &str,
    experiment: &Experiment,
    targets: &[Target],
    ways: &Ways,
) -> Result<Option<String>, RunError> {
    let Some(precondition) = experiment.precondition else { return Ok(None) };
    if let Some(target) = targets.iter().find(|target| target.is_simulated()) {
        return Err(RunError::BeginsAnew { target: target.clone() });
    }
    let started = std::time::Instant::now();
    // Its rows are for nobody, so it has memory for a few.
    let Ways { permits, interrupted, progress, .. } = *ways;
    let ways = Ways { permits, record_memory: Bytes::mib(16), folder: None, interrupted, progress, party: None };
    let outcome = run(name, &precondition.experiment(experiment), targets, &ways)?;
    if let Some(failure) = outcome.conclusion.failures.into_iter().next() {
        return Err(RunError::Precondition { target: targets[failure.device].clone(), error: failure.error });
    }
    let took = Duration::nanos(started.elapsed().as_nanos() as u64);
    Ok(Some(format!(
        "preconditioned: what the streams use was written through before the first pass ({} x, in {took})",
        precondition.laps
    )))
}

/// A file with fewer holes than this is measured as good as whole.
pub(crate) const HOLLOW: f64 = 0.01;

/// The files that a stream reads, and of which the medium does not store all: names, and the share that it does not. A
/// file that cannot be looked at will be refused when it is opened.
fn hollow(experiment: &Experiment, targets: &[Target]) -> Vec<(String, Ratio)> {
    let is_read =
        |device: usize| experiment.streams.iter().any(|plan| plan.runs_on(device) && plan.stream.mix.has_reads());
    let read = targets.iter().enumerate().filter(|(device, _)| is_read(*device));
    let paths = read.filter_map(|(_, target)| match target {
        Target::Path(path) => Some(path),
        _ => None,
    });
    let share = |path: &PathBuf| {
        let share = host::hollow::Hollow::find(path).ok()?.share();
        (share.get() > HOLLOW).then(|| (path.display().to_string(), share))
    };
    paths.filter_map(share).collect()
}

/// True if all targets are simulated, false if none is.
fn world(targets: &[Target]) -> Result<bool, RunError> {
    let first = targets.first().ok_or(RunError::NoTargets)?;
    for (index, target) in targets.iter().enumerate() {
        if target.is_simulated() != first.is_simulated() {
            return Err(RunError::MixedWorlds { first: first.clone(), second: target.clone() });
        }
        if matches!(target, Target::Path(_) | Target::Nbd(_)) && targets[..index].contains(target) {
            return Err(RunError::NamedTwice { target: target.clone() });
        }
    }
    Ok(first.is_simulated())
}

/// Every stream finds its devices and every device a stream.
fn fit(experiment: &Experiment, targets: &[Target]) -> Result<(), RunError> {
    let given = targets.len();
    for plan in &experiment.streams {
        if let Some(&device) = plan.on.iter().flatten().find(|device| **device >= given) {
            return Err(RunError::NoSuchDevice { stream: plan.stream.name.clone(), device, given });
        }
    }
    let stores = |target: &Target| match target {
        Target::Path(_) | Target::Nbd(_) | Target::Memory { .. } => true,
        Target::Described(described) => described.null.is_none(),
        Target::Part { .. } | Target::Modelled { .. } | Target::Null { .. } => false,
    };
    for (device, target) in targets.iter().enumerate().filter(|(_, target)| !stores(target)) {
        if experiment.streams.iter().any(|plan| plan.stream.verify.is_some() && plan.runs_on(device)) {
            return Err(RunError::NothingStored { target: target.clone() });
        }
    }
    let is_file = |target: &Target| matches!(target, Target::Described(described) if !described.files.is_empty());
    for (device, target) in
        targets.iter().enumerate().filter(|(_, target)| experiment.system.is_none() && !is_file(target))
    {
        let goes = |plan: &&StreamPlan| plan.through != Through::Device && plan.runs_on(device);
        if let Some(plan) = experiment.streams.iter().find(goes) {
            return Err(RunError::NoFile { stream: plan.stream.name.clone(), target: target.clone() });
        }
    }
    match experiment.by_device(given).iter().position(Vec::is_empty) {
        Some(idle) => Err(RunError::Idle { target: targets[idle].clone() }),
        None => Ok(()),
    }
}

/// Refuses what the machine has no memory for, before the kernel ends the process for it. The record takes none of its
/// memory from that: what it holds already is no longer available.
fn memory(experiment: &Experiment, devices: usize) -> Result<(), RunError> {
    let Some(available) = Memory::read(&Kernel::running()).available else { return Ok(()) };
    let needed: u64 = experiment
        .streams
        .iter()
        .map(|plan| {
            let places = u64::from(plan.stream.lanes()) * plan.on.as_ref().map_or(devices, Vec::len) as u64;
            // A verifying stream has memory of its own to write from.
            let each = if plan.stream.verify.is_some() && plan.stream.mix.has_writes() { 2 } else { 1 };
            plan.stream.largest().get().saturating_mul(places * each)
        })
        .fold(0, u64::saturating_add);
    let needed = Bytes::new(needed);
    if needed > available { Err(RunError::TooMuchMemory { needed, available }) } else { Ok(()) }
}

/// Whether a kill would take away what is not made again in a minute. The rows of shorter runs stay in memory, where
/// they disturb no disk.
fn is_long(experiment: &Experiment, expected_rows: u64) -> bool {
    const SHORT: Duration = Duration::seconds(60);
    /// A minute of a device of twenty thousand requests a second.
    const FEW: u64 = 1_200_000;
    match experiment.run.whole() {
        Some(time) => time >= SHORT,
        None => expected_rows == 0 || expected_rows > FEW,
    }
}

/// Rows for which memory is made ready before the run: what limits say, or what fast devices may make in the time.
fn expected_rows(experiment: &Experiment, devices: usize) -> u64 {
    /// Requests a second for which memory is ready: flash drives on a small machine. More is made ready while the run
    /// goes on.
    const READY_FOR: f64 = 300_000.0;
    /// A described machine of disks does not make so many.
    const MODELLED: f64 = 2_000.0;
    let run = &experiment.run;
    let ready_for = if experiment.system.is_some() { MODELLED } else { READY_FOR };
    let seats = experiment.streams.iter().map(|plan| plan.on.as_ref().map_or(devices, Vec::len) as u64);
    let by_count = experiment.streams.iter().zip(seats).map(|(plan, seats)| Some(plan.stream.limits.requests? * seats));
    let by_count = by_count.sum::<Option<u64>>();
    let by_time = run.measure.map(|measure| ((run.start_up + measure + run.cool_down).as_seconds() * ready_for) as u64);
    let pass = match (by_count, by_time) {
        (Some(count), Some(time)) => count.min(time),
        (count, time) => count.or(time).unwrap_or(0),
    };
    pass.saturating_mul(run.passes.into())
}
