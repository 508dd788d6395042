//! Quantities with their units.
//!
//! A storage engineer who reads `bs=4` must guess between sectors, bytes and kibibytes, and the studies behind this
//! project disagree about what "MB" means. So no interface of arraylab takes or prints a bare number for something that
//! has a unit: text becomes a quantity here, once, or is refused with the units that would have been accepted.
//!
//! Prefixes follow IEC 80000-13: `kB MB GB TB` are powers of 1000, `KiB MiB GiB TiB` powers of 1024. `KB` is refused as
//! ambiguous rather than guessed (the RAID-I report means 1024 by it, drive makers mean 1000).
//!
//! Time is whole nanoseconds in a `u64`: 584 years, exact sums (the spans of a request add up to its latency to the
//! last digit), and the resolution of the kernel's clocks. Floating-point seconds were rejected: they lose that
//! exactness, and with it byte-for-byte repeatability. Rates are `f64`, as they are measured or computed, never summed
//! to an invariant.

mod amount;
mod bytes;
mod parse;
mod rate;
mod time;

pub use amount::{Frequency, Ratio};
pub use bytes::Bytes;
pub use parse::ParseError;
pub use rate::Rate;
pub use time::{Duration, Instant};
