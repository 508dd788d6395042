//! Quantities as numbers, for programs: their fields are named with the unit, and people are told in words.

use serde::{Deserialize, Deserializer, Serializer};
use units::{Bytes, Duration};

/// A size as a number of bytes.
pub(crate) fn serialize<S: Serializer>(size: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(size.get())
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    u64::deserialize(deserializer).map(Bytes::new)
}

/// A size that may not be known, or not be.
pub(crate) fn some<S: Serializer>(size: &Option<Bytes>, serializer: S) -> Result<S::Ok, S::Error> {
    match size {
        Some(size) => serializer.serialize_some(&size.get()),
        None => serializer.serialize_none(),
    }
}

/// A time as a number of nanoseconds.
pub(crate) fn nanoseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.as_nanos())
}
