//! Parts and systems as people look them up: what there is, and every value of one with its source.

use std::fmt::Write as _;

use machine::library::Shelf;
use machine::part::{Part, Row};
use report::Table;
use serde::Serialize;

/// A line of the list.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// Under which name it is asked for.
    pub name: String,
    /// What kind of part.
    pub kind: String,
    /// Maker and model.
    pub title: String,
    /// How far to trust it.
    pub status: String,
}

/// A part or system with all its values.
#[derive(Debug, Clone, Serialize)]
pub struct Sheet {
    /// As it was asked for.
    pub name: String,
    /// What kind of part.
    pub kind: String,
    /// Maker and model.
    pub title: String,
    /// How far to trust it.
    pub status: String,
    /// A remark for the reader; may be empty.
    pub note: String,
    /// Its values.
    pub values: Vec<Entered>,
}

/// One value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entered {
    /// Names from the outside in, joined by dots.
    pub path: String,
    /// As it stands in the file.
    pub value: String,
    /// Who vouches for it.
    pub source: String,
}

/// What comes with the program.
pub fn list(shelf: Shelf) -> Vec<Entry> {
    let entry = |(name, part): (&str, Part)| Entry {
        name: name.to_owned(),
        kind: part.kind,
        title: part.name,
        status: part.status,
    };
    let mut entries: Vec<Entry> = shelf.all().into_iter().map(entry).collect();
    entries.sort_by(|a, b| (&a.kind, &a.name).cmp(&(&b.kind, &b.name)));
    entries
}

/// The list as text.
pub fn list_text(entries: &[Entry]) -> String {
    let mut table = Table::new(["name", "kind", "what", "status"]).left(1).left(2).left(3);
    for entry in entries {
        table.row([&entry.name, &entry.kind, &entry.title, &wrapped(&entry.status)]);
    }
    table.to_string()
}

impl Sheet {
    /// All of a part.
    pub fn of(name: &str, part: &Part) -> Sheet {
        let entered = |Row { path, value, source }| Entered { path, value, source };
        Sheet {
            name: name.to_owned(),
            kind: part.kind.clone(),
            title: part.name.clone(),
            status: part.status.clone(),
            note: part.note.clone(),
            values: part.rows().into_iter().map(entered).collect(),
        }
    }

    /// As text: long lists cut short, as the file has them whole.
    pub fn text(&self) -> String {
        let mut text = format!("{} ({}; {})\n", self.title, self.kind, self.status);
        if !self.note.is_empty() {
            let _ = writeln!(text, "{}", self.note);
        }
        let mut table = Table::new(["value", "is", "source"]).left(1).left(2);
        for value in &self.values {
            table.row([&value.path, &shortened(&value.value), &wrapped(&value.source)]);
        }
        let _ = write!(text, "\n{table}");
        text
    }
}

/// Sentences are broken into lines of this length.
const LINE: usize = 72;

fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a first line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= LINE {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

/// Values longer than this are cut.
const LONGEST: usize = 44;

fn shortened(value: &str) -> String {
    // Quotes are the file's, not the reader's.
    let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    if value.chars().count() <= LONGEST {
        return value.to_owned();
    }
    let start: String = value.chars().take(LONGEST - 4).collect();
    // A list is cut after an element.
    match start.rfind(", ").filter(|_| value.starts_with('[')) {
        Some(end) => format!("{}, ...]", start[..end].trim_end_matches(',')),
        None => format!("{start} ..."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_after_an_element() {
        assert_eq!(shortened("\"7200 rpm\""), "7200 rpm");
        let list = format!("[{}]", (100_000..100_020).map(|n| n.to_string()).collect::<Vec<_>>().join(", "));
        assert_eq!(shortened(&list), "[100000, 100001, 100002, 100003, ...]");
        assert_eq!(shortened("[[1, \"2 ms\"], [2, \"3 ms\"], [3, \"4 ms\"], [5, \"6 ms\"]]").matches("...").count(), 1);
    }

    #[test]
    fn sentences_are_broken_between_words() {
        let text = "word ".repeat(40);
        assert!(wrapped(&text).lines().all(|line| line.len() <= LINE && !line.starts_with(' ')));
        assert_eq!(wrapped(&text).split_whitespace().count(), 40);
        assert_eq!(wrapped("short"), "short");
    }

    #[test]
    fn every_part_and_system_can_be_listed_and_shown() {
        for shelf in [Shelf::Parts, Shelf::Systems] {
            let entries = list(shelf);
            assert!(list_text(&entries).lines().count() >= entries.len() + 2);
            for entry in entries {
                let sheet = Sheet::of(&entry.name, &shelf.find(&entry.name).unwrap());
                assert!(sheet.text().lines().count() > sheet.values.len());
            }
        }
    }
}
