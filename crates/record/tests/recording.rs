//! Rows that were pushed come out again: all of them, in order, or counted as lost.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use device::Operation;
use proptest::prelude::*;
use record::{
    CHUNK_ROWS, Clock, Keeping, Labels, Log, Meta, Phase, RawError, RawFile, RecordError, Recorder, Recording, Row,
    Spill, WhenBehind,
};
use units::{Bytes, Instant};

const CHUNK: Bytes = Bytes::new((CHUNK_ROWS * size_of::<Row>()) as u64);

fn meta() -> Meta {
    Meta {
        run: "2026-02-14-test-1".into(),
        clock: Clock::Simulated,
        origin: Some(SystemTime::UNIX_EPOCH),
        labels: Labels { streams: names("stream", 4), devices: names("device", 7) },
    }
}

fn names(kind: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{kind}-{number}")).collect()
}

fn keeping(chunks: u64, spill: Spill) -> Keeping {
    Keeping { expected_rows: 0, memory: CHUNK * chunks, spill, when_behind: WhenBehind::Wait }
}

/// A row by which log and place can be told.
fn row(log: usize, number: usize, completed: u64) -> Row {
    let mut row = Row::new(Operation::ALL[number % 5], Phase::ALL[number % 3]);
    row.completed = Instant::from_nanos(completed);
    row.submitted = Instant::from_nanos(completed / 2);
    row.intended = Instant::from_nanos(completed / 4);
    row.offset = Bytes::new(number as u64);
    row.length = number as u32;
    row.stream = log as u16;
    row.device = (number % 7) as u16;
    row.depth = (number % 11) as u16;
    row.cpu = (number % 13) as u16;
    row.errno = (number % 17) as u16;
    row.pass = (number % 19) as u16;
    row
}

fn collect(recording: &Recording) -> Vec<Row> {
    let mut rows = Vec::new();
    recording
        .visit(|some| {
            rows.extend_from_slice(some);
            Ok::<_, RawError>(())
        })
        .unwrap();
    rows
}

fn push_all(log: &mut Log, number: usize, count: usize, step: u64) {
    for place in 0..count {
        log.push(row(number, place, step * place as u64));
    }
}

#[test]
fn a_run_within_its_memory_makes_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.raw");
    let (recorder, mut logs) = Recorder::start(&keeping(8, Spill::WhenFull(path.clone())), &meta(), 1).unwrap();
    push_all(&mut logs[0], 0, 3 * CHUNK_ROWS + 5, 1);
    drop(logs);
    let recording = recorder.finish();
    assert_eq!(recording.rows(), 3 * CHUNK_ROWS as u64 + 5);
    assert!(recording.raw().is_none() && !path.exists());
    let expected: Vec<Row> = (0..3 * CHUNK_ROWS + 5).map(|place| row(0, place, place as u64)).collect();
    assert!(collect(&recording) == expected);
}

#[test]
fn logs_of_several_threads_merge_by_completion_also_across_the_raw_file() {
    for spill_as_it_goes in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.raw");
        let spill = if spill_as_it_goes { Spill::AsYouGo(path) } else { Spill::WhenFull(path) };
        let (recorder, logs) = Recorder::start(&keeping(9, spill), &meta(), 3).unwrap();
        // Unlike speeds, so that logs end at different times and rows interleave.
        let counts = [7 * CHUNK_ROWS + 1, 3 * CHUNK_ROWS, 5 * CHUNK_ROWS + CHUNK_ROWS / 2];
        std::thread::scope(|scope| {
            for (number, mut log) in logs.into_iter().enumerate() {
                scope.spawn(move || push_all(&mut log, number, counts[number], [2, 5, 3][number]));
            }
        });
        let recording = recorder.finish();
        assert!(
            recording.raw().is_some_and(|raw| raw.rows() >= 4 * CHUNK_ROWS as u64),
            "more than the memory was pushed"
        );
        assert_eq!(recording.loss().rows, 0);
        let rows = collect(&recording);
        assert_eq!(rows.len(), counts.iter().sum::<usize>());
        assert_eq!(rows.len() as u64, recording.rows());
        assert!(rows.is_sorted_by_key(|row| (row.completed, row.stream)));
        for (number, count) in counts.into_iter().enumerate() {
            let of_log: Vec<Row> = rows.iter().copied().filter(|row| usize::from(row.stream) == number).collect();
            let step = [2, 5, 3][number];
            assert!(of_log.iter().enumerate().all(|(place, got)| *got == row(number, place, step * place as u64)));
            assert_eq!(of_log.len(), count);
        }
    }
}

#[test]
fn rows_beyond_the_memory_are_counted_when_nothing_may_be_spilled() {
    let (recorder, mut logs) = Recorder::start(&keeping(3, Spill::Never), &meta(), 1).unwrap();
    push_all(&mut logs[0], 0, 3 * CHUNK_ROWS + 1_234, 1);
    assert_eq!(logs[0].lost(), 1_234);
    drop(logs);
    let recording = recorder.finish();
    assert_eq!(recording.rows(), 3 * CHUNK_ROWS as u64);
    assert_eq!(recording.loss().rows, 1_234);
    assert_eq!(recording.loss().reason, None);
}

#[test]
fn a_disk_that_refuses_stops_the_recording_and_says_so() {
    let path = Path::new("/no-such-directory/records.raw").to_owned();
    let (recorder, mut logs) = Recorder::start(&keeping(3, Spill::WhenFull(path)), &meta(), 1).unwrap();
    push_all(&mut logs[0], 0, 5 * CHUNK_ROWS, 1);
    let trouble = recorder.trouble().unwrap();
    assert!(trouble.contains("/no-such-directory/records.raw: No such file"), "{trouble}");
    drop(logs);
    let recording = recorder.finish();
    assert_eq!(recording.rows() + recording.loss().rows, 5 * CHUNK_ROWS as u64);
    assert!(recording.rows() >= 2 * CHUNK_ROWS as u64, "what was in memory stays");
    assert_eq!(recording.loss().reason, Some(trouble));
}

/// A file system of 8 MiB takes two blocks; needs root for the mount.
#[test]
fn a_disk_that_fills_up_keeps_what_it_took() {
    let folder = tempfile::tempdir().unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "none"]).arg(folder.path()).output();
    if !mount.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: mounting a tmpfs needs root");
        return;
    }
    let path = folder.path().join("records.raw");
    let (recorder, mut logs) = Recorder::start(&keeping(4, Spill::WhenFull(path.clone())), &meta(), 1).unwrap();
    push_all(&mut logs[0], 0, 20 * CHUNK_ROWS, 1);
    drop(logs);
    let recording = recorder.finish();
    let on_disk = RawFile::open(&path).unwrap().0;
    let rows = collect(&recording);
    let unmounted = Command::new("umount").arg("-l").arg(folder.path()).status();
    assert!(unmounted.unwrap().success());
    assert!(recording.loss().reason.as_ref().unwrap().contains("No space left"), "{:?}", recording.loss());
    assert_eq!(on_disk.rows(), 2 * CHUNK_ROWS as u64, "nothing of the block that did not fit stays");
    assert_eq!(recording.rows() + recording.loss().rows, 20 * CHUNK_ROWS as u64);
    // The rows that were kept are the first ones, without a gap.
    assert_eq!(rows.len() as u64, recording.rows());
    assert!(rows.iter().enumerate().all(|(place, got)| *got == row(0, place, place as u64)));
}

#[test]
fn too_little_memory_is_refused_with_the_amount_that_would_do() {
    let keeping = Keeping { memory: Bytes::kib(4), ..keeping(1, Spill::Never) };
    let error = Recorder::start(&keeping, &meta(), 2).unwrap_err();
    assert!(matches!(&error, RecordError::TooLittleMemory { needed, .. } if *needed == Bytes::new(56 * 16 * 6)));
    assert_eq!(error.to_string(), "4 KiB of memory are too little to record with 2 threads; grant at least 5376 B");
}

#[test]
fn many_logs_share_the_memory_that_there_is() {
    // Whole chunks for all of them would take 900.
    let (recorder, logs) = Recorder::start(&keeping(4, Spill::Never), &meta(), 300).unwrap();
    for (number, mut log) in logs.into_iter().enumerate() {
        (0..700).for_each(|n| log.push(row(number % 4, n, (n * 300 + number) as u64)));
    }
    let recording = recorder.finish();
    assert_eq!((recording.rows(), recording.loss().rows), (300 * 700, 0));
    let mut last = 0;
    let visited = recording.visit(|rows| {
        for row in rows {
            assert_eq!(row.completed.as_nanos(), last, "in order of completion");
            last += 1;
        }
        Ok::<(), record::RawError>(())
    });
    visited.unwrap();
    assert_eq!(last, 300 * 700);
}

#[test]
fn pushing_touches_no_new_memory() {
    fn page_faults() -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        // The fields after the name in parentheses: state, 6 numbers, then the minor faults (proc(5)).
        stat.rsplit_once(')').unwrap().1.split_whitespace().nth(7).unwrap().parse().unwrap()
    }
    let rows = 10 * CHUNK_ROWS;
    let keeping =
        Keeping { expected_rows: rows as u64, memory: CHUNK * 20, spill: Spill::Never, when_behind: WhenBehind::Lose };
    let (recorder, mut logs) = Recorder::start(&keeping, &meta(), 1).unwrap();
    let before = page_faults();
    push_all(&mut logs[0], 0, rows, 1);
    let faults = page_faults() - before;
    // Untouched, these rows are 8960 pages.
    assert!(faults < 100, "{faults} page faults while pushing");
    drop(logs);
    assert_eq!(recorder.finish().late_chunks(), 0);
}

/// Not a test by itself: what the next one kills.
#[test]
fn records_until_it_is_killed() {
    let Some(path) = std::env::var_os("ARRAYLAB_TEST_RECORD_UNTIL_KILLED") else { return };
    let (_recorder, mut logs) = Recorder::start(&keeping(3, Spill::AsYouGo(path.into())), &meta(), 1).unwrap();
    for place in 0.. {
        logs[0].push(row(0, place, place as u64));
        if place % 10_000 == 0 {
            logs[0].hand_over();
        }
    }
}

#[test]
fn what_a_killed_process_recorded_is_readable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.raw");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "records_until_it_is_killed"])
        .env("ARRAYLAB_TEST_RECORD_UNTIL_KILLED", &path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let started = std::time::Instant::now();
    while !path.metadata().is_ok_and(|file| file.len() > 1 << 23) {
        assert!(started.elapsed().as_secs() < 60, "the child does not record");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // Readable while it grows, too.
    let live = Recording::from_raw(&path).unwrap().0;
    child.kill().unwrap();
    child.wait().unwrap();
    let (dead, read_meta) = Recording::from_raw(&path).unwrap();
    assert_eq!(read_meta, meta());
    for recording in [live, dead] {
        let rows = collect(&recording);
        assert!(rows.len() > 100_000);
        assert!(rows.iter().enumerate().all(|(place, got)| *got == row(0, place, place as u64)));
    }
}

#[test]
fn files_that_are_no_raw_files_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let message = |contents: &[u8]| {
        let path = folder.path().join("file");
        std::fs::write(&path, contents).unwrap();
        RawFile::open(&path).unwrap_err().to_string().replace(&path.display().to_string(), "FILE")
    };
    let not_rows = "FILE is not a raw file of rows: it does not start with the whole header of one; give the records.raw of a run folder";
    assert_eq!(message(b""), not_rows);
    assert_eq!(message(b"PAR1 and much more text than a header has"), not_rows);
    assert_eq!(message(b"arraylab rows\n\x01\0\x38\0\0\0\xff\xff\0\0{}"), not_rows);
    assert_eq!(
        message(b"arraylab rows\n\x02\0\x38\0\0\0\x02\0\0\0{}"),
        "FILE is a raw file of version 2; this program reads version 1: use the arraylab that wrote it, or a newer one"
    );
    let missing = RawFile::open(&folder.path().join("missing")).unwrap_err().to_string();
    assert!(missing.ends_with("missing: No such file or directory (os error 2)"), "{missing}");
}

/// A raw file of some rows, as bytes.
fn raw_bytes(path: &Path, rows: usize) -> Vec<u8> {
    let (recorder, mut logs) = Recorder::start(&keeping(3, Spill::AsYouGo(path.to_owned())), &meta(), 1).unwrap();
    let whole = path.metadata().unwrap().len() + 16 + 56 * rows as u64;
    push_all(&mut logs[0], 0, rows, 1);
    logs[0].hand_over();
    while path.metadata().unwrap().len() < whole {
        std::thread::sleep(std::time::Duration::from_micros(50));
    }
    drop(logs);
    recorder.finish();
    std::fs::read(path).unwrap()
}

/// The numbers of a row are indices into the labels: whoever takes rows relies on them.
#[test]
fn a_row_of_a_stream_or_device_without_a_label_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.raw");
    let bytes = raw_bytes(&path, 10);
    let rows = bytes.len() - 10 * 56;
    // Stream and device of the fourth row; the labels end at 4 and 7.
    for (field, first_bad) in [(36, 4), (38, 7)] {
        for (number, good) in [(first_bad - 1, true), (first_bad, false), (u16::MAX, false)] {
            let mut bytes = bytes.clone();
            let at = rows + 3 * 56 + field;
            bytes[at..at + 2].copy_from_slice(&number.to_le_bytes());
            std::fs::write(&path, &bytes).unwrap();
            let read = Recording::from_raw(&path).unwrap().0.visit(|_| Ok::<_, RawError>(()));
            match read {
                Ok(()) => assert!(good, "{number} at {field}"),
                Err(error) => {
                    assert!(!good, "{error}");
                    let at = format!("is damaged at byte {}: this is no row of the run", rows + 3 * 56);
                    assert!(error.to_string().contains(&at), "{error}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever bytes are changed, rows that are given can be summed up: they have labels, and their stamps are in
    /// order.
    #[test]
    fn a_raw_file_with_bytes_changed_gives_sound_rows_or_an_error(
        changes in prop::collection::vec((0.0..1.0f64, any::<u8>()), 1..20),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.raw");
        let mut bytes = raw_bytes(&path, 50);
        for (place, byte) in changes {
            let place = (bytes.len() as f64 * place) as usize;
            bytes[place] = byte;
        }
        std::fs::write(&path, &bytes).unwrap();
        if let Ok((recording, meta)) = Recording::from_raw(&path) {
            let _ = recording.visit(|rows| {
                assert!(rows.iter().all(|row| meta.labels.fit(row)));
                Ok::<_, RawError>(())
            });
        }
    }

    /// A tail that is cut off anywhere takes away only the rows that it touches.
    #[test]
    fn a_raw_file_cut_anywhere_gives_the_rows_before_the_cut(
        blocks in prop::collection::vec(1usize..40, 1..6),
        cut in 0.0..1.0f64,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.raw");
        let (recorder, mut logs) = Recorder::start(&keeping(3, Spill::AsYouGo(path.clone())), &meta(), 1).unwrap();
        let header = path.metadata().unwrap().len();
        let mut length = header;
        let mut place = 0;
        for rows in &blocks {
            for _ in 0..*rows {
                logs[0].push(row(0, place, place as u64));
                place += 1;
            }
            logs[0].hand_over();
            // The keeper has written it when the file has grown.
            length += 16 + 56 * *rows as u64;
            while path.metadata().unwrap().len() < length {
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
        }
        let cut = header + ((length - header) as f64 * cut) as u64;
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(cut).unwrap();
        let mut whole = 0;
        let mut offset = header;
        for rows in &blocks {
            whole += cut.saturating_sub(offset + 16).div_euclid(56).min(*rows as u64);
            offset += 16 + 56 * *rows as u64;
        }
        let read = collect(&Recording::from_raw(&path).unwrap().0);
        prop_assert_eq!(read.len() as u64, whole);
        prop_assert!(read.iter().enumerate().all(|(place, got)| *got == row(0, place, place as u64)));
        drop(logs);
        drop(recorder);
    }
}
