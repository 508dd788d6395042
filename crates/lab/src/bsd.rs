//! The four programs of the 4.2BSD file system study, on one directory of today or on two at once.
//!
//! `read_8192`, `write_4096`, `write_8192` and `rewrite_8192` (M. K. McKusick, W. Joy, S. Leffler, R. Fabry, "A Fast
//! File System for UNIX", 1984; their sources are in appendix A of Kridle and McKusick, "Performance Effects of Disk
//! Subsystem Choices for VAX Systems Running 4.2BSD UNIX", 1983): each a loop of plain system calls with one buffer on
//! 8 MiB of a file. Each is run three times; the first run clears the cache of what would help, and is not shown. Rates
//! are in units of 1024 bytes a second, as in the tables of the study; "percentage of CPU" is user and system time by
//! real time, as csh prints it.
//!
//! The study also ran one program per drive on two drives at once. Here two threads start together, one program a
//! directory. With `b1`, `b2` the bytes, `c1`, `c2` the CPU times, and `t` the time from the start of the earlier
//! program to the end of the later one, the rate is `(b1 + b2) / t`. The study does not say how it made one rate of
//! two. The CPU share is `(c1 + c2) / t`, "the sum of the percentage of the test programs", and can exceed 100 %. The
//! sum of the two rates was rejected: once the faster program has ended, the slower one has the bus and the processor
//! to itself, and each rate is taken over a time of its own.
//!
//! Two things are not as they were. The VAX had 4 MB of memory, so 8 MiB did not stay in its cache; today they do, and
//! what is measured is the memory. `cold` has the cache dropped before each run. And 4.2BSD wrote at most 1 MB behind;
//! today all of it may be unwritten when the program ends. `sync` counts the time until it is on the disk, too.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use host::cpu::thread_time;
use host::{Kernel, topology};
use units::{Bytes, Duration, Rate, Ratio};

/// One of the four.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Opens a file and reads it.
    Read8192,
    /// Makes a file, 4096 bytes at a time.
    Write4096,
    /// Makes a file, 8192 bytes at a time.
    Write8192,
    /// Writes over a file that is there: no blocks are allocated.
    Rewrite8192,
}

/// How they are run.
#[derive(Debug, Clone)]
pub struct Conditions {
    /// Where the file is made.
    pub directory: PathBuf,
    /// Where the same programs run at the same time, on a file of their own.
    pub second: Option<PathBuf>,
    /// How large each file is; 8 MiB in the study.
    pub size: Bytes,
    /// How often each is run; three times in the study, of which the first is not shown.
    pub runs: u32,
    /// The cache is dropped before each run.
    pub cold: bool,
    /// The time until all is on the disk counts.
    pub sync: bool,
}

/// One run of a program, or of two at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ran {
    /// Bytes of the file, or of both files, by real time.
    pub rate: Rate,
    /// CPU time by real time, as a share of one processor; with two programs it can exceed one.
    pub busy: Ratio,
    /// Real time.
    pub time: Duration,
}

/// One run in every directory.
#[derive(Debug, Clone, PartialEq)]
pub struct Repeat {
    /// All programs together, until the later one ended.
    pub together: Ran,
    /// Each program by its own time, in the order of the directories; with one directory the same as `together`.
    pub each: Vec<Ran>,
}

/// What a program came to: the runs that are shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// The program.
    pub program: &'static str,
    /// All but the first.
    pub runs: Vec<Repeat>,
}

/// Why the programs could not be run.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum BsdError {
    #[error("{}: {source}; name a directory that can be written", path.display())]
    Directory { path: PathBuf, source: std::io::Error },
    #[error("{program} on {}: {source}; the file system may be full or failing", path.display())]
    Program { program: &'static str, path: PathBuf, source: std::io::Error },
    #[error("the second program cannot be started: {source}; let this user have more threads (`ulimit -u`)")]
    Thread { source: std::io::Error },
    #[error("the programs were interrupted; their {} removed", if *.files == 1 { "file is" } else { "files are" })]
    Interrupted { files: usize },
}

impl Program {
    /// All four, in the order of the tables.
    pub const ALL: [Program; 4] = [Program::Read8192, Program::Write4096, Program::Write8192, Program::Rewrite8192];

    /// As the study calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Program::Read8192 => "read_8192",
            Program::Write4096 => "write_4096",
            Program::Write8192 => "write_8192",
            Program::Rewrite8192 => "rewrite_8192",
        }
    }

    /// `BUFSIZ`.
    const fn buffer(self) -> Bytes {
        match self {
            Program::Write4096 => Bytes::new(4096),
            _ => Bytes::new(8192),
        }
    }

    /// The program itself: open, a loop of calls, and the end.
    fn run(self, path: &Path, size: Bytes, sync: bool) -> std::io::Result<()> {
        let mut buffer = vec![0x5a_u8; self.buffer().as_usize()];
        let calls = size / self.buffer();
        let mut file = match self {
            Program::Read8192 => File::open(path)?,
            Program::Rewrite8192 => OpenOptions::new().read(true).write(true).open(path)?,
            Program::Write4096 | Program::Write8192 => {
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o666).open(path)?
            }
        };
        for _ in 0..calls {
            match self {
                Program::Read8192 => file.read_exact(&mut buffer)?,
                _ => file.write_all(&buffer)?,
            }
        }
        if sync && self != Program::Read8192 {
            file.sync_all()?;
        }
        Ok(())
    }
}

impl Conditions {
    /// The paths of the files that the programs use, one a directory, whether they are there yet or not.
    pub fn files(&self) -> Vec<PathBuf> {
        let id = std::process::id();
        let first = self.directory.join(format!("arraylab-bsd-{id}"));
        // Both directories may be the same one.
        let second = self.second.as_ref().map(|directory| directory.join(format!("arraylab-bsd-{id}-2")));
        std::iter::once(first).chain(second).collect()
    }
}

/// The files are made, and the programs can run. The files are removed when this is dropped.
pub struct Prepared {
    conditions: Conditions,
    first: Removed,
    second: Option<Removed>,
}

impl Prepared {
    /// Makes the file of each directory. If one cannot be made, none is left.
    pub fn new(conditions: Conditions) -> Result<Prepared, BsdError> {
        let directories = std::iter::once(&conditions.directory).chain(&conditions.second);
        let mut files = Vec::new();
        for (path, directory) in conditions.files().into_iter().zip(directories) {
            let made = File::create_new(&path);
            made.map_err(|source| BsdError::Directory { path: directory.clone(), source })?;
            files.push(Removed(path));
        }
        let mut files = files.into_iter();
        let first = files.next().expect("there is always a first directory");
        let second = files.next();
        Ok(Prepared { conditions, first, second })
    }

    /// Says so if both directories lie on one device: the programs then share what the study gave each of them.
    pub fn shared(&self) -> Option<String> {
        let (one, two) = (&self.conditions.directory, self.conditions.second.as_ref()?);
        let (about_one, about_two) = (std::fs::metadata(one).ok()?, std::fs::metadata(two).ok()?);
        // A partition and its neighbour, or two subvolumes of btrfs, have numbers of their own, but the same disk.
        let kernel = Kernel::running();
        let disks = |path: &Path| -> Vec<String> {
            let target = topology::Target::find(&kernel, path);
            target.map(|target| target.disks().iter().map(|disk| disk.name.clone()).collect()).unwrap_or_default()
        };
        let (mut common, others) = (disks(one), disks(two));
        common.retain(|disk| others.contains(disk));
        let what = if (about_one.dev(), about_one.ino()) == (about_two.dev(), about_two.ino()) {
            "are the same directory"
        } else if about_one.dev() == about_two.dev() || !common.is_empty() {
            "lie on the same device"
        } else {
            return None;
        };
        let named = if common.is_empty() { String::new() } else { format!(" ({})", common.join(", ")) };
        Some(format!(
            "{} and {} {what}{named}: both programs share the device; for one program per drive, as in the study, name \
             directories on two drives",
            one.display(),
            two.display()
        ))
    }

    /// Runs all four, in the order of the study's script: the file is written, read, and written over.
    pub fn run(
        &self,
        interrupted: &AtomicBool,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Vec<Shown>, BsdError> {
        let order = [Program::Write8192, Program::Write4096, Program::Read8192, Program::Rewrite8192];
        let count = self.conditions.runs as usize;
        let mut results = Vec::new();
        for (index, program) in order.into_iter().enumerate() {
            let mut runs = Vec::new();
            for number in 0..count {
                self.go_on(interrupted)?;
                progress(index * count + number, order.len() * count);
                runs.push(self.once(program, interrupted)?);
            }
            // The first only clears the cache of what would help.
            let shown = if runs.len() > 1 { runs.split_off(1) } else { runs };
            results.push(Shown { program: program.name(), runs: shown });
        }
        let place = |result: &Shown| Program::ALL.iter().position(|program| program.name() == result.program);
        results.sort_by_key(place);
        Ok(results)
    }

    fn files(&self) -> impl Iterator<Item = &Removed> {
        std::iter::once(&self.first).chain(&self.second)
    }

    fn go_on(&self, interrupted: &AtomicBool) -> Result<(), BsdError> {
        if interrupted.load(Relaxed) { Err(BsdError::Interrupted { files: self.files().count() }) } else { Ok(()) }
    }

    /// One run in each directory.
    fn once(&self, program: Program, interrupted: &AtomicBool) -> Result<Repeat, BsdError> {
        let failed =
            |file: &Removed, source| BsdError::Program { program: program.name(), path: file.0.clone(), source };
        for file in self.files() {
            self.ready(program, &file.0).map_err(|source| failed(file, source))?;
        }
        // A second Ctrl-C removes the files; from here on a program would make them again.
        self.go_on(interrupted)?;
        let start = Barrier::new(self.files().count());
        let timed = |file: &Removed| {
            start.wait();
            self.timed(program, &file.0).map_err(|source| failed(file, source))
        };
        let Some(second) = &self.second else {
            let ran = Ran::from(timed(&self.first)?);
            return Ok(Repeat { together: ran, each: vec![ran] });
        };
        let (one, two) = std::thread::scope(|scope| -> Result<_, BsdError> {
            // If there is no second thread, nobody waits at the barrier yet.
            let other = std::thread::Builder::new().name("bsd-2".into()).spawn_scoped(scope, || timed(second));
            let other = other.map_err(|source| BsdError::Thread { source })?;
            let one = timed(&self.first);
            let two = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok((one?, two?))
        })?;
        Ok(Repeat { together: one.and(two).into(), each: vec![one.into(), two.into()] })
    }

    /// What the script does before each run.
    fn ready(&self, program: Program, path: &Path) -> std::io::Result<()> {
        if matches!(program, Program::Write4096 | Program::Write8192) {
            // `rm -f` before each, as the script has it: the blocks are allocated anew.
            std::fs::remove_file(path)?;
        } else if self.conditions.cold {
            uring::drop_cache(&File::open(path)?)?;
        }
        Ok(())
    }

    /// A program, timed as csh times a command.
    fn timed(&self, program: Program, path: &Path) -> std::io::Result<Timed> {
        let (began, used) = (std::time::Instant::now(), thread_time());
        program.run(path, self.conditions.size, self.conditions.sync)?;
        let (ended, used) = (std::time::Instant::now(), thread_time().saturating_sub(used));
        Ok(Timed { bytes: self.conditions.size, began, ended, used })
    }
}

/// When a program, or two, began and ended, and what they moved and used meanwhile.
#[derive(Debug, Clone, Copy)]
struct Timed {
    bytes: Bytes,
    began: std::time::Instant,
    ended: std::time::Instant,
    /// CPU time.
    used: Duration,
}

impl Timed {
    /// Two that ran at once: from the start of the earlier to the end of the later.
    fn and(self, other: Timed) -> Timed {
        Timed {
            bytes: self.bytes + other.bytes,
            began: self.began.min(other.began),
            ended: self.ended.max(other.ended),
            used: self.used + other.used,
        }
    }
}

impl From<Timed> for Ran {
    fn from(timed: Timed) -> Ran {
        let real = timed.ended.saturating_duration_since(timed.began);
        let real = Duration::from_seconds(real.as_secs_f64()).max(Duration::nanos(1));
        let busy = Ratio::new(timed.used.as_seconds() / real.as_seconds());
        Ran { rate: timed.bytes.per(real), busy, time: real }
    }
}

/// A file that goes when nobody looks any more.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // If it is gone already, someone has done our work.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(directory: &Path, second: Option<&Path>) -> Conditions {
        let second = second.map(Path::to_owned);
        Conditions { directory: directory.to_owned(), second, size: Bytes::kib(64), runs: 3, cold: false, sync: false }
    }

    fn count(directory: &Path) -> usize {
        std::fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn two_programs_come_to_their_sum_until_the_later_one_ended() {
        let start = std::time::Instant::now();
        let at = |millis: u64| start + std::time::Duration::from_millis(millis);
        let timed = |began: u64, ended: u64, used: u64| Timed {
            bytes: Bytes::mib(8),
            began: at(began),
            ended: at(ended),
            used: Duration::millis(used),
        };
        let (one, two) = (timed(0, 1000, 900), timed(500, 2000, 1500));
        for both in [one.and(two), two.and(one)].map(Ran::from) {
            assert_eq!(both.time, Duration::millis(2000));
            assert_eq!(both.rate.get(), f64::from(8 << 20), "16 MiB in 2 s");
            assert!((both.busy.as_percent() - 120.0).abs() < 1e-9, "{both:?}");
        }
        let alone = Ran::from(two);
        assert_eq!((alone.time, alone.busy.get()), (Duration::millis(1500), 1.0));
    }

    #[test]
    fn a_program_that_takes_no_time_has_a_rate() {
        let now = std::time::Instant::now();
        let ran = Ran::from(Timed { bytes: Bytes::kib(8), began: now, ended: now, used: Duration::ZERO });
        assert!(ran.rate.get().is_finite() && ran.time == Duration::nanos(1), "{ran:?}");
    }

    #[test]
    fn a_second_directory_that_cannot_be_written_leaves_nothing_in_the_first() {
        let one = tempfile::tempdir().unwrap();
        let nowhere = one.path().join("nowhere");
        let refused = Prepared::new(conditions(one.path(), Some(&nowhere))).err().unwrap().to_string();
        assert!(refused.starts_with(&nowhere.display().to_string()), "{refused}");
        assert!(refused.ends_with("name a directory that can be written"), "{refused}");
        assert_eq!(count(one.path()), 0);
    }

    #[test]
    fn one_directory_twice_holds_two_files_and_is_said_to_be_shared() {
        let one = tempfile::tempdir().unwrap();
        let prepared = Prepared::new(conditions(one.path(), Some(one.path()))).unwrap();
        assert_eq!(count(one.path()), 2);
        let said = prepared.shared().unwrap();
        assert!(said.contains("are the same directory") && said.contains("both programs share the device"), "{said}");
        let results = prepared.run(&AtomicBool::new(false), |_, _| {}).unwrap();
        assert_eq!(results.len(), 4);
        for repeat in results.iter().flat_map(|result| &result.runs) {
            assert_eq!(repeat.each.len(), 2);
            assert!(repeat.each.iter().all(|ran| ran.time <= repeat.together.time), "{repeat:?}");
        }
        drop(prepared);
        assert_eq!(count(one.path()), 0);
    }

    #[test]
    fn one_directory_is_shared_with_nobody_and_its_run_is_the_whole() {
        let one = tempfile::tempdir().unwrap();
        let prepared = Prepared::new(conditions(one.path(), None)).unwrap();
        assert_eq!(prepared.shared(), None);
        let results = prepared.run(&AtomicBool::new(false), |_, _| {}).unwrap();
        for repeat in results.iter().flat_map(|result| &result.runs) {
            assert_eq!(repeat.each, [repeat.together]);
        }
    }

    #[test]
    fn an_interruption_says_what_is_removed() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (second, words) in [(None, "their file is removed"), (Some(two.path()), "their files are removed")] {
            let prepared = Prepared::new(conditions(one.path(), second)).unwrap();
            let ended = prepared.run(&AtomicBool::new(true), |_, _| {}).unwrap_err().to_string();
            drop(prepared);
            assert_eq!(ended, format!("the programs were interrupted; {words}"));
            assert_eq!(count(one.path()) + count(two.path()), 0);
        }
    }
}
