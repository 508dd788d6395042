//! Replacing a member that still serves: its twin is filled while it goes on, and takes its place when they are equal.
//!
//! The array has its full redundancy all the time, unlike with a rebuild, and a sector that the old member cannot give is computed from the
//! others. What is written before the mark goes to both; what lies behind it is copied later. On the members it is md's way (`hot
//! replace`, since Linux 3.3): the twin has the same role as the member and the feature `REPLACEMENT`, and a recovery offset that
//! says how far it is. When it is whole, one record calls the old one failed and the twin the member, between two writes
//! ([`Gate`](crate::gate)): the logs that lie on a member must not be split between two devices.
//!
//! A twin that fails is dropped, and the members say so before the write that found out is acknowledged. If the member fails while it has a twin,
//! the twin is dropped too: a rebuild onto the same device begins anew.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use device::{Buffer, Data, Device, DeviceError, Request};
use units::Bytes;

use crate::array::Array;
use crate::bad::joined;
use crate::format::{format, written};
use crate::geometry::Role;
use crate::md::{Features, MemberRole, Resync, SUPERBLOCK_AT, Superblock, Uuid};
use crate::member::{MemberState, within};

/// The device that is to replace a member.
pub(crate) struct Twin<D> {
    pub device: Rc<D>,
    pub data_offset: Bytes,
    /// Up to here it holds what the member holds.
    upto: Cell<Bytes>,
    superblock: RefCell<Superblock>,
    /// What could be neither read nor computed.
    bad: RefCell<Vec<Range<Bytes>>>,
    lost: Cell<bool>,
}

impl<D: Device> Twin<D> {
    /// A device with this superblock, filled up to there.
    pub fn new(device: Rc<D>, superblock: Superblock, upto: Bytes) -> Twin<D> {
        // Whole, but not yet in its place: copied once more, as it may lack what was written since.
        let upto = if superblock.features.has(Features::RECOVERY) { upto } else { Bytes::ZERO };
        let superblock = Superblock { features: superblock.features.with(Features::RECOVERY), ..superblock };
        Twin {
            device,
            data_offset: superblock.data_offset,
            upto: Cell::new(upto),
            superblock: RefCell::new(superblock),
            bad: RefCell::default(),
            lost: Cell::new(false),
        }
    }

    /// Whether what is written there must reach it. A range lies before the mark or behind it, as both are of whole units.
    pub fn takes_writes(&self, range: &Range<Bytes>) -> bool {
        let takes = !self.lost.get() && range.start < self.upto.get();
        assert!(!takes || range.end <= self.upto.get(), "a write lies within one unit");
        takes
    }

    /// Nothing of it counts as copied.
    pub fn begin_anew(&self) {
        self.upto.set(Bytes::ZERO);
        let mut superblock = self.superblock.borrow_mut();
        superblock.features = superblock.features.with(Features::RECOVERY);
        superblock.recovery = 0;
    }

    pub fn lose(&self) {
        self.lost.set(true);
    }
    pub fn is_lost(&self) -> bool {
        self.lost.get()
    }
    pub fn number(&self) -> usize {
        self.superblock.borrow().number as usize
    }
    /// What could be neither read nor computed, in order of addresses.
    pub fn bad(&self) -> Vec<Range<Bytes>> {
        joined(self.bad.borrow().clone())
    }
}

impl<D: Device> Array<D> {
    /// The member that is being replaced, and by what.
    pub fn replacing(&self) -> Option<(usize, String)> {
        let twin = |member: usize| Some((member, self.members[member].twin()?.device.shape().name.clone()));
        (0..self.members.len()).find_map(twin)
    }

    /// Fills `device`, whose data begin at `data_offset`, with what a member holds, and puts it in the member's place. Gives the ranges
    /// of the array that could be neither read nor computed. If whoever [watches](Array::watch) ends it, the member stays, and
    /// [`resume_replace`](Array::resume_replace) goes on.
    pub async fn replace(
        &self,
        member: usize,
        device: D,
        data_offset: Bytes,
        identity: Uuid,
    ) -> Result<Vec<Range<Bytes>>, DeviceError> {
        let state = self.state.as_ref().ok_or(DeviceError::Unsupported)?;
        self.check_room(&device, data_offset, self.geometry.used_of(member))?;
        let whole = self.members[member].state() == MemberState::Active && self.members[member].twin().is_none();
        // Checksums lie on the member, too, and would have to be kept on both.
        if self.has_checksums() || !whole || self.geometry.level().losses_survived(self.members.len()) == 0 {
            return Err(DeviceError::Unsupported);
        }
        {
            let _one = state.turn().await;
            let sibling = state.sibling().ok_or(DeviceError::Gone)?;
            let number = self.free_number(&sibling.roles).ok_or(DeviceError::NoSpace)?;
            let superblock = Superblock {
                features: sibling
                    .features
                    .without(Features::BAD_BLOCKS)
                    .with(Features::RECOVERY)
                    .with(Features::REPLACEMENT),
                data_offset,
                data_size: device.shape().size - data_offset,
                recovery: 0,
                number: number as u32,
                corrected_reads: 0,
                member: identity,
                member_flags: 0,
                ..sibling
            };
            // A log and a bitmap of its own, lest it become the member before they are copied.
            format(std::slice::from_ref(&device), &[Superblock { resync: Resync::Clean, ..superblock.clone() }])
                .await?;
            self.members[member].set_twin(Some(Rc::new(Twin::new(Rc::new(device), superblock, Bytes::ZERO))));
            let role = MemberRole::Active(member as u16).number();
            self.record(|superblock| superblock.roles[number] = role).await?;
        }
        if self.members[member].twin().is_none() {
            return Err(DeviceError::Gone);
        }
        self.resume_replace(member).await
    }

    /// Goes on with a replacement where its mark is. Nothing happens to a member without a twin.
    pub async fn resume_replace(&self, member: usize) -> Result<Vec<Range<Bytes>>, DeviceError> {
        let this = &self.members[member];
        let Some(twin) = this.twin() else { return Ok(Vec::new()) };
        let mut lost = Vec::new();
        let fill = async |unit: Range<Bytes>| Ok(self.copy_to_twin(member, &twin, unit).await);
        let pass = |upto: Bytes, without: Vec<Range<Bytes>>| {
            if self.has_lost(member, &twin) {
                return Err(DeviceError::Gone);
            }
            lost.extend(without);
            twin.upto.set(upto);
            Ok(())
        };
        let record = async |upto: Bytes| {
            self.flush_members(0).await?;
            self.record_copied(&twin, upto).await
        };
        match self.along_member(member, twin.upto.get(), fill, pass, record).await {
            Ok(true) => self.take_over(member, &twin).await?,
            Ok(false) => {}
            Err(error) => {
                // Whichever of the two was lost: the members must say so.
                self.settle().await?;
                return Err(error);
            }
        }
        Ok(lost)
    }

    fn has_lost(&self, member: usize, twin: &Rc<Twin<D>>) -> bool {
        if self.members[member].state() == MemberState::Failed {
            twin.lose();
        }
        twin.is_lost()
    }

    /// Copies a range of one unit, or computes what cannot be read. Gives what of the array is in neither.
    async fn copy_to_twin(&self, member: usize, twin: &Twin<D>, range: Range<Bytes>) -> Vec<Range<Bytes>> {
        if let Some(bytes) = self.bytes_of(member, range.clone()).await {
            self.write_twin(member, twin, range.start, bytes.freeze()).await;
            return Vec::new();
        }
        let mut lost = Vec::new();
        for block in self.blocks(range) {
            if let Some(bytes) = self.bytes_of(member, block.clone()).await {
                self.write_twin(member, twin, block.start, bytes.freeze()).await;
                continue;
            }
            if let Role::Data(address) = self.geometry.role(member, block.start) {
                lost.push(address..address + (block.end - block.start));
            }
            twin.bad.borrow_mut().push(block);
        }
        lost
    }

    async fn bytes_of(&self, member: usize, range: Range<Bytes>) -> Option<Buffer> {
        let this = &self.members[member];
        if this.is_current(&range) {
            let (buffer, result) = this.read(range.start, Buffer::zeroed(range.end - range.start), 0).await;
            match result {
                Ok(()) => return Some(buffer),
                Err(error) => self.judge(member, &error),
            }
        }
        self.contents_of(member, range).await
    }

    async fn write_twin(&self, member: usize, twin: &Twin<D>, at: Bytes, data: Data) {
        let request = Request::write(twin.data_offset + at, data);
        let limit = self.members[member].limit();
        if within(&self.runtime, limit, &*twin.device, request).await.result.is_err() {
            twin.lose();
        }
    }

    /// Tells the twins what the members are about to be told. The caller holds the state's turn.
    pub(crate) async fn tell_twins(&self, newest: &Superblock) {
        for member in &self.members {
            let Some(twin) = member.twin() else { continue };
            let superblock = {
                let mut superblock = twin.superblock.borrow_mut();
                superblock.events = newest.events;
                superblock.resync = newest.resync;
                superblock.roles.clone_from(&newest.roles);
                superblock.clone()
            };
            let bytes = written(&superblock, twin.device.shape().logical_block).freeze();
            let request = Request::write(SUPERBLOCK_AT, bytes).with_fua();
            if within(&self.runtime, member.limit(), &*twin.device, request).await.result.is_err() {
                twin.lose();
            }
        }
    }

    /// Takes lost twins away, and gives their numbers.
    pub(crate) fn drop_lost_twins(&self) -> Vec<usize> {
        let lost = |index: usize| {
            let member = &self.members[index];
            let twin = member.twin()?;
            if !self.has_lost(index, &twin) {
                return None;
            }
            member.set_twin(None);
            Some(twin.number())
        };
        (0..self.members.len()).filter_map(lost).collect()
    }

    /// Whether a twin is lost, and the members do not say so yet.
    pub(crate) fn has_lost_twin(&self) -> bool {
        (0..self.members.len()).any(|m| self.members[m].twin().is_some_and(|twin| self.has_lost(m, &twin)))
    }

    /// Records how far the twin is. What lies before the mark must be durable on it.
    async fn record_copied(&self, twin: &Twin<D>, upto: Bytes) -> Result<(), DeviceError> {
        let state = self.state.as_ref().expect("a twin has a superblock");
        let _one = state.turn().await;
        twin.superblock.borrow_mut().recovery = upto / Bytes::SECTOR;
        self.record(|_| {}).await
    }

    /// The twin becomes the member.
    async fn take_over(&self, member: usize, twin: &Rc<Twin<D>>) -> Result<(), DeviceError> {
        let state = self.state.as_ref().expect("a twin has a superblock");
        let _quiet = self.gate.close().await;
        self.flush_members(0).await?;
        if self.has_lost(member, twin) {
            self.settle().await?;
            return Err(DeviceError::Gone);
        }
        let _one = state.turn().await;
        // Whole: if the next record is met by a power cut, it is the member all the same.
        {
            let mut superblock = twin.superblock.borrow_mut();
            superblock.features = superblock.features.without(Features::RECOVERY);
            superblock.recovery = 0;
        }
        self.record(|_| {}).await?;
        if self.has_lost(member, twin) {
            return Err(DeviceError::Gone);
        }
        let this = &self.members[member];
        let before = this.take_over(twin);
        let told = match self.copy_bitmap(member).await {
            Ok(()) => self.reset_log(member, !self.is_resync_due()).await,
            error => error,
        };
        if let Err(error) = told {
            // The old member is as good as before.
            this.restore(before);
            twin.lose();
            this.set_twin(Some(Rc::clone(twin)));
            self.record(|_| {}).await?;
            return Err(error);
        }
        let old = {
            let mut superblocks = state.superblocks.borrow_mut();
            let sibling = superblocks[member].clone().ok_or(DeviceError::Gone)?;
            let own = twin.superblock.borrow();
            superblocks[member] = Some(Superblock {
                features: sibling.features.without(Features::BAD_BLOCKS).without(Features::RECOVERY),
                data_offset: own.data_offset,
                data_size: own.data_size,
                recovery: 0,
                number: own.number,
                corrected_reads: 0,
                member: own.member,
                member_flags: own.member_flags,
                ..sibling
            });
            sibling.number as usize
        };
        self.record(|superblock| superblock.roles[old] = MemberRole::Faulty.number()).await
    }
}
