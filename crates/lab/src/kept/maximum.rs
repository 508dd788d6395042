//! What `arraylab max` kept, read from its run folder.

use std::time::SystemTime;

use analysis::maximum::Maximum;
use record::{FolderError, RunFile, RunFolder, RunInfo};
use serde_json::Value;

/// How much a host took.
pub struct KeptMaximum {
    /// What it is called.
    pub title: String,
    /// When it began.
    pub started: Option<SystemTime>,
    /// On what it was, and how it ended.
    pub about: String,
    /// What it came to.
    pub maximum: Maximum,
    /// The document of `max --json`.
    pub document: Value,
    /// What a reader must know besides.
    pub remarks: Vec<String>,
    /// How it was made, and on what: names of files and their text.
    pub files: Vec<(&'static str, String)>,
}

impl KeptMaximum {
    /// Reads it; nothing if it has not come to its end.
    pub(super) fn read(folder: &RunFolder, info: RunInfo) -> Result<Option<KeptMaximum>, FolderError> {
        let Some(document) = folder.read_json::<Value>(RunFile::Summary)? else { return Ok(None) };
        let damaged = |source| FolderError::Damaged { path: folder.path().join(RunFile::Summary.name()), source };
        let maximum: Maximum = serde_json::from_value(document.clone()).map_err(damaged)?;
        let remarks = document["remarks"].as_array().into_iter().flatten().filter_map(Value::as_str);
        Ok(Some(KeptMaximum {
            title: info.name,
            started: info.started,
            about: format!("how much {} devices and their host take", maximum.devices.len()) + super::ended(info.state),
            maximum,
            remarks: remarks.map(str::to_owned).collect(),
            files: super::texts(|file| folder.read(file))?,
            document,
        }))
    }
}
