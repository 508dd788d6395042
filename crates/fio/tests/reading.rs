//! Job files as people write them, as others would break them, and any text at all.

use fio::priority::Drawn;
use fio::rules::Figure;
use fio::value::Amount;
use fio::{
    Check, Direction, Ends, Engine, Fate, Fill, JobError, Known, Made, Order, Pace, Piece, Priorities, Rigour, Rules,
    Skew, Surroundings,
};
use proptest::prelude::*;
use units::{Bytes, Duration, Frequency, Rate, Ratio};

/// An environment of one variable, and one file to include.
fn read(text: &str) -> Result<fio::File, JobError> {
    read_as(text, Rigour::Usual)
}

fn read_as(text: &str, rigour: Rigour) -> Result<fio::File, JobError> {
    let surroundings = Surroundings {
        variable: &|name| (name == "DISK").then(|| "/dev/sdz".to_owned()),
        keyword: &|name| {
            [("$ncpus", 3), ("$pagesize", 4096), ("$mb_memory", 7000)]
                .into_iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| value)
        },
        include: &|file, _| match file {
            "common.inc" => Ok((file.to_owned(), "direct=1\niodepth=16\n".to_owned())),
            "circle.inc" => Ok((file.to_owned(), "include circle.inc\n".to_owned())),
            other => Err(format!("there is no file '{other}'")),
        },
    };
    fio::read("test.fio", text, &surroundings, rigour)
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
    assert_eq!((readers.name.as_str(), readers.engine, readers.direct), ("readers", Engine::Aio, true));
    assert_eq!(
        (readers.depth, readers.copies, readers.order),
        (32, 4, [Order::Random { once: true, runs: 1, jumps: None }; 2])
    );
    assert_eq!(readers.files, ["/dev/sdz"]);
    assert_eq!(readers.extent.size, Some(Amount::Bytes(Bytes::gib(10))));
    assert_eq!((readers.runtime, readers.time_based), (Some(Duration::seconds(300)), true));
    assert!(!readers.stonewall && mixed.stonewall && mixed.group_reporting);
    assert_eq!(mixed.direction, Direction::Mixed(Ratio::percent(70.0)));
    assert_eq!(mixed.sizes, [vec![(Bytes::kib(8), 1)], vec![(Bytes::kib(64), 1)]]);
    assert_eq!(
        (mixed.order[1], mixed.ramp),
        (Order::Random { once: false, runs: 1, jumps: None }, Duration::seconds(10))
    );
    assert_eq!((mixed.place.line, mixed.options[0].len()), (17, 4));
}

#[test]
fn a_job_without_options_is_what_fio_makes_of_it() {
    let job = read("[j]\n").unwrap().jobs.remove(0);
    assert_eq!((job.direction, job.order), (Direction::Read, [Order::Sequential { gap: Bytes::ZERO, back: false }; 2]));
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
    assert_eq!(job.order[1], Order::Sequential { gap: Bytes::kib(8), back: false });
    assert_eq!(job.sizes[1], [(Bytes::kib(4), 1000), (Bytes::kib(64), 5000), (Bytes::kib(32), 4000)]);
    assert_eq!((job.fsync, job.durable, job.flush_at_end), (16, true, true));
    assert_eq!((job.delay, job.think), ([Duration::millis(500); 2], Duration::micros(100)));
    assert_eq!((job.rate[1], job.poisson), (Some(Pace::Requests(Frequency::per_second(500.0))), true));
    assert_eq!((&job.cpus[..], job.align), (&[0, 2, 3][..], [Some(Bytes::kib(8)); 2]));
    assert_eq!((job.depth, job.requests), (1, Some(9)), "a system call after the other has a depth of one");
    assert_eq!(job.files, ["a:b", "c"]);
}

#[test]
fn skews_and_runs_are_kept() {
    let of = |options: &str| read(&format!("[j]\nrw=randread:8\n{options}\n")).unwrap().jobs.remove(0);
    assert_eq!(of("").order[0], Order::Random { once: true, runs: 8, jumps: None });
    assert_eq!(
        of("percentage_random=30").order[0],
        Order::Random { once: true, runs: 8, jumps: Some(Ratio::percent(30.0)) }
    );
    assert_eq!(of("random_distribution=zipf:1.2").skew[0], Some(Skew::Zipf(1.2)));
    assert_eq!(
        of("random_distribution=zoned:60/10:40/90").skew[0],
        Some(Skew::Zoned(vec![(60.0, 10.0), (40.0, 90.0)]))
    );
    assert_eq!(of("random_distribution=random").skew, [None, None]);
    assert!(read("[j]\nrandom_distribution=zoned:60/80:40/90\n").is_err());
}

/// Tried out with fio 3.33: `bs=,8k` reads 4 KiB and writes 8, `8k,` the other way round, and of `4k,8k` trims are as
/// writes.
#[test]
fn values_by_direction_have_empty_places() {
    let job = |text: &str| read(&format!("[global]\nbs=16k\n[j]\nrw=randrw\n{text}\n")).unwrap().jobs.remove(0);
    let sizes = |text: &str| job(text).sizes.map(|sizes| sizes[0].0.get() >> 10);
    assert_eq!(sizes("bs=,8k"), [16, 8]);
    assert_eq!(sizes("bs=8k,"), [8, 16]);
    assert_eq!(sizes("bs=8k,,64k"), [8, 16]);
    assert_eq!(sizes("bs=8k"), [8, 8]);
    assert_eq!(sizes("bsrange=,2k-4k"), [16, 2]);
    assert_eq!(
        job("bssplit=8k/90:16k/10,,").sizes,
        [vec![(Bytes::kib(8), 9000), (Bytes::kib(16), 1000)], vec![(Bytes::kib(16), 1)]]
    );
    assert_eq!(job("ba=,8k").align, [None, Some(Bytes::kib(8))]);
    assert_eq!(job("rate=,4m").rate, [None, Some(Pace::Bytes(Rate::bytes_per_second(4.0 * 1024.0 * 1024.0)))]);
    let pace = |n: f64| Some(Pace::Requests(Frequency::per_second(n)));
    assert_eq!(job("rate_iops=1000,500").rate, [pace(1000.0), pace(500.0)]);
    let [reads, writes] = job("percentage_random=100,0").order;
    assert!(matches!(reads, Order::Random { jumps: None, .. }) && matches!(writes, Order::Sequential { .. }));
    let trim = read("[j]\nrw=randtrim\nbs=4k,8k\n").unwrap().jobs.remove(0);
    assert_eq!(trim.sizes[1], [(Bytes::kib(8), 1)]);
    for wrong in ["bs=,", "bs=1k,2k,3k,4k", "rate=1m\nrate_iops=9"] {
        assert!(read(&format!("[j]\n{wrong}\n")).is_err(), "{wrong}");
    }
}

#[test]
fn zones_are_shares_or_sizes_and_divide_the_rest() {
    let of = |text: &str| {
        read(&format!("[j]\nrw=randrw\nrandom_distribution={text}\n")).map(|file| file.jobs[0].skew.clone())
    };
    let zones = Some(Skew::Zoned(vec![(60.0, 10.0), (20.0, 45.0), (20.0, 45.0)]));
    assert_eq!(of("zoned:60/10:20:20/").unwrap(), [zones.clone(), zones]);
    let bytes = Some(Skew::ZonedBytes(vec![(60.0, Bytes::mib(1)), (40.0, Bytes::mib(3))]));
    assert_eq!(of("zoned_abs:60/1m:40/3m").unwrap(), [bytes.clone(), bytes.clone()]);
    let [reads, writes] = of("zoned_abs:60/1m:40/3m,100/1m").unwrap();
    assert_eq!((reads, writes), (bytes, Some(Skew::ZonedBytes(vec![(100.0, Bytes::mib(1))]))));
    assert!(of("zoned:60/10:20/90").is_err(), "accesses are to come to 100 %");
}

/// Tried out with fio 3.33: its own `name` is what results call a job, and one in `[global]` is nobody's; files go by
/// the section.
#[test]
fn a_name_in_global_is_nobodys() {
    let file = read("[global]\nname=nightly\n[a]\n[b]\nname=other\n").unwrap();
    let names: Vec<_> = file.jobs.iter().map(|job| (job.name.as_str(), job.section.as_str())).collect();
    assert_eq!(names, [("a", "a"), ("other", "b")]);
}

#[test]
fn keywords_are_the_machines_and_make_a_formula() {
    let job = read("[j]\nnumjobs=$ncpus\nsize=$mb_memory*1/2\nfilename=data-${DISK}-x\nbs=$pagesize\n")
        .unwrap()
        .jobs
        .remove(0);
    assert_eq!((job.copies, job.extent.size), (3, Some(Amount::Bytes(Bytes::new(3500)))));
    assert_eq!((job.sizes[0][0].0, job.files[0].as_str()), (Bytes::kib(4), "data-/dev/sdz-x"));
}

#[test]
fn a_variable_that_is_not_set_is_named() {
    let said = read("[j]\nsize=${HOW_MUCH}\n").unwrap_err().to_string();
    assert_eq!(
        said,
        "test.fio:2: 'size' has no value, as the environment has no variable HOW_MUCH; write a size such as 1g, or a share such as 20%"
    );
    let file = read("[j]\nfilename=/tmp/x${WHICH}\n").unwrap();
    assert_eq!((file.jobs[0].files[0].as_str(), file.notes[0].fate), ("/tmp/x", Fate::Unset));
}

#[test]
fn a_gap_may_be_backward() {
    let of = |rw: &str| read(&format!("[j]\nrw={rw}\n")).map(|file| file.jobs[0].order[0]);
    assert_eq!(of("read:-8k").unwrap(), Order::Sequential { gap: Bytes::kib(8), back: true });
    assert!(of("read:--8k").is_err());
}

#[test]
fn both_kinds_of_flushes_are_kept() {
    let of = |text: &str| {
        let job = read(text).unwrap().jobs.remove(0);
        (job.fsync, job.fdatasync)
    };
    assert_eq!(of("[global]\nfsync=0\n[j]\nfdatasync=8\n"), (0, 8));
    assert_eq!(of("[j]\nfsync=4\nfdatasync=8\n"), (4, 8));
}

#[test]
fn a_writeback_has_steps_and_a_number_of_writes() {
    let of =
        |value: &str| read(&format!("[j]\nrw=write\nsync_file_range={value}\n")).map(|file| file.jobs[0].writeback);
    assert_eq!(of("wait_before,write:8").unwrap(), (8, [true, true, false]));
    assert_eq!(of("wait_after").unwrap(), (1, [false, false, true]));
    assert!(of("8").unwrap_err().to_string().contains("such as wait_before,write:8"));
}

#[test]
fn what_is_written_is_verified_when_the_job_says() {
    let of = |options: &str| read(&format!("[j]\nrw=write\n{options}\n")).unwrap().jobs.remove(0).verify;
    assert_eq!(of("verify=crc32c"), Some(Check::AtEnd));
    assert_eq!(of("verify=md5\ndo_verify=0"), Some(Check::Later));
    assert_eq!(of("verify=pattern\nverify_pattern=1\nverify_backlog=16"), Some(Check::Behind(16)));
    assert_eq!((of("verify=0"), of("verify_backlog=16"), of("")), (None, None, None));
}

#[test]
fn a_pattern_is_all_there_is_or_stands_behind_what_sectors_say() {
    let of = |options: &str| read(&format!("[j]\nrw=write\n{options}\n")).unwrap().jobs.remove(0).known;
    let piece = || vec![Piece::Bytes(vec![0xde, 0xad])];
    assert_eq!(of("verify=pattern\nverify_pattern=0xdead"), Some(Known::Whole(piece())));
    // As in fio, a pattern by itself is to be verified.
    assert_eq!(of("verify_pattern=0xdead"), Some(Known::Whole(piece())));
    assert_eq!(of("verify=crc32c\nverify_pattern=0xdead"), Some(Known::Behind(piece())));
    assert_eq!((of("verify=0\nverify_pattern=0xdead"), of("verify=md5")), (None, None));
    assert_eq!(of("verify_pattern='f'"), Some(Known::Whole(vec![Piece::File("f".into())])));
}

#[test]
fn priorities_are_numbers_of_the_kernel_by_direction_and_size() {
    let of = |options: &str| read(&format!("[j]\nsize=1m\n{options}\n")).map(|file| file.jobs[0].priorities.clone());
    assert_eq!(of("").unwrap(), Priorities::default());
    // A level without a class is one of best effort.
    let usual = ["prio=5", "prioclass=3", "prioclass=1\nprio=7"].map(|options| of(options).unwrap().usual);
    assert_eq!(usual, [2 << 13 | 5, 3 << 13, 1 << 13 | 7]);
    let drawn =
        |size: u64, percent, priority| Drawn { size: (size > 0).then_some(Bytes::kib(size)), percent, priority };
    let engine = "ioengine=libaio\n";
    let shares = of(&format!("{engine}cmdprio_percentage=20,5\ncmdprio_class=,2\ncmdprio=,3")).unwrap().drawn;
    assert_eq!(shares, [vec![drawn(0, 20, 1 << 13)], vec![drawn(0, 5, 2 << 13 | 3)]]);
    let split = of(&format!("{engine}cmdprio_bssplit=64k/25/1/1:64k/75/3/2:1m/0,1m/10/2/0/4")).unwrap().drawn;
    let reads = vec![drawn(64, 25, 1 << 13 | 1), drawn(64, 75, 3 << 13 | 2)];
    assert_eq!(split, [reads, vec![drawn(1024, 10, 2 << 13 | 4 << 3)]]);
    for (options, wanted) in [
        ("prio=8", "a level from 0, the highest, to 7"),
        ("prioclass=4", "1 (real time)"),
        ("cmdprio_percentage=20", "which its engine cannot"),
        ("ioengine=libaio\ncmdprio_percentage=20\ncmdprio_bssplit=4k/10", "shares of all sizes and of each"),
        ("ioengine=libaio\ncmdprio_bssplit=4k/60/1/1:4k/41/2/1", "sizes with percentages"),
    ] {
        let error = of(options).unwrap_err().to_string();
        assert!(error.contains(wanted), "{options}: {error}");
    }
}

#[test]
fn a_depth_is_searched_for_where_a_latency_is_named() {
    let of = |options: &str| read(&format!("[j]\nsize=1m\n{options}\n")).unwrap().jobs[0].rules.search;
    let all = of("latency_target=500\nlatency_window=5s\nlatency_percentile=99.9\nlatency_run=1").unwrap();
    assert_eq!((all.target, all.window), (Duration::micros(500), Duration::seconds(5)));
    assert_eq!((all.percent, all.goes_on), (99.9, true));
    assert_eq!(of("latency_target=1ms").map(|search| search.percent), Some(100.0));
    assert_eq!(of("latency_window=5s\nlatency_percentile=99"), None);
}

#[test]
fn what_would_be_measured_or_kept_otherwise_is_no_option_without_effect() {
    let fate = |options: &str| read(&format!("[j]\nsize=1m\n{options}\n")).map(|file| file.notes.len());
    for option in ["profile=tiobench", "stats=0", "write_hist_log=x", "log_unix_epoch=1", "bwavgtime=1000"] {
        let error = fate(option).unwrap_err().to_string();
        assert!(error.contains("is not supported"), "{option}: {error}");
    }
    // Values of what is done in any case are noted and taken.
    for option in ["stats=1", "log_unix_epoch=0", "bwavgtime=500", "disk_util=0"] {
        assert_eq!(fate(option), Ok(1), "{option}");
    }
    // These are kept, and not even noted.
    for option in ["refill_buffers", "random_generator=lfsr", "write_iolog=x", "log_prio=1", "fill_device=1"] {
        assert_eq!(fate(option), Ok(0), "{option}");
    }
    let unreserved = |options: &str| read(&format!("[j]\nsize=1m\n{options}\n")).map(|file| file.jobs[0].unreserved);
    assert_eq!(unreserved("rw=write\nfallocate=none"), Ok(true));
    // What is read has its blocks in fio, too.
    assert_eq!([unreserved("rw=rw\nfallocate=none"), unreserved("rw=write\nfallocate=keep")], [Ok(false), Ok(false)]);
    assert!(unreserved("rw=write\nfallocate=truncate").is_err());
    let order = |options: &str| read(&format!("[j]\nrw=randread\n{options}\n")).unwrap().jobs[0].order[0];
    let once = |order| matches!(order, Order::Random { once: true, .. });
    assert!(once(order("norandommap\nrandom_generator=lfsr")) && !once(order("norandommap")));
    let several = read("[j]\nfilename=a:b\nsize=1m\nwrite_iolog=x\n").unwrap_err().to_string();
    assert!(several.contains("name one file, and leave read_iolog out"), "{several}");
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
    let text = "[global]\nthread\nlockfile=readwrite\nmy_option=3\n[a]\n[b]\ndisk_util=0\n";
    let file = read_as(text, Rigour::Lenient).unwrap();
    let said: Vec<(&str, &str, usize)> =
        file.notes.iter().map(|note| (note.option.as_str(), note.fate.title(), note.place.line)).collect();
    let not_kept = "not kept, so that results may differ from fio's";
    let no_effect = "without effect here";
    assert_eq!(
        said,
        [
            ("lockfile", not_kept, 3),
            ("my_option", "not known", 4),
            ("thread", no_effect, 2),
            ("disk_util", no_effect, 7)
        ]
    );
    assert_eq!(
        read(text).unwrap_err().to_string(),
        "test.fio:4: fio 3.33 has no option 'my_option'; correct it, or add --lenient to run without it"
    );
    assert_eq!(
        read("[global]\niodpeth=32\nlockfile=readwrite\n[a]\n").unwrap_err().to_string(),
        "test.fio:2: fio 3.33 has no option 'iodpeth'; the nearest is 'iodepth'; correct it, or add --lenient to run without it"
    );
    assert_eq!(
        read("[a]\nlockfile=readwrite\n").unwrap_err().to_string(),
        "test.fio:2: the option 'lockfile' is not supported: jobs do not wait for each other's files; take it out, or add --lenient to run without it"
    );
    let said = read_as("[a]\nthread\n", Rigour::Strict).unwrap_err().to_string();
    assert_eq!(
        said,
        "test.fio:2: --strict refuses the option 'thread': jobs are loaded by threads in any case; take it out, or leave --strict away"
    );
    assert!(read_as(USUAL, Rigour::Strict).is_ok());
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
        (
            "[j]\nbs=4q\n",
            "test.fio:2: 'bs' is '4q'; write a size such as 4k, or one for reads and one for writes: 4k,64k",
        ),
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
            "[j]\nbssplit=4k/101\nrate=1m\n",
            "test.fio:2: 'bssplit' is '4k/101'; write sizes with percentages such as 4k/60:64k/40",
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
    // By content, where the name says nothing.
    assert!(meant("x.conf", "# usual\n[random-writers]\nioengine=null\niodepth=4\n"));
    assert!(meant("x", "\u{feff}[j]\nrw=read\n") && meant("x", "[j]\ntime_based\n") && meant("x", "[j]\niodepth=4\n"));
    assert!(!meant("x.conf", "[run]\npasses = 3\n[[stream]]\noperation = \"read\"\ndepth = 4\n"));
    assert!(!meant("x", "[io]\nmode = \"direct\"\n"));
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

#[test]
fn rules_of_jobs_are_read_and_what_no_job_can_keep_is_refused() {
    let rules = |options: &str| read(&format!("[j]\nsize=1m\n{options}\n")).map(|file| file.jobs[0].rules.clone());
    let none = rules("").unwrap();
    let usual = Rules {
        ignored: [vec![], vec![]],
        error_ends_all: false,
        ends: Ends::Itself,
        flow: None,
        longest: None,
        least: None,
        steady: None,
        search: None,
        serial: false,
        low: None,
    };
    assert_eq!(none, usual);
    let all = rules(
        "continue_on_error=write\nexitall\nexit_what=all\nflow=3\nflow_id=7\nflow_sleep=500\nmax_latency=2000\n\
         rate=4m\nrate_min=1m\nratecycle=500\nss=bw_slope:2%\nss_dur=30\nss_ramp=5s",
    )
    .unwrap();
    assert_eq!((all.ignored, all.ends), ([vec![], vec![5, 84]], Ends::All));
    // A list stands in place of what continue_on_error says of its direction, and needs no such word.
    let ignored = |options: &str| rules(options).unwrap().ignored;
    assert_eq!(ignored("ignore_error=,ENOSPC:122"), [vec![], vec![28, 122]]);
    assert_eq!(ignored("continue_on_error=all\nignore_error=EAGAIN,,84"), [vec![11], vec![5, 84]]);
    assert_eq!(all.flow.map(|flow| (flow.number, flow.weight, flow.rest)), Some((7, 3, Duration::micros(500))));
    assert_eq!(all.longest, Some(Duration::millis(2)));
    let least = all.least.unwrap();
    assert_eq!((least.bytes, least.requests, least.every), ([1 << 20; 2], [0; 2], Duration::millis(500)));
    let steady = all.steady.unwrap();
    assert_eq!((steady.of, steady.slope, steady.limit, steady.percent), (Figure::Bytes, true, 2.0, true));
    assert_eq!((steady.window, steady.ramp), (Duration::seconds(30), Duration::seconds(5)));
    // Without exitall nothing ends anything, and without a duration nothing is steady.
    let silent = rules("exit_what=all\nflow=0\nsteadystate=iops:5%").unwrap();
    assert_eq!(silent, usual);
    for (options, wanted) in [
        ("flow=1001", "a weight from 0 to 1000"),
        ("exit_what=some", "group, stonewall or all"),
        ("ignore_error=,EWHAT", "by name or number, such as EIO,ENOSPC:122"),
        ("continue_on_error=some", "none, read, write, io, verify or all"),
        ("ss=speed:1%\nss_dur=10", "iops:5%"),
        ("ss_dur=1", "steady for less than two values"),
        ("rate_iops=100\nrate_iops_min=101", "faster than its rate lets it"),
        ("rate_cycle=0", "a time in milliseconds from 1 on"),
        ("runtime=1.5s", "a whole time such as 30, 30s, 1500ms"),
        ("zonesize=1m", "zones that are not used"),
        ("zonemode=strided", "zones of no size"),
        ("zonemode=zbd\nzonesize=1m", "for a zoned block device"),
        ("rw=rw\nzonemode=strided\nzonesize=64k", "one place in its zones for two directions"),
        ("startdelay=5-2", "a range of them such as 5-10"),
        ("buffer_pattern=abc", "a string in quotes"),
        ("dedupe_global=1", "a set that it has not"),
        ("verify=pattern", "is to find a pattern, and names none"),
        ("rw=rw\nverify_pattern=1", "begins anew in each block"),
        ("latency_percentile=101", "a percentage such as 99.9"),
        ("random_generator=dice", "tausworthe, tausworthe64 or lfsr"),
        ("rw=write\nverify=md5\nbuffer_pattern=0xff", "what is verified says what it is"),
    ] {
        let error = rules(options).unwrap_err().to_string();
        assert!(error.contains(wanted), "{options}: {error}");
    }
}

#[test]
fn what_other_engines_want_is_refused_in_their_name() {
    let refused = |options: &str| read(&format!("[j]\nsize=1m\n{options}\n")).unwrap_err().to_string();
    for (options, wanted) in [
        ("fdp=1", "test.fio:3: the option 'fdp' is not supported: it is of the engine io_uring_cmd or xnvme"),
        ("donorname=x", "it is of the engine e4defrag"),
        ("ioengine=sg\nsg_write_mode=verify", "it asks for commands of the engine sg"),
        ("offset=524z\nzonemode=zbd", "is for a zoned block device"),
        ("random_distribution=sequence:1,x", "zoned_abs:60/1m:40/3m or sequence:2,0,1"),
    ] {
        let error = refused(options);
        assert!(error.contains(wanted), "{options}: {error}");
    }
    let sequence = "[j]\nrw=randread\nsize=1m\nrandom_distribution=sequence:2,0\nrandom_sequence_stride\n";
    assert_eq!(read(sequence).unwrap().jobs[0].skew[0], Some(Skew::Sequence(vec![2, 0], true)));
}

#[test]
fn what_is_written_is_put_together_of_its_options() {
    let fill = |options: &str| read(&format!("[j]\nrw=write\nsize=1m\n{options}\n")).unwrap().jobs.remove(0).fill;
    assert_eq!([fill(""), fill("zero_buffers")], [Fill::Random, Fill::Zero]);
    let made = |pattern: &[u8], compressible, duplicates, set, shared| {
        let pattern = Some(Piece::Bytes(pattern.to_vec())).filter(|_| !pattern.is_empty()).into_iter().collect();
        let segment = None;
        Fill::Made(Made { pattern, compressible, segment, duplicates, set, shared })
    };
    assert_eq!(fill("buffer_pattern=0xbeef"), made(&[0xbe, 0xef], 100, 0, None, false));
    assert_eq!(fill("refill_buffers"), made(&[], 0, 0, None, false));
    assert_eq!(fill("buffer_compress_percentage=40\nbuffer_pattern=1"), made(&[1], 40, 0, None, false));
    let set = "dedupe_percentage=30\ndedupe_mode=working_set\ndedupe_global=1";
    assert_eq!(fill(set), made(&[], 0, 30, Some(5), true));
}
