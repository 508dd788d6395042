//! `arraylab array serve` with members on other machines that come back as something else: nothing of them is believed,
//! and nothing is written to them.

mod common;
#[path = "common/served.rs"]
mod served;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use common::{Desk, Running, names, of, peer, signal, wait_for};
use device::{Buffer, Data, Device, Request};
use nbd::{Client, Uri};
use serde_json::Value;
use served::{Server, again, arraylab, done};
use units::Bytes;
use uring::{Live, LiveOptions};

fn socket(desk: &Desk, name: &str) -> String {
    format!("nbd+unix:///?socket={}", desk.path().join(format!("{name}.sock")).display())
}

/// A file that another `arraylab` serves, at a socket of this name.
fn export(desk: &Desk, name: &str, file: &str) -> Option<Running> {
    _ = std::fs::remove_file(desk.path().join(format!("{name}.sock")));
    again(|| {
        let words = format!("serve --json --nbd unix:{name}.sock --destroy-data {file} {file}");
        let mut child =
            Running::of(arraylab(desk, &words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        if first.is_empty() { Err(of(child.wait_with_output().unwrap()).stderr) } else { Ok(child) }
    })
}

fn end(mut child: Running) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn pattern(value: u8) -> Data {
    let mut buffer = Buffer::zeroed(Bytes::mib(1));
    buffer.bytes_mut().unwrap().fill(value);
    buffer.freeze()
}

/// A client of a served array.
struct Reader(Live, Client);

impl Reader {
    fn of(server: &Server) -> Reader {
        let live = Live::start(&LiveOptions::default());
        let client = live.runtime().block_on(Client::connect(&live, &server.uri().parse::<Uri>().unwrap())).unwrap();
        Reader(live, client)
    }

    /// Fills the first eight MiB, durably.
    fn write(&self, value: u8) {
        for mib in 0..8 {
            let write = self.1.submit(Request::write(Bytes::mib(mib), pattern(value)));
            assert_eq!(self.0.runtime().block_on(write).result, Ok(()));
        }
        assert_eq!(self.0.runtime().block_on(self.1.submit(Request::flush())).result, Ok(()));
    }

    fn expect(&self, value: u8) {
        for mib in 0..8 {
            let read = self.1.submit(Request::read(Bytes::mib(mib), Buffer::zeroed(Bytes::mib(1))));
            let reply = self.0.runtime().block_on(read);
            assert_eq!(reply.result, Ok(()));
            assert_eq!(reply.buffer.unwrap().bytes(), pattern(value).bytes(), "at {mib} MiB");
        }
    }
}

fn exchanged(events: &[Value]) -> String {
    let event = events.iter().find(|event| event["event"] == "member-exchanged");
    event.unwrap_or_else(|| panic!("{events:?}"))["difference"].as_str().unwrap().to_owned()
}

#[test]
fn an_older_copy_of_a_member_or_another_member_in_its_place_is_failed_and_left_as_it_is() {
    let cases = [
        ("--level 5", "b c", "a", "older"),
        ("--level 1 --integrity", "b", "a", "older"),
        ("--level 6", "b c d", "a", "other"),
        ("--level 10 --consistency resync", "b c", "a", "other"),
    ];
    for (options, rest, name, kind) in cases {
        let desk = Desk::new("");
        desk.file("a", 24 << 20);
        let Some(first) = export(&desk, "a", "a") else { return };
        let a = socket(&desk, name);
        done(&desk, &format!("array create {options} --destroy-data --size 24MiB {a} {rest}"));
        let server = Server::start(&desk, &format!("{a} {rest}")).unwrap();
        let reader = Reader::of(&server);
        reader.write(1);
        // A copy of itself from before the next write; or of another member from after it, so that only its name is
        // wrong.
        let copied = |from: &str| std::fs::copy(desk.path().join(from), desk.path().join("copy")).unwrap();
        if kind == "older" {
            copied("a");
        }
        reader.write(2);
        end(first);
        if kind == "other" {
            copied("b");
        }
        let before = std::fs::read(desk.path().join("copy")).unwrap();
        let second = export(&desk, "a", "copy").unwrap();
        reader.expect(2);
        reader.write(3);
        reader.expect(3);
        assert!(std::fs::read(desk.path().join("copy")).unwrap() == before, "{options}: the copy was written to");
        let status: Value = serde_json::from_str(&done(&desk, &format!("array status --json {rest}"))).unwrap();
        assert_eq!(status["served"]["members"][0]["failure"], "the device came back with other contents", "{status}");
        drop(reader);
        let (said, events) = server.stop();
        assert_eq!(said.code, 0, "{}", said.stderr);
        let difference = exchanged(&events);
        match kind {
            "older" => assert!(difference.contains("older copy"), "{options}: {difference}"),
            _ => assert!(difference.starts_with("it is device "), "{options}: {difference}"),
        }
        end(second);
    }
}

/// nbdkit with `memory`, which has nothing in it when it is started.
fn memory(desk: &Desk) -> Running {
    let path = desk.path().join("k.sock");
    _ = std::fs::remove_file(&path);
    let mut nbdkit = Command::new("nbdkit");
    let child = Running::of(nbdkit.args(["-f", "-U"]).arg(&path).args(["memory", "40M"]).spawn().unwrap());
    wait_for("nbdkit listens", || path.exists());
    child
}

#[test]
fn a_member_spare_or_journal_whose_server_is_started_anew_with_nothing_is_given_up() {
    if !peer("nbdkit", &["--version"]) {
        return;
    }
    let cases = [
        ("--level 5", "a b", ""),
        ("--level 1 --integrity", "a", ""),
        ("--level 10", "a b c", ""),
        ("--level 5", "a b c", "--spare"),
        ("--level 5", "a b c", "--journal"),
    ];
    for (options, rest, role) in cases {
        let desk = Desk::new("");
        let first = memory(&desk);
        let k = socket(&desk, "k");
        done(&desk, &format!("array create {options} --destroy-data --size 40MiB {rest} {role} {k}"));
        let Some(server) = Server::start(&desk, &format!("{rest} {k}")) else { return end(first) };
        let reader = Reader::of(&server);
        reader.write(7);
        end(first);
        let second = memory(&desk);
        reader.expect(7);
        if role == "--journal" {
            // As in md: without its journal an array writes nothing any more.
            let write = reader.1.submit(Request::write(Bytes::ZERO, pattern(8)));
            assert_eq!(reader.0.runtime().block_on(write).result, Err(device::DeviceError::ReadOnly));
            reader.expect(7);
        } else {
            reader.write(8);
            reader.expect(8);
        }
        drop(reader);
        let (said, events) = server.stop();
        assert_eq!(said.code, 0, "{}", said.stderr);
        // A spare has no part in the array that could fail.
        let failed = names(&events).iter().any(|name| name.ends_with("-failed"));
        assert!(failed || role == "--spare", "{options} {role}: {events:?}");
        let difference = exchanged(&events);
        assert!(difference.starts_with("its superblock is not there"), "{difference}");
        // Not one byte was written to it.
        let live = Live::start(&LiveOptions::default());
        let export = live.runtime().block_on(Client::connect(&live, &k.parse::<Uri>().unwrap())).unwrap();
        for mib in 0..40 {
            let read = export.submit(Request::read(Bytes::mib(mib), Buffer::zeroed(Bytes::mib(1))));
            let reply = live.runtime().block_on(read);
            assert_eq!(reply.buffer.unwrap().bytes(), pattern(0).bytes(), "{options}: at {mib} MiB");
        }
        drop(export);
        signal(&second, "TERM");
        end(second);
    }
}
