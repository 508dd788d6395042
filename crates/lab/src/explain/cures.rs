//! What may end rounds, and which of it a run has in use already: advice to do what is done is none.
//!
//! - *Pipelined reads*: of whoever reads, on a device that reads ahead. Whether a trace's program announced its reads,
//!   the trace does not say.
//! - *More requests under way* on each device, told by how many there were, so of traces, too. A modelled machine's
//!   adapter gives each disk one command at a time, so that more only wait: there it is no cure.
//! - *The adapter's policy*, which is the cause on the modelled string: only a modelled machine says whether its
//!   adapter gives way to data.

use analysis::explain::Cures;
use analysis::{Occupancy, Summary};
use machine::adapter::Adapter;
use machine::trace::Trace;
use runtime::Runtime;

use crate::experiment::Experiment;

/// Who has more than one and a half under way on average has more than one on purpose.
const DEEP: f64 = 1.5;

/// The cures for a run, of which the experiment is known unless it is a trace.
pub(super) fn cures(experiment: Option<&Experiment>, summary: &Summary, occupancies: &[Occupancy]) -> Cures {
    let mut cures = Cures::default();
    let system = experiment.and_then(|experiment| experiment.system.as_ref());
    let pipelined = experiment.is_some_and(|experiment| experiment.streams.iter().all(|plan| plan.stream.pipeline));
    if pipelined {
        cures.in_use.push("pipelined reads".to_owned());
    } else if summary.operations.iter().any(|operation| operation.name == "read") {
        cures.untried.push("pipelined reads (pipeline = true)".to_owned());
    }
    let depth = occupancies.iter().map(|device| device.mean_depth).sum::<f64>() / occupancies.len().max(1) as f64;
    if depth > DEEP {
        cures.in_use.push(format!("{depth:.1} requests under way on each device"));
    } else if system.is_none() {
        cures.untried.push("more requests under way (depth above 1)".to_owned());
    }
    if let Some(kit) = system.and_then(|system| system.kit().ok())
        && let Ok(machine) = kit.build(&Runtime::simulated(), 1, &Trace::default())
    {
        match machine.parts::<Adapter>().any(|adapter| adapter.parameters.gives_way) {
            true => cures.untried.push("an adapter that does not give way to data (gives-way = false)".to_owned()),
            false => cures.in_use.push("an adapter that does not give way to data".to_owned()),
        }
    }
    cures
}
