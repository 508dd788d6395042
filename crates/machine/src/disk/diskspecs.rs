//! Importing DiskSim drive files.
//!
//! A drive is three files: `X.diskspecs` (controller and buffer), `X.model` (layout and mechanics, named in the first)
//! and `X.seek` (the seek curve, named in the second; a drive with a seek equation has none). They become one [`Part`]
//! whose every value names the file and line that it came from. The names and units are ours; what DiskSim parameter
//! each one was is in `translate`.
//!
//! The importer refuses what it does not understand, with one message that names file and line. What DiskSim itself
//! tolerates in its own release is tolerated: unsorted slips, sectors remapped to themselves, a last zone that ends one
//! cylinder beyond the count (hp_c2490a), more room in the zones than blocks (atlas_III), spare parameters that nothing
//! reads.

mod seek;
mod syntax;
mod translate;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::part::{Part, PartError, Place};

/// A file's name, for messages and sources, and its text.
#[derive(Debug, Clone)]
pub struct Text {
    /// The name.
    pub name: String,
    /// The content.
    pub text: String,
}

/// Which of the three files another file asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Layout and mechanics.
    Model,
    /// The seek curve.
    Seek,
}

/// As the command line calls it.
impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(match self {
            Role::Model => "model",
            Role::Seek => "seek",
        })
    }
}

/// Why drive files cannot be imported: where, and what is wrong.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}: {trouble}", Place::line(file, *line))]
pub struct ImportError {
    /// The file's name.
    pub file: Arc<str>,
    /// Counted from 1; 0 if the file could not be read at all.
    pub line: u32,
    /// What is wrong.
    pub trouble: Trouble,
}

/// What is wrong with a drive file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum Trouble {
    #[error("cannot be read: {error}")]
    Unreadable { error: String },
    #[error("the file that is named here cannot be read: {error}; give its path with --{role}")]
    NoFile { role: Role, error: String },
    #[error("'{found}' stands where {wanted} should be")]
    Unexpected { found: char, wanted: &'static str },
    #[error("the file ends where {wanted} should be; it may be truncated")]
    Ends { wanted: &'static str },
    #[error("the file ends inside the {what} that begins on line {line}; it may be truncated")]
    Unclosed { what: String, line: u32 },
    #[error("'{key}' has no value; write '{key} = ...'")]
    NoValue { key: String },
    #[error("'{key}' is given twice in this block")]
    Twice { key: String },
    #[error("blocks are nested more than {limit} deep")]
    TooDeep { limit: u32 },
    #[error("there is no {wanted} block in this file")]
    NoBlock { wanted: &'static str },
    #[error("the file holds several drives ({names}); keep the one to be imported")]
    Several { names: String },
    #[error("the {block} block that begins here has no '{key}'; the file may be truncated")]
    Missing { block: String, key: &'static str },
    #[error("'{key}' is {found}; write {accepted}")]
    Wrong { key: String, found: String, accepted: String },
    #[error("'{found}' is not {wanted}")]
    NotA { found: String, wanted: &'static str },
    #[error("{said} seek distances are announced, {found} follow; the file may be truncated")]
    SeekCount { said: usize, found: usize },
    #[error("{what} is not modelled; {instead}")]
    NotModelled { what: String, instead: &'static str },
    #[error("{0}")]
    Contradiction(String),
}

/// A drive as imported.
#[derive(Debug, Clone)]
pub struct Imported {
    /// The part; it has been checked and can be built.
    pub part: Part,
    /// What a careful person should know: values that were assumed, contradictions that were resolved.
    pub notes: Vec<String>,
}

/// Imports a drive. `find` gives the model and seek file that the first and second file name.
pub fn import(specs: &Text, find: &mut dyn FnMut(Role, &str) -> Result<Text, String>) -> Result<Imported, ImportError> {
    let imported = translate::drive(specs, find)?;
    // The part carries the places of the drive files, so that this check speaks of them.
    super::parameters::Parameters::read(&imported.part).map_err(from_part)?;
    Ok(imported)
}

/// Imports a drive from files. A model or seek file that is not given is looked for under the name that the file before
/// it uses, beside that file.
pub fn import_files(specs: &Path, model: Option<&Path>, seek: Option<&Path>) -> Result<Imported, ImportError> {
    let read = |path: &Path| -> Result<Text, std::io::Error> {
        let name =
            path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
        // Drive files are plain ASCII; a stray byte in a comment must not matter.
        let bytes = std::fs::read(path)?;
        Ok(Text { name, text: String::from_utf8_lossy(&bytes).into_owned() })
    };
    let text = read(specs).map_err(|error| ImportError {
        file: Arc::from(specs.display().to_string()),
        line: 0,
        trouble: Trouble::Unreadable { error: error.to_string() },
    })?;
    let mut beside: PathBuf = specs.to_owned();
    import(&text, &mut |role, name| {
        let given = match role {
            Role::Model => model,
            Role::Seek => seek,
        };
        let path = given.map_or_else(|| beside.with_file_name(name), Path::to_owned);
        beside.clone_from(&path);
        read(&path).map_err(|error| format!("{}: {error}", path.display()))
    })
}

fn from_part(error: PartError) -> ImportError {
    let message = format!("{}: {}", error.path, error.problem);
    ImportError { file: error.place.file, line: error.place.line, trouble: Trouble::Contradiction(message) }
}
