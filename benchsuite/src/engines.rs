//! The engines of `uring` beside fio, on a loop device in memory, on zram and on a cached file: random reads of 4 KiB.
//!
//! fio runs with the options that cost it least on that target. What counts is the processor time per request of the whole process, with
//! the threads that the kernel starts in its name: it does not depend on who else uses the machine. Rates do, so the two take turns.

use std::cell::Cell;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use device::{Buffer, Device, Request};
use rand::Rng;
use runtime::Random;
use rustix::time::{ClockId, clock_gettime};
use scratch::{Loop, Zram};
use units::Bytes;
use uring::{Engine, FileDevice, FileOptions, Live, LiveOptions};

use crate::fio;
use crate::runs::Table;

const ROUNDS: u32 = 3;
const DEPTH: usize = 32;
const BLOCK: Bytes = Bytes::kib(4);
const SIZE: Bytes = Bytes::mib(512);

/// What a load cost, at best.
#[derive(Debug, Clone, Copy)]
struct Load {
    /// Requests per second.
    rate: f64,
    /// Processor time per request, in microseconds.
    cpu_us: f64,
}

/// A target, and how it is loaded.
struct Target {
    name: &'static str,
    path: PathBuf,
    options: FileOptions,
    /// Our ways.
    engines: &'static [Engine],
    requests: u64,
    /// fio's ways, the last words of its command line.
    fio: &'static [&'static [&'static str]],
}

const RING: &[&str] = &["--ioengine=io_uring", "--direct=1", "--iodepth=32", "--fixedbufs", "--registerfiles"];
const RING_BATCHED: &[&str] = &[
    "--ioengine=io_uring",
    "--direct=1",
    "--iodepth=32",
    "--fixedbufs",
    "--registerfiles",
    "--iodepth_batch_submit=16",
    "--iodepth_batch_complete_min=8",
    "--iodepth_batch_complete_max=32",
];
const RING_CACHED: &[&str] = &[
    "--ioengine=io_uring",
    "--iodepth=32",
    "--fixedbufs",
    "--registerfiles",
    "--iodepth_batch_submit=16",
    "--iodepth_batch_complete_min=8",
    "--iodepth_batch_complete_max=32",
];

/// A bench of one target; false if a bar was missed.
type One = fn(&mut Table) -> bool;

/// `BENCHSUITE_TARGET=zram` picks one.
pub fn run() -> bool {
    let picked = std::env::var("BENCHSUITE_TARGET").ok();
    let all: [(&str, One); 3] = [("loop", loop_in_memory), ("zram", zram), ("file", cached_file)];
    let mut table = Table::new("engines", &["target", "way", "rate_per_s", "cpu_us_per_request", "cpu_ratio_to_fio"]);
    let mut met = true;
    for (name, bench) in all {
        if picked.as_deref().is_none_or(|picked| picked == name) {
            met &= bench(&mut table);
        }
    }
    table.keep();
    met
}

fn loop_in_memory(table: &mut Table) -> bool {
    let device = match Loop::over("/dev/shm".as_ref(), SIZE, false) {
        Ok(device) => device,
        Err(refused) => return skipped(&refused),
    };
    let target = Target {
        name: "loop on tmpfs",
        path: device.path().to_owned(),
        options: FileOptions::direct(),
        engines: &[Engine::IoUring],
        requests: 500_000,
        fio: &[RING, RING_BATCHED],
    };
    compare(&target, table)
}

fn zram(table: &mut Table) -> bool {
    let device = match Zram::new(SIZE) {
        Ok(device) => device,
        Err(refused) => return skipped(&refused),
    };
    let target = Target {
        name: "zram",
        path: device.path(),
        options: FileOptions::direct(),
        engines: &[Engine::Sync, Engine::IoUring],
        requests: 500_000,
        fio: &[&["--ioengine=psync", "--direct=1"], RING],
    };
    compare(&target, table)
}

fn cached_file(table: &mut Table) -> bool {
    let file = tempfile::NamedTempFile::new_in(".").expect("the present folder takes files");
    file.as_file().set_len(SIZE.get()).expect("the present folder's file system has room");
    let target = Target {
        name: "cached file",
        path: file.path().to_owned(),
        options: FileOptions::buffered(),
        engines: &[Engine::Mapped, Engine::IoUring, Engine::Sync],
        requests: 1_500_000,
        fio: &[&["--ioengine=mmap"], &["--ioengine=psync"], RING_CACHED],
    };
    compare(&target, table)
}

fn skipped(refused: &scratch::Refused) -> bool {
    println!("  skipped: {refused}");
    true
}

/// Writes the whole target full of what does not compress. It is one of this bench's own making.
fn fill(path: &Path) {
    let mut random = Random::named(1, "contents");
    let mut file = std::fs::OpenOptions::new().write(true).open(path).expect("it was just made");
    let mut bytes = vec![0; 1 << 20];
    for _ in 0..SIZE / Bytes::mib(1) {
        random.fill_bytes(&mut bytes);
        file.write_all(&bytes).expect("it takes as much as it was made for");
    }
    file.sync_all().expect("it takes as much as it was made for");
}

/// Reads all of it: memory that nobody has touched for a while may have been paged out.
fn warm(path: &Path) {
    let mut file = std::fs::File::open(path).expect("it was just made");
    let mut bytes = vec![0; 1 << 20];
    while file.read(&mut bytes).expect("it can be read") > 0 {}
}

fn compare(target: &Target, table: &mut Table) -> bool {
    println!("  {}", target.name);
    fill(&target.path);
    let (chosen, reason) = choice(target);
    println!("    chosen: {chosen}, as {reason}");
    let mut ours: Vec<(Engine, Option<Load>)> = target.engines.iter().map(|engine| (*engine, None)).collect();
    let mut theirs: Vec<(&[&str], Fio)> = target.fio.iter().map(|way| (*way, Fio::default())).collect();
    for _ in 0..ROUNDS {
        for (engine, best) in &mut ours {
            warm(&target.path);
            keep_best(best, measure(target, *engine));
        }
        for (way, best) in &mut theirs {
            warm(&target.path);
            best.idle.extend(fio::run(&target.path, way, 1));
            best.busy.extend(fio::run(&target.path, way, target.requests));
        }
    }
    let theirs: Vec<_> = theirs.into_iter().map(|(way, runs)| (way, runs.load(target.requests))).collect();
    let least = |load: &Option<Load>| load.map_or(f64::INFINITY, |load| load.cpu_us);
    let fio_cpu = theirs.iter().map(|(_, load)| least(load)).fold(f64::INFINITY, f64::min);
    let fio_rate = theirs.iter().filter_map(|(_, load)| load.map(|load| load.rate)).fold(0.0, f64::max);
    let mut met = true;
    let ours = ours.into_iter().map(|(engine, load)| (format!("arraylab {engine}"), engine == chosen, load));
    let theirs =
        theirs.into_iter().map(|(way, load)| (format!("fio {}", way.join(" ").replace("--", "")), false, load));
    for (way, is_chosen, load) in ours.chain(theirs) {
        let Some(Load { rate, cpu_us }) = load else { continue };
        let ratio = cpu_us / fio_cpu;
        let verdict = match is_chosen {
            true if cpu_us <= fio_cpu && rate >= fio_rate => "   at most fio's best, rate no lower: met",
            true if cpu_us <= fio_cpu => "   at most fio's best: met, but the rate is lower",
            true => "   at most fio's best: MISSED",
            false => "",
        };
        met &= !is_chosen || cpu_us <= fio_cpu;
        let short: String = way.chars().take(44).collect();
        println!("    {short:<44} {rate:>9.0} /s {cpu_us:>6.3} us {ratio:>6.2} x{verdict}");
        table.row(&[target.name.into(), way, format!("{rate:.0}"), format!("{cpu_us:.3}"), format!("{ratio:.3}")]);
    }
    met
}

/// Each figure by itself: what others do to the machine only ever adds to the time, and takes from the rate.
fn keep_best(best: &mut Option<Load>, load: Option<Load>) {
    *best = match (*best, load) {
        (Some(old), Some(new)) => Some(Load { rate: old.rate.max(new.rate), cpu_us: old.cpu_us.min(new.cpu_us) }),
        (old, new) => new.or(old),
    };
}

/// Runs of fio: of a single request, and of all.
#[derive(Default)]
struct Fio {
    idle: Vec<fio::Run>,
    busy: Vec<fio::Run>,
}

impl Fio {
    /// The least time of all requests over the least time of one; not the least difference, which noise makes smaller.
    fn load(&self, requests: u64) -> Option<Load> {
        let least = |runs: &[fio::Run]| runs.iter().map(|run| run.cpu).reduce(f64::min);
        let rate = self.busy.iter().map(|run| run.rate).reduce(f64::max)?;
        let cpu = least(&self.busy)? - least(&self.idle)?;
        Some(Load { rate, cpu_us: cpu * 1e6 / requests as f64 })
    }
}

fn choice(target: &Target) -> (Engine, String) {
    warm(&target.path);
    let live = Live::start(&LiveOptions::default());
    let device = open(&live, target, None);
    (device.choice().engine, device.choice().reason.clone())
}

fn open(live: &Live, target: &Target, engine: Option<Engine>) -> FileDevice {
    let options = FileOptions { engine, ..target.options.clone() };
    FileDevice::open_read_only(live, &target.path, &options).unwrap_or_else(|error| panic!("{error}"))
}

/// A closed loop: each task reads a random block as soon as it has read the last one.
fn measure(target: &Target, engine: Engine) -> Option<Load> {
    let live = Live::start(&LiveOptions::default());
    if engine == Engine::IoUring && live.ring().is_err() {
        return None;
    }
    let device = Rc::new(open(&live, target, Some(engine)));
    let (buffers, registered) = live.buffers(DEPTH, BLOCK);
    registered.unwrap_or_else(|error| panic!("{error}"));
    let blocks = device.shape().size / BLOCK;
    let left = Rc::new(Cell::new(target.requests));
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let tasks: Vec<_> = buffers
        .into_iter()
        .enumerate()
        .map(|(lane, buffer)| {
            live.runtime().spawn(lane_of(Rc::clone(&device), Rc::clone(&left), buffer, blocks, lane as u64))
        })
        .collect();
    live.runtime().block_on(async {
        for task in tasks {
            task.await;
        }
    });
    let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let requests = target.requests as f64;
    Some(Load { rate: requests / wall, cpu_us: cpu * 1e6 / requests })
}

async fn lane_of(device: Rc<FileDevice>, left: Rc<Cell<u64>>, mut buffer: Buffer, blocks: u64, lane: u64) {
    let mut random = Random::new(lane);
    while left.get() > 0 {
        left.set(left.get() - 1);
        let block = (u128::from(random.next_u64()) * u128::from(blocks)) >> 64;
        let reply = device.submit(Request::read(BLOCK * block as u64, buffer)).await;
        reply.result.unwrap_or_else(|error| panic!("{error}"));
        buffer = reply.buffer.expect("a read's buffer comes back");
    }
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
