//! What writes store where it is to be made for each of them: bytes that compress, blocks that were written before.
//!
//! Of each segment of a buffer the first part is random and the rest is a pattern, or zeroes, so that a compressor
//! finds about the share that was asked for (fio's `buffer_compress_percentage`, whose segment is the smallest block
//! unless `buffer_compress_chunk` says otherwise). All random bytes of a buffer follow from its seed. A buffer that is
//! to be a duplicate takes the seed of one before: of the last that was none, or of any of a set that is known in
//! advance (`dedupe_mode`). Random bytes come from xorshift64*, which costs less than the copy that the kernel makes of
//! them.

use rand::{Rng, RngExt};
use runtime::Random;
use units::Bytes;

/// What each write stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Repeated through what is not random; zeroes if empty.
    pub pattern: Vec<u8>,
    /// How much of it is the pattern, in percent.
    pub compressible: u8,
    /// Over so many bytes; above zero.
    pub segment: Bytes,
    /// How many of the buffers have been written before, in percent.
    pub duplicates: u8,
    /// Out of so many buffers, if not the last one.
    pub set: Option<u64>,
    /// Streams with one number have the same set.
    pub shared: Option<u64>,
}

impl Content {
    /// Nothing but the pattern: the same each time.
    pub fn is_plain(&self) -> bool {
        self.compressible >= 100
    }

    /// Repeats the pattern from the beginning.
    pub(crate) fn repeat(&self, bytes: &mut [u8]) {
        match &self.pattern[..] {
            [] => bytes.fill(0),
            pattern => bytes.chunks_mut(pattern.len()).for_each(|to| to.copy_from_slice(&pattern[..to.len()])),
        }
    }
}

/// The buffers of one stream, one after the other.
#[derive(Debug)]
pub(crate) struct Filler {
    content: Content,
    random: Random,
    /// Whose seed the next unlike buffer has.
    next: u64,
    last: u64,
    set: u64,
}

impl Filler {
    pub fn new(content: &Content, mut random: Random) -> Filler {
        let next = random.next_u64();
        let set = content.shared.unwrap_or_else(|| random.next_u64());
        Filler { content: content.clone(), random, next, last: mixed(next), set }
    }

    /// What the next write stores.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        let mut state = self.seed() | 1;
        let segment = self.content.segment.as_usize().min(bytes.len().max(1));
        let random = segment * usize::from(100 - self.content.compressible.min(100)) / 100;
        for part in bytes.chunks_mut(segment) {
            let (noise, rest) = part.split_at_mut(random.min(part.len()));
            for word in noise.chunks_mut(8) {
                state ^= state >> 12;
                state ^= state << 25;
                state ^= state >> 27;
                let value = state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes();
                word.copy_from_slice(&value[..word.len()]);
            }
            self.content.repeat(rest);
        }
    }

    fn seed(&mut self) -> u64 {
        let again = self.content.duplicates > 0 && self.random.random_range(0..100) < self.content.duplicates;
        match (again, self.content.set) {
            (true, Some(set)) => mixed(self.set.wrapping_add(self.random.random_range(0..set.max(1)))),
            (true, None) => self.last,
            (false, _) => {
                self.next = self.next.wrapping_add(1);
                self.last = mixed(self.next);
                self.last
            }
        }
    }
}

/// A number that is as good as random (the finalizer of SplitMix64).
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn buffers(content: &Content, count: usize) -> Vec<Vec<u8>> {
        let mut filler = Filler::new(content, Random::new(7));
        let buffer = |filler: &mut Filler| {
            let mut bytes = vec![0xff; 4096];
            filler.fill(&mut bytes);
            bytes
        };
        (0..count).map(|_| buffer(&mut filler)).collect()
    }

    const NONE: Content = Content {
        pattern: Vec::new(),
        compressible: 0,
        segment: Bytes::kib(4),
        duplicates: 0,
        set: None,
        shared: None,
    };

    #[test]
    fn the_share_that_compresses_is_the_pattern_and_the_rest_is_noise() {
        let content = Content { pattern: b"ab".to_vec(), compressible: 75, segment: Bytes::kib(1), ..NONE };
        for buffer in buffers(&content, 3) {
            for segment in buffer.chunks(1024) {
                assert!(segment[256..].chunks(2).all(|pair| pair == b"ab"));
                let ones: u32 = segment[..256].iter().map(|byte| byte.count_ones()).sum();
                assert!((924..1124).contains(&ones), "{ones} of 2048 bits");
            }
        }
    }

    #[test]
    fn the_share_of_duplicates_is_as_asked() {
        let unlike = |content: &Content| {
            let mut seen: HashMap<Vec<u8>, u32> = HashMap::new();
            buffers(content, 1000).into_iter().for_each(|buffer| *seen.entry(buffer).or_default() += 1);
            seen.len()
        };
        assert_eq!(unlike(&NONE), 1000);
        assert!((700..800).contains(&unlike(&Content { duplicates: 25, ..NONE })));
        // Half of them out of ten.
        assert!((460..560).contains(&unlike(&Content { duplicates: 50, set: Some(10), ..NONE })));
        assert_eq!(unlike(&Content { duplicates: 100, set: Some(4), ..NONE }), 4);
    }
}
