//! The points of a sweep as one table, `points.csv`, for spreadsheets and plotting programs.
//!
//! A line a point, in the order of the sweep. The first columns are the axes, by their keys. Columns that end in
//! `_plus_minus` are half the 95 percent interval of the mean over the passes, and empty where there were not at least
//! two. Names and units are those of `sweep.json`.

use analysis::{Estimate, Group, Latency};
use units::{Duration, Frequency, Rate};

use super::sweep::Sweep;

/// What follows the axes.
const COLUMNS: [&str; 18] = [
    "run",
    "busiest",
    "passes",
    "requests",
    "errors",
    "bytes",
    "seconds",
    "bandwidth_bytes_per_s",
    "bandwidth_plus_minus",
    "iops",
    "iops_plus_minus",
    "latency_mean_ns",
    "latency_mean_plus_minus",
    "latency_p50_ns",
    "latency_p90_ns",
    "latency_p99_ns",
    "latency_p999_ns",
    "latency_max_ns",
];

/// The whole file.
pub(super) fn table(sweep: &Sweep) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut line = |fields: Vec<String>| writer.write_record(fields).expect("memory takes what is written");
    line(sweep.axes.iter().map(|axis| axis.key.clone()).chain(COLUMNS.map(str::to_owned)).collect());
    for point in &sweep.points {
        let mut fields = point.values.clone();
        fields.extend([point.run.clone(), point.busiest.clone().unwrap_or_default()]);
        fields.extend(figures(&point.total));
        line(fields);
    }
    writer.into_inner().expect("memory takes what is written")
}

/// From `passes` on.
fn figures(total: &Group) -> Vec<String> {
    let (figures, spread) = (&total.figures, total.spread.as_ref());
    let time =
        |of: fn(&Latency) -> Duration| figures.latency.as_ref().map(|latency| of(latency).as_nanos().to_string());
    let rate = |of: &Estimate<Rate>| of.half_width.get().to_string();
    let often = |of: &Estimate<Frequency>| of.half_width.get().to_string();
    let late = |of: &Estimate<Duration>| of.half_width.as_nanos().to_string();
    let counted = [total.passes.len() as u64, figures.requests, figures.errors, figures.bytes.get()];
    let mut fields: Vec<String> = counted.iter().map(u64::to_string).collect();
    fields.push(figures.time.as_seconds().to_string());
    let rest = [
        Some(figures.bandwidth.get().to_string()),
        spread.map(|spread| rate(&spread.bandwidth)),
        Some(figures.iops.get().to_string()),
        spread.map(|spread| often(&spread.iops)),
        time(|latency| latency.mean),
        spread.and_then(|spread| spread.latency_mean.as_ref().map(late)),
        time(|latency| latency.p50),
        time(|latency| latency.p90),
        time(|latency| latency.p99),
        time(|latency| latency.p999),
        time(|latency| latency.max),
    ];
    fields.extend(rest.map(Option::unwrap_or_default));
    fields
}
