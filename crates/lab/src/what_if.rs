//! What a faster part would bring, measured on the machine as it is.
//!
//! A run is made again with every part but one held up, so that each takes 1 + k times as long as it did; so are think
//! times and arrivals. On a clock that runs 1 + k times as slowly nothing but that part has changed, and it is 1 + k
//! times as fast. So a run with X requests a second, of R each, stands for one with (1 + k) X and R / (1 + k)
//! ([`device::filter::Slow`] has the source). No part has to be taken apart, and what the others then become is in the
//! figures: a formula would need to know how they share.
//!
//! # Parts
//! The devices of the run, and the generator, which is this program. A device is held up by a share of what each
//! request took there, with its way through the kernel. The generator computes for k times the processor time that a
//! request cost it; most of that passes while the request is under way, so it is taken off before the share is.
//!
//! What devices share (a link, the processors of the kernel's threads) cannot be held up: while the others ask for less
//! of it, the part that is not held up has more. That is found. One part that is s times as fast raises no rate by more
//! than s, as all parts together would raise it by s. So where the part's own rate rises by more, it shares something,
//! and nothing is said of it.
//!
//! # How many at once
//! A device that serves c requests at a time, while more queue, must not serve more than c while it is held up: what is
//! held would hide in the queue. By Little's law c = X R(1), with R(1) from a run at depth 1. Where R(d) is at most 1.3
//! R(1) nothing queues, and no bound is needed. A bound costs a device that sorts its queue some of its speed; so the
//! control, which the other run is compared with, has the same bounds, and is held up by nothing. Where it gives less
//! than the run as it was, the result says so.

use analysis::compare::turns;
use analysis::{Brought, Figures};
use device::filter::Pace;
use units::{Duration, Frequency, Rate, Ratio};
use workload::{Arrivals, Distances, Load, RateLimit, Rules};

use crate::experiment::Experiment;
use crate::slow::Slow;

/// What takes at most this many times as long as alone does not queue: the bound of `explain`'s rule for the depth.
const QUEUES: f64 = 1.3;

/// A part's rate may exceed what it can be by this share, as rates of short runs vary by some percent (assumed).
const VARIES: f64 = 0.05;

/// A part of a live run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// This program.
    Generator,
    /// A device, by its number.
    Device(usize),
}

/// What is known of the run as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// The processor time of the generator for a request.
    pub generator: Duration,
    /// By device.
    pub devices: Vec<KnownDevice>,
}

/// A device in the run as it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KnownDevice {
    /// Requests that it did.
    pub rate: Frequency,
    /// How long they took there.
    pub service: Duration,
    /// How long they take there one at a time; `None` if it is not known.
    pub alone: Option<Duration>,
}

impl KnownDevice {
    /// How many it serves at once, if requests queue there.
    fn at_once(&self) -> Option<u32> {
        let alone = self.alone.filter(|alone| self.service.as_seconds() > QUEUES * alone.as_seconds())?;
        Some(((self.rate.get() * alone.as_seconds()).round() as u32).max(1))
    }
}

/// Two runs, which differ in nothing but that one has every part but one held up.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The part.
    pub part: Part,
    /// Held up by nothing.
    pub control: Experiment,
    /// All others are held up.
    pub held: Experiment,
    /// By device: how many requests it is given at once, where that is bounded.
    pub at_once: Vec<Option<u32>>,
}

/// Why no part can be held up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum WhatIfError {
    #[error(
        "{0} is a run of a modelled machine, whose parts are made faster by their values: arraylab run EXPERIMENT --set NODE.VALUE=..., or arraylab survey --system for its ladder"
    )]
    Modelled(String),
    #[error("stream '{0}' replays a trace, whose times are not this program's to stretch")]
    Replay(String),
    #[error(
        "stream '{0}' is of a job file, whose rules know times of their own; 'arraylab import' makes an experiment of it"
    )]
    Job(String),
    #[error(
        "runs that go on until they are steady have no set length; give run.passes and run.measure in place of run.steady"
    )]
    Steady,
    #[error("the run had parts held up itself ([[slow]]); give the run as it was before")]
    Slow,
    #[error("a part is made 1.05 to 10 times as fast, not {0}")]
    Times(String),
}

/// A run at depth 1, which tells how long requests take alone.
#[must_use]
pub fn alone(experiment: &Experiment) -> Experiment {
    let mut alone = experiment.clone();
    for plan in &mut alone.streams {
        if let Load::Closed { depth, .. } = &mut plan.stream.load {
            *depth = 1;
        }
    }
    alone.run.passes = 1;
    alone
}

/// Whether each part of a run can be held up.
pub fn check(run: &str, experiment: &Experiment, times: Ratio) -> Result<(), WhatIfError> {
    if experiment.system.is_some() {
        return Err(WhatIfError::Modelled(run.to_owned()));
    }
    if !experiment.slow.is_empty() {
        return Err(WhatIfError::Slow);
    }
    if experiment.run.steady.is_some() {
        return Err(WhatIfError::Steady);
    }
    if !(1.05..=10.0).contains(&times.get()) {
        return Err(WhatIfError::Times(format!("{:.3}", times.get())));
    }
    for plan in &experiment.streams {
        let name = plan.stream.name.clone();
        if plan.script.is_some() {
            return Err(WhatIfError::Replay(name));
        }
        if plan.stream.rules != Rules::default() {
            return Err(WhatIfError::Job(name));
        }
    }
    Ok(())
}

/// The two runs that show what a part would bring if it were faster by this factor.
///
/// # Panics
/// If the experiment does not pass [`check`].
#[must_use]
pub fn plan(experiment: &Experiment, known: &Known, part: Part, times: Ratio) -> Plan {
    check("", experiment, times).expect("it was checked");
    let others = (0..known.devices.len()).filter(|device| part != Part::Device(*device));
    let at_once: Vec<Option<u32>> = known
        .devices
        .iter()
        .enumerate()
        .map(|(index, one)| one.at_once().filter(|_| part != Part::Device(index)))
        .collect();
    let slow = |by: Ratio| {
        let pace = |device: usize| Pace { by, beyond: known.generator, at_once: at_once[device] };
        let held = others.clone().filter(|device| by != Ratio::ZERO || at_once[*device].is_some());
        held.map(|device| Slow::Device { device, pace: pace(device) }).collect::<Vec<_>>()
    };
    let mut control = experiment.clone();
    control.slow = slow(Ratio::ZERO);
    let mut held = stretched(experiment, times);
    held.slow = slow(Ratio::new(times.get() - 1.0));
    // In virtual time it takes no time, and cannot be held up.
    if part != Part::Generator && !known.generator.is_zero() {
        held.slow.push(Slow::Generator(known.generator.scale(times.get() - 1.0)));
    }
    Plan { part, control, held, at_once }
}

/// The experiment with all its times longer by this factor, and its rates lower.
fn stretched(experiment: &Experiment, times: Ratio) -> Experiment {
    let times = times.get();
    let slower = |limit: RateLimit| RateLimit {
        requests: limit.requests.map(|rate| rarer(rate, times)),
        bytes: limit.bytes.map(|rate| Rate::bytes_per_second(rate.get() / times)),
        burst: limit.burst.scale(times),
    };
    let mut experiment = experiment.clone();
    let run = &mut experiment.run;
    for time in [&mut run.start_up, &mut run.cool_down].into_iter().chain(&mut run.measure) {
        *time = time.scale(times);
    }
    run.rate_limit = run.rate_limit.map(slower);
    for plan in &mut experiment.streams {
        plan.rate_limit = plan.rate_limit.map(slower);
        plan.rates = plan.rates.map(|limit| limit.map(slower));
        let stream = &mut plan.stream;
        let waits = [&mut stream.delay, &mut stream.ramp, &mut stream.apart];
        for time in waits.into_iter().chain(&mut stream.limits.time) {
            *time = time.scale(times);
        }
        match &mut stream.load {
            Load::Closed { think, .. } => *think = think.scale(times),
            Load::Open { arrivals, .. } => *arrivals = later(arrivals, times),
        }
    }
    experiment
}

fn rarer(rate: Frequency, times: f64) -> Frequency {
    Frequency::per_second(rate.get() / times)
}

/// Arrivals at so many times their distances.
fn later(arrivals: &Arrivals, times: f64) -> Arrivals {
    match arrivals {
        Arrivals::Constant(rate) => Arrivals::Constant(rarer(*rate, times)),
        Arrivals::Poisson(rate) => Arrivals::Poisson(rarer(*rate, times)),
        Arrivals::HyperExponential { rate, variation } => {
            Arrivals::HyperExponential { rate: rarer(*rate, times), variation: *variation }
        }
        Arrivals::Bursts { rate, on, off } => {
            Arrivals::Bursts { rate: rarer(*rate, times), on: on.scale(times), off: off.scale(times) }
        }
        Arrivals::Distances(distances) => {
            let points: Vec<_> =
                distances.points().iter().map(|(within, share)| (within.scale(times), *share)).collect();
            Arrivals::Distances(Distances::new(&points).expect("longer distances rise as the shorter ones do"))
        }
    }
}

/// What a run with every other part held up stands for: its figures with times shorter by this factor and rates higher.
#[must_use]
pub fn as_if(held: &Figures, times: Ratio) -> Figures {
    let mut figures = held.clone();
    figures.iops = Frequency::per_second(figures.iops.get() * times.get());
    figures.bandwidth = Rate::bytes_per_second(figures.bandwidth.get() * times.get());
    figures.time = figures.time.scale(1.0 / times.get());
    let latencies = [&mut figures.latency, &mut figures.wait, &mut figures.service];
    for latency in latencies.into_iter().flatten() {
        let parts = [
            &mut latency.min,
            &mut latency.mean,
            &mut latency.p50,
            &mut latency.p90,
            &mut latency.p99,
            &mut latency.p999,
            &mut latency.max,
        ];
        parts.into_iter().for_each(|time| *time = time.scale(1.0 / times.get()));
    }
    figures
}

/// What a part would bring, from the totals of the runs of its plan, turn by turn. `own` are the mean rates of the part
/// itself in both, of a device; `was` is the rate of the run as it is. Panics unless there are as many of both runs,
/// and two at least.
#[must_use]
pub fn brought(
    plan: &Plan,
    (control, held): (&[Figures], &[Figures]),
    own: Option<[Frequency; 2]>,
    was: Frequency,
    names: &[String],
    times: Ratio,
) -> Brought {
    let part = match plan.part {
        Part::Generator => "generator".to_owned(),
        Part::Device(index) => names[index].clone(),
    };
    let held: Vec<Figures> = held.iter().map(|figures| as_if(figures, times)).collect();
    let mean = control.iter().map(|figures| figures.iops.get()).sum::<f64>() / control.len() as f64;
    let bounded = names.iter().zip(&plan.at_once).filter_map(|(name, most)| Some((name.clone(), (*most)?)));
    Brought {
        part,
        times,
        metrics: turns(control, &held),
        control: Ratio::new(mean / was.get().max(1e-9)),
        // Both times the same clock: what rises here rises by more than `times` on the other one.
        shares: own.is_some_and(|[control, held]| held.get() > control.get() * (1.0 + VARIES)),
        at_once: bounded.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    fn experiment(text: &str) -> Experiment {
        let source = Source { name: "load.toml".to_owned(), text: text.to_owned() };
        crate::document::read(&source, &[]).unwrap().remove(0).experiment
    }

    const LOAD: &str =
        "[run]\nmeasure = \"1 s\"\n[[stream]]\noperation = \"read\"\npattern = \"random\"\nsize = \"4 KiB\"\n";

    fn device(rate: f64, service: u64, alone: u64) -> KnownDevice {
        let alone = Some(Duration::millis(alone));
        KnownDevice { rate: Frequency::per_second(rate), service: Duration::millis(service), alone }
    }

    #[test]
    fn all_parts_but_one_are_held_up_and_queues_are_bounded() {
        // The second has eight requests of which it serves one at a time, the third has no queue.
        let devices = vec![device(100.0, 10, 10), device(100.0, 80, 10), device(400.0, 12, 10)];
        let known = Known { generator: Duration::micros(20), devices };
        let load = experiment(&format!("{LOAD}depth = 8\n"));
        let first = plan(&load, &known, Part::Device(0), Ratio::new(1.5));
        let pace = |by: f64, at_once| Pace { by: Ratio::percent(by), beyond: Duration::micros(20), at_once };
        let on = |device, by, at_once| Slow::Device { device, pace: pace(by, at_once) };
        assert_eq!(first.control.slow, [on(1, 0.0, Some(1))]);
        let generator = Slow::Generator(Duration::micros(10));
        assert_eq!(first.held.slow, [on(1, 50.0, Some(1)), on(2, 50.0, None), generator]);
        assert_eq!(first.held.run.measure, Some(Duration::millis(1500)));
        let second = plan(&load, &known, Part::Device(1), Ratio::new(2.0));
        assert_eq!((second.control, second.at_once), (load.clone(), vec![None; 3]), "its own queue is its own");
        let generator = plan(&load, &known, Part::Generator, Ratio::new(2.0));
        assert_eq!(generator.held.slow, [on(0, 100.0, None), on(1, 100.0, Some(1)), on(2, 100.0, None)]);
        // What runs is written down, and reads back.
        assert_eq!(experiment(&first.held.to_toml()).slow, first.held.slow);
    }

    #[test]
    fn arrivals_think_times_and_rates_are_stretched() {
        let open = experiment(&format!("{LOAD}arrivals = {{ poisson = \"100/s\" }}\n"));
        let Load::Open { arrivals, .. } = &stretched(&open, Ratio::new(2.0)).streams[0].stream.load else {
            panic!("an open loop stays one")
        };
        assert_eq!(*arrivals, Arrivals::Poisson(Frequency::per_second(50.0)));
        let closed =
            experiment(&format!("{LOAD}depth = 2\nthink = \"3 ms\"\nrate-limit = {{ requests = \"10/s\" }}\n"));
        let slow = stretched(&closed, Ratio::new(2.0));
        assert_eq!(slow.streams[0].stream.load, Load::Closed { depth: 2, think: Duration::millis(6) });
        assert_eq!(slow.streams[0].rate_limit.unwrap().requests, Some(Frequency::per_second(5.0)));
        assert_eq!(slow.streams[0].stream.limits.time, Some(Duration::seconds(2)));
        assert_eq!(alone(&closed).streams[0].stream.load, Load::Closed { depth: 1, think: Duration::millis(3) });
    }

    #[test]
    fn a_part_that_gains_more_than_it_can_shares_something() {
        let devices = vec![device(50.0, 10, 10), device(50.0, 10, 10)];
        let known = Known { generator: Duration::ZERO, devices };
        let plan = plan(&experiment(LOAD), &known, Part::Device(0), Ratio::new(2.0));
        let of = |rate: f64| Figures { iops: Frequency::per_second(rate), ..Figures::default() };
        let names = ["a".to_owned(), "b".to_owned()];
        let shares = |held: f64| {
            let own = Some([Frequency::per_second(50.0), Frequency::per_second(held)]);
            let (control, held) = ([of(100.0), of(100.0)], [of(100.0), of(100.0)]);
            brought(&plan, (&control, &held), own, Frequency::per_second(100.0), &names, Ratio::new(2.0)).shares
        };
        // Two devices behind a link of 100 a second: b asks for half as much, and a has the rest.
        assert!(shares(75.0));
        assert!(!shares(50.0) && !shares(51.0));
    }

    #[test]
    fn what_cannot_be_stretched_is_refused() {
        let (load, twice) = (experiment(LOAD), Ratio::new(2.0));
        assert_eq!(check("run", &load, twice), Ok(()));
        assert!(matches!(check("run", &load, Ratio::ONE), Err(WhatIfError::Times(_))));
        let mut held = load.clone();
        held.slow.push(Slow::Generator(Duration::micros(1)));
        assert_eq!(check("run", &held, twice), Err(WhatIfError::Slow));
        let steady = experiment(&LOAD.replace("measure", "steady = { rounds = 9 }\nmeasure"));
        assert_eq!(check("run", &steady, twice), Err(WhatIfError::Steady));
    }
}
