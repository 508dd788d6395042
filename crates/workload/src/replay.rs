//! Requests that were made once, made again: a trace as a workload.
//!
//! A trace says when each request was made, and that is when it is made again, whatever the device does: an open loop. So many lanes as may be under way
//! take one after the other, sleep until it is due, and ask; if all are busy, what falls due is asked late, and how late is in its row
//! (`submitted` after `intended`). As fast as possible, a request is due as soon as a lane is free.
//!
//! A thread that sleeps is woken late: by the timer's slack of 50 us, and by what the processor was doing. So for the last stretch before a request is
//! due ([`Script::awake`]) the lane does not sleep but lets others run and looks at the clock again. Under the virtual clock, which is
//! never late, that stretch is zero.

use std::cell::{Cell, RefCell};

use device::{Buffer, Data, Device, DeviceError, Operation, Request};
use futures_util::future::join_all;
use record::{Phase, Row};
use runtime::Runtime;
use units::{Bytes, Duration, Instant};

use crate::{Ask, Control, Memory, Observer, OnError, Tally};

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
    /// The clock and the timers.
    pub runtime: &'a Runtime,
    /// What is loaded.
    pub device: &'a D,
    /// With what.
    pub script: &'a Script,
    /// When it begins, and whether it is called off.
    pub control: &'a Control,
    /// Where rows go.
    pub observer: &'a RefCell<O>,
    /// How far it is.
    pub tally: &'a Tally,
    /// What an error does.
    pub on_error: OnError,
    /// See [`Row::stream`].
    pub stream_index: u16,
    /// See [`Row::device`].
    pub device_index: u16,
    /// See [`Row::pass`].
    pub pass: u16,
    /// Where reads have their memory from.
    pub memory: &'a dyn Memory,
    /// What writes store: at least the largest request.
    pub data: &'a Data,
}

impl<D: Device, O: Observer> Replay<'_, D, O> {
    /// Makes all requests, and returns the first error, if any.
    pub async fn run(&self) -> Option<DeviceError> {
        let next = Cell::new(0);
        let failure = RefCell::new(None);
        self.runtime.sleep_until(self.control.begin()).await;
        let lanes = self.script.outstanding.min(self.script.dues.len() as u32);
        join_all((0..lanes).map(|_| self.lane(&next, &failure))).await;
        self.control.stream_done(self.runtime.now());
        failure.into_inner()
    }

    async fn lane(&self, next: &Cell<usize>, failure: &RefCell<Option<DeviceError>>) {
        loop {
            let Some(due) = self.script.dues.get(next.get()) else { return };
            next.update(|n| n + 1);
            let intended = match self.script.timed {
                true => self.control.begin() + due.at,
                false => self.runtime.now(),
            };
            if !self.wait(intended).await {
                return;
            }
            if self.one(due, intended, failure).await {
                return;
            }
        }
    }

    /// Waits until a request is due; false if the replay was called off meanwhile.
    async fn wait(&self, intended: Instant) -> bool {
        const LOOK_AROUND: Duration = Duration::millis(100);
        let asleep_until = Instant::from_nanos(intended.as_nanos().saturating_sub(self.script.awake.as_nanos()));
        loop {
            let now = self.runtime.now();
            if self.control.was_interrupted() {
                return false;
            }
            if now >= intended {
                return true;
            }
            if now < asleep_until {
                self.runtime.sleep_until(asleep_until.min(now + LOOK_AROUND)).await;
            } else {
                self.runtime.yield_now().await;
            }
        }
    }

    /// Makes one request; true if the device is gone.
    async fn one(&self, due: &Due, intended: Instant, failure: &RefCell<Option<DeviceError>>) -> bool {
        let Ask { operation, offset, length } = due.ask;
        let mut row = Row::new(operation, Phase::Measure);
        (row.offset, row.length) = (offset, length.get() as u32);
        self.tally.under_way.update(|n| n + 1);
        row.depth = self.tally.under_way.get() as u16;
        let request = match operation {
            Operation::Read => Request::read(offset, self.memory.take(length)),
            Operation::Write => Request::write(offset, self.data.slice(Bytes::ZERO, length)),
            Operation::Flush => Request::flush(),
            Operation::Discard => Request::discard(offset, length),
            Operation::WriteZeroes => Request::write_zeroes(offset, length),
        };
        let reply = self.device.submit(request).await;
        self.tally.under_way.update(|n| n - 1);
        reply.buffer.into_iter().for_each(|buffer: Buffer| self.memory.give_back(buffer));
        row.intended = intended;
        row.submitted = reply.stamps.submitted.max(intended);
        row.completed = reply.stamps.completed.max(row.submitted);
        (row.stream, row.device, row.pass) = (self.stream_index, self.device_index, self.pass);
        self.tally.requests.update(|n| n + 1);
        let mut gone = false;
        match reply.result {
            Ok(()) => self.tally.bytes.update(|n| n + length.get()),
            Err(error) => {
                self.tally.errors.update(|n| n + 1);
                row.errno = error.errno() as u16;
                gone = error == DeviceError::Gone;
                failure.borrow_mut().get_or_insert(error);
                if self.on_error == OnError::Stop {
                    self.control.interrupt(self.runtime.now());
                }
            }
        }
        self.observer.borrow_mut().observe(&row);
        gone
    }
}
