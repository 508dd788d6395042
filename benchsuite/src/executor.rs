//! The executor under the virtual clock: an M/M/1 queue with a task for each customer.
//!
//! An event is a timer that fires: each customer makes two, arrival and departure, and costs a task that is spawned,
//! polled two or three times, and ended, and a place in a resource. The same run must agree with theory, or its speed
//! means nothing: W = 1 / (mu - lambda).

use std::cell::RefCell;
use std::rc::Rc;

use rand_distr::{Distribution, Exp1};
use runtime::{Random, Resource, Runtime};
use units::Duration;

use crate::measure::{amount, best, line};

const CUSTOMERS: u32 = amount(5_000_000, 40_000);
const EVENTS: u32 = 2 * CUSTOMERS;
const ROUNDS: u32 = amount(5, 1);
const RHO: f64 = 0.8;
/// Customers follow each other closely; means of so many batches are as good as independent.
const BATCHES: u32 = 40;

pub fn run() -> bool {
    let mut batches = Vec::new();
    let cost = best(ROUNDS, || batches = mm1());
    let mut met =
        line("M/M/1, a task for each customer", cost.cpu * 1e9 / f64::from(EVENTS), "ns an event", Some(110.0));
    let theory = 1.0 / (1.0 - RHO);
    let n = f64::from(BATCHES);
    let mean = batches.iter().sum::<f64>() / n;
    let variance = batches.iter().map(|mean_of_batch| (mean_of_batch - mean).powi(2)).sum::<f64>() / (n - 1.0);
    // Student's t for 39 degrees of freedom, 95 percent, two-sided.
    let interval = 2.02 * (variance / n).sqrt();
    println!("  time in system {mean:.4} +- {interval:.4} s, theory {theory:.4} s");
    met &= (mean - theory).abs() <= interval;
    met
}

/// Serves all customers; returns the mean time in the system of each batch of them, in seconds.
fn mm1() -> Vec<f64> {
    let runtime = Runtime::simulated();
    let server = Resource::new(&runtime, 1);
    let (mut arrivals, mut services) = (Random::named(7, "arrivals"), Random::named(7, "services"));
    let exponential = |random: &mut Random, mean: f64| {
        let unit: f64 = Exp1.sample(random);
        Duration::from_seconds(unit * mean)
    };
    let sums = Rc::new(RefCell::new(vec![0.0; BATCHES as usize]));
    let per_batch = CUSTOMERS / BATCHES;
    runtime.block_on(async {
        for customer in 0..CUSTOMERS {
            runtime.sleep(exponential(&mut arrivals, 1.0 / RHO)).await;
            let time = exponential(&mut services, 1.0);
            let customer_task = {
                let (runtime, server, sums) = (runtime.clone(), server.clone(), Rc::clone(&sums));
                async move {
                    let arrived = runtime.now();
                    let grant = server.acquire(0).await;
                    runtime.sleep(time).await;
                    drop(grant);
                    let time = runtime.now().since(arrived).as_seconds();
                    sums.borrow_mut()[(customer / per_batch) as usize] += time;
                }
            };
            runtime.spawn_detached(customer_task);
        }
        // Whoever still waits is in line before this.
        drop(server.acquire(0).await);
    });
    let sums = sums.borrow();
    sums.iter().map(|sum| sum / f64::from(per_batch)).collect()
}
