//! Devices that belong to several creations of an array, and superblocks whose offsets point where nothing may be
//! written, as their user meets them.

mod common;
#[path = "common/served.rs"]
mod served;

use std::path::Path;

use common::Desk;
use served::{done, say};

/// Changes a field of a superblock on a file, and makes its checksum good.
fn edit(path: &Path, at: usize, value: &[u8]) {
    let mut bytes = std::fs::read(path).unwrap();
    let it = &mut bytes[4096..8192];
    it[at..at + value.len()].copy_from_slice(value);
    let roles = u32::from_le_bytes(it[220..224].try_into().unwrap()) as usize;
    it[216..220].fill(0);
    let words = it[..256 + 2 * roles].chunks(4);
    let sum: u64 = words.map(|it| it.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))).sum();
    it[216..220].copy_from_slice(&(sum as u32).wrapping_add((sum >> 32) as u32).to_le_bytes());
    std::fs::write(path, bytes).unwrap();
}

fn all(desk: &Desk, names: &str) -> Vec<Vec<u8>> {
    names.split(' ').map(|name| std::fs::read(desk.path().join(name)).unwrap()).collect()
}

/// Every command that opens an array.
const COMMANDS: [&str; 7] = [
    "status",
    "stop",
    "scrub",
    "rebuild",
    "serve --nbd unix:s.sock",
    "serve --read-only --nbd unix:s.sock",
    "add --device spare --size 16MiB",
];

#[test]
fn twins_of_two_creations_are_refused_by_every_command_with_what_each_says() {
    let desk = Desk::new("");
    done(&desk, "array create --level 1 --size 16MiB a b");
    // The old one has seen more.
    edit(&desk.path().join("a"), 200, &900u64.to_le_bytes());
    edit(&desk.path().join("b"), 64, &(1_900_000_000u64).to_le_bytes());
    let before = all(&desk, "a b");
    for members in ["a b", "b a"] {
        for command in COMMANDS {
            let said = say(&desk, &format!("array {command} {members}"));
            assert_eq!(said.code, 2, "{command}: {}{}", said.stdout, said.stderr);
            for words in [
                "these devices disagree about the array's creation time",
                "a (900 events, last written 20",
                "created 2030-03-17T17:46:40Z: b (",
                "Give only the devices of one creation",
            ] {
                assert!(said.stderr.contains(words), "{command}: {words}: {}", said.stderr);
            }
        }
    }
    let said = say(&desk, "array examine a b");
    assert!(said.code == 0 && said.stderr.contains("warning: these devices disagree"), "{}", said.stderr);
    assert!(all(&desk, "a b") == before, "nothing was written");
    // As the message says.
    done(&desk, "array stop b");
}

#[test]
fn a_member_of_an_earlier_creation_that_cannot_open_is_named_foreign_and_left_alone() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --size 16MiB a b c d");
    for name in ["a", "b", "c"] {
        edit(&desk.path().join(name), 64, &(1_900_000_000u64).to_le_bytes());
    }
    edit(&desk.path().join("d"), 200, &900u64.to_le_bytes());
    let before = all(&desk, "d");
    let text = done(&desk, "array status d a b c");
    assert!(text.contains("foreign") && text.contains("an earlier creation of the array"), "{text}");
    let said = say(&desk, "array stop d a b c");
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("d is left out: it is foreign"), "{}", said.stderr);
    // It comes back as nothing of the array, and not without the word that what it holds may be lost.
    let said = say(&desk, "array add --device d a b c");
    assert_eq!(said.code, 2, "{}{}", said.stdout, said.stderr);
    let said = say(&desk, "array rebuild d a b c");
    assert!(said.code == 2 && said.stderr.contains("member 3 is missing"), "{}", said.stderr);
    assert!(all(&desk, "d") == before, "it is as it was");
    done(&desk, "array add --destroy-data --device d --device d a b c");
    done(&desk, "array scrub a b c d");
}

#[test]
fn an_offset_that_points_into_the_data_or_beyond_the_device_is_refused_before_anything_is_written() {
    let sectors = |number: u64| number.to_le_bytes().to_vec();
    let short = |number: u32| number.to_le_bytes().to_vec();
    for (create, at, value, words) in [
        ("--level 1", 96, short(2048 + 64), "bitmap_offset 2112 sectors: the bitmap would lie at 1060 KiB to 1064 KiB"),
        ("--level 1", 96, short(1 << 20), "the device ends at 16 MiB"),
        ("--level 1", 128, sectors(0), "data_offset 0 sectors: data would lie over the superblock"),
        ("--level 1", 128, sectors(1), "data_offset 1 sectors"),
        ("--level 1", 136, sectors(1 << 20), "data would end at"),
        (
            "--level 1 --consistency resync",
            188,
            short(3000),
            "bblog_offset 3000 sectors: the bad-block log would lie at",
        ),
        ("--level 5", 96, short(5000 | 2048 << 16), "ppl.offset 5000 sectors: the partial parity log would lie at"),
        ("--level 6", 116, short(4000), "new_layout 4000 sectors"),
        ("--level 5 --journal j", 128, sectors(4), "data_offset 4 sectors: "),
    ] {
        let desk = Desk::new("");
        done(&desk, &format!("array create --size 16MiB {create} a b c d"));
        let names = if create.contains("journal") { "a b c d j" } else { "a b c d" };
        let bad = if create.contains("journal") { "j" } else { "b" };
        let whole = at == 96 && create == "--level 1";
        for name in names.split(' ').filter(|name| *name == bad || whole) {
            edit(&desk.path().join(name), at, &value);
        }
        let before = all(&desk, names);
        for command in ["stop", "scrub", "serve --nbd unix:s.sock"] {
            let said = say(&desk, &format!("array {command} {names}"));
            assert_eq!(said.code, 2, "{create}, {at}, {command}: {}{}", said.stdout, said.stderr);
            for words in [words, "possible would be", if whole { "a: " } else { bad }] {
                assert!(said.stderr.contains(words), "{create}, {at}, {command}: {words}: {}", said.stderr);
            }
        }
        assert!(all(&desk, names) == before, "{create}, {at}: nothing was written");
    }
}
