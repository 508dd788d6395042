//! An experiment in real time: one thread and one runtime for some of the devices each.
//!
//! Devices are dealt out to as many threads as there are processors (or devices, if fewer). Each thread opens its
//! devices, then meets the others at the gate before each pass; so all streams of all devices start at one instant,
//! which the last to arrive sets a little ahead of its own time. The calling thread, the foreman, does no I/O.

mod foreman;
mod real;
mod tracer;

use std::cell::RefCell;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};

use device::{Device, NullDevice, Shape};
use host::Kernel;
use host::cpu::thread_time;
use host::disks::Disks;
use host::precaution::{Precaution, Precautions, unlock_memory};
use host::thread_use::ThreadUse;
use nbd::Client;
use record::{LEDGER_LOG, Log, Row};
use units::{Bytes, Duration, Instant, Ratio};
use uring::{Engine, FileDevice, FileOptions, Live, LiveOptions, Mode, RingOptions};
use workload::{Control, Heap, Ledger, Observer, OnError, sweep};

use crate::described::Described;
use crate::ensemble::Ensemble;
use crate::experiment::{Cache, Experiment, Io, StreamPlan};
use crate::gate::Gate;
use crate::journal::Journal;
use crate::live::foreman::{Passed, Report};
use crate::live::real::Single;
pub(crate) use crate::live::real::{Bare, LiveDevice};
#[cfg(test)]
pub(crate) use crate::live::tracer::Member;
use crate::live::tracer::Tracer;
pub(crate) use crate::live::tracer::{Followed, Traced};
use crate::pass::{self, Pass, Seat, Station};
use crate::pool::Pool;
use crate::pulse::Pulse;
use crate::runner::{Conclusion, RunError, Ways};
use crate::simulated::SWEEP_DEPTH;
use crate::steady::{Done, Rounds};
use crate::target::Target;
use crate::verification::{self, Verified};

/// All threads have this much time to leave the gate before the streams start.
const LEAD: Duration = Duration::millis(2);
/// Requests that are under way this long after the end of a pass are abandoned, and said to be.
const PATIENCE: Duration = Duration::seconds(30);
/// Rows and ledgers that go to disk as they come do so at least this often.
const KEPT: Duration = Duration::seconds(1);
/// How often progress is shown and interrupts are looked for.
const TICK: Duration = Duration::millis(100);

/// How many threads a run on so many devices takes.
pub(crate) fn threads(devices: usize, experiment: &Experiment) -> usize {
    if experiment.streams.iter().any(|plan| plan.stream.lock_step || plan.stream.turns.is_some()) {
        // Its lanes wait for each other, and tasks of two runtimes cannot.
        return 1;
    }
    let processors = match experiment.care.cpus.len() {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        chosen => chosen,
    };
    match experiment.io.engine {
        // A thread that waits in a system call for one device cannot serve another: one process per device, as in the
        // studies.
        Some(Engine::Sync | Engine::Mapped) => devices,
        // Jobs of fio that wait in system calls are processes, too.
        _ if experiment
            .devices
            .iter()
            .any(|device| matches!(device.io.engine, Some(Engine::Sync | Engine::Mapped))) =>
        {
            devices
        }
        _ => processors.min(devices).max(1),
    }
}

/// Whether the page cache is emptied of what is read before each pass.
fn drops_cache(io: &Io) -> bool {
    io.mode == Mode::Buffered && io.cache == Cache::Drop
}

/// What the result says of a precaution.
fn remark(precaution: &Precaution) -> String {
    format!("care taken of the measurement: {precaution}")
}

/// Runs all passes of an experiment on targets that are all real, one thread for each log.
pub(crate) fn run(
    experiment: &Experiment,
    targets: &[Target],
    ways: &Ways,
    logs: Vec<Log>,
) -> Result<Conclusion, RunError> {
    // Memory is the process's; the rest is taken by each thread that makes load. The record of requests is there
    // already, so it is locked, too.
    let lock = Precautions { lock_memory: experiment.care.lock_memory, ..Precautions::default() };
    let mut remarks: Vec<String> = lock.take().iter().map(remark).collect();
    let identity = verification::identity();
    let journal = journal(experiment, targets, ways, identity).unwrap_or_else(|error| {
        remarks.push(unlogged(&error));
        None
    });
    let mut site = Site {
        experiment,
        targets,
        ways,
        start: std::time::Instant::now(),
        gate: Gate::new(logs.len()),
        identity,
        streams: experiment.by_device(targets.len()),
        journal,
        rounds: experiment.run.steady.map(|steady| Mutex::new(Rounds::new(steady))),
        pulses: targets.iter().map(|_| Pulse::default()).collect(),
        begins: Mutex::default(),
        late: AtomicU64::new(0),
        numbered: None,
    };
    let threads = logs.len();
    let tracer = site.traced(&mut remarks);
    site.numbered = tracer.as_ref().map(|_| threads as u64);
    let disks = Disks::below(&Kernel::running(), targets.iter().flat_map(Target::paths));
    let done = std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        for (thread, log) in logs.into_iter().enumerate() {
            let (site, sender) = (&site, sender.clone());
            // Devices are dealt out round-robin.
            let share: Vec<usize> = (thread..targets.len()).step_by(threads).collect();
            let name = format!("load-{thread}");
            let spawned =
                std::thread::Builder::new().name(name).spawn_scoped(scope, move || site.work(&share, log, &sender));
            if let Err(error) = spawned {
                site.gate.close();
                return Err(RunError::Thread(error));
            }
        }
        drop(sender);
        site.watch(&receiver)
    });
    if lock.lock_memory {
        unlock_memory();
    }
    if let Some(Err(error)) = site.journal.map(Journal::close) {
        remarks.push(unlogged(&error));
    }
    let disks = disks.since_then().into_iter().map(reported).collect();
    let traced = tracer.map(Tracer::finish);
    done.map(|conclusion| Conclusion { remarks: [remarks, conclusion.remarks].concat(), disks, traced, ..conclusion })
}

/// What a block device did, as it is reported.
fn reported(disk: host::disks::DiskUse) -> report::DiskUse {
    let millis = |time: Duration| time.as_nanos() / 1_000_000;
    report::DiskUse {
        name: disk.name,
        requests: disk.requests,
        merges: disk.merges,
        ticks: disk.times.map(millis),
        in_queue: millis(disk.in_queue),
        busy: millis(disk.busy),
        elapsed: millis(disk.elapsed),
    }
}

/// The journal of what will be written, if the run has a folder.
fn journal(
    experiment: &Experiment,
    targets: &[Target],
    ways: &Ways,
    identity: u64,
) -> std::io::Result<Option<Journal>> {
    let Some(folder) = ways.folder else { return Ok(None) };
    let of = |(index, target): (usize, &Target)| {
        let ledger = verification::ledger(experiment, index, identity)?;
        Some((target.to_string(), ledger)).filter(|(_, ledger)| ledger.is_plain())
    };
    let devices: Vec<_> = targets.iter().enumerate().filter_map(of).collect();
    Journal::create(&folder.path().join(LEDGER_LOG), &devices)
}

fn unlogged(error: &std::io::Error) -> String {
    format!(
        "{LEDGER_LOG} cannot be written ({error}): had the run been killed, what it wrote could not have been verified"
    )
}

/// What all threads of a run share.
struct Site<'a> {
    experiment: &'a Experiment,
    targets: &'a [Target],
    ways: &'a Ways<'a>,
    start: std::time::Instant,
    gate: Gate,
    /// Tells what this run writes from what others wrote.
    identity: u64,
    /// By device: the streams that run on it.
    streams: Vec<Vec<usize>>,
    /// Where it is kept what was written, until the run has ended.
    journal: Option<Journal>,
    /// What the passes came to so far, if they are repeated until steady.
    rounds: Option<Mutex<Rounds>>,
    /// By device.
    pulses: Vec<Pulse>,
    /// When each pass began.
    begins: Mutex<Vec<Instant>>,
    /// By how much a thread came late to the beginning of a pass at most, in nanoseconds.
    late: AtomicU64,
    /// The number of threads that number their requests; nothing if they do not.
    numbered: Option<u64>,
}

/// What a thread keeps of each request.
struct Scribe<'a> {
    log: &'a mut Log,
    numbers: &'a mut Numbers,
    done: Done,
    pulses: &'a [Pulse],
}

impl Observer for Scribe<'_> {
    fn observe(&mut self, row: &Row) {
        self.done.observe(row);
        self.log.push(Row { cpu: host::cpu::current(), ..*row });
        self.pulses[usize::from(row.device)].add(row);
    }
    fn number(&mut self) -> u64 {
        self.numbers.next()
    }
}

/// Numbers for requests that leave spans: every so many-th, so that no two threads give the same.
/// Without a step they leave none, and all are 0.
struct Numbers {
    next: u64,
    step: u64,
}

impl Numbers {
    fn next(&mut self) -> u64 {
        let number = self.next;
        self.next += self.step;
        number
    }
}

impl Site<'_> {
    /// Has the kernel trace the requests, if that is asked for. Where it cannot, the run goes on without, and it is
    /// said what to do.
    fn traced(&self, remarks: &mut Vec<String>) -> Option<Tracer> {
        if !self.experiment.run.trace {
            return None;
        }
        let (tracer, partly) = Tracer::start(self.experiment, self.targets, self.start);
        remarks.extend(partly);
        match tracer {
            Ok(tracer) => Some(tracer),
            Err(why) => {
                let said = format!("not traced: {why}");
                self.ways.progress.warn(&said);
                remarks.push(said);
                None
            }
        }
    }

    /// The life of a thread.
    fn work(&self, share: &[usize], mut log: Log, report: &Sender<Report>) {
        // The foreman outlives all threads and listens to the end, so a report is always heard.
        let say = |what| report.send(what).expect("the foreman listens");
        // First, so that the helpers of this thread inherit them.
        let own = Precautions { lock_memory: false, ..self.experiment.care.clone() };
        own.take().iter().for_each(|taken| say(Report::Remark(remark(taken))));
        let io = self.experiment.io;
        let ring = RingOptions { kernel_poll: io.kernel_poll, gather: io.gather.get(), ..RingOptions::default() };
        // Who waits in system calls needs no ring, and of hundreds of jobs each would have one.
        let without_ring = share.iter().all(|index| self.io(*index).engine == Some(Engine::Sync));
        let options = LiveOptions { start: Some(self.start), ring, without_ring };
        let live = Live::start(&options);
        let stations = match share.iter().map(|index| self.open(&live, *index)).collect::<Result<Vec<_>, _>>() {
            Ok(stations) => stations,
            Err(error) => {
                self.gate.close();
                return say(Report::Refused(error));
            }
        };
        let opened =
            |station: &Station<LiveDevice>| (station.index, station.device.shape().size, station.device.choice());
        say(Report::Opened(stations.iter().map(opened).collect()));
        let stop = self.ways.interrupted;
        let pool = Pool::new(&live, self.experiment, share, stop);
        if let Some(refused) = &pool.refused {
            say(Report::Remark(refused.clone()));
        }
        let seats = pass::seats(self.experiment, (share, &self.streams), &pool, stop);
        if stop.load(Relaxed) {
            // No load was made yet, and none will be.
            self.gate.close();
            return say(Report::CalledOff);
        }
        // Its first device is its place among the threads.
        let mut numbers = match (self.numbered, share.first()) {
            (Some(threads), Some(place)) => Numbers { next: *place as u64 + 1, step: threads },
            _ => Numbers { next: 0, step: 0 },
        };
        for number in 0..self.experiment.run.passes {
            if let Err(error) = self.make_anew(&stations) {
                self.gate.close();
                return say(Report::Refused(error));
            }
            for station in &stations {
                let io = self.io(station.index);
                match io.cache {
                    Cache::Drop if drops_cache(io) => station.device.drop_cache(),
                    Cache::DropClean if io.mode == Mode::Buffered => station.device.forget_cache(),
                    Cache::Drop | Cache::DropClean | Cache::Keep => {}
                }
            }
            let Some(control) = self.gate.pass(|| self.next(live.runtime().now())) else { break };
            let (used_before, took_before) = (thread_time(), ThreadUse::now());
            let late = live.runtime().now().saturating_since(control.begin());
            self.late.fetch_max(late.as_nanos(), Relaxed);
            let observer = RefCell::new(Scribe {
                log: &mut log,
                numbers: &mut numbers,
                done: Done::default(),
                pulses: &self.pulses,
            });
            let watched = self.supervise(live.runtime(), (&stations, &seats), &control, &observer);
            let pass = Pass {
                runtime: live.runtime(),
                stations: &stations,
                seats: &seats,
                experiment: self.experiment,
                memory: &pool,
                number,
                control: &control,
            };
            let run = pass.run(&observer, watched);
            let gave_up = run.is_err();
            let mut failures = run.unwrap_or_default();
            let done = observer.into_inner().done;
            // What was asked to be durable at the end counts for the time of the pass.
            for station in stations.iter().filter(|_| !gave_up) {
                // Whoever ends a run early does not wait for what may take long.
                let wanted = !stop.load(Relaxed);
                if wanted && self.experiment.devices.get(station.index).is_some_and(|described| described.flush_at_end)
                {
                    let stream = seats.iter().find(|seat| seat.device == station.index).map_or(0, |seat| seat.stream);
                    let flush = pass::flush(live.runtime(), &station.device, (stream, station.index, number));
                    let (row, failure) = live.runtime().block_on(flush);
                    log.push(row);
                    if failure.is_some() && self.experiment.run.on_error == OnError::Stop {
                        control.interrupt(live.runtime().now());
                    }
                    failures.extend(failure);
                }
            }
            let (used, took) = (thread_time().saturating_sub(used_before), ThreadUse::now().since(&took_before));
            let wall = live.runtime().now().saturating_since(control.begin()).max(Duration::nanos(1));
            self.count(&seats, Ratio::ZERO);
            log.hand_over();
            self.note(&stations);
            self.round(&done, &control);
            say(Report::Passed(Passed {
                failures,
                searched: pass::searched(&seats),
                over: pass::over(&seats),
                abandoned: if gave_up {
                    seats.iter().map(|seat| u64::from(seat.tally.under_way.get())).sum()
                } else {
                    0
                },
                unserved: seats.iter().map(|seat| seat.tally.unserved.take()).sum(),
                announced: seats.iter().map(|seat| seat.tally.announced.take()).sum(),
                busy: Ratio::new(used.as_seconds() / wall.as_seconds()),
                devices: share.to_vec(),
                took,
            }));
            if gave_up {
                // A device hangs: no further pass would say anything, and its thread cannot serve one.
                self.gate.close();
            }
            if gave_up || control.was_interrupted() {
                break;
            }
        }
        self.verify(&live, &stations, &say);
    }

    /// Makes the files anew that are not there when a pass begins.
    fn make_anew(&self, stations: &[Station<LiveDevice>]) -> Result<(), RunError> {
        let is_new =
            |index: usize| self.streams[index].iter().any(|stream| self.experiment.streams[*stream].makes_its_file());
        for station in stations.iter().filter(|station| is_new(station.index)) {
            let target = || self.targets[station.index].clone();
            station.device.make_anew().map_err(|source| RunError::NotAnew { target: target(), source })?;
        }
        Ok(())
    }

    /// Reads what was written, where that is asked for, and says what verification came to.
    fn verify(&self, live: &Live, stations: &[Station<LiveDevice>], say: &dyn Fn(Report)) {
        let whole = !self.gate.control().is_some_and(|control| control.was_interrupted());
        for Station { index, device, ledger } in stations {
            let Some(ledger) = ledger else { continue };
            if whole && verification::at_end(self.experiment, *index) {
                device.drop_cache();
                let fatal = self.streams[*index].iter().any(|of| self.experiment.streams[*of].stream.rules.ends_wrong);
                let stop = || self.ways.interrupted.load(Relaxed) || fatal && !ledger.is_sound();
                let passes = self.experiment.run.passes;
                let failed = live.runtime().block_on(sweep(device, ledger, &Heap, (SWEEP_DEPTH, passes), stop));
                if let Some(error) = failed {
                    say(Report::Remark(format!("{}: {error}", self.targets[*index])));
                }
            }
            say(Report::Verified(*index, Verified::new(&self.targets[*index].to_string(), ledger)));
        }
    }

    fn open(&self, live: &Live, index: usize) -> Result<Station<LiveDevice>, RunError> {
        let device = match &self.targets[index] {
            Target::Memory { .. } | Target::Part { .. } | Target::Modelled { .. } => {
                unreachable!("the runner sorts targets by their world")
            }
            Target::Null { size } => {
                Bare::Null(NullDevice::new(live.runtime(), Shape::new(self.targets[index].to_string(), *size)))
            }
            Target::Nbd(uri) => Bare::Nbd(live.runtime().block_on(Client::connect(live, uri))?),
            Target::Path(path) => Bare::File(self.open_path(live, path, &self.experiment.io, None)?),
            Target::Described(described) => {
                let name = described.name();
                let mut parts = Vec::new();
                for path in &described.files {
                    parts.push(Single::File(self.open_path(live, path, &described.io, Some(described))?));
                }
                // Nothing takes requests of any size.
                let shape = |size| Shape { logical_block: Bytes::new(1), ..Shape::new(&name, size) };
                parts.extend(described.null.map(|size| Single::Null(NullDevice::new(live.runtime(), shape(size)))));
                Bare::Ensemble(Ensemble::new(live.runtime(), name, parts, described))
            }
        };
        let device = LiveDevice::new(live, device, &self.experiment.slow, index);
        pass::check(self.experiment, &self.streams[index], device.shape())?;
        let ledger = verification::ledger(self.experiment, index, self.identity);
        let ledger = if self.journal.is_some() { ledger.map(Ledger::noting) } else { ledger };
        Ok(Station { index, device, ledger })
    }

    fn open_path(
        &self,
        live: &Live,
        path: &Path,
        io: &Io,
        described: Option<&Described>,
    ) -> Result<FileDevice, RunError> {
        let mut options = match io.mode {
            Mode::Direct => FileOptions::direct(),
            Mode::Buffered => FileOptions::buffered(),
        };
        options.engine = io.engine;
        options.cold = drops_cache(io);
        if let Some(described) = described {
            options.any_bytes = true;
            options.grows = described.grows;
            options.advice = described.advice;
        }
        Ok(match self.ways.permits.get(path) {
            Some(permit) => FileDevice::open_writable(live, permit, &options)?,
            None => FileDevice::open_read_only(live, path, &options)?,
        })
    }

    /// How a device is opened.
    fn io(&self, device: usize) -> &Io {
        self.experiment.devices.get(device).map_or(&self.experiment.io, |described| &described.io)
    }

    /// What this thread did in a pass that came to its end.
    fn round(&self, done: &Done, control: &Control) {
        if let (Some(rounds), Some(until), false) = (&self.rounds, control.counted_until(), control.was_interrupted()) {
            let mut rounds = rounds.lock().expect("no panic under this lock");
            rounds.add(done, until.saturating_since(control.counts_from()));
        }
    }

    /// The next pass; none once the last of them were steady.
    fn next(&self, now: Instant) -> Option<Control> {
        let steady =
            self.rounds.as_ref().is_some_and(|rounds| rounds.lock().expect("no panic under this lock").close());
        if steady {
            return None;
        }
        let mut begins = self.begins.lock().expect("no panic under this lock");
        let begin = match self.ways.party {
            None => now + LEAD,
            // An instant on the clock of the process, as time since the run began.
            Some(party) => {
                let at = party.start(begins.len() as u16)?.saturating_duration_since(self.start);
                Instant::from_nanos(at.as_nanos() as u64)
            }
        };
        begins.push(begin);
        Some(self.control(begin))
    }

    fn control(&self, begin: Instant) -> Control {
        let on = |plan: &StreamPlan| match &plan.on {
            Some(on) => on.iter().filter(|device| **device < self.targets.len()).count(),
            None => self.targets.len(),
        };
        let seats: usize = self.experiment.streams.iter().map(on).sum();
        self.experiment.control(begin, seats as u32)
    }

    /// Tells the foreman how far the devices are, until the pass should long have been over.
    async fn supervise(
        &self,
        runtime: &runtime::Runtime,
        (stations, seats): (&[Station<LiveDevice>], &[Seat]),
        control: &Control,
        observer: &RefCell<Scribe<'_>>,
    ) {
        let (mut used, mut from) = (thread_time(), runtime.now());
        let mut kept = from;
        loop {
            runtime.sleep(TICK).await;
            if runtime.now().saturating_since(kept) >= KEPT {
                kept = runtime.now();
                observer.borrow_mut().log.hand_over();
                self.note(stations);
            }
            let (then, now) = (std::mem::replace(&mut used, thread_time()), runtime.now());
            let wall = now.saturating_since(std::mem::replace(&mut from, now)).max(Duration::nanos(1));
            self.count(seats, Ratio::new(used.saturating_sub(then).as_seconds() / wall.as_seconds()));
            if control.drained_until().is_some_and(|until| runtime.now() > until + PATIENCE) {
                return;
            }
        }
    }

    /// Has it kept what these devices have been written since the last time.
    fn note(&self, stations: &[Station<LiveDevice>]) {
        for Station { index, ledger, .. } in stations {
            if let (Some(journal), Some(ledger)) = (&self.journal, ledger) {
                journal.note(*index as u16, ledger.take_noted());
            }
        }
    }

    /// Says what is under way on the devices of this thread, and how busy it was.
    fn count(&self, seats: &[Seat], busy: Ratio) {
        // The seats of a device stand together.
        for here in seats.chunk_by(|a, b| a.device == b.device) {
            let under_way = here.iter().map(|seat| u64::from(seat.tally.under_way.get())).sum();
            self.pulses[here[0].device].state(under_way, busy);
        }
    }
}
