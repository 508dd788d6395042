//! Results in the shape of `fio --output-format=json`, so that programs that read fio's results read these.
//!
//! All fields of fio 3.33 are there under its names and in its units, and those only that fio would print: what of
//! times and percentiles a job asks for, and whether directions are told apart ([`Shown`]). `runtime` is in whole
//! milliseconds, rounded up, and rates are over that, as fio has them. Without a meaning here, and so always zero:
//! `short_ios`, `drop_ios`; `iodepth_submit` and `iodepth_complete` say that requests go one at a time. In
//! `iodepth_level` fio counts flushes beside requests, so that shares exceed 100 percent; here they are of requests
//! alone.

use std::collections::BTreeMap;
use std::time::SystemTime;

use analysis::Moments;
use analysis::by_job::{JobTally, LATENCIES, LATENCY_BINS, Side};
use record::{FIO_PERCENTILES, Histogram};
use serde_json::{Map, Value, json};
use units::{Duration, Ratio};

/// A job, or a group of jobs that is reported as one.
#[derive(Debug, Clone)]
pub struct FioJob {
    /// Of the first of the group.
    pub name: String,
    /// The group.
    pub group: u32,
    /// Its options as they were given.
    pub options: BTreeMap<String, String>,
    /// What it came to.
    pub tally: JobTally,
    /// How many jobs it stands for.
    pub jobs: u32,
    /// What its threads took.
    pub used: Used,
    /// The depth it asked for, or was at when a search for one ended.
    pub depth: u32,
    /// What it searched for.
    pub search: Option<Search>,
    /// Flushes that were of times and attributes, too; fio counts these alone in `total_ios`.
    pub fsyncs: u64,
    /// What of it is printed.
    pub shown: Shown,
}

/// A search for the deepest queue that keeps to a latency: `latency_target`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Search {
    /// The latency.
    pub target: Duration,
    /// How long each depth was tried.
    pub window: Duration,
    /// How many requests were to keep to it, in percent.
    pub percent: f64,
}

/// What a thread, or the share of a job in several, took from the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    /// Processor time in user mode.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// Context switches, of its own accord and not.
    pub switches: u64,
    /// Page faults for which something was read.
    pub major_faults: u64,
    /// Other page faults.
    pub minor_faults: u64,
}

/// What of a job fio prints.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// `slat`, `clat`, `lat`: whether they are measured, and whether their percentiles are printed.
    pub times: [(bool, bool); 3],
    /// Whether rates are sampled.
    pub samples: bool,
    /// Which percentiles, in percent.
    pub percentiles: Vec<f64>,
    /// Directions.
    pub directions: Directions,
}

/// How directions are reported: `unified_rw_reporting`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Directions {
    /// Each for itself.
    #[default]
    Apart,
    /// All as one.
    Mixed,
    /// Both.
    Both,
}

impl Default for Shown {
    fn default() -> Shown {
        Shown {
            times: [(true, false), (true, true), (true, false)],
            samples: true,
            percentiles: FIO_PERCENTILES.to_vec(),
            directions: Directions::Apart,
        }
    }
}

/// What was done on a block device while jobs ran: a line of `/proc/diskstats`, as a difference.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiskUse {
    /// Its name in `/dev`.
    pub name: String,
    /// Requests that were done: reads, writes.
    pub requests: [u64; 2],
    /// Requests that were merged with a neighbour.
    pub merges: [u64; 2],
    /// Milliseconds that requests took.
    pub ticks: [u64; 2],
    /// Milliseconds times requests under way.
    pub in_queue: u64,
    /// Milliseconds with a request under way.
    pub busy: u64,
    /// Milliseconds between the two looks.
    pub elapsed: u64,
}

impl DiskUse {
    /// Adds what it did at another time.
    pub fn add(&mut self, other: &DiskUse) {
        for of in [0, 1] {
            self.requests[of] += other.requests[of];
            self.merges[of] += other.merges[of];
            self.ticks[of] += other.ticks[of];
        }
        self.in_queue += other.in_queue;
        self.busy += other.busy;
        self.elapsed += other.elapsed;
    }

    fn json(&self) -> Value {
        let util = if self.elapsed == 0 { 0.0 } else { self.busy as f64 * 100.0 / self.elapsed as f64 };
        json!({
            "name": self.name,
            "read_ios": self.requests[0],
            "write_ios": self.requests[1],
            "read_merges": self.merges[0],
            "write_merges": self.merges[1],
            "read_ticks": self.ticks[0],
            "write_ticks": self.ticks[1],
            "in_queue": self.in_queue,
            "util": util.min(100.0),
        })
    }
}

/// The whole document. `error` says why it is not whole.
pub fn fio_json(
    version: &str,
    now: SystemTime,
    global: &BTreeMap<String, String>,
    (jobs, disks): (&[FioJob], &[DiskUse]),
    error: Option<&str>,
) -> Value {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let time = chrono::DateTime::<chrono::Utc>::from(now).format("%a %b %e %H:%M:%S %Y").to_string();
    let mut document = json!({
        "fio version": format!("fio-3.33 (arraylab {version})"),
        "timestamp": since.as_secs(),
        "timestamp_ms": since.as_millis() as u64,
        "time": time,
        "jobs": jobs.iter().map(FioJob::json).collect::<Vec<_>>(),
    });
    // As in fio: of jobs that use no disk nothing is said.
    if !disks.is_empty() {
        document["disk_util"] = disks.iter().map(DiskUse::json).collect();
    }
    if !global.is_empty() {
        document["global options"] = json!(global);
    }
    if let Some(error) = error {
        document["error"] = json!(error);
    }
    document
}

impl FioJob {
    /// Counts another job of its group in.
    pub fn add(&mut self, other: &FioJob) {
        assert_eq!(self.group, other.group, "a group is reported as one");
        self.tally.merge(&other.tally);
        self.jobs += other.jobs;
        self.fsyncs += other.fsyncs;
        self.used = self.used.plus(&other.used);
    }

    fn json(&self) -> Value {
        let tally = &self.tally;
        let runtime = tally.runtime();
        let requests: u64 = tally.sides.iter().map(|side| side.requests).sum();
        let share = |count: u64| if requests == 0 { 0.0 } else { count as f64 * 100.0 / requests as f64 };
        let busy = |time: Duration| match runtime.is_zero() {
            true => 0.0,
            // Of all of them, if there are several.
            false => time.as_seconds() * 100.0 / (runtime.as_seconds() * f64::from(self.jobs)),
        };
        let one_at_a_time = |first: &str| {
            let names = [first, "4", "8", "16", "32", "64", ">=64"];
            let share = |name: &str| if name == "4" && requests > 0 { 100.0 } else { 0.0 };
            Value::Object(names.iter().map(|name| ((*name).to_owned(), json!(share(name)))).collect())
        };
        let depths = ["1", "2", "4", "8", "16", "32", ">=64"].iter().zip(tally.depths);
        let mut job = json!({
            "jobname": self.name,
            "groupid": self.group,
            "error": tally.error,
            "eta": 0,
            "elapsed": runtime.as_seconds().ceil() as u64,
            "job options": self.options,
            "job_runtime": runtime.as_nanos() / 1_000_000 * u64::from(self.jobs),
            "usr_cpu": busy(self.used.user),
            "sys_cpu": busy(self.used.system),
            "ctx": self.used.switches,
            "majf": self.used.major_faults,
            "minf": self.used.minor_faults,
            "iodepth_level": Value::Object(depths.map(|(name, count)| ((*name).to_owned(), json!(share(count)))).collect()),
            "iodepth_submit": one_at_a_time("0"),
            "iodepth_complete": one_at_a_time("0"),
            "latency_depth": self.depth,
            "latency_target": self.search.map_or(0, |search| search.target.as_nanos()),
            "latency_percentile": self.search.map_or(100.0, |search| search.percent),
            "latency_window": self.search.map_or(0, |search| search.window.as_nanos() / 1000),
        });
        if self.shown.directions != Directions::Mixed {
            for (name, side) in ["read", "write", "trim"].into_iter().zip(&tally.sides) {
                job[name] = self.side(side);
            }
            let percentiles = self.shown.times.iter().any(|(_, percentiles)| *percentiles);
            let lat = self.time(&tally.flushes, tally.flush_times.as_deref().filter(|_| percentiles));
            job["sync"] = json!({ "total_ios": self.fsyncs, "lat_ns": lat });
        }
        if self.shown.directions != Directions::Apart {
            job["mixed"] = self.side(&tally.mixed());
        }
        let mut bin = 0;
        for (name, bounds, unit) in LATENCIES {
            let mut table: Map<String, Value> = Map::new();
            for bound in bounds {
                table.insert(bound.to_string(), json!(share(tally.latencies[bin])));
                bin += 1;
            }
            if unit == 1_000_000 {
                table.insert(">=2000".to_owned(), json!(share(tally.latencies[LATENCY_BINS - 1])));
            }
            job[name] = Value::Object(table);
        }
        job
    }

    fn side(&self, side: &Side) -> Value {
        // fio counts whole milliseconds, and what took less took one.
        let runtime =
            if side.requests > 0 { self.tally.runtime_of(side).as_nanos().div_ceil(1_000_000).max(1) } else { 0 };
        let per_second = |amount: u64| if runtime == 0 { 0.0 } else { amount as f64 * 1000.0 / runtime as f64 };
        let rate = per_second(side.bytes.get());
        let (bytes, requests) = match self.shown.samples {
            true => self.tally.rates(side),
            false => Default::default(),
        };
        let time = |index: usize, moments: &Moments| {
            let (measured, percentiles) = self.shown.times[index];
            let none = Moments::default();
            let times = side.times[index].as_deref().filter(|_| measured && percentiles);
            self.time(if measured { moments } else { &none }, times)
        };
        let mut document = json!({
            "io_bytes": side.bytes.get(),
            "io_kbytes": side.bytes.get() >> 10,
            "bw_bytes": rate.round() as u64,
            "bw": (rate / 1024.0).floor() as u64,
            "iops": per_second(side.requests),
            "runtime": runtime,
            "total_ios": side.requests,
            "short_ios": 0,
            "drop_ios": 0,
            "slat_ns": time(0, &side.slat),
            "clat_ns": time(1, &side.clat),
            "lat_ns": time(2, &side.lat),
            "bw_min": (bytes.min() / 1024.0).round() as u64,
            "bw_max": (bytes.max() / 1024.0).round() as u64,
            "bw_agg": if bytes.count > 0 { 100.0 } else { 0.0 },
            "bw_mean": bytes.mean() / 1024.0,
            "bw_dev": bytes.deviation() / 1024.0,
            "bw_samples": bytes.count,
            "iops_min": requests.min().round() as u64,
            "iops_max": requests.max().round() as u64,
            "iops_mean": requests.mean(),
            "iops_stddev": requests.deviation(),
            "iops_samples": requests.count,
        });
        // As in fio, if there are several to be told apart.
        if side.priorities.len() > 1 {
            let ([_, _, (_, of_all)], any) = (self.shown.times, self.shown.times[1].1 || self.shown.times[2].1);
            let name = if of_all { "lat_ns" } else { "clat_ns" };
            let one = |(priority, (moments, times)): (&u16, &(Moments, Option<Box<Histogram>>))| {
                json!({
                    "prioclass": priority >> 13,
                    "prio": priority & 7,
                    name: self.time(moments, times.as_deref().filter(|_| any)),
                })
            };
            document["prios"] = side.priorities.iter().map(one).collect();
        }
        document
    }

    /// A time, with its percentiles if it has any.
    fn time(&self, of: &Moments, times: Option<&Histogram>) -> Value {
        let mut time = moments(of);
        if let Some(times) = times.filter(|_| of.count > 0) {
            let percentile = |percent: &f64| {
                let value = times.quantile(Ratio::percent(*percent)).unwrap_or(Duration::ZERO);
                (format!("{percent:.6}"), json!(value.as_nanos()))
            };
            time["percentile"] = Value::Object(self.shown.percentiles.iter().map(percentile).collect());
        }
        time
    }
}

impl Used {
    /// Both together.
    pub fn plus(&self, other: &Used) -> Used {
        Used {
            user: self.user + other.user,
            system: self.system + other.system,
            switches: self.switches + other.switches,
            major_faults: self.major_faults + other.major_faults,
            minor_faults: self.minor_faults + other.minor_faults,
        }
    }

    /// An equal share of it.
    pub fn shared(&self, among: u64) -> Used {
        let among = among.max(1);
        Used {
            user: self.user / among,
            system: self.system / among,
            switches: self.switches / among,
            major_faults: self.major_faults / among,
            minor_faults: self.minor_faults / among,
        }
    }
}

fn moments(moments: &Moments) -> Value {
    json!({
        "min": moments.min() as u64,
        "max": moments.max() as u64,
        "mean": moments.mean(),
        "stddev": moments.deviation(),
        "N": moments.count,
    })
}
