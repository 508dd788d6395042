//! What is printed parses back; what has no unit is refused with the units that would do.

use proptest::prelude::*;
use units::{Bytes, Duration, Frequency, Rate, Ratio};

#[test]
fn reads_the_units_of_the_field() {
    assert_eq!("64KiB".parse(), Ok(Bytes::kib(64)));
    assert_eq!(" 64 KiB ".parse(), Ok(Bytes::kib(64)));
    assert_eq!("1.5 MiB".parse(), Ok(Bytes::kib(1536)));
    assert_eq!("2 TB".parse(), Ok(Bytes::new(2_000_000_000_000)));
    assert_eq!("0.1 s".parse(), Ok(Duration::millis(100)));
    assert_eq!("8.33 ms".parse(), Ok(Duration::micros(8330)));
    assert_eq!("30 %".parse(), Ok(Ratio::new(0.3)));
    assert_eq!("3600 rpm".parse(), Ok(Frequency::per_second(60.0)));
    assert_eq!("4 MB/s".parse::<Rate>().unwrap().time_for(Bytes::new(1)), Duration::nanos(250));
}

#[test]
fn refuses_what_is_ambiguous_and_says_what_would_do() {
    let message = |text: &str| text.parse::<Bytes>().unwrap_err().to_string();
    assert_eq!(
        message("4096"),
        "'4096' has no unit; write a size as B, KiB, MiB, GiB, TiB (powers of 1024) or kB, MB, GB, TB (of 1000)"
    );
    assert!(message("4 KB").contains("'KB' in '4 KB' is not a unit of a size"));
    assert!(message("KiB").contains("does not start with a number"));
    assert!(message("1.5 B").contains("whole number of bytes"));
    assert!(message("1..5 KiB").contains("does not start with a number"));
    assert!(message("99999999 PiB").contains("below 16 EiB"));
    assert!(message("").contains("does not start with a number"));
    assert!(message("-4 KiB").contains("does not start with a number"));
}

/// In release builds plain arithmetic would wrap around and go on with a wrong size.
#[test]
fn what_leaves_the_range_panics_in_every_build() {
    fn panics(call: impl Fn() -> u64 + std::panic::UnwindSafe) -> bool {
        std::panic::catch_unwind(call).is_err()
    }
    assert!(panics(|| Bytes::gib(1 << 34).get()));
    assert!(panics(|| Bytes::new(u64::MAX).round_up(Bytes::kib(4)).get()));
    assert!(panics(|| Duration::seconds(u64::MAX / 1_000_000_000 + 1).as_nanos()));
    assert!(panics(|| Duration::micros(u64::MAX / 1_000 + 1).as_nanos()));
}

#[test]
fn prints_what_a_person_would_write() {
    assert_eq!(Bytes::kib(64).to_string(), "64 KiB");
    assert_eq!(Bytes::new(1_500_000_000).to_string(), "1.4 GiB");
    assert_eq!(Duration::micros(1430).to_string(), "1.43 ms");
    assert_eq!(Duration::ZERO.to_string(), "0 s");
    assert_eq!(Rate::bytes_per_second(2.3e6).to_string(), "2.3 MB/s");
    assert_eq!(Ratio::new(0.973).to_string(), "97 %");
}

#[test]
fn bare_number_in_a_file_is_refused_with_the_same_sentence() {
    let error = serde_json::from_str::<Bytes>("4096").unwrap_err().to_string();
    assert!(error.contains("'4096' has no unit"), "{error}");
}

proptest! {
    #[test]
    fn exact_text_parses_back(bytes: u64, nanos: u64, rate in 0.0..1e15f64, ratio in 0.0..10f64) {
        prop_assert_eq!(format!("{:#}", Bytes::new(bytes)).parse(), Ok(Bytes::new(bytes)));
        prop_assert_eq!(format!("{:#}", Duration::nanos(nanos)).parse(), Ok(Duration::nanos(nanos)));
        let rate = Rate::bytes_per_second(rate);
        prop_assert_eq!(format!("{rate:#}").parse(), Ok(rate));
        let parsed: Ratio = format!("{:#}", Ratio::new(ratio)).parse().unwrap();
        prop_assert!((parsed.get() - ratio).abs() <= 1e-15 * ratio);
        let frequency = Frequency::per_second(rate.get());
        prop_assert_eq!(format!("{frequency:#}").parse(), Ok(frequency));
    }

    #[test]
    fn no_text_panics(text in ".{0,24}") {
        let _ = text.parse::<Bytes>();
        let _ = text.parse::<Duration>();
        let _ = text.parse::<Rate>();
        let _ = text.parse::<Ratio>();
        let _ = text.parse::<Frequency>();
    }

    #[test]
    fn rounding_keeps_to_the_unit(n in 0..u64::MAX / 2, unit in 1..1u64 << 40) {
        let (n, unit) = (Bytes::new(n), Bytes::new(unit));
        prop_assert!(n.round_down(unit) <= n && n <= n.round_up(unit));
        prop_assert!(n.round_up(unit) - n.round_down(unit) <= unit);
        prop_assert!(n.round_up(unit).is_multiple_of(unit));
    }
}

proptest! {
    #[test]
    fn durations_round_to_the_nearest_nanosecond(seconds in 0.0..1e9f64, factor in 0.0..1e3f64) {
        prop_assert_eq!(Duration::from_seconds(seconds).as_nanos(), (seconds * 1e9).round() as u64);
        let scaled = Duration::nanos(1_000_003).scale(factor);
        prop_assert_eq!(scaled.as_nanos(), (1_000_003.0 * factor).round() as u64);
    }
}

#[test]
fn a_time_is_rounded_up_to_what_people_read() {
    let rounded = |nanos: u64| Duration::nanos(nanos).round_up().as_nanos();
    let pairs = [(0, 1), (1, 1), (2, 2), (3, 5), (6, 10), (11, 20), (12_500_000, 20_000_000), (50_000, 50_000)];
    assert!(pairs.iter().all(|(nanos, up)| rounded(*nanos) == *up), "{:?}", pairs.map(|(nanos, _)| rounded(nanos)));
    assert_eq!(Duration::MAX.round_up(), Duration::MAX);
}
