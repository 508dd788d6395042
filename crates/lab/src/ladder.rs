//! The hierarchy of bottlenecks of a modelled machine, derived.
//!
//! On each rung every part is made twice as fast in turn. The part whose doubling brings most is the limit; its rung is what the machine
//! gives before. Then that part is made so fast that it cannot limit anything, and the next rung is looked for, until doubling
//! brings nothing but at the disks. Nobody says in which order the parts are to be found.
//!
//! Which values make up the speed of a part is known by kind (`SUSPECTS`); which parts of a kind the machine has, its description says.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use machine::part::{Node, PartError, Value};
use machine::system::Kit;
use units::{Duration, Frequency, Rate};

use crate::experiment::Experiment;
use crate::runner::RunError;
use crate::trial::trial;

/// A place in the machine that can limit it, with the values that make up its speed: the kind of part, and the value's path.
struct Suspect {
    name: &'static str,
    values: &'static [(&'static str, &'static str)],
}

const SUSPECTS: &[Suspect] = &[
    Suspect {
        name: "host memory system",
        values: &[
            ("memory", "copy-cached"),
            ("memory", "copy-uncached"),
            ("memory", "flush-dirty"),
            ("memory", "flush-clean"),
            ("memory", "dma-miss"),
            ("memory", "dma-hit"),
        ],
    },
    Suspect { name: "host processor", values: &[("processor", "instructions"), ("processor", "context-switch")] },
    Suspect { name: "backplane", values: &[("backplane", "rate"), ("backplane", "register-access")] },
    Suspect {
        name: "adapters",
        values: &[
            ("adapter", "data-path"),
            ("adapter", "dma"),
            ("adapter", "command-setup"),
            ("adapter", "completion"),
        ],
    },
    Suspect {
        name: "strings",
        values: &[
            ("scsi-string", "byte-time"),
            ("adapter", "allocation"),
            ("adapter", "answer.fifo"),
            ("adapter", "answer.save-pointer"),
            ("adapter", "answer.restore-pointer"),
            ("disk", "overhead.request"),
            ("disk", "pause.first-data-least"),
            ("disk", "pause.first-data-most"),
            ("disk", "pause.save-pointer-least"),
            ("disk", "pause.save-pointer-most"),
            ("disk", "pause.status"),
            ("disk", "pause.status-per-block"),
        ],
    },
];

/// The disks are what is left when nothing else limits.
const DISKS: &str = "disks";

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
    let mut left: Vec<(&str, Vec<String>)> = Vec::new();
    let system = experiment.system.as_ref().expect("a ladder is of a modelled machine");
    let kit = system.kit()?;
    for suspect in SUSPECTS {
        let values = present(&kit, suspect);
        if !values.is_empty() {
            left.push((suspect.name, values));
        }
    }
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
        let part = limit.as_ref().map_or(DISKS, |(name, _)| name).to_owned();
        rungs.push(Rung { part, bandwidth: now.bandwidth, rate: now.iops, doublings });
        let Some((_, values)) = limit else { return Ok(rungs) };
        base = faster(&base, &values, UNLIMITED)?;
    }
}

/// The values of a suspect in this machine: `PART.VALUE`.
fn present(kit: &Kit, suspect: &Suspect) -> Vec<String> {
    let mut used = Vec::new();
    for (_, node) in kit.system.values.entries() {
        names(node, &mut used);
    }
    let parts = kit.parts.iter().filter(|(name, _)| used.contains(name));
    parts
        .flat_map(|(name, part)| {
            let of_kind = suspect.values.iter().filter(|(kind, _)| *kind == part.kind);
            of_kind.filter(|(_, path)| row(kit, name, path).is_some()).map(move |(_, path)| format!("{name}.{path}"))
        })
        .collect()
}

/// Every text of a description; those that are parts' names name its parts.
fn names(node: &Node, texts: &mut Vec<String>) {
    match &node.value {
        Value::Text(text) => texts.push(text.clone()),
        Value::List(nodes) => nodes.iter().for_each(|node| names(node, texts)),
        Value::Table(table) => table.entries().iter().for_each(|(_, node)| names(node, texts)),
        Value::Integer(_) | Value::Float(_) | Value::Flag(_) => {}
    }
}

fn row(kit: &Kit, part: &str, path: &str) -> Option<String> {
    let rows = kit.parts.get(part)?.rows();
    rows.iter().find(|row| row.path == path).map(|row| row.value.trim_matches('"').to_owned())
}

/// The same experiment with these values so many times as fast.
fn faster(experiment: &Experiment, values: &[String], factor: f64) -> Result<Experiment, PartError> {
    let mut result = experiment.clone();
    let system = result.system.as_mut().expect("a ladder is of a modelled machine");
    let kit = system.kit()?;
    for key in values {
        let (part, path) = key.split_once('.').expect("a value is named by its part and path");
        let text = row(&kit, part, path).expect("a suspect's values are values of its part");
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
