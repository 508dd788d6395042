//! A run as one page of HTML: what limited it, what it came to, how it went, and how it was asked for.
//!
//! The order is that of a reader with one minute: the limit, the advice, the figures; then what they rest on.

mod comparison;
mod devices;
mod frame;
mod maximum;
mod survey;
mod sweep;

use std::ops::Range;
use std::time::SystemTime;

use analysis::explain::Explanation;
use analysis::{Course, Interval, Pass, Summary};
use record::SpanLog;
use units::{Bytes, Duration, Rate, Ratio};

use crate::chart::{Chart, Line, MOST_LINES, Scale};
use crate::explanation as said;
use crate::lanes::{Lanes, lanes};
use crate::run;
use crate::text::sentence;
use crate::ticks::step;
use crate::ways::ways;
use frame::Frame;

pub use comparison::{ComparisonPage, Pair, SAME, Turn, comparison_page};
pub use maximum::{MaximumPage, maximum_page};
pub use survey::{SurveyPage, survey_page};
pub use sweep::{SweepPage, sweep_page};

/// What is on the page.
pub struct Page<'a> {
    /// What the run is called.
    pub title: &'a str,
    /// When it began, if that is known.
    pub started: Option<SystemTime>,
    /// On what it was, and how it ended.
    pub about: &'a str,
    /// What was found.
    pub explanation: &'a Explanation,
    /// What it came to.
    pub summary: &'a Summary,
    /// How it went.
    pub course: &'a Course,
    /// Some of its requests as bars.
    pub lanes: Lanes<'a>,
    /// The way of the first of them through the parts, if it is known.
    pub ways: Option<&'a SpanLog>,
    /// Texts of the run folder with their names, to be unfolded.
    pub files: &'a [(&'static str, String)],
}

/// The page.
pub fn page(page: &Page) -> String {
    let mut frame = Frame::new(page.title, page.started, page.about);
    let explanation = page.explanation;
    frame.paragraph("limit", said::limit(explanation).trim_end());
    said::next(explanation).iter().for_each(|line| frame.paragraph("", &sentence(line)));
    said::advice(explanation).for_each(|line| frame.paragraph("advice", &sentence(&line)));
    frame.section("What it came to", &run::figures(page.summary));
    if let Some(spread) = run::spread(page.summary) {
        frame.plain(&spread);
    }
    course(&mut frame, page);
    if !explanation.devices.is_empty() {
        frame.section("Where the time of requests went", &said::devices(explanation));
    }
    said::failures(explanation).for_each(|line| frame.paragraph("", &line));
    said::generator(explanation).iter().for_each(|line| frame.paragraph("", line));
    said::shared(explanation).for_each(|line| frame.paragraph("", &line));
    if !explanation.excluded.is_empty() {
        frame.heading("What does not limit");
        said::excluded(explanation).for_each(|line| frame.paragraph("", &sentence(&line)));
    }
    rounds(&mut frame, explanation);
    frame.heading("Some requests, from the middle of the run");
    frame.picture(&format!("<div class=\"scroll\">\n{}</div>\n", lanes(&page.lanes)));
    if let Some(svg) = page.ways.and_then(|log| ways(log, page.lanes.rows, page.lanes.window)) {
        frame.heading("Their way through the parts");
        frame.paragraph("", "The first hundred of them at most. A request keeps its colour from part to part.");
        frame.picture(&format!("<div class=\"scroll\">\n{svg}</div>\n"));
    }
    if !explanation.ladder.is_empty() {
        frame.section("What each part allows if it alone limits", &said::ladder(explanation));
    }
    if !explanation.what_if.is_empty() {
        frame.heading("What a change would bring");
        said::changes(explanation).for_each(|line| frame.paragraph("", &sentence(&line)));
    }
    if !explanation.timeline.is_empty() {
        frame.section("The way through the kernel", &said::timeline(&explanation.timeline));
    }
    if !explanation.parts.is_empty() {
        frame.section("Parts of the modelled machine", &said::phases(&explanation.parts));
    }
    if !explanation.worst.is_empty() {
        frame.section("The longest requests", &said::worst(explanation));
    }
    if !explanation.remarks.is_empty() {
        frame.heading("To be known");
        explanation.remarks.iter().for_each(|line| frame.paragraph("", &sentence(line)));
    }
    frame.finish(page.files)
}

fn rounds(frame: &mut Frame, explanation: &Explanation) {
    let Some(rounds) = &explanation.rounds else {
        if let Some(why) = &explanation.no_rounds {
            frame.paragraph("", &format!("Rounds: {why}"));
        }
        return;
    };
    frame.heading("Rounds");
    frame.paragraph("", &said::verdict(rounds));
    rounds.strays().iter().for_each(|said| frame.paragraph("", &format!("{said}.")));
    frame.table(&said::deltas(rounds));
    frame.paragraph("", &sentence(&said::threshold(rounds)));
    frame.table(&said::service(rounds));
    frame.paragraph("", &sentence(&said::order(rounds)));
    if let Some(beside) = &explanation.formulas {
        frame.table(&said::formulas(beside));
        frame.paragraph("", &sentence(&said::about_formulas(beside)));
    }
}

/// The charts over time, and the one of percentiles.
fn course(frame: &mut Frame, page: &Page) {
    if page.course.series.is_empty() {
        return;
    }
    frame.heading("How it went");
    let times = Times::of(page.course);
    let rate = |value: f64| Rate::bytes_per_second(value).to_string();
    frame.picture(&times.chart("Bandwidth", Scale::Linear, &rate, times.bandwidths(page.lanes.names)).svg());
    frame.picture(&times.chart("Response time", Scale::Log, &time, times.responses()).svg());
    frame.picture(&percentiles(page.course).svg());
}

pub(crate) fn time(nanos: f64) -> String {
    Duration::nanos(nanos.round() as u64).to_string()
}

/// A course with its time in seconds, as charts have it.
struct Times<'a> {
    course: &'a Course,
    interval: Duration,
    length: f64,
    below: String,
}

impl<'a> Times<'a> {
    fn of(course: &'a Course) -> Times<'a> {
        let interval = course.series.interval();
        let passes = if course.passes.len() > 1 { "; dashed: a pass begins" } else { "" };
        let below = format!("time, in intervals of {interval}; shaded: not counted{passes}");
        Times { course, interval, length: course.length().as_seconds(), below }
    }

    /// The middle of an interval.
    fn middle(&self, index: usize) -> f64 {
        ((index as f64 + 0.5) * self.interval.as_seconds()).min(self.length)
    }

    /// Bytes a second in an interval. The last one is cut off by the end of the run; of a moment there is no rate.
    fn rate(&self, index: usize, bytes: Bytes) -> f64 {
        let whole = self.interval.as_seconds();
        bytes.get() as f64 / (self.length - index as f64 * whole).clamp(whole / 2.0, whole)
    }

    /// What all devices did, interval by interval.
    fn totals(&self) -> impl Iterator<Item = (usize, Interval)> {
        (0..self.course.series.len()).map(|index| (index, self.course.series.total(index)))
    }

    /// Of all devices, and of each if they can be told apart.
    fn bandwidths(&self, names: &[String]) -> Vec<Line> {
        let point = |(index, done): (usize, Interval)| (self.middle(index), self.rate(index, done.bytes));
        let mut lines = vec![Line { name: "all".into(), points: self.totals().map(point).collect() }];
        if (2..MOST_LINES).contains(&names.len()) {
            lines.extend(names.iter().enumerate().map(|(device, name)| {
                let series = &self.course.series;
                let done = (0..series.len()).map(|index| (index, series.get(index, device as u16)));
                Line { name: name.clone(), points: done.map(point).collect() }
            }));
        }
        lines
    }

    fn responses(&self) -> Vec<Line> {
        let done = || self.totals().filter(|(_, done)| done.requests > 0);
        let longest = done().map(|(index, done)| (self.middle(index), done.response_max.as_nanos() as f64));
        let mean =
            done().filter_map(|(index, done)| Some((self.middle(index), done.response_mean()?.as_nanos() as f64)));
        vec![
            Line { name: "longest".into(), points: longest.collect() },
            Line { name: "mean".into(), points: mean.collect() },
        ]
    }

    /// What is told of an interval.
    fn tip(&self, (index, done): (usize, Interval)) -> (Range<f64>, String) {
        let begins = self.interval * index as u64;
        let ends = begins + self.interval;
        let rate = Rate::bytes_per_second(self.rate(index, done.bytes));
        let mean = done.response_mean().map_or("-".into(), |mean| mean.to_string());
        let tip = format!(
            "{begins} to {ends}: {rate}, {} requests, mean {mean}, longest {}, {} errors",
            done.requests, done.response_max, done.errors
        );
        (begins.as_seconds()..ends.as_seconds().min(self.length), tip)
    }

    /// A chart over the time of the run.
    fn chart<'c>(
        &'c self,
        title: &'c str,
        scale: Scale,
        value: &'c dyn Fn(f64) -> String,
        lines: Vec<Line>,
    ) -> Chart<'c> {
        let apart = step(self.length / 10.0);
        let ticks = (0..=(self.length / apart) as u64).map(|tick| tick as f64 * apart);
        let uncounted = |pass: &Pass| [pass.whole.start..pass.counted.start, pass.counted.end..pass.whole.end];
        let shaded = self.course.passes.iter().flat_map(uncounted);
        let begins = self.course.passes.iter().skip(1).map(|pass| pass.whole.start.as_seconds());
        Chart {
            title,
            below: &self.below,
            across: 0.0..self.length,
            ticks: ticks.map(|at| (at, time(at * 1e9))).collect(),
            scale,
            value,
            lines,
            shaded: shaded.map(|range| range.start.as_seconds()..range.end.as_seconds()).collect(),
            begins: begins.collect(),
            tips: self.totals().map(|it| self.tip(it)).collect(),
            dots: false,
        }
    }
}

/// Response times by their share, with as much room for each nine.
fn percentiles(course: &Course) -> Chart<'static> {
    let most = course.responses.iter().map(|(_, times)| times.count()).max().unwrap_or(1);
    // Beyond this a percentile is a single request.
    let nines = (most as f64).log10().clamp(1.0, 6.0);
    let place = |share: f64| -(1.0 - share).log10();
    let lines = course.responses.iter().map(|(operation, times)| {
        let most = (times.count() as f64).log10().clamp(0.1, nines);
        let shares = (0..=200).map(|point| 1.0 - 10f64.powf(-most * f64::from(point) / 200.0));
        let points = shares.map(|share| {
            let time = times.quantile(Ratio::new(share)).expect("a distribution has times");
            (place(share), time.as_nanos() as f64)
        });
        Line { name: operation.name().to_owned(), points: points.collect() }
    });
    let named = [(0.0, "0 %"), (0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (0.9999, "99.99 %")];
    let named = named.into_iter().chain([(0.99999, "99.999 %"), (0.999999, "99.9999 %")]);
    let ticks = named.map(|(share, name)| (place(share), name.to_owned())).filter(|(at, _)| *at <= nines + 1e-9);
    Chart {
        title: "Response time by percentile",
        below: "share of the requests that took at most so long; each nine has the same width",
        across: 0.0..nines,
        ticks: ticks.collect(),
        scale: Scale::Log,
        value: &time,
        lines: lines.collect(),
        shaded: Vec::new(),
        begins: Vec::new(),
        tips: Vec::new(),
        dots: false,
    }
}
