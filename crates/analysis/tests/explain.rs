//! What limits a run, rule by rule, on rows and spans made for it.

use analysis::explain::{Cures, Explanation, Findings, Shared, Worsts, explain, parts};
use analysis::rounds::{Finish, rounds};
use analysis::{Advice, AdviceKind, Occupancies, Summarizer};
use record::{Labels, Operation, Phase, Row, Spans};
use units::{Bytes, Duration, Instant, Ratio};

fn at(millis: u64) -> Instant {
    Instant::START + Duration::millis(millis)
}

fn row(device: u16, from: u64, to: u64) -> Row {
    let mut row = Row::new(Operation::Read, Phase::Measure);
    (row.intended, row.submitted, row.completed) = (at(from), at(from), at(to));
    (row.device, row.length) = (device, 65_536);
    row
}

/// Two disks on one bus: both position for 40 to 68 ms, then transfer for 20 ms each, now one first, now the other.
/// Each is asked again as soon as it is done, or, in a lock step, as soon as both are.
fn served_in_turns(lock_step: bool) -> Vec<Row> {
    let (mut start, mut done, mut rows) = (0, [0; 2], Vec::new());
    for number in 0..200u64 {
        let positioned = start + 40 + (number * number * 31 + number * 17) % 29;
        let first = u16::from((number * number * 7 + number * 3) % 11 < 5);
        start = positioned + 40;
        for (device, end) in [(first, positioned + 20), (1 - first, start)] {
            rows.push(row(device, done[usize::from(device)], end));
            done[usize::from(device)] = if lock_step { start } else { end };
        }
    }
    rows
}

fn convoy() -> Vec<Row> {
    served_in_turns(false)
}

fn explained(rows: &[Row], change: impl FnOnce(&mut Findings)) -> Explanation {
    let labels = Labels { streams: vec!["readers".into()], devices: vec!["sda".into(), "sdb".into(), "sdc".into()] };
    let (mut summarizer, mut worsts) = (Summarizer::new(&labels), Worsts::default());
    summarizer.add(rows);
    worsts.add(rows);
    let mut occupancies = Occupancies::new(&summarizer);
    occupancies.add(rows);
    let finishes: Vec<Finish> =
        rows.iter().map(|row| Finish { at: row.completed, device: row.device, pass: 0 }).collect();
    let (summary, occupancies) = (summarizer.summary(), occupancies.finish());
    let mut findings = Findings {
        timeline: vec![],
        summary: &summary,
        occupancies: &occupancies,
        rounds: rounds(&finishes, &labels.devices, None).map_err(|error| error.to_string()),
        predicted: None,
        parts: vec![],
        loads: &[],
        surroundings: None,
        stalls: vec![],
        bursts: vec![],
        steps: vec![],
        together: None,
        alone: vec![],
        shared: vec![],
        generator_busy: None,
        worst: worsts.finish(&labels.devices),
        cures: Cures { untried: vec!["pipelined reads".to_owned()], in_use: vec![] },
        advice: vec![],
        remarks: vec![],
    };
    change(&mut findings);
    explain(findings)
}

#[test]
fn a_convoy_is_laid_to_what_all_devices_share_and_its_cure_is_bounded() {
    let shared = |part: &str, devices: &[&str]| Shared {
        part: part.to_owned(),
        devices: devices.iter().map(|name| (*name).to_owned()).collect(),
    };
    let explanation = explained(&convoy(), |findings| {
        findings.shared = vec![shared("another", &["sda"]), shared("SCSI 0:0", &["sda", "sdb"])];
    });
    assert_eq!(explanation.limit.part, "SCSI 0:0");
    assert!(explanation.rounds.as_ref().unwrap().found, "{explanation:?}");
    // 54 ms of positioning and two transfers.
    let idle = 1.0 - explanation.limit.utilization.unwrap().get();
    assert!((idle - 54.0 / 94.0).abs() < 0.02, "{idle}");
    let [cure] = &explanation.what_if[..] else { panic!("one change: {explanation:?}") };
    assert!((cure.high.get() - 1.0 / (1.0 - idle)).abs() < 1e-6 && cure.low == Ratio::ONE, "{cure:?}");
}

/// A third device that is asked now and then is no part of the convoy, and its idling says nothing of the load of the
/// others.
#[test]
fn a_stray_request_to_another_device_hides_nothing() {
    let mut rows = convoy();
    rows.extend([row(2, 5000, 5010), row(2, 9000, 9010)]);
    rows.sort_by_key(|row| row.completed);
    let shared = Shared { part: "SCSI 0:0".to_owned(), devices: vec!["sda".to_owned(), "sdb".to_owned()] };
    let explanation = explained(&rows, |findings| findings.shared = vec![shared]);
    assert_eq!(explanation.limit.part, "SCSI 0:0");
    assert_eq!(explanation.rounds.unwrap().left_out[0].device, "sdc");
}

#[test]
fn a_cure_that_is_in_use_is_not_advised() {
    let cures = |untried: &[&str], in_use: &[&str]| {
        let [untried, in_use] = [untried, in_use].map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        explained(&convoy(), |findings| findings.cures = Cures { untried, in_use })
    };
    let some = cures(&["more requests under way"], &["pipelined reads"]);
    assert_eq!(some.what_if[0].change, "devices position while others transfer: more requests under way");
    assert_eq!(some.remarks, ["against rounds, pipelined reads are in use already, and do not end them here"]);
    assert!(cures(&[], &["pipelined reads"]).what_if.is_empty());
}

#[test]
fn requests_that_failed_are_told_device_by_device() {
    let mut rows = convoy();
    rows.iter_mut().filter(|row| row.device == 1).step_by(50).for_each(|row| row.errno = 5);
    let explanation = explained(&rows, |_| {});
    let [sda, sdb] = [0, 1].map(|device| &explanation.devices[device]);
    assert_eq!((sda.errors, sda.requests, sdb.errors, sdb.requests), (0, 200, 4, 196));
    assert_eq!(sdb.errors_by_errno[0].errno, 5);
}

#[test]
fn of_requests_that_took_no_time_no_shares_are_told() {
    let rows: Vec<Row> = (0..10).map(|request| row(request % 2, 5, 5)).collect();
    let limit = explained(&rows, |_| {}).limit;
    assert_eq!(
        limit.evidence,
        ["all 10 requests that were counted begin and end at one instant: there are no shares of time, and no rates"]
    );
    assert_eq!(limit.confidence, Ratio::ZERO);
    assert_eq!(limit.utilization, None);
}

#[test]
fn devices_that_are_asked_together_convoy_on_the_load() {
    let explanation = explained(&served_in_turns(true), |_| {});
    let rounds = explanation.rounds.as_ref().unwrap();
    assert!(!rounds.found && rounds.share.get() > 0.9, "{rounds:?}");
    assert!(rounds.evidence.contains("the load asks them all at once"), "{}", rounds.evidence);
    assert_ne!(explanation.limit.part, "what the devices share");
    assert!(explanation.what_if.is_empty(), "{explanation:?}");
}

#[test]
fn of_completions_in_bursts_nothing_is_said_that_they_do_not_show() {
    // As with 128 KB: both transfers, then both completions, 2 ms apart.
    let rows: Vec<Row> = convoy()
        .chunks(2)
        .flat_map(|round| {
            let before = Instant::from_nanos(round[1].completed.as_nanos() - 2_000_000);
            let late = |row: &Row| Row { completed: before, ..*row };
            [late(&round[0]), round[1]]
        })
        .collect();
    let explanation = explained(&rows, |_| {});
    let rounds = explanation.rounds.as_ref().unwrap();
    assert!(rounds.found && rounds.evidence.contains("completions do not say"), "{}", rounds.evidence);
    assert!(explanation.limit.utilization.is_none() && explanation.what_if.is_empty(), "{explanation:?}");
    // Whose work is known bounds what a cure brings.
    let spans = Spans::on(Bytes::mib(1));
    let (bus, transfer) = (spans.part("bus"), spans.phase("transfer"));
    (0..100).for_each(|request| spans.keep(request, bus, transfer, at(request * 100), at(request * 100 + 80)));
    let explanation = explained(&rows, |findings| findings.parts = parts(&spans.take().unwrap()));
    assert!((explanation.limit.utilization.unwrap().get() - 0.8).abs() < 0.01, "{explanation:?}");
    assert!((explanation.what_if[0].high.get() - 1.25).abs() < 0.01, "{explanation:?}");
}

#[test]
fn a_generator_without_processor_time_left_comes_before_everything() {
    let busy = Ratio::percent(97.0);
    let explanation = explained(&convoy(), |findings| findings.generator_busy = Some(busy));
    assert_eq!((explanation.limit.part.as_str(), explanation.limit.utilization), ("the generator", Some(busy)));
}

#[test]
fn devices_without_requests_half_of_the_time_are_not_the_limit() {
    let idle: Vec<Row> = (0..100).flat_map(|n| [row(0, n * 100, n * 100 + 7), row(1, n * 90, n * 90 + 5)]).collect();
    let mut idle = idle;
    idle.sort_by_key(|row| row.completed);
    let explanation = explained(&idle, |_| {});
    assert_eq!(explanation.limit.part, "the load");
    // A load that always asks for more has left them in the generator.
    let lacking = Advice { kind: AdviceKind::QueueNotFull, message: String::new(), option: None };
    let explanation = explained(&idle, |findings| {
        findings.advice = vec![lacking];
        findings.generator_busy = Some(Ratio::percent(33.0));
    });
    assert_eq!(explanation.limit.part, "the generator");
    assert_eq!(
        explanation.limit.evidence,
        [
            "the busiest device, sda, has requests for 7.1 % of the time only, though they were asked for all the time: the rest of it they were in the generator, which used 33 % of its processor"
        ]
    );
    let busy: Vec<Row> = (0..300).map(|n| row(0, n * 10, n * 10 + 9)).chain([row(1, 0, 2999)]).collect();
    let mut busy = busy;
    busy.sort_by_key(|row| row.completed);
    let explanation = explained(&busy, |_| {});
    assert_eq!(explanation.limit.part, "sdb", "{explanation:?}");
    assert_eq!(explanation.worst[0].service, Duration::millis(2999));
}

/// A bus that works 80 of each 100 ms and a disk that works 50, with the waiting of requests between.
#[test]
fn parts_of_a_machine_are_ranked_by_work_and_not_by_waiting() {
    let spans = Spans::on(Bytes::mib(1));
    let (bus, disk) = (spans.part("bus"), spans.part("disk"));
    let (seek, wait, transfer) = (spans.phase("seek"), spans.phase("bus-wait"), spans.phase("transfer"));
    for request in 0..100 {
        let start = request * 100;
        spans.keep(request, disk, seek, at(start), at(start + 50));
        spans.keep(request, bus, wait, at(start + 50), at(start + 60));
        spans.keep(request, bus, transfer, at(start + 20), at(start + 100));
        spans.keep(request, disk, wait, at(start + 50), at(start + 100));
    }
    let table = parts(&spans.take().unwrap());
    assert_eq!(table.iter().map(|part| part.part.as_str()).collect::<Vec<_>>(), ["bus", "disk"]);
    let busy: Vec<f64> = table.iter().map(|part| part.busy.get()).collect();
    assert!((busy[0] - 0.8).abs() < 1e-9 && (busy[1] - 0.5).abs() < 1e-9, "{busy:?}");
    assert_eq!((table[0].phases[0].phase.as_str(), table[0].phases[0].mean), ("transfer", Duration::millis(80)));

    let alone: Vec<Row> = (0..100).map(|n| row(0, n * 100, n * 100 + 100)).collect();
    let explanation = explained(&alone, |findings| findings.parts = table);
    assert_eq!(explanation.limit.part, "bus");
    assert!(explanation.no_rounds.as_ref().unwrap().contains("sda only"), "{explanation:?}");
    // 10 requests a second with the bus busy 80 percent of the time: 12.5 at most. Twice as fast, it is busy 40
    // percent, and the disk limits.
    assert!((explanation.ladder[0].iops.get() - 12.5).abs() < 0.01, "{:?}", explanation.ladder);
    let [change] = &explanation.what_if[..] else { panic!("one change: {explanation:?}") };
    assert_eq!((change.change.as_str(), change.high.get()), ("bus twice as fast", 2.0));
}
