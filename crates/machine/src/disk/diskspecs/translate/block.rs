//! A block of a drive file, and which of its parameters have been asked for.

use std::cell::RefCell;
use std::sync::Arc;

use super::value::{describe, number};
use crate::disk::diskspecs::syntax::{Block, Entry, Item};
use crate::disk::diskspecs::{ImportError, Trouble};
use crate::part::{Node, Place, Table, Value};

/// One block of a drive file, with a memory of what was asked for.
pub(super) struct Params<'b> {
    pub file: Arc<str>,
    pub block: &'b Block,
    asked: RefCell<Vec<String>>,
}

impl<'b> Params<'b> {
    pub fn new(file: &Arc<str>, block: &'b Block) -> Params<'b> {
        Params { file: Arc::clone(file), block, asked: RefCell::default() }
    }
    pub fn at(&self, line: u32, trouble: Trouble) -> ImportError {
        ImportError { file: Arc::clone(&self.file), line, trouble }
    }
    pub fn wrong(&self, entry: &Entry, accepted: &str) -> ImportError {
        let (key, found, accepted) = (entry.key.clone(), describe(&entry.item), accepted.to_owned());
        self.at(entry.line, Trouble::Wrong { key, found, accepted })
    }
    pub fn place(&self, line: u32) -> Place {
        Place { file: Arc::clone(&self.file), line, column: 0 }
    }
    pub fn source(&self, from: u32, to: u32) -> String {
        if from == to { format!("{} line {from}", self.file) } else { format!("{} lines {from} to {to}", self.file) }
    }
    pub fn node(&self, line: u32, value: Value) -> Node {
        Node { value, source: None, place: self.place(line) }
    }
    pub fn find(&self, key: &str) -> Option<&'b Entry> {
        self.asked.borrow_mut().push(key.to_owned());
        self.block.entries.iter().find(|entry| entry.key == key)
    }
    pub fn entry(&self, key: &'static str) -> Result<&'b Entry, ImportError> {
        let missing = || self.at(self.block.line, Trouble::Missing { block: self.block.kind.clone(), key });
        self.find(key).ok_or_else(missing)
    }
    pub fn block(&self, key: &'static str, kind: &'static str) -> Result<&'b Block, ImportError> {
        let entry = self.entry(key)?;
        match &entry.item {
            Item::Block(block) if block.kind == kind => Ok(block),
            Item::Block(block) => {
                let instead = "only layout and mechanics of the first generation (g1) are";
                Err(self.at(entry.line, Trouble::NotModelled { what: format!("a {} block", block.kind), instead }))
            }
            _ => Err(self.wrong(entry, &format!("a {kind} block"))),
        }
    }
    pub fn list(&self, key: &'static str) -> Result<&'b [(Item, u32)], ImportError> {
        let entry = self.entry(key)?;
        match &entry.item {
            Item::List(list) => Ok(list),
            _ => Err(self.wrong(entry, "a list in brackets")),
        }
    }
    pub fn numbers(&self, entry: &Entry, count: Option<usize>) -> Result<Vec<f64>, ImportError> {
        let wanted = || match count {
            Some(count) => format!("a list of {count} numbers"),
            None => "a list of numbers".to_owned(),
        };
        let Item::List(list) = &entry.item else { return Err(self.wrong(entry, &wanted())) };
        let numbers: Option<Vec<f64>> = list.iter().map(|(item, _)| number(item)).collect();
        match numbers {
            Some(numbers) if count.is_none_or(|count| count == numbers.len()) => Ok(numbers),
            _ => Err(self.wrong(entry, &wanted())),
        }
    }

    /// Copies a parameter with its line as its source.
    pub fn copy(
        &self,
        to: &mut Table,
        ours: &str,
        theirs: &'static str,
        convert: impl Fn(&Item) -> Result<Value, String>,
    ) -> Result<(), ImportError> {
        let entry = self.entry(theirs)?;
        let value = convert(&entry.item).map_err(|accepted| self.wrong(entry, &accepted))?;
        let source = Some(self.source(entry.line, entry.line));
        to.set(ours, Node { value, source, place: self.place(entry.line) });
        Ok(())
    }

    /// Copies a parameter whose source is that of the whole table.
    pub fn plain(
        &self,
        to: &mut Table,
        ours: &str,
        theirs: &'static str,
        convert: impl Fn(&Item) -> Result<Value, String>,
    ) -> Result<(), ImportError> {
        let entry = self.entry(theirs)?;
        let value = convert(&entry.item).map_err(|accepted| self.wrong(entry, &accepted))?;
        to.set(ours, self.node(entry.line, value));
        Ok(())
    }

    /// Notes parameters that nobody asked for.
    pub fn unused(&self, notes: &mut Vec<String>) {
        let asked = self.asked.borrow();
        for entry in self.block.entries.iter().filter(|entry| !asked.contains(&entry.key)) {
            let off = NOT_MODELLED.contains(&entry.key.as_str()) && number(&entry.item) == Some(0.0);
            if !off && !IGNORED.contains(&entry.key.as_str()) {
                notes.push(format!("{}:{}: '{}' is not used", self.file, entry.line, entry.key));
            }
        }
    }
}

/// Parameters of every drive file that the model has no use for: any write stops a read-ahead, and when the bus is let
/// go matters only to other drives on it.
const IGNORED: [&str; 6] = [
    "Write hit stop prefetch",
    "Read directly to buffer",
    "Hold bus entire read xfer",
    "Hold bus entire write xfer",
    "Disconnect write if seek",
    "Low (write) water mark",
];

/// What a drive may have and the model has not; it is said when a drive has it.
const NOT_MODELLED: [&str; 4] = [
    "Allow sneaky full read hits",
    "Allow sneaky partial read hits",
    "Allow sneaky intermediate read hits",
    "Allow write prebuffering",
];
