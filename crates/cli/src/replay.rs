//! `arraylab replay`.

use std::collections::HashMap;
use std::process::ExitCode;

use analysis::lateness::{Lateness, ON_TIME};
use lab::replay::{How, Plan, ReplayError, plan, read};
use lab::{Point, Target};
use serde_json::{Value, json};
use units::Ratio;

use crate::args::Replay;
use crate::fail::Failure;
use crate::out;
use crate::permit;
use crate::progress::interrupt;
use crate::run::{Kept, once_each, one, text_of};

/// Replays a trace on devices.
pub fn replay(args: &Replay) -> Result<ExitCode, Failure> {
    let trace = read(&args.traces, args.format).map_err(failure)?;
    let how = How {
        speed: (!args.as_fast_as_possible).then_some(args.speed),
        outstanding: args.outstanding,
        block: args.block,
        wrap: args.wrap,
        go_on: args.go_on,
    };
    let stem = args.traces[0].file_stem().map_or("trace".into(), |stem| stem.to_string_lossy());
    let targets = once_each(&args.on);
    let mut planned = plan(&format!("replay-{stem}"), &trace, &targets, &how).map_err(failure)?;
    drop(trace);
    planned.experiment.io.mode = if args.buffered { lab::Mode::Buffered } else { lab::Mode::Direct };
    let permits = if planned.experiment.writes() {
        permit::ask_servers(&args.on, args.common.destroy_data)?;
        permit::ask(args.on.iter().flat_map(Target::paths), args.common.destroy_data)?
    } else {
        HashMap::new()
    };
    let interrupted = interrupt(Vec::new());
    let point = Point::alone(planned.experiment.clone());
    let kept = Kept { runs: &args.common.runs, watch: false, metrics: None, conductor: None };
    let mut done = one(point, &kept, &targets, &permits, &interrupted)?;
    let mut late = Lateness::default();
    done.visit(|row| late.add(row));
    if args.common.json {
        let mut document = done.document();
        document["replay"] = planned_json(&planned, &late, how.speed);
        out::json(&document)?;
    } else {
        out::text(&format!(
            "{}{}",
            text_of(std::slice::from_ref(&done), 1, &[], None),
            lines(&planned, &late, how.speed)
        ))?;
    }
    if let Some(failure) = done.take_unkept() {
        return Err(failure);
    }
    Ok(if done.is_cut_short() { ExitCode::from(3) } else { ExitCode::SUCCESS })
}

fn lines(plan: &Plan, late: &Lateness, speed: Option<f64>) -> String {
    let mut text = String::new();
    let devices: Vec<String> = plan.devices.iter().map(|(name, count)| format!("{name} ({count} requests)")).collect();
    text.push_str(&format!("\nthe trace: {}; {} long\n", devices.join(", "), plan.length));
    plan.remarks.iter().for_each(|remark| text.push_str(&format!("{remark}\n")));
    if let (Some(speed), Some(share), Some(times)) = (speed, late.on_time(), late.times()) {
        text.push_str(&format!(
            "issued within {ON_TIME} of their time at {speed} times its speed: {:.2} %; median {} late, 99 % within {}, worst {}\n",
            share.as_percent(),
            times.p50,
            times.p99,
            times.max
        ));
    }
    if plan.rounded > 0 {
        text.push_str(&format!("{} requests were made larger, to whole blocks\n", plan.rounded));
    }
    if plan.wrapped > 0 {
        text.push_str(&format!("{} requests lay beyond the end and went round to the beginning\n", plan.wrapped));
    }
    text
}

fn planned_json(plan: &Plan, late: &Lateness, speed: Option<f64>) -> Value {
    let device = |(name, requests): &(String, u64)| json!({ "name": name, "requests": requests });
    json!({
        "devices": plan.devices.iter().map(device).collect::<Vec<_>>(),
        "length_ns": plan.length.as_nanos(),
        "speed": speed,
        "rounded": plan.rounded,
        "wrapped": plan.wrapped,
        "remarks": plan.remarks,
        "on_time_ns": ON_TIME.as_nanos(),
        "on_time_share": late.on_time().map(Ratio::get),
        "lateness_ns": late.times(),
    })
}

/// A trace that is not there, or no trace, is the user's to change; what the disk refuses is not.
fn failure(error: ReplayError) -> Failure {
    match &error {
        ReplayError::Read { source, .. } if source.kind() != std::io::ErrorKind::NotFound => Failure::world(error),
        ReplayError::Unreadable { .. } => Failure::world(error),
        _ => Failure::input(error),
    }
}
