//! A comparison that was kept: which runs it is of, and what came of them. It is written once, when all turns have been
//! made.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use analysis::Figures;
use analysis::compare::{Metric, figures};
use record::{Clock, FolderError, IndexFolder, SCHEMA};
use serde::{Deserialize, Serialize};

use crate::conditions::Condition;

/// What `comparison.json` says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    schema: u32,
    /// When it began.
    #[serde(with = "record::rfc3339")]
    pub started: Option<SystemTime>,
    /// Whose time it was.
    pub clock: Clock,
    /// How often each side was run.
    pub repeat: u16,
    /// The sides, the first of which the others are compared with.
    pub sides: Vec<Side>,
    /// What came of each other side.
    pub comparisons: Vec<Pair>,
}

/// A side and its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// As it was given.
    pub name: String,
    /// Turn by turn.
    pub runs: Vec<Turn>,
}

/// A run of a side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The name of its folder, beside that of the comparison.
    pub run: String,
    /// By the names of [`Metric::name`].
    #[serde(flatten)]
    pub figures: BTreeMap<String, f64>,
}

/// Two sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// The first.
    pub a: String,
    /// The other.
    pub b: String,
    /// By how much they differ.
    pub metrics: Vec<Metric>,
    /// Conditions that differ.
    pub environment: Vec<Condition>,
}

impl Side {
    /// A side of this name with its runs, each with its folder.
    pub fn of<'r>(name: &str, runs: impl Iterator<Item = (&'r Figures, &'r Path)>) -> Side {
        let turn = |(run, path): (&Figures, &Path)| Turn {
            run: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            figures: figures(run).map(|(name, value)| (name.to_owned(), value)).collect(),
        };
        Side { name: name.to_owned(), runs: runs.map(turn).collect() }
    }
}

impl Comparison {
    /// Of these sides.
    pub fn new(started: SystemTime, clock: Clock, repeat: u16, sides: Vec<Side>, comparisons: Vec<Pair>) -> Comparison {
        Comparison { schema: SCHEMA, started: Some(started), clock, repeat, sides, comparisons }
    }
}

/// A comparison in its folder.
pub struct KeptComparison {
    /// Where it is.
    pub folder: IndexFolder,
    /// What it says.
    pub comparison: Comparison,
}

impl KeptComparison {
    pub(super) fn read(folder: IndexFolder) -> Result<KeptComparison, FolderError> {
        let comparison = folder.read()?;
        Ok(KeptComparison { folder, comparison })
    }

    /// How often, and on what.
    pub fn about(&self) -> String {
        let Comparison { repeat, clock, .. } = &self.comparison;
        format!("a comparison, {repeat} runs of each side in turns, {}", super::on(*clock))
    }
}
