//! What ranks say to each other: frames on a TCP connection.
//!
//! ```text
//! length   u32, little-endian   of what follows the kind
//! kind     u8                   0: a message in JSON; 1: rows, 56 bytes each, as in records.raw
//! ```
//! JSON, because messages are few and a person may want to read them; rows as they lie in memory, because there are
//! millions.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use record::Row;
use serde::{Deserialize, Serialize};

use crate::hosts::Trouble;
use crate::hosts::part::Part;
use crate::pulse::Beat;

/// Rows in a frame.
pub(crate) const ROWS: usize = 16_384;
/// No frame is longer; what claims to be is none of ours.
const LONGEST: usize = 64 << 20;

/// What a rank says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// First, to rank 0. `word` is that of the meeting place, `experiment` what it would run, or why it cannot.
    Hello { version: String, word: String, rank: u32, size: u32, host: String, experiment: Result<String, String> },
    /// The answer: it belongs here.
    Welcome { host: String },
    /// The answer: it does not.
    Refused { why: String },
    /// What does your clock show?
    Ask { number: u32 },
    /// Nanoseconds since its process began, and of the time of day.
    Clock { number: u32, shows: i64, day: i64 },
    /// Make this experiment ready.
    Point { experiment: String },
    /// Open it; records go below this folder.
    Folder { path: String },
    /// The devices it will load.
    Devices { names: Vec<String> },
    /// It is at the beginning of a pass.
    Ready { pass: u16 },
    /// The pass begins when the clock of whom is told shows this.
    Begin { pass: u16, at: i64 },
    /// The run ends before its time.
    EndEarly,
    /// It is there; said each second, with what its devices did.
    Alive { beats: Vec<Beat> },
    /// It can take no part.
    Failed { trouble: Trouble },
    /// What it came to.
    Done { part: Box<Part> },
    /// Send your rows.
    Fetch,
    /// These were all.
    NoMoreRows,
    /// Its rows are in the result, and the result is on disk.
    Kept,
    /// All is over; exit with this.
    Bye { code: u8 },
}

/// What comes in.
#[derive(Debug)]
pub(crate) enum Frame {
    Message(Message),
    Rows(Vec<Row>),
}

/// The way out: several threads may speak, one at a time.
#[derive(Debug)]
pub(crate) struct Line(Mutex<Arc<TcpStream>>);

impl Line {
    pub fn new(stream: Arc<TcpStream>) -> Line {
        Line(Mutex::new(stream))
    }

    /// Says something. Whether the other end is there is found by whoever listens to it.
    pub fn say(&self, message: &Message) -> io::Result<()> {
        let text = serde_json::to_vec(message).expect("plain data becomes JSON");
        self.send(0, &text)
    }

    pub fn rows(&self, rows: &[Row]) -> io::Result<()> {
        let bytes: Vec<u8> = rows.iter().flat_map(Row::to_bytes).collect();
        self.send(1, &bytes)
    }

    fn send(&self, kind: u8, bytes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).ok().filter(|length| *length as usize <= LONGEST);
        let length = length.ok_or_else(|| io::Error::other("a message is longer than 64 MiB"))?;
        let mut frame = Vec::with_capacity(5 + bytes.len());
        frame.extend_from_slice(&length.to_le_bytes());
        frame.push(kind);
        frame.extend_from_slice(bytes);
        // In one write, so that a short message is one packet.
        let stream = self.0.lock().expect("no panic under this lock");
        (&**stream).write_all(&frame)
    }
}

/// The next frame. What is none of ours is an error, like a connection that ends.
pub(crate) fn receive(from: &mut impl Read) -> io::Result<Frame> {
    let mut head = [0; 5];
    from.read_exact(&mut head)?;
    let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
    let nonsense = || io::Error::new(io::ErrorKind::InvalidData, "what was said is no message of arraylab");
    if length > LONGEST || head[4] > 1 {
        return Err(nonsense());
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    if head[4] == 0 {
        return serde_json::from_slice(&bytes).map(Frame::Message).map_err(|_| nonsense());
    }
    let (rows, rest) = bytes.as_chunks::<{ Row::BYTES }>();
    let rows: Option<Vec<Row>> = rows.iter().map(Row::from_bytes).collect();
    rows.filter(|_| rest.is_empty()).map(Frame::Rows).ok_or_else(nonsense)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever comes in, it is a frame or an error.
    #[test]
    fn nonsense_is_refused() {
        let frame = |length: u32, kind: u8, bytes: &[u8]| [&length.to_le_bytes()[..], &[kind], bytes].concat();
        for bytes in [
            frame(u32::MAX, 0, b""),
            frame(2, 7, b"{}"),
            frame(2, 0, b"{}"),
            frame(3, 1, b"abc"),
            frame(56, 1, &[0xff; 56]),
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            frame(10, 0, b"cut"),
        ] {
            assert!(receive(&mut &bytes[..]).is_err(), "{bytes:?}");
        }
    }
}
