//! The devices that an experiment describes itself: their files made, and leave asked to write to them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use host::guard::WritePermit;
use lab::layout::{LayoutError, lay_out};
use lab::{Experiment, written_paths};
use units::Bytes;

use crate::fail::Failure;
use crate::permit;
use crate::progress::Bar;

/// Makes the files and gives the permits to write; nothing if the experiment describes no devices. `read` are the paths
/// that any experiment of the run reads.
pub fn permits(
    experiment: &Experiment,
    destroy_data: bool,
    read: &HashSet<PathBuf>,
    interrupted: &AtomicBool,
) -> Result<Option<HashMap<PathBuf, WritePermit>>, Failure> {
    if experiment.devices.is_empty() {
        return Ok(None);
    }
    let bar = Bar::new(1000);
    let mut show = |done: Bytes, whole: Bytes| {
        bar.show(done.get() * 1000 / whole.get().max(1), format!("{done} of {whole} laid out"));
    };
    let made = lay_out(experiment, read, interrupted, &mut show).map_err(|error| match error {
        LayoutError::Refused(refusal) => permit::blame(refusal),
        LayoutError::TooSmall { .. } | LayoutError::NoFile { .. } => Failure::input(error),
        LayoutError::NoRoom { .. } | LayoutError::Write { .. } | LayoutError::Interrupted => Failure::world(error),
    })?;
    drop(bar);
    let written: Vec<&Path> = written_paths(experiment);
    // What is only read is opened as others open it.
    let mut permits: HashMap<PathBuf, WritePermit> =
        made.into_iter().filter(|(path, _)| written.contains(&path.as_path())).collect();
    let others: Vec<&Path> = written.into_iter().filter(|path| !permits.contains_key(*path)).collect();
    permits.extend(permit::ask(others, destroy_data)?);
    Ok(Some(permits))
}

/// After the run: files of ours are marked as such once more, and those that are not wanted any longer are removed.
pub fn leave(permits: &HashMap<PathBuf, WritePermit>, unwanted: &[PathBuf]) {
    for permit in permits.values().filter(|permit| permit.created()) {
        // Where a file system keeps no marks, the next run asks.
        permit.mark();
        if unwanted.iter().any(|path| path == permit.path()) {
            // If it is gone already, someone has done our work.
            let _ = std::fs::remove_file(permit.path());
        }
    }
}
