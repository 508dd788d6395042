//! Occupancy and Little's law, against a queue whose theory is known and against counting by hand.

use analysis::{Occupancies, Occupancy, Series, Summarizer};
use proptest::prelude::*;
use rand_distr::{Distribution, Exp};
use record::{Labels, Operation, Phase, Row};
use runtime::Random;
use units::{Duration, Instant};

fn labels() -> Labels {
    Labels { streams: vec!["s".into()], devices: vec!["d0".into(), "d1".into()] }
}

fn row(phase: Phase, submitted: u64, completed: u64) -> Row {
    let mut row = Row::new(Operation::Read, phase);
    row.intended = Instant::from_nanos(submitted);
    row.submitted = row.intended;
    row.completed = Instant::from_nanos(completed);
    row.length = 512;
    row
}

fn occupancies(rows: &[Row]) -> Vec<Occupancy> {
    let mut summarizer = Summarizer::new(&labels());
    summarizer.add(rows);
    let mut occupancies = Occupancies::new(&summarizer);
    occupancies.add(rows);
    occupancies.finish()
}

#[test]
fn a_queue_with_one_server_is_as_busy_as_theory_says() {
    // M/M/1 with rho = 0.7: busy 0.7, L = rho / (1 - rho) = 2.333. Load is on before and after the counted time.
    let (mut random, rate) = (Random::new(42), 0.7e-3);
    let (between, work) = (Exp::new(rate).unwrap(), Exp::new(1e-3).unwrap());
    let (mut clock, mut free) = (0.0f64, 0.0f64);
    let rows: Vec<Row> = (0..1_000_000)
        .map(|i| {
            clock += between.sample(&mut random);
            free = free.max(clock) + work.sample(&mut random);
            let phase = match i {
                0..10_000 => Phase::StartUp,
                10_000..990_000 => Phase::Measure,
                _ => Phase::CoolDown,
            };
            row(phase, clock as u64, free as u64)
        })
        .collect();
    let found = occupancies(&rows);
    assert_eq!(found.len(), 1, "d1 did nothing");
    let found = &found[0];
    assert!((found.busy.get() - 0.7).abs() < 0.005, "{found:?}");
    assert!((found.mean_depth - 7.0 / 3.0).abs() < 0.1, "{found:?}");
    assert!((found.arrivals.get() - 0.7e6).abs() < 3e3, "{found:?}");
    assert!(found.imbalance.get() < 1e-4, "{found:?}");
}

#[test]
fn what_hangs_over_the_edges_is_an_imbalance() {
    // Load before and after; three requests of the counted 100 ns last until long after it.
    let mut rows = vec![row(Phase::StartUp, 0, 90)];
    rows.extend([100, 110, 120].map(|at| row(Phase::Measure, at, at + 900)));
    rows.insert(1, row(Phase::CoolDown, 200, 210));
    let found = &occupancies(&rows)[0];
    // Present within 100..200: 100 + 90 + 80; issued there: 3 of 900.
    assert!((found.mean_depth - 2.7).abs() < 1e-9, "{found:?}");
    assert!((found.imbalance.get() - (27.0 - 2.7) / 27.0).abs() < 1e-9, "{found:?}");
}

proptest! {
    #[test]
    fn busy_time_is_the_union_counted_by_hand(
        requests in prop::collection::vec((0u64..2000, 1u64..300, 0u16..2, 0u16..3), 1..100),
    ) {
        let mut rows: Vec<Row> = requests
            .iter()
            .map(|(at, length, device, pass)| Row { device: *device, pass: *pass, ..row(Phase::Measure, *at, at + length) })
            .collect();
        rows.sort_by_key(|row| row.completed);
        let found = occupancies(&rows);
        for (device, name) in [(0, "d0"), (1, "d1")] {
            let (mut busy, mut total, mut present) = (0, 0, 0);
            for pass in 0..3 {
                let of_pass: Vec<&Row> = rows.iter().filter(|row| row.device == device && row.pass == pass).collect();
                let Some(begin) = of_pass.iter().map(|row| row.submitted).min() else { continue };
                let end = of_pass.iter().map(|row| row.completed).max().unwrap();
                total += end.since(begin).as_nanos();
                present += of_pass.iter().map(|row| row.service().as_nanos()).sum::<u64>();
                busy += (begin.as_nanos()..end.as_nanos())
                    .filter(|t| of_pass.iter().any(|row| row.submitted.as_nanos() <= *t && *t < row.completed.as_nanos()))
                    .count() as u64;
            }
            let Some(found) = found.iter().find(|found| found.device == name) else {
                prop_assert_eq!(total, 0);
                continue;
            };
            prop_assert!((found.busy.get() - busy as f64 / total as f64).abs() < 1e-9);
            prop_assert!((found.mean_depth - present as f64 / total as f64).abs() < 1e-9);
        }
    }

    #[test]
    fn a_series_loses_nothing_and_puts_all_in_its_place(
        requests in prop::collection::vec((0u64..100_000, 0u64..50_000, 0u16..2, 0u16..6), 0..200),
    ) {
        let rows: Vec<Row> = requests
            .iter()
            .map(|(at, length, device, errno)| Row { device: *device, errno: *errno / 5, ..row(Phase::Measure, *at, at + length) })
            .collect();
        let mut series = Series::new(Duration::micros(10), 2);
        for some in rows.chunks(13) {
            series.add(some);
        }
        for interval in 0..series.len() {
            for device in 0..2 {
                let within = |row: &&Row| row.device == device && row.completed.as_nanos() / 10_000 == interval as u64;
                let expected: Vec<&Row> = rows.iter().filter(within).collect();
                let (good, bad): (Vec<&Row>, Vec<&Row>) = expected.into_iter().partition(|row| row.errno == 0);
                let found = series.get(interval, device);
                prop_assert_eq!((found.requests, found.errors), (good.len() as u64, bad.len() as u64));
                prop_assert_eq!(found.response_max, good.iter().map(|row| row.response()).max().unwrap_or_default());
                let mean = good.iter().map(|row| row.response().as_nanos()).sum::<u64>().checked_div(good.len() as u64);
                prop_assert_eq!(found.response_mean().map(Duration::as_nanos), mean);
            }
        }
        let counted: u64 = (0..series.len()).map(|interval| series.total(interval).requests + series.total(interval).errors).sum();
        prop_assert_eq!(counted, rows.len() as u64);
        prop_assert_eq!(series.points().map(|point| point.requests + point.errors).sum::<u64>(), rows.len() as u64);
    }
}

#[test]
fn a_long_run_has_its_intervals_joined() {
    let mut series = Series::new(Duration::micros(1), 2);
    let far = Duration::seconds(1).as_nanos();
    series.add(&[row(Phase::Measure, 0, 10), row(Phase::Measure, 0, 2_000), row(Phase::Measure, 0, far)]);
    // 1 us doubled until a second has fewer than 100,000.
    assert_eq!((series.interval(), series.len()), (Duration::micros(16), 62_501));
    assert_eq!((series.total(0).requests, series.total(62_500).requests), (2, 1));
}
