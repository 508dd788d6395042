//! What a folder holds: a run, a survey, a maximum, a sweep or a comparison.
//!
//! The first three have a run folder, in which the experiment says which it is; a sweep and a comparison have an index
//! that names run folders ([`record::IndexFolder`]). Who is given a folder asks here, so that every command tells them
//! apart in the same way.

mod comparison;
mod maximum;
mod survey;
mod sweep;
mod table;

use std::path::{Path, PathBuf};

use record::{Clock, FolderError, IndexFolder, IndexKind, RunFile, RunFolder, RunState};

pub use comparison::{Comparison, KeptComparison, Pair, Side, Turn};
pub use maximum::KeptMaximum;
pub use survey::KeptSurvey;
pub(crate) use survey::is_one as is_survey;
pub use sweep::{Axis, Found, KeptSweep, Sweep, SweepPoint, Sweeping, program};

/// What a folder holds.
pub enum Kept {
    /// A run, or something that the reader of runs will say more of.
    Run,
    /// A survey.
    Survey(Box<KeptSurvey>),
    /// How much a host took.
    Maximum(Box<KeptMaximum>),
    /// A sweep.
    Sweep(Box<KeptSweep>),
    /// A comparison.
    Comparison(Box<KeptComparison>),
}

impl Kept {
    /// In a sentence.
    pub fn name(&self) -> &'static str {
        match self {
            Kept::Run => "a run",
            Kept::Survey(_) => "a survey",
            Kept::Maximum(_) => "the result of arraylab max",
            Kept::Sweep(_) => IndexKind::Sweep.name(),
            Kept::Comparison(_) => IndexKind::Comparison.name(),
        }
    }
}

/// Why it cannot be told.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum KeptError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("{} is a survey that goes on, or was killed: it has no verdicts yet; survey again", .0.display())]
    Unfinished(PathBuf),
    #[error("{} is a measurement by `arraylab max` that goes on, or was killed: it has no result yet; measure again", .0.display())]
    NoMaximum(PathBuf),
}

/// What the folder at this path holds.
pub fn open(path: &Path) -> Result<Kept, KeptError> {
    let Ok((folder, info)) = RunFolder::open(path) else {
        return Ok(match IndexFolder::find(path) {
            Some(index) if index.kind() == IndexKind::Sweep => Kept::Sweep(Box::new(KeptSweep::read(index)?)),
            Some(index) => Kept::Comparison(Box::new(KeptComparison::read(index)?)),
            None => Kept::Run,
        });
    };
    if survey::says(&folder, "max")? {
        let kept = KeptMaximum::read(&folder, info)?;
        return kept.map(|kept| Kept::Maximum(Box::new(kept))).ok_or(KeptError::NoMaximum(path.to_owned()));
    }
    if !is_survey(&folder)? {
        return Ok(Kept::Run);
    }
    match KeptSurvey::read(&folder, info)? {
        Some(survey) => Ok(Kept::Survey(Box::new(survey))),
        None => Err(KeptError::Unfinished(path.to_owned())),
    }
}

/// The texts of a folder that say how it was run, with their names.
pub(crate) fn texts(
    read: impl Fn(RunFile) -> Result<Option<Vec<u8>>, FolderError>,
) -> Result<Vec<(&'static str, String)>, FolderError> {
    let mut texts = Vec::new();
    for file in [RunFile::Experiment, RunFile::Environment, RunFile::Topology] {
        let text = read(file)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        texts.extend(text.map(|text| (file.name(), text)));
    }
    Ok(texts)
}

/// How an index was made, and on what: names of files and their text.
pub fn described(index: &IndexFolder) -> Result<Vec<(&'static str, String)>, FolderError> {
    texts(|file| index.read_file(file))
}

/// Whose time it was, behind what it was.
fn on(clock: Clock) -> &'static str {
    match clock {
        Clock::Live => "on real devices",
        Clock::Simulated => "in virtual time",
    }
}

/// How something ended, where that is to be told: behind what it was.
fn ended(state: RunState) -> &'static str {
    match state {
        RunState::Complete => "",
        RunState::Interrupted => ", ended early",
        RunState::Running => ", not at its end, or killed",
    }
}
