//! Random order of requests of several sizes in which no block comes twice before all have come.
//!
//! As fio does it where there is a map of blocks (no `norandommap`): a place is drawn; if its block has been asked for,
//! the next one that has not is taken; and a request that would reach a block that has been is cut short before it. So
//! the sizes of a lap are not those that are asked for: toward its end what is left lies in small pieces. The load of a
//! file server of 512 B to 64 KiB (fio's `iometer-file-access-server`, 64 MiB) takes 14,000 requests for a lap, and
//! 5,700 if none is cut.
//!
//! What has not been is a compressed set (`roaring`): a bit or less for each block, and the next one that is free is
//! found without a walk over all that is not.
//!
//! # Rejected
//! A permutation, as for one size ([`crate::Permutation`]): it has no answer to what overlaps.

use rand::RngExt;
use roaring::RoaringTreemap;
use runtime::Random;
use units::Bytes;

/// The blocks of a lap.
#[derive(Debug)]
pub(crate) struct Cover {
    free: RoaringTreemap,
    block: Bytes,
    blocks: u64,
}

impl Cover {
    /// All blocks that find room in `length`.
    pub fn new(length: Bytes, block: Bytes) -> Cover {
        let blocks = length / block;
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
        let end = first + length.get().div_ceil(self.block.get());
        let mut run = self.free.iter();
        run.advance_to(first);
        let free = (first..end).zip(run).take_while(|(block, free)| block == free).count() as u64;
        let removed = self.free.remove_range(first..first + free);
        assert_eq!(removed, free, "what is taken was left");
        (self.block * first, length.min(self.block * free))
    }

    /// The first block from there on that is left.
    fn from(&self, block: u64) -> Option<u64> {
        let mut left = self.free.iter();
        left.advance_to(block);
        left.next()
    }
}

fn all(blocks: u64) -> RoaringTreemap {
    let mut free = RoaringTreemap::new();
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
