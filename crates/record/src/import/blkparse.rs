//! The default output of blkparse(1):
//!
//! ```text
//!   8,16   1      110     0.024600123  4122  Q   R 7864320 + 128 [reader]
//!   8,16   1      112     0.024602001  4122  D   R 7864320 + 128 [reader]
//!   8,16   0       93     0.037718845     0  C   R 7864320 + 128 [0]
//! ```
//!
//! device, processor, number, seconds, process, action, kind, first sector, `+`, sectors, and in brackets the program or, of a
//! completion, the error. Q is when a request was made, D when the driver got it, C when it was done. A C belongs to the D of the same
//! device, kind and first sector; devices that remap (dm, md) have no D, and the Q serves. Requests that the scheduler merges have one D for several Qs:
//! its first sector's Q is taken. Other actions, and the statistics after the last event, say nothing that is needed here.

use std::collections::HashMap;

use units::{Bytes, Instant};

use super::{ImportError, Imported, TraceText, line_error, row};
use crate::Operation;

/// A request under way: when it was made, and when the driver got it.
#[derive(Clone, Copy)]
struct Pending {
    made: Option<Instant>,
    issued: Option<Instant>,
    depth: u16,
}

/// True if the line begins as an event does.
pub(super) fn recognises(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let number = |word: Option<&str>| word.is_some_and(|word| word.parse::<u64>().is_ok());
    words.next().is_some_and(is_device)
        && number(words.next())
        && number(words.next())
        && words.next().is_some_and(is_time)
}

fn is_device(word: &str) -> bool {
    let halves =
        word.split_once(',').map(|(major, minor)| major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok());
    halves == Some(true)
}

fn is_time(word: &str) -> bool {
    time(word).is_some()
}

/// `0.024600123` exactly.
fn time(word: &str) -> Option<Instant> {
    let (seconds, nanos) = word.split_once('.')?;
    if nanos.len() != 9 || !nanos.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let nanos: u64 = nanos.parse().ok()?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos).map(Instant::from_nanos)
}

/// What an `RWBS` word says. Flushes and notes move nothing and are left out.
fn operation(kind: &str) -> Option<Operation> {
    if kind.contains('D') {
        Some(Operation::Discard)
    } else if kind.contains('R') {
        Some(Operation::Read)
    } else if kind.contains('W') {
        Some(Operation::Write)
    } else {
        None
    }
}

/// An event that is one of a request's three.
pub(super) struct Event<'t> {
    pub at: Instant,
    pub device: &'t str,
    pub action: &'t str,
    pub operation: Operation,
    /// In bytes, like the length.
    pub offset: u64,
    pub length: u64,
}

fn wrong(text: &TraceText, number: usize, what: &str) -> ImportError {
    let like = "an event of blkparse reads '8,0 1 110 0.024600123 4122 C R 7864320 + 128 [0]'";
    line_error(text, number, format!("{what}; {like}"))
}

/// The event of a line; nothing if the line is of something else. What begins as an event must be one.
pub(super) fn event<'t>(text: &TraceText, number: usize, line: &'t str) -> Result<Option<Event<'t>>, ImportError> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let Some(device) = words.first().copied().filter(|word| is_device(word)) else { return Ok(None) };
    let at = words
        .get(3)
        .and_then(|word| time(word))
        .ok_or_else(|| wrong(text, number, "the fourth word is no time in seconds with nine decimals"))?;
    let (Some(action), Some(kind)) = (words.get(5).copied(), words.get(6)) else {
        return Err(wrong(text, number, "the line ends before the action and kind of the event"));
    };
    let Some(operation) = operation(kind).filter(|_| matches!(action, "Q" | "D" | "C")) else { return Ok(None) };
    // A flush that carries data has a sector, one that does not has none.
    if words.get(8) != Some(&"+") {
        return Ok(None);
    }
    let sectors = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok()?.checked_mul(512));
    let (Some(offset), Some(length)) = (sectors(7), sectors(9)) else {
        return Err(wrong(text, number, "'sector + sectors' are no numbers of 512-byte sectors"));
    };
    Ok(Some(Event { at, device, action, operation, offset, length }))
}

/// Adds the requests of a text.
pub(super) fn read(text: &TraceText, imported: &mut Imported) -> Result<(), ImportError> {
    let mut pending: HashMap<(u16, u64, Operation), Pending> = HashMap::new();
    let mut under_way: HashMap<u16, u16> = HashMap::new();
    let (mut last, mut completions) = (Instant::START, 0u64);
    for (number, line) in (1..).zip(text.text.lines()) {
        let Some(Event { at, device, action, operation, offset, length }) = event(text, number, line)? else {
            continue;
        };
        let Ok(length) = u32::try_from(length) else {
            return Err(wrong(text, number, "a request of 4 GiB and more"));
        };
        let device = imported.device(device)?;
        let key = (device, offset, operation);
        match action {
            "Q" => {
                pending.insert(key, Pending { made: Some(at), issued: None, depth: 0 });
            }
            "D" => {
                let count = under_way.entry(device).or_default();
                *count = count.saturating_add(1);
                let made = pending.get(&key).and_then(|pending| pending.made);
                pending.insert(key, Pending { made, issued: Some(at), depth: *count });
            }
            _ => {
                if at < last {
                    let file = text.name.to_owned();
                    return Err(ImportError::BackInTime {
                        file,
                        line: number,
                        at: at.as_nanos(),
                        before: last.as_nanos(),
                    });
                }
                last = at;
                completions += 1;
                let Some(begun) = pending.remove(&key) else {
                    imported.unmatched += 1;
                    continue;
                };
                if begun.issued.is_some() {
                    under_way.entry(device).and_modify(|count| *count = count.saturating_sub(1));
                }
                let issued = begun.issued.or(begun.made).expect("what is pending was made or issued").min(at);
                let mut row = row(operation);
                row.intended = begun.made.map_or(issued, |made| made.min(issued));
                row.submitted = issued;
                row.completed = at;
                row.offset = Bytes::new(offset);
                row.length = length;
                row.device = device;
                row.depth = begun.depth;
                let mut words = line.split_whitespace();
                row.cpu = words.nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
                row.errno = error(words.nth(8).as_ref());
                imported.rows.push(row);
            }
        }
    }
    if completions == 0 {
        let next = ": it has no events of action C; let blktrace trace them (-a complete), too";
        return Err(ImportError::Empty { file: text.name.to_owned(), next });
    }
    Ok(())
}

/// `[0]`, or the kernel's negative error in 16 bits without its sign: `[65531]` is EIO.
fn error(word: Option<&&str>) -> u16 {
    let number = word.and_then(|word| word.trim_start_matches('[').trim_end_matches(']').parse::<i32>().ok());
    match number {
        None | Some(0) => 0,
        Some(number) if (-4095..0).contains(&number) => number.unsigned_abs() as u16,
        Some(number) if (61_441..65_536).contains(&number) => (65_536 - number) as u16,
        Some(_) => 5,
    }
}
