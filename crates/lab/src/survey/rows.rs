//! The records of a survey: the rows of all its measurements in one log.
//!
//! The number of a measurement is the pass of its rows, its kind their stream.

use analysis::survey::{Access, Kind, Question};
use record::Log;
use units::{Duration, Instant};

use crate::runner::{Outcome, RunError};

/// Every kind of measurement, in the order of the streams of a survey's records.
const KINDS: [Kind; 10] = {
    const fn kind(access: Access, question: Question, writes: bool) -> Kind {
        Kind { access, question, writes }
    }
    [
        kind(Access::Raw, Question::Bandwidth, false),
        kind(Access::Raw, Question::Requests, false),
        kind(Access::Os, Question::Bandwidth, false),
        kind(Access::Os, Question::Requests, false),
        kind(Access::Raw, Question::Bandwidth, true),
        kind(Access::Raw, Question::Requests, true),
        kind(Access::Os, Question::Bandwidth, true),
        kind(Access::Os, Question::Requests, true),
        kind(Access::Process, Question::Bandwidth, false),
        kind(Access::Process, Question::Requests, false),
    ]
};

/// The streams of a survey's records: one for each kind of measurement.
pub fn streams() -> Vec<String> {
    let name = |kind: &Kind| {
        let access = match kind.access {
            Access::Raw => "raw",
            Access::Os => "os",
            Access::Process => "process",
        };
        let question = if kind.question == Question::Bandwidth { "sequential" } else { "random" };
        let direction = if kind.writes { "writes" } else { "reads" };
        format!("{access} {question} {direction}")
    };
    KINDS.iter().map(name).collect()
}

/// The stream of a kind.
pub(super) fn stream(kind: Kind) -> u16 {
    KINDS.iter().position(|other| *other == kind).expect("all kinds are listed") as u16
}

/// Where rows go.
pub(crate) struct Rows {
    log: Log,
    measured: u16,
}

impl Rows {
    pub fn new(log: Log) -> Rows {
        Rows { log, measured: 0 }
    }

    /// Keeps the rows of a measurement of these devices that began at some time of the whole, as those of a stream;
    /// gives when the last of its requests was over.
    pub fn keep(
        &mut self,
        (stream, devices): (u16, &[usize]),
        began: Duration,
        outcome: &Outcome,
    ) -> Result<Instant, RunError> {
        let (log, pass) = (&mut self.log, self.measured);
        self.measured = self.measured.saturating_add(1);
        let mut latest = Instant::START + began;
        outcome.recording.visit(|rows| {
            for row in rows {
                let mut row = *row;
                row.pass = pass;
                row.stream = stream;
                row.device = devices[usize::from(row.device)] as u16;
                for stamp in [&mut row.intended, &mut row.submitted, &mut row.completed] {
                    *stamp += began;
                }
                latest = latest.max(row.completed);
                log.push(row);
            }
            Ok::<(), record::RawError>(())
        })?;
        Ok(latest)
    }
}
