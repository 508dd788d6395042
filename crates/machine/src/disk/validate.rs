//! Holding a modelled drive against the measured response times of a real one.
//!
//! The replay rule: one request outstanding; the first is issued at time zero, each following one at the *modelled*
//! completion of the one before plus the measured delay.

use units::{Duration, Instant};

use super::drive::{Drive, Request, Service};
use super::mechanism::Access;
use super::score::Score;
use super::trace::Measured;

/// One replayed request.
#[derive(Debug, Clone, Copy)]
pub struct Replayed {
    /// When it was issued.
    pub issued: Instant,
    /// What the model made of it.
    pub service: Service,
}

impl Replayed {
    /// The modelled response time.
    pub fn response(&self) -> Duration {
        self.service.completes.since(self.issued)
    }
}

/// Replays a trace.
pub fn replay(drive: &mut Drive, trace: &[Measured]) -> Vec<Replayed> {
    let mut issue = Instant::START;
    let mut replayed = Vec::with_capacity(trace.len());
    for request in trace {
        let Measured { access, block, blocks, .. } = *request;
        let service = drive.serve(issue, Request::new(access, block, blocks));
        replayed.push(Replayed { issued: issue, service });
        issue = service.completes + request.think;
    }
    replayed
}

/// The three comparisons of a validation.
#[derive(Debug, Clone, Copy)]
pub struct Scores {
    /// All requests.
    pub pooled: Score,
    /// Reads only, if there are any.
    pub reads: Option<Score>,
    /// Writes only, if there are any.
    pub writes: Option<Score>,
}

/// Compares a replay with its trace. Panics if the trace is empty.
pub fn scores(trace: &[Measured], replayed: &[Replayed]) -> Scores {
    let pick = |wanted: Option<Access>| {
        let pairs =
            trace.iter().zip(replayed).filter(|(measured, _)| wanted.is_none_or(|access| measured.access == access));
        let (measured, modelled): (Vec<_>, Vec<_>) = pairs.map(|(m, r)| (m.response, r.response())).unzip();
        Score::of(&measured, &modelled)
    };
    Scores {
        pooled: pick(None).expect("a trace holds requests"),
        reads: pick(Some(Access::Read)),
        writes: pick(Some(Access::Write)),
    }
}
