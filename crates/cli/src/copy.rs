//! `arraylab copy`.

use std::collections::HashMap;
use std::process::ExitCode;

use lab::copy::{Copied, CopyError, Plan, copy as copy_over};
use lab::{Mode, Target, Ways, keep};
use record::RunFile;
use serde_json::json;

use crate::args::Copy;
use crate::fail::Failure;
use crate::metrics::Metrics;
use crate::progress::interrupt;
use crate::run::{RECORDS, build, no_folder};
use crate::watch::Watch;
use crate::{out, permit, run};

/// Copies, and says what both sides did.
pub fn copy(args: &Copy) -> Result<ExitCode, Failure> {
    let permits = match &args.target {
        Target::Path(path) => permit::ask([path.as_path()], args.common.destroy_data)?,
        target => {
            permit::ask_servers(std::slice::from_ref(target), args.common.destroy_data)?;
            HashMap::new()
        }
    };
    let metrics = args.seen.metrics.map(Metrics::serve).transpose()?;
    let interrupted = interrupt(Vec::new());
    let mode = if args.buffered { Mode::Buffered } else { Mode::Direct };
    let (source, target) = (args.source.clone(), args.target.clone());
    let plan = Plan { source, target, size: args.size, depth: args.depth, mode };
    let targets = [plan.source.clone(), plan.target.clone()];
    let said = format!(
        "name = \"copy\"\n\n[copy]\nfrom = {:?}\nto = {:?}\nsize = \"{:#}\"\ndepth = {}\n",
        plan.source.to_string(),
        plan.target.to_string(),
        plan.size,
        plan.depth
    );
    let folder = keep::begin(&args.common.runs, "copy", &said, &targets, build()).map_err(no_folder)?;
    let copied = {
        let names = targets.iter().map(Target::to_string).collect();
        let status = folder.path().join(RunFile::Status.name());
        let bar = Watch::new(args.seen.watch, names, status, metrics);
        let ways = Ways {
            permits: &permits,
            record_memory: RECORDS,
            folder: Some(&folder),
            interrupted: &interrupted,
            progress: &bar,
            party: None,
        };
        copy_over(&folder.id(), &plan, &ways)
    };
    let copied = copied.map_err(|error| {
        // Nothing was copied, so nothing is kept.
        let _ = std::fs::remove_dir_all(folder.path());
        failure(error)
    })?;
    let result = &copied.result;
    let whole = result.failure.is_none() && !result.interrupted;
    let mut document = json!({ "run": folder.path(), "copy": result, "limit": result.limit() });
    document["bandwidth_bytes_per_s"] = json!(result.bytes.per(result.time).get());
    let summary = serde_json::to_value(&copied.summary).expect("plain data becomes JSON");
    document["streams"] = summary["streams"].clone();
    keep::finish(&folder, &document, (&copied.recording, None, &copied.meta), !whole).map_err(Failure::world)?;
    if args.common.json {
        out::json(&document)?;
    } else {
        out::text(&format!("{}\nrun folder: {}\n", text_of(&plan, &copied), folder.path().display()))?;
    }
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

fn text_of(plan: &Plan, copied: &Copied) -> String {
    let result = &copied.result;
    let mut text = format!(
        "{} of {} copied from {} to {} in {}: {}\n\n{}\n{}; the flush took {}\n",
        result.bytes,
        result.of,
        plan.source,
        plan.target,
        result.time,
        result.bytes.per(result.time),
        report::sides(&copied.summary),
        result.limit(),
        result.flush,
    );
    if let Some(failure) = &result.failure {
        text.push_str(&format!("\nthe copy is not whole: {failure}\n"));
    }
    if result.interrupted {
        text.push_str("\nthe copy is not whole: it was ended early\n");
    }
    text
}

fn failure(error: CopyError) -> Failure {
    match error {
        CopyError::Run(error) => run::failure(error),
        _ => Failure::input(error),
    }
}
