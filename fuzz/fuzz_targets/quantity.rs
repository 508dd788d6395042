//! Any text as any quantity: a value that prints back to itself, or an error with a sentence; never a panic.

#![no_main]

use std::fmt::{Debug, Display};
use std::str::FromStr;

use libfuzzer_sys::fuzz_target;
use units::{Bytes, Duration, Frequency, ParseError, Rate, Ratio};

fuzz_target!(|text: &str| {
    round_trip::<Bytes>(text);
    round_trip::<Duration>(text);
    // Floating-point quantities may lose the last digit on the way through a unit; reading them must only not panic.
    let _ = (text.parse::<Rate>(), text.parse::<Ratio>(), text.parse::<Frequency>());
});

fn round_trip<T: FromStr<Err = ParseError> + Display + Debug + PartialEq>(text: &str) {
    match text.parse::<T>() {
        Ok(value) => assert_eq!(format!("{value:#}").parse::<T>().as_ref(), Ok(&value)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
