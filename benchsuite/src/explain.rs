//! What it takes to explain a run of ten million requests that was traced, and to make its page.
//!
//! The folder is made here: rows of random reads of four devices, and the five spans of each that a traced run keeps
//! (`record::live_phases`). `arraylab` is then run on it as its user does, on one processor or several as it pleases;
//! its time is that of the clock, and its memory the most that the kernel has seen (`VmHWM`). Where Chromium is
//! installed, it draws the page, in the time by which that takes longer than an empty one; the least of three.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use record::{
    Clock, Keeping, Labels, Meta, Operation, Phase, Recorder, Recording, Row, RunFolder, RunState, Spans, Spill,
    WhenBehind, live_phases,
};
use units::Bytes;

use crate::jobs::arraylab;
use crate::measure::{amount, line};
use crate::runs::Table;

const REQUESTS: u64 = amount(10_000_000, 10_000) as u64;
const DEVICES: u64 = 4;
/// The bars: of explaining in seconds and in bytes, and of a page in bytes.
const TIME: f64 = 10.0;
const MEMORY: Bytes = Bytes::gib(1);
const PAGE: Bytes = Bytes::mib(1);
const DRAWN: f64 = 1.0;

/// Makes the folder, and measures both commands.
pub fn run() -> bool {
    let Some(ours) = arraylab() else {
        println!("  skipped: there is no arraylab beside the benchsuite; build it with cargo build --release -p cli");
        return true;
    };
    let runs = tempfile::tempdir_in(".").expect("the current directory can be written to");
    let folder = made(runs.path());
    let page = runs.path().join("page.html");
    let mut met = true;
    let mut table = Table::new("explain", &["command", "requests", "seconds", "peak_bytes", "out_bytes"]);
    let explain = once(Command::new(&ours).arg("explain").arg(folder.path()));
    let report = once(Command::new(&ours).arg("report").arg(folder.path()).arg("-o").arg(&page));
    let size = page.metadata().map_or(0, |page| page.len());
    for (name, (time, memory), size) in [("explain", explain, 0), ("report", report, size)] {
        met &= line(&format!("{name}, time"), time.as_secs_f64(), "s", Some(TIME));
        met &= line(&format!("{name}, memory"), memory as f64 / 1e6, "MB", Some(MEMORY.get() as f64 / 1e6));
        table.row(&[
            name.to_owned(),
            REQUESTS.to_string(),
            format!("{:.3}", time.as_secs_f64()),
            memory.to_string(),
            size.to_string(),
        ]);
    }
    met &= line("the page", size as f64 / 1e6, "MB", Some(PAGE.get() as f64 / 1e6));
    match drawn(&page, runs.path()) {
        Some((time, messages)) => {
            met &= line("drawn by Chromium, beyond an empty page", time, "s", Some(DRAWN));
            met &= line("messages on its console", messages as f64, "", Some(0.0));
        }
        None => println!("  drawing is skipped: no chromium is installed"),
    }
    table.keep();
    met
}

/// How much longer than an empty page one takes to be drawn, in seconds, and how many messages it leaves.
fn drawn(page: &Path, folder: &Path) -> Option<(f64, usize)> {
    let empty = folder.join("empty.html");
    std::fs::write(&empty, "<!doctype html><title>empty</title>").expect("the disk has space");
    let shot = folder.join("page.png");
    let draw = |page: &Path| {
        let began = Instant::now();
        let mut command = Command::new("chromium");
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]);
        command.arg(format!("--screenshot={}", shot.display())).arg(page.canonicalize().ok()?);
        let output = command.stdin(Stdio::null()).output().ok()?;
        assert!(shot.exists(), "chromium made no picture: {}", String::from_utf8_lossy(&output.stderr));
        let messages = String::from_utf8_lossy(&output.stderr).lines().filter(|line| line.contains(":CONSOLE")).count();
        Some((began.elapsed().as_secs_f64(), messages))
    };
    let mut least = (f64::INFINITY, f64::INFINITY);
    let mut messages = 0;
    for _ in 0..3 {
        least.0 = least.0.min(draw(&empty)?.0);
        let (time, said) = draw(page)?;
        (least.1, messages) = (least.1.min(time), messages + said);
    }
    Some(((least.1 - least.0).max(0.0), messages))
}

/// A command's time, and the most memory that it had.
fn once(command: &mut Command) -> (Duration, u64) {
    let began = Instant::now();
    let mut child = command.stdout(Stdio::null()).spawn().expect("it is there");
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        most = most.max(peak.unwrap_or(0) * 1024);
        if let Some(status) = child.try_wait().expect("it is a child") {
            assert!(status.success(), "the folder is one that it reads");
            return (began.elapsed(), most);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The folder of a traced run.
fn made(runs: &Path) -> RunFolder {
    let now = std::time::SystemTime::now();
    let folder = RunFolder::create(runs, "traced", now).expect("the disk has space");
    let devices: Vec<String> = (0..DEVICES).map(|device| format!("/dev/sd{device}")).collect();
    let labels = Labels { streams: vec!["readers".into()], devices: devices.clone() };
    let meta = Meta { run: folder.id(), clock: Clock::Live, origin: Some(now), labels };
    let spans = Spans::on(Bytes::gib(2));
    let parts: Vec<_> = devices.iter().map(|device| spans.part(device)).collect();
    let phases =
        [live_phases::BEFORE, live_phases::SUBMIT, live_phases::SCHEDULER, live_phases::DEVICE, live_phases::SEEN]
            .map(|phase| spans.phase(phase));
    let recording = recorded(&meta, |row| {
        let (begin, end) = (row.intended.as_nanos(), row.completed.as_nanos());
        // The device has most of a request's time.
        let ends = [begin + 100, begin + 1_000, begin + 5_000, end - 2_000, end];
        let mut reached = row.intended;
        for (phase, end) in phases.into_iter().zip(ends) {
            let end = units::Instant::from_nanos(end);
            spans.keep(u64::from(row.request), parts[usize::from(row.device)], phase, reached, end);
            reached = end;
        }
    });
    folder.write_records(&recording, &meta).expect("the disk has space");
    let spans = spans.take().expect("they are on");
    assert_eq!(spans.lost(), 0, "two gibibytes are enough");
    folder.write_spans(&spans, &meta).expect("the disk has space");
    folder.set_state(RunState::Complete).expect("it is there");
    folder
}

/// Random 4 KiB reads, 100,000 a second, each about 100 us long.
fn recorded(meta: &Meta, mut keep: impl FnMut(&Row)) -> Recording {
    let keeping =
        Keeping { expected_rows: REQUESTS, memory: Bytes::gib(1), spill: Spill::Never, when_behind: WhenBehind::Lose };
    let (recorder, mut logs) = Recorder::start(&keeping, meta, 1).expect("1 GiB is enough");
    let mut log = logs.pop().expect("one log");
    for i in 0..REQUESTS {
        let random = i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let mut row = Row::new(Operation::Read, Phase::Measure);
        let at = |nanos: u64| units::Instant::from_nanos(1_000_000 + i * 10_000 + nanos);
        row.completed = at(0);
        row.intended = units::Instant::from_nanos(at(0).as_nanos() - 80_000 - random % 40_000);
        row.submitted = units::Instant::from_nanos(row.intended.as_nanos() + 100);
        row.offset = Bytes::kib(4) * (random >> 40);
        row.length = 4096;
        row.device = (random % DEVICES) as u16;
        row.depth = 10;
        row.request = u32::try_from(i + 1).expect("there are fewer");
        keep(&row);
        log.push(row);
    }
    drop(log);
    recorder.finish()
}
