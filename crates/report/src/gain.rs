//! What the points of a sweep gain.

use analysis::Change;
use analysis::rounds::Rounds;
use units::Ratio;

use crate::Table;
use crate::run::short;

/// One point of a sweep beside the one that it is compared with.
pub struct Gained<'a> {
    /// The values, in the order of the axes.
    pub values: Vec<String>,
    /// The place of the line that it is compared with; nothing for that line itself.
    pub over: Option<usize>,
    /// Of bytes a second.
    pub bandwidth: Option<Change>,
    /// Of requests a second.
    pub iops: Option<Change>,
    /// Of the mean response of open loops.
    pub response: Option<Change>,
    /// The rounds of several devices.
    pub rounds: Option<&'a Rounds>,
}

/// What a column is of.
type Of = fn(&Gained) -> Option<Change>;

/// Gains that differ by less are the same in print.
const ALIKE: f64 = 0.0005;

/// A line for each point, and above them what they are compared with.
pub fn gains(axes: &[String], lines: &[Gained]) -> String {
    let names = short(axes);
    let mut over = Vec::new();
    for (axis, name) in names.iter().enumerate() {
        let pairs = lines.iter().filter_map(|line| Some((line, &lines[line.over?])));
        let mut differing = pairs.filter(|(line, baseline)| line.values[axis] != baseline.values[axis]);
        over.extend(differing.next().map(|(_, baseline)| format!("{name} = {}", baseline.values[axis])));
    }
    // Where a request is as large as in the baseline, both rates tell the same.
    let differ = |line: &Gained| match (line.bandwidth, line.iops) {
        (Some(bandwidth), Some(iops)) => (bandwidth.ratio.get() - iops.ratio.get()).abs() > ALIKE,
        _ => false,
    };
    let apart = lines.iter().any(differ);
    let sure = lines.iter().any(|line| line.iops.is_some_and(|gain| gain.interval.is_some()));
    let in_rounds = lines.iter().any(|line| line.rounds.is_some());
    let open = lines.iter().any(|line| line.response.is_some());
    let kinds: &[(&str, Of)] = match (open, apart) {
        // The rates are those of the arrivals.
        (true, _) => &[("mean response", |line| line.response)],
        (false, true) => &[("gain in bytes/s", |line| line.bandwidth), ("gain in requests/s", |line| line.iops)],
        (false, false) => &[("gain", |line| line.iops)],
    };
    let mut headings = names;
    for (kind, _) in kinds {
        headings.push((*kind).to_owned());
        headings.extend(sure.then(|| "95 % confidence".to_owned()));
    }
    headings.extend(in_rounds.then(|| "I/O in rounds".to_owned()));
    let mut table = Table::new(headings);
    for line in lines {
        let mut cells = line.values.clone();
        for (_, kind) in kinds {
            let gain = kind(line);
            cells.push(gain.map_or("-".to_owned(), |gain| percent(gain.ratio)));
            let interval = || gain?.interval.map(|[low, high]| format!("{} to {}", percent(low), percent(high)));
            cells.extend(sure.then(|| interval().unwrap_or("-".to_owned())));
        }
        cells.extend(in_rounds.then(|| line.rounds.map_or("-".to_owned(), share)));
        table.row(cells);
    }
    let what = if open { "Mean response beside" } else { "Gain over" };
    format!("{what} {}, all else alike\n\n{table}", over.join(" and "))
}

/// By how much more or less than all of it.
pub(crate) fn percent(ratio: Ratio) -> String {
    format!("{:+.1} %", (ratio.get() - 1.0) * 100.0)
}

/// A share that chance or the load would make as well is no convoy.
fn share(rounds: &Rounds) -> String {
    let convoy = if rounds.found { "" } else { ", no convoy shown" };
    format!("{:.1} %{convoy}", rounds.share.as_percent())
}
