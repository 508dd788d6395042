//! The load of a modelled file server, on the storage in front of the user instead.
//!
//! An experiment on a file server says what clients ask for and when. With `--on` the same requests, drawn from the
//! same seed, go to real storage as an open loop. The machine of [system] is left out, with all that the sweep changes
//! about it. The response time, from a request's arrival to its answer, is the study's overhead per request.
//!
//! | `--on` | requests go |
//! |---|---|
//! | a directory | to a file in it, as large as the modelled server's disks, through the page cache |
//! | anything else | to that device as any load: past the page cache |
//!
//! A write to the file is answered when it is durable, as in the model.
//!
//! Rejected: experiments on modelled disks, arrays and their adapters. They name parts of their machine, which the
//! user's storage has not.

use std::path::{Path, PathBuf};

use machine::entry::Way;
use machine::library::LibraryError;
use machine::part::PartError;
use runtime::Runtime;
use units::Bytes;
use uring::Mode;

use crate::described::Described;
use crate::document::{Point, Setting};
use crate::experiment::{Experiment, Io};
use crate::survey::SHARE_OF_FREE;
use crate::system::System;
use crate::target::Target;

/// The file that is made in a directory, and used again by the next run.
pub const FILE: &str = "arraylab.files";
/// Some thousand requests read a smaller file once, and then no device is measured any more.
const SMALLEST: Bytes = Bytes::mib(64);

/// Why an experiment on a modelled machine cannot run elsewhere.
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
    #[error(transparent)]
    Part(#[from] PartError),
    #[error(transparent)]
    Library(#[from] LibraryError),
}

/// Points of an experiment, and what they run on: as given, or, if it is on a modelled file server and targets are
/// given, its load on those. `set` is what the command line changed. Points that differed in the machine alone become
/// one.
pub fn elsewhere(
    points: Vec<Point>,
    set: &[Setting],
    on: &[Target],
) -> Result<(Vec<Point>, Vec<Target>), ElsewhereError> {
    let serves = |point: &Point| point.experiment.system.as_ref().is_some_and(System::is_file_server);
    let Some(target) = on.first().filter(|_| points.iter().all(serves)) else { return Ok((points, on.to_vec())) };
    if let Some(setting) = set.iter().find(|setting| is_of_the_machine(setting)) {
        return Err(ElsewhereError::Setting { key: setting.key.clone(), target: target.clone() });
    }
    let directory = match target {
        Target::Path(path) if path.is_dir() => Some(path.as_path()),
        _ => None,
    };
    let other = |other: &&Target| directory.is_some() || matches!(other, Target::Path(path) if path.is_dir());
    if let Some(second) = on[1..].iter().find(other) {
        return Err(ElsewhereError::Several { first: target.clone(), second: second.clone() });
    }
    let file = directory.map(|directory| file_in(directory, &points[0].experiment)).transpose()?;
    // Where each of the given points has gone.
    let mut places: Vec<usize> = Vec::with_capacity(points.len());
    let mut kept: Vec<Point> = Vec::new();
    for mut point in points {
        point.experiment.system = None;
        point.experiment.published.clear();
        point.experiment.devices.extend(file.clone());
        point.settings.retain(|setting| !is_of_the_machine(setting));
        let place = kept.iter().position(|known| known.experiment == point.experiment);
        places.push(place.unwrap_or(kept.len()));
        if place.is_none() {
            kept.push(point);
        }
    }
    for point in &mut kept {
        point.baseline = point.baseline.map(|baseline| places[baseline]);
    }
    Ok((kept, if file.is_some() { Vec::new() } else { on.to_vec() }))
}

fn is_of_the_machine(setting: &Setting) -> bool {
    setting.is_of_a_part() || setting.key.starts_with("system")
}

/// The file that stands for the disks of the modelled server.
fn file_in(directory: &Path, experiment: &Experiment) -> Result<Described, ElsewhereError> {
    let path = directory.join(FILE);
    let size = match std::fs::metadata(&path) {
        Ok(there) => Bytes::new(there.len()),
        Err(_) => {
            let free = host::mount::free_space(directory)
                .map_err(|source| ElsewhereError::Directory { directory: directory.to_owned(), source })?;
            let system = experiment.system.as_ref().expect("the caller looked");
            let size = system.stores()?.min(free / SHARE_OF_FREE).round_down(Bytes::mib(1));
            if size < SMALLEST {
                return Err(ElsewhereError::NoRoom { directory: directory.to_owned(), free });
            }
            size
        }
    };
    let io = Io { mode: Mode::Buffered, ..experiment.io };
    Ok(Described { make: Some(size), durable: true, ..Described::files(vec![path], io) })
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
        let (kept, _) = elsewhere(files.clone(), &set, &on).unwrap();
        assert_eq!(kept, files, "a local file system is no server");
        let (alone, set) = points("scb/heavy", &[]);
        let (kept, _) = elsewhere(alone.clone(), &set, &[]).unwrap();
        assert_eq!(kept, alone);
    }
}
