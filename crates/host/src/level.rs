//! Which parts several paths share: the tree of levels.
//!
//! The studies activate one disk, then its neighbours on the same string, then disks on other strings, other adapters
//! and so on, and call a level the bottleneck when more disks below it bring no more (RAID-I, Table 32). That needs the
//! tree
//!
//! ```text
//! host -> backplane (host bridge, root port, switch) -> adapter (PCI function) -> link (port, bus) -> disk -> store
//! ```
//!
//! in which a store is a file system, a partition or a volume that several of the given paths lie on: four files on one
//! virtual disk are four paths in one store. Each path has a lineage, from the host to itself; the lineages form the
//! tree. A level at which there is nothing to choose between (a single child) is joined with that child and only named
//! with it: "vda on virtio1, PCI 0000:00:02.0".
//!
//! A stack that branches (an array over four disks) is no chain. Its lineage ends where those of its disks part: an
//! array over two adapters hangs from what both share. Paths of which one stands on the disk of another are put into
//! one store, whatever else they stand on, because that disk serves them all.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use units::Rate;

use crate::hardware::HopKind;
use crate::topology::{Layer, Target, What};

/// A part of the machine and the paths below it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// The part that the paths below have in common, the nearest to them.
    pub part: Part,
    /// Further parts that they have in common, towards the host.
    pub on: Vec<Part>,
    /// The groups below; none for a single path.
    pub below: Vec<Group>,
    /// Which of the given paths this is; none for a group of several.
    pub path: Option<usize>,
}

/// A part of the machine at which paths may meet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// Its level.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// What its link can carry by its signalling, where that is known.
    pub limit: Option<Rate>,
}

/// The level of a part, from the path to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// One path: what is loaded as one device.
    Disk,
    /// What several paths lie on: a file system, a volume, a disk with partitions.
    Store,
    /// A port, a bus, an expander, a session.
    Link,
    /// A PCI function or what stands for one.
    Adapter,
    /// A root port, a switch, a host bridge.
    Backplane,
    /// The whole machine.
    Host,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(match self {
            Kind::Disk => "disk",
            Kind::Store => "store",
            Kind::Link => "link",
            Kind::Adapter => "adapter",
            Kind::Backplane => "backplane",
            Kind::Host => "host",
        })
    }
}

/// The tree of the levels over `targets`. Panics if there are none.
pub fn group(targets: &[Target]) -> Group {
    assert!(!targets.is_empty(), "levels are those of at least one path");
    let mut host = Branch::new(Node::host());
    for (index, mut lineage) in lineages(targets).into_iter().enumerate() {
        let name = targets[index].path.display().to_string();
        lineage.push(Node { key: format!("path {index}"), part: Part { kind: Kind::Disk, name, limit: None } });
        // The host is the root itself.
        host.insert(&lineage[1..], index);
    }
    let tree = host.collapse();
    assert_eq!(tree.order().len(), targets.len(), "every path is in the tree once");
    tree
}

impl Group {
    /// The paths below, in the order in which a survey activates them: round-robin over the children, and in each child
    /// likewise, so that two paths share a part as late as possible.
    pub fn order(&self) -> Vec<usize> {
        match self.path {
            Some(path) => vec![path],
            None => round_robin(self.below.iter().map(Group::order).collect()),
        }
    }

    /// This group and all below it, each after those below it: disks first, the host last.
    pub fn all(&self) -> Vec<&Group> {
        let mut groups: Vec<&Group> = self.below.iter().flat_map(Group::all).collect();
        groups.push(self);
        groups
    }
}

/// `vda on virtio1, PCI 0000:00:02.0`.
impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.part.name)?;
        for (i, part) in self.on.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { " on " } else { ", " }, part.name)?;
        }
        Ok(())
    }
}

/// The first of each list, then the second of each, and so on; a list that has run out is passed over.
pub fn round_robin<T>(lists: Vec<Vec<T>>) -> Vec<T> {
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let mut order = Vec::new();
    loop {
        let before = order.len();
        order.extend(lists.iter_mut().filter_map(Iterator::next));
        if order.len() == before {
            return order;
        }
    }
}

/// A part of a lineage: two lineages share it if the keys are equal.
#[derive(Debug, Clone)]
struct Node {
    key: String,
    part: Part,
}

impl Node {
    fn host() -> Node {
        Node { key: "host".into(), part: Part { kind: Kind::Host, name: "the host".into(), limit: None } }
    }
}

/// The lineage of each target, the host first, the target's own layer last.
fn lineages(targets: &[Target]) -> Vec<Vec<Node>> {
    let mut lineages: Vec<Vec<Node>> = targets.iter().map(|target| lineage(&target.top)).collect();
    let disks: Vec<BTreeSet<&str>> =
        targets.iter().map(|target| target.disks().iter().map(|disk| disk.name.as_str()).collect()).collect();
    // Chains over one disk meet at that disk by themselves; where a branched stack takes part, the meeting is made
    // explicit.
    let mut settled = vec![false; targets.len()];
    for first in 0..targets.len() {
        if settled[first] {
            continue;
        }
        let mut members = vec![first];
        let mut union = disks[first].clone();
        while let Some(next) =
            (0..targets.len()).find(|i| !settled[*i] && !members.contains(i) && !disks[*i].is_disjoint(&union))
        {
            union.extend(&disks[next]);
            members.push(next);
        }
        members.iter().for_each(|i| settled[*i] = true);
        if members.len() == 1 || union.len() == 1 {
            continue;
        }
        let ways: Vec<&[Node]> = members.iter().map(|i| lineages[*i].as_slice()).collect();
        let shared = shared_length(&ways);
        let name = union.into_iter().collect::<Vec<_>>().join(", ");
        let store = Node { key: format!("disks {name}"), part: Part { kind: Kind::Store, name, limit: None } };
        members.iter().for_each(|i| lineages[*i].insert(shared, store.clone()));
    }
    lineages
}

fn lineage(layer: &Layer) -> Vec<Node> {
    let ways: Vec<Vec<Node>> = layer.below.iter().map(lineage).collect();
    let mut nodes = match ways.first() {
        Some(first) => first[..shared_length(&ways)].to_vec(),
        None => vec![Node::host()],
    };
    if let What::Disk { hardware } = &layer.what
        && layer.below.is_empty()
    {
        let adapter = hardware.iter().rposition(|hop| hop.kind == HopKind::PciFunction);
        let served = |name: String, driver: &Option<String>| match driver {
            Some(driver) => format!("{name} ({driver})"),
            None => name,
        };
        for (i, hop) in hardware.iter().enumerate() {
            let (kind, name) = match hop.kind {
                HopKind::HostBridge => (Kind::Backplane, format!("host bridge {}", hop.name)),
                HopKind::PciBridge => (Kind::Backplane, format!("PCI port {}", hop.name)),
                // A function with another behind it is a bridge by another name (Intel's VMD).
                HopKind::PciFunction if Some(i) != adapter => (Kind::Backplane, format!("PCI {}", hop.name)),
                HopKind::PciFunction => (Kind::Adapter, served(format!("PCI {}", hop.name), &hop.driver)),
                // The SCSI host is what the driver of that function registers.
                HopKind::ScsiHost if adapter.is_some() => continue,
                HopKind::Virtio | HopKind::ScsiHost | HopKind::NvmeController => (Kind::Adapter, hop.name.clone()),
                HopKind::NvmeSubsystem => (Kind::Link, hop.name.clone()),
                HopKind::ScsiChannel => (Kind::Link, format!("SCSI {}", hop.name)),
                HopKind::AtaPort
                | HopKind::SasPort
                | HopKind::SasExpander
                | HopKind::FibreChannelPort
                | HopKind::IscsiSession
                | HopKind::UsbDevice => (Kind::Link, hop.name.clone()),
                // The disk's own end: nothing is shared there.
                HopKind::SasDevice | HopKind::ScsiAddress => continue,
            };
            nodes.push(Node { key: format!("hop {}", hop.name), part: Part { kind, name, limit: hop.limit } });
        }
    }
    // A file is the path itself, or that of one loop device: it cannot be shared below the file system. A mount point
    // is not the file system: one file system may be mounted at several.
    let (kind, key) = match &layer.what {
        What::File { path, .. } | What::Directory { path } => (Kind::Store, format!("file {}", path.display())),
        What::FileSystem(mount) => (Kind::Store, format!("file system {}", mount.device)),
        What::Disk { .. } => (Kind::Disk, format!("block {}", layer.name)),
        _ => (Kind::Store, format!("block {}", layer.name)),
    };
    let name = match &layer.what {
        What::Mapped { name, .. } => format!("{} ({name})", layer.name),
        What::Raid { level, .. } => format!("{} ({level})", layer.name),
        _ => layer.name.clone(),
    };
    nodes.push(Node { key, part: Part { kind, name, limit: None } });
    nodes
}

/// How many nodes, from the host, all `ways` have in common.
fn shared_length(ways: &[impl AsRef<[Node]>]) -> usize {
    let Some(first) = ways.first().map(AsRef::as_ref) else { return 0 };
    let shared = |i: &usize| ways.iter().all(|way| way.as_ref().get(*i).is_some_and(|node| node.key == first[*i].key));
    (0..first.len()).take_while(shared).count()
}

struct Branch {
    node: Node,
    path: Option<usize>,
    below: Vec<Branch>,
}

impl Branch {
    fn new(node: Node) -> Branch {
        Branch { node, path: None, below: Vec::new() }
    }

    fn insert(&mut self, lineage: &[Node], path: usize) {
        let Some((node, rest)) = lineage.split_first() else {
            assert!(self.path.is_none() && self.below.is_empty(), "a path has a leaf of its own");
            self.path = Some(path);
            return;
        };
        let child = match self.below.iter().position(|branch| branch.node.key == node.key) {
            Some(child) => child,
            None => {
                self.below.push(Branch::new(node.clone()));
                self.below.len() - 1
            }
        };
        self.below[child].insert(rest, path);
    }

    /// Joins each part that has a single child with that child.
    fn collapse(mut self) -> Group {
        let mut on: Vec<Part> = Vec::new();
        while self.below.len() == 1 {
            on.insert(0, self.node.part);
            self = self.below.pop().expect("one child");
        }
        let mut part = self.node.part;
        if self.below.len() > 1 && part.kind == Kind::Disk {
            // A disk that several paths lie on is not loaded as one device: it is what they share.
            part.kind = Kind::Store;
        }
        if self.path.is_some() {
            // "/dev/sda on sda" says it twice.
            let last = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
            on.retain(|layer| last(&layer.name) != last(&part.name));
        }
        Group { part, on, below: self.below.into_iter().map(Branch::collapse).collect(), path: self.path }
    }
}
