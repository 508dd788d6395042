//! What a job file of fio comes to: an experiment for each group of jobs that run together.
//!
//! Each copy of a job becomes a stream on a device of its own, as each is a process in fio: with its own descriptors of its files, its own queue, and its
//! own random numbers. `stonewall` ends a group; the next begins when all of it is done. A job is over at its own limits and loads no
//! more, as in fio.
//!
//! Where fio and this differ, beyond the options that are listed as not kept:
//!
//! - a mixed sequential job has one position for reads and writes; in fio each has its own;
//! - what falls behind a rate is made up for at once as far as 10 ms of it; fio makes up for all. Of `rate_process=poisson`, response times count
//!   from when a request was due;
//! - `verify` reads again what a job wrote, whatever the checksum that it names: blocks say what they are in a way of our own;
//! - the flush of `fsync` delays the place in the queue behind its write, and is not in the record; that of `end_fsync` is.

mod account;
mod extent;

use std::path::PathBuf;

use fio::value::Amount;
use fio::{Check, Direction, Engine, Fill, Job, Order, Pace, Place};
use units::{Bytes, Duration, Frequency, Ratio};
use uring::Mode;
use workload::{
    Arrivals, Discards, Jump, Law, Limits, Load, Mix, OnError, Pattern, RateLimit, Region, Sizes, Skew, Space, Stream,
    Verify, Zone,
};

use crate::described::Described;
use crate::experiment::{Cache, Experiment, Io, StreamPlan};
use crate::file::LARGEST_REQUEST;
use crate::jobs::extent::Extents;
pub(crate) use crate::jobs::extent::target_size;
use crate::offered::RATES;
use crate::replay::{self, How, ReplayError};
use crate::target::Target;

/// Jobs that run together.
#[derive(Debug, Clone)]
pub struct Phase {
    /// What they come to.
    pub experiment: Experiment,
    /// By stream: which job it is.
    pub parts: Vec<Part>,
    /// Paths of jobs that want what they made removed.
    pub unlinks: Vec<PathBuf>,
}

/// One copy of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its index in the file.
    pub job: usize,
    /// The copy, from 0.
    pub copy: u32,
    /// The group whose results are one, if they are to be: they are counted from 0 through all phases.
    pub group: u32,
}

/// Why a job cannot be run here.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum PlanError {
    #[error("{place}: [{job}] has no size, and {} is not there; add size=1g, or make the file", path.display())]
    NoSize { place: Place, job: String, path: PathBuf },
    #[error("{place}: [{job}] wants {wanted:#} from {start:#} on of {name}, which has {size:#}; lower size or offset")]
    TooSmall { place: Place, job: String, name: String, wanted: Bytes, start: Bytes, size: Bytes },
    #[error("{place}: [{job}] cannot use {}: {error}; name a file or a block device with filename", path.display())]
    Unreadable { place: Place, job: String, path: PathBuf, error: std::io::Error },
    #[error("{place}: [{job}] asks for {request:#} at a time of {length:#}; lower bs, or raise size")]
    BlockTooLarge { place: Place, job: String, request: Bytes, length: Bytes },
    #[error("{place}: [{job}] asks for {request:#} at a time; at most {LARGEST_REQUEST:#} is one request")]
    HugeBlock { place: Place, job: String, request: Bytes },
    #[error("{place}: [{job}] verifies what [{other}] may write over: both write {}; give each a file or an offset of its own", path.display())]
    Shared { place: Place, job: String, other: String, path: PathBuf },
    #[error("{place}: [{job}] cannot replay its trace: {error}")]
    Replay { place: Place, job: String, error: Box<ReplayError> },
    #[error("{place}: [{job}] has no size, and that of {target} is not known before it is opened; add size=1g")]
    UnknownSize { place: Place, job: String, target: Target },
}

/// The groups of a job file, in order. With targets given, all jobs run on each of them in place of their files.
pub fn plan(name: &str, file: &fio::File, on: &[Target]) -> Result<Vec<Phase>, PlanError> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, job) in file.jobs.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if !job.stonewall => group.push(index),
            _ => groups.push(vec![index]),
        }
    }
    let several = groups.len() > 1;
    let mut group = 0;
    let mut phases = Vec::new();
    for (number, jobs) in groups.iter().enumerate() {
        let name = if several { format!("{name}-{}", number + 1) } else { name.to_owned() };
        let mut phase = Phase { experiment: Experiment::empty(name), parts: Vec::new(), unlinks: Vec::new() };
        for (place, index) in jobs.iter().enumerate() {
            let job = &file.jobs[*index];
            group += u32::from((place > 0 && job.new_group) || (place == 0 && number > 0));
            for copy in 0..job.copies {
                let part = Part { job: *index, copy, group };
                match &job.replay {
                    Some(trace) => phase.replay(job, trace, part, on)?,
                    None => phase.add(job, part, on)?,
                }
            }
        }
        phase.check_verified(&file.jobs)?;
        phase.settle(&jobs.iter().map(|index| &file.jobs[*index]).collect::<Vec<_>>());
        phases.push(phase);
    }
    Ok(phases)
}

impl Phase {
    fn add(&mut self, job: &Job, part: Part, on: &[Target]) -> Result<(), PlanError> {
        let (place, title) = (|| job.place.clone(), || job.name.clone());
        let sizes = |choices: &[(Bytes, u32)]| {
            Sizes::weighted(choices.iter().copied()).expect("a job has sizes above zero, and a share of them, too")
        };
        let (read, write) = (sizes(&job.sizes[0]), sizes(&job.sizes[1]));
        let (mix, sizes, write_sizes) = match job.direction {
            Direction::Read => (Mix::READS, read, None),
            Direction::Write | Direction::Trim | Direction::TrimWrite => (Mix::WRITES, write, None),
            Direction::Mixed(reads) if read == write => (Mix { reads }, read, None),
            Direction::Mixed(reads) => (Mix { reads }, read, Some(write)),
        };
        let every = || sizes.each().chain(write_sizes.iter().flat_map(Sizes::each));
        let (smallest, largest) = (every().min().unwrap_or(Bytes::ZERO), every().max().unwrap_or(Bytes::ZERO));
        if largest > LARGEST_REQUEST {
            return Err(PlanError::HugeBlock { place: place(), job: title(), request: largest });
        }
        let whole = job.whole(part.copy, largest, on)?;
        let mut region = job.region(part.copy, &whole, largest)?;
        let mut length = region.length.expect("a planned region has an end");
        if smallest == largest {
            // What is left behind the last block is not used, nor counted as something to be moved.
            length = length.round_down(largest);
            region.length = Some(length);
        }
        let align = job.align.unwrap_or(smallest);
        let (pattern, align) = match job.order {
            Order::Random { .. } if job.skew.is_some() => (skewed(job.skew.as_ref()), align),
            Order::Random { runs, .. } if runs > 1 => (Pattern::Jumping(Jump::After(runs)), align),
            Order::Random { jumps: Some(chance), .. } => (Pattern::Jumping(Jump::Chance(chance)), align),
            Order::Random { once: true, .. } if smallest == largest => (Pattern::RandomOnce, align),
            Order::Random { .. } => (Pattern::Random, align),
            Order::Sequential { gap } if gap.is_zero() => (Pattern::Sequential { from: Bytes::ZERO }, align),
            Order::Sequential { gap } => {
                (Pattern::Strided { stride: smallest + gap, from: Bytes::ZERO }, Bytes::SECTOR)
            }
        };
        let (load, rate_limit) = job.load();
        let (behind, verify) = match (job.verify, job.direction) {
            (None, _) => (None, None),
            // Of what it does not write a job can only say whether it is whole.
            (Some(_), Direction::Read) => (None, Some(Verify::Reads)),
            (Some(Check::Behind(lag)), _) => (Some(lag), Some(Verify::Reads)),
            (Some(Check::AtEnd), _) => (None, Some(Verify::End)),
            (Some(Check::Later), _) => (None, Some(Verify::Later)),
        };
        let moved = match job.extent.moved {
            Some(Amount::Bytes(moved)) => moved,
            Some(Amount::Percent(share)) => Bytes::new((length.get() as f64 * share / 100.0) as u64),
            None => length,
        };
        let bytes = (!job.time_based).then(|| Bytes::new(moved.get().saturating_mul(job.loops.into())));
        let limits = Limits { requests: job.requests, bytes, time: job.runtime, stop: true, ..Limits::NONE };
        let stream = Stream {
            name: self.free_name(&if job.copies > 1 { format!("{}.{}", job.name, part.copy) } else { title() }),
            mix,
            behind,
            pattern,
            sizes,
            write_sizes,
            region,
            share: None,
            align,
            load,
            delay: job.delay,
            apart: Duration::ZERO,
            limits,
            fill: match job.fill {
                Fill::Random => workload::Fill::Random,
                Fill::Zero => workload::Fill::Zero,
            },
            verify,
            discards: match job.direction {
                Direction::Trim => Discards::Only,
                Direction::TrimWrite => Discards::BeforeWrites,
                _ => Discards::Never,
            },
            pipeline: false,
            turns: None,
            lock_step: false,
            overlap: true,
        };
        let index = self.experiment.devices.len();
        if job.unlink {
            self.unlinks.extend(whole.device.iter().flat_map(|device| device.files.iter().cloned()));
        }
        let own = whole.device.is_some();
        self.experiment.devices.extend(whole.device);
        self.experiment.streams.push(StreamPlan { stream, on: own.then(|| vec![index]), rate_limit, script: None });
        self.parts.push(part);
        Ok(())
    }

    /// The requests of a trace, on the files that it names, or where they are sent.
    fn replay(&mut self, job: &Job, trace: &fio::Replay, part: Part, on: &[Target]) -> Result<(), PlanError> {
        let failed =
            |error| PlanError::Replay { place: job.place.clone(), job: job.name.clone(), error: Box::new(error) };
        let file = &trace.files[part.copy as usize % trace.files.len()];
        let asked = replay::read(&[PathBuf::from(file)], None).map_err(failed)?;
        let paths: Vec<PathBuf> = match &trace.redirect {
            Some(path) => vec![path.into()],
            None => asked.devices.iter().map(PathBuf::from).collect(),
        };
        let targets: Vec<Target> =
            if on.is_empty() { paths.iter().cloned().map(Target::Path).collect() } else { on.to_vec() };
        let how = How { speed: trace.speed, outstanding: job.depth, block: trace.align, wrap: false, go_on: false };
        let planned = replay::plan(&job.name, &asked, &targets, &how).map_err(failed)?;
        let first = self.experiment.devices.len();
        for (index, mut plan) in planned.experiment.streams.into_iter().enumerate() {
            plan.stream.name = self.free_name(&job.name);
            plan.stream.overlap = true;
            if on.is_empty() {
                let mut described = Described::files(vec![paths[index].clone()], job.io());
                // A file that is not there is made as large as the trace needs it.
                described.make = plan.stream.region.length.map(|end| end.round_up(Bytes::SECTOR));
                (described.durable, described.flush_at_end) = (job.durable, job.flush_at_end);
                plan.on = Some(vec![first + index]);
                self.experiment.devices.push(described);
            }
            self.experiment.streams.push(plan);
            self.parts.push(part);
        }
        Ok(())
    }

    /// Each copy of a job has a ledger of its own, so nobody else may write what it verifies.
    fn check_verified(&self, jobs: &[Job]) -> Result<(), PlanError> {
        let devices = &self.experiment.devices;
        let streams = || self.experiment.streams.iter().zip(devices).zip(&self.parts);
        for (index, ((plan, device), part)) in streams().enumerate() {
            if plan.stream.verify.is_none() {
                continue;
            }
            for (other, ((writer, theirs), others)) in streams().enumerate() {
                let shared = device.files.iter().find(|file| theirs.files.contains(file));
                let (a, b) = (plan.stream.region, writer.stream.region);
                let end = |region: Region| region.length.map_or(Bytes::new(u64::MAX), |length| region.start + length);
                let apart = device.files == theirs.files && (a.start >= end(b) || b.start >= end(a));
                if let (Some(path), true, true, false) = (shared, index != other, writer.stream.mix.has_writes(), apart)
                {
                    let job = &jobs[part.job];
                    let other = jobs[others.job].name.clone();
                    let (place, job) = (job.place.clone(), job.name.clone());
                    return Err(PlanError::Shared { place, job, other, path: path.clone() });
                }
            }
        }
        Ok(())
    }

    /// A name that no stream of the phase has.
    fn free_name(&self, wanted: &str) -> String {
        let taken = |name: &str| self.experiment.streams.iter().any(|plan| plan.stream.name == name);
        let numbered = (2..).map(|number| format!("{wanted}-{number}"));
        std::iter::once(wanted.to_owned()).chain(numbered).find(|name| !taken(name)).expect("numbers do not end")
    }

    /// What concerns all jobs of the phase.
    fn settle(&mut self, jobs: &[&Job]) {
        let experiment = &mut self.experiment;
        experiment.io = jobs[0].io();
        experiment.seed = jobs.iter().find_map(|job| job.seed).map_or(1, |seed| seed >> 1);
        experiment.run.on_error = OnError::Stop;
        experiment.run.start_up = jobs.iter().map(|job| job.ramp).max().unwrap_or(Duration::ZERO);
        let ends = jobs.iter().map(|job| Some(job.runtime? + job.delay)).collect::<Option<Vec<_>>>();
        experiment.run.measure = ends.and_then(|ends| ends.into_iter().max());
        let mut cpus: Vec<u32> = jobs.iter().flat_map(|job| job.cpus.iter().copied()).collect();
        cpus.sort();
        cpus.dedup();
        experiment.care.cpus = cpus;
    }
}

/// What the laboratory asks of a job, besides where it is to go.
trait Plan {
    /// Closed loops, whose rate is limited; random arrivals are an open one.
    fn load(&self) -> (Load, Option<RateLimit>);
    fn io(&self) -> Io;
}

impl Plan for Job {
    fn load(&self) -> (Load, Option<RateLimit>) {
        /// What a job fell behind its rate it may make up for at once; fio makes up for all of it.
        const BURST: Duration = Duration::millis(10);
        let (depth, think) = (self.depth, self.think);
        let limit = |requests, bytes| RateLimit { requests, bytes, burst: BURST };
        match self.rate {
            Some(pace) if self.poisson => {
                let rate = match pace {
                    Pace::Requests(rate) => rate,
                    Pace::Bytes(rate) => Frequency::per_second((rate.get() / self.mean_size()).max(*RATES.start())),
                };
                (Load::Open { arrivals: Arrivals::Poisson(rate), outstanding: depth }, None)
            }
            Some(Pace::Requests(rate)) => (Load::Closed { depth, think }, Some(limit(Some(rate), None))),
            Some(Pace::Bytes(rate)) => (Load::Closed { depth, think }, Some(limit(None, Some(rate)))),
            None => (Load::Closed { depth, think }, None),
        }
    }

    fn io(&self) -> Io {
        let engine = match self.engine {
            // What suits the target: a ring for what must be waited for, the calling thread for memory.
            Engine::Queue | Engine::Null => None,
            Engine::Sync => Some(uring::Engine::Sync),
            Engine::Mmap if self.direction == Direction::Read => Some(uring::Engine::Mapped),
            Engine::Mmap => Some(uring::Engine::Sync),
        };
        let mode = if self.direct && self.engine != Engine::Mmap { Mode::Direct } else { Mode::Buffered };
        let cache = if self.invalidate { Cache::Drop } else { Cache::Keep };
        Io { mode, engine, cache, ..Io::default() }
    }
}

/// The law of `random_distribution`. fio, too, scatters what is wanted most over the file.
fn skewed(skew: Option<&fio::Skew>) -> Pattern {
    let law = match skew {
        None => return Pattern::Random,
        Some(fio::Skew::Zipf(exponent)) => Law::Zipf { exponent: exponent.min(Law::STEEPEST) },
        Some(fio::Skew::Pareto(share)) => Law::Pareto { blocks: Ratio::new(*share) },
        Some(fio::Skew::Normal(percent)) => {
            Law::Normal { deviation: Ratio::percent(*percent), centre: Ratio::percent(50.0) }
        }
        Some(fio::Skew::Zoned(zones)) => {
            let zone = |(requests, space): &(f64, f64)| Zone {
                requests: Ratio::percent(*requests),
                space: Space::Share(Ratio::percent(*space)),
            };
            let law = Law::Zones(zones.iter().map(zone).collect());
            return Pattern::Skewed(Skew { law, scattered: false });
        }
    };
    Pattern::Skewed(Skew { law, scattered: true })
}
