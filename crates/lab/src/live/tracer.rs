//! The thread that reads the kernel's trace points while a live run goes on.
//!
//! It only takes events out of the kernel's buffers, of which 8 MiB a processor hold a tenth of a second of fast
//! devices, and keeps them as they are; what belongs to what is found after the run ([`crate::timeline`]). A wait of 10
//! ms between two looks makes its wake-ups cheap and leaves the buffers ten times the time they need.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration as Wall;

use host::Kernel;
use host::cpu::thread_time;
use host::tracefs::{DeviceCode, Event, Extents, Instance, Reader, TracedDisk};
use units::{Bytes, Duration};
use uring::Mode;

use crate::experiment::Experiment;
use crate::target::Target;

/// Memory of the kernel for what is not yet read, all processors together; each has 8 MiB on machines of up to 32.
const BUFFERS: Bytes = Bytes::mib(256);
const BUFFER: Bytes = Bytes::mib(8);
/// Events that are kept: 384 MiB of them, of 2.5 million requests that go through a ring.
const MOST: usize = 12 << 20;
/// Between two looks.
const PAUSE: Wall = Wall::from_millis(10);

/// What was read of the trace points.
#[derive(Debug)]
pub(crate) struct Traced {
    /// By device of the run: the disk that its requests go to; `None` where they cannot be followed.
    pub disks: Vec<Option<Followed>>,
    /// By processor, in order of time. On the clock of the kernel.
    pub events: Vec<Vec<Event>>,
    /// When the run's own clock began, on that clock.
    pub origin: u64,
    /// Events that were overwritten before they were read, or found no more memory; at least so many.
    pub lost: u64,
    /// No more were kept from here on, on the kernel's clock.
    pub full: Option<u64>,
    /// The processor time of the thread that read them.
    pub cost: Duration,
}

/// A device whose requests can be followed.
#[derive(Debug, Clone)]
pub(crate) struct Followed {
    /// The block device that they go to.
    pub disk: TracedDisk,
    /// Its name.
    pub name: String,
    /// Of a loop device, the byte there at which what lies above begins.
    pub from: Bytes,
    /// If a file lies there and not the device itself.
    pub file: Option<PathBuf>,
    /// Where it lies, when the run has ended.
    pub extents: Option<Extents>,
    /// What its disk passes its requests on to by telling the kernel so, if anything: see [`TracedDisk::members`].
    pub members: Vec<Member>,
    /// Where a loop device passes its requests on to, if they can be followed there.
    pub below: Option<Box<Followed>>,
}

/// A disk that another one stands on.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub disk: TracedDisk,
    pub name: String,
}

/// Loop devices upon loop devices are followed so far.
const DEEPEST: usize = 4;

impl Followed {
    /// What is at a path; or why it cannot be followed.
    fn find(kernel: &Kernel, path: &Path, from: Bytes, depth: usize) -> Result<Followed, &'static str> {
        let disk = TracedDisk::find(kernel, path).ok_or("its file system is on no single block device")?;
        if path.is_file() {
            Extents::of(path).map_err(|_| "its file system does not tell where on the disk it lies")?;
        }
        let backing = disk.backing(kernel).filter(|_| depth < DEEPEST);
        let below = backing.and_then(|(path, from)| Followed::find(kernel, &path, from, depth + 1).ok());
        let member = |disk: TracedDisk| Member { name: disk.name(kernel), disk };
        Ok(Followed {
            name: disk.name(kernel),
            members: disk.members(kernel).into_iter().map(member).collect(),
            disk,
            from,
            file: path.is_file().then(|| path.to_owned()),
            extents: None,
            below: below.map(Box::new),
        })
    }

    /// The disks that its requests may go to.
    fn disks(&self) -> impl Iterator<Item = &TracedDisk> {
        self.levels().flat_map(|level| [&level.disk].into_iter().chain(level.members.iter().map(|member| &member.disk)))
    }

    /// It and what lies below it, as loop devices count.
    pub fn levels(&self) -> impl Iterator<Item = &Followed> {
        std::iter::successors(Some(self), |followed| followed.below.as_deref())
    }

    /// Where a stretch of it lies on its disk; `None` if that is in no one piece.
    pub fn place(&self, offset: Bytes, length: Bytes) -> Option<Bytes> {
        let begin = self.from + offset;
        let begin = self.extents.as_ref().map_or(Some(begin), |extents| extents.place(begin, length))?;
        Some(Bytes::SECTOR * self.disk.first + begin)
    }

    fn locate(&mut self) {
        self.extents = self.file.as_deref().map(|file| Extents::of(file).unwrap_or_default());
        self.below.iter_mut().for_each(|below| below.locate());
    }
}

/// The thread.
pub(crate) struct Tracer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Traced>>,
}

impl Tracer {
    /// Starts to trace what goes to the targets, of a run whose clock begins at `start`; or why nothing can be. Beside
    /// it stands what cannot be followed.
    pub fn start(
        experiment: &Experiment,
        targets: &[Target],
        start: std::time::Instant,
    ) -> (Result<Tracer, String>, Vec<String>) {
        let kernel = Kernel::running();
        let mut remarks = Vec::new();
        let mut found: Vec<Option<Followed>> = Vec::new();
        for (index, target) in targets.iter().enumerate() {
            let one = followed(&kernel, experiment, index, target);
            found.push(one.map_err(|why| remarks.push(format!("not traced: {target}: {why}"))).ok());
        }
        let disks = found.iter().flatten().flat_map(Followed::disks);
        let mut codes: Vec<DeviceCode> = disks.flat_map(TracedDisk::codes).collect();
        codes.sort_unstable();
        codes.dedup();
        if codes.is_empty() {
            return (Err("none of the devices can be followed through the kernel".to_owned()), remarks);
        }
        (Tracer::follow(&kernel, found, &codes, start), remarks)
    }

    fn follow(
        kernel: &Kernel,
        disks: Vec<Option<Followed>>,
        codes: &[DeviceCode],
        start: std::time::Instant,
    ) -> Result<Tracer, String> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let instance = Instance::start(kernel, codes, (BUFFER * processors).min(BUFFERS)).map_err(|e| e.to_string())?;
        let readers = instance.readers().map_err(|error| error.to_string())?;
        let origin = host::clock::monotonic_at(start);
        let traced = Traced {
            disks,
            events: vec![Vec::new(); readers.len()],
            origin,
            lost: 0,
            full: None,
            cost: Duration::ZERO,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::Builder::new().name("tracer".to_owned());
        let thread = thread.spawn(move || read(&instance, readers, traced, &told));
        let thread = thread.map_err(|error| format!("no thread could be started: {error}"))?;
        Ok(Tracer { stop, thread: Some(thread) })
    }

    /// Ends the tracing, and gives what was read.
    pub fn finish(mut self) -> Traced {
        let read = self.end().expect("it is finished once");
        let mut traced = read.expect("reading does not panic");
        traced.disks.iter_mut().flatten().for_each(Followed::locate);
        traced
    }

    fn end(&mut self) -> Option<std::thread::Result<Traced>> {
        self.stop.store(true, Relaxed);
        let thread = self.thread.take()?;
        thread.thread().unpark();
        Some(thread.join())
    }
}

impl Drop for Tracer {
    /// A run that fails leaves no trace point on.
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// Where the requests to a target go, or why they cannot be told apart in the kernel.
fn followed(kernel: &Kernel, experiment: &Experiment, index: usize, target: &Target) -> Result<Followed, &'static str> {
    let mode = experiment.devices.get(index).map_or(experiment.io.mode, |device| device.io.mode);
    let mut paths = target.paths();
    let (Some(path), None) = (paths.next(), paths.next()) else {
        return Err("it is no single file or block device of this machine");
    };
    if matches!(target, Target::Described(described) if described.null.is_some()) {
        return Err("it is no single file or block device of this machine");
    }
    let followed = Followed::find(kernel, path, Bytes::ZERO, 0)?;
    match mode {
        Mode::Direct => Ok(followed),
        Mode::Buffered => {
            Err("the page cache answers its requests, and asks the device for others (mode = \"direct\")")
        }
    }
}

/// The life of the thread.
fn read(instance: &Instance, mut readers: Vec<Reader>, mut traced: Traced, stop: &AtomicBool) -> Traced {
    loop {
        let last = stop.load(Relaxed);
        if last {
            // What it refuses now is left to the removal of the instance.
            let _ = instance.stop();
        }
        let Traced { events, full, lost, .. } = &mut traced;
        let mut room = MOST.saturating_sub(events.iter().map(Vec::len).sum());
        for (reader, events) in readers.iter_mut().zip(events) {
            let kept = reader.drain(|event| {
                if room > 0 {
                    room -= 1;
                    events.push(event);
                } else {
                    *lost += 1;
                    *full = Some(full.map_or(event.at(), |at| at.min(event.at())));
                }
            });
            // A processor that goes away takes its buffer along. What was read stays.
            *lost += u64::from(kept.is_err());
        }
        if last {
            break;
        }
        std::thread::park_timeout(PAUSE);
    }
    traced.lost += readers.iter().map(Reader::lost).sum::<u64>();
    traced.cost = thread_time();
    traced
}
