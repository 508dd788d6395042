//! A served array as a service: sockets and a manager that systemd would give it, several signals, a crash and what it
//! leaves behind.

mod common;
#[path = "common/served.rs"]
mod served;

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Desk, Running, of, signal, wait_for};
use device::Device;
use nbd::{Client, Uri};
use served::{Server, again, arraylab, done, orders, say};
use units::Bytes;
use uring::{Live, LiveOptions};

fn array(desk: &Desk) {
    done(desk, "array create --level 5 --stripe-unit 16KiB --size 8MiB a b c");
}

/// How large the export at a URI is.
fn size_at(uri: &str) -> Bytes {
    let live = Live::start(&LiveOptions::default());
    let uri: Uri = uri.parse().unwrap();
    let client = live.runtime().block_on(Client::connect(&live, &uri)).unwrap();
    client.shape().size
}

/// What was said to a manager until now.
fn heard(manager: &UnixDatagram) -> String {
    let mut all = String::new();
    let mut letter = [0; 4096];
    while let Ok(length) = manager.recv(&mut letter) {
        all.push_str(std::str::from_utf8(&letter[..length]).unwrap());
    }
    all
}

/// Starts `array serve` with these sockets as descriptors 3 and 4, which `sh` puts there, as systemd does.
fn activated(desk: &Desk, words: &str, sockets: [OwnedFd; 2], manager: &str) -> Result<Running, String> {
    let program = env!("CARGO_BIN_EXE_arraylab");
    let script = format!(
        "exec 3<&0 4<&2 0</dev/null 2>errors; LISTEN_FDS=2 LISTEN_PID=$$ LISTEN_FDNAMES=one:two exec {program} array serve --nbd systemd {words}"
    );
    let [one, two] = sockets;
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]).current_dir(desk.path()).env("XDG_RUNTIME_DIR", desk.path());
    command.env("NOTIFY_SOCKET", manager).env("WATCHDOG_USEC", "200000");
    command.stdin(Stdio::from(one)).stderr(Stdio::from(two)).stdout(Stdio::piped());
    Ok(Running::of(command.spawn().unwrap()))
}

#[test]
fn sockets_that_are_passed_are_served_and_the_manager_is_told_when_clients_can_connect() {
    let desk = Desk::new("");
    array(&desk);
    let Some(server) = Server::start(&desk, "a b c") else { return };
    assert_eq!(server.stop().0.code, 0);
    for is_abstract in [false, true] {
        let path = desk.path().join("passed.sock");
        let (unix, tcp) = (UnixListener::bind(&path).unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let port = tcp.local_addr().unwrap().port();
        let name = format!("arraylab-test-{}", std::process::id());
        let (manager, named) = if is_abstract {
            let address = SocketAddr::from_abstract_name(&name).unwrap();
            (UnixDatagram::bind_addr(&address).unwrap(), format!("@{name}"))
        } else {
            let path = desk.path().join("notify");
            (UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap().to_owned())
        };
        manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let child = activated(&desk, "--json a b c", [unix.into(), tcp.into()], &named).unwrap();
        let mut letter = [0; 4096];
        let length = manager.recv(&mut letter).unwrap();
        let first = std::str::from_utf8(&letter[..length]).unwrap();
        assert!(first.starts_with("READY=1\nSTATUS=level 5, "), "{first}");
        let by_tcp = size_at(&format!("nbd://127.0.0.1:{port}/"));
        assert!(by_tcp > Bytes::mib(8) && by_tcp == size_at(&format!("nbd+unix:///?socket={}", path.display())));
        std::thread::sleep(Duration::from_millis(500));
        manager.set_nonblocking(true).unwrap();
        assert!(heard(&manager).matches("WATCHDOG=1").count() >= 3);
        // One after the other: none of them cuts off what the first began.
        for name in ["TERM", "TERM", "HUP", "INT"] {
            signal(&child, name);
        }
        let said = of(child.wait_with_output().unwrap());
        let errors = std::fs::read_to_string(desk.path().join("errors")).unwrap();
        assert_eq!(said.code, 0, "{errors}");
        assert!(errors.contains("the array is stopped: clean"), "{errors}");
        assert!(heard(&manager).contains("STOPPING=1\n"));
        // It is whoever passed it who removes it.
        assert!(path.exists());
        std::fs::remove_file(&path).unwrap();
        _ = std::fs::remove_file(desk.path().join("notify"));
    }
}

#[test]
fn sockets_that_were_meant_for_others_or_are_none_are_refused() {
    let desk = Desk::new("");
    array(&desk);
    let refused = |variables: &[(&str, &str)], words: &str, what: &str| {
        let mut command = arraylab(&desk, words);
        command.envs(variables.iter().copied()).stdin(Stdio::null());
        let said = common::said(command);
        assert_eq!(said.code, 2, "{}", said.stderr);
        assert!(said.stderr.contains(what), "{}", said.stderr);
    };
    let words = "array serve --nbd systemd a b c";
    refused(&[], words, "no socket was passed to this program (LISTEN_FDS is not set)");
    refused(&[("LISTEN_FDS", "1"), ("LISTEN_PID", "1")], words, "LISTEN_PID is 1, and this is process");
    refused(&[("LISTEN_FDS", "1")], &format!("{words} --nbd systemd"), "give it once");
    // What other machines can reach is served by TLS only, whoever made the socket.
    let path = desk.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let (unix, tcp) =
        (UnixListener::bind(desk.path().join("p.sock")).unwrap(), TcpListener::bind("0.0.0.0:0").unwrap());
    let child = activated(&desk, "a b c", [unix.into(), tcp.into()], path.to_str().unwrap()).unwrap();
    let said = of(child.wait_with_output().unwrap());
    let errors = std::fs::read_to_string(desk.path().join("errors")).unwrap();
    if errors.contains("io_uring") {
        return common::skip(&errors);
    }
    assert!(said.code == 2 && errors.contains("can be reached from other machines"), "{errors}");
    manager.set_nonblocking(true).unwrap();
    assert_eq!(heard(&manager), "", "nobody is told that it is ready");
}

#[test]
fn a_server_that_was_killed_is_started_again_and_leaves_nothing_behind() {
    let desk = Desk::new("");
    array(&desk);
    let Some(mut server) = Server::start(&desk, "a b c") else { return };
    let control =
        orders(&desk).join(say(&desk, "array examine --json a").json()[0]["array"].as_str().unwrap().replace(':', ""));
    assert!(control.exists(), "{}", control.display());
    // Somebody who wants the same socket is told who has it.
    done(&desk, "array create --level 1 --size 8MiB x y");
    let second = say(&desk, "array serve --nbd unix:s.sock x y");
    let process = format!("a server is listening there (process {})", server.child.id());
    assert!(second.code == 2 && second.stderr.contains(&process), "{}", second.stderr);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    assert!(desk.path().join("s.sock").exists() && control.exists());
    // Its leftovers are removed by any command about the array, and its socket by the next server.
    let is_free = || std::fs::File::open(desk.path().join("a")).unwrap().try_lock().is_ok();
    wait_for("the kernel has let go of the members", is_free);
    wait_for("nobody listens any more", || {
        say(&desk, "array status a b c");
        !control.exists()
    });
    let server = Server::start(&desk, "a b c").unwrap();
    assert!(control.exists());
    size_at(&server.uri());
    let (said, _) = server.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(!control.exists() && !desk.path().join("s.sock").exists());
    // Those of another array, which is never served again, by the next server of any.
    let mut other = again(|| match Server::start(&desk, "x y") {
        Some(server) => Ok(server),
        None => Err("io_uring".into()),
    })
    .unwrap();
    let others =
        orders(&desk).join(say(&desk, "array examine --json x").json()[0]["array"].as_str().unwrap().replace(':', ""));
    assert!(others.exists());
    other.child.kill().unwrap();
    other.child.wait().unwrap();
    wait_for("the kernel has let go of it", || std::os::unix::net::UnixStream::connect(&others).is_err());
    let server = Server::start(&desk, "a b c").unwrap();
    assert!(!others.exists());
    assert_eq!(server.stop().0.code, 0);
}

#[test]
fn a_client_that_never_reads_does_not_keep_the_array_from_being_stopped() {
    use std::io::{Read, Write};
    let desk = Desk::new("");
    array(&desk);
    let Some(server) = Server::start(&desk, "a b c") else { return };
    let mut stream = std::os::unix::net::UnixStream::connect(desk.path().join("s.sock")).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    // The default export, by the oldest option; then reads of a mebibyte.
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    stream.read_exact(&mut [0; 10]).unwrap();
    for _ in 0..50 {
        let read = [&b"\x25\x60\x95\x13\0\0\0\0"[..], &[0; 16], &(1u32 << 20).to_be_bytes()].concat();
        stream.write_all(&read).unwrap();
    }
    std::thread::sleep(Duration::from_millis(300));
    let begin = Instant::now();
    let (said, _) = server.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("the array is stopped: clean"), "{}", said.stderr);
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}
