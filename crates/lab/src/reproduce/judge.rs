//! The judgement of a row, and of all of them together.
//!
//! The error is `|modelled - published| / published`, and 0 when the model rounds to the printed digits. A row that is part of a whole (a
//! phase of a trace, an interval of a timeline, a share) is judged on the scale where it matters: the difference is divided by
//! `max(published, 5 percent of its whole)`. The plain relative error stands beside it.
//!
//! Disputed rows, and rows that parameters were fitted on, are shown and not scored. What the model does not give counts as scored and as
//! wrong as can be, so that leaving a row away gains nothing.

use crate::published::{Role, Row};

use super::{Answer, Fit};

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

/// What becomes of a row by what the model says about it.
pub(super) fn judge(row: &Row, answer: Answer, whole: Option<f64>, fitted: bool) -> Judged {
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

/// The sum of all rows.
pub(super) fn score(rows: &[Judged], fits: &[Fit], fitted_rows: usize) -> Score {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::lines;
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
