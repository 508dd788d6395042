//! Whether a trace is replayed at its own times: 20,000 requests a second, on a device that keeps up.
//!
//! The bar: 99 percent of all requests issued within 50 us of their time. Arrivals are at random (exponential
//! distances), so that many come closer together than the thread can sleep.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use lab::replay::{How, plan};
use lab::{Silent, Target, Ways};
use rand::RngExt;
use rand_distr::{Distribution, Exp};
use record::{Asked, Operation, Wanted};
use runtime::Random;
use units::{Bytes, Duration};

/// Requests a second.
const RATE: f64 = 20_000.0;
/// How many.
const COUNT: usize = 60_000;
/// On time.
const WITHIN: Duration = Duration::micros(50);
/// The share that must be.
const BAR: f64 = 0.99;
/// Noise only ever delays, so the best of these counts.
const ROUNDS: usize = 5;

pub fn run() -> bool {
    let trace = trace();
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.as_file().set_len(Bytes::mib(64).get()).expect("room for it");
    let targets: [(&str, Target); 2] = [
        ("the null device", Target::Null { size: Bytes::mib(64) }),
        ("a sparse file through the page cache", Target::Path(file.path().to_owned())),
    ];
    let mut met = true;
    for (name, target) in targets {
        let best = (0..ROUNDS).map(|_| share(&trace, &target)).fold(0.0, f64::max);
        println!("  {name:<38} {:6.2} % within {WITHIN} at {RATE}/s (bar {:.0} %)", best * 100.0, BAR * 100.0);
        met &= best >= BAR;
    }
    met
}

fn trace() -> Asked {
    let mut random = Random::named(7, "replay");
    let distance = Exp::new(RATE).expect("a rate above zero");
    let mut at = 0.0;
    let requests = (0..COUNT).map(|_| {
        at += distance.sample(&mut random);
        Wanted {
            at: Duration::from_seconds(at),
            device: 0,
            operation: Operation::Read,
            offset: Bytes::kib(4) * random.random_range(0..16_000),
            length: Bytes::kib(4),
        }
    });
    Asked { requests: requests.collect(), devices: vec!["trace".to_owned()], remarks: Vec::new() }
}

fn share(trace: &Asked, target: &Target) -> f64 {
    let how = How { speed: Some(1.0), outstanding: 256, block: Bytes::SECTOR, wrap: false, go_on: false };
    let on = [target.clone()];
    let mut planned = plan("replay", trace, &on, &how).expect("the trace fits");
    planned.experiment.io.mode = lab::Mode::Buffered;
    let ways = Ways {
        permits: &HashMap::new(),
        record_memory: Bytes::mib(64),
        folder: None,
        interrupted: &AtomicBool::new(false),
        progress: &Silent,
        party: None,
    };
    let outcome = lab::run("replay", &planned.experiment, &on, &ways).expect("a replay");
    let (mut all, mut on_time) = (0u64, 0u64);
    let counted = outcome.recording.visit(|rows| {
        all += rows.len() as u64;
        on_time += rows.iter().filter(|row| row.wait() <= WITHIN).count() as u64;
        Ok::<(), record::RawError>(())
    });
    counted.expect("rows in memory can be read");
    assert_eq!(all as usize, COUNT, "every request is made");
    on_time as f64 / all as f64
}
