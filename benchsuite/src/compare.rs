//! Whether `arraylab compare` cries wolf, and whether it finds what is there.
//!
//! *Identical pairs*: one experiment held against itself, five turns of each side, on a loop device over memory. At 95
//! percent confidence one figure in twenty may seem to differ; a pair has three of them. *A true effect*: requests of 2
//! ms to a server, without and with a twentieth of that to think in between, so that the second side does 5 percent
//! less. The bars: at most 5 percent of the identical figures are called different, and the effect is found in 9 of 10.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::jobs::arraylab;
use crate::runs::Table;
use crate::verdicts::plant::Ground;

/// Pairs that are alike, and pairs that are not.
const ALIKE: usize = 200;
const APART: usize = 10;
/// Of the figures of pairs that are alike, so many may be called different.
const MOST: f64 = 0.05;

const LOAD: &str = "[run]\nmeasure = \"100 ms\"\nstart-up = \"20 ms\"\n[[stream]]\nname = \"load\"\noperation = \"read\"\n\
                    pattern = \"random\"\nsize = \"4 KiB\"\n";

/// Compares, and counts.
pub fn run() -> bool {
    let Some(ours) = arraylab() else {
        println!("  skipped: there is no arraylab beside the benchsuite; build it with cargo build --release -p cli");
        return true;
    };
    let mut table = Table::new("compare", &["pairs", "figure", "compared", "different"]);
    let bars = [alike(&ours, &mut table), apart(&ours, &mut table)];
    let met = bars.into_iter().all(|outcome| match outcome {
        Ok(met) => met,
        Err(why) => {
            println!("  skipped: {}", why.trim());
            true
        }
    });
    table.keep();
    met
}

/// The figures of a comparison, and whether each is called different.
fn compared(ours: &Path, folder: &Path, on: &str, [a, b]: [&str; 2]) -> Result<Vec<(String, bool)>, String> {
    let side = |name: &str, text: &str| {
        let file = folder.join(name);
        std::fs::write(&file, text).map_err(|error| error.to_string())?;
        Ok::<_, String>(file)
    };
    let runs = folder.join("runs");
    let mut command = Command::new(ours);
    command.arg("compare").arg(side("a.toml", a)?).arg(side("b.toml", b)?);
    command.args(["--repeat", "5", "--json", "--on", on, "--runs"]).arg(&runs);
    let output = command.output().map_err(|error| error.to_string())?;
    let _ = std::fs::remove_dir_all(&runs);
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let document: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let metrics = document["metrics"].as_array().ok_or("a comparison has metrics")?;
    let one =
        |metric: &Value| (metric["name"].as_str().unwrap_or_default().to_owned(), metric["verdict"] != "no-difference");
    Ok(metrics.iter().map(one).collect())
}

fn alike(ours: &Path, table: &mut Table) -> Result<bool, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let planted = Ground::new(folder.path()).device("", "")?;
    let load = format!("{LOAD}depth = 4\n");
    let mut counts: Vec<(String, usize)> = Vec::new();
    for _ in 0..ALIKE {
        for (name, differs) in compared(ours, folder.path(), &planted.targets[0], [&load, &load])? {
            match counts.iter_mut().find(|(known, _)| *known == name) {
                Some((_, count)) => *count += usize::from(differs),
                None => counts.push((name, usize::from(differs))),
            }
        }
    }
    let all: usize = counts.iter().map(|(_, count)| count).sum();
    let share = all as f64 / (ALIKE * counts.len()).max(1) as f64;
    for (name, count) in &counts {
        println!("  alike   {name:<18} {count} of {ALIKE} called different");
        table.row(&["alike".to_owned(), name.clone(), ALIKE.to_string(), count.to_string()]);
    }
    println!("  alike: {:.1} % of all figures called different; bar {:.0} %", share * 100.0, MOST * 100.0);
    Ok(share <= MOST)
}

fn apart(ours: &Path, table: &mut Table) -> Result<bool, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let planted = Ground::new(folder.path()).servers(&[&["rdelay=2ms"]], "", "")?;
    let load = LOAD.replace("100 ms", "400 ms") + "depth = 1\n";
    let slower = format!("{load}think = \"105 us\"\n");
    let mut found = 0;
    for _ in 0..APART {
        let figures = compared(ours, folder.path(), &planted.targets[0], [&load, &slower])?;
        found += usize::from(figures.iter().any(|(name, differs)| name == "iops" && *differs));
    }
    table.row(&["apart".to_owned(), "iops".to_owned(), APART.to_string(), found.to_string()]);
    println!("  apart by 5 %: found in {found} of {APART}; bar 9");
    Ok(found >= 9)
}
