//! The log-structured file system: operations against a model, recovery after power cuts, write cost against the
//! published formula, full disks, and what its parameters refuse.

#[path = "lfs/cost.rs"]
mod cost;
#[path = "lfs/crash.rs"]
mod crash;
#[path = "lfs/full.rs"]
mod full;
#[path = "lfs/operations.rs"]
mod operations;
#[path = "lfs/parameters.rs"]
mod parameters;

use filesystem::lfs::{Parameters, Policy};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use units::Bytes;

/// A disk on which everything happens soon: blocks of 512 bytes, so that files have indirect blocks, and 24 segments.
fn small() -> Parameters {
    Parameters {
        block: Bytes::new(512),
        segment: Bytes::kib(16),
        disk: Bytes::kib(16 * 24 + 1),
        inodes: 64,
        clean_below: 5,
        clean_until: 7,
        cleaned_at_once: 4,
        policy: Policy::CostBenefit,
        age_sort: true,
    }
}

/// A number below another, always the same sequence for a seed.
fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    move |limit| random.random_range(0..limit)
}
