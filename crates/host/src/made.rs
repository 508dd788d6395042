//! Files that arraylab made and left for its next run, told from files of others.
//!
//! A job file of fio lays out its files once and finds them again the next time. Asking for `--destroy-data` each time
//! would teach people to say it without thought; writing to any file of the right name would one day hit one that
//! somebody put there. So a file of ours carries a mark: an extended attribute with its size and the time of its last
//! change. It holds only while both are what the mark says: whoever else writes to the file, copies one over it or cuts
//! it short makes it his own. So does a run that was killed before it renewed the mark. Where the file system has no
//! such attributes, no file is known as ours.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};

/// The attribute.
const NAME: &str = "user.arraylab.made";

/// What a mark says of a file as it is now.
fn state(file: &File) -> io::Result<String> {
    let metadata = file.metadata()?;
    Ok(format!("{} {}.{:09}", metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}

/// Marks a file as ours, as it is now.
pub(crate) fn mark(file: &File) -> io::Result<()> {
    // What is still to be written back must not change the time once more.
    file.sync_all()?;
    Ok(fsetxattr(file, NAME, state(file)?.as_bytes(), XattrFlags::empty())?)
}

/// True if the file carries our mark and nobody has changed it since.
pub(crate) fn is_ours(file: &File) -> bool {
    let mut value = [0u8; 64];
    let Ok(length) = fgetxattr(file, NAME, &mut value) else { return false };
    state(file).is_ok_and(|state| value.get(..length) == Some(state.as_bytes()))
}
