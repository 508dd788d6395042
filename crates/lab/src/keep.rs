//! What is kept of a run: its folder, from before the first request to after the last.

use std::path::Path;

use analysis::Series;
use host::Kernel;
use host::environment::{Build, Environment, Naming};
use host::topology::Target as Topology;
use record::{FolderError, IndexFolder, IndexKind, Meta, Recording, RunFile, RunFolder, RunState, SpanLog};
use serde::Serialize;

use crate::target::Target;
use crate::verification::{self, Verified};

/// Makes the folder of a run and writes what is known before it starts.
///
/// `experiment` is the experiment as it will run, in TOML. Names of machines are kept as a hash: run folders are given
/// to others.
pub fn begin(
    runs: &Path,
    name: &str,
    experiment: &str,
    targets: &[Target],
    build: Build,
) -> Result<RunFolder, FolderError> {
    let folder = RunFolder::create(runs, name, std::time::SystemTime::now())?;
    describe(&folder, experiment, targets, build)?;
    Ok(folder)
}

/// Makes the folder that names several runs, beside theirs, and writes what they have in common.
pub fn begin_index(
    runs: &Path,
    (name, kind): (&str, IndexKind),
    experiment: &str,
    targets: &[Target],
    build: Build,
) -> Result<IndexFolder, FolderError> {
    let folder = IndexFolder::create(runs, name, kind, std::time::SystemTime::now())?;
    for (file, contents) in description(experiment, targets, build) {
        folder.write_file(file, &contents)?;
    }
    Ok(folder)
}

/// What ran, and on what.
fn describe(folder: &RunFolder, experiment: &str, targets: &[Target], build: Build) -> Result<(), FolderError> {
    description(experiment, targets, build).into_iter().try_for_each(|(file, contents)| folder.write(file, &contents))
}

/// The files that say it.
fn description(experiment: &str, targets: &[Target], build: Build) -> [(RunFile, Vec<u8>); 3] {
    let kernel = Kernel::running();
    let topology: Vec<Topology> = targets
        .iter()
        .flat_map(Target::paths)
        // A path that cannot be looked at will be refused by the run, with a better message than could be given here.
        .filter_map(|path| Topology::find(&kernel, path).ok())
        .collect();
    [
        (RunFile::Experiment, experiment.as_bytes().to_vec()),
        (RunFile::Environment, text(&Environment::read(&kernel, build, Naming::Hash))),
        (RunFile::Topology, text(&topology)),
    ]
}

fn text(value: &impl Serialize) -> Vec<u8> {
    (serde_json::to_string_pretty(value).expect("plain data becomes JSON") + "\n").into_bytes()
}

/// Makes the folder of one rank of a run on several hosts, below that of the run.
pub fn begin_rank(
    whole: &Path,
    rank: u32,
    experiment: &str,
    targets: &[Target],
    build: Build,
) -> Result<RunFolder, FolderError> {
    let folder = RunFolder::create_rank(whole, rank, std::time::SystemTime::now())?;
    describe(&folder, experiment, targets, build)?;
    Ok(folder)
}

/// Writes the ledger of what was written, if anything was. What was kept of it until then is in it.
pub fn ledger(folder: &RunFolder, verified: &[Verified]) -> Result<(), FolderError> {
    if let Some(bytes) = verification::encode(verified) {
        folder.write(RunFile::Ledger, &bytes)?;
    }
    folder.remove_ledger_log()
}

/// Writes what the run came to. A run whose rows the disk does not take is not complete.
pub fn finish(
    folder: &RunFolder,
    summary: &impl Serialize,
    (recording, spans, meta): (&Recording, Option<&SpanLog>, &Meta),
    interrupted: bool,
) -> Result<(), FolderError> {
    folder.write_json(RunFile::Summary, summary)?;
    let records = folder.write_records(recording, meta);
    let records = records.and_then(|()| spans.map_or(Ok(()), |spans| folder.write_spans(spans, meta)));
    let whole = records.is_ok() && !interrupted;
    let state = folder.set_state(if whole { RunState::Complete } else { RunState::Interrupted });
    records.and(state)
}

/// Writes what was done in each second: `series.csv`.
pub fn series(folder: &RunFolder, series: &Series, meta: &Meta) -> Result<(), FolderError> {
    folder.write(RunFile::Series, table(series, &meta.labels.devices).as_bytes())
}

/// A line for each device and second; numbers in units that do not change, for other programs.
fn table(series: &Series, devices: &[String]) -> String {
    let mut text = "at_s,device,requests,bandwidth_bytes_per_s,iops,errors,latency_mean_ns,latency_max_ns\n".to_owned();
    for point in series.points() {
        let name = devices[usize::from(point.device)].replace('"', "\"\"");
        text.push_str(&format!(
            "{},\"{name}\",{},{},{},{},{},{}\n",
            point.at.as_seconds(),
            point.requests,
            point.bandwidth.get(),
            point.iops.get(),
            point.errors,
            point.latency_mean.as_nanos(),
            point.latency_max.as_nanos()
        ));
    }
    text
}
