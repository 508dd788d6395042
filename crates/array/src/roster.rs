//! The roster of an array that is opened: which of the devices given is what in it, by what their superblocks say.
//!
//! Only devices of one [creation](crate::creation) are looked at. Among them the newest superblock decides
//! ([`standing`](crate::standing)); who is not current by it is left out. Two rules go beyond it, as a power cut may
//! have met the very record that changed who is what: a spare that the newest calls a member is one, of which nothing
//! is filled; and who was to replace a member that is gone has its place.

use std::rc::Rc;

use device::{Buffer, Device, DeviceError, Request};
use runtime::Runtime;
use units::Bytes;

use crate::areas;
use crate::creation::{self, Belonging};
use crate::integrity::area::superblock_sum;
use crate::journal::Journal;
use crate::md::{
    Features, MemberRole, Resync, SUPERBLOCK_AT, SUPERBLOCK_SIZE, Superblock, SuperblockError, are_sealed,
};
use crate::open::OpenError;
use crate::readd::Away;
use crate::spare::Spare;
use crate::standing::{Standing, newest, split_brain};
use crate::timeout::{TIME_LIMIT, within};

/// A device that has a place in the array.
pub(crate) struct Placed<D> {
    pub device: D,
    /// As it is to be taken, which need not be as it was read.
    pub superblock: Superblock,
    /// The sum of what was read: only who finds something else there later knows that it has a rival.
    pub said: u32,
    /// The sum of the superblock that its checksums know. (A spare that has become a member has none yet that count,
    /// and is changed in the same way at each start until a record follows.)
    pub known: u32,
    /// Its number among the devices that were given.
    pub index: usize,
}

/// A device that is to replace a member: what it says, the device, and its number among the devices that were given.
pub(crate) type Replacing<D> = (Superblock, D, usize);

/// Who is what.
pub(crate) struct Roster<D> {
    /// What all are to say.
    pub newest: Superblock,
    /// By role; `None` for those that are missing.
    pub members: Vec<Option<Placed<D>>>,
    /// By role of the member that is to be replaced, which is there.
    pub twins: Vec<Option<Replacing<D>>>,
    pub journal: Option<Journal<D>>,
    pub spares: Vec<Rc<Spare<D>>>,
    pub away: Vec<Away<D>>,
    /// Whoever used the array last kept its [own log](crate::md::Superblock::own_ppl_at).
    pub sealed: bool,
    /// The largest block of all of them, spares too, as they may become members while the array is used.
    pub block: Bytes,
}

fn superblocks_of<D>(found: &[(usize, Superblock, D)]) -> Vec<&Superblock> {
    found.iter().map(|(_, superblock, _)| superblock).collect()
}

impl<D: Device> Roster<D> {
    /// Reads the superblocks of devices, in any order, and sorts them.
    pub async fn read(runtime: &Runtime, devices: Vec<D>) -> Result<Roster<D>, OpenError> {
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
        let Some(wanted) = newest(&superblocks_of(&found)).map(|newest| newest.array) else {
            return Err(OpenError::None(refused.unwrap_or(SuperblockError::Short { needed: 256, found: 0 })));
        };
        if let Some((device, other, _)) = found.iter().find(|(_, other, _)| other.array != wanted) {
            return Err(OpenError::Mixed { device: *device, found: other.array, wanted });
        }
        let given: Vec<usize> = found.iter().map(|(index, ..)| *index).collect();
        let Belonging { foreign, .. } =
            creation::sort(&superblocks_of(&found)).map_err(|said| OpenError::Disagree(said.of_given(&given)))?;
        // Nothing of theirs counts, and nothing is written to them: as if they had not been given.
        let is_foreign = |index: &usize| foreign.iter().any(|foreign| given[*foreign] == *index);
        found.retain(|(index, ..)| !is_foreign(index));
        let superblocks = superblocks_of(&found);
        let newest = newest(&superblocks).cloned().expect("the array has a device");
        if let Some((first, second)) = split_brain(&superblocks) {
            return Err(OpenError::SplitBrain { first: found[first].0, second: found[second].0 });
        }
        let sealed = are_sealed(&superblocks);
        let block = found.iter().map(|(_, _, device)| device.shape().logical_block).max().unwrap_or(Bytes::SECTOR);
        let members = newest.members as usize;
        let mut roster = Roster {
            newest,
            members: (0..members).map(|_| None).collect(),
            twins: (0..members).map(|_| None).collect(),
            journal: None,
            spares: Vec::new(),
            away: Vec::new(),
            sealed,
            block,
        };
        for (index, superblock, device) in found {
            roster.enter(runtime, index, superblock, device)?;
        }
        roster.succeed();
        Ok(roster)
    }

    fn enter(&mut self, runtime: &Runtime, index: usize, superblock: Superblock, device: D) -> Result<(), OpenError> {
        let standing = Standing::of(&superblock, &self.newest);
        if standing != Standing::Stale {
            let shape = device.shape();
            areas::check(&superblock, shape.size, shape.logical_block)
                .map_err(|error| OpenError::Misplaced { device: index, error })?;
        }
        match standing {
            Standing::Member(role) => {
                let said = superblock_sum(&superblock);
                let superblock = self.as_member(superblock);
                if let Some(first) = &self.members[role] {
                    return Err(OpenError::Twice { role, first: first.index, second: index });
                }
                let known = superblock_sum(&superblock);
                self.members[role] = Some(Placed { device, superblock, said, known, index });
            }
            Standing::Replacing(role) => self.twins[role] = Some((superblock, device, index)),
            Standing::Journal => {
                let journal = Journal::new(runtime, device, superblock);
                let members = self.members.len();
                if let Some((needed, size)) = journal.shortfall(members) {
                    return Err(OpenError::JournalTooSmall { size, needed, members });
                }
                self.journal = Some(journal);
            }
            Standing::Spare => self.spares.push(Rc::new(Spare { device: Rc::new(device), superblock })),
            Standing::Stale => self.away.push(Away { device: Rc::new(device), superblock }),
        }
        Ok(())
    }

    /// The superblock of a member. One that calls itself a spare was met by the power cut in the record that made a
    /// member of it: the others say so, and it does not know that it has to be filled.
    fn as_member(&self, superblock: Superblock) -> Superblock {
        if superblock.role() != MemberRole::Spare {
            return superblock;
        }
        let features = superblock.features.with(Features::RECOVERY);
        // As the record would have had it: a spare calls all of itself data, and checksums lie behind the data.
        let data_size = if self.newest.size.is_zero() { superblock.data_size } else { self.newest.size };
        Superblock { features, data_size, recovery: 0, ..superblock }
    }

    /// Who was to replace a member that is gone is the member now. It is whole if it says so and the newest superblock
    /// knows no other in that role: then the power cut met the record that put it there. Else it is as far as it is
    /// filled; and nothing of it counts if the cut may have met a write that had reached one of the two.
    fn succeed(&mut self) {
        let stopped = self.members.iter().flatten().all(|member| member.superblock.resync == Resync::Clean)
            && !self.newest.features.has(Features::JOURNAL);
        for (role, (place, twin)) in self.members.iter_mut().zip(&mut self.twins).enumerate() {
            let (None, Some((superblock, device, index))) = (&place, twin.take_if(|_| place.is_none())) else {
                continue;
            };
            let said = superblock_sum(&superblock);
            let own = MemberRole::Active(role as u16).number();
            let alone = self.newest.roles.iter().filter(|other| **other == own).count() == 1;
            let (features, unfinished) =
                (superblock.features.without(Features::REPLACEMENT), superblock.features.has(Features::RECOVERY));
            let superblock = match (alone && !unfinished, stopped && unfinished) {
                (true, _) => {
                    let mut whole = Superblock { features, recovery: 0, ..superblock };
                    // It had been given its log before that record, and is told that it is a member under the number of
                    // events that the others have.
                    if self.sealed {
                        whole.seal(whole.own_ppl_at());
                    }
                    whole
                }
                (false, true) => Superblock { features, ..superblock },
                (false, false) => Superblock { features: features.with(Features::RECOVERY), recovery: 0, ..superblock },
            };
            // Whose place it takes may come back, one event behind, and would be taken for current.
            for (number, other) in self.newest.roles.iter_mut().enumerate() {
                if *other == own && number != superblock.number as usize {
                    *other = MemberRole::Faulty.number();
                }
            }
            *place = Some(Placed { device, superblock, said, known: said, index });
        }
    }

    /// The superblocks of those that are there.
    pub fn current(&self) -> impl Iterator<Item = &Superblock> {
        self.members.iter().flatten().map(|member| &member.superblock)
    }

    /// How much of each member is used, whether or not it is there.
    pub fn sizes(&self) -> Vec<Bytes> {
        let size = |superblock: &Superblock| match superblock.size.is_zero() {
            true => superblock.data_size,
            false => superblock.size,
        };
        self.members
            .iter()
            .map(|member| size(member.as_ref().map_or(&self.newest, |member| &member.superblock)))
            .collect()
    }

    /// Members that are missing, or not filled: what a rebuild has not reached would be computed like what is missing.
    pub fn not_whole(&self) -> Vec<usize> {
        let is_whole = |member: &Placed<D>| !member.superblock.features.has(Features::RECOVERY);
        (0..self.members.len()).filter(|role| !self.members[*role].as_ref().is_some_and(is_whole)).collect()
    }
}
