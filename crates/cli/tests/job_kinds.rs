//! fio's job files, kind by kind: what is asked, of which files, and where it lies. Where fio is installed, it is the
//! judge.

mod common;

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use common::{Desk, Loop, Said, skip};
use serde_json::Value;

/// By job: its name, and requests and bytes of reads and of writes.
type Moved = Vec<(String, [(u64, u64); 2])>;

fn moved(document: &Value) -> Moved {
    let of =
        |job: &Value, side: &str| (job[side]["total_ios"].as_u64().unwrap(), job[side]["io_bytes"].as_u64().unwrap());
    let jobs = document["jobs"].as_array().unwrap().iter();
    jobs.map(|job| (job["jobname"].as_str().unwrap().to_owned(), ["read", "write"].map(|side| of(job, side)))).collect()
}

/// Files below a directory, with their sizes; those of the run and of fio's verification left out.
fn files(directory: &Path) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(at) = open.pop() {
        for entry in at.read_dir().unwrap().map(|entry| entry.unwrap()) {
            let name = entry.path().strip_prefix(directory).unwrap().to_string_lossy().into_owned();
            let kept = ["job.fio", "runs", "load.toml"].contains(&name.as_str()) || name.ends_with("verify.state");
            match entry.file_type().unwrap().is_dir() {
                true if !kept => open.push(entry.path()),
                false if !kept => {
                    found.insert(name, entry.metadata().unwrap().len());
                }
                _ => {}
            }
        }
    }
    found
}

fn job(text: &str) -> Desk {
    let desk = Desk::new("");
    // fio takes no directory that is not there.
    ["left", "right"].iter().for_each(|name| std::fs::create_dir(desk.path().join(name)).unwrap());
    desk.write("job.fio", text);
    desk
}

fn ours(text: &str) -> (Moved, BTreeMap<String, u64>) {
    let desk = job(text);
    let said = desk.arraylab(&["run", "job.fio", "--format", "fio-json"]);
    assert_eq!(said.code, 0, "{text}\n{}", said.stderr);
    (moved(&said.json()), files(desk.path()))
}

/// What fio makes of a job; nothing where it is not installed.
fn theirs(text: &str) -> Option<(Moved, BTreeMap<String, u64>)> {
    let desk = job(text);
    let mut fio = Command::new("fio");
    let output = fio.current_dir(desk.path()).args(["--output-format=json", "job.fio"]).output().ok()?;
    let start = output.stdout.iter().position(|byte| *byte == b'{').unwrap_or_default();
    let document = serde_json::from_slice(&output.stdout[start..]);
    let document: Value = document.unwrap_or_else(|error| panic!("{text}: {error}: {output:?}"));
    Some((moved(&document), files(desk.path())))
}

/// Jobs whose every number follows from the text, in our words.
const SAME: &[&str] = &[
    // Which job and which file.
    "[global]\nname=weekly\nsize=32k\n[one]\nrw=write\n[two]\nname=second\nrw=randread\n",
    "[j]\ndirectory=left:right\nsize=32k\nrw=write\nnumjobs=3\n",
    "[j]\nfilename_format=f.$jobname-$jobnum-$filenum.bin\nnrfiles=2\nsize=64k\nrw=write\nnumjobs=2\n",
    "[j]\nfilename=a\\:b:c\nsize=64k\nrw=write\n",
    "[in/side]\nsize=16k\nrw=write\n",
    "[first]\nsize=16k\nrw=write\n[then]\nsize=16k\nrw=write\nwait_for=first\n",
    // Values by direction.
    "[j]\nioengine=null\nsize=1m\nrw=read\nbs=8k,\n",
    "[j]\nioengine=null\nsize=1m\nrw=write\nbs=,16k\n",
    "[global]\nbs=32k\n[j]\nioengine=null\nsize=1m\nrw=read\nbs=,16k\n",
    "[j]\nioengine=null\nsize=1m\nrw=randread\nrandom_distribution=zoned_abs:50/256k:50/768k\n",
    // What is written and read.
    "[j]\nrw=write\nsize=512k\nverify=crc32c\n",
    "[j]\nrw=write\nsize=512k\nverify=crc32c\nverify_backlog=16\n",
    "[j]\nrw=randwrite\nbs=8k\nsize=512k\nverify=md5\nioengine=libaio\niodepth=8\n",
    "[j]\nrw=write\nsize=512k\nverify=crc32c\nverify_backlog=0\nloops=3\n",
    "[j]\nrw=randwrite\nsize=512k\nverify=crc32c\nnumber_ios=50\n",
    "[j]\nrw=write\nsize=512k\nverify=meta\nioengine=libaio\niodepth=16\niodepth_low=4\niodepth_batch=8\n",
    "[j]\nioengine=null\nsize=1m\nrw=randread\niodepth=16\niodepth_batch_complete=8\n",
    "[j]\ncreate_only=1\nrw=write\nsize=256k\n",
    "[j]\nioengine=null\nsize=4m\nrw=read:512k\n",
    // Steps that end before the end of the file, at it, and behind it, with laps and with more than the file to move.
    "[j]\nsize=64k\nrw=read:4k\nbs=8k\n",
    "[j]\nsize=72k\nrw=write:8k\nbs=8k\n",
    "[j]\nfilesize=1m\nsize=64k\nrw=read:4k\nbs=8k\n",
    "[j]\nfilesize=1m\nsize=64k\nrw=read:8k\nbs=8k\n",
    "[j]\nsize=60k\nrw=write:4k\nbs=8k\nloops=2\n",
    "[j]\nsize=64k\nio_size=200k\nrw=read:4k\nbs=8k\n",
    "[j]\nsize=68k\nrw=read:8k\nbs=8k\nloops=3\n",
    "[j]\nioengine=null\nsize=1m\nbs=4k\nrw=read:-8k\n",
    "[j]\nioengine=null\nsize=1m\nio_size=3m\nrw=read\noffset=512k\n",
    "[j]\nioengine=null\nfilesize=64k\nnrfiles=3\nrw=read\n",
    // The last block, where the file goes on behind it and where it does not; a share of a file that is none.
    "[j]\nfilesize=100k\nsize=33k\nrw=randread\nbs=4k\n",
    "[j]\nfilesize=64k\nsize=33k\nrw=randread\nbs=4k\nloops=3\n",
    "[j]\nioengine=null\nfilesize=1m\noffset=960k\nsize=128k\nrw=read\nbs=4k\n",
    "[j]\nfilesize=100k\nsize=33k\noffset=4k\nrw=write\nbs=4k\n",
    "[j]\nsize=33k\nrw=read\nbs=4k\n",
    "[j]\nioengine=null\nsize=1m\noffset=25%\nrw=read\nbs=4k\n",
    "[j]\nioengine=null\nsize=64k\nrw=randread\nsoftrandommap=1\n",
    // A size beyond the files', of files that are made, of none, and of one that is longer.
    "[j]\nfilesize=64k\nsize=200k\nrw=write\nbs=4k\n",
    "[j]\nfilesize=64k\nnrfiles=2\nsize=200k\nrw=write\nbs=4k\n",
    "[j]\nioengine=null\nfilesize=64k\nsize=200k\nrw=read\nbs=4k\n",
    "[j]\nfilesize=64k\nsize=200k\nloops=2\nrw=randread\nbs=4k\n",
    "[long]\nrw=write\nfilename=one\nsize=1m\n[j]\nstonewall\nfilename=one\nfilesize=64k\noffset=32k\nrw=read\nbs=4k\n",
    "[j]\nioengine=null\nsize=4m\nbs=16k\nzonemode=strided\nzonesize=64k\nzonerange=128k\nzoneskip=64k\n",
    "[global]\nsize=256k\n[a]\nrw=write\nexitall\nexit_what=all\n[b]\nstonewall\nioengine=null\n",
    "[global]\nfilename=shared\nsize=2m\nbs=4k\n[on]\nrw=read\nflow=2\n[back]\nrw=read:-8k\nflow=2\n",
    "[j]\nrw=write\nsize=64k\nbs=8k\nbuffer_pattern=0xdeadfac\nnumjobs=2\n",
    // Sizes of any byte.
    "[j]\nrw=write\nbs=2300\nsize=64k\nfdatasync=4\nioengine=sync\n",
    "[j]\nrw=read\nbs=777\nsize=10001\n",
    "[j]\nrw=randwrite\nbs=100\nsize=400\n",
    "[j]\nrw=write\nbs=4k\nsize=10000\n",
    // Reading.
    "\r\n[j]\r\nioengine=null\r\nsize=$pagesize*4\r\nnumjobs=$ncpus ; all of them\r\n",
    "[j]\nioengine=null\nsize=0x10000\nbs=0x1000\nkb_base=1000\n",
];

#[test]
fn what_is_asked_and_which_files_are_made_is_what_fio_asks_and_makes() {
    if theirs("[j]\nioengine=null\nsize=4k\n").is_none() {
        return skip("fio is not installed");
    }
    for text in SAME {
        assert_eq!(Some(ours(text)), theirs(text), "{text}");
    }
}

/// Without fio, the numbers that it gave when these were written.
#[test]
fn every_block_is_written_and_read_once_whatever_the_backlog() {
    for backlog in ["", "verify_backlog=1\n", "verify_backlog=32\n", "verify_backlog=500\n"] {
        let (moved, _) = ours(&format!("[j]\nrw=randwrite\nbs=4k\nsize=1m\nverify=md5\n{backlog}"));
        assert_eq!(moved[0].1, [(256, 1 << 20), (256, 1 << 20)], "{backlog}");
    }
}

/// By direction: what a job of 1 MiB that verifies came to, and for how many milliseconds.
fn verified(options: &str) -> [(u64, u64); 2] {
    let text = format!("[j]\nbs=4k\nsize=1m\nverify=crc32c\n{options}");
    let said = job(&text).arraylab(&["run", "job.fio", "--format", "fio-json"]);
    assert_eq!(said.code, 0, "{text}{}", said.stderr);
    let document = said.json();
    let of = |side: &str, value: &str| document["jobs"][0][side][value].as_u64().unwrap();
    ["read", "write"].map(|side| (of(side, "total_ios"), of(side, "runtime")))
}

/// Besides what it reads anyhow, a mixed job reads again what it wrote; each direction has the time that it took.
#[test]
fn what_a_mixed_job_wrote_is_read_again_in_the_time_of_the_reads() {
    for backlog in ["", "verify_backlog=8\n"] {
        let [(reads, reading), (writes, writing)] = verified(&format!("rw=randrw\n{backlog}"));
        assert!((90..=166).contains(&writes) && reads == 256, "{backlog}: {reads} and {writes}");
        assert!(reading >= writing, "{backlog}: {reading} and {writing} ms");
    }
    // Writes first, at a rate that makes them a quarter of a second, then reads, which nothing holds back.
    let [(reads, reading), (writes, writing)] = verified("rw=write\nnumber_ios=50\nrate_iops=200\n");
    assert_eq!((reads, writes), (50, 50));
    assert!(writing >= 200 && reading < writing, "{reading} and {writing} ms");
}

/// Where time alone ends a job, it reads what it wrote before it writes the file again, as fio does.
#[test]
fn a_job_that_goes_on_verifies_each_lap() {
    let [(reads, _), (writes, _)] = verified("rw=write\ntime_based\nruntime=1\n");
    assert!(reads > 256 && (reads..=reads + 256 + 1).contains(&writes), "{reads} and {writes}");
}

/// Of writes in one place only the last is there to be read.
#[test]
fn what_was_written_over_is_not_read_again() {
    let [(reads, _), (writes, _)] = verified("rw=randwrite\nnorandommap\n");
    // 256 draws of 256 blocks leave 1 - 1/e of them.
    assert!(writes == 256 && (135..=190).contains(&reads), "{reads} and {writes}");
}

/// A request and a rate that lets the next one come after the end: fio's runtime is that of the job.
#[test]
fn a_job_that_is_held_back_lasts_until_its_end() {
    let text = "[j]\nioengine=null\nsize=1m\nbs=4k\nrate=1250\nruntime=1\n";
    let said = job(text).arraylab(&["run", "job.fio", "--format", "fio-json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let read = said.json()["jobs"][0]["read"].clone();
    assert_eq!(read["total_ios"], 1);
    assert!((500..=1100).contains(&read["runtime"].as_u64().unwrap()), "{}", read["runtime"]);
}

/// io_submit(2) carries out what goes through the page cache, and the C library's POSIX requests of one file follow
/// each other: the queue is as deep as it is asked to be, and one request is under way.
#[test]
fn engines_that_make_one_request_at_a_time_have_their_queue_wait() {
    let desk = Desk::new("");
    let backing = desk.file("backing", 16 << 20);
    let Some(device) = Loop::over(&backing) else { return };
    let mut rates = BTreeMap::new();
    for (name, options) in [
        ("alone", "ioengine=psync"),
        ("aio", "ioengine=libaio\niodepth=16"),
        ("posix", "ioengine=posixaio\niodepth=16\ndirect=1"),
    ] {
        let text = format!("[j]\nfilename={}\nrw=randread\nbs=4k\ntime_based\nruntime=1\n{options}\n", device.node);
        desk.write("job.fio", &text);
        let said = desk.arraylab(&["run", "job.fio", "--format", "fio-json"]);
        assert_eq!(said.code, 0, "{text}{}", said.stderr);
        let read = said.json()["jobs"][0]["read"].clone();
        let mean = |time: &str| read[time]["mean"].as_f64().unwrap();
        rates.insert(name, (read["iops"].as_f64().unwrap(), [mean("slat_ns"), mean("clat_ns"), mean("lat_ns")]));
    }
    let (_, [_, _, alone]) = rates["alone"];
    let (rate, [slat, clat, lat]) = rates["aio"];
    // Sixteen wait, by Little's law, and the call itself takes a sixteenth of the time.
    assert!((lat * rate / 1e9 / 16.0 - 1.0).abs() < 0.1, "{rates:?}");
    assert!((0.02..0.2).contains(&(slat / lat)) && (slat + clat - lat).abs() < lat / 100.0, "{rates:?}");
    assert!(lat > 4.0 * alone, "{rates:?}");
    let (rate, [slat, clat, lat]) = rates["posix"];
    assert!((lat * rate / 1e9 / 16.0 - 1.0).abs() < 0.1 && slat == 0.0 && clat == lat, "{rates:?}");
}

#[test]
fn each_direction_keeps_its_own_rate() {
    let text = "[j]\nioengine=null\nsize=1g\nbs=4k\nrw=randrw\nrwmixread=90\ntime_based\nruntime=2\n";
    let (both, _) = ours(&format!("{text}rate_iops=1000,500\n"));
    let [(reads, _), (writes, _)] = both[0].1;
    assert!((1990..=2010).contains(&reads) && (990..=1010).contains(&writes), "{reads} reads, {writes} writes");
    let (one, _) = ours(&format!("{text}rate=,2m\n"));
    let [(reads, _), (writes, _)] = one[0].1;
    assert!((1010..=1040).contains(&writes) && reads > 20_000, "{reads} reads, {writes} writes");
}

#[test]
fn a_delay_and_a_ramp_come_before_what_counts() {
    let (moved, _) = ours(
        "[j]\nioengine=null\nsize=1g\nbs=4k\nrate_iops=1000\nstartdelay=500ms\nramp_time=500ms\nruntime=1\ntime_based\n",
    );
    assert!((990..=1010).contains(&moved[0].1[0].0), "{moved:?}");
    // What the ramp moves is part of the size: half of it is left to be counted.
    let (moved, _) = ours("[j]\nioengine=null\nsize=8m\nbs=4k\nrate=8m\nramp_time=500ms\n");
    assert!((1000..=1050).contains(&moved[0].1[0].0), "{moved:?}");
}

/// The offsets of a run's requests in order: reads, and writes.
fn offsets(options: &str) -> [Vec<u64>; 2] {
    let desk = job(&format!("[j]\nioengine=null\nsize=1m\nbs=4k\n{options}\n"));
    let said = desk.arraylab(&["run", "job.fio", "--json"]);
    assert_eq!(said.code, 0, "{options}: {}", said.stderr);
    let run = said.json()["run"].as_str().unwrap().to_owned();
    let (folder, _) = record::RunFolder::open(&desk.path().join(run)).unwrap();
    let mut rows = Vec::new();
    let (mut records, _) = folder.records().unwrap();
    let taken: Result<(), record::FolderError> = records.visit(|some| {
        rows.extend_from_slice(some);
        Ok(())
    });
    taken.unwrap();
    let of = |read: bool| {
        let rows = rows.iter().filter(|row| (row.operation == device::Operation::Read) == read);
        rows.map(|row| row.offset.get()).collect()
    };
    [of(true), of(false)]
}

#[test]
fn reads_and_writes_have_each_a_place_of_their_own() {
    let in_order = |offsets: &[u64]| offsets.windows(2).all(|two| two[1] == two[0] + 4096 || two[1] == 0);
    let [reads, writes] = offsets("rw=randrw\npercentage_random=100,0");
    assert!(in_order(&writes) && !in_order(&reads));
    let [reads, writes] = offsets("rw=rw");
    assert!(in_order(&reads) && in_order(&writes) && reads[0] == 0 && writes[0] == 0);
}

/// fio's map of blocks: no block comes twice, so that requests are cut short toward the end, and there are more of them
/// than uncut ones would be.
#[test]
fn a_lap_of_several_sizes_has_each_block_once() {
    for direction in ["randread", "randrw"] {
        let text = format!("[j]\nioengine=null\nsize=1000k\nrw={direction}\nbssplit=1k/50:16k/50\n");
        let (moved, _) = ours(&text);
        let [(reads, read), (writes, written)] = moved[0].1;
        assert_eq!(read + written, 1000 << 10, "{direction}");
        let uncut = 1000 * 2 / 17;
        // fio 3.33 makes 171 to 233, as its seed is.
        assert!((uncut * 5 / 4..2 * uncut + 50).contains(&(reads + writes)), "{direction}: {reads} and {writes}");
    }
    let (moved, _) = ours("[j]\nioengine=null\nsize=20000\nrw=randread\nbsrange=1k-4k\n");
    assert_eq!(moved[0].1[0].1, 19 << 10, "whole blocks");
    let (moved, _) = ours("[j]\nioengine=null\nsize=1000k\nrw=randread\nbssplit=1k/50:16k/50\nnorandommap\n");
    assert!(moved[0].1[0].0 < 160, "none is cut short: {moved:?}");
}

#[test]
fn steps_end_where_the_next_request_does_not_fit() {
    let [reads, _] = offsets("rw=read:512k\nbs=256k");
    assert_eq!(reads, [0, 786_432]);
    let [reads, _] = offsets("rw=read:256k\nbs=256k");
    assert_eq!(reads, [0, 524_288, 0, 524_288], "the next one would begin behind the end");
}

#[test]
fn a_trace_of_a_job_without_devices_opens_nothing() {
    let desk = job("[j]\nioengine=null\nread_iolog=there.log\n");
    let trim = "0 /dev/null trim 0 2147483648\n0 /dev/null write 4096 8192\n";
    desk.write(
        "there.log",
        &format!("fio version 3 iolog\n0 /dev/null add\n0 /dev/null open\n{trim}0 /dev/null close\n"),
    );
    let said = desk.arraylab(&["run", "job.fio", "--format", "fio-json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let jobs = said.json()["jobs"].clone();
    assert_eq!((&jobs[0]["trim"]["io_bytes"], &jobs[0]["write"]["io_bytes"]), (&(1_u64 << 31).into(), &8192.into()));
}

#[test]
fn a_backward_gap_leads_from_the_end_to_the_start() {
    let [reads, _] = offsets("rw=read:-8k");
    assert_eq!(&reads[..3], [1_040_384, 1_036_288, 1_032_192]);
    assert_eq!((reads.len(), reads[254], reads[255]), (256, 0, 1_040_384));
}

#[test]
fn addresses_are_others_each_time_if_they_are_not_to_be_repeated() {
    let same = |options: &str| offsets(options) == offsets(options);
    assert!(same("rw=randread") && same("rw=randread\nrandrepeat=0\nrandseed=7"));
    assert!(!same("rw=randread\nrandrepeat=0") && !same("rw=randread\nallrandrepeat=0"));
}

#[test]
fn a_job_that_ends_all_ends_all() {
    let (moved, _) =
        ours("[global]\nioengine=null\nbs=4k\nexitall\n[long]\nsize=1m\ntime_based\nruntime=20\n[short]\nsize=64k\n");
    assert_eq!(moved[1].1[0].0, 16);
}

/// Read from memory from the second lap on, hundreds of thousands a second would come; the file is given back by its
/// file system each time.
#[test]
fn each_lap_of_a_buffered_job_is_read_from_the_device() {
    let desk = job("[j]\nfilename=data.bin\nrw=read\nbs=64k\nsize=4m\nloops=8\n");
    let said = desk.arraylab(&["run", "job.fio", "--json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let shown = desk.arraylab(&["import", "job.fio"]);
    assert!(shown.stdout.contains("refresh = \"4 MiB\""), "{}", shown.stdout);
    desk.write("job.fio", "[j]\nfilename=data.bin\nrw=read\nbs=64k\nsize=4m\nloops=8\ninvalidate=0\n");
    assert!(!desk.arraylab(&["import", "job.fio"]).stdout.contains("refresh"));
}

#[test]
fn a_section_called_after_a_device_is_that_device() {
    let desk = Desk::new("");
    let backing = desk.file("backing", 4 << 20);
    let Some(device) = Loop::over(&backing) else { return };
    desk.write("job.fio", &format!("[{}]\nrw=read\nbs=64k\nsize=1m\n", device.node));
    let said = desk.arraylab(&["run", "job.fio", "--json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(said.json()["devices"][0]["name"], device.node.as_str());
    assert_eq!(files(desk.path()).keys().collect::<Vec<_>>(), ["backing"]);
}

#[test]
fn a_text_of_any_bytes_is_read_and_its_files_have_these_names() {
    let desk = Desk::new("");
    let text = b"\xef\xbb\xbf# f\xfcr\n[j]\nfilename=\xfcber.dat\nrw=write\nsize=16k\n";
    std::fs::write(desk.path().join("load.conf"), text).unwrap();
    let said = desk.arraylab(&["run", "load.conf", "--format", "fio-json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let made = desk.path().join(std::ffi::OsStr::from_bytes(b"\xfcber.dat"));
    assert_eq!(std::fs::metadata(made).unwrap().len(), 16 << 10);
    let shown = desk.arraylab(&["import", "load.conf"]);
    assert!(shown.code == 2 && shown.stderr.contains("is not UTF-8"), "{}", shown.stderr);
}

#[test]
fn what_is_included_lies_where_the_program_runs_or_beside_the_file() {
    let desk = Desk::new("");
    std::fs::create_dir(desk.path().join("sub")).unwrap();
    desk.write("sub/job.fio", "[j]\nioengine=null\ninclude size.inc\n");
    desk.write("sub/size.inc", "size=64k\n");
    let requests = || moved(&desk.arraylab(&["run", "sub/job.fio", "--format", "fio-json"]).json())[0].1[0].0;
    assert_eq!(requests(), 16);
    desk.write("size.inc", "size=128k\n");
    assert_eq!(requests(), 32);
}

#[test]
fn what_cannot_be_done_is_refused_with_its_line() {
    for (text, wanted) in [
        ("[j]\nsize=1m\nopendir=.\n", "job.fio:3: the option 'opendir' is not supported"),
        ("[j]\nsize=1m\nrw=randread\nSize=2m\n", "job.fio:4: fio 3.33 has no option 'Size'; the nearest is 'size'"),
        ("[j]\nsize=${NO_SUCH_SIZE}\n", "the environment has no variable NO_SUCH_SIZE"),
        ("[a]\nsize=64k\n[b]\nsize=64k\n[c]\nsize=64k\nwait_for=a\n", "job.fio:5: [c] waits for [a]"),
        ("[a]\nsize=64k\n[b]\nsize=64k\nwait_for=x\n", "job.fio:3: [b] waits for [x], which is no job before it"),
        ("[j]\nioengine=null\nsize=1m\nrw=read:-1k\n", "job.fio:1: [j] steps back 1 KiB"),
        ("[a]\nsize=4k\nallow_file_create=0\n", "job.fio:1: [a] may make no files, and a.0.0 is not there"),
        ("[a]\nsize=4k\nss=bw:1%\nss_dur=9\n[b]\nsize=4k\n", "job.fio:5: [b] is steady by another rule than [a]"),
        ("[a]\nsize=4k\nnuma_cpu_nodes=999\n", "job.fio:1: [a] names the memory node 999"),
        (
            "[global]\nsize=4k\nioengine=libaio\niodepth=8\ndirect=1\n[a]\n[b]\niodepth_batch_complete=4\n",
            "job.fio:7: [b] awaits 4 completions at a time and [a] 1",
        ),
        (
            "[a]\nsize=4k\nioengine=posixaio\niodepth=8\niodepth_batch_complete=4\n",
            "job.fio:5: the option 'iodepth_batch_complete' is not supported: its engine carries requests out one by one",
        ),
        ("[a]\nsize=1m\nzonemode=strided\nzonesize=2k\n", "job.fio:1: [a] has zones of 2 KiB"),
    ] {
        let said = job(text).arraylab(&["run", "job.fio"]);
        assert_eq!(said.code, 2, "{text}: {}", said.stdout);
        assert!(said.stderr.contains(wanted), "{text}: {}", said.stderr);
    }
}

/// A rate holds a request back until its time; that the timer is late then is none of the device's doing, and fio does
/// not count it.
#[test]
fn what_a_late_timer_takes_is_no_latency() {
    let text = "[j]\nioengine=null\nsize=2m\nbs=4k\nrate_iops=500\nlat_percentiles=1\npercentile_list=50\n";
    for text in [text.to_owned(), text.replace("rate_iops=500", "thinktime=2000")] {
        let said = job(&text).arraylab(&["run", "job.fio", "--format", "fio-json"]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        let median = |said: Said| said.json()["jobs"][0]["read"]["lat_ns"]["percentile"]["50.000000"].as_u64().unwrap();
        // A timer is late by 50 us each time; a busy machine is slow some of the times.
        let again = |_| median(job(&text).arraylab(&["run", "job.fio", "--format", "fio-json"]));
        let least = std::iter::once(median(said)).chain((0..4).map(again)).find(|median| *median < 30_000);
        assert!(least.is_some(), "{text}");
    }
}

#[test]
fn shares_of_requests_are_those_of_their_weights() {
    let (moved, _) =
        ours("[global]\nioengine=null\nsize=1g\ntime_based\nruntime=1\n[one]\nflow=1\n[eight]\nrw=randwrite\nflow=8\n");
    let (one, eight) = (moved[0].1[0].0 as f64, moved[1].1[1].0 as f64);
    assert!((eight / one / 8.0 - 1.0).abs() < 0.02, "{moved:?}");
}

#[test]
fn a_job_that_a_rule_ends_has_its_error_and_the_others_go_on() {
    let text = "[global]\nioengine=null\nsize=1g\nrate_iops=500\ntime_based\n[slow]\nrate_iops=50\nruntime=6\n\
        rate_cycle=200\nrate_iops_min=40\n[late]\nruntime=6\nmax_latency=1us\nfilename=x\n[sound]\nruntime=1\n";
    // A bucket that is never full: 40 requests a second are fewer than 50.
    let said = job(&text
        .replace("rate_iops_min=40", "rate_iops_min=50")
        .replace("rate_iops=50\n", "rate_iops=50\nthinktime=30ms\n"))
    .arraylab(&["run", "job.fio", "--format", "fio-json"]);
    assert_eq!(said.code, 3, "{}", said.stderr);
    let document = said.json();
    let of = |name: &str| {
        let job = document["jobs"].as_array().unwrap().iter().find(|job| job["jobname"] == name).unwrap().clone();
        (job["error"].as_u64().unwrap(), job["read"]["total_ios"].as_u64().unwrap())
    };
    let (slow, late, sound) = (of("slow"), of("late"), of("sound"));
    assert!(slow.0 == 5 && (60..=130).contains(&slow.1), "{slow:?}");
    assert_eq!((late.0, sound.0), (110, 0));
    assert!((490..=510).contains(&sound.1), "{sound:?}");
}

#[test]
fn a_steady_job_ends_before_its_time() {
    let (moved, _) = ours(
        "[j]\nioengine=null\nsize=1g\nrate_iops=500\ntime_based\nruntime=20\nss=iops:20%\nss_dur=2s\nss_ramp=1s\n",
    );
    assert!((1450..=1700).contains(&moved[0].1[0].0), "three seconds of twenty: {moved:?}");
}

#[test]
fn a_pattern_begins_with_each_write_and_duplicates_are_found_in_all_files() {
    let desk = job("[j]\nrw=write\nsize=64k\nbs=4k\nfilename=p\nbuffer_pattern=\"abc\"\n");
    assert_eq!(desk.arraylab(&["run", "job.fio"]).code, 0);
    let bytes = std::fs::read(desk.path().join("p")).unwrap();
    let wanted: Vec<u8> = b"abc".iter().copied().cycle().take(4096).collect();
    assert!(bytes.len() == 65536 && bytes.chunks(4096).all(|block| block == wanted));

    let text = "[global]\nsize=1m\nbs=4k\nrw=write\ndedupe_mode=working_set\ndedupe_percentage=50\n[a]\nfilename=a\n\
        [b]\nfilename=b\n";
    let unlike = |text: &str| {
        let desk = job(text);
        assert_eq!(desk.arraylab(&["run", "job.fio"]).code, 0);
        let read = |name: &str| std::fs::read(desk.path().join(name)).unwrap();
        let both = [read("a"), read("b")].concat();
        both.chunks(4096).collect::<std::collections::HashSet<_>>().len()
    };
    // Of 512 blocks half are new, and the others out of 12 of each job, or of 12 in all.
    let (own, shared) = (unlike(text), unlike(&text.replace("[a]", "dedupe_global=1\n[a]")));
    assert!((240..=320).contains(&own) && (230..=310).contains(&shared), "{own}, {shared}");
}

/// fio's own examples, where they are: each is read and planned, or refused for a reason with its line.
#[test]
fn the_examples_of_fio_are_run_or_refused_and_none_is_misread() {
    let places = ["/usr/share/doc/fio/examples", "/usr/share/fio/examples"].map(Path::new);
    let named = std::env::var_os("FIO_EXAMPLES").map(std::path::PathBuf::from);
    let Some(folder) = named.as_deref().or(places.into_iter().find(|place| place.is_dir())) else {
        return skip("fio's examples are not here; FIO_EXAMPLES=DIRECTORY names them");
    };
    let mut seen = 0;
    for entry in folder.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
        if entry.extension().is_none_or(|extension| extension != "fio") {
            continue;
        }
        let desk = Desk::new("");
        let said = desk.arraylab(&["import", &entry.display().to_string()]);
        let refused = said.code == 2 && said.stderr.lines().any(|line| line.contains(".fio:"));
        assert!(said.code == 0 || refused, "{}: {} {}", entry.display(), said.code, said.stderr);
        if refused {
            println!("{}", said.stderr.lines().last().unwrap_or_default());
        }
        seen += 1;
    }
    assert!(seen > 0, "{} holds no job file", folder.display());
}
