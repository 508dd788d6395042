//! The sequence of requests of one stream on one device.

use device::Operation;
use rand::RngExt;
use runtime::Random;
use units::Bytes;

use crate::behind::{Behind, Turn};
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

/// The next request, or why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// This one.
    Ask(Ask),
    /// None before one that is under way has ended.
    Wait,
    /// None any more.
    End,
}

/// Produces a stream's requests, for ever; the same ones for the same seed (and, of a stream that [reads
/// behind](Stream::behind) its writes, for the same order of completions).
///
/// Every request lies within the region, starts on a multiple of the alignment (from the region's start), and has one
/// of the sizes.
#[derive(Debug)]
pub struct Generator {
    stream: Stream,
    start: Bytes,
    ground: Ground,
    random: Random,
    cursor: Cursor,
    /// Of writes, where they have a place of their own.
    write: Option<(Cursor, Ground)>,
    behind: Option<Behind>,
}

impl Generator {
    /// The requests of `stream` on a device of `size` bytes. The stream has been [checked](Stream::check) against that
    /// device.
    pub fn new(stream: &Stream, size: Bytes, seed: u64) -> Generator {
        let (start, length) = stream.range_on(size);
        assert!(stream.largest() <= length, "a checked stream's requests fit its region");
        let largest = if stream.write_pattern.is_some() { stream.sizes.largest() } else { stream.largest() };
        let single = stream.sizes.single().filter(|_| stream.write_pattern.is_some() || stream.write_sizes.is_none());
        let ground = Ground { length, align: stream.align, largest, single };
        let cursor = Cursor::new(&stream.pattern, &stream.sizes, ground, seed);
        let write = stream.write_pattern.as_ref().map(|pattern| {
            let (sizes, align) = (stream.sizes_at(true), stream.write_align.unwrap_or(stream.align));
            let ground = Ground { length, align, largest: sizes.largest(), single: sizes.single() };
            // Another order than that of the reads.
            (Cursor::new(pattern, sizes, ground, seed ^ 0x7772_6974_6573), ground)
        });
        let behind = stream.behind.map(|how| Behind::new(how, &stream.limits));
        Generator { stream: stream.clone(), start, ground, random: Random::new(seed), cursor, write, behind }
    }

    /// The next request.
    ///
    /// # Panics
    /// Of a stream that reads behind its writes and has a limit of bytes or requests, when all is drawn: ask by
    /// [`Generator::next`].
    pub fn next_ask(&mut self) -> Ask {
        match self.next(|_| false) {
            Next::Ask(ask) => ask,
            none => panic!("a stream without an end of its own has a next request, and this one has {none:?}"),
        }
    }

    /// The next request, or why there is none. `held` says whether a direction is held back more than the other, which
    /// then has its turn.
    pub fn next(&mut self, held: impl Fn(Operation) -> bool) -> Next {
        match self.behind.as_mut().map(Behind::next) {
            Some(Turn::Read(read)) => return Next::Ask(read),
            Some(Turn::Wait) => return Next::Wait,
            Some(Turn::End) => return Next::End,
            Some(Turn::Draw) | None => {}
        }
        Next::Ask(self.draw(held))
    }

    fn draw(&mut self, held: impl Fn(Operation) -> bool) -> Ask {
        if self.stream.write_sizes.is_none() && self.write.is_none() {
            let length = self.stream.sizes.draw(&mut self.random);
            let (at, length) = self.cursor.next(length, self.ground, &mut self.random);
            let operation = turned(operation(self.stream.mix, &mut self.random), held, self.stream.mix);
            return self.ask(operation, at, length);
        }
        // Which of the two it is decides how large it is, and where it may go.
        let operation = turned(operation(self.stream.mix, &mut self.random), held, self.stream.mix);
        let writes = operation != Operation::Read;
        let length = self.stream.sizes_at(writes).draw(&mut self.random);
        let (at, length) = match &mut self.write {
            Some((cursor, ground)) if writes => cursor.next(length, *ground, &mut self.random),
            _ => self.cursor.next(length, self.ground, &mut self.random),
        };
        self.ask(operation, at, length)
    }

    fn ask(&mut self, operation: Operation, at: Bytes, length: Bytes) -> Ask {
        assert!(at + length <= self.ground.length, "a request stays in its region");
        if let Some(behind) = &mut self.behind {
            behind.drawn(length);
        }
        Ask { operation, offset: self.start + at, length }
    }

    /// A request has ended; a stream that reads behind its writes learns from it what may be read.
    pub fn ended(&mut self, ask: &Ask, succeeded: bool) {
        if let Some(behind) = &mut self.behind {
            behind.ended(ask, succeeded);
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

/// The other direction of a mixed stream, if this one is held back.
fn turned(operation: Operation, held: impl Fn(Operation) -> bool, mix: Mix) -> Operation {
    let mixed = mix.has_writes() && mix != Mix::WRITES;
    match operation {
        Operation::Read if mixed && held(Operation::Read) => Operation::Write,
        Operation::Write if mixed && held(Operation::Write) => Operation::Read,
        drawn => drawn,
    }
}
