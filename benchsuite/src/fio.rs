//! fio, as a measuring stick: the same load on the same target, in the same minute.

use std::path::Path;
use std::process::Command;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::load::Cost;

/// Options that all ways have in common: no map of what was read, no clock for latencies, no writing; and one process,
/// whose processor time is then all of it.
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

/// Processor time that fio spends before its first and after its last request, in microseconds: the least of some runs
/// of a single one.
pub fn start_and_end(path: &Path, options: &str) -> f64 {
    (0..3).filter_map(|_| run(path, options, 1, 0.0)).map(|cost| cost.cpu).fold(f64::INFINITY, f64::min)
}

/// Runs fio for so many requests; `None`, with a line that says why, if it cannot be run. `start_and_end` is not
/// counted.
pub fn run(path: &Path, options: &str, requests: u64, start_and_end: f64) -> Option<Cost> {
    let before = children_microseconds();
    let mut command = Command::new("fio");
    command.args(COMMON).args(options.split_whitespace());
    // Without a size of the load it would end when it had read as much as the target holds.
    command.args([format!("--number_ios={requests}"), format!("--io_size={}k", 4 * requests)]);
    let report = report(command.arg(format!("--filename={}", path.display())))?;
    let read = &report["jobs"][0]["read"];
    assert_eq!(read["total_ios"].as_u64(), Some(requests), "fio makes as many requests as it is told to");
    let cpu = children_microseconds() - before - start_and_end;
    Some(Cost { cpu: cpu / requests as f64, rate: read["iops"].as_f64()? })
}

/// The document that fio, or a program that prints as fio does, makes of a job; `None`, with a line that says why, if
/// it makes none or fails.
pub fn report(command: &mut Command) -> Option<serde_json::Value> {
    let output = command.output();
    let program = command.get_program().display();
    match output {
        Err(error) => println!("    {program} cannot be run: {error}"),
        Ok(output) if !output.status.success() => {
            println!("    {program}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(output) => match serde_json::from_slice(&output.stdout) {
            Ok(report) => return Some(report),
            Err(error) => println!("    {program} prints no JSON: {error}"),
        },
    }
    None
}

/// Processor time of the children waited for so far, theirs included.
fn children_microseconds() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("every process may ask for it");
    (usage.user_time() + usage.system_time()).num_microseconds() as f64
}
