//! Folders that nobody has used yet, and the files in them, each of which is there whole or not at all.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::folder::FolderError;
use crate::whole::WholeFile;

/// Makes a new folder under `runs` (which is made too if it is missing), named by date (UTC), name and the first number
/// that is free.
pub(crate) fn new_folder(runs: &Path, name: &str, now: SystemTime) -> Result<PathBuf, FolderError> {
    std::fs::create_dir_all(runs).map_err(|source| FolderError::Io { path: runs.to_owned(), source })?;
    let date = DateTime::<Utc>::from(now).format("%Y-%m-%d");
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let plain_name: String = name.chars().map(plain).collect();
    for number in 1u32.. {
        let path = runs.join(format!("{date}-{plain_name}-{number}"));
        match std::fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(FolderError::Io { path, source }),
        }
    }
    unreachable!("a directory with four billion runs")
}

/// Writes a file, in place of an older one if there is one.
pub(crate) fn write(folder: &Path, name: &str, contents: &[u8]) -> Result<(), FolderError> {
    let path = folder.join(name);
    let write = || {
        let (whole, mut file) = WholeFile::create(&path)?;
        io::Write::write_all(&mut file, contents)?;
        whole.commit(&file)
    };
    write().map_err(|source| FolderError::Io { path: path.clone(), source })
}

/// Writes a file as JSON.
pub(crate) fn write_json(folder: &Path, name: &str, value: &impl Serialize) -> Result<(), FolderError> {
    let mut text =
        serde_json::to_vec_pretty(value).map_err(|source| FolderError::Damaged { path: folder.join(name), source })?;
    text.push(b'\n');
    write(folder, name, &text)
}

/// Reads a file; `None` if it is not (or not yet) there.
pub(crate) fn read(folder: &Path, name: &str) -> Result<Option<Vec<u8>>, FolderError> {
    let path = folder.join(name);
    match std::fs::read(&path) {
        Ok(contents) => Ok(Some(contents)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(source) => Err(FolderError::Io { path, source }),
    }
}

/// Reads a file as JSON.
pub(crate) fn read_json<T: DeserializeOwned>(folder: &Path, name: &str) -> Result<Option<T>, FolderError> {
    let Some(text) = read(folder, name)? else { return Ok(None) };
    let value =
        serde_json::from_slice(&text).map_err(|source| FolderError::Damaged { path: folder.join(name), source })?;
    Ok(Some(value))
}

/// Removes a file that may not be there.
pub(crate) fn remove(path: PathBuf) -> Result<(), FolderError> {
    match std::fs::remove_file(&path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(FolderError::Io { path, source }),
        _ => Ok(()),
    }
}
