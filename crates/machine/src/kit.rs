//! The description of a machine: the texts of a system and of the parts it names, with the changes of a what-if
//! applied.
//!
//! A [`Kit`] is plain data that can go to another thread; [`crate::system`] makes a machine of it. A change names a
//! value of a part (`wren-iv.rotation.speed`: of all nodes with that part), of one node (`disk-0.1.rotation.speed`), or
//! of the system's own file (`system.array.level`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use crate::library;
use crate::part::{Node, Part, PartError, Place, Problem, Table, Value};
use crate::tree::{self, Written};

/// A node's name, a path in its part, and the part's name.
type OfNode<'k> = (Arc<str>, &'k str, String);

/// The parts that come with the program, read once: a sweep has a kit for each of its points.
static LIBRARY: LazyLock<Result<BTreeMap<String, Arc<Part>>, PartError>> = LazyLock::new(|| {
    let read = |(name, text): &(&str, &str)| {
        let part = Part::parse(&format!("parts/{name}.toml"), text)?;
        Ok(((*name).to_owned(), Arc::new(part)))
    };
    library::PARTS.iter().map(read).collect()
});

/// The description of a system with all its parts.
#[derive(Debug, Clone)]
pub struct Kit {
    /// The system.
    pub system: Part,
    /// The parts by name; those of the system's own files by the name of the file without `.toml`.
    pub parts: BTreeMap<String, Arc<Part>>,
    /// Changes of single nodes: the node's name, the path in its part, the text of the new value.
    changes: Vec<(Arc<str>, String, String)>,
    /// Where the paths of the system's own files begin: beside its own.
    beside: PathBuf,
}

impl Kit {
    /// A system that comes with the program, or the path of a system's file (`*.toml`). Its parts come with the
    /// program, or are named by the paths of their files (`*.toml`), which begin where the system's file lies.
    pub fn load(name: &str) -> Result<Kit, PartError> {
        let system = if name.ends_with(".toml") {
            let read = std::fs::read_to_string(name);
            let text = read.map_err(|error| nowhere(name, format!("the system's file cannot be read: {error}")))?;
            Part::parse(name, &text)?
        } else {
            let Some((_, text)) = library::SYSTEMS.iter().find(|(known, _)| *known == name) else {
                let known: Vec<_> = library::SYSTEMS.iter().map(|(known, _)| *known).collect();
                let message =
                    format!("there is no such system; there are: {}; or give the path of a file", known.join(", "));
                return Err(nowhere(name, message));
            };
            Part::parse(&format!("systems/{name}.toml"), text)?
        };
        let parts = LIBRARY.clone()?;
        let beside = Path::new(name).parent().unwrap_or(Path::new("")).to_owned();
        let mut kit = Kit { system, parts, changes: Vec::new(), beside };
        kit.fetch()?;
        Ok(kit)
    }

    /// Reads the parts that the system names by their paths, and that are not here yet.
    fn fetch(&mut self) -> Result<(), PartError> {
        let mut named = Vec::new();
        paths(&Value::Table(self.system.values.clone()), &self.system.values.place, &mut named);
        for (path, place) in named {
            let fault = |message: String| PartError {
                place: place.clone(),
                path: String::new(),
                problem: Box::new(Problem::Contradiction(message)),
            };
            let (name, file) = (stem(&path).to_owned(), self.beside.join(&path));
            let whole = file.display().to_string();
            match self.parts.get(&name) {
                None => _ = self.parts.insert(name, Arc::new(Part::load(&file)?)),
                Some(known) if *known.values.place.file == whole => {}
                Some(known) => {
                    return Err(fault(format!(
                        "there are two parts called {name}: {} and {whole}; give the file another name",
                        known.values.place.file
                    )));
                }
            }
        }
        Ok(())
    }

    /// Changes a value: `wren-iv.read-ahead.until` of a part, `disk-0.1.read-ahead.until` of the part of one node, or
    /// `system.node.0.slot`.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), PartError> {
        let unknown = |message: String| nowhere(key, message);
        let (name, path) = self.part_in(key).or_else(|| key.split_once('.')).ok_or_else(|| {
            unknown("a value is named PART.VALUE or NODE.VALUE, such as wren-iv.read-ahead.until".into())
        })?;
        if name == "system" {
            let path: Vec<&str> = path.split('.').collect();
            self.system.values = changed(&self.system.values, &path, text).map_err(unknown)?;
            return self.fetch();
        }
        if let Some((name, path, part)) = self.node_of(key)? {
            let part = self.named(&part).ok_or_else(|| nowhere(key, format!("the part '{part}' is not there")))?;
            changed(&part.values, &path.split('.').collect::<Vec<_>>(), text).map_err(unknown)?;
            self.changes.push((name, path.to_owned(), text.to_owned()));
            return Ok(());
        }
        let Some(part) = self.parts.get_mut(name) else {
            let reader = self.system.reader("system")?;
            let written = tree::read(&reader)?;
            let nodes = tree::names_of(written.iter().map(|node| &node.name));
            let parts: BTreeSet<&str> = written.iter().map(|node| stem(&node.part)).collect();
            let parts = parts.into_iter().collect::<Vec<_>>().join(", ");
            return Err(unknown(format!(
                "there is no part or node '{name}'; parts of this machine are: system, {parts}; nodes are: {nodes}"
            )));
        };
        let path: Vec<&str> = path.split('.').collect();
        let values = changed(&part.values, &path, text).map_err(unknown)?;
        Arc::make_mut(part).values = values;
        Ok(())
    }

    /// Changes all of these values. A value that this machine does not use is refused. Whoever has several machines, of
    /// which one is enough, uses [`Kit::set`] and [`Kit::uses`].
    pub fn set_all(&mut self, changes: &[(String, String)]) -> Result<(), PartError> {
        changes.iter().try_for_each(|(key, text)| self.set(key, text))?;
        match changes.iter().find(|(key, _)| !self.uses(key)) {
            Some((key, _)) => Err(self.unused(key)),
            None => Ok(()),
        }
    }

    /// The parts that the system names. The kit also holds all other parts that come with the program.
    pub fn parts_in_use(&self) -> BTreeSet<&str> {
        let mut named = BTreeSet::new();
        texts(&Value::Table(self.system.values.clone()), &mut |text| {
            named.extend(self.parts.get_key_value(stem(text)).map(|(name, _)| name.as_str()));
        });
        named
    }

    /// Whether a change of that value would change anything: of a part that the system names, of a node, or of the
    /// system itself.
    pub fn uses(&self, key: &str) -> bool {
        self.part_in(key).is_none_or(|(name, _)| self.parts_in_use().contains(name))
    }

    /// Why a change of that value is refused: nothing in the system has it.
    pub fn unused(&self, key: &str) -> PartError {
        let known = self.parts_in_use().into_iter().collect::<Vec<_>>().join(", ");
        let name = self.part_in(key).map_or(key, |(name, _)| name);
        nowhere(key, format!("it would change nothing, as the machine has no part '{name}'; its parts are: {known}"))
    }

    /// The node that a key begins with, the rest of the key, and the node's part. A name that is a part's, too, means
    /// the part.
    fn node_of<'k>(&self, key: &'k str) -> Result<Option<OfNode<'k>>, PartError> {
        let reader = self.system.reader("system")?;
        let of = |node: &Written| {
            let path = key.strip_prefix(&*node.name)?.strip_prefix('.')?;
            Some((Arc::clone(&node.name), path, node.part.clone()))
        };
        let found = tree::read(&reader)?.iter().filter_map(of).max_by_key(|(name, ..)| name.len());
        Ok(found.filter(|(name, ..)| !self.parts.contains_key(&**name)))
    }

    /// The present text of a value that [`Kit::set`] can change, but for values of the system's own file.
    pub fn current(&self, key: &str) -> Result<Option<String>, PartError> {
        if let Some((node, path, _)) = self.node_of(key)? {
            return self.value(&node, path);
        }
        Ok(self.part_in(key).and_then(|(part, path)| self.parts[part].value(path)))
    }

    /// The part that a key begins with, and the rest of the key. Names of parts have dots, too: the longest counts.
    fn part_in<'k>(&self, key: &'k str) -> Option<(&'k str, &'k str)> {
        let dots = key.char_indices().rev().filter(|(_, letter)| *letter == '.');
        let mut splits = dots.map(|(at, _)| (&key[..at], &key[at + 1..]));
        splits.find(|(name, _)| self.parts.contains_key(*name))
    }

    /// The text of a value of the part in a node, with what was changed about that node alone.
    pub fn value(&self, node: &str, path: &str) -> Result<Option<String>, PartError> {
        let reader = self.system.reader("system")?;
        match tree::read(&reader)?.iter().find(|written| &*written.name == node) {
            Some(written) => Ok(self.part_of(written)?.value(path)),
            None => Ok(None),
        }
    }

    /// The part of a node, with what was changed about that node alone.
    pub(crate) fn part_of(&self, node: &Written) -> Result<Part, PartError> {
        let Some(part) = self.named(&node.part) else {
            return Err(node.reader.fault("part", self.no_part(&node.part)));
        };
        let mut part = part.clone();
        for (_, path, text) in self.changes.iter().filter(|(name, ..)| *name == node.name) {
            let path: Vec<&str> = path.split('.').collect();
            part.values = changed(&part.values, &path, text).map_err(|message| nowhere(&node.name, message))?;
        }
        Ok(part)
    }

    fn named(&self, name: &str) -> Option<&Part> {
        self.parts.get(stem(name)).map(|part| &**part)
    }

    fn no_part(&self, name: &str) -> Problem {
        Problem::Wrong {
            found: format!("'{name}', which is no part"),
            accepted: format!(
                "{}, or the path of a part's file (*.toml)",
                self.parts.keys().cloned().collect::<Vec<_>>().join(", ")
            ),
        }
    }
}

/// A part's name where the system names it by its path.
pub(crate) fn stem(name: &str) -> &str {
    match name.strip_suffix(".toml") {
        Some(path) => path.rsplit('/').next().unwrap_or(path),
        None => name,
    }
}

/// Paths of part files among the values of a system.
fn paths(value: &Value, place: &Place, found: &mut Vec<(String, Place)>) {
    match value {
        Value::Text(text) if text.ends_with(".toml") => found.push((text.clone(), place.clone())),
        Value::List(nodes) => nodes.iter().for_each(|node| paths(&node.value, &node.place, found)),
        Value::Table(table) => table.entries().iter().for_each(|(_, node)| paths(&node.value, &node.place, found)),
        _ => {}
    }
}

/// Calls `found` for every text in a value.
fn texts(value: &Value, found: &mut impl FnMut(&str)) {
    match value {
        Value::Text(text) => found(text),
        Value::List(nodes) => nodes.iter().for_each(|node| texts(&node.value, found)),
        Value::Table(table) => table.entries().iter().for_each(|(_, node)| texts(&node.value, found)),
        Value::Integer(_) | Value::Float(_) | Value::Flag(_) => {}
    }
}

fn nowhere(name: &str, message: String) -> PartError {
    let place = crate::part::Place { file: name.into(), line: 0, column: 0 };
    PartError { place, path: String::new(), problem: Box::new(Problem::Contradiction(message)) }
}

/// A table with the value at `path` replaced.
fn changed(table: &Table, path: &[&str], text: &str) -> Result<Table, String> {
    let names = || table.entries().iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    let node = table.get(path[0]).ok_or_else(|| format!("there is no '{}'; there are: {}", path[0], names()))?;
    let mut result = table.clone();
    result.set(path[0], changed_node(node, &path[1..], text)?);
    Ok(result)
}

fn changed_node(node: &Node, path: &[&str], text: &str) -> Result<Node, String> {
    let value = match (&node.value, path) {
        (Value::Table(inner), [_, ..]) => Value::Table(changed(inner, path, text)?),
        (Value::List(nodes), [index, rest @ ..]) => {
            let at = index.parse::<usize>().ok().filter(|at| *at < nodes.len());
            let at = at.ok_or_else(|| format!("'{index}' is none of the {} items, counted from 0", nodes.len()))?;
            let mut nodes = nodes.clone();
            nodes[at] = changed_node(&nodes[at], rest, text)?;
            Value::List(nodes)
        }
        (_, [name, ..]) => return Err(format!("'{name}' leads into a value")),
        (Value::Table(_), []) => return Err("that is a table; name one of its values".to_owned()),
        (_, []) => parse(text, &node.place),
    };
    Ok(Node { value, source: Some("set for this run".to_owned()), place: node.place.clone() })
}

fn parse(text: &str, place: &Place) -> Value {
    let text = text.trim();
    if let Some(items) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let items = items.split(',').map(str::trim).filter(|item| !item.is_empty());
        let node = |item| Node { value: parse(item, place), source: None, place: place.clone() };
        return Value::List(items.map(node).collect());
    }
    if let Ok(flag) = text.parse() {
        return Value::Flag(flag);
    }
    if let Ok(number) = text.parse() {
        return Value::Integer(number);
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Value::Float(number),
        _ => Value::Text(text.trim_matches('"').to_owned()),
    }
}
