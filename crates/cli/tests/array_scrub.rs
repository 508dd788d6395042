//! What a scrub says of what does not fit, and how it goes on, as its user meets it.

mod common;
#[path = "common/served.rs"]
mod served;

use common::Desk;
use serde_json::json;
use served::{Server, arraylab, done, say};

/// Where the data of a member of 16 MiB begin, with a log.
const DATA_AT: usize = 2 << 20;

/// Changes a byte of a member's data.
fn flip(desk: &Desk, name: &str, at: usize) {
    let file = desk.path().join(name);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[DATA_AT + at] ^= 4;
    std::fs::write(file, bytes).unwrap();
}

/// What a scrub says that finds something to do.
fn found(desk: &Desk, words: &str) -> String {
    let said = say(desk, words);
    assert_eq!(said.code, 1, "{words}: {}{}", said.stdout, said.stderr);
    said.stdout
}

#[test]
fn a_scrub_of_level_6_names_who_is_wrong_and_where_and_what_to_do() {
    let desk = Desk::new("");
    done(&desk, "array create --level 6 --size 16MiB a b c d");
    // In one stripe b alone, in another one two.
    flip(&desk, "b", 700);
    flip(&desk, "a", (1 << 20) + 9);
    flip(&desk, "c", (1 << 20) + 10);
    let text = found(&desk, "array scrub a b c d");
    for words in [
        "2 blocks did not fit: 0 mended, 0 made to fit by believing the data, 2 left",
        "member 1 is wrong in 1 block; `--repair` computes them from the others",
        "of 1 block it cannot be told which member is wrong, as more than one may be; compare",
        " of the array: member 1\n",
        "  bytes 2097152 to 2228224 of the array: not told which\n",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let Some(server) = Server::start(&desk, "a b c d") else { return };
    let said = say(&desk, "array scrub --json a b c d").json();
    assert_eq!((&said["located"], &said["unlocated"]), (&json!([0, 1, 0, 0]), &json!(1)), "{said}");
    assert_eq!(said["misfits"][1], json!({ "from_bytes": 2_097_152, "to_bytes": 2_228_224, "member": null }), "{said}");
    let (_, events) = server.stop();
    let event = events.iter().find(|event| event["event"] == "scrub-done").unwrap();
    assert_eq!((&event["located"], &event["unlocated"]), (&json!([0, 1, 0, 0]), &json!(1)), "{event}");
    assert_eq!(event["misfits"], said["misfits"]);
    let text = found(&desk, "array scrub --repair a b c d");
    for words in [
        "2 blocks did not fit: 1 mended,",
        "member 1 was wrong in 1 block, computed from the others and written to it",
        "of 1 block it cannot be told which member is wrong",
        "  bytes 2097152 to 2228224 of the array: not told which\n",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let text = found(&desk, "array scrub a b c d");
    assert!(text.contains("1 blocks did not fit") && !text.contains("member 1"), "{text}");
}

#[test]
fn a_scrub_of_a_level_that_cannot_tell_says_so_and_where() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --size 16MiB a b c");
    flip(&desk, "b", 700);
    let text = found(&desk, "array scrub a b c");
    assert!(text.contains("of 1 block it cannot be told at this level which member is wrong"), "{text}");
    assert!(text.contains("  bytes 0 to 131072 of the array: not told which\n"), "{text}");
    let text = done(&desk, "array scrub --repair a b c");
    assert!(text.contains("1 made to fit by believing the data") && !text.contains("cannot be told"), "{text}");
}

#[test]
fn a_scrub_that_makes_the_array_fit_first_says_so() {
    let desk = Desk::new("");
    ["a", "b"].iter().for_each(|name| drop(desk.file(name, 16 << 20)));
    flip(&desk, "a", 700);
    let create = "array create --level 1 --destroy-data --rate 100kB/s a b";
    let create = desk.start(&create.split(' ').collect::<Vec<_>>());
    common::wait_for("the array is made", || say(&desk, "array status a b").stdout.contains("dirty"));
    common::signal(&create, "INT");
    common::of(create.wait_with_output().unwrap());
    flip(&desk, "a", 10 << 20);
    let said = done(&desk, "array scrub a b");
    assert!(said.contains("made to fit first (resync), for which "), "{said}");
    assert!(said.contains("0 units could not be read, 0 ranges"), "{said}");
    assert!(done(&desk, "array scrub a b").starts_with("0 blocks did not fit"));
}

#[test]
fn a_scrub_that_was_ended_says_where_and_goes_on_there() {
    for served in [false, true] {
        let desk = Desk::new("");
        done(&desk, "array create --level 6 --size 16MiB a b c d");
        // One behind the place where it is ended, one before.
        flip(&desk, "b", 700);
        flip(&desk, "c", 13 << 20);
        let server = if served { Server::start(&desk, "a b c d") } else { None };
        if served && server.is_none() {
            return;
        }
        let mut scrub = arraylab(&desk, "array scrub --rate 2MB/s a b c d");
        let scrub = scrub.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_secs(2));
        common::signal(&scrub, "INT");
        let said = common::of(scrub.wait_with_output().unwrap());
        assert_eq!(said.code, 3, "{}{}", said.stdout, said.stderr);
        assert!(!said.stderr.contains("the members say"), "{}", said.stderr);
        assert!(said.stdout.contains("member 1 is wrong in 1 block"), "what was found until then: {}", said.stdout);
        let (_, next) = said.stdout.split_once("`--from ").unwrap_or_else(|| panic!("{}", said.stdout));
        let from = next.split('`').next().unwrap();
        let rest = found(&desk, &format!("array scrub --json --from {from} a b c d"));
        let rest: serde_json::Value = serde_json::from_str(&rest).unwrap();
        assert_eq!((&rest["located"], &rest["interrupted"]), (&json!([0, 0, 1, 0]), &json!(false)), "{rest}");
        // Somewhere within a stripe: all of that.
        let text = found(&desk, "array scrub --from 1000B a b c d");
        assert!(text.contains("2 blocks did not fit") && text.contains("from 1000 B of the array on"), "{text}");
        let behind = say(&desk, "array scrub --from 1GiB a b c d");
        assert!(behind.code == 2 && behind.stderr.contains("the array ends at 28 MiB"), "{}", behind.stderr);
        if let Some(server) = server {
            assert_eq!(server.stop().0.code, 0);
        }
    }
}
