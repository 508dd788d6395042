//! Where the platters are.
//!
//! An angle is a `u64`: 2^64 units are one revolution, so that addition wraps by itself. The spindle turns by a whole
//! number of units in each nanosecond,
//!
//! ```text
//!   angle(t) = t * turn  (mod 2^64),    turn = 2^64 / period in ns, rounded
//! ```
//!
//! which is one multiplication and exact: the position after a year is as good as after a microsecond. The rounding of
//! `turn` makes the modelled drive turn at a speed that differs from the nominal by less than 3 parts in 10^13 (10 ms
//! period), a thousandth of a revolution in a year. Rejected: adding up periods in whole nanoseconds (a 7200 rpm drive
//! would gain a third of a nanosecond each turn, a full turn in 58 hours) and floating-point angles (lose digits as
//! time goes on).

use units::{Duration, Frequency, Instant};

/// A rotational position or a part of a revolution. Sums and differences wrap at the full turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Angle(u64);

impl Angle {
    /// The index mark; no turn.
    pub const ZERO: Angle = Angle(0);

    /// `numerator / denominator` of a revolution, rounded down; whole turns are dropped. Panics if `denominator` is
    /// zero.
    pub const fn fraction(numerator: u64, denominator: u64) -> Angle {
        Angle((((numerator % denominator) as u128) << 64).wrapping_div(denominator as u128) as u64)
    }
    /// From revolutions; whole turns are dropped. Panics if not finite.
    pub fn revolutions(turns: f64) -> Angle {
        assert!(turns.is_finite(), "an angle of {turns} revolutions");
        Angle((turns.rem_euclid(1.0) * 18_446_744_073_709_551_616.0) as u64)
    }
    /// In revolutions, from 0 up to 1.
    pub fn as_revolutions(self) -> f64 {
        self.0 as f64 / 18_446_744_073_709_551_616.0
    }
    /// Onwards by `other`.
    #[must_use]
    pub const fn plus(self, other: Angle) -> Angle {
        Angle(self.0.wrapping_add(other.0))
    }
    /// How far it is from `other` onwards to here.
    #[must_use]
    pub const fn minus(self, other: Angle) -> Angle {
        Angle(self.0.wrapping_sub(other.0))
    }
    /// `factor` times as far.
    #[must_use]
    pub const fn times(self, factor: u64) -> Angle {
        Angle(self.0.wrapping_mul(factor))
    }
}

/// The motor: a constant speed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spindle {
    /// Angle units in a nanosecond.
    turn: u64,
    period: Duration,
}

/// A head this little past the start of a sector still reads it. It covers the rounding of instants to whole
/// nanoseconds, which would otherwise cost a revolution each time a transfer is cut in two; no drive's sector is
/// shorter than 1000 ns.
const LATE: u64 = 2;

impl Spindle {
    /// A spindle of constant speed; at the clock's start the index mark is under the heads. Panics outside 1 to
    /// 1,000,000 rpm.
    pub fn new(speed: Frequency) -> Spindle {
        let rpm = speed.get() * 60.0;
        assert!((1.0..=1e6).contains(&rpm), "a spindle of {rpm} rpm");
        let period = 1e9 / speed.get();
        Spindle {
            turn: (18_446_744_073_709_551_616.0 / period).round() as u64,
            period: Duration::from_seconds(period / 1e9),
        }
    }

    /// One revolution, to the nearest nanosecond.
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// What is under the heads at an instant.
    pub const fn angle(&self, at: Instant) -> Angle {
        Angle(at.as_nanos().wrapping_mul(self.turn))
    }

    /// How long to wait at `at` until `target` is under the heads; rounded up to a nanosecond, and nothing within two.
    pub const fn wait(&self, at: Instant, target: Angle) -> Duration {
        let gap = target.minus(self.angle(at)).0;
        if gap > u64::MAX - self.turn * LATE {
            return Duration::ZERO;
        }
        Duration::nanos(gap.div_ceil(self.turn))
    }

    /// How long the platters take to turn by `angle`, as nanoseconds times 2^20: for sums over many sectors.
    pub const fn sweep(&self, angle: Angle) -> u64 {
        (((angle.0 as u128) << 20) / self.turn as u128) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spindle(rpm: f64) -> Spindle {
        Spindle::new(Frequency::per_second(rpm / 60.0))
    }

    #[test]
    fn a_year_of_turns_does_not_drift() {
        // 7200 rpm: 120 turns a second, so every whole second finds the index mark where it was.
        let year = 365 * 86_400u64;
        let angle = spindle(7200.0).angle(Instant::from_nanos(year * 1_000_000_000)).as_revolutions();
        assert!(angle.min(1.0 - angle) < 0.001, "{angle}");
    }

    #[test]
    fn waiting_arrives() {
        let spindle = spindle(5400.0);
        for t in (0..100_000_000).step_by(77_777) {
            for sector in [0, 1, 57, 95] {
                let target = Angle::fraction(sector, 96);
                let at = Instant::from_nanos(t);
                let wait = spindle.wait(at, target);
                assert!(wait <= spindle.period() + Duration::nanos(1));
                let missed = spindle.angle(at + wait).minus(target).as_revolutions();
                assert!(missed.min(1.0 - missed) * spindle.period().as_nanos() as f64 <= 2.1);
                assert_eq!(spindle.wait(at + wait, target), Duration::ZERO, "who has arrived does not wait again");
            }
        }
    }

    #[test]
    fn a_quarter_turn_lasts_a_quarter_of_the_period() {
        let quarter = spindle(6000.0).sweep(Angle::fraction(1, 4)) >> 20;
        assert!((2_499_999..=2_500_000).contains(&quarter), "{quarter}");
    }
}
