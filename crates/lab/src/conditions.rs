//! Under which conditions runs were made, and how those of two runs differ: machine, kernel, settings, limits, what the
//! paths stand on, the scheduler, and the experiment itself.
//!
//! What a run folder keeps (`environment.json`, `topology.json`, `experiment.toml`) is compared value by value. Left
//! out is what differs from one minute to the next and is no condition: the date, the load average, free memory, what
//! reading the clock took.

use std::collections::BTreeMap;

use record::{FolderError, RunFile, RunFolder};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A condition that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Which: a path of names, such as `topology.a.bin.vda.block.scheduler`.
    pub what: String,
    /// In the first run; nothing if it has none.
    pub a: Option<String>,
    /// In the second.
    pub b: Option<String>,
}

/// Values that are no conditions, by the end of their path.
const FLEETING: [&str; 8] = [
    "environment.date",
    "environment.load",
    "environment.memory.available",
    "environment.memory.swapped",
    "environment.clock.resolution",
    "environment.clock.step",
    "environment.clock.reading",
    "environment.memory.total",
];

/// How the conditions of two runs differ.
pub fn differences(a: &RunFolder, b: &RunFolder) -> Result<Vec<Condition>, FolderError> {
    let (a, b) = (conditions(a)?, conditions(b)?);
    let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let pairs = names.into_iter().map(|what| (what, a.get(what), b.get(what)));
    let differ = pairs.filter(|(_, a, b)| a != b);
    Ok(differ.map(|(what, a, b)| Condition { what: what.clone(), a: a.cloned(), b: b.cloned() }).collect())
}

/// All conditions of a run by their paths.
fn conditions(folder: &RunFolder) -> Result<BTreeMap<String, String>, FolderError> {
    let mut found = BTreeMap::new();
    for (name, file) in [("environment", RunFile::Environment), ("topology", RunFile::Topology)] {
        if let Some(value) = folder.read_json::<Value>(file)? {
            flatten(name, &value, &mut found);
        }
    }
    found.retain(|what, _| !FLEETING.contains(&what.as_str()));
    let text = folder.read(RunFile::Experiment)?.unwrap_or_default();
    if let Ok(table) = String::from_utf8_lossy(&text).parse::<toml::Table>()
        && let Ok(value) = serde_json::to_value(table)
    {
        flatten("experiment", &value, &mut found);
    }
    // The name is that of a file.
    found.remove("experiment.name");
    Ok(found)
}

/// Members of lists are told by their names where they have any, so that one more does not shift the rest.
fn flatten(path: &str, value: &Value, into: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(key, value)| flatten(&format!("{path}.{key}"), value, into))
        }
        Value::Array(members) => {
            for (index, member) in members.iter().enumerate() {
                let name = ["name", "path"].iter().find_map(|key| member.get(key)?.as_str());
                let name = name.map_or_else(|| index.to_string(), str::to_owned);
                flatten(&format!("{path}.{name}"), member, into);
            }
        }
        Value::Null => {}
        Value::String(text) => {
            into.insert(path.to_owned(), text.clone());
        }
        other => {
            into.insert(path.to_owned(), other.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_of_a_list_shifts_nothing() {
        let flat = |text: &str| {
            let mut found = BTreeMap::new();
            flatten("topology", &serde_json::from_str(text).unwrap(), &mut found);
            found
        };
        let one = flat(r#"[{"path":"b","size":"1 GiB","below":null}]"#);
        let two = flat(r#"[{"path":"a","size":"1 GiB"},{"path":"b","size":"2 GiB"}]"#);
        assert_eq!(one["topology.b.size"], "1 GiB");
        assert_eq!(two["topology.b.size"], "2 GiB");
        assert!(!one.contains_key("topology.b.below") && two.contains_key("topology.a.size"));
    }
}
