//! Members as devices: block devices past the page cache, files through it, exports over their connections.

use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

use array::md::{SUPERBLOCK_AT, SUPERBLOCK_SIZE, Stamp, Superblock, SuperblockError};
use array::{Array, MemberState, OpenOptions};
use device::filter::Overlay;
use device::{AnyDevice, Buffer, Device, DeviceError, Request};
use host::guard::WritePermit;
use host::signature::MAGICS;
use nbd::remote;
use nbd::{PATIENCE, Steady, ToUri, Uri};
use units::{Bytes, Duration};
use uring::{FileDevice, FileOptions, Live};

use crate::given::given;
use crate::label::MemberLabel;
use crate::{Course, Place, RaidError};

/// Leave to write to paths; exports need none of this machine's.
pub type Permits = HashMap<PathBuf, WritePermit>;

/// What a path is opened with.
fn options(path: &Path) -> FileOptions {
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    if is_file { FileOptions::buffered() } else { FileOptions::direct() }
}

/// A path as a device that may be written.
pub(crate) fn writable(live: &Live, permit: &WritePermit) -> Result<FileDevice, RaidError> {
    Ok(FileDevice::open_writable(live, permit, &options(permit.path()))?)
}

/// An export as a device, which is recognised by its superblock when it is connected again; its server may take no
/// longer than that to offer it.
pub(crate) async fn connected(live: &Live, uri: &Uri, within: Duration) -> Result<Steady<ToUri>, RaidError> {
    let device = Steady::to(live, uri, within).await?;
    let recognised = device.recognise(MemberLabel).await;
    recognised.map_err(|error| RaidError::Device { place: Place::Nbd(Box::new(uri.clone())), error })?;
    Ok(device)
}

/// An export as a device that is written. One that takes no writes would count as failed with the first of them, when a
/// member's place has been given to it already.
pub(crate) async fn connected_to_write(live: &Live, uri: &Uri, within: Duration) -> Result<Steady<ToUri>, RaidError> {
    let device = connected(live, uri, within).await?;
    match remote::takes_writes(&device).await {
        true => Ok(device),
        false => Err(RaidError::ReadOnly { place: Place::Nbd(Box::new(uri.clone())) }),
    }
}

/// A path as a device that is only read.
pub(crate) fn readable(live: &Live, path: &Path) -> Result<FileDevice, RaidError> {
    Ok(FileDevice::open_read_only(live, path, &options(path))?)
}

/// What an array writes to a member that is only read, and is kept in memory: superblocks, what its logs replay, areas
/// that are cleared.
const MOST_OVER: Bytes = Bytes::gib(1);

/// A device in front of one that is only read.
pub(crate) fn over(live: &Live, device: impl Device + 'static) -> AnyDevice {
    AnyDevice::new(Overlay::new(live.runtime(), device, MOST_OVER))
}

/// Opens a place for reading only.
pub(crate) async fn to_read(live: &Live, place: &Place) -> Result<AnyDevice, RaidError> {
    match place {
        Place::Path(path) => Ok(AnyDevice::new(readable(live, path)?)),
        Place::Nbd(uri) => Ok(AnyDevice::new(connected(live, uri, PATIENCE).await?)),
    }
}

/// Opens a place that may be written.
pub(crate) async fn to_write(live: &Live, place: &Place, permits: &Permits) -> Result<AnyDevice, RaidError> {
    match place {
        Place::Path(path) => {
            let permit = permits.get(path).expect("what is to be written was permitted");
            Ok(AnyDevice::new(writable(live, permit)?))
        }
        Place::Nbd(uri) => Ok(AnyDevice::new(connected_to_write(live, uri, PATIENCE).await?)),
    }
}

/// The superblock on a device.
pub(crate) async fn superblock(place: &Place, device: &AnyDevice) -> Result<Superblock, RaidError> {
    let size = device.shape().size;
    if size < SUPERBLOCK_AT + SUPERBLOCK_SIZE {
        return Err(RaidError::NoRoomForSuperblock { place: place.clone(), size });
    }
    let reply = device.submit(Request::read(SUPERBLOCK_AT, Buffer::zeroed(SUPERBLOCK_SIZE))).await;
    let place = place.clone();
    if let Err(error) = reply.result {
        return Err(RaidError::Device { place, error });
    }
    let buffer = reply.buffer.expect("a read gives its buffer back");
    let parsed = Superblock::parse(buffer.bytes().expect("it is real"));
    let error = match parsed {
        Ok(superblock) => return Ok(superblock),
        Err(none @ SuperblockError::NoMagic { .. }) => match other_version(device).await {
            Some(version) => SuperblockError::OtherVersion { version },
            None => none,
        },
        Err(error) => error,
    };
    Err(RaidError::Superblock { place, error })
}

/// The superblock in a place, if there is one that can be read.
pub(crate) fn superblock_in(live: &Live, place: &Place) -> Option<Superblock> {
    live.runtime().block_on(async { superblock(place, &to_read(live, place).await.ok()?).await.ok() })
}

/// The version of the md superblock that a device has where versions other than 1.2 keep it.
async fn other_version(device: &AnyDevice) -> Option<&'static str> {
    let (size, block) = (device.shape().size, device.shape().logical_block);
    for magic in MAGICS {
        let (Some(version), Some(at)) = (magic.name.strip_prefix("Linux md "), magic.place.on(size)) else { continue };
        let (from, length) = (at.round_down(block), magic.bytes.len());
        if from + block > size {
            continue;
        }
        let reply = device.submit(Request::read(from, Buffer::zeroed(block))).await;
        // One that cannot be read there has said at the usual place that it has none.
        let there = reply.buffer.filter(|_| reply.result.is_ok());
        let start = (at - from).as_usize();
        if there.as_ref().and_then(Buffer::bytes).is_some_and(|bytes| bytes[start..start + length] == *magic.bytes) {
            return Some(version);
        }
    }
    None
}

/// Opens the array that these members are, for what is done with all of them: refused is what would record that one is
/// missing which was not named.
pub(crate) fn open(
    live: &Live,
    members: &[Place],
    permits: &Permits,
    course: &Course,
) -> Result<Array<AnyDevice>, RaidError> {
    given(members, None)?.is_enough()?;
    open_without(live, members, permits, false, course)
}

/// Opens the array that these members are, for what is done without the others.
pub(crate) fn open_without(
    live: &Live,
    members: &[Place],
    permits: &Permits,
    force: bool,
    course: &Course,
) -> Result<Array<AnyDevice>, RaidError> {
    let opened = async {
        let mut devices = Vec::new();
        for place in members {
            devices.push(to_write(live, place, permits).await?);
        }
        let options = OpenOptions { force_dirty_degraded: force };
        let opened = Array::open(live.runtime(), "array", devices, options).await;
        opened.map_err(|error| RaidError::of_open(members, error))
    };
    let array = live.runtime().block_on(opened)?;
    if members.iter().any(|place| matches!(place, Place::Nbd(_))) {
        array.look_out(now());
    }
    watch(&array, course);
    Ok(array)
}

/// The time, to the microsecond: two servers never open an array at the same.
pub(crate) fn now() -> Stamp {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Stamp(since_1970.as_secs() | u64::from(since_1970.subsec_micros()) << 40)
}

/// When another server opened the array, if one records on its members.
pub(crate) fn rival(array: &Array<AnyDevice>) -> Option<String> {
    array.rival().map(when)
}

/// A time in a superblock, for people.
pub(crate) fn when(stamp: Stamp) -> String {
    // What others wrote there may be any number; RFC 3339 ends with the year 9999.
    let seconds = stamp.seconds().min(253_402_300_799);
    humantime::format_rfc3339_seconds(UNIX_EPOCH + std::time::Duration::from_secs(seconds)).to_string()
}

/// Has an array's upkeep follow a course.
pub(crate) fn watch(array: &Array<AnyDevice>, course: &Course) {
    let (interrupted, show) = (course.interrupted.clone(), course.show.clone());
    array.watch(move |progress| {
        show(progress);
        !interrupted.load(Relaxed)
    });
    array.limit(course.rate);
}

/// Removes files that were made to become part of an array and did not: they carry no superblock, and are of no use.
pub fn remove_unused(permits: &Permits) {
    for permit in permits.values().filter(|permit| permit.created()) {
        let mut superblock = vec![0; SUPERBLOCK_SIZE.as_usize()];
        // What cannot be read is left to whoever looks why.
        let unused = match permit.file().read_at(&mut superblock, SUPERBLOCK_AT.get()) {
            Ok(length) => superblock[..length].iter().all(|byte| *byte == 0),
            Err(_) => false,
        };
        if unused {
            // Why it is not part of the array says more than that it is still there.
            let _ = std::fs::remove_file(permit.path());
        }
    }
}

/// What everything is called that an array uses: members, what is to replace one, spares, the journal.
pub(crate) fn in_use(array: &Array<AnyDevice>) -> Vec<String> {
    let names = names(array).into_iter().enumerate();
    let members = names.filter(|(member, _)| array.state(*member) != MemberState::Failed).filter_map(|(_, name)| name);
    let replacement = array.replacing().map(|(_, device)| device);
    members.chain(replacement).chain(array.spares()).chain(array.journal_device()).collect()
}

/// What the members in use are called, by role.
pub(crate) fn names(array: &Array<AnyDevice>) -> Vec<Option<String>> {
    (0..array.geometry().members()).map(|member| Some(array.device(member)?.shape().name.clone())).collect()
}

/// Where data begin on a new member, if they fit, in blocks that the array takes: where they begin on the others.
pub(crate) fn data_offset(array: &Array<AnyDevice>, place: &Place, device: &AnyDevice) -> Result<Bytes, RaidError> {
    let layout = array.member_layout().ok_or(RaidError::Failed(DeviceError::Gone))?;
    let (size, needed) = (device.shape().size, layout.data_offset + layout.used);
    if size < needed {
        return Err(RaidError::TooSmall { place: place.clone(), size, needed });
    }
    takes_blocks(array, place, device, layout.data_offset)?;
    array
        .check_newcomer(0, device, layout.data_offset, layout.used)
        .map_err(|error| RaidError::Misplaced { place: place.clone(), error })?;
    Ok(layout.data_offset)
}

/// Refuses a device on which data are to begin here, if its blocks are larger than those that the array takes, or
/// cannot be.
pub(crate) fn takes_blocks(
    array: &Array<AnyDevice>,
    place: &Place,
    device: &AnyDevice,
    data_offset: Bytes,
) -> Result<(), RaidError> {
    let (place, block, served) = (place.clone(), device.shape().logical_block, array.shape().logical_block);
    if !array.divides_into(block) || !data_offset.is_multiple_of(block) {
        return Err(RaidError::Blocks { place, block });
    }
    if block > served {
        return Err(RaidError::LargerBlocks { place, block, served });
    }
    Ok(())
}
