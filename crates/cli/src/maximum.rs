//! `arraylab max`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use analysis::maximum::{Maximum, Method};
use host::Kernel;
use host::guard::{WritePermit, own};
use lab::maximum::{Host, HostError, Load, Plan, conduct, describe, lines, stamps};
use lab::survey::recorder;
use lab::{Target, keep};
use record::{Clock, Labels, Meta, RunFile};
use serde_json::json;

use crate::args::{Max, MaxMethod};
use crate::fail::Failure;
use crate::metrics::Metrics;
use crate::progress::{Bar, interrupt};
use crate::run::{build, no_folder, once_each};
use crate::watch::Watch;
use crate::{out, permit};

/// Measures how much the host takes.
pub fn max(args: &Max) -> Result<ExitCode, Failure> {
    let targets = once_each(&args.paths);
    let asked = |method| args.methods.contains(&method);
    let permits = permits(args, &targets)?;
    let writes = permits.is_some();
    let permits = permits.unwrap_or_default();
    let methods = [
        (MaxMethod::Independent, Method::Independent),
        (MaxMethod::Volume, Method::Volume),
        (MaxMethod::Simultaneous, Method::Simultaneous),
    ];
    let by_default = |method| method != Method::Simultaneous || writes;
    let wanted = |(word, method)| if args.methods.is_empty() { by_default(method) } else { asked(word) };
    let methods = methods.into_iter().filter(|pair| wanted(*pair)).map(|(_, method)| method).collect();
    let mut sizes = args.sizes.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let mut plan = Plan { sizes, methods, writes, repeats: args.repeats, budget: args.time, seed: args.seed };
    // Not after minutes of load.
    let sink = args.stamps.as_deref().map(|path| out::Sink::open(path, "name another file with --stamps"));
    let sink = sink.transpose()?;
    let metrics = args.seen.metrics.map(Metrics::serve).transpose()?;
    let interrupted = interrupt(Vec::new());
    let mut host = Host::new(&targets, &permits, &interrupted).map_err(failure)?;
    let mut remarks = host.look(&mut plan, !args.methods.is_empty()).map_err(failure)?;

    let targets = host.targets().to_vec();
    let names: Vec<String> = targets.iter().map(Target::to_string).collect();
    let folder = keep::begin(&args.common.runs, "max", &plan.to_toml(), &targets, build()).map_err(no_folder)?;
    let labels = Labels { streams: plan.streams(), devices: names.clone() };
    let meta = Meta { run: folder.id(), clock: Clock::Live, origin: Some(std::time::SystemTime::now()), labels };
    let (recorder, log) = recorder(&folder, &meta).map_err(Failure::world)?;
    let status = folder.path().join(RunFile::Status.name());
    let watch = Watch::beside(args.seen.watch, names.clone(), status, metrics);
    host.keep(log, &watch);
    let (findings, broken) = {
        let bar = (!args.seen.watch).then(|| Bar::new(1000));
        let mut show = |load: &Load, done: usize, of: usize| {
            let text = format!("{done} of {of}: {}, {} at a time", describe(load.kind), load.kind.request);
            match &bar {
                Some(bar) => bar.show((done * 1000 / of) as u64, text),
                None => watch.title(text),
            }
        };
        conduct(&plan, &names, &mut |load| host.measure(&plan, load), &mut show)
    };
    remarks.extend(host.remarks());
    let made = host.made().to_vec();
    drop(host);
    drop(watch);
    let recording = recorder.finish();
    if recording.rows() == 0
        && let Some(error) = broken
    {
        // Nothing was measured, so nothing is kept: a folder that holds no run only misleads.
        let _ = std::fs::remove_dir_all(folder.path());
        return Err(failure(error));
    }
    if broken.is_some() {
        remarks.push("the measurement was cut short; the figures are of what was measured until then".to_owned());
    }
    let maximum = Maximum::of(&findings);
    let mut document = serde_json::to_value(&maximum).expect("plain data becomes JSON");
    document["remarks"] = json!(remarks);
    document["interrupted"] = json!(broken.is_some());
    let kept = keep::finish(&folder, &document, (&recording, None, &meta), broken.is_some());
    if let Some(sink) = sink {
        sink.write(&stamps(&made, &recording).map_err(Failure::world)?)?;
    }
    if args.common.json {
        document["run"] = json!(folder.path());
        out::json(&document)?;
    } else {
        let xdd = if args.xdd { lines(&made, &recording, &names).map_err(Failure::world)? } else { String::new() };
        let text = report::maximum(&maximum, &remarks);
        out::text(&format!("{text}{xdd}\nrun folder: {}\n", folder.path().display()))?;
    }
    match broken {
        // The user knows.
        Some(HostError::Interrupted) => kept.map(|()| ExitCode::from(3)).map_err(Failure::world),
        Some(error) => Err(Failure::World(failure(error).error())),
        None => kept.map(|()| ExitCode::SUCCESS).map_err(Failure::world),
    }
}

/// Leave to write: by `--destroy-data`, or to files that are all arraylab's own; nothing where there is none, and
/// none is needed.
fn permits(args: &Max, targets: &[Target]) -> Result<Option<HashMap<PathBuf, WritePermit>>, Failure> {
    let needed = args.methods.contains(&MaxMethod::Simultaneous);
    if !args.common.destroy_data {
        let ours = |target: &Target| {
            let Target::Path(path) = target else { return None };
            if !path.is_file() {
                return None;
            }
            // One that is in use is not written, and may be read.
            own(&Kernel::running(), path).ok().flatten().map(|permit| (path.clone(), permit))
        };
        let ours = targets.iter().map(ours).collect::<Option<HashMap<_, _>>>();
        if ours.is_some() || !needed {
            return Ok(ours);
        }
    }
    permit::ask_servers(&args.paths, args.common.destroy_data)?;
    let paths = args.paths.iter().flat_map(Target::paths).collect::<Vec<&Path>>();
    permit::ask(paths, args.common.destroy_data).map(Some)
}

/// Who is to blame for what was not measured.
fn failure(error: HostError) -> Failure {
    match error {
        HostError::Run(error) => crate::run::failure(error),
        HostError::Look { .. } | HostError::Device { .. } | HostError::Interrupted => Failure::world(error),
        _ => Failure::input(error),
    }
}
