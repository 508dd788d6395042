//! `arraylab compare`: set-ups in turns, and runs that were kept.

mod common;

use common::{Desk, READS};
use serde_json::Value;

fn desk() -> Desk {
    let desk = Desk::new(READS);
    desk.write("deep.toml", &READS.replace("depth = 4", "depth = 8"));
    desk
}

fn metric<'d>(document: &'d Value, name: &str) -> &'d Value {
    let metrics = document["metrics"].as_array().unwrap();
    metrics.iter().find(|metric| metric["name"] == name).unwrap_or_else(|| panic!("{name} in {document:#}"))
}

#[test]
fn twice_the_depth_of_a_device_of_any_depth_is_twice_the_rate() {
    let desk = desk();
    let words = ["compare", "load.toml", "deep.toml", "--on", "memory:16MiB", "--repeat", "3", "--json"];
    let document = desk.arraylab(&words).json();
    let (rate, mean) = (metric(&document, "iops"), metric(&document, "latency_mean_ns"));
    assert_eq!((rate["verdict"].as_str(), mean["verdict"].as_str()), (Some("more"), Some("no-difference")));
    assert!((rate["effect"].as_f64().unwrap() - 2.0).abs() < 0.02, "{rate}");
    assert!(rate["low"].as_f64() <= rate["effect"].as_f64() && rate["effect"].as_f64() <= rate["high"].as_f64());
    assert_eq!(document["runs"][1].as_array().unwrap().len(), 3);
    let environment = document["environment"].as_array().unwrap();
    let [depth] = &environment[..] else { panic!("one condition differs: {environment:#?}") };
    assert_eq!((depth["what"].as_str(), depth["a"].as_str()), (Some("experiment.stream.readers.depth"), Some("4")));
}

#[test]
fn a_side_may_be_a_change_and_the_same_is_the_same() {
    let desk = desk();
    let same = desk.arraylab(&["compare", "load.toml", "load.toml,seed=9", "--on", "memory:16MiB", "--repeat", "3"]);
    assert_eq!(same.code, 0, "{}", same.stderr);
    assert!(same.stdout.contains("no difference shown; any is smaller than"), "{}", same.stdout);
    assert!(same.stdout.contains("* experiment.seed: 7 | 9"), "{}", same.stdout);
    let three =
        ["compare", "load.toml", "deep.toml", "load.toml,stream.readers.depth=2", "--on", "memory:16MiB", "--json"];
    let document = desk.arraylab(&three).json();
    let rates: Vec<f64> = document["comparisons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| metric(pair, "iops")["effect"].as_f64().unwrap())
        .collect();
    assert!((rates[0] - 2.0).abs() < 0.02 && (rates[1] - 0.5).abs() < 0.02, "{rates:?}");
}

#[test]
fn runs_that_were_kept_differ_as_runs() {
    let desk = desk();
    let run =
        |file: &str| desk.arraylab(&["run", file, "--on", "memory:16MiB", "--set", "run.passes=3", "--json"]).json();
    let folder = |run: Value| run["run"].as_str().unwrap().to_owned();
    let (a, b) = (folder(run("load.toml")), folder(run("deep.toml")));
    let said = desk.arraylab(&["compare", &a, &b]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    assert!(said.stdout.contains("One run of each: this is how these runs differ."), "{}", said.stdout);
    assert!(said.stdout.contains("* experiment.stream.readers.depth: 4 | 8"), "{}", said.stdout);
    let document = desk.arraylab(&["compare", &a, &b, "--json"]).json();
    assert_eq!(document["comparisons"][0]["environment"].as_array().unwrap().len(), 1);
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let desk = desk();
    let run = desk.arraylab(&["run", "load.toml", "--on", "memory:16MiB", "--json"]).json();
    let folder = run["run"].as_str().unwrap();
    desk.write("sweep.toml", &format!("{READS}[sweep]\n\"stream.readers.depth\" = [1, 2]\n"));
    desk.write("job.fio", "[job]\nrw=read\nsize=1m\n");
    for (words, said) in [
        (vec!["compare", "load.toml", folder], "is the folder of a run, and another side is not"),
        (vec!["compare", "load.toml", "sweep.toml", "--on", "memory:16MiB"], "sweep.toml is a sweep of 2 points"),
        (vec!["compare", "load.toml", "job.fio"], "job.fio is a job file of fio"),
        (vec!["compare", "load.toml", "none.toml"], "none.toml"),
        (vec!["compare", "load.toml", "load.toml,depth", "--on", "memory:16MiB"], "depth"),
        (vec!["compare", "load.toml", "deep.toml", "--repeat", "1"], "2..=1000"),
    ] {
        let refused = desk.arraylab(&words);
        assert_eq!((refused.stdout.as_str(), refused.code), ("", 2), "{words:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(said), "'{said}' in {}", refused.stderr);
    }
}
