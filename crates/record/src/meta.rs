//! What a file of rows says about itself.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// The labels that give meaning to the numbers of a file of rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// The run, as its folder is named.
    pub run: String,
    /// Whose time the stamps are.
    pub clock: Clock,
    /// The wall-clock time of [`units::Instant::START`]; for simulated runs, when the simulation was started.
    #[serde(with = "rfc3339")]
    pub origin: SystemTime,
    /// Names of streams and devices.
    #[serde(flatten)]
    pub labels: Labels,
}

/// Whose time the stamps are. The only mark by which a live run can be told from a modelled one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// Time passed.
    Live,
    /// Time was computed.
    Simulated,
}

/// The names behind [`crate::Row::stream`] and [`crate::Row::device`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Labels {
    /// By [`crate::Row::stream`].
    pub streams: Vec<String>,
    /// By [`crate::Row::device`].
    pub devices: Vec<String>,
}

/// UTC as text with nanoseconds, `2026-02-14T09:30:00.123456789Z`.
pub(crate) mod rfc3339 {
    use std::time::SystemTime;

    use chrono::{DateTime, SecondsFormat, Utc};
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&DateTime::<Utc>::from(*time).to_rfc3339_opts(SecondsFormat::Nanos, true))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
        let text = String::deserialize(deserializer)?;
        DateTime::parse_from_rfc3339(&text).map(SystemTime::from).map_err(serde::de::Error::custom)
    }
}
