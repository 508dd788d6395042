//! Opening an array: which devices are its members, which of them are current, and what has to be done before it may be
//! used.
//!
//! Who is what, the [`roster`](crate::roster) says. What a log holds is written again, and where parity may not fit and
//! something would have to be computed from it, the array is refused.

use std::rc::Rc;

use device::{Device, DeviceError};
use runtime::Runtime;
use units::Bytes;

use crate::areas::{self, Misplaced, Uses};
use crate::array::{Array, AssembleError};
use crate::creation::Disagreement;
use crate::geometry::{Geometry, GeometryError, Level};
use crate::integrity::FoundHeader;
use crate::integrity::area::superblock_sum;
use crate::intent::Intent;
use crate::journal::Journal;
use crate::md::{Features, MOST_WITH_JOURNAL, Numbers, Resync, Superblock, SuperblockError, UnknownLevel, Uuid};
use crate::member::MemberState;
use crate::ppl::Ppl;
use crate::roster::{Replacing, Roster};
use crate::settings::adopt;
use crate::state::State;
use crate::twin::Twin;

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
    /// Two creations of one array, or two descriptions of it.
    #[error("{0}")]
    Disagree(Disagreement),
    /// An area of a device lies where it may not be written.
    #[error("device {device}: {error}; nothing was written. Omit the device if the array can do without it")]
    Misplaced { device: usize, error: Misplaced },
    /// A copy.
    #[error(
        "devices {first} and {second} both claim role {role} of the array with equal event counts: one is a copy of the other. Omit one of them"
    )]
    Twice { role: usize, first: usize, second: usize },
    /// Halves that went on alone.
    #[error(
        "split brain: devices {first} and {second} call each other failed, and each was used without the other. Keep one, and omit the other"
    )]
    SplitBrain { first: usize, second: usize },
    /// Too few.
    #[error("{missing} of {members} members are missing or stale, and {level} survives {endurance}. Name more of them")]
    TooFew { missing: usize, members: usize, level: &'static str, endurance: String },
    /// The write hole.
    #[error(
        "the array was not stopped, and members {missing:?} are missing or not rebuilt: parity may not match where a write was in flight, so their data may be computed wrongly there. Use --force to accept that"
    )]
    DirtyDegraded { missing: Vec<usize> },
    /// Not understood.
    #[error(transparent)]
    Level(#[from] UnknownLevel),
    /// Cannot be.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Two ways to read it.
    #[error(
        "the members differ in size, and none says which layout level 0 uses behind the end of the smallest (Linux changed it in 3.14). Set it with `mdadm --assemble --update=layout-original`, or `--update=layout-alternate`"
    )]
    Zones,
    /// Cannot be.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// A feature that the level does not have.
    #[error("the array has a {0}, which is not supported. See `mdadm --examine`")]
    Feature(&'static str),
    /// md refuses it, too.
    #[error(
        "the array has a journal and {members} members, and a journal takes at most {MOST_WITH_JOURNAL}. Omit the journal and use --force"
    )]
    JournalOfTooMany { members: usize },
    /// A layout that nothing is computed for.
    #[error(
        "the array has a DDF layout of level 6 with chunks of {chunk:#}, and at most 1 MiB is supported. Use it with mdadm"
    )]
    Ddf { chunk: Bytes },
    /// The journal is not there.
    #[error(
        "the array has a journal, and none of the devices is its current journal. Name it too, or use --force: writes that only the journal holds are then lost, and parity is resynced"
    )]
    JournalMissing,
    /// The journal cannot be used.
    #[error(
        "the journal's superblock is damaged: it gives its log {size:#}, and {members} members need {needed:#}. Omit the journal and use --force: writes that only the journal holds are then lost, and parity is resynced"
    )]
    JournalTooSmall { size: Bytes, needed: Bytes, members: usize },
    /// What Linux left in it in write-back mode fills it.
    #[error(
        "the journal is in use with {used:#} of {size:#}, and {rest:#} of that have no parity yet: there is no room to complete them safely. Assemble the array once with mdadm, which completes them, or omit the journal and use --force: writes that only the journal holds are then lost"
    )]
    JournalFull { rest: Bytes, used: Bytes, size: Bytes },
    /// The log could not be replayed.
    #[error(
        "writes that were in flight when the array was last used cannot be completed: {0}. Replace the failing member"
    )]
    Replay(DeviceError),
}

/// The geometry that a superblock means, of members of which so much is used.
pub fn geometry_of(it: &Superblock, sizes: &[Bytes]) -> Result<Geometry, OpenError> {
    // The layout of level 0 is what its field says only if the feature says so, too: older mdadm left anything there
    // (`super_1_validate`).
    let layout = if it.level == 0 && !it.features.has(Features::ZONES) { 0 } else { it.layout };
    let geometry = Geometry::new(Numbers { level: it.level, layout }.level()?, it.chunk, sizes)?;
    match layout == 0 && geometry.depends_on_zones() {
        true => Err(OpenError::Zones),
        false => Ok(geometry),
    }
}

/// Leave to open what could be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// Open an array that was not stopped and lacks members.
    pub force_dirty_degraded: bool,
}

/// In which state an array is found.
struct Open {
    /// It was not stopped.
    dirty: bool,
    /// A resync that was under way says how far; only what writes left behind is what a log can mend.
    resyncing: bool,
    /// Members that are missing, or not filled.
    not_whole: Vec<usize>,
    /// It has a journal.
    journaled: bool,
    /// Its own log was kept.
    sealed: bool,
    /// It is to be opened even so.
    force: bool,
}

impl<D: Device> Array<D> {
    /// Opens the array whose members these devices are, in any order. Devices without a usable superblock, and stale
    /// ones, are left out as if they were not there.
    pub async fn open(
        runtime: &Runtime,
        name: &str,
        devices: Vec<D>,
        options: OpenOptions,
    ) -> Result<Array<D>, OpenError> {
        let roster = Roster::read(runtime, devices).await?;
        let members = roster.members.len();
        let sizes = roster.sizes();
        let geometry = geometry_of(&roster.newest, &sizes)?;
        let level = geometry.level();
        if geometry.chunk_is_too_large() {
            return Err(OpenError::Ddf { chunk: geometry.chunk() });
        }
        if roster.journal.is_some() && members > MOST_WITH_JOURNAL {
            return Err(OpenError::JournalOfTooMany { members });
        }
        let missing: Vec<usize> = (0..members).filter(|role| roster.members[*role].is_none()).collect();
        if !geometry.survives(|member| missing.contains(&member)) {
            let (missing, endurance) = (missing.len(), level.endurance(members));
            return Err(OpenError::TooFew { missing, members, level: level.name(), endurance });
        }
        let journaled = roster.newest.features.has(Features::JOURNAL);
        let mut open = Open {
            dirty: level.losses_survived(members) > 0
                && roster.current().any(|superblock| superblock.resync != Resync::Clean),
            resyncing: roster.current().any(|s| !matches!(s.resync, Resync::Clean | Resync::From(Bytes::ZERO))),
            not_whole: roster.not_whole(),
            journaled,
            sealed: roster.sealed,
            force: options.force_dirty_degraded,
        };
        // A growth whose record the power cut met is known to some: it has not happened, and the next record says so to
        // all.
        let used = sizes.into_iter().min().unwrap_or(Bytes::ZERO);
        let Roster { newest, members, twins, journal, spares, away, block, .. } = roster;
        let own_events: Vec<u64> = members.iter().map(|it| it.as_ref().map_or(0, |it| it.superblock.events)).collect();
        let said: Vec<Option<u32>> = members.iter().map(|it| it.as_ref().map(|it| it.said)).collect();
        let known: Vec<Option<u32>> = members.iter().map(|it| it.as_ref().map(|it| it.known)).collect();
        let given: Vec<usize> = members.iter().map(|it| it.as_ref().map_or(0, |it| it.index)).collect();
        let (mut superblocks, mut devices) = (Vec::new(), Vec::new());
        for member in members {
            // A change of the array's settings that the power cut met is on all members, but for the last words of
            // some.
            let (superblock, device) = member.map(|it| (adopt(it.superblock, &newest), it.device)).unzip();
            devices.push(device.zip(superblock.as_ref().map(|it: &Superblock| it.data_offset)));
            superblocks.push(superblock.map(|it| match it.size.is_zero() {
                true => it,
                false => Superblock { size: used, ..it },
            }));
        }
        let mut array = Array::assemble_with(runtime, name, geometry, devices)?;
        array.widen(block);
        // Bitmaps and headers of checksums are read before anything is written: where they say that they end is part of
        // what has to fit.
        array.intent = array.read_bitmaps(&superblocks, &own_events).await;
        array.ppl = Ppl::of(runtime, &superblocks);
        if array.ppl.is_none() && level.parities() > 0 {
            let behind_bitmap = array.intent.as_ref().map_or(Bytes::ZERO, Intent::end);
            array.ppl = Ppl::own(runtime, &superblocks, behind_bitmap);
        }
        let headers = array.find_checksums(&superblocks).await;
        let has_sums = headers.iter().any(|header| matches!(header, Some(Ok(Some(_)))));
        array.check_placed(&superblocks, &twins, &given, has_sums)?;
        for (role, error) in array.recall(&superblocks, &known, headers).await {
            // As if it had not been given, if the array can do without.
            array.lose(role, &error);
            if array.is_broken() {
                return Err(OpenError::Device { device: given[role], error });
            }
            if !open.not_whole.contains(&role) {
                open.not_whole.push(role);
            }
        }
        for (member, said) in array.members.iter().zip(said) {
            said.into_iter().for_each(|sum| member.found(sum));
        }
        array.recall_twins(twins, open.dirty || journaled).await;
        *array.spares.borrow_mut() = spares;
        *array.away.borrow_mut() = away;
        array.complete(superblocks, &newest, journal, open).await?;
        Ok(array)
    }

    /// What members keep beside their data: how far they are filled, what of them is bad, and their checksums, which
    /// know superblocks of these sums. Gives those whose bad blocks cannot be read.
    async fn recall(
        &self,
        superblocks: &[Option<Superblock>],
        known: &[Option<u32>],
        headers: Vec<Option<FoundHeader>>,
    ) -> Vec<(usize, DeviceError)> {
        let mut unread = Vec::new();
        for (role, superblock) in superblocks.iter().enumerate() {
            let Some(superblock) = superblock else { continue };
            if superblock.features.has(Features::RECOVERY) {
                self.members[role].set_state(MemberState::Rebuilding(self.filled_upto(role, superblock)));
            }
            self.members[role].set_last(superblock.is_write_mostly());
            unread.extend(self.recall_bad(role, superblock).await.err().map(|error| (role, error)));
        }
        self.open_checksums(superblocks, known, headers).await;
        unread
    }

    /// Refuses the members, and those that are to replace some, if an area of theirs does not lie where the array may
    /// write it. `given` are the members' numbers among the devices.
    fn check_placed(
        &self,
        superblocks: &[Option<Superblock>],
        twins: &[Option<Replacing<D>>],
        given: &[usize],
        checksums: bool,
    ) -> Result<(), OpenError> {
        let check = |role: usize, it: &Superblock, device: &D, index: usize| {
            let (shape, uses) = (device.shape(), Uses { checksums, ..self.uses(role) });
            areas::check_in(it, shape.size, shape.logical_block, &uses)
                .map_err(|error| OpenError::Misplaced { device: index, error })
        };
        for (role, superblock) in superblocks.iter().enumerate() {
            if let (Some(superblock), Some(device)) = (superblock, self.device(role)) {
                check(role, superblock, &device, given[role])?;
            }
            if let Some((superblock, device, index)) = &twins[role] {
                check(role, superblock, device, *index)?;
            }
        }
        Ok(())
    }

    /// Puts beside their members the devices that are to replace them. What they hold does not count if the power cut
    /// `may` have met a write that reached one of the two.
    async fn recall_twins(&self, twins: Vec<Option<Replacing<D>>>, may: bool) {
        for (role, twin) in twins.into_iter().enumerate() {
            let Some((superblock, device, _)) = twin else { continue };
            let upto = self.filled_upto(role, &superblock);
            let as_read = superblock.clone();
            let twin = Twin::new(&self.runtime, device, superblock, upto);
            twin.own().found(superblock_sum(&as_read));
            if self.has_checksums()
                && let Err(error) = twin.own().recall_checksums(&as_read).await
            {
                twin.lose(&error);
            }
            if may {
                twin.begin_anew();
            }
            self.members[role].set_twin(Some(Rc::new(twin)));
        }
    }

    /// Completes what was under way when the array was last in use, by its logs, or refuses to use it.
    async fn complete(
        &mut self,
        superblocks: Vec<Option<Superblock>>,
        newest: &Superblock,
        journal: Option<Journal<D>>,
        open: Open,
    ) -> Result<(), OpenError> {
        let level = self.geometry.level();
        // Without its journal an array is as one that was not stopped. The next record, which says that there is no
        // journal, must say that too: the power may go before parity has been made to fit.
        let journal_missing = open.journaled && journal.is_none();
        let kept = open.sealed || !self.ppl.as_ref().is_some_and(Ppl::is_own);
        self.state = Some(State::new(&self.runtime, superblocks, newest, open.dirty || journal_missing, !kept));
        let mut fits = !open.dirty;
        if let Some(ppl) = &self.ppl {
            if !ppl.is_own() && !matches!(level, Level::Raid5(_)) {
                return Err(OpenError::Feature("PPL at a level that is not 5"));
            }
            fits = self.replay_logs(ppl, open.dirty, kept).await.map_err(OpenError::Replay)? && !open.resyncing;
        }
        if open.journaled {
            if level.parities() == 0 {
                return Err(OpenError::Feature("journal at a level without parity"));
            }
            if journal_missing && !open.force {
                return Err(OpenError::JournalMissing);
            }
            // Without it parity may not fit anywhere.
            fits &= !journal_missing;
        }
        if !fits && !open.not_whole.is_empty() && level.parities() > 0 && !open.force {
            return Err(OpenError::DirtyDegraded { missing: open.not_whole });
        }
        self.state.as_ref().expect("it was made above").resync_due.set(!fits);
        self.recall_resync();
        self.journal = journal;
        self.tell_missing().await.map_err(OpenError::Replay)?;
        self.trust_logs(fits).await.map_err(OpenError::Replay)?;
        let Some(journal) = &self.journal else {
            let state = self.state.as_ref().expect("it was made above");
            for superblock in state.superblocks.borrow_mut().iter_mut().flatten() {
                superblock.features = superblock.features.without(Features::JOURNAL);
            }
            return Ok(());
        };
        self.replay_journal(journal).await
    }
}
