//! The bench of a study: experiments on its machine, each run once.
//!
//! A study asks for the same trial from many of its rows. The bench remembers what came of an experiment, also of one
//! that somebody else has run, and knows two experiments for the same if they differ in nothing but name and in
//! settings that change nothing.
//!
//! # Ahead
//! A trial runs when it is first asked for, one after the other, while most processors have nothing to do. Which trials
//! a row needs is not written down anywhere but in its answer. So whoever will ask for many rows [asks them
//! twice](Bench::prepare): at first nothing is run, and what was asked for is noted, which then runs on all processors;
//! what a row asks for only when it knows that, in the next round. Rejected: a list of trials beside the answers, which
//! would have to be kept true by hand.

use std::cell::{Cell, OnceCell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use analysis::rounds::{Finish, Merged};
use analysis::{Figures, Group};
use machine::kit::Kit;
use machine::load::Load;
use machine::part::PartError;
use rayon::prelude::*;
use record::{PartName, PhaseName};
use units::{Bytes, Duration, Frequency, Rate};

use lab::Experiment;
use lab::Modelled;
use lab::RunError;
use lab::trial::trial as carry_out;

/// Why nothing comes of a trial.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TrialError {
    /// The system's description, or a change to it, is wrong.
    #[error(transparent)]
    Part(#[from] PartError),
    /// The machine, as it was changed, cannot do what the trial asks, or does too little of it to be judged.
    #[error("{0}")]
    Nothing(String),
}

impl TrialError {
    /// Nothing comes of the trial, for this reason.
    pub fn nothing(reason: impl std::fmt::Display) -> TrialError {
        TrialError::Nothing(reason.to_string())
    }
}

/// What came of a trial, or why nothing did.
type Known = Result<Arc<Outcome>, TrialError>;

/// Runs trials on one system and remembers what came of them.
pub struct Bench {
    system: String,
    outcomes: RefCell<HashMap<String, Known>>,
    settings: Vec<(String, String)>,
    /// In place of that of each trial.
    seed: Cell<Option<u64>>,
    /// How many times its passes each trial has.
    repeat: Cell<u16>,
    /// The system, once it was asked for: every trial's name is compared with what it says.
    kit: OnceCell<Kit>,
    /// The pass that is looked at, if not all of them together.
    pass: Cell<Option<usize>>,
    /// While nothing is run: what was asked for and is not known, by what it is.
    wanted: RefCell<Option<BTreeMap<String, Experiment>>>,
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
    /// Time in each phase of each part, summed over the requests that began while they were counted; and how many those
    /// were.
    pub phases: BTreeMap<(String, String), Duration>,
    /// See [`Outcome::phases`].
    pub traced: u64,
    /// Every counted completion, in order of time within each pass.
    pub finishes: Vec<Finish>,
    /// Figures of all requests.
    pub figures: Figures,
    /// The same of each stream by its name, then of each operation and each device by its own.
    pub streams: Vec<(String, Figures)>,
    /// Names of the disks, by index.
    pub disks: Vec<String>,
    /// What each pass came to, if there were several. Their machines differ by their seeds.
    pub passes: Vec<Arc<Outcome>>,
}

impl Outcome {
    /// From a run of an experiment on a modelled machine. Refused if no request of a pass counted: means of nothing say
    /// nothing.
    ///
    /// # Panics
    /// If the machine was not modelled.
    pub fn of(run: &lab::Outcome) -> Result<Outcome, TrialError> {
        let modelled = run.conclusion.modelled.as_ref().expect("a trial runs on a modelled machine");
        let total = &run.summary.total;
        let load = modelled.passes.iter().map(|pass| pass.load.clone()).reduce(|a, b| a.plus(&b));
        let counted = total.passes.len() == modelled.passes.len() && total.passes.iter().all(|pass| pass.requests > 0);
        let load = load.filter(|_| counted).ok_or_else(|| {
            TrialError::nothing("no request was done while it counted, so slow is the machine; change less of it")
        })?;
        let of = |pass: Option<usize>| {
            let figures = |group: &Group| pass.map_or(&group.figures, |pass| &group.passes[pass]).clone();
            let groups = run.summary.streams.iter().chain(&run.summary.operations).chain(&run.summary.devices);
            let streams = groups.map(|group| (group.name.clone(), figures(group))).collect();
            (figures(total), streams)
        };
        let mut all = Outcome::new(of(None), load, &run.meta.labels.devices);
        let mut passes: Vec<Outcome> = (modelled.passes.iter().enumerate())
            .map(|(pass, counted)| Outcome::new(of(Some(pass)), counted.load.clone(), &run.meta.labels.devices))
            .collect();
        time_of_phases(modelled, &mut passes);
        let mut merged = Merged::at_most(usize::MAX);
        let visited = run.recording.visit(|rows| {
            merged.add(rows);
            Ok::<(), record::RawError>(())
        });
        visited.expect("the rows of a trial are in memory");
        merged.finish().into_iter().for_each(|finish| passes[usize::from(finish.pass)].finishes.push(finish));
        for pass in &passes {
            all.traced += pass.traced;
            all.finishes.extend(&pass.finishes);
            for (key, time) in &pass.phases {
                *all.phases.entry(key.clone()).or_default() += *time;
            }
        }
        if passes.len() > 1 {
            all.passes = passes.into_iter().map(Arc::new).collect();
        }
        Ok(all)
    }

    /// With nothing in it yet that comes from rows and spans.
    fn new((figures, streams): (Figures, Vec<(String, Figures)>), load: Load, disks: &[String]) -> Outcome {
        Outcome {
            requests: load.passages.commands,
            elapsed: load.at,
            bandwidth: figures.bandwidth,
            rate: figures.iops,
            load,
            phases: BTreeMap::new(),
            traced: 0,
            finishes: Vec::new(),
            figures,
            streams,
            disks: disks.to_vec(),
            passes: Vec::new(),
        }
    }

    /// Figures of a stream, or of an operation or a device if no stream has its name.
    pub fn stream(&self, name: &str) -> Option<&Figures> {
        self.streams.iter().find(|(known, _)| known == name).map(|(_, figures)| figures)
    }

    /// How many passes it is the sum of.
    pub fn pass_count(&self) -> usize {
        self.passes.len().max(1)
    }

    /// Mean time of a traced request in all phases of the parts and phases chosen.
    pub fn mean(&self, choose: impl Fn(&str, &str) -> bool) -> Duration {
        let sum: Duration =
            self.phases.iter().filter(|((part, phase), _)| choose(part, phase)).map(|(_, time)| *time).sum();
        if self.traced == 0 { Duration::ZERO } else { sum / self.traced }
    }
}

/// Adds the time of each phase of each part to the pass in which its request began.
fn time_of_phases(modelled: &Modelled, passes: &mut [Outcome]) {
    let Some(log) = &modelled.spans else { return };
    let pass_at = |at| modelled.passes.iter().position(|pass| pass.from <= at && at < pass.to);
    let mut sums: HashMap<(usize, PartName, PhaseName), Duration> = HashMap::new();
    // Requests are numbered in the order in which they begin; most of their spans come soon after.
    let mut known: Vec<Option<Option<usize>>> = Vec::new();
    for span in log.spans() {
        let request = span.request as usize;
        known.resize(known.len().max(request + 1), None);
        let pass = match known[request] {
            _ if request == 0 => pass_at(span.start),
            Some(pass) => pass,
            None => {
                let pass = pass_at(span.start);
                known[request] = Some(pass);
                pass.inspect(|pass| passes[*pass].traced += 1)
            }
        };
        if let Some(pass) = pass {
            *sums.entry((pass, span.part, span.phase)).or_default() += span.time();
        }
    }
    for ((pass, part, phase), time) in sums {
        passes[pass].phases.insert((log.part(part).to_owned(), log.phase(phase).to_owned()), time);
    }
}

impl Bench {
    /// A bench with a system that comes with the program, and changes to it that hold for all trials.
    pub fn new(system: &str, settings: Vec<(String, String)>) -> Bench {
        let (outcomes, seed, pass) = (RefCell::default(), Cell::new(None), Cell::new(None));
        let repeat = Cell::new(1);
        let system = system.to_owned();
        Bench { system, outcomes, settings, seed, repeat, kit: OnceCell::new(), pass, wanted: RefCell::default() }
    }

    /// Has all trials draw from another seed than their own: addresses, and what the machines draw.
    ///
    /// # Panics
    /// If a trial was run already.
    pub fn draw_from(&self, seed: u64) {
        assert!(self.outcomes.borrow().is_empty(), "all trials draw from one seed");
        self.seed.set(Some(seed));
    }

    /// Gives all trials so many times their own passes: what they come to varies less from seed to seed, by the root of
    /// that.
    ///
    /// # Panics
    /// If a trial was run already, or with no passes at all.
    pub fn repeat(&self, times: u16) {
        assert!(self.outcomes.borrow().is_empty(), "all trials are repeated as often");
        assert!(times > 0, "a trial has passes");
        self.repeat.set(times);
    }

    /// The system that is on the bench.
    pub fn kit(&self) -> Result<&Kit, PartError> {
        if let Some(kit) = self.kit.get() {
            return Ok(kit);
        }
        let mut kit = Kit::load(&self.system)?;
        for (key, value) in &self.settings {
            kit.set(key, value)?;
        }
        Ok(self.kit.get_or_init(|| kit))
    }

    /// Takes over what came of an experiment that was run elsewhere.
    pub fn know(&self, experiment: &Experiment, outcome: Result<Outcome, TrialError>) {
        self.outcomes.borrow_mut().insert(self.key(experiment), outcome.map(Arc::new));
    }

    /// Whether what came of an experiment is known.
    pub fn knows(&self, experiment: &Experiment) -> bool {
        self.outcomes.borrow().contains_key(&self.key(experiment))
    }

    /// What an experiment is: its text but for its name, for what it is compared with, for settings that change
    /// nothing, and for whether spans are kept, which changes nothing of what comes of it either.
    fn key(&self, experiment: &Experiment) -> String {
        let mut plain = Experiment { name: String::new(), published: Vec::new(), ..experiment.clone() };
        plain.system.iter_mut().for_each(|system| system.spans = true);
        // Of another system than the bench's it is not known what it says anyway.
        if let (Some(system), Ok(kit)) = (plain.system.as_mut().filter(|system| system.name == self.system), self.kit())
        {
            let says_nothing =
                |change: &(String, String)| self.settings.contains(change) || is_so_anyway(kit, &change.0, &change.1);
            system.parts.retain(|change| !says_nothing(change));
        }
        plain.to_toml()
    }

    /// The least number of passes that any known trial had.
    pub fn passes(&self) -> usize {
        self.outcomes.borrow().values().flatten().map(|outcome| outcome.pass_count()).min().unwrap_or(0)
    }

    /// What `ask` finds when trials show one pass alone.
    pub fn in_pass<R>(&self, pass: usize, ask: impl FnOnce() -> R) -> R {
        let before = self.pass.replace(Some(pass));
        let answer = ask();
        self.pass.set(before);
        answer
    }

    /// What comes of a trial: of all its passes, or of the one that is looked at.
    pub fn run(&self, trial: &Experiment) -> Result<Arc<Outcome>, TrialError> {
        let whole = self.whole(trial)?;
        let alone = self.pass.get().and_then(|pass| whole.passes.get(pass)).map(Arc::clone);
        Ok(alone.unwrap_or(whole))
    }

    /// What comes of all passes of a trial.
    fn whole(&self, trial: &Experiment) -> Known {
        let mut experiment = trial.clone();
        experiment.seed = self.seed.get().unwrap_or(experiment.seed);
        experiment.run.passes = experiment.run.passes.saturating_mul(self.repeat.get());
        let key = self.key(&experiment);
        if let Some(known) = self.outcomes.borrow().get(&key) {
            return known.clone();
        }
        if let Some(system) = &mut experiment.system {
            system.parts.splice(0..0, self.settings.iter().cloned());
        }
        if let Some(wanted) = &mut *self.wanted.borrow_mut() {
            wanted.insert(key, experiment);
            return Err(TrialError::nothing("it was not run yet"));
        }
        let known = outcome_of(&experiment);
        self.outcomes.borrow_mut().insert(key, known.clone());
        known
    }

    /// Runs what questions will ask for, side by side on all processors. Each is asked as often as it finds something
    /// that is not known yet; what it makes of that is of no account.
    pub fn prepare(&self, questions: impl IntoIterator<Item: Fn()>) {
        let mut open: Vec<_> = questions.into_iter().collect();
        while !open.is_empty() {
            let mut wanted = BTreeMap::new();
            open.retain(|question| {
                self.wanted.replace(Some(BTreeMap::new()));
                question();
                let mut found = self.wanted.take().expect("it is noted until it is taken");
                let finds = !found.is_empty();
                wanted.append(&mut found);
                finds
            });
            self.outcomes.borrow_mut().extend(side_by_side(wanted));
        }
    }
}

/// What comes of an experiment.
fn outcome_of(experiment: &Experiment) -> Known {
    let run = carry_out(experiment, &AtomicBool::new(false)).map_err(|error| match error {
        RunError::Part(error) => TrialError::Part(error),
        error => TrialError::nothing(error),
    })?;
    Outcome::of(&run).map(Arc::new)
}

/// What comes of experiments, with as many of them at once as there are processors.
fn side_by_side(experiments: BTreeMap<String, Experiment>) -> Vec<(String, Known)> {
    let mut line: Vec<_> = experiments.into_iter().collect();
    // The longest first, so that none of them is left alone at the end.
    line.sort_by_key(|(_, experiment)| Reverse(experiment.run.whole()));
    let line = line.into_par_iter().with_max_len(1);
    line.map(|(key, experiment)| (key, outcome_of(&experiment))).collect()
}

/// True if a setting says what the description says already.
fn is_so_anyway(kit: &Kit, key: &str, value: &str) -> bool {
    kit.current(key).ok().flatten().is_some_and(|text| text.trim_matches('"') == value)
}

/// A rate in MB/s as the studies have them, of 2^20 bytes.
pub fn megabytes(rate: Rate) -> f64 {
    rate.get() / Bytes::mib(1).get() as f64
}

#[cfg(test)]
mod tests {
    use machine::entry::Way;
    use workload::{Limits, Mix, Pattern, Stream};

    use super::*;
    use lab::System;

    /// Random reads of one disk in blocks of so many KiB, for a second.
    fn second(kib: u64) -> Experiment {
        let second = Duration::seconds(1);
        let mut stream = Stream::closed("reader", Mix::READS, Pattern::Random, Bytes::kib(kib), 1);
        stream.limits = Limits { time: Some(second), ..Limits::NONE };
        let mut experiment = Experiment::new("trial", second, vec![stream]);
        let disks = vec!["disk-0.0".to_owned()];
        let name = "sparc20-wren7".to_owned();
        experiment.system = Some(System { name, way: Way::Raw, disks, parts: Vec::new(), spans: false, each: true });
        experiment
    }

    #[test]
    fn what_is_run_ahead_is_what_is_run_when_it_is_asked_for() {
        let at = |bench: &Bench, kib| {
            let outcome = bench.run(&second(kib)).unwrap();
            outcome.finishes.iter().map(|finish| finish.at).collect::<Vec<_>>()
        };
        let (ahead, asked) = (Bench::new("sparc20-wren7", Vec::new()), Bench::new("sparc20-wren7", Vec::new()));
        // The second question asks for another trial only when it knows what came of one.
        let asks = Cell::new(0);
        let two = || {
            asks.set(asks.get() + 1);
            let _ = ahead.run(&second(16)).and_then(|_| ahead.run(&second(64)));
        };
        let one = || drop(ahead.run(&second(32)));
        let questions: [&dyn Fn(); 2] = [&one, &two];
        ahead.prepare(questions);
        assert_eq!(asks.get(), 3, "as often as it finds something, and once more");
        for kib in [16, 32, 64] {
            assert!(ahead.knows(&second(kib)));
            assert_eq!(at(&ahead, kib), at(&asked, kib), "{kib} KiB");
        }
        assert!(!ahead.knows(&second(128)));
    }

    #[test]
    fn a_seed_decides_what_is_drawn() {
        let finishes = |seed: Option<u64>| {
            let bench = Bench::new("sparc20-wren7", Vec::new());
            seed.iter().for_each(|seed| bench.draw_from(*seed));
            let outcome = bench.run(&second(16)).unwrap();
            outcome.finishes.iter().map(|finish| finish.at).collect::<Vec<_>>()
        };
        let own = second(16).seed;
        assert!(finishes(None).len() > 10);
        assert_eq!(finishes(None), finishes(Some(own)), "a trial has a seed of its own");
        assert_ne!(finishes(Some(own)), finishes(Some(own + 1)));
    }

    #[test]
    fn a_trial_that_is_repeated_goes_on_from_its_own_passes() {
        let finishes = |times: u16| {
            let bench = Bench::new("sparc20-wren7", Vec::new());
            bench.repeat(times);
            let outcome = bench.run(&second(16)).unwrap();
            assert_eq!(outcome.pass_count(), usize::from(times * second(16).run.passes));
            outcome.finishes.clone()
        };
        let (once, thrice) = (finishes(1), finishes(3));
        assert!(thrice.len() > 2 * once.len(), "{} and {}", once.len(), thrice.len());
        assert_eq!(thrice[..once.len()], once[..], "the first passes are the same");
    }
}
