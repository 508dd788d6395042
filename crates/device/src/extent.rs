//! What is known of a range without reading it.

use units::Bytes;

/// The beginning of a range, as far as one thing holds for all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// How far it reaches.
    pub length: Bytes,
    /// Nothing is stored for it: a hole.
    pub hole: bool,
    /// It reads as zeroes.
    pub zero: bool,
}

impl Extent {
    /// Bytes of which nothing is known.
    pub fn data(length: Bytes) -> Extent {
        Extent { length, hole: false, zero: false }
    }

    /// Nothing is stored, and zeroes are read.
    pub fn hole(length: Bytes) -> Extent {
        Extent { length, hole: true, zero: true }
    }
}
