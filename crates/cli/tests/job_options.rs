//! Options of fio's job files that change what is asked: verification, rates, discards, traces.

mod common;

use common::{Desk, Loop, is_root};
use serde_json::Value;

const MIB: usize = 1 << 20;

fn job(text: &str) -> Desk {
    let desk = Desk::new("");
    desk.write("job.fio", text);
    desk
}

fn operations(document: &Value) -> Vec<(&str, u64)> {
    let groups = document["operations"].as_array().unwrap();
    groups.iter().map(|group| (group["name"].as_str().unwrap(), group["requests"].as_u64().unwrap())).collect()
}

#[test]
fn what_a_job_wrote_is_verified_and_damage_is_found_later() {
    let desk = job("[w]\nfilename=data.bin\nrw=randwrite\nbs=4k\nsize=1m\nverify=crc32c\n");
    let said = desk.arraylab(&["run", "job.fio", "--json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let document = said.json();
    let findings = &document["verification"][0]["findings"];
    assert_eq!((&findings["checked"], &findings["count"]), (&Value::from("1 MiB"), &Value::from(0)), "{findings}");
    let run = document["run"].as_str().unwrap().to_owned();
    let mut bytes = std::fs::read(desk.path().join("data.bin")).unwrap();
    bytes[5000] ^= 1;
    std::fs::write(desk.path().join("data.bin"), bytes).unwrap();
    let verified = desk.arraylab(&["verify", &run]);
    assert_eq!(verified.code, 1, "{}", verified.stderr);
    assert!(verified.stdout.contains("corrupt: 512 B at 4608"), "{}", verified.stdout);
}

#[test]
fn reads_of_a_later_group_check_what_an_earlier_one_wrote() {
    let text = "[global]\nfilename=data.bin\nbs=4k\nsize=256k\nverify=md5\n[w]\nrw=write\ndo_verify=0\n[r]\nstonewall\nrw=read\n";
    let desk = job(text);
    let said = desk.arraylab(&["run", "job.fio", "--json"]);
    assert_eq!(said.code, 0, "{}{}", said.stderr, said.stdout);
    let findings = said.json()["groups"][1]["verification"][0]["findings"].clone();
    assert_eq!((&findings["checked"], &findings["count"]), (&Value::from("256 KiB"), &Value::from(0)), "{findings}");
    // Alone, the second group reads what nobody stamped.
    let alone = job("[r]\nfilename=data.bin\nrw=read\nbs=4k\nsize=256k\nverify=md5\n");
    alone.file("data.bin", MIB);
    let said = alone.arraylab(&["run", "job.fio"]);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stdout.contains("foreign: "), "{}", said.stdout);
}

#[test]
fn two_jobs_that_write_one_file_are_not_verified() {
    let desk = job("[w]\nfilename=data.bin\nrw=write\nbs=4k\nsize=256k\nverify=md5\nnumjobs=2\n");
    let said = desk.arraylab(&["run", "job.fio"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("both write data.bin; give each a file or an offset"), "{}", said.stderr);
    desk.write(
        "job.fio",
        "[w]\nfilename=data.bin\nrw=write\nbs=4k\nsize=256k\nverify=md5\nnumjobs=2\noffset_increment=256k\n",
    );
    let said = desk.arraylab(&["run", "job.fio", "--json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(said.json()["verification"].as_array().unwrap().len(), 2);
}

#[test]
fn a_rate_is_kept_to_in_virtual_time() {
    for (rate, most) in [("rate_iops=500", 500.0), ("rate=2m", 512.0), ("rate_iops=500\nrate_process=poisson", 500.0)] {
        let desk = job(&format!(
            "[r]\nrw=randread\nbs=4k\nsize=16m\niodepth=4\nioengine=libaio\ntime_based\nruntime=20\n{rate}\n"
        ));
        let said = desk.arraylab(&["run", "job.fio", "--on", "memory:16MiB:100us", "--json"]);
        assert_eq!(said.code, 0, "{rate}: {}", said.stderr);
        let iops = said.json()["total"]["iops"].as_f64().unwrap();
        // Of 10,000 arrivals at random the mean is known to 1 %.
        assert!((iops / most - 1.0).abs() < 0.04, "{rate}: {iops}");
        // The time that a request is held back is not the device's.
        let p50 = said.json()["total"]["latency_ns"]["p50"].as_u64().unwrap();
        assert!((100_000..=110_000).contains(&p50), "{rate}: {p50}");
    }
}

#[test]
fn trims_are_discards_and_need_leave_like_writes() {
    let desk = job("[t]\nfilename=data.bin\nrw=trimwrite\nbs=64k\nsize=1m\n");
    desk.file("data.bin", MIB);
    let refused = desk.arraylab(&["run", "job.fio"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("--destroy-data"), "{}", refused.stderr);
    let said = desk.arraylab(&["run", "job.fio", "--json", "--destroy-data"]);
    assert_eq!(said.code, 0, "{}{}", said.stderr, said.stdout);
    // Each block is discarded and then written, and counts once.
    assert_eq!(operations(&said.json()), [("write", 16), ("discard", 16)]);
    desk.write("job.fio", "[t]\nfilename=data.bin\nrw=trim\nbs=64k\nsize=1m\n");
    let said = desk.arraylab(&["run", "job.fio", "--format", "fio-json", "--destroy-data"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(said.json()["jobs"][0]["trim"]["total_ios"], 16);
    let bytes = std::fs::read(desk.path().join("data.bin")).unwrap();
    assert!(bytes.len() == MIB && bytes.iter().all(|byte| *byte == 0), "a hole is read as zeroes");
}

#[test]
fn a_block_device_is_trimmed() {
    let desk = job("[t]\nrw=randtrim\nbs=64k\nsize=1m\n");
    let backing = desk.file("backing", 4 * MIB);
    let Some(device) = Loop::over(&backing) else { return };
    assert!(is_root());
    let said = desk.arraylab(&["run", "job.fio", "--on", &device.node, "--destroy-data", "--json"]);
    assert_eq!(said.code, 0, "{}{}", said.stderr, said.stdout);
    assert_eq!(operations(&said.json()), [("discard", 16)]);
    // What is discarded on a loop device is a hole in the file behind it.
    let bytes = std::fs::read(backing).unwrap();
    assert!(bytes[..MIB].iter().all(|byte| *byte == 0) && bytes[MIB..].iter().all(|byte| *byte == 0x5a));
}

#[test]
fn a_trace_is_replayed_by_a_job() {
    let log = "fio version 2 iolog\ndata.bin add\ndata.bin open\ndata.bin read 0 4096\ndata.bin read 8192 4096\ndata.bin write 4096 4096\ndata.bin close\n";
    let desk = job("[r]\nread_iolog=trace.log\nreplay_no_stall=1\niodepth=4\nioengine=libaio\n");
    desk.write("trace.log", log);
    let said = desk.arraylab(&["run", "job.fio", "--json"]);
    assert_eq!(said.code, 0, "{}{}", said.stderr, said.stdout);
    assert_eq!(operations(&said.json()), [("read", 2), ("write", 1)]);
    assert_eq!(said.json()["devices"][0]["name"], "data.bin");
    let imported = desk.arraylab(&["import", "job.fio"]);
    assert_eq!(imported.code, 2);
    assert!(imported.stderr.contains("arraylab replay"), "{}", imported.stderr);
    // A trace of several devices is one job all the same.
    let more = "other.bin add\nother.bin open\nother.bin read 0 4096\nother.bin close\n";
    desk.write("trace.log", &format!("{log}{more}"));
    let said = desk.arraylab(&["run", "job.fio", "--format", "fio-json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let document = said.json();
    let jobs = document["jobs"].as_array().unwrap();
    assert_eq!((jobs.len(), &jobs[0]["read"]["total_ios"], &jobs[0]["write"]["total_ios"]), (1, &3.into(), &1.into()));
    desk.write("job.fio", "[r]\nread_iolog=missing.log\n");
    let missing = desk.arraylab(&["run", "job.fio"]);
    assert!(missing.code != 0 && missing.stderr.contains("missing.log"), "{}", missing.stderr);
}
