//! A load through files, on the storage in front of the user.
//!
//! An experiment on a modelled file server says what clients ask for and when, one on a modelled file system what
//! programs ask for. With `--on` the same requests, drawn from the same seed, go to real storage. The machine of
//! `[system]` is left out, with all that the sweep changes about it. Streams that say `through = "files"` themselves
//! need no machine.
//!
//! | load | `--on` | requests go |
//! |---|---|---|
//! | of a file server | a directory | to a file in it, as large as the server's disks; a write is durable, as there |
//! | of a file server | anything else | to that device as any load: past the page cache |
//! | through files | directories | to a file in each, as large as the streams need |
//!
//! A file is read and written through the page cache. Streams with one request under way make plain system calls, as
//! programs do. The response time of a server's load, from a request's arrival to its answer, is the study's overhead
//! per request.
//!
//! Rejected: experiments on modelled disks, arrays and their adapters. They name parts of their machine, which the
//! user's storage has not.

use std::path::{Path, PathBuf};

use machine::entry::Way;
use machine::library::LibraryError;
use machine::part::PartError;
use runtime::Runtime;
use units::Bytes;
use uring::{Engine, Mode};
use workload::{Load, Pattern};

use crate::described::Described;
use crate::document::{Point, Setting};
use crate::experiment::{Experiment, Io, StreamPlan, Through};
use crate::survey::SHARE_OF_FREE;
use crate::system::System;
use crate::target::Target;

/// The file that is made in a directory, and used again by the next run.
pub const FILE: &str = "arraylab.files";
/// Some thousand requests read a smaller file once, and then no device is measured any more.
const SMALLEST: Bytes = Bytes::mib(64);

/// A file for streams that name no end of theirs.
const UNBOUNDED: Bytes = Bytes::gib(1);

/// Why a load cannot run on the storage that was named.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum ElsewhereError {
    #[error("{key} is of the modelled machine, and the load goes to {target} instead; leave out --set {key}, or --on")]
    Setting { key: String, target: Target },
    #[error("{}: {source}; name a directory that can be read", directory.display())]
    Directory { directory: PathBuf, source: std::io::Error },
    #[error("{} has {free} free, and a file of at least {} is made there, of a quarter of what is free at most; make room, or name another directory", directory.display(), SMALLEST * SHARE_OF_FREE)]
    NoRoom { directory: PathBuf, free: Bytes },
    #[error("the load goes to a file in a directory, and to one only; {} and {} were given", first, second)]
    Several { first: Target, second: Target },
    #[error(
        "the load goes through files, and {target} is no directory; name directories, in each of which {FILE} is made"
    )]
    NoDirectory { target: Target },
    #[error("{} has {size}, and the load needs {needed}; remove it, and it is made as large as that", path.display())]
    TooSmall { path: PathBuf, size: Bytes, needed: Bytes },
    #[error("the load needs a file of {needed}, and in {} one of {most} is made at most, a quarter of what is free; make room, say a smaller `region`, or name another directory", directory.display())]
    NoRoomFor { directory: PathBuf, needed: Bytes, most: Bytes },
    #[error(transparent)]
    Part(#[from] PartError),
    #[error(transparent)]
    Library(#[from] LibraryError),
}

/// Points of an experiment, and what they run on: as given, or, if targets are given, the load of a modelled file
/// server or a load through files on those. `set` is what the command line changed. Points that differed in the machine
/// alone become one.
pub fn elsewhere(
    points: Vec<Point>,
    set: &[Setting],
    on: &[Target],
) -> Result<(Vec<Point>, Vec<Target>), ElsewhereError> {
    let serves = |point: &Point| point.experiment.system.as_ref().is_some_and(System::is_file_server);
    let (served, local) = (points.iter().all(serves), points.iter().all(|point| point.experiment.goes_through_files()));
    let Some(target) = on.first().filter(|_| served || local) else { return Ok((points, on.to_vec())) };
    let is_modelled = |point: &Point| point.experiment.system.is_some();
    if let Some(setting) = set.iter().find(|setting| points.iter().any(is_modelled) && is_of_the_machine(setting)) {
        return Err(ElsewhereError::Setting { key: setting.key.clone(), target: target.clone() });
    }
    let directories: Vec<&Path> = on.iter().filter_map(directory).collect();
    let files = match local {
        true => match on.iter().find(|target| directory(target).is_none()) {
            Some(other) => return Err(ElsewhereError::NoDirectory { target: other.clone() }),
            None => files_in(&directories, &points)?,
        },
        false => match (&directories[..], on) {
            ([], _) => Vec::new(),
            ([directory], [_]) => vec![(directory.join(FILE), size_for_server(directory, &points[0].experiment)?)],
            _ => return Err(ElsewhereError::Several { first: target.clone(), second: on[1].clone() }),
        },
    };
    // Where each of the given points has gone.
    let mut places: Vec<usize> = Vec::with_capacity(points.len());
    let mut kept: Vec<Point> = Vec::new();
    for mut point in points {
        let described = files.iter().map(|(path, size)| point.experiment.described(path, *size, served));
        point.experiment.devices = described.collect();
        if point.experiment.system.take().is_some() {
            point.settings.retain(|setting| !is_of_the_machine(setting));
            point.experiment.published.clear();
        }
        let place = kept.iter().position(|known| known.experiment == point.experiment);
        places.push(place.unwrap_or(kept.len()));
        if place.is_none() {
            kept.push(point);
        }
    }
    for point in &mut kept {
        point.baseline = point.baseline.map(|baseline| places[baseline]);
    }
    Ok((kept, if files.is_empty() { on.to_vec() } else { Vec::new() }))
}

fn directory(target: &Target) -> Option<&Path> {
    match target {
        Target::Path(path) if path.is_dir() => Some(path.as_path()),
        _ => None,
    }
}

fn is_of_the_machine(setting: &Setting) -> bool {
    setting.is_of_a_part() || setting.key.starts_with("system")
}

/// How large a file of this name in a directory is, if it is there.
fn size_there(directory: &Path) -> Option<Bytes> {
    std::fs::metadata(directory.join(FILE)).ok().map(|there| Bytes::new(there.len()))
}

/// A share of what is free in a directory: the most that a file is made of.
fn most(directory: &Path) -> Result<Bytes, ElsewhereError> {
    let free = host::mount::free_space(directory)
        .map_err(|source| ElsewhereError::Directory { directory: directory.to_owned(), source })?;
    Ok((free / SHARE_OF_FREE).round_down(Bytes::mib(1)))
}

/// The size of the file that stands for the disks of the modelled server.
fn size_for_server(directory: &Path, experiment: &Experiment) -> Result<Bytes, ElsewhereError> {
    if let Some(size) = size_there(directory) {
        return Ok(size);
    }
    let (most, system) = (most(directory)?, experiment.system.as_ref().expect("the caller looked"));
    let size = system.stores()?.min(most);
    match size < SMALLEST {
        true => Err(ElsewhereError::NoRoom { directory: directory.to_owned(), free: most * SHARE_OF_FREE }),
        false => Ok(size.round_down(Bytes::mib(1))),
    }
}

/// The files of a load through files, each as large as the streams of any point need.
fn files_in(directories: &[&Path], points: &[Point]) -> Result<Vec<(PathBuf, Bytes)>, ElsewhereError> {
    let plans = points.iter().flat_map(|point| &point.experiment.streams);
    let needed = plans.map(needed).max().unwrap_or(Bytes::ZERO);
    let of = |directory: &&Path| {
        let (path, directory) = (directory.join(FILE), directory.to_path_buf());
        match size_there(&directory) {
            Some(size) if size < needed => Err(ElsewhereError::TooSmall { path, size, needed }),
            Some(size) => Ok((path, size)),
            None => match most(&directory)? {
                most if most < needed => Err(ElsewhereError::NoRoomFor { directory, needed, most }),
                _ => Ok((path, needed.round_up(Bytes::mib(1)))),
            },
        }
    };
    directories.iter().map(of).collect()
}

/// How large a file a stream needs: what it goes through in sequence, or its region, or [`UNBOUNDED`].
fn needed(plan: &StreamPlan) -> Bytes {
    let stream = &plan.stream;
    let (start, limits) = (stream.region.start, &stream.limits);
    let in_requests = limits.requests.map(|requests| stream.largest().get().saturating_mul(requests));
    let asked = limits.bytes.map(Bytes::get).or(in_requests);
    let length = match (stream.region.length, &stream.pattern, asked) {
        (Some(length), ..) => length.get(),
        (None, Pattern::Sequential { from }, Some(asked)) => from.get().saturating_add(asked),
        _ => UNBOUNDED.get(),
    };
    // A file of more than 64 bits has no room anywhere, which is said then.
    Bytes::new(start.get().saturating_add(length))
}

impl Experiment {
    /// Whether its requests are those of programs to files.
    fn goes_through_files(&self) -> bool {
        match &self.system {
            Some(system) => system.way == Way::Files && system.each,
            None => self.devices.is_empty() && self.streams.iter().all(|plan| plan.through != Through::Device),
        }
    }

    /// A file as its device.
    fn described(&self, path: &Path, size: Bytes, durable: bool) -> Described {
        // A server's requests come whether it has answered or not.
        let one_at_a_time = |plan: &StreamPlan| matches!(plan.stream.load, Load::Closed { depth: 1, .. });
        let by_calls = (self.streams.iter().all(one_at_a_time)).then_some(Engine::Sync);
        let io = Io { mode: Mode::Buffered, engine: self.io.engine.or(by_calls), ..self.io };
        Described { make: Some(size), durable, ..Described::files(vec![path.to_owned()], io) }
    }
}

impl System {
    /// Whether requests are those of clients to its file server.
    pub fn is_file_server(&self) -> bool {
        self.way == Way::Files && !self.each
    }

    /// What its disks store.
    fn stores(&self) -> Result<Bytes, ElsewhereError> {
        let machine = self.kit()?.build(&Runtime::simulated(), 1, &machine::trace::Trace::default())?;
        Ok(self.disks.iter().filter_map(|name| machine.drive(name)).map(machine::system::Drive::size).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::find;

    fn points(name: &str, set: &[&str]) -> (Vec<Point>, Vec<Setting>) {
        let set: Vec<Setting> = set.iter().map(|text| text.parse().unwrap()).collect();
        (crate::read(&find(Path::new(name)).unwrap(), &set).unwrap(), set)
    }

    #[test]
    fn three_machines_are_one_load_elsewhere() {
        let on: Vec<Target> = vec!["memory:1GiB".parse().unwrap()];
        let (three, set) = points("scb/heavy", &[]);
        assert_eq!(three.len(), 3, "Locate, RAID-5 and Move");
        let before = three[0].experiment.clone();
        let (kept, there) = elsewhere(three, &set, &on).unwrap();
        assert_eq!((kept.len(), &there), (1, &on));
        assert!(kept[0].experiment.system.is_none() && kept[0].settings.is_empty());
        assert_eq!(kept[0].experiment.streams, before.streams, "the same load");
        // Of a figure, the three workloads are left; that of the two cache ratios is the machine's.
        let (all, set) = points("scb/figure-08", &[]);
        let (kept, _) = elsewhere(all, &set, &on).unwrap();
        assert_eq!(kept.len(), 3);
        assert!(kept.iter().all(|point| point.settings.len() == 1), "what they differ in: {:?}", kept[0].settings);
    }

    #[test]
    fn a_directory_gets_a_file_of_the_disks_size() {
        let directory = tempfile::tempdir().unwrap();
        let on = [Target::Path(directory.path().to_owned())];
        let (three, set) = points("scb/heavy", &[]);
        let (kept, there) = elsewhere(three, &set, &on).unwrap();
        assert_eq!(there, [], "the experiment describes its device");
        let [device] = &kept[0].experiment.devices[..] else { panic!("one device") };
        assert_eq!(device.files, [directory.path().join(FILE)]);
        let free = host::mount::free_space(directory.path()).unwrap();
        let disks = Bytes::new(4 * 540_000_000 / 512 * 512);
        let most = free / SHARE_OF_FREE;
        let size = device.make.unwrap();
        assert!(size <= disks && size <= most && (size + Bytes::mib(2) > disks.min(most)), "{size}");
        assert!(device.durable && device.io.mode == Mode::Buffered);
        // What an earlier run left is used as it is.
        std::fs::write(directory.path().join(FILE), vec![0; 4096]).unwrap();
        let (three, set) = points("scb/heavy", &[]);
        let (kept, _) = elsewhere(three, &set, &on).unwrap();
        assert_eq!(kept[0].experiment.devices[0].make, Some(Bytes::kib(4)));
    }

    #[test]
    fn what_is_of_the_machine_is_refused_and_other_machines_stay() {
        let on: Vec<Target> = vec!["memory:1GiB".parse().unwrap()];
        for (set, key) in
            [("server.cache.hit-ratio=20%", "server.cache.hit-ratio"), ("system.name=scb-move", "system.name")]
        {
            let (some, set) = points("scb/heavy", &[set]);
            let error = elsewhere(some, &set, &on).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{key} is of the modelled machine")), "{error}");
        }
        let (table, set) = points("raid-i/table-14", &[]);
        let (kept, _) = elsewhere(table.clone(), &set, &on).unwrap();
        assert_eq!(kept, table, "it is refused later");
        let (files, set) = points("vax/780", &[]);
        let error = elsewhere(files, &set, &on).unwrap_err().to_string();
        assert!(error.contains("is no directory; name directories"), "{error}");
        let (alone, set) = points("scb/heavy", &[]);
        let (kept, _) = elsewhere(alone.clone(), &set, &[]).unwrap();
        assert_eq!(kept, alone);
    }
}
