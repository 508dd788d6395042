//! The ways in which an array can break that the field knows, each by name.
//!
//! Storms meet most of these by chance; here each is brought about on purpose, so that what must happen then can be
//! said exactly. The numbers are those of the list that the project began with: what users of md, ZFS, SPDK and
//! hardware controllers reported, and what testers of storage systems look for. Three cases need programs beside the
//! array; they are held elsewhere, and say where.

mod corruption;
mod errors;
mod lifecycle;
mod membership;
mod power;
mod stage;

/// A case.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Its number in the list.
    pub case: u32,
    /// What it is called.
    pub name: &'static str,
    /// What happens, and what must come of it.
    pub what: &'static str,
    run: Run,
}

#[derive(Clone, Copy)]
enum Run {
    Here(fn() -> Result<(), String>),
    Elsewhere(&'static str),
}

use Run::{Elsewhere, Here};

/// All cases, in their order.
pub const SCENARIOS: [Scenario; 28] = [
    case(
        1,
        "cut-at-every-write",
        "a cut between any two writes to members, on two stripes: opened, resynced, as promised",
        Here(power::every_write),
    ),
    case(2, "cut-with-any-subset", "each member keeps any part of its unflushed writes", Here(power::any_subset)),
    case(
        3,
        "torn-write",
        "sectors of a write are missing, one is half old: found by checksums, healed",
        Here(corruption::torn),
    ),
    case(
        4,
        "cut-inside-recovery",
        "the power goes again while the array is opened, rebuilt or resynced",
        Here(power::inside_recovery),
    ),
    case(
        5,
        "cut-and-member-lost",
        "with a log nothing is lost with the member; without, the array is refused",
        Here(power::member_lost),
    ),
    case(
        6,
        "lying-flush",
        "a disk drops what it called durable: seen by the oracle, no promise is kept on such disks",
        Here(power::lying_flush),
    ),
    case(
        7,
        "killed-server",
        "kill -9 while clients write",
        Elsewhere("the tests of the command line: crates/cli/tests/"),
    ),
    case(
        8,
        "read-error",
        "in service, degraded, in a scrub: computed, written again, counted; two in a row fail only their range",
        Here(errors::read),
    ),
    case(9, "write-error", "the member fails, and the others say so before the acknowledgement", Here(errors::write)),
    case(
        10,
        "metadata-error",
        "a superblock cannot be written, a flush fails: the member is out, and nothing else is lost",
        Here(errors::metadata),
    ),
    case(
        11,
        "latent-in-rebuild",
        "a rebuild goes on around what cannot be read, and says exactly what is lost",
        Here(errors::latent_in_rebuild),
    ),
    case(12, "hung-member", "a time-out ends the wait; what completes late does no harm", Here(errors::hung)),
    case(
        13,
        "bit-rot",
        "data, P and Q: located at level 6, with checksums at every level; elsewhere counted, never guessed",
        Here(corruption::rot),
    ),
    case(
        14,
        "lost-and-misdirected",
        "a write is not where it should be: found by checksums; two at level 6 without them cannot be located",
        Here(corruption::lies),
    ),
    case(
        15,
        "corrupt-metadata",
        "a superblock or bitmap is damaged: refused, the others' are used",
        Here(corruption::metadata),
    ),
    case(16, "stale-member", "a member that missed writes comes back: it is never read", Here(membership::stale)),
    case(
        17,
        "split-brain",
        "two halves went on alone: refused, and neither comes back to the other by its bitmap",
        Here(membership::split_brain),
    ),
    case(18, "too-many-lost", "no write is accepted, nothing is invented", Here(membership::too_many)),
    case(19, "strangers", "another order, a copy of a member, a member of another array", Here(membership::strangers)),
    case(20, "unknown-feature", "a member from the future is refused by name", Here(membership::unknown_feature)),
    case(21, "wrong-size", "members that are too small for what their superblocks say", Here(membership::wrong_size)),
    case(22, "restart-in-upkeep", "a resync and a rebuild go on where they were", Here(lifecycle::restart)),
    case(
        23,
        "rebuild-under-load",
        "writes during a rebuild, a second failure, a replacement that fails",
        Here(lifecycle::rebuild),
    ),
    case(
        24,
        "degraded-write-and-cut",
        "written without a member, cut, opened without it, given back",
        Here(lifecycle::degraded_cut),
    ),
    case(
        25,
        "overlapping-writes",
        "writes to the same sectors at once never mix; zeroes, discards and FUA among them",
        Here(lifecycle::overlapping),
    ),
    case(
        26,
        "peer-opens",
        "what either writes, md and this open",
        Elsewhere("the real md: crates/array/tests/md_peer.rs and md_exchange.rs"),
    ),
    case(
        27,
        "peer-agrees",
        "the same faults on md and on this",
        Elsewhere("the real md, as far as it goes: crates/array/tests/md_peer.rs"),
    ),
    case(28, "seeded-bugs", "promises broken on purpose are each seen by storms", Here(power::seeded_bugs)),
];

const fn case(case: u32, name: &'static str, what: &'static str, run: Run) -> Scenario {
    Scenario { case, name, what, run }
}

impl Scenario {
    /// The scenario of this name.
    pub fn named(name: &str) -> Option<Scenario> {
        SCENARIOS.into_iter().find(|scenario| scenario.name == name)
    }

    /// Where it is held, if not here.
    pub fn elsewhere(&self) -> Option<&'static str> {
        match self.run {
            Run::Here(_) => None,
            Run::Elsewhere(place) => Some(place),
        }
    }

    /// Brings it about. An error is a broken promise. Nothing happens to one that is held elsewhere.
    pub fn run(&self) -> Result<(), String> {
        match self.run {
            Run::Here(run) => run(),
            Run::Elsewhere(_) => Ok(()),
        }
    }
}
