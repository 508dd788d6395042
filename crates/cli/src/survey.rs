//! `arraylab survey`.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use analysis::survey::{Access, Findings, Part, Question};
use host::guard::WritePermit;
use lab::survey::{Conduct, FileError, Files, Machine, MachineError, Probe, conduct, recorder};
use lab::{Target, keep};
use record::{Clock, Labels, Log, Meta, RunFile};
use serde_json::json;
use units::Bytes;

use crate::args::Survey;
use crate::fail::Failure;
use crate::metrics::Metrics;
use crate::out;
use crate::permit;
use crate::progress::{Bar, interrupt};
use crate::run::{build, no_folder};
use crate::watch::Watch;

/// Surveys the paths given, or files that it makes.
pub fn survey(args: &Survey) -> Result<ExitCode, Failure> {
    if let Some(name) = &args.system {
        crate::watch::check(&args.seen, true)?;
        return crate::model::survey(name, args);
    }
    let own = if args.paths.is_empty() { Files::names(&args.dir, args.files) } else { Vec::new() };
    let metrics = args.seen.metrics.map(Metrics::serve).transpose()?;
    let interrupted = interrupt(own);
    // Kept until the end: they are removed when dropped.
    let files = if args.paths.is_empty() { Some(make_files(args, &interrupted)?) } else { None };
    let paths: Vec<PathBuf> = files.as_ref().map_or_else(|| args.paths.clone(), |files| files.paths().to_vec());
    // Files of our own are not written again: a survey of writes is of devices that were named.
    let writes = args.common.destroy_data && files.is_none();
    let permits = if writes { permit::ask(paths.iter().map(PathBuf::as_path), true)? } else { HashMap::new() };
    let mut paths = paths;
    let mut seen = HashSet::new();
    paths.retain(|path| seen.insert(path.clone()));
    let how = Conduct { budget: args.time, repeats: args.repeats, writes, ..Conduct::default() };
    let targets: Vec<Target> = paths.iter().cloned().map(Target::Path).collect();
    let folder = keep::begin(&args.common.runs, "survey", &how.to_toml(), &targets, build()).map_err(no_folder)?;
    let labels = Labels { streams: lab::survey::streams(), devices: targets.iter().map(Target::to_string).collect() };
    let meta = Meta { run: folder.id(), clock: Clock::Live, origin: Some(std::time::SystemTime::now()), labels };
    let (recorder, log) = recorder(&folder, &meta).map_err(Failure::world)?;
    let watch = {
        let names = targets.iter().map(Target::to_string).collect();
        Watch::beside(args.seen.watch, names, folder.path().join(RunFile::Status.name()), metrics)
    };
    let measured = measure((&paths, &permits), (&interrupted, &watch), log, &how, args.seen.watch);
    drop(watch);
    let recording = recorder.finish();
    let Measured { tree, findings, mut remarks, broken } = match measured {
        Ok(Measured { broken: Some(error), .. }) | Err(error) if recording.rows() == 0 => {
            // Nothing was measured, so nothing is kept: a folder that holds no run only misleads.
            let _ = std::fs::remove_dir_all(folder.path());
            return Err(failure(error));
        }
        measured => measured.map_err(failure)?,
    };
    if broken.is_some() {
        remarks.push("the survey was cut short; the figures are of what was measured until then".to_owned());
    }
    let survey = analysis::survey::Survey::of(&tree, &findings);
    let mut value = serde_json::to_value(&survey).expect("plain data becomes JSON");
    value["remarks"] = json!(remarks);
    value["interrupted"] = json!(broken.is_some());
    let kept = keep::finish(&folder, &value, (&recording, None, &meta), broken.is_some());
    if args.common.json {
        value["run"] = json!(folder.path());
        out::json(&value)?;
    } else {
        let remarks: String = remarks.iter().map(|remark| format!("{remark}\n")).collect();
        out::text(&format!("{}\n{remarks}\nrun folder: {}\n", report::survey(&survey), folder.path().display()))?;
    }
    match broken {
        // The user knows.
        Some(MachineError::Interrupted) => kept.map(|()| ExitCode::from(3)).map_err(Failure::world),
        Some(error) => Err(Failure::World(failure(error).error())),
        None => kept.map(|()| ExitCode::SUCCESS).map_err(Failure::world),
    }
}

/// What came of the measurements.
struct Measured {
    tree: Part,
    findings: Findings,
    remarks: Vec<String>,
    /// What ended them early.
    broken: Option<MachineError>,
}

/// Makes all measurements.
fn measure(
    (paths, permits): (&[PathBuf], &HashMap<PathBuf, WritePermit>),
    (interrupted, watch): (&AtomicBool, &Watch),
    log: Log,
    how: &Conduct,
    loud: bool,
) -> Result<Measured, MachineError> {
    let mut machine = Machine::new(paths, permits, (interrupted, watch), log)?;
    let tree = machine.tree().clone();
    let (findings, broken) = {
        let bar = (!loud).then(|| Bar::new(1000));
        let mut show = |probe: &Probe, done: usize, of: usize| {
            let text = format!("{done} of {of}: {}", describe(probe));
            match &bar {
                Some(bar) => bar.show((done * 1000 / of) as u64, text),
                None => watch.title(text),
            }
        };
        conduct(&mut machine, &tree, how, &mut show)
    };
    Ok(Measured { tree, findings, remarks: machine.remarks(), broken })
}

fn make_files(args: &Survey, interrupted: &AtomicBool) -> Result<Files, Failure> {
    let bar = Bar::new(1000);
    let mut show = |written: Bytes, of: Bytes| {
        bar.show(written.get() * 1000 / of.get(), format!("making files: {written} of {of}"));
    };
    Files::make(&args.dir, args.files, args.size, interrupted, &mut show).map_err(|error| match error {
        FileError::Directory { .. } | FileError::NoRoom { .. } => Failure::input(error),
        FileError::Write { .. } | FileError::Interrupted => Failure::world(error),
    })
}

/// A measurement in words.
pub fn describe(probe: &Probe) -> String {
    let what = match probe.kind.question {
        Question::Bandwidth => format!("sequential, {} at a time", probe.request),
        Question::Requests => "4 KiB at random".to_owned(),
    };
    let access = match probe.kind.access {
        Access::Raw => "raw",
        Access::Os => "through the operating system",
        Access::Process => "by one process per device",
    };
    let devices = probe.devices.len();
    format!("{devices} device{}, {what}, {access}", if devices == 1 { "" } else { "s" })
}

/// Who is to blame for a survey that was not made.
pub fn failure(error: MachineError) -> Failure {
    match error {
        MachineError::Topology(_) | MachineError::TooSmall { .. } | MachineError::Hollow { .. } => {
            Failure::input(error)
        }
        MachineError::Look { .. } => Failure::world(error),
        MachineError::Run(error) => crate::run::failure(error),
        MachineError::Device { .. } | MachineError::Interrupted => Failure::world(error),
    }
}
