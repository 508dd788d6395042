//! The default output of blkparse(1):
//!
//! ```text
//!   8,16   1      110     0.024600123  4122  Q   R 7864320 + 128 [reader]
//!   8,16   1      112     0.024602001  4122  D   R 7864320 + 128 [reader]
//!   8,16   0       93     0.037718845     0  C   R 7864320 + 128 [0]
//! ```
//!
//! device, processor, number, seconds, process, action, kind, first sector, `+`, sectors, and in brackets the program
//! or, of a completion, the error. Q is when a request was made, D when the driver got it, C when it was done. A C
//! belongs to the D of the same device, kind and first sector; devices that remap (dm, md) have no D, and the Q serves.
//! Of several that are under way, one of the same length goes first, and of these the oldest. Requests that the
//! scheduler merges have one D for several Qs: its first sector's Q is taken, and those that were merged (M, F) are no
//! requests of their own. An R takes a D back. An A says that a request of this device came from another, `8,16 ... A R
//! 34 + 8 <- (253,0) 2`: of the two, the one below is kept (see [`twice`](super::twice)). Other actions, and the
//! statistics after the last event, say nothing that is needed here.

use std::collections::HashMap;

use units::{Bytes, Duration, Instant};

use super::decimal::decimal;
use super::twice::Mapped;
use super::{ImportError, Imported, TraceText, line_error, row, stamp};
use crate::Operation;

/// An event of which something can be made: of action Q, D, C, M, F or R, and of a request that moves something or
/// flushes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event<'t> {
    pub at: Instant,
    pub device: &'t str,
    pub cpu: u16,
    pub action: Action,
    pub operation: Operation,
    pub offset: Bytes,
    /// Zero of a flush.
    pub length: u32,
    /// Of a completion.
    pub errno: u16,
}

/// What an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// The request was made.
    Q,
    /// The driver got it.
    D,
    /// It was done.
    C,
    /// It became the end of another request.
    M,
    /// It became the beginning of another request.
    F,
    /// The driver gave it back, to be issued once more.
    R,
}

/// A request under way: when it was made, and when the driver got it.
#[derive(Clone, Copy)]
struct Pending {
    made: Option<Instant>,
    issued: Option<Instant>,
    length: u32,
    depth: u16,
}

/// The kernel gives a request up after 30 s, and tries it a few times: what is older and has younger ones of its sector
/// beside it was never completed in the trace.
const FORGOTTEN: Duration = Duration::seconds(300);

/// The requests of one device, first sector and kind that are under way, the oldest first. Nearly always there is one.
#[derive(Default)]
struct Queue(Vec<Pending>);

impl Queue {
    /// The place of the oldest of those that `wanted` takes, one of this length if there is any.
    fn find(&self, length: u32, wanted: impl Fn(&Pending) -> bool) -> Option<usize> {
        let places = || self.0.iter().enumerate().filter(|(_, pending)| wanted(pending)).map(|(place, _)| place);
        places().find(|place| self.0[*place].length == length).or_else(|| places().next())
    }

    /// The driver gets a request: that which was made first, and which is not issued. Where merges are not traced, the
    /// younger ones may be what is left of merged requests or not: the one that was made last is the one that is issued
    /// for certain.
    fn issue(&mut self, at: Instant, length: u32, depth: u16, merges_traced: bool) {
        let waits = |pending: &Pending| pending.issued.is_none();
        let place = match merges_traced {
            true => self.find(length, waits),
            false => self.0.iter().rposition(waits),
        };
        match place {
            Some(place) => {
                self.0[place] = Pending { issued: Some(at), length, depth, ..self.0[place] };
                if !merges_traced {
                    self.0.retain(|pending| pending.issued.is_some());
                }
            }
            None => self.0.push(Pending { made: None, issued: Some(at), length, depth }),
        }
    }

    /// The request that was made last, and is not issued, has become part of another.
    fn forget_latest(&mut self) {
        if let Some(place) = self.0.iter().rposition(|pending| pending.issued.is_none()) {
            self.0.remove(place);
        }
    }

    /// A request is done: takes out that which was issued first, or, of a device that issues none, was made first.
    fn complete(&mut self, at: Instant, length: u32) -> Option<Pending> {
        let begun = |pending: &Pending| pending.issued.or(pending.made).unwrap_or(Instant::START);
        if self.0.len() > 1 {
            let last = self.0.iter().map(begun).max().unwrap_or(at);
            self.0.retain(|pending| begun(pending) == last || at.saturating_since(begun(pending)) < FORGOTTEN);
        }
        let place = self.find(length, |pending| pending.issued.is_some()).or_else(|| self.find(length, |_| true))?;
        Some(self.0.remove(place))
    }
}

/// True if the first event is at zero.
pub(super) fn begins_at_zero(text: &str) -> bool {
    let mut events = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let first = events.find(|words| words.first().is_some_and(|word| is_device(word)));
    first.and_then(|words| time(words.get(3)?)).is_some_and(|at| at == Instant::START)
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
    let (_, nanos) = word.split_once('.')?;
    decimal(word, Duration::seconds(1)).filter(|_| nanos.len() == 9).map(|at| Instant::START + at)
}

/// What an `RWBS` word says. A flush has no sector, and stands first in the word of a request that may have one. Notes
/// are left out.
fn operation(kind: &str, has_sector: bool) -> Option<Operation> {
    if !has_sector {
        return kind.starts_with('F').then_some(Operation::Flush);
    }
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

/// True if an event's words after its kind are all there: the name or error in brackets is the last, and is there
/// however little stands before it. A flush that was done has a sector only, a command of a program its bytes in
/// parentheses, and `-t` adds a time in such.
fn is_whole(words: &[&str]) -> bool {
    let last = |word: Option<&&str>| word.is_some_and(|word| word.starts_with(['[', '(']));
    match words {
        [_, "+", rest @ ..] => last(rest.get(1)),
        [number, rest @ ..] if number.parse::<u64>().is_ok() => last(rest.first()),
        rest => last(rest.first()),
    }
}

/// The event of a line; nothing if it says nothing that is needed.
fn event<'t>(text: &TraceText, number: usize, line: &'t str) -> Result<Option<Event<'t>>, ImportError> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let Some(device) = words.first().copied().filter(|word| is_device(word)) else { return Ok(None) };
    let wrong = |what: &str| {
        let what = format!("{what}; an event of blkparse reads '8,0 1 110 0.024600123 4122 C R 7864320 + 128 [0]'");
        line_error(text, number, what)
    };
    let at = words.get(3).and_then(|word| time(word));
    let at = at.ok_or_else(|| wrong("the fourth word is no time in seconds with nine decimals"))?;
    let at = stamp(at.as_nanos()).map_err(|what| line_error(text, number, what))?;
    let (Some(action), Some(kind)) = (words.get(5), words.get(6)) else {
        return Err(wrong("the line ends before the action and kind of the event"));
    };
    let action = match *action {
        "Q" => Action::Q,
        "D" => Action::D,
        "C" => Action::C,
        "M" => Action::M,
        "F" => Action::F,
        "R" => Action::R,
        _ => return Ok(None),
    };
    let has_sector = words.get(8) == Some(&"+");
    if operation(kind, true).is_some() && !is_whole(&words[7..]) {
        return Err(wrong(
            "the line ends before the event does, without its sectors, or the name or error in brackets",
        ));
    }
    let Some(operation) = operation(kind, has_sector) else { return Ok(None) };
    let (offset, length) = if has_sector {
        let offset = words[7].parse::<u64>().ok().and_then(|sector| sector.checked_mul(512));
        let sectors = words.get(9).and_then(|word| word.parse::<u32>().ok());
        let both = offset.zip(sectors.and_then(|sectors| sectors.checked_mul(512)));
        both.ok_or_else(|| wrong("'sector + sectors' are no numbers of 512-byte sectors"))?
    } else {
        (0, 0)
    };
    let (cpu, errno) = (words[1].parse().unwrap_or(0), error(words.get(10)));
    Ok(Some(Event { at, device, cpu, action, operation, offset: Bytes::new(offset), length, errno }))
}

/// All events of a text, with the numbers of their lines.
pub(super) fn events<'t>(
    text: &'t TraceText<'t>,
) -> impl Iterator<Item = Result<(usize, Event<'t>), ImportError>> + use<'t> {
    (1..).zip(text.text.lines()).filter_map(|(number, line)| match event(text, number, line) {
        Ok(event) => event.map(|event| Ok((number, event))),
        Err(error) => Some(Err(error)),
    })
}

/// The devices of an event that says that a request was mapped: to which, and from which.
fn mapping(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split_whitespace();
    let device = words.next().filter(|word| is_device(word))?;
    words.nth(4).filter(|action| *action == "A")?;
    let from = words.skip_while(|word| *word != "<-").nth(1)?;
    Some((device, from.strip_prefix('(')?.strip_suffix(')').filter(|from| is_device(from))?))
}

/// True of an event of which there are such in traces of all actions only.
fn traces_all(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next().is_some_and(is_device) && words.nth(4).is_some_and(|action| ["G", "I", "M", "F"].contains(&action))
}

/// Adds the requests of a text, and which devices stand on which. Flushes move nothing and are left out.
pub(super) fn read(text: &TraceText, imported: &mut Imported, mapped: &mut Mapped) -> Result<(), ImportError> {
    let mut latest = None;
    for pair in text.text.lines().filter_map(mapping) {
        // There is one for each request, and few are of other devices than the one before.
        if latest.replace(pair) != Some(pair) {
            mapped.insert((pair.0.to_owned(), pair.1.to_owned()));
        }
    }
    let mut pending: HashMap<(u16, Bytes, Operation), Queue> = HashMap::new();
    // G, I and S stand in every trace that was not filtered, and merges then, too.
    let merges_traced = text.text.lines().any(traces_all);
    let mut under_way: HashMap<u16, u16> = HashMap::new();
    let (mut last, mut completions) = (Instant::START, 0u64);
    for event in events(text) {
        let (number, Event { at, device, cpu, action, operation, offset, length, errno }) = event?;
        if operation == Operation::Flush {
            continue;
        }
        let device = imported.device(device)?;
        let key = (device, offset, operation);
        let queue = pending.entry(key).or_default();
        match action {
            Action::Q => queue.0.push(Pending { made: Some(at), issued: None, length, depth: 0 }),
            Action::M => queue.forget_latest(),
            // From now on the request begins where this one does, and its own beginning is none.
            Action::F => {
                let behind = (device, offset + Bytes::new(length.into()), operation);
                pending.entry(behind).or_default().forget_latest();
            }
            Action::R => {
                if let Some(place) = queue.find(length, |it| it.issued.is_some()) {
                    queue.0[place].issued = None;
                    under_way.entry(device).and_modify(|count| *count = count.saturating_sub(1));
                }
            }
            Action::D => {
                let count = under_way.entry(device).or_default();
                *count = count.saturating_add(1);
                queue.issue(at, length, *count, merges_traced);
            }
            Action::C => {
                if at < last {
                    let (file, at, before) = (text.name.to_owned(), at.as_nanos(), last.as_nanos());
                    let next = "let one blkparse print what was traced together (blkparse -i sdb -i sdc), and explain traces of different times one by one";
                    return Err(ImportError::BackInTime { file, line: number, at, before, next });
                }
                last = at;
                completions += 1;
                let begun = queue.complete(at, length);
                if queue.0.is_empty() {
                    pending.remove(&key);
                }
                let Some(begun) = begun else {
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
                row.offset = offset;
                row.length = length;
                row.device = device;
                row.depth = begun.depth;
                row.cpu = cpu;
                row.errno = errno;
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
