//! `run --find-limit`, in virtual time: the same seed finds the same limit.

use std::process::Command;

#[test]
fn the_limit_of_a_queue_is_found_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q.toml");
    let text = "[run]\nmeasure = \"2 s\"\n[[stream]]\noperation = \"read\"\npattern = \"random\"\nsize = \"4 KiB\"\n\
                arrivals = { poisson = \"100/s\" }\noutstanding = 4\n";
    std::fs::write(&path, text).unwrap();
    let run = |bound: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_arraylab"));
        command.current_dir(folder.path()).arg("run").arg(&path).args(["--on", "memory:1GiB:1ms", "--json"]);
        let output = command.args(["--find-limit", bound]).output().unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), document)
    };
    // Four places of 1 ms serve 4000/s at most.
    let (code, document) = run("p99 <= 3 ms");
    let limit = &document["find_limit"];
    let (kept, broken) = (limit["kept_at_per_s"].as_f64().unwrap(), limit["broken_at_per_s"].as_f64().unwrap());
    assert_eq!(code, Some(0));
    assert!(kept > 1000.0 && kept < broken && broken <= kept * 1.02 && broken < 4000.0, "{kept} to {broken}");
    assert!(document["points"].as_array().unwrap().len() >= 6, "every run is shown");
    // No rate is low enough for what no request can do.
    let (code, document) = run("p50 <= 10 us");
    assert_eq!(code, Some(1), "{}", document["find_limit"]);
    assert!(document["find_limit"]["kept_at_per_s"].is_null());
}
