//! The trials of the study: a process on each disk that reads without pause.
//!
//! What differs between trials is what the study varied: the number of disks, the block, the fence, the pattern. The
//! same experiments lie under `experiments/rounds`. Claims about a cause also take it away: the adapter's policy is a
//! switch.

use lab::Experiment;
use lab::System;
use machine::entry::Way;
use units::{Bytes, Duration};
use workload::{Limits, Load, Mix, Pattern, Stream};

use crate::bench::Trial;

use super::printed::LARGEST;

/// Passes of a trial of random reads, each on a machine of its own; counts are those of one.
const PASSES: u16 = 3;
/// Passes of a trial of sequential reads, which are short.
const SEQUENTIAL_PASSES: u16 = 9;
/// Passes of a trial of sequential reads of 128 KB. Each keeps the pattern that it falls into, two in three the same,
/// and what most of them do is wanted.
const PATTERN_PASSES: u16 = 45;
/// The processes are started one after the other, so far apart. Only with 128 KB, in sequence, does it matter.
pub const APART: Duration = Duration::millis(250);
/// Load is on, nothing counts; and again while counted requests complete.
const AROUND: Duration = Duration::seconds(2);
/// Counted time of random reads.
pub const RANDOM: Duration = Duration::seconds(100);
/// Counted time of sequential reads.
pub const SEQUENTIAL: Duration = Duration::seconds(15);
/// The text of [`FENCE_PART`] for a fence of zero: one sector of the buffer.
const FIRST_SECTOR: &str = "0.1953125 %";
/// The value that the fence is.
const FENCE_PART: &str = "wren-7.buffer.read-fill";
/// The switch of the adapter's policy.
const POLICY_PART: &str = "esp.gives-way";

/// A trial in words: `Reads::random(7, 64).fence_zero()`.
#[derive(Debug, Clone)]
pub struct Reads {
    disks: usize,
    block: Bytes,
    sequential: bool,
    think: Duration,
    settings: Vec<(String, String)>,
}

impl Reads {
    /// Random reads of so many KB from each of so many disks, with the fence at its maximum.
    pub fn random(disks: usize, kib: u64) -> Reads {
        Reads::of(disks, Bytes::kib(kib))
    }

    /// Random reads of that size.
    pub fn of(disks: usize, block: Bytes) -> Reads {
        Reads { disks, block, sequential: false, think: Duration::ZERO, settings: Vec::new() }
    }

    /// Sequential reads of so many KB.
    pub fn sequential(disks: usize, kib: u64) -> Reads {
        Reads { sequential: true, ..Reads::random(disks, kib) }
    }

    /// Sequential reads of one disk so far apart that each finds its block in the disk's buffer: how the study measured
    /// its bus.
    pub fn buffered(kib: u64) -> Reads {
        Reads { think: Duration::millis(300), ..Reads::sequential(1, kib) }
    }

    /// With the fence at zero.
    #[must_use]
    pub fn fence_zero(self) -> Reads {
        self.with(FENCE_PART, FIRST_SECTOR)
    }

    /// With an adapter that arbitrates for its commands as its address allows.
    #[must_use]
    pub fn without_policy(self) -> Reads {
        self.with(POLICY_PART, "false")
    }

    /// With a value changed.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Reads {
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// How many disks it reads.
    pub fn disks(&self) -> usize {
        self.disks
    }

    /// How much a read asks for.
    pub fn block(&self) -> Bytes {
        self.block
    }
}

impl Trial for Reads {
    fn experiment(&self) -> Experiment {
        let pattern = if self.sequential { Pattern::Sequential { from: Bytes::ZERO } } else { Pattern::Random };
        let measure = if self.sequential { SEQUENTIAL } else { RANDOM };
        let mut stream = Stream::closed("readers", Mix::READS, pattern, self.block, 1);
        stream.load = Load::Closed { depth: 1, think: self.think };
        stream.apart = APART;
        stream.limits = Limits { time: Some(measure), ..Limits::NONE };
        let mut experiment = Experiment::new("trial", measure, vec![stream]);
        experiment.run.passes = match self.sequential {
            true if self.block == Bytes::kib(LARGEST) => PATTERN_PASSES,
            true => SEQUENTIAL_PASSES,
            false => PASSES,
        };
        (experiment.run.start_up, experiment.run.cool_down) = (AROUND, AROUND);
        experiment.system = Some(System {
            name: "sparc20-wren7".to_owned(),
            way: Way::Raw,
            disks: (0..self.disks).map(|disk| format!("disk-0.{disk}")).collect(),
            parts: self.settings.clone(),
            spans: true,
            each: true,
        });
        experiment
    }
}
