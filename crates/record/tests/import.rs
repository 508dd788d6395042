//! Traces of other programs: what their lines mean, and what is said of lines that mean nothing.

use proptest::prelude::*;
use record::{ImportError, Imported, Operation, TraceFormat, TraceText, Wanted, asked, import};
use units::{Bytes, Instant};

fn read(texts: &[(&str, &str)]) -> Result<Imported, ImportError> {
    let texts: Vec<TraceText> = texts.iter().map(|(name, text)| TraceText { name, text }).collect();
    import(&texts, None)
}

const BLKPARSE: &str = "\
  8,16   1      110     0.024600123  4122  Q   R 7864320 + 128 [reader]
  8,16   1      111     0.024601000  4122  G   R 7864320 + 128 [reader]
  8,32   1      115     0.024601500  4123  Q  WS 64 + 8 [writer]
  8,16   1      112     0.024602001  4122  D   R 7864320 + 128 [reader]
  8,32   1      113     0.024700000  4122  C   R 9 + 8 [0]
  8,16   0       93     1.037718845     0  C   R 7864320 + 128 [0]
  8,32   0       94     1.040000000     0  C  WS 64 + 8 [65531]
  8,32   0       95     1.040000000     0  C  FN [0]

CPU0 (8,16):
 Reads Queued:           1,       64KiB\t Writes Queued:           0,        0KiB
";

/// What begins as an event is one, or the trace is refused at its line, by whoever reads it.
#[test]
fn a_damaged_event_of_blkparse_is_refused() {
    let first = BLKPARSE.lines().next().unwrap();
    for damaged in ["8,16 1 2 nonsense", "8,16 1 2 0.000000001 1", "8,16 1 2 0.000000001 1 Q R x + 8 [a]"] {
        let text = format!("{first}\n{damaged}\n");
        let texts = [TraceText { name: "trace.txt", text: &text }];
        let errors = [asked(&texts, None).unwrap_err(), import(&texts, None).unwrap_err()];
        for error in errors.map(|error| error.to_string()) {
            assert!(error.starts_with("trace.txt:2: ") && error.contains("reads '8,0 1 110 "), "{error}");
        }
    }
}

/// Sums of such stamps would not fit, and one among sound ones is of no clock that the others are of.
#[test]
fn a_stamp_beyond_all_clocks_is_refused_with_its_line() {
    let event = BLKPARSE.lines().next().unwrap();
    let late = event.replace("0.024600123", "18446744073.709551615").replace(" Q ", " C ");
    let logged = "37, 13000000, 0, 65536, 4096, 0x0000, 24000000";
    for text in [
        format!("{event}\n{late}\n"),
        format!("{logged}\n99999999, 18446744073709551615, 0, 65536, 0, 0, 0\n"),
        format!("{logged}\n99999999, 1, 0, 65536, 0, 0, 18446744073709551615\n"),
        format!("{logged}\n18446744073709551615, 1, 0, 65536, 0, 0, 9\n"),
    ] {
        let error = read(&[("t", &text)]).unwrap_err().to_string();
        assert_eq!(
            error,
            "t:2: a stamp of 18446744073709551615 ns is damaged; up to 3000000000 s, which are 95 years, would do"
        );
        assert!(asked(&[TraceText { name: "t", text: &text }], None).is_err());
    }
}

/// Cut anywhere, an event of a request is no other event, and no event of nothing.
#[test]
fn an_event_of_blkparse_that_is_cut_off_is_refused() {
    for event in [
        "  8,16 1 112 0.024602001 4122 D R 7864320 + 128 [reader]",
        "  8,16 1 112 0.024602001 4122 Q WS 7864320 + 128 [my reader]",
        "  8,16 0 93 1.037718845 0 C DS 7864320 + 128 [0]",
    ] {
        let text = format!("{BLKPARSE}{event}\n");
        let first = BLKPARSE.lines().count();
        for end in event.find("7864320").unwrap()..event.find('[').unwrap() {
            let text = format!("{BLKPARSE}{}", &event[..end]);
            let error = read(&[("t", &text)]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("t:{}: ", first + 1)) && error.contains("reads '8,0 1 110 "), "{error}");
        }
        assert!(asked(&[TraceText { name: "t", text: &text }], None).is_ok());
    }
}

/// What stands between the requests of a sound text.
#[test]
fn events_of_blkparse_that_move_nothing_are_passed_over() {
    let events = "  8,16   1      200     2.000000000  4122  P   N [reader]
  8,16   1      201     2.000000001  4122  U   N [reader] 1
  8,16   1      202     2.000000002     0  m   N cfq4122S / complete rqnoidle 1
  8,16   1      203     2.000000003  4122  Q  FWS [jbd2/sdb1-8]
  8,16   1      204     2.000000004     0  C  WS 0 [0]
  8,16   1      205     2.000000005     0  C FWFS 1234 [0]
  8,16   1      206     2.000000006  4122  D   R 36 (12 00 00 00 24 00 ..) [smartctl]
  8,16   1      207     2.000000007     0  C   R (12 00 00 00 24 00 ..) [0]
  8,16   1      208     2.000000008  4122  I   R 36 (12 00 00 00 24 00 ..) [smartctl]
  8,16   1      209     2.000000009  4122  A   R 8 + 8 <- (8,17) 0
  8,16   1      210     2.000000010     0  D   N 0 [kworker/1:1H]
  8,16   1      211     2.000000011     0  C   N [0]
  8,16   1      212     2.000000012  4122  X   R 8 / 16 [reader]
  8,16   1      213     2.000000013  4122  Q   R 8 + 8 ( 1234) [reader]
";
    let text = BLKPARSE.replace("\nCPU0", &format!("{events}\nCPU0"));
    let (with, without) = (read(&[("t", &text)]).unwrap(), read(&[("t", BLKPARSE)]).unwrap());
    assert_eq!((with.rows, with.remarks), (without.rows, without.remarks));
}

#[test]
fn a_text_of_blkparse_is_read_event_by_event() {
    let imported = read(&[("trace.txt", BLKPARSE)]).unwrap();
    assert_eq!(imported.labels.devices, ["8,16", "8,32"]);
    assert_eq!(imported.unmatched, 1, "the completion at sector 9 began before the trace");
    let [first, second] = imported.rows[..] else { panic!("two rows: {imported:?}") };
    assert_eq!((first.operation, first.device, first.length), (Operation::Read, 0, 65_536));
    assert_eq!(first.offset, Bytes::new(7_864_320 * 512));
    let stamps = [first.intended, first.submitted, first.completed].map(Instant::as_nanos);
    assert_eq!(stamps, [24_600_123, 24_602_001, 1_037_718_845]);
    // Without a D the Q serves, as with remapping devices; 65531 is -EIO in 16 bits.
    assert_eq!((second.operation, second.errno, second.cpu), (Operation::Write, 5, 0));
    assert_eq!(second.submitted.as_nanos(), 24_601_500);
}

#[test]
fn logs_of_fio_are_a_device_each() {
    let logs = [
        ("a_clat.1.log", "37, 13000000, 0, 65536, 4096, 0x0000, 24000000\n"),
        ("b_clat.2.log", "30, 6000000, 1, 512, 0, 0, 24000000\n"),
    ];
    let imported = read(&logs).unwrap();
    assert_eq!(imported.labels.devices, ["a_clat.1", "b_clat.2"]);
    let completed: Vec<(u16, u64)> = imported.rows.iter().map(|row| (row.device, row.completed.as_nanos())).collect();
    assert_eq!(completed, [(1, 30_000_000), (0, 37_000_000)]);
    assert_eq!(imported.rows[1].service().as_nanos(), 13_000_000);
}

/// The stamps of a line are held against each other, so that a damaged one is not computed with.
#[test]
fn a_line_of_fio_whose_columns_disagree_is_refused() {
    let log = |seen: u64, wrong: &str| {
        let line = |n: u64| format!("{}, 9000000, 0, 4096, {n}, 0x4001, {}\n", seen + 10 * n + 9, n * 10_000_000);
        let mut lines: Vec<String> = (1..40).map(line).collect();
        if !wrong.is_empty() {
            lines[20] = format!("{}, {wrong}\n", seen + 219);
        }
        lines.concat()
    };
    let said = |text: &str| read(&[("t", text)]).unwrap_err().to_string();
    let disagree = said(&log(0, "9000000, 0, 4096, 0, 0, 5"));
    assert_eq!(
        disagree,
        "t:21: issued at 5 ns, and 9000000 ns until it was done, do not end at 219 ms, as the first column says; of a sound line they do within 100 ms"
    );
    assert!(said(&log(0, "9000000, 0, 4096, 0, zz, 210000000")).starts_with("t:21: 'zz' is no priority"));
    assert!(said(&log(0, "5, 0, 4096, 0, 0, 9999999999999")).starts_with("t:21: issued at 9999999999999 ns"));
    assert!(said(&log(0, "9000000, 0, 4096, 0, 0, 0")).starts_with("t:21: the request has no time of issue, 0 ns"));
    // Means of a tenth of a second, and total latencies, have none.
    assert!(
        said("100, 99000000, 0, 0, 0, 0, 0\n200, 98000000, 0, 0, 0, 0, 0\n").starts_with("t:1: the request has no")
    );
    // What began before the job's clock did is as unknown as what began before a trace.
    let ramped = read(&[("t", &format!("3, 9000000, 0, 4096, 0, 0, 0\n{}", log(0, "")))]).unwrap();
    assert_eq!((ramped.rows.len(), ramped.unmatched), (39, 1));
    // The first column may count from 1970, and a line may be written late.
    let epoch = 1_790_000_000_000;
    assert_eq!(read(&[("t", &log(epoch, ""))]).unwrap().rows.len(), 39);
    assert!(said(&log(epoch, "9000000, 0, 4096, 0, 0, 5")).starts_with("t:21: issued at 5 ns"));
    assert_eq!(read(&[("t", &log(0, "9000000, 0, 4096, 0, 0, 160000000"))]).unwrap().rows.len(), 39);
}

/// As files of one name in two folders are: what tells them apart is in the name.
#[test]
fn logs_of_one_name_are_devices_of_their_own() {
    let log = |issued: u64| format!("10, 9000000, 0, 4096, 0, 0, {issued}\n");
    let texts = [1, 2, 3].map(log);
    let names = ["x/d1/f_clat.1.log", "x/d2/f_clat.1.log", "g_clat.1.log"];
    let given: Vec<(&str, &str)> = names.into_iter().zip(texts.iter().map(String::as_str)).collect();
    let called = ["d1/f_clat.1", "d2/f_clat.1", "g_clat.1"];
    let imported = read(&given).unwrap();
    assert_eq!(imported.labels.devices, called);
    assert_eq!(imported.rows.iter().map(|row| row.device).collect::<Vec<_>>(), [0, 1, 2]);
    let given: Vec<TraceText> = given.iter().map(|(name, text)| TraceText { name, text }).collect();
    assert_eq!(asked(&given, None).unwrap().devices, called);
    // Apart in their beginning or their ending only.
    for (names, called) in [
        (["f.log", "d/f.log"], ["f.log", "d/f"]),
        (["f.1", "f.2"], ["f.1", "f.2"]),
        (["/a/f.log", "/b/f.log"], ["a/f", "b/f"]),
        (["a/.log", "b/.log"], ["a/.log", "b/.log"]),
    ] {
        let imported = read(&[(names[0], &texts[0]), (names[1], &texts[1])]).unwrap();
        assert_eq!(imported.labels.devices, called);
    }
}

#[test]
fn completions_alone_are_no_requests() {
    let done: String = BLKPARSE.lines().filter(|line| line.contains("  C ")).map(|line| format!("{line}\n")).collect();
    assert_eq!(
        read(&[("t", &done)]).unwrap_err().to_string(),
        "the trace says when 3 requests were done, and when none of them was made or issued: let blktrace trace Q or D (-a queue, -a issue), too"
    );
}

#[test]
fn a_trace_that_is_given_twice_is_refused() {
    let log = "10, 9000000, 0, 4096, 0, 0, 1\n";
    for (first, second, text) in [("f.log", "./f.log", log), ("f.log", "f.log", log), ("t", "u", BLKPARSE)] {
        let error = read(&[(first, text), (second, text)]).unwrap_err().to_string();
        let said = "holds what {} holds, byte for byte, or is the same file; give each trace once";
        assert_eq!(error, format!("{second} {}", said.replace("{}", first)));
    }
}

/// One job's logs, as a glob gives them, are one disk under several names.
#[test]
fn of_the_logs_of_a_job_one_is_taken() {
    let clat = "13, 13000000, 0, 65536, 0, 0, 6000\n23, 10000000, 0, 65536, 65536, 0, 13160872\n";
    let lat = clat.replace("13000000", "13006000");
    let said = |texts: &[(&str, &str)]| read(texts).unwrap_err().to_string();
    assert_eq!(
        said(&[("d/job_bw.1.log", &lat), ("d/job_clat.1.log", clat)]),
        "d/job_bw.1.log is one of fio's logs of bandwidth, and does not say how long requests took; give d/job_clat.1.log"
    );
    assert!(said(&[("job_slat.2.log", &lat)]).contains("logs of submission"));
    assert!(said(&[("iops.1.log", &lat)]).ends_with("give clat.1.log"));
    let once = "holds the requests of";
    for texts in [
        [("job_clat.1.log", clat), ("job_lat.1.log", lat.as_str())],
        [("job_lat.1.log", lat.as_str()), ("job_clat.1.log", clat)],
        [("a.log", clat), ("b.log", lat.as_str())],
    ] {
        assert!(said(&texts).contains(once), "{}", said(&texts));
    }
    // Alone it is what there is; and other jobs' requests are others.
    assert_eq!(read(&[("job_lat.1.log", &lat)]).unwrap().rows.len(), 2);
    let other = clat.replace("13160872", "13160873");
    assert_eq!(read(&[("a.log", clat), ("b.log", &other)]).unwrap().labels.devices, ["a", "b"]);
}

/// Requests of a volume and of the disk below it, with events that say so or without them.
fn stacked(mapped: bool) -> String {
    let mut text = String::new();
    for request in 0..40 {
        let mut event = |micros: u64, device: &str, what: &str| {
            let at = format!("{}.{:09}", request / 10, request % 10 * 100_000_000 + micros * 1000);
            text.push_str(&format!("  {device} 0 1 {at} 77 {what}\n"));
        };
        let sector = request * 128;
        event(0, "253,0", &format!("Q R {sector} + 128 [x]"));
        if mapped {
            event(1, "8,16", &format!("A R {} + 128 <- (253,0) {sector}", sector + 2048));
        }
        event(2, "8,16", &format!("Q R {} + 128 [x]", sector + 2048));
        event(4, "8,16", &format!("D R {} + 128 [x]", sector + 2048));
        // The third disk is of its own time.
        event(5, "8,32", &format!("D R {sector} + 128 [x]"));
        event(9000 + request * 10, "8,16", &format!("C R {} + 128 [0]", sector + 2048));
        event(9004 + request * 10, "253,0", &format!("C R {sector} + 128 [0]"));
        event(11000, "8,32", &format!("C R {sector} + 128 [0]"));
    }
    text
}

#[test]
fn a_volume_is_left_out_where_its_disk_is_traced() {
    let imported = read(&[("t", &stacked(true))]).unwrap();
    assert_eq!(imported.labels.devices, ["8,16", "8,32"]);
    assert_eq!(imported.rows.iter().filter(|row| row.device == 0).count(), 40);
    assert_eq!(imported.rows.len(), 80);
    assert_eq!(
        imported.remarks,
        ["253,0 is left out: its requests are those of 8,16, to which events A map them"],
        "the disks that are left are two"
    );
    // In files of their own, and where nothing of the disk itself is traced.
    let of = |device: &str| {
        let text = stacked(true);
        text.lines().filter(|line| line.trim_start().starts_with(device)).map(|line| format!("{line}\n")).collect()
    };
    let [volume, disk]: [String; 2] = ["253,0", "8,16"].map(of);
    let imported = read(&[("dm", &volume), ("sd", &disk)]).unwrap();
    assert_eq!((imported.labels.devices.len(), imported.rows.len()), (1, 40));
    assert!(imported.remarks[0].contains("parts of one output of blkparse"), "{:?}", imported.remarks);
    let only = format!("{volume}  8,16 0 1 9.000000000 77 A R 1 + 8 <- (253,0) 2\n");
    assert_eq!(read(&[("dm", &only)]).unwrap().labels.devices, ["253,0"]);
}

#[test]
fn devices_whose_requests_are_one_anothers_are_remarked() {
    let imported = read(&[("t", &stacked(false))]).unwrap();
    assert_eq!((imported.labels.devices.len(), imported.rows.len()), (3, 120));
    let [remark] = &imported.remarks[..] else { panic!("one remark: {:?}", imported.remarks) };
    assert!(remark.starts_with("nearly every request of 253,0 begins and ends within microseconds of one of 8,16"));
}

#[test]
fn what_is_no_trace_is_refused_with_its_line() {
    let said = |texts: &[(&str, &str)]| read(texts).unwrap_err().to_string();
    assert_eq!(
        said(&[("x", "hello\n")]),
        "x is in no format that can be told from its text; say which with --format: blkparse, fio-log, fio-iolog, msr, spc or disksim"
    );
    let line = BLKPARSE.lines().next().unwrap();
    assert_eq!(
        said(&[("t", line)]),
        "t holds no completed requests: it has no events of action C; let blktrace trace them (-a complete), too"
    );
    let cut = format!("{line}\n  8,16 1 5 0.5 4122 C R 1 + 1 [0]");
    assert!(said(&[("t", &cut)]).starts_with("t:2: the fourth word is no time in seconds"), "{}", said(&[("t", &cut)]));
    let back = BLKPARSE.replace("1.040000000", "1.000000000");
    assert!(
        said(&[("t", &back)])
            .starts_with("t:7: the completion at 1000000000 ns lies before the one above it, at 1037718845 ns")
    );
    assert!(said(&[("log", "0, 227729, 0, 4096, 61440, 0x0000\n")]).contains("log_issue_time=1"));
    assert!(said(&[("log", "9, 1, 0, 1, 1, 0, 1\n8, 1, 0, 1, 1, 0, 1\n")]).starts_with("log:2: the completion"));
    assert!(said(&[("log", "9, 1, 3, 1, 1, 0, 1\n")]).starts_with("log:1: '3' is no direction"));
    assert_eq!(
        said(&[("t", BLKPARSE), ("l", "9, 1, 0, 1, 1, 0, 1")]),
        "l is fio-log and t is blkparse; give files of one format at a time"
    );
    assert_eq!(
        "xdd".parse::<TraceFormat>().unwrap_err().to_string(),
        "'xdd' is no format of traces; there are blkparse, fio-log, fio-iolog, msr, spc and disksim"
    );
}

/// Requests on some devices, one after the other on each.
fn requests() -> impl Strategy<Value = Vec<(u16, u64, u32, u64, u64)>> {
    proptest::collection::vec((0u16..4, 0u64..1 << 40, 1u32..2048, 1u64..1 << 33, 0u64..1 << 33), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    /// Written as blkparse prints it and read again, every request is there with its stamps.
    #[test]
    fn a_written_text_of_blkparse_reads_back(requests in requests()) {
        let mut events = Vec::new();
        let mut at = [0u64; 4];
        for (device, sector, sectors, takes, waits) in &requests {
            let issued = at[usize::from(*device)] + waits;
            let completed = issued + takes;
            at[usize::from(*device)] = completed;
            events.push((issued, *device, 'D', *sector, *sectors));
            events.push((completed, *device, 'C', *sector, *sectors));
        }
        events.sort();
        let line = |(at, device, action, sector, sectors): &(u64, u16, char, u64, u32)| {
            format!("  8,{device} 0 1 {:5}.{:09} 77 {action} R {sector} + {sectors} [0]\n", at / 1_000_000_000, at % 1_000_000_000)
        };
        let text: String = events.iter().map(line).collect();
        let imported = read(&[("t", &text)]).unwrap();
        prop_assert_eq!(imported.rows.len(), requests.len());
        prop_assert!(imported.rows.is_sorted_by_key(|row| row.completed));
        let service = |rows: &[u64]| rows.iter().sum::<u64>();
        let read: Vec<u64> = imported.rows.iter().map(|row| row.service().as_nanos()).collect();
        let written: Vec<u64> = requests.iter().map(|request| request.3).collect();
        prop_assert_eq!(service(&read), service(&written));
    }

    /// Any text, and any text of lines that look like a trace's, gives rows whose stamps are in order, or a sentence.
    #[test]
    fn no_text_breaks_the_readers(text in "(( ?8,[0-9]{1,2} [0-9] [0-9]{1,3} [0-9]{1,3}\\.[0-9]{8,9} [0-9] [QDCX] [RWDF]{0,2} [0-9]{1,20} [+x] [0-9]{1,10} \\[[0-9]{0,5}\\])?\n){0,12}|([0-9]{1,20}(, ?[0-9x]{1,20}){0,8}\n){0,6}|\\PC{0,60}") {
        use TraceFormat::{Blkparse, DiskSim, FioIolog, FioLog, Msr, Spc};
        for format in [None, Some(Blkparse), Some(FioLog), Some(FioIolog), Some(Msr), Some(Spc), Some(DiskSim)] {
            match asked(&[TraceText { name: "t", text: &text }], format) {
                Ok(asked) => {
                    prop_assert!(asked.requests.is_sorted_by_key(|wanted| wanted.at));
                    let longest = |wanted: &Wanted| Bytes::gib(if wanted.operation == Operation::Discard { 2 } else { 1 });
                    let bounded = |wanted: &Wanted| wanted.length <= longest(wanted) && wanted.offset <= Bytes::new(1 << 62);
                    prop_assert!(asked.requests.iter().all(bounded));
                }
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
            match import(&[TraceText { name: "t", text: &text }], format) {
                Ok(imported) => {
                    prop_assert!(imported.rows.iter().all(|row| row.intended <= row.submitted && row.submitted <= row.completed));
                }
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }
}

#[test]
fn two_requests_of_one_sector_under_way_are_two() {
    let text = "\
  8,16   1        1     0.000000000  1294  Q   R 100 + 8 [fio]
  8,16   1        2     0.000001000  1294  D   R 100 + 8 [fio]
  8,16   0        1     0.000100000  1295  Q   R 100 + 8 [fio]
  8,16   0        2     0.000101000  1295  D   R 100 + 8 [fio]
  8,16   1        3     0.000500000     0  C   R 100 + 8 [0]
  8,16   0        3     0.000700000     0  C   R 100 + 8 [0]
";
    let times = |text: &str| {
        let imported = read(&[("t", text)]).unwrap();
        assert_eq!(imported.unmatched, 0);
        let nanos = |row: &record::Row| (row.wait().as_nanos(), row.service().as_nanos(), row.depth);
        imported.rows.iter().map(nanos).collect::<Vec<_>>()
    };
    assert_eq!(times(text), [(1000, 499_000, 1), (1000, 599_000, 2)]);
    // The second is longer, and is done first: lengths tell which is which.
    let longer = text.replacen("100 + 8", "100 + 16", 4).replacen("100 + 16", "100 + 8", 2);
    let swapped = longer.replacen("C   R 100 + 8", "C   R 100 + 16", 1);
    assert_eq!(times(&swapped), [(1000, 399_000, 2), (1000, 699_000, 1)]);
    // A device that issues nothing: from when they were made.
    let made: String = text.lines().filter(|line| !line.contains("  D ")).map(|line| format!("{line}\n")).collect();
    assert_eq!(times(&made), [(0, 500_000, 0), (0, 600_000, 0)]);
}

#[test]
fn what_was_merged_leaves_nothing_for_a_later_request_of_its_sector() {
    let text = "\
  8,16   1  1     0.000000000  7  Q   W 100 + 8 [a]
  8,16   1  2     0.000000500  7  G   W 100 + 8 [a]
  8,16   1  3     0.000001000  7  Q   W 108 + 8 [a]
  8,16   1  4     0.000001500  7  M   W 108 + 8 [a]
  8,16   1  5     0.000002000  7  D   W 100 + 16 [a]
  8,16   1  6     0.000005000  0  C   W 100 + 16 [0]
  8,16   1  7     9.000000000  7  Q   W 108 + 8 [a]
  8,16   1  8     9.000001000  7  D   W 108 + 8 [a]
  8,16   1  9     9.000003000  0  C   W 108 + 8 [0]
";
    let waits = |text: &str| {
        let imported = read(&[("t", text)]).unwrap();
        imported.rows.iter().map(|row| (row.wait().as_nanos(), row.service().as_nanos())).collect::<Vec<_>>()
    };
    assert_eq!(waits(text), [(2000, 3000), (1000, 2000)]);
    // The same if merges were not traced: what was made last is what is issued.
    let bare: String = text
        .lines()
        .filter(|line| !line.contains(" M ") && !line.contains(" G "))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(waits(&bare), [(2000, 3000), (1000, 2000)]);
    // A request that the driver gave back counts from when it got it again.
    let again = text.replacen("  8,16   1  6 ", "  8,16   1  5     0.000003000  0  R   W 100 + 16 [0]\n  8,16   1  5     0.000004000  7  D   W 100 + 16 [a]\n  8,16   1  6 ", 1);
    assert_eq!(waits(&again), [(4000, 1000), (1000, 2000)]);
}

const MSR: &str =
    "128166372003061629,hm,1,Read,383496192,32768,113736\n128166372016382155,hm,1,Write,310983168,4096,23736\n";

#[test]
fn a_trace_of_msr_says_how_long_its_requests_took_with_or_without_a_header() {
    let header = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n";
    let quoted = MSR.replace("hm", "\"hm\"").replace("Read", "\"Read\"");
    for text in
        [MSR.to_owned(), format!("{header}{MSR}"), format!("\u{feff}{header}{MSR}").replace('\n', "\r\n"), quoted]
    {
        let imported = read(&[("t", &text)]).unwrap();
        let seen: Vec<_> =
            imported.rows.iter().map(|row| (row.submitted.as_nanos(), row.service().as_nanos())).collect();
        assert_eq!(seen, [(0, 11_373_600), (1_332_052_600, 2_373_600)], "{text}");
        assert_eq!(
            (&imported.labels.devices[..], imported.rows[1].operation),
            (&["hm_1".to_owned()][..], Operation::Write)
        );
        assert_eq!(asked(&[TraceText { name: "t", text: &text }], None).unwrap().requests.len(), 2, "{text}");
    }
    let damaged = MSR.replace(",23736", ",x");
    let error = read(&[("t", &damaged)]).unwrap_err().to_string();
    assert!(error.starts_with("t:2: the response time is no number"), "{error}");
}

#[test]
fn files_of_one_msr_trace_have_one_clock_and_their_hosts_disks_are_told_apart() {
    let other = "128166372003061639,prn,1,Read,0,512,10\n";
    let imported = read(&[("a", MSR), ("b", other)]).unwrap();
    let begins: Vec<_> = imported.rows.iter().map(|row| row.submitted.as_nanos()).collect();
    assert_eq!((begins, imported.labels.devices.len()), (vec![1000, 0, 1_332_052_600], 2));
}

fn asks(text: &str) -> (Vec<(u64, u64, u64)>, record::Asked) {
    let asked = asked(&[TraceText { name: "t", text }], None).unwrap();
    let of = |wanted: &Wanted| (wanted.at.as_nanos() / 1000, wanted.offset.get(), wanted.length.get());
    (asked.requests.iter().map(of).collect(), asked)
}

#[test]
fn a_name_in_an_iolog_may_hold_blanks_and_be_an_action() {
    let text = "fio version 2 iolog\n/data/my file add\n/data/my file open\n/data/my file read 0 4096\n/data/read 1 2 write 8 512\n/data/my file sync\n/data/my file close\n";
    let (requests, asked) = asks(text);
    assert_eq!(requests, [(0, 0, 4096), (0, 8, 512), (0, 0, 0)]);
    assert_eq!(asked.devices, ["/data/my file", "/data/read 1 2"]);
    let timed = asks("fio version 3 iolog\n5 /a  b add\n7 /a  b trim 0 4096\n");
    assert_eq!((timed.0, &timed.1.devices[..]), (vec![(0, 0, 4096)], &["/a  b".to_owned()][..]));
}

#[test]
fn an_iolog_whose_clock_begins_anew_keeps_its_order_and_that_is_said() {
    let text = "fio version 3 iolog\n0 /d add\n20 /d write 4096 512\n1000001 /d read 8192 512\n1 /d read 12288 512\n900 /d write 16384 512\n1 /d read 20480 512\n";
    let (requests, asked) = asks(text);
    assert_eq!(
        requests.iter().map(|(at, offset, _)| (*at, *offset)).collect::<Vec<_>>(),
        [(0, 4096), (999_981, 8192), (999_982, 12_288), (1_000_881, 16_384), (1_000_882, 20_480)]
    );
    assert!(
        asked.remarks[0].starts_with("t: the clock begins anew at line 5, and 1 times more; "),
        "{:?}",
        asked.remarks
    );
    assert!(asks("fio version 3 iolog\n0 /d add\n20 /d write 4096 512\n20 /d read 0 512\n").1.remarks.is_empty());
}

#[test]
fn a_table_that_is_put_in_order_says_so() {
    let (requests, asked) = asks("2.0 0 8 8 1\n1.0 0 16 8 1\n3.0 0 24 8 1\n");
    assert_eq!(requests[0].1, 8192);
    assert!(
        asked.remarks[0].starts_with("t: 1 requests are earlier than one above them, by up to 1 ms (that at 1 ms"),
        "{:?}",
        asked.remarks
    );
}

#[test]
fn a_trim_may_be_of_a_whole_disk() {
    let (requests, _) = asks("fio version 3 iolog\n0 /d add\n2 /d trim 0 2147483648\n9 /d write 0 4096\n");
    assert_eq!(requests, [(0, 0, 1 << 31), (7, 0, 4096)]);
    // In parts that a row can count.
    let (requests, _) = asks("fio version 3 iolog\n0 /d add\n2 /d trim 512 5368709120\n");
    let gib = 1u64 << 30;
    assert_eq!(requests, [(0, 512, 2 * gib), (0, 512 + 2 * gib, 2 * gib), (0, 512 + 4 * gib, gib)]);
    let long = "fio version 3 iolog\n0 /d add\n2 /d write 0 2147483648\n";
    assert!(asked(&[TraceText { name: "t", text: long }], None).is_err());
}
