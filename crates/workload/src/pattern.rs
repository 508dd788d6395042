//! Where requests go.

use units::Bytes;

/// The order of addresses within a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Each request begins where the last one ended; at the end of the region, from its start again.
    Sequential {
        /// Where the first request begins, counted from the start of the region.
        from: Bytes,
    },
    /// Each request begins this far after the beginning of the last one; at the end, from the start again.
    Strided {
        /// From beginning to beginning.
        stride: Bytes,
    },
    /// Any aligned address, each time anew; some come twice before others come once.
    Random,
    /// Random order, every block once before any comes twice. Needs one request size.
    RandomOnce,
}
