//! The partial parity log in the path of a write: parity without a write hole.
//!
//! A write of a band is preceded by a log write on each member that holds a parity of the band: the parity of the
//! chunks that the write leaves alone, durable before data and parity are on their way. [`PplHeader`] has the format,
//! and why that is enough for one parity. With two, both are logged. After a cut in between, and the loss of any two
//! members, the chunks that were left alone can then be computed: as many parities are left as members with data are
//! missing, each with the entry that mends it (`replay`).
//!
//! md has this log at level 5. At levels 3, 4 and 6 it is arraylab's own, beside a bitmap, where md does not look
//! ([`Superblock::own_ppl_at`]); md opens such an array, and what it leaves open there a resync closes.
//!
//! md replays the newest header of a member only, so a header must cover all that is not yet durable in stripes whose
//! parity is there. Hence one [*unit*](unit) at a time on each member: whoever finds the log free takes along all
//! writes that wait for it, as one log write, and the next unit begins when the data and parity of all of them are
//! durable. They are written with FUA for that: md writes them plainly and flushes both members afterwards, two more
//! requests for a small write.
//!
//! A write that needs the logs of two members would have to keep both turns, and next to no writes could go on side by
//! side. So in the own log only the log write itself is done alone; its header says which of those before it are not
//! over. Writes line up for both logs at one instant and leave each line in its order, so none of those that are under
//! way waits for one that came later: the oldest always finds the room it needs, and nobody waits in a circle.
//!
//! | | member writes for a random 4 KiB write | of these flushes |
//! |---|---|---|
//! | md, level 5 | log, data, parity, 2 flushes: 5.0 | 2 |
//! | here, level 5 | log, data, parity: 3.0; with more of them at once the log write is shared; 2.0 when the newest header covers it already | 0 |
//! | here, level 6 | two logs, data, two parities: 5.0, and fewer as above; 3.0 | 0 |
//!
//! (`cargo test -p array cost::` counts them.) A write that repeats the newest entry, such as a block that is
//! overwritten again and again, needs no log write: what the entry says of the other chunks still holds, or a newer
//! entry would say so.
//!
//! What the log cannot do: of a write that touches several chunks of a row, a member that is lost *in the same cut* may
//! hold neither the old nor the new bytes in its part of it. (If the member was lost before, or is being filled, the
//! chunks are written one after the other, each under an entry of its own, and nothing is lost.) A journal has no such
//! gap.
//!
//! Rejected for level 6: the log of P alone, as the loss of its member and of one with data leaves Q, of which nothing
//! is known then; and all that is written, as a journal has it, which costs as many bytes more as the write has, and
//! needs no parity of its own only on another device.

mod replay;
mod unit;

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::{Rc, Weak};

use device::{Buffer, Data, Device, DeviceError, Request};
use futures_util::future::{Either, select, try_join_all};
use runtime::{Grant, Resource, Runtime, Signal};
use units::Bytes;

use crate::array::Array;
use crate::few::Few;
use crate::geometry::Stripe;
use crate::md::{PplEntry, PplHeader, Superblock, Uuid};
use crate::member::MemberState;
use crate::state::State;
use crate::stripe::Band;
use unit::{Ring, Unit};

const HEADER: Bytes = Bytes::kib(4);

/// The logs of an array, by member.
pub(crate) struct Ppl {
    array: Uuid,
    /// It is arraylab's own: md knows nothing of it.
    own: bool,
    logs: Vec<Log>,
    trust: Cell<Trust>,
    /// Writes under way that are in no log.
    unlogged: Cell<u32>,
    /// There are fewer of them, or the trust has changed.
    changed: Signal,
}

/// What the logs are worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// Parity may not fit elsewhere (a new array, or one whose resync is due): logging would promise too much.
    No,
    /// It fits but for writes under way that are in no log. The first header would promise that there are none, so
    /// writes wait until there are.
    Awaited,
    /// Parity fits everywhere but where the logs say.
    Yes,
}

/// The log of one member.
struct Log {
    /// Where it lies on the device.
    start: Cell<Bytes>,
    size: Bytes,
    /// Where the next unit goes, in md's log.
    next: Cell<Bytes>,
    generation: Cell<u64>,
    /// The entries of the newest header, and its unit.
    newest: RefCell<Vec<PplEntry>>,
    newest_unit: RefCell<Weak<Unit>>,
    /// Who writes a unit; in md's log held until all of it is durable.
    turn: Resource,
    /// The units of the own log; none of md's.
    ring: Option<Rc<Ring>>,
    waiting: RefCell<Vec<Rc<Pending>>>,
    logged: Signal,
}

/// A write that waits for its entry to be durable.
struct Pending {
    entry: PplEntry,
    partial: Data,
    unit: RefCell<Option<Rc<Unit>>>,
}

/// The leave to write what was logged; to be kept until data and parity are durable.
pub(crate) enum Ticket<'a> {
    Logged { _units: Few<Rc<Unit>> },
    Unlogged(&'a Ppl),
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if let Ticket::Unlogged(ppl) = self {
            ppl.unlogged.set(ppl.unlogged.get() - 1);
            ppl.changed.notify();
        }
    }
}

/// Who gives up waiting for the writes that are in no log leaves the logs untrusted.
struct Awaiting<'a>(&'a Ppl);

impl Drop for Awaiting<'_> {
    fn drop(&mut self) {
        if self.0.trust.get() == Trust::Awaited {
            self.0.set_trust(Trust::No);
        }
    }
}

/// Who gives up waiting leaves the line.
struct InLine<'a> {
    log: &'a Log,
    pending: Rc<Pending>,
}

impl<'a> InLine<'a> {
    fn new(log: &'a Log, entry: PplEntry, partial: Data) -> InLine<'a> {
        let pending = Rc::new(Pending { entry, partial, unit: RefCell::new(None) });
        log.waiting.borrow_mut().push(Rc::clone(&pending));
        InLine { log, pending }
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.log.waiting.borrow_mut().retain(|other| !Rc::ptr_eq(other, &self.pending));
    }
}

impl Ppl {
    /// The logs of members with these superblocks; `None` if these do not speak of any.
    pub fn of(runtime: &Runtime, superblocks: &[Option<Superblock>]) -> Option<Ppl> {
        Ppl::at(runtime, superblocks, Superblock::ppl_at, false)
    }

    /// The array's own logs, on members with these superblocks, whose bitmaps end here; `None` if it has none, or they
    /// would not lie before the data and apart from all else on each of them.
    pub fn own(runtime: &Runtime, superblocks: &[Option<Superblock>], behind_bitmap: Bytes) -> Option<Ppl> {
        let own = Ppl::at(runtime, superblocks, Superblock::own_ppl_at, true)?;
        let (start, end) = (own.logs[0].start.get(), own.logs[0].start.get() + own.logs[0].size);
        let apart = |superblock: &Superblock| {
            let bad_blocks = superblock.bad_blocks_at().is_some_and(|from| {
                from < end && start < from + Bytes::SECTOR * u64::from(superblock.bad_block_sectors)
            });
            end <= superblock.data_offset && !bad_blocks
        };
        let alike = own.logs.iter().all(|log| log.start.get() == start);
        (alike && behind_bitmap <= start && superblocks.iter().flatten().all(apart)).then_some(own)
    }

    fn at(
        runtime: &Runtime,
        superblocks: &[Option<Superblock>],
        place: impl Fn(&Superblock) -> Option<(Bytes, Bytes)>,
        own: bool,
    ) -> Option<Ppl> {
        let (sibling, (start, _)) = superblocks.iter().flatten().find_map(|s| Some((s, place(s)?)))?;
        // All are written alike, so none of them beyond its own end.
        let size = superblocks.iter().flatten().filter_map(&place).map(|(_, size)| size).min()?;
        let log = |superblock: &Option<Superblock>| Log {
            start: Cell::new(superblock.as_ref().and_then(&place).map_or(start, |(start, _)| start)),
            size,
            next: Cell::new(Bytes::ZERO),
            generation: Cell::new(0),
            newest: RefCell::default(),
            newest_unit: RefCell::default(),
            turn: Resource::new(runtime, 1),
            ring: own.then(|| Rc::new(Ring::new(size))),
            waiting: RefCell::default(),
            logged: Signal::default(),
        };
        Some(Ppl {
            array: sibling.array,
            own,
            logs: superblocks.iter().map(log).collect(),
            trust: Cell::new(Trust::No),
            unlogged: Cell::new(0),
            changed: Signal::default(),
        })
    }

    fn set_trust(&self, trust: Trust) {
        self.trust.set(trust);
        self.changed.notify();
    }

    /// Whether it is arraylab's own.
    pub fn is_own(&self) -> bool {
        self.own
    }

    /// Where it lies on each member, and how large it is there, if it is arraylab's own.
    pub fn own_place(&self) -> Option<(Bytes, Bytes)> {
        self.own.then(|| (self.logs[0].start.get(), self.logs[0].size))
    }

    /// Where it lies on a member, and how large it is there.
    pub fn place(&self, member: usize) -> (Bytes, Bytes) {
        (self.logs[member].start.get(), self.logs[member].size)
    }

    /// The longest range of a chunk that one entry can cover.
    pub fn longest(&self) -> Bytes {
        let log = self.logs[0].size;
        // Several are to find room beside each other, where that is of use.
        if self.own { (log / 4).max(HEADER * 2) - HEADER } else { log - HEADER }
    }
}

impl Log {
    /// As many of the writes that wait as fit into one header and the room that there is, in the order of their
    /// arrival. In md's log with the `own` one among them.
    fn take(&self, own: &Rc<Pending>) -> Vec<Rc<Pending>> {
        /// As many entries as a header holds.
        const MOST: usize = 148;
        let waiting = self.waiting.borrow();
        let md = self.ring.is_none();
        let others = waiting.iter().filter(|other| !(md && Rc::ptr_eq(other, own)));
        let (mut taken, mut extent) = (Vec::new(), HEADER);
        for pending in md.then_some(own).into_iter().chain(others) {
            let with = extent + pending.entry.parity_length;
            if taken.len() < MOST && self.has_room(with) {
                extent = with;
                taken.push(Rc::clone(pending));
            } else if !md {
                // Nobody is overtaken.
                break;
            }
        }
        taken
    }

    /// Whether a header with what is behind it finds room.
    fn has_room(&self, extent: Bytes) -> bool {
        self.ring.as_ref().map_or(extent <= self.size, |ring| ring.place(extent).is_some())
    }

    /// Tells those that were taken that they are logged.
    fn cover(&self, taken: &[Rc<Pending>], unit: &Rc<Unit>) {
        for taken in taken {
            *taken.unit.borrow_mut() = Some(Rc::clone(unit));
        }
        self.waiting.borrow_mut().retain(|other| other.unit.borrow().is_none());
        self.logged.notify();
    }

    /// The unit of the newest header, whose entries cover a write more; it may be over.
    fn newest_unit(&self, turn: Grant) -> Rc<Unit> {
        let Some(ring) = &self.ring else { return Unit::alone(turn) };
        let unit = &mut *self.newest_unit.borrow_mut();
        unit.upgrade().unwrap_or_else(|| {
            let again = ring.resume(self.generation.get());
            *unit = Rc::downgrade(&again);
            again
        })
    }
}

fn data(bytes: &[u8]) -> Data {
    let mut buffer = Buffer::zeroed(Bytes::new(bytes.len() as u64));
    buffer.bytes_mut().expect("it is real").copy_from_slice(bytes);
    buffer.freeze()
}

impl<D: Device> Array<D> {
    /// Makes the entries of a band durable that is about to be written with these parities. `None`: the band has none
    /// to protect.
    pub(crate) async fn log_partial_parity(
        &self,
        band: &Band,
        parities: &[(usize, Data)],
        id: u64,
    ) -> Result<Option<Ticket<'_>>, DeviceError> {
        let Some(ppl) = &self.ppl else { return Ok(None) };
        if parities.len() < self.geometry.level().parities() || self.state.as_ref().is_some_and(State::has_begun) {
            // Nothing is logged for a parity that has failed, so after a cut its member must not come back as if it
            // were current. Nor one that has just been replaced: what is logged is on the other device.
            self.settle().await?;
        }
        if parities.is_empty() {
            return Ok(None);
        }
        if ppl.trust.get() == Trust::Awaited {
            ppl.changed.wait_until(|| ppl.trust.get() != Trust::Awaited).await;
        }
        if ppl.trust.get() == Trust::No {
            ppl.unlogged.set(ppl.unlogged.get() + 1);
            return Ok(Some(Ticket::Unlogged(ppl)));
        }
        let mut entries: Few<(usize, PplEntry, Data)> = Few::new();
        for (member, parity) in parities {
            let partial = self.partial_parity(band, *member, parity, id).await;
            let chunk = self.geometry.chunk();
            let row = band.range.start / chunk;
            let entry = PplEntry {
                data_at: self.geometry.stripe_size() * row
                    + chunk * band.written.start as u64
                    + band.range.start % chunk,
                parity_length: partial.len(),
                data_length: (band.range.end - band.range.start) * band.written.len() as u64,
                parity_member: *member as u32,
                checksum: PplHeader::checksum(partial.bytes().expect("it is real")),
            };
            entries.push((*member, entry, partial));
        }
        // In line for all of them at one instant.
        let lines: Few<(usize, InLine<'_>)> = entries
            .into_iter()
            .map(|(member, entry, partial)| (member, InLine::new(&ppl.logs[member], entry, partial)))
            .collect();
        let mut logs = lines.into_iter().map(|(member, line)| self.log_or_lose(ppl, member, line, id));
        let units: Few<Rc<Unit>> = match logs.len() {
            1 => logs.next().expect("there is one").await?.into_iter().collect(),
            _ => try_join_all(logs).await?.into_iter().flatten().collect(),
        };
        Ok((!units.is_empty()).then_some(Ticket::Logged { _units: units }))
    }

    /// The parity of what a band leaves alone: the new parity without the new data. Of a whole row that is nothing.
    async fn partial_parity(&self, band: &Band, member: usize, parity: &Data, id: u64) -> Data {
        let whole = band.written.len() == band.stripe.data();
        let length = band.range.end - band.range.start;
        let mut partial = Buffer::zeroed(if whole { Bytes::ZERO } else { length });
        if !whole {
            self.pay(1 + band.written.len(), 1, length, id).await;
        }
        if let (Some(to), Some(parity), false) = (partial.bytes_mut(), parity.bytes(), whole) {
            to.copy_from_slice(parity);
            for index in band.written.clone() {
                let new = band.bytes(index).expect("memory is real everywhere or nowhere");
                self.add_to_parity(&band.stripe, member, index, new, to);
            }
        }
        partial.freeze()
    }

    /// Adds what a data chunk contributes to the parity that a member holds, or takes it away: in this field that is
    /// the same.
    pub(crate) fn add_to_parity(&self, stripe: &Stripe, member: usize, index: usize, data: &[u8], to: &mut [u8]) {
        match member == stripe.p() {
            true => self.kernel.add(&[data], to),
            false => self.kernel.multiply_add(parity::power(stripe.power_of(index)), data, to),
        }
    }

    /// As [`log_entry`](Array::log_entry); a member that takes no entry has failed, and then there is no unit.
    async fn log_or_lose(
        &self,
        ppl: &Ppl,
        member: usize,
        line: InLine<'_>,
        id: u64,
    ) -> Result<Option<Rc<Unit>>, DeviceError> {
        let error = match self.log_entry(ppl, member, &line, id).await {
            Ok(unit) => return Ok(Some(unit)),
            Err(error) => error,
        };
        self.unbroken()?;
        if error == DeviceError::NoSpace {
            // Nothing of the write was sent yet.
            self.room.lacked();
            return Err(error);
        }
        // Without its log the member's parity cannot be kept. The others must say so before the data make it stale.
        self.could_not_store(member, &error);
        self.settle().await?;
        Ok(None)
    }

    /// Waits in line until the entry is durable, or writes it together with those before it.
    async fn log_entry(&self, ppl: &Ppl, member: usize, line: &InLine<'_>, id: u64) -> Result<Rc<Unit>, DeviceError> {
        let log = line.log;
        let logged = || line.pending.unit.borrow().is_some();
        let turn = {
            let included = pin!(log.logged.wait_until(logged));
            match select(included, pin!(log.turn.acquire(0))).await {
                Either::Left(_) => None,
                Either::Right((turn, _)) => Some(turn),
            }
        };
        if let Some(unit) = line.pending.unit.borrow().clone() {
            return Ok(unit);
        }
        let turn = turn.expect("who was not taken along has the turn");
        // Whoever had it before may have left a stripe torn, which the newest entries mend.
        self.unbroken()?;
        if log.newest.borrow().contains(&line.pending.entry) {
            return Ok(log.newest_unit(turn));
        }
        let Some(ring) = &log.ring else {
            let taken = log.take(&line.pending);
            self.write_unit(log, ppl.array, member, &taken, None, id).await?;
            let unit = Unit::alone(turn);
            log.cover(&taken, &unit);
            return Ok(unit);
        };
        loop {
            let taken = log.take(&line.pending);
            if taken.is_empty() {
                // Those that are over have room, once a header says so.
                ring.over.wait_until(|| ring.is_stale()).await;
            }
            // Nor may a header of a broken array say that what it left torn is over.
            self.unbroken()?;
            // What it does not take would fill the ring, and nothing is freed there any more.
            if self.members[member].state() == MemberState::Failed {
                return Err(DeviceError::Gone);
            }
            let unit = self.write_unit(log, ppl.array, member, &taken, Some(ring), id).await?;
            let unit = unit.expect("in a ring it is a unit among others");
            *log.newest_unit.borrow_mut() = Rc::downgrade(&unit);
            log.cover(&taken, &unit);
            if logged() {
                let unit = line.pending.unit.borrow().clone();
                return Ok(unit.expect("it was among those taken"));
            }
        }
    }

    /// Writes a header and the partial parities of its entries behind the last ones. Gives the unit that has begun with
    /// it, if it is one among others.
    async fn write_unit(
        &self,
        log: &Log,
        array: Uuid,
        member: usize,
        taken: &[Rc<Pending>],
        ring: Option<&Rc<Ring>>,
        id: u64,
    ) -> Result<Option<Rc<Unit>>, DeviceError> {
        let mut header = PplHeader::new(array, log.generation.get() + 1);
        header.entries = taken.iter().map(|pending| pending.entry.clone()).collect();
        let extent = header.extent();
        let (at, unit) = match ring {
            Some(ring) => {
                let place = match taken {
                    [] => ring.header_place(),
                    _ => ring.place(extent).expect("there is room for what was taken"),
                };
                let (at, unit) = (place.start, ring.begin(header.generation, place));
                header.oldest = ring.oldest();
                (at, Some(unit))
            }
            None if log.next.get() + extent <= log.size => (log.next.get(), None),
            None => (Bytes::ZERO, None),
        };
        let mut bytes = header.to_bytes();
        for pending in taken {
            bytes.extend_from_slice(pending.partial.bytes().expect("it is real"));
        }
        // From now on nobody may rely on the old header, whether or not the new one is written.
        log.newest.borrow_mut().clear();
        log.generation.set(header.generation);
        // md's log is followed from its start, so one that is not written, or given up, must not leave a gap in front
        // of the next.
        log.next.set(Bytes::ZERO);
        let mut request = Request::write(log.start.get() + at, data(&bytes)).with_id(id);
        request.fua = true;
        self.members[member].send(request).await.result?;
        log.next.set(at + extent);
        *log.newest.borrow_mut() = header.entries;
        if let (Some(ring), Some(oldest)) = (ring, header.oldest) {
            ring.declared(oldest);
        }
        Ok(unit)
    }

    /// Gives a device that takes a member's place a log of its own. What it may hold of another time, when it was a
    /// member before, goes: generations are counted anew, and old headers would be followed as if they were newer.
    pub(crate) async fn new_log(&self, member: usize, valid: bool) -> Result<(), DeviceError> {
        let Some(ppl) = &self.ppl else { return Ok(()) };
        // Who waits since the device before it writes its entry to one log or the other.
        let _turn = ppl.logs[member].turn.acquire(0).await;
        self.reset_log(member, false).await?;
        if valid { self.reset_log(member, true).await } else { Ok(()) }
    }

    /// Has the log of a member say that nothing is under way. Where the old log cannot be trusted, not even that is
    /// said.
    async fn reset_log(&self, member: usize, valid: bool) -> Result<(), DeviceError> {
        let Some(ppl) = &self.ppl else { return Ok(()) };
        let log = &ppl.logs[member];
        log.newest.borrow_mut().clear();
        if !valid {
            log.ring.iter().for_each(|ring| assert!(ring.restart(None), "an empty log has room"));
            log.next.set(Bytes::ZERO);
            let nothing = Buffer::zeroed(log.size).freeze();
            return self.members[member].send(Request::write(log.start.get(), nothing).with_fua()).await.result;
        }
        // md's begins anew at the start. A ring goes on, as the header that counts until then names what would be
        // written over there.
        log.next.set(Bytes::ZERO);
        self.write_unit(log, ppl.array, member, &[], log.ring.as_ref(), 0).await.map(drop)
    }

    /// Lets writes be logged, after parity was made to fit, or refuses it.
    pub(crate) async fn trust_logs(&self, trusted: bool) -> Result<(), DeviceError> {
        let Some(ppl) = &self.ppl else { return Ok(()) };
        if trusted {
            // A cut during a write that was not logged must still be followed by a resync.
            ppl.set_trust(Trust::Awaited);
            let _awaiting = Awaiting(ppl);
            ppl.changed.wait_until(|| ppl.unlogged.get() == 0).await;
            ppl.set_trust(Trust::Yes);
        } else {
            ppl.set_trust(Trust::No);
        }
        for (member, log) in ppl.logs.iter().enumerate() {
            let _turn = log.turn.acquire(0).await;
            if let Some(ring) = &log.ring {
                ring.over.wait_until(|| ring.oldest().is_none()).await;
            }
            self.unbroken()?;
            if self.members[member].state() == MemberState::Failed {
                continue;
            }
            if let Err(error) = self.reset_log(member, trusted).await {
                if error == DeviceError::NoSpace {
                    return Err(error);
                }
                self.could_not_store(member, &error);
            }
        }
        self.settle().await
    }
}
