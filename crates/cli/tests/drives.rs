//! `parts`, `systems`, `parts import` and `validate`: what they print for a drive that does not exist, and what they
//! refuse.
//!
//! The drive and its trace are those of `machine/tests/drive`.

mod common;

use std::path::{Path, PathBuf};

use common::{Desk, READS, Said};

const FILES: [&str; 4] = ["example.diskspecs", "example.model", "example.seek", "example.trace"];

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../machine/tests/drive").join(name)
}

/// A desk on which the drive's files lie.
fn desk() -> Desk {
    let desk = Desk::new(READS);
    for name in FILES {
        std::fs::copy(source(name), desk.path().join(name)).unwrap();
    }
    desk
}

/// A desk with one text replaced in one of the files.
fn desk_with(name: &str, from: &str, to: &str) -> Desk {
    let desk = desk();
    let text = std::fs::read_to_string(source(name)).unwrap();
    assert!(text.contains(from), "{name} has '{from}'");
    desk.write(name, &text.replacen(from, to, 1));
    desk
}

fn done(said: Said) -> Said {
    assert_eq!(said.code, 0, "{}", said.stderr);
    said
}

fn refused(said: &Said, code: i32, message: &str) {
    assert_eq!((said.stdout.as_str(), said.code), ("", code), "{}", said.stderr);
    assert_eq!(said.stderr.trim_end(), format!("error: {message}"));
}

const IMPORT: [&str; 3] = ["parts", "import", "example.diskspecs"];
const VALIDATE: [&str; 5] = ["validate", "--drive", "example.diskspecs", "--trace", "example.trace"];

#[test]
fn an_imported_part_is_the_same_on_stdout_in_a_file_and_when_read_again() {
    let desk = desk();
    let printed = done(desk.arraylab(&IMPORT));
    assert_eq!(done(desk.arraylab(&[&IMPORT[..], &["-o", "part.toml"]].concat())).stdout, "");
    assert_eq!(std::fs::read_to_string(desk.path().join("part.toml")).unwrap(), printed.stdout);
    let shown = done(desk.arraylab(&["parts", "part.toml", "--json"])).json();
    let imported = done(desk.arraylab(&[&IMPORT[..], &["--json"]].concat())).json();
    assert_eq!(shown["values"], imported["values"]);
    assert!(imported["notes"].is_array());
    let values = shown["values"].as_array().unwrap();
    assert!(values.len() > 80 && values.iter().all(|value| !value["source"].as_str().unwrap().is_empty()));
    let speed = values.iter().find(|value| value["path"] == "rotation.speed").unwrap();
    assert!(speed["source"].as_str().unwrap().starts_with("example.model line "), "{speed}");
}

#[test]
fn model_and_seek_file_can_lie_elsewhere() {
    let desk = desk();
    std::fs::create_dir(desk.path().join("elsewhere")).unwrap();
    let part = done(desk.arraylab(&IMPORT)).stdout;
    for name in ["example.model", "example.seek"] {
        std::fs::rename(desk.path().join(name), desk.path().join("elsewhere").join(name)).unwrap();
    }
    let lost = desk.arraylab(&IMPORT);
    refused(
        &lost,
        2,
        "example.diskspecs:3: the file that is named here cannot be read: example.model: No such file or directory (os error 2); \
         give its path with --model",
    );
    // The seek file is looked for beside the model.
    let found = done(desk.arraylab(&[&IMPORT[..], &["--model", "elsewhere/example.model"]].concat()));
    assert_eq!(found.stdout, part);
}

#[test]
fn a_validation_keeps_its_contract() {
    let desk = desk();
    let said = done(desk.arraylab(&[&VALIDATE[..], &["--json", "--svg", "curves.svg"]].concat()));
    let document = said.json();
    assert_eq!(document["drive"], "example.diskspecs");
    assert_eq!((&document["trace"], &document["requests"]), (&"example.trace".into(), &3.into()));
    for value in ["pooled", "reads", "writes"] {
        assert!(document["demerit_ms"][value].as_f64().unwrap() > 0.0, "{value}");
    }
    for value in ["mean_error", "rms_error_ms", "correlation"] {
        assert!(document[value].is_number(), "{value}");
    }
    assert_eq!(document["worst"].as_array().unwrap().len(), 3);
    let svg = std::fs::read_to_string(desk.path().join("curves.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.matches("modelled").count() == 3);
}

#[test]
fn a_trace_without_writes_has_no_demerit_of_writes() {
    let desk = desk();
    desk.write("example.trace", "# one request\n\nR Hit 40008 8 930.1 0\n");
    let document = done(desk.arraylab(&[&VALIDATE[..], &["--json"]].concat())).json();
    assert!(document["demerit_ms"]["writes"].is_null() && document["correlation"].is_null());
    assert_eq!(document["worst"][0]["line"], 3);
    assert!(done(desk.arraylab(&VALIDATE)).stdout.contains("\nreads "));
}

#[test]
fn a_block_beyond_the_drive_is_refused_with_its_line() {
    let desk = desk_with("example.trace", "R Hit 40008", "R Hit 56099");
    let message = "example.trace:2: blocks 56099 to 56106 do not all exist; the drive has blocks 0 to 56099";
    refused(&desk.arraylab(&VALIDATE), 2, message);
}

#[test]
fn overlapping_zones_are_refused_with_their_line() {
    let desk = desk_with("example.model", "First cylinder number = 100", "First cylinder number = 50");
    let message = "example.model:38: zone.1: zone 1 is from cylinder 50 to 219, but zones must not overlap and the one before ends at 99";
    refused(&desk.arraylab(&IMPORT), 2, message);
    refused(&desk.arraylab(&VALIDATE), 2, message);
}

#[test]
fn a_truncated_drive_file_says_so() {
    let desk = desk();
    let text = std::fs::read_to_string(source("example.diskspecs")).unwrap();
    desk.write("example.diskspecs", &text[..text.len() / 2]);
    let said = desk.arraylab(&IMPORT);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    assert!(
        said.stderr.starts_with("error: example.diskspecs:") && said.stderr.contains("truncated"),
        "{}",
        said.stderr
    );
}

#[test]
fn what_is_not_there_or_of_another_kind_is_said() {
    let desk = desk();
    let with = |drive: &str, trace: &str| desk.arraylab(&["validate", "--drive", drive, "--trace", trace]);
    refused(&with("gone.diskspecs", "x"), 2, "gone.diskspecs: cannot be read: No such file or directory (os error 2)");
    refused(&with("example.diskspecs", "gone"), 2, "gone: cannot be read: No such file or directory (os error 2)");
    refused(
        &with("vme", "example.trace"),
        2,
        "parts/vme.toml:1:1: kind: this is a part of kind 'backplane', but one of kind 'disk' is wanted here",
    );
    let unknown = with("wren-v", "example.trace").stderr;
    assert!(unknown.contains("there is no part 'wren-v', and no file of that path"), "{unknown}");
    refused(
        &desk.arraylab(&[&IMPORT[..], &["-o", "no/such/part.toml"]].concat()),
        3,
        "no/such/part.toml: cannot be written: No such file or directory (os error 2); \
         name a file in a folder that exists and that you may write to",
    );
}

#[test]
fn a_part_of_ones_own_is_a_device_for_a_workload() {
    let desk = desk();
    done(desk.arraylab(&[&IMPORT[..], &["-o", "part.toml"]].concat()));
    let run = |on: &str| desk.arraylab(&["run", "load.toml", "--on", on, "--json"]);
    let document = done(run("part:part.toml")).json();
    // 7200 rpm: no more than a request in each quarter of a turn, however the queue is ordered.
    let rate = document["total"]["iops"].as_f64().unwrap();
    assert!(rate > 50.0 && rate < 480.0, "{rate}");
    for (on, says) in [
        ("part:wren-v", "there is no part 'wren-v', and no file of that path"),
        ("part:vme", "this is a part of kind 'backplane', but one of kind 'disk' or 'flash' is wanted here"),
    ] {
        let said = run(on);
        assert!(said.code == 2 && said.stderr.contains(says), "{}", said.stderr);
    }
}

#[test]
fn parts_and_systems_are_listed_and_shown() {
    let desk = desk();
    let all = done(desk.arraylab(&["parts", "--json"])).json();
    let names: Vec<&str> = all.as_array().unwrap().iter().map(|part| part["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"wren-iv") && names.contains(&"jaguar"), "{names:?}");
    let text = done(desk.arraylab(&["parts"])).stdout;
    assert!(names.iter().all(|name| text.contains(name)));
    let system = done(desk.arraylab(&["systems", "raid-i"])).stdout;
    assert!(system.starts_with("RAID the First (system; ") && system.contains("node.4.name"), "{system}");
    let other = desk.arraylab(&["systems", "wren-iv"]);
    assert!(
        other.code == 2
            && other.stderr.contains("systems that come with the program: max, nfs-10g, nfs-10g-peer, nvme-24, raid-i"),
        "{}",
        other.stderr
    );
}
