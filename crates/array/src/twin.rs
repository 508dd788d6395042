//! Replacing a member that still serves: its twin is filled while it goes on, and takes its place when they are equal.
//!
//! The array has its full redundancy all the time, unlike with a rebuild, and a sector that the old member cannot give
//! is computed from the others. What is written before the mark goes to both; what lies behind it is copied later. On
//! the members it is md's way (`hot replace`, since Linux 3.3): the twin has the same role as the member and the
//! feature `REPLACEMENT`, and a recovery offset that says how far it is. When it is whole, one record calls the old one
//! failed and the twin the member, between two writes ([`Gate`](runtime::Gate)): the logs that lie on a member must not
//! be split between two devices.
//!
//! Where members keep checksums, the twin keeps its own from the first byte on: it is written to as the member that it
//! will be, layer of [`integrity`](crate::integrity) and all. What is copied was held against the old member's sums
//! when it was read, and what does not fit is computed from the others; the twin's sums of what lies before a mark are
//! on it before the mark is, and all of them before it is called the member. The old one's sums are used no more from
//! that moment on: reads that began before may still ask for some, and nothing may reach the place where the old device
//! had them, as there is another device now.
//!
//! A twin that fails is dropped, and the members say so before the write that found out is acknowledged. If the member
//! fails while it has a twin, the twin is dropped too: a rebuild onto the same device begins anew.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use device::{Buffer, Data, Device, DeviceError, Request};
use runtime::Runtime;
use units::Bytes;

use crate::array::Array;
use crate::format::format;
use crate::geometry::Role;
use crate::md::{Features, MemberRole, Resync, Superblock, Uuid};
use crate::member::{Member, MemberState, Patient, Place};
use crate::pace::Walk;
use crate::upkeep::Promise;

/// The device that is to replace a member.
pub(crate) struct Twin<D> {
    /// The device as the member that it is to become: with what it holds, what of that is bad, and its sums.
    own: Member<D>,
    /// Up to here it holds what the member holds.
    upto: Cell<Bytes>,
    superblock: RefCell<Superblock>,
    /// Why it is used no more, if it is not.
    lost: RefCell<Option<DeviceError>>,
}

impl<D: Device> Twin<D> {
    /// A device with this superblock, filled up to there.
    pub fn new(runtime: &Runtime, device: D, superblock: Superblock, upto: Bytes) -> Twin<D> {
        // Whole, but not yet in its place: copied once more, as it may lack what was written since.
        let upto = if superblock.features.has(Features::RECOVERY) { upto } else { Bytes::ZERO };
        let features = superblock.features.with(Features::RECOVERY).without(Features::BY_BITMAP);
        let superblock = Superblock { features, ..superblock };
        Twin {
            own: Member::new(runtime, Some((device, superblock.data_offset)), &Rc::default()),
            upto: Cell::new(upto),
            superblock: RefCell::new(superblock),
            lost: RefCell::default(),
        }
    }

    /// Whether what is written there must reach it. A range lies before the mark or behind it, as both are of whole
    /// units.
    pub fn takes_writes(&self, range: &Range<Bytes>) -> bool {
        let takes = !self.is_lost() && range.start < self.upto.get();
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

    /// The device as the member that it is to become.
    pub fn own(&self) -> &Member<D> {
        &self.own
    }

    /// Writes to its data area. A twin that fails is lost, which is nobody else's trouble.
    pub async fn write(&self, at: Bytes, data: Data, fua: bool, id: u64) {
        if let Err(error) = self.own.write(at, data, fua, id).await {
            self.lose(&error);
        }
    }

    /// Makes everything on it durable.
    pub async fn flush(&self, id: u64) {
        if let Err(error) = self.own.send(Request::flush().with_id(id)).await.result {
            self.lose(&error);
        }
    }

    /// It is used no more, because of an error; the first one is kept.
    pub fn lose(&self, error: &DeviceError) {
        self.lost.borrow_mut().get_or_insert_with(|| error.clone());
    }
    pub fn is_lost(&self) -> bool {
        self.lost.borrow().is_some()
    }
    /// The error that ended its use.
    fn cause(&self) -> DeviceError {
        self.lost.borrow().clone().unwrap_or(DeviceError::Gone)
    }
    pub fn number(&self) -> usize {
        self.superblock.borrow().number as usize
    }
}

impl<D: Device> Array<D> {
    /// The member that is being replaced, and by what.
    pub fn replacing(&self) -> Option<(usize, String)> {
        let twin = |member: usize| Some((member, self.members[member].twin()?.own.device()?.shape().name.clone()));
        (0..self.members.len()).find_map(twin)
    }

    /// Fills `device`, whose data begin at `data_offset`, with what a member holds, and puts it in the member's place.
    /// Gives the ranges of the array that could be neither read nor computed. If whoever [watches](Array::watch) ends
    /// it, the member stays, and [`resume_replace`](Array::resume_replace) goes on.
    pub async fn replace(
        &self,
        member: usize,
        device: D,
        data_offset: Bytes,
        identity: Uuid,
    ) -> Result<Vec<Range<Bytes>>, DeviceError> {
        let state = self.state.as_ref().ok_or(DeviceError::Unsupported)?;
        let used = self.geometry.used_of(member);
        self.check_member_room(member, &device, data_offset)?;
        self.check_replaceable(member)?;
        let sums = self.has_checksums();
        let sibling = state.sibling().ok_or(DeviceError::Gone)?;
        let number = self.free_number(&sibling.roles).ok_or(DeviceError::NoSpace)?;
        let _promise = Promise::new(&self.promised, number);
        // Behind the data are their checksums.
        let end = if sums { data_offset + used } else { device.shape().size };
        let of_twin = |sibling: Superblock| {
            let own = sibling.of_newcomer(number, identity, data_offset..end);
            Superblock { features: own.features.with(Features::RECOVERY).with(Features::REPLACEMENT), ..own }
        };
        let array = sibling.array;
        let first = of_twin(sibling);
        let twin = Rc::new(Twin::new(&self.runtime, device, first.clone(), Bytes::ZERO));
        twin.own.set_limit(self.members[member].limit());
        // A log and a bitmap of its own, lest it become the member before they are copied. It takes its time, and
        // nobody waits for it: no member calls this number active yet.
        let new = Patient { member: &twin.own, device: twin.own.device().expect("it was given above") };
        format(&[new], &[Superblock { resync: Resync::Clean, ..first }]).await?;
        if sums {
            twin.own.make_checksums(array, identity, used).await?;
        }
        {
            let _one = state.turn().await;
            self.make_even().await?;
            self.check_replaceable(member)?;
            *twin.superblock.borrow_mut() = of_twin(state.sibling().ok_or(DeviceError::Gone)?);
            self.members[member].set_twin(Some(Rc::clone(&twin)));
            let role = MemberRole::Active(member as u16).number();
            state.superblocks.borrow_mut().iter_mut().flatten().for_each(|it| it.roles[number] = role);
            // It can be gone on with from here on, even if whoever asked for this is dropped before the members say so.
            state.have_begun();
            self.record(|_| {}).await?;
        }
        if self.members[member].twin().is_none() {
            return Err(twin.cause());
        }
        self.resume_replace(member).await
    }

    /// Refuses to replace a member that is not whole, or is being replaced, or has nobody who could stand in for it.
    fn check_replaceable(&self, member: usize) -> Result<(), DeviceError> {
        let this = &self.members[member];
        let whole = this.state() == MemberState::Active && this.twin().is_none();
        let redundant = self.geometry.level().losses_survived(self.members.len()) > 0;
        if whole && redundant { Ok(()) } else { Err(DeviceError::Unsupported) }
    }

    /// Calls off a replacement: the device that was to replace a member is used no more, the members say so, and the
    /// member stays. Says whether that was in time: a device that has taken the place by now is the member.
    pub async fn call_off_replacement(&self, member: usize) -> Result<bool, DeviceError> {
        let this = &self.members[member];
        let Some(twin) = this.twin() else { return Ok(false) };
        let before = this.device().map(|device| device.shape().name.clone());
        twin.lose(&DeviceError::Gone);
        self.settle().await?;
        // Whoever was putting it into the place comes to the end of that first, or finds it lost.
        let _one = match &self.state {
            Some(state) => Some(state.turn().await),
            None => None,
        };
        Ok(this.twin().is_none() && this.device().map(|device| device.shape().name.clone()) == before)
    }

    /// Goes on with a replacement where its mark is. Nothing happens to a member without a twin.
    pub async fn resume_replace(&self, member: usize) -> Result<Vec<Range<Bytes>>, DeviceError> {
        let this = &self.members[member];
        let Some(twin) = this.twin() else { return Ok(Vec::new()) };
        self.claim().await?;
        let mut lost = Vec::new();
        let fill = async |unit: Range<Bytes>, _: &Walk| Ok(self.copy_to_twin(member, &twin, unit).await);
        let pass = |upto: Bytes, without: Vec<Range<Bytes>>| {
            if self.has_lost(member, &twin) {
                return Err(twin.cause());
            }
            lost.extend(without);
            twin.upto.set(upto);
            Ok(())
        };
        let record = async |upto: Bytes| {
            self.secure_twin(&twin).await?;
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
        let this = &self.members[member];
        if this.state() == MemberState::Failed {
            twin.lose(&this.cause().unwrap_or(DeviceError::Gone));
        }
        twin.is_lost()
    }

    /// Copies a range of one unit, or computes what cannot be read. Gives what of the array is in neither.
    pub(crate) async fn copy_to_twin(&self, member: usize, twin: &Twin<D>, range: Range<Bytes>) -> Vec<Range<Bytes>> {
        if let Some(bytes) = self.bytes_of(member, range.clone()).await {
            twin.write(range.start, bytes.freeze(), false, 0).await;
            return Vec::new();
        }
        let mut lost = Vec::new();
        for block in self.blocks(range) {
            if let Some(bytes) = self.bytes_of(member, block.clone()).await {
                twin.write(block.start, bytes.freeze(), false, 0).await;
                continue;
            }
            if let Role::Data(address) = self.geometry.role(member, block.start) {
                lost.push(address..address + (block.end - block.start));
            }
            twin.own.mark_bad(block);
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
            if let Err(error) = twin.own.tell(&superblock).await {
                twin.lose(&error);
            }
        }
    }

    /// Takes lost twins away; the members are to say so. The caller holds the state's turn.
    pub(crate) fn drop_lost_twins(&self) {
        let lost = |index: usize| {
            let member = &self.members[index];
            let twin = member.twin()?;
            if !self.has_lost(index, &twin) {
                return None;
            }
            member.set_twin(None);
            Some(twin.number())
        };
        let lost: Vec<usize> = (0..self.members.len()).filter_map(lost).collect();
        if let Some(state) = self.state.as_ref().filter(|_| !lost.is_empty()) {
            // Nothing else says so any more, and whoever asked for this may be dropped before the members do.
            for superblock in state.superblocks.borrow_mut().iter_mut().flatten() {
                lost.iter().for_each(|number| superblock.roles[*number] = MemberRole::Faulty.number());
            }
            state.have_begun();
        }
    }

    /// Whether a twin is lost, and the members do not say so yet.
    pub(crate) fn has_lost_twin(&self) -> bool {
        (0..self.members.len()).any(|m| self.members[m].twin().is_some_and(|twin| self.has_lost(m, &twin)))
    }

    /// Makes durable what was copied, and then the sums of it.
    async fn secure_twin(&self, twin: &Twin<D>) -> Result<(), DeviceError> {
        let closing = twin.own.begin_closing(true, self.is_resync_due()).await;
        self.flush_members(0).await?;
        if let Some(closing) = closing
            && let Err(error) = twin.own.finish_closing(closing).await
        {
            twin.lose(&error);
        }
        Ok(())
    }

    /// Records how far the twin is. What lies before the mark must be durable on it.
    async fn record_copied(&self, twin: &Twin<D>, upto: Bytes) -> Result<(), DeviceError> {
        let state = self.state.as_ref().expect("a twin has a superblock");
        let _one = state.turn().await;
        // What could not be copied is in no log before it is the member. A restart would not know of it, and copies
        // anew.
        let upto = if twin.own.bad().is_empty() { upto } else { Bytes::ZERO };
        twin.superblock.borrow_mut().recovery = upto / Bytes::SECTOR;
        self.record(|_| {}).await
    }

    /// The twin becomes the member.
    async fn take_over(&self, member: usize, twin: &Rc<Twin<D>>) -> Result<(), DeviceError> {
        let state = self.state.as_ref().expect("a twin has a superblock");
        let _quiet = self.gate.close().await;
        let this = &self.members[member];
        if let (Some(old), Some(new)) = (this.checksums(), twin.own.checksums()) {
            new.inherit(&old, self.is_resync_due());
        }
        self.secure_twin(twin).await?;
        if self.has_lost(member, twin) {
            self.settle().await?;
            return Err(twin.cause());
        }
        let _one = state.turn().await;
        // Whole: if the next record is met by a power cut, it is the member all the same; unless something could not be
        // copied.
        if twin.own.bad().is_empty() {
            let mut superblock = twin.superblock.borrow_mut();
            superblock.features = superblock.features.without(Features::RECOVERY);
            superblock.recovery = 0;
        }
        self.record(|_| {}).await?;
        if self.has_lost(member, twin) {
            return Err(twin.cause());
        }
        // Whoever transfers sums of the old device is waited for, and whoever would begin to waits until it is known
        // which device counts.
        let sums = this.checksums();
        let retiring = match &sums {
            Some(sums) => Some(sums.hold().await),
            None => None,
        };
        if self.has_lost(member, twin) {
            return Err(twin.cause());
        }
        let trial = Trial { member: this, twin, before: Some(this.take_over(twin)) };
        let told = match self.copy_bitmap(member).await {
            Ok(()) => self.new_log(member, !self.is_resync_due()).await,
            error => error,
        };
        if let Err(error) = told {
            // The old member is as good as before.
            drop(trial);
            // With its sums, which are told of what it is told.
            drop(retiring);
            twin.lose(&error);
            self.record(|_| {}).await?;
            return Err(error);
        }
        {
            let mut superblocks = state.superblocks.borrow_mut();
            let sibling = superblocks[member].clone().ok_or(DeviceError::Gone)?;
            let (own, old) = (twin.superblock.borrow(), sibling.number as usize);
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
            superblocks.iter_mut().flatten().for_each(|it| it.roles[old] = MemberRole::Faulty.number());
        }
        // From here on it is the member, even if whoever asked for this is dropped before the members say so.
        state.have_begun();
        trial.succeed();
        sums.iter().for_each(|sums| sums.retire());
        drop(retiring);
        self.record(|_| {}).await
    }
}

/// The twin in the place of the member, before it has what lies on a member beside its data. If that is not to be, or
/// whoever asked for it is dropped, the member is in its place again, as good as before.
struct Trial<'a, D: Device> {
    member: &'a Member<D>,
    twin: &'a Rc<Twin<D>>,
    before: Option<Place<D>>,
}

impl<D: Device> Trial<'_, D> {
    fn succeed(mut self) {
        self.before = None;
    }
}

impl<D: Device> Drop for Trial<'_, D> {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            self.member.restore(before);
            // What failed meanwhile was the other one.
            self.member.forgive();
            self.member.set_twin(Some(Rc::clone(self.twin)));
        }
    }
}
