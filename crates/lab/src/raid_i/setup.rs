//! The trials of the study.
//!
//! A trial is an [`Experiment`], the same as its file under `experiments/raid-i` holds; here it is put together in
//! words, as the rows of the study ask for it.

use machine::entry::Way;
use units::{Bytes, Duration};
use workload::{Limits, Mix, Pattern, Region, Stream};

use crate::bench::Trial;
use crate::experiment::Experiment;
use crate::system::System;

/// The strings of the first adapters, one each: where the study put disks "round-robin over strings, each on its own
/// adapter".
const FIRST_STRINGS: [usize; 4] = [0, 2, 4, 6];

/// Sequential trials stay in the middle of each disk, within so much of it, as the study's short runs did: the zones
/// differ.
const STRETCH: Region = Region { start: Bytes::mib(152), length: Some(Bytes::mib(12)) };

/// Passes of a trial, each on a machine of its own.
const PASSES: u16 = 3;
/// Load is on, nothing counts.
const START_UP: Duration = Duration::seconds(1);
/// Counted time of a pass: about as many requests as the study's traces have, on the disks that are slowest.
const SEQUENTIAL: Duration = Duration::seconds(5);
/// See [`SEQUENTIAL`]; random requests differ more.
const RANDOM: Duration = Duration::seconds(15);
/// Load stays on while counted requests complete.
const COOL_DOWN: Duration = Duration::seconds(1);

/// A trial in words: `Setup::read(32).sprite().disks(4)`.
#[derive(Debug, Clone)]
pub struct Setup {
    write: bool,
    request: Bytes,
    random: bool,
    way: Way,
    disks: Vec<String>,
    depth: u32,
    settings: Vec<(String, String)>,
}

impl Setup {
    /// One disk, through the no-copy call, sequential, one process.
    pub fn new(write: bool, kib: f64) -> Setup {
        Setup {
            write,
            request: Bytes::new((kib * 1024.0) as u64),
            random: false,
            way: Way::NoCopy,
            disks: vec!["disk-0.0".to_owned()],
            depth: 1,
            settings: Vec::new(),
        }
    }
    /// Reads of so many KB.
    pub fn read(kib: u64) -> Setup {
        Setup::new(false, kib as f64)
    }
    /// Writes of so many KB.
    pub fn write(kib: u64) -> Setup {
        Setup::new(true, kib as f64)
    }
    /// Anywhere on the disk.
    #[must_use]
    pub fn random(mut self) -> Setup {
        self.random = true;
        self
    }
    /// As raw requests of a process.
    #[must_use]
    pub fn sprite(mut self) -> Setup {
        self.way = Way::Raw;
        self
    }
    /// To the array of the four disks of a string that the system's file describes, from so many processes.
    #[must_use]
    pub fn raid(mut self, processes: u32) -> Setup {
        self.way = Way::Array;
        self.depth = processes;
        self.disks(4)
    }
    /// So many disks of one string.
    #[must_use]
    pub fn disks(self, disks: usize) -> Setup {
        let spots: Vec<_> = (0..disks).map(|disk| (0, disk)).collect();
        self.at(&spots)
    }
    /// So many disks round-robin over so many strings, each on its own adapter.
    #[must_use]
    pub fn spread(self, disks: usize, strings: usize) -> Setup {
        let spots: Vec<_> = (0..disks).map(|disk| (FIRST_STRINGS[disk % strings], disk / strings)).collect();
        self.at(&spots)
    }
    /// The disks given: string and place.
    #[must_use]
    pub fn at(mut self, disks: &[(usize, usize)]) -> Setup {
        self.disks = disks.iter().map(|(string, disk)| format!("disk-{string}.{disk}")).collect();
        self
    }
    /// How many disks it uses.
    pub fn used(&self) -> usize {
        self.disks.len()
    }
    /// How much a request is.
    pub fn request(&self) -> Bytes {
        self.request
    }
    /// So many processes for each disk.
    #[must_use]
    pub fn processes(mut self, processes: u32) -> Setup {
        self.depth = processes;
        self
    }
    /// Asynchronous issue: so many requests ahead.
    #[must_use]
    pub fn ahead(mut self, ahead: u32) -> Setup {
        self.depth = 1 + ahead;
        self
    }
    /// With a value changed.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<String>) -> Setup {
        self.settings.push((key.to_owned(), value.into()));
        self
    }
    /// With a buffer full ratio, given in KB of the 32 KB buffer.
    #[must_use]
    pub fn full_ratio(self, kib: f64) -> Setup {
        self.with("wren-iv.buffer.read-fill", format!("{} %", kib / 32.0 * 100.0))
    }
    /// Without read-ahead.
    #[must_use]
    pub fn no_read_ahead(self) -> Setup {
        self.with("wren-iv.read-ahead.until", "none")
    }
}

impl Trial for Setup {
    fn experiment(&self) -> Experiment {
        let mix = if self.write { Mix::WRITES } else { Mix::READS };
        let pattern = if self.random { Pattern::Random } else { Pattern::Sequential { from: Bytes::ZERO } };
        let mut stream = Stream::closed("load", mix, pattern, self.request, self.depth);
        if !self.random {
            stream.region = STRETCH;
        }
        if self.way == Way::Array {
            // Requests are aligned on stripe unit boundaries.
            stream.align = Bytes::kib(32);
        }
        let measure = if self.random { RANDOM } else { SEQUENTIAL };
        stream.limits = Limits { time: Some(measure), ..Limits::NONE };
        let mut experiment = Experiment::new("trial", measure, vec![stream]);
        experiment.run.passes = PASSES;
        (experiment.run.start_up, experiment.run.cool_down) = (START_UP, COOL_DOWN);
        experiment.system = Some(System {
            name: "raid-i".to_owned(),
            way: self.way,
            disks: self.disks.clone(),
            parts: self.settings.clone(),
            spans: true,
            each: self.way != Way::Array,
        });
        experiment
    }
}
