//! `arraylab array serve` with members that are exports of others, as its user meets it: what they do wrong, and who
//! else uses them.

mod common;
#[path = "common/served.rs"]
mod served;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use common::{Desk, Running, names, of, wait_for};
use device::filter::{Effect, Faulty, Rule};
use device::{AnyDevice, Buffer, Data, Device, DeviceError, MemoryDevice, Operation, Request, Shape};
use nbd::{Client, Export, Exports, ServeOptions, Uri};
use serde_json::Value;
use served::{Server, again, arraylab, done, say};
use units::{Bytes, Duration};
use uring::{Listener, Live, LiveOptions};

/// A server of memory that takes what it is given, and gives none of it back for as long as it is told so: its address,
/// and what tells it. It ends with the test.
fn worn_member(desk: &Desk) -> Option<(String, Arc<AtomicBool>)> {
    if let Err(error) = Live::start(&LiveOptions::default()).ring() {
        common::skip(&format!("sockets need io_uring: {error}"));
        return None;
    }
    let (path, worn) = (desk.path().join("a.sock"), Arc::new(AtomicBool::new(false)));
    let (there, told) = (path.clone(), Arc::clone(&worn));
    thread::spawn(move || {
        let live = Live::start(&LiveOptions::default());
        let runtime = live.runtime();
        let memory = MemoryDevice::new(runtime, Shape::new("worn", Bytes::mib(16)));
        let member = Rc::new(Faulty::new(runtime, memory, 1));
        let any = AnyDevice::new(Rc::clone(&member));
        let exports = Exports::new(vec![Export::new("", any, false).unwrap()]).unwrap();
        let Ok(listener) = Listener::unix(&live, &path) else { return };
        runtime.spawn_detached({
            let runtime = runtime.clone();
            async move {
                let until = async |is_worn: bool| {
                    while told.load(Relaxed) != is_worn {
                        runtime.sleep(Duration::millis(5)).await;
                    }
                };
                loop {
                    until(true).await;
                    let medium = DeviceError::Medium { offset: Bytes::ZERO, length: Bytes::SECTOR };
                    let fails = Rule::new(Effect::Fail(medium)).on(Operation::Read);
                    member.add(fails.within(Bytes::mib(4)..Bytes::mib(16)));
                    until(false).await;
                    member.clear_rules();
                }
            }
        });
        let never = std::future::pending();
        runtime.block_on(nbd::serve(runtime, exports, vec![listener], ServeOptions::default(), never));
    });
    wait_for("the member is served", || there.exists());
    Some((socket(desk, "a"), worn))
}

/// A client of a served array.
fn client(live: &Live, server: &Server) -> Client {
    live.runtime().block_on(Client::connect(live, &server.uri().parse::<Uri>().unwrap())).unwrap()
}

fn socket(desk: &Desk, name: &str) -> String {
    format!("nbd+unix:///?socket={}", desk.path().join(format!("{name}.sock")).display())
}

#[test]
fn a_member_that_gives_nothing_back_is_given_up_and_the_reason_said() {
    let desk = Desk::new("");
    let Some((a, worn)) = worn_member(&desk) else { return };
    done(&desk, &format!("array create --level 1 --destroy-data --size 16MiB {a} b"));
    let Some(server) = Server::start(&desk, &format!("{a} b")) else { return };
    let live = Live::start(&LiveOptions::default());
    let reader = client(&live, &server);
    worn.store(true, Relaxed);
    thread::sleep(std::time::Duration::from_millis(100));
    for _ in 0..30 {
        let read = reader.submit(Request::read(Bytes::mib(9), Buffer::zeroed(Bytes::kib(4))));
        assert_eq!(live.runtime().block_on(read).result, Ok(()));
    }
    let why = "its medium could not give 21 reads, most of them within an hour";
    let text = done(&desk, "array status b");
    assert!(text.contains(&format!("missing     -: {why}")), "{text}");
    let status: Value = serde_json::from_str(&done(&desk, "array status --json b")).unwrap();
    assert_eq!(status["served"]["members"][0]["failure"], why, "{status}");
    drop(reader);
    let (said, events) = server.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(names(&events), ["member-failed"], "{events:?}");
    assert_eq!(events[0]["cause"], why);
}

#[test]
fn a_resync_that_could_not_read_all_is_completed_by_a_scrub() {
    let desk = Desk::new("");
    let Some((a, worn)) = worn_member(&desk) else { return };
    done(&desk, &format!("array create --level 4 --consistency resync --destroy-data --size 16MiB {a} b c"));
    let Some(mut server) = Server::start(&desk, &format!("{a} b c")) else { return };
    let live = Live::start(&LiveOptions::default());
    let writer = client(&live, &server);
    let write = writer.submit(Request::write(Bytes::mib(1), block()));
    assert_eq!(live.runtime().block_on(write).result, Ok(()));
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    std::fs::remove_file(desk.path().join("s.sock")).unwrap();
    worn.store(true, Relaxed);
    thread::sleep(std::time::Duration::from_millis(100));
    let server = Server::start(&desk, &format!("{a} b c")).unwrap();
    let status = || serde_json::from_str::<Value>(&done(&desk, "array status --json b c")).unwrap();
    thread::sleep(std::time::Duration::from_millis(500));
    wait_for("the resync has come to its end", || status()["served"]["upkeep"].is_null());
    assert_eq!(status()["clean"], false);
    worn.store(false, Relaxed);
    thread::sleep(std::time::Duration::from_millis(100));
    done(&desk, "array scrub b c");
    wait_for("the members are told", || status()["clean"] == true);
    let (said, events) = server.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(
        names(&events),
        ["resync-began", "resync-failed", "scrub-began", "resync-done", "scrub-done"],
        "{events:?}"
    );
    let cause = events[1]["cause"].as_str().unwrap();
    assert!(cause.contains("cannot be read") && cause.contains("scrub the array then"), "{cause}");
}

/// A member that another `arraylab` serves, at a socket of its name.
fn member(desk: &Desk, name: &str) -> Option<Running> {
    let begin = || {
        let words = format!("serve --json --nbd unix:{name}.sock --destroy-data {name} {name}");
        let mut command = arraylab(desk, &words);
        let mut child = Running::of(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        if first.is_empty() { Err(of(child.wait_with_output().unwrap()).stderr) } else { Ok(child) }
    };
    again(begin)
}

fn block() -> Data {
    let mut buffer = Buffer::zeroed(Bytes::kib(4));
    buffer.bytes_mut().unwrap().fill(7);
    buffer.freeze()
}

#[test]
fn a_member_that_goes_away_and_comes_back_is_spoken_of_and_counted() {
    let desk = Desk::new("");
    desk.file("a", 16 << 20);
    let Some(mut first) = member(&desk, "a") else { return };
    let a = socket(&desk, "a");
    done(&desk, &format!("array create --level 1 --destroy-data --size 16MiB {a} b"));
    let server = Server::start(&desk, &format!("{a} b")).unwrap();
    let live = Live::start(&LiveOptions::default());
    let writer = client(&live, &server);
    let write = || live.runtime().block_on(writer.submit(Request::write(Bytes::ZERO, block()))).result;
    let status = || serde_json::from_str::<Value>(&done(&desk, "array status --json b")).unwrap()["served"].take();
    assert_eq!((write(), &status()["members"][0]["reconnections"]), (Ok(()), &Value::from(0)));
    assert!(!done(&desk, "array status b").contains("connected again"));
    first.kill().unwrap();
    first.wait().unwrap();
    std::fs::remove_file(desk.path().join("a.sock")).unwrap();
    let mut second = None;
    thread::scope(|scope| {
        let starting = scope.spawn(|| {
            thread::sleep(std::time::Duration::from_secs(1));
            member(&desk, "a")
        });
        // It waits until the server is back.
        assert_eq!(write(), Ok(()));
        second = starting.join().unwrap();
    });
    assert_eq!(status()["members"][0]["reconnections"], 1);
    assert!(status()["members"][1]["reconnections"].is_null());
    assert!(done(&desk, "array status b").contains(&format!("{a}, connected again once\n")));
    drop(writer);
    let (said, events) = server.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(names(&events), ["connection-lost", "connection-back"], "{events:?}");
    assert!(events.iter().all(|event| event["device"] == a.as_str()), "{events:?}");
    let away = Duration::nanos(events[1]["away_ns"].as_u64().unwrap());
    assert!(away >= Duration::millis(500) && away < Duration::seconds(25), "{away}");
    assert_eq!(events[1]["times"], 1);
    let mut second = second.unwrap();
    second.kill().unwrap();
    second.wait().unwrap();
}

/// As two machines would, or two users: neither finds the other's control socket.
#[test]
fn of_two_servers_of_one_array_of_exports_only_one_goes_on() {
    let (desk, elsewhere) = (Desk::new(""), Desk::new(""));
    for name in ["a", "b"] {
        desk.file(name, 16 << 20);
    }
    let Some(members) = ["a", "b"].map(|name| member(&desk, name)).into_iter().collect::<Option<Vec<_>>>() else {
        return;
    };
    let [a, b] = ["a", "b"].map(|name| socket(&desk, name));
    done(&desk, &format!("array create --level 1 --destroy-data {a} {b}"));
    let first = Server::start(&desk, &format!("{a} {b}")).unwrap();
    let live = Live::start(&LiveOptions::default());
    let writer = client(&live, &first);
    let write = |to: &Client| {
        let request = Request::write(Bytes::ZERO, block());
        live.runtime().block_on(to.submit(request)).result
    };
    assert_eq!(write(&writer), Ok(()));
    // On one machine root's have one folder for their sockets: each is put aside while the other is meant.
    let orders = |server: &Server| PathBuf::from(server.said["orders"].as_str().unwrap());
    let rename = |from: &Path, to: &Path| std::fs::rename(from, to).unwrap();
    let of_first = orders(&first);
    rename(&of_first, &of_first.with_extension("first"));
    let second = Server::start(&elsewhere, &format!("{a} {b}")).unwrap();
    let of_second = orders(&second);
    rename(&of_second, &of_second.with_extension("second"));
    rename(&of_first.with_extension("first"), &of_first);
    let other = client(&live, &second);
    assert_eq!(write(&other), Ok(()));
    wait_for("the first sees the second", || write(&writer).is_err());
    assert_eq!(write(&other), Ok(()));
    let text = done(&desk, &format!("array status {a}"));
    assert!(text.contains("another server has this array's members, and opened them at 2"), "{text}");
    // Nor does anybody else get between the second and its members.
    let refused = say(&desk, &format!("array stop {a} {b}"));
    assert_ne!(refused.code, 0, "{}", refused.stdout);
    let (said, events) = first.stop();
    assert_eq!(said.code, 3, "{}", said.stderr);
    assert!(said.stderr.contains("another server has this array's members"), "{}", said.stderr);
    assert_eq!(names(&events).iter().filter(|name| **name == "rival").count(), 1, "{events:?}");
    rename(&of_second.with_extension("second"), &of_second);
    assert_eq!(write(&other), Ok(()));
    let (said, events) = second.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(!names(&events).contains(&"rival"), "{events:?}");
    done(&desk, &format!("array scrub {a} {b}"));
    for mut member in members {
        _ = member.kill();
        _ = member.wait();
    }
}
