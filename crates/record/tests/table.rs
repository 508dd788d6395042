//! Row files: what was written is read, by us and by others, and what is not a row file is refused with the reason.

use std::process::Command;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use record::{Clock, Labels, Meta, Operation, Phase, Row, RowReader, RowWriter, TableError};
use units::{Bytes, Instant};

fn meta() -> Meta {
    Meta {
        run: "2026-02-14-test-1".into(),
        clock: Clock::Live,
        origin: Some(SystemTime::UNIX_EPOCH + Duration::from_nanos(1_771_061_400_123_456_789)),
        labels: Labels {
            streams: vec!["a \"quoted\" stream".into()],
            devices: vec!["/dev/sda".into(), "gerät".into()],
        },
    }
}

fn write(path: &std::path::Path, rows: &[Row]) {
    let existed = path.exists();
    let mut writer = RowWriter::create(path, &meta()).unwrap();
    for piece in rows.chunks(100_000) {
        writer.push(piece).unwrap();
    }
    assert!(path.metadata().is_ok_and(|file| file.len() > 0) == existed, "a file is not seen before it is whole");
    writer.finish().unwrap();
}

fn read(path: &std::path::Path) -> (Meta, Vec<Row>) {
    let (mut reader, meta) = RowReader::open(path).unwrap();
    let mut rows = Vec::new();
    reader
        .visit(|some| {
            rows.extend_from_slice(some);
            Ok::<_, TableError>(())
        })
        .unwrap();
    assert_eq!(rows.len() as u64, reader.rows());
    (meta, rows)
}

/// The row of request `i` of a run of two devices, with a little of everything.
fn row(i: u64) -> Row {
    let random = i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    let mut row = Row::new(Operation::ALL[(random % 5) as usize], Phase::ALL[(random % 3) as usize]);
    row.completed = Instant::from_nanos(1_000_000_000 + i * 700);
    row.submitted = Instant::from_nanos(1_000_000_000 + i * 700 - random % 1_000_000);
    row.intended = row.submitted;
    row.offset = Bytes::new((random >> 34) * 512);
    row.length = 4096;
    row.device = (random % 2) as u16;
    row.depth = (random % 32) as u16;
    row
}

#[test]
fn several_row_groups_come_back_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.parquet");
    let rows: Vec<Row> = (0..700_000).map(row).collect();
    write(&path, &rows);
    let (read_meta, read_rows) = read(&path);
    assert_eq!(read_meta, meta());
    assert!(read_rows == rows);
    // Nothing but the file is left.
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    let bytes = path.metadata().unwrap().len() / rows.len() as u64;
    assert!(bytes < 16, "{bytes} bytes a row");
}

#[test]
fn a_writer_that_is_dropped_leaves_nothing_and_an_older_file_in_peace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.parquet");
    write(&path, &[row(1)]);
    let mut writer = RowWriter::create(&path, &meta()).unwrap();
    writer.push(&(0..600_000).map(row).collect::<Vec<_>>()).unwrap();
    drop(writer);
    assert_eq!(read(&path).1, [row(1)]);
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
}

#[test]
fn no_rows_make_a_file_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.parquet");
    write(&path, &[]);
    assert_eq!(read(&path), (meta(), vec![]));
}

#[test]
fn files_that_are_no_row_files_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.parquet");
    let message = || match RowReader::open(&path) {
        Ok(_) => "opened".to_owned(),
        Err(error) => error.to_string().replace(&path.display().to_string(), "FILE"),
    };
    assert_eq!(message(), "FILE: No such file or directory (os error 2)");
    std::fs::write(&path, "not parquet at all").unwrap();
    let text = message();
    assert!(
        text.starts_with("FILE cannot be read as Parquet: ")
            && text.ends_with("take it from a copy, or make the run again"),
        "{text}"
    );
    // Cut off.
    write(&path, &(0..10_000).map(row).collect::<Vec<_>>());
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert!(message().starts_with("FILE cannot be read as Parquet: "));
    // The metadata stands as text in the file, which allows for forgeries of equal length.
    let forge = |from: &str, to: &str| {
        let at = whole.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        let mut forged = whole.clone();
        forged[at..at + from.len()].copy_from_slice(to.as_bytes());
        std::fs::write(&path, forged).unwrap();
        message()
    };
    assert_eq!(
        forge("arraylab.schema\u{18}\u{1}1", "arraylab.schema\u{18}\u{1}7"),
        "FILE is a table of schema 7; this program reads up to 1: use the arraylab that wrote it, or a newer one"
    );
    assert_eq!(
        forge("arraylab.table\u{18}\u{4}rows", "arraylab.table\u{18}\u{4}cows"),
        "FILE is a Parquet file but not arraylab's table of rows: it lacks the metadata 'arraylab.table'"
    );
    assert_eq!(forge("errno", "error"), "FILE is damaged: column 'errno' is missing");
    // Bytes changed anywhere in the data give an error or other numbers, never a panic.
    for at in (4..whole.len()).step_by(397) {
        let mut forged = whole.clone();
        forged[at] ^= 0x55;
        std::fs::write(&path, forged).unwrap();
        if let Ok((mut reader, _)) = RowReader::open(&path) {
            let _ = reader.visit(|_| Ok::<_, TableError>(()));
        }
    }
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let error = RowWriter::create("/no-such-directory/records.parquet".as_ref(), &meta()).map(drop).unwrap_err();
    assert_eq!(error.to_string(), "/no-such-directory/records.parquet: No such file or directory (os error 2)");
}

/// DuckDB and pyarrow read the file. Needs a Python that has them, named by ARRAYLAB_PYTHON.
#[test]
fn others_read_the_same() {
    let Some(python) = std::env::var_os("ARRAYLAB_PYTHON") else {
        eprintln!("skipped: ARRAYLAB_PYTHON names no Python that has duckdb and pyarrow");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.parquet");
    let rows: Vec<Row> = (0..300_000).map(row).collect();
    write(&path, &rows);
    let script = r#"
import sys, json, duckdb, pyarrow.parquet
path = sys.argv[1]
print(*duckdb.sql(f"select count(*), sum(completed_ns - intended_ns)::bigint, sum(offset_bytes)::bigint, min(submitted_ns - 1500000000), "
    f"count(*) filter (operation = 'write-zeroes' and phase = 'cool-down') from '{path}'").fetchall()[0])
table = pyarrow.parquet.read_table(path)
print(*(f"{field.name}:{field.type}" for field in table.schema))
print(table["operation"].to_pylist()[:3], table["depth"].to_pylist()[:3])
meta = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
print(json.loads(meta["arraylab.meta"])["devices"])
"#;
    let output = Command::new(python).arg("-c").arg(script).arg(&path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let sum = |of: fn(&Row) -> u64| rows.iter().map(of).sum::<u64>();
    let expected = format!(
        "300000 {} {} {} {}\n\
         intended_ns:int64 submitted_ns:int64 completed_ns:int64 offset_bytes:int64 length_bytes:int64 request:int64 stream:int32 device:int32 \
         operation:string depth:int32 cpu:int32 errno:int32 pass:int32 priority:int32 phase:string\n\
         ['{}', '{}', '{}'] [{}, {}, {}]\n['/dev/sda', 'gerät']\n",
        sum(|row| row.response().as_nanos()),
        sum(|row| row.offset.get()),
        rows.iter().map(|row| row.submitted.as_nanos() as i64 - 1_500_000_000).min().unwrap(),
        rows.iter().filter(|row| row.operation == Operation::WriteZeroes && row.phase == Phase::CoolDown).count(),
        rows[0].operation.name(),
        rows[1].operation.name(),
        rows[2].operation.name(),
        rows[0].depth,
        rows[1].depth,
        rows[2].depth,
    );
    assert_eq!(text, expected);
}

/// Whoever takes rows relies on their numbers and on the order of their stamps.
#[test]
fn rows_that_no_run_can_have_made_are_refused() {
    let changes: [fn(&mut Row); 4] = [
        |row| row.stream = 1,
        |row| row.device = 2,
        |row| row.intended = row.completed + units::Duration::nanos(1),
        |row| row.submitted = row.completed + units::Duration::nanos(1),
    ];
    for change in changes {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.parquet");
        let mut rows: Vec<Row> = (0..10).map(row).collect();
        change(&mut rows[7]);
        write(&path, &rows);
        let error = RowReader::open(&path).unwrap().0.visit(|_| Ok::<_, TableError>(())).unwrap_err();
        assert!(error.to_string().contains("no run with the table's streams and devices"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_rows_come_back_the_same(rows in prop::collection::vec(any_row(), 0..300)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.parquet");
        write(&path, &rows);
        prop_assert_eq!(read(&path).1, rows);
    }
}

fn any_row() -> impl Strategy<Value = Row> {
    let stamps = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>());
    let shorts = (any::<u16>(), any::<u16>(), any::<u16>(), any::<u16>(), any::<u16>(), any::<u16>(), any::<u16>());
    (stamps, shorts, 0..5usize, 0..3usize).prop_map(|(stamps, shorts, operation, phase)| {
        let mut row = Row::new(Operation::ALL[operation], Phase::ALL[phase]);
        let mut ordered = [stamps.0, stamps.1, stamps.2].map(Instant::from_nanos);
        ordered.sort();
        [row.intended, row.submitted, row.completed] = ordered;
        row.offset = Bytes::new(stamps.3);
        row.length = stamps.4;
        (row.stream, row.device, row.depth, row.cpu, row.errno, row.pass, row.priority) = shorts;
        // The labels name one stream and two devices.
        (row.stream, row.device) = (0, row.device % 2);
        row
    })
}
