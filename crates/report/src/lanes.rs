//! Requests as bars, one lane for each device: rounds can be seen in it as they can in no table.
//!
//! A bar reaches from submission to completion; what a request waited before that is drawn thin. Requests of one device
//! that overlap are put below each other. The times in which nothing completed for longer than the threshold are shaded
//! across all lanes. SVG, as it needs nothing but a browser, scales, and keeps the numbers: each bar tells its request
//! when the pointer rests on it.

use std::fmt::Write;
use std::ops::Range;

use record::{Operation, Row};
use units::{Duration, Instant};

use crate::text::escaped;

/// The picture's width, its margins and the height of a bar, in CSS pixels.
pub(crate) const WIDTH: f64 = 1200.0;
pub(crate) const LEFT: f64 = 150.0;
pub(crate) const RIGHT: f64 = 20.0;
const TOP: f64 = 56.0;
pub(crate) const BOTTOM: f64 = 44.0;
const BAR: f64 = 16.0;
pub(crate) const GAP: f64 = 10.0;

/// A device's name is cut to what fits into the margin.
const NAME: usize = 20;

/// What is drawn.
pub struct Lanes<'a> {
    /// What it says at the top.
    pub title: &'a str,
    /// The names of the devices.
    pub names: &'a [String],
    /// Requests, in order of completion; those outside of the window are cut off at its edges.
    pub rows: &'a [Row],
    /// From when until when.
    pub window: (Instant, Instant),
    /// Shade where nothing completed for longer than this.
    pub threshold: Option<Duration>,
}

/// The picture.
pub fn lanes(lanes: &Lanes) -> String {
    let (begin, end) = lanes.window;
    let span = end.saturating_since(begin).as_nanos().max(1) as f64;
    let scale = (WIDTH - LEFT - RIGHT) / span;
    let x = |at: Instant| LEFT + at.clamp(begin, end).since(begin).as_nanos() as f64 * scale;
    let bars: Vec<(usize, Instant, Instant)> =
        lanes.rows.iter().map(|row| (usize::from(row.device), row.intended, row.completed)).collect();
    let (places, heights) = stack(&bars, lanes.names.len());
    let tops: Vec<f64> = heights
        .iter()
        .scan(TOP, |top, rows| Some(std::mem::replace(top, *top + f64::from(*rows) * (BAR + 2.0) + GAP)))
        .collect();
    let bottom = tops.last().map_or(TOP, |top| top + f64::from(*heights.last().expect("as many")) * (BAR + 2.0) + GAP);
    let height = bottom + BOTTOM;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\" class=\"lanes\">\n\
         <style>.read{{fill:#3b76b5}}.write{{fill:#c96f2b}}.other{{fill:#7a7a7a}}.failed{{fill:#c0272d}}.wait{{opacity:.45}}\
         .grid{{stroke:#ddd}}.idle{{fill:#f3e7c9}}text{{fill:#222}}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\" class=\"paper\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{}</text>\n",
        escaped(lanes.title)
    );
    shade(&mut svg, lanes, &x, bottom);
    axis(&mut svg, lanes.window, &x, TOP - 6.0..bottom);
    for (device, (name, top)) in lanes.names.iter().zip(&tops).enumerate() {
        let middle = top + f64::from(heights[device]) * (BAR + 2.0) / 2.0 + 4.0;
        label(&mut svg, name, middle);
    }
    for (row, place) in lanes.rows.iter().zip(places) {
        let y = tops[usize::from(row.device)] + f64::from(place) * (BAR + 2.0);
        bar(&mut svg, row, (x(row.intended), x(row.submitted), x(row.completed)), y);
    }
    legend(&mut svg, lanes);
    svg.push_str("</svg>\n");
    svg
}

/// The name of a lane, at its middle.
pub(crate) fn label(svg: &mut String, name: &str, middle: f64) {
    let (at, shown, name) = (LEFT - 8.0, escaped(&tail(name)), escaped(name));
    let _ = writeln!(svg, "<text x=\"{at}\" y=\"{middle:.1}\" text-anchor=\"end\">{shown}<title>{name}</title></text>");
}

/// For each bar, of a lane from one moment to another, its place below others of its lane; and for each lane how many
/// places it needs.
pub(crate) fn stack(bars: &[(usize, Instant, Instant)], lanes: usize) -> (Vec<u32>, Vec<u32>) {
    let mut order: Vec<usize> = (0..bars.len()).collect();
    order.sort_by_key(|index| (bars[*index].1, bars[*index].2));
    let mut free: Vec<Vec<Instant>> = vec![Vec::new(); lanes];
    let mut places = vec![0; bars.len()];
    for index in order {
        let (lane, from, until) = bars[index];
        let ends = &mut free[lane];
        let place = ends.iter().position(|end| *end <= from).unwrap_or_else(|| {
            ends.push(Instant::START);
            ends.len() - 1
        });
        ends[place] = until;
        places[index] = place as u32;
    }
    (places, free.iter().map(|ends| ends.len().max(1) as u32).collect())
}

fn bar(svg: &mut String, row: &Row, (intended, submitted, completed): (f64, f64, f64), y: f64) {
    let class = match (row.errno, row.operation) {
        (1.., _) => "failed",
        (0, Operation::Read) => "read",
        (0, Operation::Write) => "write",
        _ => "other",
    };
    let title = format!(
        "{} of {} at {:#}: waited {}, {} at the device{}",
        row.operation.name(),
        units::Bytes::new(row.length.into()),
        row.offset,
        row.wait(),
        row.service(),
        if row.errno == 0 { String::new() } else { format!(", failed with errno {}", row.errno) }
    );
    if submitted - intended > 0.5 {
        let (thin, middle) = (BAR / 4.0, y + BAR * 3.0 / 8.0);
        let _ = writeln!(
            svg,
            "<rect class=\"{class} wait\" x=\"{intended:.2}\" y=\"{middle:.1}\" width=\"{:.2}\" height=\"{thin}\"/>",
            submitted - intended
        );
    }
    // A hair's breadth is left between bars that follow each other without a gap, and none is too short to be seen.
    let width = (completed - submitted - 0.8).max(0.6);
    let _ = writeln!(
        svg,
        "<rect class=\"{class}\" x=\"{submitted:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{BAR}\" rx=\"1.5\"><title>{}</title></rect>",
        escaped(&title)
    );
}

/// Times without completions.
fn shade(svg: &mut String, lanes: &Lanes, x: &impl Fn(Instant) -> f64, bottom: f64) {
    let Some(threshold) = lanes.threshold else { return };
    let (begin, end) = lanes.window;
    for pair in lanes.rows.windows(2) {
        let (from, to) = (pair[0].completed, pair[1].completed);
        if to.saturating_since(from) > threshold && to > begin && from < end {
            let width = x(to) - x(from);
            let _ = writeln!(
                svg,
                "<rect class=\"idle\" x=\"{:.2}\" y=\"{:.1}\" width=\"{width:.2}\" height=\"{:.1}\"/>",
                x(from),
                TOP - 6.0,
                bottom - TOP + 6.0
            );
        }
    }
}

/// Ticks at round times, counted from the window's begin.
pub(crate) fn axis(
    svg: &mut String,
    (begin, end): (Instant, Instant),
    x: &impl Fn(Instant) -> f64,
    Range { start: top, end: bottom }: Range<f64>,
) {
    let span = end.saturating_since(begin);
    let step = (span / 8).round_up();
    for tick in 0..=span.as_nanos() / step.as_nanos() {
        let at = x(begin + step * tick);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{at:.2}\" y1=\"{top:.1}\" x2=\"{at:.2}\" y2=\"{bottom:.1}\"/>\
             <text x=\"{at:.2}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            step * tick
        );
    }
    let from = begin.since(Instant::START);
    let _ =
        writeln!(svg, "<text x=\"{LEFT}\" y=\"{:.1}\">from {from} on after the clock's start</text>", bottom + 34.0);
}

fn legend(svg: &mut String, lanes: &Lanes) {
    let has = |class: fn(&Row) -> bool| lanes.rows.iter().any(class);
    let drawn_grey = |operation: &Operation| !matches!(operation, Operation::Read | Operation::Write);
    let there = |operation: &Operation| lanes.rows.iter().any(|row| row.operation == *operation && row.errno == 0);
    let others = Operation::ALL.into_iter().filter(|operation| drawn_grey(operation) && there(operation));
    let others: Vec<&str> = others.map(Operation::name).collect();
    let mut entries = Vec::new();
    for (class, name, there) in [
        ("read", "read".to_owned(), has(|row| row.operation == Operation::Read && row.errno == 0)),
        ("write", "write".to_owned(), has(|row| row.operation == Operation::Write && row.errno == 0)),
        ("other", others.join(", "), !others.is_empty()),
        ("failed", "failed".to_owned(), has(|row| row.errno != 0)),
        (
            "idle",
            format!("nothing completes for more than {}", lanes.threshold.unwrap_or_default()),
            lanes.threshold.is_some(),
        ),
    ] {
        if there {
            entries.push((class, name));
        }
    }
    let mut at = LEFT;
    for (class, name) in entries {
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{at:.1}\" y=\"30\" width=\"12\" height=\"12\"/><text x=\"{:.1}\" y=\"40\">{}</text>",
            at + 16.0,
            escaped(&name)
        );
        at += 40.0 + 7.0 * name.chars().count() as f64;
    }
}

/// The end of a name that is too long: paths differ there.
fn tail(name: &str) -> String {
    let count = name.chars().count();
    if count <= NAME {
        name.to_owned()
    } else {
        format!("…{}", name.chars().skip(count - NAME + 1).collect::<String>())
    }
}
