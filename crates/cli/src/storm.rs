//! `arraylab storm`.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde_json::json;
use storm::exhaustive::{Exhausted, arrays, exhaust};
use storm::{Choice, Report, SCENARIOS, Scenario, campaign};

use crate::args::Storm;
use crate::fail::Failure;
use crate::out;
use crate::progress::{Bar, interrupt_storm};

/// Runs storms, or goes through all short sequences.
pub fn storm(args: &Storm) -> Result<ExitCode, Failure> {
    if args.list {
        return list(args.json);
    }
    if let Some(name) = &args.scenario {
        return scenario(name, args.json);
    }
    let interrupted = interrupt_storm();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let choice = args.level.unwrap_or_default();
    let broken = if args.exhaustive {
        exhaustive(args, choice, threads, &interrupted)?
    } else {
        let count = args.seeds.end - args.seeds.start;
        let report = shown(count, "storms", |done| campaign(args.seeds.clone(), choice, threads, &interrupted, done));
        if args.json {
            out::json(&json!(report))?;
        } else {
            out::text(&text(&report, count == 1))?;
        }
        !report.violations.is_empty()
    };
    Ok(match (broken, interrupted.load(Relaxed)) {
        (true, _) => ExitCode::from(1),
        (false, true) => ExitCode::from(3),
        (false, false) => ExitCode::SUCCESS,
    })
}

/// The scenarios, and where those are held that are not here.
fn list(as_json: bool) -> Result<ExitCode, Failure> {
    if as_json {
        let one =
            |it: Scenario| json!({ "case": it.case, "name": it.name, "what": it.what, "elsewhere": it.elsewhere() });
        out::json(&json!(SCENARIOS.map(one)))?;
    } else {
        let mut text = String::new();
        for it in SCENARIOS {
            let elsewhere = it.elsewhere().map_or(String::new(), |place| format!(" (held by {place})"));
            text.push_str(&format!("{:>2}  {:<24}{}{elsewhere}\n", it.case, it.name, it.what));
        }
        out::text(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn scenario(name: &str, as_json: bool) -> Result<ExitCode, Failure> {
    let Some(it) = Scenario::named(name) else {
        return Err(Failure::input(anyhow::anyhow!(
            "there is no scenario `{name}`; `arraylab storm --list` names them"
        )));
    };
    if let Some(place) = it.elsewhere() {
        return Err(Failure::input(anyhow::anyhow!("`{name}` needs programs beside the array; it is held by {place}")));
    }
    let outcome = it.run();
    if as_json {
        out::json(&json!({ "case": it.case, "name": it.name, "what": it.what, "broken": outcome.as_ref().err() }))?;
    } else {
        let said = outcome.as_ref().err().map_or("no promise was broken".to_owned(), |what| format!("broken: {what}"));
        out::text(&format!("{}\n{said}\n", it.what))?;
    }
    Ok(if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn exhaustive(args: &Storm, choice: Choice, threads: usize, interrupted: &AtomicBool) -> Result<bool, Failure> {
    let (mut documents, mut lines, mut broken) = (Vec::new(), String::new(), false);
    for (number, level, members) in arrays() {
        if choice != Choice::ALL && choice.to_string() != number.to_string() {
            continue;
        }
        let work = |done: &AtomicU64| exhaust(level, members, args.writes.into(), threads, interrupted, done);
        let found: Exhausted = shown(0, "sequences", work);
        broken |= !found.violations.is_empty();
        let (sequences, states) = (found.sequences, found.states);
        lines.push_str(&format!(
            "{level} on {members} members: {sequences} sequences, {states} states after a power cut"
        ));
        lines.push_str(if found.violations.is_empty() { ", nothing lost\n" } else { ", broken promises:\n" });
        found.violations.iter().for_each(|violation| lines.push_str(&format!("  {violation}\n")));
        documents.push(json!({ "level": level.to_string(), "members": members, "found": found }));
    }
    if args.json {
        out::json(&json!(documents))?
    } else {
        out::text(&lines)?
    }
    Ok(broken)
}

/// Works while a bar shows how much is done; of an unknown amount if `count` is 0.
fn shown<T: Send>(count: u64, of: &str, work: impl FnOnce(&AtomicU64) -> T + Send) -> T {
    let (done, over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let result = work(&done);
            over.store(true, Relaxed);
            result
        });
        let bar = Bar::new(count.max(1));
        while !over.load(Relaxed) && !worker.is_finished() {
            let now = done.load(Relaxed);
            let whole = if count > 0 { format!(" of {count}") } else { String::new() };
            bar.show(now.min(count), format!("{now}{whole} {of}"));
            std::thread::sleep(Duration::from_millis(50));
        }
        drop(bar);
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn text(report: &Report, story: bool) -> String {
    let it = &report.outcome;
    let mut text = format!(
        "{} storms ({} on disks of 4 KiB blocks): {} requests answered, {} power cuts ({} of them inside recovery), {} kills of the server,\n\
         {} orderly stops, {} rounds of mirrors that were not in sync yet,\n\
         {} faults of members ({} of them silent), {} rebuilds, {} members back from being away ({} with rot to be found),\n\
         {} growths ({} of them cut), {} outages of more members than the level survives, {} times rightly refused to open\n",
        report.seeds,
        it.large_blocks,
        it.operations,
        it.power_cuts,
        it.recovery_cuts,
        it.kills,
        it.stops,
        it.lingered,
        it.faults,
        it.silent,
        it.rebuilds,
        it.returns,
        it.kept_rot,
        it.growths + it.growths_cut,
        it.growths_cut,
        it.outages,
        it.refused
    );
    if report.violations.is_empty() {
        text.push_str("no promise was broken\n");
    }
    for violation in &report.violations {
        text.push_str(&format!("broken: {}\n  {}\n", violation.what, violation.replay));
        // Replayed alone, it tells how it came about.
        if story {
            violation.story.iter().for_each(|line| text.push_str(&format!("    {line}\n")));
        }
    }
    text
}
