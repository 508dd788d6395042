//! The hierarchy of bottlenecks of a modelled machine, derived.
//!
//! On each rung every part is made twice as fast in turn. The part whose doubling brings most is the limit; its rung is
//! what the machine gives before. Then that part is made so fast that it cannot limit anything, and the next rung is
//! looked for, until doubling brings nothing but at the disks. Nobody says in which order the parts are to be found.
//!
//! Which values make a part fast its kind says ([`machine::component::Fast`]); which nodes the machine has, its
//! description. Nodes of a kind that are alike are one suspect, under the name of their class. A node that differs from
//! the others of its kind is a suspect under its own name. The drives are left at the end; if one of them is much
//! slower than the others, it is named.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use machine::component::TreeNode;
use machine::kinds::KINDS;
use machine::kit::Kit;
use machine::part::PartError;
use machine::system::{Drive, Machine};
use machine::trace::Trace;
use rayon::prelude::*;
use runtime::Runtime;
use units::{Duration, Frequency, Rate};

use crate::experiment::Experiment;
use crate::runner::{Outcome, RunError};
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

/// A drive that gives less than this share of what the median drive gives is named, if such drives are at most a
/// [`FEW`]th of all. Both are assumed: names help where few drives differ clearly.
const SLOW: f64 = 0.8;
const FEW: usize = 4;

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

/// The ladder of the machine that an experiment runs on, under its load. `show` is told how many trials are behind;
/// after an interrupt the ladder is that of what was found.
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
    let mut base = experiment.clone();
    let mut rungs = Vec::new();
    loop {
        show(trials);
        trials += 1 + left.len();
        let doubled = left.iter().map(|suspect| faster(&base, &suspect.values, 2.0)).collect::<Result<Vec<_>, _>>()?;
        let all: Vec<&Experiment> = std::iter::once(&base).chain(&doubled).collect();
        // Trials are of equal length, so that each processor takes the next one.
        let outcomes = all.into_par_iter().with_max_len(1).map(|experiment| trial(experiment, interrupted));
        let outcomes = outcomes.collect::<Result<Vec<_>, _>>()?;
        if interrupted.load(Relaxed) {
            return Ok(rungs);
        }
        let (present, doubled) = outcomes.split_first().expect("there is the present machine at least");
        let now = &present.summary.total.figures;
        let gain = |outcome: &Outcome| outcome.summary.total.figures.iops.get() / now.iops.get();
        let named = left.iter().zip(doubled).map(|(suspect, outcome)| (suspect.name.clone(), gain(outcome)));
        let doublings: Vec<(String, f64)> = named.collect();
        let best = doublings.iter().enumerate().max_by(|(_, a), (_, b)| a.1.total_cmp(&b.1));
        let limit = best.filter(|(_, (_, gain))| *gain > WORTH).map(|(index, _)| left.remove(index));
        let part = match &limit {
            Some(suspect) => suspect.name.clone(),
            None => slowest(present).map_or(drives.to_owned(), |slow| format!("{drives} ({slow} the slowest)")),
        };
        rungs.push(Rung { part, bandwidth: now.bandwidth, rate: now.iops, doublings });
        let Some(suspect) = limit else { return Ok(rungs) };
        base = faster(&base, &suspect.values, UNLIMITED)?;
    }
}

/// Drives that give much less than the median drive, if they are few.
fn slowest(outcome: &Outcome) -> Option<String> {
    let mut rates: Vec<f64> = outcome.summary.devices.iter().map(|device| device.figures.iops.get()).collect();
    rates.sort_by(f64::total_cmp);
    let median = *rates.get(rates.len() / 2)?;
    let slow = outcome.summary.devices.iter().filter(|device| device.figures.iops.get() < SLOW * median);
    let names: Vec<&str> = slow.map(|device| device.name.as_str()).collect();
    (!names.is_empty() && names.len() * FEW <= rates.len()).then(|| names.join(", "))
}

/// What can limit the machine.
struct Suspect {
    name: String,
    /// `PART.VALUE`, or `NODE.VALUE` where a node's differ from those of others.
    values: Vec<String>,
}

/// Nodes of a kind, in groups of those whose values are alike; the largest group first.
fn alike<'m>(kit: &Kit, nodes: &[&'m TreeNode], values: &[&str]) -> Result<Vec<Vec<&'m TreeNode>>, PartError> {
    let mut groups: Vec<(Vec<Option<String>>, Vec<&TreeNode>)> = Vec::new();
    for node in nodes {
        let own = values.iter().map(|value| kit.value(&node.name, value)).collect::<Result<Vec<_>, _>>()?;
        match groups.iter_mut().find(|(known, _)| *known == own) {
            Some((_, group)) => group.push(node),
            None => groups.push((own, vec![node])),
        }
    }
    let mut groups: Vec<_> = groups.into_iter().map(|(_, group)| group).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    Ok(groups)
}

/// All of them, by name.
fn suspects(kit: &Kit, machine: &Machine) -> Result<Vec<Suspect>, PartError> {
    let mut suspects: Vec<Suspect> = Vec::new();
    for (kind, fast) in KINDS.into_iter().flat_map(|kind| kind.fast.iter().map(move |fast| (kind, fast))) {
        let nodes: Vec<&TreeNode> = machine.nodes().iter().filter(|node| node.kind.name == kind.name).collect();
        let groups = alike(kit, &nodes, fast.values)?;
        for (index, group) in groups.iter().enumerate() {
            let mut values: Vec<String> = Vec::new();
            for node in group {
                for value in fast.values {
                    let Some(own) = kit.value(&node.name, value)? else { continue };
                    let of_part = kit.parts.get(&node.part).and_then(|part| part.value(value));
                    let whole = groups.len() == 1 && of_part.as_ref() == Some(&own);
                    let key = format!("{}.{value}", if whole { &*node.part } else { &*node.name });
                    if !values.contains(&key) {
                        values.push(key);
                    }
                }
            }
            let name = match index {
                0 => fast.limit.to_owned(),
                _ => group.iter().map(|node| &*node.name).collect::<Vec<_>>().join(", "),
            };
            match suspects.iter_mut().find(|suspect| suspect.name == name) {
                Some(known) => known.values.extend(values),
                None => suspects.push(Suspect { name, values }),
            }
        }
    }
    suspects.retain(|suspect| !suspect.values.is_empty());
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

/// A time shortened, or a rate, a frequency or a count raised.
fn scaled(text: &str, factor: f64) -> String {
    if let Ok(count) = text.parse::<f64>() {
        return format!("{}", count * factor);
    }
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
    use crate::blueprint::{Start, template};
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

    /// One part is made slow, and is the first rung: by its kind, or by its name if others of the kind are fast.
    #[test]
    fn a_planted_slow_part_is_first_on_the_ladder() {
        use Question::{Bandwidth, Requests};
        let folder = tempfile::tempdir().unwrap();
        let small = folder.path().join("small.toml");
        std::fs::write(&small, template(Start::Nvme)).unwrap();
        let small = small.display().to_string();
        let first = |system: &str, question, changes: &[(&str, &str)]| {
            let enough = AtomicBool::new(false);
            let changes = changes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let depth = (question == Requests).then_some(2);
            let machine = Modelled::new(system, changes, &enough).unwrap().asked_with(None, depth);
            // The rungs behind the first one are not looked for.
            let mut show = |trials: usize| enough.store(trials > 0, Relaxed);
            ladder(&machine.ladder_load(question), &enough, &mut show).map(|rungs| rungs[0].part.clone())
        };
        let copies = [("sun4-280-memory.copy-uncached", "500 kB/s"), ("sun4-280-memory.copy-cached", "500 kB/s")];
        let link = [("sas3-hba.link.lanes", "1"), ("sas3-hba.link.generation", "1")];
        type Case<'c> = (&'c str, Question, &'c [(&'c str, &'c str)], &'c str);
        let cases: [Case; 11] = [
            (&small, Bandwidth, &[("drive-0.2.controller.link", "500 MB/s")], "flash drives (drive-0.2 the slowest)"),
            (&small, Bandwidth, &[("pcie-4-switch.lanes", "2")], "PCIe switches"),
            (&small, Bandwidth, &[("switch-1.lanes", "1")], "switch-1"),
            (&small, Bandwidth, &[("pcie-4-root.fabric", "5 GB/s")], "PCIe root complex"),
            (&small, Bandwidth, &[("ddr4-8-channels.bus", "5 GB/s")], "host memory system"),
            (&small, Requests, &[("epyc-32-core.cores", "1")], "host processor"),
            ("sas-60", Bandwidth, &link, "host bus adapters"),
            ("sas-60", Bandwidth, &[("sas3-hba.command", "400 us")], "host bus adapters"),
            ("sas-60", Bandwidth, &[("sas3-expander.lanes", "1")], "SAS wide ports"),
            ("raid6-12", Bandwidth, &[("raid-sas3.member", "1 ms")], "RAID controllers"),
            ("raid-i", Bandwidth, &copies, "host memory system"),
        ];
        for (system, question, changes, part) in cases {
            assert_eq!(first(system, question, changes).unwrap(), part, "{changes:?}");
        }
        assert_eq!(first(&small, Bandwidth, &[]).unwrap(), "flash drives");
    }

    /// Of two switches one has lanes of its own, so that each is a suspect; alike they are one.
    #[test]
    fn a_node_that_differs_is_a_suspect_of_its_own() {
        let no = AtomicBool::new(false);
        let names = |changes: &[(&str, &str)]| -> Vec<String> {
            let changes = changes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let experiment = Modelled::new("nvme-24", changes, &no).unwrap().ladder_load(Question::Bandwidth);
            let kit = experiment.system.as_ref().unwrap().kit().unwrap();
            let machine = kit.build(&Runtime::simulated(), 1, &Trace::default()).unwrap();
            let all = suspects(&kit, &machine).unwrap();
            // Each can be made faster.
            for suspect in &all {
                let faster = faster(&experiment, &suspect.values, 2.0).unwrap();
                faster.system.unwrap().kit().unwrap().build(&Runtime::simulated(), 1, &Trace::default()).unwrap();
            }
            all.into_iter().map(|suspect| suspect.name).collect()
        };
        assert!(names(&[]).contains(&"PCIe switches".to_owned()));
        let two = names(&[("switch-1.lanes", "2")]);
        assert!(two.contains(&"PCIe switches".to_owned()) && two.contains(&"switch-1".to_owned()), "{two:?}");
    }

    #[test]
    fn a_drive_that_is_much_slower_than_the_others_is_named() {
        let no = AtomicBool::new(false);
        let slow = |changes: &[(&str, &str)]| {
            let changes = changes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let experiment = Modelled::new("nvme-24", changes, &no).unwrap().ladder_load(Question::Bandwidth);
            slowest(&trial(&experiment, &no).unwrap())
        };
        assert_eq!(slow(&[("drive-0.3.controller.link", "500 MB/s")]).as_deref(), Some("drive-0.3"));
        assert_eq!(slow(&[]), None);
    }
}
