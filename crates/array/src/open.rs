//! Opening an array: which devices are its members, which of them are current, and what has to be done before it may be used.
//!
//! The newest superblock decides ([`standing`](crate::standing)); who is not current by it is left out. What a log holds is written again, and where
//! parity may not fit and something would have to be computed from it, the array is refused.

use std::rc::Rc;

use device::{Buffer, Device, DeviceError, Request};
use runtime::Runtime;
use units::Bytes;

use crate::array::{Array, AssembleError};
use crate::geometry::{Geometry, GeometryError, Level};
use crate::integrity::area::superblock_sum;
use crate::intent::Intent;
use crate::journal::Journal;
use crate::md::{
    Features, MemberRole, Numbers, Resync, SUPERBLOCK_AT, SUPERBLOCK_SIZE, Superblock, SuperblockError, UnknownLevel,
    Uuid, are_sealed,
};
use crate::member::MemberState;
use crate::ppl::Ppl;
use crate::readd::Away;
use crate::spare::Spare;
use crate::standing::{Standing, newest, split_brain};
use crate::state::State;
use crate::timeout::{TIME_LIMIT, within};
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
    /// A copy.
    #[error("devices {first} and {second} both claim role {role} of the array and are equally fresh; give one of them")]
    Twice { role: usize, first: usize, second: usize },
    /// Halves that went on alone.
    #[error(
        "devices {first} and {second} call each other failed: each went on without the other; give only the one to believe"
    )]
    SplitBrain { first: usize, second: usize },
    /// Too few.
    #[error("{missing} of {members} members are missing or stale, {level} survives {endurance}; give more of them")]
    TooFew { missing: usize, members: usize, level: &'static str, endurance: String },
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
    /// Two ways to read it.
    #[error(
        "the members are of different sizes, and none says how chunks lie behind the end of the smallest, which Linux before 3.14 and from then on did in two ways; `mdadm --assemble --update=layout-original`, or layout-alternate, says it on them"
    )]
    Zones,
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
    /// The journal cannot be used.
    #[error(
        "the journal says that its log holds {size:#}, where {members} members need {needed:#}: its superblock is damaged; leave it away and open the array by force: what it holds is then lost, and parity has to be made to fit"
    )]
    JournalTooSmall { size: Bytes, needed: Bytes, members: usize },
    /// The log could not be replayed.
    #[error(
        "what was under way when the array was last in use could not be completed: {0}; replace the member that fails"
    )]
    Replay(DeviceError),
}

/// The geometry that a superblock means, of members of which so much is used.
pub fn geometry_of(it: &Superblock, sizes: &[Bytes]) -> Result<Geometry, OpenError> {
    // The layout of level 0 is what its field says only if the feature says so, too: older mdadm left anything there (`super_1_validate`).
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
        let superblocks: Vec<&Superblock> = found.iter().map(|(_, superblock, _)| superblock).collect();
        let sealed = are_sealed(&superblocks);
        let Some(mut newest) = newest(&superblocks).cloned() else {
            return Err(OpenError::None(refused.unwrap_or(SuperblockError::Short { needed: 256, found: 0 })));
        };
        if let Some((device, other, _)) = found.iter().find(|(_, other, _)| other.array != newest.array) {
            return Err(OpenError::Mixed { device: *device, found: other.array, wanted: newest.array });
        }
        if let Some((first, second)) = split_brain(&superblocks) {
            return Err(OpenError::SplitBrain { first: found[first].0, second: found[second].0 });
        }
        // Those of spares, too, as they may become members while the array is used.
        let block = found.iter().map(|(_, _, device)| device.shape().logical_block).max().unwrap_or(Bytes::SECTOR);
        let members = newest.members as usize;
        let mut by_role: Vec<Option<(usize, Superblock, D)>> = (0..members).map(|_| None).collect();
        let mut twins: Vec<Option<(Superblock, D)>> = (0..members).map(|_| None).collect();
        let (mut journal, mut spares, mut away) = (None, Vec::new(), Vec::new());
        // What is on the devices, whatever is made of it below: only who finds something else there later knows that it has a rival.
        let mut said: Vec<Option<u32>> = vec![None; members];
        for (index, superblock, device) in found {
            let as_read = superblock_sum(&superblock);
            let role = match Standing::of(&superblock, &newest) {
                Standing::Member(role) => role,
                Standing::Replacing(role) => {
                    twins[role] = Some((superblock, device));
                    continue;
                }
                Standing::Journal => {
                    let found = Journal::new(runtime, device, superblock);
                    if let Some((needed, size)) = found.shortfall(members) {
                        return Err(OpenError::JournalTooSmall { size, needed, members });
                    }
                    journal = Some(found);
                    continue;
                }
                Standing::Spare => {
                    spares.push(Rc::new(Spare { device: Rc::new(device), superblock }));
                    continue;
                }
                Standing::Stale => {
                    away.push(Away { device: Rc::new(device), superblock });
                    continue;
                }
            };
            // The power cut met the record that made a member of it: the others say so, and it does not know that it has to be filled.
            let superblock = match superblock.role() {
                MemberRole::Spare => {
                    let features = superblock.features.with(Features::RECOVERY);
                    // As the record would have had it: a spare calls all of itself data, and checksums lie behind the data.
                    let data_size = if newest.size.is_zero() { superblock.data_size } else { newest.size };
                    Superblock { features, data_size, recovery: 0, ..superblock }
                }
                _ => superblock,
            };
            if let Some((first, ..)) = by_role[role] {
                return Err(OpenError::Twice { role, first, second: index });
            }
            by_role[role] = Some((index, superblock, device));
            said[role] = Some(as_read);
        }
        // What checksums know: what is changed below is not on the devices. (A spare that has become a member
        // has none yet that count, and is changed in the same way at each start until a record follows.)
        let mut sums: Vec<Option<u32>> =
            by_role.iter().map(|member| member.as_ref().map(|(_, superblock, _)| superblock_sum(superblock))).collect();
        // Who was to replace a member that is gone is the member now. It is whole if it says so and the newest superblock knows no other
        // in that role: then the power cut met the record that put it there. Else it is as far as it is filled; and nothing of it
        // counts if the cut may have met a write that had reached one of the two.
        let stopped = by_role.iter().flatten().all(|(_, superblock, _)| superblock.resync == Resync::Clean)
            && !newest.features.has(Features::JOURNAL);
        for (role, (place, twin)) in by_role.iter_mut().zip(&mut twins).enumerate() {
            let (None, Some((superblock, device))) = (&place, twin.take_if(|_| place.is_none())) else { continue };
            said[role] = Some(superblock_sum(&superblock));
            sums[role] = said[role];
            let own = MemberRole::Active(role as u16).number();
            let alone = newest.roles.iter().filter(|other| **other == own).count() == 1;
            let (features, unfinished) =
                (superblock.features.without(Features::REPLACEMENT), superblock.features.has(Features::RECOVERY));
            let superblock = match (alone && !unfinished, stopped && unfinished) {
                (true, _) => Superblock { features, recovery: 0, ..superblock },
                (false, true) => Superblock { features, ..superblock },
                (false, false) => Superblock { features: features.with(Features::RECOVERY), recovery: 0, ..superblock },
            };
            // Whose place it takes may come back, one event behind, and would be taken for current.
            for (number, other) in newest.roles.iter_mut().enumerate() {
                if *other == own && number != superblock.number as usize {
                    *other = MemberRole::Faulty.number();
                }
            }
            *place = Some((usize::MAX, superblock, device));
        }
        let size = |superblock: &Superblock| match superblock.size.is_zero() {
            true => superblock.data_size,
            false => superblock.size,
        };
        let sizes: Vec<Bytes> = by_role
            .iter()
            .map(|member| size(member.as_ref().map_or(&newest, |(_, superblock, _)| superblock)))
            .collect();
        let geometry = geometry_of(&newest, &sizes)?;
        let level = geometry.level();
        let missing: Vec<usize> = (0..members).filter(|role| by_role[*role].is_none()).collect();
        if !geometry.survives(|member| missing.contains(&member)) {
            let (missing, endurance) = (missing.len(), level.endurance(members));
            return Err(OpenError::TooFew { missing, members, level: level.name(), endurance });
        }
        let current = || by_role.iter().flatten().map(|(_, superblock, _)| superblock);
        let dirty =
            level.losses_survived(members) > 0 && current().any(|superblock| superblock.resync != Resync::Clean);
        // A resync that was under way says how far; only what writes left behind is what a log can mend.
        let resyncing = current().any(|s| !matches!(s.resync, Resync::Clean | Resync::From(Bytes::ZERO)));
        let own_events: Vec<u64> =
            by_role.iter().map(|member| member.as_ref().map_or(0, |(_, s, _)| s.events)).collect();
        // What a rebuild has not reached would be computed like what is missing.
        let is_whole = |member: &(usize, Superblock, D)| !member.1.features.has(Features::RECOVERY);
        let not_whole: Vec<usize> =
            (0..members).filter(|role| !by_role[*role].as_ref().is_some_and(is_whole)).collect();
        // A growth whose record the power cut met is known to some: it has not happened, and the next record says so to all.
        let used = sizes.iter().copied().min().unwrap_or(Bytes::ZERO);
        let agreed = |superblock: &Superblock| match superblock.size.is_zero() {
            true => superblock.clone(),
            false => Superblock { size: used, ..superblock.clone() },
        };
        let superblocks: Vec<Option<Superblock>> =
            by_role.iter().map(|member| member.as_ref().map(|(_, superblock, _)| agreed(superblock))).collect();
        let devices = by_role.into_iter().map(|member| member.map(|(_, s, device)| (device, s.data_offset))).collect();
        let mut array = Array::assemble_with(runtime, name, geometry, devices)?;
        array.widen(block);
        for (role, superblock) in superblocks.iter().enumerate() {
            let rebuilding = superblock.as_ref().filter(|superblock| superblock.features.has(Features::RECOVERY));
            if let Some(superblock) = rebuilding {
                array.members[role].set_state(MemberState::Rebuilding(array.filled_upto(role, superblock)));
            }
        }
        for (role, superblock) in superblocks.iter().enumerate() {
            if let Some(superblock) = superblock {
                array.recall_bad(role, superblock).await.map_err(|error| OpenError::Device { device: role, error })?;
            }
        }
        array.open_checksums(&superblocks, &sums).await;
        for (member, said) in array.members.iter().zip(said) {
            said.into_iter().for_each(|sum| member.found(sum));
        }
        for (role, twin) in twins.into_iter().enumerate() {
            let Some((superblock, device)) = twin else { continue };
            let upto = array.filled_upto(role, &superblock);
            let as_read = superblock.clone();
            let twin = Twin::new(runtime, device, superblock, upto);
            twin.own().found(superblock_sum(&as_read));
            if array.has_checksums()
                && let Err(error) = twin.own().recall_checksums(&as_read).await
            {
                twin.lose(&error);
            }
            if dirty || newest.features.has(Features::JOURNAL) {
                // The power cut may have met a write that reached one of the two.
                twin.begin_anew();
            }
            array.members[role].set_twin(Some(Rc::new(twin)));
        }
        *array.spares.borrow_mut() = spares;
        *array.away.borrow_mut() = away;
        array.intent = array.read_bitmaps(&superblocks, &own_events).await;
        array.ppl = Ppl::of(runtime, &superblocks);
        if array.ppl.is_none() && level.parities() > 0 {
            let behind_bitmap = array.intent.as_ref().map_or(Bytes::ZERO, Intent::end);
            array.ppl = Ppl::own(runtime, &superblocks, behind_bitmap);
        }
        // Without its journal an array is as one that was not stopped. The next record, which says that there is no journal, must say that too: the power may
        // go before parity has been made to fit.
        let journal_missing = newest.features.has(Features::JOURNAL) && journal.is_none();
        let kept = sealed || !array.ppl.as_ref().is_some_and(Ppl::is_own);
        array.state = Some(State::new(runtime, superblocks, &newest, dirty || journal_missing, !kept));
        let mut fits = !dirty;
        if let Some(ppl) = &array.ppl {
            if !ppl.is_own() && !matches!(level, Level::Raid5(_)) {
                return Err(OpenError::Feature("PPL at a level that is not 5"));
            }
            fits = array.replay_logs(ppl, dirty, kept).await.map_err(OpenError::Replay)? && !resyncing;
        }
        if newest.features.has(Features::JOURNAL) {
            if level.parities() == 0 {
                return Err(OpenError::Feature("journal at a level without parity"));
            }
            if journal_missing && !options.force_dirty_degraded {
                return Err(OpenError::JournalMissing);
            }
            // Without it parity may not fit anywhere.
            fits &= !journal_missing;
        }
        if !fits && !not_whole.is_empty() && level.parities() > 0 && !options.force_dirty_degraded {
            return Err(OpenError::DirtyDegraded { missing: not_whole });
        }
        array.state.as_ref().expect("it was made above").resync_due.set(!fits);
        array.journal = journal;
        array.tell_missing().await.map_err(OpenError::Replay)?;
        array.trust_logs(fits).await.map_err(OpenError::Replay)?;
        if let Some(journal) = &array.journal {
            let rest = array.replay_journal(journal).await.map_err(OpenError::Replay)?;
            journal.begin_anew().await.map_err(OpenError::Replay)?;
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
}
