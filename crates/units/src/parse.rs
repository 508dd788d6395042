//! Text to quantity: a number, optional blanks, a unit.
//!
//! Decimal text is read exactly (as an integer and a power of ten), so `0.1 s` is 100,000,000 ns and not one off.
//! Digits may be grouped with `_` (`1_000_000 B`).

/// Why a text is not the quantity that was asked for. Displays as one sentence that says what would be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum ParseError {
    /// There is a number but no unit.
    #[error("'{text}' has no unit; write {quantity} as {accepted}")]
    NoUnit { text: String, quantity: &'static str, accepted: &'static str },
    /// The unit is not one of this quantity.
    #[error("'{unit}' in '{text}' is not a unit of {quantity}; write {accepted}")]
    UnknownUnit { text: String, unit: String, quantity: &'static str, accepted: &'static str },
    /// There is no number where one must stand.
    #[error("'{text}' does not start with a number; write {quantity} as {accepted}")]
    NoNumber { text: String, quantity: &'static str, accepted: &'static str },
    /// The number does not fit, is negative, or is not a whole number of the smallest unit.
    #[error("'{text}' is out of range for {quantity}: {limit}")]
    OutOfRange { text: String, quantity: &'static str, limit: &'static str },
}

/// What a quantity is called in messages and which spellings it accepts.
pub(crate) struct Grammar {
    pub quantity: &'static str,
    pub accepted: &'static str,
}

/// A decimal number as `digits * 10^-scale`, so that conversion to a small unit can be exact.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decimal {
    digits: u128,
    scale: u32,
}

impl Decimal {
    /// `self * factor`, if that is a whole number that fits in 64 bits.
    pub fn times_exactly(self, factor: u64) -> Option<u64> {
        let product = self.digits.checked_mul(u128::from(factor))?;
        let divisor = 10u128.checked_pow(self.scale)?;
        if product % divisor != 0 {
            return None;
        }
        u64::try_from(product / divisor).ok()
    }

    pub fn as_f64(self) -> f64 {
        // Parsing the digits again keeps the result correctly rounded, which `digits as f64 / 10^scale` would not.
        format!("{}e-{}", self.digits, self.scale).parse().expect("digits and exponent form a number")
    }
}

impl Grammar {
    /// Splits `text` into its number and its unit (which may be empty).
    pub fn split<'t>(&self, text: &'t str) -> Result<(Decimal, &'t str), ParseError> {
        let trimmed = text.trim();
        let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(end);
        let no_number =
            || ParseError::NoNumber { text: text.to_owned(), quantity: self.quantity, accepted: self.accepted };
        let cleaned = number.replace('_', "");
        let (whole, fraction) = cleaned.split_once('.').unwrap_or((&cleaned, ""));
        if whole.is_empty() || fraction.contains('.') || (cleaned.contains('.') && fraction.is_empty()) {
            return Err(no_number());
        }
        let out_of_range = || self.out_of_range(text, "it has too many digits");
        if whole.len() + fraction.len() > 30 {
            return Err(out_of_range());
        }
        let digits = format!("{whole}{fraction}").parse().map_err(|_| out_of_range())?;
        Ok((Decimal { digits, scale: fraction.len() as u32 }, unit.trim()))
    }

    /// Looks `unit` up in `units`; an empty or unknown unit is an error that names the accepted ones.
    pub fn factor<T: Copy>(&self, text: &str, unit: &str, units: &[(&str, T)]) -> Result<T, ParseError> {
        if let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) {
            return Ok(*factor);
        }
        let (text, quantity, accepted) = (text.to_owned(), self.quantity, self.accepted);
        Err(if unit.is_empty() {
            ParseError::NoUnit { text, quantity, accepted }
        } else {
            ParseError::UnknownUnit { text, unit: unit.to_owned(), quantity, accepted }
        })
    }

    pub fn out_of_range(&self, text: &str, limit: &'static str) -> ParseError {
        ParseError::OutOfRange { text: text.to_owned(), quantity: self.quantity, limit }
    }
}

/// `value` with three significant digits where it is small, whole where it is large; trailing zeros dropped.
pub(crate) fn short(value: f64) -> String {
    let digits = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Serde through text, so that every file and every JSON document carries units too.
macro_rules! text_serde {
    ($type:ty, $expecting:literal) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                // The alternate form is the one that parses back to the same value.
                serializer.collect_str(&format_args!("{self:#}"))
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;
                impl serde::de::Visitor<'_> for Visitor {
                    type Value = $type;
                    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                        f.write_str($expecting)
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
                        text.parse().map_err(E::custom)
                    }
                    // A bare number gets the sentence about units instead of serde's "invalid type".
                    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Self::Value, E> {
                        self.visit_str(&number.to_string())
                    }
                    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Self::Value, E> {
                        self.visit_str(&number.to_string())
                    }
                    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Self::Value, E> {
                        self.visit_str(&number.to_string())
                    }
                }
                deserializer.deserialize_any(Visitor)
            }
        }
    };
}
pub(crate) use text_serde;
