//! The values of a TOML file of `parts/` or `systems/`, and whether somebody vouches for them.
//!
//! The format is that of `crates/machine/src/part.rs`: a value's source is its own, `{ value, source }`, or that of a
//! table around it.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What describes the file and claims nothing about the world.
const DESCRIPTION: [&str; 4] = ["kind", "name", "status", "note"];

/// The values without a source: line, counted from 1, and path.
///
/// # Panics
/// If the text is no TOML.
pub fn without_source(text: &str) -> Vec<(usize, String)> {
    let document = DeTable::parse(text).expect("a part is TOML");
    let mut found = Vec::new();
    for (key, value) in document.get_ref() {
        if !DESCRIPTION.contains(&key.get_ref().as_ref()) {
            let vouched = has_source(document.get_ref());
            value_without_source(text, key.get_ref(), value, vouched, &mut found);
        }
    }
    found.sort();
    found
}

fn has_source(table: &DeTable) -> bool {
    let source = table.get("source").map(Spanned::get_ref);
    matches!(source, Some(DeValue::String(source)) if !source.trim().is_empty())
}

fn value_without_source(
    text: &str,
    path: &str,
    value: &Spanned<DeValue>,
    vouched: bool,
    found: &mut Vec<(usize, String)>,
) {
    match value.get_ref() {
        DeValue::Table(table) => {
            let vouched = vouched || has_source(table);
            for (key, value) in table.iter().filter(|(key, _)| key.get_ref() != "source") {
                value_without_source(text, &format!("{path}.{}", key.get_ref()), value, vouched, found);
            }
        }
        DeValue::Array(items) if items.iter().any(|item| matches!(item.get_ref(), DeValue::Table(_))) => {
            for (index, item) in items.iter().enumerate() {
                value_without_source(text, &format!("{path}.{index}"), item, vouched, found);
            }
        }
        _ if vouched => {}
        _ => found.push((text[..value.span().start].matches('\n').count() + 1, path.to_owned())),
    }
}

#[test]
fn a_value_without_source_is_found_wherever_it_stands() {
    let text = r#"
kind = "disk"
name = "a disk"
bare = 7
own = { value = "7200 rpm", source = "data sheet" }
empty = { value = 1, source = " " }
[vouched]
source = "page 3"
value = 1
[vouched.deeper]
value = 2
[[zone]]
source = "page 4"
sectors = [1, 2]
[[zone]]
sectors = [3, 4]
"#;
    let found: Vec<_> = without_source(text).into_iter().map(|(line, path)| format!("{line} {path}")).collect();
    assert_eq!(found, ["4 bare", "6 empty.value", "16 zone.1.sectors"]);
    assert!(without_source(&format!("source = \"all of it\"\n{text}")).is_empty());
}
