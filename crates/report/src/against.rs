//! Two runs side by side.

use crate::Table;
use crate::gain::percent;
use analysis::{Change, Compared};

/// A line for each figure of each group: the earlier run, the later one, by how much they differ, and whether that is
/// shown.
pub fn against(compared: &[Compared]) -> String {
    let mut table = Table::new(["", "before", "after", "change", "95 % confidence", ""]);
    for one in compared {
        let latency = |of: fn(&analysis::Latency) -> units::Duration| {
            [&one.before, &one.after].map(|figures| figures.latency.as_ref().map_or("-".into(), |l| of(l).to_string()))
        };
        let rates = [&one.before, &one.after].map(|figures| format!("{:.0}", figures.iops.get()));
        let bandwidths = [&one.before, &one.after].map(|figures| figures.bandwidth.to_string());
        let lines = [
            ("requests/s", rates, one.iops),
            ("bandwidth", bandwidths, one.bandwidth),
            ("mean response", latency(|l| l.mean), one.latency_mean),
            ("p99 response", latency(|l| l.p99), one.latency_p99),
        ];
        for (what, [before, after], change) in lines {
            let name = format!("{} {what}", one.name);
            table.row([name, before, after, ratio(change), interval(change), verdict(change).to_owned()]);
        }
    }
    table.to_string()
}

fn ratio(change: Option<Change>) -> String {
    change.map_or("-".to_owned(), |change| percent(change.ratio))
}

fn interval(change: Option<Change>) -> String {
    let both = change.and_then(|change| change.interval);
    both.map_or("-".to_owned(), |[low, high]| format!("{} to {}", percent(low), percent(high)))
}

fn verdict(change: Option<Change>) -> &'static str {
    match change {
        None => "",
        Some(Change { interval: None, .. }) => "not known: one pass",
        Some(change) if change.is_shown() => "these passes differ",
        Some(_) => "no difference is shown",
    }
}
