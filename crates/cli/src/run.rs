//! `arraylab run`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use analysis::by_job::{Counting, JobTally};
use analysis::{Advice, Summary};
use host::environment::Build;
use host::guard::WritePermit;
use lab::hosts::{Conductor, Rank, conduct};
use lab::layout::read_paths;
use lab::{
    Conclusion, Cost, Experiment, FindError, OpenError, Outcome, Point, RunError, Setting, Source, Target, Ways, keep,
    verification,
};
use record::{FolderError, Row, RunFile, RunFolder, RunState};
use report::{Gained, Sweep};
use serde_json::{Value, json};
use studies::reproduce::Judged;
use units::{Bytes, Ratio};

use crate::abreast::abreast;
use crate::args::{Format, Run};
use crate::fail::Failure;
use crate::hosts;
use crate::jobs;
use crate::metrics::Metrics;
use crate::out;
use crate::permit;
use crate::prepare;
use crate::progress::interrupt;
use crate::resume::Resumed;
use crate::search;
use crate::sweep::Index;
use crate::watch::Watch;

/// Memory for the record of requests: 19 million of them. More would go to the spill file.
pub const RECORDS: Bytes = Bytes::gib(1);

/// Runs the experiment, alone or as one of several ranks.
pub fn run(args: &Run) -> Result<ExitCode, Failure> {
    if let Some(rank) = Rank::find().map_err(Failure::input)? {
        return hosts::run(args, rank);
    }
    let source = find(&args.experiment)?;
    if fio::is_meant(&args.experiment, &source.text) {
        return jobs::run(args, &source);
    }
    only_of_jobs(args)?;
    if args.meet.is_some() {
        eprintln!("--meet: this process is the only rank; mpirun or srun starts several");
    }
    let mut points = lab::read(&source, &args.set).map_err(Failure::input)?;
    points.iter_mut().for_each(|point| point.experiment.run.trace |= args.trace);
    all(args, &source.text, points, None).map(ExitCode::from)
}

/// Refuses what can be said of job files alone.
pub fn only_of_jobs(args: &Run) -> Result<(), Failure> {
    let given = [(args.strict, "--strict"), (args.lenient, "--lenient")].into_iter().find(|(given, _)| *given);
    match given {
        Some((_, flag)) => Err(Failure::input(anyhow::anyhow!(
            "{flag} is of job files of fio, and {} is an experiment, which is always kept to the letter; leave it out",
            args.experiment.display()
        ))),
        None => Ok(()),
    }
}

/// Whether an experiment runs in virtual time, be it on targets of its own or on those given.
pub fn in_virtual_time(experiment: &Experiment, on: &[Target]) -> bool {
    experiment.own_targets().as_deref().unwrap_or(on).iter().any(Target::is_simulated)
}

/// Leave to write to what the command line names, if anything is written.
pub fn permits(args: &Run, on: &[Target], writes: bool) -> Result<HashMap<PathBuf, WritePermit>, Failure> {
    if !writes {
        return Ok(HashMap::new());
    }
    permit::ask_servers(on, args.common.destroy_data)?;
    permit::ask(on.iter().flat_map(Target::paths), args.common.destroy_data)
}

/// Runs all points of the experiment of this text, on this host or with other ranks, and prints what they came to.
/// Gives the exit code.
pub fn all(args: &Run, text: &str, points: Vec<Point>, conductor: Option<&Conductor>) -> Result<u8, Failure> {
    let rank = conductor.map_or_else(Rank::alone, |conductor| conductor.rank.clone());
    let on: Vec<Target> = args.on.iter().map(|target| rank.fill_target(target)).collect();
    let system = |points: &[Point]| Some(points.first()?.experiment.system.as_ref()?.name.clone());
    let modelled = system(&points);
    let (mut points, on) = lab::elsewhere(points, &args.set, &on).map_err(Failure::input)?;
    if let (Some(machine), None) = (modelled, system(&points)) {
        let to = points[0].experiment.own_targets().unwrap_or_else(|| on.clone());
        eprintln!("the load goes to {}, instead of the modelled machine '{machine}'", lab::names(&to).join(", "));
    }
    let mut found = args.find_limit.map(|bound| search::hunt(&points, bound)).transpose()?;
    crate::watch::check(&args.seen, points.iter().any(|point| in_virtual_time(&point.experiment, &on)))?;
    for point in &points {
        lab::enough_devices(&point.experiment, &once_each(&on)).map_err(failure)?;
    }
    let writes = points.iter().any(|point| point.experiment.system.is_none() && point.experiment.writes());
    let permits = permits(args, &on, writes)?;
    let metrics = args.seen.metrics.map(Metrics::serve).transpose()?;
    let kept = Kept { runs: &args.common.runs, watch: args.seen.watch, metrics: metrics.as_ref(), conductor };
    let interrupted = interrupt(Vec::new());
    let here: Vec<_> = points.iter().map(|point| rank.filled(&point.experiment)).collect();
    let read = read_paths(&here);
    let targets = once_each(&on);
    let attempt = |mut point: Point| {
        conductor.inspect(|conductor| conductor.order(&point.experiment.to_toml()));
        point.experiment = rank.filled(&point.experiment);
        match prepare::permits(&point.experiment, args.common.destroy_data, &read, &interrupted)? {
            Some(own) => {
                let one = one(point, &kept, &targets, &own, &interrupted);
                prepare::leave(&own, &[]);
                one
            }
            None => one(point, &kept, &targets, &permits, &interrupted),
        }
    };
    // A search has as many points as it takes.
    let count = if args.find_limit.is_some() { usize::MAX } else { points.len() };
    let mut done: Vec<Done> = Vec::new();
    let mut broken = None;
    let swept = args.find_limit.is_none() && points.len() > 1;
    let resumed = match &args.resume {
        None => None,
        Some(_) if args.format.is_some() => {
            return Err(Failure::input(anyhow::anyhow!(
                "--format has no place for points that were run before; take --json, or leave out --resume"
            )));
        }
        Some(folder) if swept && conductor.is_none() => Some(Resumed::open(folder, args, text, &points, &targets)?),
        Some(folder) => {
            return Err(Failure::input(anyhow::anyhow!(
                "{}: --resume is of sweeps on one host, which this run is not; leave --resume out",
                folder.display()
            )));
        }
    };
    let before = resumed.as_ref().map_or(0, |resumed| resumed.documents.len());
    let kept_sweep = resumed.as_ref().map(|resumed| resumed.kept.clone());
    let mut index = swept.then(|| Index::new(args, text, &points, &targets, kept_sweep));
    if let Some(hunt) = &mut found
        && let Err(failure) = search::search(hunt, &mut done, &attempt, || interrupted.load(Relaxed))
    {
        if done.is_empty() {
            return Err(failure);
        }
        broken = Some(failure);
        found = None;
    }
    let mut names: Vec<Option<String>> =
        points.iter().enumerate().map(|(before, point)| name_of(point, before, points.len())).collect();
    names.drain(..before);
    points.drain(..before);
    let mut add = |one: Result<Done, Failure>| -> bool {
        let name = names.get(done.len()).cloned().flatten();
        match one {
            _ if broken.is_some() => return false,
            Ok(one) => {
                broken = index.as_mut().and_then(|index| index.add(&one).err());
                done.push(one);
            }
            Err(failure) => broken = Some(failure.at(name)),
        }
        let kept = done.last().is_none_or(|one| one.kept.is_ok());
        broken.is_none() && !interrupted.load(Relaxed) && kept
    };
    let modelled = |point: &Point| point.experiment.system.is_some();
    if args.find_limit.is_some() {
        // The search is over.
    } else if count > 1 && conductor.is_none() && metrics.is_none() && points.iter().all(modelled) {
        abreast(points, (&args.common.runs, &targets), &interrupted, &mut add);
    } else {
        for point in points {
            if !add(attempt(point)) {
                break;
            }
        }
    }
    if done.is_empty()
        && let Some(failure) = broken.take()
    {
        // Nothing was done that could be shown.
        return Err(failure);
    }
    let cut_short = done.iter().any(Done::is_cut_short) || interrupted.load(Relaxed);
    let index = index.and_then(|index| match index.finish(cut_short, broken.as_ref()) {
        Ok(path) => path,
        Err(failure) => {
            broken.get_or_insert(failure);
            None
        }
    });
    // Rows of points that were run before are in their folders, not here.
    let compared = if found.is_some() || before > 0 { Vec::new() } else { compared(&done, &args.set)? };
    if args.format == Some(Format::FioJson) {
        out::json(&jobs::streams(&done, broken.as_ref().map(Failure::message).as_deref()))?;
    } else if args.common.json {
        let mut document = document(&done, count, resumed.as_ref());
        if !compared.is_empty() {
            document["published"] = json!(compared);
        }
        if let Some(found) = &found {
            document["find_limit"] = found.document();
        }
        if let Some(index) = &index {
            document["sweep"] = json!(index);
        }
        if let Some(failure) = &broken {
            document["error"] = json!(failure.message());
        }
        out::json(&document)?;
    } else {
        let answer = found.as_ref().map(|found| format!("\n{}\n", found.text())).unwrap_or_default();
        let index = index.map_or(String::new(), |path| format!("sweep folder: {}\n", path.display()));
        out::text(&format!("{}{index}{answer}", text_of(&done, count, &compared, resumed.as_ref())))?;
    }
    let unkept = done.iter_mut().find_map(|one| std::mem::replace(&mut one.kept, Ok(())).err());
    let lost = done.iter().find_map(|one| one.outcome.conclusion.hosts.as_ref()?.trouble.clone());
    if let Some(failure) = broken.or(unkept.map(Failure::world)).or(lost.map(Failure::world)) {
        // What was done is printed, so that the user's next step is about the rest: no bad input any more.
        return Err(Failure::World(failure.error()));
    }
    let unsteady = |one: &Done| one.outcome.conclusion.rounds.as_ref().is_some_and(|rounds| !rounds.is_steady());
    let failed = |one: &Done| verification::failed(&one.outcome.conclusion.verified);
    Ok(match found {
        _ if cut_short => 3,
        Some(found) if !found.any() => 1,
        _ if done.iter().any(failed) || done.iter().any(unsteady) => 1,
        _ => 0,
    })
}

/// The text of an experiment, or of a job file.
pub fn find(path: &Path) -> Result<Source, Failure> {
    lab::find(path).map_err(|error| match &error {
        FindError::Unreadable { error: read, .. } if !is_input(read) => Failure::world(error),
        _ => Failure::input(error),
    })
}

/// Where a run is kept, and who watches it meanwhile.
pub struct Kept<'a> {
    /// The folder of run folders.
    pub runs: &'a Path,
    /// Whether each second is printed.
    pub watch: bool,
    /// Whom Prometheus asks.
    pub metrics: Option<&'a Metrics>,
    /// The other ranks.
    pub conductor: Option<&'a Conductor>,
}

/// Runs one point and keeps it.
pub fn one(
    point: Point,
    kept: &Kept<'_>,
    targets: &[Target],
    permits: &HashMap<PathBuf, WritePermit>,
    interrupted: &AtomicBool,
) -> Result<Done, Failure> {
    let folder = begin(&point, kept.runs, targets)?;
    in_folder(folder, point, kept, (targets, RECORDS), permits, interrupted)
}

/// What an experiment runs on: what is given, or its own.
fn targets_of<'t>(experiment: &Experiment, given: &'t [Target]) -> Cow<'t, [Target]> {
    match experiment.own_targets().filter(|_| given.is_empty()) {
        Some(own) => Cow::Owned(own),
        None => Cow::Borrowed(given),
    }
}

/// Makes the folder of a point.
pub fn begin(point: &Point, runs: &Path, targets: &[Target]) -> Result<RunFolder, Failure> {
    let experiment = &point.experiment;
    let targets = targets_of(experiment, targets);
    keep::begin(runs, &experiment.name, &experiment.to_toml(), &targets, build()).map_err(no_folder)
}

/// Runs one point and keeps it in its folder, with so much memory for the record of its requests.
pub fn in_folder(
    folder: RunFolder,
    point: Point,
    kept: &Kept<'_>,
    (targets, record_memory): (&[Target], Bytes),
    permits: &HashMap<PathBuf, WritePermit>,
    interrupted: &AtomicBool,
) -> Result<Done, Failure> {
    let experiment = &point.experiment;
    let targets = &*targets_of(experiment, targets);
    let mut names = lab::names(targets);
    let party = kept.conductor.map(|conductor| hosts::gather(conductor, &folder, experiment, targets, &mut names));
    let party = party.transpose()?;
    let id = folder.id();
    let outcome = {
        let status = folder.path().join(RunFile::Status.name());
        let watch = Watch::new(kept.watch, names, status, kept.metrics.cloned());
        let at = Some(&folder);
        let ways = Ways { permits, record_memory, folder: at, interrupted, progress: &watch, party: None };
        match &party {
            Some((conductor, own)) => conduct(&id, experiment, targets, &ways, (conductor, [&folder, own])),
            None => lab::run(&id, experiment, targets, &ways),
        }
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            // Nothing ran, so nothing is kept: a folder that holds no run only misleads.
            let _ = std::fs::remove_dir_all(folder.path());
            return Err(failure(error));
        }
    };
    let mut one = Done { point, outcome, folder, kept: Ok(()) };
    let rows = (&one.outcome.recording, one.outcome.conclusion.spans(), &one.outcome.meta);
    let ledger = keep::ledger(&one.folder, &one.outcome.conclusion.verified);
    one.kept = keep::finish(&one.folder, &one.document(), rows, one.outcome.conclusion.interrupted).and(ledger);
    one.kept = std::mem::replace(&mut one.kept, Ok(()))
        .and_then(|()| keep::series(&one.folder, &one.outcome.series, &one.outcome.meta));
    if let (Some((conductor, own)), Ok(())) = (&party, &one.kept) {
        conductor.kept();
        let state = if one.outcome.conclusion.interrupted { RunState::Interrupted } else { RunState::Complete };
        one.kept = own.handed_over(state);
    }
    Ok(one)
}

/// What a failure at this point is said to be at; nothing without a sweep.
fn name_of(point: &Point, before: usize, count: usize) -> Option<String> {
    (count > 1).then(|| format!("point {} of {count}, {}", before + 1, point.label()))
}

/// What was published beside what came of it. A load of the user's own is not what the study measured.
fn compared(done: &[Done], settings: &[Setting]) -> Result<Vec<Judged>, Failure> {
    if !settings.iter().all(Setting::is_of_a_part) || done.iter().any(|one| one.outcome.conclusion.interrupted) {
        return Ok(Vec::new());
    }
    let points: Vec<_> = done.iter().map(|one| (&one.point.experiment, &one.outcome)).collect();
    let changes = settings.iter().map(|set| (set.part_key().to_owned(), set.value.clone())).collect();
    studies::compare(&points, changes).map_err(Failure::input)
}

/// Whether it is the name that is wrong, and not the world.
fn is_input(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory | ErrorKind::InvalidData)
}

/// No run folder can be made.
pub fn no_folder(error: FolderError) -> Failure {
    Failure::world(anyhow::anyhow!("{error}; run folders are made there: name another place with --runs DIR"))
}

/// A point that has run.
pub struct Done {
    /// What ran.
    pub point: Point,
    /// What it came to.
    pub outcome: Outcome,
    folder: RunFolder,
    /// Whether the disk took what is to be kept.
    kept: Result<(), FolderError>,
}

/// What this program is, for run folders.
pub fn build() -> Build {
    Build { version: env!("CARGO_PKG_VERSION").to_owned(), commit: option_env!("ARRAYLAB_COMMIT").map(str::to_owned) }
}

/// A device that is named twice is one device: the second name says that it may be written (see `host::guard`).
pub fn once_each(targets: &[Target]) -> Vec<Target> {
    let mut unique: Vec<Target> = Vec::new();
    for target in targets {
        // Two memory devices of one size are two devices.
        if !matches!(target, Target::Path(_) | Target::Nbd(_)) || !unique.contains(target) {
            unique.push(target.clone());
        }
    }
    unique
}

/// What one point, or those of a sweep, came to, as text. Of a sweep that went on, `resumed` has the first points.
pub fn text_of(done: &[Done], count: usize, compared: &[Judged], resumed: Option<&Resumed>) -> String {
    let mut text = String::new();
    let before = resumed.map_or(0, |resumed| resumed.documents.len());
    match done {
        [one] if count == 1 => {
            text.push_str(&report::run(&one.outcome.summary));
            if let Some(modelled) = &one.outcome.conclusion.modelled {
                text.push_str(&format!("\n{}", report::utilizations(&modelled.utilizations())));
            }
        }
        _ => {
            let keys = |one: &Done| one.point.settings.iter().map(|set| set.key.clone()).collect();
            let known = || resumed.map(|it| it.kept.sweep.axes.iter().map(|axis| axis.key.clone()).collect());
            let axes: Vec<String> = done.first().map(keys).or_else(known).unwrap_or_default();
            let lines = done.iter().map(|one| Sweep {
                values: one.point.settings.iter().map(|set| set.value.clone()).collect(),
                total: &one.outcome.summary.total,
                busiest: one.busiest(),
            });
            text.push_str(&report::sweep(&axes, resumed.into_iter().flat_map(Resumed::lines).chain(lines)));
            // Gains are computed from rows, and those of the first points are in their folders.
            let gains = if before > 0 { Vec::new() } else { lab::gains(&points_of(done)) };
            let lines = done.iter().zip(&gains).map(|(one, gain)| Gained {
                values: one.point.settings.iter().map(|set| set.value.clone()).collect(),
                over: gain.over,
                bandwidth: gain.bandwidth,
                iops: gain.iops,
                response: gain.response,
                rounds: gain.rounds.as_ref(),
            });
            let lines: Vec<Gained> = lines.collect();
            if lines.iter().any(|line| line.over.is_some()) {
                text.push_str(&format!("\n{}", report::gains(&axes, &lines)));
            }
        }
    }
    if !compared.is_empty() {
        text.push_str(&format!("\n{}", studies::reproduce::lines(compared)));
    }
    for line in done.iter().flat_map(|one| remarks(&one.outcome)) {
        if !text.contains(&line) {
            text.push_str(&format!("\n{line}\n"));
        }
    }
    for line in advice(done) {
        text.push_str(&format!("\n{line}\n"));
    }
    if before > 0 {
        let said = format!("{before} of {count} points were run before, and are taken from their folders");
        let but =
            if done.iter().any(|one| one.point.baseline.is_some()) { "; what points gain is not told" } else { "" };
        text.push_str(&format!("\n{said}{but}\n"));
    }
    for (index, one) in done.iter().enumerate() {
        let gap = if index == 0 { "\n" } else { "" };
        text.push_str(&format!("{gap}run folder: {}\n", one.folder.path().display()));
    }
    text
}

/// The advice on one point, whole; that on several, each kind once: with the words of the first point that it is about,
/// and the names of the others.
fn advice(done: &[Done]) -> Vec<String> {
    let all = || done.iter().flat_map(|one| &one.outcome.advice);
    let alike = |a: &Advice, b: &Advice| a == b || done.len() > 1 && (a.kind, &a.option) == (b.kind, &b.option);
    let mut lines = Vec::new();
    for (nth, advice) in all().enumerate() {
        if all().take(nth).any(|earlier| alike(earlier, advice)) {
            continue;
        }
        let option = advice.option.as_ref().map_or(String::new(), |option| format!(" (change {option})"));
        let of: Vec<&Done> =
            done.iter().filter(|one| one.outcome.advice.iter().any(|other| alike(other, advice))).collect();
        let (at, others) = match &of[..] {
            [one] if done.len() > 1 => (format!(" at {}", one.point.label()), String::new()),
            [] | [_] => (String::new(), String::new()),
            all if all.len() == done.len() => (String::new(), format!("; so at all {} points", done.len())),
            [first, rest @ ..] => {
                const NAMED: usize = 3;
                let named: Vec<String> = rest.iter().take(NAMED).map(|one| one.point.label()).collect();
                let more = match rest.len().saturating_sub(NAMED) {
                    0 => String::new(),
                    more => format!("; and {more} more"),
                };
                (format!(" at {}", first.point.label()), format!("; so also at {}{more}", named.join("; ")))
            }
        };
        lines.push(format!("advice{at}: {}{others}{option}", advice.message));
    }
    lines
}

/// What a reader must know besides the numbers.
fn remarks(outcome: &Outcome) -> Vec<String> {
    let conclusion = &outcome.conclusion;
    let labels = &outcome.meta.labels;
    let mut lines = Vec::new();
    for (device, choice) in labels.devices.iter().zip(&conclusion.engines) {
        if let Some(choice) = choice {
            lines.push(format!("{device}: by {}, as {}", choice.engine, choice.reason));
        }
    }
    for failure in &conclusion.failures {
        let (device, stream) = (&labels.devices[failure.device], &labels.streams[failure.stream]);
        lines.push(format!("{device}, stream {stream}: {}", failure.error));
    }
    if conclusion.abandoned > 0 {
        lines.push(format!("{} requests never completed and were abandoned", conclusion.abandoned));
    }
    if conclusion.unserved > 0 {
        lines.push(format!(
            "{} arrivals were due but never issued: the devices were too far behind; the response times are lower bounds",
            conclusion.unserved
        ));
    }
    if conclusion.announced > 0 {
        lines.push(format!(
            "{} sectors were read ahead of the blocks behind them (pipeline = true); they are no requests of the workload and not counted",
            conclusion.announced
        ));
    }
    if conclusion.interrupted {
        lines.push("the run was ended early; the figures are of what was done until then".to_owned());
    }
    lines.extend(conclusion.remarks.iter().cloned());
    lines.extend(conclusion.rounds.iter().map(|rounds| rounds.lines().join("\n")));
    lines.extend(verification::lines(&conclusion.verified));
    lines.extend(Cost::of(outcome).map(|cost| cost.to_string()));
    lines.extend(conclusion.hosts.as_ref().map(ToString::to_string));
    lines
}

fn document(done: &[Done], count: usize, resumed: Option<&Resumed>) -> Value {
    match done {
        [one] if count == 1 => one.document(),
        _ => {
            let before = resumed.map_or(&[][..], |resumed| &resumed.documents);
            let mut points: Vec<Value> = before.iter().cloned().chain(done.iter().map(Done::document)).collect();
            let gains = if before.is_empty() { lab::gains(&points_of(done)) } else { Vec::new() };
            for (point, gain) in points.iter_mut().zip(gains) {
                point["gain"] = json!({
                    "over": gain.over,
                    "bandwidth": gain.bandwidth,
                    "iops": gain.iops,
                    "response": gain.response,
                    "rounds": gain.rounds,
                });
            }
            json!({ "points": points })
        }
    }
}

/// What ran, and what it came to.
fn points_of(done: &[Done]) -> Vec<(&Point, &Outcome)> {
    done.iter().map(|one| (&one.point, &one.outcome)).collect()
}

impl Done {
    /// The part of a modelled machine that was at work most of the time, and for how much of it.
    pub fn busiest(&self) -> Option<String> {
        let (part, utilization) = self.outcome.conclusion.modelled.as_ref()?.busiest()?;
        Some(format!("{part} {:.0} %", utilization.get() * 100.0))
    }

    /// What the disk did not take, once.
    pub fn take_unkept(&mut self) -> Option<Failure> {
        std::mem::replace(&mut self.kept, Ok(())).err().map(Failure::world)
    }

    /// It was ended early, by whoever, or a device failed.
    pub fn is_cut_short(&self) -> bool {
        self.outcome.conclusion.interrupted || !self.outcome.conclusion.failures.is_empty()
    }

    /// What fio would count of each stream; the usual, of streams of which nothing is said.
    pub fn by_stream(&self, countings: &[Counting]) -> Vec<JobTally> {
        let counting = |stream: usize| countings.get(stream).copied().unwrap_or_default();
        let streams = self.point.experiment.streams.len();
        let mut tallies: Vec<JobTally> = (0..streams).map(|stream| JobTally::new(counting(stream))).collect();
        self.visit(|row| tallies[usize::from(row.stream)].add(row));
        tallies
    }

    /// Every row of the record.
    pub fn visit(&self, mut take: impl FnMut(&Row)) {
        let visited = self.outcome.recording.visit(|rows| {
            rows.iter().for_each(&mut take);
            Ok::<(), record::RawError>(())
        });
        // The summary has been made of the same rows.
        visited.expect("records that were read can be read again");
    }

    /// What it came to.
    pub fn summary(&self) -> &Summary {
        &self.outcome.summary
    }

    /// What verification came to.
    pub fn verified(&self) -> &[verification::Verified] {
        &self.outcome.conclusion.verified
    }

    /// Its run folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// What else there is to say of it.
    pub fn conclusion(&self) -> &Conclusion {
        &self.outcome.conclusion
    }

    /// What was done in each second; of a long run, where to find it.
    fn series(&self) -> Value {
        const MOST: usize = 5000;
        let series = &self.outcome.series;
        let points = series.points();
        json!({
            "interval_s": series.interval().as_seconds(),
            "file": RunFile::Series.name(),
            "points": (points.size_hint().0 <= MOST).then(|| points.collect::<Vec<_>>()),
        })
    }

    /// The document of the JSON contract.
    pub fn document(&self) -> Value {
        let mut value = serde_json::to_value(&self.outcome.summary).expect("plain data becomes JSON");
        value["run"] = json!(self.folder.path());
        value["series"] = self.series();
        value["remarks"] = json!(remarks(&self.outcome));
        value["advice"] = json!(self.outcome.advice);
        if let Some(modelled) = &self.outcome.conclusion.modelled {
            let uses = modelled.utilizations();
            let part =
                |(part, utilization): &(String, Ratio)| json!({ "part": part, "utilization": utilization.get() });
            value["parts"] = Value::Array(uses.iter().map(part).collect());
            value["nodes"] = json!(modelled.worked());
            value["upkeep"] = json!(modelled.upkeep());
        }
        if let Some(cost) = Cost::of(&self.outcome) {
            value["generator"] = json!(cost);
        }
        if let Some(rounds) = &self.outcome.conclusion.rounds {
            value["rounds"] = json!({ "values": rounds.values, "window": rounds.window, "steady": rounds.is_steady() });
        }
        let verified = &self.outcome.conclusion.verified;
        if !verified.is_empty() {
            let device = |one: &verification::Verified| json!({ "device": one.device, "findings": one.findings });
            value["verification"] = Value::Array(verified.iter().map(device).collect());
        }
        value["interrupted"] = json!(self.outcome.conclusion.interrupted);
        if let Some(hosts) = &self.outcome.conclusion.hosts {
            value["ranks"] = json!(hosts.ranks);
            value["lost"] = json!(hosts.trouble);
        }
        if let Some((processors, generator)) = self.outcome.conclusion.processors {
            value["processors"] = json!(processors);
            value["generator_busy"] = json!(generator.get());
        }
        if let Some(timeline) = &self.outcome.conclusion.timeline {
            value["timeline"] = json!(timeline.tally);
        }
        if let Some(surroundings) = &self.outcome.conclusion.surroundings {
            value["surroundings"] = json!(surroundings);
        }
        let settings = self.point.settings.iter().map(|set| (set.key.clone(), json!(set.value)));
        value["settings"] = Value::Object(settings.collect());
        value
    }
}

/// Who is to blame for a run that did not start.
pub fn failure(error: RunError) -> Failure {
    match &error {
        RunError::Open(
            OpenError::Permission { .. }
            | OpenError::System { .. }
            | OpenError::Ring { .. }
            | OpenError::Refused { source: host::Refusal::NoSpace { .. } },
        )
        | RunError::Client(_)
        | RunError::Record(_)
        | RunError::Records(_)
        | RunError::Precondition { .. }
        | RunError::Thread(_) => Failure::world(error),
        RunError::Rank(trouble) if !trouble.input => Failure::world(error),
        _ => Failure::input(error),
    }
}
