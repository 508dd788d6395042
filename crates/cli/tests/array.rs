//! `arraylab array` and `arraylab storm`, as their user types them.

mod common;

use common::Desk;
use serde_json::json;

const EACH: [(&str, &str); 10] = [
    ("linear", "a b"),
    ("0", "a b c"),
    ("1", "a b"),
    ("3", "a b c"),
    ("4", "a b c"),
    ("5", "a b c d"),
    ("6", "a b c d e"),
    ("10 --layout n2", "a b c d"),
    ("10 --layout f2", "a b c"),
    ("10 --layout o2", "a b c d"),
];

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Types a command; gives its exit code and what it printed.
fn say(desk: &Desk, text: &str) -> common::Said {
    let words = words(text);
    desk.arraylab(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn an_array_of_each_level_is_made_and_described() {
    for (level, members) in EACH {
        let desk = Desk::new("");
        let made = say(&desk, &format!("array create --level {level} --size 8MiB --json {members}"));
        assert_eq!(made.code, 0, "{level}: {}", made.stderr);
        let status = say(&desk, &format!("array status --json {members}")).json();
        assert_eq!(status, made.json(), "{level}");
        assert_eq!((&status["clean"], &status["not_whole"]), (&json!(true), &json!([])), "{level}");
        let examined = say(&desk, &format!("array examine {members}"));
        assert_eq!(examined.stdout.matches("  state ").count(), members.split(' ').count(), "{}", examined.stdout);
    }
}

#[test]
fn a_member_that_gives_wrong_bytes_is_named_and_healed_by_its_checksums() {
    for level in ["1", "4", "5"] {
        let desk = Desk::new("");
        let made = say(&desk, &format!("array create --level {level} --integrity --size 8MiB --json a b c"));
        assert_eq!(made.code, 0, "{}", made.stderr);
        assert_eq!(made.json()["members"][1]["corrupt"], 0);
        let (file, at) = (desk.path().join("b"), if level == "1" { 1 << 20 } else { 2 << 20 });
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[at + 5000] ^= 4;
        std::fs::write(&file, bytes).unwrap();
        // The sums of new members are not known before they have been read once.
        let first = say(&desk, "array scrub --json a b c").json();
        assert_eq!((&first["corrupt"], &first["mismatches"]), (&json!([0, 0, 0]), &json!(1)), "level {level}");
        assert_eq!(say(&desk, "array scrub --repair a b c").code, 0);
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[at + 9000] ^= 4;
        std::fs::write(&file, bytes).unwrap();
        let second = say(&desk, "array scrub --json a b c").json();
        assert_eq!((&second["corrupt"], &second["mismatches"]), (&json!([0, 1, 0]), &json!(0)), "level {level}");
        let status = say(&desk, "array status a b c").stdout;
        assert!(status.contains("b, 1 blocks did not fit"), "{status}");
        assert!(say(&desk, "array examine b").stdout.contains("1 blocks did not fit so far"));
    }
}

#[test]
fn members_with_checksums_are_replaced_while_they_serve_and_grow() {
    let desk = Desk::new("");
    let done = |text: &str| {
        let said = say(&desk, text);
        assert_eq!(said.code, 0, "{text}: {}{}", said.stdout, said.stderr);
        said.stdout
    };
    let rot = |name: &str, at: usize| {
        let file = desk.path().join(name);
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[at] ^= 4;
        std::fs::write(&file, bytes).unwrap();
    };
    let corrupt = |members: &str| say(&desk, &format!("array scrub --json {members}")).json()["corrupt"].clone();
    done("array create --level 5 --stripe-unit 16KiB --integrity --size 8MiB a b c");
    assert_eq!(corrupt("a b c"), json!([0, 0, 0]));
    rot("b", (2 << 20) + 5000);
    let small = say(&desk, "array replace --member b --onto x --size 6MiB a b c");
    assert!(small.code == 2 && small.stderr.contains("a member of this array needs"), "{}", small.stderr);
    assert_eq!(done("array replace --member b --onto d --size 8MiB a b c"), "member 1 is replaced\n");
    // What was rotten was not copied, and the new one has sums of its own.
    assert_eq!(corrupt("a c d"), json!([0, 0, 0]));
    rot("d", (2 << 20) + 9000);
    assert_eq!(corrupt("a c d"), json!([0, 1, 0]));
    let longer = |length: u64| {
        for name in ["a", "c", "d"] {
            std::fs::OpenOptions::new().write(true).open(desk.path().join(name)).unwrap().set_len(length).unwrap();
        }
    };
    // Their checksums take 56 KiB, and would have to move there.
    longer((8 << 20) + (16 << 10));
    let refused = say(&desk, "array grow a c d");
    let next = "make the members larger by at least";
    assert!(refused.code == 2 && refused.stderr.contains(next), "{}", refused.stderr);
    let size = || say(&desk, "array status --json a c d").json()["size_bytes"].clone();
    let before = size();
    longer(12 << 20);
    assert_eq!(done("array grow a c d"), "the array stores 19.8 MiB\nclean\n");
    rot("a", (2 << 20) + 20_000);
    assert_eq!(corrupt("a c d"), json!([1, 0, 0]));
    assert_ne!(size(), before);
}

#[test]
fn a_scrub_of_the_only_copy_compares_nothing_and_says_so() {
    let desk = Desk::new("");
    assert_eq!(say(&desk, "array create --level 10 --size 8MiB a b c d").code, 0);
    assert_eq!(say(&desk, "array scrub a b c d").code, 0);
    assert_eq!(say(&desk, "array fail --member b a b c d").code, 0);
    let said = say(&desk, "array scrub a c d");
    assert!(said.code == 1 && said.stdout.contains("112 units have one copy left"), "{}", said.stdout);
}

#[test]
fn a_member_fails_is_replaced_and_everything_fits() {
    let desk = Desk::new("");
    let code = |text: &str| {
        let said = say(&desk, text);
        println!("{text}\n{}{}", said.stdout, said.stderr);
        said.code
    };
    assert_eq!(code("array create --level 5 --stripe-unit 64KiB --layout left-symmetric --size 8MiB a b c d"), 0);
    assert_eq!(code("array fail --member b a b c d"), 0);
    assert_eq!(say(&desk, "array status --json a b c d").json()["members"][1]["state"], "missing");
    assert_eq!(code("array fail --member c a c d"), 2, "a second one cannot be spared");
    assert_eq!(code("array rebuild a c d"), 2, "there is nothing to rebuild onto");
    assert_eq!(code("array rebuild --onto e --size 8MiB a c d"), 0);
    assert_eq!(say(&desk, "array status --json a c d e").json()["not_whole"], json!([]));
    assert_eq!(code("array scrub a c d e"), 0);
    // A byte of the data area turns.
    let path = desk.path().join("c");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[5 << 20] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(code("array scrub a c d e"), 1);
    assert_eq!(code("array scrub --repair a c d e"), 0);
    assert_eq!(code("array scrub a c d e"), 0);
    assert_eq!(code("array replace --member a --onto f --size 8MiB a c d e"), 0);
    assert_eq!(code("array stop f c d e"), 0);
}

#[test]
fn spares_journals_replacements_and_growth() {
    let desk = Desk::new("");
    let done = |text: &str| {
        let said = say(&desk, text);
        assert_eq!(said.code, 0, "{text}: {}{}", said.stdout, said.stderr);
        said.stdout
    };
    let made = done("array create --level 6 --journal j --spare s --size 8MiB a b c d");
    assert!(made.contains("consistency   journal") && made.contains("spare       s"), "{made}");
    assert!(made.contains("journal     j"), "{made}");
    done("array fail --member b a b c d j s");
    let rebuilt = done("array rebuild a c d j s");
    assert!(rebuilt.contains("member 1 is whole again"), "{rebuilt}");
    assert_eq!(say(&desk, "array rebuild a s c d j").code, 2, "nothing is missing");
    let added = done("array add --device t --size 8MiB a s c d j");
    assert!(added.contains("t is a spare"), "{added}");
    done("array replace --member a --onto u --size 8MiB a s c d j t");
    let status = say(&desk, "array status --json u s c d j t").json();
    assert_eq!((&status["not_whole"], &status["clean"]), (&json!([]), &json!(true)), "{status}");
    let grown = say(&desk, "array grow u s c d j");
    assert!(
        grown.code == 2 && grown.stderr.contains("an array with a journal does not grow, neither here nor in md"),
        "{}",
        grown.stderr
    );
    assert_eq!(say(&desk, "array replace u s c d j").code, 2, "there is nothing to go on with");
    done("array create --level 5 --size 8MiB e f g");
    let before = done("array status --json e f g");
    let full = say(&desk, "array grow e f g");
    assert!(full.code == 2 && full.stderr.contains("replace members by larger ones"), "{}", full.stderr);
    for name in ["e", "f", "g"] {
        std::fs::File::options().write(true).open(desk.path().join(name)).unwrap().set_len(24 << 20).unwrap();
    }
    assert_eq!(done("array grow e f g"), "the array stores 44 MiB\nclean\n");
    let after = done("array status --json e f g");
    let size = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap()["size_bytes"].as_u64().unwrap();
    assert_eq!((size(&before), size(&after)), (12 << 20, 44 << 20));
    done("array scrub e f g");
}

#[test]
fn what_carries_data_is_not_written_without_a_word() {
    let desk = Desk::new("");
    desk.write("full", &"x".repeat(9 << 20));
    let refused = say(&desk, "array create --level 1 --size 8MiB a full");
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("--destroy-data"), "{}", refused.stderr);
    assert!(!desk.path().join("a").exists(), "nothing is made before everything is permitted");
    assert_eq!(say(&desk, "array create --level 1 a b").code, 2, "a missing file needs a size");
    let not_a_member = say(&desk, "array stop full");
    assert_eq!(not_a_member.code, 2);
    assert!(not_a_member.stderr.contains("no md superblock"), "{}", not_a_member.stderr);
}

#[test]
fn a_device_has_one_place_in_a_new_array() {
    let desk = Desk::new("");
    desk.file("there", 8 << 20);
    std::os::unix::fs::symlink("there", desk.path().join("link")).unwrap();
    std::fs::hard_link(desk.path().join("there"), desk.path().join("hard")).unwrap();
    std::fs::create_dir(desk.path().join("folder")).unwrap();
    for (words, next) in [
        ("--level 5 m m n", "m is named twice as a member; name each device once"),
        ("--level 5 m ./m n", "m and ./m are the same, and cannot both be members"),
        ("--level 5 m folder/../m n", "m and folder/../m are the same"),
        ("--level 1 --spare m m n", "m is named as a member and as a spare"),
        ("--level 5 --journal m m n o", "m is named as a member and as a journal"),
        ("--level 5 --journal j --spare j m n o", "j is named as a journal and as a spare"),
        ("--level 1 --spare s --spare s m n", "s is named twice as a spare"),
        ("--level 1 --destroy-data there there n", "there is named twice as a member"),
        ("--level 1 --destroy-data there link", "there and link are the same"),
        ("--level 1 --destroy-data there hard", "there and hard are the same"),
        (
            "--level 1 --destroy-data --spare link there n",
            "there and link are the same, named as a member and as a spare",
        ),
    ] {
        let refused = say(&desk, &format!("array create --size 8MiB {words}"));
        assert!(refused.code == 2 && refused.stderr.contains(next), "{words}: {}", refused.stderr);
        for made in ["m", "n", "o", "j", "s"] {
            assert!(!desk.path().join(made).exists(), "{words}: nothing is made");
        }
    }
    assert!(std::fs::read(desk.path().join("there")).unwrap().iter().all(|byte| *byte == 0x5a));
    // What carries something is named twice, and is one member: here those of an array that was.
    assert_eq!(say(&desk, "array create --level 1 --size 8MiB m n").code, 0);
    assert_eq!(say(&desk, "array create --level 1 --destroy-data m n").code, 2);
    let again = say(&desk, "array create --level 1 --destroy-data m m n n --json");
    assert_eq!(again.json()["members"].as_array().map(Vec::len), Some(2), "{}", again.stderr);
}

#[test]
fn what_carries_data_joins_an_array_only_if_it_is_named_twice() {
    let desk = Desk::new("");
    let done = |text: &str| {
        let said = say(&desk, text);
        assert_eq!(said.code, 0, "{text}: {}{}", said.stdout, said.stderr);
        said.stdout
    };
    let refused = |text: &str, why: &str| {
        let said = say(&desk, text);
        assert!(said.code == 2 && said.stderr.contains(why), "{text}: {}{}", said.stdout, said.stderr);
    };
    for other in ["x", "y", "z"] {
        done(&format!("array create --level 1 --size 8MiB {other} {other}2"));
    }
    done("array create --level 5 --size 8MiB a b c");
    done("array fail --member b a b c");
    for (words, option, rest) in [
        ("array rebuild", "--onto x", "a c"),
        ("array replace --member a", "--onto y", "a x c"),
        ("array add", "--device z", "y x c"),
    ] {
        refused(&format!("{words} {option} {option} {rest}"), "add --destroy-data");
        refused(&format!("{words} {option} --destroy-data {rest}"), "name it a second time");
        let other = option.replace(' ', " ./");
        refused(&format!("{words} {option} {other} --destroy-data {rest}"), "spelled differently");
        let another = option.split(' ').next().unwrap();
        refused(&format!("{words} {option} {another} x2 --destroy-data {rest}"), "which are two: name one");
        done(&format!("{words} {option} {option} --destroy-data {rest}"));
    }
    let status = say(&desk, "array status --json y x c z").json();
    assert_eq!((&status["not_whole"], &status["clean"]), (&json!([]), &json!(true)), "{status}");
}

/// To fill it anew would take what redundancy there is, and what another member cannot read with it.
#[test]
fn a_member_that_has_missed_nothing_is_not_added() {
    let desk = Desk::new("");
    let code = |words: &str| say(&desk, words).code;
    assert_eq!(code("array create --level 5 --size 8MiB a b c"), 0);
    for words in ["array add --device a b c", "array add --device a a b c"] {
        let before = std::fs::read(desk.path().join("a")).unwrap();
        let refused = say(&desk, words);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains("has missed nothing: name it among the members"), "{}", refused.stderr);
        assert!(std::fs::read(desk.path().join("a")).unwrap() == before, "{words}");
    }
    assert_eq!(code("array fail --member a a b c"), 0);
    assert_eq!(code("array add --device a b c"), 0);
    let status = say(&desk, "array status --json a b c").json();
    assert_eq!((&status["clean"], &status["not_whole"]), (&json!(true), &json!([])), "{status}");
}

#[test]
fn what_cannot_be_done_to_an_array_is_refused_with_the_next_step_and_leaves_no_file() {
    let desk = Desk::new("");
    let done = |text: &str| assert_eq!(say(&desk, text).code, 0, "{text}");
    done("array create --level 5 --size 8MiB a b c");
    done("array create --level 0 --size 8MiB l m");
    let refused = |text: &str, why: &str| {
        let said = say(&desk, text);
        assert!(said.code == 2 && said.stderr.contains(why), "{text}: {}{}", said.stdout, said.stderr);
        for made in ["n", "o"] {
            assert!(!desk.path().join(made).exists(), "{text}: {made} is left behind");
        }
    };
    refused("array rebuild --onto n --size 8MiB a b c", "no member is missing");
    refused("array replace --member x --onto n --size 8MiB a b c", "x is not a member in use");
    refused("array replace --member a --onto n --size 1MiB a b c", "a member of this array needs");
    refused("array replace --member a --onto b a b c", "b is named as a member, too");
    refused("array add --device n --size 1MiB a b c", "a member of this array needs");
    refused("array add --device n --size 8MiB l m", "level 0, original has no redundancy");
    refused("array status a a", "a is named twice; name each member once");
    refused("array stop a ./a b c", "a and ./a are the same");
    refused("array serve --nbd unix:s.sock --time-limit 0s a b c", "--time-limit 0 s: every member would");
    refused("array create --level 1 --size 8MiB n", "level 1 needs 2 members or more");
    refused(&format!("array create --level 1 --name {} --size 8MiB n o", "x".repeat(33)), "md has room for 32");
    done(&format!("array create --level 1 --name {} --size 8MiB p q", "x".repeat(32)));
    done("array fail --member b a b c");
    refused("array scrub a c", "member 1 is not whole; `arraylab array rebuild`");
    refused("array rebuild --onto n --size 1MiB a c", "a member of this array needs");
}

/// An array that has grown, of which `signal` has met the resync. `None` if that came too late.
fn ended_growth(level: &str, by: &str) -> Desk {
    let desk = Desk::new("");
    assert_eq!(say(&desk, &format!("array create {level} --size 8MiB a b c d")).code, 0);
    for name in ["a", "b", "c", "d"] {
        std::fs::File::options().write(true).open(desk.path().join(name)).unwrap().set_len(64 << 20).unwrap();
    }
    let grow = desk.start(&["array", "grow", "--rate", "2MB/s", "a", "b", "c", "d"]);
    common::wait_for("the members say that they have grown", || {
        let status = say(&desk, "array status --json a b c d");
        status.code == 0 && status.json()["clean"] == json!(false)
    });
    common::signal(&grow, by);
    let output = grow.wait_with_output().unwrap();
    if by == "INT" {
        let said = common::of(output);
        assert_eq!(said.code, 3, "{}", said.stderr);
        assert!(said.stdout.contains("not finished; the same command goes on"), "{}", said.stdout);
        assert!(said.stderr.contains("the members say how far it is"), "{}", said.stderr);
    }
    desk
}

#[test]
fn a_growth_that_was_ended_goes_on() {
    for (level, by) in [("--level 5", "INT"), ("--level 6 --integrity", "KILL"), ("--level 1", "KILL")] {
        let desk = ended_growth(level, by);
        let again = say(&desk, "array grow a b c d");
        assert!(
            again.code == 0 && again.stdout.ends_with(" MiB\nclean\n"),
            "{level}: {}{}",
            again.stdout,
            again.stderr
        );
        assert_eq!(say(&desk, "array scrub a b c d").code, 0);
        let full = say(&desk, "array grow a b c d");
        assert!(full.code == 2 && full.stderr.contains("replace members by larger ones"), "{}", full.stderr);
    }
}

#[test]
fn what_ctrl_c_has_ended_is_not_said_to_be_done() {
    let desk = ended_growth("--level 5", "KILL");
    for words in ["array stop", "array fail --member b"] {
        let words = format!("{words} --rate 2MB/s a b c d");
        let words: Vec<&str> = words.split(' ').collect();
        let command = desk.start(&words);
        // Nothing tells that it is under way; sooner or later it is, and takes a minute and a half.
        std::thread::sleep(std::time::Duration::from_secs(2));
        common::signal(&command, "INT");
        let said = common::of(command.wait_with_output().unwrap());
        assert_eq!(said.code, 3, "{words:?}: {}{}", said.stdout, said.stderr);
    }
    let status = say(&desk, "array status --json a b c d").json();
    assert_eq!((&status["not_whole"], &status["clean"]), (&json!([]), &json!(false)), "{status}");
    assert_eq!(say(&desk, "array stop a b c d").code, 0);
}

#[test]
fn a_member_is_whole_though_another_is_still_being_replaced() {
    let desk = Desk::new("");
    assert_eq!(say(&desk, "array create --level 6 --size 32MiB a b c d").code, 0);
    let replace = desk
        .start(&"array replace --member a --onto e --size 32MiB --rate 2MB/s a b c d".split(' ').collect::<Vec<_>>());
    common::wait_for("the copy has begun", || {
        let status = say(&desk, "array status --json a b c d e");
        status.code == 0 && status.stdout.contains("replacing")
    });
    common::signal(&replace, "INT");
    assert_eq!(common::of(replace.wait_with_output().unwrap()).code, 3);
    let twice = say(&desk, "array replace --member b --onto f --size 32MiB a b c d e");
    assert!(twice.code == 2 && twice.stderr.contains("member 0 is being replaced already, by e"), "{}", twice.stderr);
    assert!(!desk.path().join("f").exists());
    assert_eq!(say(&desk, "array fail --member b a b c d e").code, 0);
    let rebuilt = say(&desk, "array rebuild --onto f --size 32MiB a c d e");
    assert_eq!((rebuilt.code, rebuilt.stdout.as_str()), (0, "member 1 is whole again\n"), "{}", rebuilt.stderr);
    assert_eq!(say(&desk, "array replace a f c d e").code, 0);
}

/// mdadm reads files, too.
#[test]
fn places_are_examined_as_mdadm_does() {
    let desk = Desk::new("");
    assert_eq!(say(&desk, "array create --level 6 --size 32MiB a b c d").code, 0);
    assert_eq!(say(&desk, "array fail --member c a b c d").code, 0);
    let words = "array replace --member a --onto e --size 32MiB --rate 2MB/s a b d";
    let replace = desk.start(&words.split(' ').collect::<Vec<_>>());
    common::wait_for("the copy has begun", || say(&desk, "array status a b d e").stdout.contains("replacing"));
    common::signal(&replace, "INT");
    assert_eq!(common::of(replace.wait_with_output().unwrap()).code, 3);
    let examined = |member: &str| say(&desk, &format!("array examine {member}")).stdout;
    let (text, new) = (examined("a"), examined("e"));
    assert!(text.contains("RA.A\n") && new.contains("RA.A\n"), "{text}{new}");
    assert!(text.contains(" member 0, device number 0") && new.contains(" replacement of member 0, "), "{text}{new}");
    let mut mdadm = std::process::Command::new("mdadm");
    match mdadm.arg("--examine").arg(desk.path().join("e")).output() {
        Err(_) => common::skip("there is no mdadm; apt-get install mdadm"),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(text.contains("Array State : RA.A") && text.contains("Replacement device 0"), "{text}");
        }
    }
}

#[test]
fn storms_are_counted_and_replayed() {
    let desk = Desk::new("");
    let report = say(&desk, "storm --seeds 0..40 --json");
    assert_eq!(report.code, 0, "{}", report.stderr);
    let report = report.json();
    assert_eq!((&report["seeds"], &report["violations"]), (&json!(40), &json!([])));
    assert!(report["power_cuts"].as_u64() >= Some(80) && report["faults"].as_u64() > Some(0), "{report}");
    assert_eq!(say(&desk, "storm --seeds 7..8").stdout, say(&desk, "storm --seeds 7..8").stdout);
    assert_eq!(say(&desk, "storm --seeds 8..8").code, 2);
    assert_eq!(say(&desk, "storm --level 0").code, 2);
    assert_eq!(say(&desk, "storm --list --json").json().as_array().map(Vec::len), Some(28));
    assert_eq!(say(&desk, "storm --scenario split-brain --json").json()["broken"], json!(null));
    assert_eq!(say(&desk, "storm --scenario killed-server").code, 2);
    assert_eq!(say(&desk, "storm --scenario none").code, 2);
}
