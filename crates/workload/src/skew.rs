//! Skewed addresses: some blocks are asked for more often than others.
//!
//! A region of `n` blocks is drawn from by one of these laws (`k` counts blocks from 1, `u` is uniform on `[0, 1)`):
//!
//! | law | the block | known as |
//! |---|---|---|
//! | Zipf | `P(k) = k^-s / sum(i^-s)` | fio `zipf:s`, YCSB |
//! | Pareto | `n * u^(ln h / ln(1 - h))`: a share `1 - h` of the requests goes to a share `h` of the blocks, and again within them | fio `pareto:h`; the self-similar law of Gray et al., "Quickly generating billion-record synthetic databases", 1994 |
//! | normal | around a centre, cut at the ends of the region and drawn again | fio `normal:deviation` |
//! | hot spot | a share of the requests to a share of the space, the rest of them to the rest | vdbench `hotband` |
//! | zones | one part of the region after the other, each with its share of the requests | fio `zoned`, diskspd `-rdpct` |
//!
//! Zipf's law is drawn exactly, by rejection (`rand_distr`), for any exponent; the closed form of Gray et al. that fio
//! and YCSB take is an approximation, and has no value at exponent 1. Ranks of Zipf and Pareto are *scattered* over the
//! region unless that is switched off: the k-th most wanted block lies anywhere, not beside the (k-1)-th, or else a
//! disk's arm and a cache's read-ahead would see a sequential hot spot. fio scatters by a hash, which sends several
//! ranks to one block and none to others; here it is a permutation. Which blocks are wanted depends on their number
//! only, so that passes, streams and runs agree on them.

use std::ops::Range;

use rand::RngExt;
use rand_distr::{Distribution, StandardNormal, Zipf};
use runtime::Random;
use units::{Bytes, Ratio};

use crate::Permutation;

/// How often each block of a region is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Skew {
    /// The share of each rank.
    pub law: Law,
    /// The ranks lie in random order over the region, instead of from its start on.
    pub scattered: bool,
}

/// The share of requests that each block gets.
#[derive(Debug, Clone, PartialEq)]
pub enum Law {
    /// The k-th block in proportion to `k^-exponent`.
    Zipf {
        /// Above 0, at most [`Law::STEEPEST`]. Around 1 for many real loads.
        exponent: f64,
    },
    /// A share of the requests, one less this, goes to this share of the blocks.
    Pareto {
        /// Between 0 and 100 %, neither included.
        blocks: Ratio,
    },
    /// A bell around a centre.
    Normal {
        /// Standard deviation, as a share of the region; above 0, at most 100 %.
        deviation: Ratio,
        /// Where in the region; at most 100 %.
        centre: Ratio,
    },
    /// One part of the region takes a share of the requests, and the rest goes to the rest of it, evenly.
    HotSpot {
        /// Share of the requests.
        requests: Ratio,
        /// Share of the region.
        space: Ratio,
        /// Where in the region it begins.
        at: Ratio,
    },
    /// Parts of the region, one after the other from its start. What is left of the requests goes to what is left of
    /// the region.
    Zones(Vec<Zone>),
}

/// A part of a region.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Zone {
    /// Share of the requests.
    pub requests: Ratio,
    /// How much of the region.
    pub space: Space,
}

/// How large a part of a region is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Space {
    /// A share of it.
    Share(Ratio),
    /// So many bytes.
    Size(Bytes),
}

/// A range of blocks and the share of requests that goes there.
type Part = (f64, Range<u64>);

/// Shares that were added up are equal when they differ by less.
const ROUNDING: f64 = 1e-9;

/// Decides which blocks are wanted. Any number would do, as long as it stays.
const ORDER: u64 = 0x736b_6577;

impl Law {
    /// Beyond this exponent less than one request in a million goes to any block but the first.
    pub const STEEPEST: f64 = 20.0;

    /// The ranges that a law of parts divides `blocks` blocks of `align` into; none for other laws. Or why it cannot.
    fn parts(&self, blocks: u64, align: Bytes) -> Result<Vec<Part>, &'static str> {
        let whole = blocks as f64;
        let (mut parts, left, rest) = match self {
            Law::HotSpot { requests, space, at } => {
                let (start, end) = (at.get() * whole, (at.get() + space.get()) * whole);
                let hot = start.round() as u64..(end.round() as u64).min(blocks);
                if end > whole * (1.0 + ROUNDING) {
                    return Err("its hot spot ends beyond the region");
                }
                let left = 1.0 - requests.get();
                let outside = blocks.saturating_sub(hot.end - hot.start) as f64;
                let before = if outside > 0.0 { left * hot.start as f64 / outside } else { 0.0 };
                let rest = hot.end..blocks;
                (vec![(before, 0..hot.start), (requests.get(), hot)], left - before, rest)
            }
            Law::Zones(zones) => {
                let (mut parts, mut at, mut given) = (Vec::new(), 0.0, 0.0);
                for zone in zones {
                    let start = at;
                    at += match zone.space {
                        Space::Share(share) => share.get() * whole,
                        Space::Size(size) => (size / align) as f64,
                    };
                    if at > whole * (1.0 + ROUNDING) {
                        return Err("its zones are larger than the region");
                    }
                    given += zone.requests.get();
                    parts.push((zone.requests.get(), f64::round(start) as u64..(at.round() as u64).min(blocks)));
                }
                (parts, 1.0 - given, (at.round() as u64).min(blocks)..blocks)
            }
            _ => return Ok(Vec::new()),
        };
        if left < -ROUNDING {
            return Err("its shares of requests add up to more than 100 %");
        }
        if left > ROUNDING {
            parts.push((left, rest));
        }
        parts.retain(|(share, _)| *share > 0.0);
        match parts.iter().any(|(_, range)| range.is_empty()) {
            true => Err("a share of the requests has no block to go to"),
            false => Ok(parts),
        }
    }

    /// Says why requests cannot be drawn from so many blocks, if so.
    pub(crate) fn check(&self, blocks: u64, align: Bytes) -> Result<(), &'static str> {
        self.parts(blocks, align).map(|_| ())
    }
}

/// Draws blocks.
#[derive(Debug)]
pub(crate) struct Sampler {
    blocks: u64,
    draw: Draw,
    order: Option<Permutation>,
}

#[derive(Debug)]
enum Draw {
    Zipf(Zipf<f64>),
    Pareto {
        power: f64,
    },
    Normal {
        centre: f64,
        deviation: f64,
    },
    /// Ranges with the running sum of their shares.
    Parts(Vec<Part>),
}

impl Sampler {
    /// Draws from `blocks` blocks, which a [check](Law::check) has found possible.
    pub fn new(skew: &Skew, blocks: u64, align: Bytes) -> Sampler {
        assert!(blocks > 0, "there is a block to draw");
        let whole = blocks as f64;
        let draw = match &skew.law {
            Law::Zipf { exponent } => Draw::Zipf(Zipf::new(whole, *exponent).expect("a checked law of Zipf")),
            Law::Pareto { blocks } => Draw::Pareto { power: blocks.get().ln() / (1.0 - blocks.get()).ln() },
            Law::Normal { deviation, centre } => {
                Draw::Normal { centre: centre.get() * whole, deviation: deviation.get() * whole }
            }
            law @ (Law::HotSpot { .. } | Law::Zones(_)) => {
                let mut parts = law.parts(blocks, align).expect("a checked law of parts");
                let mut sum = 0.0;
                for (share, _) in &mut parts {
                    sum += *share;
                    *share = sum;
                }
                Draw::Parts(parts)
            }
        };
        let order = skew.scattered.then(|| Permutation::new(blocks, ORDER));
        Sampler { blocks, draw, order }
    }

    /// The number of a block, from 0.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let rank = match &self.draw {
            Draw::Zipf(zipf) => zipf.sample(random) as u64 - 1,
            Draw::Pareto { power } => (self.blocks as f64 * random.random::<f64>().powf(*power)) as u64,
            Draw::Normal { centre, deviation } => loop {
                let unit: f64 = StandardNormal.sample(random);
                let at = (centre + unit * deviation).floor();
                if (0.0..self.blocks as f64).contains(&at) {
                    break at as u64;
                }
            },
            Draw::Parts(parts) => {
                let point: f64 = random.random();
                let found = parts.iter().find(|(sum, _)| point < *sum).or(parts.last());
                random.random_range(found.expect("there is a part").1.clone())
            }
        };
        // Numbers above 2^53 are not all to be had from a float, and the last may be rounded up.
        let rank = rank.min(self.blocks - 1);
        self.order.as_ref().map_or(rank, |order| order.at(rank))
    }
}
