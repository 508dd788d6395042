//! `arraylab array serve` with members that are exports of others, as its user meets it: what they do wrong, and who else uses them.

mod common;
#[path = "common/served.rs"]
mod served;

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use common::{Desk, names, wait_for};
use device::filter::{Effect, Faulty, Rule};
use device::{AnyDevice, Buffer, Device, DeviceError, MemoryDevice, Operation, Request, Shape};
use nbd::{Client, Export, Exports, ServeOptions, Uri};
use serde_json::Value;
use served::{Server, done, say};
use units::{Bytes, Duration};
use uring::{Listener, Live, LiveOptions};

/// A server of memory that takes what it is given, and gives none of it back from the moment on that it is told; it ends with the test.
fn worn_member(path: &Path) -> Arc<AtomicBool> {
    let (path, worn) = (path.to_owned(), Arc::new(AtomicBool::new(false)));
    let told = Arc::clone(&worn);
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
                while !told.load(Relaxed) {
                    runtime.sleep(Duration::millis(5)).await;
                }
                let medium = DeviceError::Medium { offset: Bytes::ZERO, length: Bytes::SECTOR };
                member.add(Rule::new(Effect::Fail(medium)).on(Operation::Read).within(Bytes::mib(4)..Bytes::mib(16)));
            }
        });
        let never = std::future::pending();
        runtime.block_on(nbd::serve(runtime, exports, vec![listener], ServeOptions::default(), never));
    });
    worn
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
    let worn = worn_member(&desk.path().join("a.sock"));
    let a = socket(&desk, "a");
    if let Err(error) = Live::start(&LiveOptions::default()).ring() {
        return common::skip(&format!("sockets need io_uring: {error}"));
    }
    wait_for("the member is served", || desk.path().join("a.sock").exists());
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
