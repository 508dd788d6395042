//! What happened in a storm, in order: what a broken promise is explained by.
//!
//! A storm that is replayed tells of superblocks, too: what each disk is told, and what it says when it is asked again,
//! after a power cut above all. When an array is refused, or trusts the wrong member, the reason stands there. Of a
//! million storms this would be too much to keep: one makes hundreds of records.

use std::cell::RefCell;
use std::fmt::{self, Display, Formatter};

use array::md::{Features, MemberRole, Resync, Superblock};
use runtime::Runtime;
use units::{Bytes, Instant};

/// What has happened.
#[derive(Default)]
pub struct Story {
    lines: RefCell<Vec<String>>,
    superblocks: bool,
}

impl Story {
    /// One that has not begun, with superblocks or without.
    pub fn new(superblocks: bool) -> Story {
        Story { lines: RefCell::default(), superblocks }
    }

    /// Whether superblocks are told of.
    pub fn has_superblocks(&self) -> bool {
        self.superblocks
    }

    /// Adds what happens now.
    pub fn tell(&self, runtime: &Runtime, what: impl Display) {
        self.lines.borrow_mut().push(format!("{}: {what}", runtime.now().since(Instant::START)));
    }

    /// All of it.
    pub fn take(&self) -> Vec<String> {
        self.lines.take()
    }
}

/// What decides of a superblock who is what, on one line: events, this device's role, whether redundancy fits, and the
/// roles of all numbers.
pub struct Said<'s>(pub &'s Superblock);

impl Display for Said<'_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let it = self.0;
        let role = |number: u16| match MemberRole::from_number(number) {
            MemberRole::Active(place) => place.to_string(),
            MemberRole::Spare => "spare".into(),
            MemberRole::Faulty => "failed".into(),
            MemberRole::Journal => "journal".into(),
        };
        write!(f, "{} events, {}", it.events, role(it.role().number()))?;
        if it.features.has(Features::REPLACEMENT) {
            write!(f, " as a replacement")?;
        }
        if it.features.has(Features::RECOVERY) {
            write!(f, " filled to {}", Bytes::SECTOR * it.recovery)?;
        }
        match it.resync {
            Resync::Clean => write!(f, ", clean")?,
            Resync::From(at) => write!(f, ", dirty from {at}")?,
        }
        // Numbers that nobody has are spares', and most of the table.
        let given =
            it.roles.iter().rposition(|number| *number != MemberRole::Spare.number()).map_or(0, |last| last + 1);
        let roles: Vec<String> = it.roles[..given].iter().map(|number| role(*number)).collect();
        write!(f, ", roles [{}]", roles.join(" "))
    }
}
