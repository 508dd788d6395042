//! Results in the shape of `fio --output-format=json`, so that programs that read fio's results read these.
//!
//! All fields of fio 3.33 are there under its names and in its units. Without a meaning here, and so always zero: `short_ios`, `drop_ios`, `ctx`, `majf`,
//! `minf`; `iodepth_submit` and `iodepth_complete` say that requests go one at a time. Processor time is the process's, divided among its
//! jobs. `disk_util` is empty.

use std::collections::BTreeMap;
use std::time::SystemTime;

use analysis::Moments;
use analysis::by_job::{JobTally, LATENCIES, LATENCY_BINS};
use record::FIO_PERCENTILES;
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
    /// User and system time in the process, for each job, while it ran.
    pub processor: [Duration; 2],
    /// The depth it asked for.
    pub depth: u32,
}

/// The whole document. `error` says why it is not whole.
pub fn fio_json(
    version: &str,
    now: SystemTime,
    global: &BTreeMap<String, String>,
    jobs: &[FioJob],
    error: Option<&str>,
) -> Value {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let time = chrono::DateTime::<chrono::Utc>::from(now).format("%a %b %e %H:%M:%S %Y").to_string();
    let mut document = json!({
        "fio version": format!("fio-3.33 (arraylab {version})"),
        "timestamp": since.as_secs(),
        "timestamp_ms": since.as_millis() as u64,
        "time": time,
        "global options": global,
        "jobs": jobs.iter().map(FioJob::json).collect::<Vec<_>>(),
        "disk_util": [],
    });
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
        self.processor = std::array::from_fn(|n| self.processor[n] + other.processor[n]);
    }

    fn json(&self) -> Value {
        let tally = &self.tally;
        let runtime = tally.runtime();
        let requests: u64 = tally.sides.iter().map(|side| side.requests).sum();
        let share = |count: u64| if requests == 0 { 0.0 } else { count as f64 * 100.0 / requests as f64 };
        let busy = |time: Duration| match runtime.is_zero() {
            true => 0.0,
            false => time.as_seconds() * 100.0 / runtime.as_seconds(),
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
            "read": self.side(0),
            "write": self.side(1),
            "trim": self.side(2),
            "sync": { "total_ios": tally.flushes.count, "lat_ns": moments(&tally.flushes) },
            "job_runtime": runtime.as_millis().round() as u64 * u64::from(self.jobs),
            "usr_cpu": busy(self.processor[0]),
            "sys_cpu": busy(self.processor[1]),
            "ctx": 0,
            "majf": 0,
            "minf": 0,
            "iodepth_level": Value::Object(depths.map(|(name, count)| ((*name).to_owned(), json!(share(count)))).collect()),
            "iodepth_submit": one_at_a_time("0"),
            "iodepth_complete": one_at_a_time("0"),
            "latency_depth": self.depth,
            "latency_target": 0,
            "latency_percentile": 100.0,
            "latency_window": 0,
        });
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

    fn side(&self, index: usize) -> Value {
        let side = &self.tally.sides[index];
        let runtime = if side.requests > 0 { self.tally.runtime() } else { Duration::ZERO };
        let per_second = |amount: u64| if runtime.is_zero() { 0.0 } else { amount as f64 / runtime.as_seconds() };
        let rate = per_second(side.bytes.get());
        let (bytes, requests) = self.tally.rates(index);
        let mut clat = moments(&side.clat);
        if side.requests > 0 {
            let percentile = |percent: f64| {
                let time = side.times.quantile(Ratio::percent(percent)).unwrap_or(Duration::ZERO);
                (format!("{percent:.6}"), json!(time.as_nanos()))
            };
            clat["percentile"] = Value::Object(FIO_PERCENTILES.into_iter().map(percentile).collect());
        }
        json!({
            "io_bytes": side.bytes.get(),
            "io_kbytes": side.bytes.get() >> 10,
            "bw_bytes": rate.round() as u64,
            "bw": (rate / 1024.0).round() as u64,
            "iops": per_second(side.requests),
            "runtime": runtime.as_millis().round() as u64,
            "total_ios": side.requests,
            "short_ios": 0,
            "drop_ios": 0,
            "slat_ns": moments(&side.slat),
            "clat_ns": clat,
            "lat_ns": moments(&side.lat),
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
        })
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
