//! An experiment's file before it is read: `--set` and the sweep applied.
//!
//! Values are replaced in the parsed TOML, not in the text, and keep the place they came from, so that an error in the third value of
//! a sweep axis points at that value. A key is a path: `run.measure`, `io.mode`, `stream.NAME.depth` (a stream by its name, or
//! by its number from 0), with the same words as in the file.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::experiment::Experiment;
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
}

/// Points beyond this number are a slip of the hand, not a plan.
const MOST_POINTS: usize = 10_000;

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
    let document = DeTable::parse(&source.text).map_err(|error| source.toml_error(&error))?;
    let texts: Vec<String> = settings.iter().map(|setting| format!("{PREFIX}{}", setting.value)).collect();
    let mut base = document.clone();
    for (setting, text) in settings.iter().zip(&texts) {
        // What --set says about a swept key replaces the axis.
        if let Some(sweep) = base.get_mut().get_mut("sweep")
            && let DeValue::Table(axes) = sweep.get_mut()
        {
            axes.remove(setting.key.as_str());
        }
        put(source, base.get_mut(), &setting.key, parse_setting(text), None)?;
    }
    let axes = axes(source, base.get_ref())?;
    let count = axes.iter().try_fold(1usize, |product, axis| product.checked_mul(axis.values.len()));
    if count.is_none_or(|count| count > MOST_POINTS) {
        let place = base.get_ref().get("sweep").map(Spanned::span);
        return Err(source.error(place, format!("the sweep has more than {MOST_POINTS} points")));
    }
    let mut points = Vec::new();
    for index in 0..count.expect("checked above") {
        let mut table = base.clone();
        let mut chosen = Vec::new();
        let mut rest = index;
        for axis in axes.iter().rev() {
            let value = axis.values[rest % axis.values.len()].clone();
            rest /= axis.values.len();
            chosen.push(Setting { key: axis.key.clone(), value: text_of(source, &value) });
            put(source, table.get_mut(), &axis.key, value, Some(axis.place.clone()))?;
        }
        chosen.reverse();
        let experiment = match settings {
            // A value from the command line has no place in the file: its errors must not point there.
            [] => Experiment::read(source, table)?,
            _ => Experiment::read(source, table).map_err(|error| blame(source, &document, settings, &texts, error))?,
        };
        points.push(Point { settings: chosen, experiment });
    }
    Ok(points)
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
fn text_of(source: &Source, value: &Spanned<DeValue>) -> String {
    match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        _ => source.text.get(value.span()).unwrap_or_default().to_owned(),
    }
}

/// The value of a `--set`, given as the text `v = VALUE`: TOML if it is TOML, otherwise the text itself.
fn parse_setting(text: &str) -> Spanned<DeValue<'_>> {
    let parsed = DeTable::parse(text).ok().and_then(|mut table| table.get_mut().remove("v"));
    let bare = || DeValue::String(Cow::Borrowed(&text[PREFIX.len()..]));
    Spanned::new(NOWHERE, parsed.map_or_else(bare, Spanned::into_inner))
}

/// Makes a TOML document of a value.
const PREFIX: &str = "v = ";

/// The place of values that came from the command line.
const NOWHERE: std::ops::Range<usize> = usize::MAX..usize::MAX;

/// Puts `value` at the path `key`. Tables on the way are made; streams are found, not made.
fn put<'t>(
    source: &Source,
    table: &mut DeTable<'t>,
    key: &str,
    value: Spanned<DeValue<'t>>,
    place: Option<std::ops::Range<usize>>,
) -> Result<(), SourceError> {
    let mut parts: Vec<&str> = key.split('.').collect();
    let last = parts.pop().filter(|last| !last.is_empty());
    let Some(last) = last else { return Err(source.error(place, format!("'{key}' is not a key"))) };
    let mut at = table;
    let mut parts = parts.into_iter();
    while let Some(part) = parts.next() {
        let entry = at
            .entry(Spanned::new(place.clone().unwrap_or(NOWHERE), Cow::Owned(part.to_owned())))
            .or_insert_with(|| Spanned::new(NOWHERE, DeValue::Table(DeTable::new())));
        at = match entry.get_mut() {
            DeValue::Table(inner) => inner,
            DeValue::Array(list) => {
                let name = parts.next().unwrap_or(last);
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
    at.insert(Spanned::new(place.unwrap_or(NOWHERE), Cow::Owned(last.to_owned())), value);
    Ok(())
}

fn stream_name(index: usize, item: &Spanned<DeValue>) -> String {
    let DeValue::Table(table) = item.get_ref() else { return index.to_string() };
    match table.get("name").map(Spanned::get_ref) {
        Some(DeValue::String(name)) => name.to_string(),
        _ => format!("stream-{index}"),
    }
}

/// If the file is good without the settings, one of them is at fault, and the message says which.
fn blame<'t>(
    source: &Source,
    document: &Spanned<DeTable<'t>>,
    settings: &[Setting],
    texts: &'t [String],
    error: SourceError,
) -> SourceError {
    if Experiment::read(source, document.clone()).is_err() {
        return error;
    }
    for (setting, text) in settings.iter().zip(texts) {
        let mut table = document.clone();
        let put = put(source, table.get_mut(), &setting.key, parse_setting(text), None);
        if let Err(error) = put.and_then(|()| Experiment::read(source, table)) {
            let given = Source { name: "--set".into(), text: format!("{}={}", setting.key, setting.value) };
            return error.moved_to(given);
        }
    }
    error
}
