//! `run` and `experiments` on a modelled machine, as their users meet them.

mod common;

use common::{Desk, READS, SMALL, Said};

fn done(said: Said) -> Said {
    assert_eq!((said.code, &*said.stderr), (0, ""), "{}", said.stdout);
    said
}

#[test]
fn an_experiment_of_a_study_prints_the_published_value_beside_the_modelled_one() {
    let desk = Desk::new(READS);
    let said = done(desk.arraylab(&["run", "raid-i/table-14"]));
    let copy = said.stdout.lines().find(|line| line.starts_with("raid-i/table-14/copy ")).expect("a row of the table");
    assert!(copy.contains("4230") && copy.contains("us") && copy.contains("within-"), "{copy}");
    let folder = desk.path().join(said.stdout.lines().last().unwrap().strip_prefix("run folder: ").unwrap());
    for file in ["experiment.toml", "records.parquet", "spans.parquet", "trace.json", "summary.json"] {
        assert!(folder.join(file).metadata().unwrap().len() > 100, "{file}");
    }
    // What was run is run again by its folder's file, to the same numbers.
    let again = folder.join("experiment.toml");
    let numbers = |said: &Said| {
        let json = said.json();
        (json["total"].clone(), json["parts"].clone(), json["published"].clone())
    };
    let first = done(desk.arraylab(&["run", "raid-i/table-14", "--json"]));
    let second = done(desk.arraylab(&["run", again.to_str().unwrap(), "--json"]));
    assert_eq!(numbers(&first), numbers(&second));
    assert!(first.json()["published"].as_array().unwrap().len() > 8);
}

#[test]
fn a_change_of_a_part_reaches_the_compared_rows_and_a_change_of_the_load_ends_the_comparison() {
    let desk = Desk::new(READS);
    let copy = |more: &[&str]| {
        let said = done(desk.arraylab(&[&["run", "raid-i/table-14", "--json"], more].concat()));
        let rows = said.json()["published"].as_array().cloned().unwrap_or_default();
        rows.iter().find(|row| row["id"] == "raid-i/table-14/copy").map(|row| row["modelled"].as_f64().unwrap())
    };
    let slow = copy(&["--set", "sun4-280-memory.copy-cached=4 MB/s", "--set", "sun4-280-memory.copy-uncached=2 MB/s"]);
    assert!(slow.unwrap() > 1.5 * copy(&[]).unwrap());
    assert_eq!(copy(&["--set", "stream.load.size=8KiB"]), None);
}

#[test]
fn a_sweep_gives_one_table_with_the_busiest_part() {
    let desk = Desk::new(READS);
    let said = done(desk.arraylab(&["run", "raid-i/figure-09", "--set", "run.passes=1", "--set", "run.measure=2s"]));
    let heading = said.stdout.lines().next().unwrap();
    assert!(heading.starts_with("way") && heading.contains("disks") && heading.ends_with("busiest part"), "{heading}");
    // One request at a time and disk: the disks are never idle.
    assert_eq!(
        said.stdout.lines().filter(|line| line.contains(" disk-0.") && line.ends_with('%')).count(),
        8,
        "{}",
        said.stdout
    );
}

#[test]
fn without_the_adapters_policy_rounds_vanish_and_the_gain_is_printed() {
    let desk = Desk::new(READS);
    let brief = ["--set", "run.passes=2", "--set", "run.measure=20s", "--set", "stream.readers.size=64 KiB"];
    let said = done(desk.arraylab(&[&["run", "rounds/policy"], &brief[..]].concat())).stdout;
    let table = said.split("Gain over gives-way = true, all else alike").nth(1).expect("a table of gains");
    let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<Vec<String>> = table.lines().skip(2).take(4).map(cells).collect();
    let number = |text: &str| text.parse::<f64>().unwrap();
    assert_eq!(lines[0].join(" "), "gives-way gain 95 % confidence I/O in rounds");
    assert!(lines[2][..3] == ["true", "-", "-"] && number(&lines[2][3]) > 90.0, "{said}");
    assert!(lines[3][0] == "false" && number(&lines[3][1]) > 15.0, "{said}");
    assert!(lines[3].ends_with(&["%,", "no", "convoy", "shown"].map(str::to_owned)), "{said}");
}

#[test]
fn experiments_are_listed_and_shown() {
    let desk = Desk::new(READS);
    let said = done(desk.arraylab(&["experiments"]));
    assert_eq!(said.stdout.lines().count(), 120);
    assert!(said.stdout.contains("raid-i/figure-03           Figure 3: sequential reads"), "{}", said.stdout);
    let shown = done(desk.arraylab(&["experiments", "raid-i/figure-03"])).stdout;
    assert!(shown.starts_with("# Figure 3") && shown.contains("[sweep]"));
    let list = done(desk.arraylab(&["experiments", "raid-i", "--json"])).json();
    assert_eq!(list.as_array().unwrap().len(), 53);
}

/// A RAID controller always has a command under these requests; that is no work of anything in it.
#[test]
fn the_busiest_part_is_one_that_works() {
    let desk = Desk::new(READS);
    let words = ["--set", "run.passes=1", "--set", "stream.files.limit={requests=300}"];
    let said = done(desk.arraylab(&[&["run", "scb/very-heavy"], &words[..]].concat())).stdout;
    let busiest = said.lines().find_map(|line| line.strip_prefix("scb-raid5")?.split("  ").last()).unwrap().trim();
    assert!(busiest.starts_with("ring ") || busiest.starts_with("disk-"), "{busiest} in {said}");
}

#[test]
fn what_is_wrong_is_said_in_one_message() {
    let desk = Desk::new(READS);
    let cases: [(&[&str], &str); 6] = [
        (
            &["experiments", "pdp"],
            "error: no experiment is called 'pdp', and no study; there are experiments of: load, max, nfs, raid-i",
        ),
        (
            &["run", "raid-i/figure-2"],
            "there is no file 'raid-i/figure-2', nor does an experiment of that name come with",
        ),
        (&["run", "raid-i/table-14", "--on", "memory:1GiB"], "leave out --on, or [system]"),
        (&["run", "raid-i/table-14", "--set", "vme.rate=fast"], "'fast' does not start with a number; write a rate as"),
        (&["run", "raid-i/table-14", "--set", "vme.speed=1MB/s"], "there is no 'speed'; there are: "),
        (&["run", "raid-i/table-14", "--set", "system.disks=29"], "there are 1 to 4 drives to use here"),
    ];
    for (words, message) in cases {
        let said = desk.arraylab(words);
        assert_eq!((said.code, &*said.stdout), (2, ""), "{words:?}: {}", said.stderr);
        assert!(said.stderr.contains(message), "{words:?}: {}", said.stderr);
        assert_eq!(said.stderr.matches("error: ").count(), 1, "{}", said.stderr);
    }
    let kept = desk.path().join("runs").read_dir().map_or(0, |folder| folder.count());
    assert_eq!(kept, 0, "nothing ran, nothing is kept");
}

#[test]
fn a_modelled_machine_is_surveyed_level_by_level_and_its_ladder_derived() {
    let desk = Desk::new(READS);
    desk.write("small.toml", SMALL);
    let json = done(desk.arraylab(&["survey", "--system", "small.toml", "--json"])).json();
    let levels = json["levels"].as_array().unwrap();
    let tiers: Vec<&str> = levels.iter().map(|level| level["level"].as_str().unwrap()).collect();
    assert_eq!(tiers, ["disk", "disk", "link", "disk", "disk", "link", "adapter", "host"]);
    for level in levels {
        let (raw, os) = (&level["raw"], &level["os"]);
        for field in ["bandwidth_bytes_per_s", "iops", "low", "high"] {
            assert!(raw[field].as_f64().unwrap() > 0.0 && os[field].as_f64().unwrap() > 0.0, "{field} in {level:#}");
        }
        let busy = |measured: &serde_json::Value| measured["processors"]["system"].as_f64().unwrap();
        assert!(busy(os) > busy(raw), "{level:#}");
    }
    // Four disks of 1.3 MB/s are more than this host takes: its memory system, as in the study.
    let ladder = json["ladder"].as_array().unwrap();
    assert_eq!(ladder[0]["part"], "host memory system", "{ladder:#?}");
    assert_eq!(ladder.last().unwrap()["part"], "disks");
    let heights: Vec<f64> = ladder.iter().map(|rung| rung["bandwidth_bytes_per_s"].as_f64().unwrap()).collect();
    assert!(heights.is_sorted() && heights[0] > 2e6, "{heights:?}");
    assert_eq!(json["request_ladder"].as_array().unwrap().last().unwrap()["part"], "disks");
    // What was measured is kept, as of a real machine.
    let folder = desk.path().join(json["run"].as_str().unwrap());
    for file in ["experiment.toml", "records.parquet", "summary.json", "environment.json"] {
        assert!(folder.join(file).metadata().unwrap().len() > 50, "{file}");
    }
    assert!(std::fs::read_to_string(folder.join("experiment.toml")).unwrap().contains("small.toml"));
    let text = done(desk.arraylab(&["survey", "--system", "small.toml"])).stdout;
    assert!(!text.contains("files"), "{text}");
    assert!(text.lines().last().unwrap().starts_with("run folder: "), "{text}");
    for part in ["expected", "cpu os", "string-1", "disk-1.1", "The ladder, derived", "host memory system"] {
        assert!(text.contains(part), "'{part}' in {text}");
    }
}

#[test]
fn a_survey_of_no_machine_says_which_there_are() {
    let desk = Desk::new(READS);
    desk.write("small.toml", &SMALL.replace("slot = 0", "slot = 7"));
    let cases: [(&[&str], &str); 4] = [
        (
            &["--system", "raid-ii"],
            "there is no such system; there are: max, nfs-10g, nfs-10g-peer, nvme-24, raid-i, raid6-12, sas-60, scb-locate, scb-locate-i386, scb-move, scb-raid5, sparc20-wren7, vax-750-sc750, vax-750-uda50, vax-780-sc780, vax-780-si9900, vax-780-uda50; or give the path of a file",
        ),
        (&["--system", "gone.toml"], "gone.toml"),
        (&["--system", "small.toml"], "small.toml:25:"),
        (&["--system", "raid-i", "--set", "vme.speed=1MB/s"], "there is no 'speed'; there are: "),
    ];
    for (words, message) in cases {
        let said = desk.arraylab(&[&["survey"], words].concat());
        assert_eq!((said.code, &*said.stdout), (2, ""), "{words:?}: {}", said.stderr);
        assert!(said.stderr.contains(message), "{words:?}: {}", said.stderr);
    }
}

/// Points in virtual time run on all processors, and come out as they do alone, in their order.
#[test]
fn points_side_by_side_are_the_points_one_by_one() {
    let sweep = "[sweep]\n\"stream.readers.depth\" = [8, 1, 2, 4, 3]\n";
    let load = "[run]\nstart-up = \"1 ms\"\nmeasure = \"5 ms\"\n[system]\nname = \"nvme-24\"\nway = \"no-copy\"\ndisks = 2\n\
                [[stream]]\nname = \"readers\"\noperation = \"read\"\npattern = \"random\"\nsize = \"4 KiB\"\ndepth = 1\n";
    let desk = Desk::new(&format!("{load}{sweep}"));
    let together = desk.arraylab(&["run", "load.toml", "--json"]);
    assert_eq!(together.code, 0, "{}", together.stderr);
    let together = together.json();
    let points = together["points"].as_array().unwrap();
    let runs: Vec<&str> = points.iter().map(|point| point["run"].as_str().unwrap()).collect();
    let numbers: Vec<u64> = runs.iter().map(|run| run.rsplit('-').next().unwrap().parse().unwrap()).collect();
    assert!(numbers.is_sorted() && numbers.len() == 5, "{runs:?}");
    for (point, depth) in points.iter().zip([8, 1, 2, 4, 3]) {
        let alone = Desk::new(load);
        let alone = alone.arraylab(&["run", "load.toml", "--json", "--set", &format!("stream.readers.depth={depth}")]);
        assert_eq!(alone.json()["total"], point["total"], "depth {depth}");
    }
}

#[test]
fn a_study_of_ones_own_is_judged_and_its_faults_are_bad_input() {
    let desk = Desk::new(READS);
    std::fs::create_dir_all(desk.path().join("mine/experiments")).unwrap();
    let file = |name: &str, text: &str| desk.write(&format!("mine/{name}"), text);
    file("study.toml", "kind = \"study\"\nname = \"mine\"\nsystem = \"raid-i\"\n");
    file("published.csv", "id,value,unit,role,note\none,1.36,MB/s,,\ngrows,,,claim,Two disks give more than one.\n");
    file("rows.csv", "row,experiment,point,value\none,reads,disks=1,bandwidth\n");
    let claim =
        "[[claim]]\nrow = \"grows\"\nexperiment = \"reads\"\nholds = \"bandwidth[disks=2] > bandwidth[disks=1]\"\n";
    file("claims.toml", claim);
    let reads = "name = \"reads\"\n[run]\nmeasure = \"1 s\"\n[system]\nname = \"raid-i\"\nway = \"no-copy\"\ndisks = 1\n\
                 [[stream]]\nname = \"load\"\noperation = \"read\"\npattern = \"sequential\"\nsize = \"32 KiB\"\ndepth = 1\n\
                 [sweep]\n\"system.disks\" = [1, 2]\n";
    file("experiments/reads.toml", reads);
    let said = done(desk.arraylab(&["reproduce", "mine", "--json", "--check"])).json();
    let (study, rows) = (&said[0], said[0]["rows"].as_array().unwrap());
    assert_eq!((&study["study"], rows.len()), (&"mine".into(), 2));
    let modelled = rows[0]["modelled"].as_f64().unwrap();
    assert!((1.0..2.0).contains(&modelled), "{modelled} MB/s");
    assert_eq!(rows[1]["status"], "claim-kept");
    // Twice the number is off, and the answer is no.
    file("published.csv", "id,value,unit,role,note\none,2.9,MB/s,,\ngrows,,,claim,Two disks give more than one.\n");
    let said = desk.arraylab(&["reproduce", "mine", "--check"]);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stdout.contains("  off"), "{}", said.stdout);
    file("rows.csv", "row,experiment,point,value\none,reads,disks=7,bandwidth\n");
    let said = desk.arraylab(&["reproduce", "mine"]);
    assert_eq!((said.code, &*said.stdout), (2, ""));
    assert!(said.stderr.contains("mine/rows.csv:2:"), "{}", said.stderr);
    assert!(said.stderr.contains("has no point with system.disks = 7; it has 1, 2"), "{}", said.stderr);
    let said = desk.arraylab(&["reproduce", "nowhere"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("there is no study 'nowhere'; there are: raid-i, rounds, max"), "{}", said.stderr);
}
