//! An experiment on memory devices in virtual time: one runtime, all devices, no world.

use std::cell::RefCell;
use std::convert::Infallible;
use std::sync::atomic::Ordering::Relaxed;

use device::filter::{Delay, Latency, Slow};
use device::{Device, MemoryDevice, Reply, Request, Shape};
use host::precaution::Precautions;
use machine::standalone::Standalone;
use record::{Log, Row};
use runtime::{Random, Runtime};
use units::{Duration, Instant};
use workload::{Control, Heap, Memory, Phantoms, sweep};

use crate::experiment::Experiment;
use crate::pass::{self, Pass, Station};
use crate::runner::{Conclusion, RunError, Ways};
use crate::slow;
use crate::steady::{Done, Rounds};
use crate::target::{Target, names};
use crate::verification::{self, Verified};

/// How often an interrupt is looked for, in virtual time: now and then in real time, however fast the devices are.
const LOOK: Duration = Duration::millis(10);

/// Between passes nothing happens; the pause keeps their records apart.
pub(crate) const PAUSE: Duration = Duration::millis(1);

/// Requests under way when all that was written is read.
pub(crate) const SWEEP_DEPTH: u32 = 8;

/// A device that exists in virtual time only.
enum Simulated {
    Memory(Delay<MemoryDevice>),
    Part(Standalone),
}

impl Device for Simulated {
    fn shape(&self) -> &Shape {
        match self {
            Simulated::Memory(memory) => memory.shape(),
            Simulated::Part(drive) => drive.shape(),
        }
    }

    async fn submit(&self, request: Request) -> Reply {
        match self {
            Simulated::Memory(memory) => memory.submit(request).await,
            Simulated::Part(drive) => drive.submit(request).await,
        }
    }
}

/// One that is as it is, or in slow motion.
enum Paced {
    Plain(Simulated),
    Slow(Slow<Simulated>),
}

impl Device for Paced {
    fn shape(&self) -> &Shape {
        match self {
            Paced::Plain(device) => device.shape(),
            Paced::Slow(device) => device.shape(),
        }
    }

    async fn submit(&self, request: Request) -> Reply {
        match self {
            Paced::Plain(device) => device.submit(request).await,
            Paced::Slow(device) => device.submit(request).await,
        }
    }
}

/// Runs all passes of an experiment on targets that are all simulated.
pub(crate) fn run(
    experiment: &Experiment,
    targets: &[Target],
    ways: &Ways,
    mut log: Log,
) -> Result<Conclusion, RunError> {
    let (runtime, names) = (Runtime::simulated(), names(targets));
    let mut stations = Vec::new();
    let streams = experiment.by_device(targets.len());
    for (index, target) in targets.iter().enumerate() {
        let seed =
            |purpose: &str| rand::Rng::next_u64(&mut Random::named(experiment.seed, &format!("{purpose}/{index}")));
        let device = match target {
            Target::Memory { size, delay } => {
                let memory = MemoryDevice::new(&runtime, Shape::new(&names[index], *size));
                Simulated::Memory(Delay::new(&runtime, memory, Latency::Fixed(*delay), seed("delay")))
            }
            Target::Part { name } => Simulated::Part(Standalone::open(&runtime, name, seed("part"))?),
            Target::Path(_) | Target::Nbd(_) | Target::Null { .. } | Target::Described(_) | Target::Modelled { .. } => {
                unreachable!("the runner sorts targets by their world")
            }
        };
        let device = match slow::of_device(&experiment.slow, index) {
            Some(pace) => Paced::Slow(Slow::new(&runtime, device, pace)),
            None => Paced::Plain(device),
        };
        pass::check(experiment, &streams[index], device.shape())?;
        let ledger = verification::ledger(experiment, index, experiment.seed);
        stations.push(Station { index, device, ledger });
    }
    // Bytes move only where somebody looks at them.
    let verifies = stations.iter().any(|station| station.ledger.is_some());
    let memory: &dyn Memory = if verifies { &Heap } else { &Phantoms };
    let indices: Vec<usize> = (0..targets.len()).collect();
    let seats = pass::seats(experiment, (&indices, &streams), memory, ways.interrupted);
    let sizes = stations.iter().map(|station| station.device.shape().size).collect();
    let mut conclusion = Conclusion { sizes, ..Conclusion::default() };
    if experiment.care != Precautions::default() {
        conclusion.remarks.push("no care was taken of the measurement: virtual time has no disturbances".to_owned());
    }
    let mut rounds = experiment.run.steady.map(Rounds::new);
    for number in 0..experiment.run.passes {
        if ways.interrupted.load(Relaxed) {
            conclusion.interrupted = true;
            break;
        }
        let begin = runtime.now().max(Instant::START) + PAUSE;
        let control = experiment.control(begin, seats.len() as u32);
        let mut done = Done::default();
        let observer = RefCell::new(|row: &Row| {
            done.observe(row);
            log.push(*row);
        });
        let aside = watch(&runtime, &control, ways);
        let pass = Pass {
            runtime: &runtime,
            stations: &stations,
            seats: &seats,
            experiment,
            memory,
            number,
            control: &control,
        };
        let Ok(failures) = pass.run(&observer, aside);
        conclusion.failures.extend(failures);
        conclusion.searched = pass::searched(&seats);
        conclusion.over = pass::over(&seats);
        conclusion.unserved = seats.iter().map(|seat| seat.tally.unserved.get()).sum();
        conclusion.announced = seats.iter().map(|seat| seat.tally.announced.get()).sum();
        if control.was_interrupted() {
            conclusion.interrupted = true;
            break;
        }
        if rounds.as_mut().is_some_and(|rounds| rounds.pass(&done, &control)) {
            break;
        }
    }
    conclusion.rounds = rounds;
    for Station { index, device, ledger } in &stations {
        let Some(ledger) = ledger else { continue };
        if verification::at_end(experiment, *index) && !conclusion.interrupted {
            let stop = || ways.interrupted.load(Relaxed);
            let failed = runtime.block_on(sweep(device, ledger, memory, (SWEEP_DEPTH, experiment.run.passes), stop));
            conclusion.remarks.extend(failed.map(|error| format!("{}: {error}", names[*index])));
        }
        conclusion.verified.push(Verified::new(&names[*index], ledger));
    }
    Ok(conclusion)
}

/// Ends the pass when the user asks for it. It only reads a flag, so a run that is not interrupted is the same without
/// it.
pub(crate) async fn watch(runtime: &Runtime, control: &Control, ways: &Ways<'_>) -> Infallible {
    loop {
        runtime.sleep(LOOK).await;
        if ways.interrupted.load(Relaxed) && !control.was_interrupted() {
            control.interrupt(runtime.now());
        }
    }
}
