//! A rival: another server that has the same members, and neither knows of the other.
//!
//! Files and devices can be locked; exports cannot, as their protocol knows no locks. Two servers of one array spoil
//! each other's stripes and hold what the other records for their own. So who uses exports *looks out*
//! ([`Array::look_out`]): it knows the sum of each superblock that it wrote or found, and compares with what is there
//!
//! - before each record, so that two never record in turn: a write to an array that is clean, or was opened just now,
//!   begins with a record;
//! - every second while something is written, as an array that is being written records nothing.
//!
//! What it records says when it was opened, to the microsecond (`updated`), so that two that record the same at one
//! instant differ. Its first write, and every upkeep, begins with a record, which the other finds within that second.
//! Who finds the record of another stops as if its array were broken: it takes no write, records, logs and flushes
//! nothing, ends its upkeep, and leaves what is there to the other.
//!
//! It costs a read of 4 KiB of each member for each record (which writes as much, durably), and each second of writing.
//! An idle array asks nothing: members that are away then are not missed, and whoever used them meanwhile is found
//! before the next write.
//!
//! Rejected: a heartbeat as ext4's multiple-mount protection keeps one, which would refuse the second server before it
//! has written a byte. It writes to all members of idle arrays for ever, and each start waits for longer than its
//! period.

use device::{Buffer, Device, DeviceError, Request};
use futures_util::future::join_all;

use crate::array::Array;
use crate::integrity::area::superblock_sum;
use crate::md::{SUPERBLOCK_AT, SUPERBLOCK_SIZE, Stamp, Superblock};
use crate::member::{Member, MemberState};

impl<D: Device> Array<D> {
    /// Looks out for another server of the same members from now on. What is recorded says when the array was `opened`;
    /// no two may say the same.
    pub fn look_out(&self, opened: Stamp) {
        let Some(state) = &self.state else { return };
        if state.lookout.get().is_none() {
            state.lookout.set(Some(opened));
            state.claimed.set(false);
        }
    }

    /// If another server has recorded something on the members: when it opened the array, as it says. (Other programs
    /// say when they recorded it.)
    pub fn rival(&self) -> Option<Stamp> {
        self.state.as_ref()?.rival.get()
    }

    /// An error if another server uses the members: they are left to that one.
    pub(crate) fn unrivalled(&self) -> Result<(), DeviceError> {
        if self.rival().is_some() { Err(DeviceError::ReadOnly) } else { Ok(()) }
    }

    /// Before an upkeep writes to the members: another server must be able to see that this one does.
    pub(crate) async fn claim(&self) -> Result<(), DeviceError> {
        let Some(state) = &self.state else { return Ok(()) };
        if state.claimed.get() {
            return self.unrivalled();
        }
        let _one = state.turn().await;
        if state.claimed.get() { self.unrivalled() } else { self.record(|_| {}).await }
    }

    /// Holds what is on the members against what this array wrote there, if it looks out.
    pub(crate) async fn look_for_rival(&self) {
        let Some(state) = self.state.as_ref().filter(|state| state.lookout.get().is_some()) else { return };
        let there = join_all(self.members.iter().map(Member::foreign)).await;
        if let Some(foreign) = there.into_iter().flatten().next() {
            state.rival.set(Some(state.rival.get().unwrap_or(foreign.updated)));
        }
    }
}

impl<D: Device> Member<D> {
    /// What its device says, if that is the word of somebody else. Of one that cannot be read, or says nothing that can
    /// be understood, nothing is known.
    async fn foreign(&self) -> Option<Superblock> {
        let tellings = self.tellings();
        if self.state() == MemberState::Failed || !self.is_known() {
            return None;
        }
        let reply = self.send(Request::read(SUPERBLOCK_AT, Buffer::zeroed(SUPERBLOCK_SIZE))).await;
        let buffer = reply.result.ok().and(reply.buffer)?;
        let there = Superblock::parse(buffer.bytes()?).ok()?;
        // Told something else meanwhile: what was read may be either, or lie between two.
        let quiet = self.tellings() == tellings;
        (quiet && !self.may_say(superblock_sum(&there))).then_some(there)
    }
}
