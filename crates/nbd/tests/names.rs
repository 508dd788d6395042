//! Names of hosts, where no name server answers.
//!
//! The test runs itself once more, in namespaces of its own: there the only name server is a socket of the test, which
//! never says a word. That takes root, and is skipped without.

mod common;

use std::cell::Cell;
use std::net::UdpSocket;
use std::pin::pin;
use std::process::Command;

use common::live;
use futures_util::future::{Either, select};
use nbd::{Client, Uri};
use units::Duration;

const INNER: &str = "ARRAYLAB_TEST_NAMES";
/// What the script exits with where it has no namespaces.
const NOT_HERE: i32 = 77;

#[test]
fn a_name_that_nobody_answers_for_keeps_nobody_else_waiting() {
    let Some(live) = live() else { return };
    if std::env::var_os(INNER).is_none() {
        return in_namespaces("a_name_that_nobody_answers_for_keeps_nobody_else_waiting");
    }
    let _silent = UdpSocket::bind("127.0.0.1:53").unwrap();
    let (uri, within): (Uri, _) = ("nbd://nobody.example/x".parse().unwrap(), Duration::millis(300));
    let turns = Cell::new(0);
    let others = async {
        loop {
            live.runtime().sleep(Duration::millis(10)).await;
            turns.set(turns.get() + 1);
        }
    };
    let begin = live.runtime().now();
    let connecting = pin!(Client::connect_within(&live, &uri, within));
    let error = match live.runtime().block_on(select(connecting, pin!(others))) {
        Either::Left((Err(error), _)) => error.to_string(),
        Either::Left((Ok(_), _)) => panic!("nobody answers"),
        Either::Right(_) => unreachable!("the others go on for ever"),
    };
    assert!(error.contains("no name server has said within 300 ms which address 'nobody.example' has"), "{error}");
    let took = live.runtime().now().since(begin);
    assert!(took < Duration::seconds(3), "the library waits for 10 s, who asked for {took}");
    assert!(turns.get() > 5, "others had {} turns", turns.get());
}

/// Runs a test of this file where there is no network but its own.
fn in_namespaces(test: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (servers, sources) = (folder.path().join("resolv.conf"), folder.path().join("nsswitch.conf"));
    std::fs::write(&servers, "nameserver 127.0.0.1\n").unwrap();
    // A resolver of the machine, such as systemd's, would be reached all the same.
    std::fs::write(&sources, "hosts: files dns\n").unwrap();
    let script = r#"
        { [ ! -e /etc/nsswitch.conf ] || mount --bind "$2" /etc/nsswitch.conf; } &&
        mount --bind "$1" /etc/resolv.conf && ip link set lo up || exit 77
        exec "$3" "$4" --exact"#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "sh", "-c", script, "names"]).args([&servers, &sources]);
    let output = command.arg(std::env::current_exe().unwrap()).arg(test).env(INNER, "1").output();
    match output {
        Ok(output) if output.status.success() => {}
        Ok(output) if output.status.code() != Some(NOT_HERE) && !output.stdout.is_empty() => panic!("{output:?}"),
        missing => println!("skipped: no namespaces: {missing:?}"),
    }
}
