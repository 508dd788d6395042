//! Rotation and arm: DiskSim's mechanics of the first generation.

use std::sync::Arc;

use super::block::Params;
use super::value::{describe, milliseconds, numeric, signed_milliseconds, time_text};
use crate::disk::diskspecs::syntax::Item;
use crate::disk::diskspecs::{ImportError, Role, Text, Trouble, seek};
use crate::part::{Node, Place, Table, Value};

pub(super) fn mechanics(
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
            let points = seek::parse(&file, &text.text)?;
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
