//! A sweep: written point by point while it goes on, read again with the verdicts of its points.
//!
//! The index is written anew after each point, but not more often than once a second: a sweep of 10,000 short points
//! would write some gigabytes. So one that is killed lacks what ended in its last second, and one that ends, or is
//! interrupted, lacks nothing. A verdict is not in it: it is found when it is asked for, from the rows of the point, as
//! that of a single run is.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use analysis::Group;
use analysis::explain::Explanation;
use host::environment::Build;
use record::{Clock, FolderError, IndexFolder, IndexKind, RunFile, RunState, SCHEMA};
use serde::{Deserialize, Serialize};

use crate::document::{Point, Setting};
use crate::explain::{ExplainError, Subject, explain};
use crate::keep;
use crate::target::Target;

use super::table::table;

/// The index is not written more often.
const APART: Duration = Duration::from_secs(1);

/// So many folders are named in a sentence.
const NAMED: usize = 4;

/// What `sweep.json` says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    schema: u32,
    /// The name of the experiment.
    pub name: String,
    /// When it began.
    #[serde(with = "record::rfc3339")]
    pub started: Option<SystemTime>,
    /// How far it came.
    pub state: RunState,
    /// Whose time it was.
    pub clock: Clock,
    /// Changes that were given for all points, as `key=value`.
    pub set: Vec<String>,
    /// What was loaded, where the experiment does not say it itself.
    #[serde(default)]
    pub targets: Vec<String>,
    /// Which program has run it: a sweep goes on with the same one only.
    #[serde(default)]
    pub program: Option<String>,
    /// What was varied, the last running fastest.
    pub axes: Vec<Axis>,
    /// How many points there are to be.
    pub planned: usize,
    /// Those that were run, in their order.
    pub points: Vec<SweepPoint>,
    /// What ended it, if something did.
    pub error: Option<String>,
}

/// A key and its values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// As in the experiment.
    pub key: String,
    /// In their order.
    pub values: Vec<String>,
}

/// A point that was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepPoint {
    /// Of each axis.
    pub values: Vec<String>,
    /// The name of its run folder, beside that of the sweep.
    pub run: String,
    /// The part of a modelled machine that was at work most, and how much.
    pub busiest: Option<String>,
    /// What it came to.
    pub total: Group,
}

/// A sweep that goes on.
pub struct Sweeping {
    folder: IndexFolder,
    sweep: Sweep,
    written: Option<Instant>,
}

impl Sweeping {
    /// Makes the folder. `text` is the experiment as it was given, `set` what was changed for all points; `given` are
    /// the devices that the user named, and `targets` those that are loaded. Nothing of it is read as a sweep before
    /// the first point is added.
    pub fn begin(
        runs: &Path,
        (text, set): (&str, &[Setting]),
        points: &[Point],
        (given, targets, clock, begun): (&[Target], &[Target], Clock, SystemTime),
        build: Build,
    ) -> Result<Sweeping, FolderError> {
        let name = points.first().map_or("", |point| point.experiment.name.as_str());
        let folder = keep::begin_index(runs, (&format!("{name}-sweep"), IndexKind::Sweep), text, targets, build)?;
        let sweep = Sweep {
            schema: SCHEMA,
            name: name.to_owned(),
            started: Some(begun),
            state: RunState::Running,
            clock,
            set: set.iter().map(|set| format!("{}={}", set.key, set.value)).collect(),
            targets: crate::target::names(given),
            program: Some(program()),
            axes: axes(points),
            planned: points.len(),
            points: Vec::new(),
            error: None,
        };
        Ok(Sweeping { folder, sweep, written: None })
    }

    /// Goes on with one that was ended early, behind the points that it has.
    pub fn resume(kept: KeptSweep) -> Sweeping {
        let KeptSweep { folder, mut sweep } = kept;
        (sweep.state, sweep.error) = (RunState::Running, None);
        Sweeping { folder, sweep, written: None }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A point was run.
    pub fn add(&mut self, point: SweepPoint) -> Result<(), FolderError> {
        assert_eq!(point.values.len(), self.sweep.axes.len(), "a point has a value of each axis");
        self.sweep.points.push(point);
        if self.written.is_some_and(|written| written.elapsed() < APART) {
            return Ok(());
        }
        let written = self.folder.write(&self.sweep);
        self.written = Some(Instant::now());
        written
    }

    /// All points were run, or something ended the sweep.
    pub fn finish(mut self, state: RunState, error: Option<String>) -> Result<(), FolderError> {
        (self.sweep.state, self.sweep.error) = (state, error);
        self.folder.write(&self.sweep)?;
        self.folder.write_file(RunFile::Points, &table(&self.sweep))
    }
}

/// Which program this is: its version, and a checksum of what runs, as a build has no number of its own.
pub fn program() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut sum = 0;
    let summed = std::fs::File::open("/proc/self/exe").and_then(|mut file| {
        let mut block = vec![0; 1 << 20];
        loop {
            match file.read(&mut block)? {
                0 => return Ok(()),
                count => sum = crc32c::crc32c_append(sum, &block[..count]),
            }
        }
    });
    match summed {
        Ok(()) => format!("{version}-{sum:08x}"),
        // Nobody can tell whether it is the same one then.
        Err(_) => version.to_owned(),
    }
}

/// Each key with its values, in the order of the points.
fn axes(points: &[Point]) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::new();
    for point in points {
        for (place, set) in point.settings.iter().enumerate() {
            if axes.len() == place {
                axes.push(Axis { key: set.key.clone(), values: Vec::new() });
            }
            let values = &mut axes[place].values;
            // The last values are the likely ones.
            if !values.iter().rev().any(|value| *value == set.value) {
                values.push(set.value.clone());
            }
        }
    }
    axes
}

/// A sweep that was kept.
#[derive(Debug, Clone)]
pub struct KeptSweep {
    /// Where it is.
    pub folder: IndexFolder,
    /// What it says.
    pub sweep: Sweep,
}

/// What was found of a point.
pub struct Found {
    /// Its run folder.
    pub run: PathBuf,
    /// The explanation, or in a word why there is none.
    pub explanation: Result<Explanation, String>,
}

impl KeptSweep {
    pub(super) fn read(folder: IndexFolder) -> Result<KeptSweep, FolderError> {
        let sweep: Sweep = folder.read()?;
        if sweep.points.iter().any(|point| point.values.len() != sweep.axes.len()) {
            let source = serde::de::Error::custom("a point has not a value of each axis");
            return Err(FolderError::Damaged { path: folder.path().join(IndexKind::Sweep.file()), source });
        }
        Ok(KeptSweep { folder, sweep })
    }

    /// How many points, on what, with which changes, and how it ended.
    pub fn about(&self) -> String {
        let Sweep { points, planned, clock, set, state, .. } = &self.sweep;
        let count =
            if points.len() == *planned { format!("{planned}") } else { format!("{} of {planned}", points.len()) };
        let with = if set.is_empty() { String::new() } else { format!(", with {}", set.join(", ")) };
        format!("a sweep of {count} points, {}{with}{}", super::on(*clock), super::ended(*state))
    }

    /// The verdicts of all points, and what a reader must know besides.
    pub fn explain(&self) -> (Vec<Found>, Vec<String>) {
        let Sweep { points, planned, state, error, .. } = &self.sweep;
        let mut remarks = Vec::new();
        let (ran, all) = (points.len(), planned);
        match state {
            RunState::Complete => {}
            RunState::Running => {
                remarks.push(format!("the sweep goes on, or was killed: {ran} of its {all} points are here"))
            }
            RunState::Interrupted => {
                remarks.push(format!("the sweep was ended early: {ran} of its {all} points were run"))
            }
        }
        remarks.extend(error.iter().map(|error| format!("it was ended by an error: {error}")));
        let mut gone = Vec::new();
        let mut found = Vec::new();
        for point in points {
            let run = self.folder.run(&point.run);
            let explanation = match explain(&Subject::Run(run.clone()), None, None) {
                Ok(explained) => Ok(explained.explanation),
                Err(_) if !run.exists() => {
                    gone.push(point.run.as_str());
                    Err("its run folder is gone".to_owned())
                }
                Err(ExplainError::Nothing(_)) => Err("no request was counted".to_owned()),
                Err(ExplainError::AllFailed { .. }) => Err("all requests failed".to_owned()),
                Err(error) => {
                    remarks.push(format!("nothing can be said of a point: {error}"));
                    Err("cannot be read".to_owned())
                }
            };
            found.push(Found { run, explanation });
        }
        if !gone.is_empty() {
            let more = gone.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let named = gone.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
            remarks.push(format!(
                "the run folders of {} of {ran} points are gone ({named}{more}): their figures are kept, what limited them cannot be told",
                gone.len()
            ));
        }
        (found, remarks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    fn points() -> Vec<Point> {
        let text = "[run]\nmeasure = \"1 s\"\n[[stream]]\nname = \"s\"\noperation = \"read\"\npattern = \"random\"\nsize = \"4 KiB\"\n\
             [sweep]\n\"stream.s.depth\" = [1, 2]\n\"run.passes\" = [3, 1, 2]\n";
        crate::document::read(&Source { name: "load.toml".into(), text: text.into() }, &[]).unwrap()
    }

    fn begin(runs: &Path) -> Sweeping {
        let build = Build { version: "0".into(), commit: None };
        let on = (&[][..], &[][..], Clock::Simulated, SystemTime::now());
        Sweeping::begin(runs, ("text", &[]), &points(), on, build).unwrap()
    }

    fn point(values: [&str; 2], run: &str) -> SweepPoint {
        let total = Group { name: "total".into(), figures: Default::default(), passes: vec![], spread: None };
        SweepPoint { values: values.map(str::to_owned).to_vec(), run: run.into(), busiest: None, total }
    }

    #[test]
    fn axes_have_their_values_in_the_order_of_the_sweep() {
        let axes = axes(&points());
        let shown: Vec<String> = axes.iter().map(|axis| format!("{} {}", axis.key, axis.values.join(" "))).collect();
        assert_eq!(shown, ["stream.s.depth 1 2", "run.passes 3 1 2"]);
    }

    /// A sweep that is killed after its first point is read with it, and says what is missing; the run folder of that
    /// point was never made here.
    #[test]
    fn a_sweep_can_be_read_from_its_first_point_on() {
        let dir = tempfile::tempdir().unwrap();
        let mut sweeping = begin(dir.path());
        let path = sweeping.path().to_owned();
        assert!(IndexFolder::find(&path).is_none(), "a sweep of no point is none");
        sweeping.add(point(["1", "3"], "load-1")).unwrap();
        drop(sweeping);
        let Ok(super::super::Kept::Sweep(kept)) = super::super::open(&path) else { panic!("it is a sweep") };
        assert_eq!(kept.about(), "a sweep of 1 of 6 points, in virtual time, not at its end, or killed");
        let (found, remarks) = kept.explain();
        assert_eq!(found[0].explanation.as_ref().unwrap_err(), "its run folder is gone");
        assert_eq!(found[0].run, dir.path().join("load-1"));
        assert_eq!(
            remarks,
            [
                "the sweep goes on, or was killed: 1 of its 6 points are here",
                "the run folders of 1 of 1 points are gone (load-1): their figures are kept, what limited them cannot be told"
            ]
        );
        let mut other = begin(dir.path());
        assert_ne!(other.path(), path, "no folder is used twice");
        other.add(point(["1", "3"], "../../load-1")).unwrap();
        let other_path = other.path().to_owned();
        other.finish(RunState::Interrupted, Some("the disk is full".into())).unwrap();
        let table = std::fs::read_to_string(other_path.join("points.csv")).unwrap();
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("stream.s.depth,run.passes,run,busiest,passes,requests,"), "{table}");
        assert_eq!(lines[1], "1,3,../../load-1,,0,0,0,0,0,0,,0,,,,,,,,", "what is not known is empty");
        assert_eq!(lines.len(), 2);
        let Ok(super::super::Kept::Sweep(kept)) = super::super::open(&other_path) else { panic!("it is a sweep") };
        let (found, remarks) = kept.explain();
        assert_eq!(found[0].run, dir.path().join("load-1"), "a name leads nowhere else");
        assert_eq!(remarks[1], "it was ended by an error: the disk is full");
    }

    #[test]
    fn an_index_that_is_damaged_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut sweeping = begin(dir.path());
        sweeping.add(point(["1", "3"], "load-1")).unwrap();
        let path = sweeping.path().join("sweep.json");
        let text = std::fs::read_to_string(&path).unwrap();
        for (was, is, said) in [
            ("\"key\": \"run.passes\",", "\"name\": 1,", "missing field `key`"),
            ("\"schema\": 1", "\"schema\": 2", "schema 2"),
            ("\"3\"\n      ],\n      \"run\"", "\"3\", \"4\"\n      ],\n      \"run\"", "not a value of each axis"),
        ] {
            assert!(text.contains(was), "{was} in {text}");
            std::fs::write(&path, text.replace(was, is)).unwrap();
            let error = super::super::open(sweeping.path()).err().expect("it is refused").to_string();
            assert!(error.contains(said), "{said}: {error}");
        }
    }
}
