//! Which parts several devices of a kept run stand on, read from its `topology.json`.
//!
//! Of that file only what leads downwards is read: the names of the layers, and below the last one the way to the host.
//! A stack that branches (an array over disks) is followed to where it does. The nearest common part comes first; one
//! that only the same devices share is named with it.

use analysis::explain::Shared;
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

/// A path and its stack, as far as it is needed.
#[derive(Deserialize)]
pub(super) struct Target {
    path: String,
    #[serde(deserialize_with = "any_json")]
    top: Layer,
}

/// A stack from JSON in which a field may stand twice, where the last counts: folders of 2026 tell the name of a volume
/// of device mapper in a second field `name`.
fn any_json<'de, D: Deserializer<'de>>(json: D) -> Result<Layer, D::Error> {
    serde_json::from_value(Value::deserialize(json)?).map_err(de::Error::custom)
}

#[derive(Deserialize)]
struct Layer {
    name: String,
    #[serde(default)]
    hardware: Vec<Hop>,
    #[serde(default)]
    below: Vec<Layer>,
}

#[derive(Deserialize)]
struct Hop {
    name: String,
    link: Option<String>,
}

impl Target {
    /// What it stands on, the nearest first, without the path itself.
    fn chain(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut layer = &self.top;
        loop {
            names.push(layer.name.clone());
            names.extend(layer.hardware.iter().rev().map(|hop| match &hop.link {
                Some(link) => format!("{} ({link})", hop.name),
                None => hop.name.clone(),
            }));
            match &layer.below[..] {
                [below] => layer = below,
                _ => return names,
            }
        }
    }
}

/// What at least two of the devices share.
pub(super) fn shared(targets: &[Target], devices: &[String]) -> Vec<Shared> {
    let used = targets.iter().filter(|target| devices.contains(&target.path));
    let chains: Vec<(&str, Vec<String>)> = used.map(|target| (target.path.as_str(), target.chain())).collect();
    let mut found: Vec<Shared> = Vec::new();
    for (_, chain) in &chains {
        for part in chain {
            let on: Vec<String> =
                chains.iter().filter(|(_, other)| other.contains(part)).map(|(path, _)| (*path).to_owned()).collect();
            if on.len() < 2 || found.iter().any(|known| known.part.split(", ").any(|name| name == part)) {
                continue;
            }
            match found.iter_mut().find(|known| known.devices == on) {
                Some(known) => known.part = format!("{}, {part}", known.part),
                None => found.push(Shared { part: part.clone(), devices: on }),
            }
        }
    }
    found.sort_by_key(|shared| shared.devices.len());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str, json: &str) -> Target {
        serde_json::from_str(&format!(r#"{{"path":"{path}","top":{json}}}"#)).unwrap()
    }

    #[test]
    fn a_volume_may_have_two_names() {
        let volume = r#"{"name":"dm-0","is":"mapped","name":"luks","maker":"CRYPT","below":[]}"#;
        assert_eq!(target("/dev/dm-0", volume).chain(), ["luks"]);
    }

    #[test]
    fn the_nearest_common_part_comes_first() {
        let disk = |name: &str, port: &str| {
            format!(
                r#"{{"name":"{name}","is":"disk","hardware":[{{"name":"pci0000:00","link":null}},
                {{"name":"0000:00:1f.2","link":"8.0 GT/s PCIe x4"}},{{"name":"{port}","link":null}}],"below":[]}}"#
            )
        };
        let targets = vec![
            target("/dev/sda", &disk("sda", "port-0")),
            target("/dev/sdb", &disk("sdb", "port-0")),
            target("/dev/sdc", &disk("sdc", "port-1")),
            target("/dev/unused", &disk("unused", "port-1")),
        ];
        let names: Vec<String> = ["/dev/sda", "/dev/sdb", "/dev/sdc"].map(str::to_owned).to_vec();
        let found = shared(&targets, &names);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!((found[0].part.as_str(), found[0].devices.len()), ("port-0", 2));
        assert_eq!(found[1].part, "0000:00:1f.2 (8.0 GT/s PCIe x4), pci0000:00");
        assert_eq!(found[1].devices.len(), 3);
    }
}
