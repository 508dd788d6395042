//! Every number below `n` once, in an order that looks random, without a table.
//!
//! A Feistel network over the smallest even number of bits that holds `n` is a bijection whatever its round function;
//! outputs that are not below `n` are fed in again ("cycle walking", Black and Rogaway, 2002), fewer than four times on
//! average. fio keeps a bitmap (memory by the block) or an LFSR (the same order for every seed); a shuffled table costs
//! 8 bytes a block.

/// A random order of the numbers below `n`.
#[derive(Debug, Clone)]
pub struct Permutation {
    n: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Permutation {
    /// The order of the numbers below `n` that belongs to `seed`. Panics if `n` is zero or above 2^62.
    pub fn new(n: u64, seed: u64) -> Permutation {
        assert!(n > 0 && n <= 1 << 62, "a permutation of {n} numbers");
        let half_bits = (64 - (n - 1).leading_zeros()).div_ceil(2).max(1);
        let keys = std::array::from_fn(|round| mix(seed ^ mix(round as u64 + 1)));
        Permutation { n, half_bits, keys }
    }

    /// The `index`-th number of the order. Panics unless `index` is below `n`.
    pub fn at(&self, index: u64) -> u64 {
        assert!(index < self.n, "number {index} of {}", self.n);
        let mut value = index;
        loop {
            value = self.scramble(value);
            if value < self.n {
                return value;
            }
        }
    }

    fn scramble(&self, value: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        (left << self.half_bits) | right
    }
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
