//! Runs that do not come to their end, by Ctrl-C or by an I/O error, keep what was done and say so.

mod common;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Desk, Loop, READS, Said, of};

const MIB: usize = 1 << 20;

/// The folder of the run holds its records, and knows how far it came.
fn is_kept(desk: &Desk, said: &Said, state: &str) {
    let document = said.json();
    let folder = desk.path().join(Path::new(document["run"].as_str().unwrap()));
    assert!(std::fs::read(folder.join("records.parquet")).unwrap().ends_with(b"PAR1"));
    let summary: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("summary.json")).unwrap()).unwrap();
    assert_eq!(summary["total"], document["total"]);
    let run = std::fs::read_to_string(folder.join("run.json")).unwrap();
    assert!(run.contains(state), "{run}");
}

/// Waits until it is so; a machine that does something else at the time takes its time.
fn wait_for(what: &str, so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !so() {
        assert!(Instant::now() < deadline, "{what} within 30 s");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// True once the threads of a process that make load have started.
fn makes_load(process: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.into_iter().any(|name| name.starts_with("load-"))
}

/// Ctrl-C when the run has been on for 300 ms.
fn interrupted(desk: &Desk, on: &str) {
    let child = desk.start(&["run", "load.toml", "--on", on, "--json", "--set", "run.measure=20s"]);
    wait_for("the run folder", || desk.path().join("runs").exists());
    if !on.starts_with("memory:") {
        wait_for("the load", || makes_load(child.id()));
    }
    std::thread::sleep(Duration::from_millis(300));
    let kill = Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status().unwrap();
    assert!(kill.success());
    let asked = Instant::now();
    let said = of(child.wait_with_output().unwrap());
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(2), "{on}: {took:?}");
    assert_eq!(said.code, 3, "{}", said.stderr);
    assert_eq!(said.stderr, "ending the run; what was recorded is kept (Ctrl-C again: end at once)\n");
    let document = said.json();
    assert_eq!(document["interrupted"], true);
    assert!(document["remarks"].to_string().contains("ended early"));
    assert!(document["total"]["requests"].as_u64().unwrap() > 0);
    is_kept(desk, &said, "interrupted");
}

#[test]
fn ctrl_c_ends_a_run_on_a_file_and_keeps_it() {
    let desk = Desk::new(READS);
    desk.file("data.bin", 4 * MIB);
    interrupted(&desk, "data.bin");
}

/// A microsecond a request: twenty seconds of virtual time are many more of real time.
#[test]
fn ctrl_c_ends_a_simulated_run_and_keeps_it() {
    interrupted(&Desk::new(READS), "memory:4MiB:1us");
}

/// A loop device whose backing file has lost its second half: reads from there fail.
fn damaged(desk: &Desk) -> Option<Loop> {
    let backing = desk.file("backing", 8 * MIB);
    let device = Loop::over(&backing)?;
    std::fs::OpenOptions::new().write(true).open(&backing).unwrap().set_len(4 << 20).unwrap();
    Some(device)
}

#[test]
fn an_io_error_stops_the_run_and_is_listed() {
    let desk = Desk::new(READS);
    let Some(device) = damaged(&desk) else { return };
    let said = desk.arraylab(&["run", "load.toml", "--on", &device.node, "--json", "--set", "run.measure=20s"]);
    assert_eq!(said.code, 3, "{}{}", said.stderr, said.stdout);
    let document = said.json();
    assert!(document["total"]["seconds"].as_f64().unwrap() < 5.0);
    // The requests under way may fail, and those that followed requests done before the first failure.
    assert!((1..=8).contains(&document["total"]["errors"].as_u64().unwrap()), "{}", document["total"]);
    assert_eq!(document["total"]["errors_by_errno"][0]["errno"], 5);
    let remark = format!("{}, stream readers: ", device.node);
    assert!(document["remarks"].to_string().contains(&remark), "{}", document["remarks"]);
    is_kept(&desk, &said, "interrupted");
}

#[test]
fn a_run_that_is_to_go_on_after_errors_counts_them() {
    let desk = Desk::new(READS);
    let Some(device) = damaged(&desk) else { return };
    let said = desk.arraylab(&["run", "load.toml", "--on", &device.node, "--json", "--set", "run.on-error=continue"]);
    assert_eq!(said.code, 3, "{}", said.stderr);
    let document = said.json();
    assert!(document["total"]["seconds"].as_f64().unwrap() > 0.19);
    assert!(document["total"]["errors"].as_u64().unwrap() > 4, "{}", document["total"]);
    assert!(document["advice"].to_string().contains("requests failed (errno 5: "), "{}", document["advice"]);
    is_kept(&desk, &said, "complete");
}
