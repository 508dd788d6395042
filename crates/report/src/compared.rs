//! Set-ups side by side, by interleaved runs.

use analysis::compare::{Effect, Metric};
use units::Duration;

use crate::Table;
use crate::gain::percent;
use crate::text::sentence;

/// A line for each figure: the first set-up, the second, by how much they differ, and what follows.
pub fn compared(metrics: &[Metric]) -> String {
    table(metrics).to_string()
}

/// The same, to be drawn.
pub(crate) fn table(metrics: &[Metric]) -> Table {
    let mut table = Table::new(["", "A", "B", "B against A", "between", ""]).left(5);
    for metric in metrics {
        let (name, shown) = named(&metric.name);
        table.row([
            name.to_owned(),
            shown(metric.a),
            shown(metric.b),
            percent(metric.effect),
            between(metric),
            follows(metric),
        ]);
    }
    table
}

/// What follows of a figure, in a word or two.
pub(crate) fn follows(metric: &Metric) -> String {
    match metric.verdict {
        Effect::More => "more".to_owned(),
        Effect::Less => "less".to_owned(),
        Effect::NoDifference => format!("no difference shown; any is smaller than {}", metric.most()),
    }
}

/// What a figure is called, and how its values are written.
pub(crate) fn named(figure: &str) -> (&'static str, fn(f64) -> String) {
    match figure {
        "iops" => ("requests/s", |value| format!("{value:.0}")),
        "latency_mean_ns" => ("mean response", |value| Duration::nanos(value as u64).to_string()),
        _ => ("p99 response", |value| Duration::nanos(value as u64).to_string()),
    }
}

/// Where the effect lies.
pub(crate) fn between(metric: &Metric) -> String {
    format!("{} to {}", percent(metric.low), percent(metric.high))
}

/// What follows of a figure, as a sentence.
pub(crate) fn verdict(metric: &Metric) -> String {
    let (name, _) = named(&metric.name);
    let most = (metric.effect.get() - 1.0).abs() * 100.0;
    let follows = match metric.verdict {
        Effect::More => format!("B has {most:.1} % more than A"),
        Effect::Less => format!("B has {most:.1} % less than A"),
        Effect::NoDifference => format!("no difference is shown, and any is smaller than {}", metric.most()),
    };
    format!("{}: {follows}. The interval is {}.", sentence(name).trim_end_matches('.'), between(metric))
}
