//! What limits a live run: each kind of limit is told from its neighbours by what the kernel said meanwhile.

use analysis::explain::{
    Alone, Bursts, Cures, Explanation, Findings, LimitKind, PartTime, PhaseTime, Stalls, Step, Together, Worsts,
    explain,
};
use analysis::surroundings::{
    Clocks, Disk, Hole, Interrupt, Interval, Memory, MemoryLimit, Neighbour, Pressure, Processor, Surroundings,
    Throttle, Throttled,
};
use analysis::{Advice, AdviceKind, Load, Occupancies, Summarizer};
use record::{Labels, Operation, Phase, Row};
use units::{Bytes, Duration, Frequency, Instant, Ratio};

/// A device that serves `depth` requests of 4 KiB at once, each in `micros`.
struct Loaded {
    micros: u64,
    depth: u64,
}

const USUAL: Loaded = Loaded { micros: 1000, depth: 1 };

/// Ten seconds of requests, one after the other on each lane; every tenth is followed by a flush that takes as long as
/// `flush`, if that is any time.
fn rows(devices: &[Loaded], flush: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    for (index, device) in (0..).zip(devices) {
        for lane in 0..device.depth {
            let mut now = lane * device.micros / device.depth;
            for number in 0.. {
                let (operation, took) = match flush > 0 && number % 10 == 9 {
                    true => (Operation::Flush, flush),
                    false => (Operation::Write, device.micros),
                };
                if now + took > 10_000_000 {
                    break;
                }
                let at = |micros: u64| Instant::START + Duration::micros(micros);
                let mut row = Row::new(operation, Phase::Measure);
                (row.intended, row.submitted, row.completed) = (at(now), at(now), at(now + took));
                (row.device, row.length) = (index, if operation == Operation::Flush { 0 } else { 4096 });
                rows.push(row);
                now += took;
            }
        }
    }
    rows.sort_by_key(|row| row.completed);
    rows
}

/// A machine of two processors that does nothing else.
fn quiet() -> Surroundings {
    let processor = |number| Processor {
        number,
        user: Ratio::percent(10.0),
        system: Ratio::percent(10.0),
        irq: Ratio::ZERO,
        softirq: Ratio::percent(2.0),
        iowait: Ratio::percent(20.0),
        steal: Ratio::ZERO,
    };
    Surroundings {
        time: Duration::seconds(10),
        processors: vec![processor(0), processor(1)],
        own: Ratio::percent(20.0),
        pressure: Some(Pressure { processors: Ratio::percent(1.0), io: Ratio::percent(90.0), memory: Ratio::ZERO }),
        ..Surroundings::default()
    }
}

fn judged(
    devices: &[Loaded],
    flush: u64,
    loads: &[Load],
    change: impl FnOnce(&mut Surroundings, &mut Findings),
) -> Explanation {
    let rows = rows(devices, flush);
    let names = ["sda", "sdb", "sdc", "sdd"].iter().take(devices.len());
    let labels = Labels { streams: vec!["writers".into()], devices: names.map(|name| (*name).to_owned()).collect() };
    let (mut summarizer, mut worsts) = (Summarizer::new(&labels), Worsts::default());
    summarizer.add(&rows);
    worsts.add(&rows);
    let mut occupancies = Occupancies::new(&summarizer);
    occupancies.add(&rows);
    let (summary, occupancies) = (summarizer.summary(), occupancies.finish());
    let mut surroundings = quiet();
    let mut findings = Findings {
        timeline: vec![],
        summary: &summary,
        occupancies: &occupancies,
        rounds: Err("rounds are none of this".to_owned()),
        predicted: None,
        parts: vec![],
        loads,
        surroundings: None,
        stalls: vec![],
        bursts: vec![],
        steps: vec![],
        together: None,
        alone: vec![],
        shared: vec![],
        generator_busy: Some(Ratio::percent(20.0)),
        worst: worsts.finish(&labels.devices),
        cures: Cures::default(),
        advice: vec![],
        remarks: vec![],
    };
    change(&mut surroundings, &mut findings);
    findings.surroundings = Some(&surroundings);
    explain(findings)
}

fn closed(depth: u32) -> Vec<Load> {
    vec![Load::Closed { depth, think: Duration::ZERO }]
}

/// The usual device at depth 1, with something about it changed.
fn usual(change: impl FnOnce(&mut Surroundings, &mut Findings)) -> Explanation {
    judged(&[USUAL], 0, &closed(1), change)
}

fn is(explanation: &Explanation, kind: LimitKind, part: &str) {
    assert_eq!((explanation.limit.kind, explanation.limit.part.as_str()), (kind, part), "{explanation:#?}");
    assert!(explanation.excluded.iter().all(|excluded| excluded.kind != kind), "{explanation:#?}");
}

const DEPTH: &str = "the depth: how many requests are under way";

#[test]
fn a_busy_device_is_not_the_limit_of_one_request_at_a_time() {
    let explanation = usual(|_, _| {});
    is(&explanation, LimitKind::Depth, DEPTH);
    assert_eq!(explanation.what_if[0].high, Ratio::new(2.0));
    let excluded: Vec<LimitKind> = explanation.excluded.iter().map(|one| one.kind).collect();
    use LimitKind::{Cache, Generator, Load, Processors, Stall, Throttle};
    assert_eq!(excluded, [Throttle, Stall, Load, Cache, Processors, Generator]);
    assert_eq!(explanation.next.map(|next| next.part), Some("sda".to_owned()));
}

#[test]
fn whether_requests_queue_tells_a_device_from_depth() {
    let loaded = |micros: u64, alone: u64, requests: u64| {
        judged(&[Loaded { micros, depth: 8 }], 0, &closed(8), |_, findings| {
            findings.alone = vec![Alone { device: "sda".to_owned(), requests, mean: Duration::micros(alone) }];
        })
    };
    is(&loaded(10_000, 9500, 3), LimitKind::Depth, DEPTH);
    let deep = |alone, requests| loaded(1000, alone, requests);
    let device = deep(150, 3);
    is(&device, LimitKind::Device, "sda");
    assert_eq!(device.limit.confidence, Ratio::new(0.8));
    assert!(device.excluded.iter().any(|one| one.kind == LimitKind::Depth && one.because.contains("they queue")));
    // Of what cannot be told the verdict says what would tell.
    for open in [deep(700, 3), loaded(10_000, 9500, 1), deep(950, 3), loaded(80, 75, 3)] {
        is(&open, LimitKind::Device, "sda");
        assert_eq!(open.limit.confidence, Ratio::new(0.5));
        assert!(open.limit.evidence[1].contains("a run at twice the depth tells"), "{open:#?}");
    }
}

#[test]
fn arrivals_that_are_served_ask_for_no_more() {
    let open = [Load::Open { offered: Frequency::per_second(1000.0), variation: Ratio::ONE }];
    let explanation = judged(&[USUAL], 0, &open, |_, _| {});
    is(&explanation, LimitKind::Load, "the load");
    assert_eq!(explanation.next.map(|next| next.part), Some("sda".to_owned()));
    // That a processor hog stands beside changes nothing for who gets all that is asked for.
    is(&judged(&[USUAL], 0, &open, |around, _| hog(around)), LimitKind::Load, "the load");
    let late = Advice { kind: AdviceKind::OfferedLoadNotReached, message: String::new(), option: None };
    let explanation = judged(&[USUAL], 0, &open, |_, findings| findings.advice = vec![late]);
    is(&explanation, LimitKind::Device, "sda");
    let thinking = [Load::Closed { depth: 1, think: Duration::millis(5) }];
    is(&judged(&[USUAL], 0, &thinking, |_, _| {}), LimitKind::Load, "the load");
}

fn hog(around: &mut Surroundings) {
    around.processors.iter_mut().for_each(|one| one.user = Ratio::percent(88.0));
    let each = |id| Neighbour {
        name: "spinner".to_owned(),
        id,
        processor: Ratio::percent(80.0),
        read: Bytes::ZERO,
        written: Bytes::ZERO,
    };
    around.neighbours = vec![each(7), each(8)];
}

#[test]
fn processors_are_told_by_who_uses_them() {
    let explanation = usual(|around, _| hog(around));
    is(&explanation, LimitKind::Processors, "the processors, which other programs use");
    assert!(explanation.limit.evidence[0].contains("spinner (7, 80 % of one)"), "{explanation:#?}");
    let own = usual(|around, _| around.processors.iter_mut().for_each(|one| one.user = Ratio::percent(85.0)));
    is(&own, LimitKind::Processors, "the processors");
    let single = usual(|around, findings| {
        around.processors.truncate(1);
        around.processors[0].user = Ratio::percent(85.0);
        findings.generator_busy = Some(Ratio::percent(96.0));
    });
    is(&single, LimitKind::Processors, "the one processor that the run may use");
    let interrupted = usual(|around, _| {
        around.processors[1].softirq = Ratio::percent(75.0);
        let of =
            |name: &str, processor| Interrupt { name: name.to_owned(), count: 50_000, processor, share: Ratio::ONE };
        around.interrupts = vec![of("nvme0q1", 0), of("nvme0q2", 1)];
    });
    is(&interrupted, LimitKind::Processors, "processor 1, with interrupts");
    let evidence = &interrupted.limit.evidence[0];
    assert!(evidence.ends_with("most interrupts there are of nvme0q2 (5000/s)"), "{evidence}");
    // Bursts that are larger than the processors leave them idle in between.
    let crowded = |busy: f64, waited: f64| {
        usual(|around, _| {
            around.processors.iter_mut().for_each(|one| (one.user, one.system) = (Ratio::percent(busy), Ratio::ZERO));
            around.pressure.as_mut().unwrap().processors = Ratio::percent(waited);
        })
    };
    let full = crowded(80.0, 60.0);
    is(&full, LimitKind::Processors, "the processors");
    assert!(full.limit.evidence[0].ends_with("waited for a processor for 60 % of the time"), "{full:#?}");
    assert_eq!(full.limit.confidence, Ratio::new(0.7));
    is(&crowded(80.0, 30.0), LimitKind::Depth, DEPTH);
    is(&crowded(50.0, 60.0), LimitKind::Depth, DEPTH);
    // A hog on one of two leaves the other.
    let half = usual(|around, _| {
        hog(around);
        around.processors[1].user = Ratio::ZERO;
    });
    is(&half, LimitKind::Depth, DEPTH);
    assert!(half.excluded.iter().any(|one| one.kind == LimitKind::Processors && one.because.contains("spinner")));
}

#[test]
fn a_thread_without_time_is_the_generator_while_processors_are_free() {
    let explanation = usual(|_, findings| findings.generator_busy = Some(Ratio::percent(96.0)));
    is(&explanation, LimitKind::Generator, "the generator");
}

#[test]
fn a_throttle_is_the_limit_where_it_is_reached() {
    let throttled = |most: f64| {
        usual(|around, _| {
            let said = "writes of 8:0 are limited by control group bench".to_owned();
            around.throttles.push(Throttle { devices: vec!["sda".into()], what: Throttled::Writes, most, said });
        })
    };
    is(&throttled(1100.0), LimitKind::Throttle, "sda");
    let far = throttled(5000.0);
    is(&far, LimitKind::Depth, DEPTH);
    let because = far.excluded.iter().find(|one| one.kind == LimitKind::Throttle).map(|one| one.because.clone());
    assert_eq!(because.unwrap(), "writes of 8:0 are limited by control group bench, of which 20 % was reached");
    let withheld = usual(|around, _| around.withheld = Ratio::percent(40.0));
    is(&withheld, LimitKind::Throttle, "the control group of this program");
}

fn disk(moved: u64, is_raw: bool) -> Disk {
    let devices = vec!["sda".to_owned()];
    let (name, requests) = ("sda".to_owned(), [0, moved / 4096]);
    Disk { name, devices, is_raw, requests, moved: [0, moved], merges: [0; 2], in_flight: 1.0, busy: Ratio::ONE }
}

#[test]
fn what_others_asked_of_a_device_is_its_neighbours() {
    let own = 10_000 * 4096;
    is(&usual(|around, _| around.disks.push(disk(own, true))), LimitKind::Depth, DEPTH);
    let shared = usual(|around, _| around.disks.push(disk(3 * own, true)));
    is(&shared, LimitKind::Neighbour, "other programs on sda");
    assert!((shared.what_if[0].high.get() - 3.0).abs() < 0.01, "{shared:#?}");
    // A file system writes of its own accord: there a neighbour must be seen.
    is(&usual(|around, _| around.disks.push(disk(3 * own, false))), LimitKind::Depth, DEPTH);
    let named = usual(|around, _| {
        around.disks.push(disk(3 * own, false));
        let written = Bytes::new(2 * own);
        let name = "backup".to_owned();
        around.neighbours = vec![Neighbour { name, id: 9, processor: Ratio::ZERO, read: Bytes::ZERO, written }];
    });
    is(&named, LimitKind::Neighbour, "other programs on sda");
    assert!(named.limit.evidence[0].contains("backup (9)"), "{named:#?}");
}

#[test]
fn memory_that_serves_is_no_device() {
    let cached = |moved: u64| {
        usual(|around, _| {
            around.cached = vec!["sda".to_owned()];
            around.disks.push(disk(moved, false));
        })
    };
    is(&cached(4 << 20), LimitKind::Cache, "the page cache");
    is(&cached(60 << 20), LimitKind::Depth, DEPTH);
    // All of it reached the device, by calls that leave their thread no time: not the generator's own work.
    let calls = usual(|around, findings| {
        around.cached = vec!["sda".to_owned()];
        around.disks.push(disk(60 << 20, false));
        findings.generator_busy = Some(Ratio::percent(96.0));
    });
    is(&calls, LimitKind::Generator, "the thread that makes the calls");
    assert!(calls.limit.evidence[0].contains("the file system's work"), "{calls:#?}");
    let short = usual(|around, _| {
        around.cached = vec!["sda".to_owned()];
        around.pressure.as_mut().unwrap().memory = Ratio::percent(60.0);
    });
    is(&short, LimitKind::Cache, "memory, which is short");
    // Reads that the page cache could have served, had it not been made to drop what they want.
    let dropped = |wanted: Bytes, reclaimed: u64, limit: Option<MemoryLimit>| {
        usual(|around, _| {
            around.cached = vec!["sda".to_owned()];
            let read = 30 << 20;
            around.disks.push(Disk { requests: [read / 4096, 0], moved: [read, 0], ..disk(0, false) });
            let (installed, reclaimed) = (Bytes::gib(1), Bytes::mib(reclaimed));
            around.memory = Some(Memory { installed, limit, wanted, reclaimed, reached: 9 });
        })
    };
    let group = MemoryLimit { most: Bytes::mib(64), group: "memory/small".to_owned() };
    let short = dropped(Bytes::mib(200), 29, Some(group));
    is(&short, LimitKind::Cache, "memory, which is short");
    assert!(short.limit.evidence[0].contains("memory/small allows this program 64 MiB"), "{short:#?}");
    let taken = dropped(Bytes::mib(200), 29, None);
    is(&taken, LimitKind::Cache, "memory, which is short");
    assert!(taken.limit.evidence[0].contains("other programs hold the memory"), "{taken:#?}");
    // First reads drop nothing, and data larger than the memory are the device's whoever holds it.
    for (wanted, reclaimed) in [(Bytes::mib(200), 1), (Bytes::gib(2), 29)] {
        assert_ne!(dropped(wanted, reclaimed, None).limit.part, "memory, which is short");
    }
    let hollow = |share: f64| {
        usual(|around, _| around.holes = vec![Hole { device: "sda".into(), share: Ratio::percent(share) }])
    };
    is(&hollow(100.0), LimitKind::Holes, "sda");
    is(&hollow(10.0), LimitKind::Depth, DEPTH);
}

#[test]
fn stalls_are_told_and_what_would_be_without_them() {
    let stalls = Stalls {
        device: "sda".to_owned(),
        count: 10,
        mean: Duration::millis(100),
        longest: Duration::millis(101),
        share: Ratio::percent(10.0),
        first: Duration::seconds(1),
        period: Some(Duration::seconds(1)),
        begins: vec![],
        usual: Duration::micros(1000),
    };
    let explanation = usual(|_, findings| findings.stalls = vec![stalls]);
    is(&explanation, LimitKind::Stall, "sda");
    assert!(explanation.limit.evidence[0].ends_with("the first began at 1 s, one every 1 s"), "{explanation:#?}");
    assert!((explanation.what_if[0].high.get() - 1.0 / 0.9).abs() < 0.01);
}

#[test]
fn flushes_are_told_from_what_they_flush() {
    is(&judged(&[USUAL], 20_000, &closed(1), |_, _| {}), LimitKind::Device, "sda: its flushes");
    // Of ten requests of 1 ms and a flush of 3 ms, a fourth is the flush's: worth a word.
    let some = judged(&[USUAL], 3000, &closed(1), |_, _| {});
    is(&some, LimitKind::Depth, DEPTH);
    assert!(some.limit.evidence.iter().any(|line| line.contains("flushes (fsync")), "{:?}", some.limit.evidence);
    let few = judged(&[USUAL], 1000, &closed(1), |_, _| {});
    assert!(!few.limit.evidence.iter().any(|line| line.contains("flushes")), "{:?}", few.limit.evidence);
}

#[test]
fn one_slow_device_among_many_is_named_and_alike_ones_are_not() {
    let slow = |micros: u64| {
        let device = |micros| Loaded { micros, depth: 4 };
        let loads = closed(16);
        judged(&[device(1000), device(1000), device(micros), device(1100)], 0, &loads, |_, _| {})
    };
    is(&slow(5000), LimitKind::Device, "sdc");
    is(&slow(1000), LimitKind::None, "the devices, all alike");
}

#[test]
fn what_one_gains_and_others_lose_is_shared() {
    let together = |ratio: f64, intervals: usize| {
        let two = [Loaded { micros: 1000, depth: 4 }, Loaded { micros: 1000, depth: 4 }];
        judged(&two, 0, &closed(8), |_, findings| {
            findings.together = Some(Together { ratio: Ratio::new(ratio), intervals });
        })
    };
    is(&together(0.1, 100), LimitKind::Shared, "what the devices share");
    is(&together(0.9, 100), LimitKind::None, "the devices, all alike");
    // Of few intervals a small ratio may be chance.
    is(&together(0.3, 30), LimitKind::None, "the devices, all alike");
}

#[test]
fn a_request_that_the_block_layer_splits_is_said_to_be() {
    let deep = [Loaded { micros: 1000, depth: 4 }];
    let explanation = judged(&deep, 0, &closed(4), |around, _| {
        let moved = 40_000 * 4096;
        around.disks.push(Disk { requests: [0, 160_000], ..disk(moved, true) });
    });
    is(&explanation, LimitKind::Device, "sda");
    assert!(explanation.limit.evidence[1].contains("it makes 4.0 of each"), "{explanation:#?}");
}

#[test]
fn where_the_kernel_was_traced_the_evidence_says_where_requests_were() {
    let phase = |phase: &str, share: f64| PhaseTime {
        phase: phase.to_owned(),
        count: 10,
        mean: Duration::micros(10),
        share: Ratio::percent(share),
    };
    let phases = vec![phase("to be queued", 1.0), phase("in the device", 24.0), phase("to be issued", 75.0)];
    let part = PartTime { phases, ..PartTime::at_work("sda".to_owned(), Ratio::ONE) };
    let explanation = usual(|_, findings| findings.timeline = vec![part]);
    let said = "in the kernel, requests of sda spend 10 us to be issued (75 %), 10 us in the device (24 %)";
    assert_eq!(explanation.limit.evidence.last().unwrap(), said);
    assert_eq!(explanation.timeline.len(), 1);
    // The members of an array together; and the one apart that is slower than the others.
    let member = |name: &str, micros: u64, share: f64| {
        let phases = vec![PhaseTime { mean: Duration::micros(micros), ..phase("in the device", share) }];
        PartTime { phases, ..PartTime::at_work(name.to_owned(), Ratio::ONE) }
    };
    let evidence = |micros: [u64; 3]| {
        let phases = vec![phase("passed on", 28.0)];
        let array = PartTime { phases, ..PartTime::at_work("sda".to_owned(), Ratio::ONE) };
        let members = ["x", "y", "z"].into_iter().zip(micros).map(|(name, micros)| member(name, micros, 4.0));
        let timeline = [array].into_iter().chain(members).collect();
        usual(|_, findings| findings.timeline = timeline).limit.evidence.last().unwrap().clone()
    };
    let said =
        "in the kernel, requests of sda spend 10 us passed on (70 %), 20 us in the device of 3 parts below (30 %)";
    assert_eq!(evidence([20, 25, 15]), said);
    let slow = "28 us in the device of 3 parts below, 50 us in y and 17 us in the others (30 %)";
    assert!(evidence([19, 50, 15]).ends_with(slow), "{}", evidence([19, 50, 15]));
    assert!(usual(|_, _| {}).limit.evidence.iter().all(|line| !line.contains("in the kernel")));
}

/// Two bursts of fio of two seconds each.
fn bursts(cost: f64) -> Bursts {
    let seconds = Duration::seconds;
    Bursts {
        kind: LimitKind::Neighbour,
        part: "sda".to_owned(),
        devices: vec!["sda".to_owned()],
        by: vec!["fio (9)".to_owned()],
        count: 2,
        mean: seconds(2),
        share: Ratio::percent(40.0),
        first: seconds(1),
        period: None,
        within: Duration::millis(5),
        otherwise: Duration::millis(1),
        cost: Ratio::percent(cost),
        when: vec![(seconds(1), seconds(3)), (seconds(6), seconds(8))],
    }
}

#[test]
fn bursts_that_cost_much_limit_and_others_are_remarks() {
    let limited = usual(|_, findings| findings.bursts = vec![bursts(16.0)]);
    is(&limited, LimitKind::Neighbour, "other programs on sda, at times");
    assert!(limited.limit.evidence[0].starts_with("bursts of I/O on sda by fio (9): 2, 2 s long"), "{limited:#?}");
    assert!((limited.what_if[0].high.get() - 1.0 / 0.84).abs() < 1e-9, "{limited:#?}");
    let remarked = usual(|_, findings| findings.bursts = vec![bursts(2.0)]);
    is(&remarked, LimitKind::Depth, DEPTH);
    assert!(remarked.remarks.iter().any(|remark| remark.starts_with("bursts of I/O on sda")), "{remarked:#?}");
}

#[test]
fn pauses_within_bursts_of_others_are_no_stalls_of_the_device() {
    let pauses = |begins: [u64; 2]| Stalls {
        device: "sda".to_owned(),
        count: 2,
        mean: Duration::millis(300),
        longest: Duration::millis(300),
        share: Ratio::percent(6.0),
        first: Duration::seconds(begins[0]),
        period: None,
        begins: begins.map(Duration::seconds).to_vec(),
        usual: Duration::millis(1),
    };
    let judged =
        |begins| usual(|_, findings| (findings.bursts, findings.stalls) = (vec![bursts(16.0)], vec![pauses(begins)]));
    is(&judged([2, 7]), LimitKind::Neighbour, "other programs on sda, at times");
    is(&judged([4, 9]), LimitKind::Stall, "sda");
}

#[test]
fn a_step_is_remarked_with_what_the_processors_did() {
    let step = |at: u64| Step {
        device: "sda".to_owned(),
        at: Duration::seconds(at),
        before: Duration::millis(1),
        after: Duration::millis(3),
        ratio: Ratio::new(3.0),
    };
    let remark = |explanation: Explanation| {
        explanation.remarks.into_iter().find(|remark| remark.starts_with("sda changes at 5 s")).unwrap_or_default()
    };
    let of_device = remark(usual(|_, findings| findings.steps = vec![step(5)]));
    assert!(of_device.ends_with("a write cache that is full, garbage collection or heat"), "{of_device}");
    let of_cache = remark(usual(|around, findings| {
        (around.cached, findings.steps) = (vec!["sda".to_owned()], vec![step(5)]);
    }));
    assert!(of_cache.ends_with("the page cache: it may have filled, or begun to write back"), "{of_cache}");
    let of_heat = remark(usual(|around, findings| {
        findings.steps = vec![step(5)];
        let interval = |from: u64, ghz: f64, slowed| {
            let [mean, most] = [ghz, 3.0].map(|ghz| Frequency::per_second(ghz * 1e9));
            let around = Surroundings { clocks: Some(Clocks { mean, most, slowed }), ..Surroundings::default() };
            Interval { from: Duration::seconds(from), until: Duration::seconds(from + 1), around }
        };
        around.intervals = vec![interval(3, 3.0, 0), interval(4, 3.0, 0), interval(5, 1.2, 7), interval(6, 1.2, 0)];
    }));
    assert!(of_heat.ends_with("ran at 3.00 GHz before and at 1.20 GHz then, slowed for heat 7 times"), "{of_heat}");
    let in_burst = usual(|_, findings| (findings.bursts, findings.steps) = (vec![bursts(16.0)], vec![step(7)]));
    assert!(!in_burst.remarks.iter().any(|remark| remark.contains("changes at")), "{in_burst:#?}");
}
