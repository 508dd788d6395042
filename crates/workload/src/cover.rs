//! Random order of requests of several sizes in which no block comes twice before all have come.
//!
//! As fio does it where there is a map of blocks (no `norandommap`): a place is drawn; if its block has been asked for,
//! the next one that has not is taken; and a request that would reach a block that has been is cut short before it. So
//! the sizes of a lap are not those that are asked for: toward its end what is left lies in small pieces. A file server's
//! load of 512 B to 64 KiB (fio's `iometer-file-access-server`) takes 2.4 times as many requests for a lap as it would
//! take uncut.
//!
//! What has not been is a compressed set (`roaring`): a bit or less for each block, and the next one that is free is
//! found without a walk over all that is not.
//!
//! # Rejected
//! A permutation, as for one size ([`crate::Permutation`]): it has no answer to what overlaps.

use rand::RngExt;
use roaring::RoaringBitmap;
use runtime::Random;
use units::Bytes;

/// The blocks of a lap.
#[derive(Debug)]
pub(crate) struct Cover {
    free: RoaringBitmap,
    block: Bytes,
    blocks: u32,
}

impl Cover {
    /// The most blocks that it can tell apart.
    pub const MOST: u64 = u32::MAX as u64;

    /// All blocks that find room in `length`.
    pub fn new(length: Bytes, block: Bytes) -> Cover {
        let blocks = u32::try_from(length / block).expect("a checked stream has no more blocks than can be told apart");
        assert!(blocks > 0, "a checked stream's region holds a request");
        Cover { free: all(blocks), block, blocks }
    }

    /// Where a request of `length` goes, and what is left of it.
    pub fn next(&mut self, length: Bytes, random: &mut Random) -> (Bytes, Bytes) {
        if self.free.is_empty() {
            self.free = all(self.blocks);
        }
        let drawn = random.random_range(0..self.blocks);
        let first = self.from(drawn).or_else(|| self.from(0)).expect("a block is left");
        let wanted = u32::try_from(length.get().div_ceil(self.block.get())).unwrap_or(u32::MAX);
        let end = first.saturating_add(wanted).min(self.blocks);
        let mut run = self.free.iter();
        run.advance_to(first);
        let free = (first..end).zip(run).take_while(|(block, free)| block == free).count() as u32;
        let removed = self.free.remove_range(first..first + free);
        assert_eq!(removed, u64::from(free), "what is taken was left");
        (self.block * u64::from(first), length.min(self.block * u64::from(free)))
    }

    /// The first block from there on that is left.
    fn from(&self, block: u32) -> Option<u32> {
        let mut left = self.free.iter();
        left.advance_to(block);
        left.next()
    }
}

fn all(blocks: u32) -> RoaringBitmap {
    let mut free = RoaringBitmap::new();
    free.insert_range(0..blocks);
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lap_has_each_block_once_and_the_next_one_begins_anew() {
        let mut random = Random::new(5);
        let (block, blocks) = (Bytes::new(512), 1000u64);
        let mut cover = Cover::new(block * blocks + Bytes::new(100), block);
        for _ in 0..3 {
            let mut seen = vec![false; blocks as usize];
            let mut moved = Bytes::ZERO;
            while moved < block * blocks {
                let wanted = block * random.random_range(1..=32);
                let (at, length) = cover.next(wanted, &mut random);
                assert!(length <= wanted && !length.is_zero() && at + length <= block * blocks);
                for at in at / block..(at + length) / block {
                    assert!(!std::mem::replace(&mut seen[at as usize], true), "block {at} comes twice");
                }
                moved += length;
            }
            assert!(moved == block * blocks && seen.iter().all(|seen| *seen));
        }
    }

    #[test]
    fn a_size_of_a_block_and_a_half_takes_two_and_moves_no_more_than_it_is() {
        let (block, mut random) = (Bytes::new(1000), Random::new(1));
        let mut cover = Cover::new(block * 10, block);
        let taken: Vec<_> = (0..5).map(|_| cover.next(Bytes::new(1500), &mut random)).collect();
        assert!(taken.iter().all(|(_, length)| [1000, 1500].contains(&length.get())), "{taken:?}");
    }
}
