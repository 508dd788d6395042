//! A study as data: a folder with the numbers that somebody measured, and what the model of the machine gives for each.
//!
//! | file | says |
//! |---|---|
//! | `study.toml` | its name, its system, what its units mean, and how good the model has to be |
//! | `published.csv` | what was measured: a row a number or a claim |
//! | `rows.csv` | for each number: experiment, point and an expression (`study/expression.rs`) |
//! | `claims.toml` | for each claim: the expression that holds if the claim does |
//! | `experiments/*.toml` | the trials, as `arraylab run` takes them |
//!
//! All of it is read and checked before anything runs: that each row is there, that each point is one of its
//! experiment, that units fit. What is wrong is one message with file and line. The studies that come with the program
//! and are data lie in `studies/`; a user's own is any folder.

use std::collections::{BTreeMap, BTreeSet};

use lab::SourceError;
use lab::published::{PublishedError, Role, Row};
use machine::kit::Kit;
use units::Duration;

use crate::bench::{Bench, TrialError};
use crate::reproduce::{Answer, Bar, Beside, Fit, Part, Study, fits};

mod bound;
mod deltas;
mod expression;
mod file;
mod formulas;
mod measure;
mod measured;
mod points;
mod unit;

use bound::{Bound, Context};
use deltas::Pattern;
use expression::What;
pub use file::Files;
use formulas::Formulas;
use measure::Measure;
use unit::Amount;

/// A test of a claim that is about no trial: what it says of the study's system, and why.
pub(crate) type Test = fn(&Kit) -> Result<(bool, String), TrialError>;

/// A study that was read and checked.
pub struct Folder {
    name: String,
    bench: Bench,
    bar: Bar,
    rows: Vec<Row>,
    /// By row.
    lines: BTreeMap<String, Line>,
    /// What was fitted of its experiments, and of other systems than the first.
    other: Vec<Fit>,
    /// Rows that nothing is said of, and why.
    left_out: BTreeMap<String, String>,
    /// Times between completions are cut off to whole ones of this.
    whole: Option<Duration>,
    /// The constants of the formulas for rounds.
    formulas: Option<Formulas>,
    /// Of claims that no line is about.
    tests: &'static [(&'static str, Test)],
}

/// How a row is answered.
struct Line {
    /// The expression as it was written.
    text: String,
    bound: Bound,
    /// One of the row's unit; nothing for a claim.
    unit: Option<Amount>,
    /// What the row is a part of.
    whole: Option<Part>,
    /// The row that counts in this one's place, as it prints the same measurement.
    counted_as: Option<String>,
}

/// Why a study cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// A file that is not there.
    #[error(
        "{name}: {error}; a study is a folder with study.toml, published.csv, rows.csv, and claims.toml where it has claims"
    )]
    Missing {
        /// Which.
        name: String,
        /// Why.
        error: std::io::Error,
    },
    /// Something in a file is wrong.
    #[error(transparent)]
    Source(Box<SourceError>),
    /// What was measured.
    #[error(transparent)]
    Published(#[from] PublishedError),
    /// The system, or a change to it.
    #[error(transparent)]
    Part(#[from] machine::part::PartError),
}

impl From<SourceError> for StudyError {
    fn from(error: SourceError) -> StudyError {
        StudyError::Source(Box::new(error))
    }
}

impl Folder {
    /// Reads and checks a study. `settings` are changes to its systems that hold for all trials.
    pub fn read(files: &Files, settings: Vec<(String, String)>) -> Result<Folder, StudyError> {
        let read = file::read(files)?;
        let bench = Bench::new(&read.system, settings.clone());
        let kit = bench.kit()?;
        let mut open: Vec<&str> = settings.iter().map(|(key, _)| &**key).filter(|key| !kit.uses(key)).collect();
        let mut other = read.fitted.clone();
        let systems: BTreeSet<&str> = (read.lines.values())
            .flat_map(|line| line.bound.trials.iter().flat_map(|trials| trials.experiments.iter()))
            .filter_map(|experiment| experiment.system.as_ref())
            .map(|system| system.name.as_str())
            .filter(|name| *name != read.system)
            .collect();
        for name in systems {
            let kit = Kit::load(name)?;
            open.retain(|key| !kit.uses(key));
            other.extend(fits(&kit));
        }
        if let Some(key) = open.first() {
            return Err(kit.unused(key).into());
        }
        let file::Read { name, bar, rows, lines, left_out, whole, formulas, .. } = read;
        Ok(Folder { name, bench, bar, rows, lines, other, left_out, whole, formulas, tests: &[] })
    }

    /// With tests of claims, by their names.
    ///
    /// # Panics
    /// If there is no such claim, or a line says when it holds.
    pub(crate) fn with_tests(mut self, tests: &'static [(&'static str, Test)]) -> Folder {
        for (id, _) in tests {
            let is_claim = |row: &Row| row.id == *id && row.role == Role::Claim;
            assert!(self.rows.iter().any(is_claim) && !self.lines.contains_key(*id), "{id}");
        }
        self.tests = tests;
        self
    }

    fn context(&self) -> Context<'_> {
        Context { bench: &self.bench, whole: self.whole, formulas: self.formulas.as_ref() }
    }
}

impl Study for Folder {
    fn name(&self) -> &str {
        &self.name
    }

    fn rows(&self) -> Result<Vec<Row>, PublishedError> {
        Ok(self.rows.clone())
    }

    fn answer(&self, row: &Row) -> Result<Answer, TrialError> {
        if let Some((_, test)) = self.tests.iter().find(|(id, _)| *id == row.id) {
            let (kept, evidence) = test(self.bench.kit()?)?;
            return Ok(Answer::Claim { kept, evidence });
        }
        if let Some(reason) = self.left_out.get(&row.id) {
            return Ok(Answer::Nothing { reason: reason.clone() });
        }
        let Some(line) = self.lines.get(&row.id) else {
            let file = if row.role == Role::Claim { "claims.toml" } else { "rows.csv" };
            return Ok(Answer::Nothing { reason: format!("{file} does not say what it is of the model") });
        };
        match line.unit {
            Some(one) => Ok(Answer::Number(line.bound.number(&self.context(), &line.text)? / one.value)),
            None => {
                let (kept, evidence) = line.bound.truth(&self.context(), &line.text)?;
                Ok(Answer::Claim { kept, evidence })
            }
        }
    }

    fn part(&self, row: &Row, _rows: &BTreeMap<&str, &Row>) -> Option<Part> {
        self.lines.get(&row.id)?.whole.clone()
    }

    fn counted_as(&self, row: &Row, _rows: &BTreeMap<&str, &Row>) -> Option<String> {
        self.lines.get(&row.id)?.counted_as.clone()
    }

    fn bench(&self) -> &Bench {
        &self.bench
    }

    /// What was fitted of its experiments, and of other systems than the first that they run on. A part that several of
    /// them have counts once.
    fn fits(&self) -> Vec<Fit> {
        let known: BTreeSet<String> =
            self.bench.kit().map(fits).unwrap_or_default().into_iter().map(|fit| fit.parameter).collect();
        let mut named = known;
        let is_new = |fit: &&Fit| named.insert(fit.parameter.clone());
        self.other.iter().filter(is_new).cloned().collect()
    }

    /// A line for each number that is `rounds.possible`.
    fn beside(&self) -> Result<Vec<Beside>, TrialError> {
        let Some(formulas) = &self.formulas else { return Ok(Vec::new()) };
        let mut lines = Vec::new();
        for row in &self.rows {
            let Some(line) = self.lines.get(&row.id) else { continue };
            let quantity = match line.bound.expression.root.what {
                What::Quantity(index) => &line.bound.expression.quantities[index],
                _ => continue,
            };
            if let (Measure::Rounds(Pattern::Possible), [trials]) = (quantity.measure, &line.bound.trials[..])
                && let [experiment] = &trials.experiments[..]
            {
                lines.extend(formulas.beside(&self.context(), row, experiment)?);
            }
        }
        Ok(lines)
    }

    fn bar(&self) -> Bar {
        self.bar
    }
}
