//! Taking parameters out of a tree of values, with messages that point to the line to be changed.

use std::cell::RefCell;
use std::fmt;

use units::{Bytes, Duration, Frequency, Rate, Ratio};

use super::tree::{Node, Place, Table, Value};

/// Why a part cannot be used: where, which value, what is wrong and what would be accepted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub struct PartError {
    /// The line to be changed; line 0 if the file as a whole is at fault.
    pub place: Place,
    /// The value, names from the outside in, joined by dots; empty if there is none.
    pub path: String,
    /// What is wrong.
    pub problem: Box<Problem>,
}

impl PartError {
    pub(super) fn new(place: Place, path: String, problem: Problem) -> PartError {
        PartError { place, path, problem: Box::new(problem) }
    }
}

impl fmt::Display for PartError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.path.as_str() {
            "" => write!(f, "{}: {}", self.place, self.problem),
            path => write!(f, "{}: {path}: {}", self.place, self.problem),
        }
    }
}

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum Problem {
    #[error("cannot be read: {error}")]
    Unreadable { error: String },
    #[error("not TOML: {message}")]
    NotToml { message: String },
    #[error("nested more than {limit} deep")]
    TooDeep { limit: u32 },
    #[error("this is a part of kind '{kind}', but one of kind '{wanted}' is wanted here")]
    OtherKind { kind: String, wanted: String },
    #[error("is missing; write {what}")]
    Missing { what: &'static str },
    #[error("is not known here; known are {known}")]
    Unknown { known: String },
    #[error("is {found}; write {accepted}")]
    Wrong { found: String, accepted: String },
    #[error("is out of range; write {accepted}")]
    OutOfRange { accepted: String },
    #[error("{0}")]
    Unit(#[from] units::ParseError),
    #[error("names no source; write {{ value = ..., source = \"...\" }}, or a source in the table around it")]
    NoSource,
    #[error("{0}")]
    Contradiction(String),
}

impl Problem {
    /// A value of the wrong kind.
    pub fn wrong(accepted: &str, found: &Value) -> Problem {
        let found = match found {
            Value::Integer(_) | Value::Float(_) => format!("the number {found}"),
            Value::Flag(_) => format!("{found}"),
            Value::Text(text) => format!("the text '{text}'"),
            Value::List(_) => "a list".to_owned(),
            Value::Table(_) => "a table".to_owned(),
        };
        Problem::Wrong { found, accepted: accepted.to_owned() }
    }
}

/// A type that a part's value can be read as.
pub trait FromValue: Sized {
    /// What to write, for the message that it is missing or wrong.
    const ACCEPTED: &'static str;
    /// Converts a value, or says what is wrong with it.
    fn from_value(value: &Value) -> Result<Self, Problem>;
}

/// Reads one table: each value is asked for by name, and [`Reader::done`] finds those that nobody asked for.
pub struct Reader<'t> {
    table: &'t Table,
    path: String,
    source: Option<&'t str>,
    asked: RefCell<Vec<&'static str>>,
}

impl<'t> Reader<'t> {
    /// A reader of a part's outermost table.
    pub fn new(table: &'t Table) -> Reader<'t> {
        Reader { table, path: String::new(), source: table.source.as_deref(), asked: RefCell::default() }
    }

    /// The value of that name.
    pub fn get<T: FromValue>(&self, key: &'static str) -> Result<T, PartError> {
        self.find(key)?.ok_or_else(|| self.missing(key, T::ACCEPTED))
    }

    /// The value of that name, if it is there.
    pub fn find<T: FromValue>(&self, key: &'static str) -> Result<Option<T>, PartError> {
        let Some(node) = self.node(key) else { return Ok(None) };
        if node.source.is_none() && self.source.is_none() {
            return Err(self.fault(key, Problem::NoSource));
        }
        T::from_value(&node.value).map(Some).map_err(|problem| self.fault(key, problem))
    }

    /// The value of that name as one of the named choices.
    pub fn choose<T: Copy>(&self, key: &'static str, choices: &[(&str, T)]) -> Result<T, PartError> {
        let text: String = self.get(key)?;
        choices.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            self.fault(key, Problem::Wrong { found: format!("'{text}'"), accepted: names.join(", ") })
        })
    }

    /// The table of that name.
    pub fn table(&self, key: &'static str) -> Result<Reader<'t>, PartError> {
        self.find_table(key)?.ok_or_else(|| self.missing(key, "a table of that name"))
    }

    /// A rate above zero.
    pub fn rate(&self, key: &'static str) -> Result<Rate, PartError> {
        let rate: Rate = self.get(key)?;
        match rate.is_zero() {
            true => Err(self.fault(key, Problem::OutOfRange { accepted: "a rate above zero".into() })),
            false => Ok(rate),
        }
    }

    /// A count from 1 to `most`.
    pub fn count(&self, key: &'static str, most: u32) -> Result<u32, PartError> {
        let count = self.get(key)?;
        match (1..=most).contains(&count) {
            true => Ok(count),
            false => Err(self.fault(key, Problem::OutOfRange { accepted: format!("1 to {most}") })),
        }
    }

    /// The table of that name, if it is there.
    pub fn find_table(&self, key: &'static str) -> Result<Option<Reader<'t>>, PartError> {
        match self.node(key) {
            None => Ok(None),
            Some(Node { value: Value::Table(table), source, .. }) => {
                Ok(Some(self.inner(table, source, key.to_owned())))
            }
            Some(node) => Err(self.fault(key, Problem::wrong("a table", &node.value))),
        }
    }

    /// The tables of that name (`[[key]]`), none if it is not there.
    pub fn tables(&self, key: &'static str) -> Result<Vec<Reader<'t>>, PartError> {
        let Some(node) = self.node(key) else { return Ok(Vec::new()) };
        let Value::List(nodes) = &node.value else {
            return Err(self.fault(key, Problem::wrong("tables", &node.value)));
        };
        let inner = nodes.iter().enumerate().map(|(index, item)| match &item.value {
            Value::Table(table) => Ok(self.inner(table, &item.source, format!("{key}.{index}"))),
            value => {
                let path = self.name(&format!("{key}.{index}"));
                Err(PartError::new(item.place.clone(), path, Problem::wrong("a table", value)))
            }
        });
        inner.collect()
    }

    /// Says that a value is wrong in the light of others. An unknown or empty `key` blames the table.
    pub fn fault(&self, key: &str, problem: Problem) -> PartError {
        let place = self.table.get(key).map_or(&self.table.place, |node| &node.place).clone();
        PartError::new(place, self.name(key), problem)
    }

    /// Refuses values that nobody has asked for: a misspelt name must not be ignored in silence.
    pub fn done(&self) -> Result<(), PartError> {
        let asked = self.asked.borrow();
        match self.table.entries().iter().find(|(key, _)| !asked.contains(&key.as_str())) {
            None => Ok(()),
            Some((key, _)) => Err(self.fault(key, Problem::Unknown { known: asked.join(", ") })),
        }
    }

    fn node(&self, key: &'static str) -> Option<&'t Node> {
        let mut asked = self.asked.borrow_mut();
        if !asked.contains(&key) {
            asked.push(key);
        }
        self.table.get(key)
    }

    fn inner(&self, table: &'t Table, source: &'t Option<String>, key: String) -> Reader<'t> {
        let source = table.source.as_deref().or(source.as_deref()).or(self.source);
        Reader { table, path: self.name(&key), source, asked: RefCell::default() }
    }

    fn missing(&self, key: &str, what: &'static str) -> PartError {
        PartError::new(self.table.place.clone(), self.name(key), Problem::Missing { what })
    }

    fn name(&self, key: &str) -> String {
        match (self.path.as_str(), key) {
            ("", key) => key.to_owned(),
            (path, "") => path.to_owned(),
            (path, key) => format!("{path}.{key}"),
        }
    }
}

macro_rules! quantity {
    ($($type:ty: $accepted:literal),+ $(,)?) => {$(
        impl FromValue for $type {
            const ACCEPTED: &'static str = $accepted;
            fn from_value(value: &Value) -> Result<Self, Problem> {
                match value {
                    Value::Text(text) => Ok(text.parse()?),
                    // A bare number gets the sentence about units.
                    Value::Integer(_) | Value::Float(_) => Ok(value.to_string().parse()?),
                    value => Err(Problem::wrong(Self::ACCEPTED, value)),
                }
            }
        }
    )+};
}

quantity! {
    Duration: "a time such as \"1.5 ms\"",
    Frequency: "a frequency such as \"7200 rpm\"",
    Bytes: "a size such as \"512 B\"",
    Rate: "a rate such as \"4 MB/s\"",
    Ratio: "a share such as \"75 %\"",
}

macro_rules! whole {
    ($($type:ty: $accepted:literal),+ $(,)?) => {$(
        impl FromValue for $type {
            const ACCEPTED: &'static str = $accepted;
            fn from_value(value: &Value) -> Result<Self, Problem> {
                match value {
                    Value::Integer(number) => {
                        Self::try_from(*number).map_err(|_| Problem::OutOfRange { accepted: Self::ACCEPTED.into() })
                    }
                    value => Err(Problem::wrong(Self::ACCEPTED, value)),
                }
            }
        }
    )+};
}

whole! {
    u32: "a whole number from 0 to 4294967295",
    u64: "a whole number from 0 on",
}

impl FromValue for f64 {
    const ACCEPTED: &'static str = "a number";
    fn from_value(value: &Value) -> Result<f64, Problem> {
        match value {
            Value::Integer(number) => Ok(*number as f64),
            Value::Float(number) => Ok(*number),
            value => Err(Problem::wrong(Self::ACCEPTED, value)),
        }
    }
}

impl FromValue for bool {
    const ACCEPTED: &'static str = "true or false";
    fn from_value(value: &Value) -> Result<bool, Problem> {
        match value {
            Value::Flag(flag) => Ok(*flag),
            value => Err(Problem::wrong(Self::ACCEPTED, value)),
        }
    }
}

impl FromValue for String {
    const ACCEPTED: &'static str = "a text in quotes";
    fn from_value(value: &Value) -> Result<String, Problem> {
        match value {
            Value::Text(text) => Ok(text.clone()),
            value => Err(Problem::wrong(Self::ACCEPTED, value)),
        }
    }
}

impl<T: FromValue> FromValue for Vec<T> {
    const ACCEPTED: &'static str = "a list in brackets";
    fn from_value(value: &Value) -> Result<Vec<T>, Problem> {
        match value {
            Value::List(nodes) => nodes.iter().map(|node| T::from_value(&node.value)).collect(),
            value => Err(Problem::wrong(Self::ACCEPTED, value)),
        }
    }
}

impl<A: FromValue, B: FromValue> FromValue for (A, B) {
    const ACCEPTED: &'static str = "a list of two in brackets";
    fn from_value(value: &Value) -> Result<(A, B), Problem> {
        match value {
            Value::List(nodes) if nodes.len() == 2 => {
                Ok((A::from_value(&nodes[0].value)?, B::from_value(&nodes[1].value)?))
            }
            value => Err(Problem::wrong(Self::ACCEPTED, value)),
        }
    }
}
