//! Amounts of data, and byte addresses on a device.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Rem, Sub};
use std::str::FromStr;

use crate::parse::{Grammar, ParseError, short, text_serde};
use crate::{Duration, Rate};

/// A number of bytes; also a byte address, counted from the start of a device.
///
/// Arithmetic that would leave the range panics: it is a bug of ours, never an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

const GRAMMAR: Grammar =
    Grammar { quantity: "a size", accepted: "B, KiB, MiB, GiB, TiB (powers of 1024) or kB, MB, GB, TB (of 1000)" };

const UNITS: [(&str, u64); 11] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("PiB", 1 << 50),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("PB", 1_000_000_000_000_000),
];

impl Bytes {
    /// No bytes; address 0.
    pub const ZERO: Bytes = Bytes(0);
    /// The sector of the block layer and of every drive in the studies.
    pub const SECTOR: Bytes = Bytes(512);

    /// `n` bytes.
    pub const fn new(n: u64) -> Bytes {
        Bytes(n)
    }
    /// `n` times 1024 bytes.
    pub const fn kib(n: u64) -> Bytes {
        Bytes(n.strict_mul(1 << 10))
    }
    /// `n` times 1024^2 bytes.
    pub const fn mib(n: u64) -> Bytes {
        Bytes(n.strict_mul(1 << 20))
    }
    /// `n` times 1024^3 bytes.
    pub const fn gib(n: u64) -> Bytes {
        Bytes(n.strict_mul(1 << 30))
    }
    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// For indexing memory. The targets of this project have 64-bit addresses.
    #[inline]
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }
    /// True for zero bytes.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// True if this is a whole multiple of `unit` (which must not be zero).
    #[inline]
    pub const fn is_multiple_of(self, unit: Bytes) -> bool {
        self.0.is_multiple_of(unit.0)
    }
    /// The largest multiple of `unit` that is not above this.
    #[inline]
    pub const fn round_down(self, unit: Bytes) -> Bytes {
        Bytes(self.0 - self.0 % unit.0)
    }
    /// The smallest multiple of `unit` that is not below this.
    #[inline]
    pub const fn round_up(self, unit: Bytes) -> Bytes {
        // `next_multiple_of` wraps around in release builds.
        Bytes(self.0.checked_next_multiple_of(unit.0).expect("a rounded size fits in 64 bits"))
    }
    /// Zero instead of a negative amount.
    pub const fn saturating_sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }
    /// `None` where the sum leaves 64 bits: for addresses that come from outside.
    #[inline]
    pub const fn checked_add(self, other: Bytes) -> Option<Bytes> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Bytes(sum)),
            None => None,
        }
    }
    /// The mean rate at which this much moves in `time`; zero for no time.
    pub fn per(self, time: Duration) -> Rate {
        if time.is_zero() {
            return Rate::ZERO;
        }
        Rate::bytes_per_second(self.0 as f64 / time.as_seconds())
    }
}

impl FromStr for Bytes {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Bytes, ParseError> {
        let (number, unit) = GRAMMAR.split(text)?;
        let factor = GRAMMAR.factor(text, unit, &UNITS)?;
        number
            .times_exactly(factor)
            .map(Bytes)
            .ok_or_else(|| GRAMMAR.out_of_range(text, "it must be a whole number of bytes below 16 EiB"))
    }
}

/// Exact where a binary unit divides the amount (`64 KiB`), in bytes where it is small, otherwise three digits (`1.43
/// GiB`). The alternate form `{:#}` always prints text that parses back to the same amount.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        const BINARY: [(&str, u64); 5] =
            [("PiB", 1 << 50), ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        let Some((name, unit)) = BINARY.into_iter().find(|(_, unit)| self.0 >= *unit) else {
            return f.pad(&format!("{} B", self.0));
        };
        if f.alternate() {
            let (name, unit) = BINARY.into_iter().find(|(_, unit)| self.0.is_multiple_of(*unit)).unwrap_or(("B", 1));
            return f.pad(&format!("{} {name}", self.0 / unit));
        }
        if self.0.is_multiple_of(unit) {
            return f.pad(&format!("{} {name}", self.0 / unit));
        }
        f.pad(&format!("{} {name}", short(self.0 as f64 / unit as f64)))
    }
}

text_serde!(Bytes, "a size with its unit, such as \"64 KiB\"");

impl Add for Bytes {
    type Output = Bytes;
    #[inline]
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0.checked_add(other.0).expect("a sum of sizes fits in 64 bits"))
    }
}
impl AddAssign for Bytes {
    #[inline]
    fn add_assign(&mut self, other: Bytes) {
        *self = *self + other;
    }
}
impl Sub for Bytes {
    type Output = Bytes;
    #[inline]
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.checked_sub(other.0).expect("a difference of sizes is not negative"))
    }
}
impl Mul<u64> for Bytes {
    type Output = Bytes;
    #[inline]
    fn mul(self, factor: u64) -> Bytes {
        Bytes(self.0.checked_mul(factor).expect("a multiple of a size fits in 64 bits"))
    }
}
/// How many whole times the other size fits.
impl Div for Bytes {
    type Output = u64;
    #[inline]
    fn div(self, other: Bytes) -> u64 {
        self.0 / other.0
    }
}
impl Div<u64> for Bytes {
    type Output = Bytes;
    #[inline]
    fn div(self, divisor: u64) -> Bytes {
        Bytes(self.0 / divisor)
    }
}
impl Rem for Bytes {
    type Output = Bytes;
    #[inline]
    fn rem(self, other: Bytes) -> Bytes {
        Bytes(self.0 % other.0)
    }
}
impl Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(sizes: I) -> Bytes {
        sizes.fold(Bytes::ZERO, Bytes::add)
    }
}
