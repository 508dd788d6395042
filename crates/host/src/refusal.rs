//! Why a path may not be written, each with the next step.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use units::Bytes;

use crate::guard::Subject;
use crate::shell;
use crate::signature::Signature;
use crate::usage::Use;

/// The answer no.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum Refusal {
    /// The user did not say that the contents may go.
    #[error("{path}: writing would destroy what is there ({}); add --destroy-data if that is meant{}", contents(uses, found, *subject), second_time(uses, found))]
    NoConsent { path: PathBuf, uses: Vec<Use>, found: Vec<Signature>, subject: Subject },
    /// Somebody's data is there.
    #[error(
        "{path} is not written with --destroy-data alone: {}; name it a second time, spelled the same, if that may be lost",
        listed(uses, found)
    )]
    HoldsData { path: PathBuf, uses: Vec<Use>, found: Vec<Signature> },
    /// The kernel, or a program, holds it exclusively.
    #[error("{path} is in use and stays refused, however often it is named: {}; {}", holders(uses), release(uses))]
    InUse { path: PathBuf, uses: Vec<Use> },
    /// Another arraylab is at work on the file.
    #[error("{path} is locked by another program, such as a second arraylab; wait for it, or name another file")]
    Locked { path: PathBuf },
    /// The device does not take writes.
    #[error("{path} is read-only; name another device, or see `blockdev --setrw`")]
    ReadOnly { path: PathBuf },
    /// It could not be looked at.
    #[error("{path} cannot be read ({source}), so it is not known whether it carries data; it is not written")]
    Unreadable { path: PathBuf, source: io::Error },
    /// It is no member.
    #[error(
        "{path} carries no superblock of Linux md 1.2, so it is no member of an array; see `arraylab array create`"
    )]
    NotMember { path: PathBuf },
    /// Nothing is there.
    #[error("{path}: there is no such file or device; name one that exists")]
    Missing { path: PathBuf },
    /// The file was to be made, but is there.
    #[error("{path} exists already; remove it, or name a path where a new file can be made")]
    Exists { path: PathBuf },
    /// No place for a new file.
    #[error("{path}: there is no folder {} to make the file in; make that first (mkdir -p {}), or name another path", folder(path).display(), word(folder(path)))]
    NoFolder { path: PathBuf },
    /// A file of nothing.
    #[error("{path}: a file of 0 B holds nothing; ask for more")]
    NoSize { path: PathBuf },
    /// A file larger than files can be.
    #[error("{path}: its file system has no files of {size:#}; ask for less, or name a path on another one")]
    TooLarge { path: PathBuf, size: Bytes },
    /// No room for a new file.
    #[error("{path}: no space for {size:#} there; make room, or ask for less")]
    NoSpace { path: PathBuf, size: Bytes },
    /// Not for this user.
    #[error("{path}: {source}; become root, or join the group that owns it (see `ls -lL {}`)", word(path))]
    NoPermission { path: PathBuf, source: io::Error },
    /// Not in this folder.
    #[error("{path}: no permission to make a file in the folder {}; name a path in a folder that you may write to, or become root (see `ls -ld {}`)", folder(path).display(), word(folder(path)))]
    NoPermissionInFolder { path: PathBuf },
    /// It is no place for data.
    #[error("{path} is {what}; name a block device or a regular file")]
    NotWritable { path: PathBuf, what: &'static str },
    /// Anything else.
    #[error("{path} cannot be opened for writing: {source}")]
    Failed { path: PathBuf, source: io::Error },
}

impl Refusal {
    /// Whether the user can mend it by other words; the rest is the world's.
    pub fn is_input(&self) -> bool {
        use Refusal::{Failed, NoPermission, NoPermissionInFolder, NoSpace, Unreadable};
        !matches!(
            self,
            NoPermission { .. } | NoPermissionInFolder { .. } | Unreadable { .. } | Failed { .. } | NoSpace { .. }
        )
    }

    pub(crate) fn from_io(path: &Path, source: io::Error) -> Refusal {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Refusal::Missing { path },
            io::ErrorKind::AlreadyExists => Refusal::Exists { path },
            io::ErrorKind::PermissionDenied => Refusal::NoPermission { path, source },
            io::ErrorKind::ReadOnlyFilesystem => Refusal::ReadOnly { path },
            _ => Refusal::Failed { path, source },
        }
    }
}

fn word(path: &Path) -> String {
    shell::word(&path.to_string_lossy())
}

/// The folder that a path is in.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn joined<T: Display>(parts: &[T]) -> String {
    parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// What is on it and who uses it, as the middle of a sentence.
fn listed(uses: &[Use], found: &[Signature]) -> String {
    match (uses, found) {
        (uses, []) => joined(uses),
        ([], found) => format!("it carries {}", joined(found)),
        (uses, found) => format!("it carries {}, and {}", joined(found), joined(uses)),
    }
}

fn contents(uses: &[Use], found: &[Signature], subject: Subject) -> String {
    if uses.is_empty() && found.is_empty() {
        return match subject {
            Subject::Device(size) => format!("a device of {size} with nothing that is recognised"),
            Subject::File(size) => format!("a file of {size}"),
        };
    }
    listed(uses, found)
}

fn second_time(uses: &[Use], found: &[Signature]) -> &'static str {
    if uses.is_empty() && found.is_empty() { "" } else { ", and name the path twice" }
}

fn holders(uses: &[Use]) -> String {
    if uses.is_empty() {
        "a program has opened it exclusively, or it is mounted in another mount namespace".into()
    } else {
        joined(uses)
    }
}

/// How to end the use that is nearest to the user, which is the last that was found.
fn release(uses: &[Use]) -> String {
    let mounted = uses.iter().find_map(|usage| match usage {
        Use::Mounted { at, .. } => Some(format!("unmount it first (umount {})", word(at))),
        _ => None,
    });
    let swap = uses.iter().find_map(|usage| match usage {
        Use::Swap { device } => Some(format!("end that first (swapoff {})", node(device))),
        _ => None,
    });
    let held = uses.iter().rev().find_map(|usage| match usage {
        Use::Held { by, .. } => Some(format!("take {by} down first, or write to {} instead", node(by))),
        _ => None,
    });
    mounted.or(swap).or(held).unwrap_or_else(|| "find out which (fuser -v, lsns -t mnt) and end that first".into())
}

fn node(device: &str) -> String {
    if device.starts_with('/') { device.to_owned() } else { format!("/dev/{device}") }
}
