//! Where results go: standard output, which may be a pipe that nobody reads any more, or a file on a disk that is full;
//! and files that the user names for them.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::fail::Failure;

/// Prints a result. A reader that went away (`| head`) has what it wanted.
pub fn text(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::world(anyhow::anyhow!("the result cannot be printed: standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints a result as one JSON document.
pub fn json(document: &Value) -> Result<(), Failure> {
    text(&format!("{document:#}\n"))
}

/// A file that the user named for a result. It may hold an older one, which is written over; a disk is not written to
/// by a slip of the pen.
pub struct Sink {
    path: PathBuf,
    file: File,
    next: &'static str,
}

impl Sink {
    /// Opens it, and changes nothing yet. `next` says what to do if it cannot be written.
    pub fn open(path: &Path, next: &'static str) -> Result<Sink, Failure> {
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(|error| blame(path, error, next))?;
        match file.metadata() {
            Ok(metadata) if metadata.file_type().is_block_device() => Err(Failure::input(anyhow::anyhow!(
                "{} is a block device, and a result goes to a file; {next}",
                path.display()
            ))),
            Ok(_) => Ok(Sink { path: path.to_owned(), file, next }),
            Err(error) => Err(blame(path, error, next)),
        }
    }

    /// Writes the result, in place of what was there.
    pub fn write(mut self, text: &str) -> Result<(), Failure> {
        let regular = self.file.metadata().is_ok_and(|metadata| metadata.is_file());
        let emptied = if regular { self.file.set_len(0) } else { Ok(()) };
        emptied.and_then(|()| self.file.write_all(text.as_bytes())).map_err(|error| blame(&self.path, error, self.next))
    }
}

fn blame(path: &Path, error: std::io::Error, next: &str) -> Failure {
    Failure::world(anyhow::anyhow!("{}: cannot be written: {error}; {next}", path.display()))
}

/// Writes a result into the file that the user named.
pub fn write(path: &Path, text: &str, next: &'static str) -> Result<(), Failure> {
    Sink::open(path, next)?.write(text)
}

/// Refuses a file for a result that is one of those the result is made from, by whatever name.
pub fn spares(measured: &[PathBuf], path: &Path, next: &str) -> Result<(), Failure> {
    let which = |path: &Path| path.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()));
    let Some(there) = which(path) else { return Ok(()) };
    match measured.iter().find(|file| which(file) == Some(there)) {
        Some(_) => Err(Failure::input(anyhow::anyhow!(
            "{} is what the result would be made from, and it would be written over; {next}",
            path.display()
        ))),
        None => Ok(()),
    }
}
