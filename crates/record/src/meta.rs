//! What a file of rows says about itself.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::Row;

/// The labels that give meaning to the numbers of a file of rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// The run, as its folder is named.
    pub run: String,
    /// Whose time the stamps are.
    pub clock: Clock,
    /// The wall-clock time of [`units::Instant::START`]; `None` for simulated runs, as the same seed must give the same
    /// bytes.
    #[serde(with = "rfc3339")]
    pub origin: Option<SystemTime>,
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

impl Labels {
    /// True if the row can be of a run with these labels. Whoever reads rows from a file asks this; whoever takes rows
    /// relies on it.
    pub fn fit(&self, row: &Row) -> bool {
        usize::from(row.stream) < self.streams.len()
            && usize::from(row.device) < self.devices.len()
            && row.intended <= row.submitted
            && row.submitted <= row.completed
    }
}

/// UTC as text with nanoseconds, `2026-02-14T09:30:00.123456789Z`.
#[allow(missing_docs)] // the functions that serde asks for
pub mod rfc3339 {
    use std::time::SystemTime;

    use chrono::{DateTime, SecondsFormat, Utc};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(time: &Option<SystemTime>, serializer: S) -> Result<S::Ok, S::Error> {
        let text = time.map(|time| DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Nanos, true));
        text.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SystemTime>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        let time = text.map(|text| DateTime::parse_from_rfc3339(&text).map(SystemTime::from));
        time.transpose().map_err(serde::de::Error::custom)
    }
}
