//! A member that was away and comes back: only what was written meanwhile is copied.
//!
//! While members are missing no bit of the bitmap is cleared, so whatever was written since one left is marked, if it
//! left after the last clearing: its own number of events must not be lower than the newest at which bits were cleared
//! (md has the same rule, `super_1_validate`). What is marked is rebuilt from the others, everything else is as it was.
//! Without a bitmap, or too far behind, it is rebuilt whole; as is one with bad blocks, which were not there to be read
//! before it left, and perhaps can be computed now.
//!
//! A device that went on without the members in use ([`standing`](crate::standing::went_on_without)) has writes of its
//! own, which no bitmap of ours marks: it comes back only as something new, filled whole, and whoever adds it must have
//! said that what it holds may be lost.
//!
//! Members that keep checksums keep them on the way, if they count ([`kept`](crate::integrity::kept)); else the device
//! is filled whole.

use std::ops::Range;
use std::rc::Rc;

use device::{Device, DeviceError};
use units::Bytes;

use crate::array::Array;
use crate::creation::is_same;
use crate::geometry::{Level, Role};
use crate::md::{Features, MemberRole, Superblock};
use crate::member::MemberState;
use crate::standing::went_on_without;
use crate::state::State;
use crate::upkeep::Newcomer;

/// A device that was a member, and what it says.
pub(crate) struct Away<D> {
    pub device: Rc<D>,
    pub superblock: Superblock,
}

impl<D: Device> Array<D> {
    /// Whether a device with this superblock can come back by the bitmap, and as which member.
    pub fn may_return(&self, superblock: &Superblock) -> Option<usize> {
        let intent = self.intent.as_ref()?;
        let MemberRole::Active(member) = superblock.role() else { return None };
        let member = usize::from(member);
        let place = self.members.get(member)?;
        // What came back as something else may be an older copy of itself, which lacks more than is marked.
        let missing = place.state() == MemberState::Failed && place.cause() != Some(DeviceError::Exchanged);
        let unfinished = superblock.features.has(Features::RECOVERY) || superblock.features.has(Features::REPLACEMENT);
        let known = superblock.events >= intent.events_cleared();
        // Another device may have its number by now, and its place on the table of roles with it.
        let own = self.is_own_number(superblock.number as usize, member);
        let whole = !unfinished && !superblock.features.has(Features::BAD_BLOCKS);
        let alone = !self.went_on_without(superblock).is_empty();
        (missing && whole && known && own && !alone && self.is_of(superblock)).then_some(member)
    }

    /// Whether a device with this superblock was a member of this array, or its spare or journal, as it was
    /// [created](crate::creation).
    pub fn is_of(&self, superblock: &Superblock) -> bool {
        let sibling = self.state.as_ref().and_then(State::sibling);
        sibling.is_some_and(|sibling| is_same(superblock, &sibling))
    }

    /// Which members in use a device with this superblock went on without, although it was a member of this array: it
    /// may hold writes that they do not know of. None of them if it did not.
    pub fn went_on_without(&self, superblock: &Superblock) -> Vec<usize> {
        let Some(state) = self.state.as_ref().filter(|_| self.is_of(superblock)) else { return Vec::new() };
        let superblocks = state.superblocks.borrow();
        let in_use = |member: &usize| self.members[*member].state() != MemberState::Failed;
        let of = |member: usize| Some((member, superblocks[member].as_ref()?));
        let (members, current): (Vec<usize>, Vec<&Superblock>) =
            (0..self.members.len()).filter(in_use).filter_map(of).unzip();
        went_on_without(superblock, &current).into_iter().map(|index| members[index]).collect()
    }

    /// How many changes of the array its members have seen.
    pub fn events(&self) -> u64 {
        let sibling = self.state.as_ref().and_then(State::sibling);
        sibling.map_or(0, |superblock| superblock.events)
    }

    /// As which member a device can come back that was given at the start. It may have become too small: the array has
    /// grown without it.
    fn may_bring_back(&self, away: &Away<D>) -> Option<usize> {
        let member = self.may_return(&away.superblock)?;
        let room = self.check_member_room(member, &away.device, away.superblock.data_offset);
        room.is_ok().then_some(member)
    }

    /// Devices that were given at the start, are stale, and can come back by the bitmap: as which members, and what
    /// they are called.
    pub fn returning(&self) -> Vec<(usize, String)> {
        let away = self.away.borrow();
        let one = |away: &Away<D>| Some((self.may_bring_back(away)?, away.device.shape().name.clone()));
        away.iter().filter_map(one).collect()
    }

    /// Lets go of devices that were given at the start and are stale, by what they are called: they can no longer be
    /// [brought back](Array::bring_back).
    pub fn let_go_of_stale(&self, which: impl Fn(&str) -> bool) {
        self.away.borrow_mut().retain(|away| !which(&away.device.shape().name));
    }

    /// Has a member come back that was given at the start; `None` if it was not, or cannot come back by the bitmap.
    pub async fn bring_back(&self, member: usize) -> Option<Result<Vec<Range<Bytes>>, DeviceError>> {
        let index = self.away.borrow().iter().position(|away| self.may_bring_back(away) == Some(member))?;
        let Away { device, superblock } = self.away.borrow_mut().remove(index);
        Some(self.give_back(member, device, &superblock).await)
    }

    /// As [`Array::bring_back`], of a device that is given now; it [must be able to](Array::may_return).
    pub async fn readd(&self, device: D, superblock: &Superblock) -> Result<Vec<Range<Bytes>>, DeviceError> {
        let member = self.may_return(superblock).ok_or(DeviceError::Unsupported)?;
        self.give_back(member, Rc::new(device), superblock).await
    }

    async fn give_back(
        &self,
        member: usize,
        device: Rc<D>,
        superblock: &Superblock,
    ) -> Result<Vec<Range<Bytes>>, DeviceError> {
        let known = Newcomer::known(device, superblock);
        let kept = self.put_in_place(member, Newcomer { returns: Some(superblock.clone()), ..known }).await?;
        let sums = self.has_checksums();
        let wanted = |at: Bytes, end: Bytes| {
            // Without sums that count nothing on it does; and what has lost its sum gets it from the others.
            if sums && kept.as_ref().is_none_or(|kept| kept.lacks(&(at..end))) {
                return true;
            }
            let range = match (self.geometry.level(), self.geometry.role(member, at)) {
                (Level::Raid10(_), Role::Data(address)) => address..address + (end - at),
                (Level::Raid10(_), _) => return false,
                _ => at..end,
            };
            self.intent.as_ref().is_none_or(|intent| intent.is_marked(&range))
        };
        self.fill_where(member, wanted).await
    }
}
