//! What measurements of a host come to: curves, interference, stalls, of made-up samples.

use analysis::knee::KneeVerdict;
use analysis::maximum::{Direction, Findings, Kind, Loaded, Maximum, Method, Sample, stalls};
use rand_distr::{Distribution, Normal};
use record::{Operation, Phase, Row};
use runtime::Random;
use units::{Bytes, Duration, Instant, Rate};

const ONE: f64 = 10e6;
const DEVICES: usize = 8;

fn kind(method: Method, direction: Direction) -> Kind {
    Kind { method, direction, request: Bytes::mib(1) }
}

/// Five repeats of a reading and a writing rate in multiples of one device.
fn repeats(read: f64, written: f64, random: &mut Random) -> Vec<Sample> {
    let normal = Normal::new(0.0, 0.005).unwrap();
    let mut rate = |truth: f64| Rate::bytes_per_second(truth * ONE * f64::exp(normal.sample(random)));
    (0..5).map(|_| Sample { read: rate(read), written: rate(written), fewest: 100, ..Sample::default() }).collect()
}

/// Eight devices that read at 1 and write at 0.9, of which both at once keep a share, and share a limit.
fn findings(kept: f64, limit: f64) -> Findings {
    let random = &mut Random::new(1);
    let mut findings =
        Findings { devices: (0..DEVICES).map(|device| format!("d{device}")).collect(), ..Findings::default() };
    let (read, write) = (kind(Method::Independent, Direction::Read), kind(Method::Independent, Direction::Write));
    let both = kind(Method::Simultaneous, Direction::Both);
    for device in 0..DEVICES {
        findings.samples.insert((read, Loaded::Alone(device)), repeats(1.0, 0.0, random));
        findings.samples.insert((write, Loaded::Alone(device)), repeats(0.0, 0.9, random));
    }
    for count in 1..=DEVICES {
        let n = count as f64;
        findings.samples.insert((read, Loaded::First(count)), repeats(n.min(limit), 0.0, random));
        findings.samples.insert((write, Loaded::First(count)), repeats(0.0, (0.9 * n).min(limit), random));
        if count.is_multiple_of(2) {
            let scale = kept * (limit / (0.95 * n)).min(1.0);
            let samples = repeats(0.5 * n * scale, 0.45 * n * scale, random);
            findings.samples.insert((both, Loaded::First(count)), samples);
        }
    }
    findings
}

#[test]
fn slower_writes_are_no_interference_and_a_shared_limit_is_none() {
    for limit in [100.0, 4.3] {
        let maximum = Maximum::of(&findings(1.0, limit));
        assert_eq!(maximum.interference.iter().map(|one| one.devices).collect::<Vec<_>>(), [2, 4, 6, 8]);
        for one in &maximum.interference {
            assert!(one.lost.value.abs() < 0.02 && one.lost.low < 0.01, "{one:?}");
        }
        let knees: Vec<bool> = maximum
            .curves
            .iter()
            .filter_map(|curve| Some(matches!(curve.knee.as_ref()?.verdict, KneeVerdict::Knee { .. })))
            .collect();
        assert_eq!(knees, [limit < 8.0; 2], "of reads and of writes; of both none is looked for");
    }
}

#[test]
fn what_both_directions_cost_each_other_is_found_with_its_interval() {
    let maximum = Maximum::of(&findings(0.8, 100.0));
    let last = maximum.interference.last().unwrap();
    assert!(last.lost.low <= 0.2 && 0.2 <= last.lost.high && last.lost.high - last.lost.low < 0.05, "{last:?}");
    assert!((last.all_reading.get() / (8.0 * ONE) - 1.0).abs() < 0.02 && last.read > last.written);
}

#[test]
fn losses_are_of_the_sum_alone_and_json_keeps_all() {
    let maximum = Maximum::of(&findings(1.0, 4.3));
    let reads = &maximum.curves[0];
    assert_eq!((reads.method, reads.direction, reads.points.len()), (Method::Independent, Direction::Read, 8));
    assert!((reads.points[7].loss.unwrap() - (1.0 - 4.3 / 8.0)).abs() < 0.02, "{:?}", reads.points[7]);
    let json = serde_json::to_value(&maximum).unwrap();
    assert_eq!(json["curves"][0]["method"], "independent");
    assert_eq!(json["curves"][0]["knee"]["verdict"], "knee");
    assert_eq!(serde_json::from_value::<Maximum>(json).unwrap(), maximum);
}

/// Of the rows of device 1, each of 1 ms, the one of this number takes 50 ms. Device 0 never stalls.
fn rows(stalled: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    for device in 0..2u16 {
        let mut now = 0;
        for number in 0..100u64 {
            let took = if device == 1 && number == stalled { 50 } else { 1 };
            let at = |millis: u64| Instant::START + Duration::millis(millis);
            let mut row = Row::new(Operation::Read, Phase::Measure);
            (row.device, row.offset) = (device, Bytes::mib(number));
            (row.intended, row.submitted, row.completed) = (at(now), at(now), at(now + took));
            rows.push(row);
            now += took;
        }
    }
    rows
}

#[test]
fn a_stall_is_named_with_its_device_its_number_and_its_share_of_the_loss() {
    let found = stalls(&rows(42));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].device, found[0].number, found[0].offset), (1, 42, Bytes::mib(42)));
    assert_eq!((found[0].took, found[0].of), (Duration::millis(50), Duration::millis(149)));
    assert_eq!(stalls(&rows(1000)), []);

    // Two devices that lose just what the stall takes: 49 of 149 ms of one of them.
    let mut findings = findings(1.0, 100.0);
    let lost = 49.0 / 149.0;
    let samples = findings.samples.get_mut(&(kind(Method::Independent, Direction::Read), Loaded::First(2))).unwrap();
    for sample in samples.iter_mut() {
        sample.read = Rate::bytes_per_second((2.0 - lost) * ONE);
        sample.stalls = found.clone();
    }
    let maximum = Maximum::of(&findings);
    let [stall] = &maximum.stalls[..] else { panic!("{:?}", maximum.stalls) };
    assert_eq!((stall.device.as_str(), stall.devices, stall.count, stall.number), ("d1", 2, 5, 42));
    assert!((stall.share_of_loss.unwrap() - 1.0).abs() < 0.05, "{stall:?}");
}

#[test]
fn what_did_not_move_or_was_not_measured_is_left_out() {
    let mut findings = findings(1.0, 100.0);
    let read = kind(Method::Independent, Direction::Read);
    findings.samples.insert((read, Loaded::First(3)), vec![Sample::default(); 5]);
    findings.samples.retain(|(_, loaded), _| *loaded != Loaded::Alone(7));
    let maximum = Maximum::of(&findings);
    let reads = &maximum.curves[0];
    assert_eq!(reads.points.iter().map(|point| point.devices).collect::<Vec<_>>(), [1, 2, 4, 5, 6, 7, 8]);
    assert_eq!((reads.points[6].expected, &reads.knee), (None, &None));
    assert!(Maximum::of(&Findings::default()).curves.is_empty());
}
