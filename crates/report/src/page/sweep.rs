//! A sweep as a page: what limits at which points, what each came to, and its figures over an axis.
//!
//! The axis with the most values goes across, the others make lines: so there are as few lines as can be. Values stand
//! at equal distances in their own order, as they may be words as well as numbers; 1, 2, 4, 8 are a logarithmic axis
//! then, which is what such values are meant for.

use std::time::SystemTime;

use analysis::Figures;
use units::Rate;

use super::frame::Frame;
use super::time;
use crate::chart::{Chart, Line, MOST_LINES, Scale};
use crate::run::{self, short};
use crate::swept::{self as said, Swept};
use crate::text::sentence;

/// What is on the page of a sweep.
pub struct SweepPage<'a> {
    /// What it is called.
    pub title: &'a str,
    /// When it began, if that is known.
    pub started: Option<SystemTime>,
    /// On what it was, and how it ended.
    pub about: &'a str,
    /// The keys of its axes, each with its values.
    pub axes: &'a [(String, Vec<String>)],
    /// The points that were run.
    pub points: &'a [Swept<'a>],
    /// What a reader must know besides: it was ended early, folders are gone.
    pub remarks: &'a [String],
    /// Texts of its folder with their names, to be unfolded.
    pub files: &'a [(&'static str, String)],
}

/// A figure that is drawn.
struct Figure {
    title: &'static str,
    scale: Scale,
    of: fn(&Figures) -> Option<f64>,
    written: fn(f64) -> String,
}

const FIGURES: [Figure; 4] = [
    Figure {
        title: "Requests per second",
        scale: Scale::Linear,
        of: |figures| Some(figures.iops.get()),
        written: |value| format!("{value:.0}"),
    },
    Figure {
        title: "Bandwidth",
        scale: Scale::Linear,
        of: |figures| Some(figures.bandwidth.get()),
        written: |value| Rate::bytes_per_second(value).to_string(),
    },
    Figure {
        title: "Mean response time",
        scale: Scale::Log,
        of: |figures| Some(figures.latency?.mean.as_nanos() as f64),
        written: time,
    },
    Figure {
        title: "Response time, 99th percentile",
        scale: Scale::Log,
        of: |figures| Some(figures.latency?.p99.as_nanos() as f64),
        written: time,
    },
];

/// The page.
pub fn sweep_page(page: &SweepPage) -> String {
    let mut frame = Frame::new(page.title, page.started, page.about);
    let keys: Vec<String> = page.axes.iter().map(|(key, _)| key.clone()).collect();
    said::limits(&keys, page.points).iter().for_each(|line| frame.paragraph("limit", line));
    page.remarks.iter().for_each(|line| frame.paragraph("advice", &sentence(line)));
    let points: Vec<&run::Sweep> = page.points.iter().map(|point| &point.point).collect();
    frame.section("What each point came to", &run::points_of(&keys, &points));
    curves(&mut frame, page, &keys);
    frame.section("What limits each point", &said::verdicts(&keys, page.points));
    frame.finish(page.files)
}

/// The points in lines over an axis.
struct Curves<'a> {
    /// The values of the axis.
    values: &'a [String],
    /// Names of lines, and their points: the place on the axis, and what it came to.
    lines: Vec<(String, Vec<(usize, &'a Figures)>)>,
}

impl<'a> Curves<'a> {
    /// Over the axis of this number.
    fn over(across: usize, page: &'a SweepPage, keys: &[String]) -> Curves<'a> {
        let (_, values) = &page.axes[across];
        let mut lines: Vec<(String, Vec<(usize, &Figures)>)> = Vec::new();
        for Swept { point, .. } in page.points {
            let Some(place) = values.iter().position(|value| *value == point.values[across]) else { continue };
            let others = short(keys).into_iter().zip(&point.values).enumerate().filter(|(axis, _)| *axis != across);
            let name: Vec<String> = others.map(|(_, (name, value))| format!("{name} = {value}")).collect();
            let (name, figures) = (name.join(", "), &point.total.figures);
            match lines.iter_mut().find(|(known, _)| *known == name) {
                Some((_, points)) => points.push((place, figures)),
                None => lines.push((name, vec![(place, figures)])),
            }
        }
        lines.iter_mut().for_each(|(_, points)| points.sort_by_key(|(place, _)| *place));
        Curves { values, lines }
    }

    /// The chart of a figure.
    fn draw(&self, figure: &Figure, axis: &str, below: &str) -> String {
        let lines = self.lines.iter().take(MOST_LINES).map(|(name, points)| {
            let points = points.iter().filter_map(|(place, figures)| Some((*place as f64, (figure.of)(figures)?)));
            Line { name: name.clone(), points: points.collect() }
        });
        let lines: Vec<Line> = lines.collect();
        let tips = self.values.iter().enumerate().map(|(place, value)| {
            let told = lines.iter().filter_map(|line| {
                let (_, found) = line.points.iter().find(|(at, _)| *at == place as f64)?;
                let name = if line.name.is_empty() { String::new() } else { format!("{}: ", line.name) };
                Some(format!("{name}{}", (figure.written)(*found)))
            });
            let told: Vec<String> = told.collect();
            let told = if told.is_empty() { "was not run".to_owned() } else { told.join("; ") };
            (place as f64 - 0.5..place as f64 + 0.5, format!("{axis} = {value}. {told}"))
        });
        let tips = tips.collect();
        let chart = Chart {
            title: figure.title,
            below,
            across: -0.5..self.values.len() as f64 - 0.5,
            ticks: self.values.iter().enumerate().map(|(place, value)| (place as f64, value.clone())).collect(),
            scale: figure.scale,
            value: &figure.written,
            lines,
            shaded: Vec::new(),
            begins: Vec::new(),
            tips,
            dots: true,
        };
        chart.svg()
    }
}

fn curves(frame: &mut Frame, page: &SweepPage, keys: &[String]) {
    // Of axes with as many values, the first.
    let across = (0..page.axes.len()).rev().max_by_key(|axis| page.axes[*axis].1.len());
    let Some(across) = across.filter(|_| !page.points.is_empty()) else { return };
    let curves = Curves::over(across, page, keys);
    let names = short(keys);
    let others: Vec<&str> =
        names.iter().enumerate().filter(|(axis, _)| *axis != across).map(|(_, name)| name.as_str()).collect();
    let mut below = format!("{}, values at equal distances", names[across]);
    if !others.is_empty() {
        below.push_str(&format!("; a line for each {}", others.join(" and ")));
    }
    if curves.lines.len() > MOST_LINES {
        below.push_str(&format!("; the first {MOST_LINES} of {} lines, the table has all", curves.lines.len()));
    }
    frame.heading(&format!("Over {}", names[across]));
    FIGURES.iter().for_each(|figure| frame.picture(&curves.draw(figure, &names[across], &below)));
}
