//! Randomness with a seed.
//!
//! xoshiro256++ from `rand_xoshiro`: the same numbers for the same seed on every machine and in every version of that
//! crate, which `rand`'s own `SmallRng` does not promise.

use rand::SeedableRng;
use rand::rand_core::TryRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// A generator that belongs to one purpose of one run.
///
/// Each part, stream and fault takes its own with [`Random::named`], so that adding a part does not shift everyone
/// else's numbers.
#[derive(Debug, Clone)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The generator of seed `seed`.
    pub fn new(seed: u64) -> Random {
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// The generator for the purpose `name` of a run with seed `seed`. Different names give unrelated sequences.
    pub fn named(seed: u64, name: &str) -> Random {
        // FNV-1a: the name must hash the same for ever, which the standard library's hasher does not promise.
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Random::new(seed ^ hash)
    }
}

impl TryRng for Random {
    type Error = std::convert::Infallible;
    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        self.0.try_next_u32()
    }
    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        self.0.try_next_u64()
    }
    fn try_fill_bytes(&mut self, destination: &mut [u8]) -> Result<(), Self::Error> {
        self.0.try_fill_bytes(destination)
    }
}
