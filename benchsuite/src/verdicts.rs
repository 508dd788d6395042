//! Causes that are planted, and whether `arraylab explain` names them.
//!
//! Each set-up makes a cause on purpose, runs a load and asks for the verdict, five times in a row. The bar: the kind
//! of limit is the planted one each time, and where a part is planted, it is named. Set-ups in which nothing is wrong
//! must blame nobody. What cannot be made on a machine (no loop devices, no control groups, no nbdkit) is skipped, and
//! said to be. `BENCHSUITE_CAUSE=NAME` picks one.

pub(crate) mod plant;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::jobs::arraylab;
use crate::runs::Table;
use plant::{Ground, Planted};

/// How often each is made.
const TURNS: usize = 5;

/// A cause, and how it is made.
struct Cause {
    name: &'static str,
    /// The kinds that name it.
    kinds: &'static [&'static str],
    /// What the verdict must contain, in its part or its evidence.
    said: &'static str,
    plant: fn(&Ground) -> Result<Planted, String>,
}

const READS: &str = "operation = \"read\"\npattern = \"random\"\nsize = \"4 KiB\"\n";
const WRITES: &str = "operation = \"write\"\npattern = \"random\"\nsize = \"4 KiB\"\n";
const DEEP: &str = "depth = 32\n";

const CAUSES: &[Cause] = &[
    Cause {
        name: "load",
        kinds: &["load"],
        said: "offered 10000 /s",
        plant: |g| g.device(READS, "arrivals = { poisson = \"10000/s\" }\n"),
    },
    Cause {
        name: "small-load",
        kinds: &["load"],
        said: "offered 200 /s",
        plant: |g| g.device(READS, "arrivals = { poisson = \"200/s\" }\n"),
    },
    Cause {
        name: "thinking",
        kinds: &["load"],
        said: "thinks",
        plant: |g| g.device(READS, "depth = 2\nthink = \"2 ms\"\n"),
    },
    Cause {
        name: "depth-1",
        kinds: &["depth"],
        said: "one request",
        plant: |g| g.servers(&[&["rdelay=1ms"]], READS, "depth = 1\n"),
    },
    Cause {
        name: "depth-4",
        kinds: &["depth"],
        said: "do not queue",
        plant: |g| g.servers(&[&["rdelay=2ms"]], READS, "depth = 4\n"),
    },
    Cause {
        name: "slow-of-four",
        kinds: &["device"],
        said: "3.sock",
        plant: |g| {
            g.servers(&[&["rdelay=1ms"], &["rdelay=1ms"], &["rdelay=1ms"], &["rdelay=8ms"]], READS, "depth = 4\n")
        },
    },
    Cause { name: "shared-link", kinds: &["shared"], said: "gains", plant: |g| g.one_link(READS, "depth = 8\n") },
    Cause { name: "throttle", kinds: &["throttle"], said: "control group", plant: |g| g.throttled(READS, DEEP) },
    Cause { name: "quota", kinds: &["throttle"], said: "withheld", plant: |g| g.quota(READS, DEEP) },
    Cause { name: "hog", kinds: &["processors"], said: "other programs", plant: |g| g.hog(READS, DEEP) },
    Cause {
        name: "one-processor",
        kinds: &["processors"],
        said: "one processor",
        plant: |g| g.one_processor(READS, "depth = 64\n"),
    },
    Cause {
        name: "processors",
        kinds: &["processors"],
        said: "processors were busy",
        plant: |g| g.two_devices(READS, "depth = 64\n"),
    },
    Cause { name: "generator", kinds: &["generator"], said: "busiest thread", plant: |g| g.null(READS, DEEP) },
    Cause { name: "page-cache", kinds: &["cache"], said: "page cache", plant: |g| g.cached(READS, "depth = 4\n") },
    Cause {
        name: "memory",
        kinds: &["cache"],
        said: "memory/planted",
        plant: |g| g.little_memory(READS, "depth = 4\n"),
    },
    Cause { name: "holes", kinds: &["holes"], said: "never written", plant: |g| g.hollow(READS, "depth = 4\n") },
    Cause { name: "neighbour", kinds: &["neighbour"], said: "fio", plant: |g| g.neighbour(READS, "depth = 4\n") },
    Cause {
        name: "neighbour-bursts",
        kinds: &["neighbour"],
        said: "by fio",
        plant: |g| g.neighbour_in_bursts(READS, "depth = 4\n"),
    },
    Cause { name: "hog-bursts", kinds: &["processors"], said: "bursts", plant: |g| g.hog_in_bursts(READS, DEEP) },
    Cause { name: "cliff", kinds: &["depth"], said: "changes at 1", plant: |g| g.cliff(READS, "depth = 1\n") },
    Cause { name: "stalls", kinds: &["stall"], said: "one every 1", plant: |g| g.stalls(READS, "depth = 4\n") },
    Cause {
        name: "stalls-open",
        kinds: &["stall"],
        said: "one every 1",
        plant: |g| g.stalls(READS, "arrivals = { poisson = \"500/s\" }\n"),
    },
    Cause {
        name: "slow-server",
        kinds: &["depth", "device"],
        said: "",
        plant: |g| g.servers(&[&["rdelay=20ms"]], READS, "depth = 8\n"),
    },
    Cause { name: "fsync", kinds: &["device"], said: "flushes", plant: Ground::flushed },
    Cause {
        name: "splits",
        kinds: &["device", "processors", "generator"],
        said: "splits",
        plant: |g| g.split("depth = 8\n"),
    },
    Cause { name: "scheduler", kinds: &["compared"], said: "bfq", plant: |g| g.scheduled(READS, DEEP) },
    // Nothing is wrong.
    Cause {
        name: "idle",
        kinds: &["load", "none"],
        said: "",
        plant: |g| g.device(READS, "arrivals = { constant = \"20/s\" }\n"),
    },
    Cause {
        name: "alike",
        kinds: &["none", "depth"],
        said: "",
        plant: |g| g.servers(&[&["rdelay=2ms"], &["rdelay=2ms"], &["rdelay=2ms"]], READS, "depth = 2\n"),
    },
    Cause {
        name: "alike-open",
        kinds: &["load"],
        said: "",
        plant: |g| g.servers(&[&["rdelay=1ms"], &["rdelay=1ms"]], READS, "arrivals = { poisson = \"300/s\" }\n"),
    },
    Cause {
        name: "alike-deep",
        kinds: &["none", "depth"],
        said: "",
        plant: |g| g.servers(&[&["rdelay=3ms"], &["rdelay=3ms"], &["rdelay=3ms"]], READS, "depth = 8\n"),
    },
    Cause {
        name: "alike-writes",
        kinds: &["none", "depth"],
        said: "",
        plant: |g| g.servers(&[&["wdelay=2ms"], &["wdelay=2ms"]], WRITES, "depth = 2\n"),
    },
    Cause {
        name: "idle-two",
        kinds: &["load"],
        said: "",
        plant: |g| g.two_devices(READS, "arrivals = { poisson = \"50/s\" }\n"),
    },
    Cause {
        name: "thinking-two",
        kinds: &["load"],
        said: "thinks",
        plant: |g| g.two_devices(READS, "depth = 1\nthink = \"5 ms\"\n"),
    },
    Cause {
        name: "held",
        kinds: &["load"],
        said: "rate",
        plant: |g| g.device(READS, "depth = 4\nrate-limit = { requests = \"500/s\" }\n"),
    },
];

/// Plants, runs and asks.
pub fn run() -> bool {
    let Some(ours) = arraylab() else {
        println!("  skipped: there is no arraylab beside the benchsuite; build it with cargo build --release -p cli");
        return true;
    };
    let picked = std::env::var("BENCHSUITE_CAUSE").ok();
    let mut table = Table::new("verdicts", &["cause", "named", "of", "verdicts"]);
    let (mut named, mut planted) = (0, 0);
    for cause in CAUSES.iter().filter(|cause| picked.as_deref().is_none_or(|picked| picked == cause.name)) {
        let mut verdicts = Vec::new();
        let mut refused = None;
        for _ in 0..TURNS {
            match verdict(&ours, cause) {
                Ok(verdict) => verdicts.push(verdict),
                Err(why) => {
                    refused = Some(why);
                    break;
                }
            }
        }
        if let Some(why) = refused {
            println!("  {:<14} skipped: {}", cause.name, why.trim());
            continue;
        }
        let right = verdicts.iter().filter(|(right, _)| *right).count();
        (named, planted) = (named + usize::from(right == TURNS), planted + 1);
        println!("  {:<14} {right} of {TURNS}{}", cause.name, if right == TURNS { "" } else { ": MISSED" });
        for (_, said) in verdicts.iter().filter(|(right, _)| !right) {
            println!("    {said}");
        }
        let mut said: Vec<String> = verdicts.into_iter().map(|(_, said)| said).collect();
        said.dedup();
        table.row(&[cause.name.to_owned(), right.to_string(), TURNS.to_string(), said.join("; ")]);
    }
    println!("  {named} of {planted} causes named each time");
    table.keep();
    named == planted
}

/// Whether a cause is named once, and what was said.
fn verdict(ours: &Path, cause: &Cause) -> Result<(bool, String), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let planted = (cause.plant)(&Ground::new(folder.path()))?;
    let file = folder.path().join("load.toml");
    std::fs::write(&file, &planted.experiment).map_err(|error| error.to_string())?;
    let runs: PathBuf = folder.path().join("runs");
    let mut command = planted.command(ours);
    command.arg("run").arg(&file).args(["--json", "--destroy-data", "--runs"]).arg(&runs);
    if !planted.targets.is_empty() {
        command.args(["--on", &planted.targets.join(",")]);
    }
    let mut measure = || -> Result<String, String> {
        Ok(json(&mut command)?["run"].as_str().ok_or("a run has a folder")?.to_owned())
    };
    let folder = measure()?;
    if let Some((file, value)) = &planted.change {
        std::fs::write(file, value).map_err(|error| format!("{}: {error}", file.display()))?;
        return compared(ours, cause, &[folder, measure()?]);
    }
    drop(planted);
    let explained = json(Command::new(ours).args(["explain", &folder, "--json"]))?;
    let limit = &explained["limit"];
    let kind = limit["kind"].as_str().unwrap_or_default();
    let evidence: Vec<&str> = limit["evidence"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let remarks: Vec<&str> = explained["remarks"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let said = format!(
        "{kind}: {}: {} ({}) {}",
        limit["part"].as_str().unwrap_or_default(),
        evidence.join("; "),
        limit["confidence"],
        remarks.join("; ")
    );
    Ok((cause.kinds.contains(&kind) && said.contains(cause.said), said))
}

/// Whether what was changed between two runs is named among what differs.
fn compared(ours: &Path, cause: &Cause, folders: &[String]) -> Result<(bool, String), String> {
    let result = json(Command::new(ours).arg("compare").args(folders).arg("--json"))?;
    let said = format!("compared: {}", result["comparisons"][0]["environment"]);
    Ok((cause.kinds.contains(&"compared") && said.contains(cause.said), said))
}

/// What a command prints as one document; or why it failed.
pub(crate) fn json(command: &mut Command) -> Result<Value, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}
