//! fio's job files.
//!
//! Most people who load storage have job files of fio (<https://fio.readthedocs.io>, "Job file format"); this crate reads them. It is pure: text in,
//! [`Job`]s out, each option with its file and line. What a job comes to on this machine (which files, how large) is the
//! laboratory's to say.
//!
//! Three steps, a file each: [`syntax`] makes sections of lines, [`option`] knows which options there are and what becomes of
//! each, and a job is made of a section: [`job`] says what it is, `section.rs` and `load.rs` how it is read. Values are read by [`value`], as fio 3.33 reads them (`k` is 1024 and `KiB` 1000, unless
//! `kb_base=1000`: tried out on the program, as its manual has it both ways).
//!
//! Of 411 public job files nearly all have an option or two that few others have. So an unknown option is no error: it is listed
//! ([`File::notes`]), and only who asks for it (`--strict`) is refused.

pub mod job;
mod load;
pub mod option;
mod reader;
mod section;
pub mod syntax;
pub mod value;

use std::fmt;

pub use job::{Check, Direction, Engine, Extent, Fill, Job, Order, Pace, Replay, Skew};
pub use option::Note;
pub use syntax::Surroundings;

/// A job file that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct File {
    /// The jobs in order. Never empty.
    pub jobs: Vec<Job>,
    /// Options that change nothing here, or that are not kept.
    pub notes: Vec<Note>,
}

/// Where something stands in a job file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, as it was given or included.
    pub file: String,
    /// Counted from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Why a job file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum JobError {
    #[error("{place}: '{option}' is '{value}'; write {accepted}")]
    Value { place: Place, option: String, value: String, accepted: &'static str },
    #[error("{place}: '{option}' has no value; write {accepted}")]
    NoValue { place: Place, option: String, accepted: &'static str },
    #[error("{place}: '{line}' stands before the first section; begin with [global] or the [name] of a job")]
    NoSection { place: Place, line: String },
    #[error("{place}: the section '{line}' is not closed; write [name]")]
    Unclosed { place: Place, line: String },
    #[error("{place}: cannot be included: {error}")]
    Include { place: Place, error: String },
    #[error("{place}: files are included in each other more than {most} deep; break the circle")]
    Circle { place: Place, most: usize },
    #[error("{file} has no job; add a section such as [job] below [global]")]
    NoJob { file: String },
    #[error("{place}: [{job}] {what}; {next}")]
    Cannot { place: Place, job: String, what: String, next: &'static str },
    #[error("{place}: --strict refuses the option '{option}': {why}; take it out, or leave --strict away")]
    Strict { place: Place, option: String, why: String },
}

/// Reads a job file. `strict` refuses every option that is not kept to the letter.
pub fn read(name: &str, text: &str, surroundings: &Surroundings, strict: bool) -> Result<File, JobError> {
    let sections = syntax::read(name, text, surroundings)?;
    let (jobs, notes) = job::jobs(&sections)?;
    if jobs.is_empty() {
        return Err(JobError::NoJob { file: name.to_owned() });
    }
    if let (true, Some(note)) = (strict, notes.first()) {
        let (place, option) = (note.place.clone(), note.option.clone());
        return Err(JobError::Strict { place, option, why: note.what.to_owned() });
    }
    Ok(File { jobs, notes })
}

/// True if this is rather a job file than an experiment: by the name's end (`.fio`, `.job` or `.ini`), or as the first line that says anything is
/// `[global]`, which no experiment has.
pub fn is_meant(path: &std::path::Path, text: &str) -> bool {
    if path.extension().is_some_and(|extension| ["fio", "job", "ini"].iter().any(|known| extension == *known)) {
        return true;
    }
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    lines.next().is_some_and(|line| line.eq_ignore_ascii_case("[global]"))
}
