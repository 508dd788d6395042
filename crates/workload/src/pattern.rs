//! Where requests go.

use units::{Bytes, Ratio};

use crate::Skew;

/// The order of addresses within a region.
#[derive(Debug, Clone, PartialEq)]
pub enum Pattern {
    /// Each request begins where the last one ended; at the end of the region, from its start again.
    Sequential {
        /// Where the first request begins, counted from the start of the region.
        from: Bytes,
    },
    /// Sequential from a random place, and from another random place at each jump.
    Jumping(Jump),
    /// Each request begins this far after the beginning of the last one; at the end, from the start again.
    Strided {
        /// From beginning to beginning.
        stride: Bytes,
        /// Where the first request begins, counted from the start of the region. Each turn through the region begins at
        /// the first address that lies whole strides away from it, so that several streams of one stride and different
        /// beginnings never meet.
        from: Bytes,
    },
    /// Each request begins this far before the beginning of the last one; at the start of the region, from the first
    /// again.
    Backward {
        /// From beginning to beginning; with nothing, it is the same address each time.
        stride: Bytes,
        /// Where the first request begins, counted from the start of the region.
        from: Bytes,
    },
    /// Any aligned address, each time anew; some come twice before others come once.
    Random,
    /// Random order, every block once before any comes twice. Needs one request size.
    RandomOnce,
    /// These blocks of the largest request, in this order; then again, with `stride` as many blocks further as there
    /// are. What lies behind the end comes round from the start.
    Listed {
        /// Which, counted from the start of the region.
        blocks: Vec<u64>,
        /// Whether each turn begins further on.
        stride: bool,
    },
    /// Zone after zone.
    Zoned(Box<Zoned>),
    /// Any aligned address, some more often than others.
    Skewed(Skew),
    /// Each request follows one of several patterns, drawn by weight; each pattern goes on where its own last request
    /// ended.
    Mixed(Vec<(Pattern, u32)>),
}

/// A part of each zone, one zone after the other; behind the last the first comes again. fio's `zonemode=strided`.
#[derive(Debug, Clone, PartialEq)]
pub struct Zoned {
    /// The order within a zone, which begins anew in each.
    pub within: Pattern,
    /// After so many bytes the next zone has its turn; above zero.
    pub size: Bytes,
    /// How long a zone is; above zero. Of a shorter one than `size`, the order begins again.
    pub range: Bytes,
    /// What is left out between two zones.
    pub skip: Bytes,
}

/// When a sequential stream goes on elsewhere. Besides, it does so at the end of the region.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Jump {
    /// Never: only the beginning is random, and the end of the region leads to its start.
    Never,
    /// After this many requests. fio says `rw=randread:8`.
    After(u64),
    /// Before each request, with this chance. fio says `percentage_random=30`, diskspd `-rs30`.
    Chance(Ratio),
}

impl Pattern {
    /// This pattern, or those that it is mixed of.
    pub(crate) fn parts(&self) -> Box<dyn Iterator<Item = &Pattern> + '_> {
        match self {
            Pattern::Mixed(parts) => Box::new(parts.iter().flat_map(|(part, _)| part.parts())),
            _ => Box::new(std::iter::once(self)),
        }
    }
}
