//! Arrays of real files and devices: made, described, and kept up, one command at a time.
//!
//! Unless an array is [served](Keeper), nothing runs between two commands: each opens the array from its members, acts,
//! and stops it, so that the members say what md would say of them. A command that takes long is told how to show its
//! progress and when to end; what it had done is on the members, and the same command goes on from there.

mod alias;
mod assemble;
mod control;
mod counted;
mod describe;
mod event;
mod exact;
mod examined;
mod given;
mod halves;
mod held;
mod keeper;
mod label;
mod make;
mod members;
mod metrics;
mod newcomer;
mod orders;
mod own;
mod place;
mod scrub;
mod seek;
mod service;
mod set;
mod unknown;
mod upkeep;
mod zero;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use array::md::NEEDED_ROOM;
use units::Rate;

pub use alias::apart;
pub use array::Progress;
pub use array::geometry::{Level, UnknownName};
pub use array::md::Consistency;
pub use assemble::{Assembled, Assembly, Forced, Vintage, assemble, force, force_plan};
pub use control::{NewPlace, Order, Server};
pub use describe::{MemberStatus, Status, layout, status};
pub use event::Event;
pub use examined::{Checksums, Examined, examine};
pub use given::{Given, LeftOut, disagreement, given, is_in_use};
pub use keeper::{Keeper, Keeping};
pub use make::{Plan, create};
pub use members::{Permits, remove_unused};
pub use metrics::Meter;
pub use place::Place;
pub use scrub::{Misfit, Scrub, scrub};
pub use seek::{Candidates, Sightings, Sought, seek};
pub use service::{Offer, Served, Service, Upkeep};
pub use set::{Change, set};
pub use unknown::Unknown;
pub use upkeep::{Added, Done, Grown, Rebuild, add, belongs, fail, grow, numbered, rebuild, replace, stop};
pub use zero::{Zeroed, zero};

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

impl Course {
    /// As fast as it goes, to the end, unseen.
    pub fn quiet() -> Course {
        Course { interrupted: Arc::default(), show: Rc::new(|_| ()), rate: None }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Relaxed)
    }
}

/// Why a command on an array did not come to its end.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum RaidError {
    /// A path cannot be opened.
    #[error(transparent)]
    Path(#[from] uring::OpenError),
    /// An export cannot be reached.
    #[error(transparent)]
    Export(#[from] nbd::ClientError),
    /// Nothing is to be said of a member.
    #[error("{place}: {error}")]
    Superblock { place: Place, error: array::md::SuperblockError },
    /// It is something else.
    #[error("{0}")]
    Unknown(Box<Unknown>),
    /// It may have been a member.
    #[error(
        "{place}: {error} If it was, and has lost its superblock, leave it away: the others are opened without it if their level allows, and \
         `arraylab array rebuild --destroy-data --onto {}` with them fills it anew",
        place.word()
    )]
    Blank { place: Place, error: array::md::SuperblockError },
    /// Nothing is to be said of what is no member.
    #[error(
        "{place}: it holds {size:#}, and no superblock of Linux md 1.2, which begins at 4 KiB: it is too small to be a member of an array; see `arraylab array create`"
    )]
    NoRoomForSuperblock { place: Place, size: units::Bytes },
    /// A member cannot be read.
    #[error("{place}: {error}")]
    Device { place: Place, error: device::DeviceError },
    /// Nor can its layout be told.
    #[error("{0} (members are counted from 0, devices in the order in which they were named)")]
    Open(#[from] array::OpenError),
    /// The array does not open.
    #[error("{error} ({next})")]
    Unopened { error: Box<array::OpenError>, next: String },
    /// It cannot be made.
    #[error(transparent)]
    Create(#[from] array::md::CreateError),
    /// Nor of something so small.
    #[error("{place} holds {size:#}; {NEEDED_ROOM}")]
    NoRoomForData { place: Place, size: units::Bytes },
    /// It stopped working.
    #[error("the array failed: {0}; see `arraylab array status`")]
    Failed(device::DeviceError),
    /// A file of a member can get no longer, or a device that is given room by and by has none.
    #[error(
        "no space is left where a member is kept; make room there, and give the same command again (`arraylab array status` shows how the array is)"
    )]
    NoSpace,
    /// What should take a member's place did not.
    #[error("member {member} was not filled: {error}; the array goes on with what it had")]
    NotFilled { member: usize, error: device::DeviceError },
    /// Exports are locked by nobody.
    #[error(
        "another server has this array's members, and opened them at {opened}; ask that server, or end it first, and scrub the array then"
    )]
    Rival { opened: String },
    /// A path is not one of the members.
    #[error("{place} is not a member in use; the array's are {}", members.join(", "))]
    NoMember { place: Place, members: Vec<String> },
    /// It is none any more.
    #[error("{place} has failed already, and is not in use; `arraylab array status` shows how the array is")]
    FailedAlready { place: Place },
    /// A device of another array.
    #[error(
        "{place} belongs to another array ({found}) than {like} ({wanted}); give the members of one array, and `arraylab array examine` tells which those are"
    )]
    Foreign { place: Place, found: array::md::Uuid, like: Place, wanted: array::md::Uuid },
    /// Devices that say different things of one array.
    #[error("{0}")]
    Disagree(String),
    /// An area of a device would not lie where it may be written.
    #[error("{place}: {error}. Nothing was written; omit {place} if the array can do without it")]
    Misplaced { place: Place, error: array::areas::Misplaced },
    /// A member that has lost its end.
    #[error(
        "{place} holds {size:#}; its data begin at {data_offset:#} and need {needed:#}: make it {:#} large again, or leave it away, if the level survives that",
        *data_offset + *needed
    )]
    MemberTooSmall { place: Place, size: units::Bytes, data_offset: units::Bytes, needed: units::Bytes },
    /// Somebody was forgotten.
    #[error(
        "{members} {were} not named, and the array {why}: it would be recorded first that what is not named is missing. Name it, too; \
         if it is lost, `arraylab array stop` with the others goes on without it, and the same command does what it is for then"
    )]
    NotNamed { members: String, were: &'static str, why: &'static str },
    /// A device that was used while the array was used without it.
    #[error(
        "{place} went on without {others}, so each may hold writes that the other lacks ({place} has seen {its} changes of the array, {others} {theirs}). \
         To go on with {others} and lose what {place} holds: `arraylab array add --destroy-data --device {word} --device {word}` with these members. \
         To go on with {place}: give it, and whoever went on with it, without these, and add these to it in the same way",
        word = place.word()
    )]
    WentOn { place: Place, others: String, its: u64, theirs: u64 },
    /// Devices that went on without each other.
    #[error("{0}")]
    Halves(String),
    /// One more cannot be spared.
    #[error(
        "without {place} too the array would be broken: {level} survives {endurance}, and {missing} are lost already"
    )]
    NotSpared { place: Place, level: String, endurance: String, missing: usize },
    /// Nothing to rebuild.
    #[error("no member is missing; `arraylab array replace` replaces one that still serves")]
    Complete,
    /// Nothing to rebuild onto.
    #[error("member {member} is missing; name a file or device to take its place with --onto PATH")]
    NoReplacement { member: usize },
    /// Nothing to go on with.
    #[error("no member is being replaced; name one with --member, and what takes its place with --onto")]
    NotReplacing,
    /// No redundancy.
    #[error("{level} has no redundancy; end the array, copy the member (dd), and use the copy")]
    NoRedundancy { level: String },
    /// It cannot be copied.
    #[error("{place} is not whole itself; `arraylab array rebuild` goes on with it")]
    NotWhole { place: Place },
    /// A member is being rebuilt on something else.
    #[error(
        "member {member} is being rebuilt already; leave --onto away to go on with that, or the device away from the members to begin anew"
    )]
    Rebuilding { member: usize },
    /// A member is being replaced by something else.
    #[error(
        "member {member} is being replaced already, by {device}; leave --member and --onto away to go on with that"
    )]
    Replacing { member: usize, device: String },
    /// Too late to be called off.
    #[error(
        "{place} has taken the place of member {member} meanwhile; `arraylab array fail` takes it out as any member"
    )]
    Replaced { place: Place, member: usize },
    /// A replacement was ended by another command.
    #[error("the replacement of member {member} was called off by `arraylab array fail`; the member stays")]
    CalledOff { member: usize },
    /// No spares.
    #[error("{level} has no redundancy from which a spare could be filled, so it takes none")]
    NoSpares { level: String },
    /// Parity without all data.
    #[error(
        "parity is compared with all members, and {missing} {are} not whole; `arraylab array rebuild` makes it whole, then scrub"
    )]
    NotComparable { missing: String, are: &'static str },
    /// A scrub of what is kept once.
    #[error(
        "{level} keeps everything once, and without checksums, so there is nothing to compare it with; `arraylab array create --integrity` makes an array whose checksums a scrub tells by"
    )]
    NothingToCompare { level: String },
    /// A scrub of nothing.
    #[error("the array ends at {size:#}, so nothing lies from {from:#} on; name an address before its end with --from")]
    BehindEnd { from: units::Bytes, size: units::Bytes },
    /// Ctrl-C before a member was taken out.
    #[error(
        "ended before the redundancy fitted, so {place} is still in use; the same command goes on, or `arraylab array stop`"
    )]
    NotTakenOut { place: Place },
    /// It does not grow.
    #[error(transparent)]
    Grow(#[from] array::GrowError),
    /// The new device is too small.
    #[error("{place}: it holds {size:#}; a member of this array needs {needed:#}")]
    TooSmall { place: Place, size: units::Bytes, needed: units::Bytes },
    /// The new device has blocks that the layout does not fit.
    #[error(
        "{place}: it takes requests in blocks of {block:#}, which the array's layout does not fit; name a device with smaller ones"
    )]
    Blocks { place: Place, block: units::Bytes },
    /// The new device has larger blocks than those who use the array were told of.
    #[error(
        "{place}: it takes requests in blocks of {block:#}, and the array, as long as it is served, in such of {served:#}; end the server, give the same command, and start it again"
    )]
    LargerBlocks { place: Place, block: units::Bytes, served: units::Bytes },
    /// A text that names no place.
    #[error(transparent)]
    Place(nbd::UriError),
    /// A path may not be written.
    #[error("{0}")]
    NotPermitted(host::Refusal),
    /// It is part of the array already.
    #[error("{place} is in use by the array itself; name another")]
    InUse { place: Place },
    /// No member.
    #[error(
        "no md superblock on {places}: there is nothing to erase. `arraylab array examine {places}` says what is there"
    )]
    NothingToErase { places: String },
    /// Nobody has said that the array may be lost.
    #[error(
        "erasing the superblocks destroys the array for these members; add --destroy-data if that is meant: `arraylab array zero --destroy-data {members}`"
    )]
    NotToErase { members: String },
    /// It would be recorded as missing.
    #[error("{members} not named: the change would record what is not named as missing. Name all members of the array")]
    NotNamedToSet { members: String },
    /// It stays as it is.
    #[error(transparent)]
    Set(#[from] array::SetError),
    /// Two names, one store.
    #[error(
        "{one} and {other} are one store: {why}. An array would have no redundancy on them, and one superblock would overwrite the other. \
         Name another device for one of them; `lsblk` and `losetup --list` show what lies on what"
    )]
    OneStore { one: Place, other: Place, why: String },
    /// It is the array.
    #[error("{place} is an export of the array itself, which would write to itself; name another device")]
    Own { place: Place },
    /// Nothing can be written there.
    #[error(
        "{place} is read-only, and what belongs to an array is written; have its server offer it for writing, or name another"
    )]
    ReadOnly { place: Place },
    /// It could be written to by what it was asked before.
    #[error(
        "{place}: requests that were sent to it before it failed are not answered, and could still overwrite what is written now; \
         wait until the device answers, or end the server and add it then"
    )]
    Unanswered { place: Place },
    /// Nothing was found.
    #[error(
        "no array was found{skipped}; `arraylab array assemble --scan` looks at all block devices, as root, and files are named by their paths"
    )]
    NoneFound { skipped: String },
    /// A name of two arrays.
    #[error("several arrays are called {name}: {arrays}; give the UUID of one")]
    Ambiguous { name: String, arrays: String },
    /// It opens without.
    #[error("the array opens without force, and nothing was written; leave --force away")]
    NeedlessForce,
    /// Nothing helps.
    #[error(
        "not even by force are there enough members: a spare, or what was being rebuilt, is never taken back, nor is a device of another creation or of before the array grew; name more members"
    )]
    TooFewByForce,
    /// Its server writes nothing.
    #[error(
        "the array is served read-only, and nothing is written to its members; end that server, and start it without --read-only"
    )]
    ServedReadOnly,
    /// An export may not be written.
    #[error(transparent)]
    NoLeave(#[from] nbd::remote::NoLeave),
    /// Orders cannot be taken.
    #[error(
        "no socket for orders to the array can be made in {}: {source}; make that a folder that only you may write to, or, but for root, set XDG_RUNTIME_DIR to one",
        folder.display()
    )]
    Control { folder: std::path::PathBuf, source: std::io::Error },
    /// Nor there.
    #[error(transparent)]
    Listen(#[from] uring::ListenError),
    /// One upkeep at a time.
    #[error("a {what} is under way, {done} of {of}; wait for its end (`arraylab array status` shows it)")]
    Busy { what: String, done: units::Bytes, of: units::Bytes },
    /// Nor is a member taken out whose loss would leave parity as it is.
    #[error(
        "a resync is under way: without {place} parity could not be made to fit, and what it held might be computed wrongly; wait for its end (`arraylab array status` shows it)"
    )]
    NotFitting { place: Place },
    /// What a server said.
    #[error("{message}")]
    Refused { message: String, input: bool },
    /// A server said nothing.
    #[error("the array's server is there and does not answer: {source}")]
    Server { source: std::io::Error },
    /// Ctrl-C.
    #[error(
        "no longer watched; the server goes on: `arraylab array status` shows how far it is, and `arraylab array fail` with the new device as --member ends it"
    )]
    Unwatched,
    /// Ctrl-C, and the server takes no more orders.
    #[error(
        "the server takes no order to end the scrub, and ends it when it finds that nobody watches; see `arraylab array status`"
    )]
    UnwatchedScrub,
    /// No random bytes.
    #[error("the kernel gives no random bytes for an identity: {0}")]
    Identity(std::io::Error),
}

impl From<host::Refusal> for RaidError {
    fn from(refusal: host::Refusal) -> RaidError {
        RaidError::NotPermitted(refusal)
    }
}

/// What to say beside why an array of these places, as words of a command, does not open: by which commands it does all
/// the same, or what the numbers are.
fn next_words(error: &array::OpenError, places: &str) -> String {
    use array::OpenError::{DirtyDegraded, JournalMissing, JournalTooSmall, TooFew};
    match error {
        JournalMissing | JournalTooSmall { .. } => format!("`arraylab array stop --force {places}`"),
        DirtyDegraded { .. } => format!(
            "`arraylab array serve --force --nbd unix:array.sock {places}` serves it so, `arraylab array rebuild --force` fills what is missing; members are \
             counted from 0"
        ),
        TooFew { .. } => format!(
            "if members dropped out one after the other, `arraylab array assemble --force {places}` shows which of them would be taken back, and what that \
             may lose"
        ),
        _ => "members are counted from 0, devices in the order in which they were named".into(),
    }
}

impl RaidError {
    /// Of an array that was not opened from these places: who is meant is called by name.
    fn of_open(places: &[Place], error: array::OpenError) -> RaidError {
        match error {
            array::OpenError::Misplaced { device, error } if device < places.len() => {
                RaidError::Misplaced { place: places[device].clone(), error }
            }
            array::OpenError::Disagree(said) => {
                let name =
                    |device: usize| places.get(device).map_or_else(|| format!("device {device}"), Place::to_string);
                RaidError::Disagree(said.text(name, members::when))
            }
            error => {
                let words: Vec<String> = places.iter().map(Place::word).collect();
                RaidError::Unopened { next: next_words(&error, &words.join(" ")), error: Box::new(error) }
            }
        }
    }

    /// Of an array that did not do what it was asked.
    fn failed(error: device::DeviceError) -> RaidError {
        match error {
            device::DeviceError::NoSpace => RaidError::NoSpace,
            error => RaidError::Failed(error),
        }
    }

    /// As [`failed`](RaidError::failed), of an array whose members another server may have.
    fn of(array: &array::Array<device::AnyDevice>, error: device::DeviceError) -> RaidError {
        match members::rival(array) {
            Some(opened) => RaidError::Rival { opened },
            None => RaidError::failed(error),
        }
    }

    /// Whether the user can mend it by other words.
    pub fn is_input(&self) -> bool {
        use uring::{ListenError, OpenError};
        match self {
            RaidError::Device { .. } | RaidError::Failed(_) | RaidError::Identity(_) | RaidError::Export(_) => false,
            RaidError::Path(OpenError::Refused { source }) => source.is_input(),
            RaidError::Path(OpenError::Permission { .. } | OpenError::System { .. } | OpenError::Ring { .. }) => false,
            RaidError::Listen(ListenError::NoPlace { .. } | ListenError::Ring(_)) => false,
            RaidError::Unopened { error, .. } if matches!(**error, array::OpenError::Replay(_)) => false,
            RaidError::NoLeave(no) => no.is_input(),
            RaidError::NotFilled { .. } | RaidError::NoSpace | RaidError::Rival { .. } => false,
            RaidError::NotTakenOut { .. } | RaidError::Unanswered { .. } => false,
            RaidError::Control { .. } | RaidError::Server { .. } | RaidError::Unwatched | RaidError::UnwatchedScrub => {
                false
            }
            RaidError::Refused { input, .. } => *input,
            RaidError::NotPermitted(refusal) => refusal.is_input(),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_may_not_open_is_no_bad_input() {
        let path = std::path::PathBuf::from("a");
        let denied = || std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let refused = |source| RaidError::Path(uring::OpenError::Refused { source });
        for error in [
            RaidError::Path(uring::OpenError::Permission { path: path.clone() }),
            refused(host::Refusal::NoPermission { path: path.clone(), source: denied() }),
            RaidError::NotPermitted(host::Refusal::NoPermission { path: path.clone(), source: denied() }),
            RaidError::Listen(uring::ListenError::NoPlace { path: path.clone(), source: denied() }),
        ] {
            assert!(!error.is_input(), "{error}");
        }
        for error in [
            RaidError::Path(uring::OpenError::NotFound { path: path.clone() }),
            refused(host::Refusal::NoFolder { path: path.clone() }),
            RaidError::NotPermitted(host::Refusal::Exists { path: path.clone() }),
        ] {
            assert!(error.is_input(), "{error}");
        }
    }
}
