//! An experiment on a modelled machine, run for its result alone: nothing is shown and nothing is kept.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use units::Bytes;

use crate::experiment::Experiment;
use crate::runner::{self, Outcome, RunError, Silent, Ways};

/// Memory for the rows of a trial: a million of them.
const RECORDS: Bytes = Bytes::mib(64);

/// Runs it, until `interrupted` is set.
pub fn trial(experiment: &Experiment, interrupted: &AtomicBool) -> Result<Outcome, RunError> {
    let ways = Ways {
        permits: &HashMap::new(),
        record_memory: RECORDS,
        folder: None,
        interrupted,
        progress: &Silent,
        party: None,
    };
    runner::run("trial", experiment, &[], &ways)
}
