//! Experiments on modelled machines: run by the code that runs all experiments, and refused with their place.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use lab::{Outcome, Setting, Silent, Source, Ways, read, run};
use record::Row;
use units::Bytes;

const LOAD: &str = r#"
[run]
passes = 3
start-up = "1 s"
measure = "5 s"
cool-down = "500 ms"

[system]
name = "raid-i"
way = "raw"
disks = 3
under = ["string-0", "string-2"]

[[stream]]
name = "readers"
operation = "read"
pattern = "random"
size = "4 KiB"
"#;

fn points(text: &str, settings: &[&str]) -> Result<Vec<lab::Point>, String> {
    let settings: Vec<Setting> = settings.iter().map(|setting| setting.parse().unwrap()).collect();
    let source = Source { name: "load.toml".into(), text: text.into() };
    read(&source, &settings).map_err(|error| error.to_string())
}

fn outcome(text: &str, settings: &[&str]) -> Outcome {
    let point = points(text, settings).unwrap_or_else(|error| panic!("{error}")).remove(0);
    let ways = Ways {
        permits: &HashMap::new(),
        record_memory: Bytes::mib(64),
        folder: None,
        interrupted: &AtomicBool::new(false),
        progress: &Silent,
        party: None,
    };
    run("test", &point.experiment, &[], &ways).unwrap()
}

fn rate(text: &str, settings: &[&str]) -> f64 {
    outcome(text, settings).summary.total.figures.iops.get()
}

fn rows(outcome: &Outcome) -> Vec<Row> {
    let mut rows = Vec::new();
    outcome
        .recording
        .visit(|some| {
            rows.extend_from_slice(some);
            Ok::<(), record::RawError>(())
        })
        .unwrap();
    rows
}

#[test]
fn passes_are_machines_of_their_own_and_give_an_interval() {
    let outcome = outcome(LOAD, &[]);
    let spread = outcome.summary.total.spread.unwrap();
    let (mean, half) = (spread.iops.mean.get(), spread.iops.half_width.get());
    // Three disks that each do somewhat below 30 requests a second.
    assert!((75.0..95.0).contains(&mean) && half > 0.0 && half < 0.2 * mean, "{spread:?}");
    assert_eq!(outcome.meta.labels.devices, ["disk-0.0", "disk-2.0", "disk-0.1"]);
    let modelled = outcome.conclusion.modelled.as_ref().unwrap();
    assert_eq!(modelled.passes.len(), 3);
    for pass in &modelled.passes {
        let load = &pass.load;
        assert!((5.0..5.2).contains(&load.at.as_seconds()), "{load:?}");
        assert!((0.0..0.2).contains(&load.utilization("string-0").get()) && load.utilization("string-1").get() == 0.0);
    }
}

#[test]
fn every_row_has_spans_that_tile_its_time_in_every_pass() {
    let outcome = outcome(LOAD, &[]);
    let spans = outcome.conclusion.modelled.as_ref().unwrap().spans.as_ref().unwrap();
    let mut extents = std::collections::BTreeMap::new();
    for span in spans.spans().iter().filter(|span| span.request > 0) {
        let extent = extents.entry(span.request).or_insert((span.start, span.end));
        *extent = (extent.0.min(span.start), extent.1.max(span.end));
    }
    spans.check(extents.iter().map(|(request, (start, end))| (*request, *start, *end))).unwrap();
    let extents: std::collections::BTreeSet<_> = extents.into_values().collect();
    let rows = rows(&outcome);
    assert!(rows.len() > 1000);
    assert!(rows.iter().all(|row| extents.contains(&(row.submitted, row.completed))));
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let (one, same, other) = (outcome(LOAD, &[]), outcome(LOAD, &[]), outcome(LOAD, &["seed=2"]));
    assert_eq!(rows(&one), rows(&same));
    assert_ne!(rows(&one), rows(&other));
}

#[test]
fn settings_reach_the_load_the_machine_and_its_parts() {
    let base = rate(LOAD, &[]);
    // A processor of a twentieth of the speed holds the disks up; ten disks do more than three.
    assert!(rate(LOAD, &["sun4-280.instructions=0.2 MIPS"]) < 0.7 * base);
    assert!(rate(LOAD, &["system.disks=7", "system.under=[\"string-0\",\"string-2\"]"]) > 2.0 * base);
    assert!(rate(LOAD, &["system.way=no-copy"]) > base);
    assert!(rate(LOAD, &["stream.readers.depth=2"]) >= 0.95 * base);
    // The system's own values, and a sweep over a part's.
    assert!(rate(LOAD, &["system.node.6.count=1", "system.disks=1"]) < 0.5 * base);
    let swept = points(&format!("{LOAD}\n[sweep]\n\"wren-iv.read-ahead.until\" = [\"segment full\", \"none\"]\n"), &[])
        .unwrap();
    let parts: Vec<_> = swept.iter().map(|point| &point.experiment.system.as_ref().unwrap().parts[0].1).collect();
    assert_eq!(parts, ["segment full", "none"]);
}

#[test]
fn spans_are_kept_of_a_run_and_of_points_of_a_sweep_only_if_they_are_asked_for() {
    let kept = |text: &str, settings: &[&str]| -> Vec<bool> {
        let points = points(text, settings).unwrap();
        points.iter().map(|point| point.experiment.system.as_ref().unwrap().spans).collect()
    };
    let sweep = format!("{LOAD}\n[sweep]\n\"stream.readers.depth\" = [1, 2]\n");
    assert_eq!(kept(LOAD, &[]), [true]);
    assert_eq!(kept(&sweep, &[]), [false; 2]);
    assert_eq!(kept(&sweep, &["system.spans=true"]), [true; 2]);
    assert_eq!(kept(&sweep, &["stream.readers.depth=2"]), [true], "one point is no sweep");
    let both = format!("{LOAD}\n[sweep]\n\"system.spans\" = [true, false]\n");
    assert_eq!(kept(&both, &[]), [true, false]);
    assert!(outcome(LOAD, &["system.spans=false"]).conclusion.modelled.unwrap().spans.is_none());
}

#[test]
fn an_array_is_one_device() {
    let text = LOAD.replace("way = \"raw\"", "way = \"array\"").replace("disks = 3", "disks = 4");
    let outcome = outcome(&text, &["stream.readers.depth=16"]);
    assert_eq!(outcome.meta.labels.devices, ["array"]);
    assert!(outcome.summary.total.figures.iops.get() > 60.0);
}

#[test]
fn what_was_run_reads_back_as_it_was() {
    let settings = ["system.node.4.slot=3", "system.node.19.slot=0", "vme.rate=20MB/s", "system.spans=false"];
    let experiment = points(LOAD, &settings).unwrap().remove(0).experiment;
    let again = points(&experiment.to_toml(), &[]).unwrap().remove(0).experiment;
    assert_eq!(again, lab::Experiment { name: again.name.clone(), ..experiment });
}

/// Two programs of the 4.2BSD study differ in nothing else.
#[test]
fn a_file_that_a_run_makes_is_written_down_as_absent() {
    let program = |program: &str| {
        let text = format!(
            "[system]\nname = \"vax-780-sc780\"\nway = \"files\"\n[[stream]]\nname = \"p\"\nprogram = \"{program}\"\n"
        );
        points(&text, &[]).unwrap().remove(0).experiment.to_toml()
    };
    let (new, old) = (program("write_8192"), program("rewrite_8192"));
    assert_ne!(new, old);
    assert!(points(&new, &[]).unwrap()[0].experiment.streams[0].makes_its_file());
    assert!(!points(&old, &[]).unwrap()[0].experiment.streams[0].makes_its_file());
}

#[test]
fn a_file_that_a_run_makes_is_not_read() {
    let text =
        |streams: &str| format!("[system]\nname = \"vax-780-sc780\"\nway = \"files\"\ndisks = [\"hp-0\"]\n{streams}");
    let stream = |name: &str, more: &str| {
        format!(
            "[[stream]]\nname = \"{name}\"\nsize = \"8 KiB\"\npattern = \"random\"\ndepth = 1\nlimit = {{ requests = 10 }}\n{more}\n"
        )
    };
    let makes = stream("new", "operation = \"write\"\nfile = \"absent\"");
    points(&text(&makes), &[]).expect("a stream that only writes makes its file");
    for reads in [
        stream("new", "operation = \"read\"\nfile = \"absent\""),
        stream("new", "operation = { reads = \"1 %\" }\nfile = \"absent\""),
        makes.clone() + &stream("old", "operation = \"read\""),
        makes.clone() + &stream("old", "operation = \"write\"\nfile = \"there\""),
    ] {
        let said = points(&text(&reads), &[]).unwrap_err();
        assert!(said.contains("the file is absent when the run begins") && said.contains("absent\""), "{said}");
    }
}

/// One message each, with the line of the experiment and what would be accepted.
#[test]
fn what_does_not_fit_is_refused_with_its_place() {
    let cases: [(&str, &[&str]); 16] = [
        ("there is no such system; there are: max, nfs-10g, nfs-10g-peer, nvme-24, raid-i", &["system.name=raid-ii"]),
        ("nowhere.toml: the system's file cannot be read", &["system.name=nowhere.toml"]),
        ("there are 1 to 8 drives to use here", &["system.disks=9"]),
        ("there is no drive 'disk-0.4'; there are: disk-0.0 to disk-0.3, disk-1.0", &["system.disks=[\"disk-0.4\"]"]),
        ("there are no drives under 'os'; there are under: memory, backplane, adapter-0", &["system.under=[\"os\"]"]),
        (
            "'through' is no way into a machine; there are no-copy, raw, asynchronous, array, files",
            &["system.way=through"],
        ),
        ("level 5", &["system.disks=1", "system.way=array"]),
        ("a stripe unit is whole 512-byte blocks", &["system.array.stripe-unit=1000B"]),
        ("there is no part or node 'wren-v'; parts of this machine are: system, ", &["wren-v.buffer.size=64KiB"]),
        (
            "it would change nothing, as the machine has no part 'wren-7'; its parts are: ",
            &["wren-7.pause.block-least=10 us"],
        ),
        ("parts/wren-iv.toml:", &["wren-iv.buffer.read-fill=200 %"]),
        ("a share from 0 % to 100 %", &["wren-iv.buffer.read-fill=200 %"]),
        ("a part of kind 'disk' stands on one of kind 'scsi-string'", &["system.parts.system.node.0.part=wren-iv"]),
        ("there is no place for disk-0.7", &["system.node.6.count=9"]),
        ("asks for", &["stream.readers.size=1GiB"]),
        ("which is no multiple of the 512 B blocks", &["stream.readers.size=1000B"]),
    ];
    for (message, settings) in cases {
        let said = points(LOAD, settings).expect_err(message);
        assert!(said.contains(message), "{settings:?}: {said}");
    }
    let beyond = LOAD.replace("size = \"4 KiB\"", "size = \"4 KiB\"\nregion = { start = \"350 MiB\" }");
    let said = points(&beyond, &[]).unwrap_err();
    assert!(said.contains("load.toml:14") && said.contains("ends at"), "{said}");
    let missing = LOAD.replace("way = \"raw\"\n", "");
    let said = points(&missing, &[]).unwrap_err();
    assert!(said.contains("load.toml:8") && said.contains("missing field `way`"), "{said}");
    let value = LOAD.replace("under = [\"string-0\", \"string-2\"]", "parts.scsi-1.devices = 9");
    let said = points(&value, &[]).unwrap_err();
    assert!(said.contains("load.toml:12") && said.contains("2 to 8"), "{said}");
}

/// One machine of several is enough.
#[test]
fn a_value_of_a_part_has_to_be_of_a_machine_of_the_sweep() {
    let sweep = LOAD.replace("under = [\"string-0\", \"string-2\"]\n", "").replace("disks = 3", "disks = 1");
    let sweep = sweep + "\n[sweep]\n\"system.name\" = [\"raid-i\", \"sparc20-wren7\"]\n";
    for key in ["wren-7.pause.block-least=10 us", "wren-iv.buffer.read-fill=25 %"] {
        assert_eq!(points(&sweep, &[key]).unwrap().len(), 2, "{key}");
    }
    // A file may say so: it is what is kept of one point of a sweep.
    let kept = LOAD.replace("disks = 3", "disks = 3\nparts.wren-7.pause.block-least = \"10 us\"");
    assert_eq!(points(&kept, &[]).unwrap().len(), 1);
    let said = points(&sweep, &["mg10-20tb.queue.depth=1"]).unwrap_err();
    assert!(
        said.starts_with("error: ") && said.contains("it would change nothing") && said.contains("--set:1:1"),
        "{said}"
    );
}

/// Each row of a run carries the number of its spans, which tile its time.
#[test]
fn rows_and_spans_of_a_run_are_joined_by_number() {
    for way in ["raw", "array"] {
        let text = match way {
            "array" => {
                LOAD.replace("way = \"raw\"\ndisks = 3\nunder = [\"string-0\", \"string-2\"]", "way = \"array\"")
            }
            _ => LOAD.to_owned(),
        };
        let outcome = outcome(&text, &["run.measure=1s", "stream.readers.depth=3"]);
        let spans = outcome.conclusion.modelled.as_ref().unwrap().spans.as_ref().unwrap();
        let rows = rows(&outcome);
        assert!(rows.len() > 100, "{}", rows.len());
        let mut numbers: Vec<u32> = rows.iter().map(|row| row.request).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert!(numbers.len() == rows.len() && numbers[0] > 0, "each has its own");
        spans.check(rows.iter().map(|row| (u64::from(row.request), row.submitted, row.completed))).unwrap();
    }
    let without = outcome(&LOAD.replace("way = \"raw\"", "way = \"raw\"\nspans = false"), &["run.measure=1s"]);
    assert!(rows(&without).iter().all(|row| row.request == 0), "without spans there is nothing to join");
}

#[test]
fn an_array_is_the_system_s_own_or_one_of_the_disks_named() {
    let array = |lines: &str| LOAD.replace("way = \"raw\"\ndisks = 3\nunder = [\"string-0\", \"string-2\"]", lines);
    let sizes = |text: &str, settings: &[&str]| outcome(text, settings).conclusion.sizes[0].get();
    let own = sizes(&array("way = \"array\""), &["run.measure=1s"]);
    let six = sizes(&array("way = \"array\"\ndisks = 6"), &["run.measure=1s"]);
    assert!((six as f64 / own as f64 - 5.0 / 3.0).abs() < 1e-3, "{own} of three disks' data, {six} of five");
    let mirrored = ["run.measure=1s", "system.array.level=10", "system.array.layout=n2"];
    let mirrored = sizes(&array("way = \"array\""), &mirrored);
    assert!((mirrored as f64 / own as f64 - 2.0 / 3.0).abs() < 1e-3, "{mirrored}");
    let refused = points(&array("way = \"array\"\ndisks = 1"), &[]).unwrap_err();
    assert!(refused.contains("level 5"), "{refused}");
}

/// A system's own part lies beside the system's file, and is changed and shown under its name.
#[test]
fn a_system_may_be_made_of_parts_of_the_user() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let text = |path: &str| std::fs::read_to_string(format!("{root}/{path}")).unwrap();
    let folder = std::env::temp_dir().join(format!("arraylab-own-part-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("mine")).unwrap();
    let system = text("systems/raid-i.toml");
    std::fs::write(folder.join("own.toml"), system.replace("\"vme\"", "\"mine/fast-bus.toml\"")).unwrap();
    std::fs::write(folder.join("mine/fast-bus.toml"), text("parts/vme.toml")).unwrap();
    std::fs::write(folder.join("clash.toml"), system.replace("\"vme\"", "\"mine/wren-iv.toml\"")).unwrap();
    std::fs::write(folder.join("mine/wren-iv.toml"), text("parts/vme.toml")).unwrap();
    std::fs::write(folder.join("gone.toml"), system.replace("\"vme\"", "\"mine/nowhere.toml\"")).unwrap();
    let load = |name: &str| LOAD.replace("\"raid-i\"", &format!("\"{}\"", folder.join(name).display()));
    let here = rate(LOAD, &["run.measure=1s"]);
    assert_eq!(rate(&load("own.toml"), &["run.measure=1s"]), here);
    assert!(rate(&load("own.toml"), &["run.measure=1s", "fast-bus.rate=20 kB/s"]) < here / 2.0);
    let clash = points(&load("clash.toml"), &[]).unwrap_err();
    assert!(clash.contains("two parts called wren-iv"), "{clash}");
    let gone = points(&load("gone.toml"), &[]).unwrap_err();
    assert!(gone.contains("nowhere.toml"), "{gone}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// The file server's way in: what it does not take is refused with its place, and what a study prints of requests is
/// what the disks get.
#[test]
fn a_file_server_is_asked_by_clients() {
    let load = |system: &str, size: &str| {
        format!(
            "[system]\nname = \"{system}\"\nway = \"files\"\n\n[[stream]]\noperation = {{ reads = \"75 %\" }}\npattern = \"random\"\n\
             size = {size}\nalign = \"8 KiB\"\nlimit = {{ requests = 2000 }}\narrivals = {{ poisson = \"20/s\" }}\n"
        )
    };
    let said = points(&load("scb-move", "\"520 KiB\""), &[]).unwrap_err();
    assert!(said.contains("load.toml:5") && said.contains("fill its delivery pipes"), "{said}");
    assert!(said.contains("at most 512 KiB"), "{said}");
    let said = points(&load("scb-locate", "\"5 MiB\""), &[]).unwrap_err();
    assert!(said.contains("it does not fit the file cache"), "{said}");
    let said = points(&load("raid-i", "\"8 KiB\""), &[]).unwrap_err();
    assert!(said.contains("load.toml:3") && said.contains("neither a file server nor a file system"), "{said}");
    let outcome = outcome(&load("scb-locate", "\"laddis-reads\""), &[]);
    let used = outcome.conclusion.modelled.as_ref().unwrap().utilizations();
    let of = |name: &str| used.iter().find(|(part, _)| part == name).expect(name).1.get();
    // 20 requests a second of 12.5 KiB at 2 MB/s, and little besides.
    assert!((0.125..0.15).contains(&of("ring")), "{}", of("ring"));
    assert!(of("channel") < of("disk-0") && of("disk-0") < of("ring"), "{used:?}");
}
