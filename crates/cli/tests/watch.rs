//! Runs, surveys and copies that are watched while they go on: by Prometheus, on standard error, and in the run folder.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use common::{Desk, READS, Running, signal, wait_for};

const MIB: usize = 1 << 20;

/// Starts a command that serves metrics, and gives the address that it names.
fn start(desk: &Desk, words: &[&str]) -> (Running, String) {
    let mut command = desk.command(&[words, &["--metrics", "127.0.0.1:0"]].concat());
    let mut child = Running::of(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("metrics: http://").and_then(|rest| rest.strip_suffix("/metrics"));
    let address = address.unwrap_or_else(|| panic!("no address in {line:?}")).to_owned();
    (child, address)
}

/// What is answered: the first line, and the body.
fn ask(address: &str, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{request} HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

/// Name, labels and value of each sample in the text format of Prometheus, version 0.0.4; each name has its type before
/// it.
fn parse(text: &str) -> Vec<(String, String, f64)> {
    let mut types: Vec<&str> = Vec::new();
    let mut samples = Vec::new();
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let words: Vec<&str> = comment.split(' ').collect();
            assert!(["HELP", "TYPE"].contains(&words[0]), "{line}");
            if words[0] == "TYPE" {
                assert!(["counter", "gauge", "summary"].contains(&words[2]) && words.len() == 3, "{line}");
                types.push(words[1]);
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}').unwrap()),
            None => (series, ""),
        };
        let family = types
            .iter()
            .any(|known| name == *known || ["_sum", "_count"].iter().any(|end| name.strip_suffix(end) == Some(known)));
        assert!(family, "{line} comes after its type");
        samples.push((name.to_owned(), labels.to_owned(), value.parse().unwrap()));
    }
    samples
}

/// How many requests a device has made by now.
fn requests(address: &str, device: &str) -> f64 {
    let (_, body) = ask(address, "GET /metrics");
    let label = format!("device=\"{device}\"");
    let mut samples = parse(&body).into_iter();
    samples
        .find(|(name, labels, _)| name == "arraylab_requests_total" && *labels == label)
        .map_or(0.0, |sample| sample.2)
}

#[test]
fn prometheus_is_answered_while_a_run_goes_on() {
    let desk = Desk::new(READS);
    desk.file("data.bin", 4 * MIB);
    let (child, address) = start(&desk, &["run", "load.toml", "--on", "data.bin", "--set", "run.measure=100s"]);
    wait_for("requests in the metrics", || requests(&address, "data.bin") > 0.0);
    let before = requests(&address, "data.bin");
    wait_for("more of them", || requests(&address, "data.bin") > before);
    let (status, body) = ask(&address, "GET /metrics");
    assert_eq!(status, "HTTP/1.1 200 OK");
    let samples = parse(&body);
    let of = |name: &str| samples.iter().filter(|sample| sample.0 == name).map(|sample| sample.2).collect::<Vec<_>>();
    assert_eq!(of("arraylab_bytes_total"), [of("arraylab_requests_total")[0] * 4096.0]);
    assert_eq!(of("arraylab_response_seconds_count"), of("arraylab_requests_total"));
    let quantiles = of("arraylab_response_seconds");
    assert!(quantiles.len() == 4 && quantiles.is_sorted() && quantiles[0] > 0.0, "{quantiles:?}");
    assert_eq!(ask(&address, "GET /other").0, "HTTP/1.1 404 Not Found");
    assert_eq!(ask(&address, "POST /metrics").0, "HTTP/1.1 405 Method Not Allowed");
    signal(&child, "INT");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(3));
}

#[test]
fn a_survey_is_watched_as_one_run_of_all_its_devices() {
    let desk = Desk::new(READS);
    ["a.bin", "b.bin"].iter().for_each(|name| drop(desk.file(name, 32 * MIB)));
    let words = ["survey", "a.bin", "b.bin", "--time", "100s", "--watch"];
    let (mut child, address) = start(&desk, &words);
    wait_for("requests of both", || requests(&address, "a.bin") > 0.0 && requests(&address, "b.bin") > 0.0);
    let both = || [requests(&address, "a.bin"), requests(&address, "b.bin")];
    let before = both();
    wait_for("more of either", || both() != before);
    assert!(both().iter().zip(before).all(|(now, before)| *now >= before), "counters never go back");
    let run = std::fs::read_dir(desk.path().join("runs")).unwrap().next().unwrap().unwrap().path();
    let status = std::fs::read_to_string(run.join("status.json")).unwrap();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["devices"].as_array().unwrap().len(), 2);
    signal(&child, "INT");
    let mut lines = String::new();
    child.stderr.take().unwrap().read_to_string(&mut lines).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert!(lines.contains("what limits: ") && lines.contains("1 device, "), "{lines}");
    assert!(!run.join("status.json").exists(), "the summary says more");
}

#[test]
fn a_copy_is_watched_on_both_sides() {
    let desk = Desk::new(READS);
    // So many pieces that the copy goes on while somebody looks; holes, so that they take no room.
    for name in ["from.bin", "to.bin"] {
        std::fs::File::create(desk.path().join(name)).unwrap().set_len(4 << 30).unwrap();
    }
    let words = ["copy", "from.bin", "to.bin", "--destroy-data", "--size", "4KiB", "--depth", "1"];
    let (child, address) = start(&desk, &words);
    wait_for("requests of both", || requests(&address, "from.bin") > 0.0 && requests(&address, "to.bin") > 0.0);
    signal(&child, "INT");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(3));
}
