//! What stands in a drive file into what stands in a part; an error says what would be accepted.

use std::sync::Arc;

use units::Duration;

use crate::disk::diskspecs::syntax::Item;
use crate::part::{Node, Place, Value};

pub(super) fn describe(item: &Item) -> String {
    match item {
        Item::Number(number) if number.abs() >= 1e15 => format!("{number:e}"),
        Item::Number(number) => number.to_string(),
        Item::Word(word) => format!("'{word}'"),
        Item::Source(file) => format!("'source {file}'"),
        Item::List(_) => "a list".into(),
        Item::Block(block) => format!("a {} block", block.kind),
    }
}

pub(super) fn number(item: &Item) -> Option<f64> {
    if let Item::Number(number) = item { Some(*number) } else { None }
}

pub(super) fn numeric(item: &Item) -> Result<f64, String> {
    number(item).ok_or_else(|| "a number".into())
}

pub(super) fn whole(item: &Item) -> Result<Value, String> {
    match number(item) {
        Some(number) if number.fract() == 0.0 && (0.0..=9e15).contains(&number) => Ok(Value::Integer(number as i64)),
        _ => Err("a whole number from 0 on".into()),
    }
}

pub(super) fn flag(item: &Item) -> Result<Value, String> {
    match number(item) {
        Some(0.0) => Ok(Value::Flag(false)),
        // 2 occurs (hp_c2490a's caching, zero latency); its difference from 1 is not documented.
        Some(1.0 | 2.0) => Ok(Value::Flag(true)),
        _ => Err("0 or 1".into()),
    }
}

pub(super) fn share(item: &Item) -> Result<Value, String> {
    match number(item) {
        Some(share) if (0.0..=1.0).contains(&share) => Ok(Value::Text(format!("{} %", share * 100.0))),
        _ => Err("a number from 0 to 1".into()),
    }
}

pub(super) fn name(item: &Item, names: &[&str]) -> Result<Value, String> {
    let index = number(item).filter(|number| number.fract() == 0.0 && *number >= 0.0);
    match index.and_then(|index| names.get(index as usize)) {
        Some(name) => Ok(Value::Text((*name).to_owned())),
        None => Err(format!("a number from 0 to {}", names.len() - 1)),
    }
}

/// No drive takes a minute over anything.
const LONGEST_MS: f64 = 60_000.0;

pub(super) fn milliseconds(item: &Item) -> Result<Value, String> {
    milliseconds_scaled(item, 1.0)
}

pub(super) fn milliseconds_scaled(item: &Item, scale: f64) -> Result<Value, String> {
    match number(item).map(|time| time * scale) {
        Some(time) if (0.0..=LONGEST_MS).contains(&time) => Ok(time_text(time)),
        _ => Err("a time in milliseconds from 0 to 60000".into()),
    }
}

pub(super) fn signed_milliseconds(item: &Item) -> Result<Value, String> {
    match number(item) {
        Some(time) if (-LONGEST_MS..0.0).contains(&time) => {
            let Value::Text(text) = time_text(-time) else { unreachable!("times are texts") };
            Ok(Value::Text(format!("-{text}")))
        }
        _ => milliseconds(item),
    }
}

/// To the nearest nanosecond; the text reads back as the same time.
pub(super) fn time_text(ms: f64) -> Value {
    Value::Text(format!("{:#}", Duration::from_seconds(ms.max(0.0) / 1e3)))
}

pub(super) fn wholes(item: &Item) -> Result<Value, String> {
    let wanted = || "a list of whole numbers from 0 on".to_owned();
    let Item::List(list) = item else { return Err(wanted()) };
    let place = Place { file: Arc::from(""), line: 0, column: 0 };
    let nodes = list
        .iter()
        .map(|(item, _)| Ok(Node { value: whole(item).map_err(|_| wanted())?, source: None, place: place.clone() }));
    Ok(Value::List(nodes.collect::<Result<_, String>>()?))
}

pub(super) fn pairs(item: &Item) -> Result<Value, String> {
    let Value::List(nodes) = wholes(item)? else { unreachable!("wholes gives a list") };
    if nodes.len() % 2 != 0 {
        return Err("pairs of defect and replacement, an even number of whole numbers".into());
    }
    let place = Place { file: Arc::from(""), line: 0, column: 0 };
    let pairs =
        nodes.chunks(2).map(|pair| Node { value: Value::List(pair.to_vec()), source: None, place: place.clone() });
    Ok(Value::List(pairs.collect()))
}
