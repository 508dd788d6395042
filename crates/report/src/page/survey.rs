//! A survey as a page: its verdicts, what more and more devices gave, its tables and ladders, and how it was made.

use std::time::SystemTime;

use analysis::survey::{Question, Survey, VerdictKind};

use super::devices;
use super::frame::Frame;
use crate::chart::{Chart, Line, MOST_LINES, Scale};
use crate::survey::{self as said, Derived};
use crate::text::sentence;

/// What is on the page of a survey.
pub struct SurveyPage<'a> {
    /// What it is called.
    pub title: &'a str,
    /// When it began, if that is known.
    pub started: Option<SystemTime>,
    /// On what it was, and how it ended.
    pub about: &'a str,
    /// What it came to.
    pub survey: &'a Survey,
    /// Of a modelled machine, the ladders that were derived: for bandwidth, and for requests.
    pub ladders: Option<[Vec<Derived>; 2]>,
    /// What a reader must know besides.
    pub remarks: &'a [String],
    /// Texts of the run folder with their names, to be unfolded.
    pub files: &'a [(&'static str, String)],
}

const QUESTIONS: [Question; 2] = [Question::Bandwidth, Question::Requests];

/// The page.
pub fn survey_page(page: &SurveyPage) -> String {
    let mut frame = Frame::new(page.title, page.started, page.about);
    let survey = page.survey;
    if survey.levels.is_empty() {
        frame.paragraph("limit", &sentence(said::NOTHING));
    } else {
        verdicts(&mut frame, survey);
        curves(&mut frame, survey);
        tables(&mut frame, page);
    }
    if !page.remarks.is_empty() {
        frame.heading("To be known");
        page.remarks.iter().for_each(|line| frame.paragraph("", &format!("{line}.")));
    }
    frame.finish(page.files)
}

fn verdicts(frame: &mut Frame, survey: &Survey) {
    if survey.verdicts.is_empty() {
        frame.paragraph("limit", said::NO_VERDICT);
    }
    for (verdict, evidence) in said::verdicts(survey) {
        let (asked, part) = (asked(verdict.question), &verdict.part);
        let (class, said) = match (verdict.kind, verdict.limit.as_str()) {
            (VerdictKind::Noise, _) => ("", format!("What limits {asked} of {part} is open")),
            (_, "") => ("", format!("Nothing limits {asked} at {part}")),
            (_, limit) if limit == part => ("limit", format!("What limits {asked}: {limit}")),
            (_, limit) => ("limit", format!("What limits {asked} of {part}: {limit}")),
        };
        frame.paragraph(class, &format!("{said}; {evidence}."));
    }
}

fn asked(question: Question) -> &'static str {
    match question {
        Question::Bandwidth => "the bandwidth",
        Question::Requests => "the rate of requests",
    }
}

/// What more and more devices of each part gave, that of the whole first.
fn curves(frame: &mut Frame, survey: &Survey) {
    let levels: Vec<_> = survey.levels.iter().rev().filter(|level| level.curve.len() > 1).collect();
    let most = levels.iter().flat_map(|level| &level.curve).map(|point| point.devices).max();
    let Some(most) = most else { return };
    frame.heading("More and more devices");
    let left_out = devices::left_out(levels.len(), MOST_LINES);
    let below = format!("devices that are active, raw; a line for each part that they share{left_out}");
    for (title, question) in [("Bandwidth", Question::Bandwidth), ("Requests per second", Question::Requests)] {
        let value = |value: f64| said::amount(value, question);
        let lines = levels.iter().take(MOST_LINES).map(|level| {
            let points = level.curve.iter().map(|point| match question {
                Question::Bandwidth => (point.devices as f64, point.bandwidth.get()),
                Question::Requests => (point.devices as f64, point.requests.get()),
            });
            Line { name: said::name(level), points: points.collect() }
        });
        let lines: Vec<Line> = lines.collect();
        let chart = Chart {
            title,
            below: &below,
            across: 0.5..most as f64 + 0.5,
            ticks: devices::ticks(most),
            scale: Scale::Linear,
            value: &value,
            tips: devices::tips(&lines, most, value),
            lines,
            shaded: Vec::new(),
            begins: Vec::new(),
            dots: true,
        };
        frame.picture(&chart.svg());
    }
}

fn tables(frame: &mut Frame, page: &SurveyPage) {
    let survey = page.survey;
    frame.section(
        &format!("Bandwidth, by sequential requests of {}", survey.request),
        &said::read(survey, Question::Bandwidth),
    );
    frame.section("Requests per second, by 4 KiB at random", &said::read(survey, Question::Requests));
    for (heading, table) in QUESTIONS.map(|question| said::writes(survey, question)) {
        if !table.is_empty() {
            frame.section(heading, &table);
        }
    }
    frame.paragraph("", if page.ladders.is_some() { said::MODELLED } else { said::REAL });
    frame.paragraph("", said::EXPECTED);
    said::places(survey).for_each(|line| frame.paragraph("", &line));
    if survey.ladder.is_empty() {
        return;
    }
    frame.section("The ladder, what limits first at the top", &said::rungs(survey));
    if let Some([bandwidth, requests]) = &page.ladders {
        frame.heading("The ladder, derived by making parts faster");
        frame.paragraph("", "Of all disks, read through the operating system: first in sequence, then at random.");
        frame.table(&said::derived(bandwidth));
        frame.table(&said::derived(requests));
    }
    frame.heading("How far repeats lie apart");
    frame.plain(&said::repeatability(survey));
}
