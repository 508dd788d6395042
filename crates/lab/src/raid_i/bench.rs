//! The trials of the study, each run once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use machine::part::PartError;
use machine::system::Kit;
use machine::trial::{self, Issue, Outcome, Pattern, Trial};
use units::{Bytes, Duration};

/// The strings of the first adapters, one each: where the study put disks "round-robin over strings, each on its own adapter".
const FIRST_STRINGS: [usize; 4] = [0, 2, 4, 6];

/// Requests that are counted in each trial.
const REQUESTS: u64 = 1500;

/// Sequential trials stay within so much of each disk, as the study's short runs did: the zones differ.
const STRETCH: Bytes = Bytes::mib(12);

/// Runs trials and remembers what came of them.
#[derive(Default)]
pub struct Bench {
    outcomes: RefCell<HashMap<Trial, Rc<Outcome>>>,
    settings: Vec<(String, String)>,
}

/// A trial in words: `Setup::reads(32).sequential()...`.
#[derive(Debug, Clone)]
pub struct Setup(pub Trial);

impl Setup {
    /// One disk, through the no-copy call, sequential, one process.
    pub fn new(write: bool, kib: f64) -> Setup {
        Setup(Trial {
            system: "raid-i".into(),
            settings: Vec::new(),
            disks: vec![(0, 0)],
            issue: Issue::NoCopy,
            write,
            pattern: Pattern::Sequential,
            request: Bytes::new((kib * 1024.0) as u64),
            processes: 1,
            ahead: 0,
            requests: REQUESTS,
            warm_up: 20,
            seed: 1,
            spans: true,
        })
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
        self.0.pattern = Pattern::Random;
        self
    }
    /// As raw requests of a process.
    #[must_use]
    pub fn sprite(mut self) -> Setup {
        self.0.issue = Issue::Raw;
        self
    }
    /// To a level 5 array of the four disks of a string, from so many processes.
    #[must_use]
    pub fn raid(mut self, processes: u32) -> Setup {
        self.0.issue = Issue::Raid(Bytes::kib(32));
        self.0.processes = processes;
        self.disks(4)
    }
    /// So many disks of one string.
    #[must_use]
    pub fn disks(mut self, disks: usize) -> Setup {
        self.0.disks = (0..disks).map(|disk| (0, disk)).collect();
        self
    }
    /// So many disks round-robin over so many strings, each on its own adapter.
    #[must_use]
    pub fn spread(mut self, disks: usize, strings: usize) -> Setup {
        self.0.disks = (0..disks).map(|disk| (FIRST_STRINGS[disk % strings], disk / strings)).collect();
        self
    }
    /// The disks given: string and place.
    #[must_use]
    pub fn at(mut self, disks: &[(usize, usize)]) -> Setup {
        self.0.disks = disks.to_vec();
        self
    }
    /// So many processes for each disk.
    #[must_use]
    pub fn processes(mut self, processes: u32) -> Setup {
        self.0.processes = processes;
        self
    }
    /// Asynchronous issue: so many requests ahead.
    #[must_use]
    pub fn ahead(mut self, ahead: u32) -> Setup {
        self.0.ahead = ahead;
        self
    }
    /// With a value changed.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<String>) -> Setup {
        self.0.settings.push((key.to_owned(), value.into()));
        self
    }
    /// With a buffer full ratio, given in KB of the 32 KB buffer.
    #[must_use]
    pub fn full_ratio(self, kib: f64) -> Setup {
        self.with("wren-iv.buffer.full-ratio", format!("{} %", kib / 32.0 * 100.0))
    }
    /// Without read-ahead.
    #[must_use]
    pub fn no_read_ahead(self) -> Setup {
        self.with("wren-iv.buffer.read-ahead", "false")
    }
}

impl Bench {
    /// With changes to the system that hold for all trials.
    pub fn with(settings: Vec<(String, String)>) -> Bench {
        Bench { outcomes: RefCell::default(), settings }
    }

    /// The system that is on the bench.
    pub fn kit(&self) -> Result<Kit, PartError> {
        let mut kit = Kit::load("raid-i")?;
        for (key, value) in &self.settings {
            kit.set(key, value)?;
        }
        Ok(kit)
    }

    /// What comes of a trial.
    pub fn run(&self, setup: &Setup) -> Result<Rc<Outcome>, PartError> {
        if let Some(outcome) = self.outcomes.borrow().get(&setup.0) {
            return Ok(Rc::clone(outcome));
        }
        let mut kit = self.kit()?;
        for (key, value) in &setup.0.settings {
            kit.set(key, value)?;
        }
        let mut trial = setup.0.clone();
        if trial.pattern == Pattern::Sequential {
            let most = STRETCH / trial.request * trial.disks.len() as u64;
            trial.requests = trial.requests.min(most.max(64));
            trial.warm_up = trial.warm_up.min(most / 4).max(2);
        }
        let mut outcome = trial::run_on(&kit, &trial)?;
        // Only their sums are looked at here.
        outcome.spans = Vec::new();
        let outcome = Rc::new(outcome);
        self.outcomes.borrow_mut().insert(setup.0.clone(), Rc::clone(&outcome));
        Ok(outcome)
    }

    /// Its bandwidth in MB/s of the study, 2^20 bytes.
    pub fn bandwidth(&self, setup: &Setup) -> Result<f64, PartError> {
        Ok(self.run(setup)?.bandwidth().get() / f64::from(1 << 20))
    }
    /// Its requests a second.
    pub fn rate(&self, setup: &Setup) -> Result<f64, PartError> {
        Ok(self.run(setup)?.rate().get())
    }
    /// Mean time on the board, in seconds: everything that is neither the processor's nor the operating system's.
    pub fn board(&self, setup: &Setup) -> Result<f64, PartError> {
        Ok(board(&*self.run(setup)?).as_seconds())
    }
}

/// Mean time on the board.
pub fn board(outcome: &Outcome) -> Duration {
    outcome.mean(|part, _| !on_host(part))
}

/// Parts whose time is the host's.
pub fn on_host(part: &str) -> bool {
    matches!(part, "os" | "cpu" | "raid")
}
