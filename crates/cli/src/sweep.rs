//! The folder of a sweep, while it is run; and its verdicts, which `explain` and `report` print.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use analysis::explain::Explanation;
use lab::kept::{Found, KeptSweep, SweepPoint, Sweeping};
use lab::{Point, Setting, Target};
use record::{Clock, RunState};
use report::{Sweep, SweepPage, Swept, sweep_page, swept};
use serde_json::{Value, json};

use crate::args::Run;
use crate::explain::failure;
use crate::fail::Failure;
use crate::run::{Done, build, in_virtual_time, no_folder};

/// The index of a sweep. Its folder is made when the first point was run: nothing ran, nothing is kept.
pub struct Index<'a> {
    runs: &'a Path,
    text: &'a str,
    set: &'a [Setting],
    plan: Vec<Point>,
    targets: &'a [Target],
    clock: Clock,
    begun: SystemTime,
    sweeping: Option<Sweeping>,
}

impl<'a> Index<'a> {
    /// Of a sweep that is about to be run.
    ///
    /// With `kept`, one that was begun goes on.
    pub fn new(
        args: &'a Run,
        text: &'a str,
        points: &[Point],
        targets: &'a [Target],
        kept: Option<KeptSweep>,
    ) -> Index<'a> {
        let simulated = points.iter().any(|point| in_virtual_time(&point.experiment, targets));
        Index {
            runs: &args.common.runs,
            text,
            set: &args.set,
            plan: points.to_vec(),
            targets,
            clock: if simulated { Clock::Simulated } else { Clock::Live },
            begun: SystemTime::now(),
            sweeping: kept.map(Sweeping::resume),
        }
    }

    /// A point was run.
    pub fn add(&mut self, one: &Done) -> Result<(), Failure> {
        let sweeping = match self.sweeping.take() {
            Some(sweeping) => sweeping,
            None => {
                let own = self.plan[0].experiment.own_targets().filter(|_| self.targets.is_empty());
                let on = (self.targets, own.as_deref().unwrap_or(self.targets), self.clock, self.begun);
                let begun = Sweeping::begin(self.runs, (self.text, self.set), &self.plan, on, build());
                begun.map_err(no_folder)?
            }
        };
        let point = SweepPoint {
            values: one.point.settings.iter().map(|set| set.value.clone()).collect(),
            run: one.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
            busiest: one.busiest(),
            total: one.summary().total.clone(),
        };
        self.sweeping.insert(sweeping).add(point).map_err(Failure::world)
    }

    /// The sweep is over. Gives its folder, if it has one.
    pub fn finish(self, cut_short: bool, broken: Option<&Failure>) -> Result<Option<PathBuf>, Failure> {
        let Some(sweeping) = self.sweeping else { return Ok(None) };
        let path = sweeping.path().to_owned();
        let state = if cut_short || broken.is_some() { RunState::Interrupted } else { RunState::Complete };
        sweeping.finish(state, broken.map(Failure::message)).map_err(Failure::world)?;
        Ok(Some(path))
    }
}

/// The verdicts of the points, as text.
pub fn text(kept: &KeptSweep) -> String {
    let (found, remarks) = kept.explain();
    let keys: Vec<String> = kept.sweep.axes.iter().map(|axis| axis.key.clone()).collect();
    let runs: Vec<String> = found.iter().map(|found| found.run.display().to_string()).collect();
    swept(&keys, &points(kept, &found, &runs), &remarks)
}

/// The same, as one document.
pub fn document(kept: &KeptSweep) -> Value {
    let (found, remarks) = kept.explain();
    let mut document = serde_json::to_value(&kept.sweep).expect("plain data becomes JSON");
    let points = document["points"].as_array_mut().into_iter().flatten();
    for (point, found) in points.zip(&found) {
        let limit = found.explanation.as_ref().map(|explanation| json!(explanation.limit));
        point["limit"] = limit.unwrap_or(Value::Null);
        point["next"] = json!(found.explanation.as_ref().ok().and_then(|explanation| explanation.next.as_ref()));
        point["unknown"] = json!(found.explanation.as_ref().err());
    }
    document["remarks"] = json!(remarks);
    document
}

/// The page of a sweep.
pub fn page(kept: &KeptSweep) -> Result<String, Failure> {
    let (found, remarks) = kept.explain();
    let axes: Vec<(String, Vec<String>)> =
        kept.sweep.axes.iter().map(|axis| (axis.key.clone(), axis.values.clone())).collect();
    let runs: Vec<String> = kept.sweep.points.iter().map(|point| point.run.clone()).collect();
    Ok(sweep_page(&SweepPage {
        title: &kept.sweep.name,
        started: kept.sweep.started,
        about: &kept.about(),
        axes: &axes,
        points: &points(kept, &found, &runs),
        remarks: &remarks,
        files: &lab::kept::described(&kept.folder).map_err(|error| failure(error.into()))?,
    }))
}

/// Each point with what was found of it, and with its run under the name given.
fn points<'k>(kept: &'k KeptSweep, found: &'k [Found], runs: &'k [String]) -> Vec<Swept<'k>> {
    let each = kept.sweep.points.iter().zip(found).zip(runs);
    let swept = each.map(|((point, found), run)| {
        let explanation: Result<&Explanation, String> = found.explanation.as_ref().map_err(Clone::clone);
        let sweep = Sweep { values: point.values.clone(), total: &point.total, busiest: point.busiest.clone() };
        Swept { point: sweep, run, found: explanation }
    });
    swept.collect()
}
