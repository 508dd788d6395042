//! The loop that issues a stream's requests.
//!
//! Each place in the queue is a *lane*: a task that takes the next request of the shared generator, awaits it, records
//! it, and comes back. A closed loop of depth 8 is 8 lanes. An open loop is as many lanes as may be under way: the idle
//! ones stand in line, and the first takes the next arrival and sleeps until it is due. (While each slept for an
//! arrival of its own, 512 idle lanes were 512 timers, and most of the work where requests are rare.) While all are
//! busy, arrivals fall due unseen and are taken late, with their intended time intact. So neither loop allocates or
//! spawns per request, and the queue of late arrivals costs no memory, however long.
//!
//! A *pipelined* lane draws its next request when it issues the present one, and reads the sector before that next one
//! meanwhile: the cure that the authors of the rounds study found (US 6,301,640). A disk with read-ahead positions for
//! it while other disks transfer, and has it in its buffer when it is asked for. The sectors are no requests of the
//! workload: they are counted apart, and have no rows.
//!
//! Flushes that are asked for between requests ([`Flushes`]) delay the lane whose request they follow, as a process
//! waits in fsync(2). Each has a row of its own.
//!
//! A lane that has discarded a block *owes* the write of it (`discard-and-write`). Discard and write count once against
//! the limits, when the discard is made; what is owed is written at once when the discard has completed, in the same
//! phase, and also if the limits were reached meanwhile.

use std::cell::RefCell;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;

use device::{Buffer, Data, Device, DeviceError, Operation, Request};
use futures_util::future::{Either, select};
use rand::Rng;
use record::{Phase, Row};
use runtime::{Random, Resource, Signal};
use units::{Bytes, Duration, Instant};

use crate::content::Filler;
use crate::context::{Answer, Context, Observer, Tally};
use crate::lanes;
use crate::ledger::{Reading, Writing};
use crate::rules::{Pace, Window};
use crate::search::{Seeking, Step};
use crate::serial::Serial;
use crate::stream::{FILL_PAGES, PAGE};
use crate::{Ask, Clockwork, Control, Discards, Flushes, Generator, Ledger, Load, LockStep, Next, Stream, Verify};

/// One stream on one device, in one pass.
pub struct Drive<'a, D, O> {
    /// The device and the pass. Of its data writes store what [`Stream::data`] makes.
    pub context: Context<'a, D, O>,
    /// With what it is loaded.
    pub stream: &'a Stream,
    /// The seed of this stream on this device in this pass.
    pub seed: u64,
    /// The turns that lanes take, if only so many of the stream's requests may be under way; one for all of its
    /// devices.
    pub turns: Option<&'a Resource>,
    /// Where the lanes meet, if the stream goes in lock-step; one for all of its devices.
    pub lock_step: Option<&'a LockStep>,
    /// What is known of the device's contents; there if any of its streams verifies.
    pub ledger: Option<&'a Ledger>,
    /// The flushes between its requests.
    pub flushes: Flushes,
}

/// What the lanes of one stream share.
struct Shared {
    generator: Generator,
    clockwork: Option<Clockwork>,
    /// The line of idle lanes, if there is a clockwork or a search for a depth: the first of them waits for what comes.
    line: Option<Resource>,
    /// When counting ends at the latest.
    until: Instant,
    counted_requests: u64,
    counted_bytes: Bytes,
    /// Counted bytes at which it has done its part.
    most_bytes: Option<Bytes>,
    /// The limit of requests or bytes is reached.
    counted_out: bool,
    reported_done: bool,
    /// Its end is that of all.
    ends_all: bool,
    /// Its end is that of its group.
    ends_group: bool,
    /// Which stream it is.
    stream: u16,
    /// What its writes store, where it is made for each of them.
    filler: Option<Filler>,
    /// What it has done, if it has to keep up a pace.
    pace: Pace,
    /// Writes that were asked for, of all phases.
    writes: u64,
    /// From the first byte that was written since the last flush to behind the last.
    written: Option<Range<Bytes>>,
    /// A request has ended: whoever waits for that looks again.
    ended: Signal,
    /// Requests are made until all that may be under way are, where they wait to be few before.
    filling: bool,
    /// Where requests wait, if one is made at a time, or none while a flush is under way.
    single: Option<Resource>,
    /// What is under way, if requests wait for what they overlap with.
    serial: Option<Rc<Serial>>,
    /// The search for a depth, and who is told when a place in the queue is free.
    seeking: Option<(Seeking, Signal)>,
    random: Random,
}

impl Shared {
    /// Takes note of a request that was carried out, for the next writeback.
    fn has_written(&mut self, ask: &Ask) {
        if ask.operation == Operation::Write {
            let end = ask.offset + ask.length;
            let before = self.written.take().unwrap_or(ask.offset..end);
            self.written = Some(before.start.min(ask.offset)..before.end.max(end));
        }
    }

    /// The flush, with what there is to write back; none if that is nothing, as in fio.
    fn ranged(&mut self, flush: Request) -> Option<Request> {
        match (flush.writeback, self.written.take()) {
            (None, _) => Some(flush),
            (Some(steps), Some(range)) => Some(flush.with_writeback(steps, range.start, range.end - range.start)),
            (Some(_), None) => None,
        }
    }

    /// Counting is over for this stream; said to the others once.
    fn report_done(&mut self, (control, tally): (&Control, &Tally), at: Instant) {
        if !std::mem::replace(&mut self.reported_done, true) {
            tally.over.set(Some(at));
            control.stream_done(at, self.ends_all);
            if let Some(standing) = control.standing() {
                standing.leave(self.stream);
                if self.ends_group {
                    standing.end_group(self.stream, at);
                }
            }
        }
    }
}

impl<'a, D, O> Drive<'a, D, O> {
    /// A stream by itself: no turns, no lock-step, nothing known of what is on the device.
    pub fn new(context: Context<'a, D, O>, stream: &'a Stream, seed: u64) -> Drive<'a, D, O> {
        Drive { context, stream, seed, turns: None, lock_step: None, ledger: None, flushes: Flushes::NONE }
    }
}

impl<D: Device, O: Observer> Drive<'_, D, O> {
    /// Issues requests until the pass is over and all of them have completed. Returns the first error, if any.
    ///
    /// Until [`Control`] says that the pass is over, this never returns by itself, except when the device is gone or
    /// the stream stops at its limits.
    pub async fn run(&self) -> Option<DeviceError> {
        let Context { runtime, device, control, memory, .. } = self.context;
        let begin = self.begin();
        let mut random = Random::new(self.seed);
        let clockwork = match &self.stream.load {
            Load::Open { arrivals, .. } => Some(Clockwork::new(*arrivals, begin, Random::new(random.next_u64()))),
            Load::Closed { .. } => None,
        };
        let until = self.stream.limits.time.map_or(Instant::NEVER, |time| match self.stream.ramp {
            Duration::ZERO => control.counts_from() + self.stream.delay + time,
            _ => self.counts_from() + time,
        });
        let lap = self.stream.lap(device.shape().size);
        let laps = self.stream.limits.laps.map(|laps| Bytes::new(lap.get().saturating_mul(laps.into())));
        let most_bytes = [self.stream.limits.bytes, laps].into_iter().flatten().min();
        let shared = Rc::new(RefCell::new(Shared {
            generator: Generator::new(self.stream, device.shape().size, random.next_u64()),
            line: (clockwork.is_some() || self.stream.rules.search.is_some()).then(|| Resource::new(runtime, 1)),
            clockwork,
            until,
            counted_requests: 0,
            counted_bytes: Bytes::ZERO,
            most_bytes,
            // Who may ask nothing has asked it all.
            counted_out: self.stream.limits.requests == Some(0) || most_bytes == Some(Bytes::ZERO),
            reported_done: false,
            ends_all: self.stream.limits.end_all,
            ends_group: self.stream.rules.ends_group,
            stream: self.context.stream_index,
            pace: Pace::default(),
            filler: self.is_filled().then(|| self.filler(&mut random)).flatten(),
            writes: 0,
            written: None,
            ended: Signal::default(),
            filling: true,
            single: (self.stream.one_at_a_time || self.flushes.alone).then(|| Resource::new(runtime, 1)),
            serial: self.stream.rules.serial.then(Rc::default),
            seeking: self
                .stream
                .rules
                .search
                .map(|rule| (Seeking::new(rule, self.stream.lanes(), begin), Signal::default())),
            random,
        }));
        let failure = RefCell::new(None);
        // Every lane has its memory before the pass begins.
        let lanes: Vec<_> = (0..self.stream.lanes())
            .map(|_| self.lane(&shared, &failure, memory.take(self.stream.largest()), self.stamped_memory()))
            .collect();
        self.sleep_until(begin).await;
        let beside = select(Box::pin(self.time_limit(&shared)), Box::pin(self.settle()));
        select(Box::pin(lanes::all(lanes)), beside).await;
        if let Some((seeking, _)) = &shared.borrow().seeking {
            self.context.tally.searched.set(Some(seeking.searched()));
        }
        // Only an interrupt or a lost device ends the lanes before the limits do.
        shared.borrow_mut().report_done((control, self.context.tally), runtime.now());
        failure.into_inner()
    }

    /// When the first request may be made.
    fn begin(&self) -> Instant {
        let apart = self.stream.apart * u64::from(self.context.device_index);
        self.context.control.begin() + self.stream.delay + apart
    }

    /// From when on its requests count.
    fn counts_from(&self) -> Instant {
        self.context.control.counts_from().max(self.begin() + self.stream.ramp)
    }

    /// Reports the stream's time limit when it comes, even if no request is due then. Never returns: the lanes end a
    /// pass.
    async fn time_limit(&self, shared: &RefCell<Shared>) {
        let until = shared.borrow().until;
        let in_time = self.sleep_until(until).await;
        let ended = self.ended();
        if in_time || self.context.runtime.now() >= ended {
            shared.borrow_mut().report_done((self.context.control, self.context.tally), until.min(ended));
        }
        std::future::pending().await
    }

    /// When a rule ends the stream; never, mostly.
    fn ended(&self) -> Instant {
        self.context.control.ended(self.context.stream_index)
    }

    /// Looks whether the stream is steady, if it is to end then. Never returns.
    async fn settle(&self) {
        let Context { control, runtime, .. } = self.context;
        if let (Some(rule), Some(standing)) = (self.stream.rules.steady, control.standing()) {
            let (mut window, mut due) = (Window::new(rule), self.begin() + rule.ramp);
            while self.sleep_until(due).await {
                let now = runtime.now();
                if window.look(now, standing.sum(rule.with)) {
                    standing.end_settled(rule.with, now);
                }
                due = now + rule.interval;
            }
        }
        std::future::pending().await
    }

    /// Sleeps until `deadline` and says so, or until the pass is over, for this stream or for all, and says that it
    /// was.
    async fn sleep_until(&self, deadline: Instant) -> bool {
        let over = |now| self.context.control.is_over(now) || now >= self.ended();
        self.context.sleep_until(deadline, over).await
    }

    /// Waits until the streams that share requests with this one have had theirs. False if it is over meanwhile.
    async fn flow(&self, intended: &mut Instant) -> bool {
        let Context { control, stream_index, runtime, .. } = self.context;
        while let Some(rest) = control.standing().and_then(|standing| standing.flows(stream_index)) {
            if !self.sleep_until(runtime.now() + rest).await {
                return false;
            }
            *intended = runtime.now().max(*intended);
            if control.is_over(*intended) {
                return false;
            }
        }
        true
    }

    /// Waits for a place in the queue, of which a search for a depth gives out some. False if it is over meanwhile.
    async fn place(&self, shared: &RefCell<Shared>, intended: &mut Instant) -> bool {
        let take = || shared.borrow_mut().seeking.as_mut().is_none_or(|(seeking, _)| seeking.take());
        if take() {
            return true;
        }
        let (signal, line) = {
            let shared = shared.borrow();
            let (_, signal) = shared.seeking.as_ref().expect("it gives out places");
            (signal.clone(), shared.line.clone().expect("who searches has idle lanes stand in line"))
        };
        // Of a deep queue all would look at the one place of a search that begins with a depth of one.
        let _first = line.acquire(0).await;
        let over = self.sleep_until(Instant::NEVER);
        let taken = matches!(select(pin!(signal.wait_until(take)), pin!(over)).await, Either::Left(_));
        *intended = self.context.runtime.now().max(*intended);
        taken
    }

    /// A request is no longer under way that had a place.
    fn leave_place(&self, shared: &RefCell<Shared>) {
        if let Some((seeking, signal)) = &mut shared.borrow_mut().seeking {
            seeking.give_back(self.context.runtime.now());
            signal.notify();
        }
    }

    /// What the rules say to a request that was carried out.
    fn judge(&self, shared: &mut Shared, ask: &Ask, row: &Row, failure: &RefCell<Option<DeviceError>>) {
        let Context { control, stream_index, .. } = self.context;
        let Some(standing) = control.standing() else { return };
        let (rules, took) = (&self.stream.rules, row.response());
        standing.completed(stream_index, ask.length, took);
        let late = rules.longest.filter(|most| took > *most).map(|most| DeviceError::Late { took, most });
        let times = (self.begin(), row.completed);
        let step = match &mut shared.seeking {
            Some((seeking, _)) => seeking.completed(row.completed, took),
            None => Step::On,
        };
        if step != Step::On {
            standing.end_stream(stream_index, row.completed);
        }
        let beyond = rules.search.filter(|_| step == Step::Late).map(|search| search.target);
        let late = late.or(beyond.map(|most| DeviceError::Late { took, most }));
        let slow = || shared.pace.completed(rules.least.as_ref()?, (ask.operation, ask.length), times);
        if let Some(error) = late.or_else(slow) {
            failure.borrow_mut().get_or_insert(error);
            standing.end_stream(stream_index, row.completed);
        }
    }

    /// Waits until a rate that is kept to allows the next request, or until it is no longer to be made.
    async fn hold_back(&self, due: Instant) {
        let control = self.context.control;
        // Late arrivals of an open loop are still served after the end, for some time.
        let given_up = |now| match self.stream.load {
            Load::Closed { .. } => control.is_over(now) || now >= self.ended(),
            Load::Open { .. } => control.drained_until().is_some_and(|until| now >= until),
        };
        self.context.sleep_until(due, given_up).await;
    }

    async fn lane(
        &self,
        shared: &RefCell<Shared>,
        failure: &RefCell<Option<DeviceError>>,
        buffer: Buffer,
        mut stamped: Option<Buffer>,
    ) {
        let mut memory = Some(buffer);
        let mut sector =
            self.stream.pipeline.then(|| self.context.memory.take(self.context.device.shape().logical_block));
        self.issue(shared, failure, (&mut memory, &mut sector, &mut stamped)).await;
        if let Some(step) = self.lock_step {
            step.leave();
        }
        for memory in memory.into_iter().chain(sector) {
            self.context.memory.give_back(memory);
        }
    }

    /// Issues requests from one lane until the pass is over for it.
    async fn issue(
        &self,
        shared: &RefCell<Shared>,
        failure: &RefCell<Option<DeviceError>>,
        (memory, sector, stamped): (&mut Option<Buffer>, &mut Option<Buffer>, &mut Option<Buffer>),
    ) {
        let Context { runtime, device, control, .. } = self.context;
        let mut intended = self.begin();
        if let Load::Closed { .. } = self.stream.load {
            // A closed loop has no time of its own: what a busy processor keeps it from beginning is no response, as in
            // fio.
            intended = intended.max(runtime.now());
        }
        // What has been announced, and is asked next.
        let mut ahead: Option<Ask> = None;
        // The write of what was discarded, and the phase for which both count.
        let mut owed: Option<(Ask, Phase)> = None;
        // A closed loop without think time goes on from a completion, which has been: it need not look at the clock.
        let waits = !matches!(self.stream.load, Load::Closed { think: Duration::ZERO, .. });
        let (single, serial) = (shared.borrow().single.clone(), shared.borrow().serial.clone());
        loop {
            let owes = owed.take();
            let over = |shared: &mut Shared, intended: Instant| match owes {
                Some(_) => control.was_interrupted(),
                None => self.is_over(shared, intended),
            };
            if owes.is_none() {
                let line = shared.borrow().line.clone().filter(|_| shared.borrow().clockwork.is_some());
                let first = line.as_ref().map(|line| line.acquire(0));
                let first = match first {
                    Some(first) => Some(first.await),
                    None => None,
                };
                if let Some(clockwork) = &mut shared.borrow_mut().clockwork {
                    intended = clockwork.next_arrival();
                }
                if waits && !self.sleep_until(intended).await {
                    return;
                }
                drop(first);
                if let (true, Load::Closed { .. }) = (waits, &self.stream.load) {
                    intended = intended.max(runtime.now());
                }
                if let Some(step) = self.lock_step {
                    step.meet().await;
                    intended = intended.max(runtime.now());
                }
            }
            if over(&mut shared.borrow_mut(), intended) {
                return;
            }
            let turn = match self.turns {
                None => None,
                Some(turns) => {
                    let turn = turns.acquire(0).await;
                    intended = intended.max(runtime.now());
                    if over(&mut shared.borrow_mut(), intended) {
                        return;
                    }
                    Some(turn)
                }
            };
            if owes.is_none() && (!self.flow(&mut intended).await || over(&mut shared.borrow_mut(), intended)) {
                return;
            }
            if let (Some(low), None) = (self.stream.rules.low, owes) {
                self.drained(shared, low).await;
                intended = intended.max(runtime.now());
            }
            if !self.place(shared, &mut intended).await {
                return;
            }
            if over(&mut shared.borrow_mut(), intended) {
                return self.leave_place(shared);
            }
            let ask = match owes {
                Some((ask, _)) => ask,
                None => {
                    let ask = match ahead.take() {
                        Some(ask) => Some(ask),
                        None => self.draw(shared, &mut intended).await,
                    };
                    match ask {
                        Some(ask) => self.discarded(ask),
                        None => return self.leave_place(shared),
                    }
                }
            };
            if let Some(due) = control.admit((self.context.stream_index, ask.operation), || runtime.now(), ask.length) {
                self.hold_back(due).await;
                if let Load::Closed { .. } = self.stream.load {
                    // Nor is it one that the timer was late.
                    intended = intended.max(due).max(runtime.now());
                }
                if over(&mut shared.borrow_mut(), intended) {
                    return self.leave_place(shared);
                }
            }
            let alone = match &single {
                Some(single) => Some(single.acquire(0).await).filter(|_| self.stream.one_at_a_time),
                None => None,
            };
            let passage = match &serial {
                Some(serial) => Some(serial.enter(ask).await),
                None => None,
            };
            let writing = self.begin_write(&ask).await;
            let image = match &writing {
                Some(writing) => Some(self.image(writing, &ask, stamped)),
                None => self.filled(&mut shared.borrow_mut(), &ask, stamped),
            };
            let phase = match owes {
                Some((_, phase)) => phase,
                None => self.count(&mut shared.borrow_mut(), &ask, intended),
            };
            let request = self.request(&mut shared.borrow_mut(), &ask, memory, image.as_ref());
            let request = self.prioritized(&mut shared.borrow_mut(), &ask, request);
            let (request, mut row) = self.context.ask(request, phase);
            if self.stream.rules.low.is_some() && self.context.tally.under_way.get() >= self.stream.lanes() {
                shared.borrow_mut().filling = false;
            }
            let reading = self.begin_read(&ask);
            let flush = self.flush_due(&mut shared.borrow_mut(), &ask);

            if self.stream.pipeline {
                ahead = match self.next_ask(&mut shared.borrow_mut()) {
                    Next::Ask(ask) => Some(ask),
                    Next::Wait | Next::End => None,
                };
            }
            let announcement = ahead.and_then(|ask| self.announcement(&ask, sector));
            let mut announced = announcement.map(|request| Box::pin(device.submit(request)));
            let reply = match announced.take() {
                None => device.submit(request).await,
                Some(announcement) => match select(pin!(device.submit(request)), announcement).await {
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

            drop((turn, alone, passage));
            if let (Some(writing), Some(ledger)) = (writing, self.ledger) {
                ledger.end_write(writing, reply.result.is_ok());
            }
            if let Some(image) = image {
                // Some devices keep what was written, or part of it, for later.
                *stamped = image.reclaim().or_else(|| self.stamped_memory());
            }
            if let (Some(reading), Some(ledger), Ok(())) = (reading, self.ledger, &reply.result) {
                let bytes = reply.buffer.as_ref().and_then(Buffer::bytes).unwrap_or_default();
                ledger.end_read(&reading, (self.context.stream_index, self.context.pass), ask.offset, bytes);
                if self.stream.rules.ends_wrong && !ledger.is_sound() {
                    control.end_stream(self.context.stream_index, reply.stamps.completed);
                }
            }
            if let Some(buffer) = reply.buffer {
                let rest = memory.replace(buffer);
                if let (Some(whole), Some(rest)) = (memory.as_mut(), rest) {
                    whole.join(rest);
                }
            }
            let answer = self.context.answer(&mut row, intended, (reply.result, reply.stamps), failure);
            let mut think = match self.stream.load {
                Load::Closed { think, .. } => Some(think),
                Load::Open { .. } => None,
            };
            match answer {
                Answer::Gone => return self.leave_place(shared),
                Answer::Failed => self.has_ended(shared, &ask, false),
                Answer::Done => {
                    shared.borrow_mut().has_written(&ask);
                    self.has_ended(shared, &ask, true);
                    self.judge(&mut shared.borrow_mut(), &ask, &row, failure);
                    if ask.operation == Operation::Discard && self.stream.discards == Discards::BeforeWrites {
                        owed = Some((Ask { operation: Operation::Write, ..ask }, phase));
                        // The write follows at once, in an open loop, too.
                        think = Some(Duration::ZERO);
                    }
                }
            }
            let mut completed = row.completed;
            let may = matches!(answer, Answer::Done)
                && !control.was_interrupted()
                && !(self.stream.limits.stop && completed >= shared.borrow().until);
            let flush = flush.filter(|_| may).and_then(|flush| shared.borrow_mut().ranged(flush));
            if let Some(flush) = flush {
                let flush = flush.with_priority(self.stream.priorities.usual);
                let _alone = match &single {
                    Some(single) => {
                        let alone = single.acquire(0).await;
                        completed = completed.max(runtime.now());
                        Some(alone)
                    }
                    None => None,
                };
                let (request, mut row) = self.context.ask(flush, phase);
                let reply = device.submit(request).await;
                match self.context.answer(&mut row, completed, (reply.result, reply.stamps), failure) {
                    Answer::Gone => return self.leave_place(shared),
                    Answer::Done | Answer::Failed => completed = row.completed,
                }
            }
            self.leave_place(shared);
            if let Some(think) = think {
                intended = completed + think;
            }
            // Once the sector has come, the disk reads on into its buffer. Should it have failed, the request itself
            // will say so.
            if let Some(announced) = announced {
                *sector = announced.await.buffer;
            }
        }
    }

    /// Counts a request that is asked for now, and gives the flush that is to follow it.
    fn flush_due(&self, shared: &mut Shared, ask: &Ask) -> Option<Request> {
        let wrote = ask.operation == Operation::Write;
        shared.writes += u64::from(wrote);
        let last = shared.counted_out && self.stream.limits.stop;
        self.flushes.due(shared.writes, wrote).filter(|_| !last || self.flushes.after_last)
    }

    /// Whether what a write stores is made for it, and nobody verifies it.
    fn is_filled(&self) -> bool {
        let stamps = self.ledger.is_some() && self.stream.verify.is_some();
        !stamps
            && self.stream.mix.has_writes()
            && self.stream.content.as_ref().is_some_and(|content| !content.is_plain())
    }

    fn filler(&self, random: &mut Random) -> Option<Filler> {
        self.stream.content.as_ref().map(|content| Filler::new(content, Random::new(random.next_u64())))
    }

    /// What a write stores, if it is made for it.
    fn filled(&self, shared: &mut Shared, ask: &Ask, memory: &mut Option<Buffer>) -> Option<Data> {
        let filler = shared.filler.as_mut().filter(|_| ask.operation == Operation::Write)?;
        let mut memory = memory.take().expect("a lane has its memory when it asks");
        filler.fill(&mut memory.bytes_mut().expect("a lane's memory is real")[..ask.length.as_usize()]);
        Some(memory.freeze())
    }

    /// Memory for sectors that say what they are, or whatever is made for each write, if the stream writes such. It is
    /// the lane's own: other memory is shared with its neighbours, and would not come back from a write to be filled
    /// again.
    fn stamped_memory(&self) -> Option<Buffer> {
        let stamps = self.ledger.is_some() && self.stream.verify.is_some() && self.stream.mix.has_writes();
        (stamps || self.is_filled()).then(|| Buffer::zeroed(self.stream.largest()))
    }

    /// A request has ended, for which others may wait.
    fn has_ended(&self, shared: &RefCell<Shared>, ask: &Ask, succeeded: bool) {
        let is_low = self.stream.rules.low.is_some_and(|low| self.context.tally.under_way.get() <= low);
        if self.stream.behind.is_some() || is_low {
            shared.borrow_mut().generator.ended(ask, succeeded);
            let ended = shared.borrow().ended.clone();
            ended.notify();
        }
    }

    /// Waits until few enough requests are under way, if all that may be have been since, or until it is over.
    async fn drained(&self, shared: &RefCell<Shared>, low: u32) {
        let fills = || {
            let shared = &mut shared.borrow_mut();
            shared.filling |= self.context.tally.under_way.get() <= low;
            shared.filling
        };
        let ended = shared.borrow().ended.clone();
        select(pin!(ended.wait_until(fills)), pin!(self.sleep_until(Instant::NEVER))).await;
    }

    /// The next request; none at the end of a stream that reads behind its writes, or if it is over before there is
    /// one.
    async fn draw(&self, shared: &RefCell<Shared>, intended: &mut Instant) -> Option<Ask> {
        let mut next = self.next_ask(&mut shared.borrow_mut());
        if next == Next::Wait {
            let ended = shared.borrow().ended.clone();
            let looks = ended.wait_until(|| {
                next = self.next_ask(&mut shared.borrow_mut());
                next != Next::Wait
            });
            select(pin!(looks), pin!(self.sleep_until(Instant::NEVER))).await;
            *intended = self.context.runtime.now().max(*intended);
        }
        match next {
            Next::Ask(ask) => Some(ask),
            Next::Wait | Next::End => None,
        }
    }

    /// The next request of the generator. Where reads and writes keep to rates of their own, one direction does not
    /// wait for the other.
    fn next_ask(&self, shared: &mut Shared) -> Next {
        let Context { control, stream_index, runtime, .. } = self.context;
        if !control.is_throttled_apart() {
            return shared.generator.next(|_| false);
        }
        let now = runtime.now();
        shared.generator.next(|operation| control.is_held(stream_index, operation, now))
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
        Some(ledger.begin_write(self.context.pass, ask.offset, ask.length).await)
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
        let ended = self.ended();
        let until = shared.until.min(ended);
        if intended >= until {
            shared.report_done((self.context.control, self.context.tally), until);
        }
        // What was due before the end of an open loop is served late, so its being over is a matter of when a request
        // is due.
        let control = self.context.control;
        let stopped = self.stream.limits.stop && (shared.counted_out || intended >= shared.until) || intended >= ended;
        if stopped || control.is_over(intended) {
            return true;
        }
        let Some(clockwork) = &mut shared.clockwork else { return false };
        // Arrivals that were due while the pass was on are served late, but not for ever.
        let given_up = control.drained_until().is_some_and(|until| self.context.runtime.now() >= until);
        if given_up {
            let mut due = intended;
            while !control.is_over(due) {
                self.context.tally.unserved.update(|n| n + 1);
                due = clockwork.next_arrival();
            }
        }
        given_up
    }

    /// The read that makes a disk position for `ask`; none before a write, at the start of the device, or without
    /// memory.
    fn announcement(&self, ask: &Ask, sector: &mut Option<Buffer>) -> Option<Request> {
        let block = self.context.device.shape().logical_block;
        if ask.operation != Operation::Read || ask.offset < block {
            return None;
        }
        let sector = sector.take()?;
        self.context.tally.announced.update(|n| n + 1);
        Some(Request::read(ask.offset - block, sector))
    }

    /// What a request counts for that is due at `intended`. Reports when the stream has reached its limits.
    fn count(&self, shared: &mut Shared, ask: &Ask, intended: Instant) -> Phase {
        let control = self.context.control;
        let starts_up = intended < self.counts_from();
        if starts_up && self.stream.ramp.is_zero() {
            return Phase::StartUp;
        }
        if shared.counted_out || intended >= shared.until {
            return Phase::CoolDown;
        }
        shared.counted_requests += 1;
        shared.counted_bytes += ask.length;
        let limits = &self.stream.limits;
        if limits.requests.is_some_and(|limit| shared.counted_requests >= limit)
            || shared.most_bytes.is_some_and(|limit| shared.counted_bytes >= limit)
        {
            // This request is the last that counts.
            shared.counted_out = true;
            shared.report_done((control, self.context.tally), intended);
        }
        if starts_up { Phase::StartUp } else { Phase::Measure }
    }

    /// The request with the priority that it is to have.
    fn prioritized(&self, shared: &mut Shared, ask: &Ask, request: Request) -> Request {
        match self.stream.priorities.any() {
            true => request.with_priority(self.stream.priorities.of(ask, &mut shared.random)),
            false => request,
        }
    }

    /// The request of `ask`, with its memory.
    fn request(&self, shared: &mut Shared, ask: &Ask, memory: &mut Option<Buffer>, image: Option<&Data>) -> Request {
        match ask.operation {
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
                let page = match self.stream.content {
                    // A pattern begins with each write.
                    Some(_) => 0,
                    None => u64::from(shared.random.next_u32()) % FILL_PAGES,
                };
                let data = image.map(|image| image.slice(Bytes::ZERO, ask.length));
                Request::write(ask.offset, data.unwrap_or_else(|| self.context.data.slice(PAGE * page, ask.length)))
            }
        }
    }
}
