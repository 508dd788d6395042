//! What the file cache holds: given by a ratio, or whole blocks, the least recently used first out.

use units::{Bytes, Ratio};

use super::ServerParameters;
use crate::controller::cache::Cache;

/// A file cache.
pub(super) enum FileCache {
    /// So large a share of reads is there.
    Given(Ratio),
    /// What was read or written last.
    Blocks(Cache),
}

impl FileCache {
    /// An empty one.
    pub fn new(parameters: &ServerParameters) -> FileCache {
        match parameters.hit_ratio {
            Some(share) => FileCache::Given(share),
            None => FileCache::Blocks(Cache::new(parameters.cache, parameters.block)),
        }
    }

    /// The range is in it from now on.
    pub fn keep(&mut self, from: Bytes, bytes: Bytes) {
        if let FileCache::Blocks(cache) = self {
            cache.keep(from.get()..(from + bytes).get());
        }
    }

    /// Whether all of a range is there; nothing if a ratio decides, which is given back.
    pub fn hits(&mut self, from: Bytes, bytes: Bytes) -> Result<bool, Ratio> {
        match self {
            FileCache::Given(share) => Err(*share),
            FileCache::Blocks(cache) => Ok(cache.hits(from.get()..(from + bytes).get())),
        }
    }
}
