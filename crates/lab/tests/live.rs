//! What a run in real time keeps of the machine beside its requests.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use lab::{Experiment, Silent, Target, Ways, run};
use units::{Bytes, Duration};
use workload::{Mix, Pattern, Stream};

#[test]
fn rows_and_surroundings_name_the_processor_that_the_load_was_kept_on() {
    let last = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u32 - 1;
    let mut stream = Stream::closed("reads", Mix::READS, Pattern::Random, Bytes::kib(4), 4);
    stream.limits.time = Some(Duration::millis(200));
    let mut experiment = Experiment::new("kept", Duration::millis(200), vec![stream]);
    experiment.care.cpus = vec![last];
    let target: Target = "null:1GiB".parse().unwrap();
    let ways = Ways {
        permits: &HashMap::new(),
        record_memory: Bytes::mib(256),
        folder: None,
        interrupted: &AtomicBool::new(false),
        progress: &Silent,
        party: None,
    };
    let outcome = run("kept", &experiment, &[target], &ways).unwrap();
    let mut seen = 0;
    let counted = outcome.recording.visit(|rows| {
        seen += rows.len();
        assert!(rows.iter().all(|row| u32::from(row.cpu) == last), "a row of another processor than {last}");
        Ok::<(), record::RawError>(())
    });
    counted.unwrap();
    assert!(seen > 0);
    let around = outcome.conclusion.surroundings.expect("a live run has surroundings");
    let numbers: Vec<u32> = around.processors.iter().map(|one| one.number).collect();
    assert_eq!(numbers, [last]);
    // Whoever looks may come late where others use the processors.
    assert!(!around.time.is_zero() && around.busy().is_some_and(|busy| busy > 0.1), "{around:?}");
    assert!(around.disks.is_empty() && around.cached.is_empty(), "nothing has no disk: {around:?}");
}
