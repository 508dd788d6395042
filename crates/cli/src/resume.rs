//! `arraylab run --resume`: a sweep that was ended early goes on, and points that were run are not run again.
//!
//! A point counts as run if its folder is complete and has the same experiment, and if it ended well: verification
//! found nothing, and it became steady where that was asked for. Experiment text, --set, targets and program must be
//! those with which the sweep was begun. The result is one table of all points.

use std::path::Path;

use lab::kept::{Kept, KeptSweep, SweepPoint, program};
use lab::{Point, Target, kept};
use record::{RunFile, RunFolder, RunState};
use report::Sweep;
use serde_json::Value;

use crate::args::Run;
use crate::fail::Failure;

/// The points of a sweep that an earlier process ran.
pub struct Resumed {
    /// The sweep, of which the points that stay are left.
    pub kept: KeptSweep,
    /// What each of those came to, as one document.
    pub documents: Vec<Value>,
}

impl Resumed {
    /// The sweep in this folder, if it is the one that would be run.
    pub fn open(
        folder: &Path,
        args: &Run,
        text: &str,
        points: &[Point],
        targets: &[Target],
    ) -> Result<Resumed, Failure> {
        let no = |why: String| Failure::input(anyhow::anyhow!("{}: {why}", folder.display()));
        let Kept::Sweep(mut kept) = kept::open(folder).map_err(Failure::input)? else {
            return Err(no("it is the folder of no sweep; `arraylab run` names it as 'sweep folder'".to_owned()));
        };
        let read = |file: RunFile| kept.folder.read_file(file).map_err(Failure::world);
        let was = read(RunFile::Experiment)?.unwrap_or_default();
        let differs =
            |what: &str| no(format!("{what} not as when this sweep was begun; give the same, or leave out --resume"));
        if was != text.as_bytes() {
            return Err(differs("the experiment is"));
        }
        if kept.sweep.set != args.set.iter().map(|set| format!("{}={}", set.key, set.value)).collect::<Vec<_>>() {
            return Err(differs("--set is"));
        }
        if kept.sweep.targets != lab::names(targets) || kept.sweep.planned != points.len() {
            return Err(differs("the devices are"));
        }
        let now = program();
        if kept.sweep.program.as_ref().is_none_or(|was| *was != now) {
            return Err(no(
                "another build of arraylab has begun this sweep, and may have measured otherwise; leave out --resume"
                    .to_owned(),
            ));
        }
        let mut documents = Vec::new();
        for (point, ran) in points.iter().zip(&kept.sweep.points) {
            match document(&kept.folder.run(&ran.run), point) {
                Some(document) if ran.values == values(point) => documents.push(document),
                _ => break,
            }
        }
        kept.sweep.points.truncate(documents.len());
        Ok(Resumed { kept: *kept, documents })
    }

    /// The lines of a table of the sweep.
    pub fn lines(&self) -> impl Iterator<Item = Sweep<'_>> {
        let points = self.kept.sweep.points.iter();
        points.map(|SweepPoint { values, total, busiest, .. }| Sweep {
            values: values.clone(),
            total,
            busiest: busiest.clone(),
        })
    }
}

fn values(point: &Point) -> Vec<String> {
    point.settings.iter().map(|set| set.value.clone()).collect()
}

/// What a point came to, if its folder says that it was run to its end, as it would be run now, and that it ended well.
fn document(run: &Path, point: &Point) -> Option<Value> {
    let (folder, info) = RunFolder::open(run).ok()?;
    let ran = folder.read(RunFile::Experiment).ok()??;
    if info.state != RunState::Complete || ran != point.experiment.to_toml().as_bytes() {
        return None;
    }
    folder.read_json(RunFile::Summary).ok()?.filter(ended_well)
}

/// Whether a run would have ended with exit code 0.
fn ended_well(document: &Value) -> bool {
    let mut verified = document["verification"].as_array().into_iter().flatten();
    verified.all(|device| device["findings"]["count"] == 0) && document["rounds"]["steady"] != false
}
