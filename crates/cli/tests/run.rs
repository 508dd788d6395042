//! `arraylab run` where all is well: one experiment for every kind of device, one document, one folder.

mod common;

use std::path::Path;

use common::{Desk, Loop, READS};
use serde_json::Value;

const MIB: usize = 1 << 20;

/// The fields that scripts rely on.
fn keeps_the_contract(document: &Value) {
    let total = &document["total"];
    assert!(document["run"].is_string() && document["advice"].is_array(), "{document:#}");
    assert_eq!(document["streams"][0]["name"], "readers");
    for field in ["requests", "bytes", "seconds", "bandwidth_bytes_per_s", "iops", "errors"] {
        assert!(total[field].is_number(), "total.{field} in {document:#}");
    }
    for field in ["mean", "p50", "p90", "p99", "p999", "max"] {
        assert!(total["latency_ns"][field].as_u64().unwrap() > 0, "total.latency_ns.{field} in {document:#}");
    }
    let [requests, bytes] = ["requests", "bytes"].map(|field| total[field].as_u64().unwrap());
    assert!(requests > 0);
    assert_eq!(bytes, requests * 4096);
    assert_eq!((&total["errors"], &document["interrupted"]), (&Value::from(0), &Value::from(false)));
}

#[test]
fn one_experiment_runs_on_files_memory_and_loop_devices() {
    let desk = Desk::new(READS);
    let backing = desk.file("data.bin", 16 * MIB);
    let on = |target: &str| {
        let said = desk.arraylab(&["run", "load.toml", "--on", target, "--json"]);
        assert_eq!((said.code, &*said.stderr), (0, ""), "{target}: {}", said.stdout);
        keeps_the_contract(&said.json());
    };
    on("data.bin");
    on("memory:16MiB");
    on("memory:16MiB:50us,memory:16MiB");
    on("part:mg10-20tb,part:flash-nvme-3.84tb");
    on("null:16MiB");
    if let Some(device) = Loop::over(&backing) {
        on(&device.node);
    }
}

/// Reads of holes are answered by the file system from memory.
#[test]
fn a_file_of_holes_is_warned_of_and_not_surveyed() {
    let desk = Desk::new(READS);
    let file = std::fs::File::create(desk.path().join("holes.bin")).unwrap();
    file.set_len(32 * MIB as u64).unwrap();
    if host::hollow::Hollow::find(&desk.path().join("holes.bin")).unwrap().holes.is_zero() {
        eprintln!("skipped: the file system of {} does not know holes", desk.path().display());
        return;
    }
    let said = desk.arraylab(&["run", "load.toml", "--on", "holes.bin", "--json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.starts_with("warning: 100 % of holes.bin was never written"), "{}", said.stderr);
    let advice = said.json()["advice"].clone();
    assert!(advice.as_array().unwrap().iter().any(|advice| advice["kind"] == "holes"), "{advice:#}");
    let said = desk.arraylab(&["survey", "holes.bin", "--time", "1s"]);
    assert_eq!((said.code, &*said.stdout), (2, ""), "{}", said.stderr);
    assert!(said.stderr.contains("cp --sparse=never holes.bin holes.bin.filled"), "{}", said.stderr);
    // What it suggests can be surveyed.
    let copied = std::process::Command::new("cp")
        .args(["--sparse=never", "holes.bin", "holes.bin.filled"])
        .current_dir(desk.path())
        .status()
        .unwrap();
    assert!(copied.success());
    assert_eq!(desk.arraylab(&["survey", "holes.bin.filled", "--time", "1s"]).code, 0);
}

/// A survey of one device: the fields that scripts rely on, and a verdict on it.
#[test]
fn a_survey_keeps_the_contract() {
    let desk = Desk::new(READS);
    desk.file("data.bin", 32 * MIB);
    let said = desk.arraylab(&["survey", "data.bin", "data.bin", "--time", "1s", "--json"]);
    assert_eq!((said.code, &*said.stderr), (0, ""), "{}", said.stdout);
    let document = said.json();
    let levels = document["levels"].as_array().unwrap();
    assert_eq!(levels.len(), 1, "named twice, surveyed once");
    assert!(levels[0]["level"].is_string() && levels[0]["devices"] == 1 && levels[0]["expected"].is_null());
    for access in ["raw", "os"] {
        for field in ["bandwidth_bytes_per_s", "iops", "low", "high"] {
            assert!(levels[0][access][field].as_f64().unwrap() > 0.0, "{access}.{field} in {document:#}");
        }
    }
    let verdicts = document["verdicts"].as_array().unwrap();
    for question in ["bandwidth", "requests"] {
        let verdict = verdicts.iter().find(|verdict| verdict["question"] == question).unwrap();
        assert!(verdict["level"].is_string() && verdict["limit"].is_string(), "{verdict}");
        assert!(verdict["evidence"].as_str().unwrap().contains("data.bin"), "{verdict}");
        assert!((0.0..=1.0).contains(&verdict["confidence"].as_f64().unwrap()), "{verdict}");
    }
    let ladder = document["ladder"].as_array().unwrap();
    assert_eq!(ladder.len(), 2);
    for rung in ladder {
        assert!(rung["part"].is_string() && rung["bandwidth_bytes_per_s"].is_number() && rung["iops"].is_number());
    }
    assert_eq!((&document["interrupted"], document["run"].is_string()), (&Value::from(false), true));

    // An average of all its measurements would be of nothing: the survey's own verdicts are shown.
    let folder = document["run"].as_str().unwrap();
    let explained = desk.arraylab(&["explain", folder, "--json"]).json();
    assert_eq!(explained["verdicts"], document["verdicts"]);
    let said = desk.arraylab(&["explain", folder]);
    assert!(said.stdout.starts_with("A survey compares measurements"), "{}", said.stdout);
    assert!(said.stdout.contains(verdicts[0]["evidence"].as_str().unwrap()), "{}", said.stdout);
}

#[test]
fn a_simulated_run_is_the_same_every_time() {
    let desk = Desk::new(&READS.replace("size = \"4 KiB\"", "size = \"4 KiB\"\nthink = \"30 us\""));
    let run = |seed: &str| {
        let words = ["run", "load.toml", "--on", "memory:64MiB:80us", "--json", "--set", seed];
        let said = desk.arraylab(&words);
        let folder = said.json()["run"].as_str().unwrap().to_owned();
        let records = std::fs::read(desk.path().join(&folder).join("records.parquet")).unwrap();
        (said.stdout.replace(&folder, "FOLDER"), records.len())
    };
    let (first, second) = (run("seed=7"), run("seed=7"));
    assert!(first.0.contains("FOLDER"));
    assert_eq!(first, second);
}

#[test]
fn the_run_folder_is_enough_to_run_again() {
    let desk = Desk::new(READS);
    let on = ["--on", "memory:64MiB:80us", "--json"];
    let first = desk.arraylab(&[&["run", "load.toml", "--set", "stream.readers.depth=3"], &on[..]].concat()).json();
    let folder = Path::new(first["run"].as_str().unwrap()).to_owned();
    for name in ["run.json", "environment.json", "topology.json", "summary.json"] {
        let text = std::fs::read_to_string(desk.path().join(&folder).join(name)).unwrap();
        serde_json::from_str::<Value>(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let parquet = std::fs::read(desk.path().join(&folder).join("records.parquet")).unwrap();
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    let experiment = folder.join("experiment.toml");
    let again = desk.arraylab(&[&["run", experiment.to_str().unwrap()], &on[..]].concat()).json();
    assert_eq!(again["total"], first["total"]);
    assert_ne!(again["run"], first["run"]);
}

#[test]
fn devices_that_are_called_alike_are_told_apart() {
    let desk = Desk::new(READS);
    let on = ["--on", "memory:16MiB:100us,memory:16MiB:200us,memory:16MiB:100us", "--json"];
    let run = desk.arraylab(&[&["run", "load.toml"], &on[..]].concat()).json();
    let explained = desk.arraylab(&["explain", run["run"].as_str().unwrap(), "--json"]).json();
    let names = |document: &Value, key: &str| -> Vec<String> {
        let devices = document["devices"].as_array().unwrap();
        devices.iter().map(|device| device[key].as_str().unwrap().to_owned()).collect()
    };
    let expected = ["memory:16MiB:100us#1", "memory:16MiB:200us", "memory:16MiB:100us#2"];
    assert_eq!(names(&run, "name"), expected);
    assert_eq!(names(&explained, "device"), expected);
}

#[test]
fn a_sweep_is_one_document_with_its_points() {
    let desk = Desk::new(&format!("{READS}\n[sweep]\n\"stream.readers.depth\" = [1, 2]\n"));
    let document = desk.arraylab(&["run", "load.toml", "--on", "memory:16MiB", "--json"]).json();
    let points = document["points"].as_array().unwrap();
    assert_eq!(points.len(), 2);
    points.iter().for_each(keeps_the_contract);
    let rate = |point: &Value| point["total"]["iops"].as_f64().unwrap();
    // Each request takes 100 us whatever the depth: twice the depth is twice the rate.
    assert!((rate(&points[1]) / rate(&points[0]) - 2.0).abs() < 0.01);
}

#[test]
fn advice_on_some_points_of_a_sweep_names_them() {
    let limits = "\n[sweep]\n\"run.measure\" = [\"10 ms\", \"1 s\", \"2 s\"]\n";
    let desk = Desk::new(&format!("{READS}{limits}"));
    let said = desk.arraylab(&["run", "load.toml", "--on", "memory:16MiB"]).stdout;
    let advice: Vec<&str> = said.lines().filter(|line| line.starts_with("advice")).collect();
    assert!(
        advice
            .iter()
            .any(|line| line.starts_with("advice: ") && line.contains("; so at all 3 points (change run.passes)"))
    );
    assert!(advice.iter().any(|line| line.starts_with("advice at run.measure = 10 ms: ")), "{advice:#?}");
}

/// Each request takes 100 us whatever the depth, so that eight under way are eight times as many; and in the devices of
/// a memory nothing convoys.
#[test]
fn what_each_point_gains_is_said() {
    let sweep = "\n[sweep]\n\"stream.readers.depth\" = [1, 8]\n\"stream.readers.size\" = [\"4 KiB\", \"8 KiB\"]\n";
    let desk = Desk::new(&format!("gain = \"stream.readers.depth\"\n{READS}{sweep}"));
    let words = ["run", "load.toml", "--on", "memory:16MiB"];
    let said = desk.arraylab(&words).stdout;
    let shown = "Gain over depth = 1, all else alike\n\n\
                 depth   size      gain\n\
                 ----------------------\n\
                 1      4 KiB         -\n\
                 1      8 KiB         -\n\
                 8      4 KiB  +700.0 %\n\
                 8      8 KiB  +700.0 %";
    let table =
        said.split("\n\n").skip_while(|part| !part.starts_with("Gain")).take(2).collect::<Vec<_>>().join("\n\n");
    assert_eq!(table, shown);
    let points = desk.arraylab(&[&words[..], &["--json"]].concat()).json()["points"].clone();
    let over: Vec<Option<u64>> = (0..4).map(|place| points[place]["gain"]["over"].as_u64()).collect();
    assert_eq!(over, [None, None, Some(0), Some(1)]);
    let gain = points[3]["gain"]["iops"]["ratio"].as_f64().unwrap();
    assert!((gain - 8.0).abs() < 0.01, "{gain}");
    // Where the size is what is compared, requests and bytes tell different things.
    let sizes = [&words[..], &["--set", "gain=stream.readers.size"]].concat();
    let said = desk.arraylab(&sizes).stdout;
    assert!(said.contains("gain in bytes/s  gain in requests/s") && said.contains("+100.0 %  "), "{said}");
    // A value that is set leaves nothing to compare, and the sweep goes on.
    let set = desk.arraylab(&[&words[..], &["--set", "stream.readers.depth=8"]].concat());
    assert!(set.code == 0 && !set.stdout.contains("Gain"), "{}", set.stdout);
}

#[test]
fn care_is_taken_or_its_refusal_is_said() {
    let desk = Desk::new(READS);
    desk.file("data.bin", 4 * MIB);
    let care = ["--set", "care.lock-memory=true", "--set", "care.real-time=3", "--set", "care.cpus=[0, 1000]"];
    let words = [&["run", "load.toml", "--on", "data.bin", "--json"], &care[..]].concat();
    let said = desk.arraylab(&words);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let remarks = said.json()["remarks"].to_string();
    for care in ["memory locked", "real-time priority 3", "processors 0, 1000"] {
        assert!(remarks.contains(&format!("care taken of the measurement: {care}")), "{care}: {remarks}");
    }
    assert!(remarks.contains("without 1000"), "{remarks}");
    let refused = desk.arraylab(&["run", "load.toml", "--on", "data.bin", "--set", "care.cpus=[1000]"]);
    assert_eq!(refused.code, 0, "{}", refused.stderr);
    assert!(refused.stdout.contains("processors 1000: refused, "), "{}", refused.stdout);
    let simulated = desk.arraylab(&["run", "load.toml", "--on", "memory:4MiB", "--set", "care.real-time=3"]);
    assert!(simulated.stdout.contains("no care was taken of the measurement"), "{}", simulated.stdout);
}

/// Scripts compare numbers: no share, time or amount of a live run is a text with a unit.
#[test]
fn numbers_of_a_live_run_are_numbers() {
    fn texts(path: &str, value: &serde_json::Value, found: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(members) => {
                members.iter().for_each(|(key, value)| texts(&format!("{path}.{key}"), value, found));
            }
            serde_json::Value::Array(members) => members.iter().for_each(|member| texts(path, member, found)),
            // A number, alone or with its unit: a sentence may well begin with one.
            serde_json::Value::String(text)
                if text.split(' ').count() <= 2 && text.starts_with(|c: char| c.is_ascii_digit()) =>
            {
                found.push(format!("{path} = {text}"));
            }
            _ => {}
        }
    }
    let desk = Desk::new(READS);
    desk.file("data.bin", 1 << 20);
    let document = desk.arraylab(&["run", "load.toml", "--on", "data.bin", "--json"]).json();
    let mut found = Vec::new();
    texts("", &document, &mut found);
    // The programs of others are called as they call themselves.
    found.retain(|text| !text.starts_with(".surroundings.neighbours.name"));
    assert_eq!(found, Vec::<String>::new());
    assert!(document["processors"]["own"].is_number() && document["generator"]["busiest_thread"].is_number());
}

/// On fewer devices than it wants, an experiment would be another one under the same name.
#[test]
fn more_devices_than_there_are_is_refused_before_the_first_run() {
    let desk = Desk::new(&format!("{READS}[sweep]\n\"run.devices\" = [1, 2, 4]\n"));
    let refused = desk.arraylab(&["run", "load.toml", "--on", "memory:16MiB,memory:16MiB"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
    let said = "run.devices is 4, but only 2 are given; give more with --on, or lower run.devices";
    assert!(refused.stderr.contains(said), "{}", refused.stderr);
    assert!(!desk.path().join("runs").exists(), "nothing ran");
}
