//! A run that is called off while it prepares makes no load, under either clock.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use lab::{Experiment, Silent, Target, Ways, run};
use units::{Bytes, Duration};
use workload::{Mix, Pattern, Stream};

#[test]
fn a_run_that_is_called_off_before_it_begins_makes_no_load() {
    for target in ["null:1GiB", "memory:1GiB:100us"] {
        let stream = Stream::closed("reads", Mix::READS, Pattern::Random, Bytes::kib(64), 256);
        let experiment = Experiment::new("long", Duration::seconds(3600), vec![stream]);
        let target: Target = target.parse().unwrap();
        let ways = Ways {
            permits: &HashMap::new(),
            record_memory: Bytes::mib(64),
            folder: None,
            interrupted: &AtomicBool::new(true),
            progress: &Silent,
            party: None,
        };
        // A call that measured would not come back within the hour.
        let outcome = run("long", &experiment, &[target], &ways).unwrap();
        assert!(outcome.conclusion.interrupted);
        assert_eq!((outcome.summary.total.figures.requests, outcome.recording.rows()), (0, 0));
    }
}
