//! `arraylab what-if`: what a faster part would bring, held against runs in which it is faster.

mod common;

use common::{Desk, READS};
use serde_json::Value;

/// Requests of three devices in step: the slowest decides.
const STEP: &str = "[run]\nmeasure = \"2 s\"\n[[stream]]\nname = \"readers\"\noperation = \"read\"\npattern = \"random\"\n\
                    size = \"4 KiB\"\ndepth = 1\nlock-step = true\n";

fn run(desk: &Desk, file: &str, on: &str) -> (String, f64) {
    let document = desk.arraylab(&["run", file, "--on", on, "--json"]).json();
    (document["run"].as_str().unwrap().to_owned(), document["total"]["iops"].as_f64().unwrap())
}

fn rate<'d>(document: &'d Value, part: &str) -> &'d Value {
    let parts = document["parts"].as_array().unwrap();
    let part = parts.iter().find(|one| one["part"] == part).unwrap_or_else(|| panic!("{part} in {document:#}"));
    &part["metrics"][0]
}

#[test]
fn what_a_faster_device_would_bring_is_what_it_brings() {
    let desk = Desk::new(READS);
    desk.write("step.toml", STEP);
    let on = |slow: &str| format!("memory:16MiB:2ms,memory:32MiB:3ms,memory:64MiB:{slow}");
    let (folder, was) = run(&desk, "step.toml", &on("8ms"));
    let document = desk.arraylab(&["what-if", &folder, "--json"]).json();
    assert_eq!(document["parts"].as_array().unwrap().len(), 3, "virtual time has no generator: {document:#}");
    let slow = rate(&document, "memory:64MiB:8ms");
    let (_, truth) = run(&desk, "step.toml", &on("4ms"));
    assert!((slow["effect"].as_f64().unwrap() / (truth / was) - 1.0).abs() < 0.01, "{slow} and {truth} of {was}");
    assert_eq!(slow["verdict"], "more");
    for other in ["memory:16MiB:2ms", "memory:32MiB:3ms"] {
        assert!((rate(&document, other)["effect"].as_f64().unwrap() - 1.0).abs() < 0.01, "{document:#}");
    }
    // So fast that another one decides.
    let words = ["what-if", &folder, "--part", "memory:64MiB:8ms", "--times", "4", "--repeat", "2"];
    let said = desk.arraylab(&words);
    let (_, truth) = run(&desk, "step.toml", &on("2ms"));
    let brought = format!("4 times as fast it would bring {truth:.0} requests/s in place of {was:.0}");
    assert!(said.stdout.contains("memory:64MiB:8ms limits: ") && said.stdout.contains(&brought), "{}", said.stdout);
    // Its runs say what they are.
    let runs = std::fs::read_dir(desk.path().join("runs")).unwrap();
    let held = runs.map(|run| std::fs::read_to_string(run.unwrap().path().join("experiment.toml")).unwrap());
    assert!(held.filter(|text| text.contains("[[slow]]") && text.contains("by = \"300 %\"")).count() == 2);
}

#[test]
fn where_nobody_waits_for_anybody_each_device_brings_its_own_share() {
    let desk = Desk::new(READS);
    desk.write("apart.toml", &STEP.replace("lock-step = true\n", "think = \"1 ms\"\n"));
    let (folder, was) = run(&desk, "apart.toml", "memory:16MiB:1ms,memory:32MiB:3ms");
    let document = desk.arraylab(&["what-if", &folder, "--json", "--repeat", "2"]).json();
    let (_, truth) = run(&desk, "apart.toml", "memory:16MiB:500us,memory:32MiB:3ms");
    let first = rate(&document, "memory:16MiB:1ms")["effect"].as_f64().unwrap();
    assert!((first / (truth / was) - 1.0).abs() < 0.01, "{first} and {truth} of {was}");
}

#[test]
fn what_cannot_be_held_up_is_refused() {
    let desk = Desk::new(READS);
    let (folder, _) = run(&desk, "load.toml", "memory:16MiB");
    for (words, why) in [
        (&["what-if", &folder, "--part", "nobody"][..], "the run has no such part; it has memory:16MiB:100us\n"),
        (&["what-if", &folder, "--times", "1"], "a part is made 1.05 to 10 times as fast"),
        (&["what-if", &folder, "--times", "fast"], "this is no number; give 1.25, 2, or 150 %"),
        (&["what-if", "nowhere"], "nowhere: "),
    ] {
        let said = desk.arraylab(words);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{words:?}: {}", said.stderr);
        assert!(said.stderr.contains(why), "{words:?}: {}", said.stderr);
    }
    for (slow, why) in [
        ("device = 3\nby = \"10 %\"", "[[slow]] names device 3, but only 1 are given"),
        ("device = 0", "this says neither a device and by how much, nor the generator"),
        ("device = 0\nby = \"10 %\"\n[[slow]]\ndevice = 0\nby = \"20 %\"", "this part is held up twice"),
        ("device = 0\nby = \"10 %\"\nat-once = 0", "`at-once` must be above zero"),
        ("generator = \"20 us\"", "in virtual time the generator takes no time"),
        ("generator = \"20 s\"", "`generator` is at most 1 s"),
    ] {
        desk.write("slow.toml", &format!("{READS}\n[[slow]]\n{slow}\n"));
        let said = desk.arraylab(&["run", "slow.toml", "--on", "memory:16MiB"]);
        assert_eq!(said.code, 2, "{slow}: {}", said.stdout);
        assert!(said.stderr.contains(why), "{slow}: {}", said.stderr);
    }
}

#[test]
fn a_modelled_machine_is_changed_by_its_values() {
    let desk = Desk::new(READS);
    desk.write("small.toml", common::SMALL);
    desk.write("modelled.toml", &format!("{READS}\n[system]\nname = \"small.toml\"\nway = \"raw\"\n"));
    let document = desk.arraylab(&["run", "modelled.toml", "--json"]).json();
    let said = desk.arraylab(&["what-if", document["run"].as_str().unwrap()]);
    assert_eq!(said.code, 2, "{}", said.stdout);
    assert!(said.stderr.contains("whose parts are made faster by their values"), "{}", said.stderr);
}
