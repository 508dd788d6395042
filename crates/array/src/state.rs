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
//! A record raises the number of events on all members in use and is written with FUA. It fits into one sector (up to
//! 128 roles), so it is never torn. A member that is one event behind was cut off in the middle of a record; by the
//! order above it lacks nothing that was acknowledged. One that is further behind, or that the newest record calls
//! failed, is stale and never read.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use device::{Device, DeviceError};
use futures_util::FutureExt;
use futures_util::future::join_all;
use runtime::{Acquire, Resource, Runtime};
use units::Bytes;

use crate::array::Array;
use crate::md::{Features, MemberRole, Resync, Stamp, Superblock, Uuid};
use crate::member::{Member, MemberState};
use crate::ppl::Ppl;

/// The superblocks as they are on the members, by role.
pub(crate) struct State {
    pub superblocks: RefCell<Vec<Option<Superblock>>>,
    /// One record at a time.
    pub recording: Resource,
    dirty: Cell<bool>,
    /// Members are missing, or redundancy may not fit, or a log is kept, and not all that are there say so yet.
    untold: Cell<bool>,
    /// Members differ in their events: the power cut met a record, or one was dropped. They must be made equal before
    /// the next one, or those that it does not reach would be two behind, and taken for stale.
    uneven: Cell<bool>,
    /// A record was begun, and has not reached all members: what the superblocks say here is not there yet.
    begun: Cell<bool>,
    /// Who was to replace a member that is gone has its place now, and the members do not say so yet.
    succeeded: Cell<bool>,
    /// It was opened dirty, and redundancy has not been made to fit since.
    pub resync_due: Cell<bool>,
    /// Where that begins on the members: an earlier resync was ended there, and nothing was written since.
    pub resync_from: Cell<Bytes>,
    /// What of the array a resync that came to its end could not make fit, as it could not be read: everything else
    /// does.
    pub resync_left: RefCell<Option<Vec<Range<Bytes>>>>,
    /// Something was written since the array was opened.
    pub written: Cell<bool>,
    /// When the array was opened, if it looks out for others.
    pub lookout: Cell<Option<Stamp>>,
    /// The members say so; nothing may be written before.
    pub claimed: Cell<bool>,
    /// Something was written, or is about to be, since it was last looked for others.
    pub stirred: Cell<bool>,
    /// When another server opened the array, if one records on the members.
    pub rival: Cell<Option<Stamp>>,
}

impl State {
    /// The superblock of any member in use.
    pub fn sibling(&self) -> Option<Superblock> {
        self.superblocks.borrow().iter().flatten().next().cloned()
    }
    /// The leave to change the superblocks.
    pub fn turn(&self) -> Acquire {
        self.recording.acquire(0)
    }
    pub fn is_dirty(&self) -> bool {
        self.dirty.get()
    }
    /// The members are about to say that redundancy fits. From here on a write has to say again that it may not, and
    /// waits its turn for that.
    pub fn begin_cleaning(&self) -> Cleaning<'_> {
        self.dirty.set(false);
        Cleaning(Some(self))
    }
    /// What the superblocks say here is to be on the members before anything is answered.
    pub fn have_begun(&self) {
        self.begun.set(true);
    }
    /// Whether the superblocks say something here that is not on all members yet.
    pub fn has_begun(&self) -> bool {
        self.begun.get()
    }

    /// Of an array whose newest superblock is `newest`, and whose members do not say that the log is kept which it has,
    /// if they are `unsealed`.
    pub fn new(
        runtime: &Runtime,
        mut superblocks: Vec<Option<Superblock>>,
        newest: &Superblock,
        dirty: bool,
        unsealed: bool,
    ) -> State {
        let from = |superblock: &Superblock| match superblock.resync {
            Resync::From(offset) => offset,
            Resync::Clean => Bytes::ZERO,
        };
        let resync_from = superblocks.iter().flatten().map(from).min().unwrap_or(Bytes::ZERO);
        let uneven = superblocks.iter().flatten().any(|superblock| superblock.events != newest.events);
        let succeeded = superblocks.iter().flatten().any(|s| s.events == newest.events && s.roles != newest.roles);
        let mut untold = uneven || succeeded || unsealed || superblocks.iter().any(Option::is_none);
        for superblock in superblocks.iter_mut().flatten() {
            superblock.events = newest.events;
            superblock.roles.clone_from(&newest.roles);
            superblock.features = superblock.features.without(Features::BY_BITMAP);
        }
        for superblock in superblocks.iter_mut().flatten().filter(|_| dirty) {
            // The power cut met the record that said dirty: some have it, some not, and the next one must say it to
            // all.
            untold |= superblock.resync == Resync::Clean;
            superblock.resync = Resync::From(resync_from);
        }
        State {
            untold: Cell::new(untold),
            uneven: Cell::new(uneven),
            begun: Cell::new(false),
            succeeded: Cell::new(succeeded),
            superblocks: RefCell::new(superblocks),
            recording: Resource::new(runtime, 1),
            dirty: Cell::new(dirty),
            resync_due: Cell::new(dirty),
            written: Cell::new(false),
            lookout: Cell::new(None),
            claimed: Cell::new(true),
            stirred: Cell::new(false),
            rival: Cell::new(None),
            resync_from: Cell::new(resync_from),
            resync_left: RefCell::default(),
        }
    }
}

/// Saying that redundancy fits. Who gives it up has perhaps told some members, and not all: then it is as if nothing
/// were told.
pub(crate) struct Cleaning<'a>(Option<&'a State>);

impl Cleaning<'_> {
    /// The members say so.
    pub fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for Cleaning<'_> {
    fn drop(&mut self) {
        if let Some(state) = self.0 {
            state.dirty.set(true);
            state.untold.set(true);
        }
    }
}

impl<D: Device> Array<D> {
    /// Whether redundancy may not fit: after a power cut until [`resync`](Array::resync), and while writes are under
    /// way.
    pub fn is_dirty(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.dirty.get())
    }

    /// Whether redundancy has to be made to fit first.
    pub(crate) fn is_resync_due(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.resync_due.get())
    }

    /// Before anything is made to fit, or read, without a member that a power cut took too: the others must say that it
    /// is missing, or that another has its place. It could come back with what it holds, and be believed, after
    /// something else was read or computed in its place.
    pub(crate) async fn tell_missing(&self) -> Result<(), DeviceError> {
        // What a journal replays, it misses too.
        let may_change = self.journal.is_some() || self.is_dirty();
        if may_change { self.disown_missing().await } else { Ok(()) }
    }

    /// Has the members say who is missing, or that another has its place, unless they do.
    pub(crate) async fn disown_missing(&self) -> Result<(), DeviceError> {
        let Some(state) = &self.state else { return Ok(()) };
        let missing = self.members.iter().any(|member| member.state() == MemberState::Failed);
        if !(missing || state.succeeded.get()) {
            return Ok(());
        }
        let _one = state.recording.acquire(0).await;
        let names_missing = || state.superblocks.borrow().iter().flatten().any(|it| self.names_missing(it));
        if state.succeeded.get() || names_missing() {
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

    /// Takes note of a write. Before it the members must say that redundancy may not fit, and who is missing; false if
    /// they have to be [told](Array::tell).
    pub(crate) fn may_write(&self, state: &State) -> bool {
        state.written.set(true);
        state.stirred.set(true);
        self.is_told(state) || (state.claimed.get() && self.geometry.level().losses_survived(self.members.len()) == 0)
    }

    /// Whether the members say what they must before a write.
    fn is_told(&self, state: &State) -> bool {
        // What a journal holds makes redundancy fit: then nobody need know.
        let marked = state.dirty.get() || self.journal.is_some();
        marked && state.claimed.get() && !state.untold.get() && state.resync_from.get().is_zero()
    }

    /// Tells the members what they must say before a write.
    pub(crate) async fn tell(&self, state: &State) -> Result<(), DeviceError> {
        let _one = state.recording.acquire(0).await;
        // Another write may have recorded it meanwhile.
        if !self.is_told(state) {
            let dirty = state.dirty.get() || self.journal.is_none();
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

    /// Before an acknowledgement: the members must say who has failed. False if that is to be [waited
    /// for](Array::settle).
    pub(crate) fn may_answer(&self) -> bool {
        // A record that is under way may be the one that says it, and is not there before it is done.
        self.state.as_ref().is_none_or(|state| self.is_settled(state) && state.recording.in_use() == 0)
    }

    /// Waits until the members say who has failed.
    pub(crate) async fn settle(&self) -> Result<(), DeviceError> {
        let Some(state) = &self.state else { return Ok(()) };
        if self.may_answer() {
            return Ok(());
        }
        let record = async {
            let _one = state.recording.acquire(0).await;
            if self.is_settled(state) { Ok(()) } else { self.record(|_| {}).await }
        };
        record.boxed_local().await
    }

    /// Whether the members say who has failed.
    fn is_settled(&self, state: &State) -> bool {
        let superblocks = state.superblocks.borrow();
        let is_untold = |number: usize| {
            let member = &self.members[number];
            superblocks[number].is_some() && (member.state() == MemberState::Failed || member.is_bad_untold())
        };
        !state.begun.get() && !(0..self.members.len()).any(is_untold) && !self.has_lost_twin()
    }

    /// Gives all members the newest superblock, if the last power cut met a record. It says nothing new. The caller
    /// holds `recording`.
    pub(crate) async fn make_even(&self) -> Result<(), DeviceError> {
        let state = self.state.as_ref().expect("there is state to record");
        if state.uneven.get() {
            self.look_for_rival().await;
        }
        if self.rival().is_none() && state.uneven.get() {
            let in_use = |member: &usize| self.members[*member].state() != MemberState::Failed;
            let writes = {
                let superblocks = state.superblocks.borrow();
                let of = |member: usize| Some((member, superblocks[member].clone()?));
                (0..self.members.len()).filter(in_use).filter_map(of).collect()
            };
            self.write_superblocks(writes).await?;
            // Whoever asked for this may be dropped meanwhile, too.
            state.uneven.set(false);
            state.begun.set(false);
        }
        Ok(())
    }

    /// Writes superblocks to members; those that do not take theirs have failed. An error if one has no room for it:
    /// then the record is begun, and not done.
    async fn write_superblocks(&self, superblocks: Vec<(usize, Superblock)>) -> Result<(), DeviceError> {
        let write = |(member, mut superblock): (usize, Superblock)| async move {
            if self.members[member].device().is_none() {
                return Ok(());
            }
            let told = async {
                self.tell_bad(member, &superblock).await?;
                // As the log says now: something may have become bad since this record was begun, and without the
                // feature nobody looks there.
                superblock.features = match self.members[member].is_called_bad() {
                    true => superblock.features.with(Features::BAD_BLOCKS),
                    false => superblock.features.without(Features::BAD_BLOCKS),
                };
                self.members[member].tell(&superblock).await
            };
            match told.await {
                Ok(()) => Ok(()),
                Err(DeviceError::NoSpace) => Err(DeviceError::NoSpace),
                Err(error) => {
                    self.lose(member, &error);
                    Ok(())
                }
            }
        };
        join_all(superblocks.into_iter().map(write)).await.into_iter().collect()
    }

    /// Before the members record something that a journal which has failed does not know: what it alone made durable
    /// must be on them, and the record says that it has failed. What it holds would spoil what comes after, such as a
    /// member that is rebuilt, were it to return and be replayed. Gives its number.
    async fn leave_journal(&self) -> Option<usize> {
        let journal = self.journal.as_ref().filter(|journal| journal.has_failed())?;
        if !journal.left.get() {
            // A member that fails this is recorded as failed, too. Only then is it left: whoever asked for this may be
            // dropped meanwhile.
            _ = self.flush_members(0).await;
            journal.left.set(true);
        }
        let number = journal.superblock.borrow().number;
        Some(number as usize)
    }

    /// Changes the superblocks of all members in use and writes them. Members that have failed, or fail this, are
    /// recorded as such on the others. The caller holds `recording`.
    pub(crate) async fn record(&self, change: impl Fn(&mut Superblock)) -> Result<(), DeviceError> {
        let state = self.state.as_ref().expect("there is state to record");
        self.unbroken()?;
        self.make_even().await?;
        self.look_for_rival().await;
        loop {
            self.unbroken()?;
            let lost_journal = self.leave_journal().await;
            // First, so that who has failed stays untold, and nothing is acknowledged: of a broken array its members
            // say what they said before.
            self.unbroken()?;
            self.drop_lost_twins();
            let next = self.next_superblocks(state, lost_journal, &change);
            let of = |(member, superblock): (usize, &Option<Superblock>)| Some((member, superblock.clone()?));
            let writes: Vec<(usize, Superblock)> = next.iter().enumerate().filter_map(of).collect();
            if writes.is_empty() {
                return Err(DeviceError::Gone);
            }
            self.raise_bitmap_events(writes[0].1.events).await?;
            if let Some(journal) = &self.journal
                && lost_journal.is_none()
            {
                if journal.follow(&writes[0].1).await == Err(DeviceError::NoSpace) {
                    return Err(DeviceError::NoSpace);
                }
                // It is left first. Were the members told of more events than it knows of, a power cut would make it
                // stale, with all that it alone holds.
                if journal.has_failed() {
                    continue;
                }
            }
            *state.superblocks.borrow_mut() = next;
            // Whoever asked for this may be dropped meanwhile; then the next record must begin by finishing it, and
            // nothing is answered before.
            state.uneven.set(true);
            state.begun.set(true);
            self.tell_twins(&writes[0].1).await;
            self.tell_spares(&writes[0].1).await;
            self.write_superblocks(writes).await?;
            state.uneven.set(false);
            state.begun.set(false);
            state.succeeded.set(false);
            state.claimed.set(true);
            self.members.iter().for_each(|member| member.set_unproven(false));
            let is_untold = |(member, superblock): (&Member<D>, &Option<Superblock>)| {
                member.state() == MemberState::Failed && superblock.is_some()
            };
            let untold = self.members.iter().zip(&*state.superblocks.borrow()).any(is_untold);
            if !untold && !self.has_lost_twin() {
                return Ok(());
            }
        }
    }

    /// What the members are to say next: none of those that have failed, of which the others, like of a journal with
    /// this number, are to say so.
    fn next_superblocks(
        &self,
        state: &State,
        lost_journal: Option<usize>,
        change: impl Fn(&mut Superblock),
    ) -> Vec<Option<Superblock>> {
        let failed = |member: usize| self.members.get(member).is_none_or(|m| m.state() == MemberState::Failed);
        let next = |(member, superblock): (usize, &Option<Superblock>)| {
            let mut superblock = superblock.clone().filter(|_| !failed(member))?;
            // Members that are merely missing too: from now on they are stale, and may come back only one event behind.
            for role in &mut superblock.roles {
                if matches!(MemberRole::from_number(*role), MemberRole::Active(column) if failed(column.into())) {
                    *role = MemberRole::Faulty.number();
                }
            }
            lost_journal.iter().for_each(|number| superblock.roles[*number] = MemberRole::Faulty.number());
            superblock.events += 1;
            superblock.updated = state.lookout.get().unwrap_or(superblock.updated);
            change(&mut superblock);
            superblock.seal(self.ppl.as_ref().and_then(Ppl::own_place));
            Some(superblock)
        };
        state.superblocks.borrow().iter().enumerate().map(next).collect()
    }

    /// Records that a device takes a failed member's place, whose data area this is; nothing of it is current. It has
    /// the number of a spare or former member, or gets one; an error if none is left for it. If it `returns`, this is
    /// what it says.
    pub(crate) async fn record_replacement(
        &self,
        member: usize,
        data: Range<Bytes>,
        identity: Uuid,
        (number, flags): (Option<usize>, u8),
        returns: Option<&Superblock>,
    ) -> Result<(), DeviceError> {
        let Some(state) = &self.state else { return Ok(()) };
        let _one = state.recording.acquire(0).await;
        self.make_even().await?;
        let (own, is_spare) = {
            let mut superblocks = state.superblocks.borrow_mut();
            let sibling = superblocks.iter().flatten().next().cloned().ok_or(DeviceError::Gone)?;
            let number = number.or_else(|| self.free_number(&sibling.roles)).ok_or(DeviceError::NoSpace)?;
            let is_spare = MemberRole::from_number(sibling.roles[number]) == MemberRole::Spare;
            let own = Superblock { member_flags: flags, ..sibling.of_newcomer(number, identity, data) };
            superblocks[member] = Some(Superblock { features: own.features.with(Features::RECOVERY), ..own });
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
            (superblocks[member].clone().expect("it was made above"), is_spare)
        };
        // A power cut may have left a record on it alone, under a number of events that the others gave another one
        // since. Were it to miss the next, it would be one behind and taken for current. So it says first that it is
        // further behind, or else that nothing of it counts. (Spares are known to be empty; and what has a number that
        // nobody had is judged by the one that it had before, until it is told.)
        let first = match returns {
            Some(it) if it.events < own.events => None,
            Some(it) => Some(Superblock { events: own.events.saturating_sub(1), ..it.clone() }),
            None => Some(own).filter(|_| !is_spare),
        };
        if let Some(first) = first {
            self.members[member].tell(&first).await?;
        }
        self.record(|_| {}).await
    }

    /// Records how far a rebuild has come. What lies before the mark must be durable.
    pub(crate) async fn record_mark(&self, member: usize, upto: Bytes) -> Result<(), DeviceError> {
        let Some(state) = &self.state else { return Ok(()) };
        let _one = state.recording.acquire(0).await;
        self.make_even().await?;
        if let Some(superblock) = &mut state.superblocks.borrow_mut()[member] {
            superblock.recovery = upto / Bytes::SECTOR;
        }
        self.record(|_| {}).await
    }

    /// Calls a member that is filled to its end rebuilt, here and on the members. Until these say so a power cut takes
    /// it back, and writes have to reckon with that. Whoever gives this up before has a rebuild that can be resumed.
    pub(crate) async fn record_rebuilt(&self, member: usize) -> Result<(), DeviceError> {
        let this = &self.members[member];
        let Some(state) = &self.state else {
            this.set_state(MemberState::Active);
            return Ok(());
        };
        let _one = state.recording.acquire(0).await;
        self.make_even().await?;
        if this.state() == MemberState::Failed {
            return Err(this.cause().unwrap_or(DeviceError::Gone));
        }
        if let Some(superblock) = &mut state.superblocks.borrow_mut()[member] {
            superblock.features = superblock.features.without(Features::RECOVERY);
            superblock.recovery = 0;
        }
        this.set_unproven(true);
        this.set_state(MemberState::Active);
        state.have_begun();
        self.record(|_| {}).await
    }
}
