//! `arraylab what-if`.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use analysis::explain::AloneWatch;
use analysis::{Brought, Figures};
use host::guard::WritePermit;
use lab::layout::read_paths;
use lab::what_if::{Known, KnownDevice, Part, alone, brought, check, plan};
use lab::{Cost, Experiment, Point, Source, Target};
use record::{RunFile, RunFolder};
use serde_json::json;
use units::{Duration, Frequency};

use crate::args::WhatIf;
use crate::explain;
use crate::fail::Failure;
use crate::out;
use crate::permit;
use crate::prepare;
use crate::progress::interrupt;
use crate::run::{Done, Kept, in_virtual_time, one};

/// Makes the runs, and says what each part would bring.
pub fn what_if(args: &WhatIf) -> Result<ExitCode, Failure> {
    let (experiment, targets) = again(args)?;
    let name = args.run.display().to_string();
    check(&name, &experiment, args.times).map_err(Failure::input)?;
    let given = experiment.own_targets().filter(|_| targets.is_empty()).unwrap_or_else(|| targets.clone());
    let names = lab::names(&given[..experiment.run.devices.map_or(given.len(), |most| most.min(given.len()))]);
    let parts = parts(args, &names, in_virtual_time(&experiment, &targets))?;
    let permits = match experiment.writes() && !targets.is_empty() {
        true => {
            permit::ask_servers(&targets, args.common.destroy_data)?;
            permit::ask(targets.iter().flat_map(Target::paths), args.common.destroy_data)?
        }
        false => HashMap::new(),
    };
    let interrupted = interrupt(Vec::new());
    let read = read_paths([&experiment]);
    let runs = Runs { args, targets: &targets, permits, read, interrupted: &interrupted };
    let Some((known, was)) = runs.known(&experiment, names.len())? else { return Ok(cut_short(args)) };
    let plans: Vec<_> = parts.into_iter().map(|part| plan(&experiment, &known, part, args.times)).collect();
    let mut figures: Vec<[Vec<Figures>; 2]> = plans.iter().map(|_| <[Vec<Figures>; 2]>::default()).collect();
    let mut own: Vec<[f64; 2]> = vec![[0.0; 2]; plans.len()];
    for turn in 0..args.repeat {
        for ((plan, figures), own) in plans.iter().zip(&mut figures).zip(&mut own) {
            let mut order = [(0, &plan.control), (1, &plan.held)];
            if turn % 2 == 1 {
                order.reverse();
            }
            for (which, experiment) in order {
                let Some(done) = runs.one(experiment, turn)? else { return Ok(cut_short(args)) };
                figures[which].push(done.outcome.summary.total.figures.clone());
                own[which] += rate_of(&done, plan.part).unwrap_or(0.0) / f64::from(args.repeat);
            }
        }
    }
    let brought_by: Vec<Brought> = plans
        .iter()
        .zip(figures.iter().zip(&own))
        .map(|(plan, ([control, held], own))| {
            let own = matches!(plan.part, Part::Device(_)).then(|| own.map(Frequency::per_second));
            brought(plan, (control, held), own, was.iops, &names, args.times)
        })
        .collect();
    if args.common.json {
        out::json(&json!({ "run": name, "repeat": args.repeat, "parts": brought_by }))?;
    } else {
        out::text(&report::brought(&name, &brought_by, args.repeat))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Requests a second of a device of the run.
fn rate_of(done: &Done, part: Part) -> Option<f64> {
    let Part::Device(index) = part else { return None };
    let name = &done.outcome.meta.labels.devices[index];
    let groups = &mut done.outcome.summary.devices.iter();
    groups.find(|group| group.name == *name).map(|group| group.figures.iops.get())
}

fn cut_short(args: &WhatIf) -> ExitCode {
    let runs = args.common.runs.display();
    eprintln!("this was ended early, or a run failed; nothing can be said; what was run is in {runs}");
    3.into()
}

/// The experiment of the run, and what it ran on.
fn again(args: &WhatIf) -> Result<(Experiment, Vec<Target>), Failure> {
    let no = |why: &str| Failure::input(anyhow::anyhow!("{}: {why}", args.run.display()));
    let (folder, _) = RunFolder::open(&args.run).map_err(|error| explain::failure(error.into()))?;
    let text = folder.read(RunFile::Experiment).map_err(Failure::world)?;
    let text = text.ok_or_else(|| no("it is the folder of no run of an experiment, so it cannot be made again"))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let source = Source { name: args.run.join(RunFile::Experiment.name()).display().to_string(), text };
    let points = lab::read(&source, &[]).map_err(Failure::input)?;
    let [point] = <[Point; 1]>::try_from(points).map_err(|_| no("it is of several points; give the run of one"))?;
    if point.experiment.own_targets().is_some() {
        if !args.on.is_empty() {
            return Err(no("its experiment describes its own devices; leave out --on"));
        }
        return Ok((point.experiment, Vec::new()));
    }
    if !args.on.is_empty() {
        return Ok((point.experiment, args.on.clone()));
    }
    let (_, meta) = folder.records().map_err(|error| explain::failure(error.into()))?;
    let target = |name: &String| {
        // Two devices of one name have a number behind it.
        let name = name.rsplit_once('#').filter(|(_, number)| number.parse::<u32>().is_ok()).map_or(&**name, |of| of.0);
        name.parse().map_err(|_| no(&format!("its device {name} cannot be opened by that name; give it with --on")))
    };
    let targets = meta.labels.devices.iter().map(target).collect::<Result<Vec<Target>, Failure>>()?;
    Ok((point.experiment, targets))
}

/// Those that are asked for; all, if none is.
fn parts(args: &WhatIf, names: &[String], in_virtual_time: bool) -> Result<Vec<Part>, Failure> {
    let generator = (!in_virtual_time).then_some(Part::Generator);
    if args.part.is_empty() {
        return Ok((0..names.len()).map(Part::Device).chain(generator).collect());
    }
    let known = |word: &String| {
        let device = names.iter().position(|name| name == word).map(Part::Device);
        device.or(generator.filter(|_| word == "generator")).ok_or_else(|| {
            let generator = generator.map(|_| "generator".to_owned());
            let all: Vec<String> = names.iter().cloned().chain(generator).collect();
            Failure::input(anyhow::anyhow!("--part {word}: the run has no such part; it has {}", all.join(", ")))
        })
    };
    args.part.iter().map(known).collect()
}

/// What each run is made with.
struct Runs<'a> {
    args: &'a WhatIf,
    targets: &'a [Target],
    permits: HashMap<PathBuf, WritePermit>,
    /// Files of its own that it reads.
    read: HashSet<PathBuf>,
    interrupted: &'a AtomicBool,
}

impl Runs<'_> {
    /// Makes a run; `None` if it was ended early, or failed.
    fn one(&self, experiment: &Experiment, turn: u16) -> Result<Option<Done>, Failure> {
        let mut experiment = experiment.clone();
        // Both runs of a turn have the same places, each turn others.
        experiment.seed = experiment.seed.wrapping_add(u64::from(turn));
        let point = Point { settings: Vec::new(), experiment, baseline: None };
        let kept = Kept { runs: &self.args.common.runs, watch: false, metrics: None, conductor: None };
        let destroy = self.args.common.destroy_data;
        let own = prepare::permits(&point.experiment, destroy, &self.read, self.interrupted)?;
        let permits = own.as_ref().unwrap_or(&self.permits);
        let mut done = one(point, &kept, self.targets, permits, self.interrupted)?;
        own.iter().for_each(|own| prepare::leave(own, &[]));
        if let Some(failure) = done.take_unkept() {
            return Err(failure);
        }
        Ok((!self.interrupted.load(Relaxed) && !done.is_cut_short()).then_some(done))
    }

    /// Makes the run as it is, and at depth 1: what is known of the parts, and the figures of the former.
    fn known(&self, experiment: &Experiment, devices: usize) -> Result<Option<(Known, Figures)>, Failure> {
        let Some(now) = self.one(experiment, 0)? else { return Ok(None) };
        let Some(single) = self.one(&alone(experiment), 0)? else { return Ok(None) };
        let generator = Cost::of(&now.outcome).map_or(Duration::ZERO, |cost| cost.process_per_request);
        let names = &now.outcome.meta.labels.devices;
        let mut watch = AloneWatch::default();
        single.visit(|row| watch.add(std::slice::from_ref(row)));
        let found = watch.finish(names);
        let device = |index: usize| {
            let group = now.outcome.summary.devices.iter().find(|group| group.name == names[index]);
            let figures = group.map(|group| &group.figures);
            KnownDevice {
                rate: figures.map_or(Frequency::per_second(0.0), |figures| figures.iops),
                service: figures.and_then(|figures| figures.service).map_or(Duration::ZERO, |service| service.mean),
                alone: found.iter().find(|one| one.device == names[index]).map(|one| one.mean),
            }
        };
        let known = Known { generator, devices: (0..devices).map(device).collect() };
        Ok(Some((known, now.outcome.summary.total.figures.clone())))
    }
}
