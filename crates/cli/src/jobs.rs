//! `arraylab run job.fio`: a job file of fio, group by group; and `arraylab import job.fio`, which shows what it comes
//! to.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use analysis::by_job::JobTally;
use fio::Surroundings;
use fio::option::Fate;
use host::Kernel;
use host::processor::{self, Memory};
use lab::jobs::{Phase, plan, plan_again};
use lab::layout::read_paths;
use lab::{Conclusion, Point, Source, Target, verification};
use report::FioJob;
use serde_json::{Value, json};
use units::Instant;

use crate::args::{Format, ImportJob, Run};
use crate::fail::Failure;
use crate::metrics::Metrics;
use crate::out;
use crate::permit;
use crate::prepare;
use crate::progress::interrupt;
use crate::run::{Done, Kept, in_virtual_time, once_each, one, text_of};

/// What is under way when the document is made, whole or not.
#[derive(Default)]
struct Account {
    file: Option<fio::File>,
    done: Vec<(Phase, Done)>,
    /// What `exit_what=all` kept from running.
    left: Vec<Phase>,
    count: usize,
}

/// Runs a job file. The document of `--format fio-json` is one, whatever happens.
pub fn run(args: &Run, source: &Source) -> Result<ExitCode, Failure> {
    let mut account = Account::default();
    let outcome = attempt(args, source, &mut account);
    let error = outcome.as_ref().err().map(Failure::message);
    if args.format == Some(Format::FioJson) {
        out::json(&account.fio_json(error.as_deref()))?;
    } else if account.done.is_empty() {
        // Nothing was done that could be shown; what went wrong is said by who called.
    } else if args.common.json {
        let mut document = account.document();
        if let Some(error) = error {
            document["error"] = json!(error);
        }
        out::json(&document)?;
    } else {
        out::text(&account.text())?;
    }
    outcome
}

/// Reads, plans and runs; what is done stays in the account.
fn attempt(args: &Run, source: &Source, account: &mut Account) -> Result<ExitCode, Failure> {
    if args.find_limit.is_some() {
        return Err(Failure::input(anyhow::anyhow!(
            "--find-limit varies the rates of an experiment; `arraylab import` makes one of a job file"
        )));
    }
    if args.resume.is_some() {
        return Err(Failure::input(anyhow::anyhow!(
            "--resume is of sweeps, which a job file is not; leave --resume out"
        )));
    }
    let file = read(source, (args.strict, args.lenient))?;
    list(&source.name, &file);
    let phases = plan(&stem(source), &file, &args.on).map_err(Failure::input)?;
    account.file = Some(file);
    account.count = phases.len();
    crate::watch::check(&args.seen, phases.iter().any(|phase| in_virtual_time(&phase.experiment, &args.on)))?;
    phases.iter().flat_map(|phase| &phase.remarks).for_each(|remark| eprintln!("{remark}"));
    let interrupted = interrupt(Vec::new());
    let read = read_paths(phases.iter().map(|phase| &phase.experiment));
    let metrics = args.seen.metrics.map(Metrics::serve).transpose()?;
    let mut copies = 0;
    let mut phases = phases.into_iter();
    while let Some(mut phase) = phases.next() {
        if let (true, Some(file)) = (phase.later, &account.file) {
            phase = plan_again(&stem(source), file, &args.on, account.done.len()).map_err(Failure::input)?;
        }
        let mut done = one_phase(&phase, args, metrics.as_ref(), &read, &interrupted)?;
        let (unkept, ended) = (done.take_unkept(), done.conclusion().interrupted);
        let begin = done.conclusion().begins.first().copied().unwrap_or(Instant::START);
        let jobs = account.file.as_ref().map_or(&[][..], |file| &file.jobs[..]);
        let logged = phase.write_logs(jobs, copies, begin, &mut |take| done.visit(|row| take(row)));
        copies += phase.copies();
        let is_last = phase.is_last;
        account.done.push((phase, done));
        logged.map_err(Failure::world)?;
        if let Some(failure) = unkept {
            return Err(failure);
        }
        if ended || interrupted.load(Relaxed) {
            return Ok(ExitCode::from(3));
        }
        if is_last {
            account.left = phases.collect();
            break;
        }
    }
    // As in fio, what one job could not do keeps no later group from running.
    if account.done.iter().any(|(_, done)| done.is_cut_short()) {
        return Ok(ExitCode::from(3));
    }
    let failed = account.done.iter().any(|(_, done)| verification::failed(done.verified()));
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Makes the files of a phase, asks leave to write, and runs it.
fn one_phase(
    phase: &Phase,
    args: &Run,
    metrics: Option<&Metrics>,
    read: &HashSet<PathBuf>,
    interrupted: &AtomicBool,
) -> Result<Done, Failure> {
    let experiment = &phase.experiment;
    let permits = match prepare::permits(experiment, args.common.destroy_data, read, interrupted)? {
        Some(permits) => permits,
        None if experiment.writes() => {
            permit::ask_servers(&args.on, args.common.destroy_data)?;
            permit::ask(args.on.iter().flat_map(Target::paths), args.common.destroy_data)?
        }
        None => HashMap::new(),
    };
    let mut point = Point::alone(experiment.clone());
    point.experiment.run.trace = args.trace;
    let kept = Kept { runs: &args.common.runs, watch: args.seen.watch, metrics, conductor: None };
    let done = one(point, &kept, &once_each(&args.on), &permits, interrupted);
    prepare::leave(&permits, &phase.unlinks);
    done
}

/// Shows a job file as experiments.
pub fn import(args: &ImportJob) -> Result<ExitCode, Failure> {
    let source = crate::run::find(&args.job)?;
    let file = read(&source, (args.strict, args.lenient))?;
    list(&source.name, &file);
    let mut phases = plan(&stem(&source), &file, &[]).map_err(Failure::input)?;
    let count = phases.len();
    if args.lenient {
        for option in phases.iter_mut().flat_map(Phase::simplify) {
            eprintln!("{}: no experiment can say {option}; it is left out", source.name);
        }
    }
    if let Some(option) = phases.iter().flat_map(Phase::beyond_experiments).next() {
        let trace = if option == "read_iolog" { ", or the trace by `arraylab replay`" } else { "" };
        return Err(Failure::input(anyhow::anyhow!(
            "{}: no experiment can say {option}; run the job file itself by `arraylab run`{trace}",
            source.name
        )));
    }
    let files = || phases.iter().flat_map(|phase| &phase.experiment.devices).flat_map(|device| &device.files);
    if let Some(path) = files().find(|path| path.to_str().is_none()) {
        return Err(Failure::input(anyhow::anyhow!(
            "{}: the file name {} is not UTF-8, and TOML is; rename the file, or run the job file itself",
            source.name,
            path.display()
        )));
    }
    for (index, phase) in phases.iter().enumerate() {
        let of = if count > 1 { format!(", group {} of {count}", index + 1) } else { String::new() };
        let text = format!("# What {} comes to{of}.\n\n{}", source.name, phase.experiment.to_toml());
        match &args.output {
            None if index > 0 => out::text(&format!("\n{text}"))?,
            None => out::text(&text)?,
            Some(directory) => {
                let path = directory.join(format!("{}.toml", phase.experiment.name));
                out::write(&path, &text, "name a directory with -o")?;
                out::text(&format!("{}\n", path.display()))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn read(source: &Source, (strict, lenient): (bool, bool)) -> Result<fio::File, Failure> {
    let surroundings = Surroundings {
        variable: &|name| std::env::var(name).ok(),
        keyword: &|name| match name {
            "$ncpus" => Some(processor::configured(&Kernel::running()) as u64),
            "$pagesize" => Some(processor::page().get()),
            "$mb_memory" => Memory::read(&Kernel::running()).total.map(|memory| memory.get() >> 20),
            _ => None,
        },
        // As in fio, first from where the program runs, then from beside the file that names it.
        include: &|file, from| {
            let beside = Path::new(from).parent().unwrap_or(Path::new("")).join(file);
            let found = if Path::new(file).exists() { PathBuf::from(file) } else { beside };
            let bytes = std::fs::read(&found).map_err(|error| format!("{}: {error}", found.display()))?;
            Ok((found.display().to_string(), fio::bytes::text(&bytes)))
        },
    };
    let rigour = match (strict, lenient) {
        (true, _) => fio::Rigour::Strict,
        (_, true) => fio::Rigour::Lenient,
        _ => fio::Rigour::Usual,
    };
    fio::read(&source.name, &source.text, &surroundings, rigour).map_err(Failure::input)
}

fn stem(source: &Source) -> String {
    Path::new(&source.name).file_stem().map_or("job".into(), |stem| stem.to_string_lossy().into_owned())
}

/// What of a job file is not kept, to who reads along.
fn list(name: &str, file: &fio::File) {
    let mut last: Option<Fate> = None;
    for note in &file.notes {
        if last.replace(note.fate) != Some(note.fate) {
            eprintln!("{name}: options {}:", note.fate.title());
        }
        eprintln!("  line {:<3} {}: {}", note.place.line, note.option, note.what);
    }
}

impl Account {
    fn text(&self) -> String {
        let phases = self.done.iter().enumerate().map(|(index, (phase, done))| {
            let names: Vec<&str> = phase.experiment.streams.iter().map(|plan| plan.stream.name.as_str()).collect();
            let head = match self.count {
                1 => String::new(),
                count => format!("group {} of {count}: {}\n\n", index + 1, shortened(&names)),
            };
            head + &text_of(std::slice::from_ref(done), 1, &[], None)
        });
        phases.collect::<Vec<_>>().join("\n")
    }

    /// The document of the JSON contract, with what was not kept beside it.
    fn document(&self) -> Value {
        let mut document = match &self.done[..] {
            [(_, done)] if self.count == 1 => done.document(),
            done => json!({ "groups": done.iter().map(|(_, done)| done.document()).collect::<Vec<_>>() }),
        };
        let note = |note: &fio::Note| {
            let (file, line) = (&note.place.file, note.place.line);
            json!({ "option": note.option, "file": file, "line": line, "fate": note.fate.title(), "what": note.what })
        };
        document["ignored"] = self.file.iter().flat_map(|file| &file.notes).map(note).collect();
        document
    }

    fn fio_json(&self, error: Option<&str>) -> Value {
        let jobs = self.file.as_ref().map_or(&[][..], |file| &file.jobs[..]);
        let account = |(phase, done): &(Phase, Done)| {
            phase.account(jobs, done.by_stream(&phase.countings(jobs)), done.conclusion())
        };
        let global = jobs.first().map_or_else(BTreeMap::new, |job| job.options[1].clone());
        // fio lists these, too, as jobs that did nothing.
        let idle = |phase: &Phase| {
            let tallies = vec![JobTally::default(); phase.parts.len()];
            phase.account(jobs, tallies, &Conclusion::default())
        };
        let jobs: Vec<FioJob> = self.done.iter().flat_map(account).chain(self.left.iter().flat_map(idle)).collect();
        document(&global, &jobs, &disks(self.done.iter().map(|(_, done)| done)), error)
    }
}

/// The streams of an experiment as jobs of fio: each point of a sweep is a group.
pub fn streams(done: &[Done], error: Option<&str>) -> Value {
    let account = |(group, done): (u32, &Done)| done.point.account(group, done.by_stream(&[]), done.conclusion());
    let jobs: Vec<FioJob> = (0..).zip(done).flat_map(account).collect();
    document(&BTreeMap::new(), &jobs, &disks(done), error)
}

fn document(
    global: &BTreeMap<String, String>,
    jobs: &[FioJob],
    disks: &[report::DiskUse],
    error: Option<&str>,
) -> Value {
    report::fio_json(env!("CARGO_PKG_VERSION"), std::time::SystemTime::now(), global, (jobs, disks), error)
}

/// What the block devices below all of the runs did in them.
fn disks<'d>(done: impl IntoIterator<Item = &'d Done>) -> Vec<report::DiskUse> {
    let mut whole: Vec<report::DiskUse> = Vec::new();
    for disk in done.into_iter().flat_map(|done| &done.conclusion().disks) {
        match whole.iter_mut().find(|known| known.name == disk.name) {
            Some(known) => known.add(disk),
            None => whole.push(disk.clone()),
        }
    }
    whole
}

/// The first names of a list, and how many more there are.
fn shortened(names: &[&str]) -> String {
    const MOST: usize = 6;
    match names.len() {
        count if count > MOST => format!("{} and {} more", names[..MOST].join(", "), count - MOST),
        _ => names.join(", "),
    }
}
