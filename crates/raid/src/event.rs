//! What happens to an array while it is served, for people and for programs.

use std::fmt;
use std::ops::Range;

use nbd::PATIENCE;
use serde::Serialize;
use units::{Bytes, Duration};

use crate::exact;
use crate::scrub::{Misfit, Scrub, counted};
use crate::upkeep::{BROKEN, outlook};

/// Something that whoever keeps the array wants to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A member is used no more.
    MemberFailed {
        /// Its number.
        member: usize,
        /// What it is called.
        device: String,
        /// What it did, if it was not told to fail.
        cause: Option<String>,
        /// How many more may be lost, whichever they are.
        survives: usize,
        /// Members that may not be lost, where others may.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        needed: Vec<usize>,
        /// With this one more are lost than the level survives.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        broken: bool,
    },
    /// The connection to an export broke.
    ConnectionLost {
        /// The export.
        device: String,
    },
    /// There is another one.
    ConnectionBack {
        /// The export.
        device: String,
        /// How long there was none.
        #[serde(rename = "away_ns", serialize_with = "exact::nanoseconds")]
        away: Duration,
        /// How often that was so since the array began to be served.
        times: u64,
    },
    /// An export came back as another one, or without what it had promised to keep: it is used no more.
    MemberExchanged {
        /// The export.
        device: String,
        /// What differs.
        difference: String,
    },
    /// More is lost than the level survives.
    Broken,
    /// Another server records on the members, too.
    Rival {
        /// When that one opened the array, or recorded last.
        opened: String,
    },
    /// A member is being filled.
    RebuildBegan {
        /// Its number.
        member: usize,
        /// What fills its place.
        device: String,
    },
    /// A member is whole.
    RebuildDone {
        /// Its number.
        member: usize,
        /// Ranges of the array that could not be computed: first byte and the one behind the last.
        #[serde(rename = "lost_bytes")]
        lost: Vec<(u64, u64)>,
    },
    /// A device waits for a member to fail.
    SpareAdded {
        /// What it is called.
        device: String,
    },
    /// A member that serves is being copied to what is to replace it.
    ReplaceBegan {
        /// Its number.
        member: usize,
        /// What replaces it.
        device: String,
    },
    /// The copy is the member.
    ReplaceDone {
        /// Its number.
        member: usize,
        /// Ranges of the array that could be neither read nor computed: first byte and the one behind the last.
        #[serde(rename = "lost_bytes")]
        lost: Vec<(u64, u64)>,
    },
    /// The member was not replaced.
    ReplaceFailed {
        /// Its number.
        member: usize,
        /// Why.
        cause: String,
    },
    /// The journal takes no more.
    JournalFailed,
    /// A rebuild came to an end before the member was whole.
    RebuildFailed {
        /// The member's number.
        member: usize,
        /// Why.
        cause: String,
    },
    /// What was being written when the array was last in use is made to fit.
    ResyncBegan,
    /// It fits.
    ResyncDone,
    /// It could not be made to fit.
    ResyncFailed {
        /// Why.
        cause: String,
    },
    /// Everything is being compared.
    ScrubBegan,
    /// Not everything was compared: whoever gave the order waits no more, or the server ends.
    ScrubEnded {
        /// Up to where in the array it was.
        #[serde(rename = "upto_bytes", with = "exact")]
        upto: Bytes,
        /// Blocks until there whose redundancy did not fit.
        mismatches: u64,
    },
    /// What was to be compared could not be.
    ScrubFailed {
        /// Why.
        cause: String,
    },
    /// Everything was compared.
    ScrubDone {
        /// Blocks whose redundancy did not fit.
        mismatches: u64,
        /// Of these, those of which it can be told on which member the block is wrong, by member.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        located: Vec<u64>,
        /// Of these, those of which it cannot.
        #[serde(skip_serializing_if = "is_none")]
        unlocated: u64,
        /// Mended, by member.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        mended: Vec<u64>,
        /// Where the first of them are.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        misfits: Vec<Misfit>,
    },
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

impl Event {
    /// What a scrub found.
    pub(crate) fn of_scrub(found: &Scrub) -> Event {
        let any = |by_member: &[u64]| {
            if by_member.iter().any(|blocks| *blocks > 0) { by_member.to_vec() } else { Vec::new() }
        };
        Event::ScrubDone {
            mismatches: found.mismatches,
            located: any(&found.located),
            unlocated: found.unlocated,
            mended: any(&found.mended),
            misfits: found.misfits.clone(),
        }
    }
}

/// What it means that another server has the same members.
pub(crate) fn rival(opened: &str) -> String {
    format!(
        "another server has this array's members, and opened them at {opened}: no write is accepted here. End one of the two servers, and have the other scrub the array (`arraylab array scrub`)"
    )
}

/// Why a resync that met no error did not make everything fit: it left these ranges of the array, or was ended.
pub(crate) fn unfinished(left: &[Range<Bytes>]) -> String {
    let Some(Range { start, end }) = left.first() else { return "it was ended; the next start goes on".into() };
    let more = match left.len() {
        1 => String::new(),
        places => format!(", and in {} more places,", places - 1),
    };
    format!(
        "what lies within bytes {} to {} of the array{more} cannot be read, and parity may not tell what it was; write it, or read it, where what parity tells is to be believed, and scrub the array then",
        start.get(),
        end.get()
    )
}

/// One line, without its end.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Event::MemberFailed { member, device, cause, survives, needed, broken } => {
                let cause = cause.as_ref().map_or("it was told to".to_owned(), String::clone);
                write!(f, "member {member} ({device}) failed: {cause}; {}", if *broken { BROKEN.into() } else { outlook(*survives, needed) })
            }
            Event::ConnectionLost { device } => {
                write!(f, "the connection to {device} broke; for up to {PATIENCE} it is tried to connect again")
            }
            Event::ConnectionBack { device, away, times } => {
                write!(f, "{device} is connected again after {away}")?;
                if *times > 1 { write!(f, ", {times} times by now") } else { Ok(()) }
            }
            Event::MemberExchanged { device, difference } => {
                write!(f, "{device} came back, but {difference}. It is used no more, and nothing was written to it. If it is to be filled anew, add it (`arraylab array add`)")
            }
            Event::Broken => f.write_str(
                "broken: more members are lost than the level survives; no write is accepted. End the server, and start it with members that can be read",
            ),
            Event::Rival { opened } => write!(f, "{}", rival(opened)),
            Event::RebuildBegan { member, device } => write!(f, "rebuilding member {member} on {device}"),
            Event::RebuildDone { member, lost } if lost.is_empty() => write!(f, "member {member} is whole again"),
            Event::RebuildDone { member, lost } => {
                write!(f, "member {member} is whole again, but for what could not be computed:")?;
                lost.iter().try_for_each(|(from, to)| write!(f, " bytes {from} to {to}"))?;
                f.write_str(" of the array read as errors until they are written")
            }
            Event::SpareAdded { device } => write!(f, "{device} is a spare"),
            Event::ReplaceBegan { member, device } => write!(f, "copying member {member} to {device}, which replaces it"),
            Event::ReplaceDone { member, lost } if lost.is_empty() => write!(f, "member {member} is replaced"),
            Event::ReplaceDone { member, lost } => {
                write!(f, "member {member} is replaced, but for what could be neither read nor computed:")?;
                lost.iter().try_for_each(|(from, to)| write!(f, " bytes {from} to {to}"))?;
                f.write_str(" of the array")
            }
            Event::ReplaceFailed { member, cause } => write!(f, "member {member} is not replaced: {cause}"),
            Event::JournalFailed => f.write_str(
                "the journal failed: no write is accepted. End the server, and open the array by force without it (`arraylab array stop --force`)",
            ),
            Event::RebuildFailed { member, cause } => write!(f, "member {member} is not whole: {cause}"),
            Event::ResyncBegan => f.write_str("resync: the array was not stopped, and its redundancy is made to fit"),
            Event::ResyncDone => f.write_str("resync: the redundancy fits"),
            Event::ResyncFailed { cause } => write!(f, "resync: {cause}; the array stays dirty"),
            Event::ScrubBegan => f.write_str("scrub: everything is compared with its redundancy"),
            Event::ScrubEnded { upto, mismatches } => {
                write!(f, "scrub: ended at {upto} of the array, and {} before that did not fit", counted(*mismatches))
            }
            Event::ScrubFailed { cause } => write!(f, "scrub: {cause}"),
            Event::ScrubDone { mismatches: 0, .. } => f.write_str("scrub: all fits"),
            Event::ScrubDone { mismatches, located, unlocated, mended, misfits } => {
                write!(f, "scrub: {} did not fit", counted(*mismatches))?;
                for (member, blocks) in located.iter().enumerate().filter(|(_, blocks)| **blocks > 0) {
                    let mended = if mended.get(member) == Some(blocks) { ", mended" } else { "" };
                    write!(f, "; member {member} is wrong in {blocks}{mended}")?;
                }
                if !located.is_empty() && *unlocated > 0 {
                    write!(f, "; of {unlocated} it cannot be told who is wrong")?;
                }
                let Some(first) = misfits.first() else { return Ok(()) };
                write!(f, "; the first within bytes {} to {} of the array", first.from, first.to)
            }
        }
    }
}
