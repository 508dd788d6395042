//! Queueing theory as tests: the executor, its timers and its resources against formulas that do not know them.
//!
//! Each run is cut into batches; the mean of the batch means is compared with theory by its own 99.9 percent interval,
//! so a test fails for a reason and not for want of luck. Seeds are fixed: a run is the same every time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rand_distr::{Distribution, Exp1};
use runtime::{Random, Resource, Runtime};
use units::{Duration, Instant};

enum Service {
    Exponential,
    Fixed,
}

struct Observed {
    /// Mean time from arrival to departure, one per batch.
    batches: Vec<f64>,
    /// Mean number in the system, as an integral over time.
    mean_in_system: f64,
    arrival_rate: f64,
    utilization: f64,
}

/// A queue with `servers` servers of mean service time 1 s and load `rho`, a task for each customer.
fn simulate(servers: u32, rho: f64, service: Service, customers: u32, seed: u64) -> Observed {
    const BATCHES: u32 = 40;
    let runtime = Runtime::simulated();
    let resource = Resource::new(&runtime, servers);
    let mut arrivals = Random::named(seed, "arrivals");
    let mut services = Random::named(seed, "services");
    let exponential = |random: &mut Random, mean: f64| {
        let unit: f64 = Exp1.sample(random);
        Duration::from_seconds(unit * mean)
    };
    let sums: Rc<RefCell<Vec<(f64, u32)>>> = Rc::new(RefCell::new(vec![(0.0, 0); BATCHES as usize]));
    let in_system = Rc::new(Cell::new((0u64, Instant::START, 0.0f64)));
    let count = |in_system: &Cell<(u64, Instant, f64)>, now: Instant, change: i64| {
        let (n, since, integral) = in_system.get();
        in_system.set((n.strict_add_signed(change), now, integral + n as f64 * now.since(since).as_seconds()));
    };
    runtime.block_on(async {
        let mut last = None;
        for customer in 0..customers {
            runtime.sleep(exponential(&mut arrivals, 1.0 / (rho * f64::from(servers)))).await;
            let time = match service {
                Service::Exponential => exponential(&mut services, 1.0),
                Service::Fixed => Duration::seconds(1),
            };
            let (runtime, resource) = (runtime.clone(), resource.clone());
            let (sums, in_system) = (Rc::clone(&sums), Rc::clone(&in_system));
            last = Some(runtime.clone().spawn(async move {
                let arrived = runtime.now();
                count(&in_system, arrived, 1);
                let grant = resource.acquire(0).await;
                runtime.sleep(time).await;
                drop(grant);
                count(&in_system, runtime.now(), -1);
                let (sum, n) = &mut sums.borrow_mut()[(customer / customers.div_ceil(BATCHES)) as usize];
                *sum += runtime.now().since(arrived).as_seconds();
                *n += 1;
            }));
        }
        last.expect("there are customers").await;
    });
    let elapsed = runtime.now().since(Instant::START).as_seconds();
    let batches = sums.borrow().iter().map(|(sum, n)| sum / f64::from(*n)).collect();
    Observed {
        batches,
        mean_in_system: in_system.get().2 / elapsed,
        arrival_rate: f64::from(customers) / elapsed,
        utilization: resource.busy().as_seconds() / f64::from(servers) / elapsed,
    }
}

fn mean_and_interval(batches: &[f64]) -> (f64, f64) {
    let n = batches.len() as f64;
    let mean = batches.iter().sum::<f64>() / n;
    let variance = batches.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    // Student's t for 39 degrees of freedom, 99.9 percent, two-sided.
    (mean, 3.56 * (variance / n).sqrt())
}

#[track_caller]
fn agrees(observed: &Observed, theory: f64) {
    let (mean, interval) = mean_and_interval(&observed.batches);
    assert!((mean - theory).abs() <= interval, "measured {mean:.4} +- {interval:.4}, theory {theory:.4}");
    assert!(interval < 0.15 * theory, "an interval of {interval:.4} proves nothing about {theory:.4}");
}

/// W = 1 / (mu - lambda).
#[test]
fn mm1() {
    for (rho, customers) in [(0.3, 100_000), (0.5, 100_000), (0.8, 300_000)] {
        let observed = simulate(1, rho, Service::Exponential, customers, 1);
        agrees(&observed, 1.0 / (1.0 - rho));
        assert!((observed.utilization - rho).abs() < 0.02, "busy {} of the time", observed.utilization);
    }
}

/// Erlang C for the wait, plus one service time.
#[test]
fn mmc() {
    let (servers, rho) = (4u32, 0.75);
    let load = f64::from(servers) * rho;
    let term = |k: u32| load.powi(k as i32) / (1..=k).map(f64::from).product::<f64>();
    let tail = term(servers) / (1.0 - rho);
    let waits = tail / ((0..servers).map(term).sum::<f64>() + tail);
    let theory = 1.0 + waits / (f64::from(servers) * (1.0 - rho));
    agrees(&simulate(servers, rho, Service::Exponential, 300_000, 2), theory);
}

/// Pollaczek-Khinchine with no variance: W = 1 + rho / (2 (1 - rho)).
#[test]
fn md1() {
    let rho = 0.7;
    agrees(&simulate(1, rho, Service::Fixed, 200_000, 3), 1.0 + rho / (2.0 * (1.0 - rho)));
}

/// L = lambda W, whatever the queue: here to the accuracy of the arithmetic, as both sides count the same customers.
#[test]
fn littles_law() {
    let observed = simulate(2, 0.9, Service::Exponential, 50_000, 4);
    let (mean, _) = mean_and_interval(&observed.batches);
    let by_law = observed.arrival_rate * mean;
    // The last customer ends the run; others may then still be in service.
    assert!((by_law / observed.mean_in_system - 1.0).abs() < 1e-3, "{by_law} against {}", observed.mean_in_system);
}

/// Under overload the queue grows without end and the cost of an event must not: ten times the customers, about ten
/// times the polls.
#[test]
fn overload_stays_linear() {
    let observed = simulate(1, 2.0, Service::Exponential, 100_000, 5);
    assert!(observed.utilization > 0.999);
    let (first, last) = (observed.batches[0], observed.batches[39]);
    assert!(last > 20.0 * first, "the backlog grows: {first} s, then {last} s");
}
