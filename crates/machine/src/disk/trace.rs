//! Measured requests: the validation traces of DiskSim 4.0.
//!
//! One request a line, six columns, no header: `R` or `W`; the buffer outcome seen on the bus; the first block; how
//! many blocks; the measured response time and the delay from this request's completion to the next one's issue, both
//! in microseconds.

use std::path::Path;

use units::Duration;

use super::mechanism::Access;
use crate::part::Place;

/// One measured request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// Where it stands in the file, counted from 1.
    pub line: u32,
    /// Read or write.
    pub access: Access,
    /// The first block.
    pub block: u64,
    /// How many.
    pub blocks: u64,
    /// How long the real drive took.
    pub response: Duration,
    /// From completion to the next issue.
    pub think: Duration,
}

/// Why a trace cannot be used: where and what.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {trouble}", Place::line(file, *line))]
pub struct TraceError {
    /// The file's name.
    pub file: String,
    /// Counted from 1; 0 if the file could not be read at all.
    pub line: u32,
    /// What is wrong.
    pub trouble: TraceTrouble,
}

/// What is wrong with a line of a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum TraceTrouble {
    #[error("cannot be read: {error}")]
    Unreadable { error: String },
    #[error("the line ends after {found} of 6 columns; it may be truncated")]
    Short { found: usize },
    #[error("the line has more than 6 columns: R or W, outcome, block, blocks, response in us, delay in us")]
    Long,
    #[error("column {column} is '{found}'; write {accepted}")]
    Wrong { column: usize, found: String, accepted: &'static str },
    #[error("blocks {block} to {last} do not all exist; the drive has blocks 0 to {highest}")]
    BeyondDrive { block: u64, last: u64, highest: u64 },
    #[error("the trace holds no request")]
    Empty,
}

/// Reads a trace file for a drive of `capacity` blocks.
pub fn load(path: &Path, capacity: u64) -> Result<Vec<Measured>, TraceError> {
    let file = path.display().to_string();
    match std::fs::read(path) {
        // Traces are plain ASCII; a stray byte in a comment must not matter.
        Ok(bytes) => parse(&file, &String::from_utf8_lossy(&bytes), capacity),
        Err(error) => Err(TraceError { file, line: 0, trouble: TraceTrouble::Unreadable { error: error.to_string() } }),
    }
}

/// Reads a trace for a drive of `capacity` blocks. Blank lines and lines that start with `#` are passed over.
pub fn parse(file: &str, text: &str, capacity: u64) -> Result<Vec<Measured>, TraceError> {
    let mut requests = Vec::with_capacity(text.len() / 40);
    for (line, text) in (1u32..).zip(text.lines()) {
        if text.trim_start().is_empty() || text.trim_start().starts_with('#') {
            continue;
        }
        let request = parse_line(line, text, capacity);
        requests.push(request.map_err(|trouble| TraceError { file: file.to_owned(), line, trouble })?);
    }
    if requests.is_empty() {
        return Err(TraceError { file: file.to_owned(), line: 1, trouble: TraceTrouble::Empty });
    }
    Ok(requests)
}

/// Half a gibibyte: no request is larger, and a million of them on the slowest bus stay within 64 bits of nanoseconds.
const MOST_BLOCKS: u64 = 1 << 20;

fn parse_line(line: u32, text: &str, capacity: u64) -> Result<Measured, TraceTrouble> {
    let mut columns = text.split_ascii_whitespace();
    let mut found = 0;
    let mut next = || {
        let column = columns.next().ok_or(TraceTrouble::Short { found });
        found += 1;
        column
    };
    let (access, _outcome, block, blocks) = (next()?, next()?, next()?, next()?);
    let (response, think) = (next()?, next()?);
    if columns.next().is_some() {
        return Err(TraceTrouble::Long);
    }
    let wrong = |column, found: &str, accepted| TraceTrouble::Wrong { column, found: found.to_owned(), accepted };
    let access = match access {
        "R" | "r" => Access::Read,
        "W" | "w" => Access::Write,
        _ => return Err(wrong(1, access, "R or W")),
    };
    let block: u64 = block.parse().map_err(|_| wrong(3, block, "a block number from 0 on"))?;
    let count = blocks.parse().ok().filter(|count| (1..=MOST_BLOCKS).contains(count));
    let count = count.ok_or_else(|| wrong(4, blocks, "a number of blocks from 1 to 1048576"))?;
    let last = block.saturating_add(count - 1);
    if last >= capacity {
        return Err(TraceTrouble::BeyondDrive { block, last, highest: capacity.saturating_sub(1) });
    }
    let response = micros(response).ok_or_else(|| wrong(5, response, "a time in microseconds from 0 to 10^9"))?;
    let think = micros(think).ok_or_else(|| wrong(6, think, "a time in microseconds from 0 to 10^9"))?;
    Ok(Measured { line, access, block, blocks: count, response, think })
}

/// Microseconds with digits below one, to the nearest nanosecond.
fn micros(text: &str) -> Option<Duration> {
    let value: f64 = text.parse().ok()?;
    (0.0..=1e9).contains(&value).then(|| Duration::nanos((value * 1e3).round() as u64))
}
