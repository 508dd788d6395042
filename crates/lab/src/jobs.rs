//! What a job file of fio comes to: an experiment for each group of jobs that run together.
//!
//! Each copy of a job becomes a stream on a device of its own, as each is a process in fio: with its own descriptors of
//! its files, its own queue, and its own random numbers. `stonewall` ends a group; the next begins when all of it is
//! done. A job is over at its own limits and loads no more, as in fio.
//!
//! Where fio and this differ, beyond the options that are listed as not kept:
//!
//! - of `rate_process=poisson`, response times count from when a request was due, and a mixed job has one rate;
//! - `verify` reads again what a job wrote, whatever the checksum that it names: blocks say what they are in a way of
//!   our own;
//! - of several requests under way, the flush of `fsync` follows the completion of its write in the same place of the
//!   queue; fio makes it when that write was issued, or has all that is under way awaited first, as the engine will
//!   have it.

mod account;
mod extent;
mod logs;
mod rules;
mod writing;

use std::hash::{BuildHasher, RandomState};
use std::num::NonZero;
use std::path::PathBuf;

use device::Writeback;
use fio::value::Amount;
use fio::{Check, Direction, Ends, Engine, Fill, Job, Order, Pace, Place};
use host::Kernel;
use host::processor;
use rand::RngExt;
use runtime::Random;
use units::{Bytes, Duration, Frequency, Ratio};
use uring::Mode;
use workload::{
    Arrivals, Discards, Flushes, Jump, Law, Limits, Load, Mix, OnError, Pattern, Priorities, RateLimit, ReadBehind,
    Region, Rules, Sizes, Skew, Space, Stream, Verify, Zone, Zoned,
};

use crate::described::Described;
use crate::experiment::{Cache, Experiment, Io, StreamPlan, Through};
use crate::file::LARGEST_REQUEST;
use crate::jobs::extent::Extents;
pub(crate) use crate::jobs::extent::target_size;
pub use crate::jobs::logs::LogError;
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
    /// When it is over, so is the file: a job of it ends all, `exit_what=all`.
    pub is_last: bool,
    /// An earlier job fills a file of its jobs, so that it is to be planned again when that has ended.
    pub later: bool,
    /// What a reader of the results should know of the traces of its jobs.
    pub remarks: Vec<String>,
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
    #[error("{place}: [{job}] takes its pattern from {}: {error}; name a file that can be read, and is not empty", path.display())]
    Pattern { place: Place, job: String, path: PathBuf, error: std::io::Error },
    #[error(
        "{place}: [{job}] fills its files without a size, which it can if it writes one file in order; add size=1g, or take rw=write and one file"
    )]
    Fills { place: Place, job: String },
    #[error("{place}: [{job}] waits for [{other}], {why}; write the jobs in order, with `stonewall` in [{job}]")]
    Waits { place: Place, job: String, other: String, why: &'static str },
    #[error("{place}: [{job}] names the memory node {node}, and this machine has none of that number; name another")]
    NoNode { place: Place, job: String, node: u32 },
    #[error("{place}: [{job}] has `numa_mem_policy`, which is not set for a job; run arraylab itself by `numactl`")]
    Placed { place: Place, job: String },
    #[error("{place}: [{job}] may make no files, and {} is not there; make it, or take `allow_file_create=0` out", path.display())]
    Absent { place: Place, job: String, path: PathBuf },
    #[error(
        "{place}: [{job}] has zones of {size:#}, which hold no request of {request:#}; raise zonesize or zonerange"
    )]
    SmallZone { place: Place, job: String, size: Bytes, request: Bytes },
    #[error(
        "{place}: [{job}] is steady by another rule than [{other}], which is of the same group; give both one rule, or add new_group"
    )]
    Unlike { place: Place, job: String, other: String },
    #[error(
        "{place}: [{job}] awaits {} completions at a time and [{other}] {}, and both run together; give both one number, or add stonewall",
        of[0],
        of[1]
    )]
    Gathers { place: Place, job: String, other: String, of: [u32; 2] },
    #[error(
        "{place}: [{job}] has gaps in each of its {files} files, and its files are used as one here; write a job for each file"
    )]
    Steps { place: Place, job: String, files: u64 },
    #[error("{place}: [{job}] steps back {gap:#} before the end of each request of {request:#}, which is no way toward the start of the file; write a gap of at least {request:#}, such as rw=read:-{}k", request.get().div_ceil(1024) * 2)]
    Forward { place: Place, job: String, gap: Bytes, request: Bytes },
}

/// The groups of a job file, in order. With targets given, all jobs run on each of them in place of their files.
pub fn plan(name: &str, file: &fio::File, on: &[Target]) -> Result<Vec<Phase>, PlanError> {
    planned(name, file, on, None)
}

/// A group once more, when those before it have run: the files are there that they have filled.
pub fn plan_again(name: &str, file: &fio::File, on: &[Target], number: usize) -> Result<Phase, PlanError> {
    Ok(planned(name, file, on, Some(number))?.swap_remove(number))
}

fn planned(name: &str, file: &fio::File, on: &[Target], now: Option<usize>) -> Result<Vec<Phase>, PlanError> {
    let groups = groups(&file.jobs)?;
    let mut filled: Vec<PathBuf> = Vec::new();
    let several = groups.len() > 1;
    let mut group = 0;
    let mut phases = Vec::new();
    for (number, jobs) in groups.iter().enumerate() {
        let name = if several { format!("{name}-{}", number + 1) } else { name.to_owned() };
        let mut phase = Phase {
            experiment: Experiment::empty(name),
            parts: Vec::new(),
            unlinks: Vec::new(),
            later: false,
            is_last: jobs.iter().any(|index| file.jobs[*index].rules.ends == Ends::All),
            remarks: Vec::new(),
        };
        for (place, index) in jobs.iter().enumerate() {
            let job = &file.jobs[*index];
            check_nodes(job)?;
            let parted = job.new_group || job.stonewall;
            group += u32::from(parted && (place > 0 || number > 0));
            for copy in 0..job.copies {
                let part = Part { job: *index, copy, group };
                match &job.replay {
                    Some(trace) => phase.replay(job, trace, part, on)?,
                    None => phase.add(job, part, on, if now == Some(number) { &[] } else { &filled })?,
                }
            }
        }
        let fills = jobs.iter().map(|index| &file.jobs[*index]).filter(|job| job.fills);
        filled.extend(fills.flat_map(|job| (0..job.copies).flat_map(|copy| job.paths(copy))));
        phase.check_verified(&file.jobs)?;
        phase.check_steady(&file.jobs)?;
        phase.check_gathered(jobs.iter().map(|index| &file.jobs[*index]))?;
        phase.settle(&jobs.iter().map(|index| &file.jobs[*index]).collect::<Vec<_>>());
        phases.push(phase);
    }
    Ok(phases)
}

/// The jobs that run together, group after group: parted by `stonewall`, or as one waits for what ran before it.
fn groups(jobs: &[Job]) -> Result<Vec<Vec<usize>>, PlanError> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let mut waits = false;
        if let Some(other) = &job.wait_for {
            let refuse = |why| {
                let (place, job, other) = (job.place.clone(), job.name.clone(), other.clone());
                Err(PlanError::Waits { place, job, other, why })
            };
            let now = groups.last().map_or(&[][..], |group| &group[..]);
            waits = now.iter().any(|index| jobs[*index].section == *other) && !job.stonewall;
            if !jobs[..index].iter().any(|earlier| earlier.section == *other) {
                return refuse("which is no job before it");
            }
            if waits && now.iter().any(|index| jobs[*index].section != *other) {
                return refuse("beside which other jobs run, and waits for it alone");
            }
        }
        match groups.last_mut() {
            Some(group) if !job.stonewall && !waits => {
                let waited = jobs[group[0]].wait_for.is_some() && !jobs[group[0]].stonewall;
                if waited && job.wait_for != jobs[group[0]].wait_for {
                    let (place, job) = (job.place.clone(), job.name.clone());
                    let other = jobs[group[0]].name.clone();
                    let why = "as it stands below it, and does not";
                    return Err(PlanError::Waits { place, job: other, other: job, why });
                }
                group.push(index);
            }
            _ => groups.push(vec![index]),
        }
    }
    Ok(groups)
}

impl Phase {
    fn add(&mut self, job: &Job, part: Part, on: &[Target], filled: &[PathBuf]) -> Result<(), PlanError> {
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
        // What an engine makes of a queue is the kernel's and the C library's doing, which are not asked for what is
        // reached otherwise.
        let by_kernel = on.is_empty() || on.iter().any(|target| matches!(target, Target::Path(_)));
        let whole = job.whole(part.copy, largest, on, filled)?;
        self.later |= whole.later;
        let mut region = job.region(part.copy, &whole, largest)?;
        let mut length = region.length.expect("a planned region has an end");
        let given = length;
        if smallest == largest {
            // As in fio: if the file goes on behind the job's part of it, the last block of a sequence is whole.
            // Otherwise the job ends with its last whole block.
            let in_order = whole.files == 1 && !job.order.iter().any(|order| order.is_random());
            let goes_on = in_order && region.start + length.round_up(largest) <= whole.size;
            length = if goes_on { length.round_up(largest) } else { length.round_down(largest) };
            region.length = Some(length);
        } else if job.is_covered() {
            // The map has whole blocks.
            length = length.round_down(smallest);
            region.length = Some(length);
        }
        // In fio reads and writes have each a place of their own.
        let own = |writes: bool, sizes: &Sizes| -> Result<(Pattern, Bytes), PlanError> {
            let index = usize::from(writes);
            let (smallest, largest) = (sizes.each().min().unwrap_or(largest), sizes.largest());
            let align = job.align[index].unwrap_or(smallest);
            let pattern = job.pattern(index, length, (smallest, largest))?;
            let align = match pattern {
                // Steps by whole sectors lead to whole sectors.
                Pattern::Strided { stride, .. } | Pattern::Backward { stride, .. } => {
                    let whole = [stride, smallest].iter().all(|step| step.is_multiple_of(Bytes::SECTOR));
                    if whole { Bytes::SECTOR } else { Bytes::new(1) }
                }
                _ => align,
            };
            Ok((pattern, align))
        };
        let mixed = matches!(job.direction, Direction::Mixed(_));
        let (pattern, align) = own(mix == Mix::WRITES, &sizes)?;
        let of_writes = if mixed { Some(own(true, write_sizes.as_ref().unwrap_or(&sizes))?) } else { None };
        // Addresses without a memory are the same from one place as from two; and of several sizes fio has one map of
        // what has been read or written.
        let covered = pattern == Pattern::RandomOnce && job.is_covered();
        let one = |(write, write_align): &(Pattern, Bytes)| {
            let alike = *write == pattern && *write_align == align;
            alike && (covered || pattern == Pattern::Random && write_sizes.is_none())
        };
        let (write_pattern, write_align) = of_writes.filter(|of| !one(of)).unzip();
        let (load, rates) = job.load();
        let (behind, verify) = match (job.verify, job.direction) {
            (None, _) => (None, None),
            // Of what it does not write a job can only say whether it is whole.
            (Some(_), Direction::Read) => (None, Some(Verify::Reads)),
            (Some(Check::Behind(lag)), _) => (Some(lag), Some(Verify::Reads)),
            // What it wrote it reads itself when all is written, so that these reads are requests as in fio.
            (Some(Check::AtEnd), _) => (Some(u32::MAX), Some(Verify::Reads)),
            (Some(Check::Later), _) => (None, Some(Verify::Later)),
        };
        if whole.files > 1 && matches!(pattern, Pattern::Strided { .. } | Pattern::Backward { .. }) {
            return Err(PlanError::Steps { place: place(), job: title(), files: whole.files });
        }
        let room = whole.size - region.start;
        let steps = if smallest == largest && !mixed { steps(&pattern, (given, room), smallest) } else { None };
        if let Some(steps) = &steps {
            region.length = Some(length.max(steps.end));
        }
        // With `filesize`, `size` says how much is moved.
        let asked = match (job.file_size, job.extent.size) {
            (Some(_), Some(Amount::Bytes(size))) => Some(size),
            _ => None,
        };
        let moved = match job.extent.moved {
            Some(Amount::Bytes(moved)) => moved,
            Some(Amount::Percent(share)) => Bytes::new((length.get() as f64 * share / 100.0) as u64),
            None => {
                let lap = steps.as_ref().map_or(length, |steps| steps.moved.unwrap_or(given));
                asked.map_or(lap, |asked| asked.min(lap))
            }
        };
        let bytes = (!job.time_based).then(|| Bytes::new(moved.get().saturating_mul(job.loops.into())));
        // The last request is whole.
        let whole_requests = smallest == largest && (steps.is_some() || asked.is_some());
        let bytes = if whole_requests { bytes.map(|bytes| bytes.round_up(smallest)) } else { bytes };
        // Before fio begins a job anew, it reads what was written.
        let lap = (job.time_based || job.loops > 1).then_some(moved);
        let behind = behind.map(|lag| ReadBehind { lag, lap });
        // What is read behind the writes is moved, too.
        let bytes = if behind.is_some() { bytes.map(|bytes| bytes * 2) } else { bytes };
        let requests = job.requests.map(|requests| if behind.is_some() { requests * 2 } else { requests });
        let requests = if job.create_only { Some(0) } else { requests };
        let end_all = matches!(job.rules.ends, Ends::Beside | Ends::All);
        let limits = Limits { requests, bytes, time: job.runtime, end_all, stop: true, ..Limits::NONE };
        let mut device = whole.device;
        if let Some(device) = &mut device {
            let pattern = match &pattern {
                Pattern::Zoned(zones) => &zones.within,
                whole => whole,
            };
            let random = |pattern: &Pattern| !matches!(pattern, Pattern::Sequential { .. } | Pattern::Strided { .. });
            device.advice = match job.advises && !job.direct {
                true if random(pattern) => uring::Advice::Random,
                true => uring::Advice::Sequential,
                false => uring::Advice::None,
            };
            // fio drops the page cache wherever it begins the file again: at the end of a sequence, when all blocks
            // have been, and in each loop.
            let laps = matches!(pattern, Pattern::RandomOnce) || !random(pattern) || job.loops > 1;
            // What is mapped stays: the kernel drops no pages that a process has mapped.
            let cached = !job.direct && job.engine != Engine::Mmap;
            let drops = laps && job.invalidate && cached && device.null.is_none();
            device.refresh = drops.then_some(length);
        }
        let stream = Stream {
            name: self.free_name(&if job.copies > 1 { format!("{}.{}", job.name, part.copy) } else { title() }),
            mix,
            behind,
            pattern,
            write_pattern,
            sizes,
            write_sizes,
            region,
            share: None,
            align,
            write_align,
            load,
            delay: job.begins_after(part.copy),
            ramp: job.ramp,
            apart: Duration::ZERO,
            limits,
            fill: if job.fill == Fill::Zero { workload::Fill::Zero } else { workload::Fill::Random },
            content: writing::content(job, length, smallest)?,
            known: writing::known(job)?,
            verify,
            discards: match job.direction {
                Direction::Trim => Discards::Only,
                Direction::TrimWrite => Discards::BeforeWrites,
                _ => Discards::Never,
            },
            pipeline: false,
            turns: None,
            lock_step: false,
            one_at_a_time: by_kernel && job.is_made_singly(),
            overlap: true,
            priorities: rules::priorities(job),
            rules: rules::of(job, part, self.parts.len() as u32),
        };
        let index = self.experiment.devices.len();
        if job.unlink {
            self.unlinks.extend(device.iter().flat_map(|device| device.files.iter().cloned()));
        }
        let own = device.is_some();
        let flushes = job.flushes(given > length);
        let flushes = Flushes { alone: flushes.alone && by_kernel, ..flushes };
        self.experiment.devices.extend(device.map(|device| Described { flushes, ..device }));
        self.experiment.streams.push(StreamPlan {
            stream,
            on: own.then(|| vec![index]),
            rate_limit: None,
            rates,
            through: Through::Device,
            script: None,
            flushes,
        });
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
        let targets: Vec<Target> = match (on.is_empty(), job.engine) {
            (false, _) => on.to_vec(),
            // Whatever the trace names, nothing is opened, and nothing is too large.
            (true, Engine::Null) => {
                let end =
                    asked.requests.iter().map(|wanted| wanted.offset + wanted.length).max().unwrap_or(Bytes::ZERO);
                let null = Target::Null { size: end.round_up(trace.align).round_up(Bytes::SECTOR) };
                vec![null; paths.len()]
            }
            (true, _) => paths.iter().cloned().map(Target::Path).collect(),
        };
        let how = How { speed: trace.speed, outstanding: job.depth, block: trace.align, wrap: false, go_on: false };
        let planned = replay::plan(&job.name, &asked, &targets, &how).map_err(failed)?;
        let first = self.experiment.devices.len();
        self.remarks.extend(planned.remarks);
        for (index, mut plan) in planned.experiment.streams.into_iter().enumerate() {
            plan.stream.name = self.free_name(&job.name);
            plan.stream.overlap = true;
            if on.is_empty() {
                let end = plan.stream.region.length.map(|end| end.round_up(Bytes::SECTOR));
                let mut described = Described::files(vec![paths[index].clone()], job.io());
                match job.engine {
                    Engine::Null => (described.files, described.null) = (Vec::new(), end),
                    // A file that is not there is made as large as the trace needs it.
                    _ => described.make = end,
                }
                (described.durable, described.flush_at_end) = (job.durable, job.flush_at_end);
                plan.on = Some(vec![first + index]);
                self.experiment.devices.push(described);
            }
            self.experiment.streams.push(plan);
            self.parts.push(part);
        }
        Ok(())
    }

    /// Those of its options that no experiment can say, so that only the job file itself runs it.
    pub fn beyond_experiments(&self) -> Vec<&'static str> {
        let any = |is: fn(&Stream) -> bool| self.experiment.streams.iter().any(|plan| is(&plan.stream));
        let all = [
            (self.experiment.streams.iter().any(|plan| plan.script.is_some()), "read_iolog"),
            (self.experiment.devices.iter().any(|device| device.grows.is_some()), "fill_device or fallocate"),
            (any(|stream| stream.rules.flow.is_some()), "flow"),
            (any(|stream| stream.rules.longest.is_some()), "max_latency"),
            (any(|stream| stream.rules.least.is_some()), "rate_min"),
            (any(|stream| stream.rules.steady.is_some()), "steadystate"),
            (any(|stream| stream.rules.search.is_some()), "latency_target"),
            (any(|stream| stream.rules.ends_group), "exitall"),
            (any(|stream| stream.rules.serial), "serialize_overlap"),
            (any(|stream| stream.rules.low.is_some()), "iodepth_low"),
            (any(|stream| stream.content.is_some()), "buffer_pattern or its kin"),
            (any(|stream| stream.known.is_some()), "verify_pattern"),
            (any(|stream| stream.rules.ends_wrong), "verify_fatal"),
            (any(|stream| stream.priorities.any()), "prio, prioclass or cmdprio"),
            (any(|stream| matches!(stream.pattern, Pattern::Zoned(_))), "zonemode"),
            (any(|stream| matches!(stream.pattern, Pattern::Listed { .. })), "random_distribution=sequence"),
        ];
        all.into_iter().filter_map(|(is, option)| is.then_some(option)).collect()
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

    /// Leaves out what no experiment can say and the jobs can do without: the options that were.
    pub fn simplify(&mut self) -> Vec<&'static str> {
        let mut options = self.beyond_experiments();
        for stream in self.experiment.streams.iter_mut().map(|plan| &mut plan.stream) {
            let (on_error, ignored) = (stream.rules.on_error, std::mem::take(&mut stream.rules.ignored));
            stream.rules = Rules { on_error, ignored, ..Rules::default() };
            (stream.content, stream.priorities) = (None, Priorities::default());
        }
        for device in &mut self.experiment.devices {
            device.make = device.grows.take().or(device.make);
        }
        let rest = self.beyond_experiments();
        options.retain(|option| !rest.contains(option));
        options
    }

    /// As in fio, jobs of one group are steady by one rule, or by none.
    fn check_steady(&self, jobs: &[Job]) -> Result<(), PlanError> {
        for (index, part) in self.parts.iter().enumerate() {
            let job = &jobs[part.job];
            let unlike = |other: &&Part| other.group == part.group && jobs[other.job].rules.steady != job.rules.steady;
            if let Some(other) = self.parts[..index].iter().find(unlike) {
                let (place, job, other) = (job.place.clone(), job.name.clone(), jobs[other.job].name.clone());
                return Err(PlanError::Unlike { place, job, other });
            }
        }
        Ok(())
    }

    /// Jobs that run together share rings, and each ring awaits as many completions as the next.
    fn check_gathered<'j>(&self, jobs: impl Iterator<Item = &'j Job>) -> Result<(), PlanError> {
        let mut queued = jobs.filter(|job| job.engine.is_queue());
        let Some(first) = queued.next() else { return Ok(()) };
        if let Some(other) = queued.find(|job| job.gather != first.gather) {
            let (place, job, other, of) =
                (other.place.clone(), other.name.clone(), first.name.clone(), [other.gather, first.gather]);
            return Err(PlanError::Gathers { place, job, other, of });
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
        // The end of the only group is that of all, which an experiment can say.
        if self.parts.iter().all(|part| part.group == self.parts[0].group) {
            for stream in experiment.streams.iter_mut().map(|plan| &mut plan.stream) {
                stream.limits.end_all |= std::mem::take(&mut stream.rules.ends_group);
            }
        }
        experiment.io = jobs[0].io();
        let gather = jobs.iter().find(|job| job.engine.is_queue()).map_or(1, |job| job.gather);
        experiment.io.gather = NonZero::new(gather).expect("who gathers awaits one completion at least");
        let fresh = jobs.iter().any(|job| !job.repeatable && job.seed.is_none());
        let usual = if fresh { RandomState::new().hash_one(0) } else { 2 };
        experiment.seed = jobs.iter().find_map(|job| job.seed).unwrap_or(usual) >> 1;
        let goes_on = jobs.iter().any(|job| job.rules.ignored.iter().any(|list| !list.is_empty()));
        experiment.run.on_error = if goes_on { OnError::Continue } else { OnError::Stop };
        let ends = jobs.iter().map(|job| Some(job.runtime? + job.ramp + job.delay[1])).collect::<Option<Vec<_>>>();
        experiment.run.measure = ends.and_then(|ends| ends.into_iter().max());
        let mut cpus: Vec<u32> = jobs.iter().flat_map(|job| job.cpus.iter().copied()).collect();
        let kernel = Kernel::running();
        let nodes = jobs.iter().flat_map(|job| &job.nodes);
        cpus.extend(nodes.filter_map(|node| processor::of_node(&kernel, *node)).flatten());
        cpus.sort();
        cpus.dedup();
        experiment.care.cpus = cpus;
    }
}

/// Memory nodes that a job names are there, and its memory is where it wants it: on a machine of one node it is in any
/// case.
fn check_nodes(job: &Job) -> Result<(), PlanError> {
    let (place, title, kernel) = (job.place.clone(), job.name.clone(), Kernel::running());
    let mut named = job.nodes.iter().chain(&job.memory_nodes);
    // Without the kernel's word on nodes there is one.
    let there = |node: &u32| *node == 0 || processor::of_node(&kernel, *node).is_some();
    if let Some(node) = named.find(|node| !there(node)) {
        return Err(PlanError::NoNode { place, job: title, node: *node });
    }
    if !job.memory_nodes.is_empty() && processor::nodes(&kernel) > 1 {
        return Err(PlanError::Placed { place, job: title });
    }
    Ok(())
}

/// What the laboratory asks of a job, besides where it is to go.
trait Plan {
    /// Closed loops, whose rates are limited by direction; random arrivals are an open one.
    fn load(&self) -> (Load, [Option<RateLimit>; 2]);
    /// Where requests of a direction go (1 for writes) in so much of a file, of these sizes.
    fn pattern(&self, index: usize, length: Bytes, sizes: (Bytes, Bytes)) -> Result<Pattern, PlanError>;
    /// In which order they come, within a zone if there are any.
    fn order(&self, index: usize, length: Bytes, sizes: (Bytes, Bytes)) -> Result<Pattern, PlanError>;
    /// Whether it has several sizes, and one map of the smallest of them says which blocks have been.
    fn is_covered(&self) -> bool;
    /// When a copy makes its first request, by a draw of its own.
    fn begins_after(&self, copy: u32) -> Duration;
    fn io(&self) -> Io;
    /// Of a size that no whole number of requests makes up, `rest` is left over.
    fn flushes(&self, rest: bool) -> Flushes;
}

impl Plan for Job {
    fn load(&self) -> (Load, [Option<RateLimit>; 2]) {
        /// What a job fell behind its rate it makes up for, however much it is.
        const BURST: Duration = Duration::seconds(30 * 24 * 3600);
        let (depth, think) = (self.depth, self.think);
        let paces: Vec<Pace> = match self.direction {
            Direction::Read => self.rate[0].into_iter().collect(),
            Direction::Mixed(_) => self.rate.into_iter().flatten().collect(),
            _ => self.rate[1].into_iter().collect(),
        };
        if (self.poisson || self.offload) && !paces.is_empty() {
            let rate = |pace: &Pace| match pace {
                Pace::Requests(rate) => rate.get(),
                Pace::Bytes(rate) => rate.get() / self.mean_size(),
            };
            let rate = Frequency::per_second(paces.iter().map(rate).sum::<f64>().max(*RATES.start()));
            let arrivals = if self.poisson { Arrivals::Poisson(rate) } else { Arrivals::Constant(rate) };
            return (Load::Open { arrivals, outstanding: depth }, [None; 2]);
        }
        let limit = |pace: Pace| match pace {
            Pace::Requests(rate) => RateLimit { requests: Some(rate), bytes: None, burst: BURST },
            Pace::Bytes(rate) => RateLimit { requests: None, bytes: Some(rate), burst: BURST },
        };
        (Load::Closed { depth, think }, self.rate.map(|pace| pace.map(limit)))
    }

    fn pattern(&self, index: usize, length: Bytes, (smallest, largest): (Bytes, Bytes)) -> Result<Pattern, PlanError> {
        let Some(zones) = self.zones else { return self.order(index, length, (smallest, largest)) };
        let (size, range) = (zones.size, zones.range.min(length));
        if range < largest {
            let (place, job) = (self.place.clone(), self.name.clone());
            return Err(PlanError::SmallZone { place, job, size: range, request: largest });
        }
        let within = self.order(index, range, (smallest, largest))?;
        Ok(Pattern::Zoned(Box::new(Zoned { within, size, range, skip: zones.skip })))
    }

    fn order(&self, index: usize, length: Bytes, (smallest, largest): (Bytes, Bytes)) -> Result<Pattern, PlanError> {
        Ok(match self.order[index] {
            Order::Random { .. } if self.skew[index].is_some() => skewed(self.skew[index].as_ref(), length),
            Order::Random { runs, .. } if runs > 1 => Pattern::Jumping(Jump::After(runs)),
            Order::Random { jumps: Some(chance), .. } => Pattern::Jumping(Jump::Chance(chance)),
            Order::Random { once: true, .. } if smallest == largest || self.is_covered() => Pattern::RandomOnce,
            Order::Random { .. } => Pattern::Random,
            Order::Sequential { gap, back: true } => {
                let refused = || {
                    let (place, job) = (self.place.clone(), self.name.clone());
                    PlanError::Forward { place, job, gap, request: largest }
                };
                if gap < largest || gap > length {
                    return Err(refused());
                }
                Pattern::Backward { stride: gap - smallest, from: length - gap }
            }
            Order::Sequential { gap, .. } if gap.is_zero() => Pattern::Sequential { from: Bytes::ZERO },
            Order::Sequential { gap, .. } => Pattern::Strided { stride: smallest + gap, from: Bytes::ZERO },
        })
    }

    fn is_covered(&self) -> bool {
        let of = |sizes: &[(Bytes, u32)]| sizes.iter().map(|(size, _)| *size).min();
        let used: Vec<usize> = match self.direction {
            Direction::Read => vec![0],
            Direction::Mixed(_) => vec![0, 1],
            Direction::Write | Direction::Trim | Direction::TrimWrite => vec![1],
        };
        let smallest = used.iter().map(|index| of(&self.sizes[*index])).collect::<Vec<_>>();
        let several = used.iter().any(|index| self.sizes[*index].len() > 1);
        let once = |order: &Order| matches!(order, Order::Random { once: true, runs: 1, jumps: None });
        several
            && used.iter().all(|index| once(&self.order[*index]))
            && smallest.windows(2).all(|two| two[0] == two[1])
            && used.iter().all(|index| self.align[*index].is_none())
    }

    fn begins_after(&self, copy: u32) -> Duration {
        let [low, high] = self.delay.map(Duration::as_nanos);
        let seed = match (self.seed, self.repeatable) {
            (Some(seed), _) => seed,
            (None, true) => 2,
            (None, false) => RandomState::new().hash_one(copy),
        };
        let mut random = Random::named(seed, &format!("{}/{copy}/startdelay", self.name));
        Duration::nanos(random.random_range(low..=high))
    }

    /// As fio 3.33 makes them: before each request, if the number of writes until then is a multiple of N, so that a
    /// mixed job has one after each read, too, until it writes again; and none after the request that reaches the job's
    /// limit, behind which it makes no other.
    fn flushes(&self, rest: bool) -> Flushes {
        match (self.direction, self.fsync, self.fdatasync, self.writeback) {
            (_, 0, 0, (0, _)) | (Direction::Read | Direction::Trim, ..) => Flushes::NONE,
            (_, full, data, (every, steps)) => {
                let [wait_before, write, wait_after] = steps;
                let range = (every, Writeback { wait_before, write, wait_after });
                let ends_by_itself = self.requests.is_none() && self.extent.moved.is_none() && (rest || self.loops > 1);
                // The engines of libaio and of POSIX flush by a call that the job waits in.
                let alone = self.depth > 1 && matches!(self.engine, Engine::Aio | Engine::Posix);
                Flushes { full, data, range, after_reads: true, after_last: ends_by_itself, alone }
            }
        }
    }

    fn io(&self) -> Io {
        let engine = match self.engine {
            // What suits the target: a ring for what must be waited for, the calling thread for memory.
            // Through the page cache each call waits. A queue of one waits, too, and takes two calls where one will do.
            Engine::Aio if !self.direct || self.depth == 1 => Some(uring::Engine::Sync),
            Engine::Queue | Engine::Aio | Engine::Posix | Engine::Null => None,
            Engine::Sync => Some(uring::Engine::Sync),
            Engine::Mmap => Some(uring::Engine::Mapped),
        };
        let mode = if self.direct && self.engine != Engine::Mmap { Mode::Direct } else { Mode::Buffered };
        let cache = if self.invalidate { Cache::DropClean } else { Cache::Keep };
        Io { mode, engine, cache, ..Io::default() }
    }
}

/// Where a job with gaps ends, as fio 3.33 has it.
struct Steps {
    /// What it moves before it ends. Nothing if it goes round: where the next request would begin behind the end of the
    /// file, it begins the file again.
    moved: Option<Bytes>,
    /// Where its last request ends. That may lie behind its part of the file.
    end: Bytes,
}

/// The steps of a job with gaps in `length` of a file that goes on for `room`.
fn steps(pattern: &Pattern, (length, room): (Bytes, Bytes), request: Bytes) -> Option<Steps> {
    let Pattern::Strided { stride, .. } = pattern else { return None };
    let begin = (length - Bytes::new(1)).min(room - request);
    let requests = begin.get() / stride.get() + 1;
    let end = *stride * (requests - 1) + request;
    let goes_round = end < length && *stride * requests >= room;
    Some(Steps { moved: (!goes_round).then(|| request * requests), end })
}

/// The law of `random_distribution` in so much of a file. fio, too, scatters what is wanted most over the file.
fn skewed(skew: Option<&fio::Skew>, length: Bytes) -> Pattern {
    let zones = |zones: Vec<Zone>| Pattern::Skewed(Skew { law: Law::Zones(zones), scattered: false });
    let law = match skew {
        None => return Pattern::Random,
        Some(fio::Skew::Sequence(blocks, stride)) => {
            return Pattern::Listed { blocks: blocks.clone(), stride: *stride };
        }
        Some(fio::Skew::Zipf(exponent)) => Law::Zipf { exponent: exponent.min(Law::STEEPEST) },
        Some(fio::Skew::Pareto(share)) => Law::Pareto { blocks: Ratio::new(*share) },
        Some(fio::Skew::Normal(percent)) => {
            Law::Normal { deviation: Ratio::percent(*percent), centre: Ratio::percent(50.0) }
        }
        Some(fio::Skew::Zoned(given)) => {
            let zone = |(requests, space): &(f64, f64)| Zone {
                requests: Ratio::percent(*requests),
                space: Space::Share(Ratio::percent(*space)),
            };
            return zones(given.iter().map(zone).collect());
        }
        Some(fio::Skew::ZonedBytes(given)) => {
            let mut left = length;
            let zone = |(requests, size): &(f64, Bytes)| {
                // What lies beyond the end is not there; a zone of no size is the rest.
                let size = if size.is_zero() { left } else { (*size).min(left) };
                left = left - size;
                Zone { requests: Ratio::percent(*requests), space: Space::Size(size) }
            };
            return zones(given.iter().map(zone).collect());
        }
    };
    Pattern::Skewed(Skew { law, scattered: true })
}
