//! Arrays of real files and devices: made, described, and kept up, one command at a time.
//!
//! Nothing runs between two commands: each opens the array from its members, acts, and stops it, so that the members say what md
//! would say of them. A command that takes long is told how to show its progress and when to end; what it had done is on
//! the members, and the same command goes on from there.

mod describe;
mod make;
mod members;
mod upkeep;

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use units::Rate;

pub use array::Progress;
pub use array::geometry::{Level, UnknownName};
pub use array::md::Consistency;
pub use describe::{Examined, MemberStatus, Status, examine, status};
pub use make::{Plan, create};
pub use upkeep::{Done, Rebuild, Scrub, fail, rebuild, scrub, stop};

/// How an upkeep goes.
#[derive(Clone)]
pub struct Course {
    /// Ends it when set.
    pub interrupted: Arc<AtomicBool>,
    /// Shows how far it is.
    pub show: Rc<dyn Fn(Progress)>,
    /// No faster than this.
    pub rate: Option<Rate>,
}

/// Why a command on an array did not come to its end.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum RaidError {
    /// A path cannot be opened.
    #[error(transparent)]
    Path(#[from] uring::OpenError),
    /// Nothing is to be said of a member.
    #[error("{}: {error}", path.display())]
    Superblock { path: PathBuf, error: array::md::SuperblockError },
    /// A member cannot be read.
    #[error("{}: {error}", path.display())]
    Device { path: PathBuf, error: device::DeviceError },
    /// The array does not open.
    #[error("{0} (members are counted from 0, devices in the order in which they were named)")]
    Open(#[from] array::OpenError),
    /// It cannot be made.
    #[error(transparent)]
    Create(#[from] array::md::CreateError),
    /// It stopped working.
    #[error("the array failed: {0}; see `arraylab array status`")]
    Failed(device::DeviceError),
    /// A path is not one of the members.
    #[error("{} is not a member in use; the array's are {}", path.display(), members.join(", "))]
    NoMember { path: PathBuf, members: Vec<String> },
    /// One more cannot be spared.
    #[error("without {} too the array would be broken: {level} survives the loss of {survives}, and {missing} are lost already", path.display())]
    NotSpared { path: PathBuf, level: String, survives: usize, missing: usize },
    /// Nothing to rebuild.
    #[error("no member is missing; name the one to replace with --replace MEMBER")]
    Complete,
    /// Nothing to rebuild onto.
    #[error("member {member} is missing; name a file or device to take its place with --onto PATH")]
    NoReplacement { member: usize },
    /// The new device is too small.
    #[error("{}: it holds {size:#}; a member of this array needs {needed:#}", path.display())]
    TooSmall { path: PathBuf, size: units::Bytes, needed: units::Bytes },
    /// No random bytes.
    #[error("the kernel gives no random bytes for an identity: {0}")]
    Identity(std::io::Error),
}

impl RaidError {
    /// Whether the user can mend it by other words.
    pub fn is_input(&self) -> bool {
        !matches!(self, RaidError::Device { .. } | RaidError::Failed(_) | RaidError::Identity(_))
    }
}
