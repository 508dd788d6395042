//! The thread that makes no load: it hears how the others get on, shows that, reads the processors' accounts when
//! counting starts and ends, and passes an interrupt on.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use host::thread_use::ThreadUse;
use units::{Bytes, Duration, Instant, Ratio};
use uring::Choice;
use workload::Searched;

use crate::accounts::Accounts;
use crate::live::{Site, TICK};
use crate::pass::Failure;
use crate::pulse::{Beat, Pulse};
use crate::runner::{Conclusion, RunError, Tick};
use crate::surroundings;
use crate::verification::Verified;

/// What a thread tells the foreman.
pub(super) enum Report {
    /// Its devices are open; how they are driven.
    Opened(Vec<(usize, Bytes, Option<Choice>)>),
    /// A pass is over for it.
    Passed(Passed),
    /// Something was refused that only costs precision or speed.
    Remark(String),
    /// It cannot go on.
    Refused(RunError),
    /// It was told to end before it began.
    CalledOff,
    /// What verification came to on a device, by its index.
    Verified(usize, Verified),
}

pub(super) struct Passed {
    pub(super) failures: Vec<Failure>,
    /// What searches for a depth came to, by stream.
    pub(super) searched: Vec<(usize, Searched)>,
    /// When each stream was over.
    pub(super) over: Vec<(usize, Instant)>,
    /// Requests that never completed.
    pub(super) abandoned: u64,
    pub(super) unserved: u64,
    pub(super) announced: u64,
    /// The share of the pass that the thread spent on a processor.
    pub(super) busy: Ratio,
    /// The devices of the thread, and what it took for the pass.
    pub(super) devices: Vec<usize>,
    pub(super) took: ThreadUse,
}

impl Site<'_> {
    /// The life of the foreman: until all threads have ended.
    pub(super) fn watch(&self, reports: &Receiver<Report>) -> Result<Conclusion, RunError> {
        let mut conclusion = Conclusion::default();
        let mut refused = None;
        conclusion.engines = vec![None; self.targets.len()];
        conclusion.sizes = vec![Bytes::ZERO; self.targets.len()];
        let mut busiest = Ratio::ZERO;
        let (mut verified, mut places) = (Vec::new(), HashMap::<usize, usize>::new());
        let (lanes, mut shown, mut cost) = (self.lanes(), std::time::Instant::now(), std::time::Duration::ZERO);
        let allowed = match &self.experiment.care.cpus[..] {
            [] => host::processor::allowed(),
            chosen => chosen.to_vec(),
        };
        let mut accounts = Accounts::new(self.experiment.run.measure, surroundings::devices(self.targets), allowed);
        loop {
            let wait = accounts.wait(self.gate.control().as_deref(), self.now(), TICK);
            match reports.recv_timeout(wait.into()) {
                Ok(Report::Opened(choices)) => {
                    for (index, size, choice) in choices {
                        conclusion.sizes[index] = size;
                        conclusion.engines[index] = choice;
                    }
                }
                Ok(Report::Passed(passed)) => {
                    conclusion.failures.extend(passed.failures);
                    conclusion.searched.extend(passed.searched);
                    conclusion.over.extend(passed.over);
                    conclusion.abandoned += passed.abandoned;
                    conclusion.unserved += passed.unserved;
                    conclusion.announced += passed.announced;
                    let took = passed.took;
                    let took = report::Used {
                        user: took.user,
                        system: took.system,
                        switches: took.switches,
                        major_faults: took.major_faults,
                        minor_faults: took.minor_faults,
                    };
                    // Each device has one thread, the same in all passes.
                    match passed.devices.first().and_then(|device| places.get(device).copied()) {
                        Some(place) => {
                            let whole: &mut report::Used = &mut conclusion.used[place].1;
                            *whole = whole.plus(&took);
                        }
                        None => {
                            places.extend(passed.devices.first().map(|device| (*device, conclusion.used.len())));
                            conclusion.used.push((passed.devices, took));
                        }
                    }
                    busiest = if passed.busy > busiest { passed.busy } else { busiest };
                }
                Ok(Report::Remark(remark)) if !conclusion.remarks.contains(&remark) => conclusion.remarks.push(remark),
                Ok(Report::Remark(_)) => {}
                Ok(Report::Verified(index, one)) => {
                    conclusion.mismatched.extend((one.findings.count > 0).then_some(index));
                    verified.push((index, one));
                }
                Ok(Report::CalledOff) => {
                    self.ways.party.inspect(|party| party.end_early());
                    conclusion.interrupted = true;
                }
                Ok(Report::Refused(error)) => {
                    // A thread of ours may wait for the others; it need not any longer.
                    self.ways.party.inspect(|party| party.end_early());
                    refused = refused.or(Some(error));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            accounts.look(self.gate.control().as_deref(), self.now());
            if let Some(control) = self.gate.control() {
                let elsewhere = self.ways.party.is_some_and(|party| party.ended_early());
                if (self.ways.interrupted.load(Relaxed) || elsewhere) && !control.was_interrupted() {
                    control.interrupt(self.now());
                }
                conclusion.interrupted |= control.was_interrupted();
            }
            if conclusion.interrupted || self.ways.interrupted.load(Relaxed) {
                self.ways.party.inspect(|party| party.end_early());
            }
            // With each report of each of thousands of threads it would cost more than the run.
            if shown.elapsed() >= std::time::Duration::from(TICK).max(cost * 20) {
                let from = std::time::Instant::now();
                self.ways.progress.tick(&self.progress(&lanes));
                shown = std::time::Instant::now();
                cost = shown - from;
            }
        }
        self.ways.progress.tick(&self.progress(&lanes));
        if let Some(rounds) = &self.rounds {
            let mut rounds = rounds.lock().expect("no panic under this lock");
            // After the last pass that there may be nobody came to the gate.
            rounds.close();
            conclusion.rounds = Some(rounds.clone());
        }
        verified.sort_by_key(|(index, _)| *index);
        conclusion.verified = verified.into_iter().map(|(_, one)| one).collect();
        conclusion.processors = accounts.mean().map(|processors| (processors, busiest));
        conclusion.surroundings = accounts.surroundings();
        conclusion.processor_time = accounts.time();
        conclusion.own_time = accounts.own();
        conclusion.begins = self.begins.lock().expect("no panic under this lock").clone();
        conclusion.late = Duration::nanos(self.late.load(Relaxed));
        match refused {
            Some(error) => Err(error),
            None => Ok(conclusion),
        }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    /// By device: how many requests may be under way.
    fn lanes(&self) -> Vec<u64> {
        let mut lanes = vec![0; self.targets.len()];
        for plan in &self.experiment.streams {
            let count = u64::from(plan.stream.lanes());
            match &plan.on {
                Some(on) => on.iter().filter(|device| **device < self.targets.len()).for_each(|on| lanes[*on] += count),
                None => lanes.iter_mut().for_each(|lanes| *lanes += count),
            }
        }
        lanes
    }

    fn progress(&self, lanes: &[u64]) -> Tick {
        let devices: Vec<Beat> = self.pulses.iter().zip(lanes).map(|(pulse, lanes)| pulse.beat(*lanes)).collect();
        let busiest = self.pulses.iter().map(Pulse::busy).fold(Ratio::ZERO, |a, b| if b > a { b } else { a });
        Tick::of(self.now().since(Instant::START), self.experiment.run.whole(), devices, busiest)
    }
}
