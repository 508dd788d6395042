//! `arraylab explain` and `arraylab predict`: what is said of runs, of traces, and of what is neither.

mod common;

use std::fmt::Write;

use common::{Desk, READS, Said};
use serde_json::Value;

/// Rounds of three disks as blkparse prints them: each is asked as soon as it is done, the commands of all go out at
/// once, then comes a transfer of 19 ms after the other.
fn convoy(rounds: u64) -> String {
    let mut random = 7u64;
    let mut draw = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut events = Vec::new();
    let mut start = 1_000_000u64;
    let mut asked = [0; 3];
    for round in 0..rounds {
        let mut order: Vec<(u64, u64)> = (0..3).map(|disk| (40_000_000 + draw(30_000_000), disk)).collect();
        order.sort_unstable();
        let mut end = start;
        for (positioned, disk) in order {
            let sector = 128 * (1000 * disk + round);
            events.push((asked[disk as usize], disk, 'Q', sector));
            events.push((start + disk * 1000 + 500, disk, 'D', sector));
            end = end.max(start + positioned) + 19_000_000 + draw(400_000);
            events.push((end, disk, 'C', sector));
            asked[disk as usize] = end + 20_000;
        }
        start = end + 40_000;
    }
    events.sort_unstable();
    let mut text = String::new();
    for (number, (at, disk, action, sector)) in events.into_iter().enumerate() {
        let (seconds, nanos) = (at / 1_000_000_000, at % 1_000_000_000);
        let last = if action == 'C' { "0" } else { "reader" };
        writeln!(
            text,
            "  8,{:<3} 0 {number:8} {seconds:5}.{nanos:09}  400  {action}   R {sector} + 128 [{last}]",
            16 * disk
        )
        .unwrap();
    }
    text
}

fn desk() -> Desk {
    let desk = Desk::new(READS);
    desk.write("trace.txt", &convoy(200));
    desk
}

fn refused(said: &Said, code: i32, parts: &[&str]) {
    assert_eq!((said.stdout.as_str(), said.code), ("", code), "{}", said.stderr);
    for part in parts {
        assert!(said.stderr.contains(part), "'{part}' in {}", said.stderr);
    }
}

/// The fields that scripts rely on.
fn keeps_the_contract(document: &Value) {
    let limit = &document["limit"];
    assert!(limit["part"].is_string() && limit["kind"].is_string() && limit["confidence"].is_number(), "{limit}");
    assert!(limit["evidence"].as_array().is_some_and(|lines| lines.iter().all(Value::is_string)), "{limit}");
    // Of a shared part that is known by its effects alone, nobody knows it.
    assert!(limit["utilization"].is_number() || limit["utilization"].is_null(), "{limit}");
    for excluded in document["excluded"].as_array().unwrap() {
        assert!(excluded["kind"].is_string() && excluded["because"].is_string(), "{excluded}");
        assert_ne!(excluded["kind"], limit["kind"], "{document:#}");
    }
    assert!(document["next"].is_null() || document["next"]["part"].is_string(), "{document:#}");
    for phase in document["phases"].as_array().unwrap() {
        assert!(phase["part"].is_string() && phase["phase"].is_string(), "{phase}");
        assert!(phase["mean_ns"].is_number() && phase["share"].is_number(), "{phase}");
    }
    assert!(document["ladder"].is_array() && document["what_if"].is_array(), "{document:#}");
    for change in document["what_if"].as_array().unwrap() {
        assert!(change["change"].is_string() && change["source"].is_string());
        assert!(["ratio", "low", "high"].iter().all(|field| change[field].is_number()), "{change}");
    }
    if !document["rounds"].is_null() {
        for field in ["good_rounds", "out_of", "large_mean_ns", "small_mean_ns"] {
            assert!(document["rounds"][field].is_number() || field.ends_with("ns"), "rounds.{field} in {document:#}");
        }
    }
}

#[test]
fn a_run_on_simulated_devices_is_explained() {
    let desk = desk();
    let run = desk.arraylab(&["run", "load.toml", "--on", "memory:16MiB,memory:16MiB:300us", "--json"]).json();
    let folder = run["run"].as_str().unwrap();
    let document = desk.arraylab(&["explain", folder, "--json"]).json();
    keeps_the_contract(&document);
    // Each takes any number at once, so that nothing queues there.
    assert_eq!(document["limit"]["kind"], "depth");
    assert_eq!(document["rounds"]["found"], false, "{document:#}");
    assert_eq!(document["devices"].as_array().unwrap().len(), 2);
    assert!((document["devices"][1]["mean_depth"].as_f64().unwrap() - 4.0).abs() < 0.1);
    let text = desk.arraylab(&["explain", folder]);
    assert_eq!((text.code, text.stderr.as_str()), (0, ""));
    let first = "What limits: the depth: how many requests are under way (100 % used).";
    assert!(text.stdout.starts_with(first), "{}", text.stdout);
    assert!(text.stdout.contains("What limits next: memory:16MiB"), "{}", text.stdout);
}

#[test]
fn a_run_on_files_says_what_they_stand_on() {
    let desk = desk();
    desk.file("a.bin", 8 << 20);
    desk.file("b.bin", 8 << 20);
    let run = desk.arraylab(&["run", "load.toml", "--on", "a.bin,b.bin", "--json"]).json();
    let document = desk.arraylab(&["explain", run["run"].as_str().unwrap(), "--json"]).json();
    keeps_the_contract(&document);
    assert!(document["generator_busy"].is_number());
    let shared = document["shared"].as_array().unwrap();
    assert_eq!(shared[0]["devices"], serde_json::json!(["a.bin", "b.bin"]), "{shared:?}");
    assert!(!document["worst"].as_array().unwrap().is_empty());
}

#[test]
fn one_device_has_no_rounds_and_that_is_said() {
    let desk = desk();
    let run = desk.arraylab(&["run", "load.toml", "--on", "memory:16MiB", "--json"]).json();
    let document = desk.arraylab(&["explain", run["run"].as_str().unwrap(), "--json"]).json();
    assert!(document["rounds"].is_null());
    let why =
        "rounds are something that several devices do together, and requests completed on memory:16MiB:100us only";
    assert_eq!(document["no_rounds"], why);
}

#[test]
fn a_trace_of_disks_in_rounds_is_explained_and_drawn() {
    let desk = desk();
    let said = desk.arraylab(&["explain", "--trace", "trace.txt", "--threshold", "40ms", "--lanes", "lanes.svg"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let first: Vec<&str> = said.stdout.lines().take(2).collect();
    assert_eq!(
        first,
        [
            "What limits: what the devices share (55 % used). 99 percent of I/O in rounds (198 of 199): each of the 3",
            "  devices is served once, then nothing is transferred for 46.9 ms of every 105 ms, 45 percent. The verdict is"
        ]
    );
    assert!(said.stdout.contains("threshold 40 ms, as given"), "{}", said.stdout);
    let picture = std::fs::read_to_string(desk.path().join("lanes.svg")).unwrap();
    assert!(picture.starts_with("<svg ") && picture.trim_end().ends_with("</svg>"));
    assert!((24..=30).contains(&picture.matches("<rect class=\"read\" x").count()), "{picture}");
    assert!(picture.matches("class=\"idle\"").count() >= 7);
    for disk in ["8,0", "8,16", "8,32"] {
        assert!(picture.contains(&format!(">{disk}<title>")), "{disk}");
    }
    let document = desk.arraylab(&["explain", "--trace", "trace.txt", "--json"]).json();
    keeps_the_contract(&document);
    assert_eq!((&document["rounds"]["found"], &document["rounds"]["good_rounds"]), (&true.into(), &198.into()));
}

/// A fourth disk that is asked three times, one request in forty that fails, and a disk that discards.
#[test]
fn what_is_left_out_of_rounds_and_what_failed_is_said() {
    let desk = desk();
    let mut lines: Vec<String> = convoy(200).lines().map(str::to_owned).collect();
    for (count, line) in lines.iter_mut().filter(|line| line.contains("  C  ") && line.contains("8,16 ")).enumerate() {
        if count % 40 == 0 {
            *line = line.replace("[0]", "[65531]");
        }
    }
    let stray = |at: &str, end: &str| {
        let event = |at: &str, action: &str, last: &str| format!("  8,48  0 1 {at} 400 {action}  DS 8 + 8 [{last}]");
        [event(at, "Q", "log"), event(at, "D", "log"), event(end, "C", "0")]
    };
    lines.extend(
        ["10.5", "10.6", "10.7"].iter().flat_map(|at| stray(&format!("{at}00000000"), &format!("{at}10000000"))),
    );
    let second = |line: &String| line.split_whitespace().nth(3).unwrap().parse::<f64>().unwrap();
    lines.sort_by(|a, b| second(a).total_cmp(&second(b)));
    desk.write("mixed.txt", &lines.join("\n"));
    let said = desk.arraylab(&["explain", "--trace", "mixed.txt", "--lanes", "lanes.svg", "--window", "1s"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let text = said.stdout.replace("\n  ", " ");
    for part in [
        "5 of 200 requests to 8,16 failed: Input/output error (os error 5). They count in no rate and in no round.",
        "Rounds: yes.",
        "8,48 (3 completions) is left out of this: a round is one request of each device, so that with it no more than",
        "* devices position while others transfer: pipelined reads (pipeline = true), or more requests under way (depth above 1): ",
    ] {
        assert!(text.contains(part), "'{part}' in {text}");
    }
    let picture = std::fs::read_to_string(desk.path().join("lanes.svg")).unwrap();
    assert!(picture.contains(">discard</text>"), "{picture}");
}

#[test]
fn a_run_whose_requests_all_failed_says_so() {
    let desk = desk();
    desk.write("failed.txt", &convoy(20).replace("[0]", "[65531]"));
    let next =
        "all 60 counted requests of failed.txt failed, so that there is nothing to explain; the kernel's log (dmesg)";
    refused(&desk.arraylab(&["explain", "--trace", "failed.txt"]), 2, &[next]);
}

#[test]
fn what_cannot_be_read_says_what_can() {
    let desk = desk();
    let run = desk.arraylab(&["run", "load.toml", "--on", "memory:16MiB,memory:16MiB", "--json"]).json();
    let folder = run["run"].as_str().unwrap();
    let (name, parent) = (folder.rsplit_once('/').unwrap().1, folder.rsplit_once('/').unwrap().0);
    let said = desk.arraylab(&["explain", parent]);
    refused(&said, 2, &["is not a run folder: it has no run.json; it holds some, give one: ", name]);
    desk.write(&format!("{folder}/records.parquet"), "no more");
    let next = "it is damaged or cut off: take it from a copy, or make the run again";
    refused(&desk.arraylab(&["explain", folder]), 2, &["cannot be read as Parquet", next]);
}

/// blkparse begins to count at the first event that it reads, so that two of its texts are of two clocks.
#[test]
fn texts_of_two_clocks_are_refused_with_what_would_do() {
    let desk = desk();
    let begun = |device: &str| format!("  {device} 0 1 0.000000000 400 G R 0 + 8 [reader]\n");
    desk.write("sooner.txt", &(begun("8,0") + &convoy(100)));
    desk.write("later.txt", &(begun("8,16") + &convoy(101)));
    let said = desk.arraylab(&["explain", "--trace", "sooner.txt", "--trace", "later.txt"]);
    let next = "let one blkparse read the traces of all devices (blkparse -i sdb -i sdc)";
    refused(&said, 2, &["sooner.txt and later.txt both begin at zero", next]);
}

/// What was measured is not written over by what is said of it, under any name; results of before are.
#[test]
fn a_result_does_not_take_the_place_of_what_it_is_made_from() {
    let desk = desk();
    let run = desk.arraylab(&["run", "load.toml", "--on", "memory:16MiB,memory:16MiB:300us", "--json"]).json();
    let folder = run["run"].as_str().unwrap();
    let [records, kept, picture] = ["records.parquet", "run.json", "lanes.svg"].map(|file| format!("{folder}/{file}"));
    std::os::unix::fs::symlink(desk.path().join("trace.txt"), desk.path().join("other.txt")).unwrap();
    let lanes = "name another file with --lanes";
    for (words, taken, next) in [
        (vec!["explain", folder, "--lanes", &records], &records[..], lanes),
        (vec!["explain", folder, "--lanes", &kept], &kept, lanes),
        (vec!["explain", &records, "--lanes", &records], &records, lanes),
        (vec!["report", folder, "-o", &records], &records, "name another file with -o"),
        (vec!["explain", "--trace", "trace.txt", "--lanes", "trace.txt"], "trace.txt", lanes),
        (vec!["explain", "--trace", "trace.txt", "--lanes", "other.txt"], "other.txt", lanes),
    ] {
        let said = "is what the result would be made from, and it would be written over";
        let before = std::fs::read(desk.path().join(taken)).unwrap();
        refused(&desk.arraylab(&words), 2, &[&format!("error: {taken} {said}; {next}")]);
        assert_eq!(std::fs::read(desk.path().join(taken)).unwrap(), before, "{words:?}");
    }
    for _ in 0..2 {
        assert_eq!(desk.arraylab(&["explain", folder, "--lanes", &picture]).code, 0);
    }
}

/// However long: what comes after the last request is not shown.
#[test]
fn a_picture_ends_with_the_run() {
    let desk = desk();
    let picture = |window: &str| {
        let said = desk.arraylab(&["explain", "--trace", "trace.txt", "--window", window, "--lanes", "lanes.svg"]);
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{window}");
        std::fs::read_to_string(desk.path().join("lanes.svg")).unwrap()
    };
    let rest = picture("1min");
    assert!(rest.matches("<rect class=\"read\" x").count() > 290, "{rest}");
    assert_ne!(picture("1s"), rest);
    for longer in ["3h", "18446744073s"] {
        assert_eq!(picture(longer), rest, "{longer}");
    }
}

#[test]
fn what_is_no_run_and_no_trace_is_refused() {
    let desk = desk();
    let next = "give a folder that 'arraylab run' has made under runs/, or a trace with --trace";
    refused(&desk.arraylab(&["explain", "gone"]), 2, &["error: gone: No such file or directory", next]);
    refused(&desk.arraylab(&["explain", "."]), 2, &["error: . is not a run folder: it has no run.json"]);
    refused(&desk.arraylab(&["explain"]), 2, &["required arguments were not provided", "<RUN>"]);
    refused(
        &desk.arraylab(&["explain", "--trace", "load.toml"]),
        2,
        &["load.toml is in no format that can be told", "say which with --format: blkparse"],
    );
    refused(&desk.arraylab(&["explain", "--trace", "gone.txt"]), 2, &["gone.txt: No such file or directory"]);
    refused(
        &desk.arraylab(&["explain", "--trace", "trace.txt", "--format", "xdd"]),
        2,
        &["'xdd' is no format of traces; there are blkparse, fio-log, fio-iolog, msr, spc and disksim"],
    );
    refused(&desk.arraylab(&["explain", "--trace", "trace.txt", "--threshold", "5"]), 2, &["'5' has no unit"]);
    let all = ["explain", "--trace", "trace.txt", "--lanes", "gone/lanes.svg"];
    refused(
        &desk.arraylab(&all),
        3,
        &["gone/lanes.svg: cannot be written: No such file or directory", "name another file with --lanes"],
    );
    let mut lines: Vec<String> = convoy(20).lines().map(str::to_owned).collect();
    lines.reverse();
    desk.write("back.txt", &lines.join("\n"));
    refused(
        &desk.arraylab(&["explain", "--trace", "back.txt"]),
        2,
        &["back.txt:", "lies before the one above it", "explain traces of different times one by one"],
    );
}

#[test]
fn predictions_are_the_studys() {
    let desk = desk();
    let document = desk.arraylab(&["predict", "rounds", "--disks", "7", "--block", "64KiB", "--json"]).json();
    let round = document[0]["round_ns"].as_u64().unwrap();
    // Table 2: a large delta of 68 ms and six small ones of 18 ms.
    assert!((170_000_000..185_000_000).contains(&round), "{document:#}");
    for field in ["disks", "block_bytes", "large_ns", "transfer_ns", "bandwidth_bytes_per_s", "independent_bytes_per_s"]
    {
        assert!(document[0][field].is_number(), "{field} in {document:#}");
    }
    refused(
        &desk.arraylab(&["predict", "rounds", "--seek-mean", "30ms"]),
        2,
        &["no seek curve rises from 2.5 ms to 34 ms with a mean of 30 ms"],
    );
    refused(&desk.arraylab(&["predict", "rounds", "--rate", "3.3"]), 2, &["'3.3' has no unit"]);
    let absurd = ["predict", "rounds", "--rate", "1B/s", "--block", "1GiB", "--disks", "1024"];
    refused(&desk.arraylab(&absurd), 2, &["with these values a round takes 1.273e7 days"]);
    let text = desk.arraylab(&["predict", "rounds", "--disks", "7", "--block", "64KiB"]).stdout;
    assert!(
        text.contains("reckoned with: bus 3.46 MB/s, medium 1.95 MB/s, revolution 16.7 ms, seeks of 2.5 ms"),
        "{text}"
    );
}

const SPARC20: &str = r#"
[run]
start-up = "1 s"
measure = "20 s"

[system]
name = "sparc20-wren7"
way = "raw"

[[stream]]
name = "readers"
operation = "read"
pattern = "random"
size = "64 KiB"
"#;

/// The run that was made last.
fn document_of(desk: &Desk) -> String {
    let runs = desk.path().join("runs").read_dir().unwrap().map(|entry| entry.unwrap().path());
    runs.max_by_key(|path| path.metadata().unwrap().modified().unwrap()).unwrap().display().to_string()
}

#[test]
fn the_studys_own_machine_convoys_as_long_as_its_adapter_gives_way_to_data() {
    let desk = desk();
    desk.write("sparc20.toml", SPARC20);
    let explained = |settings: &[&str]| {
        let run = desk.arraylab(&[&["run", "sparc20.toml", "--json"], settings].concat()).json();
        let document = desk.arraylab(&["explain", run["run"].as_str().unwrap(), "--json"]).json();
        keeps_the_contract(&document);
        (document, run["total"]["bandwidth_bytes_per_s"].as_f64().unwrap())
    };
    let (document, with) = explained(&[]);
    let rounds = &document["rounds"];
    assert_eq!((rounds["found"].as_bool(), rounds["devices"].as_array().unwrap().len()), (Some(true), 7), "{rounds:#}");
    assert!(rounds["evidence"].as_str().unwrap().contains("each of the 7 devices is served once"), "{rounds:#}");
    // The formulas know the machine.
    let formulas = &document["formulas"];
    let near = |measured: &Value, formula: &str| {
        let ratio = measured.as_f64().unwrap() / formulas["predicted"][formula].as_f64().unwrap();
        assert!((0.9..1.1).contains(&ratio), "{formula}: {formulas:#}");
    };
    near(&formulas["round_ns"], "round_ns");
    near(&formulas["large_ns"], "large_ns");
    near(&formulas["small_ns"], "transfer_ns");
    near(&formulas["bandwidth_bytes_per_s"], "bandwidth_bytes_per_s");
    // And say which constants they have, and how to reckon with them again.
    let again = desk.arraylab(&["explain", document_of(&desk).as_str()]).stdout.replace("\n  ", " ");
    let words = again.split("The same again: arraylab ").nth(1).unwrap().lines().next().unwrap();
    let words: Vec<String> = words
        .split('\'')
        .enumerate()
        .flat_map(|(nth, part)| match nth % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        })
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).chain(["--json"]).collect();
    let same = desk.arraylab(&words).json()[0]["round_ns"].as_f64().unwrap();
    let round = formulas["predicted"]["round_ns"].as_f64().unwrap();
    assert!((same / round - 1.0).abs() < 1e-4, "{same} and {round}: {words:?}");
    let (document, without) = explained(&["--set", "esp.gives-way=false"]);
    assert_eq!(document["rounds"]["found"], false, "{:#}", document["rounds"]);
    assert!(without > 1.2 * with, "{with} B/s with the policy, {without} without");
    let independent = document["formulas"]["predicted"]["independent_bytes_per_s"].as_f64().unwrap();
    assert!((with..1.05 * independent).contains(&without), "{without} B/s, and {independent} if no disk waited");
    // They are of random reads, one of each disk.
    for setting in ["stream.readers.pattern=sequential", "stream.readers.depth=2"] {
        assert_eq!(explained(&["--set", setting]).0["formulas"], Value::Null, "{setting}");
    }
}

/// A device that is twice as slow is that; the same run again is no difference; one pass says nothing of how sure that
/// is.
#[test]
fn two_runs_are_held_against_each_other() {
    let desk = Desk::new(&READS.replace("[run]", "[run]\npasses = 4"));
    let run = |words: &[&str]| {
        let said = desk.arraylab(&[&["run", "load.toml", "--json", "--on"], words].concat());
        said.json()["run"].as_str().unwrap().to_owned()
    };
    let [first, same] = [run(&["memory:1GiB:100us"]), run(&["memory:1GiB:100us"])];
    let slow = run(&["memory:1GiB:200us", "--set", "stream.readers.size=8KiB"]);
    let against = |run: &str| desk.arraylab(&["explain", run, "--against", &first, "--json"]).json();
    let document = against(&slow);
    let total = &document["compared"][0];
    let ratio = |of: &str| total[of]["ratio"].as_f64().unwrap();
    assert!((ratio("iops") - 0.5).abs() < 0.01 && (ratio("bandwidth") - 1.0).abs() < 0.02, "{total:#}");
    assert!((ratio("latency_mean") - 2.0).abs() < 0.01, "{total:#}");
    let only = |of: &str| document[of].to_string();
    assert!(only("only_before").contains("4 KiB") && only("only_after").contains("8 KiB"), "{document:#}");
    let said = desk.arraylab(&["explain", &slow, "--against", &first]);
    assert!(said.stdout.contains("-50.0 %") && said.stdout.contains("these passes differ"), "{}", said.stdout);
    assert_eq!(against(&same)["compared"][0]["iops"]["ratio"], 1.0);
    let said = desk.arraylab(&["explain", &same, "--against", &first]);
    assert!(
        !said.stdout.contains("these passes differ") && said.stdout.contains("no difference is shown"),
        "{}",
        said.stdout
    );
    let alone = run(&["memory:1GiB:150us", "--set", "run.passes=1"]);
    let said = desk.arraylab(&["explain", &alone, "--against", &first]);
    assert!(said.stdout.contains("not known: one pass"), "{}", said.stdout);
    let said = desk.arraylab(&["explain", &alone, "--against", "nowhere"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
}
