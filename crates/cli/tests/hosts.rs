//! One run on several hosts: ranks started with the variables of an engine, by `mpirun` itself, and on hosts of
//! different names.

mod common;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use common::{Desk, READS, Running, Said, is_kept, is_root, of, said, skip, wait_for};
use serde_json::Value;

const MIB: usize = 1 << 20;

/// Starts a rank of `size`; words may hold `{rank}`.
fn rank(desk: &Desk, number: u32, size: u32, words: &[&str]) -> Running {
    let mut command = desk.command(words);
    command.env("PMI_RANK", number.to_string()).env("PMI_SIZE", size.to_string());
    Running::of(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// Starts two ranks with the same words, and waits for both.
fn two(desk: &Desk, words: &[&str]) -> [Said; 2] {
    let both = [0, 1].map(|number| rank(desk, number, 2, words));
    both.map(|child| of(child.wait_with_output().unwrap()))
}

/// A desk with a file of its own for each rank.
fn desk(load: &str, ranks: u32) -> Desk {
    let desk = Desk::new(load);
    (0..ranks).for_each(|rank| drop(desk.file(&format!("{rank}.bin"), 4 * MIB)));
    desk
}

const WORDS: [&str; 5] = ["run", "load.toml", "--on", "{rank}.bin", "--json"];

/// Counts add up, extremes are those of the parts, and percentiles lie among theirs, as far as histograms tell: to 0.1
/// percent.
fn adds_up(total: &Value, parts: &[&Value]) {
    let sum = |field: &str| parts.iter().map(|part| part[field].as_u64().unwrap()).sum::<u64>();
    for field in ["requests", "bytes"] {
        assert_eq!(total[field].as_u64().unwrap(), sum(field), "{field}");
    }
    let times = |field: &'static str| parts.iter().map(move |part| part["latency_ns"][field].as_u64().unwrap());
    let of_all = |field: &str| total["latency_ns"][field].as_u64().unwrap();
    assert_eq!(of_all("max"), times("max").max().unwrap());
    assert_eq!(of_all("min"), times("min").min().unwrap());
    for field in ["p50", "p90", "p99"] {
        let most = times(field).max().unwrap();
        let among = times(field).min().unwrap()..=most + most / 1000;
        assert!(among.contains(&of_all(field)), "{field}: {} in {among:?}", of_all(field));
    }
}

#[test]
fn two_ranks_start_together_and_give_one_result() {
    let desk = desk(&READS.replace("[run]", "[run]\npasses = 2"), 2);
    let [first, second] = two(&desk, &WORDS);
    assert_eq!((first.code, &*first.stderr), (0, ""), "{}", first.stdout);
    assert_eq!((second.code, &*second.stdout, &*second.stderr), (0, "", ""), "rank 0 speaks for all");
    let document = first.json();
    let devices = document["devices"].as_array().unwrap();
    let names: Vec<&str> = devices.iter().map(|device| device["name"].as_str().unwrap()).collect();
    assert!(names[0].ends_with(":0.bin") && names[1].ends_with(":1.bin") && names.len() == 2, "{names:?}");
    adds_up(&document["total"], &devices.iter().collect::<Vec<_>>());
    let ranks = document["ranks"].as_array().unwrap();
    assert_eq!((&ranks[0]["rank"], &ranks[1]["rank"], ranks.len()), (&Value::from(0), &Value::from(1), 2));
    assert!(ranks[1]["clock_error_ns"].as_u64().unwrap() > 0, "a message takes time: {ranks:?}");
    assert_eq!(document["lost"], Value::Null);
    // Load is on at the same time: the counted time of both together is hardly longer than that of one.
    let seconds = |group: &Value| group["seconds"].as_f64().unwrap();
    let longest = devices.iter().map(seconds).fold(0.0, f64::max);
    assert!(seconds(&document["total"]) < 1.5 * longest, "{} and {longest}", seconds(&document["total"]));
    assert_eq!(is_kept(&desk, &document, "complete")["total"], document["total"]);
    // The rows are in one place, and each rank says what it ran on.
    let folder = desk.path().join(document["run"].as_str().unwrap());
    for rank in ["0", "1"] {
        let own = folder.join("ranks").join(rank);
        assert!(own.join("environment.json").exists() && !own.join("records.raw").exists(), "{own:?}");
    }
    let explained = desk.arraylab(&["explain", document["run"].as_str().unwrap()]);
    assert_eq!(explained.code, 0, "{}", explained.stderr);
}

#[test]
fn each_point_of_a_sweep_is_run_by_all_ranks() {
    let desk = desk(&format!("{READS}\n[sweep]\n\"stream.readers.depth\" = [1, 2]\n"), 2);
    let [first, _] = two(&desk, &WORDS);
    assert_eq!((first.code, &*first.stderr), (0, ""));
    let document = first.json();
    let points = document["points"].as_array().unwrap();
    assert_eq!(points.len(), 2);
    assert!(points.iter().all(|point| point["devices"].as_array().unwrap().len() == 2));
}

/// Two ranks load one file: what is offered is what both offer.
#[test]
fn the_rate_that_is_searched_for_is_that_of_all_ranks() {
    let load = READS.replace("depth = 4", "arrivals = { constant = \"200/s\" }").replace("200 ms", "100 ms");
    let desk = desk(&load, 1);
    let [first, second] = two(&desk, &["run", "load.toml", "--on", "0.bin", "--json", "--find-limit", "max <= 1 ns"]);
    assert_eq!((first.code, second.code), (1, 1), "nothing is as fast: {}", first.stderr);
    let document = first.json();
    assert_eq!(document["points"][0]["settings"]["offered"], "400 /s", "{}", first.stderr);
    assert_eq!(document["points"][0]["total"]["requests"], 40);
}

#[test]
fn devices_of_an_experiment_are_each_ranks_own_and_are_verified_there() {
    let load = READS.replace("\"read\"", "\"write\"\nverify = \"end\"").replace("[run]", "[run]\non-error = \"stop\"")
        + "\n[[device]]\nfiles = [\"own-{rank}.bin\"]\nmake = \"2 MiB\"\n";
    let desk = Desk::new(&load);
    let [first, _] = two(&desk, &["run", "load.toml", "--json"]);
    assert_eq!((first.code, &*first.stderr), (0, ""), "{}", first.stdout);
    let document = first.json();
    let verified = document["verification"].as_array().unwrap();
    assert_eq!(verified.len(), 2, "{verified:?}");
    assert!(verified.iter().all(|one| one["findings"]["count"] == 0), "{verified:?}");
    let run = format!("{}/ranks/1", document["run"].as_str().unwrap());
    let again = desk.arraylab(&["verify", &run, "--json"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(again.json()["devices"][0]["device"], "own-1.bin");
}

#[test]
fn ranks_that_would_run_something_else_or_nothing_are_named() {
    let desk = desk(READS, 2);
    let other = [&WORDS[..], &["--set", "stream.readers.depth=9"]].concat();
    let both = [rank(&desk, 0, 2, &WORDS), rank(&desk, 1, 2, &other)];
    let [first, second] = both.map(|child| of(child.wait_with_output().unwrap()));
    assert_eq!((first.code, second.code), (2, 2));
    assert!(first.stderr.starts_with("error: rank 1 on "), "{}", first.stderr);
    assert!(first.stderr.contains("'depth = 9', where rank 0 has 'depth = 4'"), "{}", first.stderr);
    assert_eq!((&*first.stdout, &*second.stderr), ("", ""), "it is said once");
    std::fs::remove_file(desk.path().join("1.bin")).unwrap();
    let [first, second] = two(&desk, &WORDS);
    assert_eq!((first.code, second.code), (2, 2));
    assert!(
        first.stderr.contains("rank 1 on ") && first.stderr.contains("1.bin: there is no such file"),
        "{}",
        first.stderr
    );
    assert_eq!(&*second.stderr, "");
    assert_eq!(std::fs::read_dir(desk.path().join("runs")).unwrap().count(), 0, "nothing ran, and nothing is left");
}

#[test]
fn who_does_not_come_is_not_waited_for_without_end() {
    let desk = desk(READS, 2);
    let words = [&WORDS[..], &["--meet-within", "300ms"]].concat();
    for (number, what) in [(0, "of 2 ranks 1 did not come to runs"), (1, "found no rank 0 at runs")] {
        let alone = of(rank(&desk, number, 2, &words).wait_with_output().unwrap());
        assert_eq!(alone.code, 3, "{}", alone.stderr);
        assert!(alone.stderr.contains(what) && alone.stderr.contains("--meet"), "{}", alone.stderr);
    }
    let mut odd = desk.command(&WORDS);
    odd.env("PMI_RANK", "5").env("PMI_SIZE", "2");
    let odd = said(odd);
    assert_eq!(odd.code, 2);
    assert!(odd.stderr.contains("PMI_RANK is '5'"), "{}", odd.stderr);
}

/// The folder of the only run.
fn only_run(desk: &Desk) -> Option<PathBuf> {
    let mut entries = std::fs::read_dir(desk.path().join("runs")).ok()?.flatten().map(|entry| entry.path());
    entries.find(|path| path.is_dir())
}

/// Two ranks under load, of which both have spilled rows.
fn under_load(desk: &Desk) -> [Running; 2] {
    let words = [&WORDS[..], &["--set", "run.measure=100s"]].concat();
    let both = [0, 1].map(|number| rank(desk, number, 2, &words));
    let spilled = |rank: &str| {
        let raw = only_run(desk).map(|run| run.join("ranks").join(rank).join("records.raw"));
        raw.and_then(|raw| raw.metadata().ok()).is_some_and(|data| data.len() > 4096)
    };
    wait_for("rows on disk", || spilled("0") && spilled("1"));
    both
}

#[test]
fn a_rank_that_is_killed_ends_the_run_and_what_was_recorded_is_there() {
    let desk = desk(READS, 2);
    let [first, mut second] = under_load(&desk);
    second.kill().unwrap();
    second.wait().unwrap();
    let first = of(first.wait_with_output().unwrap());
    assert_eq!(first.code, 3, "{}", first.stdout);
    let lost = &first.stderr;
    assert!(lost.starts_with("error: rank 1 on ") && lost.contains("vanished: "), "{lost}");
    assert_eq!(lost.lines().count(), 1, "{lost}");
    let document = first.json();
    assert_eq!((&document["interrupted"], &document["lost"]["rank"]), (&Value::from(true), &Value::from(1)));
    assert!(document["total"]["requests"].as_u64().unwrap() > 0);
    assert_eq!(document["devices"].as_array().unwrap().len(), 1, "what rank 1 recorded is on its host");
    is_kept(&desk, &document, "interrupted");
    let rest = format!("{}/ranks/1", document["run"].as_str().unwrap());
    let explained = desk.arraylab(&["explain", &rest, "--json"]);
    assert_eq!(explained.code, 0, "{}", explained.stderr);
}

#[test]
fn without_rank_0_the_others_end_and_say_where_their_records_are() {
    let desk = desk(READS, 2);
    let [mut first, second] = under_load(&desk);
    first.kill().unwrap();
    first.wait().unwrap();
    let second = of(second.wait_with_output().unwrap());
    assert_eq!(second.code, 3, "{}", second.stdout);
    assert!(second.stderr.contains("rank 0 on ") && second.stderr.contains("ranks/1"), "{}", second.stderr);
    let rest = only_run(&desk).unwrap().join("ranks/1");
    let explained = desk.arraylab(&["explain", rest.to_str().unwrap(), "--json"]);
    assert_eq!(explained.code, 0, "{}", explained.stderr);
}

#[test]
fn ctrl_c_at_any_rank_ends_all_and_keeps_what_was_done() {
    let desk = desk(READS, 2);
    let both = under_load(&desk);
    common::signal(&both[1], "TERM");
    let [first, second] = both.map(|child| of(child.wait_with_output().unwrap()));
    assert_eq!((first.code, second.code), (3, 3), "{}", first.stderr);
    let document = first.json();
    assert_eq!((&document["interrupted"], &document["lost"]), (&Value::from(true), &Value::Null));
    adds_up(&document["total"], &document["devices"].as_array().unwrap().iter().collect::<Vec<_>>());
}

#[test]
fn hosts_are_told_apart_by_their_names() {
    let desk = desk(READS, 2);
    let on_host = |number: u32, name: &str| {
        let mut command = Command::new("unshare");
        let line = format!("hostname {name} && exec \"$0\" run load.toml --on '{{host}}.bin' --json");
        command.args(["--uts", "sh", "-c", &line, env!("CARGO_BIN_EXE_arraylab")]).current_dir(desk.path());
        command.env("SLURM_PROCID", number.to_string()).env("SLURM_NTASKS", "2");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    };
    let may = || Command::new("unshare").args(["--uts", "hostname", "beta"]).output().is_ok_and(|o| o.status.success());
    if !is_root() || !may() {
        return skip("host names of one's own need root, unshare and hostname");
    }
    for host in ["alpha", "beta"] {
        desk.file(&format!("{host}.bin"), 4 * MIB);
    }
    let both = [on_host(0, "alpha").unwrap(), on_host(1, "beta").unwrap()];
    let [first, second] = both.map(|child| of(child.wait_with_output().unwrap()));
    assert_eq!((first.code, second.code, &*first.stderr), (0, 0, ""));
    let document = first.json();
    let names =
        |of: &str| document[of].as_array().unwrap().iter().map(|group| group["name"].clone()).collect::<Vec<_>>();
    assert_eq!(
        (names("hosts"), names("devices")),
        (vec!["alpha".into(), "beta".into()], vec!["alpha:alpha.bin".into(), "beta:beta.bin".into()],)
    );
    adds_up(&document["total"], &document["hosts"].as_array().unwrap().iter().collect::<Vec<_>>());
}

#[test]
fn mpirun_starts_the_ranks() {
    if Command::new("mpirun").arg("--version").output().is_err() {
        return skip("mpirun is not here; apt-get install openmpi-bin");
    }
    let desk = desk(READS, 3);
    let mut command = Command::new("mpirun");
    command.args(["-n", "3", "--oversubscribe", "--allow-run-as-root", env!("CARGO_BIN_EXE_arraylab")]).args(WORDS);
    let said = said({
        command.current_dir(desk.path());
        command
    });
    assert_eq!(said.code, 0, "{}", said.stderr);
    let document = said.json();
    assert_eq!(document["ranks"].as_array().unwrap().len(), 3);
    adds_up(&document["total"], &document["devices"].as_array().unwrap().iter().collect::<Vec<_>>());
}
