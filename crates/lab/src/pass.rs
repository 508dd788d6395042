//! One pass: all streams on all devices of one runtime, from a common start to the last completion.
//!
//! This is the code that both clocks share. The live runner gives each thread its devices and a control that all threads share;
//! the simulated runner gives one runtime all devices.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use device::{Data, Device, DeviceError, Operation, Request, Shape};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rand::Rng;
use record::{Phase, Row};
use runtime::{Random, Resource, Runtime};
use workload::{Context, Control, Drive, Ledger, LockStep, Memory, Observer, Replay, StreamError, Tally};

use crate::experiment::{Experiment, StreamPlan};

/// A device and its number in the run.
pub(crate) struct Station<D> {
    pub index: usize,
    pub device: D,
    /// What is known of its contents, if any of its streams verifies.
    pub ledger: Option<Ledger>,
}

/// One stream on one device: what it is to do, and how far it is.
pub(crate) struct Seat {
    pub stream: usize,
    pub device: usize,
    pub tally: Tally,
    data: Data,
}

/// A device was given up.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Index of the device.
    pub device: usize,
    /// Index of the stream.
    pub stream: usize,
    /// The first error.
    pub error: DeviceError,
}

/// The pairs of stream and device that an experiment makes of these devices, or fewer if `stop` is set meanwhile.
pub(crate) fn seats(experiment: &Experiment, devices: &[usize], memory: &dyn Memory, stop: &AtomicBool) -> Vec<Seat> {
    let mut seats = Vec::new();
    for &device in devices {
        for (stream, plan) in experiment.streams.iter().enumerate().filter(|(_, plan)| plan.runs_on(device)) {
            if stop.load(Relaxed) {
                return seats;
            }
            let mut random = Random::named(experiment.seed, &format!("{}/{device}/data", plan.stream.name));
            let data = plan.stream.data(memory, &mut random);
            seats.push(Seat { stream, device, tally: Tally::default(), data });
        }
    }
    seats
}

/// Refuses devices on which the experiment cannot run, before anything is asked of them.
pub(crate) fn check(experiment: &Experiment, device: usize, shape: &Shape) -> Result<(), StreamError> {
    let here: Vec<_> = experiment.streams.iter().filter(|plan| plan.runs_on(device)).map(|plan| &plan.stream).collect();
    for (index, stream) in here.iter().enumerate() {
        stream.check(shape)?;
        for other in &here[..index] {
            other.check_overlap(stream, shape)?;
        }
    }
    Ok(())
}

/// Runs the seats of one runtime through one pass; rows go to `observer`. Returns the first failure of each seat that had one.
pub(crate) async fn run<D: Device, O: Observer>(
    runtime: &Runtime,
    stations: &[Station<D>],
    seats: &[Seat],
    experiment: &Experiment,
    memory: &dyn Memory,
    (pass, control): (u16, &Control),
    observer: &RefCell<O>,
) -> Vec<Failure> {
    let steps: Vec<Option<LockStep>> = (0..).zip(&experiment.streams).map(|plan| lock_step(plan, seats)).collect();
    let turns = |plan: &StreamPlan| plan.stream.turns.map(|turns| Resource::new(runtime, turns));
    let turns: Vec<Option<Resource>> = experiment.streams.iter().map(turns).collect();
    let drives = seats.iter().map(|seat| {
        let station = stations.iter().find(|station| station.index == seat.device).expect("each seat has its station");
        let stream = &experiment.streams[seat.stream].stream;
        let purpose = format!("{}/{}/{pass}", stream.name, seat.device);
        let context = Context {
            runtime,
            device: &station.device,
            control,
            observer,
            tally: &seat.tally,
            on_error: experiment.run.on_error,
            stream_index: seat.stream as u16,
            device_index: seat.device as u16,
            pass,
            memory,
            data: &seat.data,
        };
        let seed = Random::named(experiment.seed, &purpose).next_u64();
        let (turns, lock_step) = (turns[seat.stream].as_ref(), steps[seat.stream].as_ref());
        let ledger = station.ledger.as_ref();
        async move {
            let error = match &experiment.streams[seat.stream].script {
                None => Drive { context, stream, seed, turns, lock_step, ledger }.run().await?,
                Some(script) => Replay { context, script }.run().await?,
            };
            Some(Failure { device: seat.device, stream: seat.stream, error })
        }
    });
    // A wake-up polls the seat that it is for, not all of them: fourteen modelled disks take a third of the time.
    let mut failures: Vec<Failure> =
        drives.collect::<FuturesUnordered<_>>().filter_map(std::future::ready).collect().await;
    failures.sort_by_key(|failure| (failure.device, failure.stream));
    failures
}

/// Where the lanes of a stream meet, if it goes in lock-step. All of its seats are here: such an experiment has one runtime.
fn lock_step((stream, plan): (usize, &StreamPlan), seats: &[Seat]) -> Option<LockStep> {
    let devices = seats.iter().filter(|seat| seat.stream == stream).count() as u32;
    plan.stream.lock_step.then(|| LockStep::new(devices * plan.stream.lanes()))
}

/// Makes durable what a stream wrote, and waits for it: the row of the flush, and the failure if it failed. Who asked for it asked to be told.
pub(crate) async fn flush<D: Device>(
    runtime: &Runtime,
    device: &D,
    (stream, index, pass): (usize, usize, u16),
) -> (Row, Option<Failure>) {
    let mut row = Row::new(Operation::Flush, Phase::Measure);
    (row.stream, row.device, row.pass) = (stream as u16, index as u16, pass);
    row.submitted = runtime.now();
    row.intended = row.submitted;
    row.depth = 1;
    let reply = device.submit(Request::flush()).await;
    row.completed = runtime.now();
    let failure = reply.result.err().map(|error| Failure { device: index, stream, error });
    row.errno = failure.as_ref().map_or(0, |failure| failure.error.errno() as u16);
    (row, failure)
}

#[cfg(test)]
mod tests {
    use device::MemoryDevice;
    use device::filter::{Effect, Faulty, Rule};
    use units::Bytes;

    use super::*;

    #[test]
    fn a_flush_that_fails_is_a_failure() {
        let runtime = Runtime::simulated();
        let device = Faulty::new(&runtime, MemoryDevice::new(&runtime, Shape::new("d", Bytes::mib(1))), 1);
        device.add(Rule::new(Effect::Fail(DeviceError::NoSpace)).on(Operation::Flush).after(1).times(1));
        let (row, failure) = runtime.block_on(flush(&runtime, &device, (2, 3, 4)));
        assert_eq!((row.stream, row.device, row.pass, row.errno), (2, 3, 4, 0));
        assert!(failure.is_none());
        let (row, failure) = runtime.block_on(flush(&runtime, &device, (2, 3, 4)));
        let failure = failure.expect("it is not swallowed");
        assert_eq!((failure.stream, failure.device, &failure.error), (2, 3, &DeviceError::NoSpace));
        assert_eq!(i32::from(row.errno), DeviceError::NoSpace.errno());
    }
}
