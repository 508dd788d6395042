//! What the commands on arrays say, to programs and to people.

mod common;
#[path = "common/served.rs"]
mod served;

use common::Desk;
use serde_json::{Value, json};
use served::{Server, done, say};

/// Refused as bad input, with these words.
fn refused(desk: &Desk, words: &str, why: &str) {
    let said = say(desk, words);
    assert!(said.code == 2 && said.stderr.contains(why), "{words}: {}: {}{}", said.code, said.stdout, said.stderr);
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn sizes_are_numbers_of_bytes_and_members_numbers_wherever_an_array_is_told_to_a_program() {
    let desk = Desk::new("");
    let made = document(&done(&desk, "array create --json --level 6 --spare s --size 8MiB a b c d"));
    assert_eq!((&made["size_bytes"], &made["stripe_unit_bytes"]), (&json!(12 << 20), &json!(64 << 10)), "{made}");
    assert_eq!((&made["not_whole"], &made["survives"], &made["needed"]), (&json!([]), &json!(2), &json!([])));
    // What remains is said alike by all: one, and then none.
    for (member, not_whole, left) in [("b", json!([1]), 1), ("d", json!([1, 3]), 0)] {
        let failed = document(&done(&desk, &format!("array fail --json --member {member} a b c d")));
        let status = document(&done(&desk, "array status --json a b c d"));
        for said in [&failed, &status] {
            assert_eq!((&said["not_whole"], &said["survives"]), (&not_whole, &json!(left)), "{said}");
        }
    }
    assert!(done(&desk, "array status a c").contains("  outlook       the array survives no further loss\n"));
    let broken = document(&done(&desk, "array status --json a"));
    assert_eq!(
        (&broken["not_whole"], &broken["survives"], &broken["broken"]),
        (&json!([1, 2, 3]), &json!(0), &json!(true))
    );
    let Some(server) = Server::start(&desk, "a c --rate 100kB/s") else { return };
    let said = &server.said;
    assert_eq!(
        (&said["not_whole"], &said["survives"], &said["spares"]),
        (&json!([1, 3]), &json!(0), &json!([])),
        "{said}"
    );
    assert_eq!(server.stop().0.code, 0);
    let Some(server) = Server::start(&desk, "a c s --rate 100kB/s") else { return };
    common::wait_for("the spare is filled", || {
        let status = document(&done(&desk, "array status --json a"));
        let upkeep = &status["served"]["upkeep"];
        let text = done(&desk, "array status a");
        let under_way =
            text.contains("2 of 4 members not whole; member 1 is being rebuilt, ") && text.contains(" of 6 MiB\n");
        under_way
            && upkeep["of_bytes"].as_u64() == Some(6 << 20)
            && upkeep["done_bytes"].is_u64()
            && status["members"][1]["state"] == "rebuilding"
    });
    let (_, events) = server.stop();
    assert_eq!(events[0]["event"], "rebuild-began", "{events:?}");
    let status = document(&done(&desk, "array status --json a c s"));
    assert!(status["members"][1]["rebuilt_bytes"].is_u64(), "{status}");
    let text = done(&desk, "array status a c s");
    assert!(text.contains("not whole; `arraylab array rebuild` goes on with member 1, of which "), "{text}");
}

#[test]
fn what_is_not_there_is_null_and_not_left_out() {
    let desk = Desk::new("");
    let made = document(&done(&desk, "array create --json --level 1 --size 8MiB a b"));
    let status = document(&done(&desk, "array status --json a b"));
    let failed = document(&done(&desk, "array fail --json --member b a b"));
    let added = document(&done(&desk, "array add --json --device b a"));
    let is_null = |said: &Value, field: &str| assert_eq!(said.get(field), Some(&Value::Null), "{field}: {said}");
    for said in [&made, &status] {
        is_null(said, "split");
        is_null(said, "served");
        is_null(&said["members"][0], "reason");
    }
    for said in [&failed, &added] {
        is_null(said, "called_off");
    }
    let Some(server) = Server::start(&desk, "a b") else { return };
    let served = document(&done(&desk, "array status --json a"))["served"].take();
    is_null(&served, "rival");
    is_null(&served["members"][0], "reconnections");
    is_null(&served["members"][0], "failure");
    assert_eq!(server.stop().0.code, 0);
}

#[test]
fn a_superblock_is_told_to_programs_by_fields_with_their_units() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --integrity --spare s --size 8MiB a b c");
    let examined = document(&done(&desk, "array examine --json b s"));
    let (member, spare) = (&examined[0], &examined[1]);
    let expected = "array checksums clean consistency created_seconds data_bytes data_offset_bytes device device_bytes device_number \
                    events failfast fits_up_to_bytes level member members name path places rebuilt_bytes role stripe_unit_bytes used_bytes \
                    write_mostly";
    let mut found = keys(member);
    found.sort_unstable();
    assert_eq!(found, expected.split_whitespace().collect::<Vec<_>>());
    assert!(member["created_seconds"].as_u64() > Some(1_700_000_000), "{member}");
    assert_eq!((&member["data_offset_bytes"], &member["device_bytes"]), (&json!(2 << 20), &json!(8 << 20)));
    assert_eq!((&member["role"], &member["member"], &spare["role"]), (&json!("member"), &json!(1), &json!("spare")));
    assert_eq!(member["checksums"]["corrupt"], 0, "{member}");
    assert_eq!(member["places"], json!(["active", "active", "active"]));
}

#[test]
fn who_is_missing_of_an_array_without_redundancy_is_said_by_its_status() {
    for level in ["0", "linear"] {
        let desk = Desk::new("");
        done(&desk, &format!("array create --level {level} --size 8MiB a b c"));
        let text = done(&desk, "array status a c");
        assert!(
            text.contains("broken: member 1 is missing, and there is no redundancy")
                && text.contains(" of unknown size, "),
            "{text}"
        );
        assert!(
            text.contains("member 1      missing     -\n") && text.contains("member 2      active      c\n"),
            "{text}"
        );
        let status = document(&done(&desk, "array status --json a c"));
        assert_eq!(
            (&status["broken"], &status["not_whole"], &status["size_bytes"]),
            (&json!(true), &json!([1]), &json!(null))
        );
        // The server knows those that are not named.
        let Some(server) = Server::start(&desk, "a b c") else { continue };
        let status = document(&done(&desk, "array status --json a"));
        assert_eq!((&status["broken"], &status["size_bytes"]), (&json!(false), &json!(21 << 20)), "{status}");
        assert_eq!(server.stop().0.code, 0);
    }
}

#[test]
fn a_new_array_without_redundancy_takes_no_spare_and_nothing_is_made() {
    let desk = Desk::new("");
    for (level, name) in [("0", "level 0, original"), ("linear", "linear")] {
        let why = format!("{name} has no redundancy from which a spare could be filled, so it takes none");
        refused(&desk, &format!("array create --level {level} --spare s --size 8MiB a b"), &why);
        assert!(["a", "b", "s"].iter().all(|name| !desk.path().join(name).exists()));
    }
}

#[test]
fn a_scrub_where_there_is_nothing_to_compare_is_refused() {
    let desk = Desk::new("");
    for (level, members) in [("0", "a b"), ("linear", "c d")] {
        done(&desk, &format!("array create --level {level} --size 8MiB {members}"));
        refused(&desk, &format!("array scrub {members}"), "so there is nothing to compare it with");
    }
    done(&desk, "array create --level 0 --integrity --size 8MiB e f");
    done(&desk, "array scrub e f");
    let Some(server) = Server::start(&desk, "a b") else { return };
    refused(&desk, "array scrub a b", "so there is nothing to compare it with");
    assert_eq!(server.stop().0.code, 0);
}

/// Writes from one end to the other, again and again, and asks for the end of none.
fn load(desk: &Desk, server: &Server) -> Option<common::Running> {
    let words = ["bench", "-f", "raw", "-w", "-c", "1000000", "-d", "8", "-s", "4096", "-n", &server.uri()];
    let load = std::process::Command::new("qemu-img")
        .args(words)
        .stdout(std::process::Stdio::null())
        .current_dir(desk.path())
        .spawn();
    if load.is_err() {
        common::skip("there is no qemu-img; apt-get install qemu-utils");
    }
    load.ok().map(common::Running::of)
}

#[test]
fn an_array_that_is_served_is_said_to_be_written_and_one_that_was_killed_says_by_what_it_opens() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --consistency resync --size 8MiB a b c");
    let Some(mut server) = Server::start(&desk, "a b c") else { return };
    let Some(mut load) = load(&desk, &server) else { return };
    common::wait_for("it is written", || document(&done(&desk, "array status --json a b c"))["clean"] == false);
    let failed = done(&desk, "array fail --member b a b c");
    assert!(failed.ends_with("\nbeing written, member 1 not whole\n"), "{failed}");
    let text = done(&desk, "array status a b c");
    assert!(text.contains("being written, 1 of 3 members not whole; `arraylab array rebuild` makes"), "{text}");
    let added = done(&desk, "array add --device d --size 8MiB a b c");
    assert!(added.ends_with("\nbeing written\n"), "{added}");
    _ = server.child.kill();
    _ = server.child.wait();
    _ = load.kill();
    _ = load.wait();
    common::wait_for("the locks are gone", || {
        done(&desk, "array status a c d").contains("dirty: redundancy may not fit")
    });
    let text = done(&desk, "array status a c");
    assert!(
        text.contains("dirty, 1 of 3 members not whole; parity may not fit")
            && text.contains("rebuild --force` accepts"),
        "{text}"
    );
    common::wait_for("the kernel has let go of it", || !say(&desk, "array stop a c").stderr.contains("locked"));
    refused(&desk, "array rebuild --onto e --size 8MiB a c", "`arraylab array rebuild --force`");
    done(&desk, "array rebuild --force --onto e --size 8MiB a c");
    let text = done(&desk, "array status a c e");
    assert!(text.contains("  state         clean\n"), "{text}");
}

/// A file system of 24 MiB, with what is in it; taken away at the end.
struct Small(std::path::PathBuf);

impl Small {
    fn at(folder: std::path::PathBuf) -> Option<Small> {
        std::fs::create_dir(&folder).unwrap();
        let words = ["-t", "tmpfs", "-o", "size=24m", "small"];
        let mounted = std::process::Command::new("mount").args(words).arg(&folder).output();
        if !mounted.is_ok_and(|mounted| mounted.status.success()) {
            common::skip("a small file system is mounted by root only: mount -t tmpfs -o size=24m");
            return None;
        }
        Some(Small(folder))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_file_that_joins_an_array_has_all_its_room_or_is_not_made() {
    use std::os::unix::fs::MetadataExt;
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --size 40MiB a b c");
    done(&desk, "array fail --member b a b c");
    let has_room = |name: &str| desk.path().join(name).metadata().unwrap().blocks() * 512 >= 40 << 20;
    let Some(small) = Small::at(desk.path().join("full")) else { return };
    let no_space = |words: &str| {
        let said = say(&desk, words);
        let why = "full/d: no space for 40 MiB there; make room, or ask for less";
        assert!(said.code == 3 && said.stderr.contains(why), "{words}: {}: {}{}", said.code, said.stdout, said.stderr);
        assert!(!small.0.join("d").exists(), "{words}");
    };
    no_space("array create --level 1 --size 40MiB full/d full/e");
    no_space("array rebuild --onto full/d --size 40MiB a c");
    done(&desk, "array rebuild --onto d --size 40MiB a c");
    no_space("array replace --member a --onto full/d --size 40MiB a c d");
    no_space("array add --device full/d --size 40MiB a c d");
    done(&desk, "array add --device e --size 40MiB a c d");
    assert!(has_room("d") && has_room("e"));
    let Some(server) = Server::start(&desk, "a c d e") else { return };
    no_space("array add --device full/d --size 40MiB a");
    done(&desk, "array replace --member a --onto f --size 40MiB c");
    assert!(has_room("f"));
    assert_eq!(server.stop().0.code, 0);
}

#[test]
fn what_is_too_small_for_a_superblock_is_no_member() {
    let desk = Desk::new("");
    done(&desk, "array create --level 1 --size 8MiB a b");
    desk.file("tiny", 4096);
    let why = "tiny: it holds 4 KiB, and no superblock of Linux md 1.2";
    refused(&desk, "array examine tiny", why);
    refused(&desk, "array status tiny", why);
    let text = done(&desk, "array status a b tiny");
    assert!(text.contains("left out    tiny: it holds 4 KiB, which is too small"), "{text}");
}

#[test]
fn a_size_is_printed_alike_by_status_and_by_serve_and_by_what_grew_it() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --size 8MiB --stripe-unit 4KiB a b c");
    for name in ["a", "b", "c"] {
        std::fs::File::options().write(true).open(desk.path().join(name)).unwrap().set_len(98_316 << 10).unwrap();
    }
    let grown = done(&desk, "array grow a b c");
    assert_eq!(grown, "the array stores 188 MiB\nclean\n");
    let status = done(&desk, "array status a b c");
    assert!(status.starts_with("level 5, left-symmetric 188 MiB, \""), "{status}");
    assert_eq!(document(&done(&desk, "array status --json a b c"))["size_bytes"], 192_536 << 10);
    for name in ["a", "b", "c"] {
        std::fs::File::options().write(true).open(desk.path().join(name)).unwrap().set_len(128 << 20).unwrap();
    }
    assert_eq!(document(&done(&desk, "array grow --json a b c"))["size_bytes"], 252 << 20);
}

#[test]
fn a_file_that_cannot_be_made_is_refused_with_what_can_be() {
    let desk = Desk::new("");
    done(&desk, "array create --level 1 --size 8MiB a b");
    let with = |size: &str, name: &str| {
        let create = format!("array create --level 1 --size {size} {name} y");
        let onto = ["add", "replace --member a", "rebuild"]
            .iter()
            .zip(["--device", "--onto", "--onto"])
            .map(|(command, option)| format!("array {command} {option} {name} --size {size} a b"));
        onto.chain([create]).collect::<Vec<_>>()
    };
    for (size, name, why) in [
        ("0B", "x", "x: a file of 0 B holds nothing; ask for more"),
        ("10000PB", "x", "ask for less, or name a path on another one"),
        (
            "8MiB",
            "no/x",
            "no/x: there is no folder no to make the file in; make that first (mkdir -p no), or name another path",
        ),
        ("8MiB", "a/x", "a/x: there is no folder a to make the file in"),
    ] {
        for words in with(size, name) {
            refused(&desk, &words, why);
        }
    }
    assert!(!desk.path().join("x").exists() && !desk.path().join("y").exists());
    let Some(server) = Server::start(&desk, "a b") else { return };
    refused(&desk, "array add --device x --size 0B a", "x: a file of 0 B holds nothing");
    refused(&desk, "array add --device no/x --size 8MiB a", "there is no folder ");
    assert_eq!(server.stop().0.code, 0);
}

#[test]
fn who_is_too_small_for_a_new_array_is_named() {
    let desk = Desk::new("");
    desk.file("less", 1 << 20);
    refused(
        &desk,
        "array create --level 1 --size 8MiB --destroy-data a less",
        "less holds 1 MiB; a member needs 1 MiB for metadata",
    );
    refused(
        &desk,
        "array create --level 10 --layout f2 --size 1088KiB d e",
        "d holds 1088 KiB; a member needs 1 MiB for metadata (2 MiB with a partial parity log) and a chunk of data or more \
         (one for each far or offset copy)",
    );
    refused(
        &desk,
        "array create --level 5 --size 8MiB --destroy-data --journal less a b c",
        "less holds 1 MiB; a member",
    );
    assert!(!desk.path().join("a").exists());
}

#[test]
fn level_3_has_the_smallest_chunk_and_it_is_said_that_md_calls_it_level_4() {
    let desk = Desk::new("");
    let made = say(&desk, "array create --level 3 --size 8MiB --json a b c");
    assert_eq!((made.code, &made.json()["stripe_unit_bytes"]), (0, &json!(4096)), "{}", made.stderr);
    assert!(made.stderr.contains("Linux md has no level 3, and calls this one of level 4"), "{}", made.stderr);
    let other = document(&done(&desk, "array create --level 4 --size 8MiB --json d e f"));
    assert_eq!(other["stripe_unit_bytes"], 65536);
    let wider = document(&done(&desk, "array create --level 3 --stripe-unit 64KiB --size 8MiB --json g h i"));
    assert_eq!(wider["stripe_unit_bytes"], 65536);
}

#[test]
fn a_scrub_that_was_ended_is_said_to_have_ended_and_where() {
    let desk = Desk::new("");
    done(&desk, "array create --level 1 --size 16MiB a b");
    let Some(server) = Server::start(&desk, "a b") else { return };
    let scrub = || {
        let mut scrub = served::arraylab(&desk, "array scrub --rate 1MB/s a b");
        let scrub = common::Running::of(
            scrub.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap(),
        );
        let status = || document(&done(&desk, "array status --json a b"));
        common::wait_for("it is under way", || status()["served"]["upkeep"]["done_bytes"].as_u64() > Some(0));
        scrub
    };
    let first = scrub();
    common::signal(&first, "INT");
    assert_eq!(common::of(first.wait_with_output().unwrap()).code, 3);
    let status = || document(&done(&desk, "array status --json a b"));
    common::wait_for("it has ended", || status()["served"]["upkeep"].is_null());
    let mut second = scrub();
    let (_, events) = server.stop();
    _ = second.wait();
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["scrub-began", "scrub-ended", "scrub-began", "scrub-ended"], "{events:?}");
    for ended in [&events[1], &events[3]] {
        let upto = ended["upto_bytes"].as_u64().unwrap();
        assert!(upto > 0 && upto < 15 << 20 && ended["mismatches"] == 0, "{ended}");
    }
}

#[test]
fn a_storm_that_is_ended_says_that_nothing_is_kept_and_prints_what_it_found() {
    let desk = Desk::new("");
    let storm = desk.start(&["storm", "--seeds", "0..1000000000"]);
    std::thread::sleep(std::time::Duration::from_secs(2));
    common::signal(&storm, "INT");
    let said = common::of(storm.wait_with_output().unwrap());
    assert_eq!(said.code, 3, "{}{}", said.stdout, said.stderr);
    assert!(said.stderr.contains("what was found until now is printed, and nothing is kept"), "{}", said.stderr);
    assert!(said.stdout.contains("no promise was broken"), "{}", said.stdout);
}
