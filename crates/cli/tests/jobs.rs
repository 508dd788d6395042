//! fio's job files: those of `jobs/` in the style of public ones, what is refused, and results in fio's shape.

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Desk, Said, said, skip};
use serde_json::Value;

/// All job files, by name.
fn job_files() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jobs");
    let mut files: Vec<PathBuf> = folder.read_dir().unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "fio"));
    files.sort();
    let read = |path: PathBuf| {
        (path.file_stem().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(path).unwrap())
    };
    files.into_iter().map(read).collect()
}

/// The same job, on little files and in little time.
fn small(text: &str) -> String {
    let line = |line: &str| {
        let Some((key, value)) = line.split_once('=') else { return line.to_owned() };
        let value = match key.trim() {
            "size" if value.ends_with('%') || value.starts_with('$') => value,
            "size" | "offset_increment" => "2m",
            "filesize" => "16m",
            "io_size" => "1m",
            "runtime" => "100ms",
            "ramp_time" | "startdelay" => "50ms",
            "number_ios" => "100",
            _ => value,
        };
        format!("{key}={value}")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn desk() -> Desk {
    let desk = Desk::new("");
    let common = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jobs/common.inc");
    desk.write("common.inc", &small(&std::fs::read_to_string(common).unwrap()));
    desk
}

fn run(desk: &Desk, words: &[&str]) -> Said {
    let mut command = desk.command(words);
    command.env("JOB_FILE", "from-environment.dat").env("JOB_SIZE", "2m");
    said(command)
}

fn total(document: &Value) -> u64 {
    let jobs = document["jobs"].as_array().unwrap();
    jobs.iter().flat_map(|job| ["read", "write"].map(|side| job[side]["total_ios"].as_u64().unwrap())).sum()
}

#[test]
fn every_job_file_runs() {
    let files = job_files();
    assert!(files.len() >= 60, "{} job files", files.len());
    for (name, text) in files {
        let desk = desk();
        desk.write("job.fio", &small(&text));
        // Some of them ask for what is only done by fio.
        let said = run(&desk, &["run", "job.fio", "--format", "fio-json", "--lenient"]);
        assert_eq!(said.code, 0, "{name}: {}{}", said.stderr, said.stdout);
        let document = said.json();
        for job in document["jobs"].as_array().unwrap() {
            let done: u64 = ["read", "write"].map(|side| job[side]["total_ios"].as_u64().unwrap()).iter().sum();
            assert!(done > 0 && job["error"] == 0, "{name}, {}: {said}", job["jobname"], said = said.stdout);
        }
        // The experiment that it is shown as is one.
        let shown = run(&desk, &["import", "job.fio", "-o", ".", "--lenient"]);
        assert_eq!(shown.code, 0, "{name}: {}", shown.stderr);
        shown.stdout.lines().for_each(|line| is_experiment(&desk, line));
    }
}

/// What was written as TOML is read as an experiment.
fn is_experiment(desk: &Desk, file: &str) {
    let text = std::fs::read_to_string(desk.path().join(file)).unwrap();
    let points = lab::read(&lab::Source { name: file.to_owned(), text: text.clone() }, &[]);
    assert_eq!(points.unwrap_or_else(|error| panic!("{error}\n{text}")).len(), 1);
}

/// What is behind the last whole sector of a file is not used, and what is made is whole.
#[test]
fn sizes_that_are_no_whole_sectors_are_used_as_far_as_they_go() {
    let desk = desk();
    desk.file("odd.bin", 1_000_000);
    for text in ["[j]\nfilename=odd.bin\n", "[j]\nfilename=new.bin\nfilesize=1000000\n"] {
        desk.write("job.fio", &format!("{text}rw=read\nbs=4k\n"));
        let said = run(&desk, &["run", "job.fio", "--format", "fio-json"]);
        assert_eq!(said.code, 0, "{text}: {}", said.stderr);
        assert_eq!(total(&said.json()), 244, "as fio reads of a million bytes");
        let shown = run(&desk, &["import", "job.fio", "-o", "."]);
        shown.stdout.lines().for_each(|line| is_experiment(&desk, line));
    }
}

/// The files are fio's own kind: it takes each of them.
#[test]
fn fio_takes_every_job_file() {
    if Command::new("fio").arg("--version").output().is_err() {
        return skip("fio is not installed");
    }
    for (name, text) in job_files() {
        let desk = desk();
        desk.write("job.fio", &small(&text));
        let mut fio = Command::new("fio");
        fio.current_dir(desk.path()).args(["--parse-only", "job.fio"]);
        let parsed = fio.env("JOB_FILE", "from-environment.dat").env("JOB_SIZE", "2m").output().unwrap();
        assert!(parsed.status.success(), "{name}: {}", String::from_utf8_lossy(&parsed.stderr));
    }
}

#[test]
fn what_is_moved_is_what_the_job_says() {
    let desk = desk();
    desk.write(
        "job.fio",
        "[global]\nioengine=psync\nbs=64k\n[a]\nrw=write\nsize=1m\nloops=3\n[b]\nrw=randread\nsize=2m\nnumjobs=2\n\
         [c]\nstonewall\nrw=randrw\nbs=4k,16k\nnumber_ios=50\nsize=1m\n",
    );
    let document = run(&desk, &["run", "job.fio", "--format", "fio-json"]).json();
    let jobs = document["jobs"].as_array().unwrap();
    let of = |index: usize, side: &str| {
        (jobs[index][side]["total_ios"].as_u64().unwrap(), jobs[index][side]["io_bytes"].as_u64().unwrap())
    };
    let names: Vec<_> =
        jobs.iter().map(|job| (job["jobname"].as_str().unwrap(), job["groupid"].as_u64().unwrap())).collect();
    assert_eq!(names, [("a", 0), ("b", 0), ("b", 0), ("c", 1)]);
    assert_eq!((of(0, "write"), of(0, "read").0), ((48, 3 << 20), 0), "three times a mebibyte");
    assert_eq!((of(1, "read"), of(2, "read")), ((32, 2 << 20), (32, 2 << 20)));
    let (read, write) = (of(3, "read"), of(3, "write"));
    assert_eq!((read.0 + write.0, read.1, write.1), (50, read.0 * 4096, write.0 * 16_384));
    let files: Vec<bool> =
        ["a.0.0", "b.0.0", "b.1.0", "c.0.0"].iter().map(|name| desk.path().join(name).exists()).collect();
    assert_eq!(files, [true; 4], "files are called what fio calls them");
}

#[test]
fn a_group_is_reported_as_one_if_it_asks_for_that() {
    let desk = desk();
    desk.write("job.fio", "[global]\nbs=4k\nsize=256k\ngroup_reporting\n[a]\nnumjobs=3\n[b]\n[c]\nnew_group\n");
    let document = run(&desk, &["run", "job.fio", "--format", "fio-json"]).json();
    let jobs = document["jobs"].as_array().unwrap();
    let of = |job: &Value| (job["jobname"].as_str().unwrap().to_owned(), job["read"]["total_ios"].as_u64().unwrap());
    assert_eq!(jobs.iter().map(of).collect::<Vec<_>>(), [("a".to_owned(), 256), ("c".to_owned(), 64)]);
}

const WRITES: &str = "[job]\nrw=randwrite\nbs=4k\nsize=1m\nfilename=data.bin\n";

#[test]
fn a_file_of_somebody_else_is_not_written_without_being_told_to() {
    let desk = desk();
    let file = desk.file("data.bin", 1 << 20);
    let before = std::fs::read(&file).unwrap();
    desk.write("job.fio", WRITES);
    let said = run(&desk, &["run", "job.fio"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(said.stderr.contains("data.bin") && said.stderr.contains("--destroy-data"), "{}", said.stderr);
    assert!(std::fs::read(&file).unwrap() == before, "not a byte has changed");
    assert_eq!(run(&desk, &["run", "job.fio", "--destroy-data"]).code, 0);
    assert!(std::fs::read(&file).unwrap() != before);
    // Still not ours: it was there before.
    assert_eq!(run(&desk, &["run", "job.fio"]).code, 2);
}

#[test]
fn a_file_that_is_too_small_is_not_made_larger_unless_it_is_ours() {
    let desk = desk();
    desk.file("data.bin", 1 << 19);
    desk.write("job.fio", &WRITES.replace("randwrite", "randread"));
    let said = run(&desk, &["run", "job.fio"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("512 KiB") && said.stderr.contains("1 MiB"), "{}", said.stderr);
    assert_eq!(std::fs::metadata(desk.path().join("data.bin")).unwrap().len(), 1 << 19);
}

#[test]
fn a_file_that_it_made_is_its_own_until_somebody_changes_it() {
    let desk = desk();
    let file = desk.path().join("data.bin");
    desk.write("job.fio", WRITES);
    assert_eq!(run(&desk, &["run", "job.fio"]).code, 0);
    let again = run(&desk, &["run", "job.fio"]);
    if again.code != 0 && again.stderr.contains("--destroy-data") {
        return skip("this file system keeps no extended attributes, so no file is known again");
    }
    assert_eq!(again.code, 0, "{}", again.stderr);
    desk.write("job.fio", &WRITES.replace("1m", "2m"));
    assert_eq!(run(&desk, &["run", "job.fio"]).code, 0, "it is made longer");
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 2 << 20);
    // Somebody keeps his diary in it.
    let mut diary = std::fs::read(&file).unwrap();
    diary[..5].copy_from_slice(b"diary");
    std::fs::write(&file, diary).unwrap();
    let said = run(&desk, &["run", "job.fio"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(std::fs::read(&file).unwrap().starts_with(b"diary"));
}

#[test]
fn what_is_made_to_be_removed_is_removed() {
    let desk = desk();
    desk.write("job.fio", &format!("{WRITES}unlink=1\n"));
    assert_eq!(run(&desk, &["run", "job.fio"]).code, 0);
    assert!(!desk.path().join("data.bin").exists());
}

#[test]
fn what_is_not_kept_is_refused_unless_the_reading_is_lenient() {
    let desk = desk();
    desk.write("job.fio", "[job]\nsize=64k\nstats=0\nthread\n");
    let said = run(&desk, &["run", "job.fio"]);
    assert_eq!(said.code, 2, "{}", said.stdout);
    assert!(said.stderr.contains("job.fio:3: the option 'stats' is not supported: every job"), "{}", said.stderr);
    assert!(said.stderr.contains("--lenient"), "{}", said.stderr);
    let said = run(&desk, &["run", "job.fio", "--json", "--lenient"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("line 3   stats: every job"), "{}", said.stderr);
    let ignored = &said.json()["ignored"];
    assert_eq!((ignored[0]["option"].as_str(), ignored[1]["line"].as_u64()), (Some("stats"), Some(4)));
    let said = run(&desk, &["run", "job.fio", "--strict"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("job.fio:3: --strict refuses the option 'stats'"), "{}", said.stderr);
}

#[test]
fn the_document_is_one_whatever_happens() {
    let desk = desk();
    desk.write("bad.fio", "[job]\nbs=4q\n");
    let said = run(&desk, &["run", "bad.fio", "--format", "fio-json"]);
    let document = said.json();
    assert_eq!((said.code, document["jobs"].as_array().unwrap().len()), (2, 0));
    assert!(document["error"].as_str().unwrap().starts_with("bad.fio:2: 'bs' is '4q'"), "{document}");
    assert!(said.stderr.contains("bad.fio:2"), "{}", said.stderr);
    // The second group cannot begin: the first is in the document.
    desk.file("data.bin", 1 << 20);
    desk.write("half.fio", "[a]\nsize=64k\n[b]\nstonewall\nrw=write\nsize=64k\nfilename=data.bin\n");
    let said = run(&desk, &["run", "half.fio", "--format", "fio-json"]);
    let document = said.json();
    assert_eq!((said.code, total(&document)), (2, 16));
    assert!(document["error"].as_str().unwrap().contains("--destroy-data"), "{document}");
}

#[test]
fn a_job_runs_on_what_is_named_in_place_of_its_files() {
    let desk = desk();
    desk.write(
        "job.fio",
        "[global]\nbs=4k\niodepth=4\nioengine=libaio\nrw=randrw\nruntime=50ms\ntime_based\n[a]\nnumjobs=2\n",
    );
    let one = run(&desk, &["run", "job.fio", "--on", "memory:64MiB:100us", "--json"]);
    assert_eq!(one.code, 0, "{}", one.stderr);
    // Two jobs of depth 4, 100 us each, 50 ms: 4000 requests, to the letter, as virtual time is.
    assert_eq!(one.json()["total"]["requests"], 4000);
    let again = run(&desk, &["run", "job.fio", "--on", "memory:64MiB:100us", "--json"]);
    assert_eq!(one.json()["total"], again.json()["total"]);
}

#[test]
fn what_import_shows_runs_the_same() {
    let desk = desk();
    desk.write("job.fio", "[global]\nioengine=null\nsize=1m\nbs=4k\niodepth=4\n[a]\nrw=randread\nnumjobs=2\n");
    let shown = run(&desk, &["import", "job.fio"]);
    assert!(shown.stdout.starts_with("# What job.fio comes to.\n\nname = \"job\""), "{}", shown.stdout);
    desk.write("job.toml", &shown.stdout);
    let said = run(&desk, &["run", "job.toml", "--format", "fio-json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(total(&said.json()), 512);
}

/// Names of fields at any depth; of lists, those of the first element.
fn fields(value: &Value, at: &str, all: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            all.insert(format!("{at}{key}"));
            // What the user wrote is not the shape.
            if !key.contains("options") {
                fields(value, &format!("{at}{key}."), all);
            }
        }),
        Value::Array(list) => list.iter().take(1).for_each(|value| fields(value, at, all)),
        _ => {}
    }
}

#[test]
fn the_shape_is_that_of_the_fio_that_is_installed() {
    if Command::new("fio").arg("--version").output().is_err() {
        return skip("fio is not installed");
    }
    let desk = desk();
    desk.write("job.fio", "[global]\nioengine=psync\nbs=4k\nsize=256k\n[a]\nrw=randrw\n");
    let mut fio = Command::new("fio");
    let theirs = fio.current_dir(desk.path()).args(["--output-format=json", "job.fio"]).output().unwrap();
    let theirs: Value = serde_json::from_slice(&theirs.stdout).unwrap();
    let _ = std::fs::remove_file(desk.path().join("a.0.0"));
    let ours = run(&desk, &["run", "job.fio", "--format", "fio-json"]).json();
    let (mut there, mut here) = (BTreeSet::new(), BTreeSet::new());
    fields(&theirs, "", &mut there);
    fields(&ours, "", &mut here);
    // Disks are not watched; newer versions of fio have more fields.
    there.retain(|field| !field.starts_with("disk_util."));
    let missing: Vec<_> =
        there.difference(&here).filter(|field| !["jobs.job_start"].contains(&field.as_str())).collect();
    assert!(missing.is_empty(), "not there: {missing:?}");
    assert_eq!(total(&theirs), total(&ours));
}
