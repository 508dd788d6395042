//! The numbers of the studies.
//!
//! One CSV file per study lies in `published/`: every number the study prints, as printed, with the conditions it was
//! measured under. A row whose note begins with `SUSPECT:` (a likely misprint) or `CONFLICT:` (the study contradicts
//! itself) is disputed: it is shown and not scored.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
    #[error("{file}:{line}: {problem}")]
    Line {
        /// Of which file.
        file: String,
        /// Counted from 1.
        line: u64,
        /// What is wrong and what would be accepted.
        problem: String,
    },
}

/// The numbers of a study that come with the program.
pub struct Printed {
    /// The name of the study.
    pub name: &'static str,
    /// The text of its file.
    pub text: &'static str,
    rows: LazyLock<Result<Vec<Row>, PublishedError>>,
}

/// The file of a study in `published/`.
macro_rules! file {
    ($name:literal) => {
        Printed {
            name: $name,
            text: include_str!(concat!("../../../published/", $name, ".csv")),
            rows: LazyLock::new(|| {
                parse(concat!($name, ".csv"), include_str!(concat!("../../../published/", $name, ".csv")))
            }),
        }
    };
}

/// All of them.
static PRINTED: [Printed; 5] = [file!("raid-i"), file!("rounds"), file!("max"), file!("scb"), file!("vax")];

/// Names that studies had before, and those that they have.
const FORMER: [(&str, &str); 1] = [("rounds-wren7", "rounds")];

/// The names of all studies.
pub fn names() -> [&'static str; PRINTED.len()] {
    PRINTED.each_ref().map(|study| study.name)
}

/// The study of that name.
pub fn printed(name: &str) -> Result<&'static Printed, PublishedError> {
    let name = FORMER.iter().find(|(former, _)| *former == name).map_or(name, |(_, name)| name);
    let unknown = || PublishedError::Unknown { name: name.to_owned(), known: names().join(", ") };
    PRINTED.iter().find(|study| study.name == name).ok_or_else(unknown)
}

/// All rows of a study, in the order of the file.
pub fn read(study: &str) -> Result<&'static [Row], PublishedError> {
    printed(study)?.rows.as_deref().map_err(PublishedError::clone)
}

/// The columns that a file may have. The first three it must have; a row without a role is an output.
const COLUMNS: [&str; 9] = ["id", "value", "unit", "locator", "role", "experiment", "conditions", "quantity", "note"];
const NEEDED: usize = 3;

/// The rows of a CSV text, which is called `file` in messages.
pub fn parse(file: &str, text: &str) -> Result<Vec<Row>, PublishedError> {
    let wrong = |line, problem| PublishedError::Line { file: file.to_owned(), line, problem };
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::Headers).from_reader(text.as_bytes());
    let columns = columns(reader.headers().map_err(|error| wrong(1, error.to_string()))?);
    let columns = columns.map_err(|problem| wrong(1, problem))?;
    let mut rows: Vec<Row> = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| {
            let problem = match error.kind() {
                csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                    format!("{len} fields; a row has {expected_len}, and a text with commas stands in \"quotes\"")
                }
                _ => error.to_string(),
            };
            wrong(error.position().map_or(0, csv::Position::line), problem)
        })?;
        let line = record.position().map_or(0, csv::Position::line);
        let field = |name: &str| columns.get(name).and_then(|index| record.get(*index)).unwrap_or_default().trim();
        let role = match field("role") {
            "input" => Role::Input,
            "" | "output" => Role::Output,
            "bound" => Role::Bound,
            "claim" => Role::Claim,
            other => return Err(wrong(line, format!("the role '{other}' is none of input, output, bound, claim"))),
        };
        let mut conditions = BTreeMap::new();
        for condition in field("conditions").split(';').filter(|condition| !condition.is_empty()) {
            let Some((key, value)) = condition.split_once('=') else {
                return Err(wrong(line, format!("'{condition}' is not of the form key=value")));
            };
            conditions.insert(key.to_owned(), value.to_owned());
        }
        if role != Role::Claim && !field("value").parse::<f64>().is_ok_and(f64::is_finite) {
            return Err(wrong(line, format!("'{}' is not a number", field("value"))));
        }
        let text = |name: &str| field(name).to_owned();
        if field("id").is_empty() {
            return Err(wrong(line, "a row has a name, its id".to_owned()));
        }
        if rows.iter().any(|row| row.id == field("id")) {
            return Err(wrong(line, format!("there is a row '{}' above; ids are different", field("id"))));
        }
        rows.push(Row {
            id: text("id"),
            locator: text("locator"),
            role,
            experiment: text("experiment"),
            conditions,
            quantity: text("quantity"),
            printed: text("value"),
            unit: text("unit"),
            note: text("note"),
        });
    }
    Ok(rows)
}

/// The place of each column.
fn columns(headers: &csv::StringRecord) -> Result<BTreeMap<&'static str, usize>, String> {
    let mut columns = BTreeMap::new();
    for (index, header) in headers.iter().enumerate() {
        let known = COLUMNS.iter().find(|known| **known == header);
        let known = known.ok_or_else(|| format!("there is no column '{header}'; there are: {}", COLUMNS.join(", ")))?;
        if columns.insert(*known, index).is_some() {
            return Err(format!("the column '{header}' stands twice"));
        }
    }
    match COLUMNS[..NEEDED].iter().find(|needed| !columns.contains_key(*needed)) {
        Some(missing) => Err(format!(
            "the column '{missing}' is not there; the first line names at least {}",
            COLUMNS[..NEEDED].join(", ")
        )),
        None => Ok(columns),
    }
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
        let message = |line: &str| parse("x.csv", &format!("{head}{line}")).unwrap_err().to_string();
        assert_eq!(message("a,b,c,d,,q,1,s,\n"), "x.csv:2: the role 'c' is none of input, output, bound, claim");
        assert_eq!(message("a,b,output,d,disks,q,1,s,\n"), "x.csv:2: 'disks' is not of the form key=value");
        assert_eq!(message("a,b,output,d,,q,one,s,\n"), "x.csv:2: 'one' is not a number");
        assert_eq!(message("a,b\n"), "x.csv:2: 2 fields; a row has 9, and a text with commas stands in \"quotes\"");
        assert_eq!(message("a,b,,d,,q,1,s,\na,b,,d,,q,1,s,\n"), "x.csv:3: there is a row 'a' above; ids are different");
        let least = parse("x.csv", "id, value, unit\nread, 2.5, MB/s\n").unwrap();
        assert_eq!((least[0].role, &*least[0].printed, &*least[0].unit), (Role::Output, "2.5", "MB/s"));
        let refused = |text: &str| parse("x.csv", text).unwrap_err().to_string();
        assert_eq!(
            refused("id,value\n"),
            "x.csv:1: the column 'unit' is not there; the first line names at least id, value, unit"
        );
        assert!(
            refused("id,value,unit,rate\n").starts_with("x.csv:1: there is no column 'rate'; there are: id, value, ")
        );
        assert_eq!(refused("id,value,unit\na,inf,s\n"), "x.csv:2: 'inf' is not a number");
        assert!(read("raid-ii").unwrap_err().to_string().contains("there are: raid-i"));
    }
}
