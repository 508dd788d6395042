//! A survey, as RAID-I's Table 32 prints it: level by level what was expected and what was measured, then the verdicts
//! and the ladder.

use analysis::survey::{Level, Measured, Processors, Question, Survey, Tier, Verdict};
use units::{Frequency, Rate, Ratio};

use crate::Table;
use crate::text::wrapped;

/// Devices up to this number have a line each; more are drawn together.
const EACH: usize = 8;

/// The whole survey of a real machine as text.
pub fn survey(survey: &Survey) -> String {
    whole(survey, REAL)
}

/// What the columns mean.
pub(crate) const REAL: &str = "\
raw: direct, several requests under way. os: through the page cache, as many under way. process: through the page
cache, one process per device that waits for each request. cpu: of all processors.";

/// The same of a modelled machine.
pub(crate) const MODELLED: &str =
    "raw: by the call that neither copies nor flushes. os: one process per disk, copied. cpu: by the idle loop.";

/// The whole survey of a modelled machine.
pub fn modelled_survey(survey: &Survey) -> String {
    whole(survey, MODELLED)
}

/// A rung of a derived ladder: the part, what the machine gives under its limit, and what twice as much of it gains.
pub type Derived = (String, Rate, Frequency, Option<f64>);

/// A derived ladder: what limits, what the machine gives under that limit, and what doubling the part brings.
pub fn ladder(rungs: &[Derived]) -> String {
    derived(rungs).to_string()
}

pub(crate) fn derived(rungs: &[Derived]) -> Table {
    let mut table = Table::new(["limit", "bandwidth", "requests/s", "twice as fast gives"]);
    for (part, bandwidth, requests, gain) in rungs {
        let gain = gain.map_or(String::new(), |gain| format!("{gain:.2} x"));
        table.row([part.clone(), bandwidth.to_string(), count(requests.get()), gain]);
    }
    table
}

/// What a survey without levels has to say.
pub(crate) const NOTHING: &str = "no device was measured in every way before the survey ended";

/// What one that was cut short has to say.
pub(crate) const NO_VERDICT: &str = "No verdict and no ladder: not every point was measured twice.";

fn whole(survey: &Survey, legend: &str) -> String {
    if survey.levels.is_empty() {
        return format!("{NOTHING}\n");
    }
    let mut text = levels(survey, legend);
    text.push('\n');
    if survey.ladder.is_empty() {
        text.push_str(&format!("{NO_VERDICT}\n"));
        return text;
    }
    verdicts(survey).for_each(|(_, said)| text.push_str(&wrapped(&format!("* {said}"))));
    text.push_str("\nThe ladder, what limits first at the top:\n");
    text.push_str(&rungs(survey).to_string());
    text.push('\n');
    text.push_str(&repeatability(survey));
    text
}

/// The ladder that was measured.
pub(crate) fn rungs(survey: &Survey) -> Table {
    let mut table = Table::new(["", "bandwidth", "requests/s"]);
    for rung in &survey.ladder {
        table.row([rung.part.clone(), rung.bandwidth.to_string(), count(rung.requests.get())]);
    }
    table
}

/// A sentence each, and the verdict it is of. Of parts of one tier that have as many devices and the same verdict, the
/// first speaks for the others.
pub(crate) fn verdicts(survey: &Survey) -> impl Iterator<Item = (&Verdict, String)> {
    let devices = |verdict: &Verdict| level(survey, verdict).map(|level| level.devices);
    let alike = |a: &Verdict, b: &Verdict| {
        (a.level, a.question, a.kind, devices(a)) == (b.level, b.question, b.kind, devices(b)) && devices(a).is_some()
    };
    let mut groups: Vec<Vec<&Verdict>> = Vec::new();
    for verdict in &survey.verdicts {
        match groups.iter_mut().find(|group| alike(group[0], verdict)) {
            Some(group) => group.push(verdict),
            None => groups.push(vec![verdict]),
        }
    }
    groups.into_iter().map(|group| {
        let first = format!("{} ({})", group[0].evidence, sure(group[0].confidence));
        (group[0], format!("{first}{}", likewise(survey, &group[1..])))
    })
}

/// The parts of which the same is true, and between which they deliver.
fn likewise(survey: &Survey, others: &[&Verdict]) -> String {
    let measured = |verdict: &&Verdict| Some(answer(&level(survey, verdict)?.raw, verdict.question));
    let mut amounts: Vec<f64> = others.iter().filter_map(measured).collect();
    amounts.sort_by(f64::total_cmp);
    let [Some(low), Some(high)] = [amounts.first(), amounts.last()] else { return String::new() };
    let question = others[0].question;
    let [low, high] = [*low, *high].map(|value| amount(value, question));
    let range = if low == high { low } else { format!("{low} to {high}") };
    let unit = if question == Question::Requests { " requests/s" } else { "" };
    let mut names: Vec<&str> = others.iter().map(|verdict| verdict.part.as_str()).collect();
    names.sort_unstable();
    format!(". Likewise {}: {range}{unit}", names.join(", "))
}

/// The level that a verdict is about.
fn level<'s>(survey: &'s Survey, verdict: &Verdict) -> Option<&'s Level> {
    survey.levels.iter().find(|level| level.level == verdict.level && level.name == verdict.part)
}

/// Three repeats never make certain.
fn sure(confidence: Ratio) -> String {
    if confidence.get() > 0.99 { "over 99 % sure".to_owned() } else { format!("{confidence} sure") }
}

fn levels(survey: &Survey, legend: &str) -> String {
    let [bandwidth, requests] = [Question::Bandwidth, Question::Requests].map(|question| read(survey, question));
    let places = places(survey).map(|line| format!("{line}\n")).collect::<String>();
    let written = [Question::Bandwidth, Question::Requests].map(|question| {
        let (heading, table) = writes(survey, question);
        if table.is_empty() { String::new() } else { format!("{heading}\n\n{table}\n") }
    });
    format!(
        "Bandwidth, by sequential requests of {}\n\n{bandwidth}\nRequests per second, by 4 KiB at random\n\n{requests}\n{}\
         {legend}\n{EXPECTED}\n{places}",
        survey.request,
        written.concat()
    )
}

/// What the column means.
pub(crate) const EXPECTED: &str = "expected: the sum of the parts below, raw.";

/// What was read, level by level.
pub(crate) fn read(survey: &Survey, question: Question) -> Table {
    let by_process = survey.levels.iter().any(|level| level.process.is_some());
    let headings = HEADINGS.into_iter().filter(|heading| by_process || *heading != PROCESS);
    let mut table = Table::new(headings);
    let devices: Vec<&Level> = survey.levels.iter().filter(|level| level.devices == 1).collect();
    if devices.len() > EACH {
        table.row(drawn_together(&devices, question));
    }
    let all = survey.levels.iter().filter(|level| level.devices > 1 || devices.len() <= EACH);
    all.for_each(|level| table.row(line(level, question)));
    table
}

/// What the parts that are shared hang on.
pub(crate) fn places(survey: &Survey) -> impl Iterator<Item = String> {
    let shared = survey.levels.iter().filter(|level| level.devices > 1 && !level.on.is_empty());
    shared.map(|level| format!("{} is on {}.", level.name, level.on.join(", ")))
}

/// What was written, if anything was, and its heading.
pub(crate) fn writes(survey: &Survey, question: Question) -> (&'static str, Table) {
    let mut table = Table::new(["level", "devices", "raw", "os", "cpu raw", "cpu os"]);
    for level in &survey.levels {
        let Some((raw, os)) = level.written.as_deref() else { continue };
        table.row([
            name(level),
            level.devices.to_string(),
            amount(answer(raw, question), question),
            amount(answer(os, question), question),
            cpu(processors(raw, question)),
            cpu(processors(os, question)),
        ]);
    }
    let heading = match question {
        Question::Bandwidth => "Bandwidth, written",
        Question::Requests => "Requests per second, written",
    };
    (heading, table)
}

const HEADINGS: [&str; 9] = ["level", "devices", "expected", "raw", "efficiency", "os", PROCESS, "cpu raw", "cpu os"];

/// The column of what was measured by one process per device, if that was.
const PROCESS: &str = "process";

/// How a level is called.
pub(crate) fn name(level: &Level) -> String {
    match level.level {
        Tier::Disk => level.name.clone(),
        Tier::Host => "the host".to_owned(),
        tier => format!("{} {}", tier.name(), level.name),
    }
}

fn line(level: &Level, question: Question) -> Vec<String> {
    let expected = level.expected.map(|expected| match question {
        Question::Bandwidth => expected.bandwidth.get(),
        Question::Requests => expected.requests.get(),
    });
    let (raw, os) = (answer(&level.raw, question), answer(&level.os, question));
    let mut line = vec![
        name(level),
        level.devices.to_string(),
        expected.map_or(String::new(), |expected| amount(expected, question)),
        amount(raw, question),
        expected.map_or(String::new(), |expected| Ratio::new(raw / expected.max(1e-9)).to_string()),
        amount(os, question),
    ];
    line.extend(level.process.as_ref().map(|process| amount(answer(process, question), question)));
    line.extend([&level.raw, &level.os].map(|measured| cpu(processors(measured, question))));
    line
}

/// Means over many devices, as they are too many to list.
fn drawn_together(devices: &[&Level], question: Question) -> Vec<String> {
    let mean = |measured: fn(&Level) -> Option<&Measured>| {
        let sum: Option<f64> = devices.iter().map(|level| Some(answer(measured(level)?, question))).sum();
        sum.map(|sum| amount(sum / devices.len() as f64, question))
    };
    let blank = String::new;
    let mut line = vec![format!("each of {} devices, on average", devices.len()), "1".into(), blank()];
    line.extend(mean(|level| Some(&level.raw)));
    line.push(blank());
    line.extend(mean(|level| Some(&level.os)));
    line.extend(mean(|level| level.process.as_ref()));
    line.extend([blank(), blank()]);
    line
}

fn answer(measured: &Measured, question: Question) -> f64 {
    match question {
        Question::Bandwidth => measured.bandwidth.get(),
        Question::Requests => measured.requests.get(),
    }
}

fn processors(measured: &Measured, question: Question) -> Option<Processors> {
    match question {
        Question::Bandwidth => measured.processors,
        Question::Requests => measured.processors_random,
    }
}

pub(crate) fn amount(value: f64, question: Question) -> String {
    match question {
        Question::Bandwidth => Rate::bytes_per_second(value).to_string(),
        Question::Requests => count(value),
    }
}

fn cpu(processors: Option<Processors>) -> String {
    processors.map_or("-".into(), |processors| Ratio::new(processors.busy()).to_string())
}

fn count(number: f64) -> String {
    format!("{number:.0}")
}

/// How far repeats of the whole lie apart.
pub(crate) fn repeatability(survey: &Survey) -> String {
    let whole = survey.levels.last().expect("a survey has levels");
    let spread = |low: f64, high: f64, mean: f64| Ratio::new((high - low) / mean.max(1e-9));
    let line = |name: &str, measured: &Measured| {
        format!(
            "{name}: {} to {} ({}), {} to {} requests/s ({})\n",
            measured.low,
            measured.high,
            spread(measured.low.get(), measured.high.get(), measured.bandwidth.get()),
            count(measured.iops_low.get()),
            count(measured.iops_high.get()),
            spread(measured.iops_low.get(), measured.iops_high.get(), measured.requests.get()),
        )
    };
    let process = whole.process.as_ref().map_or(String::new(), |process| format!("  {}", line(PROCESS, process)));
    format!(
        "Lowest to highest of the repeats, all devices active:\n  {}  {}{process}",
        line("raw", &whole.raw),
        line("os", &whole.os)
    )
}
