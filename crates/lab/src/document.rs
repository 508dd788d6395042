//! An experiment's file before it is read: `--set` and the sweep applied.
//!
//! Values are replaced in the parsed TOML, not in the text, and keep the place they came from, so that an error in the
//! third value of a sweep axis points at that value. A key is a path: `run.measure`, `io.mode`, `stream.NAME.depth` (a
//! stream by its name, by its number from 0, or all of them as `*`), with the same words as in the file; and in an
//! experiment on a modelled machine also a value of one of its parts, `PART.VALUE`.

use std::borrow::Cow;
use std::collections::BTreeSet;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::experiment::Experiment;
use crate::gain::Basis;
use crate::source::{Source, SourceError};

/// A change to an experiment: a key and the text of its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Path of the key.
    pub key: String,
    /// A TOML value; a text without quotes will do.
    pub value: String,
}

/// One combination of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// What the sweep set, in the order of the axes; empty without a sweep.
    pub settings: Vec<Setting>,
    /// What runs.
    pub experiment: Experiment,
    /// The place among all points of the one that its gain is over, which is itself for that one; nothing where the
    /// experiment asks for no gain.
    pub baseline: Option<usize>,
}

impl Point {
    /// What tells it from the others of its sweep.
    pub fn label(&self) -> String {
        let settings: Vec<String> = self.settings.iter().map(|set| format!("{} = {}", set.key, set.value)).collect();
        settings.join(", ")
    }

    /// One that no sweep has made.
    pub fn alone(experiment: Experiment) -> Point {
        Point { settings: Vec::new(), experiment, baseline: None }
    }
}

/// All streams, where a key names one.
const EACH: &str = "*";

/// Points beyond this number are a slip of the hand, not a plan.
const MOST_POINTS: usize = 10_000;

impl Setting {
    /// Whether it changes a value of a part of a modelled machine; otherwise it changes the experiment itself.
    pub fn is_of_a_part(&self) -> bool {
        self.key.starts_with("system.parts.") || !is_own(&self.key)
    }
    /// The name of the part's value.
    pub fn part_key(&self) -> &str {
        self.key.strip_prefix("system.parts.").unwrap_or(&self.key)
    }
}

impl std::str::FromStr for Setting {
    type Err = String;
    fn from_str(text: &str) -> Result<Setting, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() && !value.trim().is_empty() => {
                Ok(Setting { key: key.trim().to_owned(), value: value.trim().to_owned() })
            }
            _ => {
                Err(format!("'{text}' is not of the form key=value, such as run.measure=5s or stream.readers.depth=8"))
            }
        }
    }
}

/// Reads an experiment: all points of its sweep, in order, the last axis running fastest. Never empty.
pub fn read(source: &Source, settings: &[Setting]) -> Result<Vec<Point>, SourceError> {
    let given = Given::all(source, settings);
    points(source, &given).map_err(|error| given.iter().find_map(|given| given.find(&error)).unwrap_or(error))
}

fn points(source: &Source, given: &[Given]) -> Result<Vec<Point>, SourceError> {
    let document = DeTable::parse(&source.text).map_err(|error| source.toml_error(&error))?;
    let mut base = document.clone();
    let mut fixed = Vec::new();
    for given in given {
        // What --set says about a swept key replaces the axis.
        if let Some(sweep) = base.get_mut().get_mut("sweep")
            && let DeValue::Table(axes) = sweep.get_mut()
        {
            fixed.extend(axes.remove(given.setting.key.as_str()).map(|_| given.setting.key.as_str()));
        }
        given.put(source, &mut base)?;
    }
    let axes = axes(source, base.get_ref())?;
    let count = axes.iter().try_fold(1usize, |product, axis| product.checked_mul(axis.values.len()));
    if count.is_none_or(|count| count > MOST_POINTS) {
        let place = base.get_ref().get("sweep").map(Spanned::span);
        return Err(source.error(place, format!("the sweep has more than {MOST_POINTS} points")));
    }
    let lengths: Vec<(&str, usize)> = axes.iter().map(|axis| (axis.key.as_str(), axis.values.len())).collect();
    let basis = Basis::read(source, base.get_ref(), &lengths, &fixed)?;
    let count = count.expect("checked above");
    // Those of hundreds of points are rarely wanted, and take longer to write than the points to run.
    let without_spans = count > 1 && !says_whether_spans_are_kept(base.get_ref());
    let mut points = Vec::new();
    for index in 0..count {
        let mut table = base.clone();
        let mut chosen = Vec::new();
        let mut rest = index;
        for axis in axes.iter().rev() {
            let value = axis.values[rest % axis.values.len()].clone();
            rest /= axis.values.len();
            chosen.push(Setting { key: axis.key.clone(), value: text_of(source, given, &value) });
            put(source, table.get_mut(), &axis.key, value, axis.place.clone())?;
        }
        chosen.reverse();
        let expanded = crate::program::expand(source, table.get_mut());
        let experiment = expanded.and_then(|()| Experiment::read(source, table));
        let mut experiment = experiment.map_err(|error| blame(source, &document, given, error))?;
        experiment.system.iter_mut().filter(|_| without_spans).for_each(|system| system.spans = false);
        points.push(Point { settings: chosen, experiment, baseline: basis.as_ref().map(|basis| basis.of(index)) });
    }
    match unused(&points, given) {
        Some((key, why)) => Err(source.error(place_of(given, &key), why)),
        None => Ok(points),
    }
}

/// A value that `--set` changes of a part that no machine of the points has, and why that is refused. Values in the
/// file are not looked at: a point of a sweep over machines is kept with the values of all machines.
fn unused(points: &[Point], given: &[Given]) -> Option<(String, String)> {
    let systems = || points.iter().filter_map(|point| point.experiment.system.as_ref());
    let keys = systems().flat_map(|system| system.parts.iter().map(|(key, _)| &**key));
    let mut open: BTreeSet<&str> = keys.filter(|key| place_of(given, key).is_some()).collect();
    let mut last = None;
    for system in systems() {
        if open.is_empty() {
            return None;
        }
        // What is wrong with a system is said where it is read.
        let kit = system.kit().ok()?;
        open.retain(|key| !system.parts.iter().any(|(known, _)| known == key) || !kit.uses(key));
        last = Some(kit);
    }
    let key = open.pop_first()?;
    Some((key.to_owned(), last?.unused(key).to_string()))
}

/// Where `--set` says the value of a part.
fn place_of(given: &[Given], key: &str) -> Option<std::ops::Range<usize>> {
    let given = given.iter().find(|given| given.setting.part_key() == key)?;
    Some(given.first..given.first + given.setting.key.len())
}

fn says_whether_spans_are_kept(table: &DeTable) -> bool {
    let system = table.get("system").and_then(|system| system.get_ref().as_table());
    let swept = table.get("sweep").and_then(|sweep| sweep.get_ref().as_table());
    system.is_some_and(|system| system.contains_key("spans"))
        || swept.is_some_and(|axes| axes.contains_key("system.spans"))
}

struct Axis<'t> {
    key: String,
    place: std::ops::Range<usize>,
    values: Vec<Spanned<DeValue<'t>>>,
}

fn axes<'t>(source: &Source, table: &DeTable<'t>) -> Result<Vec<Axis<'t>>, SourceError> {
    let Some(sweep) = table.get("sweep") else { return Ok(Vec::new()) };
    let DeValue::Table(sweep_table) = sweep.get_ref() else {
        return Err(source.error(sweep.span(), "[sweep] is a table: \"key\" = [value, value, …]"));
    };
    let mut axes = Vec::new();
    for (key, values) in sweep_table.iter() {
        match values.get_ref() {
            DeValue::Array(list) if !list.is_empty() => axes.push(Axis {
                key: key.get_ref().to_string(),
                place: key.span(),
                values: list.iter().cloned().collect(),
            }),
            _ => {
                return Err(source
                    .error(values.span(), "an axis of a sweep is a list of values")
                    .help("such as \"stream.readers.depth\" = [1, 2, 4]"));
            }
        }
    }
    axes.sort_by_key(|axis| axis.place.start);
    Ok(axes)
}

/// A value as it stood in the text.
fn text_of(source: &Source, given: &[Given], value: &Spanned<DeValue>) -> String {
    if let DeValue::String(text) = value.get_ref() {
        return text.to_string();
    }
    let given = given.iter().find_map(|given| Some((&given.text, given.local(value.span())?)));
    let (text, place) = given.unwrap_or((source, value.span()));
    text.text.get(place).unwrap_or_default().to_owned()
}

/// Makes a TOML document of a value.
const PREFIX: &str = "v = ";

/// A `--set` as a text that errors can point into.
///
/// Values that it brings into the document carry places behind the end of the file, a range of them for each `--set`;
/// so an error in them is told from one in the file, and finds its way back.
struct Given {
    setting: Setting,
    /// As it was typed.
    text: Source,
    /// The place of its first byte.
    first: usize,
    /// Its value as the TOML `v = VALUE`.
    toml: String,
}

impl Given {
    fn all(file: &Source, settings: &[Setting]) -> Vec<Given> {
        // The byte after the last is a place in the file, too: that of an error at its end.
        let mut first = file.text.len() + 1;
        let mut all = Vec::new();
        for setting in settings {
            let text = Source { name: "--set".into(), text: format!("{}={}", setting.key, setting.value) };
            let next = first + text.text.len() + 1;
            let toml = format!("{PREFIX}{}", setting.value);
            all.push(Given { setting: setting.clone(), text, first, toml });
            first = next;
        }
        all
    }

    /// Puts the setting into a document.
    fn put<'t>(&'t self, file: &Source, document: &mut Spanned<DeTable<'t>>) -> Result<(), SourceError> {
        // TOML if it is TOML, otherwise the text itself.
        let toml = self.toml.as_str();
        let parsed = DeTable::parse(toml).ok().and_then(|mut table| table.get_mut().remove("v"));
        let bare = || Spanned::new(PREFIX.len()..toml.len(), DeValue::String(Cow::Borrowed(&toml[PREFIX.len()..])));
        let value = self.moved(parsed.unwrap_or_else(bare));
        let place = self.first..self.first + self.setting.key.len();
        put(file, document.get_mut(), &self.setting.key, value, place)
    }

    /// The value with places in this text instead of places in `v = VALUE`.
    fn moved<'t>(&self, value: Spanned<DeValue<'t>>) -> Spanned<DeValue<'t>> {
        let value_begins = self.first + self.setting.key.len() + "=".len();
        let shift = |place: std::ops::Range<usize>| {
            place.start + value_begins - PREFIX.len()..place.end + value_begins - PREFIX.len()
        };
        let place = shift(value.span());
        let moved = match value.into_inner() {
            DeValue::Array(list) => DeValue::Array(list.into_iter().map(|item| self.moved(item)).collect()),
            DeValue::Table(table) => {
                let entry = |(key, value): (Spanned<Cow<'t, str>>, _)| {
                    (Spanned::new(shift(key.span()), key.into_inner()), self.moved(value))
                };
                DeValue::Table(table.into_iter().map(entry).collect())
            }
            plain => plain,
        };
        Spanned::new(place, moved)
    }

    /// A place of the document as one in this text, if it is there.
    fn local(&self, place: std::ops::Range<usize>) -> Option<std::ops::Range<usize>> {
        let end = self.first + self.text.text.len();
        let inside = (self.first..=end).contains(&place.start);
        inside.then(|| place.start - self.first..place.end.clamp(place.start, end) - self.first)
    }

    /// The error with its place in this text, if it is there.
    fn find(&self, error: &SourceError) -> Option<SourceError> {
        let place = self.local(error.place()?)?;
        Some(error.clone().moved_to(self.text.clone(), place))
    }
}

/// What a key means in an experiment on a modelled machine: one that is none of the experiment's own is a value of a
/// part, so that `vme.rate` is short for `system.parts.vme.rate`.
fn full<'k>(table: &DeTable, key: &'k str) -> Cow<'k, str> {
    if is_own(key) || !table.contains_key("system") {
        Cow::Borrowed(key)
    } else {
        Cow::Owned(format!("system.parts.{key}"))
    }
}

/// Whether a key is one of an experiment's own.
fn is_own(key: &str) -> bool {
    let mut words = key.split('.');
    match words.next() {
        Some("system") => words.next().is_some_and(|word| crate::system::KEYS.contains(&word)),
        Some(word) => crate::file::KEYS.contains(&word),
        None => true,
    }
}

/// Puts `value` at the path `key`. Tables on the way are made; streams are found, not made.
fn put<'t>(
    source: &Source,
    table: &mut DeTable<'t>,
    key: &str,
    value: Spanned<DeValue<'t>>,
    place: std::ops::Range<usize>,
) -> Result<(), SourceError> {
    let key = &*full(table, key);
    put_at(source, table, key, value, place)
}

/// As [`put`], of a key that is whole.
fn put_at<'t>(
    source: &Source,
    table: &mut DeTable<'t>,
    key: &str,
    value: Spanned<DeValue<'t>>,
    place: std::ops::Range<usize>,
) -> Result<(), SourceError> {
    let mut parts: Vec<&str> = key.split('.').collect();
    let last = parts.pop().filter(|last| !last.is_empty());
    let Some(last) = last else { return Err(source.error(place, format!("'{key}' is not a key"))) };
    let mut at = table;
    let mut parts = parts.into_iter();
    while let Some(part) = parts.next() {
        let entry = at
            .entry(Spanned::new(place.clone(), Cow::Owned(part.to_owned())))
            .or_insert_with(|| Spanned::new(place.clone(), DeValue::Table(DeTable::new())));
        at = match entry.get_mut() {
            DeValue::Table(inner) => inner,
            DeValue::Array(list) => {
                let name = parts.next().unwrap_or(last);
                if name == EACH {
                    let rest = parts.chain([last]).collect::<Vec<_>>().join(".");
                    for index in 0..list.len() {
                        if let Some(DeValue::Table(inner)) = list.get_mut(index).map(Spanned::get_mut) {
                            put_at(source, inner, &rest, value.clone(), place.clone())?;
                        }
                    }
                    return Ok(());
                }
                let known: Vec<String> = list.iter().enumerate().map(|(n, item)| stream_name(n, item)).collect();
                let index = known.iter().position(|known| known == name).or_else(|| name.parse().ok());
                match index.and_then(|index| list.get_mut(index)).map(Spanned::get_mut) {
                    Some(DeValue::Table(inner)) => inner,
                    _ => {
                        let message = format!("'{key}' names no stream; there are: {}", known.join(", "));
                        return Err(source.error(place, message));
                    }
                }
            }
            _ => return Err(source.error(place, format!("'{key}' leads through '{part}', which is a value"))),
        };
    }
    at.insert(Spanned::new(place, Cow::Owned(last.to_owned())), value);
    Ok(())
}

fn stream_name(index: usize, item: &Spanned<DeValue>) -> String {
    let DeValue::Table(table) = item.get_ref() else { return index.to_string() };
    match table.get("name").map(Spanned::get_ref) {
        Some(DeValue::String(name)) => name.to_string(),
        _ => format!("stream-{index}"),
    }
}

/// An error in the file that only came with a setting is the setting's: a stream that nothing ends any more, a depth
/// beside arrivals. If the file is good without them, the first that spoils it is to blame.
fn blame(source: &Source, document: &Spanned<DeTable>, given: &[Given], error: SourceError) -> SourceError {
    let found = given.iter().any(|given| given.find(&error).is_some());
    if found || given.is_empty() || Experiment::read(source, document.clone()).is_err() {
        return error;
    }
    let mut table = document.clone();
    for given in given {
        let put = given.put(source, &mut table);
        if let Err(error) = put.and_then(|()| Experiment::read(source, table.clone())) {
            return error.moved_to(given.text.clone(), 0..given.text.text.len());
        }
    }
    error
}
