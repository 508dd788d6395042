//! A run as one page of HTML: what limited it, what it came to, how it went, and how it was asked for.
//!
//! Everything stands in the one file: no script, no font, no picture from elsewhere, so that it can be mailed, archived and opened without a network.
//! The order is that of a reader with one minute: the limit, the advice, the figures; then what they rest on.

use std::fmt::Write;
use std::ops::Range;
use std::time::SystemTime;

use analysis::explain::Explanation;
use analysis::{Course, Interval, Pass, Summary};
use chrono::{DateTime, Utc};
use units::{Bytes, Duration, Rate, Ratio};

use crate::chart::{Chart, Line, MOST_LINES, Scale};
use crate::explanation as said;
use crate::lanes::{Lanes, lanes};
use crate::run;
use crate::table::Table;
use crate::text::{escaped, sentence};
use crate::ticks::step;

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
    /// Texts of the run folder with their names, to be unfolded.
    pub files: &'a [(&'static str, String)],
}

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;color:#1f2430;max-width:1140px;margin:2em auto;padding:0 1em}
h1{font-size:1.6em;margin:0}h2{font-size:1.15em;margin:2em 0 .5em;border-bottom:1px solid #ddd}
.about{color:#5a6070;margin:0 0 1.5em}.limit{font-size:1.1em;background:#eef4fa;border-left:4px solid #0072b2;padding:.6em 1em}
.advice{background:#fdf5e6;border-left:4px solid #e69f00;padding:.4em 1em;margin:.5em 0}
table{border-collapse:collapse;margin:.5em 0;font-variant-numeric:tabular-nums;display:block;overflow-x:auto}
th,td{text-align:right;padding:.15em .9em .15em 0;white-space:nowrap}th{font-weight:600;border-bottom:1px solid #999}
.words{text-align:left}svg{width:100%;height:auto;font-family:system-ui,sans-serif;font-size:12px}
.chart text{fill:#1f2430}.chart .title{font-weight:600;font-size:13px}.chart .below{fill:#5a6070}.line{fill:none;stroke-width:1.6;stroke-linecap:round;stroke-linejoin:round}
.grid{stroke:#e4e6ea;fill:none}.begins{stroke:#8a90a0;stroke-dasharray:4 3;fill:none}.shaded{fill:#f3f1ea}.tip{fill:transparent}.tip:hover{fill:#0072b218}
pre{background:#f6f7f9;padding:1em;overflow-x:auto;font-size:12.5px}footer{color:#5a6070;margin:3em 0 1em;font-size:.85em}
@media print{body{margin:0}.tip{display:none}}
";

/// The page.
pub fn page(page: &Page) -> String {
    let begun = |started| DateTime::<Utc>::from(started).format("begun %Y-%m-%d %H:%M:%S UTC, ").to_string();
    let about = page.started.map_or(String::new(), begun) + page.about;
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{0}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>{0}</h1>\n<p class=\"about\">{1}</p>\n",
        escaped(page.title),
        escaped(&about)
    );
    let explanation = page.explanation;
    paragraph(&mut html, "limit", said::limit(explanation).trim_end());
    said::next(explanation).iter().for_each(|line| paragraph(&mut html, "", &sentence(line)));
    said::advice(explanation).for_each(|line| paragraph(&mut html, "advice", &sentence(&line)));
    section(&mut html, "What it came to", &run::figures(page.summary));
    if let Some(spread) = run::spread(page.summary) {
        let _ = writeln!(html, "<pre>{}</pre>", escaped(spread.trim_end()));
    }
    course(&mut html, page);
    if !explanation.devices.is_empty() {
        section(&mut html, "Where the time of requests went", &said::devices(explanation));
    }
    said::failures(explanation).for_each(|line| paragraph(&mut html, "", &line));
    said::generator(explanation).iter().for_each(|line| paragraph(&mut html, "", line));
    said::shared(explanation).for_each(|line| paragraph(&mut html, "", &line));
    if !explanation.excluded.is_empty() {
        heading(&mut html, "What does not limit");
        said::excluded(explanation).for_each(|line| paragraph(&mut html, "", &sentence(&line)));
    }
    rounds(&mut html, explanation);
    heading(&mut html, "Some requests, from the middle of the run");
    html.push_str(&lanes(&page.lanes));
    if !explanation.ladder.is_empty() {
        section(&mut html, "What each part allows if it alone limits", &said::ladder(explanation));
    }
    if !explanation.what_if.is_empty() {
        heading(&mut html, "What a change would bring");
        said::changes(explanation).for_each(|line| paragraph(&mut html, "", &sentence(&line)));
    }
    if !explanation.timeline.is_empty() {
        section(&mut html, "The way through the kernel", &said::timeline(&explanation.timeline));
    }
    if !explanation.parts.is_empty() {
        section(&mut html, "Parts of the modelled machine", &said::phases(&explanation.parts));
    }
    if !explanation.worst.is_empty() {
        section(&mut html, "The longest requests", &said::worst(explanation));
    }
    if !explanation.remarks.is_empty() {
        heading(&mut html, "To be known");
        explanation.remarks.iter().for_each(|line| paragraph(&mut html, "", &sentence(line)));
    }
    if !page.files.is_empty() {
        heading(&mut html, "As it was run");
    }
    for (name, text) in page.files {
        let (name, text) = (escaped(name), escaped(text));
        let _ = writeln!(html, "<details><summary>{name}</summary>\n<pre>{text}</pre>\n</details>");
    }
    let _ = writeln!(html, "<footer>arraylab {}</footer>\n</body>\n</html>", env!("CARGO_PKG_VERSION"));
    html
}

fn heading(html: &mut String, text: &str) {
    let _ = writeln!(html, "<h2>{}</h2>", escaped(text));
}

fn paragraph(html: &mut String, class: &str, text: &str) {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let _ = writeln!(html, "<p{class}>{}</p>", escaped(text));
}

fn section(html: &mut String, title: &str, table: &Table) {
    heading(html, title);
    html.push_str(&table.html());
}

fn rounds(html: &mut String, explanation: &Explanation) {
    let Some(rounds) = &explanation.rounds else {
        if let Some(why) = &explanation.no_rounds {
            paragraph(html, "", &format!("Rounds: {why}"));
        }
        return;
    };
    heading(html, "Rounds");
    paragraph(html, "", &said::verdict(rounds));
    rounds.strays().iter().for_each(|said| paragraph(html, "", &format!("{said}.")));
    html.push_str(&said::deltas(rounds).html());
    paragraph(html, "", &sentence(&said::threshold(rounds)));
    html.push_str(&said::service(rounds).html());
    paragraph(html, "", &sentence(&said::order(rounds)));
    if let Some(beside) = &explanation.formulas {
        html.push_str(&said::formulas(beside).html());
        paragraph(html, "", &sentence(&said::about_formulas(beside)));
    }
}

/// The charts over time, and the one of percentiles.
fn course(html: &mut String, page: &Page) {
    if page.course.series.is_empty() {
        return;
    }
    heading(html, "How it went");
    let times = Times::of(page.course);
    let rate = |value: f64| Rate::bytes_per_second(value).to_string();
    html.push_str(&times.chart("Bandwidth", Scale::Linear, &rate, times.bandwidths(page.lanes.names)).svg());
    html.push_str(&times.chart("Response time", Scale::Log, &time, times.responses()).svg());
    html.push_str(&percentiles(page.course).svg());
}

fn time(nanos: f64) -> String {
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
    }
}
