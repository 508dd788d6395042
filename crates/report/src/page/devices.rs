//! The axis of a chart over the number of devices: of a survey, and of how much a host takes.

use std::ops::Range;

use crate::chart::Line;
use crate::ticks::step;

/// More numbers below a curve than this say nothing more.
const MOST_TICKS: usize = 16;

/// Numbers of devices below the chart.
pub(super) fn ticks(most: usize) -> Vec<(f64, String)> {
    let apart = if most <= MOST_TICKS { 1 } else { step(most as f64 / MOST_TICKS as f64) as usize };
    let ticks = (1..=most).filter(|devices| devices.is_multiple_of(apart.max(1)));
    ticks.map(|devices| (devices as f64, devices.to_string())).collect()
}

/// What the lines say at each number of devices.
pub(super) fn tips(lines: &[Line], most: usize, value: impl Fn(f64) -> String) -> Vec<(Range<f64>, String)> {
    let tip = |devices: usize| {
        let at = devices as f64;
        let told = lines.iter().filter_map(|line| {
            let (_, found) = line.points.iter().find(|(devices, _)| *devices == at)?;
            Some(format!("{}: {}", line.name, value(*found)))
        });
        let told: Vec<String> = told.collect();
        (!told.is_empty()).then(|| (at - 0.5..at + 0.5, format!("{devices} devices. {}", told.join("; "))))
    };
    (1..=most).filter_map(tip).collect()
}

/// Of lines that the chart has no room for, where they are.
pub(super) fn left_out(lines: usize, drawn: usize) -> String {
    match lines.saturating_sub(drawn) {
        0 => String::new(),
        more => format!("; {more} more are in the tables alone"),
    }
}
