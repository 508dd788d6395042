//! The readers of foreign text: what is wrong is said once, with file and line, and nothing that anyone writes makes
//! them panic.
//!
//! The fuzz targets `diskspecs`, `drive_trace` and `part` say the same of any bytes; what is here is the same every
//! time.

use std::path::PathBuf;

use machine::disk::diskspecs::{Role, Text, import};
use machine::disk::drive::{Drive, Request};
use machine::disk::mechanism::Access;
use machine::disk::parameters::Parameters;
use machine::disk::trace;
use machine::part::Part;
use proptest::prelude::*;
use units::{Duration, Instant};

fn file(name: &str) -> String {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/drive"));
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// The three files of the example drive.
fn files() -> [String; 3] {
    ["example.diskspecs", "example.model", "example.seek"].map(file)
}

/// Imports three texts; a good drive must also run. The error, if any, as a message.
fn imported(files: &[String; 3]) -> Result<Part, String> {
    let text = |name: &str, text: &String| Text { name: name.into(), text: text.clone() };
    let mut find = |role: Role, _: &str| {
        Ok(match role {
            Role::Model => text("example.model", &files[1]),
            Role::Seek => text("example.seek", &files[2]),
        })
    };
    match import(&text("example.diskspecs", &files[0]), &mut find) {
        Ok(imported) => {
            let parameters = Parameters::read(&imported.part).expect("an imported drive can be built");
            let blocks = parameters.mechanism.geometry.blocks();
            let mut drive = Drive::new(parameters);
            let mut now = Instant::START;
            for block in [0, blocks / 2, blocks - 1, blocks / 3, 0] {
                for access in [Access::Read, Access::Write] {
                    let request = Request::new(access, block, (blocks - block).min(100));
                    now = drive.serve(now, request).completes + Duration::millis(1);
                }
            }
            Ok(imported.part)
        }
        Err(error) => {
            let message = error.to_string();
            assert!(message.starts_with("example.") && !message.contains('\n'), "{message}");
            assert!(error.line > 0, "{message}");
            Err(message)
        }
    }
}

/// The example with one text replaced in one of its files.
fn with(index: usize, from: &str, to: &str) -> Result<Part, String> {
    let mut files = files();
    assert!(files[index].contains(from), "{from}");
    files[index] = files[index].replacen(from, to, 1);
    imported(&files)
}

#[test]
fn what_is_imported_can_be_written_and_read_back() {
    let part = imported(&files()).unwrap();
    let text = part.to_toml();
    let read = Part::parse("example.toml", &text).unwrap();
    assert_eq!(read.to_toml(), text);
    assert_eq!(read.rows(), part.rows());
    // Everything but the names of the files is the same, and so is every time that the drive takes.
    let (mut one, mut other) =
        (Drive::new(Parameters::read(&part).unwrap()), Drive::new(Parameters::read(&read).unwrap()));
    let mut now = Instant::START;
    for n in 0..500u64 {
        let request =
            Request::new(if n % 3 == 0 { Access::Write } else { Access::Read }, n * 7919 % 56_000, 1 + n % 60);
        let service = one.serve(now, request);
        assert_eq!(other.serve(now, request), service);
        now = service.completes + Duration::micros(n * 37);
    }
}

#[test]
fn every_value_of_an_imported_drive_has_a_source() {
    let part = imported(&files()).unwrap();
    for row in part.rows() {
        assert!(row.source.contains("example."), "{} is from '{}'", row.path, row.source);
    }
}

#[test]
fn contradictions_are_said_with_their_line() {
    let changes = [
        (1, "First cylinder number = 100", "First cylinder number = 99"),
        (1, "Block count = 56100", "Block count = 56101"),
        (1, "Number of cylinders = 220", "Number of cylinders = 200"),
        (1, "slips = [ 1000, 1001, 20000 ]", "slips = [ 1000, 1001, 30000 ]"),
        (1, "defects = [ 5000, 28790 ]", "defects = [ 5000 ]"),
        (1, "Number of spares = 20", "Number of spares = 2"),
        (1, "Rotation speed (in rpms) = 7200", "Rotation speed (in rpms) = 0"),
        (1, "Head switch time = 0.8", "Head switch time = -0.8"),
        (1, "Seek type = extracted", "Seek type = guessed"),
        (1, "dm_layout_g1 {", "dm_layout_g2 {"),
        (2, "10, 2.1", "1, 2.1"),
        (2, "measured: 6", "measured: 7"),
        (2, "50, 4.0", "50 ms"),
        (0, "Number of buffer segments = 4", "Number of buffer segments = 0"),
        (0, "Segment size (in blks) = 128", "Segment size (in blks) = 12.5"),
        (0, "High (read) water mark = 0.5", "High (read) water mark = 5"),
        (0, "Fast write level = 2", "Fast write level = 3"),
        (0, "Scheduling policy = 7", "Scheduling policy = 99"),
        (0, "Max queue length = 8", "Max queue length = 0"),
        (0, "   Print stats = 0,\n", "   Print stats = 0,\n   Print stats = 0,\n"),
        (0, "Read hit over. after read = 0.5,", "Read hit over. after read = 1e300,"),
        (0, "disksim_disk", "disksim_bus"),
    ];
    let said: Vec<String> = changes.map(|(index, from, to)| with(index, from, to).expect_err("it is refused")).to_vec();
    insta::assert_snapshot!(said.join("\n"), @r"
    example.model:38: zone.1: zone 1 is from cylinder 99 to 219, but zones must not overlap and the one before ends at 99
    example.model:20: layout: the zones hold 56100 blocks, but the drive is said to have 56101
    example.model:38: zone.1: zone 1 ends at cylinder 219, but the drive has 200 cylinders, 0 to 199
    example.model:25: zone.0: zone 0 lists a slip at 30000, but has only 28800
    example.model:36: 'defects' is a list; write pairs of defect and replacement, an even number of whole numbers
    example.model:25: zone.0: zone 0 has more slips around 20000 than the 2 spares that would make up for them
    example.model:15: rotation.speed: is out of range; write a speed from 1 to 1000000 rpm
    example.model:14: 'Head switch time' is -0.8; write a time in milliseconds from 0 to 60000
    example.model:7: 'Seek type' is 'guessed'; write extracted, hplplus10, hpl, curve, linear or constant
    example.model:20: a dm_layout_g2 block is not modelled; only layout and mechanics of the first generation (g1) are
    example.seek:4: '1, 2.10000' is not 'distance in cylinders, time in ms', distances ascending from 1
    example.seek:7: 7 seek distances are announced, 6 follow; the file may be truncated
    example.seek:5: '50 ms0000' is not 'distance in cylinders, time in ms', distances ascending from 1
    example.diskspecs:22: buffer.segments: is out of range; write a number from 1 to 65536
    example.diskspecs:21: 'Segment size (in blks)' is 12.5; write a whole number from 0 on
    example.diskspecs:40: 'High (read) water mark' is 5; write a number from 0 to 1
    example.diskspecs:50: 'Fast write level' is 3; write a number from 0 to 2
    example.diskspecs:5: 'Scheduling policy' is 99; write a number from 1 to 30
    example.diskspecs:19: queue.depth: is out of range; write a number of requests from 1 on
    example.diskspecs:24: 'Print stats' is given twice in this block
    example.diskspecs:59: 'Read hit over. after read' is 1e300; write a time in milliseconds from 0 to 60000
    example.diskspecs:1: there is no disksim_disk block in this file
    ");
}

#[test]
fn a_truncated_file_says_so() {
    let whole = files();
    for index in 0..3 {
        for end in whole[index].char_indices().map(|(at, _)| at) {
            let mut files = whole.clone();
            files[index].truncate(end);
            // A seek file may lose the digits of its last time, a model or specs file what follows its last brace.
            let harmless = match index {
                2 => whole[2][end..].lines().count() <= 1,
                _ => !whole[index][end..].contains('}'),
            };
            assert!(imported(&files).is_err() || harmless, "file {index} cut at {end} is accepted");
        }
    }
}

#[test]
fn a_missing_line_is_never_a_panic() {
    let whole = files();
    for index in 0..3 {
        for gone in 0..whole[index].lines().count() {
            let mut files = whole.clone();
            let kept = whole[index].lines().enumerate().filter(|(line, _)| *line != gone).map(|(_, text)| text);
            files[index] = kept.collect::<Vec<_>>().join("\n");
            let _ = imported(&files);
        }
    }
}

/// Numbers that break what is not careful.
const NUMBERS: [&str; 14] = [
    "0",
    "-1",
    "1",
    "2",
    "0.5",
    "1e9",
    "1e18",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "1e400",
    "-1e300",
    "99999999999999999999999",
    "nan",
];

#[test]
fn any_number_in_any_place_is_never_a_panic() {
    let whole = files();
    for index in 0..3 {
        let text = &whole[index];
        let mut at = 0;
        while let Some(start) = text[at..].find(|c: char| c.is_ascii_digit()).map(|start| at + start) {
            let length = text[start..].find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len() - start);
            at = start + length;
            for number in NUMBERS {
                let mut files = whole.clone();
                files[index].replace_range(start..at, number);
                let _ = imported(&files);
            }
        }
    }
}

#[test]
fn a_trace_is_refused_with_its_line() {
    assert_eq!(trace::parse("t.trace", &file("example.trace"), 56_100).unwrap().len(), 3);
    let texts = [
        "",
        "R Miss 1 1 10 10\nR Miss 999 2 10 10\n",
        "R Miss 1 1 10 10\nR Miss 999 1 10\n",
        "R Miss 1 1 10 10 10\n",
        "\n# a remark\nX Miss 1 1 10 10\n",
        "R Miss 1 0 10 10\n",
        "R Miss -1 1 10 10\n",
        "R Miss 1 99999999 10 10\n",
        "R Miss 1 1 nan 10\n",
        "R Miss 1 1 10 -1\n",
    ];
    let said = texts.map(|text| trace::parse("t.trace", text, 1000).expect_err("it is refused").to_string());
    insta::assert_snapshot!(said.join("\n"), @r"
    t.trace:1: the trace holds no request
    t.trace:2: blocks 999 to 1000 do not all exist; the drive has blocks 0 to 999
    t.trace:2: the line ends after 5 of 6 columns; it may be truncated
    t.trace:1: the line has more than 6 columns: R or W, outcome, block, blocks, response in us, delay in us
    t.trace:3: column 1 is 'X'; write R or W
    t.trace:1: column 4 is '0'; write a number of blocks from 1 to 1048576
    t.trace:1: column 3 is '-1'; write a block number from 0 on
    t.trace:1: column 4 is '99999999'; write a number of blocks from 1 to 1048576
    t.trace:1: column 5 is 'nan'; write a time in microseconds from 0 to 10^9
    t.trace:1: column 6 is '-1'; write a time in microseconds from 0 to 10^9
    ");
}

/// Texts that look like the ones that are read.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(
            [
                &NUMBERS[..],
                &[
                    "{",
                    "}",
                    "[",
                    "]",
                    ",",
                    "=",
                    "\n",
                    "R",
                    "W",
                    "Miss",
                    "source",
                    "#",
                    "\u{b}",
                    "\u{a0}",
                    "dm_disk",
                    "disksim_disk"
                ]
            ]
            .concat()
        )
        .prop_map(str::to_owned),
        "\\PC{0,8}",
    ]
}

proptest! {
    #[test]
    fn any_words_are_never_a_panic(words in prop::collection::vec(word(), 0..60), index in 0usize..3, cut in any::<prop::sample::Index>()) {
        let text = words.join(" ");
        let mut all = files();
        // All of a file, or spliced into it.
        let at = cut.index(all[index].len());
        let spliced = format!("{}{text}{}", &all[index][..at], &all[index][at..]);
        all[index] = spliced;
        let _ = imported(&all);
        all[index].clone_from(&text);
        let _ = imported(&all);
        let _ = trace::parse("t.trace", &text, 1000);
        if let Ok(part) = Part::parse("part.toml", &text) {
            let _ = Parameters::read(&part);
        }
    }
}
