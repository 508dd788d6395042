//! The verdicts of a sweep: what limits at which points, and each point's own.

use analysis::explain::Explanation;

use crate::Table;
use crate::run::{self, short};
use crate::text::wrapped;

/// A point of a sweep and what was found of it.
pub struct Swept<'a> {
    /// What it came to.
    pub point: run::Sweep<'a>,
    /// Its run folder.
    pub run: &'a str,
    /// The explanation of its run, or why there is none.
    pub found: Result<&'a Explanation, String>,
}

/// So many points are named in a sentence.
const NAMED: usize = 4;

/// The verdicts of all points as text: what limits where, then a line for each point. `remarks` are what a reader must
/// know besides.
pub fn swept(axes: &[String], points: &[Swept], remarks: &[String]) -> String {
    let mut text: String = limits(axes, points).iter().map(|line| wrapped(line)).collect();
    text.push_str(&format!("\n{}", verdicts(axes, points)));
    if let Some(point) = points.iter().find(|point| point.found.is_ok()) {
        text.push_str(&format!("\n{}", wrapped(&format!("More of a point: arraylab explain {}", point.run))));
    }
    remarks.iter().for_each(|remark| text.push_str(&format!("\n{}", wrapped(remark))));
    text
}

/// A sentence for each part that limits, in the order of the points.
pub(crate) fn limits(axes: &[String], points: &[Swept]) -> Vec<String> {
    let mut parts: Vec<(&str, Vec<&Swept>)> = Vec::new();
    for point in points {
        let Ok(explanation) = &point.found else { continue };
        let part = explanation.limit.part.as_str();
        match parts.iter_mut().find(|(known, _)| *known == part) {
            Some((_, at)) => at.push(point),
            None => parts.push((part, vec![point])),
        }
    }
    let sentence = |(part, at): &(&str, Vec<&Swept>)| {
        let place = match at.len() {
            1 if points.len() == 1 => "at the only point".to_owned(),
            2 if points.len() == 2 => "at both points".to_owned(),
            all if all == points.len() => format!("at all {all} points"),
            some => {
                let named: Vec<String> = at.iter().take(NAMED).map(|point| label(axes, &point.point.values)).collect();
                let more = if some > NAMED { format!(" and {} more", some - NAMED) } else { String::new() };
                format!("at {some} of {} points ({}{more})", points.len(), named.join("; "))
            }
        };
        let open = at.iter().filter(|point| is_open(point)).count();
        let open = match open {
            0 => String::new(),
            all if all == at.len() => " The verdict is open.".to_owned(),
            some => format!(" At {some} of them the verdict is open."),
        };
        format!("What limits {place}: {part}.{open}")
    };
    if parts.is_empty() {
        return vec!["What limits is known of no point.".to_owned()];
    }
    parts.iter().map(sentence).collect()
}

/// At one half or less a verdict is none.
fn is_open(point: &Swept) -> bool {
    point.found.as_ref().is_ok_and(|explanation| explanation.limit.confidence.get() <= 0.5)
}

/// What tells a point from the others.
pub(crate) fn label(axes: &[String], values: &[String]) -> String {
    let pairs = short(axes).into_iter().zip(values).map(|(name, value)| format!("{name} = {value}"));
    pairs.collect::<Vec<_>>().join(", ")
}

/// A line for each point.
pub(crate) fn verdicts(axes: &[String], points: &[Swept]) -> Table {
    let names = short(axes);
    let first = names.len();
    let headings =
        names.into_iter().chain(["what limits", "sure", "what limits next", "run folder"].map(str::to_owned));
    let mut table = Table::new(headings).left(first).left(first + 2).left(first + 3);
    for point in points {
        let none = || "-".to_owned();
        let found = match &point.found {
            Ok(explanation) => {
                let next = explanation.next.as_ref().map_or_else(none, |next| next.part.clone());
                [explanation.limit.part.clone(), explanation.limit.confidence.to_string(), next]
            }
            Err(why) => [why.clone(), none(), none()],
        };
        table.row(point.point.values.iter().cloned().chain(found).chain([point.run.to_owned()]));
    }
    table
}
