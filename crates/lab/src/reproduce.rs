//! Published against modelled, row by row.
//!
//! # How a row is judged
//! The error is `|modelled - published| / published`, and 0 when the model rounds to the printed digits. A row that is part of a whole (a
//! phase of a trace, an interval of a timeline, a share) is judged on the scale where it matters: the difference is divided by
//! `max(published, 5 percent of its whole)`. The plain relative error stands beside it.
//!
//! # How sure the model is of itself
//! A trial has several passes, on machines whose spindles stand elsewhere. The modelled value is that of all passes together; beside it
//! stands the 95 percent interval of Student's distribution over the values of each pass alone ([`analysis::half_width`]).
//!
//! Disputed rows, and rows that parameters were fitted on, are shown and not scored. A row the model cannot give stays in the list with
//! the reason. Nothing is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use analysis::half_width;
use machine::part::{PartError, Table, Value};
use machine::system::Kit;
use units::Rate;

use crate::bench::{Bench, TrialError, megabytes};
use crate::published::{self, PublishedError, Role, Row};

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
    fn name(&self) -> &'static str;
    /// What the model says about an output or a claim.
    fn answer(&self, row: &Row) -> Result<Answer, TrialError>;
    /// The whole that a row is part of, in the row's unit, if it is part of one.
    fn whole(&self, row: &Row, rows: &BTreeMap<&str, &Row>) -> Option<f64>;
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

/// How good a model has to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// The share of scored rows within 10 percent.
    pub within_10: f64,
    /// And within 25 percent.
    pub within_25: f64,
    /// The greatest median error.
    pub median: f64,
    /// Claims that must hold, of how many.
    pub claims: (usize, usize),
    /// The most parameters that may be fitted.
    pub parameters: usize,
    /// And on how many rows.
    pub rows: usize,
}

/// What became of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // the names of DESIGN's "JSON contract"
pub enum Status {
    #[serde(rename = "within-5")]
    Within5,
    #[serde(rename = "within-10")]
    Within10,
    #[serde(rename = "within-25")]
    Within25,
    Off,
    Disputed,
    Fitted,
    NotReproduced,
    ClaimKept,
    ClaimBroken,
    ClaimNotTested,
}

impl Status {
    /// As scripts know it.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Within5 => "within-5",
            Status::Within10 => "within-10",
            Status::Within25 => "within-25",
            Status::Off => "off",
            Status::Disputed => "disputed",
            Status::Fitted => "fitted",
            Status::NotReproduced => "not-reproduced",
            Status::ClaimKept => "claim-kept",
            Status::ClaimBroken => "claim-broken",
            Status::ClaimNotTested => "claim-not-tested",
        }
    }
}

/// A row with its judgement.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Judged {
    /// The row's name.
    pub id: String,
    /// As printed; none for a claim.
    pub published: Option<f64>,
    /// As modelled.
    pub modelled: Option<f64>,
    /// The modelled value is known to plus or minus this, with 95 % confidence: by how its passes differ, whose machines have other seeds.
    pub confidence_95: Option<f64>,
    /// Of the value.
    pub unit: String,
    /// On the scale where it matters.
    pub error: Option<f64>,
    /// Of the published value.
    pub relative_error: Option<f64>,
    /// What became of it.
    pub status: Status,
    /// A claim's sentence and evidence, or why there is nothing.
    pub remark: String,
}

/// How good the model is.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct Score {
    /// Rows that count.
    pub scored: usize,
    /// Of these, with an error of at most 5, 10, 25 percent.
    pub within_5: usize,
    /// See [`Score::within_5`].
    pub within_10: usize,
    /// See [`Score::within_5`].
    pub within_25: usize,
    /// The middle error of those that count.
    pub median_error: f64,
    /// Claims that hold.
    pub claims_kept: usize,
    /// Claims that do not.
    pub claims_broken: usize,
    /// Claims nobody tested.
    pub claims_not_tested: usize,
    /// Values of parts that were fitted.
    pub fitted_parameters: usize,
    /// Rows they were fitted on.
    pub fitted_rows: usize,
    /// Outputs the model does not give; they count as scored and not within anything.
    pub not_reproduced: usize,
    /// Outputs that are disputed.
    pub disputed: usize,
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
    let fits = all_fits(study)?;
    let rows = published::read(study.name())?;
    let by_id: BTreeMap<&str, &Row> = rows.iter().map(|row| (row.id.as_str(), row)).collect();
    for fit in &fits {
        if let Some(row) = fit.rows.iter().find(|row| !by_id.contains_key(row.as_str())) {
            return Err(ReproduceError::NoSuchRow { parameter: fit.parameter.clone(), row: row.clone() });
        }
    }
    let judged = judged(study, &[study.name().to_owned()])?;
    let score = score(&judged, &fits, fitted_rows(&fits).len());
    let passes = score.passes(&study.bar());
    let formulas = match study.beside() {
        Ok(formulas) => formulas,
        Err(TrialError::Part(error)) => return Err(error.into()),
        // The rows have said why.
        Err(TrialError::Nothing(_)) => Vec::new(),
    };
    Ok(Report { study: study.name().to_owned(), rows: judged, score, formulas, fits, passes })
}

/// What was fitted of a study's system and of its trials.
fn all_fits(study: &dyn Study) -> Result<Vec<Fit>, PartError> {
    let mut fits = fits(study.bench().kit()?);
    fits.extend(study.fits());
    Ok(fits)
}

/// Asks a study about its outputs and claims whose names are, or lie below, these.
pub fn judged(study: &dyn Study, names: &[String]) -> Result<Vec<Judged>, ReproduceError> {
    let rows = published::read(study.name())?;
    let by_id: BTreeMap<&str, &Row> = rows.iter().map(|row| (row.id.as_str(), row)).collect();
    let fits = all_fits(study)?;
    let fitted = fitted_rows(&fits);
    let mut judged = Vec::new();
    for row in rows.iter().filter(|row| matches!(row.role, Role::Output | Role::Claim)) {
        if names.iter().any(|name| row.is_within(name)) {
            let answer = ask(study, row)?;
            let mut verdict = judge(row, answer, study.whole(row, &by_id), fitted.contains(row.id.as_str()));
            if verdict.modelled.is_some() {
                verdict.confidence_95 = confidence(study, row)?;
            }
            judged.push(verdict);
        }
    }
    Ok(judged)
}

/// What a study says about a row. A machine that was changed until nothing comes of a trial leaves the row without a number, not the reader without
/// all others.
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

/// The rows that any value was fitted on.
fn fitted_rows(fits: &[Fit]) -> BTreeSet<&str> {
    fits.iter().flat_map(|fit| fit.rows.iter().map(String::as_str)).collect()
}

/// The values of a system's parts that were fitted. Parts that the system does not name do not count.
pub fn fits(kit: &Kit) -> Vec<Fit> {
    let mut named = BTreeSet::new();
    texts(&kit.system.values, &mut named);
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

/// All texts in a table.
fn texts<'t>(table: &'t Table, found: &mut BTreeSet<&'t str>) {
    fn value<'t>(of: &'t Value, found: &mut BTreeSet<&'t str>) {
        match of {
            Value::Text(text) => {
                found.insert(text);
            }
            Value::List(nodes) => nodes.iter().for_each(|node| value(&node.value, found)),
            Value::Table(table) => texts(table, found),
            Value::Integer(_) | Value::Float(_) | Value::Flag(_) => {}
        }
    }
    table.entries().iter().for_each(|(_, node)| value(&node.value, found));
}

fn judge(row: &Row, answer: Answer, whole: Option<f64>, fitted: bool) -> Judged {
    let mut judged = Judged {
        id: row.id.clone(),
        published: row.value(),
        modelled: None,
        confidence_95: None,
        unit: row.unit.clone(),
        error: None,
        relative_error: None,
        status: Status::NotReproduced,
        remark: String::new(),
    };
    match answer {
        Answer::Claim { kept, evidence } => {
            judged.status = if kept { Status::ClaimKept } else { Status::ClaimBroken };
            judged.remark = format!("{} [{evidence}]", row.note);
        }
        Answer::Nothing { reason } => {
            judged.status = match (row.role, row.disputed()) {
                (Role::Claim, _) => Status::ClaimNotTested,
                (_, true) => Status::Disputed,
                _ => Status::NotReproduced,
            };
            judged.remark = reason;
        }
        Answer::Number(modelled) => {
            let published = row.value().expect("an output has a value");
            let difference = if rounds_to(modelled, &row.printed) { 0.0 } else { (modelled - published).abs() };
            let scale = whole.map_or(published.abs(), |whole| published.abs().max(whole.abs() * 0.05));
            // Of nothing, nothing is all right, and anything else is infinitely wrong.
            let error = if difference == 0.0 { 0.0 } else { difference / scale };
            judged.modelled = Some(modelled);
            judged.error = Some(error);
            judged.relative_error = (published != 0.0).then(|| (modelled - published).abs() / published.abs());
            judged.status = match error {
                _ if row.disputed() => Status::Disputed,
                _ if fitted => Status::Fitted,
                error if error <= 0.05 => Status::Within5,
                error if error <= 0.10 => Status::Within10,
                error if error <= 0.25 => Status::Within25,
                _ => Status::Off,
            };
            if row.disputed() {
                judged.remark.clone_from(&row.note);
            }
        }
    }
    judged
}

/// Whether a number, written with as many decimals as the printed one, is the printed one.
fn rounds_to(modelled: f64, printed: &str) -> bool {
    let decimals = printed.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    format!("{modelled:.decimals$}") == printed
}

fn score(rows: &[Judged], fits: &[Fit], fitted_rows: usize) -> Score {
    let count = |status: Status| rows.iter().filter(|row| row.status == status).count();
    let (five, ten, twenty_five) = (count(Status::Within5), count(Status::Within10), count(Status::Within25));
    let not_reproduced = count(Status::NotReproduced);
    let scored = five + ten + twenty_five + count(Status::Off) + not_reproduced;
    let counts =
        |row: &&Judged| matches!(row.status, Status::Within5 | Status::Within10 | Status::Within25 | Status::Off);
    let mut errors: Vec<f64> = rows.iter().filter(counts).filter_map(|row| row.error).collect();
    // What is missing is as wrong as can be.
    errors.extend(std::iter::repeat_n(f64::MAX, not_reproduced));
    errors.sort_by(f64::total_cmp);
    Score {
        scored,
        within_5: five,
        within_10: five + ten,
        within_25: five + ten + twenty_five,
        median_error: errors.get(errors.len() / 2).copied().unwrap_or(0.0),
        claims_kept: count(Status::ClaimKept),
        claims_broken: count(Status::ClaimBroken),
        claims_not_tested: count(Status::ClaimNotTested),
        fitted_parameters: fits.len(),
        fitted_rows,
        not_reproduced,
        disputed: count(Status::Disputed),
    }
}

impl Score {
    /// Whether the model is as good as `bar` asks.
    pub fn passes(&self, bar: &Bar) -> bool {
        let claims = self.claims_kept + self.claims_broken + self.claims_not_tested;
        let scored = self.scored as f64;
        self.within_10 as f64 >= scored * bar.within_10
            && self.within_25 as f64 >= scored * bar.within_25
            && self.median_error <= bar.median
            && self.claims_kept * bar.claims.1 >= claims * bar.claims.0
            && self.fitted_parameters <= bar.parameters
            && self.fitted_rows <= bar.rows
    }
}

/// Rows as text, a line each.
pub fn lines(rows: &[Judged]) -> String {
    let mut text = String::new();
    let number = |value: Option<f64>| value.map_or(String::new(), short);
    let percent = |value: Option<f64>| match value {
        // Of a published zero no share can be given.
        Some(value) if !value.is_finite() => "-".to_owned(),
        value => value.map_or(String::new(), |value| format!("{:.1} %", value * 100.0)),
    };
    let _ = writeln!(
        text,
        "{:<56} {:>10} {:>10} {:>10} {:<8} {:>8} {:>9}  status",
        "row", "published", "modelled", "+-95 %", "unit", "error", "relative"
    );
    for row in rows {
        let remark = if row.remark.is_empty() { String::new() } else { format!("  {}", row.remark) };
        let _ = writeln!(
            text,
            "{:<56} {:>10} {:>10} {:>10} {:<8} {:>8} {:>9}  {}{remark}",
            row.id,
            number(row.published),
            number(row.modelled),
            number(row.confidence_95),
            row.unit,
            percent(row.error),
            percent(row.relative_error),
            row.status.name(),
        );
    }
    text
}

impl Report {
    /// The whole report as text: every row, then the sum.
    pub fn text(&self) -> String {
        let mut text = lines(&self.rows);
        text.push_str(&beside(&self.formulas));
        let _ = writeln!(text, "\nfitted:");
        for fit in &self.fits {
            let _ = writeln!(text, "  {} = {} on {}", fit.parameter, fit.value, fit.rows.join(", "));
        }
        text.push_str(&self.summary());
        text
    }

    /// The sum alone.
    pub fn summary(&self) -> String {
        let score = &self.score;
        let share = |count: usize| 100.0 * count as f64 / score.scored.max(1) as f64;
        format!(
            "\n{}: {} rows scored, {:.1} % within 5 %, {:.1} % within 10 %, {:.1} % within 25 %, median error {:.1} %\n\
             {} claims kept, {} broken, {} not tested; {} outputs not reproduced, {} disputed; {} parameters fitted on {} rows\n",
            self.study,
            score.scored,
            share(score.within_5),
            share(score.within_10),
            share(score.within_25),
            score.median_error * 100.0,
            score.claims_kept,
            score.claims_broken,
            score.claims_not_tested,
            score.not_reproduced,
            score.disputed,
            score.fitted_parameters,
            score.fitted_rows,
        )
    }
}

/// A table of trials, rounds in milliseconds and rates in MB/s of 2^20 bytes, as the studies have them.
fn beside(lines: &[Beside]) -> String {
    let mut text = String::new();
    if lines.is_empty() {
        return text;
    }
    let _ = writeln!(
        text,
        "\n{:<30} {:>10} {:>10} {:>10}   {:>9} {:>9} {:>9} {:>14} {:>10}",
        "ms a round, then MB/s",
        "published",
        "modelled",
        "formulas",
        "published",
        "modelled",
        "formulas",
        "without rounds",
        "pipelined"
    );
    for line in lines {
        let [published, modelled, formulas] = line.round_ms;
        let [a, b, c] = line.bandwidth.map(megabytes);
        let _ = writeln!(
            text,
            "{:<30} {published:>10.1} {modelled:>10.1} {formulas:>10.1}   {a:>9.2} {b:>9.2} {c:>9.2} {:>14.2} {:>10.2}",
            line.of,
            megabytes(line.independent),
            megabytes(line.pipelined)
        );
    }
    text
}

/// Four digits.
fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = (3 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(printed: &str, note: &str) -> Row {
        Row {
            id: "x/y".into(),
            locator: String::new(),
            role: Role::Output,
            experiment: String::new(),
            conditions: BTreeMap::new(),
            quantity: "q".into(),
            printed: printed.into(),
            unit: "us".into(),
            note: note.into(),
        }
    }

    fn status(printed: &str, modelled: f64, whole: Option<f64>) -> (Status, f64) {
        let judged = judge(&row(printed, ""), Answer::Number(modelled), whole, false);
        (judged.status, judged.error.unwrap())
    }

    #[test]
    fn the_error_is_relative_unless_the_model_rounds_to_the_printed_digits() {
        assert_eq!(status("100", 108.0, None), (Status::Within10, 0.08));
        assert_eq!(status("1.3", 1.34, None), (Status::Within5, 0.0));
        assert_eq!(status("1.3", 1.36, None).0, Status::Within5);
        assert_eq!(status("100", 130.0, None).0, Status::Off);
    }

    #[test]
    fn a_published_zero_has_no_relative_error() {
        let judged = |modelled| judge(&row("0", ""), Answer::Number(modelled), None, false);
        assert_eq!(
            (judged(0.0).status, judged(0.3).status, judged(3.0).status),
            (Status::Within5, Status::Within5, Status::Off)
        );
        assert_eq!(judged(3.0).relative_error, None);
        let text = lines(&[judged(0.0), judged(3.0)]);
        assert!(!text.contains("inf") && !text.contains("NaN"), "{text}");
        assert_eq!(status("0", 1.0, Some(100.0)).1, 0.2);
    }

    #[test]
    fn a_small_part_is_judged_on_the_scale_of_its_whole() {
        // Two microseconds for one, in a whole of a thousand: a difference of 1 in 50.
        assert_eq!(status("1", 2.0, Some(1000.0)), (Status::Within5, 0.02));
        assert_eq!(status("500", 600.0, Some(1000.0)).0, Status::Within25);
    }

    #[test]
    fn what_is_disputed_or_fitted_is_shown_and_not_scored() {
        let disputed = judge(&row("1", "SUSPECT: a digit"), Answer::Number(9.0), None, true);
        let fitted = judge(&row("1", ""), Answer::Number(9.0), None, true);
        let missing = judge(&row("1", ""), Answer::Nothing { reason: "no such part".into() }, None, false);
        assert_eq!(
            (disputed.status, fitted.status, missing.status),
            (Status::Disputed, Status::Fitted, Status::NotReproduced)
        );
        let score = score(&[disputed, fitted, missing], &[], 1);
        assert_eq!((score.scored, score.within_25, score.not_reproduced, score.disputed), (1, 0, 1, 1));
        let bar = Bar { within_10: 0.8, within_25: 0.95, median: 0.04, claims: (9, 10), parameters: 1, rows: 1 };
        assert!(!score.passes(&bar));
    }
}
