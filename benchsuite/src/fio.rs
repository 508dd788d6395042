//! fio, as a measuring stick: the same load on the same target, in the same minute.

use std::path::Path;
use std::process::Command;

/// One run of fio.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// Requests per second.
    pub rate: f64,
    /// Processor time of the whole process, with the kernel's helper threads in it, in seconds.
    pub cpu: f64,
}

/// Options that all ways have in common: no map of what was read, no clock for latencies, no writing; and one process, whose
/// processor time is then all of it.
const COMMON: [&str; 10] = [
    "--name=bench",
    "--thread",
    "--rw=randread",
    "--bs=4k",
    "--norandommap",
    "--randrepeat=0",
    "--gtod_reduce=1",
    "--readonly",
    "--invalidate=0",
    "--output-format=json",
];

/// Runs fio for so many requests; `None`, with a line that says why, if it cannot be run. What fio spends before its first and after its
/// last request is in the time: a run of a single request shows how much that is.
pub fn run(path: &Path, options: &[&str], requests: u64) -> Option<Run> {
    let before = children_seconds();
    let mut command = Command::new("fio");
    // Without a size of the load it would end when it had read as much as the target holds.
    command
        .args(COMMON)
        .args(options)
        .args([format!("--number_ios={requests}"), format!("--io_size={}k", 4 * requests)]);
    let output = command.arg(format!("--filename={}", path.display())).output();
    let output = match output {
        Ok(output) if output.status.success() => output,
        Ok(output) => {
            println!("  fio {}: {}", options.join(" "), String::from_utf8_lossy(&output.stderr).trim());
            return None;
        }
        Err(error) => {
            println!("  fio cannot be run: {error}");
            return None;
        }
    };
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let read = &report["jobs"][0]["read"];
    assert_eq!(read["total_ios"].as_u64(), Some(requests), "fio makes as many requests as it is told to");
    Some(Run { rate: read["iops"].as_f64()?, cpu: children_seconds() - before })
}

/// Processor time of the children waited for so far, theirs included, in seconds; the kernel counts it in ticks of 10 ms.
fn children_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("every Linux process has this file");
    // The name, in brackets, may hold anything; the fields after it are numbers.
    let (_, fields) = stat.rsplit_once(')').expect("the name is in brackets");
    let ticks: u64 = fields.split_whitespace().skip(13).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}
