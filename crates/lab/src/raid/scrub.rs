//! Comparing everything with its redundancy.

use array::geometry::Level;
use array::{Array, Repair, Scrubbed};
use device::AnyDevice;
use serde::{Deserialize, Serialize};
use uring::{Live, LiveOptions};

use super::members::{Permits, open};
use super::upkeep::{Done, not_whole, numbered};
use super::{Course, Place, RaidError};

/// What a scrub found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Scrub {
    /// Blocks of 512 bytes (or of the members' blocks, if larger) whose redundancy did not fit.
    pub mismatches: u64,
    /// Of these, located and mended, by member.
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
    /// It was ended early.
    pub interrupted: bool,
}

impl Scrub {
    /// What was found in an array. An array counts from its start on; what it had [rewritten](rewritten) before the scrub is none of that's.
    pub(super) fn of(array: &Array<AnyDevice>, found: Scrubbed, before: &[u64]) -> Scrub {
        let now = rewritten(array);
        let rewritten = now.iter().zip(before).map(|(now, before)| now.saturating_sub(*before)).collect();
        let interrupted = found.upto < array.geometry().size();
        let Scrubbed { mismatches, mended, believed, corrupt, unreadable, single, .. } = found;
        Scrub { mismatches, mended, believed, unreadable, single, rewritten, corrupt, interrupted }
    }
}

/// How many sectors an array has written anew since it was opened, by member.
pub(super) fn rewritten(array: &Array<AnyDevice>) -> Vec<u64> {
    (0..array.geometry().members()).map(|member| array.counts(member).rewritten).collect()
}

/// Compares everything with its redundancy.
pub fn scrub(members: &[Place], permits: &Permits, repair: bool, course: &Course) -> Result<Scrub, RaidError> {
    let live = Live::start(&LiveOptions::default());
    let runtime = live.runtime();
    let array = live.runtime().block_on(open(&live, members, permits, false, course))?;
    comparable(&array)?;
    // After a power cut only the data can be believed, and nothing is wrong with the members.
    runtime.block_on(async { array.resync().await.map(drop) }).map_err(RaidError::failed)?;
    let how = Repair::usual(repair, array.geometry().level());
    let found = runtime.block_on(array.scrub(how)).map_err(RaidError::failed)?;
    // Nobody else has used it since it was opened.
    let scrubbed = Scrub::of(&array, found, &vec![0; array.geometry().members()]);
    Done::left(&live, &array)?;
    Ok(scrubbed)
}

/// Refuses an array in which there is nothing to compare data with: it has neither redundancy nor checksums; or parity, and a member is missing.
pub(super) fn comparable(array: &Array<AnyDevice>) -> Result<(), RaidError> {
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
