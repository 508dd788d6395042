//! Requests that were made once, made again: a trace as a workload.
//!
//! A trace says when each request was made, and that is when it is made again, whatever the device does: an open loop.
//! So many lanes as may be under way take one after the other, sleep until it is due, and ask; if all are busy, what
//! falls due is asked late, and how late is in its row (`submitted` after `intended`). As fast as possible, a request
//! is due as soon as a lane is free.
//!
//! A thread that sleeps is woken late: by the timer's slack of 50 us, and by what the processor was doing. So for the
//! last stretch before a request is due ([`Script::awake`]) the lane does not sleep but lets others run and looks at
//! the clock again. Under the virtual clock, which is never late, that stretch is zero.

use std::cell::{Cell, RefCell};

use device::{Buffer, Device, DeviceError, Operation, Request};
use record::Phase;
use units::{Bytes, Duration, Instant};

use crate::Ask;
use crate::context::{Answer, Context, Observer};
use crate::lanes;

/// A request of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// From the beginning of the replay.
    pub at: Duration,
    /// What is asked.
    pub ask: Ask,
}

/// What one device is asked, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// In order of time.
    pub dues: Vec<Due>,
    /// At their times; otherwise as fast as possible.
    pub timed: bool,
    /// At most so many are under way.
    pub outstanding: u32,
    /// How long before a request is due its lane stays awake. Zero under the virtual clock.
    pub awake: Duration,
}

/// One script on one device.
pub struct Replay<'a, D, O> {
    /// The device and the pass.
    pub context: Context<'a, D, O>,
    /// What it is asked.
    pub script: &'a Script,
}

impl<D: Device, O: Observer> Replay<'_, D, O> {
    /// Makes all requests, and returns the first error, if any.
    pub async fn run(&self) -> Option<DeviceError> {
        let Context { runtime, control, .. } = self.context;
        let next = Cell::new(0);
        let failure = RefCell::new(None);
        runtime.sleep_until(control.begin()).await;
        let lanes = self.script.outstanding.min(self.script.dues.len() as u32);
        lanes::all((0..lanes).map(|_| self.lane(&next, &failure))).await;
        control.stream_done(runtime.now(), false);
        failure.into_inner()
    }

    async fn lane(&self, next: &Cell<usize>, failure: &RefCell<Option<DeviceError>>) {
        loop {
            let Some(due) = self.script.dues.get(next.get()) else { return };
            next.update(|n| n + 1);
            let intended = match self.script.timed {
                true => self.context.control.begin() + due.at,
                false => self.context.runtime.now(),
            };
            if !self.wait(intended).await {
                return;
            }
            if self.one(due, intended, failure).await == Answer::Gone {
                return;
            }
        }
    }

    /// Waits until a request is due; false if the replay was called off meanwhile.
    async fn wait(&self, intended: Instant) -> bool {
        let Context { runtime, control, .. } = self.context;
        let asleep_until = Instant::from_nanos(intended.as_nanos().saturating_sub(self.script.awake.as_nanos()));
        self.context.sleep_until(asleep_until, |_| control.was_interrupted()).await;
        while !control.was_interrupted() {
            if runtime.now() >= intended {
                return true;
            }
            runtime.yield_now().await;
        }
        false
    }

    /// Makes one request.
    async fn one(&self, due: &Due, intended: Instant, failure: &RefCell<Option<DeviceError>>) -> Answer {
        let Context { device, memory, data, .. } = self.context;
        let Ask { operation, offset, length } = due.ask;
        let request = match operation {
            Operation::Read => Request::read(offset, memory.take(length)),
            Operation::Write => Request::write(offset, data.slice(Bytes::ZERO, length)),
            Operation::Flush => Request::flush(),
            Operation::Discard => Request::discard(offset, length),
            Operation::WriteZeroes => Request::write_zeroes(offset, length),
        };
        let (request, mut row) = self.context.ask(request, Phase::Measure);
        let reply = device.submit(request).await;
        reply.buffer.into_iter().for_each(|buffer: Buffer| memory.give_back(buffer));
        self.context.answer(&mut row, intended, (reply.result, reply.stamps), failure)
    }
}
