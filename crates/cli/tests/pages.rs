//! Pages of surveys, sweeps and comparisons, and the folders of the latter two.

mod common;
#[path = "common/html.rs"]
mod html;

use std::path::PathBuf;

use common::{Desk, READS, SMALL, of, signal, wait_for};
use html::{is_well_formed, stands_alone, suits_every_screen, verdicts};
use serde_json::Value;

/// Makes the page, which has this many charts, and holds it to what every page keeps to.
fn page(desk: &Desk, folder: &str, charts: usize) -> String {
    let said = desk.arraylab(&["report", folder, "-o", "page.html"]);
    assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (0, "", ""));
    let html = std::fs::read_to_string(desk.path().join("page.html")).unwrap();
    is_well_formed(&html);
    stands_alone(&html);
    suits_every_screen(&html, charts);
    assert_eq!(desk.arraylab(&["report", folder]).stdout, html, "the same, on standard output");
    html
}

/// Both commands refuse it with one line.
fn refused(desk: &Desk, words: &[&str], why: &str) {
    let said = desk.arraylab(words);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{words:?}: {}", said.stderr);
    assert!(said.stderr.contains(why) && said.stderr.lines().count() == 1, "{words:?}: {}", said.stderr);
}

#[test]
fn the_page_of_a_survey_begins_with_its_verdicts() {
    let desk = Desk::new(READS);
    desk.write("small.toml", SMALL);
    let document = desk.arraylab(&["survey", "--system", "small.toml", "--json"]).json();
    let folder = document["run"].as_str().unwrap();
    let html = page(&desk, folder, 2);
    let said = verdicts(&html).join("\n");
    let limits = document["verdicts"].as_array().unwrap().iter().filter(|verdict| verdict["limit"] != "");
    let limits: Vec<&str> = limits.map(|verdict| verdict["evidence"].as_str().unwrap()).collect();
    assert!(!limits.is_empty() && limits.iter().all(|evidence| said.contains(evidence)), "{limits:#?} in {said}");
    for part in [
        "a survey of the modelled machine small.toml, in virtual time",
        "<h2>More and more devices</h2>",
        "<h2>Bandwidth, by sequential requests of 32 KiB</h2>",
        "<h2>The ladder, what limits first at the top</h2>",
        "<h2>The ladder, derived by making parts faster</h2>",
        "<td class=\"words\">host memory system</td>",
        "<summary>environment.json</summary>",
    ] {
        assert!(html.contains(part), "{part}");
    }
    // Each curve for bandwidth and for requests, wide and narrow.
    let curves = document["levels"].as_array().unwrap().iter().map(|level| level["curve"].as_array().unwrap().len());
    let points: usize = curves.filter(|points| *points > 1).sum();
    assert!(points >= 2);
    assert_eq!(html.matches("<circle").count(), 2 * 2 * points);
    refused(&desk, &["report", folder, "--window", "1s"], "--window is for a run, and ");
    refused(&desk, &["explain", folder, "--lanes", "x.svg"], "--lanes is for a run, and ");
    // One that is killed has no summary.
    std::fs::remove_file(desk.path().join(folder).join("summary.json")).unwrap();
    for command in ["explain", "report"] {
        refused(&desk, &[command, folder], "is a survey that goes on, or was killed: it has no verdicts yet");
    }
}

#[test]
fn the_page_of_a_run_shows_the_way_of_its_requests_where_spans_say_it() {
    let machine = "[system]\nname = \"./small.toml\"\nway = \"raw\"\nspans = SPANS\n[[stream]]";
    for (spans, shown) in [("true", true), ("false", false)] {
        let desk = Desk::new(&READS.replace("[[stream]]", &machine.replace("SPANS", spans)));
        desk.write("small.toml", SMALL);
        let said = desk.arraylab(&["run", "load.toml", "--json"]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        let html = page(&desk, said.json()["run"].as_str().unwrap(), 3);
        assert_eq!(html.contains("Their way through the parts"), shown);
        assert_eq!(html.contains(", a read of 4 KiB: "), shown);
    }
}

/// Four points, and the sweep's document.
fn swept(desk: &Desk) -> Value {
    let sweep = "[sweep]\n\"stream.readers.depth\" = [1, 8]\n\"stream.readers.size\" = [\"4 KiB\", \"8 KiB\"]\n";
    desk.write("sweep.toml", &format!("{READS}{sweep}"));
    let words = ["run", "sweep.toml", "--on", "memory:16MiB", "--set", "run.passes=3", "--runs", "kept", "--json"];
    desk.arraylab(&words).json()
}

#[test]
fn a_sweep_keeps_a_folder_that_explain_and_report_read() {
    let desk = Desk::new(READS);
    let document = swept(&desk);
    let folder = document["sweep"].as_str().unwrap();
    assert!(folder.starts_with("kept/") && folder.ends_with("-sweep-sweep-1"), "{folder}");
    let index = std::fs::read(desk.path().join(folder).join("sweep.json")).unwrap();
    let index: Value = serde_json::from_slice(&index).unwrap();
    assert_eq!(
        (&index["state"], &index["clock"], &index["planned"]),
        (&"complete".into(), &"simulated".into(), &4.into())
    );
    assert_eq!(index["set"], serde_json::json!(["run.passes=3"]));
    assert_eq!(index["axes"][1], serde_json::json!({ "key": "stream.readers.size", "values": ["4 KiB", "8 KiB"] }));
    for (kept, point) in index["points"].as_array().unwrap().iter().zip(document["points"].as_array().unwrap()) {
        assert_eq!(kept["total"], point["total"]);
        assert_eq!(PathBuf::from("kept").join(kept["run"].as_str().unwrap()).to_str(), point["run"].as_str());
    }
    // The same figures as a table.
    let table = std::fs::read_to_string(desk.path().join(folder).join("points.csv")).unwrap();
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| lines[0].iter().position(|column| *column == name).unwrap();
    assert_eq!(lines.len(), 5);
    for (line, kept) in lines[1..].iter().zip(index["points"].as_array().unwrap()) {
        let number = |name: &str| line[column(name)].parse::<f64>().unwrap();
        assert_eq!(number("bandwidth_bytes_per_s"), kept["total"]["bandwidth_bytes_per_s"].as_f64().unwrap());
        assert_eq!(number("latency_p99_ns"), kept["total"]["latency_ns"]["p99"].as_f64().unwrap());
        assert_eq!((number("passes"), line[column("stream.readers.size")]), (3.0, kept["values"][1].as_str().unwrap()));
        assert!(number("iops_plus_minus") >= 0.0);
    }
    let explained = desk.arraylab(&["explain", folder, "--json"]).json();
    assert_eq!(
        (&explained["points"][3]["limit"]["kind"], &explained["remarks"]),
        (&"depth".into(), &serde_json::json!([]))
    );

    let run = |place: usize| document["points"][place]["run"].as_str().unwrap().to_owned();
    let said = desk.arraylab(&["explain", folder]);
    let depth = "the depth: how many requests are under way";
    let shown = format!(
        "What limits at all 4 points: {depth}.\n\n\
         depth   size  what limits                                 sure  what limits next    run folder\n\
         {}\n\
         1      4 KiB  {depth}  90 %  memory:16MiB:100us  {}\n\
         1      8 KiB  {depth}  90 %  memory:16MiB:100us  {}\n\
         8      4 KiB  {depth}  70 %  memory:16MiB:100us  {}\n\
         8      8 KiB  {depth}  70 %  memory:16MiB:100us  {}\n\n\
         More of a point: arraylab explain {}\n",
        "-".repeat(84 + run(0).len()),
        run(0),
        run(1),
        run(2),
        run(3),
        run(0)
    );
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), (shown.as_str(), ""));

    let html = page(&desk, folder, 4);
    assert_eq!(verdicts(&html), [format!("What limits at all 4 points: {depth}.")]);
    for part in [
        "a sweep of 4 points, in virtual time, with run.passes=3",
        "<h2>Over depth</h2>",
        "<title>Requests per second</title>",
        "<title>Bandwidth</title>",
        "<title>Mean response time</title>",
        "<title>Response time, 99th percentile</title>",
        ">size = 8 KiB</text>",
        "depth = 8. size = 4 KiB: 80000; size = 8 KiB: 80000",
        "a line for each size",
        "<summary>experiment.toml</summary>",
    ] {
        assert!(html.contains(part), "{part}");
    }
    // Two lines with two points each in four charts.
    assert_eq!(html.matches("<circle").count(), 2 * 4 * 4);
    // The whole may be moved.
    std::fs::rename(desk.path().join("kept"), desk.path().join("elsewhere")).unwrap();
    assert_eq!(page(&desk, &folder.replace("kept/", "elsewhere/"), 4), html);
}

#[test]
fn a_point_whose_folder_is_gone_keeps_its_figures() {
    let desk = Desk::new(READS);
    let document = swept(&desk);
    let folder = document["sweep"].as_str().unwrap();
    let gone = document["points"][1]["run"].as_str().unwrap();
    std::fs::remove_dir_all(desk.path().join(gone)).unwrap();
    let gone = gone.trim_start_matches("kept/");
    let remark = format!("the run folders of 1 of 4 points are gone ({gone}): their figures are kept");
    let said = desk.arraylab(&["explain", folder]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let text = said.stdout.replace("\n  ", " ");
    let first = "at 3 of 4 points (depth = 1, size = 4 KiB; depth = 8, size = 4 KiB; depth = 8, size = 8 KiB)";
    assert!(text.contains(&remark) && text.contains(first) && text.contains("its run folder is gone"), "{text}");
    let html = page(&desk, folder, 4);
    assert!(html.contains("<p class=\"advice\">The run folders of 1 of 4 points are gone"), "{html}");
    assert_eq!(html.matches("<circle").count(), 2 * 4 * 4, "all points are drawn");
}

/// The first point ends, the second would go on for minutes. Ctrl-C and `kill -9` both leave what can be read.
#[test]
fn a_sweep_that_is_ended_early_can_be_read() {
    for (ended, said, remark) in [
        ("INT", "ended early", "the sweep was ended early: 2 of its 2 points were run"),
        ("KILL", "not at its end, or killed", "the sweep goes on, or was killed: 1 of its 2 points are here"),
    ] {
        let desk = Desk::new(&format!("{READS}[sweep]\n\"run.measure\" = [\"200 ms\", \"5 min\"]\n"));
        desk.file("data.bin", 4 << 20);
        let child = desk.start(&["run", "load.toml", "--on", "data.bin"]);
        let index = || {
            let folders = std::fs::read_dir(desk.path().join("runs")).ok()?.flatten().map(|entry| entry.path());
            folders.into_iter().find(|folder| folder.join("sweep.json").exists())
        };
        wait_for("the first point", || index().is_some());
        std::thread::sleep(std::time::Duration::from_millis(300));
        signal(&child, ended);
        let output = child.wait_with_output().unwrap();
        let folder = index().unwrap();
        let folder = folder.strip_prefix(desk.path()).unwrap().to_str().unwrap();
        if ended == "INT" {
            let printed = of(output);
            assert_eq!(printed.code, 3, "{}", printed.stderr);
            assert!(printed.stdout.ends_with(&format!("\nsweep folder: {folder}\n")), "{}", printed.stdout);
        }
        let text = desk.arraylab(&["explain", folder]).stdout;
        assert!(text.contains(remark), "{text}");
        let html = page(&desk, folder, 4);
        assert!(html.contains(&format!("on real devices, {said}</p>")), "{html}");
    }
}

#[test]
fn a_comparison_keeps_a_folder_that_explain_and_report_read() {
    let desk = Desk::new(READS);
    desk.write("deep.toml", &READS.replace("depth = 4", "depth = 8"));
    let words = ["compare", "load.toml", "deep.toml", "--on", "memory:16MiB", "--repeat", "3"];
    let said = desk.arraylab(&words);
    let (text, folder) = said.stdout.split_once("\ncomparison folder: ").unwrap();
    let folder = folder.trim_end();
    assert!(folder.ends_with("-compare-1"), "{folder}");
    let again = desk.arraylab(&["explain", folder]);
    assert_eq!((again.code, again.stdout.as_str(), again.stderr.as_str()), (0, text, ""));
    let document = desk.arraylab(&["explain", folder, "--json"]).json();
    assert_eq!((&document["repeat"], &document["comparisons"][0]["metrics"][0]["name"]), (&3.into(), &"iops".into()));
    let turns = document["sides"][1]["runs"].as_array().unwrap();
    assert!(turns.iter().all(|turn| turn["iops"] == 80000.0), "{turns:#?}");
    let html = page(&desk, folder, 1 + 3);
    assert_eq!(
        verdicts(&html),
        [
            "Requests/s: B has 100.0 % more than A. The interval is +100.0 % to +100.0 %.",
            "Mean response: no difference is shown, and any is smaller than 0.0 %. The interval is +0.0 % to +0.0 %.",
            "P99 response: no difference is shown, and any is smaller than 0.0 %. The interval is +0.0 % to +0.0 %."
        ]
    );
    for part in [
        "a comparison, 3 runs of each side in turns, in virtual time",
        "<title>B against A</title>",
        "<td class=\"words\">experiment.stream.readers.depth</td><td class=\"words\">4</td><td class=\"words\">8</td>",
        "<h2>Turn by turn</h2>",
        "# deep.toml",
    ] {
        assert!(html.contains(part), "{part}");
    }
    let json = desk.arraylab(&[&words[..], &["--json"]].concat()).json();
    assert!(json["comparison"].as_str().unwrap().ends_with("-compare-2"), "{json:#}");
}

#[test]
fn a_folder_of_another_kind_is_refused_and_said_to_be_what_it_is() {
    let desk = Desk::new(READS);
    let document = swept(&desk);
    let (sweep, run) = (document["sweep"].as_str().unwrap(), document["points"][0]["run"].as_str().unwrap());
    let several = format!(
        "{sweep} is a sweep, which names several runs; give the folder of one of them: {sweep}/sweep.json says which there are"
    );
    for words in [vec!["compare", sweep, run], vec!["explain", run, "--against", sweep]] {
        refused(&desk, &words, &several);
    }
    for command in ["explain", "report"] {
        refused(&desk, &[command, "."], ". is not a run folder: it has no run.json; give a folder that");
        refused(
            &desk,
            &[command, "kept"],
            "kept is not a run folder: it has no run.json; it holds some, give one: kept/",
        );
        refused(&desk, &[command, sweep, "--threshold", "1ms"], "--threshold is for a run, and ");
    }
    let own = format!("{sweep}/sweep.json");
    refused(&desk, &["report", sweep, "-o", &own], "is what the result would be made from");
    std::fs::write(desk.path().join(&own), "{ \"schema\": 1, \"name\": ").unwrap();
    refused(&desk, &["report", sweep], "sweep.json is damaged: EOF while parsing");
}
