//! Quantities as bare numbers in JSON, where the name of the field carries the unit (`bandwidth_bytes_per_s`,
//! `latency_ns`).
//!
//! The JSON contract is read by scripts, and a script compares numbers. The quantities' own serialization, text with
//! units, is for files that people write.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use units::{Bytes, Duration, Frequency, Rate, Ratio};

/// A quantity that is a number once its unit is named, and of which a mean can be taken.
pub trait Quantity: Copy {
    /// The number in JSON.
    type Number: Serialize + DeserializeOwned;
    /// In its unit: bytes, nanoseconds, bytes per second, times per second, or 1 for the whole.
    fn to_number(self) -> Self::Number;
    /// From a number of that unit; `None` if there is no such quantity.
    fn from_number(number: Self::Number) -> Option<Self>;
    /// For statistics.
    fn to_f64(self) -> f64;
    /// For statistics: to the nearest quantity. Not negative.
    fn from_f64(number: f64) -> Self;
}

/// Quantities that are whole numbers.
macro_rules! whole {
    ($type:ty, $new:path, $get:ident) => {
        impl Quantity for $type {
            type Number = u64;
            fn to_number(self) -> u64 {
                self.$get()
            }
            fn from_number(number: u64) -> Option<Self> {
                Some($new(number))
            }
            fn to_f64(self) -> f64 {
                self.$get() as f64
            }
            fn from_f64(number: f64) -> Self {
                $new(number.round() as u64)
            }
        }
    };
}
whole!(Bytes, Bytes::new, get);
whole!(Duration, Duration::nanos, as_nanos);

/// Quantities that are floating-point numbers.
macro_rules! float {
    ($type:ty, $new:path) => {
        impl Quantity for $type {
            type Number = f64;
            fn to_number(self) -> f64 {
                self.get()
            }
            fn from_number(number: f64) -> Option<Self> {
                (number >= 0.0 && number.is_finite()).then(|| $new(number))
            }
            fn to_f64(self) -> f64 {
                self.get()
            }
            fn from_f64(number: f64) -> Self {
                $new(number)
            }
        }
    };
}
float!(Rate, Rate::bytes_per_second);
float!(Frequency, Frequency::per_second);
float!(Ratio, Ratio::new);

/// `#[serde(with = "json::number")]` on a quantity whose field name carries the unit.
#[allow(missing_docs)] // the functions that serde asks for
pub mod number {
    use super::*;

    pub fn serialize<Q: Quantity, S: Serializer>(quantity: &Q, serializer: S) -> Result<S::Ok, S::Error> {
        quantity.to_number().serialize(serializer)
    }

    pub fn deserialize<'de, Q: Quantity, D: Deserializer<'de>>(deserializer: D) -> Result<Q, D::Error> {
        let number = Q::Number::deserialize(deserializer)?;
        Q::from_number(number).ok_or_else(|| serde::de::Error::custom("this quantity must be finite and not negative"))
    }
}

/// `#[serde(with = "json::seconds")]` on a duration in a field `seconds`.
pub(crate) mod seconds {
    use super::*;

    pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        time.as_seconds().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        if !(0.0..1e10).contains(&seconds) {
            return Err(serde::de::Error::custom("seconds must be finite and not negative"));
        }
        Ok(Duration::from_seconds(seconds))
    }
}
