//! Set-ups side by side, by interleaved runs.

use analysis::compare::{Effect, Metric};
use units::Duration;

use crate::Table;
use crate::gain::percent;

/// A line for each figure: the first set-up, the second, by how much they differ, and what follows.
pub fn compared(metrics: &[Metric]) -> String {
    let mut table = Table::new(["", "A", "B", "B against A", "between", ""]);
    for metric in metrics {
        let (name, shown): (_, fn(f64) -> String) = match metric.name {
            "iops" => ("requests/s", |value| format!("{value:.0}")),
            "latency_mean_ns" => ("mean response", |value| Duration::nanos(value as u64).to_string()),
            _ => ("p99 response", |value| Duration::nanos(value as u64).to_string()),
        };
        let between = format!("{} to {}", percent(metric.low), percent(metric.high));
        let verdict = match metric.verdict {
            Effect::More => "more".to_owned(),
            Effect::Less => "less".to_owned(),
            Effect::NoDifference => format!("no difference shown; any is smaller than {}", metric.most()),
        };
        table.row([name.to_owned(), shown(metric.a), shown(metric.b), percent(metric.effect), between, verdict]);
    }
    table.to_string()
}
