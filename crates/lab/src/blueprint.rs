//! A described machine as a tree of nodes with what each passes: `arraylab systems check`.

use std::fmt::Write as _;

use machine::capacity::{Capacity, capacities, narrowest};
use machine::kit::Kit;
use machine::part::PartError;
use machine::system::Machine;
use machine::trace::Trace;
use report::Table;
use runtime::Runtime;
use serde::Serialize;
use units::Rate;

/// A machine that was put together.
#[derive(Debug, Clone, Serialize)]
pub struct Blueprint {
    /// What it is.
    pub title: String,
    /// Its nodes, each before those on it.
    pub nodes: Vec<Line>,
    /// The nodes without which no data get from a drive to memory, where they pass least; empty without drives.
    pub narrowest: Vec<String>,
    /// What those pass together.
    pub narrowest_bytes_per_s: f64,
}

/// A node, or several alike that stand on the same one.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// Their names.
    pub names: Vec<String>,
    /// Their part.
    pub part: String,
    /// Its kind.
    pub kind: &'static str,
    /// How far from the root.
    pub depth: usize,
    /// What one of them passes, if it bounds that.
    pub bytes_per_s: Option<f64>,
    /// What reaches one of them from the drives on it.
    pub below_bytes_per_s: Option<f64>,
    #[serde(skip)]
    limits: bool,
}

/// The kinds of machine for which there is a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the words of the command
pub enum Start {
    Nvme,
    Sas,
    Raid,
    Nfs,
}

/// A commented system file to start from. It can be put together as it is.
pub fn template(of: Start) -> &'static str {
    match of {
        Start::Nvme => include_str!("blueprint/nvme.toml"),
        Start::Sas => include_str!("blueprint/sas.toml"),
        Start::Raid => include_str!("blueprint/raid.toml"),
        Start::Nfs => include_str!("blueprint/nfs.toml"),
    }
}

/// The machine that a description gives. Refused with its place if something does not fit.
pub fn blueprint(name: &str) -> Result<Blueprint, PartError> {
    let kit = Kit::load(name)?;
    let machine = kit.build(&Runtime::simulated(), 1, &Trace::default())?;
    let cut = narrowest(&machine);
    let in_cut = |node: &usize| cut.as_ref().is_some_and(|cut| cut.nodes.contains(node));
    let capacities = capacities(&machine);
    let mut lines: Vec<(Line, Vec<usize>)> = Vec::new();
    let roots = (0..machine.nodes().len()).filter(|node| machine.nodes()[*node].above.is_none());
    for root in roots {
        lay_out(&machine, &capacities, root, 0, &in_cut, &mut lines);
    }
    let name_of = |node: &usize| machine.nodes()[*node].name.to_string();
    Ok(Blueprint {
        title: kit.system.name.clone(),
        nodes: lines.into_iter().map(|(line, _)| line).collect(),
        narrowest: cut.iter().flat_map(|cut| cut.nodes.iter().map(name_of)).collect(),
        narrowest_bytes_per_s: cut.map_or(0.0, |cut| cut.rate.get()),
    })
}

/// A node and what stands on it; leaves that are alike share a line.
fn lay_out(
    machine: &Machine,
    capacities: &[Capacity],
    node: usize,
    depth: usize,
    in_cut: &dyn Fn(&usize) -> bool,
    lines: &mut Vec<(Line, Vec<usize>)>,
) {
    let nodes = machine.nodes();
    let (it, capacity) = (&nodes[node], capacities[node]);
    let on_it: Vec<usize> = (0..nodes.len()).filter(|other| nodes[*other].above == Some(node)).collect();
    let drive = machine.drives().iter().any(|drive| drive.node == node);
    if let Some((line, members)) = lines.last_mut()
        && on_it.is_empty()
        && line.depth == depth
        && line.part == it.part
        && nodes[members[0]].above == it.above
        && alike(capacities[members[0]].own, capacity.own)
    {
        line.names.push(it.name.to_string());
        line.limits |= in_cut(&node);
        members.push(node);
        return;
    }
    let below = (!drive && !capacity.below.is_zero()).then(|| capacity.below.get());
    let line = Line {
        names: vec![it.name.to_string()],
        part: it.part.clone(),
        kind: it.kind.name,
        depth,
        bytes_per_s: capacity.own.map(Rate::get),
        below_bytes_per_s: below,
        limits: in_cut(&node),
    };
    lines.push((line, vec![node]));
    for other in on_it {
        lay_out(machine, capacities, other, depth + 1, in_cut, lines);
    }
}

/// Drives of one part turn at speeds of their own, within its error.
fn alike(a: Option<Rate>, b: Option<Rate>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a.get() / b.get() - 1.0).abs() < 0.05,
        (a, b) => a == b,
    }
}

impl Blueprint {
    /// As text.
    pub fn text(&self) -> String {
        let rate = |rate: Option<f64>| rate.map_or_else(String::new, |rate| Rate::bytes_per_second(rate).to_string());
        let mut table = Table::new(["node", "part", "kind", "passes", "from below", ""]).left(1).left(2).left(5);
        for line in &self.nodes {
            let names = match &line.names[..] {
                [one] => one.clone(),
                [first, .., last] => format!("{first} to {last} ({})", line.names.len()),
                [] => unreachable!("a line has a node"),
            };
            let own = match line.names.len() {
                1 => rate(line.bytes_per_s),
                _ if line.bytes_per_s.is_none() => String::new(),
                _ => format!("{} each", rate(line.bytes_per_s)),
            };
            let node = format!("{}{names}", "  ".repeat(line.depth));
            let limits = if line.limits { "<- narrowest" } else { "" };
            table.row([&node, &line.part, line.kind, &own, &rate(line.below_bytes_per_s), limits]);
        }
        let mut text = format!("{}\n\n{table}\n", self.title);
        match &self.narrowest[..] {
            [] => text.push_str("No drive: nothing can be asked of this machine.\n"),
            names => {
                let (who, verb) = match names {
                    [one] => (one.clone(), "passes"),
                    [first, .., last] if names.len() > 4 => (format!("{first} to {last} ({})", names.len()), "pass"),
                    names => (names.join(", "), "pass"),
                };
                let together = if names.len() > 1 { " together" } else { "" };
                let _ = writeln!(
                    text,
                    "The narrowest cut between drives and memory: {who} {verb} {}{together}. Reads that nothing delays get that much at most; \
                     what a load gets, and what else limits it, `arraylab survey --system` tells.",
                    Rate::bytes_per_second(self.narrowest_bytes_per_s)
                );
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_can_be_put_together_as_they_are() {
        for start in [Start::Nvme, Start::Sas, Start::Raid, Start::Nfs] {
            let mut kit = Kit::load("nvme-24").unwrap();
            kit.system = machine::part::Part::parse("template.toml", template(start)).unwrap();
            let machine =
                kit.build(&Runtime::simulated(), 1, &Trace::default()).unwrap_or_else(|error| panic!("{error}"));
            assert!(!machine.drives().is_empty(), "{start:?}");
        }
    }

    #[test]
    fn the_narrowest_cut_is_that_of_sums_by_hand() {
        let found = |name: &str| {
            let blueprint = blueprint(name).unwrap();
            (blueprint.narrowest.clone(), blueprint.narrowest_bytes_per_s, blueprint.text())
        };
        let (names, rate, text) = found("nvme-24");
        assert_eq!(names, ["switch-0", "switch-1"]);
        let by_hand = 2.0 * 16.0 * 16e9 * 128.0 / 130.0 / 8.0 * 256.0 / 280.0;
        assert!((rate / by_hand - 1.0).abs() < 1e-9, "{rate} and not {by_hand}");
        assert!(text.contains("drive-0.0 to drive-0.11 (12)") && text.matches("<- narrowest").count() == 2, "{text}");
        let (names, rate, _) = found("sas-60");
        assert_eq!(names, ["expander"]);
        assert!((rate / (4.0 * 1.2e9 * 1024.0 / 1060.0) - 1.0).abs() < 1e-9, "{rate}");
        // RAID-I: seven strings of 4 MB/s carry less than its 28 disks, its adapters and its backplane; its memory less
        // than all.
        let (_, rate, text) = found("raid-i");
        assert!(rate > 0.0 && text.contains("disk-6.0 to disk-6.3 (4)"), "{text}");
    }
}
