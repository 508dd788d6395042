//! A part as TOML.

use std::fmt::{self, Write};

use super::tree::{Node, Part, Table, Value};

/// Lists longer than this are wrapped.
const WIDTH: usize = 120;

pub(super) fn to_toml(part: &Part) -> String {
    let mut out = String::new();
    let top = [("kind", &part.kind), ("name", &part.name), ("status", &part.status), ("note", &part.note)];
    for (key, text) in top {
        if !text.is_empty() {
            let _ = writeln!(out, "{key} = {}", quoted(text));
        }
    }
    table(&mut out, &part.values, "");
    out
}

fn table(out: &mut String, table: &Table, path: &str) {
    if let Some(source) = &table.source {
        let _ = writeln!(out, "source = {}", quoted(source));
    }
    // Plain values first: after a header, everything belongs to that header.
    for (key, node) in table.entries() {
        if !is_headed(&node.value) {
            entry(out, key, node);
        }
    }
    for (key, node) in table.entries() {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match &node.value {
            Value::Table(inner) => {
                let _ = writeln!(out, "\n[{path}]");
                self::table(out, inner, &path);
            }
            Value::List(nodes) if is_headed(&node.value) => {
                for node in nodes {
                    let Value::Table(inner) = &node.value else { unreachable!("a headed list holds tables only") };
                    let _ = writeln!(out, "\n[[{path}]]");
                    self::table(out, inner, &path);
                }
            }
            _ => (),
        }
    }
}

fn is_headed(value: &Value) -> bool {
    match value {
        Value::Table(_) => true,
        Value::List(nodes) => !nodes.is_empty() && nodes.iter().all(|node| matches!(node.value, Value::Table(_))),
        _ => false,
    }
}

fn entry(out: &mut String, key: &str, node: &Node) {
    let line = match &node.source {
        None => format!("{key} = {}", node.value),
        Some(source) => format!("{key} = {{ value = {}, source = {} }}", node.value, quoted(source)),
    };
    // TOML 1.0 allows line breaks in a list, not in an inline table: only plain lists are wrapped.
    match &node.value {
        Value::List(nodes) if node.source.is_none() && line.len() > WIDTH => {
            let _ = writeln!(out, "{key} = [");
            let mut row = String::from("   ");
            for node in nodes {
                let item = format!(" {},", node.value);
                if row.len() + item.len() > WIDTH {
                    let _ = writeln!(out, "{row}");
                    row = String::from("   ");
                }
                row.push_str(&item);
            }
            let _ = writeln!(out, "{row}\n]");
        }
        _ => {
            let _ = writeln!(out, "{line}");
        }
    }
}

pub(super) fn inline(value: &Value, f: &mut fmt::Formatter) -> fmt::Result {
    match value {
        Value::Integer(number) => write!(f, "{number}"),
        // `{:?}` keeps the point, so that a float reads back as a float, and prints the shortest text that is exact.
        Value::Float(number) => write!(f, "{number:?}"),
        Value::Flag(flag) => write!(f, "{flag}"),
        Value::Text(text) => f.write_str(&quoted(text)),
        Value::List(nodes) => {
            f.write_char('[')?;
            for (index, node) in nodes.iter().enumerate() {
                if index > 0 {
                    f.write_str(", ")?;
                }
                inline(&node.value, f)?;
            }
            f.write_char(']')
        }
        Value::Table(table) => {
            f.write_str("{ ")?;
            for (index, (key, node)) in table.entries().iter().enumerate() {
                if index > 0 {
                    f.write_str(", ")?;
                }
                write!(f, "{key} = ")?;
                inline(&node.value, f)?;
            }
            f.write_str(" }")
        }
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
