//! Job files beside fio: the same file by fio and by `arraylab run`, in turns, on a loop device, on zram and on a file.
//!
//! The bar: our median within the run-to-run spread of fio's own (least to most, widened by a tenth of itself at each end, as five runs do not show all
//! of a spread), or above it. Where ours lies above, that is said: a device that keeps up shows the cost of the generator, and a cheaper generator
//! is faster. The machine is shared; the turns share its moods.

use std::path::{Path, PathBuf};
use std::process::Command;

use scratch::{Loop, Zram};
use units::Bytes;

use crate::fio::report;
use crate::runs::Table;

/// How often each runs.
const TURNS: usize = 5;
const SIZE: Bytes = Bytes::mib(256);

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
        met &= on("file", &folder.path().join("file"), &ours, &mut table);
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
    let job = folder.path().join("job.fio");
    let mut met = true;
    for (name, options) in JOBS {
        let text = format!(
            "[global]\nfilename={}\nsize={}m\ndirect=1\nruntime=1\ntime_based\n{options}[job]\n",
            path.display(),
            SIZE.get() >> 20
        );
        std::fs::write(&job, text).expect("a temporary file");
        let (mut theirs_seen, mut ours_seen) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            // What cannot be compared is no bar that is met.
            let Some(rate) = iops(Command::new("fio").arg("--output-format=json").arg(&job)) else { return false };
            theirs_seen.push(rate);
            let words = ["--format", "fio-json", "--destroy-data", "--runs"];
            let mut command = Command::new(ours);
            let Some(rate) = iops(command.arg("run").arg(&job).args(words).arg(folder.path().join("runs"))) else {
                return false;
            };
            ours_seen.push(rate);
        }
        let (theirs, own) = (spread(&theirs_seen), spread(&ours_seen));
        let slack = (theirs[2] - theirs[0]) / 10.0;
        let verdict = match own[1] {
            median if median < theirs[0] - slack => "MISSED: below fio's spread",
            median if median > theirs[2] + slack => "above fio's spread",
            _ => "within fio's spread",
        };
        met &= !verdict.starts_with("MISSED");
        let show = |[low, median, high]: [f64; 3]| format!("{low:8.0} {median:8.0} {high:8.0}");
        println!("    {name:<26} fio {}   arraylab {}   {verdict}", show(theirs), show(own));
        let cell = |value: f64| format!("{value:.0}");
        let [theirs, own] = [theirs.map(cell), own.map(cell)];
        table.row(&[&[target.to_owned(), name.to_owned()][..], &theirs, &own].concat());
    }
    met
}

/// Reads and writes a second of the one job of a document in fio's shape.
fn iops(command: &mut Command) -> Option<f64> {
    let report = report(command)?;
    let job = &report["jobs"][0];
    Some(job["read"]["iops"].as_f64()? + job["write"]["iops"].as_f64()?)
}

/// Least, median and most.
fn spread(values: &[f64]) -> [f64; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    [sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1]]
}
