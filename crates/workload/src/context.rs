//! What every loop has that makes requests of one device in one pass, and what each of them does with a request before
//! and after.
//!
//! [`Drive`](crate::Drive) draws its requests, [`Replay`](crate::Replay) has them from a trace. How a request becomes a
//! row, when it is late, what an error does and when the loop must look around is the same for both, and stands here.

use std::cell::{Cell, RefCell};

use device::{Buffer, Data, Device, DeviceError, Operation, Request, Stamps};
use record::{Phase, Row};
use runtime::Runtime;
use units::{Bytes, Duration, Instant};

use crate::{Control, Searched};

/// Takes the rows of a run.
pub trait Observer {
    /// One request has completed. Called in order of completion within a runtime; must be quick.
    fn observe(&mut self, row: &Row);

    /// The number of the next request ([`Request::id`], [`Row::request`]): for who keeps what happens on its way under
    /// a number, too.
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
    /// End the stream; the others go on.
    #[serde(skip)]
    Leave,
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
    /// What its search for a depth has come to.
    pub searched: Cell<Option<Searched>>,
    /// When the stream was over: reached its limits, or was ended. Its last request may have completed earlier, as one
    /// that keeps to a rate waits for its end, or later.
    pub over: Cell<Option<Instant>>,
    /// Sectors that a pipelined stream has read to announce its requests.
    pub announced: Cell<u64>,
}

/// One device in one pass, as a loop sees it.
pub struct Context<'a, D, O> {
    /// The clock and the timers.
    pub runtime: &'a Runtime,
    /// What is loaded.
    pub device: &'a D,
    /// From when until when; shared with the other streams of the pass.
    pub control: &'a Control,
    /// Where rows go.
    pub observer: &'a RefCell<O>,
    /// How far the loop is.
    pub tally: &'a Tally,
    /// What an error of a read does, and one of any other request.
    pub on_error: [OnError; 2],
    /// Errors, by number, that are counted and end nothing: of a read, and of any other request.
    pub ignored: &'a [Vec<u16>; 2],
    /// A write for which there is no room ends the stream, and is no error.
    pub ends_full: bool,
    /// See [`Row::stream`].
    pub stream_index: u16,
    /// See [`Row::device`].
    pub device_index: u16,
    /// See [`Row::pass`].
    pub pass: u16,
    /// Where requests have their memory from. An engine may give memory that it has registered with the kernel.
    pub memory: &'a dyn Memory,
    /// What writes store: at least the largest request.
    pub data: &'a Data,
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

/// What became of a request, for the loop that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It was carried out.
    Done,
    /// It was not; the pass may go on all the same.
    Failed,
    /// Nor will any other be: the device is gone.
    Gone,
}

/// Every error ends something.
static NONE_IGNORED: [Vec<u16>; 2] = [Vec::new(), Vec::new()];

impl<'a, D, O> Context<'a, D, O> {
    /// The first stream on the first device in the first pass, which ends with the first error.
    pub fn new(
        runtime: &'a Runtime,
        device: &'a D,
        control: &'a Control,
        observer: &'a RefCell<O>,
        tally: &'a Tally,
        memory: &'a dyn Memory,
        data: &'a Data,
    ) -> Context<'a, D, O> {
        let (on_error, stream_index, device_index, pass) = ([OnError::Stop; 2], 0, 0, 0);
        let ignored = &NONE_IGNORED;
        Context {
            runtime,
            device,
            control,
            observer,
            tally,
            on_error,
            ignored,
            ends_full: false,
            stream_index,
            device_index,
            pass,
            memory,
            data,
        }
    }
}

impl<D: Device, O: Observer> Context<'_, D, O> {
    /// Numbers a request, counts it as under way, and begins its row.
    pub(crate) fn ask(&self, request: Request, phase: Phase) -> (Request, Row) {
        let request = request.with_id(self.observer.borrow_mut().number());
        let mut row = Row::new(request.operation, phase);
        // Four thousand million requests on, no memory has kept spans for long.
        row.request = u32::try_from(request.id).unwrap_or(0);
        // A flush moves nothing, whatever range it writes back.
        if request.operation != Operation::Flush {
            row.offset = request.offset;
            row.length = request.length.get() as u32;
        }
        row.priority = request.priority;
        (row.stream, row.device, row.pass) = (self.stream_index, self.device_index, self.pass);
        self.tally.under_way.update(|n| n + 1);
        row.depth = self.tally.under_way.get() as u16;
        (request, row)
    }

    /// The request is no longer under way: ends its row, which was meant to be asked at `intended`, hands it over, and
    /// acts on an error. The first of them is kept in `failure`.
    pub(crate) fn answer(
        &self,
        row: &mut Row,
        intended: Instant,
        (result, stamps): (Result<(), DeviceError>, Stamps),
        failure: &RefCell<Option<DeviceError>>,
    ) -> Answer {
        self.tally.under_way.update(|n| n - 1);
        row.intended = intended;
        row.submitted = stamps.submitted.max(intended);
        row.completed = stamps.completed.max(row.submitted);
        self.tally.requests.update(|n| n + 1);
        let answer = match result {
            Ok(()) => {
                self.tally.bytes.update(|n| n + u64::from(row.length));
                Answer::Done
            }
            Err(error) => {
                self.tally.errors.update(|n| n + 1);
                row.errno = error.errno() as u16;
                let gone = error == DeviceError::Gone;
                let side = usize::from(row.operation != Operation::Read);
                let ignored = self.ignored[side].contains(&row.errno);
                let full = self.ends_full && !ignored && error == DeviceError::NoSpace && side == 1;
                if !full {
                    failure.borrow_mut().get_or_insert(error);
                }
                match self.on_error[side] {
                    _ if ignored => {}
                    _ if full => self.control.end_stream(self.stream_index, self.runtime.now()),
                    OnError::Stop => self.control.interrupt(self.runtime.now()),
                    OnError::Leave => self.control.end_stream(self.stream_index, self.runtime.now()),
                    OnError::Continue => {}
                }
                if gone { Answer::Gone } else { Answer::Failed }
            }
        };
        self.observer.borrow_mut().observe(row);
        answer
    }

    /// Sleeps until `deadline` and says so, or until waiting is over and says that it was. Other threads may end a
    /// pass, so long sleeps look around now and then.
    pub(crate) async fn sleep_until(&self, deadline: Instant, over: impl Fn(Instant) -> bool) -> bool {
        const LOOK_AROUND: Duration = Duration::millis(100);
        loop {
            let now = self.runtime.now();
            if now >= deadline {
                return true;
            }
            if over(now) {
                return false;
            }
            self.runtime.sleep_until(deadline.min(now + LOOK_AROUND)).await;
        }
    }
}
