//! Where a job of fio goes: its files, how large they are or are to be made, and which part of them a copy uses.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use fio::value::Amount;
use fio::{Direction, Engine, Job};
use host::mount;
use units::Bytes;
use workload::Region;

use crate::described::Described;
use crate::jobs::{Plan, PlanError};
use crate::target::Target;

/// The files of a copy of a job, and how large they are together.
pub(super) struct Whole {
    pub device: Option<Described>,
    pub name: String,
    pub size: Bytes,
    /// How many files there are: offsets count in each.
    pub files: u64,
    pub chunk: Bytes,
    /// An earlier job fills one of the files until no room is left, so that how large it is shows later.
    pub later: bool,
}

/// Where a job goes.
pub(super) trait Extents {
    fn paths(&self, copy: u32) -> Vec<PathBuf>;
    /// `filled` are files that earlier jobs fill first.
    fn whole(&self, copy: u32, largest: Bytes, on: &[Target], filled: &[PathBuf]) -> Result<Whole, PlanError>;
    fn region(&self, copy: u32, whole: &Whole, largest: Bytes) -> Result<Region, PlanError>;
    /// Where a copy begins in each file.
    fn offset(&self, copy: u32, size: Bytes) -> Bytes;
    /// How many files a copy has.
    fn number_of_files(&self) -> u64;
}

impl Extents for Job {
    fn paths(&self, copy: u32) -> Vec<PathBuf> {
        // Copies are dealt out over the directories, each with all of its files.
        let directory = match self.directories.len() {
            0 => PathBuf::new(),
            count => fio::bytes::path(&self.directories[copy as usize % count]),
        };
        if !self.files.is_empty() {
            return self.files.iter().map(|file| directory.join(fio::bytes::path(file))).collect();
        }
        // As in fio, a section that is called after a device, or anything else that is no file, is that.
        let itself = fio::bytes::path(&self.section);
        let kind = std::fs::symlink_metadata(&itself).map(|metadata| metadata.file_type());
        if self.file_count == 1 && kind.is_ok_and(|kind| !kind.is_file() && !kind.is_dir()) {
            return vec![itself];
        }
        let name = &self.section;
        let format = self.name_format.as_deref().unwrap_or("$jobname.$jobnum.$filenum");
        let called = |number: u32| {
            let words = [
                ("$jobname", name.as_str()),
                ("$jobnum", &copy.to_string()),
                ("$filenum", &number.to_string()),
                ("$clientuid", ""),
            ];
            let called = words.iter().fold(format.to_owned(), |text, (word, value)| text.replace(word, value));
            directory.join(fio::bytes::path(&called))
        };
        (0..self.file_count).map(called).collect()
    }

    fn whole(&self, copy: u32, largest: Bytes, on: &[Target], filled: &[PathBuf]) -> Result<Whole, PlanError> {
        let (place, job) = (|| self.place.clone(), || self.name.clone());
        if !on.is_empty() {
            let mut size: Option<Bytes> = None;
            for target in on {
                let of = target_size(target).map_err(|error| PlanError::Unreadable {
                    place: place(),
                    job: job(),
                    path: target.to_string().into(),
                    error,
                })?;
                let of = match (of, self.extent.size) {
                    (Some(of), _) => of,
                    (None, Some(Amount::Bytes(size))) => size,
                    _ => return Err(PlanError::UnknownSize { place: place(), job: job(), target: target.clone() }),
                };
                size = Some(size.map_or(of, |size| size.min(of)));
            }
            let size = size.expect("there are targets");
            return Ok(Whole { device: None, name: on[0].to_string(), size, files: 1, chunk: largest, later: false });
        }
        let mut described = Described::files(Vec::new(), self.io());
        (described.durable, described.flush_at_end) = (self.durable, self.flush_at_end);
        if self.engine == Engine::Null {
            let size = match (self.extent.size, self.file_size) {
                (_, Some(file)) => file * self.number_of_files(),
                (Some(Amount::Bytes(size)), None) => size,
                _ => return Err(PlanError::NoSize { place: place(), job: job(), path: "null".into() }),
            };
            // Without `filesize` there is no end that offsets could run into.
            let end = match self.extent.offset {
                _ if self.file_size.is_some() => None,
                Amount::Percent(share) if share < 100.0 => {
                    Some(Bytes::new((size.get() as f64 / (1.0 - share / 100.0)) as u64).round_up(largest) + largest)
                }
                Amount::Percent(_) => None,
                Amount::Bytes(_) => self.offset(copy, size).checked_add(size),
            };
            let size = end.unwrap_or(size).max(largest);
            described.null = Some(size);
            let name = described.name();
            return Ok(Whole { name, device: Some(described), size, files: 1, chunk: largest, later: false });
        }
        let paths = self.paths(copy);
        let files = paths.len() as u64;
        let wanted = self.file_size.or(match self.extent.size {
            Some(Amount::Bytes(size)) => {
                let last = match self.extent.offset {
                    Amount::Bytes(offset) => offset + self.extent.increment * u64::from(self.copies - 1),
                    Amount::Percent(_) => Bytes::ZERO,
                };
                Some((size / files).checked_add(last).unwrap_or(size))
            }
            _ => None,
        });
        let in_order = self.direction == Direction::Write && !self.order.iter().any(|order| order.is_random());
        if self.fills && wanted.is_none() && (files > 1 || !in_order) {
            return Err(PlanError::Fills { place: place(), job: job() });
        }
        let growing = self.direction == Direction::Write && (self.fills || self.unreserved && wanted.is_some());
        let mut grown = false;
        let later = wanted.is_none() && paths.iter().any(|path| filled.contains(path));
        let mut sizes = Vec::new();
        for path in &paths {
            let there = size_of(path).map_err(|error| PlanError::Unreadable {
                place: place(),
                job: job(),
                path: path.clone(),
                error,
            })?;
            if there.is_none() && !self.creates {
                return Err(PlanError::Absent { place: place(), job: job(), path: path.clone() });
            }
            let none = || PlanError::NoSize { place: place(), job: job(), path: path.clone() };
            let whole = || {
                whole_space(path).map_err(|error| PlanError::Unreadable {
                    place: place(),
                    job: job(),
                    path: path.clone(),
                    error,
                })
            };
            let grows = growing && !matches!(there, Some((_, Kind::Device)));
            grown |= grows;
            sizes.push(match (there, wanted) {
                _ if grows || later => match wanted {
                    Some(wanted) => there.map_or(wanted, |(there, _)| there.max(wanted)),
                    None => whole()?,
                },
                (Some((size, Kind::Device)), _) | (Some((size, Kind::File)), None) if !size.is_zero() => size,
                // No more of a file is used than `filesize` says, however long it is.
                (Some((_, Kind::File)), Some(wanted)) if self.file_size.is_some() => wanted,
                // A file that is shorter is made longer, if it is ours to change.
                (Some((size, Kind::File)), Some(wanted)) => size.max(wanted),
                (_, wanted) => wanted.ok_or_else(none)?,
            });
        }
        match grown {
            true => described.grows = sizes.iter().max().copied(),
            false if !later => described.make = wanted,
            false => {}
        }
        // fio, too, fills files before it maps them.
        described.filled = self.overwrite || self.engine == Engine::Mmap;
        described.chunk = (files > 1).then_some(largest);
        let size = match described.chunk {
            Some(chunk) => sizes.iter().min().expect("there is a file").round_down(chunk) * files,
            None => sizes[0],
        };
        described.files = paths;
        Ok(Whole { name: described.name(), device: Some(described), size, files, chunk: largest, later })
    }

    fn offset(&self, copy: u32, size: Bytes) -> Bytes {
        let first = match self.extent.offset {
            Amount::Bytes(offset) => offset,
            Amount::Percent(share) => Bytes::new((size.get() as f64 * share / 100.0) as u64),
        };
        let later = self.extent.increment.get().saturating_mul(copy.into());
        Bytes::new(first.get().saturating_add(later))
    }

    fn number_of_files(&self) -> u64 {
        self.files.len().max(self.file_count as usize) as u64
    }

    fn region(&self, copy: u32, whole: &Whole, largest: Bytes) -> Result<Region, PlanError> {
        let offset = self.offset(copy, whole.size / whole.files);
        // Of several files each is used from there on; blocks go round them.
        let unit = match self.extent.offset {
            _ if whole.files > 1 => whole.chunk,
            Amount::Percent(_) => Bytes::kib(4).min(largest),
            Amount::Bytes(_) => Bytes::new(1),
        };
        let start = Bytes::new(offset.round_down(unit).get().saturating_mul(whole.files));
        let end = self.file_size.map_or(whole.size, |file| whole.size.min(file * self.number_of_files()));
        let left = end.saturating_sub(start);
        let length = match self.extent.size {
            // Of a job that says how large its files are, `size` is what it moves, and not where.
            Some(Amount::Bytes(_)) if self.file_size.is_some() => left,
            None => left,
            Some(Amount::Percent(share)) => Bytes::new((whole.size.get() as f64 * share / 100.0) as u64).min(left),
            Some(Amount::Bytes(size)) if size <= left => size,
            // Of files whose size is no multiple of the block, the rest is not used.
            Some(Amount::Bytes(size)) if whole.files > 1 && size <= left + whole.chunk * whole.files => left,
            Some(Amount::Bytes(wanted)) => {
                let (place, job, name, size) = (self.place.clone(), self.name.clone(), whole.name.clone(), whole.size);
                return Err(PlanError::TooSmall { place, job, name, wanted, start, size });
            }
        };
        if length < largest {
            let (place, job) = (self.place.clone(), self.name.clone());
            return Err(PlanError::BlockTooLarge { place, job, request: largest, length });
        }
        Ok(Region { start, length: Some(length) })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Device,
}

/// As much as the file system holds on which a file lies or is to lie: no file grows to more.
fn whole_space(path: &Path) -> std::io::Result<Bytes> {
    let parents = path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
    let there = parents.into_iter().find(|parent| parent.exists());
    mount::whole_space(there.unwrap_or(Path::new(".")))
}

/// How large a path is, and of what kind; nothing if it is not there.
fn size_of(path: &Path) -> std::io::Result<Option<(Bytes, Kind)>> {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let kind = metadata.file_type();
    if kind.is_file() {
        return Ok(Some((Bytes::new(metadata.len()), Kind::File)));
    }
    if !kind.is_block_device() {
        return Err(std::io::Error::other("it is neither a file nor a block device"));
    }
    let end = File::open(path)?.seek(SeekFrom::End(0))?;
    Ok(Some((Bytes::new(end), Kind::Device)))
}

/// How large a target is, where that can be told before it is opened.
pub(crate) fn target_size(target: &Target) -> std::io::Result<Option<Bytes>> {
    Ok(match target {
        Target::Memory { size, .. } | Target::Null { size } => Some(*size),
        Target::Path(path) => size_of(path)?.map(|(size, _)| size),
        Target::Part { name } => {
            let opened = machine::standalone::Standalone::open(&runtime::Runtime::simulated(), name, 0);
            opened.ok().map(|drive| device::Device::shape(&drive).size)
        }
        Target::Nbd(_) | Target::Modelled { .. } | Target::Described(_) => None,
    })
}
