//! The row: what is kept of one request.

use device::Operation;
use units::{Bytes, Duration, Instant};

/// Which part of a run a request belongs to: the one in which it was *intended* to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Phase {
    /// Load is on, caches and queues fill; not counted.
    StartUp,
    /// Counted.
    Measure,
    /// Load stays on while the last counted requests complete; not counted.
    CoolDown,
}

/// One request, as it happened. 56 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// When it was meant to start: by the arrival process (open loop), or when its place in the queue was free and its
    /// think time over (closed loop). Response times count from here, so that a stalled generator cannot hide a stalled
    /// device.
    pub intended: Instant,
    /// When the device was given it.
    pub submitted: Instant,
    /// When its completion was seen.
    pub completed: Instant,
    /// Byte address.
    pub offset: Bytes,
    /// Bytes asked for.
    pub length: u32,
    /// The number under which it left its spans, from 1 on; 0 if it left none.
    pub request: u32,
    /// Index into the run's list of streams.
    pub stream: u16,
    /// Index into the run's list of devices.
    pub device: u16,
    /// Requests of this stream under way on this device when it was submitted, itself included.
    pub depth: u16,
    /// The processor that saw the completion; for modelled runs 0.
    pub cpu: u16,
    /// 0, or the errno of the failure.
    pub errno: u16,
    /// The pass, counted from 0.
    pub pass: u16,
    /// The I/O priority that it asked for, as ioprio_set(2) writes it; 0 if none.
    pub priority: u16,
    /// What was done.
    pub operation: Operation,
    /// Which part of the run it counts for.
    pub phase: Phase,
}

const _: () = assert!(size_of::<Row>() == 56, "a row stays small: tens of millions are kept");

impl Phase {
    /// All of them, in the order of their numbers (`phase as u8`), which files rely on.
    pub const ALL: [Phase; 3] = [Phase::StartUp, Phase::Measure, Phase::CoolDown];

    /// Its name in results and files.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::StartUp => "start-up",
            Phase::Measure => "measure",
            Phase::CoolDown => "cool-down",
        }
    }
}

impl Row {
    /// A row of zeroes for an operation in a phase; the caller fills in the rest.
    pub fn new(operation: Operation, phase: Phase) -> Row {
        Row {
            intended: Instant::START,
            submitted: Instant::START,
            completed: Instant::START,
            offset: Bytes::ZERO,
            length: 0,
            request: 0,
            stream: 0,
            device: 0,
            depth: 0,
            cpu: 0,
            errno: 0,
            pass: 0,
            priority: 0,
            operation,
            phase,
        }
    }

    /// Response time: from intention to completion ("lat").
    pub fn response(&self) -> Duration {
        self.completed.since(self.intended)
    }

    /// Time before the device had it: queueing in the generator and submission ("slat").
    pub fn wait(&self) -> Duration {
        self.submitted.since(self.intended)
    }

    /// Time at the device ("clat").
    pub fn service(&self) -> Duration {
        self.completed.since(self.submitted)
    }
}
