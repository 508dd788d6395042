//! The files of a study: read and checked.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

use analysis::rounds::model::Seek;
use lab::Experiment;
use lab::library;
use lab::published::{self, Role, Row};
use lab::{Source, SourceError};
use machine::kit::Kit;
use machine::part::PartError;
use serde::Deserialize;
use toml::Spanned;
use units::Duration;

use crate::reproduce::{Bar, Fit, Part};

use super::bound::{Bound, Kind, said_of};
use super::expression::{self, Fault};
use super::formulas::{Formulas, Text};
use super::measure::Measure;
use super::points::{Experiments, NoPoint, Trials};
use super::unit::{Amount, Dimension, UNITS, Units};
use super::{Line, StudyError};

/// Where a study's files are.
#[derive(Debug, Clone)]
pub enum Files {
    /// In a folder of the user's.
    Folder(PathBuf),
    /// In the program.
    Built {
        /// The name of the folder in messages.
        folder: String,
        /// The text of what was measured.
        published: &'static str,
        /// The other files, each with its name.
        texts: &'static [(&'static str, &'static str)],
    },
}

/// What the files say.
pub(super) struct Read {
    pub name: String,
    /// The system, as [`machine::kit::Kit::load`] takes it.
    pub system: String,
    pub bar: Bar,
    pub rows: Vec<Row>,
    pub lines: BTreeMap<String, Line>,
    /// What its experiments have that was fitted.
    pub fitted: Vec<Fit>,
    /// Rows that nothing is said of, and why.
    pub left_out: BTreeMap<String, String>,
    /// Times between completions are cut off to whole ones of this.
    pub whole: Option<Duration>,
    /// The constants of the formulas for rounds.
    pub formulas: Option<Formulas>,
}

impl Files {
    /// A study's folder, or its `study.toml`, if the path is one.
    pub fn at(path: &Path) -> Option<Files> {
        if path.is_dir() {
            return Some(Files::Folder(path.to_owned()));
        }
        let is_file = path.file_name().is_some_and(|name| name == "study.toml");
        is_file.then(|| Files::Folder(path.parent().unwrap_or(Path::new("")).to_owned()))
    }

    /// What a file is called in messages.
    fn called(&self, name: &str) -> String {
        match self {
            Files::Folder(folder) => folder.join(name).display().to_string(),
            Files::Built { folder, .. } => format!("{folder}/{name}"),
        }
    }

    /// A file of the study, if it is there.
    fn find(&self, name: &str) -> Result<Option<Source>, StudyError> {
        let source = |text: String| Some(Source { name: self.called(name), text });
        match self {
            Files::Built { published, .. } if name == "published.csv" => Ok(source((*published).to_owned())),
            Files::Built { texts, .. } => {
                Ok((texts.iter()).find(|(known, _)| *known == name).and_then(|(_, text)| source((*text).to_owned())))
            }
            Files::Folder(folder) => match std::fs::read_to_string(folder.join(name)) {
                Ok(text) => Ok(source(text)),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                Err(error) => Err(StudyError::Missing { name: self.called(name), error }),
            },
        }
    }

    fn read(&self, name: &str) -> Result<Source, StudyError> {
        let missing = || StudyError::Missing { name: self.called(name), error: ErrorKind::NotFound.into() };
        self.find(name)?.ok_or_else(missing)
    }

    /// An experiment: of the study's folder or, where it has none of that name, one that comes with the program.
    pub(super) fn experiment(&self, name: &str) -> Result<Source, String> {
        let stem = name.strip_suffix(".toml").unwrap_or(name);
        let own = match self {
            Files::Folder(_) => vec![format!("experiments/{stem}.toml"), format!("{stem}.toml")],
            Files::Built { .. } => Vec::new(),
        };
        for file in &own {
            if let Some(source) = self.find(file).map_err(|error| error.to_string())? {
                return Ok(source);
            }
        }
        let tried: Vec<String> = own.iter().map(|file| self.called(file)).collect();
        library::named(stem).ok_or_else(|| {
            let neither = if tried.is_empty() {
                String::new()
            } else {
                format!("neither {} is a file, and ", tried.join(" nor "))
            };
            format!("there is no experiment '{name}': {neither}none of that name comes with the program")
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct StudyFile {
    kind: Spanned<String>,
    name: String,
    system: Spanned<String>,
    #[serde(default)]
    units: BTreeMap<String, Spanned<String>>,
    bar: Option<Spanned<BarFile>>,
    #[serde(default)]
    fitted: Vec<FittedFile>,
    #[serde(default)]
    left_out: Vec<LeftOutFile>,
    deltas: Option<DeltasFile>,
    formulas: Option<Spanned<FormulasFile>>,
}

/// How a study prints the times between completions.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeltasFile {
    whole: Spanned<Duration>,
}

/// Constants of the formulas for rounds. Rates are expressions.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FormulasFile {
    bus: Spanned<String>,
    medium: Spanned<String>,
    revolution: Duration,
    seek: SeekFile,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SeekFile {
    least: Duration,
    mean: Duration,
    greatest: Duration,
}

/// Rows that the model says nothing of.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LeftOutFile {
    rows: Vec<Spanned<String>>,
    because: String,
}

/// Something of the experiments that was chosen with rows in view. (A part says so of its values itself.)
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FittedFile {
    what: String,
    value: String,
    rows: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct BarFile {
    #[serde(default)]
    within_5: f64,
    #[serde(default)]
    within_10: f64,
    #[serde(default)]
    within_25: f64,
    median: Option<f64>,
    #[serde(default)]
    tables: f64,
    claims: Option<(usize, usize)>,
    fitted: Option<usize>,
    fitted_rows: Option<usize>,
}

/// What is asked of a study that asks for nothing: every number within 25 percent, and every claim.
const ALL: Bar = Bar {
    within_5: 0.0,
    within_10: 0.0,
    within_25: 1.0,
    median: 0.25,
    tables: 0.0,
    claims: (1, 1),
    parameters: usize::MAX,
    rows: usize::MAX,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimsFile {
    #[serde(default)]
    claim: Vec<ClaimFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimFile {
    row: Spanned<String>,
    experiment: Option<Spanned<String>>,
    point: Option<Spanned<String>>,
    holds: Spanned<String>,
}

/// A line of `rows.csv`.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Record {
    row: String,
    #[serde(default)]
    experiment: String,
    #[serde(default)]
    point: String,
    value: String,
    #[serde(default)]
    whole: String,
    #[serde(default)]
    table: String,
    #[serde(default)]
    counted_as: String,
}

/// What a line or a claim asks for, and where its words stand.
struct Asked<'s> {
    source: &'s Source,
    row: (&'s str, Range<usize>),
    experiment: (&'s str, Range<usize>),
    point: (&'s str, Range<usize>),
    expression: (&'s str, Range<usize>),
}

impl Asked<'_> {
    /// A fault of the expression, at its place in the file.
    fn fault(&self, fault: Fault) -> SourceError {
        let (source, (text, place)) = (self.source, &self.expression);
        // Within a text that stands in the file as it is: the place of its first letter.
        let first = source.text.get(place.clone()).and_then(|inside| inside.find(text)).map(|at| place.start + at);
        match first {
            Some(first) => source.error(first + fault.place.start..first + fault.place.end, fault.said),
            None => source.error(place.clone(), fault.said),
        }
    }
}

/// Reads and checks all files.
pub(super) fn read(files: &Files) -> Result<Read, StudyError> {
    let source = files.read("study.toml")?;
    let study: StudyFile = toml::from_str(&source.text).map_err(|error| source.toml_error(&error))?;
    if study.kind.get_ref() != "study" {
        return Err(source.error(study.kind.span(), "the kind of a study's file is \"study\"").into());
    }
    let mut units = Units::default();
    for (word, text) in &study.units {
        if !units.define(word, text.get_ref()) {
            let said = format!("what a unit means is a number and {UNITS}");
            return Err(source.error(text.span(), said).into());
        }
    }
    let bar = study.bar.as_ref().map(|bar| bar_of(&source, bar)).transpose()?.unwrap_or(ALL);
    let published = files.read("published.csv")?;
    let mut rows = published::parse(&published.name, &published.text)?;
    let fitted = study.fitted.iter().map(|fitted| fit_of(&source, fitted, &rows)).collect::<Result<_, _>>()?;
    let left_out = study.left_out.iter().map(|left| left.by_row(&source, &rows)).collect::<Result<Vec<_>, _>>()?;
    let left_out = left_out.into_iter().flatten().collect();
    let system = beside(files, study.system.get_ref());
    let experiments = Experiments::of(files);
    let (kit, lines) = (OnceCell::new(), BTreeMap::new());
    let mut reading = Reading { system: &system, kit, experiments, units, has_formulas: false, lines };
    let whole = study.deltas.map(|deltas| whole_of(&source, &deltas)).transpose()?;
    let mut formulas = study.formulas.map(|formulas| reading.formulas(&source, &formulas)).transpose()?;
    reading.has_formulas = formulas.is_some();
    let bindings = files.read("rows.csv")?;
    reading.bind(&bindings, &rows)?;
    if let Some(claims) = files.find("claims.toml")? {
        reading.claims(&claims, &mut rows)?;
    }
    let mut lines = reading.lines;
    let of_formulas = formulas.iter_mut().flat_map(|formulas| [&mut formulas.bus.bound, &mut formulas.medium.bound]);
    spans_where_they_are_asked_for(lines.values_mut().map(|line| &mut line.bound).chain(of_formulas).collect());
    Ok(Read { name: study.name, system, bar, rows, lines, fitted, left_out, whole, formulas })
}

fn whole_of(source: &Source, deltas: &DeltasFile) -> Result<Duration, SourceError> {
    match *deltas.whole.get_ref() {
        Duration::ZERO => Err(source.error(deltas.whole.span(), "times are cut off to whole units such as \"1 ms\"")),
        whole => Ok(whole),
    }
}

/// The path of a system's file that is named as seen from the study's folder.
fn beside(files: &Files, system: &str) -> String {
    match files {
        Files::Folder(_) => lab::system::beside(&files.called("study.toml"), system),
        Files::Built { .. } => system.to_owned(),
    }
}

impl LeftOutFile {
    fn by_row(&self, source: &Source, rows: &[Row]) -> Result<Vec<(String, String)>, SourceError> {
        let ids = numbers_of(source, &self.rows, rows)?;
        Ok(ids.into_iter().map(|id| (id, self.because.clone())).collect())
    }
}

/// The ids of rows, each of which has to be a number of the study.
fn numbers_of(source: &Source, ids: &[Spanned<String>], rows: &[Row]) -> Result<Vec<String>, SourceError> {
    let is_output = |id: &&Spanned<String>| rows.iter().any(|row| row.id == *id.get_ref() && row.role == Role::Output);
    if let Some(id) = ids.iter().find(|id| !is_output(id)) {
        return Err(source.error(id.span(), format!("there is no number '{}' in published.csv", id.get_ref())));
    }
    Ok(ids.iter().map(|id| id.get_ref().clone()).collect())
}

fn fit_of(source: &Source, fitted: &FittedFile, rows: &[Row]) -> Result<Fit, SourceError> {
    let rows = numbers_of(source, &fitted.rows, rows)?;
    Ok(Fit { parameter: fitted.what.clone(), value: fitted.value.clone(), rows })
}

fn bar_of(source: &Source, bar: &Spanned<BarFile>) -> Result<Bar, SourceError> {
    let BarFile { within_5, within_10, within_25, median, tables, claims, fitted, fitted_rows } = *bar.get_ref();
    let shares = [within_5, within_10, within_25, tables, median.unwrap_or(0.0)];
    let claims = claims.unwrap_or((0, 1));
    if shares.iter().any(|share| !(0.0..=1.0).contains(share)) || claims.0 > claims.1 || claims.1 == 0 {
        let said =
            "shares are from 0 to 1, as in within-10 = 0.8; claims are so many of so many, as in claims = [9, 10]";
        return Err(source.error(bar.span(), said));
    }
    let (median, parameters) = (median.unwrap_or(f64::MAX), fitted.unwrap_or(usize::MAX));
    let rows = fitted_rows.unwrap_or(usize::MAX);
    Ok(Bar { within_5, within_10, within_25, median, tables, claims, parameters, rows })
}

/// What is read line by line.
struct Reading<'f> {
    system: &'f str,
    /// The system, once an expression asked for a value of it.
    kit: OnceCell<Kit>,
    experiments: Experiments<'f>,
    units: Units,
    /// Whether the study has constants of formulas, so that its lines can ask for what they give.
    has_formulas: bool,
    lines: BTreeMap<String, Line>,
}

impl Reading<'_> {
    fn kit(&self) -> Result<&Kit, PartError> {
        match self.kit.get() {
            Some(kit) => Ok(kit),
            None => {
                let kit = Kit::load(self.system)?;
                Ok(self.kit.get_or_init(|| kit))
            }
        }
    }

    /// `rows.csv`.
    fn bind(&mut self, source: &Source, rows: &[Row]) -> Result<(), StudyError> {
        let by_id: BTreeMap<&str, &Row> = rows.iter().map(|row| (row.id.as_str(), row)).collect();
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(source.text.as_bytes());
        let headers = reader.headers().map_err(|error| source.error(0..0, error.to_string()))?.clone();
        for record in reader.records() {
            let place = |error: &csv::Error| error.position().map(|position| span(source, position.byte() as usize));
            let record = record.map_err(|error| source.error(place(&error), in_words(&error)))?;
            let line = record.position().map_or(0..0, |position| span(source, position.byte() as usize));
            let found: Record = record.deserialize(Some(&headers)).map_err(|error| {
                source.error(line.clone(), in_words(&error)).help(
                    "the first line of rows.csv is: row,experiment,point,value (and ,whole and ,table for parts of a whole, ,counted-as for what another row counts for)",
                )
            })?;
            let within = |text: &str| {
                let at = source.text[line.clone()].find(text).filter(|_| !text.is_empty());
                at.map_or(line.clone(), |at| line.start + at..line.start + at + text.len())
            };
            let row = by_id.get(found.row.as_str()).filter(|row| row.role != Role::Input).ok_or_else(|| {
                source.error(within(&found.row), format!("there is no number '{}' in published.csv", found.row))
            })?;
            if row.role == Role::Claim {
                let said = format!("'{}' is a claim; claims.toml says when it holds", found.row);
                return Err(source.error(within(&found.row), said).into());
            }
            let asked = Asked {
                source,
                row: (&found.row, within(&found.row)),
                experiment: (&found.experiment, within(&found.experiment)),
                point: (&found.point, within(&found.point)),
                expression: (&found.value, within(&found.value)),
            };
            let one = self.units.one(&row.unit).ok_or_else(|| {
                source.error(
                    within(&found.row),
                    format!("its unit is '{}', which means nothing here; write {UNITS}", row.unit),
                )
            })?;
            let mut whole = whole(&found.whole, &by_id).ok_or_else(|| {
                let said = format!("'{}' is neither a number nor a row that has one", found.whole);
                source.error(within(&found.whole), said)
            })?;
            match &mut whole {
                _ if found.table.is_empty() => {}
                Some(part) => part.table = Some(found.table.clone()),
                None => return Err(source.error(within(&found.table), "parts of a table say their whole, too").into()),
            }
            let counted_as = Some(found.counted_as.as_str()).filter(|id| !id.is_empty());
            if let Some(id) = counted_as.filter(|id| by_id.get(id).is_none_or(|row| row.role != Role::Output)) {
                return Err(source.error(within(id), format!("there is no number '{id}' in published.csv")).into());
            }
            self.line(&asked, Some(one), whole, counted_as.map(str::to_owned))?;
        }
        Ok(())
    }

    /// `claims.toml`. A bound that has an entry is judged as a claim.
    fn claims(&mut self, source: &Source, rows: &mut [Row]) -> Result<(), StudyError> {
        let file: ClaimsFile = toml::from_str(&source.text).map_err(|error| source.toml_error(&error))?;
        for claim in &file.claim {
            let id = claim.row.get_ref();
            let row = rows.iter_mut().find(|row| row.id == *id && matches!(row.role, Role::Claim | Role::Bound));
            let said = || source.error(claim.row.span(), format!("there is no claim '{id}' in published.csv"));
            row.ok_or_else(said)?.role = Role::Claim;
            let text = |of: &'_ Option<Spanned<String>>| of.as_ref().map_or(0..0, Spanned::span);
            let words = |of: &'_ Option<Spanned<String>>| of.as_ref().map_or("", |of| of.get_ref().as_str()).to_owned();
            let (experiment, point) = (words(&claim.experiment), words(&claim.point));
            let asked = Asked {
                source,
                row: (id, claim.row.span()),
                experiment: (&experiment, text(&claim.experiment)),
                point: (&point, text(&claim.point)),
                expression: (claim.holds.get_ref(), claim.holds.span()),
            };
            self.line(&asked, None, None, None)?;
        }
        Ok(())
    }

    /// `[formulas]` of `study.toml`.
    fn formulas(&mut self, source: &Source, of: &Spanned<FormulasFile>) -> Result<Formulas, StudyError> {
        let FormulasFile { bus, medium, revolution, seek } = of.get_ref();
        let mut rate = |text: &Spanned<String>| {
            let nothing = ("", 0..0);
            let expression = (text.get_ref().as_str(), text.span());
            let asked = Asked { source, row: nothing.clone(), experiment: nothing.clone(), point: nothing, expression };
            match self.bind_one(&asked)? {
                (bound, Kind::Number(Dimension::RATE)) => Ok(Text { text: text.get_ref().clone(), bound }),
                _ => Err(StudyError::from(source.error(text.span(), "a rate is wanted, in bytes a second"))),
            }
        };
        let (bus, medium) = (rate(bus)?, rate(medium)?);
        let seek = Seek { least: seek.least, mean: seek.mean, greatest: seek.greatest };
        let formulas = Formulas { bus, medium, revolution: *revolution, seek };
        match formulas.check() {
            Ok(()) => Ok(formulas),
            Err(error) => Err(source.error(of.span(), error.to_string()).into()),
        }
    }

    /// Binds an expression to its points, and says what it comes to.
    fn bind_one(&mut self, asked: &Asked) -> Result<(Bound, Kind), StudyError> {
        let Asked { source, experiment, point, expression: (text, _), .. } = asked;
        let fault = |fault: Fault| asked.fault(fault);
        let mut expression = expression::parse(text, &self.units).map_err(fault)?;
        let own = expression::point(point.0).map_err(|said| source.error(point.1.clone(), said))?;
        let mut trials: Vec<Trials> = Vec::new();
        for quantity in &mut expression.quantities {
            if quantity.measure == Measure::Value {
                let said = |said| fault(Fault { place: quantity.place.clone(), said });
                quantity.dimension = said_of(self.kit()?, &quantity.names[0]).map_err(said)?.dimension;
                trials.push(Trials::default());
                continue;
            }
            if matches!(quantity.measure, Measure::Formula(_)) && !self.has_formulas {
                let said = "study.toml has no [formulas] for it: bus, medium, revolution and seek".to_owned();
                return Err(fault(Fault { place: quantity.place.clone(), said }).into());
            }
            let of = quantity.experiment.as_deref().unwrap_or(experiment.0);
            if of.is_empty() {
                let said = "of which experiment? The line names none; write one into its column, or bandwidth[EXPERIMENT; key=value]";
                return Err(fault(Fault { place: quantity.place.clone(), said: said.to_owned() }).into());
            }
            // Another experiment has other points.
            let mut keys = if quantity.experiment.is_some() { Vec::new() } else { own.clone() };
            keys.retain(|(key, _)| !quantity.point.iter().any(|(other, _)| other == key));
            keys.extend(quantity.point.iter().cloned());
            trials.push(self.experiments.choose(of, &keys).map_err(|error| match error {
                NoPoint::Study(error) => error,
                NoPoint::Said(said) if quantity.experiment.is_none() && quantity.point.is_empty() => {
                    let place = if own.is_empty() { &experiment.1 } else { &point.1 };
                    source.error(place.clone(), said).into()
                }
                NoPoint::Said(said) => fault(Fault { place: quantity.place.clone(), said }).into(),
            })?);
        }
        let bound = Bound { expression, trials };
        let kind = bound.check().map_err(fault)?;
        Ok((bound, kind))
    }

    /// Keeps what a row or a claim is bound to, if it is what is wanted of it.
    fn line(
        &mut self,
        asked: &Asked,
        unit: Option<Amount>,
        whole: Option<Part>,
        counted_as: Option<String>,
    ) -> Result<(), StudyError> {
        let (bound, kind) = self.bind_one(asked)?;
        let (source, row, text) = (asked.source, &asked.row, asked.expression.0);
        let wrong = |said: String| Err(asked.fault(Fault { place: 0..text.len(), said }).into());
        match (kind, unit) {
            (Kind::Number(found), Some(one)) if found != one.dimension => {
                return wrong(format!(
                    "a unit that does not fit: this is {found}, and the row's unit is of {}",
                    one.dimension
                ));
            }
            (Kind::Truth, Some(_)) => return wrong("a comparison, where a number is wanted".to_owned()),
            (Kind::Number(_), None) => {
                return wrong("a number, where a comparison is wanted, such as bandwidth > 2 MB/s".to_owned());
            }
            _ => {}
        }
        let line = Line { text: text.to_owned(), bound, unit, whole, counted_as };
        match self.lines.insert(row.0.to_owned(), line) {
            None => Ok(()),
            Some(_) => Err(source.error(row.1.clone(), format!("'{}' is said twice; say it once", row.0)).into()),
        }
    }
}

/// Spans cost time and memory: they are kept where an expression asks for the time of a phase, and otherwise not,
/// whatever an experiment says of them when it is run by itself. A trial of several lines is run once, so it is all or
/// none.
fn spans_where_they_are_asked_for(bounds: Vec<&mut Bound>) {
    let asks = |bound: &&mut Bound| bound.expression.quantities.iter().any(|of| of.measure.wants_spans());
    let are_asked_for = bounds.iter().any(asks);
    for trials in bounds.into_iter().flat_map(|bound| &mut bound.trials) {
        let so = |experiment: &Experiment| {
            let mut experiment = experiment.clone();
            experiment.system.iter_mut().for_each(|system| system.spans = are_asked_for);
            experiment
        };
        trials.experiments = trials.experiments.iter().map(so).collect();
    }
}

/// The line that begins at a byte.
fn span(source: &Source, from: usize) -> Range<usize> {
    let rest = source.text.get(from..).unwrap_or_default();
    // The reader counts the end of the line before to the next.
    let begin = from + rest.len() - rest.trim_start_matches(['\r', '\n']).len();
    let length = source.text.get(begin..).unwrap_or_default().find('\n');
    begin.min(source.text.len())..length.map_or(source.text.len(), |length| begin + length)
}

/// A fault of a CSV file without the reader's own place, which ours stands for.
fn in_words(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} fields, where the first line has {expected_len}; a text with commas stands in \"quotes\"")
        }
        csv::ErrorKind::Deserialize { err, .. } => err.kind().to_string(),
        _ => error.to_string(),
    }
}

/// What a number is a part of: a number, or the row that has it; nothing for an empty text.
fn whole(text: &str, rows: &BTreeMap<&str, &Row>) -> Option<Option<Part>> {
    if text.is_empty() {
        return Some(None);
    }
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    let whole = number.or_else(|| rows.get(text)?.value())?;
    Some(Some(Part { table: number.is_none().then(|| text.to_owned()), whole }))
}
