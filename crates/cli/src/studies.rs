//! `arraylab xdd` and `arraylab bsd`: programs of the studies, with their own words and their own tables.

use std::collections::HashMap;
use std::fmt::Write;
use std::process::ExitCode;

use analysis::Figures;
use lab::bsd::{BsdError, Conditions};
use lab::xdd::{Xdd, read};
use lab::{Point, Target};
use report::Table;
use serde_json::{Value, json};
use units::Duration;

use crate::args::{Bsd, XddWords};
use crate::fail::Failure;
use crate::out;
use crate::permit;
use crate::progress::{Bar, interrupt};
use crate::run::{Done, Kept, once_each, one};

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
    let point = Point { settings: Vec::new(), experiment: xdd.experiment.clone() };
    let kept = Kept { runs: &args.runs, watch: false, metrics: None, conductor: None };
    let mut done = one(point, &kept, &once_each(&xdd.targets), &permits, &interrupted)?;
    if let Some(sink) = sink {
        sink.write(&stamps(&xdd, &done))?;
    }
    if args.json {
        let mut document = done.document();
        document["lines"] = json!(lines(&xdd, &done).lines().collect::<Vec<_>>());
        out::json(&document)?;
    } else {
        out::text(&format!("{}\nrun folder: {}\n", lines(&xdd, &done), done.path().display()))?;
    }
    if let Some(failure) = done.take_unkept() {
        return Err(failure);
    }
    Ok(if done.is_cut_short() { ExitCode::from(3) } else { ExitCode::SUCCESS })
}

/// A line for each pass and target, one for all passes of a target, one for all targets; then the line of the M.A.X. study for each target.
fn lines(xdd: &Xdd, done: &Done) -> String {
    let operation = match xdd.experiment.streams[0].stream.mix.reads.get() {
        reads if reads >= 1.0 => "read",
        reads if reads <= 0.0 => "write",
        _ => "mixed",
    };
    let request = xdd.request.get();
    let summary = done.summary();
    let mut table = Table::new([
        "what",
        "pass",
        "target",
        "queue",
        "bytes",
        "ops",
        "seconds",
        "MB/s",
        "ops/s",
        "latency ms",
        "op",
        "xfersize",
    ]);
    let depth = xdd.experiment.streams[0].stream.lanes().to_string();
    let mut line = |what: &str, pass: String, target: String, figures: &Figures| {
        let latency = figures.latency.map_or(0.0, |latency| latency.mean.as_millis());
        table.row([
            what.to_owned(),
            pass,
            target,
            depth.clone(),
            figures.bytes.get().to_string(),
            figures.requests.to_string(),
            format!("{:.3}", figures.time.as_seconds()),
            format!("{:.3}", figures.bandwidth.as_mb_per_second()),
            format!("{:.1}", figures.iops.get()),
            format!("{latency:.3}"),
            operation.to_owned(),
            request.to_string(),
        ]);
    };
    for (target, group) in summary.devices.iter().enumerate() {
        for (pass, figures) in group.passes.iter().enumerate() {
            line("TARGET_PASS", (pass + 1).to_string(), target.to_string(), figures);
        }
    }
    for (target, group) in summary.devices.iter().enumerate() {
        line("TARGET_AVERAGE", group.passes.len().to_string(), target.to_string(), &group.figures);
    }
    line("COMBINED", summary.total.passes.len().to_string(), summary.devices.len().to_string(), &summary.total.figures);
    let mut text = table.to_string();
    // "request size (in 1024-byte blocks), the average, high, and low I/O performance in units of 10^6-bytes per second, the number of I/O operations, the
    // average, maximum, and minimum number of seconds ..., and the number of errors"
    let mut max =
        Table::new(["target", "blocks", "MB/s", "high", "low", "ops", "seconds", "longest", "shortest", "errors"]);
    for group in &summary.devices {
        let rates: Vec<f64> = group.passes.iter().map(|pass| pass.bandwidth.as_mb_per_second()).collect();
        let times: Vec<f64> = group.passes.iter().map(|pass| pass.time.as_seconds()).collect();
        let [rate, time] = [spread(&rates), spread(&times)];
        max.row([
            group.name.clone(),
            (request as f64 / 1024.0).to_string(),
            shown(rate[0], 3),
            shown(rate[1], 3),
            shown(rate[2], 3),
            group.figures.requests.to_string(),
            shown(time[0], 4),
            shown(time[1], 4),
            shown(time[2], 4),
            group.figures.errors.to_string(),
        ]);
    }
    let _ = write!(text, "\n{max}");
    text
}

/// Mean, most and least; nothing of a run that was ended before its first pass was over.
fn spread(values: &[f64]) -> [Option<f64>; 3] {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let most = values.iter().copied().reduce(f64::max);
    [most.map(|_| mean), most, values.iter().copied().reduce(f64::min)]
}

/// With so many decimals.
fn shown(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
}

/// The table of time stamps: a header with the request size in 1024-byte blocks, the resolution and the number of entries, then an entry for each
/// request.
fn stamps(xdd: &Xdd, done: &Done) -> String {
    let mut rows = Vec::new();
    done.visit(|row| rows.push(*row));
    let mut text = format!(
        "# request size in 1024-byte blocks: {}\n# resolution of the time stamps: 1 ns\n# entries: {}\n",
        xdd.request.get() as f64 / 1024.0,
        rows.len()
    );
    text.push_str("# target pass request op offset bytes start_ns end_ns\n");
    rows.sort_by_key(|row| (row.device, row.pass, row.submitted));
    let mut number = (u16::MAX, u16::MAX, 0u64);
    for row in rows {
        number = if (row.device, row.pass) == (number.0, number.1) {
            (number.0, number.1, number.2 + 1)
        } else {
            (row.device, row.pass, 0)
        };
        let (start, end) = (row.submitted.as_nanos(), row.completed.as_nanos());
        let _ = writeln!(
            text,
            "{} {} {} {} {} {} {start} {end}",
            row.device,
            row.pass + 1,
            number.2,
            row.operation.name(),
            row.offset.get(),
            row.length
        );
    }
    text
}

/// The four programs of 4.2BSD.
pub fn bsd(args: &Bsd) -> Result<ExitCode, Failure> {
    let conditions = Conditions {
        directory: args.directory.clone(),
        size: args.size,
        runs: args.repeats,
        cold: args.cold,
        sync: args.sync,
    };
    let interrupted = interrupt(Vec::new());
    let bar = Bar::new(1000);
    let show = |done: usize, of: usize| bar.show((done * 1000 / of) as u64, format!("{done} of {of} runs"));
    let results = lab::bsd::run(&conditions, &interrupted, show).map_err(|error| match error {
        BsdError::Directory { .. } => Failure::input(error),
        BsdError::Program { .. } | BsdError::Interrupted => Failure::world(error),
    })?;
    drop(bar);
    if args.json {
        out::json(&json!({
            "directory": args.directory,
            "bytes": args.size.get(),
            "cold": args.cold,
            "sync": args.sync,
            "programs": results.iter().map(program).collect::<Vec<_>>(),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let columns = results.iter().map(|result| result.runs.len()).max().unwrap_or(0);
    let heads = (0..columns).map(|run| format!("run {} Kbytes/sec", run + 2));
    let mut table = Table::new(std::iter::once("test".to_owned()).chain(heads));
    for result in &results {
        let cells =
            result.runs.iter().map(|ran| format!("{:.0} ({:.0}%)", ran.rate.get() / 1024.0, ran.busy.as_percent()));
        table.row(std::iter::once(result.program.to_owned()).chain(cells));
    }
    let mut text = table.to_string();
    let shortest = results.iter().flat_map(|result| &result.runs).map(|ran| ran.time).min();
    if let Some(time) = shortest.filter(|time| *time < Duration::millis(50)) {
        let _ = write!(
            text,
            "\nadvice: a run of {time} says little: today's memory holds the whole file; take more with --size, and --cold or --sync for the disk\n"
        );
    }
    out::text(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn program(shown: &lab::bsd::Shown) -> Value {
    let run = |ran: &lab::bsd::Ran| {
        json!({
            "bandwidth_bytes_per_s": ran.rate.get(),
            "cpu_percent": ran.busy.as_percent(),
            "seconds": ran.time.as_seconds(),
        })
    };
    json!({ "program": shown.program, "runs": shown.runs.iter().map(run).collect::<Vec<_>>() })
}
