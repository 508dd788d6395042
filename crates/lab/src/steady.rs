//! Rounds until steady: a run that repeats its passes until the last of them agree, as SNIA's test specification asks
//! of flash drives.
//!
//! A round is a pass. `steady = {}` in `[run]` takes the rule of [`analysis::steady`]; the result is of the rounds of
//! the window, and the rounds before are what brought the device there. `[precondition]` writes the device through
//! before the first round (SNIA's workload-independent preconditioning: twice its capacity, in sequence, by 128 KiB).

use analysis::{SteadyRule, SteadyWindow};
use record::{Operation, Phase, Row};
use serde::{Deserialize, Serialize};
use toml::{Spanned, Table, Value};
use units::{Bytes, Duration, Ratio};
use workload::{Control, Flushes, Limits, Mix, Pattern, Region, Stream};

use crate::experiment::{Experiment, StreamPlan, Through};
use crate::source::{Source, SourceError};
use crate::written::text;

/// What must be steady, and how.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steady {
    /// The figure that is looked at.
    pub of: Figure,
    /// The rule.
    pub rule: SteadyRule,
}

/// What a round is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Requests a second.
    Iops,
    /// Bytes a second.
    Bandwidth,
    /// The mean response time, in seconds.
    Latency,
}

/// What is written before the first round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Precondition {
    /// How often the region of the streams is written through.
    pub laps: u32,
    /// By requests of this size.
    pub size: Bytes,
    /// With so many under way.
    pub depth: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct FileSteady {
    of: Option<Figure>,
    window: Option<Spanned<u16>>,
    range: Option<Ratio>,
    slope: Option<Ratio>,
    rounds: Option<Spanned<u16>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct FilePrecondition {
    laps: Option<Spanned<u32>>,
    size: Option<Spanned<Bytes>>,
    depth: Option<Spanned<u32>>,
}

/// Rounds at most, where nothing is said: SNIA's.
const ROUNDS: u16 = 25;

impl FileSteady {
    /// The rule, and the rounds at most.
    pub fn check(&self, source: &Source) -> Result<(Steady, u16), SourceError> {
        let snia = SteadyRule::snia();
        let window = self.window.as_ref().map_or(snia.window, |window| *window.get_ref());
        let rounds = self.rounds.as_ref().map_or(ROUNDS.max(window), |rounds| *rounds.get_ref());
        if let Some(given) = self.window.as_ref().filter(|_| window < 2) {
            return Err(source.error(given.span(), "a window has at least 2 rounds: one has no slope"));
        }
        if let Some(given) = self.rounds.as_ref().filter(|_| rounds < window) {
            return Err(source.error(given.span(), format!("`rounds` must be at least the window, {window}")));
        }
        let rule =
            SteadyRule { window, range: self.range.unwrap_or(snia.range), slope: self.slope.unwrap_or(snia.slope) };
        Ok((Steady { of: self.of.unwrap_or(Figure::Iops), rule }, rounds))
    }
}

impl FilePrecondition {
    pub fn check(self, source: &Source) -> Result<Precondition, SourceError> {
        let above = |what: &str, given: &Option<Spanned<u32>>, otherwise: u32, most: u32| match given {
            Some(given) if !(1..=most).contains(given.get_ref()) => {
                Err(source.error(given.span(), format!("`{what}` must be from 1 to {most}")))
            }
            given => Ok(given.as_ref().map_or(otherwise, |given| *given.get_ref())),
        };
        let size = match &self.size {
            Some(size) if size.get_ref().is_zero() || *size.get_ref() > Bytes::gib(1) => {
                return Err(source.error(size.span(), "`size` must be above zero and at most 1 GiB"));
            }
            size => size.as_ref().map_or(Bytes::kib(128), |size| *size.get_ref()),
        };
        let (laps, depth) = (above("laps", &self.laps, 2, 1000)?, above("depth", &self.depth, 16, 65_535)?);
        Ok(Precondition { laps, size, depth })
    }
}

impl Steady {
    /// As it is written in `[run]`.
    pub(crate) fn written(&self, rounds: u16) -> Value {
        let of = match self.of {
            Figure::Iops => "iops",
            Figure::Bandwidth => "bandwidth",
            Figure::Latency => "latency",
        };
        let entries = [
            ("of", of.into()),
            ("window", i64::from(self.rule.window).into()),
            ("range", text(self.rule.range)),
            ("slope", text(self.rule.slope)),
            ("rounds", i64::from(rounds).into()),
        ];
        Value::Table(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Table>())
    }
}

impl Precondition {
    pub(crate) fn written(&self) -> Value {
        let entries =
            [("laps", i64::from(self.laps).into()), ("size", text(self.size)), ("depth", i64::from(self.depth).into())];
        Value::Table(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Table>())
    }

    /// The experiment that does it: all that the streams of `whole` use, on all devices, written in sequence.
    pub(crate) fn experiment(&self, whole: &Experiment) -> Experiment {
        let regions = || whole.streams.iter().map(|plan| plan.stream.region);
        let start = regions().map(|region| region.start).min().unwrap_or(Bytes::ZERO);
        let end = regions().map(|region| region.length.map(|length| region.start + length));
        // One without an end reaches to the end of the device.
        let end = end.collect::<Option<Vec<_>>>().and_then(|ends| ends.into_iter().max());
        let pattern = Pattern::Sequential { from: Bytes::ZERO };
        let stream = Stream {
            region: Region { start, length: end.map(|end| end - start) },
            limits: Limits { laps: Some(self.laps), ..Limits::NONE },
            ..Stream::closed("precondition", Mix::WRITES, pattern, self.size, self.depth)
        };
        let mut experiment = whole.clone();
        experiment.precondition = None;
        experiment.run.steady = None;
        experiment.run.passes = 1;
        experiment.run.trace = false;
        (experiment.run.start_up, experiment.run.cool_down) = (Duration::ZERO, Duration::ZERO);
        experiment.run.measure = None;
        experiment.streams = vec![StreamPlan {
            stream,
            on: None,
            rate_limit: None,
            rates: [None; 2],
            through: Through::Device,
            script: None,
            flushes: Flushes::NONE,
        }];
        experiment
    }
}

/// What a round has done so far; one for each thread.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Done {
    requests: u64,
    bytes: u64,
    response: u64,
}

impl Done {
    /// Counts what counts.
    pub fn observe(&mut self, row: &Row) {
        if row.phase == Phase::Measure && row.errno == 0 && row.operation != Operation::Flush {
            self.requests += 1;
            self.bytes += u64::from(row.length);
            self.response += row.response().as_nanos();
        }
    }
}

/// The rounds of a run, as they come.
#[derive(Debug, Clone)]
pub struct Rounds {
    steady: Steady,
    open: Done,
    time: Duration,
    /// The figure of each round that was finished.
    pub values: Vec<f64>,
    /// How the last of them are.
    pub window: Option<SteadyWindow>,
}

impl Rounds {
    pub(crate) fn new(steady: Steady) -> Rounds {
        Rounds { steady, open: Done::default(), time: Duration::ZERO, values: Vec::new(), window: None }
    }

    /// What one thread did in the round that is on, whose counted part took `time`.
    pub(crate) fn add(&mut self, done: &Done, time: Duration) {
        self.open.requests += done.requests;
        self.open.bytes += done.bytes;
        self.open.response += done.response;
        self.time = time;
    }

    /// A pass of one thread is over. Says whether the last ones are steady.
    pub(crate) fn pass(&mut self, done: &Done, control: &Control) -> bool {
        if let Some(until) = control.counted_until() {
            self.add(done, until.saturating_since(control.counts_from()));
        }
        self.close()
    }

    /// The round is over, if one was on. Says whether the last ones are steady.
    pub(crate) fn close(&mut self) -> bool {
        let Done { requests, bytes, response } = std::mem::take(&mut self.open);
        let seconds = self.time.as_seconds();
        if seconds > 0.0 {
            self.values.push(match self.steady.of {
                Figure::Iops => requests as f64 / seconds,
                Figure::Bandwidth => bytes as f64 / seconds,
                Figure::Latency => response as f64 / 1e9 / requests.max(1) as f64,
            });
            self.window = analysis::steady(&self.values, &self.steady.rule);
            self.time = Duration::ZERO;
        }
        self.is_steady()
    }

    /// Whether the window is.
    pub fn is_steady(&self) -> bool {
        self.window.is_some_and(|window| window.steady)
    }

    /// The first pass whose requests count.
    pub(crate) fn first_pass(&self) -> u16 {
        self.window.map_or(0, |window| window.first as u16)
    }

    /// The rounds one by one, the window marked, and the judgement.
    pub fn lines(&self) -> Vec<String> {
        let figure = |value: f64| match self.steady.of {
            Figure::Iops => format!("{value:.0} requests/s"),
            Figure::Bandwidth => units::Rate::bytes_per_second(value).to_string(),
            Figure::Latency => Duration::from_seconds(value).to_string(),
        };
        let first = self.window.map_or(usize::MAX, |window| window.first);
        let line = |(index, value): (usize, &f64)| {
            format!("{} round {:>3}  {:>20}", if index >= first { "|" } else { " " }, index + 1, figure(*value))
        };
        let mut lines: Vec<String> = self.values.iter().enumerate().map(line).collect();
        let rule = self.steady.rule;
        lines.push(match self.window {
            Some(window) => format!(
                "{}: range {:.1} % of the average (at most {:.1} %), slope {:+.1} % over the window (at most {:.1} %); the result is of rounds {} to {}, marked |",
                if window.steady { "steady" } else { "not steady" },
                window.range * 100.0,
                rule.range.as_percent(),
                window.slope * 100.0,
                rule.slope.as_percent(),
                window.first + 1,
                self.values.len(),
            ),
            None => format!("not steady: {} rounds are no window of {}", self.values.len(), rule.window),
        });
        lines
    }
}
