//! One pass: all streams on all devices of one runtime, from a common start to the last completion.
//!
//! This is the code that both clocks share. The live runner gives each thread its devices and a control that all
//! threads share; the simulated runner gives one runtime all devices.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use device::{Data, Device, DeviceError, Operation, Request, Shape};
use futures_util::future::{Either, select};
use rand::Rng;
use record::{Phase, Row};
use runtime::{Random, Resource, Runtime, Signal};
use units::Instant;
use workload::{Context, Control, Drive, Ledger, LockStep, Memory, Observer, Replay, Searched, StreamError, Tally};

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

/// The pairs of stream and device that an experiment makes of these devices, of all of which it is said which streams
/// run there, or fewer if `stop` is set meanwhile.
pub(crate) fn seats(
    experiment: &Experiment,
    (devices, streams): (&[usize], &[Vec<usize>]),
    memory: &dyn Memory,
    stop: &AtomicBool,
) -> Vec<Seat> {
    let mut seats = Vec::new();
    for &device in devices {
        for (stream, plan) in streams[device].iter().map(|stream| (*stream, &experiment.streams[*stream])) {
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
pub(crate) fn check(experiment: &Experiment, streams: &[usize], shape: &Shape) -> Result<(), StreamError> {
    let here: Vec<_> = streams.iter().map(|stream| &experiment.streams[*stream].stream).collect();
    for (index, stream) in here.iter().enumerate() {
        stream.check(shape)?;
        for other in &here[..index] {
            other.check_overlap(stream, shape)?;
        }
    }
    Ok(())
}

/// One pass of one runtime.
pub(crate) struct Pass<'a, D> {
    pub runtime: &'a Runtime,
    pub stations: &'a [Station<D>],
    pub seats: &'a [Seat],
    pub experiment: &'a Experiment,
    pub memory: &'a dyn Memory,
    pub number: u16,
    pub control: &'a Control,
}

impl<D: Device> Pass<'_, D> {
    /// Runs the seats until all are through or `aside` ends; rows go to `observer`. Returns the first failure of each
    /// seat that had one.
    pub fn run<O: Observer, T>(
        &self,
        observer: &RefCell<O>,
        aside: impl Future<Output = T>,
    ) -> Result<Vec<Failure>, T> {
        let Pass { runtime, stations, seats, experiment, memory, number: pass, control } = *self;
        let steps: Vec<Option<LockStep>> = (0..).zip(&experiment.streams).map(|plan| lock_step(plan, seats)).collect();
        let turns = |plan: &StreamPlan| plan.stream.turns.map(|turns| Resource::new(runtime, turns));
        let turns: Vec<Option<Resource>> = experiment.streams.iter().map(turns).collect();
        let places: HashMap<usize, usize> =
            (0..).zip(stations).map(|(place, station)| (station.index, place)).collect();
        let failures = RefCell::new(Vec::new());
        let (under_way, through) = (Cell::new(seats.len()), Signal::default());
        let crew = seats.iter().map(|seat| {
            let station = places.get(&seat.device).map(|place| &stations[*place]).expect("each seat has its station");
            let stream = &experiment.streams[seat.stream].stream;
            let purpose = format!("{}/{}/{pass}", stream.name, seat.device);
            let context = Context {
                runtime,
                device: &station.device,
                control,
                observer,
                tally: &seat.tally,
                on_error: stream.rules.on_error.unwrap_or([experiment.run.on_error; 2]),
                ignored: &stream.rules.ignored,
                ends_full: stream.rules.ends_full,
                stream_index: seat.stream as u16,
                device_index: seat.device as u16,
                pass,
                memory,
                data: &seat.data,
            };
            let seed = Random::named(experiment.seed, &purpose).next_u64();
            let (turns, lock_step) = (turns[seat.stream].as_ref(), steps[seat.stream].as_ref());
            let ledger = station.ledger.as_ref();
            let flushes = experiment.flushes(seat.stream, seat.device);
            let (failures, under_way, through) = (&failures, &under_way, &through);
            async move {
                let error = match &experiment.streams[seat.stream].script {
                    None => Drive { context, stream, seed, turns, lock_step, ledger, flushes }.run().await,
                    Some(script) => Replay { context, script }.run().await,
                };
                let failure = error.map(|error| Failure { device: seat.device, stream: seat.stream, error });
                failures.borrow_mut().extend(failure);
                under_way.set(under_way.get() - 1);
                through.notify();
            }
        });
        // A wake-up polls the seat that it is for, not all of them: fourteen modelled disks take a third of the time.
        let all = through.wait_until(|| under_way.get() == 0);
        match runtime.block_on_with(crew, select(pin!(all), pin!(aside))) {
            Either::Left(_) => {}
            Either::Right((ended, _)) => return Err(ended),
        }
        let mut failures = failures.into_inner();
        failures.sort_by_key(|failure| (failure.device, failure.stream));
        Ok(failures)
    }
}

/// What the searches for a depth came to, by stream.
pub(crate) fn searched(seats: &[Seat]) -> Vec<(usize, Searched)> {
    seats.iter().filter_map(|seat| Some((seat.stream, seat.tally.searched.get()?))).collect()
}

/// When each stream was over on each of its devices, by stream.
pub(crate) fn over(seats: &[Seat]) -> Vec<(usize, Instant)> {
    seats.iter().filter_map(|seat| Some((seat.stream, seat.tally.over.take()?))).collect()
}

/// Where the lanes of a stream meet, if it goes in lock-step. All of its seats are here: such an experiment has one
/// runtime.
fn lock_step((stream, plan): (usize, &StreamPlan), seats: &[Seat]) -> Option<LockStep> {
    let devices = seats.iter().filter(|seat| seat.stream == stream).count() as u32;
    plan.stream.lock_step.then(|| LockStep::new(devices * plan.stream.lanes()))
}

/// Makes durable what a stream wrote, and waits for it: the row of the flush, and the failure if it failed. Who asked
/// for it asked to be told.
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
