//! `arraylab array serve` as its user meets it: orders to an array that is served, members that fail and come back,
//! servers that are killed. What programs of others do with it is in `array_programs.rs`.

mod common;
#[path = "common/served.rs"]
mod served;

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;

use common::{Desk, Running, names, of, pattern, peer, skip, wait_for};
use device::{Buffer, Device, Request};
use nbd::{Client, Uri};
use serde_json::{Value, json};
use served::{Server, again, arraylab, done, orders, say};
use units::Bytes;
use uring::{Live, LiveOptions};

const MIB: usize = 1 << 20;

#[test]
fn orders_that_cannot_be_carried_out_are_refused_with_the_next_step() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --size 8MiB a b c");
    let Some(server) = Server::start(&desk, "a b c") else { return };
    let refused = |words: &str, next: &str| {
        let said = say(&desk, words);
        assert_eq!(said.code, 2, "{words}: {}", said.stderr);
        assert!(said.stderr.contains(next), "{words}: {}", said.stderr);
    };
    refused("array fail --member x a b c", "x is not a member in use; the array's are a, b, c");
    refused("array rebuild --onto d --size 8MiB a b c", "no member is missing; `arraylab array replace` replaces one");
    refused("array stop a b c", "and it stops the array");
    refused("array serve a b c --nbd unix:t.sock", "the array is being served already");
    done(&desk, "array fail --member a a b c");
    refused("array fail --member b b c", "without");
    refused("array rebuild b c", "name a file or device to take its place with --onto");
    refused("array rebuild --onto d --size 1MiB b c", "a member of this array needs");
    let text = done(&desk, "array status b c");
    assert!(text.contains("1 of 3 members not whole") && text.contains("served"), "{text}");
    // Of those that are not named here, the server knows.
    let alone = done(&desk, "array status b");
    assert!(alone.contains("1 of 3 members not whole") && alone.contains("active      c"), "{alone}");
    let (said, _) = server.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("member 0 not whole"), "{}", said.stderr);
    let Some(server) = Server::start(&desk, "b c") else { return };
    assert_eq!((&server.said["not_whole"], &server.said["survives"]), (&json!([0]), &json!(0)));
    assert_eq!(server.stop().0.code, 0);
    refused("array serve b --nbd unix:t.sock", "2 of 3 members are missing or stale");
}

#[test]
fn a_member_is_not_taken_out_while_parity_is_made_to_fit() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --consistency resync --stripe-unit 16KiB --size 8MiB a b c");
    let Some(mut server) = Server::start(&desk, "a b c") else { return };
    write_until_killed(&mut server);
    server.child.wait().unwrap();
    std::fs::remove_file(desk.path().join("s.sock")).unwrap();
    let server = Server::start(&desk, "a b c --rate 100kB/s").unwrap();
    let status = || serde_json::from_str::<Value>(&done(&desk, "array status --json a b c")).unwrap();
    wait_for("the resync begins", || status()["served"]["upkeep"]["what"] == "resync");
    let said = say(&desk, "array fail --member b a b c");
    assert!(said.code == 2 && said.stderr.contains("/b parity could not be made to fit"), "{}", said.stderr);
    assert_eq!(server.stop().0.code, 0);
    // It opens again, and at rest the member is taken out when everything fits.
    let failed = done(&desk, "array fail --member b a b c");
    assert!(failed.ends_with("clean, member 1 not whole\n"), "{failed}");
}

/// Of two copies side by side on a, b, c and d, the first two hold the same, and the last two.
#[test]
fn level_10_is_served_and_opens_without_members_that_hold_no_chunk_together() {
    let desk = Desk::new("");
    let from = desk.path().join("from.img");
    std::fs::write(&from, pattern(MIB)).unwrap();
    done(&desk, "array create --level 10 --layout n2 --size 8MiB a b c d");
    let Some(server) = Server::start(&desk, "a b c d") else { return };
    let failed = done(&desk, "array fail --member a a b c d");
    assert!(failed.contains("the array survives the loss of 1 more, but not of member 1\n"), "{failed}");
    let refused = say(&desk, "array fail --member b a b c d");
    assert_eq!(refused.code, 2, "{}", refused.stdout);
    let failed = done(&desk, "array fail --member c a b c d");
    assert!(failed.contains("the array survives no further loss"), "{failed}");
    if !peer("nbdcopy", &["--flush", from.to_str().unwrap(), &server.uri()]) {
        return;
    }
    let (said, events) = server.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(names(&events), ["member-failed", "member-failed"], "{events:?}");
    assert_eq!(events[0]["needed"], json!([1]));
    let status = say(&desk, "array status --json a b c d").json();
    assert_eq!((&status["not_whole"], &status["broken"]), (&json!([0, 2]), &json!(false)), "{status}");
    let server = Server::start(&desk, "a b c d").unwrap();
    let there = desk.path().join("there.img");
    assert!(peer("nbdcopy", &[&server.uri(), there.to_str().unwrap()]));
    assert!(std::fs::read(&there).unwrap()[..MIB] == pattern(MIB));
    assert_eq!(server.stop().0.code, 0);
    done(&desk, "array rebuild --onto e --size 8MiB b d");
    done(&desk, "array rebuild --onto f --size 8MiB b d e");
    let whole = say(&desk, "array status --json b d e f").json();
    assert_eq!(whole["not_whole"], json!([]), "{whole}");
    done(&desk, "array scrub b d e f");
    let broken = say(&desk, "array status --json e b").json();
    assert_eq!((&broken["not_whole"], &broken["broken"]), (&json!([2, 3]), &json!(true)), "{broken}");
}

#[test]
fn a_spare_takes_over_by_itself_and_who_was_away_comes_back() {
    for sums in ["", " --integrity"] {
        takes_over_and_comes_back(sums);
    }
}

fn takes_over_and_comes_back(sums: &str) {
    let desk = Desk::new("");
    done(&desk, &format!("array create --level 1{sums} --spare s --size 16MiB a b"));
    let Some(server) = Server::start(&desk, "a b s") else { return };
    done(&desk, "array fail --member b a b s");
    // Nothing more is said, and it is whole again.
    wait_for("the spare takes over", || {
        let status: Value = serde_json::from_str(&done(&desk, "array status --json a b s")).unwrap();
        status["not_whole"] == json!([]) && status["served"]["upkeep"].is_null()
    });
    let (_, events) = server.stop();
    assert_eq!(names(&events), ["member-failed", "rebuild-began", "rebuild-done"], "{events:?}");
    // Served without one of them, and written to; then it comes back, and gets what it missed.
    let server = Server::start(&desk, "a").unwrap();
    let from = desk.path().join("from.img");
    std::fs::write(&from, pattern(MIB)).unwrap();
    if !peer("nbdcopy", &["--flush", from.to_str().unwrap(), &server.uri()]) {
        return;
    }
    let added = done(&desk, "array add --device s a");
    assert!(added.contains("s is member 1 again"), "{added}");
    done(&desk, "array scrub a s");
    done(&desk, "array fail --member a a s");
    let there = desk.path().join("there.img");
    assert!(peer("nbdcopy", &[&server.uri(), there.to_str().unwrap()]));
    assert!(std::fs::read(&there).unwrap()[..MIB] == pattern(MIB));
    assert_eq!(server.stop().0.code, 0);
}

#[test]
fn a_member_that_failed_comes_back_while_its_array_is_served() {
    for (level, back) in [("1", "b is member 1 again"), ("5", "b is member 1")] {
        let desk = Desk::new("");
        done(&desk, &format!("array create --level {level} --size 16MiB a b c"));
        let Some(server) = Server::start(&desk, "a b c") else { return };
        done(&desk, "array fail --member b a b c");
        let added = done(&desk, "array add --device b a c");
        assert!(added.contains(back), "{added}");
        done(&desk, "array scrub a b c");
        done(&desk, "array fail --member b a b c");
        let once = say(&desk, "array rebuild --onto b --destroy-data a c");
        assert!(once.code == 2 && once.stderr.contains("name it a second time"), "{}", once.stderr);
        done(&desk, "array rebuild --onto b --onto b --destroy-data a c");
        // Who was replaced is of use for something else.
        done(&desk, "array replace --member a --onto d --size 16MiB a b c");
        done(&desk, "array create --level 1 --size 8MiB --destroy-data a a x");
        let used = say(&desk, "array add --device d b c");
        assert!(used.code == 2 && used.stderr.contains("in use by the array itself"), "{}", used.stderr);
        done(&desk, "array scrub d b c");
        let (said, events) = server.stop();
        assert_eq!(said.code, 0, "{}", said.stderr);
        let device = |event: &Value| Path::new(event["device"].as_str().unwrap()).file_name().map(ToOwned::to_owned);
        for (name, expected) in [("member-failed", "b"), ("rebuild-began", "b"), ("replace-began", "d")] {
            let mut such = events.iter().filter(|event| event["event"] == name).peekable();
            assert!(such.peek().is_some(), "{name}: {events:?}");
            assert!(such.all(|event| device(event).unwrap() == expected), "{name}: {events:?}");
        }
    }
}

/// What was sent to it may still be carried out, and would overwrite what is written when it has come back.
#[test]
fn a_member_that_hangs_does_not_come_back_before_it_has_answered() {
    let desk = Desk::new("");
    desk.file("b", 16 * MIB);
    let Some(mut second) = member(&desk, "b") else { return };
    let b = format!("nbd+unix:///?socket={}", desk.path().join("b.sock").display());
    done(&desk, &format!("array create --level 1 --destroy-data --size 16MiB a {b}"));
    let server = Server::start(&desk, &format!("--time-limit 1s a {b}")).unwrap();
    common::signal(&second, "STOP");
    // It asks for what the second has, too.
    say(&desk, "array scrub a");
    let status = say(&desk, "array status --json a").json();
    assert_eq!(status["not_whole"], json!([1]), "{status}");
    let refused = say(&desk, &format!("array add --device {b} a"));
    assert_eq!(refused.code, 3, "{}{}", refused.stdout, refused.stderr);
    assert!(refused.stderr.contains("are not answered, and could still overwrite"), "{}", refused.stderr);
    common::signal(&second, "CONT");
    let added = done(&desk, &format!("array add --device {b} a"));
    assert!(added.contains("is member 1 again"), "{added}");
    done(&desk, "array scrub a");
    assert_eq!(server.stop().0.code, 0);
    _ = second.kill();
    _ = second.wait();
}

/// The kernel takes connections for a server that is stopped, which then never says a word.
#[test]
fn who_waits_for_a_server_that_is_stopped_is_told_so() {
    let desk = Desk::new("");
    desk.file("c", 16 * MIB);
    let Some(mut third) = member(&desk, "c") else { return };
    let c = format!("nbd+unix:///?socket={}", desk.path().join("c.sock").display());
    done(&desk, "array create --level 1 --size 16MiB a b");
    let server = Server::start(&desk, "--time-limit 1s a b").unwrap();
    common::signal(&third, "STOP");
    for (words, within) in
        [(format!("array add --device {c} --destroy-data a"), "1 s"), (format!("array examine {c}"), "10 s")]
    {
        let refused = say(&desk, &words);
        assert_ne!(refused.code, 0, "{}", refused.stdout);
        let next = format!("has not offered the export '' within {within}; see whether it is stopped or hangs");
        assert!(refused.stderr.contains(&c) && refused.stderr.contains(&next), "{words}: {}", refused.stderr);
    }
    common::signal(&third, "CONT");
    done(&desk, &format!("array add --device {c} --destroy-data a"));
    assert_eq!(server.stop().0.code, 0);
    _ = third.kill();
    _ = third.wait();
}

/// Sends a request that moves no data to the default export, and gives the error that comes back; `None` if the
/// connection ends instead.
fn ask_for_nothing(socket: &Path, command: u16, offset: u64) -> Option<u32> {
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    let mut welcome = [0; 18];
    stream.read_exact(&mut welcome).unwrap();
    // Fixed newstyle without zeroes; the export without a name; then its size and flags.
    let option = [&3u32.to_be_bytes()[..], b"IHAVEOPT", &1u32.to_be_bytes(), &0u32.to_be_bytes()].concat();
    stream.write_all(&option).unwrap();
    let mut export = [0; 10];
    stream.read_exact(&mut export).unwrap();
    let request = [
        &0x2560_9513u32.to_be_bytes()[..],
        &0u16.to_be_bytes(),
        &command.to_be_bytes(),
        &7u64.to_be_bytes(),
        &offset.to_be_bytes(),
        &0u32.to_be_bytes(),
    ]
    .concat();
    stream.write_all(&request).unwrap();
    let mut reply = [0; 16];
    stream.read_exact(&mut reply).ok()?;
    Some(u32::from_be_bytes([reply[4], reply[5], reply[6], reply[7]]))
}

#[test]
fn a_request_for_nothing_is_done_and_the_server_goes_on() {
    for level in ["5 --consistency ppl", "6", "10", "0"] {
        let desk = Desk::new("");
        done(&desk, &format!("array create --level {level} --stripe-unit 64KiB --size 8MiB a b c d"));
        let Some(server) = Server::start(&desk, "a b c d") else { return };
        let size = server.said["size_bytes"].as_u64().unwrap();
        // Reads, writes, discards and zeroes.
        for command in [0, 1, 4, 6] {
            for offset in [0, 64 << 10, 128 << 10, 192 << 10, size] {
                let answer = ask_for_nothing(&desk.path().join("s.sock"), command, offset);
                assert_eq!(answer, Some(0), "level {level}, command {command} at {offset}");
            }
        }
        let (said, events) = server.stop();
        assert!(said.code == 0 && events.is_empty(), "{}{events:?}", said.stderr);
    }
}

/// What `nbdinfo` lists behind an address: names, sizes, and whether they are read-only. `None`, and said, where it is
/// absent.
fn listed(uri: &str) -> Option<Vec<(String, u64, bool)>> {
    let Ok(output) = Command::new("nbdinfo").args(["--list", "--json", uri]).output() else {
        skip("there is no nbdinfo; apt-get install libnbd-bin");
        return None;
    };
    let said = of(output);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let list: Value = serde_json::from_str(&said.stdout).unwrap();
    let about = |export: &Value| {
        let name = export["export-name"].as_str().unwrap().to_owned();
        (name, export["export-size"].as_u64().unwrap(), export["is_read_only"].as_bool().unwrap())
    };
    Some(list["exports"].as_array().unwrap().iter().map(about).collect())
}

#[test]
fn parts_of_an_array_are_exports_of_their_own() {
    let desk = Desk::new("");
    let members = "a b c";
    done(&desk, &format!("array create --level 5 --stripe-unit 64KiB --size 16MiB {members}"));
    let parts = "--export home=..8MiB --export rest=8MiB..";
    let Some(server) = Server::start(&desk, &format!("{parts} {members}")) else { return };
    let size = server.said["size_bytes"].as_u64().unwrap() as usize;
    let uri = |server: &Server, export: usize| server.said["exports"][export]["uris"][0].as_str().unwrap().to_owned();
    let (home, rest) = (uri(&server, 0), uri(&server, 1));
    let Some(list) = listed(&home) else { return };
    let half = 8 * MIB as u64;
    assert_eq!(list, [("home".into(), half, false), ("rest".into(), size as u64 - half, false)]);
    let status = done(&desk, &format!("array status {members}"));
    assert!(status.contains("export        home, 8 MiB from 0 B on, reads and writes"), "{status}");
    // Each is written by a program that knows nothing of the other, at once.
    let contents = pattern(size);
    let path = |name: &str| desk.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("home.img"), &contents[..8 * MIB]).unwrap();
    std::fs::write(path("rest.img"), &contents[8 * MIB..]).unwrap();
    let copying = std::thread::spawn({
        let (from, to) = (path("home.img"), home.clone());
        move || peer("nbdcopy", &["--flush", &from, &to])
    });
    let copied = peer("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", &path("rest.img"), &rest]);
    if !copying.join().unwrap() || !copied {
        return;
    }
    done(&desk, &format!("array fail --member b {members}"));
    for (image, uri) in [("home.img", &home), ("rest.img", &rest)] {
        assert!(peer("qemu-img", &["compare", "-f", "raw", "-F", "raw", &path(image), uri]));
    }
    let (said, _) = server.stop();
    assert!(said.code == 0 && said.stderr.contains(" 0 errors"), "{}", said.stderr);
    // What is not written may be seen twice.
    let views = "--export disk,read-only --export head=..1MiB,read-only";
    let server = Server::start(&desk, &format!("{views} a c")).unwrap();
    assert_eq!(server.said["read_only"], true);
    let list = listed(&uri(&server, 0)).unwrap();
    assert_eq!(list, [("disk".into(), size as u64, true), ("head".into(), MIB as u64, true)]);
    assert!(peer("nbdcopy", &[&uri(&server, 0), &path("disk.img")]));
    assert!(std::fs::read(path("disk.img")).unwrap() == contents);
    assert!(peer("nbdcopy", &[&uri(&server, 1), &path("head.img")]));
    assert!(std::fs::read(path("head.img")).unwrap() == contents[..MIB]);
    assert_eq!(server.stop().0.code, 0);
}

#[test]
fn exports_that_an_array_cannot_give_are_refused_and_it_stays_as_it_is() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --size 8MiB a b c");
    if Server::start(&desk, "a b c").map(Server::stop).is_none() {
        return;
    }
    for (exports, next) in [
        ("--export a=0..2MiB --export b=1MiB..", "exports 'a' and 'b' share the bytes from 1 MiB to 2 MiB"),
        ("--export all --export a=0..1MiB,read-only", "put ,read-only behind both"),
        ("--export a=0..1GiB", "export 'a': 0 B to 1 GiB reach beyond the end of array at"),
        ("--export a=100B..1MiB", "give multiples of 512 B"),
        ("--export a=1MiB..1MiB", "the end must lie behind the beginning"),
        ("--export a=1MiB", "write NAME, or NAME=FROM..TO for a part"),
        ("--export a --export a", "two exports are called 'a'"),
    ] {
        let refused = say(&desk, &format!("array serve a b c --nbd unix:s.sock {exports}"));
        assert!(refused.code == 2 && refused.stderr.contains(next), "{exports}: {}", refused.stderr);
        assert!(!desk.path().join("s.sock").exists());
    }
    let status = done(&desk, "array status a b c");
    assert!(status.contains("clean"), "{status}");
}

/// A member's server, that can be ended and begun anew.
fn member(desk: &Desk, name: &str) -> Option<Running> {
    again(|| begin_member(desk, name))
}

fn begin_member(desk: &Desk, name: &str) -> Result<Running, String> {
    let words = format!("serve --json --nbd unix:{name}.sock --destroy-data {name} {name}");
    let mut command = arraylab(desk, &words);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = Running::of(command.spawn().unwrap());
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    if first.is_empty() { Err(of(child.wait_with_output().unwrap()).stderr) } else { Ok(child) }
}

#[test]
fn an_array_spans_machines_and_a_member_s_server_may_be_begun_anew() {
    let desk = Desk::new("");
    for name in ["a", "b", "c"] {
        desk.file(name, 16 * MIB);
    }
    let Some(mut servers) = ["a", "b", "c"].map(|name| member(&desk, name)).into_iter().collect::<Option<Vec<_>>>()
    else {
        return;
    };
    let uri = |name: &str| format!("nbd+unix:///?socket={}", desk.path().join(format!("{name}.sock")).display());
    let members = [uri("a"), uri("b"), uri("c")].join(" ");
    let refused = say(&desk, &format!("array create --level 5 {members}"));
    assert!(refused.code == 2 && refused.stderr.contains("add --destroy-data"), "{}", refused.stderr);
    done(&desk, &format!("array create --level 5 --destroy-data {members}"));
    let server = Server::start(&desk, &format!("--time-limit 40s {members}")).unwrap();
    let size = 8 * MIB;
    let from = desk.path().join("from.img");
    std::fs::write(&from, pattern(size)).unwrap();
    let from = from.to_str().unwrap().to_owned();
    let copying = std::thread::spawn({
        let (from, uri) = (from.clone(), server.uri());
        move || peer("nbdcopy", &["--flush", &from, &uri])
    });
    // Killed in the middle, or before, or after; and begun anew.
    std::thread::sleep(std::time::Duration::from_millis(150));
    servers[1].kill().unwrap();
    servers[1].wait().unwrap();
    std::fs::remove_file(desk.path().join("b.sock")).unwrap();
    servers[1] = member(&desk, "b").unwrap();
    if !copying.join().unwrap() {
        return;
    }
    done(&desk, &format!("array scrub {members}"));
    let status: Value = serde_json::from_str(&done(&desk, &format!("array status --json {members}"))).unwrap();
    assert_eq!(status["not_whole"], json!([]), "{status}");
    let (said, events) = server.stop();
    assert!(said.code == 0 && !names(&events).contains(&"member-failed"), "{events:?}{}", said.stderr);
    // One that stays away has failed after its time, and the array goes on.
    let server = Server::start(&desk, &format!("--time-limit 1s {members}")).unwrap();
    servers[2].kill().unwrap();
    servers[2].wait().unwrap();
    let there = desk.path().join("there.img");
    assert!(peer("nbdcopy", &[&server.uri(), there.to_str().unwrap()]));
    assert!(std::fs::read(&there).unwrap()[..size] == pattern(size));
    let (said, events) = server.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(names(&events), ["connection-lost", "member-failed"], "{events:?}");
    for mut server in servers {
        _ = server.kill();
        _ = server.wait();
    }
}

/// What is in use, and what carries data, is as much an export's as a path's; and nobody who replaces a member destroys
/// another by it.
#[test]
fn a_served_array_takes_no_export_that_is_in_use_or_carries_data() {
    let desk = Desk::new("");
    for name in ["a", "b", "full", "empty"] {
        desk.file(name, 8 * MIB);
    }
    let written = desk.path().join("full");
    if !peer("mkfs.ext4", &["-q", "-F", written.to_str().unwrap()]) {
        return;
    }
    let names = ["a", "b", "full", "empty"];
    let Some(servers) = names.map(|name| member(&desk, name)).into_iter().collect::<Option<Vec<_>>>() else { return };
    let uri = |name: &str| format!("nbd+unix:///?socket={}", desk.path().join(format!("{name}.sock")).display());
    let [a, b, full, empty] = names.map(uri);
    // The same export by another address.
    std::os::unix::fs::symlink(desk.path().join("b.sock"), desk.path().join("alias.sock")).unwrap();
    let alias = uri("alias");
    done(&desk, &format!("array create --level 1 --destroy-data --spare s --size 8MiB {a} {b}"));
    let server = Server::start(&desk, &format!("{a} {b} s")).unwrap();
    let before = std::fs::read(&written).unwrap();
    for (onto, next) in [
        (&b, "is in use by the array itself"),
        (&a, "is in use by the array itself"),
        (&alias, "is in use by the array itself"),
        (&"s".to_owned(), "is in use by the array itself"),
        (&full, "carries ext2/ext3/ext4"),
    ] {
        for order in ["replace --member A --destroy-data --onto", "add --destroy-data --device"] {
            let refused = say(&desk, &format!("array {} {onto} {a}", order.replace('A', &a)));
            assert!(refused.code == 2 && refused.stderr.contains(next), "{order} {onto}: {}", refused.stderr);
        }
    }
    let refused = say(&desk, &format!("array replace --member {a} --onto {empty} {a}"));
    assert!(refused.code == 2 && refused.stderr.contains("add --destroy-data"), "{}", refused.stderr);
    done(&desk, &format!("array scrub {a} {b}"));
    assert!(std::fs::read(&written).unwrap() == before);
    done(&desk, &format!("array replace --member {a} --destroy-data --onto {empty} {a}"));
    done(&desk, &format!("array scrub {empty} {b}"));
    assert_eq!(server.stop().0.code, 0);
    for mut server in servers {
        _ = server.kill();
        _ = server.wait();
    }
}

/// Whoever is out of use is not told so itself, and calls all members active for ever.
#[test]
fn the_status_of_a_served_array_is_what_its_server_knows() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --spare s --size 8MiB a b c");
    let Some(server) = Server::start(&desk, "a b c s") else { return };
    done(&desk, "array replace --member a --onto d --size 8MiB a b c");
    let states = |words: &str| {
        let status = say(&desk, &format!("array status --json {words}")).json();
        let of = |one: &Value| {
            let place = Path::new(one["path"].as_str().unwrap_or("-")).file_name().unwrap().to_str().unwrap();
            format!("{place} {}", one["state"].as_str().unwrap())
        };
        let all = ["members", "others"].map(|kind| status[kind].as_array().unwrap().iter().map(of).collect::<Vec<_>>());
        (all.concat().join(", "), status)
    };
    for named in ["a", "a b c s", "d s", "b d"] {
        let (all, status) = states(named);
        let unused = if named.starts_with('a') { ", a not used" } else { "" };
        assert_eq!(all, format!("d active, b active, c active, s spare{unused}"));
        assert_eq!((&status["not_whole"], &status["broken"]), (&json!([]), &json!(false)), "{status}");
    }
    done(&desk, "array fail --member b a b c");
    wait_for("the spare takes over", || states("a b").1["not_whole"] == json!([]));
    done(&desk, "array fail --member c a b c");
    let (all, status) = states("a b c");
    assert_eq!(all, "d active, s active, - missing, c not used, a not used, b not used");
    assert_eq!(status["not_whole"], json!([2]));
    let text = done(&desk, "array status a b c");
    assert!(text.contains("1 of 3 members not whole") && text.contains("member -      not used    a"), "{text}");
    // From elsewhere, too, a device is the one that the server means.
    std::fs::create_dir(desk.path().join("deeper")).unwrap();
    let mut elsewhere = desk.command(&["array", "status", "../d", "../b"]);
    elsewhere.env("XDG_RUNTIME_DIR", desk.path()).current_dir(desk.path().join("deeper"));
    let text = common::said(elsewhere).stdout;
    assert!(text.contains("active      ../d") && text.contains("not used    ../b"), "{text}");
    assert!(
        text.contains(&format!("active      {}", desk.path().canonicalize().unwrap().join("s").display())),
        "{text}"
    );
    server.stop();
}

/// Its socket takes connections, and ends them without a word, until the kernel has ended what it had under way.
#[test]
fn a_server_that_was_just_killed_is_none() {
    let desk = Desk::new("");
    done(&desk, "array create --level 1 --size 8MiB a b");
    let examined = say(&desk, "array examine --json a").json();
    let array = examined[0]["array"].as_str().unwrap().replace(':', "");
    let folder = orders(&desk);
    std::fs::create_dir_all(&folder).unwrap();
    for words in ["array status a b", "array fail --member b a b"] {
        let dying = UnixListener::bind(folder.join(&array)).unwrap();
        let command = arraylab(&desk, words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (first, _) = dying.accept().unwrap();
        // The next one waits to be accepted when the socket goes, unless it comes too late.
        drop(first);
        std::thread::sleep(std::time::Duration::from_millis(50));
        drop(dying);
        let said = of(command.wait_with_output().unwrap());
        assert_eq!(said.code, 0, "{words}: {}{}", said.stdout, said.stderr);
        assert!(!said.stdout.contains("served"), "{words}: {}", said.stdout);
        std::fs::remove_file(folder.join(&array)).unwrap();
    }
}

/// Begun at boot, without the variable that sessions have, or in a session with another one.
#[test]
fn a_server_is_found_from_any_session() {
    let desk = Desk::new("");
    done(&desk, "array create --level 1 --size 8MiB a b");
    let Some(server) = Server::start_without_session(&desk, "a b") else { return };
    for session in [Some("."), Some("/nowhere"), None] {
        let mut status = arraylab(&desk, "array status a");
        match session {
            Some(folder) => status.env("XDG_RUNTIME_DIR", folder),
            None => status.env_remove("XDG_RUNTIME_DIR"),
        };
        let said = common::said(status);
        assert!(said.stdout.contains("  served        by process "), "{session:?}: {}{}", said.stdout, said.stderr);
    }
    assert_eq!(server.stop().0.code, 0);
}

#[test]
fn a_broken_array_is_said_to_be_broken() {
    let desk = Desk::new("");
    desk.file("c", 8 * MIB);
    let Some(mut third) = member(&desk, "c") else { return };
    let c = format!("nbd+unix:///?socket={}", desk.path().join("c.sock").display());
    done(&desk, &format!("array create --level 5 --destroy-data --size 8MiB a b {c}"));
    let server = Server::start(&desk, &format!("--time-limit 1s a b {c}")).unwrap();
    done(&desk, "array fail --member b a b");
    assert!(!done(&desk, "array status a b").contains("broken"));
    third.kill().unwrap();
    third.wait().unwrap();
    // Whatever becomes of it: it asks for what only the third member has.
    if Command::new("nbdcopy").args([&server.uri(), desk.path().join("there.img").to_str().unwrap()]).output().is_err()
    {
        return skip("there is no nbdcopy; apt-get install libnbd-bin");
    }
    let status = say(&desk, "array status --json a b").json();
    assert_eq!(
        (&status["not_whole"], &status["broken"], &status["served"]["broken"]),
        (&json!([1, 2]), &json!(true), &json!(true))
    );
    let text = done(&desk, "array status a b");
    assert!(text.contains("broken: 2 members are not whole, more than can be spared"), "{text}");
    // The server looks at its members several times a second.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let (said, events) = server.stop();
    assert!(names(&events).contains(&"broken"), "{events:?}");
    let failed: Vec<_> = events.iter().filter(|event| event["event"] == "member-failed").collect();
    assert!(failed.len() == 2 && failed[0]["broken"].is_null() && failed[1]["broken"] == true, "{events:?}");
    assert!(said.code == 3 && said.stderr.contains("the array broke while it was served"), "{}", said.stderr);
}

/// A small file system in memory, until the test ends.
struct Small<'p>(&'p Path);

impl Small<'_> {
    fn mount(folder: &Path) -> Option<Small<'_>> {
        std::fs::create_dir(folder).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "small"]).arg(folder).status();
        mounted.is_ok_and(|status| status.success()).then_some(Small(folder))
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn what_could_not_be_filled_is_said_with_its_cause() {
    let desk = Desk::new("");
    let folder = desk.path().join("small");
    let Some(_small) = Small::mount(&folder) else { return skip("to mount a file system in memory needs root") };
    done(&desk, "array create --level 1 --size 16MiB a b");
    let Some(server) = Server::start(&desk, "a b") else { return };
    // Those that are made have their room, or are not made; of these it is found out midway.
    for name in ["x", "y"] {
        std::fs::File::create(folder.join(name)).unwrap().set_len(16 << 20).unwrap();
    }
    let refused = say(&desk, "array replace --member a --onto small/x --destroy-data a b");
    let cause = "member 0 was not filled: no space is left";
    assert!(refused.code != 0 && refused.stderr.contains(cause), "{}{}", refused.stdout, refused.stderr);
    assert!(!refused.stdout.contains("is replaced"), "{}", refused.stdout);
    std::fs::remove_file(folder.join("x")).unwrap();
    done(&desk, "array fail --member a a b");
    let refused = say(&desk, "array rebuild --onto small/y --destroy-data --json b");
    assert!(refused.code != 0 && refused.stderr.contains(cause), "{}{}", refused.stdout, refused.stderr);
    done(&desk, "array rebuild --onto c --size 16MiB b");
    let (said, events) = server.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    let names = names(&events);
    assert!(names.contains(&"replace-failed") && names.contains(&"rebuild-failed"), "{events:?}");
}

/// Blocks of 4 KiB, each written with rising numbers by one writer.
const BLOCKS: usize = 512;
const WRITERS: usize = 16;

fn block(number: usize, value: u64) -> Buffer {
    let mut buffer = Buffer::zeroed(Bytes::kib(4));
    let bytes = buffer.bytes_mut().unwrap();
    for (word, at) in bytes.chunks_mut(8).zip(0u64..) {
        let mixed = (value << 20 | number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(at);
        word.copy_from_slice(&if value == 0 { 0 } else { mixed }.to_le_bytes());
    }
    buffer
}

/// Writes over several connections until the server is killed; for each block the last value acknowledged, and the one
/// under way.
fn write_until_killed(server: &mut Server) -> (Vec<u64>, Vec<u64>) {
    let live = Live::start(&LiveOptions::default());
    let uri: Uri = server.uri().parse().unwrap();
    let acknowledged = Rc::new(RefCell::new(vec![0u64; BLOCKS]));
    let begun = Rc::new(RefCell::new(vec![0u64; BLOCKS]));
    let count = Rc::new(Cell::new(0));
    let clients: Vec<_> =
        (0..3).map(|_| Rc::new(live.runtime().block_on(Client::connect(&live, &uri)).unwrap())).collect();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let client = Rc::clone(&clients[writer % clients.len()]);
            let (acknowledged, begun, count) = (Rc::clone(&acknowledged), Rc::clone(&begun), Rc::clone(&count));
            live.runtime().spawn(async move {
                for round in 0u64.. {
                    let own = (round as usize * 7 + writer * 13) % (BLOCKS / WRITERS);
                    let number = own * WRITERS + writer;
                    let value = begun.borrow()[number] + 1;
                    begun.borrow_mut()[number] = value;
                    let request = Request::write(Bytes::kib(4) * number as u64, block(number, value).freeze());
                    if client.submit(request).await.result.is_err() {
                        return;
                    }
                    acknowledged.borrow_mut()[number] = value;
                    count.set(count.get() + 1);
                }
            })
        })
        .collect();
    live.runtime().block_on(async {
        while count.get() < 3000 {
            live.runtime().sleep(units::Duration::millis(2)).await;
        }
        server.child.kill().unwrap();
        for writer in writers {
            writer.await;
        }
    });
    (acknowledged.take(), begun.take())
}

#[test]
fn nothing_acknowledged_is_lost_when_the_server_is_killed_under_load() {
    for (level, members, without) in [("5", "a b c d", "a b d"), ("6", "e f g h i", "e f g h i"), ("1", "j k", "j k")] {
        let desk = Desk::new("");
        done(&desk, &format!("array create --level {level} --stripe-unit 16KiB --size 8MiB {members}"));
        let Some(mut server) = Server::start(&desk, members) else { return };
        let (acknowledged, begun) = write_until_killed(&mut server);
        server.child.wait().unwrap();
        assert!(acknowledged.iter().sum::<u64>() >= 3000);
        // The sockets are left behind; the one for orders is the next server's to remove.
        std::fs::remove_file(desk.path().join("s.sock")).unwrap();
        let server = Server::start(&desk, without).unwrap();
        let live = Live::start(&LiveOptions::default());
        let client = live.runtime().block_on(Client::connect(&live, &server.uri().parse().unwrap())).unwrap();
        for number in 0..BLOCKS {
            let request = Request::read(Bytes::kib(4) * number as u64, Buffer::zeroed(Bytes::kib(4)));
            let reply = live.runtime().block_on(client.submit(request));
            reply.result.unwrap();
            let found = reply.buffer.unwrap();
            let is = |value: u64| found.bytes() == block(number, value).bytes();
            let allowed = acknowledged[number]..=begun[number];
            assert!(allowed.clone().any(is), "level {level}: block {number} holds none of {allowed:?}");
        }
        drop(client);
        let (said, _) = server.stop();
        assert_eq!(said.code, 0, "{}", said.stderr);
        let scrubbed = say(&desk, &format!("array scrub {without}"));
        assert_eq!(scrubbed.code, if members == without { 0 } else { 2 }, "{}", scrubbed.stderr);
    }
}
