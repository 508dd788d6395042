//! Bandwidth.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Div, Mul};
use std::str::FromStr;

use crate::parse::{Grammar, ParseError, short, text_serde};
use crate::{Bytes, Duration};

/// Bytes per second. Finite and not negative.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Rate(f64);

const GRAMMAR: Grammar =
    Grammar { quantity: "a rate", accepted: "B/s, KiB/s, MiB/s, GiB/s (powers of 1024) or kB/s, MB/s, GB/s (of 1000)" };

const UNITS: [(&str, f64); 7] = [
    ("B/s", 1.0),
    ("kB/s", 1e3),
    ("MB/s", 1e6),
    ("GB/s", 1e9),
    ("KiB/s", 1024.0),
    ("MiB/s", 1_048_576.0),
    ("GiB/s", 1_073_741_824.0),
];

impl Rate {
    /// Nothing moves.
    pub const ZERO: Rate = Rate(0.0);

    /// A rate in bytes per second. Panics if it is negative or not finite.
    pub fn bytes_per_second(rate: f64) -> Rate {
        assert!(rate >= 0.0 && rate.is_finite(), "a rate of {rate} B/s");
        Rate(rate)
    }
    /// Bytes per second.
    pub const fn get(self) -> f64 {
        self.0
    }
    /// True when nothing moves.
    pub fn is_zero(self) -> bool {
        self.0 == 0.0
    }
    /// How long `amount` takes at this rate, to the nearest nanosecond. Panics at rate zero.
    pub fn time_for(self, amount: Bytes) -> Duration {
        assert!(!self.is_zero(), "a transfer of {amount} at no rate never ends");
        Duration::from_seconds(amount.get() as f64 / self.0)
    }
    /// How much moves in `time`, in whole bytes.
    pub fn amount_in(self, time: Duration) -> Bytes {
        Bytes::new((self.0 * time.as_seconds()) as u64)
    }
    /// In MB/s of 10^6 bytes, the unit of xdd, iostat and the drive makers.
    pub fn as_mb_per_second(self) -> f64 {
        self.0 / 1e6
    }
}

impl FromStr for Rate {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Rate, ParseError> {
        let (number, unit) = GRAMMAR.split(text)?;
        let factor = GRAMMAR.factor(text, unit, &UNITS)?;
        Ok(Rate(number.as_f64() * factor))
    }
}

/// Powers of 1000, as drives and buses are sold and as xdd and iostat print; `{:#}` parses back to the same value.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        const PRINTED: [(&str, f64); 3] = [("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)];
        if f.alternate() {
            return f.pad(&format!("{} B/s", self.0));
        }
        let (name, unit) = PRINTED.into_iter().find(|(_, unit)| self.0 >= *unit).unwrap_or(("B/s", 1.0));
        f.pad(&format!("{} {name}", short(self.0 / unit)))
    }
}

text_serde!(Rate, "a rate with its unit, such as \"4 MB/s\"");

impl Add for Rate {
    type Output = Rate;
    fn add(self, other: Rate) -> Rate {
        Rate(self.0 + other.0)
    }
}
impl Mul<f64> for Rate {
    type Output = Rate;
    fn mul(self, factor: f64) -> Rate {
        Rate::bytes_per_second(self.0 * factor)
    }
}
/// The ratio of two rates; not a number if both are zero.
impl Div for Rate {
    type Output = f64;
    fn div(self, other: Rate) -> f64 {
        self.0 / other.0
    }
}
impl Sum for Rate {
    fn sum<I: Iterator<Item = Rate>>(rates: I) -> Rate {
        rates.fold(Rate::ZERO, Rate::add)
    }
}
