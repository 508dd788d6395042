//! Changes to the values of parts, as an experiment writes them.
//!
//! ```toml
//! [system.parts]
//! wren-iv.read-ahead.until = "none"
//! vme.rate = "20 MB/s"
//! ```
//!
//! Dotted keys are nested tables in TOML; here they become what they look like: a path and a value. Each value keeps
//! its place, so that a message about it can point there.

use std::ops::Range;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use toml::Spanned;

/// Paths with their new values as texts, in the order of the file.
#[derive(Debug, Default)]
pub(crate) struct Changes(Vec<(String, Range<usize>, String)>);

impl Changes {
    /// Path, place and text of each.
    pub fn list(&self) -> impl Iterator<Item = (&str, &Range<usize>, &str)> {
        self.0.iter().map(|(path, place, text)| (path.as_str(), place, text.as_str()))
    }
}

enum Tree {
    Leaf(String),
    Table(Vec<(String, Spanned<Tree>)>),
}

impl<'de> Deserialize<'de> for Changes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Changes, D::Error> {
        let mut changes = Changes::default();
        match Tree::deserialize(deserializer)? {
            Tree::Table(entries) => flatten(String::new(), entries, &mut changes.0),
            Tree::Leaf(_) => {
                return Err(D::Error::custom("a table of changes such as vme.rate = \"20 MB/s\" is wanted"));
            }
        }
        Ok(changes)
    }
}

fn flatten(prefix: String, entries: Vec<(String, Spanned<Tree>)>, list: &mut Vec<(String, Range<usize>, String)>) {
    for (key, tree) in entries {
        let path = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
        let place = tree.span();
        match tree.into_inner() {
            Tree::Leaf(text) => list.push((path, place, text)),
            Tree::Table(inner) => flatten(path, inner, list),
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tree, D::Error> {
        struct AnyValue;
        impl<'de> Visitor<'de> for AnyValue {
            type Value = Tree;
            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("a value, or a table of values")
            }
            fn visit_bool<E: Error>(self, flag: bool) -> Result<Tree, E> {
                Ok(Tree::Leaf(flag.to_string()))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Tree, E> {
                Ok(Tree::Leaf(number.to_string()))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<Tree, E> {
                Ok(Tree::Leaf(format!("{number:?}")))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Tree, E> {
                Ok(Tree::Leaf(text.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
                let mut items: Vec<toml::Value> = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(Tree::Leaf(toml::Value::Array(items).to_string()))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry::<String, Spanned<Tree>>()? {
                    entries.push(entry);
                }
                Ok(Tree::Table(entries))
            }
        }
        deserializer.deserialize_any(AnyValue)
    }
}
