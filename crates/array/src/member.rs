//! A member: a device, where its data begin, and how far it can be relied on.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use device::{Buffer, Data, Device, DeviceError, Reply, Request, Shape};
use futures_util::future::join;
use runtime::Runtime;
use units::{Bytes, Duration, Instant};

use crate::bad::joined;
use crate::count::UnderWay;
use crate::format::written;
use crate::integrity::Checksums;
use crate::integrity::area::superblock_sum;
use crate::md::{SUPERBLOCK_AT, Superblock};
use crate::rarely::rarely;
use crate::timeout::{TIME_LIMIT, within};
use crate::twin::Twin;
use crate::unreadable::Unreadable;

/// What a member is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberState {
    /// All of it is current.
    Active,
    /// It is being rebuilt; what lies before this address of its data area is current.
    Rebuilding(Bytes),
    /// Nothing is sent to it.
    Failed,
}

/// What has happened to a member since the array was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemberCounts {
    /// Reads that failed on the medium.
    pub medium_errors: u64,
    /// Ranges that were computed from the others and written again.
    pub rewritten: u64,
    /// Blocks that did not fit their checksum.
    pub corrupt: u64,
}

/// Where a member is.
pub(crate) struct Place<D> {
    device: Option<Rc<D>>,
    data_offset: Bytes,
    bad: Vec<Range<Bytes>>,
    called_bad: bool,
    checksums: Option<Rc<Checksums>>,
    placed: Option<Instant>,
    told: Vec<u32>,
    last: bool,
}

pub(crate) struct Member<D> {
    runtime: Runtime,
    limit: Cell<Duration>,
    device: RefCell<Option<Rc<D>>>,
    data_offset: Cell<Bytes>,
    state: Cell<MemberState>,
    counts: Cell<MemberCounts>,
    /// What it could not give of late.
    unreadable: RefCell<Unreadable>,
    /// Ranges of the data area that could not be rebuilt: reading them must fail, not give what happens to be there.
    bad: RefCell<Vec<Range<Bytes>>>,
    /// What is bad has changed since the member was told.
    bad_untold: Cell<bool>,
    /// Its log may call something bad.
    called_bad: Cell<bool>,
    /// It is read, and believed, only where no other copy is (md: write-mostly).
    last: Cell<bool>,
    /// Reads under way, to spread them over copies.
    reading: Cell<u64>,
    /// The device that is to replace it.
    twin: RefCell<Option<Rc<Twin<D>>>>,
    /// The error that ended its use.
    cause: RefCell<Option<DeviceError>>,
    /// It is filled, and the members are about to say so: a power cut may yet take it back.
    unproven: Cell<bool>,
    /// When its device took another's place, if it did.
    placed: Cell<Option<Instant>>,
    /// Sums of the superblocks that may be on its device: the one that was found or written last, and those whose
    /// writing was given up since.
    told: RefCell<Vec<u32>>,
    /// How often writing one began or ended.
    tellings: Cell<u64>,
    /// Sums of what it holds, if it keeps any.
    checksums: RefCell<Option<Rc<Checksums>>>,
    /// Whether it is [plain](Member::plain), and how many members of its array are not.
    plain: Cell<bool>,
    special: Rc<Cell<usize>>,
}

/// A member's whole device, asked with the member's patience.
pub(crate) struct Patient<'a, D> {
    pub member: &'a Member<D>,
    pub device: Rc<D>,
}

impl<D: Device> Device for Patient<'_, D> {
    fn shape(&self) -> &Shape {
        self.device.shape()
    }
    async fn submit(&self, request: Request) -> Reply {
        self.member.send(request).await
    }
}

impl<D: Device> Member<D> {
    /// A current member: a device and where its data begin. Without one, a failed member. In `special` those are
    /// counted that are not plain.
    pub fn new(runtime: &Runtime, device: Option<(D, Bytes)>, special: &Rc<Cell<usize>>) -> Member<D> {
        let state = if device.is_some() { MemberState::Active } else { MemberState::Failed };
        let (device, data_offset) = device.unzip();
        special.set(special.get() + 1);
        let member = Member {
            runtime: runtime.clone(),
            limit: Cell::new(TIME_LIMIT),
            bad_untold: Cell::new(false),
            called_bad: Cell::new(false),
            device: RefCell::new(device.map(Rc::new)),
            data_offset: Cell::new(data_offset.unwrap_or(Bytes::ZERO)),
            state: Cell::new(state),
            counts: Cell::default(),
            unreadable: RefCell::default(),
            bad: RefCell::default(),
            last: Cell::new(false),
            reading: Cell::new(0),
            twin: RefCell::default(),
            cause: RefCell::default(),
            unproven: Cell::new(false),
            placed: Cell::new(None),
            told: RefCell::default(),
            tellings: Cell::new(0),
            checksums: RefCell::default(),
            plain: Cell::new(false),
            special: Rc::clone(special),
        };
        member.reckon();
        member
    }

    /// Whether it is all current, and keeps nothing beside its data.
    fn is_plain(&self) -> bool {
        let whole = self.state.get() == MemberState::Active && self.bad.borrow().is_empty();
        whole && self.checksums.borrow().is_none() && self.twin.borrow().is_none()
    }

    /// Looks whether it is plain, after anything has changed that decides it.
    fn reckon(&self) {
        let (before, now) = (self.plain.replace(self.is_plain()), self.plain.get());
        if before != now {
            let special = self.special.get();
            self.special.set(if now { special - 1 } else { special + 1 });
        }
    }

    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }
    pub fn device(&self) -> Option<Rc<D>> {
        self.device.borrow().clone()
    }
    pub fn state(&self) -> MemberState {
        self.state.get()
    }
    pub fn set_state(&self, state: MemberState) {
        self.state.set(state);
        self.reckon();
    }
    /// The error that ended its use, if one did.
    pub fn cause(&self) -> Option<DeviceError> {
        self.cause.borrow().clone()
    }
    /// It is used no more, because of an error; the first one is kept.
    ///
    /// What hangs is sent requests until the first of them has taken too long. The others take too long after it,
    /// perhaps when another device has its place, and are none of that one's.
    pub fn lose(&self, error: &DeviceError) {
        if let (DeviceError::TimedOut(limit), Some(placed)) = (error, self.placed.get())
            && self.runtime.now() < placed + *limit
        {
            return;
        }
        if self.state.replace(MemberState::Failed) != MemberState::Failed {
            *self.cause.borrow_mut() = Some(error.clone());
            self.reckon();
        }
    }
    /// The error that ended its use, if one did, was another device's, and so are those that are still to come.
    pub fn forgive(&self) {
        self.placed.set(Some(self.runtime.now()));
        if self.cause.take().is_some() {
            self.set_state(MemberState::Active);
        }
    }
    pub fn counts(&self) -> MemberCounts {
        self.counts.get()
    }
    pub fn data_offset(&self) -> Bytes {
        self.data_offset.get()
    }
    pub fn checksums(&self) -> Option<Rc<Checksums>> {
        self.checksums.borrow().clone()
    }
    pub fn set_checksums(&self, checksums: Option<Rc<Checksums>>) {
        *self.checksums.borrow_mut() = checksums;
        self.reckon();
    }
    pub fn count_corrupt(&self, blocks: u64) {
        let counts = self.counts.get();
        self.counts.set(MemberCounts { corrupt: counts.corrupt + blocks, ..counts });
    }
    /// Takes note of what it could not give and has been written again; gives how often that was of late.
    pub fn note_unreadable(&self, range: Range<Bytes>) -> u64 {
        self.unreadable.borrow_mut().note(range, self.runtime.now())
    }
    /// Whether it could not give something of late.
    pub fn is_suspect(&self) -> bool {
        self.unreadable.borrow_mut().is_suspect(self.runtime.now())
    }
    pub fn reading(&self) -> u64 {
        self.reading.get()
    }
    pub fn is_last(&self) -> bool {
        self.last.get()
    }
    pub fn set_last(&self, last: bool) {
        self.last.set(last);
    }

    /// Puts another device in its place, of which nothing is current.
    pub fn replace(&self, device: Rc<D>, data_offset: Bytes) {
        assert!(self.state.get() == MemberState::Failed, "only a failed member is replaced");
        *self.device.borrow_mut() = Some(device);
        self.data_offset.set(data_offset);
        self.bad.borrow_mut().clear();
        self.called_bad.set(false);
        self.told.borrow_mut().clear();
        self.tellings.set(self.tellings.get() + 1);
        self.unreadable.take();
        *self.cause.borrow_mut() = None;
        self.placed.set(Some(self.runtime.now()));
        self.unproven.set(false);
        self.last.set(false);
        self.set_state(MemberState::Rebuilding(Bytes::ZERO));
    }

    /// Whether it is all there, and will be after a power cut.
    pub fn is_whole(&self) -> bool {
        self.state() == MemberState::Active && !self.unproven.get()
    }
    /// Whether the members have yet to say that it is filled.
    pub fn set_unproven(&self, unproven: bool) {
        self.unproven.set(unproven);
    }

    /// Lets go of the device of a failed member. What was sent to it before holds it until it is answered.
    pub fn let_go(&self) {
        assert!(self.state.get() == MemberState::Failed, "what is in use is kept");
        self.device.take();
    }

    pub fn twin(&self) -> Option<Rc<Twin<D>>> {
        self.twin.borrow().clone()
    }
    pub fn set_twin(&self, twin: Option<Rc<Twin<D>>>) {
        twin.iter().for_each(|twin| twin.own().set_limit(self.limit()));
        *self.twin.borrow_mut() = twin;
        self.reckon();
    }

    /// The twin becomes the device. Gives what was there before.
    pub fn take_over(&self, twin: &Twin<D>) -> Place<D> {
        let own = twin.own();
        let (device, data_offset) = (own.device(), own.data_offset());
        let placed = Some(self.runtime.now());
        let told = own.told.borrow().clone();
        let (bad, called_bad) = (own.bad(), own.called_bad.get());
        let place =
            Place { device, data_offset, bad, called_bad, checksums: own.checksums(), placed, told, last: false };
        self.set_twin(None);
        self.unreadable.take();
        self.restore(place)
    }

    /// Puts it back where it was; gives where it has been.
    pub fn restore(&self, place: Place<D>) -> Place<D> {
        self.bad_untold.set(!place.bad.is_empty() || place.called_bad);
        // What is being read of the one's superblock is not held against what the other was told.
        self.tellings.set(self.tellings.get() + 1);
        let before = Place {
            device: self.device.replace(place.device),
            data_offset: self.data_offset.replace(place.data_offset),
            bad: self.bad.replace(place.bad),
            called_bad: self.called_bad.replace(place.called_bad),
            checksums: self.checksums.replace(place.checksums),
            placed: self.placed.replace(place.placed),
            told: self.told.replace(place.told),
            last: self.last.replace(place.last),
        };
        self.reckon();
        before
    }

    /// Whether what lies in the range can be read.
    #[inline]
    pub fn is_current(&self, range: &Range<Bytes>) -> bool {
        self.takes_writes(range) && !self.is_bad(range)
    }

    /// Its device, if all of it is current, and nothing but the device has to know what is written to it.
    ///
    /// Four fields decide it, apart from each other in memory, and a small write asks it four times: so it is kept, and
    /// not found out.
    #[inline]
    pub fn plain(&self) -> Option<Rc<D>> {
        debug_assert_eq!(self.plain.get(), self.is_plain(), "whatever decides it is changed together with it");
        if self.plain.get() { self.device() } else { None }
    }

    /// Whether any of it could not be rebuilt.
    #[inline]
    pub fn is_bad(&self, range: &Range<Bytes>) -> bool {
        let bad = self.bad.borrow();
        !bad.is_empty() && bad.iter().any(|bad| bad.start < range.end && range.start < bad.end)
    }

    /// Whether what is written to the range must reach it. A rebuild picks up what lies beyond its mark later.
    #[inline]
    pub fn takes_writes(&self, range: &Range<Bytes>) -> bool {
        match self.state.get() {
            MemberState::Active => true,
            MemberState::Rebuilding(upto) => range.end <= upto,
            MemberState::Failed => false,
        }
    }

    pub fn mark_bad(&self, range: Range<Bytes>) {
        self.bad.borrow_mut().push(range);
        self.bad_untold.set(true);
        self.reckon();
    }

    /// What is marked bad, in order of addresses.
    pub fn bad(&self) -> Vec<Range<Bytes>> {
        joined(self.bad.borrow().clone())
    }

    /// What the member itself says is bad.
    pub fn recall_bad(&self, ranges: Vec<Range<Bytes>>) {
        self.called_bad.set(!ranges.is_empty());
        *self.bad.borrow_mut() = ranges;
        self.bad_untold.set(false);
        self.reckon();
    }

    /// Whether anything of it is bad, or would be after a power cut, as its log has not been told yet that it was
    /// written.
    pub fn has_bad(&self) -> bool {
        self.called_bad.get() || !self.bad.borrow().is_empty()
    }

    /// Whether its log may call something bad.
    pub fn is_called_bad(&self) -> bool {
        self.called_bad.get()
    }
    pub fn set_called_bad(&self, something: bool) {
        self.called_bad.set(something);
    }

    /// Whether the member has to be told what is bad.
    pub fn is_bad_untold(&self) -> bool {
        self.bad_untold.get()
    }
    pub fn set_bad_untold(&self, untold: bool) {
        self.bad_untold.set(untold);
    }

    pub fn limit(&self) -> Duration {
        self.limit.get()
    }
    pub fn set_limit(&self, limit: Duration) {
        self.limit.set(limit);
        self.twin().iter().for_each(|twin| twin.own().set_limit(limit));
    }

    /// Whether this device has its place.
    pub fn is_on(&self, device: &Rc<D>) -> bool {
        self.device.borrow().as_ref().is_some_and(|own| Rc::ptr_eq(own, device))
    }

    /// Sends a request to the device, wherever it lies on it; nothing to one that has failed, or everyone would wait
    /// for it in turn.
    pub async fn send(&self, request: Request) -> Reply {
        let Some(device) = self.device().filter(|_| self.state() != MemberState::Failed) else {
            return request.refuse(DeviceError::Gone, self.runtime.now());
        };
        let (placed, limit) = (self.placed.get(), self.limit.get());
        let mut reply = within(&self.runtime, limit, &*device, request).await;
        // What a device could not do that has lost its place meanwhile is not held against the one that has it now
        // (`lose`).
        if reply.result.is_err() && self.placed.get() != placed {
            reply.result = Err(DeviceError::TimedOut(limit));
        }
        reply
    }

    /// Reads from its data area. The buffer comes back either way.
    pub async fn read(&self, offset: Bytes, into: Buffer, id: u64) -> (Buffer, Result<(), DeviceError>) {
        let request = Request::read(self.data_offset.get() + offset, into).with_id(id);
        let reply = {
            let _reading = UnderWay::new(&self.reading);
            self.send(request).await
        };
        if matches!(reply.result, Err(DeviceError::Medium { .. })) {
            let counts = self.counts.get();
            self.counts.set(MemberCounts { medium_errors: counts.medium_errors + 1, ..counts });
        }
        let buffer = reply.buffer.expect("a read gives its buffer back");
        match self.checksums() {
            // The futures of what is rare have a place of their own, so that those of what is not are small.
            Some(checksums) if reply.result.is_ok() => rarely(|| self.verify(&checksums, offset, buffer, id)).await,
            _ => (buffer, reply.result),
        }
    }

    /// Writes to its data area.
    pub async fn write(&self, offset: Bytes, from: Data, fua: bool, id: u64) -> Result<(), DeviceError> {
        let range = offset..offset + from.len();
        let result = match (self.checksums(), self.twin().filter(|twin| twin.takes_writes(&range))) {
            (None, None) => self.send(Self::writing(self.data_offset.get() + offset, from, fua, id)).await.result,
            (checksums, twin) => rarely(|| self.write_with(checksums, twin, offset, from, fua, id)).await,
        };
        if result.is_ok() {
            self.mend(range);
        }
        result
    }

    fn writing(at: Bytes, from: Data, fua: bool, id: u64) -> Request {
        let mut request = Request::write(at, from).with_id(id);
        request.fua = fua;
        request
    }

    /// Writes data with their checksums, or to the twin as well.
    async fn write_with(
        &self,
        checksums: Option<Rc<Checksums>>,
        twin: Option<Rc<Twin<D>>>,
        offset: Bytes,
        from: Data,
        fua: bool,
        id: u64,
    ) -> Result<(), DeviceError> {
        let writing = match &checksums {
            Some(checksums) => Some((self.begin_write(checksums, offset, from.len()).await?, from.clone())),
            None => None,
        };
        let own = self.send(Self::writing(self.data_offset.get() + offset, from.clone(), fua, id));
        let result = match twin {
            None => own.await.result,
            Some(twin) => join(own, twin.write(offset, from, fua, id)).await.0.result,
        };
        match (&result, writing) {
            (Ok(()), Some((writing, data))) => writing.finish(&data),
            (Err(DeviceError::NoSpace), Some((writing, data))) => {
                let read = Request::read(self.data_offset.get() + offset, Buffer::zeroed(data.len())).with_id(id);
                let there = self.send(read).await;
                if let (Ok(()), Some(there)) = (there.result, &there.buffer) {
                    writing.refused(&data, there);
                }
            }
            _ => {}
        }
        result
    }

    /// Makes everything durable, on its twin, too.
    pub async fn flush(&self, id: u64) -> Result<(), DeviceError> {
        let flush = || Request::flush().with_id(id);
        let Some(twin) = self.twin().filter(|twin| !twin.is_lost()) else { return self.send(flush()).await.result };
        join(self.send(flush()), twin.flush(id)).await.0.result
    }

    /// Gives it its superblock. Its checksums know of that before, or they would be taken for those of a member that
    /// others have used.
    pub async fn tell(&self, superblock: &Superblock) -> Result<(), DeviceError> {
        let device = self.device().ok_or(DeviceError::Gone)?;
        let bytes = written(superblock, device.shape().logical_block).freeze();
        self.announce(superblock).await?;
        let sum = superblock_sum(superblock);
        self.told.borrow_mut().push(sum);
        self.tellings.set(self.tellings.get() + 1);
        self.send(Request::write(SUPERBLOCK_AT, bytes).with_fua()).await.result?;
        self.found(sum);
        self.announced(superblock);
        Ok(())
    }

    /// What its device says is this, by its sum.
    pub fn found(&self, sum: u32) {
        self.told.replace(vec![sum]);
        self.tellings.set(self.tellings.get() + 1);
    }
    /// Whether it is known what its device says.
    pub fn is_known(&self) -> bool {
        !self.told.borrow().is_empty()
    }
    /// Whether its device may say this, by its sum, by what is known.
    pub fn may_say(&self, sum: u32) -> bool {
        self.told.borrow().contains(&sum)
    }
    /// How often what its device says was about to change, or did.
    pub fn tellings(&self) -> u64 {
        self.tellings.get()
    }

    /// Writes back what its medium could not give.
    pub async fn rewrite(&self, offset: Bytes, from: Data, fua: bool, id: u64) -> Result<(), DeviceError> {
        let result = self.write(offset, from, fua, id).await;
        if result.is_ok() {
            let counts = self.counts.get();
            self.counts.set(MemberCounts { rewritten: counts.rewritten + 1, ..counts });
        }
        result
    }

    /// A range that has been written is bad no more.
    fn mend(&self, range: Range<Bytes>) {
        let mut bad = self.bad.borrow_mut();
        if bad.is_empty() {
            return;
        }
        let before = bad.clone();
        let rest = bad.drain(..).flat_map(|old| {
            let touched = old.start < range.end && range.start < old.end;
            let parts = if touched {
                [old.start..range.start.max(old.start), range.end.min(old.end)..old.end]
            } else {
                [old.clone(), old.end..old.end]
            };
            parts.into_iter().filter(|part| part.start < part.end)
        });
        let rest: Vec<Range<Bytes>> = rest.collect();
        self.bad_untold.set(self.bad_untold.get() || rest != before);
        *bad = rest;
        drop(bad);
        self.reckon();
    }
}
