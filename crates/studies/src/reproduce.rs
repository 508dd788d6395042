//! Published against modelled, row by row.
//!
//! # How sure the model is of itself
//! A trial has several passes, on machines whose spindles stand elsewhere. The modelled value is that of all passes
//! together; beside it stands the 95 percent interval of Student's distribution over the values of each pass alone
//! ([`analysis::half_width`]).
//!
//! `judge.rs` judges a row, `parts.rs` a table of parts, `score.rs` all of them; `null.rs` has the score of models that
//! know nothing, and `text.rs` what people read. Nothing is left out: a row that the model cannot give stays in the
//! list with the reason.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use analysis::half_width;
use analysis::rounds::model::Bus;
use lab::published::{self, PublishedError, Role, Row};
use machine::kit::Kit;
use machine::part::PartError;
use units::Rate;

use crate::bench::{Bench, TrialError};

mod judge;
mod null;
mod parts;
mod score;
mod text;

pub use judge::{Judged, Status};
use judge::{Standing, judge};
pub use null::Null;
pub use parts::{Part, Parts};
pub(crate) use score::median;
pub use score::{Bar, Score, Tables};
pub use text::lines;

/// What a model says about a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// A number in the row's unit.
    Number(f64),
    /// The claim holds, or does not, and the numbers that say so.
    Claim {
        /// It holds.
        kept: bool,
        /// The numbers.
        evidence: String,
    },
    /// The model says nothing about it.
    Nothing {
        /// Why.
        reason: String,
    },
}

/// A study that the program models.
pub trait Study {
    /// Its name, as of its file.
    fn name(&self) -> &str;
    /// All that it printed, in the order of the file.
    fn rows(&self) -> Result<Vec<Row>, PublishedError> {
        Ok(published::read(self.name())?.to_vec())
    }
    /// What the model says about an output or a claim.
    fn answer(&self, row: &Row) -> Result<Answer, TrialError>;
    /// The whole that a row is a part of, if there is one.
    fn part(&self, row: &Row, rows: &BTreeMap<&str, &Row>) -> Option<Part>;
    /// The row that prints the same measurement in another unit, and counts in this one's place.
    fn counted_as(&self, _row: &Row, _rows: &BTreeMap<&str, &Row>) -> Option<String> {
        None
    }
    /// Its system, whose fitted parameters count, and the trials that are known.
    fn bench(&self) -> &Bench;
    /// What its trials have that is not printed and was fitted, besides the values of parts.
    fn fits(&self) -> Vec<Fit> {
        Vec::new()
    }
    /// What an analytic model says about the trials, where there is one.
    fn beside(&self) -> Result<Vec<Beside>, TrialError> {
        Ok(Vec::new())
    }
    /// How good it has to be.
    fn bar(&self) -> Bar;
}

/// A trial as it was measured, as it is modelled, and as formulas have it, in this order.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Beside {
    /// The trial.
    pub of: String,
    /// How long a round takes, in milliseconds.
    pub round_ms: [f64; 3],
    /// What passes.
    #[serde(serialize_with = "rates", rename = "bandwidth_bytes_per_s")]
    pub bandwidth: [Rate; 3],
    /// The constants of the formulas.
    pub constants: Bus,
    /// What a model without rounds says of that.
    #[serde(serialize_with = "a_rate", rename = "independent_bytes_per_s")]
    pub independent: Rate,
    /// What pipelined reads could come to at best.
    #[serde(serialize_with = "a_rate", rename = "pipelined_at_best_bytes_per_s")]
    pub pipelined: Rate,
}

fn a_rate<S: serde::Serializer>(rate: &Rate, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(rate.get())
}

fn rates<S: serde::Serializer>(rates: &[Rate; 3], serializer: S) -> Result<S::Ok, S::Error> {
    serde::Serialize::serialize(&rates.map(|rate| rate.get()), serializer)
}

/// A value that was fitted.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Fit {
    /// Part and value.
    pub parameter: String,
    /// What it is.
    pub value: String,
    /// On which rows.
    pub rows: Vec<String>,
}

/// A study, judged.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Report {
    /// Which.
    pub study: String,
    /// All outputs and claims.
    pub rows: Vec<Judged>,
    /// The tables of parts, each as a whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<Parts>,
    /// In sum.
    pub score: Score,
    /// What formulas say about the trials, beside both.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub formulas: Vec<Beside>,
    /// What was fitted.
    pub fits: Vec<Fit>,
    /// True if the model is as good as the project asks of it.
    pub passes: bool,
}

/// Why a study cannot be reproduced.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// Its numbers.
    #[error(transparent)]
    Published(#[from] PublishedError),
    /// Its machine.
    #[error(transparent)]
    Part(#[from] PartError),
    /// A parameter claims to be fitted on a row that does not exist.
    #[error("{parameter} says it was fitted on '{row}', which is no row of the study; write the id of an output")]
    NoSuchRow {
        /// Part and value.
        parameter: String,
        /// The row it names.
        row: String,
    },
}

/// Asks a study about all its rows.
pub fn reproduce(study: &dyn Study) -> Result<Report, ReproduceError> {
    let mut fits = all_fits(study)?;
    let rows = study.rows()?;
    let by_id: BTreeMap<&str, &Row> = rows.iter().map(|row| (row.id.as_str(), row)).collect();
    for fit in &fits {
        let is_strange = |row: &&String| !by_id.contains_key(row.as_str()) && !is_of_another(study, row);
        if let Some(row) = fit.rows.iter().find(is_strange) {
            return Err(ReproduceError::NoSuchRow { parameter: fit.parameter.clone(), row: row.clone() });
        }
    }
    // What was fitted on another study alone is given here, as a data sheet's value is.
    fits.retain(|fit| fit.rows.iter().any(|row| by_id.contains_key(row.as_str())));
    let judged = judged_where(study, |_| true)?;
    let tables = parts::tables(&judged);
    let mut score = Score::of(&judged, &tables);
    (score.fitted_parameters, score.fitted_rows) = (fits.len(), fitted_rows(&fits).len());
    score.null = Null::of(&judged, &rows);
    let passes = score.passes(&study.bar());
    let formulas = match study.beside() {
        Ok(formulas) => formulas,
        Err(TrialError::Part(error)) => return Err(error.into()),
        // The rows have said why.
        Err(TrialError::Nothing(_)) => Vec::new(),
    };
    Ok(Report { study: study.name().to_owned(), rows: judged, tables, score, formulas, fits, passes })
}

/// Whether a row is one of another study that comes with the program, as parts may be of several studies' machines.
fn is_of_another(study: &dyn Study, row: &str) -> bool {
    let other = row.split('/').next().filter(|other| *other != study.name());
    let rows = other.map_or(Ok(&[] as &[Row]), published::read);
    rows.is_ok_and(|rows| rows.iter().any(|known| known.id == row))
}

/// What was fitted of a study's system and of its trials.
fn all_fits(study: &dyn Study) -> Result<Vec<Fit>, PartError> {
    let mut fits = fits(study.bench().kit()?);
    fits.extend(study.fits());
    Ok(fits)
}

/// Asks a study about its outputs and claims whose names are, or lie below, these.
pub fn judged(study: &dyn Study, names: &[String]) -> Result<Vec<Judged>, ReproduceError> {
    judged_where(study, |row| names.iter().any(|name| row.is_within(name)))
}

fn judged_where(study: &dyn Study, chosen: impl Fn(&Row) -> bool) -> Result<Vec<Judged>, ReproduceError> {
    let rows = study.rows()?;
    let by_id: BTreeMap<&str, &Row> = rows.iter().map(|row| (row.id.as_str(), row)).collect();
    let fits = all_fits(study)?;
    let fitted = fitted_rows(&fits);
    let repeats = repeats(&rows);
    let answered = |row: &&Row| matches!(row.role, Role::Output | Role::Claim);
    let rows = || rows.iter().filter(answered).filter(|row| chosen(row));
    study.bench().prepare(rows().map(|row| move || drop(study.answer(row))));
    let mut judged = Vec::new();
    for row in rows() {
        let answer = ask(study, row)?;
        let same = || study.counted_as(row, &by_id);
        let standing = Standing {
            fitted: fitted.contains(row.id.as_str()),
            same: repeats.get(row.id.as_str()).map(|first| (*first).to_owned()).or_else(same),
            part: study.part(row, &by_id),
        };
        let mut verdict = judge(row, answer, standing);
        if verdict.modelled.is_some() {
            verdict.confidence_95 = confidence(study, row)?;
        }
        judged.push(verdict);
    }
    Ok(judged)
}

/// What a study says about a row. A machine that was changed until nothing comes of a trial leaves the row without a
/// number, not the reader without all others.
fn ask(study: &dyn Study, row: &Row) -> Result<Answer, PartError> {
    match study.answer(row) {
        Err(TrialError::Part(error)) => Err(error),
        Err(TrialError::Nothing(reason)) => Ok(Answer::Nothing { reason }),
        Ok(answer) => Ok(answer),
    }
}

/// To how much plus or minus a modelled number is known; nothing if its trials have one pass.
fn confidence(study: &dyn Study, row: &Row) -> Result<Option<f64>, PartError> {
    let bench = study.bench();
    let mut alone = Vec::new();
    for pass in 0..bench.passes() {
        if let Answer::Number(number) = bench.in_pass(pass, || ask(study, row))? {
            alone.push(number);
        }
    }
    Ok(half_width(&alone))
}

/// Rows that print a measurement once more, each with the row that printed it first: the same number, for the same
/// quantity, under the same conditions. A row whose note says that it restates another one may name none: then it is
/// not known which. Disputed rows are no measurement that another row could repeat.
fn repeats(rows: &[Row]) -> BTreeMap<&str, &str> {
    let mut first = BTreeMap::new();
    let mut repeats = BTreeMap::new();
    for row in rows.iter().filter(|row| row.role == Role::Output && !row.disputed()) {
        match first.entry((&row.quantity, &row.conditions, &row.unit, &row.printed)) {
            Entry::Occupied(other) => drop(repeats.insert(row.id.as_str(), *other.get())),
            Entry::Vacant(place) => {
                place.insert(row.id.as_str());
                if row.restates() {
                    repeats.insert(row.id.as_str(), "a row that it restates");
                }
            }
        }
    }
    repeats
}

/// The rows that any value was fitted on.
fn fitted_rows(fits: &[Fit]) -> BTreeSet<&str> {
    fits.iter().flat_map(|fit| fit.rows.iter().map(String::as_str)).collect()
}

/// The values of a system's parts that were fitted. Parts that the system does not name do not count.
pub fn fits(kit: &Kit) -> Vec<Fit> {
    let named = kit.parts_in_use();
    let mut fits = Vec::new();
    for (name, part) in kit.parts.iter().filter(|(name, _)| named.contains(name.as_str())) {
        for row in part.rows() {
            let Some(list) = row.source.strip_prefix("fitted:") else { continue };
            // What follows a semicolon explains.
            let list = list.split(';').next().unwrap_or(list);
            let rows = list.split(',').map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()).collect();
            fits.push(Fit { parameter: format!("{name}.{}", row.path), value: row.value, rows });
        }
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::judge::tests::row;
    use super::*;

    #[test]
    fn a_measurement_counts_where_it_is_printed_first_and_is_not_disputed() {
        let named = |id: &str, printed: &str, note: &str| Row { id: id.into(), ..row(printed, note) };
        let rows = [
            named("a", "9", "SUSPECT: a digit"),
            named("b", "9", ""),
            named("c", "9", ""),
            named("d", "7", ""),
            named("e", "6", "Restates Table 1"),
        ];
        assert_eq!(repeats(&rows), BTreeMap::from([("c", "b"), ("e", "a row that it restates")]));
    }
}
