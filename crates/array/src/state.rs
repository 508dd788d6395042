//! The state of an array, kept in the superblocks of its members.
//!
//! Four facts must outlive a power cut, and each must be on the members *before* something else happens:
//!
//! | fact | recorded before | why |
//! |---|---|---|
//! | redundancy may not fit (dirty) | the first write after the array was clean | otherwise nobody would look at the stripe that the cut tore |
//! | a member is missing | the first write without it | it would come back one event behind, and be taken for current |
//! | a member has failed | the write or flush that found out is acknowledged | otherwise its stale data could be read after the next start |
//! | redundancy fits (clean) | nothing; but after a flush of all members | otherwise the fact could overtake the data |
//!
//! A record raises the number of events on all members in use and is written with FUA. It fits into one sector (up to 128 roles),
//! so it is never torn. A member that is one event behind was cut off in the middle of a record; by the order above it lacks
//! nothing that was acknowledged. One that is further behind, or that the newest record calls failed, is stale and never read.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use device::{Buffer, Device, DeviceError, Request};
use futures_util::future::join_all;
use runtime::{Acquire, Resource, Runtime};
use units::Bytes;

use crate::array::{Array, AssembleError};
use crate::geometry::{Geometry, GeometryError, Level};
use crate::journal::Journal;
use crate::md::{
    BadBlock, BadBlocks, Bitmap, Features, JournalBlock, MemberRole, Numbers, PplHeader, Resync, SUPERBLOCK_AT,
    SUPERBLOCK_SIZE, Superblock, SuperblockError, UnknownLevel, Uuid,
};
use crate::member::{MemberState, TIME_LIMIT, within};
use crate::ppl::Ppl;
use crate::upkeep::Repair;

/// The superblocks as they are on the members, by role.
pub(crate) struct State {
    superblocks: RefCell<Vec<Option<Superblock>>>,
    /// One record at a time.
    recording: Resource,
    dirty: Cell<bool>,
    /// Members are missing, or redundancy may not fit, and not all that are there say so yet.
    untold: Cell<bool>,
    /// Members differ in their events: the power cut met a record, or one was dropped. They must be made equal before the next one, or those that it
    /// does not reach would be two behind, and taken for stale.
    uneven: Cell<bool>,
    /// It was opened dirty, and redundancy has not been made to fit since.
    resync_due: Cell<bool>,
    /// Where that begins on the members: an earlier resync was ended there, and nothing was written since.
    resync_from: Cell<Bytes>,
    /// Something was written since the array was opened.
    written: Cell<bool>,
}

/// Why devices cannot be opened as an array.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum OpenError {
    /// A device could not be read.
    #[error("device {device} cannot be read: {error}")]
    Device { device: usize, error: DeviceError },
    /// None has a superblock.
    #[error("no device has a usable superblock; the first says: {0}")]
    None(SuperblockError),
    /// Two arrays.
    #[error("device {device} belongs to another array ({found}, not {wanted}); give the members of one array")]
    Mixed { device: usize, found: Uuid, wanted: Uuid },
    /// A copy.
    #[error("devices {first} and {second} both claim role {role} of the array and are equally fresh; give one of them")]
    Twice { role: u16, first: usize, second: usize },
    /// Halves that went on alone.
    #[error(
        "devices {first} and {second} call each other failed: each went on without the other; give only the one to believe"
    )]
    SplitBrain { first: usize, second: usize },
    /// Too few.
    #[error(
        "{missing} of {members} members are missing or stale, {level} survives the loss of {survives}; give more of them"
    )]
    TooFew { missing: usize, members: usize, level: &'static str, survives: usize },
    /// The write hole.
    #[error(
        "the array was not stopped and members {missing:?} are missing or not rebuilt: parity may not fit where a write was under way, and what is missing would be computed wrongly there; open it by force to accept that"
    )]
    DirtyDegraded { missing: Vec<usize> },
    /// Not understood.
    #[error(transparent)]
    Level(#[from] UnknownLevel),
    /// Cannot be.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Cannot be.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// A feature that the level does not have.
    #[error("the array has a {0}, which nothing is known about; look at it with mdadm --examine")]
    Feature(&'static str),
    /// The journal is not there.
    #[error(
        "the array has a journal, and no device is it, or a stale one; give it too, or open the array by force: what the journal holds is then lost, and parity has to be made to fit"
    )]
    JournalMissing,
    /// The log could not be replayed.
    #[error(
        "what was under way when the array was last in use could not be completed: {0}; replace the member that fails"
    )]
    Replay(DeviceError),
}

/// Leave to open what could be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// Open an array that was not stopped and lacks members.
    pub force_dirty_degraded: bool,
}

impl State {
    /// The leave to change the superblocks.
    pub fn turn(&self) -> Acquire {
        self.recording.acquire(0)
    }
    pub fn is_dirty(&self) -> bool {
        self.dirty.get()
    }
    pub fn set_dirty(&self, dirty: bool) {
        self.dirty.set(dirty);
    }

    /// Of an array whose newest superblock is `newest`.
    fn new(runtime: &Runtime, mut superblocks: Vec<Option<Superblock>>, newest: &Superblock, dirty: bool) -> State {
        let from = |superblock: &Superblock| match superblock.resync {
            Resync::From(offset) => offset,
            Resync::Clean => Bytes::ZERO,
        };
        let resync_from = superblocks.iter().flatten().map(from).min().unwrap_or(Bytes::ZERO);
        let uneven = superblocks.iter().flatten().any(|superblock| superblock.events != newest.events);
        let mut untold = uneven || superblocks.iter().any(Option::is_none);
        for superblock in superblocks.iter_mut().flatten() {
            superblock.events = newest.events;
            superblock.roles.clone_from(&newest.roles);
        }
        for superblock in superblocks.iter_mut().flatten().filter(|_| dirty) {
            // The power cut met the record that said dirty: some have it, some not, and the next one must say it to all.
            untold |= superblock.resync == Resync::Clean;
            superblock.resync = Resync::From(resync_from);
        }
        State {
            untold: Cell::new(untold),
            uneven: Cell::new(uneven),
            superblocks: RefCell::new(superblocks),
            recording: Resource::new(runtime, 1),
            dirty: Cell::new(dirty),
            resync_due: Cell::new(dirty),
            written: Cell::new(false),
            resync_from: Cell::new(resync_from),
        }
    }
}

/// How much of a superblock is written: the sectors with something in them, as one block of the device.
pub(crate) fn written(superblock: &Superblock, block: Bytes) -> Buffer {
    let length = Bytes::new((256 + 2 * superblock.roles.len()) as u64).round_up(block);
    let mut buffer = Buffer::zeroed(length);
    let bytes = superblock.to_bytes();
    let length = length.as_usize().min(bytes.len());
    buffer.bytes_mut().expect("it is real")[..length].copy_from_slice(&bytes[..length]);
    buffer
}

/// Writes the superblocks of a new array (see [`crate::md::create`]) to its devices, and before them what they speak of: the start of
/// a log.
pub async fn format<D: Device>(devices: &[D], superblocks: &[Superblock]) -> Result<(), DeviceError> {
    assert_eq!(devices.len(), superblocks.len(), "a superblock for each device");
    for (device, superblock) in devices.iter().zip(superblocks) {
        // A header says that parity fits where nothing is logged: where it does not yet, there is none.
        if let (Some((at, _)), Resync::Clean) = (superblock.ppl_at(), superblock.resync) {
            let bytes = PplHeader::new(superblock.array, 1).to_bytes();
            let mut header = Buffer::zeroed(Bytes::new(bytes.len() as u64));
            header.bytes_mut().expect("it is real").copy_from_slice(&bytes);
            device.submit(Request::write(at, header.freeze()).with_fua()).await.result?;
        }
        let bytes = written(superblock, device.shape().logical_block).freeze();
        if let Some(at) = superblock.bitmap_at() {
            let bitmap = Bitmap::of_new(superblock);
            let bytes = bitmap.to_bytes();
            let mut buffer = Buffer::zeroed(Bytes::new(bytes.len() as u64).round_up(Bytes::kib(4)));
            buffer.bytes_mut().expect("it is real")[..bytes.len()].copy_from_slice(&bytes);
            device.submit(Request::write(at, buffer.freeze()).with_fua()).await.result?;
        }
        if superblock.role() == MemberRole::Journal {
            let empty = JournalBlock { sequence: 1, position: Bytes::ZERO, payloads: Vec::new() };
            let block = empty.to_bytes(superblock.array).expect("it is empty");
            let mut buffer = Buffer::zeroed(Bytes::new(block.len() as u64));
            buffer.bytes_mut().expect("it is real").copy_from_slice(&block);
            device.submit(Request::write(superblock.data_offset, buffer.freeze()).with_fua()).await.result?;
        }
        device.submit(Request::write(SUPERBLOCK_AT, bytes).with_fua()).await.result?;
    }
    Ok(())
}

impl<D: Device> Array<D> {
    /// Opens the array whose members these devices are, in any order. Devices without a usable superblock, and stale ones, are left
    /// out as if they were not there.
    pub async fn open(
        runtime: &Runtime,
        name: &str,
        devices: Vec<D>,
        options: OpenOptions,
    ) -> Result<Array<D>, OpenError> {
        let mut found: Vec<(usize, Superblock, D)> = Vec::new();
        let mut refused = None;
        for (index, device) in devices.into_iter().enumerate() {
            let request = Request::read(SUPERBLOCK_AT, Buffer::zeroed(SUPERBLOCK_SIZE));
            let reply = within(runtime, TIME_LIMIT, &device, request).await;
            if let Err(DeviceError::OutOfRange { .. } | DeviceError::Misaligned { .. }) = reply.result {
                return Err(OpenError::Device { device: index, error: reply.result.expect_err("it was matched") });
            }
            let buffer = reply.buffer.expect("a read gives its buffer back");
            if reply.result.is_err() {
                // A device that cannot be read is as good as missing.
                continue;
            }
            match Superblock::parse(buffer.bytes().expect("it is real")) {
                Ok(superblock) => found.push((index, superblock, device)),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        let Some(newest) = found.iter().map(|(_, superblock, _)| superblock).max_by_key(|s| s.events).cloned() else {
            return Err(OpenError::None(refused.unwrap_or(SuperblockError::Short { needed: 256, found: 0 })));
        };
        if let Some((device, other, _)) = found.iter().find(|(_, other, _)| other.array != newest.array) {
            return Err(OpenError::Mixed { device: *device, found: other.array, wanted: newest.array });
        }
        // Each calls the other failed, although both went on: whom to believe is not for us to say.
        let calls_failed = |a: &Superblock, b: &Superblock| {
            a.roles.get(b.number as usize).is_none_or(|role| MemberRole::from_number(*role) == MemberRole::Faulty)
        };
        for (first, a, _) in &found {
            for (second, b, _) in &found {
                if first < second && calls_failed(a, b) && calls_failed(b, a) {
                    return Err(OpenError::SplitBrain { first: *first, second: *second });
                }
            }
        }
        let members = newest.members as usize;
        let mut by_role: Vec<Option<(usize, Superblock, D)>> = (0..members).map(|_| None).collect();
        let mut journal = None;
        for (index, superblock, device) in found {
            let fresh = superblock.events + 1 >= newest.events;
            let role = newest.roles.get(superblock.number as usize).map(|role| MemberRole::from_number(*role));
            if (role, fresh) == (Some(MemberRole::Journal), true) && newest.features.has(Features::JOURNAL) {
                journal = Some(Journal::new(runtime, device, superblock));
                continue;
            }
            let (Some(MemberRole::Active(role)), true) = (role, fresh) else { continue };
            let Some(place) = by_role.get_mut(usize::from(role)) else { continue };
            if let Some((first, ..)) = place {
                return Err(OpenError::Twice { role, first: *first, second: index });
            }
            *place = Some((index, superblock, device));
        }
        let level = Numbers { level: newest.level, layout: newest.layout }.level()?;
        let size = |superblock: &Superblock| match superblock.size.is_zero() {
            true => superblock.data_size,
            false => superblock.size,
        };
        let sizes: Vec<Bytes> = by_role
            .iter()
            .map(|member| size(member.as_ref().map_or(&newest, |(_, superblock, _)| superblock)))
            .collect();
        let geometry = Geometry::new(level, newest.chunk, &sizes)?;
        let missing: Vec<usize> = (0..members).filter(|role| by_role[*role].is_none()).collect();
        let survives = level.losses_survived(members);
        if missing.len() > survives {
            return Err(OpenError::TooFew { missing: missing.len(), members, level: level.name(), survives });
        }
        let current = || by_role.iter().flatten().map(|(_, superblock, _)| superblock);
        let dirty = survives > 0 && current().any(|superblock| superblock.resync != Resync::Clean);
        // A resync that was under way says how far; only what writes left behind is what a log can mend.
        let resyncing = current().any(|s| !matches!(s.resync, Resync::Clean | Resync::From(Bytes::ZERO)));
        let own_events: Vec<u64> =
            by_role.iter().map(|member| member.as_ref().map_or(0, |(_, s, _)| s.events)).collect();
        // What a rebuild has not reached would be computed like what is missing.
        let is_whole = |member: &(usize, Superblock, D)| !member.1.features.has(Features::RECOVERY);
        let not_whole: Vec<usize> =
            (0..members).filter(|role| !by_role[*role].as_ref().is_some_and(is_whole)).collect();
        let superblocks: Vec<Option<Superblock>> =
            by_role.iter().map(|member| member.as_ref().map(|(_, superblock, _)| superblock.clone())).collect();
        let devices = by_role.into_iter().map(|member| member.map(|(_, s, device)| (device, s.data_offset))).collect();
        let mut array = Array::assemble_with(runtime, name, geometry, devices)?;
        for (role, superblock) in superblocks.iter().enumerate() {
            let rebuilding = superblock.as_ref().filter(|superblock| superblock.features.has(Features::RECOVERY));
            if let Some(superblock) = rebuilding {
                // Beyond 63 bits is beyond the member: nothing can be believed of such a mark.
                let upto =
                    if superblock.recovery < 1 << 54 { Bytes::SECTOR * superblock.recovery } else { Bytes::ZERO };
                array.members[role].set_state(MemberState::Rebuilding(upto));
            }
        }
        for (role, superblock) in superblocks.iter().enumerate() {
            if let Some(superblock) = superblock {
                array.recall_bad(role, superblock).await.map_err(|error| OpenError::Device { device: role, error })?;
            }
        }
        array.intent = array.read_bitmaps(&superblocks, &own_events).await;
        array.ppl = Ppl::of(runtime, &superblocks);
        array.state = Some(State::new(runtime, superblocks, &newest, dirty));
        let mut fits = !dirty;
        if let Some(ppl) = &array.ppl {
            if !matches!(level, Level::Raid5(_)) {
                return Err(OpenError::Feature("PPL at a level that is not 5"));
            }
            fits = array.replay_logs(ppl, dirty).await.map_err(OpenError::Replay)? && !resyncing;
        }
        if newest.features.has(Features::JOURNAL) {
            if level.parities() == 0 {
                return Err(OpenError::Feature("journal at a level without parity"));
            }
            if journal.is_none() && !options.force_dirty_degraded {
                return Err(OpenError::JournalMissing);
            }
            // Without it parity may not fit anywhere.
            fits &= journal.is_some();
        }
        if !fits && !not_whole.is_empty() && level.parities() > 0 && !options.force_dirty_degraded {
            return Err(OpenError::DirtyDegraded { missing: not_whole });
        }
        array.state.as_ref().expect("it was made above").resync_due.set(!fits);
        array.tell_missing().await.map_err(OpenError::Replay)?;
        array.trust_logs(fits).await.map_err(OpenError::Replay)?;
        if let Some(journal) = journal {
            let rest = array.replay_journal(&journal).await.map_err(OpenError::Replay)?;
            journal.begin_anew().await.map_err(OpenError::Replay)?;
            array.journal = Some(journal);
            for (at, data) in rest {
                array.submit(Request::write(at, data)).await.result.map_err(OpenError::Replay)?;
            }
        } else {
            let state = array.state.as_ref().expect("it was made above");
            for superblock in state.superblocks.borrow_mut().iter_mut().flatten() {
                superblock.features = superblock.features.without(Features::JOURNAL);
            }
        }
        Ok(array)
    }

    /// Whether redundancy may not fit: after a power cut until [`resync`](Array::resync), and while writes are under way.
    pub fn is_dirty(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.dirty.get())
    }

    /// Whether redundancy has to be made to fit first.
    pub(crate) fn is_resync_due(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.resync_due.get())
    }

    /// Before anything is made to fit, or read, without a member that a power cut took too: the others must say that it is missing. It
    /// could come back with what it holds, and be believed, after something else was read or computed in its place.
    pub(crate) async fn tell_missing(&self) -> Result<(), DeviceError> {
        let Some(state) = &self.state else { return Ok(()) };
        let missing = self.members.iter().any(|member| member.state() == MemberState::Failed);
        if !missing || !state.dirty.get() {
            return Ok(());
        }
        let _one = state.recording.acquire(0).await;
        if state.superblocks.borrow().iter().flatten().any(|superblock| self.names_missing(superblock)) {
            self.record(|_| {}).await?;
        }
        Ok(())
    }

    /// Whether a superblock calls a member active that is not there.
    fn names_missing(&self, superblock: &Superblock) -> bool {
        let missing = |column: u16| {
            self.members.get(usize::from(column)).is_some_and(|member| member.state() == MemberState::Failed)
        };
        let mut roles = superblock.roles.iter().map(|role| MemberRole::from_number(*role));
        roles.any(|role| matches!(role, MemberRole::Active(column) if missing(column)))
    }

    /// Before a write: the members must say that redundancy may not fit, and who is missing.
    pub(crate) async fn before_write(&self) -> Result<(), DeviceError> {
        let Some(state) = &self.state else { return Ok(()) };
        state.written.set(true);
        // What a journal holds makes redundancy fit.
        let marks = self.journal.is_none();
        let told = || (state.dirty.get() || !marks) && !state.untold.get() && state.resync_from.get().is_zero();
        if told() || self.geometry.level().losses_survived(self.members.len()) == 0 {
            return Ok(());
        }
        let _one = state.recording.acquire(0).await;
        // Another write may have recorded it meanwhile.
        if !told() {
            let dirty = marks || state.dirty.get();
            let mark = |superblock: &mut Superblock| {
                if dirty {
                    superblock.resync = Resync::From(Bytes::ZERO);
                }
            };
            self.record(mark).await?;
            state.dirty.set(dirty);
            state.untold.set(false);
            state.resync_from.set(Bytes::ZERO);
        }
        Ok(())
    }

    /// Before an acknowledgement: the members must say who has failed.
    pub(crate) async fn settle(&self) -> Result<(), DeviceError> {
        let Some(state) = &self.state else { return Ok(()) };
        let unrecorded = || {
            let superblocks = state.superblocks.borrow();
            (0..self.members.len()).any(|m| {
                let failed = self.members[m].state() == MemberState::Failed;
                superblocks[m].is_some() && (failed || self.members[m].is_bad_untold())
            })
        };
        // A record that is under way may be the one that says it, and is not there before it is done.
        if !unrecorded() && state.recording.in_use() == 0 {
            return Ok(());
        }
        let _one = state.recording.acquire(0).await;
        if unrecorded() { self.record(|_| {}).await } else { Ok(()) }
    }

    /// Gives all members the newest superblock, if the last power cut met a record. It says nothing new. The caller holds `recording`.
    async fn make_even(&self) {
        let state = self.state.as_ref().expect("there is state to record");
        if state.uneven.replace(false) {
            let in_use = |member: &usize| self.members[*member].state() != MemberState::Failed;
            let writes = {
                let superblocks = state.superblocks.borrow();
                let of = |member: usize| Some((member, superblocks[member].clone()?));
                (0..self.members.len()).filter(in_use).filter_map(of).collect()
            };
            self.write_superblocks(writes).await;
        }
    }

    /// Writes superblocks to members; those that do not take theirs have failed.
    async fn write_superblocks(&self, superblocks: Vec<(usize, Superblock)>) {
        let write = |(member, superblock): (usize, Superblock)| async move {
            let Some(device) = self.members[member].device() else { return };
            let bytes = written(&superblock, device.shape().logical_block).freeze();
            let told = match self.tell_bad(member, &superblock).await {
                Ok(()) => self.members[member].send(Request::write(SUPERBLOCK_AT, bytes).with_fua()).await.result,
                error => error,
            };
            if told.is_err() {
                self.fail(member);
            }
        };
        join_all(superblocks.into_iter().map(write)).await;
    }

    /// Changes the superblocks of all members in use and writes them. Members that have failed, or fail this, are recorded as such on
    /// the others. The caller holds `recording`.
    pub(crate) async fn record(&self, change: impl Fn(&mut Superblock)) -> Result<(), DeviceError> {
        let state = self.state.as_ref().expect("there is state to record");
        self.make_even().await;
        loop {
            let failed = |member: usize| self.members.get(member).is_none_or(|m| m.state() == MemberState::Failed);
            let writes: Vec<(usize, Superblock)> = {
                let mut superblocks = state.superblocks.borrow_mut();
                (0..self.members.len()).filter(|member| failed(*member)).for_each(|member| superblocks[member] = None);
                for superblock in superblocks.iter_mut().flatten() {
                    // Members that are merely missing too: from now on they are stale, and may come back only one event behind.
                    for role in &mut superblock.roles {
                        if matches!(MemberRole::from_number(*role), MemberRole::Active(column) if failed(column.into()))
                        {
                            *role = MemberRole::Faulty.number();
                        }
                    }
                    superblock.events += 1;
                    change(superblock);
                }
                for (member, superblock) in superblocks.iter_mut().enumerate() {
                    let bad = !self.members[member].bad().is_empty();
                    if let Some(superblock) = superblock.as_mut().filter(|_| bad) {
                        superblock.features = superblock.features.with(Features::BAD_BLOCKS);
                    }
                }
                superblocks.iter().enumerate().filter_map(|(m, s)| Some((m, s.clone()?))).collect()
            };
            if writes.is_empty() || self.is_broken() {
                return Err(DeviceError::Gone);
            }
            self.raise_bitmap_events(writes[0].1.events).await;
            if let Some(journal) = self.journal.as_ref().filter(|journal| !journal.has_failed()) {
                // Its failure stops the writes to come; the members' state is told all the same.
                _ = journal.follow(&writes[0].1).await;
            }
            // Whoever asked for this may be dropped meanwhile; then the next record must begin by finishing it.
            state.uneven.set(true);
            self.write_superblocks(writes).await;
            state.uneven.set(false);
            let all_told = (0..self.members.len()).all(|m| !failed(m) || state.superblocks.borrow()[m].is_none());
            if all_told {
                return Ok(());
            }
        }
    }

    /// Writes the bad-block log of a member, if it has changed. An error if there is no room for it.
    async fn tell_bad(&self, member: usize, superblock: &Superblock) -> Result<(), DeviceError> {
        let this = &self.members[member];
        if !this.is_bad_untold() {
            return Ok(());
        }
        let ranges = this
            .bad()
            .into_iter()
            .map(|range| BadBlock { offset: superblock.data_offset + range.start, length: range.end - range.start });
        let log = BadBlocks { shift: superblock.bad_block_shift, ranges: ranges.collect() };
        let at = superblock.bad_blocks_at().ok_or(DeviceError::NoSpace)?;
        let room = Bytes::SECTOR * u64::from(superblock.bad_block_sectors);
        let bytes = log.to_bytes(room).map_err(|_| DeviceError::NoSpace)?;
        let mut buffer = Buffer::zeroed(room);
        buffer.bytes_mut().expect("it is real").copy_from_slice(&bytes);
        this.bad_is_told();
        this.send(Request::write(at, buffer.freeze()).with_fua()).await.result
    }

    /// Reads the bad-block log of a member that has one.
    async fn recall_bad(&self, member: usize, superblock: &Superblock) -> Result<(), DeviceError> {
        let Some(at) = superblock.bad_blocks_at().filter(|_| superblock.features.has(Features::BAD_BLOCKS)) else {
            return Ok(());
        };
        let room = Bytes::SECTOR * u64::from(superblock.bad_block_sectors);
        let reply = self.members[member].send(Request::read(at, Buffer::zeroed(room))).await;
        reply.result?;
        let buffer = reply.buffer.expect("a read gives its buffer back");
        let log = BadBlocks::parse(buffer.bytes().expect("it is real"), superblock.bad_block_shift)
            .map_err(|_| DeviceError::Medium { offset: at, length: room })?;
        let in_data = |bad: &BadBlock| {
            let start = bad.offset.max(superblock.data_offset) - superblock.data_offset;
            let end = (bad.offset + bad.length).max(superblock.data_offset) - superblock.data_offset;
            start..end.min(self.geometry.used_of(member))
        };
        let ranges = log.ranges.iter().map(in_data).filter(|range| range.start < range.end);
        self.members[member].recall_bad(ranges.collect());
        Ok(())
    }

    /// Makes redundancy fit again after a power cut: what parity or other copies say is replaced by what the data, or the first copy, say.
    /// Says whether it does: with parity not while members are missing, not where sectors cannot be read, and not if whoever
    /// [watches](Array::watch) ended it. Until then reads of different copies may give different values of what was being written.
    pub async fn resync(&self) -> Result<bool, DeviceError> {
        let Some(state) = &self.state else { return Ok(true) };
        if state.resync_due.get() && self.can_be_scrubbed() {
            let from = self.array_address(state.resync_from.get());
            let marked = |range: Range<Bytes>| {
                self.intent.as_ref().is_none_or(|intent| intent.is_marked(&self.in_bitmap(range)))
            };
            let found = self.scrub_where(from..self.geometry.size(), Repair::BelieveData, marked).await?;
            let whole = found.upto == self.geometry.size();
            if whole && found.unreadable == 0 {
                self.flush_members(0).await?;
                self.trust_logs(true).await?;
                state.resync_due.set(false);
            } else if found.unreadable == 0 {
                self.record_resync(found.upto).await?;
            }
        }
        Ok(!state.resync_due.get())
    }

    /// Where a resync that has come so far on the members is in the array. Where members and array do not go on together, at the start.
    fn array_address(&self, offset: Bytes) -> Bytes {
        match self.geometry.level().parities() {
            0 if self.geometry.level() == Level::Raid1 => offset.min(self.geometry.size()),
            0 => Bytes::ZERO,
            _ => self.geometry.stripe_size() * (offset / self.geometry.chunk()).min(self.geometry.rows()),
        }
    }

    /// Records that redundancy fits before an address of the array, if nothing was written since the array was opened.
    async fn record_resync(&self, upto: Bytes) -> Result<(), DeviceError> {
        let state = self.state.as_ref().expect("a resync is of an array with state");
        let offset = match self.geometry.level().parities() {
            0 if self.geometry.level() == Level::Raid1 => upto,
            0 => return Ok(()),
            _ => self.geometry.chunk() * (upto / self.geometry.stripe_size()),
        };
        self.flush_members(0).await?;
        let _one = state.recording.acquire(0).await;
        if state.written.get() {
            return Ok(());
        }
        // Set first: a write that comes now waits for this record, and takes it back.
        state.resync_from.set(offset);
        self.record(|superblock| superblock.resync = Resync::From(offset)).await
    }

    /// Ends service: everything is made durable, then the members say that redundancy fits, unless a [`resync`](Array::resync) is due.
    /// Requests under way must have been answered.
    pub async fn stop(&self) -> Result<(), DeviceError> {
        self.flush_members(0).await?;
        self.settle().await?;
        self.close_journal().await?;
        self.mark_clean().await?;
        // Twice, as the first time spares what was written since the last.
        self.clear_bits().await?;
        self.clear_bits().await
    }

    /// Records that a new device takes a failed member's place; nothing of it is current. Gives an error if no number is left for it.
    pub(crate) async fn record_replacement(
        &self,
        member: usize,
        data_offset: Bytes,
        identity: Uuid,
    ) -> Result<(), DeviceError> {
        let Some(state) = &self.state else { return Ok(()) };
        let _one = state.recording.acquire(0).await;
        self.make_even().await;
        {
            let mut superblocks = state.superblocks.borrow_mut();
            let sibling = superblocks.iter().flatten().next().cloned().ok_or(DeviceError::Gone)?;
            let spare = MemberRole::Spare.number();
            // The slot of a member that has failed can be used again when no other is left: the device itself is stale by its events.
            let free = |role: &u16| *role == spare || *role == MemberRole::Faulty.number();
            let number =
                sibling.roles.iter().position(|role| *role == spare).or_else(|| sibling.roles.iter().position(free));
            let number = number.ok_or(DeviceError::NoSpace)?;
            superblocks[member] = Some(Superblock {
                features: sibling.features.with(Features::RECOVERY),
                data_offset,
                data_size: self.geometry.used_of(member),
                recovery: 0,
                number: number as u32,
                corrected_reads: 0,
                member: identity,
                member_flags: 0,
                ..sibling
            });
            for superblock in superblocks.iter_mut().flatten() {
                // Whoever had the place before, and was never told that it had lost it.
                let before = MemberRole::Active(member as u16).number();
                superblock
                    .roles
                    .iter_mut()
                    .filter(|role| **role == before)
                    .for_each(|role| *role = MemberRole::Faulty.number());
                superblock.roles[number] = MemberRole::Active(member as u16).number();
            }
        }
        self.record(|_| {}).await
    }

    /// Records how far a rebuild has come; `None` when it is done. What lies before the mark must be durable.
    pub(crate) async fn record_rebuilt(&self, member: usize, upto: Option<Bytes>) -> Result<(), DeviceError> {
        let Some(state) = &self.state else { return Ok(()) };
        let _one = state.recording.acquire(0).await;
        self.make_even().await;
        if let Some(superblock) = &mut state.superblocks.borrow_mut()[member] {
            match upto {
                Some(upto) => superblock.recovery = upto / Bytes::SECTOR,
                None => {
                    superblock.features = superblock.features.without(Features::RECOVERY);
                    superblock.recovery = 0;
                }
            }
        }
        self.record(|_| {}).await
    }
}
