//! Files that are there whole or not at all.
//!
//! Written beside their place under a hidden name, flushed, renamed: a reader sees the old file or the new one, also
//! after a power cut (the directory is flushed after the rename).

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// A file on its way to its place. Dropped before [`WholeFile::commit`], it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct WholeFile {
    path: PathBuf,
    beside: PathBuf,
    committed: bool,
}

impl WholeFile {
    /// Starts the file that will be `path`; what it is to contain goes into the file returned beside it.
    pub fn create(path: &Path) -> io::Result<(WholeFile, File)> {
        let name = path.file_name().ok_or_else(|| io::Error::other("the path names no file"))?;
        let beside = path.with_file_name(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
        let file = File::create(&beside)?;
        Ok((WholeFile { path: path.to_owned(), beside, committed: false }, file))
    }

    /// Puts the file in its place, in that of an older one if there is one.
    pub fn commit(mut self, file: &File) -> io::Result<()> {
        file.sync_all()?;
        std::fs::rename(&self.beside, &self.path)?;
        self.committed = true;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if !self.committed {
            // It may never have been made, and nobody reads it.
            let _ = std::fs::remove_file(&self.beside);
        }
    }
}
