//! A disk of which only the distributions of its times are known.
//!
//! # Theory
//! A command takes a seek, a rotational latency and its data's time under the heads, one command after the other. Seeks
//! are exponential with a given mean, latencies uniform over a revolution, and data move at a rate of reads and one of
//! writes:
//!
//! ```text
//!   E(S)   = seek + revolution / 2 + bytes / rate
//!   Var(S) = seek^2 + revolution^2 / 12            of commands of one size
//! ```
//!
//! So, alone under Poisson arrivals, it is an M/G/1 queue, and its mean wait is that of Pollaczek and Khinchine.
//! Where the data are does not matter: no layout is modelled.
//!
//! # Sources
//! K. D. Huynh and T. M. Khoshgoftaar 1994, Section 3.3: a file server's disk as a model of queues has it, whose seeks
//! are known by their mean.
//!
//! # Rejected
//! The buffer of the drive: the study counts it by a higher rate of reads.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rand::RngExt;
use runtime::Random;
use units::{Bytes, Duration, Frequency, Instant, Rate};

use crate::component::Kind;
use crate::part::{PartError, Problem, Reader};
use crate::scsi::target::BLOCK;

/// A disk with drawn times.
pub const DISK: Kind = Kind {
    name: "drawn-disk",
    on: &["scsi-adapter", "sas-hba", "sas-expander", "raid-controller"],
    fast: &[],
    build: super::drive::drawn,
};

/// What distinguishes one such disk from another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct DrawnParameters {
    /// How much it stores.
    pub capacity: Bytes,
    /// Commands that it has at a time; it works on one.
    pub queue: u32,
    /// The mean seek.
    pub seek: Duration,
    /// A revolution.
    pub revolution: Duration,
    /// Data of reads.
    pub read: Rate,
    /// Data of writes.
    pub write: Rate,
}

impl DrawnParameters {
    /// Reads a part of kind `drawn-disk`.
    pub fn read(reader: &Reader) -> Result<DrawnParameters, PartError> {
        let capacity: Bytes = reader.get("capacity")?;
        if capacity < BLOCK {
            return Err(reader.fault("capacity", Problem::OutOfRange { accepted: "a block of 512 B at least".into() }));
        }
        let speed: Frequency = reader.get("speed")?;
        if speed.get() <= 0.0 {
            let accepted = "a frequency above zero, such as \"6000 rpm\"".into();
            return Err(reader.fault("speed", Problem::OutOfRange { accepted }));
        }
        Ok(DrawnParameters {
            capacity: capacity.round_down(BLOCK),
            queue: reader.count("queue", 65_536)?,
            seek: reader.get("seek")?,
            revolution: Duration::from_seconds(1.0 / speed.get()),
            read: reader.rate("read")?,
            write: reader.rate("write")?,
        })
    }
}

/// One such disk.
pub(super) struct Drawn {
    pub parameters: DrawnParameters,
    random: RefCell<Random>,
    /// When it has done all that it was asked for.
    free: Cell<Instant>,
    /// How long all of that takes.
    work: Cell<Duration>,
}

impl Drawn {
    /// Idle. Its times are drawn by `seed`.
    pub fn new(parameters: DrawnParameters, name: &str, seed: u64) -> Rc<Drawn> {
        let random = RefCell::new(Random::named(seed, &format!("{name} times")));
        Rc::new(Drawn { parameters, random, free: Cell::default(), work: Cell::default() })
    }

    /// Serves a command that comes now, after all before it: when its data begin to move, and when they have.
    pub fn serve(&self, now: Instant, write: bool, bytes: Bytes) -> (Instant, Instant) {
        let DrawnParameters { seek, revolution, read, write: written, .. } = self.parameters;
        let random = &mut *self.random.borrow_mut();
        let exponential = -(1.0 - random.random::<f64>()).ln();
        let position = seek.scale(exponential) + revolution.scale(random.random());
        let transfer = if write { written } else { read }.time_for(bytes);
        let begins = self.free.get().max(now) + position;
        self.free.set(begins + transfer);
        self.work.set(self.work.get() + position + transfer);
        (begins, begins + transfer)
    }

    /// For how long it worked up to now: what it has accepted less what is still to come, which is without a gap.
    pub fn worked(&self, now: Instant) -> Duration {
        self.work.get() - Duration::nanos(self.free.get().as_nanos().saturating_sub(now.as_nanos()))
    }
}
