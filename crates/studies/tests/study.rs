//! Studies that are folders: the one of `docs/studies.md` is written out and judged, and what is wrong with others is
//! said with file and line.

use std::collections::BTreeMap;
use std::path::Path;

use studies::reproduce::{Report, Status, reproduce};
use studies::study;

/// The files that the page shows: a line with a name in backticks, then a block.
fn shown() -> BTreeMap<String, String> {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/studies.md")).unwrap();
    let mut files = BTreeMap::new();
    let mut pieces = page.split("```");
    while let (Some(text), Some(block)) = (pieces.next(), pieces.next()) {
        let named = text.rsplit("\n\n").find(|paragraph| paragraph.trim_start().starts_with('`')).unwrap();
        let name = named.trim_start().trim_start_matches('`').split('`').next().unwrap();
        let (_, body) = block.split_once('\n').unwrap();
        files.insert(name.to_owned(), body.to_owned());
    }
    files
}

/// Writes the page's files into a folder, one of them changed.
fn written(folder: &Path, change: Option<(&str, &str, &str)>) {
    let mut files = shown();
    if let Some((name, was, is)) = change {
        let text = files.get_mut(name).unwrap();
        assert!(text.contains(was), "{was} in {name}");
        *text = text.replacen(was, is, 1);
    }
    std::fs::create_dir_all(folder.join("experiments")).unwrap();
    files.iter().for_each(|(name, text)| std::fs::write(folder.join(name), text).unwrap());
}

fn judged(folder: &Path, settings: &[(&str, &str)]) -> Report {
    let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    reproduce(&*study(folder.to_str().unwrap(), settings).unwrap_or_else(|error| panic!("{error}"))).unwrap()
}

#[test]
fn the_study_of_the_page_is_judged() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), None);
    let report = judged(folder.path(), &[]);
    assert_eq!(report.study, "my-server");
    let value = |id: &str| report.rows.iter().find(|row| row.id == id).unwrap();
    let modelled = |id: &str| value(id).modelled.unwrap();
    // Eight requests are under way: Little's law binds rate and latency.
    let under_way = modelled("reads/one") * 1e3 * modelled("reads/latency") / 1e6;
    assert!((7.7..8.1).contains(&under_way), "{under_way}");
    assert!((3.6..=4.01).contains(&modelled("drives/gain")), "{}", modelled("drives/gain"));
    assert_eq!(value("drives/linear").status, Status::ClaimKept);
    assert!(value("drives/linear").remark.contains("rate[disks=4] = "), "{}", value("drives/linear").remark);
    assert!(value("reads/one").confidence_95.is_some(), "two passes");
    assert!(report.passes, "{}", report.text());
    // A slower link leaves the large reads behind, and nothing else.
    let slow = judged(folder.path(), &[("flash-nvme-3.84tb.controller.link", "2 GB/s")]);
    assert!(!slow.passes);
    let large = slow.rows.iter().find(|row| row.id == "reads/large").unwrap();
    assert!(large.status == Status::Off && large.modelled.unwrap() < 2.0, "{large:?}");
}

#[test]
fn what_is_not_bound_counts_as_not_reproduced() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), Some(("rows.csv", "reads/latency,reads,disks=1; size=4 KiB,latency\n", "")));
    std::fs::remove_file(folder.path().join("claims.toml")).unwrap();
    let report = judged(folder.path(), &[]);
    let latency = report.rows.iter().find(|row| row.id == "reads/latency").unwrap();
    assert_eq!(
        (latency.status, &*latency.remark),
        (Status::NotReproduced, "rows.csv does not say what it is of the model")
    );
    assert_eq!(report.score.claims_not_tested, 1);
    assert!(!report.passes);
}

#[test]
fn a_number_that_an_experiment_was_fitted_on_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let fitted = "[[fitted]]\nwhat = \"depth\"\nvalue = \"8\"\nrows = [\"reads/one\"]\n\n[bar]";
    written(folder.path(), Some(("study.toml", "[bar]", fitted)));
    let report = judged(folder.path(), &[]);
    let one = report.rows.iter().find(|row| row.id == "reads/one").unwrap();
    assert!(one.status == Status::Fitted && one.modelled.is_some(), "{one:?}");
    assert_eq!((report.score.fitted_parameters, report.score.fitted_rows), (1, 1));
    // The page's bar allows none.
    assert!(!report.passes);
}

#[test]
fn what_is_wrong_is_said_with_file_and_line() {
    let formulas = "[formulas]\nbus = \"time()[reads; disks=1; size=4 KiB]\"\nmedium = \"2 MB/s\"\nrevolution = \"16 ms\"\n\
                    seek = { least = \"2 ms\", mean = \"15 ms\", greatest = \"34 ms\" }\n[bar]";
    for (file, was, is, line, said) in [
        (
            "rows.csv",
            "disks=1; size=4 KiB,rate",
            "disks=3; size=4 KiB,rate",
            2,
            "has no point with system.disks = 3; it has 1, 2, 4",
        ),
        ("rows.csv", "reads/one,reads,", "reads/two,reads,", 2, "there is no number 'reads/two' in published.csv"),
        ("rows.csv", "reads/one,reads,", "reads/one,writes,", 2, "there is no experiment 'writes'"),
        ("rows.csv", "reads/one,reads,", "reads/one,,", 2, "of which experiment?"),
        ("rows.csv", "disks=1; size=4 KiB,rate", "disks=1,rate", 2, "it is of 2 points, where one is wanted"),
        (
            "rows.csv",
            "128 KiB,bandwidth",
            "128 KiB,latency",
            3,
            "this is a time, and the row's unit is of bytes a second",
        ),
        ("rows.csv", "128 KiB,bandwidth", "128 KiB,bandwith", 3, "'bandwith' is no quantity"),
        ("rows.csv", "128 KiB,bandwidth", "128 KiB,bandwidth + rate", 3, "bytes a second beside so many a second"),
        ("rows.csv", "128 KiB,bandwidth", "128 KiB,bandwidth > 1 MB/s", 3, "a comparison, where a number is wanted"),
        ("rows.csv", "128 KiB,bandwidth", "128 KiB", 3, "3 fields, where the first line has 4"),
        ("rows.csv", "row,experiment", "rows,experiment", 2, "the first line of rows.csv is"),
        (
            "rows.csv",
            "reads/large,reads,disks=1; size=128 KiB,bandwidth",
            "reads/one,reads,disks=1; size=4 KiB,rate",
            3,
            "'reads/one' is said twice",
        ),
        ("rows.csv", "reads/large,reads", "drives/linear,reads", 3, "is a claim; claims.toml says when it holds"),
        ("rows.csv", "disks=1; size=4 KiB,rate", "disks=1; size=4 KiB; depth=0,rate", 0, "depth"),
        ("claims.toml", "drives/linear", "drives/square", 2, "there is no claim 'drives/square'"),
        ("claims.toml", "within 10 % of 4", "+ 1", 5, "a number, where a comparison is wanted"),
        ("claims.toml", "within 10 % of 4", "within 10 % 4", 5, "where 'of' and a number"),
        ("claims.toml", "holds", "hold", 5, "unknown field `hold`"),
        ("published.csv", "95,kIOPS", "95,KIOPS", 2, "its unit is 'KIOPS', which means nothing here"),
        ("published.csv", "95,kIOPS", "many,kIOPS", 2, "'many' is not a number"),
        ("study.toml", "\"study\"", "\"system\"", 1, "the kind of a study's file"),
        ("study.toml", "1 KiB", "1 KB", 6, "what a unit means is a number and"),
        (
            "study.toml",
            "[bar]",
            "[[fitted]]\nwhat = \"depth\"\nvalue = \"8\"\nrows = [\"reads/none\"]\n[bar]",
            11,
            "there is no number 'reads/none' in published.csv",
        ),
        ("rows.csv", "128 KiB,bandwidth", "128 KiB,value(flash-nvme-3.84tb.flash.red) / 1 s", 3, "flash.red"),
        (
            "rows.csv",
            "128 KiB,bandwidth",
            "128 KiB,min(size where bandwidth > 1) * 1",
            3,
            "bytes a second beside a plain",
        ),
        ("rows.csv", "128 KiB,bandwidth", "128 KiB,bandwidth * min(op where rate > 1 IOPS)", 3, "'op' is no axis"),
        ("rows.csv", "128 KiB,bandwidth", "128 KiB,bandwidth * share(rate)", 3, "one comparison is wanted"),
        ("rows.csv", "128 KiB,bandwidth", "128 KiB,command.saves(drive)", 3, "has in its parentheses nothing"),
        (
            "study.toml",
            "[bar]",
            "[[left-out]]\nrows = [\"reads/none\"]\nbecause = \"it is not\"\n[bar]",
            9,
            "there is no number 'reads/none' in published.csv",
        ),
        ("study.toml", "within-10 = 0.7", "within-10 = 70", 8, "shares are from 0 to 1"),
        ("rows.csv", "128 KiB,bandwidth", "128 KiB,bandwidth * formula.large / 1 s", 3, "study.toml has no [formulas]"),
        ("rows.csv", "128 KiB,bandwidth", "128 KiB,bandwidth * delta.count(20 ms)", 3, "is no bound of deltas"),
        ("rows.csv", "128 KiB,bandwidth", "128 KiB,in-rounds", 3, "a comparison, where a number is wanted"),
        ("study.toml", "[bar]", "[deltas]\nwhole = \"0 ms\"\n[bar]", 9, "times are cut off to whole units"),
        ("study.toml", "[bar]", formulas, 9, "a rate is wanted"),
        ("study.toml", "server.toml", "other.toml", 0, "other.toml"),
        ("experiments/reads.toml", "[system]\nname = \"../server.toml\"\nway = \"raw\"\ndisks = 1\n", "", 0, "system"),
        ("experiments/reads.toml", "depth = 8", "depth = 0", 18, "depth"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        written(folder.path(), Some((file, was, is)));
        let error = study(folder.path().to_str().unwrap(), Vec::new()).err().unwrap_or_else(|| panic!("{file}: {is}"));
        let error = error.to_string();
        assert!(error.contains(said), "{is}: {error}");
        // A unit is of a row, so it is said where the row is bound.
        let file = if said.starts_with("its unit") { "rows.csv" } else { file };
        assert!(line == 0 || error.contains(&format!("{file}:{line}")), "{is}: {error}");
    }
}

/// All points of the page's experiment.
const POINTS: [(&str, &str); 6] = [
    ("point/1", "disks=1; size=4 KiB"),
    ("point/2", "disks=2; size=4 KiB"),
    ("point/3", "disks=4; size=4 KiB"),
    ("point/4", "disks=1; size=128 KiB"),
    ("point/5", "disks=2; size=128 KiB"),
    ("point/6", "disks=4; size=128 KiB"),
];

#[test]
fn a_line_may_ask_for_work_counts_values_and_where_something_holds() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), None);
    let rows = [
        ("one/rate", "kIOPS", "\"rate[disks=1; size=4 KiB]\""),
        ("one/used", "percent", "\"used(drive-0)[disks=1; size=4 KiB]\""),
        ("one/busy", "us", "\"busy(drive-0)[disks=1; size=4 KiB]\""),
        ("one/all", "us", "\"time()[disks=1; size=4 KiB]\""),
        ("one/host", "us", "\"time-except(drive-0)[disks=1; size=4 KiB]\""),
        ("one/drive", "us", "\"time(drive-0)[disks=1; size=4 KiB]\""),
        ("read", "us", "value(flash-nvme-3.84tb.flash.read)"),
        ("large", "KB", "max(size where rate[disks=1] < 200 kIOPS)"),
        ("never", "KB", "max(size where rate[disks=1] < 1 IOPS)"),
        ("share", "percent", "\"share(rate > rate[disks=1; size=4 KiB])\""),
        ("device", "ratio", "\"requests(drive-0)[disks=1; size=4 KiB] / requests[disks=1; size=4 KiB]\""),
        ("elapsed", "ms", "\"elapsed[disks=1; size=4 KiB]\""),
        ("unknown", "count", "\"count(storms)[disks=1; size=4 KiB]\""),
        ("bare", "count", "\"command.saves[disks=1; size=4 KiB]\""),
        ("stranger", "ratio", "\"requests(drive-9)[disks=1; size=4 KiB] / 2\""),
    ];
    let mut published = "id,value,unit\n".to_owned();
    let mut lines = "row,experiment,point,value\n".to_owned();
    let points = POINTS.map(|(id, point)| (id, "kIOPS", format!("rate[{point}]")));
    let rows = rows.map(|(id, unit, value)| (id, unit, value.to_owned()));
    for (row, (id, unit, value)) in rows.into_iter().chain(points).enumerate() {
        published += &format!("{id},{},{unit}\n", row + 1);
        lines += &format!("{id},reads,,{value}\n");
    }
    std::fs::write(folder.path().join("published.csv"), published).unwrap();
    std::fs::write(folder.path().join("rows.csv"), lines).unwrap();
    std::fs::remove_file(folder.path().join("claims.toml")).unwrap();
    let report = judged(folder.path(), &[]);
    let row = |id: &str| report.rows.iter().find(|row| row.id == id).unwrap();
    let of = |id: &str| row(id).modelled.unwrap_or_else(|| panic!("{id}: {}", row(id).remark));
    // Busy for so long a request, as often as requests come, is for what share it was busy.
    assert!((of("one/busy") * of("one/rate") / 10.0 - of("one/used")).abs() < 0.5, "{}", of("one/busy"));
    assert!((of("one/host") + of("one/drive") - of("one/all")).abs() < 0.01, "{}", of("one/all"));
    assert_eq!((of("read"), of("large"), of("device")), (60.0, 128.0, 1.0), "the read time that the part says");
    assert!((80.0..80.1).contains(&of("elapsed")), "two passes of 40 ms: {}", of("elapsed"));
    let above = POINTS.iter().filter(|(id, _)| of(id) > of("one/rate")).count();
    assert!(above > 1 && (of("share") - above as f64 / POINTS.len() as f64 * 100.0).abs() < 1e-9, "{}", of("share"));
    for (id, said) in [
        ("never", "at no point holds 'rate[disks=1] < 1 IOPS'"),
        ("unknown", "no node counts 'storms'; counted are: "),
        ("bare", "no command ended on a string"),
        (
            "stranger",
            "no request of a stream, operation or device 'drive-9' was counted; there are: readers, read, drive-0",
        ),
    ] {
        assert!(row(id).status == Status::NotReproduced && row(id).remark.starts_with(said), "{:?}", row(id));
    }
}

#[test]
fn a_row_may_count_for_another_be_part_of_a_table_or_be_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let reason = "it was measured on another machine";
    let left = format!("[[left-out]]\nrows = [\"drives/gain\"]\nbecause = \"{reason}\"\n\n[bar]");
    written(folder.path(), Some(("study.toml", "[bar]", &left)));
    let rows = "row,experiment,point,value,whole,table,counted-as\n\
                reads/one,reads,disks=1; size=4 KiB,rate,100,halves,\n\
                reads/large,reads,disks=1; size=128 KiB,bandwidth,,,reads/one\n\
                reads/latency,reads,disks=1; size=4 KiB,latency,90,halves,\n";
    std::fs::write(folder.path().join("rows.csv"), rows).unwrap();
    std::fs::remove_file(folder.path().join("claims.toml")).unwrap();
    let report = judged(folder.path(), &[]);
    let row = |id: &str| report.rows.iter().find(|row| row.id == id).unwrap();
    assert_eq!((row("drives/gain").status, &*row("drives/gain").remark), (Status::NotReproduced, reason));
    assert_eq!(report.score.repeated, 1, "reads/large counts as reads/one");
    assert!(report.tables.len() == 1 && report.tables[0].table == "halves" && report.tables[0].parts == 2);
    for (was, is, said) in [
        (",,,reads/one", ",,,reads/none", "there is no number 'reads/none'"),
        ("100,halves", ",halves", "parts of a table say their whole, too"),
    ] {
        std::fs::write(folder.path().join("rows.csv"), rows.replacen(was, is, 1)).unwrap();
        let error = study(folder.path().to_str().unwrap(), Vec::new()).err().unwrap().to_string();
        assert!(error.contains(said) && error.contains("rows.csv:"), "{error}");
    }
}

#[test]
fn what_divides_by_nothing_is_said_and_not_judged() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), Some(("claims.toml", "/ rate[disks=1]", "/ (rate[disks=1] - rate[disks=1])")));
    // Per second by nothing is no ratio any more, but the sum is of the same unit.
    let report = judged(folder.path(), &[]);
    let claim = report.rows.iter().find(|row| row.id == "drives/linear").unwrap();
    assert_eq!(claim.status, Status::ClaimNotTested);
    assert!(claim.remark.starts_with("it divides by '"), "{}", claim.remark);
}

#[test]
fn a_folder_without_its_files_says_what_a_study_is() {
    let folder = tempfile::tempdir().unwrap();
    let error = study(folder.path().to_str().unwrap(), Vec::new()).err().unwrap().to_string();
    assert!(error.contains("study.toml") && error.contains("a study is a folder with"), "{error}");
    let error = study("no-such-study", Vec::new()).err().unwrap().to_string();
    assert!(error.contains("there is no study 'no-such-study'"), "{error}");
}
