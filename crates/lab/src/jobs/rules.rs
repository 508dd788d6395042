//! The rules of a job of fio as those of a stream.
//!
//! An error ends the job that has it, and the others go on, as in fio; so it does not matter what the run does with
//! errors, but for `exitall_on_error`.

use device::DeviceError;
use fio::{Ends, Job};
use units::Bytes;
use workload::{Drawn, Figure, Flow, Least, Limit, OnError, Priorities, Rules, Search, Settling};

use crate::jobs::Part;

/// The number under which a device tells an error of the kernel.
fn told(errno: u16) -> u16 {
    DeviceError::from_errno(errno.into(), Bytes::ZERO, Bytes::ZERO).errno() as u16
}

/// The priorities of its requests.
pub(super) fn priorities(job: &Job) -> Priorities {
    let fio::Priorities { usual, drawn } = &job.priorities;
    let drawn = drawn.each_ref().map(|drawn| {
        let one = |one: &fio::priority::Drawn| Drawn { size: one.size, percent: one.percent, priority: one.priority };
        drawn.iter().map(one).collect()
    });
    Priorities { usual: *usual, drawn }
}

/// Of the job that becomes this stream.
pub(super) fn of(job: &Job, part: Part, stream: u32) -> Rules {
    let fio::Rules { ignored, error_ends_all, ends, flow, longest, least, steady, search, serial, low } = &job.rules;
    let on_error = if *error_ends_all { OnError::Stop } else { OnError::Leave };
    Rules {
        on_error: Some([on_error; 2]),
        // Devices tell some of the kernel's errors as one: EDQUOT is one of ENOSPC's, EREMOTEIO of EIO's.
        ignored: ignored.each_ref().map(|list| list.iter().map(|errno| told(*errno)).collect()),
        ends_full: job.fills,
        ends_wrong: job.fatal,
        group: part.group,
        ends_group: *ends == Ends::Group,
        flow: flow.map(|flow| Flow { pool: flow.number, weight: flow.weight, rest: flow.rest }),
        longest: *longest,
        search: search.map(|search| Search {
            target: search.target,
            window: search.window,
            percent: search.percent,
            goes_on: search.goes_on,
        }),
        serial: *serial,
        low: low.filter(|low| *low < job.depth),
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
