//! TOML text to a part.

use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::read::{PartError, Problem};
use super::tree::{Node, Part, Place, Table, Value};

/// Deeper nesting is nobody's part file; the limit keeps recursion bounded.
const DEEPEST: u32 = 16;

pub(super) fn parse(file: &str, text: &str) -> Result<Part, PartError> {
    let places = Places { file: Arc::from(file), text };
    let document = DeTable::parse(text).map_err(|error| {
        let place = places.at(error.span().map_or(0, |span| span.start));
        PartError::new(place, String::new(), Problem::NotToml { message: error.message().to_owned() })
    })?;
    let mut values = places.table(document.get_ref(), 0, "", 0)?;
    let mut top = |key: &str, required: bool| -> Result<String, PartError> {
        let error = |place: &Place, problem| PartError::new(place.clone(), key.to_owned(), problem);
        match values.take(key) {
            Some(Node { value: Value::Text(text), .. }) => Ok(text),
            Some(node) => Err(error(&node.place, Problem::wrong("a text in quotes", &node.value))),
            None if required => Err(error(&values.place, Problem::Missing { what: "a text in quotes" })),
            None => Ok(String::new()),
        }
    };
    let (kind, name) = (top("kind", true)?, top("name", true)?);
    let (status, note) = (top("status", true)?, top("note", false)?);
    Ok(Part { kind, name, status, note, values })
}

struct Places<'t> {
    file: Arc<str>,
    text: &'t str,
}

impl Places<'_> {
    fn at(&self, offset: usize) -> Place {
        let before = &self.text[..self.text.floor_char_boundary(offset)];
        let line = before.matches('\n').count() as u32 + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() as u32 + 1;
        Place { file: Arc::clone(&self.file), line, column }
    }

    fn table(&self, table: &DeTable, start: usize, path: &str, depth: u32) -> Result<Table, PartError> {
        let mut result = Table::new(self.at(start));
        let mut keys: Vec<_> = table.iter().collect();
        // The parser sorts by name; people read in the order of the file.
        keys.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in keys {
            let name = key.get_ref().to_string();
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let node = self.node(value, &path, depth + 1)?;
            match (name.as_str(), node.value) {
                ("source", Value::Text(source)) => result.source = Some(source),
                ("source", value) => {
                    let problem = Problem::wrong("a text that says where the values are from", &value);
                    return Err(PartError::new(node.place, path, problem));
                }
                (_, value) => result.set(name, Node { value, ..node }),
            }
        }
        Ok(result)
    }

    fn node(&self, value: &Spanned<DeValue>, path: &str, depth: u32) -> Result<Node, PartError> {
        let start = value.span().start;
        let place = self.at(start);
        let error = |problem| PartError::new(place.clone(), path.to_owned(), problem);
        if depth > DEEPEST {
            return Err(error(Problem::TooDeep { limit: DEEPEST }));
        }
        let mut source = None;
        let value = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Boolean(flag) => Value::Flag(*flag),
            DeValue::Integer(number) => {
                let parsed = i64::from_str_radix(number.as_str(), number.radix());
                Value::Integer(
                    parsed.map_err(|_| error(Problem::OutOfRange { accepted: "a whole number of 64 bits".into() }))?,
                )
            }
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                Ok(number) if number.is_finite() => Value::Float(number),
                _ => return Err(error(Problem::OutOfRange { accepted: "a finite number".into() })),
            },
            DeValue::Datetime(_) => {
                return Err(error(Problem::Wrong {
                    found: "a date".into(),
                    accepted: "a number, a text, yes or no".into(),
                }));
            }
            DeValue::Array(items) => {
                let nodes = items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| self.node(item, &format!("{path}.{index}"), depth + 1));
                Value::List(nodes.collect::<Result<_, _>>()?)
            }
            DeValue::Table(table) => {
                let mut inner = self.table(table, start, path, depth)?;
                match inner.take("value") {
                    // { value, source }: one value with its own source.
                    Some(node) if inner.entries().is_empty() => {
                        source = inner.source;
                        return Ok(Node { source, ..node });
                    }
                    Some(node) => inner.set("value", node),
                    None => (),
                }
                Value::Table(inner)
            }
        };
        Ok(Node { value, source, place })
    }
}
