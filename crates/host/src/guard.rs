//! May this path be written?
//!
//! A benchmark that writes to the wrong disk destroys in a second what nobody can bring back, so writing needs a
//! [`WritePermit`], a type that only this module makes, and the decision is a pure function of facts ([`judge`]):
//!
//! | the path is | `--destroy-data` missing | `--destroy-data`, named once | named twice |
//! |---|---|---|---|
//! | a file that arraylab makes ([`create`]) or made ([`own`]), or an empty file | permitted | permitted | permitted |
//! | a file with contents, a device | refused | permitted | permitted |
//! | one with a recognised file system, partition table, array, ... | refused | refused | permitted |
//! | one that is mounted, swap, or below another device | refused | refused | see below |
//! | one that the kernel holds exclusively | refused | refused | refused |
//!
//! The last row has no exception: the kernel opens what it mounts, swaps to and builds on with `O_EXCL`, and writing
//! below a mounted file system corrupts it whatever was said on the command line. So the fourth row is open only where
//! the kernel does not hold the device after all. A regular file cannot be held so; in its place stand the loop devices
//! over it.
//!
//! "Named twice" counts equal spellings. Two spellings of one device are no second thought: a pattern such as
//! `/dev/disk/by-*/*` yields them by itself.
//!
//! The permit holds the device with `O_EXCL` itself, from before its contents are looked at until it is dropped: nobody
//! can mount it in between, and a second arraylab is refused. (A file is locked with `flock` to the same end.)

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::Serialize;
use units::Bytes;

use crate::claim::{claim, lock};
use crate::kernel::Kernel;
use crate::made;
use crate::refusal::Refusal;
use crate::signature::Signature;
use crate::usage::Use;

/// What the user said about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Consent {
    /// `--destroy-data` was given.
    pub destroy_data: bool,
    /// How many times the path was named, in this spelling.
    pub times_named: u32,
}

/// All that decides whether a path may be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// The path as it was given.
    pub path: PathBuf,
    /// What is there.
    pub subject: Subject,
    /// The kernel, or another program, holds it exclusively.
    pub held: bool,
    /// Who uses it.
    pub uses: Vec<Use>,
    /// What was recognised on it.
    pub found: Vec<Signature>,
}

/// What is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// A block device of this size.
    Device(Bytes),
    /// A regular file of this size.
    File(Bytes),
}

/// Leave to write to one path. Whatever writes to a path of the user's must hold one; none can be made outside this
/// module.
///
/// While it lives, the device is held exclusively (or the file locked) in its name.
#[derive(Debug)]
pub struct WritePermit {
    path: PathBuf,
    file: File,
    created: bool,
}

/// The decision. Pure: all that the kernel has to say is in `facts`.
pub fn judge(facts: &Facts, consent: Consent) -> Result<(), Refusal> {
    let path = facts.path.clone();
    if facts.held {
        return Err(Refusal::InUse { path, uses: facts.uses.clone() });
    }
    let empty = facts.subject == Subject::File(Bytes::ZERO);
    if empty && facts.uses.is_empty() {
        return Ok(());
    }
    if !consent.destroy_data {
        return Err(Refusal::NoConsent {
            path,
            uses: facts.uses.clone(),
            found: facts.found.clone(),
            subject: facts.subject,
        });
    }
    if consent.times_named < 2 && !(facts.uses.is_empty() && facts.found.is_empty()) {
        return Err(Refusal::HoldsData { path, uses: facts.uses.clone(), found: facts.found.clone() });
    }
    Ok(())
}

/// Asks for leave to write to `path`, which exists. Ask once for each path of [`times_named`]: a second permit for a
/// device that already has one is refused, as it is held.
pub fn permit(kernel: &Kernel, path: &Path, consent: Consent) -> Result<WritePermit, Refusal> {
    let (file, facts) = claim(kernel, path, consent)?;
    judge(&facts, consent)?;
    let file = file.expect("what could not be opened is held, or without consent, and either was refused");
    Ok(WritePermit { path: path.to_owned(), file, created: false })
}

/// Asks for leave to write to `path` as the member of an array that it is: by who keeps what the array stores. It is
/// given where the path carries a superblock of md's version 1.2 and nobody uses it, be it the kernel's md.
pub fn member(kernel: &Kernel, path: &Path) -> Result<WritePermit, Refusal> {
    let (file, facts) = claim(kernel, path, Consent { destroy_data: true, times_named: 1 })?;
    let path = path.to_owned();
    if facts.held || !facts.uses.is_empty() {
        return Err(Refusal::InUse { path, uses: facts.uses });
    }
    if !facts.found.iter().any(|signature| signature.name == MEMBER) {
        return Err(Refusal::NotMember { path });
    }
    let file = file.expect("what could not be opened is held, and was refused");
    Ok(WritePermit { path, file, created: false })
}

/// Asks for leave to erase from `path` what makes it a member of an array of md's, of whatever version. It is given
/// where the path carries such a superblock, the user has consented, and nobody uses it, be it the kernel's md. What
/// else is there is not written, so it need not be named twice.
pub fn unmark(kernel: &Kernel, path: &Path, consent: Consent) -> Result<WritePermit, Refusal> {
    let (file, facts) = claim(kernel, path, consent)?;
    let path = path.to_owned();
    if facts.held || !facts.uses.is_empty() {
        return Err(Refusal::InUse { path, uses: facts.uses });
    }
    if !facts.found.iter().any(|signature| signature.name.starts_with("Linux md ")) {
        return Err(Refusal::NotMember { path });
    }
    if !consent.destroy_data {
        return Err(Refusal::NoConsent { path, uses: facts.uses, found: facts.found, subject: facts.subject });
    }
    let file = file.expect("what could not be opened is held, or without consent, and either was refused");
    Ok(WritePermit { path, file, created: false })
}

/// Asks for leave to write to `path` as a file that an earlier run made, which needs nobody's consent: none where it is
/// not one, or somebody has changed it since.
pub fn own(kernel: &Kernel, path: &Path) -> Result<Option<WritePermit>, Refusal> {
    let ours = |file: &File| file.metadata().is_ok_and(|metadata| metadata.is_file()) && made::is_ours(file);
    match File::open(path) {
        Ok(file) if ours(&file) => {}
        Ok(_) => return Ok(None),
        Err(source) => return Err(Refusal::from_io(path, source)),
    }
    let (file, facts) = claim(kernel, path, Consent::default())?;
    let path = path.to_owned();
    if facts.held || !facts.uses.is_empty() {
        return Err(Refusal::InUse { path, uses: facts.uses });
    }
    // Looked at once more through the descriptor that is locked now.
    Ok(file.filter(ours).map(|file| WritePermit { path, file, created: true }))
}

/// The name under which the members that arraylab keeps are recognised.
const MEMBER: &str = "Linux md 1.2";

/// Makes a file that does not exist yet. Nobody's data is there, so nobody need be asked.
pub fn create(path: &Path) -> Result<WritePermit, Refusal> {
    // O_EXCL: a file, or a link to one, that appeared in the meantime is not taken for ours.
    let opened = OpenOptions::new().read(true).write(true).create_new(true).open(path);
    let file = opened.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Refusal::NoFolder { path: path.to_owned() },
        // What exists is refused for that first, so it is the folder that is not to be written.
        io::ErrorKind::PermissionDenied => Refusal::NoPermissionInFolder { path: path.to_owned() },
        _ => Refusal::from_io(path, source),
    })?;
    lock(path, &file)?;
    Ok(WritePermit { path: path.to_owned(), file, created: true })
}

/// As [`create`], of this size, with all its room: what is written later finds it there, or the file is not made at
/// all.
pub fn create_sized(path: &Path, size: Bytes) -> Result<WritePermit, Refusal> {
    /// The kernel's sizes of files have a sign.
    const MOST: Bytes = Bytes::new(i64::MAX as u64);
    match size {
        Bytes::ZERO => return Err(Refusal::NoSize { path: path.to_owned() }),
        size if size > MOST => return Err(Refusal::TooLarge { path: path.to_owned(), size }),
        _ => {}
    }
    let permit = create(path)?;
    match permit.reserve(size) {
        Ok(()) => Ok(permit),
        Err(source) => {
            // The file is ours and of no use. The error that is returned says more than one of removing it would.
            let _ = std::fs::remove_file(path);
            Err(match source.kind() {
                io::ErrorKind::StorageFull => Refusal::NoSpace { path: path.to_owned(), size },
                io::ErrorKind::FileTooLarge => Refusal::TooLarge { path: path.to_owned(), size },
                _ => Refusal::from_io(path, source),
            })
        }
    }
}

/// The different paths in `paths`, in order, and how many times each was named in that spelling.
pub fn times_named(paths: &[PathBuf]) -> Vec<(PathBuf, u32)> {
    let mut named: Vec<(PathBuf, u32)> = Vec::new();
    for path in paths {
        match named.iter_mut().find(|(other, _)| other == path) {
            Some((_, times)) => *times += 1,
            None => named.push((path.clone(), 1)),
        }
    }
    named
}

impl WritePermit {
    /// The path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file was made by arraylab and may be removed by it.
    pub fn created(&self) -> bool {
        self.created
    }

    /// Reserves the blocks of a file of ours up to `size`; what was not written reads as zeroes.
    pub fn reserve(&self, size: Bytes) -> io::Result<()> {
        assert!(self.created, "only what arraylab made is made longer by it");
        match rustix::fs::fallocate(&self.file, rustix::fs::FallocateFlags::empty(), 0, size.get()) {
            // A file system that cannot reserve gives the blocks as they are written.
            Err(rustix::io::Errno::OPNOTSUPP) => self.file.set_len(size.get()),
            reserved => Ok(reserved?),
        }
    }

    /// Marks a file of ours, so that the next run knows it ([`own`]): what it holds now is worth nothing to anybody.
    /// False where the file system keeps no such marks.
    pub fn mark(&self) -> bool {
        assert!(self.created, "only what arraylab made is marked as made by it");
        made::mark(&self.file).is_ok()
    }

    /// The file or device, open for reading and writing through the page cache.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Ends the permit. Of a file others may have the lock from now on, though the kernel may close it only later, as a
    /// ring of requests does.
    pub fn release(self) {
        // Where there are no locks, there is none to give up.
        let _ = rustix::fs::flock(&self.file, rustix::fs::FlockOperation::Unlock);
    }

    /// Opens the very file or device that was permitted once more, with other options (such as `O_DIRECT`), even if its
    /// path now leads elsewhere.
    pub fn reopen(&self, options: &OpenOptions) -> io::Result<File> {
        use std::os::fd::AsRawFd;
        options.open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// True if `file` is the file or device that was permitted, however it was opened.
    pub fn covers(&self, file: &File) -> io::Result<bool> {
        let (ours, theirs) = (self.file.metadata()?, file.metadata()?);
        let both_devices = ours.file_type().is_block_device() && theirs.file_type().is_block_device();
        // Two nodes of one device are two files, but one device.
        Ok(if both_devices {
            ours.rdev() == theirs.rdev()
        } else {
            (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino())
        })
    }
}
