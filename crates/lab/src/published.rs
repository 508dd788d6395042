//! The numbers of the studies.
//!
//! One CSV file per study lies in `published/`: every number the study prints, as printed, with the conditions it was measured under.
//! A row whose note begins with `SUSPECT:` (a likely misprint) or `CONFLICT:` (the study contradicts itself) is disputed: it is
//! shown and not scored.

use std::collections::BTreeMap;

use crate::studies::known;

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A property of a part or of the set-up.
    Input,
    /// Something measured.
    Output,
    /// A limit or an expectation that the study states.
    Bound,
    /// A sentence that holds or does not.
    Claim,
}

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its name: `raid-i/table-03/bandwidth`.
    pub id: String,
    /// Where it is printed.
    pub locator: String,
    /// What it is.
    pub role: Role,
    /// What was done.
    pub experiment: String,
    /// Under which conditions.
    pub conditions: BTreeMap<String, String>,
    /// What was measured.
    pub quantity: String,
    /// As printed; empty for a claim.
    pub printed: String,
    /// Of the value; empty for a claim.
    pub unit: String,
    /// What else is to be known.
    pub note: String,
}

impl Row {
    /// The number; none for a claim.
    pub fn value(&self) -> Option<f64> {
        self.printed.parse().ok()
    }
    /// The value of a condition.
    pub fn condition(&self, key: &str) -> Option<&str> {
        self.conditions.get(key).map(String::as_str)
    }
    /// The value of a condition that is a number.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.condition(key)?.parse().ok()
    }
    /// Marked as a likely misprint, or contradicted elsewhere.
    pub fn disputed(&self) -> bool {
        self.note.starts_with("SUSPECT:") || self.note.starts_with("CONFLICT:")
    }
    /// Says of itself that it prints once more what is printed elsewhere.
    pub fn restates(&self) -> bool {
        self.note.to_lowercase().contains("restate")
    }
    /// Whether its name is, or lies below, this one: `raid-i/fig-03/max` below `raid-i/fig-03`.
    pub fn is_within(&self, name: &str) -> bool {
        self.id.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
    /// The name without the study.
    pub fn local(&self) -> &str {
        self.id.split_once('/').map_or(&self.id, |(_, local)| local)
    }
}

/// Why a file of published numbers cannot be read. Displays as the line and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishedError {
    /// No such study.
    #[error("there is no study '{name}'; there are: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The line is not a row.
    #[error("{study}.csv:{line}: {problem}")]
    Line {
        /// Of which study.
        study: String,
        /// Counted from 1.
        line: u64,
        /// What is wrong and what would be accepted.
        problem: String,
    },
}

/// All rows of a study, in the order of the file.
pub fn read(study: &str) -> Result<Vec<Row>, PublishedError> {
    parse(study, known(study)?.published)
}

/// The rows of a CSV text.
pub fn parse(study: &str, text: &str) -> Result<Vec<Row>, PublishedError> {
    let mut rows = Vec::new();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    for record in reader.records() {
        let wrong = |line, problem| PublishedError::Line { study: study.to_owned(), line, problem };
        let record =
            record.map_err(|error| wrong(error.position().map_or(0, csv::Position::line), error.to_string()))?;
        let line = record.position().map_or(0, csv::Position::line);
        let field = |index: usize| record.get(index).unwrap_or_default().to_owned();
        if record.len() != 9 {
            return Err(wrong(line, format!("{} fields; a row has 9", record.len())));
        }
        let role = match &record[2] {
            "input" => Role::Input,
            "output" => Role::Output,
            "bound" => Role::Bound,
            "claim" => Role::Claim,
            other => return Err(wrong(line, format!("the role '{other}' is none of input, output, bound, claim"))),
        };
        let mut conditions = BTreeMap::new();
        for condition in record[4].split(';').filter(|condition| !condition.is_empty()) {
            let Some((key, value)) = condition.split_once('=') else {
                return Err(wrong(line, format!("'{condition}' is not of the form key=value")));
            };
            conditions.insert(key.to_owned(), value.to_owned());
        }
        if role != Role::Claim && record[6].parse::<f64>().is_err() {
            return Err(wrong(line, format!("'{}' is not a number", &record[6])));
        }
        rows.push(Row {
            id: field(0),
            locator: field(1),
            role,
            experiment: field(3),
            conditions,
            quantity: field(5),
            printed: field(6),
            unit: field(7),
            note: field(8),
        });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rows_of_the_first_study() {
        let rows = read("raid-i").unwrap();
        let count = |role| rows.iter().filter(|row| row.role == role).count();
        assert_eq!((rows.len(), count(Role::Output), count(Role::Claim)), (721, 482, 61));
        assert_eq!(rows.iter().filter(|row| row.role == Role::Output && row.disputed()).count(), 84);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let head = "id,locator,role,experiment,conditions,quantity,value,unit,note\n";
        let message = |line: &str| parse("x", &format!("{head}{line}")).unwrap_err().to_string();
        assert_eq!(message("a,b,c,d,,q,1,s,\n"), "x.csv:2: the role 'c' is none of input, output, bound, claim");
        assert_eq!(message("a,b,output,d,disks,q,1,s,\n"), "x.csv:2: 'disks' is not of the form key=value");
        assert_eq!(message("a,b,output,d,,q,one,s,\n"), "x.csv:2: 'one' is not a number");
        assert!(read("raid-ii").unwrap_err().to_string().contains("there are: raid-i"));
    }
}
