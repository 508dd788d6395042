//! `arraylab survey`.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use analysis::survey::{Access, Findings, Part, Question};
use host::guard::WritePermit;
use lab::survey::{Conduct, Files, Machine, MachineError, Probe, conduct};
use lab::{Target, keep};
use record::{Clock, Keeping, Labels, Log, Meta, Recorder, Spill, WhenBehind};
use units::Bytes;

use crate::args::Survey;
use crate::fail::Failure;
use crate::permit;
use crate::progress::{Bar, interrupt};
use crate::run::{build, no_folder};

/// Memory for the rows of all measurements; more go to the run folder.
const RECORDS: Bytes = Bytes::gib(1);

/// Surveys the paths given, or files that it makes.
pub fn survey(args: &Survey) -> Result<ExitCode, Failure> {
    let interrupted = interrupt();
    // Kept until the end: they are removed when dropped.
    let files = if args.paths.is_empty() { Some(make_files(args)?) } else { None };
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
    let labels = Labels { streams: Machine::streams(), devices: targets.iter().map(Target::to_string).collect() };
    let meta = Meta { run: folder.id(), clock: Clock::Live, origin: Some(std::time::SystemTime::now()), labels };
    let keeping = Keeping {
        expected_rows: 0,
        memory: RECORDS,
        spill: Spill::WhenFull(folder.raw_path()),
        when_behind: WhenBehind::Wait,
    };
    let (recorder, mut logs) = Recorder::start(&keeping, &meta, 1).map_err(Failure::world)?;
    let log = logs.pop().expect("one log was asked for");
    let (tree, findings, remarks) = match measure(&paths, &permits, &interrupted, log, &how) {
        Ok(measured) => measured,
        Err(error) => {
            // Half a survey says nothing; its folder would only mislead.
            let _ = std::fs::remove_dir_all(folder.path());
            return Err(failure(error));
        }
    };
    let survey = analysis::survey::Survey::of(&tree, &findings);
    keep::finish(&folder, &survey, (&recorder.finish(), &meta), false).map_err(Failure::world)?;
    if args.common.json {
        let mut value = serde_json::to_value(&survey).expect("plain data becomes JSON");
        value["run"] = serde_json::json!(folder.path());
        value["remarks"] = serde_json::json!(remarks);
        println!("{value:#}");
    } else {
        print!("{}", report::survey(&survey));
        println!();
        remarks.iter().for_each(|remark| println!("{remark}"));
        println!("\nrun folder: {}", folder.path().display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes all measurements.
fn measure(
    paths: &[PathBuf],
    permits: &HashMap<PathBuf, WritePermit>,
    interrupted: &AtomicBool,
    log: Log,
    how: &Conduct,
) -> Result<(Part, Findings, Vec<String>), MachineError> {
    let mut machine = Machine::new(paths, permits, interrupted, log)?;
    let tree = machine.tree().clone();
    let findings = {
        let bar = Bar::new(1000);
        let mut show = |probe: &Probe, done: usize, of: usize| {
            bar.show((done * 1000 / of) as u64, format!("{done} of {of}: {}", describe(probe)));
        };
        conduct(&mut machine, &tree, how, &mut show)?
    };
    Ok((tree, findings, machine.remarks()))
}

fn make_files(args: &Survey) -> Result<Files, Failure> {
    let bar = Bar::new(1000);
    let mut show = |written: Bytes, of: Bytes| {
        bar.show(written.get() * 1000 / of.get(), format!("making files: {written} of {of}"));
    };
    Files::make(&args.dir, args.files, args.size, &mut show).map_err(Failure::input)
}

fn describe(probe: &Probe) -> String {
    let what = match probe.kind.question {
        Question::Bandwidth => format!("sequential, {} at a time", probe.request),
        Question::Requests => "4 KiB at random".to_owned(),
    };
    let access = match probe.kind.access {
        Access::Raw => "raw",
        Access::Os => "through the operating system",
    };
    let devices = probe.devices.len();
    format!("{devices} device{}, {what}, {access}", if devices == 1 { "" } else { "s" })
}

fn failure(error: MachineError) -> Failure {
    match error {
        MachineError::Topology(_) => Failure::input(error),
        MachineError::Run(error) => crate::run::failure(error),
        MachineError::Device { .. } | MachineError::Interrupted => Failure::world(error),
    }
}
