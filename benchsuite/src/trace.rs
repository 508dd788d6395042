//! What it costs to follow requests through the kernel (`arraylab run --trace`), and how many are followed: random
//! reads of 4 KiB of a loop device over tmpfs, with tracing and without in turns.
//!
//! The cost is the difference of the processor time of the whole process for each request: the trace points on a
//! request's way, the thread that reads them, and the join after the run. A loop device completes its requests in
//! threads of the kernel, which pass a trace point, too; so the processor time of the kernel's threads is shown as
//! well, whomever they serve. Figures are medians, differences those of neighbouring runs.

use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::AtomicBool;

use device::Buffer;
use host::Kernel;
use host::cpu::Snapshot;
use lab::{Experiment, Silent, Source, Tally, Target, Ways};
use rand::Rng;
use runtime::Random;
use scratch::Loop;
use units::Bytes;

use crate::measure::{amount, cpu_seconds};
use crate::runs::Table;

/// Turns, each with and without.
const TURNS: u32 = amount(7, 1);
/// Milliseconds that each run measures.
const TIME: u32 = amount(3000, 100);
const SIZE: Bytes = Bytes::mib(256);
/// The least share of requests that is followed.
const JOINED: f64 = 0.995;
/// The most that following one may cost, in microseconds.
const COST: f64 = 1.5;
/// The most of its rate that a load may lose which the machine serves without effort.
const SLOWER: f64 = 0.05;

/// Loads: what they are called, their stream in TOML, and whether the bar on the rate is for them.
const LOADS: [(&str, &str, bool); 3] = [
    ("50,000/s", "arrivals = { constant = \"50000/s\" }\noutstanding = 256", true),
    ("100,000/s", "arrivals = { constant = \"100000/s\" }\noutstanding = 256", false),
    ("depth 32", "depth = 32", false),
];

/// What one run came to.
struct Once {
    rate: f64,
    /// Processor time for each request, in microseconds: of the process, and of the kernel's threads.
    own: f64,
    kernel: f64,
    /// What was followed.
    tally: Option<Tally>,
}

/// Measures all loads.
pub fn run() -> bool {
    let device = match Loop::over("/dev/shm".as_ref(), SIZE, false) {
        Ok(device) => device,
        Err(refused) => return skipped(&refused.to_string()),
    };
    fill(&device);
    let mut table =
        Table::new("trace", &["load", "rate_per_s", "followed", "lost", "own_us_more", "kernel_us_more", "rate_ratio"]);
    let mut met = true;
    for (name, stream, bar_on_rate) in LOADS {
        match compare(&device, name, stream, bar_on_rate, &mut table) {
            Ok(one) => met &= one,
            Err(why) => return skipped(&why),
        }
    }
    table.keep();
    met
}

fn skipped(why: &str) -> bool {
    println!("  skipped: {why}");
    true
}

/// Writes the whole device, which is of this bench's own making: of holes nothing is read.
fn fill(device: &Loop) {
    let mut file = std::fs::OpenOptions::new().write(true).open(device.path()).expect("it was just made");
    let (mut random, mut buffer) = (Random::named(1, "contents"), Buffer::zeroed(Bytes::mib(1)));
    for _ in 0..SIZE / Bytes::mib(1) {
        let bytes = buffer.bytes_mut().expect("it is real memory");
        random.fill_bytes(bytes);
        file.write_all(bytes).expect("it takes as much as it was made for");
    }
    file.sync_all().expect("it takes as much as it was made for");
}

fn compare(device: &Loop, name: &str, stream: &str, bar_on_rate: bool, table: &mut Table) -> Result<bool, String> {
    let text = format!(
        "[run]\nstart-up = \"200 ms\"\nmeasure = \"{TIME} ms\"\n[[stream]]\nname = \"readers\"\noperation = \"read\"\n\
         pattern = \"random\"\nsize = \"4 KiB\"\n{stream}\n"
    );
    let source = Source { name: "trace.toml".to_owned(), text };
    let points = lab::read(&source, &[]).map_err(|error| error.to_string())?;
    let experiment = points.into_iter().next().ok_or("no point")?.experiment;
    let (mut off, mut on) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        off.push(once(&experiment, device, false)?);
        on.push(once(&experiment, device, true)?);
    }
    let pairs = || off.iter().zip(&on);
    let own = median(pairs().map(|(off, on)| on.own - off.own));
    let kernel = median(pairs().map(|(off, on)| on.kernel - off.kernel));
    let ratio = median(pairs().map(|(off, on)| on.rate / off.rate));
    let rate = median(on.iter().map(|on| on.rate));
    let tallies = || on.iter().filter_map(|on| on.tally.as_ref());
    let share = tallies().map(|tally| tally.share.get()).fold(1.0, f64::min);
    let lost: u64 = tallies().map(|tally| tally.lost).sum();
    let reading = median(tallies().map(|tally| tally.reading.as_seconds() * 1e6));
    let joining = median(tallies().map(|tally| tally.joining.as_seconds() * 1e6));
    let met = share >= JOINED && own <= COST && (!bar_on_rate || ratio >= 1.0 - SLOWER);
    let without = median(off.iter().map(|off| off.own));
    println!(
        "  {name:<10} {rate:>7.0} /s   followed at least {:.3} %, {lost} events lost   own {own:+.2} us a request ({without:.2} without), of that {reading:.2} reading, {joining:.2} joining   kernel's threads {kernel:+.2} us   {ratio:.3} x the rate: {}",
        share * 100.0,
        if met { "met" } else { "MISSED" }
    );
    table.row(&[
        name.to_owned(),
        format!("{rate:.0}"),
        format!("{share:.5}"),
        lost.to_string(),
        format!("{own:.3}"),
        format!("{kernel:.3}"),
        format!("{ratio:.4}"),
    ]);
    Ok(met)
}

fn once(experiment: &Experiment, device: &Loop, trace: bool) -> Result<Once, String> {
    let mut experiment = experiment.clone();
    experiment.run.trace = trace;
    let targets = [Target::Path(device.path().to_owned())];
    let (permits, interrupted) = (HashMap::new(), AtomicBool::new(false));
    let record_memory = Bytes::gib(1);
    let ways = Ways {
        permits: &permits,
        record_memory,
        folder: None,
        interrupted: &interrupted,
        progress: &Silent,
        party: None,
    };
    let kernel = Kernel::running();
    let before = Snapshot::take(&kernel).map_err(|error| error.to_string())?;
    let cpu = cpu_seconds();
    let outcome = lab::run("trace", &experiment, &targets, &ways).map_err(|error| error.to_string())?;
    let cpu = cpu_seconds() - cpu;
    let usage = before.until(&Snapshot::take(&kernel).map_err(|error| error.to_string())?);
    let timeline = outcome.conclusion.timeline.as_ref().map(|timeline| &timeline.tally);
    if trace && timeline.is_none() {
        return Err(outcome.conclusion.remarks.join("; "));
    }
    let figures = &outcome.summary.total.figures;
    let requests = outcome.recording.rows() as f64;
    let kernel: f64 = usage.kernel_threads.iter().map(|thread| thread.time.as_seconds()).sum();
    Ok(Once {
        rate: figures.iops.get(),
        own: cpu * 1e6 / requests,
        kernel: kernel * 1e6 / requests,
        tally: timeline.cloned(),
    })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
