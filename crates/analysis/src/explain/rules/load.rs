//! What the streams asked for: whether there was anything, and whether they got it.

use super::super::findings::Findings;
use super::super::limit::Said::{self, Not, Unknown};
use super::super::limit::{LimitKind, limit};
use super::device::busiest;
use crate::advice::{AdviceKind, Load};

/// Nobody can say anything of a run without time.
pub fn nothing(findings: &Findings) -> Said {
    if !findings.occupancies.is_empty() {
        return Unknown;
    }
    let figures = &findings.summary.total.figures;
    let evidence = match figures.requests + figures.errors {
        0 => "no request was counted".to_owned(),
        1 => "one request was counted, and no time passed in it: there are no shares of time, and no rates".to_owned(),
        counted => format!(
            "all {counted} requests that were counted begin and end at one instant: there are no shares of time, and no rates"
        ),
    };
    limit(LimitKind::None, "nothing that can be told", None, vec![evidence], 0.0)
}

/// Whether the streams asked for more than they got.
pub fn load(findings: &Findings) -> Said {
    if findings.loads.is_empty() {
        return Unknown;
    }
    let total = &findings.summary.total.figures;
    let late = findings.advice.iter().any(|advice| advice.kind == AdviceKind::OfferedLoadNotReached);
    let mut asked = Vec::new();
    for (stream, load) in findings.summary.streams.iter().zip(findings.loads) {
        let figures = &stream.figures;
        match load {
            Load::Open { offered, .. } if !late => {
                asked.push(format!("stream '{}' offered {offered}, and {} were done", stream.name, figures.iops));
            }
            Load::Held => asked.push(format!("stream '{}' keeps to a rate", stream.name)),
            Load::Closed { think, .. } if !think.is_zero() => {
                let response = figures.latency.map_or(0.0, |latency| latency.mean.as_seconds());
                if think.as_seconds() < response {
                    return Not(LimitKind::Load, format!("stream '{}' waits longer than it thinks", stream.name));
                }
                asked.push(format!(
                    "stream '{}' thinks for {think} after each request, which takes {}",
                    stream.name,
                    figures.latency.map_or(units::Duration::ZERO, |latency| latency.mean)
                ));
            }
            Load::Closed { .. } => {
                return Not(LimitKind::Load, format!("stream '{}' asks again as soon as it is answered", stream.name));
            }
            Load::Open { offered, .. } => {
                let because =
                    format!("stream '{}' offered {offered}, and only {} were done", stream.name, figures.iops);
                return Not(LimitKind::Load, because);
            }
        }
    }
    let used = busiest(findings);
    if let Some(device) = used {
        asked.push(format!("the busiest device, {}, has requests for {} of the time", device.device, device.busy));
    }
    debug_assert!(total.requests + total.errors > 0, "the rule `nothing` comes before");
    limit(LimitKind::Load, "the load", used.map(|device| device.busy), asked, 0.95)
}
