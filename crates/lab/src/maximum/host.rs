//! This machine under measurement: its devices looked at before anything is asked of them, and loads on them by the
//! runner that runs experiments.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use analysis::maximum::{Direction, Loaded, Method, Sample, stalls};
use host::Kernel;
use host::guard::WritePermit;
use host::hollow::Hollow;
use host::topology::{Target as Topology, TopologyError, What};
use record::{Log, Phase, Row};
use units::{Bytes, Duration, Rate, Ratio};
use workload::{Mix, Pattern, Stream};

use super::order::order;
use super::{Load, Plan};
use crate::experiment::{Experiment, StreamPlan};
use crate::runner::{HOLLOW, Outcome, Progress, RunError, Silent, Ways, run};
use crate::survey::{Overall, Rows};
use crate::target::Target;

/// Load is on before counting starts; the same where a control group throttles, which pays out what was not asked for
/// before (see the survey).
const START_UP: Duration = Duration::millis(50);
const PAID_OUT: Duration = Duration::millis(200);
/// And behind, so that each device begins one more request.
const COOL_DOWN: Duration = Duration::millis(5);
/// Memory for records of one measurement.
const RECORDS: Bytes = Bytes::mib(256);
/// A device holds so many of the largest requests at least, or it would be read from its own cache again and again.
const LEAST: u64 = 4;

/// Devices of this machine, in the order in which they are added.
pub struct Host<'a> {
    targets: Vec<Target>,
    topology: Vec<Topology>,
    start_up: Duration,
    permits: &'a HashMap<PathBuf, WritePermit>,
    interrupted: &'a AtomicBool,
    begun: std::time::Instant,
    measured: Option<(Overall<'a>, Rows)>,
    engines: Vec<String>,
    /// What was measured, in order.
    made: Vec<Load>,
}

/// Why a host cannot be measured, or a measurement was not made.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum HostError {
    #[error(
        "{target} is no device of this machine's; name files, block devices or NBD exports. A modelled machine is measured by `arraylab survey --system`"
    )]
    NotReal { target: Target },
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error("{}: {source}", path.display())]
    Look { path: PathBuf, source: std::io::Error },
    #[error(
        "{}: {share} of it was never written (holes or unwritten extents), and the file system answers reads of that from memory: what was measured would \
         be memory; `cp --sparse=never {0} {0}.filled` makes a copy without holes", path.display()
    )]
    Hollow { path: PathBuf, share: Ratio },
    #[error(
        "{target} holds {size}, less than {LEAST} requests of {request}; take smaller ones with --sizes, or a larger device"
    )]
    TooSmall { target: Target, size: Bytes, request: Bytes },
    #[error("requests of {request:#} are no multiple of the block of {target}, {block}; write --sizes {remedy}")]
    Step { target: Target, request: Bytes, block: Bytes, remedy: String },
    #[error(
        "the devices of a logical volume are of one size, and {first} holds {first_size} while {other} holds {other_size}; name devices of \
         one size, or leave the volume out with --methods independent"
    )]
    Sizes { first: Target, first_size: Bytes, other: Target, other_size: Bytes },
    #[error(
        "a single device is no volume and cannot read while another writes; name two or more, or take --methods independent"
    )]
    Single,
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("{device}: {error}")]
    Device { device: String, error: device::DeviceError },
    #[error("the measurement was interrupted")]
    Interrupted,
}

impl<'a> Host<'a> {
    /// Looks at the devices that are paths and orders all of them. Without permits nothing can be written.
    pub fn new(
        targets: &[Target],
        permits: &'a HashMap<PathBuf, WritePermit>,
        interrupted: &'a AtomicBool,
    ) -> Result<Host<'a>, HostError> {
        if let Some(target) = targets.iter().find(|target| !matches!(target, Target::Path(_) | Target::Nbd(_))) {
            return Err(HostError::NotReal { target: target.clone() });
        }
        let kernel = Kernel::running();
        let paths: Vec<&PathBuf> = targets.iter().filter_map(path).collect();
        let topology = paths.iter().map(|path| Topology::find(&kernel, path)).collect::<Result<Vec<_>, _>>()?;
        for path in paths {
            let found = Hollow::find(path).map_err(|source| HostError::Look { path: path.clone(), source })?;
            if found.share().get() > HOLLOW {
                return Err(HostError::Hollow { path: path.clone(), share: found.share() });
            }
        }
        let throttles = host::throttle::throttles(&kernel);
        let throttled = throttles.iter().any(|throttle| topology.iter().any(|target| throttle.holds_for(target)));
        Ok(Host {
            targets: order(targets, &topology),
            topology,
            start_up: if throttled { PAID_OUT } else { START_UP },
            permits,
            interrupted,
            begun: std::time::Instant::now(),
            measured: None,
            engines: Vec::new(),
            made: Vec::new(),
        })
    }

    /// The devices, in the order in which they are added.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// The measurements that were made, in order: the numbers of the passes of the record.
    pub fn made(&self) -> &[Load] {
        &self.made
    }

    /// Rows go to `log` from now on, and all measurements are shown to `progress` as one run.
    pub fn keep(&mut self, log: Log, progress: &'a dyn Progress) {
        self.measured = Some((Overall::new(self.targets.len(), progress), Rows::new(log)));
    }

    /// Reads from all devices for a moment, which wakes those that sleep, and refuses what the plan cannot be
    /// measured on: a volume is of devices of one size, and a request a multiple of their blocks. `asked` says that
    /// the user named the methods; otherwise those that the devices do not fit are left out, and the sentences that
    /// come back say so.
    pub fn look(&self, plan: &mut Plan, asked: bool) -> Result<Vec<String>, HostError> {
        let mut left_out = Vec::new();
        if self.targets.len() < 2 && plan.methods.iter().any(|method| *method != Method::Independent) {
            if asked {
                return Err(HostError::Single);
            }
            plan.methods.retain(|method| *method == Method::Independent);
        }
        let smallest = Bytes::new(4096);
        let outcome =
            self.run(Method::Independent, Direction::Read, smallest, Duration::millis(20), self.targets.len())?;
        let shapes: Vec<(&Target, Bytes)> = self.targets.iter().zip(outcome.conclusion.sizes.iter().copied()).collect();
        for &request in &plan.sizes {
            for &(target, size) in &shapes {
                let block = self.block(target);
                if !request.is_multiple_of(block) {
                    let remedy = remedy(request, block);
                    return Err(HostError::Step { target: target.clone(), request, block, remedy });
                }
                if size < request * LEAST {
                    return Err(HostError::TooSmall { target: target.clone(), size, request });
                }
            }
        }
        let (first, first_size) = shapes[0];
        let unlike = shapes.iter().find(|(_, size)| *size != first_size);
        if let Some(&(other, other_size)) = unlike.filter(|_| plan.methods.contains(&Method::Volume)) {
            let error = HostError::Sizes { first: first.clone(), first_size, other: other.clone(), other_size };
            if asked {
                return Err(error);
            }
            plan.methods.retain(|method| *method != Method::Volume);
            left_out.push(format!("no volume was measured: {error}"));
        }
        Ok(left_out)
    }

    /// What requests must be a multiple of. The server of an export takes any; the kernel's block counts for a path,
    /// or a sector.
    fn block(&self, target: &Target) -> Bytes {
        let found = path(target).and_then(|path| self.topology.iter().find(|found| found.path == *path));
        found
            .and_then(|found| Some(found.top.block.as_ref()?.logical_block))
            .unwrap_or(Bytes::SECTOR)
            .max(Bytes::SECTOR)
    }

    /// Makes one measurement and keeps its rows.
    pub fn measure(&mut self, plan: &Plan, load: &Load) -> Result<Sample, HostError> {
        let (kind, began) = (load.kind, Duration::nanos(self.begun.elapsed().as_nanos() as u64));
        let devices: Vec<usize> = match load.loaded {
            Loaded::Alone(device) => vec![device],
            Loaded::First(count) => (0..count).collect(),
        };
        if let Some((overall, _)) = &self.measured {
            overall.measure(&devices);
        }
        let outcome = self.ask(kind.method, kind.direction, kind.request, load.time, &devices)?;
        if let Some((_, rows)) = &mut self.measured {
            rows.keep((plan.stream(kind), &devices), began, &outcome)?;
            self.made.push(*load);
        }
        if self.interrupted.load(Relaxed) {
            return Err(HostError::Interrupted);
        }
        if let Some(failure) = outcome.conclusion.failures.first() {
            let device = self.targets[devices[failure.device]].to_string();
            return Err(HostError::Device { device, error: failure.error.clone() });
        }
        self.note_engines(&outcome);
        let figures = |device: usize| &outcome.summary.devices[device].figures;
        let sum = |of: std::ops::Range<usize>| {
            Rate::bytes_per_second(of.map(|device| figures(device).bandwidth.get()).sum::<f64>())
        };
        let count = devices.len();
        let (read, written) = match kind.direction {
            Direction::Read => (sum(0..count), Rate::ZERO),
            Direction::Write => (Rate::ZERO, sum(0..count)),
            Direction::Both => (sum(0..count / 2), sum(count / 2..count)),
        };
        let mut counted: Vec<Row> = Vec::new();
        outcome.recording.visit(|rows| {
            counted.extend(rows.iter().filter(|row| row.phase == Phase::Measure && row.errno == 0));
            Ok::<(), RunError>(())
        })?;
        let stalls = stalls(&counted).into_iter().map(|mut stall| {
            stall.device = devices[stall.device];
            stall
        });
        let (processors, generator) = outcome.conclusion.processors.unzip();
        Ok(Sample {
            read,
            written,
            fewest: (0..count).map(|device| figures(device).requests).min().unwrap_or(0),
            generator: generator.unwrap_or(Ratio::ZERO),
            processors: processors.map(|processors| Ratio::new(processors.busy().max(0.0))),
            stalls: stalls.collect(),
        })
    }

    fn run(
        &self,
        method: Method,
        direction: Direction,
        request: Bytes,
        time: Duration,
        count: usize,
    ) -> Result<Outcome, HostError> {
        self.ask(method, direction, request, time, &(0..count).collect::<Vec<_>>())
    }

    /// Loads these devices.
    fn ask(
        &self,
        method: Method,
        direction: Direction,
        request: Bytes,
        time: Duration,
        devices: &[usize],
    ) -> Result<Outcome, HostError> {
        let targets: Vec<Target> = devices.iter().map(|device| self.targets[*device].clone()).collect();
        let experiment = self.experiment(method, direction, request, time, devices.len());
        let progress: &dyn Progress = match &self.measured {
            Some((overall, _)) => overall,
            None => &Silent,
        };
        let ways = Ways {
            permits: self.permits,
            record_memory: RECORDS,
            folder: None,
            interrupted: self.interrupted,
            progress,
            party: None,
        };
        let outcome = run("max", &experiment, &targets, &ways)?;
        if self.measured.is_none() {
            if self.interrupted.load(Relaxed) {
                return Err(HostError::Interrupted);
            }
            if let Some(failure) = outcome.conclusion.failures.first() {
                let device = targets[failure.device].to_string();
                return Err(HostError::Device { device, error: failure.error.clone() });
            }
        }
        Ok(outcome)
    }

    /// The experiment that is asked of so many devices.
    fn experiment(
        &self,
        method: Method,
        direction: Direction,
        request: Bytes,
        time: Duration,
        count: usize,
    ) -> Experiment {
        let stream = |name: &str, mix| {
            let pattern = Pattern::Sequential { from: Bytes::ZERO };
            let mut stream = Stream::closed(name, mix, pattern, request, 1);
            stream.limits.time = Some(time);
            stream.lock_step = method == Method::Volume;
            stream
        };
        let streams = match direction {
            Direction::Read => vec![stream("reads", Mix::READS)],
            Direction::Write => vec![stream("writes", Mix::WRITES)],
            Direction::Both => vec![stream("reads", Mix::READS), stream("writes", Mix::WRITES)],
        };
        let mut experiment = Experiment::new("max", time, streams);
        (experiment.run.start_up, experiment.run.cool_down) = (self.start_up, COOL_DOWN);
        if let [reads, writes] = &mut experiment.streams[..] {
            let halves = |plan: &mut StreamPlan, half: std::ops::Range<usize>| plan.on = Some(half.collect());
            halves(reads, 0..count / 2);
            halves(writes, count / 2..count);
        }
        experiment
    }

    fn note_engines(&mut self, outcome: &Outcome) {
        for choice in outcome.conclusion.engines.iter().flatten() {
            let said = format!("by {}, as {}", choice.engine, choice.reason);
            if !self.engines.contains(&said) {
                self.engines.push(said);
            }
        }
    }

    /// What a reader must know besides the numbers.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks: Vec<String> = self.engines.iter().map(|said| format!("devices were driven {said}")).collect();
        for target in &self.topology {
            if target.layers().iter().any(|layer| matches!(layer.what, What::Loop { direct: false, .. })) {
                remarks.push(format!(
                    "{} goes through the page cache of its backing file: what it gives may be memory's; losetup --direct-io=on avoids that",
                    target.path.display()
                ));
            }
        }
        remarks
    }
}

fn path(target: &Target) -> Option<&PathBuf> {
    match target {
        Target::Path(path) => Some(path),
        _ => None,
    }
}

/// The size that was meant: 4 MB is 4 MiB to most who type it; otherwise the next multiple of the block.
fn remedy(request: Bytes, block: Bytes) -> String {
    let binary = [(1_000_000, Bytes::mib(1)), (1000, Bytes::kib(1))].into_iter().find_map(|(decimal, binary)| {
        let whole = request.get().is_multiple_of(decimal);
        Some(binary * (request.get() / decimal)).filter(|meant| whole && meant.is_multiple_of(block))
    });
    format!("{:#}", binary.unwrap_or(request.round_up(block))).replace(' ', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_that_was_meant_is_named() {
        let block = Bytes::new(4096);
        assert_eq!(remedy(Bytes::new(4_000_000), block), "4MiB");
        assert_eq!(remedy(Bytes::new(64_000), block), "64KiB");
        assert_eq!(remedy(Bytes::new(65_537), block), "68KiB");
    }
}
