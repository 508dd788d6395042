//! Tables of parts, each judged as a whole by its misplaced time.
//!
//! The phases of a trace, or the intervals of a timeline, make up a whole. *Misplaced time* says how far a model's
//! division of it is from the printed one: half the sum of `|modelled - published|` over the parts, divided by the
//! whole. Half, as time that one part has too much another one lacks. A model that gives every part zero has misplaced
//! a half.
//!
//! Parts that are disputed, that a parameter was fitted on, or that the model does not give, are left out. At least two
//! must be left.

use std::collections::BTreeMap;

use super::{Judged, Status};

/// The whole that a row is a part of.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Part {
    /// The table whose parts make up the whole. None if there is no table, or if the row is not one of its parts: it
    /// has the row in another unit, or beside the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The whole, in the row's unit.
    pub whole: f64,
}

/// A table of parts.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Parts {
    /// Which.
    pub table: String,
    /// How many parts count.
    pub parts: usize,
    /// What is misplaced, of the whole.
    pub misplaced: f64,
}

/// All tables of parts, in the order of their names.
pub(super) fn tables(rows: &[Judged]) -> Vec<Parts> {
    let mut tables: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    for row in rows.iter().filter(|row| !matches!(row.status, Status::Disputed | Status::Fitted)) {
        let (Some(part), Some(published), Some(modelled)) = (&row.part, row.published, row.modelled) else { continue };
        let Some(table) = &part.table else { continue };
        let (parts, misplaced) = tables.entry(table).or_default();
        *parts += 1;
        *misplaced += (modelled - published).abs() / 2.0 / part.whole;
    }
    let of = |(table, (parts, misplaced)): (&str, (usize, f64))| Parts { table: table.to_owned(), parts, misplaced };
    tables.into_iter().map(of).filter(|table| table.parts >= 2).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Answer;
    use super::super::judge::tests::row;
    use super::super::judge::{Standing, judge};
    use super::*;

    fn part(table: &str, printed: &str, modelled: f64, fitted: bool) -> Judged {
        let part = Part { table: Some(table.into()), whole: 100.0 };
        judge(&row(printed, ""), Answer::Number(modelled), Standing { fitted, part: Some(part), same: None })
    }

    #[test]
    fn time_that_one_part_has_too_much_another_one_lacks() {
        let moved = [part("a", "60", 50.0, false), part("a", "38", 48.0, false), part("a", "2", 2.0, false)];
        assert_eq!(tables(&moved), [Parts { table: "a".into(), parts: 3, misplaced: 0.1 }]);
        let zero = [part("a", "60", 0.0, false), part("a", "40", 0.0, false)];
        assert_eq!(tables(&zero)[0].misplaced, 0.5);
    }

    #[test]
    fn fitted_parts_do_not_count_and_one_part_is_no_table() {
        let rows = [part("a", "60", 50.0, true), part("a", "40", 40.0, false), part("b", "60", 60.0, false)];
        assert_eq!(tables(&rows), []);
    }
}
