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
//! The first request is at zero, whatever the clock of the trace said then. A trace that goes back in time is put in order: such are
//! written in order of completion, or by several processors.

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
}

/// A longer request is a slip of the trace, or of its reader.
const LONGEST: u64 = 1 << 30;
/// No device has an address above this, and sums of addresses below it are no danger.
const MOST: u64 = 1 << 62;

/// Reads what texts asked for. Without a format, each is recognised by its content.
pub fn asked(texts: &[TraceText], format: Option<TraceFormat>) -> Result<Asked, ImportError> {
    let mut asking = Asking::default();
    let logs = super::fio::devices(texts);
    for (index, text) in texts.iter().enumerate() {
        let unrecognised = || ImportError::Unrecognised { file: text.name.to_owned() };
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
struct Line<'t> {
    at: Duration,
    device: &'t str,
    operation: Operation,
    offset: u64,
    length: u64,
}

/// What traces ask for, while they are read; every request of which something is wrong is refused here, whatever it was read from.
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
        if length > LONGEST || (length == 0 && operation != Operation::Flush) {
            return Err(format!("a request of {length} bytes; from 1 byte to 1 GiB would do"));
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
        let (offset, length) = (Bytes::new(offset), Bytes::new(length));
        self.0.requests.push(Wanted { at, device: number, operation, offset, length });
        Ok(())
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
        let Line { at, device, operation, offset, length } = line;
        self.push(device, at, operation, offset, length).map_err(|what| line_error(text, number, what))
    }

    /// A table, line by line.
    fn table(
        &mut self,
        text: &TraceText,
        accepted: &str,
        read: for<'t> fn(&'t str) -> Option<Line<'t>>,
    ) -> Result<(), ImportError> {
        for (number, line) in (1..).zip(text.text.lines()) {
            let line = line.trim();
            // The header of a table, and comments.
            if line.is_empty()
                || line.starts_with('#')
                || (number == 1 && line.starts_with(|c: char| c.is_alphabetic()))
            {
                continue;
            }
            let read = read(line)
                .ok_or_else(|| line_error(text, number, format!("'{line}' is no request; a line has {accepted}")))?;
            self.line(text, number, read)?;
        }
        Ok(())
    }

    /// Events by which requests were made; where there are none (a trace of `-a issue`), by which they were issued.
    fn blkparse(&mut self, text: &TraceText) -> Result<(), ImportError> {
        let made = |event: &Result<(usize, Event), ImportError>| matches!(event, Ok((_, it)) if it.action == Action::Q);
        let wanted = if events(text).any(|event| made(&event)) { Action::Q } else { Action::D };
        for event in events(text) {
            let (number, Event { at, device, action, operation, offset, length, .. }) = event?;
            if action == wanted {
                let (at, offset, length) = (at.since(Instant::START), offset.get(), length.into());
                self.line(text, number, Line { at, device, operation, offset, length })?;
            }
        }
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
        let mut now = Duration::ZERO;
        for (number, line) in lines {
            let mut words = line.split_whitespace();
            let number_of = |what: &str, word: Option<&str>| {
                let parsed = word.and_then(|word| word.parse::<u64>().ok());
                parsed.ok_or_else(|| line_error(text, number, format!("there is no {what}, a whole number")))
            };
            let too_late = || line_error(text, number, "the time is later than a clock counts");
            let micros = |count: u64| count.checked_mul(1000).map(Duration::nanos).ok_or_else(too_late);
            if timed {
                let Some(word) = words.next() else { continue };
                now = micros(number_of("time in microseconds", Some(word))?)?;
            }
            let (Some(file), action) = (words.next(), words.next()) else { continue };
            let operation = match action {
                Some("add" | "open" | "close") => continue,
                Some("wait") => {
                    let wait = micros(number_of("time to wait in microseconds", words.next())?)?;
                    let then = now.as_nanos().checked_add(wait.as_nanos());
                    now = then.map(Duration::nanos).ok_or_else(too_late)?;
                    continue;
                }
                Some("read") => Operation::Read,
                Some("write") => Operation::Write,
                Some("trim") => Operation::Discard,
                Some("sync" | "datasync") => Operation::Flush,
                other => {
                    let what = format!(
                        "'{}' is no action: add, open, close, read, write, trim, sync, datasync or wait",
                        other.unwrap_or("")
                    );
                    return Err(line_error(text, number, what));
                }
            };
            let (offset, length) = match operation {
                Operation::Flush => (0, 0),
                _ => (number_of("offset in bytes", words.next())?, number_of("length in bytes", words.next())?),
            };
            self.line(text, number, Line { at: now, device: file, operation, offset, length })?;
        }
        Ok(())
    }
}

fn direction(word: &str) -> Option<Operation> {
    match word.to_ascii_lowercase().as_str() {
        "r" | "read" => Some(Operation::Read),
        "w" | "write" => Some(Operation::Write),
        _ => None,
    }
}

fn msr(line: &str) -> Option<Line<'_>> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    let [time, _host, disk, kind, offset, size, _response] = cells[..] else { return None };
    // Windows counts 100 ns from 1601.
    let at = Duration::nanos(time.parse::<u64>().ok()?.checked_mul(100)?);
    let (offset, length) = (offset.parse().ok()?, size.parse().ok()?);
    Some(Line { at, device: disk, operation: direction(kind)?, offset, length })
}

fn spc(line: &str) -> Option<Line<'_>> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    let [unit, block, bytes, kind, seconds, ..] = cells[..] else { return None };
    unit.parse::<u32>().ok()?;
    let (at, operation) = (decimal(seconds, Duration::seconds(1))?, direction(kind)?);
    let (offset, length) = (block.parse::<u64>().ok()?.checked_mul(512)?, bytes.parse().ok()?);
    Some(Line { at, device: unit, operation, offset, length })
}

fn disksim(line: &str) -> Option<Line<'_>> {
    let cells: Vec<&str> = line.split_whitespace().collect();
    let [millis, device, block, blocks, flags] = cells[..] else { return None };
    let at = decimal(millis, Duration::millis(1))?;
    let bytes = |blocks: &str| blocks.parse::<u64>().ok()?.checked_mul(512);
    let (offset, length) = (bytes(block)?, bytes(blocks)?);
    let flags = flags.strip_prefix("0x").map_or_else(|| flags.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok())?;
    let operation = if flags & 1 == 1 { Operation::Read } else { Operation::Write };
    Some(Line { at, device, operation, offset, length })
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
