//! Comparing everything with its redundancy.
//!
//! How far a scrub came is on no member (md keeps it in memory, too): whoever ends one is told, and says from where the
//! next one goes.

use array::geometry::Level;
use array::{Array, Repair, Scrubbed};
use device::{AnyDevice, DeviceError};
use serde::{Deserialize, Serialize};
use units::Bytes;
use uring::{Live, LiveOptions};

use crate::members::{Permits, open};
use crate::upkeep::{Done, not_whole, numbered};
use crate::{Course, Place, RaidError};

/// What a scrub found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Scrub {
    /// Its redundancy was not known to fit, and was made to fit first (a resync): so many ranges were written anew for
    /// that.
    #[serde(default)]
    pub resynced: Option<u64>,
    /// Blocks of 512 bytes (or of the members' blocks, if larger) whose redundancy did not fit.
    pub mismatches: u64,
    /// Of these, those of which it can be told on which member the block is wrong, by member. Only level 6 tells.
    pub located: Vec<u64>,
    /// Of these, those of which it cannot.
    pub unlocated: u64,
    /// Where the first of them are, in order of addresses.
    pub misfits: Vec<Misfit>,
    /// Located and mended, by member.
    pub mended: Vec<u64>,
    /// Of these, made to fit by believing the data.
    pub believed: u64,
    /// Units that could not be read.
    pub unreadable: u64,
    /// Units of which one copy is left, which was compared with nothing.
    pub single: u64,
    /// Sectors that could not be read and were written anew, by member.
    pub rewritten: Vec<u64>,
    /// Blocks that did not fit their checksums, by member.
    pub corrupt: Vec<u64>,
    /// What could be located was to be mended; elsewhere the data were to be believed.
    #[serde(default)]
    pub repaired: bool,
    /// The level tells which block is wrong, if one is.
    #[serde(default)]
    pub locates: bool,
    /// Where in the array it began.
    #[serde(rename = "from_bytes", default)]
    pub from: u64,
    /// Where it ended: everything from the beginning up to there was compared.
    #[serde(rename = "upto_bytes", default)]
    pub upto: u64,
    /// It was ended early.
    pub interrupted: bool,
}

/// A stretch of the array whose redundancy did not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Misfit {
    /// Its first byte.
    #[serde(rename = "from_bytes")]
    pub from: u64,
    /// The one behind its last.
    #[serde(rename = "to_bytes")]
    pub to: u64,
    /// The member that is wrong there, if it can be told.
    pub member: Option<usize>,
}

impl Scrub {
    /// What was found in an array. An array counts from its start on; what it had [rewritten](rewritten) before the
    /// scrub is none of that's.
    pub(crate) fn of(array: &Array<AnyDevice>, found: Scrubbed, (how, from): (Repair, Bytes), before: Before) -> Scrub {
        let now = rewritten(array);
        let rewritten = now.iter().zip(&before.rewritten).map(|(now, before)| now.saturating_sub(*before)).collect();
        let interrupted = found.upto < array.geometry().size();
        let Scrubbed { mismatches, located, misfits, mended, believed, corrupt, unreadable, single, upto, .. } = found;
        let unlocated = mismatches.saturating_sub(located.iter().sum());
        let misfit =
            |one: array::Misfit| Misfit { from: one.range.start.get(), to: one.range.end.get(), member: one.member };
        let misfits = misfits.into_iter().map(misfit).collect();
        Scrub {
            resynced: before.resynced,
            mismatches,
            located,
            unlocated,
            misfits,
            mended,
            believed,
            unreadable,
            single,
            rewritten,
            corrupt,
            repaired: how != Repair::No,
            locates: array.geometry().level().parities() == 2,
            from: from.get(),
            upto: upto.get(),
            interrupted,
        }
    }

    /// Whether something does not fit, or was compared with nothing, and still is so.
    pub fn leaves_some(&self) -> bool {
        let settled = self.mended.iter().sum::<u64>() + self.believed;
        self.unreadable + self.single > 0 || self.mismatches > settled
    }

    /// Where one that was ended goes on.
    fn goes_on(&self) -> String {
        // No space, so that it is one word of a command.
        let upto = format!("{:#}", Bytes::new(self.upto)).replace(' ', "");
        format!(
            "ended early, at {upto} of the array: the figures are of what was compared until then; `--from {upto}` goes on there\n"
        )
    }

    /// For people.
    pub fn text(&self) -> String {
        let sum = |by_member: &[u64]| by_member.iter().sum::<u64>();
        let mended = sum(&self.mended);
        let first = self.resynced.map_or(String::new(), |ranges| {
            format!(
                "the array was never made to fit, or was not stopped: its redundancy was made to fit first (resync), for which {ranges} {} written anew\n",
                if ranges == 1 { "range was" } else { "ranges were" }
            )
        });
        let mut text = format!(
            "{first}{} blocks did not fit: {mended} mended, {} made to fit by believing the data, {} left\n\
             {} units could not be read, {} ranges were written anew\n{}{}",
            self.mismatches,
            self.believed,
            self.mismatches.saturating_sub(mended + self.believed),
            self.unreadable,
            sum(&self.rewritten),
            match self.from {
                0 => String::new(),
                from => format!("the figures are of what lies from {:#} of the array on\n", Bytes::new(from)),
            },
            if self.interrupted { self.goes_on() } else { String::new() }
        );
        for (member, blocks) in self.corrupt.iter().enumerate().filter(|(_, blocks)| **blocks > 0) {
            text.push_str(&format!("member {member} gave {blocks} blocks that did not fit their checksums\n"));
        }
        for (member, blocks) in self.located.iter().enumerate().filter(|(_, blocks)| **blocks > 0) {
            let blocks = counted(*blocks);
            text.push_str(&match self.repaired {
                true => format!("member {member} was wrong in {blocks}, computed from the others and written to it\n"),
                false => format!("member {member} is wrong in {blocks}; `--repair` computes them from the others\n"),
            });
        }
        // Where the data were believed, what could not be located fits now.
        if self.unlocated > self.believed {
            let left = counted(self.unlocated - self.believed);
            text.push_str(&match self.locates {
                true => format!(
                    "of {left} it cannot be told which member is wrong, as more than one may be; compare what the array gives there with a copy of it, \
                     and write it anew: then it fits\n"
                ),
                false => format!(
                    "of {left} it cannot be told at this level which member is wrong; compare what the array gives there with a copy of it, if there \
                     is one; `--repair` believes the data, or the first copy\n"
                ),
            });
        }
        for Misfit { from, to, member } in &self.misfits {
            let whose = member.map_or("not told which".to_owned(), |member| format!("member {member}"));
            text.push_str(&format!("  bytes {from} to {to} of the array: {whose}\n"));
        }
        if self.single > 0 {
            let next = "`arraylab array rebuild` fills the place of the member that is missing";
            let units = self.single;
            text.push_str(&format!("{units} units have one copy left, and were compared with nothing; {next}\n"));
        }
        text
    }
}

/// `1 block`, `2 blocks`.
pub(crate) fn counted(blocks: u64) -> String {
    format!("{blocks} {}", if blocks == 1 { "block" } else { "blocks" })
}

/// What was done to an array before a scrub, or by the resync with which it began, and is not its own.
pub(crate) struct Before {
    rewritten: Vec<u64>,
    resynced: Option<u64>,
}

impl Before {
    /// Makes redundancy fit, if that is due: after a power cut only the data can be believed, and nothing is wrong with
    /// the members.
    pub async fn made_to_fit(array: &Array<AnyDevice>) -> Result<Before, DeviceError> {
        let (was_due, before) = (array.needs_resync(), rewritten(array));
        array.resync().await?;
        let rewritten = rewritten(array);
        let ranges = rewritten.iter().sum::<u64>() - before.iter().sum::<u64>();
        Ok(Before { rewritten, resynced: (was_due && !array.needs_resync()).then_some(ranges) })
    }
}

/// How many sectors an array has written anew since it was opened, by member.
fn rewritten(array: &Array<AnyDevice>) -> Vec<u64> {
    (0..array.geometry().members()).map(|member| array.counts(member).rewritten).collect()
}

/// Compares everything from an address of the array on with its redundancy.
pub fn scrub(
    members: &[Place],
    permits: &Permits,
    repair: bool,
    from: Bytes,
    course: &Course,
) -> Result<Scrub, RaidError> {
    let live = Live::start(&LiveOptions::default());
    let runtime = live.runtime();
    let array = open(&live, members, permits, course)?;
    comparable(&array)?;
    within(&array, from)?;
    let before = runtime.block_on(Before::made_to_fit(&array)).map_err(RaidError::failed)?;
    let how = Repair::usual(repair, array.geometry().level());
    let found = runtime.block_on(array.scrub_from(how, from)).map_err(RaidError::failed)?;
    let scrubbed = Scrub::of(&array, found, (how, from), before);
    Done::left(&live, &array)?;
    Ok(scrubbed)
}

/// Refuses to begin where the array has ended.
pub(crate) fn within(array: &Array<AnyDevice>, from: Bytes) -> Result<(), RaidError> {
    let size = array.geometry().size();
    if from < size { Ok(()) } else { Err(RaidError::BehindEnd { from, size }) }
}

/// Refuses an array in which there is nothing to compare data with: it has neither redundancy nor checksums; or parity,
/// and a member is missing.
pub(crate) fn comparable(array: &Array<AnyDevice>) -> Result<(), RaidError> {
    let level = array.geometry().level();
    if matches!(level, Level::Linear | Level::Raid0(_)) && !array.has_checksums() {
        return Err(RaidError::NothingToCompare { level: level.to_string() });
    }
    let missing = not_whole(array);
    match level.parities() > 0 && !missing.is_empty() {
        true => Err(RaidError::NotComparable {
            missing: numbered(&missing, ", "),
            are: if missing.len() == 1 { "is" } else { "are" },
        }),
        false => Ok(()),
    }
}
