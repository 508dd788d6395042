//! A new array.

use std::path::PathBuf;
use std::time::SystemTime;

use array::geometry::Level;
use array::md::{self, Consistency, CreateError, NewArray, NewMember, Stamp, Uuid};
use array::{Array, OpenOptions, add_checksums, checksum_room, format};
use device::{AnyDevice, Device};
use units::Bytes;
use uring::{FileDevice, FileOptions, Live, LiveOptions};

use crate::alias::told_apart;
use crate::members::{Permits, to_write, watch};
use crate::upkeep::{Done, takes_spares};
use crate::{Course, Place, RaidError};

/// What is to be made.
pub struct Plan<'p> {
    /// Level and layout.
    pub level: Level,
    /// The chunk.
    pub stripe_unit: Bytes,
    /// What becomes a member, in order.
    pub members: &'p [Place],
    /// What closes the write hole, if it is a device.
    pub journal: Option<&'p Place>,
    /// What waits for a member to fail.
    pub spares: &'p [Place],
    /// Leave to write those that exist; the others are made.
    pub permits: &'p Permits,
    /// How large members are that do not exist yet.
    pub size: Bytes,
    /// What is done about the write hole and resyncs; the best that the level has, if not given.
    pub consistency: Option<Consistency>,
    /// The array's name.
    pub name: String,
    /// Redundancy already holds, or it is not minded that it does not.
    pub assume_clean: bool,
    /// Members keep a checksum of every block.
    pub integrity: bool,
}

/// Makes the array; where members existed before, its redundancy is computed from what is on them.
pub fn create(plan: &Plan, course: &Course) -> Result<Done, RaidError> {
    if !plan.spares.is_empty() {
        takes_spares(plan.level, plan.members.len())?;
    }
    let live = Live::start(&LiveOptions::default());
    let mut made = Vec::new();
    let created = make(&live, plan, course, &mut made);
    if created.is_err() {
        // Files that were made for an array that is none are of no use. The error that is returned says more than one
        // of removing them.
        made.iter().for_each(|path| drop(std::fs::remove_file(path)));
    }
    created
}

fn make(live: &Live, plan: &Plan, course: &Course, made: &mut Vec<PathBuf>) -> Result<Done, RaidError> {
    let runtime = live.runtime();
    let mut open = |place: &Place| match place.path().filter(|path| !plan.permits.contains_key(*path)) {
        None => runtime.block_on(to_write(live, place, plan.permits)),
        Some(path) => {
            let device = FileDevice::create(live, path, plan.size, &FileOptions::buffered())?;
            made.push(path.to_owned());
            Ok(AnyDevice::new(device))
        }
    };
    let members: Vec<AnyDevice> = plan.members.iter().map(&mut open).collect::<Result<_, RaidError>>()?;
    let journal = plan.journal.map(&mut open).transpose()?;
    let spares: Vec<AnyDevice> = plan.spares.iter().map(&mut open).collect::<Result<_, RaidError>>()?;
    let there = |place: &&Place| place.path().is_none_or(|path| plan.permits.contains_key(path));
    let opened = plan.members.iter().zip(&members).chain(plan.journal.iter().copied().zip(&journal));
    let opened: Vec<(&Place, &AnyDevice)> =
        opened.chain(plan.spares.iter().zip(&spares)).filter(|(place, _)| there(place)).collect();
    runtime.block_on(told_apart(&opened))?;
    // New files are zeroes, and so is their parity.
    let all_new = plan.members.iter().all(|place| place.path().is_some_and(|path| made.iter().any(|new| new == path)));
    let devices: Vec<AnyDevice> = members.into_iter().chain(journal).collect();
    // md is not to know of what lies behind the data, so it is told of smaller members.
    let room = |size: Bytes| if plan.integrity { size.saturating_sub(checksum_room(size)) } else { size };
    let identity = || Ok::<Uuid, RaidError>(Uuid(host::identity::random().map_err(RaidError::Identity)?));
    let sized = devices.iter().map(|device| Ok(NewMember { size: room(device.shape().size), member: identity()? }));
    let sized: Vec<NewMember> = sized.collect::<Result<_, RaidError>>()?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let clean = plan.assume_clean || all_new;
    let new = NewArray {
        level: plan.level,
        chunk: plan.stripe_unit,
        name: plan.name.clone(),
        array: identity()?,
        now: Stamp(now),
        consistency: match plan.journal {
            Some(_) => Consistency::Journal,
            None => plan.consistency.unwrap_or(Consistency::default_of(plan.level)),
        },
        clean,
    };
    let (superblocks, _) = md::create(&new, &sized).map_err(|error| match error {
        // md is told less than the device holds, and no names.
        CreateError::TooSmall { device, .. } => {
            let place = plan.members.iter().chain(plan.journal).nth(device).expect("it was given").clone();
            RaidError::NoRoomForData { place, size: devices[device].shape().size }
        }
        error => error.into(),
    })?;
    if plan.integrity {
        runtime.block_on(add_checksums(&devices, &superblocks)).map_err(RaidError::failed)?;
    }
    runtime.block_on(format(&devices, &superblocks)).map_err(RaidError::failed)?;
    let mut array = runtime.block_on(Array::open(runtime, "array", devices, OpenOptions::default()))?;
    watch(&array, course);
    for spare in spares {
        array.widen(spare.shape().logical_block);
        runtime.block_on(array.add_spare(spare, identity()?)).map_err(RaidError::failed)?;
    }
    Done::stopped(live, &array)
}
