//! Where a member is: a path of this machine, or the export of an NBD server, so that an array can span machines.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use nbd::{Uri, UriError};
use serde::{Serialize, Serializer};

/// A path, or an export: `nbd://HOST/EXPORT`, `nbd+unix:///EXPORT?socket=PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A file or a block device of this machine.
    Path(PathBuf),
    /// An export of an NBD server.
    Nbd(Box<Uri>),
}

impl FromStr for Place {
    type Err = UriError;
    fn from_str(text: &str) -> Result<Place, UriError> {
        match Uri::is_meant(text) {
            true => Ok(Place::Nbd(Box::new(text.parse()?))),
            false => Ok(Place::Path(PathBuf::from(text))),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Place::Path(path) => write!(f, "{}", path.display()),
            Place::Nbd(uri) => write!(f, "{uri}"),
        }
    }
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Place {
    /// The path, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Place::Path(path) => Some(path),
            Place::Nbd(_) => None,
        }
    }

    /// The same as a word of a command that somebody may copy.
    pub fn word(&self) -> String {
        host::shell::word(&self.to_string())
    }

    /// Whether it names something that is there, or may be: of a server that is known when it is asked.
    pub fn exists(&self) -> bool {
        self.path().is_none_or(Path::exists)
    }

    /// The same place in the words of any process of this machine: two names of one file are equal afterwards.
    pub fn absolute(&self) -> Place {
        match self {
            Place::Nbd(uri) => match &uri.place {
                nbd::Place::Unix(path) => {
                    let Place::Path(path) = Place::Path(path.clone()).absolute() else {
                        unreachable!("a path stays one")
                    };
                    Place::Nbd(Box::new(Uri { place: nbd::Place::Unix(path), ..(**uri).clone() }))
                }
                nbd::Place::Tcp(..) => self.clone(),
            },
            Place::Path(path) => {
                let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                // What does not exist has a folder that may.
                let to_be = || Some(absolute.parent()?.canonicalize().ok()?.join(absolute.file_name()?));
                Place::Path(path.canonicalize().ok().or_else(to_be).unwrap_or(absolute))
            }
        }
    }

    /// Whether two names are of one thing: of one path, by links or otherwise, of one block device, or of one export by
    /// addresses that lead to the same socket, however they are spelled. Which exports of a server, or which servers,
    /// give the same bytes only they know.
    pub fn is_same(&self, other: &Place) -> bool {
        if let (Place::Nbd(one), Place::Nbd(other)) = (self, other)
            && one.export == other.export
        {
            return same_socket(&one.place, &other.place);
        }
        let file = |place: &Place| {
            let about = place.path()?.metadata().ok()?;
            let device = about.file_type().is_block_device();
            Some(if device { (device, about.rdev(), 0) } else { (device, about.dev(), about.ino()) })
        };
        self.absolute() == other.absolute() || file(self).is_some_and(|it| file(other) == Some(it))
    }
}

/// Whether two addresses lead to one socket.
fn same_socket(one: &nbd::Place, other: &nbd::Place) -> bool {
    match (one, other) {
        (nbd::Place::Unix(one), nbd::Place::Unix(other)) => {
            Place::Path(one.clone()).is_same(&Place::Path(other.clone()))
        }
        (nbd::Place::Tcp(one, port), nbd::Place::Tcp(other, at)) if port == at && one != other => {
            // A name that nobody knows is refused when it is connected to.
            let addresses = |host: &str| Uri::addresses(host, *port).unwrap_or_default();
            let (one, other) = (addresses(one), addresses(other));
            one.iter().any(|address| other.contains(address))
        }
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(one: &str, other: &str) -> bool {
        one.parse::<Place>().unwrap().is_same(&other.parse().unwrap())
    }

    #[test]
    fn an_export_is_one_by_every_spelling_of_its_address() {
        let desk = tempfile::tempdir().unwrap();
        let (there, link) = (desk.path().join("x.sock"), desk.path().join("link.sock"));
        std::fs::write(&there, "").unwrap();
        std::os::unix::fs::symlink(&there, &link).unwrap();
        let at = |path: &Path| format!("nbd+unix:///a?socket={}", path.display());
        let round = desk.path().join("../").join(desk.path().file_name().unwrap()).join("x.sock");
        for other in [&there, &link, &round] {
            assert!(same(&at(&there), &at(other)), "{}", other.display());
        }
        assert!(!same(&at(&there), &at(&desk.path().join("y.sock"))));
        assert!(!same(&at(&there), &at(&there).replace("///a", "///b")));
        assert!(same("nbd://127.0.0.1:10810/a", "nbd://localhost:10810/a"));
        assert!(!same("nbd://127.0.0.1:10810/a", "nbd://127.0.0.1:10811/a"));
        assert!(!same("nbd://127.0.0.1:10810/a", "nbd://127.0.0.2:10810/a"));
    }
}
