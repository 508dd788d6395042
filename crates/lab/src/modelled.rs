//! An experiment on a modelled machine: in virtual time, each pass on a machine of its own.
//!
//! A pass is a sample: its machine differs from those of the other passes by its seed, which decides where its spindles
//! stand and how long a controller takes where a data sheet gives a range. What passes have in common is what the model
//! says; how they differ is how sure it is.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use device::Device;
use machine::component::TreeNode;
use machine::entry::entries;
use machine::filesystem::State;
use machine::load::{Gauge, Load, Reading};
use machine::raid::upkeep::{REBUILT, SCRUBBED};
use machine::trace::Trace;
use rand::Rng;
use record::{Log, Row, SpanLog, Spans};
use runtime::{Random, Runtime};
use serde::{Deserialize, Serialize};
use units::{Bytes, Instant, Rate, Ratio};
use workload::{Observer, Phantoms};

use crate::experiment::Experiment;
use crate::pass::{self, Pass, Station};
use crate::runner::{Conclusion, RunError, Ways};
use crate::simulated::{PAUSE, watch};
use crate::steady::{Done, Rounds};
use crate::system::System;

/// Memory for the spans of a run: 16 million of them, half a million requests through all parts.
const SPANS: Bytes = Bytes::mib(512);

/// What the passes on a modelled machine came to, besides their rows.
#[derive(Debug, Default)]
pub struct Modelled {
    /// What each part did while requests were counted, pass by pass.
    pub passes: Vec<Counted>,
    /// Where the time of the requests went; nothing if spans were off.
    pub spans: Option<SpanLog>,
    /// What stands in each node of the machine: its name, the kind of its part, the part.
    pub nodes: Vec<(String, &'static str, String)>,
}

/// A node's work in a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Worked {
    /// Its name.
    pub node: String,
    /// The kind of its part.
    pub kind: String,
    /// Its part.
    pub part: String,
    /// For what share of the time it was at work; nothing of one whose work is another's, as an operating system's is
    /// that of its processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_work: Option<f64>,
}

/// The counted time of a pass.
#[derive(Debug, Clone)]
pub struct Counted {
    /// From when.
    pub from: Instant,
    /// Until when.
    pub to: Instant,
    /// What each part did in between.
    pub load: Load,
}

impl Modelled {
    /// What all parts did while requests were counted, all passes together.
    fn load(&self) -> Option<Load> {
        self.passes.iter().map(|pass| pass.load.clone()).reduce(|a, b| a.plus(&b))
    }

    /// How much each node worked while requests were counted, all passes together.
    pub fn worked(&self) -> Vec<Worked> {
        let Some(load) = self.load() else { return Vec::new() };
        let known = load.at_work();
        let worked = |(name, kind, part): &(String, &'static str, String)| {
            let at_work = known.iter().find(|(node, _)| node == name).map(|(_, share)| share.get());
            Worked { node: name.clone(), kind: (*kind).to_owned(), part: part.clone(), at_work }
        };
        self.nodes.iter().map(worked).collect()
    }

    /// How fast drives were filled and arrays scrubbed beside the load, in words, and how long a terabyte takes so.
    pub fn upkeep(&self) -> Vec<String> {
        let Some(load) = self.load() else { return Vec::new() };
        let done = |gauge: &Gauge| {
            let Reading::Count(kib) = gauge.reading else { return None };
            let (did, of) = match gauge.what {
                REBUILT => ("filled", "its new drive"),
                SCRUBBED => ("scrubbed", "its data"),
                _ => return None,
            };
            let node = &gauge.node;
            if kib == 0 {
                return Some(format!("{node} {did} nothing of {of} while requests were counted"));
            }
            let rate = Rate::bytes_per_second(Bytes::kib(kib).get() as f64 / load.at.as_seconds());
            let hours = 1e12 / rate.get() / 3600.0;
            Some(format!("{node} {did} {of} at {rate} while requests were counted: {hours:.2} hours a terabyte"))
        };
        load.gauges.iter().filter_map(done).collect()
    }

    /// The utilization of every part while requests were counted, all passes together.
    pub fn utilizations(&self) -> Vec<(String, Ratio)> {
        self.load().map_or_else(Vec::new, |load| load.utilizations())
    }

    /// What was at work most of that time, and for how much of it.
    pub fn busiest(&self) -> Option<(String, Ratio)> {
        self.load()?.busiest()
    }
}

/// Rows under the numbers of their spans.
struct Numbering<'t, F> {
    trace: Option<&'t Trace>,
    observe: F,
}

impl<F: FnMut(&Row)> Observer for Numbering<'_, F> {
    fn observe(&mut self, row: &Row) {
        (self.observe)(row);
    }
    fn number(&mut self) -> u64 {
        self.trace.map_or(0, Trace::number)
    }
}

/// Runs all passes of an experiment on a machine.
pub(crate) fn run(experiment: &Experiment, system: &System, ways: &Ways, mut log: Log) -> Result<Conclusion, RunError> {
    let kit = system.kit()?;
    let runtime = Runtime::simulated();
    let trace = Trace::new(if system.spans { Spans::on(SPANS) } else { Spans::off() });
    let mut conclusion = Conclusion::default();
    let mut modelled = Modelled::default();
    let mut rounds = experiment.run.steady.map(Rounds::new);
    for number in 0..experiment.run.passes {
        let seed = Random::named(experiment.seed, &format!("machine/{number}")).next_u64();
        let machine = Rc::new(kit.build(&runtime, seed, &trace)?);
        if modelled.nodes.is_empty() {
            let node = |node: &TreeNode| (node.name.to_string(), node.kind.name, node.part.clone());
            modelled.nodes = machine.nodes().iter().map(node).collect();
        }
        let stations: Vec<_> = entries(&machine, &system.disks, system.way)?
            .into_iter()
            .enumerate()
            .map(|(index, device)| Station { index, device, ledger: None })
            .take(experiment.run.devices.unwrap_or(usize::MAX))
            .collect();
        let streams = experiment.by_device(stations.len());
        for station in &stations {
            if experiment.streams.iter().any(|plan| plan.makes_its_file() && plan.runs_on(station.index)) {
                station.device.set_file(State::Absent).expect("a file that was made can be removed");
            }
            pass::check(experiment, &streams[station.index], station.device.shape())?;
        }
        conclusion.sizes = stations.iter().map(|station| station.device.shape().size).collect();
        let indices: Vec<usize> = (0..stations.len()).collect();
        let seats = pass::seats(experiment, (&indices, &streams), &Phantoms, ways.interrupted);
        let begin = runtime.now() + PAUSE;
        let control = experiment.control(begin, seats.len() as u32);
        let loads: RefCell<(Option<Load>, Option<Load>)> = RefCell::default();
        let mut done = Done::default();
        let observe = |row: &Row| {
            done.observe(row);
            log.push(*row);
            let mut loads = loads.borrow_mut();
            if loads.1.is_none() && control.counted_until().is_some() {
                loads.1 = Some(machine.load());
            }
        };
        let observer = RefCell::new(Numbering { trace: system.spans.then_some(&trace), observe });
        let aside = async {
            runtime.sleep_until(control.counts_from()).await;
            loads.borrow_mut().0 = Some(machine.load());
            watch(&runtime, &control, ways).await
        };
        let pass = Pass {
            runtime: &runtime,
            stations: &stations,
            seats: &seats,
            experiment,
            memory: &Phantoms,
            number,
            control: &control,
        };
        let Ok(failures) = pass.run(&observer, aside);
        conclusion.failures.extend(failures);
        conclusion.unserved += seats.iter().map(|seat| seat.tally.unserved.get()).sum::<u64>();
        // A pass that was over before it counted has no load to show.
        if let (Some(from), Some(to)) = loads.into_inner() {
            let [begin, end] = [&from, &to].map(|load| Instant::START + load.at);
            modelled.passes.push(Counted { from: begin, to: end, load: to.since(&from) });
        }
        // What the machine still had to do is not of this pass, nor of the next.
        runtime.clear();
        if control.was_interrupted() || ways.interrupted.load(Relaxed) {
            conclusion.interrupted = true;
            break;
        }
        if rounds.as_mut().is_some_and(|rounds| rounds.pass(&done, &control)) {
            break;
        }
    }
    conclusion.rounds = rounds;
    modelled.spans = trace.take();
    if let Some(lost) = modelled.spans.as_ref().map(SpanLog::lost).filter(|lost| *lost > 0) {
        conclusion.remarks.push(format!(
            "{lost} spans found no place in {SPANS} of memory and are not in spans.parquet; shorten the run, or take fewer passes"
        ));
    }
    if experiment.care != host::precaution::Precautions::default() {
        conclusion.remarks.push("no care was taken of the measurement: virtual time has no disturbances".to_owned());
    }
    conclusion.remarks.extend(modelled.upkeep());
    conclusion.modelled = Some(modelled);
    Ok(conclusion)
}
