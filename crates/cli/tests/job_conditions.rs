//! fio's job files: what ends a job and how deep its queue is, the priority of its requests, and the trace of them.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Desk, is_root, skip};
use serde_json::Value;

fn job(text: &str) -> Desk {
    let desk = Desk::new("");
    desk.write("job.fio", text);
    desk
}

fn fio_json(desk: &Desk, more: &[&str], code: i32) -> Value {
    let said = desk.arraylab(&[&["run", "job.fio", "--format", "fio-json"], more].concat());
    assert_eq!(said.code, code, "{}", said.stderr);
    said.json()
}

/// A file system of a few MiB in memory, as long as the value lives.
struct Small(PathBuf);

impl Small {
    /// `None`, and said, where none can be mounted.
    fn at(path: &Path) -> Option<Small> {
        if !is_root() {
            skip("file systems are mounted by root");
            return None;
        }
        std::fs::create_dir_all(path).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "none"]).arg(path).status();
        match mounted {
            Ok(status) if status.success() => Some(Small(path.to_owned())),
            other => {
                skip(&format!("nothing can be mounted: {other:?}"));
                None
            }
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// Where fio is, it does the same: 4 MiB are written and read, and neither job has an error.
#[test]
fn a_job_fills_what_room_there_is_and_a_later_one_reads_it() {
    let desk = job("[global]\nbs=64k\nverify=meta\nverify_pattern=0xaa555aa5\nfilename=full/data\n[fill]\nrw=write\n\
         fill_device=1\ndo_verify=0\n[scan]\nstonewall\nrw=read\n");
    let Some(_mounted) = Small::at(&desk.path().join("full")) else { return };
    let document = fio_json(&desk, &[], 0);
    let of = |index: usize, side: &str| document["jobs"][index][side]["io_bytes"].as_u64().unwrap();
    assert_eq!((of(0, "write"), of(1, "read")), (4 << 20, 4 << 20));
    assert_eq!((&document["jobs"][0]["error"], &document["jobs"][1]["error"]), (&Value::from(0), &Value::from(0)));
    // With another file in the way, room runs out before the size is reached, and that is no error either.
    std::fs::remove_file(desk.path().join("full/data")).unwrap();
    std::fs::write(desk.path().join("full/other"), vec![1; 1 << 20]).unwrap();
    desk.write("job.fio", "[fill]\nrw=write\nbs=64k\nsize=64m\nfilename=full/data\nfill_device=1\n");
    let document = fio_json(&desk, &[], 0);
    assert_eq!(document["jobs"][0]["write"]["io_bytes"].as_u64(), Some(3 << 20));
    // A file that no room is reserved for has what was written, and no more.
    std::fs::remove_file(desk.path().join("full/data")).unwrap();
    desk.write("job.fio", "[w]\nrw=write\nbs=64k\nsize=64m\nio_size=1m\nfilename=full/data\nfallocate=none\n");
    fio_json(&desk, &[], 0);
    assert_eq!(std::fs::metadata(desk.path().join("full/data")).unwrap().len(), 1 << 20);
    // Where addresses are random nobody could say of how many.
    desk.write("job.fio", "[fill]\nrw=randwrite\nbs=64k\nfilename=full/data\nfill_device=1\n");
    let said = desk.arraylab(&["run", "job.fio"]);
    assert!(
        said.code == 2 && said.stderr.contains("job.fio:1: [fill] fills its files without a size"),
        "{}",
        said.stderr
    );
}

#[test]
fn a_share_of_requests_has_a_priority_of_its_own_and_is_told_apart() {
    // Idle and best effort need no privilege.
    let desk = job("[j]\nfilename=data\nrw=randread\nbs=4k\nsize=8m\nioengine=libaio\niodepth=8\nprioclass=3\n\
         cmdprio_percentage=25\ncmdprio_class=2\ncmdprio=6\nwrite_lat_log=log\nlog_prio=1\n");
    let document = fio_json(&desk, &[], 0);
    let priorities = document["jobs"][0]["read"]["prios"].as_array().unwrap();
    let of = |class: u64, level: u64| {
        let is = |one: &&Value| one["prioclass"] == class && one["prio"] == level;
        priorities.iter().find(is).unwrap()["clat_ns"]["N"].as_u64().unwrap()
    };
    let (best_effort, idle) = (of(2, 6), of(3, 0));
    // Of 2048 draws a quarter is known to 20.
    assert!(best_effort + idle == 2048 && best_effort.abs_diff(512) < 80, "{best_effort} {idle}");
    let log = std::fs::read_to_string(desk.path().join("log_clat.1.log")).unwrap();
    let ends = |end: &str| log.lines().filter(|line| line.ends_with(end)).count() as u64;
    assert_eq!((ends(", 0x4006"), ends(", 0x6000")), (best_effort, idle));
    // Of a job that waits in system calls all have one.
    let desk = job("[j]\nfilename=data\nrw=read\nbs=4k\nsize=64k\nprio=7\nwrite_bw_log=log\nlog_prio=1\n");
    assert_eq!(fio_json(&desk, &[], 0)["jobs"][0]["read"].get("prios"), None);
    let log = std::fs::read_to_string(desk.path().join("log_bw.1.log")).unwrap();
    assert!(log.lines().count() == 16 && log.lines().all(|line| line.ends_with(", 0x4007")), "{log}");
}

#[test]
fn a_depth_is_searched_for_and_what_was_done_at_it_counts() {
    let text = "[j]\nrw=randread\nbs=4k\nsize=16m\nioengine=libaio\niodepth=16\ntime_based\nruntime=60\n\
        latency_target=500\nlatency_window=100000\nlatency_percentile=99\n";
    let on = ["--on", "memory:16MiB:100us"];
    let document = fio_json(&job(text), &on, 0);
    let job_of = &document["jobs"][0];
    assert_eq!((&job_of["latency_depth"], &job_of["latency_target"]), (&Value::from(16), &Value::from(500_000)));
    assert_eq!((&job_of["latency_window"], &job_of["latency_percentile"]), (&Value::from(100_000), &Value::from(99.0)));
    // Sixteen at a time of 100 us, for a window of 100 ms.
    let requests = job_of["read"]["total_ios"].as_u64().unwrap();
    assert!((15_900..=16_200).contains(&requests), "{requests}");
    // Not even one at a time is soon enough.
    let hopeless = text.replace("latency_target=500", "latency_target=50").replace("latency_percentile=99\n", "");
    let document = fio_json(&job(&hopeless), &on, 3);
    assert_eq!((&document["jobs"][0]["error"], &document["jobs"][0]["read"]["total_ios"]), (&110.into(), &1.into()));
}

#[test]
fn a_trace_of_a_job_is_one_that_can_be_replayed() {
    let desk = job("[j]\nfilename=data\nrw=randwrite\nbs=4k\nsize=64k\nfsync=4\nwrite_iolog=trace\n");
    fio_json(&desk, &[], 0);
    let trace = std::fs::read_to_string(desk.path().join("trace")).unwrap();
    let lines: Vec<&str> = trace.lines().collect();
    assert_eq!(&lines[..3], ["fio version 3 iolog", "0 data add", "0 data open"]);
    let count = |name: &str| lines.iter().filter(|line| line.contains(&format!(" data {name}"))).count();
    assert_eq!((count("write"), count("sync"), count("close")), (16, 3, 1));
    desk.write("job.fio", "[j]\nread_iolog=trace\nreplay_no_stall=1\n");
    let document = fio_json(&desk, &["--destroy-data"], 0);
    assert_eq!(document["jobs"][0]["write"]["io_bytes"].as_u64(), Some(64 << 10));
}
