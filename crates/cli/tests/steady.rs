//! Rounds until steady, in virtual time: which rounds there were, and which of them the result is of.

mod common;

use common::{Desk, READS};

fn desk(steady: &str) -> Desk {
    Desk::new(&READS.replace("measure = \"200 ms\"", &format!("measure = \"100 ms\"\nsteady = {steady}")))
}

#[test]
fn a_device_that_is_always_the_same_is_steady_at_once() {
    let said = desk("{}").arraylab(&["run", "load.toml", "--on", "memory:16MiB:100us", "--json"]);
    assert_eq!((said.code, &*said.stderr), (0, ""), "{}", said.stdout);
    let document = said.json();
    let rounds = &document["rounds"];
    assert_eq!((&rounds["steady"], &rounds["window"]["first"]), (&true.into(), &0.into()), "{rounds:#}");
    // Four requests under way that take 100 us each.
    let values: Vec<f64> = rounds["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
    assert_eq!(values.len(), 5, "five rounds are a window");
    assert!(values.iter().all(|iops| (iops / 40_000.0 - 1.0).abs() < 0.01), "{values:?}");
}

/// Poisson arrivals never agree to a millionth: all rounds are made, and the result is of the last ones only.
#[test]
fn what_is_never_steady_is_said_and_ends() {
    let load = READS.replace("depth = 4", "arrivals = { poisson = \"5000/s\" }");
    let load = load.replace(
        "measure = \"200 ms\"",
        "measure = \"100 ms\"\nsteady = { window = 3, range = \"0.0001 %\", rounds = 6 }",
    );
    let desk = Desk::new(&load);
    let words = ["run", "load.toml", "--on", "memory:16MiB:100us"];
    let said = desk.arraylab(&[&words[..], &["--json"]].concat());
    assert_eq!((said.code, &*said.stderr), (1, ""), "{}", said.stdout);
    let document = said.json();
    let rounds = &document["rounds"];
    let values: Vec<f64> = rounds["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
    assert_eq!((values.len(), &rounds["steady"], &rounds["window"]["first"]), (6, &false.into(), &3.into()));
    let counted = document["total"]["requests"].as_f64().unwrap();
    let of_window: f64 = values[3..].iter().sum::<f64>() * 0.1;
    assert!((counted - of_window).abs() < 0.5, "{counted} requests counted, {of_window} in the window");
    let text = desk.arraylab(&words).stdout;
    assert!(text.contains("not steady: range") && text.contains("the result is of rounds 4 to 6"), "{text}");
    assert!(text.contains("\n3 passes: "), "{text}");
}

#[test]
fn nothing_is_written_before_what_begins_anew() {
    let desk = Desk::new(&format!("{READS}\n[precondition]\nlaps = 1\n"));
    let said = desk.arraylab(&["run", "load.toml", "--on", "memory:16MiB"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("begins anew with each run"), "{}", said.stderr);
    // On a file it is a write, and asks for leave.
    desk.file("data.bin", 1 << 20);
    let said = desk.arraylab(&["run", "load.toml", "--on", "data.bin"]);
    assert_eq!(said.code, 2, "{}", said.stdout);
    let said = desk.arraylab(&["run", "load.toml", "--on", "data.bin", "--destroy-data"]);
    assert_eq!((said.code, &*said.stderr), (0, ""), "{}", said.stdout);
    assert!(said.stdout.contains("was written through before the first pass (1 x, in "), "{}", said.stdout);
}
