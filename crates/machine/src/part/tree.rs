//! Values with their sources and places.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::read::{PartError, Problem, Reader};

/// A place in a text file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file's name as it was given.
    pub file: Arc<str>,
    /// Counted from 1; 0 for the file as a whole.
    pub line: u32,
    /// Counted from 1, in characters; 0 where only the line is known.
    pub column: u32,
}

impl Place {
    /// A line of a file.
    pub fn line(file: &str, line: u32) -> Place {
        Place { file: Arc::from(file), line, column: 0 }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match (self.line, self.column) {
            (0, _) => f.write_str(&self.file),
            (line, 0) => write!(f, "{}:{line}", self.file),
            (line, column) => write!(f, "{}:{line}:{column}", self.file),
        }
    }
}

/// A value, where it stands, and who vouches for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Its own source, if it names one.
    pub source: Option<String>,
    /// Where it was read.
    pub place: Place,
}

/// What a part file can hold.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A whole number.
    Integer(i64),
    /// A number with digits below one.
    Float(f64),
    /// Yes or no.
    Flag(bool),
    /// Text; quantities with their units are texts.
    Text(String),
    /// Several values.
    List(Vec<Node>),
    /// Named values.
    Table(Table),
}

/// Named values in the order in which they stand.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The source of all values in here that name no other.
    pub source: Option<String>,
    /// Where it begins.
    pub place: Place,
    entries: Vec<(String, Node)>,
}

impl Table {
    /// An empty table.
    pub fn new(place: Place) -> Table {
        Table { source: None, place, entries: Vec::new() }
    }
    /// With one source for all its values.
    #[must_use]
    pub fn sourced(mut self, source: impl Into<String>) -> Table {
        self.source = Some(source.into());
        self
    }
    /// Adds a value or replaces it.
    pub fn set(&mut self, key: impl Into<String>, node: Node) {
        let key = key.into();
        match self.entries.iter_mut().find(|(name, _)| *name == key) {
            Some((_, old)) => *old = node,
            None => self.entries.push((key, node)),
        }
    }
    /// The value of that name.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries.iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }
    /// Removes a value.
    pub(super) fn take(&mut self, key: &str) -> Option<Node> {
        let at = self.entries.iter().position(|(name, _)| name == key)?;
        Some(self.entries.remove(at).1)
    }
    /// Names and values in order.
    pub fn entries(&self) -> &[(String, Node)] {
        &self.entries
    }
}

/// One file of `parts/`: what it is, and its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// What kind of part: `disk`, `flash`, `bus`.
    pub kind: String,
    /// Maker and model.
    pub name: String,
    /// How far to trust it: `measured`, or `data sheet, not validated`.
    pub status: String,
    /// A remark for the reader; may be empty.
    pub note: String,
    /// The values.
    pub values: Table,
}

/// One value of a part, as `arraylab parts NAME` lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Names from the outside in, joined by dots; list elements are counted from 0.
    pub path: String,
    /// As it stands in the file.
    pub value: String,
    /// Who vouches for it.
    pub source: String,
}

impl Part {
    /// Reads a part from the text of a file; `file` names it in messages.
    pub fn parse(file: &str, text: &str) -> Result<Part, PartError> {
        super::toml::parse(file, text)
    }

    /// Reads a part file.
    pub fn load(path: &Path) -> Result<Part, PartError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            let place = Place { file: Arc::from(file.as_str()), line: 0, column: 0 };
            PartError::new(place, String::new(), Problem::Unreadable { error: error.to_string() })
        })?;
        Part::parse(&file, &text)
    }

    /// The text of a part file that reads back as this part.
    pub fn to_toml(&self) -> String {
        super::write::to_toml(self)
    }

    /// A reader of its values, for the code that builds such parts. Fails if the part is of another kind.
    pub fn reader(&self, kind: &str) -> Result<Reader<'_>, PartError> {
        if self.kind != kind {
            let problem = Problem::OtherKind { kind: self.kind.clone(), wanted: kind.to_owned() };
            return Err(PartError::new(self.values.place.clone(), "kind".to_owned(), problem));
        }
        Ok(Reader::new(&self.values))
    }

    /// The text of the value at a path, as it stands in the file but without quotes; nothing where there is none, or a
    /// table.
    pub fn value(&self, path: &str) -> Option<String> {
        let rows = self.rows();
        rows.into_iter().find(|row| row.path == path).map(|row| row.value.trim_matches('"').to_owned())
    }

    /// All values with their sources, in order.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        list(&self.values, "", "", &mut rows);
        rows
    }
}

fn list(table: &Table, prefix: &str, outer: &str, rows: &mut Vec<Row>) {
    let outer = table.source.as_deref().unwrap_or(outer);
    for (name, node) in &table.entries {
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        let source = node.source.as_deref().unwrap_or(outer);
        match &node.value {
            Value::Table(inner) => list(inner, &path, source, rows),
            Value::List(nodes) if nodes.iter().any(|node| matches!(node.value, Value::Table(_))) => {
                for (index, node) in nodes.iter().enumerate() {
                    if let Value::Table(inner) = &node.value {
                        list(inner, &format!("{path}.{index}"), source, rows);
                    }
                }
            }
            value => rows.push(Row { path, value: value.to_string(), source: source.to_owned() }),
        }
    }
}

/// As TOML on one line.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        super::write::inline(self, f)
    }
}
