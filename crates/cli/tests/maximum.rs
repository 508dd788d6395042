//! `arraylab max`: the knee of a limit that was planted, none where none was, and what is refused.
//!
//! The limit is nbdkit's: its rate filter lets so many bits a second pass of each connection, and so many of all
//! together.

mod common;
#[path = "common/html.rs"]
mod html;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Desk, Loop, READS, Said, is_kept, of, signal, skip, wait_for};
use html::{is_well_formed, stands_alone, suits_every_screen};
use serde_json::Value;

/// A server of memory: as many devices as exports are named, each of 12 MB/s.
struct Shared {
    child: Child,
    uris: Vec<String>,
}

impl Shared {
    /// All together at most so many times as fast as one; any number of times without it. `None`, and said, where
    /// there is no nbdkit.
    fn begin(desk: &Desk, devices: usize, limit: Option<f64>) -> Option<Shared> {
        const ONE: f64 = 96e6;
        let socket = desk.path().join("shared.sock");
        let mut command = Command::new("nbdkit");
        command.args(["-f", "-t", "32", "-U"]).arg(&socket).args(["--filter=rate", "memory", "64M", "burstiness=0.02"]);
        command.arg(format!("connection-rate={ONE}"));
        command.args(limit.map(|limit| format!("rate={}", (limit * ONE) as u64)));
        let child = match command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
            Ok(child) => child,
            Err(error) => {
                skip(&format!("there is no nbdkit ({error}); apt-get install nbdkit"));
                return None;
            }
        };
        wait_for("the server", || socket.exists());
        let uri = |number| format!("nbd+unix:///{number}?socket={}", socket.display());
        Some(Shared { child, uris: (0..devices).map(uri).collect() })
    }

    fn max(&self, desk: &Desk, words: &[&str]) -> Said {
        let uris = self.uris.iter().map(String::as_str);
        desk.arraylab(&["max"].into_iter().chain(uris).chain(words.iter().copied()).collect::<Vec<_>>())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const QUICK: [&str; 6] = ["--methods", "independent", "--sizes", "64KiB", "--time", "15s"];

/// Measured at most three times, as others may use this machine, too: the first result whose knee is as it should be,
/// or the last.
fn measured(desk: &Desk, shared: &Shared, is_so: impl Fn(&Value) -> bool) -> Said {
    let mut turns = (0..3).map(|_| shared.max(desk, &[&QUICK[..], &["--json"]].concat()));
    let mut said = turns.next().expect("there are three");
    while !is_so(&knee(&said)) {
        let Some(another) = turns.next() else { break };
        said = another;
    }
    said
}

fn knee(said: &Said) -> Value {
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    said.json()["curves"][0]["knee"].clone()
}

#[test]
fn a_planted_limit_is_found_with_its_number_of_devices_and_its_rate() {
    let desk = Desk::new(READS);
    let Some(shared) = Shared::begin(&desk, 8, Some(4.3)) else { return };
    let near = |value: &Value, truth: f64| value.as_f64().is_some_and(|value| (value / truth - 1.0).abs() < 0.1);
    let is_found = |knee: &Value| {
        let (devices, rate) = (&knee["devices"]["value"], &knee["bandwidth_bytes_per_s"]["value"]);
        knee["verdict"] == "knee" && near(devices, 4.3) && near(rate, 4.3 * 12e6)
    };
    let said = measured(&desk, &shared, is_found);
    let knee = knee(&said);
    assert!(is_found(&knee), "{knee:#}");
    let beyond = &knee["beyond"][2];
    assert!(beyond["devices"] == 16 && near(&beyond["bandwidth_bytes_per_s"]["value"], 4.3 * 12e6), "{beyond:#}");
    let summary = is_kept(&desk, &said.json(), "complete");
    assert_eq!(summary["curves"], said.json()["curves"]);

    // The same from the folder, as text, as JSON and as a page.
    let folder = said.json()["run"].as_str().unwrap().to_owned();
    let text = desk.arraylab(&["explain", &folder]).stdout;
    assert!(text.contains("* 64 KiB: the knee is at 4."), "{text}");
    assert_eq!(desk.arraylab(&["explain", &folder, "--json"]).json()["curves"], summary["curves"]);
    let page = desk.arraylab(&["report", &folder]);
    assert_eq!((page.code, page.stderr.as_str()), (0, ""));
    is_well_formed(&page.stdout);
    stands_alone(&page.stdout);
    suits_every_screen(&page.stdout, 1);
    assert!(page.stdout.contains("<p class=\"limit\">Independent reads") && page.stdout.contains("the knee is at 4."));
    let refused = desk.arraylab(&["report", &folder, "--window", "1s"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("--window is for a run, and "), "{}", refused.stderr);
}

#[test]
fn independent_devices_have_no_knee() {
    let desk = Desk::new(READS);
    let Some(shared) = Shared::begin(&desk, 6, None) else { return };
    let knee = knee(&measured(&desk, &shared, |knee| knee["verdict"] == "none"));
    assert_eq!(knee["verdict"], "none", "{knee:#}");
    let beyond = knee["beyond"][2]["bandwidth_bytes_per_s"]["value"].as_f64().unwrap();
    assert!((beyond / (12.0 * 12e6) - 1.0).abs() < 0.1, "twelve would do twice as much: {beyond}");
}

/// Numbers are masked, and with them what hangs on them: blanks, rules and bars. Empty lines are left out.
fn masked(text: &str) -> String {
    let mut masked = String::new();
    for line in text.lines() {
        let (mut number, bars) = (false, line.contains('#'));
        for letter in line.chars() {
            let part = letter.is_ascii_digit() || (number && letter == '.');
            if part && !number {
                masked.push('N');
            } else if !(part || matches!(letter, ' ' | '-' | '#') || (bars && letter == '.')) {
                masked.push(letter);
            } else if letter == ' ' && !masked.ends_with([' ', '\n']) {
                masked.push(' ');
            }
            number = part;
        }
        masked = masked.trim_end().to_owned() + "\n";
    }
    masked
}

/// All that a user sees of all three methods.
#[test]
fn the_result_reads_like_this_in_80_columns() {
    let desk = Desk::new(READS);
    let Some(shared) = Shared::begin(&desk, 4, None) else { return };
    let words = ["--sizes", "64KiB", "--time", "12s", "--repeats", "3", "--destroy-data", "--xdd", "--stamps", "s.txt"];
    let said = shared.max(&desk, &words);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let (result, xdd) = said.stdout.split_once("\nxdd: independent reads").unwrap();
    // A path may be longer than a line.
    let wide = result.lines().find(|line| line.chars().count() > 80 && !line.contains("nbd+unix"));
    assert_eq!(wide, None, "{result}");
    let lines = masked(result);
    for part in [
        "Independent reads, one request under way on each device\ndevices N KiB loss\nN N MB/s N %\n",
        "By N KiB: measured, the sum of what they do alone\nN N MB/s\n",
        "Independent writes, one request under way on each device\n",
        "Logical volume, reads of one step for each device at a time\n",
        "Logical volume, writes of one step for each device at a time\n",
        "Simultaneous reads of the first half and writes of the second\ndevices N KiB loss\nN N MB/s\n",
        "Reading while writing\nrequest devices read written expected lost from to\nN KiB N N MB/s N MB/s N MB/s N %",
        "Each rate is the median of its repeats. loss: what is missing from the sum of\nwhat the devices do alone.\n",
    ] {
        assert!(lines.contains(part), "{part} in {lines}");
    }
    let joined = lines.replace('\n', " ");
    // On a machine that does other things, too, it may not be able to tell.
    let verdicts = [
        "* N KiB: no knee up to N devices, which together do N % (N % to N %) of what they do alone. If nothing else",
        "* N KiB: unclear: single measurements scatter by N %",
    ];
    assert!(verdicts.iter().any(|verdict| joined.contains(verdict)), "{lines}");
    assert!(xdd.contains("TARGET_AVERAGE") && xdd.contains("COMBINED"), "{xdd}");
    let stamps = std::fs::read_to_string(desk.path().join("s.txt")).unwrap();
    assert!(stamps.contains("# independent reads, target 3 alone\n# request size in 1024-byte blocks: 64\n"));
    assert!(stamps.contains("# volume writes, the first 4 targets\n"));
}

#[test]
fn ctrl_c_and_kill_end_it_within_a_second_and_keep_what_was_measured() {
    for name in ["INT", "TERM"] {
        let desk = Desk::new(READS);
        desk.file("a", 32 << 20);
        desk.file("b", 32 << 20);
        let child = desk.start(&["max", "a", "b", "--json", "--time", "10min"]);
        wait_for("the load", || common::has_thread(child.id(), "load-0"));
        std::thread::sleep(Duration::from_millis(1500));
        signal(&child, name);
        let asked = Instant::now();
        let said = of(child.wait_with_output().unwrap());
        assert!(asked.elapsed() < Duration::from_secs(1), "{name}: {:?}", asked.elapsed());
        assert_eq!(said.code, 3, "{}", said.stderr);
        assert_eq!(said.json()["interrupted"], true);
        is_kept(&desk, &said.json(), "interrupted");
    }
}

/// Refused with exit code 2 and one message that has these parts, before anything is kept.
fn refused(desk: &Desk, words: &[&str], parts: &[&str]) {
    let said = desk.arraylab(words);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{words:?}: {}", said.stderr);
    for part in parts {
        assert!(said.stderr.contains(part), "'{part}' in {}", said.stderr);
    }
    assert!(!desk.path().join("runs").exists(), "{words:?}");
}

#[test]
fn what_cannot_be_measured_is_refused_with_the_remedy() {
    let desk = Desk::new(READS);
    for (name, mib) in [("a", 32), ("b", 32), ("small", 24), ("tiny", 1)] {
        desk.file(name, mib << 20);
    }
    std::fs::File::create(desk.path().join("holes")).unwrap().set_len(32 << 20).unwrap();
    refused(&desk, &["max", "gone"], &["gone: there is no such file or device"]);
    refused(&desk, &["max", "a", "holes"], &["holes: ", "was never written", "cp --sparse=never holes holes.filled"]);
    refused(&desk, &["max", "a", "memory:1GiB"], &["memory:1GiB:100us is no device", "arraylab survey --system"]);
    refused(&desk, &["max", "a", "tiny"], &["tiny holds 1 MiB, less than 4 requests of 512 KiB", "--sizes"]);
    refused(
        &desk,
        &["max", "a", "small", "--methods", "volume"],
        &["of one size, and a holds 32 MiB while small holds 24 MiB", "--methods independent"],
    );
    refused(&desk, &["max", "a", "--methods", "volume"], &["a single device is no volume"]);
    refused(&desk, &["max", "a", "b", "--sizes", "4MB"], &["are no multiple of the block of a, 512 B", "--sizes 4MiB"]);
    refused(&desk, &["max", "a", "--sizes", "1000"], &["has no unit"]);
    refused(&desk, &["max", "a", "--sizes", "1GiB"], &["write a size from 512 B to 64 MiB"]);
    let writing = ["max", "a", "b", "--methods", "simultaneous"];
    refused(&desk, &writing, &["a: writing would destroy what is there", "add --destroy-data if that is meant"]);
    assert!(std::fs::read(desk.path().join("a")).unwrap().iter().all(|byte| *byte == 0x5a), "nothing was written");
    // Without --methods, what the devices do not fit is left out, and said so.
    let said = desk.arraylab(&["max", "a", "small", "--sizes", "64KiB", "--repeats", "3", "--json", "--time", "1s"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.json()["remarks"][0].as_str().unwrap().starts_with("no volume was measured: "));
    assert!(said.json()["curves"].as_array().unwrap().iter().all(|curve| curve["method"] == "independent"));
}

#[test]
fn a_device_that_carries_data_is_not_written() {
    let desk = Desk::new(READS);
    let Some(device) = Loop::over(&desk.file("backing", 32 << 20)) else { return };
    if !common::peer("mkfs.ext4", &["-q", "-F", &device.node]) {
        return;
    }
    desk.file("b", 32 << 20);
    let words = ["max", &device.node, "b", "--destroy-data"];
    refused(&desk, &words, &["ext4"]);
}
