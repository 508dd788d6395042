//! A latency log of fio with stamps of issue, as `write_lat_log`, `log_issue_time=1` and `log_offset=1` make it:
//!
//! ```text
//! 37, 13118722, 0, 65536, 4026531840, 0x0000, 24602001
//! ```
//!
//! milliseconds since the job's start, latency in ns, direction (0 read, 1 write, 2 trim), size, offset, priority, and
//! when the request was issued, in ns since the job's start. The first column is too coarse for anything but a check,
//! and may count from another start than the last one (`log_unix_epoch`); a request completed when it was issued plus
//! its latency. So the logs to be given are those of completion latency (`NAME_clat.1.log`): total latency begins
//! earlier than the issue.
//!
//! Zero is written as the issue of what was issued before the job's start (in its ramp time), of several requests in
//! one line (`log_avg_msec`), and in logs of total latency.
//!
//! Each job counts from its own start. Jobs of one run start within some tens of microseconds of each other.

use units::Bytes;

use super::{ImportError, Imported, TraceText, line_error, row, stamp};
use crate::{Operation, Row};

/// True if the line is one of fio's logs, with or without stamps of issue.
pub(super) fn recognises(line: &str) -> bool {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    let number = |cell: &str| {
        let (digits, base) = cell.strip_prefix("0x").map_or((cell, 10), |digits| (digits, 16));
        u64::from_str_radix(digits, base).is_ok()
    };
    (4..=8).contains(&cells.len()) && cells.into_iter().all(number)
}

/// A thread that has to wait before it writes its line down is late by less.
const LATE_MS: i64 = 100;

/// What the device of each log is called: the name of its file without the ending, and as many folders before it as it
/// takes to tell it from the others.
pub(super) fn devices(given: &[TraceText]) -> Vec<String> {
    fn last(name: &str, folders: usize) -> &str {
        let mut slashes = name.rmatch_indices('/');
        let name = slashes.nth(folders).map_or(name, |(slash, _)| &name[slash + 1..]);
        let file = name.rfind('/').map_or(0, |slash| slash + 1);
        // What begins with a point has no ending.
        name.rfind('.').filter(|point| *point > file).map_or(name, |point| &name[..point])
    }
    let alone =
        |name: &str, folders| given.iter().filter(|other| last(other.name, folders) == last(name, folders)).count() < 2;
    let called = given.iter().map(|text| {
        let most = text.name.matches('/').count();
        let folders = (0..=most).find(|folders| alone(text.name, *folders));
        folders.map_or(text.name, |folders| last(text.name, folders)).to_owned()
    });
    called.collect()
}

/// Of what the log is by its name, `NAME_KIND.1.log`.
fn kind(name: &str) -> &str {
    let file = name.rsplit_once('/').map_or(name, |(_, file)| file);
    let stem = file.strip_suffix(".log").unwrap_or(file).trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    stem.rsplit_once('_').map_or(stem, |(_, kind)| kind)
}

/// Refuses logs beside or instead of that of completion latency, which a job writes under names that differ in one
/// word. `_lat` is refused if `_clat` is given, too: both are of the same requests.
fn is_of_completions(text: &TraceText, given: &[TraceText]) -> Result<(), ImportError> {
    let kind = kind(text.name);
    let what = match kind {
        "bw" => "bandwidth",
        "iops" => "rates of requests",
        "slat" => "submission",
        "lat" => "total latency",
        _ => return Ok(()),
    };
    let begins = text.name.rfind(kind).expect("the kind is part of the name");
    let instead = format!("{}clat{}", &text.name[..begins], &text.name[begins + kind.len()..]);
    if kind == "lat" {
        return match given.iter().find(|other| other.name == instead) {
            Some(_) => Err(ImportError::SameRequests { file: text.name.to_owned(), other_file: instead }),
            None => Ok(()),
        };
    }
    Err(ImportError::NotLatency { file: text.name.to_owned(), what, instead })
}

/// True if two logs are of the same requests: jobs do not issue theirs at the same nanoseconds, one after the other.
fn are_same(some: &[Row], others: &[Row]) -> bool {
    let issue = |row: &Row| (row.submitted, row.operation, row.offset, row.length);
    some.len().min(others.len()) > 1 && some.iter().map(issue).zip(others.iter().map(issue)).all(|(a, b)| a == b)
}

/// Holds the stamps of the rows from `first` on against the first column of their lines. Takes out the requests of
/// which it says that they began before the job's start, and returns how many.
fn agree(text: &TraceText, lines: &[(usize, u64)], rows: &mut Vec<Row>, first: usize) -> Result<u64, ImportError> {
    let issued = |row: &Row| row.submitted.as_nanos();
    let took = |row: &Row| row.completed.as_nanos() - row.submitted.as_nanos();
    // Both are below a hundred years.
    let late = |row: &Row, seen: u64| seen as i64 - (row.completed.as_nanos() / 1_000_000) as i64;
    let mut all: Vec<i64> = rows[first..].iter().zip(lines).map(|(row, line)| late(row, line.1)).collect();
    let middle = all.len() / 2;
    // All lines but the damaged ones are late by the distance of the two starts.
    let usual = if all.is_empty() { 0 } else { *all.select_nth_unstable(middle).1 };
    let usual = if usual.abs() <= LATE_MS { 0 } else { usual };
    let unstamped = lines.len() > 1 && rows[first..].iter().all(|row| issued(row) == 0);
    let mut begun_before = vec![false; lines.len()];
    for ((row, (line, seen)), before) in rows[first..].iter().zip(lines).zip(&mut begun_before) {
        let late = late(row, *seen) - usual;
        if issued(row) == 0 && (unstamped || late > LATE_MS) {
            let what = "the request has no time of issue, 0 ns; fio writes it into logs of completion latency \
                        (NAME_clat.1.log) of single requests (log_avg_msec=0)";
            return Err(line_error(text, *line, what));
        }
        *before = issued(row) == 0 && late < -1;
        if !*before && late.abs() > LATE_MS {
            let (issued, took, whose) = (issued(row), took(row), if usual == 0 { "" } else { " of its own clock" });
            let what = format!(
                "issued at {issued} ns, and {took} ns until it was done, do not end at {seen} ms{whose}, as the first column says; \
                 of a sound line they do within {LATE_MS} ms"
            );
            return Err(line_error(text, *line, what));
        }
    }
    let (given, mut index) = (rows.len(), 0);
    rows.retain(|_| {
        index += 1;
        index <= first || !begun_before[index - 1 - first]
    });
    Ok((given - rows.len()) as u64)
}

/// Adds the requests of a text, one of those given, on a device of that name.
pub(super) fn read(
    text: &TraceText,
    name: &str,
    given: &[TraceText],
    imported: &mut Imported,
) -> Result<(), ImportError> {
    is_of_completions(text, given)?;
    let device = imported.device(name)?;
    let (mut last, before) = (0, imported.rows.len());
    let mut lines: Vec<(usize, u64)> = Vec::new();
    for (number, line) in (1..).zip(text.text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        match cells.len() {
            7 => {}
            4..=6 => return Err(ImportError::NoIssueTimes { file: text.name.to_owned() }),
            8 => {
                let what = "the line has a mean and a maximum, of several requests; let fio log each (log_avg_msec=0)";
                return Err(line_error(text, number, what));
            }
            cells => return Err(line_error(text, number, format!("{cells} columns; a log with issue times has 7"))),
        }
        let cell = |index: usize, what: &str| {
            let wrong = || line_error(text, number, format!("'{}' is no {what}, a whole number", cells[index]));
            cells[index].parse::<u64>().map_err(|_| wrong())
        };
        let (seen, latency, issued) =
            (cell(0, "time in ms")?, cell(1, "latency in ns")?, cell(6, "time of issue in ns")?);
        stamp(seen.saturating_mul(1_000_000)).map_err(|what| line_error(text, number, what))?;
        if seen < last {
            let (file, at, before) = (text.name.to_owned(), seen * 1_000_000, last * 1_000_000);
            let next =
                "give the log of each job as a file of its own if they ran together, and explain others one by one";
            return Err(ImportError::BackInTime { file, line: number, at, before, next });
        }
        last = seen;
        let operation = match cells[2] {
            "0" => Operation::Read,
            "1" => Operation::Write,
            "2" => Operation::Discard,
            other => {
                return Err(line_error(text, number, format!("'{other}' is no direction: 0 read, 1 write, 2 trim")));
            }
        };
        let at = |nanos| stamp(nanos).map_err(|what| line_error(text, number, what));
        let (submitted, completed) = (at(issued)?, at(issued.saturating_add(latency))?);
        let priority = cells[5];
        let digits = priority.strip_prefix("0x").map_or((priority, 10), |digits| (digits, 16));
        if u32::from_str_radix(digits.0, digits.1).is_err() {
            return Err(line_error(text, number, format!("'{priority}' is no priority, as 0 or 0x4001")));
        }
        lines.push((number, seen));
        let mut row = row(operation);
        row.submitted = submitted;
        row.intended = submitted;
        row.completed = completed;
        let too_long = |_| line_error(text, number, "a request of more than 4 GiB");
        row.length = u32::try_from(cell(3, "size in bytes")?).map_err(too_long)?;
        row.offset = Bytes::new(cell(4, "offset in bytes")?);
        row.device = device;
        row.depth = 1;
        imported.rows.push(row);
    }
    imported.unmatched += agree(text, &lines, &mut imported.rows, before)?;
    let (earlier, rows) = imported.rows.split_at(before);
    if rows.is_empty() {
        return Err(ImportError::Empty { file: text.name.to_owned(), next: "" });
    }
    if let Some(same) = earlier.chunk_by(|a, b| a.device == b.device).position(|earlier| are_same(earlier, rows)) {
        let (file, other_file) = (text.name.to_owned(), given[same].name.to_owned());
        return Err(ImportError::SameRequests { file, other_file });
    }
    Ok(())
}
