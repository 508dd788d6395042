//! The SNIA's traces of Microsoft Research Cambridge, with their completions:
//!
//! ```text
//! Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime
//! 128166372003061629,hm,1,Read,383496192,32768,113736
//! ```
//!
//! when the request was issued, in 100 ns since 1601, host, disk, direction, bytes, bytes, and how long it took, in 100
//! ns. Files of one trace have one clock. It is counted from the first request of all of them: since 1601 no clock of
//! 63 bits counts nanoseconds.
//!
//! Of what went on between the driver and the disk nothing is said: the time from issue to completion is the whole
//! response.

use std::collections::HashMap;

use units::{Bytes, Duration, Instant};

use super::wanted::{is_header, msr};
use super::{ImportError, Imported, TraceText, line_error, row, stamp};

const COLUMNS: &str = "7 columns: time, host, disk, Read or Write, offset, size, response";

/// Adds the requests of all texts.
pub(super) fn read(texts: &[TraceText], imported: &mut Imported) -> Result<(), ImportError> {
    let mut lines = Vec::new();
    for (text, content) in texts.iter().map(|text| (text, text.text.trim_start_matches('\u{feff}'))) {
        let before = lines.len();
        for (number, line) in (1..).zip(content.lines()).map(|(number, line)| (number, line.trim())) {
            if line.is_empty() || line.starts_with('#') || (lines.len() == before && is_header(line)) {
                continue;
            }
            let no_line = || line_error(text, number, format!("'{line}' is no request; a line has {COLUMNS}"));
            lines.push((text, number, msr(line).ok_or_else(no_line)?));
        }
        if lines.len() == before {
            return Err(ImportError::Empty { file: text.name.to_owned(), next: "" });
        }
    }
    let begin = lines.iter().map(|(.., line)| line.at).min().unwrap_or(Duration::ZERO);
    for (text, number, line) in &lines {
        let wrong = |what: String| line_error(text, *number, what);
        let took = line.took.ok_or_else(|| wrong(format!("the response time is no number; a line has {COLUMNS}")))?;
        let issued = stamp((line.at - begin).as_nanos()).map_err(wrong)?;
        let done = stamp(issued.as_nanos().saturating_add(took.as_nanos())).map_err(wrong)?;
        let length = u32::try_from(line.length).ok().filter(|length| *length > 0);
        let mut row = row(line.operation);
        row.length = length
            .ok_or_else(|| wrong(format!("a request of {} bytes; from 1 byte to 4 GiB would do", line.length)))?;
        (row.intended, row.submitted, row.completed) = (issued, issued, done);
        row.offset = Bytes::new(line.offset);
        row.device = imported.device(&line.device)?;
        imported.rows.push(row);
    }
    depths(imported);
    Ok(())
}

/// How many requests of each device were under way when each was issued, itself included.
fn depths(imported: &mut Imported) {
    let rows = &mut imported.rows;
    rows.sort_by_key(|row| row.submitted);
    // By device, the ends of what is under way.
    let mut under_way: HashMap<u16, std::collections::BinaryHeap<std::cmp::Reverse<Instant>>> = HashMap::new();
    for row in rows {
        let ends = under_way.entry(row.device).or_default();
        while ends.peek().is_some_and(|end| end.0 <= row.submitted) {
            ends.pop();
        }
        ends.push(std::cmp::Reverse(row.completed));
        row.depth = u16::try_from(ends.len()).unwrap_or(u16::MAX);
    }
}
