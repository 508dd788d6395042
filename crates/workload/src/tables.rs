//! Distributions of request sizes under a name.
//!
//! `laddis-reads` and `laddis-writes` are those of LADDIS, the load generator of SPEC's first benchmark of NFS servers
//! (`sfs_c_dat.c`, SCCS 2.1, 97/10/23, of the six LADDIS companies, 1991 to 1992). A request has so many blocks of 8
//! KiB, and most have a fragment of 1 to 7 KiB behind them, all seven alike:
//!
//! | blocks | 0 | 1 | 2 | 4 | 8 | 16 |
//! |---|---|---|---|---|---|---|
//! | reads, percent | | 85, without a fragment | 8 | 4 | 2 | 1 |
//! | writes, percent | 49 | 36 | 8 | 4 | 2 | 1 |
//!
//! The means are 12.52 KiB of reads and 12.00 KiB of writes. Other servers have other shares of large requests, and the
//! same blocks: [`Sizes::with_large`].

use units::{Bytes, Ratio};

use crate::Sizes;

/// The names.
pub(crate) const NAMES: [&str; 2] = ["laddis-reads", "laddis-writes"];

const READS: &[(u64, u32)] = &[(2, 8), (4, 4), (8, 2), (16, 1)];
const WRITES: &[(u64, u32)] = &[(0, 49), (1, 36), (2, 8), (4, 4), (8, 2), (16, 1)];
const FRAGMENTS: u32 = 7;
/// Requests of two blocks and more are larger than this.
const LARGE: Bytes = Bytes::kib(16);
/// Parts into which shares are rounded.
const PARTS: f64 = 1e8;

impl Sizes {
    /// The names of all distributions that have one.
    pub const NAMED: [&str; 2] = NAMES;

    /// A distribution by its name.
    pub fn named(name: &str) -> Option<Sizes> {
        let with_fragments = |table: &'static [(u64, u32)]| {
            let sizes = |(blocks, weight): &(u64, u32)| {
                let (blocks, weight) = (*blocks, *weight);
                (1..=u64::from(FRAGMENTS)).map(move |fragment| (Bytes::kib(8 * blocks + fragment), weight))
            };
            table.iter().flat_map(sizes)
        };
        match name {
            "laddis-reads" => {
                Sizes::weighted(std::iter::once((Bytes::kib(8), 85 * FRAGMENTS)).chain(with_fragments(READS)))
            }
            "laddis-writes" => Sizes::weighted(with_fragments(WRITES)),
            _ => None,
        }
    }

    /// The same sizes with other shares: requests of two blocks and more come this many times as often, and the shares
    /// of the others shrink alike. At least one request in a hundred stays small. The error is the most that this
    /// allows.
    pub fn with_large(&self, times: Ratio) -> Result<Sizes, Ratio> {
        let all: f64 = self.choices().map(|(_, weight)| f64::from(weight)).sum();
        let large: f64 = self.choices().filter(|(size, _)| *size > LARGE).map(|(_, weight)| f64::from(weight)).sum();
        let share = large / all;
        let most = 0.99 / share;
        if !(0.01..=most).contains(&times.get()) {
            return Err(Ratio::new(most));
        }
        let rest = (1.0 - share * times.get()) / (1.0 - share);
        let changed = |(size, weight): (Bytes, u32)| {
            let factor = if size > LARGE { times.get() } else { rest };
            (size, (f64::from(weight) / all * factor * PARTS).round() as u32)
        };
        Ok(Sizes::weighted(self.choices().map(changed)).expect("the sizes of a distribution, and weights above zero"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_have_the_means_that_follow_from_their_shares() {
        for (name, mean) in NAMES.into_iter().zip([12.52, 12.00]) {
            let sizes = Sizes::named(name).unwrap();
            let weights: f64 = sizes.choices().map(|(_, weight)| f64::from(weight)).sum();
            let sum: f64 = sizes.choices().map(|(size, weight)| size.get() as f64 * f64::from(weight)).sum();
            assert!((sum / weights / 1024.0 - mean).abs() < 1e-9, "{name}: {}", sum / weights / 1024.0);
            assert_eq!((weights, sizes.largest()), (700.0, Bytes::kib(135)));
        }
        assert!(Sizes::named("laddis").is_none());
    }

    #[test]
    fn more_large_requests_leave_the_blocks_as_they_are() {
        let share = |sizes: &Sizes, of: &dyn Fn(Bytes) -> bool| {
            let weight = |(_, weight): (Bytes, u32)| f64::from(weight);
            let all: f64 = sizes.choices().map(weight).sum();
            sizes.choices().filter(|(size, _)| of(*size)).map(weight).sum::<f64>() / all
        };
        let reads = Sizes::named("laddis-reads").unwrap().with_large(Ratio::percent(200.0)).unwrap();
        assert!((share(&reads, &|size| size == Bytes::kib(8)) - 0.70).abs() < 1e-6);
        assert!((share(&reads, &|size| size > Bytes::kib(128)) - 0.02).abs() < 1e-6);
        let writes = Sizes::named("laddis-writes").unwrap().with_large(Ratio::percent(50.0)).unwrap();
        assert!((share(&writes, &|size| size < Bytes::kib(8)) - 0.49 * 0.925 / 0.85).abs() < 1e-6);
        let refused = Sizes::named("laddis-reads").unwrap().with_large(Ratio::percent(700.0)).unwrap_err();
        assert!((refused.get() - 6.6).abs() < 1e-9, "15 percent are large: {refused}");
    }
}
