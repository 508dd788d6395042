//! A served array: `arraylab array serve` as a process, and the commands that are sent to it.
#![allow(dead_code)] // each test file uses its part

use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::common::{self, Desk, Running, Said, of, signal, skip};

/// Starts a server, again if need be: the kernel takes back the ring of one that was killed, and with it the locks, in
/// its own time. `None`, and said, where there is no ring.
pub fn again<T>(start: impl Fn() -> Result<T, String>) -> Option<T> {
    for _ in 0..600 {
        match start() {
            Ok(server) => return Some(server),
            Err(error) if error.contains("is locked by another program") => {
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            Err(error) => {
                assert!(error.contains("io_uring"), "{error}");
                skip(&error);
                return None;
            }
        }
    }
    panic!("the lock of a server that was killed is still held after a minute");
}

/// A server of an array, and what it says while it serves.
pub struct Server {
    pub child: Running,
    pub said: Value,
    pub events: std::thread::JoinHandle<Vec<Value>>,
}

/// The folder of the sockets by which served arrays are found: root has one, others' is the test's own. Identities are
/// no two arrays'.
pub fn orders(desk: &Desk) -> PathBuf {
    let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if root { "/run/arraylab".into() } else { desk.path().join("arraylab") }
}

/// `arraylab`, with a folder of its own for these sockets, but for root.
pub fn arraylab(desk: &Desk, words: &str) -> Command {
    let mut command = desk.command(&words.split_whitespace().collect::<Vec<_>>());
    command.env("XDG_RUNTIME_DIR", desk.path());
    command
}

pub fn say(desk: &Desk, words: &str) -> Said {
    common::said(arraylab(desk, words))
}

pub fn done(desk: &Desk, words: &str) -> String {
    let said = say(desk, words);
    assert_eq!(said.code, 0, "{words}: {}{}", said.stdout, said.stderr);
    said.stdout
}

fn serving(words: &str) -> String {
    format!("array serve --json --nbd unix:s.sock {words}")
}

impl Server {
    /// Serves at `s.sock`; `None`, and said, where there is no ring.
    pub fn start(desk: &Desk, words: &str) -> Option<Server> {
        again(|| Server::begin(arraylab(desk, &serving(words))))
    }

    /// As [`Server::start`], by whoever has no session.
    pub fn start_without_session(desk: &Desk, words: &str) -> Option<Server> {
        again(|| {
            let mut command = arraylab(desk, &serving(words));
            command.env_remove("XDG_RUNTIME_DIR");
            Server::begin(command)
        })
    }

    fn begin(mut command: Command) -> Result<Server, String> {
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = Running::of(command.spawn().unwrap());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut document = String::new();
        // The first document ends with a brace of its own.
        for line in lines.by_ref().map_while(Result::ok) {
            document.push_str(&line);
            if line == "}" {
                break;
            }
        }
        if document.is_empty() {
            return Err(of(child.wait_with_output().unwrap()).stderr);
        }
        let said = serde_json::from_str(&document).unwrap();
        let events = std::thread::spawn(move || {
            lines.map_while(Result::ok).map(|line| serde_json::from_str(&line).unwrap()).collect()
        });
        Ok(Server { child, said, events })
    }

    pub fn uri(&self) -> String {
        self.said["uris"][0].as_str().unwrap().to_owned()
    }

    /// Ends it as `kill` does; what it said then, and the events.
    pub fn stop(self) -> (Said, Vec<Value>) {
        signal(&self.child, "TERM");
        (of(self.child.wait_with_output().unwrap()), self.events.join().unwrap())
    }
}
