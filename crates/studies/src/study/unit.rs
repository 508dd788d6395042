//! Numbers with dimensions: what an expression computes with, and what the unit of a printed row is.
//!
//! All that a study measures is made of bytes and seconds: a rate is bytes a second, requests and shares are plain
//! numbers. So a dimension is two exponents; a product adds them, a sum and a comparison want them to be the same.
//! Units are those of the `units` crate, and what a study's file says about its own (`[units]`), because studies
//! disagree about what "MB" is.
//!
//! Rejected: a library of dimensions in types (`uom`), as the dimensions here are known only when the file is read.

use std::collections::BTreeMap;
use std::fmt;

use units::{Bytes, Duration, Frequency, Rate, Ratio};

/// Exponents of bytes and of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Dimension {
    bytes: i8,
    seconds: i8,
}

/// A number in bytes and seconds, and its dimension.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Amount {
    pub value: f64,
    pub dimension: Dimension,
}

impl Dimension {
    pub const PLAIN: Dimension = Dimension { bytes: 0, seconds: 0 };
    pub const AMOUNT: Dimension = Dimension { bytes: 1, seconds: 0 };
    pub const TIME: Dimension = Dimension { bytes: 0, seconds: 1 };
    pub const RATE: Dimension = Dimension { bytes: 1, seconds: -1 };
    pub const FREQUENCY: Dimension = Dimension { bytes: 0, seconds: -1 };

    /// Of a product; nothing if nobody could mean it.
    pub fn times(self, other: Dimension) -> Option<Dimension> {
        let bytes = self.bytes.checked_add(other.bytes)?;
        Some(Dimension { bytes, seconds: self.seconds.checked_add(other.seconds)? })
    }

    /// Of a quotient.
    pub fn over(self, other: Dimension) -> Option<Dimension> {
        let turned = Dimension { bytes: other.bytes.checked_neg()?, seconds: other.seconds.checked_neg()? };
        self.times(turned)
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match *self {
            Dimension::PLAIN => f.write_str("a plain number"),
            Dimension::AMOUNT => f.write_str("bytes"),
            Dimension::TIME => f.write_str("a time"),
            Dimension::RATE => f.write_str("bytes a second"),
            Dimension::FREQUENCY => f.write_str("so many a second"),
            Dimension { bytes, seconds } => write!(f, "bytes^{bytes} seconds^{seconds}"),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let value = self.value;
        match self.dimension {
            Dimension::RATE if value >= 0.0 => write!(f, "{}", Rate::bytes_per_second(value)),
            Dimension::FREQUENCY if value >= 0.0 => write!(f, "{}", Frequency::per_second(value)),
            Dimension::TIME if value >= 0.0 => write!(f, "{}", Duration::from_seconds(value)),
            Dimension::PLAIN => write!(f, "{}", short(value)),
            dimension => write!(f, "{} ({dimension})", short(value)),
        }
    }
}

/// Four digits that count.
fn short(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { (3 - value.abs().log10().floor() as i32).clamp(0, 9) };
    format!("{value:.*}", digits as usize)
}

/// Units that printed tables have and the `units` crate has not, as none of them needs a prefix.
const PRINTED: [(&str, f64, Dimension); 16] = [
    ("", 1.0, Dimension::PLAIN),
    ("count", 1.0, Dimension::PLAIN),
    ("ratio", 1.0, Dimension::PLAIN),
    ("requests", 1.0, Dimension::PLAIN),
    ("percent", 0.01, Dimension::PLAIN),
    ("bytes", 1.0, Dimension::AMOUNT),
    ("bytes/s", 1.0, Dimension::RATE),
    ("IO/s", 1.0, Dimension::FREQUENCY),
    ("IOPS", 1.0, Dimension::FREQUENCY),
    ("kIOPS", 1e3, Dimension::FREQUENCY),
    ("requests/s", 1.0, Dimension::FREQUENCY),
    ("1/s", 1.0, Dimension::FREQUENCY),
    ("per_s", 1.0, Dimension::FREQUENCY),
    ("kbit/s", 125.0, Dimension::RATE),
    ("Mbit/s", 125e3, Dimension::RATE),
    ("Gbit/s", 125e6, Dimension::RATE),
];

/// One of that unit.
pub(crate) fn unit(name: &str) -> Option<Amount> {
    if let Some((_, value, dimension)) = PRINTED.iter().find(|(known, ..)| *known == name) {
        return Some(Amount { value: *value, dimension: *dimension });
    }
    let one = format!("1 {name}");
    let amount = |value, dimension| Some(Amount { value, dimension });
    (one.parse().ok().and_then(|rate: Rate| amount(rate.get(), Dimension::RATE)))
        .or_else(|| one.parse().ok().and_then(|bytes: Bytes| amount(bytes.get() as f64, Dimension::AMOUNT)))
        .or_else(|| one.parse().ok().and_then(|time: Duration| amount(time.as_seconds(), Dimension::TIME)))
        .or_else(|| one.parse().ok().and_then(|often: Frequency| amount(often.get(), Dimension::FREQUENCY)))
        .or_else(|| one.parse().ok().and_then(|share: Ratio| amount(share.get(), Dimension::PLAIN)))
}

/// What would be accepted as a unit.
pub(crate) const UNITS: &str = "a unit such as MB/s, MiB/s, IOPS, ms, us, s, kB, KiB, percent, ratio or count; what another one means is said under \
                                [units] of study.toml, as in \"KB/s\" = \"1 KiB/s\"";

/// A number and its unit, `1 KiB/s`.
pub(crate) fn amount(text: &str) -> Option<Amount> {
    let (number, name) = text.split_once(' ').unwrap_or((text, ""));
    let (factor, one) = (number.parse::<f64>().ok()?, unit(name.trim())?);
    let value = factor * one.value;
    value.is_finite().then_some(Amount { value, ..one })
}

/// What units mean to a study: its own words first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Units(BTreeMap<String, Amount>);

impl Units {
    /// Says what a word means: a number and a unit, `1 KiB/s`.
    pub fn define(&mut self, word: &str, text: &str) -> bool {
        let Some(one) = amount(text).filter(|one| one.value > 0.0) else { return false };
        self.0.insert(word.to_owned(), one);
        true
    }

    /// One of that unit.
    pub fn one(&self, name: &str) -> Option<Amount> {
        self.0.get(name).copied().or_else(|| unit(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_the_program_of_printed_tables_and_of_the_study() {
        let one = |name| unit(name).map(|one| (one.value, one.dimension));
        assert_eq!(one("MB/s"), Some((1e6, Dimension::RATE)));
        assert_eq!(one("KiB"), Some((1024.0, Dimension::AMOUNT)));
        assert_eq!(one("us"), Some((1e-6, Dimension::TIME)));
        assert_eq!(one("percent"), Some((0.01, Dimension::PLAIN)));
        assert_eq!(one("%"), Some((0.01, Dimension::PLAIN)));
        assert_eq!(one("Mbit/s"), Some((125e3, Dimension::RATE)));
        assert_eq!(one("rpm"), Some((1.0 / 60.0, Dimension::FREQUENCY)));
        assert_eq!(one("KB"), None, "it means two things");
        let mut units = Units::default();
        assert!(units.define("KB", "1 KiB") && !units.define("MB", "1 KB") && !units.define("x", "0 s"));
        assert_eq!(units.one("KB").unwrap().value, 1024.0);
    }

    #[test]
    fn dimensions_multiply_and_are_named() {
        assert_eq!(Dimension::RATE.times(Dimension::TIME), Some(Dimension::AMOUNT));
        assert_eq!(Dimension::PLAIN.over(Dimension::TIME), Some(Dimension::FREQUENCY));
        let shown = |value, dimension| Amount { value, dimension }.to_string();
        assert_eq!(shown(0.98765, Dimension::PLAIN), "0.9877");
        assert_eq!(shown(1234567.0, Dimension::PLAIN), "1234567");
        assert!(shown(2.5e6, Dimension::RATE).contains("MB/s"));
    }
}
