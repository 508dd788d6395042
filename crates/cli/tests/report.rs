//! `arraylab report`: a page that says what there is to say, and needs nothing else to be read.

mod common;
#[path = "common/html.rs"]
mod html;

use common::{Desk, READS};
use html::{is_well_formed, stands_alone, suits_every_screen, verdicts};

#[test]
fn the_page_of_a_run_says_it_all_and_stands_alone() {
    let desk = Desk::new(&READS.replace("[run]\n", "[run]\nstart-up = \"50 ms\"\npasses = 2\n"));
    let run = desk.arraylab(&["run", "load.toml", "--on", "memory:16MiB,memory:16MiB:300us", "--json"]).json();
    let folder = run["run"].as_str().unwrap();
    let said = desk.arraylab(&["report", folder, "-o", "page.html"]);
    assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (0, "", ""));
    let html = std::fs::read_to_string(desk.path().join("page.html")).unwrap();
    is_well_formed(&html);
    stands_alone(&html);
    for part in [
        "<p class=\"limit\">What limits: the depth: how many requests are under way (100 % used).",
        "<h2>What does not limit</h2>",
        "<td class=\"words\">total</td>",
        "<td class=\"words\">device memory:16MiB:300us</td>",
        "2 passes: ",
        "<title>Bandwidth</title>",
        "<title>Response time</title>",
        "<title>Response time by percentile</title>",
        "shaded: not counted; dashed: a pass begins",
        "<h2>Rounds</h2>",
        "<h2>The longest requests</h2>",
        "<summary>experiment.toml</summary>",
        "<summary>environment.json</summary>",
    ] {
        assert!(html.contains(part), "{part}");
    }
    // One line for all, one for each device; the longest and the mean; reads; each with its name, and in charts that
    // are wide and narrow.
    assert_eq!(html.matches("<path class=\"line\"").count(), 2 * 2 * (3 + 2 + 1));
    assert_eq!(html.matches("<path class=\"begins\"").count(), 2 * 2, "in the two charts over time");
    assert_eq!(html.matches("<rect class=\"shaded\"").count(), 2 * 2 * 4, "before and after what counts, twice");
    suits_every_screen(&html, 3);
    assert_eq!(verdicts(&html).len(), 1);
    let again = desk.arraylab(&["report", folder]);
    assert_eq!((again.code, again.stdout), (0, html), "the same, on standard output");
}

#[test]
fn the_page_of_a_trace_is_made_too() {
    let desk = Desk::new(READS);
    let line = |number: u64| {
        let (issued, took) = (number * 1_000_000, 400_000 + number * 1000);
        format!("{}, {took}, 0, 4096, {}, 0x0000, {issued}\n", (issued + took) / 1_000_000, number * 4096)
    };
    desk.write("a<b>_clat.1.log", &(0..400).map(line).collect::<String>());
    let words = ["report", "--trace", "a<b>_clat.1.log", "-o", "page.html", "--json"];
    let document = desk.arraylab(&words).json();
    let html = std::fs::read_to_string(desk.path().join("page.html")).unwrap();
    assert_eq!((&document["page"], document["bytes"].as_u64()), (&"page.html".into(), Some(html.len() as u64)));
    is_well_formed(&html);
    stands_alone(&html);
    assert!(html.contains("a&lt;b&gt;_clat.1.log") && html.contains("traced by another program"));
}

#[test]
fn what_cannot_be_reported_is_said() {
    let desk = Desk::new(READS);
    let refused = |words: &[&str], code: i32, why: &str| {
        let said = desk.arraylab(words);
        assert_eq!((said.code, said.stdout.as_str()), (code, ""), "{}", said.stderr);
        assert!(said.stderr.contains(why), "{why} in {}", said.stderr);
    };
    refused(&["report"], 2, "<RUN>");
    refused(&["report", "gone"], 2, "gone: No such file or directory");
    refused(&["report", "load.toml", "--json"], 2, "--output");
    let run = desk.arraylab(&["run", "load.toml", "--on", "memory:16MiB", "--json"]).json();
    let folder = run["run"].as_str().unwrap();
    refused(&["report", folder, "-o", "gone/page.html"], 3, "gone/page.html: cannot be written");
}
