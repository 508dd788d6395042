//! The sequence of requests of one stream on one device.

use device::Operation;
use rand::RngExt;
use runtime::Random;
use units::Bytes;

use crate::{Pattern, Permutation, Stream};

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

/// Produces a stream's requests, for ever; the same ones for the same seed.
///
/// Every request lies within the region, starts on a multiple of the alignment (from the region's start), and has one of the sizes.
#[derive(Debug)]
pub struct Generator {
    stream: Stream,
    start: Bytes,
    length: Bytes,
    random: Random,
    cursor: Cursor,
}

#[derive(Debug)]
enum Cursor {
    /// Where the next request begins, from the region's start.
    At(Bytes),
    /// No memory of the last request.
    Anywhere,
    /// Which block of which order comes next.
    Shuffled { order: Permutation, index: u64, blocks: u64, seed: u64 },
}

impl Generator {
    /// The requests of `stream` on a device of `size` bytes. The stream has been [checked](Stream::check) against that device.
    pub fn new(stream: &Stream, size: Bytes, seed: u64) -> Generator {
        let length = stream.region.length_on(size);
        assert!(stream.sizes.largest() <= length, "a checked stream's requests fit its region");
        let cursor = match stream.pattern {
            Pattern::Sequential { from } => Cursor::At(from.round_down(stream.align)),
            Pattern::Strided { .. } => Cursor::At(Bytes::ZERO),
            Pattern::Random => Cursor::Anywhere,
            Pattern::RandomOnce => {
                let block = stream.sizes.single().expect("a checked stream of this pattern has one size");
                let blocks = (length - block) / block.round_up(stream.align) + 1;
                Cursor::Shuffled { order: Permutation::new(blocks, seed), index: 0, blocks, seed }
            }
        };
        Generator { stream: stream.clone(), start: stream.region.start, length, random: Random::new(seed), cursor }
    }

    /// The next request.
    pub fn next_ask(&mut self) -> Ask {
        let length = self.stream.sizes.draw(&mut self.random);
        let at = self.place(length);
        assert!(at + length <= self.length, "a request stays in its region");
        Ask { operation: self.operation(), offset: self.start + at, length }
    }

    fn operation(&mut self) -> Operation {
        // Streams of one kind draw nothing, so that their addresses do not depend on there being a mix at all.
        match self.stream.mix.reads.get() {
            reads if reads >= 1.0 => Operation::Read,
            reads if reads <= 0.0 => Operation::Write,
            reads if self.random.random_bool(reads) => Operation::Read,
            _ => Operation::Write,
        }
    }

    /// Where a request of `length` goes, from the region's start.
    fn place(&mut self, length: Bytes) -> Bytes {
        let align = self.stream.align;
        match (&mut self.cursor, self.stream.pattern) {
            (Cursor::At(next), pattern) => {
                let at = if *next + length <= self.length { *next } else { Bytes::ZERO };
                *next = match pattern {
                    Pattern::Strided { stride } => at + stride,
                    _ => (at + length).round_up(align),
                };
                at
            }
            (Cursor::Anywhere, _) => align * self.random.random_range(0..=(self.length - length) / align),
            (Cursor::Shuffled { order, index, blocks, seed }, _) => {
                if *index == *blocks {
                    *seed = seed.wrapping_add(1);
                    *order = Permutation::new(*blocks, *seed);
                    *index = 0;
                }
                let block = order.at(*index);
                *index += 1;
                length.round_up(align) * block
            }
        }
    }
}
