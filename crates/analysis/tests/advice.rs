//! Each remark is made when there is cause for it, names its option, and is not made otherwise.

use analysis::{Advice, AdviceKind, Facts, Load, Occupancies, PageCache, Series, Summarizer, Trend, advise, trend};
use rand_distr::{Distribution, Exp, Normal};
use record::{Labels, Operation, Phase, Row};
use runtime::Random;
use units::{Bytes, Duration, Frequency, Instant, Ratio};

fn labels() -> Labels {
    Labels { streams: vec!["reads".into()], devices: vec!["sda".into()] }
}

/// A closed loop of `depth` on a device that takes about 1 ms for each, for one second a pass; `gap` passes between a
/// completion and the next submission in its place, and the device is `speed(pass, share of the pass)` times as fast.
fn closed(depth: u64, passes: u16, gap: u64, speed: impl Fn(u16, f64) -> f64) -> Vec<Row> {
    let (mut random, scatter) = (Random::new(11), Normal::new(1.0, 0.1).unwrap());
    let mut rows = Vec::new();
    for pass in 0..passes {
        for lane in 0..depth {
            let begin = u64::from(pass) * 2_000_000_000;
            let mut at = begin + lane * 1_000_000 / depth;
            while at < begin + 1_200_000_000 {
                let mut row = Row::new(
                    Operation::Read,
                    match at - begin {
                        0..100_000_000 => Phase::StartUp,
                        100_000_000..1_100_000_000 => Phase::Measure,
                        _ => Phase::CoolDown,
                    },
                );
                let fast = speed(pass, (at - begin) as f64 / 1.2e9);
                row.pass = pass;
                row.length = 4096;
                row.intended = Instant::from_nanos(at);
                row.submitted = row.intended + Duration::nanos(gap);
                row.completed = row.submitted + Duration::nanos((1e6 * scatter.sample(&mut random) / fast) as u64);
                at = row.completed.as_nanos();
                rows.push(row);
            }
        }
    }
    rows.sort_by_key(|row| row.completed);
    rows
}

/// An open loop of Poisson arrivals at `offered` per second on a device that does at most 2000 a second, for 2 s.
fn open(offered: f64) -> Vec<Row> {
    let (mut random, between) = (Random::new(5), Exp::new(offered / 1e9).unwrap());
    let (mut at, mut free) = (0.0f64, 0.0f64);
    let mut rows = Vec::new();
    while at < 2.2e9 {
        at += between.sample(&mut random);
        let phase = match at {
            at if at < 0.1e9 => Phase::StartUp,
            at if at < 2.1e9 => Phase::Measure,
            _ => Phase::CoolDown,
        };
        let mut row = Row::new(Operation::Read, phase);
        let submitted = at.max(free);
        free = submitted + 500e3;
        row.intended = Instant::from_nanos(at as u64);
        row.submitted = Instant::from_nanos(submitted as u64);
        row.completed = Instant::from_nanos(free as u64);
        rows.push(row);
    }
    rows
}

fn facts(load: Load) -> Facts {
    Facts { loads: vec![load], generator_busy: Some(Ratio::percent(30.0)), ..Facts::default() }
}

fn closed_facts(depth: u32) -> Facts {
    facts(Load::Closed { depth, think: Duration::ZERO })
}

fn remarks(rows: &[Row], facts: &Facts) -> Vec<Advice> {
    let mut summarizer = Summarizer::new(&labels());
    summarizer.add(rows);
    let mut occupancies = Occupancies::new(&summarizer);
    occupancies.add(rows);
    let mut series = Series::new(Duration::millis(10), 1);
    series.add(rows);
    let trends: Vec<Trend> =
        summarizer.windows(0).into_iter().flatten().filter_map(|window| trend(&series, window)).collect();
    advise(&summarizer.summary(), &occupancies.finish(), &trends, facts)
}

fn kinds(rows: &[Row], facts: &Facts) -> Vec<AdviceKind> {
    remarks(rows, facts).into_iter().map(|advice| advice.kind).collect()
}

/// The one remark on these rows.
fn only(rows: &[Row], facts: &Facts) -> Advice {
    let mut remarks = remarks(rows, facts);
    assert_eq!(remarks.len(), 1, "{remarks:?}");
    remarks.remove(0)
}

fn steady(_: u16, _: f64) -> f64 {
    1.0
}

#[test]
fn a_good_run_needs_no_advice() {
    assert_eq!(remarks(&closed(8, 3, 0, steady), &closed_facts(8)), []);
}

#[test]
fn failed_requests_are_named_by_errno() {
    let mut rows = closed(8, 3, 0, steady);
    for row in rows.iter_mut().filter(|row| row.phase == Phase::Measure).step_by(1000) {
        row.errno = 5;
    }
    let advice = only(&rows, &closed_facts(8));
    assert_eq!(advice.kind, AdviceKind::Errors);
    assert!(advice.message.contains("(errno 5: 2"), "{}", advice.message);
}

#[test]
fn a_short_run_and_a_single_pass_are_told_apart() {
    let rows: Vec<Row> = closed(8, 1, 0, steady).into_iter().filter(|row| row.phase == Phase::Measure).collect();
    assert_eq!(kinds(&rows, &closed_facts(8)), [AdviceKind::OnePass]);
    assert_eq!(
        kinds(&rows[..300], &closed_facts(8)),
        [AdviceKind::TooFewRequests, AdviceKind::TooShort, AdviceKind::OnePass]
    );
}

#[test]
fn passes_that_differ_are_told_with_their_course() {
    let advice = only(&closed(8, 3, 0, |pass, _| 1.0 - 0.15 * f64::from(pass)), &closed_facts(8));
    assert_eq!((advice.kind, advice.option.as_deref()), (AdviceKind::PassesDiffer, Some("run.passes")));
    assert!(advice.message.contains("each slower than the one before"), "{}", advice.message);
    let up_and_down = only(&closed(8, 3, 0, |pass, _| if pass == 1 { 0.8 } else { 1.0 }), &closed_facts(8));
    assert_eq!(up_and_down.kind, AdviceKind::PassesDiffer);
    assert!(!up_and_down.message.contains("than the one before"), "{}", up_and_down.message);
}

#[test]
fn a_device_that_settles_late_needs_a_longer_start_up() {
    // Twice as fast until 300 ms after the start of load, which is 200 ms into the counted second.
    let advice = only(&closed(8, 3, 0, |_, share| if share < 0.25 { 2.0 } else { 1.0 }), &closed_facts(8));
    assert_eq!((advice.kind, advice.option.as_deref()), (AdviceKind::StartUpTooShort, Some("run.start-up")));
    assert!(
        advice.message.contains(" % faster than") && advice.message.contains("settled after 200 ms"),
        "{}",
        advice.message
    );
}

#[test]
fn steady_load_has_a_trend_in_less_than_one_run_of_a_hundred() {
    let mut found = 0;
    for seed in 0..1000 {
        // Poisson completions, 500 in a slice: the scatter of a slice is near the 5 percent that count as large.
        let (mut random, between) = (Random::new(seed), Exp::new(1.0).unwrap());
        let mut at = 0.0f64;
        let mut series = Series::new(Duration::micros(50), 1);
        while at < 10e6 {
            at += 1e3 * between.sample(&mut random);
            let mut row = Row::new(Operation::Read, Phase::Measure);
            row.completed = Instant::from_nanos(at as u64);
            series.add(&[row]);
        }
        found += u32::from(trend(&series, (Instant::START, Instant::from_nanos(10_000_000))).is_some());
    }
    assert!(found < 10, "{found} of 1000");
}

#[test]
fn a_generator_without_time_is_named() {
    let busy = Facts { generator_busy: Some(Ratio::percent(97.0)), ..closed_facts(8) };
    let advice = only(&closed(8, 3, 0, steady), &busy);
    assert_eq!((advice.kind, advice.option.as_deref()), (AdviceKind::GeneratorSaturated, Some("io.engine")));
    assert!(advice.message.contains("97 %"), "{}", advice.message);
    // Calls through the page cache copy, and do the file system's work: that is no work of the generator's own.
    let cache = PageCache { regions: Bytes::gib(2), memory: Bytes::gib(1) };
    let advice = remarks(&closed(8, 3, 0, steady), &Facts { page_cache: Some(cache), ..busy });
    let kinds: Vec<AdviceKind> = advice.iter().map(|advice| advice.kind).collect();
    assert!(kinds.contains(&AdviceKind::CallsSaturated), "{kinds:?}");
    assert!(!kinds.contains(&AdviceKind::GeneratorSaturated), "{kinds:?}");
}

#[test]
fn a_queue_that_is_not_full_is_the_generators() {
    // Half of each round passes before the request is given to the device.
    let rows = closed(8, 3, 1_000_000, steady);
    let advice = only(&rows, &closed_facts(8));
    assert_eq!(advice.kind, AdviceKind::QueueNotFull);
    assert!(advice.message.contains("8 requests under way and had 4.0"), "{}", advice.message);
    assert_eq!(advice.option.as_deref(), Some("io.engine"));
    // With a think time, it is as asked.
    assert_eq!(remarks(&rows, &facts(Load::Closed { depth: 8, think: Duration::millis(1) })), []);
}

#[test]
fn a_model_has_no_generator_and_no_engine_to_change() {
    // The same rows from a machine in virtual time, whose load takes turns or is announced: nobody lacks processor
    // time.
    let modelled = Facts { generator_busy: None, ..closed_facts(8) };
    assert_eq!(remarks(&closed(8, 3, 1_000_000, steady), &modelled), []);
}

/// A flush belongs to no stream, and is what the next request waits for.
#[test]
fn what_waits_for_a_flush_is_not_the_generators() {
    let mut rows = closed(8, 3, 1_000_000, steady);
    let flush = |row: &Row| {
        let mut flush = Row { operation: Operation::Flush, length: 0, ..*row };
        (flush.intended, flush.submitted) = (row.completed, row.completed);
        flush.completed = row.completed + Duration::millis(1);
        flush
    };
    let flushes: Vec<Row> = rows.iter().map(flush).collect();
    rows.extend(flushes);
    rows.sort_by_key(|row| row.completed);
    assert!(!kinds(&rows, &closed_facts(8)).contains(&AdviceKind::QueueNotFull));
}

/// What is missing from the queue then is in the requests that failed, or in the filling and draining of the queue.
#[test]
fn the_generator_is_not_blamed_for_failures_or_for_a_run_that_is_too_short() {
    let mut rows = closed(8, 3, 1_000_000, steady);
    rows.iter_mut().step_by(10).for_each(|row| row.errno = 5);
    assert!(!kinds(&rows, &closed_facts(8)).contains(&AdviceKind::QueueNotFull));
    let few = closed(200, 1, 3_000_000, steady);
    let few: Vec<Row> = few.into_iter().filter(|row| row.phase == Phase::Measure).take(1500).collect();
    assert!(!kinds(&few, &closed_facts(200)).contains(&AdviceKind::QueueNotFull));
}

#[test]
fn an_offered_load_that_is_not_reached_is_told_from_one_that_is() {
    let varied =
        |rate, variation| facts(Load::Open { offered: Frequency::per_second(rate), variation: Ratio::new(variation) });
    let load = |rate| varied(rate, 1.0);
    let of_load = |kinds: Vec<AdviceKind>| -> Vec<AdviceKind> {
        kinds
            .into_iter()
            .filter(|kind| matches!(kind, AdviceKind::OfferedLoadNotReached | AdviceKind::WaitingToBeIssued))
            .collect()
    };
    // 1000 offered, 1000 done, though by chance a few less.
    assert_eq!(of_load(kinds(&open(1000.0), &load(1000.0))), []);
    // 1000 done of 1150 offered is news of a Poisson process, and none of arrivals in bursts.
    let late = [AdviceKind::OfferedLoadNotReached];
    assert_eq!(of_load(kinds(&open(1000.0), &varied(1150.0, 1.0))), late);
    assert_eq!(of_load(kinds(&open(1000.0), &varied(1150.0, 4.0))), []);
    // Of 3000 offered, only what the device could do was issued and counted.
    let mut rows = open(3000.0);
    rows.retain(|row| row.phase != Phase::Measure || row.submitted < Instant::from_nanos(2_100_000_000));
    let remarks = remarks(&rows, &load(3000.0));
    let advice = remarks.iter().find(|advice| advice.kind == AdviceKind::OfferedLoadNotReached).unwrap();
    assert_eq!(advice.option.as_deref(), Some("stream.reads.arrivals"));
    assert!(advice.message.contains("offered 3000 /s"), "{}", advice.message);
    // 1900 offered to 2000: all done, after more waiting than service.
    let waiting = kinds(&open(1900.0), &load(1900.0));
    assert_eq!(of_load(waiting), [AdviceKind::WaitingToBeIssued]);
}

#[test]
fn a_page_cache_that_holds_everything_is_suspected() {
    let cache = |regions| Facts {
        page_cache: Some(PageCache { regions: Bytes::gib(regions), memory: Bytes::gib(16) }),
        ..closed_facts(8)
    };
    let rows = closed(8, 3, 0, steady);
    let advice = only(&rows, &cache(4));
    assert_eq!((advice.kind, advice.option.as_deref()), (AdviceKind::PageCache, Some("io.mode")));
    assert_eq!(remarks(&rows, &cache(64)), []);
}

#[test]
fn a_file_of_holes_is_not_taken_for_its_disk() {
    let holes = Facts { hollow: vec![("d1.bin".to_owned(), Ratio::percent(75.0))], ..closed_facts(8) };
    let advice = only(&closed(8, 3, 0, steady), &holes);
    assert_eq!((advice.kind, advice.option.as_deref()), (AdviceKind::Holes, Some("precondition.laps")));
    assert!(advice.message.starts_with("75 % of d1.bin was never written"), "{}", advice.message);
}

#[test]
fn what_the_recording_lost_or_disturbed_is_said() {
    let lost = Facts { rows_lost: 12, late_chunks: 2, ..closed_facts(8) };
    assert_eq!(kinds(&closed(8, 3, 0, steady), &lost), [AdviceKind::RowsLost, AdviceKind::RecordingLate]);
}

#[test]
fn requests_that_hang_over_the_edges_are_unsteady() {
    // Load is on throughout, but what is issued in the counted time takes three times as long as that.
    let rows: Vec<Row> = (0..4000u64)
        .map(|i| {
            let mut row = Row::new(
                Operation::Write,
                match i {
                    0..1000 => Phase::StartUp,
                    1000..3000 => Phase::Measure,
                    _ => Phase::CoolDown,
                },
            );
            row.intended = Instant::from_nanos(i * 1000);
            row.submitted = row.intended;
            row.completed = row.submitted + Duration::micros(if i < 1000 { 10 } else { 6000 + i });
            row
        })
        .collect();
    let mut summarizer = Summarizer::new(&labels());
    let mut ordered = rows.clone();
    ordered.sort_by_key(|row| row.completed);
    summarizer.add(&ordered);
    let mut occupancies = Occupancies::new(&summarizer);
    occupancies.add(&ordered);
    let advice = advise(&summarizer.summary(), &occupancies.finish(), &[], &closed_facts(8));
    assert!(advice.iter().any(|advice| advice.kind == AdviceKind::Unsteady), "{advice:?}");
}

#[test]
fn names_in_json_are_kebab_case() {
    let advice = only(&closed(8, 1, 0, steady), &closed_facts(8));
    let json = serde_json::to_value(&advice).unwrap();
    assert_eq!((json["kind"].as_str(), json["option"].as_str()), (Some("one-pass"), Some("run.passes")));
}
