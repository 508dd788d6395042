//! The workload language: what it says, and what it says of what is wrong.

use lab::{Cache, Mode, Point, Setting, Source, SourceError, read};
use proptest::prelude::*;
use units::{Bytes, Duration, Ratio};
use workload::{Limits, Load, OnError, Pattern};

fn parse(text: &str) -> Result<Vec<Point>, SourceError> {
    parse_with(text, &[])
}

fn parse_with(text: &str, settings: &[&str]) -> Result<Vec<Point>, SourceError> {
    let settings: Vec<Setting> = settings.iter().map(|setting| setting.parse().unwrap()).collect();
    read(&Source { name: "load.toml".into(), text: text.into() }, &settings)
}

const MINIMAL: &str = r#"
[run]
measure = "10 s"

[[stream]]
name = "readers"
operation = "read"
pattern = "random"
size = "4 KiB"
"#;

#[test]
fn a_minimal_file_has_defaults() {
    let [point] = &parse(MINIMAL).unwrap()[..] else { panic!("one point") };
    let experiment = &point.experiment;
    assert_eq!(experiment.name, "load");
    assert_eq!((experiment.seed, experiment.run.passes), (1, 1));
    assert_eq!((experiment.io.mode, experiment.io.engine), (Mode::Direct, None));
    assert_eq!((experiment.io.cache, experiment.io.gather.get()), (Cache::Drop, 1));
    let stream = &experiment.streams[0].stream;
    assert_eq!(stream.load, Load::Closed { depth: 1, think: Duration::ZERO });
    assert_eq!(stream.align, Bytes::kib(4));
    assert_eq!(stream.limits, Limits { time: Some(Duration::seconds(10)), ..Limits::NONE });
    assert!(!experiment.writes());
}

/// A file in which everything is said.
const WORDY: &str = r#"
name = "all"
seed = 7
[run]
passes = 3
start-up = "1 s"
measure = "10 s"
cool-down = "500 ms"
on-error = "continue"
devices = 2
[io]
mode = "buffered"
engine = "io-uring"
cache = "keep"
gather = 8
[[stream]]
name = "a"
on = [0, 1]
operation = { reads = "70 %" }
pattern = { strided = "1 MiB" }
size = [{ size = "4 KiB", weight = 3 }, { size = "64 KiB", weight = 1 }]
align = "4 KiB"
region = { start = "1 MiB", length = "1 GiB" }
depth = 8
think = "1 ms"
limit = { requests = 10, bytes = "1 GiB", time = "5 s" }
fill = "zero"
pipeline = true
[[stream]]
operation = "write"
pattern = "sequential"
from = "8 KiB"
size = "8 KiB"
arrivals = { poisson = "3000/s" }
outstanding = 9
"#;

#[test]
fn everything_can_be_said() {
    let points = parse(WORDY).unwrap();
    let experiment = &points[0].experiment;
    assert_eq!(experiment.run.on_error, OnError::Continue);
    let [a, b] = &experiment.streams[..] else { panic!("two streams") };
    assert_eq!(a.stream.mix.reads, Ratio::new(0.7));
    assert_eq!(a.stream.limits.time, Some(Duration::seconds(5)));
    assert!(a.stream.pipeline && !b.stream.pipeline && !a.stream.lock_step);
    assert!(a.runs_on(1) && !a.runs_on(2) && b.runs_on(2));
    assert_eq!(b.stream.name, "stream-1");
    assert_eq!(b.stream.pattern, Pattern::Sequential { from: Bytes::kib(8) });
    assert!(matches!(b.stream.load, Load::Open { outstanding: 9, .. }));
}

#[test]
fn pipelines_and_lock_step_want_closed_loops_that_can_have_them() {
    let refused =
        |change: &str| parse(&MINIMAL.replace("size =", &format!("{change}\nsize ="))).unwrap_err().to_string();
    let open = "arrivals = { constant = \"5/s\" }";
    assert!(refused(&format!("pipeline = true\n{open}")).contains("`pipeline` belongs to a closed loop"));
    assert!(refused(&format!("lock-step = true\n{open}")).contains("`lock-step` belongs to a closed loop"));
    let writes = MINIMAL.replace("\"read\"", "\"write\"\npipeline = true");
    assert!(parse(&writes).unwrap_err().to_string().contains("this stream only writes"));
    let sync = format!("{}\nlock-step = true\n[io]\nengine = \"sync\"\n", MINIMAL.trim_end());
    let said = parse(&sync).unwrap_err().to_string();
    assert!(said.contains("requests of all devices under way in one thread") && said.contains("io-uring"), "{said}");
}

fn with_pattern(pattern: &str) -> String {
    MINIMAL.replace("\"random\"", pattern)
}

/// A run folder's experiment is the experiment: reading what was written gives it again.
#[test]
fn what_is_written_out_reads_the_same() {
    let texts = [
        MINIMAL.to_owned(),
        WORDY.to_owned(),
        lab::LANGUAGE.to_owned(),
        MINIMAL.replace("\"random\"", "\"random-once\""),
        MINIMAL.replace("\"read\"", "{ read-behind = 8 }"),
        MINIMAL.replace("size =", "limit = { laps = 2 }\nshare = { part = 1, of = 3 }\nsize ="),
        MINIMAL.replace("size =", "copies = 3\nspread = \"staggered\"\nsize ="),
        MINIMAL.replace("\"random\"", "\"sequential\"\ncopies = 3\nspread = \"interleaved\""),
        MINIMAL.replace("\"random\"", "\"sequential\"\nfrom = \"random\""),
        with_pattern("{ strided = \"64 KiB\" }\nfrom = \"4 KiB\""),
        MINIMAL.replace("size =", "verify = \"later\"\nsize ="),
        MINIMAL.replace("measure =", "steady = {}\nmeasure ="),
        MINIMAL.replace("measure = \"10 s\"", "measure = \"1 s\"\nsteady = { of = \"latency\", window = 3, range = \"30 %\", slope = \"5 %\", rounds = 9 }\n[precondition]\nlaps = 1"),
        with_pattern("{ runs = 8 }"),
        with_pattern("{ jumps = \"30 %\" }"),
        with_pattern("{ zipf = 1 }"),
        with_pattern("{ zipf = { exponent = 1.2, scattered = false } }"),
        with_pattern("{ pareto = \"20 %\" }"),
        with_pattern("{ normal = { deviation = \"10 %\", centre = \"30 %\" } }"),
        with_pattern("{ hot-spot = { requests = \"90 %\", space = \"5 %\", at = \"50 %\" } }"),
        with_pattern(
            "{ zones = [{ requests = \"60 %\", space = \"10 %\" }, { requests = \"40 %\", space = \"2 GiB\" }] }",
        ),
        with_pattern("[{ pattern = \"random\", weight = 3 }, { pattern = { zipf = 1.1 }, weight = 1 }]"),
        MINIMAL.replace(
            "size =",
            "overlap = true\ndelay = \"2 s\"\nlimit = { requests = 5, stop = true }\nwrite-size = \"8 KiB\"\nsize =",
        ),
        MINIMAL.replace("size =", "arrivals = { constant = \"0.5/s\" }\nlimit = { bytes = \"1 GiB\" }\nsize ="),
    ];
    for text in texts {
        let experiment = parse(&text).unwrap().remove(0).experiment;
        let written = experiment.to_toml();
        let again = parse(&written).unwrap_or_else(|error| panic!("{written}\n{error}")).remove(0).experiment;
        assert_eq!(again, experiment, "{written}");
    }
}

#[test]
fn a_sweep_runs_through_all_combinations_in_the_order_of_the_file() {
    let text = format!(
        "{MINIMAL}\n[sweep]\n\"stream.readers.depth\" = [1, 8]\n\"stream.readers.size\" = [\"4 KiB\", \"64 KiB\", \"1 MiB\"]\n"
    );
    let points = parse(&text).unwrap();
    let said: Vec<String> = points
        .iter()
        .map(|point| point.settings.iter().map(|setting| setting.value.clone()).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(said, ["1 4 KiB", "1 64 KiB", "1 1 MiB", "8 4 KiB", "8 64 KiB", "8 1 MiB"]);
    assert_eq!(points[5].experiment.streams[0].stream.lanes(), 8);
    assert_eq!(points[5].experiment.streams[0].stream.sizes.largest(), Bytes::mib(1));
}

#[test]
fn set_changes_a_value_and_takes_the_place_of_an_axis() {
    let text = format!("{MINIMAL}\n[sweep]\n\"stream.readers.depth\" = [1, 8]\n");
    let points =
        parse_with(&text, &["stream.readers.depth=3", "run.measure=5s", "io.mode=buffered", "stream.0.size=8 KiB"]);
    let points = points.unwrap();
    assert_eq!(points.len(), 1);
    let stream = &points[0].experiment.streams[0].stream;
    assert_eq!((stream.lanes(), stream.sizes.largest()), (3, Bytes::kib(8)));
    assert_eq!(points[0].experiment.io.mode, Mode::Buffered);
    assert_eq!(points[0].experiment.run.measure, Some(Duration::seconds(5)));
}

#[test]
fn a_key_that_is_set_has_no_gain() {
    let text = format!("gain = \"seed\"\n{MINIMAL}\n[sweep]\n\"seed\" = [1, 2]\n\"stream.readers.depth\" = [1, 8]\n");
    let baselines = |points: &[lab::Point]| points.iter().map(|point| point.baseline).collect::<Vec<_>>();
    assert_eq!(baselines(&parse(&text).unwrap()), [Some(0), Some(1), Some(0), Some(1)]);
    assert_eq!(baselines(&parse_with(&text, &["seed=2"]).unwrap()), [None, None]);
    let other = parse_with(&text, &["gain=stream.readers.depth"]).unwrap();
    assert_eq!(baselines(&other), [Some(0), Some(0), Some(2), Some(2)]);
}

/// Each way to be wrong, and the whole message.
#[test]
fn what_is_wrong_is_said_with_its_place() {
    let with = |from: &str, to: &str| MINIMAL.replace(from, to);
    let cases = [
        ("unknown key", with("size =", "sise = \"1 B\"\nsize =")),
        ("missing unit", with("\"4 KiB\"", "4096")),
        ("unknown unit", with("4 KiB", "4 KB")),
        ("unknown pattern", with("\"random\"", "\"zigzag\"")),
        ("missing key", with("pattern = \"random\"\n", "")),
        ("priority out of range", format!("{MINIMAL}\n[care]\nreal-time = 100\n")),
        ("no end", with("measure = \"10 s\"", "")),
        ("no load", "[run]\nmeasure = \"1 s\"\n".into()),
        ("not toml", with("[run]", "[run")),
        ("zero size", with("4 KiB", "0 B")),
        ("huge size", with("4 KiB", "2 GiB")),
        ("no such table", with("\"4 KiB\"", "{ table = \"laddis\", times = \"125 %\" }")),
        ("too many large ones", with("\"4 KiB\"", "{ table = \"laddis-reads\", large = \"700 %\" }")),
        ("endless measuring", with("10 s", "100000 h")),
        ("endless thinking", with("size =", "think = \"5000000 h\"\nsize =")),
        ("depth zero", with("size =", "depth = 0\nsize =")),
        ("depth in an open loop", with("size =", "depth = 2\narrivals = { constant = \"5/s\" }\nsize =")),
        ("outstanding in a closed loop", with("size =", "outstanding = 2\nsize =")),
        ("small region", with("size =", "region = { length = \"1 KiB\" }\nsize =")),
        (
            "once with two sizes between blocks",
            with("\"random\"", "\"random-once\"").replace(
                "\"4 KiB\"",
                "[{ size = \"4 KiB\", weight = 1 }, { size = \"8 KiB\", weight = 1 }]\nalign = \"2 KiB\"",
            ),
        ),
        ("same name twice", format!("{MINIMAL}{}", &MINIMAL[MINIMAL.find("[[").unwrap()..])),
        ("unknown law", with_pattern("{ zipfian = 1.2 }")),
        ("no exponent", with_pattern("{ zipf = \"1.2\" }")),
        ("steep exponent", with_pattern("{ zipf = 21 }")),
        ("pareto of everything", with_pattern("{ pareto = \"100 %\" }")),
        (
            "hot spot at the end",
            with_pattern("{ hot-spot = { requests = \"90 %\", space = \"20 %\", at = \"90 %\" } }"),
        ),
        ("more than all requests", with_pattern("{ zones = [{ requests = \"101 %\", space = \"10 %\" }] }")),
        ("weightless", with_pattern("[{ pattern = \"random\", weight = 0 }]")),
        ("from of a random pattern", with("size =", "from = \"1 MiB\"\nsize =")),
        ("from what", with("size =", "from = \"there\"\nsize =")),
        ("copies on one another", with("\"read\"", "\"write\"\ncopies = 2")),
        ("interleaved at random", with("size =", "copies = 2\nspread = \"interleaved\"\nsize =")),
        ("spread of one", with("size =", "spread = \"shared\"\nsize =")),
        ("more reads than requests", with("\"read\"", "{ reads = \"170 %\" }")),
        ("no such part", with("size =", "share = { part = 3, of = 3 }\nsize =")),
        ("filled and verified", with("\"read\"", "\"write\"\nfill = \"zero\"\nverify = \"end\"")),
        ("verified when", with("size =", "verify = \"now\"\nsize =")),
        ("passes until steady", with("measure =", "passes = 3\nsteady = {}\nmeasure =")),
        ("fewer rounds than a window", with("measure =", "steady = { rounds = 4 }\nmeasure =")),
        ("a window of one", with("measure =", "steady = { window = 1 }\nmeasure =")),
        ("no lap", with("[run]", "[precondition]\nlaps = 0\n[run]")),
        ("bad value in a sweep", format!("{MINIMAL}\n[sweep]\n\"stream.readers.depth\" = [1, 0]\n")),
        ("unknown stream in a sweep", format!("{MINIMAL}\n[sweep]\n\"stream.writers.depth\" = [1, 2]\n")),
        ("gain of what is not swept", format!("gain = \"run.passes\"\n{MINIMAL}\n[sweep]\n\"seed\" = [1, 2]\n")),
        ("gain without a sweep", format!("gain = \"seed\"\n{MINIMAL}")),
        ("gain of one value", format!("gain = [\"seed\"]\n{MINIMAL}\n[sweep]\n\"seed\" = [1]\n")),
        ("gain of nothing", format!("gain = true\n{MINIMAL}\n[sweep]\n\"seed\" = [1, 2]\n")),
        ("axis without list", format!("{MINIMAL}\n[sweep]\n\"stream.readers.depth\" = 4\n")),
    ];
    let messages: Vec<String> = cases
        .iter()
        .map(|(name, text)| format!("## {name}\n{}\n", parse(text).expect_err(name).to_string().trim_end()))
        .collect();
    insta::assert_snapshot!(messages.join("\n"));
}

proptest! {
    /// A good file with any piece of it replaced by any text: points to run, or an error that can be shown.
    #[test]
    fn no_text_panics(
        at in any::<prop::sample::Index>(), cut in 0..24usize,
        text in prop_oneof!["[ -~\n]{0,16}", r#"[0-9]{1,20} ?(B|kB|KiB|PiB|s|h|ns|%|/s)?"#],
    ) {
        let at = at.index(WORDY.len());
        let end = (at + cut).min(WORDY.len());
        let damaged = format!("{}{text}{}", &WORDY[..at], &WORDY[end..]);
        match parse_with(&damaged, &["run.measure=5s"]) {
            Ok(points) => prop_assert!(!points.is_empty()),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}

/// The help shows the language by an example; a reader may save it and run it.
#[test]
fn the_example_of_the_help_reads() {
    let points = parse(lab::LANGUAGE).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(points.len(), 8);
    // A terminal of 80 columns must not break its lines: what is copied from there must read, too.
    assert!(lab::LANGUAGE.lines().all(|line| line.len() < 80));
    let care = &points[0].experiment.care;
    assert_eq!((care.lock_memory, care.real_time, &care.cpus[..]), (true, Some(10), &[0, 1][..]));
}

#[test]
fn no_care_is_taken_unless_asked_for() {
    let care = parse(MINIMAL).unwrap().remove(0).experiment.care;
    assert_eq!((care.lock_memory, care.real_time, &care.cpus[..]), (false, None, &[][..]));
}

#[test]
fn a_bad_setting_is_said_to_be_one() {
    let error = |setting: &str| parse_with(MINIMAL, &[setting]).unwrap_err().to_string();
    assert!(error("stream.readers.depth=0").contains("--set"), "{}", error("stream.readers.depth=0"));
    assert!(error("stream.readers.dpeth=4").contains("unknown field `dpeth`"));
    assert!(error("stream.nobody.depth=4").contains("there are: readers"));
    assert!("nonsense".parse::<Setting>().unwrap_err().contains("key=value"));
}
