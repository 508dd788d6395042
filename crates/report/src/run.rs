//! What a run came to.

use analysis::{Figures, Group, Latency, Spread, Summary};
use units::{Duration, Ratio};

use crate::Table;

/// One line of a sweep: what was set, and what came of it.
pub struct Sweep<'a> {
    /// The values, in the order of the axes.
    pub values: Vec<String>,
    /// The result.
    pub total: &'a Group,
    /// The part of a modelled machine that was at work most, and how much.
    pub busiest: Option<String>,
}

/// The parts of a modelled machine that were at work at all, the busiest first.
pub fn utilizations(parts: &[(String, Ratio)]) -> String {
    let mut sorted: Vec<_> = parts.iter().filter(|(_, utilization)| utilization.get() >= 0.001).collect();
    sorted.sort_by(|a, b| b.1.get().total_cmp(&a.1.get()));
    let mut table = Table::new(["part", "at work"]);
    for (part, utilization) in sorted {
        table.row([part.clone(), format!("{:.1} %", utilization.get() * 100.0)]);
    }
    table.to_string()
}

const HEADINGS: [&str; 10] =
    ["", "requests", "bandwidth", "requests/s", "mean", "p50", "p99", "p99.9", "max", "errors"];

/// Streams, devices and total of a run, and how its passes differ.
pub fn run(summary: &Summary) -> String {
    let spread = spread(summary).map_or(String::new(), |said| format!("\n{said}"));
    format!("{}{spread}", figures(summary))
}

/// How passes differ, if there were several.
pub(crate) fn spread(summary: &Summary) -> Option<String> {
    summary.total.spread.as_ref().map(|spread| passes(spread, summary.total.passes.len()))
}

/// Streams, devices and total.
pub(crate) fn figures(summary: &Summary) -> Table {
    let mut table = Table::new(HEADINGS);
    let total = &summary.total;
    // With one stream or one device the line would say the same as the total.
    let kinds = [
        ("stream", &summary.streams),
        ("device", &summary.devices),
        ("host", &summary.hosts),
        ("", &summary.operations),
    ];
    for (kind, groups) in kinds {
        if groups.len() > 1 {
            for group in groups {
                table.row(cells(format!("{kind} {}", group.name).trim().to_owned(), &group.figures));
            }
        }
    }
    table.row(cells("total".into(), &total.figures));
    table
}

/// The two sides of a copy.
pub fn sides(summary: &Summary) -> String {
    let mut table = Table::new(HEADINGS);
    for group in &summary.devices {
        table.row(cells(group.name.clone(), &group.figures));
    }
    table.to_string()
}

/// What axes are called: the last word of a key is enough where it tells them apart.
pub(crate) fn short(axes: &[String]) -> Vec<String> {
    let last = |key: &String| key.rsplit('.').next().unwrap_or(key).to_owned();
    let names: Vec<String> = axes.iter().map(last).collect();
    let distinct = names.iter().enumerate().all(|(index, name)| !names[..index].contains(name));
    if distinct { names } else { axes.to_vec() }
}

/// All points of a sweep in one table.
pub fn sweep<'a>(axes: &[String], points: impl IntoIterator<Item = Sweep<'a>>) -> String {
    let points: Vec<Sweep> = points.into_iter().collect();
    points_of(axes, &points.iter().collect::<Vec<_>>()).to_string()
}

/// The same, to be drawn.
pub(crate) fn points_of(axes: &[String], points: &[&Sweep]) -> Table {
    let names = short(axes);
    let modelled = points.iter().any(|point| point.busiest.is_some());
    let headings = HEADINGS[1..].iter().copied().chain(modelled.then_some("busiest part"));
    let mut table = Table::new(names.into_iter().chain(headings.map(str::to_owned)));
    for point in points {
        let figures = cells(String::new(), &point.total.figures).into_iter().skip(1);
        let busiest = modelled.then(|| point.busiest.clone().unwrap_or_default());
        table.row(point.values.iter().cloned().chain(figures).chain(busiest));
    }
    table
}

fn cells(name: String, figures: &Figures) -> Vec<String> {
    let time =
        |of: fn(&Latency) -> Duration| figures.latency.as_ref().map_or("-".into(), |times| of(times).to_string());
    vec![
        name,
        figures.requests.to_string(),
        figures.bandwidth.to_string(),
        format!("{:.0}", figures.iops.get()),
        time(|times| times.mean),
        time(|times| times.p50),
        time(|times| times.p99),
        time(|times| times.p999),
        time(|times| times.max),
        figures.errors.to_string(),
    ]
}

fn passes(spread: &Spread, passes: usize) -> String {
    let bandwidth = &spread.bandwidth;
    let iops = &spread.iops;
    let rate = |rate: units::Frequency| format!("{:.0}", rate.get());
    format!(
        "{passes} passes: {} on average, {} low, {} high, +-{} with 95 % confidence\n{:width$}{} requests/s on average, {} low, {} high, +-{}\n",
        bandwidth.mean,
        bandwidth.low,
        bandwidth.high,
        bandwidth.half_width,
        "",
        rate(iops.mean),
        rate(iops.low),
        rate(iops.high),
        rate(iops.half_width),
        width = format!("{passes} passes: ").len(),
    )
}
