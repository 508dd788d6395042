//! What is reported of fio's jobs: flushes, times and percentiles, logs, many jobs at once, and how soon a run ends
//! that is told to.

mod common;

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Desk, Said, of, signal};
use serde_json::Value;

fn desk(text: &str) -> Desk {
    let desk = Desk::new("");
    desk.write("job.fio", text);
    desk
}

fn fio_json(desk: &Desk) -> Value {
    let Said { code, stdout, stderr } = desk.arraylab(&["run", "job.fio", "--format", "fio-json"]);
    assert_eq!(code, 0, "{stderr}");
    serde_json::from_str(&stdout).unwrap()
}

/// What the installed fio says of the same file, in a folder of its own.
fn theirs(text: &str) -> Option<Value> {
    let desk = desk(text);
    let mut fio = Command::new("fio");
    let said = fio.current_dir(desk.path()).args(["--output-format=json", "job.fio"]).output();
    let Ok(said) = said else {
        println!("skipped beside fio: fio is not installed; `fio --output-format=json job.fio` would run");
        return None;
    };
    Some(serde_json::from_slice(&said.stdout).unwrap())
}

fn flushes(document: &Value) -> (u64, u64, u64) {
    let job = &document["jobs"][0];
    let number = |value: &Value| value.as_u64().unwrap();
    (number(&job["write"]["total_ios"]), number(&job["sync"]["total_ios"]), number(&job["sync"]["lat_ns"]["N"]))
}

#[test]
fn flushes_are_counted_as_fio_counts_them() {
    for (options, expected) in [
        ("rw=write\nfdatasync=1", (64, 0, 63)),
        ("rw=write\nfsync=1", (64, 63, 63)),
        ("rw=write\nfsync=8\nfdatasync=4", (64, 7, 15)),
        ("rw=write\nfsync=1\nend_fsync=1", (64, 63, 63)),
        ("rw=write\nend_fsync=1", (64, 0, 0)),
        ("rw=write\nfsync_on_close=1\nfsync=16", (64, 3, 3)),
        ("rw=write\nfsync=1\nloops=2", (128, 128, 128)),
        ("rw=write\nfsync=1\nnumber_ios=10", (10, 9, 9)),
        ("rw=randwrite\nfdatasync=4\nioengine=libaio\niodepth=8", (64, 0, 15)),
        ("rw=write\nsync_file_range=wait_before,write:8", (64, 0, 7)),
        ("rw=write\nsync_file_range=write:4\nfsync=8\nfdatasync=6", (64, 7, 7 + 8 + 5)),
        ("rw=randwrite\nsync_file_range=wait_after,write,wait_before\nioengine=io_uring", (64, 0, 63)),
        ("rw=read\nfsync=1", (0, 0, 0)),
    ] {
        let text = format!("[wal]\nfilename=wal.dat\nsize=256k\nbs=4k\n{options}\n");
        let ours = fio_json(&desk(&text));
        assert_eq!(flushes(&ours), expected, "{options}");
        let lat = &ours["jobs"][0]["sync"]["lat_ns"];
        if expected.2 > 0 {
            let p99 = lat["percentile"]["99.000000"].as_u64().unwrap();
            assert!(lat["min"].as_u64() <= Some(p99) && p99 > 0 && lat["mean"].as_f64() > Some(0.0), "{lat}");
        } else {
            assert_eq!(lat["percentile"], Value::Null);
        }
        if let Some(theirs) = theirs(&text) {
            assert_eq!(flushes(&theirs), expected, "fio: {options}");
        }
    }
}

#[test]
fn of_a_mixed_job_a_flush_that_is_due_follows_reads_too_as_in_fio() {
    let text = "[j]\nfilename=d.dat\nsize=256k\nbs=4k\nrw=rw\nfdatasync=1\n";
    let (writes, _, flushes) = flushes(&fio_json(&desk(text)));
    // One after each request from the first write on, but for the last request.
    assert!(flushes > writes && flushes < 64, "{writes} writes, {flushes} flushes");
}

#[test]
fn a_table_of_a_run_shows_flushes_beside_requests_and_not_among_them() {
    let desk = desk("[wal]\nfilename=wal.dat\nsize=64k\nbs=4k\nrw=write\nfdatasync=1\n");
    let said = desk.arraylab(&["run", "job.fio", "--json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let document = said.json();
    assert_eq!(document["total"]["requests"], 16);
    let names: Vec<_> =
        document["operations"].as_array().unwrap().iter().map(|group| (&group["name"], &group["requests"])).collect();
    assert_eq!(names, [(&Value::from("write"), &Value::from(16)), (&Value::from("flush"), &Value::from(15))]);
    let run = document["run"].as_str().unwrap().to_owned();
    let explained = desk.arraylab(&["explain", &run]);
    assert_eq!(explained.code, 0, "{}", explained.stderr);
    assert!(explained.stdout.contains("flush"), "{}", explained.stdout);
}

#[test]
fn a_job_on_another_target_keeps_its_flushes() {
    let desk = desk("[wal]\nfilename=wal.dat\nsize=64k\nbs=4k\nrw=write\nfdatasync=1\n");
    let said = desk.arraylab(&["run", "job.fio", "--on", "memory:1MiB:100us", "--format", "fio-json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let document: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(flushes(&document), (16, 0, 15));
}

/// Names of fields at any depth; of lists, those of the first element.
fn fields(value: &Value, at: &str, all: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                all.insert(format!("{at}{key}"));
                if key.contains("options") {
                    value.as_object().into_iter().flatten().for_each(|(key, _)| {
                        all.insert(format!("{at}.{key}"));
                    });
                } else {
                    fields(value, &format!("{at}{key}."), all);
                }
            }
        }
        Value::Array(list) => list.iter().take(1).for_each(|value| fields(value, at, all)),
        _ => {}
    }
}

#[test]
fn every_field_is_one_of_fios_and_every_one_of_fios_is_there() {
    for text in [
        "[a]\nrw=randrw\nioengine=psync\nbs=4k\nsize=256k\n",
        "[global]\nioengine=null\nsize=1m\nbs=4k\n[a]\nrw=randread\npercentile_list=50:99.9:99.999\nlat_percentiles=1\n",
        "[global]\nioengine=null\nsize=1m\nbs=4k\n[a]\nrw=randrw\nunified_rw_reporting=1\n",
        "[global]\nioengine=null\nsize=1m\nbs=4k\n[a]\nrw=randrw\nunified_rw_reporting=both\nclat_percentiles=0\n",
        "[a]\nioengine=libaio\niodepth=4\nrw=randread\nbs=4k\nsize=256k\nslat_percentiles=1\nlat_percentiles=1\n",
        "[a]\nioengine=null\nsize=1m\nbs=4k\nrw=read\ndisable_lat=1\ndisable_slat=1\nlat_percentiles=1\n",
        "[a]\nioengine=null\nsize=1m\nbs=4k\nrw=read\ndisable_clat=1\n",
        "[a]\nioengine=null\nsize=1m\nbs=4k\nrw=write\ngtod_reduce=1\n",
        "[a]\nrw=write\nioengine=sync\nbs=4k\nsize=64k\nfsync=1\n",
        "[global]\ngroup_reporting\nioengine=null\nsize=1m\nbs=4k\n[a]\nnumjobs=3\n[b]\nnew_group\n",
    ] {
        let ours = fio_json(&desk(text));
        let Some(theirs) = theirs(text) else { return };
        let (mut there, mut here) = (BTreeSet::new(), BTreeSet::new());
        fields(&theirs, "", &mut there);
        fields(&ours, "", &mut here);
        let difference: Vec<_> =
            there.symmetric_difference(&here).filter(|field| !field.starts_with("disk_util.")).collect();
        assert!(difference.is_empty(), "{text}: {difference:?}");
        assert_eq!(theirs["jobs"].as_array().unwrap().len(), ours["jobs"].as_array().unwrap().len(), "{text}");
        for field in ["clat_ns", "lat_ns"] {
            let measured = |document: &Value| document["jobs"][0]["read"][field]["N"].as_u64().map(|count| count > 0);
            assert_eq!(measured(&theirs), measured(&ours), "{text}: {field}");
        }
    }
}

#[test]
fn disks_below_the_files_are_reported_with_fios_fields() {
    let ours = fio_json(&desk("[a]\nrw=write\nbs=64k\nsize=4m\nend_fsync=1\n"));
    let Some(disk) = ours["disk_util"].get(0) else {
        return println!("skipped: the files here lie on no block device");
    };
    for field in ["read_ios", "write_ios", "read_merges", "write_merges", "read_ticks", "write_ticks", "in_queue"] {
        assert!(disk[field].is_u64(), "{field}: {disk}");
    }
    assert!(disk["util"].as_f64().is_some_and(|util| (0.0..=100.0).contains(&util)), "{disk}");
    assert!(disk["write_ios"].as_u64() > Some(0), "4 MiB were made durable: {disk}");
}

#[test]
fn logs_are_written_under_fios_names_with_as_many_columns() {
    let text = "[j]\nioengine=psync\nrw=randread\nbs=4k\nsize=64k\nwrite_bw_log=x\nwrite_lat_log=x\nwrite_iops_log\n[k]\nstonewall\nsize=64k\nbs=4k\nwrite_iops_log=k\nlog_offset=1\n";
    let read = |desk: &Desk| -> Vec<(String, Vec<usize>)> {
        let entries = std::fs::read_dir(desk.path()).unwrap().map(|entry| entry.unwrap());
        let mut logs: Vec<(String, Vec<usize>)> = entries
            .map(|entry| (entry.file_name().into_string().unwrap(), entry.path()))
            .filter(|(name, _)| name.ends_with(".log"))
            .map(|(name, path)| {
                let text = std::fs::read_to_string(path).unwrap();
                (name, text.lines().map(|line| line.split(", ").count()).collect())
            })
            .collect();
        logs.sort();
        logs
    };
    let here = desk(text);
    fio_json(&here);
    let ours = read(&here);
    let names: Vec<&str> = ours.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["j_iops.1.log", "k_iops.2.log", "x_bw.1.log", "x_clat.1.log", "x_lat.1.log", "x_slat.1.log"]);
    assert_eq!((&ours[0].1[..], ours[1].1[0]), (&[5; 16][..], 6));
    let there = desk(text);
    if Command::new("fio").current_dir(there.path()).arg("job.fio").output().is_ok() {
        assert_eq!(read(&there), ours);
    }
}

#[test]
fn hundreds_of_jobs_that_wait_in_system_calls_run_together() {
    let here = desk("[j]\nrw=randread\nfilename=jobs.dat\nsize=1m\nbs=4k\nnumjobs=300\ngroup_reporting\n");
    let document = fio_json(&here);
    assert_eq!(document["jobs"][0]["read"]["total_ios"], 300 * 256);
}

#[test]
fn what_a_thousand_jobs_cost_grows_in_proportion() {
    let took = |jobs: u32| {
        let here = desk(&format!("[j]\nioengine=null\nsize=64k\nbs=4k\nnumjobs={jobs}\ngroup_reporting\n"));
        let begun = Instant::now();
        assert_eq!(fio_json(&here)["jobs"][0]["read"]["total_ios"], 16 * jobs);
        begun.elapsed()
    };
    // Eight times as many took five hundred times as long when each was looked for among all others.
    let (few, many) = (took(128), took(1024));
    assert!(many < few.max(Duration::from_millis(300)) * 40, "{few:?} for 128, {many:?} for 1024");
}

#[test]
fn a_run_ends_soon_when_it_is_told_to_whatever_it_is_at() {
    for (what, text, kept) in [
        ("files laid out", "[r]\nfilename=large.dat\nrw=read\nbs=4k\nsize=6g\n", false),
        (
            "many jobs",
            "[j]\nioengine=null\nsize=1m\nbs=4k\nnumjobs=500\ngroup_reporting\ntime_based\nruntime=60\nrate_iops=10\n",
            true,
        ),
        ("a ramp", "[j]\nioengine=null\nsize=1m\nbs=4k\ntime_based\nruntime=60\nramp_time=60\nrate_iops=10\n", true),
    ] {
        let here = desk(text);
        let child = here.start(&["run", "job.fio"]);
        std::thread::sleep(Duration::from_millis(900));
        let told = Instant::now();
        signal(&child, "TERM");
        let said = of(child.wait_with_output().unwrap());
        // A second, and what a loaded machine takes to end a debug build.
        assert!(told.elapsed() < Duration::from_secs(4), "{what}: {:?}", told.elapsed());
        assert!(said.code != 0, "{what}: {}", said.stderr);
        assert_eq!(here.path().join("runs").exists(), kept, "{what}: {}", said.stderr);
        assert!(!here.path().join("large.dat").exists(), "{what}");
    }
}

#[test]
fn a_writeback_stands_in_the_experiment_that_a_job_comes_to() {
    let text = "[j]\nfilename=d.dat\nsize=256k\nbs=4k\nrw=write\nsync_file_range=wait_before,write:8\n";
    let desk = desk(text);
    let Said { code, stdout, stderr } = desk.arraylab(&["import", "job.fio"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("writeback = [\"wait-before\", \"write\"]"), "{stdout}");
    desk.write("load.toml", &stdout);
    let Said { code, stdout, stderr } = desk.arraylab(&["run", "load.toml", "--format", "fio-json"]);
    assert_eq!(code, 0, "{stderr}");
    let document: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(document["jobs"][0]["sync"]["lat_ns"]["N"], 7);
    let Said { stdout: load, .. } = desk.arraylab(&["import", "job.fio"]);
    desk.write("load.toml", &load.replace("[\"wait-before\", \"write\"]", "[]"));
    let said = desk.arraylab(&["run", "load.toml"]);
    assert!(said.code == 2 && said.stderr.contains("`writeback` has steps"), "{}", said.stderr);
}
