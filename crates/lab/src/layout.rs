//! The files that an experiment wants made: laid out before its first request, and known again the next time.
//!
//! What is read must have been written, or the file system answers from nothing; so a file is filled with random bytes
//! if anything reads it, and only reserved otherwise. A file that an earlier run made is used again
//! (`host::guard::own`), and made longer if need be; one of somebody else's is never changed here.

use std::collections::{HashMap, HashSet};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use host::Kernel;
use host::Refusal;
use host::guard::{self, WritePermit};
use rand::Rng;
use runtime::Random;
use units::Bytes;

use crate::experiment::Experiment;

/// Why files were not made.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum LayoutError {
    #[error("{} holds {size:#}, less than the {wanted:#} that are asked for, and was made by somebody else, or changed since; remove it, ask for less, or name another file", path.display())]
    TooSmall { path: PathBuf, size: Bytes, wanted: Bytes },
    #[error("{} has {free} free, too little for {wanted} more; make room, ask for less, or name another directory", directory.display())]
    NoRoom { directory: PathBuf, free: Bytes, wanted: Bytes },
    #[error("{}: {source}; the file system may be full or read-only", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("{} is a directory or a device that is not there; name a file", path.display())]
    NoFile { path: PathBuf },
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the run was interrupted while its files were made; what was made is removed")]
    Interrupted,
}

/// Paths that any stream of these experiments reads.
pub fn read_paths<'e>(experiments: impl IntoIterator<Item = &'e Experiment>) -> HashSet<PathBuf> {
    let mut paths = HashSet::new();
    for experiment in experiments {
        for plan in &experiment.streams {
            let devices = experiment.devices.iter().enumerate().filter(|(index, _)| plan.runs_on(*index));
            let reads = plan.stream.mix != workload::Mix::WRITES;
            let filled = devices.filter(|(_, device)| reads || device.filled);
            paths.extend(filled.flat_map(|(_, device)| device.files.iter().cloned()));
        }
    }
    paths
}

/// Makes what is missing; gives the permits for what it made or knows as its own. `read` says which files are filled.
/// `progress` is told how much is written of how much.
pub fn lay_out(
    experiment: &Experiment,
    read: &HashSet<PathBuf>,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(Bytes, Bytes),
) -> Result<HashMap<PathBuf, WritePermit>, LayoutError> {
    let mut wanted: Vec<(&Path, Bytes)> = Vec::new();
    for device in &experiment.devices {
        for path in &device.files {
            let size = device.make.unwrap_or(Bytes::ZERO);
            match wanted.iter_mut().find(|(known, _)| known == path) {
                Some((_, most)) => *most = size.max(*most),
                None => wanted.push((path, size)),
            }
        }
    }
    let growing: HashSet<&Path> = experiment
        .devices
        .iter()
        .filter(|device| device.grows.is_some())
        .flat_map(|device| device.files.iter().map(PathBuf::as_path))
        // What another job wants made is made.
        .filter(|path| !wanted.iter().any(|(known, size)| known == path && !size.is_zero()))
        .collect();
    let kernel = Kernel::running();
    let mut permits = HashMap::new();
    let mut work: Vec<(PathBuf, Bytes, Bytes)> = Vec::new();
    for (path, size) in wanted {
        let there = match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => Some(Bytes::new(metadata.len())),
            Ok(_) => continue,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(source) => return Err(LayoutError::Write { path: path.to_owned(), source }),
        };
        let owned = match there {
            Some(_) => guard::own(&kernel, path)?,
            None if path.starts_with("/dev") || size.is_zero() && !growing.contains(path) => {
                return Err(LayoutError::NoFile { path: path.to_owned() });
            }
            None => None,
        };
        match (there, &owned) {
            (Some(there), None) if there < size && !growing.contains(path) => {
                return Err(LayoutError::TooSmall { path: path.to_owned(), size: there, wanted: size });
            }
            // It is made, and no room is reserved for it.
            (None, _) if growing.contains(path) => work.push((path.to_owned(), Bytes::ZERO, Bytes::ZERO)),
            (there, _) => {
                let there = there.unwrap_or(Bytes::ZERO);
                if there < size && !growing.contains(path) {
                    work.push((path.to_owned(), there, size));
                }
            }
        }
        permits.extend(owned.map(|permit| (path.to_owned(), permit)));
    }
    room(&work)?;
    let whole = work.iter().map(|(_, there, size)| *size - *there).sum();
    let mut done = Bytes::ZERO;
    let mut made: Vec<Made> = Vec::new();
    for (path, there, size) in work {
        let (permit, before) = match permits.remove(&path) {
            Some(permit) => (permit, Some(there)),
            None => match make_folders(&path).and_then(|()| Ok(guard::create(&path)?)) {
                Ok(permit) => (permit, None),
                Err(error) => return Err(discard(made, error)),
            },
        };
        made.push(Made { permit, before });
        let permit = &made.last().expect("it was pushed").permit;
        let filled = match read.contains(&path) {
            true => fill(permit, there, size, interrupted, &mut |bytes| {
                done += bytes;
                progress(done, whole);
            }),
            // It grows as it is written.
            false if size.is_zero() => Ok(true),
            false => permit.reserve(size).map(|()| true),
        };
        match filled {
            Ok(true) => {}
            Ok(false) => return Err(discard(made, LayoutError::Interrupted)),
            Err(source) => return Err(discard(made, LayoutError::Write { path, source })),
        }
        permit.mark();
    }
    permits.extend(made.into_iter().map(|made| (made.permit.path().to_owned(), made.permit)));
    Ok(permits)
}

/// Makes the directories that a file is to lie in, as fio does.
fn make_folders(path: &Path) -> Result<(), LayoutError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.exists());
    let made = parent.map_or(Ok(()), std::fs::create_dir_all);
    made.map_err(|source| LayoutError::Write { path: path.to_owned(), source })
}

/// A file that is made, or made longer.
struct Made {
    permit: WritePermit,
    /// What it held before; nothing if it was not there.
    before: Option<Bytes>,
}

/// Leaves everything as it was: what was made is removed, and what was made longer is as long as before and known as
/// ours again.
fn discard(made: Vec<Made>, error: LayoutError) -> LayoutError {
    for Made { permit, before } in made {
        // The error that is returned says more than one of these would.
        let _ = match before {
            None => std::fs::remove_file(permit.path()).is_ok(),
            Some(before) => permit.file().set_len(before.get()).is_ok() && permit.mark(),
        };
    }
    error
}

/// Refuses what a file system has no room for before half of it is written.
fn room(work: &[(PathBuf, Bytes, Bytes)]) -> Result<(), LayoutError> {
    let mut wanted: HashMap<PathBuf, Bytes> = HashMap::new();
    for (path, there, size) in work {
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        *wanted.entry(directory).or_default() += *size - *there;
    }
    for (directory, wanted) in wanted {
        // A directory that is not there yet will be on the file system of the nearest that is.
        let there =
            directory.ancestors().find(|directory| directory.exists()).filter(|there| !there.as_os_str().is_empty());
        let free = host::mount::free_space(there.unwrap_or(Path::new(".")));
        let free = free.map_err(|source| LayoutError::Write { path: directory.clone(), source })?;
        if wanted > free {
            return Err(LayoutError::NoRoom { directory, free, wanted });
        }
    }
    Ok(())
}

/// What is laid out is written back in parts of this.
const SYNCED: Bytes = Bytes::mib(32);

/// Random bytes from `from` to `to`. False if it was interrupted.
fn fill(
    permit: &WritePermit,
    from: Bytes,
    to: Bytes,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(Bytes),
) -> std::io::Result<bool> {
    let mut block = vec![0u8; Bytes::mib(1).as_usize()];
    let mut random = Random::named(from.get(), "laid out");
    let mut file = permit.file();
    file.seek(SeekFrom::Start(from.get()))?;
    let mut at = from;
    while at < to {
        if interrupted.load(Relaxed) {
            return Ok(false);
        }
        let length = (to - at).min(Bytes::mib(1));
        random.fill_bytes(&mut block);
        file.write_all(&block[..length.as_usize()])?;
        at += length;
        // What waits to be written back is little at any time, so that an interrupt need not wait for it.
        if at.is_multiple_of(SYNCED) {
            file.sync_data()?;
        }
        progress(length);
    }
    file.sync_all()?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use units::Duration;
    use workload::{Mix, Pattern, Stream};

    use super::*;
    use crate::described::Described;
    use crate::experiment::Io;

    /// An experiment that wants a file of `size` made and reads it.
    fn wanting(path: &Path, size: Bytes) -> Experiment {
        let stream = Stream::closed("readers", Mix::READS, Pattern::Random, Bytes::kib(4), 1);
        let mut experiment = Experiment::new("test", Duration::seconds(1), vec![stream]);
        let mut device = Described::files(vec![path.to_owned()], Io::default());
        device.make = Some(size);
        experiment.devices.push(device);
        experiment
    }

    #[test]
    fn what_is_interrupted_leaves_everything_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let lay = |size: Bytes, interrupted: bool| {
            let experiment = wanting(&path, size);
            lay_out(&experiment, &read_paths([&experiment]), &AtomicBool::new(interrupted), &mut |_, _| {})
        };
        assert!(matches!(lay(Bytes::mib(2), true), Err(LayoutError::Interrupted)));
        assert!(!path.exists());
        let made = lay(Bytes::mib(2), false).unwrap();
        if !made[&path].mark() {
            println!("skipped: the file system keeps no marks");
            return;
        }
        drop(made);
        // Interrupted in the middle.
        let experiment = wanting(&path, Bytes::mib(8));
        let interrupted = AtomicBool::new(false);
        let mut halfway = |done: Bytes, _| interrupted.store(done >= Bytes::mib(3), Relaxed);
        let outcome = lay_out(&experiment, &read_paths([&experiment]), &interrupted, &mut halfway);
        assert!(matches!(outcome, Err(LayoutError::Interrupted)));
        assert_eq!(std::fs::metadata(&path).unwrap().len(), Bytes::mib(2).get());
        assert!(lay(Bytes::mib(8), false).is_ok(), "it is still known as ours");
    }
}
