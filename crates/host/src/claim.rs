//! Takes hold of a path and gathers the facts by which [`crate::guard`] judges.
//!
//! The order matters: a device is opened exclusively first and looked at through that very descriptor, so nothing can
//! be mounted or written on it by others between the look and the permit.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use units::Bytes;

use crate::block::{DeviceNumber, directory};
use crate::guard::{Consent, Facts, Subject};
use crate::kernel::{Kernel, flag, names, number};
use crate::patience::patiently;
use crate::refusal::Refusal;
use crate::signature::{Content, Signature, recognise};
use crate::usage::{self, Use};

/// The path, opened for writing and held, and the facts about it. The file is missing where the facts forbid writing
/// anyway.
pub(crate) fn claim(kernel: &Kernel, path: &Path, consent: Consent) -> Result<(Option<File>, Facts), Refusal> {
    let failed = |source: io::Error| Refusal::from_io(path, source);
    let real = std::fs::canonicalize(path).map_err(failed)?;
    let metadata = std::fs::metadata(&real).map_err(failed)?;
    let kind = metadata.file_type();
    if kind.is_block_device() {
        return device(kernel, path, &real, DeviceNumber::from_raw(metadata.rdev()), consent);
    }
    if kind.is_file() {
        return regular_file(kernel, path, &real);
    }
    let what = if kind.is_dir() { "a directory" } else { "neither a regular file nor a block device" };
    Err(Refusal::NotWritable { path: path.to_owned(), what })
}

fn device(
    kernel: &Kernel,
    path: &Path,
    real: &Path,
    device: DeviceNumber,
    consent: Consent,
) -> Result<(Option<File>, Facts), Refusal> {
    let failed = |source: io::Error| Refusal::from_io(path, source);
    let uses = usage::of_device(kernel, device).map_err(failed)?;
    let in_sysfs = kernel.sys(format!("dev/block/{device}"));
    let size = number::<u64>(in_sysfs.join("size")).map_or(Bytes::ZERO, |sectors| Bytes::SECTOR * sectors);
    let mut facts =
        Facts { path: path.to_owned(), subject: Subject::Device(size), held: false, uses, found: Vec::new() };
    if flag(in_sysfs.join("ro")) && consent.destroy_data {
        return Err(Refusal::ReadOnly { path: path.to_owned() });
    }
    let busy = |error: &io::Error| error.raw_os_error() == Some(Errno::BUSY.raw_os_error());
    // Closing a device that was open for writing makes udev look at it again, so that is done only for those who mean
    // it.
    let open = || exclusively().write(consent.destroy_data).open(real);
    // A use that is known does not end by itself.
    let opened = if facts.uses.is_empty() { patiently(open, busy) } else { open() };
    let file = match opened {
        Ok(file) => file,
        // Who may not write may still be able to ask; and what is mounted and so on is held, even if this user cannot
        // ask.
        Err(error) => {
            let asked = exclusively().open(real).err();
            facts.held =
                busy(&error) || asked.as_ref().is_some_and(busy) || (asked.is_some() && !facts.uses.is_empty());
            // Who did not consent is told so, whatever else is in the way.
            return if facts.held || !consent.destroy_data { Ok((None, facts)) } else { Err(failed(error)) };
        }
    };
    let opened = DeviceNumber::from_raw(file.metadata().map_err(failed)?.rdev());
    if opened != device {
        let what = format!("it was device {device} and became {opened} while it was looked at");
        return Err(failed(io::Error::other(what)));
    }
    facts.found = look(path, size, &file)?;
    let is_partitioned = names(&in_sysfs).iter().any(|name| in_sysfs.join(name).join("partition").exists());
    if is_partitioned && !facts.found.iter().any(|signature| signature.content == Content::PartitionTable) {
        // The kernel knows tables that we do not.
        facts.found.push(Signature { name: "unknown", content: Content::PartitionTable, at: Bytes::ZERO });
    }
    Ok((Some(file), facts))
}

fn regular_file(kernel: &Kernel, path: &Path, real: &Path) -> Result<(Option<File>, Facts), Refusal> {
    let failed = |source: io::Error| Refusal::from_io(path, source);
    let uses = usage::of_file(kernel, real).map_err(failed)?;
    let file = OpenOptions::new().read(true).write(true).open(real).map_err(failed)?;
    let size = Bytes::new(file.metadata().map_err(failed)?.len());
    lock(path, &file)?;
    // The kernel refuses writes to a file that it swaps to; a loop device over the file tells whether that is held.
    let is_swap = uses.iter().any(|usage| matches!(usage, Use::Swap { .. }));
    let held = is_swap || usage::loops_over(kernel, real).iter().any(|name| is_held(kernel, name));
    let found = look(path, size, &file)?;
    Ok((Some(file), Facts { path: path.to_owned(), subject: Subject::File(size), held, uses, found }))
}

/// True if block device `name` is held by the kernel (mounted, swapped to, built on), or if it cannot be told.
fn is_held(kernel: &Kernel, name: &str) -> bool {
    let size = directory(kernel, name).and_then(|device| number(device.join("size"))).unwrap_or(0u64);
    size > 0 && exclusively().open(Path::new("/dev").join(name)).is_err()
}

/// Opens a block device as its only user, which the kernel refuses (EBUSY) while it or another program is that.
fn exclusively() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlags::EXCL.bits().cast_signed());
    options
}

fn look(path: &Path, size: Bytes, file: &File) -> Result<Vec<Signature>, Refusal> {
    recognise(size, |at, buffer| file.read_exact_at(buffer, at.get()))
        .map_err(|source| Refusal::Unreadable { path: path.to_owned(), source })
}

/// Locks a file against another arraylab, and looks whether a virtual machine has locked it as its disk (QEMU locks
/// ranges of bytes). File systems without locks have none; what matters more has been checked.
pub(crate) fn lock(path: &Path, file: &File) -> Result<(), Refusal> {
    let locked = || Err(Refusal::Locked { path: path.to_owned() });
    let attempt = || rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
    let is_held = |error: &Errno| *error == Errno::WOULDBLOCK;
    if patiently(attempt, is_held) == Err(Errno::WOULDBLOCK) {
        return locked();
    }
    match rustix::fs::fcntl_lock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::AGAIN | Errno::ACCESS) => return locked(),
        Ok(()) => {
            // Such a lock would vanish with the next close of the file anywhere in this process, so it is no lock of
            // ours.
            let _ = rustix::fs::fcntl_lock(file, FlockOperation::NonBlockingUnlock);
        }
        Err(_) => {}
    }
    Ok(())
}
