//! fio's job files.
//!
//! Most people who load storage have job files of fio (<https://fio.readthedocs.io>, "Job file format"); this crate
//! reads them. It is pure: text in, [`Job`]s out, each option with its file and line. What a job comes to on this
//! machine (which files, how large) is the laboratory's to say.
//!
//! Three steps, a file each: [`syntax`] makes sections of lines, [`option`] knows which options there are and what
//! becomes of each, and a job is made of a section: [`job`] says what it is, `section.rs`, `load.rs` and `reporting.rs`
//! how it is read. Values are read by [`value`], as fio 3.33 reads them (`k` is 1024 and `KiB` 1000, unless
//! `kb_base=1000`: tried out on the program, as its manual has it both ways).
//!
//! A job that asks for what is not done here would be measured as something else. So an option that is unknown or not
//! supported is an error with its line, unless the caller asks for a lenient reading, which lists it in [`File::notes`]
//! and goes on.

mod arithmetic;
pub mod bytes;
pub mod content;
pub mod job;
mod known;
mod load;
pub mod option;
pub mod priority;
mod reader;
pub mod reporting;
pub mod rules;
mod section;
pub mod syntax;
pub mod value;

use std::fmt;

pub use content::{Made, Piece};
pub use job::{Check, Direction, Engine, Extent, Fill, Job, Known, Order, Pace, Replay, Skew, Zones};
pub use option::{Fate, Note};
pub use priority::Priorities;
pub use reporting::{Logs, Reporting, Unified};
pub use rules::{Ends, Rules};
pub use syntax::{Included, Surroundings};

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
    #[error("{place}: '{option}' is '{value}'{unset}; write {accepted}")]
    Value { place: Place, option: String, value: String, unset: Unset, accepted: &'static str },
    #[error("{place}: '{option}' has no value{unset}; write {accepted}")]
    NoValue { place: Place, option: String, unset: Unset, accepted: &'static str },
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
    #[error("{place}: fio 3.33 has no option '{option}'{}; correct it, or add --lenient to run without it", nearest.map(|known| format!("; the nearest is '{known}'")).unwrap_or_default())]
    Unknown { place: Place, option: String, nearest: Option<&'static str> },
    #[error("{place}: the option '{option}' is not supported: {why}; take it out, or add --lenient to run without it")]
    Unsupported { place: Place, option: String, why: String },
    #[error("{place}: --strict refuses the option '{option}': {why}; take it out, or leave --strict away")]
    Strict { place: Place, option: String, why: String },
}

/// Variables of the environment that an option uses and that are not set; none mostly.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unset(pub Vec<String>);

impl fmt::Display for Unset {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.0[..] {
            [] => Ok(()),
            names => write!(f, ", as the environment has no variable {}", names.join(", ")),
        }
    }
}

/// What becomes of a file with options that are not kept to the letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rigour {
    /// Unknown and unsupported options are listed, and the job runs without them: `--lenient`.
    Lenient,
    /// They are errors.
    Usual,
    /// So are those that have no effect here: `--strict`.
    Strict,
}

/// Reads a job file.
pub fn read(name: &str, text: &str, surroundings: &Surroundings, rigour: Rigour) -> Result<File, JobError> {
    let sections = syntax::read(name, text, surroundings)?;
    if rigour != Rigour::Lenient {
        option::refuse_unknown(&sections)?;
    }
    let (jobs, notes) = job::jobs(&sections)?;
    if jobs.is_empty() {
        return Err(JobError::NoJob { file: name.to_owned() });
    }
    let refused = |note: &&Note| match note.fate {
        Fate::NotKept | Fate::Unknown => rigour != Rigour::Lenient,
        Fate::NoEffect | Fate::Unset => rigour == Rigour::Strict,
    };
    if let Some(note) = notes.iter().find(refused) {
        let (place, option, why) = (note.place.clone(), note.option.clone(), note.what.to_owned());
        return Err(match rigour {
            Rigour::Strict => JobError::Strict { place, option, why },
            _ => JobError::Unsupported { place, option, why },
        });
    }
    Ok(File { jobs, notes })
}

/// True if this is a job file rather than an experiment.
///
/// By the name's end (`.fio`, `.job`, `.ini`; `.toml` is an experiment). Otherwise by content: the text is a job file
/// if it begins with a section, and has a line that TOML does not know (a bare word, an unquoted value such as `bs=4k`,
/// a `;`) or no section of an experiment.
pub fn is_meant(path: &std::path::Path, text: &str) -> bool {
    let ends = |known: &[&str]| path.extension().is_some_and(|end| known.iter().any(|known| end == *known));
    if ends(&["fio", "job", "ini"]) {
        return true;
    }
    if ends(&["toml"]) {
        return false;
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    let Some(first) = lines.next().filter(|line| line.starts_with('[') && !line.starts_with("[[")) else {
        return false;
    };
    let unquoted = |value: &str| {
        let value = value.split('#').next().unwrap_or_default().trim();
        let quoted = value.starts_with(['"', '\'', '[', '{']) || value == "true" || value == "false";
        !quoted && value.parse::<f64>().is_err()
    };
    let of_fio = |line: &str| match line.split_once('=') {
        Some((name, value)) => unquoted(value) || option::is_known(name.trim()),
        None => !line.starts_with('[') && !line.ends_with([']', '}', ',']),
    };
    first.starts_with("[global") || lines.any(of_fio)
}
