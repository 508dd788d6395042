//! Verification as its users meet it: at once, at the end, and in a later run, on a file that somebody has meanwhile
//! had in hand.

mod common;

use std::os::unix::fs::FileExt;

use common::{Desk, wait_for};

const MIB: usize = 1 << 20;

const WRITER: &str = r#"
[[stream]]
name = "writer"
operation = { read-behind = 8 }
pattern = "random-once"
size = "16 KiB"
depth = 8
limit = { laps = 2 }
verify = "end"
"#;

#[test]
fn a_run_knows_later_what_it_wrote() {
    let desk = Desk::new(WRITER);
    let data = desk.file("data.bin", 4 * MIB);
    let said = desk.arraylab(&["run", "load.toml", "--on", "data.bin"]);
    assert_eq!(said.code, 2, "what is on it is not written over unasked: {}", said.stdout);
    let said = desk.arraylab(&["run", "load.toml", "--on", "data.bin", "--destroy-data", "--json"]);
    assert_eq!((said.code, &*said.stderr), (0, ""), "{}", said.stdout);
    let document = said.json();
    let findings = &document["verification"][0]["findings"];
    assert_eq!(findings["count"], 0, "{findings:#}");
    assert_eq!(document["verification"][0]["device"], "data.bin");
    let run = document["run"].as_str().unwrap().to_owned();

    let left = desk.path().join(&run).join("ledger.log").exists();
    assert!(!left, "the ledger is whole, and its log is not needed");
    let said = desk.arraylab(&["verify", &run]);
    assert_eq!((said.code, &*said.stderr), (0, ""), "{}", said.stdout);
    assert!(said.stdout.starts_with("verification of data.bin: 4 MiB checked, no mismatch\n"), "{}", said.stdout);

    // A bit turns over, two blocks change places.
    let file = std::fs::File::options().read(true).write(true).open(&data).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 70_001).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], 70_001).unwrap();
    let (mut a, mut b) = (vec![0; 4096], vec![0; 4096]);
    file.read_exact_at(&mut a, 1 << 20).unwrap();
    file.read_exact_at(&mut b, 2 << 20).unwrap();
    file.write_all_at(&a, 2 << 20).unwrap();
    file.write_all_at(&b, 1 << 20).unwrap();
    file.sync_all().unwrap();
    let said = desk.arraylab(&["verify", &run]);
    assert_eq!((said.code, &*said.stderr), (1, ""), "{}", said.stdout);
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert_eq!(lines[0], "verification of data.bin: 4 MiB checked, 3 mismatches");
    assert!(
        lines.iter().any(|line| line.contains("data.bin: corrupt: 512 B at 69632: expected write ")
            && line.ends_with("found it damaged: one bit differs, bit 4 of byte 70001")),
        "{}",
        said.stdout
    );
    for (at, from) in [(1 << 20, 2 << 20), (2 << 20, 1 << 20)] {
        let line = format!("data.bin: misplaced: 4 KiB at {at}: expected write ");
        let end = format!(" of offset {from}");
        assert!(
            lines.iter().any(|said| said.contains(&line) && said.ends_with(&end)),
            "{line}...{end}: {}",
            said.stdout
        );
    }
    let json = desk.arraylab(&["verify", &run, "--json"]).json();
    assert_eq!((&json["sound"], &json["devices"][0]["findings"]["count"]), (&false.into(), &3.into()));
    assert_eq!(json["devices"][0]["findings"]["mismatches"][0]["kind"], "corrupt");

    // A copy of it elsewhere is as sound as it is.
    desk.file("copy.bin", 4 * MIB);
    let copied = desk.arraylab(&["copy", "data.bin", "copy.bin", "--destroy-data", "--size", "64KiB"]);
    assert_eq!(copied.code, 0, "{}{}", copied.stdout, copied.stderr);
    let said = desk.arraylab(&["verify", &run, "--on", "copy.bin"]);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stdout.starts_with("verification of copy.bin: 4 MiB checked, 3 mismatches\n"), "{}", said.stdout);
}

/// Until something was noted of it, a run has written nothing that could be verified; what a killed one wrote before is
/// known, and damage to it is found.
#[test]
fn what_a_killed_run_wrote_is_verified_by_what_it_had_noted() {
    let desk = Desk::new(&WRITER.replace("limit = { laps = 2 }\n", "").replace("random-once", "random"));
    let data = desk.file("data.bin", MIB);
    let words = ["run", "load.toml", "--on", "data.bin", "--destroy-data", "--set", "run.measure=100s"];
    let mut child = desk.start(&words);
    let folder = || std::fs::read_dir(desk.path().join("runs")).ok()?.flatten().map(|entry| entry.path()).next();
    // Sixteen times as many writes as there are blocks: one of them that was not written has the odds of a ticket in
    // the lottery.
    let noted = || folder().and_then(|run| run.join("ledger.log").metadata().ok()).map_or(0, |log| log.len() / 32);
    wait_for("writes in the log", || noted() > 1024);
    let run = folder().unwrap();
    let run = run.to_str().unwrap();
    let said = desk.arraylab(&["verify", run]);
    assert_eq!(said.code, 2, "{}", said.stdout);
    assert!(said.stderr.contains("the run still goes on"), "{}", said.stderr);
    child.kill().unwrap();
    child.wait().unwrap();

    let said = desk.arraylab(&["verify", run, "--json"]);
    assert_eq!((said.code, &*said.stderr), (0, ""), "{}", said.stdout);
    let document = said.json();
    assert_eq!((&document["killed"], &document["sound"]), (&true.into(), &true.into()));
    assert_eq!(document["devices"][0]["findings"]["checked"], "1 MiB");
    let said = desk.arraylab(&["verify", run]);
    assert!(said.stdout.starts_with("verification of data.bin: 1 MiB checked"), "{}", said.stdout);
    assert!(said.stdout.contains("the run was killed: checked is what it had written until about a second before"));

    // A bit turns over, a block is of another time, and one of another place.
    let file = std::fs::File::options().read(true).write(true).open(&data).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 70_001).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], 70_001).unwrap();
    file.write_all_at(&[0; 16384], 16384 * 9).unwrap();
    let mut block = vec![0; 16384];
    file.read_exact_at(&mut block, 16384 * 20).unwrap();
    file.write_all_at(&block, 16384 * 30).unwrap();
    file.sync_all().unwrap();
    let said = desk.arraylab(&["verify", run]);
    assert_eq!(said.code, 1, "{}", said.stdout);
    for line in [
        "corrupt: 512 B at 69632: expected write ",
        ", bit 4 of byte 70001",
        "stale: 16 KiB at 147456: expected write ",
        ", found zeroes",
        "misplaced: 16 KiB at 491520: expected write ",
        " of offset 327680",
        " 3 mismatches",
    ] {
        assert!(said.stdout.contains(line), "{line}: {}", said.stdout);
    }
}

/// In virtual time the device's memory is real where it is looked at; and what a run did not write it does not judge.
#[test]
fn simulated_memory_is_verified_within_its_run() {
    let desk = Desk::new(WRITER);
    let said = desk.arraylab(&["run", "load.toml", "--on", "memory:8MiB:50us", "--json"]);
    assert_eq!((said.code, &*said.stderr), (0, ""), "{}", said.stdout);
    let document = said.json();
    assert_eq!(document["verification"][0]["findings"]["count"], 0);
    let said = desk.arraylab(&["verify", document["run"].as_str().unwrap()]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("existed in virtual time only"), "{}", said.stderr);
}

#[test]
fn what_cannot_be_verified_is_said() {
    let desk = Desk::new(WRITER);
    let refused = |words: &[&str], message: &str| {
        let said = desk.arraylab(words);
        assert_eq!((said.code, &*said.stdout), (2, ""), "{words:?}: {}", said.stderr);
        assert!(said.stderr.contains(message), "{words:?}: {}", said.stderr);
    };
    refused(&["run", "load.toml", "--on", "null:1GiB"], "stores no bytes, so there is nothing to verify");
    refused(&["verify", "runs/none"], "`arraylab verify` takes the folder of a run that wrote with `verify`");
    std::fs::create_dir_all(desk.path().join("runs/odd")).unwrap();
    desk.write("runs/odd/ledger.bin", "arraylab ledger 1\n{\"device\":0");
    refused(&["verify", "runs/odd"], "was damaged at byte 18");
}
