//! How much a host takes, as a page: what is to be said of each curve, the curves, the tables, and how it was
//! measured.

use std::time::SystemTime;

use analysis::knee::KneeVerdict;
use analysis::maximum::{Curve, Maximum};
use units::Rate;

use super::devices;
use super::frame::Frame;
use crate::chart::{Chart, Line, MOST_LINES, Scale};
use crate::maximum as said;

/// What is on the page.
pub struct MaximumPage<'a> {
    /// What it is called.
    pub title: &'a str,
    /// When it began, if that is known.
    pub started: Option<SystemTime>,
    /// On what it was, and how it ended.
    pub about: &'a str,
    /// What it came to.
    pub maximum: &'a Maximum,
    /// What a reader must know besides.
    pub remarks: &'a [String],
    /// Texts of the run folder with their names, to be unfolded.
    pub files: &'a [(&'static str, String)],
}

/// The page.
pub fn maximum_page(page: &MaximumPage) -> String {
    let mut frame = Frame::new(page.title, page.started, page.about);
    let maximum = page.maximum;
    if maximum.curves.is_empty() {
        frame.paragraph("limit", "Nothing was measured before the end.");
    }
    for curve in &maximum.curves {
        let knee = curve.knee.as_ref().map(|knee| knee.verdict);
        let class = if matches!(knee, Some(KneeVerdict::Knee { .. })) { "limit" } else { "" };
        frame.paragraph(class, &format!("{}. {}.", said::heading(curve), said::verdict(curve)));
    }
    said::advice(maximum).iter().for_each(|line| frame.paragraph("advice", &format!("Advice: {line}.")));
    for curves in said::groups(maximum) {
        frame.heading(&said::heading(curves[0]));
        frame.picture(&chart(&curves));
        said::rates(&curves).iter().for_each(|table| frame.table(table));
    }
    if !maximum.interference.is_empty() {
        frame.section("Reading while writing", &said::interference(&maximum.interference));
        frame.paragraph("", said::INTERFERENCE);
    }
    if !maximum.stalls.is_empty() {
        frame.section("Stalls: what cost the most", &said::stalls(maximum));
    }
    frame.paragraph("", said::LEGEND);
    if !page.remarks.is_empty() {
        frame.heading("To be known");
        page.remarks.iter().for_each(|line| frame.paragraph("", &format!("{line}.")));
    }
    frame.finish(page.files)
}

/// A line for each size; of the best of them, also what its devices do alone.
fn chart(curves: &[&Curve]) -> String {
    let value = |value: f64| Rate::bytes_per_second(value.max(0.0)).to_string();
    let best = said::best(curves);
    let expected = best.points.iter().filter_map(|point| Some((point.devices as f64, point.expected?)));
    let sum = Line { name: format!("{}, the sum of each alone", best.request), points: expected.collect() };
    let sum = Some(sum).filter(|sum| !sum.points.is_empty());
    let measured = curves.iter().map(|curve| {
        let points = curve.points.iter().map(|point| (point.devices as f64, point.bandwidth.get()));
        Line { name: curve.request.to_string(), points: points.collect() }
    });
    let lines: Vec<Line> = measured.take(MOST_LINES - 1).chain(sum).collect();
    let most = curves.iter().flat_map(|curve| &curve.points).map(|point| point.devices).max().unwrap_or(1);
    let left_out = devices::left_out(curves.len(), MOST_LINES - 1);
    Chart {
        title: "Bandwidth",
        below: &format!("devices together; a line for each size of requests{left_out}"),
        across: 0.5..most as f64 + 0.5,
        ticks: devices::ticks(most),
        scale: Scale::Linear,
        value: &value,
        tips: devices::tips(&lines, most, value),
        lines,
        shaded: Vec::new(),
        begins: Vec::new(),
        dots: true,
    }
    .svg()
}
