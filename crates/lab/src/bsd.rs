//! The four programs of the 4.2BSD file system study, on a directory of today.
//!
//! `read_8192`, `write_4096`, `write_8192` and `rewrite_8192` (M. K. McKusick, W. Joy, S. Leffler, R. Fabry, "A Fast
//! File System for UNIX", 1984; their sources are in appendix A of Kridle and McKusick, "Performance Effects of Disk
//! Subsystem Choices for VAX Systems Running 4.2BSD UNIX", 1983): each a loop of plain system calls with one buffer on
//! 8 MiB of a file. Each is run three times; the first run clears the cache of what would help, and is not shown. Rates
//! are in units of 1024 bytes a second, as in the tables of the study; "percentage of CPU" is user and system time by
//! real time, as csh prints it.
//!
//! Two things are not as they were. The VAX had 4 MB of memory, so 8 MiB did not stay in its cache; today they do, and
//! what is measured is the memory. `cold` has the cache dropped before each run. And 4.2BSD wrote at most 1 MB behind;
//! today all of it may be unwritten when the program ends. `sync` counts the time until it is on the disk, too.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use host::cpu::thread_time;
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
    /// How large it is; 8 MiB in the study.
    pub size: Bytes,
    /// How often each is run; three times in the study, of which the first is not shown.
    pub runs: u32,
    /// The cache is dropped before each run.
    pub cold: bool,
    /// The time until all is on the disk counts.
    pub sync: bool,
}

/// One run of a program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ran {
    /// Of the file, in real time.
    pub rate: Rate,
    /// Share of a processor.
    pub busy: Ratio,
    /// Real time.
    pub time: Duration,
}

/// What a program came to: the runs that are shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// The program.
    pub program: &'static str,
    /// All but the first.
    pub runs: Vec<Ran>,
}

/// Why the programs could not be run.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum BsdError {
    #[error("{}: {source}; name a directory that can be written", path.display())]
    Directory { path: PathBuf, source: std::io::Error },
    #[error("{program} on {}: {source}; the file system may be full or failing", path.display())]
    Program { program: &'static str, path: PathBuf, source: std::io::Error },
    #[error("the programs were interrupted; their file is removed")]
    Interrupted,
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

/// Runs all four, in the order of the study's script: the file is written, read, and written over. The file is removed
/// at the end.
pub fn run(
    conditions: &Conditions,
    interrupted: &AtomicBool,
    mut progress: impl FnMut(usize, usize),
) -> Result<Vec<Shown>, BsdError> {
    let path = conditions.directory.join(format!("arraylab-bsd-{}", std::process::id()));
    let made = File::create_new(&path);
    made.map_err(|source| BsdError::Directory { path: conditions.directory.clone(), source })?;
    let file = Removed(path);
    let order = [Program::Write8192, Program::Write4096, Program::Read8192, Program::Rewrite8192];
    let of = order.len() * conditions.runs as usize;
    let mut results = Vec::new();
    for (index, program) in order.into_iter().enumerate() {
        let mut runs = Vec::new();
        for number in 0..conditions.runs {
            if interrupted.load(Relaxed) {
                return Err(BsdError::Interrupted);
            }
            progress(index * conditions.runs as usize + number as usize, of);
            let ran = once(program, &file.0, conditions);
            let failed = |source| BsdError::Program { program: program.name(), path: file.0.clone(), source };
            runs.push(ran.map_err(failed)?);
        }
        // The first only clears the cache of what would help.
        let shown = if runs.len() > 1 { runs.split_off(1) } else { runs };
        results.push(Shown { program: program.name(), runs: shown });
    }
    let place = |result: &Shown| Program::ALL.iter().position(|program| program.name() == result.program);
    results.sort_by_key(place);
    Ok(results)
}

/// One run, timed as csh times a command.
fn once(program: Program, path: &Path, conditions: &Conditions) -> std::io::Result<Ran> {
    if matches!(program, Program::Write4096 | Program::Write8192) {
        // `rm -f` before each, as the script has it: the blocks are allocated anew.
        std::fs::remove_file(path)?;
    } else if conditions.cold {
        uring::drop_cache(&File::open(path)?)?;
    }
    let (began, used) = (std::time::Instant::now(), thread_time());
    program.run(path, conditions.size, conditions.sync)?;
    let (real, used) = (began.elapsed(), thread_time().saturating_sub(used));
    let real = Duration::from_seconds(real.as_secs_f64()).max(Duration::nanos(1));
    let busy = Ratio::new(used.as_seconds() / real.as_seconds());
    Ok(Ran { rate: conditions.size.per(real), busy, time: real })
}

/// A file that goes when nobody looks any more.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // If it is gone already, someone has done our work.
        let _ = std::fs::remove_file(&self.0);
    }
}
