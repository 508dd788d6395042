//! Reads a quantity from the outcome of a trial.

use std::collections::BTreeSet;

use machine::load::Reading;
use machine::scsi::target::BLOCK;
use units::Duration;

use crate::bench::{Outcome, TrialError};

use super::deltas::Completions;
use super::expression::Quantity;
use super::measure::{Deed, Measure, Moment};

/// A quantity of an outcome, in bytes and seconds. Times between completions are cut off to whole ones of `whole`.
pub(super) fn measured(quantity: &Quantity, outcome: &Outcome, whole: Option<Duration>) -> Result<f64, TrialError> {
    let name = quantity.names.first().map(String::as_str);
    let node = || name.expect("it was checked");
    let figures = || match name {
        None => Ok(&outcome.figures),
        Some(name) => outcome.stream(name).ok_or_else(|| {
            let known = outcome.streams.iter().map(|(known, _)| known.as_str()).collect::<Vec<_>>().join(", ");
            let said = format!("no request of a stream, operation or device '{name}' was counted; there are: {known}");
            TrialError::nothing(said)
        }),
    };
    Ok(match quantity.measure {
        Measure::Bandwidth => figures()?.bandwidth.get(),
        Measure::Rate => figures()?.iops.get(),
        Measure::Requests => figures()?.requests as f64,
        Measure::Elapsed => outcome.elapsed.as_seconds(),
        Measure::Latency(moment) => {
            let latency = figures()?.latency.ok_or_else(|| TrialError::nothing("no request was counted"))?;
            let time = match moment {
                Moment::Mean => latency.mean,
                Moment::Min => latency.min,
                Moment::P50 => latency.p50,
                Moment::P90 => latency.p90,
                Moment::P99 => latency.p99,
                Moment::P999 => latency.p999,
                Moment::Max => latency.max,
            };
            time.as_seconds()
        }
        Measure::Used => match quantity.names.get(1) {
            Some(what) => time_of(outcome, node(), what)?.as_seconds() / outcome.elapsed.as_seconds(),
            None => used(outcome, node())?,
        },
        Measure::Busy => {
            let time = match quantity.names.get(1) {
                Some(what) => time_of(outcome, node(), what)?.as_seconds(),
                None => used(outcome, node())? * outcome.elapsed.as_seconds(),
            };
            // The commands of the same time, where drives count them.
            let each = if outcome.requests > 0 { outcome.requests } else { outcome.figures.requests };
            time / each as f64
        }
        Measure::Count => {
            let what = node();
            if !outcome.load.gauges.iter().any(|gauge| gauge.what == what && is_counted(gauge.reading)) {
                let counted = outcome.load.gauges.iter().filter(|gauge| is_counted(gauge.reading));
                let known: BTreeSet<&str> = counted.map(|gauge| gauge.what).collect();
                let known = known.into_iter().collect::<Vec<_>>().join(", ");
                return Err(TrialError::nothing(format!("no node counts '{what}'; counted are: {known}")));
            }
            outcome.load.count(what) as f64
        }
        Measure::Command(deed) => {
            let passages = &outcome.load.passages;
            // Commands are counted on all machines, what they did on strings only there.
            if passages.tenures == 0 {
                return Err(TrialError::nothing("no command ended on a string of this machine"));
            }
            let sum = match deed {
                Deed::Tenures => passages.tenures as f64,
                Deed::Disconnects => passages.disconnects as f64,
                Deed::Saves => passages.saves as f64,
                Deed::FirstBurst => (passages.first_burst * BLOCK.get()) as f64,
                Deed::TargetPauses => passages.target_pauses.as_seconds(),
                Deed::InitiatorPauses => passages.initiator_pauses.as_seconds(),
            };
            sum / passages.commands as f64
        }
        Measure::Passes => outcome.pass_count() as f64,
        Measure::Delta(statistic) => Completions::of(outcome, whole).delta(statistic, &quantity.bounds)?,
        Measure::Rounds(pattern) => Completions::of(outcome, whole).rounds(pattern, &quantity.bounds, name)?,
        Measure::Value | Measure::Formula(_) => unreachable!("it is of no outcome"),
        Measure::TimeExcept => {
            for name in &quantity.names {
                spans(outcome, |part, _| part == name)?;
            }
            outcome.mean(|part, _| !quantity.names.iter().any(|name| name == part)).as_seconds()
        }
        Measure::Time => {
            let phase = quantity.names.get(1).map(String::as_str);
            spans(outcome, |part, of| name.is_none_or(|name| name == part) && phase.is_none_or(|phase| phase == of))?
                .as_seconds()
        }
    })
}

fn is_counted(reading: Reading) -> bool {
    matches!(reading, Reading::Count(_) | Reading::Most(_))
}

/// For what share of the time a node, or a part of it such as "fs programs", was at work.
fn used(outcome: &Outcome, node: &str) -> Result<f64, TrialError> {
    let worked = outcome.load.at_work();
    let at_work = worked.iter().find(|(known, _)| *known == node).map(|(_, share)| share.get());
    let within = || outcome.load.utilizations().into_iter().find(|(label, _)| label == node);
    let at_work = at_work.or_else(|| within().map(|(_, share)| share.get()));
    at_work.ok_or_else(|| {
        let known: Vec<&str> = worked.iter().map(|(node, _)| *node).collect();
        TrialError::nothing(format!("no node '{node}' says how much it works; these do: {}", known.join(", ")))
    })
}

/// For how long a node was at something.
fn time_of(outcome: &Outcome, node: &str, what: &str) -> Result<Duration, TrialError> {
    let is_time = |reading| !is_counted(reading);
    if outcome.load.reading(node, what).is_some_and(is_time) {
        return Ok(outcome.load.time(node, what));
    }
    let known: Vec<&str> = (outcome.load.gauges.iter())
        .filter(|gauge| &*gauge.node == node && is_time(gauge.reading) && !gauge.what.is_empty())
        .map(|gauge| gauge.what)
        .collect();
    let said = match known.is_empty() {
        true => format!("'{node}' does not say what its time goes to"),
        false => format!("'{node}' does not say how long it was at '{what}'; it says: {}", known.join(", ")),
    };
    Err(TrialError::nothing(said))
}

/// The mean time of a request in chosen spans, of which there have to be some.
fn spans(outcome: &Outcome, chosen: impl Fn(&str, &str) -> bool) -> Result<Duration, TrialError> {
    if !outcome.phases.keys().any(|(part, of)| chosen(part, of)) {
        let known: Vec<String> = outcome.phases.keys().map(|(part, phase)| format!("{part} {phase}")).collect();
        let said = format!("no request had spans of that part and phase; there are: {}", known.join(", "));
        return Err(TrialError::nothing(said));
    }
    Ok(outcome.mean(chosen))
}
