//! The summary against sums taken the slow way, and the names that scripts rely on.

use std::collections::BTreeMap;

use analysis::{Figures, Latency, Summarizer, Summary};
use proptest::prelude::*;
use record::{Labels, Operation, Phase, Row};
use units::{Bytes, Duration, Instant};

fn labels() -> Labels {
    Labels { streams: vec!["scan".into(), "lookup".into()], devices: vec!["sda".into(), "sdb".into(), "sdc".into()] }
}

/// A row that was intended at `at`, submitted `wait` later and completed `service` after that.
fn row(phase: Phase, at: u64, wait: u64, service: u64) -> Row {
    let mut row = Row::new(Operation::Read, phase);
    row.intended = Instant::from_nanos(at);
    row.submitted = row.intended + Duration::nanos(wait);
    row.completed = row.submitted + Duration::nanos(service);
    row.length = 4096;
    row.depth = 1;
    row
}

fn summarize(rows: &[Row]) -> Summary {
    let mut summarizer = Summarizer::new(&labels());
    // In pieces, as a recording gives them.
    for piece in rows.chunks(7) {
        summarizer.add(piece);
    }
    summarizer.summary()
}

#[test]
fn rates_are_over_the_measure_phase_when_load_surrounds_it() {
    let mut rows: Vec<Row> = (0..100).map(|i| row(Phase::StartUp, i * 1000, 0, 5000)).collect();
    rows.extend((100..300).map(|i| row(Phase::Measure, i * 1000, 0, 5000)));
    rows.extend((300..310).map(|i| row(Phase::CoolDown, i * 1000, 0, 5000)));
    let summary = summarize(&rows);
    let total = &summary.total.figures;
    assert_eq!((total.requests, total.time), (200, Duration::micros(200)));
    assert_eq!(total.iops.get(), 1e6);
    assert_eq!(total.bandwidth.get(), 4096e6);
    assert_eq!((summary.uncounted.start_up, summary.uncounted.cool_down), (100, 10));
}

#[test]
fn rates_are_over_the_requests_own_extent_when_nothing_surrounds_them() {
    let rows: Vec<Row> = (0..200).map(|i| row(Phase::Measure, 100_000 + i * 1000, 0, 5000)).collect();
    // From the first intended at 100,000 ns to the last completed at 299,000 + 5,000 ns.
    assert_eq!(summarize(&rows).total.figures.time, Duration::nanos(204_000));
}

#[test]
fn a_stream_that_reaches_its_limit_early_has_its_own_time() {
    // Two streams under the same load; the second counts only its first fifty requests.
    let mut rows = Vec::new();
    for i in 0..400u64 {
        let phase = |from, to| match i {
            i if i < from => Phase::StartUp,
            i if i < to => Phase::Measure,
            _ => Phase::CoolDown,
        };
        rows.push(row(phase(100, 300), i * 1000, 0, 5000));
        rows.push(Row { stream: 1, device: 1, ..row(phase(100, 150), i * 1000, 0, 5000) });
    }
    let summary = summarize(&rows);
    let rates: Vec<f64> = summary.streams.iter().map(|stream| stream.figures.iops.get()).collect();
    assert_eq!(rates, [1e6, 1e6]);
    // In all, 250 counted requests in the 200 us in which anything counted.
    assert_eq!(summary.total.figures.iops.get(), 1.25e6);
}

#[test]
fn response_counts_from_the_intention() {
    let rows = [row(Phase::Measure, 0, 900, 100), row(Phase::Measure, 0, 0, 100)];
    let figures = summarize(&rows).total.figures;
    let mean = |latency: Option<Latency>| latency.unwrap().mean.as_nanos();
    assert_eq!((mean(figures.latency), mean(figures.wait), mean(figures.service)), (550, 450, 100));
}

#[test]
fn failures_are_counted_by_errno_and_nowhere_else() {
    let mut rows: Vec<Row> = (0..10).map(|i| row(Phase::Measure, i, 0, 10)).collect();
    for (row, errno) in rows.iter_mut().zip([5, 28, 28]) {
        row.errno = errno;
        row.completed += Duration::seconds(1);
    }
    let figures = summarize(&rows).total.figures;
    assert_eq!((figures.requests, figures.errors, figures.bytes), (7, 3, Bytes::new(7 * 4096)));
    let listed: Vec<(u16, u64)> = figures.errors_by_errno.iter().map(|error| (error.errno, error.count)).collect();
    assert_eq!(listed, [(28, 2), (5, 1)]);
    assert_eq!(figures.latency.unwrap().max, Duration::nanos(10));
}

#[test]
fn passes_stand_beside_their_mean_and_its_confidence() {
    let mut rows = Vec::new();
    for (pass, step) in [(0, 100), (1, 125), (2, 200)] {
        // 1000 requests back to back: 10, 8 and 5 million a second.
        rows.extend((0..1000).map(|i| Row { pass, ..row(Phase::Measure, i * step, 0, step) }));
    }
    let summary = summarize(&rows);
    let spread = summary.total.spread.unwrap().iops;
    assert_eq!(summary.total.passes.iter().map(|pass| pass.iops.get()).collect::<Vec<_>>(), [1e7, 8e6, 5e6]);
    assert_eq!((spread.samples, spread.low.get(), spread.high.get()), (3, 5e6, 1e7));
    assert!((spread.mean.get() - 23e6 / 3.0).abs() < 1.0);
    // s = 2,516,611.48, t = 4.302653 for two degrees of freedom; s t / sqrt(3).
    assert!((spread.half_width.get() - 6_251_609.5).abs() < 10.0, "{spread:?}");
    // In all: 3000 requests in 425 us.
    assert_eq!(summary.total.figures.time, Duration::micros(425));
    assert_eq!(summarize(&rows[..1000]).total.spread, None);
}

#[test]
fn a_stream_that_did_nothing_is_listed_with_zeroes() {
    let summary = summarize(&[]);
    assert_eq!(summary.streams.len(), 2);
    assert_eq!(summary.streams[1].name, "lookup");
    assert_eq!(summary.total.figures, Figures::default());
    assert!(summary.operations.is_empty());
}

#[test]
fn the_names_in_json_are_those_of_the_contract() {
    let rows: Vec<Row> =
        (0..20).map(|i| Row { pass: (i / 10) as u16, ..row(Phase::Measure, i * 1000, 0, 500) }).collect();
    let summary = summarize(&rows);
    let json = serde_json::to_value(&summary).unwrap();
    for group in [&json["total"], &json["streams"][0], &json["devices"][0], &json["operations"][0]] {
        for field in ["requests", "bytes", "seconds", "bandwidth_bytes_per_s", "iops", "errors"] {
            assert!(group[field].is_number(), "{field} in {group}");
        }
        for field in ["mean", "p50", "p90", "p99", "p999", "max"] {
            assert!(group["latency_ns"][field].is_u64(), "{field} in {group}");
        }
        assert!(group["spread"]["iops"]["confidence_95"].is_number());
    }
    let text = serde_json::to_string(&summary).unwrap();
    assert_eq!(serde_json::from_str::<Summary>(&text).unwrap(), summary, "a summary read back is the same");
    let error = serde_json::from_str::<Figures>(
        &serde_json::to_string(&Figures::default()).unwrap().replace("\"iops\":0.0", "\"iops\":-1.0"),
    );
    assert!(error.unwrap_err().to_string().contains("must be finite and not negative"));
}

#[test]
#[should_panic(expected = "device 3 has a label")]
fn a_row_of_another_run_is_a_bug() {
    summarize(&[Row { device: 3, ..row(Phase::Measure, 0, 0, 1) }]);
}

/// Any rows at all.
fn rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (
        0u8..3,
        0u64..1_000_000,
        0u64..1_000_000_000,
        0u64..1_000_000_000_000,
        0u16..2,
        0u16..3,
        0u16..3,
        0usize..5,
        0u8..4,
    );
    let row = row.prop_map(|(phase, at, wait, service, stream, device, pass, operation, failed)| {
        let base = row_of(Operation::ALL[operation], Phase::ALL[usize::from(phase)], at, wait, service);
        Row { stream, device, pass, errno: if failed == 0 { 5 } else { 0 }, ..base }
    });
    prop::collection::vec(row, 0..200)
}

fn row_of(operation: Operation, phase: Phase, at: u64, wait: u64, service: u64) -> Row {
    let timed = row(phase, at, wait, service);
    let mut row = Row::new(operation, phase);
    (row.intended, row.submitted, row.completed, row.length) =
        (timed.intended, timed.submitted, timed.completed, at as u32 % 9000);
    row
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_group_agrees_with_the_slow_way(rows in rows()) {
        let summary = summarize(&rows);
        let counted: Vec<&Row> = rows.iter().filter(|row| row.phase == Phase::Measure).collect();
        let check_with = |flushes: bool, figures: &Figures, wanted: &dyn Fn(&Row) -> bool| -> Result<(), TestCaseError> {
            let wanted: Vec<&Row> = counted.iter().copied().filter(|row| wanted(row)).collect();
            // A flush is no request of the load, except under its own name; its errors are errors everywhere.
            let counts = |row: &&&Row| row.errno == 0 && (flushes || row.operation != Operation::Flush);
            let good: Vec<&&Row> = wanted.iter().filter(counts).collect();
            prop_assert_eq!(figures.requests, good.len() as u64);
            prop_assert_eq!(figures.errors, wanted.iter().filter(|row| row.errno != 0).count() as u64);
            prop_assert_eq!(figures.bytes.get(), good.iter().map(|row| u64::from(row.length)).sum::<u64>());
            for (latency, of) in [
                (&figures.latency, Row::response as fn(&Row) -> Duration),
                (&figures.wait, Row::wait),
                (&figures.service, Row::service),
            ] {
                let mut times: Vec<u64> = good.iter().map(|row| of(row).as_nanos()).collect();
                times.sort_unstable();
                let Some(latency) = latency else {
                    prop_assert!(times.is_empty());
                    continue;
                };
                let n = times.len();
                prop_assert_eq!(latency.min.as_nanos(), times[0]);
                prop_assert_eq!(latency.max.as_nanos(), times[n - 1]);
                let mean = times.iter().map(|t| *t as f64).sum::<f64>() / n as f64;
                prop_assert!((latency.mean.as_nanos() as f64 - mean).abs() <= 0.5 + mean * 1e-12);
                for (percentile, share) in [(latency.p50, 0.5), (latency.p90, 0.9), (latency.p99, 0.99), (latency.p999, 0.999)] {
                    let exact = times[(n as f64 * share).ceil() as usize - 1];
                    let got = percentile.as_nanos();
                    prop_assert!(got >= exact && got as f64 <= exact as f64 * 1.001 + 1.0, "{} for {}", got, exact);
                }
            }
            Ok(())
        };
        let check = |figures: &Figures, wanted: &dyn Fn(&Row) -> bool| check_with(false, figures, wanted);
        check(&summary.total.figures, &|_| true)?;
        for (i, group) in (0..).zip(&summary.streams) {
            check(&group.figures, &|row| row.stream == i)?;
            for (pass, figures) in (0..).zip(&group.passes) {
                check(figures, &|row| row.stream == i && row.pass == pass)?;
            }
        }
        for (i, group) in (0..).zip(&summary.devices) {
            check(&group.figures, &|row| row.device == i)?;
        }
        let mut by_operation: BTreeMap<&str, &Figures> = summary.operations.iter().map(|group| (group.name.as_str(), &group.figures)).collect();
        for operation in Operation::ALL {
            if let Some(figures) = by_operation.remove(operation.name()) {
                check_with(true, figures, &|row| row.operation == operation)?;
            } else {
                prop_assert!(counted.iter().all(|row| row.operation != operation));
            }
        }
    }
}

#[test]
fn flushes_stand_by_themselves_and_their_errors_with_all() {
    let mut rows: Vec<Row> = (0..10).map(|i| row(Phase::Measure, i * 10_000, 0, 1000)).collect();
    for (i, errno) in [(0, 0), (1, 0), (2, 5)] {
        let mut flush =
            Row { operation: Operation::Flush, errno, length: 0, ..row(Phase::Measure, i * 10_000 + 1000, 0, 8000) };
        flush.completed = flush.submitted + Duration::micros(8);
        rows.push(flush);
    }
    rows.push(Row { operation: Operation::Flush, ..row(Phase::Measure, 91_000, 0, 9000) });
    let summary = summarize(&rows);
    let total = &summary.total.figures;
    assert_eq!((total.requests, total.errors, summary.streams[0].figures.requests), (10, 1, 10));
    assert_eq!(total.latency.unwrap().max, Duration::micros(1), "the longest request is no flush");
    // The last flush ends at 100 us: whoever waits for it asks for nothing else.
    assert_eq!(total.time, Duration::micros(100));
    let named: Vec<_> = summary.operations.iter().map(|group| (&*group.name, group.figures.requests)).collect();
    assert_eq!(named, [("read", 10), ("flush", 3)]);
}
