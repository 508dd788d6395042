//! The devices that an array is given, as its user meets them: damaged, too small, read-only, of another array, and the
//! array itself.

mod common;
#[path = "common/served.rs"]
mod served;

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixListener;
use std::process::Stdio;
use std::time::Duration;

use common::{Desk, Loop, Running, of};
use serde_json::json;
use served::{Server, again, arraylab, done, orders, say};

const MIB: usize = 1 << 20;

/// Says what is refused, and that it is.
fn refused(desk: &Desk, words: &str, next: &str) {
    let said = say(desk, words);
    assert!(said.code == 2 && said.stderr.contains(next), "{words}: {} {}{}", said.code, said.stdout, said.stderr);
}

/// Changes a byte of a member's superblock, which its checksum does not fit then.
fn damage(desk: &Desk, name: &str) {
    let file = desk.path().join(name);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[4096 + 40] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

/// A file offered for reading only.
fn read_only(desk: &Desk, name: &str) -> Option<(Running, String)> {
    let child = again(|| {
        let mut command = arraylab(desk, &format!("serve --json --read-only --nbd unix:{name}.sock {name}"));
        let mut child = Running::of(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        if first.is_empty() { Err(of(child.wait_with_output().unwrap()).stderr) } else { Ok(child) }
    })?;
    Some((child, format!("nbd+unix:///?socket={}", desk.path().join(format!("{name}.sock")).display())))
}

#[test]
fn an_export_of_the_array_itself_does_not_become_part_of_it() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --size 8MiB a b c");
    let Some(server) = Server::start(&desk, "--nbd tcp:127.0.0.1:0 a b c") else { return };
    std::os::unix::fs::symlink(desk.path().join("s.sock"), desk.path().join("alias.sock")).unwrap();
    let uri = |place: usize| server.said["uris"][place].as_str().unwrap().to_owned();
    let alias = format!("nbd+unix:///?socket={}", desk.path().join("alias.sock").display());
    for own in [server.uri(), uri(1), uri(1).replace("127.0.0.1", "localhost"), alias] {
        // First without leave, so that nothing is written wherever this is not refused.
        for leave in ["", "--destroy-data"] {
            refused(&desk, &format!("array add {leave} --device {own} a b c"), "an export of the array itself");
            refused(&desk, &format!("array replace {leave} --member a --onto {own} a b c"), "an export of the array");
        }
    }
    done(&desk, "array fail --member c a b c");
    refused(&desk, "array fail --member c a b c", "has failed already");
    refused(
        &desk,
        &format!("array rebuild --destroy-data --onto {} a b", server.uri()),
        "an export of the array itself",
    );
    assert_eq!(server.stop().0.code, 0);
    refused(&desk, "array fail --member c a b c", "c has failed already");
}

#[test]
fn what_takes_no_writes_is_refused_before_anything_is_changed() {
    let desk = Desk::new("");
    done(&desk, "array create --level 1 --size 8MiB a b");
    desk.file("f", 16 * MIB);
    let Some((mut server, uri)) = read_only(&desk, "f") else { return };
    let status = || say(&desk, "array status --json a b").json();
    let before = status();
    let orders = [
        format!("array add --destroy-data --device {uri} a b"),
        format!("array replace --destroy-data --member a --onto {uri} a b"),
        format!("array create --level 1 --destroy-data --size 8MiB x {uri}"),
    ];
    orders.iter().for_each(|order| refused(&desk, order, "is read-only; have its server offer it for writing"));
    assert_eq!(status(), before);
    assert!(!desk.path().join("x").exists());
    let serving = Server::start(&desk, "a b").unwrap();
    orders[..2].iter().for_each(|order| refused(&desk, order, "is read-only"));
    done(&desk, "array fail --member b a b");
    refused(&desk, &format!("array rebuild --destroy-data --onto {uri} a"), "is read-only");
    let (said, events) = serving.stop();
    assert!(said.code == 0 && events.len() == 1, "{events:?}{}", said.stderr);
    refused(&desk, &format!("array rebuild --destroy-data --onto {uri} a"), "is read-only");
    // Neither does a former member come back that cannot be written.
    let (mut former, uri) = read_only(&desk, "b").unwrap();
    refused(&desk, &format!("array add --device {uri} a"), "is read-only");
    for server in [&mut server, &mut former] {
        server.kill().unwrap();
        server.wait().unwrap();
    }
}

#[test]
fn a_server_begins_while_the_kernel_ends_the_one_before() {
    let desk = Desk::new("");
    done(&desk, "array create --level 1 --size 8MiB a b");
    let array = say(&desk, "array status --json a b").json()["array"].as_str().unwrap().replace(':', "");
    std::fs::create_dir_all(orders(&desk)).unwrap();
    // A socket that takes connections and answers nothing is all that is left of who was killed.
    let path = orders(&desk).join(array);
    let left = UnixListener::bind(&path).unwrap();
    refused(&desk, "array serve --nbd unix:s.sock a b", "the array is being served already");
    let ending = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(150));
        drop(left);
    });
    let Some(server) = Server::start(&desk, "a b") else { return };
    ending.join().unwrap();
    refused(&desk, "array serve --nbd unix:t.sock a b", "the array is being served already");
    assert_eq!(server.stop().0.code, 0);
}

#[test]
fn who_is_left_out_is_named_with_the_reason() {
    let desk = Desk::new("");
    done(&desk, "array create --level 6 --size 8MiB a b c d");
    done(&desk, "array fail --member d a b c d");
    damage(&desk, "b");
    let reason = "b is left out: the superblock's checksum is";
    refused(&desk, "array scrub a b c d", reason);
    let said = say(&desk, "array stop a b c d");
    assert!(said.code == 0 && said.stderr.contains(reason), "{}", said.stderr);
    assert!(said.stderr.contains("d is left out: it is stale"), "{}", said.stderr);
    let status = say(&desk, "array status a b c");
    assert!(
        status.code == 0 && status.stdout.contains("2 of 4 members not whole"),
        "{}{}",
        status.stdout,
        status.stderr
    );
    assert!(status.stdout.contains("left out    b: the superblock's checksum is"), "{}", status.stdout);
    let Some(server) = Server::start(&desk, "a b c") else { return };
    let left_out = &server.said["left_out"][0];
    assert!(left_out["path"] == "b" && left_out["why"].as_str().unwrap().contains("it is damaged"), "{left_out}");
    let (said, _) = server.stop();
    assert!(said.stderr.contains(reason), "{}", said.stderr);
    damage(&desk, "c");
    let said = say(&desk, "array serve --nbd unix:s.sock a b c");
    assert!(said.code == 2 && said.stderr.contains("3 of 4 members are missing"), "{}", said.stderr);
    assert!(said.stderr.contains(reason) && said.stderr.contains("c is left out: "), "{}", said.stderr);
    // Where none says anything, that is what is said.
    refused(&desk, "array status b", "it is damaged");
}

#[test]
fn a_member_that_lost_its_superblock_is_told_how_to_be_filled_anew() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --size 8MiB a b c");
    let file = desk.path().join("b");
    std::fs::write(&file, vec![0; std::fs::metadata(&file).unwrap().len() as usize]).unwrap();
    for command in ["scrub", "stop", "serve --nbd unix:s.sock"] {
        let said = say(&desk, &format!("array {command} a b c"));
        let next = "leave it away: the others are opened without it if their level allows, and \
                    `arraylab array rebuild --destroy-data --onto b` with them fills it anew";
        assert!(
            said.code == 2 && said.stderr.starts_with("error: b: there is no md superblock"),
            "{command}: {said:?}"
        );
        assert!(said.stderr.contains(next), "{command}: {said:?}");
    }
    done(&desk, "array rebuild --destroy-data --onto b a c");
    done(&desk, "array scrub a b c");
}

#[test]
fn of_a_disk_that_is_stale_it_is_said_what_adding_it_would_do() {
    let desk = Desk::new("");
    done(&desk, "array create --level 1 --size 8MiB a b");
    done(&desk, "array replace --member a --onto c --size 8MiB a b");
    let why = |words: &str| say(&desk, words).stderr;
    let spare =
        "a is left out: it is stale, and no member's place is left for it: `arraylab array add` makes it a spare";
    assert!(why("array stop a b c").contains(spare), "{}", why("array stop a b c"));
    // Where the one that replaced it is not given, its place is free.
    done(&desk, "array fail --member c b c");
    let back = "is left out: it is stale: the array went on without it, and `arraylab array add` brings it back";
    assert_eq!(why("array stop a b c").matches(back).count(), 2, "{}", why("array stop a b c"));
    done(&desk, "array add --device c b");
    assert!(why("array stop a b c").contains(spare), "{}", why("array stop a b c"));
    assert!(done(&desk, "array add --device a b c").starts_with("a is a spare\n"));
}

#[test]
fn a_member_of_another_version_of_md_is_told_by_it() {
    let desk = Desk::new("");
    // Of 8 MiB and some blocks: where md looks for each version (mdadm's super0.c and super1.c).
    let (size, magic) = ((8 << 20) + (12 << 10), 0xa92b_4efc_u32.to_le_bytes());
    let version_1 = [&magic[..], &[1, 0, 0, 0]].concat();
    let old = [
        ("0.90", (8 << 20) - (64 << 10), magic.to_vec()),
        ("0.90", (8 << 20) - (64 << 10), magic.iter().rev().copied().collect()),
        ("1.0", size - (8 << 10), version_1.clone()),
        ("1.1", 0, version_1),
    ];
    done(&desk, "array create --level 1 --size 8MiB a b");
    for (version, at, bytes) in old {
        let mut image = vec![0; size];
        image[at..at + bytes.len()].copy_from_slice(&bytes);
        std::fs::write(desk.path().join("old"), image).unwrap();
        let which = format!("its md superblock is of version {version}, and only 1.2 is understood here");
        refused(&desk, "array examine old", &which);
        refused(&desk, "array stop old", &which);
        let status = done(&desk, "array status a b old");
        assert!(status.contains(&format!("left out    old: {which}")), "{status}");
    }
}

#[test]
fn an_array_whose_journal_is_gone_is_told_to_do_without() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --size 8MiB --journal j a b c");
    let without = "cannot be opened without its journal";
    let status = done(&desk, "array status a b c");
    assert!(status.contains(without), "{status}");
    let status = done(&desk, "array status a b c j");
    assert!(!status.contains(without), "{status}");
    refused(&desk, "array scrub a b c", "(`arraylab array stop --force a b c`)");
    let stopped = done(&desk, "array stop --force a b c");
    assert_eq!(stopped, "clean\n");
    let said = say(&desk, "array scrub a b c j");
    assert!(said.code == 0 && said.stderr.contains("j is left out: it is a journal that failed"), "{}", said.stderr);
    let status = done(&desk, "array status a b c");
    assert!(status.contains("consistency   resync") && !status.contains(without), "{status}");
}

#[test]
fn a_member_that_has_lost_its_end_or_is_another_array_s_is_named() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --size 12MiB a b c");
    done(&desk, "array create --level 1 --size 8MiB r s");
    done(&desk, "array fail --member s r s");
    for words in ["array status a b r", "array status r a b", "array stop a b r"] {
        refused(&desk, words, "r belongs to another array");
    }
    let file = std::fs::OpenOptions::new().write(true).open(desk.path().join("a")).unwrap();
    file.set_len((12 * MIB - 512) as u64).unwrap();
    let status = done(&desk, "array status a b c");
    assert!(status.contains("cannot be opened with member 0, too small by now"), "{status}");
    assert!(status.contains("a: it holds 12582400 B; its data begin at"), "{status}");
    refused(&desk, "array serve --nbd unix:s.sock a b c", "a holds 12582400 B; its data begin at");
    refused(&desk, "array stop a b c", "make it 12 MiB large again, or leave it away");
    file.set_len(12 * MIB as u64).unwrap();
    assert!(done(&desk, "array status a b c").contains("clean"));
    let unnamed =
        desk.arraylab(&["array", "create", "--level", "1", "--name", "x\u{1b}[2J", "--size", "8MiB", "n", "o"]);
    assert!(unnamed.code == 2 && !unnamed.stderr.contains('\u{1b}'), "{}", unnamed.stderr);
    assert!(!desk.path().join("n").exists());
    refused(&desk, "array scrub --rate 0B/s a b c", "omit --rate for no limit");
}

#[test]
fn a_copy_of_a_member_is_shown_beside_it() {
    let desk = Desk::new("");
    done(&desk, "array create --level 1 --size 8MiB a b");
    std::fs::copy(desk.path().join("a"), desk.path().join("copy")).unwrap();
    let status = done(&desk, "array status a copy b");
    assert!(status.contains("cannot be opened with two of member 0; give one of them"), "{status}");
    assert!(status.contains("active      a\n") && status.contains("copy: it says that it is what a is"), "{status}");
    refused(&desk, "array stop a copy b", "both claim role 0");
    assert!(done(&desk, "array status a b").contains("clean"));
}

#[test]
fn a_scrub_counts_what_it_has_done_itself() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --integrity --size 8MiB a b c");
    done(&desk, "array scrub a b c");
    let file = desk.path().join("b");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[(2 << 20) + 9000] ^= 4;
    std::fs::write(&file, bytes).unwrap();
    let Some(server) = Server::start(&desk, "a b c") else { return };
    let rewritten = || say(&desk, "array scrub --repair --json a b c").json()["rewritten"].clone();
    assert_eq!(rewritten(), json!([0, 1, 0]));
    assert_eq!(rewritten(), json!([0, 0, 0]));
    let export = &say(&desk, "array status --json a b c").json()["served"]["exports"][0];
    assert_eq!(export["from_bytes"], 0);
    assert_eq!(export["size_bytes"], server.said["size_bytes"]);
    assert_eq!(server.stop().0.code, 0);
}

/// A loop device with blocks of 4 KiB over a new file.
fn large_blocks(desk: &Desk, name: &str) -> Option<Loop> {
    let file = desk.path().join(name);
    std::fs::File::create(&file).unwrap().set_len(8 * MIB as u64).unwrap();
    Loop::with_blocks(&file, 4096)
}

#[test]
fn a_device_with_larger_blocks_joins_an_array_at_rest() {
    let desk = Desk::new("");
    let (Some(e), Some(f)) = (large_blocks(&desk, "e"), large_blocks(&desk, "f")) else { return };
    done(&desk, "array create --level 5 --size 8MiB a b c");
    let add = format!("array add --destroy-data --device {} a b c", e.node);
    let replace = |all: &str| format!("array replace --destroy-data --member a --onto {} {all}", f.node);
    let Some(server) = Server::start(&desk, "a b c") else { return };
    refused(
        &desk,
        &add,
        "in blocks of 4 KiB, and the array, as long as it is served, in such of 512 B; end the server",
    );
    refused(&desk, &replace("a b c"), "in blocks of 4 KiB, and the array, as long as it is served, in such of 512 B");
    assert_eq!(server.stop().0.code, 0);
    done(&desk, &add);
    done(&desk, &replace(&format!("a b c {}", e.node)));
    let members = format!("{} {} b c", e.node, f.node);
    // The spare takes the place of another while it is served, in blocks that it has.
    let Some(server) = Server::start(&desk, &members) else { return };
    done(&desk, &format!("array fail --member b {members}"));
    let active = format!("member 1      active      {}", e.node);
    common::wait_for("the spare is filled", || done(&desk, &format!("array status {members}")).contains(&active));
    assert_eq!(server.stop().0.code, 0);
}

#[test]
fn a_member_with_larger_blocks_than_the_others_comes_back_at_rest() {
    let desk = Desk::new("");
    let Some(c) = large_blocks(&desk, "c") else { return };
    let c = &c.node;
    done(&desk, &format!("array create --level 5 --consistency bitmap --size 8MiB --destroy-data a b {c}"));
    let Some(server) = Server::start(&desk, "a b") else { return };
    let add = format!("array add --device {c} a b");
    refused(
        &desk,
        &add,
        "in blocks of 4 KiB, and the array, as long as it is served, in such of 512 B; end the server",
    );
    assert_eq!(server.stop().0.code, 0);
    let back = done(&desk, &add);
    assert!(back.contains("is member 2 again"), "{back}");
    done(&desk, &format!("array scrub a b {c}"));
}

#[test]
fn large_blocks_are_no_reason_for_a_write_hole() {
    let desk = Desk::new("");
    let all: Vec<Loop> = ["a", "b", "c"].into_iter().filter_map(|name| large_blocks(&desk, name)).collect();
    let [a, b, c] = &all[..] else { return };
    let created = done(&desk, &format!("array create --level 5 --destroy-data {} {} {}", a.node, b.node, c.node));
    assert!(created.contains("partial parity log"), "{created}");
}
