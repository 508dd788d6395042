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

    /// Whether it names something that is there, or may be: of a server that is known when it is asked.
    pub fn exists(&self) -> bool {
        self.path().is_none_or(Path::exists)
    }

    /// The same place in the words of any process of this machine: two names of one file are equal afterwards.
    pub fn absolute(&self) -> Place {
        match self {
            Place::Path(path) => {
                let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                // What does not exist has a folder that may.
                let to_be = || Some(absolute.parent()?.canonicalize().ok()?.join(absolute.file_name()?));
                Place::Path(path.canonicalize().ok().or_else(to_be).unwrap_or(absolute))
            }
            Place::Nbd(uri) => Place::Nbd(uri.clone()),
        }
    }

    /// Whether two names are of one thing: of one path, by links or otherwise, of one block device, or of one export by the same address.
    pub fn is_same(&self, other: &Place) -> bool {
        let file = |place: &Place| {
            let about = place.path()?.metadata().ok()?;
            let device = about.file_type().is_block_device();
            Some(if device { (device, about.rdev(), 0) } else { (device, about.dev(), about.ino()) })
        };
        self.absolute() == other.absolute() || file(self).is_some_and(|it| file(other) == Some(it))
    }
}
