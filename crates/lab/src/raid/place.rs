//! Where a member is: a path of this machine, or the export of an NBD server, so that an array can span machines.

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
                let absolute = || std::path::absolute(path).unwrap_or_else(|_| path.clone());
                Place::Path(path.canonicalize().unwrap_or_else(|_| absolute()))
            }
            Place::Nbd(uri) => Place::Nbd(uri.clone()),
        }
    }
}
