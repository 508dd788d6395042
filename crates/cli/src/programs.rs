//! `arraylab xdd` and `arraylab bsd`: programs of the studies, with their own words and their own tables.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use lab::bsd::{BsdError, Conditions, Prepared, Ran, Repeat, Shown};
use lab::xdd::{lines, read, stamps};
use lab::{Point, Target};
use report::Table;
use serde_json::{Value, json};
use units::Duration;

use crate::args::{Bsd, XddWords};
use crate::fail::Failure;
use crate::out;
use crate::permit;
use crate::progress::{Bar, interrupt};
use crate::run::{Kept, once_each, one};

/// xdd's work, and its lines.
pub fn xdd(args: &XddWords) -> Result<ExitCode, Failure> {
    let xdd = read(&args.words).map_err(Failure::input)?;
    let permits = if xdd.experiment.writes() {
        permit::ask_servers(&xdd.targets, args.destroy_data)?;
        permit::ask(xdd.targets.iter().flat_map(Target::paths), args.destroy_data)?
    } else {
        HashMap::new()
    };
    // Not after hours of load.
    let sink = xdd.stamps.as_deref().map(|path| out::Sink::open(path, "name another file with -ts output FILE"));
    let sink = sink.transpose()?;
    let interrupted = interrupt(Vec::new());
    let point = Point::alone(xdd.experiment.clone());
    let kept = Kept { runs: &args.runs, watch: false, metrics: None, conductor: None };
    let mut done = one(point, &kept, &once_each(&xdd.targets), &permits, &interrupted)?;
    if let Some(sink) = sink {
        let mut rows = Vec::new();
        done.visit(|row| rows.push(*row));
        sink.write(&stamps(&xdd, rows))?;
    }
    let lines = lines(&xdd, done.summary());
    if args.json {
        let mut document = done.document();
        document["lines"] = json!(lines.lines().collect::<Vec<_>>());
        out::json(&document)?;
    } else {
        out::text(&format!("{lines}\nrun folder: {}\n", done.path().display()))?;
    }
    if let Some(failure) = done.take_unkept() {
        return Err(failure);
    }
    Ok(if done.is_cut_short() { ExitCode::from(3) } else { ExitCode::SUCCESS })
}

/// The four programs of 4.2BSD.
pub fn bsd(args: &Bsd) -> Result<ExitCode, Failure> {
    let conditions = Conditions {
        directory: args.directory.clone(),
        second: args.second.clone(),
        size: args.size,
        runs: args.repeats,
        cold: args.cold,
        sync: args.sync,
    };
    let failed = |error: BsdError| match error {
        BsdError::Directory { .. } => Failure::input(error),
        BsdError::Program { .. } | BsdError::Thread { .. } | BsdError::Interrupted { .. } => Failure::world(error),
    };
    let interrupted = interrupt(conditions.files());
    let prepared = Prepared::new(conditions).map_err(failed)?;
    prepared.shared().iter().for_each(|said| eprintln!("warning: {said}"));
    let bar = Bar::new(1000);
    let show = |done: usize, of: usize| bar.show((done * 1000 / of) as u64, format!("{done} of {of} runs"));
    let results = prepared.run(&interrupted, show).map_err(failed)?;
    // The files go before anything is printed, which may take its time or fail.
    drop(prepared);
    drop(bar);
    if args.json {
        out::json(&document(args, &results))?;
        return Ok(ExitCode::SUCCESS);
    }
    let columns = results.iter().map(|result| result.runs.len()).max().unwrap_or(0);
    let heads = (0..columns).map(|run| format!("run {} Kbytes/sec", run + 2));
    let mut table = Table::new(std::iter::once("test".to_owned()).chain(heads));
    for result in &results {
        let cells = result.runs.iter().map(|repeat| {
            let ran = repeat.together;
            format!("{:.0} ({:.0}%)", ran.rate.get() / 1024.0, ran.busy.as_percent())
        });
        table.row(std::iter::once(result.program.to_owned()).chain(cells));
    }
    let mut text = table.to_string();
    if args.second.is_some() {
        text.push_str("\nboth programs together, until the later one ended; --json has each directory's own rate\n");
    }
    let shortest = results.iter().flat_map(|result| &result.runs).map(|repeat| repeat.together.time).min();
    if let Some(time) = shortest.filter(|time| *time < Duration::millis(50)) {
        let _ = write!(
            text,
            "\nadvice: a run of {time} says little: today's memory holds the whole file; take more with --size, and --cold or --sync for the disk\n"
        );
    }
    out::text(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The result as JSON. With one directory there is `directory`, and a run is what its program came to. With two there
/// are `directories`, and a run is what both came to, with `each` of them by its own program's time.
fn document(args: &Bsd, results: &[Shown]) -> Value {
    // A path that is not UTF-8 is no JSON.
    let shown = |path: &PathBuf| path.display().to_string();
    let directories: Vec<String> = std::iter::once(&args.directory).chain(&args.second).map(shown).collect();
    let repeat = |repeat: &Repeat| {
        let mut run = figures(&repeat.together);
        if args.second.is_some() {
            let each = directories.iter().zip(&repeat.each).map(|(directory, ran)| {
                let mut own = figures(ran);
                own["directory"] = json!(directory);
                own
            });
            run["each"] = each.collect();
        }
        run
    };
    let program = |result: &Shown| {
        let runs: Vec<Value> = result.runs.iter().map(repeat).collect();
        json!({ "program": result.program, "runs": runs })
    };
    let mut document = json!({
        "bytes": args.size.get(),
        "cold": args.cold,
        "sync": args.sync,
        "programs": results.iter().map(program).collect::<Vec<_>>(),
    });
    match directories.as_slice() {
        [one] => document["directory"] = json!(one),
        both => document["directories"] = json!(both),
    }
    document
}

fn figures(ran: &Ran) -> Value {
    json!({
        "bandwidth_bytes_per_s": ran.rate.get(),
        "cpu_percent": ran.busy.as_percent(),
        "seconds": ran.time.as_seconds(),
    })
}
