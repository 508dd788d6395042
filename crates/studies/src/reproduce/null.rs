//! The score of models that know nothing: a rule by which they score is no rule.
//!
//! Two are asked about every row that is scored:
//!
//! - *zero* answers zero to everything;
//! - *mean* answers the mean of what the study prints of the same quantity in all other rows. The row itself is left
//!   out: of a quantity that is printed once the mean would be that number.
//!
//! What *mean* scores tells how alike the study's measurements are: a study that reads 1.3 MB/s from a disk in five
//! places gives four of them away.

use std::collections::BTreeMap;

use lab::published::{Role, Row};

use super::Judged;
use super::judge::error_of;

/// Of the scored rows, how many a model that knows nothing has right.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct Null {
    /// *zero*, with an error of at most 10 percent.
    pub zero_within_10: usize,
    /// *zero*, with at most 25 percent.
    pub zero_within_25: usize,
    /// *mean*, with at most 10 percent.
    pub mean_within_10: usize,
    /// *mean*, with at most 25 percent.
    pub mean_within_25: usize,
}

impl Null {
    /// On the rows that are scored; `rows` are all of the study.
    pub(super) fn of(judged: &[Judged], rows: &[Row]) -> Null {
        let by_id: BTreeMap<&str, &Row> = rows.iter().map(|row| (row.id.as_str(), row)).collect();
        let scored: Vec<&Row> = judged.iter().filter(|row| row.counts()).map(|row| by_id[row.id.as_str()]).collect();
        let within = |most: f64, answer: &dyn Fn(&Row) -> f64| {
            let error = |row: &Row| error_of(answer(row), row.value().expect("an output has a value"), &row.printed);
            scored.iter().filter(|row| error(row) <= most).count()
        };
        let (zero, mean) = (|_: &Row| 0.0, |row: &Row| mean_of_others(row, rows));
        Null {
            zero_within_10: within(0.10, &zero),
            zero_within_25: within(0.25, &zero),
            mean_within_10: within(0.10, &mean),
            mean_within_25: within(0.25, &mean),
        }
    }
}

/// The mean of a row's quantity in all other rows; zero if there are none.
fn mean_of_others(row: &Row, rows: &[Row]) -> f64 {
    let alike = |other: &&Row| {
        other.role == Role::Output && other.id != row.id && other.quantity == row.quantity && other.unit == row.unit
    };
    let others: Vec<f64> = rows.iter().filter(alike).filter_map(Row::value).collect();
    if others.is_empty() { 0.0 } else { others.iter().sum::<f64>() / others.len() as f64 }
}

#[cfg(test)]
mod tests {
    use super::super::judge::tests::row;
    use super::super::judge::{Standing, judge};
    use super::super::{Answer, Part};
    use super::*;

    #[test]
    fn the_mean_knows_the_other_rows_and_zero_nothing() {
        let rows: Vec<Row> = [("a", "10"), ("b", "12"), ("c", "99"), ("d", "0")]
            .into_iter()
            .map(|(id, printed)| Row { id: id.into(), ..row(printed, "") })
            .collect();
        // The third does not count, but its number is known.
        let part = || Part { table: None, whole: 1e6 };
        let standing = |row: &Row| Standing { part: (row.id == "c").then(part), ..Standing::default() };
        let judged: Vec<Judged> = rows.iter().map(|row| judge(row, Answer::Number(1.0), standing(row))).collect();
        // 37, 36.3 and 40.3 for 10, 12 and 0; zero has one of the three.
        let zero_alone = Null { zero_within_10: 1, zero_within_25: 1, ..Null::default() };
        assert_eq!(Null::of(&judged, &rows), zero_alone);
        let (alone, alike) = (&rows[..1], [row("10", ""), Row { id: "z".into(), ..row("11", "") }]);
        assert_eq!(mean_of_others(&alone[0], alone), 0.0);
        assert_eq!(mean_of_others(&alike[0], &alike), 11.0);
    }
}
