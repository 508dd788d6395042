//! Runs that do not come to their end, by Ctrl-C or by an I/O error, keep what was done and say so.

mod common;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Desk, Loop, READS, damaged, has_thread, is_kept, of, said, signal, wait_for};

const MIB: usize = 1 << 20;

/// Ctrl-C when the run has been on for 300 ms.
fn interrupted(desk: &Desk, on: &str) {
    let child = desk.start(&["run", "load.toml", "--on", on, "--json", "--set", "run.measure=20s"]);
    // Under the virtual clock the main thread makes it, as soon as the keeper of the records is there.
    let thread = if on.starts_with("memory:") { "keeper" } else { "load-0" };
    wait_for("the load", || has_thread(child.id(), thread));
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, "INT");
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
    assert_eq!(is_kept(desk, &document, "interrupted")["total"], document["total"]);
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
    assert_eq!(is_kept(&desk, &document, "interrupted")["total"], document["total"]);
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
    assert_eq!(is_kept(&desk, &document, "complete")["total"], document["total"]);
}

/// The second point asks for more than the device has; the third is not tried.
const TWO_GOOD_POINTS: &str =
    "\n[sweep]\n\"stream.readers.region.length\" = [\"1 MiB\", \"2 MiB\", \"1 GiB\", \"3 MiB\"]\n";

#[test]
fn an_error_at_a_later_point_of_a_sweep_keeps_the_points_before() {
    let desk = Desk::new(&format!("{READS}{TWO_GOOD_POINTS}"));
    desk.file("data.bin", 4 * MIB);
    let why = "point 3 of 4, stream.readers.region.length = 1 GiB: stream 'readers' uses 1 GiB from 0 B, but data.bin ends at 4 MiB; shorten `region` or take a larger device";
    let said = desk.arraylab(&["run", "load.toml", "--on", "data.bin", "--json"]);
    assert_eq!((said.code, said.stderr.as_str()), (3, format!("error: {why}\n").as_str()));
    let document = said.json();
    assert_eq!(document["error"], why);
    let points = document["points"].as_array().unwrap();
    let lengths: Vec<_> = points.iter().map(|point| &point["settings"]["stream.readers.region.length"]).collect();
    assert_eq!(lengths, ["1 MiB", "2 MiB"]);
    for point in points {
        assert!(point["total"]["requests"].as_u64().unwrap() > 0);
        assert_eq!(is_kept(&desk, point, "complete")["total"], point["total"]);
    }
    let folders = std::fs::read_dir(desk.path().join("runs")).unwrap().count();
    assert_eq!(folders, 3, "of two points and of their sweep, none of the point that did not run");
    let explained = desk.arraylab(&["explain", document["sweep"].as_str().unwrap()]);
    assert_eq!(explained.code, 0, "{}", explained.stderr);
    let one_line = explained.stdout.replace("\n  ", " ");
    assert!(one_line.contains("the sweep was ended early: 2 of its 4 points were run"), "{one_line}");
    assert!(one_line.contains(&format!("it was ended by an error: {why}")), "{one_line}");
    let text = desk.arraylab(&["run", "load.toml", "--on", "data.bin"]);
    assert_eq!(text.code, 3);
    assert!(text.stdout.contains("\n1 MiB") && text.stdout.contains("\n2 MiB"), "{}", text.stdout);
}

/// At the first point nothing was done, and the user can mend it.
#[test]
fn an_error_at_the_first_point_of_a_sweep_is_bad_input_and_names_it() {
    let desk = Desk::new(&format!("{READS}{TWO_GOOD_POINTS}"));
    desk.file("data.bin", MIB / 2);
    let said = desk.arraylab(&["run", "load.toml", "--on", "data.bin", "--json"]);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    assert!(
        said.stderr.starts_with("error: point 1 of 4, stream.readers.region.length = 1 MiB: stream"),
        "{}",
        said.stderr
    );
}

/// Nothing that a survey made itself is left of it.
fn no_files_left(desk: &Desk) {
    let names = std::fs::read_dir(desk.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("arraylab-survey-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn ctrl_c_ends_a_survey_and_keeps_what_was_measured() {
    let desk = Desk::new(READS);
    let child = desk.start(&["survey", "--files", "2", "--size", "16MiB", "--time", "5min", "--json"]);
    wait_for("the load", || has_thread(child.id(), "load-0"));
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, "INT");
    let asked = Instant::now();
    let said = of(child.wait_with_output().unwrap());
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    assert_eq!(said.code, 3, "{}", said.stderr);
    assert_eq!(said.stderr, "ending the run; what was recorded is kept (Ctrl-C again: end at once)\n");
    let document = said.json();
    assert_eq!(document["interrupted"], true);
    assert!(document["remarks"].to_string().contains("cut short"));
    for list in ["levels", "verdicts", "ladder"] {
        assert!(document[list].is_array(), "{list}");
    }
    is_kept(&desk, &document, "interrupted");
    no_files_left(&desk);
}

/// By Ctrl-C, by `kill`, by a terminal that is closed; and by two Ctrl-C in a row.
#[test]
fn a_survey_that_is_ended_while_it_makes_its_files_removes_them() {
    for signals in [&["INT"][..], &["TERM"], &["HUP"], &["INT", "INT"]] {
        let desk = Desk::new(READS);
        let child = desk.start(&["survey", "--size", "64MiB", "--time", "5min"]);
        let first = desk.path().join(format!("arraylab-survey-{}-0", child.id()));
        wait_for("the first file", || first.exists());
        for name in signals {
            signal(&child, name);
            std::thread::sleep(Duration::from_millis(20));
        }
        let asked = Instant::now();
        let said = of(child.wait_with_output().unwrap());
        assert!(asked.elapsed() < Duration::from_secs(10), "{signals:?}: {:?}", asked.elapsed());
        // The second Ctrl-C may come when the first has done its work already.
        assert!(said.code == 3 || said.code == 130 && signals.len() > 1, "{signals:?}: {} {}", said.code, said.stderr);
        no_files_left(&desk);
    }
}

#[test]
fn an_io_error_ends_a_survey_and_keeps_what_was_measured_before() {
    let desk = Desk::new(READS);
    let whole = desk.file("whole", 32 * MIB);
    let (Some(good), Some(bad)) = (Loop::over(&whole), damaged(&desk)) else { return };
    let said = desk.arraylab(&["survey", &good.node, &bad.node, "--time", "1s", "--json"]);
    assert_eq!(said.code, 3, "{}{}", said.stderr, said.stdout);
    assert!(said.stderr.starts_with(&format!("error: {}: ", bad.node)), "{}", said.stderr);
    let document = said.json();
    let levels = document["levels"].as_array().unwrap();
    let names: Vec<_> = levels.iter().map(|level| level["name"].as_str().unwrap()).collect();
    assert_eq!(names, [good.node.as_str()], "the device that was measured before the other failed");
    assert!(levels[0]["raw"]["bandwidth_bytes_per_s"].as_f64().unwrap() > 0.0);
    assert_eq!(document["verdicts"], serde_json::json!([]));
    assert_eq!(is_kept(&desk, &document, "interrupted")["levels"], document["levels"]);
    let text = desk.arraylab(&["survey", &good.node, &bad.node, "--time", "1s"]);
    assert_eq!(text.code, 3);
    assert!(text.stdout.contains("No verdict and no ladder") && text.stdout.contains("cut short"), "{}", text.stdout);
}

#[test]
fn results_that_cannot_be_printed_are_the_worlds_failure_and_a_reader_who_left_is_none() {
    let desk = Desk::new(READS);
    let words = ["run", "load.toml", "--on", "memory:1MiB"];
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = desk.command(&words).stdout(Stdio::from(full)).stderr(Stdio::piped()).output().unwrap();
    let said_full = of(output);
    assert_eq!(said_full.code, 3, "{}", said_full.stderr);
    assert!(
        said_full.stderr.starts_with("error: the result cannot be printed: standard output: No space left"),
        "{}",
        said_full.stderr
    );
    let mut left = Command::new("sh");
    left.args(["-c", "\"$0\" run load.toml --on memory:1MiB | true", env!("CARGO_BIN_EXE_arraylab")]);
    left.current_dir(desk.path());
    assert_eq!(said(left).stderr, "");
}
