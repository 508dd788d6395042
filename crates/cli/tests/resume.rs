//! `arraylab run --resume`: a sweep that was ended early goes on, and is one sweep.

mod common;

use common::{Desk, READS};
use serde_json::Value;

const SWEEP: &str = "[sweep]\n\"stream.readers.depth\" = [1, 2, 4, 8]\n";
const WORDS: [&str; 6] = ["run", "sweep.toml", "--on", "memory:16MiB", "--runs", "kept"];

fn desk() -> Desk {
    let desk = Desk::new(READS);
    desk.write("sweep.toml", &format!("{READS}{SWEEP}"));
    desk
}

/// Leaves of a sweep what it would have left, had it been ended within its third point.
fn cut_short(desk: &Desk, folder: &str) {
    let path = desk.path().join(folder).join("sweep.json");
    let mut sweep: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    sweep["state"] = "interrupted".into();
    let points = sweep["points"].as_array_mut().unwrap();
    let last = points.pop().unwrap()["run"].as_str().unwrap().to_owned();
    let third = points[2]["run"].as_str().unwrap().to_owned();
    std::fs::write(&path, serde_json::to_vec(&sweep).unwrap()).unwrap();
    std::fs::remove_dir_all(desk.path().join("kept").join(last)).unwrap();
    let info = desk.path().join("kept").join(third).join("run.json");
    let said = std::fs::read_to_string(&info).unwrap().replace("\"complete\"", "\"interrupted\"");
    std::fs::write(info, said).unwrap();
}

#[test]
fn points_that_were_run_are_not_run_again() {
    let desk = desk();
    let whole = desk.arraylab(&[&WORDS[..], &["--json"]].concat());
    let whole = whole.json();
    let folder = whole["sweep"].as_str().unwrap().to_owned();
    cut_short(&desk, &folder);
    let resumed = desk.arraylab(&[&WORDS[..], &["--resume", &folder, "--json"]].concat());
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    let resumed = resumed.json();
    assert_eq!(resumed["sweep"], whole["sweep"], "it is one sweep");
    let runs = |document: &Value| -> Vec<String> {
        document["points"].as_array().unwrap().iter().map(|point| point["run"].as_str().unwrap().to_owned()).collect()
    };
    let (before, after) = (runs(&whole), runs(&resumed));
    assert_eq!((before.len(), after.len()), (4, 4));
    assert_eq!(before[..2], after[..2], "two were kept");
    assert!(after[2..].iter().all(|run| *run != before[2]), "the one that was not at its end was run anew");
    for (was, is) in whole["points"].as_array().unwrap().iter().zip(resumed["points"].as_array().unwrap()) {
        assert_eq!(was["total"], is["total"], "in virtual time the same comes out");
    }
    let index = std::fs::read_to_string(desk.path().join(&folder).join("sweep.json")).unwrap();
    let index: Value = serde_json::from_str(&index).unwrap();
    assert_eq!((index["state"].as_str(), index["points"].as_array().unwrap().len()), (Some("complete"), 4));
    // Now nothing is left to be run, and the table is whole all the same.
    let again = desk.arraylab(&[&WORDS[..], &["--resume", &folder]].concat());
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert!(again.stdout.contains("4 of 4 points were run before"), "{}", again.stdout);
    let table: Vec<&str> = again.stdout.lines().filter(|line| line.contains("MB/s")).collect();
    assert_eq!(table.len(), 4, "{}", again.stdout);
}

/// Its exit code was 1, and would be lost.
#[test]
fn a_point_in_which_something_was_wrong_is_run_again() {
    let desk = desk();
    let whole = desk.arraylab(&[&WORDS[..], &["--json"]].concat()).json();
    let folder = whole["sweep"].as_str().unwrap().to_owned();
    let summary = desk.path().join(whole["points"][1]["run"].as_str().unwrap()).join("summary.json");
    let mut said: Value = serde_json::from_slice(&std::fs::read(&summary).unwrap()).unwrap();
    for (key, value, before) in [
        ("verification", serde_json::json!([{ "device": "d", "findings": { "count": 0 } }]), 4),
        ("verification", serde_json::json!([{ "device": "d", "findings": { "count": 1 } }]), 1),
    ] {
        said[key] = value;
        std::fs::write(&summary, serde_json::to_vec(&said).unwrap()).unwrap();
        let again = desk.arraylab(&[&WORDS[..], &["--resume", &folder]].concat());
        assert_eq!(again.code, 0, "{}", again.stderr);
        let expected = format!("{before} of 4 points were run before");
        assert!(again.stdout.contains(&expected), "{expected}: {}", again.stdout);
    }
}

#[test]
fn a_sweep_goes_on_only_as_it_was_begun() {
    let desk = desk();
    let whole = desk.arraylab(&[&WORDS[..], &["--json"]].concat()).json();
    let folder = whole["sweep"].as_str().unwrap().to_owned();
    let run = whole["points"][0]["run"].as_str().unwrap().to_owned();
    let refused = |words: &[&str], why: &str| {
        let said = desk.arraylab(words);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{}", said.stderr);
        assert!(said.stderr.contains(why), "'{why}' in {}", said.stderr);
    };
    refused(
        &[&WORDS[..], &["--resume", &folder, "--set", "run.passes=2"]].concat(),
        "--set is not as when this sweep was begun",
    );
    let mut others = WORDS;
    others[3] = "memory:32MiB";
    refused(&[&others[..], &["--resume", &folder]].concat(), "the devices are not as when");
    refused(&[&WORDS[..], &["--resume", &run]].concat(), "the folder of no sweep");
    refused(&[&WORDS[..], &["--resume", "nowhere"]].concat(), "nowhere");
    refused(&["run", "load.toml", "--on", "memory:16MiB", "--resume", &folder], "--resume is of sweeps");
    refused(&[&WORDS[..], &["--resume", &folder, "--format", "fio-json"]].concat(), "--format has no place");
    desk.write("job.fio", "[a]\nrw=read\nsize=1m\n");
    refused(&["run", "job.fio", "--resume", &folder], "--resume is of sweeps");
    let index = desk.path().join(&folder).join("sweep.json");
    let said = std::fs::read_to_string(&index).unwrap();
    let sweep: Value = serde_json::from_str(&said).unwrap();
    let program = sweep["program"].as_str().unwrap();
    std::fs::write(&index, said.replace(program, "0.0.9-12345678")).unwrap();
    refused(&[&WORDS[..], &["--resume", &folder]].concat(), "another build");
    std::fs::write(&index, said).unwrap();
    desk.write("sweep.toml", &format!("{READS}{SWEEP}# changed\n"));
    refused(&[&WORDS[..], &["--resume", &folder]].concat(), "the experiment is not as when");
}
