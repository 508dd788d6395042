//! Arrays that are found, served without a write to their members, and opened again after members dropped out one by
//! one.

mod common;
#[path = "common/served.rs"]
mod served;

use std::path::Path;
use std::process::Command;

use common::{Desk, Loop};
use device::{Buffer, Data, Device, Request};
use nbd::{Client, Uri};
use served::{Server, arraylab, done, say};
use units::Bytes;
use uring::{Live, LiveOptions};

const BLOCKS: u64 = 600;

fn block(number: u64) -> Data {
    let mut buffer = Buffer::zeroed(Bytes::kib(4));
    buffer.bytes_mut().unwrap().chunks_mut(8).for_each(|word| word.copy_from_slice(&(number + 1).to_le_bytes()));
    buffer.freeze()
}

fn client(server: &Server) -> (Live, Client) {
    let live = Live::start(&LiveOptions::default());
    let uri: Uri = server.uri().parse().unwrap();
    let client = live.runtime().block_on(Client::connect(&live, &uri)).unwrap();
    (live, client)
}

fn fill(server: &Server) {
    let (live, client) = client(server);
    for number in 0..BLOCKS {
        let write = Request::write(Bytes::kib(4) * (number * 3), block(number));
        assert_eq!(live.runtime().block_on(client.submit(write)).result, Ok(()));
    }
    live.runtime().block_on(client.submit(Request::flush())).result.unwrap();
}

fn assert_holds(server: &Server, what: &str) {
    let (live, client) = client(server);
    for number in 0..BLOCKS {
        let read = Request::read(Bytes::kib(4) * (number * 3), Buffer::zeroed(Bytes::kib(4)));
        let reply = live.runtime().block_on(client.submit(read));
        assert_eq!(reply.result, Ok(()), "{what}: block {number}");
        assert!(reply.buffer.unwrap().bytes() == block(number).bytes(), "{what}: block {number}");
    }
    let write = live.runtime().block_on(client.submit(Request::write(Bytes::ZERO, block(5))));
    assert!(write.result.is_err(), "{what}: it takes no writes");
}

fn all(desk: &Desk, names: &str) -> Vec<Vec<u8>> {
    names.split(' ').map(|name| std::fs::read(desk.path().join(name)).unwrap()).collect()
}

/// Changes a superblock on a file, and makes its checksum good.
fn edit(path: &Path, change: impl Fn(&mut [u8])) {
    let mut bytes = std::fs::read(path).unwrap();
    let it = &mut bytes[4096..8192];
    change(it);
    let roles = u32::from_le_bytes(it[220..224].try_into().unwrap()) as usize;
    it[216..220].fill(0);
    let words = it[..256 + 2 * roles].chunks(4);
    let sum: u64 = words.map(|it| it.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))).sum();
    it[216..220].copy_from_slice(&(sum as u32).wrapping_add((sum >> 32) as u32).to_le_bytes());
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn served_read_only_the_members_are_as_they_were_clean_dirty_or_degraded() {
    for (create, names, degraded) in [
        ("--level 1", "a b", "b"),
        ("--level 5", "a b c d", "a c d"),
        ("--level 6", "a b c d e", "b d e"),
        ("--level 6 --consistency bitmap", "a b c d", "a b c d"),
        ("--level 10", "a b c d", "a c d"),
        ("--level 5 --integrity", "a b c d", "b c d"),
        ("--level 5 --journal j", "a b c d j", "a b d j"),
    ] {
        for unclean in [false, true] {
            let desk = Desk::new("");
            done(&desk, &format!("array create --size 16MiB {create} {names}").replace("d j", "d"));
            let Some(mut server) = Server::start(&desk, names) else { return };
            fill(&server);
            if unclean {
                server.child.kill().unwrap();
                server.child.wait().unwrap();
                std::fs::remove_file(desk.path().join("s.sock")).unwrap();
            } else {
                assert_eq!(server.stop().0.code, 0);
            }
            for name in names.split(' ') {
                let path = desk.path().join(name);
                let mut mode = std::fs::metadata(&path).unwrap().permissions();
                mode.set_readonly(true);
                std::fs::set_permissions(&path, mode).unwrap();
            }
            let before = all(&desk, names);
            for given in [names, degraded] {
                let what = format!("{create}, {given}, unclean: {unclean}");
                let server = Server::start(&desk, &format!("--read-only {given}")).unwrap();
                assert_eq!(server.said["read_only"], true, "{what}");
                assert_holds(&server, &what);
                let order = say(&desk, &format!("array scrub {given}"));
                assert!(order.code == 2 && order.stderr.contains("is served read-only"), "{what}: {}", order.stderr);
                done(&desk, &format!("array status {given}"));
                let (said, events) = server.stop();
                assert_eq!(said.code, 0, "{what}: {}", said.stderr);
                assert!(said.stderr.contains("nothing was written"), "{what}: {}", said.stderr);
                assert!(events.iter().all(|event| event["event"] != "resync-began"), "{what}: {events:?}");
                assert!(all(&desk, names) == before, "{what}: the members are as they were");
            }
        }
    }
}

#[test]
fn write_protected_block_devices_are_served_read_only() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --size 16MiB a b c");
    let Some(server) = Server::start(&desk, "a b c") else { return };
    fill(&server);
    assert_eq!(server.stop().0.code, 0);
    let before = all(&desk, "a b c");
    let protected = |name: &str| {
        let made = Command::new("losetup").args(["-r", "-f", "--show"]).arg(desk.path().join(name)).output().ok()?;
        made.status.success().then(|| Loop { node: String::from_utf8(made.stdout).unwrap().trim().to_owned() })
    };
    let loops: Option<Vec<Loop>> = ["a", "b", "c"].into_iter().map(protected).collect();
    let Some(loops) = loops else { return common::skip("no loop device can be made here; root could") };
    let nodes = loops.iter().map(|it| it.node.clone()).collect::<Vec<_>>().join(" ");
    let server = Server::start(&desk, &format!("--read-only {nodes}")).unwrap();
    assert_holds(&server, "loop devices");
    assert_eq!(server.stop().0.code, 0);
    // By name among the block devices, and by UUID; a file that is given as well is one of them.
    let status = say(&desk, "array status --json a b c").json();
    let uuid = status["array"].as_str().unwrap().to_owned();
    let found = say(&desk, &format!("array assemble --json --read-only {uuid}")).json();
    assert_eq!(found["arrays"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["arrays"][0]["opens"], true, "{found}");
    let serve = found["arrays"][0]["serve"].as_str().unwrap();
    assert!(serve.contains("--read-only") && loops.iter().all(|it| serve.contains(&it.node)), "{serve}");
    let found = say(&desk, &format!("array assemble --json {uuid} a b c")).json();
    assert_eq!(found["arrays"][0]["devices"].as_array().unwrap().len(), 3, "{found}");
    assert_eq!(found["skipped"].as_array().unwrap().len(), 3, "{found}");
    assert!(all(&desk, "a b c") == before, "nothing was written");
}

#[test]
fn the_command_that_assemble_prints_serves_the_array() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --size 16MiB --name host:home a b c");
    let before = all(&desk, "a b c");
    for words in ["array assemble c a b", "array assemble home c a b", "array assemble host:home b a c"] {
        let text = done(&desk, words);
        assert!(text.contains("  serve it:\n    arraylab array serve --nbd unix:home.sock a b c\n"), "{words}: {text}");
    }
    assert!(all(&desk, "a b c") == before, "nothing was written");
    let Some(server) = Server::start(&desk, "a b c") else { return };
    assert_eq!(server.stop().0.code, 0);
    let served = say(&desk, "array assemble other a b c");
    assert!(served.code == 2 && served.stderr.contains("no array was found; a: it belongs to"), "{}", served.stderr);
    let none = say(&desk, "array assemble");
    assert_eq!(none.code, 2, "{}", none.stderr);
}

/// Has members drop out one after the other, as Linux md would have recorded it: each knows what was until it left, and
/// the last ones know of all.
fn drop_out(desk: &Desk, names: &str, gone: &[(&str, u64)]) {
    for (name, role) in names.split(' ').zip(0u64..) {
        let behind = gone.iter().find(|(other, _)| *other == name).map(|(_, events)| *events);
        let seen = behind.unwrap_or(1000);
        edit(&desk.path().join(name), |it| {
            let events = u64::from_le_bytes(it[200..208].try_into().unwrap()) + seen;
            it[200..208].copy_from_slice(&events.to_le_bytes());
            let fault = names.split(' ').zip(0usize..);
            for (other, number) in fault.filter(|(other, _)| gone.iter().any(|(it, at)| it == other && *at < seen)) {
                assert_ne!((other, number as u64), (name, role));
                it[256 + 2 * number..258 + 2 * number].copy_from_slice(&0xfffeu16.to_le_bytes());
            }
        });
    }
}

/// The command in a text that begins with these words, as somebody would paste it.
fn pasted(text: &str, begin: &str) -> String {
    let from = text.find(begin).unwrap_or_else(|| panic!("no `{begin}`: {text}"));
    let end = text[from..].find(['`', '\n']).map_or(text.len(), |end| from + end);
    text[from..end].trim_start_matches("arraylab ").to_owned()
}

#[test]
fn members_that_dropped_out_are_taken_back_by_the_command_that_the_refusal_names() {
    for (create, names, gone, believed) in [
        ("--level 5 --consistency bitmap", "a b c d", vec![("b", 10), ("d", 20)], "member 3"),
        ("--level 5", "a b c d", vec![("b", 10), ("d", 20)], "member 3"),
        ("--level 6", "a b c d e", vec![("a", 10), ("b", 20), ("e", 30)], "member 4"),
        ("--level 10", "a b c d", vec![("a", 10), ("b", 20)], "member 1"),
        ("--level 5 --integrity", "a b c d", vec![("a", 10), ("c", 20)], "member 2"),
    ] {
        let desk = Desk::new("");
        done(&desk, &format!("array create --size 16MiB {create} {names}"));
        let Some(server) = Server::start(&desk, names) else { return };
        fill(&server);
        assert_eq!(server.stop().0.code, 0);
        drop_out(&desk, names, &gone);
        let before = all(&desk, names);
        for order in ["serve --nbd unix:s.sock", "serve --force --nbd unix:s.sock", "stop --force", "rebuild --force"] {
            let refused = say(&desk, &format!("array {order} {names}"));
            assert_eq!(refused.code, 2, "{create}, {order}: {}", refused.stderr);
            let next = pasted(&refused.stderr, "arraylab array assemble --force");
            assert_eq!(next, format!("array assemble --force {names}"), "{create}, {order}");
        }
        let looked = say(&desk, &format!("array assemble {names}"));
        assert!(looked.code == 1 && looked.stdout.contains("does not open"), "{create}: {}", looked.stdout);
        let next = pasted(&looked.stdout, "arraylab array assemble --force");
        let shown = say(&desk, &next);
        assert_eq!(shown.code, 1, "{create}: {}{}", shown.stdout, shown.stderr);
        for words in [
            &format!("by force {believed} would be taken back"),
            "(stale, stays out)",
            "(stale, would be believed)",
            "may be lost: what was written after",
            "nothing was written",
        ] {
            assert!(shown.stdout.contains(words), "{create}: {words}: {}", shown.stdout);
        }
        assert!(all(&desk, names) == before, "{create}: nothing was written");
        let text = done(&desk, &pasted(&shown.stdout, "arraylab array assemble --force --destroy-data"));
        assert!(text.contains("was taken back") && text.contains("serve it:"), "{create}: {text}");
        let stays_out = gone.iter().filter(|(name, _)| !text.contains(&format!("{name} (was stale")));
        for (name, _) in stays_out.clone() {
            let at = names.split(' ').position(|other| other == *name).unwrap();
            assert!(all(&desk, names)[at] == before[at], "{create}: {name} stays as it was");
        }
        let server = Server::start(&desk, &format!("--read-only {names}")).unwrap();
        assert_holds(&server, create);
        assert_eq!(server.stop().0.code, 0);
        if create.contains("integrity") {
            // The sums are those of before: they were not given up.
            let status = done(&desk, &format!("array examine {names}"));
            assert!(!status.contains("given up"), "{status}");
        }
        let again = say(&desk, &format!("array assemble --force {names}"));
        assert!(again.code == 2 && again.stderr.contains("opens without force"), "{create}: {}", again.stderr);
        for (name, _) in stays_out {
            let others: Vec<&str> = names.split(' ').filter(|other| other != name).collect();
            done(&desk, &format!("array add --device {name} {}", others.join(" ")));
        }
        done(&desk, &format!("array scrub {names}"));
    }
}

#[test]
fn a_spare_and_what_was_being_rebuilt_are_not_taken_back() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --size 16MiB a b c d");
    drop_out(&desk, "a b c d", &[("b", 10), ("d", 20)]);
    for name in ["b", "d"] {
        edit(&desk.path().join(name), |it| {
            it[8] |= 2;
            it[152..160].copy_from_slice(&64u64.to_le_bytes());
        });
    }
    let said = say(&desk, "array assemble --force --destroy-data a b c d");
    assert!(said.code == 2 && said.stderr.contains("not even by force"), "{}{}", said.stdout, said.stderr);
    let mut command = arraylab(&desk, "array assemble --destroy-data a b c d");
    assert_eq!(command.output().unwrap().status.code(), Some(2), "--destroy-data is for --force");
}
