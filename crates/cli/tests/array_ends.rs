//! What a served array leaves when its server is ended in the middle of an upkeep, where the next one goes on; and when
//! it is killed: an array that was not stopped, of which nobody should forget a member.

mod common;
#[path = "common/served.rs"]
mod served;

use std::cell::Cell;
use std::process::Stdio;

use common::{Desk, names, of, signal, wait_for};
use device::{Buffer, Device, Request};
use nbd::Client;
use serde_json::{Value, json};
use served::{Server, done, say};
use units::Bytes;
use uring::{Live, LiveOptions};

/// How far the upkeep of this name is that the server is at.
fn done_bytes(desk: &Desk, members: &str, what: &str) -> Option<u64> {
    let status: Value = serde_json::from_str(&done(desk, &format!("array status --json {members}"))).unwrap();
    let upkeep = &status["served"]["upkeep"];
    upkeep["done_bytes"].as_u64().filter(|done| upkeep["what"] == what && *done > 0)
}

/// How far it is when it is first seen again.
fn goes_on_at(desk: &Desk, members: &str, what: &str) -> u64 {
    let first = Cell::new(None);
    wait_for("it goes on", || {
        first.set(done_bytes(desk, members, what));
        first.get().is_some()
    });
    first.get().expect("it was waited for")
}

/// A field of what a member says of itself.
fn said_by(desk: &Desk, member: &str, field: &str) -> u64 {
    say(desk, &format!("array examine --json {member}")).json()[0][field].as_u64().unwrap()
}

/// Leaves an array that was not stopped.
fn killed_after_a_write(desk: &Desk, mut server: Server) {
    let live = Live::start(&LiveOptions::default());
    let client = live.runtime().block_on(Client::connect(&live, &server.uri().parse().unwrap())).unwrap();
    let written = Request::write(Bytes::ZERO, Buffer::zeroed(Bytes::kib(4)).freeze());
    live.runtime().block_on(client.submit(written)).result.unwrap();
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    std::fs::remove_file(desk.path().join("s.sock")).unwrap();
    let is_free = || std::fs::File::open(desk.path().join("a")).unwrap().try_lock().is_ok();
    wait_for("the kernel has let go of the members", is_free);
}

#[test]
fn a_resync_goes_on_where_the_end_of_its_server_met_it() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --consistency resync --stripe-unit 16KiB --size 16MiB a b c");
    let Some(server) = Server::start(&desk, "a b c") else { return };
    killed_after_a_write(&desk, server);
    let server = Server::start(&desk, "a b c --rate 500kB/s").unwrap();
    wait_for("the resync is under way", || done_bytes(&desk, "a", "resync") > Some(200_000));
    let (said, events) = server.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(names(&events), ["resync-began", "resync-failed"], "{events:?}");
    assert_eq!(events[1]["cause"], "it was ended; the next start goes on");
    let mark = said_by(&desk, "a", "fits_up_to_bytes");
    assert!(mark >= 100_000, "{mark} bytes of each member are said to fit");
    let server = Server::start(&desk, "a b c --rate 100kB/s").unwrap();
    let first = goes_on_at(&desk, "a", "resync");
    assert!(first >= 2 * mark, "it goes on at {first}, and {mark} bytes of each of two members' data fitted");
    assert_eq!(server.stop().0.code, 0);
}

#[test]
fn a_rebuild_that_the_server_began_by_itself_goes_on_where_its_end_met_it() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --stripe-unit 16KiB --spare s --size 16MiB a b c");
    let Some(server) = Server::start(&desk, "a b c s --rate 500kB/s") else { return };
    done(&desk, "array fail --member b a");
    wait_for("the rebuild is under way", || done_bytes(&desk, "a", "rebuild") > Some(100_000));
    let (said, events) = server.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(names(&events), ["member-failed", "rebuild-began", "rebuild-failed"], "{events:?}");
    let mark = said_by(&desk, "s", "rebuilt_bytes");
    assert!(mark >= 100_000, "{mark} bytes are said to be rebuilt");
    let server = Server::start(&desk, "a c s --rate 100kB/s").unwrap();
    let first = goes_on_at(&desk, "a", "rebuild");
    assert!(first >= mark, "it goes on at {first}, and {mark} bytes were rebuilt");
    assert_eq!(server.stop().0.code, 0);
}

/// Whoever has asked for it may go: it is the server's.
#[test]
fn ctrl_c_ends_the_watching_of_what_a_server_does_and_fail_ends_that() {
    let desk = Desk::new("");
    done(&desk, "array create --level 1 --size 8MiB a b");
    let Some(server) = Server::start(&desk, "a b") else { return };
    for (order, what) in [("replace --member b --onto c", "replacement"), ("rebuild --onto d", "rebuild")] {
        if what == "rebuild" {
            done(&desk, "array fail --member b a");
        }
        let mut command = served::arraylab(&desk, &format!("array {order} --size 8MiB --rate 1MB/s a"));
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for("it is under way", || done_bytes(&desk, "a", what).is_some());
        signal(&command, "INT");
        let said = of(command.wait_with_output().unwrap());
        let words = "ending the watch; the server goes on (Ctrl-C again: end at once)\nerror: no longer watched; the server goes on: ";
        assert!(said.code == 3 && said.stderr.starts_with(words), "{said:?}");
        let before = done_bytes(&desk, "a", what).unwrap();
        wait_for("it goes on", || done_bytes(&desk, "a", what) > Some(before));
        let new = if what == "rebuild" { "d" } else { "c" };
        done(&desk, &format!("array fail --member {new} a"));
        wait_for("it has ended", || done_bytes(&desk, "a", what).is_none());
    }
    let (said, events) = server.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    let expected =
        ["replace-began", "replace-failed", "member-failed", "rebuild-began", "member-failed", "rebuild-failed"];
    let mut found = names(&events);
    // Which of the two is told first is chance.
    found[4..].sort_unstable();
    assert_eq!(found, expected, "{events:?}");
}

#[test]
fn a_member_that_was_forgotten_is_not_recorded_as_missing_by_a_command_that_is_refused() {
    for array in ["--level 5", "--level 1", "--level 5 --journal j"] {
        let desk = Desk::new("");
        done(&desk, &format!("array create {array} --size 8MiB a b c"));
        let journal = if array.contains("journal") { "j" } else { "" };
        let Some(server) = Server::start(&desk, &format!("a b c {journal}")) else { return };
        killed_after_a_write(&desk, server);
        let events = said_by(&desk, "a", "events");
        for command in ["fail --member x", "scrub", "grow", "replace --member x --onto y --size 8MiB", "add --device y"]
        {
            let refused = say(&desk, &format!("array {command} a b {journal}"));
            let why = "member 2 was not named, and the array ";
            assert!(
                refused.code == 2 && refused.stderr.starts_with("error: ") && refused.stderr.contains(why),
                "{refused:?}"
            );
            assert_eq!(said_by(&desk, "a", "events"), events, "{array}: {command}");
        }
        assert!(!desk.path().join("y").exists());
        let stopped = say(&desk, &format!("array stop --json a b c {journal}"));
        assert_eq!(stopped.json()["not_whole"], json!([]), "{stopped:?}");
        // What is for an array that lacks members goes on without, and says so.
        let stopped = say(&desk, &format!("array stop a b {journal}"));
        let without = "member 2 is not among the devices named, and the array is opened without it\n";
        assert!(stopped.code == 0 && stopped.stderr == without, "{stopped:?}");
    }
}

#[test]
fn what_joins_an_array_whose_resync_is_ended_then_says_that_it_is_not_finished() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --consistency resync --stripe-unit 16KiB --size 16MiB a b c");
    let Some(server) = Server::start(&desk, "a b c") else { return };
    killed_after_a_write(&desk, server);
    let mut add = served::arraylab(&desk, "array add --device d --size 16MiB --rate 100kB/s --json a b c");
    let add = add.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("it is a spare", || {
        let said = say(&desk, "array examine --json d");
        said.code == 0 && said.json()[0]["role"] == "spare"
    });
    signal(&add, "INT");
    let said = of(add.wait_with_output().unwrap());
    assert_eq!(said.code, 3, "{said:?}");
    let added = said.json();
    assert_eq!((&added["interrupted"], &added["member"], &added["clean"]), (&json!(true), &json!(null), &json!(false)));
    done(&desk, "array stop a b c d");
}
