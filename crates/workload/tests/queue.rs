//! Arrivals and services that vary more than exponential ones, against the formulas of queueing theory, in virtual
//! time.

mod common;

use std::cell::RefCell;

use common::Server;
use device::{Device, Shape};
use rand::RngExt;
use rand_distr::{Distribution, Exp1};
use record::{Phase, Row};
use runtime::{Random, Runtime};
use units::{Bytes, Duration, Frequency, Instant, Rate, Ratio};
use workload::{Arrivals, Clockwork, Control, Distances, Load, Mix, OnError, Pattern, RateLimit, Stream, Tally};

/// One server, whose service takes 1 ms on average: exponential, or of two kinds.
fn server(runtime: &Runtime, variation: f64) -> Server {
    let random = RefCell::new(Random::new(11));
    Server::serving(runtime, 1, move || {
        let random = &mut *random.borrow_mut();
        let squared = variation * variation;
        let often = 0.5 * (1.0 + ((squared - 1.0) / (squared + 1.0)).sqrt());
        let share = if random.random_bool(often) { often } else { 1.0 - often };
        let unit: f64 = Exp1.sample(random);
        Duration::from_seconds(unit * 1e-3 / (2.0 * share))
    })
}

fn run(device: &impl Device, runtime: &Runtime, stream: &Stream, control: &Control) -> Vec<Row> {
    common::load((runtime, device), stream, control, 4, (OnError::Stop, &Tally::default()))
}

fn open(arrivals: Arrivals, seconds: u64) -> (Stream, Control) {
    let mut stream = Stream::closed("open", Mix::READS, Pattern::Random, Bytes::kib(4), 1);
    stream.load = Load::Open { arrivals, outstanding: 8 };
    stream.limits.time = Some(Duration::seconds(seconds));
    (stream, Control::new(Instant::START, Duration::seconds(10), Duration::ZERO, 1))
}

/// Mean response time in milliseconds, over some independent parts, and the half-width of its 99.9 percent interval.
fn mean_response(rows: &[Row]) -> (f64, f64) {
    const PARTS: usize = 20;
    let counted: Vec<f64> =
        rows.iter().filter(|row| row.phase == Phase::Measure).map(|row| row.response().as_seconds() * 1e3).collect();
    let parts: Vec<f64> = counted
        .chunks(counted.len().div_ceil(PARTS))
        .map(|part| part.iter().sum::<f64>() / part.len() as f64)
        .collect();
    let n = parts.len() as f64;
    let mean = parts.iter().sum::<f64>() / n;
    let variance = parts.iter().map(|part| (part - mean).powi(2)).sum::<f64>() / (n - 1.0);
    // Student's t for 19 degrees of freedom.
    (mean, 3.883 * (variance / n).sqrt())
}

/// Response time of a queue with Poisson arrivals, in services (Pollaczek and Khinchine): `1 + rho (1 + c^2) / (2 (1 -
/// rho))`.
#[test]
fn poisson_arrivals_wait_as_pollaczek_and_khinchine_say() {
    for (load, variation) in [(0.5, 1.0), (0.7, 1.0), (0.5, 3.0), (0.7, 2.0)] {
        let runtime = Runtime::simulated();
        let (stream, control) = open(Arrivals::Poisson(Frequency::per_second(1000.0 * load)), 600);
        let rows = run(&server(&runtime, variation), &runtime, &stream, &control);
        let (mean, half) = mean_response(&rows);
        let theory = 1.0 + load * (1.0 + variation * variation) / (2.0 * (1.0 - load));
        assert!((mean - theory).abs() < half, "load {load}, variation {variation}: {mean} +- {half}, not {theory}");
        assert!(half < theory * 0.25, "{half} tells something");
    }
}

/// Response time of a queue with exponential services, in services: `1 / (1 - sigma)`, where sigma is the root of
/// `sigma = A(1 - sigma)` below 1 and `A` the transform of the distances of arrivals (L. Kleinrock, "Queueing Systems"
/// I, section 6.4).
#[test]
fn hyper_exponential_arrivals_wait_as_the_theory_of_gi_m_1_says() {
    for (load, variation) in [(0.5, 1.0), (0.5, 2.0), (0.7, 3.0)] {
        let runtime = Runtime::simulated();
        let rate = Frequency::per_second(1000.0 * load);
        let arrivals = Arrivals::HyperExponential { rate, variation: Ratio::new(variation) };
        let (stream, control) = open(arrivals, 600);
        let (mean, half) = mean_response(&run(&server(&runtime, 1.0), &runtime, &stream, &control));
        let squared = variation * variation;
        let p = 0.5 * (1.0 + ((squared - 1.0) / (squared + 1.0)).sqrt());
        let transform = |s: f64| {
            let phase = |share: f64| share * 2.0 * share * load / (2.0 * share * load + s);
            phase(p) + phase(1.0 - p)
        };
        let sigma = (0..1000).fold(0.5, |sigma, _| transform(1.0 - sigma));
        let theory = 1.0 / (1.0 - sigma);
        assert!((mean - theory).abs() < half, "load {load}, variation {variation}: {mean} +- {half}, not {theory}");
        assert!(half < theory * 0.3, "{half} tells something");
    }
}

#[test]
fn hyper_exponential_distances_have_the_mean_and_the_variation_that_were_asked_for() {
    for variation in [1.0, 2.0, 5.0] {
        let rate = Frequency::per_second(3000.0);
        let arrivals = Arrivals::HyperExponential { rate, variation: Ratio::new(variation) };
        let mut clockwork = Clockwork::new(arrivals, Instant::START, Random::new(5));
        let n = 1_000_000;
        let (mut last, mut sum, mut squares) = (Instant::START, 0.0, 0.0);
        for _ in 0..n {
            let arrival = clockwork.next_arrival();
            let gap = arrival.since(last).as_seconds();
            (last, sum, squares) = (arrival, sum + gap, squares + gap * gap);
        }
        let mean = sum / f64::from(n);
        let found = (squares / f64::from(n) - mean * mean).sqrt() / mean;
        assert!((mean * rate.get() - 1.0).abs() < 5.0 * variation / f64::from(n).sqrt(), "mean distance {mean}");
        assert!((found / variation - 1.0).abs() < 0.03, "coefficient of variation {found}");
    }
}

#[test]
fn bursts_are_silent_in_between_and_keep_their_rate() {
    let (on, off) = (Duration::millis(100), Duration::millis(300));
    let arrivals = Arrivals::Bursts { rate: Frequency::per_second(4000.0), on, off };
    assert_eq!(arrivals.rate(), Frequency::per_second(1000.0));
    let start = Instant::START + Duration::millis(7);
    let mut clockwork = Clockwork::new(arrivals, start, Random::new(5));
    let end = start + Duration::seconds(400);
    let arrivals: Vec<Instant> =
        std::iter::from_fn(|| Some(clockwork.next_arrival())).take_while(|at| *at < end).collect();
    assert!(arrivals.iter().all(|at| at.since(start).as_nanos() % 400_000_000 < 100_000_000), "all within bursts");
    let n = arrivals.len() as f64;
    assert!((n - 400_000.0).abs() < 5.0 * 400_000f64.sqrt(), "{n} arrivals in 400 s");
}

/// A closed loop that could do 8000/s keeps to 500/s, or to 2 MB/s; the time for which it is held back is not the
/// device's.
#[test]
fn a_rate_limit_is_kept_by_all_streams_together_and_costs_no_response_time() {
    let by_requests = RateLimit { requests: Some(Frequency::per_second(500.0)), bytes: None, burst: Duration::ZERO };
    let by_bytes =
        RateLimit { requests: None, bytes: Some(Rate::bytes_per_second(2_048_000.0)), burst: Duration::ZERO };
    for (all, own) in [(Some(by_requests), None), (None, Some(by_bytes))] {
        let runtime = Runtime::simulated();
        let mut stream = Stream::closed("held", Mix::READS, Pattern::Random, Bytes::kib(4), 8);
        stream.limits.time = Some(Duration::seconds(10));
        let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, 1).throttled(all, [own]);
        let rows =
            run(&device::NullDevice::new(&runtime, Shape::new("null", Bytes::mib(64))), &runtime, &stream, &control);
        assert_eq!(rows.len(), 5000);
        assert!(rows.iter().all(|row| row.response() == Duration::ZERO));
    }
}

/// Arrivals that a limit holds back have arrived: their wait counts.
#[test]
fn what_a_rate_limit_holds_back_in_an_open_loop_is_late() {
    let runtime = Runtime::simulated();
    let (mut stream, _) = open(Arrivals::Constant(Frequency::per_second(1000.0)), 1);
    stream.limits.time = Some(Duration::seconds(1));
    let limit = RateLimit { requests: Some(Frequency::per_second(800.0)), bytes: None, burst: Duration::ZERO };
    let control = Control::new(Instant::START, Duration::ZERO, Duration::ZERO, 1).throttled(Some(limit), [None]);
    let rows = run(&device::NullDevice::new(&runtime, Shape::new("null", Bytes::mib(64))), &runtime, &stream, &control);
    assert_eq!(rows.len(), 1000, "all are served");
    let worst = rows.iter().map(Row::response).max().unwrap();
    assert!((Duration::millis(245)..Duration::millis(255)).contains(&worst), "the last one is late by {worst}");
}

/// The three shares that R. Gusella's trace gives (50, 84 and 99 percent within 3, 10 and 90 ms), and the mean of
/// straight lines through them, by hand: the last one goes on for 1/15 of its 80 ms.
#[test]
fn distances_known_at_points_keep_their_shares_and_the_mean_of_straight_lines() {
    let points = [(3, 0.5), (10, 0.84), (90, 0.99)].map(|(ms, share)| (Duration::millis(ms), Ratio::new(share)));
    let arrivals = Arrivals::Distances(Distances::new(&points).unwrap());
    let theory = 0.5 * 1.5 + 0.34 * 6.5 + 0.15 * 50.0 + 0.01 * (90.0 + 80.0 / 15.0 / 2.0);
    assert!((1e3 / arrivals.rate().get() - theory).abs() < 1e-3, "{}", arrivals.rate().get());
    assert!((arrivals.faster(2.0).rate().get() / arrivals.rate().get() - 2.0).abs() < 1e-6);
    let mut clockwork = Clockwork::new(arrivals, Instant::START, Random::new(5));
    let n = 200_000;
    let (mut last, mut sum, mut within) = (Instant::START, 0.0, [0_u32; 3]);
    let (mut longest, mut first_half) = (Duration::ZERO, 0_u32);
    for _ in 0..n {
        let arrival = clockwork.next_arrival();
        let gap = arrival.since(last);
        longest = longest.max(gap);
        first_half += u32::from(gap <= Duration::micros(1500));
        points.iter().zip(&mut within).for_each(|(point, count)| *count += u32::from(gap <= point.0));
        (last, sum) = (arrival, sum + gap.as_seconds());
    }
    assert!((sum / f64::from(n) * 1e3 / theory - 1.0).abs() < 0.02, "mean distance {}", sum / f64::from(n));
    for (point, count) in points.iter().zip(within) {
        let share = f64::from(count) / f64::from(n);
        assert!((share - point.1.get()).abs() < 0.005, "{share} within {}, not {}", point.0, point.1);
    }
    let half = f64::from(first_half) / f64::from(n);
    assert!((half - 0.25).abs() < 0.005, "half of the way to a point has half of its share: {half}");
    assert!((Duration::millis(94)..Duration::micros(95_334)).contains(&longest), "{longest}");
    for bad in
        [&points[..0], &[points[1], points[0]], &[(points[0].0, Ratio::ONE)], &[(Duration::ZERO, Ratio::new(0.5))]]
    {
        assert!(Distances::new(bad).is_none(), "{bad:?}");
    }
}
