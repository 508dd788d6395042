//! Traces replayed, and the programs of the studies.

mod common;

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use common::{Desk, Loop, of, signal, wait_for};
use serde_json::Value;

/// Two devices, a read and a write on each, in SPC's format.
const SPC: &str = "0,0,4096,R,0.000\n1,8,4096,W,0.010\n0,16,8192,R,0.020\n1,1024,4096,R,0.030\n";

fn document(desk: &Desk, words: &[&str]) -> Value {
    let said = desk.arraylab(words);
    assert_eq!(said.code, 0, "{words:?}: {}", said.stderr);
    said.json()
}

#[test]
fn a_trace_is_replayed_on_a_modelled_device_at_its_own_times() {
    let desk = Desk::new("");
    desk.write("trace.csv", SPC);
    let at = |words: &[&str]| {
        let all = [&["replay", "trace.csv", "--on", "memory:64MiB:100us", "--json"], words].concat();
        document(&desk, &all)
    };
    let plain = at(&[]);
    assert_eq!(plain["total"]["requests"], 4);
    assert_eq!(plain["replay"]["length_ns"], 30_000_000);
    assert_eq!((&plain["replay"]["on_time_share"], &plain["replay"]["lateness_ns"]["max"]), (&1.0.into(), &0.into()));
    assert_eq!(plain["replay"]["devices"][1]["name"], "1");
    // The last completes 100 us after 30 ms; at twice the speed after 15 ms; as fast as possible, all at once.
    let seconds = |document: &Value| document["total"]["seconds"].as_f64().unwrap();
    assert!((seconds(&plain) - 0.0301).abs() < 1e-6, "{plain}");
    assert!((seconds(&at(&["--speed", "2"])) - 0.0151).abs() < 1e-6);
    assert!((seconds(&at(&["--as-fast-as-possible"])) - 0.0001).abs() < 1e-6);
}

#[test]
fn each_device_of_the_trace_may_have_its_own() {
    let desk = Desk::new("");
    desk.write("trace.csv", SPC);
    let on = "memory:64MiB:100us,memory:64MiB:200us";
    let document = document(&desk, &["replay", "trace.csv", "--on", on, "--json"]);
    let mean = |device: usize| document["devices"][device]["latency_ns"]["mean"].as_u64().unwrap();
    assert_eq!((mean(0), mean(1)), (100_000, 200_000));
    let said = desk.arraylab(&["replay", "trace.csv", "--on", &format!("{on},memory:1MiB")]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("2 devices (0, 1), and 3 are given"), "{}", said.stderr);
}

#[test]
fn a_run_is_a_trace_too() {
    let desk = Desk::new(common::READS);
    let on = ["--on", "memory:64MiB:100us", "--json"];
    let first = document(&desk, &[&["run", "load.toml"][..], &on].concat());
    let folder = first["run"].as_str().unwrap();
    let again = document(&desk, &[&["replay", folder][..], &on].concat());
    assert_eq!(again["total"]["requests"], first["total"]["requests"]);
    assert_eq!(again["total"]["bytes"], first["total"]["bytes"]);
}

#[test]
fn what_does_not_fit_is_said_and_can_be_made_to_fit() {
    let desk = Desk::new("");
    desk.write("trace.csv", &SPC.replace("1024", "10240000"));
    let said = desk.arraylab(&["replay", "trace.csv", "--on", "memory:1MiB:1us"]);
    assert_eq!(said.code, 2);
    assert!(
        said.stderr.contains("1 requests of the trace lie beyond the end") && said.stderr.contains("--wrap"),
        "{}",
        said.stderr
    );
    let wrapped =
        document(&desk, &["replay", "trace.csv", "--on", "memory:1MiB:1us", "--wrap", "--block", "16KiB", "--json"]);
    assert_eq!((&wrapped["replay"]["wrapped"], &wrapped["replay"]["rounded"]), (&1.into(), &4.into()));
}

#[test]
fn a_trace_that_writes_asks_first() {
    let desk = Desk::new("");
    desk.write("trace.csv", SPC);
    let file = desk.file("data.bin", 1 << 20);
    let before = std::fs::read(&file).unwrap();
    let said = desk.arraylab(&["replay", "trace.csv", "--on", "data.bin", "--buffered"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("--destroy-data"), "{}", said.stderr);
    assert!(std::fs::read(&file).unwrap() == before);
    let words = ["replay", "trace.csv", "--on", "data.bin", "--buffered", "--destroy-data", "--json"];
    assert_eq!(document(&desk, &words)["total"]["requests"], 4);
}

#[test]
fn a_trace_that_is_none_is_refused_with_its_line() {
    let desk = Desk::new("");
    desk.write("trace.csv", &format!("{SPC}0,x,4096,R,1\n"));
    let said = desk.arraylab(&["replay", "trace.csv", "--on", "memory:1MiB"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("trace.csv:5: '0,x,4096,R,1' is no request"), "{}", said.stderr);
}

#[test]
fn xdd_prints_a_line_for_each_pass_and_target_and_its_time_stamps() {
    let desk = Desk::new("");
    let words = "xdd -op read -targets 2 memory:64MiB:100us memory:64MiB:200us -reqsize 64 -numreqs 50 -passes 3 -ts output stamps.txt";
    let said = desk.arraylab(&words.split_whitespace().collect::<Vec<_>>());
    assert_eq!(said.code, 0, "{}", said.stderr);
    let lines = |word: &str| said.stdout.lines().filter(|line| line.starts_with(word)).count();
    assert_eq!((lines("TARGET_PASS"), lines("TARGET_AVERAGE"), lines("COMBINED")), (6, 2, 1), "{}", said.stdout);
    // 64 KiB in 100 us is 655 MB/s in every pass: average, high and low.
    let max = said.stdout.lines().find(|line| line.starts_with("memory:64MiB:100us")).unwrap();
    assert_eq!(
        max.split_whitespace().collect::<Vec<_>>()[1..6],
        ["64", "655.360", "655.360", "655.360", "150"],
        "{max}"
    );
    let stamps = std::fs::read_to_string(desk.path().join("stamps.txt")).unwrap();
    assert!(
        stamps.starts_with(
            "# request size in 1024-byte blocks: 64\n# resolution of the time stamps: 1 ns\n# entries: 300\n"
        ),
        "{stamps}"
    );
    assert_eq!(stamps.lines().filter(|line| !line.starts_with('#')).count(), 300);
}

#[test]
fn xdd_refuses_what_it_does_not_know_and_targets_that_carry_data() {
    let desk = Desk::new("");
    desk.file("data.bin", 1 << 20);
    let said = desk.arraylab(&["xdd", "-op", "eat"]);
    assert!(said.code == 2 && said.stderr.contains("write read or write"), "{}", said.stderr);
    let said = desk.arraylab(&["xdd", "-op", "write", "-targets", "1", "data.bin", "-numreqs", "1", "-reqsize", "4"]);
    assert!(said.code == 2 && said.stderr.contains("--destroy-data"), "{}", said.stderr);
    // Found out before the load, and not after it.
    let words = "xdd -op read -targets 1 memory:64MiB -numreqs 1 -ts output gone/stamps.txt";
    let said = desk.arraylab(&words.split_whitespace().collect::<Vec<_>>());
    assert!(said.code == 3 && said.stderr.contains("gone/stamps.txt: cannot be written"), "{}", said.stderr);
    assert!(!desk.path().join("runs").exists(), "nothing ran");
}

#[test]
fn time_stamps_are_not_written_over_a_disk() {
    let desk = Desk::new("");
    desk.file("disk.bin", 1 << 20);
    let Some(device) = Loop::over(&desk.path().join("disk.bin")) else { return };
    let words = format!("xdd -op read -targets 1 memory:64MiB -numreqs 1 -ts output {}", device.node);
    let said = desk.arraylab(&words.split_whitespace().collect::<Vec<_>>());
    assert!(
        said.code == 2 && said.stderr.contains("is a block device, and a result goes to a file"),
        "{}",
        said.stderr
    );
}

#[test]
fn the_four_programs_run_in_any_directory_and_leave_nothing() {
    let desk = Desk::new("");
    std::fs::create_dir(desk.path().join("mnt")).unwrap();
    let document = document(&desk, &["bsd", "mnt", "--json"]);
    let programs: Vec<&str> =
        document["programs"].as_array().unwrap().iter().map(|program| program["program"].as_str().unwrap()).collect();
    assert_eq!(programs, ["read_8192", "write_4096", "write_8192", "rewrite_8192"]);
    for program in document["programs"].as_array().unwrap() {
        let runs = program["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 2, "the first of three is not shown");
        for run in runs {
            let (rate, seconds) = (run["bandwidth_bytes_per_s"].as_f64().unwrap(), run["seconds"].as_f64().unwrap());
            assert!((rate * seconds / 1024.0 - 8192.0).abs() < 1.0, "8 MiB: {run}");
        }
    }
    assert_eq!(std::fs::read_dir(desk.path().join("mnt")).unwrap().count(), 0);
    let said = desk.arraylab(&["bsd", "nowhere"]);
    assert!(said.code == 2 && said.stderr.contains("name a directory"), "{}", said.stderr);
}

/// A desk with these directories, all empty.
fn directories(names: &[&str]) -> Desk {
    let desk = Desk::new("");
    names.iter().for_each(|name| std::fs::create_dir(desk.path().join(name)).unwrap());
    desk
}

fn nothing_left(desk: &Desk, names: &[&str]) {
    for name in names {
        let left: Vec<_> = std::fs::read_dir(desk.path().join(name)).unwrap().map(|entry| entry.unwrap()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn the_four_programs_in_one_directory_print_what_they_did_before_there_could_be_two() {
    let desk = directories(&["a"]);
    let said = desk.arraylab(&["bsd", "a", "--json"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let document = said.json();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&document), ["bytes", "cold", "directory", "programs", "sync"]);
    assert_eq!(document["directory"], "a");
    assert_eq!(keys(&document["programs"][0]["runs"][0]), ["bandwidth_bytes_per_s", "cpu_percent", "seconds"]);
    let text = desk.arraylab(&["bsd", "a"]).stdout;
    assert!(text.lines().next().unwrap().contains("run 3 Kbytes/sec") && !text.contains("both"), "{text}");
}

#[test]
fn the_four_programs_run_in_two_directories_at_once_and_print_the_sum() {
    let desk = directories(&["a", "b"]);
    let said = desk.arraylab(&["bsd", "a", "b", "--json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.starts_with("warning: a and b lie on the same device"), "{}", said.stderr);
    assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    let document = said.json();
    assert_eq!(document["directories"], serde_json::json!(["a", "b"]));
    let number = |run: &Value, key: &str| run[key].as_f64().unwrap();
    let bytes = |run: &Value| number(run, "bandwidth_bytes_per_s") * number(run, "seconds");
    let used = |run: &Value| number(run, "cpu_percent") * number(run, "seconds");
    let programs = document["programs"].as_array().unwrap();
    assert_eq!(programs.len(), 4);
    for run in programs.iter().flat_map(|program| program["runs"].as_array().unwrap()) {
        let each = run["each"].as_array().unwrap();
        assert_eq!((&each[0]["directory"], &each[1]["directory"], each.len()), (&"a".into(), &"b".into(), 2));
        assert!((bytes(run) / 1024.0 - 16384.0).abs() < 1.0, "8 MiB of each: {run}");
        let (mut busy, mut longest) = (0.0, 0.0_f64);
        for program in each {
            assert!((bytes(program) / 1024.0 - 8192.0).abs() < 1.0, "8 MiB: {program}");
            busy += used(program);
            longest = longest.max(number(program, "seconds"));
        }
        let seconds = number(run, "seconds");
        assert!(seconds >= longest, "until the later one ended: {run}");
        assert!((used(run) - busy).abs() < 1e-3 * busy.max(1e-3), "the CPU time of both: {run}");
    }
    nothing_left(&desk, &["a", "b"]);
    let text = desk.arraylab(&["bsd", "a", "b", "--cold", "--sync"]).stdout;
    assert!(text.contains("both programs together, until the later one ended"), "{text}");
}

#[test]
fn the_same_directory_twice_is_warned_of_and_two_devices_are_not() {
    let desk = directories(&["a"]);
    let said = desk.arraylab(&["bsd", "a", "./a"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.starts_with("warning: a and ./a are the same directory"), "{}", said.stderr);
    nothing_left(&desk, &["a"]);
    // A file system in memory, where there is one.
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return common::skip("/dev/shm is missing") };
    let device = |path: &Path| std::fs::metadata(path).unwrap().dev();
    if device(memory.path()) == device(desk.path()) {
        return common::skip("/dev/shm is no file system of its own");
    }
    let said = desk.arraylab(&["bsd", "a", memory.path().to_str().unwrap()]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    assert_eq!(std::fs::read_dir(memory.path()).unwrap().count(), 0);
    nothing_left(&desk, &["a"]);
}

#[test]
fn a_directory_that_the_programs_cannot_use_is_refused_by_name_and_nothing_is_left() {
    let desk = directories(&["a"]);
    desk.file("data.bin", 1 << 10);
    // Nobody can make a file in /proc, not even root.
    for bad in ["nowhere", "data.bin", "/proc"] {
        for words in [&["bsd", bad][..], &["bsd", "a", bad], &["bsd", bad, "a"]] {
            let said = desk.arraylab(words);
            assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{words:?}");
            assert!(said.stderr.starts_with(&format!("error: {bad}: ")), "{words:?}: {}", said.stderr);
            assert!(said.stderr.ends_with("; name a directory that can be written\n"), "{words:?}: {}", said.stderr);
            assert_eq!(said.stderr.lines().count(), 1, "{words:?}: {}", said.stderr);
            nothing_left(&desk, &["a"]);
        }
    }
    assert!(!desk.path().join("nowhere").exists());
    let said = desk.arraylab(&["bsd", "a", "a", "a"]);
    assert!(said.code == 2 && said.stderr.contains("unexpected argument"), "{}", said.stderr);
}

#[test]
fn a_path_that_is_not_utf_8_has_a_document() {
    let desk = Desk::new("");
    let name = std::ffi::OsStr::from_bytes(b"a\xff");
    std::fs::create_dir(desk.path().join(name)).unwrap();
    let said = common::said({
        let mut command = desk.command(&["bsd", "--json"]);
        command.arg(name);
        command
    });
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    assert_eq!(said.json()["directory"], "a\u{fffd}");
}

#[test]
fn the_four_programs_that_are_interrupted_leave_nothing() {
    for signals in [&["INT"][..], &["TERM"], &["INT", "INT"]] {
        for second in [None, Some("b")] {
            let desk = directories(&["a", "b"]);
            let words = ["bsd", "a", "--size", "32MiB", "--repeats", "1000"];
            let child = desk.start(&[&words[..], second.as_slice()].concat());
            let mut files = vec![desk.path().join(format!("a/arraylab-bsd-{}", child.id()))];
            files.extend(second.map(|b| desk.path().join(format!("{b}/arraylab-bsd-{}-2", child.id()))));
            wait_for("the files", || files.iter().all(|file| file.metadata().is_ok_and(|about| about.len() > 0)));
            for name in signals {
                signal(&child, name);
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            let said = of(child.wait_with_output().unwrap());
            let end = if second.is_some() { "their files are removed" } else { "their file is removed" };
            // The second Ctrl-C may come when the first has done its work already.
            let at_once = said.code == 130 && signals.len() > 1;
            assert!(at_once || said.code == 3 && said.stderr.contains(end), "{signals:?}: {said:?}");
            nothing_left(&desk, &["a", "b"]);
        }
    }
}
