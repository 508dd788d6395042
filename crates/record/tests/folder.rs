//! Run folders: never used twice, readable at any time, and clear about what is wrong with them.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use device::Operation;
use record::{
    Clock, FolderError, Keeping, Labels, Meta, Phase, Recorder, Row, RunFile, RunFolder, RunState, Spill, WhenBehind,
};
use units::{Bytes, Instant};

/// 2026-02-14, 23:59:59 UTC.
fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_771_113_599)
}

fn meta(folder: &RunFolder) -> Meta {
    Meta {
        run: folder.id(),
        clock: Clock::Live,
        origin: Some(now()),
        labels: Labels { streams: vec!["s".into()], devices: vec!["d".into()] },
    }
}

/// Records 100 rows, spilled as they go or not.
fn record(folder: &RunFolder, as_it_goes: bool) -> (Recorder, record::Log) {
    let spill = if as_it_goes { Spill::AsYouGo(folder.raw_path()) } else { Spill::WhenFull(folder.raw_path()) };
    let keeping = Keeping { expected_rows: 0, memory: Bytes::mib(16), spill, when_behind: WhenBehind::Wait };
    let (recorder, mut logs) = Recorder::start(&keeping, &meta(folder), 1).unwrap();
    let mut log = logs.pop().unwrap();
    for row in rows() {
        log.push(row);
    }
    (recorder, log)
}

fn rows() -> Vec<Row> {
    (0..100).map(|i| Row { completed: Instant::from_nanos(i), ..Row::new(Operation::Write, Phase::Measure) }).collect()
}

fn read(folder: &RunFolder) -> Vec<Row> {
    let (mut records, read_meta) = folder.records().unwrap();
    assert_eq!(read_meta, meta(folder));
    let mut rows = Vec::new();
    records
        .visit(|some| {
            rows.extend_from_slice(some);
            Ok::<_, FolderError>(())
        })
        .unwrap();
    assert_eq!(records.rows(), rows.len() as u64);
    rows
}

fn message<T>(result: Result<T, FolderError>, root: &Path) -> String {
    let text = result.err().expect("an error").to_string();
    text.replace(&root.display().to_string(), "ROOT")
}

#[test]
fn folders_are_numbered_and_never_used_twice() {
    let root = tempfile::tempdir().unwrap();
    let runs = root.path().join("runs");
    let make = |name| RunFolder::create(&runs, name, now()).unwrap().id();
    assert_eq!(make("survey"), "2026-02-14-survey-1");
    assert_eq!(make("survey"), "2026-02-14-survey-2");
    assert_eq!(make("raid-i/figure 03"), "2026-02-14-raid-i-figure-03-1");
    // Two programs at once do not meet.
    let mut made: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..8).map(|_| scope.spawn(|| (0..20).map(|_| make("race")).collect::<Vec<_>>())).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    made.sort();
    made.dedup();
    assert_eq!(made.len(), 160);
}

#[test]
fn what_is_written_is_read_and_replaced_whole() {
    let root = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(root.path(), "run", now()).unwrap();
    assert_eq!(folder.read(RunFile::Summary).unwrap(), None);
    folder.write(RunFile::Experiment, b"[workload]\n").unwrap();
    folder.write_json(RunFile::Summary, &vec![1, 2]).unwrap();
    folder.write_json(RunFile::Summary, &vec![3]).unwrap();
    folder.set_state(RunState::Interrupted).unwrap();
    let (again, info) = RunFolder::open(folder.path()).unwrap();
    assert_eq!((info.name.as_str(), info.started, info.state), ("run", Some(now()), RunState::Interrupted));
    assert_eq!(again.read(RunFile::Experiment).unwrap().unwrap(), b"[workload]\n");
    assert_eq!(again.read_json::<Vec<u32>>(RunFile::Summary).unwrap(), Some(vec![3]));
    let mut names: Vec<_> = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["experiment.toml", "run.json", "summary.json"], "nothing temporary is left");
}

#[test]
fn records_are_readable_while_the_run_goes_on_and_after() {
    let root = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(root.path(), "run", now()).unwrap();
    let (recorder, mut log) = record(&folder, true);
    log.hand_over();
    while folder.raw_path().metadata().unwrap().len() < 100 * 56 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(read(&folder), rows());
    // A table that was cut off while it was made of them does not stand in their way.
    std::fs::write(folder.records_path(), "PAR1").unwrap();
    assert_eq!(read(&folder), rows());
    drop(log);
    folder.write_records(&recorder.finish(), &meta(&folder)).unwrap();
    assert!(folder.records_path().exists() && !folder.raw_path().exists());
    assert_eq!(read(&folder), rows());
}

#[test]
fn what_is_no_run_folder_is_refused_with_the_reason() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    assert_eq!(message(RunFolder::open(&root.join("gone")), root), "ROOT/gone: No such file or directory (os error 2)");
    let advice = "it has no run.json; give a folder that 'arraylab run' or 'arraylab survey' has made under runs/";
    assert_eq!(message(RunFolder::open(root), root), format!("ROOT is not a run folder: {advice}"));
    std::fs::write(root.join("file"), "").unwrap();
    assert_eq!(message(RunFolder::open(&root.join("file")), root), format!("ROOT/file is not a run folder: {advice}"));

    let folder = RunFolder::create(root, "run", now()).unwrap();
    let info = folder.path().join("run.json");
    let text = std::fs::read_to_string(&info).unwrap();
    std::fs::write(&info, text.replace("\"schema\": 1", "\"schema\": 2, \"shape\": [1]")).unwrap();
    assert_eq!(
        message(RunFolder::open(folder.path()), root),
        "ROOT/2026-02-14-run-1 is a run folder of schema 2; this program reads up to 1: use the arraylab that made it, or a newer one"
    );
    std::fs::write(&info, &text[..text.len() / 2]).unwrap();
    let cut = message(RunFolder::open(folder.path()), root);
    assert!(cut.starts_with("ROOT/2026-02-14-run-1/run.json is damaged: EOF while parsing"), "{cut}");
    std::fs::write(&info, text).unwrap();

    let none = message(folder.records(), root);
    assert!(none.starts_with("ROOT/2026-02-14-run-1 holds no records: its run goes on, or was killed"), "{none}");
    folder.set_state(RunState::Complete).unwrap();
    let none = message(folder.records(), root);
    assert!(none.ends_with("were they moved away?"), "{none}");
    folder.write(RunFile::Summary, b"{ \"total\": ").unwrap();
    let damaged = message(folder.read_json::<serde_json::Value>(RunFile::Summary), root);
    assert!(damaged.starts_with("ROOT/2026-02-14-run-1/summary.json is damaged: EOF"), "{damaged}");
}

#[test]
fn a_conversion_that_fails_leaves_the_raw_rows() {
    let root = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(root.path(), "run", now()).unwrap();
    let (recorder, mut log) = record(&folder, true);
    log.hand_over();
    drop(log);
    let recording = recorder.finish();
    // A directory stands where the file is to go.
    std::fs::create_dir(folder.records_path()).unwrap();
    folder.write_records(&recording, &meta(&folder)).unwrap_err();
    std::fs::remove_dir(folder.records_path()).unwrap();
    assert!(folder.raw_path().exists());
}

/// Needs root for the mount.
#[test]
fn a_disk_too_full_for_the_row_file_is_named_and_nothing_half_written_stays() {
    let root = tempfile::tempdir().unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "none"]).arg(root.path()).output();
    if !mount.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: mounting a tmpfs needs root");
        return;
    }
    let folder = RunFolder::create(root.path(), "run", now()).unwrap();
    let keeping = Keeping {
        expected_rows: 0,
        memory: Bytes::mib(64),
        spill: Spill::WhenFull(folder.raw_path()),
        when_behind: WhenBehind::Wait,
    };
    let (recorder, mut logs) = Recorder::start(&keeping, &meta(&folder), 1).unwrap();
    for i in 0..600_000u64 {
        let mut row = Row::new(Operation::Read, Phase::Measure);
        // Differences without a pattern, or delta encoding would make nothing of it.
        let scrambled = (i * i).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
        row.completed = Instant::from_nanos(scrambled.wrapping_mul(scrambled) >> 1);
        logs[0].push(row);
    }
    drop(logs);
    let error = message(folder.write_records(&recorder.finish(), &meta(&folder)), root.path());
    let left: Vec<_> = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let unmounted = Command::new("umount").arg("-l").arg(root.path()).status();
    assert!(unmounted.unwrap().success());
    assert!(error.starts_with("ROOT/2026-02-14-run-1/records.parquet cannot be written: "), "{error}");
    assert!(error.contains("No space left on device"), "{error}");
    assert_eq!(left, ["run.json"]);
}
