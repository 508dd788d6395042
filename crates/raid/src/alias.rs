//! Two names of one store: found before an array is built on it.
//!
//! Two members on one store are one member, and the array has no redundancy. There are two ways to find out. What this
//! machine knows of its paths ([`host::store`]) finds links, bind mounts, loop devices, partitions and the paths of a
//! multipath device, and needs nothing but to look. It knows nothing of exports: two addresses may lead to one server,
//! and two exports may give the same file. So a device that may be overwritten anyway gets a mark in its first block,
//! which is then looked for on the others. md keeps nothing there (the superblock begins at 4 KiB), and what was there
//! is put back, so that also a member in use that turns out to be the same store is as it was.
//!
//! Not found: one export that gives another part of the bytes of a second one, such as a partition beside its disk, by
//! two servers.

use array::Array;
use array::md::SUPERBLOCK_AT;
use device::{AnyDevice, Buffer, Device, Request};
use host::Kernel;
use host::store::Extents;
use units::Bytes;

use crate::members::names;
use crate::{Place, RaidError};

/// Refuses what is to become part of an array if it shares a store with something else that is to, or with the
/// `others`.
pub fn apart(new: &[&Place], others: &[&Place]) -> Result<(), RaidError> {
    let kernel = Kernel::running();
    let extents = |place: &Place| place.path().map(|path| Extents::of(&kernel, path));
    let mut seen: Vec<(&Place, Extents)> = others.iter().filter_map(|place| Some((*place, extents(place)?))).collect();
    for place in new {
        let Some(own) = extents(place) else { continue };
        for (other, theirs) in &seen {
            if let Some(shared) = own.shared_with(theirs) {
                let (one, other) = ((*other).clone(), (*place).clone());
                return Err(RaidError::OneStore { one, other, why: format!("both hold {shared}") });
            }
        }
        seen.push((place, own));
    }
    Ok(())
}

/// Refuses devices of which two are one store. Their first blocks are written and put back.
pub(crate) async fn told_apart(devices: &[(&Place, &AnyDevice)]) -> Result<(), RaidError> {
    let devices: Vec<(&Place, &AnyDevice)> = devices.iter().copied().filter(|(_, device)| has_room(device)).collect();
    let marks = marks(devices.len())?;
    let mut before = Vec::new();
    let found = async {
        for ((place, device), mark) in devices.iter().zip(&marks) {
            before.push((*place, *device, first(place, device).await?));
            put(place, device, &marked(&before.last().expect("it was just read").2, mark)).await?;
        }
        for (index, (place, device)) in devices.iter().enumerate() {
            let said = first(place, device).await?;
            let other = marks.iter().position(|mark| said.starts_with(mark)).filter(|other| *other != index);
            if let Some(other) = other {
                return Err(same(place, devices[other].0));
            }
        }
        Ok(())
    };
    let found = found.await;
    // The last first: of two that are one store, the second had read the mark of the first.
    for (place, device, bytes) in before.iter().rev() {
        put(place, device, bytes).await?;
    }
    found
}

/// Refuses a device that is the store of a member. Its first block is written and put back.
pub(crate) async fn told_from_members(
    array: &Array<AnyDevice>,
    place: &Place,
    device: &AnyDevice,
) -> Result<(), RaidError> {
    if !has_room(device) {
        return Ok(());
    }
    let mark = marks(1)?.remove(0);
    let before = first(place, device).await?;
    put(place, device, &marked(&before, &mark)).await?;
    let mut found = Ok(());
    for (member, name) in names(array).into_iter().enumerate() {
        let Some((name, other)) = name.zip(array.device(member)).filter(|(_, other)| has_room(other)) else { continue };
        let Ok(at) = name.parse::<Place>() else { continue };
        // A member that cannot be read is not written either.
        if first(&at, &other).await.is_ok_and(|said| said.starts_with(&mark)) {
            found = Err(same(place, &at));
        }
    }
    put(place, device, &before).await?;
    found
}

fn same(one: &Place, other: &Place) -> RaidError {
    let why = "what is written to one is read from the other".to_owned();
    RaidError::OneStore { one: one.clone(), other: other.clone(), why }
}

/// Marks that nobody has by chance.
fn marks(count: usize) -> Result<Vec<Vec<u8>>, RaidError> {
    let one = |_| Ok([&b"arraylab:"[..], &host::identity::random().map_err(RaidError::Identity)?].concat());
    (0..count).map(one).collect()
}

fn marked(bytes: &[u8], mark: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[..mark.len()].copy_from_slice(mark);
    bytes
}

/// Whether a device has room before a superblock. What has not takes no member either.
fn has_room(device: &AnyDevice) -> bool {
    let shape = device.shape();
    shape.size > SUPERBLOCK_AT && SUPERBLOCK_AT.is_multiple_of(shape.logical_block)
}

async fn first(place: &Place, device: &AnyDevice) -> Result<Vec<u8>, RaidError> {
    let reply = device.submit(Request::read(Bytes::ZERO, Buffer::zeroed(SUPERBLOCK_AT))).await;
    reply.result.map_err(|error| RaidError::Device { place: place.clone(), error })?;
    let buffer = reply.buffer.expect("a read gives its buffer back");
    Ok(buffer.bytes().expect("it is real").to_vec())
}

async fn put(place: &Place, device: &AnyDevice, bytes: &[u8]) -> Result<(), RaidError> {
    let mut buffer = Buffer::zeroed(Bytes::new(bytes.len() as u64));
    buffer.bytes_mut().expect("it is real").copy_from_slice(bytes);
    let reply = device.submit(Request::write(Bytes::ZERO, buffer.freeze()).with_fua()).await;
    reply.result.map_err(|error| RaidError::Device { place: place.clone(), error })
}
