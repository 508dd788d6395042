//! The array: a device made of devices.
//!
//! A request is cut into pieces, each within one *unit* of the layout (a row of parity levels, a chunk of level 10, a
//! region of level 1), and the pieces go on side by side: reads in `read`, writes of copies in `copies`, of stripes in
//! `stripe`.
//!
//! A future that waits for another is compiled around it, so all that a write may have to do would be one piece of
//! code: 33 KB, as much as a processor's first cache holds, where a small write needs a part of 12. What is seldom
//! needed is therefore boxed, here and where the state and the bitmap are recorded.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use device::{Buffer, Data, Device, DeviceError, Extent, Operation, Payload, Pool, Reply, Request, Shape, Stamps};
use futures_util::future::join_all;
use parity::Kernel;
use runtime::{Gate, Runtime};
use units::{Bytes, Duration, Rate};

use crate::bad::joined;
use crate::count::UnderWay;
use crate::gather::Gathering;
use crate::geometry::{Geometry, Level, Role};
use crate::intent::Intent;
use crate::journal::Journal;
use crate::lock::Locks;
use crate::member::{Member, MemberCounts, MemberState};
use crate::order::Order;
use crate::pace::Watcher;
use crate::ppl::Ppl;
use crate::rarely::rarely;
use crate::readd::Away;
use crate::room::Room;
use crate::spare::Spare;
use crate::state::State;
use crate::timeout::TimeOuts;
use crate::toll::Toll;
use crate::unsynced::Synced;

/// The unit of locking at level 1, which has no chunks.
const REGION: Bytes = Bytes::kib(64);

/// A RAID over devices of one kind.
pub struct Array<D> {
    pub(crate) runtime: Runtime,
    shape: Shape,
    pub(crate) geometry: Geometry,
    pub(crate) kernel: &'static Kernel,
    pub(crate) members: Vec<Member<D>>,
    pub(crate) locks: Locks,
    pub(crate) gathering: Gathering,
    order: Order,
    /// What limits the time of small writes.
    pub(crate) time_outs: TimeOuts,
    /// How many members are not [plain](Member::plain).
    special: Rc<Cell<usize>>,
    /// Memory for what is read to compute from, and for what is computed.
    pub(crate) pool: Pool,
    /// What the members say of the array, if anything does.
    pub(crate) state: Option<State>,
    /// Which regions are being written, if the members keep a bitmap of them.
    pub(crate) intent: Option<Intent>,
    /// What is in sync of an array that needs a resync.
    pub(crate) synced: Synced,
    /// Writes since the array was opened, and those of them that are not answered.
    pub(crate) writes_begun: Cell<u64>,
    pub(crate) writes_under_way: Cell<u64>,
    /// What closes the write hole at levels 4 to 6, if there is a device for it.
    pub(crate) journal: Option<Journal<D>>,
    /// What closes the write hole at level 5, if something does.
    pub(crate) ppl: Option<Ppl>,
    /// Devices that wait for a member to fail.
    pub(crate) spares: RefCell<Vec<Rc<Spare<D>>>>,
    /// Numbers of devices that are about to take a member's place: the members do not say so yet, and nobody else may
    /// have them.
    pub(crate) promised: RefCell<Vec<usize>>,
    /// Devices that were members and are stale.
    pub(crate) away: RefCell<Vec<Away<D>>>,
    /// What writes pass.
    pub(crate) gate: Gate,
    pub(crate) watcher: RefCell<Option<Watcher>>,
    pub(crate) rate: Cell<Option<Rate>>,
    /// Whether members lack room.
    pub(crate) room: Room,
    /// What computing costs, where time is modelled.
    pub(crate) toll: RefCell<Option<Toll>>,
    /// Whether new parity comes from all data of a row wherever they can be read.
    pub(crate) reconstructs: Cell<bool>,
}

/// Why devices do not form the array.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum AssembleError {
    /// Wrong number.
    #[error("the array has {wanted} members, {found} devices were given")]
    Count { wanted: usize, found: usize },
    /// Too small.
    #[error("member {member} holds {size:#}; its data begin at {data_offset:#} and need {needed:#}")]
    TooSmall { member: usize, size: Bytes, data_offset: Bytes, needed: Bytes },
    /// Blocks that do not fit.
    #[error("member {member} takes requests in blocks of {block:#}, which do not divide the chunk of {chunk:#}")]
    Block { member: usize, block: Bytes, chunk: Bytes },
    /// An end that nobody can write.
    #[error(
        "member {member} takes requests in blocks of {block:#}, of which the {used:#} that the array uses of it are no multiple; let `mdadm --grow --size` make them one"
    )]
    End { member: usize, block: Bytes, used: Bytes },
}

fn is_chunkless(geometry: &Geometry) -> bool {
    matches!(geometry.level(), Level::Raid1 | Level::Linear)
}

/// The member of a level without chunks in which data end within a block of such a size, and others do not fit beside
/// it. (What the last of several one after the other has behind its last whole block is left away.)
fn ends_within(geometry: &Geometry, block: Bytes) -> Option<usize> {
    let all = if geometry.level() == Level::Linear { 0..geometry.members() - 1 } else { 0..geometry.members() };
    all.filter(|_| is_chunkless(geometry)).find(|member| !geometry.used_of(*member).is_multiple_of(block))
}

impl<D: Device> Array<D> {
    /// An array of members in the order of their roles, all current: each a device and where its data begin. It keeps
    /// no state on them; for models and tests. [`Array::open`] opens one that does.
    pub fn assemble(
        runtime: &Runtime,
        name: &str,
        geometry: Geometry,
        members: Vec<(D, Bytes)>,
    ) -> Result<Array<D>, AssembleError> {
        Array::assemble_with(runtime, name, geometry, members.into_iter().map(Some).collect())
    }

    /// As [`Array::assemble`]; members that are not there have failed.
    pub(crate) fn assemble_with(
        runtime: &Runtime,
        name: &str,
        geometry: Geometry,
        members: Vec<Option<(D, Bytes)>>,
    ) -> Result<Array<D>, AssembleError> {
        if members.len() != geometry.members() {
            return Err(AssembleError::Count { wanted: geometry.members(), found: members.len() });
        }
        let mut shape = Shape::new(name, geometry.size());
        let there = members.iter().enumerate().filter_map(|(member, it)| Some((member, it.as_ref()?)));
        for (member, (device, data_offset)) in there {
            let (size, block) = (device.shape().size, device.shape().logical_block);
            let needed = geometry.used_of(member);
            if data_offset.checked_add(needed).is_none_or(|end| end > size) {
                return Err(AssembleError::TooSmall { member, size, data_offset: *data_offset, needed });
            }
            let chunk = geometry.chunk();
            if !data_offset.is_multiple_of(block) || !(chunk.is_multiple_of(block) || is_chunkless(&geometry)) {
                return Err(AssembleError::Block { member, block, chunk });
            }
            shape.logical_block = shape.logical_block.max(block);
        }
        let block = shape.logical_block;
        if let Some(member) = ends_within(&geometry, block) {
            return Err(AssembleError::End { member, block, used: geometry.used_of(member) });
        }
        shape.size = shape.size.round_down(block);
        shape.physical_block = block.max(geometry.stripe_size());
        let special = Rc::default();
        Ok(Array {
            runtime: runtime.clone(),
            shape,
            geometry,
            kernel: Kernel::best(),
            members: members.into_iter().map(|member| Member::new(runtime, member, &special)).collect(),
            special,
            time_outs: TimeOuts::default(),
            locks: Locks::new(runtime),
            gathering: Gathering::default(),
            order: Order::default(),
            pool: Pool::default(),
            state: None,
            intent: None,
            synced: Synced::default(),
            writes_begun: Cell::new(0),
            writes_under_way: Cell::new(0),
            journal: None,
            ppl: None,
            spares: RefCell::default(),
            promised: RefCell::default(),
            away: RefCell::default(),
            gate: Gate::default(),
            watcher: RefCell::default(),
            rate: Cell::default(),
            room: Room::default(),
            toll: RefCell::default(),
            reconstructs: Cell::new(false),
        })
    }

    /// Whether a device with such blocks can be a member: no block of it holds parts of two chunks, or ends behind what
    /// the array uses.
    pub fn divides_into(&self, block: Bytes) -> bool {
        let chunk = self.geometry.chunk();
        (is_chunkless(&self.geometry) || chunk.is_multiple_of(block)) && ends_within(&self.geometry, block).is_none()
    }

    /// Takes requests in blocks that are at least so large from now on, if the layout [divides
    /// into](Array::divides_into) them: a device with such blocks can then become a member. Whoever uses the array
    /// already would go on sending smaller ones.
    pub fn widen(&mut self, block: Bytes) {
        if block > self.shape.logical_block && self.divides_into(block) {
            self.shape.logical_block = block;
            self.shape.physical_block = self.shape.physical_block.max(block);
        }
    }

    /// Its layout.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }
    /// The device of a member, if it is there.
    pub fn device(&self, member: usize) -> Option<Rc<D>> {
        self.members[member].device()
    }
    /// What a member is good for.
    pub fn state(&self, member: usize) -> MemberState {
        self.members[member].state()
    }
    /// What has happened to a member.
    pub fn counts(&self, member: usize) -> MemberCounts {
        self.members[member].counts()
    }

    /// How many regions the bitmap marks as perhaps different between members, and how many there are; `None` without a
    /// bitmap.
    pub fn marked_regions(&self) -> Option<(u64, u64)> {
        self.intent.as_ref().map(Intent::counts)
    }

    /// How long a member may take for a request before it counts as failed; 30 s unless said otherwise. What a member
    /// completes later is ignored.
    pub fn set_time_limit(&self, limit: Duration) {
        self.members.iter().for_each(|member| member.set_limit(limit));
        if let Some(journal) = &self.journal {
            journal.set_limit(limit);
        }
    }

    /// With `always`, a write computes new parity from all data of its row wherever they can be read, as controllers do
    /// that know no other way; otherwise in the way with the fewest reads.
    pub fn reconstruct_writes(&self, always: bool) {
        self.reconstructs.set(always);
    }

    /// Ranges of the array that a rebuild could not compute, in order: reading them is an error until they are written.
    pub fn bad_ranges(&self) -> Vec<Range<Bytes>> {
        let mut ranges: Vec<Range<Bytes>> = Vec::new();
        for (number, member) in self.members.iter().enumerate() {
            for bad in member.bad() {
                for block in self.blocks(bad) {
                    if let Role::Data(address) = self.geometry.role(number, block.start) {
                        ranges.push(address..address + (block.end - block.start));
                    }
                }
            }
        }
        joined(ranges)
    }

    /// Whether a member has ranges that could not be rebuilt, or had no room for what belongs there: they are as good
    /// as lost with it. What has been written since counts until the member's log says so: a power cut takes it back to
    /// what the log says.
    pub fn has_bad(&self, member: usize) -> bool {
        self.members[member].has_bad()
    }

    /// Takes a member out of use. What was sent to it before may still reach it.
    pub fn fail(&self, member: usize) {
        self.members[member].set_state(MemberState::Failed);
    }

    /// Lets go of the devices of members that have failed: whoever else has them may use them as soon as what was sent
    /// to them is answered.
    pub fn let_go_of_failed(&self) {
        self.members.iter().filter(|member| member.state() == MemberState::Failed).for_each(Member::let_go);
    }

    /// Takes a member out of use because of an error.
    pub(crate) fn lose(&self, member: usize, error: &DeviceError) {
        self.members[member].lose(error);
    }
    /// The error that ended the use of a member, if one did.
    pub fn failure(&self, member: usize) -> Option<DeviceError> {
        self.members[member].cause()
    }
    /// Whether there is a journal, and it takes no more: then no write is accepted.
    pub fn has_lost_journal(&self) -> bool {
        self.journal.as_ref().is_some_and(Journal::has_failed)
    }
    /// Whether a [`resync`](Array::resync) is due: the array was not stopped, and redundancy may not fit.
    pub fn needs_resync(&self) -> bool {
        self.is_resync_due()
    }

    /// Whether every member is active: none failed, is away or is being rebuilt.
    pub fn is_complete(&self) -> bool {
        self.members.iter().all(|member| member.state() == MemberState::Active)
    }
    /// How many members more may be lost, whichever they are; `None` if the array is [broken](Array::is_broken).
    pub fn losses_left(&self) -> Option<usize> {
        self.geometry.losses_left(|member| self.is_gone(member))
    }
    /// Whether nothing but their devices has to know what is written to the members.
    pub(crate) fn all_plain(&self) -> bool {
        self.special.get() == 0
    }
    /// Whether such members are gone that some write could not be stored.
    pub fn is_broken(&self) -> bool {
        // Who is gone is not plain, and most often all are.
        self.special.get() > 0 && !self.geometry.survives(|member| self.is_gone(member))
    }
    /// An error if the array is broken: then nothing is recorded, logged or said to be durable any more. Its members
    /// may come back together, as they do where it was a cable that failed, and what they and the logs hold must still
    /// tell what was under way. Nor if another server [uses](crate::rival) them.
    pub(crate) fn unbroken(&self) -> Result<(), DeviceError> {
        if self.is_broken() { Err(DeviceError::Gone) } else { self.unrivalled() }
    }
    /// Whether the array would be broken without these members, too.
    pub fn needs_any_of(&self, members: &[usize]) -> bool {
        !self.geometry.survives(|member| members.contains(&member) || self.is_gone(member))
    }
    fn is_gone(&self, member: usize) -> bool {
        self.members[member].state() != MemberState::Active
    }

    /// Members that have failed a request in a way that says they will fail others are used no more.
    pub(crate) fn judge(&self, member: usize, error: &DeviceError) {
        let survivable = self.geometry.level().losses_survived(self.members.len()) > 0;
        // Without redundancy a failing member still serves what it can.
        if survivable && !matches!(error, DeviceError::Medium { .. } | DeviceError::NoSpace) {
            self.lose(member, error);
        }
    }

    /// A member did not take what belongs on it: whatever the reason, what it holds there is stale, and may not be read
    /// again.
    pub(crate) fn could_not_store(&self, member: usize, error: &DeviceError) {
        if self.geometry.level().losses_survived(self.members.len()) > 0 {
            self.lose(member, error);
        }
    }

    /// The unit of locking that holds an address, and where it ends.
    pub(crate) fn unit(&self, address: Bytes) -> (u64, Bytes) {
        let size = self.unit_size();
        let unit = address / size;
        (unit, (size * (unit + 1)).min(self.geometry.size()))
    }

    /// How much of the array one unit of locking covers.
    pub(crate) fn unit_size(&self) -> Bytes {
        match self.geometry.level() {
            Level::Raid1 => REGION,
            Level::Raid10(_) | Level::Linear | Level::Raid0(_) => self.geometry.chunk(),
            Level::Raid3 | Level::Raid4 | Level::Raid5(_) | Level::Raid6(_) => self.geometry.stripe_size(),
        }
    }

    /// How much of a member one unit of locking covers.
    pub(crate) fn step(&self) -> Bytes {
        if self.geometry.level() == Level::Raid1 { REGION } else { self.geometry.chunk() }
    }

    /// Cuts a range where `end` says that the piece from an address must end.
    pub(crate) fn pieces(range: Range<Bytes>, end: impl Fn(Bytes) -> Bytes) -> Vec<Range<Bytes>> {
        let mut pieces = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let next = end(at).min(range.end);
            assert!(next > at, "a piece is not empty");
            pieces.push(at..next);
            at = next;
        }
        pieces
    }

    /// Memory for what is computed, or none if the caller brought none.
    pub(crate) fn scratch(length: Bytes, phantom: bool) -> Buffer {
        if phantom { Buffer::phantom(length) } else { Buffer::zeroed(length) }
    }

    /// As [`scratch`](Array::scratch), for what will be filled from end to end: it may hold what was there before.
    pub(crate) fn used_memory(&self, length: Bytes, phantom: bool) -> Buffer {
        if phantom { Buffer::phantom(length) } else { self.pool.take(length) }
    }

    /// Writes, with what has to be recorded before and after, and takes the data.
    ///
    /// What rarely takes time is awaited only if it does, and an error is boxed: what is awaited comes back through
    /// memory, written in small words and moved in large ones, and a processor lets all earlier writes settle first,
    /// those of the data among them (`benchsuite array`).
    pub(crate) async fn write(
        &self,
        start: Bytes,
        data: &mut Data,
        fua: bool,
        id: u64,
    ) -> Result<(), Box<DeviceError>> {
        self.unbroken()?;
        if self.journal.as_ref().is_some_and(Journal::has_failed) {
            return Err(DeviceError::ReadOnly.into());
        }
        self.writes_begun.set(self.writes_begun.get() + 1);
        let _under_way = UnderWay::new(&self.writes_under_way);
        if let Some(state) = &self.state
            && !self.may_write(state)
        {
            rarely(|| self.tell(state)).await?;
        }
        let length = data.len();
        let marked = match &self.intent {
            Some(intent) => Some(self.mark(intent, start..start + length).await?),
            None => None,
        };
        {
            let _pass = match self.gate.try_pass() {
                Some(pass) => pass,
                None => self.gate.pass().await,
            };
            if !self.write_small(start, data, fua, id).await? {
                assert!(data.len() == length, "what was not written is still here");
                rarely(|| self.write_members(start, data.take(), fua, id)).await?;
            }
        }
        drop(marked);
        if !self.may_answer() {
            rarely(|| self.settle()).await?;
        }
        Ok(())
    }

    pub(crate) async fn flush(&self, id: u64) -> Result<(), DeviceError> {
        self.unrivalled()?;
        // What was acknowledged is durable in the journal.
        if self.journal.as_ref().is_none_or(Journal::has_failed) {
            self.flush_members(id).await?;
        }
        self.settle().await
    }

    async fn write_members(&self, start: Bytes, data: Data, fua: bool, id: u64) -> Result<(), DeviceError> {
        let end = |at: Bytes| match self.geometry.level() {
            Level::Linear | Level::Raid0(_) => at + self.geometry.place(at).run,
            _ => self.unit(at).1,
        };
        if start + data.len() <= end(start) {
            return self.write_piece(start, data, fua, id).await;
        }
        let pieces = Self::pieces(start..start + data.len(), end);
        let write = |piece: &Range<Bytes>| {
            let part = data.slice(piece.start - start, piece.end - piece.start);
            self.write_piece(piece.start, part, fua, id)
        };
        join_all(pieces.iter().map(write)).await.into_iter().collect()
    }

    async fn write_piece(&self, at: Bytes, part: Data, fua: bool, id: u64) -> Result<(), DeviceError> {
        match self.geometry.level().parities() {
            0 => self.write_copies(at, part, fua, id).await,
            _ => self.write_row(at, part, fua, id).await,
        }
    }

    pub(crate) async fn flush_members(&self, id: u64) -> Result<(), DeviceError> {
        let flush = |index: usize| {
            let member = &self.members[index];
            async move {
                if member.state() == MemberState::Failed {
                    return Ok(());
                }
                // A flush that failed is not tried again: what it should have stored may be gone. Where all of them
                // find no room, the last that are needed stay to be read.
                member.flush(id).await.inspect_err(|error| {
                    if *error != DeviceError::NoSpace || !self.needs_any_of(&[index]) {
                        self.could_not_store(index, error);
                    }
                })
            }
        };
        let results = join_all((0..self.members.len()).map(flush)).await;
        let failed = results.into_iter().filter_map(Result::err).next();
        match failed {
            Some(DeviceError::NoSpace) => Err(DeviceError::NoSpace),
            Some(error) if self.is_broken() || self.geometry.level().losses_survived(self.members.len()) == 0 => {
                Err(error)
            }
            _ => self.unbroken(),
        }
    }
}

impl<D: Device> Device for Array<D> {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    async fn submit(&self, request: Request) -> Reply {
        let submitted = self.runtime.now();
        if let Err(error) = self.shape.check(&request) {
            return request.refuse(error, submitted);
        }
        // Nothing lies nowhere: at the end no member holds it, and in front of a stripe no chunk ends with it.
        if request.length.is_zero() && request.operation != Operation::Flush {
            return request.answer(Ok(()), Stamps { submitted, completed: submitted });
        }
        let Request { operation, offset, length, payload, fua, punch, id, .. } = request;
        let _turn = match operation {
            Operation::Read | Operation::Flush => None,
            Operation::Write | Operation::WriteZeroes | Operation::Discard => {
                let range = offset..offset + length;
                Some(match self.order.try_take(&range) {
                    Some(turn) => turn,
                    None => rarely(|| self.order.take(range)).await,
                })
            }
        };
        let mut read = None;
        let result = match (operation, payload) {
            (Operation::Read, Payload::Into(buffer)) => {
                let range = offset..offset + length;
                let (buffer, result) = self.read(offset, buffer, id).await;
                read = Some(buffer);
                // A write that is under way may have reached one copy and not the next one that is read.
                if self.order.is_changing(&range) && self.geometry.level().losses_survived(self.members.len()) > 0 {
                    rarely(|| self.order.quiet(range)).await;
                }
                result
            }
            (Operation::Write, Payload::From(mut data)) => {
                self.write(offset, &mut data, fua, id).await.map_err(|error| *error)
            }
            (Operation::Flush, Payload::None) => rarely(|| self.flush(id)).await,
            (Operation::Discard, Payload::None) => {
                rarely(|| self.discard(offset..offset + length, id)).await.map_err(|error| *error)
            }
            (Operation::WriteZeroes, Payload::None) => {
                let zeroes = Request { fua, punch, ..Request::write_zeroes(offset, length).with_id(id) };
                rarely(|| self.write_zeroes(zeroes)).await.map_err(|error| *error)
            }
            (operation, payload) => panic!("a {operation:?} with payload {payload:?}"),
        };
        Reply { result, stamps: Stamps { submitted, completed: self.runtime.now() }, buffer: read }
    }

    /// As far as the first chunk; what its member knows.
    fn extent(&self, offset: Bytes, length: Bytes) -> Extent {
        self.extent_of(offset, length)
    }
}
