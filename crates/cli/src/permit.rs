//! Leave to write, asked for before anything is opened.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use host::Kernel;
use host::Refusal;
use host::guard::{Consent, WritePermit, permit, times_named};

use crate::fail::Failure;

/// A permit for each of the paths, or the first refusal.
pub fn ask<'p>(
    paths: impl IntoIterator<Item = &'p Path>,
    destroy_data: bool,
) -> Result<HashMap<PathBuf, WritePermit>, Failure> {
    let kernel = Kernel::running();
    let paths: Vec<PathBuf> = paths.into_iter().map(Path::to_owned).collect();
    let mut permits = HashMap::new();
    for (path, times_named) in times_named(&paths) {
        let permit = permit(&kernel, &path, Consent { destroy_data, times_named }).map_err(blame)?;
        permits.insert(path, permit);
    }
    Ok(permits)
}

/// A path that may not be written is the user's to change; what the kernel refuses is not.
fn blame(refusal: Refusal) -> Failure {
    match refusal {
        Refusal::NoPermission { .. } | Refusal::Unreadable { .. } | Refusal::Failed { .. } => Failure::world(refusal),
        _ => Failure::input(refusal),
    }
}
