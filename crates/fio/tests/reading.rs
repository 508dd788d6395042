//! Job files as people write them, as others would break them, and any text at all.

use fio::value::Amount;
use fio::{Check, Direction, Engine, JobError, Order, Pace, Skew, Surroundings};
use proptest::prelude::*;
use units::{Bytes, Duration, Frequency, Rate, Ratio};

/// An environment of one variable, and one file to include.
fn read(text: &str) -> Result<fio::File, JobError> {
    read_as(text, false)
}

fn read_as(text: &str, strict: bool) -> Result<fio::File, JobError> {
    let surroundings = Surroundings {
        variable: &|name| (name == "DISK").then(|| "/dev/sdz".to_owned()),
        include: &|file, _| match file {
            "common.inc" => Ok("direct=1\niodepth=16\n".to_owned()),
            "circle.inc" => Ok("include circle.inc\n".to_owned()),
            other => Err(format!("there is no file '{other}'")),
        },
    };
    fio::read("test.fio", text, &surroundings, strict)
}

const USUAL: &str = "\
; four jobs at once, then one alone
[global]
ioengine=libaio   # the usual one
bs=4k
direct=1
size=10G
runtime=5m
time_based
group_reporting
filename=${DISK}

[readers]
rw=randread
iodepth=32
numjobs=4

[mixed]
stonewall
readwrite=randrw
rwmixread=70
bs=8k,64k
norandommap
ramp_time=10
";

#[test]
fn the_usual_options_are_kept() {
    let file = read(USUAL).unwrap();
    assert_eq!(file.notes, []);
    let [readers, mixed] = &file.jobs[..] else { panic!("two jobs") };
    assert_eq!((readers.name.as_str(), readers.engine, readers.direct), ("readers", Engine::Queue, true));
    assert_eq!(
        (readers.depth, readers.copies, readers.order),
        (32, 4, Order::Random { once: true, runs: 1, jumps: None })
    );
    assert_eq!(readers.files, ["/dev/sdz"]);
    assert_eq!(readers.extent.size, Some(Amount::Bytes(Bytes::gib(10))));
    assert_eq!((readers.runtime, readers.time_based), (Some(Duration::seconds(300)), true));
    assert!(!readers.stonewall && mixed.stonewall && mixed.group_reporting);
    assert_eq!(mixed.direction, Direction::Mixed(Ratio::percent(70.0)));
    assert_eq!(mixed.sizes, [vec![(Bytes::kib(8), 1)], vec![(Bytes::kib(64), 1)]]);
    assert_eq!((mixed.order, mixed.ramp), (Order::Random { once: false, runs: 1, jumps: None }, Duration::seconds(10)));
    assert_eq!((mixed.place.line, mixed.options[0].len()), (17, 6));
}

#[test]
fn a_job_without_options_is_what_fio_makes_of_it() {
    let job = read("[j]\n").unwrap().jobs.remove(0);
    assert_eq!((job.direction, job.order), (Direction::Read, Order::Sequential { gap: Bytes::ZERO }));
    assert_eq!((job.engine, job.depth, job.direct, job.invalidate), (Engine::Sync, 1, false, true));
    assert_eq!(job.sizes[0], [(Bytes::kib(4), 1)]);
}

/// Found out with fio 3.33: `--io_size=1mib --bs=1` moves 10^6 bytes, with `kb_base=1000` 2^20.
#[test]
fn sizes_are_those_of_fio_and_not_of_the_standard() {
    let size = |text: &str| match read(&format!("[j]\nkb_base=1024\nsize={text}\n")).unwrap().jobs[0].extent.size {
        Some(Amount::Bytes(size)) => size.get(),
        other => panic!("{other:?}"),
    };
    for (text, bytes) in [
        ("1m", 1 << 20),
        ("1M", 1 << 20),
        ("1mb", 1 << 20),
        ("1Mi", 1 << 20),
        ("1MiB", 1_000_000),
        ("0x200", 512),
        ("7", 7),
    ] {
        assert_eq!(size(text), bytes, "{text}");
    }
    let decimal = read("[j]\nsize=1m\nkb_base=1000\nio_size=1mib\noffset=20%\n").unwrap().jobs.remove(0);
    assert_eq!(decimal.extent.size, Some(Amount::Bytes(Bytes::new(1_000_000))));
    assert_eq!(decimal.extent.moved, Some(Amount::Bytes(Bytes::mib(1))));
    assert_eq!(decimal.extent.offset, Amount::Percent(20.0));
}

#[test]
fn the_second_tier_is_kept() {
    let text = "[j]\nrw=write:8k\nbssplit=4k/10:64k/50:32k\nfsync=16\nsync=1\nend_fsync=1\nstartdelay=500ms\nthinktime=100\nrate_iops=500\n\
        rate_process=poisson\ncpus_allowed=0,2-3\nba=8k\nioengine=pvsync2\niodepth=8\nnumber_ios=9\noffset_increment=1m\nfilename=a\\:b:c\n";
    let job = read(text).unwrap().jobs.remove(0);
    assert_eq!(job.order, Order::Sequential { gap: Bytes::kib(8) });
    assert_eq!(job.sizes[1], [(Bytes::kib(4), 1000), (Bytes::kib(64), 5000), (Bytes::kib(32), 4000)]);
    assert_eq!((job.flush_every, job.durable, job.flush_at_end), (16, true, true));
    assert_eq!((job.delay, job.think), (Duration::millis(500), Duration::micros(100)));
    assert_eq!((job.rate, job.poisson), (Some(Pace::Requests(Frequency::per_second(500.0))), true));
    assert_eq!((&job.cpus[..], job.align), (&[0, 2, 3][..], Some(Bytes::kib(8))));
    assert_eq!((job.depth, job.requests), (1, Some(9)), "a system call after the other has a depth of one");
    assert_eq!(job.files, ["a:b", "c"]);
}

#[test]
fn skews_and_runs_are_kept() {
    let of = |options: &str| read(&format!("[j]\nrw=randread:8\n{options}\n")).unwrap().jobs.remove(0);
    assert_eq!(of("").order, Order::Random { once: true, runs: 8, jumps: None });
    assert_eq!(
        of("percentage_random=30").order,
        Order::Random { once: true, runs: 8, jumps: Some(Ratio::percent(30.0)) }
    );
    assert_eq!(of("random_distribution=zipf:1.2").skew, Some(Skew::Zipf(1.2)));
    assert_eq!(of("random_distribution=zoned:60/10:40/90").skew, Some(Skew::Zoned(vec![(60.0, 10.0), (40.0, 90.0)])));
    assert_eq!(of("random_distribution=random").skew, None);
    assert!(read("[j]\nrandom_distribution=zoned:60/80:40/90\n").is_err());
}

#[test]
fn a_rate_in_bytes_is_of_both_directions_and_of_requests_of_a_mean_size() {
    let job = read("[j]\nrw=rw\nrwmixread=75\nbs=4k,12k\nrate=3m,3m\n").unwrap().jobs.remove(0);
    assert_eq!(job.rate, Some(Pace::Bytes(Rate::bytes_per_second(6.0 * 1024.0 * 1024.0))));
    // 3/4 * 4 KiB + 1/4 * 12 KiB.
    assert_eq!(job.mean_size(), 6144.0);
}

#[test]
fn of_two_kinds_of_flushes_the_first_that_is_asked_for_counts() {
    let of = |text: &str| read(text).unwrap().jobs[0].flush_every;
    assert_eq!(of("[global]\nfsync=0\n[j]\nfdatasync=8\n"), 8);
    assert_eq!(of("[j]\nfsync=4\nfdatasync=8\n"), 4);
}

#[test]
fn what_is_written_is_verified_when_the_job_says() {
    let of = |options: &str| read(&format!("[j]\nrw=write\n{options}\n")).unwrap().jobs.remove(0).verify;
    assert_eq!(of("verify=crc32c"), Some(Check::AtEnd));
    assert_eq!(of("verify=md5\ndo_verify=0"), Some(Check::Later));
    assert_eq!(of("verify=pattern\nverify_pattern=0xff\nverify_backlog=16"), Some(Check::Behind(16)));
    assert_eq!((of("verify=0"), of("verify_backlog=16"), of("")), (None, None, None));
}

#[test]
fn trims_and_traces_are_read() {
    let trim = read("[j]\nrw=randtrim\nbs=4k,8k,64k\n").unwrap().jobs.remove(0);
    assert_eq!((trim.direction, &trim.sizes[1]), (Direction::Trim, &vec![(Bytes::kib(64), 1)]));
    assert_eq!(read("[j]\nrw=trimwrite\n").unwrap().jobs[0].direction, Direction::TrimWrite);
    let text = "[j]\nread_iolog=a.log:b.log\nreplay_time_scale=200\nreplay_redirect=/dev/sdb\nreplay_align=4k\n";
    let replay = read(text).unwrap().jobs.remove(0).replay.unwrap();
    assert_eq!((replay.files, replay.speed), (vec!["a.log".to_owned(), "b.log".to_owned()], Some(2.0)));
    assert_eq!((replay.redirect.as_deref(), replay.align), (Some("/dev/sdb"), Bytes::kib(4)));
    let at_once = read("[j]\nread_iolog=a\nreplay_no_stall=1\n").unwrap().jobs.remove(0).replay.unwrap();
    assert_eq!(at_once.speed, None);
}

#[test]
fn what_is_not_kept_is_listed_once_and_the_gravest_first() {
    let text = "[global]\nthread\nzonesize=1m\nmy_option=3\n[a]\n[b]\nwrite_bw_log=x\n";
    let file = read(text).unwrap();
    let said: Vec<(&str, &str, usize)> =
        file.notes.iter().map(|note| (note.option.as_str(), note.fate.title(), note.place.line)).collect();
    let not_kept = "not kept, so that results may differ from fio's";
    let no_effect = "without effect here";
    assert_eq!(
        said,
        [
            ("zonesize", not_kept, 3),
            ("my_option", "not known", 4),
            ("thread", no_effect, 2),
            ("write_bw_log", no_effect, 7)
        ]
    );
    let said = read_as(text, true).unwrap_err().to_string();
    assert_eq!(
        said,
        "test.fio:3: --strict refuses the option 'zonesize': zones within a file are not made; take it out, or leave --strict away"
    );
    assert!(read_as(USUAL, true).is_ok());
}

#[test]
fn files_are_included_and_circles_are_not() {
    let file = read("[global]\ninclude common.inc\n[j]\nioengine=libaio\n").unwrap();
    assert_eq!((file.jobs[0].direct, file.jobs[0].depth), (true, 16));
    assert!(matches!(read("[global]\ninclude circle.inc\n[j]\n"), Err(JobError::Circle { .. })));
    assert_eq!(
        read("[j]\ninclude x\n").unwrap_err().to_string(),
        "test.fio:2: cannot be included: there is no file 'x'"
    );
}

#[test]
fn what_is_wrong_is_said_with_its_line_and_what_would_be_accepted() {
    for (text, said) in [
        ("[j]\nbs=4q\n", "test.fio:2: 'bs' is '4q'; write a size such as 4k, or two for reads and writes: 4k,64k"),
        ("bs=4k\n", "test.fio:1: 'bs=4k' stands before the first section; begin with [global] or the [name] of a job"),
        ("[j\n", "test.fio:1: the section '[j' is not closed; write [name]"),
        ("[global]\nbs=4k\n", "test.fio has no job; add a section such as [job] below [global]"),
        ("[j]\nsize\n", "test.fio:2: 'size' has no value; write a size such as 1g, or a share such as 20%"),
        (
            "[j]\nrw=randtrim\nverify=md5\n",
            "test.fio:3: [j] discards, and nobody says what is read of what was discarded; take rw=write, or leave verify out",
        ),
        (
            "[j]\nrw=write\nverify=md5\nverify_only\n",
            "test.fio:4: [j] is to verify what an earlier run wrote; run `arraylab verify RUN` with that run's folder",
        ),
        ("[j]\nnumjobs=0\n", "test.fio:2: 'numjobs' is '0'; write a whole number from 1 on, and none absurdly large"),
        (
            "[j]\nsize=99999999999p\n",
            "test.fio:2: 'size' is '99999999999p'; write a size such as 1g, or a share such as 20%",
        ),
        ("[j]\ntime_based\n", "test.fio:2: [j] is to end by time alone; add runtime=30"),
        ("[j]\nrwmixread=101\n", "test.fio:2: 'rwmixread' is '101'; write a percentage"),
        (
            "[j]\nbssplit=4k/0\nrate=1m\n",
            "test.fio:2: 'bssplit' is '4k/0'; write sizes with percentages such as 4k/60:64k/40",
        ),
        ("[j]\nread_iolog=:\n", "test.fio:2: [j] names no trace; write read_iolog=FILE"),
        ("[j]\nfilename=::\n", "test.fio:2: [j] names no file; write filename=FILE, or leave it out"),
    ] {
        assert_eq!(read(text).unwrap_err().to_string(), said);
    }
}

#[test]
fn a_job_file_is_told_from_an_experiment() {
    let meant = |path: &str, text: &str| fio::is_meant(std::path::Path::new(path), text);
    assert!(meant("x.fio", "") && meant("x.ini", "") && meant("x", "# c\n[global]\nbs=4k\n"));
    assert!(!meant("x.toml", "[run]\npasses = 3\n") && !meant("x", "name = \"a\"\n"));
}

proptest! {
    #[test]
    fn no_text_panics(text in "(\\[[a-z]{0,6}\\]?\n|[a-z_]{1,12}=?[-0-9a-z/:,.%${}\\\\]{0,12}\n|.{0,20}\n){0,30}") {
        let _ = read(&text);
    }

    /// Several, as some matter only beside others.
    #[test]
    fn no_values_of_known_options_panic(
        options in proptest::collection::vec((0..fio::option::KEPT.len(), "[-0-9a-zA-Z/:,.%]{0,24}|[0-9]{1,3}[kmg]?(/[0-9]{1,2})?"), 1..4)
    ) {
        let lines = options.iter().map(|(index, value)| format!("{}={value}\n", fio::option::KEPT[*index]));
        match read(&format!("[job]\n{}", lines.collect::<String>())) {
            Err(error) => prop_assert!(error.to_string().starts_with("test.fio:"), "{}", error),
            Ok(file) => prop_assert!(file.jobs.iter().all(|job| job.mean_size() > 0.0)),
        }
    }
}
