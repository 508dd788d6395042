//! What a request costs on real devices, beside fio: random reads of 4 KiB, 32 under way, in one thread.
//!
//! Ours are made as an experiment makes them, by `workload`, and every one is recorded; fio keeps no record of requests
//! and reads no clock for them. fio runs with the options that cost it least on that target; where several are listed,
//! the way that turns out cheapest is the one to be compared with. Where waiting for several completions pays, at the
//! price of when they are seen, ours is measured with that option too, and meets the bar if one of its ways does. Every
//! target is read as a whole before each pair of runs, as memory that was idle may have been paged out.
//!
//! What counts is the processor time of the whole process for each request, with the threads that the kernel starts in
//! its name, and the rate. The machine is shared, and what others do adds to the one and takes from the other. So ours
//! and fio take turns, and the verdict is the median of the ratios of neighbouring runs. On a busy machine the ratios
//! of rates say little all the same.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use device::{Buffer, NullDevice, Shape};
use rand::Rng;
use runtime::Random;
use rustix::fs::OFlags;
use scratch::{Loop, Zram};
use units::Bytes;
use uring::{Choice, Engine, FileDevice, FileOptions, Live, LiveOptions, Mode, RingOptions};

use crate::fio;
use crate::load::{self, Cost};
use crate::runs::Table;

/// How often the two take turns, as far as the time lasts, but at least so often.
const PAIRS: (usize, usize) = (5, 9);
/// For the turns on one target, unless its fewest take longer; all targets together take two minutes.
const TIME: Duration = Duration::from_secs(16);
/// How often our other engines, which nobody is compared with, have a turn.
const OTHERS: usize = 1;
const SIZE: Bytes = Bytes::mib(512);
/// The most that a request on the null device may cost, in microseconds.
const NULL_BAR: f64 = 0.25;

/// A target, and how it is loaded.
#[derive(Clone)]
struct Target {
    name: &'static str,
    path: PathBuf,
    options: FileOptions,
    /// In each run.
    requests: u64,
    /// Our engines besides the chosen one, to show what the choice is worth.
    others: &'static [Engine],
    /// Completions that ours waits for at a time, in runs of their own: `gather` in an experiment's `[io]`, as fio's
    /// `iodepth_batch_complete_min`.
    gather: Option<u32>,
    /// fio's ways, as words of its command line.
    fio: &'static [&'static str],
}

const RING: &str = "--ioengine=io_uring --direct=1 --iodepth=32 --fixedbufs --registerfiles";

/// Cheaper where another thread completes requests, but latencies are found late.
const RING_GATHERING: &str = "--ioengine=io_uring --direct=1 --iodepth=32 --fixedbufs --registerfiles \
                              --iodepth_batch_submit=16 --iodepth_batch_complete_min=8 --iodepth_batch_complete_max=32";

/// A bench of one target; false if a bar was missed.
type One = fn(&mut Table) -> bool;

/// `BENCHSUITE_TARGET=zram` picks one.
pub fn run() -> bool {
    let picked = std::env::var("BENCHSUITE_TARGET").ok();
    let all: [(&str, One); 4] = [("null", null), ("file", cached_file), ("zram", zram), ("loop", loop_in_memory)];
    let headings = ["target", "way", "cpu_us_per_request", "rate_per_s", "cpu_ratio_to_fio", "rate_ratio_to_fio"];
    let mut table = Table::new("engines", &headings);
    let mut met = true;
    for (name, bench) in all {
        if picked.as_deref().is_none_or(|picked| picked == name) {
            met &= bench(&mut table);
        }
    }
    table.keep();
    met
}

/// No device: what remains is the generator, the executor and the recorder.
fn null(table: &mut Table) -> bool {
    println!("  null device");
    const REQUESTS: u64 = 1_000_000;
    let live = Live::start(&LiveOptions::default());
    let device = NullDevice::new(live.runtime(), Shape::new("null", SIZE));
    let costs: Vec<Cost> = (0..PAIRS.1).map(|_| load::run(&live, &device, REQUESTS)).collect();
    let cost = median(&costs);
    let met = cost.cpu <= NULL_BAR;
    let verdict = format!("bar {NULL_BAR} us: {}", if met { "met" } else { "MISSED" });
    print("arraylab", cost, &verdict);
    table.row(&["null device".into(), "arraylab".into(), format!("{:.3}", cost.cpu), format!("{:.0}", cost.rate)]);
    met
}

fn cached_file(table: &mut Table) -> bool {
    let file = tempfile::NamedTempFile::new_in(".").expect("the present folder takes files");
    file.as_file().set_len(SIZE.get()).expect("the present folder's file system has room");
    let target = Target {
        name: "cached file",
        path: file.path().to_owned(),
        options: FileOptions::buffered(),
        requests: 700_000,
        others: &[Engine::Sync, Engine::IoUring],
        gather: None,
        fio: &["--ioengine=mmap", "--ioengine=psync"],
    };
    fill(&target);
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
        requests: 200_000,
        others: &[Engine::IoUring],
        gather: None,
        fio: &["--ioengine=psync --direct=1", RING],
    };
    fill(&target);
    compare(&target, table)
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
        // What fio takes to start is a quarter of a second, and is not the same each time: the run is long enough for
        // that not to matter.
        requests: 500_000,
        others: &[],
        gather: Some(12),
        fio: &[RING, RING_GATHERING],
    };
    fill(&target);
    compare(&target, table)
}

fn skipped(refused: &scratch::Refused) -> bool {
    println!("  skipped: {refused}");
    true
}

/// Several runs of one way.
struct Runs<W> {
    way: W,
    costs: Vec<Cost>,
}

fn compare(target: &Target, table: &mut Table) -> bool {
    println!("  {}", target.name);
    warm(target);
    let Choice { engine, reason } = measure(target, None, 1, 1).1;
    println!("    chosen: {engine}, as {reason}");
    let gathers = std::iter::once(1).chain(target.gather);
    let mut ours = gathers.map(|gather| Runs { way: gather, costs: Vec::new() }).collect::<Vec<_>>();
    let mut others = target.others.iter().map(|engine| Runs { way: *engine, costs: Vec::new() }).collect::<Vec<_>>();
    let mut fios = target.fio.iter().map(|way| Runs { way: *way, costs: Vec::new() }).collect::<Vec<_>>();
    let started: Vec<_> = target.fio.iter().map(|way| fio::start_and_end(&target.path, way)).collect();
    let begin = Instant::now();
    for pair in 0..PAIRS.1 {
        if pair >= PAIRS.0 && begin.elapsed() > TIME {
            break;
        }
        warm(target);
        for runs in &mut ours {
            runs.costs.push(measure(target, None, runs.way, target.requests).0);
        }
        for (runs, started) in fios.iter_mut().zip(&started) {
            runs.costs.extend(fio::run(&target.path, runs.way, target.requests, *started));
        }
        for runs in others.iter_mut().filter(|_| pair < OTHERS) {
            runs.costs.push(measure(target, Some(runs.way), 1, target.requests).0);
        }
    }
    fios.retain(|runs| runs.costs.len() == ours[0].costs.len());
    let best = cheapest(&fios);
    let ratio = |ours: &[Cost], of: fn(&Cost) -> f64| {
        best.map(|fio| middle(ours.iter().zip(&fio.costs).map(|(ours, fio)| of(ours) / of(fio))))
    };
    let mut line = |way: &str, costs: &[Cost], verdict: &str, ratios: [String; 2]| {
        let cost = median(costs);
        print(way, cost, verdict);
        let [cpu, rate] = ratios;
        let cells =
            [target.name.into(), way.into(), format!("{:.3}", cost.cpu), format!("{:.0}", cost.rate), cpu, rate];
        table.row(&cells);
    };
    let mut met = false;
    for runs in &ours {
        let (cpu, rate) = (ratio(&runs.costs, |cost| cost.cpu), ratio(&runs.costs, |cost| cost.rate));
        let meets = cpu.is_none_or(|ratio| ratio <= 1.0) && rate.is_none_or(|ratio| ratio >= 1.0);
        met |= meets;
        let (cpu, rate) = (cpu.unwrap_or(f64::NAN), rate.unwrap_or(f64::NAN));
        let verdict = format!(
            "{cpu:.2} x the time, {rate:.2} x the rate of fio's best, {} pairs: {}",
            runs.costs.len(),
            if meets { "met" } else { "MISSED" }
        );
        let gathering = if runs.way > 1 { format!(" gather={}", runs.way) } else { String::new() };
        line(
            &format!("arraylab {engine}{gathering}"),
            &runs.costs,
            &verdict,
            [format!("{cpu:.3}"), format!("{rate:.3}")],
        );
    }
    for runs in &others {
        line(&format!("arraylab {}, not chosen", runs.way), &runs.costs, "", Default::default());
    }
    for runs in &fios {
        line(&format!("fio {}", runs.way.replace("--", "")), &runs.costs, "", Default::default());
    }
    met
}

/// The way that costs least.
fn cheapest<W>(runs: &[Runs<W>]) -> Option<&Runs<W>> {
    runs.iter().min_by(|a, b| median(&a.costs).cpu.total_cmp(&median(&b.costs).cpu))
}

fn print(way: &str, Cost { cpu, rate }: Cost, verdict: &str) {
    println!("    {way:<44.44} {cpu:>7.3} us {rate:>9.0} /s   {verdict}");
}

/// The median of each figure.
fn median(costs: &[Cost]) -> Cost {
    Cost { cpu: middle(costs.iter().map(|cost| cost.cpu)), rate: middle(costs.iter().map(|cost| cost.rate)) }
}

fn middle(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// One run of ours, by the engine that is chosen if none is given.
fn measure(target: &Target, engine: Option<Engine>, gather: u32, requests: u64) -> (Cost, Choice) {
    let ring = RingOptions { gather, ..RingOptions::default() };
    let live = Live::start(&LiveOptions { ring, ..LiveOptions::default() });
    let options = FileOptions { engine, ..target.options.clone() };
    let device = FileDevice::open_read_only(&live, &target.path, &options).unwrap_or_else(|error| panic!("{error}"));
    (load::run(&live, &device, requests), device.choice().clone())
}

/// Opens a target past the page cache if it is measured so.
fn open(target: &Target, options: &mut OpenOptions) -> File {
    if target.options.mode == Mode::Direct {
        options.custom_flags(OFlags::DIRECT.bits() as i32);
    }
    options.open(&target.path).expect("it was just made")
}

/// Writes the whole target full of what does not compress. It is one of this bench's own making.
fn fill(target: &Target) {
    let mut file = open(target, OpenOptions::new().write(true));
    let mut random = Random::named(1, "contents");
    let mut buffer = Buffer::zeroed(Bytes::mib(1));
    for _ in 0..SIZE / Bytes::mib(1) {
        let bytes = buffer.bytes_mut().expect("it is real memory");
        random.fill_bytes(bytes);
        file.write_all(bytes).expect("it takes as much as it was made for");
    }
    file.sync_all().expect("it takes as much as it was made for");
}

/// Reads all of it: memory that nobody has touched for a while may have been paged out.
fn warm(target: &Target) {
    let mut file = open(target, OpenOptions::new().read(true));
    let mut buffer = Buffer::zeroed(Bytes::mib(1));
    while file.read(buffer.bytes_mut().expect("it is real memory")).expect("it can be read") > 0 {}
}
