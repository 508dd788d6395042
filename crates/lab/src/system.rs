//! The modelled machine that an experiment runs on, where it names one.
//!
//! The machine is described by files (`systems/`, `parts/`); an experiment says the way in, which disks are used, and
//! what is changed about the parts. All of it is tried when the experiment is read: the machine is put together once,
//! so that what does not fit is found before anything runs, with its place.

use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use machine::entry::{Entry, NoWay, Way, described, entries, has_server};
use machine::kit::Kit;
use machine::part::PartError;
use machine::system::Machine;
use machine::trace::Trace;
use serde::Deserialize;
use toml::Spanned;

use crate::changes::Changes;
use crate::source::{Source, SourceError};
use crate::target::Target;

/// A modelled machine and how requests enter it.
#[derive(Debug, Clone, PartialEq)]
pub struct System {
    /// Its description: one that comes with the program, or the path of a file.
    pub name: String,
    /// The way in.
    pub way: Way,
    /// The nodes of its drives that are used. Never empty.
    pub disks: Vec<String>,
    /// Changed values: `PART.VALUE` and the text of the new one.
    pub parts: Vec<(String, String)>,
    /// Whether the spans of requests are kept. Where the text does not say: yes, but not of the points of a sweep.
    pub spans: bool,
    /// Whether each drive is a target of its own; otherwise all are one.
    pub each: bool,
}

impl System {
    /// The description with the changes applied.
    pub fn kit(&self) -> Result<Kit, PartError> {
        let mut kit = Kit::load(&self.name)?;
        for (key, value) in &self.parts {
            kit.set(key, value)?;
        }
        Ok(kit)
    }

    /// What the load goes to: each disk, or the array of all.
    pub fn targets(&self) -> Vec<Target> {
        let target = |device: String| Target::Modelled { device };
        match self.way {
            _ if self.each => self.disks.iter().map(|disk| target(disk.clone())).collect(),
            Way::Array => vec![target("array".to_owned())],
            _ => vec![target("files".to_owned())],
        }
    }
}

/// `[system]` as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct FileSystem {
    name: Spanned<String>,
    way: Spanned<String>,
    disks: Option<Spanned<FileDisks>>,
    under: Option<Spanned<Vec<String>>>,
    spans: Option<bool>,
    #[serde(default)]
    parts: Changes,
}

/// The keys of `[system]`.
pub(crate) const KEYS: [&str; 6] = ["name", "way", "disks", "under", "spans", "parts"];

#[derive(Deserialize)]
#[serde(untagged, expecting = "how many drives, a node such as \"disk-0.0\", or a list of nodes")]
enum FileDisks {
    Count(usize),
    Named(Vec<String>),
    One(String),
}

impl FileSystem {
    /// The system, and the entries of a machine made of it.
    pub fn check(self, source: &Source) -> Result<(System, Vec<Entry>), SourceError> {
        let name_place = self.name.span();
        let name = beside(&source.name, self.name.get_ref());
        let mut kit = Kit::load(&name).map_err(|error| source.error(name_place.clone(), error.to_string()))?;
        for (key, place, value) in self.parts.list() {
            kit.set(key, value).map_err(|error| source.error(place.clone(), error.to_string()))?;
        }
        let build = kit.build(&runtime::Runtime::simulated(), 1, &Trace::default());
        let machine = build.map_err(|error| {
            // One of the changes, or the description itself.
            let changes: Vec<_> = self.parts.list().collect();
            let place = if let [(_, place, _)] = changes[..] { place.clone() } else { name_place };
            source.error(place, error.to_string())
        })?;
        let way_place = self.way.span();
        let way: Way =
            self.way.get_ref().parse().map_err(|error: NoWay| source.error(way_place.clone(), error.to_string()))?;
        let own = machine.array.as_ref().filter(|_| way == Way::Array && self.disks.is_none() && self.under.is_none());
        let disks = match own {
            Some(array) => array.members.clone(),
            None => self.disks(source, &machine)?,
        };
        if way == Way::Array {
            described(&machine, &disks).map_err(|error| source.error(way_place.clone(), error.to_string()))?;
        }
        let each = match way {
            Way::NoCopy | Way::Raw | Way::Asynchronous => true,
            Way::Array => false,
            Way::Files => !has_server(&machine),
        };
        let devices = entries(&Rc::new(machine), &disks, way);
        let devices = devices.map_err(|error| source.error(way_place.clone(), error.to_string()))?;
        let parts = self.parts.list().map(|(key, _, value)| (key.to_owned(), value.to_owned())).collect();
        let system = System { name, way, disks, parts, spans: self.spans.unwrap_or(true), each };
        Ok((system, devices))
    }

    fn disks(&self, source: &Source, machine: &Machine) -> Result<Vec<String>, SourceError> {
        let mut tops = Vec::new();
        for name in self.under.iter().flat_map(|under| under.get_ref()) {
            let place = self.under.as_ref().expect("its names come from it").span();
            let node = machine.node(name).filter(|node| !below(machine, *node).is_empty());
            let node = node.ok_or_else(|| {
                let known = machine.nodes().iter().enumerate().filter(|(index, _)| !below(machine, *index).is_empty());
                let known: Vec<&str> = known.map(|(_, node)| &*node.name).collect();
                source
                    .error(place, format!("there are no drives under '{name}'; there are under: {}", known.join(", ")))
            })?;
            tops.push(node);
        }
        let dealt = match &self.under {
            None => deal(&by_parent(machine)),
            Some(_) => deal(&tops.iter().map(|top| below(machine, *top)).collect::<Vec<_>>()),
        };
        let name = |drive: usize| machine.drives()[drive].name.to_string();
        let named = |names: &[String], place: Range<usize>| {
            for (index, name) in names.iter().enumerate() {
                if machine.drive(name).is_none() {
                    let known = machine.names_of_drives();
                    return Err(source.error(place, format!("there is no drive '{name}'; there are: {known}")));
                }
                if names[..index].contains(name) {
                    return Err(source.error(place, format!("drive {name} is named twice; name it once")));
                }
            }
            Ok(names.to_vec())
        };
        let disks = match self.disks.as_ref().map(|disks| (disks.span(), disks.get_ref())) {
            None => dealt.into_iter().map(name).collect(),
            Some((place, FileDisks::Count(count))) => {
                if *count == 0 || *count > dealt.len() {
                    let message = format!("there are 1 to {} drives to use here", dealt.len());
                    return Err(source.error(place, message));
                }
                dealt[..*count].iter().copied().map(name).collect()
            }
            Some((place, FileDisks::Named(names))) => named(names, place)?,
            Some((place, FileDisks::One(name))) => named(std::slice::from_ref(name), place)?,
        };
        match disks.is_empty() {
            true => Err(source.error(self.name.span(), "no drive is used; a load needs at least one")),
            false => Ok(disks),
        }
    }
}

/// A system's file that lies where its path leads from the experiment's file; otherwise the name as it is, which is one
/// of the library, or a path from where the program was started.
pub fn beside(experiment: &str, name: &str) -> String {
    let from_there = Path::new(experiment).parent().map(|folder| folder.join(name));
    match from_there.filter(|path| name.ends_with(".toml") && path.is_file()) {
        Some(path) => plain(&path).display().to_string(),
        None => name.to_owned(),
    }
}

/// A path without `folder/..` in it, so that one file has one name. Of no account are links: a folder's link that is
/// left leads elsewhere only where somebody put one there.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for step in path.components() {
        let leaves =
            step == Component::ParentDir && matches!(plain.components().next_back(), Some(Component::Normal(_)));
        match step {
            _ if leaves => _ = plain.pop(),
            Component::CurDir => {}
            step => plain.push(step),
        }
    }
    if plain.is_file() { plain } else { path.to_owned() }
}

/// The drives that stand on a node or on what stands on it.
fn below(machine: &Machine, node: usize) -> Vec<usize> {
    let stands = |drive: &usize| machine.up(machine.drives()[*drive].node).any(|at| at == node);
    (0..machine.drives().len()).filter(stands).collect()
}

/// All drives, those on one node together.
fn by_parent(machine: &Machine) -> Vec<Vec<usize>> {
    let mut groups: Vec<(Option<usize>, Vec<usize>)> = Vec::new();
    for (index, drive) in machine.drives().iter().enumerate() {
        let above = machine.nodes()[drive.node].above;
        match groups.iter_mut().find(|(parent, _)| *parent == above) {
            Some((_, drives)) => drives.push(index),
            None => groups.push((above, vec![index])),
        }
    }
    groups.into_iter().map(|(_, drives)| drives).collect()
}

/// Drives dealt out: the first of each group, then the second of each, and so on.
fn deal(groups: &[Vec<usize>]) -> Vec<usize> {
    let most = groups.iter().map(Vec::len).max().unwrap_or(0);
    let mut dealt = Vec::new();
    for drive in (0..most).flat_map(|round| groups.iter().filter_map(move |group| group.get(round))) {
        // A node may be named besides one that it stands on.
        if !dealt.contains(drive) {
            dealt.push(*drive);
        }
    }
    dealt
}
