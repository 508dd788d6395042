//! Where a scrub found that redundancy does not fit, and on whom.
//!
//! Level 6 tells which block of a stripe is wrong, if one is ([`parity::locate`]). With one parity, or of copies,
//! nothing tells: any of them may be the wrong one.

use std::ops::Range;

use units::Bytes;

/// Stretches that are kept: the first in order of addresses. Whoever wants all of a member that gives nonsense wants
/// another member.
const MOST: usize = 16;

/// A stretch of the array with redundancy that does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// What of the array it is; where parity is wrong, or nothing tells, all data that it is of.
    pub range: Range<Bytes>,
    /// The member that is wrong there, if it can be told.
    pub member: Option<usize>,
}

/// Takes note of another one behind those that are known.
pub(crate) fn note(known: &mut Vec<Misfit>, range: Range<Bytes>, member: Option<usize>) {
    let may_take = known.len() < MOST;
    match known.last_mut().filter(|last| last.member == member && range.start <= last.range.end) {
        Some(last) => last.range.end = last.range.end.max(range.end),
        None if may_take => known.push(Misfit { range, member }),
        None => {}
    }
}
