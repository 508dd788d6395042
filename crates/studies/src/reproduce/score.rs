//! The judgement of all rows together, and what is asked of it.

use super::{Judged, Null, Parts, Status};

/// How good a model has to be for `reproduce --check`: a floor under what it has reached, so that no change makes it
/// worse unseen. The shares of rows and tables and the median are today's score, rounded; they say nothing of how good
/// it ought to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// The share of scored rows within 5 percent.
    pub within_5: f64,
    /// Within 10 percent.
    pub within_10: f64,
    /// And within 25 percent.
    pub within_25: f64,
    /// The greatest median error.
    pub median: f64,
    /// The share of tables of parts with at most 5 percent of their time misplaced.
    pub tables: f64,
    /// Claims that must hold, of how many.
    pub claims: (usize, usize),
    /// The most parameters that may be fitted.
    pub parameters: usize,
    /// And on how many rows.
    pub rows: usize,
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
    /// Outputs that print a measurement once more.
    pub repeated: usize,
    /// Outputs that are less than 5 percent of a whole.
    pub small_parts: usize,
    /// The tables of parts.
    pub tables: Tables,
    /// What models that know nothing come to on the same rows.
    pub null: Null,
}

/// How good the model is at tables of parts.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct Tables {
    /// How many there are.
    pub scored: usize,
    /// Of these, with at most 5 and 10 percent of their time misplaced.
    pub within_5: usize,
    /// See [`Tables::within_5`].
    pub within_10: usize,
    /// The middle of what is misplaced.
    pub misplaced_median: f64,
}

impl Tables {
    fn of(tables: &[Parts]) -> Tables {
        let within = |most: f64| tables.iter().filter(|table| table.misplaced <= most).count();
        Tables {
            scored: tables.len(),
            within_5: within(0.05),
            within_10: within(0.10),
            misplaced_median: median(tables.iter().map(|table| table.misplaced).collect()),
        }
    }
}

impl Score {
    /// Of rows and of their tables of parts.
    pub(super) fn of(rows: &[Judged], tables: &[Parts]) -> Score {
        let count = |status: Status| rows.iter().filter(|row| row.status == status).count();
        let (five, ten, twenty_five) = (count(Status::Within5), count(Status::Within10), count(Status::Within25));
        // What is missing is as wrong as can be.
        let error = |row: &Judged| row.error.filter(|_| row.status != Status::NotReproduced).unwrap_or(f64::MAX);
        let errors: Vec<f64> = rows.iter().filter(|row| row.counts()).map(error).collect();
        Score {
            scored: errors.len(),
            within_5: five,
            within_10: five + ten,
            within_25: five + ten + twenty_five,
            median_error: median(errors),
            claims_kept: count(Status::ClaimKept),
            claims_broken: count(Status::ClaimBroken),
            claims_not_tested: count(Status::ClaimNotTested),
            not_reproduced: count(Status::NotReproduced),
            disputed: count(Status::Disputed),
            repeated: count(Status::Repeated),
            small_parts: count(Status::SmallPart),
            tables: Tables::of(tables),
            ..Score::default()
        }
    }

    /// Whether the model is as good as `bar` asks.
    pub fn passes(&self, bar: &Bar) -> bool {
        let claims = self.claims_kept + self.claims_broken + self.claims_not_tested;
        let scored = self.scored as f64;
        self.within_5 as f64 >= scored * bar.within_5
            && self.within_10 as f64 >= scored * bar.within_10
            && self.within_25 as f64 >= scored * bar.within_25
            && self.median_error <= bar.median
            && self.tables.within_5 as f64 >= self.tables.scored as f64 * bar.tables
            && self.claims_kept * bar.claims.1 >= claims * bar.claims.0
            && self.fitted_parameters <= bar.parameters
            && self.fitted_rows <= bar.rows
    }
}

/// The middle one; zero of none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::super::Answer;
    use super::super::judge::tests::row;
    use super::super::judge::{Standing, judge};
    use super::*;

    const BAR: Bar = Bar {
        within_5: 0.0,
        within_10: 0.5,
        within_25: 0.5,
        median: 0.06,
        tables: 0.5,
        claims: (9, 10),
        parameters: 1,
        rows: 1,
    };

    fn rows(missing: usize) -> Vec<Judged> {
        let given =
            [105.0, 106.0].map(|modelled| judge(&row("100", ""), Answer::Number(modelled), Standing::default()));
        let nothing = || Answer::Nothing { reason: "no such part".into() };
        let missing = (0..missing).map(|_| judge(&row("1", ""), nothing(), Standing::default()));
        given.into_iter().chain(missing).collect()
    }

    #[test]
    fn what_is_missing_is_as_wrong_as_can_be() {
        let score = Score::of(&rows(0), &[]);
        assert_eq!((score.scored, score.within_5, score.within_10, score.median_error), (2, 1, 2, 0.06));
        assert!(score.passes(&BAR));
        let score = Score::of(&rows(3), &[]);
        assert_eq!((score.scored, score.within_25, score.not_reproduced), (5, 2, 3));
        assert!(score.median_error > 1e300 && !score.passes(&BAR));
    }

    #[test]
    fn tables_count_by_what_they_misplace() {
        let table = |misplaced| Parts { table: "t".into(), parts: 2, misplaced };
        let of = |misplaced: &[f64]| Score::of(&rows(0), &misplaced.iter().copied().map(table).collect::<Vec<_>>());
        let score = of(&[0.01, 0.05, 0.3]);
        assert_eq!(score.tables, Tables { scored: 3, within_5: 2, within_10: 2, misplaced_median: 0.05 });
        assert!(score.passes(&BAR) && !of(&[0.05, 0.3, 0.3]).passes(&BAR));
    }

    /// The names of DESIGN's "JSON contract".
    #[test]
    fn scripts_find_the_tables_and_the_null_models() {
        let json = serde_json::to_value(Score::of(&rows(0), &[])).unwrap();
        for (object, names) in [
            ("tables", &["scored", "misplaced_median", "within_5", "within_10"][..]),
            ("null", &["zero_within_10", "mean_within_10"]),
        ] {
            assert!(names.iter().all(|name| json[object][name].is_number()), "{object}: {json}");
        }
    }
}
