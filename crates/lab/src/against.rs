//! Two runs that were kept, held against each other: what they came to, and how their experiments differ.

use std::path::Path;

use analysis::{Compared, Summarizer, Summary};
use record::{FolderError, RunFile, RunFolder};

/// Why two runs cannot be compared.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum AgainstError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("{0} holds no counted requests, so there is nothing to compare; was it interrupted in its start-up?")]
    Nothing(String),
}

/// What two runs have in common, and what not.
#[derive(Debug, Clone, PartialEq)]
pub struct Against {
    /// Group by group.
    pub compared: Vec<Compared>,
    /// Lines of the experiments as they ran that only the earlier, or only the later has.
    pub only: [Vec<String>; 2],
}

/// Compares the run in one folder with an earlier one.
pub fn against(before: &Path, after: &Path) -> Result<Against, AgainstError> {
    let [earlier, later] = [summary(before)?, summary(after)?];
    let text = |path: &Path| -> Result<String, FolderError> {
        let text = RunFolder::open(path)?.0.read(RunFile::Experiment)?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&text).into_owned())
    };
    let [first, second] = [text(before)?, text(after)?];
    let only = |these: &str, those: &str| {
        let lines = these.lines().filter(|line| !line.is_empty() && !those.lines().any(|other| other == *line));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let only = [only(&first, &second), only(&second, &first)];
    Ok(Against { compared: analysis::against(&earlier, &later), only })
}

/// From the rows, which also runs have that go on or were killed.
fn summary(path: &Path) -> Result<Summary, AgainstError> {
    let (folder, _) = RunFolder::open(path)?;
    let (mut records, meta) = folder.records()?;
    let mut summarizer = Summarizer::new(&meta.labels);
    records.visit(|rows| {
        summarizer.add(rows);
        Ok::<(), FolderError>(())
    })?;
    let summary = summarizer.summary();
    match summary.total.figures.requests {
        0 => Err(AgainstError::Nothing(path.display().to_string())),
        _ => Ok(summary),
    }
}
