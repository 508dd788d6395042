//! A modelled machine as something that can be surveyed: by the survey of real machines, measurement by measurement.
//!
//! Raw is the call that neither copies nor flushes, "through the operating system" raw reads, both by one process per
//! disk, as in the RAID-I report's Table 32: they differ in copies and flushes alone. Drives that take several commands
//! at a time are asked as those of a real machine are, with several requests under way. Sequential requests stay within
//! a stretch in the middle of each drive, as zones of disks differ.

use std::sync::atomic::AtomicBool;

use analysis::survey::{Access, KnownLimit, Part, Processors, Question, Sample, Tier};
use machine::entry::Way;
use machine::kit::Kit;
use machine::part::PartError;
use machine::system::{Drive, Machine as SystemMachine};
use machine::trace::Trace;
use record::Log;
use units::{Bytes, Duration, Instant, Ratio};
use workload::{Limits, Mix, Pattern, Region, Stream};

use super::rows::{Rows, stream};
use super::{Bench, Conduct, MachineError, Probe};
use crate::experiment::Experiment;
use crate::system::System;
use crate::trial::trial;

/// How a machine is asked: as the studies asked theirs, or, where drives take several commands at a time, as a survey
/// asks a real machine of today.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Manner {
    /// Size of sequential requests.
    request: Bytes,
    /// How much of each drive is read sequentially: of old disks the middle, as their zones differ; of those with large
    /// buffers more than these hold.
    stretch: Bytes,
    /// Sequential and random requests under way on each drive.
    sequential: u32,
    random: u32,
    /// Load is on before counting starts, and stays on while counted requests complete.
    around: Duration,
    /// How long is counted at most: of bandwidth, of requests.
    bandwidth: Duration,
    requests: Duration,
    /// The same of a ladder's loads.
    ladder: Duration,
}

impl Manner {
    /// RAID-I's Table 32: one request at a time.
    const STUDIES: Manner = Manner {
        request: Bytes::kib(32),
        stretch: Bytes::mib(12),
        sequential: 1,
        random: 1,
        around: Duration::seconds(1),
        bandwidth: PLENTY,
        requests: PLENTY,
        ladder: Duration::seconds(5),
    };
    /// Disks with queues: as `Machine` asks real devices.
    const QUEUED: Manner = Manner {
        request: Bytes::kib(256),
        stretch: Bytes::gib(4),
        sequential: 4,
        random: 32,
        around: Duration::millis(300),
        bandwidth: Duration::seconds(1),
        requests: Duration::seconds(2),
        ladder: Duration::seconds(1),
    };
    /// Flash does in a millisecond what a disk does in a second.
    const FLASH: Manner = Manner {
        around: Duration::millis(1),
        bandwidth: Duration::millis(10),
        requests: Duration::millis(4),
        ladder: Duration::millis(5),
        ..Manner::QUEUED
    };

    fn of(machine: &SystemMachine) -> Manner {
        let all = |is: &dyn Fn(&Drive) -> bool| machine.drives().iter().all(is);
        if all(&|drive| machine.nodes()[drive.node].kind.name == "flash") {
            Manner::FLASH
        } else if all(&|drive| drive.endpoint.depth() > 1) {
            Manner::QUEUED
        } else {
            Manner::STUDIES
        }
    }
}

/// Random requests are as large as in every tool of this kind.
const SMALL: Bytes = Bytes::kib(4);
/// Virtual time costs little: each measurement is as long as one is worth.
const PLENTY: Duration = Duration::seconds(24 * 3600);

/// A modelled machine under survey.
pub struct Modelled<'a> {
    interrupted: &'a AtomicBool,
    name: String,
    parts: Vec<(String, String)>,
    tree: Part,
    drives: Vec<String>,
    manner: Manner,
    /// Where the sequential stretch begins.
    middle: Bytes,
    seed: u64,
    /// Where rows go, if they are kept.
    rows: Option<Rows>,
    /// When the last measurement was over, one after the other.
    clock: Duration,
}

impl<'a> Modelled<'a> {
    /// The machine of that name, with these values changed.
    pub fn new(
        name: &str,
        parts: Vec<(String, String)>,
        interrupted: &'a AtomicBool,
    ) -> Result<Modelled<'a>, PartError> {
        let mut kit = Kit::load(name)?;
        kit.set_all(&parts)?;
        let machine = kit.build(&runtime::Runtime::simulated(), 1, &Trace::default())?;
        let tree = tree(&machine, name);
        let drives = machine.drives().iter().map(|drive| drive.name.to_string()).collect();
        let smallest = machine.drives().iter().map(Drive::size).min().unwrap_or(Bytes::ZERO);
        let middle = (smallest / 2).round_down(Bytes::mib(1));
        let manner = Manner::of(&machine);
        let manner = Manner { stretch: manner.stretch.min(smallest / 4), ..manner };
        Ok(Modelled {
            interrupted,
            name: name.to_owned(),
            parts,
            tree,
            drives,
            manner,
            middle,
            seed: 0,
            rows: None,
            clock: Duration::ZERO,
        })
    }

    /// Rows of all measurements go to this log.
    #[must_use]
    pub fn keeping(mut self, log: Log) -> Modelled<'a> {
        self.rows = Some(Rows::new(log));
        self
    }

    /// Sequential requests of this size, and so many requests under way on each drive, in place of what its drives are
    /// usually asked with.
    #[must_use]
    pub fn asked_with(mut self, request: Option<Bytes>, depth: Option<u32>) -> Modelled<'a> {
        let Manner { request: usual, sequential, random, .. } = self.manner;
        self.manner.request = request.unwrap_or(usual);
        (self.manner.sequential, self.manner.random) = (depth.unwrap_or(sequential), depth.unwrap_or(random));
        // What is read in sequence is at least one request.
        self.manner.stretch = self.manner.stretch.max(self.manner.request);
        self
    }

    /// The devices of its records.
    pub fn devices(&self) -> Vec<String> {
        self.drives.clone()
    }

    /// How it is surveyed, for its run folder.
    pub fn to_toml(&self, how: &Conduct) -> String {
        let text = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let Manner { sequential, random, .. } = self.manner;
        let depths = format!("depths = [{sequential}, {random}]  # of requests in sequence, and at random\n");
        let mut survey = format!("{}{depths}\n[system]\nname = {}\n", how.to_toml(), text(&self.name));
        if !self.parts.is_empty() {
            survey.push_str("\n[system.parts]\n");
        }
        for (key, value) in &self.parts {
            survey.push_str(&format!("{} = {}\n", text(key), text(value)));
        }
        survey
    }

    /// What shares what.
    pub fn tree(&self) -> &Part {
        &self.tree
    }

    /// How it is surveyed: the sizes of the studies, each point three times on machines of different seeds.
    pub fn conduct(&self) -> Conduct {
        let accesses = vec![Access::Raw, Access::Os];
        Conduct { budget: PLENTY, requests: vec![self.manner.request], accesses, ..Conduct::default() }
    }

    /// The load under which a ladder is derived: all disks, through the operating system.
    pub fn ladder_load(&self, question: Question) -> Experiment {
        let all: Vec<usize> = self.tree.order.clone();
        self.load(&all, Access::Os, question, (self.manner.request, self.manner.ladder))
    }

    fn load(
        &self,
        devices: &[usize],
        access: Access,
        question: Question,
        (request, time): (Bytes, Duration),
    ) -> Experiment {
        let mut stream = match question {
            Question::Bandwidth => {
                let pattern = Pattern::Sequential { from: Bytes::ZERO };
                let stream = Stream::closed("survey", Mix::READS, pattern, request, self.manner.sequential);
                Stream { region: Region { start: self.middle, length: Some(self.manner.stretch) }, ..stream }
            }
            Question::Requests => Stream::closed("survey", Mix::READS, Pattern::Random, SMALL, self.manner.random),
        };
        stream.limits = Limits { time: Some(time), ..Limits::NONE };
        let mut experiment = Experiment::new("survey", time, vec![stream]);
        (experiment.run.start_up, experiment.run.cool_down) = (self.manner.around, self.manner.around);
        experiment.system = Some(System {
            name: self.name.clone(),
            way: match access {
                Access::Raw => Way::NoCopy,
                Access::Os | Access::Process => Way::Raw,
            },
            disks: devices.iter().map(|device| self.drives[*device].clone()).collect(),
            parts: self.parts.clone(),
            spans: false,
            each: true,
        });
        experiment
    }
}

impl Bench for Modelled<'_> {
    type Error = MachineError;

    fn measure(&mut self, probe: &Probe) -> Result<Sample, MachineError> {
        let most = match probe.kind.question {
            Question::Bandwidth => self.manner.bandwidth,
            Question::Requests => self.manner.requests,
        };
        let how = (probe.request, probe.time.min(most));
        let mut experiment = self.load(&probe.devices, probe.kind.access, probe.kind.question, how);
        self.seed += 1;
        experiment.seed = self.seed;
        let outcome = trial(&experiment, self.interrupted)?;
        if let Some(rows) = &mut self.rows {
            self.clock = rows.keep((stream(probe.kind), &probe.devices), self.clock, &outcome)?.since(Instant::START);
        }
        if outcome.conclusion.interrupted {
            return Err(MachineError::Interrupted);
        }
        let figures = outcome.summary.total.figures;
        let passes = outcome.conclusion.modelled.map_or(Vec::new(), |modelled| modelled.passes);
        let busy = passes.first().and_then(|pass| pass.load.host_utilization());
        Ok(Sample {
            bandwidth: figures.bandwidth,
            requests: figures.iops,
            processors: busy.map(|busy| Processors { system: busy, own: busy, ..Processors::default() }),
            generator: Ratio::ZERO,
        })
    }
}

/// The machine as a survey sees it: its drives, and every node that several of them stand on. A node with one such
/// branch shares nothing out, and is named with what stands on it.
fn tree(machine: &SystemMachine, name: &str) -> Part {
    let nodes = machine.nodes();
    let mut below: Vec<Vec<Part>> = nodes.iter().map(|_| Vec::new()).collect();
    for (index, drive) in machine.drives().iter().enumerate() {
        let device = Part { modelled: true, ..Part::device(index, drive.name.to_string()) };
        below[drive.node].push(device);
    }
    let mut roots = Vec::new();
    // Each node stands behind the one above it in the list.
    for (index, node) in nodes.iter().enumerate().rev() {
        let parts: Vec<Part> = std::mem::take(&mut below[index]).into_iter().rev().collect();
        let drive = machine.drives().iter().any(|drive| drive.node == index);
        let part = match parts.len() {
            0 => continue,
            1 if drive => parts.into_iter().next(),
            1 => parts.into_iter().next().map(|mut only| {
                only.on.push(node.name.to_string());
                only
            }),
            _ => Some(joined(tier(&parts), node.name.to_string(), parts)),
        };
        match node.above {
            Some(above) => below[above].extend(part),
            None => roots.extend(part),
        }
    }
    roots.reverse();
    // Where the devices share one link or adapter only, that is no whole machine.
    if let [root] = &mut roots[..]
        && root.tier > Tier::Adapter
    {
        (root.tier, root.name) = (Tier::Host, name.to_owned());
        return roots.remove(0);
    }
    joined(Tier::Host, name.to_owned(), roots)
}

/// The tier of what joins these: one further from the disks than the furthest of them.
fn tier(below: &[Part]) -> Tier {
    match below.iter().map(|part| part.tier).max() {
        None | Some(Tier::Disk) => Tier::Link,
        Some(Tier::Store | Tier::Link) => Tier::Adapter,
        Some(Tier::Adapter | Tier::Backplane | Tier::Host) => Tier::Backplane,
    }
}

fn joined(tier: Tier, name: String, below: Vec<Part>) -> Part {
    let order = host::level::round_robin(below.iter().map(|part| part.order.clone()).collect());
    Part { tier, name, on: Vec::new(), order, below, limits: Vec::<KnownLimit>::new(), modelled: true }
}
