//! The nodes of a machine as its file has them: a tree, checked as such.
//!
//! ```toml
//! [[node]]
//! name = "memory"            # a root: nothing above it
//! part = "sun4-280-memory"
//!
//! [[node]]
//! name = "backplane"
//! part = "vme"
//! on = "memory"              # the node above
//!
//! [[node]]
//! name = "adapter-0"
//! part = "jaguar"
//! on = "backplane"
//! slot = 3 # its place there, where that matters: `slot`, `channel`, `target` or `port`; the next free one without
//!
//! [[node]]
//! name = "drive"             # drive-0 to drive-11; a name that ends in a digit goes on with a dot: disk-0.0, disk-0.1
//! part = "flash-nvme-3.84tb"
//! on = "switch-0"
//! count = 12
//! ```
//!
//! Nodes may stand in any order; they are given in an order in which each comes after the one above it, otherwise that
//! of the file. What may stand on what, and which places there are, the kinds of the parts say ([`crate::kinds`]).

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use crate::part::{PartError, Problem, Reader};

/// Nodes of one machine.
const MOST: usize = 4096;

/// Keys that give a place.
pub(crate) const PLACES: [&str; 4] = ["slot", "channel", "target", "port"];

/// Names that mean something else where nodes are named.
const TAKEN: [&str; 2] = ["system", "array"];

/// A node as it is written, of `count` nodes one.
pub(crate) struct Written<'t> {
    /// Its own.
    pub name: Arc<str>,
    /// Of its part, as it is written.
    pub part: String,
    /// The node above it, by its index in the list.
    pub above: Option<usize>,
    /// Its place there, and the key that gives it.
    pub place: Option<(&'static str, u32)>,
    /// For messages.
    pub reader: Rc<Reader<'t>>,
}

/// All nodes of a system, each after the one above it.
pub(crate) fn read<'t>(system: &Reader<'t>) -> Result<Vec<Written<'t>>, PartError> {
    let mut written = Vec::new();
    let mut names: HashMap<Arc<str>, usize> = HashMap::new();
    let mut above: Vec<Option<String>> = Vec::new();
    for reader in system.tables("node")? {
        let reader = Rc::new(reader);
        let base: String = reader.get("name")?;
        let part: String = reader.get("part")?;
        let on: Option<String> = reader.find("on")?;
        let count: Option<u32> = reader.find("count")?;
        let mut place = None;
        for key in PLACES {
            if let Some(number) = reader.find::<u32>(key)? {
                if let Some((other, _)) = place {
                    return Err(reader.fault(key, contradiction(format!("a node has one place, and {other} is given"))));
                }
                place = Some((key, number));
            }
        }
        reader.done()?;
        check_name(&reader, &base)?;
        let room = MOST - written.len();
        if count.is_some_and(|count| count == 0 || count as usize > room) {
            let accepted = format!("1 to {room}: a machine has at most {MOST} nodes");
            return Err(reader.fault("count", Problem::OutOfRange { accepted }));
        }
        if room == 0 {
            return Err(reader.fault("name", contradiction(format!("a machine has at most {MOST} nodes"))));
        }
        for index in 0..count.unwrap_or(1) {
            let name: Arc<str> = numbered(&base, count.map(|_| index)).into();
            if names.insert(Arc::clone(&name), written.len()).is_some() {
                return Err(reader.fault("name", contradiction(format!("there are two nodes called '{name}'"))));
            }
            let place = match place {
                Some((key, first)) => match first.checked_add(index) {
                    Some(number) => Some((key, number)),
                    None => return Err(reader.fault(key, contradiction("places go up to 4294967295".to_owned()))),
                },
                None => None,
            };
            written.push(Written { name, part: part.clone(), above: None, place, reader: Rc::clone(&reader) });
            above.push(on.clone());
        }
    }
    if written.is_empty() {
        let what = "[[node]] with name and part: a machine is a tree of nodes, such as memory, processor, disks";
        return Err(system.fault("node", Problem::Missing { what }));
    }
    for (node, above) in written.iter_mut().zip(above) {
        if let Some(above) = above {
            let index = names.get(above.as_str()).ok_or_else(|| {
                let known = names_of(names.keys());
                node.reader
                    .fault("on", Problem::Wrong { found: format!("'{above}', which is no node"), accepted: known })
            })?;
            node.above = Some(*index);
        }
    }
    in_order(written)
}

/// Names for a message, those that count on as "disk-0 to disk-59": all, or the first of many.
pub(crate) fn names_of<'n>(names: impl Iterator<Item = &'n Arc<str>>) -> String {
    const SHOWN: usize = 24;
    let mut names: Vec<&str> = names.map(|name| &**name).collect();
    names.sort_by_key(|name| natural(name));
    let mut shown: Vec<String> = counting_on(&names)
        .map(|names| match names {
            [first, .., last] if names.len() > 2 => format!("{first} to {last}"),
            few => few.join(", "),
        })
        .collect();
    let more = shown.len().saturating_sub(SHOWN);
    shown.truncate(SHOWN);
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Runs of names of which each counts on from the one before.
fn counting_on<'n>(names: &'n [&'n str]) -> impl Iterator<Item = &'n [&'n str]> {
    let split = |name: &str| {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (beginning, number) = name.split_at(name.len() - digits);
        number.parse::<u64>().ok().map(|number| (beginning.to_owned(), number))
    };
    names.chunk_by(move |one, next| match (split(one), split(next)) {
        (Some((beginning, one)), Some((same, next))) => beginning == same && one.checked_add(1) == Some(next),
        _ => false,
    })
}

/// Names in the order in which people count: `disk-2` before `disk-10`.
pub(crate) fn natural(name: &str) -> Vec<(String, u64)> {
    let mut pieces = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, number) = rest.split_at(digits);
        let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        let (number, after) = number.split_at(end);
        pieces.push((text.to_owned(), number.parse().unwrap_or(0)));
        rest = after;
    }
    pieces
}

/// The name of one of several.
fn numbered(base: &str, index: Option<u32>) -> String {
    match index {
        None => base.to_owned(),
        Some(index) if base.ends_with(|c: char| c.is_ascii_digit()) => format!("{base}.{index}"),
        Some(index) => format!("{base}-{index}"),
    }
}

fn contradiction(message: String) -> Problem {
    Problem::Contradiction(message)
}

fn check_name(reader: &Reader, name: &str) -> Result<(), PartError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let good = name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(plain) && !name.ends_with('.');
    if !good {
        let accepted = "a letter, then letters, digits, '-', '_' or '.', such as \"disk-0\"".to_owned();
        return Err(reader.fault("name", Problem::Wrong { found: format!("'{name}'"), accepted }));
    }
    match TAKEN.contains(&name) {
        true => {
            Err(reader
                .fault("name", contradiction(format!("'{name}' means the system's own values; choose another name"))))
        }
        false => Ok(()),
    }
}

/// Each node after the one above it. Refuses circles.
fn in_order(written: Vec<Written>) -> Result<Vec<Written>, PartError> {
    let mut order: Vec<usize> = Vec::with_capacity(written.len());
    let mut done: HashSet<usize> = HashSet::new();
    for start in 0..written.len() {
        let mut way = Vec::new();
        let mut at = Some(start);
        while let Some(index) = at.filter(|index| !done.contains(index)) {
            if way.contains(&index) {
                let circle: Vec<&str> = way.iter().map(|index| &*written[*index].name).collect();
                let message = format!("stands on itself: {} on {}", circle.join(" on "), written[index].name);
                return Err(written[index].reader.fault("on", contradiction(message)));
            }
            way.push(index);
            at = written[index].above;
        }
        for index in way.into_iter().rev() {
            done.insert(index);
            order.push(index);
        }
    }
    let mut place_of = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, index)| place_of[*index] = place);
    let mut nodes: Vec<Option<Written>> = written.into_iter().map(Some).collect();
    let ordered = order.into_iter().map(|index| {
        let mut node = nodes[index].take().expect("each node is in the order once");
        node.above = node.above.map(|above| place_of[above]);
        node
    });
    Ok(ordered.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_count_on_are_told_as_one() {
        let told = |names: &[&str]| names_of(names.iter().map(|name| Arc::from(*name)).collect::<Vec<_>>().iter());
        assert_eq!(told(&["os", "disk-10", "disk-9", "disk-8", "disk-2"]), "disk-2, disk-8 to disk-10, os");
        assert_eq!(told(&["a-1", "a-2", "b-3", "b"]), "a-1, a-2, b, b-3");
        assert_eq!(told(&["d-0.1", "d-1.2", "d-1.3", "d-1.4"]), "d-0.1, d-1.2 to d-1.4");
        let many: Vec<String> = (0..30).map(|number| format!("n-{}", number * 2)).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(told(&many).ends_with("n-44, n-46 and 6 more"), "{}", told(&many));
    }

    #[test]
    fn people_count_names_so() {
        let mut names = vec!["disk-10", "disk-2", "disk-1.10", "disk-1.9", "disk"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["disk", "disk-1.9", "disk-1.10", "disk-2", "disk-10"]);
        assert_eq!(
            [numbered("disk-0", Some(3)), numbered("drive", Some(3)), numbered("os", None)],
            ["disk-0.3", "drive-3", "os"]
        );
    }
}
