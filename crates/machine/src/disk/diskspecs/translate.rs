//! DiskSim's parameters into ours, one by one.

use std::cell::RefCell;
use std::sync::Arc;

use units::Duration;

use super::syntax::{self, Block, Entry, Item};
use super::{ImportError, Imported, Role, Text, Trouble};
use crate::part::{Node, Part, Place, Table, Value};

pub(super) fn drive(
    specs: &Text,
    find: &mut dyn FnMut(Role, &str) -> Result<Text, String>,
) -> Result<Imported, ImportError> {
    let file: Arc<str> = Arc::from(specs.name.as_str());
    let block = only(&file, syntax::parse(&file, &specs.text)?, "disksim_disk")?;
    let disk = Params::new(&file, &block);
    let mut notes = Vec::new();
    let mut values = Table::new(disk.place(block.line)).sourced(format!("DiskSim drive files of {}", block.name));

    // The model may stand in the same file or in one of its own.
    let model_entry = disk.entry("Model")?;
    let fetched;
    let (model_file, model_block) = match &model_entry.item {
        Item::Block(block) => (Arc::clone(&file), block),
        Item::Source(name) => {
            let text = find(Role::Model, name)
                .map_err(|error| disk.at(model_entry.line, Trouble::NoFile { role: Role::Model, error }))?;
            let model_file: Arc<str> = Arc::from(text.name.as_str());
            fetched = only(&model_file, syntax::parse(&model_file, &text.text)?, "dm_disk")?;
            (model_file, &fetched)
        }
        _ => return Err(disk.wrong(model_entry, "'source FILE' or a dm_disk block")),
    };
    let model = Params::new(&model_file, model_block);
    layout(&model, &mut values, &mut notes)?;
    mechanics(&model, &mut values, &mut notes, find)?;
    model.unused(&mut notes);
    controller(&disk, &mut values, &mut notes)?;
    disk.unused(&mut notes);

    let name = block.name.trim_end_matches("_validate").replace('_', " ");
    let part = Part { kind: "disk".into(), name, status: "measured".into(), note: String::new(), values };
    Ok(Imported { part, notes })
}

fn only(file: &Arc<str>, blocks: Vec<Block>, wanted: &'static str) -> Result<Block, ImportError> {
    let error = |line, trouble| ImportError { file: Arc::clone(file), line, trouble };
    let mut found: Vec<Block> = blocks.into_iter().filter(|block| block.kind == wanted).collect();
    match found.len() {
        0 => Err(error(1, Trouble::NoBlock { wanted })),
        1 => Ok(found.remove(0)),
        _ => {
            let names: Vec<&str> = found.iter().map(|block| block.name.as_str()).collect();
            Err(error(found[1].line, Trouble::Several { names: names.join(", ") }))
        }
    }
}

fn layout(model: &Params, values: &mut Table, notes: &mut Vec<String>) -> Result<(), ImportError> {
    let inner = model.block("Layout Model", "dm_layout_g1")?;
    let g1 = Params::new(&model.file, inner);
    let zones = g1.list("Zones")?;
    let zones: Vec<&Block> = zones
        .iter()
        .map(|(item, line)| match item {
            Item::Block(block) if block.kind == "dm_layout_g1_zone" => Ok(block),
            _ => Err(g1.at(*line, Trouble::NotA { found: describe(item), wanted: "a dm_layout_g1_zone block" })),
        })
        .collect::<Result<_, _>>()?;

    let mut out = Table::new(model.place(inner.line)).sourced(model.source(inner.line, inner.line));
    model.copy(&mut out, "surfaces", "Number of data surfaces", whole)?;
    model.copy(&mut out, "cylinders", "Number of cylinders", whole)?;
    model.copy(&mut out, "blocks", "Block count", whole)?;
    g1.copy(&mut out, "mapping", "LBN-to-PBN mapping scheme", |item| {
        name(item, &["straight", "serpentine per zone", "serpentine"])
    })?;
    g1.copy(&mut out, "sparing", "Sparing scheme used", |item| name(item, &SPARING))?;
    g1.copy(&mut out, "sparing-range", "Rangesize for sparing", whole)?;
    let default_units = g1.find("Skew units").map(|entry| skew_units(&g1, entry)).transpose()?;

    let mut list = Vec::new();
    let mut last_cylinder = 0;
    for block in &zones {
        let zone = Params::new(&model.file, block);
        let mut table = Table::new(zone.place(block.line)).sourced(zone.source(block.line, block.last_line));
        zone.plain(&mut table, "first-cylinder", "First cylinder number", whole)?;
        zone.plain(&mut table, "last-cylinder", "Last cylinder number", whole)?;
        zone.plain(&mut table, "sectors", "Blocks per track", whole)?;
        let units = zone.find("Skew units").map(|entry| skew_units(&zone, entry)).transpose()?.or(default_units);
        let sectors = number(&zone.entry("Blocks per track")?.item).unwrap_or(1.0);
        let skew = |item: &Item| match units {
            Some(Skew::Revolutions) => Ok(Value::Float(numeric(item)? * sectors)),
            // DiskSim drops the fraction of a skew in sectors.
            _ => Ok(Value::Integer(numeric(item)? as i64)),
        };
        zone.plain(&mut table, "offset", "Offset of first block", skew)?;
        zone.plain(&mut table, "reserved", "Empty space at zone front", whole)?;
        for (ours, theirs) in [("track-skew", "Skew for track switch"), ("cylinder-skew", "Skew for cylinder switch")] {
            match zone.find(theirs) {
                Some(_) => zone.plain(&mut table, ours, theirs, skew)?,
                None => table.set(ours, zone.node(block.line, Value::Integer(0))),
            }
        }
        zone.plain(&mut table, "spares", "Number of spares", whole)?;
        zone.plain(&mut table, "slips", "slips", wholes)?;
        zone.plain(&mut table, "remaps", "defects", pairs)?;
        last_cylinder = last_cylinder.max(number(&zone.entry("Last cylinder number")?.item).unwrap_or(0.0) as i64);
        zone.unused(notes);
        list.push(zone.node(block.line, Value::Table(table)));
    }
    if let Some(Value::Integer(count)) = out.get("cylinders").map(|node| node.value.clone())
        && last_cylinder == count
    {
        // hp_c2490a of the release gives the last cylinder where the count should be.
        let entry = model.entry("Number of cylinders")?;
        let source = format!("{}, plus one: the last zone ends there", model.source(entry.line, entry.line));
        let node = Node { source: Some(source.clone()), ..model.node(entry.line, Value::Integer(count + 1)) };
        out.set("cylinders", node);
        notes.push(format!("{source}; taken as the number of the last cylinder"));
    }
    g1.unused(notes);
    values.set("layout", model.node(inner.line, Value::Table(out)));
    values.set("zone", model.node(inner.line, Value::List(list)));
    Ok(())
}

const SPARING: [&str; 11] = [
    "none",
    "tracks per zone",
    "sectors per cylinder",
    "sectors per track",
    "sectors per cylinder, slips to the end",
    "sectors in front of each cylinder",
    "sectors in front of each cylinder, slips to the end",
    "none in the zone, slips to the end",
    "sectors per range",
    "sectors per zone",
    "sectors per zone, slips to the end",
];

#[derive(Clone, Copy)]
enum Skew {
    Sectors,
    Revolutions,
}

fn skew_units(params: &Params, entry: &Entry) -> Result<Skew, ImportError> {
    match &entry.item {
        Item::Word(word) if word == "sectors" => Ok(Skew::Sectors),
        Item::Word(word) if word == "revolutions" => Ok(Skew::Revolutions),
        _ => Err(params.wrong(entry, "sectors or revolutions")),
    }
}

fn mechanics(
    model: &Params,
    values: &mut Table,
    notes: &mut Vec<String>,
    find: &mut dyn FnMut(Role, &str) -> Result<Text, String>,
) -> Result<(), ImportError> {
    let inner = model.block("Mechanical Model", "dm_mech_g1")?;
    let mech = Params::new(&model.file, inner);
    let here = mech.source(inner.line, inner.last_line);

    let access = mech.entry("Access time type")?;
    if access.item != Item::Word("trackSwitchPlusRotation".into()) {
        let what = format!("access time type {}", describe(&access.item));
        return Err(mech.at(access.line, Trouble::NotModelled { what, instead: "write trackSwitchPlusRotation" }));
    }

    let mut rotation = Table::new(mech.place(inner.line)).sourced(here.clone());
    mech.copy(&mut rotation, "speed", "Rotation speed (in rpms)", |item| {
        let rpm = numeric(item)?;
        Ok(Value::Text(format!("{rpm} rpm")))
    })?;
    mech.copy(&mut rotation, "speed-error", "Percent error in rpms", |item| {
        Ok(Value::Text(format!("{} %", numeric(item)?)))
    })?;

    let mut arm = Table::new(mech.place(inner.line)).sourced(here.clone());
    mech.copy(&mut arm, "head-switch", "Head switch time", milliseconds)?;
    mech.copy(&mut arm, "write-settle", "Add. write settling delay", signed_milliseconds)?;

    let kind = mech.entry("Seek type")?;
    let Item::Word(word) = &kind.item else { return Err(mech.wrong(kind, SEEK_TYPES)) };
    let mut seek = Table::new(mech.place(kind.line)).sourced(here);
    let set_kind = |seek: &mut Table, name: &str| {
        let source = Some(mech.source(kind.line, kind.line));
        seek.set("kind", Node { source, ..mech.node(kind.line, Value::Text(name.into())) });
    };
    match word.as_str() {
        "extracted" => {
            set_kind(&mut seek, "points");
            let entry = mech.entry("Full seek curve")?;
            let (Item::Word(name) | Item::Source(name)) = &entry.item else {
                return Err(mech.wrong(entry, "the name of a seek file"));
            };
            let text = find(Role::Seek, name)
                .map_err(|error| mech.at(entry.line, Trouble::NoFile { role: Role::Seek, error }))?;
            let file: Arc<str> = Arc::from(text.name.as_str());
            let points = super::seek::parse(&file, &text.text)?;
            let nodes = points.iter().map(|(distance, time, line)| {
                let place = Place { file: Arc::clone(&file), line: *line, column: 0 };
                let plain = |value| Node { value, source: None, place: place.clone() };
                let pair = vec![plain(Value::Integer(i64::from(*distance))), plain(time_text(*time))];
                plain(Value::List(pair))
            });
            let nodes: Vec<Node> = nodes.collect();
            seek.source = Some(format!("{file} lines 2 to {}", nodes.len() + 1));
            let place = Place { file: Arc::clone(&file), line: 1, column: 0 };
            seek.set("points", Node { value: Value::List(nodes), source: None, place });
        }
        "hpl" | "hplplus10" => {
            set_kind(&mut seek, "roots");
            let entry = mech.entry("HPL seek equation values")?;
            let list = mech.numbers(entry, Some(6))?;
            let source = Some(mech.source(entry.line, entry.line + 6));
            let mut put = |key, value| seek.set(key, Node { source: source.clone(), ..mech.node(entry.line, value) });
            put("boundary", Value::Integer(list[0] as i64));
            put("short-base", time_text(list[1]));
            put("short-root", time_text(list[2]));
            put("long-base", time_text(list[3]));
            put("long-slope", time_text(list[4]));
            let mut first = Vec::new();
            if list[5] >= 0.0 {
                first.push(list[5]);
            }
            let mut from = entry;
            if word == "hplplus10" {
                from = mech.entry("First ten seek times")?;
                first = mech.numbers(from, Some(10))?;
            }
            let source = Some(mech.source(from.line, from.line + first.len() as u32));
            let nodes = first.iter().map(|time| mech.node(from.line, time_text(*time))).collect();
            seek.set("first", Node { source, ..mech.node(from.line, Value::List(nodes)) });
        }
        "curve" | "linear" => {
            set_kind(&mut seek, if word == "curve" { "lee" } else { "three points" });
            mech.copy(&mut seek, "single", "Single cylinder seek time", milliseconds)?;
            mech.copy(&mut seek, "average", "Average seek time", milliseconds)?;
            mech.copy(&mut seek, "full", "Full strobe seek time", milliseconds)?;
        }
        "constant" => {
            set_kind(&mut seek, "constant");
            mech.copy(&mut seek, "time", "Constant seek time", milliseconds)?;
        }
        _ => return Err(mech.wrong(kind, SEEK_TYPES)),
    }
    // Given for other seek types, or for none; the release's files carry them along.
    for unread in [
        "Single cylinder seek time",
        "Average seek time",
        "Full strobe seek time",
        "Full seek curve",
        "First ten seek times",
        "HPL seek equation values",
        "Constant seek time",
        "Constant access time",
    ] {
        mech.find(unread);
    }
    mech.unused(notes);
    arm.set("seek", mech.node(kind.line, Value::Table(seek)));
    values.set("rotation", mech.node(inner.line, Value::Table(rotation)));
    values.set("arm", mech.node(inner.line, Value::Table(arm)));
    Ok(())
}

const SEEK_TYPES: &str = "extracted, hplplus10, hpl, curve, linear or constant";

/// What a controller parameter becomes.
type Convert = fn(&Item) -> Result<Value, String>;

fn controller(disk: &Params, values: &mut Table, notes: &mut Vec<String>) -> Result<(), ImportError> {
    let line = disk.block.line;
    let fresh = || Table::new(disk.place(line)).sourced(disk.source(line, line));

    let mut buffer = fresh();
    for (ours, theirs, convert) in BUFFER {
        disk.copy(&mut buffer, ours, theirs, convert)?;
    }
    if number(&disk.entry("High (read) water mark")?.item) == Some(0.0) {
        let source = Some("assumed: 4 KiB; the file leaves it to the drive when the bus is asked for".to_owned());
        buffer.set("piece", Node { source, ..disk.node(line, Value::Integer(PIECE_BLOCKS)) });
    }
    values.set("buffer", disk.node(line, Value::Table(buffer)));

    let mut read_ahead = fresh();
    for (ours, theirs, convert) in READ_AHEAD {
        disk.copy(&mut read_ahead, ours, theirs, convert)?;
    }
    values.set("read-ahead", disk.node(line, Value::Table(read_ahead)));

    let mut write = fresh();
    for (ours, theirs, convert) in WRITE {
        disk.copy(&mut write, ours, theirs, convert)?;
    }
    values.set("write", disk.node(line, Value::Table(write)));

    // All overheads are scaled by one factor; the part has them scaled.
    let scale = number(&disk.entry("Time scale for overheads")?.item).filter(|scale| (0.0..=1e6).contains(scale));
    let scale =
        scale.ok_or_else(|| disk.wrong(disk.entry("Time scale for overheads").expect("just found"), "a factor"))?;
    let mut overhead = fresh();
    for (ours, theirs) in OVERHEADS {
        disk.copy(&mut overhead, ours, theirs, |item| milliseconds_scaled(item, scale))?;
    }
    values.set("overhead", disk.node(line, Value::Table(overhead)));

    bus(disk, values, notes)?;

    let mut queue = fresh();
    disk.copy(&mut queue, "depth", "Max queue length", whole)?;
    let scheduler = disk.block("Scheduler", "disksim_ioqueue")?;
    let scheduler = Params::new(&disk.file, scheduler);
    scheduler.copy(&mut queue, "policy", "Scheduling policy", policy)?;
    values.set("queue", disk.node(line, Value::Table(queue)));
    // Statistics, and what DiskSim itself does not read.
    for unread in ["Print stats", "Avg sectors per cylinder", "Calc sector by sector"] {
        disk.find(unread);
    }
    Ok(())
}

/// The bus of a drive: its own, or that of the machine in which it was measured.
fn bus(disk: &Params, values: &mut Table, notes: &mut Vec<String>) -> Result<(), ImportError> {
    let entry = disk.entry("Bulk sector transfer time")?;
    let own = number(&entry.item).ok_or_else(|| disk.wrong(entry, "a time in milliseconds"))?;
    let mut bus = Table::new(disk.place(entry.line)).sourced(disk.source(entry.line, entry.line));
    let (read, write) = if own > 0.0 {
        (own, own)
    } else if let Some((_, read, write, source)) = BUSES.iter().find(|(name, ..)| disk.block.name == *name) {
        bus.source = Some((*source).to_owned());
        (*read, *write)
    } else {
        bus.source = Some("assumed: SCSI-2 at 10 MB/s, as the drive file gives no time".into());
        notes.push(format!("{}: no bus time is given; 10 MB/s is assumed, change [bus] if it was another", disk.file));
        (0.0512, 0.0512)
    };
    bus.set("read-block", disk.node(entry.line, time_text(read)));
    bus.set("write-block", disk.node(entry.line, time_text(write)));
    values.set("bus", disk.node(entry.line, Value::Table(bus)));
    Ok(())
}

/// Bus time of a 512-byte block in the machines in which DiskSim's oldest drives were measured: drive, read ms, write ms, source.
/// It is a property of that machine's SCSI adapter; the drive files say 0.
const BUSES: [(&str, f64, f64, &str); 5] = [
    ("HP_C2247A_validate", 0.17010, 0.18686, "DiskSim 4.0 valid/hp_c2247a.parv, BUS1"),
    ("HP_C3323A_validate", 0.14550, 0.14550, "DiskSim 4.0 valid/hp_c3323a.parv, BUS1"),
    ("DEC_RZ26_validate", 0.07069, 0.07069, "DiskSim 4.0 valid/dec_rz26.parv, BUS1"),
    ("HP_C2490A_validate", 0.14841, 0.14841, "DiskSim 4.0 valid/hp_c2490a.parv, BUS1"),
    ("Seagate_ST41601N_validate", 0.09552, 0.09552, "DiskSim 4.0 valid/st41601n.parv, BUS1"),
];

/// What the bus is asked for at a time by drives whose files set no mark, which DiskSim takes for one block.
///
/// The SCSI buffer full ratio of zero leaves it to the drive. Buffer and bus of the measured drives are worked in pieces: the last blocks
/// of their reads come late by the time of several blocks on the bus. 4 KiB, the page of the hosts, is an assumption; the
/// scores of all drives are about the same from 4 to 12 blocks.
const PIECE_BLOCKS: i64 = 8;

const BUFFER: [(&str, &str, Convert); 11] = [
    ("segments", "Number of buffer segments", whole),
    ("segment-blocks", "Segment size (in blks)", whole),
    ("write-segments", "Maximum number of write segments", whole),
    ("separate-write-segment", "Use separate write segment", flag),
    ("caching", "Enable caching in buffer", flag),
    ("read-hits-on-written", "Allow read hits on write data", flag),
    ("hit-on-block-being-read", "Allow almost read hits", flag),
    ("read-fill", "High (read) water mark", share),
    ("marks-by-request", "Set watermark by reqsize", flag),
    ("never-disconnect", "Never disconnect", flag),
    ("partial-hit-at-once", "Immed transfer partial hit", flag),
];

const READ_AHEAD: [(&str, &str, Convert); 8] = [
    ("until", "Buffer continuous read", |item| {
        name(item, &["none", "end of track", "end of cylinder", "segment full", "next track"])
    }),
    ("least", "Minimum read-ahead (blks)", whole),
    ("most", "Maximum read-ahead (blks)", whole),
    ("over-requested", "Read-ahead over requested", |item| match number(item) {
        Some(-1.0) => Ok(Value::Text("dropped".into())),
        _ => name(item, &["kept", "overwritten"]),
    }),
    ("on-hit", "Read-ahead on idle hit", flag),
    ("any-free-blocks", "Read any free blocks", flag),
    ("zero-latency", "Immediate buffer read", flag),
    ("stops-in-sector", "Stop prefetch in sector", flag),
];

const WRITE: [(&str, &str, Convert); 6] = [
    ("back", "Fast write level", |item| name(item, &["none", "appending", "always"])),
    ("combine", "Combine seq writes", flag),
    ("zero-latency", "Immediate buffer write", flag),
    ("extra-disconnect", "Extra write disconnect", flag),
    ("least-seek", "Minimum seek delay", milliseconds),
    ("preseek", "Preseeking level", |item| name(item, &["after completion", "during completion", "before completion"])),
];

const OVERHEADS: [(&str, &str); 22] = [
    ("request", "Per-request overhead time"),
    ("read-hit-after-read", "Read hit over. after read"),
    ("read-hit-after-write", "Read hit over. after write"),
    ("read-miss-after-read", "Read miss over. after read"),
    ("read-miss-after-write", "Read miss over. after write"),
    ("write-hit-after-read", "Write hit over. after read"),
    ("write-hit-after-write", "Write hit over. after write"),
    ("write-miss-after-read", "Write miss over. after read"),
    ("write-miss-after-write", "Write miss over. after write"),
    ("read-completion", "Read completion overhead"),
    ("write-completion", "Write completion overhead"),
    ("data-preparation", "Data preparation overhead"),
    ("first-reselect", "First reselect overhead"),
    ("other-reselect", "Other reselect overhead"),
    ("read-disconnect-after-read", "Read disconnect afterread"),
    ("read-disconnect-after-write", "Read disconnect afterwrite"),
    ("write-disconnect", "Write disconnect overhead"),
    ("extra-command", "Extradisc command overhead"),
    ("extra-disconnect", "Extradisc disconnect overhead"),
    ("extra-between", "Extradisc inter-disconnect delay"),
    ("extra-second-disconnect", "Extradisc 2nd disconnect overhead"),
    ("extra-seek", "Extradisc seek delta"),
];

/// DiskSim's scheduling policies, by the numbers of its manual's table; of the variants of one idea (by block or by cylinder, with
/// ageing or the cache taken into account) the one that is here.
fn policy(item: &Item) -> Result<Value, String> {
    let name = match numeric(item)? as i64 {
        1 => "fcfs",
        2 | 5 | 17..=19 => "scan",
        3 | 6 => "clook",
        4 | 7 => "sstf",
        8..=16 | 20..=30 => "sptf",
        _ => return Err("a number from 1 to 30".into()),
    };
    Ok(Value::Text(name.into()))
}

/// One block of a drive file, with a memory of what was asked for.
struct Params<'b> {
    file: Arc<str>,
    block: &'b Block,
    asked: RefCell<Vec<String>>,
}

impl<'b> Params<'b> {
    fn new(file: &Arc<str>, block: &'b Block) -> Params<'b> {
        Params { file: Arc::clone(file), block, asked: RefCell::default() }
    }
    fn at(&self, line: u32, trouble: Trouble) -> ImportError {
        ImportError { file: Arc::clone(&self.file), line, trouble }
    }
    fn wrong(&self, entry: &Entry, accepted: &str) -> ImportError {
        let (key, found, accepted) = (entry.key.clone(), describe(&entry.item), accepted.to_owned());
        self.at(entry.line, Trouble::Wrong { key, found, accepted })
    }
    fn place(&self, line: u32) -> Place {
        Place { file: Arc::clone(&self.file), line, column: 0 }
    }
    fn source(&self, from: u32, to: u32) -> String {
        if from == to { format!("{} line {from}", self.file) } else { format!("{} lines {from} to {to}", self.file) }
    }
    fn node(&self, line: u32, value: Value) -> Node {
        Node { value, source: None, place: self.place(line) }
    }
    fn find(&self, key: &str) -> Option<&'b Entry> {
        self.asked.borrow_mut().push(key.to_owned());
        self.block.entries.iter().find(|entry| entry.key == key)
    }
    fn entry(&self, key: &'static str) -> Result<&'b Entry, ImportError> {
        let missing = || self.at(self.block.line, Trouble::Missing { block: self.block.kind.clone(), key });
        self.find(key).ok_or_else(missing)
    }
    fn block(&self, key: &'static str, kind: &'static str) -> Result<&'b Block, ImportError> {
        let entry = self.entry(key)?;
        match &entry.item {
            Item::Block(block) if block.kind == kind => Ok(block),
            Item::Block(block) => {
                let instead = "only layout and mechanics of the first generation (g1) are";
                Err(self.at(entry.line, Trouble::NotModelled { what: format!("a {} block", block.kind), instead }))
            }
            _ => Err(self.wrong(entry, &format!("a {kind} block"))),
        }
    }
    fn list(&self, key: &'static str) -> Result<&'b [(Item, u32)], ImportError> {
        let entry = self.entry(key)?;
        match &entry.item {
            Item::List(list) => Ok(list),
            _ => Err(self.wrong(entry, "a list in brackets")),
        }
    }
    fn numbers(&self, entry: &Entry, count: Option<usize>) -> Result<Vec<f64>, ImportError> {
        let wanted = || match count {
            Some(count) => format!("a list of {count} numbers"),
            None => "a list of numbers".to_owned(),
        };
        let Item::List(list) = &entry.item else { return Err(self.wrong(entry, &wanted())) };
        let numbers: Option<Vec<f64>> = list.iter().map(|(item, _)| number(item)).collect();
        match numbers {
            Some(numbers) if count.is_none_or(|count| count == numbers.len()) => Ok(numbers),
            _ => Err(self.wrong(entry, &wanted())),
        }
    }

    /// Copies a parameter with its line as its source.
    fn copy(
        &self,
        to: &mut Table,
        ours: &str,
        theirs: &'static str,
        convert: impl Fn(&Item) -> Result<Value, String>,
    ) -> Result<(), ImportError> {
        let entry = self.entry(theirs)?;
        let value = convert(&entry.item).map_err(|accepted| self.wrong(entry, &accepted))?;
        let source = Some(self.source(entry.line, entry.line));
        to.set(ours, Node { value, source, place: self.place(entry.line) });
        Ok(())
    }

    /// Copies a parameter whose source is that of the whole table.
    fn plain(
        &self,
        to: &mut Table,
        ours: &str,
        theirs: &'static str,
        convert: impl Fn(&Item) -> Result<Value, String>,
    ) -> Result<(), ImportError> {
        let entry = self.entry(theirs)?;
        let value = convert(&entry.item).map_err(|accepted| self.wrong(entry, &accepted))?;
        to.set(ours, self.node(entry.line, value));
        Ok(())
    }

    /// Notes parameters that nobody asked for.
    fn unused(&self, notes: &mut Vec<String>) {
        let asked = self.asked.borrow();
        for entry in self.block.entries.iter().filter(|entry| !asked.contains(&entry.key)) {
            let off = NOT_MODELLED.contains(&entry.key.as_str()) && number(&entry.item) == Some(0.0);
            if !off && !IGNORED.contains(&entry.key.as_str()) {
                notes.push(format!("{}:{}: '{}' is not used", self.file, entry.line, entry.key));
            }
        }
    }
}

/// Parameters of every drive file that the model has no use for: any write stops a read-ahead, and when the bus is let go matters
/// only to other drives on it.
const IGNORED: [&str; 6] = [
    "Write hit stop prefetch",
    "Read directly to buffer",
    "Hold bus entire read xfer",
    "Hold bus entire write xfer",
    "Disconnect write if seek",
    "Low (write) water mark",
];

/// What a drive may have and the model has not; it is said when a drive has it.
const NOT_MODELLED: [&str; 4] = [
    "Allow sneaky full read hits",
    "Allow sneaky partial read hits",
    "Allow sneaky intermediate read hits",
    "Allow write prebuffering",
];

fn describe(item: &Item) -> String {
    match item {
        Item::Number(number) if number.abs() >= 1e15 => format!("{number:e}"),
        Item::Number(number) => number.to_string(),
        Item::Word(word) => format!("'{word}'"),
        Item::Source(file) => format!("'source {file}'"),
        Item::List(_) => "a list".into(),
        Item::Block(block) => format!("a {} block", block.kind),
    }
}

fn number(item: &Item) -> Option<f64> {
    if let Item::Number(number) = item { Some(*number) } else { None }
}

fn numeric(item: &Item) -> Result<f64, String> {
    number(item).ok_or_else(|| "a number".into())
}

fn whole(item: &Item) -> Result<Value, String> {
    match number(item) {
        Some(number) if number.fract() == 0.0 && (0.0..=9e15).contains(&number) => Ok(Value::Integer(number as i64)),
        _ => Err("a whole number from 0 on".into()),
    }
}

fn flag(item: &Item) -> Result<Value, String> {
    match number(item) {
        Some(0.0) => Ok(Value::Flag(false)),
        // 2 occurs (hp_c2490a's caching, zero latency); its difference from 1 is not documented.
        Some(1.0 | 2.0) => Ok(Value::Flag(true)),
        _ => Err("0 or 1".into()),
    }
}

fn share(item: &Item) -> Result<Value, String> {
    match number(item) {
        Some(share) if (0.0..=1.0).contains(&share) => Ok(Value::Text(format!("{} %", share * 100.0))),
        _ => Err("a number from 0 to 1".into()),
    }
}

fn name(item: &Item, names: &[&str]) -> Result<Value, String> {
    let index = number(item).filter(|number| number.fract() == 0.0 && *number >= 0.0);
    match index.and_then(|index| names.get(index as usize)) {
        Some(name) => Ok(Value::Text((*name).to_owned())),
        None => Err(format!("a number from 0 to {}", names.len() - 1)),
    }
}

/// No drive takes a minute over anything.
const LONGEST_MS: f64 = 60_000.0;

fn milliseconds(item: &Item) -> Result<Value, String> {
    milliseconds_scaled(item, 1.0)
}

fn milliseconds_scaled(item: &Item, scale: f64) -> Result<Value, String> {
    match number(item).map(|time| time * scale) {
        Some(time) if (0.0..=LONGEST_MS).contains(&time) => Ok(time_text(time)),
        _ => Err("a time in milliseconds from 0 to 60000".into()),
    }
}

fn signed_milliseconds(item: &Item) -> Result<Value, String> {
    match number(item) {
        Some(time) if (-LONGEST_MS..0.0).contains(&time) => {
            let Value::Text(text) = time_text(-time) else { unreachable!("times are texts") };
            Ok(Value::Text(format!("-{text}")))
        }
        _ => milliseconds(item),
    }
}

/// To the nearest nanosecond; the text reads back as the same time.
fn time_text(ms: f64) -> Value {
    Value::Text(format!("{:#}", Duration::from_seconds(ms.max(0.0) / 1e3)))
}

fn wholes(item: &Item) -> Result<Value, String> {
    let wanted = || "a list of whole numbers from 0 on".to_owned();
    let Item::List(list) = item else { return Err(wanted()) };
    let place = Place { file: Arc::from(""), line: 0, column: 0 };
    let nodes = list
        .iter()
        .map(|(item, _)| Ok(Node { value: whole(item).map_err(|_| wanted())?, source: None, place: place.clone() }));
    Ok(Value::List(nodes.collect::<Result<_, String>>()?))
}

fn pairs(item: &Item) -> Result<Value, String> {
    let Value::List(nodes) = wholes(item)? else { unreachable!("wholes gives a list") };
    if nodes.len() % 2 != 0 {
        return Err("pairs of defect and replacement, an even number of whole numbers".into());
    }
    let place = Place { file: Arc::from(""), line: 0, column: 0 };
    let pairs =
        nodes.chunks(2).map(|pair| Node { value: Value::List(pair.to_vec()), source: None, place: place.clone() });
    Ok(Value::List(pairs.collect()))
}
