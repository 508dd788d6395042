//! Spares: devices that wait for a member to fail.
//!
//! A spare has a superblock with a number of its own, whose role is "spare"; nothing else on it means anything. It is
//! told of every record, so that all devices say the same of the array; one that does not take it is a spare no more.
//! Spares need no number of events to be believed (md: `super_1_validate`), as there is nothing on them that could be
//! stale.

use std::rc::Rc;

use device::{Device, DeviceError, Request};
use futures_util::future::join_all;
use std::ops::Range;
use units::Bytes;

use crate::array::Array;
use crate::format::written;
use crate::integrity::area_end;
use crate::md::{Features, MemberRole, SUPERBLOCK_AT, Superblock, Uuid};
use crate::timeout::{TIME_LIMIT, within};
use crate::upkeep::Newcomer;

/// A device that waits, and its superblock.
pub(crate) struct Spare<D> {
    pub device: Rc<D>,
    pub superblock: Superblock,
}

impl<D: Device> Array<D> {
    /// What its spares are called.
    pub fn spares(&self) -> Vec<String> {
        self.spares.borrow().iter().map(|spare| spare.device.shape().name.clone()).collect()
    }

    /// A number in the table of roles that nobody has: one never used, or else that of a device that has failed, which
    /// is stale by its events.
    pub(crate) fn free_number(&self, roles: &[u16]) -> Option<usize> {
        let spares = self.spares.borrow();
        let held = |number: usize| {
            let spare = spares.iter().any(|spare| spare.superblock.number as usize == number);
            spare || self.promised.borrow().contains(&number)
        };
        let of = |wanted: MemberRole| (0..roles.len()).find(|n| roles[*n] == wanted.number() && !held(*n));
        of(MemberRole::Spare).or_else(|| of(MemberRole::Faulty))
    }

    /// Whether a number in the table of roles is that of a member that is gone, and nobody else's since.
    pub(crate) fn is_own_number(&self, number: usize, member: usize) -> bool {
        let held = self.spares.borrow().iter().any(|spare| spare.superblock.number as usize == number);
        let role = self.state.as_ref().and_then(|state| state.sibling()?.roles.get(number).copied());
        let role = role.map(MemberRole::from_number);
        let member = MemberRole::Active(member as u16);
        !held && !self.promised.borrow().contains(&number) && (role == Some(MemberRole::Faulty) || role == Some(member))
    }

    /// Refuses a device on which a member's data do not fit, or which would not take requests as small as the array
    /// does.
    pub(crate) fn check_room(&self, device: &D, data_offset: Bytes, needed: Bytes) -> Result<(), DeviceError> {
        let (size, block) = (device.shape().size, device.shape().logical_block);
        if block > self.block() || !data_offset.is_multiple_of(block) {
            return Err(DeviceError::Misaligned { offset: data_offset, length: self.block(), block });
        }
        match data_offset.checked_add(needed) {
            Some(end) if end <= size => Ok(()),
            _ => Err(DeviceError::OutOfRange { offset: data_offset, length: needed, size }),
        }
    }

    /// Refuses a device on which a member's data do not fit, or their checksums, if the array keeps any.
    pub(crate) fn check_member_room(&self, member: usize, device: &D, data_offset: Bytes) -> Result<(), DeviceError> {
        let used = self.geometry.used_of(member);
        let needed = match self.has_checksums() {
            true => area_end(device, data_offset, used) - data_offset,
            false => used,
        };
        self.check_room(device, data_offset, needed)?;
        self.check_areas(member, device, data_offset, used)
    }

    /// Makes a device a spare of the array.
    pub async fn add_spare(&self, device: D, identity: Uuid) -> Result<(), DeviceError> {
        self.add_flagged_spare(device, identity, 0).await
    }

    /// As [`Array::add_spare`], of a device that keeps these [flags](Superblock::member_flags) when it becomes a
    /// member.
    pub async fn add_flagged_spare(&self, device: D, identity: Uuid, flags: u8) -> Result<(), DeviceError> {
        let Some(state) = &self.state else { return Err(DeviceError::Unsupported) };
        if self.geometry.level().losses_survived(self.members.len()) == 0 {
            return Err(DeviceError::Unsupported);
        }
        let _one = state.turn().await;
        let sibling = state.sibling().ok_or(DeviceError::Gone)?;
        let layout = self.member_layout().ok_or(DeviceError::Gone)?;
        self.check_room(&device, layout.data_offset, layout.used)?;
        let number = self.free_number(&sibling.roles).ok_or(DeviceError::NoSpace)?;
        let data = sibling.data_offset..device.shape().size;
        self.check_areas(0, &device, data.start, layout.used)?;
        let superblock = Superblock { member_flags: flags, ..sibling.of_newcomer(number, identity, data) };
        self.spares.borrow_mut().push(Rc::new(Spare { device: Rc::new(device), superblock }));
        self.record(|superblock| superblock.roles[number] = MemberRole::Spare.number()).await?;
        let taken = self.spares.borrow().iter().any(|spare| spare.superblock.number as usize == number);
        if taken { Ok(()) } else { Err(DeviceError::Gone) }
    }

    /// Tells the spares what the members are about to be told. The caller holds the state's turn.
    pub(crate) async fn tell_spares(&self, newest: &Superblock) {
        let spares = self.spares.take();
        let tell = |spare: Rc<Spare<D>>| async move {
            let superblock = Superblock {
                number: spare.superblock.number,
                member: spare.superblock.member,
                data_offset: spare.superblock.data_offset,
                data_size: spare.superblock.data_size,
                features: newest.features.without(Features::RECOVERY).without(Features::BAD_BLOCKS),
                recovery: 0,
                corrected_reads: 0,
                member_flags: spare.superblock.member_flags,
                ..newest.clone()
            };
            let bytes = written(&superblock, spare.device.shape().logical_block).freeze();
            let request = Request::write(SUPERBLOCK_AT, bytes).with_fua();
            let told = within(&self.runtime, TIME_LIMIT, &*spare.device, request).await.result;
            told.is_ok().then(|| Rc::new(Spare { device: Rc::clone(&spare.device), superblock }))
        };
        // Kept meanwhile, so that nobody takes their numbers.
        self.spares.borrow_mut().extend(spares.iter().cloned());
        let told = join_all(spares.into_iter().map(tell)).await;
        *self.spares.borrow_mut() = told.into_iter().flatten().collect();
    }

    /// Fills the place of a failed member on a spare; `None` if there is none with room for it: the array may have
    /// grown since it came.
    pub async fn rebuild_on_spare(&self, member: usize) -> Option<Result<Vec<Range<Bytes>>, DeviceError>> {
        let spare = {
            // Not while the spares are told something: one that is taken must not be among them afterwards.
            let _one = self.state.as_ref()?.turn().await;
            let mut spares = self.spares.borrow_mut();
            let fits = |spare: &Rc<Spare<D>>| {
                self.check_member_room(member, &spare.device, spare.superblock.data_offset).is_ok()
            };
            let last = spares.iter().rposition(fits)?;
            spares.remove(last)
        };
        Some(self.fill(member, Newcomer::known(Rc::clone(&spare.device), &spare.superblock)).await)
    }
}
