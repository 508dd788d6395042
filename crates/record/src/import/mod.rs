//! What other programs recorded, as rows: so that a trace of a machine that arraylab never ran on can be explained like
//! a run.
//!
//! Three formats of text, each with a stamp of issue and one of completion for each request:
//!
//! - `blkparse`: the default output of blktrace's reader (see [`blkparse`]);
//! - `fio-log`: a latency log of fio with `log_issue_time=1`, a file for each job (see [`fio`]);
//! - `msr`: the traces of Microsoft Research Cambridge, whose last column says how long a request took (see [`msr`]).
//!
//! A trace says nothing of streams, passes or phases: all rows are counted ones of one stream. Rows come out in order
//! of completion. Stamps that go back within a file are refused with their line: such a file was put together from
//! several clocks, and every difference of its stamps is then worth nothing.

mod blkparse;
mod decimal;
mod fio;
mod foreign;
mod msr;
mod twice;
mod wanted;

use std::fmt;
use std::str::FromStr;

pub use wanted::{Asked, Asking, Wanted, asked};

use units::{Duration, Instant};

use crate::{Labels, Phase, Row};

/// Near a hundred years. A trace of more is of several clocks, and a stamp beyond it is damaged: clocks of traces begin
/// with the trace, the boot or 1970, and sums of a few such times are no danger.
const LATEST: Duration = Duration::seconds(3_000_000_000);

/// A kind of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceFormat {
    /// What `blkparse` prints.
    Blkparse,
    /// What fio's `write_lat_log` writes.
    FioLog,
    /// What fio's `write_iolog` writes: requests without completions, as are those that follow.
    FioIolog,
    /// The SNIA's traces of Microsoft Research Cambridge.
    Msr,
    /// The SPC's, and the UMass repository's.
    Spc,
    /// DiskSim's default.
    DiskSim,
}

/// A text to be read, and what it is called in messages and results.
#[derive(Debug, Clone, Copy)]
pub struct TraceText<'t> {
    /// Its file.
    pub name: &'t str,
    /// What is in it.
    pub text: &'t str,
}

/// What came out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Imported {
    /// The requests, in order of completion.
    pub rows: Vec<Row>,
    /// Names of devices, and of the one stream.
    pub labels: Labels,
    /// Completions whose beginning is not in the trace; they have no row.
    pub unmatched: u64,
    /// What a reader of the results should know of the traces.
    pub remarks: Vec<String>,
}

/// Why a trace cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum ImportError {
    #[error("'{0}' is no format of traces; there are blkparse, fio-log, fio-iolog, msr, spc and disksim")]
    NoSuchFormat(String),
    #[error(
        "{file} is in no format that can be told from its text; say which with --format: blkparse, fio-log, fio-iolog, msr, spc or disksim"
    )]
    Unrecognised { file: String },
    #[error("{file} is a trace of {what}, which cannot be read yet: a line of it has {columns}; {next}")]
    Foreign { file: String, what: &'static str, columns: &'static str, next: &'static str },
    #[error("{file} is {found} and {other_file} is {other}; give files of one format at a time")]
    Mixed { file: String, found: TraceFormat, other_file: String, other: TraceFormat },
    #[error(
        "{file} is {format}, which says when requests were made and not when they were done; `arraylab replay` takes it"
    )]
    NoCompletions { file: String, format: TraceFormat },
    #[error("{file}:{line}: {what}")]
    Line { file: String, line: usize, what: String },
    #[error("row {row} of the records: {what}")]
    Row { row: u64, what: String },
    #[error(
        "the first request and the last are {years} years apart: their stamps are of different clocks; replay the traces one by one"
    )]
    TooLong { years: u64 },
    #[error(
        "{file}:{line}: the completion at {at} ns lies before the one above it, at {before} ns; stamps of several clocks cannot be put in order; {next}"
    )]
    BackInTime { file: String, line: usize, at: u64, before: u64, next: &'static str },
    #[error(
        "{file} and {other_file} both begin at zero, as blkparse counts time from the first event that it reads: they have no clock in common; let one blkparse read the traces of all devices (blkparse -i sdb -i sdc), and explain traces that were not taken together one by one"
    )]
    SeveralClocks { file: String, other_file: String },
    #[error(
        "{file} has no stamps of issue: its stamps are milliseconds, which say nothing of the order within one; let fio (3.37 or later) write them with log_issue_time=1 and log_offset=1"
    )]
    NoIssueTimes { file: String },
    #[error("{file} holds what {other_file} holds, byte for byte, or is the same file; give each trace once")]
    GivenTwice { file: String, other_file: String },
    #[error("{file} is one of fio's logs of {what}, and does not say how long requests took; give {instead}")]
    NotLatency { file: String, what: &'static str, instead: String },
    #[error(
        "{file} holds the requests of {other_file} once more; give one log of each job, that of completion latency"
    )]
    SameRequests { file: String, other_file: String },
    #[error("{file} holds no completed requests{next}")]
    Empty { file: String, next: &'static str },
    #[error(
        "the trace says when {completions} requests were done, and when none of them was made or issued: let blktrace trace Q or D (-a queue, -a issue), too"
    )]
    NoBeginnings { completions: u64 },
    #[error("{0} devices are more than a record can name")]
    TooManyDevices(usize),
}

impl TraceFormat {
    /// The format of a text, by its first line that is not empty; `None` if it looks like neither.
    pub fn recognise(text: &str) -> Option<TraceFormat> {
        let mut lines = text.trim_start_matches('\u{feff}').lines().map(str::trim).filter(|line| !line.is_empty());
        let first = lines.next()?;
        if wanted::is_header(first) && wanted::recognise(first).is_none() {
            // Names of columns say less than what stands below them.
            let table = [TraceFormat::Msr, TraceFormat::Spc, TraceFormat::DiskSim];
            return lines.next().and_then(wanted::recognise).filter(|format| table.contains(format));
        }
        if blkparse::recognises(first) {
            return Some(TraceFormat::Blkparse);
        }
        wanted::recognise(first).or_else(|| fio::recognises(first).then_some(TraceFormat::FioLog))
    }
}

impl FromStr for TraceFormat {
    type Err = ImportError;
    fn from_str(text: &str) -> Result<TraceFormat, ImportError> {
        match text {
            "blkparse" => Ok(TraceFormat::Blkparse),
            "fio-log" => Ok(TraceFormat::FioLog),
            "fio-iolog" => Ok(TraceFormat::FioIolog),
            "msr" => Ok(TraceFormat::Msr),
            "spc" => Ok(TraceFormat::Spc),
            "disksim" => Ok(TraceFormat::DiskSim),
            other => Err(ImportError::NoSuchFormat(other.to_owned())),
        }
    }
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(match self {
            TraceFormat::Blkparse => "blkparse",
            TraceFormat::FioLog => "fio-log",
            TraceFormat::FioIolog => "fio-iolog",
            TraceFormat::Msr => "msr",
            TraceFormat::Spc => "spc",
            TraceFormat::DiskSim => "disksim",
        })
    }
}

/// Reads texts that belong together. Without a format, each is recognised by its content, and all must be of one.
///
/// Devices are what a blkparse text names, without volumes whose disks it names, too, and one for each file of fio's.
pub fn import(texts: &[TraceText], format: Option<TraceFormat>) -> Result<Imported, ImportError> {
    let mut known: Option<(&str, TraceFormat)> = None;
    let (mut imported, mut mapped) = (Imported::default(), twice::Mapped::new());
    imported.labels.streams.push("trace".to_owned());
    given_once(texts)?;
    one_clock(texts, &mut imported)?;
    let logs = fio::devices(texts);
    for (index, text) in texts.iter().enumerate() {
        let unrecognised = || ImportError::Unrecognised { file: text.name.to_owned() };
        foreign::refuse(text, format)?;
        let found = format.or_else(|| TraceFormat::recognise(text.text)).ok_or_else(unrecognised)?;
        if let Some((other_file, other)) = known.filter(|(_, other)| *other != found) {
            let (file, other_file) = (text.name.to_owned(), other_file.to_owned());
            return Err(ImportError::Mixed { file, found, other_file, other });
        }
        known = Some((text.name, found));
        match found {
            TraceFormat::Blkparse => blkparse::read(text, &mut imported, &mut mapped)?,
            TraceFormat::FioLog => fio::read(text, &logs[index], texts, &mut imported)?,
            // Their common clock begins with the first request of all of them.
            TraceFormat::Msr if index > 0 => {}
            TraceFormat::Msr => msr::read(texts, &mut imported)?,
            format => return Err(ImportError::NoCompletions { file: text.name.to_owned(), format }),
        }
    }
    if imported.rows.is_empty() && imported.unmatched > 0 {
        return Err(ImportError::NoBeginnings { completions: imported.unmatched });
    }
    // Stable: of completions at one instant, the file's order is the best that is known.
    imported.rows.sort_by_key(|row| row.completed);
    if known.is_some_and(|(_, format)| format == TraceFormat::Blkparse) {
        twice::leave_out_volumes(&mut imported, &mapped);
        twice::remark_on_twins(&mut imported);
    }
    Ok(imported)
}

/// Refuses a text that is given twice, under one name or two: its requests would be counted twice.
fn given_once(texts: &[TraceText]) -> Result<(), ImportError> {
    for (index, text) in texts.iter().enumerate() {
        if let Some(other) = texts[..index].iter().find(|other| other.name == text.name || other.text == text.text) {
            let (file, other_file) = (text.name.to_owned(), other.name.to_owned());
            return Err(ImportError::GivenTwice { file, other_file });
        }
    }
    Ok(())
}

/// Refuses several texts of blkparse that begin at zero: it counts from the first event that it reads, so that each
/// such text is of a reading, and a clock, of its own. Parts of one output begin later, all but the first.
fn one_clock(texts: &[TraceText], imported: &mut Imported) -> Result<(), ImportError> {
    let readings: Vec<&str> =
        texts.iter().filter(|text| blkparse::begins_at_zero(text.text)).map(|text| text.name).collect();
    if let [first, second, ..] = readings[..] {
        return Err(ImportError::SeveralClocks { file: first.to_owned(), other_file: second.to_owned() });
    }
    if texts.len() > 1 && texts.iter().all(|text| blkparse::recognises(text.text.trim_start())) {
        let remark = "the traces are taken to be parts of one output of blkparse: what it printed at different times has no clock in common";
        imported.remarks.push(remark.to_owned());
    }
    Ok(())
}

impl Imported {
    /// The number of a device, which is new or known.
    fn device(&mut self, name: &str) -> Result<u16, ImportError> {
        let devices = &mut self.labels.devices;
        let index = devices.iter().position(|known| known == name).unwrap_or_else(|| {
            devices.push(name.to_owned());
            devices.len() - 1
        });
        u16::try_from(index).map_err(|_| ImportError::TooManyDevices(index + 1))
    }
}

/// A counted row that the caller fills in.
fn row(operation: crate::Operation) -> Row {
    Row::new(operation, Phase::Measure)
}

/// A stamp that some clock may have shown; or what is wrong with it.
fn stamp(nanos: u64) -> Result<Instant, String> {
    let seconds = LATEST.as_seconds();
    let wrong = || format!("a stamp of {nanos} ns is damaged; up to {seconds} s, which are 95 years, would do");
    if nanos <= LATEST.as_nanos() { Ok(Instant::from_nanos(nanos)) } else { Err(wrong()) }
}

/// An error of one line, counted from 1.
fn line_error(text: &TraceText, line: usize, what: impl Into<String>) -> ImportError {
    ImportError::Line { file: text.name.to_owned(), line, what: what.into() }
}
