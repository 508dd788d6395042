//! Decimal numbers of time, exactly: through a double, a stamp of 2^53 ns and more (104 days) would lose its last
//! digits.

use units::Duration;

/// `1.25` of a unit; digits below a nanosecond are cut off. Nothing if it is no plain decimal number, or longer than a
/// clock counts.
pub(super) fn decimal(text: &str, unit: Duration) -> Option<Duration> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    if whole.len() + part.len() == 0 || !digits(whole) || !digits(part) {
        return None;
    }
    let mut nanos = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()?.checked_mul(unit.as_nanos())? };
    let mut place = unit.as_nanos();
    for digit in part.bytes() {
        place /= 10;
        nanos = nanos.checked_add(u64::from(digit - b'0') * place)?;
    }
    Some(Duration::nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_digit_counts() {
        let nanos = |text: &str, unit| decimal(text, unit).map(Duration::as_nanos);
        let (second, milli) = (Duration::seconds(1), Duration::millis(1));
        assert_eq!(nanos("9007199.254740993", second), Some(9_007_199_254_740_993));
        assert_eq!((nanos("0.551706", second), nanos("12", second)), (Some(551_706_000), Some(12_000_000_000)));
        assert_eq!(
            (nanos("1.5", milli), nanos(".0000019", milli), nanos("3.", milli)),
            (Some(1_500_000), Some(1), Some(3_000_000))
        );
        for none in ["", ".", "-1", "1e3", "nan", "1.2.3", "99999999999999999999", "20000000000"] {
            assert_eq!(nanos(none, second), None, "{none}");
        }
    }
}
