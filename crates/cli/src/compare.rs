//! `arraylab compare`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

use analysis::Figures;
use analysis::compare::turns;
use host::guard::WritePermit;
use lab::conditions::{Condition, differences};
use lab::kept::{Comparison, KeptComparison, Pair, Side};
use lab::layout::read_paths;
use lab::{Point, Setting, Target};
use record::{Clock, FolderError, IndexFolder, IndexKind, RunFolder};
use report::{ComparisonPage, SAME, comparison_page};
use serde_json::{Value, json};

use crate::args::Compare;
use crate::explain;
use crate::fail::Failure;
use crate::out;
use crate::permit;
use crate::prepare;
use crate::progress::interrupt;
use crate::run::{Kept, build, find, in_virtual_time, no_folder, once_each, one};

/// A side, once it has been read.
struct Given {
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
    let sides = args.sides.iter().map(|side| read(side, &args.set)).collect::<Result<Vec<Given>, Failure>>()?;
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
    let (begun, interrupted) = (SystemTime::now(), interrupt(Vec::new()));
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
    let pairs = runs.iter().enumerate().skip(1).map(|(index, of)| {
        let figures = |runs: &[(Figures, PathBuf)]| runs.iter().map(|(figures, _)| figures.clone()).collect::<Vec<_>>();
        let metrics = turns(&figures(&runs[0]), &figures(of));
        let environment = conditions(&runs[0][0].1, &of[0].1)?;
        Ok(Pair { a: names[0].to_owned(), b: names[index].to_owned(), metrics, environment })
    });
    let pairs = pairs.collect::<Result<Vec<Pair>, Failure>>()?;
    let clock = if simulated { Clock::Simulated } else { Clock::Live };
    let of_sides =
        names.iter().zip(&runs).map(|(name, runs)| Side::of(name, runs.iter().map(|(of, run)| (of, &**run))));
    let comparison = Comparison::new(begun, clock, args.repeat, of_sides.collect(), pairs);
    let (index, kept) = keep(&args.common.runs, &comparison, (&sides, &targets))?;
    if args.common.json {
        let folders: Vec<Vec<&PathBuf>> = runs.iter().map(|of| of.iter().map(|(_, folder)| folder).collect()).collect();
        let mut document = document(&comparison.comparisons);
        document["repeat"] = json!(args.repeat);
        document["runs"] = json!(folders);
        document["clock"] = json!(clock);
        document["comparison"] = json!(index.path());
        out::json(&document)?;
    } else {
        out::text(&format!("{}\ncomparison folder: {}\n", text(&comparison), index.path().display()))?;
    }
    kept.map_err(Failure::world)?;
    Ok(ExitCode::SUCCESS)
}

/// Makes the folder of a comparison, beside those of its runs. The experiments of all sides stand in it one after the
/// other.
fn keep(
    runs: &Path,
    comparison: &Comparison,
    (sides, targets): (&[Given], &[Target]),
) -> Result<(IndexFolder, Result<(), FolderError>), Failure> {
    let own = sides.iter().find_map(|side| side.point.experiment.own_targets()).filter(|_| targets.is_empty());
    let targets = own.as_deref().unwrap_or(targets);
    let each = |side: &Given| format!("# {}\n\n{}\n", side.name, side.point.experiment.to_toml());
    let experiments: String = sides.iter().map(each).collect();
    let kind = ("compare", IndexKind::Comparison);
    let index = lab::keep::begin_index(runs, kind, &experiments, targets, build()).map_err(no_folder)?;
    let kept = index.write(comparison);
    Ok((index, kept))
}

/// Says once more what a comparison that was kept has said.
pub fn again(kept: &KeptComparison, as_json: bool) -> Result<ExitCode, Failure> {
    if as_json {
        out::json(&json!(kept.comparison))?;
    } else {
        out::text(&text(&kept.comparison))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The page of a comparison.
pub fn page(kept: &KeptComparison) -> Result<String, Failure> {
    let comparison = &kept.comparison;
    let none = || "-".to_owned();
    let pairs = comparison.comparisons.iter().map(|pair| report::Pair {
        a: &pair.a,
        b: &pair.b,
        metrics: &pair.metrics,
        conditions: pair
            .environment
            .iter()
            .map(|one| [one.what.clone(), one.a.clone().unwrap_or_else(none), one.b.clone().unwrap_or_else(none)])
            .collect(),
    });
    let turn = |turn: &lab::kept::Turn| report::Turn {
        run: turn.run.clone(),
        figures: turn.figures.iter().map(|(name, value)| (name.clone(), *value)).collect(),
    };
    let sides = comparison.sides.iter().map(|side| (side.name.clone(), side.runs.iter().map(turn).collect()));
    let names: Vec<&str> = comparison.sides.iter().map(|side| side.name.as_str()).collect();
    Ok(comparison_page(&ComparisonPage {
        title: &names.join(" and "),
        started: comparison.started,
        about: &kept.about(),
        pairs: &pairs.collect::<Vec<_>>(),
        sides: &sides.collect::<Vec<_>>(),
        files: &lab::kept::described(&kept.folder).map_err(|error| explain::failure(error.into()))?,
    }))
}

/// `FILE` or `FILE,KEY=VALUE,...`.
fn read(side: &str, set: &[Setting]) -> Result<Given, Failure> {
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
        Ok([point]) => Ok(Given { name: side.to_owned(), point }),
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

fn document(pairs: &[Pair]) -> Value {
    match pairs {
        [one] => json!(one),
        all => json!({ "comparisons": all }),
    }
}

fn text(comparison: &Comparison) -> String {
    let pair = |pair: &Pair| {
        format!(
            "{} (A) and {} (B)\n\n{}\n{}",
            pair.a,
            pair.b,
            report::compared(&pair.metrics),
            differing(&pair.environment)
        )
    };
    comparison.comparisons.iter().map(pair).collect::<Vec<_>>().join("\n")
}

fn differing(conditions: &[Condition]) -> String {
    if conditions.is_empty() {
        return format!("{SAME}\n");
    }
    let none = || "-".to_owned();
    let mut text = "Their conditions differ\n\n".to_owned();
    for one in conditions {
        let (a, b) = (one.a.clone().unwrap_or_else(none), one.b.clone().unwrap_or_else(none));
        text.push_str(&format!("* {}: {a} | {b}\n", one.what));
    }
    text
}
