//! The index folder: what several runs came to together, beside their run folders.
//!
//! ```text
//! runs/2026-02-14-load-1/         a run folder, as of every run
//! runs/2026-02-14-load-2/
//! runs/2026-02-14-load-sweep-1/
//!   sweep.json                    the axes, and of each point the run folder and the figures
//!   points.csv                    the same figures as a table, once the sweep has ended
//!   experiment.toml, environment.json, topology.json    as in a run folder
//! ```
//! The runs stay where they are, so that all that is said of runs holds for them. An index names them without a path:
//! the folder that holds all of them can be moved. The index has the figures of all runs, as run folders may be thrown
//! away. Rejected: run folders inside of the index, which every command would have to look for in two places.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::files;
use crate::folder::{FolderError, RunFile, SCHEMA};

/// The kinds of index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// The points of a sweep.
    Sweep,
    /// Set-ups in turns.
    Comparison,
}

impl IndexKind {
    /// All of them.
    pub const ALL: [IndexKind; 2] = [IndexKind::Sweep, IndexKind::Comparison];

    /// The file that makes a folder one.
    pub const fn file(self) -> &'static str {
        match self {
            IndexKind::Sweep => "sweep.json",
            IndexKind::Comparison => "comparison.json",
        }
    }

    /// In a sentence.
    pub const fn name(self) -> &'static str {
        match self {
            IndexKind::Sweep => "a sweep",
            IndexKind::Comparison => "a comparison",
        }
    }
}

/// A folder that names runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexFolder {
    path: PathBuf,
    kind: IndexKind,
}

impl IndexFolder {
    /// Makes a new folder under `runs`, beside those of the runs. It is an index once [`IndexFolder::write`] was
    /// called.
    pub fn create(runs: &Path, name: &str, kind: IndexKind, now: SystemTime) -> Result<IndexFolder, FolderError> {
        Ok(IndexFolder { path: files::new_folder(runs, name, now)?, kind })
    }

    /// The index in this folder, if it holds one.
    pub fn find(path: &Path) -> Option<IndexFolder> {
        let kind = IndexKind::ALL.into_iter().find(|kind| path.join(kind.file()).is_file())?;
        Some(IndexFolder { path: path.to_owned(), kind })
    }

    /// What it is of.
    pub fn kind(&self) -> IndexKind {
        self.kind
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of a run that it names: one beside this one, whatever a file says.
    pub fn run(&self, name: &str) -> PathBuf {
        let name = Path::new(name).file_name().unwrap_or_default();
        match (self.path.parent(), self.path.file_name()) {
            (Some(runs), Some(_)) => runs.join(name),
            _ => self.path.join("..").join(name),
        }
    }

    /// All that is written here, there or not.
    pub fn files(&self) -> Vec<PathBuf> {
        let names = RunFile::ALL.map(RunFile::name).into_iter().chain([self.kind.file()]);
        names.map(|name| self.path.join(name)).collect()
    }

    /// Writes the index, in place of an older one if there is one.
    pub fn write(&self, index: &impl Serialize) -> Result<(), FolderError> {
        files::write_json(&self.path, self.kind.file(), index)
    }

    /// Reads the index.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, FolderError> {
        let path = self.path.join(self.kind.file());
        let gone = || FolderError::Io { path: path.clone(), source: std::io::ErrorKind::NotFound.into() };
        let index: serde_json::Value = files::read_json(&self.path, self.kind.file())?.ok_or_else(gone)?;
        match index["schema"].as_u64() {
            Some(schema) if schema > u64::from(SCHEMA) => Err(FolderError::Newer { path: self.path.clone(), schema }),
            _ => serde_json::from_value(index).map_err(|source| FolderError::Damaged { path, source }),
        }
    }

    /// Writes a file of the same name and meaning as in a run folder.
    pub fn write_file(&self, file: RunFile, contents: &[u8]) -> Result<(), FolderError> {
        files::write(&self.path, file.name(), contents)
    }

    /// Reads such a file; `None` if it is not there.
    pub fn read_file(&self, file: RunFile) -> Result<Option<Vec<u8>>, FolderError> {
        files::read(&self.path, file.name())
    }
}
