//! Files to survey where no device is named: made, filled, and gone afterwards.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rand::Rng;
use runtime::Random;
use units::Bytes;

/// Files of one survey; dropping it removes them.
#[derive(Debug)]
pub struct Files {
    paths: Vec<PathBuf>,
}

/// Why files could not be made.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum FileError {
    #[error("{}: {source}; name another directory with --dir", directory.display())]
    Directory { directory: PathBuf, source: std::io::Error },
    #[error("{} has {free} free, too little for {count} files; make room, name another directory with --dir, or set --size", directory.display())]
    NoRoom { directory: PathBuf, free: Bytes, count: u32 },
    #[error("{}: {source}; the file system may be full or read-only", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("the survey was interrupted while it made its files; they are removed")]
    Interrupted,
}

/// Large enough that a disk reads from its medium and not from its buffer, small enough to be made in seconds.
const USUAL: Bytes = Bytes::mib(256);
/// Less would be read in less than a measurement.
const SMALLEST: Bytes = Bytes::mib(16);
/// Of free space, files take no more than this share.
pub(crate) const SHARE_OF_FREE: u64 = 4;

impl Files {
    /// Makes `count` files of `size` in `directory`, full of random bytes, which no layer below can compress or leave
    /// out. `progress` is told how much is written. What was made until an error, or until `interrupted` is set, is
    /// removed.
    pub fn make(
        directory: &Path,
        count: u32,
        size: Option<Bytes>,
        interrupted: &AtomicBool,
        progress: &mut dyn FnMut(Bytes, Bytes),
    ) -> Result<Files, FileError> {
        let free = host::mount::free_space(directory)
            .map_err(|source| FileError::Directory { directory: directory.to_owned(), source })?;
        let affordable = (free / SHARE_OF_FREE / u64::from(count)).round_down(Bytes::mib(1));
        let size = size.map_or(USUAL.min(affordable), |size| size.round_up(Bytes::mib(1)));
        if size < SMALLEST || size * u64::from(count) > free {
            return Err(FileError::NoRoom { directory: directory.to_owned(), free, count });
        }
        let mut files = Files { paths: Vec::new() };
        let mut block = vec![0u8; Bytes::mib(1).as_usize()];
        let mut random = Random::named(std::process::id().into(), "survey files");
        let whole = size * u64::from(count);
        let mut written = Bytes::ZERO;
        for path in Files::names(directory, count) {
            let failed = |source| FileError::Write { path: path.clone(), source };
            let mut file = std::fs::File::create_new(&path).map_err(failed)?;
            files.paths.push(path.clone());
            for _ in 0..size / Bytes::mib(1) {
                if interrupted.load(Relaxed) {
                    return Err(FileError::Interrupted);
                }
                random.fill_bytes(&mut block);
                file.write_all(&block).map_err(failed)?;
                written += Bytes::mib(1);
                progress(written, whole);
            }
            // On the medium before anything is timed.
            file.sync_all().map_err(failed)?;
        }
        Ok(files)
    }

    /// Where this process makes its files: known beforehand to whoever must remove them in a hurry.
    pub fn names(directory: &Path, count: u32) -> Vec<PathBuf> {
        let name = |number| format!("arraylab-survey-{}-{number}", std::process::id());
        (0..count).map(|number| directory.join(name(number))).collect()
    }

    /// Where they are.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for path in &self.paths {
            // If it is gone already, someone has done our work.
            let _ = std::fs::remove_file(path);
        }
    }
}
