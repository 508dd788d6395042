//! The load of a modelled file server, on real files and on the model served over NBD.

mod common;

use common::{Desk, signal, wait_for};

const SHORT: [&str; 4] = ["--set", "run.passes=1", "--set", "stream.files.limit.requests=150"];

/// Of the three systems nothing is left; arrivals come as they do in the model, and a write is durable.
#[test]
fn a_load_of_clients_runs_on_files_of_a_directory() {
    let desk = Desk::new("");
    std::fs::create_dir(desk.path().join("there")).unwrap();
    desk.file("there/arraylab.files", 64 << 20);
    let words = [&["run", "scb/heavy", "--on", "there", "--destroy-data", "--json"], &SHORT[..]].concat();
    let said = desk.arraylab(&words);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("instead of the modelled machine 'scb-locate'"), "{}", said.stderr);
    let document = said.json();
    assert!(document["points"].is_null(), "the three systems are one load here");
    assert_eq!(document["total"]["requests"], 150);
    // 88 arrivals a second, of 1.8 standard deviations each: 150 of them within 40 percent of that.
    let rate = document["total"]["iops"].as_f64().unwrap();
    assert!((53.0..123.0).contains(&rate), "{rate}");
    let experiment =
        std::fs::read_to_string(desk.path().join(document["run"].as_str().unwrap()).join("experiment.toml")).unwrap();
    assert!(experiment.contains("durable = true") && !experiment.contains("[system]"), "{experiment}");
}

#[test]
fn what_is_of_the_modelled_machine_cannot_be_set_elsewhere() {
    let desk = Desk::new("");
    let words = ["run", "scb/heavy", "--on", "memory:1GiB", "--set", "server.cache.hit-ratio=20%"];
    let said = desk.arraylab(&words);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    assert!(said.stderr.contains("server.cache.hit-ratio is of the modelled machine"), "{}", said.stderr);
}

/// Both runs have the same machine and the same seed, so rates and response times agree within a tenth, the study's own
/// standard. A machine that does something else answers later than the model: it has three tries.
#[test]
fn a_load_on_the_served_model_agrees_with_the_modelled_run() {
    let mut tries = Vec::new();
    while tries.len() < 3 && !tries.last().is_some_and(agrees) {
        tries.push(live_over_modelled());
    }
    assert!(tries.last().is_some_and(agrees), "live over modelled, rate and mean: {tries:?}");
}

fn agrees(ratios: &[f64; 2]) -> bool {
    ratios.iter().all(|ratio| (0.9..1.1).contains(ratio))
}

/// Rate and mean response time of the served model over those of the modelled run.
fn live_over_modelled() -> [f64; 2] {
    let desk = Desk::new("");
    let mut server = desk.start(&["serve", "--system", "scb-locate", "--way", "files", "--nbd", "unix:scb.sock"]);
    wait_for("the server listens", || desk.path().join("scb.sock").exists());
    let uri = format!("nbd+unix:///?socket={}", desk.path().join("scb.sock").display());
    let live = [&["run", "scb/heavy", "--on", &uri, "--destroy-data", "--json"], &SHORT[..]].concat();
    let live = desk.arraylab(&live);
    signal(&server, "TERM");
    server.wait().unwrap();
    assert_eq!(live.code, 0, "{}", live.stderr);
    let modelled = [&["run", "scb/heavy", "--set", "system.name=scb-locate", "--json"], &SHORT[..]].concat();
    let (live, modelled) = (live.json(), desk.arraylab(&modelled).json());
    let ratio = |path: &[&str]| {
        let of = |document: &serde_json::Value| {
            path.iter().fold(&document["total"], |value, key| &value[*key]).as_f64().unwrap()
        };
        of(&live) / of(&modelled)
    };
    [ratio(&["iops"]), ratio(&["latency_ns", "mean"])]
}
