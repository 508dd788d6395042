//! Instants and durations, in whole nanoseconds.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};
use std::str::FromStr;

use crate::parse::{Grammar, ParseError, short, text_serde};

/// A length of time. Never negative; arithmetic that would make it so panics, as it is a bug of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(u64);

/// A point in time of one clock: nanoseconds since that clock's start (of the simulation, or of the run).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

const GRAMMAR: Grammar = Grammar { quantity: "a time", accepted: "ns, us, ms, s, min or h" };

const UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl Duration {
    /// No time.
    pub const ZERO: Duration = Duration(0);
    /// The longest time that can be expressed, 584 years.
    pub const MAX: Duration = Duration(u64::MAX);

    /// `n` nanoseconds.
    pub const fn nanos(n: u64) -> Duration {
        Duration(n)
    }
    /// `n` microseconds.
    pub const fn micros(n: u64) -> Duration {
        Duration(n.strict_mul(1_000))
    }
    /// `n` milliseconds.
    pub const fn millis(n: u64) -> Duration {
        Duration(n.strict_mul(1_000_000))
    }
    /// `n` seconds.
    pub const fn seconds(n: u64) -> Duration {
        Duration(n.strict_mul(1_000_000_000))
    }
    /// Rounds to the nearest nanosecond. Panics if `seconds` is negative or not finite.
    pub fn from_seconds(seconds: f64) -> Duration {
        assert!(seconds >= 0.0 && seconds.is_finite(), "a duration of {seconds} s");
        Duration(nearest(seconds * 1e9))
    }
    /// Whole nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Seconds.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// Milliseconds, the unit of the studies.
    pub fn as_millis(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// True for no time at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// Zero instead of a negative duration.
    pub const fn saturating_sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }
    /// Multiplied and rounded to the nearest nanosecond. Panics if `factor` is negative or not finite.
    pub fn scale(self, factor: f64) -> Duration {
        assert!(factor >= 0.0 && factor.is_finite(), "a duration scaled by {factor}");
        Duration(nearest(self.0 as f64 * factor))
    }
    /// The least time that is 1, 2 or 5 of a power of ten and not less: what people read on an axis. No time is 1 ns.
    pub fn round_up(self) -> Duration {
        let power = 10u64.pow(self.0.max(1).ilog10());
        let steps = [1, 2, 5, 10].into_iter().map(|factor| Duration(power.saturating_mul(factor)));
        steps.into_iter().find(|step| *step >= self).expect("ten times its power of ten is more than a time")
    }
}

/// As `f64::round`, for numbers that are not negative: x86-64 without SSE4.1 makes that one a library call, which was a
/// twentieth of the cost of a simulated event.
fn nearest(value: f64) -> u64 {
    let whole = value as u64;
    whole.saturating_add(u64::from(value - whole as f64 >= 0.5))
}

impl Instant {
    /// The clock's start.
    pub const START: Instant = Instant(0);
    /// Later than every event: "never".
    pub const NEVER: Instant = Instant(u64::MAX);

    /// The instant `n` nanoseconds after the clock's start.
    pub const fn from_nanos(n: u64) -> Instant {
        Instant(n)
    }
    /// Nanoseconds since the clock's start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Time since an earlier instant. Panics if `earlier` is later: the caller's clocks are mixed up.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration(self.0.checked_sub(earlier.0).expect("an instant is not before the one it is measured from"))
    }
    /// So much later, or never if that is beyond what can be expressed.
    pub const fn saturating_add(self, later: Duration) -> Instant {
        Instant(self.0.saturating_add(later.0))
    }
    /// Time since another instant, or zero if that is later.
    pub const fn saturating_since(self, earlier: Instant) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl FromStr for Duration {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Duration, ParseError> {
        let (number, unit) = GRAMMAR.split(text)?;
        let factor = GRAMMAR.factor(text, unit, &UNITS)?;
        number
            .times_exactly(factor)
            .map(Duration)
            .ok_or_else(|| GRAMMAR.out_of_range(text, "it must be a whole number of nanoseconds below 584 years"))
    }
}

/// Three digits in the largest unit that gives a number above one (`1.43 ms`); `{:#}` is exact and parses back.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        const PRINTED: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
        if f.alternate() {
            let (name, unit) = PRINTED
                .into_iter()
                .find(|(_, unit)| self.0 >= *unit && self.0.is_multiple_of(*unit))
                .unwrap_or(("ns", 1));
            return f.pad(&format!("{} {name}", self.0 / unit));
        }
        let (name, unit) = PRINTED.into_iter().find(|(_, unit)| self.0 >= *unit).unwrap_or(("s", 1));
        f.pad(&format!("{} {name}", short(self.0 as f64 / unit as f64)))
    }
}

/// For the standard library's waits.
impl From<Duration> for std::time::Duration {
    fn from(time: Duration) -> std::time::Duration {
        std::time::Duration::from_nanos(time.0)
    }
}

text_serde!(Duration, "a time with its unit, such as \"10 ms\"");

impl Add for Duration {
    type Output = Duration;
    #[inline]
    fn add(self, other: Duration) -> Duration {
        Duration(self.0.checked_add(other.0).expect("a sum of durations is below 584 years"))
    }
}
impl AddAssign for Duration {
    #[inline]
    fn add_assign(&mut self, other: Duration) {
        *self = *self + other;
    }
}
impl Sub for Duration {
    type Output = Duration;
    #[inline]
    fn sub(self, other: Duration) -> Duration {
        Duration(self.0.checked_sub(other.0).expect("a difference of durations is not negative"))
    }
}
impl SubAssign for Duration {
    #[inline]
    fn sub_assign(&mut self, other: Duration) {
        *self = *self - other;
    }
}
impl Mul<u64> for Duration {
    type Output = Duration;
    #[inline]
    fn mul(self, factor: u64) -> Duration {
        Duration(self.0.checked_mul(factor).expect("a multiple of a duration is below 584 years"))
    }
}
impl Div<u64> for Duration {
    type Output = Duration;
    #[inline]
    fn div(self, divisor: u64) -> Duration {
        Duration(self.0 / divisor)
    }
}
impl Sum for Duration {
    fn sum<I: Iterator<Item = Duration>>(durations: I) -> Duration {
        durations.fold(Duration::ZERO, Duration::add)
    }
}
impl Add<Duration> for Instant {
    type Output = Instant;
    #[inline]
    fn add(self, later: Duration) -> Instant {
        Instant(self.0.checked_add(later.0).expect("an instant is within 584 years of the clock's start"))
    }
}
impl AddAssign<Duration> for Instant {
    #[inline]
    fn add_assign(&mut self, later: Duration) {
        *self = *self + later;
    }
}
