//! What the measurement itself cost: the processor time of the load generator, said in every live result.
//!
//! A rate that the generator limits says nothing of the device. Two figures tell: processor time for each request,
//! which is the generator's price, and the share of its processor that its busiest thread used, which is how near the
//! end of its rope it was. Kernel threads are the whole machine's, so on a machine that does other things theirs is an
//! upper bound.

use std::fmt;

use analysis::AdviceKind;
use analysis::json::number;
use serde::Serialize;
use units::{Duration, Ratio};

use crate::runner::Outcome;

/// The generator's price.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub struct Cost {
    /// Processor time of this process for each counted request.
    #[serde(with = "number", rename = "process_per_request_ns")]
    pub process_per_request: Duration,
    /// Processor time of kernel threads for each counted request.
    #[serde(with = "number", rename = "kernel_threads_per_request_ns")]
    pub kernel_threads_per_request: Duration,
    /// The share of its processor that the busiest thread used.
    #[serde(with = "number")]
    pub busiest_thread: Ratio,
    /// The rate is the generator's, not the device's.
    pub generator_bound: bool,
}

impl Cost {
    /// Of a live run that counted requests; virtual time costs nothing.
    pub fn of(outcome: &Outcome) -> Option<Cost> {
        let (_, busiest_thread) = outcome.conclusion.processors?;
        let (process, kernel) = outcome.conclusion.processor_time;
        let requests = outcome.summary.total.figures.requests;
        let each = |time: Duration| Duration::nanos(time.as_nanos() / requests.max(1));
        let generator_bound = outcome.advice.iter().any(|advice| advice.kind == AdviceKind::GeneratorSaturated);
        (requests > 0).then(|| Cost {
            process_per_request: each(process),
            kernel_threads_per_request: each(kernel),
            busiest_thread,
            generator_bound,
        })
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "generator: {} of processor time for each request, and {} in kernel threads; its busiest thread used {} of its processor{}",
            self.process_per_request,
            self.kernel_threads_per_request,
            self.busiest_thread,
            if self.generator_bound { ": generator-bound" } else { "" }
        )
    }
}
