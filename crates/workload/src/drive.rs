//! The loop that issues a stream's requests.
//!
//! Each place in the queue is a *lane*: a task that takes the next request of the shared generator, awaits it, records it, and
//! comes back. A closed loop of depth 8 is 8 lanes. An open loop is as many lanes as may be under way: an idle lane takes the next
//! arrival and sleeps until it is due; while all are busy, arrivals fall due unseen and are taken late, with their intended time
//! intact. So neither loop allocates or spawns per request, and the queue of late arrivals costs no memory, however long.
//!
//! A *pipelined* lane draws its next request when it issues the present one, and reads the sector before that next one meanwhile: the cure
//! that the authors of the rounds study found (US 6,301,640). A disk with read-ahead positions for it while other disks transfer, and has it
//! in its buffer when it is asked for. The sectors are no requests of the workload: they are counted apart, and have no rows.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;

use device::{Buffer, Data, Device, DeviceError, Operation, Request};
use futures_util::future::{Either, join_all, select};
use rand::Rng;
use record::{Phase, Row};
use runtime::{Random, Resource, Runtime};
use units::{Bytes, Duration, Instant};

use crate::ledger::{Reading, Writing};
use crate::stream::{FILL_PAGES, PAGE};
use crate::{Ask, Clockwork, Control, Discards, Generator, Ledger, Load, LockStep, Stream, Verify};

/// Takes the rows of a run.
pub trait Observer {
    /// One request has completed. Called in order of completion within a runtime; must be quick.
    fn observe(&mut self, row: &Row);

    /// The number of the next request ([`Request::id`], [`Row::request`]): for who keeps what happens on its way under a number, too.
    fn number(&mut self) -> u64 {
        0
    }
}

impl<F: FnMut(&Row)> Observer for F {
    fn observe(&mut self, row: &Row) {
        self(row);
    }
}

/// What to do when a request fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnError {
    /// End the run; what was recorded stays.
    Stop,
    /// Count it and go on. A device that is gone is left alone all the same.
    Continue,
}

/// How far a stream is, for progress displays; updated with each completion.
#[derive(Debug, Default)]
pub struct Tally {
    /// Completed requests, of all phases.
    pub requests: Cell<u64>,
    /// Bytes of those that succeeded.
    pub bytes: Cell<u64>,
    /// Those that failed.
    pub errors: Cell<u64>,
    /// Requests under way.
    pub under_way: Cell<u32>,
    /// Arrivals of an open loop that were due but never issued, because the device was too far behind.
    pub unserved: Cell<u64>,
    /// Sectors that a pipelined stream has read to announce its requests.
    pub announced: Cell<u64>,
}

/// One stream on one device, in one pass.
pub struct Drive<'a, D, O> {
    /// The clock and the timers.
    pub runtime: &'a Runtime,
    /// What is loaded.
    pub device: &'a D,
    /// With what.
    pub stream: &'a Stream,
    /// From when until when; shared with the other streams of the pass.
    pub control: &'a Control,
    /// Where rows go.
    pub observer: &'a RefCell<O>,
    /// How far it is.
    pub tally: &'a Tally,
    /// What an error does.
    pub on_error: OnError,
    /// The numbers that go into the rows.
    pub stream_index: u16,
    /// See [`Row::device`].
    pub device_index: u16,
    /// See [`Row::pass`].
    pub pass: u16,
    /// The seed of this stream on this device in this pass.
    pub seed: u64,
    /// Where lanes have their memory from. An engine may give memory that it has registered with the kernel.
    pub memory: &'a dyn Memory,
    /// What writes store, as [`Stream::data`] makes it.
    pub data: &'a Data,
    /// The turns that lanes take, if only so many of the stream's requests may be under way; one for all of its devices.
    pub turns: Option<&'a Resource>,
    /// Where the lanes meet, if the stream goes in lock-step; one for all of its devices.
    pub lock_step: Option<&'a LockStep>,
    /// What is known of the device's contents; there if any of its streams verifies.
    pub ledger: Option<&'a Ledger>,
}

/// Memory for payloads, lent for a pass.
pub trait Memory {
    /// A buffer of `size` bytes.
    fn take(&self, size: Bytes) -> Buffer;
    /// A buffer that is no longer needed.
    fn give_back(&self, buffer: Buffer);
}

/// Memory from the heap, where it goes back to.
pub struct Heap;

impl Memory for Heap {
    fn take(&self, size: Bytes) -> Buffer {
        Buffer::zeroed(size)
    }
    fn give_back(&self, _: Buffer) {}
}

/// No memory: for simulations of timing, in which no bytes move.
pub struct Phantoms;

impl Memory for Phantoms {
    fn take(&self, size: Bytes) -> Buffer {
        Buffer::phantom(size)
    }
    fn give_back(&self, _: Buffer) {}
}

/// What the lanes of one stream share.
struct Shared {
    generator: Generator,
    clockwork: Option<Clockwork>,
    /// When counting ends at the latest.
    until: Instant,
    counted_requests: u64,
    counted_bytes: Bytes,
    /// Counted bytes at which it has done its part.
    most_bytes: Option<Bytes>,
    /// The limit of requests or bytes is reached.
    counted_out: bool,
    reported_done: bool,
    random: Random,
}

impl Shared {
    /// Counting is over for this stream; said to the others once.
    fn report_done(&mut self, control: &Control, at: Instant) {
        if !std::mem::replace(&mut self.reported_done, true) {
            control.stream_done(at);
        }
    }
}

impl<D: Device, O: Observer> Drive<'_, D, O> {
    /// Issues requests until the pass is over and all of them have completed. Returns the first error, if any.
    ///
    /// Until [`Control`] says that the pass is over, this never returns by itself, except when the device is gone or the stream stops at its limits.
    pub async fn run(&self) -> Option<DeviceError> {
        let begin = self.begin();
        let mut random = Random::new(self.seed);
        let clockwork = match &self.stream.load {
            Load::Open { arrivals, .. } => Some(Clockwork::new(*arrivals, begin, Random::new(random.next_u64()))),
            Load::Closed { .. } => None,
        };
        let until = self
            .stream
            .limits
            .time
            .map_or(Instant::NEVER, |time| self.control.counts_from() + self.stream.delay + time);
        let lap = self.stream.lap(self.device.shape().size);
        let laps = self.stream.limits.laps.map(|laps| Bytes::new(lap.get().saturating_mul(laps.into())));
        let most_bytes = [self.stream.limits.bytes, laps].into_iter().flatten().min();
        let shared = Rc::new(RefCell::new(Shared {
            generator: Generator::new(self.stream, self.device.shape().size, random.next_u64()),
            clockwork,
            until,
            counted_requests: 0,
            counted_bytes: Bytes::ZERO,
            most_bytes,
            counted_out: false,
            reported_done: false,
            random,
        }));
        let failure = RefCell::new(None);
        // Every lane has its memory before the pass begins.
        let lanes: Vec<_> = (0..self.stream.lanes())
            .map(|_| self.lane(&shared, &failure, self.memory.take(self.stream.largest()), self.stamped_memory()))
            .collect();
        self.sleep_until(begin).await;
        select(Box::pin(join_all(lanes)), Box::pin(self.time_limit(&shared))).await;
        // Only an interrupt or a lost device ends the lanes before the limits do.
        shared.borrow_mut().report_done(self.control, self.runtime.now());
        failure.into_inner()
    }

    /// When the first request may be made.
    fn begin(&self) -> Instant {
        self.control.begin() + self.stream.delay
    }

    /// Reports the stream's time limit when it comes, even if no request is due then. Never returns: the lanes end a pass.
    async fn time_limit(&self, shared: &RefCell<Shared>) {
        let until = shared.borrow().until;
        if self.sleep_until(until).await {
            shared.borrow_mut().report_done(self.control, until);
        }
        std::future::pending().await
    }

    /// Sleeps until `deadline` and says so, or until the pass is over and says that it was. Other threads may end a pass, so
    /// long sleeps look around now and then.
    async fn sleep_until(&self, deadline: Instant) -> bool {
        const LOOK_AROUND: Duration = Duration::millis(100);
        loop {
            let now = self.runtime.now();
            if now >= deadline {
                return true;
            }
            if self.control.is_over(now) {
                return false;
            }
            self.runtime.sleep_until(deadline.min(now + LOOK_AROUND)).await;
        }
    }

    /// Waits until a rate that is kept to allows the next request, or until it is no longer to be made.
    async fn hold_back(&self, due: Instant) {
        const LOOK_AROUND: Duration = Duration::millis(100);
        loop {
            let now = self.runtime.now();
            // Late arrivals of an open loop are still served after the end, for some time.
            let given_up = match self.stream.load {
                Load::Closed { .. } => self.control.is_over(now),
                Load::Open { .. } => self.control.drained_until().is_some_and(|until| now >= until),
            };
            if now >= due || given_up {
                return;
            }
            self.runtime.sleep_until(due.min(now + LOOK_AROUND)).await;
        }
    }

    async fn lane(
        &self,
        shared: &RefCell<Shared>,
        failure: &RefCell<Option<DeviceError>>,
        buffer: Buffer,
        mut stamped: Option<Buffer>,
    ) {
        let mut memory = Some(buffer);
        let mut sector = self.stream.pipeline.then(|| self.memory.take(self.device.shape().logical_block));
        self.issue(shared, failure, (&mut memory, &mut sector, &mut stamped)).await;
        if let Some(step) = self.lock_step {
            step.leave();
        }
        for memory in memory.into_iter().chain(sector) {
            self.memory.give_back(memory);
        }
    }

    /// Issues requests from one lane until the pass is over for it.
    async fn issue(
        &self,
        shared: &RefCell<Shared>,
        failure: &RefCell<Option<DeviceError>>,
        (memory, sector, stamped): (&mut Option<Buffer>, &mut Option<Buffer>, &mut Option<Buffer>),
    ) {
        let mut intended = self.begin();
        // What has been announced, and is asked next.
        let mut ahead: Option<Ask> = None;
        // A closed loop without think time goes on from a completion, which has been: it need not look at the clock.
        let waits = !matches!(self.stream.load, Load::Closed { think: Duration::ZERO, .. });
        loop {
            if let Some(clockwork) = &mut shared.borrow_mut().clockwork {
                intended = clockwork.next_arrival();
            }
            if waits && !self.sleep_until(intended).await {
                return;
            }
            if let Some(step) = self.lock_step {
                step.meet().await;
                intended = intended.max(self.runtime.now());
            }
            if self.is_over(&mut shared.borrow_mut(), intended) {
                return;
            }
            let turn = match self.turns {
                None => None,
                Some(turns) => {
                    let turn = turns.acquire(0).await;
                    intended = intended.max(self.runtime.now());
                    if self.is_over(&mut shared.borrow_mut(), intended) {
                        return;
                    }
                    Some(turn)
                }
            };
            let ask = ahead.take().unwrap_or_else(|| self.discarded(shared.borrow_mut().generator.next_ask()));
            if let Some(due) = self.control.admit(self.stream_index, || self.runtime.now(), ask.length) {
                self.hold_back(due).await;
                if let Load::Closed { .. } = self.stream.load {
                    intended = intended.max(due);
                }
                if self.is_over(&mut shared.borrow_mut(), intended) {
                    return;
                }
            }
            let asked = ask;
            let writing = self.begin_write(&ask).await;
            let image = writing.as_ref().map(|writing| self.image(writing, &ask, stamped));
            let (request, phase) = self.next_request(&mut shared.borrow_mut(), ask, memory, image.as_ref(), intended);
            let request = request.with_id(self.observer.borrow_mut().number());
            let reading = self.begin_read(&ask);
            let mut row = Row::new(request.operation, phase);
            // Four thousand million requests on, no memory has kept spans for long.
            row.request = u32::try_from(request.id).unwrap_or(0);
            row.offset = request.offset;
            row.length = request.length.get() as u32;
            self.tally.under_way.update(|n| n + 1);
            row.depth = self.tally.under_way.get() as u16;

            if self.stream.pipeline {
                ahead = Some(shared.borrow_mut().generator.next_ask());
            }
            let announcement = ahead.and_then(|ask| self.announcement(&ask, sector));
            let mut announced = announcement.map(|request| Box::pin(self.device.submit(request)));
            let reply = match announced.take() {
                None => self.device.submit(request).await,
                Some(announcement) => match select(pin!(self.device.submit(request)), announcement).await {
                    Either::Left((reply, rest)) => {
                        announced = Some(rest);
                        reply
                    }
                    Either::Right((answer, demand)) => {
                        *sector = answer.buffer;
                        demand.await
                    }
                },
            };

            drop(turn);
            self.tally.under_way.update(|n| n - 1);
            if let (Some(writing), Some(ledger)) = (writing, self.ledger) {
                ledger.end_write(writing, reply.result.is_ok());
                // Some devices keep what was written, or part of it, for later.
                *stamped = image.and_then(Data::reclaim).or_else(|| self.stamped_memory());
            }
            if let (Some(reading), Some(ledger), Ok(())) = (reading, self.ledger, &reply.result) {
                let bytes = reply.buffer.as_ref().and_then(Buffer::bytes).unwrap_or_default();
                ledger.end_read(&reading, (self.stream_index, self.pass), asked.offset, bytes);
            }
            if let Some(buffer) = reply.buffer {
                let rest = memory.replace(buffer);
                if let (Some(whole), Some(rest)) = (memory.as_mut(), rest) {
                    whole.join(rest);
                }
            }
            row.intended = intended;
            row.submitted = reply.stamps.submitted.max(intended);
            row.completed = reply.stamps.completed.max(row.submitted);
            row.stream = self.stream_index;
            row.device = self.device_index;
            row.pass = self.pass;
            self.account(&mut row, reply.result.as_ref().err());
            if let Err(error) = reply.result {
                let gone = error == DeviceError::Gone;
                failure.borrow_mut().get_or_insert(error);
                if self.on_error == OnError::Stop {
                    self.control.interrupt(self.runtime.now());
                }
                if gone {
                    return;
                }
            } else {
                shared.borrow_mut().generator.completed(&asked);
                if asked.operation == Operation::Discard && self.stream.discards == Discards::BeforeWrites {
                    ahead = Some(Ask { operation: Operation::Write, ..asked });
                }
            }
            if let Load::Closed { think, .. } = self.stream.load {
                intended = row.completed + think;
            }
            // Once the sector has come, the disk reads on into its buffer. Should it have failed, the request itself will say so.
            if let Some(announced) = announced {
                *sector = announced.await.buffer;
            }
        }
    }

    /// Memory for sectors that say what they are, if the stream writes such. It is the lane's own: other memory is shared with its neighbours, and
    /// would not come back from a write to be filled again.
    fn stamped_memory(&self) -> Option<Buffer> {
        let stamps = self.ledger.is_some() && self.stream.verify.is_some() && self.stream.mix.has_writes();
        stamps.then(|| Buffer::zeroed(self.stream.sizes.largest()))
    }

    /// The request in whose place or before which the stream makes a discard.
    fn discarded(&self, ask: Ask) -> Ask {
        match (self.stream.discards, ask.operation) {
            (Discards::Only | Discards::BeforeWrites, Operation::Write) => Ask { operation: Operation::Discard, ..ask },
            _ => ask,
        }
    }

    /// Begins a write in the ledger, when it may.
    async fn begin_write(&self, ask: &Ask) -> Option<Writing> {
        let ledger = self.ledger.filter(|_| self.stream.verify.is_some() && ask.operation == Operation::Write)?;
        Some(ledger.begin_write(self.pass, ask.offset, ask.length).await)
    }

    /// What a write stores that the ledger knows of.
    fn image(&self, writing: &Writing, ask: &Ask, stamped: &mut Option<Buffer>) -> Data {
        let ledger = self.ledger.expect("who writes in a ledger has one");
        let mut memory = stamped.take().expect("a lane has its memory when it asks");
        let bytes = memory.bytes_mut().expect("a lane's memory is real");
        ledger.fill(writing, ask.offset, &mut bytes[..ask.length.as_usize()]);
        memory.freeze()
    }

    /// Begins a read in the ledger, if it is to be checked.
    fn begin_read(&self, ask: &Ask) -> Option<Reading> {
        let checks =
            matches!(self.stream.verify, Some(Verify::Reads | Verify::End)) && ask.operation == Operation::Read;
        self.ledger.filter(|_| checks).map(|ledger| ledger.begin_read(ask.offset, ask.length))
    }

    /// True if the request that is due at `intended` is no longer to be made.
    fn is_over(&self, shared: &mut Shared, intended: Instant) -> bool {
        if intended >= shared.until {
            shared.report_done(self.control, shared.until);
        }
        // What was due before the end of an open loop is served late, so its being over is a matter of when a request is due.
        let stopped = self.stream.limits.stop && (shared.counted_out || intended >= shared.until);
        if stopped || self.control.is_over(intended) {
            return true;
        }
        let Some(clockwork) = &mut shared.clockwork else { return false };
        // Arrivals that were due while the pass was on are served late, but not for ever.
        let given_up = self.control.drained_until().is_some_and(|until| self.runtime.now() >= until);
        if given_up {
            let mut due = intended;
            while !self.control.is_over(due) {
                self.tally.unserved.update(|n| n + 1);
                due = clockwork.next_arrival();
            }
        }
        given_up
    }

    /// The read that makes a disk position for `ask`; none before a write, at the start of the device, or without memory.
    fn announcement(&self, ask: &Ask, sector: &mut Option<Buffer>) -> Option<Request> {
        let block = self.device.shape().logical_block;
        if ask.operation != Operation::Read || ask.offset < block {
            return None;
        }
        let sector = sector.take()?;
        self.tally.announced.update(|n| n + 1);
        Some(Request::read(ask.offset - block, sector))
    }

    /// The request of `ask`, with its memory, and what it counts for. Reports when the stream has reached its limits.
    fn next_request(
        &self,
        shared: &mut Shared,
        ask: Ask,
        memory: &mut Option<Buffer>,
        image: Option<&Data>,
        intended: Instant,
    ) -> (Request, Phase) {
        let phase = if intended < self.control.counts_from() {
            Phase::StartUp
        } else if shared.counted_out || intended >= shared.until {
            Phase::CoolDown
        } else {
            Phase::Measure
        };
        if phase == Phase::Measure {
            shared.counted_requests += 1;
            shared.counted_bytes += ask.length;
            let limits = &self.stream.limits;
            if limits.requests.is_some_and(|limit| shared.counted_requests >= limit)
                || shared.most_bytes.is_some_and(|limit| shared.counted_bytes >= limit)
            {
                // This request is the last that counts.
                shared.counted_out = true;
                shared.report_done(self.control, intended);
            }
        }
        let request = match ask.operation {
            Operation::Read => {
                let mut buffer = memory.take().expect("a lane has its memory when it asks");
                if buffer.len() > ask.length {
                    let asked = buffer.split_to(ask.length);
                    *memory = Some(std::mem::replace(&mut buffer, asked));
                }
                Request::read(ask.offset, buffer)
            }
            Operation::Discard => Request::discard(ask.offset, ask.length),
            _ => {
                let page = u64::from(shared.random.next_u32()) % FILL_PAGES;
                let data = image.map(|image| image.slice(Bytes::ZERO, ask.length));
                Request::write(ask.offset, data.unwrap_or_else(|| self.data.slice(PAGE * page, ask.length)))
            }
        };
        (request, phase)
    }

    fn account(&self, row: &mut Row, error: Option<&DeviceError>) {
        self.tally.requests.update(|n| n + 1);
        match error {
            None => self.tally.bytes.update(|n| n + u64::from(row.length)),
            Some(error) => {
                self.tally.errors.update(|n| n + 1);
                row.errno = error.errno() as u16;
            }
        }
        self.observer.borrow_mut().observe(row);
    }
}
