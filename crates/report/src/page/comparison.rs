//! A comparison as a page: by how much the second set-up differs from the first, turn by turn, and in what their
//! conditions differ.

use std::time::SystemTime;

use analysis::compare::{Effect, Metric};

use super::frame::Frame;
use crate::chart::{Chart, Line, MOST_LINES, Scale};
use crate::compared::{self as said, named};
use crate::gain::percent;
use crate::intervals::{Interval, intervals};
use crate::table::Table;
use crate::text::sentence;

/// What is on the page of a comparison.
pub struct ComparisonPage<'a> {
    /// What it is called.
    pub title: &'a str,
    /// When it began, if that is known.
    pub started: Option<SystemTime>,
    /// How often each side was run, and on what.
    pub about: &'a str,
    /// Each other side with the first.
    pub pairs: &'a [Pair<'a>],
    /// The runs of each side, by its name.
    pub sides: &'a [(String, Vec<Turn>)],
    /// Texts of its folder with their names, to be unfolded.
    pub files: &'a [(&'static str, String)],
}

/// Two sides.
pub struct Pair<'a> {
    /// The first.
    pub a: &'a str,
    /// The second.
    pub b: &'a str,
    /// By how much they differ.
    pub metrics: &'a [Metric],
    /// Conditions that differ: which, of the first, of the second.
    pub conditions: Vec<[String; 3]>,
}

/// A run of a side.
pub struct Turn {
    /// Its folder.
    pub run: String,
    /// Its figures by the names of [`Metric::name`].
    pub figures: Vec<(String, f64)>,
}

/// The page.
pub fn comparison_page(page: &ComparisonPage) -> String {
    let mut frame = Frame::new(page.title, page.started, page.about);
    for pair in page.pairs {
        frame.paragraph("", &format!("A: {}", pair.a));
        frame.paragraph("", &format!("B: {}", pair.b));
        pair.metrics.iter().for_each(|metric| frame.paragraph("limit", &said::verdict(metric)));
        let lines: Vec<Interval> = pair.metrics.iter().map(interval).collect();
        let below =
            "dot: what was measured; line: where it lies; an interval beside the dashed line shows a difference";
        frame.picture(&intervals("B against A", below, &lines));
        frame.table(&said::table(pair.metrics));
    }
    turns(&mut frame, page);
    for pair in page.pairs {
        let of = if page.pairs.len() > 1 { format!(", {} and {}", pair.a, pair.b) } else { String::new() };
        frame.heading(&format!("In what the conditions differ{of}"));
        if pair.conditions.is_empty() {
            frame.paragraph("", SAME);
            continue;
        }
        let mut table = Table::new(["", "A", "B"]).left(1).left(2);
        pair.conditions.iter().for_each(|condition| table.row(condition.clone()));
        frame.table(&table);
    }
    let mut table = Table::new(["side", "turn", "run folder"]).left(2);
    for (side, runs) in page.sides {
        runs.iter().zip(1..).for_each(|(turn, number)| {
            table.row([side.clone(), format!("{number}"), turn.run.clone()]);
        });
    }
    frame.section("The runs", &table);
    frame.finish(page.files)
}

/// What is said where no condition differs.
pub const SAME: &str =
    "Their conditions are the same: experiment, machine, kernel, settings, and what the devices stand on.";

fn interval(metric: &Metric) -> Interval {
    let change = |ratio: units::Ratio| (ratio.get() - 1.0) * 100.0;
    Interval {
        name: named(&metric.name).0.to_owned(),
        low: change(metric.low),
        at: change(metric.effect),
        high: change(metric.high),
        shown: metric.verdict != Effect::NoDifference,
        said: format!("{} ({})", percent(metric.effect), said::between(metric)),
    }
}

/// A chart for each figure: how it went from turn to turn.
fn turns(frame: &mut Frame, page: &ComparisonPage) {
    let most = page.sides.iter().map(|(_, turns)| turns.len()).max().unwrap_or(0);
    let Some(first) = page.pairs.first().filter(|_| most > 0) else { return };
    frame.heading("Turn by turn");
    let left_out = match page.sides.len().saturating_sub(MOST_LINES) {
        0 => String::new(),
        more => format!("; {more} more sides are not drawn"),
    };
    let below = format!("turn; each runs all sides, in an order that is reversed each time{left_out}");
    for metric in first.metrics {
        let (name, written) = named(&metric.name);
        let title = sentence(name);
        let lines = page.sides.iter().map(|(side, turns)| {
            let of = |turn: &Turn| turn.figures.iter().find(|(name, _)| *name == metric.name).map(|(_, value)| *value);
            let points = turns.iter().zip(1..).filter_map(|(turn, number)| Some((f64::from(number), of(turn)?)));
            Line { name: side.clone(), points: points.collect() }
        });
        let chart = Chart {
            title: title.trim_end_matches('.'),
            below: &below,
            across: 0.5..most as f64 + 0.5,
            ticks: (1..=most).map(|turn| (turn as f64, turn.to_string())).collect(),
            scale: Scale::Linear,
            value: &written,
            lines: lines.collect(),
            shaded: Vec::new(),
            begins: Vec::new(),
            tips: Vec::new(),
            dots: true,
        };
        frame.picture(&chart.svg());
    }
}
