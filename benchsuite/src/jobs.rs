//! Job files beside fio: the same file by fio and by `arraylab run`, in turns, on a loop device, on zram and on a file.
//!
//! The bar: our median within the run-to-run spread of fio's own, or above it. The spread is least to most, widened at
//! each end by a tenth of itself, or by a percent of fio's median if that is more, as five runs do not show all of it.
//! Where ours lies above, that is said: a device that keeps up shows the cost of the generator, and a cheaper generator
//! is faster. The machine is shared; the turns share its moods.
//!
//! `FIO_EXAMPLES=DIRECTORY` adds those of fio's own example job files that run, fitted to each target
//! ([`crate::examples`]).

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use scratch::{Loop, Zram};
use units::Bytes;

use crate::examples;
use crate::fio::report;
use crate::runs::Table;

/// How often each runs.
const TURNS: usize = 5;
const SIZE: Bytes = Bytes::mib(256);
/// A run of either takes no longer, in seconds.
const MOST: &str = "60";
/// What `timeout` says then.
const KILLED: i32 = 128 + 9;
/// Of it an example uses so much.
const USED: u64 = 64;

/// A job, as the options that go below `[global]`.
const JOBS: [(&str, &str); 5] = [
    ("randread 4k, depth 32", "rw=randread\nbs=4k\niodepth=32\nioengine=libaio\n"),
    ("randread 4k, depth 1", "rw=randread\nbs=4k\niodepth=1\nioengine=psync\n"),
    ("read 128k, depth 4", "rw=read\nbs=128k\niodepth=4\nioengine=libaio\n"),
    ("randrw 8k 70/30, depth 16", "rw=randrw\nrwmixread=70\nbs=8k\niodepth=16\nioengine=libaio\n"),
    ("randread 4k, 500/s", "rw=randread\nbs=4k\niodepth=8\nioengine=libaio\nrate_iops=500\n"),
];

/// `BENCHSUITE_TARGET=zram` picks one.
pub fn run() -> bool {
    let Some(ours) = arraylab() else {
        println!("  skipped: there is no arraylab beside the benchsuite; build it with cargo build --release -p cli");
        return true;
    };
    if Command::new("fio").arg("--version").output().is_err() {
        println!("  skipped: there is no fio");
        return true;
    }
    let picked = std::env::var("BENCHSUITE_TARGET").ok();
    let wanted = |name: &str| picked.as_deref().is_none_or(|picked| picked == name);
    let mut table = Table::new(
        "jobs",
        &["target", "job", "fio_low", "fio_median", "fio_high", "arraylab_low", "arraylab_median", "arraylab_high"],
    );
    let mut met = true;
    if wanted("loop") {
        match Loop::over("/dev/shm".as_ref(), SIZE, false) {
            Ok(device) => met &= on("loop on tmpfs", device.path(), &ours, &mut table),
            Err(refused) => println!("  loop on tmpfs: skipped: {refused}"),
        }
    }
    if wanted("zram") {
        match Zram::new(SIZE) {
            Ok(device) => met &= on("zram", &device.path(), &ours, &mut table),
            Err(refused) => println!("  zram: skipped: {refused}"),
        }
    }
    if wanted("file") {
        let folder = tempfile::tempdir_in(".").expect("the present folder takes files");
        let path = std::path::absolute(folder.path().join("file")).expect("the present folder has a path");
        met &= on("file", &path, &ours, &mut table);
    }
    table.keep();
    met
}

/// The command that was built beside this one.
pub fn arraylab() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok()?.with_file_name("arraylab");
    beside.exists().then_some(beside)
}

fn on(target: &str, path: &Path, ours: &Path, table: &mut Table) -> bool {
    println!("  {target}");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut bench = Bench { target, ours, folder: folder.path(), table, met: true };
    for (name, options) in JOBS {
        let text = format!(
            "[global]\nfilename={}\nsize={}m\ndirect=1\nruntime=1\ntime_based\n{options}[job]\n",
            path.display(),
            SIZE.get() >> 20
        );
        // What cannot be compared is no bar that is met.
        bench.met &= bench.compare(name, &text);
    }
    let Some(examples) = std::env::var_os("FIO_EXAMPLES") else {
        println!("    fio's examples: skipped: FIO_EXAMPLES names no folder of them");
        return bench.met;
    };
    for (name, text) in examples::read(Path::new(&examples)) {
        if examples::is_of_null(&text) {
            println!("    {name:<26} not compared: the engine null has no target, and measures the program");
            continue;
        }
        let text = examples::fitted(&text, path, USED);
        match bench.refusal(&text) {
            None => bench.met &= bench.compare(&name, &text),
            Some(why) => println!("    {name:<26} {why}"),
        }
    }
    bench.met
}

/// Where jobs are compared, and what came of it.
struct Bench<'b> {
    target: &'b str,
    ours: &'b Path,
    folder: &'b Path,
    table: &'b mut Table,
    met: bool,
}

impl Bench<'_> {
    fn fio(&self, job: &Path) -> Command {
        let mut command = Command::new("fio");
        command.current_dir(self.folder).arg("--output-format=json").arg(job);
        // Its jobs are processes with sessions of their own, which live on without it and keep its output open.
        ended_in_time(command, &["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"])
    }

    fn arraylab(&self, job: &Path) -> Command {
        let mut command = Command::new(self.ours);
        let words = ["--format", "fio-json", "--destroy-data", "--runs"];
        command.current_dir(self.folder).arg("run").arg(job).args(words).arg(self.folder.join("runs"));
        ended_in_time(command, &[])
    }

    fn job(&self, text: &str) -> PathBuf {
        let job = self.folder.join("job.fio");
        std::fs::write(&job, text).expect("a temporary file");
        job
    }

    /// Who refuses a job, and why; nothing if both run it.
    fn refusal(&self, text: &str) -> Option<String> {
        let job = self.job(text);
        let last = |output: Output| {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().to_owned()
        };
        let refused = |who: &str, mut command: Command| {
            let output = command.output().ok()?;
            match output.status.code() {
                Some(KILLED) => Some(format!("{who} did not end within {MOST} s")),
                _ => (!output.status.success()).then(|| format!("refused by {who}: {}", last(output))),
            }
        };
        refused("arraylab", self.arraylab(&job)).or_else(|| refused("fio", self.fio(&job)))
    }

    /// Runs a job by both in turns; false if ours is slower than fio ever is, or one of the two fails.
    fn compare(&mut self, name: &str, text: &str) -> bool {
        let job = self.job(text);
        let (mut theirs_seen, mut ours_seen) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            let Some(rate) = iops(&mut self.fio(&job)) else { return false };
            theirs_seen.push(rate);
            let Some(rate) = iops(&mut self.arraylab(&job)) else { return false };
            ours_seen.push(rate);
        }
        let (theirs, own) = (spread(&theirs_seen), spread(&ours_seen));
        let slack = ((theirs[2] - theirs[0]) / 10.0).max(theirs[1] / 100.0);
        let verdict = match own[1] {
            median if median < theirs[0] - slack => "MISSED: below fio's spread",
            median if median > theirs[2] + slack => "above fio's spread",
            _ => "within fio's spread",
        };
        let show = |[low, median, high]: [f64; 3]| format!("{low:8.0} {median:8.0} {high:8.0}");
        println!("    {name:<26} fio {}   arraylab {}   {verdict}", show(theirs), show(own));
        let cell = |value: f64| format!("{value:.0}");
        let [theirs, own] = [theirs.map(cell), own.map(cell)];
        self.table.row(&[&[self.target.to_owned(), name.to_owned()][..], &theirs, &own].concat());
        !verdict.starts_with("MISSED")
    }
}

/// The command as a child of `timeout`: fio 3.33 never ends some jobs (`io_submit_mode=offload`, its own test t0010).
/// `by` is a program that runs it.
fn ended_in_time(command: Command, by: &[&str]) -> Command {
    let mut timed = Command::new("timeout");
    timed.args(["--signal=KILL", MOST]).args(by).arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        timed.current_dir(folder);
    }
    timed
}

/// Reads and writes a second of all jobs of a document in fio's shape.
fn iops(command: &mut Command) -> Option<f64> {
    let report = report(command)?;
    let rate = |job: &serde_json::Value| Some(job["read"]["iops"].as_f64()? + job["write"]["iops"].as_f64()?);
    report["jobs"].as_array()?.iter().map(rate).sum()
}

/// Least, median and most.
fn spread(values: &[f64]) -> [f64; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    [sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1]]
}
