//! The hierarchy of bottlenecks of a modelled machine, derived.
//!
//! On each rung every part is made twice as fast in turn. The part whose doubling brings most is the limit; its rung is what the machine
//! gives before. Then that part is made so fast that it cannot limit anything, and the next rung is looked for, until doubling
//! brings nothing but at the disks. Nobody says in which order the parts are to be found.
//!
//! Which values make a part fast its kind says ([`machine::component::Fast`]); which nodes the machine has, its
//! description.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use machine::kinds::KINDS;
use machine::kit::Kit;
use machine::part::PartError;
use machine::system::{Drive, Machine};
use machine::trace::Trace;
use runtime::Runtime;
use units::{Duration, Frequency, Rate};

use crate::experiment::Experiment;
use crate::runner::RunError;
use crate::trial::trial;

/// The drives are what is left when nothing else limits.
fn drives(machine: &Machine) -> &'static str {
    let flash = |drive: &Drive| machine.nodes()[drive.node].kind.name == "flash";
    if machine.drives().iter().all(flash) { "flash drives" } else { "disks" }
}

/// As fast as nothing else is.
const UNLIMITED: f64 = 1000.0;

/// A doubling that brings less than this is not counted as a limit.
const WORTH: f64 = 1.02;

/// One rung.
#[derive(Debug, Clone)]
pub struct Rung {
    /// What limits.
    pub part: String,
    /// What the machine gives under this limit.
    pub bandwidth: Rate,
    /// Requests a second.
    pub rate: Frequency,
    /// How many times as much it gives with each part twice as fast.
    pub doublings: Vec<(String, f64)>,
}

/// The ladder of the machine that an experiment runs on, under its load. `show` is told how many trials are behind; after an
/// interrupt the ladder is that of what was found.
///
/// # Panics
/// If the experiment runs on no modelled machine.
pub fn ladder(
    experiment: &Experiment,
    interrupted: &AtomicBool,
    show: &mut dyn FnMut(usize),
) -> Result<Vec<Rung>, RunError> {
    let system = experiment.system.as_ref().expect("a ladder is of a modelled machine");
    let kit = system.kit()?;
    let machine = kit.build(&Runtime::simulated(), 1, &Trace::default())?;
    let mut left = suspects(&kit, &machine)?;
    let drives = drives(&machine);
    let mut trials = 0;
    let mut measure = |experiment: &Experiment| {
        show(trials);
        trials += 1;
        trial(experiment, interrupted)
    };
    let mut base = experiment.clone();
    let mut rungs = Vec::new();
    loop {
        let now = measure(&base)?.summary.total.figures;
        let mut doublings = Vec::new();
        for (name, values) in &left {
            let faster = measure(&faster(&base, values, 2.0)?)?.summary.total.figures;
            doublings.push(((*name).to_owned(), faster.iops.get() / now.iops.get()));
        }
        if interrupted.load(Relaxed) {
            return Ok(rungs);
        }
        let best = doublings.iter().enumerate().max_by(|(_, a), (_, b)| a.1.total_cmp(&b.1));
        let limit = best.filter(|(_, (_, gain))| *gain > WORTH).map(|(index, _)| left.remove(index));
        let part = limit.as_ref().map_or(drives, |(name, _)| name).to_owned();
        rungs.push(Rung { part, bandwidth: now.bandwidth, rate: now.iops, doublings });
        let Some((_, values)) = limit else { return Ok(rungs) };
        base = faster(&base, &values, UNLIMITED)?;
    }
}

/// What can limit the machine, by name, and the values that make it fast: `PART.VALUE`, or `NODE.VALUE` where a node's
/// differ from those of others with its part.
fn suspects(kit: &Kit, machine: &Machine) -> Result<Vec<(&'static str, Vec<String>)>, PartError> {
    let mut suspects: Vec<(&str, Vec<String>)> = Vec::new();
    for (kind, fast) in KINDS.into_iter().flat_map(|kind| kind.fast.iter().map(move |fast| (kind, fast))) {
        let nodes = machine.nodes().iter().filter(|node| node.kind.name == kind.name);
        let mut keys: Vec<String> = Vec::new();
        for node in nodes {
            for value in fast.values {
                let Some(own) = kit.value(&node.name, value)? else { continue };
                let of_part = kit.parts.get(&node.part).and_then(|part| part.value(value));
                let key = if of_part.as_ref() == Some(&own) {
                    format!("{}.{value}", node.part)
                } else {
                    format!("{}.{value}", node.name)
                };
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
        match suspects.iter_mut().find(|(limit, _)| *limit == fast.limit) {
            Some((_, known)) => known.extend(keys),
            None => suspects.push((fast.limit, keys)),
        }
    }
    suspects.retain(|(_, keys)| !keys.is_empty());
    Ok(suspects)
}

/// The same experiment with these values so many times as fast.
fn faster(experiment: &Experiment, values: &[String], factor: f64) -> Result<Experiment, PartError> {
    let mut result = experiment.clone();
    let system = result.system.as_mut().expect("a ladder is of a modelled machine");
    let kit = system.kit()?;
    for key in values {
        let text = kit.current(key)?.expect("a suspect's values are values of its part");
        system.parts.push((key.clone(), scaled(&text, factor)));
    }
    Ok(result)
}

/// A time shortened, or a rate or frequency raised.
fn scaled(text: &str, factor: f64) -> String {
    if let Ok(time) = text.parse::<Duration>() {
        return format!("{:#}", time.scale(1.0 / factor).max(Duration::nanos(1)));
    }
    if let Ok(rate) = text.parse::<Rate>() {
        return format!("{:#}", rate * factor);
    }
    let frequency: Frequency = text.parse().expect("a suspect's value is a time, a rate or a frequency");
    format!("{:#}", Frequency::per_second(frequency.get() * factor))
}

#[cfg(test)]
mod tests {
    use analysis::survey::Question;

    use super::*;
    use crate::survey::Modelled;

    #[test]
    fn the_ladder_is_the_one_of_the_study() {
        let no = AtomicBool::new(false);
        let machine = Modelled::new("raid-i", Vec::new(), &no).unwrap();
        let rungs = ladder(&machine.ladder_load(Question::Bandwidth), &no, &mut |_| ()).unwrap();
        let found: Vec<&str> =
            rungs.iter().map(|rung| rung.part.as_str()).filter(|part| *part != "host processor").collect();
        assert_eq!(found, ["host memory system", "backplane", "adapters", "strings", "disks"], "{rungs:#?}");
        let requests = ladder(&machine.ladder_load(Question::Requests), &no, &mut |_| ()).unwrap();
        assert_eq!(requests[0].part, "host processor", "{requests:#?}");
    }
}
