//! Advice: what about a measurement should not be trusted, and which option to change.
//!
//! As hyperfine does, each remark says what was seen, with the numbers, what it means, and what to do about it. The
//! thresholds stand beside their reasons. A run without remarks is not thereby right; a run with one is rarely right.

use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Frequency, Ratio};

use crate::occupancy::Occupancy;
use crate::summary::{Group, Summary};
use crate::trend::Trend;

/// One remark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// What it is about.
    pub kind: AdviceKind,
    /// What was seen and what it means, in one sentence or two.
    pub message: String,
    /// What to change, as `--set` takes it (`run.passes`); `None` if no option helps.
    pub option: Option<String>,
}

/// What a remark is about. The names in JSON stay stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // each is explained where it is given
pub enum AdviceKind {
    Errors,
    RowsLost,
    TooFewRequests,
    TooShort,
    OnePass,
    PassesDiffer,
    Unsteady,
    StartUpTooShort,
    GeneratorSaturated,
    CallsSaturated,
    QueueNotFull,
    OfferedLoadNotReached,
    WaitingToBeIssued,
    PageCache,
    Holes,
    RecordingLate,
}

/// What a summary does not say about its run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Facts {
    /// The load of each stream, in the order of the summary's streams.
    pub loads: Vec<Load>,
    /// Share of its processor that the busiest thread of the generator used in the counted time; `None` for modelled
    /// runs.
    pub generator_busy: Option<Ratio>,
    /// Set if requests went through the page cache.
    pub page_cache: Option<PageCache>,
    /// Files that were read although their medium does not store all of them: names, and the share that it does not.
    pub hollow: Vec<(String, Ratio)>,
    /// Requests that have no row.
    pub rows_lost: u64,
    /// Chunks of the record whose memory was first touched within the run.
    pub late_chunks: u64,
}

/// The load of a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// The next request follows a completion.
    Closed {
        /// Requests under way, on all devices of the stream together.
        depth: u32,
        /// Time from a completion to the next request.
        think: Duration,
    },
    /// Requests follow a schedule.
    Open {
        /// Their rate, on all devices of the stream together.
        offered: Frequency,
        /// The standard deviation of the distances between them over their mean: of a Poisson process 1.
        variation: Ratio,
    },
    /// A rate that it keeps to decides: neither its queue nor its rate says anything of the generator.
    Held,
}

/// A buffered run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageCache {
    /// What the streams read and write in all.
    pub regions: Bytes,
    /// The memory that the page cache may take.
    pub memory: Bytes,
}

/// A percentile needs about ten requests beyond it before it stops depending on single ones.
const REQUESTS_FOR_P99: u64 = 1000;

/// While the queue fills and drains, the load is not the one that was asked for; so long as these edges are less than a
/// hundredth of the requests, they do not matter.
const REQUESTS_PER_DEPTH: f64 = 100.0;

/// Means that are known to less than this are compared in vain with others.
const WIDE: f64 = 0.05;

/// A thread that has less than a tenth of its processor left delays some requests for want of it.
pub const SATURATED: f64 = 0.9;

/// Offered load counts as reached down to this share.
const REACHED: f64 = 0.99;

/// All remarks on a run, the gravest first.
pub fn advise(summary: &Summary, occupancies: &[Occupancy], trends: &[Trend], facts: &Facts) -> Vec<Advice> {
    let mut advice = Vec::new();
    errors(summary, &mut advice);
    recording(summary, facts, &mut advice);
    holes(facts, &mut advice);
    let flushing = flushing(summary);
    for (stream, load) in summary.streams.iter().zip(&facts.loads) {
        match load {
            Load::Open { offered, variation } => open_loop(stream, *offered, *variation, &mut advice),
            Load::Held => {}
            Load::Closed { depth, think } => closed_loop(stream, (*depth, *think), flushing, facts, &mut advice),
        }
    }
    generator(facts, &mut advice);
    amount(summary, &mut advice);
    passes(summary, &mut advice);
    steadiness(occupancies, trends, &mut advice);
    page_cache(facts, &mut advice);
    advice
}

/// Adds a remark.
fn say(advice: &mut Vec<Advice>, kind: AdviceKind, message: String, option: impl Into<Option<&'static str>>) {
    advice.push(Advice { kind, message, option: option.into().map(str::to_owned) });
}

/// Adds a remark on an option of a stream.
fn say_of(advice: &mut Vec<Advice>, kind: AdviceKind, message: String, stream: &Group, option: &str) {
    advice.push(Advice { kind, message, option: Some(format!("stream.{}.{option}", stream.name)) });
}

fn errors(summary: &Summary, advice: &mut Vec<Advice>) {
    let total = &summary.total.figures;
    if total.errors > 0 {
        let each: Vec<String> =
            total.errors_by_errno.iter().map(|error| format!("errno {}: {}", error.errno, error.count)).collect();
        let message = format!(
            "{} of {} requests failed ({}). Rates and latencies are those of the others",
            total.errors,
            total.errors + total.requests,
            each.join(", ")
        );
        say(advice, AdviceKind::Errors, message, "run.on-error");
    }
}

fn recording(summary: &Summary, facts: &Facts, advice: &mut Vec<Advice>) {
    if facts.rows_lost > 0 {
        let message = format!(
            "{} requests have no record, as memory and disk for records were used up; everything reported is of the {} others",
            facts.rows_lost, summary.total.figures.requests
        );
        say(advice, AdviceKind::RowsLost, message, None);
    }
    if facts.late_chunks > 0 {
        let message = format!(
            "memory for records was not ready {} times and was touched within the run, at about a thousand page faults each; some latencies contain them",
            facts.late_chunks
        );
        say(advice, AdviceKind::RecordingLate, message, None);
    }
}

/// Reads of places that no medium stores.
fn holes(facts: &Facts, advice: &mut Vec<Advice>) {
    for (name, share) in &facts.hollow {
        say(advice, AdviceKind::Holes, hollow(name, *share), "precondition.laps");
    }
}

/// What is to be said of a file of holes, before it is read and afterwards.
pub fn hollow(name: &str, share: Ratio) -> String {
    format!(
        "{share} of {name} was never written (holes or unwritten extents): the file system answers reads of it from memory, and the disk is not \
         measured. Write the file first: `cp --sparse=never FILE COPY` makes a copy without holes, [precondition] writes all that the streams use"
    )
}

fn open_loop(stream: &Group, offered: Frequency, variation: Ratio, advice: &mut Vec<Advice>) {
    let figures = &stream.figures;
    let reached = figures.iops.get() / offered.get();
    // The standard deviation of a number of arrivals is its root, times the variation of their distances; three of them
    // are chance. A regular stream, which has none, may end one or two requests short.
    let chance = 3.0 * variation.get().max(1.0) / (offered.get() * figures.time.as_seconds()).max(1.0).sqrt();
    let waits = figures.wait.map_or(Duration::ZERO, |wait| wait.mean);
    if reached < REACHED && reached < 1.0 - chance {
        let message = format!(
            "stream '{}' was offered {offered} and {} were done: the device cannot follow, and response times grow for as long as the run lasts (requests waited {waits} on average)",
            stream.name, figures.iops
        );
        say_of(advice, AdviceKind::OfferedLoadNotReached, message, stream, "arrivals");
    } else if let Some(service) = figures.service
        && waits > service.mean
    {
        let message = format!(
            "requests of stream '{}' waited {waits} on average before they were issued, longer than the {} they took: either more may be under way, or the generator is too slow",
            stream.name, service.mean
        );
        say_of(advice, AdviceKind::WaitingToBeIssued, message, stream, "outstanding");
    }
}

/// Flushes that are under way on average. They belong to no stream, but each holds back the one that it follows.
fn flushing(summary: &Summary) -> f64 {
    let flushes = summary.operations.iter().find(|group| group.name == "flush");
    let figures = flushes.map(|group| &group.figures);
    figures.map_or(0.0, |it| it.iops.get() * it.service.map_or(0.0, |service| service.mean.as_seconds()))
}

/// A closed loop without think time keeps its queue full. What is missing from the queue at the device is in the
/// generator.
fn closed_loop(
    stream: &Group,
    (depth, think): (u32, Duration),
    flushing: f64,
    facts: &Facts,
    advice: &mut Vec<Advice>,
) {
    let figures = &stream.figures;
    let Some(service) = figures.service else { return };
    let at_device = figures.iops.get() * service.mean.as_seconds() + flushing;
    // The time of requests that failed is not in the mean, and in a short run the queue fills and drains for most of
    // it. A model's machine has no generator: what its queue lacks, the load itself has left out.
    let Some(generator_busy) = facts.generator_busy else { return };
    let known_cause = figures.errors > 0 || generator_busy.get() >= SATURATED;
    let long_enough = figures.requests as f64 >= f64::from(depth) * REQUESTS_PER_DEPTH;
    let enough = long_enough && figures.requests >= REQUESTS_FOR_P99;
    if think.is_zero() && at_device < 0.8 * f64::from(depth) && !known_cause && enough {
        let message = format!(
            "stream '{}' should have {depth} requests under way and had {at_device:.1} on average: the rest of the time they were in the generator, which limits the rate as much as the device does",
            stream.name
        );
        say(advice, AdviceKind::QueueNotFull, message, "io.engine");
    }
}

fn generator(facts: &Facts, advice: &mut Vec<Advice>) {
    if let Some(busy) = facts.generator_busy.filter(|busy| busy.get() >= SATURATED) {
        if facts.page_cache.is_some() {
            let message = format!(
                "bound by calls: the thread that makes the calls used {busy} of its processor. That includes the file system's work and the copies, so the rate is a program's, not the device's. Larger requests need fewer calls"
            );
            return say(advice, AdviceKind::CallsSaturated, message, "stream.size");
        }
        let message = format!(
            "generator-bound: the generator used {busy} of its processor, so the rate is the generator's, not the device's. Larger requests or a cheaper engine leave it time"
        );
        say(advice, AdviceKind::GeneratorSaturated, message, "io.engine");
    }
}

fn amount(summary: &Summary, advice: &mut Vec<Advice>) {
    let total = &summary.total.figures;
    if total.requests < REQUESTS_FOR_P99 {
        let message = format!(
            "{} requests were counted; a 99th percentile needs {REQUESTS_FOR_P99}, a 99.9th ten times as many",
            total.requests
        );
        say(advice, AdviceKind::TooFewRequests, message, "run.measure");
    }
    let passes = summary.total.passes.iter().filter(|pass| pass.requests > 0);
    let edges = passes.filter_map(|pass| {
        let under_way = pass.iops.get() * pass.service?.mean.as_seconds();
        (pass.requests as f64 / under_way.max(1.0)).into()
    });
    let fewest = edges.fold(f64::INFINITY, f64::min);
    let covered = summary.uncounted.start_up > 0 && summary.uncounted.cool_down > 0;
    if fewest < REQUESTS_PER_DEPTH && !covered {
        let message = format!(
            "a pass has only {fewest:.0} times as many requests as were under way at once: filling and draining the queue is a good part of it. Measure longer, or let load be on before and after"
        );
        say(advice, AdviceKind::TooShort, message, "run.measure");
    }
}

fn passes(summary: &Summary, advice: &mut Vec<Advice>) {
    let Some(spread) = summary.total.spread else {
        let message = "one pass says nothing about how repeatable it is; three or more do".to_owned();
        return say(advice, AdviceKind::OnePass, message, "run.passes");
    };
    let iops = spread.iops;
    let wide = iops.relative_half_width().filter(|width| width.get() > WIDE);
    if let (Some(width), Some(range)) = (wide, iops.relative_spread()) {
        let rates: Vec<f64> = summary.total.passes.iter().map(|pass| pass.iops.get()).collect();
        let course = match rates.as_slice() {
            rates if rates.len() > 2 && rates.is_sorted_by(|a, b| a < b) => {
                ", each faster than the one before (a cache that fills?)"
            }
            rates if rates.len() > 2 && rates.is_sorted_by(|a, b| a > b) => {
                ", each slower than the one before (a device that runs out of spare blocks, or heats up?)"
            }
            _ => "",
        };
        let message = format!(
            "the passes differ by {range}{course}, so the mean of {} is known to +-{width} only. More passes narrow it; something else may be using the device",
            iops.samples
        );
        say(advice, AdviceKind::PassesDiffer, message, "run.passes");
    }
}

fn steadiness(occupancies: &[Occupancy], trends: &[Trend], advice: &mut Vec<Advice>) {
    if let Some(worst) = trends.iter().max_by_key(|trend| trend.settled_after) {
        let (how, early) = match worst.early.get() {
            early if early > 1.0 => ("faster", early - 1.0),
            early => ("slower", 1.0 - early),
        };
        let message = format!(
            "the counted time began {} {how} than it went on; it settled after {}. A start-up that is longer by that leaves it out",
            Ratio::new(early),
            worst.settled_after
        );
        return say(advice, AdviceKind::StartUpTooShort, message, "run.start-up");
    }
    // Little's law; see `occupancy`.
    let worst = occupancies.iter().max_by(|a, b| a.imbalance.get().total_cmp(&b.imbalance.get()));
    if let Some(worst) = worst.filter(|worst| worst.imbalance.get() > WIDE) {
        let message = format!(
            "on {} the mean number of requests under way ({:.2}) and what rate and service time make of it differ by {}: requests hang over the edges of the counted time, which is too short for them or not steady",
            worst.device, worst.mean_depth, worst.imbalance
        );
        say(advice, AdviceKind::Unsteady, message, "run.measure");
    }
}

fn page_cache(facts: &Facts, advice: &mut Vec<Advice>) {
    if let Some(cache) = facts.page_cache.filter(|cache| cache.regions <= cache.memory) {
        let message = format!(
            "buffered requests to {} of data, which fit into the {} that the page cache may take: after the first time round, memory is measured, not the device",
            cache.regions, cache.memory
        );
        say(advice, AdviceKind::PageCache, message, "io.mode");
    }
}
