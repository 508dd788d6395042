//! The sequence of requests of one stream on one device.

use device::Operation;
use rand::RngExt;
use runtime::Random;
use units::Bytes;

use crate::behind::Behind;
use crate::cursor::{Cursor, Ground};
use crate::{Mix, Stream};

/// One request to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Read or write.
    pub operation: Operation,
    /// Byte address on the device.
    pub offset: Bytes,
    /// How many bytes.
    pub length: Bytes,
}

/// Produces a stream's requests, for ever; the same ones for the same seed (and, of a stream that [reads behind](Stream::behind) its
/// writes, for the same order of completions).
///
/// Every request lies within the region, starts on a multiple of the alignment (from the region's start), and has one of the sizes.
#[derive(Debug)]
pub struct Generator {
    stream: Stream,
    start: Bytes,
    ground: Ground,
    random: Random,
    cursor: Cursor,
    behind: Option<Behind>,
}

impl Generator {
    /// The requests of `stream` on a device of `size` bytes. The stream has been [checked](Stream::check) against that device.
    pub fn new(stream: &Stream, size: Bytes, seed: u64) -> Generator {
        let (start, length) = stream.range_on(size);
        assert!(stream.largest() <= length, "a checked stream's requests fit its region");
        let ground = Ground { length, align: stream.align, largest: stream.largest() };
        let cursor = Cursor::new(&stream.pattern, stream, ground, seed);
        let behind = stream.behind.map(Behind::new);
        Generator { stream: stream.clone(), start, ground, random: Random::new(seed), cursor, behind }
    }

    /// The next request.
    pub fn next_ask(&mut self) -> Ask {
        if let Some(read) = self.behind.as_mut().and_then(Behind::next) {
            return read;
        }
        let Some(write_sizes) = &self.stream.write_sizes else {
            let length = self.stream.sizes.draw(&mut self.random);
            let at = self.cursor.next(length, self.ground, &mut self.random);
            let operation = operation(self.stream.mix, &mut self.random);
            return self.ask(operation, at, length);
        };
        // Which of the two it is decides how large it is.
        let operation = operation(self.stream.mix, &mut self.random);
        let sizes = if operation == Operation::Read { &self.stream.sizes } else { write_sizes };
        let length = sizes.draw(&mut self.random);
        let at = self.cursor.next(length, self.ground, &mut self.random);
        self.ask(operation, at, length)
    }

    fn ask(&self, operation: Operation, at: Bytes, length: Bytes) -> Ask {
        assert!(at + length <= self.ground.length, "a request stays in its region");
        Ask { operation, offset: self.start + at, length }
    }

    /// A request has been carried out; a stream that reads behind its writes learns from it what may be read.
    pub fn completed(&mut self, ask: &Ask) {
        if let Some(behind) = &mut self.behind {
            behind.completed(ask);
        }
    }
}

/// Read or write, by the share of reads.
fn operation(mix: Mix, random: &mut Random) -> Operation {
    // Streams of one kind draw nothing, so that their addresses do not depend on there being a mix at all.
    match mix.reads.get() {
        reads if reads >= 1.0 => Operation::Read,
        reads if reads <= 0.0 => Operation::Write,
        reads if random.random_bool(reads) => Operation::Read,
        _ => Operation::Write,
    }
}
