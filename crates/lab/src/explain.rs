//! Explaining a run that was kept, or a trace of another program: the files are read here, and what they say is found
//! in `analysis`.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use analysis::explain::{AloneWatch, BurstWatch, StallWatch, Together, steps};
use analysis::explain::{Explanation, Findings, Make, PartTime, PartTimes, Worsts, explain as conclude};
use analysis::rounds::model::Prediction;
use analysis::rounds::{Finish, Merged, rounds};
use analysis::surroundings::Surroundings;
use analysis::{Advice, Course, Extents, Occupancies, Summarizer, Summary};
use record::{
    Clock, FolderError, ImportError, Labels, Meta, Records, Row, RowReader, RunFile, RunFolder, RunState, SpanLog,
    SpanReader, TableError, TraceFormat, TraceText, import, live_phases,
};
use serde::Deserialize;
use units::{Duration, Instant, Ratio};

use crate::experiment::Experiment;
use crate::kept::is_survey;
use crate::modelled::Worked;
use crate::source::Source;
use crate::{advice, document};

mod cures;
mod formulas;
mod shared;

/// Rounds are looked for in so many completions; 64 MiB of stamps.
const MOST_FINISHES: usize = 1 << 22;

/// A picture of more requests than this is a blur, and a file that browsers take long to open.
const MOST_BARS: usize = 20_000;

/// The way through the parts is shown of this many requests of the picture: of as many the study of PC file servers
/// looked at it.
const MOST_WAYS: usize = 100;

/// The picture shows about so many requests of each device, if nobody says.
const BARS_EACH: usize = 8;

/// What is to be explained.
#[derive(Debug, Clone)]
pub enum Subject {
    /// A run folder, or its file of records.
    Run(PathBuf),
    /// Traces of another program.
    Trace(Vec<PathBuf>, Option<TraceFormat>),
}

impl Subject {
    /// The files that it is read from, and what else its run keeps: no result may take their place.
    pub fn files(&self) -> Vec<PathBuf> {
        match self {
            Subject::Trace(paths, _) => paths.clone(),
            Subject::Run(path) => {
                let folder = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
                let kept = folder.and_then(|folder| RunFolder::open(folder).ok());
                let mut files = kept.map_or(vec![], |(folder, _)| folder.files());
                files.push(path.clone());
                files
            }
        }
    }
}

/// An explanation, and what is needed to draw it.
#[derive(Debug)]
pub struct Explained {
    /// What was found.
    pub explanation: Explanation,
    /// Names of the devices.
    pub names: Vec<String>,
    /// The requests of the picture, in order of completion.
    pub rows: Vec<Row>,
    /// The time that it shows.
    pub window: (Instant, Instant),
    /// The spans of the first of these requests, where spans were kept.
    pub ways: Option<SpanLog>,
    /// What it came to.
    pub summary: Summary,
    /// How it went.
    pub course: Course,
    /// What it was.
    pub origin: Origin,
}

/// Where rows come from.
#[derive(Debug, Default)]
pub struct Origin {
    /// What the run is called.
    pub title: String,
    /// When it began, if that is known.
    pub started: Option<SystemTime>,
    /// On what it was, and how it ended.
    pub about: &'static str,
    /// What its folder says of how it was run: names of files, and their text.
    pub files: Vec<(&'static str, String)>,
}

/// Why there is no explanation.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum ExplainError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Import(#[from] ImportError),
    #[error("{}: {source}; give the path of a run folder, a records.parquet, or, with --trace, a trace", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}: this is no text; give what `blkparse` prints of a binary trace, or a latency log of fio", .0.display())]
    NotText(PathBuf),
    #[error("{0} holds no counted requests: nothing can be explained; was the run interrupted in its start-up?")]
    Nothing(String),
    #[error(
        "all {errors} counted requests of {run} failed, so that there is nothing to explain; the kernel's log (dmesg) says what is wrong with the device"
    )]
    AllFailed { run: String, errors: u64 },
    #[error(
        "{0} is a survey: its measurements are unlike each other, and their average is of nothing; 'arraylab explain {0}' shows the verdicts of the survey"
    )]
    Survey(String),
    #[error(
        "{shown} requests lie in {window}, more than the {MOST_BARS} that can be told apart; take a shorter --window"
    )]
    TooManyBars { shown: usize, window: Duration },
}

/// What a run folder keeps of interest besides rows, in its summary.
#[derive(Deserialize, Default)]
struct Kept {
    generator_busy: Option<f64>,
    timeline: Option<crate::timeline::Tally>,
    surroundings: Option<Surroundings>,
    #[serde(default)]
    advice: Vec<Advice>,
    /// What the nodes of a modelled machine did.
    #[serde(default)]
    nodes: Vec<Worked>,
    /// What its arrays did beside the requests, in words.
    #[serde(default)]
    upkeep: Vec<String>,
}

/// The rows, wherever they are.
enum Rows {
    Kept(Box<Records>),
    Imported(Vec<Row>),
}

impl Rows {
    fn visit(&mut self, mut take: impl FnMut(&[Row])) -> Result<(), FolderError> {
        match self {
            Rows::Imported(rows) => take(rows),
            Rows::Kept(records) => records.visit(|rows| {
                take(rows);
                Ok::<(), FolderError>(())
            })?,
        }
        Ok(())
    }
}

/// What was read, before anything was made of it.
struct Case {
    origin: Origin,
    rows: Rows,
    meta: Meta,
    kept: Kept,
    shared: Vec<analysis::explain::Shared>,
    /// Where spans are kept, if they are.
    spans: Option<PathBuf>,
    experiment: Option<Experiment>,
    predicted: Option<Prediction>,
    remarks: Vec<String>,
}

impl Case {
    /// Rows of which nothing else is known.
    fn of(origin: Origin, rows: Rows, meta: Meta) -> Case {
        Case {
            origin,
            rows,
            meta,
            kept: Kept::default(),
            shared: Vec::new(),
            spans: None,
            experiment: None,
            predicted: None,
            remarks: Vec::new(),
        }
    }
}

/// Explains. `threshold` is that of large deltas, `window` the time that the picture shows, from the middle of the run
/// on.
pub fn explain(
    subject: &Subject,
    threshold: Option<Duration>,
    window: Option<Duration>,
) -> Result<Explained, ExplainError> {
    let mut case = match subject {
        Subject::Run(path) => run(path)?,
        Subject::Trace(paths, format) => trace(paths, *format)?,
    };
    let labels = case.meta.labels.clone();
    let (mut summarizer, mut worsts, mut extents) = (Summarizer::new(&labels), Worsts::default(), Extents::default());
    let mut merged = Merged::at_most(MOST_FINISHES);
    // Spans and rows are files of their own, and each takes seconds where there are millions.
    let kept = case.spans.take();
    let spans = kept.clone().map(|path| std::thread::spawn(move || part_times(&path)));
    case.rows.visit(|rows| {
        summarizer.add(rows);
        worsts.add(rows);
        extents.add(rows);
        merged.add(rows);
    })?;
    let left_out = merged.left_out();
    let finishes = merged.finish();
    if finishes.is_empty() {
        let errors = summarizer.summary().total.figures.errors;
        let run = case.origin.title;
        return Err(if errors > 0 { ExplainError::AllFailed { run, errors } } else { ExplainError::Nothing(run) });
    }
    let mut occupancies = Occupancies::new(&summarizer);
    let mut course = extents.course(labels.devices.len());
    let (mut stalls, mut alone) = (StallWatch::default(), AloneWatch::default());
    let around = case.kept.surroundings.as_ref();
    let mut bursts = BurstWatch::new(around.map_or(&[], |around| &around.intervals), labels.devices.len());
    case.rows.visit(|rows| {
        occupancies.add(rows);
        course.add(rows);
        stalls.add(rows);
        alone.add(rows);
        bursts.add(rows);
    })?;
    if left_out > 0 {
        let of = MOST_FINISHES as u64 + left_out;
        case.remarks.push(format!("rounds were looked for in the first {MOST_FINISHES} of {of} completions"));
    }
    let found = rounds(&finishes, &labels.devices, threshold).map_err(|error| error.to_string());
    let (window, rows) = picture(&mut case.rows, &finishes, labels.devices.len(), window)?;
    let ways = kept.map_or(Ok(None), |path| ways(&path, &rows, window)).map_err(FolderError::Table)?;
    let summary = summarizer.summary();
    let occupancies = occupancies.finish();
    let spans = spans.map_or(Ok(vec![]), |spans| spans.join().expect("reading does not panic"));
    let spans = spans.map_err(FolderError::Table)?;
    // A modelled part does one thing at a time, and is used as much as it works; of a live device the kernel says only
    // where requests were.
    let (parts, timeline) = match case.meta.clock {
        Clock::Simulated => (counted(spans, &case.kept.nodes), vec![]),
        Clock::Live => (vec![], in_order(spans)),
    };
    let cures = cures::cures(case.experiment.as_ref(), &summary, &occupancies);
    let loads = case.experiment.as_ref().map(|experiment| advice::loads(experiment, labels.devices.len()));
    let explanation = conclude(Findings {
        summary: &summary,
        occupancies: &occupancies,
        rounds: found,
        predicted: case.predicted,
        parts,
        timeline,
        loads: loads.as_deref().unwrap_or_default(),
        surroundings: around,
        stalls: stalls.finish(&labels.devices),
        bursts: around.map_or(vec![], |around| bursts.finish(around, &labels.devices)),
        // Of a model its parts say why it is slower.
        steps: if case.meta.clock == Clock::Live { steps(&course, &labels.devices) } else { vec![] },
        together: Together::of(&course, labels.devices.len()),
        alone: alone.finish(&labels.devices),
        shared: case.shared,
        generator_busy: case.kept.generator_busy.filter(|busy| *busy >= 0.0).map(Ratio::new),
        worst: worsts.finish(&labels.devices),
        cures,
        advice: case.kept.advice,
        remarks: case.remarks,
    });
    Ok(Explained { explanation, names: labels.devices, rows, window, ways, summary, course, origin: case.origin })
}

/// The window of the picture and the requests in it, and one completion before, from which the first gap is counted.
fn picture(
    rows: &mut Rows,
    finishes: &[Finish],
    devices: usize,
    length: Option<Duration>,
) -> Result<((Instant, Instant), Vec<Row>), ExplainError> {
    let middle = finishes.len() / 2;
    let begin = finishes[middle];
    let same_pass = |finish: &&Finish| finish.pass == begin.pass;
    let last =
        finishes[middle..].iter().take_while(same_pass).take(BARS_EACH * devices.max(1) + 1).last().expect("itself");
    let soonest = begin.at.saturating_add(Duration::nanos(1));
    let end = length.map_or(last.at, |length| begin.at.saturating_add(length)).max(soonest);
    let mut shown: Vec<Row> = Vec::new();
    let (mut count, mut over) = (0, begin.at);
    rows.visit(|some| {
        let inside = |row: &&Row| row.pass == begin.pass && row.completed >= begin.at && row.intended < end;
        for row in some.iter().filter(inside) {
            count += 1;
            over = over.max(row.completed);
            if count <= MOST_BARS {
                shown.push(*row);
            }
        }
    })?;
    // A longer window than the rest of the pass ends with it.
    let end = end.min(over.max(soonest));
    if count > MOST_BARS {
        return Err(ExplainError::TooManyBars { shown: count, window: end.since(begin.at) });
    }
    shown.sort_by_key(|row| row.completed);
    Ok(((begin.at, end), shown))
}

/// What the first of these requests did in each part; nothing if no file of spans was kept.
fn ways(path: &Path, rows: &[Row], window: (Instant, Instant)) -> Result<Option<SpanLog>, TableError> {
    let mut first: Vec<&Row> = rows.iter().collect();
    first.sort_by_key(|row| row.intended);
    let requests = first.iter().take(MOST_WAYS).map(|row| row.request.into()).collect();
    if_there(SpanLog::read_some(path, &requests, window))
}

/// Nothing where there is no file.
fn if_there<T>(read: Result<T, TableError>) -> Result<Option<T>, TableError> {
    match read {
        Err(TableError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Where the time went, by the file of spans; nothing if there is none.
fn part_times(path: &Path) -> Result<Vec<PartTime>, TableError> {
    let Some((mut reader, _)) = if_there(SpanReader::open(path))? else { return Ok(vec![]) };
    let mut times = PartTimes::default();
    reader.visit(|names, spans| times.add(names, spans))?;
    Ok(times.finish(reader.names()))
}

/// A run folder, or its records alone.
fn run(path: &Path) -> Result<Case, ExplainError> {
    if path.extension().is_some_and(|extension| extension == "parquet") {
        let (reader, meta) = RowReader::open(path).map_err(FolderError::Table)?;
        let (title, about) = (path.display().to_string(), "the records of a run");
        let rows = Rows::Kept(Box::new(Records::Table(reader)));
        return Ok(Case::of(Origin { title, about, ..Origin::default() }, rows, meta));
    }
    let (folder, info) = RunFolder::open(path)?;
    if is_survey(&folder)? {
        return Err(ExplainError::Survey(path.display().to_string()));
    }
    let (records, meta) = folder.records()?;
    let mut remarks = Vec::new();
    if info.state != RunState::Complete {
        remarks.push("the run was ended early, or goes on: this is of what was recorded".to_owned());
    }
    let kept: Kept = folder.read_json(RunFile::Summary)?.unwrap_or_default();
    let shared =
        shared::shared(&folder.read_json::<Vec<_>>(RunFile::Topology)?.unwrap_or_default(), &meta.labels.devices);
    remarks.extend(kept.timeline.iter().map(ToString::to_string));
    remarks.extend(kept.upkeep.iter().cloned());
    let experiment = folder.read(RunFile::Experiment)?.and_then(|text| experiment(&text));
    let held = experiment.iter().flat_map(|experiment| &experiment.slow);
    remarks.extend(held.map(|slow| format!("held up on purpose: {}", slow.said(&meta.labels.devices))));
    let predicted = experiment
        .as_ref()
        .and_then(formulas::predict)
        .and_then(|predicted| predicted.map_err(|why| remarks.push(format!("no formulas for its rounds: {why}"))).ok());
    let about = match (meta.clock, info.state) {
        (Clock::Live, RunState::Complete) => "on real devices",
        (Clock::Live, RunState::Interrupted) => "on real devices, ended early",
        (Clock::Live, RunState::Running) => "on real devices, not at its end, or killed",
        (Clock::Simulated, RunState::Complete) => "in virtual time",
        (Clock::Simulated, _) => "in virtual time, ended early",
    };
    let files = crate::kept::texts(|file| folder.read(file))?;
    let origin = Origin { title: info.name, started: info.started, about, files };
    Ok(Case {
        origin,
        rows: Rows::Kept(Box::new(records)),
        meta,
        kept,
        shared,
        spans: Some(folder.spans_path()),
        experiment,
        predicted,
        remarks,
    })
}

/// The parts with what the machine itself has counted of their work, where it has: spans are of requests, and of a part
/// that serves several of them at a time, or that only carries what another part sends, they do not say how much of it
/// is used. What an operating system does is work of its processors.
fn counted(mut parts: Vec<PartTime>, nodes: &[Worked]) -> Vec<PartTime> {
    if nodes.is_empty() {
        return parts;
    }
    parts.iter_mut().for_each(|part| part.busy = Ratio::ZERO);
    for node in nodes {
        let make = Some(Make { kind: node.kind.clone(), part: node.part.clone() });
        match (parts.iter_mut().find(|part| part.part == node.node), node.at_work) {
            (Some(part), at_work) => (part.busy, part.make) = (Ratio::new(at_work.unwrap_or(0.0)), make),
            (None, Some(at_work)) => {
                parts.push(PartTime { make, ..PartTime::at_work(node.node.clone(), Ratio::new(at_work)) });
            }
            (None, None) => {}
        }
    }
    parts.sort_by(|a, b| b.busy.get().total_cmp(&a.busy.get()));
    parts
}

/// Phases in the order in which a request passes them.
fn in_order(mut timeline: Vec<PartTime>) -> Vec<PartTime> {
    let place = |name: &str| live_phases::ALL.iter().position(|phase| *phase == name);
    timeline.iter_mut().for_each(|part| part.phases.sort_by_key(|phase| place(&phase.phase)));
    timeline
}

/// What a kept run was, if its text is still one.
fn experiment(text: &[u8]) -> Option<Experiment> {
    let text = std::str::from_utf8(text).ok()?.to_owned();
    let points = document::read(&Source { name: RunFile::Experiment.name().to_owned(), text }, &[]).ok()?;
    let [point] = <[_; 1]>::try_from(points).ok()?;
    Some(point.experiment)
}

/// Traces of another program.
fn trace(paths: &[PathBuf], format: Option<TraceFormat>) -> Result<Case, ExplainError> {
    let mut texts = Vec::new();
    for path in paths {
        let bytes = std::fs::read(path).map_err(|source| ExplainError::Read { path: path.clone(), source })?;
        let text = String::from_utf8(bytes).map_err(|_| ExplainError::NotText(path.clone()))?;
        texts.push((path.display().to_string(), text));
    }
    let given: Vec<TraceText> = texts.iter().map(|(name, text)| TraceText { name, text }).collect();
    let imported = import(&given, format)?;
    let mut remarks = imported.remarks;
    if imported.unmatched > 0 {
        remarks
            .push(format!("{} completions are left out, as their beginning is not in the trace", imported.unmatched));
    }
    let title = texts.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    let labels: Labels = imported.labels;
    let meta = Meta { run: title.clone(), clock: Clock::Live, origin: None, labels };
    let rows = Rows::Imported(imported.rows);
    let origin = Origin { title, about: "traced by another program", ..Origin::default() };
    Ok(Case { remarks, ..Case::of(origin, rows, meta) })
}
