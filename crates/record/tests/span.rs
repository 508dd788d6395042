//! Spans tile the time of their request, come back from files, and draw without overlap.

use std::collections::{BTreeSet, HashMap};

use proptest::prelude::*;
use record::{Clock, Labels, Meta, SpanError, SpanLog, Spans};
use units::{Bytes, Instant};

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn meta() -> Meta {
    Meta { run: "test".into(), clock: Clock::Simulated, origin: None, labels: Labels::default() }
}

/// Two requests, two parts; the second waits for the string.
fn machine(spans: &Spans) {
    let (disk, string) = (spans.part("disk 0"), spans.part("string \"0\""));
    let (seek, transfer, wait) = (spans.phase("seek"), spans.phase("transfer"), spans.phase("wait"));
    spans.keep(1, disk, seek, at(0), at(12_000_001));
    spans.keep(2, disk, seek, at(5), at(12_000_001));
    spans.keep(1, string, transfer, at(12_000_001), at(13_000_000));
    spans.keep(2, string, wait, at(12_000_001), at(13_000_000));
    spans.keep(2, string, transfer, at(13_000_000), at(14_000_007));
    spans.keep(0, disk, transfer, at(13_000_000), at(15_000_000));
}

fn log() -> SpanLog {
    let spans = Spans::on(Bytes::mib(1));
    machine(&spans);
    spans.take().unwrap()
}

#[test]
fn spans_that_tile_the_time_of_their_requests_are_good() {
    assert_eq!(log().check([(1, at(0), at(13_000_000)), (2, at(5), at(14_000_007))]), Ok(()));
}

#[test]
fn a_gap_an_overlap_a_missing_end_and_a_missing_request_are_found() {
    let log = log();
    let reached = log.check([(1, at(0), at(13_000_001))]).unwrap_err();
    assert_eq!(reached, SpanError::Incomplete { request: 1, reached: at(13_000_000), end: at(13_000_001) });
    assert_eq!(reached.to_string(), "request 1: its spans reach to 13000000 ns, the request to 13000001 ns");
    let early = log.check([(1, at(1), at(13_000_000))]).unwrap_err().to_string();
    assert!(
        early.starts_with("request 1: the span 'disk 0: seek' from 0 to 12000001 ns does not start where"),
        "{early}"
    );
    assert!(matches!(log.check([(1, at(0), at(12_999_999))]), Err(SpanError::Misplaced { .. })));
    assert!(matches!(log.check([(3, at(0), at(1))]), Err(SpanError::Incomplete { request: 3, .. })));
    for (start, end) in [(9, 20), (11, 20)] {
        let spans = Spans::on(Bytes::mib(1));
        let (part, phase) = (spans.part("p"), spans.phase("f"));
        spans.keep(7, part, phase, at(0), at(10));
        spans.keep(7, part, phase, at(start), at(end));
        assert!(matches!(spans.take().unwrap().check([(7, at(0), at(20))]), Err(SpanError::Misplaced { .. })));
    }
}

#[test]
fn switched_off_nothing_is_kept() {
    let spans = Spans::off();
    machine(&spans);
    assert!(!spans.are_on() && spans.take().is_none());
}

#[test]
fn beyond_the_memory_granted_spans_are_counted() {
    let spans = Spans::on(Bytes::new(3 * 32));
    machine(&spans);
    let log = spans.take().unwrap();
    assert_eq!((log.spans().len(), log.lost()), (3, 3));
    // The handle goes on with the same names.
    machine(&spans);
    let log = spans.take().unwrap();
    assert_eq!((log.spans().len(), log.part(log.spans()[2].part)), (3, "string \"0\""));
}

#[test]
fn the_trace_is_json_whose_bars_do_not_overlap() {
    let mut text = Vec::new();
    log().trace(&mut text).unwrap();
    assert!(String::from_utf8_lossy(&text).contains("\"ts\":12000.001,\"dur\":999.999"), "no nanosecond is lost");
    let trace: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let names: Vec<_> = events.iter().filter(|event| event["ph"] == "M").map(|event| &event["args"]["name"]).collect();
    assert_eq!(names, ["disk 0", "string \"0\""]);
    let bars: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
    assert_eq!(bars.len(), 6);
    let mut lanes: HashMap<(u64, u64), f64> = HashMap::new();
    for bar in bars {
        let lane = (bar["pid"].as_u64().unwrap(), bar["tid"].as_u64().unwrap());
        let (start, length) = (bar["ts"].as_f64().unwrap(), bar["dur"].as_f64().unwrap());
        let free = lanes.insert(lane, start + length).unwrap_or(0.0);
        assert!(start >= free - 1e-6, "{bar} starts before {free}");
    }
    assert_eq!(lanes.len(), 4, "two lanes for each part");
}

#[test]
fn a_trace_of_nothing_is_json() {
    let mut text = Vec::new();
    SpanLog::default().trace(&mut text).unwrap();
    assert!(serde_json::from_slice::<serde_json::Value>(&text).unwrap()["traceEvents"].as_array().unwrap().is_empty());
}

#[test]
fn files_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    log().write_trace(&path).unwrap();
    assert!(serde_json::from_slice::<serde_json::Value>(&std::fs::read(&path).unwrap()).is_ok());
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
}

/// More spans than a row group has, and other parts in each group: what is skipped takes no name along.
#[test]
fn some_requests_within_some_time_are_read_alone() {
    let spans = Spans::on(Bytes::mib(32));
    let work = spans.phase("work");
    for index in 0..600_000u64 {
        let part = spans.part(&format!("part {}", index / 100_000));
        spans.keep(index / 3, part, work, at(10 * index), at(10 * index + 10));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spans.parquet");
    spans.take().unwrap().write(&path, &meta()).unwrap();
    let requests = BTreeSet::from([7, 133_332, 133_333, 133_334, 133_400]);
    let some = SpanLog::read_some(&path, &requests, (at(3_999_990), at(4_000_040))).unwrap();
    let told: Vec<_> =
        some.spans().iter().map(|span| (span.request, some.part(span.part), span.start.as_nanos())).collect();
    let expected = [
        (133_333, "part 3", 3_999_990),
        (133_333, "part 4", 4_000_000),
        (133_333, "part 4", 4_000_010),
        (133_334, "part 4", 4_000_020),
        (133_334, "part 4", 4_000_030),
    ];
    assert_eq!(told, expected);
    let nothing = SpanLog::read_some(&path, &requests, (at(0), at(0))).unwrap();
    assert!(nothing.spans().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn spans_come_back_from_the_table(list in prop::collection::vec((any::<u64>(), 0..9u8, 0..5u8, any::<u32>(), any::<u32>()), 0..200)) {
        let spans = Spans::on(Bytes::mib(1));
        for (request, part, phase, start, length) in &list {
            let (part, phase) = (spans.part(&format!("part {part}")), spans.phase(&format!("phase {phase}")));
            spans.keep(*request, part, phase, at(u64::from(*start)), at(u64::from(*start) + u64::from(*length)));
        }
        let log = spans.take().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spans.parquet");
        log.write(&path, &meta()).unwrap();
        let (read, read_meta) = SpanLog::read(&path).unwrap();
        prop_assert_eq!(read_meta, meta());
        let named = |log: &SpanLog| -> Vec<_> {
            log.spans().iter().map(|span| (span.request, log.part(span.part).to_owned(), log.phase(span.phase).to_owned(), span.start, span.end)).collect()
        };
        prop_assert_eq!(named(&read), named(&log));
    }
}
