//! What each node of a machine passes at most, and the narrowest cut between its drives and memory.
//!
//! A cut is a set of nodes without which no data get from a drive to memory. In a tree the narrowest one is found from
//! the drives up: a node is in it if it passes no more than the narrowest cut below it. Rates are those of reads that
//! nothing disturbs, so that the machine delivers less; what else limits, only a run can tell.

use std::rc::Rc;

use units::Rate;

use crate::system::Machine;

/// What a node passes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    /// Alone, if it bounds that at all.
    pub own: Option<Rate>,
    /// What the narrowest cut below it lets through; zero where no drive stands below.
    pub below: Rate,
}

/// The narrowest cut.
#[derive(Debug, Clone, PartialEq)]
pub struct Cut {
    /// Its nodes.
    pub nodes: Vec<usize>,
    /// What they pass together.
    pub rate: Rate,
}

impl Capacity {
    /// What gets through it.
    pub fn passes(&self) -> Rate {
        match self.own {
            Some(own) if own < self.below => own,
            _ => self.below,
        }
    }
}

/// What each node of a machine passes.
pub fn capacities(machine: &Machine) -> Vec<Capacity> {
    let nodes = machine.nodes();
    let mut capacities: Vec<Capacity> =
        nodes.iter().map(|node| Capacity { own: node.stands.rate(), below: Rate::ZERO }).collect();
    for source in sources(machine) {
        let capacity = &mut capacities[source];
        capacity.below = capacity.own.unwrap_or(Rate::ZERO);
    }
    // Each node stands behind the one above it.
    for index in (0..nodes.len()).rev() {
        let passes = capacities[index].passes();
        if let Some(above) = nodes[index].above {
            let below = &mut capacities[above].below;
            *below = Rate::bytes_per_second(below.get() + passes.get());
        }
    }
    capacities
}

/// The nodes that data come from: drives, of the host or of a controller.
fn sources(machine: &Machine) -> Vec<usize> {
    let nodes = machine.nodes();
    let drives: Vec<usize> =
        (0..nodes.len()).filter(|node| Rc::clone(&nodes[*node].stands).endpoint().is_some()).collect();
    let has_drives = |node: usize| drives.iter().any(|drive| *drive != node && machine.up(*drive).any(|up| up == node));
    drives.iter().copied().filter(|node| !has_drives(*node)).collect()
}

/// The narrowest cut of a machine; nothing if it has no drives.
pub fn narrowest(machine: &Machine) -> Option<Cut> {
    let (capacities, sources) = (capacities(machine), sources(machine));
    let nodes = machine.nodes();
    let mut cut = Vec::new();
    let mut open: Vec<usize> = (0..nodes.len()).filter(|node| nodes[*node].above.is_none()).collect();
    while let Some(node) = open.pop() {
        let capacity = capacities[node];
        if capacity.below.is_zero() {
            continue;
        }
        if sources.contains(&node) || capacity.own.is_some_and(|own| own <= capacity.below) {
            cut.push(node);
        } else {
            open.extend((0..nodes.len()).filter(|other| nodes[*other].above == Some(node)));
        }
    }
    cut.sort_unstable();
    let rate = cut.iter().map(|node| capacities[*node].passes().get()).sum();
    (!cut.is_empty()).then(|| Cut { nodes: cut, rate: Rate::bytes_per_second(rate) })
}
