//! Frequencies (arrivals, rotations, clocks) and ratios (mixes, utilizations).

use std::fmt;
use std::str::FromStr;

use crate::Duration;
use crate::parse::{Grammar, ParseError, short, text_serde};

/// Events per second. Finite and not negative.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Frequency(f64);

/// A share of a whole, or a quotient: `30 %` is 0.3. Finite and not negative; may exceed one (an overshoot of `120 %`).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Ratio(f64);

const FREQUENCY: Grammar =
    Grammar { quantity: "a frequency", accepted: "/s, IOPS, Hz, kHz, MHz, GHz, rpm (a minute) or MIPS" };

const FREQUENCIES: [(&str, f64); 8] = [
    ("/s", 1.0),
    ("IOPS", 1.0),
    ("Hz", 1.0),
    ("kHz", 1e3),
    ("MHz", 1e6),
    ("GHz", 1e9),
    ("rpm", 1.0 / 60.0),
    ("MIPS", 1e6),
];

const RATIO: Grammar = Grammar { quantity: "a share", accepted: "% (of the whole)" };

impl Frequency {
    /// `n` times a second. Panics if it is negative or not finite.
    pub fn per_second(n: f64) -> Frequency {
        assert!(n >= 0.0 && n.is_finite(), "{n} times a second");
        Frequency(n)
    }
    /// Times a second.
    pub const fn get(self) -> f64 {
        self.0
    }
    /// The time from one event to the next, to the nearest nanosecond. Panics at frequency zero.
    pub fn period(self) -> Duration {
        assert!(self.0 > 0.0, "an event that never happens has no period");
        Duration::from_seconds(1.0 / self.0)
    }
}

impl FromStr for Frequency {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Frequency, ParseError> {
        let (number, unit) = FREQUENCY.split(text)?;
        let factor = FREQUENCY.factor(text, unit, &FREQUENCIES)?;
        Ok(Frequency(number.as_f64() * factor))
    }
}

/// Three digits; `{:#}` parses back to the same value.
impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if f.alternate() {
            return f.pad(&format!("{} /s", self.0));
        }
        f.pad(&format!("{} /s", short(self.0)))
    }
}

text_serde!(Frequency, "a frequency with its unit, such as \"3000/s\" or \"7200 rpm\"");

impl Ratio {
    /// Nothing of it.
    pub const ZERO: Ratio = Ratio(0.0);
    /// The whole.
    pub const ONE: Ratio = Ratio(1.0);

    /// A ratio, 1.0 being the whole. Panics if it is negative or not finite.
    pub fn new(ratio: f64) -> Ratio {
        assert!(ratio >= 0.0 && ratio.is_finite(), "a ratio of {ratio}");
        Ratio(ratio)
    }
    /// `n` percent.
    pub fn percent(n: f64) -> Ratio {
        Ratio::new(n / 100.0)
    }
    /// 1.0 being the whole.
    pub const fn get(self) -> f64 {
        self.0
    }
    /// 100.0 being the whole.
    pub fn as_percent(self) -> f64 {
        self.0 * 100.0
    }
}

impl FromStr for Ratio {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Ratio, ParseError> {
        let (number, unit) = RATIO.split(text)?;
        // Divided, not multiplied by 0.01: 30 % is then exactly the literal 0.3.
        let whole = RATIO.factor(text, unit, &[("%", 100.0)])?;
        Ok(Ratio(number.as_f64() / whole))
    }
}

/// One decimal below ten percent, none above; `{:#}` parses back to the same value, up to the last digit of an `f64`.
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let percent = self.as_percent();
        if f.alternate() {
            return f.pad(&format!("{percent} %"));
        }
        f.pad(&if percent < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") })
    }
}

text_serde!(Ratio, "a share in percent, such as \"70 %\"");
