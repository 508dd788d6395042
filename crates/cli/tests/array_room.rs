//! `arraylab array serve` over sparse files on a file system that fills: the writer is told, nobody fails, and with
//! room again all goes on.

mod common;
#[path = "common/served.rs"]
mod served;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Desk, is_root, names, skip};
use device::{Buffer, Data, Device, DeviceError, Request};
use nbd::{Client, Uri};
use serde_json::Value;
use served::{Server, done};
use units::Bytes;
use uring::{Live, LiveOptions};

/// A small file system in memory, until it is dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn at(path: &Path, size: &str) -> Option<Mounted> {
        if !is_root() {
            skip("a file system is mounted by root");
            return None;
        }
        std::fs::create_dir(path).unwrap();
        let options = format!("size={size}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "none"]).arg(path).output().unwrap();
        if !mounted.status.success() {
            skip(&format!("mount: {}", String::from_utf8_lossy(&mounted.stderr)));
            return None;
        }
        Some(Mounted(path.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn pattern(value: u8) -> Data {
    let mut buffer = Buffer::zeroed(Bytes::mib(1));
    buffer.bytes_mut().unwrap().fill(value);
    buffer.freeze()
}

fn fill(options: &str, members: &str, needs: u64) {
    let desk = Desk::new("");
    let Some(mounted) = Mounted::at(&desk.path().join("fs"), &format!("{needs}M")) else { return };
    let members: Vec<String> = members.split(' ').map(|name| format!("fs/{name}")).collect();
    let members = members.join(" ");
    // The files are named with all their room, of which there is none: sparse ones are made first.
    for member in members.split(' ') {
        let file = std::fs::File::create(desk.path().join(member)).unwrap();
        file.set_len(64 << 20).unwrap();
    }
    done(&desk, &format!("array create {options} --destroy-data {members}"));
    let Some(server) = Server::start(&desk, &members) else { return };
    let live = Live::start(&LiveOptions::default());
    let client = live.runtime().block_on(Client::connect(&live, &server.uri().parse::<Uri>().unwrap())).unwrap();
    let write = |mib: u64, value: u8| {
        live.runtime().block_on(client.submit(Request::write(Bytes::mib(mib), pattern(value)))).result
    };
    let read = |mib: u64| {
        let reply =
            live.runtime().block_on(client.submit(Request::read(Bytes::mib(mib), Buffer::zeroed(Bytes::mib(1)))));
        assert_eq!(reply.result, Ok(()), "{options}: at {mib} MiB");
        reply.buffer.unwrap().bytes().unwrap().to_vec()
    };
    // Until it is full, and on, over room that it has and room that it has not.
    let mut stored = Vec::new();
    let mut refused = 0;
    for mib in 0..48 {
        match write(mib, mib as u8 + 1) {
            Ok(()) => stored.push(mib),
            Err(DeviceError::NoSpace) => refused += 1,
            Err(error) => panic!("{options}: at {mib} MiB: {error}"),
        }
    }
    assert!(refused > 0 && stored.len() > 4, "{options}: {stored:?}, {refused} refused");
    for mib in &stored {
        assert_eq!(read(*mib), pattern(*mib as u8 + 1).bytes().unwrap(), "{options}: at {mib} MiB");
    }
    assert_eq!(live.runtime().block_on(client.submit(Request::flush())).result, Ok(()), "{options}");
    let first = stored[0];
    assert_eq!(write(first, 99), Ok(()), "{options}: what has its room is written over");
    let status: Value = serde_json::from_str(&done(&desk, &format!("array status --json {members}"))).unwrap();
    assert_eq!(status["not_whole"], Value::Array(Vec::new()), "{options}: {status}");
    // With room again nobody has to start anything anew.
    let room = Command::new("mount").args(["-o", "remount,size=1G"]).arg(&mounted.0).status().unwrap();
    assert!(room.success());
    for mib in 0..48 {
        assert_eq!(write(mib, mib as u8 + 101), Ok(()), "{options}: at {mib} MiB, with room");
    }
    for mib in 0..48 {
        assert_eq!(read(mib), pattern(mib as u8 + 101).bytes().unwrap(), "{options}: at {mib} MiB");
    }
    drop(client);
    let (said, events) = server.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(!names(&events).contains(&"member-failed"), "{options}: {events:?}");
    let scrubbed: Value = serde_json::from_str(&done(&desk, &format!("array scrub --json {members}"))).unwrap();
    assert_eq!((&scrubbed["mismatches"], &scrubbed["unreadable"]), (&0.into(), &0.into()), "{options}: {scrubbed}");
}

#[test]
fn copies_on_a_file_system_that_fills_stay_whole() {
    fill("--level 1", "a b", 40);
    fill("--level 10 --integrity", "a b c", 48);
}

#[test]
fn parity_on_a_file_system_that_fills_stays_whole() {
    fill("--level 5", "a b c", 40);
    fill("--level 5 --consistency bitmap --integrity", "a b c d", 56);
    fill("--level 6", "a b c d", 64);
}
