//! The real machine as a bench: paths, their topology, and measurements by the same runner that runs experiments.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use analysis::survey::{Access, KnownLimit, Part, Question, Sample, Tier};
use host::Kernel;
use host::guard::WritePermit;
use host::hollow::{Hollow, zeroes};
use host::level::Group;
use host::level::Kind as Place;
use host::throttle::{Limit, Throttle};
use host::topology::{Target as Topology, TopologyError, What};
use record::Log;
use units::{Bytes, Duration, Ratio};
use uring::{Choice, Engine, Mode};
use workload::{Mix, Pattern, Stream};

use crate::experiment::{Experiment, Io};
use crate::runner::{HOLLOW, Progress, RunError, Ways};
use crate::survey::overall::Overall;
use crate::survey::rows::{Rows, stream};
use crate::survey::{Bench, Probe};
use crate::target::Target;

/// Size of random requests: a page, as in every tool of this kind.
const SMALL: Bytes = Bytes::kib(4);
/// Random requests under way on each device, raw: enough for the parallelism of a flash drive, and what a SATA disk can
/// queue.
const RANDOM_DEPTH: u32 = 32;
/// Sequential requests under way on each device, raw: the next is there when one ends, and one more.
const SEQUENTIAL_DEPTH: u32 = 4;
/// Load is on before counting starts.
const START_UP: Duration = Duration::millis(50);
/// The same where a control group throttles: it pays out what was not asked for before, up to two of the kernel's
/// slices of 100 ms (`throtl_start_new_slice_with_credit` in Linux' `block/blk-throttle.c`).
const PAID_OUT: Duration = Duration::millis(200);
/// From this share of sampled places that hold zeroes on, a reader is told.
const MOSTLY_ZERO: f64 = 0.5;
/// A device must hold some of the largest requests.
const LEAST: Bytes = Bytes::mib(16);
/// Memory for records of one measurement.
const RECORDS: Bytes = Bytes::mib(256);

/// Devices of this machine.
pub struct Machine<'a> {
    paths: Vec<PathBuf>,
    topology: Vec<Topology>,
    tree: Part,
    /// A control group bounds some of the devices.
    throttled: bool,
    permits: &'a HashMap<PathBuf, WritePermit>,
    interrupted: &'a AtomicBool,
    begun: std::time::Instant,
    rows: Rows,
    /// Who watches.
    overall: Overall<'a>,
    /// How each device was driven, raw.
    engines: Vec<Option<Choice>>,
}

/// Why a machine cannot be surveyed, or a measurement was not made.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum MachineError {
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("{device}: {error}")]
    Device { device: String, error: device::DeviceError },
    #[error("{} holds {size}, too little for a survey; name files or devices of at least {LEAST}", path.display())]
    TooSmall { path: PathBuf, size: Bytes },
    #[error(
        "{}: {share} of it was never written (holes or unwritten extents), and the file system answers reads of that from memory: a survey would \
         measure memory; `cp --sparse=never {0} {0}.filled` makes a copy without holes, which can be surveyed", path.display()
    )]
    Hollow { path: PathBuf, share: Ratio },
    #[error("{}: {source}", path.display())]
    Look { path: PathBuf, source: std::io::Error },
    #[error("the survey was interrupted")]
    Interrupted,
}

impl<'a> Machine<'a> {
    /// Finds out what the paths stand on. Without permits for them, nothing can be written. `progress` is shown all
    /// measurements as one run.
    pub fn new(
        paths: &[PathBuf],
        permits: &'a HashMap<PathBuf, WritePermit>,
        (interrupted, progress): (&'a AtomicBool, &'a dyn Progress),
        log: Log,
    ) -> Result<Machine<'a>, MachineError> {
        let kernel = Kernel::running();
        let topology = paths.iter().map(|path| Topology::find(&kernel, path)).collect::<Result<Vec<_>, _>>()?;
        if let Some((path, size)) =
            topology.iter().find_map(|target| Some((&target.path, target.size().filter(|size| *size < LEAST)?)))
        {
            return Err(MachineError::TooSmall { path: path.clone(), size });
        }
        for path in paths {
            let share = Hollow::find(path).map_err(|source| MachineError::Look { path: path.clone(), source })?.share();
            if share.get() > HOLLOW {
                return Err(MachineError::Hollow { path: path.clone(), share });
            }
        }
        let throttles = host::throttle::throttles(&kernel);
        let throttled = throttles.iter().any(|throttle| topology.iter().any(|target| throttle.holds_for(target)));
        let tree = part(&host::level::group(&topology), &topology, &throttles);
        let (paths, begun) = (paths.to_vec(), std::time::Instant::now());
        let engines = vec![None; topology.len()];
        let overall = Overall::new(paths.len(), progress);
        Ok(Machine {
            paths,
            topology,
            tree,
            throttled,
            permits,
            interrupted,
            begun,
            rows: Rows::new(log),
            overall,
            engines,
        })
    }

    /// What shares what.
    pub fn tree(&self) -> &Part {
        &self.tree
    }

    /// What a reader must know besides the numbers: how devices were driven, and what lies below them unseen.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks: Vec<String> = Vec::new();
        for choice in self.engines.iter().flatten() {
            let alike: Vec<_> =
                (0..self.topology.len()).filter(|n| self.engines[*n].as_ref() == Some(choice)).collect();
            let who = match alike[..] {
                [one] => self.topology[one].path.display().to_string(),
                _ if alike.len() == self.topology.len() => "all devices".to_owned(),
                _ => alike.iter().map(|n| self.topology[*n].path.display().to_string()).collect::<Vec<_>>().join(", "),
            };
            let remark = format!("{who}: raw by {}, as {}", choice.engine, choice.reason);
            if !remarks.contains(&remark) {
                remarks.push(remark);
            }
        }
        for target in &self.topology {
            let sampled = target.size().and_then(|size| zeroes(&target.path, size).ok());
            if let Some(share) = sampled.filter(|share| share.get() >= MOSTLY_ZERO) {
                remarks.push(format!(
                    "{} holds zeroes at {share} of the places that were sampled: storage that compresses, and ranges of an SSD that were \
                     discarded, answer such reads without their medium; fill it with random bytes to measure that",
                    target.path.display()
                ));
            }
            if target.layers().iter().any(|layer| matches!(layer.what, What::Loop { direct: false, .. })) {
                remarks.push(format!(
                    "{} reads through the page cache of its backing file: raw figures may be those of memory; \
                     losetup --direct-io=on avoids that",
                    target.path.display()
                ));
            }
        }
        remarks
    }

    /// The experiment that answers a probe.
    fn experiment(&self, probe: &Probe) -> Experiment {
        let mix = if probe.kind.writes { Mix::WRITES } else { Mix::READS };
        let (pattern, size, depth) = match probe.kind.question {
            Question::Bandwidth => (Pattern::Sequential { from: Bytes::ZERO }, probe.request, SEQUENTIAL_DEPTH),
            Question::Requests => (Pattern::RandomOnce, SMALL, RANDOM_DEPTH),
        };
        let (mode, engine, depth) = match probe.kind.access {
            Access::Raw => (Mode::Direct, None, depth),
            Access::Os => (Mode::Buffered, None, depth),
            Access::Process => (Mode::Buffered, Some(Engine::Sync), 1),
        };
        let mut stream = Stream::closed("survey", mix, pattern, size, depth);
        stream.limits.time = Some(probe.time);
        let mut experiment = Experiment::new("survey", probe.time, vec![stream]);
        experiment.io = Io { mode, engine, ..Io::default() };
        match probe.kind.access {
            Access::Raw => experiment.run.start_up = if self.throttled { PAID_OUT } else { START_UP },
            // Nothing is read twice: the second time it would come from the page cache.
            Access::Os | Access::Process => {
                experiment.streams[0].stream.limits.bytes = self.smallest(&probe.devices);
            }
        }
        experiment
    }

    fn smallest(&self, devices: &[usize]) -> Option<Bytes> {
        devices.iter().filter_map(|device| self.topology[*device].size()).min()
    }
}

impl Bench for Machine<'_> {
    type Error = MachineError;

    fn measure(&mut self, probe: &Probe) -> Result<Sample, MachineError> {
        let targets: Vec<Target> =
            probe.devices.iter().map(|device| Target::Path(self.paths[*device].clone())).collect();
        self.overall.measure(&probe.devices);
        let ways = Ways {
            permits: self.permits,
            record_memory: RECORDS,
            folder: None,
            interrupted: self.interrupted,
            progress: &self.overall,
            party: None,
        };
        let began = Duration::nanos(self.begun.elapsed().as_nanos() as u64);
        let outcome = crate::runner::run("survey", &self.experiment(probe), &targets, &ways)?;
        self.rows.keep((stream(probe.kind), &probe.devices), began, &outcome)?;
        if probe.kind.access == Access::Raw {
            for (device, choice) in probe.devices.iter().zip(&outcome.conclusion.engines) {
                self.engines[*device] = choice.clone();
            }
        }
        if self.interrupted.load(Relaxed) {
            return Err(MachineError::Interrupted);
        }
        if let Some(failure) = outcome.conclusion.failures.into_iter().next() {
            return Err(MachineError::Device { device: targets[failure.device].to_string(), error: failure.error });
        }
        let total = &outcome.summary.total.figures;
        let (processors, generator) = outcome.conclusion.processors.unzip();
        Ok(Sample {
            bandwidth: total.bandwidth,
            requests: total.iops,
            processors,
            generator: generator.unwrap_or(Ratio::ZERO),
        })
    }
}

/// The machine's tree in the survey's words.
fn part(group: &Group, topology: &[Topology], throttles: &[Throttle]) -> Part {
    let tier = match group.part.kind {
        Place::Disk => Tier::Disk,
        Place::Store => Tier::Store,
        Place::Link => Tier::Link,
        Place::Adapter => Tier::Adapter,
        Place::Backplane => Tier::Backplane,
        Place::Host => Tier::Host,
    };
    let mut on: Vec<String> = group.on.iter().map(|part| part.name.clone()).collect();
    let name = match group.path {
        // The name of a file is enough: the directory stands with what it hangs on.
        Some(path) => short(&topology[path].path),
        // A file system is known by its disk.
        None if group.part.kind == Place::Store && group.on.first().is_some_and(|part| part.kind == Place::Disk) => {
            format!("{} ({})", group.part.name, on.remove(0))
        }
        None => group.part.name.clone(),
    };
    let links = std::iter::once(&group.part).chain(&group.on).filter_map(|part| Some((part, part.limit?)));
    let links = links.map(|(part, rate)| KnownLimit {
        what: part.name.clone(),
        bandwidth: Some(rate),
        requests: None,
        piece: None,
    });
    // A throttle on a device that several paths lie on bounds them together; for one path it is that path's.
    let targets: Vec<&Topology> = group.order().into_iter().map(|path| &topology[path]).collect();
    let throttled = throttles.iter().filter(|throttle| targets.iter().all(|target| throttle.holds_for(target)));
    let throttled = throttled.filter_map(|throttle| {
        let (bandwidth, requests) = match throttle.limit {
            Limit::ReadRate(rate) => (Some(rate), None),
            Limit::ReadFrequency(frequency) => (None, Some(frequency)),
            Limit::WriteRate(_) | Limit::WriteFrequency(_) => return None,
        };
        let layers = targets.iter().flat_map(|target| target.layers());
        let block = layers.filter_map(|layer| layer.block.as_ref()).find(|block| block.number == throttle.device);
        let piece = block.and_then(|block| block.largest_io);
        Some(KnownLimit { what: format!("the control group {}", throttle.group), bandwidth, requests, piece })
    });
    Part {
        tier,
        name,
        on,
        below: group.below.iter().map(|below| self::part(below, topology, throttles)).collect(),
        order: group.order(),
        limits: links.chain(throttled).collect(),
        modelled: false,
    }
}

/// Devices by their whole path, files by their names.
fn short(path: &std::path::Path) -> String {
    let name = path.file_name().filter(|_| !path.starts_with("/dev"));
    name.map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}
