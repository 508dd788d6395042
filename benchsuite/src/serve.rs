//! Our NBD server beside `nbdkit file` and `qemu-nbd`: one client (fio's nbd engine), one file in the page cache, a
//! Unix socket.
//!
//! Each server is a process of its own, ours too, so that its processor time can be read from outside, with all its
//! threads and those that the kernel starts in its name. The client costs more than the servers, so the rate says less
//! about them than the time per request does, and on a machine that others use the rate says little at all. Servers
//! take turns, and each round begins with another; what was written before is on the disk when a turn begins, or the
//! kernel would write it during that.
//!
//! Each figure is the median of its rounds. With one request at a time most depends on which processors the scheduler
//! has client and server sleep and wake on: rates differ by two from turn to turn of the same server, and the best of a
//! few turns, which was printed once, was whoever drew the best one.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use device::AnyDevice;
use host::Kernel;
use host::guard::{Consent, permit};
use nbd::{Export, Exports, ServeOptions};
use runtime::Alarm;
use rustix::fs::Advice;
use uring::{FileDevice, FileOptions, Listener, Live, LiveOptions};

use crate::runs::Table;

/// Set for the process that is our server: the file and the socket.
const OURS: [&str; 2] = ["BENCHSUITE_SERVE_FILE", "BENCHSUITE_SERVE_SOCKET"];
const ROUNDS: usize = 15;
const SECONDS: &str = "1";
const MIB: usize = 1 << 20;
const SIZE: usize = 256 * MIB;

/// The loads: name, and fio's words.
const LOADS: [(&str, [&str; 3]); 6] = [
    ("4k random read, depth 1", ["--rw=randread", "--bs=4k", "--iodepth=1"]),
    ("4k random write, depth 1", ["--rw=randwrite", "--bs=4k", "--iodepth=1"]),
    ("4k random read, depth 32", ["--rw=randread", "--bs=4k", "--iodepth=32"]),
    ("4k random write, depth 32", ["--rw=randwrite", "--bs=4k", "--iodepth=32"]),
    ("128k sequential read, depth 8", ["--rw=read", "--bs=128k", "--iodepth=8"]),
    ("128k sequential write, depth 8", ["--rw=write", "--bs=128k", "--iodepth=8"]),
];

/// A server that is measured: its name, and how it is started on a file and a socket.
type Way = (&'static str, fn(&Path, &Path) -> Command);

const WAYS: [Way; 3] = [("arraylab", ours), ("nbdkit file", nbdkit), ("qemu-nbd", qemu)];

fn ours(file: &Path, socket: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.arg("serve").env(OURS[0], file).env(OURS[1], socket);
    command
}

fn nbdkit(file: &Path, socket: &Path) -> Command {
    let mut command = Command::new("nbdkit");
    command.args(["--foreground", "--unix"]).arg(socket).arg("file").arg(file);
    command
}

fn qemu(file: &Path, socket: &Path) -> Command {
    let mut command = Command::new("qemu-nbd");
    command.args(["--format=raw", "--persistent", "--shared=16", "--socket"]).arg(socket).arg(file);
    command
}

/// What a load cost.
#[derive(Debug, Clone, Copy)]
struct Cost {
    /// Requests per second.
    rate: f64,
    /// Processor time of the server per request, in microseconds.
    cpu_us: f64,
}

/// What the rounds of a load cost.
#[derive(Debug, Clone, Copy)]
struct Costs {
    median: Cost,
    /// The best rate and the least time, each by itself.
    best: Cost,
}

impl Costs {
    /// `None` of no rounds.
    fn of(rounds: &[Cost]) -> Option<Costs> {
        let sorted = |of: fn(&Cost) -> f64| {
            let mut all: Vec<f64> = rounds.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let (rates, cpu_us) = (sorted(|cost| cost.rate), sorted(|cost| cost.cpu_us));
        let middle = rounds.len() / 2;
        Some(Costs {
            median: Cost { rate: *rates.get(middle)?, cpu_us: *cpu_us.get(middle)? },
            best: Cost { rate: *rates.last()?, cpu_us: *cpu_us.first()? },
        })
    }
}

pub fn run() -> bool {
    if let [Some(file), Some(socket)] = OURS.map(std::env::var_os) {
        serve(Path::new(&file), Path::new(&socket));
        return true;
    }
    let folder = tempfile::tempdir_in(".").expect("the present folder takes files");
    let file = folder.path().join("disk.img");
    let contents: Vec<u8> =
        (0..SIZE / 8).flat_map(|n| (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect();
    std::fs::write(&file, contents).expect("the present folder has room for 256 MiB");
    cache_in_pages(&file).expect("what was written can be read");
    let mut table = Table::new(
        "serve",
        &["load", "server", "rate_per_s", "cpu_us", "cpu_of_best_other", "best_rate_per_s", "best_cpu_us"],
    );
    let mut met = true;
    for (load, words) in LOADS {
        let mut costs = WAYS.map(|_| Vec::new());
        for round in 0..ROUNDS {
            for number in (0..WAYS.len()).map(|turn| (round + turn) % WAYS.len()) {
                match measure(WAYS[number], &file, folder.path(), &words) {
                    Ok(cost) => costs[number].push(cost),
                    Err(why) => println!("  {}: skipped: {why}", WAYS[number].0),
                }
            }
        }
        met &= judge(load, &costs.map(|costs| Costs::of(&costs)), &mut table);
    }
    table.keep();
    met
}

/// Has the page cache hold a file in single pages, as it does one that was read at random. As it was written here it
/// would lie in large pieces, and ext4 (Linux 6.18) looks at all blocks of such a piece for each write into it: that
/// would be measured, and not the servers.
fn cache_in_pages(path: &Path) -> std::io::Result<()> {
    let file = std::fs::File::open(path)?;
    file.sync_all()?;
    for advice in [Advice::DontNeed, Advice::Random] {
        rustix::fs::fadvise(&file, 0, None, advice)?;
    }
    let mut page = [0; 4096];
    (0..SIZE as u64 / 4096).try_for_each(|number| file.read_exact_at(&mut page, number * 4096))
}

/// Prints the costs of one load; false if ours misses the bar.
fn judge(load: &str, costs: &[Option<Costs>], table: &mut Table) -> bool {
    println!("  {load}");
    let others = || costs[1..].iter().flatten();
    let (least, most) = (
        others().map(|costs| costs.median.cpu_us).fold(f64::INFINITY, f64::min),
        others().map(|costs| costs.median.rate).fold(0.0, f64::max),
    );
    let mut met = true;
    for ((name, _), costs) in WAYS.iter().zip(costs) {
        let Some(Costs { median: Cost { rate, cpu_us }, best }) = *costs else { continue };
        let ratio = cpu_us / least;
        let verdict = match *name == "arraylab" && least.is_finite() {
            true if ratio > 1.0 => "   at most the best other: MISSED",
            // The client sets the rate, and the machine is shared.
            true if rate < 0.95 * most => "   at most the best other: met, but the rate is lower",
            true => "   at most the best other, rate no lower: met",
            false => "",
        };
        met &= !verdict.ends_with("MISSED");
        println!(
            "    {name:<12} {rate:>8.0} /s (best {:>6.0}) {cpu_us:>8.2} us (best {:>6.2}) {ratio:>6.2} x{verdict}",
            best.rate, best.cpu_us
        );
        let figures = [(rate, 0), (cpu_us, 3), (ratio, 3), (best.rate, 0), (best.cpu_us, 3)];
        let figures = figures.map(|(figure, digits)| format!("{figure:.digits$}"));
        table.row(&[[load.into(), (*name).into()].as_slice(), &figures].concat());
    }
    met
}

/// A server as a process, ended when this is dropped.
struct Server {
    child: Child,
    socket: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, and then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn measure((name, start): Way, file: &Path, folder: &Path, words: &[&str]) -> Result<Cost, String> {
    std::fs::File::open(file).and_then(|file| file.sync_all()).map_err(|error| error.to_string())?;
    let socket = folder.join("socket");
    let child = start(file, &socket).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut server = Server { child: child.map_err(|error| format!("{name}: {error}"))?, socket };
    let deadline = Instant::now() + Duration::from_secs(5);
    while std::os::unix::net::UnixStream::connect(&server.socket).is_err() {
        if let Ok(Some(status)) = server.child.try_wait() {
            return Err(format!("it ended by itself ({status})"));
        }
        if Instant::now() > deadline {
            return Err("it did not listen within 5 s".into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    // What it spent until it was asked for anything is not counted.
    let before = cpu_seconds(server.child.id()).ok_or("it has ended")?;
    let output = Command::new("fio")
        .args(["--name=bench", "--ioengine=nbd", "--time_based", "--norandommap", "--randrepeat=0", "--gtod_reduce=1"])
        .args(["--thread", "--output-format=json", &format!("--runtime={SECONDS}")])
        .arg(format!("--size={SIZE}"))
        .arg(format!("--uri=nbd+unix:///?socket={}", server.socket.display()))
        .args(words)
        .output()
        .map_err(|error| format!("fio: {error}"))?;
    let used = cpu_seconds(server.child.id()).ok_or("it ended under load")? - before;
    let text = String::from_utf8_lossy(&output.stdout);
    let json = text.find('{').and_then(|at| serde_json::from_str::<serde_json::Value>(&text[at..]).ok());
    let job = json.filter(|_| output.status.success()).map(|json| json["jobs"][0].clone());
    let job = job.ok_or_else(|| format!("fio: {}{}", text, String::from_utf8_lossy(&output.stderr)))?;
    let sum = |what: &str| job["read"][what].as_f64().unwrap_or(0.0) + job["write"][what].as_f64().unwrap_or(0.0);
    Ok(Cost { rate: sum("iops"), cpu_us: used * 1e6 / sum("total_ios") })
}

/// Processor time of a process with all its threads, those that have ended included, in seconds; the kernel counts it
/// in ticks of 10 ms.
fn cpu_seconds(process: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: u64 = fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Our server, until it is killed.
fn serve(file: &Path, socket: &Path) {
    let live = Live::start(&LiveOptions::default());
    let consent = Consent { destroy_data: true, times_named: 1 };
    let permit = permit(&Kernel::running(), file, consent).unwrap_or_else(|error| panic!("{error}"));
    let device = FileDevice::open_writable(&live, &permit, &FileOptions::buffered().copying());
    let device = AnyDevice::new(device.unwrap_or_else(|error| panic!("{error}")));
    let export = Export::new("", device, false).expect("an empty name is one");
    let exports = Exports::new(vec![export]).expect("one export has a name of its own");
    let listener = Listener::unix(&live, socket).unwrap_or_else(|error| panic!("{error}"));
    let never = Alarm::default();
    let serving = nbd::serve(live.runtime(), exports, vec![listener], ServeOptions::default(), never.raised());
    live.runtime().block_on(serving);
}
