//! What a trace asked for, and when: for a replay, which needs no completions.
//!
//! | format | a line | times |
//! |---|---|---|
//! | `blkparse` | see [`blkparse`](super::blkparse); its events Q, or D where there are none | ns |
//! | `fio-log` | see [`fio`](super::fio) | ns |
//! | `fio-iolog` | `[us] file read 4096 8192`; versions 2 (with `wait` in us) and 3 | us |
//! | `msr` | `128166372003061629,host,0,Read,383496192,32768,1331`: the SNIA's traces of Microsoft Research Cambridge; times of 100 ns | 100 ns |
//! | `spc` | `0,20941264,8192,W,0.551706`: application unit, block of 512 bytes, bytes, direction, seconds: the UMass repository | s |
//! | `disksim` | `0.551706 0 20941264 16 1`: ms, device, block, blocks, flags (bit 0: read): DiskSim's default | ms |
//!
//! The first request is at zero, whatever the clock of the trace said then. Tables that go back in time are put in
//! order, and that is said: such are written in order of completion, or by several processors. A log of fio is written
//! in order of issue, so that one that goes back is several logs: each goes on where the one before it ended, and that
//! is said, too.
//!
//! A disk of `msr` is called by its host and its number: several hosts have a disk 0.

use std::borrow::Cow;

use units::{Bytes, Duration, Instant};

use super::blkparse::{Action, Event, events};
use super::decimal::decimal;
use super::{ImportError, LATEST, TraceFormat, TraceText, line_error};
use crate::{Operation, Row};

/// One request of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// From the first request of the trace.
    pub at: Duration,
    /// Index into the names of devices.
    pub device: u16,
    /// What.
    pub operation: Operation,
    /// Where.
    pub offset: Bytes,
    /// How much.
    pub length: Bytes,
}

/// All requests of a trace, in order of time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Asked {
    /// As the trace calls them.
    pub devices: Vec<String>,
    /// The requests.
    pub requests: Vec<Wanted>,
    /// What a reader of the results should know of the traces.
    pub remarks: Vec<String>,
}

/// A longer read or write is a slip of the trace, or of its reader. A discard moves nothing and may be of a whole disk.
const LONGEST: u64 = 1 << 30;
/// Longer discards are made in parts: a row counts bytes up to 4 GiB.
const DISCARD_PART: u64 = 1 << 31;
/// A discard of more than 64 TiB is a slip, too: no disk is that large, and its parts would fill the memory.
const LONGEST_DISCARD: u64 = 1 << 46;
/// No device has an address above this, and sums of addresses below it are no danger.
const MOST: u64 = 1 << 62;

/// Reads what texts asked for. Without a format, each is recognised by its content.
pub fn asked(texts: &[TraceText], format: Option<TraceFormat>) -> Result<Asked, ImportError> {
    let mut asking = Asking::default();
    let logs = super::fio::devices(texts);
    for (index, text) in texts.iter().enumerate() {
        let unrecognised = || ImportError::Unrecognised { file: text.name.to_owned() };
        super::foreign::refuse(text, format)?;
        let found = format.or_else(|| TraceFormat::recognise(text.text)).ok_or_else(unrecognised)?;
        let before = asking.0.requests.len();
        match found {
            TraceFormat::Blkparse => asking.blkparse(text)?,
            TraceFormat::FioLog => {
                let imported = super::import(&[*text], Some(found))?;
                asking.rows(&imported.rows, &logs[index..=index])?;
            }
            TraceFormat::FioIolog => asking.iolog(text)?,
            TraceFormat::Msr => {
                asking.table(text, "7 columns: time, host, disk, Read or Write, offset, size, response", msr)?
            }
            TraceFormat::Spc => asking.table(text, "5 columns: unit, block, bytes, R or W, seconds", spc)?,
            TraceFormat::DiskSim => asking.table(text, "5 columns: ms, device, block, blocks, flags", disksim)?,
        }
        if asking.0.requests.len() == before {
            return Err(ImportError::Empty { file: text.name.to_owned(), next: "" });
        }
    }
    asking.finish()
}

/// What a line says before its device has a number.
pub(super) struct Line<'t> {
    pub at: Duration,
    pub device: Cow<'t, str>,
    pub operation: Operation,
    pub offset: u64,
    pub length: u64,
    /// How long it took, where that is said.
    pub took: Option<Duration>,
}

/// What traces ask for, while they are read; every request of which something is wrong is refused here, whatever it was
/// read from.
#[derive(Debug, Default)]
pub struct Asking(Asked);

impl Asking {
    /// Adds a request, at a time by the trace's clock; or says what is wrong with it.
    pub fn push(
        &mut self,
        device: &str,
        at: Duration,
        operation: Operation,
        offset: u64,
        length: u64,
    ) -> Result<(), String> {
        let moves = matches!(operation, Operation::Read | Operation::Write);
        if (moves && length > LONGEST) || (length == 0 && operation != Operation::Flush) {
            return Err(format!("a request of {length} bytes; from 1 byte to 1 GiB would do"));
        }
        if length > LONGEST_DISCARD {
            return Err(format!("a discard of {length} bytes; from 1 byte to 64 TiB would do"));
        }
        if offset.checked_add(length).is_none_or(|end| end > MOST) {
            return Err("the request ends beyond all addresses".to_owned());
        }
        let known = self.0.devices.iter().position(|known| known == device);
        let index = known.unwrap_or(self.0.devices.len());
        let number = u16::try_from(index).map_err(|_| ImportError::TooManyDevices(index + 1).to_string())?;
        if known.is_none() {
            self.0.devices.push(device.to_owned());
        }
        let (mut offset, mut rest) = (offset, length);
        loop {
            let part = if moves { rest } else { rest.min(DISCARD_PART) };
            let (start, length) = (Bytes::new(offset), Bytes::new(part));
            self.0.requests.push(Wanted { at, device: number, operation, offset: start, length });
            (offset, rest) = (offset + part, rest - part);
            if rest == 0 {
                return Ok(());
            }
        }
    }

    /// What rows of ours, or of a trace with completions, asked for, at the times at which they were intended.
    pub fn rows(&mut self, rows: &[Row], devices: &[String]) -> Result<(), ImportError> {
        for row in rows {
            let device = devices.get(usize::from(row.device)).map_or("device", String::as_str);
            let at = Duration::nanos(row.intended.as_nanos());
            let number = self.0.requests.len() as u64 + 1;
            self.push(device, at, row.operation, row.offset.get(), row.length.into())
                .map_err(|what| ImportError::Row { row: number, what })?;
        }
        Ok(())
    }

    /// Another trace beside what is here, on devices of its own.
    pub fn append(&mut self, other: Asked) -> Result<(), ImportError> {
        let devices = self.0.devices.len() + other.devices.len();
        let first =
            u16::try_from(devices).map_err(|_| ImportError::TooManyDevices(devices))? - other.devices.len() as u16;
        self.0.devices.extend(other.devices);
        self.0.remarks.extend(other.remarks);
        let moved = other.requests.into_iter().map(|wanted| Wanted { device: wanted.device + first, ..wanted });
        self.0.requests.extend(moved);
        Ok(())
    }

    /// In order of time, from the first request on.
    pub fn finish(mut self) -> Result<Asked, ImportError> {
        let requests = &mut self.0.requests;
        // Stable: of requests at one time, the file's order is the best that is known.
        requests.sort_by_key(|wanted| wanted.at);
        let first = requests.first().map_or(Duration::ZERO, |wanted| wanted.at);
        requests.iter_mut().for_each(|wanted| wanted.at -= first);
        match requests.last() {
            Some(last) if last.at > LATEST => {
                Err(ImportError::TooLong { years: last.at.as_nanos() / Duration::seconds(365 * 86_400).as_nanos() })
            }
            _ => Ok(self.0),
        }
    }

    fn line(&mut self, text: &TraceText, number: usize, line: Line) -> Result<(), ImportError> {
        let Line { at, device, operation, offset, length, took: _ } = line;
        self.push(&device, at, operation, offset, length).map_err(|what| line_error(text, number, what))
    }

    /// Says of a text that its requests, from `first` on, are not in order of time. They will be put in order.
    fn remark_on_order(&mut self, text: &TraceText, first: usize) {
        let mut latest = Duration::ZERO;
        let (mut earlier, mut most, mut at) = (0u64, Duration::ZERO, Duration::ZERO);
        for wanted in &self.0.requests[first..] {
            if wanted.at < latest {
                earlier += 1;
                if latest - wanted.at > most {
                    (most, at) = (latest - wanted.at, wanted.at);
                }
            }
            latest = latest.max(wanted.at);
        }
        if earlier > 0 {
            self.0.remarks.push(format!(
                "{}: {earlier} requests are earlier than one above them, by up to {most} (that at {at} by its clock); they are put in order of \
                 time. If the clock began anew there, split the file and replay the parts one by one",
                text.name
            ));
        }
    }

    /// A table, line by line.
    fn table(
        &mut self,
        text: &TraceText,
        accepted: &str,
        read: for<'t> fn(&'t str) -> Option<Line<'t>>,
    ) -> Result<(), ImportError> {
        let first = self.0.requests.len();
        let mut before = None;
        for (number, line) in (1..).zip(text.text.lines()) {
            let line = line.trim();
            let line = line.trim_start_matches('\u{feff}');
            // Comments, and the header of a table.
            if line.is_empty() || line.starts_with('#') || (before.is_none() && is_header(line)) {
                continue;
            }
            before.get_or_insert(number);
            let read = read(line)
                .ok_or_else(|| line_error(text, number, format!("'{line}' is no request; a line has {accepted}")))?;
            self.line(text, number, read)?;
        }
        self.remark_on_order(text, first);
        Ok(())
    }

    /// Events by which requests were made; where there are none (a trace of `-a issue`), by which they were issued.
    fn blkparse(&mut self, text: &TraceText) -> Result<(), ImportError> {
        let made = |event: &Result<(usize, Event), ImportError>| matches!(event, Ok((_, it)) if it.action == Action::Q);
        let wanted = if events(text).any(|event| made(&event)) { Action::Q } else { Action::D };
        let first = self.0.requests.len();
        for event in events(text) {
            let (number, Event { at, device, action, operation, offset, length, .. }) = event?;
            if action == wanted {
                let (at, offset, length) = (at.since(Instant::START), offset.get(), length.into());
                self.line(text, number, Line { at, device: device.into(), operation, offset, length, took: None })?;
            }
        }
        self.remark_on_order(text, first);
        Ok(())
    }

    /// fio's iolog. Of version 2 a `wait` of some file moves the time of all that follows.
    fn iolog(&mut self, text: &TraceText) -> Result<(), ImportError> {
        let mut lines = (1..).zip(text.text.lines());
        let (_, head) = lines.next().unwrap_or((1, ""));
        let timed = match head.trim() {
            "fio version 2 iolog" => false,
            "fio version 3 iolog" => true,
            _ => {
                return Err(line_error(
                    text,
                    1,
                    "the first line is neither 'fio version 2 iolog' nor 'fio version 3 iolog'",
                ));
            }
        };
        // What is added to the stamps, and the line at which the clock began anew first.
        let (mut now, mut past, mut anew) = (Duration::ZERO, Duration::ZERO, Vec::new());
        for (number, line) in lines {
            let mut rest = line.trim();
            let number_of = |what: &str, word: Option<&str>| {
                let parsed = word.and_then(|word| word.parse::<u64>().ok());
                parsed.ok_or_else(|| line_error(text, number, format!("there is no {what}, a whole number")))
            };
            let too_late = || line_error(text, number, "the time is later than a clock counts");
            let micros = |count: u64| count.checked_mul(1000).map(Duration::nanos).ok_or_else(too_late);
            let sum = |a: Duration, b: Duration| a.as_nanos().checked_add(b.as_nanos()).map(Duration::nanos);
            if rest.is_empty() {
                continue;
            }
            if timed {
                let (word, behind) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                let stamp = micros(number_of("time in microseconds", Some(word))?)?;
                rest = behind.trim_start();
                let at = sum(past, stamp).ok_or_else(too_late)?;
                if at < now {
                    anew.push(number);
                    past = now;
                }
                now = sum(past, stamp).ok_or_else(too_late)?;
            }
            let Some((file, action, words)) = action(rest) else { continue };
            let mut words = words.into_iter();
            let operation = match action {
                "add" | "open" | "close" => continue,
                "wait" => {
                    let wait = micros(number_of("time to wait in microseconds", words.next())?)?;
                    now = sum(now, wait).ok_or_else(too_late)?;
                    continue;
                }
                "read" => Operation::Read,
                "write" => Operation::Write,
                "trim" => Operation::Discard,
                "sync" | "datasync" => Operation::Flush,
                other => {
                    let what =
                        format!("'{other}' is no action: add, open, close, read, write, trim, sync, datasync or wait");
                    return Err(line_error(text, number, what));
                }
            };
            let (offset, length) = match operation {
                Operation::Flush => (0, 0),
                _ => (number_of("offset in bytes", words.next())?, number_of("length in bytes", words.next())?),
            };
            self.line(text, number, Line { at: now, device: file.into(), operation, offset, length, took: None })?;
        }
        if let Some(line) = anew.first() {
            let more = if anew.len() > 1 { format!(", and {} times more", anew.len() - 1) } else { String::new() };
            self.0.remarks.push(format!(
                "{}: the clock begins anew at line {line}{more}; the requests are kept in the order of the file, and what follows goes on where \
                 the clock stood. If these are logs of several jobs, split the file and replay the parts one by one",
                text.name
            ));
        }
        Ok(())
    }
}

/// File, action and what follows, of a line of an iolog without its time. A name may hold blanks, so the action is
/// looked for from the end; nothing of a line that names a file and nothing else.
fn action(line: &str) -> Option<(&str, &str, Vec<&str>)> {
    // How many words each has behind it.
    const ACTIONS: [(&str, &[usize]); 9] = [
        ("add", &[0]),
        ("open", &[0]),
        ("close", &[0]),
        ("wait", &[1, 2]),
        ("read", &[2]),
        ("write", &[2]),
        ("trim", &[2]),
        ("sync", &[0, 2]),
        ("datasync", &[0, 2]),
    ];
    let numbers = |words: &[&str]| words.iter().all(|word| word.parse::<u64>().is_ok());
    let words: Vec<&str> = line.split_whitespace().collect();
    for behind in 0..=2 {
        let Some(place) = words.len().checked_sub(behind + 1).filter(|place| *place > 0) else { continue };
        let known = ACTIONS.iter().find(|(name, _)| *name == words[place]);
        if known.is_some_and(|(_, counts)| counts.contains(&behind)) && numbers(&words[place + 1..]) {
            let before = |line: &'_ str| line.trim_end().rfind(char::is_whitespace).unwrap_or(0);
            let file = (0..=behind).fold(line, |line, _| &line[..before(line)]);
            return Some((file.trim_end(), words[place], words[place + 1..].to_vec()));
        }
    }
    // Something is wrong with it: what stands where an action would be after a name without blanks.
    Some((*words.first()?, *words.get(1)?, words[2..].to_vec()))
}

/// Names of columns: words, of which the first begins with a letter and none is a number.
pub(super) fn is_header(line: &str) -> bool {
    let number = |cell: &str| cell.trim().parse::<f64>().is_ok();
    line.starts_with(|c: char| c.is_alphabetic() || c == '"')
        && !line.split(|c: char| c == ',' || c.is_whitespace()).any(number)
}

/// The cells of a line that are told apart by commas, without quotation marks.
fn cells(line: &str) -> Vec<&str> {
    line.split(',').map(|cell| cell.trim().trim_matches('"')).collect()
}

fn direction(word: &str) -> Option<Operation> {
    match word.to_ascii_lowercase().as_str() {
        "r" | "read" => Some(Operation::Read),
        "w" | "write" => Some(Operation::Write),
        _ => None,
    }
}

pub(super) fn msr(line: &str) -> Option<Line<'_>> {
    let cells = cells(line);
    let [time, host, disk, kind, offset, size, response] = cells[..] else { return None };
    // Windows counts 100 ns from 1601.
    let ticks = |text: &str| text.parse::<u64>().ok()?.checked_mul(100).map(Duration::nanos);
    let (at, took) = (ticks(time)?, ticks(response));
    let (offset, length) = (offset.parse().ok()?, size.parse().ok()?);
    let device = if host.is_empty() { disk.into() } else { format!("{host}_{disk}").into() };
    Some(Line { at, device, operation: direction(kind)?, offset, length, took })
}

fn spc(line: &str) -> Option<Line<'_>> {
    let cells = cells(line);
    let [unit, block, bytes, kind, seconds, ..] = cells[..] else { return None };
    unit.parse::<u32>().ok()?;
    let (at, operation) = (decimal(seconds, Duration::seconds(1))?, direction(kind)?);
    let (offset, length) = (block.parse::<u64>().ok()?.checked_mul(512)?, bytes.parse().ok()?);
    Some(Line { at, device: unit.into(), operation, offset, length, took: None })
}

fn disksim(line: &str) -> Option<Line<'_>> {
    let cells: Vec<&str> = line.split_whitespace().collect();
    let [millis, device, block, blocks, flags] = cells[..] else { return None };
    let at = decimal(millis, Duration::millis(1))?;
    let bytes = |blocks: &str| blocks.parse::<u64>().ok()?.checked_mul(512);
    let (offset, length) = (bytes(block)?, bytes(blocks)?);
    let flags = flags.strip_prefix("0x").map_or_else(|| flags.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok())?;
    let operation = if flags & 1 == 1 { Operation::Read } else { Operation::Write };
    Some(Line { at, device: device.into(), operation, offset, length, took: None })
}

/// Which of these formats a first line is of.
pub(super) fn recognise(line: &str) -> Option<TraceFormat> {
    match line.trim() {
        "fio version 2 iolog" | "fio version 3 iolog" => Some(TraceFormat::FioIolog),
        line if msr(line).is_some() => Some(TraceFormat::Msr),
        line if spc(line).is_some() => Some(TraceFormat::Spc),
        line if disksim(line).is_some() => Some(TraceFormat::DiskSim),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Asked, ImportError> {
        asked(&[TraceText { name: "t", text }], None)
    }

    /// Nanoseconds, offset, length, and what.
    type Said = (u64, u64, u64, Operation);

    fn first_and_last(text: &str) -> (Said, Said) {
        let asked = read(text).unwrap();
        let of = |wanted: &Wanted| (wanted.at.as_nanos(), wanted.offset.get(), wanted.length.get(), wanted.operation);
        (of(asked.requests.first().unwrap()), of(asked.requests.last().unwrap()))
    }

    #[test]
    fn each_format_is_told_from_its_text_and_begins_at_zero() {
        use Operation::{Discard, Flush, Read, Write};
        for (text, expected) in [
            (
                "fio version 2 iolog\n/a add\n/a open\n/a read 4096 8192\n/a wait 250\n/a sync 0 0\n/a close\n",
                ((0, 4096, 8192, Read), (250_000, 0, 0, Flush)),
            ),
            (
                "fio version 3 iolog\n26 /a add\n121 /a read 0 4096\n355 /b trim 45056 4096\n",
                ((0, 0, 4096, Read), (234_000, 45_056, 4096, Discard)),
            ),
            (
                "128166372003061629,usr,0,Read,7014609920,24576,41286\n128166372016382155,usr,1,Write,1317441536,8192,1963\n",
                ((0, 7_014_609_920, 24_576, Read), (1_332_052_600, 1_317_441_536, 8192, Write)),
            ),
            (
                "0,20941264,8192,W,0.551706\n1,20939840,8192,R,0.554041\n",
                ((0, 20_941_264 * 512, 8192, Write), (2_335_000, 20_939_840 * 512, 8192, Read)),
            ),
            ("1.5 0 100 16 1\n2.25 0 200 8 0x0\n", ((0, 51_200, 8192, Read), (750_000, 102_400, 4096, Write))),
            (
                "  8,16 1 110 0.024600000 4122 Q R 786 + 128 [fio]\n  8,16 1 111 0.024601000 4122 D R 786 + 128 [fio]\n  8,16 1 112 0.024700001 4122 Q WS 8 + 8 [fio]\n",
                ((0, 786 * 512, 65_536, Read), (100_001, 4096, 4096, Write)),
            ),
            // A flush has no sector.
            (
                "  8,16 1 110 0.500000000 4122 Q R 786 + 128 [fio]\n  8,16 1 112 0.500000007 4122 Q FWS [jbd2]\n",
                ((0, 786 * 512, 65_536, Read), (7, 0, 0, Flush)),
            ),
            // Before 2005 and after it, 2 s apart.
            (
                "127489247990000000,usr,0,Read,0,512,1\n127489248010000001,usr,0,Write,0,512,1\n",
                ((0, 0, 512, Read), (2_000_000_100, 0, 512, Write)),
            ),
        ] {
            let (first, last) = first_and_last(text);
            assert_eq!((first, last), expected, "{text}");
        }
    }

    #[test]
    fn a_trace_in_order_of_completion_is_put_in_order_of_time() {
        let asked = read("2.0 0 8 8 1\n1.0 0 16 8 1\n").unwrap();
        assert_eq!(asked.requests.iter().map(|wanted| wanted.offset.get()).collect::<Vec<_>>(), [8192, 4096]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, said) in [
            ("0.5 0 8 8 1\nx\n", "t:2: 'x' is no request; a line has 5 columns: ms, device, block, blocks, flags"),
            ("0.5 0 8 0 1\n", "t:1: a request of 0 bytes; from 1 byte to 1 GiB would do"),
            (
                "0.5 0 8 8 1\n-3 0 8 8 1\n",
                "t:2: '-3 0 8 8 1' is no request; a line has 5 columns: ms, device, block, blocks, flags",
            ),
            (
                "0 0 8 8 1\n9999999999999 0 8 8 1\n",
                "the first request and the last are 317 years apart: their stamps are of different clocks; replay the traces one by one",
            ),
            // A log of fio goes by its rows, which are held to the same.
            (
                "9, 1, 0, 4096, 18446744073709551615, 0, 1\n",
                "row 1 of the records: the request ends beyond all addresses",
            ),
            ("9, 1, 0, 0, 0, 0, 1\n", "row 1 of the records: a request of 0 bytes; from 1 byte to 1 GiB would do"),
            (
                "fio version 3 iolog\n5 /a trim 0 4611686018427387904\n",
                "t:2: a discard of 4611686018427387904 bytes; from 1 byte to 64 TiB would do",
            ),
            (
                "fio version 3 iolog\n5 /a jump 0 0\n",
                "t:2: 'jump' is no action: add, open, close, read, write, trim, sync, datasync or wait",
            ),
            ("fio version 2 iolog\n/a read 0\n", "t:2: there is no length in bytes, a whole number"),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), said);
        }
        assert!(matches!(read("what is this\n"), Err(ImportError::Unrecognised { .. })));
        assert!(matches!(read("fio version 2 iolog\n/a add\n"), Err(ImportError::Empty { .. })));
    }
}
