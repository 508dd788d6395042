//! `arraylab run --trace`: requests are followed through the kernel where that is possible, and where it is not the run
//! says why and goes on.

mod common;

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

use common::{Desk, Loop, READS, Said, said, skip};
use record::{Phase, RunFolder, SpanLog, live_phases};
use serde_json::Value;

const TRACEFS: &str = "/sys/kernel/tracing";

/// Runs a command where tracefs is mounted: here, or in a mount space of its own. `None`, and said, where it cannot be.
fn traced(desk: &Desk, words: &[&str]) -> Option<Said> {
    let command = if Path::new(TRACEFS).join("instances").exists() {
        desk.command(words)
    } else {
        let mut command = Command::new("unshare");
        let script = "mount -t tracefs tracefs /sys/kernel/tracing || exit 99; exec \"$@\"";
        command.args(["--mount", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_arraylab")]);
        command.args(words).current_dir(desk.path());
        command
    };
    let said = said(command);
    if said.code == 99
        || said.stderr.contains("unshare:")
        || ["tracefs", "needs root"].iter().any(|why| said.stderr.contains(why))
    {
        skip(&format!("no tracefs, or no permission to use it: {}", said.stderr.trim()));
        return None;
    }
    Some(said)
}

#[test]
fn phases_in_the_kernel_add_up_to_the_response_time_of_each_request() {
    let desk = Desk::new(READS);
    let Some(device) = Loop::over(&desk.file("backing", 32 << 20)) else { return };
    let Some(said) = traced(&desk, &["run", "load.toml", "--on", &device.node, "--trace", "--json"]) else { return };
    assert_eq!(said.code, 0, "{}", said.stderr);
    let document = said.json();
    let tally = &document["timeline"];
    let number = |key: &str| tally[key].as_f64().unwrap_or_else(|| panic!("{key}: {tally:#}"));
    assert!(number("requests") > 100.0 && number("joined") >= 0.995 * number("requests"), "{tally:#}");
    assert_eq!(number("lost"), 0.0, "{tally:#}");

    let (folder, _) = RunFolder::open(&desk.path().join(document["run"].as_str().unwrap())).unwrap();
    let (spans, _) = SpanLog::read(&folder.spans_path()).unwrap();
    let (mut records, _) = folder.records().unwrap();
    let mut rows = Vec::new();
    records
        .visit(|some| {
            rows.extend(some.iter().filter(|row| row.phase == Phase::Measure).copied());
            Ok::<(), record::FolderError>(())
        })
        .unwrap();
    let followed: HashSet<u64> = spans.spans().iter().map(|span| span.request).collect();
    let ours = rows.iter().filter(|row| followed.contains(&row.request.into()));
    let times: Vec<_> = ours.map(|row| (row.request.into(), row.intended, row.completed)).collect();
    assert_eq!(times.len() as f64, number("joined"));
    spans.check(times).unwrap();

    let explained = desk.arraylab(&["explain", document["run"].as_str().unwrap(), "--json"]).json();
    let phases = explained["timeline"][0]["phases"].as_array().unwrap();
    let names: Vec<&str> = phases.iter().map(|phase| phase["phase"].as_str().unwrap()).collect();
    let [before, ring, submit, scheduler, device_, _, _, _, posted, seen] = live_phases::ALL;
    assert_eq!(names, [before, ring, submit, scheduler, device_, posted, seen], "{phases:#?}");
    let mean = |phase: &Value| phase["mean_ns"].as_f64().unwrap();
    let sum: f64 = phases.iter().map(mean).sum();
    let whole = explained["devices"][0]["wait_mean_ns"].as_f64().unwrap()
        + explained["devices"][0]["service_mean_ns"].as_f64().unwrap();
    assert!((sum / whole - 1.0).abs() < 0.02, "{sum} ns in all phases, {whole} ns by the rows");
    // A live device with requests all the time is no part that does one thing at a time.
    assert_eq!((explained["parts"].as_array().unwrap().len(), explained["ladder"].as_array().unwrap().len()), (0, 0));
    let text = desk.arraylab(&["explain", document["run"].as_str().unwrap()]).stdout;
    assert!(text.contains("The way through the kernel") && text.contains("kernel timeline: "), "{text}");
}

#[test]
fn what_cannot_be_followed_is_said_and_the_run_goes_on() {
    let desk = Desk::new(READS);
    desk.file("data.bin", 4 << 20);
    let mut buffered = vec!["run", "load.toml", "--on", "data.bin", "--trace", "--set", "io.mode=buffered"];
    let said = desk.arraylab(&buffered);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("not traced: none of the devices"), "{}", said.stderr);
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return skip("there is no /dev/shm") };
    let path = memory.path().join("data.bin");
    std::fs::copy(desk.path().join("data.bin"), &path).unwrap();
    buffered[3] = path.to_str().unwrap();
    let said = desk.arraylab(&buffered);
    assert_eq!(said.code, 0, "{}", said.stderr);
    for line in ["its file system is on no single block device", "not traced: none of the devices"] {
        assert!(said.stdout.contains(line), "{}", said.stdout);
    }
}

#[test]
fn requests_to_a_file_are_followed_by_its_extents() {
    let desk = Desk::new(READS);
    desk.file("data.bin", 16 << 20);
    let Some(said) = traced(&desk, &["run", "load.toml", "--on", "data.bin", "--trace", "--json"]) else { return };
    assert_eq!(said.code, 0, "{}", said.stderr);
    let document = said.json();
    if said.stderr.contains("not traced") {
        return skip(&said.stderr);
    }
    let number = |key: &str| document["timeline"][key].as_f64().unwrap();
    // Where two extents meet a request may lie in both.
    assert!(number("requests") > 100.0 && number("joined") >= 0.95 * number("requests"), "{document:#}");
    let explained = desk.arraylab(&["explain", document["run"].as_str().unwrap(), "--json"]).json();
    assert_eq!(explained["timeline"][0]["part"], "data.bin");
    assert!(explained["timeline"][0]["phases"].as_array().unwrap().len() >= 4, "{explained:#}");
}

#[test]
fn what_a_loop_device_asks_of_its_disk_is_part_of_the_way() {
    let desk = Desk::new(READS);
    let backing = desk.file("backing", 32 << 20);
    let Some(device) = Loop::over(&backing) else { return };
    let direct = Command::new("losetup").args(["--direct-io=on", &device.node]).status();
    if !direct.is_ok_and(|status| status.success()) {
        return skip("the file system of the desk takes no direct I/O");
    }
    let Some(said) = traced(&desk, &["run", "load.toml", "--on", &device.node, "--trace", "--json"]) else { return };
    assert_eq!(said.code, 0, "{}", said.stderr);
    let document = said.json();
    let number = |key: &str| document["timeline"][key].as_f64().unwrap();
    let extents = host::tracefs::Extents::of(&backing);
    let on_disk = host::tracefs::TracedDisk::find(&host::Kernel::running(), &backing);
    let (Ok(_), Some(disk)) = (extents, on_disk) else { return skip("the desk is on no single block device") };
    // Where two extents of the backing file meet, a request may lie in both.
    assert!(number("joined") > 100.0 && number("below") >= 0.95 * number("joined"), "{document:#}");
    let run = document["run"].as_str().unwrap();
    let explained = desk.arraylab(&["explain", run, "--json"]).json();
    let phases = |part: &str| -> Vec<String> {
        let part = explained["timeline"].as_array().unwrap().iter().find(|one| one["part"] == part);
        let phases = part.unwrap_or_else(|| panic!("{explained:#}"))["phases"].as_array().unwrap();
        phases.iter().map(|phase| phase["phase"].as_str().unwrap().to_owned()).collect()
    };
    let [before, _, submit, scheduler, device_, _, down, back, _, seen] = live_phases::ALL;
    let above = phases(&device.node);
    assert!([before, submit, scheduler, down, back, seen].iter().all(|phase| above.iter().any(|one| one == phase)));
    assert_eq!(phases(&disk.name(&host::Kernel::running())), [scheduler, device_]);
    // They still tile the time of each request.
    let (folder, _) = RunFolder::open(&desk.path().join(run)).unwrap();
    let (spans, _) = SpanLog::read(&folder.spans_path()).unwrap();
    let (mut records, _) = folder.records().unwrap();
    let followed: HashSet<u64> = spans.spans().iter().map(|span| span.request).collect();
    let mut times = Vec::new();
    records
        .visit(|rows| {
            let ours = rows.iter().filter(|row| row.phase == Phase::Measure && followed.contains(&row.request.into()));
            times.extend(ours.map(|row| (row.request.into(), row.intended, row.completed)));
            Ok::<(), record::FolderError>(())
        })
        .unwrap();
    spans.check(times).unwrap();
}

#[test]
fn in_virtual_time_there_is_nothing_to_trace() {
    let desk = Desk::new(&READS.replace("measure", "trace = true\nmeasure"));
    let said = desk.arraylab(&["run", "load.toml", "--on", "memory:1MiB"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(said.stderr.contains("leave out --trace (run.trace)"), "{}", said.stderr);
}
