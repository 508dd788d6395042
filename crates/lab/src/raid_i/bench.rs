//! The trials of the study: experiments on its machine, each run once.
//!
//! A trial is an [`Experiment`], the same as its file under `experiments/raid-i` holds; here it is put together in words, as the rows of
//! the study ask for it. What came of an experiment that was run already is taken from there, whoever ran it.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use machine::entry::{Spot, Way};
use machine::load::Load;
use machine::part::PartError;
use machine::system::Kit;
use record::{PartName, PhaseName};
use units::{Bytes, Duration, Frequency, Rate};
use workload::{Limits, Mix, Pattern, Region, Stream};

use crate::experiment::Experiment;
use crate::runner::{self, RunError};
use crate::system::System;
use crate::trial::trial;

/// The strings of the first adapters, one each: where the study put disks "round-robin over strings, each on its own adapter".
const FIRST_STRINGS: [usize; 4] = [0, 2, 4, 6];

/// Sequential trials stay in the middle of each disk, within so much of it, as the study's short runs did: the zones differ.
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

/// Runs trials and remembers what came of them.
#[derive(Default)]
pub struct Bench {
    outcomes: RefCell<HashMap<String, Rc<Outcome>>>,
    settings: Vec<(String, String)>,
}

/// What came of a trial: the sum of its passes.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Requests that counted.
    pub requests: u64,
    /// How long they took all together.
    pub elapsed: Duration,
    /// How much they moved in that time.
    pub bandwidth: Rate,
    /// How many they were in that time.
    pub rate: Frequency,
    /// What each part did meanwhile.
    pub load: Load,
    /// Time in each phase of each part, summed over the requests that began while they were counted; and how many those were.
    pub phases: BTreeMap<(String, String), Duration>,
    /// See [`Outcome::phases`].
    pub traced: u64,
    /// Counted requests of each disk.
    pub completions: Vec<u64>,
}

impl Outcome {
    /// From a run of an experiment on a modelled machine.
    ///
    /// # Panics
    /// If the machine was not modelled, or no pass counted.
    pub fn of(run: &runner::Outcome) -> Outcome {
        let modelled = run.conclusion.modelled.as_ref().expect("a trial runs on a modelled machine");
        let load = modelled.passes.iter().map(|pass| pass.load.clone()).reduce(|a, b| a.plus(&b));
        let total = &run.summary.total.figures;
        let mut sums: HashMap<(PartName, PhaseName), Duration> = HashMap::new();
        let mut traced = 0;
        let spans = modelled.spans.as_ref();
        // Requests are numbered in the order in which they begin; most of their spans come soon after.
        let mut counted: Vec<Option<bool>> = Vec::new();
        let counts = |at| modelled.passes.iter().any(|pass| pass.from <= at && at < pass.to);
        for span in spans.iter().flat_map(|log| log.spans()) {
            let request = span.request as usize;
            counted.resize(counted.len().max(request + 1), None);
            let is_counted = match counted[request] {
                _ if request == 0 => counts(span.start),
                Some(known) => known,
                None => {
                    let known = counts(span.start);
                    counted[request] = Some(known);
                    traced += u64::from(known);
                    known
                }
            };
            if is_counted {
                *sums.entry((span.part, span.phase)).or_default() += span.time();
            }
        }
        let name = |(part, phase): (PartName, PhaseName)| {
            let log = spans.expect("what has spans has their names");
            (log.part(part).to_owned(), log.phase(phase).to_owned())
        };
        let load = load.expect("a trial has passes that count");
        Outcome {
            requests: load.passages.commands,
            elapsed: load.at,
            bandwidth: total.bandwidth,
            rate: total.iops,
            load,
            phases: sums.into_iter().map(|(key, time)| (name(key), time)).collect(),
            traced,
            completions: run.summary.devices.iter().map(|device| device.figures.requests).collect(),
        }
    }

    /// Mean time of a traced request in all phases of the parts and phases chosen.
    pub fn mean(&self, choose: impl Fn(&str, &str) -> bool) -> Duration {
        let sum: Duration =
            self.phases.iter().filter(|((part, phase), _)| choose(part, phase)).map(|(_, time)| *time).sum();
        if self.traced == 0 { Duration::ZERO } else { sum / self.traced }
    }
    /// What share of the time the idle loop did not run.
    pub fn host_utilization(&self) -> f64 {
        self.load.host_utilization().get()
    }
    /// What share of the time a string was not free.
    pub fn string_utilization(&self, string: usize) -> f64 {
        self.load.string_utilization(string).get()
    }
}

/// A trial in words: `Setup::read(32).sprite().disks(4)`.
#[derive(Debug, Clone)]
pub struct Setup {
    write: bool,
    request: Bytes,
    random: bool,
    way: Way,
    disks: Vec<Spot>,
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
            disks: vec![Spot { string: 0, disk: 0 }],
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
    /// To a level 5 array of the four disks of a string, from so many processes.
    #[must_use]
    pub fn raid(mut self, processes: u32) -> Setup {
        self.way = Way::Array(Bytes::kib(32));
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
        self.disks = disks.iter().map(|(string, disk)| Spot { string: *string, disk: *disk }).collect();
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

    /// The experiment that this is.
    pub fn experiment(&self) -> Experiment {
        let mix = if self.write { Mix::WRITES } else { Mix::READS };
        let pattern = if self.random { Pattern::Random } else { Pattern::Sequential { from: Bytes::ZERO } };
        let mut stream = Stream::closed("load", mix, pattern, self.request, self.depth);
        if !self.random {
            stream.region = STRETCH;
        }
        if let Way::Array(stripe) = self.way {
            // Requests are aligned on stripe unit boundaries.
            stream.align = stripe;
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
        });
        experiment
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

    /// Takes over what came of an experiment that was run elsewhere.
    pub fn know(&self, experiment: &Experiment, outcome: Outcome) {
        self.outcomes.borrow_mut().insert(self.key(experiment), Rc::new(outcome));
    }

    /// Whether what came of an experiment is known.
    pub fn knows(&self, experiment: &Experiment) -> bool {
        self.outcomes.borrow().contains_key(&self.key(experiment))
    }

    /// What an experiment is: its text but for its name, for what it is compared with, and for settings that change nothing.
    fn key(&self, experiment: &Experiment) -> String {
        let mut plain = Experiment { name: String::new(), published: Vec::new(), ..experiment.clone() };
        if let (Some(system), Ok(kit)) = (&mut plain.system, self.kit()) {
            let says_nothing =
                |change: &(String, String)| self.settings.contains(change) || is_so_anyway(&kit, &change.0, &change.1);
            system.parts.retain(|change| !says_nothing(change));
        }
        plain.to_toml()
    }

    /// What comes of a trial.
    pub fn run(&self, setup: &Setup) -> Result<Rc<Outcome>, PartError> {
        let mut experiment = setup.experiment();
        let key = self.key(&experiment);
        if let Some(outcome) = self.outcomes.borrow().get(&key) {
            return Ok(Rc::clone(outcome));
        }
        if let Some(system) = &mut experiment.system {
            system.parts.splice(0..0, self.settings.iter().cloned());
        }
        let run = trial(&experiment, &AtomicBool::new(false)).map_err(|error| match error {
            RunError::Part(error) => error,
            error => unreachable!("a trial in memory is of devices that are there: {error}"),
        })?;
        let outcome = Rc::new(Outcome::of(&run));
        self.outcomes.borrow_mut().insert(key, Rc::clone(&outcome));
        Ok(outcome)
    }

    /// Its bandwidth in MB/s of the study, 2^20 bytes.
    pub fn bandwidth(&self, setup: &Setup) -> Result<f64, PartError> {
        Ok(self.run(setup)?.bandwidth.get() / f64::from(1 << 20))
    }
    /// Its requests a second.
    pub fn rate(&self, setup: &Setup) -> Result<f64, PartError> {
        Ok(self.run(setup)?.rate.get())
    }
    /// Mean time on the board, in seconds: everything that is neither the processor's nor the operating system's.
    pub fn board(&self, setup: &Setup) -> Result<f64, PartError> {
        Ok(board(&*self.run(setup)?).as_seconds())
    }
}

/// True if a setting says what the description says already.
fn is_so_anyway(kit: &Kit, key: &str, value: &str) -> bool {
    let Some((part, path)) = key.split_once('.') else { return false };
    let Some(part) = kit.parts.get(part) else { return false };
    part.rows().iter().any(|row| row.path == path && row.value.trim_matches('"') == value)
}

/// Mean time on the board.
pub fn board(outcome: &Outcome) -> Duration {
    outcome.mean(|part, _| !on_host(part))
}

/// Parts whose time is the host's.
pub fn on_host(part: &str) -> bool {
    matches!(part, "os" | "cpu" | "raid")
}
