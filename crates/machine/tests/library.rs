//! What comes with the program: complete, readable, and with a source for every value.

use std::collections::BTreeSet;
use std::path::Path;

use machine::disk::parameters::Parameters;
use machine::library::{LibraryError, Shelf};
use machine::part::{Part, PartError, Problem};

fn in_folder(folder: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    names.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn every_file_of_the_folders_comes_with_the_program() {
    for (shelf, folder) in [(Shelf::Parts, "parts"), (Shelf::Systems, "systems")] {
        let held: BTreeSet<String> = shelf.texts().iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(held, in_folder(folder), "list in machine/src/library.rs what lies in {folder}/");
    }
}

#[test]
fn every_value_has_a_source_and_every_part_a_status() {
    for shelf in [Shelf::Parts, Shelf::Systems] {
        for (name, part) in shelf.all() {
            assert!(!part.status.is_empty() && !part.name.is_empty(), "{name}");
            for row in part.rows() {
                assert!(!row.source.is_empty(), "{name}: {} names no source", row.path);
            }
        }
    }
}

#[test]
fn a_name_is_looked_up_and_anything_else_is_a_path() {
    assert_eq!(Shelf::Parts.find("wren-iv").unwrap().kind, "disk");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = |name: &str| folder.join(name).display().to_string();
    assert_eq!(
        Shelf::Systems.find(&path("systems/raid-i.toml")).unwrap().rows(),
        Shelf::Systems.find("raid-i").unwrap().rows()
    );
    let unknown = Shelf::Parts.find("wren-v").unwrap_err().to_string();
    assert!(unknown.starts_with("there is no part 'wren-v', and no file of that path; parts that come"), "{unknown}");
    assert!(unknown.contains("vme, wren-7, wren-iv"), "{unknown}");
    let other = Shelf::Parts.find(&path("systems/raid-i.toml")).unwrap_err();
    assert!(matches!(&other, LibraryError::OtherShelf { kind, .. } if kind == "system"), "{other}");
}

#[test]
fn a_file_that_is_no_part_is_refused_with_its_line() {
    let said = |text: &str| Part::parse("x.toml", text).unwrap_err().to_string();
    assert!(said("kind = 3\n").starts_with("x.toml:1:8: kind: is the number 3"), "{}", said("kind = 3\n"));
    let PartError { place, problem, .. } = Part::parse("x.toml", "kind = \"disk\"\nname = \n").unwrap_err();
    assert!(place.line == 2 && matches!(*problem, Problem::NotToml { .. }), "{place} {problem}");
}

#[test]
fn a_key_that_means_nothing_is_refused_in_every_table_of_a_disk() {
    let (_, text) = Shelf::Parts.texts().iter().find(|(name, _)| *name == "mg10-20tb").unwrap();
    for table in ["bus", "buffer", "read-ahead", "write", "overhead", "queue", "arm.seek"] {
        let head = format!("[{table}]\n");
        assert!(text.contains(&head), "{table}");
        let wrong = text.replace(&head, &format!("{head}bogus = 1\n"));
        let part = Part::parse("slip.toml", &wrong).unwrap();
        let error = Parameters::read(&part).err().unwrap().to_string();
        assert!(error.contains("bogus"), "{error}");
    }
}

/// `docs/machines.md` teaches every kind, and every value of every part that comes with the program.
#[test]
fn the_page_on_machines_knows_every_kind_and_every_value() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/machines.md")).unwrap();
    for kind in machine::kinds::KINDS {
        let heading = format!("### `{}`\n", kind.name);
        let section = page.split(&heading).nth(1).unwrap_or_else(|| panic!("no section of {}", kind.name));
        let section = section.split("\n### ").next().unwrap();
        for (name, part) in Shelf::Parts.all().into_iter().filter(|(_, part)| part.kind == kind.name) {
            for row in part.rows() {
                // Of a disk the page names the tables.
                let word = match kind.name {
                    "disk" => row.path.split('.').next().unwrap(),
                    _ => row.path.rsplit('.').next().unwrap(),
                };
                let known = [format!("`{word}`"), format!("[{word}]")].iter().any(|word| section.contains(word));
                assert!(known, "{name}: the section of {} does not know `{word}`", kind.name);
            }
        }
        let stands = if kind.on.is_empty() { "nothing".to_owned() } else { format!("`{}`", kind.on.join("`, `")) };
        assert!(page.contains(&format!("| `{}` | {stands} |", kind.name)), "{} stands on {stands}", kind.name);
    }
}
