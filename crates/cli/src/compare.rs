//! `arraylab compare`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;

use analysis::Figures;
use analysis::compare::{Metric, turns};
use host::guard::WritePermit;
use lab::conditions::{Condition, differences};
use lab::layout::read_paths;
use lab::{Point, Setting};
use record::RunFolder;
use serde_json::{Value, json};

use crate::args::Compare;
use crate::explain;
use crate::fail::Failure;
use crate::out;
use crate::permit;
use crate::prepare;
use crate::progress::interrupt;
use crate::run::{Kept, find, in_virtual_time, once_each, one};

/// A side, once it has been read.
struct Side {
    name: String,
    point: Point,
}

/// Runs the sides in turns, or reads what was run, and says how they differ.
pub fn compare(args: &Compare) -> Result<ExitCode, Failure> {
    let are_folders: Vec<bool> = args.sides.iter().map(|side| Path::new(side).is_dir()).collect();
    if are_folders.iter().all(|is| *is) {
        return folders(args);
    }
    if let Some((folder, _)) = args.sides.iter().zip(&are_folders).find(|(_, is)| **is) {
        let message = "compare experiments with experiments, which are then run in turns, or folders with folders";
        return Err(Failure::input(anyhow::anyhow!(
            "{folder} is the folder of a run, and another side is not; {message}"
        )));
    }
    let sides = args.sides.iter().map(|side| read(side, &args.set)).collect::<Result<Vec<Side>, Failure>>()?;
    let targets = once_each(&args.on);
    let writes = sides.iter().any(|side| side.point.experiment.system.is_none() && side.point.experiment.writes());
    let permits = match writes {
        true => {
            permit::ask_servers(&args.on, args.common.destroy_data)?;
            permit::ask(args.on.iter().flat_map(lab::Target::paths), args.common.destroy_data)?
        }
        false => HashMap::new(),
    };
    let simulated = sides.iter().any(|side| in_virtual_time(&side.point.experiment, &args.on));
    let interrupted = interrupt(Vec::new());
    let experiments: Vec<_> = sides.iter().map(|side| side.point.experiment.clone()).collect();
    let read = read_paths(&experiments);
    let kept = Kept { runs: &args.common.runs, watch: false, metrics: None, conductor: None };
    let mut runs: Vec<Vec<(Figures, PathBuf)>> = sides.iter().map(|_| Vec::new()).collect();
    for turn in 0..args.repeat {
        let mut order: Vec<usize> = (0..sides.len()).collect();
        if turn % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let mut point = sides[index].point.clone();
            // In virtual time the same seed gives the same run; of real devices each turn has places of its own, the
            // same for all sides.
            point.experiment.seed = point.experiment.seed.wrapping_add(u64::from(turn));
            let own = prepare::permits(&point.experiment, args.common.destroy_data, &read, &interrupted)?;
            let leave: &HashMap<PathBuf, WritePermit> = own.as_ref().unwrap_or(&permits);
            let mut done = one(point, &kept, &targets, leave, &interrupted)?;
            own.iter().for_each(|own| prepare::leave(own, &[]));
            if let Some(failure) = done.take_unkept() {
                return Err(failure);
            }
            if interrupted.load(Relaxed) || done.is_cut_short() {
                let runs = args.common.runs.display();
                eprintln!(
                    "the comparison was ended early, or a run failed; nothing can be said; what was run is in {runs}"
                );
                return Ok(3.into());
            }
            runs[index].push((done.outcome.summary.total.figures.clone(), done.path().to_owned()));
        }
    }
    let names: Vec<&str> = sides.iter().map(|side| side.name.as_str()).collect();
    let compared = runs.iter().enumerate().skip(1).map(|(index, of)| {
        let figures = |runs: &[(Figures, PathBuf)]| runs.iter().map(|(figures, _)| figures.clone()).collect::<Vec<_>>();
        let metrics = turns(&figures(&runs[0]), &figures(of));
        let conditions = conditions(&runs[0][0].1, &of[0].1)?;
        Ok(Compared { a: names[0].to_owned(), b: names[index].to_owned(), metrics, conditions })
    });
    let compared = compared.collect::<Result<Vec<Compared>, Failure>>()?;
    let folders: Vec<Vec<&PathBuf>> = runs.iter().map(|of| of.iter().map(|(_, folder)| folder).collect()).collect();
    if args.common.json {
        let mut document = document(&compared);
        document["repeat"] = json!(args.repeat);
        document["runs"] = json!(folders);
        document["clock"] = json!(if simulated { "simulated" } else { "live" });
        out::json(&document)?;
    } else {
        out::text(&compared.iter().map(text).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Two sides, and what came of them.
struct Compared {
    a: String,
    b: String,
    metrics: Vec<Metric>,
    conditions: Vec<Condition>,
}

/// `FILE` or `FILE,KEY=VALUE,...`.
fn read(side: &str, set: &[Setting]) -> Result<Side, Failure> {
    let mut words = side.split(',');
    let file = words.next().unwrap_or_default();
    let source = find(Path::new(file))?;
    if fio::is_meant(Path::new(file), &source.text) {
        return Err(Failure::input(anyhow::anyhow!(
            "{file} is a job file of fio; compare takes experiments: 'arraylab import {file}' makes one of it"
        )));
    }
    let mut settings = set.to_vec();
    for word in words {
        settings.push(word.parse().map_err(|why: String| Failure::input(anyhow::anyhow!(why)))?);
    }
    let points = lab::read(&source, &settings).map_err(Failure::input)?;
    match <[Point; 1]>::try_from(points) {
        Ok([point]) => Ok(Side { name: side.to_owned(), point }),
        Err(points) => Err(Failure::input(anyhow::anyhow!(
            "{file} is a sweep of {} points, and a side is one; leave its [sweep] out, and give each value as FILE,KEY=VALUE",
            points.len()
        ))),
    }
}

fn conditions(a: &Path, b: &Path) -> Result<Vec<Condition>, Failure> {
    let open = |path: &Path| RunFolder::open(path).map(|(folder, _)| folder);
    open(a).and_then(|a| differences(&a, &open(b)?)).map_err(|error| explain::failure(error.into()))
}

/// Runs that were kept.
fn folders(args: &Compare) -> Result<ExitCode, Failure> {
    let first = &args.sides[0];
    let mut documents = Vec::new();
    let mut texts = Vec::new();
    for other in &args.sides[1..] {
        let against = explain::held_against(Path::new(first), Path::new(other))?;
        let conditions = conditions(Path::new(first), Path::new(other))?;
        texts.push(format!(
            "{first} (before) and {other} (after)\n\n{}\n{ONCE}\n{}",
            report::against(&against.compared),
            differing(&conditions)
        ));
        documents.push(json!({ "a": first, "b": other, "compared": against.compared, "environment": conditions }));
    }
    if args.common.json {
        out::json(&json!({ "comparisons": documents, "repeat": 1, "remark": ONCE }))?;
    } else {
        out::text(&texts.join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What single runs do not tell.
const ONCE: &str = "One run of each: this is how these runs differ. Whether their set-ups do, repeats in turns tell: arraylab compare --repeat 5 A.toml B.toml";

fn document(compared: &[Compared]) -> Value {
    let pair = |one: &Compared| {
        let conditions = &one.conditions;
        json!({ "a": one.a, "b": one.b, "metrics": one.metrics, "environment": conditions })
    };
    match compared {
        [one] => pair(one),
        all => json!({ "comparisons": all.iter().map(pair).collect::<Vec<_>>() }),
    }
}

fn text(one: &Compared) -> String {
    format!("{} (A) and {} (B)\n\n{}\n{}", one.a, one.b, report::compared(&one.metrics), differing(&one.conditions))
}

fn differing(conditions: &[Condition]) -> String {
    if conditions.is_empty() {
        return "Their conditions are the same: experiment, machine, kernel, settings, and what the devices stand on.\n".to_owned();
    }
    let none = || "-".to_owned();
    let mut text = "Their conditions differ\n\n".to_owned();
    for one in conditions {
        let (a, b) = (one.a.clone().unwrap_or_else(none), one.b.clone().unwrap_or_else(none));
        text.push_str(&format!("* {}: {a} | {b}\n", one.what));
    }
    text
}
