//! Records: pushing, summing up.
//!
//! A push is measured in two surroundings. Alone, in a tight loop; and between pieces of work that walk at random
//! through memory of the size of a second-level cache, as a generator with thousands of requests under way does. The
//! second figure is the difference to the same work without the push, so it holds what the row takes away from others
//! in the caches.

use std::hint::black_box;

use analysis::{Occupancies, Series, Summarizer};
use record::{
    Clock, FolderError, Keeping, Labels, Meta, Operation, Phase, RawError, Recorder, Recording, Row, RowReader,
    RowWriter, Spans, Spill, TableError, WhenBehind,
};
use units::{Bytes, Duration, Instant};

use crate::measure::{amount, best, line};

const ROWS: u64 = amount(10_000_000, 100_000) as u64;
const ROUNDS: u32 = amount(5, 1);
const DEVICES: u16 = 4;

pub fn run() -> bool {
    let mut met = true;
    let alone = best(ROUNDS, || {
        black_box(record_all());
    });
    // The recorder's start, which touches the memory, is not part of a push.
    let start = best(ROUNDS, || drop(black_box(start())));
    met &= line("push, alone", (alone.cpu - start.cpu) * 1e9 / ROWS as f64, "ns", Some(30.0));

    let mut memory: Vec<u32> = (0..1 << 18).collect();
    let (mut without, mut with) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        // In turns, so that both see the same neighbours.
        without = without.min(best(1, || generator_work(&mut memory, |_| {})).cpu);
        let (recorder, mut log) = start_one();
        with = with.min(best(1, || generator_work(&mut memory, |i| log.push(row(i)))).cpu);
        drop(log);
        drop(recorder);
    }
    println!("  (the work around it takes {:.1} ns)", without * 1e9 / ROWS as f64);
    met &= line("push, within 1 MiB of other work", (with - without) * 1e9 / ROWS as f64, "ns", Some(30.0));

    for (spans, what) in
        [(Spans::off(), "span, switched off"), (Spans::on(Bytes::gib(1)), "span, kept, with its memory's page faults")]
    {
        let (part, phase) = (spans.part("part"), spans.phase("phase"));
        let cost = best(ROUNDS, || {
            for i in 0..ROWS {
                black_box(&spans).keep(i, part, phase, Instant::from_nanos(i), Instant::from_nanos(i + 9));
            }
            drop(spans.take());
        });
        line(what, cost.cpu * 1e9 / ROWS as f64, "ns", None);
    }

    let recording = record_all();
    let sum = best(ROUNDS, || {
        let mut summarizer = Summarizer::new(&meta().labels);
        recording
            .visit(|rows| {
                summarizer.add(rows);
                Ok::<_, RawError>(())
            })
            .expect("all rows are in memory");
        black_box(summarizer.summary());
    });
    met &= line("summary", sum.cpu * 1e9 / ROWS as f64, "ns a row", None);
    let mut summarizer = Summarizer::new(&meta().labels);
    let visit = |take: &mut dyn FnMut(&[Row])| {
        recording
            .visit(|rows| {
                take(rows);
                Ok::<_, RawError>(())
            })
            .expect("all rows are in memory");
    };
    visit(&mut |rows| summarizer.add(rows));
    let occupancy = best(ROUNDS, || {
        let mut occupancies = Occupancies::new(&summarizer);
        visit(&mut |rows| occupancies.add(rows));
        black_box(occupancies.finish());
    });
    line("occupancy", occupancy.cpu * 1e9 / ROWS as f64, "ns a row", None);
    let series = best(ROUNDS, || {
        let mut series = Series::new(Duration::millis(10), usize::from(DEVICES));
        visit(&mut |rows| series.add(rows));
        black_box(series);
    });
    line("series", series.cpu * 1e9 / ROWS as f64, "ns a row", None);

    let folder = tempfile::tempdir_in(".").expect("the current directory is on a disk and can be written to");
    let path = folder.path().join("records.parquet");
    let write = best(3, || {
        let mut writer = RowWriter::create(&path, &meta()).expect("a new file");
        recording.visit(|rows| writer.push(rows).map_err(FolderError::from)).expect("the disk has space");
        writer.finish().expect("the disk has space");
    });
    met &= line("records.parquet of all rows, flushed to disk", write.wall, "s", Some(3.0));
    line("its processor time", write.cpu, "s", None);
    let bytes = path.metadata().expect("it was just written").len();
    line("its size", bytes as f64 / ROWS as f64, "bytes a row", None);
    let read = best(3, || {
        let (mut reader, _) = RowReader::open(&path).expect("it was just written");
        reader
            .visit(|rows| {
                black_box(rows);
                Ok::<_, TableError>(())
            })
            .expect("it was just written");
    });
    line("reading it back", read.wall, "s", None);
    line("its processor time", read.cpu, "s", None);
    met
}

/// Per call of `record`, eight dependent steps through the memory.
fn generator_work(memory: &mut [u32], mut record: impl FnMut(u64)) {
    let mask = memory.len() - 1;
    let mut at = 1usize;
    for i in 0..ROWS {
        for _ in 0..8 {
            at = (at.wrapping_mul(0x9e37_79b9) + memory[at & mask] as usize) & mask;
            memory[at] = memory[at].wrapping_add(1);
        }
        record(i);
    }
    black_box(at);
}

fn record_all() -> Recording {
    let (recorder, mut log) = start_one();
    for i in 0..ROWS {
        log.push(row(i));
    }
    drop(log);
    recorder.finish()
}

fn start_one() -> (Recorder, record::Log) {
    let (recorder, mut logs) = start();
    (recorder, logs.pop().expect("one log"))
}

fn start() -> (Recorder, Vec<record::Log>) {
    let keeping =
        Keeping { expected_rows: ROWS, memory: Bytes::gib(1), spill: Spill::Never, when_behind: WhenBehind::Lose };
    Recorder::start(&keeping, &meta(), 1).expect("1 GiB is enough")
}

fn meta() -> Meta {
    Meta {
        run: "bench".into(),
        clock: Clock::Simulated,
        origin: None,
        labels: Labels {
            streams: vec!["stream".into()],
            devices: (0..DEVICES).map(|device| format!("device {device}")).collect(),
        },
    }
}

/// The row of request `i`: random 4 KiB reads of several devices, at a million a second, each about 100 us long.
fn row(i: u64) -> Row {
    let random = i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let mut row = Row::new(Operation::Read, Phase::Measure);
    row.completed = Instant::from_nanos(1_000_000 + i * 1000);
    row.submitted = Instant::from_nanos(1_000_000 + i * 1000 - 80_000 - random % 40_000);
    row.intended = row.submitted;
    row.offset = Bytes::kib(4) * (random >> 40);
    row.length = 4096;
    row.device = (random % u64::from(DEVICES)) as u16;
    row.depth = 32;
    row
}
