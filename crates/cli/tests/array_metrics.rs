//! What a served array says to Prometheus and to node_exporter, and to a program that knows mdadm's events.

mod common;
#[path = "common/served.rs"]
mod served;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use common::{Desk, wait_for};
use device::{Buffer, Device, Request};
use nbd::Client;
use served::{Server, done, say};
use units::Bytes;
use uring::{Live, LiveOptions};

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// Status line and body.
fn get(address: &str) -> std::io::Result<(String, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    Ok((head.lines().next().unwrap_or_default().to_owned(), body.to_owned()))
}

/// The value of a sample; its name with its labels.
fn value(document: &str, sample: &str) -> Option<f64> {
    let line = document.lines().find(|line| line.strip_prefix(sample).is_some_and(|rest| rest.starts_with(' ')))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// What a reader of the format would refuse.
fn check(document: &str) {
    let mut seen = Vec::new();
    let mut family = String::new();
    for line in document.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            family = rest.split(' ').next().unwrap().to_owned();
            assert!(!seen.contains(&family), "{family} twice");
            seen.push(family.clone());
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            assert_eq!(rest.split(' ').next().unwrap(), family);
        } else {
            assert!(line.starts_with(&family), "{line} is not of {family}");
            line.rsplit(' ').next().unwrap().parse::<f64>().unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }
}

fn write(server: &Server) {
    let live = Live::start(&LiveOptions::default());
    let client = live.runtime().block_on(Client::connect(&live, &server.uri().parse().unwrap())).unwrap();
    let request = Request::write(Bytes::ZERO, Buffer::zeroed(Bytes::kib(64)).freeze());
    live.runtime().block_on(client.submit(request)).result.unwrap();
}

#[test]
fn an_array_is_told_of_as_node_exporter_tells_of_md_and_by_what_its_clients_do() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --stripe-unit 16KiB --size 16MiB a b c");
    let address = free_address();
    let words = format!("a b c --rate 1MB/s --metrics {address} --metrics-file m.prom --metrics-interval 1s");
    let Some(server) = Server::start(&desk, &words) else { return };
    let (status, first) = get(&address).unwrap();
    assert_eq!(status, "HTTP/1.1 200 OK");
    check(&first);
    let device = first.lines().find(|line| line.starts_with("node_md_blocks{")).unwrap();
    let device = device.split('"').nth(1).unwrap();
    let md = |document: &str, name: &str, state: &str| {
        let state = if state.is_empty() { String::new() } else { format!(",state=\"{state}\"") };
        value(document, &format!("{name}{{device=\"{device}\"{state}}}")).unwrap()
    };
    for line in [
        "# HELP node_md_disks Number of active/failed/spare disks of device.",
        "# TYPE node_md_disks gauge",
        "# HELP node_md_disks_required Total number of disks of device.",
        "# HELP node_md_state Indicates the state of md-device.",
        "# HELP node_md_blocks Total number of blocks on device.",
        "# HELP node_md_blocks_synced Number of blocks synced on device.",
        "# HELP node_md_degraded Number of degraded disks on device.",
    ] {
        assert!(first.lines().any(|found| found == line), "{line}\n{first}");
    }
    assert_eq!((md(&first, "node_md_disks", "active"), md(&first, "node_md_disks_required", "")), (3.0, 3.0));
    assert_eq!(md(&first, "node_md_state", "active"), 1.0);
    assert_eq!(md(&first, "node_md_blocks", ""), server.said["size_bytes"].as_u64().unwrap() as f64 / 1024.0);
    write(&server);
    let wrote = |document: &str| {
        let of = |name: &str| value(document, &format!("{name}{{device=\"{device}\",operation=\"write\"}}")).unwrap();
        (of("arraylab_array_requests_total"), of("arraylab_array_bytes_total"))
    };
    wait_for("the write is counted", || wrote(&get(&address).unwrap().1) == (1.0, 65536.0));
    let (_, document) = get(&address).unwrap();
    check(&document);
    let count = format!("arraylab_array_request_duration_seconds_count{{device=\"{device}\",operation=\"write\"}}");
    assert_eq!(value(&document, &count), Some(1.0));
    let member =
        format!("arraylab_array_member_bytes_total{{device=\"{device}\",member=\"0\",path=\"a\",operation=\"write\"}}");
    assert!(value(&document, &member).unwrap() > 0.0, "{document}");
    // A failed member, and its rebuild.
    done(&desk, "array fail --member b a");
    wait_for("it is degraded", || md(&get(&address).unwrap().1, "node_md_degraded", "") == 1.0);
    let (_, document) = get(&address).unwrap();
    assert_eq!((md(&document, "node_md_disks", "failed"), md(&document, "node_md_disks", "active")), (1.0, 2.0));
    let file = desk.path().join("m.prom");
    let in_file = || md(&std::fs::read_to_string(&file).unwrap(), "node_md_degraded", "") == 1.0;
    wait_for("the file says so, too", in_file);
    let rebuild = served::arraylab(&desk, "array rebuild --onto d --size 17MiB a c")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_for("it is recovering", || {
        let (_, document) = get(&address).unwrap();
        check(&document);
        md(&document, "node_md_state", "recovering") == 1.0 && md(&document, "node_md_blocks_synced", "") > 0.0
    });
    let (said, _) = server.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    drop(common::of(rebuild.wait_with_output().unwrap()));
    assert!(!file.exists(), "an array that is served no more has no metrics");
}

#[test]
fn whoever_asks_wrongly_or_slowly_keeps_nobody_from_the_metrics_or_the_array() {
    let desk = Desk::new("");
    done(&desk, "array create --level 1 --size 8MiB a b");
    let address = free_address();
    let Some(server) = Server::start(&desk, &format!("a b --metrics {address}")) else { return };
    let ask = |request: &[u8]| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = Vec::new();
        _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    assert!(ask(b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    assert!(ask(b"GET /etc/passwd HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(ask(b"\xff\xfe\0\r\n\r\n").starts_with("HTTP/1.1 405 "));
    ask(&[b'x'; 40_000]);
    // Half as many as there is room for, a byte now and then; and as many as one likes at once.
    let mut slow: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let begin = Instant::now();
    assert_eq!(get(&address).unwrap().0, "HTTP/1.1 200 OK");
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    let scrapes: Vec<_> = (0..6)
        .map(|_| {
            let address = address.clone();
            std::thread::spawn(move || {
                (0..20).map(|_| get(&address).unwrap().0).filter(|it| it.contains("200")).count()
            })
        })
        .collect();
    assert!(scrapes.into_iter().all(|scrape| scrape.join().unwrap() == 20));
    write(&server);
    while begin.elapsed() < Duration::from_secs(6) {
        slow.iter_mut().for_each(|stream| drop(stream.write_all(b"G")));
        std::thread::sleep(Duration::from_millis(300));
    }
    let ended = slow.iter_mut().all(|stream| {
        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        !matches!(stream.read(&mut [0; 1]), Ok(1..))
            && stream.write_all(b"G").and_then(|()| stream.write_all(b"G")).is_err()
    });
    assert!(ended, "they have had their time");
    // More than there is room for.
    let _crowd: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(&address).unwrap()).collect();
    write(&server);
    wait_for("they are gone", || get(&address).is_ok_and(|(status, _)| status.contains("200")));
    assert_eq!(server.stop().0.code, 0);
    let said = say(&desk, "array serve --nbd unix:s.sock --metrics-file m.txt a b");
    assert!(said.code == 2 && said.stderr.contains("files that end in .prom"), "{}", said.stderr);
}

/// A script of the desk that appends what it is told to `told`.
fn script(desk: &Desk, more: &str) {
    desk.write("hook", &format!("#!/bin/sh\necho \"$@\" >> told\n{more}\n"));
    std::fs::set_permissions(desk.path().join("hook"), std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn told(desk: &Desk) -> Vec<String> {
    let told = std::fs::read_to_string(desk.path().join("told")).unwrap_or_default();
    told.lines().map(ToOwned::to_owned).collect()
}

#[test]
fn a_program_is_told_of_events_by_the_words_of_mdadm_in_their_order() {
    let desk = Desk::new("");
    done(&desk, "array create --level 5 --stripe-unit 16KiB --size 16MiB a b c");
    script(&desk, "echo on stdout; test -z \"$NOTIFY_SOCKET\" || echo leaked >> told");
    let Some(server) = Server::start(&desk, "a b c --rate 8MB/s --on-event ./hook --test-event") else { return };
    done(&desk, "array fail --member b a");
    done(&desk, "array rebuild --onto d --size 17MiB a c");
    done(&desk, "array scrub a");
    let (said, events) = server.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("on stdout") && !events.is_empty(), "its output is not the server's: {}", said.stderr);
    let told = told(&desk);
    let names: Vec<&str> = told.iter().map(|line| line.split(' ').next().unwrap()).collect();
    let name = told[0].split(' ').nth(1).unwrap();
    // How many steps are seen depends on how fast the machine is.
    let kinds: Vec<&str> =
        names.iter().copied().filter(|name| !name.starts_with("Rebuild") || name.ends_with("ed")).collect();
    assert_eq!(
        kinds,
        [
            "TestMessage",
            "NewArray",
            "Fail",
            "RebuildStarted",
            "RebuildFinished",
            "SpareActive",
            "RebuildStarted",
            "RebuildFinished",
            "DeviceDisappeared"
        ],
        "{told:?}"
    );
    assert!(told.contains(&format!("Fail {name} b")), "{told:?}");
    // A member that was added is called by its whole path.
    let active = format!("SpareActive {name} {}", desk.path().join("d").display());
    assert!(told.contains(&active), "{told:?}");
    let steps: Vec<&&str> =
        names.iter().filter(|name| ["Rebuild20", "Rebuild40", "Rebuild60", "Rebuild80"].contains(name)).collect();
    assert!(!steps.is_empty(), "{told:?}");
    // Degraded from the beginning.
    std::fs::remove_file(desk.path().join("told")).unwrap();
    let server = Server::start(&desk, "a c --on-event ./hook").unwrap();
    assert_eq!(server.stop().0.code, 0);
    assert_eq!(
        self::told(&desk),
        ["NewArray", "DegradedArray", "DeviceDisappeared"].map(|event| format!("{event} {name}"))
    );
}

#[test]
fn a_program_that_hangs_is_killed_and_delays_neither_clients_nor_the_order_of_events() {
    let desk = Desk::new("");
    done(&desk, "array create --level 1 --size 8MiB a b");
    script(&desk, "test $1 != NewArray || sleep 1000");
    let Some(server) = Server::start(&desk, "a b --on-event ./hook") else { return };
    let begin = Instant::now();
    write(&server);
    done(&desk, "array fail --member b a");
    write(&server);
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
    let (said, _) = server.stop();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("told of NewArray: it had not ended after 30 s, and was killed"), "{}", said.stderr);
    let names: Vec<String> = told(&desk).iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(names, ["NewArray", "Fail", "DeviceDisappeared"]);
    // What cannot be run is said, and the array is served.
    let Some(server) = Server::start(&desk, "a --on-event ./none") else { return };
    write(&server);
    let (said, _) = server.stop();
    assert!(said.code == 0 && said.stderr.contains("./none, told of NewArray: No such file"), "{}", said.stderr);
}
