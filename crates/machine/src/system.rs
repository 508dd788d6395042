//! A machine put together from its description.
//!
//! [`Kit::build`] goes through the nodes of the system's file, each after the one above it, looks the kind of each part
//! up ([`crate::kinds`]), and has it built where it stands. What may stand on what, and in which places, is checked
//! here for all kinds alike, with the place in the file of whatever does not fit.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use runtime::Runtime;
use units::Bytes;

use crate::component::{Component, Kind, Site, TreeNode};
use crate::endpoint::Endpoint;
use crate::flow::Flows;
use crate::kinds::{KINDS, kind};
use crate::kit::{Kit, stem};
use crate::load::Passages;
use crate::os::Os;
use crate::part::{PartError, Problem};
use crate::raid::RaidParameters;
use crate::raid::upkeep::{Done, Upkeep};
use crate::scsi::protocol::Passage;
use crate::trace::Trace;
use crate::tree::{self, PLACES, Written};

/// A machine in virtual time.
pub struct Machine {
    /// Its clock.
    pub runtime: Runtime,
    /// Its spans.
    pub trace: Trace,
    /// What its parts share.
    pub flows: Flows,
    /// The array of its drives, if the file describes one.
    pub array: Option<RaidParameters>,
    /// The upkeep of its array, and how far it is; nothing before the array is assembled.
    pub(crate) tended: RefCell<Option<(Upkeep, Done)>>,
    /// What commands did on the strings so far.
    pub(crate) passages: Cell<Passages>,
    nodes: Vec<TreeNode>,
    drives: Vec<Drive>,
}

/// Something in a machine that can be read and written.
pub struct Drive {
    /// The name of its node.
    pub name: Arc<str>,
    /// The index of its node.
    pub node: usize,
    /// The drive, and the way to it.
    pub endpoint: Rc<dyn Endpoint>,
    /// The operating system that sends it commands.
    pub os: Rc<Os>,
}

impl Machine {
    /// All nodes, each after the one above it.
    pub fn nodes(&self) -> &[TreeNode] {
        &self.nodes
    }

    /// Notes the upkeep of its array, for its gauges.
    pub(crate) fn tend(&self, upkeep: Upkeep, done: Done) {
        *self.tended.borrow_mut() = Some((upkeep, done));
    }

    /// All drives, in the order of the file.
    pub fn drives(&self) -> &[Drive] {
        &self.drives
    }

    /// The drive of that name.
    pub fn drive(&self, name: &str) -> Option<&Drive> {
        self.drives.iter().find(|drive| &*drive.name == name)
    }

    /// Their names, for a message.
    pub fn names_of_drives(&self) -> String {
        tree::names_of(self.drives.iter().map(|drive| &drive.name))
    }

    /// The index of the node of that name.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| &*node.name == name)
    }

    /// What stands in the node of that name, if it is of this type.
    pub fn part<T: Component>(&self, name: &str) -> Option<Rc<T>> {
        self.nodes[self.node(name)?].get()
    }

    /// All parts of a type.
    pub fn parts<T: Component>(&self) -> impl Iterator<Item = Rc<T>> {
        self.nodes.iter().filter_map(TreeNode::get)
    }

    /// A node and those above it, up to the root.
    pub fn up(&self, node: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(node), |node| self.nodes[*node].above)
    }

    /// A command has completed.
    pub fn passed(&self, passage: &Passage) {
        let mut passages = self.passages.get();
        passages.add(passage);
        self.passages.set(passages);
    }
}

impl Drive {
    /// How much it stores.
    pub fn size(&self) -> Bytes {
        self.endpoint.size()
    }
}

impl Kit {
    /// Puts the machine together on a runtime. `seed` decides everything that is random in it. Spans go to `trace`.
    pub fn build(&self, runtime: &Runtime, seed: u64, trace: &Trace) -> Result<Machine, PartError> {
        let reader = self.system.reader("system")?;
        let written = tree::read(&reader)?;
        let flows = Flows::new(runtime);
        let mut nodes: Vec<TreeNode> = Vec::with_capacity(written.len());
        let mut taken = Taken::default();
        for node in &written {
            let part = self.part_of(node)?;
            let above = node.above.map(|above| &nodes[above]);
            let kind = stands(node, &part.kind, above)?;
            let place = taken.place(node, above)?;
            let (name, written) = (&node.name, node);
            let site = Site { runtime, flows: &flows, trace, seed, name, part: &part, place, written, above };
            let stands = (kind.build)(&site)?;
            let (name, part) = (Arc::clone(name), stem(&node.part).to_owned());
            nodes.push(TreeNode { name, part, kind, above: node.above, stands });
        }
        for (index, node) in nodes.iter().enumerate() {
            let Some(owner) = Rc::clone(&node.stands).owner() else { continue };
            let own = nodes.iter().enumerate().filter(|(drive, _)| owned_by(&nodes, *drive) == Some(index));
            let own =
                own.filter_map(|(_, drive)| Some((Arc::clone(&drive.name), Rc::clone(&drive.stands).endpoint()?)));
            let refused = |message| {
                let message = format!("{} with the drives behind it: {message}", node.name);
                written[index].reader.fault("part", Problem::Contradiction(message))
            };
            owner.adopt(own.collect()).map_err(refused)?;
        }
        needs(&nodes, &written)?;
        let drives = drives(&nodes, &written)?;
        let sizes: Vec<(&str, Bytes)> = drives.iter().map(|drive| (&*drive.name, drive.size())).collect();
        let array = match reader.find_table("array")? {
            None => None,
            Some(table) => {
                let parameters = RaidParameters::read(&table, &sizes)?;
                table.done()?;
                Some(parameters)
            }
        };
        reader.done()?;
        let (runtime, trace, tended, passages) = (runtime.clone(), trace.clone(), RefCell::default(), Cell::default());
        Ok(Machine { runtime, trace, flows, array, tended, passages, nodes, drives })
    }
}

/// The kind of a node, if it may stand where it does.
fn stands(node: &Written, name: &str, above: Option<&TreeNode>) -> Result<&'static Kind, PartError> {
    let fault = |key: &str, message: String| Err(node.reader.fault(key, Problem::Contradiction(message)));
    let Some(kind) = kind(name) else {
        let kinds: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        return fault(
            "part",
            format!("{} is of kind '{name}', and what stands in a tree is: {}", node.part, kinds.join(", ")),
        );
    };
    let wanted = kind.on.join("' or '");
    match above {
        None if kind.on.is_empty() => Ok(kind),
        Some(above) if kind.on.contains(&above.kind.name) => Ok(kind),
        None => fault(
            "name",
            format!("a part of kind '{name}' stands on one of kind '{wanted}'; name its node with on = \"...\""),
        ),
        Some(_) if kind.on.is_empty() => {
            fault("on", format!("a part of kind '{name}' stands on nothing; leave 'on' away"))
        }
        Some(above) => fault(
            "on",
            format!(
                "'{}' is of kind '{}', and a part of kind '{name}' stands on one of kind '{wanted}'",
                above.name, above.kind.name
            ),
        ),
    }
}

/// The places that are taken, by the node above.
#[derive(Default)]
struct Taken {
    places: HashMap<usize, HashSet<u32>>,
}

impl Taken {
    /// The place of a node: the one it asks for, or the next free one.
    fn place(&mut self, node: &Written, above: Option<&TreeNode>) -> Result<u32, PartError> {
        let fault = |key: &str, message: String| Err(node.reader.fault(key, Problem::Contradiction(message)));
        let places = above.and_then(|above| Some((above, above.stands.places()?)));
        let Some((above, places)) = places else {
            return match node.place {
                None => Ok(0),
                Some((key, _)) => fault(key, "has no meaning here: what it stands on counts no places".to_owned()),
            };
        };
        let taken = self.places.entry(node.above.expect("there is a node above")).or_default();
        taken.extend(places.taken);
        let room = format!("'{}' has {} places ({})", above.name, places.count, places.key);
        let place = match node.place {
            Some((key, _)) if key != places.key => {
                assert!(PLACES.contains(&places.key), "the tree reads all keys of places");
                return fault(key, format!("places on '{}' are given as {}", above.name, places.key));
            }
            Some((key, place)) if place >= places.count => {
                let accepted = format!("0 to {}: {room}", places.count - 1);
                return Err(node.reader.fault(key, Problem::OutOfRange { accepted }));
            }
            Some((key, place)) if Some(place) == places.taken => {
                return fault(key, format!("place {place} of '{}' is its own; take another", above.name));
            }
            Some((key, place)) if taken.contains(&place) => {
                return fault(key, format!("place {place} of '{}' is taken by another node", above.name));
            }
            Some((_, place)) => place,
            None => match (0..places.count).find(|place| !taken.contains(place)) {
                Some(place) => place,
                None => {
                    let own = places.taken.map_or(String::new(), |own| format!(", and place {own} is its own"));
                    return fault("on", format!("there is no place for {}: {room}{own}", node.name));
                }
            },
        };
        taken.insert(place);
        Ok(place)
    }
}

/// Refuses a node that has nothing to do, as its host has no part of a kind that it needs.
fn needs(nodes: &[TreeNode], written: &[Written]) -> Result<(), PartError> {
    for (index, node) in nodes.iter().enumerate() {
        let Some(kind) = node.stands.needs() else { continue };
        let of_host = nodes.iter().enumerate().filter(|(other, _)| root(nodes, *other) == root(nodes, index));
        if !of_host.clone().any(|(_, other)| other.kind.name == kind) {
            let message = format!("'{}' needs a node of kind '{kind}' in its machine, and there is none", node.name);
            return Err(written[index].reader.fault("name", Problem::Contradiction(message)));
        }
    }
    Ok(())
}

/// The root that a node stands on, at last.
fn root(nodes: &[TreeNode], mut node: usize) -> usize {
    while let Some(above) = nodes[node].above {
        node = above;
    }
    node
}

/// The nearest node above that takes drives for itself.
fn owned_by(nodes: &[TreeNode], node: usize) -> Option<usize> {
    let mut above = nodes[node].above;
    while let Some(index) = above.filter(|index| Rc::clone(&nodes[*index].stands).owner().is_none()) {
        above = nodes[index].above;
    }
    above
}

/// All nodes that carry out commands of a host, each with the operating system of that host: the first one under the
/// same root.
fn drives(nodes: &[TreeNode], written: &[Written]) -> Result<Vec<Drive>, PartError> {
    let mut systems: HashMap<usize, Rc<Os>> = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        if let Some(os) = node.get::<Os>() {
            systems.entry(root(nodes, index)).or_insert(os);
        }
    }
    let mut drives = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let Some(endpoint) = Rc::clone(&node.stands).endpoint().filter(|_| owned_by(nodes, index).is_none()) else {
            continue;
        };
        let Some(os) = systems.get(&root(nodes, index)) else {
            let message = "nobody can ask this drive for anything: its machine has no operating system; add a node of that kind on a processor";
            return Err(written[index].reader.fault("name", Problem::Contradiction(message.to_owned())));
        };
        drives.push(Drive { name: Arc::clone(&node.name), node: index, endpoint, os: Rc::clone(os) });
    }
    Ok(drives)
}
