//! What DMA finds in the host's cache, if it goes there.

/// Whether the lines of host memory that a transfer touches are in the host's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    /// A buffer that is used over and over and never flushed.
    Cached,
    /// A buffer that was flushed since its last use.
    Flushed,
    /// None: data go from one adapter to another, and the host's memory sees nothing of them.
    Elsewhere,
}
