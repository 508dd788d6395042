//! Where blocks are: DiskSim's layout of the first generation.

use super::block::Params;
use super::value::{describe, name, number, numeric, pairs, whole, wholes};
use crate::disk::diskspecs::syntax::{Block, Entry, Item};
use crate::disk::diskspecs::{ImportError, Trouble};
use crate::part::{Node, Table, Value};

pub(super) fn layout(model: &Params, values: &mut Table, notes: &mut Vec<String>) -> Result<(), ImportError> {
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
