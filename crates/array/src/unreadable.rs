//! What a member could not give of late, and when that is too much.
//!
//! A sector that cannot be read is computed from the others and written again, and a sound drive puts it elsewhere:
//! that is no reason to lose all else that the member holds. A drive whose head is worn takes each such write and gives
//! it back no more; all its requests are then paid for by the others, and it is redundancy in name only. md draws the
//! line at levels 1 and 10 at [`MOST`] reads that had to be corrected, halved for the time since the last
//! (`check_decay_read_errors`, `exceed_read_errors`), and at levels 4 to 6 at as many failures in a row as its cache
//! has stripes (256), with none between them that succeeded (`raid5_end_read_request`): a drive that is half readable
//! is never given up there. Here the first rule holds at all levels.
//!
//! It is about drives, and one bad patch must not seem to be one:
//! - Reads count that a client's request needed, and that were corrected. What a scrub, a resync, a rebuild or a copy
//!   meets are the latent errors of months; it mends them, and counts none (as md, which counts those of levels 1 and
//!   10 only in service).
//! - A patch counts once, however many requests find parts of it: places of one [`PATCH`] that were not read before. A
//!   place that was written again and fails once more counts each time, as that is the drive that this is about.
//! - The count is halved for every hour that has passed, the remainder of an hour kept. (md counts whole hours since
//!   the last error, so that one error each 59 minutes adds up for ever.)
//!
//! The array gives a member up only if it can do without it *and* without every other one that is not whole, has ranges
//! that could not be rebuilt, or could not give something of late itself: what a worn drive still gives is more than
//! nothing. While parity may not fit, and while it is being copied to its replacement, it stays, too.
//!
//! Rejected: members that give wrong bytes with good grace, as checksums show, counted apart. To whoever must compute,
//! it is one; dm-integrity below md makes them read errors as well.

use std::ops::Range;

use device::{Device, DeviceError};
use units::{Bytes, Duration, Instant};

use crate::array::Array;
use crate::bad::joined;
use crate::member::MemberState;

/// md's `MD_DEFAULT_MAX_CORRECTED_READ_ERRORS`: a member with more is given up.
const MOST: u64 = 20;
/// After this the count is half of what it was.
const HOUR: Duration = Duration::seconds(3600);
/// What lies within it counts as one place. A scratch or a bad head landing takes neighbouring sectors of some tracks,
/// each of about a MiB.
const PATCH: Bytes = Bytes::mib(1);
/// How many patches are remembered; what is found in an older one counts anew.
const REMEMBERED: usize = 64;

/// What could not be read of a member, and was corrected.
#[derive(Default)]
pub(crate) struct Unreadable {
    count: u64,
    /// When the count was last halved, or began.
    since: Option<Instant>,
    /// Patches by number, each with what could not be read of it, the newest last.
    patches: Vec<(u64, Vec<Range<Bytes>>)>,
}

impl Unreadable {
    /// Takes note of a range of the data area that could not be read and has been written again. Gives the count with
    /// it.
    pub fn note(&mut self, range: Range<Bytes>, now: Instant) -> u64 {
        self.decay(now);
        let number = range.start / PATCH;
        let known =
            self.patches.iter().position(|(patch, _)| *patch == number).map(|index| self.patches.remove(index).1);
        let is_new_part = known
            .as_ref()
            .is_some_and(|parts| !parts.iter().any(|part| part.start < range.end && range.start < part.end));
        let mut parts = known.unwrap_or_default();
        parts.push(range);
        self.patches.push((number, joined(parts)));
        if self.patches.len() > REMEMBERED {
            self.patches.remove(0);
        }
        self.count += u64::from(!is_new_part);
        self.count
    }

    /// Whether it could not give something of late.
    pub fn is_suspect(&mut self, now: Instant) -> bool {
        self.decay(now);
        self.count > 0
    }

    fn decay(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        let hours = now.since(since).as_nanos() / HOUR.as_nanos();
        if hours > 0 {
            self.count = self.count.checked_shr(u32::try_from(hours).unwrap_or(u32::MAX)).unwrap_or(0);
            self.since = Some(since + HOUR * hours);
        }
        if self.count == 0 {
            self.patches.clear();
        }
    }
}

impl<D: Device> Array<D> {
    /// A member could not give a range of its data area that a client's request needed, and it has been written again.
    /// One that had too many of these is used no more, if the array can do without it.
    pub(crate) fn corrected(&self, member: usize, range: Range<Bytes>) {
        let this = &self.members[member];
        if this.state() == MemberState::Failed {
            return;
        }
        let reads = this.note_unreadable(range);
        if reads > MOST && self.can_give_up(member) {
            self.lose(member, &DeviceError::Worn { reads });
        }
    }

    /// Whether all data can be had without a member, and without whatever is not to be relied on.
    fn can_give_up(&self, member: usize) -> bool {
        let unreliable = |other: usize| {
            let it = &self.members[other];
            other == member || it.state() != MemberState::Active || !it.bad().is_empty() || it.is_suspect()
        };
        let survivable = self.geometry.level().losses_survived(self.members.len()) > 0;
        let replaced = self.members[member].twin().is_some();
        let fits = self.geometry.level().parities() == 0 || !self.is_resync_due();
        survivable && !replaced && fits && self.geometry.survives(unreliable)
    }
}

#[test]
fn a_patch_counts_once_a_place_that_fails_again_each_time_and_hours_halve_it() {
    let at = |kib: u64| Bytes::kib(kib)..Bytes::kib(kib + 4);
    let minute = |minutes: u64| Instant::START + Duration::seconds(60) * minutes;
    let mut it = Unreadable::default();
    assert_eq!([0, 4, 64, 1020].map(|kib| it.note(at(kib), minute(0))), [1; 4], "one patch");
    assert_eq!([1024, 2048].map(|kib| it.note(at(kib), minute(1))), [2, 3], "others");
    assert_eq!([64, 64, 8].map(|kib| it.note(at(kib), minute(59))), [4, 5, 5], "again, again, and a new part");
    // Halved at 60 and at 120 minutes.
    assert_eq!(it.note(at(64), minute(60)), 3);
    assert_eq!(it.note(at(64), minute(119)), 4);
    assert!(it.is_suspect(minute(239)));
    assert!(!it.is_suspect(minute(300)));
    assert_eq!(it.note(at(64), minute(60 * 24 * 365)), 1, "all is forgotten");
    for patch in 1..=2 * REMEMBERED as u64 {
        it.note(at(patch * 1024), minute(60 * 24 * 365));
    }
    assert_eq!(it.patches.len(), REMEMBERED);
}
