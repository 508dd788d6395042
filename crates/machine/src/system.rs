//! A machine put together from its description.
//!
//! A [`Kit`] holds the texts of a system and of the parts it names, with the changes of a what-if applied; it is plain data that can go
//! to another thread. [`Kit::build`] makes a [`Machine`] of it on a runtime: every part with its parameters, joined as the system's file
//! says. Errors point into the file of the part or of the system.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use runtime::Runtime;
use units::Bytes;

use crate::adapter::{Adapter, AdapterParameters, Unit};
use crate::backplane::{Backplane, BackplaneParameters, DmaPath};
use crate::cpu::{Cpu, CpuParameters};
use crate::entry::Spot;
use crate::flow::Flows;
use crate::library;
use crate::load::Passages;
use crate::memory::{Memory, MemoryParameters};
use crate::os::{Os, OsParameters};
use crate::part::{Node, Part, PartError, Place, Problem, Reader, Table, Value};
use crate::raid::RaidParameters;
use crate::scsi::disk::{DiskParameters, ScsiDisk};
use crate::scsi::protocol::Passage;
use crate::scsi::string::{ScsiString, StringParameters};
use crate::scsi::target::BLOCK;
use crate::trace::Trace;

/// The description of a system with all its parts.
#[derive(Debug, Clone)]
pub struct Kit {
    /// The system.
    pub system: Part,
    /// The parts by name; those of the system's own files by the name of the file without `.toml`.
    pub parts: BTreeMap<String, Part>,
    /// Where the paths of the system's own files begin: beside its own.
    beside: PathBuf,
}

impl Kit {
    /// A system that comes with the program, or the path of a system's file (`*.toml`). Its parts come with the program, or are named by the
    /// paths of their files (`*.toml`), which begin where the system's file lies.
    pub fn load(name: &str) -> Result<Kit, PartError> {
        let system = if name.ends_with(".toml") {
            let read = std::fs::read_to_string(name);
            let text = read.map_err(|error| nowhere(name, format!("the system's file cannot be read: {error}")))?;
            Part::parse(name, &text)?
        } else {
            let Some((_, text)) = library::SYSTEMS.iter().find(|(known, _)| *known == name) else {
                let known: Vec<_> = library::SYSTEMS.iter().map(|(known, _)| *known).collect();
                let message =
                    format!("there is no such system; there are: {}; or give the path of a file", known.join(", "));
                return Err(nowhere(name, message));
            };
            Part::parse(&format!("systems/{name}.toml"), text)?
        };
        let parts = library::PARTS
            .iter()
            .map(|(name, text)| Ok(((*name).to_owned(), Part::parse(&format!("parts/{name}.toml"), text)?)));
        let parts = parts.collect::<Result<_, PartError>>()?;
        let beside = Path::new(name).parent().unwrap_or(Path::new("")).to_owned();
        let mut kit = Kit { system, parts, beside };
        kit.fetch()?;
        Ok(kit)
    }

    /// Reads the parts that the system names by their paths, and that are not here yet.
    fn fetch(&mut self) -> Result<(), PartError> {
        let mut named = Vec::new();
        paths(&Value::Table(self.system.values.clone()), &self.system.values.place, &mut named);
        for (path, place) in named {
            let fault = |message: String| PartError {
                place: place.clone(),
                path: String::new(),
                problem: Box::new(Problem::Contradiction(message)),
            };
            let (name, file) = (stem(&path).to_owned(), self.beside.join(&path));
            let whole = file.display().to_string();
            match self.parts.get(&name) {
                None => _ = self.parts.insert(name, Part::load(&file)?),
                Some(known) if *known.values.place.file == whole => {}
                Some(known) => {
                    return Err(fault(format!(
                        "there are two parts called {name}: {} and {whole}; give the file another name",
                        known.values.place.file
                    )));
                }
            }
        }
        Ok(())
    }

    /// Changes a value: `wren-iv.read-ahead.until` of a part, or `system.adapter.0.slot`.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), PartError> {
        let unknown = |message: String| nowhere(key, message);
        let (name, path) = key
            .split_once('.')
            .ok_or_else(|| unknown("a value is named PART.VALUE, such as wren-iv.read-ahead.until".into()))?;
        let part = match name {
            "system" => &mut self.system,
            name => {
                let known = self.parts.keys().cloned().collect::<Vec<_>>().join(", ");
                self.parts
                    .get_mut(name)
                    .ok_or_else(|| unknown(format!("there is no part '{name}'; there are: system, {known}")))?
            }
        };
        let path: Vec<&str> = path.split('.').collect();
        part.values = changed(&part.values, &path, text).map_err(unknown)?;
        if name == "system" { self.fetch() } else { Ok(()) }
    }

    fn part(&self, reader: &Reader, key: &'static str) -> Result<&Part, PartError> {
        let name: String = reader.get(key)?;
        self.named(&name).ok_or_else(|| reader.fault(key, self.no_part(&name)))
    }

    fn named(&self, name: &str) -> Option<&Part> {
        self.parts.get(stem(name))
    }

    fn no_part(&self, name: &str) -> Problem {
        Problem::Wrong {
            found: format!("'{name}', which is no part"),
            accepted: format!(
                "{}, or the path of a part's file (*.toml)",
                self.parts.keys().cloned().collect::<Vec<_>>().join(", ")
            ),
        }
    }

    /// Puts the machine together on a runtime. `seed` decides everything that is random in it.
    /// Spans go to `trace`.
    pub fn build(&self, runtime: &Runtime, seed: u64, trace: &Trace) -> Result<Machine, PartError> {
        let flows = Flows::new(runtime);
        let reader = self.system.reader("system")?;
        fn typed<T>(part: &Part, kind: &str, read: impl Fn(&Reader) -> Result<T, PartError>) -> Result<T, PartError> {
            let reader = part.reader(kind)?;
            let parameters = read(&reader)?;
            reader.done()?;
            Ok(parameters)
        }
        let memory = typed(self.part(&reader, "memory")?, "memory", MemoryParameters::read)?;
        let memory = Rc::new(Memory::new(&flows, trace, memory));
        let cpu = typed(self.part(&reader, "processor")?, "processor", CpuParameters::read)?;
        let cpu = Rc::new(Cpu::new(runtime, &flows, trace, Rc::clone(&memory), cpu, seed));
        let backplane = typed(self.part(&reader, "backplane")?, "backplane", BackplaneParameters::read)?;
        let backplane = Rc::new(Backplane::new(&flows, trace, backplane));
        let os = typed(self.part(&reader, "operating-system")?, "operating-system", OsParameters::read)?;
        let os = Os::new(runtime, trace, Rc::clone(&cpu), Rc::clone(&memory), Rc::clone(&backplane), os);
        let (mut adapters, mut strings, mut slots) = (Vec::new(), Vec::new(), Vec::new());
        for (number, place) in reader.tables("adapter")?.into_iter().enumerate() {
            let parameters = typed(self.part(&place, "part")?, "adapter", AdapterParameters::read)?;
            let slot: u32 = place.get("slot")?;
            if slot >= backplane.parameters.slots {
                return Err(place.fault(
                    "slot",
                    Problem::OutOfRange {
                        accepted: format!("0 to {}, a slot of the backplane", backplane.parameters.slots - 1),
                    },
                ));
            }
            if slots.contains(&slot) {
                return Err(
                    place.fault("slot", Problem::Contradiction(format!("slot {slot} is taken by another adapter")))
                );
            }
            slots.push(slot);
            let path = DmaPath::new(&flows, &backplane, &memory, slot, parameters.dma);
            let adapter = Adapter::new(runtime, &flows, trace, &format!("adapter-{number}"), path, parameters);
            let places = place.tables("string")?;
            if places.len() > parameters.strings as usize {
                return Err(place.fault(
                    "string",
                    Problem::OutOfRange {
                        accepted: format!("at most {} strings, as many as the adapter has", parameters.strings),
                    },
                ));
            }
            let mut devices = 0;
            for place in places {
                let index = strings.len();
                let bus = typed(self.part(&place, "part")?, "scsi-string", StringParameters::read)?;
                let names: Vec<String> = place.get("disks")?;
                if names.len() + 1 > bus.devices as usize {
                    return Err(place.fault(
                        "disks",
                        Problem::OutOfRange {
                            accepted: format!(
                                "at most {} disks: a string has {} addresses and the adapter takes one",
                                bus.devices - 1,
                                bus.devices
                            ),
                        },
                    ));
                }
                devices += names.len();
                if devices > parameters.work_queues as usize {
                    return Err(place.fault(
                        "disks",
                        Problem::OutOfRange {
                            accepted: format!(
                                "at most {} disks on one adapter, as many as it has work queues",
                                parameters.work_queues
                            ),
                        },
                    ));
                }
                let string = ScsiString::new(runtime, trace, &format!("string-{index}"), bus);
                let ids = (0..8).filter(|id| u32::from(*id) != parameters.id);
                let mut units = Vec::new();
                for (at, (name, id)) in names.iter().zip(ids).enumerate() {
                    let part = self.named(name).ok_or_else(|| place.fault("disks", self.no_part(name)))?;
                    let disk = Rc::new(ScsiDisk::new(
                        DiskParameters::read(part)?,
                        id,
                        &format!("disk-{index}.{at}"),
                        seed,
                        trace,
                    ));
                    let unit = Unit {
                        adapter: Rc::clone(&adapter),
                        string: string.clone(),
                        target: Rc::clone(&disk) as Rc<dyn crate::scsi::target::Target>,
                        work_queue: runtime::Resource::new(runtime, 1),
                    };
                    units.push(Slot { unit: Rc::new(unit), disk });
                }
                place.done()?;
                strings.push(StringSlot { string, adapter: number, units });
            }
            place.done()?;
            adapters.push(adapter);
        }
        let size = |spot: &Spot| Some(strings.get(spot.string)?.units.get(spot.disk)?.size());
        let array = match reader.find_table("array")? {
            None => None,
            Some(table) => {
                let parameters = RaidParameters::read(&table, size)?;
                table.done()?;
                Some(parameters)
            }
        };
        reader.done()?;
        Ok(Machine {
            runtime: runtime.clone(),
            trace: trace.clone(),
            passages: Cell::default(),
            flows,
            memory,
            backplane,
            cpu,
            os,
            adapters,
            strings,
            array,
        })
    }
}

/// A part's name where the system names it by its path.
fn stem(name: &str) -> &str {
    match name.strip_suffix(".toml") {
        Some(path) => path.rsplit('/').next().unwrap_or(path),
        None => name,
    }
}

/// Paths of part files among the values of a system.
fn paths(value: &Value, place: &Place, found: &mut Vec<(String, Place)>) {
    match value {
        Value::Text(text) if text.ends_with(".toml") => found.push((text.clone(), place.clone())),
        Value::List(nodes) => nodes.iter().for_each(|node| paths(&node.value, &node.place, found)),
        Value::Table(table) => table.entries().iter().for_each(|(_, node)| paths(&node.value, &node.place, found)),
        _ => {}
    }
}

fn nowhere(name: &str, message: String) -> PartError {
    let place = crate::part::Place { file: name.into(), line: 0, column: 0 };
    PartError { place, path: String::new(), problem: Box::new(Problem::Contradiction(message)) }
}

/// A table with the value at `path` replaced.
fn changed(table: &Table, path: &[&str], text: &str) -> Result<Table, String> {
    let names = || table.entries().iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    let node = table.get(path[0]).ok_or_else(|| format!("there is no '{}'; there are: {}", path[0], names()))?;
    let mut result = table.clone();
    result.set(path[0], changed_node(node, &path[1..], text)?);
    Ok(result)
}

fn changed_node(node: &Node, path: &[&str], text: &str) -> Result<Node, String> {
    let value = match (&node.value, path) {
        (Value::Table(inner), [_, ..]) => Value::Table(changed(inner, path, text)?),
        (Value::List(nodes), [index, rest @ ..]) => {
            let at = index.parse::<usize>().ok().filter(|at| *at < nodes.len());
            let at = at.ok_or_else(|| format!("'{index}' is none of the {} items, counted from 0", nodes.len()))?;
            let mut nodes = nodes.clone();
            nodes[at] = changed_node(&nodes[at], rest, text)?;
            Value::List(nodes)
        }
        (_, [name, ..]) => return Err(format!("'{name}' leads into a value")),
        (Value::Table(_), []) => return Err("that is a table; name one of its values".to_owned()),
        (_, []) => parse(text, &node.place),
    };
    Ok(Node { value, source: Some("set for this run".to_owned()), place: node.place.clone() })
}

fn parse(text: &str, place: &Place) -> Value {
    let text = text.trim();
    if let Some(items) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let items = items.split(',').map(str::trim).filter(|item| !item.is_empty());
        let node = |item| Node { value: parse(item, place), source: None, place: place.clone() };
        return Value::List(items.map(node).collect());
    }
    if let Ok(flag) = text.parse() {
        return Value::Flag(flag);
    }
    if let Ok(number) = text.parse() {
        return Value::Integer(number);
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Value::Float(number),
        _ => Value::Text(text.trim_matches('"').to_owned()),
    }
}

/// A machine in virtual time.
pub struct Machine {
    /// Its clock.
    pub runtime: Runtime,
    /// Its spans.
    pub trace: Trace,
    /// What commands did on the strings so far.
    pub passages: Cell<Passages>,
    /// What its parts share.
    pub flows: Flows,
    /// Host memory.
    pub memory: Rc<Memory>,
    /// Between adapters and memory.
    pub backplane: Rc<Backplane>,
    /// The host's processor.
    pub cpu: Rc<Cpu>,
    /// The host's operating system.
    pub os: Rc<Os>,
    /// In the order of the file.
    pub adapters: Vec<Rc<Adapter>>,
    /// All strings, in the order of the file.
    pub strings: Vec<StringSlot>,
    /// The array of its disks, if the file describes one.
    pub array: Option<RaidParameters>,
}

impl Machine {
    /// The disk in a place, if there is one.
    pub fn slot(&self, spot: &Spot) -> Option<&Slot> {
        self.strings.get(spot.string)?.units.get(spot.disk)
    }
}

/// A string and what hangs on it.
pub struct StringSlot {
    /// The bus.
    pub string: ScsiString,
    /// Which adapter it belongs to.
    pub adapter: usize,
    /// Its disks.
    pub units: Vec<Slot>,
}

/// A disk in its place.
pub struct Slot {
    /// How to reach it.
    pub unit: Rc<Unit>,
    /// The disk itself.
    pub disk: Rc<ScsiDisk>,
}

impl Slot {
    /// How much the disk stores.
    pub fn size(&self) -> Bytes {
        BLOCK * self.disk.blocks()
    }
}

impl Machine {
    /// A command has completed.
    pub fn passed(&self, passage: &Passage) {
        let mut passages = self.passages.get();
        passages.add(passage);
        self.passages.set(passages);
    }
}
