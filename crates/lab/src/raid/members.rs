//! Members as devices: opened past the page cache if they are block devices, through it if they are files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use array::md::{SUPERBLOCK_AT, SUPERBLOCK_SIZE, Superblock};
use array::{Array, OpenOptions};
use device::{Buffer, Device, Request};
use host::guard::WritePermit;
use uring::{FileDevice, FileOptions, Live};

use super::{Course, RaidError};

/// What a path is opened with.
pub(super) fn options(path: &Path) -> FileOptions {
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    if is_file { FileOptions::buffered() } else { FileOptions::direct() }
}

/// Opens a path for reading only.
pub(super) fn to_read(live: &Live, path: &Path) -> Result<FileDevice, RaidError> {
    Ok(FileDevice::open_read_only(live, path, &options(path))?)
}

/// Opens paths that may be written, in order.
pub(super) fn to_write(
    live: &Live,
    paths: &[PathBuf],
    permits: &HashMap<PathBuf, WritePermit>,
) -> Result<Vec<FileDevice>, RaidError> {
    let open = |path: &PathBuf| {
        let permit = permits.get(path).expect("what is to be written was permitted");
        Ok(FileDevice::open_writable(live, permit, &options(path))?)
    };
    paths.iter().map(open).collect()
}

/// The superblock on a device.
pub(super) fn superblock(live: &Live, path: &Path, device: &FileDevice) -> Result<Superblock, RaidError> {
    let request = Request::read(SUPERBLOCK_AT, Buffer::zeroed(SUPERBLOCK_SIZE));
    let reply = live.runtime().block_on(device.submit(request));
    let path = path.to_owned();
    if let Err(error) = reply.result {
        return Err(RaidError::Device { path, error });
    }
    let buffer = reply.buffer.expect("a read gives its buffer back");
    Superblock::parse(buffer.bytes().expect("it is real")).map_err(|error| RaidError::Superblock { path, error })
}

/// Opens the array that these members are.
pub(super) fn open(
    live: &Live,
    members: &[PathBuf],
    permits: &HashMap<PathBuf, WritePermit>,
    force: bool,
    course: &Course,
) -> Result<Array<FileDevice>, RaidError> {
    let devices = to_write(live, members, permits)?;
    let options = OpenOptions { force_dirty_degraded: force };
    let array = live.runtime().block_on(Array::open(live.runtime(), "array", devices, options))?;
    watch(&array, course);
    Ok(array)
}

/// Has an array's upkeep follow a course.
pub(super) fn watch(array: &Array<FileDevice>, course: &Course) {
    let (interrupted, show) = (course.interrupted.clone(), course.show.clone());
    array.watch(move |progress| {
        show(progress);
        !interrupted.load(std::sync::atomic::Ordering::Relaxed)
    });
    array.limit(course.rate);
}

/// The paths of the members in use, by role.
pub(super) fn paths(array: &Array<FileDevice>) -> Vec<Option<String>> {
    (0..array.geometry().members()).map(|member| Some(array.device(member)?.shape().name.clone())).collect()
}
