//! The run folder: everything that is known of one run, in files that any tool opens.
//!
//! ```text
//! runs/2026-02-14-survey-1/
//!   run.json           what the folder is: schema, name, start, state; written first, so that the folder is one from the start
//!   status.json        how far it is, only while it goes on
//!   experiment.toml    the experiment as run, every default and --set spelled out
//!   environment.json   machine, kernel, versions
//!   topology.json      what the paths stand on
//!   records.raw        rows so far, only while (or if) they had to be spilled
//!   records.parquet    all rows
//!   series.csv         what each device did in each second
//!   points.csv         of a sweep: the figures of all points
//!   spans.parquet, trace.json   spans of modelled machines, if they were kept
//!   ledger.bin         what was written where, if streams had `verify`
//!   ledger.log         the same write by write, only while (or if) the run has not come to its end
//!   summary.json       what it came to
//!   ranks/1/           of a run on several hosts: a folder of the same kind for each rank, on its own host
//! ```
//! No file is ever seen half-written (the raw file apart, whose tail may be cut off), so a folder can be read while its
//! run goes on. No folder is ever used twice: making a directory fails if it exists, also for two programs at once.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::files;
use crate::index::{IndexFolder, IndexKind};
use crate::meta::rfc3339;
use crate::{Meta, RawError, Recording, Row, RowReader, RowWriter, SpanLog, TableError};

/// The version of the folder's layout, and of an index. A change that an older reader would misread raises it.
pub const SCHEMA: u32 = 1;

/// The ledger of a run that goes on, or was killed.
pub const LEDGER_LOG: &str = "ledger.log";

/// The files of a run folder that are written in one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunFile {
    /// The experiment as run.
    Experiment,
    /// What it came to.
    Summary,
    /// Machine, kernel, versions.
    Environment,
    /// What the paths stand on.
    Topology,
    /// What was written where, if it is to be verified later.
    Ledger,
    /// What each device did in each second.
    Series,
    /// The figures of all points; of a sweep only.
    Points,
    /// How far it is; there only while it goes on.
    Status,
}

impl RunFile {
    /// All of them.
    pub const ALL: [RunFile; 8] = [
        RunFile::Experiment,
        RunFile::Summary,
        RunFile::Environment,
        RunFile::Topology,
        RunFile::Ledger,
        RunFile::Series,
        RunFile::Points,
        RunFile::Status,
    ];

    /// Its name in the folder.
    pub const fn name(self) -> &'static str {
        match self {
            RunFile::Experiment => "experiment.toml",
            RunFile::Summary => "summary.json",
            RunFile::Environment => "environment.json",
            RunFile::Topology => "topology.json",
            RunFile::Ledger => "ledger.bin",
            RunFile::Series => "series.csv",
            RunFile::Points => "points.csv",
            RunFile::Status => "status.json",
        }
    }
}

/// How far a run came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// It goes on, or was killed.
    Running,
    /// It ended as its experiment said.
    Complete,
    /// It was ended early, and kept what it had.
    Interrupted,
}

/// What a run folder says about itself, in `run.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInfo {
    schema: u32,
    /// The name it was given.
    pub name: String,
    /// When the folder was made.
    #[serde(with = "rfc3339")]
    pub started: Option<SystemTime>,
    /// How far it came.
    pub state: RunState,
}

/// Why a run folder cannot be made, filled or read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum FolderError {
    /// The kernel refuses.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// Some other folder, or a file.
    #[error("{} is not a run folder: it has no run.json; {}", path.display(), next(inside))]
    NotARun { path: PathBuf, inside: Vec<PathBuf> },
    /// The folder of several runs.
    #[error(
        "{} is {}, which names several runs; give the folder of one of them: {} says which there are", path.display(), kind.name(),
        path.join(kind.file()).display()
    )]
    Index { path: PathBuf, kind: IndexKind },
    /// Made by a later version.
    #[error("{} is a run folder of schema {schema}; this program reads up to {SCHEMA}: use the arraylab that made it, or a newer one", path.display())]
    Newer { path: PathBuf, schema: u64 },
    /// A JSON file that is not what it should be.
    #[error("{} is damaged: {source}", path.display())]
    Damaged { path: PathBuf, source: serde_json::Error },
    /// The run kept no rows.
    #[error("{} holds no records: {why}", path.display())]
    NoRecords { path: PathBuf, why: &'static str },
    /// The row file.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The raw file.
    #[error(transparent)]
    Raw(#[from] RawError),
}

/// The run folders in a folder, by name.
fn runs_in(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut runs: Vec<PathBuf> = entries.filter(|entry| entry.join("run.json").is_file()).collect();
    runs.sort();
    runs
}

/// What to give instead of a folder that holds these runs.
fn next(inside: &[PathBuf]) -> String {
    const NAMED: usize = 10;
    let named: Vec<String> = inside.iter().take(NAMED).map(|path| path.display().to_string()).collect();
    match inside.len() {
        0 => "give a folder that 'arraylab run' or 'arraylab survey' has made under runs/".to_owned(),
        count if count > NAMED => format!("it holds {count} of them, give one: {} and others", named.join(", ")),
        _ => format!("it holds some, give one: {}", named.join(", ")),
    }
}

/// A folder that holds one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes a new folder under `runs` (which is made too if it is missing), named by date (UTC), name and the first
    /// number that is free.
    pub fn create(runs: &Path, name: &str, now: SystemTime) -> Result<RunFolder, FolderError> {
        let folder = RunFolder { path: files::new_folder(runs, name, now)? };
        let info = RunInfo { schema: SCHEMA, name: name.to_owned(), started: Some(now), state: RunState::Running };
        folder.write_json_to("run.json", &info)?;
        Ok(folder)
    }

    /// Makes the folder of one rank of the run whose folder is `whole`. That one may be on another host: then it is
    /// made here, and holds nothing but ranks.
    pub fn create_rank(whole: &Path, rank: u32, now: SystemTime) -> Result<RunFolder, FolderError> {
        let path = whole.join("ranks").join(rank.to_string());
        std::fs::create_dir_all(&path).map_err(|source| FolderError::Io { path: path.clone(), source })?;
        let folder = RunFolder { path };
        let info =
            RunInfo { schema: SCHEMA, name: format!("rank {rank}"), started: Some(now), state: RunState::Running };
        folder.write_json_to("run.json", &info)?;
        Ok(folder)
    }

    /// Opens a folder that is there, and reads what it says about itself.
    pub fn open(path: &Path) -> Result<(RunFolder, RunInfo), FolderError> {
        let folder = RunFolder { path: path.to_owned() };
        // A path that does not exist at all is the kernel's to name.
        std::fs::metadata(path).map_err(|source| FolderError::Io { path: path.to_owned(), source })?;
        let none = || match IndexFolder::find(path).map(|index| index.kind()) {
            Some(kind) => FolderError::Index { path: path.to_owned(), kind },
            None => FolderError::NotARun { path: path.to_owned(), inside: runs_in(path) },
        };
        let info: serde_json::Value = files::read_json(path, "run.json")?.ok_or_else(none)?;
        match info["schema"].as_u64() {
            Some(schema) if schema > u64::from(SCHEMA) => Err(FolderError::Newer { path: path.to_owned(), schema }),
            _ => {
                let info = serde_json::from_value(info)
                    .map_err(|source| FolderError::Damaged { path: path.join("run.json"), source })?;
                Ok((folder, info))
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name, by which files refer to the run.
    pub fn id(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Where rows are spilled.
    pub fn raw_path(&self) -> PathBuf {
        self.path.join("records.raw")
    }

    /// Where the ledger is kept while the run goes on.
    pub fn ledger_log_path(&self) -> PathBuf {
        self.path.join(LEDGER_LOG)
    }

    /// Where the row file is.
    pub fn records_path(&self) -> PathBuf {
        self.path.join("records.parquet")
    }

    /// Where the file of spans is.
    pub fn spans_path(&self) -> PathBuf {
        self.path.join("spans.parquet")
    }

    /// Where the trace for Perfetto is.
    pub fn trace_path(&self) -> PathBuf {
        self.path.join("trace.json")
    }

    /// All that a run writes here, there or not: what others write beside it is theirs.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = vec![self.path.join("run.json"), self.raw_path(), self.records_path(), self.spans_path()];
        files.extend([self.trace_path(), self.ledger_log_path()]);
        files.extend(RunFile::ALL.map(|file| self.path.join(file.name())));
        files
    }

    /// Writes one of the files, in place of an older one if there is one.
    pub fn write(&self, file: RunFile, contents: &[u8]) -> Result<(), FolderError> {
        files::write(&self.path, file.name(), contents)
    }

    /// Writes one of the files as JSON.
    pub fn write_json(&self, file: RunFile, value: &impl Serialize) -> Result<(), FolderError> {
        self.write_json_to(file.name(), value)
    }

    /// Reads one of the files; `None` if it is not (or not yet) there.
    pub fn read(&self, file: RunFile) -> Result<Option<Vec<u8>>, FolderError> {
        files::read(&self.path, file.name())
    }

    /// Reads one of the files as JSON.
    pub fn read_json<T: DeserializeOwned>(&self, file: RunFile) -> Result<Option<T>, FolderError> {
        files::read_json(&self.path, file.name())
    }

    /// States how the run ended.
    pub fn set_state(&self, state: RunState) -> Result<(), FolderError> {
        let (_, info) = RunFolder::open(&self.path)?;
        self.write_json_to("run.json", &RunInfo { state, ..info })
    }

    /// Writes `records.parquet`, and removes `records.raw`, whose rows are in it then. After an error the raw file is
    /// still there.
    pub fn write_records(&self, recording: &Recording, meta: &Meta) -> Result<(), FolderError> {
        let mut writer = RowWriter::create(&self.records_path(), meta)?;
        recording.visit(|rows| writer.push(rows).map_err(FolderError::Table))?;
        writer.finish()?;
        files::remove(self.raw_path())
    }

    /// Removes the ledger of the run while it went on, if there was one: the whole is written.
    pub fn remove_ledger_log(&self) -> Result<(), FolderError> {
        files::remove(self.ledger_log_path())
    }

    /// Writes `spans.parquet`, all of them, and `trace.json`, the first of them: as many as a browser can show.
    pub fn write_spans(&self, spans: &SpanLog, meta: &Meta) -> Result<(), FolderError> {
        /// 25 MB of text, 8000 requests of a machine of 24 phases.
        const SHOWN: usize = 200_000;
        spans.write(&self.spans_path(), meta)?;
        let path = self.trace_path();
        spans.first(SHOWN).write_trace(&path).map_err(|source| FolderError::Io { path, source })
    }

    /// The rows, from whichever file has them.
    pub fn records(&self) -> Result<(Records, Meta), FolderError> {
        let (parquet, raw) = (self.records_path(), self.raw_path());
        if parquet.exists() {
            match RowReader::open(&parquet) {
                Ok((reader, meta)) => return Ok((Records::Table(reader), meta)),
                // Cut off while it was written of the raw file, which goes only when it is whole.
                Err(TableError::Format { .. }) if raw.exists() => {}
                Err(error) => return Err(error.into()),
            }
        }
        if raw.exists() {
            let (recording, meta) = Recording::from_raw(&raw)?;
            return Ok((Records::Raw(recording), meta));
        }
        let why = match RunFolder::open(&self.path)?.1.state {
            RunState::Running => {
                "its run goes on, or was killed before rows were written: those of runs shorter than a minute stay in memory, those of others go to disk every second"
            }
            RunState::Complete | RunState::Interrupted => {
                "neither records.parquet nor records.raw is there; were they moved away?"
            }
        };
        Err(FolderError::NoRecords { path: self.path.clone(), why })
    }

    /// The rows of this rank are in the records of the whole run: what was spilled is needed no longer.
    pub fn handed_over(&self, state: RunState) -> Result<(), FolderError> {
        files::remove(self.raw_path())?;
        self.set_state(state)
    }

    fn write_json_to(&self, name: &str, value: &impl Serialize) -> Result<(), FolderError> {
        files::write_json(&self.path, name, value)
    }
}

/// The rows of a run folder.
pub enum Records {
    /// Of a run that ended.
    Table(RowReader),
    /// Of a run that goes on or was killed.
    Raw(Recording),
}

impl Records {
    /// How many there are.
    pub fn rows(&self) -> u64 {
        match self {
            Records::Table(reader) => reader.rows(),
            Records::Raw(recording) => recording.rows(),
        }
    }

    /// Gives all rows to `take`, some at a time, in order of completion.
    pub fn visit<E>(&mut self, take: impl FnMut(&[Row]) -> Result<(), E>) -> Result<(), E>
    where
        E: From<TableError> + From<RawError>,
    {
        match self {
            Records::Table(reader) => reader.visit(take),
            Records::Raw(recording) => recording.visit(take),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RunFile;

    #[test]
    fn the_table_of_files_is_complete() {
        let source = include_str!("folder.rs");
        for file in RunFile::ALL {
            assert!(source.contains(&format!("//!   {} ", file.name())), "{} is not told of", file.name());
        }
    }
}
