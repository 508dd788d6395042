//! What faster parts would bring, as text.

use analysis::Brought;
use analysis::compare::{Effect, Metric};

use crate::compared::{between, follows, named};
use crate::gain::percent;
use crate::table::Table;

/// A control that gives less than this share of the run as it was is worth a remark.
const ALIKE: f64 = 0.95;

/// What follows first, then a table of each part and figure, those that bring most first.
pub fn brought(run: &str, parts: &[Brought], turns: u16) -> String {
    let mut parts: Vec<&Brought> = parts.iter().collect();
    let gain = |part: &Brought| part.rate().map_or(0.0, |metric| metric.effect.get());
    parts.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
    let mut text =
        format!("What a faster part would bring to {run}, by {turns} turns in which all others were held up\n\n");
    let shown = parts.iter().find(|part| !part.shares && part.metrics.iter().any(better));
    text.push_str(&match shown.and_then(|part| Some((part, part.rate()?))) {
        Some((part, rate)) => format!(
            "{} limits: {} times as fast it would bring {} requests/s in place of {} ({}).\n\n",
            part.part,
            part.times.get(),
            named("iops").1(rate.b),
            named("iops").1(rate.a),
            between(rate)
        ),
        None => "No part is shown to bring anything alone.\n\n".to_owned(),
    });
    let mut table = Table::new(["part", "times", "", "as it is", "would be", "change", "between", ""]).left(7);
    for part in &parts {
        for (nth, metric) in part.metrics.iter().enumerate() {
            let (name, shown) = named(&metric.name);
            let first = nth == 0;
            table.row([
                if first { part.part.clone() } else { String::new() },
                if first { part.times.get().to_string() } else { String::new() },
                name.to_owned(),
                shown(metric.a),
                shown(metric.b),
                percent(metric.effect),
                between(metric),
                if part.shares { "unknown".to_owned() } else { follows(metric) },
            ]);
        }
    }
    text.push_str(&table.to_string());
    for part in parts.iter().filter(|part| part.shares) {
        text.push_str(&format!(
            "\nremark: {} did more while the others were held up than it can do by itself. It shares something with them that cannot be held up (a link, a store, processors), so what it would bring is unknown; `arraylab explain` and `arraylab survey` look for what is shared.\n",
            part.part
        ));
    }
    for part in parts.iter().filter(|part| part.control.get() < ALIKE) {
        let bounded: Vec<String> = part.at_once.iter().map(|(device, most)| format!("{device} {most}")).collect();
        text.push_str(&format!(
            "\nremark: to be held up, devices were given so many requests at once: {}. That alone took the rate to {} of the run's, so what {} would bring is of a run with that bound.\n",
            bounded.join(", "),
            part.control,
            part.part
        ));
    }
    text
}

/// Whether a figure is shown to become better.
fn better(metric: &Metric) -> bool {
    metric.verdict == if metric.name == "iops" { Effect::More } else { Effect::Less }
}
