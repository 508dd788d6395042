//! The judgement of a row.
//!
//! The error is `|modelled - published| / published`, and 0 when the model rounds to the printed digits.
//!
//! Shown and not scored are:
//!
//! - rows that are disputed;
//! - rows that parameters were fitted on;
//! - a measurement that another row prints, too: as a time and as a share, or once more in the text;
//! - a part (a phase of a trace, an interval of a timeline, a share) of less than 5 percent of its whole. A relative
//!   error of so little says nothing of the whole. With its neighbours it counts in the table's misplaced time
//!   (`parts.rs`).
//!
//! What the model does not give counts as scored and as wrong as can be, so that leaving a row away gains nothing.
//!
//! Rejected: dividing the difference by 5 percent of the whole where that is more than what is printed. By this rule a
//! model that answers zero has every part of less than half a percent within 10 percent, and every one of little more
//! than one within 25.

use lab::published::{Role, Row};

use super::{Answer, Part};

/// A part that is less than this of its whole is not scored by itself.
const SMALL: f64 = 0.05;

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
    Repeated,
    SmallPart,
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
            Status::Repeated => "repeated",
            Status::SmallPart => "small-part",
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
    /// The modelled value is known to plus or minus this, with 95 % confidence: by how its passes differ, whose
    /// machines have other seeds.
    pub confidence_95: Option<f64>,
    /// Of the value.
    pub unit: String,
    /// Of the published value; 0 if the modelled one rounds to the printed digits.
    pub error: Option<f64>,
    /// The same without that; none of a published zero.
    pub relative_error: Option<f64>,
    /// What it is a part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// What became of it.
    pub status: Status,
    /// A claim's sentence and evidence, or why there is nothing.
    pub remark: String,
}

/// What decides whether a row is scored, whatever the model answers.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// Parameters were fitted on it.
    pub fitted: bool,
    /// Another row prints the same measurement, and counts.
    pub same: Option<String>,
    /// What it is a part of.
    pub part: Option<Part>,
}

/// What becomes of a row by what the model says about it.
pub(super) fn judge(row: &Row, answer: Answer, standing: Standing) -> Judged {
    let Standing { fitted, same, part } = standing;
    let published = row.value();
    let is_small = part.as_ref().zip(published).is_some_and(|(part, value)| value.abs() < SMALL * part.whole.abs());
    let mut judged = Judged {
        id: row.id.clone(),
        published,
        modelled: None,
        confidence_95: None,
        unit: row.unit.clone(),
        error: None,
        relative_error: None,
        part,
        status: Status::NotReproduced,
        remark: String::new(),
    };
    // Why it does not count, whatever the model says.
    let apart = match (row.disputed(), fitted, &same) {
        (true, ..) => Some(Status::Disputed),
        (_, true, _) => Some(Status::Fitted),
        (.., Some(_)) => Some(Status::Repeated),
        _ => is_small.then_some(Status::SmallPart),
    };
    match answer {
        Answer::Claim { kept, evidence } => {
            judged.status = if kept { Status::ClaimKept } else { Status::ClaimBroken };
            judged.remark = format!("{} [{evidence}]", row.note);
        }
        Answer::Nothing { reason } => {
            judged.status = match (row.role, apart) {
                (Role::Claim, _) => Status::ClaimNotTested,
                // What was fitted on a row must give it.
                (_, None | Some(Status::Fitted)) => Status::NotReproduced,
                (_, Some(apart)) => apart,
            };
            judged.remark = reason;
        }
        Answer::Number(modelled) => {
            let published = published.expect("an output has a value");
            let error = error_of(modelled, published, &row.printed);
            judged.modelled = Some(modelled);
            judged.error = Some(error);
            judged.relative_error = (published != 0.0).then(|| (modelled - published).abs() / published.abs());
            judged.status = apart.unwrap_or(match error {
                error if error <= 0.05 => Status::Within5,
                error if error <= 0.10 => Status::Within10,
                error if error <= 0.25 => Status::Within25,
                _ => Status::Off,
            });
            match (judged.status, same) {
                (Status::Disputed, _) => judged.remark.clone_from(&row.note),
                (Status::Repeated, Some(same)) => judged.remark = format!("counts as {same}"),
                _ => {}
            }
        }
    }
    judged
}

/// The error of a number. Of nothing, nothing is all right, and anything else is infinitely wrong.
pub(super) fn error_of(modelled: f64, published: f64, printed: &str) -> f64 {
    if rounds_to(modelled, printed) { 0.0 } else { (modelled - published).abs() / published.abs() }
}

/// Whether a number, written with as many decimals as the printed one, is the printed one.
fn rounds_to(modelled: f64, printed: &str) -> bool {
    let decimals = printed.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    format!("{modelled:.decimals$}") == printed
}

impl Judged {
    /// Whether it is scored.
    pub fn counts(&self) -> bool {
        use Status::{NotReproduced, Off, Within5, Within10, Within25};
        matches!(self.status, Within5 | Within10 | Within25 | Off | NotReproduced)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::super::lines;
    use super::*;

    /// An output.
    pub fn row(printed: &str, note: &str) -> Row {
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

    fn of(whole: f64) -> Standing {
        Standing { part: Some(Part { table: Some("t".into()), whole }), ..Standing::default() }
    }

    fn status(printed: &str, modelled: f64, standing: Standing) -> (Status, f64) {
        let judged = judge(&row(printed, ""), Answer::Number(modelled), standing);
        (judged.status, judged.error.unwrap())
    }

    #[test]
    fn the_error_is_relative_unless_the_model_rounds_to_the_printed_digits() {
        assert_eq!(status("100", 108.0, Standing::default()), (Status::Within10, 0.08));
        assert_eq!(status("1.3", 1.34, Standing::default()), (Status::Within5, 0.0));
        assert_eq!(status("1.3", 1.36, Standing::default()).0, Status::Within5);
        assert_eq!(status("100", 130.0, Standing::default()).0, Status::Off);
    }

    #[test]
    fn a_published_zero_has_no_relative_error() {
        let judged = |modelled| judge(&row("0", ""), Answer::Number(modelled), Standing::default());
        assert_eq!(
            (judged(0.0).status, judged(0.3).status, judged(3.0).status),
            (Status::Within5, Status::Within5, Status::Off)
        );
        assert_eq!(judged(3.0).relative_error, None);
        let text = lines(&[judged(0.0), judged(3.0)]);
        assert!(!text.contains("inf") && !text.contains("NaN"), "{text}");
    }

    #[test]
    fn a_part_is_judged_by_itself_from_five_percent_of_its_whole_on() {
        assert_eq!(status("49", 98.0, of(1000.0)), (Status::SmallPart, 1.0));
        assert_eq!(status("50", 100.0, of(1000.0)), (Status::Off, 1.0));
        assert_eq!(status("500", 600.0, of(1000.0)).0, Status::Within25);
    }

    #[test]
    fn a_measurement_that_another_row_prints_counts_there() {
        let same = Standing { same: Some("x/z".into()), ..Standing::default() };
        let judged = judge(&row("1", ""), Answer::Number(9.0), same);
        assert_eq!((judged.status, judged.counts(), &*judged.remark), (Status::Repeated, false, "counts as x/z"));
    }

    #[test]
    fn what_is_disputed_or_fitted_is_shown_and_not_scored() {
        let fitted = || Standing { fitted: true, ..Standing::default() };
        let nothing = || Answer::Nothing { reason: "no such part".into() };
        let disputed = judge(&row("1", "SUSPECT: a digit"), Answer::Number(9.0), fitted());
        assert_eq!((disputed.status, disputed.counts()), (Status::Disputed, false));
        let shown = judge(&row("1", ""), Answer::Number(9.0), fitted());
        assert_eq!((shown.status, shown.counts()), (Status::Fitted, false));
        for standing in [Standing::default(), fitted()] {
            let missing = judge(&row("1", ""), nothing(), standing);
            assert_eq!((missing.status, missing.counts()), (Status::NotReproduced, true));
        }
    }
}
