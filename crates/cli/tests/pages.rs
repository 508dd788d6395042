//! Pages of surveys.

mod common;
#[path = "common/html.rs"]
mod html;

use common::{Desk, READS};
use html::{is_well_formed, stands_alone, suits_every_screen, verdicts};

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

/// One adapter with a string of two disks.
const SMALL: &str = r#"
kind = "system"
name = "a small RAID-I"
status = "made up"
source = "made up"
processor = "sun4-280"
memory = "sun4-280-memory"
backplane = "vme"
operating-system = "sprite"
[[adapter]]
part = "jaguar"
slot = 0
[[adapter.string]]
part = "scsi-1"
disks = ["wren-iv", "wren-iv"]
"#;

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
