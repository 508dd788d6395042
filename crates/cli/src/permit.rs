//! Leave to write, asked for before anything is opened.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use host::Kernel;
use host::Refusal;
use host::guard::{Consent, WritePermit, member, permit, times_named};
use lab::Target;
use nbd::remote;
use raid::Place;
use units::Bytes;

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

/// A permit for each path of these places, and leave to write to the exports among them.
pub fn places<'p>(
    places: impl IntoIterator<Item = &'p Place>,
    destroy_data: bool,
) -> Result<HashMap<PathBuf, WritePermit>, Failure> {
    let (mut paths, mut exports) = (Vec::new(), Vec::new());
    for place in places {
        match place {
            Place::Path(path) => paths.push(path.as_path()),
            Place::Nbd(uri) => exports.push(Target::Nbd(uri.clone())),
        }
    }
    ask_servers(&exports, destroy_data)?;
    ask(paths, destroy_data)
}

/// Whether a place is written only if it is named twice: it carries something that is recognised.
pub fn asks_twice(place: &Place, destroy_data: bool) -> bool {
    match place {
        Place::Path(path) => {
            let once = Consent { destroy_data, times_named: 1 };
            path.exists() && permit(&Kernel::running(), path, once).is_err()
        }
        Place::Nbd(uri) => remote::contents(uri, nbd::PATIENCE).is_ok_and(|found| !found.is_empty()),
    }
}

/// Leave to write to exports of servers, by the same words. Who else uses an export only its server knows.
pub fn ask_servers(targets: &[Target], destroy_data: bool) -> Result<(), Failure> {
    for target in targets {
        let Target::Nbd(uri) = target else { continue };
        let times_named = targets.iter().filter(|other| *other == target).count();
        remote::may_write(uri, destroy_data, times_named, nbd::PATIENCE).map_err(|no| match no.is_input() {
            true => Failure::input(no),
            false => Failure::world(no),
        })?;
    }
    Ok(())
}

/// A permit for each member of an array, to write it as such.
pub fn members<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Result<HashMap<PathBuf, WritePermit>, Failure> {
    let kernel = Kernel::running();
    let ask = |path: &Path| Ok((path.to_owned(), member(&kernel, path).map_err(blame)?));
    paths.into_iter().map(ask).collect()
}

/// Makes a file of `size` that was not there, and gives the permit to write it.
pub fn create(path: &Path, size: Bytes) -> Result<HashMap<PathBuf, WritePermit>, Failure> {
    let permit = host::guard::create_sized(path, size).map_err(blame)?;
    Ok(HashMap::from([(path.to_owned(), permit)]))
}

/// A path that may not be written is the user's to change; what the kernel refuses is not.
pub fn blame(refusal: Refusal) -> Failure {
    if refusal.is_input() { Failure::input(refusal) } else { Failure::world(refusal) }
}
