//! The rules of a job of fio as those of a stream.
//!
//! An error ends the job that has it, and the others go on, as in fio; so it does not matter what the run does with
//! errors, but for `exitall_on_error`.

use fio::{Ends, Job};
use workload::{Figure, Flow, Least, Limit, OnError, Rules, Settling};

use crate::jobs::Part;

/// Of the job that becomes this stream.
pub(super) fn of(job: &Job, part: Part, stream: u32) -> Rules {
    let fio::Rules { goes_on, error_ends_all, ends, flow, longest, least, steady } = &job.rules;
    let on_error = goes_on.map(|goes_on| match (goes_on, error_ends_all) {
        (true, _) => OnError::Continue,
        (false, true) => OnError::Stop,
        (false, false) => OnError::Leave,
    });
    Rules {
        on_error: Some(on_error),
        group: part.group,
        ends_group: *ends == Ends::Group,
        flow: flow.map(|flow| Flow { pool: flow.number, weight: flow.weight, rest: flow.rest }),
        longest: *longest,
        least: least.map(|least| Least { every: least.every, bytes: least.bytes, requests: least.requests }),
        steady: steady.map(|steady| Settling {
            // Jobs that are reported as one are steady as one. No group has the number of a job that is none of it.
            with: if job.group_reporting { part.group } else { u32::MAX - stream },
            figure: match steady.of {
                fio::rules::Figure::Requests => Figure::Requests,
                fio::rules::Figure::Bytes => Figure::Bytes,
                fio::rules::Figure::Latency => Figure::Latency,
            },
            slope: steady.slope,
            limit: if steady.percent { Limit::Percent(steady.limit) } else { Limit::Of(steady.limit) },
            window: steady.window,
            interval: steady.interval,
            ramp: steady.ramp,
        }),
    }
}
