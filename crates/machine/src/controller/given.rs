//! Hits of a cache as a study gives them, where it does not say what was asked for.

use std::cell::RefCell;

use rand::RngExt;
use runtime::Random;
use units::{Bytes, Ratio};

use super::parameters::CacheParameters;

/// Shares of reads that are in the cache, each read by itself.
pub(crate) struct Given {
    read: Option<Ratio>,
    parity: Option<Ratio>,
    line: Bytes,
    random: RefCell<Random>,
}

impl Given {
    /// Those of a controller's cache, drawn by `seed`.
    pub fn new(cache: &CacheParameters, name: &str, seed: u64) -> Given {
        let random = RefCell::new(Random::named(seed, &format!("{name} hits")));
        Given { read: cache.read_hits, parity: cache.parity_hits, line: cache.line, random }
    }

    /// Whether a read of the host hits, if that is given, whatever its size: the share is what the memory spares the
    /// drives of all that is read.
    pub fn read(&self) -> Option<bool> {
        self.read.map(|share| self.draw(share))
    }

    /// Whether what parity is computed from is here.
    pub fn parity(&self, bytes: Bytes) -> bool {
        self.parity.is_some_and(|share| bytes <= self.line && self.draw(share))
    }

    fn draw(&self, share: Ratio) -> bool {
        self.random.borrow_mut().random_bool(share.get())
    }
}
