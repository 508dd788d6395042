//! `arraylab copy`, as its users meet it.

mod common;

use common::Desk;

const MIB: usize = 1 << 20;

#[test]
fn a_copy_is_the_same_bytes_and_both_sides_are_measured() {
    let desk = Desk::new("");
    let source = desk.path().join("a.bin");
    // Some pieces and a rest.
    let bytes: Vec<u8> = (0..5 * MIB + 8192).map(|n| (n / 4096 + n % 251) as u8).collect();
    std::fs::write(&source, &bytes).unwrap();
    let target = desk.file("b.bin", 6 * MIB);
    let words = ["copy", "a.bin", "b.bin", "--size", "1MiB", "--depth", "3", "--json"];
    let refused = desk.arraylab(&words);
    assert_eq!(refused.code, 2, "{}", refused.stdout);
    assert!(refused.stderr.contains("--destroy-data"), "{}", refused.stderr);
    let said = desk.arraylab(&[&words[..], &["--destroy-data"]].concat());
    assert_eq!((said.code, &*said.stderr), (0, ""), "{}", said.stdout);
    let document = said.json();
    assert!(std::fs::read(&target).unwrap().starts_with(&bytes));
    let [read, write] = [0, 1].map(|side| &document["streams"][side]);
    assert_eq!((&read["name"], &write["name"]), (&"read".into(), &"write".into()));
    for side in [read, write] {
        assert_eq!((&side["requests"], &side["bytes"]), (&6.into(), &(5 * MIB + 8192).into()), "{side:#}");
    }
    assert!(document["limit"].as_str().unwrap().contains("a piece waits for the source"));
    assert_eq!(document["copy"]["failure"], serde_json::Value::Null);
}

#[test]
fn what_cannot_be_copied_is_said() {
    let desk = Desk::new("");
    desk.file("a.bin", 2 * MIB);
    desk.file("b.bin", MIB);
    let refused = |words: &[&str], message: &str| {
        let said = desk.arraylab(words);
        assert_eq!((said.code, &*said.stdout), (2, ""), "{words:?}: {}", said.stderr);
        assert!(said.stderr.contains(message), "{words:?}: {}", said.stderr);
    };
    refused(&["copy", "a.bin", "b.bin", "--destroy-data"], "2 MiB of a.bin do not fit on b.bin, which has 1 MiB");
    refused(&["copy", "b.bin", "a.bin", "--destroy-data", "--size", "1000B"], "change --size");
    refused(&["copy", "memory:1MiB", "a.bin", "--destroy-data"], "exists in virtual time only");
    assert_eq!(
        desk.path().join("runs").read_dir().map_or(0, |folder| folder.count()),
        0,
        "nothing ran, nothing is kept"
    );
}
